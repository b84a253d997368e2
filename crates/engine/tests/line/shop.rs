//! A sale of one item that is sold to a line.

use engine::{
    Accepted, Adjust, BeaconTerms, Book, BuyerId, Command, DrawView, Entry, Event, Fingerprint, ItemSpec,
    LedgerKind, LineTerms, OrderId, Payment, Placement, ProductId, Refusal, SaleId, SaleSpec, SkuId, Spoken,
    Standing, UnixMs,
};

use crate::wrong::{Instead, Wrong};

pub(crate) const SALE: SaleId = SaleId(3);
pub(crate) const SKU: SkuId = SkuId(0);
pub(crate) const START: u64 = 100_000;
pub(crate) const END: u64 = 400_000;
pub(crate) const PAYMENT_MS: u64 = 20_000;
pub(crate) const TURN_MS: u64 = 10_000;
pub(crate) const GRACE_MS: u64 = 5_000;
pub(crate) const CLOSE_MS: u64 = 10_000;
pub(crate) const BEACON: BeaconTerms = BeaconTerms { public_key: [7; 96], genesis_s: 50, period_s: 3 };

pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound
    }

    pub(crate) fn index(&mut self, len: usize) -> usize {
        usize::try_from(self.below(len as u64)).expect("below a usize")
    }
}

pub(crate) fn buyer(number: u64) -> BuyerId {
    BuyerId(u128::from(number + 1))
}

pub(crate) fn place(key: u128, buyer: BuyerId, quantity: u32) -> Placement {
    // A key is a buyer's own.
    let id = OrderId { sku: SKU, hash: buyer.0 << 64 | key };
    Placement { id, buyer, quantity, fingerprint: Fingerprint(quantity.into()) }
}

/// So many units, and turns for so many.
pub(crate) fn item(total: u64, units: u64) -> ItemSpec {
    ItemSpec {
        product: ProductId(31),
        title: "Shoe".to_owned(),
        description: String::new(),
        price: 250,
        list_price: 300,
        total,
        limit: Some(2),
        image: None,
        line: Some(LineTerms {
            units: u32::try_from(units).expect("a few"),
            turn_ms: TURN_MS,
            grace_ms: GRACE_MS,
            close_ms: CLOSE_MS,
            beacon: None,
            access: None,
        }),
    }
}

pub(crate) fn sale(item: ItemSpec) -> SaleSpec {
    SaleSpec {
        id: SALE,
        title: "Drop".to_owned(),
        currency: "EUR".to_owned(),
        starts_at: UnixMs(START),
        ends_at: UnixMs(END),
        payment: Payment::WithinMs(PAYMENT_MS),
        open_holds_per_buyer_max: None,
        items: vec![item],
    }
}

#[derive(Clone)]
pub(crate) struct Shop {
    pub(crate) book: Book,
    pub(crate) now: u64,
    keys: u64,
    /// How its line is wrong, if it is.
    pub(crate) wrong: Option<Wrong>,
}

impl Shop {
    /// Half a minute before the start.
    pub(crate) fn new(item: ItemSpec) -> Shop {
        Shop::of(sale(item))
    }

    pub(crate) fn of(sale: SaleSpec) -> Shop {
        let mut shop = Shop { book: Book::new(), now: START - 30_000, keys: 0, wrong: None };
        shop.run(Command::CreateSale(sale)).expect("the sale can be");
        shop
    }

    pub(crate) fn run(&mut self, command: Command) -> Result<Accepted, Refusal> {
        self.book.execute(UnixMs(self.now), command)
    }

    pub(crate) fn restock(&mut self, units: u64) -> u64 {
        self.adjust(Adjust::Restock, units).expect("any sale can have more");
        units
    }

    pub(crate) fn correct(&mut self, units: u64) -> Result<Accepted, Refusal> {
        self.adjust(Adjust::Correct, units)
    }

