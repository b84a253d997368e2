//! Buying from the scripted shop: whatever happens between the press and the answer, there is one order.

use server::pages::Session;

use super::fake::{FakeShop, Fault, PRODUCT, SALE};
use super::steps::wait_until_open;
use super::steps::{
    buy, come_back, fill_address, is_open, open_sale, press_buy, sale_url, wait_for_order, wait_for_view,
};
use super::webdriver::{Browser, ENTER, TAB};

/// All requests carried the same key and body, and made this one order.
fn assert_one_order(shop: &FakeShop, id: &str) {
    let state = shop.state();
    assert_eq!(state.orders.len(), 1, "{:?}", state.placings);
    assert!(state.orders.contains_key(id), "{id}");
    assert!(state.placings.windows(2).all(|pair| pair[0] == pair[1]), "{:?}", state.placings);
    assert_eq!(state.available, state.total - 1);
}

#[test]
fn a_purchase_sends_what_the_buyer_entered() {
    let (shop, browser) = (FakeShop::start(), Browser::start());
    let id = buy(&browser, &shop.base, SALE, PRODUCT);
    assert_one_order(&shop, &id);
    let state = shop.state();
    assert_eq!(state.placings.len(), 1);
    let (key, body) = &state.placings[0];
    assert!(key.len() >= 32, "{key}");
    let body: serde_json::Value = serde_json::from_str(body).unwrap();
    assert_eq!(body["sale"], SALE);
    assert_eq!(body["product"], PRODUCT);
    assert_eq!(body["quantity"], 1);
    assert_eq!(body["address"]["name"], "Zoë Ångström");
    assert_eq!(body["address"]["detail"], "Götgatan 1 \"B\"");
    assert_eq!(body["address"].as_object().unwrap().len(), 8);
    assert_eq!(browser.complaints(), [""; 0]);
}

#[test]
fn a_double_click_sends_one_order() {
    let (shop, browser) = (FakeShop::start(), Browser::start());
    shop.state().faults.push_back(Fault::HoldAnswer);
    open_sale(&browser, &shop.base, SALE, PRODUCT);
    fill_address(&browser);
    wait_until_open(&browser);
    browser.run("const button = document.getElementById('submit'); button.click(); button.click();");
    browser.click("#submit");
    shop.state().released = true;
    let id = wait_for_order(&browser);
    assert_one_order(&shop, &id);
    assert_eq!(shop.state().placings.len(), 1);
}

#[test]
fn a_lost_answer_is_healed_by_the_same_key() {
    let (shop, browser) = (FakeShop::start(), Browser::start());
    shop.state().faults.extend([Fault::LoseAnswer, Fault::LoseAnswer, Fault::LoseRequest]);
    let id = buy(&browser, &shop.base, SALE, PRODUCT);
    assert_one_order(&shop, &id);
    assert!(shop.state().placings.len() >= 4);
}

#[test]
fn nobody_buys_at_another_price_than_the_page_shows() {
    let (shop, browser) = (FakeShop::start(), Browser::start());
    shop.state().faults.push_back(Fault::OtherPrice(123_400));
    open_sale(&browser, &shop.base, SALE, PRODUCT);
    fill_address(&browser);
    press_buy(&browser);
    browser.wait_for_text("#outcome", "The price has changed");
    let shown =
        |selector: &str| browser.run(&format!("return document.querySelector('{selector}').innerText"));
    for selector in [".offer .price", "#total"] {
        let text = shown(selector);
        assert!(text.as_str().is_some_and(|text| text.contains("1,234.00")), "{selector}: {text}");
    }
    browser.click("#submit");
    wait_for_order(&browser);
    let prices: Vec<bool> =
        shop.state().placings.iter().map(|(_, body)| body.contains("\"unit_price\":123400")).collect();
    assert_eq!(prices.last(), Some(&true), "asked for at the price that is shown");
}

