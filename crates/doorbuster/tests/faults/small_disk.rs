//! A MariaDB or a broker of its own whose data are on a file system that can be filled: a small one in memory.
//!
//! Mounting needs the rights of root, or `sudo` without a password. A process beside this one unmounts it, however
//! this one ends.

use std::fs;
use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::engines::Engines;

const MET_WITHIN: Duration = Duration::from_secs(60);

/// Whose disk it is.
#[derive(Debug)]
pub(crate) struct Owner {
    /// To start, and the member of it that has the data, in this folder.
    engine: &'static str,
    member: &'static str,
    data: &'static str,
    size: &'static str,
    /// What filling leaves, in bytes.
    left: u64,
    /// What its log says when it has met the end of its disk, if it says that reliably.
    met: &'static [&'static str],
}

/// A new one has 126 MB of data. What is left takes some batches of orders.
pub(crate) const MARIADB: Owner = Owner {
    engine: "mariadb",
    member: "mariadb",
    data: "data",
    size: "200m",
    left: 256 * 1024,
    met: &["error 28", "Errcode: 28", "No space left", "is full"],
};

/// Its files are maps with holes: what is missing is found out when it writes to memory. Or a server looks at its disk
/// first, and sends it nothing more: then it reports nothing.
pub(crate) const BROKER: Owner =
    Owner { engine: "rocketmq", member: "rocketmq-broker", data: "store", size: "800m", left: 0, met: &[] };

#[derive(Debug)]
pub(crate) struct SmallDisk {
    owner: &'static Owner,
    pub(crate) engines: Engines,
    guard: Child,
    guard_input: Option<ChildStdin>,
    dir: TempDir,
}

impl SmallDisk {
    pub(crate) fn of(owner: &'static Owner) -> SmallDisk {
        let dir = tempfile::tempdir().unwrap();
        let script = r#"
            as_root=; [ "$(id -u)" = 0 ] || as_root="sudo -n"
            $as_root mount -t tmpfs -o size="$1",mode=777 tmpfs "$0" || exit 1
            echo mounted; cat; $as_root umount --lazy "$0""#;
        let mut guard = Command::new("setsid")
            .args(["bash", "-c", script])
            .arg(dir.path())
            .arg(owner.size)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(guard.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line.trim(), "mounted", "a small file system can't be mounted: it takes root, or sudo");
        // Its data are made on the large disk, with its log, which must show what happened; then they move.
        let engines = Engines::private(&[owner.engine], &[("DOORBUSTER_ROCKETMQ_OPTIONS", "")]);
        engines.kill(owner.member);
        let data = engines.dir().join(owner.member).join(owner.data);
        let copy = ["-a", "--sparse=always"];
        let moved = Command::new("cp").args(copy).args([&data, &dir.path().join("data")]).status().unwrap();
        assert!(moved.success());
        fs::remove_dir_all(&data).unwrap();
        symlink(dir.path().join("data"), &data).unwrap();
        engines.up(&[owner.engine]);
        SmallDisk { owner, engines, guard_input: guard.stdin.take(), guard, dir }
    }

    /// Of a member of this engine, if it is the owner's.
    pub(crate) fn address(&self, engine: &str, member: &str) -> Option<String> {
        (self.owner.engine == engine).then(|| self.engines.address(member))
    }

    fn ballast(&self) -> PathBuf {
        self.dir.path().join("ballast")
    }

    /// Takes what is free but for what shall be left; the owner writes meanwhile.
    pub(crate) fn fill(&self) {
        let free = rustix::fs::statvfs(self.dir.path()).unwrap();
        let mut left = (free.f_bavail * free.f_frsize).saturating_sub(self.owner.left);
        let mut ballast = fs::File::create(self.ballast()).unwrap();
        let zeros = vec![0; 1 << 20];
        while left > 0 {
            let chunk = &zeros[..zeros.len().min(usize::try_from(left).unwrap())];
            match ballast.write(chunk) {
                Ok(written) => left -= written as u64,
                Err(error) if error.kind() == ErrorKind::StorageFull => break,
                Err(error) => panic!("{error}"),
            }
        }
    }

    /// Until the owner has met the end of its disk.
    pub(crate) fn wait_until_met(&self) {
        let began = Instant::now();
        while !self.was_met() {
            assert!(began.elapsed() < MET_WITHIN, "nothing was written");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// By its log.
    fn was_met(&self) -> bool {
        let log = fs::read_to_string(self.engines.dir().join(self.owner.member).join("log")).unwrap();
        self.owner.met.iter().any(|text| log.contains(text))
    }

    /// Gives back what was taken.
    pub(crate) fn free(&self) {
        fs::remove_file(self.ballast()).unwrap();
    }

    /// Kills the owner, if it has not ended itself, and starts it anew.
    pub(crate) fn restart(&self) {
        if self.engines.member(self.owner.member).runs() {
            self.engines.kill(self.owner.member);
        }
        self.engines.up(&[self.owner.engine]);
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        drop(self.guard_input.take());
        let ended = self.guard.wait();
        assert!(ended.is_ok() || std::thread::panicking(), "{ended:?}");
    }
}
