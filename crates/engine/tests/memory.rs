//! What a line costs in memory, as the process sees it.

#![cfg(target_os = "linux")]

use engine::{
    Book, BuyerId, Command, ItemSpec, LineTerms, Payment, ProductId, SaleId, SaleSpec, SkuId, UnixMs,
};

const PEOPLE: u64 = 1_000_000;
const BYTES_EACH_MAX: u64 = 100;

/// Resident bytes of this process.
fn resident() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").expect("Linux has it");
    let pages: u64 = statm.split(' ').nth(1).and_then(|pages| pages.parse().ok()).expect("a number of pages");
    pages * 4096
}

fn sale() -> SaleSpec {
    let line = LineTerms {
        units: 1,
        turn_ms: 120_000,
        grace_ms: 20_000,
        close_ms: 30_000,
        beacon: None,
        access: None,
    };
    let item = ItemSpec {
        product: ProductId(1),
        title: "Shoe".to_owned(),
        description: String::new(),
        price: 1,
        list_price: 1,
        total: 10_000,
        limit: Some(1),
        image: None,
        line: Some(line),
    };
    SaleSpec {
        id: SaleId(1),
        title: "Drop".to_owned(),
        currency: "EUR".to_owned(),
        starts_at: UnixMs(100_000),
        ends_at: UnixMs(200_000),
        payment: Payment::WithinMs(60_000),
        open_holds_per_buyer_max: None,
        items: vec![item],
    }
}

#[test]
fn a_million_wait_in_a_hundred_bytes_each() {
    let mut book = Book::new();
    book.execute(UnixMs(1), Command::CreateSale(sale())).expect("the sale can be");
    let (mut journal, before) = (Vec::new(), resident());
    for number in 0..PEOPLE {
        let buyer =
            BuyerId::of_hash(u128::from(number).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c834));
        book.execute(UnixMs(1), Command::Join { sku: SkuId(0), buyer }).expect("anybody can join");
        // As a server does with each batch.
        if number % 1_000 == 0 {
            book.drain_journal(&mut journal);
            journal.clear();
        }
    }
    book.call_due(UnixMs(100_000), usize::MAX, u32::MAX);
    let line = book.line_of(SkuId(0)).expect("it has a line");
    assert_eq!((u64::from(line.joined), line.draw.drawn()), (PEOPLE, Some(1_000_000)));
    let each = (resident() - before) / PEOPLE;
    println!("{each} bytes for each of {PEOPLE}");
    assert!(each <= BYTES_EACH_MAX, "{each} bytes each");
}
