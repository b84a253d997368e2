//! The shop's signing key as commands name it: the file that signs, and the public half that must have signed.

use std::fmt;
use std::path::{Path, PathBuf};

use server::config::{Environment, SIGNING_KEY_FILE, Sources};
use server::hex::unhex;
use server::signing::SigningKey;

use crate::failure::Failure;

/// Where the key is, or will be.
pub(crate) struct KeyFile(PathBuf);

impl fmt::Display for KeyFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.display().fmt(f)
    }
}

impl KeyFile {
    /// The one that is named, or that of the server that has this configuration file, or that of the data directory; `None`: the
    /// ledger is in none.
    pub(crate) fn of(
        named: Option<&Path>,
        (config, data_dir): (Option<&Path>, Option<&Path>),
        environment: &Environment,
    ) -> Result<Option<KeyFile>, Failure> {
        let file = match (named, config) {
            (Some(file), _) => Some(file.to_owned()),
            (None, Some(config)) => {
                Sources::default().file(config).environment(environment).load()?.signing_key()
            }
            (None, None) => data_dir.map(|data_dir| data_dir.join(SIGNING_KEY_FILE)),
        };
        Ok(file.map(KeyFile))
    }

    /// It is made when it is needed first.
    pub(crate) fn read_or_make(&self) -> Result<SigningKey, Failure> {
        SigningKey::read_or_make(&self.0).map_err(Failure::usage)
    }

    /// `None`: it was never needed.
    pub(crate) fn read(&self) -> Result<Option<SigningKey>, Failure> {
        SigningKey::read(&self.0).map_err(Failure::usage)
    }

    /// Why this is not its public key, if so.
    pub(crate) fn is_not(&self, public_key: &str) -> Result<Option<String>, Failure> {
        let path = self.0.display();
        Ok(match self.read()? {
            None => Some(format!("there is no key {path}")),
            Some(key) if key.public() != public_key => Some(format!("the key is not that of {path}")),
            Some(_) => None,
        })
    }
}

/// A public key as the server shows it.
pub(crate) fn parse_public_key(text: &str) -> Result<String, String> {
    let key = text.trim().to_ascii_lowercase();
    if unhex::<32>(&key).is_some() {
        Ok(key)
    } else {
        Err("a public key is 64 hexadecimal digits".to_owned())
    }
}

/// Says whose signature it is; `wanted`: whose it must be.
///
/// # Errors
/// Whose it is instead.
pub(crate) fn signed_by(public_key: &str, wanted: Option<&str>) -> Result<String, String> {
    match wanted {
        None => Ok(format!("signed by {public_key}; --key compares whose key it is")),
        Some(wanted) if wanted == public_key => Ok(format!("signed by {public_key}")),
        Some(_) => Err(format!("another key signed it: {public_key}")),
    }
}
