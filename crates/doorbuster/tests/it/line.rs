//! A line through the real program: a sale of it from a file, and rounds of SIGKILL in the middle of a rush to it.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::exchange::{Connection, Response};
use crate::serving::{OPERATOR, Serving};
use crate::{doorbuster, outcome, run};

const ROUNDS: u64 = 8;
const CLIENTS: u64 = 4;
/// Answers of a round before the server is killed.
const ANSWERS: u64 = 150;
const UNITS: u64 = 20;
const PATIENCE: Duration = Duration::from_secs(60);
const LINE: &str = "/api/v1/sales/70/items/5/line";

fn make_sale(directory: &Path, address: SocketAddr) {
    let file = format!(
        "id = 70\ntitle = \"Drop\"\nstarts_at = \"now\"\nfor = \"2h\"\npayment = \"30m\"\n\
         [[item]]\nproduct = 5\nprice = 100\ntotal = {UNITS}\nlimit = 1\nline = {{ turn = \"10m\", grace = \"1s\" }}\n"
    );
    std::fs::write(directory.join("drop.toml"), file).unwrap();
    let server = format!("http://{address}");
    let mut create = doorbuster(directory);
    create.args(["sale", "create", "drop.toml", "--server", &server]);
    let made = outcome(create.env("DOORBUSTER_OPERATOR_TOKEN", OPERATOR).output().unwrap());
    assert_eq!(made.0, 0, "{made:?}");
}

fn send(connection: &mut Connection, buyer: u64, path: &str, body: &str) -> Option<Response> {
    let buyer = buyer.to_string();
    let headers = [("memberId", buyer.as_str()), ("Idempotency-Key", "once")];
    connection.exchange("POST", path, &headers, body).ok()
}

/// What buyers were answered.
#[derive(Debug, Default)]
struct Answered {
    places: HashMap<u64, u64>,
    orders: HashMap<u64, String>,
    /// The furthest that anybody was told to be sure.
    sure_to: u64,
}

/// Joins, shows presence, and orders if called, until the server is gone.
fn rush(address: SocketAddr, first: u64, answered: &Mutex<Answered>, count: &AtomicU64) {
    let Ok(mut connection) = Connection::open(address) else { return };
    for buyer in (first..).step_by(usize::try_from(CLIENTS).unwrap()) {
        let Some(joined) = send(&mut connection, buyer, LINE, "") else { return };
        assert!(matches!(joined.status, 200 | 201), "{joined:?}");
        let place = joined.json()["place"].as_u64().unwrap();
        if let Some(before) = answered.lock().unwrap().places.insert(buyer, place) {
            assert_eq!(before, place, "buyer {buyer} has another place");
        }
        count.fetch_add(1, Ordering::Relaxed);
        for _twice in 0..2 {
            let Some(seen) = send(&mut connection, buyer, &format!("{LINE}/presence"), "") else { return };
            if seen.json()["standing"] == "called" {
                let body = r#"{"sale":70,"product":5}"#;
                let Some(order) = send(&mut connection, buyer, "/api/v1/orders", body) else { return };
                assert_eq!(order.status, 201, "who was called is never too late: {order:?}");
                let id = order.json()["id"].as_str().unwrap().to_owned();
                answered.lock().unwrap().orders.insert(buyer, id);
                break;
            }
        }
        let Ok(board) = connection.exchange("GET", LINE, &[], "") else { return };
        let sure_to = board.json()["sure_to"].as_u64().unwrap();
        let mut answered = answered.lock().unwrap();
        answered.sure_to = answered.sure_to.max(sure_to);
    }
}

#[test]
fn killed_in_the_middle_of_a_rush_every_place_and_every_promise_holds() {
    let directory = tempfile::tempdir().unwrap();
    let data_dir = directory.path().join("data");
    let mut serving = Serving::demo(&data_dir, &[]);
    make_sale(directory.path(), serving.address);
    let answered = Mutex::new(Answered::default());
    for round in 0..ROUNDS {
        let (address, count) = (serving.address, AtomicU64::new(0));
        std::thread::scope(|scope| {
            for client in 1..=CLIENTS {
                let (answered, count) = (&answered, &count);
                // Those of the rounds before come again, and find their places.
                scope.spawn(move || rush(address, client, answered, count));
            }
            let started = Instant::now();
            while count.load(Ordering::Relaxed) < ANSWERS {
                assert!(started.elapsed() < PATIENCE, "{count:?} answers came");
                std::thread::sleep(Duration::from_millis(1));
            }
            serving.kill();
        });
        let (code, output, errors) = run(directory.path(), &["audit", "--data-dir", "data"]);
        assert_eq!(code, 0, "round {round}: the audit says\n{output}{errors}");
        serving = Serving::demo(&data_dir, &[]);
        check(serving.address, &answered.lock().unwrap());
    }
    let answered = answered.into_inner().unwrap();
    assert_eq!(answered.orders.len() as u64, UNITS, "{} were sure", answered.sure_to);
    assert_eq!(serving.stop(), 0);
}

/// Whoever was answered finds it again.
fn check(address: SocketAddr, answered: &Answered) {
    let mut connection = Connection::open(address).unwrap();
    for (buyer, place) in &answered.places {
        let again = send(&mut connection, *buyer, LINE, "").unwrap();
        assert_eq!((again.status, again.json()["place"].as_u64()), (200, Some(*place)), "buyer {buyer}");
    }
    for (buyer, id) in &answered.orders {
        let again = send(&mut connection, *buyer, "/api/v1/orders", r#"{"sale":70,"product":5}"#).unwrap();
        assert_eq!((again.status, &again.json()["id"]), (201, &Value::from(id.as_str())), "buyer {buyer}");
    }
    let board = connection.exchange("GET", LINE, &[], "").unwrap().json();
    assert!(board["sure_to"].as_u64().unwrap() >= answered.sure_to, "a promise fell: {board}");
    let units: u64 = ["free", "turns", "held", "sold"].iter().map(|name| board[name].as_u64().unwrap()).sum();
    assert_eq!(units, UNITS, "{board}");
}
