//! How the book keeps its rows. Must not: judge, or say what an event means; that is [`crate::rules`]'.

use std::cmp::Reverse;

use super::{Book, Sku};
use crate::handover::Grant;
use crate::line::Line;
use crate::line::draw::LineSecrets;
use crate::order::Order;
use crate::rules::rows::{End, Rows, SkuRow, UnitsMoved};
use crate::sales::Sales;
use crate::sharded::hash_of;
use crate::{
    Adjust, BuyerId, Closing, Disposition, Entry, LineTerms, Operators, OrderId, OrderView, Pay, PaymentView,
    ProductId, RETURNED_HOLDS_FREE, RefundReason, Refunded, SaleId, Seq, SkuId, Status, UnixMs,
};

impl Rows for Book {
    /// Position in `Book::orders`.
    type Order = u32;
    /// Position in `Book::payments`.
    type Payment = u32;

    fn end(&mut self) -> &mut End {
        &mut self.end
    }

    fn journal(&mut self) -> &mut Vec<Entry> {
        &mut self.journal
    }

    fn registry(&self) -> &Sales {
        &self.sales
    }

    fn registry_mut(&mut self) -> &mut Sales {
        &mut self.sales
    }

    fn operators(&mut self) -> &mut Operators {
        &mut self.operators
    }

    fn sku(&self, sku: SkuId) -> &SkuRow {
        &self.skus[sku.0 as usize].row
    }

    fn sku_mut(&mut self, sku: SkuId) -> &mut SkuRow {
        let entry = &mut self.skus[sku.0 as usize];
        if !entry.touched {
            entry.touched = true;
            self.touched.push(sku);
        }
        self.stir(sku);
        &mut self.skus[sku.0 as usize].row
    }

    fn line(&self, sku: SkuId) -> Option<&Line> {
        self.skus[sku.0 as usize].line.as_deref()
    }

    /// Whatever becomes of a line may be for somebody to be called.
    fn line_mut(&mut self, sku: SkuId) -> Option<&mut Line> {
        self.stir(sku);
        self.skus[sku.0 as usize].line.as_deref_mut()
    }

    fn insert_line(&mut self, sku: SkuId, (sale, product): (SaleId, ProductId), terms: LineTerms) {
        let secrets = LineSecrets::new(self.ledger_secret, sale, product);
        self.skus[sku.0 as usize].line = Some(Box::new(Line::new(terms, secrets)));
        self.has_lines = true;
        self.line_mut(sku);
    }

    fn insert_sku(&mut self, sku: SkuId, row: SkuRow) {
        assert_eq!(sku.0 as usize, self.skus.len(), "SKUs come in the order of their numbers");
        self.skus.push(Sku { row, touched: true, line: None, stirred: false, moved: false });
        self.touched.push(sku);
    }

    fn units_of(&self, sku: SkuId, buyer: BuyerId) -> u32 {
        self.units.get(sku.0, buyer)
    }

    fn add_units(&mut self, sku: SkuId, buyer: BuyerId, units: u32) {
        self.units.add(sku.0, buyer, units);
    }

    fn take_units(&mut self, sku: SkuId, buyer: BuyerId, units: u32) {
        self.units.take(sku.0, buyer, units);
    }

    fn add_turn(&mut self, sku: SkuId, buyer: BuyerId) {
        if let Some(sale) = self.bounds_holds(sku) {
            self.turns.add(sale, buyer, 1);
        }
    }

    fn take_turn(&mut self, sku: SkuId, buyer: BuyerId) {
        if let Some(sale) = self.bounds_holds(sku) {
            self.turns.take(sale, buyer, 1);
        }
    }

    fn find(&self, id: OrderId) -> Option<u32> {
        self.order_by_id.find(table_hash(id.hash), |index| self.orders[*index as usize].id() == id).copied()
    }

    fn find_at(&self, seq: Seq) -> Option<u32> {
        self.orders.binary_search_by_key(&seq, |order| order.seq).ok().map(position)
    }

    fn order_row(&self, order: u32) -> Order {
        self.orders[order as usize]
    }

    fn order_view(&self, order: u32) -> OrderView {
        let order = &self.orders[order as usize];
        let refund_due = !self.refunds.is_empty() && self.refunds.contains_key(&order.id());
        let refunded = if self.refunded.is_empty() { None } else { self.refunded.get(&order.id()).copied() };
        let terms = self.sales.terms(order.sku).expect("an order has a SKU");
        order.view(terms.price, self.shift_ms_since(order.seq), refund_due, refunded.unwrap_or_default())
    }

    fn insert_order(&mut self, order: Order) {
        let index = position(self.orders.len());
        if order.status == Status::Held {
            self.deadlines.push(Reverse((order.pay_by(self.shift_ms_since(order.seq)), index)));
            if let Some(sale) = self.bounds_holds(order.sku) {
                self.holds.add(sale, order.buyer, 1);
            }
        }
        self.orders.push(order);
        let orders = &self.orders;
        self.order_by_id
            .insert(table_hash(order.hash), index, |index| table_hash(orders[*index as usize].hash));
    }

    fn close_order(&mut self, order: u32, how: Closing, at: UnixMs) {
        let order = &mut self.orders[order as usize];
        order.status = how.status();
        order.closed_at = at;
        order.paid_late |= how == Closing::PaidLate;
        let (sku, buyer) = (order.sku, order.buyer);
        self.paying = None;
        if how.returns_units() {
            self.returned_holds.add(sku.0, buyer, 1);
            if self.returned_holds.get(sku.0, buyer) > RETURNED_HOLDS_FREE {
                let entry = Seq(self.end.next.0 - 1);
                self.cooling.insert((sku, buyer), (entry, at));
            }
        }
        if how.ends_hold()
            && let Some(sale) = self.bounds_holds(sku)
        {
            self.holds.take(sale, buyer, 1);
        }
    }

