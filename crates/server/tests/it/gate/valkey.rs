//! The gate on real Valkey servers: what Redis has to do, they have to do.

use std::path::PathBuf;
use std::sync::OnceLock;

use super::servers::Redis;
use super::{conformance, faults, fencing};
use crate::engines::Engines;

/// As `dev/up valkey` fetches and runs it.
fn program() -> &'static PathBuf {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        let pid = Engines::shared(&["valkey"]).member("valkey").pid;
        std::fs::read_link(format!("/proc/{pid}/exe")).unwrap()
    })
}

fn start(arguments: &[&str]) -> Redis {
    Redis::start_as(program(), arguments)
}

#[test]
fn histories_on_valkey_come_to_what_the_book_says() {
    conformance::histories_on(&start(&[]));
}

#[test]
fn the_window_is_judged_by_the_time_of_the_valkey_server() {
    conformance::window_on(&start(&[]));
}

#[test]
fn clients_that_race_for_the_last_units_on_valkey_never_oversell() {
    conformance::race_on(&start(&[]));
}

#[test]
fn a_valkey_that_forgot_or_may_have_forgotten_sells_nothing() {
    fencing::wipe(&start(&[]));
    fencing::restarts(start);
    faults::promotion(start);
}

#[test]
fn valkey_is_called_by_its_name() {
    let valkey = start(&["--appendonly", "yes"]);
    let mut gate = valkey.gate();
    let address = valkey.address();
    let shown = gate.health()[0].settings.to_string();
    assert!(
        shown.starts_with(&format!("valkey {address}: appendonly = yes, appendfsync = everysec")),
        "{shown}"
    );
    valkey.command::<()>(&["CONFIG", "SET", "maxmemory-policy", "allkeys-lru"]);
    let fault = server::gate::fault(&gate.health()).unwrap();
    assert_eq!(fault, format!("valkey {address}: maxmemory-policy is allkeys-lru, and must be noeviction"));
}
