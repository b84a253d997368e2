//! What a server had begun that froze, and goes on when the gate is another: somebody else may have been promised the units.

use std::process::Command as Process;
use std::time::Duration;

use engine::handover::{GateSale, Grant, Reservation, Settle};
use engine::working_set::{Executed, Operation};
use engine::{Adjust, BuyerId, Command, Fingerprint, OrderId, Placement, Refusal, SkuId, UnixMs};
use server::clock::wall_clock;
use server::gate::{Gate, Reserve, Reserved, SaleSet, Seen};
use server::ledger::mysql::cluster::{Recorded, SharedLedger};
use server::queue::{Options, Producer, Security, message};

use crate::cluster::{audit, operator, wipe_gates};
use crate::cluster_balance::{claim, ledger, started};
use crate::cluster_gate::until;
use crate::engines::Engines;
use crate::sent::send;
use crate::serving::Serving;

/// Of the demo's shop, of which there are 10 of each.
const SKU: SkuId = SkuId(5);

/// What is open at the gate of this SKU is from the last century.
fn age(name: &str) {
    let redis = Engines::shared(&["redis"]).address("redis");
    let (host, port) = redis.rsplit_once(':').unwrap();
    let script = "local open = redis.call('ZRANGE', KEYS[1], 0, -1) for _, id in ipairs(open) do redis.call('ZADD', KEYS[1], 1, id) \
                  end return #open";
    let key = format!("{{{name}:{:08x}}}:t", SKU.0);
    let aged = Process::new("redis-cli")
        .args(["-h", host, "-p", port, "-e", "EVAL", script, "1", &key])
        .output()
        .unwrap();
    assert_eq!(String::from_utf8_lossy(&aged.stdout).trim(), "1", "{aged:?}");
}

/// Waits for a gate of a later epoch with all its units.
fn until_rebuilt(gate: &mut Gate, after: u64) -> Seen {
    let mut last = None;
    until("the gate is of a later epoch, and has all units", || {
        let seen = gate.states(&[SKU]).remove(0).map(|state| state.map(|state| state.seen));
        let text = format!("{seen:?}");
        last = seen.ok().flatten();
        (last.is_some_and(|seen| seen.available == 10 && seen.epoch > after), text)
    });
    last.unwrap()
}

/// As if the ledger had lost that its sale was paused, and every server that had read it were dead: it would never be resumed there.
#[test]
fn a_gate_that_knows_of_a_change_that_nobody_else_knows_of_is_rebuilt() {
    let name = "gate_ahead";
    let dir = tempfile::tempdir().unwrap();
    let (_server, mut gate) = started(dir.path(), name);
    let state = gate.states(&[SKU]).remove(0).unwrap().unwrap();
    let ahead = GateSale { version: state.sale.version + 1_000, paused: true, ..state.sale };
    let set = gate.set_sale(&[(SKU, ahead, state.limit)]).remove(0).unwrap();
    assert_eq!(set.what, SaleSet::Done);
    until_rebuilt(&mut gate, state.seen.epoch);
    let rebuilt = gate.states(&[SKU]).remove(0).unwrap().unwrap();
    assert_eq!(rebuilt.sale, state.sale);
    audit(dir.path());
}

/// Somebody else may have bought the units when it thaws: then its claim must count for nothing.
#[test]
fn a_claim_that_was_given_back_is_not_carried_out_afterwards() {
    let name = "claim_given_back";
    let dir = tempfile::tempdir().unwrap();
    let (_server, mut gate) = started(dir.path(), name);
    let Settle { epoch, .. } = claim(&mut gate, SKU, 3, "frozen");
    age(name);
    until_rebuilt(&mut gate, epoch);
    let correction = Command::Adjust { sku: SKU, how: Adjust::Correct, units: 3, key: "frozen".into() };
    let operation = Operation::of(correction, Grant::Taken { epoch }).unwrap();
    let executed = ledger(name).execute(wall_clock(), &[operation]).unwrap();
    assert!(matches!(executed[..], [Executed::NeedsClaim(_)]), "{executed:?}");
    audit(dir.path());
}

fn order(number: u64, quantity: u32, epoch: u64) -> Reservation {
    let id = OrderId { sku: SKU, hash: number.into() };
    let place = Placement { id, buyer: BuyerId(number.into()), quantity, fingerprint: Fingerprint(0) };
    Reservation { placement: place, buyer_text: None, epoch, reserved_at: UnixMs(0), address: None }
}

fn producer() -> Producer {
    let name_servers = vec![Engines::shared(&["rocketmq"]).address("rocketmq-namesrv")];
    let send_timeout = Duration::from_secs(10);
    Producer::new(Options { name_servers, group: "test".into(), send_timeout, security: Security::default() })
}

fn encoded(order: &Reservation) -> Vec<u8> {
    let mut body = Vec::new();
    message::encode(order, &mut body);
    body
}

fn until_judged(ledger: &mut SharedLedger, order: &Reservation) -> Recorded {
    let mut recorded = None;
    until("the ledger has judged it", || {
        recorded = ledger.lookup(&[order.placement.id]).unwrap().remove(0);
        (recorded.is_some(), format!("{order:?}"))
    });
    recorded.unwrap()
}

/// A shop whose gates were lost and built anew.
struct Rebuilt {
    dir: tempfile::TempDir,
    _server: Serving,
    gate: Gate,
    ledger: SharedLedger,
    producer: Producer,
    /// The gate's epoch before that, and now.
    epochs: [u64; 2],
}

