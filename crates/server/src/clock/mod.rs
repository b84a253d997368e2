//! The server's clock: the wall clock at start plus monotonic time, never behind the ledger.
//!
//! The wall clock may be set back or forward under a running sale; this clock does not follow. The difference
//! is measured, warned of and shown as a metric, and only an operator's command takes the wall clock's time.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use engine::UnixMs;

/// Where the wall clock's time comes from; tests give their own.
pub type WallClock = fn() -> UnixMs;

/// The machine's wall clock.
#[expect(clippy::disallowed_methods, reason = "this is the clock that everything else is given")]
pub fn wall_clock() -> UnixMs {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    UnixMs(u64::try_from(since.as_millis()).expect("the year is not 500 million"))
}

/// One clock for the whole process, shared by all threads.
#[derive(Debug)]
pub struct Clock {
    wall: WallClock,
    started: Instant,
    /// Time at `started`; moved forward by [`Clock::advance_to`] and by [`Clock::reanchor`].
    anchor_ms: AtomicU64,
}

impl Clock {
    pub fn new(wall: WallClock) -> Clock {
        Clock { wall, started: Instant::now(), anchor_ms: AtomicU64::new(wall().0) }
    }

    pub fn now(&self) -> UnixMs {
        UnixMs(self.anchor_ms.load(Ordering::Relaxed) + self.elapsed_ms())
    }

    /// Makes sure that the clock is not behind this time: the ledger's latest, at start.
    pub fn advance_to(&self, at: UnixMs) {
        let elapsed = self.elapsed_ms();
        self.anchor_ms.fetch_max(at.0.saturating_sub(elapsed), Ordering::Relaxed);
    }

    /// How far the wall clock is ahead of this one, in milliseconds (negative: behind).
    pub fn wall_difference_ms(&self) -> i64 {
        let wall = i64::try_from((self.wall)().0).unwrap_or(i64::MAX);
        wall - i64::try_from(self.now().0).unwrap_or(i64::MAX)
    }

    /// Takes the wall clock's time, but never goes behind `not_before`. Returns the difference that is left.
    pub fn reanchor(&self, not_before: UnixMs) -> i64 {
        let target = (self.wall)().max(not_before);
        self.anchor_ms.store(target.0.saturating_sub(self.elapsed_ms()), Ordering::Relaxed);
        self.wall_difference_ms()
    }

    fn elapsed_ms(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_millis())
            .expect("the process is younger than 500 million years")
    }
}

#[cfg(test)]
mod tests {
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
    fn only_a_reanchor_takes_the_walls_time_and_not_behind_the_ledger() {
        let clock = Clock::new(fixed);
        clock.advance_to(UnixMs(5_000_000));
        clock.reanchor(UnixMs(2_000_000));
        let now = clock.now().0;
        assert!((2_000_000..2_100_000).contains(&now), "{now}");
        clock.reanchor(UnixMs(0));
        assert!(clock.now().0 < 1_100_000);
    }
}
