//! What must be done beside the orders, once for both profiles: addresses that go after their time, and a look at the
//! wall clock. Each profile calls it from the thread that may write its ledger.
//!
//! Must not: know which ledger it is, or decide when a sale begins.

use std::time::{Duration, Instant};

use engine::UnixMs;

use crate::clock::Clock;
use crate::intake::Reply;
use crate::metrics::Metrics;

/// Between two looks for addresses to purge, and how many are purged with one transaction.
const PURGE_INTERVAL: Duration = Duration::from_secs(10);
const PURGE_ROWS: u32 = 2_000;
/// A difference from the wall clock that an operator should know of, and how often it is reported.
const CLOCK_DIFFERENCE_MS_MAX: u64 = 1_000;
const CLOCK_INTERVAL: Duration = Duration::from_secs(60);
const MS_PER_DAY: u64 = 24 * 3600 * 1000;

/// Removes the addresses of orders whose retention is over, a portion at a time.
#[derive(Debug)]
pub(crate) struct Purging {
    kept_ms: u64,
    purged_at: Instant,
}

impl Purging {
    pub(crate) fn new(retention_days: u32) -> Purging {
        Purging { kept_ms: u64::from(retention_days) * MS_PER_DAY, purged_at: Instant::now() }
    }

    /// If it is time: has `purge` remove what was placed before the time that it is given, at most so many rows, and
    /// return how many it went through. After a full portion the next call goes on; after a failure, it waits.
    ///
    /// # Errors
    /// What `purge` fails with.
    pub(crate) fn portion<E>(
        &mut self,
        clock: &Clock,
        metrics: &Metrics,
        purge: impl FnOnce(UnixMs, u32) -> Result<u32, E>,
    ) -> Result<(), E> {
        if self.purged_at.elapsed() < PURGE_INTERVAL {
            return Ok(());
        }
        let cutoff = UnixMs(clock.now().0.saturating_sub(self.kept_ms));
        let purged = purge(cutoff, PURGE_ROWS);
        if !matches!(purged, Ok(PURGE_ROWS..)) {
            self.purged_at = Instant::now();
        }
        metrics.addresses_purged.inc_by(u64::from(purged?));
        Ok(())
    }
}

/// Looks at the wall clock now and then. The sale goes by the server's clock whatever the wall clock does; a difference
/// is for an operator to judge.
#[derive(Debug, Default)]
pub(crate) struct ClockWatch {
    looked_at: Option<Instant>,
}

impl ClockWatch {
    pub(crate) fn look(&mut self, clock: &Clock) {
        if self.looked_at.is_some_and(|looked| looked.elapsed() < CLOCK_INTERVAL) {
            return;
        }
        self.looked_at = Some(Instant::now());
        let difference_ms = clock.wall_difference_ms();
        if difference_ms.unsigned_abs() > CLOCK_DIFFERENCE_MS_MAX {
            tracing::warn!(
                difference_ms,
                "the wall clock differs from the sale's clock; POST /api/v1/clock/re-anchor takes its time"
            );
        }
    }
}

/// Takes the wall clock's time because an operator asked for it, but never goes behind `not_before`.
pub(crate) fn reanchor(clock: &Clock, not_before: UnixMs) -> Reply {
    let difference_ms = clock.reanchor(not_before);
    tracing::warn!(difference_ms, "an operator re-anchored the clock");
    Reply::Reanchored { difference_ms }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn days(days: u64) -> UnixMs {
        UnixMs(days * MS_PER_DAY)
    }

    fn due(retention_days: u32) -> Purging {
        let purged_at = Instant::now().checked_sub(PURGE_INTERVAL).expect("the machine is up for so long");
        Purging { purged_at, ..Purging::new(retention_days) }
    }

    #[test]
    fn addresses_are_purged_when_it_is_time_and_until_none_is_left() {
        let (clock, metrics) = (Clock::new(|| days(40)), Metrics::default());
        let mut purging = due(30);
        let mut asked = Vec::new();
        for rows in [PURGE_ROWS, PURGE_ROWS, 7, 0] {
            let portion = purging.portion(&clock, &metrics, |cutoff, max| {
                asked.push((cutoff.0 / MS_PER_DAY, max));
                Ok::<_, ()>(rows)
            });
            assert_eq!(portion, Ok(()));
        }
        assert_eq!(asked, [(10, PURGE_ROWS); 3], "after a portion that was not full it waits");
        assert_eq!(metrics.addresses_purged.get(), u64::from(2 * PURGE_ROWS) + 7);
    }

    #[test]
    fn a_purge_that_failed_is_tried_again_later() {
        let (clock, metrics) = (Clock::new(|| days(40)), Metrics::default());
        let mut purging = due(30);
        assert_eq!(purging.portion(&clock, &metrics, |_, _| Err("away")), Err("away"));
        assert_eq!(purging.portion(&clock, &metrics, |_, _| Err("away")), Ok(()));
        assert_eq!(metrics.addresses_purged.get(), 0);
    }
}
