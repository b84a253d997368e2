//! The console of a cluster of three servers, of which one is silent and one is behind. Over a scripted API.

use serde_json::{Value, json};

use super::axe::assert_accessible;
use super::console::{assert_laid_out, wait_until_old};
use super::console_answers::{open, seconds_after};
use super::fake_console::{FakeConsole, NOW_MS, SALE, server, verdict};

const ORDER: &str = "00000000a1b2c3d4e5f60718293a4b5c6d7e8f90";
const NUMBER: &str = "K7QM-3X9F";

fn cluster() -> FakeConsole {
    let shop = FakeConsole::start();
    shop.sample(&[
        ("/servers", json!([server("one:80", 0), server("two:80", 3_400), server("three:80", 7_400)])),
        (
            "/health/engines",
            json!([
                { "engine": "Redis", "fault": null },
                { "engine": "Brokers", "fault": "Nothing answers at 10.0.0.7:10911." },
                { "engine": "Ledger", "fault": null },
            ]),
        ),
        ("/health/backlog", json!(1_234)),
        ("/health/backlog_age_ms", json!(12_000)),
        ("/health/dead_letters", json!(2)),
        ("/health/dead_letter_age_ms", json!(180_000)),
        ("/health/units_age_ms", json!(5_000)),
        (
            "/verdict",
            verdict("amber", "1 of 3 servers says nothing: three:80.", "See whether `three:80` runs."),
        ),
    ]);
    shop
}

