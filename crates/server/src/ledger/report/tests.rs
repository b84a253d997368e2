//! Sales sold in a book, at times that a test says, and what is reported of them.

use engine::{
    Action, Adjust, Book, BuyerId, By, Closing, Command, Disposition, Entry, Event, Fingerprint, ItemSpec,
    LineTerms, Notice, OrderId, Pay, Payment, Placement, ProductId, RefundReason, Refusal, SaleId, SaleSpec,
    Seq, SkuId, UnixMs,
};

use super::{Percentiles, SaleReport, Tally, WhatHappened, canonical};

const SALE: SaleId = SaleId(3);

fn item(product: u64, total: u64) -> ItemSpec {
    ItemSpec {
        product: ProductId(product),
        title: format!("Product {product}"),
        description: String::new(),
        price: 500,
        list_price: 500,
        total,
        limit: None,
        image: None,
        line: None,
    }
}

fn sale(id: SaleId, payment: Payment) -> SaleSpec {
    SaleSpec {
        id,
        title: "Winter drop".to_owned(),
        currency: "EUR".to_owned(),
        starts_at: UnixMs(10_000),
        ends_at: UnixMs(1_000_000),
        payment,
        open_holds_per_buyer_max: None,
        items: vec![item(30, 4), item(31, 1)],
    }
}

/// A book, and what is reported of its journal.
struct Shop {
    book: Book,
    replayed: Book,
    tally: Tally,
    orders: u64,
}

impl Shop {
    fn new(payment: Payment) -> Shop {
        let mut shop = Shop { book: Book::new(), replayed: Book::new(), tally: Tally::of(SALE), orders: 0 };
        // Another sale is first, so that SKUs are not positions.
        shop.run(1_000, Command::CreateSale(sale(SaleId(2), payment)));
        shop.run(2_000, Command::CreateSale(sale(SALE, payment)));
        shop
    }

    fn run(&mut self, at_ms: u64, command: Command) {
        self.book.execute(UnixMs(at_ms), command).unwrap();
        self.take();
    }

    fn take(&mut self) {
        let mut entries = Vec::new();
        self.book.drain_journal(&mut entries);
        for entry in entries {
            self.replayed.replay(engine::LedgerKind::Book, &entry).unwrap();
            self.tally.add(&self.replayed, &entry);
        }
    }

    fn place(&mut self, at_ms: u64, sale: SaleId, product: u64, buyer: u64) {
        self.orders += 1;
        let sku = self.book.sku(sale, ProductId(product)).unwrap();
        let id = OrderId { sku, hash: self.orders.into() };
        let fingerprint = Fingerprint(self.orders);
        let placement = Placement { id, buyer: BuyerId(buyer.into()), quantity: 1, fingerprint };
        self.run(at_ms, Command::Place(placement));
    }

    fn report(self) -> SaleReport {
        self.tally.finish().unwrap()
    }
}

#[test]
fn times_are_those_of_the_first_half_and_last_unit_and_of_the_fullest_second() {
    let mut shop = Shop::new(Payment::OnPlacing);
    shop.place(10_100, SaleId(2), 30, 1);
    shop.place(10_200, SALE, 30, 1);
    shop.place(11_000, SALE, 30, 2);
    shop.place(11_900, SALE, 30, 2);
    shop.place(11_950, SALE, 31, 3);
    shop.place(12_500, SALE, 30, 4);
    let report = shop.report();
    let first = &report.items[0];
    let times = (first.first_order_at_ms, first.half_at_ms, first.sold_out_at_ms);
    assert_eq!(times, (Some(10_200), Some(11_000), Some(12_500)));
    assert_eq!(report.items[1].sold_out_at_ms, Some(11_950));
    assert_eq!(report.sold_out_at_ms, Some(12_500), "the last of the items");
    assert_eq!((report.peak_at_ms, report.peak_orders_per_s), (Some(11_000), 3));
    assert_eq!((report.orders.placed, report.orders.paid, report.buyers_bought), (5, 5, 4));
    assert_eq!(report.paid_after_ms, None, "nothing was held");
}

#[test]
fn a_sale_that_was_never_there_has_no_report_and_one_without_orders_no_times() {
    assert_eq!(Tally::of(SALE).finish(), None);
    let report = Shop::new(Payment::OnPlacing).report();
    assert_eq!((report.first_order_at_ms, report.peak_at_ms, report.sold_out_at_ms), (None, None, None));
    assert_eq!((report.items[0].available, report.items[0].total, report.entry), (4, 4, 2));
}

