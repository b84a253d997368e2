//! Orders that are given an address after they were placed: by the API, and by a form.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::hmac;
use serde_json::{Value, json};

use super::problem;
use super::shop::{NOW, SECRET, Sent, Setup, Shop};
use crate::http::{AuthMode, TokenRules};

const FORM: &str = "application/x-www-form-urlencoded";

/// A shop that asks for the address of an order that has none.
fn shop() -> Shop {
    let mut setup = Setup::new(AuthMode::MemberId);
    setup.options.address_after = true;
    Shop::with(setup)
}

fn ordered(shop: &mut Shop, more: &str) -> String {
    let sent = Sent::post("/api/v1/orders", &format!(r#"{{"sale":3,"product":29{more}}}"#)).member(7);
    let order = shop.send(&sent);
    assert_eq!(order.status, 201, "{}", order.text());
    order.json()["id"].as_str().unwrap().to_owned()
}

fn address(shop: &mut Shop, id: &str) -> Option<Value> {
    let order = shop.send(&Sent::get(&format!("/api/v1/orders/{id}")).member(7)).json();
    order.get("address").cloned()
}

fn give(id: &str, body: &str) -> Sent {
    Sent::post(&format!("/api/v1/orders/{id}/address"), body)
}

#[test]
fn an_order_is_given_one_address() {
    let mut shop = shop();
    let id = ordered(&mut shop, "");
    assert_eq!(address(&mut shop, &id), Some(Value::Null));
    for _again in 0..2 {
        let given = shop.send(&give(&id, r#"{"city":"K\u00f6ln","name":null}"#).member(7));
        assert_eq!((given.status, &given.json()["address"]), (200, &json!({ "city": "Köln" })));
        assert_eq!(given.json()["status"], "held");
    }
    assert_eq!(address(&mut shop, &id), Some(json!({ "city": "Köln" })));
    let long = format!(r#"{{"city":"{}"}}"#, "x".repeat(511));
    for (body, buyer, expected) in [
        (r#"{"city":"Bonn"}"#, 7, problem(409, "address_given")),
        (r#"{"city":"Bonn"}"#, 8, problem(404, "unknown_order")),
        ("{}", 7, problem(422, "blank_address")),
        (r#"{"city":"","name":null}"#, 7, problem(422, "blank_address")),
        (r#"{"city":" \u0000 ","name":"\t"}"#, 7, problem(422, "blank_address")),
        (r#"{"town":"Bonn"}"#, 7, problem(400, "invalid_body")),
        (r#"{"city":7}"#, 7, problem(400, "invalid_request")),
        (&long, 7, problem(400, "invalid_request")),
    ] {
        assert_eq!(shop.send(&give(&id, body).member(buyer)).problem(), expected, "{body}");
    }
    assert_eq!(shop.send(&give(&id, "{}")).problem(), problem(401, "unauthorized"));
    let strange = give(&id, r#"{"city":"Bonn"}"#).member(7).with("Origin", "http://evil.example");
    assert_eq!(shop.send(&strange).problem(), problem(403, "forbidden_origin"));

    let with_one = ordered(&mut shop, r#","address":{"city":"Ulm"}"#);
    assert_eq!(address(&mut shop, &with_one), Some(json!({ "city": "Ulm" })));
    let another = give(&with_one, r#"{"city":"Bonn"}"#).member(7);
    assert_eq!(shop.send(&another).problem(), problem(409, "address_given"));

    let over = ordered(&mut shop, "");
    shop.send(&Sent::post(&format!("/api/v1/orders/{over}/cancel"), "").member(7));
    let late = shop.send(&give(&over, r#"{"city":"Bonn"}"#).member(7));
    assert_eq!(late.problem(), problem(409, "takes_no_address"));
}

#[test]
fn where_the_shop_does_not_ask_reading_an_order_says_nothing_of_addresses() {
    let mut shop = Shop::new(AuthMode::MemberId);
    let id = ordered(&mut shop, "");
    assert_eq!(address(&mut shop, &id), None);
    assert_eq!(shop.send(&give(&id, r#"{"city":"Ulm"}"#).member(7)).status, 200);
    assert_eq!(address(&mut shop, &id), None);
}

#[test]
fn a_form_gives_an_address_without_a_script() {
    let mut shop = shop();
    let id = ordered(&mut shop, "");
    let page = format!("/orders/{id}?plain=1");
    let action = format!("action=\"/orders/{id}/address\"");
    let read = |shop: &mut Shop| shop.send(&Sent::get(&page).member(7)).text();
    assert!(read(&mut shop).contains(&action));
    let send = |fields: &str| {
        let sent = Sent::post(&format!("/orders/{id}/address"), fields).with("Content-Type", FORM);
        sent.with("Accept", "text/html").member(7)
    };
    let empty = shop.send(&send("name=&city="));
    assert_eq!(empty.status, 422, "{}", empty.text());
    for _again in 0..2 {
        let given = shop.send(&send("city=K%C3%B6ln&name=Ada+%3Cb%3E&phone="));
        assert_eq!((given.status, given.header("location")), (303, Some(&*page)), "{}", given.text());
    }
    let shown = read(&mut shop);
    assert!(!shown.contains(&action), "{shown}");
    assert!(shown.contains("<dd><bdi>Ada &lt;b&gt;</bdi>, <bdi>Köln</bdi></dd>"), "{shown}");
    assert_eq!(shop.send(&send("city=Bonn")).status, 409);
    shop.send(&Sent::post(&format!("/orders/{id}/cancel"), "").with("Content-Type", FORM).member(7));
    assert!(!read(&mut shop).contains(&action));
}

/// A shop whose tokens have the addresses; reading an order shows what was kept.
fn token_shop() -> Shop {
    let rules = TokenRules { claim: "sub".to_owned(), with_address: true, ..TokenRules::default() };
    let mut setup = Setup::new(AuthMode::Token { secrets: vec![SECRET.into()], rules: rules.clone() });
    setup.options.sessions.rules = rules;
    setup.options.address_after = true;
    Shop::with(setup)
}

fn bearer(claims: &Value) -> String {
    let mut all = json!({ "sub": "anna", "exp": NOW.0 / 1000 + 60 });
    all.as_object_mut().unwrap().extend(claims.as_object().unwrap().clone());
    let header = URL_SAFE_NO_PAD.encode(r#"{"alg":"HS256","typ":"JWT"}"#);
    let signed = format!("{header}.{}", URL_SAFE_NO_PAD.encode(all.to_string()));
    let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, SECRET), signed.as_bytes());
    format!("Bearer {signed}.{}", URL_SAFE_NO_PAD.encode(tag))
}

#[test]
fn an_order_takes_the_address_of_its_buyers_token() {
    let mut shop = token_shop();
    let claims = json!({ "name": "Anna Å", "address": { "street_address": "Kai 1", "locality": "Bergen" } });
    let kept = json!({ "name": "Anna Å", "city": "Bergen", "detail": "Kai 1" });
    let direct = bearer(&claims);
    let opened = shop.send(&Sent::post("/api/v1/session", "").with("Authorization", &direct));
    assert_eq!(opened.status, 200, "{}", opened.text());
    let session = format!("Bearer {}", opened.json()["token"].as_str().unwrap());
    assert!(session.len() <= 2048 + 7);
    let body = r#"{"sale":3,"product":29,"address":{"city":"Elsewhere"}}"#;
    for (number, token) in [&direct, &session].into_iter().enumerate() {
        let order = |token: &str| {
            let sent = Sent::post("/api/v1/orders", body).with("Authorization", token);
            sent.with("Idempotency-Key", &format!("key {number}").replace(' ', "-"))
        };
        let placed = shop.send(&order(token));
        assert_eq!(placed.status, 201, "{}", placed.text());
        let path = format!("/api/v1/orders/{}", placed.json()["id"].as_str().unwrap());
        let read = shop.send(&Sent::get(&path).with("Authorization", token)).json();
        assert_eq!(read["address"], kept, "the shop's, not what the buyer sends");
        // With a newer token, that has another address, the same request is the same order.
        let moved = bearer(&json!({ "address": { "locality": "Oslo" } }));
        assert_eq!(shop.send(&order(&moved)).json()["id"], placed.json()["id"]);
        let read = shop.send(&Sent::get(&path).with("Authorization", token)).json();
        assert_eq!(read["address"], kept);
    }
}

#[test]
fn a_token_whose_address_is_wrong_is_refused_with_its_reason() {
    let mut shop = token_shop();
    let long = "x".repeat(900);
    for (address, said) in [
        (json!("Kai 1"), "is no object of texts"),
        (json!({ "locality": 7 }), "is no object of texts"),
        (json!({ "locality": long }), "is longer than 768 bytes"),
    ] {
        let token = bearer(&json!({ "address": address }));
        for path in ["/api/v1/session", "/api/v1/orders"] {
            let sent =
                Sent::post(path, if path.ends_with("orders") { r#"{"sale":3,"product":29}"# } else { "" });
            let refused = shop.send(&sent.with("Authorization", &token));
            assert_eq!(refused.problem(), problem(401, "unauthorized"), "{path}");
            let detail = refused.json()["detail"].as_str().unwrap().to_owned();
            assert!(detail.contains(said), "{path}: {detail}");
        }
    }
    // Where addresses do not come by token, nobody looks at the claim.
    let mut other = Shop::new(super::shop::token_mode());
    let token = bearer(&json!({ "address": 7 }));
    let sent = Sent::post("/api/v1/orders", r#"{"sale":3,"product":29}"#).with("Authorization", &token);
    assert_eq!(other.send(&sent).status, 201);
}
