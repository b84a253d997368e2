//! In a cluster any server hears Stripe, and one of them captures: another goes on when it is killed.

use serde_json::{Value, json};

use super::stand_in::{Fault, StandIn};
use super::{CAPTURABLE, Serving, none_is_due, section, send_event, settled, standing, to_stripe};
use crate::cluster;
use crate::reload::wait_until;

/// Stripe sends it until it is answered well.
fn notify(server: &Serving, event: &Value) -> Value {
    let mut answer = None;
    wait_until("Stripe is heard", || {
        answer = Some(send_event(server, event)).filter(|answer| answer.status == 200);
        answer.is_some()
    });
    answer.expect("it was waited for").json()
}

#[test]
fn any_server_hears_stripe_and_what_is_due_there_survives_a_killed_one() {
    let (directory, stripe) = (tempfile::tempdir().unwrap(), StandIn::start());
    let directory = directory.path();
    cluster::configure(directory, "striped", &section(directory, &stripe));
    let (first, second) = (cluster::serve(directory), cluster::serve(directory));
    let is_here = |server: &Serving| standing(server)["here"] == json!(true);
    wait_until("one has the task", || is_here(&first) || is_here(&second));
    let (here, other) = if is_here(&first) { (first, second) } else { (second, first) };
    let pay = |server: &Serving, buyer: u64| {
        let order = cluster::accepted(server, buyer, &format!("key-{buyer}"), 30);
        assert_eq!(cluster::read(server, buyer, &order)["status"], "held");
        let intent = stripe.authorise(&to_stripe(server, &order));
        assert_eq!(notify(server, &stripe.intent_event(CAPTURABLE, &intent))["result"], "paid");
        (order, intent)
    };
    let captured = |intent: &str| stripe.money(intent).0 == "succeeded";
    for (buyer, server) in [(1, &here), (2, &other)] {
        let (_, intent) = pay(server, buyer);
        wait_until("it is captured", || captured(&intent));
    }
    let (order, intent) = pay(&other, 3);
    stripe.set(Fault::Away);
    let again = stripe.authorised(&order, 1, "EUR");
    assert_eq!(notify(&other, &stripe.intent_event(CAPTURABLE, &again))["result"], "refund_due");
    here.kill();
    stripe.set(Fault::None);
    wait_until("the other captures and voids", || captured(&intent) && stripe.money(&again).0 == "canceled");
    wait_until("it is settled", || none_is_due(directory, &other) && settled(&other));
    assert_eq!(stripe.intent(&intent).captures, 1);
    cluster::audit(directory);
    assert_eq!(other.stop(), 0);
}
