//! What the readable forms of the report say in the same words: flags, verdicts, and tables of names and values.
//!
//! No markup: each form escapes and marks up by itself.

use std::mem::discriminant;

use indexmap::IndexMap;

use super::format::{duration, figure, number, percent, time_us, utc};
use super::model::{Audit, Case, EngineSettings, Flag, Report, ScenarioReport, Size, Verdict};
use super::statistics::REPEATS_FOR_INTERVAL;
use super::verdict;
use crate::measure::disturbance;

/// Begins the line of a trial of which nothing may be quoted.
const INVALID: &str = "INVALID";
/// Begins the line of one whose figures are to be read with care.
const TO_NOTE: &str = "NOTE";

pub(super) fn flag(flag: &Flag) -> String {
    let count = |of: &u64| number(*of as f64);
    let time = |of: &u64| time_us(*of as f64);
    match flag {
        Flag::CoLocated => "co-located: generator and target share this machine's processors".to_owned(),
        Flag::InFlightCap { cap, times } => {
            format!("the cap of {} requests in flight was hit {} times", count(cap), count(times))
        }
        Flag::SendLag { p99_us, most_us } => format!(
            "the generator was late: p99 of the send lag {}, at most {} allowed",
            time(p99_us),
            time(most_us)
        ),
        Flag::GeneratorBusy { share, most } => format!(
            "a thread of the generator used {} of its processor, at most {} allowed",
            percent(*share),
            percent(*most)
        ),
        Flag::Steal { share, most } => {
            let (took, most) = (percent(*share), percent(*most));
            format!("the hypervisor took {took} of the processors, at most {most} allowed")
        }
        Flag::SlowTail { seconds, share, most } => format!(
            "the last answers came {} after the time was up, so the rate is {} too low, at most {} allowed",
            figure(*seconds, "s"),
            percent(*share),
            percent(*most)
        ),
        Flag::NotCarried { requests, of } => format!(
            "{} of {} requests were refused as limited or busy, failed, or are unknown: the times are of all answers",
            count(requests),
            count(of)
        ),
        Flag::Disturbed { processors, most } => {
            format!("other work used {processors:.1} processors, at most {most:.1} allowed")
        }
        Flag::Stray { answers } => {
            format!("{} answers were followed by bytes that nobody had asked for", count(answers))
        }
        Flag::Unsent { requests } => format!("{} requests were due and never sent", count(requests)),
    }
}

/// One line for each kind of flag of a scenario, with the cases that have it.
pub(super) fn flags(scenario: &ScenarioReport, size: Size) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    let trials = || scenario.cases.iter().flat_map(|case| &case.trials);
    if trials().any(|trial| trial.flags.contains(&Flag::CoLocated)) {
        lines.push(flag(&Flag::CoLocated));
    }
    lines.extend(doubts_of_scenario(scenario, size));
    lines
}

/// The same without what holds of all.
pub(super) fn doubts_of_scenario(scenario: &ScenarioReport, size: Size) -> Vec<String> {
    let mut lines: Vec<String> = scenario.cases.iter().flat_map(doubts).collect();
    lines.extend(verdict::samples(scenario, size));
    lines
}

/// `6 x 3 s, 765,000 requests`.
pub(super) fn sample(repeats: usize, seconds: f64, requests: u64) -> String {
    let times = if repeats == 1 { String::new() } else { format!("{repeats} x ") };
    let each = figure(seconds / repeats.max(1) as f64, "s");
    let asked = if requests == 0 { String::new() } else { format!(", {} requests", number(requests as f64)) };
    format!("{times}{each}{asked}")
}

/// The same of all repeats; a dash where nobody noted them.
pub(super) fn sample_of(samples: &[(f64, u64)]) -> String {
    let (seconds, requests) = (samples.iter().map(|of| of.0).sum(), samples.iter().map(|of| of.1).sum());
    if samples.is_empty() { "-".to_owned() } else { sample(samples.len(), seconds, requests) }
}

