//! Whose turn it is to be looked at: what sells now, sold a moment ago or will soon, at every look; all others a few at
//! a time, so that ten thousand products of last year cost next to nothing.

use std::time::Duration;

use engine::{SkuId, UnixMs};

use crate::gate::BySku;
use crate::time::Instant;

use super::sales::GateItem;

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
    /// How many items there were; `None`: nothing was looked at yet.
    known: Option<usize>,
    /// Where the turn of the others goes on.
    next: usize,
}

impl Looks {
    pub(super) fn new(others_per_look: usize) -> Looks {
        Looks { others_per_look, close: BySku::default(), known: None, next: 0 }
    }

    /// Those whose turn it is, in the order of their numbers. The first look, and a look at new ones, leaves none out.
    pub(super) fn pick(&mut self, items: &[GateItem], now: UnixMs) -> Vec<GateItem> {
        let at = Instant::now();
        let known = self.known.replace(items.len());
        self.close.retain(|_, last| at.duration_since(*last) < LATELY);
        for item in items {
            if is_live(item, now) {
                self.close.insert(item.sku, at);
            }
        }
        let Some(known) = known else { return items.to_vec() };
        let (old, new) = items.split_at(known.min(items.len()));
        let mut picked: Vec<GateItem> =
            old.iter().filter(|item| self.close.contains_key(&item.sku)).chain(new).copied().collect();
        let (items, close) = (old, picked.len());
        for _ in 0..items.len() {
            if picked.len() - close == self.others_per_look {
                break;
            }
            let item = items[self.next % items.len()];
            self.next = (self.next + 1) % items.len();
            if !self.close.contains_key(&item.sku) {
                picked.push(item);
            }
        }
        picked.sort_unstable_by_key(|item| item.sku);
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
pub(super) fn is_live(item: &GateItem, now: UnixMs) -> bool {
    !item.is_over(now) && item.state.starts_at <= now.plus(SOON_MS)
}

#[cfg(test)]
mod tests {
    use engine::ProductId;
    use engine::handover::GateSale;

    use super::*;

    const NOW: UnixMs = UnixMs(1_000_000_000);

    fn items(live: std::ops::Range<u32>, count: u32) -> Vec<GateItem> {
        let item = |number| {
            let ends_at = if live.contains(&number) { NOW.plus(1) } else { NOW };
            let state = GateSale { version: 1, starts_at: UnixMs(0), ends_at, paused: false, ended: false };
            GateItem { sku: SkuId(number), state, limit: None, product: ProductId(number.into()) }
        };
        (0..count).map(item).collect()
    }

    fn numbers(picked: &[GateItem]) -> Vec<u32> {
        picked.iter().map(|item| item.sku.0).collect()
    }

    #[test]
    fn what_sells_is_looked_at_every_time_and_the_others_in_turn() {
        let (mut looks, items) = (Looks::new(2), items(2..4, 9));
        assert_eq!(looks.pick(&items, NOW).len(), 9, "the first look leaves none out");
        let turns: Vec<_> = (0..4).map(|_| numbers(&looks.pick(&items, NOW))).collect();
        assert_eq!(turns, [vec![0, 1, 2, 3], vec![2, 3, 4, 5], vec![2, 3, 6, 7], vec![0, 2, 3, 8]]);
    }

    #[test]
    fn one_at_which_something_goes_on_is_looked_at_every_time_and_a_new_one_at_once() {
        let (mut looks, items) = (Looks::new(1), items(0..0, 9));
        looks.pick(&items[..7], NOW);
        looks.stay_close(SkuId(5));
        assert_eq!(numbers(&looks.pick(&items, NOW)), [0, 5, 7, 8]);
        assert_eq!(numbers(&looks.pick(&items, NOW)), [1, 5]);
        assert_eq!(numbers(&looks.pick(&items, NOW)), [2, 5]);
    }

    #[test]
    fn a_sale_is_looked_at_every_time_from_some_minutes_before_its_start() {
        let mut item = items(0..1, 1)[0];
        item.state.ends_at = UnixMs(u64::MAX);
        item.state.starts_at = NOW.plus(SOON_MS);
        assert!(is_live(&item, NOW));
        item.state.starts_at = NOW.plus(SOON_MS + 1);
        assert!(!is_live(&item, NOW));
        item.state.starts_at = UnixMs(0);
        item.state.ended = true;
        assert!(!is_live(&item, NOW));
    }

    #[test]
    fn fewer_others_than_a_look_takes_are_each_looked_at_once() {
        let (mut looks, items) = (Looks::new(100), items(1..2, 3));
        looks.pick(&items, NOW);
        assert_eq!(numbers(&looks.pick(&items, NOW)), [0, 1, 2]);
        assert_eq!(numbers(&looks.pick(&[], NOW)), [] as [u32; 0]);
    }
}
