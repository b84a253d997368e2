//! The working set: what one transaction has read of a ledger that many servers share, judged by the rules of the
//! engine, and the effects that are to be stored.
//!
//! A transaction takes the ledger's lock, asks [`Needs`] which rows its batch will touch, reads them, and loads them here.
//! Then the batch is judged, one order or operation after the other; each sees what the ones before it did. What came of
//! it leaves as [`Effects`]. A row that was judged and had not been read is a bug, and panics.
//!
//! The same rules as the [`crate::Book`]'s, with what a gate in front adds: window and pause are not judged, the gate
//! has. Open holds are not counted, as a sale that bounds them is refused. An order may be rejected, if the gate had lost
//! memory. A late payment and a correction need a [`crate::handover::Grant`] of the gate, which alone knows of units in
//! flight. And what the ledger does to units on its own is noted as a [`Change`] that the gate is to hear. Must not: read
//! or store anything, or keep anything from one transaction to the next but the sales.

mod effects;
mod load;
mod needs;
mod operate;
mod rows;

use std::collections::{BTreeMap, BTreeSet};

use crate::handover::{Change, Reservation};
use crate::order::Order;
use crate::rules::apply::record;
use crate::rules::rows::{End, Rows, SkuRow};
use crate::rules::{self, place};
use crate::sharded::FixedMap;
use crate::{
    Adjust, BuyerId, Entry, Event, Fingerprint, Inconsistent, KeptAddress, Operators, OrderId, OrderView,
    PaymentView, Placement, Refunded, Refusal, Sales, Seq, SkuId, Stock, UnixMs,
};

pub use effects::Effects;
pub use load::{AdjustmentKey, Loaded, OrderRow, SkuState, Unsound};
pub use needs::Needs;
pub use operate::{Executed, Operation};

/// An order that the ledger could not take: the gate had lost memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rejection {
    pub at: UnixMs,
    pub buyer: BuyerId,
    pub quantity: u32,
    pub fingerprint: Fingerprint,
    pub epoch: u64,
    pub reason: Refusal,
}

/// What an order came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is in the ledger since this call.
    Placed(OrderView),
    /// It was in the ledger before. As it was placed.
    Known(OrderView),
    /// Another order stands under this id.
    Conflict,
    /// The ledger could not take it, now or before. It stays so.
    Rejected(Rejection),
}

/// A SKU in the set.
#[derive(Clone, Copy, Debug)]
struct Sku {
    row: SkuRow,
    /// Of its gate.
    epoch: u64,
    changed: bool,
}

/// Units of a buyer: as they were read and as they are now.
#[derive(Clone, Copy, Debug)]
struct Units {
    before: u32,
    now: u32,
}

/// What one transaction has read, brought up to date by every event.
#[derive(Debug)]
pub struct WorkingSet<'s> {
    sales: &'s mut Sales,
    now: UnixMs,
    /// `None`: the lock was not taken yet.
    end: Option<End>,
    at: UnixMs,
    /// What was asked for, whether there was a row or not.
    needs: Needs,
    skus: BTreeMap<SkuId, Sku>,
    units: BTreeMap<(SkuId, BuyerId), Units>,
    orders: Vec<Order>,
    order_by_id: FixedMap<OrderId, u32>,
    order_by_seq: FixedMap<Seq, u32>,
    rejections: FixedMap<OrderId, Rejection>,
    payments: Vec<PaymentView>,
    payment_by_id: FixedMap<Box<str>, u32>,
    payment_by_seq: FixedMap<Seq, u32>,
    /// What of orders was refunded, of those of which something was.
    refunded: FixedMap<OrderId, Refunded>,
    /// Payments for which a refund is due, by the order that they were for, oldest first.
    refunds: FixedMap<OrderId, Vec<u32>>,
    adjustments: FixedMap<(SkuId, Box<str>), (Adjust, u64)>,
    /// Of orders that are to be given an address: what they have.
    kept_addresses: FixedMap<OrderId, KeptAddress>,
    /// Read for a batch that has a command about them.
    operators: Option<Operators>,
    correction_id: fn(SkuId, &str) -> OrderId,
    effects: Effects,
    /// A batch of which all or none was to be came to none.
    given_up: bool,
}

