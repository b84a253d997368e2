//! Rebuilding the gate of a SKU from the ledger, after Redis lost memory, or may have.
//!
//! Fence; wait until no server can accept an order from before the fence any more; read how far the broker's queues go;
//! wait until the ledger has consumed that far; take over what the fenced gate has reserved and no queue had; raise the epoch
//! in the ledger, which is the moment that the new gate shows; load it. A reservation of an older epoch that comes later still was answered as unknown; it takes its units at the
//! new gate, or is rejected (`consume`).
//!
//! One rebuild at a time, step by step, so the rest of reconciliation goes on meanwhile. A dead Redis takes all of its
//! SKUs: those that sell come first, all at once, then new ones, those that somebody wants, and the others in portions. What is
//! rebuilt gives way to what is needed sooner.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use engine::handover::{MarkState, ReturnedHolds, Snapshot};
use engine::{BuyerId, SkuId};

use super::fenced::roll_forward_fenced;
use super::{Engines, Renewal};
use crate::cluster::Core;
use crate::cluster::queues::{LookError, look};
use crate::cluster::sales::GateItem;
use crate::gate::limits;
use crate::ledger::mysql::cluster::{ClusterLedger, Lease, LedgerError, LedgerMark, Marks, QueueRow, Raised};
use crate::queue::Queue;
use crate::recurring::Recurring;
use crate::time::Instant;

/// Consumption gets there in this time; later that is logged.
const DRAINS_WITHIN: Duration = Duration::from_secs(10);

/// Gates that are built under one transaction.
const BUILT_AT_ONCE: usize = 1_000;
/// Of those that are only wanted: of a sale that is over each has all of its orders, and what sells waits for no more than one.
const WANTED_BUILT_AT_ONCE: usize = 1;
/// Orders of gates that are built together, unless one alone has more: their marks are in memory.
const ORDERS_AT_ONCE: u64 = 50_000;
/// Gates in one rebuild that gives way to those that sell.
const UNHURRIED_MAX: usize = 10_000;
/// In one step: a ledger that has lost its tail has lost few of them. With more a gate is built at a later step.
const RAISES_MAX: usize = 8;
/// Marks in one read of the ledger.
const MARKS_PER_READ: usize = 5_000;

/// How soon a gate is needed, the soonest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Urgency {
    /// It sells, or will soon.
    Selling,
    /// It was never built: nothing was accepted by it, so there is nothing to wait for.
    New,
    /// Somebody asked for it, which anybody can who asks for an order of a sale that is over.
    Wanted,
    Unhurried,
}

const URGENCIES: [Urgency; 4] = [Urgency::Selling, Urgency::New, Urgency::Wanted, Urgency::Unhurried];

#[derive(Debug, Default)]
enum Phase {
    #[default]
    Idle,
    /// Nothing is reserved any more; what was reserved before may be on its way to the broker.
    Fenced { skus: BTreeSet<SkuId>, at: Instant },
    /// What was accepted is in the ledger; these are left to build.
    Building { skus: BTreeSet<SkuId> },
    /// Everything that was accepted is in these queues before these offsets.
    /// `late`: not consumed in time, and whether a broker was silent then.
    Draining { skus: BTreeSet<SkuId>, until: Vec<(Queue, u64)>, began: Instant, late: Option<bool> },
}

/// The rebuild that goes on, and what asks for the next.
#[derive(Debug)]
pub(super) struct Rebuild {
    /// By their urgency, and none in two.
    asked: [BTreeSet<SkuId>; URGENCIES.len()],
    phase: Phase,
    /// Of those of the phase.
    urgency: Urgency,
    /// How far the queues go is not known, for a broker does not answer this server.
    waits_for_a_broker: bool,
    waiting: Recurring,
    failing: Recurring,
}

impl Default for Rebuild {
    fn default() -> Rebuild {
        Rebuild {
            asked: Default::default(),
            phase: Phase::Idle,
            urgency: Urgency::Unhurried,
            waits_for_a_broker: false,
            waiting: Recurring::new("gates stay closed, for their rebuild waits"),
            failing: Recurring::new("a gate could not be built; tried again"),
        }
    }
}

