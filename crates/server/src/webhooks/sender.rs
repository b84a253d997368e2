//! The thread of one endpoint: reads events, sends them in rounds, and notes how far it came.
//!
//! A round takes what is due of the waiting events and then new ones, in the order of the ledger. Events about one order (or payment,
//! or sale) are sent one after the other, and wait behind one that failed; others pass.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use engine::UnixMs;

use super::breaker::Breaker;
use super::control::Control;
use super::counts::EndpointCounts;
use super::deliver::NotDelivered;
use super::duty::{Duty, Now};
use super::lanes::{self, DeliveryOutcome, Job};
use super::limits::{DEAD_MAX, WAITING_MAX};
use super::schedule::{self, NextAttempt};
use super::{Counts, Endpoint};
use crate::clock::Clock;
use crate::intake::{Health, Remark, Remarks};
use crate::ledger::{EndpointProgress, EventReader, OpenError, StoredEndpoint, UnansweredEvent};
use crate::recurring::Recurring;

/// Events of one round.
const ROUND_MAX: usize = 1_000;
/// Between two looks while there is nothing to send.
const IDLE_PAUSE: Duration = Duration::from_millis(100);
/// Between two looks while another server notifies the shop.
const LOOK_PAUSE: Duration = Duration::from_secs(1);
/// After an error of the ledger.
const LEDGER_PAUSE: Duration = Duration::from_secs(1);

/// What the senders of a server share with others.
#[derive(Clone, Debug)]
pub struct Surroundings {
    pub clock: Arc<Clock>,
    pub duty: Arc<Duty>,
    pub counts: Arc<Counts>,
    pub health: Arc<Health>,
}

/// Sends to one endpoint.
#[derive(Debug)]
pub struct Sender {
    endpoint: Endpoint,
    reader: EventReader,
    shared: Surroundings,
    /// Its place among the endpoints.
    place: usize,
    control: Arc<Control>,
    counts: EndpointCounts,
    /// The n-th time that this is this server's task, as far as the sender has read how far the endpoint has come.
    number: Option<u64>,
    sent_to: u64,
    disabled: bool,
    waiting: BTreeMap<u64, UnansweredEvent>,
    breaker: Breaker,
    ledger_faults: Recurring,
    /// Spreads the pauses.
    chance: u64,
}

impl Sender {
    /// A sender of an endpoint, which goes on where that has come to. One that nobody has heard of yet is notified of what happens
    /// from now on.
    ///
    /// # Errors
    /// If the ledger cannot be read.
    pub fn new(
        endpoint: Endpoint,
        place: usize,
        reader: EventReader,
        shared: Surroundings,
    ) -> Result<Sender, OpenError> {
        let (name, url) = (endpoint.name.clone(), endpoint.url.to_string());
        let mut sender = Sender {
            counts: shared.counts.of(&name),
            control: Arc::new(Control::new(name, url, Arc::clone(&shared.duty))),
            chance: shared.clock.wall().0,
            endpoint,
            reader,
            shared,
            place,
            number: None,
            sent_to: 0,
            disabled: false,
            waiting: BTreeMap::new(),
            breaker: Breaker::default(),
            ledger_faults: Recurring::new("events can't be read from the ledger"),
        };
        match sender.shared.duty.now() {
            Now::Here(number) => sender.begin(number)?,
            Now::Elsewhere | Now::Stopped => sender.look()?,
        }
        Ok(sender)
    }

    pub fn control(&self) -> Arc<Control> {
        Arc::clone(&self.control)
    }

    /// Runs until the program ends. What it was sending then is sent again by the next one.
    pub fn run(mut self) {
        loop {
            let now = self.shared.duty.now();
            let done = match now {
                Now::Stopped => return,
                Now::Elsewhere => self.look().map(|()| LOOK_PAUSE),
                Now::Here(number) => self.send(number),
            };
            self.send_tests();
            let pause = done.unwrap_or_else(|error| {
                self.ledger_faults.met(&error);
                LEDGER_PAUSE
            });
            if pause > Duration::ZERO {
                self.shared.duty.pause(now, pause);
            }
        }
    }

    /// One round; how long to wait for the next one.
    fn send(&mut self, number: u64) -> Result<Duration, OpenError> {
        if self.number != Some(number) {
            self.begin(number)?;
        }
        Ok(if self.round(Now::Here(number))? { Duration::ZERO } else { IDLE_PAUSE })
    }

