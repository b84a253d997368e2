//! Who stands where, found out without the server: commitment, tree, seed and order of a draw, written a second time.
//!
//! Two implementations that agree on a million places are the proof that neither has a format of its own. Must not: ask.

use anyhow::{Context, ensure};
use ring::{digest, hmac};

pub(super) type Hash = [u8; 32];

const ROUNDS: u8 = 10;
/// What a seed begins with.
const SEED: &[u8] = b"doorbuster seed 1";

pub(super) fn sha256(parts: &[&[u8]]) -> Hash {
    let mut context = digest::Context::new(&digest::SHA256);
    parts.iter().for_each(|part| context.update(part));
    context.finish().as_ref().try_into().expect("SHA-256 has 32 bytes")
}

/// Of a draw without a beacon.
pub(super) fn seed(secret: &Hash, root: &Hash) -> Hash {
    sha256(&[SEED, secret, root, &[0]])
}

pub(super) fn hash_of(text: &str) -> anyhow::Result<Hash> {
    ensure!(text.len() == 64 && text.is_ascii(), "'{text}' is no hash");
    let mut hash = [0; 32];
    for (byte, digits) in hash.iter_mut().zip(text.as_bytes().chunks(2)) {
        let digits = std::str::from_utf8(digits).context("a hash has digits")?;
        *byte = u8::from_str_radix(digits, 16).with_context(|| format!("'{text}' is no hash"))?;
    }
    Ok(hash)
}

/// RFC 6962's tree over leaves that come one by one: by height, the roots of the complete trees so far.
#[derive(Debug, Default)]
pub(super) struct Tree(Vec<Option<Hash>>);

impl Tree {
    pub(super) fn add(&mut self, leaf: Hash) {
        let mut carried = leaf;
        for height in &mut self.0 {
            match height.take() {
                Some(left) => carried = sha256(&[&[1], &left, &carried]),
                None => {
                    *height = Some(carried);
                    return;
                }
            }
        }
        self.0.push(Some(carried));
    }

    pub(super) fn root(&self) -> Hash {
        let mut trees = self.0.iter().flatten();
        let Some(smallest) = trees.next() else { return sha256(&[]) };
        trees.fold(*smallest, |right, left| sha256(&[&[1], left, &right]))
    }
}

/// The order that a seed gives so many numbers.
#[derive(Debug)]
pub(super) struct Places {
    count: u32,
    /// Of the left half and of the right one.
    bits: (u32, u32),
    key: hmac::Key,
}

impl Places {
    pub(super) fn new(seed: &Hash, count: u32) -> Self {
        let mut bits = 2;
        while (1_u64 << bits) < u64::from(count) {
            bits += 1;
        }
        let key = hmac::Key::new(hmac::HMAC_SHA256, seed);
        Self { count, bits: (bits - bits / 2, bits / 2), key }
    }

    pub(super) fn place_of(&self, number: u32) -> u32 {
        self.walk(number, |at| (0..ROUNDS).fold(at, |at, round| self.mix(at, round)))
    }

    pub(super) fn number_at(&self, place: u32) -> u32 {
        self.walk(place, |at| (0..ROUNDS).rev().fold(at, |at, round| self.mix(at, round)))
    }

    /// Until it comes to one that there is. Who joined after the close stays where they are.
    fn walk(&self, from: u32, step: impl Fn(u32) -> u32) -> u32 {
        if self.count < 2 || !(1..=self.count).contains(&from) {
            return from;
        }
        let mut at = step(from - 1);
        while at >= self.count {
            at = step(at);
        }
        at + 1
    }

    /// One round of the network: one half, in turn, is mixed with what the other half gives under the seed.
    fn mix(&self, at: u32, round: u8) -> u32 {
        let (left_bits, right_bits) = self.bits;
        let (left, right) = (at >> right_bits, at & ((1 << right_bits) - 1));
        let of = |half: u32| -> u32 {
            let mut message = [0; 9];
            message[0] = round;
            message[1..5].copy_from_slice(&self.count.to_be_bytes());
            message[5..].copy_from_slice(&half.to_be_bytes());
            let tag = hmac::sign(&self.key, &message);
            u32::from_be_bytes(tag.as_ref()[..4].try_into().expect("four bytes of 32"))
        };
        if round.is_multiple_of(2) {
            ((left ^ (of(right) & ((1 << left_bits) - 1))) << right_bits) | right
        } else {
            (left << right_bits) | (right ^ (of(left) & ((1 << right_bits) - 1)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The engine and the page's script are held to the same file.
    #[test]
    fn places_are_those_of_the_engine() {
        let places = |count: u32| {
            let order = Places::new(&[7; 32], count);
            (1..=count.min(8)).map(|number| order.place_of(number)).collect::<Vec<_>>()
        };
        let found = [1, 2, 3, 10, 1_000, 1_000_000].map(places);
        let of_engine = include_str!("../../../../engine/tests/line/places.txt");
        assert_eq!(format!("{found:?}"), of_engine.trim());
    }

    #[test]
    fn each_number_has_one_place() {
        for count in [0, 1, 2, 5, 64, 65, 1_500] {
            let order = Places::new(&sha256(&[b"any"]), count);
            let mut seen = vec![false; count as usize];
            for number in 1..=count {
                let place = order.place_of(number);
                assert!(!std::mem::replace(&mut seen[place as usize - 1], true), "two stand at {place}");
                assert_eq!(order.number_at(place), number);
            }
            assert_eq!(order.place_of(count + 1), count + 1);
        }
    }

    /// By the definition of the tree: a root of the largest power of two below the count, and the rest.
    #[test]
    fn the_tree_is_rfc_6962s() {
        fn root(leaves: &[Hash]) -> Hash {
            match leaves {
                [] => sha256(&[]),
                [leaf] => *leaf,
                _ => {
                    let half = leaves.len().next_power_of_two() / 2;
                    sha256(&[&[1], &root(&leaves[..half]), &root(&leaves[half..])])
                }
            }
        }
        let leaves: Vec<Hash> = (0..70_u8).map(|leaf| sha256(&[&[leaf]])).collect();
        let mut tree = Tree::default();
        for count in 0..leaves.len() {
            assert_eq!(tree.root(), root(&leaves[..count]), "{count}");
            tree.add(leaves[count]);
        }
    }

    #[test]
    fn a_hash_is_64_digits() {
        assert_eq!(hash_of(&"0f".repeat(32)).unwrap(), [15; 32]);
        for wrong in ["", "0f", &"0g".repeat(32), &"é".repeat(32)] {
            assert!(hash_of(wrong).is_err(), "{wrong}");
        }
    }
}
