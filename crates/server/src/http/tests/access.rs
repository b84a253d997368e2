//! Who may join a line, and from when, by the groups that a token names.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::hmac;
use serde_json::{Value, json};

use super::shop::{NOW, SECRET, Sent, Setup, Shop};
use super::{Response, problem};
use crate::http::{AuthMode, TokenRules};

const EARLY: u64 = 5;
const INVITED: u64 = 6;
const FREE: u64 = 7;
const STARTS_IN_MS: u64 = 3_600_000;

fn shop() -> Shop {
    let groups = Some("groups".to_owned());
    let rules = TokenRules { claim: "sub".to_owned(), groups, ..TokenRules::default() };
    let mut setup = Setup::new(AuthMode::Token { secrets: vec![SECRET.into()], rules: rules.clone() });
    setup.options.sessions.rules = rules;
    let mut shop = Shop::with(setup);
    let access = [
        (
            EARLY,
            json!({ "groups": [{ "name": "gold", "before_s": null }, { "name": "club", "before_s": 600 }], "others": { "before_s": 0 } }),
        ),
        (INVITED, json!({ "groups": [{ "name": "gold", "before_s": null }], "others": null })),
        (FREE, Value::Null),
    ];
    let made = shop.send(&sale(77, &access).operator());
    assert_eq!(made.status, 201, "{}", made.text());
    // By name.
    let shown = &made.json()["items"][0]["line"]["access"];
    assert_eq!(
        shown["groups"],
        json!([{ "name": "club", "before_s": 600 }, { "name": "gold", "before_s": null }])
    );
    assert_eq!(shown["others"], json!({ "before_s": 0 }));
    assert_eq!(made.json()["items"][1]["line"]["access"]["others"], Value::Null);
    assert_eq!(made.json()["items"][2]["line"]["access"], Value::Null);
    shop.advance(0);
    shop
}

fn sale(id: u64, access: &[(u64, Value)]) -> Sent {
    let item = |(product, access): &(u64, Value)| json!({ "product": product, "title": "Shoe", "price": 100, "total": 1, "limit": 1, "line": { "access": access } });
    let starts = NOW.0 + STARTS_IN_MS;
    let sale = json!({
        "id": id, "title": "Drop", "currency": "EUR", "starts_at_ms": starts, "ends_at_ms": starts + 3_600_000,
        "items": access.iter().map(item).collect::<Vec<_>>(),
    });
    Sent::post("/api/v1/sales", &sale.to_string())
}

fn token(buyer: u64, groups: &Value) -> String {
    let part = |json: &str| URL_SAFE_NO_PAD.encode(json);
    let claims = json!({ "sub": buyer, "exp": 9_999_999_999_u64, "groups": groups });
    let signed = format!("{}.{}", part(r#"{"alg":"HS256","typ":"JWT"}"#), part(&claims.to_string()));
    let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, SECRET), signed.as_bytes());
    format!("{signed}.{}", URL_SAFE_NO_PAD.encode(tag))
}

fn join_with(shop: &mut Shop, product: u64, token: &str) -> Response {
    let sent = Sent::post(&format!("/api/v1/sales/77/items/{product}/line"), "");
    let answer = shop.send(&sent.with("Authorization", &format!("Bearer {token}")));
    shop.advance(0);
    answer
}

fn join(shop: &mut Shop, product: u64, buyer: u64, groups: Value) -> Response {
    join_with(shop, product, &token(buyer, &groups))
}

