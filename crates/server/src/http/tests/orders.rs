//! Orders of our own API: placing, keys, owners, origins, tokens.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use engine::Command;
use ring::hmac;
use serde_json::json;

use super::shop::{NOW, SALE, SECRET, Sent, Shop, demo_mode, token_mode};
use super::{Response, problem};
use crate::http::AuthMode;

const ORDERS: &str = "/api/v1/orders";
const ADDRESS: &str = r#"{"name":"Ada","city":"Berlin"}"#;

fn order(product: u64) -> Sent {
    Sent::post(ORDERS, &format!(r#"{{"sale":3,"product":{product},"address":{ADDRESS}}}"#)).member(7)
}

fn bearer(buyer: &str, exp_s: u64) -> String {
    let encode = |text: &str| URL_SAFE_NO_PAD.encode(text);
    let claims = format!(r#"{{"sub":"{buyer}","exp":{exp_s}}}"#);
    let signed = format!("{}.{}", encode(r#"{"alg":"HS256","typ":"JWT"}"#), encode(&claims));
    let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, SECRET), signed.as_bytes());
    format!("Bearer {signed}.{}", URL_SAFE_NO_PAD.encode(tag))
}

fn id_of(response: &Response) -> String {
    response.json()["id"].as_str().unwrap().to_owned()
}

#[test]
fn an_order_is_placed_and_read() {
    let mut shop = Shop::new(AuthMode::MemberId);
    let placed = shop.send(&order(29).key("k1").with("Content-Type", "application/json; charset=utf-8"));
    assert_eq!(placed.status, 201);
    let body = placed.json();
    let id = id_of(&placed);
    assert_eq!(id.len(), 40);
    assert_eq!(placed.header("location"), Some(format!("/api/v1/orders/{id}").as_str()));
    assert_eq!(placed.header("idempotency-replayed"), None);
    assert_eq!(placed.header("cache-control"), Some("no-store"));
    let at = body["placed_at_ms"].as_u64().unwrap();
    assert!(at >= NOW.0);
    let expected = json!({
        "id": id, "sale": 3, "product": 29, "buyer": "7", "quantity": 1, "unit_price": 499_900,
        "amount": 499_900, "currency": "EUR", "status": "held", "placed_at_ms": at, "pay_by_ms": at + 60_000,
        "closed_at_ms": null, "refund_due": false,
    });
    assert_eq!(body, expected);
    let read = shop.send(&Sent::get(&format!("{ORDERS}/{id}?wait=30")).member(7));
    assert_eq!((read.status, read.as_placed()), (200, expected));
    shop.check_sums();
}

#[test]
fn a_repeated_key_gives_the_same_bytes_and_another_body_a_conflict() {
    let mut shop = Shop::new(AuthMode::MemberId);
    let first = shop.send(&order(30).key("k1"));
    // Another buyer's key is another key; and it takes the last unit.
    let mut others = order(30).key("k1");
    others.headers.retain(|(name, _)| name != "memberId");
    let other = shop.send(&others.member(8));
    assert_eq!(other.status, 201);
    assert_ne!(id_of(&other), id_of(&first));
    // Sold out and over by then: the key comes first.
    shop.execute(Command::End(SALE));
    let spaced = format!(r#" {{ "product" : 30, "quantity" : 1, "address" : {ADDRESS}, "sale" : 3 }} "#);
    for again in [order(30).key("k1"), Sent::post(ORDERS, &spaced).member(7).key("k1")] {
        let replayed = shop.send(&again);
        assert_eq!((replayed.status, &replayed.body), (201, &first.body));
        assert_eq!(replayed.header("idempotency-replayed"), Some("true"));
        assert_eq!(replayed.header("location"), first.header("location"));
    }
    for other in [
        r#"{"sale":3,"product":30}"#,
        r#"{"sale":3,"product":30,"quantity":2,"address":{"name":"Ada","city":"Berlin"}}"#,
        r#"{"sale":3,"product":30,"address":{"name":"Ada","city":"Bern"}}"#,
        r#"{"sale":3,"product":30,"address":{"name":"Ada","district":"Berlin"}}"#,
    ] {
        let conflict = shop.send(&Sent::post(ORDERS, other).member(7).key("k1"));
        assert_eq!(conflict.problem(), problem(409, "key_conflict"), "{other}");
    }
    shop.check_sums();
}

#[test]
fn without_a_key_each_request_is_an_order() {
    let mut shop = Shop::new(AuthMode::MemberId);
    let (one, two) = (shop.send(&order(29)), shop.send(&order(29)));
    assert_eq!((one.status, two.status), (201, 201));
    assert_ne!(id_of(&one), id_of(&two));
}

#[test]
fn an_order_is_its_buyers_alone() {
    let mut shop = Shop::new(AuthMode::MemberId);
    let id = id_of(&shop.send(&order(29)));
    let path = format!("{ORDERS}/{id}");
    for sent in [
        Sent::get(&path).member(8),
        Sent::post(&format!("{path}/cancel"), "").member(8),
        Sent::post(&format!("{path}/pay"), "").member(8),
        Sent::get(&format!("{ORDERS}/{}", id.replace('0', "1"))).member(7),
        Sent::get(&format!("{ORDERS}/nonsense")).member(7),
        Sent::post(&format!("{ORDERS}/nonsense/cancel"), "").member(7),
    ] {
        assert_eq!(shop.send(&sent).problem(), problem(404, "unknown_order"), "{sent:?}");
    }
    assert_eq!(shop.send(&Sent::get(&path)).problem(), problem(401, "unauthorized"));
    assert_eq!(shop.send(&Sent::get(&path).operator()).status, 200, "an operator reads all");
}

#[test]
fn a_key_or_a_buyer_that_can_not_be_read_is_not_passed_over() {
    let mut shop = Shop::new(demo_mode());
    let order = || Sent::post("/api/v1/orders", r#"{"sale":3,"product":29}"#).member(7);
    let with = |name: &str, value: &[u8]| {
        let mut sent = order();
        sent.headers.push((name.to_owned(), value.to_vec()));
        sent
    };
    for sent in [
        with("Idempotency-Key", b"caf\xe9"),
        order().key("a").key("b"),
        order().key("a").key("a"),
        order().member(8),
        with("Origin", b"http://\xe9"),
        with("Authorization", b"Bearer \xe9"),
    ] {
        assert_eq!(shop.send(&sent).problem(), problem(400, "invalid_request"), "{sent:?}");
    }
    assert_eq!(shop.book.orders_len(), 0);
    let published = Sent::post("/seckillOrder/generateOrder", "{}").member(1).key("a").key("b");
    assert_eq!(shop.send(&published).json()["code"], 500);
}

#[test]
fn an_order_is_cancelled_once() {
    let mut shop = Shop::new(AuthMode::MemberId);
    let id = id_of(&shop.send(&order(30)));
    let cancel = Sent::post(&format!("{ORDERS}/{id}/cancel"), "").member(7);
    let cancelled = shop.send(&cancel);
    assert_eq!((cancelled.status, &cancelled.json()["status"]), (200, &"cancelled".into()));
    assert_eq!(shop.send(&cancel).body, cancelled.body);
    assert_eq!(shop.send(&order(30)).status, 201, "the unit and the limit are free again");
}

#[test]
fn a_demo_order_is_paid_by_its_button_once() {
    let mut shop = Shop::new(demo_mode());
    let id = id_of(&shop.send(&order(29)));
    let pay = Sent::post(&format!("{ORDERS}/{id}/pay"), "").member(7);
    let paid = shop.send(&pay);
    assert_eq!((paid.status, &paid.json()["status"]), (200, &"paid".into()));
    assert_eq!(shop.send(&pay).body, paid.body);
    let cancel = Sent::post(&format!("{ORDERS}/{id}/cancel"), "").member(7);
    assert_eq!(shop.send(&cancel).problem(), problem(409, "not_cancellable"));
    let mut setup = super::shop::Setup::new(demo_mode());
    setup.options.demo = false;
    assert_eq!(Shop::with(setup).send(&pay).problem(), problem(404, "demo_only"));
}

#[test]
fn refusals_have_their_codes() {
    let mut shop = Shop::new(AuthMode::MemberId);
    let place = |body: &str| Sent::post(ORDERS, body).member(9);
    for key in [None, Some("k")] {
        for (body, status, code) in [
            (r#"{"sale":3,"product":31}"#, 409, "sold_out"),
            (r#"{"sale":3,"product":30,"quantity":3}"#, 409, "over_limit"),
            (r#"{"sale":3,"product":29,"quantity":1000001}"#, 422, "invalid_quantity"),
            (r#"{"sale":3,"product":29,"quantity":4294967296}"#, 422, "invalid_quantity"),
            (r#"{"sale":3,"product":29,"quantity":1e30}"#, 422, "invalid_quantity"),
            (r#"{"sale":3,"product":29,"quantity":0}"#, 422, "invalid_quantity"),
            (r#"{"sale":3,"product":29,"quantity":-1}"#, 422, "invalid_quantity"),
            (r#"{"sale":3,"product":29,"quantity":-1.0}"#, 422, "invalid_quantity"),
            (r#"{"sale":3,"product":29,"quantity":-1e30}"#, 422, "invalid_quantity"),
            (r#"{"sale":3,"product":99}"#, 404, "unknown_sku"),
            (r#"{"sale":9,"product":29}"#, 404, "unknown_sale"),
            (r#"{"sale":1,"product":101,"quantity":11}"#, 409, "not_enough_left"),
        ] {
            let sent = key.map_or_else(|| place(body), |key| place(body).key(key));
            assert_eq!(shop.send(&sent).problem(), problem(status, code), "{body}");
        }
    }
    shop.execute(Command::Pause(SALE));
    assert_eq!(shop.send(&order(29)).problem(), problem(409, "paused"));
    shop.execute(Command::End(SALE));
    assert_eq!(shop.send(&order(29)).problem(), problem(409, "ended"));
    shop.check_sums();
}

#[test]
fn broken_bodies_keys_and_queries_are_reported() {
    let mut shop = Shop::new(AuthMode::MemberId);
    let long = format!(r#"{{"sale":3,"product":29,"address":{{"name":"{}"}}}}"#, "x".repeat(600));
    for (body, code) in [
        ("", "invalid_body"),
        ("[3,29]", "invalid_body"),
        ("{", "invalid_body"),
        (r#"{"sale":3}"#, "invalid_body"),
        (r#"{"sale":"3","product":29}"#, "invalid_body"),
        (r#"{"sale":3,"product":29,"quantity":1.5}"#, "invalid_body"),
        (r#"{"sale":3,"product":29,"sale":3}"#, "invalid_body"),
        (r#"{"sale":3,"product":29,"coupon":1}"#, "invalid_body"),
        (r#"{"sale":3,"product":29,"address":{"nam":"Ada"}}"#, "invalid_body"),
        (r#"{"sale":3,"product":29,"address":{"name":7}}"#, "invalid_request"),
        (r#"{"sale":3,"product":29,"address":"Berlin"}"#, "invalid_body"),
        (r#"{"sale":3,"product":29} {}"#, "invalid_body"),
        ("{\"sale\":3,\"product\":29,\"address\":{\"name\":\"a\u{1}b\"}}", "invalid_body"),
        (long.as_str(), "invalid_request"),
    ] {
        let answer = shop.send(&Sent::post(ORDERS, body).member(7));
        assert_eq!(answer.problem(), problem(400, code), "{body}");
    }
    for key in ["", "a b", "caf\u{e9}", &"k".repeat(65)] {
        assert_eq!(shop.send(&order(29).key(key)).problem(), problem(400, "invalid_request"), "{key}");
    }
    let form = order(29).with("Content-Type", "application/x-www-form-urlencoded");
    assert_eq!(shop.send(&form).problem(), problem(415, "unsupported_media_type"));
    for wait in ["31", "-1", "x", ""] {
        let read = Sent::get(&format!("{ORDERS}/00?wait={wait}")).member(7);
        assert_eq!(shop.send(&read).problem(), problem(400, "invalid_request"), "{wait}");
    }
}

#[test]
fn buyers_are_known_by_token() {
    let mut shop = Shop::new(token_mode());
    let body = r#"{"sale":3,"product":29}"#;
    let exp_s = NOW.0 / 1000 + 60;
    let placed = shop.send(&Sent::post(ORDERS, body).with("Authorization", &bearer("42", exp_s)));
    assert_eq!((placed.status, &placed.json()["buyer"]), (201, &"42".into()));
    for authorization in [
        bearer("42", 1),
        bearer("", exp_s),
        bearer(&"x".repeat(129), exp_s),
        bearer("42", exp_s) + "x",
        "Bearer".to_owned(),
        "Basic eA==".to_owned(),
    ] {
        let refused = shop.send(&Sent::post(ORDERS, body).with("Authorization", &authorization).member(42));
        assert_eq!(refused.problem(), problem(401, "unauthorized"), "{authorization}");
        assert_eq!(refused.header("www-authenticate"), Some("Bearer"));
    }
    let anna = bearer("anna@shop.example", exp_s);
    let placed = shop.send(&Sent::post(ORDERS, body).with("Authorization", &anna));
    assert_eq!((placed.status, &placed.json()["buyer"]), (201, &"anna@shop.example".into()));
    let path = placed.header("location").unwrap().to_owned();
    let read = shop.send(&Sent::get(&path).with("Authorization", &anna));
    assert_eq!(read.as_placed(), placed.json());
    let seen = shop.send(&Sent::get(&path).operator()).json();
    assert_eq!(seen["buyer"].as_str().map(str::len), Some(32), "an operator sees the hash: {seen}");
    let cancelled = shop.send(&Sent::post(&format!("{path}/cancel"), "").with("Authorization", &anna));
    assert_eq!(cancelled.json()["buyer"], "anna@shop.example");
    let other = bearer("Anna@shop.example", exp_s);
    assert_eq!(shop.send(&Sent::get(&path).with("Authorization", &other)).status, 404);
    let published = Sent::post("/seckillOrder/generateOrder", r#"{"flashPromotionId":3,"productId":29}"#);
    assert_eq!(shop.send(&published.with("Authorization", &anna)).status, 403, "it has a number only");
    let by_header = shop.send(&Sent::post(ORDERS, body).member(42));
    assert_eq!(by_header.problem(), problem(401, "unauthorized"), "the header is not believed here");
}

#[test]
fn a_demo_browser_is_known_by_its_cookie() {
    let mut shop = Shop::new(demo_mode());
    let session = shop.send(&Sent::post("/api/v1/demo/session", ""));
    assert_eq!(session.status, 204);
    let set = session.header("set-cookie").unwrap();
    assert!(set.contains("; HttpOnly") && set.contains("; SameSite=Strict") && set.contains("; Path=/"));
    let cookie = set.split(';').next().unwrap();
    let again = shop.send(&Sent::post("/api/v1/demo/session", "").with("Cookie", cookie));
    assert_eq!((again.status, again.header("set-cookie")), (204, None));
    let placed = shop.send(&Sent::post(ORDERS, r#"{"sale":3,"product":29}"#).with("Cookie", cookie));
    assert_eq!(placed.status, 201);
    let own = shop.send(&Sent::get(placed.header("location").unwrap()).with("Cookie", cookie));
    assert_eq!(own.as_placed(), placed.json());
    assert_eq!(shop.send(&Sent::post(ORDERS, "{}")).problem(), problem(401, "unauthorized"));
}

#[test]
fn other_sites_may_not_act_for_a_buyer() {
    let mut shop = Shop::new(demo_mode());
    let evil = order(29).with("Origin", "https://evil.example");
    assert_eq!(shop.send(&evil).problem(), problem(403, "forbidden_origin"));
    assert_eq!(
        shop.send(&order(29).with("Sec-Fetch-Site", "cross-site")).problem(),
        problem(403, "forbidden_origin")
    );
    assert_eq!(shop.send(&order(29).with("Origin", "http://here")).status, 201);
    let foreign = shop.send(&order(29).with("Origin", "https://shop.example"));
    assert_eq!(foreign.status, 201);
    assert_eq!(foreign.header("access-control-allow-origin"), Some("https://shop.example"));
    let preflight = Sent::new("OPTIONS", ORDERS).with("Origin", "https://shop.example");
    let preflight = shop.send(&preflight);
    assert_eq!(preflight.status, 204);
    assert!(preflight.header("access-control-allow-methods").unwrap().contains("POST"));
    let none = shop.send(&Sent::new("OPTIONS", ORDERS).with("Origin", "https://evil.example"));
    assert_eq!((none.status, none.header("access-control-allow-origin")), (204, None));
    let read = shop.send(&Sent::get("/api/v1/time").with("Origin", "https://evil.example"));
    assert_eq!(read.status, 200, "what is public may be read");
}
