//! A cache with bounds: of entries, and of the bytes that they take.
//!
//! Two generations: what is found moves to the young one, and when that is half of the bounds, it becomes the old one and
//! what was old goes. So whatever is asked for again and again stays, though somebody walks through everything there is,
//! and neither finding nor keeping costs more with more entries.

use std::collections::HashMap;
use std::hash::Hash;

#[derive(Debug)]
pub(in crate::http) struct Bounded<K, V> {
    young: HashMap<K, (V, usize)>,
    young_bytes: usize,
    old: HashMap<K, (V, usize)>,
    entries_max: usize,
    bytes_max: usize,
}

impl<K: Eq + Hash, V> Bounded<K, V> {
    pub(in crate::http) fn new(entries_max: usize, bytes_max: usize) -> Bounded<K, V> {
        let (young, old) = (HashMap::new(), HashMap::new());
        Bounded { young, young_bytes: 0, old, entries_max, bytes_max }
    }

    pub(in crate::http) fn get(&mut self, key: K) -> Option<&V> {
        if let Some((value, bytes)) = self.old.remove(&key) {
            self.put(key, value, bytes)
        } else {
            self.young.get(&key).map(|(value, _)| value)
        }
    }

    /// Keeps a value that takes this many bytes, instead of the one before.
    pub(in crate::http) fn put(&mut self, key: K, value: V, bytes: usize) -> Option<&V> {
        self.old.remove(&key);
        if let Some((_, before)) = self.young.remove(&key) {
            self.young_bytes -= before;
        }
        if self.young.len() >= self.entries_max / 2 || self.young_bytes + bytes > self.bytes_max / 2 {
            self.old = std::mem::take(&mut self.young);
            self.young_bytes = 0;
        }
        self.young_bytes += bytes;
        let (kept, _) = self.young.entry(key).insert_entry((value, bytes)).into_mut();
        Some(kept)
    }

    pub(in crate::http) fn remove(&mut self, key: &K) {
        self.old.remove(key);
        if let Some((_, bytes)) = self.young.remove(key) {
            self.young_bytes -= bytes;
        }
    }

    #[cfg(test)]
    pub(in crate::http) fn size(&self) -> (usize, usize) {
        let old_bytes: usize = self.old.values().map(|(_, bytes)| bytes).sum();
        (self.young.len() + self.old.len(), self.young_bytes + old_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_walks_through_everything_neither_grows_it_nor_evicts_what_is_asked_for() {
        for (entries_max, bytes_max) in [(64, usize::MAX), (usize::MAX, 64 * 100)] {
            let mut cache = Bounded::new(entries_max, bytes_max);
            cache.put(u64::MAX, "hot", 100);
            for walked in 0..100_000_u64 {
                cache.put(walked, "cold", 100);
                let (entries, bytes) = cache.size();
                assert!(entries <= entries_max && bytes <= bytes_max, "{entries} entries, {bytes} bytes");
                if walked % 10 == 0 {
                    assert_eq!(cache.get(u64::MAX), Some(&"hot"), "after {walked}");
                }
            }
            assert_eq!(cache.get(0), None);
        }
    }

    #[test]
    fn the_newest_value_of_a_key_is_kept_whichever_generation_had_it() {
        let mut cache = Bounded::new(4, usize::MAX);
        for round in 0..10 {
            for key in 0..3 {
                cache.put(key, (round, key), 1);
                assert_eq!(cache.get(key), Some(&(round, key)));
            }
            assert!(cache.size().0 <= 4);
        }
        assert_eq!(cache.get(2), Some(&(9, 2)));
    }
}
