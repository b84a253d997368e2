//! Watching the queues, on every server: how many messages wait in all of them together, which bounds what is accepted,
//! and whether one is missing that may hold orders.
//!
//! How far a queue goes its broker says; how far it was consumed stands in the ledger, and is handed on by the stage that
//! consumes. So a server without queues of its own knows the sum as well as their owner. While the ledger is away, nothing
//! is consumed and the sum still holds; a server that alone is cut off from it counts too much rather than too little.
//! What a broker had that does not answer goes on counting as it was: it takes nothing either.
//!
//! Must not: ask the ledger, which may take seconds to say no.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::cluster::Core;
use crate::cluster::queues::{Faults, Queues, look_for};
use crate::intake::{Need, Remark, Remarks};
use crate::ledger::mysql::cluster::QueueRow;
use crate::queue::{AdminError, Administer, Consume, PullError, Queue};
use crate::time::Instant;

/// Between two looks; with the half second in which the ledger is read, the bound is known within one.
const INTERVAL: Duration = Duration::from_millis(400);
/// How long the sum is believed while no broker says how far its queues go. After that no order is taken.
const SUM_AGE_MAX: Duration = Duration::from_secs(5);
/// Of a queue that nobody consumes for long.
const SEEN_MAX: usize = 512;
/// Looks without an answer of a name server after which they are said to be away: one slow answer is none.
const UNLISTED_MIN: u32 = 3;
/// Between two looks for what is missing, while something is.
const MISSING_INTERVAL: Duration = Duration::from_secs(2);

/// The connections of the watch.
#[derive(Debug)]
pub(in crate::cluster) struct Engines {
    pub(in crate::cluster) admin: Box<dyn Administer>,
    pub(in crate::cluster) consumer: Box<dyn Consume>,
}

/// The stage on its thread: carries out what the watch wants.
#[derive(Debug)]
pub(in crate::cluster) struct Watching<'a> {
    core: &'a Core,
    engines: Engines,
    /// For how many looks in a row the name servers have said nothing.
    unlisted: u32,
}

