//! The circuit breaker of an endpoint: after some failures in a row it is left alone for a while.

use engine::UnixMs;

/// Failures in a row, over all orders.
pub(super) const FAILURES_MAX: u32 = 5;
/// The first pause, which doubles up to the last.
const PAUSE_MS_MIN: u64 = 30_000;
const PAUSE_MS_MAX: u64 = 600_000;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Breaker {
    /// In a row, up to now.
    failures: u32,
    /// Until when nothing is sent, and how long the pause is.
    open: Option<(UnixMs, u64)>,
}

impl Breaker {
    /// How many failures may follow until it opens; `None`: it is open, and nothing may be sent. After a pause, one.
    pub(super) fn failures_left(&self, now: UnixMs) -> Option<u32> {
        match self.open {
            // A clock that went back does not make the pause longer.
            Some((until, pause_ms)) if now < until && until.0 - now.0 <= pause_ms => None,
            Some(_) => Some(1),
            None => Some(FAILURES_MAX - self.failures),
        }
    }

    /// Until when nothing is sent.
    pub(super) fn paused_until(&self) -> Option<UnixMs> {
        self.open.map(|(until, _)| until)
    }

    /// After a round: whether anything was answered well, and how many failures followed the last that was. Returns whether it has
    /// just opened for the first time.
    pub(super) fn judge(&mut self, answered: bool, failures: u32, now: UnixMs) -> bool {
        if answered {
            *self = Breaker::default();
        }
        self.failures = (self.failures + failures).min(FAILURES_MAX);
        let tripped = failures > 0 && (self.open.is_some() || self.failures == FAILURES_MAX);
        if !tripped {
            return false;
        }
        let pause_ms = self.open.map_or(PAUSE_MS_MIN, |(_, pause_ms)| (2 * pause_ms).min(PAUSE_MS_MAX));
        let first = self.open.is_none();
        self.open = Some((now.plus(pause_ms), pause_ms));
        first
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_opens_after_failures_in_a_row_tries_once_and_pauses_longer() {
        let mut breaker = Breaker::default();
        let now = UnixMs(1_000_000);
        assert_eq!(breaker.failures_left(now), Some(5));
        assert!(!breaker.judge(false, 3, now));
        assert_eq!(breaker.failures_left(now), Some(2));
        assert!(!breaker.judge(true, 1, now), "an answer between them begins the count anew");
        assert_eq!(breaker.failures_left(now), Some(4));
        assert!(breaker.judge(false, 4, now));
        let mut at = now;
        for pause_ms in [30_000, 60_000, 120_000, 240_000, 480_000, 600_000, 600_000] {
            assert_eq!(breaker.failures_left(at.plus(pause_ms - 1)), None);
            at = at.plus(pause_ms);
            assert_eq!(breaker.failures_left(at), Some(1));
            assert!(!breaker.judge(false, 1, at), "it was open");
        }
        assert!(breaker.paused_until() == Some(at.plus(600_000)) && !breaker.judge(true, 0, at));
        assert_eq!((breaker.paused_until(), breaker.failures_left(at)), (None, Some(5)));
    }

    #[test]
    fn a_clock_that_goes_back_does_not_make_a_pause_longer() {
        let mut breaker = Breaker::default();
        breaker.judge(false, 5, UnixMs(1_000_000_000));
        assert_eq!(breaker.failures_left(UnixMs(1_000)), Some(1));
    }
}
