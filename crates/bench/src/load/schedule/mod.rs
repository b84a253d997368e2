//! When requests are due: a closed loop of users, an open loop at a rate that may change, or a flash crowd.
//!
//! A schedule is pure and seeded: the generator gives a [`Pace`] the time and what came of requests, it answers what
//! to do. It knows nothing of sockets, and it never skips a request because the target was slow: that would be
//! coordinated omission, the mistake that makes a stalled server look quick. Who asks for what (a hot SKU, bots) is
//! the workload's: see [`choice`](super::choice).

mod pace;
mod profile;

use std::fmt;
use std::time::Duration;

pub use self::pace::{Next, Pace};
pub use self::profile::{CORNERS_MAX, Corner, Profile, Spacing};

/// Of schedules for which no other is given.
const SEED: u64 = 20_260_101;

/// How requests arrive.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Arrivals {
    /// Each user asks, waits for the answer, thinks, and asks again. Finds the peak, and hides stalls: while the
    /// target stands still, nobody asks.
    Closed {
        /// How many there are, by time; None: one for each connection. A user who is too many leaves after the
        /// answer.
        users: Option<Profile>,
        think: Think,
    },
    /// Requests are due by the clock, whatever happened to the ones before them: requests per second, by time.
    Open { rate: Profile, spacing: Spacing },
    /// Everyday traffic, and at one moment all those who waited for it.
    FlashCrowd(FlashCrowd),
}

/// How long a user waits between an answer and the next request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Think {
    Constant(Duration),
    /// Exponentially distributed, with this mean.
    Exponential(Duration),
}

impl Think {
    pub const NONE: Self = Self::Constant(Duration::ZERO);
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

/// When no further request is due.
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
    /// Of think times, Poisson arrivals and back-offs.
    pub seed: u64,
}

impl Schedule {
    /// Each connection is a user without think time.
    pub fn closed(duration: Duration) -> Self {
        Self::of(Arrivals::Closed { users: None, think: Think::NONE }, Until::Elapsed(duration))
    }

    /// As [`Schedule::closed`], for so many requests.
    pub fn closed_requests(requests: u64) -> Self {
        Self::of(Arrivals::Closed { users: None, think: Think::NONE }, Until::Issued(requests))
    }

    /// A closed loop of so many users, by time. The generator needs as many connections as there are users at most:
    /// with fewer, users wait for one, which counts as reaching the cap.
    ///
    /// # Panics
    /// If there is never a user.
    pub fn users(users: Profile, think: Think, until: Until) -> Self {
        assert!(users.highest() >= 1.0, "a closed loop needs a user");
        if let Until::Issued(_) = until {
            assert!(users.last() >= 1.0, "without users the requests would never be sent");
        }
        Self::of(Arrivals::Closed { users: Some(users), think }, until)
    }

    /// # Panics
    /// If the rate is not a positive number; the next one likewise.
    pub fn constant(per_s: f64, duration: Duration) -> Self {
        Self::open(positive(per_s), Spacing::Even, Until::Elapsed(duration))
    }

    pub fn poisson(per_s: f64, duration: Duration) -> Self {
        Self::open(positive(per_s), Spacing::Poisson, Until::Elapsed(duration))
    }

    /// # Panics
    /// If nothing ever arrives, or not as many as are to be issued.
    pub fn open(rate: Profile, spacing: Spacing, until: Until) -> Self {
        assert!(rate.highest() > 0.0, "an open loop needs a positive rate");
        if let Until::Issued(_) = until {
            assert!(rate.last() > 0.0, "at a rate of 0 the requests would never be sent");
        }
        Self::of(Arrivals::Open { rate, spacing }, until)
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

    /// A closed loop in which nobody thinks: there is no moment at which a request should have been sent.
    pub(super) fn is_unplanned(&self) -> bool {
        matches!(self.arrivals, Arrivals::Closed { think: Think::NONE, .. })
    }

    /// Requests are due by the clock, so a late one is the generator's or the target's fault.
    pub fn is_open(&self) -> bool {
        !matches!(self.arrivals, Arrivals::Closed { .. })
    }

    /// Requests that can be under way at once at most, if a closed loop that does not say has so many users.
    pub(super) fn in_flight_max(&self, connections: usize) -> f64 {
        match &self.arrivals {
            Arrivals::Closed { users: None, .. } => connections as f64,
            Arrivals::Closed { users: Some(users), .. } => users.highest().floor(),
            Arrivals::Open { .. } | Arrivals::FlashCrowd(_) => f64::INFINITY,
        }
    }

    fn of(arrivals: Arrivals, until: Until) -> Self {
        Self { arrivals, until, seed: SEED }
    }
}

fn positive(per_s: f64) -> Profile {
    assert!(per_s.is_finite() && per_s > 0.0, "an open loop needs a positive rate, not {per_s}");
    Profile::constant(per_s)
}

/// For reports: `closed loop, 10 to 100 users over 30 s, think time 50 ms`, `5000/s, Poisson`.
impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.arrivals {
            Arrivals::Closed { users, think } => {
                f.write_str("closed loop")?;
                if let Some(users) = users {
                    f.write_str(", ")?;
                    show_profile(f, users, " users")?;
                }
                match think {
                    Think::Constant(Duration::ZERO) => {}
                    Think::Constant(time) => write!(f, ", think time {time:?}")?,
                    Think::Exponential(mean) => write!(f, ", exponential think time of {mean:?}")?,
                }
            }
            Arrivals::Open { rate, spacing } => {
                show_profile(f, rate, "/s")?;
                write!(f, ", {spacing}")?;
            }
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

fn show_profile(f: &mut fmt::Formatter<'_>, profile: &Profile, unit: &str) -> fmt::Result {
    match profile.corners() {
        [from, to] if from.level != to.level => {
            write!(f, "{:.0} to {:.0}{unit} over {} s", from.level, to.level, to.at_s)
        }
        [first, ..] if profile.is_constant() => write!(f, "{:.0}{unit}", first.level),
        corners => {
            for (index, Corner { at_s, level }) in corners.iter().enumerate() {
                let comma = if index == 0 { "" } else { ", " };
                write!(f, "{comma}{level:.0}{unit} at {at_s} s")?;
            }
            Ok(())
        }
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
        let users = Profile::ramp(10.0, 100.0, 30 * SECOND);
        let until = Until::Elapsed(60 * SECOND);
        let think = Think::Constant(SECOND / 20);
        check(
            Schedule::users(users, think, until),
            "closed loop, 10 to 100 users over 30 s, think time 50ms",
        );
        let think = Think::Exponential(SECOND);
        check(
            Schedule::users(Profile::constant(100.0), think, until),
            "closed loop, 100 users, exponential think time of 1s",
        );
        check(Schedule::constant(5000.0, SECOND), "5000/s, evenly");
        check(Schedule::poisson(5000.0, SECOND), "5000/s, Poisson");
        let steps = Profile::steps(&[10.0, 20.0], 5 * SECOND);
        check(Schedule::open(steps, Spacing::Even, until), "10/s at 0 s, 10/s at 5 s, 20/s at 5 s, evenly");
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
