//! Waiting in a line without a script, as a browser sends and reads it.

use serde_json::json;

use super::Response;
use super::shop::{NOW, Sent, Setup, Shop, demo_mode, token_mode};
use crate::http::AuthMode;

const ITEM: &str = "sale=77&product=5";
const PLACE: &str = "/line?sale=77&product=5";

const NO_TIME: &str = "How long it takes until your place is reached can't be said right now.";

/// Nobody takes part in its draw: places are in the order of joining.
fn shop(auth: AuthMode) -> Shop {
    shop_that_closes(auth, 3600)
}

fn shop_that_closes(auth: AuthMode, close_s: u64) -> Shop {
    shop_with_line(auth, &json!({ "close_s": close_s }))
}

fn shop_with_line(auth: AuthMode, line: &serde_json::Value) -> Shop {
    let mut shop = Shop::with(Setup::new(auth));
    let sale = json!({
        "id": 77, "title": "Drop", "currency": "EUR", "payment_s": 60,
        "starts_at_ms": NOW.0 + 60_000, "ends_at_ms": NOW.0 + 3_600_000,
        "items": [
            { "product": 5, "title": "Shoe", "price": 100, "total": 1, "limit": 1, "line": line },
            { "product": 6, "title": "Sock", "price": 100, "total": 1, "limit": 1 },
        ],
    });
    let made = shop.send(&Sent::post("/api/v1/sales", &sale.to_string()).operator());
    assert_eq!(made.status, 201, "{}", made.text());
    shop.advance(0);
    shop
}

fn form(path: &str, fields: &str) -> Sent {
    let sent = Sent::post(path, fields).with("Content-Type", "application/x-www-form-urlencoded");
    sent.with("Origin", "http://here").with("Accept", "text/html")
}

/// Joins, or leaves; then as the writer does with each batch.
fn press(shop: &mut Shop, path: &str, member: u64) {
    let pressed = shop.send(&form(path, ITEM).member(member));
    assert_eq!((pressed.status, pressed.header("location")), (303, Some(PLACE)), "{}", pressed.text());
    shop.advance(0);
}

/// The page as its reader has it after it has asked for itself once, and how soon it does so again.
fn page(shop: &mut Shop, member: u64) -> (String, Option<String>) {
    shop.send(&Sent::get(PLACE).member(member));
    shop.advance(0);
    let page: Response = shop.send(&Sent::get(PLACE).member(member));
    assert_eq!((page.status, page.header("cache-control")), (200, Some("no-store")), "{}", page.text());
    (page.text().to_owned(), page.header("refresh").map(str::to_owned))
}

#[track_caller]
fn says(shop: &mut Shop, member: u64, heading: &str, asks_again: bool) -> String {
    let (text, refresh) = page(shop, member);
    assert!(text.contains(&format!("<h1>{heading}</h1>")), "{heading:?} is not in {text}");
    assert!(text.contains(&format!("<title>{heading} · ")), "{text}");
    assert_eq!(refresh.as_deref(), asks_again.then_some("5"), "{heading}");
    text
}

#[test]
fn a_place_is_worth_what_the_board_says() {
    let mut shop = shop(AuthMode::MemberId);
    for member in [1, 2, 3, 2] {
        press(&mut shop, "/line", member);
    }
    let before = says(&mut shop, 1, "You will get one", true);
    assert!(before.contains("Your place: 1") && before.contains("The first are called at"), "{before}");
    let behind = says(&mut shop, 3, "You may get one", true);
    assert!(
        behind.contains("Your place: 3")
            && behind.contains("1 person ahead of you is not sure")
            && behind.contains("As of 22:1"),
        "{behind}"
    );
    shop.advance(60_000);
    let called = says(&mut shop, 1, "It is your turn", false);
    assert!(
        called.contains("action=\"/buy\"") && called.contains("name=\"quantity\" value=\"1\""),
        "{called}"
    );
    assert!(!called.contains(" disabled"), "{called}");
    let early = shop.send(&form("/buy", &format!("{ITEM}&quantity=1&key=early")).member(2));
    assert!(early.status == 409 && early.text().contains("It is not your turn."), "{}", early.text());
    press(&mut shop, "/line/leave", 1);
    let receipt = shop.send(&form("/line/receipt", ITEM).member(1));
    assert_eq!((receipt.status, &receipt.json()["receipt"]["outcome"]), (200, &"given_back".into()));
    says(&mut shop, 1, "You gave your turn back", false);
    let second = says(&mut shop, 2, "It is your turn", false);
    assert!(second.contains("action=\"/line/leave\""), "{second}");
    let order = shop.send(&form("/buy", &format!("{ITEM}&quantity=1&key=k")).member(2));
    assert_eq!(order.status, 303, "{}", order.text());
    says(&mut shop, 3, "You may get one", true);
    shop.send(&Sent::post("/api/v1/sales/77/end", "{}").operator());
    shop.advance(0);
    says(&mut shop, 3, "The line is closed", false);
}

