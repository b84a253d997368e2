//! One transaction: what it has read under the lock, the events that it records, and all that goes with them.
//!
//! Events are carried out on what was read, as the book carries them out on its memory, so that the next order or
//! command of the same batch sees them. Must not: decide anything; that is done by who records.

use engine::handover::Change;
use engine::{
    Adjust, BuyerId, Closing, Disposition, Entry, Event, OrderId, OrderView, Pay, Payment, PaymentView,
    Place, Refusal, Seq, SkuId, Status, Stock, UnixMs,
};

use super::catalog::Catalog;
use super::known::{Beside, BuyerUnits, Known, OrderRow, Rejection, SkuState};
use super::leases::Lease;
use super::outbox::correction_id;
use super::reads::Reads;
use super::session::{Failure, Session};

/// A transaction under the writer's lock.
pub(super) struct Transaction<'l> {
    pub(super) session: &'l mut Session,
    pub(super) catalog: &'l mut Catalog,
    lease: Option<&'l Lease>,
    now: UnixMs,
    pub(super) begun: bool,
    next_seq: Seq,
    at: UnixMs,
    pub(super) known: Known,
    pub(super) entries: Vec<Entry>,
    /// Of orders among the entries, in their order.
    pub(super) addresses: Vec<(Seq, Box<[u8]>)>,
    pub(super) beside: Beside,
}

