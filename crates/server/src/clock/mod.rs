//! The server's clock: the wall clock at start plus monotonic time, never behind the ledger.
//!
//! The wall clock may be set back or forward under a running sale; this clock does not follow. The difference
//! is measured, warned of and shown as a metric, and only an operator's command takes the wall clock's time. At a start
//! there is nothing but the wall clock to go by; if it can't be believed (`start`), this clock stands still until it is
//! confirmed. Must not: know a ledger.

mod start;
mod system;

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use engine::UnixMs;

use crate::time::Instant;

pub use start::{Checks, KnownTime, Notes, PURGE_WAIT_MS, StartClock, Trust, Who};
pub use system::is_synchronised;

/// Where the wall clock's time comes from; tests give their own.
pub type WallClock = fn() -> UnixMs;

/// The machine's wall clock.
#[expect(clippy::disallowed_methods, reason = "this is the clock that everything else is given")]
pub fn wall_clock() -> UnixMs {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    UnixMs(u64::try_from(since.as_millis()).expect("the year is not 500 million"))
}

/// The time, or as much as is known of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Between {
    pub earliest: UnixMs,
    pub latest: UnixMs,
}

impl From<UnixMs> for Between {
    fn from(at: UnixMs) -> Between {
        Between { earliest: at, latest: at }
    }
}

/// One clock for the whole process, shared by all threads.
#[derive(Debug)]
pub struct Clock {
    wall: WallClock,
    started: Instant,
    /// Time at `started`; moved forward by [`Clock::advance_to`] and by [`Clock::set`].
    anchor_ms: AtomicU64,
    /// Where it stands still; 0: it runs.
    stands_at_ms: AtomicU64,
}

impl Clock {
    pub fn new(wall: WallClock) -> Clock {
        let (anchor_ms, stands_at_ms) = (AtomicU64::new(wall().0), AtomicU64::new(0));
        Clock { wall, started: Instant::now(), anchor_ms, stands_at_ms }
    }

    pub fn now(&self) -> UnixMs {
        self.at(Instant::now())
    }

    /// The time at a moment that was just read: who needs both asks the system once.
    pub fn at(&self, moment: Instant) -> UnixMs {
        match self.stands_at_ms.load(Ordering::Acquire) {
            0 => UnixMs(self.anchor_ms.load(Ordering::Relaxed) + self.ms_until(moment)),
            stands_at => UnixMs(stands_at),
        }
    }

    /// Makes sure that the clock is not behind this time: the ledger's latest, at start.
    pub fn advance_to(&self, at: UnixMs) {
        let elapsed = self.elapsed_ms();
        self.anchor_ms.fetch_max(at.0.saturating_sub(elapsed), Ordering::Relaxed);
    }

    /// Lets the clock stand at this time until it is set.
    pub fn stand_at(&self, at: UnixMs) {
        self.advance_to(at);
        self.stands_at_ms.store(at.0.max(1), Ordering::Release);
    }

    /// Whether it runs. While it does not, nobody knows what time it is.
    pub fn is_confirmed(&self) -> bool {
        self.stands_at_ms.load(Ordering::Acquire) == 0
    }

    /// What is known of the time, which is `now` here, for who judges times that others have written. While the clock stands, it is no
    /// earlier than the earlier one of its own time and the wall's: one of them may be right, and the latest is unknown.
    pub fn between(&self, now: UnixMs) -> Between {
        if self.is_confirmed() {
            return now.into();
        }
        Between { earliest: now.min(self.wall()), latest: UnixMs(u64::MAX) }
    }

    /// The latest of what this clock and the wall's say, for what must end in time whichever of them is wrong. It does not
    /// stand: what was begun while the clock stands ends, too.
    pub fn latest(&self) -> UnixMs {
        let counted = UnixMs(self.anchor_ms.load(Ordering::Relaxed) + self.elapsed_ms());
        self.now().max(counted).max(self.wall())
    }

    /// What the wall clock says.
    pub fn wall(&self) -> UnixMs {
        (self.wall)()
    }

    /// What the wall clock, as it is now, would have said at the start.
    pub fn wall_at_start(&self) -> UnixMs {
        UnixMs(self.wall().0.saturating_sub(self.elapsed_ms()))
    }

    /// How far the wall clock is ahead of this one, in milliseconds (negative: behind).
    pub fn wall_difference_ms(&self) -> i64 {
        let wall = i64::try_from(self.wall().0).unwrap_or(i64::MAX);
        wall - i64::try_from(self.now().0).unwrap_or(i64::MAX)
    }

    /// Sets it to this time, from which it runs. It may go back: the caller has seen to what stands behind it.
    pub fn set(&self, to: UnixMs) {
        self.anchor_ms.store(to.0.saturating_sub(self.elapsed_ms()), Ordering::Relaxed);
        self.stands_at_ms.store(0, Ordering::Release);
    }

    fn elapsed_ms(&self) -> u64 {
        self.ms_until(Instant::now())
    }

    fn ms_until(&self, moment: Instant) -> u64 {
        u64::try_from(moment.duration_since(self.started).as_millis())
            .expect("the process is younger than 500 million years")
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn fixed() -> UnixMs {
        UnixMs(1_000_000)
    }

    #[test]
    fn the_clock_starts_at_the_wall_and_never_goes_behind_the_ledger() {
        let clock = Clock::new(fixed);
        assert!(clock.now() >= fixed());
        clock.advance_to(UnixMs(5_000_000));
        assert!(clock.now() >= UnixMs(5_000_000));
        assert!(clock.wall_difference_ms() <= -4_000_000);
        clock.advance_to(UnixMs(7));
        assert!(clock.now() >= UnixMs(5_000_000));
    }

    #[test]
    fn at_a_moment_it_says_what_it_said_then() {
        let clock = Clock::new(fixed);
        let moment = clock.started + Duration::from_millis(2_500);
        assert_eq!(clock.at(moment), UnixMs(1_002_500));
        assert_eq!(clock.at(clock.started - Duration::from_secs(1)), fixed(), "no time before its start");
    }

    #[test]
    fn it_is_set_in_both_directions() {
        let clock = Clock::new(fixed);
        for at in [5_000_000, 2_000_000, 1_000_000] {
            clock.set(UnixMs(at));
            let now = clock.now().0;
            assert!((at..at + 100_000).contains(&now), "{now}");
        }
    }

    #[test]
    fn a_clock_that_stands_says_so_until_it_is_set() {
        let clock = Clock::new(fixed);
        assert_eq!(clock.between(UnixMs(7)), UnixMs(7).into());
        for stands_at in [UnixMs(0), UnixMs(500_000), UnixMs(5_000_000)] {
            clock.stand_at(stands_at);
            clock.advance_to(UnixMs(9_000_000));
            assert!(!clock.is_confirmed());
            assert_eq!(clock.now(), stands_at.max(UnixMs(1)));
            assert_eq!(clock.at(Instant::now() + Duration::from_secs(1)), clock.now());
            let between = clock.between(clock.now());
            assert_eq!(between.earliest, clock.now().min(fixed()));
            assert_eq!(between.latest, UnixMs(u64::MAX));
            assert!(clock.latest() >= UnixMs(9_000_000), "{stands_at:?}: time goes on");
        }
        clock.set(UnixMs(500_000));
        assert_eq!(clock.latest(), fixed(), "the wall's, where it is ahead");
        clock.set(UnixMs(3_000_000));
        assert!(clock.is_confirmed());
        assert!((3_000_000..3_100_000).contains(&clock.latest().0));
        assert!((3_000_000..3_100_000).contains(&clock.now().0));
    }
}