impl Rebuild {
    /// Asks for the gate of a SKU to be rebuilt. Asking twice is asking once.
    pub(super) fn ask(&mut self, sku: SkuId, urgency: Urgency) {
        if let Some(skus) = self.phase.skus()
            && skus.contains(&sku)
        {
            if self.urgency <= urgency {
                return;
            }
            skus.remove(&sku);
        }
        let (sooner, later) = self.asked.split_at_mut(urgency as usize);
        if sooner.iter().any(|asked| asked.contains(&sku)) {
            return;
        }
        for asked in later.iter_mut() {
            asked.remove(&sku);
        }
        later[0].insert(sku);
    }

    /// Goes as far as it can without waiting.
    pub(super) fn step(
        &mut self,
        core: &Core,
        engines: &mut Engines,
        lease: Option<&Lease>,
    ) -> Result<(), LedgerError> {
        if self.next().is_some_and(|next| next < self.urgency) {
            let phase = std::mem::take(&mut self.phase).skus().map(std::mem::take);
            self.again(phase.unwrap_or_default());
        }
        self.waits_for_a_broker = false;
        self.phase = match std::mem::take(&mut self.phase) {
            Phase::Idle if self.next().is_none() => {
                self.waiting.well();
                self.failing.well();
                Phase::Idle
            }
            Phase::Idle => self.begin(core, engines)?,
            Phase::Fenced { skus, at } if at.elapsed() < core.options.fence_wait => {
                Phase::Fenced { skus, at }
            }
            Phase::Fenced { skus, at } => match ends(core, engines) {
                Ok(until) => Phase::Draining { skus, until, began: Instant::now(), late: None },
                Err((why, is_silent)) => {
                    self.waiting.met(&why);
                    self.waits_for_a_broker = is_silent;
                    Phase::Fenced { skus, at }
                }
            },
            Phase::Draining { skus, until, began, late } => {
                let rows = engines.ledger.queue_rows()?;
                match until.iter().find_map(|(queue, end)| behind(&rows, queue, *end)) {
                    Some(why) if began.elapsed() >= DRAINS_WITHIN => {
                        self.waiting.met(&why);
                        let (until, is_silent) = match ends(core, engines) {
                            Ok(now) => (lowered(until, &now), false),
                            Err((_, is_silent)) => (until, is_silent),
                        };
                        Phase::Draining { skus, until, began: Instant::now(), late: Some(is_silent) }
                    }
                    Some(_) => Phase::Draining { skus, until, began, late },
                    None => Phase::Building { skus },
                }
            }
            Phase::Building { skus } => self.build_some(core, engines, skus, lease)?,
        };
        Ok(())
    }

    pub(super) fn waits_for_a_broker(&self) -> bool {
        self.waits_for_a_broker || matches!(self.phase, Phase::Draining { late: Some(true), .. })
    }

    /// Whether another server would have to begin anew.
    pub(super) fn is_under_way(&self) -> bool {
        matches!(self.phase, Phase::Draining { late: None, .. } | Phase::Building { .. })
    }

    /// Whether there is something to go on with at once.
    pub(super) fn is_building(&self) -> bool {
        matches!(self.phase, Phase::Building { .. })
    }

    /// The soonest that is asked for.
    fn next(&self) -> Option<Urgency> {
        URGENCIES.into_iter().find(|urgency| !self.asked[*urgency as usize].is_empty())
    }

    /// Those of the next rebuild.
    fn take_asked(&mut self) -> Vec<SkuId> {
        self.urgency = self.next().unwrap_or(Urgency::Unhurried);
        let asked = &mut self.asked[self.urgency as usize];
        match self.urgency {
            Urgency::Selling | Urgency::New => std::mem::take(asked).into_iter().collect(),
            Urgency::Wanted | Urgency::Unhurried => {
                std::iter::from_fn(|| asked.pop_first()).take(UNHURRIED_MAX).collect()
            }
        }
    }

    fn built_at_once(&self) -> usize {
        if self.urgency == Urgency::Wanted { WANTED_BUILT_AT_ONCE } else { BUILT_AT_ONCE }
    }

    /// Asked for once more, as urgently as before.
    fn again(&mut self, skus: impl IntoIterator<Item = SkuId>) {
        self.asked[self.urgency as usize].extend(skus);
    }

