//! Presses at the console: what is sent with one, and where it leaves whoever pressed. Over a scripted API.

use serde_json::json;

use super::console::ask_by;
use super::console_told::open;
use super::fake_console::{FakeConsole, NOW_MS};

/// The sale has not started.
fn plan(shop: &FakeConsole) {
    shop.sample(&[
        ("/sales/0/state", json!("not_started")),
        ("/sales/0/starts_at_ms", json!(NOW_MS + 3_600_000)),
        ("/sales/0/ends_at_ms", json!(NOW_MS + 7_200_000)),
    ]);
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
