//! The same histories by two ways: the book, command by command, and the working set, transaction by transaction, over
//! tables that are loaded row by row. Both must give the same answers, the same entries and the same state.
//!
//! The generator is the book's, and the model judges the book here as well. What a working set does not judge is
//! judged before it, as the gate does: an order that the window refuses is not sent. And what only a gate brings about is
//! brought about here: grants that are given, refused or stale, rejections that come again, epochs that are raised,
//! commits that are lost.

use std::collections::BTreeMap;

use engine::handover::{Claim, Grant, Reservation};
use engine::working_set::{Executed, Needs, Operation, Outcome, Rejection, WorkingSet};
use engine::{
    Accepted, Adjust, Book, Command, Entry, Event, LedgerKind, OrderId, Placement, RefundReason, Refusal,
    Sales, SkuId, UnixMs,
};

use crate::coverage::Coverage;
use crate::draw::{Draw, Random, Shape, Step};
use crate::model::Model;
use crate::tables::Tables;
use crate::{Witness, one_step, without_text};

/// What only a book does.
const WITHOUT: Shape =
    Shape { steps: 0, sales_permille: 0, sale_ms_max: 0, open_holds: false, corrections_permille: 0 };
const SHORT: Shape = Shape { steps: 100, sales_permille: 20, sale_ms_max: 160, ..WITHOUT };
const LONG: Shape = Shape { steps: 200_000, sales_permille: 5, sale_ms_max: 2_500, ..WITHOUT };
const LONG_INTERVAL: u64 = 997;
/// Steps of one kind that are drawn for one transaction, at most.
const BATCH_MAX: u64 = 40;
/// Entries between two comparisons that may not be drained yet, at most.
const ENTRIES_MAX: usize = 200;

/// What a run must have come past.
const REACHED: [&str; 20] = [
    "address",
    "admitted of an older epoch",
    "commit lost",
    "conflict",
    "conflict with a rejection",
    "correction granted",
    "correction not granted",
    "epoch raised",
    "granted late",
    "known",
    "not granted late",
    "placed",
    "placed after a rejection",
    "rejected",
    "rejected again",
    "rejected as before",
    "repeated in its batch",
    "sales read anew",
    "stale grant",
    "swept",
];

#[test]
fn short_histories_by_transactions_are_those_of_the_book() {
    let mut reached = BTreeMap::new();
    for seed in 0..5_000 {
        History::run(seed, SHORT, 1, &mut reached);
    }
    assert_eq!(reached.keys().copied().collect::<Vec<_>>(), REACHED, "{reached:#?}");
}

#[test]
fn long_histories_by_transactions_are_those_of_the_book() {
    let mut reached = BTreeMap::new();
    for seed in 0..5 {
        History::run(seed, LONG, LONG_INTERVAL, &mut reached);
    }
    assert_eq!(reached.keys().copied().collect::<Vec<_>>(), REACHED, "{reached:#?}");
}

/// What one transaction is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Placing,
    Operating,
    Sweeping,
}

fn kind_of(step: &Step) -> Kind {
    match step {
        Step::Do(Command::Place(_)) => Kind::Placing,
        Step::Do(_) => Kind::Operating,
        Step::Expire { .. } => Kind::Sweeping,
        Step::Correct { .. } => unreachable!("no shape here draws it"),
    }
}

/// What the gate does with units that a command needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Gate {
    Grants,
    Refuses(RefundReason),
}

/// A book and its tables, which must stay the same.
struct History<'a> {
    draw: Draw,
    random: Random,
    model: Model,
    book: Book,
    journal: Vec<Entry>,
    tables: Tables,
    sales: Sales,
    /// What was rejected, and under which epoch, by the order in which it was asked.
    rejected: BTreeMap<OrderId, (Placement, u64, Refusal)>,
    reached: &'a mut BTreeMap<&'static str, u64>,
}

/// The engine knows no hash; any function of the key will do.
fn correction_id(sku: SkuId, key: &str) -> OrderId {
    OrderId { sku, hash: key.bytes().fold(7, |hash, byte| hash * 31 + u128::from(byte)) }
}

