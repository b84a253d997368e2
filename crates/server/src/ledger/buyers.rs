//! Buyers by the shop's text for them: a number stays that number, any other text is hashed under the ledger's secret.
//!
//! The hash is what orders and counts know; the text is kept once, beside them. Must not: know a database.

use engine::BuyerId;
use siphasher::sip128::{Hasher128, SipHasher24};
use std::hash::Hasher;

/// Longest text of a buyer, in bytes.
pub const BUYER_BYTES_MAX: usize = 128;

/// A buyer of one ledger.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Buyer {
    pub id: BuyerId,
    /// Of a buyer who is a hash, whom nothing else names.
    pub text: Option<Box<str>>,
}

/// The text is empty, or longer than [`BUYER_BYTES_MAX`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a buyer's text has 1 to {BUYER_BYTES_MAX} bytes")]
pub struct NotABuyer;

/// Finds the buyers of one ledger.
#[derive(Clone, Debug)]
pub struct Buyers {
    /// Of its own, so that no text of a buyer has the hash of a request.
    key: [u8; 16],
}

impl Buyers {
    /// With the secret that the ledger keeps for its ids: under another one everybody would be somebody else.
    pub fn new(id_secret: &[u8; 16]) -> Buyers {
        let mut hasher = SipHasher24::new_with_key(id_secret);
        hasher.write(b"buyers");
        Buyers { key: hasher.finish128().as_u128().to_le_bytes() }
    }

    /// # Errors
    /// See [`NotABuyer`].
    pub fn find(&self, text: &str) -> Result<Buyer, NotABuyer> {
        if !(1..=BUYER_BYTES_MAX).contains(&text.len()) {
            return Err(NotABuyer);
        }
        if let Some(id) = BuyerId::of_digits(text) {
            return Ok(Buyer { id, text: None });
        }
        let mut hasher = SipHasher24::new_with_key(&self.key);
        hasher.write(text.as_bytes());
        Ok(Buyer { id: BuyerId::of_hash(hasher.finish128().as_u128()), text: Some(text.into()) })
    }
}

/// Adds a line for each buyer of a ledger whose text is not theirs; without the secret nobody can know.
pub(super) fn check_texts(
    id_secret: Option<[u8; 16]>,
    texts: impl IntoIterator<Item = (BuyerId, String)>,
    broken: &mut Vec<String>,
) {
    let Some(secret) = id_secret else { return };
    let buyers = Buyers::new(&secret);
    for (id, text) in texts {
        if buyers.find(&text).map(|buyer| buyer.id) != Ok(id) {
            broken.push(format!("buyer {id} does not have the text {text:?}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: [u8; 16] = *b"0123456789abcdef";

    #[test]
    fn a_number_stays_itself_and_every_other_text_is_a_hash_of_its_own() {
        let buyers = Buyers::new(&SECRET);
        let seven = buyers.find("7").unwrap();
        assert_eq!(seven, Buyer { id: BuyerId(7), text: None });
        let mut seen = vec![seven.id];
        for text in
            ["07", "７", "9223372036854775808", "anna", "Anna", "anna ", "a@b.example", &"x".repeat(128)]
        {
            let buyer = buyers.find(text).unwrap();
            assert!(buyer.id.is_hash() && !seen.contains(&buyer.id), "{text}");
            assert_eq!(buyer.text.as_deref(), Some(text));
            assert_ne!(Buyers::new(&[0; 16]).find(text).unwrap().id, buyer.id);
            seen.push(buyer.id);
        }
        for text in ["", &"x".repeat(129)] {
            assert_eq!(buyers.find(text), Err(NotABuyer));
        }
    }

    /// Ledgers have these hashes: they must not change with a version of the library.
    #[test]
    fn the_hash_of_a_text_never_changes() {
        let anna = Buyers::new(&SECRET).find("anna").unwrap().id;
        assert_eq!(anna.to_string(), "918697f4490ad212dad4d3bdca5c4b10");
    }
}
