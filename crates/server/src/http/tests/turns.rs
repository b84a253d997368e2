//! Turns of a line where something stands in their way: open orders of another item, a pause, the end of the sale.

use serde_json::{Value, json};

use super::shop::{NOW, Sent, Setup, Shop};
use crate::http::AuthMode;

/// Two items, each of one unit and sold to its line; one open order or turn per buyer. Places are in the order of joining.
fn shop() -> Shop {
    let mut shop = Shop::with(Setup::new(AuthMode::MemberId));
    let item = |product: u64| {
        let line = json!({ "close_s": 3600, "turn_s": 120, "grace_s": 20 });
        json!({ "product": product, "title": "Shoe", "price": 100, "total": 1, "limit": 1, "line": line })
    };
    let sale = json!({
        "id": 77, "title": "Drop", "currency": "EUR", "payment_s": 60, "open_holds_per_buyer_max": 1,
        "starts_at_ms": NOW.0 + 60_000, "ends_at_ms": NOW.0 + 3_600_000, "items": [item(5), item(6)],
    });
    let made = shop.send(&Sent::post("/api/v1/sales", &sale.to_string()).operator());
    assert_eq!(made.status, 201, "{}", made.text());
    shop.advance(0);
    for (product, buyer) in [(5, 1), (6, 1), (5, 2), (6, 2)] {
        ask(&mut shop, product, "", buyer);
    }
    shop.advance(60_000);
    shop
}

fn ask(shop: &mut Shop, product: u64, path: &str, buyer: u64) -> Value {
    let path = format!("/api/v1/sales/77/items/{product}/line{path}");
    let answer = shop.send(&Sent::post(&path, "").member(buyer));
    assert!(answer.status < 300, "{path}: {}", answer.text());
    // As the writer does with each batch.
    shop.advance(0);
    answer.json()
}

/// As it is after the batch that has heard of somebody.
fn standing(shop: &mut Shop, product: u64, buyer: u64) -> Value {
    ask(shop, product, "/presence", buyer);
    ask(shop, product, "/presence", buyer)
}

fn operate(shop: &mut Shop, what: &str) {
    let answer = shop.send(&Sent::post(&format!("/api/v1/sales/77/{what}"), "{}").operator());
    assert_eq!(answer.status, 200, "{}", answer.text());
    shop.advance(0);
}

#[test]
fn who_may_have_no_further_hold_is_answered_so() {
    let mut shop = shop();
    assert_eq!(standing(&mut shop, 5, 1)["standing"], "called");
    let said = |shop: &mut Shop| {
        let place = standing(shop, 6, 1);
        let receipt = ask(shop, 6, "/receipt", 1)["receipt"].clone();
        assert_eq!(receipt["blocked_by"], place["blocked_by"]);
        assert_eq!(receipt["outcome"], place["standing"]);
        let page = shop.send(&Sent::get("/line?sale=77&product=6").member(1));
        let is_shown = page.text().contains("data-view=\"blocked\"");
        assert_eq!(is_shown, !place["blocked_by"].is_null(), "{}", page.text());
        (place["standing"].as_str().unwrap().to_owned(), place["blocked_by"].clone())
    };
    assert_eq!(said(&mut shop), ("reached".to_owned(), json!("too_many_holds")));
    shop.advance(20_000);
    assert_eq!(said(&mut shop), ("away".to_owned(), json!("too_many_holds")));
    assert_eq!(standing(&mut shop, 6, 2)["blocked_by"], Value::Null);
    ask(&mut shop, 5, "/leave", 1);
    assert_eq!(said(&mut shop), ("away".to_owned(), Value::Null));
    // Of who waits, and of who is called, it says nothing.
    assert_eq!(standing(&mut shop, 6, 2)["standing"], "called");
    let waiting = standing(&mut shop, 5, 2);
    assert_eq!((&waiting["standing"], &waiting["blocked_by"]), (&json!("reached"), &json!("too_many_holds")));
}

#[test]
fn in_a_pause_a_turn_is_over_when_it_would_be_if_that_ended() {
    let mut shop = shop();
    let begun = shop.shared.clock.now().0;
    assert_eq!(standing(&mut shop, 5, 1)["standing"], "called");
    shop.advance(20_000);
    operate(&mut shop, "pause");
    // The clock goes on: so much more of the turn may be over.
    let late_ms = shop.shared.clock.now().0 - begun - 20_000;
    for _ in 0..2 {
        shop.advance(300_000);
        let asked = shop.shared.clock.now().0;
        let place = ask(&mut shop, 5, "/presence", 1);
        // It is read once more for the answer.
        let left_for = place["turn_until_ms"].as_u64().unwrap() - 100_000;
        let is_between = (asked - late_ms..=place["now_ms"].as_u64().unwrap()).contains(&left_for);
        assert!(place["standing"] == "called" && is_between, "{asked} {place}");
    }
}

/// Whoever was called may order still, and whoever is sure is called: it is followed until that is over.
#[test]
fn a_sale_is_listed_and_counted_while_somebody_may_order_after_its_end() {
    let mut shop = shop();
    let is_listed = |shop: &mut Shop| {
        let list = shop.send(&Sent::get("/api/v1/sales").operator()).json();
        let listed = list["sales"].as_array().unwrap().iter().any(|sale| sale["id"] == 77);
        let metrics = shop.send(&Sent::get("/metrics"));
        let counted = [
            "doorbuster_stock_units{sale=\"77\",product=\"5\",kind=\"turns\"}",
            "doorbuster_line_people{sale=\"77\",product=\"5\",kind=\"turn\"}",
        ];
        assert_eq!(counted.map(|name| metrics.text().contains(name)), [listed; 2]);
        listed
    };
    // Of the first item one is called; the unit of the second is kept for one who is not there.
    assert_eq!(standing(&mut shop, 5, 1)["standing"], "called");
    ask(&mut shop, 5, "/leave", 1);
    operate(&mut shop, "end");
    shop.advance(10_000);
    assert!(is_listed(&mut shop), "the units are kept for those in grace");
    assert_eq!(standing(&mut shop, 5, 2)["standing"], "called");
    shop.advance(60_000);
    assert!(is_listed(&mut shop), "a turn is open");
    let ended = shop.send(&Sent::get("/api/v1/sales?state=ended").operator()).json();
    assert!(ended["sales"].as_array().unwrap().iter().any(|sale| sale["id"] == 77), "it is over, too");
    ask(&mut shop, 5, "/leave", 2);
    shop.advance(2_000);
    assert!(!is_listed(&mut shop), "nobody may order any more");
}
