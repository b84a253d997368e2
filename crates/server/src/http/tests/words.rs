//! What is wrong with a request is said in the words of the API: by the field's name, and what it must be.

use serde_json::{Value, json};

use super::payments::{callback, signed};
use super::problem;
use super::shop::{NOW, Sent, Shop, demo_mode};

/// What only a parser says.
const PARSERS_WORDS: [&str; 9] =
    ["expected", "invalid type", "invalid value", "u32", "u64", "struct", "sequence", "missing field", "`"];

fn post(target: &str, body: &str) -> Sent {
    Sent::post(target, body).operator().member(1).key("k")
}

/// A body that is all right as it stands, and the request with another in its place.
type Body = (fn(&Value) -> Sent, Value);

/// One of every kind that the API takes.
fn bodies() -> Vec<Body> {
    let item = json!({"product": 1, "title": "Shoe", "description": "", "price": 4, "list_price": 9, "total": 100, "limit": 1});
    let address = json!({"name": "Ada", "city": "Berlin"});
    let published = json!({"city": "Changsha", "detailAddress": "Road 1"});
    vec![
        (
            |body| post("/api/v1/orders", &body.to_string()),
            json!({"sale": 3, "product": 29, "quantity": 1, "address": address}),
        ),
        (
            |body| post("/api/v1/sales", &body.to_string()),
            json!({"id": 9, "title": "Winter", "currency": "EUR", "starts_at_ms": NOW.0, "ends_at_ms": NOW.0 + 9,
                   "payment_s": 900, "open_holds_per_buyer_max": 5, "items": [item]}),
        ),
        (
            |body| Sent { method: "PATCH".to_owned(), ..post("/api/v1/sales/3", &body.to_string()) },
            json!({"title": "Spring", "starts_at_ms": NOW.0, "ends_at_ms": NOW.0 + 9_000_000, "payment_s": 60}),
        ),
        (|body| post("/api/v1/sales/3/items/29/restock", &body.to_string()), json!({"units": 3})),
        (|body| post("/api/v1/sales/3/items/29/correct", &body.to_string()), json!({"units": 3})),
        (|body| post("/api/v1/demo/load", &body.to_string()), json!({"balance": 3})),
        (callback, json!({"payment_id": "p1", "order": "0".repeat(40), "amount": 5, "currency": "EUR"})),
        (
            |body| post("/seckillOrder/generateOrder", &body.to_string()),
            json!({"flashPromotionId": 3, "productId": 29, "memberReceiveAddress": published, "orderId": 1,
                   "orderItemId": 1, "payType": 3}),
        ),
    ]
}

/// The pointers to every field of a body, at any depth.
fn places(value: &Value, at: &str, found: &mut Vec<String>) {
    let children: Vec<(String, &Value)> = match value {
        Value::Object(fields) => fields.iter().map(|(name, value)| (name.clone(), value)).collect(),
        Value::Array(values) => values.iter().enumerate().map(|(i, value)| (i.to_string(), value)).collect(),
        _ => Vec::new(),
    };
    for (name, child) in children {
        let place = format!("{at}/{name}");
        places(child, &place, found);
        found.push(place);
    }
}

#[track_caller]
fn check(response: &super::Response, name: &str, about: &str) {
    if response.status != 400 {
        return;
    }
    let body = response.json();
    let detail = body["detail"].as_str().or_else(|| body["message"].as_str()).unwrap();
    let words = PARSERS_WORDS.iter().find(|word| detail.contains(**word));
    assert!(words.is_none() && detail.contains(name), "{about}: {detail}");
}

