//! What came of the requests: outcomes by their business meaning, and times in HDR histograms.
//!
//! Memory does not grow with the number of samples. A refusal is an outcome, not an error, and never counts as an
//! order. Filled by the driver, read by the scenarios and the audit.

use std::time::{Duration, Instant};

use super::distribution::{Distribution, Durations, TIME_US_MAX};
pub use super::outcome::{Outcome, Outcomes};
use super::protocol::Verdicts;
use super::series::{Second, Tally};

/// The three instants of a request.
#[derive(Debug, Clone, Copy)]
pub struct Clocks {
    /// When the schedule wanted it sent.
    pub planned: Instant,
    /// When its first byte was handed to the kernel (or its connection was begun).
    pub sent: Instant,
    /// When its last byte of answer was read, or the driver gave up.
    pub answered: Instant,
}

/// See [`Record::asking`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Asking {
    pub time: Duration,
    /// Good answers.
    pub good: u64,
}

#[derive(Debug, Default)]
pub struct Record {
    pub outcomes: Outcomes,
    /// From the first request's send to the last answer.
    pub elapsed: Duration,
    /// A closed loop's time, in which users asked, and what was answered in it; none of other loads. What comes after
    /// it is the tail: the target has less and less to do.
    pub asking: Option<Asking>,
    /// Length of the shortest and of the longest body among the accepted orders and served reads.
    pub body_bytes: Option<(usize, usize)>,
    /// Connections opened in the middle of the run.
    pub reconnects: u64,
    /// Answers followed by bytes that belong to no answer.
    pub stray_answers: u64,
    /// Requests due and never issued, because the target no longer answered anything.
    pub unsent: u64,
    /// The first answer counted as failed or unknown, for a person to read.
    pub first_surprise: Option<String>,
    /// Connections opened in the run because no open one was free.
    pub opened: u64,
    /// Requests that were due while all connections up to the cap were waiting for answers.
    pub waited_for_cap: u64,
    /// Requests that were a further attempt of a buyer.
    pub retries: u64,
    /// Buyers whose last attempt had no answer either.
    pub gave_up: u64,
    /// From the run's start to the last good answer.
    pub last_good: Option<Duration>,
    /// A row for each second, and for what is left at the end; of the first four hours.
    pub seconds: Vec<Second>,
    response: Durations,
    service: Durations,
    send_lag: Durations,
    generator_lag: Durations,
}

impl Record {
    /// A request that goes out: how late by the generator's own fault, and whether it waited for a connection.
    pub(crate) fn issued(&mut self, generator_lag: Duration, attempt: u32, waited_for_cap: bool) {
        self.waited_for_cap += u64::from(waited_for_cap);
        self.retries += u64::from(attempt > 1);
        let micros = u64::try_from(generator_lag.as_micros()).unwrap_or(TIME_US_MAX);
        self.generator_lag.saturating_record(micros);
    }

    /// A connection is opened in the run: again, or for the first time.
    pub(crate) fn opened(&mut self, again: bool) {
        let count = if again { &mut self.reconnects } else { &mut self.opened };
        *count += 1;
    }

    /// A request that was sent, and what came of it; the verdicts are empty again afterwards.
    pub(crate) fn settle(&mut self, verdicts: &mut Verdicts, clocks: Clocks) -> Tally {
        let mut tally = Tally::default();
        for (outcome, count) in verdicts.outcomes.drain(..) {
            self.outcomes.add(outcome, count);
            tally.add(outcome, count);
        }
        if let Some(bytes) = verdicts.body_bytes.take().filter(|_| tally.good > 0) {
            self.body(bytes);
        }
        let surprise = verdicts.surprise.take();
        if tally.bad > 0 && self.first_surprise.is_none() {
            self.first_surprise = surprise;
        }
        let (response, operations) = (micros(clocks.answered, clocks.planned), tally.operations());
        self.response.saturating_record_n(response, operations);
        self.service.saturating_record_n(micros(clocks.answered, clocks.sent), operations);
        self.send_lag.saturating_record_n(micros(clocks.sent, clocks.planned), operations);
        tally.response_us = Some(response);
        tally
    }

    /// A request of which no byte was sent. It has no time: a refused connection is quick, and no answer.
    pub(crate) fn never_sent(&mut self, verdicts: &mut Verdicts, operations: u64) -> Tally {
        verdicts.outcomes.clear();
        self.outcomes.add(Outcome::Failed, operations);
        let surprise = verdicts.surprise.take();
        self.first_surprise = self.first_surprise.take().or(surprise);
        Tally { bad: operations, ..Tally::default() }
    }

    fn body(&mut self, bytes: usize) {
        let (least, most) = self.body_bytes.unwrap_or((bytes, bytes));
        self.body_bytes = Some((least.min(bytes), most.max(bytes)));
    }

