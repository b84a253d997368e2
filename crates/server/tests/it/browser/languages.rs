//! The pages in every language: read, bought from and switched, with nothing left in another one.

use serde_json::json;

use super::axe::assert_accessible;
use super::fake::{FakeShop, PRODUCT, SALE};
use super::looking::AUDIT;
use super::real::Shop;
use super::steps::{buy, come_back, open_sale, wait_for_view};
use super::webdriver::Browser;

/// The browser has chosen a language before.
pub(super) fn choose(browser: &Browser, base: &str, code: &str) {
    browser.open(&format!("{base}/assets/"));
    // A page that is about to go takes a cookie, and forgets it.
    browser.wait_until("the language is kept", |browser| {
        let cookie = format!("doorbuster_language={code}");
        browser.run(&format!("document.cookie = '{cookie}; path=/'; return document.cookie")) == cookie
    });
}

/// What a page shows, but what the shop has written.
const SHOWN: &str = "return document.body.innerText";

#[test]
fn a_sale_and_an_order_speak_the_language_that_was_chosen() {
    for (code, direction, left, heading, price) in [
        ("de", "ltr", "noch 100 von 100 Stück", "Für Sie reserviert", "4.999,00\u{a0}€"),
        ("zh", "ltr", "剩余 100 / 共 100 件", "已为您预留", "€4,999.00"),
        ("es", "ltr", "Quedan 100 de 100 unidades", "Reservado para usted", "4999,00\u{a0}€"),
        ("ar", "rtl", "بقي 100 من 100 قطعة", "محجوز لك", "4,999.00\u{a0}€"),
    ] {
        let (shop, browser) = (FakeShop::start(), Browser::start());
        choose(&browser, &shop.base, code);
        open_sale(&browser, &shop.base, SALE, PRODUCT);
        browser.wait_for_text("#left", left);
        assert_eq!(browser.run("return document.documentElement.dir"), direction);
        assert!(browser.text("#total").contains(price), "{}", browser.text("#total"));
        assert_eq!(browser.run(AUDIT), "", "{code}");
        assert_accessible(&browser, &format!("the sale in {code}"));
        assert_not_english(&browser, code);
        buy(&browser, &shop.base, SALE, PRODUCT);
        assert_eq!(browser.text("#heading"), heading);
        assert_eq!(browser.run(AUDIT), "", "{code}");
        assert_accessible(&browser, &format!("an order in {code}"));
        let mut state = shop.state();
        let order = state.orders.values_mut().next().expect("there is an order");
        (order["status"], order["refunded"]) = (json!("paid"), json!(100));
        drop(state);
        come_back(&browser);
        wait_for_view(&browser, "#order", "paid");
        assert!(!browser.text("#refund").is_empty());
        assert_not_english(&browser, code);
        browser.open(&format!("{}/orders", shop.base));
        wait_for_view(&browser, "#orders", "read");
        assert_not_english(&browser, code);
        assert_eq!(browser.complaints(), [""; 0], "{code}");
    }
}

/// Words that English pages have, and the shop's own titles do not.
fn assert_not_english(browser: &Browser, code: &str) {
    let shown = browser.run(SHOWN).as_str().unwrap().to_owned();
    for word in
        ["Order", "order", "Units", "units", "Pay", "Sales", "Sold", "Starts", "Ends", "Cancel", "Reserved"]
    {
        assert!(
            !shown.split(|c: char| !c.is_alphabetic()).any(|shown| shown == word),
            "{code}: {word} in {shown}"
        );
    }
}

#[test]
fn the_switch_keeps_the_choice_and_leads_back() {
    let (shop, browser) = (Shop::demo(), Browser::start());
    let page = format!("{}/orders?a=b", shop.base);
    browser.open(&page);
    assert_eq!(browser.run("return document.documentElement.lang"), "en");
    browser.click(".languages [lang=ar]");
    browser.wait_until("the page is Arabic", |browser| {
        browser.run("return document.documentElement.lang") == "ar"
    });
    assert_eq!(browser.url(), page);
    browser.open(&shop.base);
    assert_eq!(browser.run("return document.documentElement.dir"), "rtl");
    browser.open(&format!("{}/nowhere", shop.base));
    assert_eq!(browser.run("return document.documentElement.lang"), "ar");
}
