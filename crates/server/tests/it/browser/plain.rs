//! Buying in a browser that runs no scripts: every page comes from the server whole, and every press is a form.

use engine::Status;
use serde_json::json;

use super::axe::assert_accessible;
use super::languages::choose;
use super::looking::AUDIT;
use super::real::{PRODUCT, SALE, Shop, TITLE};
use super::steps::{sale_url, type_address};
use super::webdriver::Browser;

/// Whoever has no script has this page; what checks it is a script.
#[track_caller]
fn assert_good(browser: &Browser, page: &str) {
    assert_eq!(browser.run(AUDIT), "", "{page}");
    browser.allow_scripts(true);
    assert_accessible(browser, page);
    browser.allow_scripts(false);
    browser.resize(360, 800);
}

fn open_without_scripts(shop: &Shop) -> Browser {
    let browser = Browser::start();
    browser.allow_scripts(false);
    browser.resize(360, 800);
    browser.open(&sale_url(&shop.base, SALE, PRODUCT));
    browser
}

fn press(browser: &Browser, css: &str, heading: &str) {
    browser.click(css);
    browser.wait_for_text("h1", heading);
}

#[test]
fn an_order_is_checked_placed_and_paid_without_a_script() {
    let shop = Shop::demo();
    shop.sell(&json!({ "limit": 3 }));
    let browser = open_without_scripts(&shop);
    assert_eq!(browser.attribute("#offer", "data-view"), None, "no script has run");
    assert!(browser.text("noscript").contains("reload it"), "{}", browser.text("noscript"));
    browser.type_into("#quantity", "2");
    type_address(&browser);
    press(&browser, "#submit", "Check your order");
    let page = browser.text("main");
    assert!(
        page.contains(TITLE) && page.contains("€3,798.00") && page.contains("Götgatan 1 \"B\""),
        "{page}"
    );
    assert_eq!(shop.units(), (100, 0, 0), "nothing is ordered yet");
    assert_good(&browser, "the page to check");

    press(&browser, "button.primary", "Reserved for you");
    assert_eq!(shop.units(), (98, 2, 0));
    browser.reload();
    assert!(browser.text("main").contains("€3,798.00"));
    assert_good(&browser, "a plain order");
    let order = browser.url();

    press(&browser, "form[action$='/pay'] button", "Paid. It is yours!");
    assert_eq!((browser.url(), shop.units()), (order.clone(), (98, 0, 2)));
    assert_good(&browser, "a plain order that is paid");
    let kept = shop.only_order();
    assert_eq!(kept.status, Status::Paid);
    let address: serde_json::Value = serde_json::from_str(&kept.address.unwrap()).unwrap();
    assert_eq!(address["name"], "Zoë Ångström");

    // The address of the page with scripts leads to this one.
    browser.open(order.trim_end_matches("?plain=1"));
    browser.click("noscript a");
    browser.wait_for_text("h1", "Paid. It is yours!");
    // One more than the limit allows.
    browser.open(&sale_url(&shop.base, SALE, PRODUCT));
    browser.type_into("#quantity", "2");
    type_address(&browser);
    press(&browser, "#submit", "Check your order");
    press(&browser, "button.primary", "Not possible");
    assert_good(&browser, "a refusal");
    assert_eq!(shop.units(), (98, 0, 2));
}

#[test]
fn an_order_is_cancelled_without_a_script_in_another_language() {
    let shop = Shop::demo();
    shop.sell(&json!({ "total": 1 }));
    let browser = Browser::start();
    choose(&browser, &shop.base, "ar");
    browser.allow_scripts(false);
    browser.resize(360, 800);
    browser.open(&sale_url(&shop.base, SALE, PRODUCT));
    type_address(&browser);
    press(&browser, "#submit", "راجع طلبك");
    assert_good(&browser, "the page to check in Arabic");
    press(&browser, "button.primary", "محجوز لك");
    assert_good(&browser, "a plain order in Arabic");
    press(&browser, "form[action$='/cancel'] button", "أُلغي");
    assert_eq!(shop.units(), (1, 0, 0));
}
