//! What a shop asks of whoever joins a line, worked out by the page.

use serde_json::json;

use super::axe::assert_accessible;
use super::languages::choose;
use super::looking::AUDIT;
use super::real::{PRODUCT, SALE, Shop};
use super::steps::{open_sale, sale_url};
use super::webdriver::Browser;

const NEEDED: &str = "your browser has to work something out, which takes JavaScript";

fn shop(bits: u8) -> Shop {
    let shop = Shop::asking_for_work(bits);
    shop.sell(&json!({ "line": { "close_s": 86_400 }, "total": 1 }));
    shop.wait_for_draw();
    shop
}

fn joined(shop: &Shop) -> u64 {
    shop.get(&format!("sales/{SALE}/items/{PRODUCT}/line"))["tail"].as_u64().unwrap()
}

fn join(browser: &Browser, shop: &Shop) {
    browser.click("#join-button");
    browser.wait_until("a place", |browser| browser.text("#place").starts_with("Your place"));
    assert_eq!(joined(shop), 1);
}

#[test]
fn a_browser_works_it_out_in_sight_and_only_once() {
    let (shop, browser) = (shop(18), Browser::start());
    open_sale(&browser, &shop.base, SALE, PRODUCT);
    browser.run(
        "const bar = document.querySelector('#work');
         window.seen = [];
         new MutationObserver(() => window.seen.push([bar.hidden, bar.value])).observe(bar, { attributes: true });",
    );
    join(&browser, &shop);
    // It is there with nothing done, goes forward, and is gone.
    let seen = browser.run("return window.seen");
    let shown = seen.as_array().unwrap().iter().filter(|state| state[0] == false);
    let done: Vec<f64> = shown.map(|state| state[1].as_f64().unwrap()).collect();
    assert!(done.is_sorted() && done.len() > 8 && done[0] == 0.0, "{seen}");
    assert_eq!(seen.as_array().unwrap().last(), Some(&json!([true, 0])), "{seen}");
    // A browser that has forgotten everything gets the place back, and works for nothing.
    // On another page: the line's own would note its place again with the next answer that it hears.
    browser.open(&format!("{}/healthz", shop.base));
    browser.run("localStorage.clear()");
    open_sale(&browser, &shop.base, SALE, PRODUCT);
    browser.run("window.Worker = class { constructor() { window.worked = true; } }");
    join(&browser, &shop);
    assert_eq!(browser.run("return window.worked ?? false"), false);
}

#[test]
fn who_cannot_work_it_out_is_shown_so() {
    let (shop, browser) = (shop(28), Browser::start());
    open_sale(&browser, &shop.base, SALE, PRODUCT);
    // It takes minutes.
    browser.click("#join-button");
    browser.wait_for_text("#join-outcome", "Your browser is working something out");
    assert_eq!(browser.attribute("#join-button", "aria-busy").as_deref(), Some("true"));
    assert_accessible(&browser, "working");
    browser.reload();
    browser
        .run("window.Worker = class { postMessage() { setTimeout(() => this.onerror()); } terminate() {} }");
    browser.click("#join-button");
    browser.wait_for_text("#join-outcome", NEEDED);
    assert!(browser.attribute("#work", "hidden").is_some());
    assert_eq!(browser.attribute("#join-button", "aria-busy"), None);
    for code in ["en", "ar", "de", "es", "zh"] {
        choose(&browser, &shop.base, code);
        browser.allow_scripts(false);
        browser.resize(360, 800);
        browser.open(&sale_url(&shop.base, SALE, PRODUCT));
        let said = browser.text("#join noscript");
        assert!(said.contains("JavaScript"), "{code}: {said}");
        assert_eq!(browser.run(AUDIT), "", "{code}");
        browser.click("#join-button");
        browser.wait_for_text("main", &said);
        browser.allow_scripts(true);
        assert_accessible(&browser, code);
    }
    assert_eq!(joined(&shop), 0);
}

#[test]
fn whoever_may_join_later_or_never_is_shown_so() {
    let (shop, browser) = (Shop::demo(), Browser::start());
    for (sale, others, said) in [
        (50, json!({ "before_s": 60 }), "This line opens for you at"),
        (51, json!(null), "Only those whom the shop has invited"),
    ] {
        let access = json!({ "groups": [{ "name": "gold", "before_s": null }], "others": others });
        let starts_at_ms = shop.now_ms() + 3_000_000;
        shop.sell(&json!({ "id": sale, "starts_at_ms": starts_at_ms, "line": { "access": access } }));
        open_sale(&browser, &shop.base, sale, PRODUCT);
        browser.click("#join-button");
        browser.wait_for_text("#join-outcome", said);
        assert_accessible(&browser, said);
    }
}
