//! What a process costs, read from `/proc`, and children that never outlive their owner.
//!
//! Linux only. Used by the scenarios around each measurement; it measures nothing inside of the timed loop.

use std::fs::File;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::leftovers;

/// `/proc` counts processor time in ticks of USER_HZ, which Linux fixes at 100 for every architecture we run on.
const TICKS_PER_S: f64 = 100.0;
/// A child that ignores SIGTERM for this long is killed.
const STOP_PATIENCE: Duration = Duration::from_secs(20);
const LOG_TAIL_BYTES: usize = 2000;

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
}
