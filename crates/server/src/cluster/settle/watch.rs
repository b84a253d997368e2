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
use std::time::{Duration, Instant};

use crate::cluster::Core;
use crate::cluster::queues::{Faults, look_for};
use crate::intake::{Need, Remark, Remarks};
use crate::ledger::mysql::cluster::QueueRow;
use crate::queue::{Admin, Consumer, Queue};

/// Between two looks; with the half second in which the ledger is read, the bound is known within one.
const INTERVAL: Duration = Duration::from_millis(400);
/// How long the sum is believed while no broker says how far its queues go. After that no order is taken.
const SUM_AGE_MAX: Duration = Duration::from_secs(5);
/// Of a queue that nobody consumes for long.
const SEEN_MAX: usize = 512;
/// Between two looks for what is missing, while something is.
const MISSING_INTERVAL: Duration = Duration::from_secs(2);

/// The connections of the watch.
#[derive(Debug)]
pub(in crate::cluster) struct Engines {
    pub(in crate::cluster) admin: Admin,
    pub(in crate::cluster) consumer: Consumer,
}

/// The stage that watches. Lives on one thread.
#[derive(Debug)]
pub(in crate::cluster) struct Watching<'a> {
    core: &'a Core,
    engines: Engines,
    /// The topic's queues when the name servers were last heard.
    listed: Vec<Queue>,
    /// How far each queue went when its broker last said so.
    ends: HashMap<Queue, u64>,
    /// What of them is not consumed.
    waiting: HashMap<Queue, Waiting>,
    /// When a broker last did.
    heard_at: Option<Instant>,
    missing_at: Option<Instant>,
    faults: Faults,
}

impl<'a> Watching<'a> {
    pub(in crate::cluster) fn new(core: &'a Core, engines: Engines) -> Watching<'a> {
        Watching {
            core,
            engines,
            listed: Vec::new(),
            ends: HashMap::new(),
            waiting: HashMap::new(),
            heard_at: None,
            missing_at: None,
            faults: Faults::default(),
        }
    }

    /// Runs until the server stops.
    pub(in crate::cluster) fn run(mut self) {
        while !self.core.stopping.load(Ordering::Acquire) {
            let silent = self.look_at_ends();
            let rows = self.core.queue_rows();
            self.tell_backlog(rows.as_deref());
            self.look_for_missing(rows.unwrap_or_default(), silent);
            self.core.wait(INTERVAL);
        }
    }

    /// Returns whether a broker did not answer.
    fn look_at_ends(&mut self) -> bool {
        // The name servers may be away while the brokers are not: what was known serves on.
        match self.engines.consumer.queues() {
            Ok(queues) => self.listed = queues,
            Err(error) => tracing::debug!(%error, "the name servers do not answer"),
        }
        // One time-out for a broker is enough.
        let mut silent = BTreeSet::new();
        for queue in &self.listed {
            if silent.contains(&queue.broker) {
                continue;
            }
            match self.engines.consumer.max_offset(queue) {
                Ok(end) => {
                    self.ends.insert(queue.clone(), end);
                    self.heard_at = Some(Instant::now());
                }
                Err(error) => {
                    tracing::debug!(%error, "a broker does not say how far its queues go");
                    silent.insert(queue.broker.clone());
                }
            }
        }
        !silent.is_empty()
    }

    fn tell_backlog(&mut self, rows: Option<&[QueueRow]>) {
        let Watching { core, listed, ends, .. } = self;
        // Gone from a broker that has others of the topic: it was removed, and nobody will consume it.
        ends.retain(|queue, _| {
            listed.contains(queue) || listed.iter().all(|listed| listed.broker != queue.broker)
        });
        let backlog = rows.map_or(0, |rows| backlog(ends, rows));
        core.backlog.store(backlog, Ordering::Relaxed);
        core.counts.backlog.set(i64::try_from(backlog).unwrap_or(i64::MAX));
        let age =
            rows.map_or(Duration::ZERO, |rows| oldest(&mut self.waiting, &self.ends, rows, Instant::now()));
        core.counts.backlog_age_ms.set(i64::try_from(age.as_millis()).unwrap_or(i64::MAX));
        let fresh = self.heard_at.is_some_and(|heard| heard.elapsed() < SUM_AGE_MAX);
        let known = fresh && rows.is_some();
        // A server that has never known it has only just started.
        if known || self.heard_at.is_some() && rows.is_some() {
            core.health.note(Need::Backlog, known);
        }
    }

    fn look_for_missing(&mut self, rows: Vec<QueueRow>, silent: bool) {
        let is_listed = |row: &QueueRow| self.listed.iter().any(|queue| queue.to_string() == row.queue);
        let missing = silent || rows.iter().any(|row| !row.is_retired() && !is_listed(row));
        if !missing {
            self.faults = Faults::default();
        } else if self.missing_at.is_none_or(|looked| looked.elapsed() >= MISSING_INTERVAL) {
            match look_for(rows, &mut self.engines.admin, &self.core.options.topics.orders) {
                Ok(queues) => self.faults = Faults::of(&queues),
                Err(error) => tracing::debug!(%error, "the brokers could not be asked for queues"),
            }
            self.missing_at = Some(Instant::now());
        }
        // While what sells is open, nothing waits for what is missing; it is shown all the same.
        let (waits, shown) = match self.faults.blocking() {
            Some(fault) if self.core.live_gate_closed.load(Ordering::Relaxed) => (Some(fault), Vec::new()),
            _ => (None, self.faults.all()),
        };
        self.core.health.note_fault(Need::QueuesThere, waits);
        let mut remark = Remark::default();
        shown.iter().for_each(|fault| remark.add(fault, fault));
        self.core.health.remark(Remarks::Queues, remark);
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
        let waited = seen.front().map_or(Duration::ZERO, |(_, at)| now.saturating_duration_since(*at));
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

    #[test]
    fn what_waits_is_the_sum_over_all_queues_whoever_reads_them() {
        let row = |queue: &str, next_offset, holder| QueueRow {
            queue: queue.to_owned(),
            next_offset,
            generation: 1,
            holder,
        };
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
            let row = QueueRow {
                queue: "a/0".to_owned(),
                next_offset: consumed,
                generation: 1,
                holder: Holder::Nobody,
            };
            let ends = HashMap::from([(queue.clone(), end)]);
            oldest(&mut waiting, &ends, &[row], begun + Duration::from_secs(s)).as_secs()
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
