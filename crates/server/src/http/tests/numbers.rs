//! Every number of every body, at the edge of what the ledger can hold and beyond it. The shop writes to a real
//! ledger here: a number that could not be written would panic.

use serde_json::{Value, json};

use super::payments::callback;
use super::shop::{NOW, Sent, Setup, Shop, demo_mode};

const EDGE: u64 = 1 << 63;

/// A request whose body holds a number at each of these places.
struct Case {
    sent: fn(&Value) -> Sent,
    body: Value,
    places: &'static [&'static str],
}

fn cases() -> [Case; 8] {
    fn post(target: &str, body: &Value) -> Sent {
        Sent::post(target, &body.to_string()).operator().member(1).key("k")
    }
    let item = json!({"product": 1, "title": "Shoe", "price": 4, "list_price": 9, "total": 100, "limit": 1});
    let sale = json!({
        "id": 9, "title": "Winter", "currency": "EUR", "starts_at_ms": NOW.0 + 1, "ends_at_ms": NOW.0 + 2,
        "payment_s": 900, "open_holds_per_buyer_max": 5, "items": [item],
    });
    [
        Case {
            sent: |body| post("/api/v1/sales", body),
            body: sale,
            places: &[
                "/id",
                "/starts_at_ms",
                "/ends_at_ms",
                "/payment_s",
                "/open_holds_per_buyer_max",
                "/items/0/product",
                "/items/0/price",
                "/items/0/list_price",
                "/items/0/total",
                "/items/0/limit",
            ],
        },
        Case {
            sent: |body| Sent { method: "PATCH".to_owned(), ..post("/api/v1/sales/3", body) },
            body: json!({"starts_at_ms": NOW.0 + 5, "ends_at_ms": NOW.0 + 9, "payment_s": 60}),
            places: &["/starts_at_ms", "/ends_at_ms", "/payment_s"],
        },
        Case {
            sent: |body| post("/api/v1/sales/3/items/29/restock", body),
            body: json!({"units": 3}),
            places: &["/units"],
        },
        Case {
            sent: |body| post("/api/v1/sales/3/items/29/correct", body),
            body: json!({"units": 3}),
            places: &["/units"],
        },
        Case {
            sent: |body| post("/api/v1/demo/load", body),
            body: json!({"balance": 3}),
            places: &["/balance"],
        },
        Case {
            sent: |body| post("/api/v1/orders", body),
            body: json!({"sale": 3, "product": 29, "quantity": 1}),
            places: &["/sale", "/product", "/quantity"],
        },
        Case {
            sent: |body| post("/seckillOrder/generateOrder", body),
            body: json!({"flashPromotionId": 3, "productId": 29, "orderId": 1, "orderItemId": 1, "payType": 3}),
            places: &["/flashPromotionId", "/productId", "/orderId", "/orderItemId", "/payType"],
        },
        Case {
            sent: callback,
            body: json!({"payment_id": "p", "order": "0".repeat(40), "amount": 5}),
            places: &["/amount"],
        },
    ]
}

fn shop() -> Shop {
    Shop::with(Setup { ledger: true, ..Setup::new(demo_mode()) })
}

#[test]
fn a_number_beyond_the_ledger_is_refused_wherever_it_stands() {
    let mut shop = shop();
    for case in cases() {
        for place in case.places {
            for number in [json!(EDGE), json!(u64::MAX), json!(1e300), json!(-1)] {
                let mut body = case.body.clone();
                *body.pointer_mut(place).unwrap() = number;
                let sent = (case.sent)(&body);
                // A quantity that no order can have is the rules' to refuse.
                let status = if *place == "/quantity" { 422 } else { 400 };
                assert_eq!(shop.send(&sent).status, status, "{sent:?}");
            }
        }
    }
    shop.check_sums();
}

#[test]
fn the_largest_number_of_the_ledger_is_written_or_refused_by_a_rule() {
    for case in cases() {
        for place in case.places {
            let mut shop = shop();
            let mut body = case.body.clone();
            *body.pointer_mut(place).unwrap() = json!(EDGE - 1);
            let sent = (case.sent)(&body);
            let status = shop.send(&sent).status;
            assert!([200, 201, 400, 404, 409, 422].contains(&status), "{status} {sent:?}");
            shop.check_sums();
        }
    }
}

#[test]
fn numbers_of_addresses_and_forms_have_the_same_bound() {
    let mut shop = shop();
    let form = |text: String| Sent::post("/order/submit", &text);
    for number in [EDGE, u64::MAX] {
        for sent in [
            form(format!("user_id={number}&goods_id=101&count=1")),
            form(format!("user_id=1&goods_id={number}&count=1")),
            form(format!("user_id=1&goods_id=101&count={number}")),
            Sent::get(&format!("/api/v1/stock?sale={number}&product=29")),
            Sent::get(&format!("/cache/stock?productId={number}")),
            Sent::get(&format!("/api/v1/orders?since={number}")).operator(),
        ] {
            assert_eq!(shop.send(&sent).status, 400, "{sent:?}");
        }
        for target in [format!("/api/v1/sales/{number}"), format!("/seckill_{number}_29.html")] {
            assert_eq!(shop.send(&Sent::get(&target)).status, 404, "{target}");
        }
    }
}
