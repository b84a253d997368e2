//! What a seeded history does next: a generator that aims at the edges (tiny stocks, few buyers, keys that
//! come again, payments that are early, late, wrong or reported twice). It must not judge: the model says what a
//! command comes to.

use engine::{
    Adjust, BuyerId, Command, Disposition, Fingerprint, ItemChange, ItemSpec, Notice, OrderId, Pay, Payment,
    Placement, ProductId, Refund, SaleChange, SaleId, SaleSpec, SkuId, Status, UnixMs,
};

use crate::model::Model;

/// Steele and others' splitmix64: eight bytes of state, and any seed is good.
#[derive(Debug)]
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    pub(crate) fn percent(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    fn position(&mut self, len: usize) -> usize {
        usize::try_from(self.below(len as u64)).expect("below a usize")
    }

    fn small(&mut self, bound: u32) -> u32 {
        u32::try_from(self.below(u64::from(bound))).expect("below a u32")
    }
}

/// A clock is not set back further: sales are drawn around the time that it is.
const TIME_MIN: u64 = 100;

/// One step of a history.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    Do(Command),
    Expire {
        max: usize,
    },
    /// The clock is set to this time, and goes on from there.
    Correct {
        to: u64,
    },
}

/// The shape of the histories.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub(crate) steps: u64,
    /// Steps among 1,000 that create another sale.
    pub(crate) sales_permille: u64,
    /// A sale lasts up to this long; a step takes 2 ms on average.
    pub(crate) sale_ms_max: u64,
    /// Whether sales may bound the open holds of a buyer.
    pub(crate) open_holds: bool,
    /// Steps among 1,000 that correct the clock.
    pub(crate) corrections_permille: u64,
}

#[derive(Debug)]
pub(crate) struct Draw {
    random: Random,
    shape: Shape,
    now: u64,
    /// Keys in use are the 24 from here on; it moves with the orders.
    keys_from: u64,
    /// The order that payments and cancellations ask for before it is there.
    early: (SkuId, u64),
    payments: u64,
}

impl Draw {
    pub(crate) fn new(seed: u64, shape: Shape) -> Draw {
        Draw { random: Random(seed), shape, now: 1_000, keys_from: 0, early: (SkuId(0), 0), payments: 0 }
    }

    /// The next step and its time.
    pub(crate) fn next(&mut self, model: &Model) -> (u64, Step) {
        self.now += self.random.below(5);
        if model.sales.len() < 2 || self.random.below(1_000) < self.shape.sales_permille {
            return (self.now, Step::Do(Command::CreateSale(self.new_sale(model))));
        }
        let corrections = self.shape.corrections_permille;
        if corrections > 0 && self.random.below(1_000) < corrections {
            // Far enough for a sale to begin, end, or begin again.
            let to = self.now + self.random.below(300);
            let to = if self.random.percent(50) { to } else { to.saturating_sub(300).max(TIME_MIN) };
            let from = std::mem::replace(&mut self.now, to);
            return (from, Step::Correct { to });
        }
        let step = match self.random.below(100) {
            0..42 => Step::Do(Command::Place(self.place(model))),
            42..55 => Step::Do(Command::Pay(self.pay(model))),
            55..62 => Step::Do(self.cancel(model)),
            62..70 => Step::Expire { max: if self.random.percent(50) { 1 } else { 1_000 } },
            // More than refunds come to be due, so that those are few.
            70..84 => Step::Do(self.settle(model)),
            84..87 => Step::Do(Command::Refund(self.refund(model))),
            87..91 => Step::Do(self.adjust(model)),
            91..93 => Step::Do(self.create_again(model)),
            93..95 => Step::Do(Command::ChangeSale { sale: self.sale(model), change: self.change() }),
            95 => Step::Do(Command::Pause(self.sale(model))),
            96..99 => Step::Do(Command::Resume(self.sale(model))),
            _ if self.random.percent(15) => Step::Do(Command::End(self.sale(model))),
            _ if self.random.percent(25) => Step::Do(Command::DeleteSale(self.sale(model))),
            _ if self.random.percent(15) => Step::Do(Command::EraseBuyer(self.some_order(model).buyer)),
            _ if self.random.percent(15) => Step::Do(Command::Notice(self.notice(model))),
            _ => Step::Do(Command::Resume(self.sale(model))),
        };
        (self.now, step)
    }

    fn notice(&mut self, model: &Model) -> Notice {
        match self.random.below(4) {
            0 => Notice::SaleStarted(self.sale(model)),
            1 => Notice::SaleEnded(self.sale(model)),
            2 => Notice::SoldOut(self.sku(model)),
            _ => Notice::BackInStock(self.sku(model)),
        }
    }

