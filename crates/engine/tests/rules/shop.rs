//! A sale to try rules on, and scripts: rows of a time, a command and the outcome in a word. Every script ends
//! with the invariants and a replay of its journal.

use engine::{
    Accepted, Adjust, Book, BuyerId, Closing, Command, Disposition, Entry, Event, Fingerprint, ItemChange,
    ItemSpec, LedgerKind, OrderId, OrderView, Pay, Payment, Placement, ProductId, Refund, Refusal,
    SaleChange, SaleId, SaleSpec, SkuId, UnixMs,
};

pub(crate) const SALE: SaleId = SaleId(3);
pub(crate) const SKU: SkuId = SkuId(0);
/// When the sale starts and ends, and how long an order may stay unpaid.
pub(crate) const START: u64 = 1_000;
pub(crate) const END: u64 = 2_000;
pub(crate) const HOLD: u64 = 100;
pub(crate) const PRICE: u64 = 250;

/// A sale of one product, without limits.
pub(crate) fn sale_of(total: u64) -> SaleSpec {
    SaleSpec {
        id: SALE,
        title: "Drop".to_owned(),
        currency: "EUR".to_owned(),
        starts_at: UnixMs(START),
        ends_at: UnixMs(END),
        payment: Payment::WithinMs(HOLD),
        open_holds_per_buyer_max: None,
        items: vec![ItemSpec {
            product: ProductId(29),
            title: "Shoe".to_owned(),
            description: String::new(),
            price: PRICE,
            list_price: 300,
            total,
            limit: None,
            image: None,
            line: None,
        }],
    }
}

pub(crate) fn limited(total: u64, limit: u32) -> SaleSpec {
    let mut spec = sale_of(total);
    spec.items[0].limit = Some(limit);
    spec
}

