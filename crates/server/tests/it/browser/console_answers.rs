//! The console, and what it is answered: late, again, by half of the servers, or not at all. Over a scripted API.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::axe::assert_accessible;
use super::console::wait_until_old;
use super::fake_console::{FakeConsole, NOW_MS, SALE, TITLE, history, no_session, server, session, verdict};
use super::webdriver::{Browser, ENTER, TAB};

/// The time in seconds that is written after these words, as in "2 min 3 s"; `None` without them.
pub(crate) fn seconds_after(text: &str, words: &str) -> Option<u64> {
    let (_, duration) = text.split_once(words)?;
    let (mut seconds, mut parts) = (0, duration.split(' '));
    while let Some(number) = parts.next().and_then(|part| part.parse::<u64>().ok()) {
        let unit_s = match parts.next() {
            Some("h") => 3_600,
            Some("min") => 60,
            _ => 1,
        };
        seconds += number * unit_s;
    }
    Some(seconds)
}

/// The names of all buttons that can be pressed.
const BUTTONS: &str = "return [...document.querySelectorAll('button')].filter((button) => button.checkVisibility()).map((button) => button.textContent)";

pub(crate) fn open(shop: &FakeConsole) -> Browser {
    let browser = Browser::start();
    browser.open(&shop.url);
    wait_for_figures(&browser);
    browser
}

/// They may be old by the time that a busy machine looks.
pub(crate) fn wait_for_figures(browser: &Browser) {
    browser.wait_until("figures", |browser| {
        let age = browser.text("#age");
        age.contains("live") || age.contains("figures ")
    });
}

pub(crate) fn press_restock(browser: &Browser) {
    browser.click("button[data-item-call=restock]");
    browser
        .wait_until("it asks", |browser| browser.run("return document.getElementById('ask').open") == true);
}

/// What a machine's other clock leaves out: a notebook was closed.
#[test]
fn figures_grow_older_while_the_machine_sleeps() {
    let shop = FakeConsole::start();
    shop.sample(&[]);
    let browser = Browser::start();
    browser.open(&shop.url);
    wait_for_figures(&browser);
    // What it says of them is noted, for it asks for new ones at once.
    browser.run(
        "const [real, age, noted] = [Date.now, document.getElementById('age'), (window.noted = [])]; \
         new MutationObserver(() => noted.push(age.textContent)).observe(age, { childList: true, characterData: true, subtree: true }); \
         Date.now = () => real() + 7200000; return null",
    );
    browser.wait_until("they are two hours old", |browser| {
        browser.run("return window.noted.some((said) => said.startsWith('figures 2 h'))") == true
    });
}

