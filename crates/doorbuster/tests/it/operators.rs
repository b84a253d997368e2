//! The operators' own listener, through the real program: what is printed, and what is served where.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::Stdio;

use crate::exchange::Connection;
use crate::serving::OPERATOR;
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

/// A server that is killed when the test is over.
struct Ended(std::process::Child);

impl Drop for Ended {
    fn drop(&mut self) {
        // It may have ended by itself, which is no error here.
        drop(self.0.kill());
        drop(self.0.wait());
    }
}