#[test]
fn where_hardly_anybody_is_waited_for_the_page_asks_more_often() {
    for (grace_s, often) in [(0, "2"), (9, "2"), (10, "5")] {
        let mut shop = shop_with_line(AuthMode::MemberId, &json!({ "close_s": 3600, "grace_s": grace_s }));
        press(&mut shop, "/line", 1);
        assert_eq!(page(&mut shop, 1).1.as_deref(), Some(often), "{grace_s}");
    }
}

/// It goes on by itself, and nobody is shown a time that stands, or to order.
#[test]
fn a_pause_is_said_to_everybody_who_waits() {
    let mut shop = shop(AuthMode::MemberId);
    for member in 1..=3 {
        press(&mut shop, "/line", member);
    }
    shop.advance(60_000);
    let called = says(&mut shop, 1, "It is your turn", false);
    assert!(!called.contains("before the start") && !called.contains("paused"), "{called}");
    // The next is reached, and not seen yet.
    press(&mut shop, "/line/leave", 1);
    let steer = |shop: &mut Shop, verb: &str| {
        let sent = Sent::post(&format!("/api/v1/sales/77/{verb}"), "{}").operator();
        assert_eq!(shop.send(&sent).status, 200);
        shop.advance(0);
    };
    steer(&mut shop, "pause");
    let paused = "The sale is paused. It will go on here by itself.";
    let reached = says(&mut shop, 2, "Your place is reached", true);
    assert!(reached.contains(paused) && reached.contains("you are called once it goes on"), "{reached}");
    let waiting = says(&mut shop, 3, "You may get one", true);
    assert!(waiting.contains(paused), "{waiting}");
    let over = says(&mut shop, 1, "You gave your turn back", false);
    assert!(!over.contains(paused), "{over}");
    steer(&mut shop, "resume");
    says(&mut shop, 2, "It is your turn", false);
    steer(&mut shop, "pause");
    let called = says(&mut shop, 2, "It is your turn", true);
    assert!(called.contains("the time of your turn stands until then"), "{called}");
    assert!(!called.contains("Order by") && !called.contains("action=\"/buy\""), "{called}");
    steer(&mut shop, "resume");
    let called = says(&mut shop, 2, "It is your turn", false);
    assert!(called.contains("Order by") && called.contains("action=\"/buy\""), "{called}");
}

