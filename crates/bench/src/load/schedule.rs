//! When requests are due: a closed loop, or an open loop at a constant rate.
//!
//! A schedule is pure: the driver tells it the time, it answers what to do. It knows nothing of sockets, and it
//! never skips a request because the target was slow: that would be coordinated omission, the mistake that makes a
//! stalled server look quick. New arrival patterns (Poisson, ramps, a flash crowd) are further `Arrivals`.

use std::time::{Duration, Instant};

/// How requests arrive.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Arrivals {
    /// Every connection sends its next request as soon as it has the answer to the last one. Finds the peak, and
    /// hides stalls: while the target stands still, nobody asks.
    Closed,
    /// Request `n` is due `n / per_s` seconds after the start, whatever happened to the ones before it.
    Constant { per_s: f64 },
}

/// When no further request is due.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Until {
    Elapsed(Duration),
    Issued(u64),
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Schedule {
    pub arrivals: Arrivals,
    pub until: Until,
}

impl Schedule {
    pub fn closed(duration: Duration) -> Self {
        Self { arrivals: Arrivals::Closed, until: Until::Elapsed(duration) }
    }

    pub fn closed_requests(requests: u64) -> Self {
        Self { arrivals: Arrivals::Closed, until: Until::Issued(requests) }
    }

    /// # Panics
    /// If the rate is not a positive number.
    pub fn constant(per_s: f64, duration: Duration) -> Self {
        assert!(per_s.is_finite() && per_s > 0.0, "an open loop needs a positive rate, not {per_s}");
        Self { arrivals: Arrivals::Constant { per_s }, until: Until::Elapsed(duration) }
    }
}

impl std::fmt::Display for Schedule {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.arrivals {
            Arrivals::Closed => f.write_str("closed loop"),
            Arrivals::Constant { per_s } => write!(f, "{per_s:.0}/s, evenly"),
        }
    }
}

/// What a free connection should do now.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Next {
    /// Send now. Response time counts from `planned`, which lies in the past when the target or the generator is late.
    Send { planned: Instant },
    /// Nothing is due before this instant.
    Wait { until: Instant },
    /// Nothing will ever be due again.
    Finished,
}

/// A schedule under way.
#[derive(Debug)]
pub struct Pace {
    schedule: Schedule,
    started: Instant,
    issued: u64,
}

impl Pace {
    pub fn start(schedule: Schedule, now: Instant) -> Self {
        Self { schedule, started: now, issued: 0 }
    }

    /// The step for one free connection at `now`; a `Send` counts as issued.
    pub fn next(&mut self, now: Instant) -> Next {
        let planned = match self.schedule.arrivals {
            Arrivals::Closed => now,
            Arrivals::Constant { per_s } => {
                self.started + Duration::from_secs_f64(self.issued as f64 / per_s)
            }
        };
        let finished = match self.schedule.until {
            Until::Elapsed(duration) => planned >= self.started + duration,
            Until::Issued(requests) => self.issued >= requests,
        };
        if finished {
            return Next::Finished;
        }
        if planned > now {
            return Next::Wait { until: planned };
        }
        self.issued += 1;
        Next::Send { planned }
    }

    /// Requests that should have been issued by `now` and were not.
    pub fn unissued(&self, now: Instant) -> u64 {
        match (self.schedule.until, self.schedule.arrivals) {
            (Until::Issued(requests), _) => requests - self.issued,
            (Until::Elapsed(_), Arrivals::Closed) => 0,
            (Until::Elapsed(_), Arrivals::Constant { .. }) => {
                let mut ahead = Self { schedule: self.schedule, started: self.started, issued: self.issued };
                while matches!(ahead.next(now), Next::Send { .. }) {}
                ahead.issued - self.issued
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn closed_loop_sends_at_once_until_the_time_is_over() {
        let start = Instant::now();
        let mut pace = Pace::start(Schedule::closed(10 * MS), start);
        assert_eq!(pace.next(start), Next::Send { planned: start });
        assert_eq!(pace.next(start + 9 * MS), Next::Send { planned: start + 9 * MS });
        assert_eq!(pace.next(start + 10 * MS), Next::Finished);
        assert_eq!(pace.unissued(start + 10 * MS), 0);
    }

    #[test]
    fn closed_loop_issues_exactly_the_requests_asked_for() {
        let start = Instant::now();
        let mut pace = Pace::start(Schedule::closed_requests(3), start);
        assert_eq!(pace.unissued(start), 3);
        let sends = (0..10).filter(|_| matches!(pace.next(start), Next::Send { .. })).count();
        assert_eq!(sends, 3);
        assert_eq!(pace.next(start), Next::Finished);
    }

    #[test]
    fn open_loop_waits_for_the_planned_time() {
        let start = Instant::now();
        let mut pace = Pace::start(Schedule::constant(1000.0, 5 * MS), start);
        assert_eq!(pace.next(start), Next::Send { planned: start });
        assert_eq!(pace.next(start), Next::Wait { until: start + MS });
        assert_eq!(pace.next(start + MS), Next::Send { planned: start + MS });
    }

    #[test]
    fn open_loop_never_skips_what_it_is_late_for() {
        let start = Instant::now();
        let mut pace = Pace::start(Schedule::constant(1000.0, 5 * MS), start);
        let late = start + Duration::from_secs(1);
        assert_eq!(pace.unissued(start + 2 * MS), 3);
        assert_eq!(pace.unissued(late), 5);
        let planned: Vec<Instant> = std::iter::from_fn(|| match pace.next(late) {
            Next::Send { planned } => Some(planned),
            _ => None,
        })
        .collect();
        assert_eq!(planned, (0..5).map(|n| start + n * MS).collect::<Vec<_>>());
        assert_eq!(pace.next(late), Next::Finished);
        assert_eq!(pace.unissued(late), 0);
    }
}
