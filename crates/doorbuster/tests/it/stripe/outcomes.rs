//! What a payment comes to that is late, short, too much, in another money or for nothing: one outcome each, as docs/shop.md has
//! it. And what is refunded.

use super::stand_in::{Fault, StandIn};
use super::{
    CAPTURABLE, Serving, amount, ask, audited, command, id, none_is_due, notify, operate, place, read,
    send_event, serve, settled, to_stripe, try_now,
};
use crate::reload::wait_until;
use serde_json::{Value, json};

/// Long enough to be led to Stripe on a busy machine.
const HOLD_S: u64 = 8;

/// A sale whose holds are over soon, with so many units.
fn short_sale(server: &Serving, sale: u64, total: u64, payment_s: u64) {
    let item =
        json!({ "product": 1, "title": "Shoe", "price": 700, "list_price": 900, "total": total, "limit": 5 });
    let body = json!({ "id": sale, "title": "Drop", "currency": "EUR", "starts_at_ms": 0,
        "ends_at_ms": 4_000_000_000_000_u64, "payment_s": payment_s, "items": [item] });
    operate(server, "/api/v1/sales", &body);
}

fn is(server: &Serving, order: &str, status: &str) -> bool {
    read(server, order)["status"] == status
}

fn expired(server: &Serving, order: &Value) {
    wait_until("it expires", || is(server, id(order), "expired"));
}

/// Stripe reports that an intent is authorised: what it comes to.
fn authorised(server: &Serving, stripe: &StandIn, order: &str, amount: u64) -> (String, Value) {
    let intent = stripe.authorised(order, amount, "EUR");
    let result = notify(server, &stripe.intent_event(CAPTURABLE, &intent));
    (intent, result)
}

#[test]
fn what_pays_for_nothing_is_voided_and_settled() {
    let (directory, stripe) = (tempfile::tempdir().unwrap(), StandIn::start());
    let server = serve(directory.path(), &stripe);
    let voided = |intent: &str, due: &Value, reason: &str| {
        assert_eq!((&due["result"], &due["reason"]), (&json!("refund_due"), &json!(reason)));
        wait_until("it is voided", || stripe.money(intent) == ("canceled", 0, 0));
        wait_until("it is settled", || none_is_due(directory.path(), &server));
    };
    let paid = |intent: &str, result: &Value, amount: u64| {
        assert_eq!(result["result"], "paid");
        wait_until("it is captured", || stripe.money(intent) == ("succeeded", amount, 0));
    };
    // Twice.
    let order = place(&server, "anna", 3, 29);
    let (first, result) = authorised(&server, &stripe, id(&order), amount(&order));
    paid(&first, &result, amount(&order));
    let (second, due) = authorised(&server, &stripe, id(&order), amount(&order));
    voided(&second, &due, "already_paid");
    assert_eq!(stripe.money(&first), ("succeeded", amount(&order), 0));
    // Short, and too much; then the right amount.
    let order = place(&server, "bert", 3, 29);
    for wrong in [amount(&order) - 1, amount(&order) + 1] {
        let (intent, due) = authorised(&server, &stripe, id(&order), wrong);
        voided(&intent, &due, "amount_differs");
        assert!(is(&server, id(&order), "held"));
    }
    // In another money: nothing is recorded.
    let intent = stripe.authorised(id(&order), amount(&order), "USD");
    assert_eq!(notify(&server, &stripe.intent_event(CAPTURABLE, &intent)), json!({ "result": "done" }));
    assert_eq!(stripe.money(&intent), ("canceled", 0, 0), "before it is answered");
    assert!(is(&server, id(&order), "held") && none_is_due(directory.path(), &server));
    let (intent, result) = authorised(&server, &stripe, id(&order), amount(&order));
    paid(&intent, &result, amount(&order));
    // Cancelled.
    let order = place(&server, "cleo", 3, 29);
    let session = to_stripe(&server, id(&order));
    ask(&server, "POST", &format!("/api/v1/orders/{}/cancel", id(&order)), &[("memberId", "cleo")], "");
    wait_until("its session is closed", || stripe.state().sessions[&session].status == "expired");
    let (intent, due) = authorised(&server, &stripe, id(&order), amount(&order));
    voided(&intent, &due, "cancelled");
    // Unknown.
    let (intent, due) = authorised(&server, &stripe, &"f".repeat(40), 50);
    voided(&intent, &due, "unknown_order");
    wait_until("nothing waits", || settled(&server));
    assert_eq!(server.stop(), 0);
    audited(directory.path());
}

