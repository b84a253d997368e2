//! Orders from the queue: each once, however they come; and the ledger as the last guard.

use engine::handover::Reservation;
use engine::working_set::{Executed, Outcome};
use engine::{Accepted, Command, Payment, Refusal, SkuId, Status, UnixMs};
use server::ledger::mysql::audit;
use server::ledger::mysql::cluster::{LedgerError, Recorded, SharedLedger, fits};
use server::ledger::{Source, What};

use super::{START, asked, assert_sound, item, one_sku, open, order, orders, progress, sale};
use crate::history::Random;
use mysql::prelude::Queryable;

const NOW: UnixMs = UnixMs(START);
const QUEUE: &str = "broker/0";

fn placed(outcomes: &[Outcome]) -> usize {
    outcomes.iter().filter(|outcome| matches!(outcome, Outcome::Placed(_))).count()
}

#[test]
fn redelivery_and_reordering_change_nothing() {
    let (mut ledger, database) = open();
    one_sku(&mut ledger, 60, Some(1));
    let mut random = Random(7);
    let all = orders(0..100);
    let first: Vec<Outcome> =
        all.chunks(30).flat_map(|batch| ledger.consume(NOW, &[], batch).unwrap()).collect();
    assert_eq!(placed(&first), 60);
    for _ in 0..5 {
        let mut again: Vec<(Reservation, &Outcome)> = all.iter().cloned().zip(&first).collect();
        for index in (1..again.len()).rev() {
            again.swap(index, random.below(index as u64 + 1) as usize);
        }
        let (batch, before): (Vec<Reservation>, Vec<&Outcome>) = again.into_iter().unzip();
        for (outcome, before) in ledger.consume(NOW, &[], &batch).unwrap().iter().zip(before) {
            match (before, outcome) {
                (Outcome::Placed(before), Outcome::Known(now)) => assert_eq!(before, now),
                (Outcome::Rejected(before), Outcome::Rejected(now)) => assert_eq!(before, now),
                other => panic!("{other:?}"),
            }
        }
    }
    assert_eq!(assert_sound(&database).orders, 60);
}

#[test]
fn an_id_that_comes_twice_in_a_batch_is_one_order_and_another_body_a_conflict() {
    let (mut ledger, database) = open();
    one_sku(&mut ledger, 1, None);
    let first = order(0, 7, 1);
    let mut other = order(0, 7, 1);
    other.placement.fingerprint.0 -= 1;
    let late = order(0, 8, 1);
    let batch = [first.clone(), first.clone(), other.clone(), late.clone(), late.clone()];
    let outcomes = ledger.consume(NOW, &[], &batch).unwrap();
    let [Outcome::Placed(one), Outcome::Known(two), Outcome::Conflict, rejected, again] = &outcomes[..]
    else {
        panic!("{outcomes:?}")
    };
    assert_eq!(one, two);
    assert_eq!(rejected, again);
    let Outcome::Rejected(rejection) = rejected else { panic!("{rejected:?}") };
    assert_eq!(rejection.reason, Refusal::SoldOut);
    // A rejection stays, even when there are units again, and its key is bound to its body.
    let restock =
        asked(Command::Adjust { sku: SkuId(0), how: engine::Adjust::Restock, units: 5, key: "more".into() });
    ledger.execute(NOW, &[restock]).unwrap();
    let mut other_late = late.clone();
    other_late.placement.quantity = 2;
    let outcomes = ledger.consume(NOW, &[], &[late.clone(), other_late]).unwrap();
    assert_eq!(outcomes, [rejected.clone(), Outcome::Conflict]);
    let found = ledger.lookup(&[first.placement.id, late.placement.id, order(0, 9, 1).placement.id]).unwrap();
    assert!(
        matches!(found[..], [Some(Recorded::Order { .. }), Some(Recorded::Rejected(_)), None]),
        "{found:?}"
    );
    assert_sound(&database);
}

