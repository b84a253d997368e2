//! The real Redis, MariaDB and RocketMQ for tests, started by `dev/up` with data and ports of their own.
//!
//! [`Engines::shared`] is one set per test process: for tests that leave the engines running, and use topics,
//! key prefixes and databases of their own. [`Engines::private`] is for tests that kill and freeze engines.
//! Either is stopped and wiped when it is dropped or when the test process ends, in whatever way: a small process
//! beside it waits for that. A set that does not start fails the test.

use std::fs::{self, File, TryLockError};
use std::net::TcpListener;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

/// Below the range from which the system takes ports for outgoing connections.
const PORTS: Range<u16> = 22_000..32_000;
/// A broker refuses by default what has waited in its line for 200 ms, and all when a write took a second: on a busy
/// machine that is any message, and these tests are not about it. A set may have the broker as it is by default.
const PATIENT_BROKER: (&str, &str) =
    ("DOORBUSTER_ROCKETMQ_OPTIONS", "brokerFastFailureEnable=false osPageCacheBusyTimeOutMills=10000");
/// Ports that a set gets; `dev/engines.sh` uses fewer.
const PORTS_PER_SET: u16 = 100;
const GONE_WITHIN: Duration = Duration::from_secs(10);
const FROZEN_WITHIN: Duration = Duration::from_secs(10);
/// Of each log, when a test has failed.
const LOG_LINES_PRINTED: usize = 12;

/// One process of a set, as `dev/up` printed it.
#[derive(Clone, Debug)]
pub(crate) struct Member {
    pub(crate) name: String,
    /// Host and port.
    pub(crate) address: String,
    pub(crate) pid: u32,
}

#[derive(Debug)]
pub(crate) struct Engines {
    dir: PathBuf,
    port_base: u16,
    settings: Mutex<Vec<(String, String)>>,
    members: Mutex<Vec<Member>>,
    /// Held until the set is gone, so that no other test process takes the same ports.
    _ports: File,
    /// Its standard input ends with this process, however that ends: then it stops and wipes the set.
    guard: Child,
    guard_input: Option<ChildStdin>,
}

impl Engines {
    /// The set that the tests of this process share, with at least these engines running in it.
    pub(crate) fn shared(names: &[&str]) -> &'static Engines {
        static SHARED: OnceLock<Engines> = OnceLock::new();
        let engines = SHARED.get_or_init(|| Engines::prepare(&[]));
        engines.up(names);
        engines
    }

    /// A set that nobody else uses. Settings are the environment variables that `dev/up` names.
    pub(crate) fn private(names: &[&str], settings: &[(&str, &str)]) -> Engines {
        let engines = Engines::prepare(settings);
        engines.up(names);
        engines
    }

    fn prepare(settings: &[(&str, &str)]) -> Engines {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let dir = PathBuf::from(env!("CARGO_TARGET_TMPDIR"))
            .join(format!("engines-{}-{count}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        let (ports, lock) = free_ports();
        // Ctrl-C ends the whole process group of a terminal: the guard must outlive it.
        let mut guard = Command::new("setsid")
            .args(["bash", "-c", r#"cat; "$0/dev/down" --wipe 2>&1; rm -rf "$DOORBUSTER_DEV_DIR""#])
            .arg(repository())
            .env("DOORBUSTER_DEV_DIR", &dir)
            .env("DOORBUSTER_DEV_PORT_BASE", ports.start.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        Engines {
            dir,
            port_base: ports.start,
            // Of two settings of one name the last one counts.
            settings: Mutex::new(
                [&[PATIENT_BROKER], settings]
                    .concat()
                    .iter()
                    .map(|&(name, value)| (name.into(), value.into()))
                    .collect(),
            ),
            members: Mutex::default(),
            _ports: lock,
            guard_input: guard.stdin.take(),
            guard,
        }
    }

    /// Starts engines or single members, or those that were killed again on their old data, and waits until they
    /// serve. What runs already is left alone.
    pub(crate) fn up(&self, names: &[&str]) {
        let mut members = self.members.lock().unwrap_or_else(PoisonError::into_inner);
        let all_run = |name: &&str| {
            let mut parts = members.iter().filter(|member| member.belongs_to(name)).peekable();
            parts.peek().is_some() && parts.all(Member::runs)
        };
        if names.iter().all(all_run) {
            return;
        }
        let output = self.script("up").args(names).output().unwrap();
        let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "dev/up {names:?} failed:\n{out}{err}");
        for line in out.lines() {
            let fields: Vec<&str> = line.split_whitespace().collect();
            let [name, address, pid] = fields[..] else { panic!("dev/up printed {line:?}") };
            let pid = pid.parse().unwrap();
            members.retain(|member| member.name != name);
            members.push(Member { name: name.into(), address: address.into(), pid });
        }
    }

    /// One of `dev/` for this set, with its settings.
    pub(crate) fn script(&self, name: &str) -> Command {
        let mut command = Command::new(repository().join("dev").join(name));
        command.envs(self.settings.lock().unwrap_or_else(PoisonError::into_inner).clone());
        command.env("DOORBUSTER_DEV_DIR", &self.dir);
        command.env("DOORBUSTER_DEV_PORT_BASE", self.port_base.to_string());
        command.stdin(Stdio::null());
        command
    }

    /// A setting of `dev/up` for what is started after this.
    pub(crate) fn set(&self, name: &str, value: &str) {
        let mut settings = self.settings.lock().unwrap_or_else(PoisonError::into_inner);
        settings.retain(|(known, _)| known != name);
        settings.push((name.into(), value.into()));
    }

    /// Has a folder for each member.
    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    pub(crate) fn member(&self, name: &str) -> Member {
        let members = self.members.lock().unwrap_or_else(PoisonError::into_inner);
        members
            .iter()
            .find(|member| member.name == name)
            .unwrap_or_else(|| panic!("no {name} was started"))
            .clone()
    }

    /// Host and port.
    pub(crate) fn address(&self, name: &str) -> String {
        self.member(name).address
    }

    /// SIGKILL, and waits until it is gone.
    pub(crate) fn kill(&self, name: &str) {
        let member = self.member(name);
        member.signal(Signal::KILL);
        let deadline = Instant::now() + GONE_WITHIN;
        while member.runs() {
            assert!(Instant::now() < deadline, "{name} survives SIGKILL");
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// SIGSTOP: its connections stay open, and nobody answers.
    pub(crate) fn freeze(&self, name: &str) {
        freeze(self.member(name).pid);
    }

    pub(crate) fn thaw(&self, name: &str) {
        self.member(name).signal(Signal::CONT);
    }
}

impl Engines {
    /// For whoever reads why a test failed, before it is wiped: what each does, and the ends of its logs.
    fn print(&self) {
        for Member { name, pid, .. } in self.members.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            let state = stat.rsplit_once(") ").map_or("gone", |(_, fields)| &fields[..1]);
            eprintln!("{name}, process {pid}, state {state}");
            for log in ["log", "home/logs/rocketmqlogs/broker.log"] {
                let text = fs::read(self.dir.join(name).join(log)).unwrap_or_default();
                let text = String::from_utf8_lossy(&text);
                let lines: Vec<_> = text.lines().collect();
                let last = &lines[lines.len().saturating_sub(LOG_LINES_PRINTED)..];
                last.iter().for_each(|line| eprintln!("  | {line}"));
            }
        }
    }
}

impl Drop for Engines {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.print();
        }
        drop(self.guard_input.take());
        // A guard that failed leaves processes behind; a drop during a panic must not hide the panic.
        let ended = self.guard.wait();
        assert!(ended.is_ok() || std::thread::panicking(), "{ended:?}");
    }
}

impl Member {
    fn belongs_to(&self, name: &str) -> bool {
        self.name == name
            || self.name.strip_prefix(name).is_some_and(|rest| rest.starts_with('-') && name != "redis")
    }

    fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(self.pid.cast_signed()).unwrap();
        kill_process(pid, signal).unwrap_or_else(|error| panic!("{signal:?} to {self:?}: {error}"));
    }

    /// Whether any of its threads is left, and with it its sockets. What nobody waits for stays as one dead thread.
    pub(crate) fn runs(&self) -> bool {
        let Ok(threads) = fs::read_dir(format!("/proc/{}/task", self.pid)) else { return false };
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.pid)).unwrap_or_default();
        // The state follows the name, which is in brackets.
        let is_dead = stat.rsplit_once(") ").is_none_or(|(_, fields)| fields.starts_with(['Z', 'X']));
        !is_dead || threads.count() > 1
    }
}