    /// One of the latest three sales, or now and then one that does not exist.
    fn sale(&mut self, model: &Model) -> SaleId {
        if self.random.percent(5) {
            return SaleId(u64::MAX);
        }
        let back = self.random.below(3).min(model.sales.len() as u64 - 1);
        SaleId(model.sales.len() as u64 - back)
    }

    /// One of the latest SKUs, or now and then one that does not exist.
    fn sku(&mut self, model: &Model) -> SkuId {
        let len = model.skus_len();
        if self.random.percent(2) { SkuId(len) } else { SkuId(len - 1 - self.random.small(len.min(6))) }
    }

    fn new_sale(&mut self, model: &Model) -> SaleSpec {
        let random = &mut self.random;
        let starts_at = self.now - 10 + random.below(25);
        let items = 1 + random.below(2);
        SaleSpec {
            id: SaleId(model.sales.len() as u64 + 1),
            title: "Drop".to_owned(),
            currency: "EUR".to_owned(),
            starts_at: UnixMs(starts_at),
            ends_at: UnixMs(starts_at + self.shape.sale_ms_max / 2 + random.below(self.shape.sale_ms_max)),
            payment: if random.percent(20) {
                Payment::OnPlacing
            } else {
                Payment::WithinMs(1 + random.below(30))
            },
            open_holds_per_buyer_max: random
                .percent(50)
                .then(|| 1 + random.small(3))
                .filter(|_| self.shape.open_holds),
            items: (1..=items)
                .map(|product| ItemSpec {
                    product: ProductId(product),
                    title: "Shoe".to_owned(),
                    description: String::new(),
                    price: 100 + product,
                    list_price: 200,
                    total: random.below(8),
                    limit: random.percent(60).then(|| 1 + random.small(4)),
                    image: None,
                    line: None,
                })
                .collect(),
        }
    }

    /// A sale that exists, as it is or described otherwise, or one that can't be.
    fn create_again(&mut self, model: &Model) -> Command {
        let latest = &model.sales[model.sales.len() - 1 - usize::from(self.random.percent(30))];
        let mut spec = latest.spec.clone();
        match self.random.below(9) {
            0..3 => return Command::CreateSale(spec),
            3..5 => spec.currency = "USD".to_owned(),
            5 => spec.items.push(spec.items[0].clone()),
            6 => spec.items.clear(),
            7 => spec.ends_at = spec.starts_at,
            _ => spec.items[0].limit = Some(0),
        }
        if self.random.percent(60) {
            spec.id = SaleId(u64::MAX - 1);
            spec.open_holds_per_buyer_max = Some(0);
        }
        Command::CreateSale(spec)
    }

    /// A product of the sale, or now and then one that it has not, and values that may be too large.
    fn item_change(&mut self) -> ItemChange {
        let random = &mut self.random;
        let product = if random.percent(5) { 9 } else { 1 + random.below(2) };
        let text = |random: &mut Random| random.percent(30).then(|| "Another shoe".to_owned());
        let price = |random: &mut Random| random.percent(40).then(|| 100 + random.below(9));
        ItemChange {
            product: ProductId(product),
            title: text(random),
            description: text(random),
            price: price(random),
            list_price: price(random),
            limit: random.percent(40).then(|| random.percent(70).then(|| random.small(5))),
        }
    }

    fn change(&mut self) -> SaleChange {
        let items = (0..self.random.below(6).saturating_sub(3)).map(|_| self.item_change()).collect();
        let random = &mut self.random;
        let near = |random: &mut Random, span| UnixMs(self.now - 20 + random.below(span));
        SaleChange {
            items,
            title: random.percent(40).then(|| if random.percent(10) { "" } else { "Second drop" }.to_owned()),
            starts_at: random.percent(30).then(|| near(random, 60)),
            ends_at: random.percent(40).then(|| near(random, self.shape.sale_ms_max)),
            payment_ms: random.percent(40).then(|| random.below(40)),
        }
    }

    /// The request that belongs to a key: the same each time, so that a key that comes again is a retry.
    fn request(sku: SkuId, key: u64) -> Placement {
        let mut of_key = Random(key ^ (u64::from(sku.0) << 40));
        let quantity = match of_key.below(40) {
            0 => 0,
            1 => 1_000_001,
            2 => 5,
            _ => 1 + of_key.small(3),
        };
        Placement {
            id: OrderId { sku, hash: u128::from(of_key.next()) },
            buyer: buyer(of_key.below(4)),
            quantity,
            fingerprint: Fingerprint(key),
        }
    }

    fn place(&mut self, model: &Model) -> Placement {
        self.keys_from += u64::from(self.random.percent(25));
        let sku = self.sku(model);
        let mut place = Draw::request(sku, self.keys_from + self.random.below(24));
        if self.random.percent(6) {
            place = Draw::request(self.early.0, self.early.1);
        }
        match self.random.below(40) {
            0 => place.quantity += 1,
            1 => place.buyer = another(place.buyer),
            2 => place.fingerprint.0 += 1,
            _ => {}
        }
        place
    }