impl<'a> Watching<'a> {
    pub(in crate::cluster) fn new(core: &'a Core, engines: Engines) -> Watching<'a> {
        Watching { core, engines, unlisted: 0 }
    }

    /// Runs until the server stops.
    pub(in crate::cluster) fn run(mut self) {
        let (mut watch, mut came) = (Watch::default(), Came::Done);
        while !self.core.stopping.load(Ordering::Acquire) {
            let wanted = watch.step(Instant::now(), came);
            came = self.carry_out(wanted);
        }
    }

    fn carry_out(&mut self, wanted: Wanted<'_>) -> Came {
        match wanted {
            Wanted::Queues => {
                let queues = self.engines.consumer.queues();
                self.report_name_servers(queues.as_ref().err());
                return Came::Queues(queues);
            }
            Wanted::End(queue) => return Came::End(self.engines.consumer.max_offset(queue)),
            Wanted::Rows => return Came::Rows(self.core.queue_rows()),
            Wanted::Survey(rows) => {
                let topic = &self.core.options.topics.orders;
                return Came::Survey(look_for(rows, &mut *self.engines.admin, topic));
            }
            Wanted::ReportBacklog { backlog, age, known } => self.report_backlog(backlog, age, known),
            Wanted::ReportMissing(faults) => self.report_missing(faults),
            Wanted::Pause => self.core.wait(INTERVAL),
        }
        Came::Done
    }

    /// Orders go on without them, by what they said last, until a broker moves or a server starts.
    fn report_name_servers(&mut self, error: Option<&PullError>) {
        self.unlisted = if error.is_some() { self.unlisted.saturating_add(1) } else { 0 };
        let mut remark = Remark::default();
        if let Some(error) = error.filter(|_| self.unlisted >= UNLISTED_MIN) {
            let text = format!("the name servers (RocketMQ) don't say where the brokers are: {error}");
            remark.add(&"name servers", text);
        }
        self.core.health.remark(Remarks::NameServers, remark);
    }

    fn report_backlog(&self, backlog: u64, age: Duration, known: Option<bool>) {
        self.core.backlog.store(backlog, Ordering::Relaxed);
        self.core.counts.backlog.set(i64::try_from(backlog).unwrap_or(i64::MAX));
        self.core.counts.backlog_age_ms.set(i64::try_from(age.as_millis()).unwrap_or(i64::MAX));
        if let Some(known) = known {
            self.core.health.note(Need::Backlog, known);
        }
    }

    fn report_missing(&self, faults: &Faults) {
        // While what sells is open, nothing waits for what is missing; it is shown all the same.
        let (waits, shown) = match faults.blocking() {
            Some(fault) if self.core.live_gate_closed.load(Ordering::Relaxed) => (Some(fault), Vec::new()),
            _ => (None, faults.all()),
        };
        self.core.health.note_fault(Need::QueuesThere, waits);
        let mut remark = Remark::default();
        shown.iter().for_each(|fault| remark.add(fault, fault));
        self.core.health.remark(Remarks::Queues, remark);
    }
}

/// What the watch wants next.
#[derive(Debug)]
enum Wanted<'a> {
    /// The topic's queues, of the name servers.
    Queues,
    /// How far this queue goes, of its broker.
    End(&'a Queue),
    /// The queues as the ledger was last seen to have them.
    Rows,
    /// These queues, of every broker.
    Survey(Vec<QueueRow>),
    /// `age`: for how long the oldest of them has waited; `known`: whether the sum can be believed, `None`: nothing is to be said of
    /// that yet.
    ReportBacklog {
        backlog: u64,
        age: Duration,
        known: Option<bool>,
    },
    ReportMissing(&'a Faults),
    /// A while until the next round.
    Pause,
}

/// What came of it.
#[derive(Debug)]
enum Came {
    /// Of the beginning, of a pause, and of what was reported.
    Done,
    Queues(Result<Vec<Queue>, PullError>),
    End(Result<u64, PullError>),
    Rows(Option<Vec<QueueRow>>),
    Survey(Result<Queues, AdminError>),
}

/// What comes when what was reported is done.
#[derive(Debug, Default)]
enum Then {
    #[default]
    Begin,
    LookForMissing(Vec<QueueRow>),
    Pause,
}

/// The watch itself, in steps (docs/decisions/040-time-of-the-stages.md): without engines, threads or a clock.
#[derive(Debug, Default)]
struct Watch {
    then: Then,
    /// The topic's queues when the name servers were last heard.
    listed: Vec<Queue>,
    /// Of these, which are still to be asked for in this round; the first one is on its way.
    to_ask: VecDeque<Queue>,
    /// Brokers that have not answered in this round.
    silent: BTreeSet<String>,
    /// How far each queue went when its broker last said so.
    ends: HashMap<Queue, u64>,
    /// What of them is not consumed.
    waiting: HashMap<Queue, Waiting>,
    /// When a broker last did.
    heard_at: Option<Instant>,
    missing_at: Option<Instant>,
    faults: Faults,
}

impl Watch {
    /// What is to be done after this has come, at this time. Each is carried out before the next step.
    fn step(&mut self, now: Instant, came: Came) -> Wanted<'_> {
        match came {
            Came::Done => match std::mem::take(&mut self.then) {
                Then::Begin => Wanted::Queues,
                Then::LookForMissing(rows) => self.look_for_missing(now, rows),
                Then::Pause => Wanted::Pause,
            },
            Came::Queues(queues) => {
                // The name servers may be away while the brokers are not: what was known serves on.
                match queues {
                    Ok(queues) => self.listed = queues,
                    Err(error) => tracing::debug!(%error, "the name servers do not answer"),
                }
                self.silent.clear();
                self.to_ask = self.listed.iter().cloned().collect();
                self.ask_for_end()
            }
            Came::End(end) => {
                self.hear_end(now, end);
                self.ask_for_end()
            }
            Came::Rows(rows) => self.report_backlog(now, rows),
            Came::Survey(found) => {
                match found {
                    Ok(queues) => self.faults = Faults::of(&queues),
                    Err(error) => tracing::debug!(%error, "the brokers could not be asked for queues"),
                }
                self.missing_at = Some(now);
                self.report_missing()
            }
        }
    }

    fn hear_end(&mut self, now: Instant, end: Result<u64, PullError>) {
        let queue = self.to_ask.pop_front().expect("the one that was asked for");
        match end {
            Ok(end) => {
                self.ends.insert(queue, end);
                self.heard_at = Some(now);
            }
            Err(error) => {
                tracing::debug!(%error, "a broker does not say how far its queues go");
                // One time-out for a broker is enough.
                self.to_ask.retain(|other| other.broker != queue.broker);
                self.silent.insert(queue.broker);
            }
        }
    }

    fn ask_for_end(&self) -> Wanted<'_> {
        self.to_ask.front().map_or(Wanted::Rows, Wanted::End)
    }

