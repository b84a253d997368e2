//! What this host lets a load have: open files and memory.

use anyhow::Context;
use procfs::{Current, Meminfo};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// How many files this process may have open, after it has asked for so many.
pub(super) fn open_files(wanted: usize) -> usize {
    let most = || {
        getrlimit(Resource::Nofile).current.map_or(usize::MAX, |most| most.try_into().unwrap_or(usize::MAX))
    };
    if most() < wanted {
        let maximum = getrlimit(Resource::Nofile).maximum;
        let current = maximum.or(u64::try_from(wanted).ok());
        // Refused, it leaves the old limit, which is returned.
        setrlimit(Resource::Nofile, Rlimit { current, maximum }).unwrap_or(());
    }
    most()
}

/// Memory that can be had without swapping.
pub(super) fn available_bytes() -> anyhow::Result<u64> {
    Meminfo::current()?.mem_available.context("MemAvailable")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_files_are_reported_than_there_may_be() {
        let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
        let [soft, hard] =
            [current, maximum].map(|most| most.map_or(usize::MAX, |most| most.try_into().unwrap()));
        assert_eq!(open_files(soft), soft);
        let got = open_files(soft.saturating_add(1));
        assert!((soft..=hard).contains(&got), "{got} of {soft} and {hard}");
        assert!(available_bytes().unwrap() > 1 << 20);
    }
}
