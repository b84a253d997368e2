//! A real Redis or Valkey with a clock that stands still until it is set (libfaketime), behind a socket of its own.

use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use simulation::gate::Dialect;

use crate::engines::Engines;

/// How long it may take to start.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long it may take to answer. Only a test that fails waits for it.
const ANSWERED_WITHIN: Duration = Duration::from_secs(10);

#[derive(Debug)]
pub(crate) struct Engine {
    dir: tempfile::TempDir,
    socket: UnixStream,
    child: Child,
}

fn program(dialect: Dialect) -> PathBuf {
    match dialect {
        Dialect::Redis => "redis-server".into(),
        // As `dev/up valkey` fetches and runs it.
        Dialect::Valkey => {
            let pid = Engines::shared(&["valkey"]).member("valkey").pid;
            fs::read_link(format!("/proc/{pid}/exe")).unwrap()
        }
    }
}

impl Engine {
    pub(crate) fn start(dialect: Dialect) -> Engine {
        let dir = tempfile::tempdir().unwrap();
        set_clock(dir.path(), 0);
        let path = dir.path().join("socket");
        let child = Command::new(program(dialect))
            .args(["--port", "0", "--save", "", "--appendonly", "no", "--maxmemory-policy", "noeviction"])
            .arg("--unixsocket")
            .arg(&path)
            .arg("--dir")
            .arg(dir.path())
            // With libc's memory, for that of Redis asks for the time before there is one. What it measures stays as it is.
            .env("LD_PRELOAD", "/usr/$LIB/faketime/libfaketimeMT.so.1 libc.so.6")
            .env("FAKETIME_TIMESTAMP_FILE", clock(dir.path()))
            .env("FAKETIME_NO_CACHE", "1")
            .env("FAKETIME_FMT", "%s")
            .env("FAKETIME_DONT_FAKE_MONOTONIC", "1")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("the engines and faketime are installed (dev/install-test-packages)");
        let started = Instant::now();
        let socket = loop {
            match UnixStream::connect(&path) {
                Ok(socket) => break socket,
                Err(error) => assert!(started.elapsed() < PATIENCE, "{dialect:?} does not start: {error}"),
            }
            std::thread::sleep(Duration::from_millis(5));
        };
        socket.set_read_timeout(Some(ANSWERED_WITHIN)).unwrap();
        Engine { dir, socket, child }
    }

    /// From now on it is this late: microseconds since 1970, one of which may be lost on the way.
    pub(crate) fn set_clock(&self, now_us: u64) {
        set_clock(self.dir.path(), now_us);
    }

    pub(crate) fn send(&mut self, packed: &[u8]) {
        self.socket.write_all(packed).unwrap();
    }

    /// So many bytes of a reply, or fewer if no more come.
    pub(crate) fn receive(&mut self, len: usize) -> Vec<u8> {
        let mut reply = Vec::new();
        match (&self.socket).take(len as u64).read_to_end(&mut reply) {
            Ok(_) => {}
            Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock, "the engine has gone"),
        }
        reply
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        // It may be dead already.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

fn clock(dir: &Path) -> PathBuf {
    dir.join("clock")
}

/// At once, or whoever reads it finds half of it.
fn set_clock(dir: &Path, now_us: u64) {
    let new = dir.join("clock.new");
    fs::write(&new, format!("{}.{:06}", now_us / 1_000_000, now_us % 1_000_000)).unwrap();
    fs::rename(new, clock(dir)).unwrap();
}
