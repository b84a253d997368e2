//! Who tries to order most often, and from where, of each item: for operators who look for machines among the buyers.
//!
//! Each event loop counts for itself, under a lock of its own that nobody else holds but while an operator asks; then the loop
//! does not wait, and counts later. A sale is counted until it ends. Nothing here is read where an order is decided.
//! Must not: keep anything beyond this process, but what another server asks for, and that for a minute.

mod others;
mod table;

use std::collections::HashMap;
use std::hash::Hash;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError, TryLockError};

use engine::{BuyerId, Refusal, SaleId, SkuId, UnixMs};

use others::Others;
pub use others::Summed;
use table::{AttemptRecord, Table, window_of};
pub use table::{Attempts, CAME, Came};

use crate::net::network_of;

/// Sales that one event loop counts at a time: at about 1 MB each, if a million addresses try.
const SALES_MAX: usize = 16;
/// Before one of those gives its place to another, unless it is over.
const IDLE_WINDOWS: u32 = 40;
/// Attempts that a loop keeps while an operator's question holds the lock.
const WAITING_MAX: usize = 4_096;
/// Of each list that is shown.
pub const LISTED_MAX: usize = 20;

impl Came {
    pub fn of(refusal: Refusal) -> Came {
        match refusal {
            Refusal::NotStarted | Refusal::Paused | Refusal::Ended => Came::RefusedClosed,
            Refusal::SoldOut | Refusal::NotEnoughLeft => Came::RefusedStock,
            Refusal::OverLimit
            | Refusal::TooManyHolds
            | Refusal::HoldsUsedUp
            | Refusal::CoolingDown { .. } => Came::RefusedLimit,
            _ => Came::RefusedInvalid,
        }
    }
}

/// One attempt, with what came of it.
#[derive(Debug)]
pub struct Attempt {
    pub sale: SaleId,
    /// When the sale is over.
    pub ends_at: UnixMs,
    pub sku: SkuId,
    pub buyer: BuyerId,
    /// What names the buyer, if a number does not.
    pub name: Option<Box<str>>,
    /// Behind the proxies that are trusted.
    pub client: IpAddr,
    pub came: Came,
    pub now: UnixMs,
}

#[derive(Debug)]
struct SaleTables {
    sale: SaleId,
    /// As the latest attempt had it.
    ends_at: UnixMs,
    window: u32,
    buyers: Table<(SkuId, BuyerId)>,
    addresses: Table<(SkuId, IpAddr)>,
}

/// What one loop has counted.
#[derive(Debug, Default)]
struct Counted {
    sales: Vec<SaleTables>,
    /// Of sales for which there was no room, or while an operator's question held the lock too long.
    uncounted: u64,
}

impl Counted {
    fn count(&mut self, attempt: &Attempt) {
        let Attempt { sku, buyer, came, now, .. } = *attempt;
        let window = window_of(now);
        let Some(tables) = self.tables(attempt, window) else {
            self.uncounted += 1;
            return;
        };
        (tables.ends_at, tables.window) = (attempt.ends_at, window);
        tables.buyers.count((sku, buyer), attempt.name.as_deref(), came, window);
        tables.addresses.count((sku, network_of(attempt.client)), None, came, window);
    }

    /// `None`: as many sales as can be are counted, and go on.
    fn tables(&mut self, attempt: &Attempt, window: u32) -> Option<&mut SaleTables> {
        if let Some(place) = self.sales.iter().position(|tables| tables.sale == attempt.sale) {
            return Some(&mut self.sales[place]);
        }
        if self.sales.len() >= SALES_MAX {
            let (place, oldest) = self.sales.iter().enumerate().min_by_key(|(_, tables)| tables.window)?;
            let is_idle = oldest.window + IDLE_WINDOWS < window || oldest.ends_at <= attempt.now;
            if !is_idle {
                return None;
            }
            self.sales.swap_remove(place);
        }
        self.sales.push(SaleTables {
            sale: attempt.sale,
            ends_at: attempt.ends_at,
            window,
            buyers: Table::default(),
            addresses: Table::default(),
        });
        self.sales.last_mut()
    }
}

