//! A phone in one hand: 360 by 800 CSS pixels.

use serde_json::json;
use server::pages::{AddressAsked, Branding, Languages, Session, Settings};

use super::fake::{FakeShop, PRODUCT, SALE};
use super::languages::choose;
use super::looking::AUDIT;
use super::steps::{fill_address, open_sale, press_buy, sale_url, wait_for_order, wait_for_view};
use super::webdriver::Browser;

/// Bottoms and tops of what must be seen together, and whether the button covers any of it.
const PLACES: &str = "
    const place = (id) => document.getElementById(id).getBoundingClientRect();
    const [clock, digits, left, button] = ['clock', 'digits', 'left', 'submit'].map(place);
    return {
      inView: [clock, digits, left, button].every((box) => box.height > 0 && box.top >= 0 && box.bottom <= innerHeight),
      free: left.bottom <= document.querySelector('.act').getBoundingClientRect().top,
      tops: [clock, digits, left, button].map((box) => Math.round(box.top)),
    }";

#[test]
fn countdown_units_and_button_are_in_view_from_the_first_paint() {
    let (shop, browser) = (FakeShop::start(), Browser::start());
    browser.resize(360, 800);
    for (code, starts_in_ms) in [
        ("en", 0),
        ("en", 1_800_000),
        ("en", 200_000_000),
        ("de", 0),
        ("es", 200_000_000),
        ("zh", 0),
        ("ar", 200_000_000),
    ] {
        choose(&browser, &shop.base, code);
        shop.state().starts_at_ms = shop.now_ms() + starts_in_ms;
        // Without its script the page is as it is before the script has run.
        browser.open(&format!("{}/no-script", shop.base));
        let painted = browser.run(PLACES);
        assert_eq!((&painted["inView"], &painted["free"]), (&json!(true), &json!(true)), "{painted}");
        open_sale(&browser, &shop.base, SALE, PRODUCT);
        let view = if starts_in_ms == 0 { "live" } else { "not_started" };
        wait_for_view(&browser, "#offer", view);
        browser.wait_until("the countdown", |browser| browser.text("#digits").contains(char::is_numeric));
        let running = browser.run(PLACES);
        assert_eq!((&running["inView"], &running["free"]), (&json!(true), &json!(true)), "{running}");
        assert_eq!(painted["tops"], running["tops"], "nothing moves");
        assert_eq!(browser.run(AUDIT), "");
    }
}

#[test]
fn a_filled_address_is_one_line() {
    let (shop, browser) = (FakeShop::start(), Browser::start());
    browser.resize(360, 800);
    open_sale(&browser, &shop.base, SALE, PRODUCT);
    fill_address(&browser);
    assert!(browser.text("#address-line").is_empty(), "not while it is being filled in");
    browser.reload();
    browser.wait_for_text("#address-line", "Zoë Ångström, Götgatan 1 \"B\", 116 21, Stockholm, Sverige");
    assert!(browser.text("#address").is_empty());
    // Not under the bar.
    browser.run("document.getElementById('address-change').scrollIntoView({ block: 'center' })");
    browser.click("#address-change");
    assert_eq!(browser.run("return document.activeElement.id"), "name");
    assert!(browser.text("#address-line").is_empty());
    browser.run("document.querySelector('.brand').focus()");
    browser.wait_for_text("#address-line", "Stockholm");
    press_buy(&browser);
    wait_for_order(&browser);
    let body: serde_json::Value = serde_json::from_str(&shop.state().placings[0].1).unwrap();
    assert_eq!(body["address"]["city"], "Stockholm");
}

#[test]
fn a_shop_that_asks_for_no_address_has_a_button() {
    let settings = Settings {
        shop: "Ada's".into(),
        session: Session::Demo,
        demo_pay: true,
        address_asked: AddressAsked::Never,
        refused_without_script: None,
        verification_url: None,
        branding: Branding::default(),
        languages: Languages::built_in(),
    };
    let (shop, browser) = (FakeShop::with_settings(settings), Browser::start());
    browser.open(&sale_url(&shop.base, SALE, PRODUCT));
    wait_for_view(&browser, "#offer", "live");
    assert!(browser.text("fieldset").is_empty());
    press_buy(&browser);
    wait_for_order(&browser);
    let body: serde_json::Value = serde_json::from_str(&shop.state().placings[0].1).unwrap();
    assert_eq!(body, json!({ "sale": SALE, "product": PRODUCT, "quantity": 1, "unit_price": 499_900 }));
    assert_eq!(browser.complaints(), [""; 0]);
}
