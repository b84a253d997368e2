//! Children that never outlive their owner, and tools that are waited for with a bound.

use std::fs::File;
use std::io::{self, Read, Seek};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};

use crate::host::leftovers;

/// A child that ignores SIGTERM for this long is killed.
const STOP_PATIENCE: Duration = Duration::from_secs(20);
const LOG_TAIL_BYTES: usize = 2000;
const LISTEN_PATIENCE: Duration = Duration::from_secs(10);
const LISTEN_POLL: Duration = Duration::from_millis(5);
/// Another process may take the port between our choosing it and a server binding it.
const PORT_ATTEMPTS: usize = 5;
/// How often it is looked whether a tool has ended: it must not take part in what it measures.
const TOOL_POLL: Duration = Duration::from_millis(20);
/// What a tool may take to begin and to end, beside the time that its work takes.
pub(crate) const TOOL_MARGIN: Duration = Duration::from_secs(60);

/// A child process that is ended, by its pid, when its owner goes away, on an error too.
#[derive(Debug)]
pub struct Guard {
    child: Child,
}

impl Guard {
    /// Starts a child that reads nothing and writes both outputs to `log`.
    pub fn start(command: &mut Command, log: &Path) -> io::Result<Self> {
        let file = File::options().create(true).append(true).open(log)?;
        // A group of its own: Ctrl-C on the terminal ends only us, and we end the children, in our order.
        command.process_group(0);
        leftovers::mark(command)?;
        let child = command.stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file).spawn()?;
        Ok(Self { child })
    }

    /// Takes over a child that was started otherwise.
    pub fn adopt(child: Child) -> Self {
        Self { child }
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// How it ended, if it has.
    pub fn ended(&mut self) -> io::Result<Option<ExitStatus>> {
        self.child.try_wait()
    }

    /// Whether it has ended by itself. After `deadline`, or once `stop` is raised, it is killed.
    ///
    /// # Errors
    /// If it was killed: which one, by its name, and why.
    pub(crate) fn ended_before(
        &mut self,
        name: &str,
        deadline: Instant,
        stop: &AtomicBool,
    ) -> anyhow::Result<Option<ExitStatus>> {
        if let Some(status) = self.ended()? {
            return Ok(Some(status));
        }
        let why = if stop.load(Ordering::Relaxed) {
            "was ended: stopped by a signal"
        } else if Instant::now() >= deadline {
            "did not end in time, and was killed"
        } else {
            return Ok(None);
        };
        self.kill().with_context(|| format!("killing {name}"))?;
        bail!("{name} (pid {}) {why}", self.pid())
    }

    /// Waits for a tool of others that ends by itself, at most `patience` long, and as [`Guard::ended_before`] says.
    pub(crate) fn wait(
        &mut self,
        name: &str,
        patience: Duration,
        stop: &AtomicBool,
        mut meanwhile: impl FnMut(),
    ) -> anyhow::Result<ExitStatus> {
        let deadline = Instant::now() + patience;
        loop {
            meanwhile();
            if let Some(status) = self.ended_before(name, deadline, stop)? {
                return Ok(status);
            }
            sleep(TOOL_POLL);
        }
    }

    /// Ends it at once (SIGKILL), as a crash would, and waits.
    pub fn kill(&mut self) -> io::Result<ExitStatus> {
        self.child.kill()?;
        self.child.wait()
    }

    /// Asks it to end (SIGTERM) and waits; after `STOP_PATIENCE` it is killed.
    pub fn stop(&mut self) -> io::Result<ExitStatus> {
        if let Some(status) = self.child.try_wait()? {
            return Ok(status);
        }
        signal(self.pid(), Signal::TERM)?;
        let asked = Instant::now();
        while asked.elapsed() < STOP_PATIENCE {
            if let Some(status) = self.child.try_wait()? {
                return Ok(status);
            }
            sleep(Duration::from_millis(5));
        }
        self.child.kill()?;
        self.child.wait()
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        if self.stop().is_err() {
            // Nothing more can be done for a child that can neither be asked nor waited for.
            drop(self.child.kill());
        }
    }
}

/// The standard library can only kill, and only children.
pub(crate) fn signal(pid: u32, signal: Signal) -> io::Result<()> {
    Ok(kill_process(number(pid)?, signal)?)
}

pub(crate) fn number(pid: u32) -> io::Result<Pid> {
    let number = i32::try_from(pid).ok().and_then(Pid::from_raw);
    number.ok_or_else(|| io::Error::other(format!("{pid} is no number of a process")))
}

