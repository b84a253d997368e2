//! What the readable forms of the report say in the same words: flags, verdicts, and tables of names and values.
//!
//! No markup: each form escapes and marks up by itself.

use std::mem::discriminant;

use super::figures;
use super::format::{duration, figure, number, percent, time_us, times, utc};
use super::model::{
    Audit, Case, DurabilityRow, EngineSettings, Flag, PeakPoint, PeakReport, Report, ScenarioReport, Size,
    Trial, Verdict,
};
use super::statistics::REPEATS_FOR_INTERVAL;

/// Begins the line of a trial whose figures say nothing.
const INVALID: &str = "INVALID";
/// Begins the line of one whose figures are to be read with care.
const TO_NOTE: &str = "NOTE";

pub(super) fn flag(flag: &Flag) -> String {
    match flag {
        Flag::CoLocated => "co-located: generator and target share this machine's processors".to_owned(),
        Flag::InFlightCap { cap, times } => {
            format!(
                "the cap of {} requests in flight was hit {} times",
                number(*cap as f64),
                number(*times as f64)
            )
        }
        Flag::SendLag { p99_us, most_us } => format!(
            "the generator was late: p99 of the send lag {}, at most {} allowed",
            time_us(*p99_us as f64),
            time_us(*most_us as f64)
        ),
        Flag::GeneratorBusy { share, most } => {
            format!(
                "a thread of the generator used {} of its processor, at most {} allowed",
                percent(*share),
                percent(*most)
            )
        }
        Flag::Steal { share, most } => {
            format!(
                "the hypervisor took {} of the processors, at most {} allowed",
                percent(*share),
                percent(*most)
            )
        }
        Flag::SlowTail { seconds, share, most } => format!(
            "the last answers came {} after the time was up, so the rate is {} too low, at most {} allowed",
            figure(*seconds, "s"),
            percent(*share),
            percent(*most)
        ),
        Flag::NotCarried { requests, of } => format!(
            "{} of {} requests were refused as limited or busy, failed, or are unknown: the times are of all answers",
            number(*requests as f64),
            number(*of as f64)
        ),
        Flag::Disturbed { processors, most } => {
            format!("work that is not ours used {processors:.1} processors, which is told from {most:.1} on")
        }
        Flag::Stray { answers } => {
            format!("{} answers were followed by bytes that nobody had asked for", number(*answers as f64))
        }
        Flag::Unsent { requests } => format!("{} requests were due and never sent", number(*requests as f64)),
    }
}

/// One line for each kind of flag of a scenario, with the cases that have it.
pub(super) fn flags(scenario: &ScenarioReport) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    let trials = || scenario.cases.iter().flat_map(|case| &case.trials);
    if trials().any(|trial| trial.flags.contains(&Flag::CoLocated)) {
        lines.push(flag(&Flag::CoLocated));
    }
    lines.extend(scenario.cases.iter().flat_map(|case| doubts(&case.name, &case.trials)));
    lines
}

/// The same of the loads of a search.
pub(super) fn peak_flags(peak: &PeakReport) -> Vec<String> {
    let of_point =
        |point: &PeakPoint| doubts(&format!("{}, {}", figure(point.rate, "1/s"), point.phase), &point.trials);
    peak.curve.iter().flat_map(of_point).collect()
}

/// The same of the price list.
pub(super) fn durability_flags(rows: &[DurabilityRow]) -> Vec<String> {
    rows.iter().flat_map(|row| doubts(&figures::combination(row), &row.trials)).collect()
}

/// What is told of a row beside its figures.
pub(super) fn durability_notes(row: &DurabilityRow) -> Vec<String> {
    let engines = row.engines.iter().map(|of| format!("as it said itself: {}", engine(of)));
    let audits = row.audit.iter().map(|of| format!("audit, clean: {}", audit(of)));
    row.notes.iter().cloned().chain(engines).chain(audits).collect()
}

/// Flags of one kind are told once, by the first of them.
pub(super) fn doubts(name: &str, trials: &[Trial]) -> Vec<String> {
    let mut told: Vec<(&Flag, Vec<String>)> = Vec::new();
    for trial in trials {
        for of in trial.flags.iter().filter(|of| **of != Flag::CoLocated) {
            match told.iter_mut().find(|(flag, _)| discriminant(*flag) == discriminant(of)) {
                Some((_, repeats)) => repeats.push(trial.repeat.to_string()),
                None => told.push((of, vec![trial.repeat.to_string()])),
            }
        }
    }
    let line = |(of, repeats): (&Flag, Vec<String>)| {
        let first = if repeats.len() > 1 { " (the first of them)" } else { "" };
        let kind = if of.invalidates() { INVALID } else { TO_NOTE };
        format!("{kind}: {name}, repeat {}: {}{first}", repeats.join(", "), flag(of))
    };
    told.into_iter().map(line).collect()
}

pub(super) fn verdict(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Pass => "pass",
        Verdict::Fail => "fail",
        Verdict::Undecided => "undecided",
        Verdict::Invalid => "invalid",
    }
}

pub(super) fn holds(holds: Option<bool>) -> &'static str {
    match holds {
        Some(true) => "found again",
        Some(false) => "NOT found",
        None => "can't be judged here",
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
        ("sources", report.git_revision.clone().unwrap_or_else(|| "not at hand".to_owned())),
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
            if environment.co_located { "on the target's machine" } else { "on a machine of its own" }
                .to_owned(),
        ),
    ]
}

fn repeats(repeats: usize) -> String {
    if repeats < REPEATS_FOR_INTERVAL {
        format!("{repeats}; intervals need {REPEATS_FOR_INTERVAL}, so none is shown")
    } else {
        format!("{repeats}; intervals cover the true median with at least 95%")
    }
}

/// The cells of a row of figures, without marks.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) case: String,
    pub(super) metric: String,
    pub(super) published: String,
    pub(super) dubious: Option<String>,
    pub(super) measured: String,
    pub(super) interval: String,
    pub(super) ratio: String,
    /// Trials that don't count.
    pub(super) invalid: usize,
}

pub(super) fn rows(scenario: &str, case: &Case, figures: &[figures::Figure]) -> Vec<Row> {
    let invalid = case.trials.iter().filter(|trial| !trial.is_valid()).count();
    let of_case = figures.iter().filter(|figure| figure.scenario == scenario && figure.case == case.name);
    of_case
        .map(|of| Row {
            case: of.case.clone(),
            metric: of.metric.clone(),
            published: of.published.as_ref().map(|of_it| figure(of_it.value, &of.unit)).unwrap_or_default(),
            dubious: of.published.as_ref().and_then(|published| published.dubious.clone()),
            measured: of
                .median()
                .map_or_else(|| "not measured".to_owned(), |median| figure(median, &of.unit)),
            interval: of
                .interval()
                .map(|interval| {
                    format!("{} to {}", figure(interval.low, &of.unit), figure(interval.high, &of.unit))
                })
                .unwrap_or_default(),
            ratio: of.ratio().map(times).unwrap_or_default(),
            invalid,
        })
        .collect()
}