impl<'s> WorkingSet<'s> {
    /// An empty set at the server's time. `sales`: as far as the caller has followed them. `correction_id`: the name that
    /// the gate has for a correction under an operator's key, a hash that the engine has no means to make.
    pub fn new(
        sales: &'s mut Sales,
        now: UnixMs,
        correction_id: fn(SkuId, &str) -> OrderId,
    ) -> WorkingSet<'s> {
        WorkingSet {
            sales,
            now,
            end: None,
            at: now,
            needs: Needs::default(),
            skus: BTreeMap::new(),
            units: BTreeMap::new(),
            orders: Vec::new(),
            order_by_id: FixedMap::default(),
            order_by_seq: FixedMap::default(),
            rejections: FixedMap::default(),
            payments: Vec::new(),
            payment_by_id: FixedMap::default(),
            payment_by_seq: FixedMap::default(),
            refunded: FixedMap::default(),
            refunds: FixedMap::default(),
            adjustments: FixedMap::default(),
            kept_addresses: FixedMap::default(),
            operators: None,
            correction_id,
            effects: Effects::default(),
            given_up: false,
        }
    }

    /// The ledger's lock is taken: this far it goes. Nothing can be recorded before.
    pub fn begin(&mut self, next_seq: Seq, last_at: UnixMs) {
        assert!(self.end.is_none(), "a transaction takes the lock once");
        self.end = Some(End { next: next_seq, last_at });
        self.at = WorkingSet::time(self.now, last_at);
    }

    /// A time, as a ledger that ends at another takes it: never before its latest entry.
    pub fn time(now: UnixMs, last_at: UnixMs) -> UnixMs {
        now.max(last_at)
    }

    /// Follows an entry about a sale that another server has written since.
    ///
    /// # Errors
    /// If it does not follow from what is known.
    pub fn follow(&mut self, entry: &Entry) -> Result<(), Inconsistent> {
        assert!(self.effects.entries.is_empty(), "what others wrote comes first");
        self.sales.replay(entry)
    }

    /// The lock was taken.
    pub fn begun(&self) -> bool {
        self.end.is_some()
    }

    /// The time of everything in this transaction: never before the ledger's latest entry.
    pub fn at(&self) -> UnixMs {
        self.at
    }

    /// The sequence number that the next event will have.
    ///
    /// # Panics
    /// If the lock was not taken.
    pub fn next_seq(&self) -> Seq {
        self.end.expect("the lock was taken").next
    }

    pub fn sales(&self) -> &Sales {
        self.sales
    }

    /// An order that was read or placed, as it stands.
    pub fn order(&self, id: OrderId) -> Option<OrderView> {
        self.find(id).map(|order| self.order_view(order))
    }

    /// The same, by the entry that placed it.
    pub fn order_at(&self, seq: Seq) -> Option<OrderView> {
        self.find_at(seq).map(|order| self.order_view(order))
    }

    /// What was recorded so far.
    pub fn entries(&self) -> &[Entry] {
        &self.effects.entries
    }

    /// The stock of a SKU that was read.
    pub fn stock(&self, sku: SkuId) -> Option<Stock> {
        self.skus.get(&sku).map(|sku| sku.row.stock)
    }

    /// How many orders a SKU that was read has had.
    pub fn orders(&self, sku: SkuId) -> Option<u64> {
        self.skus.get(&sku).map(|sku| sku.row.orders)
    }

    /// Takes orders in, one after the other. The gate that there is never took the units of one of an older epoch that is new to
    /// the ledger, and may have given them to somebody whose order was accepted: `refused` is why it refused this one.
    ///
    /// # Errors
    /// Those of an older epoch of which it must be asked first. Nothing is taken in then.
    ///
    /// # Panics
    /// If what [`Needs::of_orders`] asks for was not loaded.
    pub fn admit_all(
        &mut self,
        orders: &[Reservation],
        refused: impl Fn(OrderId) -> Option<Refusal>,
    ) -> Result<Vec<Outcome>, Vec<OrderId>> {
        let (mut outcomes, mut ask) = (Vec::with_capacity(orders.len()), Vec::new());
        for order in orders {
            let id = order.placement.id;
            if !self.is_outdated(order) {
                outcomes.push(self.admit(order));
            } else if let Some(reason) = refused(id) {
                // Under an id that was rejected before, the answer is that one.
                let rejected = self.rejected(id);
                let reject = || self.reject(&order.placement, order.epoch, reason);
                outcomes.push(Outcome::Rejected(rejected.unwrap_or_else(reject)));
            } else {
                ask.push(id);
            }
        }
        self.given_up = !ask.is_empty();
        if self.given_up { Err(ask) } else { Ok(outcomes) }
    }

    /// Of an epoch that is over, and new to the ledger.
    fn is_outdated(&self, Reservation { placement, epoch, .. }: &Reservation) -> bool {
        self.skus.get(&placement.id.sku).is_some_and(|sku| *epoch < sku.epoch)
            && self.find(placement.id).is_none()
            && self.rejections.get(&placement.id).is_none_or(|rejection| *epoch > rejection.epoch)
    }

    /// Takes one order in, or says why not. It is judged by units and limits: the ledger is the last guard, whatever the
    /// gate had said.
    ///
    /// # Panics
    /// If what [`Needs::of_orders`] asks for was not loaded.
    pub fn admit(&mut self, reservation: &Reservation) -> Outcome {
        let Reservation { placement: ref asked, epoch, ref address, ref buyer_text, .. } = *reservation;
        let rejected = self.rejected(asked.id);
        // Another reservation under the same id, of a gate that was built since, counts, whatever it is for: the old answer does not.
        if let Some(rejection) = rejected.filter(|rejection| epoch <= rejection.epoch) {
            let same = rules::repeat((rejection.fingerprint, rejection.buyer, rejection.quantity), asked);
            return same.map_or(Outcome::Conflict, |()| Outcome::Rejected(rejection));
        }
        match place::place(self, self.at, asked, |_| Ok(None)) {
            Ok((order, true)) => Outcome::Known(order),
            Err(Refusal::KeyConflict) => Outcome::Conflict,
            Err(reason) => Outcome::Rejected(rejected.unwrap_or_else(|| self.reject(asked, epoch, reason))),
            Ok((order, false)) => {
                if let Some(text) = buyer_text {
                    self.effects.buyers.push((order.seq, text.clone()));
                }
                if let Some(address) = address {
                    self.effects.addresses.push((order.seq, address.clone()));
                }
                Outcome::Placed(order)
            }
        }
    }

    /// Lets orders expire whose holds are due.
    ///
    /// # Errors
    /// If one is not held, or not due.
    pub fn expire(&mut self, due: &[OrderId]) -> Result<(), Unsound> {
        for id in due {
            let order = self.find(*id);
            if !order.is_some_and(|order| place::expire(self, self.at, order)) {
                return Err(Unsound(format!("order {id} is in open_holds and not held, or not due")));
            }
        }
        Ok(())
    }

    /// Begins the next epoch of a SKU's gate, and returns it; `None`: there is no such SKU.
    pub fn raise_epoch(&mut self, sku: SkuId) -> Option<u64> {
        self.sales.terms(sku)?;
        let state = self.skus.get_mut(&sku).expect("the transaction has read the SKUs of all that it moves");
        state.epoch += 1;
        state.changed = true;
        Some(state.epoch)
    }

    /// The rejection of this id, if no order came after it.
    fn rejected(&self, id: OrderId) -> Option<Rejection> {
        if self.find(id).is_some() { None } else { self.rejections.get(&id).copied() }
    }

    fn reject(&mut self, asked: &Placement, epoch: u64, reason: Refusal) -> Rejection {
        let Placement { id, buyer, quantity, fingerprint } = *asked;
        let rejection = Rejection { at: self.at, buyer, quantity, fingerprint, epoch, reason };
        self.rejections.insert(id, rejection);
        if reason != Refusal::UnknownSku {
            record(self, self.at, Event::OrderRejected { order: id, reason });
        }
        self.effects.rejections.push((id, rejection));
        rejection
    }

    /// The gate is to hear of it.
    fn change(&mut self, sku: SkuId, change: Change) {
        self.effects.outbox.push((sku, self.skus[&sku].epoch, change));
    }

    /// The orders, payments or keys that are looked for and not there: whether they were asked for.
    fn assert_asked<T: Ord + ?Sized, K: Ord + std::borrow::Borrow<T>>(asked: &BTreeSet<K>, key: &T) {
        assert!(asked.contains(key), "the transaction has read all that its rules need");
    }
}
