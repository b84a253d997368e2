//! This machine: what it is, what runs on it, and what a measurement spent of it.

pub mod environment;
pub mod leftovers;
pub(crate) mod limit;
pub mod process;
pub mod procfs;
pub mod usage;

use std::path::Path;

use anyhow::{Context, ensure};

use crate::report::format::figure;

/// Asked before anything is written there; who needs how much is said to people.
pub(crate) fn ensure_free(folder: &Path, bytes: u64, needed: &str) -> anyhow::Result<()> {
    let disk = rustix::fs::statvfs(folder).context("asking for the room on the disk")?;
    let free = disk.f_bavail.saturating_mul(disk.f_frsize);
    let said = figure(free as f64, "bytes");
    ensure!(free >= bytes, "the disk of {} has {said} free, and {needed}", folder.display());
    Ok(())
}
