//! Where a measurement was made: a figure without it means nothing.
//!
//! Read once, before the first request. What an engine says of itself is not here: see `report::model::EngineSettings`.

use std::fs::read_to_string;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::UNIX_EPOCH;

use procfs::{CpuInfo, Current, LoadAverage, Meminfo, mounts};
use rustix::system::uname;
use serde::{Deserialize, Serialize};

use crate::load::rank;
use crate::target::nginx;

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Environment {
    pub processor: String,
    pub processors: usize,
    pub memory_mib: u64,
    #[serde(default)]
    pub swap_mib: u64,
    /// Who sets the processors' frequency: `performance`, `none` in most virtual machines.
    #[serde(default)]
    pub governor: String,
    /// Processors that the cgroups above this process allow, the least of them; `None` without a limit.
    #[serde(default)]
    pub cgroup_processors: Option<f64>,
    #[serde(default)]
    pub cgroup_memory_mib: Option<u64>,
    pub kernel: String,
    pub nginx: String,
    /// Type and device of the file system that holds the data directories: `ext4 on /dev/sda1`. On `tmpfs` a sync
    /// costs nothing.
    pub file_system: String,
    /// Load average over the last minute before the start: others' work on this machine is noise in the figures.
    pub load_before: String,
    /// Generator, server and reference share this machine's processors.
    pub co_located: bool,
    /// Whether the generator outranks what it measures. Empty in older reports, which do not have it.
    #[serde(default)]
    pub generator: String,
    /// [`DEBUG`] or `release`: of this program, which is what is measured with, and as a server of ours what is measured.
    /// Empty in older reports, which do not have it.
    #[serde(default)]
    pub build: String,
}

/// A build whose figures say nothing.
pub const DEBUG: &str = "debug";

impl Environment {
    /// What can't be read is said to be unknown: it is no reason not to measure.
    pub fn read(data: &Path) -> Self {
        let unknown = || "unknown".to_owned();
        let memory = Meminfo::current().ok();
        let model = |of: CpuInfo| of.model_name(0).map(str::to_owned);
        Self {
            processor: CpuInfo::current().ok().and_then(model).unwrap_or_else(unknown),
            processors: std::thread::available_parallelism().map_or(0, usize::from),
            memory_mib: memory.as_ref().map_or(0, |of| of.mem_total >> 20),
            swap_mib: memory.as_ref().map_or(0, |of| of.swap_total >> 20),
            governor: first_line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")
                .unwrap_or_else(|| "none".to_owned()),
            cgroup_processors: least(cgroup_files("cpu.max").filter_map(|text| processors_of(&text))),
            cgroup_memory_mib: cgroup_files("memory.max").filter_map(|text| memory_mib_of(&text)).min(),
            kernel: uname().release().to_string_lossy().into_owned(),
            nginx: nginx::version(),
            file_system: file_system(data).unwrap_or_else(unknown),
            load_before: LoadAverage::current().map_or_else(|_| unknown(), |of| format!("{:.2}", of.one)),
            build: if cfg!(debug_assertions) { DEBUG } else { "release" }.to_owned(),
            co_located: true,
            generator: rank::said(),
        }
    }

    /// `2 processors, 4096 MiB`, `none`.
    pub fn cgroup_limits(&self) -> String {
        let processors = self.cgroup_processors.map(|processors| format!("{processors} processors"));
        let memory = self.cgroup_memory_mib.map(|mib| format!("{mib} MiB"));
        let limits: Vec<String> = processors.into_iter().chain(memory).collect();
        if limits.is_empty() { "none".to_owned() } else { limits.join(", ") }
    }
}

/// Of the repository that this program lies in.
pub fn own_revision() -> Option<String> {
    git_revision(&std::env::current_exe().ok()?)
}