/// Runs a tool of others to its end, at most `patience` long; what it printed.
///
/// # Errors
/// If it can't be started, fails, or had to be killed: see [`Guard::ended_before`].
pub(crate) fn run_tool(
    command: &mut Command,
    patience: Duration,
    stop: &AtomicBool,
) -> anyhow::Result<String> {
    let name = command.get_program().to_string_lossy().into_owned();
    // Into a file, which never keeps it waiting, as a pipe that nobody reads would.
    let mut output = tempfile::tempfile().context("a file for what a tool says")?;
    leftovers::mark(command)?.stdin(Stdio::null()).stdout(output.try_clone()?).stderr(output.try_clone()?);
    let child = command.spawn().with_context(|| format!("running {name}"))?;
    let status = Guard::adopt(child).wait(&name, patience, stop, || {})?;
    let mut said = Vec::new();
    output.rewind()?;
    output.read_to_end(&mut said)?;
    let said = String::from_utf8_lossy(&said).into_owned();
    ensure!(status.success(), "{name} failed with {status}: {said}");
    Ok(said)
}

/// Starts a server on a free port of this host, and waits until it listens.
pub(crate) fn start_listening(
    name: &str,
    log: &Path,
    mut start: impl FnMut(SocketAddr) -> anyhow::Result<Guard>,
) -> anyhow::Result<(Guard, SocketAddr)> {
    for _ in 0..PORT_ATTEMPTS {
        let address = SocketAddr::from(([127, 0, 0, 1], free_port()?));
        let mut guard = start(address)?;
        let begun = Instant::now();
        while guard.ended()?.is_none() {
            if TcpStream::connect(address).is_ok() {
                return Ok((guard, address));
            }
            ensure!(begun.elapsed() < LISTEN_PATIENCE, "{name} neither ends nor listens on {address}");
            sleep(LISTEN_POLL);
        }
    }
    bail!("{name} did not start: {}", log_tail(log));
}

pub fn log_tail(log: &Path) -> String {
    let text = std::fs::read(log).unwrap_or_default();
    String::from_utf8_lossy(&text[text.len().saturating_sub(LOG_TAIL_BYTES)..]).into_owned()
}

/// A port that was free a moment ago; whoever binds it must be ready to find it taken.
pub fn free_port() -> io::Result<u16> {
    Ok(std::net::TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::procfs::{children, cpu};

    #[test]
    fn a_dropped_guard_ends_its_child() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("log");
        let guard = Guard::start(Command::new("sleep").arg("600"), &log).unwrap();
        let pid = guard.pid();
        assert!(cpu(pid).is_ok());
        assert!(children(std::process::id()).unwrap().contains(&pid));
        drop(guard);
        assert!(cpu(pid).is_err(), "the process is still there");
    }

    #[test]
    fn stop_reports_how_the_child_ended() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("log");
        let mut guard = Guard::start(Command::new("sh").args(["-c", "echo said; exit 7"]), &log).unwrap();
        while guard.ended().unwrap().is_none() {
            sleep(Duration::from_millis(1));
        }
        assert_eq!(guard.stop().unwrap().code(), Some(7));
        assert_eq!(log_tail(&log), "said\n");
    }

    #[test]
    fn a_tool_is_waited_for_with_a_bound() {
        let run = |words: &[&str], patience, stop: &AtomicBool| {
            run_tool(Command::new(words[0]).args(&words[1..]), patience, stop)
                .map_err(|error| error.to_string())
        };
        let (long, goes_on) = (Duration::from_secs(600), AtomicBool::new(false));
        assert_eq!(run(&["sh", "-c", "sleep 0.05; echo said"], long, &goes_on).unwrap(), "said\n");
        let failed = run(&["sh", "-c", "echo why; exit 3"], long, &goes_on).unwrap_err();
        assert!(failed.contains("exit status: 3") && failed.contains("why"), "{failed}");
        let late = run(&["sleep", "600"], Duration::from_millis(50), &goes_on).unwrap_err();
        assert!(late.starts_with("sleep (pid ") && late.contains("did not end in time"), "{late}");
        let stopped = run(&["sleep", "600"], long, &AtomicBool::new(true)).unwrap_err();
        assert!(stopped.contains("stopped by a signal"), "{stopped}");
        for error in [late, stopped] {
            let pid = error.split(['(', ')']).nth(1).unwrap().strip_prefix("pid ").unwrap();
            assert!(cpu(pid.parse().unwrap()).is_err(), "{error}: it is still there");
        }
    }
}
