//! What must hold when a night is over.

use std::collections::{BTreeMap, BTreeSet};

use engine::{Book, Entry, Event, LedgerKind, OrderId, Refusal};

use super::buyers::Answer;
use super::{Fault, LIMIT, Night, Plan, Played, SKU, UNITS};

/// What a database that failed over without its tail has lost: what that answered need not hold (docs/guarantees.md).
struct Undone {
    orders: BTreeSet<OrderId>,
    payments: BTreeSet<Box<str>>,
    /// What the gates sold to others, and the database did not know to be free any more: no more orders were rejected.
    units_returned: u64,
    rejected: BTreeSet<OrderId>,
}

impl Night {
    fn undone(&self) -> Undone {
        let in_brokers = self.engines.brokers.orders();
        let (mut orders, mut payments, mut units_returned) = (BTreeSet::new(), BTreeSet::new(), 0);
        let is_rejected = |entry: Entry| match entry.event {
            Event::OrderRejected { order, .. } => Some(order),
            _ => None,
        };
        for entry in self.engines.database.undone() {
            match entry.event {
                // What a broker has is taken in again.
                Event::OrderPlaced { id, .. } if !in_brokers.contains(&id) => drop(orders.insert(id)),
                Event::OrderClosed { how, .. } if how.returns_units() => units_returned += u64::from(LIMIT),
                Event::PaymentRecorded { pay, .. } => drop(payments.insert(pay.id)),
                _ => {}
            }
        }
        let rejected = self.engines.database.entries().into_iter().filter_map(is_rejected);
        let rejected = if units_returned == 0 { BTreeSet::new() } else { rejected.collect() };
        Undone { orders, payments, units_returned, rejected }
    }

    pub(super) fn check(&mut self, plan: &Plan) -> Played {
        let mut played =
            Played { trace: self.schedule.trace(), turns: self.schedule.turns(), ..Played::default() };
        let book = self.book(&mut played.broken);
        let undone = self.undone();
        self.check_stock(&book, &undone, &mut played.broken);
        self.check_answers(&book, plan, &undone, &mut played);
        self.check_money(&undone, &mut played.broken);
        played
    }

    /// The ledger, replayed.
    fn book(&self, broken: &mut Vec<String>) -> Book {
        let mut book = Book::new();
        for entry in self.engines.database.entries() {
            if let Err(error) = book.replay(LedgerKind::Gated, &entry) {
                broken.push(format!("the ledger does not follow: {error}"));
                return book;
            }
        }
        if let Err(faults) = book.check_invariants() {
            broken.extend(faults);
        }
        book
    }

    /// Whoever came last took what was left, and was refused when nothing was.
    fn check_stock(&self, book: &Book, undone: &Undone, broken: &mut Vec<String>) {
        let Some(stock) = book.stock(SKU) else { return broken.push("there is no sale".to_owned()) };
        if stock.total() != UNITS || stock.sold() != UNITS {
            broken.push(format!(
                "of {UNITS} units {} are sold, {} held and {} left",
                stock.sold(),
                stock.held(),
                stock.available()
            ));
        }
        for (what, name, most) in [
            ("were accepted and rejected", "orders_lost", undone.units_returned),
            ("are at the gate and not in the ledger, or the other way round", "drift_units", 0),
        ] {
            let count = self.askers.counted(name);
            if count > most {
                broken.push(format!("{count} {what}"));
            }
        }
        let waiting = self.engines.database.outbox_len();
        if waiting > 0 {
            broken.push(format!("{waiting} changes never came to the gate"));
        }
        for buyer in self.people.told().buyers.values() {
            let units = book.units(SKU, *buyer);
            if units > LIMIT {
                broken.push(format!("buyer {} has {units} units", buyer.0));
            }
        }
    }

    fn check_answers(&self, book: &Book, plan: &Plan, undone: &Undone, played: &mut Played) {
        let forgets = plan.iter().any(|(_, fault)| matches!(fault, Fault::BrokerForgets { .. }));
        let told = self.people.told();
        if told.gave_up > 0 {
            played.broken.push(format!("{} people were never answered", told.gave_up));
        }
        for (id, answers) in &told.orders {
            for (_, answer) in answers {
                *played.answers.entry(name(answer)).or_default() += 1;
            }
            let order = book.order(*id);
            let says =
                |what: &str| format!("order {:x} {what}: answered {answers:?}, and is {order:?}", id.hash);
            let was = |wanted: fn(&Answer) -> bool| answers.iter().any(|(_, answer)| wanted(answer));
            // What a broker lost and no gate remembers is lost (docs/guarantees.md).
            let lost = forgets || undone.orders.contains(id) || undone.rejected.contains(id);
            if was(|answer| *answer == Answer::Ordered) && order.is_none() && !lost {
                played.broken.push(says("was accepted and is none"));
            }
            let asked_before = was(|answer| *answer == Answer::Unknown);
            if was(|answer| matches!(answer, Answer::Refused(_))) && order.is_some() && !asked_before {
                played.broken.push(says("was refused and is one"));
            }
            if was(|answer| matches!(answer, Answer::Refused(Refusal::KeyConflict | Refusal::UnknownSku))) {
                played.broken.push(says("was refused for no reason"));
            }
        }
    }

    fn check_money(&self, undone: &Undone, broken: &mut Vec<String>) {
        let entries = self.engines.database.entries();
        let mut payments: BTreeMap<&str, u64> = BTreeMap::new();
        for entry in &entries {
            if let Event::PaymentRecorded { pay, .. } = &entry.event {
                *payments.entry(&pay.id).or_default() += 1;
            }
        }
        for paid in &self.people.told().paid {
            if payments.get(&*paid.id) != Some(&1) && !undone.payments.contains(&*paid.id) {
                broken.push(format!(
                    "{} of order {:x} was answered and is recorded {:?} times",
                    paid.id,
                    paid.order.hash,
                    payments.get(&*paid.id)
                ));
            }
        }
    }
}

fn name(answer: &Answer) -> &'static str {
    match answer {
        Answer::Ordered => "ordered",
        Answer::Refused(Refusal::SoldOut | Refusal::NotEnoughLeft) => "sold out",
        Answer::Refused(Refusal::OverLimit) => "over the limit",
        Answer::Refused(_) => "refused otherwise",
        Answer::Lost => "lost",
        Answer::Unknown => "unknown",
        Answer::NotServed(why) => why,
    }
}