impl<'l> Transaction<'l> {
    pub(super) fn new(
        session: &'l mut Session,
        catalog: &'l mut Catalog,
        now: UnixMs,
        lease: Option<&'l Lease>,
    ) -> Transaction<'l> {
        Transaction {
            session,
            catalog,
            lease,
            now,
            begun: false,
            next_seq: Seq(0),
            at: now,
            known: Known::default(),
            entries: Vec::new(),
            addresses: Vec::new(),
            beside: Beside::default(),
        }
    }

    /// Reads what the rules will need; the first time takes the lock before.
    pub(super) fn read(&mut self, reads: Reads) -> Result<(), Failure> {
        let lock = (!self.begun).then_some(self.lease);
        let skus = reads.skus.clone();
        let writer = reads.run(self.session, self.catalog, &mut self.known, lock)?;
        if let Some((next_seq, last_at)) = writer {
            self.begun = true;
            self.next_seq = next_seq;
            self.at = super::not_before(self.now, last_at);
        }
        let lost = |sku: &&SkuId| self.catalog.terms(**sku).is_some() && !self.known.skus.contains_key(sku);
        match skus.iter().find(lost) {
            None => Ok(()),
            Some(sku) => Err(Failure::Damaged(format!("SKU {} has no row of its stock", sku.0))),
        }
    }

    /// The time of everything in this transaction.
    pub(super) fn at(&self) -> UnixMs {
        self.at
    }

    pub(super) fn next_seq(&self) -> Seq {
        self.next_seq
    }

    /// The SKU's state. A SKU that the catalog knows has a row.
    pub(super) fn sku(&mut self, sku: SkuId) -> &mut SkuState {
        self.known.skus.get_mut(&sku).expect("the transaction has read the SKUs of all that it moves")
    }

    /// What a buyer holds and owns, if there is a limit to it.
    pub(super) fn units_of(&self, sku: SkuId, buyer: BuyerId) -> u32 {
        self.known.buyers.get(&(sku, buyer)).map_or(0, |units| units.now)
    }

    fn move_units(&mut self, sku: SkuId, buyer: BuyerId, change: impl FnOnce(u32) -> Option<u32>) {
        let units = self.known.buyers.entry((sku, buyer)).or_insert(BuyerUnits { before: 0, now: 0 });
        units.now = change(units.now).expect("a buyer's units are what the orders say");
    }

    fn push(&mut self, event: Event) -> Seq {
        assert!(self.begun, "nothing is recorded without the lock");
        let seq = self.next_seq;
        self.entries.push(Entry { seq, at: self.at, event });
        self.next_seq = Seq(seq.0 + 1);
        seq
    }

    /// An event about a sale, which the catalog's book has carried out.
    pub(super) fn record_sale(&mut self, event: Event) {
        if let Event::SaleCreated(spec) = &event {
            let first = self.known_skus();
            for (sku, item) in (first..).zip(&spec.items) {
                let state = SkuState { stock: Stock::new(item.total), orders: 0, epoch: 0, changed: true };
                self.known.skus.insert(SkuId(sku), state);
            }
        }
        let seq = self.next_seq;
        self.catalog.note(seq, &event);
        self.push(event);
    }

    fn known_skus(&self) -> u32 {
        u32::try_from(self.catalog.skus_len()).expect("the book has numbers for its SKUs")
    }

    /// Places an order that was judged.
    pub(super) fn record_placed(&mut self, place: &Place, address: Option<&[u8]>) -> Seq {
        let terms = self.catalog.terms(place.id.sku).expect("an order that was judged has a SKU");
        let Place { id, buyer, quantity, fingerprint } = *place;
        let unit_price = terms.price;
        let seq = self.push(Event::OrderPlaced { id, buyer, quantity, unit_price, fingerprint });
        let at = self.at;
        let row = OrderRow { seq, at, buyer, quantity, unit_price, fingerprint, closed: None };
        self.known.orders.insert(id, row);
        if let Some(address) = address {
            self.addresses.push((seq, address.into()));
        }
        let payment = self.catalog.payment(terms, seq);
        let sku = self.sku(id.sku);
        sku.orders += 1;
        sku.changed = true;
        match payment {
            Payment::WithinMs(ms) => {
                sku.stock.hold(u64::from(quantity));
                self.beside.holds_opened.insert(seq, at.plus(ms));
            }
            Payment::OnPlacing => sku.stock.sell(u64::from(quantity)),
        }
        if terms.limit.is_some() {
            self.move_units(id.sku, buyer, |units| units.checked_add(quantity));
        }
        seq
    }

    /// Closes an order that may be. Units that return to sale are told to the gate.
    pub(super) fn record_closed(&mut self, id: OrderId, how: Closing) {
        let at = self.at;
        let row = self.known.orders.get_mut(&id).expect("an order that was judged was read");
        row.closed = Some((how, at));
        let OrderRow { seq, buyer, quantity, fingerprint, .. } = *row;
        let place = Place { id, buyer, quantity, fingerprint };
        self.push(Event::OrderClosed { order: seq, how });
        let sku = self.sku(id.sku);
        sku.stock.close(how, u64::from(quantity));
        sku.changed = true;
        let epoch = sku.epoch;
        let limited = self.catalog.terms(id.sku).is_some_and(|terms| terms.limit.is_some());
        if how == Closing::PaidLate {
            if limited {
                self.move_units(id.sku, buyer, |units| units.checked_add(quantity));
            }
            self.beside.outbox.push((id.sku, epoch, Change::TakeLate(place)));
        } else if self.beside.holds_opened.remove(&seq).is_none() {
            self.beside.holds_closed.push(seq);
        }
        if how.returns_units() {
            if limited {
                self.move_units(id.sku, buyer, |units| units.checked_sub(quantity));
            }
            self.beside.outbox.push((id.sku, epoch, Change::Release(place)));
        }
    }

    /// Moves a SKU's total as was judged.
    pub(super) fn record_adjusted(&mut self, sku: SkuId, how: Adjust, units: u64, key: Box<str>) {
        let state = self.sku(sku);
        assert!(state.stock.adjust(how, units), "a correction was judged before");
        state.changed = true;
        let epoch = state.epoch;
        self.known.adjustments.insert((sku, key.clone()), (how, units));
        let change = match how {
            Adjust::Restock => Change::Restock { units },
            Adjust::Correct => Change::Correct { id: correction_id(sku, &key), units },
        };
        self.push(Event::StockAdjusted { sku, how, units, key });
        self.beside.outbox.push((sku, epoch, change));
    }

    /// Records a payment with what it came to.
    pub(super) fn record_payment(&mut self, pay: &Pay, disposition: Disposition) -> PaymentView {
        let seq = self.push(Event::PaymentRecorded { pay: pay.clone(), disposition });
        let view = PaymentView { pay: pay.clone(), seq, at: self.at, disposition };
        self.known.payments.insert(pay.id.clone(), view.clone());
        if let Disposition::RefundDue(_) = disposition {
            self.known.refunds.entry(pay.order).or_default().push(view.clone());
            self.beside.refunds_opened.insert(seq, pay.order);
        }
        view
    }

    /// Ends a refund that was due: its order came and was paid by it, or somebody settled it.
    pub(super) fn record_refund_end(&mut self, payment: &PaymentView, to: Disposition) -> PaymentView {
        let seq = payment.seq;
        self.push(match to {
            Disposition::Applied => Event::PaymentMatched { payment: seq },
            Disposition::Settled(_) => Event::RefundSettled { payment: seq },
            Disposition::RefundDue(_) => unreachable!("a refund that ends is due no more"),
        });
        if self.beside.refunds_opened.remove(&seq).is_none() {
            self.beside.refunds_closed.push(seq);
        }
        if let Some(due) = self.known.refunds.get_mut(&payment.pay.order) {
            due.retain(|other| other.seq != seq);
        }
        let view = PaymentView { disposition: to, ..payment.clone() };
        self.known.payments.insert(view.pay.id.clone(), view.clone());
        view
    }

    /// An order as it stands.
    pub(super) fn view(&self, id: OrderId) -> Option<OrderView> {
        let due = self.known.refunds.get(&id).is_some_and(|due| !due.is_empty());
        self.known.orders.get(&id).map(|row| view(self.catalog, id, row, due))
    }

    pub(super) fn reject(&mut self, place: &Place, epoch: u64, reason: Refusal) -> Rejection {
        let Place { id, buyer, quantity, fingerprint } = *place;
        let rejection = Rejection { at: self.at, buyer, quantity, fingerprint, epoch, reason };
        self.known.rejections.insert(id, rejection);
        self.beside.rejections.push((id, rejection));
        rejection
    }
}

/// An order as its rows tell it.
pub(super) fn view(catalog: &Catalog, id: OrderId, row: &OrderRow, refund_due: bool) -> OrderView {
    let terms = catalog.terms(id.sku).expect("an order in the ledger has a SKU");
    let payment = catalog.payment(terms, row.seq);
    let status = match (row.closed, payment) {
        (Some((how, _)), _) => how.status(),
        (None, Payment::WithinMs(_)) => Status::Held,
        (None, Payment::OnPlacing) => Status::Paid,
    };
    OrderView {
        id,
        seq: row.seq,
        buyer: row.buyer,
        quantity: row.quantity,
        unit_price: row.unit_price,
        status,
        placed_at: row.at,
        pay_by: match payment {
            Payment::WithinMs(ms) => Some(row.at.plus(ms)),
            Payment::OnPlacing => None,
        },
        closed_at: row.closed.map(|(_, at)| at),
        refund_due,
    }
}
