//! What the database has: the entries, and the rows that follow from them.
//!
//! Must not: judge, nor know a connection, a fault or a clock.

use std::collections::BTreeMap;
use std::ops::Bound::{Excluded, Unbounded};

use engine::handover::{Mark, MarkState, OutboxRow};
use engine::working_set::{Effects, Loaded, Needs, OrderRow, Rejection, SkuState};
use engine::{
    Adjust, BuyerId, Closing, Disposition, Entry, Event, Operator, Operators, OrderId, PaymentView,
    Placement, Refunded, Seq, SkuId, UnixMs,
};
use server::ledger::mysql::cluster::{LedgerMark, MarksAsked, Placed};

/// How an order was closed, and by which entry.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Transition {
    seq: Seq,
    at: UnixMs,
    how: Closing,
}

/// How far a queue was consumed, and by whom.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct QueueState {
    pub(super) next_offset: u64,
    /// 0: nobody's.
    pub(super) owner: u64,
    pub(super) leased_until: u64,
    pub(super) generation: u64,
}

/// A sign of life.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct ServerState {
    pub(super) address: String,
    pub(super) clock_ahead_ms: Option<i64>,
    pub(super) clock_said_at: u64,
}

/// Who does a task.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct LeaseState {
    pub(super) owner: u64,
    pub(super) leased_until: u64,
    pub(super) generation: u64,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Tables {
    /// The one of number n stands at n - 1.
    pub(super) entries: Vec<Entry>,
    pub(super) latest_at: UnixMs,
    skus: BTreeMap<SkuId, SkuState>,
    orders: BTreeMap<OrderId, OrderRow>,
    order_ids: BTreeMap<Seq, OrderId>,
    transitions: BTreeMap<OrderId, Vec<Transition>>,
    rejections: BTreeMap<OrderId, Rejection>,
    units: BTreeMap<(SkuId, BuyerId), u32>,
    open_holds: BTreeMap<Seq, UnixMs>,
    payments: BTreeMap<Seq, PaymentView>,
    payment_ids: BTreeMap<Box<str>, Seq>,
    refunds_due: BTreeMap<Seq, OrderId>,
    adjustments: BTreeMap<(SkuId, Box<str>), (Adjust, u64)>,
    addresses: BTreeMap<Seq, Box<[u8]>>,
    operators: Vec<Operator>,
    pub(super) outbox: BTreeMap<u64, OutboxRow>,
    outbox_rows: u64,
    pub(super) queues: BTreeMap<String, QueueState>,
    pub(super) servers: BTreeMap<u64, ServerState>,
    pub(super) leases: BTreeMap<String, LeaseState>,
}

impl Tables {
    pub(super) fn next_seq(&self) -> Seq {
        Seq(self.entries.len() as u64 + 1)
    }

    /// Those after the one with this number.
    pub(super) fn sale_entries(&self, after: Seq) -> impl Iterator<Item = &Entry> {
        let new = self.entries.get(usize::try_from(after.0).unwrap_or(usize::MAX)..);
        new.unwrap_or_default().iter().filter(|entry| entry.event.is_about_a_sale())
    }

    /// All of it at once.
    pub(super) fn store(&mut self, effects: Effects) {
        assert_eq!(effects.next_seq.0 - self.next_seq().0, effects.entries.len() as u64);
        for entry in effects.entries {
            self.follow(&entry);
            self.entries.push(entry);
            self.latest_at = effects.last_at;
        }
        self.skus.extend(effects.skus);
        self.units.extend(effects.units);
        self.units.retain(|_, units| *units > 0);
        self.open_holds.extend(effects.holds_opened);
        self.open_holds.retain(|seq, _| !effects.holds_closed.contains(seq));
        self.refunds_due.extend(effects.refunds_opened);
        self.refunds_due.retain(|seq, _| !effects.refunds_closed.contains(seq));
        self.rejections.extend(effects.rejections);
        self.addresses.extend(effects.addresses);
        for (sku, epoch, change) in effects.outbox {
            self.outbox_rows += 1;
            let id = self.outbox_rows;
            self.outbox.insert(id, OutboxRow { id, sku, epoch, change });
        }
    }