#[test]
fn of_three_servers_it_shows_the_sum_who_is_missing_and_what_waits() {
    let shop = cluster();
    let browser = open(&shop);
    browser.wait_for_text("#level", "AMBER");
    browser.wait_for_text("#says", "1 of 3 servers says nothing: three:80.");
    for (server, silent_s) in [("two:80", 3), ("three:80", 7)] {
        browser.wait_until(server, |browser| {
            seconds_after(&browser.text("#age"), &format!(", {server} ")) >= Some(silent_s)
        });
    }
    for says in [
        "2 of 3",
        "one:80 3.5/s; two:80 3.5/s; three:80 silent for 7 s",
        "Nothing answers at 10.0.0.7:10911.",
        "1,234",
        "the oldest for 12 s",
        "the last 3 min 0 s ago",
    ] {
        browser.wait_for_text("#health", says);
    }
    let at = format!("return new Date({}).toLocaleTimeString('en-GB')", NOW_MS - 5_000);
    let at = browser.run(&at);
    for says in ["not paid yet, as of ", "paid, as of "] {
        browser.wait_for_text("#tiles", &format!("{says}{}", at.as_str().unwrap()));
    }
    for (width, height) in [(360, 800), (1280, 900)] {
        browser.resize(width, height);
        assert_laid_out(&browser);
    }
    assert_accessible(&browser, "the console of a cluster that lacks a server");

    shop.sample(&[
        ("/verdict", verdict("red", "No order is taken. The ledger is away.", "Bring it back.")),
        ("/health/ready", json!(false)),
        ("/health/reasons", json!(["The ledger is away."])),
        ("/health/backlog", Value::Null),
        ("/servers/0/ready", json!(false)),
        ("/sales/0/rates", Value::Null),
    ]);
    browser.wait_for_text("#level", "RED");
    browser.wait_for_text("#health", "The ledger is away.");
    browser.wait_for_text("#health", "one:80 takes no orders; two:80 3.5/s; three:80 silent for 7 s");
    browser.wait_until("the backlog is not known", |browser| !browser.text("#health").contains("1,234"));
    browser.wait_for_text(&format!("#does-{SALE}"), "orders of this sale: not known here");
    assert_accessible(&browser, "the console of a cluster that takes no orders");

    shop.sample(&[
        ("/verdict", verdict("green", "Ready.", "Nothing to do.")),
        ("/servers", json!([server("one:80", 0), server("two:80", 200), server("three:80", 100)])),
    ]);
    browser.wait_for_text("#level", "GREEN");
    browser.wait_for_text("#health", "3 of 3");
    browser.wait_until("all of them", |browser| !browser.text("#age").contains(":80 "));
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

/// The installation was shown as one: nobody saw which server was short of disk, or whose clock was wrong.
#[test]
fn each_server_has_its_own_disk_memory_and_clock_and_how_old_they_are() {
    let shop = cluster();
    let mut two = server("two:80", 3_400);
    two["disk_free_bytes"] = json!(99_000_000);
    two["clock_confirmed"] = json!(false);
    two["clock_ahead_ms"] = json!(-3_600_000);
    two["clock_difference_ms"] = json!(-7_000);
    // Of an earlier version, and with a name as long as they get.
    let name = "three.of-many-servers.in-a-data-center.with-long-names.example:8080";
    let mut three = server(name, 7_400);
    for field in ["disk_free_bytes", "disk_bytes", "clock_confirmed", "clock_difference_ms", "clock_ahead_ms"]
    {
        three.as_object_mut().unwrap().remove(field);
    }
    three["memory_bytes"] = Value::Null;
    shop.sample(&[("/servers", json!([server("one:80", 0), two, three]))]);
    let browser = open(&shop);
    let row = |place: usize| format!("#servers tbody tr:nth-child({place})");
    for (place, says) in [
        (1, "\t80 GB of 500 GB\t150 MB\t2 ms ahead of most, 0 ms from the system's"),
        (2, "\t99 MB of 500 GB\t150 MB\tnot confirmed, 1 h 0 min behind most, 7,000 ms from the system's"),
        (3, "\t–\t–\t–"),
    ] {
        browser.wait_for_text(&row(place), says);
    }
    // It grows older while nothing comes.
    wait_until_old(&browser, 4);
    for (place, server, silent_s) in [(1, "one:80", 4), (2, "two:80", 7), (3, name, 11)] {
        let text = browser.text(&row(place));
        assert!(seconds_after(&text, &format!("{server}\t")) >= Some(silent_s), "{text}");
    }
    // What is a server's own stands for no sum.
    for name in ["Disk free", "Clock"] {
        assert!(!browser.text("#health").contains(name), "{name}");
    }
    for (width, height) in [(1280, 900), (360, 800)] {
        browser.resize(width, height);
        assert_laid_out(&browser);
    }
    browser.wait_for_text(&row(2), "99 MB of 500 GB");
    assert_accessible(&browser, "the console of three servers on a phone");

    // A server that has gone goes, and nothing is left of it at another one.
    shop.sample(&[("/servers", json!([server("one:80", 0), server(name, 100)]))]);
    browser.wait_until("two of them", |browser| {
        browser.run("return document.querySelectorAll('#servers tbody tr').length") == 2
    });
    browser.wait_for_text(&row(2), "80 GB of 500 GB");
    // A server by itself has what the installation has.
    shop.sample(&[
        ("/servers", json!([server("one:80", 0)])),
        ("/health/dead_letters", Value::Null),
        ("/health/dead_letter_age_ms", Value::Null),
        ("/health/disk_free_bytes", json!(7_000_000_000_u64)),
        ("/health/disk_bytes", json!(9_000_000_000_u64)),
    ]);
    browser.wait_for_text("#health", "7.0 GB of 9.0 GB");
    assert_eq!(browser.text("#servers"), "");
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

/// It was known only once one was begun here, and failed.
#[test]
fn a_rehearsal_that_is_played_elsewhere_is_said() {
    let shop = cluster();
    let elsewhere =
        "Another rehearsal of this installation is under way: sale 3, 300 buyers within 9 s, begun by otto.";
    let rehearsal = json!({ "state": "none", "elsewhere": elsewhere });
    shop.state().answers.insert("/api/v1/rehearsal".to_owned(), rehearsal);
    let browser = open(&shop);
    browser.wait_for_text("#rehearsal", elsewhere);
    for (width, height) in [(360, 800), (1280, 900)] {
        browser.resize(width, height);
        assert_laid_out(&browser);
    }
    assert_accessible(&browser, "the console while a rehearsal is played elsewhere");
    assert_eq!(browser.run("return document.getElementById('rehearsal-stop').hidden"), true);
}

#[test]
fn of_a_cluster_units_are_corrected_once_and_a_refund_is_settled() {
    let shop = cluster();
    let browser = open(&shop);
    browser.click("button[data-item-call=correct]");
    browser.type_into("#field-units", "20");
    browser.wait_for_text("#ask-sum", "Takes 20 off 120: 100 in all, 20 of them left.");
    // The gate is asked first, and its answer may be lost.
    shop.state().refusal =
        Some((503, json!({ "code": "outcome_unknown", "detail": "It is not known whether it was done." })));
    browser.click("#ask-do");
    browser.wait_for_text("#ask-problem", "it is not known whether it was done");
    shop.state().refusal = None;
    browser.click("#ask-do");
    browser.wait_for_text("#done", "Corrected.");

    let order = json!({
        "id": ORDER, "number": NUMBER, "status": "expired", "sale": SALE, "product": 30, "quantity": 1, "amount": 4_999,
        "currency": "EUR", "buyer": "7", "pay_by_ms": null, "refund_due": true,
    });
    let life = json!([{ "at_ms": NOW_MS, "what": "expired" }]);
    let payment = json!({ "payment_id": "bank 7", "order": ORDER, "amount": 4_999 });
    let due = |payments: Value| {
        shop.state()
            .answers
            .insert("/api/v1/payments/refunds-due".to_owned(), json!({ "payments": payments }));
    };
    let found = json!({ "order": order, "life": life, "more": false });
    shop.state().answers.insert(format!("/api/v1/support/orders/{NUMBER}"), found);
    due(json!([payment]));
    browser.type_into("#order-number", NUMBER);
    browser.click("#find-order button");
    browser.wait_for_text("#found-order", "49.99 EUR of bank 7 are to be given back.");
    browser.click("#found-order button[data-order-call=settle]");
    browser.wait_for_text("#ask-says", "Notes that 49.99 EUR of “bank 7” were given back");
    browser.type_into("#typed", NUMBER);
    due(json!([]));
    browser.click("#ask-do");
    browser.wait_for_text("#done", "Settled.");
    browser
        .wait_until("nothing is due", |browser| !browser.text("#found-order").contains("to be given back"));

    let presses = shop.state().presses.clone();
    let [(first, body, path), (again, _, _), (_, _, settled)] = &presses[..] else { panic!("{presses:?}") };
    assert!(first == again && !first.is_empty(), "{presses:?}");
    let corrected = format!("/api/v1/sales/{SALE}/items/30/correct");
    assert_eq!((path, body.as_str()), (&corrected, r#"{"units":20}"#));
    assert_eq!(settled, "/api/v1/payments/bank%207/settle");
    assert_eq!(browser.complaints(), Vec::<String>::new());
}
