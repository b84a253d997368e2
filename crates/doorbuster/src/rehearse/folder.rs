//! The files of a rehearsal: a folder beside the data directory, removed with it, or by the next one.
//!
//! Must not: remove a folder without the lock of a rehearsal.

use std::fs::{DirBuilder, File, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use ::bench::progress::say;
use rustix::fs::{Access, access};

use crate::failure::Failure;

/// Folders of rehearsals, and the file in each that is locked while one is under way.
const FOLDER: &str = "rehearsal-";
const LOCK: &str = "rehearsal.lock";

/// The folder on the ledger's disk in which a rehearsal makes its own: beside the data directory, or as near as there is a
/// folder yet; in it, if it is a disk of its own, or nobody but root may write beside it.
pub(super) fn place(data_dir: &Path) -> Result<PathBuf, Failure> {
    let data_dir = std::path::absolute(data_dir).map_err(Failure::usage)?;
    let beside = data_dir.ancestors().skip(1).find(|folder| folder.is_dir()).unwrap_or(&data_dir);
    let disk = |folder: &Path| std::fs::metadata(folder).map(|found| found.dev());
    let there = disk(beside).map_err(|error| Failure::usage(format!("{}: {error}", beside.display())))?;
    match disk(&data_dir) {
        Ok(other) if other != there || access(beside, Access::WRITE_OK).is_err() => Ok(data_dir),
        _ => Ok(beside.to_owned()),
    }
}

/// Files of a rehearsal, removed when it is dropped. While it is there its lock is held, by this process alone.
pub(super) struct Folder {
    path: PathBuf,
    _lock: File,
}

impl Folder {
    pub(super) fn make(place: &Path) -> Result<Self, Failure> {
        let path = place.join(format!("{FOLDER}{}", std::process::id()));
        // Secrets of the engines may be in it.
        let made = DirBuilder::new().mode(0o700).create(&path).and_then(|()| File::create(path.join(LOCK)));
        let lock = made.map_err(|error| Failure::unavailable(format!("{}: {error}", path.display())))?;
        lock.try_lock().map_err(Failure::unavailable)?;
        Ok(Self { path, _lock: lock })
    }

    /// Refuses beside another one: each would take the processors for other work.
    pub(super) fn check_alone(&self, place: &Path) -> Result<(), Failure> {
        for (path, lock) in folders(place)? {
            if path != self.path && matches!(lock.try_lock(), Err(TryLockError::WouldBlock)) {
                let shown = path.display();
                return Err(Failure::check(format!(
                    "another rehearsal is under way ({shown}): wait until it has ended"
                )));
            }
        }
        Ok(())
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.path) {
            say(&format!("{}: can't be removed: {error}", self.path.display()));
        }
    }
}

/// Those of rehearsals, each with its lock's file: without that it is no folder of ours.
fn folders(place: &Path) -> Result<Vec<(PathBuf, File)>, Failure> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(place).map_err(|error| unusable(place, error))? {
        let entry = entry.map_err(|error| unusable(place, error))?;
        if entry.file_name().to_string_lossy().starts_with(FOLDER)
            && let Ok(lock) = File::open(entry.path().join(LOCK))
        {
            found.push((entry.path(), lock));
        }
    }
    Ok(found)
}

fn unusable(place: &Path, error: io::Error) -> Failure {
    Failure::unavailable(format!("{}: {error}", place.display()))
}

/// Removes the folders of rehearsals that were killed: those whose lock nobody holds.
pub(super) fn remove_left(place: &Path) -> Result<(), Failure> {
    for (path, lock) in folders(place)? {
        match lock.try_lock() {
            Ok(()) => {
                std::fs::remove_dir_all(&path).map_err(|error| unusable(place, error))?;
                say(&format!("removed what a rehearsal that was killed had left: {}", path.display()));
            }
            Err(TryLockError::WouldBlock) => {}
            Err(TryLockError::Error(error)) => return Err(unusable(place, error)),
        }
    }
    Ok(())
}
