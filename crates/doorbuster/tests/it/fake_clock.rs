//! A clock of its own for a process, by libfaketime.

use std::fs;
use std::path::{Path, PathBuf};

pub(crate) const DAY_AHEAD: &str = "+86400";
pub(crate) const RIGHT: &str = "+0";

/// A clock for a process, so many seconds from the machine's.
#[derive(Debug)]
pub(crate) struct FakeClock {
    file: PathBuf,
}

impl FakeClock {
    pub(crate) fn new(directory: &Path, seconds: &str) -> FakeClock {
        let clock = FakeClock { file: directory.join("clock") };
        clock.set(seconds);
        clock
    }

    /// Follows within a second.
    pub(crate) fn set(&self, seconds: &str) {
        // At once, or whoever reads it finds half of it.
        let new = self.file.with_extension("new");
        fs::write(&new, seconds).unwrap();
        fs::rename(new, &self.file).unwrap();
    }

    /// What makes a process go by it. What the process measures stays as it is. With libc's memory, for that of Redis asks
    /// for the time before there is one.
    pub(crate) fn environment(&self) -> [(&'static str, &str); 4] {
        [
            ("LD_PRELOAD", "/usr/$LIB/faketime/libfaketimeMT.so.1 libc.so.6"),
            ("FAKETIME_TIMESTAMP_FILE", self.file.to_str().unwrap()),
            ("FAKETIME_CACHE_DURATION", "1"),
            ("FAKETIME_DONT_FAKE_MONOTONIC", "1"),
        ]
    }
}
