//! The ledger's files beside SQLite: whether they still have their names, and what is kept free for a full disk.
//!
//! SQLite goes on writing to the files that it opened, whatever their names stand for by then: somebody who removes or
//! replaces `ledger.db` or its WAL under a running server takes every order that is written from then on.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::create_private;

/// Kept in the data directory, and given up when the ledger is opened on a full disk: the WAL's index needs room before
/// anything can be read.
const BALLAST_NAME: &str = "ballast";
const BALLAST_BYTES: usize = 1024 * 1024;
/// What must be free on the disk before a ledger that found it full is written again: several of the largest batches, and
/// the pages that a checkpoint adds.
pub(super) const FREE_BYTES_MIN: u64 = 16 * 1024 * 1024;
const CHUNK_BYTES: usize = 64 * 1024;

/// A file of the ledger that is not where it was.
#[derive(Debug, thiserror::Error)]
#[error(
    "{0} was removed or replaced while the server ran: a start would not find the orders since then. The server ends, \
     and copies what it has beside it first (see the log)"
)]
pub(super) struct Misplaced(PathBuf);

/// The database and its WAL, as they were opened.
#[derive(Debug)]
pub(super) struct Files([(PathBuf, (u64, u64)); 2]);

impl Files {
    /// After SQLite has opened both.
    pub(super) fn opened(database: &Path) -> io::Result<Files> {
        let of = |path: PathBuf| {
            let found = fs::metadata(&path)?;
            Ok::<_, io::Error>((path, (found.dev(), found.ino())))
        };
        Ok(Files([of(database.to_owned())?, of(wal(database))?]))
    }

    /// Whether the names still stand for the files that were opened: a lookup of each, about a microsecond. A file whose
    /// last link is gone has no name that could.
    pub(super) fn check(&self) -> Result<(), Misplaced> {
        for (path, opened) in &self.0 {
            let there = match fs::metadata(path) {
                Ok(found) => (found.dev(), found.ino()) == *opened,
                // That it can't be looked at says nothing about where it is; the commit went through.
                Err(error) => !matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory),
            };
            if !there {
                return Err(Misplaced(path.clone()));
            }
        }
        Ok(())
    }
}

fn wal(database: &Path) -> PathBuf {
    let mut path = database.as_os_str().to_owned();
    path.push("-wal");
    path.into()
}

/// Writes the WAL's bytes once more where they are, and syncs them. A sync that failed before a crash may have left
/// frames that are on no disk, and that no later sync would write; a checkpoint settles it, but takes room.
pub(super) fn rewrite_wal(database: &Path) -> io::Result<()> {
    let mut file = match File::options().read(true).write(true).open(wal(database)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        opened => opened?,
    };
    let (mut chunk, mut at) = (vec![0; CHUNK_BYTES], 0);
    loop {
        file.seek(SeekFrom::Start(at))?;
        let read = file.read(&mut chunk)?;
        if read == 0 {
            return file.sync_all();
        }
        file.seek(SeekFrom::Start(at))?;
        file.write_all(&chunk[..read])?;
        at += read as u64;
    }
}

/// Lays the ballast down, if there is room.
pub(super) fn lay_ballast(dir: &Path) {
    let path = dir.join(BALLAST_NAME);
    if fs::metadata(&path).is_ok_and(|found| found.len() == BALLAST_BYTES as u64) {
        return;
    }
    let laid = create_private(&path)
        .and_then(|()| File::options().write(true).truncate(true).open(&path))
        .and_then(|mut file| file.write_all(&vec![0; BALLAST_BYTES]).and_then(|()| file.sync_all()));
    if let Err(error) = laid {
        tracing::debug!(%error, "no room for the ballast");
        drop_ballast(dir);
    }
}

/// Gives the ballast up; returns whether there was one.
pub(super) fn drop_ballast(dir: &Path) -> bool {
    fs::remove_file(dir.join(BALLAST_NAME)).is_ok()
}

/// What is free for us on the disk of this directory, in bytes; `None`: it can't be said.
pub(super) fn free_bytes(dir: &Path) -> Option<u64> {
    let disk = rustix::fs::statvfs(dir).ok()?;
    Some(disk.f_bavail.saturating_mul(disk.f_frsize))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ledger(dir: &Path) -> PathBuf {
        let path = dir.join("ledger.db");
        fs::write(&path, "database").unwrap();
        fs::write(wal(&path), "log").unwrap();
        path
    }

    #[test]
    fn a_file_that_was_removed_or_replaced_is_noticed() {
        type Slip = fn(&Path);
        let slips: [(&str, Slip); 4] = [
            ("removed", |path| fs::remove_file(path).unwrap()),
            ("the WAL removed", |path| fs::remove_file(wal(path)).unwrap()),
            ("replaced", |path| {
                let copy = path.with_extension("copy");
                fs::copy(path, &copy).unwrap();
                fs::rename(copy, path).unwrap();
            }),
            ("moved with its directory", |path| {
                let dir = path.parent().unwrap();
                fs::rename(dir, dir.with_extension("moved")).unwrap();
            }),
        ];
        for (what, slip) in slips {
            let parent = tempfile::tempdir().unwrap();
            let dir = parent.path().join("data");
            fs::create_dir(&dir).unwrap();
            let path = ledger(&dir);
            let files = Files::opened(&path).unwrap();
            files.check().unwrap();
            fs::write(&path, "written to").unwrap();
            fs::hard_link(&path, path.with_extension("link")).unwrap();
            files.check().unwrap();
            slip(&path);
            let misplaced = files.check().expect_err(what).to_string();
            assert!(misplaced.contains("ledger.db"), "{what}: {misplaced}");
        }
    }

    #[test]
    fn a_rewritten_wal_is_the_same() {
        let dir = tempfile::tempdir().unwrap();
        let path = ledger(dir.path());
        let bytes: Vec<u8> = (0..251).cycle().take(3 * CHUNK_BYTES + 5).collect();
        fs::write(wal(&path), &bytes).unwrap();
        rewrite_wal(&path).unwrap();
        assert!(fs::read(wal(&path)).unwrap() == bytes);
        fs::remove_file(wal(&path)).unwrap();
        rewrite_wal(&path).unwrap();
    }
}
