//! How often a page that waits in a line asks, and what it says of the time until its place is reached.

use serde_json::json;

use super::line::{join, sell};
use super::real::{PRODUCT, SALE, Shop};
use super::steps::{come_back, open_sale, wait_for_view};
use super::webdriver::Browser;

/// Counts how often the shop is shown that its reader is there, and notes how long the page pauses by its worker.
const WATCH: &str = "window.shown = 0;
    const ask = window.fetch;
    window.fetch = (url, how) => {
      if (url.endsWith('/presence')) window.shown += 1;
      return window.answer?.(url) ?? ask(url, how);
    };
    window.pauses = [];
    const post = Worker.prototype.postMessage;
    Worker.prototype.postMessage = function ([number, ms]) {
      window.pauses.push(ms);
      return post.call(this, [number, ms]);
    };";

/// A page that waits for the only unit, which somebody else was called for: buyer 77.
fn behind_who_was_called() -> (Shop, Browser) {
    let (shop, browser) = (Shop::demo(), Browser::start());
    sell(&shop, json!({ "line": { "grace_s": 600 }, "total": 1 }));
    shop.line_as("77", "");
    shop.line_as("77", "/presence");
    join(&browser, &shop);
    wait_for_view(&browser, "#line", "maybe");
    (shop, browser)
}

/// A browser lets the timers of a page that is not shown go off once a minute: these never do.
#[test]
fn who_looks_at_another_page_is_there_still_and_called() {
    let (shop, browser) = behind_who_was_called();
    browser.run("window.setTimeout = () => 0; window.setInterval = () => 0");
    browser.run(WATCH);
    let shown = |browser: &Browser, least: u64| browser.run("return window.shown").as_u64() >= Some(least);
    browser.wait_until("the shop is shown it again and again", |browser| shown(browser, 3));
    shop.line_as("77", "/leave");
    wait_for_view(&browser, "#line", "called");
    assert_eq!(browser.run("return document.title.startsWith('It is your turn')"), true);
}

/// The turn of whoever is reached opens any moment. The pauses of the board are longer, as nobody sees it.
#[test]
fn whoever_is_reached_asks_again_soon_and_then_more_seldom() {
    let (_shop, browser) = behind_who_was_called();
    browser.run(
        "Object.defineProperty(document, 'hidden', { value: true });
         const place = { number: 2, place: 2, standing: 'reached', outcome: null, turn_until_ms: null, turn_units: null, ticket: '' };
         window.answer = (url) => (url.endsWith('/presence')
           ? Promise.resolve(Response.json({ ...place, now_ms: Date.now() })) : undefined)",
    );
    browser.run(WATCH);
    let short = "return window.pauses.filter((ms) => ms < 4000)";
    browser.wait_until("it has asked five times", |browser| {
        browser.run(short).as_array().is_some_and(|pauses| pauses.len() >= 4)
    });
    assert_eq!(browser.run(short), json!([1000, 1500, 2250, 3375]));
}

/// In a pause nobody is called, and a turn's time stands.
#[test]
fn in_a_pause_nobody_is_asked_to_order_or_shown_that_the_call_comes_in_a_moment() {
    let (shop, browser) = (Shop::demo(), Browser::start());
    sell(&shop, json!({ "line": {}, "total": 1 }));
    join(&browser, &shop);
    wait_for_view(&browser, "#line", "called");
    assert!(browser.text("#worth").contains("before the time is up"), "{}", browser.text("#worth"));
    shop.steer("pause");
    browser.wait_for_text("#worth", "The sale is paused: you can order once it goes on");
    assert_eq!(browser.run("return document.getElementById('turn').hidden"), true);
    browser.run(
        "const place = { number: 1, place: 1, standing: 'reached', outcome: null, turn_until_ms: null, turn_units: null, ticket: '' };
         window.answer = (url) => (url.endsWith('/presence')
           ? Promise.resolve(Response.json({ ...place, now_ms: Date.now() })) : undefined)",
    );
    browser.run(WATCH);
    wait_for_view(&browser, "#line", "reached");
    browser.wait_for_text("#worth", "Stay here: the sale is paused");
    shop.steer("resume");
    browser.wait_for_text("#worth", "Stay here: you are called in a moment.");
}

/// A page that has joined, of a sale that starts within a minute, and waits for its place; its pauses are noted.
fn before_the_draw(grace_s: u64) -> (Shop, Browser) {
    let (shop, browser) = (Shop::demo(), Browser::start());
    let starts_at_ms = shop.now_ms() + 55_000;
    shop.sell(
        &json!({ "line": { "grace_s": grace_s, "close_s": 0 }, "total": 1, "starts_at_ms": starts_at_ms }),
    );
    open_sale(&browser, &shop.base, SALE, PRODUCT);
    browser.click("#join-button");
    wait_for_view(&browser, "#line", "drawing");
    browser.run(WATCH);
    come_back(&browser);
    (shop, browser)
}

/// Whoever is first is reached with the draw: it is heard of before the grace is over, also by a page that nobody sees.
#[test]
fn a_page_without_a_place_asks_within_the_grace() {
    let (_shop, browser) = before_the_draw(4);
    // Presence is shown every 4 to 5 s.
    let boards = |browser: &Browser| {
        let pauses = browser.run("return window.pauses.filter((ms) => ms < 4000 || ms > 5000)");
        pauses.as_array().unwrap().iter().map(|ms| ms.as_f64().unwrap()).collect::<Vec<_>>()
    };
    for hidden in [false, true] {
        browser.run(&format!(
            "Object.defineProperty(document, 'hidden', {{ value: {hidden}, configurable: true }}); window.pauses = []"
        ));
        browser.wait_until("it reads the board again", |browser| !boards(browser).is_empty());
        assert!(boards(&browser).iter().all(|ms| *ms <= 2_400.0), "{hidden}: {:?}", boards(&browser));
    }
}

