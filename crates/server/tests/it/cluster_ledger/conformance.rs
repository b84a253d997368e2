//! Generated histories on the shared ledger and on the engine's book: the same answers and the same end.

use std::collections::HashMap;

use engine::handover::{Grant, Reservation};
use engine::working_set::{Executed, Operation, Outcome, Rejection};
use engine::{
    Accepted, Book, Command, Entry, Event, LedgerKind, OrderId, Payment, Refusal, Seq, SkuId, UnixMs,
};
use server::intake::HoldEnded;
use server::ledger::mysql::cluster::{Recorded, SharedLedger};

use super::{START, asked, assert_sound, item, open, sale};
use crate::history::{Random, commands, text_of};

fn reservation(place: &engine::Placement, now: UnixMs) -> Reservation {
    let buyer_text = text_of(place.buyer);
    Reservation { placement: *place, buyer_text, epoch: 0, reserved_at: now, address: None }
}

/// The book beside the ledger, and what the ledger has rejected for good.
#[derive(Default)]
struct Pair {
    book: Book,
    rejected: HashMap<OrderId, Rejection>,
}

impl Pair {
    /// Places a batch on both. What the gate would not let in does not come as far as the ledger.
    fn consume(&mut self, ledger: &mut SharedLedger, now: UnixMs, places: &[engine::Placement]) {
        let mut orders = Vec::new();
        let mut expected = Vec::new();
        for place in places {
            if let Some(rejection) = self.rejected.get(&place.id) {
                expected.push(Outcome::Rejected(*rejection));
                orders.push(reservation(place, now));
                continue;
            }
            let outcome = match self.book.place(now, place) {
                Ok((order, false)) => Outcome::Placed(order),
                Ok((order, true)) => Outcome::Known(order),
                Err(Refusal::KeyConflict) => Outcome::Conflict,
                Err(Refusal::NotStarted | Refusal::Paused | Refusal::Ended) => continue,
                Err(reason) => {
                    let at = now.max(self.book.last_at());
                    let engine::Placement { id, buyer, quantity, fingerprint } = *place;
                    let rejection = Rejection { at, buyer, quantity, fingerprint, epoch: 0, reason };
                    self.rejected.insert(id, rejection);
                    if reason != Refusal::UnknownSku {
                        let event = Event::OrderRejected { order: id, reason };
                        let entry = Entry { seq: self.book.next_seq(), at, event };
                        self.book.replay(LedgerKind::Gated, &entry).unwrap();
                    }
                    Outcome::Rejected(rejection)
                }
            };
            expected.push(outcome);
            orders.push(reservation(place, now));
        }
        let outcomes = ledger.consume(now, &[], &orders).unwrap();
        assert_eq!(outcomes, expected);
    }

    fn execute(&mut self, ledger: &mut SharedLedger, now: UnixMs, commands: &[Command]) {
        let operations: Vec<Operation> = commands
            .iter()
            .map(|command| Operation::of(command.clone(), Grant::Taken { epoch: 0 }).unwrap())
            .collect();
        let executed = ledger.execute(now, &operations).unwrap();
        for (command, executed) in commands.iter().zip(executed) {
            let expected = match self.book.execute(now, command.clone()) {
                Ok(accepted) => Executed::Accepted(accepted),
                Err(refusal) => Executed::Refused(refusal),
            };
            assert_eq!(executed, expected, "{command:?}");
        }
    }

    /// What the figures count, whichever transactions they were.
    fn compare_holds_ended(&mut self, ledger: &mut SharedLedger) {
        let mut entries = Vec::new();
        self.book.drain_journal(&mut entries);
        let of_book = |entry| HoldEnded::of(entry, |order| self.book.order_at(order));
        let [mut expected, mut found] =
            [entries.iter().filter_map(of_book).collect(), ledger.take_holds_ended()];
        for ended in [&mut expected, &mut found] {
            ended.sort_by_cached_key(|ended| format!("{ended:?}"));
        }
        assert_eq!(found, expected);
        assert!(expected.len() > 20, "{} holds have ended", expected.len());
        assert_eq!(ledger.take_holds_ended(), [], "each is counted once");
    }

