//! A gate beside the engine's book: every command goes to both, and both must answer the same.
//!
//! The book is the gate of the embedded profile, and here it plays the ledger too: what it closes becomes a row of the
//! outbox.

use std::collections::HashSet;

use engine::handover::{Change, Claim, GateSale, Mark, MarkState, OutboxRow, Settle, Snapshot, Verdict};
use engine::{
    Accepted, Adjust, Book, BuyerId, Closing, Command, Disposition, Entry, Event, Fingerprint, ItemChange,
    ItemSpec, OrderId, Pay, Payment, Placement, ProductId, RefundReason, Refusal, SaleChange, SaleId,
    SaleSpec, SkuId, Status, UnixMs,
};
use server::clock::wall_clock;
use server::gate::{Applied, Built, ClaimRequest, Claimed, Found, Gate, Reserve, Reserved, Settled};

use super::buyer_of;

pub(crate) const SALE: SaleId = SaleId(3);
pub(crate) const SKUS: [SkuId; 2] = [SkuId(0), SkuId(1)];
pub(crate) const BUYERS: u64 = 6;
const HOUR: u64 = 3_600_000;
/// Of the book's time, which runs on its own from the Redis server's.
const PAYMENT_MS: u64 = 1_000;
const PRICE: u64 = 100;
/// Numbers of the rows that restock begin here: no order's hash is as large.
const RESTOCKS: u64 = 1 << 60;

/// What became of a request for units, in words that both have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answered {
    Taken,
    Known,
    Refused(Refusal),
}

#[derive(Debug)]
pub(crate) struct Shop {
    pub(crate) gate: Gate,
    pub(crate) book: Book,
    /// The book's clock. Within the sale's window, as the Redis server's is.
    now: UnixMs,
    epoch: u64,
    /// All orders of the book, with the request that placed each.
    placed: Vec<Placement>,
    /// Open at the gate, and in the book.
    open: HashSet<OrderId>,
    late: HashSet<OrderId>,
    /// Rows as they were applied, of every epoch.
    rows: Vec<OutboxRow>,
    payments: u64,
}

impl Shop {
    /// A sale that starts in an hour of the Redis server's time.
    pub(crate) fn open(gate: Gate, redis_now: UnixMs) -> Shop {
        let item = |product, total, limit| ItemSpec {
            product: ProductId(product),
            title: "Product".to_owned(),
            description: String::new(),
            price: PRICE,
            list_price: PRICE,
            total,
            limit,
            image: None,
            line: None,
        };
        let spec = SaleSpec {
            id: SALE,
            title: "Sale".to_owned(),
            currency: "EUR".to_owned(),
            starts_at: redis_now.plus(HOUR),
            ends_at: redis_now.plus(4 * HOUR),
            payment: Payment::WithinMs(PAYMENT_MS),
            open_holds_per_buyer_max: None,
            items: vec![item(1, 12, Some(4)), item(2, 25, None)],
        };
        let mut book = Book::new();
        book.execute(redis_now, Command::CreateSale(spec)).unwrap();
        let mut shop = Shop {
            gate,
            book,
            now: redis_now,
            epoch: 0,
            placed: Vec::new(),
            open: HashSet::new(),
            late: HashSet::new(),
            rows: Vec::new(),
            payments: 0,
        };
        shop.rebuild();
        shop
    }

    fn command(&mut self, command: Command) -> Result<Accepted, Refusal> {
        self.now = self.now.plus(1);
        self.book.execute(self.now, command)
    }

    /// What was closed in the book since, as rows of the outbox, applied twice.
    fn flush(&mut self) {
        let mut journal: Vec<Entry> = Vec::new();
        self.book.drain_journal(&mut journal);
        for entry in journal {
            if let Event::OrderClosed { order, how: Closing::Cancelled | Closing::Expired } = entry.event {
                let order = self.book.order_at(order).unwrap();
                let place = *self.placed.iter().find(|place| place.id == order.id).unwrap();
                self.row(place.id.sku, Change::Release(place));
                self.open.remove(&order.id);
            }
        }
    }

    fn row(&mut self, sku: SkuId, change: Change) {
        self.numbered(0, sku, change);
    }

    fn numbered(&mut self, id: u64, sku: SkuId, change: Change) {
        let row = OutboxRow { id, sku, epoch: self.epoch, change };
        let applied = self.gate.apply(&[row, row]);
        let applied: Vec<Applied> = applied.into_iter().map(|answer| answer.unwrap().what).collect();
        assert_eq!(applied, [Applied::Done, Applied::Already], "{row:?}");
        self.rows.push(row);
    }

