//! Buyer tokens: HS256 JSON Web Tokens, made as the shop in front of Doorbuster would make them.
//!
//! Written from RFC 7515 and 7519, not from the server's verifier. Costs about a microsecond each, so a generator
//! can sign as it goes.

use std::io::Write;
use std::time::UNIX_EPOCH;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::hmac;

/// A whole token is at most this long: two claims of at most 20 digits each.
const CLAIMS_BYTES_MAX: usize = 64;
/// A run lasts minutes; its tokens outlive it.
const LIFE_S: u64 = 24 * 3600;

#[derive(Debug)]
pub(crate) struct Minter {
    key: hmac::Key,
    header: String,
    /// Unix time.
    expires_s: u64,
}

impl Minter {
    pub(crate) fn new(secret: &str) -> Self {
        let header = URL_SAFE_NO_PAD.encode(r#"{"alg":"HS256","typ":"JWT"}"#);
        let key = hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes());
        Self { key, header, expires_s: unix_s() + LIFE_S }
    }

    /// Appends the token of this buyer.
    pub(crate) fn append(&self, buyer: u64, out: &mut Vec<u8>) {
        let expires_s = self.expires_s;
        let mut claims = [0; CLAIMS_BYTES_MAX];
        let mut rest = &mut claims[..];
        write!(rest, r#"{{"sub":"{buyer}","exp":{expires_s}}}"#).expect("two numbers fit");
        let used = CLAIMS_BYTES_MAX - rest.len();
        let begun = out.len();
        out.extend_from_slice(self.header.as_bytes());
        out.push(b'.');
        append_base64(&claims[..used], out);
        let signature = hmac::sign(&self.key, &out[begun..]);
        out.push(b'.');
        append_base64(signature.as_ref(), out);
    }
}

fn append_base64(bytes: &[u8], out: &mut Vec<u8>) {
    let begun = out.len();
    out.resize(begun + bytes.len().div_ceil(3) * 4, 0);
    let written =
        URL_SAFE_NO_PAD.encode_slice(bytes, &mut out[begun..]).expect("base64 needs 4 bytes for each 3");
    out.truncate(begun + written);
}

/// Seconds since 1970 by the wall clock: tokens and sales are dated by it.
pub fn unix_s() -> u64 {
    unix_ms() / 1000
}

/// The same in milliseconds: messages are dated by it.
pub fn unix_ms() -> u64 {
    #[allow(
        clippy::disallowed_methods,
        reason = "the bench stands outside of the server and has no injected clock"
    )]
    let now = std::time::SystemTime::now();
    let since = now.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_verifies_and_carries_its_claims() {
        let mut token = b"before ".to_vec();
        Minter { expires_s: u64::MAX, ..Minter::new("secret") }.append(u64::MAX, &mut token);
        let token = std::str::from_utf8(&token).unwrap().strip_prefix("before ").unwrap();
        let (signed, signature) = token.rsplit_once('.').unwrap();
        let (header, claims) = signed.split_once('.').unwrap();
        let decode = |part: &str| URL_SAFE_NO_PAD.decode(part).unwrap();
        assert_eq!(decode(header), br#"{"alg":"HS256","typ":"JWT"}"#);
        let claims: serde_json::Value = serde_json::from_slice(&decode(claims)).unwrap();
        assert_eq!(claims, serde_json::json!({"sub": u64::MAX.to_string(), "exp": u64::MAX}));
        let key = hmac::Key::new(hmac::HMAC_SHA256, b"secret");
        hmac::verify(&key, signed.as_bytes(), &decode(signature)).unwrap();
    }

    /// Signed with `openssl dgst -sha256 -hmac`, so that the check does not rest on one library.
    #[test]
    fn the_signature_is_what_another_program_makes() {
        let mut token = Vec::new();
        let minter = Minter { expires_s: 2_000_000_000, ..Minter::new("0123456789abcdef") };
        minter.append(1_000_000_001, &mut token);
        assert_eq!(String::from_utf8(token).unwrap(), include_str!("../../tests/token.txt").trim());
    }
}