#[test]
fn an_unknown_outcome_and_a_busy_shop_are_asked_again() {
    let (shop, browser) = (FakeShop::start(), Browser::start());
    open_sale(&browser, &shop.base, SALE, PRODUCT);
    fill_address(&browser);
    // Each until it was read: what the page says lasts no longer than until it asks again.
    shop.state().lasting = Some(Fault::Busy);
    press_buy(&browser);
    browser.wait_for_text("#outcome", "very busy");
    shop.state().lasting = Some(Fault::Unknown);
    browser.wait_for_text("#outcome", "can't tell yet");
    shop.state().lasting = None;
    let id = wait_for_order(&browser);
    assert_one_order(&shop, &id);
    assert!(shop.state().placings.len() >= 3);
}

#[test]
fn a_reload_in_mid_order_leads_to_the_one_order() {
    let (shop, browser) = (FakeShop::start(), Browser::start());
    shop.state().faults.push_back(Fault::HoldAnswer);
    open_sale(&browser, &shop.base, SALE, PRODUCT);
    fill_address(&browser);
    press_buy(&browser);
    browser.wait_until("the request to arrive", |_| !shop.state().placings.is_empty());
    browser.reload();
    let id = wait_for_order(&browser);
    assert_one_order(&shop, &id);
    assert_eq!(shop.state().placings.len(), 2);
}

#[test]
fn two_tabs_at_once_make_one_order() {
    let (shop, browser) = (FakeShop::start(), Browser::start());
    // The limit does not save the second tab here: the scripted shop knows none.
    shop.state().faults.push_back(Fault::HoldAnswer);
    open_sale(&browser, &shop.base, SALE, PRODUCT);
    fill_address(&browser);
    let first = browser.new_tab();
    open_sale(&browser, &shop.base, SALE, PRODUCT);
    fill_address(&browser);
    let second = browser.new_tab();
    browser.switch_to(&first);
    press_buy(&browser);
    browser.wait_until("the request to arrive", |_| !shop.state().placings.is_empty());
    browser.switch_to(&second);
    browser.click("#submit");
    shop.state().released = true;
    let id = wait_for_order(&browser);
    browser.switch_to(&first);
    assert_eq!(wait_for_order(&browser), id);
    assert_one_order(&shop, &id);
}

#[test]
fn an_attempt_outlives_the_sale_that_it_was_made_in() {
    let (shop, browser) = (FakeShop::start(), Browser::start());
    shop.state().faults.push_back(Fault::HoldAnswer);
    open_sale(&browser, &shop.base, SALE, PRODUCT);
    fill_address(&browser);
    press_buy(&browser);
    browser.wait_until("the request to arrive", |_| !shop.state().placings.is_empty());
    shop.state().phase = "ended";
    browser.open(&sale_url(&shop.base, SALE, PRODUCT));
    let id = wait_for_order(&browser);
    assert_one_order(&shop, &id);
}

#[test]
fn a_refusal_ends_the_attempt_and_the_next_one_has_its_own_key() {
    let (shop, browser) = (FakeShop::start(), Browser::start());
    shop.state().faults.push_back(Fault::Refuse("not_enough_left"));
    open_sale(&browser, &shop.base, SALE, PRODUCT);
    fill_address(&browser);
    press_buy(&browser);
    browser.wait_for_text("#outcome", "Fewer units are left");
    // What was entered is still there; the focus never left the button.
    assert_eq!(browser.run("return document.activeElement.id"), "submit");
    browser.reload();
    assert_eq!(browser.run("return document.getElementById('city').value"), "Stockholm");
    press_buy(&browser);
    wait_for_order(&browser);
    let state = shop.state();
    assert_eq!(state.placings.len(), 2);
    assert_ne!(state.placings[0].0, state.placings[1].0);
}

#[test]
fn an_old_attempt_waits_for_the_buyer_and_can_be_discarded() {
    let (shop, browser) = (FakeShop::start(), Browser::start());
    open_sale(&browser, &shop.base, SALE, PRODUCT);
    let plant = "localStorage.setItem('doorbuster.attempt.demo.3.30',
        JSON.stringify({ key: 'k'.repeat(32), at: Date.now() - 3600e3, body: '{}' }))";
    browser.run(plant);
    browser.reload();
    browser.wait_for_text("#outcome", "never got its answer");
    browser.click("#forget");
    fill_address(&browser);
    press_buy(&browser);
    let id = wait_for_order(&browser);
    assert_one_order(&shop, &id);
}