/// As the page with scripts says it: how fast it goes, who gave up, what moved the borders last, and the end of a turn to the second.
#[test]
fn who_waits_reads_what_moves_the_line() {
    let mut shop = shop(AuthMode::MemberId);
    for member in 1..=9 {
        press(&mut shop, "/line", member);
    }
    let before = says(&mut shop, 9, "You may get one", true);
    assert!(
        !before.contains("Gave up") && !before.contains("in line.") && !before.contains("minutes"),
        "{before}"
    );
    shop.advance(60_000);
    let called = says(&mut shop, 1, "It is your turn", false);
    // One who was called at once is no pace.
    let start = says(&mut shop, 9, "You may get one", true);
    assert!(start.contains(NO_TIME) && !start.contains("minutes"), "{start}");
    shop.advance(30_000);
    let order_by = called.split("Order by ").nth(1).unwrap().split(' ').nth(3).unwrap();
    assert_eq!(order_by.matches(':').count(), 2, "{called}");
    press(&mut shop, "/line/leave", 1);
    let after = says(&mut shop, 9, "You may get one", true);
    for said in [
        "Gave up so far: 1.",
        "UTC): 1.</p>",
        // One became sure in half a minute; of six who are ahead the last is reached in three, more or less.
        "your place is reached in 2 to 6 minutes.",
    ] {
        assert!(after.contains(said), "{said:?} is not in {after}");
    }
    assert!(!after.contains(NO_TIME) && !after.contains("The sale may well end"), "{after}");
    // With an end before the earlier, and before the later of both.
    for (left_ms, has_minutes) in [(100_000, false), (300_000, true)] {
        let ends_at_ms = NOW.0 + 90_000 + left_ms;
        let moved = Sent::post("/api/v1/sales/77", &json!({ "ends_at_ms": ends_at_ms }).to_string());
        let moved = Sent { method: "PATCH".to_owned(), ..moved }.operator();
        assert_eq!(shop.send(&moved).status, 200);
        let late = says(&mut shop, 9, "You may get one", true);
        assert!(late.contains("The sale may well end before your place is reached"), "{late}");
        assert_eq!(late.contains(" minutes."), has_minutes, "{late}");
    }
    let limit = Sent::post("/api/v1/sales/77/items/5/line/pace", r#"{"per_s_max":0}"#).operator();
    assert_eq!(shop.send(&limit).status, 200);
    shop.advance(0);
    let stands = says(&mut shop, 9, "You may get one", true);
    assert!(stands.contains(NO_TIME) && !stands.contains("The sale may well end"), "{stands}");
    let restock = Sent::post("/api/v1/sales/77/items/5/restock", r#"{"units":2}"#).operator().key("r");
    assert_eq!(shop.send(&restock).status, 200);
    shop.advance(0);
    let added = says(&mut shop, 9, "You may get one", true);
    assert!(added.contains("Added (22:") && added.contains("): 2 units."), "{added}");
}

#[test]
fn of_a_sale_that_is_called_off_nothing_is_promised() {
    let mut shop = shop(AuthMode::MemberId);
    press(&mut shop, "/line", 1);
    says(&mut shop, 1, "You will get one", true);
    shop.send(&Sent::post("/api/v1/sales/77/end", "{}").operator());
    for _ in 0..2 {
        shop.advance(60_000);
        says(&mut shop, 1, "The line is closed", false);
    }
    let board = shop.send(&Sent::get("/api/v1/sales/77/items/5/line")).json();
    assert_eq!(
        (&board["state"], &board["served"], &board["sure_to"]),
        (&json!("ended"), &json!(0), &json!(0))
    );
    let receipt = shop.send(&form("/line/receipt", ITEM).member(1)).json();
    // What was promised, and that it was not kept.
    let receipt = &receipt["receipt"];
    assert_eq!((&receipt["outcome"], &receipt["sure_to"]), (&json!("called_off"), &json!(1)), "{receipt}");
}

/// The only unit is sold: whoever was away is not asked to stay.
#[test]
fn who_was_away_is_answered_when_nothing_can_come_any_more() {
    let mut shop = shop(AuthMode::MemberId);
    press(&mut shop, "/line", 1);
    press(&mut shop, "/line", 2);
    // Number 1 is not there when reached, and its grace goes by.
    shop.advance(60_000);
    shop.advance(25_000);
    shop.advance(0);
    says(&mut shop, 2, "It is your turn", false);
    let order = shop.send(&form("/buy", &format!("{ITEM}&quantity=1&key=k")).member(2));
    assert_eq!(order.status, 303, "{}", order.text());
    says(&mut shop, 1, "You were away when your turn came", true);
    shop.send(&Sent::post("/api/v1/sales/77/end", "{}").operator());
    says(&mut shop, 1, "The line is closed", false);
}

#[test]
fn a_place_is_known_once_it_is_drawn() {
    let mut shop = shop_that_closes(AuthMode::MemberId, 30);
    press(&mut shop, "/line", 1);
    let before = says(&mut shop, 1, "Your place is not drawn yet", true);
    assert!(before.contains("Your number: 1") && before.contains("It is drawn at"), "{before}");
    shop.advance(30_000);
    let after = says(&mut shop, 1, "You will get one", true);
    assert!(after.contains("Your place: 1") && !after.contains("It is drawn at"), "{after}");
}

#[test]
fn who_has_no_place_is_led_to_where_one_joins() {
    let mut shop = shop(AuthMode::MemberId);
    for asked in [Sent::get(PLACE).member(9), Sent::get(PLACE)] {
        let answer = shop.send(&asked);
        assert_eq!((answer.status, answer.header("location")), (303, Some("/seckill_77_5.html")));
    }
    let none = shop.send(&form("/line", "sale=77&product=6").member(1).with("Accept-Language", "de"));
    assert!(none.text().contains("wird nicht an eine Warteschlange verkauft"), "{}", none.text());
    for (sent, status) in [
        (form("/line", ITEM), 401),
        (form("/line", "sale=77&product=6").member(1), 404),
        (form("/line", "sale=77&product=7").member(1), 404),
        (form("/line", "sale=77").member(1), 400),
        (form("/line/leave", ITEM).member(1), 404),
        (form("/line/receipt", ITEM), 401),
        (form("/line/receipt", ITEM).member(1), 404),
        (Sent::post("/line", "{}").member(1), 415),
        (Sent::get("/line?sale=77&product=6").member(1), 404),
        (Sent::post("/line", ITEM).with("Origin", "http://evil.example").member(1), 403),
    ] {
        let answer = shop.send(&sent);
        assert_eq!(answer.status, status, "{}", answer.text());
    }
}

/// With one press, and without being sent round for ever by a browser that keeps no cookies.
#[test]
fn a_demo_gives_a_browser_its_cookie_on_the_way_into_the_line() {
    let mut shop = shop(demo_mode());
    let first = shop.send(&form("/line", ITEM));
    assert_eq!((first.status, first.header("location")), (307, Some("/line?again=1")));
    let cookie = first.header("set-cookie").unwrap().split(';').next().unwrap().to_owned();
    let joined = shop.send(&form("/line?again=1", ITEM).with("Cookie", &cookie));
    assert_eq!((joined.status, joined.header("location")), (303, Some(PLACE)), "{}", joined.text());
    assert_eq!(shop.send(&form("/line?again=1", ITEM)).status, 401);
    let mut shop = self::shop(token_mode());
    assert_eq!(shop.send(&form("/line", ITEM)).status, 401);
}
