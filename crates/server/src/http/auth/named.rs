//! The buyer of a text from outside: a claim of a token, or the header of the edge.
//!
//! Must not: take two texts for one, by cutting or changing them.

use engine::BuyerId;

use crate::ledger::{BUYER_BYTES_MAX, Buyer, Buyers};

/// Why a text names nobody.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::http) enum Unnamed {
    Length,
    /// What a header can't carry, or loses on its way: the edge and the servers would speak of two buyers.
    Characters,
}

/// A number costs nothing; another text is kept.
pub(in crate::http) fn find(text: &str, buyers: &Buyers) -> Result<Buyer, Unnamed> {
    if let Some(id) = BuyerId::of_digits(text) {
        return Ok(Buyer { id, text: None });
    }
    check(text)?;
    buyers.find(text).map_err(|_of_another_length| Unnamed::Length)
}

/// Whether it can name somebody.
pub(super) fn check(text: &str) -> Result<(), Unnamed> {
    if text.is_empty() || text.len() > BUYER_BYTES_MAX {
        return Err(Unnamed::Length);
    }
    if text.starts_with(' ') || text.ends_with(' ') || text.chars().any(char::is_control) {
        return Err(Unnamed::Characters);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_header_carries_unchanged_is_a_name() {
        let buyers = Buyers::new(&[7; 16]);
        for (text, found) in [
            ("7", Ok(true)),
            ("07", Ok(false)),
            ("anna", Ok(false)),
            ("Ännä Ö, 7", Ok(false)),
            ("a@b.example", Ok(false)),
            ("9223372036854775808", Ok(false)),
            (&"x".repeat(128), Ok(false)),
            ("", Err(Unnamed::Length)),
            (&"x".repeat(129), Err(Unnamed::Length)),
            (&"ä".repeat(65), Err(Unnamed::Length)),
            (" anna", Err(Unnamed::Characters)),
            ("anna ", Err(Unnamed::Characters)),
            ("\tanna", Err(Unnamed::Characters)),
            ("an\r\nna", Err(Unnamed::Characters)),
            ("an\u{85}na", Err(Unnamed::Characters)),
            ("anna\0", Err(Unnamed::Characters)),
        ] {
            assert_eq!(find(text, &buyers).map(|buyer| buyer.id.number().is_some()), found, "{text:?}");
        }
    }
}