    fn report_backlog(&mut self, now: Instant, rows: Option<Vec<QueueRow>>) -> Wanted<'_> {
        let Watch { listed, ends, waiting, .. } = self;
        // Gone from a broker that has others of the topic: it was removed, and nobody will consume it.
        ends.retain(|queue, _| {
            listed.contains(queue) || listed.iter().all(|listed| listed.broker != queue.broker)
        });
        let backlog = rows.as_deref().map_or(0, |rows| backlog(ends, rows));
        let age = rows.as_deref().map_or(Duration::ZERO, |rows| oldest(waiting, ends, rows, now));
        let fresh = self.heard_at.is_some_and(|heard| now.duration_since(heard) < SUM_AGE_MAX);
        // A server that has never known it has only just started.
        let known = (self.heard_at.is_some() && rows.is_some()).then_some(fresh);
        self.then = Then::LookForMissing(rows.unwrap_or_default());
        Wanted::ReportBacklog { backlog, age, known }
    }

    fn look_for_missing(&mut self, now: Instant, rows: Vec<QueueRow>) -> Wanted<'_> {
        let is_listed = |row: &QueueRow| self.listed.iter().any(|queue| queue.to_string() == row.queue);
        let missing = !self.silent.is_empty() || rows.iter().any(|row| !row.is_retired() && !is_listed(row));
        if !missing {
            self.faults = Faults::default();
        } else if self.missing_at.is_none_or(|looked| now.duration_since(looked) >= MISSING_INTERVAL) {
            return Wanted::Survey(rows);
        }
        self.report_missing()
    }

    fn report_missing(&mut self) -> Wanted<'_> {
        self.then = Then::Pause;
        Wanted::ReportMissing(&self.faults)
    }
}

/// Ends of a queue, with when each was first seen: as far back as is not consumed.
type Waiting = VecDeque<(u64, Instant)>;

/// How long the oldest message of all queues has waited since this server saw it, or one soon after it.
fn oldest(
    waiting: &mut HashMap<Queue, Waiting>,
    ends: &HashMap<Queue, u64>,
    rows: &[QueueRow],
    now: Instant,
) -> Duration {
    waiting.retain(|queue, _| ends.contains_key(queue));
    let mut oldest = Duration::ZERO;
    for (queue, end) in ends {
        let name = queue.to_string();
        let consumed = rows.iter().find(|row| row.queue == name).map_or(0, |row| row.next_offset);
        let seen = waiting.entry(queue.clone()).or_default();
        while seen.front().is_some_and(|(end, _)| *end <= consumed) {
            seen.pop_front();
        }
        if *end > consumed && seen.back().is_none_or(|(last, _)| last < end) {
            if seen.len() >= SEEN_MAX {
                // Twice as coarse: of what is left, each second one.
                let mut keep = false;
                seen.retain(|_| {
                    keep = !keep;
                    keep
                });
            }
            seen.push_back((*end, now));
        }
        let waited = seen.front().map_or(Duration::ZERO, |(_, at)| now.duration_since(*at));
        oldest = oldest.max(waited);
    }
    oldest
}

