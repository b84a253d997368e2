//! Rows as a backend has found them, and how they come into the set. What can't be is refused, not asserted: it was
//! read from a disk. Must not: judge.

use std::fmt;

use super::{Needs, Rejection, Sku, Units, WorkingSet};
use crate::order::Order;
use crate::rules::rows::SkuRow;
use crate::{
    Adjust, BuyerId, Closing, Disposition, Fingerprint, OrderId, OrderView, PaymentView, Refunded, Sales,
    Seq, SkuId, Stock, UnixMs,
};

/// What was read of the rows that were asked for.
#[derive(Clone, Debug, Default)]
pub struct Loaded {
    pub skus: Vec<(SkuId, SkuState)>,
    pub orders: Vec<(OrderId, OrderRow)>,
    pub rejections: Vec<(OrderId, Rejection)>,
    /// Payments with a refund due for the orders that were asked for, oldest first.
    pub refunds: Vec<PaymentView>,
    pub units: Vec<((SkuId, BuyerId), u32)>,
    pub payments: Vec<PaymentView>,
    pub adjustments: Vec<(AdjustmentKey, (Adjust, u64))>,
}

/// An operator's key, and the SKU for which it was used.
pub type AdjustmentKey = (SkuId, Box<str>);

/// A SKU's units, its orders and the epoch of its gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SkuState {
    pub stock: Stock,
    /// Of any status.
    pub orders: u64,
    /// 0: no gate was built yet.
    pub epoch: u64,
}

impl From<Sku> for SkuState {
    fn from(sku: Sku) -> SkuState {
        let SkuRow { stock, orders } = sku.row;
        SkuState { stock, orders, epoch: sku.epoch }
    }
}

/// An order as it stands in a ledger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OrderRow {
    pub seq: Seq,
    pub at: UnixMs,
    pub buyer: BuyerId,
    pub quantity: u32,
    /// Minor units, per unit.
    pub unit_price: u64,
    pub fingerprint: Fingerprint,
    /// Its latest transition.
    pub closed: Option<(Closing, UnixMs)>,
    pub refunded: Refunded,
}

/// A row that no server of ours can have written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unsound(pub(super) String);

impl fmt::Display for Unsound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Unsound {}

impl OrderRow {
    /// The order as it stands.
    ///
    /// # Errors
    /// If it has no SKU, or another price than that.
    pub fn view(&self, sales: &Sales, id: OrderId, refund_due: bool) -> Result<OrderView, Unsound> {
        Ok(self.order(sales, id)?.view(self.unit_price, 0, refund_due, self.refunded))
    }

    fn order(&self, sales: &Sales, id: OrderId) -> Result<Order, Unsound> {
        let terms = sales.terms(id.sku).ok_or_else(|| Unsound(format!("order {id} has no sale")))?;
        if terms.price != self.unit_price {
            return Err(Unsound(format!("order {id} has another price than its SKU")));
        }
        let payment = sales.payment(id.sku, self.seq).expect("a SKU with terms has a sale");
        let (payment_ms, placed_as) = (payment.hold_ms(), payment.placed_as());
        Ok(Order {
            hash: id.hash,
            seq: self.seq,
            buyer: self.buyer,
            placed_at: self.at,
            closed_at: self.closed.map_or(UnixMs(0), |(_, at)| at),
            fingerprint: self.fingerprint,
            sku: id.sku,
            quantity: self.quantity,
            payment_ms,
            status: self.closed.map_or(placed_as, |(how, _)| how.status()),
            paid_late: false,
        })
    }
}

impl WorkingSet<'_> {
    /// Takes in what was read: `needs` says what was asked for. Rows that are here already are left as they are: they may
    /// have changed since.
    ///
    /// # Errors
    /// If rows can't be as they are, or one is missing. The set must not be used then.
    ///
    /// # Panics
    /// If the lock was not taken: what was read before it may have changed.
    pub fn load(&mut self, needs: Needs, found: Loaded) -> Result<(), Unsound> {
        assert!(self.end.is_some(), "what is judged was read under the lock");
        for (sku, SkuState { stock, orders, epoch }) in found.skus {
            let row = SkuRow { stock, orders };
            self.skus.entry(sku).or_insert(Sku { row, epoch, changed: false });
        }
        let is_missing = |sku: &&SkuId| self.sales.terms(**sku).is_some() && !self.skus.contains_key(sku);
        if let Some(sku) = needs.skus.iter().find(is_missing) {
            return Err(Unsound(format!("SKU {} has no row of its stock", sku.0)));
        }
        for (who, units) in found.units {
            self.units.entry(who).or_insert(Units { before: units, now: units });
        }
        for who in &needs.buyers {
            self.units.entry(*who).or_insert(Units { before: 0, now: 0 });
        }
        for (id, row) in found.orders {
            if !self.order_by_id.contains_key(&id) {
                let order = row.order(self.sales, id)?;
                self.add_order(order);
                if row.refunded != Refunded::default() {
                    self.refunded.insert(id, row.refunded);
                }
            }
        }
        self.rejections.extend(found.rejections);
        self.adjustments.extend(found.adjustments);
        for payment in found.refunds {
            if !matches!(payment.disposition, Disposition::RefundDue(_)) {
                return Err(Unsound(format!("payment {} is in refunds_due, and none is", payment.seq.0)));
            }
            let order = payment.pay.order;
            if let Some(new) = self.add_payment(payment) {
                self.refunds.entry(order).or_default().push(new);
            }
        }
        for payment in found.payments {
            self.add_payment(payment);
        }
        self.needs.append(needs);
        Ok(())
    }
}
