//! A fault that a loop meets again and again, in the log: once when it begins, then how often, and once when it is over.
//!
//! A paused database fails several rounds a second of several stages; each of them would say so each time. What is
//! counted here is one kind of fault of one stage, whatever its text is: the newest text is shown.
//!
//! Must not: decide anything. A loop tries again, or does not, as if nothing were logged.

use std::fmt::Display;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::time::Instant;

/// From one line about a fault that goes on to the next.
const REPORT_INTERVAL: Duration = Duration::from_secs(10);
/// A fault is over once it was not seen for so long: one that comes and goes is one fault.
const QUIET: Duration = Duration::from_secs(3);

/// One kind of fault. Threads of one stage share it.
#[derive(Debug)]
pub(crate) struct Recurring {
    what: &'static str,
    episode: Mutex<Option<Episode>>,
}

/// From the first time that it was seen until it is over.
#[derive(Clone, Copy, Debug)]
struct Episode {
    began: Instant,
    last_seen: Instant,
    reported: Instant,
    times: u64,
    /// Of them, those that a line has counted.
    times_reported: u64,
}

/// What is to be logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Line {
    First,
    /// So many times within so many seconds.
    Again {
        times: u64,
        seconds: u64,
    },
    /// So many times within so many seconds in all.
    Over {
        times: u64,
        seconds: u64,
    },
}

impl Recurring {
    /// `what` is what the log calls it: "consumption pauses".
    pub(crate) const fn new(what: &'static str) -> Recurring {
        Recurring { what, episode: Mutex::new(None) }
    }

    /// It was met, once more or for the first time.
    pub(crate) fn met(&self, why: &dyn Display) {
        let what = self.what;
        match self.met_at(Instant::now()) {
            Some(Line::First) => tracing::warn!(%why, "{what}"),
            Some(Line::Again { times, seconds }) => {
                tracing::warn!(%why, "{what}: {times} times in the last {seconds} s");
            }
            Some(Line::Over { .. }) | None => {}
        }
    }

    /// All went well. To be called whenever it does: it costs next to nothing.
    pub(crate) fn well(&self) {
        if let Some(Line::Over { times, seconds }) = self.well_at(Instant::now()) {
            tracing::info!("over: {}; {times} times in {seconds} s", self.what);
        }
    }

    fn met_at(&self, now: Instant) -> Option<Line> {
        let mut episode = self.episode.lock().unwrap_or_else(PoisonError::into_inner);
        // Not everybody who meets a fault learns that it is over.
        let goes_on = |known: &&mut Episode| now.duration_since(known.last_seen) < REPORT_INTERVAL;
        let Some(known) = episode.as_mut().filter(goes_on) else {
            *episode =
                Some(Episode { began: now, last_seen: now, reported: now, times: 1, times_reported: 1 });
            return Some(Line::First);
        };
        known.last_seen = now;
        known.times += 1;
        let since = now.duration_since(known.reported);
        if since < REPORT_INTERVAL {
            return None;
        }
        let times = known.times - known.times_reported;
        (known.reported, known.times_reported) = (now, known.times);
        Some(Line::Again { times, seconds: since.as_secs() })
    }

    fn well_at(&self, now: Instant) -> Option<Line> {
        let mut episode = self.episode.lock().unwrap_or_else(PoisonError::into_inner);
        let over = episode.take_if(|known| now.duration_since(known.last_seen) >= QUIET)?;
        let seconds = over.last_seen.duration_since(over.began).as_secs();
        Some(Line::Over { times: over.times, seconds })
    }
}

#[cfg(test)]
mod tests;
