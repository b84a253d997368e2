//! Keeping this server's view of sales and stock fresh: its catalog, the stock on its pages, and its flags of what is
//! sold out.
//!
//! A flag is a lease: it is believed for half a second after the gate said so, then the gate is asked again with the
//! next order. Two sights of one SKU are in order by (epoch, seq), so an old one never hides a new one.

use std::collections::HashSet;
use std::sync::atomic::Ordering;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use engine::SkuId;
use foldhash::fast::RandomState;

use crate::cluster::Core;
use crate::cluster::looks::{Looks, is_live};
use crate::cluster::sales::GateItem;
use crate::gate::{BySku, Closed, Gate, GateError, GateState, NodeHealth, Seen, limits};
use crate::intake::catalog::Catalog;
use crate::intake::{Engine, Need, PartAway};
use crate::ledger::mysql::cluster::{ClusterLedger, SkuRow};
use crate::time::Instant;

/// Between two looks at the gate.
const INTERVAL: Duration = Duration::from_millis(200);
/// Slots of those that do not sell in one look: of 50,000 each has its turn within a minute, at 1,000 of them a second.
const OTHERS_PER_LOOK: usize = 200;
/// Between two looks at what the ledger has sold and holds, and at Redis' settings.
const SLOW_INTERVAL: Duration = Duration::from_secs(1);
/// For gates of new sales, and of all if this server or Redis is new.
const BUILT_WITHIN: Duration = Duration::from_secs(2);
const ALL_CLOSED: &str =
    "the gates of all products that are sold now are closed, until they are rebuilt from the ledger";
const SOME_CLOSED: &str = "their gates are closed, until they are rebuilt from the ledger";
/// For how long what the gate said is believed.
const SOLD_OUT_LEASE_MS: u64 = 500;

/// The newest sight of each SKU.
#[derive(Debug, Default)]
pub(in crate::cluster) struct StockView {
    newest: Mutex<BySku<(u64, u64)>>,
}

impl StockView {
    /// Takes over what the gate said, unless something newer is known.
    pub(in crate::cluster) fn observe(&self, core: &Core, sku: SkuId, seen: Seen) {
        self.observe_each(core, [(sku, seen)]);
    }

    /// The same of several, at once.
    pub(in crate::cluster) fn observe_each(
        &self,
        core: &Core,
        said: impl IntoIterator<Item = (SkuId, Seen)>,
    ) {
        let (catalog, known_until) = (core.shelf.current(), core.clock.now().plus(SOLD_OUT_LEASE_MS));
        let mut newest = self.newest.lock().unwrap_or_else(PoisonError::into_inner);
        for (sku, seen) in said {
            let known = newest.entry(sku).or_insert((0, 0));
            if *known > (seen.epoch, seen.seq) {
                continue;
            }
            *known = (seen.epoch, seen.seq);
            if let Some(sku) = catalog.sku(sku) {
                sku.counters.publish_gate(u64::try_from(seen.available).unwrap_or(0), known_until);
            }
        }
    }
}

/// Runs until the server stops.
pub(in crate::cluster) fn run(core: &Core, gate: Gate, ledger: Box<dyn ClusterLedger>) {
    Refreshing {
        core,
        gate,
        ledger,
        times_back: 0,
        looks: Looks::new(OTHERS_PER_LOOK),
        open: HashSet::default(),
        closed: BySku::default(),
    }
    .run();
}

/// The stage that keeps the view fresh. Lives on one thread.
struct Refreshing<'a> {
    core: &'a Core,
    gate: Gate,
    ledger: Box<dyn ClusterLedger>,
    /// How often the ledger had been found without its latest entries.
    times_back: u64,
    looks: Looks,
    /// Those whose gate sold when it was looked at last.
    open: HashSet<SkuId, RandomState>,
    /// Of the others that were looked at, since when it does not.
    closed: BySku<Instant>,
}

