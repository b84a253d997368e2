//! An order's number, for people who talk about it: eight letters and digits, such as `K7QM-3X9F`.
//!
//! It is the order's place in the ledger, put through a keyed permutation of 40 bits. So the order is found by the ledger's
//! primary key, with no index over random values in any backend; no two have the same number, and none says how many were
//! sold. One that was misread is nobody's, but for about one in a million for each million entries of the ledger.
//! Must not: change, once numbers were given out.

use std::hash::Hasher;

use engine::Seq;
use siphasher::sip::SipHasher24;
use siphasher::sip128::{Hasher128, SipHasher24 as SipHasher24x128};

/// Crockford's: without letters that are taken for digits or for one another.
const LETTERS: &[u8; 32] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";
const LETTER_BITS: u32 = 5;
const LETTER_COUNT: usize = 8;
/// As long as somebody may type it, with hyphens and spaces.
const TYPED_BYTES_MAX: usize = 32;
const HALF_BITS: u32 = 20;
const HALF_MASK: u64 = (1 << HALF_BITS) - 1;
/// As many as FF1 has, whose halves are as small.
const ROUNDS: u8 = 10;
/// The last entry whose order has a number. A thousand orders a second get there in thirty years.
const SEQ_MAX: u64 = (1 << (2 * HALF_BITS)) - 1;

/// A number as it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::http) struct OrderNumber([u8; LETTER_COUNT + 1]);

impl OrderNumber {
    pub(in crate::http) fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).expect("the letters are ASCII")
    }
}

/// Makes the numbers of a ledger's orders, and reads them.
#[derive(Debug)]
pub(in crate::http) struct OrderNumbers {
    key: [u8; 16],
}

impl OrderNumbers {
    pub(in crate::http) fn new(secret: [u8; 16]) -> OrderNumbers {
        let mut hasher = SipHasher24x128::new_with_key(&secret);
        // Shorter than what any order's id is the hash of, so nobody can order this key.
        hasher.write(b"order number");
        OrderNumbers { key: hasher.finish128().as_u128().to_le_bytes() }
    }

    /// `None`: it is not in the ledger, or beyond [`SEQ_MAX`].
    pub(in crate::http) fn of(&self, order: Seq) -> Option<OrderNumber> {
        if !(1..=SEQ_MAX).contains(&order.0) {
            return None;
        }
        let (mut left, mut right) = (order.0 >> HALF_BITS, order.0 & HALF_MASK);
        for round in 0..ROUNDS {
            (left, right) = (right, left ^ self.mixed(round, right));
        }
        let mut bits = left << HALF_BITS | right;
        let mut text = [b'-'; LETTER_COUNT + 1];
        for place in (0..text.len()).rev().filter(|place| *place != LETTER_COUNT / 2) {
            text[place] = LETTERS[usize::try_from(bits % (1 << LETTER_BITS)).expect("five bits")];
            bits >>= LETTER_BITS;
        }
        Some(OrderNumber(text))
    }

    /// The entry of the order that would have this number, as somebody typed it. `None`: it is no number.
    pub(in crate::http) fn read(&self, typed: &str) -> Option<Seq> {
        if typed.len() > TYPED_BYTES_MAX {
            return None;
        }
        let (mut bits, mut letters) = (0, 0);
        for letter in typed.bytes().filter(|letter| !b"- ".contains(letter)) {
            bits = bits << LETTER_BITS | value(letter)?;
            letters += 1;
        }
        if letters != LETTER_COUNT {
            return None;
        }
        let (mut left, mut right) = (bits >> HALF_BITS, bits & HALF_MASK);
        for round in (0..ROUNDS).rev() {
            (left, right) = (right ^ self.mixed(round, left), left);
        }
        Some(Seq(left << HALF_BITS | right))
    }

    fn mixed(&self, round: u8, half: u64) -> u64 {
        let mut hasher = SipHasher24::new_with_key(&self.key);
        hasher.write(&[round]);
        hasher.write(&half.to_le_bytes());
        hasher.finish() & HALF_MASK
    }
}

/// What is read for one of the letters that are not used is what it looks like.
fn value(letter: u8) -> Option<u64> {
    let meant = match letter.to_ascii_uppercase() {
        b'I' | b'L' => b'1',
        b'O' => b'0',
        letter => letter,
    };
    LETTERS.iter().position(|known| *known == meant).map(|place| place as u64)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn a_number_leads_to_its_order_and_to_no_other() {
        let numbers = OrderNumbers::new([7; 16]);
        let seqs = (1..3_000).chain([1 << 20, 1 << 39, SEQ_MAX - 1, SEQ_MAX]);
        let mut seen = HashSet::new();
        for seq in seqs.map(Seq) {
            let number = numbers.of(seq).unwrap();
            assert_eq!(numbers.read(number.as_str()), Some(seq), "{number:?}");
            assert!(seen.insert(number.0));
        }
        assert_eq!((numbers.of(Seq(0)), numbers.of(Seq(SEQ_MAX + 1))), (None, None));
    }

    #[test]
    fn numbers_are_what_they_were_when_they_were_given_out() {
        let numbers = OrderNumbers::new([7; 16]);
        let given = [1, 2, 1_000_000].map(|seq| numbers.of(Seq(seq)).unwrap());
        assert_eq!(given.each_ref().map(OrderNumber::as_str), ["A42B-DMFZ", "KZ82-1T99", "HXHY-JBV9"]);
        assert_ne!(OrderNumbers::new([8; 16]).of(Seq(1)), numbers.of(Seq(1)), "another shop's are others");
    }

    #[test]
    fn a_number_says_nothing_of_how_many_there_are() {
        let numbers = OrderNumbers::new([7; 16]);
        // In each place, all letters come up about as often for the first orders of a ledger as for any others.
        let mut counts = [[0_u32; 256]; LETTER_COUNT + 1];
        for seq in 1..=32_000 {
            let OrderNumber(text) = numbers.of(Seq(seq)).unwrap();
            for (counts, letter) in counts.iter_mut().zip(text) {
                counts[usize::from(letter)] += 1;
            }
        }
        for (place, counts) in counts.iter().enumerate().filter(|(place, _)| *place != LETTER_COUNT / 2) {
            let of = LETTERS.map(|letter| counts[usize::from(letter)]);
            assert!(of.iter().all(|count| (800..1200).contains(count)), "{place}: {of:?}");
        }
    }

    #[test]
    fn it_is_read_as_people_write_it() {
        let numbers = OrderNumbers::new([7; 16]);
        let seq = numbers.read("0123-4567").unwrap();
        for same in ["01234567", "o123 4567", "OI23-4567", "0l23-4567", " 0 1 2 3 - 4 5 6 7 "] {
            assert_eq!(numbers.read(same), Some(seq), "{same}");
        }
        for none in ["", "0123-456", "0123-45678", "0123-456U", "0123_4567", "0123-456é", &" ".repeat(33)] {
            assert_eq!(numbers.read(none), None, "{none}");
        }
        assert_ne!(numbers.read("0123-4568"), Some(seq));
    }
}
