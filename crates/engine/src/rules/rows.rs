//! What the rules need of a state: the rows that commands read and events touch.
//!
//! Two things are such a state: the [`crate::Book`], which has all rows in memory, and the
//! [`crate::working_set::WorkingSet`], which has those that one transaction has read. How a row is found and kept
//! is theirs; what an event does to the rows is written once, beside this. Must not: decide anything, or say
//! what an event means.

use crate::handover::Grant;
use crate::line::Line;
use crate::order::Order;
use crate::sales::Sales;
use crate::{
    Adjust, BuyerId, Closing, Disposition, Entry, LineTerms, Operators, OrderId, OrderView, Pay, PaymentView,
    ProductId, Refunded, SaleId, Seq, SkuId, Stock, UnixMs,
};

/// A SKU's units, and how many orders it had, whatever became of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SkuRow {
    pub(crate) stock: Stock,
    pub(crate) orders: u64,
}

/// As far as the ledger goes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct End {
    /// The sequence number that the next event will have.
    pub(crate) next: Seq,
    /// The time of the latest event; the clock must not be behind it.
    pub(crate) last_at: UnixMs,
}

/// A state, row by row. The compiler makes a copy of every rule for each kind of state, so that this costs nothing.
pub(crate) trait Rows {
    /// How it names an order that it has.
    type Order: Copy;
    /// How it names a payment that it has.
    type Payment: Copy;

    fn end(&mut self) -> &mut End;
    /// The events since the start of whoever reads them.
    fn journal(&mut self) -> &mut Vec<Entry>;

    fn registry(&self) -> &Sales;
    fn registry_mut(&mut self) -> &mut Sales;

    /// Of a batch that has a command about them.
    fn operators(&mut self) -> &mut Operators;

    /// Of a SKU that has terms.
    fn sku(&self, sku: SkuId) -> &SkuRow;
    /// Of a SKU that has terms, to be changed.
    fn sku_mut(&mut self, sku: SkuId) -> &mut SkuRow;
    /// The line of a SKU, if it has one.
    fn line(&self, sku: SkuId) -> Option<&Line>;
    fn line_mut(&mut self, sku: SkuId) -> Option<&mut Line>;
    /// Of a new SKU that is sold to a line.
    fn insert_line(&mut self, sku: SkuId, of: (SaleId, ProductId), terms: LineTerms);

    /// Available units that nobody was promised who waits for them: what a late payment or a correction may take.
    fn spare(&self, sku: SkuId) -> u64 {
        let available = self.sku(sku).stock.available();
        available - self.line(sku).map_or(0, |line| line.promised(available))
    }

    /// Units that a buyer may order now.
    fn available_to(&self, sku: SkuId, buyer: BuyerId) -> u64 {
        match self.line(sku) {
            Some(line) => line.units_for(buyer).into(),
            None => self.sku(sku).stock.available(),
        }
    }

    /// Of a new sale; SKUs come in the order of their numbers.
    fn insert_sku(&mut self, sku: SkuId, row: SkuRow);

    /// What a buyer holds and owns of a SKU that has a limit.
    fn units_of(&self, sku: SkuId, buyer: BuyerId) -> u32;
    fn add_units(&mut self, sku: SkuId, buyer: BuyerId, units: u32);
    fn take_units(&mut self, sku: SkuId, buyer: BuyerId, units: u32);
    /// A buyer has one more turn open in the sale of a SKU, or one fewer.
    fn add_turn(&mut self, sku: SkuId, buyer: BuyerId);
    fn take_turn(&mut self, sku: SkuId, buyer: BuyerId);

    fn find(&self, id: OrderId) -> Option<Self::Order>;
    fn find_at(&self, seq: Seq) -> Option<Self::Order>;
    fn order_row(&self, order: Self::Order) -> Order;
    fn order_view(&self, order: Self::Order) -> OrderView;
    /// A new order. One that is held waits for its deadline, and counts to its buyer's open holds.
    fn insert_order(&mut self, order: Order);
    /// Notes how an order was closed; one that [`Closing::ends_hold`] was held, and is no more.
    fn close_order(&mut self, order: Self::Order, how: Closing, at: UnixMs);
    /// So much more of an order is refunded.
    fn add_refunded(&mut self, order: Self::Order, part: Refunded);

    fn find_payment(&self, id: &str) -> Option<Self::Payment>;
    fn find_payment_at(&self, seq: Seq) -> Option<Self::Payment>;
    fn payment(&self, payment: Self::Payment) -> &PaymentView;
    /// The payments that came before their order and have a refund due, oldest first.
    fn early_payments(&self, order: OrderId) -> Vec<Self::Payment>;
    /// A new payment; if a refund is due for it, it is listed so.
    fn insert_payment(&mut self, seq: Seq, at: UnixMs, pay: &Pay, disposition: Disposition);
    /// A refund that was due is due no more.
    fn end_refund(&mut self, payment: Self::Payment, to: Disposition);

    /// What was done under an operator's key.
    fn adjusted(&self, sku: SkuId, key: &str) -> Option<(Adjust, u64)>;
    fn insert_adjusted(&mut self, sku: SkuId, key: &str, done: (Adjust, u64));

    /// How far the clock was corrected since an entry.
    fn shift_ms_since(&self, seq: Seq) -> i64;
    /// The clock was corrected, by the entry of this number.
    fn correct_clock(&mut self, seq: Seq, from_to: (UnixMs, UnixMs));

    /// What a grant of the gate is worth now. A state that knows of all units has no gate: they are granted.
    fn grant(&self, sku: SkuId, grant: Grant) -> Grant;
    /// The name that the gate has for a correction under an operator's key.
    fn correction_id(&self, sku: SkuId, key: &str) -> OrderId;
    /// What has moved units, as the gate has to hear it. A state without a gate has nobody to report to.
    fn note_change(&mut self, sku: SkuId, change: UnitsMoved<'_>);
}

/// What has moved units outside of placing.
#[derive(Clone, Copy, Debug)]
pub(crate) enum UnitsMoved<'a> {
    Closed(Order, Closing),
    Adjusted {
        how: Adjust,
        units: u64,
        key: &'a str,
    },
    /// Units of a refunded order are on sale again.
    TakenBack {
        units: u32,
    },
}