    /// Several requests in one call. Placed orders stay open at the gate until they are settled.
    pub(crate) fn reserve(&mut self, places: &[Placement]) {
        let requests: Vec<Reserve<'_>> = places
            .iter()
            .map(|place| Reserve { placement: *place, limit: self.limit(place.id.sku), record: b"r" })
            .collect();
        let answers = self.gate.reserve(&requests, Some(wall_clock()));
        for (place, answer) in places.iter().zip(answers) {
            let got = match answer.unwrap().what {
                Reserved::Taken { .. } => Answered::Taken,
                Reserved::Open(_) | Reserved::Settled => Answered::Known,
                Reserved::Refused(refusal) => Answered::Refused(refusal),
            };
            let expected = match self.command(Command::Place(*place)) {
                Ok(Accepted::Order { replayed: false, .. }) => {
                    self.placed.push(*place);
                    self.open.insert(place.id);
                    Answered::Taken
                }
                Ok(_) => Answered::Known,
                Err(refusal) => Answered::Refused(refusal),
            };
            assert_eq!(got, expected, "{place:?}");
        }
    }

    /// The ledger has what is open; it is reported twice, and once for another epoch.
    pub(crate) fn settle(&mut self, at_most: usize) {
        let ids: Vec<OrderId> = self.open.iter().copied().take(at_most).collect();
        let settle = |epoch| {
            ids.iter().map(move |id| Settle { id: *id, epoch, verdict: Verdict::Placed }).collect::<Vec<_>>()
        };
        let other = self.gate.settle(&settle(self.epoch + 1));
        assert!(other.iter().all(|got| *got == Ok(Settled::NotHere)), "{other:?}");
        let got = self.gate.settle(&settle(self.epoch));
        assert!(got.iter().all(|got| *got == Ok(Settled::Done)), "{got:?}");
        let again = self.gate.settle(&settle(self.epoch));
        assert!(again.iter().all(|got| *got == Ok(Settled::Already)), "{again:?}");
        ids.iter().for_each(|id| assert!(self.open.remove(id)));
    }

    pub(crate) fn cancel(&mut self, id: OrderId, buyer: BuyerId) {
        // Whatever the book says: it is in the journal, or nothing is to be done.
        drop(self.command(Command::Cancel { order: id, buyer }));
        self.flush();
    }

    /// The payment time of everything that is held runs out.
    pub(crate) fn expire(&mut self) {
        self.now = self.now.plus(PAYMENT_MS + 1);
        self.book.expire_due(self.now, usize::MAX);
        self.flush();
    }

    /// Pays an order: held as it is, expired by a claim at the gate first.
    pub(crate) fn pay(&mut self, id: OrderId) {
        let Some(place) = self.placed.iter().find(|place| place.id == id).copied() else { return };
        let status = self.book.order(id).unwrap().status;
        self.payments += 1;
        let pay = Command::Pay(Pay {
            id: format!("p{}", self.payments).into(),
            order: id,
            amount: PRICE * u64::from(place.quantity),
        });
        let claim = ClaimRequest { claim: Claim::LatePayment(place), record: b"late" };
        let claimed = (status == Status::Expired).then(|| self.gate.claim(&[claim]).remove(0).unwrap().what);
        let Ok(Accepted::Payment { payment, .. }) = self.command(pay) else {
            panic!("a payment is recorded")
        };
        let Some(claimed) = claimed else { return };
        let expected = match payment.disposition {
            Disposition::Applied => None,
            Disposition::RefundDue(reason) => Some(reason),
            Disposition::Settled(_) => panic!("nobody has settled it"),
        };
        let got = match claimed {
            Claimed::Taken { .. } => None,
            Claimed::Refused(Refusal::SoldOut | Refusal::NotEnoughLeft) => Some(RefundReason::ExpiredSoldOut),
            Claimed::Refused(Refusal::OverLimit) => Some(RefundReason::ExpiredOverLimit),
            other => panic!("{other:?}"),
        };
        assert_eq!(got, expected, "{place:?}");
        if got.is_none() {
            assert!(matches!(self.gate.claim(&[claim])[0].as_ref().unwrap().what, Claimed::Open(_)));
            let settle = Settle { id, epoch: self.epoch, verdict: Verdict::ClaimKept };
            assert_eq!(self.gate.settle(&[settle, settle]), [Ok(Settled::Done), Ok(Settled::Already)]);
            self.late.insert(id);
            // The release of before, delivered again, gives nothing back.
            let release = Change::Release(place);
            let again =
                self.gate.apply(&[OutboxRow { id: 0, sku: id.sku, epoch: self.epoch, change: release }]);
            assert_eq!(again[0].as_ref().unwrap().what, Applied::Already);
        }
    }

