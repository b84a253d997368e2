//! When this server was away itself: it stood still, or was cut off from the others.
//!
//! What it knows when it is back is out of date, and that is no fault of an engine or of another server. Must not: look at
//! anything itself.

use std::time::Duration;

use super::INTERVAL;
use super::part::{SILENT, ms};
use crate::time::Instant;

/// After so long everything has been looked at again.
const BACK: Duration = SILENT;

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Away {
    /// When it went on, after it had stood still.
    woke: Option<Instant>,
    /// When it reached neither the gate nor any of the others, last.
    cut_off: Option<Instant>,
}

/// What is between two looks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Since {
    pub(super) passed: Duration,
    pub(super) stood_still: bool,
}

impl Since {
    /// In how long what is counted was done: whoever stood still did all of it before and after.
    pub(super) fn busy(self) -> Duration {
        if self.stood_still { INTERVAL } else { self.passed }
    }

    /// For how long it stood still, at least.
    pub(super) fn still(self) -> Option<Duration> {
        self.stood_still.then(|| self.passed.saturating_sub(INTERVAL))
    }
}

impl Away {
    /// A look comes so long after the one before. One that comes as late as others would have missed us says that the
    /// whole server stood still: frozen, swapped out, or on a machine that slept.
    pub(super) fn look(&mut self, passed: Duration, at: Instant) -> Since {
        let stood_still = passed >= SILENT;
        if stood_still {
            self.woke = Some(at);
        }
        Since { passed, stood_still }
    }

    pub(super) fn note_cut_off(&mut self, at: Instant) {
        self.cut_off = Some(at);
    }

    /// Nothing that was to happen in time has: what is known of engines may be of that alone.
    pub(super) fn has_just_woken(&self, now: Instant) -> bool {
        self.woke.is_some_and(|woke| now.duration_since(woke) < BACK)
    }

    /// Nor is it known whether others use the ledger.
    pub(super) fn is_just_back(&self, now: Instant) -> bool {
        let is_just = |back: Instant| now.duration_since(back) < BACK;
        self.has_just_woken(now) || self.cut_off.is_some_and(is_just)
    }

    /// Of an age, what has passed since this server went on.
    pub(super) fn awake_ms(&self, age_ms: u64, now: Instant) -> u64 {
        self.woke.map_or(age_ms, |woke| age_ms.min(ms(now.duration_since(woke))))
    }

    /// As above, since it reached the others again, too.
    pub(super) fn there_ms(&self, age_ms: u64, now: Instant) -> u64 {
        let age_ms = self.awake_ms(age_ms, now);
        self.cut_off.map_or(age_ms, |back| age_ms.min(ms(now.duration_since(back))))
    }
}
