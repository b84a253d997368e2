//! Carrying out events: the only code that writes the book. Live commands and replayed ledgers come this way.

use std::cmp::Reverse;
use std::fmt;

use super::{
    Book, BuyerId, Closing, Disposition, Entry, Event, Fingerprint, OrderId, Pay, Payment, Place, Refusal,
    SaleSpec, Seq, Sku, Stock, UnixMs,
};
use crate::order::Order;
use crate::payment::{Recorded, RefundReason};
use crate::sale::{Sale, apply_change};
use crate::sharded::hash_of;
use crate::{Status, rules};

/// A ledger entry that does not follow from the ones before it: the ledger breaks an invariant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Inconsistent {
    pub seq: Seq,
    pub why: &'static str,
}

impl fmt::Display for Inconsistent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "entry {}: {}", self.seq.0, self.why)
    }
}

impl std::error::Error for Inconsistent {}

impl Book {
    /// Makes room for this many orders more: a ledger that is being opened knows how many come.
    pub fn reserve_orders(&mut self, additional: usize) {
        self.orders.reserve(additional);
        let orders = &self.orders;
        self.order_by_id.reserve(additional, |index| super::table_hash(orders[*index as usize].hash));
    }

    /// Carries out an entry of the ledger, in the order of the sequence.
    ///
    /// # Errors
    /// If the entry does not follow from the ones before it; the book is as it was.
    pub fn replay(&mut self, entry: &Entry) -> Result<(), Inconsistent> {
        self.check_entry(entry).map_err(|why| Inconsistent { seq: entry.seq, why })?;
        self.apply(entry);
        Ok(())
    }

    /// Carries out an entry about a sale, with whatever other entries left out before it: for a book that knows
    /// the sales alone, beside a ledger that many servers write.
    ///
    /// # Errors
    /// If the entry is of another kind or does not follow from the ones before it; the book is as it was.
    pub fn replay_sale(&mut self, entry: &Entry) -> Result<(), Inconsistent> {
        let about_a_sale = matches!(
            entry.event,
            Event::SaleCreated(_)
                | Event::SaleChanged { .. }
                | Event::SalePaused(_)
                | Event::SaleResumed(_)
                | Event::SaleEnded(_)
        );
        let refuse = |why| Err(Inconsistent { seq: entry.seq, why });
        if !about_a_sale {
            return refuse("the entry is not about a sale");
        }
        if entry.seq < self.next_seq {
            return refuse("the entry comes a second time");
        }
        let before = std::mem::replace(&mut self.next_seq, entry.seq);
        self.replay(entry).inspect_err(|_| self.next_seq = before)
    }

