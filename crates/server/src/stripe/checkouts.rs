//! The sessions at Stripe that this server has opened, so that a buyer who comes again is led to the same one, and so that one
//! is closed with its order's hold.
//!
//! In memory alone: a session that is forgotten ends by itself, and what is authorised in it is judged by the ledger like any
//! other payment. Must not: hold money's fate.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use engine::OrderId;

/// Sessions that are remembered, at some 300 bytes each.
const KNOWN_MAX: usize = 100_000;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct OpenCheckout {
    pub(super) id: String,
    pub(super) url: String,
    pub(super) expires_at_s: u64,
}

#[derive(Debug, Default)]
pub(super) struct Checkouts(Mutex<HashMap<OrderId, OpenCheckout>>);

impl Checkouts {
    /// The session of an order that is open for a while yet.
    pub(super) fn open(&self, order: OrderId, now_s: u64) -> Option<OpenCheckout> {
        self.lock().get(&order).filter(|known| known.expires_at_s > now_s).cloned()
    }

    pub(super) fn note(&self, order: OrderId, known: OpenCheckout, now_s: u64) {
        let mut all = self.lock();
        if all.len() >= KNOWN_MAX {
            all.retain(|_, known| known.expires_at_s > now_s);
        }
        if all.len() < KNOWN_MAX {
            all.insert(order, known);
        }
    }

    pub(super) fn get(&self, order: OrderId) -> Option<OpenCheckout> {
        self.lock().get(&order).cloned()
    }

    pub(super) fn forget(&self, order: OrderId) {
        self.lock().remove(&order);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<OrderId, OpenCheckout>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use engine::SkuId;

    use super::*;

    #[test]
    fn what_is_remembered_is_bounded_and_what_is_over_makes_room() {
        let (checkouts, known) = (Checkouts::default(), |expires_at_s| OpenCheckout {
            id: String::new(),
            url: String::new(),
            expires_at_s,
        });
        let order = |hash| OrderId { sku: SkuId(1), hash };
        for number in 0..KNOWN_MAX as u128 {
            checkouts.note(order(number), known(if number == 7 { 10 } else { 20 }), 0);
        }
        let next = order(u128::MAX);
        checkouts.note(next, known(20), 9);
        assert_eq!(checkouts.get(next), None, "all others are open");
        checkouts.note(next, known(20), 10);
        assert!(checkouts.get(next).is_some() && checkouts.get(order(7)).is_none());
        assert!(checkouts.open(next, 19).is_some() && checkouts.open(next, 20).is_none());
    }
}
