//! Rebuilding the gate of a SKU from the ledger, after Redis lost memory, or may have.
//!
//! Fence; wait until no server can accept an order of before the fence any more; read how far the broker's queues go;
//! wait until the ledger has consumed that far; raise the epoch in the ledger, which is the moment that the new gate
//! shows; load it. A reservation of an older epoch that comes later still was answered as unknown; the ledger admits
//! it if units are free, and the new gate hears it by the outbox.
//!
//! One rebuild at a time, of all SKUs that need one by then: a dead Redis takes all of its SKUs. It goes step by step,
//! so the rest of reconciliation goes on meanwhile.

use std::collections::{BTreeSet, HashMap};
use std::time::{Duration, Instant};

use engine::handover::{MarkState, ReturnedHolds, Snapshot};
use engine::{BuyerId, SkuId};

use super::{Engines, Renewal};
use crate::cluster::Core;
use crate::cluster::queues::look;
use crate::cluster::sales::Slot;
use crate::gate::{Closed, GateError};
use crate::ledger::mysql::cluster::{Lease, LedgerError, LedgerMark, QueueRow, Raised, SharedLedger, SkuRow};
use crate::queue::Queue;
use crate::recurring::Recurring;

/// Consumption gets there in this time; later that is logged.
const DRAINS_WITHIN: Duration = Duration::from_secs(10);

/// Gates that are built under one transaction.
const BUILT_AT_ONCE: usize = 200;
/// Marks in one read of the ledger.
const MARKS_PER_READ: usize = 5_000;

#[derive(Debug, Default)]
enum Phase {
    #[default]
    Idle,
    /// Nothing is reserved any more; what was reserved before may be on its way to the broker.
    Fenced { skus: BTreeSet<SkuId>, at: Instant },
    /// What was accepted is in the ledger; these are left to build.
    Building { skus: BTreeSet<SkuId> },
    /// Everything that was accepted is in these queues before these offsets.
    Draining { skus: BTreeSet<SkuId>, until: Vec<(Queue, u64)>, began: Instant },
}

/// The rebuild that goes on, and what asks for the next.
#[derive(Debug)]
pub(super) struct Rebuild {
    asked: BTreeSet<SkuId>,
    phase: Phase,
    waiting: Recurring,
    failing: Recurring,
}

impl Default for Rebuild {
    fn default() -> Rebuild {
        Rebuild {
            asked: BTreeSet::new(),
            phase: Phase::Idle,
            waiting: Recurring::new("gates stay closed, for their rebuild waits"),
            failing: Recurring::new("a gate could not be built; tried again"),
        }
    }
}

impl Rebuild {
    /// Asks for the gate of a SKU to be rebuilt. Asking twice is asking once.
    pub(super) fn ask(&mut self, sku: SkuId) {
        let at_it = match &self.phase {
            Phase::Idle => false,
            Phase::Fenced { skus, .. } | Phase::Draining { skus, .. } | Phase::Building { skus } => {
                skus.contains(&sku)
            }
        };
        if !at_it {
            self.asked.insert(sku);
        }
    }

    /// Goes as far as it can without waiting.
    pub(super) fn step(
        &mut self,
        core: &Core,
        engines: &mut Engines,
        lease: Option<&Lease>,
    ) -> Result<(), LedgerError> {
        self.phase = match std::mem::take(&mut self.phase) {
            Phase::Idle if self.asked.is_empty() => {
                self.waiting.well();
                self.failing.well();
                Phase::Idle
            }
            Phase::Idle => self.begin(engines)?,
            Phase::Fenced { skus, at } if at.elapsed() < core.options.fence_wait => {
                Phase::Fenced { skus, at }
            }
            Phase::Fenced { skus, at } => match ends(core, engines) {
                Ok(until) => Phase::Draining { skus, until, began: Instant::now() },
                Err(why) => {
                    self.waiting.met(&why);
                    Phase::Fenced { skus, at }
                }
            },
            Phase::Draining { skus, until, began } => {
                let rows = engines.ledger.queue_rows()?;
                match until.iter().find_map(|(queue, end)| behind(&rows, queue, *end)) {
                    Some(why) => {
                        if began.elapsed() >= DRAINS_WITHIN {
                            self.waiting.met(&why);
                        }
                        Phase::Draining { skus, until, began }
                    }
                    None => Phase::Building { skus },
                }
            }
            Phase::Building { skus } => self.build_some(core, engines, skus, lease)?,
        };
        Ok(())
    }

    /// Whether there is something to go on with at once.
    pub(super) fn is_building(&self) -> bool {
        matches!(self.phase, Phase::Building { .. })
    }

    fn begin(&mut self, engines: &mut Engines) -> Result<Phase, LedgerError> {
        let asked = std::mem::take(&mut self.asked);
        let rows = engines.ledger.stocks()?;
        // Of a gate that was never built nothing can have been accepted.
        let (new, known): (BTreeSet<_>, BTreeSet<_>) =
            asked.into_iter().partition(|sku| row(&rows, *sku).is_some_and(|row| row.epoch == 0));
        let mut fenced = BTreeSet::new();
        let known: Vec<_> =
            known.into_iter().map(|sku| (sku, row(&rows, sku).map_or(u64::MAX, |row| row.epoch))).collect();
        for ((sku, _), fenced_one) in known.iter().copied().zip(engines.gate.fence(&known)) {
            match fenced_one {
                Ok(()) | Err(GateError::Closed(Closed::Lost)) => drop(fenced.insert(sku)),
                // It is a newer server's.
                Err(GateError::Closed(Closed::NewerFormat(_))) => {}
                Err(error) => {
                    tracing::debug!(%error, sku = sku.0, "a gate that must be rebuilt does not answer yet");
                    self.asked.insert(sku);
                }
            }
        }
        if !new.is_empty() {
            // The others are asked for again when these are built.
            self.asked.extend(fenced);
            return Ok(Phase::Building { skus: new });
        }
        if fenced.is_empty() {
            return Ok(Phase::Idle);
        }
        tracing::warn!(skus = fenced.len(), "gates are fenced, to be rebuilt from the ledger");
        Ok(Phase::Fenced { skus: fenced, at: Instant::now() })
    }

