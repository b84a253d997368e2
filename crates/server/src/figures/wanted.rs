//! Sales that somebody watches by their number: they are shown beside those that there is room for.
//!
//! Must not: know whether there is such a sale.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::time::Instant;

/// So many at a time, of all servers of a cluster together.
pub(super) const WANTED_MAX: usize = 4;
/// Since it was asked for last.
const WANTED_FOR: Duration = Duration::from_secs(10);

#[derive(Debug, Default)]
pub struct WantedSales(Mutex<Vec<(u64, Instant)>>);

impl WantedSales {
    /// It is shown from the next second on, unless there are others in all places: whoever came first stays.
    pub fn ask(&self, sale: u64, now: Instant) {
        let mut wanted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        wanted.retain(|(other, asked_at)| *other != sale && now.duration_since(*asked_at) < WANTED_FOR);
        if wanted.len() < WANTED_MAX {
            wanted.push((sale, now));
        }
    }

    pub(super) fn now(&self, now: Instant) -> Vec<u64> {
        let wanted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let asked = wanted.iter().filter(|(_, asked_at)| now.duration_since(*asked_at) < WANTED_FOR);
        asked.map(|(sale, _)| *sale).collect()
    }
}

/// Of those that are asked for at all servers, which all choose the same.
pub(super) fn of_all(asked: &[u64]) -> Vec<u64> {
    let mut all = asked.to_vec();
    all.sort_unstable();
    all.dedup();
    all.truncate(WANTED_MAX);
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sale_is_wanted_for_a_while_and_few_are_at_a_time() {
        let (wanted, begun) = (WantedSales::default(), Instant::now());
        let at = |s| begun + Duration::from_secs(s);
        for (second, sale) in [(0, 9), (1, 8), (2, 7), (3, 6), (4, 5), (5, 9)] {
            wanted.ask(sale, at(second));
        }
        assert_eq!(wanted.now(at(5)), [8, 7, 6, 9], "who came first stays");
        assert_eq!(wanted.now(at(11)), [7, 6, 9]);
        wanted.ask(5, at(11));
        assert_eq!(wanted.now(at(13)), [9, 5]);
        assert_eq!(wanted.now(at(21)), [0; 0]);
        assert_eq!(of_all(&[9, 5, 5, 1, 2, 3]), [1, 2, 3, 5]);
    }
}