#[test]
fn what_operators_did_to_the_sale_is_listed_with_who_and_why_and_what_they_did_to_others_is_not() {
    let mut shop = Shop::new(Payment::WithinMs(60_000));
    for (number, sale) in [(1, SALE), (2, SaleId(2))] {
        shop.place(10_000 + number, sale, 30, number);
    }
    let sku = |shop: &Shop, sale| shop.book.sku(sale, ProductId(30)).unwrap();
    let [ours, others] =
        [(1, SALE), (2, SaleId(2))].map(|(hash, sale)| OrderId { sku: sku(&shop, sale), hash });
    let refund_due = |order, id: &str| Command::Pay(Pay { id: id.into(), order, amount: 1 });
    shop.run(11_000, refund_due(ours, "ours"));
    shop.run(11_000, refund_due(others, "others"));
    for (at_ms, command) in [
        (12_000, Command::Pause(SaleId(2))),
        (12_000, Command::Pause(SALE)),
        (12_000, Command::Pause(SALE)),
        (13_000, Command::CancelFor(ours)),
        (13_000, Command::CancelFor(others)),
        (14_000, Command::KeepAction(Action::WebhookDisabled, "shop".into())),
        (2_000_000, Command::KeepAction(Action::WebhookEnabled, "shop".into())),
        (2_000_001, Command::Settle { payment: "others".into() }),
        (2_000_002, Command::Settle { payment: "ours".into() }),
    ] {
        let by = By { who: "anna".into(), why: "asked".into() };
        shop.book.execute_by(UnixMs(at_ms), command, by).unwrap();
        shop.take();
    }
    let report = shop.report();
    let said: Vec<_> = report.actions.iter().map(|action| (&*action.what, &*action.about)).collect();
    let order = ours.to_string();
    let expected = [
        ("sale_paused", ""),
        ("order_cancelled", &*order),
        ("webhook_disabled", "shop"),
        ("refund_settled", "ours"),
    ];
    assert_eq!(said, expected);
    assert!(report.actions.iter().all(|action| (&*action.who, &*action.why) == ("anna", "asked")));
    assert_eq!((report.actions[0].at_ms, report.actions_left_out), (12_000, 0));
}

#[test]
fn more_actions_than_are_kept_are_counted() {
    let mut shop = Shop::new(Payment::OnPlacing);
    for number in 0..1_003 {
        let by = By { who: "anna".into(), why: "".into() };
        let kept = Command::KeepAction(Action::ImageAdded, number.to_string().into());
        shop.book.execute_by(UnixMs(10_000), kept, by).unwrap();
        shop.take();
    }
    let report = shop.report();
    assert_eq!((report.actions.len(), report.actions_left_out), (1_000, 3));
}

#[test]
fn a_correction_of_the_clock_is_noted_while_the_sale_sells_and_not_after() {
    for (from_ms, noted) in [(50_000, true), (2_000_000, false)] {
        let mut shop = Shop::new(Payment::OnPlacing);
        shop.place(10_500, SALE, 30, 1);
        shop.book.correct_clock(UnixMs(from_ms), UnixMs(from_ms + 7), "operator").unwrap();
        shop.take();
        let report = shop.report();
        let corrections = report.happened.iter().filter(|happened| {
            matches!(happened.what, WhatHappened::ClockCorrected { from_ms: from, .. } if from == from_ms)
        });
        assert_eq!(corrections.count(), usize::from(noted), "{report:?}");
    }
}

#[test]
fn how_long_people_waited_in_line_is_from_the_start_or_from_joining() {
    let mut spec = sale(SALE, Payment::OnPlacing);
    spec.starts_at = UnixMs(100_000);
    spec.items[0].limit = Some(1);
    spec.items[0].line = Some(LineTerms {
        units: 1,
        turn_ms: 60_000,
        grace_ms: 10_000,
        close_ms: 20_000,
        beacon: None,
        access: None,
    });
    let (book, replayed) = (Book::new(), Book::new());
    let mut shop = Shop { book, replayed, tally: Tally::of(SALE), orders: 0 };
    shop.run(1_000, Command::CreateSale(spec));
    let sku = shop.book.sku(SALE, ProductId(30)).unwrap();
    let join = |shop: &mut Shop, at_ms, buyer: u64| {
        shop.run(at_ms, Command::Join { sku, buyer: BuyerId(buyer.into()) });
    };
    let call = |shop: &mut Shop, at_ms, buyers: std::ops::RangeInclusive<u64>| {
        for buyer in buyers {
            shop.run(at_ms, Command::ShowPresence { sku, buyer: BuyerId(buyer.into()) });
        }
        shop.book.call_due(UnixMs(at_ms), usize::MAX, u32::MAX);
        shop.take();
    };
    (1..=3).for_each(|buyer| join(&mut shop, 2_000 + buyer, buyer));
    call(&mut shop, 90_000, 1..=3);
    call(&mut shop, 101_000, 1..=3);
    (4..=5).for_each(|buyer| join(&mut shop, 102_000, buyer));
    call(&mut shop, 105_000, 4..=5);
    let report = shop.report();
    let item = &report.items[0];
    assert_eq!((item.line_joined, item.line_called), (5, 4), "there are four units");
    let waited = Percentiles { p50: 1_000, p90: 3_000, p99: 3_000 };
    assert_eq!(item.line_waited_ms, Some(waited), "before the start nobody could be called");
    assert_eq!((report.items[1].line_joined, report.items[1].line_waited_ms), (0, None));
    // All of it is in turns that are open: nobody has taken a unit yet.
    assert_eq!((item.available, item.turns, item.half_at_ms, item.sold_out_at_ms), (0, 4, None, None));
}