#[test]
fn a_sample_that_is_old_or_was_seen_before_is_not_of_now() {
    let shop = FakeConsole::start();
    let taken_at = Instant::now().checked_sub(Duration::from_secs(75)).unwrap();
    shop.sample_taken(Some(taken_at), &[]);
    let browser = Browser::start();
    browser.open(&shop.url);
    browser.wait_for_text("#age", "figures 1 min ");
    let says = browser.text("#says");
    assert!(browser.text("#level") == "UNKNOWN" && says.starts_with("No figures since "), "{says}");
    shop.state().repeats = true;
    shop.sample(&[]);
    browser.wait_for_text("#age", "live");
    browser.wait_for_text("#level", "GREEN");
    shop.state().repeats = false;
    // Whatever a stalled server says of their age, the same figures are as old as when they were seen first.
    shop.state().streams_end_at_once = true;
    shop.end_streams();
    wait_until_old(&browser, 8);
    shop.state().streams_end_at_once = false;
    assert!(shop.state().streams > 4, "it asked again and again");
    assert_accessible(&browser, "the console of a server that is stalled");
    shop.state().repeats = true;
    shop.sample(&[]);
    browser.wait_for_text("#age", "live");
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

/// The head had a clock that ran on, and "live" beside it, for three seconds after the server was gone.
#[test]
fn the_time_at_the_head_is_the_figures_own_and_they_grow_old_before_the_eye() {
    let shop = FakeConsole::start();
    let browser = open(&shop);
    browser.run(
        "const node = document.getElementById('age'); window.said = []; const note = () => window.said.push(node.textContent); \
         new MutationObserver(note).observe(node, { childList: true, characterData: true, subtree: true }); note()",
    );
    // Its clock stands, as that of a frozen server does.
    shop.sample(&[]);
    wait_until_old(&browser, 4);
    let time = browser.run(&format!("return new Date({NOW_MS}).toLocaleTimeString('en-GB')"));
    let time = time.as_str().expect("it is text");
    let said = browser.run("return window.said");
    let said: Vec<_> = said.as_array().unwrap().iter().filter_map(Value::as_str).collect();
    assert!(said.iter().all(|said| said.contains(time)), "{time}: {said:?}");
    let live = [0, 1].map(|seconds| format!("live: figures of {time}, {seconds} s ago"));
    let old = [2, 3, 4].map(|seconds| format!("figures {seconds} s old, of {time}"));
    for expected in live.iter().chain(&old) {
        assert!(said.contains(&expected.as_str()), "{expected}: {said:?}");
    }
}

#[test]
fn a_server_of_the_sum_that_is_behind_is_named_with_its_age() {
    let shop = FakeConsole::start();
    let browser = open(&shop);
    // On a busy machine they are two seconds old before the page is seen.
    shop.state().repeats = true;
    browser.wait_until("figures of now", |browser| !browser.text("#age").contains("old"));
    shop.state().repeats = false;
    shop.sample(&[("/servers/1", server("two:80", 7_400))]);
    browser.wait_for_text("#age", ", two:80 ");
    browser.wait_for_text("#health", "1 of 2");
    browser.wait_for_text("#health", "one:80 3.5/s; two:80 silent for 7 s");
    // It stood at 7 s while all others grew older.
    wait_until_old(&browser, 4);
    assert!(seconds_after(&browser.text("#age"), ", two:80 ") >= Some(11), "{}", browser.text("#age"));
    shop.sample(&[("/servers/1", server("two:80", 100))]);
    browser.wait_until("it is there again", |browser| !browser.text("#age").contains("two:80"));
}

#[test]
fn the_line_above_all_is_green_amber_or_red_in_words_and_titles_are_text() {
    let shop = FakeConsole::start();
    let browser = open(&shop);
    browser.wait_for_text("#says", "“Opening <b>night</b>” is selling at 7 orders/s");
    browser.wait_for_text("#events", "“Opening <b>night</b>” has started.");
    browser.wait_for_text(&format!("#sale-{SALE} h3"), TITLE);
    for (level, says, action, code) in [
        ("green", "Ready.", "Nothing to do.", ""),
        ("amber", "One commit in a hundred took 501 ms.", "Press `Ctrl-C` <i>now</i>.", "Ctrl-C"),
        ("red", "The ledger takes no writes.", "Make room.", ""),
    ] {
        shop.sample(&[("/verdict", verdict(level, says, action))]);
        browser.wait_for_text("#says", says);
        assert_eq!(browser.text("#level"), level.to_uppercase());
        assert_eq!(browser.attribute("#verdict", "data-level").as_deref(), Some(level));
        assert_eq!(browser.text("#do"), action.replace('`', ""));
        assert_eq!(browser.text("#do code"), code);
        let title = format!("{}: {says}", level.to_uppercase());
        browser
            .wait_until("the tab's name", |browser| browser.run("return document.title") == title.as_str());
        for dark in [false, true] {
            browser.darken(dark);
            assert_accessible(&browser, &format!("the console when it is {level}, dark: {dark}"));
        }
    }
    browser.click("button[data-call=end]");
    browser.wait_for_text("#ask-says", "“Opening <b>night</b>” ends for good, ");
    browser.wait_for_text("#ask-says", "Now about 4,213 open pages ask for its stock.");
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

/// Whoever had scrolled past the head did not see how old the rest was.
#[test]
fn what_stands_under_a_heading_has_its_age_beside_it() {
    let shop = FakeConsole::start();
    let tried = json!({ "servers": 1, "servers_missing": 0, "minute": { "buyers": [], "addresses": [] } });
    let playing = json!({
        "state": "playing", "sale": SALE, "title": TITLE, "buyers": 1, "over_s": 10, "by": "otto", "began_at_ms": NOW_MS,
        "progress": "", "report": null,
    });
    shop.state().answers.insert(format!("/api/v1/sales/{SALE}/items/30/attempts"), tried);
    shop.state().answers.insert("/api/v1/rehearsal".to_owned(), playing);
    let browser = open(&shop);
    browser.click("#attempts-open summary");
    let age_s = |of: &str| {
        let text = browser.text(&format!("#{of} + small"));
        let words: Vec<_> = text.strip_prefix("as of ").unwrap_or("").split(' ').collect();
        let [number, unit, ..] = words[..] else { panic!("{text}") };
        number.parse::<u64>().unwrap() * if unit == "s" { 1 } else { 60 }
    };
    let of_figures = ["now-title", "sales-title", "health-title", "events-title", "over-time"];
    for of in of_figures.into_iter().chain(["incidents-title", "rehearsal-title", "attempts-title"]) {
        browser.wait_for_text(&format!("#{of} + small"), "as of ");
    }
    wait_until_old(&browser, 4);
    for of in of_figures {
        browser.wait_until("it is as old as the figures", |_| age_s(of) >= 4);
    }
    // What is asked for by itself is as old as its own answer.
    browser.wait_until("it was asked for again", |_| age_s("rehearsal-title") < 4);
    // Of a cluster some of it is older than the rest.
    shop.sample(&[("/health/units_age_ms", json!(7_400))]);
    browser.wait_for_text("#sales-title + small", "; held and sold, ");
    wait_until_old(&browser, 4);
    let says = browser.text("#sales-title + small");
    assert!(seconds_after(&says, "held and sold, ") >= Some(11), "it grows older with the rest: {says}");
    assert_accessible(&browser, "the console with its ages");
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

/// Pixels of a chart in the colour of a name.
pub(crate) const DRAWN: &str = "const [chart, name] = ASKED; \
    const probe = document.body.appendChild(document.createElement('i')); \
    probe.style.color = `var(${name})`; \
    const wanted = getComputedStyle(probe).color.match(/[0-9]+/g).map(Number); \
    probe.remove(); \
    const canvas = document.querySelector(`${chart} canvas`); \
    const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height); \
    let found = 0; \
    for (let at = 0; at < data.length; at += 4) if (data[at + 3] > 0 && wanted.every((part, of) => data[at + of] === part)) found += 1; \
    return found";

/// A sale that was over within a second has one point, and a line needs two.
#[test]
fn the_times_of_a_single_second_are_drawn() {
    let shop = FakeConsole::start();
    let mut history = history(1_000, 0..60);
    for (number, row) in history["rows"].as_array_mut().unwrap().iter_mut().enumerate() {
        if number != 30 {
            (row[5], row[6]) = (Value::Null, Value::Null);
        }
    }
    shop.state().history = history;
    shop.sample(&[("/order_route", Value::Null)]);
    let browser = open(&shop);
    browser.wait_until("the point", |browser| {
        let script = DRAWN.replace("ASKED", "['#times-chart', '--red']");
        browser.run(&script).as_u64().is_some_and(|pixels| pixels > 0)
    });
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

/// Sums of half the servers were drawn as if they were of all.
#[test]
fn times_in_which_not_every_server_was_heard_are_shaded() {
    let shop = FakeConsole::start();
    let mut partial = history(1_000, 0..60);
    let column =
        |name| partial["columns"].as_array().unwrap().iter().position(|column| column == name).unwrap();
    let heard = column("servers_heard");
    partial["rows"].as_array_mut().unwrap()[30][heard] = json!(1);
    shop.state().history = partial;
    let browser = open(&shop);
    let shaded = |browser: &Browser| {
        ["#rates-chart", "#times-chart", "#units-chart"].map(|chart| {
            let script = DRAWN.replace("ASKED", &format!("['{chart}', '--amber-ground']"));
            browser.run(&script).as_u64().unwrap() > 0
        })
    };
    browser.wait_for_text(
        "#history-says",
        "Shaded: not every server was heard, and what the others did then is missing.",
    );
    browser.wait_until("the shades", |browser| shaded(browser)[..2] == [true, true]);
    assert!(!shaded(&browser)[2], "units are the ledger's");
    // All of it is of before what is shown, and then one is silent.
    shop.state().history = history(1_000, 0..60);
    shop.sample(&[("/at_ms", json!(NOW_MS + 400_000))]);
    browser.wait_until("nothing is left of it", |browser| browser.text("#history-says").is_empty());
    // What this page has missed it reads anew meanwhile, and then the silent one is in that.
    let mut silent = history(1_000, 0..1);
    (silent["rows"][0][0], silent["rows"][0][heard]) = (json!(NOW_MS + 401_000), json!(1));
    shop.state().history = silent;
    shop.sample(&[("/at_ms", json!(NOW_MS + 401_000)), ("/servers/1", server("two:80", 5_000))]);
    browser.wait_for_text("#history-says", "Shaded: not every server was heard");
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

/// A new sale was in EUR whatever the others are in.
#[test]
fn a_new_sale_is_in_the_currency_of_the_others() {
    let shop = FakeConsole::start();
    shop.state()
        .answers
        .insert("/api/v1/sales".to_owned(), json!({ "sales": [], "next_cursor": null, "next_id": 4 }));
    let browser = open(&shop);
    browser.click("#new-sale");
    browser.wait_until("the field", |browser| {
        browser.run("return document.getElementById('field-currency')?.value") == "CHF"
    });
}

/// Numbers of an older ledger, which this page would read as those of others.
#[test]
fn a_sale_with_a_number_that_is_rounded_is_not_duplicated() {
    let shop = FakeConsole::start();
    let path = format!("/api/v1/sales/{SALE}");
    let sale = |product: u64| json!({ "items": [{ "product": product }], "items_next_cursor": null });
    shop.state().answers.insert(path, sale((1 << 53) + 1));
    let browser = open(&shop);
    browser.click(&format!("#sale-{SALE} button[data-call=duplicate]"));
    browser.wait_for_text("#done", "which this page would round");
    assert_eq!(browser.run("return document.getElementById('ask').open"), false);
}

/// A console was back up to nine seconds after its server.
#[test]
fn a_server_that_is_away_is_asked_every_few_seconds_not_by_all_at_once() {
    let shop = FakeConsole::start();
    let browser = open(&shop);
    // What a promise waits for, a hundred times as fast.
    browser.run(
        "const real = setTimeout; window.waits = []; window.setTimeout = (done, ms, ...more) => { \
         const waits = String(done).includes('[native code]'); \
         if (waits) window.waits.push(ms); \
         return real(done, waits ? ms / 100 : ms, ...more); }; return null",
    );
    shop.state().session = None;
    shop.state().streams_end_at_once = true;
    shop.end_streams();
    let waits = || browser.run("return window.waits");
    let count = |waits: &Value| waits.as_array().unwrap().iter().filter(|ms| **ms != 0).count();
    browser.wait_until("ten tries", |_| count(&waits()) >= 10);
    let waits: Vec<f64> = waits().as_array().unwrap().iter().filter_map(Value::as_f64).collect();
    assert!(waits.iter().all(|ms| *ms <= 3_750.0), "{waits:?}");
    assert!(waits.windows(3).any(|of| of[0] != of[1] && of[1] != of[2]), "jittered: {waits:?}");
}

#[test]
fn sums_are_of_all_sales_and_it_says_how_many_are_not_shown() {
    let shop = FakeConsole::start();
    let browser = open(&shop);
    let says = "return document.getElementById('more-sales').checkVisibility()";
    assert_eq!(browser.run(says), false);
    let units = json!({ "total": 4_000, "available": 3_210, "held": 60, "sold": 730 });
    shop.sample(&[("/sales_total", json!(1_235)), ("/open", json!({ "sales": 30, "units": units }))]);
    browser.wait_for_text("#tiles", "3,210");
    browser.wait_for_text("#more-sales", "1,234 more are not shown here.");
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[test]
fn of_an_item_it_says_what_was_not_accepted_and_how_long_it_took() {
    let shop = FakeConsole::start();
    let browser = open(&shop);
    let row = format!("#sale-{SALE} tbody tr");
    browser.wait_for_text(&row, "1.0 refused/s (limit 1.0)");
    let of = |name: &str| format!("/sales/0/items/0/{name}");
    shop.sample(&[
        (&of("rates/busy"), json!(3.5)),
        (&of("rates/unknown"), json!(12)),
        (&of("refused_by_code"), json!({ "limit": 0.2, "sold_out": 0.8 })),
        (&of("order_route"), json!({ "count": 8, "p50_ms": 1.5, "p99_ms": 240.0 })),
        (&of("sold_out_at_ms"), json!(1_780_000_000_000_u64)),
    ]);
    let says = "1.0 refused/s (sold out 0.8, limit 0.2) · 3.5 busy/s · 12 unknown/s · p50 1.5 ms, p99 240 ms";
    browser.wait_for_text(&format!("{row} .does"), says);
    browser.wait_until("the moment of sell-out", |browser| browser.text(&row).contains(':'));
    browser.resize(360, 800);
    assert_accessible(&browser, "the console of an item in trouble");
    shop.sample(&[
        (&of("rates"), Value::Null),
        (&of("refused_by_code"), Value::Null),
        (&of("order_route"), Value::Null),
    ]);
    browser.wait_until("not known", |browser| browser.text(&format!("{row} .does")).is_empty());
}

#[test]
fn a_press_without_an_answer_is_unknown_and_is_sent_again_as_the_same() {
    let shop = FakeConsole::start();
    let browser = open(&shop);
    shop.state().silent = true;
    press_restock(&browser);
    browser.type_into("#field-units", "50");
    browser.wait_for_text("#ask-sum", "Adds 50 to 120: 170 in all, 90 of them left.");
    browser.click("#ask-do");
    browser.wait_for_text("#ask-problem", "it is not known whether it was done");
    assert_accessible(&browser, "the console that does not know");
    browser.click("#ask-no");
    // Whoever signs in next in this tab finds nothing of it.
    shop.state().session.as_mut().unwrap()["operator"] = json!("vera");
    browser.reload();
    browser.wait_for_text("#who", "vera");
    press_restock(&browser);
    assert_eq!(browser.text("#ask-problem"), "");
    browser.click("#ask-no");
    // Neither closing the dialog nor reading the page anew makes another press of it.
    shop.state().session = Some(session("admin"));
    browser.reload();
    wait_for_figures(&browser);
    shop.state().silent = false;
    press_restock(&browser);
    browser.wait_for_text("#ask-problem", "it is not known whether it was done");
    assert_eq!(browser.run("return document.getElementById('field-units').value"), "50");
    // What has another form is answered that the first was done.
    shop.state().refusal = Some((409, json!({ "code": "key_conflict", "detail": "It was used." })));
    browser.type_into("#field-units", "60");
    browser.click("#ask-do");
    browser.wait_for_text("#ask-problem", "An earlier press was done, with other values");
    shop.state().refusal = Some((503, json!({ "code": "outcome_unknown", "detail": "Ask again." })));
    browser.click("#ask-do");
    browser.wait_for_text("#ask-problem", "it is not known whether it was done");
    shop.state().refusal = None;
    browser.click("#ask-do");
    browser.wait_for_text("#done", "Restocked.");
    press_restock(&browser);
    assert_eq!(browser.text("#ask-problem"), "");
    browser.type_into("#field-units", "1");
    browser.click("#ask-do");
    browser.wait_until("all presses", |_| shop.state().presses.len() == 5);
    let presses = shop.state().presses.clone();
    let keys: Vec<_> = presses.iter().map(|(key, ..)| key).collect();
    assert!(keys[0] == keys[1] && keys[2] == keys[3], "{presses:?}");
    assert!(keys[1] != keys[2] && keys[3] != keys[4], "{presses:?}");
}

/// The button was disabled for as long as nobody answered, and the focus was at the page's beginning then.
#[test]
fn the_focus_stays_on_the_button_whose_press_nobody_answers() {
    let shop = FakeConsole::start();
    let browser = open(&shop);
    shop.state().silent = true;
    press_restock(&browser);
    browser.type_into("#field-units", "50");
    let focus = |browser: &Browser| browser.run("return document.activeElement.id");
    // To the one field after it, and to the button.
    browser.press(&format!("{TAB}{TAB}"));
    assert_eq!(focus(&browser), "ask-do");
    // Enter, and again before there is an answer.
    browser.press(&format!("{ENTER}{ENTER}"));
    browser.wait_until("it is sent", |_| !shop.state().presses.is_empty());
    assert_eq!(browser.attribute("#ask-do", "aria-disabled").as_deref(), Some("true"));
    assert_accessible(&browser, "the console that waits for an answer");
    browser.wait_for_text("#ask-problem", "No answer came");
    assert_eq!(focus(&browser), "ask-do");
    assert_eq!(shop.state().presses.len(), 1, "what waits for its answer is not sent again");
    shop.state().silent = false;
    browser.press(ENTER);
    browser.wait_for_text("#done", "Restocked.");
    assert_eq!(shop.state().presses.len(), 2);
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[test]
fn a_history_that_is_busy_is_asked_for_again() {
    let shop = FakeConsole::start();
    shop.state().history_busy = 3;
    let browser = open(&shop);
    browser.wait_for_text("#history-says", "History busy, asking again.");
    browser.wait_until("it came", |browser| browser.text("#history-says").is_empty());
    assert_eq!(shop.state().history_busy, 0);
}

#[test]
fn the_latest_times_in_which_it_was_not_green_are_shown() {
    let shop = FakeConsole::start();
    let browser = Browser::start();
    let incident = |minute: u64, ended_ms: Option<u64>| {
        let began_ms = NOW_MS - 3_600_000 + minute * 60_000;
        json!({ "began_ms": began_ms, "ended_ms": ended_ms.map(|ms| began_ms + ms), "level": "amber", "code": "busy", "says": format!("Busy <b>{minute}</b>.") })
    };
    let show = |incidents: &[Value]| shop.state().history["incidents"] = incidents.into();
    browser.open(&shop.url);
    browser.wait_for_text("#incidents-say", "None in the last 3 days.");
    let mut incidents: Vec<_> = (1..=12).map(|minute| incident(minute, Some(5_000))).collect();
    show(&incidents);
    // Another verdict; one that goes on is shown as such.
    shop.sample(&[("/verdict", verdict("amber", "Busy.", "Wait."))]);
    browser.wait_for_text("#incidents", "Busy <b>12</b>.");
    let lines = || {
        browser
            .run("return [...document.querySelectorAll('#incidents span')].map((line) => line.textContent)")
    };
    let shown = lines();
    let shown: Vec<_> = shown.as_array().unwrap().iter().map(|line| line.as_str().unwrap()).collect();
    assert!(
        shown[0].starts_with("amber, until ") && shown[0].ends_with(", 5 s: Busy <b>12</b>."),
        "{shown:?}"
    );
    assert!(shown.len() == 10 && shown[9].contains(">3<"), "{shown:?}");
    assert_accessible(&browser, "the console after incidents");
    incidents.push(incident(13, None));
    show(&incidents);
    shop.sample(&[("/verdict", verdict("red", "Away.", "Look."))]);
    browser.wait_for_text("#incidents", "amber, goes on: Busy <b>13</b>.");
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[test]
fn nothing_can_be_pressed_before_it_is_known_who_acts_nor_seen_once_nobody_does() {
    let shop = FakeConsole::start();
    shop.state().session = None;
    let browser = Browser::start();
    browser.open(&shop.url);
    browser.wait_for_text("#away", "The server can't be reached.");
    assert_eq!(browser.run(BUTTONS), json!(["Try again"]));
    assert_accessible(&browser, "the console that reaches nobody");
    shop.state().session = Some(session("viewer"));
    // The page asks again by itself as well, and hides the button once it was answered.
    browser.run("document.getElementById('try-again').click()");
    wait_for_figures(&browser);
    browser.wait_for_text("#who", "otto, viewer");
    assert_eq!(browser.text("#away"), "");
    let names = browser.run(BUTTONS);
    assert!(!names.to_string().contains("Pause") && !names.to_string().contains("Find"), "{names}");
    // Even if the stream began, and who acts were not known.
    browser.run("delete document.body.dataset.role");
    let names = browser.run(BUTTONS);
    assert!(!names.to_string().contains("Pause") && !names.to_string().contains("New sale"), "{names}");

    let leaves_nothing = || {
        browser.wait_for_text("#sign-in", "Operator token");
        let left = browser.run("return document.documentElement.innerHTML + document.title");
        for of_the_night in ["Opening", "Aurora", "otto", "selling"] {
            assert!(!left.as_str().unwrap().contains(of_the_night), "{of_the_night}: {left}");
        }
    };
    browser.click("#sign-out");
    leaves_nothing();
    assert_eq!(browser.text("#sign-in-problem"), "");
    // A session at its end: the server ends the stream.
    shop.state().session = Some(session("operator"));
    browser.reload();
    browser.wait_for_text("#who", "otto, operator");
    wait_for_figures(&browser);
    shop.state().session = Some(no_session());
    shop.end_streams();
    leaves_nothing();
    browser.wait_for_text("#sign-in-problem", "You were signed out.");
    let streams = shop.state().streams;
    // And one whose end is seen by a press.
    shop.state().session = Some(session("operator"));
    browser.reload();
    browser.wait_for_text("#who", "otto, operator");
    wait_for_figures(&browser);
    press_restock(&browser);
    browser.type_into("#field-units", "50");
    shop.state().session = Some(no_session());
    shop.state().refusal = Some((401, json!({ "code": "operator_unauthorized", "detail": "Sign in." })));
    browser.click("#ask-do");
    leaves_nothing();
    assert_eq!(shop.state().streams, streams + 1, "nobody asks on and on");
    // A token that ends as it is used, or a browser that keeps no cookie.
    shop.state().refusal = None;
    browser.type_into("#token", "a token that has just ended");
    browser.click("#sign-in button");
    browser.wait_for_text("#sign-in-problem", "The browser has no session now");
    assert_eq!(browser.complaints(), Vec::<String>::new());
}
