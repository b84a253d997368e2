//! What must hold when a night is over.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use engine::{Book, Entry, Event, LedgerKind, OrderId, Refusal};

use super::buyers::Answer;
use super::gates::PROMOTED_AFTER_MS;
use super::{Fault, LIMIT, Night, Plan, Played, RESTOCK, SKU, UNITS};

/// After a fail-over, while nothing else is wrong, no gate sells for longer what the database does not know of.
const REBUILT_WITHIN: Duration = Duration::from_secs(4);

/// What a database that failed over without its tail has lost, and what a master of Redis has sold that was cut off while its replica
/// was promoted: what that answered need not hold (docs/guarantees.md).
struct Undone {
    orders: BTreeSet<OrderId>,
    payments: BTreeSet<Box<str>>,
    /// What the gates had to sell, and nobody else knew of: at most so many orders were rejected.
    units_freed: u64,
    adjusted: bool,
    /// Until the gates were rebuilt, and every server had heard of that from the database.
    until: Duration,
    rejected: BTreeSet<OrderId>,
}

impl Night {
    fn undone(&self, plan: &Plan) -> Undone {
        let in_brokers = self.engines.brokers.orders();
        let (mut orders, mut payments) = (BTreeSet::new(), BTreeSet::new());
        let (mut units_freed, mut adjusted) = (0, false);
        let is_rejected = |entry: Entry| match entry.event {
            Event::OrderRejected { order, .. } => Some(order),
            _ => None,
        };
        for entry in self.engines.database.undone() {
            match entry.event {
                // What a broker has is taken in again.
                Event::OrderPlaced { id, .. } if !in_brokers.contains(&id) => drop(orders.insert(id)),
                Event::OrderClosed { how, .. } if how.returns_units() => units_freed += u64::from(LIMIT),
                Event::StockAdjusted { units, .. } => (units_freed, adjusted) = (units_freed + units, true),
                Event::PaymentRecorded { pay, .. } => drop(payments.insert(pay.id)),
                _ => {}
            }
        }
        let rejected = self.engines.database.entries().into_iter().filter_map(is_rejected).collect();
        let cut_off = plan.iter().filter(|(_, fault)| matches!(fault, Fault::GateFailsOver { .. })).count();
        units_freed += (UNITS + RESTOCK) * cut_off as u64;
        let fails_over = |(at, fault): &(Duration, Fault)| match fault {
            Fault::LedgerFailsOver { .. } => Some(*at),
            Fault::GateFailsOver { behind, .. } => {
                Some(*at + Duration::from_millis(behind + PROMOTED_AFTER_MS))
            }
            _ => None,
        };
        let last = plan.iter().filter_map(fails_over).max().unwrap_or_default();
        let others = plan.iter().filter(|(_, fault)| !matches!(fault, Fault::GateFailsOver { .. }));
        let until = last + REBUILT_WITHIN + others.map(|(_, fault)| fault.lasts()).sum::<Duration>();
        Undone { orders, payments, units_freed, adjusted, until, rejected }
    }

    pub(super) fn check(&mut self, plan: &Plan) -> Played {
        let mut played =
            Played { trace: self.schedule.trace(), turns: self.schedule.turns(), ..Played::default() };
        played.broken.extend(self.watch.broken.take());
        let book = self.book(&mut played.broken);
        let undone = self.undone(plan);
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
        // A correction that was refused may have been carried out by a server that was asked before, and did not answer.
        let units = stock.total();
        let (asked, is_accepted) = self.people.told().corrected;
        let is_known = units + asked == UNITS + RESTOCK || (!is_accepted && units == UNITS + RESTOCK);
        if !(is_known || undone.adjusted) || stock.sold() != units {
            broken.push(format!(
                "of {units} units {} are sold, {} held and {} left",
                stock.sold(),
                stock.held(),
                stock.available()
            ));
        }
        let differed = self.askers.counted("drift_units");
        if differed > 0 {
            broken.push(format!("{differed} are at the gate and not in the ledger, or the other way round"));
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
        let forgets = plan
            .iter()
            .any(|(_, fault)| matches!(fault, Fault::BrokerForgets { .. } | Fault::QueueEmptied { .. }));
        let told = self.people.told();
        if told.gave_up > 0 {
            played.broken.push(format!("{} people were never answered", told.gave_up));
        }
        let mut accepted_and_rejected = 0;
        for (id, answers) in &told.orders {
            for (_, answer) in answers {
                *played.answers.entry(name(answer)).or_default() += 1;
            }
            let order = book.order(*id);
            let says =
                |what: &str| format!("order {:x} {what}: answered {answers:?}, and is {order:?}", id.hash);
            let was = |wanted: fn(&Answer) -> bool| answers.iter().any(|(_, answer)| wanted(answer));
            // What a broker lost and no gate remembers is lost (docs/guarantees.md).
            let accepted = answers.iter().find(|(_, answer)| *answer == Answer::Ordered);
            let rejected = accepted.is_some() && order.is_none() && undone.rejected.contains(id);
            accepted_and_rejected += u64::from(rejected);
            let in_time = accepted.is_some_and(|(at, _)| *at <= undone.until);
            let lost = forgets || undone.orders.contains(id) || (in_time && rejected);
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
        if accepted_and_rejected > undone.units_freed {
            played.broken.push(format!("{accepted_and_rejected} were accepted and rejected"));
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