    /// The ledger places an order that the gate never saw: one of an older epoch.
    pub(crate) fn take(&mut self, place: Placement) {
        if let Ok(Accepted::Order { replayed: false, .. }) = self.command(Command::Place(place)) {
            self.placed.push(place);
            self.row(place.id.sku, Change::Take(place));
        }
    }

    pub(crate) fn restock(&mut self, sku: SkuId, number: u64, units: u64) {
        let adjust = Command::Adjust { sku, how: Adjust::Restock, units, key: format!("r{number}").into() };
        let before = self.book.next_seq();
        if self.command(adjust).is_ok() && self.book.next_seq() > before {
            self.numbered(RESTOCKS + number, sku, Change::Restock { units });
        }
    }

    /// Claimed at the gate, sometimes given up and claimed again, then carried out.
    pub(crate) fn correct(&mut self, sku: SkuId, number: u64, units: u64, give_up: bool) {
        let id = key(sku, number + 1_000_000);
        let claim = ClaimRequest { claim: Claim::Correction { id, units }, record: b"" };
        let settle = |verdict| Settle { id, epoch: self.epoch, verdict };
        if give_up && matches!(self.gate.claim(&[claim])[0].as_ref().unwrap().what, Claimed::Taken { .. }) {
            assert_eq!(self.gate.settle(&[settle(Verdict::ClaimUndone)]), [Ok(Settled::Done)]);
        }
        let got = self.gate.claim(&[claim]).remove(0).unwrap().what;
        if got == Claimed::Settled || got == Claimed::Refused(Refusal::KeyConflict) {
            return;
        }
        let kept = settle(Verdict::ClaimKept);
        let key = format!("c{number}").into();
        let done = self.command(Command::Adjust { sku, how: Adjust::Correct, units, key });
        match done {
            Ok(_) => {
                assert!(matches!(got, Claimed::Taken { .. }), "{got:?}");
                assert_eq!(self.gate.settle(&[kept]), [Ok(Settled::Done)]);
            }
            Err(Refusal::CorrectionTooLarge(_)) => {
                assert!(matches!(got, Claimed::Refused(_)), "{got:?}");
            }
            Err(other) => panic!("{other:?}"),
        }
    }

    pub(crate) fn sale(&mut self, command: Command) {
        // Refused if the sale is over: then the gate gets the same state again, which changes nothing.
        drop(self.command(command));
        let state = self.sale_state();
        let answers = self.gate.set_sale(&SKUS.map(|sku| (sku, state, self.limit(sku))));
        assert!(answers.iter().all(Result::is_ok), "{answers:?}");
    }

    fn limit(&self, sku: SkuId) -> Option<u32> {
        self.book.registry().terms(sku).unwrap().limit
    }

    /// Another limit of each product, before the start.
    pub(crate) fn limit_to(&mut self, limits: [Option<u32>; 2]) {
        let items = limits.into_iter().zip([1, 2]).map(|(limit, product)| ItemChange {
            product: ProductId(product),
            title: None,
            description: None,
            price: None,
            list_price: None,
            limit: Some(limit),
        });
        let change = SaleChange { items: items.collect(), ..SaleChange::default() };
        self.sale(Command::ChangeSale { sale: SALE, change });
    }

    /// The start of the sale, moved before now.
    pub(crate) fn begin(&mut self) {
        let starts_at = Some(UnixMs(self.now.0 - HOUR));
        self.sale(Command::ChangeSale {
            sale: SALE,
            change: SaleChange { starts_at, ..SaleChange::default() },
        });
    }

    fn sale_state(&self) -> GateSale {
        let view = self.book.sale(SALE).unwrap();
        GateSale {
            version: self.book.next_seq().0,
            starts_at: view.spec.starts_at,
            ends_at: view.spec.ends_at,
            paused: view.paused,
            ended: view.ended,
        }
    }

