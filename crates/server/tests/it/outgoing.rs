//! What the shop is notified of, on every backend: the events of a ledger, and how far an endpoint has come.

use std::collections::BTreeMap;

use engine::{
    Accepted, Adjust, Book, Command, Disposition, Notice, Pay, SaleId, SaleSpec, SkuId, Status, UnixMs,
};
use server::intake::catalog::Catalog;
use server::ledger::{
    EndpointChange, EndpointProgress, EventReader, Outgoing, StoredEndpoint, UnansweredEvent, What,
};

use server::webhooks::Noticing;

use crate::history::sale;
use crate::ledger::{commit, history};
use crate::places::LedgerHome;

fn all(reader: &mut EventReader) -> Vec<Outgoing> {
    let (mut events, mut after) = (Vec::new(), 0);
    loop {
        let page = reader.read(after, u64::MAX).unwrap();
        events.extend(page.events);
        if page.to == after {
            return events;
        }
        after = page.to;
    }
}

#[test]
fn the_events_of_a_ledger_add_up_to_its_orders_and_refunds() {
    for home in LedgerHome::each() {
        let (mut ledger, mut book) = (home.open(), Book::new());
        let mut reader = home.source().event_reader().unwrap();
        history(&mut book, &mut ledger, 9, 200);
        // A sale that comes after the reader has read the others.
        let some = all(&mut reader).len();
        let at = history(&mut book, &mut ledger, 10, 100);
        commit(&mut book, &mut ledger, at, vec![Command::End(SaleId(1))]);
        let events = all(&mut reader);
        assert!(some > 100 && events.len() > some);
        assert!(events.is_sorted_by(|one, next| one.seq < next.seq), "in order, each once");
        let (mut orders, mut due, mut made) = (BTreeMap::new(), BTreeMap::new(), 0);
        for event in &events {
            match &event.what {
                What::Order(line) => {
                    assert_eq!(line.closed_at.unwrap_or(line.placed_at), event.at);
                    drop(orders.insert(line.id, line.clone()));
                }
                What::Refund { payment, settled: false } => {
                    drop(due.insert(payment.payment.clone(), payment.reason.clone()));
                }
                What::Refund { payment, settled: true } => {
                    let was_due = due.remove(&payment.payment).is_some();
                    // The provider may have made a refund that nobody knew of.
                    assert!(was_due || payment.units.is_some(), "{event:?}");
                    made += u32::from(!was_due);
                }
                What::SaleEnded { sale } => assert_eq!((*sale, event.seq), (1, events[events.len() - 1].seq)),
                What::Addressed(_)
                | What::Rejected { .. }
                | What::SaleStarted { .. }
                | What::TurnOpened(_)
                | What::Stock { .. } => {
                    panic!("no order was refused later, and nobody has noticed: {event:?}")
                }
            }
        }
        let mut exported = Vec::new();
        home.source().export(0, &mut |line| exported.push(line)).unwrap();
        assert_eq!(orders.len(), exported.len());
        for line in exported {
            let mut expected = orders[&line.id].clone();
            // A part that is refunded is sent by the refund's own event.
            expected.refunded = if line.status == Status::Paid { line.refunded } else { expected.refunded };
            assert_eq!(expected, line);
        }
        assert!(made > 0 && orders.values().any(|line| line.status == Status::Refunded));
        // One that was due for an order that came later is due no more, without an event of its own: the order is paid.
        for payment in book.refunds_due() {
            let Disposition::RefundDue(reason) = payment.disposition else {
                panic!("it is due: {payment:?}")
            };
            assert_eq!(due[&*payment.pay.id], reason.as_str());
        }
        let page = reader.read(0, 7).unwrap();
        assert_eq!((page.to, page.events.len()), (7, events.iter().filter(|event| event.seq <= 7).count()));
    }
}

#[test]
fn the_payment_that_paid_for_an_order_is_found_from_its_entries() {
    for home in LedgerHome::each() {
        let (mut ledger, mut book) = (home.open(), Book::new());
        let at = history(&mut book, &mut ledger, 9, 300);
        let mut reader = home.source().event_reader().unwrap();
        let (mut paid, mut refunds) = (BTreeMap::new(), 0);
        for event in all(&mut reader) {
            match event.what {
                What::Order(line) if line.status == Status::Paid => {
                    let Some(id) = reader.paid_by(event.seq).unwrap() else {
                        assert_eq!(line.closed_at, None, "it was paid by being placed");
                        continue;
                    };
                    let amount = line.unit_price * u64::from(line.quantity);
                    let again = Pay { id: id.as_str().into(), order: line.id, amount };
                    let found = book.execute(UnixMs(at), Command::Pay(again)).unwrap();
                    let Accepted::Payment { payment, replayed: true } = found else { panic!("{found:?}") };
                    assert_eq!(payment.disposition, Disposition::Applied);
                    paid.insert(line.id.to_string(), id);
                }
                What::Refund { payment, .. } if payment.units.is_some() => {
                    // From the entry that asked for it alone.
                    let found = reader.paid_by(event.seq).unwrap();
                    refunds += u32::from(found.is_some() && found.as_ref() == paid.get(&payment.order));
                }
                _ => {}
            }
        }
        assert!(paid.len() > 10 && refunds > 0, "{} {refunds}", paid.len());
    }
}

