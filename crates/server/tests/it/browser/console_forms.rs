//! The console's forms: what they say beforehand, and what they ask about before it is done. Over a scripted API.

use serde_json::{Value, json};

use super::axe::assert_accessible;
use super::console::ask_by;
use super::console_answers::open;
use super::fake_console::{FakeConsole, NOW_MS, SALE, session};
use super::webdriver::{Browser, ENTER};

/// A server that is set to 10 minutes to pay, and whose largest item has 290 units.
fn shop() -> FakeConsole {
    let shop = FakeConsole::start();
    let listed = json!({
        "sales": [], "next_cursor": null, "next_id": 4, "largest_total": 290, "payment_default_s": 600,
    });
    shop.state().answers.insert("/api/v1/sales".to_owned(), listed);
    shop.state().repeats = true;
    shop
}

fn ask_for_a_sale(browser: &Browser, price: &str, total: &str) {
    ask_by(browser, "#new-sale");
    for (field, text) in
        [("title", "Tonight"), ("product", "9"), ("item", "Cap"), ("price", price), ("total", total)]
    {
        browser.type_into(&format!("#field-{field}"), text);
    }
}

fn wait_for_focus(browser: &Browser, id: &str) {
    browser.wait_until(&format!("the keyboard at {id}"), |browser| {
        browser.run("return document.activeElement.id") == id
    });
}

