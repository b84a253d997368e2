//! Signatures by the Standard Webhooks specification: HMAC-SHA-256 over id, time and body.

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ring::hmac;

const PREFIX: &str = "whsec_";
/// Of the secret itself, as the specification has it.
const BYTES: std::ops::RangeInclusive<usize> = 24..=64;

/// What an endpoint's requests are signed with.
#[derive(Clone)]
pub struct Secret(hmac::Key);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

/// A text is no secret of an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "must be whsec_ and 24 to 64 bytes in base64; make one with: echo \"whsec_$(openssl rand -base64 32)\""
)]
pub struct NotASecret;

impl Secret {
    /// # Errors
    /// See [`NotASecret`].
    pub fn parse(text: &str) -> Result<Secret, NotASecret> {
        let encoded = text.trim_end().strip_prefix(PREFIX).ok_or(NotASecret)?;
        let bytes = STANDARD.decode(encoded).map_err(|_not_base64| NotASecret)?;
        if !BYTES.contains(&bytes.len()) {
            return Err(NotASecret);
        }
        Ok(Secret(hmac::Key::new(hmac::HMAC_SHA256, &bytes)))
    }
}

/// The header `webhook-signature`: one signature by each secret.
pub(super) fn sign(secrets: &[Secret], id: &str, at_s: u64, body: &[u8]) -> String {
    let signature = |Secret(key): &Secret| {
        let mut context = hmac::Context::with_key(key);
        context.update(format!("{id}.{at_s}.").as_bytes());
        context.update(body);
        format!("v1,{}", STANDARD.encode(context.sign()))
    };
    secrets.iter().map(signature).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of the specification's reference libraries.
    #[test]
    fn signs_as_the_reference_libraries_do() {
        let secret = Secret::parse("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap();
        let signed =
            sign(&[secret], "msg_p5jXN8AQM9LWM0D4loKWxJek", 1_614_265_330, br#"{"test": 2432232314}"#);
        assert_eq!(signed, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
    }

    #[test]
    fn two_secrets_sign_both() {
        let secrets = ["a", "b"]
            .map(|letter| Secret::parse(&format!("whsec_{}", STANDARD.encode(letter.repeat(32)))).unwrap());
        let signed = sign(&secrets, "id", 1, b"body");
        let each: Vec<_> = signed.split(' ').collect();
        assert_eq!(each.len(), 2);
        assert_eq!(each[1], sign(&secrets[1..], "id", 1, b"body"));
        assert_ne!(each[0], each[1]);
    }

    #[test]
    fn what_is_no_secret_is_refused() {
        for text in
            ["", "whsec_", "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_short", "whsec_!!!!", "whsec_YWJj"]
        {
            assert_eq!(Secret::parse(text).err(), Some(NotASecret), "{text}");
        }
        Secret::parse("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\n").unwrap();
    }
}
