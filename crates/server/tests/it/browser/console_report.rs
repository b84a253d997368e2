//! The page of what a sale came to, against the whole server: it is read on a phone, on a desktop, and without scripts.

use serde_json::json;

use super::axe::assert_accessible;
use super::console::{assert_laid_out, sign_in_by, wait_for_state};
use super::real::{SALE, Shop};
use super::webdriver::Browser;

#[test]
fn the_report_of_a_sale_is_a_page_that_fits_and_needs_no_script() {
    let (shop, browser) = (Shop::demo(), Browser::start());
    shop.sell(&json!({ "total": 3 }));
    sign_in_by(&browser, &shop, &shop.add_operator("support"));
    wait_for_state(&browser, "live");
    let paid = shop.order_as("1");
    shop.pay_as("1", &paid);
    assert_eq!(shop.refused_as("1"), "over_limit");
    let given_up = shop.order_as("2");
    shop.cancel(&given_up);
    browser.open(&format!("{}/console/sales/{SALE}/report", shop.base));
    browser.wait_until("refusals that are on file", |browser| {
        browser.reload();
        browser.text("main").contains("Refused, by minute")
    });
    let so_far = "Opening night sold 1 of 3 units to 1 buyer so far; 0 refunds due; audit clean.";
    assert_eq!(browser.text("#says"), so_far);
    shop.steer("end");
    browser.open(&format!("{}/console", shop.base));
    wait_for_state(&browser, "ended");
    browser.click(&format!("#sale-{SALE} .report"));
    let says = "Opening night sold 1 of 3 units to 1 buyer; 0 refunds due; audit clean.";
    browser.wait_for_text("#says", says);
    browser.allow_scripts(false);
    browser.reload();
    browser.wait_for_text("#says", says);
    let text = browser.text("main");
    for part in [
        "2: 1 paid,",
        "1 cancelled",
        "1 abandoned",
        "over limit",
        "order cancelled",
        "What happened",
        "clean",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    browser.allow_scripts(true);
    for (width, height) in [(360, 800), (768, 1024), (1280, 900)] {
        browser.resize(width, height);
        assert_laid_out(&browser);
    }
    assert_accessible(&browser, "the report of a sale");
    let read =
        "fetch(document.getElementById('json').href).then(async (answer) => done(await answer.json()))";
    let read = browser.run_async(read);
    assert_eq!((&read["report"]["orders"]["placed"], &read["says"]), (&json!(2), &json!(says)), "{read}");
    assert_eq!(browser.complaints(), [""; 0]);
}

#[test]
fn whoever_is_not_signed_in_is_led_to_the_console() {
    let (shop, browser) = (Shop::demo(), Browser::start());
    shop.sell(&json!({}));
    browser.open(&format!("{}/console/sales/{SALE}/report", shop.base));
    browser.wait_for_text("h1", "Sign in at the console first");
    browser.resize(360, 800);
    assert_laid_out(&browser);
    assert_accessible(&browser, "the report without a session");
    browser.click("main a");
    browser.wait_for_text("#sign-in", "Operator token");
}
