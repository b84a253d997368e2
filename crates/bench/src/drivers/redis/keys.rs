//! Which keys and which values: seeded, so that every run asks for the same ones in the same order.

use anyhow::ensure;

use super::resp;
use crate::load::choice::Random;

/// Values begin at one of so many places of a pool of random letters.
const VALUE_OFFSETS: usize = 64;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    Random,
    /// Each key once, then from the start again.
    Sequence,
}

/// The keys of a load: a prefix and a number of fixed length.
#[derive(Debug, Clone)]
pub struct Keys {
    prefix: String,
    digits: usize,
    count: u64,
    pub(super) order: Order,
    next: u64,
}

impl Keys {
    /// `count` keys of `prefix` and `digits` digits.
    pub fn new(prefix: &str, digits: usize, count: u64, order: Order) -> anyhow::Result<Self> {
        let enough = u32::try_from(digits).ok().and_then(|digits| 10_u64.checked_pow(digits));
        ensure!(count > 0, "a load needs a key");
        ensure!(enough.is_none_or(|most| count <= most), "{count} keys of {digits} digits");
        Ok(Self { prefix: prefix.to_owned(), digits, count, order, next: 0 })
    }

    pub fn bytes(&self) -> usize {
        self.prefix.len() + self.digits
    }

    pub(super) fn write(&mut self, random: &mut Random, out: &mut Vec<u8>) {
        let number = match self.order {
            Order::Random => random.below(self.count),
            Order::Sequence => {
                let number = self.next;
                self.next = (number + 1) % self.count;
                number
            }
        };
        out.extend_from_slice(self.prefix.as_bytes());
        resp::digits(number, self.digits, out);
    }
}

/// The values of a load: letters that don't compress, all of one size.
#[derive(Debug, Clone)]
pub(super) struct Values {
    bytes: usize,
    pool: Vec<u8>,
}

impl Values {
    pub(super) fn new(bytes: usize, random: &mut Random) -> Self {
        const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
        let letter = |_| LETTERS[usize::try_from(random.next_u64() >> 58).expect("six bits")];
        Self { bytes, pool: (0..bytes + VALUE_OFFSETS).map(letter).collect() }
    }

    pub(super) fn pick(&self, random: &mut Random) -> &[u8] {
        let offset = usize::try_from(random.below(VALUE_OFFSETS as u64)).expect("less than a few");
        &self.pool[offset..offset + self.bytes]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn some(keys: &mut Keys, count: usize) -> Vec<String> {
        let mut random = Random::new(7);
        let key = |_| {
            let mut out = Vec::new();
            keys.write(&mut random, &mut out);
            String::from_utf8(out).unwrap()
        };
        (0..count).map(key).collect()
    }

    #[test]
    fn a_sequence_has_each_key_once_and_begins_again() {
        let mut keys = Keys::new("k:", 4, 3, Order::Sequence).unwrap();
        assert_eq!(some(&mut keys, 4), ["k:0000", "k:0001", "k:0002", "k:0000"]);
        assert_eq!(keys.bytes(), 6);
    }

    #[test]
    fn random_keys_are_of_the_key_space_and_the_same_with_the_same_seed() {
        let keys = Keys::new("", 20, 10, Order::Random).unwrap();
        let first = some(&mut keys.clone(), 1000);
        assert_eq!(first, some(&mut keys.clone(), 1000));
        let distinct: std::collections::BTreeSet<_> = first.iter().collect();
        assert_eq!(distinct.len(), 10);
        assert!(first.iter().all(|key| key.len() == 20 && key.parse::<u64>().unwrap() < 10));
    }

    #[test]
    fn too_many_keys_for_the_digits_are_refused() {
        assert!(Keys::new("", 3, 1000, Order::Sequence).is_ok());
        assert!(Keys::new("", 3, 1001, Order::Sequence).is_err());
        assert!(Keys::new("", 30, u64::MAX, Order::Sequence).is_ok());
    }

    #[test]
    fn values_have_the_size_asked_for() {
        let mut random = Random::new(1);
        for bytes in [0, 1, 12_500] {
            let values = Values::new(bytes, &mut random);
            assert!((0..100).all(|_| values.pick(&mut random).len() == bytes));
        }
    }
}
