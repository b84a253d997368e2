//! An item that is sold to its line: joined, called, ordered, by the API.

use serde_json::{Value, json};

use super::problem;
use super::shop::{NOW, Sent, Setup, Shop};
use crate::http::AuthMode;
use crate::line_ticket::RECEIPT;
use crate::signing::{SigningKey, is_signed, read_document};

const LINE: &str = "/api/v1/sales/77/items/5/line";
/// Of the server, if the sale says nothing.
const TURN_MS: u64 = 120_000;
const GRACE_MS: u64 = 20_000;

/// A sale that starts in a minute, with so many units. Its entries close before anybody joins: places are in the order of joining.
fn shop(total: u64, line: &Value) -> Shop {
    let mut line = line.clone();
    line["close_s"] = json!(line.get("close_s").cloned().unwrap_or(json!(3600)));
    shop_of(total, &line)
}

fn shop_of(total: u64, line: &Value) -> Shop {
    sell_in(Setup::new(AuthMode::MemberId), total, line)
}

fn sell_in(setup: Setup, total: u64, line: &Value) -> Shop {
    let mut shop = Shop::with(setup);
    let sale = json!({
        "id": 77, "title": "Drop", "currency": "EUR", "payment_s": 60,
        "starts_at_ms": NOW.0 + 60_000, "ends_at_ms": NOW.0 + 3_600_000,
        "items": [{ "product": 5, "title": "Shoe", "price": 100, "total": total, "limit": 2, "line": line }],
    });
    let made = shop.send(&Sent::post("/api/v1/sales", &sale.to_string()).operator());
    assert_eq!(made.status, 201, "{}", made.text());
    let terms = made.json()["items"][0]["line"].clone();
    assert_eq!(terms["turn_s"], line.get("turn_s").cloned().unwrap_or(json!(TURN_MS / 1000)));
    shop.advance(0);
    shop
}

fn ask(shop: &mut Shop, path: &str, buyer: u64) -> Value {
    let answer = shop.send(&Sent::post(&format!("{LINE}{path}"), "").member(buyer));
    assert!(answer.status < 300, "{path}: {}", answer.text());
    // As the writer does with each batch.
    shop.advance(0);
    answer.json()
}

fn standing(shop: &mut Shop, buyer: u64) -> String {
    ask(shop, "/presence", buyer);
    ask(shop, "/presence", buyer)["standing"].as_str().unwrap().to_owned()
}

fn board(shop: &mut Shop) -> Value {
    let answer = shop.send(&Sent::get(LINE));
    assert_eq!(answer.header("cache-control"), Some("public, max-age=1"));
    answer.json()
}

