//! The names of things, as types that can't be mistaken for one another.

use std::fmt;
use std::str::FromStr;

/// A sale's number, given by the operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SaleId(pub u64);

/// A product's number in the shop; together with the sale it names a SKU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ProductId(pub u64);

/// A product in a sale: its position in the book, in the order of creation. Never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SkuId(pub u32);

/// A buyer, in 128 bits: the shop's number for a person, or a keyed hash of the shop's text for one. Numbers are below
/// 2^63 and hashes have their top bit set, so that neither is ever taken for the other; nothing between is a buyer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BuyerId(pub u128);

impl BuyerId {
    /// The largest number that a buyer can have: the ledgers' integers have a sign.
    pub const NUMBER_MAX: u64 = (1 << 63) - 1;
    const HASH_BIT: u128 = 1 << 127;

    /// `None`: the number is larger than [`BuyerId::NUMBER_MAX`].
    pub fn of_number(number: u64) -> Option<BuyerId> {
        (number <= BuyerId::NUMBER_MAX).then_some(BuyerId(u128::from(number)))
    }

    /// The buyer whose text has this hash; 127 bits of it count.
    pub fn of_hash(hash: u128) -> BuyerId {
        BuyerId(hash | BuyerId::HASH_BIT)
    }

    /// The buyer whose text is a number: digits without a zero before them. Any other text is to be hashed.
    pub fn of_digits(text: &str) -> Option<BuyerId> {
        let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        if !digits || (text.len() > 1 && text.starts_with('0')) {
            return None;
        }
        text.parse().ok().and_then(BuyerId::of_number)
    }

    /// `None`: a hash.
    pub fn number(self) -> Option<u64> {
        u64::try_from(self.0).ok().filter(|number| *number <= BuyerId::NUMBER_MAX)
    }

    pub fn is_hash(self) -> bool {
        self.0 & BuyerId::HASH_BIT != 0
    }

    /// Whether it is a number or a hash: what comes from outside may be neither.
    pub fn is_valid(self) -> bool {
        self.is_hash() || self.number().is_some()
    }
}

/// A number as digits, a hash as 32 hexadecimal ones.
impl fmt::Display for BuyerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.number() {
            Some(number) => write!(f, "{number}"),
            None => write!(f, "{:032x}", self.0),
        }
    }
}

/// The position of an [`crate::Entry`] in the ledger. One sequence for all entries of whatever kind, without
/// gaps, so that a number alone names a consistent state of the whole ledger.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Seq(pub u64);

/// Milliseconds since 1970 (UTC), by the server's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct UnixMs(pub u64);

impl UnixMs {
    /// This many milliseconds later; the end of time if that overflows.
    pub fn plus(self, ms: u64) -> UnixMs {
        UnixMs(self.0.saturating_add(ms))
    }

    /// Later by so much or, if it is negative, earlier.
    pub fn shifted(self, ms: i64) -> UnixMs {
        UnixMs(self.0.saturating_add_signed(ms))
    }
}

/// A hash of what a request asked for, to tell a retry from another request under the same key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Fingerprint(pub u64);

/// An order's name: a 128-bit hash of what was asked under which key (or of a random value when there was no
/// key), and the SKU, which shows any server where to look. As text: 40 hexadecimal digits, always.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct OrderId {
    pub sku: SkuId,
    pub hash: u128,
}

/// Length of an order id as text.
pub const ORDER_ID_CHARS: usize = 40;

impl fmt::Display for OrderId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:08x}{:032x}", self.sku.0, self.hash)
    }
}

/// The text is not an order id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotAnOrderId;

impl FromStr for OrderId {
    type Err = NotAnOrderId;

    fn from_str(text: &str) -> Result<OrderId, NotAnOrderId> {
        let lower_hex = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        if text.len() != ORDER_ID_CHARS || !text.bytes().all(lower_hex) {
            return Err(NotAnOrderId);
        }
        let (sku, hash) = text.split_at(8);
        Ok(OrderId {
            sku: SkuId(u32::from_str_radix(sku, 16).expect("eight hexadecimal digits were checked")),
            hash: u128::from_str_radix(hash, 16).expect("32 hexadecimal digits were checked"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buyer_is_a_number_or_a_hash_and_never_both() {
        let max = BuyerId::NUMBER_MAX;
        for (text, number) in [("0", Some(0)), ("7", Some(7)), ("9223372036854775807", Some(max))] {
            assert_eq!(BuyerId::of_digits(text).and_then(BuyerId::number), number, "{text}");
            assert_eq!(BuyerId::of_digits(text).map(|buyer| buyer.to_string()).as_deref(), Some(text));
        }
        for text in ["", "00", "07", "+7", "-7", "7 ", "７", "9223372036854775808", "99999999999999999999999"]
        {
            assert_eq!(BuyerId::of_digits(text), None, "{text}");
        }
        for hash in [0, 7, u128::from(max), u128::MAX] {
            let buyer = BuyerId::of_hash(hash);
            assert!(buyer.is_hash() && buyer.is_valid() && buyer.number().is_none(), "{buyer}");
            assert_eq!(buyer.to_string().len(), 32);
        }
        for between in [u128::from(max) + 1, u128::from(u64::MAX), (1 << 127) - 1] {
            assert!(!BuyerId(between).is_valid());
        }
        assert_eq!(BuyerId::of_number(max + 1), None);
    }

    #[test]
    fn an_order_id_survives_its_text() {
        for (sku, hash) in [(0, 0), (1, 7), (u32::MAX, u128::MAX), (29, 1 << 127)] {
            let id = OrderId { sku: SkuId(sku), hash };
            assert_eq!(id.to_string().len(), ORDER_ID_CHARS);
            assert_eq!(id.to_string().parse(), Ok(id));
        }
    }

    #[test]
    fn what_is_no_order_id_is_refused() {
        let good = OrderId { sku: SkuId(1), hash: 2 }.to_string();
        for text in
            ["", "1", &good[1..], &good.replace('2', "G"), &good.replace('2', "+"), &format!("{good}0")]
        {
            assert_eq!(text.parse::<OrderId>(), Err(NotAnOrderId), "{text}");
        }
        assert_eq!(good.replace("00000001", "0000000A").parse::<OrderId>(), Err(NotAnOrderId));
    }
}
