//! Whether a report may be relied upon, and the one sentence that says so: every form of a report begins with it.
//!
//! The rules and their bounds are in `docs/decisions/027-verdict.md`. Pure: it reads the report alone, so a report of
//! last year is judged by the rules of today.

mod search;

use super::figures::{self, Figure};
use super::format::{figure, number};
use super::model::{Case, Flag, Limiter, Report, ScenarioReport, Size, Trial};
use super::words;
use crate::host::limit::{NOTHING_USED_UP, is_free, load_is_full, load_is_limit};
use crate::host::usage::Usage;
use crate::measure::{NOTED_MIN_S, disturbance};

/// A figure rests on a time and on a number of requests, in each repeat; of less than these it is not quoted.
pub const SAMPLE_MIN_S: f64 = 3.0;
pub const SAMPLE_MIN_REQUESTS: u64 = 10_000;

/// Its generator is what it measures.
const MEASURES_THE_GENERATOR: &str = "self-check";

/// Why a short sample is one on purpose.
const SHORT_ON_PURPOSE: [(&str, Short, &str); 9] = [
    ("redis-persistence", Short::Published, AS_PUBLISHED),
    ("redis-cluster", Short::Published, AS_PUBLISHED),
    ("rocketmq-producer", Short::Few, SYNCED),
    ("message-broker", Short::Few, SYNCED),
    ("mysql-commit", Short::Few, SYNCED),
    ("submit-order", Short::Few, SYNCED),
    ("durability", Short::Few, SYNCED),
    ("rocketmq-consumer", Short::Any, A_BACKLOG),
    ("peak", Short::Any, "a load is judged by several trials"),
];
const AS_PUBLISHED: &str = "as many requests are sent as in the published experiment";
const A_BACKLOG: &str = "a backlog ends when it is consumed; the other messages come at a fixed rate";
const SYNCED: &str = "each request waits for a disk, so there are few of them in any time";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Short {
    /// At the published size the number of requests is given, whatever time they take, if that can be watched.
    Published,
    /// Of any size: few requests, in time enough.
    Few,
    /// Of any length.
    Any,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Grade {
    Valid,
    /// Its figures are right in kind, and too weak to be quoted.
    NotToBeQuoted,
    /// Something was wrong with what was measured, or with how.
    Invalid,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    pub grade: Grade,
    pub sentence: String,
}

impl Verdict {
    pub fn is_invalid(&self) -> bool {
        self.grade == Grade::Invalid
    }
}

/// What was measured at one setting, wherever a report has it.
struct Measured<'a> {
    scenario: &'a str,
    case: &'a Case,
    trials: Vec<&'a Trial>,
}

impl Measured<'_> {
    fn is(&self, figure: &Figure<'_>) -> bool {
        figure.scenario == self.scenario && figure.case.name == self.case.name
    }

    /// As a sentence names it.
    fn name(&self) -> String {
        format!("{}, {}", self.scenario, self.case.name)
    }

    /// A rate of which nobody noted how long it was measured, and by how many requests.
    fn is_unnoted(&self) -> bool {
        let Case { trials, samples, metrics, .. } = self.case;
        trials.is_empty() && samples.is_empty() && metrics.first().is_some_and(|of| of.unit == "1/s")
    }
}

pub fn of(report: &Report) -> Verdict {
    let mut verdict = judged(report);
    if let Some(warning) = report.warning().filter(|_| verdict.is_invalid()) {
        verdict.sentence += &format!("; {warning}");
    }
    verdict
}

fn judged(report: &Report) -> Verdict {
    let invalid = |why: String| Verdict { grade: Grade::Invalid, sentence: format!("INVALID: {why}") };
    if let Some(why) = report.unfit().or_else(|| contradiction(report)) {
        return invalid(why);
    }
    if let Some(case) = report.carried_nothing() {
        return invalid(format!(
            "{case}: not one request of a trial was carried, all were refused, failed or are unknown"
        ));
    }
    let measured = measured(report);
    let doubts: Vec<(&Measured<'_>, String)> =
        measured.iter().filter_map(|of| Some((of, doubt(of, report.size)?))).collect();
    if let Some((first, why)) = doubts.first() {
        if doubts.len() == measured.len() {
            return invalid(why.clone());
        }
        let cases = format!("INVALID in {} of {} cases, as {}", doubts.len(), measured.len(), first.name());
        // Of the others none that is too short, and none whose load nobody watched.
        let weak =
            measured.iter().filter(|of| doubt(of, report.size).is_some() || short(of, report.size).is_some());
        let rest = headline(report, &weak.collect::<Vec<_>>());
        let rest = rest.map(|rest| format!("; of the others: {rest}")).unwrap_or_default();
        return Verdict { grade: Grade::Invalid, sentence: format!("{cases}: {why}{rest}") };
    }
    if let Some(why) = report.scenarios.iter().find_map(search::unfound) {
        return invalid(why);
    }
    let Some(said) = headline(report, &[]) else {
        return invalid("nothing was measured".to_owned());
    };
    let (grade, word) = match weakness(report, &measured) {
        Some(why) => (Grade::NotToBeQuoted, format!("NOT TO BE QUOTED: {why}; ")),
        None => (Grade::Valid, "valid, ".to_owned()),
    };
    let place = if report.environment.co_located { "co-located" } else { "the load from another machine" };
    let repeats = match report.repeats {
        // A search repeats its loads as it needs to.
        _ if report.scenarios.iter().any(|of| of.search.is_some()) => String::new(),
        1 => ", 1 repeat".to_owned(),
        repeats => format!(", {repeats} repeats"),
    };
    let unfinished: Vec<&str> = report.failures.iter().map(|failed| failed.name.as_str()).collect();
    let unfinished = if unfinished.is_empty() {
        String::new()
    } else {
        format!("; not finished: {}", unfinished.join(", "))
    };
    Verdict { grade, sentence: format!("{word}{place}{repeats}: {said}{unfinished}") }
}

/// Of a search only the loads that decided it, and of those what counted: it makes a spoiled trial again.
fn measured(report: &Report) -> Vec<Measured<'_>> {
    let cases = report.scenarios.iter().flat_map(|of| of.cases.iter().map(move |case| (of, case)));
    let judged = |of: &ScenarioReport, case: &Case| match &case.load {
        Some(load) => load.decides,
        None => of.search.is_none(),
    };
    cases
        .filter(|(of, case)| judged(of, case))
        .map(|(of, case)| Measured {
            scenario: &of.name,
            case,
            trials: case.trials.iter().filter(|of| case.load.is_none() || of.is_valid()).collect(),
        })
        .collect()
}

