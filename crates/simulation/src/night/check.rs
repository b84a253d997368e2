//! What must hold when a night is over.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use engine::{Book, Entry, Event, LedgerKind, OrderId, OrderView, Refusal, Status};

use super::buyers::{Answer, Answered, Answers};
use super::gates::PROMOTED_AFTER_MS;
use super::watch::Watch;
use super::{Fault, LIMIT, Night, Plan, Played, RESTOCK, SERVERS, SKU, UNITS};

/// After a fail-over, while nothing else is wrong, no gate sells for longer what the database does not know of.
const REBUILT_WITHIN: Duration = Duration::from_secs(4);

/// A server that reconciles, and is cut off with an old master, leaves that to another one in this time, after all that is wrong otherwise.
const LEFT_WITHIN: Duration = Duration::from_secs(20);

/// By clocks that are right: what was asked for longer ago no gate takes.
const REACHES_GATE_WITHIN: Duration = Duration::from_secs(2);

/// What a database that failed over without its tail has lost, and what a master of Redis has sold that was cut off while its replica
/// was promoted: what that answered need not hold (docs/guarantees.md).
struct Undone {
    /// All that the ledger had, and those of them whose messages no broker has, so that they are not taken in again.
    placed: BTreeSet<OrderId>,
    orders: BTreeSet<OrderId>,
    /// Every server that had seen it was killed: only that gate and ledger differ shows it.
    is_forgotten: bool,
    closed: bool,
    paused: bool,
    payments: BTreeSet<Box<str>>,
    /// What the gates had to sell, and nobody else knew of: at most so many orders were rejected.
    units_freed: u64,
    adjusted: bool,
    /// See [`Night::window`].
    since: Duration,
    until: Duration,
    rejected: BTreeSet<OrderId>,
}

impl Night {
    fn undone(&self, plan: &Plan) -> Undone {
        let in_brokers = self.engines.brokers.orders();
        let (mut placed, mut orders, mut payments) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
        let (mut units_freed, mut adjusted, mut closed, mut paused) = (0, false, false, false);
        let is_rejected = |entry: Entry| match entry.event {
            Event::OrderRejected { order, .. } => Some(order),
            _ => None,
        };
        for entry in self.engines.database.undone() {
            match entry.event {
                Event::OrderPlaced { id, .. } => {
                    placed.insert(id);
                    // What a broker has is taken in again.
                    if !in_brokers.contains(&id) {
                        orders.insert(id);
                    }
                }
                Event::OrderClosed { how, .. } => {
                    closed = true;
                    units_freed += if how.returns_units() { u64::from(LIMIT) } else { 0 };
                }
                Event::StockAdjusted { units, .. } => (units_freed, adjusted) = (units_freed + units, true),
                Event::PaymentRecorded { pay, disposition } => {
                    units_freed += u64::from(disposition.requested().unwrap_or(0));
                    payments.insert(pay.id);
                }
                Event::SalePaused(_) => paused = true,
                _ => {}
            }
        }
        let rejected = self.engines.database.entries().into_iter().filter_map(is_rejected).collect();
        let cut_off = plan.iter().filter(|(_, fault)| matches!(fault, Fault::GateFailsOver { .. })).count();
        units_freed += (UNITS + RESTOCK) * cut_off as u64;
        let (since, until) = self.window(plan);
        let is_forgotten = plan.iter().any(|(at, fault)| {
            let is_down = |server: usize| {
                plan.iter().any(|(killed, by)| matches!(by, Fault::Crash { server: of, .. } if *of == server && killed == at))
            };
            matches!(fault, Fault::LedgerFailsOver { .. }) && (0..SERVERS).all(is_down)
        });
        Undone {
            placed,
            orders,
            is_forgotten,
            closed,
            paused,
            payments,
            units_freed,
            adjusted,
            since,
            until,
            rejected,
        }
    }