/// The revision of the repository that a program lies in; `-dirty` if files in it were changed, and [`STALE`] if the
/// program is older than the revision, so that it can't be built of it. `None` outside of a repository, or without git.
fn git_revision(program: &Path) -> Option<String> {
    let folder = program.parent()?;
    let git = |arguments: &[&str]| {
        let output = Command::new("git").arg("-C").arg(folder).args(arguments).output().ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let revision = git(&["rev-parse", "HEAD"])?;
    let changed = git(&["status", "--porcelain", "--untracked-files=no"]).is_none_or(|list| !list.is_empty());
    let dirty = if changed { "-dirty" } else { "" };
    let committed: u64 = git(&["log", "-1", "--format=%ct"])?.parse().ok()?;
    let built = std::fs::metadata(program).ok()?.modified().ok()?.duration_since(UNIX_EPOCH).ok()?.as_secs();
    let stale = if built < committed { STALE } else { "" };
    Some(format!("{revision}{dirty}{stale}"))
}

const STALE: &str = "-newer-than-the-program";

fn first_line(path: &str) -> Option<String> {
    Some(read_to_string(path).ok()?.lines().next()?.trim().to_owned())
}

/// The files of this name in this process's cgroup and in all above it: the narrowest of their limits holds. Both
/// versions of cgroups are looked at; version 1 calls its files otherwise and has none of these.
fn cgroup_files(name: &'static str) -> impl Iterator<Item = String> {
    let own = read_to_string("/proc/self/cgroup").unwrap_or_default();
    let own = own.lines().find_map(|line| line.strip_prefix("0::/")).unwrap_or_default().to_owned();
    let root = Path::new("/sys/fs/cgroup");
    let folders: Vec<PathBuf> =
        root.join(own).ancestors().take_while(|of| of.starts_with(root)).map(Path::to_owned).collect();
    folders.into_iter().filter_map(move |folder| read_to_string(folder.join(name)).ok())
}

/// `150000 100000` is one and a half; `max 100000` is no limit.
fn processors_of(cpu_max: &str) -> Option<f64> {
    let mut words = cpu_max.split_whitespace();
    let quota: f64 = words.next()?.parse().ok()?;
    let period: f64 = words.next()?.parse().ok()?;
    (period > 0.0).then_some(quota / period)
}

fn memory_mib_of(memory_max: &str) -> Option<u64> {
    memory_max.trim().parse::<u64>().ok().map(|bytes| bytes >> 20)
}

fn least(values: impl Iterator<Item = f64>) -> Option<f64> {
    values.min_by(f64::total_cmp)
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
    let mounts = mounts().ok()?.into_iter().filter(|mount| data.starts_with(&mount.fs_file));
    let mount = mounts.max_by_key(|mount| mount.fs_file.len())?;
    Some(format!("{} on {}", mount.fs_vfstype, mount.fs_spec))
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::time::Duration;

    use super::*;

    #[test]
    fn this_machine_is_described() {
        let environment = Environment::read(Path::new("/"));
        assert!(environment.processors > 0 && environment.memory_mib > 0, "{environment:?}");
        assert!(environment.nginx.starts_with("nginx/"), "{environment:?}");
        assert!(environment.file_system.contains(" on "), "{environment:?}");
        assert!(environment.load_before.parse::<f64>().is_ok(), "{environment:?}");
    }

    #[test]
    fn limits_of_cgroups_are_read() {
        assert_eq!(processors_of("150000 100000\n"), Some(1.5));
        assert_eq!(processors_of("max 100000\n"), None);
        assert_eq!(memory_mib_of("4294967296\n"), Some(4096));
        assert_eq!(memory_mib_of("max\n"), None);
        assert_eq!(least([2.0, 0.5, 1.0].into_iter()), Some(0.5));
    }

    #[test]
    fn the_revision_of_a_program_says_whether_it_can_be_its_own() {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("program");
        std::fs::write(&program, "").unwrap();
        assert_eq!(git_revision(&program), None);
        let git = |arguments: &[&str]| {
            let identity =
                ["-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false"];
            let mut command = Command::new("git");
            command.arg("-C").arg(folder.path()).args(identity).args(arguments);
            assert!(command.output().unwrap().status.success(), "{arguments:?}");
        };
        git(&["init", "--quiet"]);
        std::fs::write(folder.path().join("file"), "1").unwrap();
        git(&["add", "file"]);
        git(&["-c", "core.hooksPath=/dev/null", "commit", "--quiet", "-m", "first"]);
        let built = |time| File::options().write(true).open(&program).unwrap().set_modified(time).unwrap();
        let committed = folder.path().join(".git/HEAD").metadata().unwrap().modified().unwrap();
        built(committed + Duration::from_secs(60));
        let clean = git_revision(&program).unwrap();
        assert_eq!(clean.len(), 40, "{clean}");
        std::fs::write(folder.path().join("file"), "2").unwrap();
        assert_eq!(git_revision(&program).unwrap(), format!("{clean}-dirty"));
        built(committed - Duration::from_secs(60));
        assert_eq!(git_revision(&program).unwrap(), format!("{clean}-dirty-newer-than-the-program"));
    }
}