/// Why nothing may be quoted of it, if anything may not.
fn doubt(of: &Measured<'_>, size: Size) -> Option<String> {
    let trials = || of.trials.iter().copied();
    let spoiled = trials().flat_map(|trial| &trial.flags).find(|flag| flag.invalidates()).map(words::flag);
    let disturbed = || {
        let of_samples =
            || of.case.samples.iter().find_map(|of| words_of(&disturbance(&of.usage)?, Some(&of.usage)));
        trials().find_map(disturbed).or_else(of_samples)
    };
    let generator = || {
        let share = trials().filter(|_| of.scenario != MEASURES_THE_GENERATOR).find_map(load_is_limit)?;
        Some(format!("the load generator was the limit: it used {:.0}% of a processor", share * 100.0))
    };
    let short = || {
        let said = short(of, size).filter(|_| size == Size::Full)?;
        Some(format!("too short a sample: {said}"))
    };
    spoiled.or_else(disturbed).or_else(generator).or_else(short)
}

fn disturbed(trial: &Trial) -> Option<String> {
    trial.flags.iter().find_map(|flag| words_of(flag, trial.usage.as_ref()))
}

/// Of other work alone.
fn words_of(flag: &Flag, usage: Option<&Usage>) -> Option<String> {
    let Flag::Disturbed { processors: used, .. } = flag else { return None };
    Some(match usage {
        Some(usage) => {
            format!("other work took {:.0}% of the processors", used / usage.processors as f64 * 100.0)
        }
        None => format!("other work took {used:.1} processors"),
    })
}

/// What the first short sample of a case is, unless there is a reason for it.
fn short(of: &Measured<'_>, size: Size) -> Option<String> {
    if of.is_unnoted() {
        return Some("nobody noted its time and requests".to_owned());
    }
    let (seconds, requests) = samples_of(of.case).into_iter().find(|of| is_short(*of))?;
    match reason(of.scenario) {
        Some((Short::Published, _)) if size == Size::Full && seconds >= NOTED_MIN_S => None,
        Some((Short::Few, _)) if has_time(seconds) => None,
        Some((Short::Any, _)) => None,
        _ => Some(words::sample(1, seconds, requests)),
    }
}

/// Why samples of a scenario may be short.
fn reason(scenario: &str) -> Option<(Short, &'static str)> {
    let (_, kind, why) = SHORT_ON_PURPOSE.iter().find(|(name, ..)| *name == scenario)?;
    Some((*kind, why))
}

/// Seconds and requests of what counts; without requests, what is timed lasts as long as it does.
fn samples_of(case: &Case) -> Vec<(f64, u64)> {
    let trials = case.valid().map(|trial| (trial.seconds, trial.outcomes.total()));
    let others = case.samples.iter().filter(|of| of.requests > 0).map(|of| (of.seconds, of.requests));
    trials.chain(others).collect()
}

fn is_short((seconds, requests): (f64, u64)) -> bool {
    !has_time(seconds) || requests < SAMPLE_MIN_REQUESTS
}

/// To a tenth of a second: an open loop ends with its last answer.
fn has_time(seconds: f64) -> bool {
    (seconds * 10.0).round() >= SAMPLE_MIN_S * 10.0
}

/// A line on the short samples of a scenario, if it has some.
pub(super) fn samples(scenario: &ScenarioReport, size: Size) -> Option<String> {
    let cases = || scenario.cases.iter().map(samples_of).filter(|samples| !samples.is_empty());
    let (all, few) = (cases().count(), cases().filter(|of| of.iter().copied().any(is_short)).count());
    let why = match reason(&scenario.name) {
        Some((kind, why)) if kind != Short::Published || size == Size::Full => why,
        _ => "not to be quoted",
    };
    let least = number(SAMPLE_MIN_REQUESTS as f64);
    (few > 0).then(|| {
        format!("samples of less than {SAMPLE_MIN_S} s or {least} requests in {few} of {all} cases: {why}")
    })
}

