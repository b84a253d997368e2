//! Amounts as Stripe counts them: in the currency's smallest unit, of which Stripe has its own idea for some.
//!
//! Must not: round. What one side can't say exactly is `None`.

use crate::pages::minor_digits;

/// Digits after the point of the amounts that Stripe takes, and of those the last that must be zeros.
fn digits(currency: &str) -> (u32, u32) {
    match currency {
        "BIF" | "CLP" | "DJF" | "GNF" | "JPY" | "KMF" | "KRW" | "MGA" | "PYG" | "RWF" | "VND" | "VUV"
        | "XAF" | "XOF" | "XPF" => (0, 0),
        // They have no smaller unit any more, and are written as if they had.
        "ISK" | "UGX" => (2, 2),
        "BHD" | "JOD" | "KWD" | "OMR" | "TND" => (3, 1),
        _ => (2, 0),
    }
}

/// Minor units of ours as Stripe's. The currency is in capital letters.
pub(super) fn to_stripe(minor: u64, currency: &str) -> Option<u64> {
    let (digits, zeros) = digits(currency);
    let amount = scaled(minor, minor_digits(currency), digits)?;
    amount.is_multiple_of(10_u64.pow(zeros)).then_some(amount)
}

/// And back. The currency is in any letters: Stripe writes small ones.
pub fn from_stripe(amount: u64, currency: &str) -> Option<u64> {
    let currency = currency.to_ascii_uppercase();
    scaled(amount, digits(&currency).0, minor_digits(&currency))
}

fn scaled(amount: u64, from: u32, to: u32) -> Option<u64> {
    let down = 10_u64.pow(from.saturating_sub(to));
    let amount = amount.is_multiple_of(down).then_some(amount / down)?;
    amount.checked_mul(10_u64.pow(to.saturating_sub(from)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_exact_both_ways_or_none() {
        for (minor, currency, stripe) in [
            (4_999, "EUR", Some(4_999)),
            (4_999, "JPY", Some(4_999)),
            (4_999, "ISK", Some(499_900)),
            (4_999, "UGX", Some(499_900)),
            (4_990, "KWD", Some(4_990)),
            (4_999, "KWD", None),
            (4_900, "MGA", Some(49)),
            (4_999, "MGA", None),
            (u64::MAX, "EUR", Some(u64::MAX)),
            (u64::MAX, "ISK", None),
        ] {
            assert_eq!(to_stripe(minor, currency), stripe, "{minor} {currency}");
            if let Some(stripe) = stripe {
                assert_eq!(from_stripe(stripe, &currency.to_lowercase()), Some(minor), "{stripe} {currency}");
            }
        }
        assert_eq!((from_stripe(150, "isk"), from_stripe(4_999, "kwd")), (None, Some(4_999)));
    }
}
