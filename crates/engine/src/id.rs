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

/// A buyer's member number, as the shop knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BuyerId(pub u64);

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
}

/// A hash of what a request asked for, to tell a retry from another request under the same key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Fingerprint(pub u64);

/// An order's name: a 128-bit hash of what was asked under which key (or of a random value when there was no
/// key), and the SKU, which tells any server where to look. As text: 40 hexadecimal digits, always.
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
