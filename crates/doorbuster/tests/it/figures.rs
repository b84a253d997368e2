//! The history of the figures through a kill of the real program.

use std::time::{Duration, Instant};

use serde_json::Value;

use crate::exchange::Connection;
use crate::serving::{OPERATOR, Serving};

const PATIENCE: Duration = Duration::from_secs(60);

/// The times of the history's rows and the orders accepted in each, once they are enough.
pub(crate) fn history(server: &Serving, are_enough: impl Fn(&[(u64, f64)]) -> bool) -> Vec<(u64, f64)> {
    let bearer = format!("Bearer {OPERATOR}");
    let headers = [("Authorization", bearer.as_str())];
    let until = Instant::now() + PATIENCE;
    loop {
        let mut connection = Connection::open(server.address).unwrap();
        let path = "/api/v1/figures/history?sale=3&product=29&points=4000";
        let answer = connection.exchange("GET", path, &headers, "").unwrap();
        assert_eq!(answer.status, 200, "{answer:?}");
        let points: Value = answer.json();
        let found = points["rows"].as_array().unwrap();
        // In a second in which the server stood still, on a busy machine, nothing is known to be accepted.
        let rows: Vec<(u64, f64)> =
            found.iter().filter_map(|row| Some((row[0].as_u64().unwrap(), row[2].as_f64()?))).collect();
        if are_enough(&rows) {
            return rows;
        }
        assert!(Instant::now() < until, "{points}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn read(server: &Serving, path: &str) -> Value {
    let bearer = format!("Bearer {OPERATOR}");
    let mut connection = Connection::open(server.address).unwrap();
    connection.exchange("GET", path, &[("Authorization", &bearer)], "").unwrap().json()
}

fn steer(server: &Serving, verb: &str) {
    let bearer = format!("Bearer {OPERATOR}");
    let headers = [("Authorization", &*bearer), ("Idempotency-Key", verb)];
    let mut connection = Connection::open(server.address).unwrap();
    let steered = connection.exchange("POST", &format!("/api/v1/sales/3/{verb}"), &headers, "{}").unwrap();
    assert_eq!(steered.status, 200, "{steered:?}");
}

/// Pauses the sale. The events that are shown, and since when the verdict is not green, once both are kept.
fn pause(server: &Serving) -> (Value, Value) {
    steer(server, "pause");
    let until = Instant::now() + PATIENCE;
    loop {
        let events = read(server, "/api/v1/figures")["events"].clone();
        let paused = events.as_array().unwrap().iter().find(|event| event["kind"] == "sale_paused");
        let kept = read(server, "/api/v1/figures/history?points=4000");
        let last = |name: &str| kept[name].as_array().unwrap().last().cloned();
        // With a row of a later second, the one that saw it is written.
        let is_kept = last("rows")
            .zip(paused)
            .is_some_and(|(row, paused)| row[0].as_u64().unwrap() > paused["at_ms"].as_u64().unwrap());
        if let Some(incident) = last("incidents").filter(|_| is_kept) {
            return (events, incident["began_ms"].clone());
        }
        assert!(Instant::now() < until, "{events} {kept}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Without the newest, whose second may not be over yet.
pub(crate) fn over(mut rows: Vec<(u64, f64)>) -> Vec<(u64, f64)> {
    rows.pop();
    rows
}

#[test]
fn the_history_outlives_a_kill_and_a_broken_one_stops_no_sale() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("data");
    let place = |server: &Serving| {
        let mut connection = Connection::open(server.address).unwrap();
        let body = r#"{"sale": 3, "product": 29}"#;
        connection.exchange("POST", "/api/v1/orders", &[("memberId", "7")], body).unwrap().status
    };
    let server = Serving::demo(&data, &[]);
    assert_eq!(place(&server), 201);
    let sold = |rows: &[(u64, f64)]| rows.iter().any(|(_, accepted)| *accepted > 0.0);
    let before = over(history(&server, |rows| rows.len() >= 3 && sold(&rows[..rows.len() - 1])));
    let (events, incident) = pause(&server);
    server.kill();
    let server = Serving::demo(&data, &[]);
    let again = read(&server, "/api/v1/figures")["events"].clone();
    let start = |events: &Value| {
        let mut events = events.as_array().unwrap().iter();
        events.find(|event| event["kind"] == "server_started").expect("a start is an event").clone()
    };
    assert_ne!(start(&events), start(&again));
    // The new start may have taken the place of the one before.
    let of_before = |event: &Value| *event == start(&events) || again.as_array().unwrap().contains(event);
    assert!(events.as_array().unwrap().iter().all(of_before), "{events} in {again}");
    let found = read(&server, "/api/v1/figures/history")["incidents"].clone();
    let found = found.as_array().unwrap().iter().find(|found| found["began_ms"] == incident).cloned();
    assert!(found.as_ref().is_some_and(|found| found["ended_ms"].is_u64()), "the kill ended it: {found:?}");
    let after = history(&server, |rows| rows.len() >= before.len() + 2);
    assert!(before.iter().all(|row| after.contains(row)), "{before:?} in {after:?}");
    steer(&server, "resume");
    server.kill();

    for name in ["figures.db", "figures.db-wal"] {
        std::fs::write(data.join(name), [7; 5_000]).unwrap();
    }
    let log = directory.path().join("log");
    let mut command = crate::doorbuster(directory.path());
    command.args(["serve", "--demo", "--listen", "127.0.0.1:0", "--data-dir", "data"]);
    let server = Serving::start_logging(command, std::fs::File::create(&log).unwrap());
    assert_eq!(place(&server), 201);
    let bearer = format!("Bearer {OPERATOR}");
    let headers = [("Authorization", bearer.as_str())];
    for (path, status) in [("/api/v1/figures", 200), ("/api/v1/figures/history", 503), ("/readyz", 200)] {
        let mut connection = Connection::open(server.address).unwrap();
        assert_eq!(connection.exchange("GET", path, &headers, "").unwrap().status, status, "{path}");
    }
    assert_eq!(server.stop(), 0);
    let log = std::fs::read_to_string(log).unwrap();
    assert_eq!(log.matches("no history of the figures is kept").count(), 1, "{log}");
}

#[test]
fn how_holds_ended_is_known_after_a_kill() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("data");
    let server = Serving::demo(&data, &[]);
    let post = |path: &str, body: &str| {
        let mut connection = Connection::open(server.address).unwrap();
        let answer = connection.exchange("POST", path, &[("memberId", "7")], body).unwrap();
        assert!(matches!(answer.status, 200 | 201), "{answer:?}");
        answer.json()
    };
    let order = post("/api/v1/orders", r#"{"sale": 3, "product": 29}"#);
    post("/api/v1/orders", r#"{"sale": 3, "product": 29}"#);
    post(&format!("/api/v1/orders/{}/cancel", order["id"].as_str().unwrap()), "");
    server.kill();
    let server = Serving::demo(&data, &[]);
    let bearer = format!("Bearer {OPERATOR}");
    let mut connection = Connection::open(server.address).unwrap();
    let headers = [("Authorization", bearer.as_str())];
    let figures = connection.exchange("GET", "/api/v1/figures", &headers, "").unwrap().json();
    let sale = figures["sales"].as_array().unwrap().iter().find(|sale| sale["id"] == 3).unwrap();
    let holds = &sale["holds"];
    assert_eq!(
        (&holds["cancelled"], &holds["paid"], &holds["since_ms"]),
        (&1.into(), &0.into(), &Value::Null)
    );
    assert_eq!(sale["units"]["held"], 1, "the other is open");
}
