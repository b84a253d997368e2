//! Presses at the console: what is sent with one, and where it leaves whoever pressed. Over a scripted API.

use serde_json::{Value, json};

use super::console::ask_by;
use super::console_answers::{open, press_restock, wait_for_figures};
use super::fake_console::{FakeConsole, NOW_MS, SALE, TITLE, no_session, session};
use super::webdriver::{Browser, ENTER};

/// The sale has not started.
fn plan(shop: &FakeConsole) {
    shop.sample(&[
        ("/sales/0/state", json!("not_started")),
        ("/sales/0/starts_at_ms", json!(NOW_MS + 3_600_000)),
        ("/sales/0/ends_at_ms", json!(NOW_MS + 7_200_000)),
    ]);
}

/// The console compared with the sales that it shows, the terminal with more of them.
#[test]
fn units_are_compared_with_the_largest_item_that_the_server_names() {
    let shop = FakeConsole::start();
    let listed = json!({ "sales": [], "next_cursor": null, "next_id": 4, "largest_total": 100 });
    shop.state().answers.insert("/api/v1/sales".to_owned(), listed);
    let browser = open(&shop);
    ask_by(&browser, "#new-sale");
    for (field, text) in
        [("title", "T"), ("product", "9"), ("item", "Cap"), ("price", "1"), ("total", "1001")]
    {
        browser.type_into(&format!("#field-{field}"), text);
    }
    browser.click("#ask-do");
    // One of those that are shown has 120.
    browser.wait_for_text(
        "#ask-problem",
        "1,001 units of product 9 are more than 10 times the largest item of all sales so far, 100.",
    );
    browser.type_into("#field-total", "1000");
    browser.click("#ask-do");
    browser.wait_for_text("#done", "Made.");
}

/// Without a key a press that is sent again would play a second one.
#[test]
fn a_rehearsal_is_begun_with_a_key() {
    let shop = FakeConsole::start();
    plan(&shop);
    let browser = open(&shop);
    ask_by(&browser, "button[data-call=rehearse]");
    browser.click("#ask-do");
    browser.wait_for_text("#done", "It is begun");
    let presses = shop.state().presses.clone();
    let [(key, _, path)] = &presses[..] else { panic!("{presses:?}") };
    assert!(!key.is_empty() && path.ends_with("/rehearse"), "{presses:?}");
}

/// What has the keyboard's focus: a button by its name, or a heading.
const FOCUS: &str =
    "const { localName, textContent } = document.activeElement; return `${localName} ${textContent}`";

fn wait_for_focus(browser: &Browser, what: &str) {
    browser.wait_until(what, |browser| browser.run(FOCUS) == what);
}

