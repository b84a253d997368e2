//! A ledger that a queue's consumers wrote: what was judged before the queue is not judged again, all else is.

use engine::{Book, Disposition, Entry, Event, LedgerKind, RefundReason, Sales, Seq, Stock, UnixMs};

use crate::shop::{
    END, HOLD, START, Shop, cancel, change, correct, end, expire, limited, pause, pay, place, restock,
};

/// An order, its expiry and a late payment: entries 1 to 5, and 6 if the payment took the units again.
fn late_payment(units_left: bool) -> Vec<Entry> {
    let mut shop = Shop::with(limited(3, 2));
    let mut rows = vec![(START, place(1, 1, 2), "held"), (START + HOLD, expire(9), "1 expired")];
    if !units_left {
        rows.push((START + HOLD, place(2, 2, 2), "held"));
    }
    rows.push((START + HOLD, pay("p", 1, 2), if units_left { "applied" } else { "due: expired_sold_out" }));
    for (at, what, outcome) in rows {
        assert_eq!(shop.run(at, what), outcome);
    }
    shop.ledger
}

fn replay(kind: LedgerKind, ledger: &[Entry]) -> Result<Book, &'static str> {
    let mut book = Book::new();
    ledger.iter().try_for_each(|entry| book.replay(kind, entry)).map_err(|inconsistent| inconsistent.why)?;
    book.check_invariants().expect("what was replayed is sound");
    Ok(book)
}

#[test]
fn an_order_may_come_after_the_end_or_in_a_pause() {
    for (name, at, last) in [
        ("the order was placed while the sale was paused", START, pause()),
        ("the order was placed after the end", START, end()),
        ("the order was placed after the end", END, change(engine::SaleChange::default())),
    ] {
        let mut shop = Shop::with(limited(3, 2));
        shop.run(START, last);
        let mut ledger = shop.ledger;
        let mut of_order = Shop::with(limited(3, 2));
        of_order.run(START, place(1, 1, 1));
        let mut entry = of_order.ledger.remove(1);
        (entry.seq, entry.at) = (Seq(ledger.len() as u64 + 1), UnixMs(at));
        ledger.push(entry);
        assert_eq!(replay(LedgerKind::Book, &ledger).err(), Some(name));
        assert_eq!(replay(LedgerKind::Gated, &ledger).map(|book| book.orders_len()).ok(), Some(1));
    }
}

#[test]
fn open_holds_are_judged_before_the_queue() {
    let mut spec = limited(3, 3);
    let mut shop = Shop::with(spec.clone());
    for key in 1..=2 {
        assert_eq!(shop.run(START, place(key, 1, 1)), "held");
    }
    spec.open_holds_per_buyer_max = Some(1);
    shop.ledger[0].event = Event::SaleCreated(Box::new(spec));
    assert_eq!(replay(LedgerKind::Book, &shop.ledger).err(), Some("the buyer has too many open holds"));
    assert_eq!(replay(LedgerKind::Gated, &shop.ledger).err(), None);
}

#[test]
fn the_gate_may_refuse_a_late_payment_for_which_the_ledger_has_units() {
    let mut ledger = late_payment(true);
    ledger.truncate(4);
    for reason in [RefundReason::ExpiredSoldOut, RefundReason::ExpiredOverLimit] {
        let Event::PaymentRecorded { disposition, .. } = &mut ledger[3].event else { panic!("a payment") };
        *disposition = Disposition::RefundDue(reason);
        assert_eq!(replay(LedgerKind::Book, &ledger).err(), Some("the payment could not come to this"));
        assert_eq!(replay(LedgerKind::Gated, &ledger).map(|book| book.refunds_due_len()).ok(), Some(1));
    }
    for reason in [RefundReason::Cancelled, RefundReason::AlreadyPaid, RefundReason::UnknownOrder] {
        let Event::PaymentRecorded { disposition, .. } = &mut ledger[3].event else { panic!("a payment") };
        *disposition = Disposition::RefundDue(reason);
        assert_eq!(replay(LedgerKind::Gated, &ledger).err(), Some("the payment could not come to this"));
    }
}

#[test]
fn the_gate_can_give_no_units_that_the_ledger_has_not() {
    let mut ledger = late_payment(false);
    let Event::PaymentRecorded { disposition, .. } = &mut ledger[4].event else { panic!("a payment") };
    *disposition = Disposition::Applied;
    assert_eq!(replay(LedgerKind::Gated, &ledger).err(), Some("the payment could not come to this"));
}

#[test]
fn units_and_limits_stay() {
    for (script, why) in [
        (vec![place(1, 1, 2), place(2, 2, 2)], "the order was oversold"),
        (
            vec![place(1, 1, 2), correct("c", 2)],
            "a correction of units that are sold, held, set aside or promised",
        ),
        (vec![place(1, 1, 2), place(2, 1, 1)], "the buyer is over the limit"),
    ] {
        let mut generous = limited(9, 9);
        let mut shop = Shop::with(generous.clone());
        for what in script {
            shop.run(START, what);
        }
        (generous.items[0].total, generous.items[0].limit) = (3, Some(2));
        shop.ledger[0].event = Event::SaleCreated(Box::new(generous));
        assert_eq!(replay(LedgerKind::Gated, &shop.ledger).err(), Some(why));
    }
}

#[test]
fn a_registry_of_sales_leaves_the_orders_out() {
    let mut shop = Shop::with(limited(3, 2));
    let rows = [place(1, 1, 1), pause(), restock("r", 1), cancel(1, 1), end()];
    for what in rows {
        shop.run(START, what);
    }
    let mut sales = Sales::new();
    for entry in &shop.ledger {
        let about_a_sale =
            matches!(entry.event, Event::SaleCreated(_) | Event::SalePaused(_) | Event::SaleEnded(_));
        assert_eq!(sales.replay(entry).is_ok(), about_a_sale, "{entry:?}");
        assert!(sales.replay(entry).is_err(), "no entry comes twice");
    }
    let sale = sales.iter().next().expect("the sale is there");
    assert!(sale.paused && sale.ended_at.is_some());
    assert_eq!((sale.version, sales.seen()), (Seq(6), Seq(6)));
}

#[test]
fn a_stock_is_what_it_was_kept_as() {
    let stock = Stock::of(9, 4, 2).expect("it adds up");
    assert_eq!([stock.total(), stock.available(), stock.held(), stock.sold()], [9, 3, 4, 2]);
    for (total, held, sold) in [(9, 10, 0), (9, 0, 10), (9, 5, 5), (u64::MAX, u64::MAX, 1)] {
        assert_eq!(Stock::of(total, held, sold), None);
    }
}