    /// Goes on from what the ledger has.
    fn begin(&mut self, number: u64) -> Result<(), OpenError> {
        let last = self.reader.last()?;
        let new = StoredEndpoint { sent_to: last, ..StoredEndpoint::default() };
        let mut stored = self.reader.endpoint(&self.endpoint.name)?.unwrap_or(new);
        if stored.sent_to > last {
            tracing::error!(
                endpoint = self.endpoint.name,
                sent_to = stored.sent_to,
                last,
                "the ledger ends before what was sent to this endpoint: it is an older one; events go on from its end"
            );
            stored.sent_to = last;
        }
        self.take(stored);
        self.number = Some(number);
        self.note(Vec::new(), Vec::new());
        Ok(())
    }

    /// Shows what another server stores of the endpoint.
    fn look(&mut self) -> Result<(), OpenError> {
        self.number = None;
        let stored = self.reader.endpoint(&self.endpoint.name)?.unwrap_or_default();
        self.take(stored);
        self.show();
        self.ledger_faults.well();
        Ok(())
    }

    fn take(&mut self, stored: StoredEndpoint) {
        (self.sent_to, self.disabled) = (stored.sent_to, stored.disabled);
        self.waiting = stored.waiting.into_iter().map(|row| (row.seq, row)).collect();
        self.breaker = Breaker::default();
    }

    fn send_tests(&self) {
        for number in self.control.take_tests() {
            let sent = self.endpoint.to.test(number, self.shared.clock.wall().0);
            self.control.show(|state| state.test = Some((number, sent.err().map(|error| error.why))));
        }
    }

    /// Sends what there is, at most [`ROUND_MAX`]; returns whether there was anything.
    fn round(&mut self, duty: Now) -> Result<bool, OpenError> {
        let now = self.shared.clock.wall();
        let Some(failures_left) = self.breaker.failures_left(now).filter(|_| !self.disabled) else {
            return Ok(false);
        };
        let mut changed = Vec::new();
        let mut jobs = self.due(now)?;
        let before = self.sent_to;
        if jobs.len() < ROUND_MAX && self.alive() < WAITING_MAX {
            self.read_new(now, &mut jobs, &mut changed)?;
        }
        self.ledger_faults.well();
        if jobs.is_empty() && changed.is_empty() && self.sent_to == before {
            return Ok(false);
        }
        let Sender { endpoint, shared, .. } = &*self;
        let answered = lanes::send(endpoint, (&shared.duty, duty), &mut jobs, failures_left, &shared.clock);
        let answered = self.judge(jobs, answered, now, &mut changed);
        self.note(changed, answered);
        Ok(true)
    }

    fn alive(&self) -> usize {
        self.waiting.values().filter(|row| !row.dead).count()
    }

    /// The waiting events whose time has come: the first about each thing.
    fn due(&mut self, now: UnixMs) -> Result<Vec<Job>, OpenError> {
        let mut first = HashSet::new();
        let due: Vec<UnansweredEvent> = self
            .waiting
            .values()
            .filter(|row| !row.dead && first.insert(row.about.as_str()) && schedule::is_due(row.next_at, now))
            .take(ROUND_MAX)
            .cloned()
            .collect();
        let mut jobs = Vec::with_capacity(due.len());
        for row in due {
            let found = self.reader.read(row.seq - 1, row.seq)?.events.pop();
            match found.filter(|event| self.endpoint.filter.has(event)) {
                Some(event) => {
                    jobs.push(Job {
                        event,
                        about: row.about.clone(),
                        waiting: Some(row),
                        outcome: DeliveryOutcome::NotTried,
                    });
                }
                // Nobody wants it any more.
                None => {
                    self.waiting.remove(&row.seq);
                    self.note(Vec::new(), vec![row.seq]);
                }
            }
        }
        Ok(jobs)
    }

    /// New events; those that are about something that waits, wait behind it.
    fn read_new(
        &mut self,
        now: UnixMs,
        jobs: &mut Vec<Job>,
        changed: &mut Vec<UnansweredEvent>,
    ) -> Result<(), OpenError> {
        let page = self.reader.read(self.sent_to, u64::MAX)?;
        self.sent_to = page.to;
        let blocked: HashSet<String> =
            self.waiting.values().filter(|row| !row.dead).map(|row| row.about.clone()).collect();
        for event in page.events.into_iter().filter(|event| self.endpoint.filter.has(event)) {
            let about = event.about();
            if blocked.contains(&about) {
                let row = behind(event.seq, about, now);
                self.waiting.insert(row.seq, row.clone());
                changed.push(row);
            } else {
                jobs.push(Job { event, about, waiting: None, outcome: DeliveryOutcome::NotTried });
            }
        }
        Ok(())
    }

