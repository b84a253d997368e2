//! What must hold at every moment of a night, looked at after each turn in which the ledger or a gate has changed.

use std::collections::BTreeMap;
use std::time::Duration;

use engine::{Book, Closing, Entry, Event, LedgerKind, OrderId, Seq, UnixMs};

use super::broken::Broken;
use super::gates::units_at;
use super::{BEGAN, Engines, HOLD_MS, RESTOCK, SALE, SKU, UNITS};

/// Where a gate has how many units it can sell.
pub(super) const GATE: &[u8] = b"{db:00000000}:s";
/// And what is open there.
const OPEN: &[u8] = b"{db:00000000}:t";
pub(super) const LEFT: &[u8] = b"avail";
/// Clocks are read in whole milliseconds.
const ROUNDED_MS: u64 = 1;
/// Where a clock is set, until the others have found it out.
const EARLY_MS_MAX: u64 = 2_000;

/// The ledger as it grows, and the first thing that did not hold.
#[derive(Debug, Default)]
pub(super) struct Watch {
    book: Book,
    /// Entries that are in it, of which life of the database.
    followed: usize,
    life: u64,
    carried: u64,
    /// Until when each order may be paid.
    pay_by: BTreeMap<Seq, (OrderId, UnixMs)>,
    /// Since when each order was seen in the ledger.
    pub(super) placed: BTreeMap<OrderId, Duration>,
    /// Since when each was seen at a gate, open, by the hash of its id.
    pub(super) reserved: BTreeMap<u128, Duration>,
    /// The epoch of the gate, as the ledger has it, and when it was raised.
    epoch: u64,
    pub(super) raised: Vec<Duration>,
    /// From when until when the sale went on, though it was to be paused: that was undone with the tail of the database.
    unpaused: Vec<(Duration, Option<Duration>)>,
    /// The master that is cut off while its replica is promoted, and what it had to sell when it was looked at last.
    cut_off: Option<(&'static str, i64)>,
    /// Orders that such masters had reserved then, which may be published again, what they had to sell, and what has come back
    /// to them since: no more orders can be accepted there.
    pub(super) units_cut_off: u64,
    /// By how much an order may expire early, for clocks differ.
    early_ms_max: u64,
    pub(super) broken: Option<Broken>,
}

impl Watch {
    pub(super) fn new(clock_is_set: bool) -> Watch {
        Watch { early_ms_max: if clock_is_set { EARLY_MS_MAX } else { ROUNDED_MS }, ..Watch::default() }
    }

    /// From now on this master sells apart from its replica.
    pub(super) fn cut_off(&mut self, engines: &Engines, address: &'static str) {
        self.cut_off = Some((address, 0));
        let reserved = engines.network.change(address, |redis| redis.members(OPEN).len());
        self.units_cut_off += reserved as u64;
        self.look_at_master_cut_off(engines);
    }

    pub(super) fn mended(&mut self) {
        self.cut_off = None;
    }

    /// Whether the sale went on at some time between these, though it was to be paused.
    pub(super) fn was_unpaused(&self, from: Duration, to: Duration) -> bool {
        self.unpaused.iter().any(|(since, until)| *since <= to && until.is_none_or(|until| from <= until))
    }

    pub(super) fn look(&mut self, engines: &Engines, at: Duration) {
        let epoch = engines.database.epoch(SKU);
        if std::mem::replace(&mut self.epoch, epoch) < epoch {
            self.raised.push(at);
        }
        if self.broken.is_none() {
            let broken = self.look_at_ledger(engines, at);
            let broken = broken.or_else(|| self.look_at_gates(engines, at).map(Broken::from));
            self.broken = broken.map(|broken| broken.seen(at));
        }
    }

    fn look_at_ledger(&mut self, engines: &Engines, at: Duration) -> Option<Broken> {
        let (life, new) = engines.database.entries_since((self.life, self.followed));
        let falls_back = life != self.life;
        let was_paused = falls_back && self.is_paused();
        if falls_back {
            (self.life, self.followed, self.book) = (life, 0, Book::new());
            self.pay_by.clear();
        }
        if new.is_empty() {
            return None;
        }
        self.followed += new.len();
        let followed = new.iter().try_for_each(|entry| self.book.replay(LedgerKind::Gated, entry));
        if let Err(error) = followed {
            return Some(format!("the ledger does not follow: {error}").into());
        }
        if !self.is_paused() {
            self.unpaused.extend(was_paused.then_some((at, None)));
        } else if let Some((_, until)) = self.unpaused.last_mut() {
            *until = until.or(Some(at));
        }
        let early = new.iter().filter_map(|entry| self.expired_early(entry, at)).max();
        let early = early
            .map(|(early, id)| Broken::of([id], format!("order {:x} has expired {early} ms early", id.hash)));
        early.or_else(|| Some(self.book.check_invariants().err()?.join("; ").into()))
    }

    fn is_paused(&self) -> bool {
        self.book.sale(SALE).is_some_and(|sale| sale.paused)
    }

    /// By how many milliseconds, and which order.
    fn expired_early(&mut self, entry: &Entry, at: Duration) -> Option<(u64, OrderId)> {
        let now = BEGAN.plus(u64::try_from(at.as_millis()).expect("a night is short"));
        match entry.event {
            Event::OrderPlaced { id, .. } => {
                self.pay_by.insert(entry.seq, (id, entry.at.plus(HOLD_MS)));
                self.placed.entry(id).or_insert(at);
                None
            }
            Event::OrderClosed { order, how: Closing::Expired } => {
                let (id, pay_by) = self.pay_by.get(&order)?;
                let early = pay_by.0.checked_sub(now.0).filter(|early| *early > self.early_ms_max);
                early.map(|early| (early, *id))
            }
            _ => None,
        }
    }

    fn look_at_gates(&mut self, engines: &Engines, at: Duration) -> Option<String> {
        let carried = engines.network.carried();
        if std::mem::replace(&mut self.carried, carried) == carried {
            return None;
        }
        self.look_at_master_cut_off(engines);
        for hash in engines.network.members(OPEN) {
            if let Ok(hash) = <[u8; 16]>::try_from(hash) {
                self.reserved.entry(u128::from_be_bytes(hash)).or_insert(at);
            }
        }
        let left = engines.network.fields(GATE, LEFT);
        let left = left.iter().filter_map(|text| std::str::from_utf8(text).ok()?.parse::<i64>().ok());
        let most = i64::try_from(UNITS + RESTOCK).unwrap_or(i64::MAX);
        let too_many = left.max().filter(|left| *left > most)?;
        Some(format!("a gate has {too_many} units of SKU {} to sell, and there are {most}", SKU.0))
    }

    fn look_at_master_cut_off(&mut self, engines: &Engines) {
        let Some((address, had)) = &mut self.cut_off else { return };
        let has = units_at(&engines.network, address).unwrap_or(0);
        self.units_cut_off += u64::try_from(has - *had).unwrap_or(0);
        *had = has;
    }
}
