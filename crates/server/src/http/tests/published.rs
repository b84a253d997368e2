//! The published routes: their shapes, the constant length, and who is believed.

use engine::{Command, ProductId};
use serde_json::{Value, json};

use super::problem;
use super::shop::{SALE, Sent, Setup, Shop, demo_mode, token_mode};
use crate::http::AuthMode;

const GENERATE: &str = "/seckillOrder/generateOrder";

/// The body of the published load command, with a product in the place of 29.
fn published(product: u64) -> String {
    format!(
        r#"{{"flashPromotionId":3,"memberReceiveAddress":{{"city":"Changsha","defaultStatus":1,"detailAddress":"Xiangjiang \"Road\" 1","id":1,"memberId":1,"name":"A Buyer","phoneNumber":"13800000000","postCode":"414000","province":"Hunan","region":"Yuelu"}},"orderId":1,"orderItemId":1,"payType":3,"productId":{product}}}"#
    )
}

fn generate(product: u64) -> Sent {
    Sent::post(GENERATE, &published(product)).with("Content-Type", "application/json").member(1)
}

#[test]
fn an_order_has_the_published_shape() {
    let mut shop = Shop::new(demo_mode());
    let placed = shop.send(&generate(29));
    assert_eq!(placed.status, 200);
    let body = placed.json();
    assert_eq!((&body["code"], &body["data"]["orderStatus"]), (&json!(200), &json!("1")));
    let (item, order) = (&body["data"]["orderItemList"][0], &body["data"]["order"]);
    assert_eq!(
        (&item["id"], &item["productId"], &item["productQuantity"]),
        (&json!(1), &json!(29), &json!(1))
    );
    assert_eq!((&item["productName"], &item["realAmount"]), (&json!("Product \"29\""), &json!(4999.0)));
    assert_eq!(
        (&order["memberId"], &order["payType"], &order["payAmount"]),
        (&json!(1), &json!(3), &json!(4999.0))
    );
    assert_eq!(
        (&order["receiverDetailAddress"], &order["receiverRegion"]),
        (&json!("Xiangjiang \"Road\" 1"), &json!("Yuelu"))
    );
    assert_eq!((&order["discountAmount"], &order["version"]), (&json!(500.0), &Value::Null));
    let id = order["orderSn"].as_str().unwrap();
    assert_eq!(item["orderSn"], id);
    let read = shop.send(&Sent::get(&format!("/api/v1/orders/{id}")).member(1));
    assert_eq!((read.status, &read.json()["product"]), (200, &json!(29)));
    assert!((1700..1900).contains(&placed.body.len()), "{} bytes", placed.body.len());
}

#[test]
fn every_order_of_a_product_and_address_has_one_length() {
    let mut shop = Shop::new(demo_mode());
    let lengths: Vec<usize> = [1, 462_245, i64::MAX.unsigned_abs()]
        .iter()
        .flat_map(|buyer| {
            shop.advance(12_345);
            let sent = Sent::post(GENERATE, &published(29)).member(*buyer);
            [shop.send(&sent), shop.send(&sent)].map(|placed| placed.body.len())
        })
        .collect();
    assert!(lengths.iter().all(|length| *length == lengths[0]), "{lengths:?}");
}

