//! What a transaction came to: what a backend stores, all of it or nothing. Data only.

use std::collections::BTreeMap;

use super::{Rejection, SkuState, WorkingSet};
use crate::handover::Change;
use crate::{BuyerId, Entry, OrderId, Seq, SkuId, UnixMs};

/// Rows to be stored, and rows to be removed. Everything is in an order that is the same each time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Effects {
    /// The new end of the ledger.
    pub next_seq: Seq,
    pub last_at: UnixMs,
    pub entries: Vec<Entry>,
    /// Of orders among the entries, in their order. JSON text.
    pub addresses: Vec<(Seq, Box<[u8]>)>,
    /// Texts of buyers who are hashes, of all orders of theirs among the entries.
    pub buyers: Vec<(Seq, Box<str>)>,
    /// SKUs that are new or have changed.
    pub skus: Vec<(SkuId, SkuState)>,
    /// Units of buyers that have changed; 0: the row goes.
    pub units: Vec<((SkuId, BuyerId), u32)>,
    /// New holds by their order's entry, with their deadline.
    pub holds_opened: BTreeMap<Seq, UnixMs>,
    pub holds_closed: Vec<Seq>,
    /// New refunds by their payment's entry, with its order.
    pub refunds_opened: BTreeMap<Seq, OrderId>,
    pub refunds_closed: Vec<Seq>,
    pub rejections: Vec<(OrderId, Rejection)>,
    /// What the gate is to hear, with the SKU's epoch.
    pub outbox: Vec<(SkuId, u64, Change)>,
}

impl WorkingSet<'_> {
    /// The sales were changed by what was recorded here: if that is not stored, they must be read anew.
    pub fn sales_are_ahead(&self) -> bool {
        let first = self.effects.entries.first();
        first.is_some_and(|entry| self.sales.seen() >= entry.seq)
    }

    /// What is to be stored; `None`: the lock was not taken, or the batch was given up as a whole.
    pub fn into_effects(self) -> Option<Effects> {
        let end = self.end.filter(|_| !self.given_up)?;
        let changed_skus = self.skus.iter().filter(|(_, sku)| sku.changed);
        let changed_units = self.units.iter().filter(|(_, units)| units.before != units.now);
        Some(Effects {
            next_seq: end.next,
            last_at: end.last_at,
            skus: changed_skus.map(|(sku, state)| (*sku, SkuState::from(*state))).collect(),
            units: changed_units.map(|(who, units)| (*who, units.now)).collect(),
            ..self.effects
        })
    }
}
