//! Keeping this server's view of sales and stock fresh: its catalog, the stock on its pages, and its flags of what is
//! sold out.
//!
//! A flag is a lease: it is believed for half a second after the gate said so, then the gate is asked again with the
//! next order. Two sights of one SKU are in order by (epoch, seq), so an old one never hides a new one.
//!
//! Called by: the cluster's threads.

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use engine::SkuId;

use super::Core;
use super::health::Need;
use crate::catalog::Catalog;
use crate::ledger::mysql::shared::{SharedLedger, SkuRow};
use crate::stock::{Gate, NodeHealth, Seen};

/// Between two looks at the gate.
const INTERVAL: Duration = Duration::from_millis(200);
/// Between two looks at what the ledger has sold and holds, and at Redis' settings.
const SLOW_INTERVAL: Duration = Duration::from_secs(1);
/// For how long what the gate said is believed.
const SOLD_OUT_LEASE_MS: u64 = 500;

/// The newest sight of each SKU.
#[derive(Debug, Default)]
pub(super) struct StockView {
    newest: Mutex<HashMap<SkuId, (u64, u64)>>,
}

impl StockView {
    /// Takes over what the gate said, unless something newer is known.
    pub(super) fn observe(&self, core: &Core, sku: SkuId, seen: Seen) {
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
pub(super) fn run(core: &Core, mut gate: Gate, mut ledger: SharedLedger) {
    let mut looked_slowly: Option<Instant> = None;
    while !core.stopping.load(Ordering::Acquire) {
        core.publish_sales(&mut ledger);
        look_at_gate(core, &mut gate);
        if looked_slowly.is_none_or(|looked| looked.elapsed() >= SLOW_INTERVAL) {
            looked_slowly = Some(Instant::now());
            look_at_ledger(core, &mut ledger);
            let nodes = gate.health();
            let fault = crate::stock::fault(&nodes);
            if let Some(fault) = &fault {
                tracing::debug!(fault, "the gate has a fault");
            }
            let serves = |node: &NodeHealth| node.fault.is_none() || evicts(node);
            core.health.note(Need::Gate, nodes.iter().all(serves));
            let keeps = !nodes.iter().any(evicts);
            core.health.note(Need::GateKeepsKeys, keeps);
        }
        core.wait(INTERVAL);
    }
}

fn evicts(node: &NodeHealth) -> bool {
    !matches!(node.maxmemory_policy.as_str(), "" | "noeviction")
}

fn look_at_gate(core: &Core, gate: &mut Gate) {
    let catalog = core.shelf.current();
    let numbers = 0..u32::try_from(catalog.skus.len()).expect("SKUs are numbered by u32");
    let skus: Vec<_> = numbers.map(SkuId).collect();
    let mut open = 0;
    for (sku, state) in skus.iter().zip(gate.states(&skus)) {
        if let Ok(Some(state)) = state
            && state.closed.is_none()
        {
            core.stock.observe(core, *sku, state.seen);
            open += 1;
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
            Err(error) => tracing::warn!(%error, sku = sku.0, "a gate could not be fenced"),
        }
    }
}

pub(super) fn look_at_ledger(core: &Core, ledger: &mut SharedLedger) {
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
pub(super) fn publish_stocks(catalog: &Catalog, stocks: &[SkuRow]) {
    for row in stocks {
        if let Some(sku) = catalog.sku(row.sku) {
            sku.counters.publish_committed(row.stock.total(), row.stock.held(), row.stock.sold());
        }
    }
}
