//! What the shop signs, so that others can check later that it said so: certificates of sales, who took part in draws, and
//! receipts of places. By one Ed25519 key, in a file of its own (decision 030).
//!
//! A signed document is a line of JSON: the content under its name, whose key it is, and the signature of a line with that name,
//! so that nothing can be taken for another kind of document, and the content's bytes as they stand there. Must not: say what is in one.

use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use ring::rand::SystemRandom;
use ring::signature::{ED25519, Ed25519KeyPair, KeyPair, UnparsedPublicKey};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::hex::{hex, unhex};
use crate::secret::read_or_make;

const KEY_BYTES_MAX: u64 = 1_024;

/// Who signs.
pub struct SigningKey(Ed25519KeyPair);

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SigningKey({})", self.public())
    }
}

/// Why there is no key.
#[derive(Debug, thiserror::Error)]
#[error("the signing key {} can't be used: {why}", path.display())]
pub struct KeyError {
    path: PathBuf,
    why: io::Error,
}

impl SigningKey {
    /// `None`: it was never needed.
    ///
    /// # Errors
    /// If the file can't be read, or has no key.
    pub fn read(path: &Path) -> Result<Option<SigningKey>, KeyError> {
        let failed = |why| KeyError { path: path.to_owned(), why };
        match fs::metadata(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Ok(metadata) if metadata.len() > KEY_BYTES_MAX => {
                Err(failed(io::Error::other("it is too large for a key")))
            }
            _ => fs::read(path).map_err(failed).and_then(|bytes| SigningKey::of(path, &bytes)).map(Some),
        }
    }

    /// It is made, readable by its owner alone, when it is needed first.
    ///
    /// # Errors
    /// If it can't be made or read.
    pub fn read_or_make(path: &Path) -> Result<SigningKey, KeyError> {
        if let Some(key) = SigningKey::read(path)? {
            return Ok(key);
        }
        let made = read_or_make(path, || {
            let pkcs8 = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new());
            pkcs8.map(|key| key.as_ref().to_vec()).map_err(|_unspecified| io::Error::other("no entropy"))
        });
        SigningKey::of(path, &made.map_err(|why| KeyError { path: path.to_owned(), why })?)
    }

    fn of(path: &Path, pkcs8: &[u8]) -> Result<SigningKey, KeyError> {
        let key = Ed25519KeyPair::from_pkcs8(pkcs8).map_err(|error| io::Error::other(error.to_string()));
        key.map(SigningKey).map_err(|why| KeyError { path: path.to_owned(), why })
    }

    #[cfg(test)]
    pub(crate) fn of_seed(seed: [u8; 32]) -> SigningKey {
        SigningKey(Ed25519KeyPair::from_seed_unchecked(&seed).expect("any seed makes a key"))
    }

    /// In hexadecimal digits.
    pub fn public(&self) -> String {
        hex(self.0.public_key().as_ref())
    }

    /// In hexadecimal digits.
    pub fn sign(&self, message: &[u8]) -> String {
        hex(self.0.sign(message).as_ref())
    }

    /// `content`: JSON.
    pub fn document(&self, name: &str, content: &str) -> String {
        written(name, content, &self.public(), &self.sign(message(name, content).as_bytes()))
    }
}

/// Whether the owner of a key signed a message; both in hexadecimal digits.
pub fn is_signed(message: &[u8], public_key: &str, signature: &str) -> bool {
    let (Some(key), Some(signature)) = (unhex::<32>(public_key), unhex::<64>(signature)) else {
        return false;
    };
    UnparsedPublicKey::new(&ED25519, key).verify(message, &signature).is_ok()
}

/// The content of a signed document, and whose key it is; `None`: it was changed, or is none of this name.
pub fn read_document(name: &str, bytes: &[u8]) -> Option<(Box<RawValue>, String)> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Signed {
        #[serde(alias = "certificate", alias = "receipt")]
        content: Box<RawValue>,
        public_key: String,
        signature: String,
    }
    let Signed { content, public_key, signature } = serde_json::from_slice(bytes).ok()?;
    // What is not signed may be written in one way only.
    let is_ours = written(name, content.get(), &public_key, &signature).as_bytes() == bytes;
    let is_signed = is_signed(message(name, content.get()).as_bytes(), &public_key, &signature);
    (is_ours && is_signed).then_some((content, public_key))
}

fn message(name: &str, content: &str) -> String {
    format!("doorbuster {name}\n{content}")
}

fn written(name: &str, content: &str, public_key: &str, signature: &str) -> String {
    format!(r#"{{"{name}":{content},"public_key":"{public_key}","signature":"{signature}"}}"#) + "\n"
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;

    #[test]
    fn a_document_is_read_as_it_was_signed_and_no_other() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("key");
        let key = SigningKey::read_or_make(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        let text = key.document("receipt", r#"{"number":7}"#);
        let (content, whose) = read_document("receipt", text.as_bytes()).expect("it is signed");
        assert_eq!((content.get(), whose), (r#"{"number":7}"#, key.public()));
        let renamed = text.replacen("receipt", "certificate", 1);
        assert!(read_document("certificate", renamed.as_bytes()).is_none(), "it is of another name");
        for index in 0..text.len() {
            let mut changed = text.clone().into_bytes();
            changed[index] ^= 1;
            assert!(read_document("receipt", &changed).is_none(), "byte {index}");
        }
        for other in [&text[1..], text.trim_end(), &format!("{text} "), "", "{}"] {
            assert!(read_document("receipt", other.as_bytes()).is_none(), "{other}");
        }
    }

    #[test]
    fn a_key_stays_and_a_file_that_is_none_is_named() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("key");
        assert!(SigningKey::read(&path).unwrap().is_none());
        let first = SigningKey::read_or_make(&path).unwrap().public();
        assert_eq!(SigningKey::read_or_make(&path).unwrap().public(), first);
        for wrong in [&b"no key"[..], &[0; 2_000]] {
            fs::write(&path, wrong).unwrap();
            let error = SigningKey::read_or_make(&path).unwrap_err().to_string();
            assert!(error.contains(path.to_str().unwrap()), "{error}");
        }
    }
}
