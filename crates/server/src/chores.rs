//! What must be done beside the orders, once for both profiles: addresses that go after their time, or with their buyer, and a look at the
//! wall clock. Each profile calls it from the thread that may write its ledger.
//!
//! Must not: know which ledger it is, or decide when a sale begins.

use std::time::Duration;

use engine::UnixMs;

use crate::clock::Clock;
use crate::intake::catalog::Catalog;
use crate::metrics::Metrics;
use crate::time::Instant;
use engine::format_utc;

/// Between two looks for addresses to purge, and how many are purged with one transaction.
const PURGE_INTERVAL: Duration = Duration::from_secs(10);
const PURGE_ROWS: u32 = 2_000;
/// Between two looks for buyers who were erased.
const ERASE_INTERVAL: Duration = Duration::from_secs(1);
/// A difference from the wall clock that an operator should know of, and how often it is reported.
pub(crate) const CLOCK_DIFFERENCE_MS_MAX: u64 = 1_000;
const CLOCK_INTERVAL: Duration = Duration::from_secs(60);
const MS_PER_DAY: u64 = 24 * 3600 * 1000;

/// Removes the addresses of orders whose retention is over, a portion at a time.
#[derive(Debug)]
pub(crate) struct Purging {
    kept_ms: u64,
    /// `None`: not since the start.
    purged_at: Option<Instant>,
}

impl Purging {
    pub(crate) fn new(retention_days: u32) -> Purging {
        Purging { kept_ms: u64::from(retention_days) * MS_PER_DAY, purged_at: None }
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
        if self.purged_at.is_some_and(|purged| purged.elapsed() < PURGE_INTERVAL) {
            return Ok(());
        }
        let cutoff = UnixMs(clock.now().0.saturating_sub(self.kept_ms));
        let purged = purge(cutoff, PURGE_ROWS);
        if !matches!(purged, Ok(PURGE_ROWS..)) {
            self.purged_at = Some(Instant::now());
        }
        metrics.addresses_purged.inc_by(u64::from(purged?));
        Ok(())
    }
}

/// Removes the addresses of buyers who were erased, a portion at a time. No clock has a say in it.
#[derive(Debug, Default)]
pub(crate) struct Erasing {
    looked_at: Option<Instant>,
}

impl Erasing {
    /// If it is time: has `erase` go through at most so many orders, and return through how many it went.
    ///
    /// # Errors
    /// What `erase` fails with.
    pub(crate) fn portion<E>(&mut self, erase: impl FnOnce(u32) -> Result<u32, E>) -> Result<(), E> {
        if self.looked_at.is_some_and(|looked| looked.elapsed() < ERASE_INTERVAL) {
            return Ok(());
        }
        let looked = erase(PURGE_ROWS);
        if !matches!(looked, Ok(PURGE_ROWS..)) {
            self.looked_at = Some(Instant::now());
        }
        looked.map(drop)
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
        if clock.is_confirmed() && difference_ms.unsigned_abs() > CLOCK_DIFFERENCE_MS_MAX {
            tracing::warn!(
                difference_ms,
                "the wall clock differs from the sale's clock; `doorbuster clock confirm` takes its time"
            );
        }
    }
}

/// Why the clock stands, when that matters next, and what to do; `None`: it runs.
pub(crate) fn why_unconfirmed(clock: &Clock, catalog: &Catalog) -> Option<String> {
    if clock.is_confirmed() {
        return None;
    }
    let (known, wall) = (clock.now(), clock.wall());
    let ahead = if wall < known { "behind" } else { "ahead" };
    let jump_s = wall.0.abs_diff(known.0) / 1_000;
    let (days, hours, minutes) = (jump_s / 86_400, jump_s / 3_600 % 24, jump_s / 60 % 60);
    let (known, wall) = (format_utc(known.0), format_utc(wall.0));
    let next = match next_start(clock.now(), catalog) {
        Some(at) => format!("the next sale is to start at {}", format_utc(at.0)),
        None => "no sale is to start".to_owned(),
    };
    Some(format!(
        "the clock is not confirmed: it was {known} when a server noted it last, and the system's says {wall}, {days}d \
         {hours}h {minutes}m {ahead}. No order is taken, no sale opens or ends, nothing expires or is erased, and {next}. \
         If the system's clock is right, run `doorbuster clock confirm`; if not, stop the server and set it"
    ))
}

/// When the next sale starts by a clock that stands.
pub(crate) fn next_start(now: UnixMs, catalog: &Catalog) -> Option<UnixMs> {
    let waiting = catalog.sales.iter().filter(|sale| sale.ended_at.is_none() && sale.spec.starts_at > now);
    waiting.map(|sale| sale.spec.starts_at).min()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn days(days: u64) -> UnixMs {
        UnixMs(days * MS_PER_DAY)
    }

    #[test]
    fn addresses_are_purged_when_it_is_time_and_until_none_is_left() {
        let (clock, metrics) = (Clock::new(|| days(40)), Metrics::default());
        let mut purging = Purging::new(30);
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
        let mut purging = Purging::new(30);
        assert_eq!(purging.portion(&clock, &metrics, |_, _| Err("away")), Err("away"));
        assert_eq!(purging.portion(&clock, &metrics, |_, _| Err("away")), Ok(()));
        assert_eq!(metrics.addresses_purged.get(), 0);
    }
}
