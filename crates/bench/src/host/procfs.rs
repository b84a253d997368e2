//! What processes there are and what each costs, read from `/proc`.
//!
//! Linux only. It is read before and after a measurement, never inside the timed loop.

use std::io;
use std::time::Duration;

/// `/proc` counts processor time in ticks of USER_HZ, which Linux fixes at 100 for every architecture we run on.
const TICKS_PER_S: f64 = 100.0;

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

/// Whether a signal of this number is ignored by this process.
pub fn ignores(signal: i32) -> io::Result<bool> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    let mask = mask.ok_or_else(|| io::Error::other("no SigIgn in /proc/self/status"))?;
    Ok(mask >> (signal - 1) & 1 == 1)
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

/// The most memory that was resident at a time, so far.
pub(crate) fn peak_rss_bytes(pid: u32) -> io::Result<u64> {
    Ok(field(&format!("/proc/{pid}/status"), "VmHWM:")? * 1024)
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
