//! Buyers' bearer tokens: JSON Web Tokens (RFC 7519) signed with HS256, and no other kind.
//!
//! The signature is checked before anything in the token is believed; docs/decisions/004-own-token-check.md
//! says why this is ours. Must not: allocate on the usual path, or read a clock.

mod address;
mod claims;
mod exchange;
mod groups;
mod mint;

use std::borrow::Cow;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::hmac;
use serde::de::IgnoredAny;

pub(in crate::http) use claims::Bearer;
pub(in crate::http) use exchange::{Exchange, Session};
pub use mint::{NotMinted, mint};

use crate::clock::Between;
use crate::ledger::Buyers;

/// Longest token that is looked at, in bytes.
const TOKEN_BYTES_MAX: usize = 2048;
/// A signature has 43; a longer one is none.
const TAG_CHARACTERS_MAX: usize = 44;
/// Three quarters of the longest token.
const DECODED_BYTES_MAX: usize = TOKEN_BYTES_MAX / 4 * 3;
/// `{"alg":"HS256","typ":"JWT"}`, as most libraries write it: recognised without decoding.
const USUAL_HEADER: &str = "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9";

/// Why a token is not believed. Answered to its bearer: none of this helps to forge one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::http) enum Untrusted {
    Malformed,
    Length,
    /// Signed in a way other than HS256, or by an extension that must be understood.
    Algorithm,
    Signature,
    Claims,
    Repeated,
    NoExpiry,
    Expiry,
    Expired,
    NotBefore,
    NotYetValid,
    NoIssuer,
    Issuer,
    NoAudience,
    Audience,
    NoSubject,
    Subject,
    SubjectNumber,
    SubjectLength,
    SubjectCharacters,
    Address,
    AddressLength,
    // Of tokens that are exchanged for one of ours.
    ShopLength,
    ShopAlgorithm,
    NoShopKeys,
    UnknownKey,
}

impl Untrusted {
    /// One text for each reason; the edge has the same ones.
    pub(in crate::http) fn detail(self) -> &'static str {
        match self {
            Untrusted::Malformed => "The token is not a JSON Web Token.",
            Untrusted::Length => "The token is longer than 2048 bytes.",
            Untrusted::Algorithm => "The token must be signed with HS256.",
            Untrusted::Signature => "The token's signature is wrong.",
            Untrusted::Claims => "The token's claims are not a JSON object.",
            Untrusted::Repeated => "A claim of the token is there twice.",
            Untrusted::NoExpiry => "The token has no expiry (exp).",
            Untrusted::Expiry => "The token's expiry (exp) is no time in seconds since 1970.",
            Untrusted::Expired => "The token has expired: sign in again.",
            Untrusted::NotBefore => "The token's start (nbf) is no time in seconds since 1970.",
            Untrusted::NotYetValid => "The token is not valid yet (nbf).",
            Untrusted::NoIssuer => "The token has no issuer (iss).",
            Untrusted::Issuer => "The token is of another issuer (iss).",
            Untrusted::NoAudience => "The token has no audience (aud).",
            Untrusted::Audience => "The token is for another audience (aud).",
            Untrusted::NoSubject => "The token has no subject: the claim that names the buyer is missing.",
            Untrusted::Subject => "The token's subject must be a text or a number.",
            Untrusted::SubjectNumber => {
                "The token's subject is no whole number from 0 to 9223372036854775807: write it as a text."
            }
            Untrusted::SubjectLength => "The token's subject must have 1 to 128 bytes.",
            Untrusted::SubjectCharacters => {
                "The token's subject may have no control characters, and no spaces at its ends."
            }
            Untrusted::Address => {
                "The token's address (address) is no object of texts, or its name or phone_number is no text."
            }
            Untrusted::AddressLength => {
                "The token's address is longer than 768 bytes as it is kept, or too long for a session."
            }
            Untrusted::ShopLength => "The token is longer than 8192 bytes.",
            Untrusted::ShopAlgorithm => "The token must be signed with HS256, RS256, ES256 or EdDSA.",
            Untrusted::NoShopKeys => {
                "This server has no public keys of the shop: only a token signed with HS256 can be exchanged."
            }
            Untrusted::UnknownKey => {
                "The shop has no key of this algorithm and name (alg, kid) that is known here."
            }
        }
    }
}

