//! The part of the configuration that says when the system's clock is believed.

use serde::Deserialize;

use crate::clock::{self, Checks};

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Clock {
    pub(super) jump_max_s: u64,
    trust: Trust,
}

/// How the clock's own type is written; what each does is said in the defaults.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Trust {
    Ask,
    System,
}

impl Clock {
    /// How a start is judged.
    pub fn checks(&self, demo: bool) -> Checks {
        Checks {
            jump_ms_max: self.jump_max_s * 1_000,
            trust: match self.trust {
                Trust::Ask => clock::Trust::Ask,
                Trust::System => clock::Trust::System,
            },
            demo,
            is_synchronised: clock::is_synchronised,
        }
    }
}
