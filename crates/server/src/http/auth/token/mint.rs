//! Making tokens of the kind that is checked here: the sessions of buyers who came with a token of the shop, and trials.
//!
//! Must not: read a clock or a secret.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use engine::GroupName;
use ring::hmac;
use serde_json::{Map, Value};

use super::{TOKEN_BYTES_MAX, TokenRules, USUAL_HEADER, groups};
use crate::http::auth::named::{self, Unnamed};

/// Why no token is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotMinted {
    #[error("a buyer's name has 1 to 128 bytes")]
    NameLength,
    #[error("a buyer's name has no control characters, and no spaces at its ends")]
    NameCharacters,
    #[error("the token would be longer than {TOKEN_BYTES_MAX} bytes: shorten its issuer or its audience")]
    Length,
}

/// A token of this buyer that holds until then (in seconds since 1970), with the claims that the rules want.
///
/// # Errors
/// See [`NotMinted`].
pub fn mint(secret: &[u8], rules: &TokenRules, buyer: &str, expires_s: u64) -> Result<String, NotMinted> {
    mint_with(secret, rules, (buyer, None, &[]), expires_s)
}

/// The same, with the buyer's address as it is kept, if there is one, and groups.
pub(super) fn mint_with(
    secret: &[u8],
    rules: &TokenRules,
    (buyer, address, of_buyer): (&str, Option<&[u8]>, &[GroupName]),
    expires_s: u64,
) -> Result<String, NotMinted> {
    named::check(buyer).map_err(|unnamed| match unnamed {
        Unnamed::Length => NotMinted::NameLength,
        Unnamed::Characters => NotMinted::NameCharacters,
    })?;
    let mut claims = Map::new();
    for (name, text) in [("iss", &rules.issuer), ("aud", &rules.audience)] {
        if let Some(text) = text {
            claims.insert(name.to_owned(), text.as_str().into());
        }
    }
    if let Some(address) = address {
        let address = serde_json::from_slice(address).expect("it was written as JSON");
        claims.insert("address".to_owned(), address);
    }
    if let Some(name) = rules.groups.as_ref().filter(|_| !of_buyer.is_empty()) {
        claims.insert(name.clone(), groups::claim(of_buyer));
    }
    claims.insert("exp".to_owned(), expires_s.into());
    claims.insert(rules.claim.clone(), buyer.into());
    let signed = format!("{USUAL_HEADER}.{}", URL_SAFE_NO_PAD.encode(Value::Object(claims).to_string()));
    let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, secret), signed.as_bytes());
    let token = format!("{signed}.{}", URL_SAFE_NO_PAD.encode(tag));
    if token.len() > TOKEN_BYTES_MAX { Err(NotMinted::Length) } else { Ok(token) }
}

#[cfg(test)]
mod tests {
    use engine::UnixMs;

    use super::*;
    use crate::http::auth::token::TokenVerifier;
    use crate::ledger::Buyers;

    #[test]
    fn what_is_minted_is_believed() {
        let rules = TokenRules {
            claim: "member".to_owned(),
            issuer: Some("https://\"shop\"".to_owned()),
            audience: Some("drops".to_owned()),
            with_address: false,
            groups: None,
        };
        let buyers = Buyers::new(&[7; 16]);
        let verifier = TokenVerifier::new(&[Box::from(*b"secret")], rules.clone(), buyers.clone());
        for name in ["7", "anna", "Ännä \"Ö\" \\", &"\"".repeat(128)] {
            let token = mint(b"secret", &rules, name, 1000).unwrap();
            let bearer = verifier.verify(&token, UnixMs(999_999).into()).unwrap();
            assert_eq!((bearer.buyer, bearer.expires_s), (buyers.find(name).unwrap(), 1000));
            assert!(verifier.verify(&token, UnixMs(1_000_000).into()).is_err());
        }
        for (name, refused) in [
            ("", NotMinted::NameLength),
            (&"x".repeat(129), NotMinted::NameLength),
            ("anna ", NotMinted::NameCharacters),
        ] {
            assert_eq!(mint(b"secret", &rules, name, 1000), Err(refused));
        }
        let long = TokenRules { issuer: Some("x".repeat(2000)), ..rules };
        assert_eq!(mint(b"secret", &long, "7", 1000), Err(NotMinted::Length));
    }
}
