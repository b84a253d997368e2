//! What must hold when a night is over.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use engine::{Adjust, Book, Entry, Event, LedgerKind, OrderId, OrderView, Refusal, Status};

use super::broken::Broken;
use super::buyers::{Answer, Answered, Answers, Looked};
use super::watch::Watch;
use super::{CALM, FEWER, Fault, LATE, LIMIT, MORE, Night, Plan, Played, RESTOCK, SERVERS, SKU, UNITS};

/// After a fail-over, while nothing else is wrong, no gate sells for longer what the database does not know of.
const REBUILT_WITHIN: Duration = Duration::from_secs(4);

/// A server that reconciles, and is cut off with an old master, leaves that to another one in this time, after all that is wrong otherwise.
const LEFT_WITHIN: Duration = Duration::from_secs(20);

/// By clocks that are right: what was asked for longer ago no gate takes.
const REACHES_GATE_WITHIN: Duration = Duration::from_secs(2);

/// So long before the end no gate is rebuilt any more. The last to be is one with a claim that nobody has finished: faults
/// are over after 26 s, what was on its way then comes within 3 s, and a clock of Redis may have been 5 s ahead. So such a
/// claim is given up after 61 s, and the epoch is raised 3 s later.
const RESTS_FOR: Duration = Duration::from_secs(10);

/// From a fail-over until the gates were rebuilt after it, and every server had heard of that from the database.
struct Window {
    is_of_ledger: bool,
    since: Duration,
    until: Duration,
}

/// What a database that failed over without its tail has lost, and what a master of Redis has sold that was cut off while its replica
/// was promoted: what that answered need not hold (docs/guarantees.md).
struct Undone {
    /// All that the ledger had, and those of them whose messages no broker has, so that they are not taken in again.
    placed: BTreeSet<OrderId>,
    orders: BTreeSet<OrderId>,
    /// Every server that had seen it was killed: only that gate and ledger differ shows it.
    is_forgotten: bool,
    closed: BTreeSet<OrderId>,
    payments: BTreeSet<Box<str>>,
    /// What the gates had to sell, and nobody else knew of: at most so many orders were rejected.
    units_freed: u64,
    /// The keys of adjustments.
    adjusted: BTreeSet<Box<str>>,
    windows: Vec<Window>,
    rejected: BTreeSet<OrderId>,
}

