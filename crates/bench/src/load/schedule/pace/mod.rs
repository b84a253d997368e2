//! A schedule in progress. It is asked once per request, so the usual steps cost nanoseconds and no memory: an even
//! open loop is one division, a closed loop a push and a pop of one instant.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Instant;

use super::stream::{Rate, Stream};
use super::{Arrivals, FlashCrowd, Retries, Schedule, Until};
use crate::load::choice::Random;

/// Buyers at most who wait for their next attempt at one time; more of them give up. It bounds the memory.
const RETRIES_WAITING_MAX: usize = 1 << 20;

/// What a free connection should do now.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Next {
    /// Send now. Response time counts from `planned`, which lies in the past when the target or the generator is
    /// late; in a closed loop it is when the user was ready. `attempt` is 1, or more for a retry.
    Send { planned: Instant, attempt: u32 },
    /// Nothing is due before this instant, unless an answer brings it.
    Wait { until: Instant },
    /// Nothing will ever be due again, unless an answer brings it.
    Finished,
}

/// A schedule under way. Every `Send` must be followed by one call of [`Pace::settled`].
#[derive(Debug, Clone)]
pub struct Pace {
    until: Until,
    /// Nothing is due from here on.
    ends: Option<Instant>,
    issued: u64,
    /// Buyers of a flash crowd who had no answer after their last attempt.
    pub gave_up: u64,
    source: Source,
}

#[derive(Debug, Clone)]
enum Source {
    /// When those users are ready who are not waiting for an answer.
    Closed(BinaryHeap<Reverse<Instant>>),
    Open(Box<Stream>),
    FlashCrowd(Box<Crowd>),
}

#[derive(Debug, Clone)]
struct Crowd {
    base: Stream,
    spike: Stream,
    retries: Retries,
    random: Random,
    /// When who tries again, and which attempt that is.
    waiting: BinaryHeap<Reverse<(Instant, u32)>>,
}

impl Pace {
    /// `connections` is the number of users of a closed loop.
    pub fn start(schedule: Schedule, connections: usize, now: Instant) -> Self {
        let mut random = Random::new(schedule.seed);
        let source = match schedule.arrivals {
            Arrivals::Closed => Source::Closed(BinaryHeap::from(vec![Reverse(now); connections])),
            Arrivals::Open { per_s, spacing } => {
                let rate = Rate::Constant { per_s };
                Source::Open(Box::new(Stream::start(rate, spacing, random.fork(), now)))
            }
            Arrivals::FlashCrowd(crowd) => Source::FlashCrowd(Box::new(Crowd::start(crowd, random, now))),
        };
        let ends = match schedule.until {
            Until::Elapsed(duration) => now.checked_add(duration),
            Until::Issued(_) => None,
        };
        Self { until: schedule.until, ends, issued: 0, gave_up: 0, source }
    }

    /// The step for one free connection at `now`; a `Send` counts as issued.
    pub fn next(&mut self, now: Instant) -> Next {
        if let Until::Issued(requests) = self.until
            && self.issued >= requests
        {
            return Next::Finished;
        }
        let due = match &mut self.source {
            Source::Closed(ready) => ready.peek().map(|Reverse(ready)| *ready),
            Source::Open(stream) => stream.due,
            Source::FlashCrowd(crowd) => crowd.due(),
        };
        let Some(planned) = due else { return Next::Finished };
        if self.ends.is_some_and(|ends| planned >= ends) {
            return Next::Finished;
        }
        if planned > now {
            return Next::Wait { until: planned };
        }
        self.issued += 1;
        let attempt = match &mut self.source {
            Source::Closed(ready) => {
                ready.pop();
                1
            }
            Source::Open(stream) => {
                stream.advance();
                1
            }
            Source::FlashCrowd(crowd) => crowd.take(planned),
        };
        Next::Send { planned, attempt }
    }

    /// What came of a request: of which attempt, and whether it is worth another one. The user of a closed loop, or
    /// the buyer who tries again, goes on from `at`.
    pub fn settled(&mut self, attempt: u32, worth_a_retry: bool, at: Instant) {
        match &mut self.source {
            Source::Closed(ready) => ready.push(Reverse(at)),
            Source::Open(_) => {}
            Source::FlashCrowd(crowd) if worth_a_retry => {
                self.gave_up += u64::from(!crowd.retry(attempt, at));
            }
            Source::FlashCrowd(_) => {}
        }
    }

    /// Requests that should have been issued by `now` and were not.
    pub fn unissued(&self, now: Instant) -> u64 {
        match (self.until, &self.source) {
            (Until::Issued(requests), _) => requests - self.issued,
            // Users of a closed loop who could not ask are not late: they would not have asked.
            (Until::Elapsed(_), Source::Closed(_)) => 0,
            (Until::Elapsed(_), _) => {
                let mut ahead = self.clone();
                while matches!(ahead.next(now), Next::Send { .. }) {}
                ahead.issued - self.issued
            }
        }
    }
}

impl Crowd {
    fn start(crowd: FlashCrowd, mut random: Random, now: Instant) -> Self {
        let FlashCrowd { base_per_s, at, peak_per_s, decay, spacing, retries } = crowd;
        let decay = Rate::Decay { at_s: at.as_secs_f64(), per_s: peak_per_s, decay_s: decay.as_secs_f64() };
        let base = Rate::Constant { per_s: base_per_s };
        // Two independent Poisson processes are one with the sum of their rates.
        let mut stream = |rate| Stream::start(rate, spacing, random.fork(), now);
        let (base, spike) = (stream(base), stream(decay));
        Self { base, spike, retries, random, waiting: BinaryHeap::new() }
    }

    fn due(&self) -> Option<Instant> {
        let waiting = self.waiting.peek().map(|Reverse((due, _))| *due);
        [self.base.due, self.spike.due, waiting].into_iter().flatten().min()
    }

    /// Takes what is due then; which attempt it is.
    fn take(&mut self, planned: Instant) -> u32 {
        for stream in [&mut self.base, &mut self.spike] {
            if stream.due == Some(planned) {
                stream.advance();
                return 1;
            }
        }
        let Reverse((_, attempt)) = self.waiting.pop().expect("what is due is of a stream, or waits");
        attempt
    }

    /// Whether the buyer will try again.
    fn retry(&mut self, attempt: u32, at: Instant) -> bool {
        if attempt >= self.retries.attempts_max || self.waiting.len() >= RETRIES_WAITING_MAX {
            return false;
        }
        let doubled = self.retries.back_off.saturating_mul(1 << (attempt - 1).min(20));
        let spread = 1.0 + self.retries.jitter * (2.0 * self.random.unit() - 1.0);
        let wait = doubled.min(self.retries.back_off_max.max(self.retries.back_off)).mul_f64(spread);
        self.waiting.push(Reverse((at + wait, attempt + 1)));
        true
    }
}

#[cfg(test)]
mod tests;