#[test]
fn each_may_join_when_the_earliest_of_their_groups_may() {
    let mut shop = shop();
    let starts_at = NOW.0 + STARTS_IN_MS;
    let later = |answer: &Response, opens_at: u64| {
        assert_eq!(answer.problem(), problem(403, "line_opens_later"));
        assert_eq!(answer.json()["opens_at_ms"], opens_at);
    };
    later(&join(&mut shop, EARLY, 1, json!([])), starts_at);
    later(&join(&mut shop, EARLY, 1, json!(["Gold", "golden"])), starts_at);
    later(&join(&mut shop, EARLY, 2, json!(["x", "club"])), starts_at - 600_000);
    let place = join(&mut shop, EARLY, 3, json!(["club", "gold"]));
    assert_eq!(place.status, 201, "{}", place.text());
    // Who has a place has it, whatever became of the membership.
    let again = join(&mut shop, EARLY, 3, json!(null));
    assert_eq!((again.status, &again.json()["ticket"]), (200, &place.json()["ticket"]));
    // The clock goes on meanwhile.
    shop.advance(STARTS_IN_MS - 1_200_000);
    later(&join(&mut shop, EARLY, 2, json!("club")), starts_at - 600_000);
    shop.advance(600_000);
    assert_eq!(join(&mut shop, EARLY, 2, json!("club")).status, 201);
    later(&join(&mut shop, EARLY, 1, json!([])), starts_at);
    shop.advance(600_000);
    assert_eq!(join(&mut shop, EARLY, 1, json!([])).status, 201);
}

#[test]
fn a_list_lets_nobody_else_in_and_no_list_everybody() {
    let mut shop = shop();
    let refused = join(&mut shop, INVITED, 1, json!(["club"]));
    assert_eq!(refused.problem(), problem(403, "line_not_open"));
    assert_eq!(refused.json().get("opens_at_ms"), None);
    assert_eq!(join(&mut shop, FREE, 1, json!(null)).status, 201);
    // A session of ours has the groups of the token that it was exchanged for.
    for (buyer, groups, status) in [(2, json!(["a b", "gold"]), 201), (3, json!(["club"]), 403)] {
        let shops = format!("Bearer {}", token(buyer, &groups));
        let opened = shop.send(&Sent::post("/api/v1/session", "").with("Authorization", &shops));
        let session = opened.json()["token"].as_str().unwrap().to_owned();
        assert_eq!(join_with(&mut shop, INVITED, &session).status, status, "{groups}");
    }
    let form =
        Sent::post("/line", "sale=77&product=6").with("Content-Type", "application/x-www-form-urlencoded");
    let by = format!("Bearer {}", token(1, &json!([])));
    let pressed = form.with("Origin", "http://here").with("Accept", "text/html").with("Authorization", &by);
    let page = shop.send(&pressed);
    assert_eq!(page.status, 403);
    assert!(page.text().contains("Only those whom the shop has invited"), "{}", page.text());
    shop.advance(STARTS_IN_MS);
    assert_eq!(join(&mut shop, INVITED, 1, json!([])).problem(), problem(403, "line_not_open"));
    shop.send(&Sent::post("/api/v1/sales/77/end", "{}").operator());
    shop.advance(0);
    assert_eq!(join(&mut shop, INVITED, 1, json!([])).problem(), problem(409, "ended"));
}

#[test]
fn an_access_that_breaks_a_bound_makes_no_sale() {
    let mut shop = shop();
    let group = |name: &str, before_s: u64| json!({ "name": name, "before_s": before_s });
    let many: Vec<_> = (0..5).map(|number| group(&number.to_string(), 0)).collect();
    for (groups, others, status) in [
        (json!([]), json!(null), 422),
        (json!(many), json!(null), 422),
        (json!([group("a", 0), group("a", 1)]), json!(null), 422),
        (json!([group("a b", 0)]), json!(null), 422),
        (json!([group("", 0)]), json!(null), 422),
        (json!([group(&"x".repeat(25), 0)]), json!(null), 422),
        (json!([group("a", 30 * 86_400 + 1)]), json!(null), 422),
        (json!([group("a", 0)]), json!({ "before_s": i64::MAX }), 422),
        (json!([{ "name": "a", "since": 0 }]), json!(null), 400),
        // What is left out is not never, and not always.
        (json!([group("a", 0)]), json!(false), 400),
        (json!([group("a", 0)]), json!({}), 400),
        (json!([{ "name": "a" }]), json!(null), 400),
        (json!([group("a", 30 * 86_400)]), json!({ "before_s": null }), 201),
    ] {
        let access = match others {
            Value::Bool(false) => json!({ "groups": groups }),
            others => json!({ "groups": groups, "others": others }),
        };
        let made = shop.send(&sale(78, &[(5, access.clone())]).operator());
        assert_eq!(made.status, status, "{access}: {}", made.text());
    }
}