#[test]
fn what_comes_after_the_hold_is_paid_if_there_are_units() {
    let (directory, stripe) = (tempfile::tempdir().unwrap(), StandIn::start());
    let server = serve(directory.path(), &stripe);
    short_sale(&server, 71, 1, HOLD_S);
    // With its session open until then, which is closed with it.
    let order = place(&server, "anna", 71, 1);
    let session = to_stripe(&server, id(&order));
    expired(&server, &order);
    wait_until("its session is closed", || stripe.state().sessions[&session].status == "expired");
    // The unit is taken again.
    let (intent, result) = authorised(&server, &stripe, id(&order), 700);
    assert_eq!(result["result"], "paid");
    wait_until("it is captured", || stripe.money(&intent) == ("succeeded", 700, 0));
    // Sold out, for another has it; the sale is over.
    short_sale(&server, 72, 1, 1);
    let late = place(&server, "anna", 72, 1);
    expired(&server, &late);
    let other = place(&server, "bert", 72, 1);
    let (of_other, result) = authorised(&server, &stripe, id(&other), 700);
    assert_eq!(result["result"], "paid");
    operate(&server, "/api/v1/sales/72/end", &json!({}));
    let (intent, due) = authorised(&server, &stripe, id(&late), 700);
    assert_eq!((&due["result"], &due["reason"]), (&json!("refund_due"), &json!("expired_sold_out")));
    wait_until("it is voided", || stripe.money(&intent) == ("canceled", 0, 0));
    wait_until("it is settled", || none_is_due(directory.path(), &server));
    wait_until("the other is captured", || stripe.money(&of_other) == ("succeeded", 700, 0));
    // For a sale that is over, with units: as above.
    short_sale(&server, 73, 1, 1);
    let last = place(&server, "anna", 73, 1);
    expired(&server, &last);
    operate(&server, "/api/v1/sales/73/end", &json!({}));
    let (intent, result) = authorised(&server, &stripe, id(&last), 700);
    assert_eq!(result["result"], "paid");
    wait_until("it is captured", || stripe.money(&intent) == ("succeeded", 700, 0));
    assert_eq!(server.stop(), 0);
    audited(directory.path());
}

/// Authorised before the hold was over, and the webhook never came: the end of the hold finds it.
#[test]
fn a_webhook_that_never_came_is_made_up_for_when_the_hold_ends() {
    let (directory, stripe) = (tempfile::tempdir().unwrap(), StandIn::start());
    let server = serve(directory.path(), &stripe);
    short_sale(&server, 71, 1, HOLD_S);
    let order = place(&server, "anna", 71, 1);
    let intent = stripe.authorise(&to_stripe(&server, id(&order)));
    wait_until("it is captured", || stripe.money(&intent) == ("succeeded", 700, 0));
    assert!(is(&server, id(&order), "paid"));
    assert_eq!(server.stop(), 0);
    audited(directory.path());
}

/// Paid back, the answer lost, the server killed, and Stripe's idempotency keys gone by the time that it is tried again.
#[test]
fn a_refund_whose_answer_was_lost_is_not_paid_twice() {
    let (directory, stripe) = (tempfile::tempdir().unwrap(), StandIn::start());
    let server = serve(directory.path(), &stripe);
    let order = place(&server, "anna", 3, 29);
    let total = amount(&order);
    let (intent, _) = authorised(&server, &stripe, id(&order), total);
    wait_until("it is captured", || stripe.money(&intent).0 == "succeeded");
    stripe.set(Fault::Deaf);
    let create = ["refunds", "create", id(&order), "--amount", "100", "--id", "r"];
    assert_eq!(command(directory.path(), &server, &create).0, 0);
    wait_until("it is paid back", || stripe.money(&intent) == ("succeeded", total, 100));
    assert!(!none_is_due(directory.path(), &server), "nobody knows");
    server.kill();
    stripe.set(Fault::None);
    stripe.forget_keys();
    let server = serve(directory.path(), &stripe);
    try_now(directory.path(), &server);
    wait_until("it is settled", || none_is_due(directory.path(), &server));
    assert_eq!(stripe.money(&intent), ("succeeded", total, 100));
    assert_eq!(read(&server, id(&order))["refunded"], 100);
    assert_eq!(server.stop(), 0);
    audited(directory.path());
}

#[test]
fn refunds_go_to_stripe_and_come_from_there() {
    let (directory, stripe) = (tempfile::tempdir().unwrap(), StandIn::start());
    let server = serve(directory.path(), &stripe);
    let order = place(&server, "anna", 3, 29);
    let total = amount(&order);
    let (intent, _) = authorised(&server, &stripe, id(&order), total);
    wait_until("it is captured", || stripe.money(&intent).0 == "succeeded");
    // A part that an operator asks for: paid back and settled.
    let (code, _, errors) = command(
        directory.path(),
        &server,
        &["refunds", "create", id(&order), "--amount", "100", "--id", &"r".repeat(255)],
    );
    assert_eq!(code, 0, "{errors}");
    wait_until("it is paid back", || stripe.money(&intent) == ("succeeded", total, 100));
    wait_until("it is settled", || none_is_due(directory.path(), &server));
    // What Stripe says of it changes nothing; what was refunded by hand is recorded.
    let ours = stripe.state().refunds.keys().next().unwrap().clone();
    notify(&server, &stripe.refund_event("refund.created", &ours));
    assert_eq!(read(&server, id(&order))["refunded"], 100);
    let by_hand = stripe.refund_by_hand(&intent, 50);
    for kind in ["refund.created", "refund.updated"] {
        assert_eq!(notify(&server, &stripe.refund_event(kind, &by_hand)), json!({ "result": "done" }));
        assert_eq!(read(&server, id(&order))["refunded"], 150);
    }
    // The rest.
    assert_eq!(command(directory.path(), &server, &["refunds", "create", id(&order)]).0, 0);
    wait_until("all is paid back", || stripe.money(&intent) == ("succeeded", total, total));
    wait_until("it is settled", || none_is_due(directory.path(), &server));
    assert!(is(&server, id(&order), "refunded"));
    // Sent again, it is done already.
    try_now(directory.path(), &server);
    wait_until("nothing waits", || settled(&server));
    assert_eq!(stripe.money(&intent), ("succeeded", total, total));
    // A refund that failed after all is an alarm.
    stripe.state().refunds.get_mut(&ours).unwrap().status = "failed";
    notify(&server, &stripe.refund_event("refund.failed", &ours));
    let metrics = ask(&server, "GET", "/metrics", &[], "");
    assert!(metrics.body.contains("doorbuster_stripe_refunds_failed_total 1"), "{}", metrics.body);
    assert_eq!(send_event(&server, &json!({ "type": "x" })).status, 400);
    assert_eq!(server.stop(), 0);
    audited(directory.path());
}

