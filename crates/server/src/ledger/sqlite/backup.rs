//! A consistent copy of the ledger while it is written: one file, synced, that opens as a ledger.

use std::fs::File;
use std::path::{Path, PathBuf};

use rusqlite::Connection;

use super::{OpenError, create_private, open_reader};

/// Why there is no copy.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    #[error("{0} exists already; give another file, or remove it")]
    Exists(PathBuf),
    #[error("cannot write {path}: {source}")]
    Io { path: PathBuf, source: std::io::Error },
    #[error("cannot copy the ledger: {0}")]
    Sqlite(#[from] rusqlite::Error),
}

/// Copies the ledger of a data directory to a new file, as of the moment of the call.
///
/// # Errors
/// See [`OpenError`].
pub fn backup(data_dir: &Path, to: &Path) -> Result<(), OpenError> {
    let connection = open_reader(data_dir)?;
    connection.pragma_update(None, "query_only", false)?;
    Ok(copy(&connection, to, Existing::Refuse)?)
}

/// What to do with a file that has the copy's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Existing {
    Refuse,
    /// When the copy is whole.
    Replace,
}

/// Copies through a temporary name, so that a file of the final name is always whole.
pub(super) fn copy(connection: &Connection, to: &Path, existing: Existing) -> Result<(), BackupError> {
    if existing == Existing::Refuse && to.exists() {
        return Err(BackupError::Exists(to.to_owned()));
    }
    let mut partial = to.as_os_str().to_owned();
    partial.push(".partial");
    let partial = PathBuf::from(partial);
    let io = |source| BackupError::Io { path: to.to_owned(), source };
    if partial.exists() {
        std::fs::remove_file(&partial).map_err(io)?;
    }
    // SQLite copies into an empty file as into none, and keeps its rights.
    create_private(&partial).map_err(io)?;
    let target = partial.to_str().ok_or_else(|| io(std::io::Error::other("the path is not UTF-8")))?;
    let copied = connection.execute("VACUUM INTO ?1", [target]).map_err(BackupError::from).and_then(|_| {
        File::open(&partial).and_then(|file| file.sync_all()).map_err(io)?;
        std::fs::rename(&partial, to).map_err(io)?;
        let parent = to.parent().filter(|parent| !parent.as_os_str().is_empty());
        File::open(parent.unwrap_or(Path::new("."))).and_then(|dir| dir.sync_all()).map_err(io)
    });
    if copied.is_err() {
        // SQLite's journal of the copy stays behind too, if the disk was full.
        let mut journal = partial.clone().into_os_string();
        journal.push("-journal");
        for left in [partial, PathBuf::from(journal)] {
            if left.exists() && std::fs::remove_file(&left).is_err() {
                tracing::warn!(path = %left.display(), "an incomplete copy was left behind");
            }
        }
    }
    copied
}