    /// The rules of the live commands again, so that a ledger can't hold what no command could have made. An
    /// entry that was altered on disk is told here; it must not reach an assertion.
    fn check_entry(&self, entry: &Entry) -> Result<(), &'static str> {
        let at = entry.at;
        ensure(entry.seq == self.next_seq, "the sequence has a gap")?;
        ensure(at >= self.last_at, "time runs backwards")?;
        let closes = matches!(entry.event, Event::OrderClosed { how: Closing::Paid | Closing::PaidLate, .. });
        ensure(closes || self.paying.is_none(), "a payment was applied, but its order not closed")?;
        match &entry.event {
            Event::SaleCreated(spec) => {
                ensure(!self.sale_by_id.contains_key(&spec.id), "the sale exists already")?;
                ensure(spec.check().is_ok(), "the sale breaks a bound")
            }
            Event::SaleChanged { sale, change } => {
                let sale = self.known_sale(*sale).ok().ok_or("the sale is unknown")?;
                ensure(sale.check_change(at, change).is_ok(), "the change breaks a rule")
            }
            Event::SalePaused(sale) | Event::SaleResumed(sale) | Event::SaleEnded(sale) => {
                ensure(self.sale_by_id.contains_key(sale), "the sale is unknown")
            }
            Event::StockAdjusted { sku, how, units, key } => {
                let known = self.adjustments.contains_key(&(*sku, key.clone()));
                ensure(!known, "the adjustment was made before")?;
                self.check_adjust(*sku, *how, *units, key).map_err(why_not_possible)
            }
            Event::OrderPlaced { id, buyer, quantity, unit_price, fingerprint } => {
                ensure(self.find(*id).is_none(), "the order exists already")?;
                let place = Place { id: *id, buyer: *buyer, quantity: *quantity, fingerprint: *fingerprint };
                self.check_place(at, &place).map_err(why_not_possible)?;
                let price = self.skus[id.sku.0 as usize].price;
                ensure(*unit_price == price, "the order has another price than its SKU")
            }
            Event::OrderClosed { order, how } => self.check_closed(at, *order, *how),
            Event::PaymentRecorded { pay, disposition } => {
                ensure(self.find_payment(&pay.id).is_none(), "the payment was recorded before")?;
                self.check_payment(pay, *disposition)
            }
            Event::PaymentMatched { payment } => self.check_matched(*payment),
            Event::RefundSettled { payment } => {
                let index = self.payment_at(*payment).ok_or("the payment is unknown")?;
                let due = matches!(self.payments[index].disposition, Disposition::RefundDue(_));
                ensure(due, "no refund was due")
            }
        }
    }

    fn check_closed(&self, at: UnixMs, seq: Seq, how: Closing) -> Result<(), &'static str> {
        let index = self.index_at(seq).ok_or("the order is unknown")?;
        let order = &self.orders[index];
        let from = if how == Closing::PaidLate { Status::Expired } else { Status::Held };
        ensure(order.status == from, "the order was closed before")?;
        match how {
            // Units and limit of a late payment were judged with the payment, which is the entry before.
            Closing::Paid | Closing::PaidLate => {
                ensure(self.paying == Some(order.id()), "the order was closed as paid without a payment")
            }
            Closing::Expired => ensure(at >= order.pay_by(), "the order expired before its time"),
            Closing::Cancelled => Ok(()),
        }
    }

    /// A late payment needs units of the gate, which knows of orders that are not in the ledger yet: it may have
    /// had none though the ledger shows some.
    fn check_payment(&self, pay: &Pay, disposition: Disposition) -> Result<(), &'static str> {
        let (judged, closing) = self.judge(pay).map_err(why_not_possible)?;
        let late = closing.is_some_and(|(_, how)| how == Closing::PaidLate)
            || matches!(judged, Disposition::RefundDue(reason) if is_late(reason));
        let refused = matches!(disposition, Disposition::RefundDue(reason) if is_late(reason));
        let by_the_gate = self.of_queue && late && refused;
        ensure(by_the_gate || judged == disposition, "the payment could not come to this")
    }

    fn check_matched(&self, seq: Seq) -> Result<(), &'static str> {
        let index = self.payment_at(seq).ok_or("the payment is unknown")?;
        let Recorded { pay, disposition, .. } = &self.payments[index];
        let early = *disposition == Disposition::RefundDue(RefundReason::UnknownOrder);
        ensure(early, "the payment had not come before its order")?;
        let order = self.order(pay.order).ok_or("the order is unknown")?;
        let fits = rules::matches(order.status, order.amount(), pay.amount);
        ensure(fits, "the payment does not fit its order")
    }

    /// Carries out an entry that is known to be right. Panics if it is not: a bug, never input.
    pub(super) fn apply(&mut self, entry: &Entry) {
        let Entry { seq, at, ref event } = *entry;
        assert_eq!(seq, self.next_seq, "entries come without gaps");
        self.next_seq = Seq(seq.0 + 1);
        self.last_at = at;
        match event {
            Event::SaleCreated(spec) => self.apply_created(spec),
            Event::SaleChanged { sale, change } => apply_change(&mut self.sale_mut(*sale).spec, change),
            Event::SalePaused(sale) => self.sale_mut(*sale).paused = true,
            Event::SaleResumed(sale) => self.sale_mut(*sale).paused = false,
            Event::SaleEnded(sale) => self.sale_mut(*sale).ended = true,
            Event::StockAdjusted { sku, how, units, key } => {
                assert!(
                    self.skus[sku.0 as usize].stock.adjust(*how, *units),
                    "a correction was checked before"
                );
                self.adjustments.insert((*sku, key.clone()), (*how, *units));
                self.touch(*sku);
            }
            Event::OrderPlaced { id, buyer, quantity, unit_price, fingerprint } => {
                self.apply_placed(seq, at, *id, *buyer, *quantity, *unit_price, *fingerprint);
            }
            Event::OrderClosed { order, how } => self.apply_closed(*order, at, *how),
            Event::PaymentRecorded { pay, disposition } => self.apply_payment(seq, at, pay, *disposition),
            Event::PaymentMatched { payment } => self.end_refund(*payment, |_| Disposition::Applied),
            Event::RefundSettled { payment } => self.end_refund(*payment, Disposition::Settled),
        }
    }

    fn apply_created(&mut self, spec: &SaleSpec) {
        let number = u32::try_from(self.sales.len()).expect("fewer sales than SKUs, and those fit");
        let sku_number =
            |len: usize| crate::SkuId(u32::try_from(len).expect("checked when the sale was made"));
        let first_sku = sku_number(self.skus.len());
        for item in &spec.items {
            let sku = sku_number(self.skus.len());
            self.skus.push(Sku {
                sale: number,
                price: item.price,
                limit: item.limit,
                stock: Stock::new(item.total),
                orders: 0,
                touched: false,
            });
            self.sku_by_product.insert((spec.id, item.product), sku);
            self.touch(sku);
        }
        self.sale_by_id.insert(spec.id, number);
        self.sales.push(Sale { spec: spec.clone(), first_sku, paused: false, ended: false });
    }

    #[expect(
        clippy::too_many_arguments,
        reason = "the fields of one event, at the one place that applies it"
    )]
    fn apply_placed(
        &mut self,
        seq: Seq,
        at: UnixMs,
        id: OrderId,
        buyer: BuyerId,
        quantity: u32,
        unit_price: u64,
        fingerprint: Fingerprint,
    ) {
        let sku = &mut self.skus[id.sku.0 as usize];
        assert_eq!(unit_price, sku.price, "a SKU's price never changes");
        sku.orders += 1;
        let spec = &self.sales[sku.sale as usize].spec;
        let (payment_ms, status) = match spec.payment {
            Payment::WithinMs(ms) => (u32::try_from(ms).expect("at most 30 days, checked"), Status::Held),
            Payment::OnPlacing => (0, Status::Paid),
        };
        if sku.limit.is_some() {
            self.units.add(id.sku.0, buyer, quantity);
        }
        let index = u32::try_from(self.orders.len()).expect("fewer than 4 billion orders in a book");
        if status == Status::Held {
            sku.stock.hold(u64::from(quantity));
            self.deadlines.push(Reverse((at.plus(u64::from(payment_ms)), index)));
            if spec.open_holds_per_buyer_max.is_some() {
                self.holds.add(sku.sale, buyer, 1);
            }
        } else {
            sku.stock.sell(u64::from(quantity));
        }
        self.orders.push(Order {
            hash: id.hash,
            seq,
            buyer,
            placed_at: at,
            closed_at: UnixMs(0),
            fingerprint,
            sku: id.sku,
            quantity,
            payment_ms,
            status,
        });
        self.insert_order(index, id.hash);
        self.touch(id.sku);
    }

    fn apply_closed(&mut self, seq: Seq, at: UnixMs, how: Closing) {
        let index = self.index_at(seq).expect("only orders that exist are closed");
        let order = &mut self.orders[index];
        order.status = how.status();
        order.closed_at = at;
        let order = *order;
        self.paying = None;
        let units = u64::from(order.quantity);
        let sku = &mut self.skus[order.sku.0 as usize];
        sku.stock.close(how, units);
        if sku.limit.is_some() {
            match how {
                Closing::Paid => {}
                Closing::Cancelled | Closing::Expired => {
                    self.units.take(order.sku.0, order.buyer, order.quantity);
                }
                Closing::PaidLate => self.units.add(order.sku.0, order.buyer, order.quantity),
            }
        }
        let bounded = self.sales[sku.sale as usize].spec.open_holds_per_buyer_max.is_some();
        if bounded && how != Closing::PaidLate {
            self.holds.take(sku.sale, order.buyer, 1);
        }
        self.touch(order.sku);
    }

    fn apply_payment(&mut self, seq: Seq, at: UnixMs, pay: &Pay, disposition: Disposition) {
        let index = u32::try_from(self.payments.len()).expect("fewer than 4 billion payments in a book");
        match disposition {
            Disposition::Applied => self.paying = Some(pay.order),
            Disposition::RefundDue(reason) => {
                *self.refunds.entry(pay.order).or_insert(0) += 1;
                self.refunds_due += 1;
                if reason == RefundReason::UnknownOrder {
                    self.unmatched.entry(pay.order).or_default().push(index);
                }
            }
            Disposition::Settled(_) => unreachable!("a refund is settled by an event of its own"),
        }
        self.payments.push(Recorded { pay: pay.clone(), seq, at, disposition });
        let payments = &self.payments;
        self.payment_by_id
            .insert(hash_of(&*pay.id), index, |index| hash_of(&*payments[*index as usize].pay.id));
    }

    fn end_refund(&mut self, payment: Seq, to: impl Fn(RefundReason) -> Disposition) {
        let index = self.payment_at(payment).expect("only payments that exist are changed");
        let payment = &mut self.payments[index];
        let Disposition::RefundDue(reason) = payment.disposition else {
            unreachable!("only a refund that is due ends")
        };
        payment.disposition = to(reason);
        let order = payment.pay.order;
        if payment.disposition == Disposition::Applied {
            self.paying = Some(order);
        }
        let due = self.refunds.get_mut(&order).expect("a refund was due for the order");
        *due -= 1;
        self.refunds_due -= 1;
        if *due == 0 {
            self.refunds.remove(&order);
        }
        if let Some(waiting) = self.unmatched.get_mut(&order) {
            waiting.retain(|other| *other as usize != index);
            if waiting.is_empty() {
                self.unmatched.remove(&order);
            }
        }
    }

    fn payment_at(&self, seq: Seq) -> Option<usize> {
        self.payments.binary_search_by_key(&seq, |payment| payment.seq).ok()
    }

    fn sale_mut(&mut self, id: crate::SaleId) -> &mut Sale {
        let index = self.sale_by_id[&id];
        &mut self.sales[index as usize]
    }
}

fn is_late(reason: RefundReason) -> bool {
    matches!(reason, RefundReason::ExpiredSoldOut | RefundReason::ExpiredOverLimit)
}

fn ensure(holds: bool, why: &'static str) -> Result<(), &'static str> {
    if holds { Ok(()) } else { Err(why) }
}

/// What a refusal means in a ledger, where nothing that was refused can stand.
fn why_not_possible(refusal: Refusal) -> &'static str {
    match refusal {
        Refusal::UnknownSku => "the SKU is unknown",
        Refusal::NotStarted => "the order was placed before the start",
        Refusal::Paused => "the order was placed while the sale was paused",
        Refusal::Ended => "the order was placed after the end",
        Refusal::InvalidQuantity => "the order has a quantity that none can have",
        Refusal::OverLimit => "the buyer is over the limit",
        Refusal::TooManyHolds => "the buyer has too many open holds",
        Refusal::SoldOut | Refusal::NotEnoughLeft => "the order was oversold",
        Refusal::CorrectionTooLarge => "a correction below held + sold",
        Refusal::InvalidChange(why) => why,
        _ => "no command could have made it",
    }
}