    /// What becomes of the events; returns those that wait no more.
    fn judge(
        &mut self,
        jobs: Vec<Job>,
        (answered, failures): (bool, u32),
        now: UnixMs,
        changed: &mut Vec<UnansweredEvent>,
    ) -> Vec<u64> {
        let name = self.endpoint.name.clone();
        if self.breaker.judge(answered, failures, now) {
            tracing::error!(
                endpoint = name,
                "an endpoint of the shop fails again and again: it is left alone for a while"
            );
        }
        let mut done = Vec::new();
        for Job { event, about, waiting, outcome } in jobs {
            let row = waiting.clone().unwrap_or_else(|| behind(event.seq, about, now));
            let row = match outcome {
                DeliveryOutcome::Answered => {
                    self.counts.answered.inc();
                    if self.waiting.remove(&event.seq).is_some() {
                        done.push(event.seq);
                    }
                    continue;
                }
                DeliveryOutcome::NotTried if waiting.is_some() => continue,
                DeliveryOutcome::NotTried => row,
                DeliveryOutcome::Failed(why) => self.failed(row, why, now),
            };
            self.waiting.insert(row.seq, row.clone());
            changed.push(row);
        }
        self.forget_dead(&mut done);
        done
    }

    fn failed(&mut self, mut row: UnansweredEvent, why: NotDelivered, now: UnixMs) -> UnansweredEvent {
        self.counts.failed.inc();
        if why.gone {
            self.disabled = true;
            tracing::error!(
                endpoint = self.endpoint.name,
                "the endpoint answered 410, it is gone: nothing is sent to it any more"
            );
        }
        row.attempts = row.attempts.saturating_add(1);
        self.chance =
            self.chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let next = match why.hopeless {
            true => NextAttempt::GivenUp,
            false => schedule::next(row.attempts, row.since, now, why.retry_after, self.chance >> 33),
        };
        match next {
            NextAttempt::At(at) => row.next_at = at,
            NextAttempt::GivenUp => {
                row.dead = true;
                tracing::error!(
                    endpoint = self.endpoint.name,
                    event = row.seq,
                    attempts = row.attempts,
                    error = why.why,
                    "an event was given up; once the endpoint works: doorbuster webhooks replay"
                );
            }
        }
        self.control.show(|state| state.error.clone_from(&why.why));
        row.error = why.why;
        row
    }

    /// The oldest of too many dead ones; the ledger still has their events.
    fn forget_dead(&mut self, done: &mut Vec<u64>) {
        let dead: Vec<u64> = self.waiting.values().filter(|row| row.dead).map(|row| row.seq).collect();
        for seq in &dead[..dead.len().saturating_sub(DEAD_MAX)] {
            self.waiting.remove(seq);
            done.push(*seq);
        }
    }

    /// What is to be stored, and shown.
    fn note(&self, waiting: Vec<UnansweredEvent>, answered: Vec<u64>) {
        let Some(number) = self.number else { return };
        let progress = EndpointProgress { sent_to: self.sent_to, disabled: self.disabled, waiting, answered };
        self.shared.duty.note(number, &self.endpoint.name, progress);
        self.show();
    }

    fn show(&self) {
        let alive = self.waiting.values().filter(|row| !row.dead);
        let waiting_since = alive.clone().map(|row| row.since).min();
        let waiting = alive.count();
        self.control.show(|state| {
            state.here = self.number.is_some();
            state.sent_to = self.sent_to;
            (state.waiting, state.waiting_since) = (waiting, waiting_since);
            state.dead = self.waiting.len() - waiting;
            state.disabled = self.disabled;
            state.paused_until = self.breaker.paused_until();
        });
        let state = self.control.state();
        self.counts.show(&state);
        let mut remark = Remark::default();
        let name = &self.endpoint.name;
        if state.here && state.dead > 0 {
            let events = state.dead;
            remark.add(&"given up", format!("the shop's endpoint {name}: {events} events were given up"));
        }
        if state.here && state.paused_until.is_some() {
            let error = &state.error;
            remark.add(&"paused", format!("the shop's endpoint {name} fails again and again: {error}"));
        }
        self.shared.health.remark(Remarks::Webhook(self.place), remark);
    }
}

/// The row of an event that was not sent yet.
fn behind(seq: u64, about: String, now: UnixMs) -> UnansweredEvent {
    UnansweredEvent {
        seq,
        about,
        since: now,
        attempts: 0,
        next_at: UnixMs(0),
        dead: false,
        error: String::new(),
    }
}
