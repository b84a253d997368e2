//! The stand-in by itself: what the server's client makes of it, and what it says of what it lacks.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use engine::handover::{GateSale, Snapshot};
use engine::{BuyerId, CoolDown, Fingerprint, OrderId, Placement, Refusal, SkuId, UnixMs};
use server::gate::{Built, Closed, Gate, GateConfig, GateError, Reserve, Reserved};
use simulation::gate::{Dialect, Redis, Shared};

use crate::both::parts;

const SKU: SkuId = SkuId(1);
const NOW: UnixMs = UnixMs(1_772_323_207_251);

fn redis() -> Shared {
    let mut redis = Redis::new(Dialect::Redis, &"1".repeat(40));
    redis.set_now(NOW.0 * 1_000);
    Shared(Arc::new(Mutex::new(redis)))
}

/// A server's client. `idle_check`: zero, so that it looks who is there before each call.
pub(crate) fn config(dial: Arc<dyn server::gate::Dial>) -> GateConfig {
    GateConfig {
        idle_check: Duration::ZERO,
        batch_commands_max: 16,
        cool_down: CoolDown { first_ms: 500 },
        dial: Some(dial),
        ..GateConfig::plain(vec!["simulated".to_owned()], "db", Duration::from_secs(1))
    }
}

fn reserve(gate: &mut Gate, hash: u128) -> Result<Reserved, GateError> {
    let id = OrderId { sku: SKU, hash };
    let place = Placement { id, buyer: BuyerId(hash), quantity: 1, fingerprint: Fingerprint(7) };
    let answer =
        gate.reserve(&[Reserve { placement: place, limit: None, record: b"record" }], Some(NOW)).remove(0);
    answer.map(|answer| answer.what)
}

fn build(gate: &mut Gate) {
    let sale =
        GateSale { version: 1, starts_at: UnixMs(0), ends_at: NOW.plus(1), paused: false, ended: false };
    let (buyers, returned_holds, marks) = (Vec::new(), Vec::new(), Vec::new());
    let snapshot = Snapshot { epoch: 1, available: 2, sale, limit: None, buyers, returned_holds, marks };
    assert!(matches!(gate.build(SKU, &snapshot, &mut || ()), Ok(Built::Open(_))));
}

/// With a clock that went back, nothing was open, and a gate and the ledger differed at rest that were not.
#[test]
fn what_is_open_is_open_by_any_clock() {
    let redis = redis();
    let mut gate = Gate::new(config(Arc::new(redis.clone())));
    build(&mut gate);
    assert_eq!(reserve(&mut gate, 1), Ok(Reserved::Taken { at: NOW }));
    let mut open = |age_ms| gate.open_reservations(SKU, age_ms, 10).unwrap().len();
    assert_eq!((open(0), open(1)), (1, 0));
    redis.0.lock().unwrap().set_now(1_000 * (NOW.0 - 3_600_000));
    assert_eq!((open(0), open(1)), (1, 0));
}

#[test]
fn servers_share_it_and_a_new_run_closes_its_gates() {
    let redis = redis();
    let [mut one, mut other] = [(); 2].map(|()| Gate::new(config(Arc::new(redis.clone()))));
    build(&mut one);
    assert_eq!(reserve(&mut one, 1), Ok(Reserved::Taken { at: NOW }));
    assert_eq!(reserve(&mut other, 2), Ok(Reserved::Taken { at: NOW }));
    assert_eq!(reserve(&mut one, 3), Ok(Reserved::Refused(Refusal::SoldOut)));
    redis.0.lock().unwrap().set_now(1_000 * (NOW.0 + 1));
    assert_eq!(reserve(&mut one, 4), Ok(Reserved::Refused(Refusal::Ended)));
    redis.0.lock().unwrap().set_run(&"2".repeat(40));
    assert_eq!(reserve(&mut other, 5), Err(GateError::Closed(Closed::OtherRun)));
}

#[test]
fn what_it_lacks_is_named() {
    let redis = redis();
    let mut redis = redis.0.lock().unwrap();
    let mut run = |text: &str| {
        let sha = redis.answer(&parts(&[b"SCRIPT", b"LOAD", text.as_bytes()]));
        String::from_utf8(redis.answer(&parts(&[b"EVALSHA", &sha[5..45], b"0"]))).unwrap()
    };
    for (script, lacked) in [
        ("return redis.call('LPUSH', 'a', 'b')", "'lpush'"),
        ("return redis.call('SCAN', '0', 'MATCH', 'a?')", "MATCH a?"),
        ("return redis.pcall('GET', 'a')", "'pcall'"),
        ("return cjson.encode({})", "'cjson'"),
        ("return struct.pack('<i4', 1)", "'<i4'"),
        ("return struct.size('>I8')", "'size'"),
    ] {
        let reply = run(script);
        assert!(reply.starts_with('-') && reply.contains(lacked), "{script}: {reply}");
    }
}