    /// From the first fail-over until the gates were rebuilt after the last, and every server had heard of that from the database.
    fn window(&self, plan: &Plan) -> (Duration, Duration) {
        let fails_over = |(at, fault): &(Duration, Fault)| match fault {
            // What the database has lost of before is sold again.
            Fault::LedgerFailsOver { .. } => Some((Duration::ZERO, *at)),
            Fault::GateFailsOver { behind, .. } => {
                let cut_off = *at + Duration::from_millis(*behind);
                Some((cut_off, cut_off + Duration::from_millis(PROMOTED_AFTER_MS)))
            }
            _ => None,
        };
        let (since, last): (Vec<_>, Vec<_>) = plan.iter().filter_map(fails_over).unzip();
        let (since, last) =
            (since.into_iter().min().unwrap_or(Duration::MAX), last.into_iter().max().unwrap_or_default());
        let others = plan.iter().filter(|(at, fault)| {
            !matches!(fault, Fault::GateFailsOver { .. }) && *at + fault.lasts() + REBUILT_WITHIN >= since
        });
        let until = last + REBUILT_WITHIN + others.map(|(_, fault)| fault.lasts()).sum::<Duration>();
        let is_of_gate = plan.iter().any(|(_, fault)| matches!(fault, Fault::GateFailsOver { .. }));
        // A server that reconciles, and is cut off with the old master, leaves it to another one after a while.
        let raised = self.watch.raised.iter().find(|at| **at >= last).filter(|_| is_of_gate);
        let until = raised.map_or(until, |at| until.max((*at).min(until + LEFT_WITHIN) + REBUILT_WITHIN));
        (since, until)
    }

    pub(super) fn check(&mut self, plan: &Plan) -> Played {
        let mut played =
            Played { trace: self.schedule.trace(), turns: self.schedule.turns(), ..Played::default() };
        played.broken.extend(self.watch.broken.take());
        let book = self.book(&mut played.broken);
        let undone = self.undone(plan);
        self.check_stock(&book, &undone, &mut played.broken);
        self.check_answers(&book, &undone, plan, &mut played);
        self.check_cancelled(&book, &undone, &mut played.broken);
        self.check_money(&undone, &mut played.broken);
        played.happened = self.happened();
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
        let (asked, is_accepted) = self.people.answers().corrected;
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
        if differed > 0 && !undone.is_forgotten {
            broken.push(format!("{differed} are at the gate and not in the ledger, or the other way round"));
        }
        broken.extend(self.closed_at_the_end());
        let waiting = self.engines.database.outbox_len();
        if waiting > 0 {
            broken.push(format!("{waiting} changes never came to the gate"));
        }
        let at_gate = self.units_at_gate();
        if at_gate != i64::try_from(stock.available()).ok() {
            broken.push(format!("the gate has {at_gate:?} units, and the ledger {}", stock.available()));
        }
        for (id, (buyer, quantities)) in &self.people.answers().wanted {
            let units = book.units(SKU, *buyer);
            if units > LIMIT {
                broken.push(format!("buyer {} has {units} units", buyer.0));
            }
            let is_another =
                |order: &OrderView| order.buyer != *buyer || !quantities.contains(&order.quantity);
            if let Some(order) = book.order(*id).filter(is_another) {
                broken.push(format!("{quantities:?} were asked for by {}: {order:?}", buyer.0));
            }
        }
    }

    fn check_answers(&self, book: &Book, undone: &Undone, plan: &Plan, played: &mut Played) {
        let heard = self.people.answers();
        if heard.gave_up > 0 {
            played.broken.push(format!("{} people were never answered", heard.gave_up));
        }
        let mut lost_once = self.engines.brokers.forgotten();
        lost_once.extend(self.engines.brokers.in_place_of_lost());
        let gate_forgets = |(at, fault): &(Duration, Fault)| match fault {
            Fault::GateWiped => Some((Duration::ZERO, *at)),
            Fault::GateRestored { age } => Some((at.saturating_sub(Duration::from_millis(*age)), *at)),
            // What is sold at the old master meanwhile, too.
            Fault::GateFailsOver { .. } => Some((Duration::ZERO, (*at).max(undone.until))),
            _ => None,
        };
        let promises = Promises {
            book,
            undone,
            heard: &heard,
            watch: &self.watch,
            lost_once,
            gate_forgot: plan.iter().filter_map(gate_forgets).collect(),
            is_rebuilt: self.askers.counted("gates_built") > 1,
        };
        let mut accepted_and_rejected = 0;
        for (id, answers) in &heard.orders {
            for Answered { answer, .. } in answers {
                *played.answers.entry(name(answer)).or_default() += 1;
            }
            accepted_and_rejected += u64::from(promises.was_rejected(*id, answers));
            let broken =
                [promises.broken_to_accepted(*id, answers), promises.broken_to_refused(*id, answers)];
            for what in broken.into_iter().flatten() {
                let (hash, order) = (id.hash, book.order(*id));
                played.broken.push(format!("order {hash:x} {what}: answered {answers:?}, and is {order:?}"));
            }
        }
        if accepted_and_rejected > undone.units_freed {
            played.broken.push(format!("{accepted_and_rejected} were accepted and rejected"));
        }
    }

