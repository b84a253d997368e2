//! Presses that come twice, from two operators or from one: each is carried out once, and stands in the entries. Against the whole
//! server.

use serde_json::{Value, json};

use super::console::{sign_in, sign_in_by, wait_for_state};
use super::console_acts::press_item;
use super::real::{PRODUCT, SALE, Shop};
use super::webdriver::Browser;

/// The dialog asks for so many units more, and why.
fn fill_in_restock(browser: &Browser, units: u64, why: &str) {
    press_item(browser, "restock");
    browser.type_into("#field-units", &units.to_string());
    browser.type_into("#field-why", why);
}

fn wait_until_answered(browser: &Browser) {
    browser.wait_until("the press is answered", |browser| {
        browser.run("return document.getElementById('ask').open") == false
    });
}

/// Who added units, what came of it, and why, the latest first.
fn restocked(shop: &Shop) -> Vec<[String; 3]> {
    let log = shop.operators_log();
    let text = |action: &Value, name: &str| action[name].as_str().expect("it is a text").to_owned();
    let restocked = log.iter().filter(|action| action["what"] == "restocked" && action["sale"] == SALE);
    restocked.map(|action| ["who", "about", "why"].map(|name| text(action, name))).collect()
}

#[test]
fn two_operators_who_restock_at_once_add_both_and_each_once() {
    let shop = Shop::demo();
    shop.sell(&json!({}));
    let (one, other) = Browser::two();
    let presses = [(&one, "operator", 20, "a van came"), (&other, "admin", 30, "found in the cellar")];
    for (browser, who, units, why) in presses {
        sign_in_by(browser, &shop, &shop.add_operator(who));
        browser.wait_for_text("#who", &format!("{who}, {who}"));
        wait_for_state(browser, "live");
        fill_in_restock(browser, units, why);
    }
    std::thread::scope(|scope| {
        for (browser, ..) in presses {
            scope.spawn(move || browser.click("#ask-do"));
        }
    });
    for (browser, ..) in presses {
        browser.wait_for_text("#done", "Restocked.");
        browser.wait_for_text(&format!("#sale-{SALE} tbody tr"), "150\t0\t0\t150");
    }
    assert_eq!(shop.units(), (150, 0, 0));
    let found = restocked(&shop);
    let entry =
        |units: u64, from: u64| format!("product {PRODUCT}, {units} units: {from} -> {}", from + units);
    for (_, who, units, why) in presses {
        let is_first = found.last().is_some_and(|first| first[0] == who);
        let expected =
            [who.to_owned(), entry(units, if is_first { 100 } else { 150 - units }), why.to_owned()];
        assert!(found.len() == 2 && found.contains(&expected), "{expected:?} in {found:?}");
        for browser in [&one, &other] {
            let shown = format!("{who}: restocked no. {SALE} {} ({why})", expected[1]);
            browser.wait_for_text("#events", &shown);
        }
    }
    assert_eq!((one.complaints(), other.complaints()), (vec![], vec![]));
}

#[test]
fn a_double_click_and_a_press_whose_answer_was_lost_add_once_each() {
    let (shop, browser) = (Shop::demo(), Browser::start());
    shop.sell(&json!({}));
    sign_in(&browser, &shop);
    wait_for_state(&browser, "live");
    let row = format!("#sale-{SALE} tbody tr");
    // The answer waits until both clicks are over.
    browser.run(
        "window.real = fetch; window.sent = 0; \
         const clicked = new Promise((go) => { window.goOn = go; }); \
         window.fetch = async (path, how) => { \
           if (!path.endsWith('/restock')) return window.real(path, how); \
           window.sent += 1; \
           const answer = await window.real(path, how); \
           await clicked; \
           return answer; \
         }; return null",
    );
    fill_in_restock(&browser, 20, "a van came");
    browser.double_click("#ask-do");
    browser.wait_for_text(&row, "120\t0\t0\t120");
    browser.run("window.goOn(); return null");
    wait_until_answered(&browser);
    assert_eq!((browser.run("return window.sent"), shop.units()), (json!(1), (120, 0, 0)));

    // It is carried out, and nobody hears of it: who presses again asks for the same.
    browser.run(
        "window.fetch = async (path, how) => { \
           const answer = await window.real(path, how); \
           if (!path.endsWith('/restock')) return answer; \
           window.fetch = window.real; \
           throw new TypeError('The answer is lost.'); \
         }; return null",
    );
    fill_in_restock(&browser, 30, "another van");
    browser.click("#ask-do");
    browser.wait_for_text("#ask-problem", "it is not known whether it was done");
    browser.wait_for_text(&row, "150\t0\t0\t150");
    browser.click("#ask-do");
    wait_until_answered(&browser);
    assert_eq!(shop.units(), (150, 0, 0));
    let expected = [
        ["root", "product 7, 30 units: 120 -> 150", "another van"],
        ["root", "product 7, 20 units: 100 -> 120", "a van came"],
    ];
    assert_eq!(restocked(&shop), expected);
    assert_eq!(browser.complaints(), Vec::<String>::new());
}
