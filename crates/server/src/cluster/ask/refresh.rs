//! Keeping this server's view of sales and stock fresh: its catalog, the stock on its pages, and its flags of what is
//! sold out.
//!
//! A flag is a lease: it is believed for half a second after the gate said so, then the gate is asked again with the
//! next order. Two sights of one SKU are in order by (epoch, seq), so an old one never hides a new one.

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use engine::SkuId;

use crate::cluster::Core;
use crate::gate::{Closed, Gate, GateError, GateState, NodeHealth, Seen};
use crate::intake::Need;
use crate::intake::catalog::Catalog;
use crate::ledger::mysql::cluster::{SharedLedger, SkuRow};

/// Between two looks at the gate.
const INTERVAL: Duration = Duration::from_millis(200);
/// Between two looks at what the ledger has sold and holds, and at Redis' settings.
const SLOW_INTERVAL: Duration = Duration::from_secs(1);
/// For how long what the gate said is believed.
const SOLD_OUT_LEASE_MS: u64 = 500;

/// The newest sight of each SKU.
#[derive(Debug, Default)]
pub(in crate::cluster) struct StockView {
    newest: Mutex<HashMap<SkuId, (u64, u64)>>,
}

impl StockView {
    /// Takes over what the gate said, unless something newer is known.
    pub(in crate::cluster) fn observe(&self, core: &Core, sku: SkuId, seen: Seen) {
        let mut newest = self.newest.lock().unwrap_or_else(PoisonError::into_inner);
        let known = newest.entry(sku).or_insert((0, 0));
        if *known > (seen.epoch, seen.seq) {
            return;
        }
        *known = (seen.epoch, seen.seq);
        let catalog = core.shelf.current();
        if let Some(sku) = catalog.sku(sku) {
            let available = u64::try_from(seen.available).unwrap_or(0);
            sku.counters.publish_gate(available, core.clock.now().plus(SOLD_OUT_LEASE_MS));
        }
    }
}

/// Runs until the server stops.
pub(in crate::cluster) fn run(core: &Core, mut gate: Gate, mut ledger: SharedLedger) {
    let mut looked_slowly: Option<Instant> = None;
    while !core.stopping.load(Ordering::Acquire) {
        core.publish_sales(&mut ledger);
        let unread = look_at_gate(core, &mut gate);
        let slowly = looked_slowly.is_none_or(|looked| looked.elapsed() >= SLOW_INTERVAL);
        if slowly || unread.is_some() || !core.health.is_met(Need::Gate) {
            judge_gate(core, &mut gate, unread);
        }
        if slowly {
            looked_slowly = Some(Instant::now());
            look_at_ledger(core, &mut ledger);
        }
        core.wait(INTERVAL);
    }
}

/// Whether orders can be taken as far as the gate goes. Nobody else says so: two that see different things would
/// contradict each other.
fn judge_gate(core: &Core, gate: &mut Gate, mut unread: Option<GateError>) {
    let (evicting, nodes): (Vec<_>, Vec<_>) = gate.health().into_iter().partition(evicts);
    let mut fault = crate::gate::fault(&nodes);
    if fault.is_none() && unread.is_some() {
        // A connection that was lost is there again by now.
        unread = look_at_gate(core, gate);
        fault = unread.map(|error| error.to_string());
    }
    core.health.note_fault(Need::Gate, fault);
    core.health.note(Need::GateKeepsKeys, evicting.is_empty());
}

fn evicts(node: &NodeHealth) -> bool {
    !matches!(node.maxmemory_policy.as_str(), "" | "noeviction")
}

/// Reads the stock of all SKUs. Returns why one could not be read, if so; a gate that is closed is read.
fn look_at_gate(core: &Core, gate: &mut Gate) -> Option<GateError> {
    let catalog = core.shelf.current();
    let numbers = 0..u32::try_from(catalog.skus.len()).expect("SKUs are numbered by u32");
    let skus: Vec<_> = numbers.map(SkuId).collect();
    let (mut open, mut unread) = (0, None);
    for (sku, state) in skus.iter().zip(gate.states(&skus)) {
        match state {
            Ok(Some(state)) if state.closed.is_none() => {
                core.stock.observe(core, *sku, state.seen);
                open += 1;
            }
            Ok(Some(GateState { closed: Some(closed @ Closed::NewerFormat(_)), .. })) => {
                unread = Some(GateError::Closed(closed));
            }
            Ok(_) => {}
            Err(error) => unread = Some(error),
        }
    }
    core.counts.gates_open.set(open);
    let mut suspects = gate.take_suspects();
    suspects.extend(core.take_suspects());
    // Closed for everybody, and rebuilt by whoever reconciles.
    let suspects: Vec<_> = suspects.into_iter().map(|sku| (sku, u64::MAX >> 12)).collect();
    for ((sku, _), fenced) in suspects.iter().zip(gate.fence(&suspects)) {
        match fenced {
            Ok(()) => tracing::warn!(sku = sku.0, "a gate that has lost something is fenced"),
            Err(error) => core.warnings.fencing.met(&format_args!("SKU {}: {error}", sku.0)),
        }
    }
    unread
}

pub(in crate::cluster) fn look_at_ledger(core: &Core, ledger: &mut SharedLedger) {
    match ledger.stocks() {
        Ok(stocks) => {
            core.health.note(Need::Ledger, true);
            publish_stocks(&core.shelf.current(), &stocks);
        }
        Err(error) => {
            tracing::debug!(%error, "the ledger's stock could not be read");
            core.health.note(Need::Ledger, false);
        }
    }
}

/// Takes over what the ledger says of each SKU.
pub(in crate::cluster) fn publish_stocks(catalog: &Catalog, stocks: &[SkuRow]) {
    for row in stocks {
        if let Some(sku) = catalog.sku(row.sku) {
            sku.counters.publish_committed(row.stock.total(), row.stock.held(), row.stock.sold());
        }
    }
}
