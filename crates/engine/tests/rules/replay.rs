//! Ledgers that must not be believed: each row alters a sound one, and replaying must stop at the altered entry
//! and say why, whatever it holds; nothing in a file may reach an assertion of the engine.

use engine::{
    Adjust, Book, Closing, Disposition, Entry, Event, Inconsistent, LedgerKind, Payment, RefundReason,
    SaleChange, SaleId, Seq, SkuId, UnixMs, limits,
};

use crate::shop::{
    HOLD, SALE, START, Shop, cancel, change, expire, id, item, limited, pause, pay, place, restock, resume,
    settle,
};

const LATE: u64 = START + HOLD;

/// A ledger with one of everything. The numbers in the rows below are its sequence.
fn sound() -> Vec<Entry> {
    let mut spec = limited(6, 3);
    spec.open_holds_per_buyer_max = Some(2);
    let mut shop = Shop::with(spec); // 1
    let rows = [
        (0, change(SaleChange { title: Some("New".to_owned()), ..SaleChange::default() }), "sale"), // 2
        (START, place(1, 1, 2), "held"),                                                            // 3
        (START, pay("p1", 1, 2), "applied"),         // 4, and 5 the closing
        (START, place(2, 2, 2), "held"),             // 6
        (START, cancel(2, 2), "cancelled"),          // 7
        (START, pay("p2", 2, 2), "due: cancelled"),  // 8
        (START, settle("p2"), "settled: cancelled"), // 9
        (START, place(3, 3, 3), "held"),             // 10
        (LATE, expire(9), "1 expired"),              // 11
        (LATE, pay("p3", 3, 3), "applied"),          // 12, and 13 the late closing
        (LATE, pay("early", 4, 1), "due: unknown_order"), // 14
        (LATE, restock("a", 2), "stock"),            // 15
        (LATE, place(4, 4, 1), "held"),              // 16, 17 the match and 18 the closing
        (LATE, pause(), "sale"),                     // 19
        (LATE, resume(), "sale"),                    // 20
        (LATE, place(5, 5, 1), "held"),              // 21
    ];
    for (at, what, outcome) in rows {
        assert_eq!(shop.run(at, what), outcome);
    }
    assert_eq!(shop.book.next_seq(), Seq(22));
    shop.assert_sound();
    shop.ledger
}

/// Replays until an entry is refused; the book must be as it was before that entry.
fn refused(ledger: &[Entry]) -> Result<(), Inconsistent> {
    let mut book = Book::new();
    for entry in ledger {
        let before = (book.next_seq(), book.last_at(), book.orders_len(), book.stock(SkuId(0)));
        if let Err(inconsistent) = book.replay(LedgerKind::Book, entry) {
            let after = (book.next_seq(), book.last_at(), book.orders_len(), book.stock(SkuId(0)));
            assert_eq!(before, after, "a refused entry has changed the book");
            return Err(inconsistent);
        }
    }
    Ok(())
}

#[track_caller]
fn assert_refused(ledger: &[Entry], seq: u64, why: &'static str) {
    assert_eq!(refused(ledger), Err(Inconsistent { seq: Seq(seq), why }));
}

/// Puts another event in the place of one, and expects the refusal there.
#[track_caller]
fn altered(seq: usize, event: Event, why: &'static str) {
    let mut ledger = sound();
    assert_ne!(ledger[seq - 1].event, event, "the row alters nothing");
    ledger[seq - 1].event = event;
    assert_refused(&ledger, seq as u64, why);
}

#[test]
fn a_sound_ledger_is_believed() {
    assert_eq!(refused(&sound()), Ok(()));
}

/// What is asked of texts and times today was not asked of those that stand in a ledger.
#[test]
fn texts_and_times_that_are_refused_today_are_believed() {
    let mut ledger = sound();
    let Event::SaleCreated(spec) = &mut ledger[0].event else { panic!("{:?}", ledger[0]) };
    (spec.title, spec.items[0].title) = ("\u{200b}".to_owned(), "\u{202e}".to_owned());
    spec.ends_at = UnixMs(u64::MAX);
    let Event::SaleChanged { change, .. } = &mut ledger[1].event else { panic!("{:?}", ledger[1]) };
    (change.title, change.ends_at) = (Some(" ".to_owned()), Some(UnixMs(u64::MAX)));
    assert_eq!(refused(&ledger), Ok(()));
}