    fn follow(&mut self, Entry { seq, at, event }: &Entry) {
        let (seq, at) = (*seq, *at);
        match event {
            Event::OrderPlaced { id, buyer, quantity, unit_price, fingerprint } => {
                let row = OrderRow {
                    seq,
                    at,
                    buyer: *buyer,
                    quantity: *quantity,
                    unit_price: *unit_price,
                    fingerprint: *fingerprint,
                    closed: None,
                    refunded: Refunded::default(),
                };
                assert!(
                    self.orders.insert(*id, row).is_none(),
                    "an order has one entry: its id is a primary key"
                );
                self.order_ids.insert(seq, *id);
            }
            Event::OrderClosed { order, how } => {
                let id = self.order_ids[order];
                let steps = self.transitions.entry(id).or_default();
                assert!(steps.iter().all(|step| step.how.step() != how.step()), "the step is a primary key");
                steps.push(Transition { seq, at, how: *how });
                let latest = steps.iter().max_by_key(|step| step.how.step()).expect("there is this one");
                self.orders.get_mut(&id).expect("it was placed").closed = Some((latest.how, latest.at));
            }
            Event::PaymentRecorded { pay, disposition } => {
                let old = self.payment_ids.insert(pay.id.clone(), seq);
                assert!(old.is_none(), "a payment has one entry: its id is a primary key");
                if let Some(units) = disposition.requested() {
                    let row = self.orders.get_mut(&pay.order).expect("it was placed");
                    row.refunded.add(Refunded { amount: pay.amount, units });
                }
                let payment = PaymentView { pay: pay.clone(), seq, at, disposition: *disposition };
                self.payments.insert(seq, payment);
            }
            Event::PaymentMatched { payment } => self.end(*payment, |_| Disposition::Applied),
            Event::RefundSettled { payment } => self.end(*payment, |was| match was {
                Disposition::RefundDue(why) => Disposition::Settled(why),
                ended => ended,
            }),
            Event::StockAdjusted { sku, how, units, key } => {
                let old = self.adjustments.insert((*sku, key.clone()), (*how, *units));
                assert!(old.is_none(), "an adjustment has one entry: its key is a primary key");
            }
            Event::OperatorAdded(operator) => self.operators.push((**operator).clone()),
            Event::OperatorRevoked(name) => self.operators.retain(|operator| operator.name != *name),
            _ => {}
        }
    }

    fn end(&mut self, payment: Seq, to: impl FnOnce(Disposition) -> Disposition) {
        let payment = self.payments.get_mut(&payment).expect("it was recorded");
        payment.disposition = to(payment.disposition);
    }

    pub(super) fn read(&self, needs: &Needs) -> Loaded {
        let of = |id: &OrderId| Some((*id, *self.orders.get(id)?));
        let refunds = self.refunds_due.iter().filter(|(_, order)| needs.orders.contains(order));
        let payment = |id: &str| Some(self.payments[self.payment_ids.get(id)?].clone());
        Loaded {
            skus: needs.skus.iter().filter_map(|sku| Some((*sku, *self.skus.get(sku)?))).collect(),
            orders: needs.orders.iter().filter_map(of).collect(),
            rejections: needs.orders.iter().filter_map(|id| Some((*id, *self.rejections.get(id)?))).collect(),
            refunds: refunds.map(|(seq, _)| self.payments[seq].clone()).collect(),
            units: needs.buyers.iter().filter_map(|who| Some((*who, *self.units.get(who)?))).collect(),
            payments: needs.payments.iter().filter_map(|id| payment(id)).collect(),
            adjustments: needs
                .adjustments
                .iter()
                .filter_map(|key| Some((key.clone(), *self.adjustments.get(key)?)))
                .collect(),
        }
    }

