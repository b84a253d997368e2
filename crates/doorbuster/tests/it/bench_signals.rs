//! A bench that is stopped, in each of the ways in which that happens, leaves no server running.

use std::fs::File;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use bench::host::procfs::children;
use rustix::process::{Pid, Signal, kill_process};

use crate::engines::{free_ports, freeze};
use crate::{doorbuster, run};

const PATIENCE: Duration = Duration::from_secs(60);

/// The program with a hangup as it is by default: these tests may themselves run under nohup.
fn listening(folder: &Path) -> Command {
    let mut command = Command::new("/usr/bin/env");
    command.arg("--default-signal=HUP").arg(doorbuster(folder).get_program());
    command.current_dir(folder).env_clear().stdin(Stdio::null());
    command
}

/// A bench that has started a server, and the number of that.
struct Running {
    bench: Child,
    server: u32,
    _ports: File,
}

impl Running {
    fn start(folder: &Path, arguments: &[&str], server: &str) -> Self {
        let said = File::create(folder.join("said")).unwrap();
        Self::of(listening(folder), said.into(), folder, arguments, server)
    }

    /// Once a child runs whose command line holds this. Little that is asked for here is over soon.
    fn of(mut command: Command, stderr: Stdio, folder: &Path, arguments: &[&str], server: &str) -> Self {
        let (ports, lock) = free_ports();
        let base = ports.start.to_string();
        command.arg("bench").args(arguments).args(["--port-base", &base, "--folder", "data"]);
        command.env("PATH", "/usr/local/bin:/usr/bin:/bin");
        command.stdout(Stdio::null()).stderr(stderr);
        let bench = command.spawn().unwrap();
        let begun = Instant::now();
        let is_it = |pid: &u32| command_line(*pid).contains(server);
        let server = loop {
            if let Some(pid) = children(bench.id()).unwrap().into_iter().find(is_it) {
                break pid;
            }
            assert!(begun.elapsed() < PATIENCE, "no server: {}", said(folder));
            sleep(Duration::from_millis(5));
        };
        Self { bench, server, _ports: lock }
    }

    fn redis(folder: &Path) -> Self {
        Self::start(folder, &["run", "redis-get-set", "--full"], "redis-server ")
    }

    /// At once: no process has to be started for it.
    fn signal(&self, name: Signal) {
        signal(self.bench.id(), name);
    }

    fn ends(&mut self) -> ExitStatus {
        let begun = Instant::now();
        loop {
            if let Some(status) = self.bench.try_wait().unwrap() {
                return status;
            }
            assert!(begun.elapsed() < PATIENCE, "it does not end");
            sleep(Duration::from_millis(5));
        }
    }

    fn server_is_gone(&self) -> bool {
        command_line(self.server).is_empty()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // After a failed assertion.
        drop(self.bench.kill());
        drop(self.bench.wait());
        if !self.server_is_gone() {
            signal(self.server, Signal::KILL);
        }
    }
}

fn signal(pid: u32, signal: Signal) {
    kill_process(Pid::from_raw(pid.cast_signed()).unwrap(), signal).unwrap();
}

/// Empty of a process that has ended, waited for or not.
fn command_line(pid: u32) -> String {
    let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    String::from_utf8_lossy(&line).replace('\0', " ")
}

fn said(folder: &Path) -> String {
    std::fs::read_to_string(folder.join("said")).unwrap_or_default()
}

#[test]
fn two_signals_at_once_are_one() {
    let folder = tempfile::tempdir().unwrap();
    let mut running = Running::redis(folder.path());
    // However long this test gets no processor between them.
    freeze(running.bench.id());
    running.signal(Signal::INT);
    running.signal(Signal::TERM);
    running.signal(Signal::CONT);
    assert_eq!(running.ends().code(), Some(1), "{}", said(folder.path()));
    assert!(running.server_is_gone());
    let said = said(folder.path());
    assert_eq!(said.matches("a second Ctrl-C ends at once").count(), 1, "{said}");
    assert!(said.contains("stopped by a signal before anything was measured"), "{said}");
    assert!(!folder.path().join("bench-report/report.json").exists(), "there is nothing to report");
    assert_eq!(std::fs::read_dir(folder.path().join("data")).unwrap().count(), 0, "its files are removed");
}

#[test]
fn a_hangup_leaves_no_server() {
    let folder = tempfile::tempdir().unwrap();
    let mut running = Running::redis(folder.path());
    running.signal(Signal::HUP);
    assert_eq!(running.ends().code(), Some(1), "{}", said(folder.path()));
    assert!(running.server_is_gone());
    assert_eq!(std::fs::read_dir(folder.path().join("data")).unwrap().count(), 0, "its files are removed");
}

