//! A file that is whole before it has its name, which nobody else's may have.
//!
//! Must not: replace a file.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::failure::Failure;

/// Written beside its place. Dropped before it is kept, it was never there; a kill leaves `NAME.PID.new`.
pub(crate) struct NewFile {
    named: PathBuf,
    beside: PathBuf,
}

impl NewFile {
    /// Writes all of it to the disk. One that is there is somebody's.
    pub(crate) fn write(named: &Path, bytes: &[u8]) -> Result<NewFile, Failure> {
        NewFile::try_write(named, bytes).map_err(|error| cannot_write(named, &error))
    }

    /// As [`NewFile::write`], for who says in other words what a failure means.
    pub(crate) fn try_write(named: &Path, bytes: &[u8]) -> io::Result<NewFile> {
        let mut beside = named.as_os_str().to_owned();
        beside.push(format!(".{}.new", std::process::id()));
        let file = NewFile { named: named.to_owned(), beside: beside.into() };
        file.is_free()?;
        let mut made = File::create(&file.beside)?;
        made.write_all(bytes)?;
        made.sync_all()?;
        Ok(file)
    }

    /// Gives it its name.
    pub(crate) fn keep(self) -> Result<(), Failure> {
        self.try_keep().map_err(|error| cannot_write(&self.named, &error))
    }

    /// As [`NewFile::keep`], see [`NewFile::try_write`].
    pub(crate) fn try_keep(&self) -> io::Result<()> {
        match fs::hard_link(&self.beside, &self.named) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                // A file system without links, where only a look before keeps somebody else's.
                self.is_free().and_then(|()| fs::rename(&self.beside, &self.named))
            }
            linked => linked,
        }
    }

    fn is_free(&self) -> io::Result<()> {
        let is_there = fs::symlink_metadata(&self.named).is_ok();
        if is_there { Err(io::ErrorKind::AlreadyExists.into()) } else { Ok(()) }
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        // What can't be removed is whole, and named so that nobody takes it for the file.
        fs::remove_file(&self.beside).ok();
    }
}

fn cannot_write(file: &Path, error: &io::Error) -> Failure {
    Failure::usage(format!("{} can't be written: {error}", file.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_its_name_once_it_is_kept_and_never_that_of_another() {
        let folder = tempfile::tempdir().expect("a folder");
        let names = || {
            let entries = fs::read_dir(folder.path()).expect("it is there");
            entries.map(|entry| entry.expect("it is there").file_name()).collect::<Vec<_>>()
        };
        let named = folder.path().join("page.html");
        let file = NewFile::write(&named, b"whole").expect("there is room");
        assert!(!named.exists() && names().len() == 1, "{:?}", names());
        drop(file);
        assert!(names().is_empty(), "{:?}", names());
        let late = NewFile::write(&named, b"late").expect("there is room");
        fs::write(&named, "somebody's").expect("there is room");
        assert!(late.keep().is_err() && NewFile::write(&named, b"later").is_err());
        assert_eq!(fs::read(&named).ok().as_deref(), Some(&b"somebody's"[..]));
        fs::remove_file(&named).expect("it is there");
        NewFile::write(&named, b"whole").and_then(NewFile::keep).expect("there is room");
        assert_eq!((names(), fs::read(&named).ok()), (vec!["page.html".into()], Some(b"whole".to_vec())));
    }
}