impl<'a> History<'a> {
    fn run(seed: u64, shape: Shape, interval: u64, reached: &'a mut BTreeMap<&'static str, u64>) {
        let mut witness = Witness { seed, step: 0, doing: None };
        let mut history = History {
            draw: Draw::new(seed, shape),
            random: Random(!seed),
            model: Model::default(),
            book: Book::new(),
            journal: Vec::new(),
            tables: Tables::default(),
            sales: Sales::new(),
            rejected: BTreeMap::new(),
            reached,
        };
        let mut compared = 0;
        while witness.step < shape.steps {
            let (now, first) = history.draw.next(&history.model);
            witness.doing = Some((now, first.clone()));
            witness.step += history.transaction(UnixMs(now), first);
            if witness.step - compared >= interval {
                compared = witness.step;
                history.assert_same();
            }
        }
        history.assert_same();
        history.assert_audited();
    }

    fn reach(&mut self, what: &'static str) {
        *self.reached.entry(what).or_insert(0) += 1;
    }

    fn chance(&mut self, percent: u64) -> bool {
        self.random.percent(percent)
    }

    /// Several steps of one kind as one transaction, all at one time; says how many.
    fn transaction(&mut self, now: UnixMs, first: Step) -> u64 {
        if self.chance(4) && self.model.skus_len() > 0 {
            self.raise_epoch(now);
        }
        if self.chance(1) {
            self.sales = Sales::new();
            self.reach("sales read anew");
        }
        let kind = kind_of(&first);
        let size = if self.chance(50) { 1 } else { 1 + self.random.below(BATCH_MAX) };
        let (mut orders, mut operations, mut steps) = (Vec::new(), Vec::new(), 0);
        let mut next = Some(first);
        for _ in 0..size {
            let step = next.take().unwrap_or_else(|| self.draw.next(&self.model).1);
            if kind_of(&step) != kind {
                continue;
            }
            steps += 1;
            match step {
                Step::Correct { .. } => unreachable!("no shape here draws it"),
                Step::Do(Command::Place(placement)) => orders.extend(self.expect_order(now, placement)),
                Step::Do(command) => operations.push(self.expect_operation(now, command)),
                Step::Expire { max } => {
                    let expired = self.book_step(now, Step::Expire { max });
                    self.sweep(now, max);
                    if expired {
                        self.reach("swept");
                    }
                    break;
                }
            }
        }
        match kind {
            Kind::Placing => self.admit(now, &orders),
            Kind::Operating => self.operate(now, &operations),
            Kind::Sweeping => {}
        }
        steps
    }

    /// Carries a step out on book and model; says whether it made entries.
    fn book_step(&mut self, now: UnixMs, step: Step) -> bool {
        let before = self.book.next_seq();
        one_step(&mut self.book, &mut self.model, now.0, &step, &mut Coverage::default());
        self.book.next_seq() > before
    }

    fn ask_book(&mut self, now: UnixMs, command: Command) -> Result<Accepted, Refusal> {
        let answer = self.book.execute(now, command.clone());
        assert_eq!(without_text(answer.clone()), without_text(self.model.execute(now.0, &command)));
        answer
    }

