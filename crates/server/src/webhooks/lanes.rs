//! Sending the events of a round: several requests at a time, and those about one thing one after the other.
//!
//! Must not: decide when something is tried again.

use std::collections::HashSet;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

use super::Endpoint;
use super::deliver::NotDelivered;
use super::duty::{Duty, Now};
use super::limits::REQUESTS_MAX;
use crate::clock::Clock;
use crate::ledger::{Outgoing, UnansweredEvent};

/// An event that is to be sent, and its row if it waited.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) event: Outgoing,
    pub(super) about: String,
    pub(super) waiting: Option<UnansweredEvent>,
    pub(super) outcome: DeliveryOutcome,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum DeliveryOutcome {
    /// One before it failed, too many failed, or it is not this server's task any more.
    NotTried,
    Answered,
    Failed(NotDelivered),
}

/// What the requests of a round share.
struct Round<'a> {
    endpoint: &'a Endpoint,
    duty: (&'a Duty, Now),
    clock: &'a Clock,
    /// In a row; when as many as this have failed, nothing more is sent.
    failures_left: u32,
    failures: AtomicU32,
    answered: AtomicU32,
}

/// Sends and writes the outcomes into the jobs. Returns whether any was answered well, and how many failures followed the last one
/// that was.
pub(super) fn send(
    endpoint: &Endpoint,
    duty: (&Duty, Now),
    jobs: &mut [Job],
    failures_left: u32,
    clock: &Clock,
) -> (bool, u32) {
    let (failures, answered) = (AtomicU32::new(0), AtomicU32::new(0));
    let round = Round { endpoint, duty, clock, failures_left, failures, answered };
    let mut lanes: Vec<Vec<&mut Job>> = (0..REQUESTS_MAX).map(|_| Vec::new()).collect();
    for job in jobs {
        lanes[lane_of(&job.about)].push(job);
    }
    lanes.retain(|lane| !lane.is_empty());
    // The last one on this thread: most rounds have a single event.
    let last = lanes.pop();
    thread::scope(|scope| {
        for lane in lanes {
            scope.spawn(|| round.send_lane(lane));
        }
        if let Some(lane) = last {
            round.send_lane(lane);
        }
    });
    (round.answered.into_inner() > 0, round.failures.into_inner())
}

fn lane_of(about: &str) -> usize {
    crc32fast::hash(about.as_bytes()) as usize % REQUESTS_MAX
}

impl Round<'_> {
    fn send_lane(&self, mut jobs: Vec<&mut Job>) {
        let mut failed: HashSet<String> = HashSet::new();
        for batch in jobs.chunks_mut(self.endpoint.batch_events_max) {
            if self.failures.load(Ordering::Relaxed) >= self.failures_left || self.is_over() {
                return;
            }
            let mut batch: Vec<_> = batch.iter_mut().filter(|job| !failed.contains(&job.about)).collect();
            if batch.is_empty() {
                continue;
            }
            let outcome = self.send_batch(&batch.iter().map(|job| &job.event).collect::<Vec<_>>());
            if outcome == DeliveryOutcome::Answered {
                self.answered.fetch_add(1, Ordering::Relaxed);
                self.failures.store(0, Ordering::Relaxed);
            } else {
                let of_event = matches!(&outcome, DeliveryOutcome::Failed(why) if why.of_event);
                self.failures.fetch_add(u32::from(!of_event), Ordering::Relaxed);
                failed.extend(batch.iter().map(|job| job.about.clone()));
            }
            for job in &mut batch {
                job.outcome = outcome.clone();
            }
        }
    }

    fn is_over(&self) -> bool {
        let (duty, was) = self.duty;
        duty.now() != was
    }

    fn send_batch(&self, events: &[&Outgoing]) -> DeliveryOutcome {
        match self.endpoint.to.deliver(events, self.clock.wall().0) {
            Ok(()) => DeliveryOutcome::Answered,
            Err(why) => DeliveryOutcome::Failed(why),
        }
    }
}
