//! Who gets as far as the stock: window, sold-out fast path, rate, orders in flight.
//!
//! Only a request whose key is unknown may be refused here. So a request without a key is judged on the event
//! loop, before it costs a hand-over; one with a key is judged by the writer, after the key was looked up.
//! Both ask the same [`Admission`].

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use engine::{BuyerId, Phase, Refusal, SkuId, UnixMs};

use crate::intake::catalog::Catalog;

/// Bounds of admission; 0 means none.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Orders per second that are let through to the stock.
    pub orders_per_s: u64,
    /// Orders that may come at once above the even spread; at least 1 if there is a rate.
    pub burst: u64,
    /// Orders that have been handed to the writer and not been answered.
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
    /// Over the bound of orders in flight: 503.
    Busy,
    /// This buyer has too many orders in flight: 429.
    BuyerBusy,
}

/// Leave for one order to ask the stock, which must be spent on that order. It costs nothing: it has no size.
#[derive(Debug)]
#[must_use = "an order asks the stock with it"]
pub struct Permit(());

impl Permit {
    /// Spends it on the order that it was given for.
    pub fn spend_on<T>(self, order: T) -> Permitted<T> {
        Permitted { order, _permit: self }
    }
}

/// An order that may ask the stock. Only a [`Permit`] makes one, so nothing is reserved that was not admitted.
#[derive(Debug)]
#[must_use = "the order waits to ask the stock"]
pub struct Permitted<T> {
    order: T,
    _permit: Permit,
}

impl<T> Permitted<T> {
    pub fn order(&self) -> &T {
        &self.order
    }

    /// The order, once the stock is asked.
    pub fn into_order(self) -> T {
        self.order
    }
}

/// Shared by all event loops and the writer.
#[derive(Debug)]
pub struct Admission {
    limits: Limits,
    /// Theoretical arrival time of the next order, in nanoseconds since `epoch` (GCRA: one word, no timer).
    next_ns: AtomicU64,
    epoch: std::time::Instant,
    in_flight: AtomicUsize,
    buyers: Vec<Mutex<HashMap<BuyerId, u32>>>,
    hasher: RandomState,
}

/// Shards of the per-buyer counts: more than the threads that could meet there.
const BUYER_SHARDS: usize = 16;
const NS_PER_S: u64 = 1_000_000_000;

impl Admission {
    pub fn new(limits: Limits) -> Admission {
        Admission {
            limits,
            next_ns: AtomicU64::new(0),
            epoch: std::time::Instant::now(),
            in_flight: AtomicUsize::new(0),
            buyers: (0..BUYER_SHARDS).map(|_| Mutex::default()).collect(),
            hasher: RandomState::new(),
        }
    }

    /// In effect here: of a cluster, this server's share.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Judges a request whose key is unknown.
    ///
    /// # Errors
    /// The reason to refuse it now. Nothing is bound to its key.
    pub fn admit(&self, catalog: &Catalog, sku: SkuId, now: UnixMs) -> Result<Permit, NotAdmitted> {
        let (sale, _) = catalog.item(sku).ok_or(NotAdmitted::Refused(Refusal::UnknownSku))?;
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
        self.take_token().map(|()| Permit(()))
    }

    /// Counts an order that is handed to the writer, and says whether it came over a bound. It is counted
    /// either way, until [`Admission::leave`]: one with a key goes on to the writer even over a bound, because
    /// its key may be known.
    pub fn enter(&self, buyer: BuyerId) -> Option<NotAdmitted> {
        let max = self.limits.in_flight_max;
        let before = self.in_flight.fetch_add(1, Ordering::Relaxed);
        let mut over = (max > 0 && before >= max).then_some(NotAdmitted::Busy);
        let per_buyer = self.limits.in_flight_per_buyer_max;
        if per_buyer > 0 {
            let mut counts = self.shard(buyer);
            let count = counts.entry(buyer).or_insert(0);
            if *count >= per_buyer {
                over = over.or(Some(NotAdmitted::BuyerBusy));
            }
            *count += 1;
        }
        over
    }

