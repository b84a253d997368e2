//! What the system says of the machine and of this process. `None` where it does not say.

use std::fs;
use std::path::{Path, PathBuf};

/// What is free on a disk, and all of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Disk {
    pub free_bytes: u64,
    pub bytes: u64,
}

impl Disk {
    pub(super) fn of(dir: &Path) -> Option<Disk> {
        let disk = rustix::fs::statvfs(dir).ok()?;
        let bytes = |blocks: u64| blocks.saturating_mul(disk.f_frsize);
        // What the system keeps for its administrator is not free for us.
        Some(Disk { free_bytes: bytes(disk.f_bavail), bytes: bytes(disk.f_blocks) })
    }
}

/// Clock ticks of all processors since the machine's start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Ticks {
    all: u64,
    idle: u64,
}

impl Ticks {
    /// The first line of `/proc/stat`: user, nice, system, idle, iowait, irq, softirq, steal; what follows is counted in those.
    fn read(stat: &str) -> Option<Ticks> {
        let line = stat.lines().next()?.strip_prefix("cpu ")?;
        let ticks: Option<Vec<u64>> =
            line.split_ascii_whitespace().take(8).map(|number| number.parse().ok()).collect();
        let ticks = ticks.filter(|ticks| ticks.len() >= 5)?;
        Some(Ticks { all: ticks.iter().sum(), idle: ticks[3] + ticks[4] })
    }

    /// The part of all processors that worked since then, from 0 to 1.
    fn busy_since(self, before: Ticks) -> Option<f64> {
        let all = self.all.checked_sub(before.all).filter(|all| *all > 0)?;
        let idle = self.idle.saturating_sub(before.idle).min(all);
        #[expect(clippy::cast_precision_loss, reason = "ticks of a second or so")]
        Some((all - idle) as f64 / all as f64)
    }
}

/// `VmRSS:     1234 kB` of `/proc/self/status`.
fn memory_bytes(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct HostFigures {
    pub memory_bytes: Option<u64>,
    /// Since the look before, from 0 to 1.
    pub processors_busy: Option<f64>,
    pub disk: Option<Disk>,
    /// With its WAL.
    pub ledger_bytes: Option<u64>,
}

/// Looks at the machine.
#[derive(Debug)]
pub(super) struct Host {
    data_dir: Option<PathBuf>,
    /// The ledger's file and its WAL.
    ledger: Option<[PathBuf; 2]>,
    /// Where its processors' ticks are.
    stat: &'static str,
    ticks: Option<Ticks>,
}

impl Host {
    pub(super) fn new(data_dir: Option<PathBuf>, ledger: Option<PathBuf>) -> Host {
        let with_wal = |ledger: PathBuf| {
            let mut wal = ledger.clone().into_os_string();
            wal.push("-wal");
            [ledger, wal.into()]
        };
        Host { data_dir, ledger: ledger.map(with_wal), stat: "/proc/stat", ticks: None }
    }

    /// For tests of what does not depend on how busy their machine is.
    #[cfg(test)]
    pub(super) fn without_processors(self) -> Host {
        Host { stat: "", ticks: None, ..self }
    }

    pub(super) fn look(&mut self) -> HostFigures {
        let ticks = fs::read_to_string(self.stat).ok().and_then(|stat| Ticks::read(&stat));
        let before = std::mem::replace(&mut self.ticks, ticks);
        let length = |path: &PathBuf| fs::metadata(path).map(|file| file.len()).ok();
        HostFigures {
            memory_bytes: fs::read_to_string("/proc/self/status")
                .ok()
                .and_then(|status| memory_bytes(&status)),
            processors_busy: ticks.zip(before).and_then(|(now, before)| now.busy_since(before)),
            disk: self.data_dir.as_deref().and_then(Disk::of),
            ledger_bytes: self
                .ledger
                .as_ref()
                .and_then(|[ledger, wal]| Some(length(ledger)? + length(wal).unwrap_or(0))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processors_are_busy_when_they_neither_idle_nor_wait() {
        let ticks = |line: &str| Ticks::read(line);
        let before = ticks("cpu  100 0 50 800 50 0 0 0 0 0\ncpu0 1 2").unwrap();
        let now = ticks("cpu  130 0 60 840 60 5 5 0 0 0\n").unwrap();
        assert_eq!(now.busy_since(before), Some(0.5));
        assert_eq!(before.busy_since(before), None, "no tick has passed");
        assert_eq!(before.busy_since(now), None, "they never fall");
        for line in ["", "cpu0 1 2 3 4 5", "cpu  1 2 3", "cpu  1 2 x 4 5"] {
            assert_eq!(ticks(line), None, "{line}");
        }
    }

    #[test]
    fn the_memory_is_what_is_resident() {
        assert_eq!(memory_bytes("Name:\tx\nVmRSS:\t    1234 kB\nRssAnon: 1 kB\n"), Some(1234 * 1024));
        assert_eq!(memory_bytes("Name:\tx\n"), None);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn this_machine_is_looked_at() {
        let dir = tempfile::tempdir().unwrap();
        let ledger = dir.path().join("ledger.db");
        fs::write(&ledger, [0; 1000]).unwrap();
        fs::write(dir.path().join("ledger.db-wal"), [0; 500]).unwrap();
        let mut host = Host::new(Some(dir.path().to_owned()), Some(ledger));
        let found = host.look();
        assert_eq!((found.ledger_bytes, found.processors_busy), (Some(1500), None), "{found:?}");
        assert!(found.memory_bytes > Some(100_000), "{found:?}");
        let disk = found.disk.unwrap();
        assert!(disk.bytes > 0 && disk.free_bytes <= disk.bytes, "{disk:?}");
        assert_eq!(Host::new(None, None).look().disk, None);
    }
}
