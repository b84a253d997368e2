//! The search for the peak: a state machine that says what to measure next and is given what was found. Pure: no I/O,
//! no clock.
//!
//! Phases: **anchor** (a closed loop gives a first guess), **bracket** (up or down in steps until one load passed and
//! one failed), **bisect** (until they are within [`Rules::precision`] of each other), **confirm** (the load that
//! passed, again, on fresh trials, in turn with a control load of [`CONTROL_SHARE`] of it), **recheck** (the load that
//! failed, again; if it passes now, the search goes on above it), **overload** at twice the peak, and **recover**: the
//! control load again until it is within the limits.
//!
//! The confirmation is needed because the highest of several loads that passed is likely one that was lucky. If it
//! fails, the next candidate is lower by the precision. If the control load fails, the machine is not what it was, and
//! nothing is confirmed. Likewise the lowest load that failed may have been unlucky, hence the recheck.
//!
//! A trial that the generator spoiled says nothing of the target: it is tried again, a bounded number of times. Then
//! the search ends there, limited by the generator; or goes on below it, if nothing passed yet and not several loads in
//! a row were spoiled. Every loop here has a bound in [`Rules`].

mod tested;

use self::tested::Tested;
use crate::peak::judge::{Limits, Plan, Seen};
use crate::report::model::Verdict;

/// Of the candidate: a load that a machine in the same state carries easily.
pub const CONTROL_SHARE: f64 = 0.5;
const OVERLOAD_FACTOR: f64 = 2.0;
/// Of the closed-loop maximum: the first load of the bracket.
const FIRST_SHARE: f64 = 0.75;
const BRACKET_UP: f64 = 1.25;
const BRACKET_DOWN: f64 = 0.6;

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rules {
    pub limits: Limits,
    pub plan: Plan,
    /// The search is done when the lowest failed load is at most so many times the highest passed: 1.05.
    pub precision: f64,
    /// Requests per second; below that nothing is searched.
    pub rate_min: f64,
    /// What the generator can make.
    pub rate_max: f64,
    /// Of one load, before the generator is given up.
    pub invalid_max: usize,
    /// Loads in a row that the generator spoiled, before the search is: what spoils them then is not their rate.
    pub spoiled_max: usize,
    pub candidates_max: usize,
    pub rechecks_max: usize,
    pub probes_max: usize,
    /// Of the whole search, whatever happens.
    pub measurements_max: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    Anchor,
    Bracket,
    Bisect,
    Confirm,
    Control,
    Recheck,
    Overload,
    Recover,
}