/// Stripe sends each event to every server that has an endpoint at the account.
#[test]
fn two_ledgers_at_one_account_leave_each_others_payments_alone() {
    let (one, other, stripe) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap(), StandIn::start());
    let (server, stranger) = (serve(one.path(), &stripe), serve(other.path(), &stripe));
    let order = place(&server, "anna", 3, 29);
    let intent = stripe.authorise(&to_stripe(&server, id(&order)));
    let event = stripe.intent_event(CAPTURABLE, &intent);
    assert_eq!(notify(&stranger, &event), json!({ "result": "ignored" }));
    assert_eq!(stripe.money(&intent).0, "requires_capture");
    assert_eq!(notify(&server, &event)["result"], "paid");
    wait_until("it is captured", || stripe.money(&intent) == ("succeeded", amount(&order), 0));
    let by_hand = stripe.refund_by_hand(&intent, 50);
    let refund = stripe.refund_event("refund.created", &by_hand);
    assert_eq!(notify(&stranger, &refund), json!({ "result": "done" }));
    assert!(none_is_due(other.path(), &stranger));
    assert_eq!(notify(&server, &refund), json!({ "result": "done" }));
    assert_eq!(read(&server, id(&order))["refunded"], 50);
    for (server, directory) in [(server, one), (stranger, other)] {
        assert_eq!(server.stop(), 0);
        audited(directory.path());
    }
}

/// What somebody did at Stripe by hand, and what Stripe says of a void, never keeps a webhook failing.
#[test]
fn captured_by_hand_for_less_and_voided_is_heard_and_answered() {
    let (directory, stripe) = (tempfile::tempdir().unwrap(), StandIn::start());
    let server = serve(directory.path(), &stripe);
    let order = place(&server, "anna", 3, 29);
    let total = amount(&order);
    let intent = stripe.authorised(id(&order), total, "EUR");
    let authorised_event = stripe.intent_event(CAPTURABLE, &intent);
    {
        let mut state = stripe.state();
        let intent = state.intents.get_mut(&intent).unwrap();
        (intent.status, intent.received) = ("succeeded", total - 100);
    }
    assert_eq!(notify(&server, &authorised_event)["result"], "paid");
    assert_eq!(
        notify(&server, &stripe.intent_event("payment_intent.succeeded", &intent)),
        json!({ "result": "ignored" })
    );
    let by_hand = stripe.refund_by_hand(&intent, 50);
    assert_eq!(
        notify(&server, &stripe.refund_event("refund.created", &by_hand)),
        json!({ "result": "done" })
    );
    assert_eq!(read(&server, id(&order))["refunded"], 50);
    // Of one that was voided; nothing is recorded of it.
    let unknown = stripe.authorised(&"f".repeat(40), 70, "EUR");
    stripe.state().intents.get_mut(&unknown).unwrap().status = "canceled";
    let of_void = stripe.refund_by_hand(&unknown, 70);
    assert_eq!(
        notify(&server, &stripe.refund_event("refund.created", &of_void)),
        json!({ "result": "done" })
    );
    assert!(none_is_due(directory.path(), &server));
    // Part of what pays for nothing went back by hand: the rest follows.
    let second = stripe.authorised(id(&order), total, "EUR");
    {
        let mut state = stripe.state();
        let second = state.intents.get_mut(&second).unwrap();
        (second.status, second.received) = ("succeeded", total);
    }
    stripe.refund_by_hand(&second, 30);
    let due = notify(&server, &stripe.intent_event("payment_intent.succeeded", &second));
    assert_eq!((&due["result"], &due["reason"]), (&json!("refund_due"), &json!("already_paid")));
    wait_until("the rest is paid back", || stripe.money(&second) == ("succeeded", total, total));
    wait_until("it is settled", || none_is_due(directory.path(), &server));
    assert_eq!(server.stop(), 0);
    audited(directory.path());
}
