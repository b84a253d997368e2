//! The order's page: paying, cancelling, and what happens when neither is done in time.

use serde_json::json;

use super::fake::{FakeShop, PRODUCT, SALE};
use super::steps::{buy, wait_for_view};
use super::webdriver::Browser;

#[test]
fn an_order_is_paid() {
    let (shop, browser) = (FakeShop::start(), Browser::start());
    let id = buy(&browser, &shop.base, SALE, PRODUCT);
    assert_eq!(browser.text("#product"), "Aurora phone");
    assert_eq!(browser.text("#amount"), "€4,999.00");
    // The first second of the fifteen minutes has passed: the countdown runs.
    browser.wait_for_text("#digits", "14");
    browser.click("#pay");
    wait_for_view(&browser, "#order", "paid");
    assert_eq!(shop.state().orders[&id]["status"], "paid");
    // The button that had the focus is gone; the news has it.
    assert_eq!(browser.run("return document.activeElement.id"), "heading");
    assert!(browser.text("#actions").is_empty());
    browser.reload();
    wait_for_view(&browser, "#order", "paid");
    assert_eq!(browser.complaints(), [""; 0]);
}

#[test]
fn an_order_is_cancelled_only_after_asking() {
    let (shop, browser) = (FakeShop::start(), Browser::start());
    let id = buy(&browser, &shop.base, SALE, PRODUCT);
    browser.click("#cancel");
    browser.click("#sure button[value=keep]");
    assert_eq!(shop.state().orders[&id]["status"], "held");
    browser.click("#cancel");
    browser.click("#sure button[value=cancel]");
    wait_for_view(&browser, "#order", "cancelled");
    assert_eq!(shop.state().orders[&id]["status"], "cancelled");
    assert_eq!(shop.state().available, 100);
}

#[test]
fn an_unpaid_order_expires_before_the_buyers_eyes() {
    let (shop, browser) = (FakeShop::start(), Browser::start());
    shop.state().payment_time_ms = 3000;
    buy(&browser, &shop.base, SALE, PRODUCT);
    wait_for_view(&browser, "#order", "expired");
    assert!(browser.text("#actions").is_empty());
}

#[test]
fn a_refund_that_is_due_is_said() {
    let (shop, browser) = (FakeShop::start(), Browser::start());
    let id = buy(&browser, &shop.base, SALE, PRODUCT);
    let mut state = shop.state();
    let order = state.orders.get_mut(&id).unwrap();
    order["status"] = json!("expired");
    order["refund_due"] = json!(true);
    drop(state);
    wait_for_view(&browser, "#order", "refund_due");
    assert!(browser.text("#lead").contains("refund"));
}

#[test]
fn somebody_elses_order_is_not_shown() {
    let (shop, browser) = (FakeShop::start(), Browser::start());
    browser.open(&format!("{}/orders/{}", shop.base, "0".repeat(40)));
    browser.wait_for_text("#heading", "No such order");
    assert!(browser.text("#facts").is_empty());
}
