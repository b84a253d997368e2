//! A JSON Web Key Set. What is no key of ours is passed over: a set may have keys for other uses.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Deserialize;
use serde::de::IgnoredAny;

use super::{KEYS_MAX, Key, NamedKey, NotKeys};

#[derive(Deserialize)]
struct Set {
    keys: Vec<serde_json::Value>,
}

#[derive(Deserialize)]
struct WebKey {
    kty: String,
    kid: Option<Box<str>>,
    #[serde(rename = "use")]
    used_for: Option<String>,
    alg: Option<String>,
    crv: Option<String>,
    n: Option<String>,
    e: Option<String>,
    x: Option<String>,
    y: Option<String>,
    /// Of a private key.
    d: Option<IgnoredAny>,
}

pub(super) fn read(text: &str) -> Result<Vec<NamedKey>, NotKeys> {
    let set: Set = serde_json::from_str(text).map_err(|error| NotKeys::Json(error.to_string()))?;
    if set.keys.len() > KEYS_MAX {
        return Err(NotKeys::TooMany);
    }
    let mut keys = Vec::new();
    for value in &set.keys {
        let Ok(found) = WebKey::deserialize(value) else { continue };
        if found.d.is_some() {
            return Err(NotKeys::Private);
        }
        if let Some(key) = found.key()? {
            keys.push(NamedKey { id: found.kid, key });
        }
    }
    Ok(keys)
}

impl WebKey {
    /// `None`: it is for something else.
    fn key(&self) -> Result<Option<Key>, NotKeys> {
        let is_for = |algorithm: &str| self.alg.as_deref().is_none_or(|alg| alg == algorithm);
        if self.used_for.as_deref().is_some_and(|used_for| used_for != "sig") {
            return Ok(None);
        }
        Ok(match (self.kty.as_str(), self.crv.as_deref()) {
            ("RSA", _) if is_for("RS256") => match (bytes(&self.n), bytes(&self.e)) {
                (Some(modulus), Some(exponent)) => Some(Key::rsa(&modulus, &exponent)?),
                _ => None,
            },
            ("EC", Some("P-256")) if is_for("ES256") => self.point().map(Key::Ec),
            ("OKP", Some("Ed25519")) if is_for("EdDSA") => {
                bytes(&self.x).and_then(|x| x.try_into().ok()).map(Key::Ed25519)
            }
            _ => None,
        })
    }

    fn point(&self) -> Option<[u8; 65]> {
        let (x, y) = (bytes(&self.x)?, bytes(&self.y)?);
        let halves = x.len() == 32 && y.len() == 32;
        halves.then(|| [&[4][..], &x, &y].concat().try_into().expect("1, 32 and 32 bytes"))
    }
}

fn bytes(text: &Option<String>) -> Option<Vec<u8>> {
    URL_SAFE_NO_PAD.decode(text.as_ref()?).ok()
}