/// Rows of a time, what to do then, and the outcome in a word.
pub(crate) type Script<'a> = &'a [(u64, Do, &'static str)];

/// One thing to do; the book's commands and its sweep.
#[derive(Clone, Debug)]
pub(crate) enum Do {
    Command(Command),
    Expire { max: usize },
    CorrectClock { to: u64 },
}

pub(crate) fn id(key: u128) -> OrderId {
    OrderId { sku: SKU, hash: key }
}

pub(crate) fn request(key: u128, buyer: u64, quantity: u32) -> Placement {
    Placement { id: id(key), buyer: BuyerId(buyer.into()), quantity, fingerprint: Fingerprint(7) }
}

pub(crate) fn place(key: u128, buyer: u64, quantity: u32) -> Do {
    Do::Command(Command::Place(request(key, buyer, quantity)))
}

pub(crate) fn cancel(key: u128, buyer: u64) -> Do {
    Do::Command(Command::Cancel { order: id(key), buyer: BuyerId(buyer.into()) })
}

/// Pays for so many units of the order.
pub(crate) fn pay(payment: &str, key: u128, units: u64) -> Do {
    Do::Command(Command::Pay(Pay { id: payment.into(), order: id(key), amount: units * PRICE }))
}

/// Refunds so much of the order, or all that is left of it, and puts units back on sale.
pub(crate) fn refund(refund: &str, key: u128, amount: Option<u64>, units: u32) -> Do {
    Do::Command(Command::Refund(Refund { id: refund.into(), order: id(key), amount, units, paid_out: false }))
}

/// The provider has paid so much back.
pub(crate) fn paid_out(refund: &str, key: u128, amount: u64) -> Do {
    let amount = Some(amount);
    Do::Command(Command::Refund(Refund {
        id: refund.into(),
        order: id(key),
        amount,
        units: 0,
        paid_out: true,
    }))
}

pub(crate) fn settle(payment: &str) -> Do {
    Do::Command(Command::Settle { payment: payment.into() })
}

pub(crate) fn restock(key: &str, units: u64) -> Do {
    Do::Command(Command::Adjust { sku: SKU, how: Adjust::Restock, units, key: key.into() })
}

pub(crate) fn correct(key: &str, units: u64) -> Do {
    Do::Command(Command::Adjust { sku: SKU, how: Adjust::Correct, units, key: key.into() })
}

pub(crate) fn pause() -> Do {
    Do::Command(Command::Pause(SALE))
}

pub(crate) fn resume() -> Do {
    Do::Command(Command::Resume(SALE))
}

pub(crate) fn end() -> Do {
    Do::Command(Command::End(SALE))
}

pub(crate) fn delete() -> Do {
    Do::Command(Command::DeleteSale(SALE))
}

pub(crate) fn create(spec: SaleSpec) -> Do {
    Do::Command(Command::CreateSale(spec))
}

pub(crate) fn change(change: SaleChange) -> Do {
    Do::Command(Command::ChangeSale { sale: SALE, change })
}

/// A change of the only item that changes nothing of it yet.
pub(crate) fn item() -> ItemChange {
    ItemChange {
        product: ProductId(29),
        title: None,
        description: None,
        price: None,
        list_price: None,
        limit: None,
    }
}

pub(crate) fn change_item(item: ItemChange) -> Do {
    change(SaleChange { items: vec![item], ..SaleChange::default() })
}

pub(crate) fn expire(max: usize) -> Do {
    Do::Expire { max }
}

/// The clock, which says the time of the row, is set to this one.
pub(crate) fn correct_clock(to: u64) -> Do {
    Do::CorrectClock { to }
}

/// A book with its ledger.
#[derive(Debug, Default)]
pub(crate) struct Shop {
    pub(crate) book: Book,
    pub(crate) ledger: Vec<Entry>,
}

impl Shop {
    pub(crate) fn with(spec: SaleSpec) -> Shop {
        let mut shop = Shop::default();
        assert_eq!(shop.run(0, create(spec)), "sale");
        shop
    }

    /// Does it, and says in a word what it came to.
    pub(crate) fn run(&mut self, at: u64, what: Do) -> String {
        let outcome = match what {
            Do::Command(command) => word(self.book.execute(UnixMs(at), command)),
            Do::Expire { max } => format!("{} expired", self.book.expire_due(UnixMs(at), max)),
            Do::CorrectClock { to } => match self.book.correct_clock(UnixMs(at), UnixMs(to), "operator") {
                Ok(()) => "corrected".to_owned(),
                Err(refusal) => refusal.code().to_owned(),
            },
        };
        self.book.drain_journal(&mut self.ledger);
        outcome
    }

    /// Total, available, held and sold.
    pub(crate) fn stock(&self) -> [u64; 4] {
        let stock = self.book.stock(SKU).expect("the sale has a SKU");
        [stock.total(), stock.available(), stock.held(), stock.sold()]
    }

    pub(crate) fn order(&self, key: u128) -> OrderView {
        self.book.order(id(key)).expect("the order was placed")
    }

    /// Checks what must be true of any book, and that its ledger makes the same one.
    pub(crate) fn assert_sound(&self) {
        self.book.check_invariants().expect("no invariant is broken");
        let replayed = replayed(&self.ledger);
        replayed.check_invariants().expect("no invariant is broken by replaying");
        assert_eq!(replayed.next_seq(), self.book.next_seq());
        assert_eq!(replayed.last_at(), self.book.last_at());
        assert_eq!(replayed.stock(SKU), self.book.stock(SKU));
        assert!(replayed.refunds_due().eq(self.book.refunds_due()));
        for entry in &self.ledger {
            assert_eq!(replayed.order_at(entry.seq), self.book.order_at(entry.seq));
        }
        self.assert_holds_ended(&replayed);
    }

    /// The book knows how holds ended as the entries say it.
    fn assert_holds_ended(&self, replayed: &Book) {
        // When one expired that was paid late, the book has forgotten.
        let known = |how: Closing, after_ms: u64| {
            (format!("{how:?}"), if how == Closing::Expired { 0 } else { after_ms })
        };
        let ended = |entry: &Entry| {
            let Event::OrderClosed { order, how } = entry.event else { return None };
            let order = self.book.order_at(order)?;
            (how != Closing::Refunded && order.pay_by.is_some())
                .then(|| known(how, entry.at.0.saturating_sub(order.placed_at.0)))
        };
        let mut expected: Vec<_> = self.ledger.iter().filter_map(ended).collect();
        expected.sort_unstable();
        for book in [&self.book, replayed] {
            let mut found: Vec<_> = book.holds_ended().map(|(_, how, after)| known(how, after)).collect();
            found.sort_unstable();
            assert_eq!(found, expected);
        }
    }
}

pub(crate) fn replayed(ledger: &[Entry]) -> Book {
    let mut book = Book::new();
    book.reserve_orders(ledger.len());
    for entry in ledger {
        book.replay(LedgerKind::Book, entry).expect("a journal is consistent");
    }
    book
}

/// Runs one script and checks each outcome, and the stock after it: total, available, held, sold.
#[track_caller]
pub(crate) fn check(name: &str, spec: SaleSpec, script: Script<'_>, stock: [u64; 4]) {
    let mut shop = Shop::with(spec);
    for (row, (at, what, outcome)) in script.iter().enumerate() {
        assert_eq!(shop.run(*at, what.clone()), *outcome, "{name}: row {row}, at {at}: {what:?}");
        shop.book.check_invariants().expect("no invariant is broken");
    }
    assert_eq!(shop.stock(), stock, "{name}: total, available, held, sold");
    shop.assert_sound();
}

fn word(outcome: Result<Accepted, Refusal>) -> String {
    let (word, replayed) = match outcome {
        Ok(Accepted::Sale(_)) => ("sale".to_owned(), false),
        Ok(Accepted::Stock(_)) => ("stock".to_owned(), false),
        Ok(Accepted::Order { order, replayed }) => (order.status.as_str().to_owned(), replayed),
        Ok(Accepted::Payment { payment, replayed }) => (
            match payment.disposition {
                Disposition::Applied => "applied".to_owned(),
                Disposition::RefundDue(reason) => format!("due: {}", reason.as_str()),
                Disposition::Settled(reason) => format!("settled: {}", reason.as_str()),
            },
            replayed,
        ),
        Ok(Accepted::InLine { .. } | Accepted::Drawn(_) | Accepted::LineSteered(_)) => {
            unreachable!("no item here has a line")
        }
        Ok(Accepted::BuyerErased) => ("erased".to_owned(), false),
        Ok(Accepted::Operators) => ("operators".to_owned(), false),
        Ok(Accepted::Noticed) => ("noticed".to_owned(), false),
        Ok(Accepted::ActionKept) => ("action kept".to_owned(), false),
        Err(refusal) => (refusal.code().to_owned(), false),
    };
    if replayed { word + " again" } else { word }
}
