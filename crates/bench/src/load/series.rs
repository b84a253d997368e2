//! What happened in each second of a run, for time series and the live view.
//!
//! Memory is bounded: one histogram, emptied each second, and a row for each of so many seconds.

use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::distribution::Durations;
use super::outcome::Outcome;

/// Rows that are kept of one run: four hours. A watcher gets all of them.
pub(super) const SECONDS_MAX: usize = 4 * 3600;
const SECOND: Duration = Duration::from_secs(1);

/// One second of a trial, or the part of one at its end.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Second {
    /// Seconds since the trial began, at its end.
    pub at_s: f64,
    /// Orders won or reads served in it, by the time of the answer.
    pub good: u64,
    /// Refusals by business rules: sold out, over the limit, limited, busy.
    pub refused: u64,
    /// Failed or unknown.
    pub bad: u64,
    pub p50_us: u64,
    pub p99_us: u64,
    pub in_flight: u64,
}

/// What one request adds to its second.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Tally {
    pub(crate) good: u64,
    pub(crate) refused: u64,
    pub(crate) bad: u64,
    /// `None` if it was never sent.
    pub(crate) response_us: Option<u64>,
}

impl Tally {
    pub(super) fn add(&mut self, outcome: Outcome, count: u64) {
        match outcome {
            Outcome::Won | Outcome::Served | Outcome::Queued => self.good += count,
            Outcome::SoldOut | Outcome::OverLimit | Outcome::Limited | Outcome::Busy => self.refused += count,
            Outcome::Failed | Outcome::Unknown => self.bad += count,
        }
    }

    pub(crate) fn operations(&self) -> u64 {
        self.good + self.refused + self.bad
    }
}

#[derive(Debug)]
pub(super) struct Series {
    started: Instant,
    /// When the second that is being filled ends.
    ends: Instant,
    filling: Tally,
    times: Durations,
    pub(super) rows: Vec<Second>,
}

impl Series {
    pub(super) fn start(started: Instant) -> Self {
        Self {
            started,
            ends: started + SECOND,
            filling: Tally::default(),
            times: Durations::default(),
            rows: Vec::new(),
        }
    }

    pub(super) fn add(&mut self, tally: Tally) {
        self.filling.good += tally.good;
        self.filling.refused += tally.refused;
        self.filling.bad += tally.bad;
        if let Some(response_us) = tally.response_us {
            self.times.saturating_record_n(response_us, tally.operations());
        }
    }

    /// The next second that is over by `now`, if there is one.
    pub(super) fn close(&mut self, now: Instant, in_flight: usize) -> Option<Second> {
        if now < self.ends {
            return None;
        }
        let second = self.row(self.ends, in_flight);
        self.ends += SECOND;
        Some(second)
    }

    /// What came since the last whole second, if anything did: nothing is under way any more.
    pub(super) fn last(&mut self, at: Instant) -> Option<Second> {
        (self.filling.operations() > 0).then(|| self.row(at, 0))
    }

    fn row(&mut self, at: Instant, in_flight: usize) -> Second {
        let Tally { good, refused, bad, .. } = std::mem::take(&mut self.filling);
        let (mut p50_us, mut p99_us) = (0, 0);
        // To look through an empty histogram and to empty it again would cost as much as through a full one.
        if !self.times.is_empty() {
            p50_us = self.times.value_at_quantile(0.5);
            p99_us = self.times.value_at_quantile(0.99);
            self.times.reset();
        }
        let at_s = at.duration_since(self.started).as_secs_f64();
        let second = Second { at_s, good, refused, bad, p50_us, p99_us, in_flight: in_flight as u64 };
        if self.rows.len() < SECONDS_MAX {
            self.rows.push(second);
        }
        second
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn won(response_us: u64) -> Tally {
        Tally { good: 1, response_us: Some(response_us), ..Tally::default() }
    }

    #[test]
    fn each_second_has_its_own_figures() {
        let start = Instant::now();
        let mut series = Series::start(start);
        series.add(won(1000));
        series.add(Tally { bad: 1, ..Tally::default() });
        assert_eq!(series.close(start + SECOND / 2, 3), None);
        let first = series.close(start + 3 * SECOND, 3).unwrap();
        assert_eq!((first.at_s, first.good, first.bad, first.in_flight), (1.0, 1, 1, 3));
        assert_eq!(first.p50_us, 1000);
        let empty = series.close(start + 3 * SECOND, 3).unwrap();
        assert_eq!((empty.at_s, empty.good, empty.p50_us), (2.0, 0, 0));
        assert!(series.close(start + 3 * SECOND, 3).is_some());
        assert_eq!(series.close(start + 3 * SECOND, 3), None);
        assert_eq!(series.last(start + 3 * SECOND), None);
        series.add(Tally { refused: 2, response_us: Some(7), ..Tally::default() });
        let last = series.last(start + 7 * SECOND / 2).unwrap();
        assert_eq!((last.at_s, last.good, last.refused, last.p99_us, last.in_flight), (3.5, 0, 2, 7, 0));
        assert_eq!(series.rows.len(), 4);
    }

    #[test]
    fn rows_are_bounded() {
        let start = Instant::now();
        let mut series = Series::start(start);
        let end = start + Duration::from_secs(SECONDS_MAX as u64 + 100);
        let mut reported = 0;
        while series.close(end, 0).is_some() {
            reported += 1;
        }
        assert_eq!((reported, series.rows.len()), (SECONDS_MAX + 100, SECONDS_MAX));
    }
}