    fn compare(&self, ledger: &mut SharedLedger) {
        let (end, last_at) = ledger.end().unwrap();
        assert_eq!((Seq(end.0 + 1), last_at), (self.book.next_seq(), self.book.last_at()));
        for row in ledger.stocks().unwrap() {
            assert_eq!(Some(row.stock), self.book.stock(row.sku));
            assert_eq!(Some(row.orders), self.book.orders_of(row.sku));
        }
        let ids: Vec<OrderId> =
            (0..4).flat_map(|sku| (0..300).map(move |hash| OrderId { sku: SkuId(sku), hash })).collect();
        for (id, found) in ids.iter().zip(ledger.lookup(&ids).unwrap()) {
            match found {
                Some(Recorded::Order { order, .. }) => assert_eq!(Some(order), self.book.order(*id)),
                Some(Recorded::Rejected(rejection)) => {
                    assert_eq!(Some(&rejection), self.rejected.get(id));
                    assert_eq!(self.book.order(*id), None);
                }
                None => assert_eq!((self.book.order(*id), self.rejected.get(id)), (None, None)),
            }
        }
        let due = ledger.refunds_due(Seq(0), 10_000).unwrap();
        assert_eq!(due, self.book.refunds_due().collect::<Vec<_>>());
        assert_eq!(ledger.refunds_due_count().unwrap(), due.len() as u64);
        assert_eq!(ledger.next_deadline().unwrap().is_some(), self.book.next_deadline().is_some());
    }
}

fn without_open_holds(command: Command) -> Command {
    match command {
        Command::CreateSale(mut spec) => {
            spec.open_holds_per_buyer_max = None;
            Command::CreateSale(spec)
        }
        other => other,
    }
}

/// One batch of generated commands: those of the queue and the others each in a transaction.
fn batch(pair: &mut Pair, ledger: &mut SharedLedger, random: &mut Random, now: UnixMs) {
    let mut places = Vec::new();
    let mut others = Vec::new();
    for command in commands(random, &pair.book) {
        match without_open_holds(command) {
            Command::Place(place) => places.push(place),
            other => others.push(other),
        }
    }
    if random.below(2) == 0 {
        pair.execute(ledger, now, &others);
        pair.consume(ledger, now, &places);
    } else {
        pair.consume(ledger, now, &places);
        pair.execute(ledger, now, &others);
    }
    let expired = ledger.expire_due(now, 1_000).unwrap();
    assert_eq!(expired.len(), pair.book.expire_due(now, 1_000));
}

#[test]
fn it_answers_as_the_book_does_and_ends_in_the_same_state() {
    for seed in 0..4 {
        let (mut ledger, database) = open();
        let mut pair = Pair::default();
        let mut random = Random(seed);
        let mut at = START;
        for _ in 0..120 {
            at += random.below(60);
            batch(&mut pair, &mut ledger, &mut random, UnixMs(at));
        }
        assert!(pair.book.orders_len() > 50, "seed {seed}: {} orders", pair.book.orders_len());
        assert!(!pair.rejected.is_empty(), "seed {seed}: nothing was rejected");
        pair.compare(&mut ledger);
        pair.compare_holds_ended(&mut ledger);
        // Another server, which starts now, sees the same.
        pair.compare(&mut ledger.another());
        let audit = assert_sound(&database);
        assert_eq!(audit.orders, pair.book.orders_len() as u64);
    }
}

#[test]
fn a_sale_that_bounds_open_holds_is_refused() {
    let (mut ledger, _database) = open();
    let mut spec = sale(1, Payment::WithinMs(500), vec![item(1, 5, None)]);
    spec.open_holds_per_buyer_max = Some(2);
    let answers = ledger.execute(UnixMs(0), &[asked(Command::CreateSale(spec.clone()))]).unwrap();
    let Executed::Refused(refusal @ Refusal::InvalidSale(_)) = answers[0] else { panic!("{answers:?}") };
    assert!(refusal.to_string().contains("open_holds_per_buyer_max"), "{refusal}");
    spec.open_holds_per_buyer_max = None;
    let created = Executed::Accepted(Accepted::Sale(spec.id));
    assert_eq!(ledger.execute(UnixMs(0), &[asked(Command::CreateSale(spec))]).unwrap(), [created]);
}
