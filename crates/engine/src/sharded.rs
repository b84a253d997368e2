//! A hash table in parts, so that growing never stops the book for long.
//!
//! A hash table of a million entries that doubles moves all of them at once: tens of milliseconds in which no
//! order is taken, in the middle of a rush. In 256 parts each growth moves a 256th, and because entries fall
//! into the parts at random, the parts fill up, and grow, at different moments. Costs 12 KiB when empty.

use std::collections::HashMap;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher, Hash};

use hashbrown::HashTable;

const PARTS: usize = 256;

type FixedHash = BuildHasherDefault<DefaultHasher>;

/// A map whose hasher has fixed keys: the engine has no entropy.
pub(crate) type FixedMap<K, V> = HashMap<K, V, FixedHash>;

/// Entries found by a 64-bit hash that the caller gives; equality is the caller's too.
#[derive(Clone, Debug)]
pub(crate) struct Sharded<T>(Box<[HashTable<T>]>);

impl<T> Default for Sharded<T> {
    fn default() -> Sharded<T> {
        Sharded((0..PARTS).map(|_| HashTable::new()).collect())
    }
}

impl<T> Sharded<T> {
    pub(crate) fn find(&self, hash: u64, is: impl FnMut(&T) -> bool) -> Option<&T> {
        self.0[part(hash)].find(hash, is)
    }

    pub(crate) fn find_mut(&mut self, hash: u64, is: impl FnMut(&T) -> bool) -> Option<&mut T> {
        self.0[part(hash)].find_mut(hash, is)
    }

    /// Adds an entry that is not there; `hash_of` gives an entry's hash again when the part grows.
    pub(crate) fn insert(&mut self, hash: u64, entry: T, hash_of: impl Fn(&T) -> u64) {
        self.0[part(hash)].insert_unique(hash, entry, hash_of);
    }

    pub(crate) fn remove(&mut self, hash: u64, is: impl FnMut(&T) -> bool) {
        if let Ok(found) = self.0[part(hash)].find_entry(hash, is) {
            found.remove();
        }
    }

    /// Makes room for so many entries more, if they spread evenly.
    pub(crate) fn reserve(&mut self, additional: usize, hash_of: impl Fn(&T) -> u64) {
        for table in &mut self.0 {
            table.reserve(additional.div_ceil(PARTS), &hash_of);
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.0.iter().flatten()
    }
}

/// The table inside uses the lowest bits for the place and the highest for its tags: these are neither.
fn part(hash: u64) -> usize {
    usize::from(hash.to_le_bytes()[5])
}

/// The hash of a key. The keys of the hasher are fixed: the engine has no entropy.
pub(crate) fn hash_of(key: impl Hash) -> u64 {
    FixedHash::default().hash_one(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_found_and_gone_whatever_part_they_are_in() {
        let mut table = Sharded::default();
        for number in 0..10_000_u64 {
            assert_eq!(table.find(hash_of(number), |other| *other == number), None);
            table.insert(hash_of(number), number, |number| hash_of(number));
        }
        for number in (0..10_000).step_by(2) {
            table.remove(hash_of(number), |other| *other == number);
        }
        table.reserve(10_000, |number| hash_of(number));
        for number in 0..10_000 {
            let found = table.find(hash_of(number), |other| *other == number).copied();
            assert_eq!(found, (number % 2 == 1).then_some(number));
        }
        assert_eq!(table.iter().count(), 5_000);
    }

    #[test]
    fn entries_spread_over_the_parts() {
        let mut table = Sharded::default();
        for number in 0..25_600_u64 {
            table.insert(hash_of((number, 7_u32)), number, |number| hash_of((*number, 7_u32)));
        }
        assert!(table.0.iter().all(|part| (50..150).contains(&part.len())), "100 each, more or less");
    }
}
