//! The button beside the verdict: what is to be done now, of what the console can do. Over a scripted API.

use serde_json::{Value, json};

use super::axe::assert_accessible;
use super::console::{ask_by, assert_laid_out, wait_until_old};
use super::console_answers::open;
use super::fake_console::{FakeConsole, SALE, TITLE, session, verdict, verdict_with};
use super::webdriver::{Browser, ENTER};

const OTHER: u64 = 4;
/// Of the verdict's buttons those that can be seen.
const SHOWN: &str = "return [...document.querySelectorAll('#act button')].filter((button) => button.checkVisibility()).map((button) => button.textContent)";

fn action(kind: &str, sale: Option<u64>, product: Option<u64>) -> Value {
    json!({ "kind": kind, "sale": sale, "product": product })
}

/// Two sales are paused, and the verdict is about the second one.
fn paused() -> FakeConsole {
    let shop = FakeConsole::start();
    shop.state().repeats = true;
    let mut sale = shop.state().figures["sales"][0].clone();
    sale["state"] = json!("paused");
    let mut other = sale.clone();
    (other["id"], other["title"]) = (json!(OTHER), json!("Closing night"));
    shop.sample(&[
        ("/sales", json!([sale, other])),
        ("/sales_total", json!(2)),
        (
            "/verdict",
            verdict_with(
                action("resume", Some(OTHER), None),
                "“Closing night” is paused: nothing of it is sold.",
            ),
        ),
    ]);
    shop
}

fn wait_for_button(browser: &Browser, name: &str) {
    browser.wait_until(name, |browser| browser.run(SHOWN) == json!([name]));
}

fn paths(shop: &FakeConsole) -> Vec<String> {
    shop.state().presses.iter().map(|(_, _, path)| path.clone()).collect()
}

