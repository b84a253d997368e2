//! The operators' own listener, through the real program: what is printed, and what is served where.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::exchange::Connection;
use crate::serving::{OPERATOR, Serving};
use crate::{doorbuster, outcome};

#[test]
fn operators_have_a_listener_of_their_own_and_the_public_sees_nothing_of_it() {
    let directory = tempfile::tempdir().unwrap();
    let mut command = doorbuster(directory.path());
    command
        .args(["serve", "--demo", "--listen", "127.0.0.1:0", "--data-dir", "data"])
        .env("DOORBUSTER_HTTP_OPERATOR_LISTEN", "127.0.0.1:0")
        .env("DOORBUSTER_OPERATOR_TOKEN", OPERATOR)
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    let mut server = Ended(command.spawn().unwrap());
    let mut lines = BufReader::new(server.0.stdout.take().unwrap()).lines();
    let mut address = |name: &str| -> SocketAddr {
        let line = lines.by_ref().map(Result::unwrap).find(|line| line.starts_with(name)).unwrap();
        line.split("://").nth(1).unwrap().split('/').next().unwrap().parse().unwrap()
    };
    let (public, operators) = (address("serving "), address("operators "));
    let bearer = format!("Bearer {OPERATOR}");
    let ask = |address, path: &str| {
        let headers = [("Authorization", bearer.as_str())];
        Connection::open(address).unwrap().exchange("GET", path, &headers, "").unwrap().status
    };
    for (path, at_public, at_operators) in [
        ("/metrics", 404, 200),
        ("/api/v1/payments/refunds-due", 404, 200),
        ("/api/v1/sales", 200, 200),
        ("/healthz", 200, 200),
        ("/readyz", 200, 200),
        ("/seckill_3_30.html", 200, 404),
    ] {
        assert_eq!((ask(public, path), ask(operators, path)), (at_public, at_operators), "{path}");
    }
    for (address, fine) in [(operators, true), (public, false)] {
        let mut pause = doorbuster(directory.path());
        pause.args(["sale", "pause", "3", "--server", &format!("http://{address}")]);
        let (code, _, stderr) = outcome(pause.env("DOORBUSTER_OPERATOR_TOKEN", OPERATOR).output().unwrap());
        assert_eq!(code == 0, fine, "{stderr}");
    }
}

/// By one connection after another, which one event loop reads in this order.
#[test]
fn the_feed_waits_for_what_happens_next() {
    const WAITING_MAX: usize = 16;
    let directory = tempfile::tempdir().unwrap();
    let mut command = doorbuster(directory.path());
    command.args(["serve", "--demo", "--listen", "127.0.0.1:0", "--data-dir", "data"]);
    let server = Serving::start(command);
    let bearer = format!("Bearer {OPERATOR}");
    let headers = [("Authorization", bearer.as_str())];
    let ask = |since: &Value, wait_s: u32| {
        let mut connection = Connection::open_patient(server.address, Duration::from_secs(60)).unwrap();
        let path = format!("/api/v1/orders?since={since}&wait={wait_s}");
        connection.send("GET", &path, &headers, "").unwrap();
        connection
    };
    let page = |mut connection: Connection| {
        let answer = connection.read().unwrap();
        assert_eq!(answer.status, 200, "{answer:?}");
        answer.json()
    };
    let orders = |page: &Value| page["orders"].as_array().unwrap().len();
    let place = |buyer: &str| {
        let headers = [("memberId", buyer)];
        let mut connection = Connection::open(server.address).unwrap();
        let body = r#"{"sale": 3, "product": 29}"#;
        assert_eq!(connection.exchange("POST", "/api/v1/orders", &headers, body).unwrap().status, 201);
    };
    let end = page(ask(&json!(0), 30))["cursor"].clone();
    let asked = Instant::now();
    let nothing = page(ask(&end, 1));
    assert_eq!((&nothing["cursor"], orders(&nothing)), (&end, 0));
    assert!(asked.elapsed() >= Duration::from_secs(1));

    let mut waiting: Vec<_> = (0..=WAITING_MAX).map(|_| ask(&end, 30)).collect();
    assert_eq!(orders(&page(waiting.remove(0))), 0, "one more than may wait: the first is answered");
    place("1");
    let answers: Vec<_> = waiting.into_iter().map(page).collect();
    assert!(answers.iter().all(|answer| orders(answer) == 1), "{answers:?}");

    let end = &answers[0]["cursor"];
    let mut waiting = ask(end, 30);
    // Its bytes came before this answer's.
    assert_eq!(ask(end, 31).read().unwrap().status, 400);
    let asked = Instant::now();
    assert_eq!(server.stop(), 0);
    assert!(asked.elapsed() < Duration::from_secs(20), "a stop waits for nobody who waits");
    assert_eq!(waiting.read().unwrap().json()["orders"], json!([]));
}

/// A server that is killed when the test is over.
struct Ended(std::process::Child);

impl Drop for Ended {
    fn drop(&mut self) {
        // It may have ended by itself, which is no error here.
        drop(self.0.kill());
        drop(self.0.wait());
    }
}