    /// Builds some gates under one raise of their epochs, so that the lease can be renewed between two portions.
    fn build_some(
        &mut self,
        core: &Core,
        engines: &mut Engines,
        mut skus: BTreeSet<SkuId>,
        lease: Option<&Lease>,
    ) -> Result<Phase, LedgerError> {
        let mut renewal = Renewal::new(lease.cloned());
        let portion: Vec<_> = skus.iter().copied().take(BUILT_AT_ONCE).collect();
        let slots: HashMap<_, _> = core.slots().into_iter().map(|slot| (slot.sku, slot)).collect();
        for raised in engines.ledger.raise_epochs(&portion)? {
            if let Some(slot) = slots.get(&raised.sku) {
                renewal.renew(&mut engines.ledger);
                renewal.check()?;
                self.build(core, engines, slot, &raised, &mut renewal)?;
            }
        }
        // A sale may have been changed since its slots were looked up: a pause that was answered must hold.
        core.follow_sales(&mut engines.ledger)?;
        let fresh: Vec<_> = core
            .slots()
            .into_iter()
            .filter(|slot| portion.contains(&slot.sku))
            .map(|slot| (slot.sku, slot.state))
            .collect();
        drop(engines.gate.set_sale(&fresh));
        for sku in portion {
            skus.remove(&sku);
        }
        Ok(if skus.is_empty() { Phase::Idle } else { Phase::Building { skus } })
    }

    fn build(
        &mut self,
        core: &Core,
        engines: &mut Engines,
        slot: &Slot,
        raised: &Raised,
        renewal: &mut Renewal,
    ) -> Result<(), LedgerError> {
        let snapshot = snapshot(&mut engines.ledger, slot, raised, renewal)?;
        renewal.check()?;
        let (epoch, marks) = (snapshot.epoch, snapshot.marks.len());
        let Engines { ledger, gate, .. } = engines;
        match gate.build(slot.sku, &snapshot, &mut || renewal.renew(ledger)) {
            Ok(_) => {
                core.counts.gates_built.inc();
                if let Err(error) = gate.publish_product(slot.product, slot.sku) {
                    tracing::debug!(%error, sku = slot.sku.0, "the edge did not hear of a product");
                }
                tracing::debug!(sku = slot.sku.0, epoch, marks, "the gate was built from the ledger");
            }
            Err(error) => {
                self.failing.met(&format_args!("SKU {}: {error}", slot.sku.0));
                self.asked.insert(slot.sku);
            }
        }
        Ok(())
    }
}

/// The SKU as the ledger has it, under its new epoch.
fn snapshot(
    ledger: &mut SharedLedger,
    slot: &Slot,
    raised: &Raised,
    renewal: &mut Renewal,
) -> Result<Snapshot, LedgerError> {
    let mut portions = raised.marks(MARKS_PER_READ);
    let mut buyers = HashMap::<BuyerId, u64>::new();
    let mut returned_holds = HashMap::<BuyerId, ReturnedHolds>::new();
    let mut marks = Vec::new();
    while let Some(portion) = portions.next(ledger)? {
        renewal.renew(ledger);
        for LedgerMark { mark, returned_at } in portion {
            if slot.limit.is_some() && mark.state == MarkState::Sold {
                *buyers.entry(mark.place.buyer).or_default() += u64::from(mark.place.quantity);
            }
            if let Some(at) = returned_at {
                returned_holds.entry(mark.place.buyer).or_default().add(at);
            }
            marks.push(mark);
        }
    }
    Ok(Snapshot {
        epoch: raised.epoch,
        available: raised.stock.available(),
        sale: slot.state,
        limit: slot.limit,
        buyers: buyers.into_iter().collect(),
        returned_holds: returned_holds.into_iter().collect(),
        marks,
    })
}

fn row(rows: &[SkuRow], sku: SkuId) -> Option<&SkuRow> {
    rows.iter().find(|row| row.sku == sku)
}

/// How far the queues go now that may hold orders; or why that is not known. The name servers forget a broker that died,
/// and its queues may hold orders still; one that was removed from the topic is waited for only if it holds some.
fn ends(core: &Core, engines: &mut Engines) -> Result<Vec<(Queue, u64)>, String> {
    let Engines { ledger, admin, .. } = engines;
    let queues = look(ledger, admin, &core.options.topics.orders).map_err(|error| error.to_string())?;
    queues.ends().map_err(|faults| faults.blocking().unwrap_or_default())
}

/// Why a queue was not consumed as far as it must be, if it was not. One that was retired meanwhile is not waited for.
fn behind(rows: &[QueueRow], queue: &Queue, end: u64) -> Option<String> {
    let name = queue.to_string();
    match rows.iter().find(|row| row.queue == name) {
        Some(row) if row.next_offset >= end || row.is_retired() => None,
        Some(row) => Some(format!("queue {name} is consumed up to {} of {end}", row.next_offset)),
        None if end == 0 => None,
        None => Some(format!("queue {name} is read by no server")),
    }
}