#[test]
fn the_sequence_and_the_time_go_forwards() {
    let ledger = sound();
    for missing in 0..ledger.len() - 1 {
        let mut with_gap = ledger.clone();
        with_gap.remove(missing);
        assert_refused(&with_gap, missing as u64 + 2, "the sequence has a gap");
    }
    for twice in 0..ledger.len() {
        let mut repeated = ledger.clone();
        repeated.insert(twice, ledger[twice].clone());
        assert_refused(&repeated, twice as u64 + 1, "the sequence has a gap");
    }
    let mut swapped = ledger.clone();
    swapped.swap(5, 6);
    assert_refused(&swapped, 7, "the sequence has a gap");
    let mut backwards = ledger;
    backwards[6].at = UnixMs(START - 1);
    assert_refused(&backwards, 7, "time runs backwards");
}

fn placed(key: u128, buyer: u64, quantity: u32) -> Event {
    Event::OrderPlaced {
        id: id(key),
        buyer: engine::BuyerId(buyer.into()),
        quantity,
        unit_price: crate::shop::PRICE,
        fingerprint: engine::Fingerprint(7),
    }
}

#[test]
fn orders_that_could_not_be_placed() {
    let elsewhere = engine::OrderId { sku: SkuId(1), hash: 9 };
    let priced = |unit_price| match placed(9, 9, 1) {
        Event::OrderPlaced { id, buyer, quantity, fingerprint, .. } => {
            Event::OrderPlaced { id, buyer, quantity, fingerprint, unit_price }
        }
        other => other,
    };
    let on_sku = |id| match placed(9, 9, 1) {
        Event::OrderPlaced { buyer, quantity, fingerprint, unit_price, .. } => {
            Event::OrderPlaced { id, buyer, quantity, fingerprint, unit_price }
        }
        other => other,
    };
    let rows = [
        (6, placed(1, 2, 2), "the order exists already"),
        (2, placed(9, 9, 1), "the order was placed before the start"),
        (20, placed(9, 9, 1), "the order was placed while the sale was paused"),
        (21, placed(9, 9, 0), "the order has a quantity that none can have"),
        (21, placed(9, 9, limits::QUANTITY_MAX + 1), "the order has a quantity that none can have"),
        (21, placed(9, 9, u32::MAX), "the order has a quantity that none can have"),
        (21, placed(9, 9, 4), "the buyer is over the limit"),
        (21, placed(9, 1, 2), "the buyer is over the limit"),
        (21, placed(9, 9, 3), "the order was oversold"),
        (21, on_sku(elsewhere), "the SKU is unknown"),
        (21, priced(crate::shop::PRICE + 1), "the order has another price than its SKU"),
    ];
    for (seq, event, why) in rows {
        altered(seq, event, why);
    }
    let mut late = sound();
    late[20].at = UnixMs(crate::shop::END);
    assert_refused(&late, 21, "the order was placed after the end");
    let mut hoarding = sound();
    for (seq, key) in [(22, 21), (23, 22)] {
        hoarding.push(Entry { seq: Seq(seq), at: UnixMs(LATE), event: placed(key, 5, 1) });
    }
    hoarding[20].event = placed(5, 5, 1);
    hoarding[14].event =
        Event::StockAdjusted { sku: SkuId(0), how: Adjust::Restock, units: 9, key: "a".into() };
    assert_refused(&hoarding, 23, "the buyer has too many open holds");
}

#[test]
fn closings_that_could_not_be() {
    let closed = |order, how| Event::OrderClosed { order: Seq(order), how };
    let rows = [
        (7, closed(7, Closing::Cancelled), "the order is unknown"),
        (7, closed(0, Closing::Cancelled), "the order is unknown"),
        (7, closed(3, Closing::Cancelled), "the order was closed before"),
        (7, closed(6, Closing::PaidLate), "the order was closed before"),
        (7, closed(6, Closing::Paid), "the order was closed as paid without a payment"),
        (7, closed(6, Closing::Expired), "the order expired before its time"),
        (5, closed(3, Closing::Cancelled), "a payment was applied, but its order not closed"),
        (5, placed(9, 9, 1), "a payment was applied, but its order not closed"),
        (11, closed(10, Closing::PaidLate), "the order was closed before"),
        (13, closed(10, Closing::Paid), "the order was closed before"),
        (14, closed(10, Closing::PaidLate), "the order was closed before"),
        (18, closed(3, Closing::Paid), "the order was closed before"),
        (7, closed(3, Closing::Refunded), "the order was closed as refunded without a refund"),
        (7, closed(6, Closing::Refunded), "the order was closed before"),
    ];
    for (seq, event, why) in rows {
        altered(seq, event, why);
    }
    let mut swept_early = sound();
    swept_early[10].at = UnixMs(LATE - 1);
    assert_refused(&swept_early, 11, "the order expired before its time");
    let mut another_order = sound();
    another_order[6].event = placed(9, 9, 1);
    another_order[7].event =
        Event::PaymentRecorded { pay: paid("p2", 2, 2), disposition: Disposition::Applied };
    another_order[8].event = closed(7, Closing::Paid);
    assert_refused(&another_order, 9, "the order was closed as paid without a payment");
}

