//! What a page says is so, whatever changes while it is open. Each of these once said something else.

use serde_json::json;
use server::pages::Session;

use super::fake::{FakeShop, Fault, PRODUCT, SALE};
use super::steps::{
    buy, come_back, fill_address, open_sale, press_buy, wait_for_order, wait_for_view, wait_until_open,
};
use super::webdriver::Browser;

/// Changes fields of the one order that there is.
fn change_order(shop: &FakeShop, changes: &serde_json::Value) {
    let mut state = shop.state();
    let order = state.orders.values_mut().next().expect("there is an order");
    for (name, value) in changes.as_object().expect("changes are an object") {
        order[name] = value.clone();
    }
}

#[test]
fn a_paid_order_stays_paid_when_another_payment_comes() {
    let (shop, browser) = (FakeShop::start(), Browser::start());
    buy(&browser, &shop.base, SALE, PRODUCT);
    change_order(&shop, &json!({ "status": "paid", "refund_due": true, "closed_at_ms": shop.now_ms() }));
    come_back(&browser);
    wait_for_view(&browser, "#order", "paid");
    assert_eq!(browser.text("#heading"), "Paid. It is yours!");
    browser.wait_for_text("#refund", "Another payment arrived that this order did not need");
    assert!(!browser.text("main").contains("no unit was left"));
}

#[test]
fn a_hold_goes_on_after_a_payment_of_a_wrong_amount() {
    let (shop, browser) = (FakeShop::start(), Browser::start());
    buy(&browser, &shop.base, SALE, PRODUCT);
    change_order(&shop, &json!({ "refund_due": true }));
    come_back(&browser);
    browser.wait_for_text("#refund", "A payment arrived that was not of this order's amount");
    assert_eq!(browser.attribute("#order", "data-view").as_deref(), Some("held"));
    assert_eq!(browser.text("#heading"), "Reserved for you");
    assert!(browser.text("#clock").contains("min"), "the countdown is there");
    assert!(browser.text("#pay").contains("Pay"), "it can be paid still");
}

#[test]
fn a_payment_for_a_closed_order_comes_back() {
    let (shop, browser) = (FakeShop::start(), Browser::start());
    buy(&browser, &shop.base, SALE, PRODUCT);
    change_order(&shop, &json!({ "status": "cancelled", "closed_at_ms": shop.now_ms() }));
    come_back(&browser);
    wait_for_view(&browser, "#order", "cancelled");
    assert!(browser.text("#refund").is_empty());
    // The reader comes back to a page that has stopped asking by itself.
    change_order(&shop, &json!({ "refund_due": true }));
    come_back(&browser);
    browser.wait_for_text("#refund", "The shop will refund it");
    assert!(!browser.text("main").contains("Nothing is owed"));
}

#[test]
fn a_refund_is_said_with_what_goes_back() {
    let (shop, browser) = (FakeShop::start(), Browser::start());
    buy(&browser, &shop.base, SALE, PRODUCT);
    let paid =
        json!({ "status": "paid", "refund_due": true, "refunded": 100, "closed_at_ms": shop.now_ms() });
    change_order(&shop, &paid);
    come_back(&browser);
    wait_for_view(&browser, "#order", "paid");
    browser.wait_for_text("#refund", "1.00 go back to you");
    assert!(!browser.text("main").contains("Another payment"));
    change_order(&shop, &json!({ "status": "refunded" }));
    come_back(&browser);
    wait_for_view(&browser, "#order", "refunded");
    assert_eq!(browser.text("#heading"), "This order is refunded");
    assert!(browser.text("#refund").is_empty());
}

#[test]
fn sold_out_is_not_said_under_an_open_button() {
    let (shop, browser) = (FakeShop::start(), Browser::start());
    shop.state().available = 0;
    open_sale(&browser, &shop.base, SALE, PRODUCT);
    fill_address(&browser);
    wait_for_view(&browser, "#offer", "sold_out");
    browser.click("#submit");
    browser.wait_for_text("#outcome", "Sold out. Nothing was ordered.");
    shop.state().available = 2;
    wait_until_open(&browser);
    assert_eq!(browser.text("#outcome"), "");
    // The same of the server's own refusal.
    shop.state().faults.push_back(Fault::Refuse("sold_out"));
    browser.click("#submit");
    // There are units by the next look at the stock, which follows at once.
    browser.wait_for_text("#outcome", "You can order now");
    // And there are none.
    shop.state().faults.push_back(Fault::Refuse("sold_out"));
    shop.state().available = 0;
    wait_until_open(&browser);
    browser.click("#submit");
    wait_for_view(&browser, "#offer", "sold_out");
    browser.wait_for_text("#outcome", "old out");
    shop.state().available = 2;
    wait_until_open(&browser);
    assert_eq!(browser.text("#outcome"), "");
}