    pub(super) fn sku(&self, sku: SkuId) -> Option<&SkuState> {
        self.skus.get(&sku)
    }

    pub(super) fn skus(&self) -> impl Iterator<Item = (&SkuId, &SkuState)> {
        self.skus.iter()
    }

    pub(super) fn order_id(&self, placed: Seq) -> OrderId {
        self.order_ids[&placed]
    }

    pub(super) fn order(&self, id: OrderId) -> Option<&OrderRow> {
        self.orders.get(&id)
    }

    pub(super) fn rejection(&self, id: OrderId) -> Option<&Rejection> {
        self.rejections.get(&id)
    }

    pub(super) fn address(&self, order: Seq) -> Option<&[u8]> {
        self.addresses.get(&order).map(|address| &**address)
    }

    pub(super) fn has_refund_due(&self, id: OrderId) -> bool {
        self.refunds_due.values().any(|order| *order == id)
    }

    pub(super) fn refunds_due(&self, after: Seq) -> impl Iterator<Item = &PaymentView> {
        self.refunds_due.range((Excluded(after), Unbounded)).map(|(seq, _)| &self.payments[seq])
    }

    pub(super) fn has_adjustment(&self, sku: SkuId, key: &str) -> bool {
        self.adjustments.contains_key(&(sku, key.into()))
    }

    pub(super) fn operators(&self) -> Operators {
        Operators::new(self.operators.clone())
    }

    /// Holds that are due, the earliest first, with their buyers.
    pub(super) fn due(&self, at: UnixMs, max: usize) -> Vec<(OrderId, BuyerId)> {
        let mut due: Vec<_> = self.open_holds.iter().filter(|(_, pay_by)| **pay_by <= at).collect();
        due.sort_by_key(|(seq, pay_by)| (**pay_by, **seq));
        let of = |(seq, _): (&Seq, &UnixMs)| (self.order_ids[seq], self.orders[&self.order_ids[seq]].buyer);
        due.into_iter().take(max).map(of).collect()
    }

    pub(super) fn marks(&self, asked: &MarksAsked) -> Vec<Placed> {
        let first = OrderId { sku: asked.first, hash: 0 };
        let last = OrderId { sku: asked.last, hash: u128::MAX };
        let behind = |id: &&OrderId| asked.after.is_none_or(|after| **id > after);
        if asked.rejections {
            let alone = self.rejections.range(first..=last).filter(|(id, _)| !self.orders.contains_key(id));
            let next = alone.filter(|(id, _)| behind(id)).take(asked.portion);
            return next.map(|(id, rejection)| (*id, Some(rejected(*id, rejection)))).collect();
        }
        let next = self.orders.range(first..=last).filter(|(id, _)| behind(id)).take(asked.portion);
        next.map(|(id, row)| (*id, self.mark(*id, row, asked.seq))).collect()
    }

    fn mark(&self, id: OrderId, row: &OrderRow, as_of: Seq) -> Option<LedgerMark> {
        let steps = self.transitions.get(&id).into_iter().flatten().filter(|step| step.seq <= as_of);
        let (mut returned_at, mut state) = (None, MarkState::Sold);
        for step in steps {
            match step.how.step() {
                1 if step.how.returns_units() => (returned_at, state) = (Some(step.at), MarkState::Returned),
                2 => state = MarkState::Sold,
                _ => {}
            }
        }
        let placement =
            Placement { id, buyer: row.buyer, quantity: row.quantity, fingerprint: row.fingerprint };
        (row.seq <= as_of).then_some(LedgerMark { mark: Mark { placement, state }, returned_at })
    }
}

fn rejected(id: OrderId, rejection: &Rejection) -> LedgerMark {
    let Rejection { buyer, quantity, fingerprint, .. } = *rejection;
    let placement = Placement { id, buyer, quantity, fingerprint };
    LedgerMark { mark: Mark { placement, state: MarkState::RejectedReturned }, returned_at: None }
}
