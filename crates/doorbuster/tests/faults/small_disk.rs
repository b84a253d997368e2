//! A MariaDB of its own whose data are on a file system that can be filled: a small one in memory.
//!
//! Mounting needs the rights of root, or `sudo` without a password. A process beside this one unmounts it, however
//! this one ends.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};

use tempfile::TempDir;

use crate::engines::Engines;

/// A new MariaDB has 126 MB of data.
const SIZE: &str = "200m";
/// What filling leaves, in bytes: some batches of orders.
const LEFT: u64 = 256 * 1024;

#[derive(Debug)]
pub(crate) struct SmallDisk {
    pub(crate) engines: Engines,
    guard: Child,
    guard_input: Option<ChildStdin>,
    dir: TempDir,
}

impl SmallDisk {
    pub(crate) fn with_mariadb() -> SmallDisk {
        let dir = tempfile::tempdir().unwrap();
        let script = r#"
            as_root=; [ "$(id -u)" = 0 ] || as_root="sudo -n"
            $as_root mount -t tmpfs -o size="$1",mode=777 tmpfs "$0" || exit 1
            echo mounted; cat; $as_root umount --lazy "$0""#;
        let mut guard = Command::new("setsid")
            .args(["bash", "-c", script])
            .arg(dir.path())
            .arg(SIZE)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(guard.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line.trim(), "mounted", "a small file system can't be mounted: it takes root, or sudo");
        // Its data are made on the large disk, with its log, which must tell what happened; then they move.
        let engines = Engines::private(&["mariadb"], &[]);
        engines.kill("mariadb");
        let data = engines.dir().join("mariadb/data");
        let moved = Command::new("cp").arg("-a").args([&data, &dir.path().join("data")]).status().unwrap();
        assert!(moved.success());
        fs::remove_dir_all(&data).unwrap();
        symlink(dir.path().join("data"), &data).unwrap();
        engines.up(&["mariadb"]);
        SmallDisk { engines, guard_input: guard.stdin.take(), guard, dir }
    }

    fn ballast(&self) -> PathBuf {
        self.dir.path().join("ballast")
    }

    /// Takes almost all that is free.
    pub(crate) fn fill(&self) {
        let free = rustix::fs::statvfs(self.dir.path()).unwrap();
        let bytes = (free.f_bavail * free.f_frsize).saturating_sub(LEFT);
        let done = Command::new("fallocate").args(["-l", &bytes.to_string()]).arg(self.ballast()).status();
        assert!(done.unwrap().success());
    }

    /// Whether MariaDB has met the end of its disk, by its log.
    pub(crate) fn was_met(&self) -> bool {
        let log = fs::read_to_string(self.engines.dir().join("mariadb/log")).unwrap();
        ["error 28", "Errcode: 28", "No space left", "is full"].iter().any(|text| log.contains(text))
    }

    /// Gives back what was taken, and starts MariaDB anew: it may have ended itself, and one that waits for room to
    /// go on with its binary log looks for it once a minute only.
    pub(crate) fn free(&self) {
        fs::remove_file(self.ballast()).unwrap();
        if self.engines.member("mariadb").runs() {
            self.engines.kill("mariadb");
        }
        self.engines.up(&["mariadb"]);
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        drop(self.guard_input.take());
        let ended = self.guard.wait();
        assert!(ended.is_ok() || std::thread::panicking(), "{ended:?}");
    }
}
