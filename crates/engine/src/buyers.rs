//! What each buyer has: units of SKUs that have a limit, and open holds in sales that bound them.
//!
//! Only what a rule needs is counted, and a count of 0 is removed: 24 bytes for a buyer and SKU that has one.

use crate::BuyerId;
use crate::sharded::{Sharded, hash_of};

/// Counts per (place, buyer), where a place is a SKU or a sale by its number.
///
/// The hasher has fixed keys, because the engine has no entropy, so numbers that collide can be computed ahead.
/// Whoever can be any buyer at will (the `memberId` header without a trusted edge, or in a demo) could slow this
/// table down with them; numbers from signed tokens are the shop's, and a stranger can't choose those. Keys from
/// outside would close that, at the price of books that differ from run to run: whoever may be any buyer can
/// take the whole stock anyway.
#[derive(Clone, Debug, Default)]
pub(crate) struct Counts(Sharded<Count>);

#[derive(Clone, Copy, Debug)]
struct Count {
    buyer: BuyerId,
    place: u32,
    units: u32,
}

impl Count {
    fn hash(&self) -> u64 {
        hash_of((self.place, self.buyer))
    }

    fn is(place: u32, buyer: BuyerId) -> impl FnMut(&Count) -> bool {
        move |count| count.buyer == buyer && count.place == place
    }
}

impl Counts {
    pub(crate) fn get(&self, place: u32, buyer: BuyerId) -> u32 {
        self.0.find(hash_of((place, buyer)), Count::is(place, buyer)).map_or(0, |count| count.units)
    }

    pub(crate) fn add(&mut self, place: u32, buyer: BuyerId, units: u32) {
        let hash = hash_of((place, buyer));
        match self.0.find_mut(hash, Count::is(place, buyer)) {
            Some(count) => count.units += units,
            None => self.0.insert(hash, Count { buyer, place, units }, Count::hash),
        }
    }

    pub(crate) fn take(&mut self, place: u32, buyer: BuyerId, units: u32) {
        let hash = hash_of((place, buyer));
        let count = self.0.find_mut(hash, Count::is(place, buyer)).expect("only what was added is taken");
        count.units = count.units.checked_sub(units).expect("no more is taken than was added");
        if count.units == 0 {
            self.0.remove(hash, Count::is(place, buyer));
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = ((u32, BuyerId), u32)> + '_ {
        self.0.iter().map(|count| ((count.place, count.buyer), count.units))
    }
}
