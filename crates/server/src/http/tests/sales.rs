//! Sales: everybody reads, operators change; and the stock.

use serde_json::{Value, json};

use super::problem;
use super::shop::{NOW, Sent, Setup, Shop};
use crate::http::AuthMode;
use crate::http::wire::EXACT_MAX;

fn shop() -> Shop {
    Shop::new(AuthMode::MemberId)
}

fn new_sale() -> Value {
    json!({
        "id": 9, "title": "Winter", "currency": "EUR", "starts_at_ms": NOW.0 + 60_000, "ends_at_ms": NOW.0 + 120_000,
        "items": [{"product": 1, "title": "Shoe", "price": 4999, "list_price": 9999, "total": 100, "limit": 1}],
    })
}

fn create(body: &Value) -> Sent {
    Sent::post("/api/v1/sales", &body.to_string()).operator()
}

#[test]
fn a_sale_is_created_once_and_read_by_everybody() {
    let mut shop = shop();
    let created = shop.send(&create(&new_sale()));
    let expected = json!({
        "id": 9, "title": "Winter", "currency": "EUR", "state": "not_started", "starts_at_ms": NOW.0 + 60_000,
        "ends_at_ms": NOW.0 + 120_000, "payment_s": 900, "open_holds_per_buyer_max": 5,
        "items": [{
            "product": 1, "title": "Shoe", "description": "", "price": 4999, "list_price": 9999, "total": 100,
            "available": 100, "turns": 0, "held": 0, "sold": 0, "limit": 1, "image": null,
        }],
        "items_total": 1, "items_next_cursor": null,
    });
    assert_eq!((created.status, created.json()), (201, expected.clone()));
    let again = shop.send(&create(&new_sale()));
    assert_eq!((again.status, again.json()), (200, expected.clone()));
    let mut other = new_sale();
    other["title"] = "Summer".into();
    assert_eq!(shop.send(&create(&other)).problem(), problem(409, "sale_exists"));
    assert_eq!(shop.send(&Sent::get("/api/v1/sales/9").operator()).json(), expected);
    let all = shop.send(&Sent::get("/api/v1/sales").operator()).json();
    assert_eq!((all["sales"].as_array().unwrap().len(), &all["sales"][0]), (3, &expected));
    assert_eq!((&all["next_cursor"], &all["next_id"]), (&Value::Null, &10.into()));
    // Only the operator sees how the orders go.
    let mut expected = expected;
    for hidden in ["held", "sold"] {
        expected["items"][0].as_object_mut().unwrap().remove(hidden).unwrap();
    }
    let public = Sent::get("/api/v1/sales/9");
    for sent in [public.clone(), public.clone().with("Authorization", "Bearer a.buyers.token")] {
        assert_eq!(shop.send(&sent).json(), expected);
    }
    // A wrong token got 200, and whether it was one was to be seen by what was shown.
    let mut answers: Vec<_> = (0..20)
        .map(|_| shop.send(&public.clone().with("Authorization", "Bearer another token")).status)
        .collect();
    answers.dedup();
    assert_eq!(answers, [401, 429]);
    assert_eq!(shop.shared.metrics.operator_tokens_wrong.get(), 20);
    assert_eq!(shop.send(&public).json(), expected, "without one it stays public");
    let all = shop.send(&Sent::get("/api/v1/sales")).json();
    assert_eq!((all["sales"].as_array().unwrap().len(), &all["sales"][0]), (3, &expected));
    for operators in ["next_id", "largest_total", "payment_default_s"] {
        assert!(all.get(operators).is_none(), "{operators}");
    }
    assert_eq!(shop.send(&Sent::get("/api/v1/sales/8")).problem(), problem(404, "unknown_sale"));
}