/// What one event loop counts with.
#[derive(Debug)]
pub struct LoopAttempts {
    counted: Arc<Mutex<Counted>>,
    /// While the lock was held.
    waiting: Vec<Attempt>,
    uncounted: u64,
}

impl LoopAttempts {
    /// Never waits.
    pub fn count(&mut self, attempt: Attempt) {
        if attempt.now >= attempt.ends_at {
            return;
        }
        let mut counted = match self.counted.try_lock() {
            Ok(counted) => counted,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => {
                if self.waiting.len() < WAITING_MAX {
                    self.waiting.push(attempt);
                } else {
                    self.uncounted += 1;
                }
                return;
            }
        };
        for waited in self.waiting.drain(..) {
            counted.count(&waited);
        }
        counted.uncounted += std::mem::take(&mut self.uncounted);
        counted.count(&attempt);
    }
}

/// What all event loops have counted.
#[derive(Debug, Default)]
pub struct AllAttempts {
    loops: Mutex<Vec<Arc<Mutex<Counted>>>>,
    others: Others,
}

/// One who tried: so often, and at most so often more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tried<K> {
    pub who: K,
    pub name: Option<Box<str>>,
    pub attempts: Attempts,
    pub missed_max: u32,
}

/// Those who tried most, the first the most; nobody who is not among them and the others that are counted tried more often than
/// `missed_max`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Top<K> {
    pub tried: Vec<Tried<K>>,
    pub missed_max: u32,
    /// Nobody who is not listed tried more often.
    unlisted_max: u32,
}

impl<K: Copy + Ord> Top<K> {
    fn of(mut tried: Vec<Tried<K>>, missed_max: u32, listed_max: usize) -> Top<K> {
        tried.sort_by(|a, b| b.attempts.total().cmp(&a.attempts.total()).then(a.who.cmp(&b.who)));
        let unlisted = tried.get(listed_max..).unwrap_or_default().iter();
        let unlisted = unlisted.map(|tried| tried.attempts.total().saturating_add(tried.missed_max));
        let unlisted_max = unlisted.max().unwrap_or_default().max(missed_max);
        tried.truncate(listed_max);
        Top { tried, missed_max, unlisted_max }
    }
}

/// Of one item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tops {
    /// The night, and the last minute.
    pub buyers: [Top<BuyerId>; 2],
    pub addresses: [Top<IpAddr>; 2],
    /// Attempts of any item that are counted nowhere.
    pub uncounted: u64,
}

impl AllAttempts {
    /// For one more event loop.
    pub fn of_loop(&self) -> LoopAttempts {
        let counted = Arc::<Mutex<Counted>>::default();
        self.loops().push(Arc::clone(&counted));
        LoopAttempts { counted, waiting: Vec::new(), uncounted: 0 }
    }

    fn loops(&self) -> std::sync::MutexGuard<'_, Vec<Arc<Mutex<Counted>>>> {
        self.loops.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Who tried most to order an item. Holds the lock of one loop after the other for some 100 µs.
    fn top(&self, sale: SaleId, sku: SkuId, now: UnixMs, listed_max: usize) -> Tops {
        let window = window_of(now);
        let loops = self.loops().clone();
        let (mut buyers, mut addresses) = (Merged::default(), Merged::default());
        let mut uncounted = 0;
        for of_loop in &loops {
            let mut counted = of_loop.lock().unwrap_or_else(PoisonError::into_inner);
            uncounted += counted.uncounted;
            if let Some(tables) = counted.sales.iter_mut().find(|tables| tables.sale == sale) {
                buyers.add(&mut tables.buyers, sku, window);
                addresses.add(&mut tables.addresses, sku, window);
            }
        }
        let mut buyers = buyers.top(listed_max);
        for tried in buyers.iter_mut().flat_map(|top| &mut top.tried) {
            tried.name = loops.iter().find_map(|of_loop| {
                let counted = of_loop.lock().unwrap_or_else(PoisonError::into_inner);
                let tables = counted.sales.iter().find(|tables| tables.sale == sale)?;
                tables.buyers.name(&(sku, tried.who)).map(Box::from)
            });
        }
        Tops { buyers, addresses: addresses.top(listed_max), uncounted }
    }