/// What a token must say beside the time for which it holds.
#[derive(Clone, Debug, Default)]
pub struct TokenRules {
    /// The claim that names the buyer.
    pub claim: String,
    /// What `iss` must be; `None`: it is not looked at.
    pub issuer: Option<String>,
    /// What `aud` must be or have; `None`: it is not looked at.
    pub audience: Option<String>,
    /// Whether the address of the claims is read.
    pub with_address: bool,
    /// The claim that names the buyer's groups; `None`: there are none.
    pub groups: Option<String>,
}

/// Checks tokens with one secret, or with either of two while the shop changes from one to the other.
#[derive(Debug)]
pub(in crate::http) struct TokenVerifier {
    keys: Box<[hmac::Key]>,
    rules: TokenRules,
    buyers: Buyers,
}

impl TokenVerifier {
    /// The secret that most tokens are signed with comes first.
    pub(in crate::http) fn new(secrets: &[Box<[u8]>], rules: TokenRules, buyers: Buyers) -> TokenVerifier {
        let keys = secrets.iter().map(|secret| hmac::Key::new(hmac::HMAC_SHA256, secret)).collect();
        TokenVerifier { keys, rules, buyers }
    }

    /// Whether tokens have the addresses of orders.
    pub(in crate::http) fn reads_addresses(&self) -> bool {
        self.rules.with_address
    }

    /// Whom the token speaks of.
    pub(in crate::http) fn verify(&self, token: &str, between: Between) -> Result<Bearer, Untrusted> {
        if token.len() > TOKEN_BYTES_MAX {
            return Err(Untrusted::Length);
        }
        let (signed, signature) = token.rsplit_once('.').ok_or(Untrusted::Malformed)?;
        let (header, claims) = signed.split_once('.').ok_or(Untrusted::Malformed)?;
        check_header(header)?;
        if signature.len() > TAG_CHARACTERS_MAX {
            return Err(Untrusted::Signature);
        }
        let mut tag = [0; TAG_CHARACTERS_MAX / 4 * 3];
        let tag = decode(signature, &mut tag)?;
        if !self.keys.iter().any(|key| hmac::verify(key, signed.as_bytes(), tag).is_ok()) {
            return Err(Untrusted::Signature);
        }
        let mut decoded = [0; DECODED_BYTES_MAX];
        let claims = decode(claims, &mut decoded)?;
        let claims = std::str::from_utf8(claims).map_err(|_not_text| Untrusted::Claims)?;
        claims::judge(claims, &self.rules, &self.buyers, between)
    }
}

/// Only what is canonical: no padding, no stray bits at the end, no other alphabet.
fn decode<'a>(text: &str, into: &'a mut [u8]) -> Result<&'a [u8], Untrusted> {
    let length = URL_SAFE_NO_PAD.decode_slice(text, into).map_err(|_invalid| Untrusted::Malformed)?;
    Ok(&into[..length])
}

fn check_header(encoded: &str) -> Result<(), Untrusted> {
    if encoded == USUAL_HEADER {
        return Ok(());
    }
    #[derive(serde::Deserialize)]
    struct Header<'a> {
        #[serde(borrow)]
        alg: Cow<'a, str>,
        /// Extensions that must be understood: we understand none.
        #[serde(default)]
        crit: Option<IgnoredAny>,
    }
    let mut decoded = [0; DECODED_BYTES_MAX];
    let header: Header<'_> =
        serde_json::from_slice(decode(encoded, &mut decoded)?).map_err(|_invalid| Untrusted::Malformed)?;
    if header.alg == "HS256" && header.crit.is_none() { Ok(()) } else { Err(Untrusted::Algorithm) }
}

#[cfg(test)]
mod tests;
