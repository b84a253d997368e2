//! Who waits for one order's page at Stripe: an order is asked for once at a time, however many want to pay it.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use engine::OrderId;

/// That wait for the page of one order; a buyer has few tabs.
const OF_ONE_ORDER_MAX: usize = 32;

/// Who asks, by order. Bounded by what the desk takes.
#[derive(Debug)]
pub(super) struct Askers<T>(Mutex<HashMap<OrderId, Vec<T>>>);

impl<T> Default for Askers<T> {
    fn default() -> Askers<T> {
        Askers(Mutex::default())
    }
}

impl<T> Askers<T> {
    /// Whether the asker will be answered: with whoever asked before, or because `start` begins to.
    pub(super) fn join(&self, order: OrderId, asker: T, start: impl FnOnce() -> bool) -> bool {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(waiting) = all.get_mut(&order) {
            let room = waiting.len() < OF_ONE_ORDER_MAX;
            if room {
                waiting.push(asker);
            }
            return room;
        }
        let started = start();
        if started {
            all.insert(order, vec![asker]);
        }
        started
    }

    /// All who have asked so far.
    pub(super) fn take(&self, order: OrderId) -> Vec<T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&order).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use engine::SkuId;

    use super::*;

    #[test]
    fn an_order_is_asked_for_once_at_a_time() {
        let (askers, order) = (Askers::default(), |hash| OrderId { sku: SkuId(1), hash });
        assert!(!askers.join(order(1), 0, || false), "nobody takes it");
        assert!(askers.join(order(1), 1, || true));
        for asker in 2..=OF_ONE_ORDER_MAX {
            assert!(askers.join(order(1), asker, || unreachable!("it is asked for")));
        }
        assert!(!askers.join(order(1), 99, || unreachable!("it is asked for")), "too many");
        assert!(askers.join(order(2), 1, || true), "another order's");
        assert_eq!(askers.take(order(1)), (1..=OF_ONE_ORDER_MAX).collect::<Vec<_>>());
        assert!(askers.join(order(1), 3, || true), "after the answer it is asked for anew");
    }
}