    /// A buyer is erased: what was counted of them goes, at the other servers too.
    pub fn forget(&self, buyer: BuyerId) {
        self.forget_here(buyer);
        self.have_forgotten(buyer);
    }

    /// As another server said.
    pub fn forget_here(&self, buyer: BuyerId) {
        for of_loop in self.loops().iter() {
            let mut counted = of_loop.lock().unwrap_or_else(PoisonError::into_inner);
            for tables in &mut counted.sales {
                tables.buyers.forget(|(_, known)| *known == buyer);
            }
        }
    }
}

/// The counters of several loops, of one item. For each who tried: the attempts of the night and of the last minute, and how much
/// of the bounds is not theirs, since their loop knows better.
#[derive(Debug)]
struct Merged<K> {
    tried: HashMap<K, [(Attempts, u32); 2]>,
    missed_max: [u32; 2],
}

impl<K> Default for Merged<K> {
    fn default() -> Merged<K> {
        Merged { tried: HashMap::new(), missed_max: [0; 2] }
    }
}

impl<K: Copy + Eq + Hash + Ord> Merged<K> {
    fn add(&mut self, table: &mut Table<(SkuId, K)>, sku: SkuId, window: u32) {
        let missed = table.missed_max(window);
        let before = missed[0] - missed[1];
        for ((_, who), record) in table.records().filter(|((of, _), _)| *of == sku) {
            let &AttemptRecord { night, missed_max, .. } = record;
            let known = [(night, missed_max), (record.recent(window), missed_max.saturating_sub(before))];
            let sums = self.tried.entry(who).or_default();
            for (place, (attempts, missed_max)) in known.iter().enumerate() {
                sums[place].0.add(attempts);
                sums[place].1 += missed[place] - missed_max;
            }
        }
        for (sum, missed) in self.missed_max.iter_mut().zip(missed) {
            *sum = sum.saturating_add(missed);
        }
    }