#[test]
fn an_old_attempt_is_asked_again_though_the_form_is_empty() {
    let (shop, browser) = (FakeShop::start(), Browser::start());
    open_sale(&browser, &shop.base, SALE, PRODUCT);
    let (key, body) = ("k".repeat(32), r#"{"sale":3,"product":30,"quantity":1}"#);
    browser.run(&format!(
        "localStorage.setItem('doorbuster.attempt.demo.3.30',
            JSON.stringify({{ key: '{key}', at: Date.now() - 3600e3, body: '{body}' }}))"
    ));
    browser.reload();
    browser.wait_for_text("#outcome", "never got its answer");
    browser.click("#submit");
    let id = wait_for_order(&browser);
    assert_one_order(&shop, &id);
    assert_eq!(shop.state().placings, [(key, body.to_owned())]);
}

#[test]
fn the_button_opens_at_the_start_by_the_servers_clock() {
    let (shop, browser) = (FakeShop::start(), Browser::start());
    shop.state().starts_at_ms = shop.now_ms() + 1_800_000;
    open_sale(&browser, &shop.base, SALE, PRODUCT);
    wait_for_view(&browser, "#offer", "not_started");
    browser.run("window.sameDocument = true");
    fill_address(&browser);
    browser.click("#submit");
    browser.wait_for_text("#outcome", "Not open yet");
    // The start is moved; the page of a reader who comes back to it looks at once.
    let starts_at_ms = shop.now_ms() + 3000;
    shop.state().starts_at_ms = starts_at_ms;
    come_back(&browser);
    browser.wait_until("the button to open", is_open);
    let late_ms = i128::from(shop.now_ms()) - i128::from(starts_at_ms);
    assert!(late_ms >= -50, "opened {}ms before the start", -late_ms);
    assert_eq!(browser.run("return window.sameDocument"), true, "without a reload");
    assert!(shop.state().placings.is_empty(), "the early press sent nothing");
    press_buy(&browser);
    let id = wait_for_order(&browser);
    assert_one_order(&shop, &id);
}

#[test]
fn a_purchase_needs_no_mouse() {
    let (shop, browser) = (FakeShop::start(), Browser::start());
    open_sale(&browser, &shop.base, SALE, PRODUCT);
    wait_until_open(&browser);
    browser.run("document.activeElement.blur()");
    // The first stop is the link past the header; it is seen when it has the focus.
    browser.press(TAB);
    assert_eq!(browser.run("return document.activeElement.className"), "skip");
    for _ in 0..16 {
        browser.press(TAB);
        let id = browser.run("return document.activeElement.id").as_str().unwrap_or_default().to_owned();
        if id == "submit" {
            break;
        }
        if browser.run("return document.activeElement.tagName") == "INPUT" {
            browser.press("123");
        }
    }
    browser.press(ENTER);
    let id = wait_for_order(&browser);
    assert_one_order(&shop, &id);
}

#[test]
fn a_token_is_taken_from_the_fragment_and_kept_out_of_sight() {
    let (shop, browser) = (FakeShop::with_session(Session::Token), Browser::start());
    open_sale(&browser, &shop.base, SALE, PRODUCT);
    fill_address(&browser);
    press_buy(&browser);
    browser.wait_for_text("#outcome", "Sign in at the shop first");
    assert!(shop.state().placings.is_empty());

    // {"sub":"462245"}, unsigned: the page only reads who it is.
    let token = "e30.eyJzdWIiOiI0NjIyNDUifQ.e30";
    browser.open("about:blank");
    browser.open(&format!("{}#token={token}", sale_url(&shop.base, SALE, PRODUCT)));
    fill_address(&browser);
    press_buy(&browser);
    let id = wait_for_order(&browser);
    assert!(!browser.url().contains("token"));
    assert_one_order(&shop, &id);
    assert_eq!(shop.state().authorization, format!("Bearer {token}"));
}
