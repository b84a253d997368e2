//! The server is killed in the middle of a rush, again and again, and every answer that it ever gave must hold.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::exchange::{Connection, Response};
use crate::run;
use crate::serving::{OPERATOR, Serving};

const ROUNDS: u64 = 32;
const CLIENTS: u64 = 6;
/// Few enough that the small product sells out and buyers reach their limit in the first rounds.
const BUYERS: u64 = 150;

/// Before the server is killed.
const ANSWERS_MAX: u64 = 120;
/// For anything to come; only a failing test waits for it.
const PATIENCE: Duration = Duration::from_secs(60);

/// One attempt to buy, and what its client was answered.
#[derive(Clone, Debug)]
struct Attempt {
    buyer: u64,
    key: String,
    body: String,
    outcome: Outcome,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Outcome {
    Accepted {
        id: String,
        closed: Option<&'static str>,
    },
    Refused(String),
    /// The answer never came.
    Lost,
}

/// splitmix64; the seed is the round and the client.
struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % n
    }
}

#[test]
fn killed_in_the_middle_of_a_rush_nothing_answered_is_lost_and_nothing_is_sold_twice() {
    let dir = tempfile::tempdir().unwrap();
    let data_dir = dir.path().join("data");
    let mut serving = Serving::demo(&data_dir, &[]);
    create_sale(serving.address);
    let mut attempts: Vec<Attempt> = Vec::new();
    for round in 0..ROUNDS {
        let address = serving.address;
        let (fresh, answered) = (Mutex::new(Vec::new()), AtomicU64::new(0));
        std::thread::scope(|scope| {
            for client in 0..CLIENTS {
                let (fresh, answered) = (&fresh, &answered);
                scope.spawn(move || {
                    let done = rush(address, round, client, answered);
                    fresh.lock().unwrap().extend(done);
                });
            }
            // Somewhere in a batch, after so many answers of this round, however quick this machine is.
            wait_for(&answered, Random(round).below(ANSWERS_MAX));
            serving.kill();
        });
        attempts.extend(fresh.into_inner().unwrap());
        let (code, output, errors) = run(dir.path(), &["audit", "--data-dir", "data"]);
        assert_eq!(code, 0, "round {round}: the audit says\n{output}{errors}");
        check(dir.path(), &attempts, round);
        serving = Serving::demo(&data_dir, &[]);
        resolve(serving.address, &mut attempts);
    }
    assert_eq!(serving.stop(), 0);
    let (code, output, _) = run(dir.path(), &["audit", "--data-dir", "data"]);
    assert_eq!(code, 0, "{output}");
    check_all(dir.path(), &attempts);
}

#[test]
fn a_graceful_stop_under_load_answers_every_order_that_it_takes() {
    let dir = tempfile::tempdir().unwrap();
    let serving = Serving::demo(&dir.path().join("data"), &[]);
    create_sale(serving.address);
    let address = serving.address;
    let answered = &AtomicU64::new(0);
    let accepted: usize = std::thread::scope(|scope| {
        let buy = |client| move || buy_until_closed(address, client, answered);
        let clients: Vec<_> = (0..CLIENTS).map(|client| scope.spawn(buy(client))).collect();
        wait_for(answered, 200);
        assert_eq!(serving.stop(), 0);
        clients.into_iter().map(|client| client.join().unwrap()).sum()
    });
    assert!(accepted >= 200, "only {accepted} orders before the stop");
    assert_eq!(export(dir.path()).len(), accepted, "an order was taken and its buyer never got its id");
    assert_eq!(run(dir.path(), &["audit", "--data-dir", "data"]).0, 0);
}

