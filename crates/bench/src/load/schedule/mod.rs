//! When requests are due: a closed loop of users, an open loop at a rate, or a flash crowd.
//!
//! A schedule is pure and seeded: the generator gives a [`Pace`] the time and what came of requests, it answers what
//! to do. It knows nothing of sockets, and it never skips a request because the target was slow: that would be
//! coordinated omission, the mistake that makes a stalled server look quick. Who asks for what (a hot SKU, bots) is
//! the workload's: see [`choice`](super::choice).

mod pace;
mod stream;

use std::fmt;
use std::time::Duration;

pub use self::pace::{Next, Pace};
pub use self::stream::Spacing;

/// Of schedules for which no other is given.
const SEED: u64 = 20_260_101;

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Arrivals {
    /// Each connection is a user, who asks, waits for the answer, and asks again. Finds the peak, and hides stalls: while
    /// the target stands still, nobody asks.
    Closed,
    /// Requests are due by the clock, whatever happened to the ones before them.
    Open { per_s: f64, spacing: Spacing },
    /// Everyday traffic, and at one moment all those who waited for it.
    FlashCrowd(FlashCrowd),
}

/// A base rate, and at `at` a further `peak_per_s` that decays exponentially: by 1/e in each `decay`. Without
/// retries that makes `peak_per_s * decay` further requests.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FlashCrowd {
    pub base_per_s: f64,
    pub at: Duration,
    pub peak_per_s: f64,
    pub decay: Duration,
    pub spacing: Spacing,
    pub retries: Retries,
}

/// What a buyer does who was limited, was answered that the server is busy, or got no usable answer: see
/// [`Outcome::is_worth_a_retry`](super::record::Outcome::is_worth_a_retry).
///
/// Every attempt is a request of its own: its response time counts from when this attempt was due, not from the
/// buyer's first.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Retries {
    /// Attempts of one buyer, the first included. 1: nobody tries again.
    pub attempts_max: u32,
    /// Before the second attempt; doubled before each further one, up to `back_off_max`.
    pub back_off: Duration,
    pub back_off_max: Duration,
    /// Each wait is drawn evenly from 1 - this to 1 + this of it, 0 to 1: or they would all come back at once.
    pub jitter: f64,
}

impl Retries {
    pub const NONE: Self =
        Self { attempts_max: 1, back_off: Duration::ZERO, back_off_max: Duration::ZERO, jitter: 0.0 };
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Until {
    Elapsed(Duration),
    /// Retries are requests too.
    Issued(u64),
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Schedule {
    pub arrivals: Arrivals,
    pub until: Until,
    /// Of Poisson arrivals and back-offs.
    pub seed: u64,
}

impl Schedule {
    pub fn closed(duration: Duration) -> Self {
        Self::of(Arrivals::Closed, Until::Elapsed(duration))
    }

    pub fn closed_requests(requests: u64) -> Self {
        Self::of(Arrivals::Closed, Until::Issued(requests))
    }

    /// # Panics
    /// If the rate is not a positive number; the next one likewise.
    pub fn constant(per_s: f64, duration: Duration) -> Self {
        Self::of(Arrivals::Open { per_s: positive(per_s), spacing: Spacing::Even }, Until::Elapsed(duration))
    }

    pub fn poisson(per_s: f64, duration: Duration) -> Self {
        Self::of(
            Arrivals::Open { per_s: positive(per_s), spacing: Spacing::Poisson },
            Until::Elapsed(duration),
        )
    }

    /// # Panics
    /// If a rate, the decay or the jitter is not what it can be, or no buyer would even try once.
    pub fn flash_crowd(crowd: FlashCrowd, duration: Duration) -> Self {
        positive(crowd.base_per_s);
        positive(crowd.peak_per_s);
        assert!(!crowd.decay.is_zero(), "a spike that decays at once is none");
        assert!(crowd.retries.attempts_max > 0, "the first attempt counts");
        assert!((0.0..=1.0).contains(&crowd.retries.jitter), "jitter is 0 to 1");
        Self::of(Arrivals::FlashCrowd(crowd), Until::Elapsed(duration))
    }

    #[must_use]
    pub fn seeded(self, seed: u64) -> Self {
        Self { seed, ..self }
    }

    /// Requests are due by the clock, so a late one is the generator's or the target's fault.
    pub fn is_open(&self) -> bool {
        self.arrivals != Arrivals::Closed
    }

    fn of(arrivals: Arrivals, until: Until) -> Self {
        Self { arrivals, until, seed: SEED }
    }
}

fn positive(per_s: f64) -> f64 {
    assert!(per_s.is_finite() && per_s > 0.0, "an open loop needs a positive rate, not {per_s}");
    per_s
}

/// For reports: `closed loop, 5 requests`, `5000/s, Poisson`.
impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.arrivals {
            Arrivals::Closed => f.write_str("closed loop")?,
            Arrivals::Open { per_s, spacing } => write!(f, "{per_s:.0}/s, {spacing}")?,
            Arrivals::FlashCrowd(crowd) => {
                let FlashCrowd { base_per_s, at, peak_per_s, decay, spacing, retries } = crowd;
                write!(f, "flash crowd: {base_per_s:.0}/s, after {at:?} {peak_per_s:.0}/s more that ")?;
                write!(f, "fall to 1/e in {decay:?}, {spacing}")?;
                if retries.attempts_max > 1 {
                    write!(f, ", up to {} attempts", retries.attempts_max)?;
                }
            }
        }
        match self.until {
            Until::Elapsed(_) => Ok(()),
            Until::Issued(requests) => write!(f, ", {requests} requests"),
        }
    }
}

impl fmt::Display for Spacing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Even => "evenly",
            Self::Poisson => "Poisson",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn schedules_say_what_they_are() {
        let check = |schedule: Schedule, wanted: &str| assert_eq!(schedule.to_string(), wanted);
        check(Schedule::closed(SECOND), "closed loop");
        check(Schedule::closed_requests(5), "closed loop, 5 requests");
        check(Schedule::constant(5000.0, SECOND), "5000/s, evenly");
        check(Schedule::poisson(5000.0, SECOND), "5000/s, Poisson");
        let crowd = FlashCrowd {
            base_per_s: 100.0,
            at: 5 * SECOND,
            peak_per_s: 9000.0,
            decay: 2 * SECOND,
            spacing: Spacing::Poisson,
            retries: Retries { attempts_max: 3, back_off: SECOND, back_off_max: SECOND, jitter: 0.5 },
        };
        check(
            Schedule::flash_crowd(crowd, 60 * SECOND),
            "flash crowd: 100/s, after 5s 9000/s more that fall to 1/e in 2s, Poisson, up to 3 attempts",
        );
    }
}
