//! A secret in memory, whoever gave it. Must not: print it; `Debug` redacts.

use std::fmt;

/// The bytes of a secret.
#[derive(Clone, PartialEq, Eq)]
pub struct SecretBytes(Box<[u8]>);

impl SecretBytes {
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl From<&[u8]> for SecretBytes {
    fn from(bytes: &[u8]) -> Self {
        Self(bytes.into())
    }
}

impl fmt::Debug for SecretBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[redacted]")
    }
}