#[test]
fn what_is_left_out_of_a_sale_has_its_default() {
    let mut shop = shop();
    let mut body = new_sale();
    body.as_object_mut().unwrap().remove("id");
    body["payment_s"] = Value::Null;
    body["open_holds_per_buyer_max"] = 0.into();
    body["items"][0].as_object_mut().unwrap().remove("list_price");
    let created = shop.send(&create(&body)).json();
    assert_eq!((&created["id"], &created["payment_s"]), (&4.into(), &Value::Null));
    assert_eq!(
        (&created["open_holds_per_buyer_max"], &created["items"][0]["list_price"]),
        (&0.into(), &4999.into())
    );
}

#[test]
fn a_sale_that_can_not_be_is_refused() {
    let mut shop = shop();
    for (field, value, status, code) in [
        ("title", json!(""), 422, "invalid_sale"),
        ("currency", json!("eur"), 422, "invalid_sale"),
        ("items", json!([]), 422, "invalid_sale"),
        ("payment_s", json!(0), 422, "invalid_sale"),
        ("payment_s", json!(i64::MAX), 422, "invalid_sale"),
        ("payment_s", json!(u64::MAX), 400, "invalid_body"),
        ("payment_s", json!("1"), 400, "invalid_body"),
        ("ends_at_ms", json!(1), 422, "invalid_sale"),
        ("ends_at_ms", json!(u64::MAX), 400, "invalid_body"),
        ("ends_at_ms", json!(i64::MAX), 422, "invalid_sale"),
        ("ends_at_ms", json!(253_402_300_800_000_u64), 422, "invalid_sale"),
        ("id", json!(u64::MAX), 400, "invalid_body"),
        ("colour", json!("red"), 400, "invalid_body"),
    ] {
        let mut body = new_sale();
        body[field] = value.clone();
        assert_eq!(shop.send(&create(&body)).problem(), problem(status, code), "{field} {value}");
    }
}

