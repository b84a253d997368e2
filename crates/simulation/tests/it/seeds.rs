//! Which seeds are played: `DOORBUSTER_SEEDS`, from `DOORBUSTER_SEED_FROM` on.

use std::env;
use std::ops::Range;

/// Names the seed of a run that fails.
pub(crate) struct Seed(pub(crate) u64);

impl Drop for Seed {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the seed is {0}: make simulate SEEDS=1 FROM={0}", self.0);
        }
    }
}

fn number(variable: &str, default: u64) -> u64 {
    env::var(variable).map_or(default, |text| text.parse().expect("a number of seeds"))
}

/// `default`: in `make test`.
pub(crate) fn count(default: u64) -> u64 {
    number("DOORBUSTER_SEEDS", default)
}

pub(crate) fn seeds(default: u64) -> Range<u64> {
    let from = number("DOORBUSTER_SEED_FROM", 0);
    from..from + count(default)
}
