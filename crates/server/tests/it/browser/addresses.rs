//! Where an order goes, asked on its page: with a script and without, on a phone, in every language.

use serde_json::{Value, json};
use server::pages::{AddressAsked, Branding, Languages, Session, Settings};

use super::axe::assert_accessible;
use super::fake::{FakeShop, PRODUCT, SALE};
use super::languages::choose;
use super::looking::AUDIT;
use super::real::{self, Shop};
use super::steps::{
    come_back, fill_address, open_sale, press_buy, sale_url, type_address, wait_for_order, wait_for_view,
};
use super::webdriver::Browser;

fn fake() -> FakeShop {
    let shop = FakeShop::with_settings(Settings {
        shop: "Ada's".into(),
        session: Session::Demo,
        demo_pay: true,
        address_asked: AddressAsked::After,
        refused_without_script: None,
        verification_url: None,
        branding: Branding::default(),
        languages: Languages::built_in(),
    });
    shop.state().address_after = true;
    shop
}

fn buy(browser: &Browser, base: &str) -> String {
    open_sale(browser, base, SALE, PRODUCT);
    assert!(browser.text("fieldset").is_empty(), "not before");
    press_buy(browser);
    wait_for_order(browser)
}

const LINE: &str = "Zoë Ångström, Götgatan 1 \"B\", 116 21, Stockholm, Sverige";

#[test]
fn the_page_of_an_order_asks_where_it_goes_once() {
    let (shop, browser) = (fake(), Browser::start());
    browser.resize(360, 800);
    let id = buy(&browser, &shop.base);
    browser.wait_for_text("#ask-address", "It can be given once");
    assert_eq!(browser.run(AUDIT), "");
    assert_accessible(&browser, "an order that asks for its address");
    browser.resize(360, 800);
    // Where one pays by the clock, that comes first.
    let seen = "const bottom = (id) => document.getElementById(id).getBoundingClientRect().bottom;
        scrollTo(0, 0);
        return bottom('digits') > 0 && bottom('pay') <= innerHeight";
    assert_eq!(browser.run(seen), true);
    browser.click("#send-address");
    assert_eq!(browser.run("return document.activeElement.id"), "name", "the browser says what is missing");
    fill_address(&browser);
    // What was typed outlives a reload, a look at the order, and that it is paid first.
    shop.state().orders.get_mut(&id).unwrap()["status"] = json!("paid");
    browser.reload();
    wait_for_view(&browser, "#order", "paid");
    browser.wait_for_text("#address-line", LINE);
    assert!(browser.text("#address").is_empty(), "it is one line");
    assert_eq!(browser.run(AUDIT), "");
    assert_accessible(&browser, "a paid order that asks, with an address in one line");
    browser.resize(360, 800);
    browser.run("document.getElementById('address-change').scrollIntoView({ block: 'center' })");
    browser.click("#address-change");
    assert_eq!(browser.run("return document.activeElement.id"), "name");
    browser.run("document.querySelector('.brand').focus()");
    browser.wait_for_text("#address-line", LINE);
    browser.click("#send-address");
    browser.wait_for_text("#address-row", LINE);
    assert!(browser.text("#ask-address").is_empty());
    assert_eq!(browser.run("return document.activeElement.id"), "heading", "the focus is not lost");
    assert_eq!(shop.state().orders[&id]["address"]["city"], "Stockholm");
    assert_accessible(&browser, "an order with its address");
    browser.resize(360, 800);
    browser.reload();
    browser.wait_for_text("#address-row", LINE);
    let draft = browser.run("return sessionStorage.getItem('doorbuster.draft')");
    assert_eq!(draft, Value::Null, "it was sent");
    assert_eq!(browser.complaints(), [""; 0]);
}

#[test]
fn an_order_that_is_over_or_has_an_address_asks_for_none() {
    let (shop, browser) = (fake(), Browser::start());
    let id = buy(&browser, &shop.base);
    browser.wait_for_text("#ask-address", "It can be given once");
    for status in ["expired", "cancelled", "refunded", "rejected", "pending"] {
        shop.state().orders.get_mut(&id).unwrap()["status"] = json!(status);
        come_back(&browser);
        wait_for_view(&browser, "#order", status);
        assert!(browser.text("#ask-address").is_empty(), "{status}");
    }
    // Another tab has given one meanwhile.
    shop.state().orders.get_mut(&id).unwrap()["status"] = json!("held");
    come_back(&browser);
    browser.wait_for_text("#ask-address", "It can be given once");
    fill_address(&browser);
    shop.state().orders.get_mut(&id).unwrap()["address"] = json!({ "city": "Ulm" });
    browser.run("document.getElementById('ask-address').requestSubmit()");
    browser.wait_for_text("#address-row", "Ulm");
    assert!(browser.text("#ask-address").is_empty());
}

#[test]
fn every_language_asks() {
    for (code, send) in [
        ("de", "Adresse absenden"),
        ("es", "Enviar esta dirección"),
        ("zh", "提交此地址"),
        ("ar", "إرسال هذا العنوان"),
    ] {
        let (shop, browser) = (fake(), Browser::start());
        browser.resize(360, 800);
        choose(&browser, &shop.base, code);
        buy(&browser, &shop.base);
        browser.wait_for_text("#send-address", send);
        assert_eq!(browser.run(AUDIT), "", "{code}");
        assert_accessible(&browser, &format!("an order that asks in {code}"));
    }
}

#[test]
fn an_address_reaches_the_ledger_with_a_script_and_without() {
    let shop = Shop::asking_after();
    shop.sell(&json!({ "limit": 3 }));
    let browser = Browser::start();
    let product = sale_url(&shop.base, real::SALE, real::PRODUCT);
    open_sale(&browser, &shop.base, real::SALE, real::PRODUCT);
    press_buy(&browser);
    wait_for_order(&browser);
    fill_address(&browser);
    browser.click("#send-address");
    browser.wait_for_text("#address-row", LINE);

    browser.allow_scripts(false);
    browser.open(&format!("{}?plain=1", browser.url().split('?').next().unwrap()));
    browser.wait_for_text("main", "Götgatan 1 \"B\"");
    assert!(browser.text("form.ask-address").is_empty());
    // Another order, without one.
    browser.open(&product);
    browser.click("#submit");
    browser.wait_for_text("h1", "Check your order");
    browser.click("button.primary");
    browser.wait_for_text("h1", "Reserved for you");
    assert_eq!(browser.run(AUDIT), "");
    type_address(&browser);
    browser.click("form.ask-address button.primary");
    browser.wait_for_text("dl", "Götgatan 1 \"B\"");
    assert!(browser.text("form.ask-address").is_empty());
    browser.allow_scripts(true);
    assert_accessible(&browser, "a plain order with its address");
    let kept = shop.orders();
    assert_eq!(kept.len(), 2);
    for order in kept {
        let address: Value = serde_json::from_str(order.address.as_deref().unwrap()).unwrap();
        assert_eq!((&address["city"], &address["detail"]), (&json!("Stockholm"), &json!("Götgatan 1 \"B\"")));
    }
}