#[test]
fn whatever_is_wrong_with_a_field_of_a_body_the_answer_names_it() {
    let mut refused = 0;
    for (sent, good) in bodies() {
        let mut shop = Shop::new(demo_mode());
        assert_ne!(shop.send(&sent(&good)).status, 400, "{good}");
        let mut all = Vec::new();
        places(&good, "", &mut all);
        for place in all {
            let name = place.rsplit('/').find(|part| part.parse::<usize>().is_err()).unwrap();
            // The published address is checked by the names of our own.
            let name = if place.contains("Address/") { "address" } else { name };
            let wrong = [
                json!(null),
                json!(true),
                json!(-1),
                json!(1.5),
                json!(1e99),
                json!("x"),
                json!(""),
                json!([]),
                json!({}),
            ];
            for wrong in wrong {
                let mut body = good.clone();
                *body.pointer_mut(&place).unwrap() = wrong;
                let response = shop.send(&sent(&body));
                refused += usize::from(response.status == 400);
                check(&response, name, &body.to_string());
            }
            let (parent, field) = place.rsplit_once('/').unwrap();
            let mut body = good.clone();
            if let Some(Value::Object(fields)) = body.pointer_mut(parent) {
                fields.remove(field);
                check(&shop.send(&sent(&body)), name, &body.to_string());
                body.pointer_mut(parent).unwrap()["surprise"] = json!(1);
                check(&shop.send(&sent(&body)), "", &body.to_string());
            }
        }
    }
    assert!(refused > 200, "{refused} bodies were refused");
}

