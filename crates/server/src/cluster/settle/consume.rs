//! From the broker to the ledger: what servers published, in one transaction per round.
//!
//! The ledger keeps how far each queue was consumed, in the transaction that keeps the orders. So a message is
//! kept once however often it is delivered, whoever consumes it, and whenever this process is killed. An engine
//! that fails pauses consumption; only a message that can't be understood is put aside, as a dead letter.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::Ordering;
use std::time::Duration;

use engine::handover::Reservation;
use engine::working_set::Outcome;
use engine::{OrderId, Refusal, UnixMs};

use crate::cluster::Core;
use crate::cluster::core::Options;
use crate::cluster::place::relay::is_of;
use crate::cluster::settle::report_to_gate;
use crate::cluster::settle::undecided::{Decision, Undecided, decide};
use crate::gate::{Found, Gate, GateError, Reserve};
use crate::intake::{Engine, Need};
use crate::ledger::mysql::Limits;
use crate::ledger::mysql::cluster::{ClusterLedger, LedgerError, ORDERS_MAX, Progress, fits};
use crate::queue::dead_letters::{DeadLetter, Record};
use crate::queue::{AdminError, Administer, Consume, Produce, PullError, Pulled, Queue, Topics, message};
use crate::recurring::Recurring;
use crate::time::Instant;

/// Why a message that can be read is put aside: the ledger could not store it.
const UNFIT: &str = "a number in it is too large, or the text of its buyer is empty or too long";
/// How often a server says that it lives, and takes its share of the queues.
const LEASE_INTERVAL: Duration = Duration::from_millis(500);
/// How often the settings of the broker and of the ledger are read again.
const SETTINGS_INTERVAL: Duration = Duration::from_secs(10);
/// How long the broker holds a pull that finds nothing.
const PULL_WAIT: Duration = Duration::from_millis(100);
/// While an engine fails: from one try to the next.
const PAUSE: Duration = Duration::from_millis(100);
/// Of a queue that has lost its newest messages, so many are read again: more can't have come until that was found out. What the
/// ledger has already is left as it is.
const READ_AGAIN_MAX: u64 = 100_000;
/// So often within one round, if epochs are raised meanwhile.
const ASKED_MAX: usize = 3;

/// From the last word of a ledger that says nothing any more to when it counts as away: the next sign of life of this server, and
/// for as long as that is tried.
pub fn ledger_missed_within(limits: &Limits) -> Duration {
    LEASE_INTERVAL + PULL_WAIT + limits.given_up_within()
}

/// The connections of a consumer.
#[derive(Debug)]
pub(in crate::cluster) struct Engines {
    pub(in crate::cluster) admin: Box<dyn Administer>,
    pub(in crate::cluster) consumer: Box<dyn Consume>,
    pub(in crate::cluster) producer: Box<dyn Produce>,
    pub(in crate::cluster) ledger: Box<dyn ClusterLedger>,
    pub(in crate::cluster) gate: Gate,
}

/// The stage that consumes. Lives on one thread.
#[derive(Debug)]
pub(in crate::cluster) struct Consuming<'a> {
    core: &'a Core,
    engines: Engines,
    /// The queues that are this server's, each with the offset of its next message.
    owned: Vec<(Queue, u64)>,
    /// The generation of each of them, in the same order.
    generations: Vec<u64>,
    /// The oldest message of each queue when it was first seen: where a queue that nobody has read yet begins.
    first: HashMap<Queue, u64>,
    /// The topic's queues when the name servers were last heard.
    known: Vec<Queue>,
    /// Those of them that could not be read since it leased them last.
    left_alone: Vec<(Queue, u64)>,
    /// Those whose messages are gone or damaged, until they are read again.
    broken: HashSet<Queue>,
    /// The broker refused to give messages of one.
    refused: Recurring,
    /// What the broker has stored as of a queue and does not have in it, if there is any.
    misplaced: HashMap<Queue, u64>,
    leased_at: Option<Instant>,
    settings_read_at: Option<Instant>,
    topics_made: bool,
    /// Until what was pulled with them is committed.
    undecided: HashMap<OrderId, Undecided>,
    /// When it was last not known any more what had been asked for.
    forgot_at: Option<Instant>,
    /// All that this server was given, what is left alone among it, with their generations.
    leased: Vec<(String, u64)>,
}

