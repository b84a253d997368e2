//! Where a measurement was made: a figure without it means nothing.

use std::fs::read_to_string;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::nginx;

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Environment {
    pub processor: String,
    pub processors: usize,
    pub memory_mib: u64,
    pub kernel: String,
    pub nginx: String,
    /// Type and device of the file system that holds the data directories: `ext4 on /dev/sda1`. On `tmpfs` a sync
    /// costs nothing.
    pub file_system: String,
    /// Load average over the last minute before the start: others' work on this machine is noise in the figures.
    pub load_before: String,
    /// Generator, server and reference share this machine's processors.
    pub co_located: bool,
}

impl Environment {
    /// What can't be read is said to be unknown: it is no reason not to measure.
    pub fn read(data: &Path) -> Self {
        let unknown = || "unknown".to_owned();
        Self {
            processor: value_of("/proc/cpuinfo", "model name").unwrap_or_else(unknown),
            processors: std::thread::available_parallelism().map_or(0, usize::from),
            memory_mib: value_of("/proc/meminfo", "MemTotal")
                .and_then(|value| value.split(' ').next()?.parse::<u64>().ok())
                .map_or(0, |kib| kib / 1024),
            kernel: read_to_string("/proc/sys/kernel/osrelease")
                .map_or_else(|_| unknown(), |text| text.trim().into()),
            nginx: nginx::version(),
            file_system: file_system(data).unwrap_or_else(unknown),
            load_before: read_to_string("/proc/loadavg")
                .ok()
                .and_then(|text| Some(text.split(' ').next()?.to_owned()))
                .unwrap_or_else(unknown),
            co_located: true,
        }
    }
}

fn value_of(path: &str, name: &str) -> Option<String> {
    let text = read_to_string(path).ok()?;
    let line = text.lines().find(|line| line.starts_with(name))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

/// The block device of the file system below `data`, as `/proc/diskstats` calls it; `None` where there is none.
pub(crate) fn disk(data: &Path) -> Option<String> {
    let file_system = file_system(data)?;
    let (_, device) = file_system.rsplit_once(" on /dev/")?;
    Some(device.to_owned())
}

/// The mount with the longest path that `data` lies below.
fn file_system(data: &Path) -> Option<String> {
    let data = data.canonicalize().ok()?;
    let mounts = read_to_string("/proc/mounts").ok()?;
    let mount = mounts
        .lines()
        .filter_map(|line| {
            let mut words = line.split(' ');
            Some((words.next()?, words.next()?, words.next()?))
        })
        .filter(|(_, point, _)| data.starts_with(point))
        .max_by_key(|(_, point, _)| point.len())?;
    Some(format!("{} on {}", mount.2, mount.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_is_described() {
        let environment = Environment::read(Path::new("/"));
        assert!(environment.processors > 0 && environment.memory_mib > 0, "{environment:?}");
        assert!(environment.nginx.starts_with("nginx/"), "{environment:?}");
        assert!(environment.file_system.contains(" on "), "{environment:?}");
        assert!(environment.load_before.parse::<f64>().is_ok(), "{environment:?}");
    }
}
