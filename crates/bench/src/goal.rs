//! Goals and medians: how the figures of several rounds become one that is judged.

use crate::report::format::figure;
use crate::report::statistics;

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Goal {
    AtMost(f64),
    AtLeast(f64),
}

impl Goal {
    pub(crate) fn met(self, value: f64) -> bool {
        match self {
            Self::AtMost(most) => value <= most,
            Self::AtLeast(least) => value >= least,
        }
    }

    /// Of a figure with this unit: `at most 10 ms`.
    pub(crate) fn said(self, unit: &str) -> String {
        match self {
            Self::AtMost(most) => format!("at most {}", figure(most, unit)),
            Self::AtLeast(least) => format!("at least {}", figure(least, unit)),
        }
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
        assert!(Goal::AtMost(2.0).met(2.0));
        assert!(!Goal::AtMost(2.0).met(2.01));
        assert!(Goal::AtLeast(0.5).met(0.5));
        assert!(!Goal::AtLeast(0.5).met(0.49));
    }

    #[test]
    fn median_of_an_even_count_is_the_mean_of_the_middle() {
        assert_eq!(median([4.0, 1.0, 3.0, 2.0].into_iter()), 2.5);
    }
}
