//! Reconciliation: what makes the gate and the ledger agree again, whatever died in between. One server at a time
//! does it, by a lease in the ledger whose generation is checked with every write.
//!
//! - An open reservation whose message has not come is rolled forward: the ledger takes the order under its own id, so
//!   a late message is only a duplicate.
//! - A claim that nobody finished is looked up in the ledger, and kept; or its gate is rebuilt.
//! - Holds expire by a scan of the ledger; what that returns waits in the outbox until the gate has applied it.
//! - A gate that lost its memory, or may have, is rebuilt from the ledger under a new epoch (`rebuild`).
//! - What the gate and the ledger count differently at rest is reported, and mended by a rebuild when it stays (`drift`).
//!
//! What sells is looked at every time, the others in turn (`looks`). A gate of what is over stays lost until somebody asks
//! for it.

mod drift;
mod fenced;
mod rebuild;
mod silence;

use std::collections::HashSet;
use std::sync::atomic::Ordering;
use std::time::Duration;

use engine::handover::{Claim, Reservation, Settle, Verdict};
use engine::working_set::Outcome;
use engine::{SkuId, Status, UnixMs};

use self::drift::Drift;
use self::rebuild::{Rebuild, Urgency};
use self::silence::{Silence, Silent};
use crate::chores::{ClockWatch, Erasing, Purging};
use crate::cluster::Core;
use crate::cluster::looks::{self, Looks};
use crate::cluster::place::relay::order_of;
use crate::cluster::sales::GateItem;
use crate::cluster::settle::{report_to_gate, settle};
use crate::gate::{
    Applied, BySku, Closed, Gate, GateAnswer, GateError, GateState, Open, OpenRecord, OpenRows,
};
use crate::ledger::mysql::cluster::{ClusterLedger, Lease, LedgerError, Recorded, SkuRow, fits};
use crate::queue::Administer;
use crate::time::Instant;

/// The lease's name in the ledger.
const LEASE: &str = "reconcile";
/// Milliseconds that it is held for; so long nobody reconciles after its holder was killed.
const LEASE_MS: u64 = 3_000;
const INTERVAL: Duration = Duration::from_millis(100);
/// Between two looks at the gate.
const LOOK_INTERVAL: Duration = Duration::from_millis(500);
/// Slots of the others in one look: of 50,000 each has its turn within two minutes, at 500 of them a second.
const OTHERS_PER_LOOK: usize = 250;
/// After gates of what sells were found lost: between two looks that leave no gate out.
const WHOLE_LOOK_INTERVAL: Duration = Duration::from_secs(30);
/// Slots that are looked at together, between two renewals of the lease.
const LOOKED_AT_ONCE: usize = 1_000;
/// Slots whose open reservations are read together.
const SETTLED_AT_ONCE: usize = 16;
/// Between two renewals of the lease while one step takes long.
const RENEW_INTERVAL: Duration = Duration::from_millis(1000);
/// Holds that expire with one transaction.
const EXPIRIES_PER_BATCH: usize = 1_000;
/// Rows of the outbox that are applied at once.
const OUTBOX_ROWS: usize = 1_000;
/// Open reservations of one SKU that are looked at at once.
const OPEN_ROWS: usize = 1_000;
/// A claim is between the gate and one transaction of the ledger, whose every wait is bounded far below this.
const CLAIM_AGE_MAX: Duration = Duration::from_secs(30);

/// Keeps the lease while one step takes long: a SKU may have millions of marks.
#[derive(Debug)]
struct Renewal {
    lease: Option<Lease>,
    renewed: Option<Instant>,
}

impl Renewal {
    fn new(lease: Option<Lease>) -> Renewal {
        Renewal { lease, renewed: None }
    }

    /// Renews it if it is time.
    fn renew(&mut self, ledger: &mut dyn ClusterLedger) {
        if self.renewed.is_some_and(|renewed| renewed.elapsed() < RENEW_INTERVAL) {
            return;
        }
        self.renewed = Some(Instant::now());
        let Some(held) = &self.lease else { return };
        match ledger.lease(LEASE, held.owner, LEASE_MS) {
            Ok(lease) if lease.as_ref() == Some(held) => {}
            Ok(_) => self.lease = None,
            Err(error) => {
                tracing::debug!(%error, "the lease was not renewed");
                self.lease = None;
            }
        }
    }