#[test]
fn whoever_learns_their_place_near_the_front_reads_the_next_board_soon() {
    let (_shop, browser) = before_the_draw(60);
    browser.run(
        "const read = window.fetch;
         const drawn = async (answer) => Response.json({ ...await answer.json(), drawn: 1, tail: 3, sure_to: 1 });
         window.fetch = (url, how) => (
           url.endsWith('/line/draw') ? Promise.resolve(Response.json({ state: 'drawn', entries: 1, seed: '00' }))
           : url.endsWith('/line') ? read(url, how).then(drawn) : read(url, how));
         window.pauses = [];
         // A board that was read before the place was known is not waited for any more; here its pause would never end.
         const pause = Worker.prototype.postMessage;
         Worker.prototype.postMessage = function ([number, ms]) {
           if (ms < 5000) return pause.call(this, [number, ms]);
         }",
    );
    come_back(&browser);
    browser.wait_for_text("#place", "Your place: 1");
    browser.wait_until("the board is waited for", |browser| {
        browser.run("return window.pauses.some((ms) => ms < 4000)") == true
    });
}

/// What the page does by the board, as modules of its own say it.
#[test]
fn a_page_asks_more_seldom_the_farther_back_it_stands_and_promises_what_the_board_has() {
    let (shop, browser) = (Shop::demo(), Browser::start());
    sell(&shop, json!({ "line": {}, "total": 1 }));
    open_sale(&browser, &shop.base, SALE, PRODUCT);
    let found = browser.run_async(
        "const { href } = document.querySelector('link[href*=\"/assets/place-\"]');
         const board = { state: 'live', served: 0, sure_to: 2, free: 0, turns: 0, held: 0 };
         const silent = (closes, period_s) => ({ closes_at_ms: 600_000 - closes, beacon: { period_s } });
         import(href).then(({ boardDelay, worthOf, isNear, secondsWithoutBeacon }) => ({
           silent: [[30_000, 3], [26_000, 3], [4_000, 3], [0, 30]].map(([closes, period_s]) => (
             secondsWithoutBeacon(silent(closes, period_s), 600_000))),
           delays: [null, 1, 100, 400, 10_000, 1_000_000].map((place) => boardDelay(board, place, 20_000)),
           short: [19_000, 8_000, 0].map((grace) => boardDelay(board, null, grace)),
           moved: boardDelay({ ...board, served: 999_900 }, 1_000_000, 20_000),
           worth: [2, 3].map((place) => worthOf(board, place)),
           open: ['free', 'turns', 'held'].map((units) => worthOf({ ...board, [units]: 1 }, 3)),
           ended: [2, 3].map((place) => worthOf({ ...board, state: 'ended', held: 1 }, place)),
           near: [[10_002, 0], [10_003, 0], [1, 21_000]].map(([place, startsIn]) => isNear(board, place, startsIn)),
         })).then(done, (error) => done(String(error)));",
    );
    let expected = json!({
        "delays": [11_000, 1_000, 1_000, 2_000, 10_000, 11_000], "short": [8_550, 3_600, 1_000], "moved": 1_000,
        "worth": ["sure", "none"], "open": ["maybe", "maybe", "maybe"], "ended": ["sure", "closed"],
        "silent": [0, 0, 22, 53],
        "near": [true, false, false],
    });
    assert_eq!(found, expected);
}

/// A page in place 100 of a sale that ends in 40 minutes, by boards that are made up.
#[test]
fn what_is_said_of_the_time_holds_by_pace_and_end() {
    let (shop, browser) = (Shop::demo(), Browser::start());
    sell(&shop, json!({ "line": {}, "total": 1, "ends_at_ms": shop.now_ms() + 2_400_000 }));
    for member in 101..200 {
        shop.line_as(&member.to_string(), "");
    }
    join(&browser, &shop);
    assert_eq!(browser.text("#place"), "Your place: 100");
    browser.run(
        "const ask = window.fetch;
         const changed = async (answer) => Response.json({ ...await answer.json(), free: 1, ...window.board });
         window.fetch = (url, how) => (url.endsWith('/line') ? ask(url, how).then(changed) : ask(url, how));",
    );
    let (minutes, late, no_time) =
        ("your place is reached in ", "The sale may well end before", "can't be said");
    let (close, stay) = ("You may close this page", "Keep this page open");
    for (board, said) in [
        (json!({ "pace": 10, "served": 50, "sure_to": 50 }), vec![minutes, stay]),
        (json!({ "pace": 0, "served": 50, "sure_to": 50 }), vec![no_time, stay]),
        (json!({ "pace": 1, "served": 50, "sure_to": 50 }), vec![minutes, late, close]),
        (json!({ "pace": 1, "served": 10, "sure_to": 10 }), vec![late, stay]),
        // The pace is of those who are sure and not reached yet.
        (json!({ "pace": 10, "served": 50, "sure_to": 60 }), vec![no_time, stay]),
        // Whoever is sure is called after the end, too.
        (json!({ "pace": 1, "served": 10, "sure_to": 100 }), vec![minutes, close]),
        (json!({ "pace": 1, "served": 0, "sure_to": 100, "state": "paused" }), vec![stay]),
    ] {
        browser.run(&format!("window.board = {board}"));
        come_back(&browser);
        let all = [minutes, late, no_time, close, stay];
        let found = |browser: &Browser| {
            let when = browser.text("#when");
            all.into_iter().filter(|text| when.contains(text)).collect::<Vec<_>>()
        };
        browser.wait_until(&format!("{said:?} of {board}"), |browser| found(browser) == said);
    }
    assert_eq!(browser.complaints(), [""; 0]);
}
