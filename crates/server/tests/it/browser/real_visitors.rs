//! Whose order it is: the token's buyer, the member whom the page names, or the browser's own.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use engine::Status;
use ring::hmac;
use serde_json::json;

use super::real::{PRODUCT, SALE, Shop, TITLE, TOKEN_SECRET};
use super::steps::{fill_address, open_sale, press_buy, sale_url, wait_for_order, wait_for_view};
use super::webdriver::Browser;

pub(crate) fn token(buyer: u64, expires_s: u64) -> String {
    let part = |json: serde_json::Value| URL_SAFE_NO_PAD.encode(json.to_string());
    let signed = format!(
        "{}.{}",
        part(json!({ "alg": "HS256", "typ": "JWT" })),
        part(json!({ "sub": buyer.to_string(), "exp": expires_s }))
    );
    let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, TOKEN_SECRET), signed.as_bytes());
    format!("{signed}.{}", URL_SAFE_NO_PAD.encode(tag))
}

#[test]
fn the_buyer_of_a_token_orders_and_nobody_else_sees_it() {
    let (shop, browser) = (Shop::with_tokens(), Browser::start());
    shop.sell(&json!({}));
    let expires_s = shop.now_ms() / 1000 + 3600;
    open_sale(&browser, &shop.base, SALE, PRODUCT);
    fill_address(&browser);
    press_buy(&browser);
    browser.wait_for_text("#outcome", "Sign in at the shop first");
    assert!(shop.orders().is_empty());

    // Another address first: a change of the fragment alone would not load the page again.
    browser.open("about:blank");
    let page = sale_url(&shop.base, SALE, PRODUCT);
    browser.open(&format!("{page}#token={}", token(462_245, expires_s)));
    fill_address(&browser);
    press_buy(&browser);
    let id = wait_for_order(&browser);
    assert!(!browser.url().contains("token"));
    assert_eq!((shop.only_order().buyer.as_str(), shop.only_order().id.to_string()), ("462245", id.clone()));
    // The shop takes the payment, not this page.
    assert!(browser.text("#pay").is_empty() && browser.text("#lead").contains("The shop takes your payment"));

    browser.open("about:blank");
    browser.open(&format!("{}/orders/{id}#token={}", shop.base, token(7, expires_s)));
    browser.wait_for_text("#heading", "No such order");
    browser.open("about:blank");
    browser.open(&format!("{}/orders/{id}#token={}", shop.base, token(462_245, expires_s)));
    wait_for_view(&browser, "#order", "held");
    browser.click("#cancel");
    browser.click("#sure button[value=cancel]");
    wait_for_view(&browser, "#order", "cancelled");
    assert_eq!(shop.only_order().status, Status::Cancelled);
    assert_eq!(browser.complaints(), [""; 0]);
}

#[test]
fn an_expired_token_is_shown_as_such() {
    let (shop, browser) = (Shop::with_tokens(), Browser::start());
    shop.sell(&json!({}));
    browser.open(&format!("{}#token={}", sale_url(&shop.base, SALE, PRODUCT), token(7, 1_000_000)));
    fill_address(&browser);
    press_buy(&browser);
    browser.wait_for_text("#outcome", "The token has expired: sign in again.");
    assert!(shop.orders().is_empty());
}

#[test]
fn a_page_that_names_a_member_orders_as_that_member() {
    let (shop, browser) = (Shop::demo(), Browser::start());
    shop.sell(&json!({}));
    let page =
        format!("{}/product?flashPromotionId={SALE}&promotionProductId={PRODUCT}&memberId=462245", shop.base);
    browser.open(&page);
    assert_eq!(browser.text("#member"), "You order as member 462245");
    fill_address(&browser);
    press_buy(&browser);
    let id = wait_for_order(&browser);
    assert_eq!((shop.only_order().buyer.as_str(), shop.only_order().id.to_string()), ("462245", id.clone()));
    browser.reload();
    wait_for_view(&browser, "#order", "held");
    browser.click("#pay");
    wait_for_view(&browser, "#order", "paid");
    browser.click("#back");
    browser.wait_for_text("#mine", "See your order");
    assert_eq!(browser.url(), page);

    // The same browser without the member is somebody else.
    browser.open(&format!("{}/orders/{id}", shop.base));
    browser.wait_for_text("#heading", "No such order");
    open_sale(&browser, &shop.base, SALE, PRODUCT);
    assert!(browser.text("#mine").is_empty());
    fill_address(&browser);
    press_buy(&browser);
    assert_ne!(wait_for_order(&browser), id);
}

#[test]
fn an_order_from_elsewhere_is_shown_with_its_title() {
    let (shop, browser) = (Shop::demo(), Browser::start());
    shop.sell(&json!({}));
    let id = shop.order_as("77");
    browser.open(&format!("{}/orders/{id}?memberId=77", shop.base));
    wait_for_view(&browser, "#order", "held");
    assert_eq!(browser.text("#product"), TITLE);
    assert_eq!(browser.complaints(), [""; 0]);
}
