//! The history of the figures as it was read last, for whoever asks for the same within a second: all consoles show the same
//! spans, and each of them is read once for all.
//!
//! Must not: keep what ends in the past, which nobody else asks for.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use engine::UnixMs;

use super::lists::Bounded;
use crate::figures::{History, HistoryQuery, NoHistory, Points};
use crate::http::wire::answer::{JSON, NO_STORE, NOSNIFF};
use crate::net::Prepared;

/// A second is added to it in each second.
const FRESH: Duration = Duration::from_secs(1);
/// What ends so near now ends now: whoever shows the figures as they come knows the time by them.
const NOW_MS: u64 = 2_000;
/// Answers that are kept, and their bytes: of one item each, in a few spans.
const KEPT_MAX: usize = 128;
const KEPT_BYTES_MAX: usize = 32 * 1024 * 1024;

fn answer(points: &Points) -> Arc<Prepared> {
    Arc::new(Prepared::new(200, &[NOSNIFF, NO_STORE], JSON, &points.to_json()))
}

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Wish {
    pub(super) time_ms: (u64, u64),
    pub(super) points: u64,
    /// A sale and a product of it.
    pub(super) item: Option<(u64, u64)>,
}

impl Wish {
    /// The same of whoever asks for the same span until now; `None`: it ends at another time.
    fn until_now(self, now: UnixMs) -> Option<Wish> {
        let (from_ms, to_ms) = self.time_ms;
        let ends_now = to_ms.abs_diff(now.0) <= NOW_MS;
        ends_now.then_some(Wish { time_ms: (0, to_ms.saturating_sub(from_ms)), ..self })
    }

    fn asked(&self, time_ms: (u64, u64)) -> HistoryQuery {
        HistoryQuery::new(time_ms, self.points, self.item)
    }
}

/// Shared by all loops.
#[derive(Debug)]
pub(super) struct Histories(Mutex<Bounded<Wish, Kept>>);

type Kept = (Instant, Arc<Prepared>);

impl Default for Histories {
    fn default() -> Histories {
        Histories(Mutex::new(Bounded::new(KEPT_MAX, KEPT_BYTES_MAX)))
    }
}

impl Histories {
    fn lock(&self) -> MutexGuard<'_, Bounded<Wish, Kept>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The answer, if one was read a moment ago.
    pub(super) fn fresh(&self, wish: Wish, now: UnixMs) -> Option<Arc<Prepared>> {
        self.kept(wish.until_now(now)?)
    }

    fn kept(&self, same: Wish) -> Option<Arc<Prepared>> {
        let mut kept = self.lock();
        let (_, answer) = kept.get(same).filter(|(read_at, _)| read_at.elapsed() < FRESH)?;
        Some(Arc::clone(answer))
    }

    /// Reads it, unless somebody had it read a moment ago. Blocks.
    ///
    /// # Errors
    /// `NoHistory`.
    pub(super) fn read(
        &self,
        history: &History,
        wish: Wish,
        now: UnixMs,
    ) -> Result<Arc<Prepared>, NoHistory> {
        let Some(same) = wish.until_now(now) else {
            return Ok(answer(&history.read(&wish.asked(wish.time_ms))?));
        };
        if let Some(answer) = self.kept(same) {
            return Ok(answer);
        }
        let (read_at, end_ms) = (Instant::now(), now.0 + 1);
        let (_, span_ms) = same.time_ms;
        let points = history.read(&wish.asked((end_ms.saturating_sub(span_ms), end_ms)))?;
        let answer = answer(&points);
        self.lock().put(same, (read_at, Arc::clone(&answer)), answer.bytes());
        Ok(answer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: UnixMs = UnixMs(1_700_000_000_000);

    fn wish(from_ms: u64, to_ms: u64) -> Wish {
        Wish { time_ms: (from_ms, to_ms), points: 10, item: None }
    }

    #[test]
    fn a_span_until_now_is_read_once_for_all_and_another_one_for_itself() {
        let (histories, history) = (Histories::default(), History::open(None));
        let last_hour = |late_ms| wish(NOW.0 - 3_600_000 - late_ms, NOW.0 - late_ms);
        let read = |wish, now| histories.read(&history, wish, now).unwrap();
        assert!(histories.fresh(last_hour(0), NOW).is_none());
        let first = read(last_hour(0), NOW);
        for late_ms in [0, 17, NOW_MS] {
            // Whoever came in between has had it read.
            assert!(Arc::ptr_eq(&read(last_hour(late_ms), NOW), &first), "{late_ms}");
            let fresh = histories.fresh(last_hour(late_ms), NOW).expect("it was read just now");
            assert!(Arc::ptr_eq(&fresh, &first), "{late_ms}");
        }
        for other in [
            last_hour(NOW_MS + 1),
            wish(NOW.0 - 3_600_001, NOW.0),
            Wish { item: Some((3, 30)), ..last_hour(0) },
        ] {
            assert!(histories.fresh(other, NOW).is_none(), "{other:?}");
            assert!(!Arc::ptr_eq(&read(other, NOW), &first), "{other:?}");
        }
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let (histories, history) = (Histories::default(), History::open(None));
        for span_ms in 1..=3 * KEPT_MAX as u64 {
            histories.read(&history, wish(NOW.0 - span_ms, NOW.0), NOW).unwrap();
            let (entries, bytes) = histories.lock().size();
            assert!(entries <= KEPT_MAX && bytes <= KEPT_BYTES_MAX, "{entries}, {bytes}");
        }
    }
}