    fn top(&self, listed_max: usize) -> [Top<K>; 2] {
        [0, 1].map(|place| {
            let missed_max = self.missed_max[place];
            let tried = self
                .tried
                .iter()
                .map(|(who, sums)| {
                    let (attempts, known) = sums[place];
                    Tried { who: *who, name: None, attempts, missed_max: missed_max - known }
                })
                .filter(|tried| tried.attempts.total() > 0);
            Top::of(tried.collect(), missed_max, listed_max)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: UnixMs = UnixMs(1_700_000_000_000);

    fn attempt(buyer: u64, client: &str, came: Came) -> Attempt {
        Attempt {
            sale: SaleId(3),
            ends_at: UnixMs(START.0 + 3_600_000),
            sku: SkuId(7),
            buyer: BuyerId(buyer.into()),
            name: Some(format!("buyer {buyer}").into()),
            client: client.parse().unwrap(),
            came,
            now: START,
        }
    }

    fn totals<K: Copy>(top: &Top<K>) -> Vec<(K, u32)> {
        top.tried.iter().map(|tried| (tried.who, tried.attempts.total())).collect()
    }

    #[test]
    fn what_several_loops_counted_is_added_and_a_network_counts_as_one() {
        let all = AllAttempts::default();
        let mut loops = [all.of_loop(), all.of_loop()];
        for (number, of_loop) in loops.iter_mut().enumerate() {
            (0..=number).for_each(|_| of_loop.count(attempt(1, "2001:db8::1", Came::RefusedStock)));
            of_loop.count(attempt(2, "2001:db8:0:0:ffff::2", Came::Accepted));
            of_loop.count(Attempt { sku: SkuId(8), ..attempt(9, "192.0.2.9", Came::Busy) });
        }
        let tops = all.top(SaleId(3), SkuId(7), START, LISTED_MAX);
        assert_eq!(totals(&tops.buyers[0]), [(BuyerId(1), 3), (BuyerId(2), 2)]);
        assert_eq!(tops.buyers[0], tops.buyers[1], "all within the last minute");
        assert_eq!(tops.buyers[0].tried[0].name.as_deref(), Some("buyer 1"));
        assert_eq!(tops.buyers[0].tried[0].attempts.0[Came::RefusedStock as usize], 3);
        assert_eq!(totals(&tops.addresses[0]), [("2001:db8::".parse().unwrap(), 5)]);
        let later = all.top(SaleId(3), SkuId(7), UnixMs(START.0 + 90_000), LISTED_MAX);
        assert_eq!((later.buyers[0].tried.len(), later.buyers[1].tried.len()), (2, 0));

        all.forget(BuyerId(1));
        assert_eq!(totals(&all.top(SaleId(3), SkuId(7), START, LISTED_MAX).buyers[0]), [(BuyerId(2), 2)]);
        loops[0].count(Attempt { now: UnixMs(START.0 + 3_600_000), ..attempt(2, "192.0.2.1", Came::Busy) });
        assert_eq!(
            all.top(SaleId(3), SkuId(7), START, LISTED_MAX).buyers[0].tried[0].attempts.total(),
            2,
            "it was over"
        );
    }

    /// Two loops, of which one sees a crowd and the other nobody: what is said of the one who tries often is true of both.
    #[test]
    fn a_loop_that_has_dropped_somebody_says_how_often_they_can_have_tried_there() {
        let all = AllAttempts::default();
        let mut loops = [all.of_loop(), all.of_loop()];
        (0..50).for_each(|_| loops[1].count(attempt(1, "192.0.2.1", Came::Busy)));
        loops[0].count(attempt(1, "192.0.2.1", Came::Busy));
        for buyer in 2..20_000 {
            loops[0].count(attempt(buyer, "192.0.2.2", Came::Busy));
        }
        let Tops { buyers: [night, _], addresses, uncounted } =
            all.top(SaleId(3), SkuId(7), START, LISTED_MAX);
        assert_eq!(night.tried.len(), LISTED_MAX);
        let first = &night.tried[0];
        assert!((50..=51).contains(&first.attempts.total()) && first.who == BuyerId(1), "{first:?}");
        assert!(first.attempts.total() + first.missed_max >= 51, "{first:?}");
        assert!(night.missed_max >= 1 && night.missed_max <= 20, "{}", night.missed_max);
        assert_eq!((addresses[0].missed_max, uncounted), (0, 0), "two addresses are no crowd");
        assert_eq!(addresses[0].tried[0].attempts.total(), 19_998);
    }

    #[test]
    fn while_an_operator_asks_the_loop_goes_on_and_counts_later() {
        let all = AllAttempts::default();
        let mut of_loop = all.of_loop();
        let counted = Arc::clone(&of_loop.counted);
        let held = counted.lock().unwrap();
        for _ in 0..WAITING_MAX + 2 {
            of_loop.count(attempt(1, "192.0.2.1", Came::Busy));
        }
        drop(held);
        of_loop.count(attempt(1, "192.0.2.1", Came::Accepted));
        let tops = all.top(SaleId(3), SkuId(7), START, LISTED_MAX);
        assert_eq!(tops.buyers[0].tried[0].attempts.total() as usize, WAITING_MAX + 1);
        assert_eq!(tops.uncounted, 2);
    }

    #[test]
    fn sales_that_go_on_keep_their_places_and_the_others_give_theirs() {
        let all = AllAttempts::default();
        let mut of_loop = all.of_loop();
        let mut count = |sale, now: UnixMs| {
            of_loop.count(Attempt { sale: SaleId(sale), now, ..attempt(1, "192.0.2.1", Came::Busy) });
            all.top(SaleId(sale), SkuId(7), now, LISTED_MAX).buyers[0].tried.len()
        };
        assert!((0..SALES_MAX as u64).all(|sale| count(sale, START) == 1));
        assert_eq!(count(99, START), 0, "there is no room");
        let later = UnixMs(START.0 + 11 * 60_000);
        assert_eq!(count(99, later), 1, "one that nobody tried for ten minutes gives its place");
        assert_eq!(all.top(SaleId(99), SkuId(7), later, LISTED_MAX).uncounted, 1);
    }
}
