//! What the real server's sale goes through while its page is open, and the pages beside it.

use serde_json::json;

use super::axe::assert_accessible;
use super::looking::AUDIT;
use super::real::{PRODUCT, SALE, Shop, TITLE};
use super::steps::{
    buy, come_back, fill_address, is_open, open_sale, press_buy, sale_url, wait_for_order, wait_for_view,
    wait_until_open,
};
use super::webdriver::Browser;

#[test]
fn the_countdown_reaches_zero_and_the_button_opens() {
    let (shop, browser) = (Shop::demo(), Browser::start());
    shop.sell(&json!({ "starts_at_ms": shop.now_ms() + 1_800_000 }));
    open_sale(&browser, &shop.base, SALE, PRODUCT);
    wait_for_view(&browser, "#offer", "not_started");
    fill_address(&browser);
    browser.click("#submit");
    browser.wait_for_text("#outcome", "Not open yet. Nothing was ordered.");
    assert!(shop.orders().is_empty());
    // Days and hours are left out, for there are none.
    browser.wait_for_text("#digits", "min");
    assert!(!browser.text("#digits").contains("hours"), "{}", browser.text("#digits"));
    // The start is moved; the page of a reader who comes back to it looks at once.
    let starts_at_ms = shop.now_ms() + 3000;
    shop.start_at(starts_at_ms);
    come_back(&browser);
    press_buy(&browser);
    let id = wait_for_order(&browser);
    let order = shop.only_order();
    assert_eq!(order.id.to_string(), id);
    assert!(order.placed_at.0 >= starts_at_ms, "{} {starts_at_ms}", order.placed_at.0);
    assert_eq!(browser.complaints(), [""; 0]);
}

#[test]
fn a_sale_runs_low_is_paused_goes_on_and_is_ended_under_an_open_page() {
    let (shop, browser) = (Shop::demo(), Browser::start());
    shop.sell(&json!({ "total": 11 }));
    open_sale(&browser, &shop.base, SALE, PRODUCT);
    wait_for_view(&browser, "#offer", "live");
    shop.order_as("77");
    wait_for_view(&browser, "#offer", "few");
    assert_eq!(browser.text("#left"), "10 of 11 units left");
    shop.steer("pause");
    wait_for_view(&browser, "#offer", "paused");
    assert!(!is_open(&browser) && browser.text("#status").contains("It will go on here"));
    shop.steer("resume");
    wait_until_open(&browser);
    shop.steer("end");
    wait_for_view(&browser, "#offer", "ended");
    assert!(!is_open(&browser) && browser.text("#buy .fields").is_empty());
    assert_eq!(browser.text("#buy-title"), "This sale is over");
    assert_eq!(browser.text("#clock"), "Ended early");
    // The page as it is rendered now says the same.
    open_sale(&browser, &shop.base, SALE, PRODUCT);
    assert_eq!(browser.text("#clock"), "Ended early");
    // The front page has the sales that are not over, and leads to the others.
    browser.open(&format!("{}/", shop.base));
    browser.click("a[href='/?state=ended']");
    browser.wait_for_text(&format!("[aria-labelledby=sale-{SALE}] .when"), "Ended early");
}

/// The pause hid when it begins, behind the time at which it ends.
#[test]
fn a_sale_that_is_paused_before_its_start_says_both() {
    let (shop, browser) = (Shop::demo(), Browser::start());
    shop.sell(&json!({ "starts_at_ms": shop.now_ms() + 1_800_000 }));
    shop.steer("pause");
    open_sale(&browser, &shop.base, SALE, PRODUCT);
    wait_for_view(&browser, "#offer", "paused");
    browser.wait_for_text("#clock-label", "Starts");
    browser.wait_for_text("#badge", "Paused");
    shop.steer("resume");
    wait_for_view(&browser, "#offer", "not_started");
    assert_eq!(browser.complaints(), [""; 0]);
}

#[test]
fn the_page_of_the_api_draws_the_served_document() {
    let (shop, browser) = (Shop::demo(), Browser::start());
    let document = shop.get("openapi.json");
    let paths = document["paths"].as_object().unwrap();
    let verbs = ["get", "post", "put", "patch", "delete"];
    let operations: usize =
        paths.values().map(|path| verbs.iter().filter(|verb| path.get(**verb).is_some()).count()).sum();
    assert!(operations > 20, "{operations}");
    browser.open(&format!("{}/api", shop.base));
    browser.wait_for_text("#outcome", &format!("{operations} operations"));
    let drawn = "return document.querySelectorAll('#operations .operation').length";
    assert_eq!(browser.run(drawn), operations);
    let groups = "return [...document.querySelectorAll('#operations h2')].map((head) => head.textContent)";
    let tags: Vec<_> = document["tags"].as_array().unwrap().iter().map(|tag| tag["name"].clone()).collect();
    assert_eq!(browser.run(groups), serde_json::Value::from(tags));
    browser.click("[data-search^='post /api/v1/orders '] summary");
    let operation = browser.text(".operation[open]");
    for part in ["Idempotency-Key", "OrderRequest", "201", "409", "curl -X POST"] {
        assert!(operation.contains(part), "{part} in {operation}");
    }
    browser.type_into("#filter", "refund");
    browser.wait_for_text("#outcome", "match");
    assert_eq!(browser.complaints(), [""; 0]);
}

#[test]
fn every_page_of_the_real_server_fits_and_is_labelled() {
    let (shop, browser) = (Shop::demo(), Browser::start());
    // Wider than its place, and than a phone.
    let image = shop.keep_image(
        "<svg xmlns='http://www.w3.org/2000/svg' width='1600' height='400'><rect width='1600' height='400'/></svg>",
    );
    shop.sell(&json!({ "limit": 2, "image": { "name": image, "alt": "A dial from the front" } }));
    let order = buy(&browser, &shop.base, SALE, PRODUCT);
    let base = &shop.base;
    for (url, ready) in [
        (format!("{base}/"), "section.sale"),
        (sale_url(base, SALE, PRODUCT), "#offer[data-view=live]"),
        (sale_url(base, 3, 29), "#offer[data-view=live]"),
        (sale_url(base, 1, 101), "#offer[data-view=live]"),
        (format!("{base}/orders/{order}"), "#order[data-view=held]"),
        (format!("{base}/api"), ".operation"),
        (format!("{base}/nothing/here"), ".lost"),
        (format!("{base}/seckill_{SALE}_99.html"), ".lost"),
    ] {
        for (width, height) in [(360, 800), (1280, 900)] {
            browser.resize(width, height);
            browser.open(&url);
            browser.wait_until(ready, |browser| browser.attribute(ready, "class").is_some());
            assert_eq!(browser.run(AUDIT), "", "{url} at {width}");
            assert_eq!(browser.complaints(), [""; 0], "{url} at {width}");
            if url == sale_url(base, SALE, PRODUCT) {
                assert_eq!(
                    browser.attribute(".gallery img", "alt").as_deref(),
                    Some("A dial from the front")
                );
                assert_accessible(&browser, "a product with an image");
            }
        }
    }
    assert_eq!(browser.text("h1"), "Nothing on this shelf");
    browser.click(".lost a");
    browser.wait_for_text(&format!("[aria-labelledby=sale-{SALE}]"), TITLE);
}
