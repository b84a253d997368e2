//! What processes there are and what each costs, as the kernel shows it below `/proc`.
//!
//! Linux only. It is read before and after a measurement, never inside the timed loop.

use std::io;
use std::time::Duration;

use ::procfs::process::{Process, Stat, all_processes};
use ::procfs::ticks_per_second;

pub(crate) fn process(pid: u32) -> io::Result<Process> {
    Process::new(i32::try_from(pid).map_err(io::Error::other)?).map_err(io::Error::other)
}

fn stat(pid: u32) -> io::Result<Stat> {
    process(pid)?.stat().map_err(io::Error::other)
}

fn time(ticks: u64) -> Duration {
    Duration::from_secs_f64(ticks as f64 / ticks_per_second() as f64)
}

/// Processor time of all threads, user and system, since the process began. Resolution: 10 ms.
pub fn cpu(pid: u32) -> io::Result<Duration> {
    stat(pid).map(|stat| cpu_of(&stat))
}

/// The same of a process or of a thread.
pub(crate) fn cpu_of(stat: &Stat) -> Duration {
    time(stat.utime + stat.stime)
}

/// The same for this process.
pub fn own_cpu() -> io::Result<Duration> {
    cpu(std::process::id())
}

/// The same for the children of this process that have ended and were waited for.
pub fn ended_children_cpu() -> io::Result<Duration> {
    let stat = stat(std::process::id())?;
    Ok(time(u64::try_from(stat.cutime + stat.cstime).map_err(io::Error::other)?))
}

/// When it began, in ticks since the system's start: with its number, it is this process and no other.
pub(crate) fn started(pid: u32) -> io::Result<u64> {
    stat(pid).map(|stat| stat.starttime)
}

/// Whether a signal of this number is ignored by this process.
pub fn ignores(signal: i32) -> io::Result<bool> {
    let status = process(std::process::id())?.status().map_err(io::Error::other)?;
    Ok(status.sigign >> (signal - 1) & 1 == 1)
}

/// All that can be seen.
pub(crate) fn all() -> io::Result<impl Iterator<Item = Process>> {
    Ok(all_processes().map_err(io::Error::other)?.filter_map(Result::ok))
}

/// No process any more, or one that only waits to be buried by its parent.
pub(crate) fn is_gone(pid: u32) -> bool {
    let Ok(process) = process(pid) else { return true };
    let threads = process.tasks().map_or(0, Iterator::count);
    process.stat().map_or(true, |stat| stat.state == 'Z' && threads <= 1)
}

/// Processes whose parent it is, in the order of their numbers.
pub fn children(pid: u32) -> io::Result<Vec<u32>> {
    // A process that has just ended is nobody's child.
    let children = all()?.filter_map(|process| process.stat().ok());
    let children = children.filter(|stat| u32::try_from(stat.ppid).is_ok_and(|parent| parent == pid));
    let mut children: Vec<u32> = children.filter_map(|stat| u32::try_from(stat.pid).ok()).collect();
    children.sort_unstable();
    Ok(children)
}

pub fn rss_bytes(pid: u32) -> io::Result<u64> {
    let status = process(pid)?.status().map_err(io::Error::other)?;
    Ok(status.vmrss.ok_or_else(|| io::Error::other("a process without memory"))? * 1024)
}

pub(crate) fn peak_rss_bytes(pid: u32) -> io::Result<u64> {
    let status = process(pid)?.status().map_err(io::Error::other)?;
    Ok(status.vmhwm.ok_or_else(|| io::Error::other("a process without memory"))? * 1024)
}

pub fn write_bytes(pid: u32) -> io::Result<u64> {
    process(pid)?.io().map(|io| io.write_bytes).map_err(io::Error::other)
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

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
}