    /// One of the latest orders, or one that may come later.
    fn some_order(&mut self, model: &Model) -> Placement {
        let len = model.orders.len();
        if len == 0 || self.random.percent(16) {
            if self.random.percent(50) {
                self.early = (self.sku(model), self.keys_from + 24 + self.random.below(4));
            }
            return Draw::request(self.early.0, self.early.1);
        }
        let pick = |back| model.orders[len - 1 - back];
        let first = pick(self.random.position(len.min(20)));
        // Paid orders are many and have little left to happen to them: draw again, once.
        if first.status == Status::Paid { pick(self.random.position(len.min(20))).place } else { first.place }
    }

    fn cancel(&mut self, model: &Model) -> Command {
        let mut place = self.some_order(model);
        if self.random.percent(10) {
            place.buyer = another(place.buyer);
        }
        Command::Cancel { order: place.id, buyer: place.buyer }
    }

    fn pay(&mut self, model: &Model) -> Pay {
        if !model.payments.is_empty() && self.random.percent(12) {
            let mut again = model.payments[model.payments.len() - 1].pay.clone();
            match self.random.below(6) {
                0 => again.amount += 1,
                1 => again.order.hash ^= 1,
                _ => {}
            }
            return again;
        }
        let place = self.some_order(model);
        let known = place.id.sku.0 < model.skus_len();
        let amount = if known && place.quantity < 10 { model.amount(&place) } else { 1 };
        self.payments += 1;
        let id = match self.random.below(150) {
            0 => String::new(),
            1 => "p".repeat(255 + self.random.position(2)),
            _ => format!("pay-{}", self.payments),
        };
        Pay { id: id.into(), order: place.id, amount: amount + u64::from(self.random.percent(8)) }
    }

    /// Mostly of a paid order; a part or all of it, and now and then more; or one that was asked for before.
    fn refund(&mut self, model: &Model) -> Refund {
        let random = &mut self.random;
        let paid_out = random.percent(30);
        let before = model.payments.iter().rev().take(20);
        let again = before
            .filter(|payment| payment.disposition != Disposition::Applied)
            .map(|payment| (payment, payment.disposition.requested().unwrap_or(0)))
            .next();
        if let (Some((payment, units)), true) = (again, random.percent(20)) {
            let Pay { id, order, amount } = payment.pay.clone();
            let (amount, more) = (random.percent(80).then_some(amount), u32::from(random.percent(10)));
            return Refund { id, order, amount, units: units + more, paid_out };
        }
        let paid = model.orders.iter().rev().take(40).filter(|order| order.status == Status::Paid);
        let paid: Vec<_> = paid.map(|order| order.place).collect();
        let place = match paid.len() {
            0 => self.some_order(model),
            _ if self.random.percent(10) => self.some_order(model),
            len => paid[self.random.position(len)],
        };
        let random = &mut self.random;
        self.payments += 1;
        let id = match random.below(60) {
            0 => String::new(),
            1 => format!("pay-{}", self.payments - 1),
            _ => format!("refund-{}", self.payments),
        };
        let amount = random.percent(60).then(|| random.below(300));
        Refund { id: id.into(), order: place.id, amount, units: random.small(4).saturating_sub(1), paid_out }
    }

    fn settle(&mut self, model: &Model) -> Command {
        let payment = match self.random.below(10) {
            0 => "nobody".into(),
            1 if !model.payments.is_empty() => {
                let back = self.random.position(model.payments.len().min(10));
                model.payments[model.payments.len() - 1 - back].pay.id.clone()
            }
            _ => match model.due.first() {
                Some(due) => model.payments[*due].pay.id.clone(),
                None => "nobody".into(),
            },
        };
        Command::Settle { payment }
    }

    fn adjust(&mut self, model: &Model) -> Command {
        let key = match self.random.below(40) {
            0 => String::new(),
            1 => "a".repeat(65),
            _ => format!("adjust-{}", self.keys_from / 4 + self.random.below(8)),
        };
        let units = match self.random.below(20) {
            0 => 0,
            1 => 1_000_000_000_000,
            _ => 1 + self.random.below(3),
        };
        let how = if self.random.percent(60) { Adjust::Restock } else { Adjust::Correct };
        Command::Adjust { sku: self.sku(model), how, units, key: key.into() }
    }
}

/// Two numbers, and two hashes that end in them.
fn buyer(number: u64) -> BuyerId {
    let half = u128::from(1 + number / 2);
    if number.is_multiple_of(2) { BuyerId(half) } else { BuyerId::of_hash(half) }
}

fn another(buyer: BuyerId) -> BuyerId {
    BuyerId(buyer.0 ^ (1 << 127))
}
