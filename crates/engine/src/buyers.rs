//! What each buyer has: units of SKUs that have a limit, and open holds in sales that bound them.
//!
//! Only what a rule needs is counted, and a count of 0 is removed: 24 bytes for a buyer and SKU that has one.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, DefaultHasher};

use crate::BuyerId;

/// Counts per (place, buyer), where a place is a SKU or a sale by its number.
///
/// The hasher has fixed keys, because the engine has no entropy, so numbers that collide can be computed ahead.
/// Whoever can be any buyer at will (the `memberId` header without a trusted edge, or in a demo) could slow this
/// table down with them; numbers from signed tokens are the shop's, and a stranger can't choose those. Keys from
/// outside would close that, at the price of books that differ from run to run: whoever may be any buyer can
/// take the whole stock anyway.
#[derive(Clone, Debug, Default)]
pub(crate) struct Counts(HashMap<(u32, BuyerId), u32, BuildHasherDefault<DefaultHasher>>);

impl Counts {
    pub(crate) fn get(&self, place: u32, buyer: BuyerId) -> u32 {
        self.0.get(&(place, buyer)).copied().unwrap_or(0)
    }

    pub(crate) fn add(&mut self, place: u32, buyer: BuyerId, units: u32) {
        *self.0.entry((place, buyer)).or_insert(0) += units;
    }

    pub(crate) fn take(&mut self, place: u32, buyer: BuyerId, units: u32) {
        let count = self.0.get_mut(&(place, buyer)).expect("only what was added is taken");
        *count = count.checked_sub(units).expect("no more is taken than was added");
        if *count == 0 {
            self.0.remove(&(place, buyer));
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = ((u32, BuyerId), u32)> + '_ {
        self.0.iter().map(|(key, count)| (*key, *count))
    }
}
