//! The console on a bad night: answers that come late or not at all, and what stands there from before. Over a scripted API.

use std::cell::Cell;

use serde_json::{Value, json};

use super::console::ask_by;
use super::console_answers::{open, press_restock};
use super::fake_console::{FakeConsole, NOW_MS, SALE, TITLE, verdict};
use super::webdriver::Browser;

/// A later form was taken away from under the hands of whoever typed in it.
#[test]
fn a_form_that_comes_late_does_not_take_the_place_of_a_later_one() {
    let shop = FakeConsole::start();
    let browser = open(&shop);
    browser.run(&format!(
        "const real = fetch; \
         const late = {{ ok: true, status: 200, json: async () => ({{ payment_s: 900 }}) }}; \
         window.fetch = (path, how) => String(path).startsWith('/api/v1/sales/{SALE}?') \
           ? new Promise((answer) => {{ window.answer = () => answer(late); }}) : real(path, how); return null"
    ));
    browser.click(&format!("#sale-{SALE} button[data-call=edit]"));
    press_restock(&browser);
    browser.type_into("#field-units", "50");
    // What comes of an answer that is there is done before the next task.
    browser.run_async("window.answer(); setTimeout(done, 0)");
    assert!(browser.text("#ask-title").starts_with("Restock: "), "{}", browser.text("#ask-title"));
    assert_eq!(browser.run("return document.getElementById('field-units').value"), "50");
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

/// The figures' sales: the one that is there, after another with this number and title.
fn after_another(shop: &FakeConsole, id: u64, title: &str) -> Value {
    let first = shop.state().figures["sales"][0].clone();
    let mut other = first.clone();
    (other["id"], other["title"]) = (json!(id), json!(title));
    json!([other, first])
}

/// The sale that was read last was duplicated, whichever the form named.
#[test]
fn the_sale_that_is_duplicated_is_the_one_that_the_form_names() {
    let shop = FakeConsole::start();
    let sale = |product: u64| {
        let item = json!({
            "product": product, "title": "A cap", "description": "", "price": 1, "list_price": 1, "total": 5, "limit": null,
            "image": null, "line": null,
        });
        json!({ "currency": "CHF", "payment_s": null, "items": [item], "items_next_cursor": null })
    };
    shop.state().answers.insert("/api/v1/sales/4".to_owned(), sale(44));
    let listed = json!({ "sales": [], "next_cursor": null, "next_id": 9 });
    shop.state().answers.insert("/api/v1/sales".to_owned(), listed);
    shop.sample(&[("/sales", after_another(&shop, 4, "Matinee"))]);
    let browser = open(&shop);
    browser.run(&format!(
        "const real = fetch; \
         const late = {{ ok: true, status: 200, json: async () => ({}) }}; \
         window.fetch = (path, how) => String(path).startsWith('/api/v1/sales/{SALE}?') \
           ? new Promise((answer) => {{ window.answer = () => answer(late); }}) : real(path, how); return null",
        sale(33)
    ));
    browser.click(&format!("#sale-{SALE} button[data-call=duplicate]"));
    browser.click("#sale-4 button[data-call=duplicate]");
    browser.wait_for_text("#ask-title", "Duplicate: Matinee");
    browser.run_async("window.answer(); setTimeout(done, 0)");
    browser.click("#ask-do");
    browser.wait_for_text("#done", "Made.");
    let presses = shop.state().presses.clone();
    let [(_, body, _)] = &presses[..] else { panic!("{presses:?}") };
    let made: Value = serde_json::from_str(body).unwrap();
    assert_eq!((&made["title"], &made["items"][0]["product"]), (&json!("Matinee"), &json!(44)));
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

/// The question why there is no stream waited for its answer for ever, and the page said that it asks again.
#[test]
fn a_server_that_does_not_say_why_there_is_no_stream_is_asked_again() {
    let shop = FakeConsole::start();
    let browser = open(&shop);
    // Streams end at once without a word, and the same call without a stream has no answer.
    browser.run(
        "const real = fetch; window.asked = 0; window.Stream = EventSource; \
         window.EventSource = function () { const stream = { close() {} }; setTimeout(() => stream.onerror?.(), 0); return stream; }; \
         AbortSignal.timeout = () => { const abort = new AbortController(); setTimeout(() => abort.abort(), 2000); return abort.signal; }; \
         window.fetch = (path, how) => { \
           if (path !== '/api/v1/figures/events') return real(path, how); \
           window.asked += 1; \
           return new Promise((_, fail) => how.signal.addEventListener('abort', () => fail(new Error('No answer.')))); \
         }; return null",
    );
    shop.end_streams();
    browser.wait_until("it is asked twice", |browser| {
        browser.run("return window.asked").as_u64().is_some_and(|asked| asked >= 2)
    });
    let streams = shop.state().streams;
    browser.run("window.EventSource = window.Stream; return null");
    browser.wait_until("there is one again", |_| shop.state().streams > streams);
}

/// Each other verdict put the reading off, so one that came and went each second left the list as it was.
#[test]
fn incidents_are_read_while_the_verdict_comes_and_goes() {
    let shop = FakeConsole::start();
    let browser = open(&shop);
    browser.wait_for_text("#incidents-say", "None in the last 3 days.");
    shop.state().history["incidents"] = json!([
        { "began_ms": NOW_MS - 60_000, "ended_ms": null, "level": "amber", "code": "busy", "says": "Busy now." },
    ]);
    let is_amber = Cell::new(false);
    browser.wait_until("the incident", |browser| {
        is_amber.set(!is_amber.get());
        let level = if is_amber.get() { "amber" } else { "red" };
        shop.sample(&[("/verdict", verdict(level, "Busy.", "Wait."))]);
        browser.text("#incidents").contains("Busy now.")
    });
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

/// The one before stood there, under the age of the answer that there is none.
#[test]
fn a_server_that_was_started_anew_has_no_rehearsal_of_before() {
    let shop = FakeConsole::start();
    let rehearsal = |answer: Value| {
        shop.state().answers.insert("/api/v1/rehearsal".to_owned(), answer);
    };
    rehearsal(json!({
        "state": "playing", "sale": SALE, "title": "Opening", "buyers": 1, "over_s": 10, "by": "otto", "began_at_ms": NOW_MS,
        "progress": "Half of them came.", "report": null,
    }));
    let browser = open(&shop);
    browser.wait_for_text("#rehearsal-says", "Half of them came.");
    rehearsal(json!({ "state": "none", "elsewhere": "Another one is under way." }));
    browser.wait_for_text("#rehearsal-elsewhere", "Another one is under way.");
    assert_eq!(
        (browser.text("#rehearsal-about"), browser.text("#rehearsal-says")),
        (String::new(), String::new())
    );
    assert_eq!(browser.run("return document.getElementById('rehearsal-stop').hidden"), true);
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

/// The first one's were left under the name of the second.
#[test]
fn who_tries_most_for_one_item_does_not_stand_under_another() {
    let shop = FakeConsole::start();
    let buyer = json!({
        "who": "buyer 7", "attempts": 1, "missed_max": 0, "accepted": 1, "replayed": 0, "refused_closed": 0, "refused_stock": 0,
        "refused_limit": 0, "refused_invalid": 0, "busy": 0, "unknown": 0,
    });
    let tried =
        json!({ "servers": 1, "servers_missing": 0, "minute": { "buyers": [buyer], "addresses": [] } });
    shop.state().answers.insert(format!("/api/v1/sales/{SALE}/items/30/attempts"), tried);
    let item = shop.state().figures["sales"][0]["items"][0].clone();
    let mut other = item.clone();
    (other["product"], other["title"]) = (json!(31), json!("A cap"));
    shop.sample(&[("/sales/0/items", json!([item, other])), ("/sales/0/items_total", json!(2))]);
    let browser = open(&shop);
    browser.click("#attempts-open summary");
    browser.wait_for_text("#attempts-tables", "buyer 7");
    browser.run(&format!(
        "const of = document.getElementById('attempts-of'); of.value = '{SALE}/items/31'; \
         of.dispatchEvent(new Event('change')); return null"
    ));
    browser.wait_for_text("#attempts-problem", "There is none.");
    assert_eq!(browser.text("#attempts-tables"), "");
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

/// Where the keyboard is: the sale and the button.
fn focus(browser: &Browser) -> Value {
    browser.run(
        "const now = document.activeElement; return [now.closest('article')?.id ?? null, now.textContent]",
    )
}

/// All sales were taken out of the page and put in again, and the keyboard began at the top.
#[test]
fn the_keyboard_stays_at_its_button_when_sales_come_and_change() {
    let shop = FakeConsole::start();
    let browser = open(&shop);
    browser
        .run(&format!("document.querySelector('#sale-{SALE} button[data-call=pause]').focus(); return null"));
    let own = json!([format!("sale-{SALE}"), "Pause"]);
    assert_eq!(focus(&browser), own);
    shop.sample(&[("/sales", after_another(&shop, 4, "Matinee"))]);
    browser.wait_for_text("#sale-4 h3", "Matinee");
    assert_eq!(focus(&browser), own);
    // One that has another title is made anew.
    shop.sample(&[("/sales/1/title", json!("Closing night"))]);
    browser.wait_for_text(&format!("#sale-{SALE} h3"), "Closing night");
    assert_eq!(focus(&browser), own);
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

/// It looked as if none were chosen, and the chart was of it all the same.
#[test]
fn the_item_that_the_chart_shows_is_pressed_also_when_its_sale_is_made_anew() {
    let shop = FakeConsole::start();
    let browser = open(&shop);
    let item = format!("#item-{SALE}-30");
    let is_pressed = || browser.attribute(&item, "aria-pressed");
    assert_eq!(is_pressed().as_deref(), Some("true"));
    shop.sample(&[("/sales/0/title", json!("Closing night"))]);
    browser.wait_for_text(&format!("#sale-{SALE} h3"), "Closing night");
    assert_eq!(is_pressed().as_deref(), Some("true"));
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

/// Whichever answer came last was shown, as of when it came.
#[test]
fn an_older_answer_of_the_operators_log_does_not_take_the_place_of_a_newer_one() {
    let shop = FakeConsole::start();
    let browser = open(&shop);
    browser.run(
        "const real = fetch; window.answers = []; \
         window.fetch = (path, how) => String(path).startsWith('/api/v1/operators/log') \
           ? new Promise((answer) => window.answers.push(answer)) : real(path, how); return null",
    );
    let event = |number: u64| {
        let says = format!("Event {number}.");
        json!([{ "at_ms": NOW_MS + number, "kind": "sale_opened", "says": says, "sale": SALE, "product": null }])
    };
    for number in [1, 2] {
        shop.sample(&[("/events", event(number))]);
        browser.wait_until("it is asked", |browser| {
            browser.run("return window.answers.length").as_u64() >= Some(number)
        });
    }
    // The second first.
    for (at, who) in [(1, "vera"), (0, "otto")] {
        let action = json!({ "at_ms": NOW_MS, "who": who, "what": "sale_paused", "sale": null, "about": "", "why": "" });
        browser.run_async(&format!(
            "window.answers[{at}]({{ ok: true, status: 200, json: async () => ({{ log: [{action}] }}) }}); setTimeout(done, 0)"
        ));
        shop.sample(&[("/server", json!(who))]);
        browser.wait_for_text("#server", who);
        let events = browser.text("#events");
        assert!(events.contains("vera: sale paused") && !events.contains("otto"), "{events}");
    }
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

/// From now on what a node says, for whoever hears the page, is noted in `heard`.
fn hear(browser: &Browser, id: &str) {
    browser.run(&format!(
        "const node = document.getElementById('{id}'); window.heard = []; window.hearing?.disconnect(); \
         window.hearing = new MutationObserver(() => window.heard.push(node.textContent)); \
         window.hearing.observe(node, {{ childList: true, characterData: true, subtree: true }}); return null"
    ));
}

/// What has been heard once the page has drawn another sample, by another server.
fn heard_until(browser: &Browser, shop: &FakeConsole, server: &str, changes: &[(&str, Value)]) -> Value {
    let next = [("/server", json!(server))];
    let changes: Vec<_> = changes.iter().cloned().chain(next).collect();
    shop.sample(&changes);
    browser.wait_for_text("#server", server);
    browser.run("return window.heard")
}

/// It said what was so when it was opened: the sale might have sold out, or ended, meanwhile.
#[test]
fn what_an_open_dialog_says_follows_the_figures_and_is_heard_where_it_means_something_else() {
    let shop = FakeConsole::start();
    let browser = open(&shop);
    // Figures that are old are another matter.
    browser.run(
        "const [now, time] = [performance.now(), Date.now()]; performance.now = () => now; Date.now = () => time; return null",
    );
    shop.sample(&[("/server", json!("still:80"))]);
    browser.wait_for_text("#server", "still:80");
    press_restock(&browser);
    browser.type_into("#field-units", "50");
    browser.wait_for_text("#ask-sum", "Adds 50 to 120: 170 in all, 90 of them left.");
    hear(&browser, "ask-new");
    let heard = heard_until(&browser, &shop, "two:80", &[("/sales/0/items/0/available", json!(30))]);
    assert_eq!(browser.text("#ask-sum"), "Adds 50 to 120: 170 in all, 80 of them left.");
    assert!(browser.text("#ask-says").ends_with("30 of 120 are left now."), "{}", browser.text("#ask-says"));
    assert_eq!(heard, json!([]));
    browser.click("#ask-no");

    ask_by(&browser, "button[data-call=end]");
    browser.wait_for_text("#ask-says", "with 40 units left. Its 60 held units can still be paid.");
    browser.type_into("#typed", "Opening");
    browser.type_into("#field-why", "too few");
    hear(&browser, "ask-new");
    let there = || {
        browser.run(
            "return [document.activeElement.id, document.getElementById('typed').value, document.getElementById('field-why').value]",
        )
    };
    let typed = json!(["field-why", "Opening", "too few"]);
    let fewer = [
        ("/sales/0/units/available", json!(12)),
        ("/sales/0/units/held", json!(88)),
        ("/sales/0/stock_asked_per_s", json!(3_000.0)),
    ];
    let heard = heard_until(&browser, &shop, "three:80", &fewer);
    let says = browser.text("#ask-says");
    assert!(says.contains("with 12 units left. Its 88 held units can still be paid."), "{says}");
    assert!(says.contains("Now about 4,500 open pages ask for its stock."), "{says}");
    assert_eq!((heard, there()), (json!([]), typed.clone()));
    let ended = format!("“{TITLE}” is ended now: this is not offered any more.");
    let heard = heard_until(&browser, &shop, "four:80", &[("/sales/0/state", json!("ended"))]);
    assert_eq!((browser.text("#ask-says"), heard), (ended.clone(), json!([ended])));
    let heard = heard_until(&browser, &shop, "five:80", &[("/sales/0/units/held", json!(80))]);
    assert_eq!((heard, there()), (json!([ended]), typed));
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

/// The head said "live" above figures of before.
#[test]
fn a_page_that_fails_to_show_figures_says_so_until_it_shows_some() {
    let shop = FakeConsole::start();
    shop.state().repeats = true;
    let browser = open(&shop);
    let engines = shop.state().figures["health"]["engines"].clone();
    shop.sample(&[("/health/engines", Value::Null)]);
    browser.wait_for_text("#age", "this page failed to show figures: reload");
    assert_eq!(browser.text("#says"), "This page failed to show figures.");
    assert_eq!(browser.text("#level"), "UNKNOWN");
    let complaints = browser.complaints();
    assert!(complaints.iter().any(|complaint| complaint.contains("TypeError")), "{complaints:?}");
    hear(&browser, "announced");
    let heard = heard_until(&browser, &shop, "two:80", &[]);
    assert_eq!(heard, json!([]), "it is said once");
    assert!(!browser.text("#age").contains("live"));
    shop.sample(&[("/health/engines", engines)]);
    browser.wait_for_text("#age", "live");
    browser.wait_for_text("#level", "GREEN");
}