#[test]
fn an_order_that_no_rule_lets_in_is_rejected_with_its_reason() {
    let (mut ledger, database) = open();
    one_sku(&mut ledger, 5, Some(2));
    let mut rows = [order(0, 1, 1), order(0, 2, 1), order(1, 3, 2), order(0, 4, 2), order(0, 5, 3)];
    rows[0].placement.quantity = 2;
    rows[3].placement.quantity = 0;
    rows[4].placement.quantity = 2;
    let outcomes = ledger.consume(NOW, &[], &rows).unwrap();
    let reasons: Vec<Option<Refusal>> = outcomes
        .iter()
        .map(|outcome| match outcome {
            Outcome::Rejected(rejection) => Some(rejection.reason),
            Outcome::Placed(_) => None,
            other => panic!("{other:?}"),
        })
        .collect();
    let expected = [Refusal::OverLimit, Refusal::UnknownSku, Refusal::InvalidQuantity].map(Some);
    assert_eq!(reasons, [&[None], &expected[..], &[None]].concat());
    // One unit is left, and two are asked for.
    let mut last = order(0, 6, 4);
    last.placement.quantity = 2;
    let outcomes = ledger.consume(NOW, &[], &[last.clone()]).unwrap();
    let [Outcome::Rejected(rejection)] = &outcomes[..] else { panic!("{outcomes:?}") };
    assert_eq!(rejection.reason, Refusal::NotEnoughLeft);
    assert_sound(&database);
    // The shop is notified, but of what is in no sale.
    let mut reader = Source::MySql(Box::new(database.options.clone())).event_reader().unwrap();
    let events = reader.read(0, u64::MAX).unwrap().events;
    let events_of_sale = events.into_iter().filter_map(|event| match event.what {
        What::Rejected { order, sale: 1, product: 1, reason } => Some((order, reason)),
        _ => None,
    });
    let expected = [
        (rows[1].placement.id, Refusal::OverLimit),
        (rows[3].placement.id, Refusal::InvalidQuantity),
        (last.placement.id, Refusal::NotEnoughLeft),
    ];
    assert_eq!(events_of_sale.collect::<Vec<_>>(), expected);
}

#[test]
fn a_pause_and_the_end_are_not_judged_again() {
    let (mut ledger, database) = open();
    one_sku(&mut ledger, 5, None);
    let sale = engine::SaleId(1);
    ledger.execute(NOW, &[asked(Command::Pause(sale)), asked(Command::End(sale))]).unwrap();
    assert_eq!(placed(&ledger.consume(NOW, &[], &orders(0..3)).unwrap()), 3);
    assert_sound(&database);
}

#[test]
fn an_old_rejection_does_not_bind_a_later_reservation_of_its_id() {
    let (mut ledger, database) = open();
    one_sku(&mut ledger, 1, None);
    ledger.raise_epochs(&[SkuId(0)]).unwrap();
    ledger.raise_epochs(&[SkuId(0)]).unwrap();
    let with_epoch = |hash, epoch| Reservation { epoch, ..order(0, hash, 1) };
    assert_eq!(placed(&ledger.consume(NOW, &[], &[with_epoch(1, 2)]).unwrap()), 1);
    // It came late, from a gate that is gone, and there is no unit: its buyer was answered that the outcome is unknown.
    let refused = |_| Some(Refusal::SoldOut);
    let late = ledger.consume_asking(NOW, &[], &[with_epoch(2, 1)], refused).unwrap().unwrap();
    assert!(matches!(late[..], [Outcome::Rejected(_)]), "{late:?}");
    let cancel = asked(Command::Cancel { order: with_epoch(1, 2).placement.id, buyer: engine::BuyerId(1) });
    ledger.execute(NOW, &[cancel]).unwrap();
    // The buyer asked again, and the new gate had the unit that came back.
    assert_eq!(placed(&ledger.consume(NOW, &[], &[with_epoch(2, 2)]).unwrap()), 1);
    let found = ledger.lookup(&[with_epoch(2, 2).placement.id]).unwrap();
    assert!(matches!(found[..], [Some(Recorded::Order { .. })]), "{found:?}");
    assert_sound(&database);
}