    fn adjust(&mut self, how: Adjust, units: u64) -> Result<Accepted, Refusal> {
        self.keys += 1;
        let key = self.keys.to_string().into();
        self.run(Command::Adjust { sku: SKU, how, units, key })
    }

    pub(crate) fn pause(&mut self) -> bool {
        self.changes(Command::Pause(SALE))
    }

    pub(crate) fn resume(&mut self) -> bool {
        self.changes(Command::Resume(SALE))
    }

    pub(crate) fn end(&mut self) -> bool {
        self.changes(Command::End(SALE))
    }

    /// Whether it came to something new.
    fn changes(&mut self, command: Command) -> bool {
        let before = self.book.next_seq();
        self.run(command).is_ok() && self.book.next_seq() > before
    }

    /// Calls those whose turn it is. Returns how many were reached.
    ///
    /// # Errors
    /// Why a ledger in which its line did so is not believed.
    pub(crate) fn call(&mut self, reach_max: u32) -> Result<u32, &'static str> {
        let now = UnixMs(self.now);
        let Some(wrong) = self.wrong else {
            return Ok(self.book.call_due(now, usize::MAX, reach_max).reached);
        };
        let mut reached = 0;
        loop {
            // What the real line would do.
            let (mut ahead, mut journal) = (self.book.clone(), Vec::new());
            let made = ahead.call_due(now, 1, reach_max - reached);
            ahead.drain_journal(&mut journal);
            let right = journal.pop().filter(|_| made.steps == 1).map(|entry| entry.event);
            match wrong(self, right.as_ref()) {
                Instead::Nothing => return Ok(reached),
                Instead::Step(event) => self.apply(event)?,
                Instead::TheRightStep => {
                    self.book = ahead;
                    reached += made.reached;
                    if right.is_none() {
                        return Ok(reached);
                    }
                }
            }
        }
    }

    /// An event as its line decided it, right or wrong.
    pub(crate) fn apply(&mut self, event: Event) -> Result<(), &'static str> {
        let entry = Entry { seq: self.book.next_seq(), at: UnixMs(self.now), event };
        self.book.replay(LedgerKind::Book, &entry).map_err(|found| found.why)
    }

    /// Of the draw that was made.
    pub(crate) fn seed(&self) -> [u8; 32] {
        match self.book.line_of(SKU).expect("the item has a line").draw {
            DrawView::Drawn { seed, .. } => seed,
            other => panic!("no places are drawn: {other:?}"),
        }
    }

    /// The beacon says so in a round.
    pub(crate) fn draw(&mut self, round: u64, said: u8) -> Result<Accepted, Refusal> {
        self.run(Command::Draw { sku: SKU, spoken: Box::new(Spoken { round, signature: [said; 48] }) })
    }

    /// The journal, which makes the same book again.
    pub(crate) fn assert_replays(&mut self) -> Vec<Entry> {
        let mut journal = Vec::new();
        self.book.drain_journal(&mut journal);
        let mut again = Book::new();
        for entry in &journal {
            again.replay(LedgerKind::Book, entry).expect("a book's own entries follow from each other");
        }
        again.check_invariants().expect("no invariant is broken");
        assert_eq!(again.line_of(SKU), self.book.line_of(SKU));
        journal
    }

    /// These show that they are there, and whoever can be called is.
    pub(crate) fn at(&mut self, now: u64, present: &[u64]) {
        self.now = now;
        for number in present {
            self.run(Command::ShowPresence { sku: SKU, buyer: buyer(*number) }).expect("they have joined");
        }
        self.book.expire_due(UnixMs(now), usize::MAX);
        self.book.call_due(UnixMs(now), usize::MAX, u32::MAX);
        self.book.check_invariants().expect("no invariant is broken");
    }

    pub(crate) fn standing(&self, number: u64) -> Standing {
        self.book.place_in_line(SKU, buyer(number)).expect("they have joined").standing
    }

    pub(crate) fn sure_to(&self) -> u32 {
        self.book.line_of(SKU).expect("it has a line").borders.sure_to
    }
}
