//! A server that was away itself: it stood still, or was cut off, and came back.

use std::time::Duration;

use serde_json::{Value, json};

use super::{HOUR_MS, NOW, Server, sale};
use crate::figures::HistoryQuery;
use crate::intake::{Need, RequestOutcome, ServerReport};

/// One of two servers, after ten seconds in which all was well.
fn well() -> Server {
    let mut server = Server::with(vec![sale(3, NOW.0, 1)], true);
    for second in 1..=10 {
        hear(&server, second * 1_000);
        server.cluster.as_ref().unwrap().units_read.inc();
        server.look(second * 1_000);
    }
    server
}

fn hear(server: &Server, after_ms: u64) {
    let said = br#"{"server":"there:80","rates":{"accepted":4.0},"health":{"ready":true,"clock_confirmed":true,"reconciled_age_ms":100,
        "units_age_ms":100,"engines":[{"engine":"MySQL","fault":null}]}}"#;
    let at = server.begun + Duration::from_millis(after_ms);
    server.servers.hear(vec![ServerReport { said: said[..].into(), at, lives: true }]);
}

fn code(seen: &Value) -> &str {
    seen["verdict"]["code"].as_str().unwrap()
}

/// What was noted since all was well, the oldest first.
fn events(seen: &Value) -> Vec<(String, String)> {
    let text = |event: &'_ Value, name: &str| event[name].as_str().unwrap().to_owned();
    let events = seen["events"].as_array().unwrap().iter().rev();
    let all: Vec<_> = events.map(|event| (text(event, "kind"), text(event, "says"))).collect();
    let well = all.iter().rposition(|(_, says)| says.contains("is selling")).unwrap();
    all[well + 1..].to_vec()
}

fn stood_still(seconds: u64) -> (String, String) {
    ("server_stood_still".to_owned(), format!("here:80 stood still for {seconds} s."))
}

fn fault(server: &Server, need: Option<Need>) {
    if let Some(need) = need {
        server.health.note(need, false);
    }
}

/// It was asked the next morning why the ledger had been away; the other servers knew of nothing.
#[test]
fn whoever_stood_still_blames_nobody_for_it() {
    for (what, need) in [
        ("it was frozen", None),
        ("what it had asked the ledger was answered too late", Some(Need::Ledger)),
        ("the broker", Some(Need::Broker)),
        ("Redis", Some(Need::Gate)),
    ] {
        let mut server = well();
        fault(&server, need);
        let woken = server.look(50_000);
        assert_eq!((code(&woken), events(&woken)), ("selling", vec![stood_still(39)]), "{what}");
        assert_eq!(woken["servers"][1]["counted"], false, "{what}: it was not heard yet");
        need.map(|need| server.health.note(need, true));
        for second in 51..60 {
            hear(&server, second * 1_000);
            server.cluster.as_ref().unwrap().units_read.inc();
            let seen = server.look(second * 1_000);
            assert_eq!((code(&seen), events(&seen)), ("selling", vec![stood_still(39)]), "{what}, {second}");
        }
    }
}

/// What goes on once everything could be looked at again is not of its own making.
#[test]
fn what_is_still_away_some_seconds_later_is_said() {
    for (need, expected) in [
        (Some(Need::Ledger), "ledger_away"),
        (Some(Need::Broker), "not_ready"),
        // Nothing was read, and nobody heard.
        (None, "servers_silent"),
    ] {
        let mut server = well();
        fault(&server, need);
        for second in [50, 51, 52, 53] {
            assert_eq!(code(&server.look(second * 1_000)), "selling", "{expected}, {second}");
        }
        assert_eq!(code(&server.look(54_000)), expected);
    }
}

#[test]
fn one_slow_look_is_no_standstill() {
    let mut server = well();
    hear(&server, 13_500);
    assert_eq!(events(&server.look(13_999)), []);
    assert_eq!(events(&server.look(17_999)), [stood_still(3)]);
}

/// The ledger's connections take longer to come back than Redis', by which the others are heard.
#[test]
fn whoever_was_cut_off_does_not_say_that_the_ledger_is_away_when_it_is_back() {
    let mut server = well();
    server.health.note(Need::Gate, false);
    server.health.note(Need::Ledger, false);
    for second in 11..=60 {
        let seen = server.look(second * 1_000);
        assert_ne!(code(&seen), "ledger_away", "{second}");
    }
    server.health.note(Need::Gate, true);
    // Nobody was heard yet.
    let seen = server.look(61_000);
    assert!(!["ledger_away", "nobody_reconciles"].contains(&code(&seen)), "{seen}");
    server.health.note(Need::Ledger, true);
    for second in 62..70 {
        hear(&server, second * 1_000);
        server.cluster.as_ref().unwrap().units_read.inc();
        assert_eq!(code(&server.look(second * 1_000)), "selling", "{second}");
    }
    // Of all of them.
    server.health.note(Need::Ledger, false);
    server.servers.hear(Vec::new());
    assert_eq!(code(&server.look(70_000)), "ledger_away");
}

#[test]
fn of_the_time_in_which_it_stood_still_nothing_is_known_and_what_it_counted_is_there() {
    let mut server = well();
    server.intake.metrics.orders_accepted.inc_by(30);
    (0..30).for_each(|_| server.catalog.skus[0].counters.outcomes.count(RequestOutcome::Accepted));
    let seen = server.look(50_000);
    for of in [&seen, &seen["sales"][0]] {
        assert_eq!(of["rates"]["accepted"], 30.0, "all of it in the second in which it was awake");
    }
    let asked = HistoryQuery::new((NOW.0 - 60_000, NOW.0 + HOUR_MS / 2), 4_000, None);
    let points = server.looking.figures().history.read(&asked).unwrap().to_json();
    let points: Value = serde_json::from_slice(&points).unwrap();
    let place =
        |name: &str| points["columns"].as_array().unwrap().iter().position(|column| column == name).unwrap();
    let of =
        |row: &Value| ["accepted", "servers_heard", "servers_known"].map(|name| row[place(name)].clone());
    let rows = points["rows"].as_array().unwrap();
    let unknown: Vec<_> = rows.iter().map(of).filter(|row| row[0] == Value::Null).collect();
    assert!(unknown.len() >= 38, "{points}");
    assert!(unknown.iter().all(|row| *row == [Value::Null, json!(0), json!(2)]), "{points}");
    let incident = &points["incidents"][0];
    let lasted = incident["ended_ms"].as_i64().unwrap() - incident["began_ms"].as_i64().unwrap();
    assert_eq!((&incident["code"], lasted), (&json!("stood_still"), 39_000));
    assert_eq!(incident["says"], "The server stood still for 39 s: nothing is known of that time.");
}
