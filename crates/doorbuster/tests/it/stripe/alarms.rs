//! What makes the alarms about Stripe happen.

use super::stand_in::StandIn;
use super::{CAPTURABLE, amount, command, id, notify, place, read, serve};
use crate::alarms::made::Alarm;
use crate::reload::wait_until;

/// Stripe takes a refund on, and reports later that it came to nothing.
pub(crate) fn refund_failed(alarm: &mut Alarm) {
    let stripe = StandIn::start();
    let server = serve(alarm.directory(), &stripe);
    alarm.is_quiet(&[&server]);
    let order = place(&server, "anna", 3, 29);
    let intent = stripe.authorised(id(&order), amount(&order), "EUR");
    notify(&server, &stripe.intent_event(CAPTURABLE, &intent));
    wait_until("it is captured", || stripe.money(&intent).0 == "succeeded");
    assert_eq!(command(alarm.directory(), &server, &["refunds", "create", id(&order)]).0, 0);
    wait_until("it is paid back", || stripe.money(&intent).2 == amount(&order));
    let refund = stripe.state().refunds.keys().next().unwrap().clone();
    stripe.state().refunds.get_mut(&refund).unwrap().status = "failed";
    notify(&server, &stripe.refund_event("refund.failed", &refund));
    alarm.is_seen(|| {});
    alarm.is_gone_in_an_hour();
}

pub(crate) fn authorisation_lost(alarm: &mut Alarm) {
    let stripe = StandIn::start();
    let server = serve(alarm.directory(), &stripe);
    alarm.is_quiet(&[&server]);
    let order = place(&server, "anna", 3, 29);
    let intent = stripe.authorised(id(&order), amount(&order), "EUR");
    let event = stripe.intent_event(CAPTURABLE, &intent);
    stripe.state().intents.get_mut(&intent).unwrap().status = "canceled";
    notify(&server, &event);
    alarm.is_seen(|| {});
    assert_eq!(read(&server, id(&order))["status"], "paid", "as the runbook says");
    alarm.is_gone_in_an_hour();
}
