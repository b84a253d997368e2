//! The console's charts by keys, in words, and for eyes that tell few colours apart. Over a scripted API.

use super::axe::assert_accessible;
use super::console_answers::{DRAWN, open};
use super::fake_console::FakeConsole;
use super::webdriver::{Browser, END, HOME, LEFT, RIGHT};

/// They were pictures without a word, and their values the mouse's alone.
#[test]
fn the_values_of_a_chart_are_read_by_keys_and_its_latest_are_its_name() {
    let shop = FakeConsole::start();
    let browser = open(&shop);
    for (chart, latest) in [
        ("rates", ": accepted 7.0, refused 1.0, busy 0, unknown 0"),
        ("times", ": p50 1.5, p99 9.0"),
        ("units", ": left 41, held 59, sold 0"),
    ] {
        let script =
            format!("return document.querySelector('#{chart}-chart canvas').getAttribute('aria-label')");
        browser.wait_until(latest, |browser| {
            let label = browser.run(&script);
            label.as_str().is_some_and(|label| label.contains("The latest: ") && label.ends_with(latest))
        });
    }
    browser.run("document.getElementById('units-chart').focus()");
    let says = |browser: &Browser| {
        let says = browser.run("return document.getElementById('chart-says').textContent");
        let says = says.as_str().unwrap().to_owned();
        says[says.find(": ").map_or(0, |at| at + 2)..].to_owned()
    };
    // The rows of the fake's history, the first of a minute ago.
    let rows = [
        (LEFT, "left 41, held 59, sold 0"),
        (LEFT, "left 42, held 58, sold 0"),
        (LEFT, "left 43, held 57, sold 0"),
        (RIGHT, "left 42, held 58, sold 0"),
        (HOME, "left 100, held 0, sold 0"),
        (LEFT, "left 100, held 0, sold 0"),
        (END, "left 41, held 59, sold 0"),
    ];
    for (key, expected) in rows {
        browser.press(key);
        assert_eq!(says(&browser), expected);
    }
    assert_accessible(&browser, "the console whose chart is read");
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

/// Held and left, or in the dark held and sold, have nearly the same lightness.
#[test]
fn what_lies_on_each_other_in_a_chart_is_parted_by_a_line() {
    let shop = FakeConsole::start();
    let browser = open(&shop);
    for dark in [false, true] {
        browser.darken(dark);
        for of in ["--left", "--held", "--card"] {
            browser.wait_until(of, |browser| {
                let drawn = browser.run(&DRAWN.replace("ASKED", &format!("['#units-chart', '{of}']")));
                drawn.as_u64().is_some_and(|pixels| pixels > 20)
            });
        }
    }
}

#[test]
fn a_choice_looks_like_what_is_typed_into() {
    let shop = FakeConsole::start();
    let browser = open(&shop);
    let looks = "return ['#attempts-time', '#order-number'].map((of) => { \
                 const { backgroundColor, borderRadius, minHeight } = getComputedStyle(document.querySelector(of)); \
                 return [backgroundColor, borderRadius, minHeight].join(' '); })";
    let looks = browser.run(looks);
    assert_eq!(looks[0], looks[1], "{looks}");
}
