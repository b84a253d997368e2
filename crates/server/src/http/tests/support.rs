//! Support: an order by its number, what became of it and who did that, and a refund that is noted.

use engine::{OrderId, Pay, Role};
use serde_json::{Value, json};

use super::operators::{bearer, with};
use super::problem;
use super::shop::{Sent, Setup, Shop, demo_mode};

const FIND: &str = "/api/v1/support/orders";

fn shop() -> Shop {
    let mut setup = Setup::new(demo_mode());
    setup.ledger = true;
    Shop::with(setup)
}

/// An order of a buyer, as its page reads it.
fn place(shop: &mut Shop, key: &str) -> Value {
    let sent = Sent::post("/api/v1/orders", r#"{"sale":3,"product":29,"quantity":2}"#).member(7).key(key);
    let placed = shop.send(&sent).json();
    assert_eq!(placed.get("number"), None, "the answer to an order is as short as it can be");
    shop.send(&Sent::get(&format!("/api/v1/orders/{}", placed["id"].as_str().unwrap())).member(7)).json()
}

fn pay(shop: &mut Shop, order: &Value, payment: &str) {
    let id: OrderId = order["id"].as_str().unwrap().parse().unwrap();
    let amount = order["amount"].as_u64().unwrap();
    shop.execute(engine::Command::Pay(Pay { id: payment.into(), order: id, amount }));
}

/// What of each step is said: what, by whom and why, and which payment.
fn said(found: &Value) -> Vec<(&str, &str, &str, &str)> {
    let steps = found["life"].as_array().unwrap().iter();
    steps
        .map(|step| {
            let text = |name: &str| step.get(name).and_then(Value::as_str).unwrap_or("-");
            (text("what"), text("by"), text("why"), text("payment_id"))
        })
        .collect()
}

#[test]
fn support_finds_an_order_by_its_number_and_cancels_it() {
    let mut shop = shop();
    let sam = bearer(&mut shop, "sam", Role::Support, None);
    let order = place(&mut shop, "k");
    let number = order["number"].as_str().unwrap().to_owned();
    let find = |shop: &mut Shop, typed: &str| shop.send(&with(Sent::get(&format!("{FIND}/{typed}")), &sam));
    let typed = number.to_lowercase().replace('-', "%20");
    for typed in [&number, &typed] {
        let found = find(&mut shop, typed);
        assert_eq!(found.status, 200, "{}", found.text());
        let mut as_read = order.clone();
        as_read.as_object_mut().unwrap().remove("pay_url");
        assert_eq!(found.json()["order"], as_read);
        assert_eq!(said(&found.json()), [("placed", "-", "-", "-")]);
    }
    let cancel = format!("/api/v1/orders/{}/cancel", order["id"].as_str().unwrap());
    let cancel = with(Sent::post(&cancel, ""), &sam).with("Operator-Reason", "ordered%20twice");
    for _ in 0..2 {
        assert_eq!(shop.send(&cancel).json()["status"], "cancelled");
    }
    let found = find(&mut shop, &number).json();
    assert_eq!(found["order"]["status"], "cancelled");
    assert_eq!(said(&found), [("placed", "-", "-", "-"), ("cancelled", "sam", "ordered twice", "-")]);
    // A buyer's own is nobody else's.
    let order = place(&mut shop, "k2");
    let cancel = format!("/api/v1/orders/{}/cancel", order["id"].as_str().unwrap());
    assert_eq!(shop.send(&Sent::post(&cancel, "").member(7)).status, 200);
    let found = find(&mut shop, order["number"].as_str().unwrap()).json();
    assert_eq!(said(&found), [("placed", "-", "-", "-"), ("cancelled", "-", "-", "-")]);
}

#[test]
fn a_refund_is_asked_for_or_noted_and_the_life_of_the_order_says_by_whom() {
    let mut shop = shop();
    let sam = bearer(&mut shop, "sam", Role::Support, None);
    let order = place(&mut shop, "k");
    pay(&mut shop, &order, "pay_1");
    let id = order["id"].as_str().unwrap();
    let refund = |body: Value, why: &str| {
        with(Sent::post(&format!("/api/v1/orders/{id}/refund"), &body.to_string()), &sam)
            .with("Operator-Reason", why)
    };
    let due = shop.send(&refund(json!({ "refund_id": "re_1", "amount": 100 }), "late")).json();
    assert_eq!(due["result"], "refund_due");
    let settle = with(Sent::post("/api/v1/payments/re_1/settle", ""), &sam).with("Operator-Reason", "paid");
    assert_eq!(shop.send(&settle).json()["result"], "settled");
    // What was given back by hand is noted in one step, once, however often it is sent.
    for _ in 0..2 {
        let noted = refund(json!({ "refund_id": "bank 7", "made": true, "units": 1 }), "broken");
        assert_eq!(shop.send(&noted).json()["result"], "settled");
    }
    let found = shop.send(&with(Sent::get(&format!("{FIND}/{}", order["number"].as_str().unwrap())), &sam));
    let found = found.json();
    let expected = [
        ("placed", "-", "-", "-"),
        ("paid", "-", "-", "pay_1"),
        ("refund_due", "sam", "late", "re_1"),
        ("refund_made", "sam", "paid", "re_1"),
        ("refund_made", "sam", "broken", "bank 7"),
        ("refunded", "sam", "broken", "-"),
    ];
    assert_eq!(said(&found), expected);
    let rest = order["amount"].as_u64().unwrap() - 100;
    assert_eq!((&found["life"][4]["amount"], &found["life"][4]["units"]), (&json!(rest), &json!(1)));
    assert_eq!((&found["order"]["refund_due"], &found["more"]), (&json!(false), &json!(false)));
}

#[test]
fn a_number_that_leads_to_no_order_is_answered_clearly() {
    let mut shop = shop();
    let sam = bearer(&mut shop, "sam", Role::Support, None);
    let order = place(&mut shop, "k");
    let number = order["number"].as_str().unwrap();
    let mut find = |typed: &str| shop.send(&with(Sent::get(&format!("{FIND}/{typed}")), &sam)).problem();
    for none in ["", "nonsensical", "K7QM-3X9", "K7QM-3X9F0", "%zz", order["id"].as_str().unwrap()] {
        assert_eq!(find(none), problem(400, "invalid_request"), "{none}");
    }
    // One letter off, another shop's, and of entries that are no orders.
    let other = if number.ends_with('0') { "1" } else { "0" };
    let numbers = crate::http::placing::order_number::OrderNumbers::new([7; 16]);
    let of_the_sale = numbers.of(engine::Seq(1)).unwrap();
    for unknown in [&format!("{}{other}", &number[..8]), "K7QM-3X9F", of_the_sale.as_str()] {
        assert_eq!(find(unknown), problem(404, "unknown_order"), "{unknown}");
    }
}