    /// # Errors
    /// If the lease was lost: another server may be at the same gates.
    fn check(&self) -> Result<(), LedgerError> {
        let lost = || LedgerError::Fenced("the task of reconciliation".to_owned());
        self.lease.as_ref().map(|_held| ()).ok_or_else(lost)
    }
}

/// The connections of reconciliation.
#[derive(Debug)]
pub(in crate::cluster) struct Engines {
    pub(in crate::cluster) ledger: Box<dyn ClusterLedger>,
    pub(in crate::cluster) gate: Gate,
    pub(in crate::cluster) admin: Box<dyn Administer>,
}

/// The stage that reconciles. Lives on one thread.
#[derive(Debug)]
pub(in crate::cluster) struct Reconciling<'a> {
    core: &'a Core,
    engines: Engines,
    lease: Option<Lease>,
    rebuild: Rebuild,
    drift: Drift,
    looks: Looks,
    looked_at: Option<Instant>,
    looked_at_all: Option<Instant>,
    /// At the next time that is allowed.
    look_at_all: bool,
    /// How many there were at the last round: a new one has no gate yet.
    skus: usize,
    /// How often the ledger had gone back by then.
    times_back: u64,
    /// Gates whose sale is of a later version than the ledger has, with that version, at their last look.
    ahead: BySku<u64>,
    silence: Silence,
    /// Of the lease that this server had last.
    generation: u64,
    purging: Purging,
    erasing: Erasing,
    clock_watch: ClockWatch,
}