    /// An order as the queue brings it, with what must become of it; none if the gate does not let it pass.
    fn expect_order(&mut self, now: UnixMs, place: Placement) -> Option<(Reservation, Outcome)> {
        let epoch_now = self.tables.skus.get(&place.id.sku).map_or(0, |sku| sku.epoch);
        let epoch = if self.chance(85) { epoch_now } else { self.random.below(epoch_now + 1) };
        let address = self.chance(10).then(|| Box::from(&b"{}"[..]));
        let incoming = Reservation { placement: place, epoch, reserved_at: now, address, buyer_text: None };
        let rejection = |place: Placement, at, epoch, reason| {
            let Placement { buyer, quantity, fingerprint, .. } = place;
            Outcome::Rejected(Rejection { at, buyer, quantity, fingerprint, epoch, reason })
        };
        let before = self.rejected.get(&place.id).copied().filter(|_| !self.model.is_order(place.id));
        if let Some((known, rejected_at, reason)) = before {
            if known != place && epoch <= rejected_at {
                self.reach("conflict with a rejection");
                return Some((incoming, Outcome::Conflict));
            }
            if epoch <= rejected_at {
                self.reach("rejected as before");
                return Some((incoming, rejection(known, UnixMs(0), rejected_at, reason)));
            }
        }
        let outcome = match self.ask_book(now, Command::Place(place)) {
            Ok(Accepted::Order { order, replayed: false }) => Outcome::Placed(order),
            Ok(Accepted::Order { order, replayed: true }) => Outcome::Known(order),
            Ok(other) => panic!("placing came to {other:?}"),
            Err(Refusal::KeyConflict) => Outcome::Conflict,
            Err(Refusal::NotStarted | Refusal::Paused | Refusal::Ended) => return None,
            Err(reason) => match before {
                Some((known, epoch, reason)) => {
                    self.reach("rejected again");
                    rejection(known, UnixMs(0), epoch, reason)
                }
                None => {
                    self.rejected.insert(place.id, (place, epoch, reason));
                    self.reject_in_book(now, place.id, reason);
                    rejection(place, now, epoch, reason)
                }
            },
        };
        self.reach(match &outcome {
            Outcome::Placed(_) if before.is_some() => "placed after a rejection",
            Outcome::Placed(_) if epoch < epoch_now => "admitted of an older epoch",
            Outcome::Placed(_) if incoming.address.is_some() => "address",
            Outcome::Placed(_) => "placed",
            Outcome::Known(_) => "known",
            Outcome::Conflict => "conflict",
            Outcome::Rejected(_) => "rejected",
        });
        Some((incoming, outcome))
    }

    /// A book alone rejects nothing later: it follows.
    fn reject_in_book(&mut self, now: UnixMs, order: OrderId, reason: Refusal) {
        if reason == Refusal::UnknownSku {
            return;
        }
        self.book.drain_journal(&mut self.journal);
        let event = Event::OrderRejected { order, reason };
        let entry = Entry { seq: self.book.next_seq(), at: now, event };
        self.book.replay(LedgerKind::Gated, &entry).expect("the book follows");
        self.journal.push(entry);
        self.model.event();
    }

    /// An operation with what the gate will say, and what must become of it.
    fn expect_operation(&mut self, now: UnixMs, command: Command) -> (Command, Gate, Executed) {
        let why = [RefundReason::ExpiredSoldOut, RefundReason::ExpiredOverLimit];
        let refuses = self.chance(20).then(|| why[usize::from(self.chance(50))]);
        match (&command, refuses) {
            (Command::Pay(pay), Some(reason)) if self.model.is_late(pay) => {
                self.model.gate_refuses = Some(reason);
                let answer = self.model.execute(now.0, &command);
                self.model.gate_refuses = None;
                let Ok(Accepted::Payment { payment, .. }) = &answer else { panic!("{answer:?}") };
                let event = Event::PaymentRecorded { pay: pay.clone(), disposition: payment.disposition };
                let entry = Entry { seq: payment.seq, at: now, event };
                // The book has no gate: it learns by the ledger what this one refused.
                self.book.drain_journal(&mut self.journal);
                self.book.replay(LedgerKind::Gated, &entry).expect("a gate may refuse a late payment");
                self.journal.push(entry);
                self.reach("not granted late");
                (command, Gate::Refuses(reason), executed(answer))
            }
            (Command::Adjust { sku, how: Adjust::Correct, units, key }, Some(reason))
                if self.model.would_correct(*sku, *units, key) =>
            {
                self.reach("correction not granted");
                (command, Gate::Refuses(reason), Executed::Refused(Refusal::CorrectionTooLarge(None)))
            }
            _ => {
                let answer = self.ask_book(now, command.clone());
                (command, Gate::Grants, executed(answer))
            }
        }
    }