fn paid(payment: &str, key: u128, units: u64) -> engine::Pay {
    engine::Pay { id: payment.into(), order: id(key), amount: units * crate::shop::PRICE }
}

#[test]
fn payments_that_could_not_come_to_this() {
    let recorded = |pay, disposition| Event::PaymentRecorded { pay, disposition };
    let due = Disposition::RefundDue;
    let settled = Disposition::Settled(RefundReason::Cancelled);
    let no = "the payment could not come to this";
    let rows = [
        (8, recorded(paid("p1", 2, 2), due(RefundReason::Cancelled)), "the payment was recorded before"),
        (8, recorded(paid("p2", 2, 2), Disposition::Applied), no),
        (8, recorded(paid("p2", 2, 2), due(RefundReason::UnknownOrder)), no),
        (8, recorded(paid("p2", 2, 2), settled), no),
        (4, recorded(paid("p1", 1, 1), Disposition::Applied), no),
        (4, recorded(paid("p1", 9, 1), Disposition::Applied), no),
        (4, recorded(paid("p1", 1, 2), due(RefundReason::AlreadyPaid)), no),
        (12, recorded(paid("", 3, 3), Disposition::Applied), "the payment id must have 1 to 255 bytes"),
        (9, Event::RefundSettled { payment: Seq(4) }, "no refund was due"),
        (9, Event::RefundSettled { payment: Seq(3) }, "the payment is unknown"),
        (10, Event::RefundSettled { payment: Seq(8) }, "no refund was due"),
        (15, Event::PaymentMatched { payment: Seq(99) }, "the payment is unknown"),
        (15, Event::PaymentMatched { payment: Seq(14) }, "the order is unknown"),
        (17, Event::PaymentMatched { payment: Seq(8) }, "the payment had not come before its order"),
        (9, Event::PaymentMatched { payment: Seq(8) }, "the payment had not come before its order"),
    ];
    for (seq, event, why) in rows {
        altered(seq, event, why);
    }
    let refund = |order, units| RefundReason::Requested { order: Seq(order), units };
    let unpaid = "the order is not paid, and was refunded";
    let rows = [
        (7, recorded(paid("r", 1, 3), due(refund(3, 0))), "more was refunded than the order has"),
        (7, recorded(paid("r", 1, 1), due(refund(3, 3))), "more was refunded than the order has"),
        (7, recorded(paid("r", 1, 0), due(refund(3, 1))), "a refund must be of at least 1 minor unit"),
        (7, recorded(paid("", 1, 1), due(refund(3, 1))), "the payment id must have 1 to 255 bytes"),
        (7, recorded(paid("r", 2, 1), due(refund(3, 1))), "the order is unknown"),
        (7, recorded(paid("r", 1, 1), due(refund(99, 1))), "the order is unknown"),
        (7, recorded(paid("r", 2, 1), Disposition::Settled(refund(6, 0))), unpaid),
    ];
    for (seq, event, why) in rows {
        altered(seq, event, why);
    }
    let mut larger = sound();
    larger[15].event = placed(4, 4, 2);
    assert_refused(&larger, 17, "the payment does not fit its order");
    let mut taken = sound();
    taken[10].event = placed(9, 9, 1);
    taken[11].event = recorded(paid("p3", 3, 3), Disposition::Applied);
    taken[12].event = Event::OrderClosed { order: Seq(10), how: Closing::Paid };
    taken[13].event = recorded(paid("p4", 3, 3), Disposition::Applied);
    assert_refused(&taken, 14, no);
}