    fn add_refunded(&mut self, order: u32, part: Refunded) {
        let id = self.orders[order as usize].id();
        self.refunded.entry(id).or_default().add(part);
        let order = self.order_view(order);
        if order.refunded.amount == order.amount() {
            self.paying = Some(id);
        }
    }

    fn find_payment(&self, id: &str) -> Option<u32> {
        self.payment_by_id.find(hash_of(id), |index| *self.payments[*index as usize].pay.id == *id).copied()
    }

    fn find_payment_at(&self, seq: Seq) -> Option<u32> {
        self.payments.binary_search_by_key(&seq, |payment| payment.seq).ok().map(position)
    }

    fn payment(&self, payment: u32) -> &PaymentView {
        &self.payments[payment as usize]
    }

    fn early_payments(&self, order: OrderId) -> Vec<u32> {
        // Most books have none: no order is looked for among them.
        if self.unmatched.is_empty() {
            return Vec::new();
        }
        self.unmatched.get(&order).cloned().unwrap_or_default()
    }

    fn insert_payment(&mut self, seq: Seq, at: UnixMs, pay: &Pay, disposition: Disposition) {
        let index = position(self.payments.len());
        if disposition == Disposition::Applied {
            self.paying = Some(pay.order);
        }
        if let Disposition::RefundDue(reason) = disposition {
            *self.refunds.entry(pay.order).or_insert(0) += 1;
            self.refunds_due += 1;
            if reason == RefundReason::UnknownOrder {
                self.unmatched.entry(pay.order).or_default().push(index);
            }
        }
        self.payments.push(PaymentView { pay: pay.clone(), seq, at, disposition });
        let payments = &self.payments;
        self.payment_by_id
            .insert(hash_of(&*pay.id), index, |index| hash_of(&*payments[*index as usize].pay.id));
    }

    fn end_refund(&mut self, payment: u32, to: Disposition) {
        let recorded = &mut self.payments[payment as usize];
        recorded.disposition = to;
        let order = recorded.pay.order;
        if to == Disposition::Applied {
            self.paying = Some(order);
        }
        let due = self.refunds.get_mut(&order).expect("a refund was due for the order");
        *due -= 1;
        self.refunds_due -= 1;
        if *due == 0 {
            self.refunds.remove(&order);
        }
        if let Some(waiting) = self.unmatched.get_mut(&order) {
            waiting.retain(|other| *other != payment);
            if waiting.is_empty() {
                self.unmatched.remove(&order);
            }
        }
    }

    fn adjusted(&self, sku: SkuId, key: &str) -> Option<(Adjust, u64)> {
        self.adjustments.get(&(sku, key.into())).copied()
    }

    fn insert_adjusted(&mut self, sku: SkuId, key: &str, done: (Adjust, u64)) {
        self.adjustments.insert((sku, key.into()), done);
    }

    fn shift_ms_since(&self, seq: Seq) -> i64 {
        let Some((_, total)) = self.corrections.last() else { return 0 };
        match self.corrections.partition_point(|(corrected, _)| *corrected < seq) {
            0 => *total,
            before => total.saturating_sub(self.corrections[before - 1].1),
        }
    }

    fn correct_clock(&mut self, seq: Seq, from_to: (UnixMs, UnixMs)) {
        self.correct(seq, from_to);
    }

    /// The book knows of all units, so there is no gate to be asked.
    fn grant(&self, _sku: SkuId, _grant: Grant) -> Grant {
        Grant::Taken { epoch: 0 }
    }

    fn correction_id(&self, _sku: SkuId, _key: &str) -> OrderId {
        unreachable!("a book claims nothing at a gate")
    }

    fn note_change(&mut self, _sku: SkuId, _change: UnitsMoved<'_>) {}
}

impl Book {
    /// Makes room for this many orders more: a ledger that is being opened knows how many come.
    pub fn reserve_orders(&mut self, additional: usize) {
        self.orders.reserve(additional);
        let orders = &self.orders;
        self.order_by_id.reserve(additional, |index| table_hash(orders[*index as usize].hash));
    }

    /// A line is to be looked at, if the SKU has one.
    fn stir(&mut self, sku: SkuId) {
        let entry = &mut self.skus[sku.0 as usize];
        if entry.line.is_none() {
            return;
        }
        if !entry.stirred {
            entry.stirred = true;
            self.stirred.push(sku);
        }
        if !entry.moved {
            entry.moved = true;
            self.moved.push(sku);
        }
    }

    /// The position of a SKU's sale, if that bounds the open holds per buyer.
    pub(super) fn bounds_holds(&self, sku: SkuId) -> Option<u32> {
        let terms = self.sales.terms(sku).expect("an order has a SKU");
        self.sales.of(terms).spec.open_holds_per_buyer_max.map(|_max| terms.sale)
    }
}

fn position(index: usize) -> u32 {
    u32::try_from(index).expect("fewer than 4 billion orders or payments in a book")
}

/// An order id's hash is one already; its low half serves the table as it is.
#[expect(clippy::cast_possible_truncation, reason = "the low half is wanted")]
fn table_hash(hash: u128) -> u64 {
    hash as u64
}
