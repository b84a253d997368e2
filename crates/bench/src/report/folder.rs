//! The folder that a run writes its report into: one run at a time, and an earlier report stays until there is a new one.

use std::fs::{File, TryLockError};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

use super::json;
use super::model::Report;

const LOCK: &str = ".bench.lock";
/// What a run may leave here; the first is replaced, never removed before.
const FILES: [&str; 5] = ["report.json", "report.html", "report.md", "report.csv", "admission.toml"];

/// Held as long as a run may still write.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    /// Files of an earlier run may be here.
    stale: bool,
    /// The system lets go of it when this process ends, however it ends.
    _lock: File,
}

impl Folder {
    /// Makes it, if it isn't there.
    ///
    /// # Errors
    /// If it can't be written, or another run holds it.
    pub fn open(path: &Path) -> anyhow::Result<Self> {
        std::fs::create_dir_all(path).with_context(|| format!("{}: can't be made", path.display()))?;
        let file = path.join(LOCK);
        let lock = File::create(&file).with_context(|| format!("{}: can't be made", file.display()))?;
        match lock.try_lock() {
            Ok(()) => Ok(Self { path: path.to_owned(), stale: true, _lock: lock }),
            Err(TryLockError::WouldBlock) => bail!(
                "{}: another run writes its report there; wait for its end, or give another folder with --out",
                path.display()
            ),
            Err(TryLockError::Error(error)) => {
                Err(error).with_context(|| format!("{}: can't be locked", file.display()))
            }
        }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn json(&self) -> PathBuf {
        self.path.join("report.json")
    }

    /// Writes the JSON. With the first one nothing is left that an earlier run wrote.
    pub fn write(&mut self, report: &Report) -> anyhow::Result<()> {
        // Found out first: what can't be written must cost no earlier report.
        let written = json::beside(&json::to_text(report)?, &self.json())?;
        if self.stale {
            self.remove(&FILES[1..])?;
        }
        json::put(written, &self.json())?;
        self.stale = false;
        Ok(())
    }

    /// Whatever comes next, nothing of an earlier run can be taken for its result.
    pub fn clear(&mut self) -> anyhow::Result<()> {
        self.remove(&FILES)?;
        self.stale = false;
        Ok(())
    }

    fn remove(&self, names: &[&str]) -> anyhow::Result<()> {
        for name in names {
            let file = self.path.join(name);
            match std::fs::remove_file(&file) {
                Err(error) if error.kind() != ErrorKind::NotFound => {
                    return Err(error)
                        .with_context(|| format!("{}: an earlier run's can't be removed", file.display()));
                }
                _ => {}
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;
    use crate::report::sample;

    #[test]
    fn an_earlier_report_stays_until_there_is_a_new_one() {
        let place = tempfile::tempdir().unwrap();
        for name in FILES.iter().chain(&["notes.txt"]) {
            std::fs::write(place.path().join(name), "of yesterday").unwrap();
        }
        let there = || {
            let entries = std::fs::read_dir(place.path()).unwrap();
            let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name()).collect();
            names.sort();
            names
        };
        let mut folder = Folder::open(place.path()).unwrap();
        assert_eq!(there().len(), FILES.len() + 2);
        // The second one must not remove what belongs to the first.
        for _ in 0..2 {
            folder.write(&sample::report()).unwrap();
            assert!(!there().contains(&"report.html".into()));
            std::fs::write(place.path().join("report.md"), "of today").unwrap();
        }
        assert_eq!(there(), [LOCK, "notes.txt", "report.json", "report.md"]);
        assert!(json::read(&folder.json()).is_ok());
    }

    #[test]
    fn a_second_run_is_refused_until_the_first_is_over() {
        let place = tempfile::tempdir().unwrap();
        let first = Folder::open(place.path()).unwrap();
        let error = Folder::open(place.path()).unwrap_err().to_string();
        assert!(error.contains("another run writes its report there"), "{error}");
        drop(first);
        // A process that another test starts holds what is open here until it runs its own program.
        let begun = Instant::now();
        while Folder::open(place.path()).is_err() {
            assert!(begun.elapsed() < Duration::from_secs(60), "it stays locked");
        }
    }
}
