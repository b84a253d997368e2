//! The balance of the demo's shop, set in a cluster: all of its items or none, and never a success that moved nothing.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use engine::handover::{Claim, Settle, Verdict};
use engine::{BuyerId, Fingerprint, OrderId, Placement, SkuId};
use server::gate::{ClaimRequest, Claimed, Gate, GateConfig, Reserve, Reserved};
use server::ledger::mysql::Options;
use server::ledger::mysql::cluster::{SharedLedger, correction_id};
use server::ledger::mysql::connect::{Limits, Tls};

use crate::cluster::{SOON, ask_once, audit, configure, serve};
use crate::engines::Engines;
use crate::exchange::Response;
use crate::serving::{OPERATOR, Serving};

/// The goods of the demo's shop, which comes before the sale for people.
const SHOP: std::ops::RangeInclusive<u32> = 0..=1001;

fn set(server: &Serving, balance: u64) -> Response {
    let token = format!("Bearer {OPERATOR}");
    let headers = [("Authorization", token.as_str()), ("Content-Type", "application/json")];
    ask_once(server, "POST", "/api/v1/demo/load", &headers, &format!("{{\"balance\":{balance}}}"))
}

/// Asks again as long as the answer says to; a new gate may be on its way.
fn set_at_last(server: &Serving, balance: u64) {
    let started = Instant::now();
    loop {
        let answer = set(server, balance);
        if answer.status == 200 {
            return;
        }
        assert!(answer.status == 503 && started.elapsed() < SOON, "{answer:?}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

pub(crate) fn gate(name: &str) -> Gate {
    Gate::new(GateConfig::plain(vec![Engines::shared(&["redis"]).address("redis")], name, SOON))
}

/// What each item of the shop has left at the gate, if that is the same for all of them.
#[track_caller]
fn left(gate: &mut Gate, skus: impl Iterator<Item = u32>) -> i64 {
    let skus: Vec<_> = skus.map(SkuId).collect();
    let states = gate.states(&skus).into_iter().map(|state| state.unwrap().unwrap().seen.available);
    let mut left: Vec<_> = states.collect();
    left.dedup();
    assert_eq!(left.len(), 1, "all or none: {left:?}");
    left[0]
}

/// The key that the next balance's corrections have.
fn next_key(name: &str) -> String {
    let mariadb = Engines::shared(&["mariadb"]).address("mariadb");
    let (host, port) = mariadb.rsplit_once(':').unwrap();
    let asked = Command::new("mariadb")
        .args(["--no-defaults", "--protocol=tcp", "--user=root", "--host", host, "--port", port])
        .args(["--skip-column-names", "--execute", &format!("SELECT next_seq FROM {name}.writer")])
        .output()
        .unwrap();
    format!("balance {}", String::from_utf8(asked.stdout).unwrap().trim())
}

pub(crate) fn ledger(name: &str) -> SharedLedger {
    let mariadb = Engines::shared(&["mariadb"]).address("mariadb");
    let (host, port) = mariadb.rsplit_once(':').unwrap();
    let options = Options {
        host: host.to_owned(),
        port: port.parse().unwrap(),
        user: "root".to_owned(),
        password: None,
        database: name.to_owned(),
        tls: Tls::Off,
        limits: Limits::default(),
    };
    SharedLedger::open(&options).unwrap()
}

pub(crate) fn started(directory: &Path, name: &str) -> (Serving, Gate) {
    configure(directory, name, "");
    let server = serve(directory);
    set_at_last(&server, 10);
    (server, gate(name))
}

/// What a setter left behind that died, or never heard whether the ledger had committed.
#[track_caller]
pub(crate) fn claim(gate: &mut Gate, sku: SkuId, units: u64, key: &str) -> Settle {
    let claim = Claim::Correction { id: correction_id(sku, key), units };
    let answer = gate.claim(&[ClaimRequest { claim, record: key.as_bytes() }]).remove(0).unwrap();
    assert!(matches!(answer.what, Claimed::Taken { .. }), "{answer:?}");
    Settle { id: claim.id(), epoch: answer.seen.epoch, verdict: Verdict::ClaimUndone }
}

#[test]
fn a_balance_is_not_reported_as_set_while_claims_of_an_unknown_attempt_are_open() {
    let dir = tempfile::tempdir().unwrap();
    let (server, mut gate) = started(dir.path(), "balance_unknown");
    let key = next_key("balance_unknown");
    let open: Vec<_> = SHOP.map(|sku| claim(&mut gate, SkuId(sku), 3, &key)).collect();
    // Every item has the 7 that are asked for; but these claims may yet be given back.
    let answer = set(&server, 7);
    assert_eq!(answer.status, 503, "{answer:?}");
    assert_eq!(left(&mut gate, SHOP), 7);
    gate.settle(&open);
    assert_eq!(left(&mut gate, SHOP), 10);
    set_at_last(&server, 7);
    assert_eq!(left(&mut gate, SHOP), 7);
    audit(dir.path());
}

/// Two that set a balance at once were both answered that theirs is set.
#[test]
fn one_server_at_a_time_sets_a_balance() {
    let dir = tempfile::tempdir().unwrap();
    let (server, mut gate) = started(dir.path(), "balance_at_once");
    let mut ledger = ledger("balance_at_once");
    // As long as a server takes it for: a longer one would be from before the database's clock went back.
    let lease = ledger.lease("balance", 7, 30_000).unwrap().unwrap();
    assert_eq!(set(&server, 12).status, 503, "another server is at it");
    assert_eq!(left(&mut gate, SHOP), 10);
    ledger.release(&lease).unwrap();
    set_at_last(&server, 12);
    assert_eq!(left(&mut gate, SHOP), 12);
    assert!(ledger.lease("balance", 7, 1).unwrap().is_some(), "it gave the task back");
}

#[test]
fn an_item_whose_gate_is_closed_keeps_every_other_where_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let (server, mut gate) = started(dir.path(), "balance_closed");
    // Of a newer format: its servers' to open, so this one's reconciliation leaves it alone.
    let redis = Engines::shared(&["redis"]).address("redis");
    let (host, port) = redis.rsplit_once(':').unwrap();
    let format = |format: u8| {
        let script = "local gate = redis.call('HGET', KEYS[1], 'gate') return redis.call('HSET', KEYS[1], 'gate', \
                      string.sub(gate, 1, 70) .. string.char(ARGV[1]))";
        let key = "{balance_closed:00000002}:s";
        let status = Command::new("redis-cli")
            .args(["-h", host, "-p", port, "-e", "EVAL", script, "1", key, &format.to_string()])
            .status();
        assert!(status.unwrap().success());
    };
    format(3);
    for balance in [7, 12] {
        assert_eq!(set(&server, balance).status, 503);
        assert_eq!(left(&mut gate, SHOP.filter(|sku| *sku != 2)), 10);
    }
    format(2);
    set_at_last(&server, 12);
    assert_eq!(left(&mut gate, SHOP), 12);
    audit(dir.path());
}

#[test]
fn units_claimed_for_a_balance_go_back_if_one_item_has_too_few() {
    let dir = tempfile::tempdir().unwrap();
    let (server, mut gate) = started(dir.path(), "balance_too_few");
    // The gate takes the key for used up at one item, in the middle: there it refuses, after others were claimed. What is
    // open at that item keeps reconciliation from counting the unit that is missing, until the answer is here.
    let place = Placement {
        id: OrderId { sku: SkuId(500), hash: 1 },
        buyer: BuyerId(1),
        quantity: 1,
        fingerprint: Fingerprint(0),
    };
    let open = gate
        .reserve(&[Reserve { placement: place, limit: None, record: b"of nobody" }], None)
        .remove(0)
        .unwrap();
    assert!(matches!(open.what, Reserved::Taken { .. }), "{open:?}");
    let used = claim(&mut gate, SkuId(500), 1, &next_key("balance_too_few"));
    gate.settle(&[Settle { verdict: Verdict::ClaimKept, ..used }]);
    let answer = set(&server, 4);
    assert_eq!((answer.status, answer.json()["code"].as_str()), (409, Some("correction_too_large")));
    let (others, skus) = (SHOP.filter(|sku| *sku != 500), SHOP.map(SkuId).collect::<Vec<_>>());
    assert_eq!(left(&mut gate, others), 10);
    for (sku, open) in skus.iter().zip(gate.open_of_each(&skus, 0, None, 9)) {
        assert_eq!(open.unwrap().what.len(), usize::from(*sku == SkuId(500)), "{sku:?}");
    }
    gate.settle(&[Settle { id: place.id, epoch: open.seen.epoch, verdict: Verdict::RejectedKept }]);
    // The units that the gate lacks are a drift, which reconciliation mends; then the same can be asked again.
    let started = Instant::now();
    while gate.states(&[SkuId(500)]).remove(0).unwrap().is_none_or(|state| state.seen.available != 10) {
        assert!(started.elapsed() < SOON, "the gate was not rebuilt");
        std::thread::sleep(Duration::from_millis(50));
    }
    set_at_last(&server, 4);
    assert_eq!(left(&mut gate, SHOP), 4);
    audit(dir.path());
}
