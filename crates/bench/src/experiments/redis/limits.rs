//! What this host lets a load have: open files and memory.

use std::fs::read_to_string;
use std::process::Command;

use anyhow::Context;

const LIMITS: &str = "/proc/self/limits";

/// How many files this process may have open, after it has asked for so many. It asks `prlimit`, of util-linux, for as
/// many as it may give itself: the standard library can't, and we have no unsafe code.
pub(super) fn open_files(wanted: usize) -> anyhow::Result<usize> {
    let [soft, hard] = open_files_of(&read_to_string(LIMITS)?)?;
    if soft >= wanted || hard <= soft {
        return Ok(soft);
    }
    let limit = if hard == usize::MAX { wanted } else { hard };
    let mut prlimit = Command::new("prlimit");
    prlimit.args(["--pid", &std::process::id().to_string(), &format!("--nofile={limit}:")]);
    // Without it the old limit stays, and is returned.
    drop(prlimit.output());
    Ok(open_files_of(&read_to_string(LIMITS)?)?[0])
}

/// Soft and hard.
fn open_files_of(limits: &str) -> anyhow::Result<[usize; 2]> {
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"));
    let mut words = line.context("the limit of open files")?.split_whitespace();
    // `unlimited` is no number.
    let mut next = || words.next().context("a limit").map(|word| word.parse().unwrap_or(usize::MAX));
    Ok([next()?, next()?])
}

/// Memory that can be had without swapping.
pub(super) fn available_bytes() -> anyhow::Result<u64> {
    let text = read_to_string("/proc/meminfo").context("/proc/meminfo")?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:")).context("MemAvailable")?;
    let kib: u64 = line.split_whitespace().next().context("MemAvailable")?.parse()?;
    Ok(kib * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_read_from_proc() {
        let text = "Max processes             95 95 processes\nMax open files            1024                 unlimited            files\n";
        assert_eq!(open_files_of(text).unwrap(), [1024, usize::MAX]);
        assert!(open_files_of("").is_err());
        assert!(available_bytes().unwrap() > 1 << 20);
    }

    #[test]
    fn no_more_files_are_reported_than_there_may_be() {
        let [soft, hard] = open_files_of(&read_to_string(LIMITS).unwrap()).unwrap();
        assert_eq!(open_files(soft).unwrap(), soft);
        let got = open_files(soft.saturating_add(1)).unwrap();
        assert!((soft..=hard).contains(&got), "{got} of {soft} and {hard}");
    }
}
