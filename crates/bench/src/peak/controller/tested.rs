//! A load under test: its trials so far, and the verdict on it. Pure; it decides nothing about the next load.

use super::{Measurement, Phase, Point, Rules};
use crate::peak::judge::{Seen, judge};
use crate::report::model::Verdict;

/// A load under test.
#[derive(Debug, Clone)]
pub(super) struct Tested {
    pub(super) per_s: f64,
    pub(super) phase: Phase,
    pub(super) trials: Vec<Seen>,
    pub(super) measurements: Vec<usize>,
    pub(super) invalid: usize,
}

impl Tested {
    pub(super) fn new(per_s: f64, phase: Phase) -> Self {
        Self { per_s, phase, trials: Vec::new(), measurements: Vec::new(), invalid: 0 }
    }

    pub(super) fn add(&mut self, measurement: Measurement, number: usize) {
        self.measurements.push(number);
        match measurement {
            Measurement::Valid(seen) => self.trials.push(seen),
            Measurement::Invalid => self.invalid += 1,
        }
    }

    pub(super) fn verdict(&self, rules: &Rules) -> Option<Verdict> {
        if self.invalid > rules.invalid_max {
            return Some(Verdict::Invalid);
        }
        judge(&self.trials, rules.limits, rules.plan)
    }

    pub(super) fn point(&self, verdict: Verdict) -> Point {
        let Self { per_s, phase, measurements, .. } = self;
        Point { per_s: *per_s, phase: *phase, verdict, measurements: measurements.clone() }
    }
}