fn rebuilt(name: &str) -> Rebuilt {
    let dir = tempfile::tempdir().unwrap();
    let (server, mut gate) = started(dir.path(), name);
    let before = gate.states(&[SKU]).remove(0).unwrap().unwrap().seen.epoch;
    wipe_gates(name);
    let now = until_rebuilt(&mut gate, before).epoch;
    let (ledger, producer) = (ledger(name), producer());
    Rebuilt { dir, _server: server, gate, ledger, producer, epochs: [before, now] }
}

/// All units of the gate are promised to an order that is on its way. Then one of an older epoch comes, whose server was frozen
/// between its reservation and its message: that one is rejected, and the other kept.
fn the_promised_one_is_kept(rebuilt: Rebuilt, name: &str) {
    let Rebuilt { dir, _server, mut gate, mut ledger, mut producer, epochs: [before, now] } = rebuilt;
    let promised = order(1, 10, now);
    let (record, place) = (encoded(&promised), promised.placement);
    let taken = gate
        .reserve_again(&[Reserve { placement: place, limit: None, record: &record }], None)
        .remove(0)
        .unwrap();
    let Reserved::Taken { at } = taken.what else { panic!("{taken:?}") };
    let late = order(2, 1, before);
    send(&mut producer, name, &[&encoded(&late)]);
    let judged = until_judged(&mut ledger, &late);
    let Recorded::Rejected(rejection) = judged else { panic!("{judged:?}") };
    assert_eq!((rejection.reason, rejection.epoch), (Refusal::SoldOut, before));

    send(&mut producer, name, &[&encoded(&Reservation { reserved_at: at, ..promised.clone() })]);
    let judged = until_judged(&mut ledger, &promised);
    assert!(matches!(judged, Recorded::Order { .. }), "{judged:?}");
    audit(dir.path());
}

#[test]
fn an_order_of_an_older_epoch_takes_no_unit_that_the_gate_has_promised() {
    let name = "frozen_order";
    the_promised_one_is_kept(rebuilt(name), name);
}

/// The gate would refuse everybody, and has promised its units all the same.
#[test]
fn nor_while_its_sale_is_paused() {
    let name = "frozen_paused";
    let mut rebuilt = rebuilt(name);
    for sale in 1..=3 {
        operator(&rebuilt._server, &format!("/api/v1/sales/{sale}/pause"), &format!("pause-{sale}"), "");
    }
    until("its sale is paused at the gate", || {
        let state = rebuilt.gate.states(&[SKU]).remove(0).unwrap().unwrap();
        (state.sale.paused, format!("{state:?}"))
    });
    the_promised_one_is_kept(rebuilt, name);
}

/// It waits for the gate, which can't say, and must not have what may be promised.
#[test]
fn nor_while_its_gate_is_closed() {
    let name = "frozen_closed";
    let mut rebuilt = rebuilt(name);
    let [before, now] = rebuilt.epochs;
    let promised = order(1, 10, now);
    let (record, place) = (encoded(&promised), promised.placement);
    drop(rebuilt.gate.reserve_again(&[Reserve { placement: place, limit: None, record: &record }], None));
    let late = order(2, 1, before);
    // One server alone reads the queues, in their order: what it reads first is the late one.
    assert_eq!(rebuilt.gate.fence(&[(SKU, now)]), [Ok(())]);
    send(&mut rebuilt.producer, name, &[&encoded(&late), &encoded(&promised)]);
    for (order, is_kept) in [(&promised, true), (&late, false)] {
        let judged = until_judged(&mut rebuilt.ledger, order);
        assert_eq!(matches!(judged, Recorded::Order { .. }), is_kept, "{judged:?}");
    }
    audit(rebuilt.dir.path());
}

/// With units to spare it is placed, and the gate knows of it.
#[test]
fn an_order_of_an_older_epoch_is_placed_if_the_gate_has_units() {
    let name = "late_order";
    let Rebuilt { dir, _server, mut gate, mut ledger, mut producer, epochs: [before, _] } = rebuilt(name);
    let late = order(2, 3, before);
    send(&mut producer, name, &[&encoded(&late)]);
    let judged = until_judged(&mut ledger, &late);
    assert!(matches!(judged, Recorded::Order { .. }), "{judged:?}");
    until("the gate has settled it", || {
        let state = gate.states(&[SKU]).remove(0).unwrap().unwrap();
        let open = gate.open_of_each(&[SKU], 0, None, 9).remove(0).unwrap();
        (state.seen.available == 7 && open.what.is_empty(), format!("{state:?} {open:?}"))
    });
    audit(dir.path());
}

/// Its buyer may have been answered, and a broker have lost its message: the gate alone knows of it.
#[test]
fn what_a_fenced_gate_has_reserved_is_an_order_when_it_is_rebuilt() {
    let name = "fenced_order";
    let dir = tempfile::tempdir().unwrap();
    let (_server, mut gate) = started(dir.path(), name);
    let epoch = gate.states(&[SKU]).remove(0).unwrap().unwrap().seen.epoch;
    let reserved = order(1, 3, epoch);
    let (record, place) = (encoded(&reserved), reserved.placement);
    drop(gate.reserve_again(&[Reserve { placement: place, limit: None, record: &record }], None));
    assert_eq!(gate.fence(&[(SKU, epoch)]), [Ok(())]);
    let judged = until_judged(&mut ledger(name), &reserved);
    assert!(matches!(judged, Recorded::Order { .. }), "{judged:?}");
    until("the gate of now has the others", || {
        let seen = gate.states(&[SKU]).remove(0).unwrap().unwrap().seen;
        (seen.available == 7 && seen.epoch > epoch, format!("{seen:?}"))
    });
    audit(dir.path());
}