fn repository() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// SIGSTOP, and waits until none of its threads runs: the others go on until one has taken the signal.
pub(crate) fn freeze(pid: u32) {
    kill_process(Pid::from_raw(pid.cast_signed()).unwrap(), Signal::STOP).unwrap();
    let deadline = Instant::now() + FROZEN_WITHIN;
    let is_stopped = |thread: PathBuf| {
        // A thread that ended meanwhile does not run.
        let Ok(stat) = fs::read_to_string(thread.join("stat")) else { return true };
        stat.rsplit_once(") ").is_some_and(|(_, fields)| fields.starts_with(['T', 't', 'Z', 'X']))
    };
    while !fs::read_dir(format!("/proc/{pid}/task")).unwrap().all(|thread| is_stopped(thread.unwrap().path()))
    {
        assert!(Instant::now() < deadline, "process {pid} runs on after SIGSTOP");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Ports that no other test process has, and the lock on them; nothing else listens there either.
pub(crate) fn free_ports() -> (Range<u16>, File) {
    let locks = std::env::temp_dir().join("doorbuster-test-ports");
    fs::create_dir_all(&locks).unwrap();
    for base in PORTS.step_by(PORTS_PER_SET.into()) {
        let lock = File::create(locks.join(base.to_string())).unwrap();
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => continue,
            Err(TryLockError::Error(error)) => panic!("{error}"),
        }
        let ports = base..base + PORTS_PER_SET;
        if ports.clone().all(|port| TcpListener::bind(("127.0.0.1", port)).is_ok()) {
            return (ports, lock);
        }
    }
    panic!("no free ports from {PORTS:?}");
}

#[test]
fn a_private_set_starts_survives_a_kill_and_leaves_nothing() {
    let engines = Engines::private(&["redis"], &[]);
    let first = engines.member("redis");
    assert!(first.runs());
    engines.freeze("redis");
    engines.thaw("redis");
    engines.kill("redis");
    assert!(!first.runs());
    engines.set("DOORBUSTER_REDIS_MAXMEMORY", "64mb");
    engines.up(&["redis"]);
    let second = engines.member("redis");
    assert!(second.runs());
    assert_eq!(first.address, engines.address("redis"));
    let dir = engines.dir().to_owned();
    drop(engines);
    assert!(!second.runs());
    assert!(!dir.exists());
}

#[test]
fn the_shared_set_is_started_once() {
    let first = Engines::shared(&["redis"]).member("redis").pid;
    assert_eq!(Engines::shared(&["redis"]).member("redis").pid, first);
}