#[test]
fn a_sale_is_changed_and_steered() {
    let mut shop = shop();
    let patch = |body: &str| Sent {
        body: body.as_bytes().to_vec(),
        ..Sent::new("PATCH", "/api/v1/sales/3").operator()
    };
    let changed = shop.send(&patch(&format!(r#"{{"title":"Later","ends_at_ms":{}}}"#, NOW.0 + 7_200_000)));
    assert_eq!((changed.status, &changed.json()["title"]), (200, &"Later".into()));
    assert_eq!(shop.send(&patch("{}")).problem(), problem(400, "invalid_request"));
    assert_eq!(shop.send(&patch(r#"{"starts_at_ms":1}"#)).problem(), problem(422, "invalid_change"));
    let too_late = shop.send(&patch(r#"{"ends_at_ms":253402300800000}"#));
    assert_eq!(too_late.problem(), problem(422, "invalid_sale"));
    assert!(too_late.text().contains("before the year 10000"), "{}", too_late.text());
    for (verb, state) in [("pause", "paused"), ("pause", "paused"), ("resume", "live"), ("end", "ended")] {
        let steered = shop.send(&Sent::post(&format!("/api/v1/sales/3/{verb}"), "{}").operator());
        assert_eq!((steered.status, &steered.json()["state"]), (200, &state.into()));
    }
    let pause = Sent::post("/api/v1/sales/3/pause", "").operator();
    assert_eq!(shop.send(&pause).problem(), problem(409, "ended"));
}

#[test]
fn one_that_is_paused_before_its_start_has_not_started_for_a_rehearsal() {
    let mut shop = shop();
    shop.send(&create(&new_sale()));
    let why_not = |shop: &mut Shop| {
        let shown = shop.send(&Sent::get("/api/v1/rehearsal?sale=9").operator()).json();
        shown["why_not"].as_str().unwrap_or_default().to_owned()
    };
    let planned = why_not(&mut shop);
    assert_eq!(shop.send(&Sent::post("/api/v1/sales/9/pause", "{}").operator()).status, 200);
    assert_eq!(why_not(&mut shop), planned);
    let begin = Sent::post("/api/v1/sales/9/rehearse", "{}").operator();
    assert_ne!(shop.send(&begin).problem(), problem(409, "sale_started"));
    shop.advance(60_000);
    assert!(why_not(&mut shop).starts_with("Only a sale that has not started"));
    assert_eq!(shop.send(&begin).problem(), problem(409, "sale_started"));
}

/// The console made sales of 15 minutes, however the server was set.
#[test]
fn the_time_to_pay_that_is_listed_is_that_of_a_sale_made_without_one() {
    let mut shop = shop();
    let listed = shop.send(&Sent::get("/api/v1/sales?limit=1").operator()).json();
    shop.send(&create(&new_sale()));
    let made = shop.send(&Sent::get("/api/v1/sales/9").operator()).json();
    assert!(made["payment_s"].is_u64() && listed["payment_default_s"] == made["payment_s"], "{listed}");
}

#[test]
fn the_largest_item_is_said_of_all_sales_over_or_not() {
    let mut shop = shop();
    let most = |shop: &mut Shop| {
        let listed = shop.send(&Sent::get("/api/v1/sales?limit=1&state=upcoming").operator()).json();
        listed["largest_total"].as_u64().unwrap()
    };
    let before = most(&mut shop);
    let mut huge = new_sale();
    huge["items"][0]["total"] = (before + 5).into();
    shop.send(&create(&huge));
    assert_eq!(most(&mut shop), before + 5);
    assert_eq!(shop.send(&Sent::post("/api/v1/sales/9/end", "").operator()).status, 200);
    assert_eq!(most(&mut shop), before + 5, "it is over");
    let mut deleted = new_sale();
    (deleted["id"], deleted["items"][0]["total"]) = (10.into(), (before + 9).into());
    shop.send(&create(&deleted));
    assert_eq!(shop.send(&Sent::post("/api/v1/sales/10/delete", "").operator()).status, 204);
    assert_eq!(most(&mut shop), before + 5, "it was never sold");
}

/// A change of sale 9, see [`new_sale`].
fn patch(body: &str) -> Sent {
    Sent { body: body.as_bytes().to_vec(), ..Sent::new("PATCH", "/api/v1/sales/9").operator() }
}

#[test]
fn items_are_changed_until_the_start() {
    let mut shop = shop();
    shop.send(&create(&new_sale()));
    let page = Sent::get("/seckill_9_1.html");
    let before = shop.send(&page);
    let change = r#"{"items":[{"product":1,"title":"Boot","description":"Warm","price":3999,"limit":null}]}"#;
    for _again in 0..2 {
        let changed = shop.send(&patch(change));
        let item = &changed.json()["items"][0];
        let shown = ["title", "description", "price", "list_price", "limit", "total"]
            .map(|field| item[field].clone());
        let expected = [json!("Boot"), json!("Warm"), json!(3999), json!(9999), Value::Null, json!(100)];
        assert_eq!((changed.status, shown), (200, expected));
    }
    let after = shop.send(&page);
    assert_eq!((before.status, after.status), (200, 200));
    assert!(
        before.text().contains("49.99") && !after.text().contains("49.99") && after.text().contains("39.99")
    );
    assert_ne!(before.header("etag"), after.header("etag"), "a page that is kept is asked for again");
    let rows = [
        (r#"{"items":[{"product":2,"price":1}]}"#, 404, "unknown_sku"),
        (r#"{"items":[{"product":1,"price":1},{"product":1,"price":2}]}"#, 422, "invalid_change"),
        (r#"{"items":[{"product":1,"limit":0}]}"#, 422, "invalid_sale"),
        (r#"{"items":[{"product":1,"title":""}]}"#, 422, "invalid_sale"),
        (r#"{"items":[{"product":1,"price":null}]}"#, 400, "invalid_body"),
        (r#"{"items":[{"product":1,"total":5}]}"#, 400, "invalid_body"),
        (r#"{"title":"T","items":[]}"#, 400, "invalid_request"),
    ];
    for (body, status, code) in rows {
        assert_eq!(shop.send(&patch(body)).problem(), problem(status, code), "{body}");
    }
    shop.advance(60_000);
    assert_eq!(shop.send(&patch(change)).problem(), problem(409, "sale_started"));
}

#[test]
fn a_sale_is_deleted_before_its_start_and_its_number_stays_taken() {
    let mut shop = shop();
    shop.send(&create(&new_sale()));
    let started = Sent::post("/api/v1/sales/3/delete", "").operator();
    assert_eq!(shop.send(&started).problem(), problem(409, "sale_started"));
    assert_eq!(shop.send(&Sent::get("/seckill_9_1.html")).status, 200);
    for _again in 0..2 {
        assert_eq!(shop.send(&Sent::post("/api/v1/sales/9/delete", "").operator()).status, 204);
    }
    assert_eq!(shop.send(&Sent::get("/seckill_9_1.html")).status, 404);
    for page in ["/api/v1/sales/9", "/sales/9"] {
        assert_eq!(shop.send(&Sent::get(page)).problem(), problem(404, "sale_deleted"), "{page}");
    }
    assert_eq!(
        shop.send(&Sent::get("/api/v1/stock?sale=9&product=1")).problem(),
        problem(404, "unknown_sku")
    );
    assert_eq!(shop.send(&patch(r#"{"title":"T"}"#)).problem(), problem(404, "unknown_sale"));
    assert_eq!(shop.send(&create(&new_sale())).problem(), problem(409, "sale_exists"));
    for state in ["", "&state=upcoming", "&state=ended"] {
        let listed = shop.send(&Sent::get(&format!("/api/v1/sales?limit=1{state}")).operator()).json();
        let ids: Vec<_> = listed["sales"].as_array().unwrap().iter().map(|sale| sale["id"].clone()).collect();
        assert!(!ids.contains(&json!(9)), "{listed}");
        assert_eq!(listed["next_id"], 10);
    }
}

#[test]
fn stock_is_moved_once_per_key() {
    let mut shop = shop();
    let adjust = |verb: &str, units: u64| {
        Sent::post(&format!("/api/v1/sales/3/items/31/{verb}"), &format!(r#"{{"units":{units}}}"#)).operator()
    };
    let total = |response: &super::Response| response.json()["items"][2]["total"].as_u64();
    assert_eq!(shop.send(&adjust("restock", 5)).problem(), problem(400, "key_required"));
    for _ in 0..2 {
        assert_eq!(total(&shop.send(&adjust("restock", 5).key("a"))), Some(5));
    }
    assert_eq!(shop.send(&adjust("restock", 6).key("a")).problem(), problem(409, "key_conflict"));
    assert_eq!(total(&shop.send(&adjust("correct", 2).key("b"))), Some(3));
    assert_eq!(shop.send(&adjust("correct", 4).key("c")).problem(), problem(409, "correction_too_large"));
    assert_eq!(shop.send(&adjust("restock", 0).key("d")).problem(), problem(422, "invalid_change"));
    let unknown = Sent::post("/api/v1/sales/3/items/99/restock", r#"{"units":1}"#).operator().key("e");
    assert_eq!(shop.send(&unknown).problem(), problem(404, "unknown_sku"));
    let stock = shop.send(&Sent::get("/api/v1/stock?sale=3&product=31")).json();
    assert_eq!(
        (&stock["state"], &stock["available"], &stock["total"]),
        (&"live".into(), &3.into(), &3.into())
    );
    assert!(stock["now_ms"].as_u64() >= Some(NOW.0) && stock["ends_at_ms"] == NOW.0 + 3_600_000);
    for query in ["", "?sale=3", "?sale=3&product=x", "?sale=3&product=99"] {
        assert!(
            matches!(shop.send(&Sent::get(&format!("/api/v1/stock{query}"))).status, 400 | 404),
            "{query}"
        );
    }
}

#[test]
fn operator_calls_need_the_operators_token() {
    let mut off = Setup::new(AuthMode::MemberId);
    off.secrets.operator.clear();
    let (mut shop, mut off) = (shop(), Shop::with(off));
    for (method, target) in [
        ("POST", "/api/v1/sales"),
        ("PATCH", "/api/v1/sales/3"),
        ("POST", "/api/v1/sales/3/delete"),
        ("POST", "/api/v1/sales/3/pause"),
        ("POST", "/api/v1/sales/3/resume"),
        ("POST", "/api/v1/sales/3/end"),
        ("POST", "/api/v1/sales/3/items/29/restock"),
        ("POST", "/api/v1/sales/3/items/29/correct"),
        ("GET", "/api/v1/audit"),
        ("GET", "/api/v1/orders"),
        ("GET", "/api/v1/payments/refunds-due"),
        ("POST", "/api/v1/payments/p/settle"),
        ("POST", "/api/v1/clock/confirm"),
        ("POST", "/api/v1/demo/load"),
    ] {
        let sent = Sent::new(method, target);
        let wrong = sent.clone().with("Authorization", "Bearer another token");
        assert_eq!(shop.send(&sent).problem(), problem(401, "operator_unauthorized"), "{target}");
        let refused = shop.send(&wrong);
        let guessed = refused.problem() == problem(429, "operator_guesses");
        assert!(guessed || refused.problem() == problem(401, "operator_unauthorized"), "{target}");
        assert_eq!(off.send(&sent.operator()).problem(), problem(403, "operator_off"), "{target}");
    }
    let guess = Sent::post("/api/v1/sales/3/pause", "").with("Authorization", "Bearer another token");
    let refused = shop.send(&guess);
    assert_eq!(refused.problem(), problem(429, "operator_guesses"));
    assert_eq!(refused.header("retry-after"), Some("60"));
    let paused = shop.send(&Sent::post("/api/v1/sales/3/pause", "").operator());
    assert_eq!(paused.status, 200, "whoever shares the guesser's address is not locked out");
}

#[test]
fn once_the_highest_number_is_taken_a_sale_gets_the_lowest_that_is_free() {
    let mut shop = shop();
    let mut new = |id: Option<u64>| {
        let mut body = new_sale();
        body.as_object_mut().unwrap().remove("id");
        if let Some(id) = id {
            body["id"] = id.into();
        }
        let created = shop.send(&create(&body));
        assert_eq!(created.status, 201, "{id:?}");
        created.json()["id"].as_u64().unwrap()
    };
    // The shop has sales 1 and 3.
    assert_eq!(new(None), 4);
    assert_eq!(new(Some(EXACT_MAX)), EXACT_MAX);
    assert_eq!([new(None), new(None), new(None)], [2, 5, 6]);
    // A page would show it as another.
    for place in ["/id", "/items/0/product"] {
        let mut body = new_sale();
        *body.pointer_mut(place).unwrap() = (EXACT_MAX + 1).into();
        let refused = shop.send(&create(&body));
        assert_eq!(refused.status, 400, "{refused:?}");
        assert!(refused.json()["detail"].as_str().unwrap().contains("from 0 to 9007199254740991"));
    }
}

#[test]
fn a_demo_is_asked_under_no_strangers_name() {
    let mut demo = Shop::new(AuthMode::MemberId);
    let ask = |shop: &mut Shop, host: &str| {
        let mut sent = Sent::get("/api/v1/sales");
        sent.headers = vec![("Host".to_owned(), host.into())];
        shop.send(&sent)
    };
    let refused = ask(&mut demo, "evil.example:8080");
    assert_eq!(refused.problem(), problem(421, "unknown_host"));
    assert!(!String::from_utf8_lossy(&refused.body).contains("evil"));
    assert_eq!(ask(&mut demo, "127.0.0.1:8080").status, 200);
    let mut named = Setup::new(AuthMode::MemberId);
    (named.options.local_demo, named.options.public_names) = (false, vec!["shop.example".to_owned()]);
    let mut named = Shop::with(named);
    assert_eq!(ask(&mut named, "shop.example").status, 200);
    assert_eq!(ask(&mut named, "evil.example").problem(), problem(421, "unknown_host"));
}
