//! Goals and medians: how the figures of several rounds become one that is judged.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::report::statistics;

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Goal {
    AtMost(f64),
    AtLeast(f64),
    /// Shown, not judged.
    None,
}

impl Goal {
    pub(crate) fn met(self, value: f64) -> Option<bool> {
        match self {
            Self::AtMost(most) => Some(value <= most),
            Self::AtLeast(least) => Some(value >= least),
            Self::None => None,
        }
    }
}

impl fmt::Display for Goal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AtMost(most) => f.pad(&format!("<= {most}")),
            Self::AtLeast(least) => f.pad(&format!(">= {least}")),
            Self::None => f.pad(""),
        }
    }
}

/// For a table; empty where nothing is judged.
pub(crate) fn verdict(met: Option<bool>) -> &'static str {
    match met {
        Some(true) => "met",
        Some(false) => "MISSED",
        None => "",
    }
}

/// # Panics
/// Without a value.
pub(crate) fn median(values: impl Iterator<Item = f64>) -> f64 {
    statistics::median(&values.collect::<Vec<_>>()).expect("somebody measured a round")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn goals_are_met_at_their_bound() {
        assert_eq!(Goal::AtMost(2.0).met(2.0), Some(true));
        assert_eq!(Goal::AtMost(2.0).met(2.01), Some(false));
        assert_eq!(Goal::AtLeast(0.5).met(0.5), Some(true));
        assert_eq!(Goal::AtLeast(0.5).met(0.49), Some(false));
        assert_eq!(Goal::None.met(9.0), None);
    }

    #[test]
    fn median_of_an_even_count_is_the_mean_of_the_middle() {
        assert_eq!(median([4.0, 1.0, 3.0, 2.0].into_iter()), 2.5);
    }
}