/// Messages that wait in all queues together.
fn backlog(ends: &HashMap<Queue, u64>, rows: &[QueueRow]) -> u64 {
    let consumed: HashMap<&str, &QueueRow> = rows.iter().map(|row| (row.queue.as_str(), row)).collect();
    let waiting = ends.iter().map(|(queue, end)| match consumed.get(queue.to_string().as_str()) {
        Some(row) => end.saturating_sub(row.next_offset),
        None => *end,
    });
    waiting.sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::mysql::cluster::Holder;

    fn row(queue: &str, next_offset: u64, holder: Holder) -> QueueRow {
        QueueRow { queue: queue.to_owned(), next_offset, generation: 1, holder }
    }

    /// What was asked and reported in one round.
    #[derive(Debug, Default, PartialEq, Eq)]
    struct Round {
        asked: Vec<String>,
        surveys: u32,
        backlog: u64,
        known: Option<bool>,
    }

    /// A round that takes no time, of a topic with two queues at a and one at b, each with 10 messages of which the ledger has 4.
    fn round(watch: &mut Watch, now: Instant, silent: &[&str]) -> Round {
        let names = ["a/0", "a/1", "b/0"];
        let (mut round, mut came) = (Round::default(), Came::Done);
        loop {
            came = match watch.step(now, came) {
                Wanted::Queues => Came::Queues(Ok(names.map(|name| name.parse().unwrap()).into())),
                Wanted::End(queue) => {
                    round.asked.push(queue.to_string());
                    let silent = silent.contains(&queue.broker.as_str());
                    Came::End(if silent { Err(PullError::Unreachable("silent".into())) } else { Ok(10) })
                }
                Wanted::Rows => Came::Rows(Some(names.map(|name| row(name, 4, Holder::Nobody)).into())),
                Wanted::Survey(rows) => {
                    assert_eq!(rows.len(), names.len());
                    round.surveys += 1;
                    Came::Survey(Ok(Queues {
                        sights: Vec::new(),
                        silent: vec![("a".into(), "silent".into())],
                    }))
                }
                Wanted::ReportBacklog { backlog, age: _, known } => {
                    (round.backlog, round.known) = (backlog, known);
                    Came::Done
                }
                Wanted::ReportMissing(faults) => {
                    assert_eq!(faults.blocking().is_some(), !silent.is_empty());
                    Came::Done
                }
                Wanted::Pause => return round,
            }
        }
    }

    #[test]
    fn a_silent_broker_is_asked_once_in_a_round_and_counts_as_it_was() {
        let (mut watch, begun) = (Watch::default(), Instant::now());
        let all = ["a/0", "a/1", "b/0"].map(str::to_owned);
        let heard = Round { asked: all.to_vec(), surveys: 0, backlog: 18, known: Some(true) };
        assert_eq!(round(&mut watch, begun, &[]), heard);
        let silent = Round { asked: vec!["a/0".into(), "b/0".into()], surveys: 1, ..heard };
        assert_eq!(round(&mut watch, begun + INTERVAL, &["a"]), silent);
        assert_eq!(round(&mut watch, begun + 2 * INTERVAL, &[]).asked, all);
    }

    #[test]
    fn the_sum_is_believed_for_a_while_after_the_last_broker_was_heard() {
        let (mut watch, begun) = (Watch::default(), Instant::now());
        let known = |watch: &mut Watch, at, silent: &[&str]| round(watch, begun + at, silent).known;
        let nobody = ["a", "b"];
        assert_eq!(known(&mut watch, Duration::ZERO, &nobody), None, "it has never been known");
        assert_eq!(known(&mut watch, INTERVAL, &["a"]), Some(true));
        assert_eq!(known(&mut watch, INTERVAL + SUM_AGE_MAX - Duration::from_millis(1), &nobody), Some(true));
        assert_eq!(known(&mut watch, INTERVAL + SUM_AGE_MAX, &nobody), Some(false));
        assert_eq!(known(&mut watch, 2 * SUM_AGE_MAX, &[]), Some(true));
    }

    #[test]
    fn what_is_missing_is_looked_for_now_and_then_and_no_longer_than_it_is() {
        let (mut watch, begun) = (Watch::default(), Instant::now());
        let mut surveys = |at, silent: &[&str]| round(&mut watch, begun + at, silent).surveys;
        assert_eq!(surveys(Duration::ZERO, &["a"]), 1);
        assert_eq!(surveys(MISSING_INTERVAL - Duration::from_millis(1), &["a"]), 0);
        assert_eq!(surveys(MISSING_INTERVAL, &["a"]), 1);
        assert_eq!(surveys(2 * MISSING_INTERVAL, &[]), 0);
    }

    #[test]
    fn what_waits_is_the_sum_over_all_queues_whoever_reads_them() {
        let rows = [
            row("a/0", 10, Holder::Nobody),
            row("a/1", 7, Holder::Server("another".into())),
            // Its broker has lost messages; the next ones get their places.
            row("b/0", 9, Holder::Nobody),
        ];
        let ends = [("a/0", 13), ("a/1", 107), ("b/0", 4), ("b/1", 5)];
        let ends = ends.into_iter().map(|(queue, end)| (queue.parse().unwrap(), end)).collect();
        assert_eq!(backlog(&ends, &rows), 3 + 100 + 5);
    }

    #[test]
    fn the_oldest_message_is_as_old_as_the_first_end_beyond_what_was_consumed() {
        let queue: Queue = "a/0".parse().unwrap();
        let mut waiting = HashMap::new();
        let begun = Instant::now();
        let mut look = |end: u64, consumed: u64, s: u64| {
            let ends = HashMap::from([(queue.clone(), end)]);
            let rows = [row("a/0", consumed, Holder::Nobody)];
            oldest(&mut waiting, &ends, &rows, begun + Duration::from_secs(s)).as_secs()
        };
        assert_eq!(look(0, 0, 0), 0, "there is none");
        assert_eq!([look(5, 0, 1), look(5, 0, 4)], [0, 3]);
        assert_eq!([look(9, 0, 5), look(9, 5, 7)], [4, 2], "the first five are consumed");
        assert_eq!([look(9, 7, 8), look(9, 9, 9)], [3, 0]);
        // Nobody consumes for a day: bounded, and the oldest is still known.
        assert_eq!((0..86_400).map(|s| look(10 + s, 9, 10 + s)).last(), Some(86_399));
        assert!(waiting[&queue].len() <= SEEN_MAX);
    }
}