/// Until so many answers have come.
#[track_caller]
fn wait_for(answered: &AtomicU64, count: u64) {
    let started = Instant::now();
    while answered.load(Ordering::Relaxed) < count {
        assert!(started.elapsed() < PATIENCE, "{answered:?} of {count} answers came");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Orders one by one until the server closes the connection; how many were accepted.
fn buy_until_closed(address: SocketAddr, client: u64, answered: &AtomicU64) -> usize {
    let mut connection = Connection::open(address).unwrap();
    for number in 0.. {
        let attempt = Attempt {
            // Each a buyer of its own: whoever lets orders expire has to wait.
            buyer: 1 + number as u64 * CLIENTS + client,
            key: format!("c{client}-{number}"),
            body: "{\"sale\":50,\"product\":1,\"quantity\":1}".to_owned(),
            outcome: Outcome::Lost,
        };
        match place(&mut connection, &attempt) {
            Outcome::Accepted { .. } => {
                answered.fetch_add(1, Ordering::Relaxed);
            }
            Outcome::Lost => return number,
            Outcome::Refused(code) => panic!("{code}"),
        }
    }
    unreachable!("the server stops some day")
}

fn create_sale(address: SocketAddr) {
    let body = serde_json::json!({
        "id": 50, "title": "Rush", "currency": "EUR", "starts_at_ms": 0, "ends_at_ms": 9_999_999_999_999_u64,
        "payment_s": 1, "open_holds_per_buyer_max": 0,
        "items": [
            {"product": 1, "title": "Plenty", "price": 100, "list_price": 100, "total": 1_000_000, "limit": null},
            {"product": 2, "title": "Few", "price": 100, "list_price": 100, "total": 120, "limit": 2},
        ],
    });
    let authorization = format!("Bearer {OPERATOR}");
    let response = Connection::open(address)
        .unwrap()
        .exchange("POST", "/api/v1/sales", &[("Authorization", &authorization)], &body.to_string())
        .unwrap();
    assert_eq!(response.status, 201, "{response:?}");
}

/// Buys, repeats, pays and cancels until the connection breaks.
fn rush(address: SocketAddr, round: u64, client: u64, answered: &AtomicU64) -> Vec<Attempt> {
    let mut random = Random(round * 1_000 + client);
    let mut attempts: Vec<Attempt> = Vec::new();
    let Ok(mut connection) = Connection::open(address) else { return attempts };
    for number in 0.. {
        let repeat = random.below(10) == 0 && !attempts.is_empty();
        let mut attempt = if repeat {
            attempts[usize::try_from(random.below(attempts.len() as u64)).unwrap()].clone()
        } else {
            Attempt {
                buyer: 1 + random.below(BUYERS),
                key: format!("r{round}-c{client}-{number}"),
                body: format!(
                    "{{\"sale\":50,\"product\":{},\"quantity\":1,\"address\":{{\"city\":\"No. {number}\"}}}}",
                    1 + random.below(2)
                ),
                outcome: Outcome::Lost,
            }
        };
        let answer = place(&mut connection, &attempt);
        answered.fetch_add(1, Ordering::Relaxed);
        if repeat {
            let lost = answer == Outcome::Lost;
            match (&attempt.outcome, &answer) {
                (Outcome::Accepted { .. }, Outcome::Lost) => {}
                (Outcome::Accepted { id, .. }, Outcome::Accepted { id: again, .. }) => assert_eq!(id, again),
                // A refusal binds no key: the same request may succeed later, and its answer be the one that is lost.
                (Outcome::Refused(_), _) => {
                    let place = attempts.iter_mut().find(|other| other.key == attempt.key).unwrap();
                    place.outcome = answer;
                }
                (before, after) => panic!("{}: first {before:?}, then {after:?}", attempt.key),
            }
            if lost {
                return attempts;
            }
            continue;
        }
        attempt.outcome = answer;
        let lost = attempt.outcome == Outcome::Lost;
        attempts.push(attempt);
        if lost || !close(&mut connection, &mut random, attempts.last_mut().unwrap()) {
            return attempts;
        }
    }
    attempts
}

fn place(connection: &mut Connection, attempt: &Attempt) -> Outcome {
    let buyer = attempt.buyer.to_string();
    let headers = [("memberId", buyer.as_str()), ("Idempotency-Key", &attempt.key)];
    match connection.exchange("POST", "/api/v1/orders", &headers, &attempt.body) {
        Err(_) => Outcome::Lost,
        Ok(response) if response.status == 201 => {
            let id = response.json()["id"].as_str().unwrap().to_owned();
            Outcome::Accepted { id, closed: None }
        }
        Ok(response) if (400..500).contains(&response.status) => {
            Outcome::Refused(response.json()["code"].as_str().unwrap().to_owned())
        }
        Ok(response) => panic!("a server with a good disk answered {response:?}"),
    }
}

/// Sometimes pays or cancels what was just placed. `false`: the connection is broken.
fn close(connection: &mut Connection, random: &mut Random, attempt: &mut Attempt) -> bool {
    let Outcome::Accepted { id, closed } = &mut attempt.outcome else { return true };
    let (action, status) = match random.below(4) {
        0 => ("pay", "paid"),
        1 => ("cancel", "cancelled"),
        _ => return true,
    };
    let buyer = attempt.buyer.to_string();
    match connection.exchange("POST", &format!("/api/v1/orders/{id}/{action}"), &[("memberId", &buyer)], "") {
        Ok(Response { status: 200, .. }) => *closed = Some(status),
        // It had expired before.
        Ok(response) => assert_eq!(response.status, 409, "{response:?}"),
        Err(_) => return false,
    }
    true
}

/// The orders in the ledger, by id.
fn export(dir: &Path) -> HashMap<String, Value> {
    let (code, output, errors) = run(dir, &["orders", "export", "--data-dir", "data", "--format", "jsonl"]);
    assert_eq!(code, 0, "{errors}");
    output
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .map(|order| (order["id"].as_str().unwrap().to_owned(), order))
        .collect()
}

/// Everything that was answered as accepted, paid or cancelled is so in the ledger.
fn check(dir: &Path, attempts: &[Attempt], round: u64) {
    let orders = export(dir);
    for attempt in attempts {
        if let Outcome::Accepted { id, closed } = &attempt.outcome {
            let order = orders.get(id).unwrap_or_else(|| panic!("round {round}: {attempt:?} is not there"));
            assert_eq!(order["buyer"].as_str().unwrap(), attempt.buyer.to_string(), "{attempt:?}");
            if let Some(status) = closed {
                assert_eq!(order["status"].as_str().unwrap(), *status, "round {round}: {attempt:?}");
            }
        }
    }
}

/// Asks again, with the same key, for every attempt whose answer was lost.
fn resolve(address: SocketAddr, attempts: &mut [Attempt]) {
    let mut connection = Connection::open(address).unwrap();
    for attempt in attempts.iter_mut().filter(|attempt| attempt.outcome == Outcome::Lost) {
        attempt.outcome = place(&mut connection, attempt);
        assert_ne!(attempt.outcome, Outcome::Lost, "nobody kills the server now");
    }
}

/// At the end every order in the ledger is one whose id somebody was given: none of a refused attempt.
fn check_all(dir: &Path, attempts: &[Attempt]) {
    check(dir, attempts, ROUNDS);
    let mut accepted: Vec<&str> = attempts
        .iter()
        .filter_map(|attempt| match &attempt.outcome {
            Outcome::Accepted { id, .. } => Some(id.as_str()),
            _ => None,
        })
        .collect();
    let refused = attempts.len() - accepted.len();
    accepted.sort_unstable();
    let attempts_accepted = accepted.len();
    accepted.dedup();
    assert_eq!(accepted.len(), attempts_accepted, "two attempts were given the same order");
    assert_eq!(export(dir).len(), accepted.len(), "an order is there whose id nobody was given");
    assert!(accepted.len() > 500 && refused > 50, "too little happened: {} and {refused}", accepted.len());
}