    /// Runs a transaction: now and then its commit is lost, and it is run again. Returns what it came to.
    fn transact<T: PartialEq + std::fmt::Debug>(
        &mut self,
        now: UnixMs,
        mut work: impl FnMut(&mut WorkingSet<'_>, &Tables) -> T,
    ) -> T {
        let mut lost = None;
        loop {
            let mut set = WorkingSet::new(&mut self.sales, now, correction_id);
            set.begin(self.tables.next_seq(), self.tables.last_at);
            let news: Vec<_> = self.tables.sale_entries(set.sales()).cloned().collect();
            news.iter().for_each(|entry| set.follow(entry).expect("the sales follow"));
            let result = work(&mut set, &self.tables);
            let is_ahead = set.sales_are_ahead();
            let effects = set.into_effects().expect("it has begun");
            if lost.is_none() && self.random.percent(5) {
                if is_ahead {
                    self.sales = Sales::new();
                }
                self.reach("commit lost");
                lost = Some((result, effects));
                continue;
            }
            if let Some((first, first_effects)) = &lost {
                assert_eq!((first, first_effects), (&result, &effects), "the same again comes to the same");
            }
            self.tables.store(effects);
            return result;
        }
    }

    fn admit(&mut self, now: UnixMs, orders: &[(Reservation, Outcome)]) {
        let incoming: Vec<_> = orders.iter().map(|(incoming, _)| incoming.clone()).collect();
        let outcomes = self.transact(now, |set, tables| {
            let needs = Needs::of_orders(&incoming);
            let found = tables.find(&needs);
            set.load(needs, found).expect("the rows are sound");
            incoming.iter().map(|order| set.admit(order)).collect::<Vec<_>>()
        });
        let mut seen = std::collections::BTreeSet::new();
        for ((incoming, expected), outcome) in orders.iter().zip(outcomes) {
            let id = incoming.placement.id;
            if !seen.insert(id) {
                self.reach("repeated in its batch");
            }
            // Of an order of an older epoch the gate of now is asked before, and takes the units.
            if let Outcome::Placed(_) = outcome {
                let free = self.tables.gate.get_mut(&id.sku).expect("it was created");
                *free = free.wrapping_sub(u64::from(incoming.placement.quantity));
            }
            match (expected, outcome) {
                // When it was rejected first is not the generator's to know.
                (Outcome::Rejected(expected), Outcome::Rejected(rejection)) if expected.at == UnixMs(0) => {
                    assert_eq!(*expected, Rejection { at: UnixMs(0), ..rejection });
                }
                (expected, outcome) => assert_eq!(*expected, outcome),
            }
        }
    }

    fn operate(&mut self, now: UnixMs, asked: &[(Command, Gate, Executed)]) {
        let operation =
            |command: &Command, grant| Operation::of(command.clone(), grant).expect("places nothing");
        let operations: Vec<_> =
            asked.iter().map(|(command, ..)| operation(command, Grant::NotAsked)).collect();
        let stale = self.random.percent(30);
        let (answers, claims) = self.transact(now, |set, tables| {
            let needs = Needs::of_operations(&operations);
            let found = tables.find(&needs);
            set.load(needs, found).expect("the rows are sound");
            let needs = set.needs_further(&operations);
            let found = tables.find(&needs);
            set.load(needs, found).expect("the rows are sound");
            let (mut answers, mut claims) = (Vec::new(), Vec::new());
            for (operation, (_, gate, _)) in operations.iter().zip(asked) {
                let answer = set.execute(operation);
                let Executed::NeedsClaim(claim) = answer else {
                    answers.push(answer);
                    continue;
                };
                let sku = match claim {
                    Claim::LatePayment(order) => order.id.sku,
                    Claim::Correction { id, .. } => id.sku,
                };
                let epoch = tables.skus.get(&sku).map_or(0, |sku| sku.epoch);
                if stale {
                    let grant = Grant::Taken { epoch: epoch + 1 };
                    assert_eq!(set.execute(&operation.with(grant)), Executed::NeedsClaim(claim));
                }
                claims.push((claim, *gate));
                answers.push(set.execute(&operation.with(match gate {
                    Gate::Grants => Grant::Taken { epoch },
                    Gate::Refuses(RefundReason::ExpiredOverLimit) => Grant::OverLimit,
                    Gate::Refuses(_) => Grant::SoldOut,
                })));
            }
            (answers, claims)
        });
        for (claim, gate) in claims {
            if stale {
                self.reach("stale grant");
            }
            match (claim, gate) {
                (Claim::LatePayment(_), Gate::Grants) => self.reach("granted late"),
                (Claim::Correction { .. }, Gate::Grants) => self.reach("correction granted"),
                _ => {}
            }
        }
        for ((_, _, expected), answer) in asked.iter().zip(answers) {
            assert_eq!(textless(expected.clone()), textless(answer));
        }
    }

    fn sweep(&mut self, now: UnixMs, max: usize) {
        self.transact(now, |set, tables| {
            let due = tables.due(set.at(), max);
            let needs = Needs::of_due(&due);
            let found = tables.find(&needs);
            set.load(needs, found).expect("the rows are sound");
            let due: Vec<_> = due.into_iter().map(|(id, _)| id).collect();
            set.expire(&due).expect("what is due is held");
        });
    }

    /// A gate is built anew, from the ledger as it stands.
    fn raise_epoch(&mut self, now: UnixMs) {
        let sku = SkuId(u32::try_from(self.random.below(u64::from(self.model.skus_len()))).expect("few"));
        let before = self.tables.skus[&sku].epoch;
        let epoch = self.transact(now, |set, tables| {
            let needs = Needs::of_skus([sku]);
            let found = tables.find(&needs);
            set.load(needs, found).expect("the rows are sound");
            set.raise_epoch(sku)
        });
        assert_eq!(epoch, Some(before + 1));
        let state = self.tables.skus[&sku];
        assert_eq!(state.epoch, before + 1);
        self.tables.gate.insert(sku, state.stock.available());
        self.reach("epoch raised");
    }

    /// Every table against the book.
    fn assert_same(&mut self) {
        let known = self.journal.len();
        self.book.drain_journal(&mut self.journal);
        self.book.drain_touched(|_, _| {});
        assert_eq!(self.tables.entries.len(), self.journal.len());
        let compared = known.min(self.tables.entries.len()).saturating_sub(ENTRIES_MAX);
        assert!(self.tables.entries[compared..] == self.journal[compared..], "the entries differ");
        let (book, tables) = (&self.book, &self.tables);
        assert_eq!(tables.skus.len(), self.model.skus_len() as usize);
        for (sku, state) in &tables.skus {
            assert_eq!((Some(state.stock), Some(state.orders)), (book.stock(*sku), book.orders_of(*sku)));
            assert_eq!(tables.gate[sku], state.stock.available(), "the gate's units of {sku:?}");
        }
        assert_eq!(tables.orders.len(), book.orders_len());
        let mut sales = Sales::new();
        tables.sale_entries(&Sales::new()).for_each(|entry| sales.replay(entry).expect("the sales follow"));
        for (id, row) in &tables.orders {
            let refund_due = tables.refunds.values().any(|order| order == id);
            assert_eq!(row.view(&sales, *id, refund_due).ok(), book.order(*id));
        }
        assert_eq!(tables.units.len(), book.units_len());
        for ((sku, buyer), units) in &tables.units {
            assert_eq!(*units, book.units(*sku, *buyer));
        }
        assert_eq!(tables.holds.len(), book.held_len());
        for (seq, pay_by) in &tables.holds {
            assert_eq!(book.order_at(*seq).and_then(|order| order.pay_by), Some(*pay_by));
        }
        let due: Vec<_> = book.refunds_due().map(|payment| (payment.seq, payment.pay.order)).collect();
        assert!(tables.refunds.iter().map(|(seq, order)| (*seq, *order)).eq(due));
        for (id, (_, epoch, reason)) in &self.rejected {
            let rejection = tables.rejections[id];
            assert_eq!((rejection.epoch, rejection.reason), (*epoch, *reason));
        }
        assert_eq!(tables.rejections.len(), self.rejected.len());
    }

    /// The entries make the same book again, for whoever audits them.
    fn assert_audited(&self) {
        let mut audited = Book::new();
        for entry in &self.tables.entries {
            audited.replay(LedgerKind::Gated, entry).expect("the ledger is consistent");
        }
        audited.check_invariants().expect("no invariant is broken");
        assert!(audited.refunds_due().eq(self.book.refunds_due()));
        for sku in self.tables.skus.keys() {
            assert_eq!(audited.stock(*sku), self.book.stock(*sku));
        }
    }
}

fn executed(answer: Result<Accepted, Refusal>) -> Executed {
    answer.map_or_else(Executed::Refused, Executed::Accepted)
}

/// Answers without the texts of refusals, which may say more where several servers sell.
fn textless(executed: Executed) -> Result<Accepted, Refusal> {
    match executed {
        Executed::Accepted(accepted) => Ok(accepted),
        Executed::Refused(refusal) => without_text(Err(refusal)),
        Executed::NeedsClaim(claim) => panic!("nobody was asked for {claim:?}"),
    }
}
