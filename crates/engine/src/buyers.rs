//! What each buyer has: units of SKUs that have a limit, and open holds in sales that bound them.
//!
//! Only what a rule needs is counted, and a count of 0 is removed. A buyer who is a number costs 16 bytes for each SKU or
//! sale, and one who is a hash 24: they have a table each, so that the one does not pay for the other.

use std::hash::Hash;

use crate::BuyerId;
use crate::sharded::{Sharded, hash_of};

/// Counts per (scope, buyer), where a scope is a SKU or a sale by its number.
///
/// The hasher has fixed keys, because the engine has no entropy, so numbers that collide can be computed ahead.
/// Whoever can be any buyer at will (the `memberId` header without a trusted edge, or in a demo) could slow this
/// table down with them; numbers from signed tokens are the shop's, and a stranger can't choose those. Keys from
/// outside would close that, at the price of books that differ from run to run: whoever may be any buyer can
/// take the whole stock anyway.
#[derive(Clone, Debug, Default)]
pub(crate) struct Counts {
    numbers: Table<u64>,
    hashes: Table<[u64; 2]>,
}

/// Counts of buyers who are distinguished by this.
#[derive(Clone, Debug)]
struct Table<B>(Sharded<Count<B>>);

#[derive(Clone, Copy, Debug)]
struct Count<B> {
    buyer: B,
    scope: u32,
    units: u32,
}

impl<B> Default for Table<B> {
    fn default() -> Table<B> {
        Table(Sharded::default())
    }
}

impl<B: Copy + Eq + Hash> Count<B> {
    fn hash(&self) -> u64 {
        hash_of((self.scope, self.buyer))
    }

    fn is(scope: u32, buyer: B) -> impl FnMut(&Count<B>) -> bool {
        move |count| count.buyer == buyer && count.scope == scope
    }
}

impl<B: Copy + Eq + Hash> Table<B> {
    fn get(&self, scope: u32, buyer: B) -> u32 {
        self.0.find(hash_of((scope, buyer)), Count::is(scope, buyer)).map_or(0, |count| count.units)
    }

    fn add(&mut self, scope: u32, buyer: B, units: u32) {
        let hash = hash_of((scope, buyer));
        match self.0.find_mut(hash, Count::is(scope, buyer)) {
            Some(count) => count.units += units,
            None => self.0.insert(hash, Count { buyer, scope, units }, Count::hash),
        }
    }

    fn take(&mut self, scope: u32, buyer: B, units: u32) {
        let hash = hash_of((scope, buyer));
        let count = self.0.find_mut(hash, Count::is(scope, buyer)).expect("only what was added is taken");
        count.units = count.units.checked_sub(units).expect("no more is taken than was added");
        if count.units == 0 {
            self.0.remove(hash, Count::is(scope, buyer));
        }
    }
}

/// As two numbers: one of 128 bits would be aligned to 16 bytes.
#[expect(clippy::cast_possible_truncation, reason = "the two halves of it")]
fn halves(buyer: BuyerId) -> [u64; 2] {
    [(buyer.0 >> 64) as u64, buyer.0 as u64]
}

fn whole([high, low]: [u64; 2]) -> BuyerId {
    BuyerId(u128::from(high) << 64 | u128::from(low))
}

impl Counts {
    pub(crate) fn get(&self, scope: u32, buyer: BuyerId) -> u32 {
        match buyer.number() {
            Some(number) => self.numbers.get(scope, number),
            None => self.hashes.get(scope, halves(buyer)),
        }
    }

    pub(crate) fn add(&mut self, scope: u32, buyer: BuyerId, units: u32) {
        match buyer.number() {
            Some(number) => self.numbers.add(scope, number, units),
            None => self.hashes.add(scope, halves(buyer), units),
        }
    }

    pub(crate) fn take(&mut self, scope: u32, buyer: BuyerId, units: u32) {
        match buyer.number() {
            Some(number) => self.numbers.take(scope, number, units),
            None => self.hashes.take(scope, halves(buyer), units),
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = ((u32, BuyerId), u32)> + '_ {
        let numbers = self.numbers.0.iter();
        let numbers = numbers.map(|count| ((count.scope, BuyerId(u128::from(count.buyer))), count.units));
        let hashes = self.hashes.0.iter();
        numbers.chain(hashes.map(|count| ((count.scope, whole(count.buyer)), count.units)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_has_16_bytes_for_a_number_and_24_for_a_hash() {
        assert_eq!((size_of::<Count<u64>>(), size_of::<Count<[u64; 2]>>()), (16, 24));
    }

    #[test]
    fn a_number_and_a_hash_that_ends_in_it_are_two_buyers() {
        let mut counts = Counts::default();
        let buyers = [BuyerId(7), BuyerId::of_hash(7), BuyerId::of_hash(7 | 1 << 64)];
        for (buyer, units) in buyers.into_iter().zip(1..) {
            counts.add(3, buyer, units);
        }
        let mut all: Vec<_> = counts.iter().collect();
        all.sort_unstable();
        assert_eq!(all, [((3, buyers[0]), 1), ((3, buyers[1]), 2), ((3, buyers[2]), 3)]);
        counts.take(3, buyers[1], 2);
        assert_eq!(buyers.map(|buyer| counts.get(3, buyer)), [1, 0, 3]);
    }
}
