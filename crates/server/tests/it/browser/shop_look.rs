//! The shop's own look and its ways out: signing in, paying.

use serde_json::json;
use server::pages::{Accent, Branding, Colour, Session};

use super::fake::{FakeShop, PRODUCT, SALE};
use super::looking::AUDIT;
use super::steps::{buy, come_back, fill_address, open_sale, press_buy, wait_for_view};
use super::webdriver::Browser;

fn branding() -> Branding {
    Branding {
        accent: Some(Accent::new(Colour::parse("#0b57d0").unwrap(), None).unwrap()),
        logo: None,
        sign_in_url: Some("https://shop.example/login?back={return}".to_owned()),
        legal_links: vec![("Imprint".to_owned(), "https://shop.example/imprint".to_owned())],
    }
}

#[test]
fn whoever_is_not_signed_in_is_led_to_the_shop_and_back() {
    let (shop, browser) = (FakeShop::with_branding(Session::Token, branding()), Browser::start());
    open_sale(&browser, &shop.base, SALE, PRODUCT);
    fill_address(&browser);
    press_buy(&browser);
    browser.wait_for_text("#outcome", "Sign in at the shop first. Nothing was ordered. Sign in");
    let back = format!("{}/seckill_3_30.html", shop.base).replace(':', "%3A").replace('/', "%2F");
    let expected = format!("https://shop.example/login?back={back}");
    assert_eq!(browser.attribute("#outcome a", "href"), Some(expected));
    browser.open(&format!("{}/orders/{:040x}", shop.base, 0xabc));
    browser.wait_for_text("#lead", "Sign in");
    assert!(browser.attribute("#lead a", "href").is_some());
    assert_eq!(browser.text(".legal"), "Imprint");
    let colour = "return getComputedStyle(document.querySelector('.skip')).color";
    assert_eq!(browser.run(colour), "rgb(11, 87, 208)");
    assert_eq!(browser.run(AUDIT), "");
}

#[test]
fn a_held_order_leads_to_where_it_is_paid() {
    let (shop, browser) = (FakeShop::with_branding(Session::Demo, branding()), Browser::start());
    buy(&browser, &shop.base, SALE, PRODUCT);
    assert_eq!(browser.text("#pay-link"), "");
    let set = |name: &str, value: serde_json::Value| {
        shop.state().orders.values_mut().next().expect("there is an order")[name] = value;
        come_back(&browser);
    };
    set("pay_url", json!("https://shop.example/pay?o=1&s=2"));
    browser.wait_for_text("#pay-link", "Pay €4,999.00");
    let href = browser.attribute("#pay-link", "href");
    assert_eq!(href.as_deref(), Some("https://shop.example/pay?o=1&s=2"));
    assert!(!browser.text("#lead").contains("The shop takes your payment"));
    assert_eq!(browser.run(AUDIT), "");
    set("pay_url", json!(null));
    set("status", json!("paid"));
    wait_for_view(&browser, "#order", "paid");
    assert_eq!(browser.text("#pay-link"), "");
}
