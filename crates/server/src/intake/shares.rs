//! How the shared rate is divided among buyers: a rate of each one's own, and fair shares when there is not enough for all.
//!
//! Buyers have slots of a table of fixed size, by a keyed hash: nobody can choose to share one with somebody else, and no
//! number of buyers makes it grow. Two of a hundred thousand who are active at once share a slot with a third, and its rate.
//!
//! Must not: read a clock.

use std::hash::{BuildHasher, RandomState};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use engine::BuyerId;

/// A buyer's own rate has 8 bytes for each, and its share 16.
const SLOTS: usize = 1 << 18;
pub(super) const NS_PER_S: u64 = 1_000_000_000;
/// Who has asked in this time, or in the one before it, is counted as active.
const WINDOW_NS: u64 = NS_PER_S;

#[derive(Debug)]
pub(super) struct Shares {
    /// Of each buyer's own rate: the theoretical arrival time of the next order.
    own: Box<[AtomicU64]>,
    /// Made once the rate of all is bounded: where it is not, nobody's share is looked at.
    slots: OnceLock<Box<[Slot]>>,
    hasher: RandomState,
    window: AtomicU64,
    /// Slots that have asked in this window, and in the one before.
    active: AtomicU64,
    active_before: AtomicU64,
}

#[derive(Debug, Default)]
struct Slot {
    /// When it was last let through, and 1 more; 0: never.
    passed_ns: AtomicU64,
    /// The window in which it last asked.
    window: AtomicU64,
}

/// What one buyer has of the rates, at a moment.
#[derive(Clone, Copy, Debug)]
pub(super) struct OfBuyer<'s> {
    shares: &'s Shares,
    slot: usize,
    now_ns: u64,
}

/// A buyer's part in the shared rate, at a moment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Share<'s> {
    slot: &'s Slot,
    now_ns: u64,
    active: u64,
}

impl Shares {
    pub(super) fn new() -> Shares {
        Shares {
            own: (0..SLOTS).map(|_| AtomicU64::new(0)).collect(),
            slots: OnceLock::new(),
            hasher: RandomState::new(),
            window: AtomicU64::new(0),
            active: AtomicU64::new(0),
            active_before: AtomicU64::new(0),
        }
    }

    pub(super) fn of(&self, buyer: BuyerId, now_ns: u64) -> OfBuyer<'_> {
        let slot = self.hasher.hash_one(buyer) % SLOTS as u64;
        OfBuyer { shares: self, slot: usize::try_from(slot).expect("a small number"), now_ns }
    }
}

impl<'s> OfBuyer<'s> {
    /// Takes one of the buyer's own orders per second, or says in how many nanoseconds there is one. A second's worth may
    /// come at once.
    pub(super) fn take_own(self, rate: u64) -> Result<(), u64> {
        take(&self.shares.own[self.slot], self.now_ns, rate, rate)
    }

    /// Notes that this buyer asks for what all share.
    pub(super) fn asks(self) -> Share<'s> {
        let OfBuyer { shares, slot, now_ns } = self;
        let slot = &shares.slots.get_or_init(|| (0..SLOTS).map(|_| Slot::default()).collect())[slot];
        let window = now_ns / WINDOW_NS + 1;
        let current = shares.window.load(Relaxed);
        if current < window && shares.window.compare_exchange(current, window, Relaxed, Relaxed).is_ok() {
            let active = shares.active.swap(0, Relaxed);
            shares.active_before.store(if current + 1 == window { active } else { 0 }, Relaxed);
        }
        if slot.window.swap(window, Relaxed) != window {
            shares.active.fetch_add(1, Relaxed);
        }
        let active = shares.active.load(Relaxed).max(shares.active_before.load(Relaxed)).max(1);
        Share { slot, now_ns, active }
    }
}

impl Share<'_> {
    /// Whether the buyer has had less than an even share of this rate among those who are active.
    pub(super) fn is_fair(&self, rate: u64) -> bool {
        let passed = self.slot.passed_ns.load(Relaxed);
        let interval = NS_PER_S.saturating_mul(self.active) / rate.max(1);
        self.active == 1 || passed == 0 || self.now_ns.saturating_sub(passed - 1) >= interval
    }

    pub(super) fn passed(&self) {
        self.slot.passed_ns.store(self.now_ns + 1, Relaxed);
    }
}

/// GCRA, in one word and without a timer: each order moves the theoretical arrival time by one interval; it may run ahead
/// of the clock by so many orders.
pub(super) fn take(next_ns: &AtomicU64, now_ns: u64, rate: u64, burst: u64) -> Result<(), u64> {
    let interval = (NS_PER_S / rate).max(1);
    let burst_ns = interval.saturating_mul(burst.max(1));
    let mut next = next_ns.load(Relaxed);
    loop {
        let after = next.max(now_ns).saturating_add(interval);
        let ahead = after - now_ns;
        if ahead > burst_ns {
            return Err(ahead - burst_ns);
        }
        match next_ns.compare_exchange_weak(next, after, Relaxed, Relaxed) {
            Ok(_) => return Ok(()),
            Err(current) => next = current,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn the_rate_lets_the_burst_through_and_then_the_even_spread() {
        let next = AtomicU64::new(0);
        let at = |ms: u64| take(&next, ms * MS, 1000, 3).is_ok();
        assert_eq!([at(0), at(0), at(0), at(0)], [true, true, true, false]);
        assert_eq!([at(1), at(1)], [true, false]);
        assert_eq!([at(1000), at(1000), at(1000), at(1000)], [true, true, true, false]);
    }

    #[test]
    fn who_is_over_the_rate_learns_when_to_come_again() {
        let next = AtomicU64::new(0);
        assert_eq!(take(&next, 0, 2, 1), Ok(()));
        assert_eq!(take(&next, 0, 2, 1), Err(500 * MS));
    }

    #[test]
    fn each_buyer_has_a_rate_of_its_own() {
        let shares = Shares::new();
        let asks = |buyer, ms| shares.of(BuyerId(buyer), ms * MS).take_own(2);
        assert_eq!([asks(1, 0), asks(1, 0), asks(1, 0)], [Ok(()), Ok(()), Err(500 * MS)]);
        assert_eq!(asks(2, 0), Ok(()));
        assert_eq!([asks(1, 500), asks(1, 500)], [Ok(()), Err(500 * MS)]);
    }

    #[test]
    fn a_share_is_even_among_those_who_asked_lately() {
        let shares = Shares::new();
        let fair = |buyer, ms| {
            let share = shares.of(BuyerId(buyer), ms * MS).asks();
            let fair = share.is_fair(100);
            if fair {
                share.passed();
            }
            fair
        };
        assert!(fair(1, 0) && fair(1, 0), "alone, everything is one's own");
        for buyer in 2..=10 {
            assert!(fair(buyer, 0), "{buyer} had nothing yet");
        }
        // Ten at 100 a second: one each 100 ms.
        assert!(!fair(1, 99) && fair(1, 100) && !fair(1, 100));
        // The others are gone: in the next window they count still, in the one after it not.
        assert!(fair(1, 1_050) && !fair(1, 1_050));
        assert!(fair(1, 2_100) && fair(1, 2_100));
    }
}