/// As after the end of a terminal: each line that is said is an error, and none may end who listens for signals.
#[test]
fn signals_are_heard_though_nobody_reads() {
    let folder = tempfile::tempdir().unwrap();
    let program = listening(folder.path());
    let mut running = Running::of(program, Stdio::piped(), folder.path(), &["peak", "--quick"], " serve ");
    drop(running.bench.stderr.take());
    freeze(running.server);
    let begun = Instant::now();
    let status = loop {
        if let Some(status) = running.bench.try_wait().unwrap() {
            break status;
        }
        assert!(begun.elapsed() < PATIENCE, "it does not end");
        running.signal(Signal::HUP);
        sleep(Duration::from_millis(1100));
    };
    assert_eq!(status.signal(), Some(1), "the second one ends it at once");
    assert!(running.server_is_gone());
}

#[test]
fn under_nohup_a_bench_outlives_its_terminal() {
    let folder = tempfile::tempdir().unwrap();
    let program = doorbuster(folder.path());
    let mut nohup = Command::new("sh");
    nohup.args(["-c", "trap '' HUP; exec \"$@\"", "sh"]).arg(program.get_program());
    nohup.current_dir(folder.path()).env_clear();
    let said_to = File::create(folder.path().join("said")).unwrap();
    let arguments = ["run", "redis-memory", "--only", "400000 keys"];
    let mut running = Running::of(nohup, said_to.into(), folder.path(), &arguments, "redis-server ");
    running.signal(Signal::HUP);
    assert_eq!(running.ends().code(), Some(0), "{}", said(folder.path()));
}

#[test]
fn a_later_second_signal_kills_the_servers_first() {
    let folder = tempfile::tempdir().unwrap();
    let mut running = Running::start(folder.path(), &["peak", "--quick"], " serve ");
    // It neither answers nor ends when it is asked to: a stop in order takes long.
    freeze(running.server);
    running.signal(Signal::INT);
    let begun = Instant::now();
    while !said(folder.path()).contains("a second Ctrl-C ends at once") && begun.elapsed() < PATIENCE {
        sleep(Duration::from_millis(5));
    }
    // Within a second it would be the same wish.
    sleep(Duration::from_millis(1100));
    assert!(running.bench.try_wait().unwrap().is_none(), "{}", said(folder.path()));
    running.signal(Signal::INT);
    assert_eq!(running.ends().signal(), Some(2), "{}", said(folder.path()));
    assert!(running.server_is_gone());
    assert!(said(folder.path()).contains(&format!("(pid {})", running.server)));
}

#[test]
fn what_a_killed_bench_leaves_is_ended_by_the_next_one() {
    let folder = tempfile::tempdir().unwrap();
    let mut running = Running::redis(folder.path());
    running.signal(Signal::KILL);
    assert_eq!(running.ends().signal(), Some(9));
    // Any bench, here one with nothing to measure; one that another test runs may have been first.
    let (_, _, stderr) = run(folder.path(), &["bench", "run", "static-page", "--only", "no such case"]);
    assert!(running.server_is_gone(), "{stderr}");
}

#[test]
fn a_repeat_that_was_audited_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    let crowd = ["run", "flash-crowd", "--quick", "--only", "embedded", "--repeats", "9"];
    let mut running = Running::start(folder.path(), &crowd, " serve ");
    let begun = Instant::now();
    while !said(folder.path()).contains(" units left") && begun.elapsed() < PATIENCE {
        sleep(Duration::from_millis(5));
    }
    running.signal(Signal::INT);
    assert_eq!(running.ends().code(), Some(1), "{}", said(folder.path()));
    let report = std::fs::read(folder.path().join("bench-report/report.json")).unwrap();
    let report: serde_json::Value = serde_json::from_slice(&report).unwrap();
    let cases = report["scenarios"][0]["cases"].as_array().unwrap();
    let trials: Vec<usize> = cases.iter().map(|case| case["trials"].as_array().unwrap().len()).collect();
    assert!(matches!(trials[..], [1..9]), "{trials:?} {}", said(folder.path()));
    assert_eq!(report["complete"], false);
}

#[test]
fn a_peer_s_round_that_was_played_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    let scripts = concat!(env!("CARGO_MANIFEST_DIR"), "/../../dev");
    let mut running = Running::start(folder.path(), &["peers", "--quick", "--scripts", scripts], " serve ");
    let begun = Instant::now();
    while !said(folder.path()).contains("accepted orders lost") && begun.elapsed() < PATIENCE {
        sleep(Duration::from_millis(5));
    }
    running.signal(Signal::INT);
    assert_eq!(running.ends().code(), Some(1), "{}", said(folder.path()));
    let report = std::fs::read(folder.path().join("bench-report/report.json")).unwrap();
    let report: serde_json::Value = serde_json::from_slice(&report).unwrap();
    assert!(report["verdict"].as_str().unwrap().starts_with("INVALID: NOT COMPLETE"), "{report}");
    let names: Vec<_> =
        report["scenarios"][0]["cases"].as_array().unwrap().iter().map(|of| &of["name"]).collect();
    assert_eq!(names, ["Doorbuster, embedded, 100 users", "Doorbuster, embedded, sale at 2000/s"]);
}