/// Flags of one kind are shown once, by the first of them.
fn doubts(case: &Case) -> Vec<String> {
    let of_trials = case.trials.iter().flat_map(|of| of.flags.iter().cloned().map(|flag| (of.repeat, flag)));
    let of_samples =
        (1..).zip(&case.samples).filter_map(|(repeat, of)| Some((repeat, disturbance(&of.usage)?)));
    let mut kinds: IndexMap<_, (Flag, Vec<String>)> = IndexMap::new();
    for (repeat, of) in of_trials.chain(of_samples).filter(|(_, of)| *of != Flag::CoLocated) {
        let (_, repeats) = kinds.entry(discriminant(&of)).or_insert((of, Vec::new()));
        repeats.push(repeat.to_string());
    }
    let line = |(of, repeats): (Flag, Vec<String>)| {
        let first = if repeats.len() > 1 { " (the first of them)" } else { "" };
        let kind = if of.forbids_quoting() { INVALID } else { TO_NOTE };
        format!("{kind}: {}, repeat {}: {}{first}", case.name, repeats.join(", "), flag(&of))
    };
    kinds.into_values().map(line).collect()
}

pub(crate) fn verdict_of_load(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Pass => "pass",
        Verdict::Fail => "fail",
        Verdict::Undecided => "undecided",
        Verdict::Invalid => "invalid",
    }
}

pub(super) fn audit(audit: &Audit) -> String {
    let Audit { initial_units, remaining_units, held_units, sold_units, accepted, unknown, orders, method } =
        audit;
    let [initial, remaining, held, sold, accepted, unknown, orders] =
        [initial_units, remaining_units, held_units, sold_units, accepted, unknown, orders]
            .map(|n| number(*n as f64));
    format!(
        "{initial} units at first = {remaining} remaining + {held} held + {sold} sold; {accepted} orders accepted, \
         {unknown} with an unknown outcome, {orders} in the ledger ({method})"
    )
}

pub(super) fn engine(engine: &EngineSettings) -> String {
    let settings =
        engine.settings.iter().map(|(name, value)| format!("{name} = {value}")).collect::<Vec<_>>();
    format!("{} {}: {}", engine.engine, engine.version, settings.join(", "))
}

/// What holds of the whole report, as names and values.
pub(super) fn environment(report: &Report) -> Vec<(&'static str, String)> {
    let environment = &report.environment;
    let size = match report.size {
        Size::Quick => "quick: one repeat, no intervals; not to be compared with other runs",
        Size::Full => "full: the published sizes",
    };
    vec![
        ("program", report.program.clone()),
        ("build", said(&environment.build).to_owned()),
        ("sources", report.git_revision.clone().unwrap_or_else(|| "unknown".to_owned())),
        ("command", report.command.join(" ")),
        ("started", utc(report.started_unix_s)),
        ("took", duration(report.elapsed_s)),
        ("size", size.to_owned()),
        ("repeats", repeats(report.repeats)),
        ("seed", report.seed.to_string()),
        ("processor", format!("{}, {} of them", environment.processor, environment.processors)),
        ("governor", environment.governor.clone()),
        ("cgroup limits", environment.cgroup_limits()),
        ("memory", format!("{} MiB, swap {} MiB", environment.memory_mib, environment.swap_mib)),
        ("kernel", environment.kernel.clone()),
        ("file system of the data", environment.file_system.clone()),
        ("load before", environment.load_before.clone()),
        ("nginx", environment.nginx.clone()),
        (
            "generator",
            match (environment.co_located, environment.generator.as_str()) {
                (true, "") => "on the target's machine".to_owned(),
                (true, rank) => format!("on the target's machine, {rank}"),
                (false, _) => "on a machine of its own".to_owned(),
            },
        ),
    ]
}

/// What earlier reports don't have.
pub(super) fn said(value: &str) -> &str {
    if value.is_empty() { "not said" } else { value }
}

fn repeats(repeats: usize) -> String {
    if repeats < REPEATS_FOR_INTERVAL {
        format!("{repeats}; intervals need {REPEATS_FOR_INTERVAL}, so none is shown")
    } else {
        format!("{repeats}; intervals cover the true median with at least 95%")
    }
}
