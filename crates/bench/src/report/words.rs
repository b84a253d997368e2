//! What the readable forms of the report say in the same words: flags, verdicts, and tables of names and values.
//!
//! No markup: each form escapes and marks up by itself.

use std::mem::discriminant;

use super::figures;
use super::format::{duration, figure, number, percent, time_us, utc};
use super::model::{
    Audit, DurabilityRow, EngineSettings, Flag, Kill, Limiter, Overload, PeakPoint, PeakReport, Report,
    ScenarioReport, Shape, Size, ThresholdResult, Trial, Verdict,
};
use super::statistics::{REPEATS_FOR_INTERVAL, median};
use super::verdict;

/// Begins the line of a trial of which nothing may be quoted.
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
            format!("other work used {processors:.1} processors, at most {most:.1} allowed")
        }
        Flag::Stray { answers } => {
            format!("{} answers were followed by bytes that nobody had asked for", number(*answers as f64))
        }
        Flag::Unsent { requests } => format!("{} requests were due and never sent", number(*requests as f64)),
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
    let mut lines: Vec<String> =
        scenario.cases.iter().flat_map(|case| doubts(&case.name, &case.trials)).collect();
    let loaded = scenario.cases.iter().map(|case| case.trials.as_slice()).filter(|trials| !trials.is_empty());
    lines.extend(verdict::samples(&scenario.name, size, loaded));
    lines
}

/// `6 x 3 s, 765,000 requests`.
pub(super) fn sample(repeats: usize, seconds: f64, requests: u64) -> String {
    let times = if repeats == 1 { String::new() } else { format!("{repeats} x ") };
    let each = figure(seconds / repeats.max(1) as f64, "s");
    format!("{times}{each}, {} requests", number(requests as f64))
}

/// The same of all repeats; a dash where no load was run.
pub(super) fn sample_of(samples: &[(f64, u64)]) -> String {
    let (seconds, requests) = (samples.iter().map(|of| of.0).sum(), samples.iter().map(|of| of.1).sum());
    if samples.is_empty() { "-".to_owned() } else { sample(samples.len(), seconds, requests) }
}

/// The same of the loads of a search, and of its overload.
pub(super) fn peak_flags(peak: &PeakReport) -> Vec<String> {
    let of_point = |point: &PeakPoint| doubts(&format!("{}, {}", offered(point), point.phase), &point.trials);
    let overload = peak.overload.iter().flat_map(|of| doubts("overload", std::slice::from_ref(&of.trial)));
    peak.curve.iter().flat_map(of_point).chain(overload).collect()
}

/// The same of the price list.
pub(super) fn durability_flags(rows: &[DurabilityRow], size: Size) -> Vec<String> {
    let doubts = rows.iter().flat_map(|row| doubts(&figures::combination(row), &row.trials));
    doubts.chain(verdict::samples("durability", size, rows.iter().map(|row| &*row.trials))).collect()
}

/// What is shown of a row beside its figures.
pub(super) fn durability_notes(row: &DurabilityRow) -> Vec<String> {
    let engines = row.engines.iter().map(|of| format!("as it said itself: {}", engine(of)));
    let audits = row.audit.iter().map(|of| format!("audit, clean: {}", audit(of)));
    row.notes.iter().cloned().chain(engines).chain(audits).collect()
}

/// Flags of one kind are shown once, by the first of them.
pub(super) fn doubts(name: &str, trials: &[Trial]) -> Vec<String> {
    let mut kinds: Vec<(&Flag, Vec<String>)> = Vec::new();
    for trial in trials {
        for of in trial.flags.iter().filter(|of| **of != Flag::CoLocated) {
            match kinds.iter_mut().find(|(flag, _)| discriminant(*flag) == discriminant(of)) {
                Some((_, repeats)) => repeats.push(trial.repeat.to_string()),
                None => kinds.push((of, vec![trial.repeat.to_string()])),
            }
        }
    }
    let line = |(of, repeats): (&Flag, Vec<String>)| {
        let first = if repeats.len() > 1 { " (the first of them)" } else { "" };
        let kind = if of.forbids_quoting() { INVALID } else { TO_NOTE };
        format!("{kind}: {name}, repeat {}: {}{first}", repeats.join(", "), flag(of))
    };
    kinds.into_iter().map(line).collect()
}