    /// Both gates anew, from what the book holds, under the next epoch. Rows of older epochs are ignored then.
    pub(crate) fn rebuild(&mut self) {
        let fenced = self.gate.fence(&SKUS.map(|sku| (sku, self.epoch)));
        assert_eq!(fenced, [Ok(()), Ok(())]);
        self.epoch += 1;
        for sku in SKUS {
            let snapshot = self.snapshot(sku);
            assert!(matches!(self.gate.build(sku, &snapshot, &mut || ()), Ok(Built::Open(_))));
        }
        self.open.clear();
        let old: Vec<OutboxRow> = self.rows.drain(..).collect();
        for answer in self.gate.apply(&old) {
            assert_eq!(answer.unwrap().what, Applied::Old);
        }
    }

    fn snapshot(&self, sku: SkuId) -> Snapshot {
        let places = self.placed.iter().filter(|place| place.id.sku == sku);
        let marks = places.map(|place| Mark { placement: *place, state: self.mark(place.id) });
        let buyers = (0..BUYERS).map(|buyer| (buyer_of(buyer), self.units(sku, buyer_of(buyer))));
        Snapshot {
            epoch: self.epoch,
            available: self.book.stock(sku).unwrap().available(),
            sale: self.sale_state(),
            limit: self.limit(sku),
            buyers: buyers.filter(|(_, units)| *units > 0).collect(),
            returned_holds: Vec::new(),
            marks: marks.collect(),
        }
    }

    fn mark(&self, id: OrderId) -> MarkState {
        match self.book.order(id).unwrap().status {
            Status::Paid if self.late.contains(&id) => MarkState::PaidLate,
            Status::Held | Status::Paid | Status::Refunded => MarkState::Sold,
            Status::Cancelled | Status::Expired => MarkState::Returned,
        }
    }

    /// Units of a buyer, from the orders one by one.
    fn units(&self, sku: SkuId, buyer: BuyerId) -> u64 {
        let places = self.placed.iter().filter(|place| place.id.sku == sku && place.buyer == buyer);
        let holding = places.filter(|place| self.mark(place.id) != MarkState::Returned);
        holding.map(|place| u64::from(place.quantity)).sum()
    }

    /// Stock, orders and buyers are the same in both.
    pub(crate) fn compare(&mut self) {
        for (sku, state) in SKUS.into_iter().zip(self.gate.states(&SKUS)) {
            let state = state.unwrap().unwrap();
            let stock = self.book.stock(sku).unwrap();
            assert_eq!(state.seen.available, i64::try_from(stock.available()).unwrap(), "{sku:?}");
            assert_eq!((state.closed, state.seen.epoch), (None, self.epoch));
        }
    }

    pub(crate) fn audit(&mut self) {
        self.compare();
        for sku in SKUS {
            let audit = self.gate.audit(sku).unwrap();
            assert_eq!(audit.fault(), None, "{audit:?}");
            let open =
                self.placed.iter().filter(|place| self.open.contains(&place.id) && place.id.sku == sku);
            let open: u64 = open.map(|place| u64::from(place.quantity)).sum();
            let stock = self.book.stock(sku).unwrap();
            assert_eq!(audit.open_units, open);
            assert_eq!(audit.open_units + audit.taken_units, stock.held() + stock.sold());
            if self.limit(sku).is_some() {
                let units: u64 = (0..BUYERS).map(|buyer| self.units(sku, buyer_of(buyer))).sum();
                assert_eq!(audit.buyers_counted, units);
            }
        }
        let ids: Vec<OrderId> = self.placed.iter().map(|place| place.id).collect();
        for (id, found) in ids.iter().zip(self.gate.find(&ids)) {
            match found.unwrap().unwrap() {
                Found::Open(record) => assert!(self.open.contains(id) && record.id() == *id),
                Found::Settled(state) => assert_eq!(state, self.mark(*id)),
            }
        }
    }

    pub(crate) fn any_order(&self, number: u64) -> Option<Placement> {
        let at = usize::try_from(number).unwrap() % self.placed.len().max(1);
        self.placed.get(at).copied()
    }
}

fn key(sku: SkuId, number: u64) -> OrderId {
    OrderId { sku, hash: (1 << 100) + u128::from(number) }
}

pub(crate) fn request(sku: SkuId, hash: u64, buyer: u64, quantity: u32, fingerprint: u64) -> Placement {
    Placement {
        id: OrderId { sku, hash: u128::from(hash) },
        buyer: buyer_of(buyer),
        quantity,
        fingerprint: Fingerprint(fingerprint),
    }
}