/// Under the same key, with another body: the gate of then had forgotten the first one.
#[test]
fn an_old_rejection_does_not_bind_a_later_reservation_of_another_body() {
    let (mut ledger, database) = open();
    one_sku(&mut ledger, 3, None);
    ledger.raise_epochs(&[SkuId(0)]).unwrap();
    ledger.raise_epochs(&[SkuId(0)]).unwrap();
    let of = |quantity, epoch| {
        let mut order = Reservation { epoch, ..order(0, 2, 1) };
        (order.placement.quantity, order.placement.fingerprint) =
            (quantity, engine::Fingerprint(u64::from(quantity)));
        order
    };
    let refused = |_| Some(Refusal::SoldOut);
    let late = ledger.consume_asking(NOW, &[], &[of(1, 1)], refused).unwrap().unwrap();
    assert!(matches!(late[..], [Outcome::Rejected(_)]), "{late:?}");
    let again = ledger.consume(NOW, &[], &[of(2, 1)]);
    assert!(again.is_err() || matches!(again.unwrap()[..], [Outcome::Conflict]));
    // It was answered as accepted.
    assert_eq!(placed(&ledger.consume(NOW, &[], &[of(2, 2)]).unwrap()), 1);
    let found = ledger.lookup(&[of(2, 2).placement.id]).unwrap();
    assert!(matches!(&found[..], [Some(Recorded::Order { order, .. })] if order.quantity == 2), "{found:?}");
    assert_sound(&database);
}

/// Of those that are new to the ledger; what is known is answered as ever, and nothing is taken in before.
#[test]
fn the_gate_is_asked_first_of_an_order_of_an_older_epoch() {
    let (mut ledger, database) = open();
    one_sku(&mut ledger, 2, None);
    let with_epoch = |hash, epoch| Reservation { epoch, ..order(0, hash, 1) };
    ledger.raise_epochs(&[SkuId(0)]).unwrap();
    assert_eq!(placed(&ledger.consume(NOW, &[], &[with_epoch(1, 1)]).unwrap()), 1);
    ledger.raise_epochs(&[SkuId(0)]).unwrap();
    let assigned = ledger.lease_queues(1, &[(QUEUE.to_owned(), 0)]).unwrap();
    let moved = [progress(&assigned[0], 1, 0, 3)];
    let batch = [with_epoch(1, 1), with_epoch(2, 1), with_epoch(3, 2)];
    let end = ledger.end().unwrap();
    let asked = ledger.consume_asking(NOW, &moved, &batch, |_| None).unwrap();
    assert_eq!(asked, Err(vec![batch[1].placement.id]));
    assert_eq!((ledger.end().unwrap(), ledger.queue_rows().unwrap()[0].next_offset), (end, 0));
    let refused = |_| Some(Refusal::SoldOut);
    let outcomes = ledger.consume_asking(NOW, &moved, &batch, refused).unwrap().unwrap();
    assert!(
        matches!(outcomes[..], [Outcome::Known(_), Outcome::Rejected(_), Outcome::Placed(_)]),
        "a unit was free, but another's: {outcomes:?}"
    );
    assert_eq!(ledger.queue_rows().unwrap()[0].next_offset, 3);
    // As it was answered, whatever the gate says now.
    let again = ledger.consume_asking(NOW, &[], &batch[1..2], |_| None).unwrap().unwrap();
    assert_eq!(again[..], outcomes[1..2]);
    // Its buyer has asked again, by a gate that is over as well by now: it is rejected once.
    ledger.raise_epochs(&[SkuId(0)]).unwrap();
    let late = [with_epoch(2, 2)];
    let asked = ledger.consume_asking(NOW, &[], &late, |_| None).unwrap();
    assert_eq!(asked, Err(vec![late[0].placement.id]));
    let rejected = ledger.consume_asking(NOW, &[], &late, refused).unwrap().unwrap();
    assert_eq!(rejected[..], outcomes[1..2]);
    assert_sound(&database);
}

