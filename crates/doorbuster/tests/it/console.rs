//! The console in a browser, while the real program is killed and started again on its ledger and its port.

use std::path::Path;

use serde_json::{Value, json};

use crate::doorbuster;
use crate::figures::{history, over};
use crate::payments::post;
use crate::serving::{OPERATOR, Serving};
use crate::webdriver::Browser;

const ROW: &str = "#sale-3 tr[data-product='29']";
/// Notes whatever the page says of an age that it must not say: that figures of 2 s ago are live, or anything but "unknown"
/// beside those that are older than 3 s. A second more is the machine's, which may be busy.
const WATCH: &str = "window.wrong = []; \
    const node = document.getElementById('age'); \
    const look = () => { \
      const said = node.textContent; \
      const level = document.getElementById('level').textContent; \
      const seconds = said.includes(' min ') ? 60 : Number(said.match(/(\\d+) s (?:ago|old)/)?.[1]); \
      const isRight = said.startsWith('live') ? seconds <= 3 : seconds <= 4 || (seconds > 4 && level === 'unknown'); \
      if (!isRight) window.wrong.push(`${level}: ${said}`); \
    }; \
    new MutationObserver(look).observe(node, { childList: true, characterData: true, subtree: true }); \
    look(); return null";
/// What is read by keys of the orders per second, from the beginning of the 5 min that are shown.
const WORDS: &str = "const chart = document.getElementById('rates-chart'); \
    const words = []; \
    const press = (key) => { \
      chart.dispatchEvent(new KeyboardEvent('keydown', { key, bubbles: true })); \
      words.push(document.getElementById('chart-says').textContent); \
    }; \
    press('Home'); \
    for (let second = 0; second <= 300; second += 1) press('ArrowRight'); \
    return words";

fn serve(directory: &Path, listen: &str) -> Serving {
    let mut command = doorbuster(directory);
    command.args(["serve", "--demo", "--listen", listen, "--data-dir", "data"]);
    Serving::start(command)
}

fn order(server: &Serving) {
    post(server, "/api/v1/orders", &[("memberId", "7")], &json!({ "sale": 3, "product": 29 }));
}

/// Until the chart has each of these seconds, with orders in those that had some.
fn wait_for_seconds(browser: &Browser, seconds: &[(u64, f64)]) {
    let begins = |at_ms: u64| {
        let time = browser.run(&format!("return new Date({at_ms}).toLocaleTimeString('en-GB')"));
        format!("{}: accepted ", time.as_str().unwrap())
    };
    let expected: Vec<(String, bool)> =
        seconds.iter().map(|(at_ms, accepted)| (begins(*at_ms), *accepted > 0.0)).collect();
    browser.wait_until("the seconds before the kill", |browser| {
        let words = browser.run(WORDS);
        let words: Vec<&str> = words.as_array().unwrap().iter().filter_map(Value::as_str).collect();
        expected.iter().all(|(begins, had_orders)| {
            let values = words.iter().find_map(|words| words.strip_prefix(begins.as_str()));
            values.is_some_and(|values| values.starts_with("0,") != *had_orders)
        })
    });
}

#[test]
fn a_server_that_is_killed_under_a_console_is_unknown_until_it_is_back() {
    let directory = tempfile::tempdir().unwrap();
    let server = serve(directory.path(), "127.0.0.1:0");
    let address = server.address.to_string();
    let browser = Browser::start();
    browser.open(&format!("http://{address}/console"));
    browser.wait_for_text("#sign-in", "Operator token");
    browser.type_into("#token", OPERATOR);
    browser.click("#sign-in button");
    browser.wait_for_text("#age", "live");
    order(&server);
    browser.wait_for_text(ROW, "9,999,999\t1\t0\t10,000,000");
    let sold = |rows: &[(u64, f64)]| rows.iter().any(|(_, accepted)| *accepted > 0.0);
    let before = over(history(&server, |rows| rows.len() >= 3 && sold(&rows[..rows.len() - 1])));
    browser.run(WATCH);

    server.kill();
    browser.wait_for_text("#level", "UNKNOWN");
    browser.wait_for_text("#says", "No figures since ");
    let says = browser.text("#do");
    assert!(says.starts_with("The server hangs, or can't be reached from here."), "{says}");
    assert!(says.ends_with("What is shown below is out of date. It is asked again by itself."), "{says}");
    let age = browser.text("#age");
    assert!(age.starts_with("figures ") && age.contains(" s old, of "), "{age}");
    // What was known stays, each part with its age.
    assert!(browser.text(ROW).contains("9,999,999\t1\t0\t10,000,000"), "{}", browser.text(ROW));
    for title in ["now-title", "sales-title", "health-title"] {
        let age = browser.text(&format!("#{title} + small"));
        let is_new = ["0 s", "1 s", "2 s"].iter().any(|new| age == format!("as of {new} ago"));
        assert!(age.starts_with("as of ") && !is_new, "{title}: {age}");
    }

    let server = serve(directory.path(), &address);
    browser.wait_for_text("#age", "live");
    browser.wait_until("a verdict of now", |browser| browser.text("#level") != "UNKNOWN");
    order(&server);
    browser.wait_for_text(ROW, "9,999,998\t2\t0\t10,000,000");
    wait_for_seconds(&browser, &before);
    // By itself, in the page that was open, and for whoever was signed in.
    assert_eq!(browser.run("return window.wrong"), json!([]));
    assert_eq!((browser.text("#sign-in"), browser.text("#who")), (String::new(), "root, admin".to_owned()));
    // A page that is read anew has them of the server that was started again.
    browser.reload();
    browser.wait_for_text("#age", "live");
    wait_for_seconds(&browser, &before);
    assert_eq!(browser.complaints(), Vec::<String>::new());

    assert_eq!(server.stop(), 0);
    let (code, audited, errors) = crate::run(directory.path(), &["audit", "--data-dir", "data"]);
    assert_eq!(code, 0, "{audited}{errors}");
}
