//! Who gets as far as the stock: window, sold-out fast path, rate, orders in flight.
//!
//! Only a request whose key is unknown may be refused here. So a request without a key is judged on the event
//! loop, before it costs a hand-over; one with a key is judged by the profile, after the key was looked up.
//! Both ask the same [`Admission`].

use std::hash::BuildHasher;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use foldhash::quality::RandomState;
use hashbrown::HashTable;

use engine::{Book, BuyerId, Phase, Placement, Refusal, SkuId, UnixMs};

use crate::intake::catalog::Catalog;
use crate::intake::shares::{NS_PER_S, Shares, take};
use crate::time::Instant;

/// Bounds of admission; 0 means none.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Orders per second that are let through to the stock.
    pub orders_per_s: u64,
    /// Orders that may come at once above the even spread; at least 1 if there is a rate.
    pub burst: u64,
    /// Orders per second of one buyer that are let through.
    pub orders_per_s_per_buyer: u64,
    /// Orders that have been handed to the profile and not been answered.
    pub in_flight_max: usize,
    pub in_flight_per_buyer_max: u32,
    /// A gate that all servers share judges pauses and ends: here only the window is.
    pub gate_judges: bool,
}

/// Why a request did not get as far as the stock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotAdmitted {
    /// A rule of the sale, seen on committed state.
    Refused(Refusal),
    /// Over the rate: 429, try again after so many milliseconds.
    RateLimited { retry_after_ms: u64 },
    /// Over the rate of one buyer: 429, try again after so many milliseconds.
    BuyerRateLimited { retry_after_ms: u64 },
    /// Over the bound of orders in flight: 503.
    Busy,
    /// This buyer has too many orders in flight: 429.
    BuyerBusy,
}

/// A bound of orders in flight over which an order came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Over {
    /// That of all buyers.
    Bound,
    /// That of one buyer.
    BuyerBound,
}

impl From<Over> for NotAdmitted {
    fn from(over: Over) -> NotAdmitted {
        match over {
            Over::Bound => NotAdmitted::Busy,
            Over::BuyerBound => NotAdmitted::BuyerBusy,
        }
    }
}

/// Leave for one order to ask the stock, which must be spent on that order.
#[derive(Debug)]
#[must_use = "an order asks the stock with it"]
pub struct Permit {
    /// It was counted to the rate that all share.
    is_counted: bool,
}

impl Permit {
    /// Spends it on the order that it was given for.
    pub fn spend_on<T>(self, order: T) -> Permitted<T> {
        Permitted { order, permit: self }
    }
}

/// An order that may ask the stock. Only a [`Permit`] makes one, so nothing is reserved that was not admitted.
#[derive(Debug)]
#[must_use = "the order waits to ask the stock"]
pub struct Permitted<T> {
    order: T,
    permit: Permit,
}

impl<T> Permitted<T> {
    pub fn order(&self) -> &T {
        &self.order
    }

    /// The order, once the stock is asked, and its permit: for [`Admission::take_back`], if the stock refused it.
    pub fn into_parts(self) -> (T, Permit) {
        (self.order, self.permit)
    }
}

/// Whether the bounds of one buyer hold for a request. A load test of the published commands is one buyer, who may ask
/// without end; the bounds that all buyers share, and the fair shares of them, hold for everybody.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BuyerBounds {
    Kept,
    Lifted,
}

/// Shared by all event loops and the profile.
#[derive(Debug)]
pub struct Admission {
    limits: Limits,
    /// The rates of `limits`, as they are now: an operator may change them during a sale.
    rates: Rates,
    /// Theoretical arrival time of the next order, in nanoseconds since `epoch` (GCRA: one word, no timer).
    next_ns: AtomicU64,
    epoch: Instant,
    /// Made once there is a rate.
    shares: OnceLock<Shares>,
    in_flight: AtomicUsize,
    buyers: Vec<Mutex<HashTable<(BuyerId, u32)>>>,
    /// Seeded at random. Whoever could make numbers collide all the same slows down as many as are in flight.
    hasher: RandomState,
}

/// Each is read by itself: a request between two of them that change is judged by the one that is old or the one that is new.
#[derive(Debug)]
struct Rates {
    orders_per_s: AtomicU64,
    burst: AtomicU64,
    orders_per_s_per_buyer: AtomicU64,
}

/// Shards of the per-buyer counts: more than the threads that could meet there.
const BUYER_SHARDS: usize = 16;