    fn check_cancelled(&self, book: &Book, undone: &Undone, broken: &mut Vec<String>) {
        for id in &self.people.answers().cancelled {
            let status = book.order(*id).map(|order| order.status);
            if status != Some(Status::Cancelled) && !undone.closed {
                broken.push(format!("order {:x} was cancelled, and is {status:?}", id.hash));
            }
        }
    }

    /// How often what was to go wrong did.
    fn happened(&self) -> BTreeMap<&'static str, u64> {
        let (gate, ledger) = (self.engines.network.happened(), self.engines.database.happened());
        let queue = self.engines.brokers.happened();
        let looked = self.people.answers().looked.iter().filter(|(.., is_known)| *is_known).count();
        BTreeMap::from([
            ("orders looked at", looked as u64),
            ("commands cut before", gate.cut_before),
            ("commands cut after", gate.cut_after),
            ("commands slow", gate.slow),
            ("commands late", gate.late),
            ("calls lost before", ledger.lost_before),
            ("calls lost after", ledger.lost_after),
            ("calls slow", ledger.slow),
            ("transactions undone", ledger.undone),
            ("orders undone", self.engines.database.undone().len() as u64),
            ("sends lost before", queue.lost_before),
            ("sends lost after", queue.lost_after),
            ("sends late", queue.late),
            ("sends twice", queue.twice),
            ("sends refused", queue.refused),
            ("messages forgotten", queue.forgotten),
            ("gates built anew", self.askers.counted("gates_built").saturating_sub(1)),
            ("orders rolled forward", self.askers.counted("reservations_rolled_forward")),
        ])
    }

    fn check_money(&self, undone: &Undone, broken: &mut Vec<String>) {
        let entries = self.engines.database.entries();
        let mut payments: BTreeMap<&str, u64> = BTreeMap::new();
        for entry in &entries {
            if let Event::PaymentRecorded { pay, .. } = &entry.event {
                *payments.entry(&pay.id).or_default() += 1;
            }
        }
        for paid in &self.people.answers().paid {
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

/// What was promised with an answer, and what may be otherwise.
struct Promises<'a> {
    book: &'a Book,
    undone: &'a Undone,
    heard: &'a Answers,
    watch: &'a Watch,
    /// What a broker lost, or stored in the place of what it lost, which may be passed over: each is an order by its reservation,
    /// unless that is lost, too.
    lost_once: BTreeSet<OrderId>,
    /// From when to when gates have taken what they forgot.
    gate_forgot: Vec<(Duration, Duration)>,
    /// What comes late is taken by a gate that was built anew, too.
    is_rebuilt: bool,
}

impl Promises<'_> {
    fn in_window(&self, at: Duration) -> bool {
        (self.undone.since..=self.undone.until).contains(&at)
    }

    fn was_rejected(&self, id: OrderId, answers: &[Answered]) -> bool {
        let accepted = find(answers, |answer| *answer == Answer::Ordered);
        accepted.is_some() && self.book.order(id).is_none() && self.undone.rejected.contains(&id)
    }

    /// Refused because its key has an order of so many other units, or may have had one for a while.
    fn is_of_another_body(&self, id: OrderId, one: &Answered) -> bool {
        let has_two = self.heard.wanted.get(&id).is_some_and(|(_, quantities)| quantities.len() > 1);
        let is_another = self.book.order(id).is_none_or(|order| order.quantity != one.quantity);
        let is_forgotten = self.undone.placed.contains(&id) || self.in_window(one.at);
        let is_conflict = one.answer == Answer::Refused(Refusal::KeyConflict);
        has_two && is_conflict && (is_another || is_forgotten)
    }

    fn broken_to_accepted(&self, id: OrderId, answers: &[Answered]) -> Vec<String> {
        let mut broken = Vec::new();
        let (order, undone) = (self.book.order(id), self.undone);
        let accepted = find(answers, |answer| *answer == Answer::Ordered);
        let in_time = accepted.is_some_and(|accepted| self.in_window(accepted.at));
        // What a broker lost and no gate remembers is lost (docs/guarantees.md).
        let gate_forgot = accepted.is_some_and(|accepted| {
            self.gate_forgot.iter().any(|(from, to)| accepted.asked <= *to && accepted.at >= *from)
        });
        let lost_twice = self.lost_once.contains(&id) && (gate_forgot || undone.placed.contains(&id));
        let lost = undone.orders.contains(&id) || lost_twice || (in_time && self.was_rejected(id, answers));
        if accepted.is_some() && order.is_none() && !lost {
            broken.push("was accepted and is none".to_owned());
        }
        let is_lost = lost || undone.placed.contains(&id) || in_time;
        let is_another = |one: &Answered| {
            let quantity = order.as_ref().map(|order| order.quantity);
            one.answer == Answer::Ordered && quantity.is_some_and(|quantity| quantity != one.quantity)
        };
        if answers.iter().any(is_another) && !is_lost {
            broken.push("was accepted with another body".to_owned());
        }
        if let Some(at) = self.heard.not_known(&id).filter(|at| !is_lost && !self.in_window(*at)) {
            broken.push(format!("was accepted, and not known after {} ms", at.as_millis()));
        }
        let in_pause = |one: &Answered| {
            let paused = self.heard.paused;
            paused.is_some_and(|(from, to)| from < one.asked && one.at < to && !self.in_window(one.at))
        };
        let is_first = answers.first().is_some_and(|one| one.answer == Answer::Ordered && in_pause(one));
        if is_first && !undone.paused {
            broken.push("was taken in a pause".to_owned());
        }
        broken
    }

    fn broken_to_refused(&self, id: OrderId, answers: &[Answered]) -> Vec<String> {
        let mut broken = Vec::new();
        let order = self.book.order(id);
        let answers: Vec<_> =
            answers.iter().filter(|one| !self.is_of_another_body(id, one)).cloned().collect();
        let answers = answers.as_slice();
        let asked_before = find(answers, |answer| *answer == Answer::Unknown).is_some();
        let refused = find(answers, |answer| matches!(answer, Answer::Refused(_)));
        if refused.is_some() && order.is_some() && !asked_before {
            broken.push("was refused and is one");
        }
        // Whoever was cut off with a master whose epoch is over could not know.
        let was_there = |asked| self.watch.placed.get(&id).is_some_and(|placed| *placed < asked);
        if refused.is_some_and(|one| was_there(one.asked) && !self.in_window(one.at))
            && !self.undone.placed.contains(&id)
        {
            broken.push("was refused and was one already");
        }
        let no_reason =
            |answer: &Answer| matches!(answer, Answer::Refused(Refusal::KeyConflict | Refusal::UnknownSku));
        if find(answers, no_reason).is_some() {
            broken.push("was refused for no reason");
        }
        let can_be = |reserved: Duration| {
            answers.iter().any(|one| (one.asked..=one.at + REACHES_GATE_WITHIN).contains(&reserved))
        };
        if !self.is_rebuilt && self.watch.reserved.get(&id.hash).is_some_and(|at| !can_be(*at)) {
            broken.push("was taken by the gate when nobody had asked for it any more");
        }
        let is_not_served = |one: &Answered| matches!(one.answer, Answer::NotServed(_));
        if order.is_some() && !answers.is_empty() && answers.iter().all(is_not_served) {
            broken.push("was not served and is one");
        }
        if find(answers, |answer| *answer == Answer::Lost).is_some() && order.is_some() {
            broken.push("was given up and is one");
        }
        broken.into_iter().map(str::to_owned).collect()
    }
}

fn find(answers: &[Answered], wanted: impl Fn(&Answer) -> bool) -> Option<&Answered> {
    answers.iter().find(|one| wanted(&one.answer))
}

fn name(answer: &Answer) -> &'static str {
    match answer {
        Answer::Ordered => "ordered",
        Answer::Refused(Refusal::SoldOut | Refusal::NotEnoughLeft) => "sold out",
        Answer::Refused(Refusal::OverLimit) => "over the limit",
        Answer::Refused(Refusal::KeyConflict) => "another body",
        Answer::Refused(_) => "refused otherwise",
        Answer::Lost => "lost",
        Answer::Unknown => "unknown",
        Answer::NotServed(why) => why,
    }
}