/// It was below what can be seen of the dialog, and Enter twice made the sale.
#[test]
fn what_is_asked_about_is_in_sight_and_is_not_answered_from_a_field() {
    const IN_SIGHT: &str = "const [asks, dialog] = ['ask-problem', 'ask'].map((id) => document.getElementById(id).getBoundingClientRect()); \
        return asks.height > 0 && asks.top >= dialog.top - 1 && asks.bottom <= Math.min(dialog.bottom, innerHeight) + 1";
    let shop = shop();
    let browser = open(&shop);
    for (made, (width, height)) in [(1280, 900), (360, 740)].into_iter().enumerate() {
        browser.resize(width, height);
        ask_for_a_sale(&browser, "0", "5000");
        browser.run("document.querySelector('#field-starts_at_ms').value = '2020-01-01T00:00:00'");
        for time in ["the first time", "again"] {
            browser.run("document.getElementById('field-title').focus()");
            browser.press(ENTER);
            browser.wait_for_text("#ask-problem", "Press again if that is meant.");
            wait_for_focus(&browser, "ask-problem");
            browser.wait_until("the question in sight", |browser| browser.run(IN_SIGHT) == true);
            // Whoever presses it twice.
            browser.press(ENTER);
            assert_eq!(shop.state().presses.len(), made, "{time}, {width}");
            assert_eq!(browser.run("return document.getElementById('ask').open"), true, "{time}, {width}");
        }
        assert_accessible(&browser, "the console whose question has the keyboard");
        browser.click("#ask-do");
        browser.wait_until("it is sent", |_| shop.state().presses.len() == made + 1);
        browser.wait_for_text("#done", "Made.");
    }
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

/// It was 15 minutes, however the server was set.
#[test]
fn a_new_sale_has_the_servers_time_to_pay() {
    let shop = shop();
    let browser = open(&shop);
    ask_for_a_sale(&browser, "2500", "5");
    browser.click("#ask-do");
    browser.wait_for_text("#done", "Made.");
    let presses = shop.state().presses.clone();
    let [(_, body, _)] = &presses[..] else { panic!("{presses:?}") };
    let made: Value = serde_json::from_str(body).unwrap();
    assert_eq!(made["payment_s"], 600);
}

#[test]
fn a_new_sale_says_what_it_will_be_and_its_question_goes_once_the_value_is_right() {
    let shop = shop();
    let browser = open(&shop);
    ask_for_a_sale(&browser, "0", "1");
    browser.wait_for_text("#ask-says", "Times are yours, to the second.");
    browser.click("#ask-do");
    browser.wait_for_text("#ask-problem", "Product 9 costs nothing. Press again if that is meant.");
    // A reason is none of what was asked about.
    browser.type_into("#field-why", "a gift");
    assert_eq!(
        browser.text("#ask-problem"),
        "Product 9 costs nothing. Press again if that is meant.",
        "it stands while nothing of it is changed"
    );
    browser.type_into("#field-price", "2500");
    browser.wait_until("no question", |browser| browser.text("#ask-problem").is_empty());
    browser.wait_for_text("#ask-sum", "Starts in ");
    browser.wait_for_text("#ask-sum", ", lasts 2 h 0 min. 1 unit at 25.00 CHF.");
    browser.type_into("#field-currency", "JPY");
    browser.wait_for_text("#ask-sum", "1 unit at 2500 JPY.");
    // The server's words begin as a sentence does.
    let refusal = json!({ "code": "invalid_sale", "detail": "the sale must end after it starts" });
    shop.state().refusal = Some((422, refusal));
    browser.click("#ask-do");
    browser.wait_for_text("#ask-problem", "The sale must end after it starts");
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[test]
fn an_edit_says_what_it_comes_to_in_the_sales_currency() {
    let shop = shop();
    let now = json!({
        "currency": "CHF", "payment_s": 900,
        "items": [{ "title": "Cap", "description": "", "price": 2_500, "list_price": 2_000, "limit": null }],
    });
    shop.state().answers.insert(format!("/api/v1/sales/{SALE}"), now);
    let browser = open(&shop);
    ask_by(&browser, &format!("#sale-{SALE} button[data-call=edit]"));
    browser.wait_for_text("#ask-sum", "Ends in ");
    browser.click("#ask-no");
    shop.sample(&[
        ("/sales/0/state", json!("not_started")),
        ("/sales/0/starts_at_ms", json!(NOW_MS + 3_600_000)),
        ("/sales/0/ends_at_ms", json!(NOW_MS + 7_200_000)),
    ]);
    browser.wait_for_text(&format!("#sale-{SALE} .state"), "planned");
    ask_by(&browser, &format!("#sale-{SALE} button[data-call=edit]"));
    browser.wait_for_text("#ask-sum", ", lasts 1 h 0 min.");
    browser.click("#ask-no");
    ask_by(&browser, &format!("#sale-{SALE} button[data-item-call=edit]"));
    browser.type_into("#field-price", "4999");
    browser.wait_for_text("#ask-sum", "A unit costs 49.99 CHF.");
    browser.click("#ask-do");
    browser.wait_for_text(
        "#ask-problem",
        "Product 30 costs more than its list price: 49.99 CHF, and 20.00 CHF. Press again",
    );
}

/// Units of a sale that has not begun, or is paused, were said to be on sale at once; of one page two were made.
#[test]
fn what_a_press_reaches_is_said_as_it_is() {
    let shop = shop();
    let browser = open(&shop);
    let restock = |when: &str| {
        ask_by(&browser, "button[data-item-call=restock]");
        browser.wait_for_text("#ask-says", &format!("are on sale {when}."));
        browser.click("#ask-no");
    };
    restock("at once");
    let line = json!({
        "joined": 1, "joins_per_s": null, "waiting": 1, "present": 1, "turns": 0, "in_grace": 0, "called": 0, "ordered": 0,
        "expired": 0, "given_back": 0, "away": 0, "pace": 60, "tail_wait_s": null, "pace_max_per_s": null, "message": "",
        "wait": null, "draw": "none", "reached": 0, "sure_to": 1,
    });
    shop.sample(&[("/sales/0/stock_asked_per_s", json!(0.7)), ("/sales/0/items/0/line", line)]);
    browser.wait_for_text("#sales", "Line: Aurora");
    ask_by(&browser, &format!("#sale-{SALE} button[data-call=pause]"));
    browser.wait_for_text(
        "#ask-says",
        "Now fewer than 10 open pages ask for its stock, 1 person waits in its lines.",
    );
    browser.click("#ask-no");
    shop.sample(&[("/sales/0/state", json!("paused"))]);
    browser.wait_for_text(&format!("#sale-{SALE} .state"), "paused");
    restock("once it is resumed");
    shop.sample(&[
        ("/sales/0/state", json!("not_started")),
        ("/sales/0/starts_at_ms", json!(NOW_MS + 3_600_000)),
    ]);
    browser.wait_for_text(&format!("#sale-{SALE} .state"), "planned");
    restock("once it starts");
}

#[test]
fn whoever_may_change_nothing_sees_no_column_for_it() {
    let (shop, browser) = (shop(), Browser::start());
    browser.open(&shop.url);
    for (role, is_seen) in [("viewer", false), ("support", false), ("operator", true)] {
        shop.state().session = Some(session(role));
        browser.reload();
        browser.wait_for_text("#who", &format!("otto, {role}"));
        browser.wait_for_text("#sales", "Aurora");
        for cell in ["th", "td"] {
            let script = format!("return document.querySelector('#sales {cell}.change').checkVisibility()");
            assert_eq!(browser.run(&script), is_seen, "{role}, {cell}");
        }
    }
}

/// It lay over the charts until something was pressed.
#[test]
fn what_was_said_of_an_action_goes_when_the_page_is_moved() {
    let shop = shop();
    let browser = open(&shop);
    ask_by(&browser, &format!("#sale-{SALE} button[data-call=pause]"));
    browser.click("#ask-do");
    browser.wait_for_text("#done", "Paused.");
    browser.run(
        "const real = Date.now; Date.now = () => real() + 10000; \
         document.body.dispatchEvent(new WheelEvent('wheel', { bubbles: true })); return null",
    );
    assert_eq!(browser.text("#done"), "");
}