#[test]
fn who_is_not_signed_in_is_shown_that_alone() {
    let (shop, browser) = (FakeShop::with_session(Session::Token), Browser::start());
    browser.open(&format!("{}/orders/{:040x}", shop.base, 0xabc));
    browser.wait_for_text("#heading", "Sign in to see this order");
    assert_eq!(browser.text("#outcome"), "");
    // Nor a moment later.
    come_back(&browser);
    assert_eq!(browser.text("#outcome"), "");
}

#[test]
fn a_second_tab_says_that_the_first_has_ordered() {
    let (shop, browser) = (FakeShop::start(), Browser::start());
    open_sale(&browser, &shop.base, SALE, PRODUCT);
    fill_address(&browser);
    let first = browser.new_tab();
    let id = buy(&browser, &shop.base, SALE, PRODUCT);
    browser.switch_to(&first);
    browser.wait_for_text("#mine", "You have ordered this here");
    press_buy(&browser);
    browser.wait_for_text("#outcome", "another tab");
    assert_eq!(shop.state().orders.len(), 1, "one press is not an order of a second one");
    assert!(browser.attribute("#mine a", "href").unwrap().contains(&id));
    // Whoever means it presses again.
    browser.click("#submit");
    assert_ne!(wait_for_order(&browser), id);
    assert_eq!(shop.state().orders.len(), 2);
}

#[test]
fn the_link_to_the_order_outlasts_a_refusal() {
    let (shop, browser) = (FakeShop::start(), Browser::start());
    let id = buy(&browser, &shop.base, SALE, PRODUCT);
    open_sale(&browser, &shop.base, SALE, PRODUCT);
    shop.state().faults.push_back(Fault::Refuse("over_limit"));
    fill_address(&browser);
    press_buy(&browser);
    browser.wait_for_text("#outcome", "the limit per person");
    browser.click("#mine a");
    assert_eq!(wait_for_order(&browser), id);
}

#[test]
fn nobody_is_offered_more_than_there_is() {
    let (shop, browser) = (FakeShop::start(), Browser::start());
    let mut state = shop.state();
    (state.limit, state.total, state.available) = (None, 5, 5);
    drop(state);
    open_sale(&browser, &shop.base, SALE, PRODUCT);
    assert_eq!(browser.text("#quantity-hint"), "at most 5");
    shop.state().available = 1;
    browser.wait_for_text("#quantity-hint", "only 1 left");
    assert_eq!(browser.attribute("#quantity", "max").as_deref(), Some("1"));
    shop.state().available = 3;
    browser.wait_for_text("#quantity-hint", "at most 3");
    assert_eq!(browser.attribute("#quantity", "max").as_deref(), Some("3"));
}

#[test]
fn what_is_sold_out_is_not_listed_as_live() {
    let (shop, browser) = (FakeShop::start(), Browser::start());
    let mut state = shop.state();
    (state.total, state.available, state.rendered_fresh) = (3, 0, true);
    drop(state);
    browser.open(&format!("{}/", shop.base));
    browser.wait_for_text(".card-note", "Sold out");
    assert!(!browser.text(".card-note").contains("3 units"));
    // The page of the product says so from its first paint, by the server's word and not by the script's.
    browser.open(&format!("{}/no-script", shop.base));
    assert_eq!(browser.text("#badge"), "Sold out");
    assert_eq!(browser.text("#submit"), "Sold out");
}

#[test]
fn no_order_of_arrival_is_promised() {
    let (shop, browser) = (FakeShop::start(), Browser::start());
    open_sale(&browser, &shop.base, SALE, PRODUCT);
    browser.run("document.querySelectorAll('details').forEach((details) => { details.open = true; })");
    let text = browser.text("main");
    for promise in ["in the order in which", "next in line"] {
        assert!(!text.contains(promise), "{promise} in {text}");
    }
    assert!(text.contains("at random moments"));
}

#[test]
fn a_lost_connection_is_said_until_it_is_back() {
    let (shop, browser) = (FakeShop::start(), Browser::start());
    shop.state().available = 98;
    open_sale(&browser, &shop.base, SALE, PRODUCT);
    browser.wait_for_text("#left", "98 of 100 units left");
    assert_eq!(browser.text("#connection"), "");
    shop.state().unreachable = true;
    browser.wait_for_text("#connection", "No connection to the shop");
    assert!(browser.text("#left").contains("units left at "), "{}", browser.text("#left"));
    shop.state().unreachable = false;
    browser.wait_until("the banner to go", |browser| browser.text("#connection").is_empty());
    browser.wait_for_text("#left", "98 of 100 units left");
}

#[test]
fn an_order_without_a_connection_says_so() {
    let (shop, browser) = (FakeShop::start(), Browser::start());
    buy(&browser, &shop.base, SALE, PRODUCT);
    shop.state().unreachable = true;
    come_back(&browser);
    browser.wait_for_text("#connection", "No connection to the shop");
    shop.state().unreachable = false;
    browser.wait_until("the banner to go", |browser| browser.text("#connection").is_empty());
}
