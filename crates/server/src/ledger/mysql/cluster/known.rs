//! What a transaction knows: orders, units and payments as they were read, brought up to date by every event, and the rows
//! that go with its events. Data only.

use std::collections::{BTreeMap, HashMap};

use engine::handover::Change;
use engine::{
    Adjust, BuyerId, Closing, Fingerprint, OrderId, PaymentView, Refusal, Seq, SkuId, Stock, UnixMs,
};

/// An order as it stands.
#[derive(Clone, Copy, Debug)]
pub(super) struct OrderRow {
    pub(super) seq: Seq,
    pub(super) at: UnixMs,
    pub(super) buyer: BuyerId,
    pub(super) quantity: u32,
    pub(super) unit_price: u64,
    pub(super) fingerprint: Fingerprint,
    /// Its latest transition.
    pub(super) closed: Option<(Closing, UnixMs)>,
}

/// A SKU's units, its orders and the epoch of its gate.
#[derive(Clone, Copy, Debug)]
pub(super) struct SkuState {
    pub(super) stock: Stock,
    pub(super) orders: u64,
    pub(super) epoch: u64,
    pub(super) changed: bool,
}

/// Units of a buyer: as they were read and as they are now.
#[derive(Clone, Copy, Debug)]
pub(super) struct BuyerUnits {
    pub(super) before: u32,
    pub(super) now: u32,
}

/// How far a queue was taken in, and by whom.
#[derive(Clone, Copy, Debug)]
pub(super) struct QueueState {
    pub(super) next_offset: u64,
    pub(super) owner: u64,
    pub(super) generation: u64,
}

/// What was read, brought up to date by every event.
#[derive(Debug, Default)]
pub(super) struct Known {
    pub(super) orders: HashMap<OrderId, OrderRow>,
    pub(super) rejections: HashMap<OrderId, Rejection>,
    pub(super) skus: BTreeMap<SkuId, SkuState>,
    pub(super) buyers: HashMap<(SkuId, BuyerId), BuyerUnits>,
    pub(super) payments: HashMap<Box<str>, PaymentView>,
    /// Payments for which a refund is due, by the order that they were for, oldest first.
    pub(super) refunds: HashMap<OrderId, Vec<PaymentView>>,
    pub(super) adjustments: HashMap<(SkuId, Box<str>), (Adjust, u64)>,
    pub(super) queues: HashMap<String, QueueState>,
}

/// Rows that are no entries.
#[derive(Debug, Default)]
pub(super) struct Beside {
    pub(super) holds_opened: BTreeMap<Seq, UnixMs>,
    pub(super) holds_closed: Vec<Seq>,
    pub(super) refunds_opened: BTreeMap<Seq, OrderId>,
    pub(super) refunds_closed: Vec<Seq>,
    pub(super) rejections: Vec<(OrderId, Rejection)>,
    pub(super) outbox: Vec<(SkuId, u64, Change)>,
    /// Queue and its next offset.
    pub(super) offsets: Vec<(String, u64)>,
    /// Whole statements.
    pub(super) more: Vec<String>,
}

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