pub(super) fn verdict_of_load(verdict: Verdict) -> &'static str {
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
        ("build", said(&environment.build)),
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
            if environment.co_located { "on the target's machine" } else { "on a machine of its own" }
                .to_owned(),
        ),
    ]
}

/// What earlier reports don't have.
fn said(value: &str) -> String {
    if value.is_empty() { "not said".to_owned() } else { value.to_owned() }
}

fn repeats(repeats: usize) -> String {
    if repeats < REPEATS_FOR_INTERVAL {
        format!("{repeats}; intervals need {REPEATS_FOR_INTERVAL}, so none is shown")
    } else {
        format!("{repeats}; intervals cover the true median with at least 95%")
    }
}

/// The lists that stand below a scenario's tables: their titles, and their lines.
pub(super) fn lists_of_scenario(of: &ScenarioReport, size: Size) -> Vec<(String, Vec<String>)> {
    let mut lists: Vec<(String, Vec<String>)> = of.limiter.iter().map(limiter).collect();
    lists.extend([
        ("Scaled down".to_owned(), of.scaled_down.clone()),
        ("Notes".to_owned(), of.notes.clone()),
        ("Validity".to_owned(), flags(of, size)),
        ("Audit, clean".to_owned(), of.audit.iter().map(audit).collect()),
        ("Engines, as they said themselves".to_owned(), of.engines.iter().map(engine).collect()),
    ]);
    lists
}

/// The same of a search.
pub(super) fn lists_of_peak(of: &PeakReport) -> Vec<(String, Vec<String>)> {
    let mut lists: Vec<(String, Vec<String>)> = of.limiter.iter().map(limiter).collect();
    lists.extend([
        ("Validity".to_owned(), peak_flags(of)),
        ("Audit, clean".to_owned(), of.audit.iter().map(audit).collect()),
        ("Notes".to_owned(), of.notes.clone()),
    ]);
    lists
}

/// What a search found is whole sentences, which can't go on from a title's words.
fn limiter(of: &Limiter) -> (String, Vec<String>) {
    if of.what.ends_with('.') {
        return ("The limit".to_owned(), [std::slice::from_ref(&of.what), &of.evidence].concat());
    }
    (format!("Limited by {}", of.what), of.evidence.clone())
}

/// What nobody published is what we expect.
pub(super) fn shape_titles(of: &ScenarioReport) -> [&'static str; 4] {
    let beside = if of.reference.is_some() { "published" } else { "expected" };
    ["shape", beside, "measured", "result"]
}

pub(super) fn shape(of: &Shape) -> [String; 4] {
    [of.claim.clone(), of.published.clone(), of.measured.clone(), holds(of.holds).to_owned()]
}

pub(super) const THRESHOLD_TITLES: [&str; 3] = ["threshold", "measured", "result"];

pub(super) fn threshold(of: &ThresholdResult) -> [String; 3] {
    let measured = of.measured.map_or_else(|| "not measured".to_owned(), number);
    [of.threshold.clone(), measured, if of.met { "met" } else { "MISSED" }.to_owned()]
}