impl Admission {
    pub fn new(limits: Limits) -> Admission {
        Admission {
            limits,
            rates: Rates {
                orders_per_s: AtomicU64::new(limits.orders_per_s),
                burst: AtomicU64::new(limits.burst),
                orders_per_s_per_buyer: AtomicU64::new(limits.orders_per_s_per_buyer),
            },
            next_ns: AtomicU64::new(0),
            epoch: Instant::now(),
            shares: OnceLock::new(),
            in_flight: AtomicUsize::new(0),
            buyers: (0..BUYER_SHARDS).map(|_| Mutex::default()).collect(),
            hasher: RandomState::default(),
        }
    }

    /// In effect here: of a cluster, this server's share.
    pub fn limits(&self) -> Limits {
        Limits {
            orders_per_s: self.rates.orders_per_s.load(Ordering::Relaxed),
            burst: self.rates.burst.load(Ordering::Relaxed),
            orders_per_s_per_buyer: self.rates.orders_per_s_per_buyer.load(Ordering::Relaxed),
            ..self.limits
        }
    }

    /// Takes up other rates, and their burst. The bounds of orders in flight stay: those that are counted were counted
    /// by them.
    pub(crate) fn change_rates(&self, limits: &Limits) {
        self.rates.burst.store(limits.burst, Ordering::Relaxed);
        self.rates.orders_per_s.store(limits.orders_per_s, Ordering::Relaxed);
        self.rates.orders_per_s_per_buyer.store(limits.orders_per_s_per_buyer, Ordering::Relaxed);
    }

    /// Judges a request whose key is unknown.
    ///
    /// # Errors
    /// The reason to refuse it now. Nothing is bound to its key.
    pub fn admit(
        &self,
        catalog: &Catalog,
        (buyer, sku): (BuyerId, SkuId),
        bounds: BuyerBounds,
        now: UnixMs,
    ) -> Result<Permit, NotAdmitted> {
        let (sale, item) = catalog.item(sku).ok_or(NotAdmitted::Refused(Refusal::UnknownSku))?;
        if item.line.is_some() {
            // Whoever was called may order, whatever else holds: that is the book's to say.
            return self.take_token(buyer, bounds);
        }
        // A copy of the catalog is a moment old where other processes change it; the gate knows of a pause at once.
        let phase = if self.limits.gate_judges {
            Phase::at(now, sale.spec.starts_at, sale.spec.ends_at, false, false)
        } else {
            sale.phase(now)
        };
        if let Some(refusal) = phase.refusal() {
            return Err(NotAdmitted::Refused(refusal));
        }
        if catalog.skus[sku.0 as usize].counters.is_sold_out(now) {
            return Err(NotAdmitted::Refused(Refusal::SoldOut));
        }
        self.take_token(buyer, bounds)
    }

    /// Judges a request whose key is unknown, where the book is. Whoever was called was counted to the rate that all share when their
    /// place was reached, and is not asked to come again. `over`: the bound of [`Admission::enter`].
    ///
    /// # Errors
    /// As [`Admission::admit`].
    pub fn admit_by_book(
        &self,
        (book, catalog): (&Book, &Catalog),
        placement: &Placement,
        (over, bounds): (Option<Over>, BuyerBounds),
        now: UnixMs,
    ) -> Result<Permit, NotAdmitted> {
        let is_called = book.has_turn(placement);
        match over {
            Some(over) if !(is_called && over == Over::Bound) => Err(over.into()),
            _ if !is_called => self.admit(catalog, (placement.buyer, placement.id.sku), bounds, now),
            _ => {
                if bounds == BuyerBounds::Kept {
                    self.admit_buyer(placement.buyer)?;
                }
                Ok(Permit { is_counted: false })
            }
        }
    }