#[test]
fn the_verdicts_button_asks_what_the_sales_own_asks_and_leaves_the_keyboard_at_the_verdict() {
    let shop = paused();
    let browser = open(&shop);
    wait_for_button(&browser, "Resume: Closing night");
    for (width, height) in [(360, 800), (1280, 900)] {
        browser.resize(width, height);
        assert_laid_out(&browser);
    }
    assert_accessible(&browser, "the console whose verdict has a button");
    let asks = |button: &str| {
        ask_by(&browser, button);
        let asks = ["#ask-title", "#ask-do", "#ask-says"].map(|part| browser.text(part));
        browser.click("#ask-no");
        // On a busy machine the figures may be old at one of both.
        asks.map(|text| text.split(" As of ").next().unwrap_or_default().to_owned())
    };
    let its_own = asks(&format!("#sale-{OTHER} button[data-call=resume]"));
    assert_eq!(asks("#act button"), its_own);
    assert_eq!(its_own[0], "Resume: Closing night");
    assert_eq!(paths(&shop), Vec::<String>::new(), "nothing is done at once");

    browser.run("document.querySelector('#act button').focus()");
    browser.press(ENTER);
    browser
        .wait_until("it asks", |browser| browser.run("return document.getElementById('ask').open") == true);
    browser.run("document.getElementById('ask-do').focus()");
    browser.press(ENTER);
    browser.wait_for_text("#done", "Resumed.");
    assert_eq!(paths(&shop), [format!("/api/v1/sales/{OTHER}/resume")]);
    // Now the first one is what is to be done, and in the end nothing.
    shop.sample(&[
        ("/sales/1/state", json!("live")),
        ("/verdict", verdict_with(action("resume", Some(SALE), None), "“Opening night” is paused.")),
    ]);
    wait_for_button(&browser, &format!("Resume: {TITLE}"));
    let says = "2 sales are selling.";
    shop.sample(&[("/sales/0/state", json!("live")), ("/verdict", verdict("green", says, "Nothing to do."))]);
    browser.wait_for_text("#says", says);
    assert_eq!(browser.run(SHOWN), json!([]));
    browser.wait_until("the keyboard is at the verdict", |browser| {
        browser.run("return document.activeElement.id") == "says"
    });
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[test]
fn one_of_an_item_is_for_that_item_and_one_of_none_makes_a_sale() {
    let shop = FakeConsole::start();
    shop.state().repeats = true;
    let mut other = shop.state().figures["sales"][0]["items"][0].clone();
    (other["product"], other["title"]) = (json!(31), json!("Cap"));
    let items = json!([shop.state().figures["sales"][0]["items"][0].clone(), other]);
    let act = |action: Value| verdict_with(action, "Something is to be done.");
    shop.sample(&[
        ("/sales/0/items", items),
        ("/sales/0/items_total", json!(2)),
        ("/verdict", act(action("restock", Some(SALE), Some(31)))),
    ]);
    let browser = open(&shop);
    wait_for_button(&browser, "Restock: Cap");
    ask_by(&browser, "#act button");
    assert_eq!(browser.text("#ask-title"), "Restock: Cap");
    browser.type_into("#field-units", "5");
    browser.click("#ask-do");
    browser.wait_for_text("#done", "Restocked.");
    assert_eq!(paths(&shop), [format!("/api/v1/sales/{SALE}/items/31/restock")]);

    shop.sample(&[("/verdict", act(action("end", Some(SALE), None)))]);
    wait_for_button(&browser, &format!("End now: {TITLE}"));
    ask_by(&browser, "#act button");
    browser.wait_for_text("#ask-typed", "To go on, type the sale's title");
    browser.click("#ask-no");

    let listed = json!({ "sales": [], "next_cursor": null, "next_id": 4, "largest_total": 100 });
    shop.state().answers.insert("/api/v1/sales".to_owned(), listed);
    shop.sample(&[
        ("/sales", json!([])),
        ("/sales_total", json!(0)),
        ("/verdict", act(action("create", None, None))),
    ]);
    wait_for_button(&browser, "New sale");
    ask_by(&browser, "#act button");
    assert_eq!(browser.text("#ask-title"), "New sale");
    assert_eq!(paths(&shop).len(), 1);
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[test]
fn there_is_none_that_a_role_may_not_press_or_that_the_figures_do_not_offer() {
    let (shop, browser) = (paused(), Browser::start());
    let resume = shop.state().figures["verdict"].clone();
    let correct = verdict_with(action("correct", Some(SALE), Some(30)), "Units are missing.");
    browser.open(&shop.url);
    for (role, resumes, corrects) in [
        ("viewer", json!([]), json!([])),
        ("support", json!([]), json!([])),
        ("operator", json!(["Resume: Closing night"]), json!([])),
        ("admin", json!(["Resume: Closing night"]), json!(["Correct: Aurora \"phone\""])),
    ] {
        shop.state().session = Some(session(role));
        shop.sample(&[("/verdict", resume.clone())]);
        browser.reload();
        browser.wait_for_text("#who", &format!("otto, {role}"));
        browser.wait_for_text("#says", "“Closing night” is paused");
        assert_eq!(browser.run(SHOWN), resumes, "{role}");
        assert_accessible(&browser, &format!("the console of a {role} at a verdict with a button"));
        shop.sample(&[("/verdict", correct.clone())]);
        browser.wait_for_text("#says", "Units are missing.");
        assert_eq!(browser.run(SHOWN), corrects, "{role}");
    }
    for (what, act) in [
        ("no sale of that number is shown", action("resume", Some(77), None)),
        ("no item", action("restock", Some(SALE), Some(77))),
        ("it is paused already", action("pause", Some(SALE), None)),
        ("it has no line", action("let_all_in", Some(SALE), Some(30))),
        ("a later version knows it", action("sing", Some(SALE), None)),
        ("a later version knows it of an item", action("sing", Some(SALE), Some(30))),
        ("there is none", Value::Null),
    ] {
        shop.sample(&[("/verdict", verdict_with(act, what))]);
        browser.wait_for_text("#says", what);
        assert_eq!(browser.run("return document.getElementById('act').children.length"), 0, "{what}");
    }
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

/// What the figures said a while ago may be done by now.
#[test]
fn there_is_none_beside_figures_that_are_old() {
    let shop = paused();
    let browser = open(&shop);
    wait_for_button(&browser, "Resume: Closing night");
    shop.state().repeats = false;
    wait_until_old(&browser, 4);
    browser.wait_for_text("#level", "UNKNOWN");
    assert_eq!(browser.run(SHOWN), json!([]));
    shop.state().repeats = true;
    wait_for_button(&browser, "Resume: Closing night");
}