/// The values of an object, in whatever order, are not the object.
#[test]
fn a_list_is_taken_for_no_object_whatever_it_holds() {
    let access = json!({"groups": [{"name": "gold", "before_s": null}], "others": {"before_s": 60}});
    let line =
        json!({"units": 1, "turn_s": 120, "grace_s": 20, "close_s": 30, "beacon": false, "access": access});
    let item = json!({"product": 1, "title": "Shoe", "description": "", "price": 4, "list_price": 9, "total": 100, "limit": 1,
                      "image": {"name": "a", "alt": ""}, "line": line});
    let sold_to_a_line: Body = (
        |body| post("/api/v1/sales", &body.to_string()),
        json!({"title": "W", "currency": "EUR", "starts_at_ms": NOW.0, "ends_at_ms": NOW.0 + 9, "items": [item]}),
    );
    let changed: Body = (
        |body| Sent { method: "PATCH".to_owned(), ..post("/api/v1/sales/3", &body.to_string()) },
        json!({"items": [{"product": 29, "title": "Shoe"}]}),
    );
    let mut shop = Shop::new(demo_mode());
    let mut refused = 0;
    for (sent, good) in bodies().into_iter().chain([sold_to_a_line, changed]) {
        let mut all = vec![String::new()];
        places(&good, "", &mut all);
        for place in all {
            let mut body = good.clone();
            let Some(Value::Object(fields)) = body.pointer(&place) else { continue };
            let values: Value = fields.values().cloned().collect();
            *body.pointer_mut(&place).unwrap() = values;
            let response = shop.send(&sent(&body));
            let said = response.json();
            let detail = said["detail"].as_str().or_else(|| said["message"].as_str()).unwrap();
            assert!(response.status == 400 && detail.contains("object"), "{body}: {detail}");
            refused += 1;
        }
    }
    assert!(refused >= 18, "{refused} lists were sent");
    // As the derive would have read it.
    let item = r#"[1,"Shoe","",4,9,100,1,null,null]"#;
    let body =
        format!(r#"{{"title":"W","currency":"EUR","starts_at_ms":1,"ends_at_ms":2,"items":[{item}]}}"#);
    said(&mut shop, &post("/api/v1/sales", &body), "\"items[0]\" must be an object.");
}

#[test]
fn a_whole_number_may_be_written_with_a_fraction_of_zero() {
    let mut shop = Shop::new(demo_mode());
    for body in [r#"{"sale":3.0,"product":29,"quantity":1.0}"#, r#"{"sale":3e0,"product":2.9e1}"#] {
        assert_eq!(shop.send(&post("/api/v1/orders", body)).status, 201, "{body}");
    }
}

#[test]
fn what_is_wrong_is_said_in_so_many_words() {
    let mut shop = Shop::new(demo_mode());
    let order = |body: &str| post("/api/v1/orders", body);
    let sale = |body: &str| post("/api/v1/sales", body);
    let whole = "must be a whole number from 0 to 9223372036854775807";
    for (sent, detail) in [
        (
            order(r#"{"sale":3,"product":29,"quantity":"2"}"#),
            "\"quantity\" must be a whole number from 1 to 1000000.".to_owned(),
        ),
        (order(r#"{"sale":-3,"product":29}"#), format!("\"sale\" {whole}.")),
        (order(r#"{"product":29}"#), "\"sale\" is missing.".to_owned()),
        (order(r#"{"sale":3,"sale":3,"product":29}"#), "\"sale\" is there twice.".to_owned()),
        (
            order(r#"{"sale":3,"product":29,"amount":1}"#),
            "\"amount\" is no field here; there is \"sale\", \"product\", \"quantity\", \"unit_price\", \"address\"."
                .to_owned(),
        ),
        (
            order(r#"{"sale":3,"product":29,"quantity":1.5}"#),
            "\"quantity\" must be a whole number from 1 to 1000000.".to_owned(),
        ),
        (order(r#"{"sale":3.5,"product":29}"#), format!("\"sale\" {whole}.")),
        (order(r#"{"sale":1e16,"product":29}"#), format!("\"sale\" {whole}.")),
        (order(r#"{"sale":3,"product":29,"address":null}"#), "\"address\" must be an object.".to_owned()),
        (order(r#"{"sale":3,"product":29,"address":7}"#), "\"address\" must be an object.".to_owned()),
        (
            order(r#"{"sale":3,"product":29,"address":{"name":7}}"#),
            "\"address.name\" must be a string.".to_owned(),
        ),
        (order("[3,29]"), "Send a JSON object.".to_owned()),
        (order("{\"sale\":3,\n\"product\"}"), "The body is not JSON from line 2, column 10 on.".to_owned()),
        (
            order(r#"{"sale":3,"product":29} {}"#),
            "The body is not JSON from line 1, column 25 on.".to_owned(),
        ),
        (
            sale(
                r#"{"title":"W","currency":"EUR","starts_at_ms":1,"ends_at_ms":2,"items":[{"product":1,"title":"S","price":"4"}]}"#,
            ),
            format!("\"items[0].price\" {whole}."),
        ),
        (
            sale(
                r#"{"title":"W","currency":"EUR","starts_at_ms":1,"ends_at_ms":2,"items":[{"product":1,"title":"S","price":4}]}"#,
            ),
            "\"items[0].total\" is missing.".to_owned(),
        ),
        (
            sale(r#"{"title":"W","currency":"EUR","starts_at_ms":1,"ends_at_ms":2,"items":{}}"#),
            "\"items\" must be a list.".to_owned(),
        ),
        (
            sale(
                r#"{"title":"W","currency":"EUR","starts_at_ms":1,"ends_at_ms":2,"open_holds_per_buyer_max":4294967296,"items":[]}"#,
            ),
            "\"open_holds_per_buyer_max\" must be a whole number from 0 to 4294967295.".to_owned(),
        ),
        (signed(r#"{"payment_id":5}"#, NOW.0 / 1000), "\"payment_id\" must be a string.".to_owned()),
    ] {
        said(&mut shop, &sent, &detail);
    }
    assert_eq!(shop.send(&order("{}")).problem(), problem(400, "invalid_body"));
}

#[test]
fn what_is_wrong_with_a_query_or_a_form_is_said_by_its_name() {
    let mut shop = Shop::new(demo_mode());
    let whole = "must be a whole number from 0 to 9223372036854775807";
    for (sent, detail) in [
        (Sent::get("/api/v1/stock?sale=3&product=x"), format!("\"product\" {whole}, in digits.")),
        (Sent::get("/api/v1/stock?product=1"), format!("\"sale\" {whole}, in digits.")),
        (Sent::get("/cache/stock"), format!("\"productId\" {whole}, in digits.")),
        (
            Sent::get("/product?flashPromotionId=3&promotionProductId=29"),
            format!("\"memberId\" {whole}, in digits."),
        ),
        (Sent::get("/api/v1/orders?since=-1").operator(), format!("\"since\" {whole}, in digits.")),
        (Sent::get("/api/v1/orders?limit=many").operator(), format!("\"limit\" {whole}, in digits.")),
        (
            Sent::get(&format!("/api/v1/orders/{}?wait=31", "0".repeat(40))).member(1),
            "\"wait\" must be a whole number of seconds from 0 to 30.".to_owned(),
        ),
        (post("/order/submit", "user_id=1&goods_id=&count=1"), format!("\"goods_id\" {whole}, in digits.")),
    ] {
        said(&mut shop, &sent, &detail);
    }
}

/// Asserts that this is refused, and with which words.
#[track_caller]
fn said(shop: &mut Shop, sent: &Sent, detail: &str) {
    let answered = shop.send(sent);
    assert_eq!(answered.status, 400, "{sent:?}");
    assert_eq!(answered.json()["detail"], detail, "{sent:?}");
}