    fn begin(&mut self, core: &Core, engines: &mut Engines) -> Result<Phase, LedgerError> {
        let asked = self.take_asked();
        let known = built_once(core, engines, &asked)?;
        let is_new = |sku: &SkuId| known.binary_search_by_key(sku, |(of, _)| *of).is_err();
        let new: BTreeSet<_> = asked.into_iter().filter(is_new).collect();
        let mut fenced = BTreeSet::new();
        for ((sku, _), fenced_one) in known.iter().copied().zip(engines.gate.fence(&known)) {
            match fenced_one {
                Ok(()) => drop(fenced.insert(sku)),
                Err(error) => {
                    tracing::debug!(%error, sku = sku.0, "a gate that must be rebuilt does not answer yet");
                    self.again([sku]);
                }
            }
        }
        if !new.is_empty() {
            // The others are asked for again when these are built.
            self.again(fenced);
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
        let mut portion: Vec<_> = skus.iter().copied().take(self.built_at_once()).collect();
        let unread = roll_forward_fenced(core, engines, &portion, &mut renewal)?;
        portion.retain(|sku| !unread.contains_key(sku));
        for (sku, error) in unread {
            self.failing.met(&format_args!("SKU {}: {error}", sku.0));
            skus.remove(&sku);
            self.again([sku]);
        }
        if portion.is_empty() {
            return Ok(if skus.is_empty() { Phase::Idle } else { Phase::Building { skus } });
        }
        let raised = raise_above_heard(core, &mut *engines.ledger, &portion)?;
        // After that, so that no gate begins an epoch by what its sale was before.
        core.follow_sales(&mut *engines.ledger)?;
        let items = items_of(core, &portion);
        let mut orders = 0;
        let apart = |one: &Raised, next: &Raised| {
            orders += one.orders;
            let together = one.sku.0 + 1 == next.sku.0 && orders + next.orders <= ORDERS_AT_ONCE;
            if !together {
                orders = 0;
            }
            together
        };
        for run in raised.chunk_by(apart) {
            renewal.renew(&mut *engines.ledger);
            renewal.check()?;
            self.build_run(core, engines, &items, run, &mut renewal)?;
        }
        for sku in portion {
            skus.remove(&sku);
        }
        Ok(if skus.is_empty() { Phase::Idle } else { Phase::Building { skus } })
    }

    /// Builds gates whose numbers are in a row.
    fn build_run(
        &mut self,
        core: &Core,
        engines: &mut Engines,
        items: &HashMap<SkuId, GateItem>,
        run: &[Raised],
        renewal: &mut Renewal,
    ) -> Result<(), LedgerError> {
        let mut snapshots = snapshots(&mut *engines.ledger, items, run, renewal)?;
        renewal.check()?;
        let Engines { ledger, gate, .. } = engines;
        let gates: Vec<_> = snapshots.iter().map(|(item, snapshot)| (item.sku, snapshot.epoch)).collect();
        let begun = gate.begin_each(&gates);
        // Whoever paused a sale meanwhile was answered that no gate of it sells: what is committed by now is what it opens with.
        // What comes later finds a gate that has begun.
        core.follow_sales(&mut **ledger)?;
        let skus: Vec<_> = gates.iter().map(|(sku, _)| *sku).collect();
        let now = items_of(core, &skus);
        for (item, snapshot) in &mut snapshots {
            if let Some(now) = now.get(&item.sku) {
                (snapshot.sale, snapshot.limit) = (now.state, now.limit);
            }
        }
        let gates: Vec<_> = snapshots.iter().map(|(item, snapshot)| (item.sku, snapshot)).collect();
        let built = gate.finish_each(begun, &gates, &mut || {
            renewal.renew(&mut **ledger);
            renewal.check().is_ok()
        });
        let mut products = Vec::new();
        for ((item, snapshot), built) in snapshots.iter().zip(built) {
            match built {
                Ok(_) => {
                    core.counts.gates_built.inc();
                    products.push((item.product, item.sku));
                    let (epoch, marks) = (snapshot.epoch, snapshot.marks.len());
                    tracing::debug!(sku = item.sku.0, epoch, marks, "the gate was built from the ledger");
                }
                Err(error) => {
                    self.failing.met(&format_args!("SKU {}: {error}", item.sku.0));
                    self.again([item.sku]);
                }
            }
        }
        for ((_, sku), published) in products.iter().zip(gate.publish_products(&products)) {
            if let Err(error) = published {
                tracing::debug!(%error, sku = sku.0, "the edge did not hear of a product");
            }
        }
        Ok(())
    }
}

impl Phase {
    fn skus(&mut self) -> Option<&mut BTreeSet<SkuId>> {
        match self {
            Phase::Idle => None,
            Phase::Fenced { skus, .. } | Phase::Draining { skus, .. } | Phase::Building { skus } => {
                Some(skus)
            }
        }
    }
}

/// Those whose gate was built once, with their epochs, in the same order: of others nothing can have been accepted. A ledger that has
/// lost its tail may have forgotten the epoch that a gate has.
pub(super) fn built_once(
    core: &Core,
    engines: &mut Engines,
    skus: &[SkuId],
) -> Result<Vec<(SkuId, u64)>, LedgerError> {
    let rows = engines.ledger.stocks_of(skus)?;
    let epochs: HashMap<_, _> = rows.into_iter().map(|row| (row.sku, row.epoch)).collect();
    let epoch = |sku: &SkuId| {
        let known = epochs.get(sku).copied().unwrap_or(limits::NUMBER_MAX);
        known.max(core.epochs.newest(*sku))
    };
    Ok(skus.iter().map(|sku| (*sku, epoch(sku))).filter(|(_, epoch)| *epoch > 0).collect())
}

/// Raises the epochs, and above all that this server has heard of: those that the ledger has forgotten are over for everybody.
fn raise_above_heard(
    core: &Core,
    ledger: &mut dyn ClusterLedger,
    skus: &[SkuId],
) -> Result<Vec<Raised>, LedgerError> {
    // Before, for afterwards the new ones are among them.
    let heard: HashMap<_, _> = skus.iter().map(|sku| (*sku, core.epochs.newest(*sku))).collect();
    let is_over = |raised: &Raised| heard.get(&raised.sku).is_some_and(|heard| raised.epoch <= *heard);
    let mut raised = ledger.raise_epochs(skus)?;
    for _again in 1..RAISES_MAX {
        if !raised.iter().any(is_over) {
            break;
        }
        raised = ledger.raise_epochs(skus)?;
    }
    Ok(raised)
}

/// The items of these SKUs, which are in the order of their numbers.
fn items_of(core: &Core, skus: &[SkuId]) -> HashMap<SkuId, GateItem> {
    let items = core.items();
    let wanted = items.iter().filter(|item| skus.binary_search(&item.sku).is_ok());
    wanted.map(|item| (item.sku, *item)).collect()
}

/// SKUs with numbers in a row as the ledger has them, under their new epochs.
fn snapshots(
    ledger: &mut dyn ClusterLedger,
    items: &HashMap<SkuId, GateItem>,
    run: &[Raised],
    renewal: &mut Renewal,
) -> Result<Vec<(GateItem, Snapshot)>, LedgerError> {
    let mut snapshots: Vec<(GateItem, Counted)> = run
        .iter()
        .filter_map(|raised| Some((*items.get(&raised.sku)?, Counted::of(items.get(&raised.sku)?, raised))))
        .collect();
    let mut portions = Marks::of_run(run, MARKS_PER_READ);
    while let Some(portion) = portions.next(ledger)? {
        renewal.renew(ledger);
        for mark in portion {
            let sku = mark.mark.placement.id.sku;
            if let Ok(at) = snapshots.binary_search_by_key(&sku, |(item, _)| item.sku) {
                snapshots[at].1.add(mark);
            }
        }
    }
    Ok(snapshots.into_iter().map(|(item, counted)| (item, counted.snapshot())).collect())
}

/// A snapshot while its marks come in.
struct Counted {
    snapshot: Snapshot,
    buyers: HashMap<BuyerId, u64>,
    returned_holds: HashMap<BuyerId, ReturnedHolds>,
}

impl Counted {
    fn of(item: &GateItem, raised: &Raised) -> Counted {
        let snapshot = Snapshot {
            epoch: raised.epoch,
            available: raised.stock.available(),
            sale: item.state,
            limit: item.limit,
            buyers: Vec::new(),
            returned_holds: Vec::new(),
            marks: Vec::new(),
        };
        Counted { snapshot, buyers: HashMap::new(), returned_holds: HashMap::new() }
    }