/// Why a round came to nothing.
#[derive(Debug, thiserror::Error)]
enum Interrupted {
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    #[error(transparent)]
    Pull(#[from] PullError),
    #[error(transparent)]
    Topics(#[from] AdminError),
    #[error("a dead letter could not be put aside: {0}")]
    DeadLetter(#[from] crate::queue::SendError),
}

impl<'a> Consuming<'a> {
    pub(in crate::cluster) fn new(core: &'a Core, engines: Engines) -> Consuming<'a> {
        Consuming {
            core,
            engines,
            owned: Vec::new(),
            generations: Vec::new(),
            first: HashMap::new(),
            known: Vec::new(),
            left_alone: Vec::new(),
            broken: HashSet::new(),
            refused: Recurring::new("a queue can't be read"),
            misplaced: HashMap::new(),
            leased_at: None,
            settings_read_at: None,
            topics_made: false,
            undecided: HashMap::new(),
            forgot_at: None,
            leased: Vec::new(),
        }
    }

    /// Runs until the server stops. What it was at is finished; its queues are given to the others.
    pub(in crate::cluster) fn run(mut self) {
        while !self.core.stopping.load(Ordering::Acquire) {
            match self.round() {
                Ok(()) => self.core.warnings.consuming.well(),
                Err(interrupted) => {
                    self.core.warnings.consuming.met(&interrupted);
                    self.note(&interrupted);
                    self.leased_at = None;
                    crate::time::sleep(PAUSE);
                }
            }
        }
        if let Err(error) = self.engines.ledger.leave(self.core.options.server_id) {
            tracing::warn!(%error, "the queues could not be given up; the others take them in a few seconds");
        }
    }

    fn note(&self, interrupted: &Interrupted) {
        match interrupted {
            Interrupted::Ledger(error) => {
                self.core.health.note_passing(Need::Ledger, error.to_string());
            }
            Interrupted::Topics(error) if error.is_lasting() => {
                self.core.health.note_fault(Need::Topics, Some(error.to_string()));
            }
            Interrupted::Topics(_) | Interrupted::Pull(_) | Interrupted::DeadLetter(_) => {}
        }
    }

    fn round(&mut self) -> Result<(), Interrupted> {
        if self.leased_at.is_none_or(|leased| leased.elapsed() >= LEASE_INTERVAL) {
            self.lease_queues()?;
        }
        if self.owned.is_empty() {
            crate::time::sleep(PAUSE);
            return Ok(());
        }
        let max = self.core.options.consume_batch_max;
        let pulled = match self.engines.consumer.pull(&self.owned, max, PULL_WAIT) {
            Ok(pulled) => pulled,
            Err(error) => return self.leave_alone(error),
        };
        self.note_read(&pulled);
        if pulled.iter().all(|pulled| pulled.messages.is_empty()) {
            return Ok(());
        }
        self.commit(pulled)
    }

    /// A queue that gives messages is read; so is each if nothing is wrong while there are none.
    fn note_read(&mut self, pulled: &[Pulled]) {
        if self.left_alone.is_empty() {
            self.refused.well();
        }
        if pulled.is_empty() && self.left_alone.is_empty() {
            self.broken.clear();
        }
        for Pulled { queue, misplaced, .. } in pulled {
            self.broken.remove(queue);
            let known = self.misplaced.insert(queue.clone(), *misplaced).unwrap_or_default();
            if *misplaced > known {
                tracing::error!(
                    %queue,
                    messages = misplaced - known,
                    "the broker has stored messages that are not in their queue: orders among them come by their \
                     reservations. A fault made it so, a full disk say; a restart of the broker ends it"
                );
            }
        }
        self.report_broken();
    }

    /// Also of a server whose queues have gone to others, which reads nothing any more.
    fn report_broken(&self) {
        let misplaced: u64 = self.misplaced.values().sum();
        self.core.counts.misplaced.set(i64::try_from(misplaced).unwrap_or(i64::MAX));
        if self.broken.is_empty() {
            self.core.health.note(Need::QueueWhole, true);
        }
    }

    fn lease_queues(&mut self) -> Result<(), Interrupted> {
        if !self.topics_made {
            let Topics { orders, messages, dead_letters } = &self.core.options.topics;
            self.engines.admin.create_topics(&[orders, messages, dead_letters])?;
            self.topics_made = true;
            self.core.health.note(Need::Topics, true);
        }
        // The name servers may be away while the brokers are not: what was known serves on.
        match self.engines.consumer.queues() {
            Ok(queues) => self.known = queues,
            Err(error) if self.known.is_empty() => return Err(error.into()),
            Err(error) => tracing::debug!(%error, "the name servers do not answer"),
        }
        let offered = self.queues_reached()?;
        match self.engines.admin.disk_used() {
            Ok(used) => {
                let full = used * 100.0 > f64::from(self.core.options.broker_disk_percent_max);
                self.core.health.note(Need::BrokerDisk, !full);
            }
            Err(error) => tracing::debug!(%error, "the brokers did not say how full their disks are"),
        }
        self.read_settings()?;
        let Options { server_id, server_name, .. } = &self.core.options;
        self.engines.ledger.heartbeat(*server_id, server_name)?;
        let assigned = self.engines.ledger.lease_queues(*server_id, &offered)?;
        let leased = assigned.iter().map(|assigned| (assigned.queue.clone(), assigned.generation)).collect();
        if self.leased != leased {
            // Somebody else may have read them in between, and asked for what is there.
            self.forget_undecided();
            self.leased = leased;
        }
        self.generations = assigned.iter().map(|assigned| assigned.generation).collect();
        self.owned = assigned
            .into_iter()
            .filter_map(|assigned| Some((assigned.queue.parse().ok()?, assigned.next_offset)))
            .collect();
        self.core.note_queue_rows(self.engines.ledger.queue_rows()?);
        self.core.health.note(Need::Ledger, true);
        self.left_alone.clear();
        let owned = &self.owned;
        let is_owned = |queue: &Queue| owned.iter().any(|(owned, _)| owned == queue);
        self.broken.retain(is_owned);
        self.misplaced.retain(|queue, _| is_owned(queue));
        self.report_broken();
        self.leased_at = Some(Instant::now());
        Ok(())
    }

    /// What the broker's messages and the ledger's commits survive.
    fn read_settings(&mut self) -> Result<(), Interrupted> {
        if self.settings_read_at.is_some_and(|at| at.elapsed() < SETTINGS_INTERVAL) {
            return Ok(());
        }
        let ledger = self.engines.ledger.settings()?;
        self.core.health.note_settings(Engine::Ledger, vec![ledger]);
        // Without a name server consumption goes on, by what is known.
        match self.engines.admin.settings() {
            Ok(brokers) => self.core.health.note_settings(Engine::Broker, brokers),
            Err(error) => tracing::debug!(%error, "the brokers' settings could not be read"),
        }
        self.settings_read_at = Some(Instant::now());
        Ok(())
    }

    /// The queues that this server reaches, each with where it begins for who has never read it: only these are kept, the
    /// others are left to servers that reach them.
    fn queues_reached(&mut self) -> Result<Vec<(String, u64)>, Interrupted> {
        let (mut offered, mut failed) = (Vec::new(), None);
        let mut silent: Option<String> = None;
        for queue in self.known.clone() {
            // One time-out for a broker is enough.
            if silent.as_ref() == Some(&queue.broker) {
                continue;
            }
            match self.beginning_of(&queue) {
                Ok(first) => offered.push((queue.to_string(), first)),
                Err(error) => {
                    silent = Some(queue.broker);
                    failed = Some(error);
                }
            }
        }
        match failed {
            Some(error) if offered.is_empty() => Err(error.into()),
            _ => Ok(offered),
        }
    }

    /// Of a queue whose broker answers at this moment.
    fn beginning_of(&mut self, queue: &Queue) -> Result<u64, PullError> {
        let now = self.engines.consumer.min_offset(queue)?;
        Ok(*self.first.entry(queue.clone()).or_insert(now))
    }

    /// A queue that can't be read is left alone until queues are leased again; the others are read on.
    fn leave_alone(&mut self, error: PullError) -> Result<(), Interrupted> {
        let queue = match &error {
            PullError::Deleted { queue, .. }
            | PullError::Damaged { queue, .. }
            | PullError::Refused { queue, .. } => queue.clone(),
            PullError::Ahead { queue, end, .. } => {
                self.rewind(queue, *end)?;
                queue.clone()
            }
            PullError::Unreachable(_) => return Err(error.into()),
        };
        if error.is_retryable() {
            self.refused.met(&error);
        } else {
            if self.broken.insert(queue.clone()) {
                tracing::error!(%error, "a queue can't be read");
            }
            self.core.health.note(Need::QueueWhole, false);
        }
        if let Some(at) = self.owned.iter().position(|(owned, _)| *owned == queue) {
            self.left_alone.push(self.owned.remove(at));
            self.generations.remove(at);
        }
        Ok(())
    }

    /// The broker has lost its newest messages, all of which were consumed: what it has stored since has their offsets, so it is
    /// read again as far as it may hold that.
    fn rewind(&mut self, queue: &Queue, end: u64) -> Result<(), Interrupted> {
        if let Some(at) = self.owned.iter().position(|(owned, _)| owned == queue) {
            let (owner, generation) = (self.core.options.server_id, self.generations[at]);
            let first = self.engines.consumer.min_offset(queue)?;
            let to = first.max(end.saturating_sub(READ_AGAIN_MAX));
            self.engines.ledger.rewind_queue(&queue.to_string(), owner, generation, to)?;
        }
        Ok(())
    }

    fn commit(&mut self, pulled: Vec<Pulled>) -> Result<(), Interrupted> {
        let (mut progress, mut orders) = (Vec::new(), Vec::new());
        for Pulled { queue, messages, next_offset, .. } in pulled {
            let Some(owned) = self.owned.iter().position(|(owned, _)| *owned == queue) else { continue };
            // A transaction is bounded; what does not fit is pulled again.
            let room = ORDERS_MAX - orders.len();
            let to = messages.get(room).map_or(next_offset, |(offset, _)| *offset);
            for (offset, body) in messages.into_iter().take(room) {
                match message::decode(&body) {
                    Ok(order) if fits(&order) => orders.push(order),
                    Ok(_) => self.put_aside(&queue, offset, &body, UNFIT)?,
                    Err(why) => self.put_aside(&queue, offset, &body, &why.to_string())?,
                }
            }
            let progressed = Progress {
                queue: queue.to_string(),
                owner: self.core.options.server_id,
                generation: self.generations[owned],
                from: self.owned[owned].1,
                to,
            };
            progress.push((owned, progressed));
        }
        let (places, progress): (Vec<_>, Vec<_>) = progress.into_iter().unzip();
        let started = Instant::now();
        self.core.epochs.hear(orders.iter().map(|order| (order.placement.id.sku, order.epoch)));
        let outcomes = match self.take_in(&progress, &mut orders) {
            Ok(Some(outcomes)) => outcomes,
            Ok(None) => {
                crate::time::sleep(PAUSE);
                return Ok(());
            }
            Err(LedgerError::Fenced(queue)) => {
                tracing::debug!(%queue, "another server reads it now");
                self.forget_undecided();
                self.leased_at = None;
                crate::time::sleep(PAUSE);
                return Ok(());
            }
            Err(error) => {
                // What the gates have taken they say again.
                self.undecided.values_mut().for_each(|undecided| undecided.taken = None);
                return Err(error.into());
            }
        };
        if !self.undecided.is_empty() {
            for order in &orders {
                self.undecided.remove(&order.placement.id);
            }
            self.undecided.retain(|_, undecided| undecided.is_known(started));
        }
        self.core.metrics.commit_seconds.observe(started.elapsed());
        self.core.counts.consumed.inc_by(orders.len() as u64);
        self.core.note_progress(&progress);
        for (owned, progressed) in places.into_iter().zip(progress) {
            self.owned[owned].1 = progressed.to;
        }
        self.core.status.nudge();
        self.core.count_outcomes(&outcomes);
        self.core.count_holds_ended(&mut *self.engines.ledger);
        report_to_gate(self.core, &mut self.engines.gate, &orders, &outcomes);
        Ok(())
    }

    /// Takes orders in. One of an older epoch that is new to the ledger takes its units at the gate of now first, which did not
    /// know of it, and may have given them to somebody whose order was accepted. `None`: the gate does not say yet.
    fn take_in(
        &mut self,
        progress: &[Progress],
        orders: &mut [Reservation],
    ) -> Result<Option<Vec<Outcome>>, LedgerError> {
        let mut refusals = HashMap::new();
        for _ in 0..ASKED_MAX {
            let refused = |id| refusals.get(&id).copied();
            // In this order: whoever stands still in between, and does not own the queues any more, asks the gate too late.
            let (time, now) = (self.core.majority_time(), self.core.clock.now());
            let ask = match self.engines.ledger.consume(now, progress, orders, &refused)? {
                Ok(outcomes) => return Ok(Some(outcomes)),
                Err(ask) => ask,
            };
            let asked = orders.iter_mut().filter(|order| ask.contains(&order.placement.id)).collect();
            if !self.reserve_again(asked, time, &mut refusals) {
                break;
            }
        }
        Ok(None)
    }

    fn forget_undecided(&mut self) {
        self.undecided.clear();
        self.forgot_at = Some(Instant::now());
    }

    /// At the gates that there are now, whose reservations they have then. Whether it is known of each.
    fn reserve_again(
        &mut self,
        orders: Vec<&mut Reservation>,
        time: Option<UnixMs>,
        refusals: &mut HashMap<OrderId, Refusal>,
    ) -> bool {
        let mut refuse = |id: OrderId, why| {
            tracing::warn!(%id, ?why, "an order of an older epoch came too late");
            refusals.insert(id, why);
        };
        let (forgot_at, now) = (self.forgot_at, Instant::now());
        let (mut asked, mut over, mut all) = (Vec::with_capacity(orders.len()), Vec::new(), true);
        for order in orders {
            let undecided = self.undecided.entry(order.placement.id).or_insert_with(|| Undecided::new(now));
            if let Some((epoch, at)) = undecided.taken {
                if epoch != order.epoch {
                    (order.epoch, order.reserved_at) = (epoch, at);
                    continue;
                }
                // It is over, too.
                undecided.taken = None;
                self.core.epochs.hear([(order.placement.id.sku, epoch + 1)]);
            }
            match (undecided.is_over(now), undecided.may_be_reserved(forgot_at, now)) {
                (false, _) => asked.push(order),
                (true, true) => all = false,
                (true, false) => over.push(order),
            }
        }
        let records: Vec<_> = asked.iter().map(|order| record_of(order)).collect();
        let requests: Vec<_> = (asked.iter().zip(&records))
            .map(|(order, record)| Reserve { placement: order.placement, limit: None, record })
            .collect();
        let reserved = self.engines.gate.reserve_again(&requests, time);
        let now = Instant::now();
        for (order, reserved) in asked.into_iter().zip(reserved) {
            let undecided = self.undecided.entry(order.placement.id).or_insert_with(|| Undecided::new(now));
            let is_unanswered = matches!(reserved, Err(GateError::Unknown(_)));
            undecided.unanswered = if is_unanswered { Some(now) } else { undecided.unanswered };
            match decide(order, reserved) {
                Decision::Taken { epoch, at } => {
                    undecided.taken = Some((epoch, at));
                    (order.epoch, order.reserved_at) = (epoch, at);
                }
                Decision::Refused(why) if !undecided.may_be_reserved(forgot_at, now) => {
                    refuse(order.placement.id, why)
                }
                // What was asked before may take the units still.
                Decision::Refused(_) | Decision::NotYet => all = false,
            }
        }
        // Nothing that was asked reaches the gate any more: what it has now it keeps.
        let ids: Vec<_> = over.iter().map(|order| order.placement.id).collect();
        for (order, found) in over.into_iter().zip(self.engines.gate.find(&ids)) {
            let undecided = self.undecided.entry(order.placement.id).or_insert_with(|| Undecided::new(now));
            match found {
                Ok(Some(Found::Open(open))) if is_of(&open, &order.placement) => {
                    undecided.taken = Some((open.epoch, open.at));
                    (order.epoch, order.reserved_at) = (open.epoch, open.at);
                }
                Ok(_) | Err(GateError::Closed(_)) => refuse(order.placement.id, Refusal::SoldOut),
                // That this asking failed says nothing; in the end it is rejected all the same.
                Err(_) if undecided.is_looked_for(Instant::now()) => all = false,
                Err(_) => refuse(order.placement.id, Refusal::SoldOut),
            }
        }
        all
    }

    fn put_aside(&mut self, queue: &Queue, offset: u64, body: &[u8], why: &str) -> Result<(), Interrupted> {
        tracing::error!(%queue, offset, why, "a message can't be understood: it is put aside as a dead letter");
        let letter = DeadLetter::new(queue.clone(), offset, why.to_owned(), self.core.clock.now(), body);
        let record = Record::Letter(letter).encode();
        self.engines.producer.send(&self.core.options.topics.dead_letters, &[&record])?;
        self.core.counts.dead_letters.inc();
        Ok(())
    }
}

/// As the gate is to keep it; it knows itself when, and by which epoch.
fn record_of(order: &Reservation) -> Vec<u8> {
    let mut record = Vec::new();
    message::encode(&Reservation { epoch: 0, reserved_at: UnixMs(0), ..order.clone() }, &mut record);
    record
}
