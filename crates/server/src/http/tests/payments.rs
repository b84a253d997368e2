//! Payments: the signed callback, what is due back, and that it is reported once.

use ring::hmac;
use serde_json::{Value, json};

use super::shop::{NOW, SECRET, Sent, Setup, Shop, demo_mode};
use super::{Response, problem};
use crate::http::{AuthMode, PayPage};

pub(super) fn callback(body: &Value) -> Sent {
    signed(&body.to_string(), NOW.0 / 1000)
}

pub(super) fn signed(body: &str, at_s: u64) -> Sent {
    signed_to("/api/v1/payments", body, at_s)
}

fn signed_to(path: &str, body: &str, at_s: u64) -> Sent {
    let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, SECRET), format!("{at_s}.{body}").as_bytes());
    let hex: String = tag.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    Sent::post(path, body).with("Doorbuster-Signature", &format!("t={at_s},v1={hex}"))
}

fn place(shop: &mut Shop) -> String {
    let placed = shop.send(&Sent::post("/api/v1/orders", r#"{"sale":3,"product":30}"#).member(7));
    placed.json()["id"].as_str().unwrap().to_owned()
}

fn result(response: &Response) -> (Value, Value) {
    assert_eq!(response.status, 200, "{}", response.text());
    let body = response.json();
    (body["result"].clone(), body["reason"].clone())
}

#[test]
fn a_callback_pays_its_order_once() {
    let mut shop = Shop::new(AuthMode::MemberId);
    let id = place(&mut shop);
    let pay = json!({"payment_id": "p1", "order": id, "amount": 499_900});
    let first = shop.send(&callback(&pay));
    assert_eq!(result(&first), (json!("paid"), Value::Null));
    assert_eq!((&first.json()["payment_id"], &first.json()["order"]), (&json!("p1"), &json!(id)));
    assert_eq!(shop.send(&callback(&pay)).body, first.body);
    let order = shop.send(&Sent::get(&format!("/api/v1/orders/{id}")).member(7)).json();
    assert_eq!(order["status"], "paid");
    let other = json!({"payment_id": "p1", "order": id, "amount": 1});
    assert_eq!(shop.send(&callback(&other)).problem(), problem(409, "payment_conflict"));
}

#[test]
fn what_was_paid_in_another_currency_pays_for_nothing_and_is_not_recorded() {
    let mut shop = Shop::new(AuthMode::MemberId);
    let id = place(&mut shop);
    let pay = |currency: &str| {
        callback(&json!({"payment_id": "p1", "order": id, "amount": 499_900, "currency": currency}))
    };
    for other in ["JPY", "", "EURO"] {
        assert_eq!(shop.send(&pay(other)).problem(), problem(422, "currency_differs"), "{other}");
    }
    let due = shop.send(&Sent::get("/api/v1/payments/refunds-due").operator()).json();
    assert_eq!(due["payments"], json!([]));
    let read = Sent::get(&format!("/api/v1/orders/{id}")).member(7);
    assert_eq!(shop.send(&read).json()["status"], "held");
    assert_eq!(result(&shop.send(&pay("eur"))), (json!("paid"), Value::Null));
    // A callback that names none, as before, is the same payment.
    let plain = json!({"payment_id": "p1", "order": id, "amount": 499_900});
    assert_eq!(result(&shop.send(&callback(&plain))), (json!("paid"), Value::Null));
}

#[test]
fn payments_go_on_while_nobody_knows_what_time_it_is() {
    let mut shop = Shop::new(AuthMode::MemberId);
    let id = place(&mut shop);
    // One of the two clocks may be right, or neither: the wall's says NOW still.
    shop.shared.clock.stand_at(NOW.plus(7_200_000));
    let pay = json!({"payment_id": "p1", "order": id, "amount": 499_900}).to_string();
    let now_s = NOW.0 / 1000;
    assert_eq!(shop.send(&signed(&pay, now_s - 301)).problem(), problem(401, "invalid_signature"));
    assert_eq!(result(&shop.send(&signed(&pay, now_s - 300))), (json!("paid"), Value::Null));
    for later_s in [now_s, now_s + 7_200, now_s + 100 * 86_400] {
        assert_eq!(result(&shop.send(&signed(&pay, later_s))), (json!("paid"), Value::Null));
    }
}

#[test]
fn what_pays_for_nothing_is_due_back_until_it_is_settled() {
    let mut shop = Shop::new(AuthMode::MemberId);
    let id = place(&mut shop);
    let short = json!({"payment_id": "p/1 \"a\"", "order": id, "amount": 5});
    assert_eq!(result(&shop.send(&callback(&short))), (json!("refund_due"), json!("amount_differs")));
    let early = json!({"payment_id": "p2", "order": "0".repeat(40), "amount": 5});
    assert_eq!(result(&shop.send(&callback(&early))), (json!("refund_due"), json!("unknown_order")));
    let due = Sent::get("/api/v1/payments/refunds-due").operator();
    assert_eq!(shop.send(&due).json()["payments"].as_array().unwrap().len(), 2);
    for _ in 0..2 {
        let settle = Sent::post("/api/v1/payments/p%2F1%20%22a%22/settle", "").operator();
        assert_eq!(result(&shop.send(&settle)), (json!("settled"), json!("amount_differs")));
    }
    assert_eq!(shop.send(&due).json()["payments"].as_array().unwrap().len(), 1);
    let unknown = Sent::post("/api/v1/payments/p3/settle", "").operator();
    assert_eq!(shop.send(&unknown).problem(), problem(404, "unknown_payment"));
    let broken = Sent::post("/api/v1/payments/%zz/settle", "").operator();
    assert_eq!(shop.send(&broken).problem(), problem(400, "invalid_request"));
}

#[test]
fn a_late_payment_takes_units_again() {
    let mut shop = Shop::new(demo_mode());
    let id = place(&mut shop);
    shop.advance(60_001);
    let read = Sent::get(&format!("/api/v1/orders/{id}")).member(7);
    assert_eq!(shop.send(&read).json()["status"], "expired");
    let paid = shop.send(&Sent::post(&format!("/api/v1/orders/{id}/pay"), "").member(7));
    assert_eq!((paid.status, &paid.json()["status"]), (200, &json!("paid")));
}

const PRICE: u64 = 499_900;

fn cancel(shop: &mut Shop, id: &str) {
    let cancelled = shop.send(&Sent::post(&format!("/api/v1/orders/{id}/cancel"), "").member(7));
    assert_eq!(cancelled.status, 200, "{}", cancelled.text());
}

fn end_sale(shop: &mut Shop) {
    assert_eq!(shop.send(&Sent::post("/api/v1/sales/3/end", "").operator()).status, 200);
}

fn others_buy_all(shop: &mut Shop) {
    for buyer in [8, 9] {
        let sent = Sent::post("/api/v1/orders", r#"{"sale":3,"product":30}"#).member(buyer);
        assert_eq!(shop.send(&sent).status, 201);
    }
}

/// The table of docs/shop.md.
#[test]
fn every_payment_has_one_outcome() {
    type Before<'a> = &'a dyn Fn(&mut Shop, &str);
    let rows: [(&str, Before<'_>, u64, Option<&str>); 13] = [
        ("in time", &|_, _| (), PRICE, None),
        ("in the hold's last millisecond", &|shop, _| shop.advance(59_999), PRICE, None),
        ("expired, units are there", &|shop, _| shop.advance(60_000), PRICE, None),
        ("expired long ago, units are there", &|shop, _| shop.advance(240_000), PRICE, None),
        (
            "expired, sold out",
            &|shop, _| {
                shop.advance(60_000);
                others_buy_all(shop);
            },
            PRICE,
            Some("expired_sold_out"),
        ),
        (
            "expired, and the buyer has another order",
            &|shop, _| {
                shop.advance(60_000);
                place(shop);
            },
            PRICE,
            Some("expired_over_limit"),
        ),
        ("cancelled", &|shop, id| cancel(shop, id), PRICE, Some("cancelled")),
        ("too little", &|_, _| (), PRICE - 1, Some("amount_differs")),
        ("too much", &|_, _| (), PRICE + 1, Some("amount_differs")),
        ("nothing", &|_, _| (), 0, Some("amount_differs")),
        ("the sale is over, the hold is not", &|shop, _| end_sale(shop), PRICE, None),
        (
            "the sale is over, the order expired",
            &|shop, _| {
                end_sale(shop);
                shop.advance(240_000);
            },
            PRICE,
            None,
        ),
        (
            "paid already",
            &|shop, id| {
                let first = json!({"payment_id": "p0", "order": id, "amount": PRICE});
                assert_eq!(result(&shop.send(&callback(&first))).0, "paid");
            },
            PRICE,
            Some("already_paid"),
        ),
    ];
    for (what, before, amount, reason) in rows {
        let mut shop = Shop::new(AuthMode::MemberId);
        let id = place(&mut shop);
        before(&mut shop, &id);
        let pay = json!({"payment_id": "p1", "order": id, "amount": amount});
        let expected = match reason {
            None => (json!("paid"), Value::Null),
            Some(reason) => (json!("refund_due"), json!(reason)),
        };
        for again in [false, true] {
            assert_eq!(result(&shop.send(&callback(&pay))), expected, "{what}, again: {again}");
        }
    }
}

fn place_two(shop: &mut Shop) -> String {
    let order = Sent::post("/api/v1/orders", r#"{"sale":3,"product":29,"quantity":2}"#).member(7);
    let id = shop.send(&order).json()["id"].as_str().unwrap().to_owned();
    let pay = json!({"payment_id": "p1", "order": id, "amount": 2 * PRICE});
    assert_eq!(result(&shop.send(&callback(&pay))).0, "paid");
    id
}

fn refund(shop: &mut Shop, id: &str, wanted: &Value) -> Response {
    shop.send(&Sent::post(&format!("/api/v1/orders/{id}/refund"), &wanted.to_string()).operator())
}

fn available(shop: &mut Shop) -> u64 {
    let stock = shop.send(&Sent::get("/api/v1/stock?sale=3&product=29")).json();
    stock["available"].as_u64().unwrap()
}

#[test]
fn a_paid_order_is_refunded_by_an_operator_in_parts_until_nothing_is_left() {
    let mut shop = Shop::new(AuthMode::MemberId);
    let id = place_two(&mut shop);
    let before = available(&mut shop);
    let read = Sent::get(&format!("/api/v1/orders/{id}")).member(7);
    assert_eq!(shop.send(&read).json()["refunded"], Value::Null);
    for turning in ["re\n1", "re\u{202e}1"] {
        let asked = refund(&mut shop, &id, &json!({ "refund_id": turning, "made": true }));
        assert_eq!(asked.problem(), problem(400, "invalid_request"), "{turning:?}");
    }
    let part = json!({"refund_id": "re/1", "amount": 100, "units": 1});
    for _again in [false, true] {
        let asked = refund(&mut shop, &id, &part);
        assert_eq!(result(&asked), (json!("refund_due"), json!("requested")));
        let body = asked.json();
        assert_eq!(
            (&body["amount"], &body["units"], &body["currency"]),
            (&json!(100), &json!(1), &json!("EUR"))
        );
        assert_eq!(available(&mut shop), before + 1);
    }
    let order = shop.send(&read).json();
    assert_eq!(
        (&order["status"], &order["refunded"], &order["refund_due"]),
        (&json!("paid"), &json!(100), &json!(true))
    );
    for (wanted, status, code) in [
        (json!({"refund_id": "re/1", "amount": 101, "units": 1}), 409, "payment_conflict"),
        (json!({"refund_id": "p1"}), 409, "payment_conflict"),
        (json!({"refund_id": "re2", "amount": 2 * PRICE}), 409, "refund_too_large"),
        (json!({"refund_id": "re2", "units": 2}), 409, "refund_too_large"),
        (json!({"refund_id": "re2", "amount": 0}), 422, "invalid_change"),
        (json!({"refund_id": ""}), 400, "invalid_request"),
        (json!({"refund_id": "re2", "amount": null}), 400, "invalid_body"),
        (json!({"refund_id": "re2", "units": -1}), 400, "invalid_body"),
        (json!({}), 400, "invalid_body"),
    ] {
        assert_eq!(refund(&mut shop, &id, &wanted).problem(), problem(status, code), "{wanted}");
    }
    let rest = refund(&mut shop, &id, &json!({"refund_id": "re2"}));
    assert_eq!((result(&rest).0, &rest.json()["amount"]), (json!("refund_due"), &json!(2 * PRICE - 100)));
    let order = shop.send(&read).json();
    assert_eq!((&order["status"], &order["refunded"]), (&json!("refunded"), &json!(2 * PRICE)));
    assert_eq!(
        refund(&mut shop, &id, &json!({"refund_id": "re3"})).problem(),
        problem(409, "not_refundable")
    );
    let due = Sent::get("/api/v1/payments/refunds-due").operator();
    assert_eq!(shop.send(&due).json()["payments"].as_array().unwrap().len(), 2);
    for payment in ["re%2F1", "re2"] {
        let settle = Sent::post(&format!("/api/v1/payments/{payment}/settle"), "").operator();
        assert_eq!(result(&shop.send(&settle)), (json!("settled"), json!("requested")));
    }
    let order = shop.send(&read).json();
    assert_eq!((&order["refund_due"], available(&mut shop)), (&json!(false), before + 1));
}

/// A read has no outcome: nothing has to be looked for before it is asked again.
#[test]
fn refunds_that_could_not_be_read_are_not_said_to_have_an_unknown_outcome() {
    let mut shop = Shop::new(AuthMode::MemberId);
    let due = Sent::get("/api/v1/payments/refunds-due").operator();
    shop.failing = true;
    let silent = shop.send(&due);
    assert_eq!(silent.problem(), problem(503, "ledger_unreadable"));
    assert_eq!(silent.json()["detail"], "It did not answer in 1 s. Nothing was changed: ask again.");
    shop.failing = false;
    assert_eq!(shop.send(&due).json()["payments"], json!([]));
}

#[test]
fn a_refund_that_the_provider_has_made_is_settled_whoever_asked_for_it() {
    let mut shop = Shop::new(AuthMode::MemberId);
    let id = place_two(&mut shop);
    let report = |made: &Value| signed_to("/api/v1/payments/refunds", &made.to_string(), NOW.0 / 1000);
    refund(&mut shop, &id, &json!({"refund_id": "asked", "amount": 100}));
    for (refund_id, amount) in [("asked", 100), ("unheard of", 200)] {
        for _again in [false, true] {
            let made = json!({"refund_id": refund_id, "order": id, "amount": amount, "currency": "eur"});
            assert_eq!(result(&shop.send(&report(&made))), (json!("settled"), json!("requested")));
        }
    }
    let read = shop.send(&Sent::get(&format!("/api/v1/orders/{id}")).member(7)).json();
    assert_eq!((&read["refunded"], &read["refund_due"]), (&json!(300), &json!(false)));
    let nobody = "0".repeat(40);
    for (made, status, code) in [
        (json!({"refund_id": "r", "order": id, "amount": 2 * PRICE}), 409, "refund_too_large"),
        (json!({"refund_id": "r", "order": id, "amount": 1, "currency": "JPY"}), 422, "currency_differs"),
        (json!({"refund_id": "r", "order": nobody, "amount": 1}), 404, "unknown_order"),
        (json!({"refund_id": "r", "order": id}), 400, "invalid_body"),
    ] {
        assert_eq!(shop.send(&report(&made)).problem(), problem(status, code), "{made}");
    }
    let unsigned = Sent::post("/api/v1/payments/refunds", "{}");
    assert_eq!(shop.send(&unsigned).problem(), problem(401, "invalid_signature"));
}

#[test]
fn only_signed_callbacks_are_heard() {
    let mut shop = Shop::new(AuthMode::MemberId);
    let body = json!({"payment_id": "p1", "order": "0".repeat(40), "amount": 5}).to_string();
    let at_s = NOW.0 / 1000;
    let mut changed = signed(&body, at_s);
    changed.body[20] ^= 1;
    for sent in [Sent::post("/api/v1/payments", &body), signed(&body, at_s - 301), changed] {
        assert_eq!(shop.send(&sent).problem(), problem(401, "invalid_signature"), "{sent:?}");
    }
    for body in [
        r#"{"payment_id":"p1","order":"x","amount":5}"#.to_owned(),
        body.replace("p1", ""),
        body.replace("p1", &"p".repeat(256)),
        body.replace('5', "-5"),
        body.replace('5', "9223372036854775808"),
        body.replace('5', "18446744073709551615"),
        "{}".to_owned(),
    ] {
        assert_eq!(shop.send(&signed(&body, at_s)).status, 400, "{body}");
    }
    let mut off = Setup::new(AuthMode::MemberId);
    off.secrets.payment.clear();
    assert_eq!(Shop::with(off).send(&signed(&body, at_s)).problem(), problem(403, "payments_off"));
}

#[test]
fn a_held_order_says_where_it_is_paid() {
    let mut setup = Setup::new(AuthMode::MemberId);
    setup.options.pay_page = Some(PayPage {
        pay_url: "https://shop.example/pay?o={order}&a={amount}{currency}&back={return}&sig={signature}"
            .to_owned(),
        return_url: "https://drops.example/orders/{order}?x=1".to_owned(),
    });
    let mut shop = Shop::with(setup);
    let order = Sent::post("/api/v1/orders", r#"{"sale":3,"product":29,"quantity":2}"#).member(7);
    let placed = shop.send(&order).json();
    assert_eq!(placed["pay_url"], json!(null), "placing stays as it is");
    let id = placed["id"].as_str().unwrap();
    let read = Sent::get(&format!("/api/v1/orders/{id}")).member(7);
    let signed = format!("pay:{id}:999800:EUR:https://drops.example/orders/{id}?x=1");
    let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, SECRET), signed.as_bytes());
    let signature: String = tag.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    let expected = format!(
        "https://shop.example/pay?o={id}&a=999800EUR&back=https%3A%2F%2Fdrops.example%2Forders%2F{id}%3Fx%3D1&sig={signature}"
    );
    assert_eq!(shop.send(&read).json()["pay_url"], json!(expected));
    shop.send(&callback(&json!({"payment_id": "p1", "order": id, "amount": 999_800})));
    let paid = shop.send(&read).json();
    assert_eq!((&paid["status"], &paid["pay_url"]), (&json!("paid"), &json!(null)));
}