    fn add(&mut self, LedgerMark { mark, returned_at }: LedgerMark) {
        let buyer = mark.placement.buyer;
        if self.snapshot.limit.is_some() && mark.state == MarkState::Sold {
            *self.buyers.entry(buyer).or_default() += u64::from(mark.placement.quantity);
        }
        if let Some(at) = returned_at {
            self.returned_holds.entry(buyer).or_default().add(at);
        }
        self.snapshot.marks.push(mark);
    }

    fn snapshot(self) -> Snapshot {
        Snapshot {
            buyers: self.buyers.into_iter().collect(),
            returned_holds: self.returned_holds.into_iter().collect(),
            ..self.snapshot
        }
    }
}

/// How far the queues go now that may hold orders; or why that is not known, and whether a broker is silent. The name servers forget a broker that died,
/// and its queues may hold orders still; one that was removed from the topic is waited for only if it holds some.
fn ends(core: &Core, engines: &mut Engines) -> Result<Vec<(Queue, u64)>, (String, bool)> {
    let Engines { ledger, admin, .. } = engines;
    let queues = look(&mut **ledger, &mut **admin, &core.options.topics.orders)
        .map_err(|error| (error.to_string(), matches!(error, LookError::Brokers(_))))?;
    queues.ends().map_err(|faults| (faults.blocking().unwrap_or_default(), !queues.silent.is_empty()))
}

/// A broker may have lost its newest messages meanwhile: nobody reads what it has no more. What has come since is not waited for.
fn lowered(until: Vec<(Queue, u64)>, now: &[(Queue, u64)]) -> Vec<(Queue, u64)> {
    let end_now = |queue: &Queue| now.iter().find_map(|(of, end)| (of == queue).then_some(*end));
    let lower = |(queue, end): (Queue, u64)| {
        let end = end_now(&queue).map_or(end, |now| now.min(end));
        (queue, end)
    };
    until.into_iter().map(lower).collect()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_broker_has_lost_is_not_waited_for() {
        let queue = |number| Queue { broker: "a".to_owned(), number };
        let until = vec![(queue(0), 6), (queue(1), 9), (queue(2), 3)];
        let lower = lowered(until, &[(queue(0), 5), (queue(1), 12)]);
        assert_eq!(lower, [(queue(0), 5), (queue(1), 9), (queue(2), 3)]);
    }

    fn skus(numbers: std::ops::Range<u32>) -> Vec<SkuId> {
        numbers.map(SkuId).collect()
    }

    #[test]
    fn what_sells_is_taken_first_then_what_is_new_and_the_others_in_portions() {
        let mut rebuild = Rebuild::default();
        let unhurried = u32::try_from(UNHURRIED_MAX).unwrap() + 6;
        skus(0..unhurried).into_iter().for_each(|sku| rebuild.ask(sku, Urgency::Unhurried));
        skus(4..6).into_iter().for_each(|sku| rebuild.ask(sku, Urgency::New));
        skus(2..4).into_iter().for_each(|sku| rebuild.ask(sku, Urgency::Selling));
        rebuild.ask(SkuId(3), Urgency::Unhurried);
        // Of a sale of last year: it holds up nothing that sells.
        skus(0..1).into_iter().for_each(|sku| rebuild.ask(sku, Urgency::Wanted));
        assert_eq!((rebuild.take_asked(), rebuild.urgency), (skus(2..4), Urgency::Selling));
        assert_eq!((rebuild.take_asked(), rebuild.urgency), (skus(4..6), Urgency::New));
        assert_eq!((rebuild.take_asked(), rebuild.urgency), (skus(0..1), Urgency::Wanted));
        assert_eq!(rebuild.built_at_once(), 1, "what sells waits for one at most");
        assert_eq!((rebuild.take_asked().len(), rebuild.urgency), (UNHURRIED_MAX, Urgency::Unhurried));
        assert_eq!(rebuild.take_asked(), skus(unhurried - 1..unhurried));
        assert_eq!(rebuild.take_asked(), []);
    }

    #[test]
    fn what_is_being_rebuilt_is_asked_for_again_only_if_it_is_needed_sooner() {
        let phase = Phase::Building { skus: skus(0..3).into_iter().collect() };
        let mut rebuild = Rebuild { phase, urgency: Urgency::New, ..Rebuild::default() };
        rebuild.ask(SkuId(0), Urgency::Unhurried);
        rebuild.ask(SkuId(1), Urgency::New);
        rebuild.ask(SkuId(2), Urgency::Selling);
        assert_eq!(rebuild.phase.skus().unwrap().iter().copied().collect::<Vec<_>>(), skus(0..2));
        assert_eq!(rebuild.next(), Some(Urgency::Selling));
        assert_eq!(rebuild.take_asked(), skus(2..3));
    }
}
