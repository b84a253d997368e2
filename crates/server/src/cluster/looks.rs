//! Whose turn it is to be looked at: what sells now, sold a moment ago or will soon, at every look; all others a few at
//! a time, so that ten thousand products of last year cost next to nothing.

use std::time::Duration;

use engine::{SkuId, UnixMs};

use crate::gate::BySku;
use crate::time::Instant;

use super::sales::Slot;

/// Before its start a sale is looked at as if it sold: its gates are ready by then.
const SOON_MS: u64 = 10 * 60_000;
/// After its end: what was reserved in its last moment is settled by then.
const LATELY: Duration = Duration::from_secs(120);

/// The turns of one looker.
#[derive(Debug)]
pub(super) struct Looks {
    others_per_look: usize,
    /// Those that are looked at every time, by when they were last known to deserve it.
    close: BySku<Instant>,
    /// How many slots there were; `None`: nothing was looked at yet.
    known: Option<usize>,
    /// Where the turn of the others goes on.
    next: usize,
}

impl Looks {
    pub(super) fn new(others_per_look: usize) -> Looks {
        Looks { others_per_look, close: BySku::default(), known: None, next: 0 }
    }

    /// Those whose turn it is, in the order of their numbers. The first look, and a look at new ones, leaves none out.
    pub(super) fn pick(&mut self, slots: &[Slot], now: UnixMs) -> Vec<Slot> {
        let at = Instant::now();
        let known = self.known.replace(slots.len());
        self.close.retain(|_, last| at.duration_since(*last) < LATELY);
        for slot in slots {
            if is_live(slot, now) {
                self.close.insert(slot.sku, at);
            }
        }
        let Some(known) = known else { return slots.to_vec() };
        let (old, new) = slots.split_at(known.min(slots.len()));
        let mut picked: Vec<Slot> =
            old.iter().filter(|slot| self.close.contains_key(&slot.sku)).chain(new).copied().collect();
        let (slots, close) = (old, picked.len());
        for _ in 0..slots.len() {
            if picked.len() - close == self.others_per_look {
                break;
            }
            let slot = slots[self.next % slots.len()];
            self.next = (self.next + 1) % slots.len();
            if !self.close.contains_key(&slot.sku) {
                picked.push(slot);
            }
        }
        picked.sort_unstable_by_key(|slot| slot.sku);
        picked
    }

    /// The next look leaves none out.
    pub(super) fn begin_anew(&mut self) {
        self.known = None;
    }

    /// Something goes on at this one: it is looked at every time for a while.
    pub(super) fn stay_close(&mut self, sku: SkuId) {
        self.close.insert(sku, Instant::now());
    }
}

/// Whether it sells, or will soon.
pub(super) fn is_live(slot: &Slot, now: UnixMs) -> bool {
    !slot.is_over(now) && slot.state.starts_at <= now.plus(SOON_MS)
}

#[cfg(test)]
mod tests {
    use engine::ProductId;
    use engine::handover::GateSale;

    use super::*;

    const NOW: UnixMs = UnixMs(1_000_000_000);

    fn slots(live: std::ops::Range<u32>, count: u32) -> Vec<Slot> {
        let slot = |number| {
            let ends_at = if live.contains(&number) { NOW.plus(1) } else { NOW };
            let state = GateSale { version: 1, starts_at: UnixMs(0), ends_at, paused: false, ended: false };
            Slot { sku: SkuId(number), state, limit: None, product: ProductId(number.into()) }
        };
        (0..count).map(slot).collect()
    }

    fn numbers(picked: &[Slot]) -> Vec<u32> {
        picked.iter().map(|slot| slot.sku.0).collect()
    }

    #[test]
    fn what_sells_is_looked_at_every_time_and_the_others_in_turn() {
        let (mut looks, slots) = (Looks::new(2), slots(2..4, 9));
        assert_eq!(looks.pick(&slots, NOW).len(), 9, "the first look leaves none out");
        let turns: Vec<_> = (0..4).map(|_| numbers(&looks.pick(&slots, NOW))).collect();
        assert_eq!(turns, [vec![0, 1, 2, 3], vec![2, 3, 4, 5], vec![2, 3, 6, 7], vec![0, 2, 3, 8]]);
    }

    #[test]
    fn one_at_which_something_goes_on_is_looked_at_every_time_and_a_new_one_at_once() {
        let (mut looks, slots) = (Looks::new(1), slots(0..0, 9));
        looks.pick(&slots[..7], NOW);
        looks.stay_close(SkuId(5));
        assert_eq!(numbers(&looks.pick(&slots, NOW)), [0, 5, 7, 8]);
        assert_eq!(numbers(&looks.pick(&slots, NOW)), [1, 5]);
        assert_eq!(numbers(&looks.pick(&slots, NOW)), [2, 5]);
    }

    #[test]
    fn a_sale_is_looked_at_every_time_from_some_minutes_before_its_start() {
        let mut slot = slots(0..1, 1)[0];
        slot.state.ends_at = UnixMs(u64::MAX);
        slot.state.starts_at = NOW.plus(SOON_MS);
        assert!(is_live(&slot, NOW));
        slot.state.starts_at = NOW.plus(SOON_MS + 1);
        assert!(!is_live(&slot, NOW));
        slot.state.starts_at = UnixMs(0);
        slot.state.ended = true;
        assert!(!is_live(&slot, NOW));
    }

    #[test]
    fn fewer_others_than_a_look_takes_are_each_looked_at_once() {
        let (mut looks, slots) = (Looks::new(100), slots(1..2, 3));
        looks.pick(&slots, NOW);
        assert_eq!(numbers(&looks.pick(&slots, NOW)), [0, 1, 2]);
        assert_eq!(numbers(&looks.pick(&[], NOW)), [] as [u32; 0]);
    }
}
