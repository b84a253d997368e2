//! The newest epoch of each SKU that any part of this server has heard of, from the gate, the ledger or an order: a master that
//! was cut off while its replica took over sells on, and does not know that its epoch is over.

use std::sync::{PoisonError, RwLock};

use engine::SkuId;

use super::BySku;

#[derive(Debug, Default)]
pub struct Epochs(RwLock<BySku<u64>>);

impl Epochs {
    pub fn hear(&self, heard: impl IntoIterator<Item = (SkuId, u64)>) {
        let mut newest = self.0.write().unwrap_or_else(PoisonError::into_inner);
        for (sku, epoch) in heard {
            let known = newest.entry(sku).or_default();
            *known = epoch.max(*known);
        }
    }

    /// 0: of none.
    pub fn newest(&self, sku: SkuId) -> u64 {
        self.0.read().unwrap_or_else(PoisonError::into_inner).get(&sku).copied().unwrap_or(0)
    }

    /// Whether one has come after it.
    pub(super) fn is_over(&self, sku: SkuId, epoch: u64) -> bool {
        epoch < self.newest(sku)
    }
}