#[test]
fn how_far_an_endpoint_has_come_is_kept() {
    for home in LedgerHome::each() {
        let mut ledger = home.open();
        let mut reader = home.source().event_reader().unwrap();
        assert_eq!(reader.endpoint("shop").unwrap(), None);
        let row = |seq, error: &str| UnansweredEvent {
            seq,
            about: "O'Neil's №1".to_owned(),
            since: UnixMs(5),
            attempts: 2,
            next_at: UnixMs(7),
            dead: seq == 3,
            error: error.to_owned(),
        };
        let progress = |sent_to, waiting: &[UnansweredEvent], answered: &[u64]| {
            let (waiting, answered) = (waiting.to_vec(), answered.to_vec());
            EndpointProgress { sent_to, disabled: sent_to == 12, waiting, answered }
        };
        let first = progress(9, &[row(3, ""), row(4, "a'b\\")], &[]);
        ledger
            .note_progress(&[("shop".to_owned(), first), ("b-2".to_owned(), progress(1, &[], &[]))], &[])
            .unwrap();
        ledger.note_progress(&[("shop".to_owned(), progress(12, &[row(3, "x")], &[4, 5]))], &[]).unwrap();
        let stored = StoredEndpoint { sent_to: 12, disabled: true, waiting: vec![row(3, "x")] };
        assert_eq!(reader.endpoint("shop").unwrap(), Some(stored));
        assert_eq!(
            reader.endpoint("b-2").unwrap(),
            Some(StoredEndpoint { sent_to: 1, ..StoredEndpoint::default() })
        );
        let change = |change| ("shop".to_owned(), change);
        let again = [change(EndpointChange::Enable), change(EndpointChange::Replay { since: 3 })];
        ledger.note_progress(&[("b-2".to_owned(), progress(2, &[], &[]))], &again).unwrap();
        let stored = StoredEndpoint { sent_to: 3, disabled: false, waiting: vec![row(3, "x")] };
        assert_eq!(reader.endpoint("shop").unwrap(), Some(stored));
        let again = [change(EndpointChange::Replay { since: 2 }), change(EndpointChange::Disable)];
        ledger.note_progress(&[], &again).unwrap();
        let stored = StoredEndpoint { sent_to: 2, disabled: true, waiting: Vec::new() };
        assert_eq!(reader.endpoint("shop").unwrap(), Some(stored));
        assert_eq!(
            reader.endpoint("b-2").unwrap(),
            Some(StoredEndpoint { sent_to: 2, ..StoredEndpoint::default() })
        );
    }
}

#[test]
fn what_the_clock_and_the_stock_do_is_noticed_once() {
    const SKU: SkuId = SkuId(0);
    for home in LedgerHome::each() {
        let (mut ledger, mut book) = (home.open(), Book::new());
        let mut spec = SaleSpec { starts_at: UnixMs(100_000), ends_at: UnixMs(200_000), ..sale(1) };
        spec.items.truncate(1);
        let (product, total) = (spec.items[0].product, spec.items[0].total);
        commit(&mut book, &mut ledger, 1_000, vec![Command::CreateSale(spec)]);
        let adjust = |how, units, key: &str| Command::Adjust { sku: SKU, how, units, key: key.into() };
        let (started, ended) = (Notice::SaleStarted(SaleId(1)), Notice::SaleEnded(SaleId(1)));
        let (out, back) = (Notice::SoldOut(SKU), Notice::BackInStock(SKU));
        for (at, before, expected) in [
            (99_999, None, &[][..]),
            (100_000, None, &[started]),
            (100_001, Some(adjust(Adjust::Correct, total, "a")), &[out]),
            (110_000, Some(adjust(Adjust::Restock, 1, "b")), &[]),
            (110_001, None, &[back]),
            (150_000, Some(adjust(Adjust::Correct, 1, "c")), &[out]),
            (200_000, Some(adjust(Adjust::Restock, 1, "d")), &[ended]),
            (200_001, None, &[]),
            (800_000_000, None, &[]),
        ] {
            commit(&mut book, &mut ledger, at, before.into_iter().collect());
            let catalog = Catalog::of(book.registry(), &Catalog::default());
            catalog.skus[0].counters.publish(book.stock(SKU).unwrap());
            // As a server that has just started: what was noticed before is in the ledger alone.
            for again in [false, true] {
                let mut noticing = Noticing::new(home.source().event_reader().unwrap());
                let found = noticing.look(UnixMs(at), &catalog).unwrap();
                assert_eq!(found, if again { &[] } else { expected }, "at {at}");
                commit(&mut book, &mut ledger, at, found.into_iter().map(Command::Notice).collect());
            }
        }
        let events = all(&mut home.source().event_reader().unwrap());
        let item = |sold_out| What::Stock { sale: 1, product: product.0, sold_out };
        let expected =
            [What::SaleStarted { sale: 1 }, item(true), item(false), item(true), What::SaleEnded { sale: 1 }];
        assert_eq!(events.into_iter().map(|event| event.what).collect::<Vec<_>>(), expected);
        drop(ledger);
        assert_eq!(home.load().unwrap().next_seq(), book.next_seq(), "it replays");
        assert_eq!(home.source().audit().unwrap().broken, Vec::<String>::new());
    }
}