impl Night {
    fn undone(&self, plan: &Plan) -> Undone {
        let in_brokers = self.engines.brokers.orders();
        let (mut placed, mut orders, mut payments) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
        let (mut units_freed, mut adjusted) = (self.watch.units_cut_off, BTreeSet::new());
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
                    units_freed += if how.returns_units() { u64::from(LIMIT) } else { 0 };
                }
                Event::StockAdjusted { how, units, key, .. } => {
                    units_freed += if how == Adjust::Restock { units } else { 0 };
                    adjusted.insert(key);
                }
                Event::PaymentRecorded { pay, disposition } => {
                    units_freed += u64::from(disposition.requested().unwrap_or(0));
                    payments.insert(pay.id);
                }
                _ => {}
            }
        }
        let rejected = self.engines.database.entries().into_iter().filter_map(is_rejected).collect();
        let windows = (0..plan.len()).filter_map(|fault| self.window(plan, fault)).collect();
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
            closed: self.engines.database.closings_undone(),
            payments,
            units_freed,
            adjusted,
            windows,
            rejected,
        }
    }

    /// The window of one of the plan's faults, if it is a fail-over.
    fn window(&self, plan: &Plan, number: usize) -> Option<Window> {
        let (at, fault) = &plan[number];
        let is_of_ledger = match fault {
            Fault::LedgerFailsOver { .. } => true,
            Fault::GateFailsOver { .. } => false,
            _ => return None,
        };
        let (since, over) = fault.disturbs(*at);
        let others = plan.iter().enumerate().filter(|(other, _)| *other != number);
        let mut others: Vec<_> = others.map(|(_, (at, fault))| fault.disturbs(*at)).collect();
        others.sort();
        // In this order one that is too late for the window so far is followed by later ones only.
        let mut others = others.into_iter().peekable();
        let mut until = over + REBUILT_WITHIN;
        // A server that reconciles, and is cut off with the old master, leaves it to another one after a while.
        let mut raised = self.watch.raised.iter().find(|at| **at >= over).filter(|_| !is_of_ledger);
        loop {
            while let Some((from, to)) = others.next_if(|(from, _)| *from <= until) {
                // One that was over before holds up nothing.
                if to + REBUILT_WITHIN >= since {
                    until = until.max(from + REBUILT_WITHIN) + (to - from);
                }
            }
            let Some(raised) = raised.take() else { break };
            until = until.max((*raised).min(until + LEFT_WITHIN) + REBUILT_WITHIN);
        }
        Some(Window { is_of_ledger, since, until })
    }

    pub(super) fn check(&mut self, plan: &Plan) -> Played {
        let mut played =
            Played { trace: self.schedule.trace(), turns: self.schedule.turns(), ..Played::default() };
        played.broken.extend(self.watch.broken.take());
        played.broken.append(&mut self.people.answers().wrong);
        let book = self.book(&mut played.broken);
        let undone = self.undone(plan);
        self.check_stock(&book, &undone, &mut played.broken);
        self.check_answers(&book, &undone, plan, &mut played);
        self.check_cancelled(&book, &undone, &mut played.broken);
        self.check_rest(&mut played.broken);
        self.check_money(&undone, &mut played.broken);
        played.happened = self.happened();
        played
    }

    /// The ledger, replayed.
    fn book(&self, broken: &mut Vec<Broken>) -> Book {
        let mut book = Book::new();
        for entry in self.engines.database.entries() {
            if let Err(error) = book.replay(LedgerKind::Gated, &entry) {
                broken.push(format!("the ledger does not follow: {error}").into());
                return book;
            }
        }
        if let Err(faults) = book.check_invariants() {
            broken.extend(faults.into_iter().map(Broken::from));
        }
        book
    }

    /// Whoever came last took what was left, and was refused when nothing was.
    fn check_stock(&self, book: &Book, undone: &Undone, broken: &mut Vec<Broken>) {
        let Some(stock) = book.stock(SKU) else { return broken.push("there is no sale".to_owned().into()) };
        // A correction that was refused may have been carried out by a server that was asked before, and did not answer.
        let units = stock.total();
        let (asked, is_accepted) = self.people.answers().corrected;
        let more = [Some(RESTOCK), undone.adjusted.contains(MORE).then_some(0)];
        let fewer = [Some(asked), (!is_accepted || undone.adjusted.contains(FEWER)).then_some(0)];
        let is = |more: u64, fewer: u64| units + fewer == UNITS + more;
        let is_known =
            more.iter().flatten().any(|more| fewer.iter().flatten().any(|fewer| is(*more, *fewer)));
        if !is_known || stock.sold() != units {
            let (sold, held, left) = (stock.sold(), stock.held(), stock.available());
            broken.push(format!("of {units} units {sold} are sold, {held} held and {left} left").into());
        }
        let differed = self.askers.counted("drift_units");
        if differed > 0 && !undone.is_forgotten {
            broken.push(
                format!("{differed} are at the gate and not in the ledger, or the other way round").into(),
            );
        }
        broken.extend(self.closed_at_the_end().map(Broken::from));
        let waiting = self.engines.database.outbox_len();
        if waiting > 0 {
            broken.push(format!("{waiting} changes never came to the gate").into());
        }
        let at_gate = self.units_at_gate();
        if at_gate != i64::try_from(stock.available()).ok() {
            let left = stock.available();
            broken.push(format!("the gate has {at_gate:?} units, and the ledger {left}").into());
        }
        let heard = self.people.answers();
        let wanted = &heard.wanted;
        for (id, (buyer, quantities)) in wanted {
            let units = book.units(SKU, *buyer);
            if units > LIMIT {
                let theirs = wanted.iter().filter(|(_, (of, _))| of == buyer).map(|(id, _)| *id);
                broken.push(Broken::of(theirs, format!("buyer {} has {units} units", buyer.0)));
            }
            let is_another =
                |order: &OrderView| order.buyer != *buyer || !quantities.contains(&order.quantity);
            if let Some(order) = book.order(*id).filter(is_another) {
                let what = format!("{quantities:?} were asked for by {}: {order:?}", buyer.0);
                broken.push(Broken::of([*id], what));
            }
        }
    }

    fn check_answers(&self, book: &Book, undone: &Undone, plan: &Plan, played: &mut Played) {
        let heard = self.people.answers();
        if !heard.gave_up.is_empty() {
            let what = format!("{} people were never answered", heard.gave_up.len());
            played.broken.push(Broken::of(heard.gave_up.iter().copied(), what));
        }
        let mut lost_once = self.engines.brokers.forgotten();
        lost_once.extend(self.engines.brokers.in_place_of_lost());
        let gate_forgets = |number: usize| match &plan[number] {
            (at, Fault::GateWiped) => Some((Duration::ZERO, *at)),
            (at, Fault::GateRestored { age }) => Some((*at, *at + Duration::from_millis(*age))),
            // What is sold at the old master meanwhile, too.
            (_, Fault::GateFailsOver { .. }) => Some((Duration::ZERO, self.window(plan, number)?.until)),
            _ => None,
        };
        let promises = Promises {
            book,
            undone,
            heard: &heard,
            watch: &self.watch,
            lost_once,
            gate_forgot: (0..plan.len()).filter_map(gate_forgets).collect(),
        };
        let mut accepted_and_rejected = Vec::new();
        for (id, answers) in &heard.orders {
            for Answered { answer, .. } in answers {
                *played.answers.entry(name(answer)).or_default() += 1;
            }
            accepted_and_rejected.extend(promises.was_accepted_and_rejected(*id, answers).then_some(*id));
            let broken =
                [promises.broken_to_accepted(*id, answers), promises.broken_to_refused(*id, answers)];
            for what in broken.into_iter().flatten() {
                let (hash, order) = (id.hash, book.order(*id));
                let what = format!("order {hash:x} {what}: answered {answers:?}, and is {order:?}");
                played.broken.push(Broken::of([*id], what));
            }
        }
        if accepted_and_rejected.len() as u64 > undone.units_freed {
            let what = format!("{} were accepted and rejected", accepted_and_rejected.len());
            played.broken.push(Broken::of(accepted_and_rejected, what));
        }
    }

    fn check_cancelled(&self, book: &Book, undone: &Undone, broken: &mut Vec<Broken>) {
        for id in &self.people.answers().cancelled {
            let status = book.order(*id).map(|order| order.status);
            if status != Some(Status::Cancelled) && !undone.closed.contains(id) {
                let what = format!("order {:x} was cancelled, and is {status:?}", id.hash);
                broken.push(Broken::of([*id], what));
            }
        }
    }

    /// Every gate comes to rest.
    fn check_rest(&self, broken: &mut Vec<Broken>) {
        let raised = self.watch.raised.last().filter(|at| **at + RESTS_FOR > CALM + LATE);
        let rebuilt = |at: &Duration| format!("a gate was rebuilt after {} ms still", at.as_millis());
        broken.extend(raised.map(|at| Broken::from(rebuilt(at))));
    }

    /// How often what was to go wrong did.
    fn happened(&self) -> BTreeMap<&'static str, u64> {
        let (gate, ledger) = (self.engines.network.happened(), self.engines.database.happened());
        let queue = self.engines.brokers.happened();
        let looked = self.people.answers().looked.iter().filter(|looked| looked.is_known).count();
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

    fn check_money(&self, undone: &Undone, broken: &mut Vec<Broken>) {
        let entries = self.engines.database.entries();
        let mut payments: BTreeMap<&str, u64> = BTreeMap::new();
        for entry in &entries {
            if let Event::PaymentRecorded { pay, .. } = &entry.event {
                *payments.entry(&pay.id).or_default() += 1;
            }
        }
        for paid in &self.people.answers().paid {
            if payments.get(&*paid.id) != Some(&1) && !undone.payments.contains(&*paid.id) {
                let (id, hash, times) = (&paid.id, paid.order.hash, payments.get(&*paid.id));
                let what = format!("{id} of order {hash:x} was answered and is recorded {times:?} times");
                broken.push(Broken::of([paid.order], what));
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
}

impl Promises<'_> {
    /// From a fail-over on: what was said or sold by what is over since.
    fn in_window(&self, at: Duration) -> bool {
        self.undone.windows.iter().any(|window| (window.since..=window.until).contains(&at))
    }

    /// From the beginning: answered by what the database has lost since, or by gates that have it until they are rebuilt.
    fn is_before_loss(&self, at: Duration) -> bool {
        self.undone.windows.iter().any(|window| window.is_of_ledger && at <= window.until)
    }

    /// From a fail-over of the database on: answered without what it has lost.
    fn is_after_loss(&self, at: Duration) -> bool {
        self.undone.windows.iter().any(|window| window.is_of_ledger && window.since <= at)
    }

    fn was_undone(&self, id: OrderId, one: &Answered) -> bool {
        self.undone.placed.contains(&id) && self.is_before_loss(one.at)
    }

    /// From the beginning, if the database has lost its tail, for its units may have been freed only there; by a master that
    /// is cut off, from then on.
    fn was_rejected(&self, id: OrderId, one: &Answered) -> bool {
        self.undone.rejected.contains(&id) && (self.in_window(one.at) || self.is_before_loss(one.at))
    }

    fn was_accepted_and_rejected(&self, id: OrderId, answers: &[Answered]) -> bool {
        let is_rejected = self.book.order(id).is_none() && self.undone.rejected.contains(&id);
        is_rejected && answers.iter().any(|one| one.answer == Answer::Ordered)
    }

    /// Refused because its key has an order of so many other units, or may have had one for a while: from the beginning, one
    /// that was lost or rejected since; from the fail-over on, one that a gate of before has.
    fn is_of_another_body(&self, id: OrderId, one: &Answered) -> bool {
        let has_two = self.heard.wanted.get(&id).is_some_and(|(_, quantities)| quantities.len() > 1);
        let is_another = self.book.order(id).is_none_or(|order| order.quantity != one.quantity);
        let is_conflict = one.answer == Answer::Refused(Refusal::KeyConflict);
        let is_forgotten = self.was_undone(id, one) || self.was_rejected(id, one) || self.in_window(one.at);
        has_two && is_conflict && (is_another || is_forgotten)
    }

    /// From the beginning: what a database without its tail had placed and no broker has; what a broker lost and no gate
    /// remembers (docs/guarantees.md); and what was rejected.
    fn may_be_none(&self, id: OrderId, one: &Answered) -> bool {
        let gate_forgot = self.gate_forgot.iter().any(|(from, to)| one.asked <= *to && one.at >= *from);
        let is_nowhere = self.lost_once.contains(&id) || self.undone.orders.contains(&id);
        (self.lost_once.contains(&id) && gate_forgot)
            || (is_nowhere && self.was_undone(id, one))
            || self.was_rejected(id, one)
    }

    /// From the beginning: what may be none, or was lost, though a broker has it. From the fail-over on: what two gates have
    /// taken under one key.
    fn may_be_another(&self, id: OrderId, one: &Answered) -> bool {
        self.may_be_none(id, one) || self.was_undone(id, one) || self.in_window(one.at)
    }

    /// From the fail-over on: to a gate or a database that has not heard of it; until it is in the ledger, if it was accepted
    /// then; and for good, what the database has lost.
    fn may_not_be_known(&self, id: OrderId, answers: &[Answered], looked: &Looked) -> bool {
        let Looked { asked, at, .. } = *looked;
        let mut accepted = answers.iter().filter(|one| one.answer == Answer::Ordered);
        let is_placed = self.watch.placed.get(&id).is_some_and(|placed| *placed < asked);
        let is_lost = self.undone.placed.contains(&id) && self.is_after_loss(at);
        let in_window = |window: &Window| at >= window.since && asked <= window.until;
        is_lost
            || self.undone.windows.iter().any(in_window)
            || accepted.any(|one| {
                (self.in_window(one.at) && !is_placed)
                    || (self.lost_once.contains(&id) && self.may_be_none(id, one))
            })
    }

    /// From the fail-over on: by a gate that can't have heard of the pause. Later, only while the pause itself is lost.
    fn may_be_in_pause(&self, one: &Answered) -> bool {
        self.in_window(one.at) || self.watch.was_unpaused(one.asked, one.at)
    }

    fn broken_to_accepted(&self, id: OrderId, answers: &[Answered]) -> Vec<String> {
        let mut broken = Vec::new();
        let order = self.book.order(id);
        let accepted = || answers.iter().filter(|one| one.answer == Answer::Ordered);
        if order.is_none() && accepted().any(|one| !self.may_be_none(id, one)) {
            broken.push("was accepted and is none".to_owned());
        }
        let is_another = |one: &Answered| order.is_some_and(|order| order.quantity != one.quantity);
        if accepted().any(|one| is_another(one) && !self.may_be_another(id, one)) {
            broken.push("was accepted with another body".to_owned());
        }
        for looked in self.heard.not_known(id) {
            if !self.may_not_be_known(id, answers, looked) {
                broken.push(format!("was accepted, and not known after {} ms", looked.asked.as_millis()));
            }
        }
        let in_pause = |one: &Answered| {
            let paused = self.heard.paused;
            paused.is_some_and(|(from, to)| from < one.asked && one.at < to && !self.may_be_in_pause(one))
        };
        if answers.first().is_some_and(|one| one.answer == Answer::Ordered && in_pause(one)) {
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
        let was_there = |asked| self.watch.placed.get(&id).is_some_and(|placed| *placed < asked);
        // From the fail-over on: by whoever was cut off with a master whose epoch is over; and what the database has lost.
        let may_be_refused = |one: &Answered| {
            self.in_window(one.at) || (self.undone.placed.contains(&id) && self.is_after_loss(one.at))
        };
        let is_refused = |one: &Answered| matches!(one.answer, Answer::Refused(_));
        if answers.iter().any(|one| is_refused(one) && was_there(one.asked) && !may_be_refused(one)) {
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
        // What comes late is taken by a gate that was built anew, too.
        let is_of_first = |at: Duration| self.watch.raised.get(1).is_none_or(|raised| at < *raised);
        if self.watch.reserved.get(&id.hash).is_some_and(|at| is_of_first(*at) && !can_be(*at)) {
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