#[test]
fn a_spread_is_by_the_nearest_rank() {
    assert_eq!(Percentiles::of(Vec::new()), None);
    assert_eq!(Percentiles::of(vec![7]), Some(Percentiles { p50: 7, p90: 7, p99: 7 }));
    let hundred = (1..=100).rev().collect();
    assert_eq!(Percentiles::of(hundred), Some(Percentiles { p50: 50, p90: 90, p99: 99 }));
}

#[test]
fn the_digest_is_of_this_sale_alone_and_of_each_entry_of_it() {
    let sold = |further: &dyn Fn(&mut Shop)| {
        let mut shop = Shop::new(Payment::OnPlacing);
        shop.place(10_100, SALE, 30, 1);
        further(&mut shop);
        let report = shop.report();
        (report.entries, report.entries_sha256)
    };
    let alone = sold(&|_| {});
    assert_eq!(alone.0, 2);
    assert_eq!(sold(&|shop| shop.place(10_200, SaleId(2), 30, 1)), alone);
    let seen: Vec<_> = [
        sold(&|shop| shop.place(10_200, SALE, 31, 1)),
        sold(&|shop| shop.place(10_201, SALE, 31, 1)),
        sold(&|shop| shop.place(10_200, SALE, 31, 2)),
        sold(&|shop| shop.run(10_200, Command::Pause(SALE))),
    ]
    .into();
    for (index, digest) in seen.iter().enumerate() {
        assert!(digest.0 == 3 && *digest != alone && !seen[..index].contains(digest), "{seen:?}");
    }
}

/// Certificates were made of these texts.
#[test]
fn the_line_of_an_entry_never_changes() {
    let id = OrderId { sku: SkuId(2), hash: 11 };
    let pay = |id_of: &str| Pay { id: id_of.into(), order: id, amount: 500 };
    let requested = RefundReason::Requested { order: Seq(4), units: 1 };
    let order = "00000002000000000000000000000000000000 0b".replace(' ', "");
    for (event, line) in [
        (Event::SalePaused(SALE), "sale 3 paused {}".to_owned()),
        (
            Event::StockAdjusted { sku: SkuId(2), how: Adjust::Restock, units: 5, key: "a \"b\"".into() },
            r#"stock 2 restock 5 "a \"b\"""#.to_owned(),
        ),
        (
            Event::OrderPlaced {
                id,
                buyer: BuyerId(7),
                quantity: 2,
                unit_price: 500,
                fingerprint: Fingerprint(9),
            },
            format!("order {order} 7 2 500 9"),
        ),
        (Event::OrderClosed { order: Seq(4), how: Closing::PaidLate }, "closed 4 4".to_owned()),
        (
            Event::PaymentRecorded { pay: pay("p 1"), disposition: Disposition::Applied },
            format!("payment \"p 1\" {order} 500 applied"),
        ),
        (
            Event::PaymentRecorded { pay: pay("r"), disposition: Disposition::RefundDue(requested) },
            format!("payment \"r\" {order} 500 requested 4 1"),
        ),
        (Event::PaymentMatched { payment: Seq(5) }, "matched 5".to_owned()),
        (Event::RefundSettled { payment: Seq(5) }, "settled 5".to_owned()),
        (
            Event::OrderRejected { order: id, reason: Refusal::SoldOut },
            format!(r#"order_rejected {{"order":"{order}","reason":"sold_out"}}"#),
        ),
        (Event::OrderAddressed { order: Seq(4) }, r#"order_addressed {"order":4}"#.to_owned()),
        (Event::Noticed(Notice::SoldOut(SkuId(2))), r#"notice {"what":"sold_out","sku":2}"#.to_owned()),
        (
            Event::ClockCorrected { from: UnixMs(1), to: UnixMs(2), who: "x".into() },
            r#"clock_corrected {"from_ms":1,"to_ms":2,"who":"x"}"#.to_owned(),
        ),
    ] {
        let entry = Entry { seq: Seq(8), at: UnixMs(9), event };
        assert_eq!(canonical::line(&entry), Some(format!("8 9 {line}\n")));
    }
    let erased = Entry { seq: Seq(8), at: UnixMs(9), event: Event::BuyerErased(BuyerId(7)) };
    assert_eq!(canonical::line(&erased), None);
}
