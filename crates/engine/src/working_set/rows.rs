//! How the working set keeps its rows, and which of them are to be stored. Must not: judge, or say what an event
//! means; that is [`crate::rules`]'.

use super::{Sku, WorkingSet};
use crate::handover::{Change, Grant};
use crate::line::Line;
use crate::order::Order;
use crate::rules::rows::{End, Rows, SkuRow, UnitsMoved};
use crate::{
    Adjust, BuyerId, Closing, Disposition, Entry, LineTerms, Operators, OrderId, OrderView, Pay, PaymentView,
    ProductId, RefundReason, Refunded, SaleId, Sales, Seq, SkuId, Status, UnixMs,
};

const NO_LINES: &str = "a sale with a line is refused where several servers sell";

impl Rows for WorkingSet<'_> {
    /// Position in `WorkingSet::orders`.
    type Order = u32;
    /// Position in `WorkingSet::payments`.
    type Payment = u32;

    fn end(&mut self) -> &mut End {
        self.end.as_mut().expect("nothing is recorded without the lock")
    }

    fn journal(&mut self) -> &mut Vec<Entry> {
        &mut self.effects.entries
    }

    fn registry(&self) -> &Sales {
        self.sales
    }

    fn registry_mut(&mut self) -> &mut Sales {
        self.sales
    }

    fn operators(&mut self) -> &mut Operators {
        self.operators.as_mut().expect("the transaction has read the operators of a command about them")
    }

    fn sku(&self, sku: SkuId) -> &SkuRow {
        &self.skus.get(&sku).expect("the transaction has read the SKUs of all that it judges").row
    }

    fn sku_mut(&mut self, sku: SkuId) -> &mut SkuRow {
        let sku = self.skus.get_mut(&sku).expect("the transaction has read the SKUs of all that it moves");
        sku.changed = true;
        &mut sku.row
    }

    fn line(&self, _sku: SkuId) -> Option<&Line> {
        None
    }

    fn line_mut(&mut self, _sku: SkuId) -> Option<&mut Line> {
        None
    }

    fn insert_line(&mut self, _sku: SkuId, _of: (SaleId, ProductId), _terms: LineTerms) {
        unreachable!("{NO_LINES}")
    }

    fn add_turn(&mut self, _sku: SkuId, _buyer: BuyerId) {
        unreachable!("{NO_LINES}")
    }

    fn take_turn(&mut self, _sku: SkuId, _buyer: BuyerId) {
        unreachable!("{NO_LINES}")
    }

    fn insert_sku(&mut self, sku: SkuId, row: SkuRow) {
        self.skus.insert(sku, Sku { row, epoch: 0, changed: true });
    }

    fn units_of(&self, sku: SkuId, buyer: BuyerId) -> u32 {
        self.units.get(&(sku, buyer)).expect("the transaction has read the units of all that it judges").now
    }

    fn add_units(&mut self, sku: SkuId, buyer: BuyerId, units: u32) {
        let has = self.units.get_mut(&(sku, buyer)).expect("their buyer's units were read");
        has.now += units;
    }

    fn take_units(&mut self, sku: SkuId, buyer: BuyerId, units: u32) {
        let has = self.units.get_mut(&(sku, buyer)).expect("their buyer's units were read");
        has.now = has.now.checked_sub(units).expect("a buyer's units are what the orders say");
    }

    fn find(&self, id: OrderId) -> Option<u32> {
        let found = self.order_by_id.get(&id).copied();
        if found.is_none() {
            WorkingSet::assert_asked(&self.needs.orders, &id);
        }
        found
    }

    fn find_at(&self, seq: Seq) -> Option<u32> {
        self.order_by_seq.get(&seq).copied()
    }

    fn order_row(&self, order: u32) -> Order {
        self.orders[order as usize]
    }

    fn order_view(&self, order: u32) -> OrderView {
        let order = &self.orders[order as usize];
        let refund_due = self.refunds.get(&order.id()).is_some_and(|due| !due.is_empty());
        let terms = self.sales.terms(order.sku).expect("an order has a SKU");
        let refunded = self.refunded.get(&order.id()).copied().unwrap_or_default();
        order.view(terms.price, 0, refund_due, refunded)
    }

    fn insert_order(&mut self, order: Order) {
        if order.status == Status::Held {
            self.effects.holds_opened.insert(order.seq, order.pay_by(0));
        }
        self.add_order(order);
    }

    fn close_order(&mut self, order: u32, how: Closing, at: UnixMs) {
        let order = &mut self.orders[order as usize];
        (order.status, order.closed_at) = (how.status(), at);
        if how.ends_hold() && self.effects.holds_opened.remove(&order.seq).is_none() {
            self.effects.holds_closed.push(order.seq);
        }
    }

    fn add_refunded(&mut self, order: u32, part: Refunded) {
        let id = self.orders[order as usize].id();
        self.refunded.entry(id).or_default().add(part);
    }

    fn find_payment(&self, id: &str) -> Option<u32> {
        let found = self.payment_by_id.get(id).copied();
        if found.is_none() {
            WorkingSet::assert_asked(&self.needs.payments, id);
        }
        found
    }

    fn find_payment_at(&self, seq: Seq) -> Option<u32> {
        self.payment_by_seq.get(&seq).copied()
    }

    fn payment(&self, payment: u32) -> &PaymentView {
        &self.payments[payment as usize]
    }

    fn early_payments(&self, order: OrderId) -> Vec<u32> {
        let due = self.refunds.get(&order).map_or(&[][..], Vec::as_slice);
        let early = Disposition::RefundDue(RefundReason::UnknownOrder);
        due.iter().copied().filter(|due| self.payments[*due as usize].disposition == early).collect()
    }

    fn insert_payment(&mut self, seq: Seq, at: UnixMs, pay: &Pay, disposition: Disposition) {
        let new = self.add_payment(PaymentView { pay: pay.clone(), seq, at, disposition });
        if let Disposition::RefundDue(_) = disposition {
            self.effects.refunds_opened.insert(seq, pay.order);
            self.refunds.entry(pay.order).or_default().extend(new);
        }
    }

    fn end_refund(&mut self, payment: u32, to: Disposition) {
        let recorded = &mut self.payments[payment as usize];
        recorded.disposition = to;
        if self.effects.refunds_opened.remove(&recorded.seq).is_none() {
            self.effects.refunds_closed.push(recorded.seq);
        }
        if let Some(due) = self.refunds.get_mut(&recorded.pay.order) {
            due.retain(|other| *other != payment);
        }
    }

    fn adjusted(&self, sku: SkuId, key: &str) -> Option<(Adjust, u64)> {
        let name = (sku, key.into());
        let found = self.adjustments.get(&name).copied();
        if found.is_none() {
            WorkingSet::assert_asked(&self.needs.adjustments, &name);
        }
        found
    }

    fn insert_adjusted(&mut self, sku: SkuId, key: &str, done: (Adjust, u64)) {
        self.adjustments.insert((sku, key.into()), done);
    }

    /// The clocks of many servers are no ledger's to correct.
    fn shift_ms_since(&self, _seq: Seq) -> i64 {
        0
    }

    fn correct_clock(&mut self, _seq: Seq, _from_to: (UnixMs, UnixMs)) {
        unreachable!("a ledger that many servers share has no such entry")
    }

    /// A gate that was built since does not have the units that another took: it must be asked again.
    fn grant(&self, sku: SkuId, grant: Grant) -> Grant {
        match grant {
            Grant::Taken { epoch } if epoch != self.skus[&sku].epoch => Grant::NotAsked,
            grant => grant,
        }
    }

    fn correction_id(&self, sku: SkuId, key: &str) -> OrderId {
        (self.correction_id)(sku, key)
    }

    fn note_change(&mut self, sku: SkuId, change: UnitsMoved<'_>) {
        let change = match change {
            UnitsMoved::Closed(order, Closing::PaidLate) => Change::TakeLate(order.placement()),
            UnitsMoved::Closed(order, how) if how.returns_units() => Change::Release(order.placement()),
            UnitsMoved::Closed(..) => return,
            UnitsMoved::Adjusted { how: Adjust::Restock, units, .. } => Change::Restock { units },
            // The gate goes on counting them to their buyer.
            UnitsMoved::TakenBack { units } => Change::Restock { units: u64::from(units) },
            UnitsMoved::Adjusted { how: Adjust::Correct, units, key } => {
                Change::Correct { id: self.correction_id(sku, key), units }
            }
        };
        self.change(sku, change);
    }
}

impl WorkingSet<'_> {
    pub(super) fn add_order(&mut self, order: Order) {
        let index = position(self.orders.len());
        self.order_by_id.insert(order.id(), index);
        self.order_by_seq.insert(order.seq, index);
        self.orders.push(order);
    }

    /// Its position; `None` if it was there before.
    pub(super) fn add_payment(&mut self, payment: PaymentView) -> Option<u32> {
        if self.payment_by_seq.contains_key(&payment.seq) {
            return None;
        }
        let index = position(self.payments.len());
        self.payment_by_id.insert(payment.pay.id.clone(), index);
        self.payment_by_seq.insert(payment.seq, index);
        self.payments.push(payment);
        Some(index)
    }
}

fn position(index: usize) -> u32 {
    u32::try_from(index).expect("a transaction is small")
}
