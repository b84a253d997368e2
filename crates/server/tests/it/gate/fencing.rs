//! A gate that may have forgotten something sells nothing until it is rebuilt.

use std::time::Duration;

use engine::handover::{Settle, Verdict};
use engine::{OrderId, Refusal, SkuId};
use server::gate::{Closed, Gate, GateConfig, GateError, Reserved, Why};

use super::servers::{Redis, until};
use super::{available, build, fresh, is_taken, place, reserve};

const SKU: SkuId = SkuId(1);

#[test]
fn a_wiped_memory_is_lost_and_never_sold_out() {
    wipe(&Redis::start(&[]));
}

pub(super) fn wipe(redis: &Redis) {
    let mut gate = redis.gate();
    build(&mut gate, SKU, &fresh(1, 1, None));
    assert!(is_taken(&reserve(&mut gate, place(SKU, 1, 9, 1))));
    assert_eq!(reserve(&mut gate, place(SKU, 2, 9, 1)).unwrap().what, Reserved::Refused(Refusal::SoldOut));
    redis.command::<()>(&["FLUSHALL"]);
    let lost = GateError::Closed(Closed::Lost);
    let id = OrderId { sku: SKU, hash: 1 };
    assert_eq!(reserve(&mut gate, place(SKU, 2, 9, 1)), Err(lost.clone()));
    assert_eq!(gate.find(&[id]), [Err(lost.clone())]);
    assert_eq!(gate.settle(&[Settle { id, epoch: 1, verdict: Verdict::Placed }]), [Err(lost)]);
    assert_eq!(gate.states(&[SKU]), [Ok(None)]);
    assert_eq!(redis.command::<i64>(&["DBSIZE"]), 0, "a lost gate is not written to");
    build(&mut gate, SKU, &fresh(2, 4, None));
    assert!(is_taken(&reserve(&mut gate, place(SKU, 2, 9, 1))));
}

#[test]
fn a_restart_closes_the_gate_with_its_data_there_or_not() {
    restarts(Redis::start);
}

pub(super) fn restarts(start: impl Fn(&[&str]) -> Redis) {
    for (arguments, closed) in
        [(&["--appendonly", "yes", "--appendfsync", "always"][..], Closed::OtherRun), (&[][..], Closed::Lost)]
    {
        let mut redis = start(arguments);
        let mut gate = redis.gate();
        build(&mut gate, SKU, &fresh(1, 5, None));
        assert!(is_taken(&reserve(&mut gate, place(SKU, 1, 9, 1))));
        redis.kill();
        redis.start_again();
        until("redis answers", || redis.pings());
        // The connection is gone, and a command that was written to it may have been carried out.
        let got = reserve(&mut gate, place(SKU, 2, 9, 1));
        assert_eq!(got, Err(GateError::Unknown(Why::ConnectionLost)));
        assert_eq!(reserve(&mut gate, place(SKU, 2, 9, 1)), Err(GateError::Closed(closed)));
        build(&mut gate, SKU, &fresh(2, 4, None));
        assert!(is_taken(&reserve(&mut gate, place(SKU, 2, 9, 1))));
        assert_eq!(available(&mut gate, SKU), 3);
    }
}

#[test]
fn an_idle_connection_is_looked_at_before_it_is_used() {
    let mut redis = Redis::start(&["--appendonly", "yes", "--appendfsync", "always"]);
    let mut gate = Gate::new(GateConfig { idle_check: Duration::ZERO, ..redis.config() });
    build(&mut gate, SKU, &fresh(1, 5, None));
    redis.kill();
    redis.start_again();
    until("redis answers", || redis.pings());
    // Nothing was written to the dead connection, so nothing is unknown.
    assert_eq!(reserve(&mut gate, place(SKU, 2, 9, 1)), Err(GateError::Closed(Closed::OtherRun)));
}

#[test]
fn a_state_older_than_the_one_that_was_seen_is_fenced_for_everybody() {
    let redis = Redis::start(&[]);
    let (mut gate, mut other) = (redis.gate(), redis.gate());
    build(&mut gate, SKU, &fresh(1, 5, None));
    let old: Vec<u8> = redis::cmd("DUMP").arg("{db:00000001}:s").query(&mut redis.connect()).unwrap();
    for hash in [1, 2] {
        assert!(is_taken(&reserve(&mut gate, place(SKU, hash, 9, 1))));
    }
    assert!(is_taken(&reserve(&mut other, place(SKU, 3, 9, 1))));
    // The same run of Redis, but older data: what a backup put back by hand would do.
    let mut connection = redis.connect();
    let mut restore = redis::cmd("RESTORE");
    restore.arg("{db:00000001}:s").arg(0).arg(old).arg("REPLACE");
    restore.query::<()>(&mut connection).unwrap();

    let got = reserve(&mut gate, place(SKU, 4, 9, 1));
    assert_eq!(got, Err(GateError::Unknown(Why::RanBackwards)));
    assert_eq!(gate.take_suspects(), [SKU]);
    for gate in [&mut gate, &mut other] {
        assert_eq!(reserve(gate, place(SKU, 5, 9, 1)), Err(GateError::Closed(Closed::Fenced)));
    }
    build(&mut gate, SKU, &fresh(2, 2, None));
    for (hash, gate) in [(6, &mut gate), (7, &mut other)] {
        assert!(is_taken(&reserve(gate, place(SKU, hash, 9, 1))));
    }
    assert_eq!(gate.take_suspects(), []);
}