    /// The order was answered.
    pub fn leave(&self, buyer: BuyerId) {
        self.in_flight.fetch_sub(1, Ordering::Relaxed);
        if self.limits.in_flight_per_buyer_max > 0 {
            let mut counts = self.shard(buyer);
            if let Some(count) = counts.get_mut(&buyer) {
                *count -= 1;
                if *count == 0 {
                    counts.remove(&buyer);
                }
            }
        }
    }

    pub fn in_flight(&self) -> usize {
        self.in_flight.load(Ordering::Relaxed)
    }

    fn shard(&self, buyer: BuyerId) -> std::sync::MutexGuard<'_, HashMap<BuyerId, u32>> {
        let shard = self.hasher.hash_one(buyer) % BUYER_SHARDS as u64;
        self.buyers[usize::try_from(shard).expect("a small number")]
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn take_token(&self) -> Result<(), NotAdmitted> {
        let rate = self.limits.orders_per_s;
        if rate == 0 {
            return Ok(());
        }
        let elapsed = self.epoch.elapsed().as_nanos();
        self.take_token_at(u64::try_from(elapsed).unwrap_or(u64::MAX), rate)
    }

    /// GCRA: each order moves the theoretical arrival time by one interval; it may run ahead of the clock by
    /// the burst.
    fn take_token_at(&self, now_ns: u64, rate: u64) -> Result<(), NotAdmitted> {
        let interval = (NS_PER_S / rate).max(1);
        let burst_ns = interval.saturating_mul(self.limits.burst.max(1));
        let mut next = self.next_ns.load(Ordering::Relaxed);
        loop {
            let after = next.max(now_ns).saturating_add(interval);
            let ahead = after - now_ns;
            if ahead > burst_ns {
                return Err(NotAdmitted::RateLimited {
                    retry_after_ms: (ahead - burst_ns).div_ceil(1_000_000),
                });
            }
            match self.next_ns.compare_exchange_weak(next, after, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return Ok(()),
                Err(current) => next = current,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn admission(orders_per_s: u64, burst: u64) -> Admission {
        Admission::new(Limits {
            orders_per_s,
            burst,
            in_flight_max: 2,
            in_flight_per_buyer_max: 1,
            gate_judges: false,
        })
    }

    #[test]
    fn the_rate_lets_the_burst_through_and_then_the_even_spread() {
        let admission = admission(1000, 3);
        let at = |ms: u64| admission.take_token_at(ms * 1_000_000, 1000).is_ok();
        assert_eq!([at(0), at(0), at(0), at(0)], [true, true, true, false]);
        assert_eq!([at(1), at(1)], [true, false]);
        assert_eq!([at(1000), at(1000), at(1000), at(1000)], [true, true, true, false]);
    }

    #[test]
    fn a_refused_order_is_told_when_to_come_again() {
        let admission = admission(2, 1);
        assert!(admission.take_token_at(0, 2).is_ok());
        assert_eq!(admission.take_token_at(0, 2), Err(NotAdmitted::RateLimited { retry_after_ms: 500 }));
    }

    #[test]
    fn orders_in_flight_are_bounded_in_all_and_per_buyer() {
        let admission = admission(0, 0);
        assert_eq!(admission.enter(BuyerId(1)), None);
        assert_eq!(admission.enter(BuyerId(1)), Some(NotAdmitted::BuyerBusy));
        admission.leave(BuyerId(1));
        assert_eq!(admission.enter(BuyerId(2)), None);
        assert_eq!(admission.enter(BuyerId(3)), Some(NotAdmitted::Busy));
        admission.leave(BuyerId(3));
        admission.leave(BuyerId(1));
        assert_eq!(admission.enter(BuyerId(1)), None);
        admission.leave(BuyerId(1));
        admission.leave(BuyerId(2));
        assert_eq!(admission.in_flight(), 0);
    }
}
