//! A secret in memory, whoever gave it, and one that is made in a file. Must not: print it; `Debug` redacts.

use std::fmt;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

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

/// A file's content; it is made first if it is missing, readable by its owner alone. The file appears whole or not at all, and the
/// first of two processes wins: a second one may be about to be refused, and must not take the first one's secret away.
pub(crate) fn read_or_make(path: &Path, make: impl FnOnce() -> io::Result<Vec<u8>>) -> io::Result<Vec<u8>> {
    match fs::read(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        other => return other,
    }
    let made = make()?;
    let draft = path.with_extension(format!("{}.draft", std::process::id()));
    let linked = write_draft(&draft, &made).and_then(|()| fs::hard_link(&draft, path));
    // What a full disk has no room for is removed, too.
    let removed = fs::remove_file(&draft);
    match linked {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        Ok(()) | Err(_) => removed.and_then(|()| fs::read(path)),
    }
}

fn write_draft(draft: &Path, made: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(draft)?;
    file.write_all(made)?;
    file.sync_all()
}