/// What a search came to, as names and values.
pub(super) fn peak_facts(peak: &PeakReport) -> [(&'static str, String); 7] {
    let rate = |rate: Option<f64>| rate.map_or_else(|| "none".to_owned(), |rate| figure(rate, "1/s"));
    let limit = format!(
        "p99 at most {}, errors at most {}",
        time_us(peak.p99_limit_us as f64),
        percent(peak.errors_limit)
    );
    [
        ("limit", limit),
        ("highest load that passed", rate(peak.highest_passed)),
        ("lowest load that failed", rate(peak.lowest_failed)),
        ("confirmed by interleaved repeats", if peak.confirmed { "yes" } else { "no" }.to_owned()),
        ("closed-loop maximum", rate(peak.closed_loop_max)),
        ("generator's own ceiling", rate(Some(peak.generator_ceiling))),
        ("idle noise, p99", time_us(peak.idle_noise_us.at(0.99) as f64)),
    ]
}

/// Every load of a search, the closed loop first and then by rate.
pub(super) fn loads(peak: &PeakReport) -> Vec<&PeakPoint> {
    let mut loads: Vec<&PeakPoint> = peak.curve.iter().collect();
    loads.sort_by(|a, b| b.is_closed_loop().cmp(&a.is_closed_loop()).then(a.rate.total_cmp(&b.rate)));
    loads
}

pub(super) const LOAD_TITLES: [&str; 7] = ["offered", "phase", "verdict", "good", "p99", "sample", "trials"];

/// Its figures are the medians of its valid trials.
pub(super) fn load(point: &PeakPoint) -> [String; 7] {
    let median_of = |value: fn(&Trial) -> f64, unit| {
        median(&point.valid().map(value).collect::<Vec<_>>()).map(|of| figure(of, unit)).unwrap_or_default()
    };
    let (made, valid) = (point.trials.len(), point.valid().count());
    [
        offered(point),
        point.phase.clone(),
        // Of a closed loop nothing is to be decided.
        if point.is_closed_loop() && valid > 0 {
            String::new()
        } else {
            verdict_of_load(point.verdict).to_owned()
        },
        median_of(Trial::good_per_s, "1/s"),
        median_of(|trial| trial.response.at(0.99) as f64, "us"),
        sample_of(&figures::samples(&point.trials)),
        if valid < made { format!("{made} ({} invalid)", made - valid) } else { made.to_string() },
    ]
}

pub(super) fn offered(point: &PeakPoint) -> String {
    if point.is_closed_loop() { "closed loop".to_owned() } else { figure(point.rate, "1/s") }
}

pub(super) fn overload(of: &Overload) -> String {
    let [offered, good, refused] = [of.rate, of.good_per_s, of.refused_per_s].map(|rate| figure(rate, "1/s"));
    let recovery = of.recovery_s.map_or_else(
        || "it did not recover while it was watched".to_owned(),
        |s| format!("within the limit again after {}", figure(s, "s")),
    );
    if of.trial.is_valid() {
        format!("{offered} offered: {good} good, {refused} refused; {recovery}")
    } else {
        format!("{offered} offered: INVALID, so without figures; {recovery}")
    }
}

pub(super) const DURABILITY_TITLES: [&str; 10] = [
    "settings",
    "orders/s",
    "p99",
    "sample",
    "killed",
    "acknowledged",
    "lost",
    "unknown",
    "back after",
    "a power cut may lose (not measured)",
];

/// A line for each kill, and one for a combination in which nothing was killed.
pub(super) fn durability(row: &DurabilityRow) -> Vec<[String; 10]> {
    let p99: Vec<f64> = row.p99_us.iter().map(|us| *us as f64).collect();
    let median_of = |values: &[f64], unit| {
        median(values).map_or_else(|| "not measured".to_owned(), |of| figure(of, unit))
    };
    let line = |[victim, acknowledged, lost, unknown, back]: [String; 5]| {
        let (rate, p99) = (median_of(&row.orders_per_s, "1/s"), median_of(&p99, "us"));
        let (settings, sample) = (figures::combination(row), sample_of(&figures::samples(&row.trials)));
        [settings, rate, p99, sample, victim, acknowledged, lost, unknown, back, row.power_cut.clone()]
    };
    if row.kills.is_empty() {
        return vec![line(["nothing", "", "", "", ""].map(str::to_owned))];
    }
    let of_kill = |kill: &Kill| {
        let [acknowledged, lost, unknown] =
            [kill.acknowledged, kill.acknowledged_lost, kill.unknown].map(|count| number(count as f64));
        line([kill.victim.clone(), acknowledged, lost, unknown, figure(kill.back_after_s, "s")])
    };
    row.kills.iter().map(of_kill).collect()
}