/// Why what is right is too weak to be quoted.
fn weakness(report: &Report, measured: &[Measured<'_>]) -> Option<String> {
    if let Some(warning) = report.warning() {
        return Some(warning.to_owned());
    }
    let few = measured.iter().filter(|of| short(of, report.size).is_some()).count();
    let least = number(SAMPLE_MIN_REQUESTS as f64);
    (few > 0).then(|| {
        format!("{few} of {} cases rest on less than {SAMPLE_MIN_S} s or {least} requests", measured.len())
    })
}

/// "Nothing was used up, processors 86% busy": by the trial of the highest rate of the case that the limiter names, or of all.
/// A reference beside it may be quicker, and use up what it leaves.
fn contradiction(report: &Report) -> Option<String> {
    let says = |limiter: &Option<Limiter>| {
        let lines = limiter.iter().flat_map(|of| std::iter::once(&of.what).chain(&of.evidence));
        lines.into_iter().any(|line| line.to_lowercase().contains(&NOTHING_USED_UP.to_lowercase()))
    };
    let others = report.scenarios.iter().filter(|of| of.search.is_none());
    others.filter(|of| says(&of.limiter)).find_map(|of| {
        let said = of.limiter.iter().flat_map(|limiter| &limiter.evidence).next();
        let named = of
            .cases
            .iter()
            .find(|case| said.is_some_and(|said| said.starts_with(&format!("{}: ", case.name))));
        let cases = named.map_or(&*of.cases, std::slice::from_ref);
        let trials =
            cases.iter().flat_map(|case| &case.trials).filter(|of| of.is_valid() && of.usage.is_some());
        let usage = trials.max_by(|a, b| a.good_per_s().total_cmp(&b.good_per_s()))?.usage.as_ref()?;
        (!is_free(usage)).then(|| {
            format!(
                "{} contradicts itself: nothing was used up, and the processors were {:.0}% busy",
                of.name,
                usage.machine_busy * 100.0
            )
        })
    })
}

/// The figure that is quoted: the peak, or else the highest rate of the scenario that is nearest to an order.
fn headline(report: &Report, left_out: &[&Measured<'_>]) -> Option<String> {
    if let Some(quoted) = report.scenarios.iter().find_map(search::quoted) {
        return Some(quoted).filter(|_| left_out.iter().all(|of| of.scenario != search::NAME));
    }
    let cases = report.scenarios.iter().flat_map(|of| of.cases.iter().map(move |case| (of, case)));
    let first_of_cases: Vec<_> = cases.filter_map(|(of, case)| figures::of_case(of, case).next()).collect();
    let sound = || {
        let is_in = |figure: &Figure<'_>| left_out.iter().all(|of| !of.is(figure));
        let watched = |figure: &Figure<'_>| left_out.is_empty() || !figure.samples.is_empty();
        first_of_cases
            .iter()
            .filter(move |of| !of.case.reference && of.median().is_some() && is_in(of) && watched(of))
    };
    let is_rate = |of: &&Figure<'_>| of.metric.unit == "1/s";
    let rates = || sound().filter(is_rate);
    let scenario = rates().find(|of| of.counts_orders()).or_else(|| rates().next());
    let quoted = match scenario {
        Some(first) => rates()
            .filter(|of| of.scenario == first.scenario && of.counts_orders() == first.counts_orders())
            .max_by(|a, b| a.median().unwrap_or_default().total_cmp(&b.median().unwrap_or_default())),
        None => sound().next(),
    }?;
    let name = if first_of_cases.len() > 1 {
        format!("{}, {}: ", quoted.scenario, quoted.case.name)
    } else {
        String::new()
    };
    Some(name + &quote(quoted))
}

/// `9,519 orders/s (9,400 to 9,640)`, `p99 of all answers 35.9 ms`.
fn quote(of: &Figure<'_>) -> String {
    let (median, unit) = (of.median().unwrap_or_default(), &of.metric.unit);
    let least = if is_lower_bound(of) { "at least " } else { "" };
    let said = if of.counts_orders() {
        format!("{least}{} orders/s", number(median))
    } else if unit == "1/s" {
        format!("{least}{}", figure(median, unit))
    } else {
        format!("{} {}", of.metric.name, figure(median, unit))
    };
    let short = |value| if unit == "1/s" { number(value) } else { figure(value, unit) };
    let interval = of.interval().map(|of| format!(" ({} to {})", short(of.low), short(of.high)));
    said + &interval.unwrap_or_default()
}

/// The generator had no time left either, so the target might have done more.
fn is_lower_bound(of: &Figure<'_>) -> bool {
    of.scenario != MEASURES_THE_GENERATOR && of.case.valid().any(load_is_full)
}

pub use self::search::nothing_passes;

#[cfg(test)]
mod tests;