#[test]
fn a_queue_moves_on_with_its_orders_and_only_for_its_owner() {
    let (mut ledger, database) = open();
    one_sku(&mut ledger, 100, None);
    let assigned = ledger.lease_queues(1, &[(QUEUE.to_owned(), 5)]).unwrap();
    assert_eq!(assigned[0].next_offset, 5);
    let mine = |from, to| progress(&assigned[0], 1, from, to);
    ledger.consume(NOW, &[mine(5, 8)], &orders(0..3)).unwrap();
    // The answer was lost: the same again is the same.
    let again = ledger.consume(NOW, &[mine(5, 8)], &orders(0..3)).unwrap();
    assert!(again.iter().all(|outcome| matches!(outcome, Outcome::Known(_))), "{again:?}");
    let mut of_another = mine(8, 9);
    of_another.owner = 2;
    let mut of_old = mine(8, 9);
    of_old.generation -= 1;
    let mut unknown = mine(8, 9);
    unknown.queue = "broker/9".to_owned();
    for wrong in [mine(7, 9), mine(9, 10), of_another, of_old, unknown] {
        let refused = ledger.consume(NOW, &[wrong], &orders(10..11));
        assert!(matches!(refused, Err(LedgerError::Fenced(_))), "{refused:?}");
    }
    assert_eq!(ledger.lease_queues(1, &[(QUEUE.to_owned(), 0)]).unwrap()[0].next_offset, 8);
    assert_eq!(assert_sound(&database).orders, 3);
}

#[test]
fn two_consumers_of_one_queue_take_each_message_once() {
    let (mut ledger, database) = open();
    one_sku(&mut ledger, 1_000, None);
    let assigned = ledger.lease_queues(1, &[(QUEUE.to_owned(), 0)]).unwrap();
    let race = |mut ledger: SharedLedger| {
        let assigned = &assigned[0];
        let (mut from, mut count, mut fenced) = (0, 0, 0);
        while from < 400 {
            let batch = orders(from..from + 20);
            match ledger.consume(NOW, &[progress(assigned, 1, from, from + 20)], &batch) {
                Ok(outcomes) => {
                    count += placed(&outcomes);
                    from += 20;
                }
                Err(LedgerError::Fenced(_)) => {
                    fenced += 1;
                    from += 20;
                }
                Err(error) => panic!("{error}"),
            }
        }
        (count, fenced)
    };
    let (first, second) = (ledger.another(), ledger.another());
    let (one, two) = std::thread::scope(|scope| {
        let one = scope.spawn(|| race(first));
        let two = scope.spawn(|| race(second));
        (one.join().unwrap(), two.join().unwrap())
    });
    assert_eq!(one.0 + two.0, 400, "{one:?} {two:?}");
    assert_eq!(assert_sound(&database).orders, 400);
}

#[test]
fn consumers_of_different_queues_share_a_sku_without_a_deadlock_or_a_unit_too_many() {
    let (mut ledger, database) = open();
    one_sku(&mut ledger, 300, Some(1));
    let queues: Vec<(String, u64)> = (0..3).map(|number| (format!("broker/{number}"), 0)).collect();
    let assigned = ledger.lease_queues(1, &queues).unwrap();
    let counts: Vec<usize> = std::thread::scope(|scope| {
        let consumers: Vec<_> = assigned
            .iter()
            .zip(0..)
            .map(|(assigned, number): (_, u64)| {
                let mut ledger = ledger.another();
                scope.spawn(move || {
                    let mut count = 0;
                    for from in (0..200).step_by(10) {
                        // Half of them are the same orders in every queue.
                        let own = 1_000 * number;
                        let batch = [orders(own + from..own + from + 5), orders(9_000 + from..9_005 + from)];
                        let progress = progress(assigned, 1, from, from + 10);
                        count += placed(&ledger.consume(NOW, &[progress], &batch.concat()).unwrap());
                    }
                    count
                })
            })
            .collect();
        consumers.into_iter().map(|consumer| consumer.join().unwrap()).collect()
    });
    // 100 own orders of each, 100 that are in all: 400 for 300 units.
    assert_eq!(counts.iter().sum::<usize>(), 300);
    let audit = assert_sound(&database);
    assert_eq!((audit.orders, audit.skus[0].available), (300, 0));
}