/// It was at the beginning of the page.
#[test]
fn after_a_press_the_keyboard_goes_on_where_it_was() {
    let shop = FakeConsole::start();
    let browser = open(&shop);
    let press = |call: &str, typed: &str| {
        browser.run(&format!("document.querySelector('button[data-call={call}]').focus()"));
        browser.press(ENTER);
        browser.wait_until("it asks", |browser| {
            browser.run("return document.getElementById('ask').open") == true
        });
        if !typed.is_empty() {
            browser.type_into("#typed", typed);
        }
        browser.run("document.getElementById('ask-do').focus()");
        browser.press(ENTER);
    };
    let becomes = |state: &str| shop.sample(&[("/sales/0/state", json!(state))]);
    press("pause", "");
    browser.wait_for_text("#done", "Paused.");
    assert_eq!(browser.run(FOCUS), "button Pause");
    becomes("paused");
    wait_for_focus(&browser, "button Resume");
    press("resume", "");
    browser.wait_for_text("#done", "Resumed.");
    becomes("live");
    // Never at what can't be undone, which is after it.
    wait_for_focus(&browser, "button Pause");
    press("end", TITLE);
    becomes("ended");
    wait_for_focus(&browser, "button Duplicate");
    // Whoever went on is left there, and whoever looks elsewhere, too.
    browser.run("document.getElementById('csv').focus()");
    let elsewhere = browser.run(FOCUS);
    becomes("paused");
    browser.wait_for_text(&format!("#sale-{SALE} .state"), "paused");
    assert_eq!(browser.run(FOCUS), elsewhere);
    press("resume", "");
    browser.wait_for_text("#done", "Resumed.");
    browser.click("#now-title");
    becomes("live");
    browser.wait_for_text(&format!("#sale-{SALE} .state"), "live");
    assert_eq!(browser.run("return document.activeElement.localName"), "main");

    // What is made anew, and what is gone.
    plan(&shop);
    browser.wait_for_text(&format!("#sale-{SALE} .state"), "planned");
    press("delete", TITLE);
    browser.wait_for_text("#done", "Deleted.");
    shop.sample(&[("/sales/0/title", json!("Opening day"))]);
    browser.wait_for_text("#sales", "Opening day");
    wait_for_focus(&browser, "button Delete");
    shop.sample(&[("/sales", json!([])), ("/sales_total", json!(0))]);
    wait_for_focus(&browser, "h2 Sales");
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

/// It was lost with the page, which is read anew so that nothing of the night stays in it.
#[test]
fn what_was_typed_is_there_again_for_whoever_typed_it_and_was_signed_out() {
    let shop = FakeConsole::start();
    let browser = open(&shop);
    let signed_out = || {
        browser.wait_for_text("#sign-in-problem", "You were signed out.");
    };
    let sign_in_as = |operator: &str| {
        let mut session = session("admin");
        session["operator"] = json!(operator);
        shop.state().session = Some(session);
        browser.type_into("#token", "a token");
        browser.click("#sign-in button");
        wait_for_figures(&browser);
    };
    let units = |browser: &Browser| browser.run("return document.getElementById('field-units').value");
    press_restock(&browser);
    browser.type_into("#field-units", "50");
    browser.type_into("#field-why", "a van came");
    // The server ends the stream, and is asked why.
    shop.state().session = Some(no_session());
    shop.end_streams();
    signed_out();
    // Not for somebody else in this tab.
    sign_in_as("vera");
    assert_eq!(browser.text("#done"), "");
    press_restock(&browser);
    assert_eq!((units(&browser), browser.text("#ask-problem")), (json!(""), String::new()));
    shop.state().session = Some(no_session());
    browser.click("#ask-no");
    shop.end_streams();
    signed_out();
    sign_in_as("otto");
    browser.wait_for_text("#done", "What you typed at “Restock” is kept until you press that again.");
    press_restock(&browser);
    assert_eq!(units(&browser), "50");
    assert_eq!(browser.run("return document.getElementById('field-why').value"), "a van came");
    browser.wait_for_text("#ask-problem", "nothing of it was done");
    // A press that finds the session over was not done either.
    shop.state().session = Some(no_session());
    shop.state().refusal = Some((401, json!({ "code": "operator_unauthorized", "detail": "Sign in." })));
    browser.click("#ask-do");
    signed_out();
    shop.state().refusal = None;
    sign_in_as("otto");
    press_restock(&browser);
    assert_eq!(units(&browser), "50");
    // Whoever closes it has done with it.
    browser.click("#ask-no");
    press_restock(&browser);
    assert_eq!((units(&browser), browser.text("#ask-problem")), (json!(""), String::new()));
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

fn sign_in(browser: &Browser, shop: &FakeConsole) {
    shop.state().session = Some(session("admin"));
    browser.type_into("#token", "a token");
    browser.click("#sign-in button");
    wait_for_figures(browser);
}

fn typed(browser: &Browser, field: &str) -> Value {
    browser.run(&format!("return document.getElementById('field-{field}').value"))
}

/// An answer that says nothing of the first sending made another press of it, and what was added once was added twice.
#[test]
fn a_press_that_nobody_answered_is_the_same_after_the_session_has_ended() {
    let shop = FakeConsole::start();
    let browser = open(&shop);
    let is_unknown = || {
        press_restock(&browser);
        browser.wait_for_text("#ask-problem", "it is not known whether it was done");
        assert_eq!(typed(&browser, "units"), "50");
    };
    let signed_out = || browser.wait_for_text("#sign-in-problem", "You were signed out.");
    shop.state().silent = true;
    press_restock(&browser);
    browser.type_into("#field-units", "50");
    browser.click("#ask-do");
    browser.wait_for_text("#ask-problem", "it is not known whether it was done");
    shop.state().session = Some(no_session());
    shop.end_streams();
    signed_out();
    shop.state().silent = false;
    sign_in(&browser, &shop);
    browser.wait_for_text("#done", "What you typed at “Restock” is kept until you press that again.");
    is_unknown();
    // Its second sending finds the session over.
    shop.state().session = Some(no_session());
    shop.state().refusal = Some((401, json!({ "code": "operator_unauthorized", "detail": "Sign in." })));
    browser.click("#ask-do");
    signed_out();
    sign_in(&browser, &shop);
    is_unknown();
    // And the next ones a server that is busy, and a proxy that knows of none.
    let busy = json!({ "code": "busy", "detail": "Too many at once." });
    for (status, problem, told) in
        [(503, busy, "Too many at once."), (404, Value::Null, "The server answered 404.")]
    {
        shop.state().refusal = Some((status, problem));
        browser.click("#ask-do");
        browser.wait_for_text("#ask-problem", told);
        browser.click("#ask-no");
        is_unknown();
    }
    shop.state().refusal = None;
    browser.click("#ask-do");
    browser.wait_for_text("#done", "Restocked.");
    let presses = shop.state().presses.clone();
    assert_eq!(presses.len(), 5, "{presses:?}");
    assert!(presses.iter().all(|press| *press == presses[0]) && !presses[0].0.is_empty(), "{presses:?}");
    press_restock(&browser);
    assert_eq!((typed(&browser, "units"), browser.text("#ask-problem")), (json!(""), String::new()));
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

/// It had every field of its form, and undid what a colleague had changed meanwhile.
#[test]
fn a_change_that_nobody_answered_has_what_was_changed_alone() {
    let shop = FakeConsole::start();
    let payment_s = |seconds: u64| {
        shop.state().answers.insert(format!("/api/v1/sales/{SALE}"), json!({ "payment_s": seconds }));
    };
    payment_s(900);
    let browser = open(&shop);
    let edit = format!("#sale-{SALE} button[data-call=edit]");
    ask_by(&browser, &edit);
    browser.type_into("#field-title", "Closing night");
    shop.state().silent = true;
    browser.click("#ask-do");
    browser.wait_for_text("#ask-problem", "it is not known whether it was done");
    browser.click("#ask-no");
    payment_s(600);
    shop.state().silent = false;
    ask_by(&browser, &edit);
    browser.wait_for_text("#ask-problem", "it is not known whether it was done");
    assert_eq!(
        (typed(&browser, "title"), typed(&browser, "payment_s")),
        (json!("Closing night"), json!("600"))
    );
    browser.click("#ask-do");
    browser.wait_for_text("#done", "Changed.");
    let presses = shop.state().presses.clone();
    let bodies: Vec<_> = presses.iter().map(|(_, body, _)| body.as_str()).collect();
    assert_eq!(bodies, [r#"{"title":"Closing night"}"#; 2]);
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

/// They stayed for as long as the tab, and whoever came back on another day was shown what they had left.
#[test]
fn drafts_are_few_and_not_old() {
    let shop = FakeConsole::start();
    let browser = open(&shop);
    for (drafts, units) in [
        ("[draft(30, 11)]", "50"),
        ("[draft(30, 13)]", ""),
        ("[draft(30, 2), ...others(19)]", "50"),
        ("[draft(30, 2), ...others(20)]", ""),
    ] {
        browser.run(&format!(
            "const draft = (product, hours) => [JSON.stringify(['otto, admin', 'Restock', {SALE}, product, null, null]), \
               {{ values: {{ units: '50' }}, seen: {{ units: '' }}, draft: Date.now() - hours * 3600000 }}]; \
             const others = (number) => Array.from({{ length: number }}, (_, at) => draft(100 + at, 1)); \
             sessionStorage.setItem('unanswered', JSON.stringify(Object.fromEntries({drafts}))); return null"
        ));
        browser.reload();
        wait_for_figures(&browser);
        press_restock(&browser);
        assert_eq!(typed(&browser, "units"), units, "{drafts}");
        browser.click("#ask-no");
    }
    assert_eq!(browser.complaints(), Vec::<String>::new());
}
