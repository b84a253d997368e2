//! What a process costs, read from `/proc`, and children that never outlive their owner.
//!
//! Linux only. Used by the scenarios around each measurement; it measures nothing inside of the timed loop.

use std::fs::File;
use std::io::{self, Read, Seek};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};

use crate::leftovers;

/// `/proc` counts processor time in ticks of USER_HZ, which Linux fixes at 100 for every architecture we run on.
const TICKS_PER_S: f64 = 100.0;
/// A child that ignores SIGTERM for this long is killed.
const STOP_PATIENCE: Duration = Duration::from_secs(20);
const LOG_TAIL_BYTES: usize = 2000;
/// How often it is looked whether a tool has ended: it must not take part in what it measures.
const TOOL_POLL: Duration = Duration::from_millis(20);
/// What a tool may take to begin and to end, beside the time that its work takes.
pub(crate) const TOOL_MARGIN: Duration = Duration::from_secs(60);

/// Processor time of all threads, user and system, since the process began. Resolution: 10 ms.
pub fn cpu(pid: u32) -> io::Result<Duration> {
    cpu_of(&format!("/proc/{pid}/stat"))
}

/// The same from a `stat` file of `/proc`: a process's or a thread's.
pub(crate) fn cpu_of(stat: &str) -> io::Result<Duration> {
    ticks(&stat_fields(stat)?, 11)
}

/// The same for this process.
pub fn own_cpu() -> io::Result<Duration> {
    ticks(&stat_fields("/proc/self/stat")?, 11)
}

/// The same for the children of this process that have ended and were waited for.
pub fn ended_children_cpu() -> io::Result<Duration> {
    ticks(&stat_fields("/proc/self/stat")?, 13)
}

/// When it began, in ticks since the system's start: with its number, it is this process and no other.
pub(crate) fn started(pid: u32) -> io::Result<u64> {
    let fields = stat_fields(&format!("/proc/{pid}/stat"))?;
    fields.get(19).copied().ok_or_else(|| io::Error::other("a short stat file"))
}

/// All that can be seen.
pub(crate) fn all() -> io::Result<Vec<u32>> {
    let entries = std::fs::read_dir("/proc")?;
    Ok(entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect())
}

/// No process any more, or one that only waits to be buried by its parent.
pub(crate) fn is_gone(pid: u32) -> bool {
    let Ok(status) = std::fs::read_to_string(format!("/proc/{pid}/status")) else { return true };
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).map_or(0, Iterator::count);
    threads <= 1 && status.lines().any(|line| line.starts_with("State:\tZ"))
}

/// Processes whose parent it is, in the order of their numbers.
pub fn children(pid: u32) -> io::Result<Vec<u32>> {
    let mut children = all()?;
    // The second field after the name; a process that has just ended is nobody's child.
    children.retain(|id| {
        stat_fields(&format!("/proc/{id}/stat")).is_ok_and(|fields| fields.get(1) == Some(&u64::from(pid)))
    });
    children.sort_unstable();
    Ok(children)
}

/// Memory that is resident now.
pub fn rss_bytes(pid: u32) -> io::Result<u64> {
    Ok(field(&format!("/proc/{pid}/status"), "VmRSS:")? * 1024)
}

/// Bytes that the process caused to be written to storage.
pub fn write_bytes(pid: u32) -> io::Result<u64> {
    field(&format!("/proc/{pid}/io"), "write_bytes:")
}

/// The fields after the command's name, which may itself hold spaces and brackets.
fn stat_fields(path: &str) -> io::Result<Vec<u64>> {
    let stat = std::fs::read_to_string(path)?;
    let (_, fields) =
        stat.rsplit_once(") ").ok_or_else(|| io::Error::other("no command in the stat file"))?;
    Ok(fields.split(' ').map(|field| field.trim().parse().unwrap_or(0)).collect())
}

/// Two neighbouring counters, user and system; `at` counts from the field after the command's name.
fn ticks(fields: &[u64], at: usize) -> io::Result<Duration> {
    let pair = fields.get(at..at + 2).ok_or_else(|| io::Error::other("a short stat file"))?;
    Ok(Duration::from_secs_f64((pair[0] + pair[1]) as f64 / TICKS_PER_S))
}

fn field(path: &str, name: &str) -> io::Result<u64> {
    std::fs::read_to_string(path)?
        .lines()
        .find_map(|line| line.strip_prefix(name)?.split_whitespace().next()?.parse().ok())
        .ok_or_else(|| io::Error::other(format!("no {name} in {path}")))
}

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
        // The standard library can only kill, and we have no unsafe code: the shell's own `kill` sends the signal.
        Command::new("sh").args(["-c", "kill -TERM \"$0\"", &self.pid().to_string()]).status()?;
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

/// The end of a child's log, for error messages.
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

    #[test]
    fn own_processor_time_grows_with_work() {
        let before = own_cpu().unwrap();
        let begun = Instant::now();
        let mut value = 1_u64;
        while begun.elapsed() < Duration::from_secs(20)
            && own_cpu().unwrap() - before < Duration::from_millis(30)
        {
            value = (0..100_000_u64).fold(value, |value, n| value.wrapping_mul(n | 1).rotate_left(7));
        }
        assert!(own_cpu().unwrap() - before >= Duration::from_millis(30), "{value}");
        assert_eq!(cpu(std::process::id()).unwrap().as_secs(), own_cpu().unwrap().as_secs());
        assert!(rss_bytes(std::process::id()).unwrap() > 100_000);
    }

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