    /// Judges what a buyer asks of a line, or of an order whose price has changed: it takes from the buyer's own rate, as an order
    /// does, and nothing from the others'.
    ///
    /// # Errors
    /// It is one too many.
    pub fn admit_buyer(&self, buyer: BuyerId) -> Result<(), NotAdmitted> {
        let rate = self.limits().orders_per_s_per_buyer;
        if rate == 0 {
            return Ok(());
        }
        let shares = self.shares.get_or_init(Shares::new);
        let now_ns = u64::try_from(self.epoch.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let taken = shares.of(buyer, now_ns).take_own(rate);
        taken.map_err(|wait_ns| NotAdmitted::BuyerRateLimited { retry_after_ms: ms(wait_ns) })
    }

    /// Gives back what was taken from the shared rate for an order that asked the stock in vain, or did not get to ask it:
    /// who is refused takes nothing from the others. What was taken from the buyer's own rate stays taken.
    pub fn take_back(&self, permit: Permit) {
        if !permit.is_counted {
            return;
        }
        let Some(interval) = NS_PER_S.checked_div(self.rates.orders_per_s.load(Ordering::Relaxed)) else {
            return;
        };
        let earlier = |next: u64| Some(next.saturating_sub(interval.max(1)));
        let _always_there = self.next_ns.fetch_update(Ordering::Relaxed, Ordering::Relaxed, earlier);
    }

    /// Counts an order that is handed to the profile, and says whether it came over a bound. It is counted
    /// either way, until [`Admission::leave`]: one with a key goes on to the profile even over a bound, because
    /// its key may be known.
    pub fn enter(&self, buyer: BuyerId, bounds: BuyerBounds) -> Option<Over> {
        let max = self.limits.in_flight_max;
        let before = self.in_flight.fetch_add(1, Ordering::Relaxed);
        let mut over = (max > 0 && before >= max).then_some(Over::Bound);
        let per_buyer = self.limits.in_flight_per_buyer_max;
        if per_buyer > 0 {
            let (hash, mut counts) = self.counts_of(buyer);
            let rehash = |(other, _): &(BuyerId, u32)| self.hasher.hash_one(other);
            let mut entry = counts.entry(hash, |(other, _)| *other == buyer, rehash).or_insert((buyer, 0));
            let (_, count) = entry.get_mut();
            if *count >= per_buyer && bounds == BuyerBounds::Kept {
                over = over.or(Some(Over::BuyerBound));
            }
            *count += 1;
        }
        over
    }

    /// The order was answered.
    pub fn leave(&self, buyer: BuyerId) {
        self.in_flight.fetch_sub(1, Ordering::Relaxed);
        if self.limits.in_flight_per_buyer_max > 0 {
            let (hash, mut counts) = self.counts_of(buyer);
            if let Ok(mut found) = counts.find_entry(hash, |(other, _)| *other == buyer) {
                let (_, count) = found.get_mut();
                *count -= 1;
                if *count == 0 {
                    found.remove();
                }
            }
        }
    }

    pub fn in_flight(&self) -> usize {
        self.in_flight.load(Ordering::Relaxed)
    }

    /// The counts that a buyer's is among, and its hash. The table inside uses the lowest bits of that and the highest.
    fn counts_of(&self, buyer: BuyerId) -> (u64, MutexGuard<'_, HashTable<(BuyerId, u32)>>) {
        let hash = self.hasher.hash_one(buyer);
        let shard = usize::from(hash.to_le_bytes()[5]) % BUYER_SHARDS;
        (hash, self.buyers[shard].lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn take_token(&self, buyer: BuyerId, bounds: BuyerBounds) -> Result<Permit, NotAdmitted> {
        let Limits { orders_per_s, orders_per_s_per_buyer, .. } = self.limits();
        if orders_per_s > 0 || orders_per_s_per_buyer > 0 {
            let shares = self.shares.get_or_init(Shares::new);
            let elapsed = self.epoch.elapsed().as_nanos();
            self.take_token_at(shares, (buyer, bounds), u64::try_from(elapsed).unwrap_or(u64::MAX))?;
        }
        Ok(Permit { is_counted: true })
    }

    fn take_token_at(
        &self,
        shares: &Shares,
        (buyer, bounds): (BuyerId, BuyerBounds),
        now_ns: u64,
    ) -> Result<(), NotAdmitted> {
        let Limits { orders_per_s, burst, orders_per_s_per_buyer, .. } = self.limits();
        let of_buyer = shares.of(buyer, now_ns);
        if orders_per_s_per_buyer > 0 && bounds == BuyerBounds::Kept {
            of_buyer
                .take_own(orders_per_s_per_buyer)
                .map_err(|wait_ns| NotAdmitted::BuyerRateLimited { retry_after_ms: ms(wait_ns) })?;
        }
        if orders_per_s > 0 {
            let share = of_buyer.asks();
            // Half of the burst is for those who have had less than their share.
            let burst = if share.is_fair(orders_per_s) { burst } else { burst / 2 };
            if burst == 0 {
                return Err(NotAdmitted::RateLimited { retry_after_ms: ms(NS_PER_S / orders_per_s) });
            }
            take(&self.next_ns, now_ns, orders_per_s, burst)
                .map_err(|wait_ns| NotAdmitted::RateLimited { retry_after_ms: ms(wait_ns) })?;
            share.passed();
        }
        Ok(())
    }
}

fn ms(ns: u64) -> u64 {
    ns.div_ceil(1_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn admission(orders_per_s: u64, burst: u64) -> Admission {
        Admission::new(Limits {
            orders_per_s,
            burst,
            orders_per_s_per_buyer: 0,
            in_flight_max: 2,
            in_flight_per_buyer_max: 1,
            gate_judges: false,
        })
    }

    /// So many orders of this buyer at this moment: how many are let through.
    fn passed(admission: &Admission, buyer: u64, ms: u64, orders: usize) -> usize {
        let shares = admission.shares.get_or_init(Shares::new);
        let asks = || {
            admission
                .take_token_at(shares, (BuyerId(buyer.into()), BuyerBounds::Kept), ms * 1_000_000)
                .is_ok()
        };
        (0..orders).filter(|_| asks()).count()
    }

    #[test]
    fn one_buyer_who_asks_without_end_leaves_the_others_their_shares() {
        // As it was seen: 200 a second, one buyer who asks all the time, and 225 others who ask once in three seconds.
        let admission = admission(200, 20);
        let (mut greedy, mut others) = (0, 0);
        for at in 0..3_000 {
            greedy += passed(&admission, 0, at, 20);
            if at % 13 == 0 && others < 225 {
                others += passed(&admission, 1 + at, at, 1);
            }
            greedy += passed(&admission, 0, at, 20);
        }
        assert_eq!(others, 225);
        assert!(greedy > 300, "what the others leave is not lost: {greedy}");
    }

    #[test]
    fn a_wave_of_buyers_gets_through_beside_one_who_asks_without_pause() {
        // Buyers who were asked to try again come by whole seconds. What a wave can't take of its second, the greedy one gets.
        let served = |burst| {
            let admission = admission(20, burst);
            let moment = |at| {
                let wave = if at % 1_000 == 500 { 8 } else { 0 };
                let served: usize = (1..=wave).map(|buyer| passed(&admission, buyer, at, 1)).sum();
                passed(&admission, 0, at, 1);
                served
            };
            (0..6_000).map(moment).sum::<usize>()
        };
        let [tenth_of_a_second, default] = [2, 20].map(served);
        assert!(tenth_of_a_second <= 12 && default >= 40, "{tenth_of_a_second} and {default} of 48");
    }

    #[test]
    fn a_rate_can_change_while_orders_come() {
        let admission = admission(0, 0);
        let let_through =
            || (0..100).filter(|_| admission.take_token(BuyerId(1), BuyerBounds::Kept).is_ok()).count();
        assert_eq!(let_through(), 100, "there is no rate");
        admission.change_rates(&Limits { orders_per_s: 1, burst: 1, ..admission.limits() });
        assert_eq!(let_through(), 1);
        assert_eq!((admission.limits().orders_per_s, admission.limits().in_flight_max), (1, 2));
        admission.change_rates(&Limits { orders_per_s: 0, burst: 1, ..admission.limits() });
        assert_eq!(let_through(), 100);
    }

    #[test]
    fn what_the_stock_refused_takes_nothing_from_the_rate() {
        let admission = admission(1, 1);
        for buyer in 1..10 {
            assert_eq!(passed(&admission, buyer, 0, 1), 1);
            admission.take_back(Permit { is_counted: true });
        }
        assert_eq!([passed(&admission, 20, 0, 1), passed(&admission, 21, 0, 1)], [1, 0]);
    }

    #[test]
    fn a_buyers_own_rate_is_taken_from_whatever_becomes_of_the_order() {
        let limits = Limits { orders_per_s_per_buyer: 2, ..admission(0, 0).limits };
        let admission = Admission::new(limits);
        let shares = admission.shares.get_or_init(Shares::new);
        let ask = |buyer| admission.take_token_at(shares, (BuyerId(buyer), BuyerBounds::Kept), 0);
        assert_eq!([ask(1), ask(1)], [Ok(()), Ok(())]);
        admission.take_back(Permit { is_counted: true });
        assert_eq!(ask(1), Err(NotAdmitted::BuyerRateLimited { retry_after_ms: 500 }));
        assert_eq!(ask(2), Ok(()));
        let unbounded = || admission.take_token_at(shares, (BuyerId(1), BuyerBounds::Lifted), 0);
        assert!((0..100).all(|_| unbounded().is_ok()));
    }

    #[test]
    fn orders_in_flight_are_bounded_in_all_and_per_buyer() {
        let admission = admission(0, 0);
        assert_eq!(admission.enter(BuyerId(1), BuyerBounds::Kept), None);
        assert_eq!(admission.enter(BuyerId(1), BuyerBounds::Kept), Some(Over::BuyerBound));
        admission.leave(BuyerId(1));
        assert_eq!(admission.enter(BuyerId(1), BuyerBounds::Lifted), None);
        admission.leave(BuyerId(1));
        assert_eq!(admission.enter(BuyerId(2), BuyerBounds::Kept), None);
        assert_eq!(admission.enter(BuyerId(3), BuyerBounds::Kept), Some(Over::Bound));
        admission.leave(BuyerId(3));
        admission.leave(BuyerId(1));
        assert_eq!(admission.enter(BuyerId(1), BuyerBounds::Kept), None);
        admission.leave(BuyerId(1));
        admission.leave(BuyerId(2));
        assert_eq!(admission.in_flight(), 0);
    }
}
