//! A ledger as tables, as naive as can be: what a transaction's effects are stored in, and what the next one reads,
//! row by row. Orders and payments are known by the entries alone, as in a database. It must not judge.

use std::collections::BTreeMap;

use engine::handover::Change;
use engine::working_set::{Effects, Loaded, Needs, OrderRow, Rejection, SkuState};
use engine::{
    Adjust, BuyerId, Disposition, Entry, Event, OrderId, PaymentView, Refunded, Sales, Seq, SkuId, UnixMs,
};

#[derive(Debug, Default)]
pub(crate) struct Tables {
    pub(crate) last_at: UnixMs,
    pub(crate) entries: Vec<Entry>,
    pub(crate) skus: BTreeMap<SkuId, SkuState>,
    pub(crate) orders: BTreeMap<OrderId, OrderRow>,
    order_by_seq: BTreeMap<Seq, OrderId>,
    pub(crate) units: BTreeMap<(SkuId, BuyerId), u32>,
    pub(crate) holds: BTreeMap<Seq, UnixMs>,
    payments: BTreeMap<Seq, PaymentView>,
    payment_by_id: BTreeMap<Box<str>, Seq>,
    pub(crate) refunds: BTreeMap<Seq, OrderId>,
    adjustments: BTreeMap<(SkuId, Box<str>), (Adjust, u64)>,
    pub(crate) rejections: BTreeMap<OrderId, Rejection>,
    /// Units that a gate has free if it heard everything: in step with the stock.
    pub(crate) gate: BTreeMap<SkuId, u64>,
}

impl Tables {
    pub(crate) fn next_seq(&self) -> Seq {
        Seq(self.entries.len() as u64 + 1)
    }

    /// The entries about sales that a server has not followed yet.
    pub(crate) fn sale_entries(&self, sales: &Sales) -> impl Iterator<Item = &Entry> {
        let seen = usize::try_from(sales.seen().0).expect("as many entries as memory has");
        self.entries[seen..].iter().filter(|entry| entry.event.is_about_a_sale())
    }

    /// The rows that are asked for, as far as there are any.
    pub(crate) fn find(&self, needs: &Needs) -> Loaded {
        fn rows<'a, K: Ord + Clone + 'a, V: Clone>(
            table: &BTreeMap<K, V>,
            keys: impl IntoIterator<Item = &'a K>,
        ) -> Vec<(K, V)> {
            keys.into_iter().filter_map(|key| Some((key.clone(), table.get(key)?.clone()))).collect()
        }
        let refunds = self.refunds.iter().filter(|(_, order)| needs.orders.contains(order));
        let payments = rows(&self.payment_by_id, &needs.payments);
        Loaded {
            skus: rows(&self.skus, &needs.skus),
            orders: rows(&self.orders, &needs.orders),
            rejections: rows(&self.rejections, &needs.orders),
            refunds: refunds.map(|(seq, _)| self.payments[seq].clone()).collect(),
            units: rows(&self.units, &needs.buyers),
            payments: payments.into_iter().map(|(_, seq)| self.payments[&seq].clone()).collect(),
            adjustments: rows(&self.adjustments, &needs.adjustments),
        }
    }

    /// The holds that are due, those first that were due first.
    pub(crate) fn due(&self, now: UnixMs, max: usize) -> Vec<(OrderId, BuyerId)> {
        let due = self.holds.iter().filter(|(_, pay_by)| **pay_by <= now);
        let mut due: Vec<_> = due.map(|(seq, pay_by)| (*pay_by, *seq)).collect();
        due.sort_unstable();
        due.truncate(max);
        let order = |(_, seq)| self.order_by_seq[&seq];
        due.into_iter().map(order).map(|id| (id, self.orders[&id].buyer)).collect()
    }

    pub(crate) fn store(&mut self, effects: Effects) {
        assert_eq!(effects.entries.first().map_or(effects.next_seq, |entry| entry.seq), self.next_seq());
        self.last_at = effects.last_at;
        for entry in effects.entries {
            self.store_entry(&entry);
            self.entries.push(entry);
        }
        assert_eq!(effects.next_seq, self.next_seq());
        for (sku, epoch, change) in effects.outbox {
            assert_eq!(epoch, effects.skus.iter().find(|row| row.0 == sku).expect("it has moved").1.epoch);
            self.report(sku, change);
        }
        self.skus.extend(effects.skus);
        for (who, units) in effects.units {
            let before = if units > 0 { self.units.insert(who, units) } else { self.units.remove(&who) };
            assert_ne!(before.unwrap_or(0), units, "a row that did not change is not written");
        }
        for seq in effects.holds_closed {
            assert!(self.holds.remove(&seq).is_some(), "only a hold that is open is closed");
        }
        for (seq, pay_by) in effects.holds_opened {
            assert_eq!(self.holds.insert(seq, pay_by), None, "a hold is opened once");
        }
        for seq in effects.refunds_closed {
            assert!(self.refunds.remove(&seq).is_some(), "only a refund that is due ends");
        }
        for (seq, order) in effects.refunds_opened {
            assert_eq!(self.refunds.insert(seq, order), None, "a refund is due once");
        }
        for (id, rejection) in effects.rejections {
            assert_eq!(self.rejections.insert(id, rejection), None, "an order is rejected once");
        }
    }

