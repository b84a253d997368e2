//! Generated command histories: the same for every backend and every fault.

use engine::{
    Adjust, Book, BuyerId, Command, Entry, Event, Fingerprint, ItemSpec, OrderId, Pay, Payment, Placement,
    ProductId, Refund, SaleChange, SaleId, SaleSpec, Seq, SkuId, UnixMs,
};
use server::ledger::{Buyer, Buyers};

/// A small generator with a printed seed: splitmix64.
#[derive(Clone, Debug)]
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }
}

/// The sale that a history is about: two SKUs that are short, a limit on one.
pub(crate) fn sale(id: u64) -> SaleSpec {
    let item = |product, total, limit| ItemSpec {
        product: ProductId(product),
        title: format!("Product {product}"),
        description: String::new(),
        price: 4_999,
        list_price: 9_999,
        total,
        limit,
        image: None,
        line: None,
    };
    SaleSpec {
        id: SaleId(id),
        title: format!("Sale {id}"),
        currency: "EUR".to_owned(),
        starts_at: UnixMs(1_000),
        ends_at: UnixMs(u64::from(u32::MAX)),
        payment: if id.is_multiple_of(3) { Payment::OnPlacing } else { Payment::WithinMs(500) },
        open_holds_per_buyer_max: Some(3),
        items: vec![item(1, 20, Some(2)), item(2, 30, None)],
    }
}

/// A batch of commands that do all that the ledger can hold.
pub(crate) fn commands(random: &mut Random, book: &Book) -> Vec<Command> {
    let mut commands = Vec::new();
    if book.sales().count() == 0 {
        commands.push(Command::CreateSale(sale(1)));
        commands.push(Command::CreateSale(sale(3)));
    }
    for _ in 0..random.below(12) {
        let command = command(random);
        if let Command::Place(Placement { id, .. }) = command
            && random.below(4) == 0
        {
            let pay = Pay { id: format!("q{id}").into(), order: id, amount: 4_999 };
            commands.extend([command, Command::Pay(pay), refund(random, id)]);
        } else {
            commands.push(command);
        }
    }
    commands
}

/// Of an order of one unit: whole or in part, asked for or made.
fn refund(random: &mut Random, order: OrderId) -> Command {
    Command::Refund(Refund {
        id: format!("r{}", random.below(500)).into(),
        order,
        amount: (random.below(2) == 0).then(|| random.below(3_000)),
        units: u32::from(random.below(2) == 0),
        paid_out: random.below(3) == 0,
    })
}

/// Every other buyer is a number, and the rest are texts.
pub(crate) fn buyer(number: u64) -> Buyer {
    let text = if number.is_multiple_of(2) { number.to_string() } else { format!("O'Neil №{number}") };
    Buyers::new(b"secret of a test").find(&text).unwrap()
}

/// The text of a buyer of these histories.
pub(crate) fn text_of(id: BuyerId) -> Option<Box<str>> {
    (0..20).map(buyer).find(|buyer| buyer.id == id).and_then(|buyer| buyer.text)
}

/// The texts that go with the orders and the joins among these entries.
pub(crate) fn texts(entries: &[Entry]) -> Vec<(Seq, Box<str>)> {
    let text = |entry: &Entry| match entry.event {
        Event::OrderPlaced { buyer, .. } | Event::LineJoined { buyer, .. } => {
            Some((entry.seq, text_of(buyer)?))
        }
        _ => None,
    };
    entries.iter().filter_map(text).collect()
}

fn command(random: &mut Random) -> Command {
    let sku = SkuId(u32::try_from(random.below(4)).unwrap());
    let order = OrderId { sku, hash: u128::from(random.below(300)) };
    let buyer = buyer(order.hash as u64 % 20).id;
    match random.below(20) {
        0 => Command::Adjust {
            sku,
            how: if random.below(2) == 0 { Adjust::Restock } else { Adjust::Correct },
            units: 1 + random.below(4),
            key: format!("k{}", random.below(1000)).into(),
        },
        1 => Command::Pause(SaleId(1)),
        2 | 3 => Command::Resume(SaleId(1)),
        4 => Command::ChangeSale {
            sale: SaleId(1),
            change: SaleChange {
                title: Some(format!("Sale {}", random.below(100))),
                ..SaleChange::default()
            },
        },
        5..=7 => Command::Pay(Pay {
            id: format!("p{}", random.below(500)).into(),
            order,
            amount: if random.below(6) == 0 { 1 } else { 4_999 },
        }),
        8 | 9 => Command::Cancel { order, buyer },
        10 => {
            let kind = if random.below(3) == 0 { 'r' } else { 'p' };
            Command::Settle { payment: format!("{kind}{}", random.below(500)).into() }
        }
        11 => refund(random, order),
        _ => Command::Place(Placement { id: order, buyer, quantity: 1, fingerprint: Fingerprint(7) }),
    }
}

/// Everything of a book that can be seen from outside, to compare two.
pub(crate) fn seen(book: &Book) -> String {
    use std::fmt::Write;
    let mut text = format!("next {:?} at {:?}\n", book.next_seq(), book.last_at());
    for sale in book.sales() {
        writeln!(text, "{sale:?}").unwrap();
    }
    for sku in 0..4 {
        for hash in 0..300 {
            if let Some(order) = book.order(OrderId { sku: SkuId(sku), hash }) {
                writeln!(text, "{order:?}").unwrap();
            }
        }
    }
    for payment in book.refunds_due() {
        writeln!(text, "{payment:?}").unwrap();
    }
    text
}