impl Phase {
    pub fn name(self) -> &'static str {
        match self {
            Self::Anchor => "anchor",
            Self::Bracket => "bracket",
            Self::Bisect => "bisect",
            Self::Confirm => "confirm",
            Self::Control => "control",
            Self::Recheck => "recheck",
            Self::Overload => "overload",
            Self::Recover => "recover",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Load {
    /// Every user asks again as soon as it has an answer.
    Closed,
    /// So many requests per second, whatever comes back.
    Open { per_s: f64 },
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Step {
    Measure { load: Load, phase: Phase },
    Done(Outcome),
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Measurement {
    Valid(Seen),
    /// The generator's fault: it says nothing of the target.
    Invalid,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Ending {
    /// Bracketed within the precision.
    Converged,
    /// Not even the lowest load is within the limits.
    NothingPasses,
    /// The generator could not make more than this, and the target carried it.
    GeneratorCeiling { per_s: f64 },
    /// The generator could not make this load soundly: nothing is known of the target there.
    GeneratorInvalid { per_s: f64 },
    /// The control load was no longer carried either.
    ControlFailed,
    /// No candidate passed a second time.
    NeverConfirmed,
    /// A bound of the search was reached first.
    Exhausted,
    /// A signal came first: said by whoever asks the controller.
    Stopped,
    /// The target could not be measured any more.
    Gone,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Outcome {
    pub highest_passed: Option<f64>,
    pub lowest_failed: Option<f64>,
    /// Good answers per second in the closed loop; `None` if the generator spoiled it each time.
    pub closed_loop: Option<f64>,
    /// The highest passed load passed again, on trials of its own.
    pub confirmed: bool,
    pub ending: Ending,
    /// Whether a probe after the overload was within the limits; `None` without an overload.
    pub recovered: Option<bool>,
}

impl Outcome {
    /// Of a search that was given up.
    pub(super) const STOPPED: Self = Self {
        highest_passed: None,
        lowest_failed: None,
        closed_loop: None,
        confirmed: false,
        ending: Ending::Stopped,
        recovered: None,
    };
    /// Of one whose target went away.
    pub(super) const GONE: Self = Self { ending: Ending::Gone, ..Self::STOPPED };
}

#[derive(Debug, Clone, PartialEq)]
pub struct Point {
    pub per_s: f64,
    pub phase: Phase,
    pub verdict: Verdict,
    /// Which measurements it was judged by, counted from 0 in the order in which they were made.
    pub measurements: Vec<usize>,
}

#[derive(Debug)]
enum SearchState {
    Anchor { invalid: usize },
    Search(Tested),
    Confirm { candidate: Tested, control: Tested },
    Overload { invalid: usize },
    Recover { probes: usize },
    Ended,
}

#[derive(Debug)]
pub struct Controller {
    rules: Rules,
    state: SearchState,
    closed_loop: Option<f64>,
    /// The highest load whose trials passed, and that did not fail later. A candidate is none before it passed.
    passed: Option<f64>,
    failed: Option<f64>,
    /// The lowest load that the generator could not make soundly.
    invalid: Option<f64>,
    /// How many loads that is true of, one after the other.
    spoiled: usize,
    candidates: usize,
    rechecks: usize,
    /// What passed twice.
    confirmed: Option<f64>,
    /// Of the search; overload and recovery follow it.
    ending: Ending,
    recovered: Option<bool>,
    pub curve: Vec<Point>,
    observed: usize,
}

impl Controller {
    /// # Panics
    /// If the rules bound nothing.
    pub fn new(rules: Rules) -> Self {
        assert!(rules.rate_min > 0.0 && rules.rate_max >= rules.rate_min, "a range to search: {rules:?}");
        assert!(rules.precision > 1.0 && rules.plan.trials_max() > 0, "a search that can end: {rules:?}");
        Self {
            rules,
            state: SearchState::Anchor { invalid: 0 },
            closed_loop: None,
            passed: None,
            failed: None,
            invalid: None,
            spoiled: 0,
            candidates: 0,
            rechecks: 0,
            confirmed: None,
            ending: Ending::Exhausted,
            recovered: None,
            curve: Vec::new(),
            observed: 0,
        }
    }

    pub fn next(&self) -> Step {
        let measure = |per_s, phase| Step::Measure { load: Load::Open { per_s }, phase };
        match &self.state {
            SearchState::Anchor { .. } => Step::Measure { load: Load::Closed, phase: Phase::Anchor },
            SearchState::Search(tested) => measure(tested.per_s, tested.phase),
            // In turn, the control first, so that a drift of the machine meets both.
            SearchState::Confirm { candidate, control }
                if control.measurements.len() > candidate.measurements.len() =>
            {
                measure(candidate.per_s, candidate.phase)
            }
            SearchState::Confirm { control, .. } => measure(control.per_s, control.phase),
            SearchState::Overload { .. } => measure(self.overload(), Phase::Overload),
            SearchState::Recover { .. } => measure(self.peak() * CONTROL_SHARE, Phase::Recover),
            SearchState::Ended => Step::Done(Outcome {
                highest_passed: self.passed,
                lowest_failed: self.failed,
                closed_loop: self.closed_loop,
                confirmed: self.confirmed.is_some() && self.confirmed == self.passed,
                ending: self.ending,
                recovered: self.recovered,
            }),
        }
    }

    /// What came of the step that `next` gave.
    ///
    /// # Panics
    /// If the search is done.
    pub fn observe(&mut self, measurement: Measurement) {
        let number = self.observed;
        self.observed += 1;
        self.state = match std::mem::replace(&mut self.state, SearchState::Ended) {
            SearchState::Anchor { invalid } => self.anchored(measurement, invalid),
            SearchState::Search(tested) => self.searched(tested, measurement, number),
            SearchState::Confirm { candidate, control } => {
                self.confirming(candidate, control, measurement, number)
            }
            SearchState::Overload { invalid } => self.overloaded(measurement, invalid),
            SearchState::Recover { probes } => self.recovering(measurement, probes),
            SearchState::Ended => panic!("nothing was to be measured"),
        };
        if self.observed >= self.rules.measurements_max && !matches!(self.state, SearchState::Ended) {
            if !self.is_settled() {
                self.ending = Ending::Exhausted;
            }
            self.passed = self.confirmed.or(self.passed);
            self.state = SearchState::Ended;
        }
    }

    /// Only the recheck, the overload or the recovery is left: the answer stands without them.
    fn is_settled(&self) -> bool {
        match &self.state {
            SearchState::Search(tested) => tested.phase == Phase::Recheck,
            SearchState::Overload { .. } | SearchState::Recover { .. } => true,
            SearchState::Anchor { .. } | SearchState::Confirm { .. } | SearchState::Ended => false,
        }
    }

    fn anchored(&mut self, measurement: Measurement, invalid: usize) -> SearchState {
        match measurement {
            Measurement::Valid(seen) => self.closed_loop = Some(seen.good_per_s),
            // Only a guess is lost.
            Measurement::Invalid if invalid < self.rules.invalid_max => {
                return SearchState::Anchor { invalid: invalid + 1 };
            }
            Measurement::Invalid => {}
        }
        let Rules { rate_min, rate_max, .. } = self.rules;
        // Without it the search begins in the middle of what it can offer, by ratio: the steps are ratios too.
        let guess = self.closed_loop.map_or((rate_min * rate_max).sqrt(), |per_s| per_s * FIRST_SHARE);
        let first = guess.clamp(rate_min, rate_max);
        SearchState::Search(Tested::new(first, Phase::Bracket))
    }

    fn searched(&mut self, mut tested: Tested, measurement: Measurement, number: usize) -> SearchState {
        tested.add(measurement, number);
        let Some(verdict) = tested.verdict(&self.rules) else { return SearchState::Search(tested) };
        self.curve.push(tested.point(verdict));
        if tested.phase == Phase::Recheck {
            if verdict != Verdict::Pass {
                return SearchState::Overload { invalid: 0 };
            }
            self.failed = None;
        }
        self.spoiled = if verdict == Verdict::Invalid { self.spoiled + 1 } else { 0 };
        match verdict {
            Verdict::Pass => self.passed = Some(tested.per_s),
            Verdict::Fail | Verdict::Undecided => self.failed = Some(tested.per_s),
            Verdict::Invalid => {
                let per_s = tested.per_s;
                self.invalid = Some(per_s);
                let hopeless = per_s <= self.rules.rate_min || self.spoiled >= self.rules.spoiled_max;
                if self.passed.is_some() || hopeless {
                    return self.settle(Ending::GeneratorInvalid { per_s });
                }
                // Nothing passed yet: a lower load may be made soundly.
                let lower = (per_s * BRACKET_DOWN).max(self.rules.rate_min);
                return SearchState::Search(Tested::new(lower, Phase::Bracket));
            }
        }
        let Rules { rate_min, rate_max, precision, .. } = self.rules;
        match (self.passed, self.failed) {
            (Some(passed), Some(failed)) if failed / passed <= precision => self.settle(Ending::Converged),
            (Some(passed), Some(failed)) => {
                SearchState::Search(Tested::new((passed * failed).sqrt(), Phase::Bisect))
            }
            (Some(passed), None) if passed >= rate_max => {
                self.settle(Ending::GeneratorCeiling { per_s: rate_max })
            }
            (Some(passed), None) if self.invalid.is_some_and(|per_s| passed * BRACKET_UP >= per_s) => {
                let per_s = self.invalid.expect("it was just looked at");
                self.settle(Ending::GeneratorInvalid { per_s })
            }
            (Some(passed), None) => {
                SearchState::Search(Tested::new((passed * BRACKET_UP).min(rate_max), Phase::Bracket))
            }
            (None, Some(failed)) if failed <= rate_min => self.settle(Ending::NothingPasses),
            (None, failed) => {
                let failed = failed.expect("the load just judged passed or failed");
                SearchState::Search(Tested::new((failed * BRACKET_DOWN).max(rate_min), Phase::Bracket))
            }
        }
    }

    /// The search is over; what passed is to be confirmed.
    fn settle(&mut self, ending: Ending) -> SearchState {
        self.ending = ending;
        self.passed.map_or(SearchState::Ended, to_confirm)
    }

    fn confirming(
        &mut self,
        mut candidate: Tested,
        mut control: Tested,
        measurement: Measurement,
        number: usize,
    ) -> SearchState {
        if control.measurements.len() > candidate.measurements.len() {
            candidate.add(measurement, number);
        } else {
            control.add(measurement, number);
            if control.invalid <= self.rules.invalid_max {
                return SearchState::Confirm { candidate, control };
            }
        }
        let verdict = if control.invalid > self.rules.invalid_max {
            Verdict::Invalid
        } else {
            match candidate.verdict(&self.rules) {
                Some(verdict) => verdict,
                None => return SearchState::Confirm { candidate, control },
            }
        };
        // With its trials unfinished it is not judged: only a certain failure says that the machine has changed.
        let control_verdict = control.verdict(&self.rules).unwrap_or(Verdict::Undecided);
        self.curve.push(control.point(control_verdict));
        self.curve.push(candidate.point(verdict));
        match verdict {
            Verdict::Invalid => self.end(Ending::GeneratorInvalid { per_s: candidate.per_s }),
            _ if control_verdict == Verdict::Fail => self.end(Ending::ControlFailed),
            Verdict::Pass => self.confirm(candidate.per_s),
            Verdict::Fail | Verdict::Undecided => self.step_down(candidate.per_s),
        }
    }

    fn step_down(&mut self, failed: f64) -> SearchState {
        self.failed = Some(failed);
        self.passed = self.highest_passed_below(failed);
        self.candidates += 1;
        let next = failed / self.rules.precision;
        // Back at a load that passed twice already, before a recheck led further up.
        if let Some(confirmed) = self.confirmed.filter(|confirmed| next <= *confirmed) {
            return self.confirm(confirmed);
        }
        if self.candidates >= self.rules.candidates_max || next < self.rules.rate_min {
            if self.confirmed.is_some() {
                return self.end(Ending::Exhausted);
            }
            self.passed = None;
            return self.end(Ending::NeverConfirmed);
        }
        // What passed once and not twice was not limited by the generator: the target's limit is below it.
        self.ending = Ending::Converged;
        to_confirm(next)
    }

    fn highest_passed_below(&self, failed: f64) -> Option<f64> {
        let passed = self.curve.iter().filter(|point| point.verdict == Verdict::Pass && point.per_s < failed);
        passed.map(|point| point.per_s).max_by(f64::total_cmp)
    }

    fn confirm(&mut self, per_s: f64) -> SearchState {
        self.confirmed = Some(per_s);
        self.passed = Some(per_s);
        match self.failed {
            Some(failed) if self.rechecks < self.rules.rechecks_max => {
                self.rechecks += 1;
                SearchState::Search(Tested::new(failed, Phase::Recheck))
            }
            _ => SearchState::Overload { invalid: 0 },
        }
    }

    /// Without confirming the candidate; what passed twice before it stays.
    fn end(&mut self, ending: Ending) -> SearchState {
        self.ending = ending;
        if ending == Ending::ControlFailed {
            // What was confirmed before was confirmed on another machine than this one is now.
            self.confirmed = None;
        }
        if self.confirmed.is_none() {
            return SearchState::Ended;
        }
        self.passed = self.confirmed;
        SearchState::Overload { invalid: 0 }
    }

    fn peak(&self) -> f64 {
        self.passed.expect("overload and recovery follow a load that passed")
    }

    fn overload(&self) -> f64 {
        (self.peak() * OVERLOAD_FACTOR).min(self.rules.rate_max)
    }

    fn overloaded(&mut self, measurement: Measurement, invalid: usize) -> SearchState {
        // It is shown, and decides nothing: the target may be recovering from it either way.
        if measurement == Measurement::Invalid && invalid < self.rules.invalid_max {
            return SearchState::Overload { invalid: invalid + 1 };
        }
        self.recovered = Some(false);
        SearchState::Recover { probes: 0 }
    }

    fn recovering(&mut self, measurement: Measurement, probes: usize) -> SearchState {
        match measurement {
            Measurement::Valid(seen) if !seen.is_over(self.rules.limits) => {
                self.recovered = Some(true);
                SearchState::Ended
            }
            _ if probes + 1 >= self.rules.probes_max => SearchState::Ended,
            _ => SearchState::Recover { probes: probes + 1 },
        }
    }
}

fn to_confirm(per_s: f64) -> SearchState {
    SearchState::Confirm {
        candidate: Tested::new(per_s, Phase::Confirm),
        control: Tested::new(per_s * CONTROL_SHARE, Phase::Control),
    }
}

#[cfg(test)]
mod tests;