    fn store_entry(&mut self, entry: &Entry) {
        let Entry { seq, at, ref event } = *entry;
        match event {
            Event::OrderPlaced { id, buyer, quantity, unit_price, fingerprint } => {
                let (buyer, quantity, fingerprint) = (*buyer, *quantity, *fingerprint);
                let (unit_price, refunded) = (*unit_price, Refunded::default());
                let row =
                    OrderRow { seq, at, buyer, quantity, unit_price, fingerprint, closed: None, refunded };
                assert_eq!(self.orders.insert(*id, row), None, "an order is placed once");
                self.order_by_seq.insert(seq, *id);
            }
            Event::OrderClosed { order, how } => {
                let id = self.order_by_seq[order];
                self.orders.get_mut(&id).expect("it was placed").closed = Some((*how, at));
            }
            Event::PaymentRecorded { pay, disposition } => {
                let payment = PaymentView { pay: pay.clone(), seq, at, disposition: *disposition };
                if let Some(units) = disposition.requested() {
                    let order = self.orders.get_mut(&pay.order).expect("only orders that exist are refunded");
                    order.refunded.add(Refunded { amount: pay.amount, units });
                }
                assert_eq!(
                    self.payment_by_id.insert(pay.id.clone(), seq),
                    None,
                    "a payment is recorded once"
                );
                self.payments.insert(seq, payment);
            }
            Event::PaymentMatched { payment } => {
                self.payments.get_mut(payment).expect("it was recorded").disposition = Disposition::Applied;
            }
            Event::RefundSettled { payment } => {
                let payment = self.payments.get_mut(payment).expect("it was recorded");
                let Disposition::RefundDue(reason) = payment.disposition else { panic!("a refund was due") };
                payment.disposition = Disposition::Settled(reason);
            }
            Event::StockAdjusted { sku, how, units, key } => {
                let known = self.adjustments.insert((*sku, key.clone()), (*how, *units));
                assert_eq!(known, None, "a key is used once");
            }
            Event::SaleCreated(spec) => {
                for item in &spec.items {
                    let sku = SkuId(u32::try_from(self.gate.len()).expect("SKUs are few here"));
                    self.gate.insert(sku, item.total);
                }
            }
            Event::LineJoined { .. }
            | Event::LineClosed { .. }
            | Event::LineDrawn { .. }
            | Event::LineMoved { .. }
            | Event::PaceLimited { .. }
            | Event::LineMessageSet { .. }
            | Event::TurnOpened { .. }
            | Event::TurnEnded { .. } => unreachable!("a shared ledger has no lines"),
            Event::SaleChanged { .. }
            | Event::SalePaused(_)
            | Event::SaleResumed(_)
            | Event::SaleEnded(_)
            | Event::SaleDeleted(_)
            | Event::OrderAddressed { .. }
            | Event::BuyerErased(_)
            | Event::OrderRejected { .. }
            | Event::OperatorAdded(_)
            | Event::OperatorRevoked(_)
            | Event::Operated(_)
            | Event::Noticed(_) => {}
            Event::ClockCorrected { .. } => panic!("a ledger that many servers share has no such entry"),
        }
    }

    /// What a gate does when it hears of a change; the units of claims are taken here, not when they were claimed.
    fn report(&mut self, sku: SkuId, change: Change) {
        let free = self.gate.get_mut(&sku).expect("it was created");
        let (more, less) = match change {
            Change::Release(order) => (u64::from(order.quantity), 0),
            Change::Take(order) | Change::TakeLate(order) => (0, u64::from(order.quantity)),
            Change::Restock { units } => (units, 0),
            Change::Correct { units, .. } => (0, units),
        };
        // Within a transaction a change may come before the reservations that it follows from are counted.
        *free = free.wrapping_add(more).wrapping_sub(less);
    }
}
