//! The console's charts by keys, in words, and for eyes that tell few colours apart. Over a scripted API.

use serde_json::json;

use super::axe::assert_accessible;
use super::console_answers::{DRAWN, open, wait_for_figures};
use super::fake_console::{FakeConsole, NOW_MS, history, session};
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

/// Of each chart, the seconds from the samples' time to where its lines break, once `see_charts` has run.
const BREAKS: &str = "return window.plots.map(({ data: [times, ...columns] }) => \
    times.filter((_, at) => columns.every((column) => column[at] === null)).map((time) => time - 1780000000))";

/// Before the page has made its charts.
fn see_charts(browser: &Browser) {
    browser.run(
        "const Real = uPlot; window.plots = []; \
         uPlot = function (...how) { const plot = new Real(...how); window.plots.push(plot); return plot; };",
    );
}

#[test]
fn a_time_without_figures_breaks_the_lines_of_the_charts() {
    let shop = FakeConsole::start();
    let browser = Browser::start();
    {
        let mut state = shop.state();
        state.session = None;
        // One second that is missing has slipped into its neighbour.
        state.history = history(1_000, (0..20).chain(40..50).chain(51..60));
    }
    browser.open(&shop.url);
    browser.wait_for_text("#away", "The server can't be reached.");
    see_charts(&browser);
    shop.state().session = Some(session("admin"));
    wait_for_figures(&browser);
    let wait_for_breaks = |times: &[i64]| {
        browser.wait_until(&format!("breaks at {times:?}"), |browser| {
            browser.run(BREAKS) == json!([times, times, times])
        });
    };
    wait_for_breaks(&[-40]);
    let wait_for_sample = |after_s: u64| {
        shop.sample(&[("/at_ms", json!(NOW_MS + after_s * 1_000))]);
        browser.wait_until("its last point", |browser| {
            browser.run("return window.plots[0].data[0].at(-1) - 1780000000") == json!(after_s)
        });
    };
    wait_for_sample(1);
    wait_for_breaks(&[-40]);
    // This page has heard nothing; the server knows of some of it.
    shop.state().history = history(1_000, (0..20).chain(40..60).chain(70..80));
    shop.sample(&[("/at_ms", json!(NOW_MS + 31_000))]);
    wait_for_breaks(&[-40, 0]);
    wait_for_sample(32);
    wait_for_breaks(&[-40, 0, 20]);
    wait_for_sample(33);
    wait_for_breaks(&[-40, 0, 20]);
    // One row of a minute was written or was not.
    shop.state().history = history(60_000, (0..20).chain(21..60));
    browser.click("#spans button:nth-child(3)");
    wait_for_breaks(&[-40 * 60]);
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

/// A page that draws 3 days anew each second is no smooth one.
#[test]
fn three_days_are_as_many_points_as_are_asked_for_and_not_drawn_again_by_each_sample() {
    const POINTS: u64 = 1_200;
    const STEP_MS: u64 = 216_000;
    let shop = FakeConsole::start();
    shop.state().session = None;
    let browser = Browser::start();
    browser.open(&shop.url);
    browser.wait_for_text("#away", "The server can't be reached.");
    see_charts(&browser);
    shop.state().session = Some(session("admin"));
    wait_for_figures(&browser);
    let mut three_days = history(STEP_MS, 0..1);
    let row = three_days["rows"][0].clone();
    let row = |number: u64| {
        let mut row = row.clone();
        row[0] = json!(NOW_MS - (POINTS - number) * STEP_MS);
        row
    };
    three_days["rows"] = (0..POINTS).map(row).collect();
    shop.state().history = three_days;
    browser.click("#spans button:nth-child(4)");
    let points = |browser: &Browser| browser.run("return window.plots.map((plot) => plot.data[0].length)");
    let all = json!([POINTS, POINTS, POINTS]);
    browser.wait_until("all of them", |browser| points(browser) == all);
    browser.run(
        "window.drawn = 0; \
         for (const plot of window.plots) { \
           const real = plot.setData; \
           plot.setData = (...how) => { window.drawn += 1; return real(...how); }; \
         } \
         return null",
    );
    for second in 1..=3 {
        let server = format!("second-{second}:80");
        shop.sample(&[("/at_ms", json!(NOW_MS + second * 1_000)), ("/server", json!(server))]);
        browser.wait_for_text("#server", &server);
    }
    assert_eq!((browser.run("return window.drawn"), points(&browser)), (json!(0), all));
    // Of the last minutes each is a point.
    shop.state().history = history(1_000, 0..60);
    browser.click("#spans button:nth-child(1)");
    browser.wait_until("a minute of seconds", |browser| points(browser) == json!([60, 60, 60]));
    shop.sample(&[("/at_ms", json!(NOW_MS + 4_000))]);
    browser.wait_until("it is drawn", |browser| {
        browser.run("return window.plots[0].data[0].at(-1)") == json!(NOW_MS / 1_000 + 4)
    });
    assert_eq!(browser.complaints(), Vec::<String>::new());
}