impl<'a> Reconciling<'a> {
    pub(in crate::cluster) fn new(core: &'a Core, engines: Engines) -> Reconciling<'a> {
        let (rebuild, drift) = (Rebuild::default(), Drift::default());
        Reconciling {
            core,
            engines,
            lease: None,
            rebuild,
            drift,
            looks: Looks::new(OTHERS_PER_LOOK),
            looked_at: None,
            looked_at_all: None,
            look_at_all: false,
            skus: 0,
            times_back: 0,
            ahead: BySku::default(),
            silence: Silence::default(),
            generation: 0,
            purging: Purging::new(core.options.address_retention_days),
            erasing: Erasing::default(),
            clock_watch: ClockWatch::default(),
        }
    }

    /// Runs until the server stops; then another server takes the lease at once.
    pub(in crate::cluster) fn run(mut self) {
        while !self.core.stopping.load(Ordering::Acquire) {
            match self.round() {
                Ok(()) => {
                    self.core.warnings.reconciling.well();
                    self.core.counts.reconciled.inc_by(u64::from(self.lease.is_some()));
                }
                Err(error) => {
                    self.core.counts.reconciling.set(0);
                    self.core.warnings.reconciling.met(&error);
                    self.lease = None;
                }
            }
            if self.lease.is_none() || !self.rebuild.is_building() {
                self.core.wait(INTERVAL);
            }
        }
        if let Some(lease) = self.lease.take()
            && let Err(error) = self.engines.ledger.release(&lease)
        {
            tracing::debug!(%error, "the lease could not be given up; another server takes it in a few seconds");
        }
    }

    fn round(&mut self) -> Result<(), LedgerError> {
        // Of every server, whoever has the lease.
        self.clock_watch.look(&self.core.clock);
        self.look_back()?;
        if !self.core.clock.is_confirmed() {
            return self.give_up();
        }
        let (ledger, owner) = (&mut *self.engines.ledger, self.core.options.server_id);
        // A server that the gate does not answer leaves reconciliation to those that it does.
        if self.silence.keeps_away(Instant::now()) {
            return Ok(());
        }
        self.lease = ledger.lease(LEASE, owner, LEASE_MS)?;
        ledger.fence_with(self.lease.clone());
        self.core.counts.reconciling.set(i64::from(self.lease.is_some()));
        let generation = self.lease.as_ref().map(|lease| lease.generation);
        // One later is its own again, which it had given back.
        if generation.is_none_or(|generation| generation > self.generation + 1) {
            // Another server begins anew with whatever this one was at, and this one if the task comes back.
            self.rebuild = Rebuild::default();
            self.looks = Looks::new(OTHERS_PER_LOOK);
            self.ahead.clear();
            self.silence.begin_anew();
        }
        let Some(generation) = generation else { return Ok(()) };
        self.generation = generation;
        if !self.core.expiry_stops() {
            let expired = ledger.expire_due(self.core.clock.now(), EXPIRIES_PER_BATCH)?;
            self.core.metrics.holds_expired.inc_by(expired.len() as u64);
            self.core.count_holds_ended(ledger);
        }
        pump_outbox(self.core, &mut *self.engines.ledger, &mut self.engines.gate)?;
        self.rebuild.step(self.core, &mut self.engines, self.lease.as_ref())?;
        let Reconciling { core, engines, purging, erasing, .. } = self;
        erasing.portion(|max| engines.ledger.erase_addresses(max))?;
        if !core.expiry_stops() {
            purging.portion(&core.clock, &core.metrics, |cutoff, max| {
                engines.ledger.purge_addresses(cutoff, max)
            })?;
        }
        self.core.publish_sales(&mut *self.engines.ledger);
        let skus = self.core.items().len();
        let new = std::mem::replace(&mut self.skus, skus) != skus;
        if new || self.looked_at.is_none_or(|looked| looked.elapsed() >= LOOK_INTERVAL) {
            self.looked_at = Some(Instant::now());
            self.look()?;
        }
        Ok(())
    }

    /// Of every server too: whoever reconciled may be gone with the database.
    fn look_back(&mut self) -> Result<(), LedgerError> {
        self.engines.ledger.look_back()?;
        let times_back = self.engines.ledger.times_back();
        if std::mem::replace(&mut self.times_back, times_back) != times_back {
            self.core.note_misled(self.core.items().iter().map(|item| item.sku));
            // What it has read was of the other database.
            self.rebuild = Rebuild::default();
        }
        Ok(())
    }

    /// Looks at the gates whose turn it is, and at those that somebody asks for.
    fn look(&mut self) -> Result<(), LedgerError> {
        let (items, now) = (self.core.items(), self.core.clock.now());
        let wanted: HashSet<_> = self.engines.gate.take_wanted().unwrap_or_default().into_iter().collect();
        wanted.iter().for_each(|sku| self.looks.stay_close(*sku));
        let picked = self.looks.pick(&items, now);
        let mut renewal = Renewal::new(self.lease.clone());
        let (mut answered, mut proven) = (picked.is_empty(), 0);
        let mut is_partly = self.rebuild.waits_for_a_broker() || !self.engines.gate.hears_of_the_master();
        for portion in picked.chunks(LOOKED_AT_ONCE) {
            renewal.renew(&mut *self.engines.ledger);
            renewal.check()?;
            let skus: Vec<_> = portion.iter().map(|item| item.sku).collect();
            let rows = self.engines.ledger.stocks_of(&skus)?;
            let states = self.engines.gate.states(&skus);
            answered |= states.iter().any(Result::is_ok);
            is_partly |=
                portion.iter().zip(&states).any(|(item, state)| state.is_err() && looks::is_live(item, now));
            self.judge(portion, &rows, &states, &wanted, now);
            let open = self.engines.gate.open_counts(&skus);
            let is_usable = |state: &_| matches!(state, Ok(Some(GateState { closed: None, .. })));
            let busy: Vec<_> = (skus.iter().zip(&states).zip(open))
                .filter(|((_, state), open)| is_usable(state) && open.as_ref().is_ok_and(|open| *open > 0))
                .map(|((sku, _), _)| *sku)
                .collect();
            busy.iter().for_each(|sku| self.looks.stay_close(*sku));
            for skus in busy.chunks(SETTLED_AT_ONCE) {
                renewal.renew(&mut *self.engines.ledger);
                renewal.check()?;
                self.settle_open(skus)?;
            }
            let differing = self.drift.look(&mut self.engines, &rows, &skus, &states, &mut self.rebuild)?;
            differing.close.into_iter().for_each(|sku| self.looks.stay_close(sku));
            proven += differing.proven;
        }
        self.core.counts.drift_units.inc_by(proven);
        // What another would begin anew is finished first.
        let is_partly = is_partly && !self.rebuild.is_under_way();
        self.give_up_if_silent(Silent { all: !answered, a_part: is_partly })
    }

    /// Is each there, does it know the sale as it is?
    fn judge(
        &mut self,
        items: &[GateItem],
        rows: &[SkuRow],
        states: &[Result<Option<GateState>, GateError>],
        wanted: &HashSet<SkuId>,
        now: UnixMs,
    ) {
        let known: BySku<_> = rows.iter().map(|row| (row.sku, (row.epoch, row.version.0))).collect();
        let (mut stale, mut lost, mut misled) = (Vec::new(), false, Vec::new());
        for (item, state) in items.iter().zip(states) {
            let (epoch, version) = known.get(&item.sku).copied().unzip();
            match state {
                // Not ours to rebuild; every server reports it where its health is asked for.
                Ok(Some(GateState { closed: Some(Closed::NewerFormat(_)), .. })) => {}
                Ok(Some(state)) if state.closed.is_none() && Some(state.seen.epoch) == epoch => {
                    let (known, newest) = (state.sale.version, item.state.version);
                    if known < newest || (known == newest && state.limit != item.limit) {
                        stale.push((item.sku, item.state, item.limit));
                    }
                    // A change between two looks at both is in the ledger first.
                    let is_ahead = version.is_some_and(|version| known > newest.max(version));
                    match is_ahead {
                        true if self.ahead.insert(item.sku, known) == Some(known) => misled.push(item.sku),
                        true => self.looks.stay_close(item.sku),
                        false => drop(self.ahead.remove(&item.sku)),
                    }
                }
                Ok(_) => {
                    let is_wanted = wanted.contains(&item.sku);
                    let Some(urgency) = urgency_of(item, epoch, is_wanted, now) else { continue };
                    self.rebuild.ask(item.sku, urgency);
                    lost |= urgency == Urgency::Selling && epoch != Some(0);
                }
                // A gate that does not answer is asked again; nothing is known to be wrong with it.
                Err(_) => {}
            }
        }
        drop(self.engines.gate.set_sale(&stale));
        if !misled.is_empty() {
            // Nobody is left who had seen them: servers remember only what they saw themselves.
            tracing::error!(
                gates = misled.len(),
                "gates know of changes that the ledger has lost: they are rebuilt"
            );
            self.ahead.retain(|sku, _| !misled.contains(sku));
            self.core.note_misled(misled);
        }
        // Where one was lost others were.
        self.look_at_all |= lost;
        if self.look_at_all && self.looked_at_all.is_none_or(|at| at.elapsed() >= WHOLE_LOOK_INTERVAL) {
            self.look_at_all = false;
            self.looked_at_all = Some(Instant::now());
            self.looks.begin_anew();
        }
    }

    /// Gives the lease up if what it waits for has not answered for some time: the cut may be this server's alone.
    fn give_up_if_silent(&mut self, silent: Silent) -> Result<(), LedgerError> {
        if self.lease.is_some() && self.silence.is_over(silent, Instant::now()) {
            tracing::warn!(
                "a gate, a broker or every Sentinel does not answer this server: another one may reconcile"
            );
            self.give_up()?;
        }
        Ok(())
    }

    /// Leaves reconciliation to another server.
    fn give_up(&mut self) -> Result<(), LedgerError> {
        self.core.counts.reconciling.set(0);
        match self.lease.take() {
            Some(lease) => self.engines.ledger.release(&lease),
            None => Ok(()),
        }
    }

    /// Settles what has been open at these SKUs for longer than it can be on its way.
    fn settle_open(&mut self, skus: &[SkuId]) -> Result<(), LedgerError> {
        // By a clock that is wrong, what has just begun may be old.
        let (age, now) = (self.core.options.roll_forward_after, self.core.majority_time());
        let open = self.engines.gate.open_rows_of_each(skus, crate::cluster::ms(age), now, OPEN_ROWS);
        let (mut orders, mut has_claims) = (Vec::new(), false);
        for (sku, open) in skus.iter().zip(open) {
            let Ok(GateAnswer { what: rows, .. }) = open else { continue };
            orders.extend(orders_of(self.core, *sku, &rows));
            has_claims |= rows.records.iter().any(|open| matches!(open.what, Open::Claim(_)));
        }
        for orders in orders.chunks(OPEN_ROWS) {
            roll_forward(self.core, &mut self.engines, orders.to_vec())?;
        }
        if !has_claims {
            return Ok(());
        }
        // By the gate's clock, like the time that they carry.
        let age = crate::cluster::ms(CLAIM_AGE_MAX);
        let now = self.core.majority_time();
        let open = self.engines.gate.open_rows_of_each(skus, age, now, OPEN_ROWS);
        let open: Vec<_> = open.into_iter().flatten().flat_map(|answer| answer.what.records).collect();
        let mut kept = Vec::new();
        for open in open.iter().filter(|open| matches!(open.what, Open::Claim(_))) {
            let (id, done) = (open.id(), self.is_done(open)?);
            tracing::warn!(%id, done, "a claim at the gate that nobody finished is settled");
            if done {
                kept.push(Settle { id, epoch: open.epoch, verdict: Verdict::ClaimKept });
            } else {
                // Its units can't just be given back: whoever claimed them may be frozen, and use them when they are sold to
                // others. The ledger takes no claim of an epoch that is over, and the gate of the next one knows none.
                self.rebuild.ask(id.sku, Urgency::Selling);
            }
        }
        settle(self.core, &mut self.engines.gate, &kept);
        Ok(())
    }

    /// Whether the ledger has carried out what was claimed.
    fn is_done(&mut self, open: &OpenRecord) -> Result<bool, LedgerError> {
        let id = open.id();
        match open.what {
            Open::Claim(Claim::Correction { .. }) => {
                let key = String::from_utf8_lossy(&open.record);
                self.engines.ledger.has_adjustment(id.sku, &key)
            }
            Open::Claim(Claim::LatePayment(_)) | Open::Order(_) => {
                let found = self.engines.ledger.lookup(&[id])?;
                Ok(
                    matches!(found.first(), Some(Some(Recorded::Order { order, .. })) if order.status == Status::Paid),
                )
            }
        }
    }
}

/// How soon a gate is needed that can't be used; `None`: not before somebody asks for it.
fn urgency_of(item: &GateItem, epoch: Option<u64>, is_wanted: bool, now: UnixMs) -> Option<Urgency> {
    match epoch {
        _ if looks::is_live(item, now) => Some(Urgency::Selling),
        _ if is_wanted => Some(Urgency::Wanted),
        _ if item.is_over(now) => None,
        Some(0) => Some(Urgency::New),
        _ => Some(Urgency::Unhurried),
    }
}

/// The orders among what is open at a gate. What nobody can read is reported, and passed over.
fn orders_of(core: &Core, sku: SkuId, rows: &OpenRows) -> Vec<Reservation> {
    if rows.unreadable > 0 {
        core.warnings.unreadable.met(&format_args!("{} reservations of SKU {}", rows.unreadable, sku.0));
    }
    let mut orders = Vec::new();
    for open in rows.records.iter().filter(|open| matches!(open.what, Open::Order(_))) {
        match readable(open) {
            Ok(order) => orders.push(order),
            Err(why) => core.warnings.unreadable.met(&format_args!("order {}: {why}", open.id())),
        }
    }
    orders
}

/// The order that a reservation holds, if it can stand in the ledger, which takes no other.
fn readable(open: &OpenRecord) -> Result<Reservation, String> {
    let order = order_of(open).map_err(|error| error.to_string())?;
    if fits(&order) { Ok(order) } else { Err("its record says what no server of ours writes".to_owned()) }
}

/// Into the ledger with orders whose messages never came, and what became of them to the gate.
fn roll_forward(core: &Core, engines: &mut Engines, orders: Vec<Reservation>) -> Result<(), LedgerError> {
    let (orders, outcomes) = take_in(core, engines, orders)?;
    report_to_gate(core, &mut engines.gate, &orders, &outcomes);
    Ok(())
}

/// Into the ledger with orders whose messages never came, but for those that a gate took whose epoch is over: it promises nothing.
fn take_in(
    core: &Core,
    engines: &mut Engines,
    mut orders: Vec<Reservation>,
) -> Result<(Vec<Reservation>, Vec<Outcome>), LedgerError> {
    let outcomes = loop {
        match engines.ledger.consume(core.clock.now(), &[], &orders, &|_| None)? {
            Ok(outcomes) => break outcomes,
            Err(over) => orders.retain(|order| !over.contains(&order.placement.id)),
        }
    };
    if !orders.is_empty() {
        tracing::warn!(orders = orders.len(), "open reservations were rolled forward");
        core.counts.rolled_forward.inc_by(orders.len() as u64);
        core.count_outcomes(&outcomes);
        core.status.nudge();
    }
    Ok((orders, outcomes))
}

/// Applies what waits in the outbox, and takes out what the gate has. Any server may do it, several at once too:
/// each row is applied once.
pub(in crate::cluster) fn pump_outbox(
    core: &Core,
    ledger: &mut dyn ClusterLedger,
    gate: &mut Gate,
) -> Result<(), LedgerError> {
    let mut after = 0;
    loop {
        // Rows that wait for a rebuild stay, so the next page begins behind them.
        let rows = ledger.outbox(OUTBOX_ROWS, after)?;
        let Some(last) = rows.last() else { return Ok(()) };
        after = last.id;
        let mut done = Vec::new();
        for (row, applied) in rows.iter().zip(gate.apply(&rows)) {
            match applied {
                Ok(answer) => match answer.what {
                    Applied::Done | Applied::Already | Applied::Old => {
                        core.stock.observe(core, row.sku, answer.seen);
                        done.push(row.id);
                    }
                    Applied::NotYet => {}
                    Applied::Drift => core.suspect(vec![row.sku]),
                },
                Err(error) => {
                    tracing::debug!(%error, "a row of the outbox waits for the gate");
                    core.note_closed(row.sku, &error);
                }
            }
        }
        ledger.outbox_done(&done)?;
        core.counts.outbox_applied.inc_by(done.len() as u64);
        core.suspect(gate.take_suspects());
        if rows.len() < OUTBOX_ROWS {
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    use engine::handover::GateSale;
    use engine::{BuyerId, Fingerprint, OrderId, Placement, ProductId};

    use super::*;
    use crate::queue::message;

    /// Anybody can want the gates of sales that are over: there may be thousands, with all of their orders.
    #[test]
    fn what_somebody_wants_of_a_sale_that_is_over_does_not_stand_beside_what_sells() {
        const DAY_MS: u64 = 86_400_000;
        let now = UnixMs(1_000 * DAY_MS);
        let item = |first: u64, last: u64| {
            let (starts_at, ends_at) = (UnixMs(first * DAY_MS), UnixMs(last * DAY_MS));
            let state = GateSale { version: 1, starts_at, ends_at, paused: false, ended: false };
            GateItem { sku: SkuId(1), state, limit: None, product: ProductId(1) }
        };
        let (over, on, to_come) = (item(1, 2), item(999, 1_001), item(1_009, 1_010));
        for (item, epoch, is_wanted, expected) in [
            (over, Some(3), false, None),
            (over, Some(3), true, Some(Urgency::Wanted)),
            (on, Some(3), true, Some(Urgency::Selling)),
            (on, Some(0), false, Some(Urgency::Selling)),
            (to_come, Some(0), false, Some(Urgency::New)),
            (to_come, Some(3), false, Some(Urgency::Unhurried)),
            (to_come, Some(3), true, Some(Urgency::Wanted)),
        ] {
            assert_eq!(
                urgency_of(&item, epoch, is_wanted, now),
                expected,
                "{item:?}, {epoch:?}, {is_wanted}"
            );
        }
    }

    #[test]
    fn a_record_that_can_be_decoded_and_not_be_stored_is_not_readable() {
        let is_readable = |text: &str| {
            let id = OrderId { sku: SkuId(1), hash: 2 };
            let placement =
                Placement { id, buyer: BuyerId::of_hash(3), quantity: 1, fingerprint: Fingerprint(4) };
            let (epoch, at) = (5, UnixMs(6));
            let buyer_text = Some(text.into());
            let order = Reservation { placement, buyer_text, epoch, reserved_at: at, address: None };
            let mut record = Vec::new();
            message::encode(&order, &mut record);
            let open = OpenRecord { what: Open::Order(placement), epoch, at, record: record.into() };
            readable(&open).is_ok_and(|read| read == order)
        };
        assert!(is_readable("Ann") && !is_readable("") && !is_readable(&"a".repeat(255)));
    }
}