impl Refreshing<'_> {
    fn run(mut self) {
        let mut looked_slowly: Option<Instant> = None;
        while !self.core.stopping.load(Ordering::Acquire) {
            self.core.publish_sales(&mut *self.ledger);
            let items = self.looks.pick(&self.core.items(), self.core.clock.now());
            let unread = self.look_at_gate(&items);
            let closed = self.closed_since(&items).flatten().any(|since| since.elapsed() >= BUILT_WITHIN);
            self.core.live_gate_closed.store(closed, Ordering::Relaxed);
            self.ask_for_needed();
            let slowly = looked_slowly.is_none_or(|looked| looked.elapsed() >= SLOW_INTERVAL);
            if slowly || unread.is_some() || !self.core.health.is_met(Need::Gate) {
                self.judge_gate(unread, &items);
            }
            if slowly {
                looked_slowly = Some(Instant::now());
                let skus: Vec<_> = items.iter().map(|item| item.sku).collect();
                let is_read = look_at_ledger(self.core, &mut *self.ledger, &skus);
                self.core.counts.units_read.inc_by(u64::from(is_read));
                self.count_lost_tails();
                self.count_refunds_due();
            }
            self.core.wait(INTERVAL);
        }
    }

    /// Which any connection of this server has found.
    fn count_lost_tails(&mut self) {
        let times_back = self.ledger.times_back();
        let before = std::mem::replace(&mut self.times_back, times_back);
        self.core.counts.ledger_lost_tail.inc_by(times_back - before);
    }

    /// Every server, for each shows it by itself.
    fn count_refunds_due(&mut self) {
        match self.ledger.refunds_due_count() {
            Ok(due) => {
                self.core.metrics.refunds_due.set(i64::try_from(due).unwrap_or(i64::MAX));
            }
            Err(error) => tracing::debug!(%error, "the refunds that are due could not be counted"),
        }
    }

    /// Whether orders can be taken as far as the gate goes. Nobody else says so: two that see different things would
    /// contradict each other.
    fn judge_gate(&mut self, mut unread: Option<GateError>, items: &[GateItem]) {
        let (evicting, nodes): (Vec<_>, Vec<_>) = self.gate.health().into_iter().partition(evicts);
        let mut fault = crate::gate::fault(&nodes);
        if fault.is_none() {
            let settings = nodes.iter().map(|node| node.settings.clone());
            self.core.health.note_settings(Engine::Gate, settings.collect());
        }
        if fault.is_none() && unread.is_some() {
            // A connection that was lost is there again by now.
            unread = self.look_at_gate(items);
            fault = unread.as_ref().map(ToString::to_string);
        }
        // Gates of a newer format: this release is to be replaced, and takes no orders (decision 015).
        let is_of_before = matches!(unread, Some(GateError::Closed(_)));
        self.core.health.note(Need::GateKeepsKeys, evicting.is_empty());
        let (fault, part_away) = match (fault, self.all_closed(items)) {
            // It stays as it is said to be: new gates are built in a moment.
            (None, Some(since)) if since < BUILT_WITHIN => return,
            (None, Some(_)) => (Some(ALL_CLOSED.to_owned()), None),
            (None, None) => (None, self.long_closed(items)),
            (Some(fault), _) => match self.shut(items, &nodes).filter(|_| !is_of_before) {
                Some(shut) => (None, Some(PartAway::of(&self.core.shelf.current(), &shut, fault))),
                None => (Some(fault), None),
            },
        };
        self.core.counts.gate_part_away.set(i64::from(part_away.is_some()));
        self.core.health.note_part_away(part_away);
        self.core.health.note_fault(Need::Gate, fault);
    }

    /// Of what sells now, what can't be sold; of a gate in parts one may be away. `None`: nothing of it can be sold, or, while
    /// nothing sells, nothing of what was looked at.
    fn shut(&mut self, items: &[GateItem], nodes: &[NodeHealth]) -> Option<Vec<SkuId>> {
        let now = self.core.clock.now();
        let Refreshing { gate, open, .. } = self;
        let is_sold = |item: &GateItem| open.contains(&item.sku) && !gate.is_at_fault(nodes, item.sku);
        let (sold, shut): (Vec<GateItem>, Vec<GateItem>) = items.iter().copied().partition(is_sold);
        let sells = |item: &GateItem| is_live(item, now);
        let some = sold.iter().any(sells) || (!shut.iter().any(sells) && !sold.is_empty());
        some.then(|| shut.iter().filter(|item| sells(item)).map(|item| item.sku).collect())
    }

    /// What sells now and has been closed for longer than a new gate takes to be built, while the rest is sold.
    fn long_closed(&self, items: &[GateItem]) -> Option<PartAway> {
        let now = self.core.clock.now();
        let is_long = |sku: &SkuId| self.closed.get(sku).is_some_and(|since| since.elapsed() >= BUILT_WITHIN);
        let closed = items.iter().filter(|item| is_live(item, now) && is_long(&item.sku));
        let closed: Vec<SkuId> = closed.map(|item| item.sku).collect();
        let catalog = self.core.shelf.current();
        (!closed.is_empty()).then(|| PartAway::of(&catalog, &closed, SOME_CLOSED.to_owned()))
    }

    /// For how long nothing can be sold although something should, if so. One closed gate among others keeps nobody from
    /// the others.
    fn all_closed(&self, items: &[GateItem]) -> Option<Duration> {
        let since: Option<Vec<Instant>> = self.closed_since(items).collect();
        since?.into_iter().max().map(|since| since.elapsed())
    }

    /// Of each product that sells, since when its gate is closed; `None`: it is open.
    fn closed_since(&self, items: &[GateItem]) -> impl Iterator<Item = Option<Instant>> {
        let now = self.core.clock.now();
        let selling = items.iter().filter(move |item| is_live(item, now));
        selling.map(|item| self.closed.get(&item.sku).copied())
    }

    /// Reads the stock of these SKUs. Returns why one could not be read, if so; a gate that is closed is read.
    fn look_at_gate(&mut self, items: &[GateItem]) -> Option<GateError> {
        let Refreshing { core, gate, open, closed: shut, .. } = self;
        let skus: Vec<_> = items.iter().map(|item| item.sku).collect();
        let (mut seen, mut unread) = (Vec::with_capacity(skus.len()), None);
        for (sku, state) in skus.iter().zip(gate.states(&skus)) {
            match state {
                Ok(Some(state)) if state.closed.is_none() => {
                    seen.push((*sku, state.seen));
                    open.insert(*sku);
                    shut.remove(sku);
                    continue;
                }
                Ok(Some(GateState { closed: Some(closed @ Closed::NewerFormat(_)), .. })) => {
                    unread = Some(GateError::Closed(closed));
                }
                Ok(_) => {}
                Err(error) => unread = Some(error),
            }
            open.remove(sku);
            shut.entry(*sku).or_insert_with(Instant::now);
        }
        core.stock.observe_each(core, seen);
        core.counts.gates_open.set(i64::try_from(open.len()).unwrap_or(i64::MAX));
        let mut suspects = gate.take_suspects();
        suspects.extend(core.take_suspects());
        // Closed for everybody, and rebuilt by whoever reconciles.
        let suspects: Vec<_> = suspects.into_iter().map(|sku| (sku, limits::NUMBER_MAX)).collect();
        for ((sku, _), fenced) in suspects.iter().zip(gate.fence(&suspects)) {
            match fenced {
                Ok(()) => tracing::warn!(sku = sku.0, "a gate that has lost something is fenced"),
                Err(error) => core.warnings.fencing.met(&format_args!("SKU {}: {error}", sku.0)),
            }
        }
        self.fence_misled();
        unread
    }

    /// Until each is closed: none of them sees by itself that something is wrong.
    fn fence_misled(&mut self) {
        let misled = self.core.take_misled();
        if misled.is_empty() {
            return;
        }
        let fenced = self.gate.fence_anew(&misled);
        let (closed, open): (Vec<_>, Vec<_>) =
            misled.into_iter().zip(fenced).partition(|(_, fenced)| fenced.is_ok());
        // While none can be, the warnings below say so, and seldom.
        if !closed.is_empty() {
            let (closed, open) = (closed.len(), open.len());
            tracing::warn!(closed, open, "gates that know of what the ledger has lost are fenced");
        }
        for (sku, fenced) in open {
            if let Err(error) = fenced {
                self.core.warnings.fencing.met(&format_args!("SKU {}: {error}", sku.0));
            }
            self.core.note_misled([sku]);
        }
    }

    /// Has closed gates rebuilt that are needed although they sell nothing now.
    fn ask_for_needed(&mut self) {
        let needed = self.core.take_needed();
        if needed.is_empty() {
            return;
        }
        let now = self.core.clock.now();
        let items = self.core.items();
        let idle = items.iter().filter(|item| needed.contains(&item.sku) && !is_live(item, now));
        let idle: Vec<_> = idle.map(|item| item.sku).collect();
        if let Err(error) = self.gate.want(&idle) {
            tracing::debug!(%error, "closed gates could not be asked for");
        }
    }
}

fn evicts(node: &NodeHealth) -> bool {
    !matches!(node.maxmemory_policy.as_str(), "" | "noeviction")
}

/// Takes over what the ledger says of these SKUs, which are in the order of their numbers. Whether it can be used is noted
/// by the stage that writes to it: what is read of one that is read-only says nothing of that. Returns whether they were read.
pub(in crate::cluster) fn look_at_ledger(
    core: &Core,
    ledger: &mut dyn ClusterLedger,
    skus: &[SkuId],
) -> bool {
    match ledger.stocks_of(skus) {
        Ok(stocks) => {
            core.epochs.hear(stocks.iter().map(|row| (row.sku, row.epoch)));
            publish_stocks(&core.shelf.current(), &stocks);
        }
        Err(error) => {
            tracing::debug!(%error, "the ledger's stock could not be read");
            return false;
        }
    }
    true
}

/// Takes over what the ledger says of each SKU.
pub(in crate::cluster) fn publish_stocks(catalog: &Catalog, stocks: &[SkuRow]) {
    for row in stocks {
        if let Some(sku) = catalog.sku(row.sku) {
            sku.counters.publish_committed(row.stock.total(), row.stock.held(), row.stock.sold());
        }
    }
}
