//! The public keys with which a shop signs its tokens by RS256, ES256 or EdDSA: of PEM, or of a JSON Web Key Set (RFC 7517).
//!
//! A key is good for one algorithm, by its kind, so no token can choose how it is checked. Must not: read a claim, take a
//! secret key for a public one, or be used on an event loop: a signature costs tens of microseconds.

mod fetch;
mod jwks;
mod pem;

use std::fmt;
use std::sync::Arc;

use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ED25519, RSA_PKCS1_2048_8192_SHA256, RsaPublicKeyComponents, UnparsedPublicKey,
};

pub use fetch::{FetchError, KeySource};

/// Keys of one shop: several while it changes from one to the next.
const KEYS_MAX: usize = 64;
/// Shorter ones are not believed by anybody any more.
const RSA_BITS_MIN: usize = 2048;
const RSA_BITS_MAX: usize = 8192;

/// How a token of the shop may be signed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    Rs256,
    Es256,
    EdDsa,
}

impl Algorithm {
    /// By the name in a token's header.
    pub fn of_name(name: &str) -> Option<Algorithm> {
        match name {
            "RS256" => Some(Algorithm::Rs256),
            "ES256" => Some(Algorithm::Es256),
            "EdDSA" => Some(Algorithm::EdDsa),
            _ => None,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Key {
    /// Both without zeros before them.
    Rsa {
        modulus: Box<[u8]>,
        exponent: Box<[u8]>,
    },
    /// A point of P-256, uncompressed.
    Ec([u8; 65]),
    Ed25519([u8; 32]),
}

impl Key {
    fn rsa(modulus: &[u8], exponent: &[u8]) -> Result<Key, NotKeys> {
        let without_zeros = |bytes: &[u8]| {
            let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
            Box::from(&bytes[zeros..])
        };
        let (modulus, exponent): (Box<[u8]>, _) = (without_zeros(modulus), without_zeros(exponent));
        if !(RSA_BITS_MIN / 8..=RSA_BITS_MAX / 8).contains(&modulus.len()) {
            return Err(NotKeys::RsaBits);
        }
        Ok(Key::Rsa { modulus, exponent })
    }

    fn algorithm(&self) -> Algorithm {
        match self {
            Key::Rsa { .. } => Algorithm::Rs256,
            Key::Ec(_) => Algorithm::Es256,
            Key::Ed25519(_) => Algorithm::EdDsa,
        }
    }

    fn has_signed(&self, message: &[u8], signature: &[u8]) -> bool {
        let verified = match self {
            Key::Rsa { modulus, exponent } => RsaPublicKeyComponents { n: modulus, e: exponent }.verify(
                &RSA_PKCS1_2048_8192_SHA256,
                message,
                signature,
            ),
            Key::Ec(point) => {
                UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point).verify(message, signature)
            }
            Key::Ed25519(key) => UnparsedPublicKey::new(&ED25519, key).verify(message, signature),
        };
        verified.is_ok()
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct NamedKey {
    /// `kid`; a PEM file has none.
    id: Option<Box<str>>,
    key: Key,
}

/// What became of a signature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SignatureCheck {
    Good,
    Wrong,
    /// No key is of that algorithm and that name.
    UnknownKey,
}

/// The keys of a shop, at one time.
#[derive(Clone, PartialEq, Eq)]
pub struct ShopKeys(Arc<[NamedKey]>);

impl fmt::Debug for ShopKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.0.iter().map(|key| (key.key.algorithm(), &key.id));
        f.debug_list().entries(names).finish()
    }
}

/// Why a text has no keys to check tokens with.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotKeys {
    #[error("holds neither a PEM public key nor a JSON Web Key Set")]
    Neither,
    #[error("holds a private key: give the public one, which \"openssl pkey -pubout\" prints")]
    Private,
    #[error("holds a PEM certificate: give its public key, which \"openssl x509 -pubkey -noout\" prints")]
    Certificate,
    #[error("holds a PEM public key that is neither RSA, P-256 nor Ed25519")]
    Kind,
    #[error("holds an RSA key that does not have {RSA_BITS_MIN} to {RSA_BITS_MAX} bits")]
    RsaBits,
    #[error("is no JSON Web Key Set: {0}")]
    Json(String),
    #[error("holds no key for RS256, ES256 or EdDSA")]
    None,
    #[error("holds more than {KEYS_MAX} keys")]
    TooMany,
}

impl ShopKeys {
    /// Of a file's text: PEM, or a JSON Web Key Set.
    ///
    /// # Errors
    /// See [`NotKeys`].
    pub fn read(text: &str) -> Result<ShopKeys, NotKeys> {
        let keys = if text.trim_start().starts_with('{') { jwks::read(text) } else { pem::read(text) }?;
        match keys.len() {
            0 => Err(NotKeys::None),
            1..=KEYS_MAX => Ok(ShopKeys(keys.into())),
            _ => Err(NotKeys::TooMany),
        }
    }

    /// Whether one of the keys has signed the message. With a name only keys of that name are looked at, and those that
    /// have none.
    pub fn verify(
        &self,
        algorithm: Algorithm,
        id: Option<&str>,
        message: &[u8],
        signature: &[u8],
    ) -> SignatureCheck {
        let named = |key: &&NamedKey| match (id, &key.id) {
            (Some(wanted), Some(found)) => wanted == &**found,
            _ => true,
        };
        let mut check = SignatureCheck::UnknownKey;
        for NamedKey { key, .. } in self.0.iter().filter(named) {
            if key.algorithm() != algorithm {
                continue;
            }
            if key.has_signed(message, signature) {
                return SignatureCheck::Good;
            }
            check = SignatureCheck::Wrong;
        }
        check
    }
}

#[cfg(test)]
mod tests;