#[test]
fn late_payments_that_took_what_was_not_free() {
    let rows = [
        // Only 4 units are free after the first order; two of them go to somebody else.
        (placed(9, 9, 2), RefundReason::ExpiredSoldOut),
        (placed(9, 3, 1), RefundReason::ExpiredOverLimit),
    ];
    for (between, reason) in rows {
        let mut ledger = sound();
        ledger.insert(11, Entry { seq: Seq(12), at: UnixMs(LATE), event: between });
        ledger[12].seq = Seq(13);
        assert_refused(&ledger, 13, "the payment could not come to this");
        let pay = paid("p3", 3, 3);
        ledger[12].event = Event::PaymentRecorded { pay, disposition: Disposition::RefundDue(reason) };
        ledger.truncate(13);
        assert_eq!(refused(&ledger), Ok(()), "{reason:?}");
    }
}

#[test]
fn changes_that_could_not_be_made() {
    let adjusted =
        |sku, how, units, key: &str| Event::StockAdjusted { sku: SkuId(sku), how, units, key: key.into() };
    let changed = |sale, payment_ms| {
        let change = Box::new(SaleChange { payment_ms: Some(payment_ms), ..SaleChange::default() });
        Event::SaleChanged { sale, change }
    };
    let items_changed = |items| {
        let change = Box::new(SaleChange { items, ..SaleChange::default() });
        Event::SaleChanged { sale: SALE, change }
    };
    let ghost = SaleId(99);
    let too_many = "an item may have at most 1,000,000,000,000 units";
    let mut invalid = limited(6, 3);
    (invalid.id, invalid.payment) = (ghost, Payment::WithinMs(u64::MAX));
    let rows = [
        (19, Event::SalePaused(ghost), "the sale is unknown"),
        (20, Event::SaleResumed(ghost), "the sale is unknown"),
        (20, Event::SaleEnded(ghost), "the sale is unknown"),
        (20, Event::SaleDeleted(ghost), "the sale is unknown"),
        (20, Event::SaleDeleted(SALE), "the sale had started"),
        (20, items_changed(vec![item()]), "the change breaks a rule"),
        (2, items_changed(vec![item(), item()]), "the change breaks a rule"),
        (2, changed(ghost, 1), "the sale is unknown"),
        (2, changed(SALE, 0), "the change breaks a rule"),
        (2, changed(SALE, u64::MAX), "the change breaks a rule"),
        (2, Event::SaleCreated(Box::new(limited(6, 3))), "the sale exists already"),
        (2, Event::SaleCreated(Box::new(invalid)), "the sale breaks a bound"),
        (15, adjusted(1, Adjust::Restock, 1, "a"), "the SKU is unknown"),
        (
            15,
            adjusted(0, Adjust::Correct, 2, "a"),
            "a correction of units that are sold, held, set aside or promised",
        ),
        (15, adjusted(0, Adjust::Restock, limits::TOTAL_MAX, "a"), too_many),
        (15, adjusted(0, Adjust::Restock, u64::MAX, "a"), too_many),
        (15, adjusted(0, Adjust::Restock, 0, "a"), "the number of units must be at least 1"),
        (16, adjusted(0, Adjust::Restock, 2, "a"), "the adjustment was made before"),
    ];
    for (seq, event, why) in rows {
        altered(seq, event, why);
    }
}

/// Only after the clock was set back can a sale have orders before its start.
#[test]
fn a_sale_with_orders_was_not_deleted_nor_its_items_changed() {
    let mut ledger = sound();
    let next = |ledger: &[Entry]| Seq(ledger.len() as u64 + 1);
    let corrected =
        Event::ClockCorrected { from: ledger[ledger.len() - 1].at, to: UnixMs(0), who: "o".into() };
    ledger.push(Entry { seq: next(&ledger), at: UnixMs(0), event: corrected });
    let change = Box::new(SaleChange { items: vec![item()], ..SaleChange::default() });
    for event in [Event::SaleDeleted(SALE), Event::SaleChanged { sale: SALE, change }] {
        let seq = next(&ledger);
        ledger.push(Entry { seq, at: UnixMs(0), event });
        assert_refused(&ledger, seq.0, "it had orders");
        ledger.pop();
    }
}

#[test]
fn a_ledger_that_stops_between_a_payment_and_its_closing_is_no_sound_state() {
    let torn = crate::shop::replayed(&sound()[..4]);
    let broken = torn.check_invariants().expect_err("the order is held, but a payment paid for it");
    assert_eq!(broken.len(), 1, "{broken:?}");
}

#[test]
fn an_inconsistency_says_where_it_is() {
    let inconsistent = Inconsistent { seq: Seq(7), why: "the sequence has a gap" };
    assert_eq!(inconsistent.to_string(), "entry 7: the sequence has a gap");
}