#[test]
fn the_audit_misses_nothing_that_was_altered() {
    let (mut ledger, database) = open();
    one_sku(&mut ledger, 5, Some(2));
    ledger.consume(NOW, &[], &orders(0..7)).unwrap();
    let cancelled = ledger
        .execute(
            NOW,
            &[asked(Command::Cancel { order: orders(0..1)[0].placement.id, buyer: engine::BuyerId(0) })],
        )
        .unwrap();
    let cancelled = &cancelled[0];
    assert!(matches!(
        cancelled,
        Executed::Accepted(Accepted::Order { order, .. })
            if order.status == Status::Cancelled
    ));
    assert_sound(&database);
    let mut connection = database.connection();
    for (alter, restore, line) in [
        ("UPDATE sku_stock SET held = held - 1", "UPDATE sku_stock SET held = held + 1", "sku_stock"),
        ("UPDATE sku_stock SET total = 1", "UPDATE sku_stock SET total = 5", "more than its total"),
        ("UPDATE buyer_sku SET units = 2", "UPDATE buyer_sku SET units = 1", "buyer_sku"),
        (
            "UPDATE order_ids SET order_seq = order_seq + 100",
            "UPDATE order_ids SET order_seq = order_seq - 100",
            "order_ids",
        ),
        (
            "UPDATE open_holds SET pay_by = pay_by + 1",
            "UPDATE open_holds SET pay_by = pay_by - 1",
            "open_holds",
        ),
        (
            "INSERT INTO refunds_due SELECT 77, id FROM order_ids LIMIT 1",
            "DELETE FROM refunds_due",
            "refunds_due",
        ),
        (
            "INSERT INTO rejections SELECT id, 1, 1, 1, 1, 0, 'sold_out', NULL FROM order_ids ORDER BY id LIMIT 1",
            "DELETE FROM rejections WHERE at = 1",
            "is an order",
        ),
        ("UPDATE writer SET next_seq = 3", "UPDATE writer SET next_seq = 10", "comes next"),
    ] {
        connection.query_drop(alter).unwrap();
        let broken = audit(&database.options).unwrap().broken;
        assert!(broken.iter().any(|found| found.contains(line)), "{line}: {broken:?}");
        connection.query_drop(restore).unwrap();
        assert_sound(&database);
    }
}

#[test]
fn the_stock_of_many_in_a_row_is_read_as_that_of_few() {
    let (mut ledger, _database) = open();
    let items = (1..=150).map(|product| item(product, product + 7, None)).collect();
    let create = asked(Command::CreateSale(sale(1, Payment::WithinMs(500), items)));
    ledger.execute(NOW, &[create]).unwrap();
    ledger.raise_epochs(&[SkuId(149)]).unwrap();
    let all = ledger.stocks().unwrap();
    assert_eq!((all.len(), all[149].epoch, all[149].stock.total()), (150, 1, 157));
    let skus: Vec<SkuId> = all.iter().map(|row| row.sku).collect();
    assert_eq!(ledger.another().stocks_of(&skus).unwrap(), all, "which has read no sales yet");
    assert_eq!(ledger.stocks_of(&skus[20..130]).unwrap(), all[20..130]);
    let but_one = [&all[..110], &all[111..]].concat();
    let skus: Vec<SkuId> = but_one.iter().map(|row| row.sku).collect();
    assert_eq!(ledger.stocks_of(&skus).unwrap(), but_one);
}

#[test]
fn a_message_with_numbers_that_no_server_lets_in_is_reported() {
    let good = order(0, 1, i64::MAX.unsigned_abs());
    assert!(fits(&good));
    assert!(!fits(&order(0, 1, 1 << 63)));
    assert!(!fits(&Reservation { epoch: u64::MAX, ..good }));
}