fn order(shop: &mut Shop, buyer: u64, key: &str, quantity: u32) -> super::Response {
    let body = format!(r#"{{"sale":77,"product":5,"quantity":{quantity}}}"#);
    shop.send(&Sent::post("/api/v1/orders", &body).member(buyer).key(key))
}

#[test]
fn who_joins_waits_is_called_and_orders() {
    let mut shop = shop(1, &json!({}));
    for buyer in 1..=3 {
        let place = ask(&mut shop, "", buyer);
        assert_eq!((&place["place"], &place["standing"]), (&json!(buyer), &json!("waiting")));
    }
    let again = shop.send(&Sent::post(LINE, "").member(2));
    assert_eq!((again.status, &again.json()["place"]), (200, &json!(2)), "one place per buyer");
    let before = board(&mut shop);
    assert_eq!(
        (&before["state"], &before["sure_to"], &before["served"]),
        (&json!("not_started"), &json!(1), &json!(0))
    );
    assert_eq!(order(&mut shop, 1, "a", 1).problem(), problem(409, "not_started"));

    shop.advance(60_000);
    let called = [1, 2, 3].map(|buyer| standing(&mut shop, buyer));
    assert_eq!(called, ["called", "waiting", "waiting"]);
    assert_eq!(order(&mut shop, 2, "a", 1).problem(), problem(409, "turn_required"));
    assert_eq!(
        order(&mut shop, 1, "a", 2).problem(),
        problem(409, "not_enough_left"),
        "a turn is for one unit"
    );
    // Nothing is free, and who was called is not sold out.
    assert_eq!(board(&mut shop)["free"], 0);
    assert_eq!(order(&mut shop, 1, "b", 1).status, 201);
    assert_eq!(order(&mut shop, 1, "b", 1).header("idempotency-replayed"), Some("true"));
    assert_eq!(order(&mut shop, 1, "c", 1).problem(), problem(409, "turn_required"), "a turn works once");
    // Nobody pays: the unit goes down the line.
    shop.advance(60_000);
    assert_eq!([2, 3].map(|buyer| standing(&mut shop, buyer)), ["called", "waiting"]);
    assert_eq!(ask(&mut shop, "/leave", 2)["standing"], "over");
    assert_eq!(standing(&mut shop, 3), "called");
    let at_last = board(&mut shop);
    let units = ["free", "turns", "held", "sold"].map(|name| at_last[name].as_u64().unwrap());
    assert_eq!(units, [0, 1, 0, 0]);
}

/// It changes until the start alone, under pages that are open. Nobody has joined in time, so the entries are closed.
#[test]
fn nobody_orders_at_another_price_than_they_were_shown() {
    let mut shop = shop(2, &json!({}));
    ask(&mut shop, "", 1);
    let edit = |what: Value| {
        Sent { method: "PATCH".to_owned(), ..Sent::post("/api/v1/sales/77", &what.to_string()) }.operator()
    };
    let starts_at_ms = NOW.0 + 60_000;
    let same_start = json!({
        "starts_at_ms": starts_at_ms, "title": "Drops", "items": [{ "product": 5, "price": 120 }],
    });
    let changed = shop.send(&edit(same_start));
    assert_eq!(changed.status, 200, "the same start is no other: {}", changed.text());
    let other_start = shop.send(&edit(json!({ "starts_at_ms": starts_at_ms + 1 })));
    assert_eq!(other_start.problem(), problem(422, "invalid_change"));
    shop.advance(60_000);
    assert_eq!(standing(&mut shop, 1), "called");
    let order = |shop: &mut Shop, key: &str, shown: Value| {
        let body = json!({ "sale": 77, "product": 5, "unit_price": shown }).to_string();
        shop.send(&Sent::post("/api/v1/orders", &body).member(1).key(key))
    };
    for key in ["k", "k"] {
        let refused = order(&mut shop, key, json!(100));
        assert_eq!(refused.problem(), problem(409, "price_changed"));
        assert_eq!(refused.json()["unit_price"], 120);
    }
    assert_eq!(order(&mut shop, "k", json!("much")).problem(), problem(400, "invalid_body"));
    let placed = order(&mut shop, "k", json!(120));
    assert_eq!((placed.status, &placed.json()["unit_price"]), (201, &json!(120)), "{}", placed.text());
    // What the key has placed is answered, whatever the page shows by then.
    for shown in [json!(100), json!(120), Value::Null] {
        let again = order(&mut shop, "k", shown);
        assert_eq!((again.status, again.header("idempotency-replayed")), (201, Some("true")));
        assert_eq!(again.json()["id"], placed.json()["id"]);
    }
    let body = r#"{"sale":77,"product":5,"unit_price":100}"#;
    let without_key = shop.send(&Sent::post("/api/v1/orders", body).member(1));
    assert_eq!(without_key.problem(), problem(409, "price_changed"));
    let elsewhere = shop.send(&Sent::post("/api/v1/orders", &body.replace('5', "9")).member(1));
    assert_eq!(elsewhere.problem(), problem(404, "unknown_sku"));
}

/// Nor is whoever was called sold out to.
#[test]
fn without_a_key_and_by_the_published_route_an_order_takes_a_turn_too() {
    let mut shop = shop(2, &json!({}));
    for buyer in 1..=3 {
        ask(&mut shop, "", buyer);
    }
    shop.advance(60_000);
    assert_eq!([1, 2, 3].map(|buyer| standing(&mut shop, buyer)), ["called", "called", "waiting"]);
    assert_eq!(board(&mut shop)["free"], 0);
    let without_key = |shop: &mut Shop, buyer| {
        shop.send(&Sent::post("/api/v1/orders", r#"{"sale":77,"product":5}"#).member(buyer))
    };
    let published = |shop: &mut Shop, buyer| {
        let body = r#"{"flashPromotionId":77,"productId":5,"payType":3,"orderId":1,"orderItemId":1,"memberReceiveAddress":{}}"#;
        shop.send(&Sent::post("/seckillOrder/generateOrder", body).member(buyer))
    };
    assert_eq!(without_key(&mut shop, 3).problem(), problem(409, "turn_required"));
    let refused = published(&mut shop, 3);
    assert!(refused.status == 409 && refused.text().contains("line"), "{}", refused.text());
    assert_eq!(without_key(&mut shop, 1).status, 201);
    assert_eq!(published(&mut shop, 2).status, 200);
    assert_eq!(board(&mut shop)["held"], 2);
}

/// Whoever had joined finds what became of it.
#[test]
fn a_draw_that_is_never_made_stays_listed() {
    let mut shop = shop_of(2, &json!({ "close_s": 20 }));
    ask(&mut shop, "", 1);
    let before = shop.send(&Sent::get(&format!("{LINE}/draw"))).json();
    assert_eq!(shop.send(&Sent::post("/api/v1/sales/77/end", "{}").operator()).status, 200);
    shop.advance(3_600_000);
    let after = shop.send(&Sent::get(&format!("{LINE}/draw"))).json();
    assert_eq!((&after["state"], &after["commitment"]), (&json!("abandoned"), &before["commitment"]));
    assert_eq!([&after["entries"], &after["root"], &after["secret"], &after["seed"]], [&Value::Null; 4]);
}

#[test]
fn the_metrics_have_who_stands_where_in_a_line() {
    let mut shop = shop(2, &json!({}));
    for buyer in 1..=4 {
        ask(&mut shop, "", buyer);
    }
    shop.advance(60_000);
    assert_eq!([1, 2, 3].map(|buyer| standing(&mut shop, buyer)), ["called", "called", "waiting"]);
    assert_eq!(order(&mut shop, 1, "a", 1).status, 201);
    ask(&mut shop, "/leave", 2);
    assert_eq!(standing(&mut shop, 3), "called");
    let metrics = shop.send(&Sent::get("/metrics"));
    for (of, count) in [
        ("people{sale=\"77\",product=\"5\",kind=\"waiting\"}", 1),
        ("people{sale=\"77\",product=\"5\",kind=\"turn\"}", 1),
        ("people{sale=\"77\",product=\"5\",kind=\"in_grace\"}", 0),
        ("people{sale=\"77\",product=\"5\",kind=\"away\"}", 0),
        ("events_total{sale=\"77\",product=\"5\",kind=\"joined\"}", 4),
        ("events_total{sale=\"77\",product=\"5\",kind=\"called\"}", 3),
        ("events_total{sale=\"77\",product=\"5\",kind=\"ordered\"}", 1),
        ("events_total{sale=\"77\",product=\"5\",kind=\"given_back\"}", 1),
        ("events_total{sale=\"77\",product=\"5\",kind=\"expired\"}", 0),
    ] {
        let line = format!("doorbuster_line_{of} {count}");
        assert!(metrics.text().lines().any(|found| found == line), "{line} in\n{}", metrics.text());
    }
    assert!(!metrics.text().contains("doorbuster_line_people{sale=\"3\""), "no line, no figures of one");
}

#[test]
fn an_operator_limits_the_pace_of_a_line() {
    let mut shop = shop(9, &json!({}));
    for buyer in 1..=5 {
        ask(&mut shop, "", buyer);
    }
    let pace = |shop: &mut Shop, body: &str| {
        let answer = shop.send(&Sent::post(&format!("{LINE}/pace"), body).operator());
        shop.advance(0);
        answer
    };
    assert_eq!(pace(&mut shop, r#"{"per_s_max":0}"#).json()["id"], 77);
    shop.advance(60_000);
    assert_eq!((&board(&mut shop)["served"], &board(&mut shop)["sure_to"]), (&json!(0), &json!(5)));
    assert_eq!(pace(&mut shop, r#"{"per_s_max":1}"#).status, 200);
    assert_eq!(board(&mut shop)["served"], 1);
    assert_eq!([1, 2].map(|buyer| standing(&mut shop, buyer)), ["called", "waiting"]);
    shop.advance(1_000);
    assert_eq!(board(&mut shop)["served"], 2);
    // Who was called may order whatever the pace is.
    pace(&mut shop, r#"{"per_s_max":0}"#);
    assert_eq!(order(&mut shop, 1, "a", 1).status, 201);
    assert_eq!(pace(&mut shop, r#"{"per_s_max":null}"#).status, 200);
    assert_eq!(board(&mut shop)["served"], 5);
    for (body, expected) in [
        (r#"{"per_s_max":100001}"#, problem(422, "invalid_change")),
        (r#"{}"#, problem(400, "invalid_body")),
        (r#"{"per_s_max":-1}"#, problem(400, "invalid_body")),
    ] {
        assert_eq!(pace(&mut shop, body).problem(), expected, "{body}");
    }
    let none = Sent::post("/api/v1/sales/3/items/29/line/pace", r#"{"per_s_max":1}"#).operator();
    assert_eq!(shop.send(&none).problem(), problem(404, "no_line"));
}

#[test]
fn an_operator_says_something_to_everybody_in_a_line() {
    let mut shop = shop(1, &json!({}));
    let read = |shop: &mut Shop| {
        let answer = shop.send(&Sent::get(&format!("{LINE}/message")));
        assert_eq!(answer.header("cache-control"), Some("public, max-age=1"));
        (answer.json()["told"].clone(), answer.json()["message"].clone(), board(shop)["told"].clone())
    };
    let set_message = |shop: &mut Shop, message: &str| {
        let body = json!({ "message": message }).to_string();
        let answer = shop.send(&Sent::post(&format!("{LINE}/message"), &body).operator());
        shop.advance(0);
        answer
    };
    assert_eq!(read(&mut shop), (json!(0), json!(""), json!(0)));
    let said = "Wir öffnen <b>später</b> & \"heute\".";
    assert_eq!(set_message(&mut shop, said).json()["id"], 77);
    assert_eq!(read(&mut shop), (json!(1), json!(said), json!(1)));
    assert_eq!(set_message(&mut shop, said).status, 200);
    assert_eq!(read(&mut shop), (json!(1), json!(said), json!(1)), "the same again changes nothing");
    assert_eq!(set_message(&mut shop, "a\nb").problem(), problem(422, "invalid_change"));
    assert_eq!(set_message(&mut shop, &"é".repeat(281)).problem(), problem(422, "invalid_change"));
    assert_eq!(set_message(&mut shop, "").status, 200);
    assert_eq!(read(&mut shop), (json!(2), json!(""), json!(2)));
    let unknown = Sent::post(&format!("{LINE}/message"), "{}").operator();
    assert_eq!(shop.send(&unknown).problem(), problem(400, "invalid_body"));
    let none = Sent::get("/api/v1/sales/3/items/29/line/message");
    assert_eq!(shop.send(&none).problem(), problem(404, "no_line"));
}

#[test]
fn who_is_away_has_a_grace_and_stands_by_after_it() {
    let mut shop = shop(1, &json!({ "turn_s": 60, "units": 2 }));
    shop.send(&Sent::post("/api/v1/sales/77/items/5/restock", r#"{"units":1}"#).operator().key("r"));
    ask(&mut shop, "", 1);
    ask(&mut shop, "", 2);
    shop.advance(60_000);
    assert_eq!(standing(&mut shop, 2), "waiting");
    shop.advance(GRACE_MS);
    assert_eq!(standing(&mut shop, 2), "called");
    assert_eq!(order(&mut shop, 2, "a", 2).status, 201, "a turn for two");
    assert_eq!(standing(&mut shop, 1), "away");
}

/// Of an odd stock nothing stays unsold.
#[test]
fn the_last_turn_is_for_what_there_is() {
    let mut shop = shop(1, &json!({ "turn_s": 60, "units": 2 }));
    ask(&mut shop, "", 1);
    shop.advance(60_000);
    assert_eq!(ask(&mut shop, "/presence", 1)["turn_units"], json!(null));
    let called = ask(&mut shop, "/presence", 1);
    assert_eq!((&called["standing"], &called["turn_units"]), (&json!("called"), &json!(1)));
    let page = shop.send(&Sent::get("/line?sale=77&product=5").member(1));
    assert!(page.text().contains("Set aside for you: 1 unit."), "{}", page.text());
    assert_eq!(order(&mut shop, 1, "a", 2).problem(), problem(409, "not_enough_left"));
    assert_eq!(order(&mut shop, 1, "b", 1).status, 201);
    let at_last = board(&mut shop);
    let units = ["free", "turns", "held", "sold"].map(|name| at_last[name].as_u64().unwrap());
    assert_eq!(units, [0, 0, 1, 0]);
}

#[test]
fn a_full_line_is_said_to_be_and_keeps_who_is_in_it() {
    let mut shop = shop(1, &json!({}));
    shop.bound_lines(1);
    let place = ask(&mut shop, "", 1);
    assert_eq!(shop.send(&Sent::post(LINE, "").member(2)).problem(), problem(409, "line_full"));
    assert_eq!(ask(&mut shop, "", 1)["ticket"], place["ticket"]);
    let form =
        Sent::post("/line", "sale=77&product=5").with("Content-Type", "application/x-www-form-urlencoded");
    let pressed = shop.send(&form.with("Origin", "http://here").with("Accept", "text/html").member(3));
    assert!(pressed.status == 409 && pressed.text().contains("The line is full."), "{}", pressed.text());
    assert_eq!(board(&mut shop)["tail"], 1);
}

/// They were counted when their place was reached.
#[test]
fn who_was_called_is_not_asked_to_come_again_beside_a_crowd() {
    let mut setup = Setup::new(AuthMode::MemberId);
    (setup.limits.orders_per_s, setup.limits.burst, setup.limits.in_flight_max) = (1, 0, 1);
    let mut shop = sell_in(setup, 2, &json!({ "close_s": 3600 }));
    for buyer in [1, 2] {
        ask(&mut shop, "", buyer);
    }
    shop.advance(60_000);
    for buyer in [1, 2, 1, 2] {
        ask(&mut shop, "/presence", buyer);
    }
    let other = |buyer, key: &str| {
        Sent::post("/api/v1/orders", r#"{"sale":3,"product":29,"quantity":1}"#).member(buyer).key(key)
    };
    assert_eq!(shop.send(&other(8, "late")).status, 429, "nobody more is let through");
    // One more than may be in flight, too.
    shop.call(&other(9, "waits"));
    assert_eq!(order(&mut shop, 1, "a", 1).status, 201);
    let body = r#"{"sale":77,"product":5,"quantity":1}"#;
    assert_eq!(shop.send(&Sent::post("/api/v1/orders", body).member(2)).status, 201, "nor without a key");
    assert_eq!(order(&mut shop, 3, "a", 1).status, 429, "whoever was not called is as all are");
}

#[test]
fn what_is_asked_of_no_line_is_refused() {
    let mut shop = shop(1, &json!({}));
    for (path, expected) in [
        ("/api/v1/sales/3/items/29/line", problem(404, "no_line")),
        ("/api/v1/sales/3/items/999/line", problem(404, "unknown_sku")),
        (&format!("{LINE}/presence"), problem(404, "not_in_line")),
        (&format!("{LINE}/leave"), problem(404, "not_in_line")),
    ] {
        assert_eq!(shop.send(&Sent::post(path, "").member(1)).problem(), expected, "{path}");
        assert_eq!(shop.send(&Sent::post(path, "")).problem(), problem(401, "unauthorized"), "{path}");
    }
    assert_eq!(shop.send(&Sent::get("/api/v1/sales/3/items/29/line")).problem(), problem(404, "no_line"));
    ask(&mut shop, "", 1);
    let early = shop.send(&Sent::post(&format!("{LINE}/leave"), "").member(1));
    assert_eq!(early.problem(), problem(409, "turn_required"));
    // The published route, too.
    shop.advance(60_000);
    let body = r#"{"flashPromotionId":77,"productId":5,"payType":3,"orderId":1,"orderItemId":1,"memberReceiveAddress":{}}"#;
    let published = shop.send(&Sent::post("/seckillOrder/generateOrder", body).member(9));
    assert!(published.text().contains("line"), "{}", published.text());
}

#[test]
fn places_are_drawn_at_the_close_and_everything_for_it_is_shown() {
    let mut shop = shop_of(2, &json!({ "close_s": 20 }));
    let draw = |shop: &mut Shop| shop.send(&Sent::get(&format!("{LINE}/draw"))).json();
    for buyer in 1..=9 {
        let place = ask(&mut shop, "", buyer);
        assert_eq!((&place["number"], &place["place"]), (&json!(buyer), &Value::Null));
    }
    let before = draw(&mut shop);
    assert_eq!((&before["state"], &before["closes_at_ms"]), (&json!("open"), &json!(NOW.0 + 40_000)));
    assert_eq!([&before["secret"], &before["seed"], &before["root"], &before["beacon"]], [&Value::Null; 4]);
    assert_eq!(board(&mut shop)["drawn"], Value::Null);
    assert_eq!(board(&mut shop)["sure_to"], 0, "nobody is sure before the places are drawn");

    shop.advance(40_000);
    let after = draw(&mut shop);
    assert_eq!((&after["state"], &after["entries"]), (&json!("drawn"), &json!(9)));
    assert_eq!(after["commitment"], before["commitment"]);
    let closed = format!(
        "sale 77\nproduct 5\ncommitment {}\nclosed_at_ms {}\nentries 9\nroot {}\nbeacon none\nround none\n",
        before["commitment"].as_str().unwrap(),
        after["closed_at_ms"],
        after["root"].as_str().unwrap()
    );
    let drawn =
        format!("doorbuster line drawn\n{closed}said none\nseed {}\n", after["seed"].as_str().unwrap());
    let [key, of_close, of_draw] =
        ["signed_by", "signature", "drawn_signature"].map(|name| after[name].as_str().unwrap());
    assert!(is_signed(format!("doorbuster line close\n{closed}").as_bytes(), key, of_close), "{after}");
    assert!(is_signed(drawn.as_bytes(), key, of_draw), "{after}");
    assert_eq!([&before["signed_by"], &before["signature"], &before["drawn_signature"]], [&Value::Null; 3]);
    assert_eq!(ask(&mut shop, "/receipt", 1)["receipt"]["seed"], after["seed"]);
    let bytes = |name: &str| crate::hex::unhex::<32>(after[name].as_str().unwrap()).unwrap();
    let (secret, root, seed) = (bytes("secret"), bytes("root"), bytes("seed"));
    assert_eq!(engine::draw::commitment(&secret), bytes("commitment"));
    assert_eq!(engine::draw::seed(&secret, &root, None), seed);
    let order = engine::draw::Permutation::new(&seed, 9);
    for buyer in 1..=9_u32 {
        let place = ask(&mut shop, "", buyer.into());
        assert_eq!(place["place"], order.place_of(buyer), "{place}");
    }
    assert_eq!(ask(&mut shop, "", 10)["place"], 10);
    let shown = board(&mut shop);
    assert_eq!((&shown["drawn"], &shown["sure_to"], &shown["tail"]), (&json!(9), &json!(2), &json!(10)));
}

#[test]
fn a_receipt_is_signed_and_says_what_became_of_a_place() {
    let mut shop = shop(1, &json!({}));
    let tickets = [1, 2].map(|buyer| ask(&mut shop, "", buyer)["ticket"].clone());
    let receipt = |shop: &mut Shop, ticket: &Value| {
        let asked = Sent::post(&format!("{LINE}/receipt"), &json!({ "ticket": ticket }).to_string());
        let answer = shop.send(&asked);
        assert_eq!(
            (answer.status, answer.header("cache-control")),
            (200, Some("no-store")),
            "{}",
            answer.text()
        );
        let (content, whose) = read_document(RECEIPT, answer.text().as_bytes()).expect("it is signed");
        assert_eq!(whose, SigningKey::of_seed([7; 32]).public());
        serde_json::from_str::<Value>(content.get()).unwrap()
    };
    let early = receipt(&mut shop, &tickets[0]);
    assert_eq!((&early["outcome"], &early["left_when_reached"]), (&json!("waiting"), &Value::Null));
    assert_eq!((&early["leaf"], &early["path"]), (&Value::Null, &Value::Null), "they joined after the close");
    shop.advance(60_000);
    standing(&mut shop, 1);
    assert_eq!(order(&mut shop, 1, "a", 1).status, 201);
    let first = receipt(&mut shop, &tickets[0]);
    assert_eq!((&first["outcome"], &first["left_when_reached"]), (&json!("ordered"), &json!(1)));
    assert!(first["reached_by_entry"].as_u64() < first["entry"].as_u64(), "{first}");
    shop.send(&Sent::post("/api/v1/sales/77/end", "{}").operator());
    let second = receipt(&mut shop, &tickets[1]);
    assert_eq!(
        (&second["outcome"], &second["place"], &second["held"]),
        (&json!("not_reached"), &json!(2), &json!(1))
    );
    // Signed in it is the same, and whoever has no place has none.
    let path = format!("{LINE}/receipt");
    assert_eq!(shop.send(&Sent::post(&path, "").member(2)).json()["receipt"]["number"], 2);
    assert_eq!(shop.send(&Sent::post(&path, "").member(3)).problem(), problem(404, "not_in_line"));
    let forged = json!({ "ticket": "1.2.00000000000000000000000000000000" }).to_string();
    assert_eq!(shop.send(&Sent::post(&path, &forged)).problem(), problem(403, "invalid_ticket"));
}

/// Of who is called, lets the turn pass, was away, and is reached.
#[test]
fn a_receipt_has_a_word_for_each_outcome() {
    let mut shop = shop(1, &json!({ "turn_s": 10, "grace_s": 20 }));
    for buyer in 1..=4 {
        ask(&mut shop, "", buyer);
    }
    let outcomes = |shop: &mut Shop| {
        [1, 2, 3, 4]
            .map(|buyer| ask(shop, "/receipt", buyer)["receipt"]["outcome"].as_str().unwrap().to_owned())
    };
    shop.advance(60_000);
    assert_eq!(standing(&mut shop, 1), "called");
    assert_eq!(outcomes(&mut shop), ["called", "waiting", "waiting", "waiting"]);
    shop.advance(10_000);
    assert_eq!(outcomes(&mut shop), ["expired", "reached", "waiting", "waiting"]);
    shop.advance(20_000);
    assert_eq!(outcomes(&mut shop), ["expired", "away", "reached", "waiting"]);
    assert_eq!(standing(&mut shop, 3), "called");
    for _twice in 0..2 {
        let left = shop.send(&Sent::post(&format!("{LINE}/leave"), "").member(3));
        assert_eq!((left.status, &left.json()["outcome"]), (200, &json!("given_back")), "{}", left.text());
        shop.advance(0);
    }
    assert_eq!(outcomes(&mut shop), ["expired", "away", "given_back", "reached"]);
    assert_eq!(standing(&mut shop, 4), "called");
    assert_eq!(order(&mut shop, 4, "a", 1).status, 201);
    let said = [1, 2, 3, 4].map(|buyer| ask(&mut shop, "/presence", buyer)["outcome"].clone());
    assert_eq!(said, [json!("expired"), Value::Null, json!("given_back"), json!("ordered")]);
}

#[test]
fn a_ticket_alone_shows_presence_and_nobody_elses_does() {
    let mut shop = shop(1, &json!({}));
    let ticket = ask(&mut shop, "", 4)["ticket"].as_str().unwrap().to_owned();
    let show = |shop: &mut Shop, ticket: &str| {
        let body = json!({ "ticket": ticket }).to_string();
        shop.send(&Sent::post(&format!("{LINE}/presence"), &body))
    };
    assert_eq!(show(&mut shop, &ticket).json()["place"], 1);
    let other = ticket.replacen("1.4.", "1.5.", 1);
    // Written in another way it is none.
    let longer = ["01.4.", "1.04.", "+1.4."].map(|other| ticket.replacen("1.4.", other, 1));
    let forged = [other.as_str(), "1.4.00000000000000000000000000000000", "", "1"].map(str::to_owned);
    for wrong in forged.iter().chain(&longer) {
        assert_eq!(show(&mut shop, wrong).problem(), problem(403, "invalid_ticket"), "{wrong}");
    }
    shop.advance(60_000);
    show(&mut shop, &ticket);
    shop.advance(0);
    assert_eq!(show(&mut shop, &ticket).json()["standing"], "called");
}

/// One who hammers a line harms nobody else.
#[test]
fn what_one_buyer_asks_of_a_line_is_bounded() {
    let mut setup = Setup::new(AuthMode::MemberId);
    setup.limits.orders_per_s_per_buyer = 1;
    let mut shop = sell_in(setup, 1, &json!({}));
    let by_ticket = json!({ "ticket": ask(&mut shop, "", 1)["ticket"] }).to_string();
    for (what, body) in [
        ("", ""),
        ("/presence", ""),
        ("/leave", ""),
        ("/receipt", ""),
        ("/presence", &by_ticket),
        ("/receipt", &by_ticket),
    ] {
        // One a second is let through, however fast they come.
        let mut answers = (0..100).map(|_| shop.send(&Sent::post(&format!("{LINE}{what}"), body).member(1)));
        let refused = answers.find(|answer| answer.status == 429).expect("somebody who hammers is refused");
        assert_eq!(refused.problem(), problem(429, "buyer_rate_limited"), "{what}");
        assert_eq!(refused.header("retry-after"), Some("1"));
    }
    // So are orders that are looked for because their price has changed.
    let other_price = Sent::post("/api/v1/orders", r#"{"sale":77,"product":5,"unit_price":1}"#).key("k");
    let mut answers = (0..100).map(|_| shop.send(&other_price.clone().member(3)));
    let refused = answers.find(|answer| answer.status == 429).expect("somebody who hammers is refused");
    assert_eq!(refused.problem(), problem(429, "buyer_rate_limited"));
    assert_eq!(ask(&mut shop, "", 2)["number"], 2, "others are not bounded by it");
}

#[test]
fn a_beacon_that_the_server_does_not_know_is_refused() {
    let mut shop = Shop::with(Setup::new(AuthMode::MemberId));
    let item = json!({ "product": 5, "title": "Shoe", "price": 1, "total": 1, "limit": 1, "line": { "beacon": true } });
    let sale = json!({
        "title": "Drop", "currency": "EUR", "starts_at_ms": NOW.0, "ends_at_ms": NOW.0 + 1, "items": [item],
    });
    let made = shop.send(&Sent::post("/api/v1/sales", &sale.to_string()).operator());
    assert!(
        made.problem() == problem(422, "invalid_sale") && made.text().contains("beacon.url"),
        "{}",
        made.text()
    );
}