#[test]
fn without_a_key_each_request_is_an_order_and_with_one_it_is_not() {
    let mut shop = Shop::new(demo_mode());
    let (one, two) = (shop.send(&generate(29)), shop.send(&generate(29)));
    assert_ne!(one.body, two.body);
    let keyed = generate(30).key("k");
    let first = shop.send(&keyed);
    assert_eq!(shop.send(&keyed).body, first.body);
    for (field, other) in [
        (r#""payType":3"#, r#""payType":4"#),
        (r#""orderId":1"#, r#""orderId":2"#),
        (r#""orderItemId":1"#, r#""orderItemId":null"#),
    ] {
        let changed = published(30).replacen(field, other, 1);
        let conflict = shop.send(&Sent::post(GENERATE, &changed).member(1).key("k"));
        assert_eq!((conflict.status, &conflict.json()["code"]), (409, &json!(500)), "{field}");
    }
    assert_eq!(shop.book.orders_len(), 3);
    shop.check_sums();
}

#[test]
fn refusals_have_the_published_shape() {
    let mut shop = Shop::new(demo_mode());
    let mut refused = |sent: &Sent, status: u16| {
        let answer = shop.send(sent);
        assert_eq!((answer.status, answer.header("content-type")), (status, Some("application/json")));
        let body = answer.json();
        assert_eq!((&body["code"], &body["data"]), (&json!(500), &Value::Null));
        assert!(!body["message"].as_str().unwrap().is_empty());
    };
    refused(&generate(31), 409);
    refused(&generate(31).key("k"), 409);
    refused(&generate(99), 404);
    refused(&Sent::post(GENERATE, "{").member(1), 400);
    refused(&Sent::post(GENERATE, &published(29)), 401);
    refused(&Sent::post(GENERATE, &published(29)).with("memberId", "x "), 401);
    refused(&Sent::post(GENERATE, &published(29)).with("memberId", "x"), 403);
    refused(&generate(29).with("Origin", "https://evil.example"), 403);
    refused(&Sent::new("GET", GENERATE), 405);
    refused(&Sent::post("/seckillOrder/pressureMQ", "{").member(1), 400);
    shop.failing = true;
    let unknown = shop.send(&generate(29));
    assert_eq!((unknown.status, &unknown.json()["code"]), (503, &json!(500)));
    assert_eq!(unknown.header("retry-after"), Some("1"));
    assert_eq!(shop.book.orders_len(), 0);
    shop.check_sums();
}

#[test]
fn the_header_is_not_believed_where_tokens_are_wanted() {
    let mut shop = Shop::new(token_mode());
    assert_eq!(shop.send(&generate(29)).status, 401);
    let submit = Sent::post("/order/submit", "user_id=1&goods_id=101&count=1").member(1);
    assert_eq!(shop.send(&submit).problem(), problem(401, "unauthorized"));
}

#[test]
fn a_message_is_stored_and_is_no_order() {
    let mut shop = Shop::new(demo_mode());
    let stored = shop.send(&Sent::post("/seckillOrder/pressureMQ", &published(29)).member(1));
    assert_eq!(stored.status, 200);
    let body = stored.json();
    assert_eq!((&body["code"], &body["data"]), (&json!(200), &json!("success")));
    assert_eq!(shop.book.orders_len(), 0);
    let long = format!(r#"{{"x":"{}"}}"#, "y".repeat(5000));
    assert_eq!(shop.send(&Sent::post("/seckillOrder/pressureMQ", &long).member(1)).status, 400);
    let mut off = Setup::new(demo_mode());
    off.options.message_route = false;
    let refused = Shop::with(off).send(&Sent::post("/seckillOrder/pressureMQ", &published(29)).member(1));
    assert_eq!((refused.status, &refused.json()["code"]), (404, &json!(500)));
}

#[test]
fn the_stock_is_a_few_digits_of_the_newest_sale() {
    let mut shop = Shop::new(demo_mode());
    let read = |query: &str| Sent::get(&format!("/cache/stock?{query}"));
    let stock = shop.send(&read("productId=30"));
    assert_eq!((stock.status, stock.text().as_str()), (200, "2"));
    shop.send(&generate(30));
    assert_eq!(shop.send(&read("productId=30")).text(), "1");
    assert_eq!(shop.send(&read("flashPromotionId=1&productId=101")).text(), "10");
    let mut newer = super::shop::flash_sale();
    newer.id = engine::SaleId(8);
    newer.items = vec![super::shop::item(30, 77, None)];
    shop.execute(Command::CreateSale(newer));
    assert_eq!(shop.send(&read("productId=30")).text(), "77");
    for query in ["", "productId=", "productId=x"] {
        assert_eq!(shop.send(&read(query)).problem(), problem(400, "invalid_request"));
    }
    for query in ["productId=5", "flashPromotionId=1&productId=30", "flashPromotionId=x&productId=30"] {
        assert_eq!(shop.send(&read(query)).problem(), problem(404, "unknown_sku"));
    }
}

#[test]
fn the_shop_takes_forms_until_the_balance_is_short() {
    let mut shop = Shop::new(demo_mode());
    let submit = |body: &str| {
        Sent::post("/order/submit", body).with("Content-Type", "application/x-www-form-urlencoded")
    };
    let placed = shop.send(&submit("user_id=1&goods_id=101&count=4"));
    assert_eq!((placed.status, placed.text().len()), (200, 40));
    assert_eq!(placed.header("content-type"), Some("text/plain; charset=utf-8"));
    let keyed = submit("count=%34&goods_id=101&user_id=2").key("k");
    let first = shop.send(&keyed);
    let again = shop.send(&keyed);
    assert_eq!((first.status, &again.body), (200, &first.body));
    assert_eq!(again.header("idempotency-replayed"), Some("true"));
    assert_eq!(
        shop.send(&submit("user_id=3&goods_id=101&count=3")).problem(),
        problem(409, "not_enough_left")
    );
    assert_eq!(shop.send(&submit("user_id=3&goods_id=101&count=2")).status, 200);
    assert_eq!(shop.send(&submit("user_id=3&goods_id=101&count=1")).problem(), problem(409, "sold_out"));
    for body in [
        "",
        "user_id=1",
        "user_id=a&goods_id=101&count=1",
        "user_id=1&goods_id=101&count=4294967296",
        "user_id=9223372036854775808&goods_id=101&count=1",
        "user_id=%zz&goods_id=101&count=1",
    ] {
        assert_eq!(shop.send(&submit(body)).problem(), problem(400, "invalid_request"), "{body}");
    }
    let json = Sent::post("/order/submit", "{}").with("Content-Type", "application/json");
    assert_eq!(shop.send(&json).problem(), problem(415, "unsupported_media_type"));
    let sku = shop.book.sku(super::shop::SHOP_SALE, ProductId(101)).unwrap();
    assert_eq!(shop.book.stock(sku).unwrap().sold(), 10);
    let mut off = Setup::new(demo_mode());
    off.options.shop_sale = None;
    assert_eq!(
        Shop::with(off).send(&submit("user_id=1&goods_id=101&count=1")).problem(),
        problem(404, "not_found")
    );
    assert!(shop.book.sku(SALE, ProductId(29)).is_some());
}

#[test]
fn behind_an_edge_a_form_speaks_for_its_sender_only() {
    let mut shop = Shop::new(AuthMode::MemberId);
    let submit = Sent::post("/order/submit", "user_id=1&goods_id=101&count=1");
    assert_eq!(shop.send(&submit).problem(), problem(401, "unauthorized"));
    assert_eq!(shop.send(&submit.clone().member(2)).problem(), problem(403, "forbidden"));
    assert_eq!(shop.send(&submit.member(1)).status, 200);
}
