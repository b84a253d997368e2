//! A small file system in memory, which can be filled.
//!
//! Mounting needs the rights of root, or `sudo` without a password. A process beside this one unmounts it, however
//! this one ends.

use std::fs;
use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};

use tempfile::TempDir;

#[derive(Debug)]
pub(crate) struct SmallMount {
    guard: Child,
    guard_input: Option<ChildStdin>,
    dir: TempDir,
}

impl SmallMount {
    /// Of this size, as `mount` reads it.
    pub(crate) fn new(size: &str) -> SmallMount {
        let dir = tempfile::tempdir().unwrap();
        let script = r#"
            as_root=; [ "$(id -u)" = 0 ] || as_root="sudo -n"
            $as_root mount -t tmpfs -o size="$1",mode=777 tmpfs "$0" || exit 1
            echo mounted; cat; $as_root umount --lazy "$0""#;
        let mut guard = Command::new("setsid")
            .args(["bash", "-c", script])
            .arg(dir.path())
            .arg(size)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(guard.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line.trim(), "mounted", "a small file system can't be mounted: it takes root, or sudo");
        SmallMount { guard_input: guard.stdin.take(), guard, dir }
    }

    pub(crate) fn path(&self) -> &Path {
        self.dir.path()
    }

    fn ballast(&self) -> PathBuf {
        self.dir.path().join("ballast")
    }

    /// Takes what is free but for so many bytes; others write meanwhile.
    pub(crate) fn fill(&self, left: u64) {
        let mut ballast = fs::File::create(self.ballast()).unwrap();
        let free = rustix::fs::statvfs(self.dir.path()).unwrap();
        let mut to_take = (free.f_bavail * free.f_frsize).saturating_sub(left);
        let zeros = vec![0; 1 << 20];
        while to_take > 0 {
            let chunk = &zeros[..zeros.len().min(usize::try_from(to_take).unwrap())];
            match ballast.write(chunk) {
                Ok(written) => to_take -= written as u64,
                Err(error) if error.kind() == ErrorKind::StorageFull => break,
                Err(error) => panic!("{error}"),
            }
        }
    }

    /// Gives back what was taken.
    pub(crate) fn free(&self) {
        fs::remove_file(self.ballast()).unwrap();
    }
}

impl Drop for SmallMount {
    fn drop(&mut self) {
        drop(self.guard_input.take());
        let ended = self.guard.wait();
        assert!(ended.is_ok() || std::thread::panicking(), "{ended:?}");
    }
}
