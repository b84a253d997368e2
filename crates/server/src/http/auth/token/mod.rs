//! Buyers' bearer tokens: JSON Web Tokens (RFC 7519) signed with HS256, and no other kind.
//!
//! The signature is checked before anything in the token is believed; docs/decisions/004-own-token-check.md
//! says why this is ours. Must not: allocate on the usual path, or read a clock.

use std::borrow::Cow;
use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use engine::BuyerId;
use ring::hmac;
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, Visitor};

use crate::clock::Between;
use crate::http::wire::decimal;

/// Longest token that is looked at, in bytes.
const TOKEN_BYTES_MAX: usize = 2048;
/// Three quarters of the longest token.
const DECODED_BYTES_MAX: usize = TOKEN_BYTES_MAX / 4 * 3;
/// `{"alg":"HS256","typ":"JWT"}`, as most libraries write it: recognised without decoding.
const USUAL_HEADER: &str = "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9";

/// Why a token is not believed. Answered to its bearer: none of this helps to forge one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::http) enum Untrusted {
    Malformed,
    /// Signed in a way other than HS256, or by an extension that must be understood.
    Algorithm,
    Signature,
    Expired,
    NotYetValid,
    /// No claim with the buyer's number, or no expiry.
    Claims,
}

impl Untrusted {
    pub(in crate::http) fn detail(self) -> &'static str {
        match self {
            Untrusted::Malformed => "The token is not a JSON Web Token.",
            Untrusted::Algorithm => "The token must be signed with HS256.",
            Untrusted::Signature => "The token's signature is wrong.",
            Untrusted::Expired => "The token has expired: sign in again.",
            Untrusted::NotYetValid => "The token is not valid yet.",
            Untrusted::Claims => "The token must have an expiry and the buyer's number.",
        }
    }
}

/// Checks tokens with one secret, or with either of two while the shop changes from one to the other.
#[derive(Debug)]
pub(in crate::http) struct Verifier {
    keys: Box<[hmac::Key]>,
    /// The claim that holds the buyer's number.
    claim: String,
}

impl Verifier {
    /// The secret that most tokens are signed with comes first.
    pub(in crate::http) fn new(secrets: &[Box<[u8]>], claim: String) -> Verifier {
        let keys = secrets.iter().map(|secret| hmac::Key::new(hmac::HMAC_SHA256, secret)).collect();
        Verifier { keys, claim }
    }

    /// The buyer that the token speaks of. No leeway: the shop's clock is to be right.
    pub(in crate::http) fn verify(&self, token: &str, between: Between) -> Result<BuyerId, Untrusted> {
        if token.len() > TOKEN_BYTES_MAX {
            return Err(Untrusted::Malformed);
        }
        let (signed, signature) = token.rsplit_once('.').ok_or(Untrusted::Malformed)?;
        let (header, claims) = signed.split_once('.').ok_or(Untrusted::Malformed)?;
        check_header(header)?;
        let mut tag = [0; DECODED_BYTES_MAX];
        let tag = decode(signature, &mut tag)?;
        if !self.keys.iter().any(|key| hmac::verify(key, signed.as_bytes(), tag).is_ok()) {
            return Err(Untrusted::Signature);
        }
        let mut decoded = [0; DECODED_BYTES_MAX];
        let claims =
            std::str::from_utf8(decode(claims, &mut decoded)?).map_err(|_not_text| Untrusted::Malformed)?;
        let mut json = serde_json::Deserializer::from_str(claims);
        let claims = Wanted(&self.claim).deserialize(&mut json).map_err(|_invalid| Untrusted::Claims)?;
        json.end().map_err(|_trailing| Untrusted::Malformed)?;
        claims.check(between)
    }
}

/// Only what is canonical: no padding, no stray bits at the end, no other alphabet.
fn decode<'a>(text: &str, into: &'a mut [u8; DECODED_BYTES_MAX]) -> Result<&'a [u8], Untrusted> {
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

#[derive(Default)]
struct Claims {
    buyer: Option<u64>,
    expires_s: Option<u64>,
    not_before_s: Option<u64>,
}

impl Claims {
    fn check(&self, between: Between) -> Result<BuyerId, Untrusted> {
        let (Some(buyer), Some(expires_s)) = (self.buyer, self.expires_s) else {
            return Err(Untrusted::Claims);
        };
        if between.earliest.0 / 1000 >= expires_s {
            return Err(Untrusted::Expired);
        }
        if self.not_before_s.is_some_and(|not_before_s| between.latest.0 / 1000 < not_before_s) {
            return Err(Untrusted::NotYetValid);
        }
        BuyerId::of_number(buyer).ok_or(Untrusted::Claims)
    }
}

/// Reads the claims that matter; `0` is the name of the buyer's.
struct Wanted<'n>(&'n str);

impl<'de> DeserializeSeed<'de> for Wanted<'_> {
    type Value = Claims;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Claims, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Wanted<'_> {
    type Value = Claims;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of claims")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Claims, A::Error> {
        let mut claims = Claims::default();
        while let Some(Name(name)) = map.next_key()? {
            // A claim that is there twice has two readers who read it differently: not believed.
            let before = if name == "exp" {
                claims.expires_s.replace(map.next_value::<Seconds>()?.0)
            } else if name == "nbf" {
                claims.not_before_s.replace(map.next_value::<Seconds>()?.0)
            } else if name == self.0 {
                claims.buyer.replace(map.next_value::<Number>()?.0)
            } else {
                map.next_value::<IgnoredAny>()?;
                None
            };
            if before.is_some() {
                return Err(A::Error::custom("a claim is there twice"));
            }
        }
        Ok(claims)
    }
}

/// A name that is borrowed where it has no escapes.
#[derive(serde::Deserialize)]
#[serde(transparent)]
struct Name<'a>(#[serde(borrow)] Cow<'a, str>);

/// The buyer's number, as a JSON number or as text in decimal digits.
struct Number(u64);

impl<'de> serde::Deserialize<'de> for Number {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Number, D::Error> {
        struct Either;
        impl Visitor<'_> for Either {
            type Value = Number;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number in digits")
            }
            fn visit_u64<E: Error>(self, number: u64) -> Result<Number, E> {
                Ok(Number(number))
            }
            fn visit_str<E: Error>(self, text: &str) -> Result<Number, E> {
                decimal(text).map(Number).ok_or_else(|| E::custom("not a number in digits"))
            }
        }
        deserializer.deserialize_any(Either)
    }
}

/// `NumericDate`: seconds since 1970, which may have a fraction.
struct Seconds(u64);

impl<'de> serde::Deserialize<'de> for Seconds {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Seconds, D::Error> {
        struct Either;
        impl Visitor<'_> for Either {
            type Value = Seconds;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("seconds since 1970")
            }
            fn visit_u64<E: Error>(self, seconds: u64) -> Result<Seconds, E> {
                Ok(Seconds(seconds))
            }
            fn visit_f64<E: Error>(self, seconds: f64) -> Result<Seconds, E> {
                if !(0.0..1e15).contains(&seconds) {
                    return Err(E::custom("not seconds since 1970"));
                }
                #[expect(
                    clippy::cast_possible_truncation,
                    clippy::cast_sign_loss,
                    reason = "the bounds were checked, and rounding down is wanted"
                )]
                Ok(Seconds(seconds as u64))
            }
        }
        deserializer.deserialize_any(Either)
    }
}

#[cfg(test)]
mod tests;
