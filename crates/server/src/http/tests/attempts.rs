//! Who tried most to order an item: counted on every way to the stock, shown to whoever may know buyers by name.

use engine::Role;
use serde_json::{Value, json};

use super::operators::{bearer, with};
use super::problem;
use super::shop::{OPERATOR, Sent, Setup, Shop, demo_mode};

const ATTEMPTS: &str = "/api/v1/sales/3/items/30/attempts";

fn shop() -> Shop {
    let mut setup = Setup::new(demo_mode());
    setup.ledger = true;
    Shop::with(setup)
}

fn place(shop: &mut Shop, product: u64, buyer: u64, key: &str) -> u16 {
    let body = format!("{{\"sale\":3,\"product\":{product}}}");
    shop.send(&Sent::post("/api/v1/orders", &body).member(buyer).key(key)).status
}

type Said<'a> = (&'a str, u64, Vec<(&'a str, u64)>);

/// Who tried how often, with what came of it.
fn said(list: &Value) -> Vec<Said<'_>> {
    let rows = list.as_array().unwrap().iter();
    rows.map(|row| {
        let number = |name: &str| row[name].as_u64().unwrap();
        let counts = row.as_object().unwrap().keys().map(String::as_str);
        let counts = counts.filter(|name| !["who", "attempts", "missed_max"].contains(name));
        let came: Vec<_> = counts.map(|name| (name, number(name))).filter(|(_, count)| *count > 0).collect();
        assert_eq!(came.iter().map(|(_, count)| count).sum::<u64>(), number("attempts"));
        (row["who"].as_str().unwrap(), number("attempts"), came)
    })
    .collect()
}

#[test]
fn attempts_are_counted_by_buyer_and_address_with_what_came_of_them() {
    let mut shop = shop();
    // Two units, one for each buyer.
    assert_eq!(place(&mut shop, 30, 7, "a"), 201);
    assert_eq!([place(&mut shop, 30, 7, "a"), place(&mut shop, 30, 7, "b")], [201, 409]);
    assert_eq!([place(&mut shop, 30, 8, "a"), place(&mut shop, 30, 9, "a")], [201, 409]);
    // Without a key the event loop judges it.
    let without_key = Sent::post("/api/v1/orders", r#"{"sale":3,"product":30}"#).member(9);
    assert_eq!(shop.send(&without_key).status, 409);
    place(&mut shop, 29, 5, "of another item");
    assert_eq!(shop.send(&Sent::post("/api/v1/orders", r#"{"sale":3,"product":99}"#).member(5)).status, 404);

    let sam = bearer(&mut shop, "sam", Role::Support, None);
    let found = shop.send(&with(Sent::get(ATTEMPTS), &sam));
    assert_eq!(found.status, 200, "{}", found.text());
    let found = found.json();
    let expected = [
        ("7", 3, vec![("accepted", 1), ("refused_limit", 1), ("replayed", 1)]),
        ("9", 2, vec![("refused_stock", 2)]),
        ("8", 1, vec![("accepted", 1)]),
    ];
    for of in ["night", "minute"] {
        assert_eq!(said(&found[of]["buyers"]), expected, "{of}");
        assert_eq!(said(&found[of]["addresses"])[0].1, 6, "{of}");
        assert_eq!(found[of]["buyers_missed_max"], 0);
    }
    assert_eq!((&found["this_server_only"], &found["uncounted"]), (&json!(true), &json!(0)));
    assert_eq!((&found["servers"], &found["servers_missing"]), (&json!(1), &json!(0)));
    // They are in nothing that every viewer reads.
    let figures = shop.send(&with(Sent::get("/api/v1/figures"), OPERATOR)).text();
    assert!(!figures.contains("\"addresses\""), "{figures}");

    let erased = shop.send(&with(Sent::post("/api/v1/buyers/erase", r#"{"buyer":"7"}"#), OPERATOR));
    assert_eq!(erased.status, 202, "{}", erased.text());
    let left = shop.send(&with(Sent::get(ATTEMPTS), &sam)).json();
    assert_eq!(said(&left["night"]["buyers"]), expected[1..], "an erased buyer is named nowhere");
}

#[test]
fn viewers_do_not_see_them_and_an_item_that_is_not_there_has_none() {
    let mut shop = shop();
    let vera = bearer(&mut shop, "vera", Role::Viewer, None);
    assert_eq!(shop.send(&with(Sent::get(ATTEMPTS), &vera)).problem(), problem(403, "role_required"));
    assert_eq!(shop.send(&Sent::get(ATTEMPTS)).status, 401);
    let unknown = with(Sent::get("/api/v1/sales/3/items/99/attempts"), OPERATOR);
    assert_eq!(shop.send(&unknown).status, 404);
}
