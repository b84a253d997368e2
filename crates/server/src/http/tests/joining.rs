//! What is asked of whoever would join a line, by the API and by forms.

use std::ops::RangeInclusive;

use serde_json::json;

use super::problem;
use super::shop::{NOW, Sent, Setup, Shop};
use crate::http::AuthMode;
use crate::verifier::{ProofOfWork, Verifier, solve};

const LINE: &str = "/api/v1/sales/77/items/5/line";
const OTHER: &str = "/api/v1/sales/77/items/6/line";
const LAPSES_MS: u64 = 600_000;

fn shop(admits_without_script: bool) -> Shop {
    let mut setup = Setup::new(AuthMode::MemberId);
    setup.verifier = Verifier::ProofOfWork(ProofOfWork::new(12, admits_without_script));
    setup.refused_without_script = (!admits_without_script).then_some("refused-verification-required");
    open(setup)
}

/// A shop with a sale whose two items have lines.
pub(super) fn open(setup: Setup) -> Shop {
    open_with(setup, 5..=6)
}

fn open_with(setup: Setup, products: RangeInclusive<u64>) -> Shop {
    let mut shop = Shop::with(setup);
    let item = |product: u64| json!({ "product": product, "title": "Shoe", "price": 100, "total": 1, "limit": 1, "line": {} });
    let sale = json!({
        "id": 77, "title": "Drop", "currency": "EUR", "starts_at_ms": NOW.0 + 3_600_000, "ends_at_ms": NOW.0 + 7_200_000,
        "items": products.map(item).collect::<Vec<_>>(),
    });
    let made = shop.send(&Sent::post("/api/v1/sales", &sale.to_string()).operator());
    assert_eq!(made.status, 201, "{}", made.text());
    shop.advance(0);
    shop
}

fn join(shop: &mut Shop, line: &str, buyer: u64, verification: Option<&str>) -> super::Response {
    let body = verification.map_or(String::new(), |answer| json!({ "verification": answer }).to_string());
    let answer = shop.send(&Sent::post(line, &body).member(buyer));
    shop.advance(0);
    answer
}

fn challenge(refused: &super::Response) -> String {
    assert_eq!(refused.problem(), problem(403, "verification_required"));
    refused.json()["challenge"].as_str().unwrap().to_owned()
}

fn joined(shop: &mut Shop) -> serde_json::Value {
    shop.send(&Sent::get(LINE)).json()["tail"].clone()
}

#[test]
fn who_has_worked_it_out_joins_and_is_never_asked_again() {
    let mut shop = shop(false);
    let answer = solve(&challenge(&join(&mut shop, LINE, 1, None)));
    // It is worth nothing to another buyer, or in another line; neither is half of it.
    for (line, buyer, given) in
        [(LINE, 2, &*answer), (OTHER, 1, &answer), (LINE, 1, &answer[..90]), (LINE, 1, "")]
    {
        challenge(&join(&mut shop, line, buyer, Some(given)));
    }
    assert_eq!(joined(&mut shop), 0, "nobody is in the line");
    let place = join(&mut shop, LINE, 1, Some(&answer));
    assert_eq!((place.status, &place.json()["number"]), (201, &json!(1)), "{}", place.text());
    for given in [None, Some("nonsense"), Some(&*answer)] {
        let again = join(&mut shop, LINE, 1, given);
        assert_eq!(
            (again.status, &again.json()["ticket"]),
            (200, &place.json()["ticket"]),
            "{}",
            again.text()
        );
    }
    let elsewhere = join(&mut shop, OTHER, 1, None);
    assert_eq!((elsewhere.status, &elsewhere.json()["number"]), (201, &json!(1)), "{}", elsewhere.text());
    challenge(&join(&mut shop, OTHER, 2, None));
    // What was put off for too long lapses, and another one does.
    let late = solve(&challenge(&join(&mut shop, LINE, 3, None)));
    shop.advance(LAPSES_MS);
    let next = solve(&challenge(&join(&mut shop, LINE, 3, Some(&late))));
    assert_eq!(join(&mut shop, LINE, 3, Some(&next)).status, 201);
    assert_eq!(joined(&mut shop), 2);
}

/// Of a sale with many items, so many are looked at.
#[test]
fn a_place_is_looked_for_at_the_first_64_items() {
    let mut setup = Setup::new(AuthMode::MemberId);
    setup.verifier = Verifier::ProofOfWork(ProofOfWork::new(12, false));
    let mut shop = open_with(setup, 1..=66);
    let line = |product: u64| format!("/api/v1/sales/77/items/{product}/line");
    for (product, is_found) in [(65, false), (64, true)] {
        let buyer = product;
        let answer = solve(&challenge(&join(&mut shop, &line(product), buyer, None)));
        assert_eq!(join(&mut shop, &line(product), buyer, Some(&answer)).status, 201);
        assert_eq!(join(&mut shop, &line(product), buyer, None).status, 200, "the own item's always");
        let other = join(&mut shop, &line(66), buyer, None);
        assert_eq!(other.status, if is_found { 201 } else { 403 }, "{}", other.text());
    }
}

#[test]
fn nobody_works_for_nothing() {
    let mut shop = shop(false);
    for (line, expected) in [
        ("/api/v1/sales/3/items/29/line", problem(404, "no_line")),
        ("/api/v1/sales/77/items/9/line", problem(404, "unknown_sku")),
    ] {
        assert_eq!(join(&mut shop, line, 1, None).problem(), expected, "{line}");
    }
    let unreadable = shop.send(&Sent::post(LINE, r#"{"verification":7}"#).member(1));
    assert_eq!(unreadable.problem(), problem(400, "invalid_body"));
    shop.send(&Sent::post("/api/v1/sales/77/end", "{}").operator());
    shop.advance(0);
    assert_eq!(join(&mut shop, LINE, 1, None).problem(), problem(409, "ended"));
}

#[test]
fn a_form_joins_if_that_is_allowed_or_for_whoever_has_a_place() {
    let form = || {
        let sent = Sent::post("/line", "sale=77&product=5")
            .with("Content-Type", "application/x-www-form-urlencoded");
        sent.with("Origin", "http://here").with("Accept", "text/html").member(1)
    };
    let noscript = "takes JavaScript";
    for admits in [false, true] {
        let mut shop = shop(admits);
        let page = shop.send(&Sent::get("/seckill_77_5.html")).text();
        assert_eq!(page.contains(noscript), !admits);
        let pressed = shop.send(&form());
        shop.advance(0);
        if admits {
            assert_eq!(pressed.status, 303, "{}", pressed.text());
            continue;
        }
        assert_eq!(pressed.status, 403);
        assert!(pressed.text().contains(noscript), "{}", pressed.text());
        let answer = solve(&challenge(&join(&mut shop, LINE, 1, None)));
        assert_eq!(join(&mut shop, LINE, 1, Some(&answer)).status, 201);
        assert_eq!(shop.send(&form()).status, 303, "who has a place is led to it");
    }
}