    /// After a closed loop's time was up the last answers were waited for: how long, and by which part the rate over
    /// all the time is therefore below the rate of the time in which users asked.
    ///
    /// The rate itself is taken over all the time. To cut the end off instead would leave out the answers of everybody
    /// who is under way then, which is much where answers are slow and users many; a tail as busy as the time before it
    /// dilutes nothing, and its part here is 0.
    pub fn tail(&self) -> Option<(Duration, f64)> {
        let Asking { time, good } = self.asking?;
        let tail = self.elapsed.checked_sub(time)?;
        let while_asking = good as f64 / time.as_secs_f64().max(1e-9);
        let in_all = self.outcomes.good() as f64 / self.elapsed.as_secs_f64().max(1e-9);
        let diluted = if in_all < while_asking { 1.0 - in_all / while_asking } else { 0.0 };
        Some((tail, diluted))
    }

    /// Answers with this outcome per second.
    pub fn per_s(&self, outcome: Outcome) -> f64 {
        self.outcomes.of(outcome) as f64 / self.elapsed.as_secs_f64().max(1e-9)
    }

    /// Answered minus planned: what a buyer who wanted to come at that moment waited.
    pub fn response(&self) -> Distribution {
        Distribution::of(&self.response)
    }

    /// Answered minus sent: what the target took, queueing in the generator left out.
    pub fn service(&self) -> Distribution {
        Distribution::of(&self.service)
    }

    /// Sent minus planned: how late the generator was, be it by itself or for want of a free connection.
    pub fn send_lag(&self) -> Distribution {
        Distribution::of(&self.send_lag)
    }

    /// The part of the send lag that is the generator's own: time spent waiting for a connection is not in it. By request,
    /// not by operation.
    pub fn generator_lag(&self) -> Distribution {
        Distribution::of(&self.generator_lag)
    }
}

pub(crate) fn micros(later: Instant, earlier: Instant) -> u64 {
    let micros = later.saturating_duration_since(earlier).as_micros();
    u64::try_from(micros).unwrap_or(TIME_US_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_three_clocks_are_kept_apart() {
        let planned = Instant::now();
        let sent = planned + Duration::from_millis(30);
        let mut record = Record::default();
        record.settle(
            &mut Verdicts::of(Outcome::Won),
            Clocks { planned, sent, answered: sent + Duration::from_millis(5) },
        );
        let near = |value: u64, wanted: u64| value.abs_diff(wanted) * 1000 <= wanted;
        assert!(near(record.response().at(0.5), 35_000), "{:?}", record.response());
        assert!(near(record.service().at(0.5), 5_000), "{:?}", record.service());
        assert!(near(record.send_lag().at(0.5), 30_000), "{:?}", record.send_lag());
    }

    /// By construction: the bounds of the histograms are fixed and longer times count as the longest, each second's
    /// histogram is emptied and used again, and the rows are bounded by `SECONDS_MAX`.
    #[test]
    fn memory_does_not_grow_with_the_samples() {
        let start = Instant::now();
        let mut record = Record::default();
        let sizes = |record: &Record| {
            [&record.response, &record.service, &record.send_lag, &record.generator_lag].map(|times| {
                assert!(!times.is_auto_resize());
                times.distinct_values()
            })
        };
        let before = sizes(&record);
        let mut verdicts = Verdicts::default();
        for exponent in 0..40_u32 {
            let late = Duration::from_micros(1 << exponent);
            for _ in 0..1000 {
                verdicts.add(Outcome::Won);
                record.issued(late, 1, false);
                let sent = start + late;
                record.settle(&mut verdicts, Clocks { planned: start, sent, answered: sent + late });
            }
        }
        assert_eq!((sizes(&record), record.response.len()), (before, 40_000));
        assert_eq!((verdicts.outcomes.capacity() <= 4, verdicts.outcomes.len()), (true, 0));
    }

    #[test]
    fn outcomes_sum_and_only_sent_requests_have_times() {
        let now = Instant::now();
        let mut record = Record::default();
        let all = [
            Outcome::Won,
            Outcome::Served,
            Outcome::SoldOut,
            Outcome::OverLimit,
            Outcome::Limited,
            Outcome::Busy,
            Outcome::Failed,
            Outcome::Unknown,
        ];
        for outcome in all {
            record.settle(&mut Verdicts::of(outcome), Clocks { planned: now, sent: now, answered: now });
        }
        record.never_sent(&mut Verdicts::default(), 1);
        assert!(all.iter().all(|outcome| record.outcomes.of(*outcome) >= 1));
        assert_eq!(record.outcomes.failed, 2);
        assert_eq!(record.outcomes.total(), 9);
        assert_eq!(record.response.len(), 8);
    }
}
