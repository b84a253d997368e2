//! How long a buyer waits whose holds came back: a bound of orders per buyer and SKU, whatever the limit is.
//!
//! A hold that is cancelled or expires gives its units back, and the buyer may order again: a program in a loop
//! would fill memory and disk with such orders, and keep units from everybody else meanwhile. The first two are free. From the
//! third one on the buyer waits, twice as long each time. So the orders of one buyer for one SKU are at most those whose
//! units the buyer has, and about log2(sale / first wait) more: with 10 s to begin with 16 in a day, 20 in a month.

use crate::UnixMs;

/// Holds of a SKU that a buyer may let go without waiting.
pub const RETURNED_HOLDS_FREE: u32 = 2;
/// More doublings than this are none: the wait is longer than any sale, and times stay exact in the gate's numbers.
const DOUBLINGS_MAX: u32 = 30;

/// The first wait, in milliseconds; 0: nobody waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CoolDown {
    pub first_ms: u32,
}

impl CoolDown {
    pub const NONE: CoolDown = CoolDown { first_ms: 0 };

    /// When a buyer may order a SKU again, of which so many holds came back, the latest one at this time.
    pub fn until(self, returned_holds: u32, latest_at: UnixMs) -> UnixMs {
        let Some(doublings) = returned_holds.checked_sub(RETURNED_HOLDS_FREE + 1) else { return UnixMs(0) };
        latest_at.plus(u64::from(self.first_ms) << doublings.min(DOUBLINGS_MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_are_free_and_each_further_one_doubles_the_wait() {
        let cool_down = CoolDown { first_ms: 10_000 };
        for (returned, wait_ms) in [
            (0, None),
            (2, None),
            (3, Some(10_000)),
            (4, Some(20_000)),
            (13, Some(10_240_000)),
            (33, Some(10_000 << 30)),
            (34, Some(10_000 << 30)),
            (u32::MAX, Some(10_000 << 30)),
        ] {
            let until = wait_ms.map_or(0, |wait| 5 + wait);
            assert_eq!(cool_down.until(returned, UnixMs(5)), UnixMs(until), "{returned}");
        }
        let longest = CoolDown { first_ms: 3_600_000 }.until(u32::MAX, UnixMs(1 << 41));
        assert!(longest.0 < 1 << 53, "exact in the gate's numbers");
        assert_eq!(CoolDown::NONE.until(9, UnixMs(5)), UnixMs(5), "the wait is over at once");
    }
}
