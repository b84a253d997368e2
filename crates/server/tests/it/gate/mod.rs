//! The gate on real Redis servers.

mod basics;
mod cluster;
mod conformance;
mod faults;
mod fencing;
mod figures;
mod formats;
mod refusals;
mod sentinel;
pub(crate) mod servers;
mod shop;
mod tls;
mod valkey;

use engine::handover::{GateSale, Snapshot};
use engine::{BuyerId, Fingerprint, OrderId, Placement, SkuId, UnixMs};
use server::clock::wall_clock;
use server::gate::{Built, Gate, GateAnswer, GateError, Reserve, Reserved};

/// A sale that is on, whatever the server's clock says.
pub(crate) fn on() -> GateSale {
    GateSale { version: 1, starts_at: UnixMs(0), ends_at: UnixMs(u64::MAX), paused: false, ended: false }
}

/// A SKU of which nothing was sold yet.
pub(crate) fn fresh(epoch: u64, available: u64, limit: Option<u32>) -> Snapshot {
    Snapshot {
        epoch,
        available,
        sale: on(),
        limit,
        buyers: Vec::new(),
        returned_holds: Vec::new(),
        marks: Vec::new(),
    }
}

pub(crate) fn build(gate: &mut Gate, sku: SkuId, snapshot: &Snapshot) {
    // Only a closed gate is replaced; one that is not there can't be closed.
    drop(gate.fence(&[(sku, snapshot.epoch)]));
    let built = gate.build(sku, snapshot, &mut || ()).unwrap();
    assert!(matches!(built, Built::Open(_)), "{built:?}");
}

/// Every other buyer is a hash, which ends in the number of the one before.
pub(crate) fn buyer_of(number: u64) -> BuyerId {
    let even = u128::from(number & !1);
    if number.is_multiple_of(2) { BuyerId(even) } else { BuyerId::of_hash(even) }
}

pub(crate) fn place(sku: SkuId, hash: u128, buyer: u64, quantity: u32) -> Placement {
    Placement { id: OrderId { sku, hash }, buyer: buyer_of(buyer), quantity, fingerprint: Fingerprint(7) }
}

/// Of a SKU without a limit.
pub(crate) fn reserve(gate: &mut Gate, place: Placement) -> Result<GateAnswer<Reserved>, GateError> {
    reserve_of(gate, place, None)
}

pub(crate) fn reserve_of(
    gate: &mut Gate,
    place: Placement,
    limit: Option<u32>,
) -> Result<GateAnswer<Reserved>, GateError> {
    gate.reserve(&[Reserve { placement: place, limit, record: b"record" }], Some(wall_clock())).remove(0)
}

pub(crate) fn is_taken(answer: &Result<GateAnswer<Reserved>, GateError>) -> bool {
    matches!(answer, Ok(GateAnswer { what: Reserved::Taken { .. }, .. }))
}

pub(crate) fn available(gate: &mut Gate, sku: SkuId) -> i64 {
    gate.states(&[sku]).remove(0).unwrap().unwrap().seen.available
}
