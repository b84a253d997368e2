//! The suite: the scenarios that were asked for, one after the other, and the report that grows with each.
//!
//! The report is written after every scenario, so that neither a crash nor a signal loses what was measured; a run that
//! measures nothing writes none. A scenario that fails in its middle keeps its finished cases and does not keep the others
//! from running; a broken audit does, and takes every figure with it.
//! It prints nothing but the progress.

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, UNIX_EPOCH};

use anyhow::{Context, ensure};

use crate::audit::AUDIT_FAILED;
use crate::experiments::{Scenario, ScenarioContext, Target};
use crate::host::environment::{self, Environment};
use crate::progress::Progress;
use crate::report::folder::Folder;
use crate::report::model::{Case, FailedScenario, Report, SCHEMA, ScenarioReport, Size};
use crate::report::thresholds::{self, Threshold};
use crate::report::verdict;

#[derive(Debug)]
pub struct SuiteOptions {
    pub scenarios: Vec<&'static Scenario>,
    pub size: Size,
    pub repeats: usize,
    pub seed: u64,
    pub target: Target,
    /// The `doorbuster` program to measure, and its version.
    pub program: PathBuf,
    pub version: String,
    pub command: Vec<String>,
    pub scripts: PathBuf,
    /// On a real disk: each scenario gets a folder in it, which is removed.
    pub folder: PathBuf,
    pub port_base: u16,
    pub only: Option<String>,
    pub allow_swap: bool,
    pub thresholds: Vec<Threshold>,
    pub stop: Arc<AtomicBool>,
}

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// All that was asked for was measured, is valid, and every threshold is met.
    Met,
    /// A threshold is missed.
    Missed,
    /// Nothing may be quoted of a case: see [`verdict::of`].
    Invalid,
    /// A scenario could not be run.
    Unavailable,
    /// A signal came; what was measured before it is in the report.
    Stopped,
    /// An invariant is broken: no figure counts. The scenarios after it were not run.
    AuditFailed,
}

/// # Errors
/// If the report can't be written, or the folder not made. What becomes of a scenario is in the report.
pub fn run(options: &SuiteOptions, kept: &mut Folder) -> anyhow::Result<(Report, End)> {
    let progress = &Progress::start();
    std::fs::create_dir_all(&options.folder)
        .with_context(|| format!("{}: can't be made", options.folder.display()))?;
    let begun = Instant::now();
    let mut report = empty(options.about(), &options.folder);
    let mut stopped_by = None;
    let mut partial = false;
    for (index, scenario) in options.scenarios.iter().enumerate() {
        let left = likely_left(begun.elapsed(), index, options.scenarios.len());
        progress.scenario(index + 1, options.scenarios.len(), scenario.name, left);
        let mut finished = Vec::new();
        match one(options, scenario, progress, &mut finished) {
            Ok(measured) => {
                progress.done(&format!("{}: {} cases", scenario.name, measured.cases.len()));
                report.scenarios.push(measured);
            }
            Err(error) => {
                let error = format!("{error:#}");
                // The whole of it is said at the end, once.
                let first = error.lines().next().unwrap_or_default();
                progress.done(&format!("{}: {first}", scenario.name));
                if error.contains(AUDIT_FAILED) {
                    stopped_by = Some(End::AuditFailed);
                    report.scenarios.iter_mut().for_each(drop_figures);
                } else {
                    if options.stop.load(Ordering::Relaxed) {
                        stopped_by = Some(End::Stopped);
                    }
                    let part = part_of(scenario, finished, &error).filter(|part| check_figures(part).is_ok());
                    partial |= part.is_some();
                    report.scenarios.extend(part);
                }
                report.failures.push(FailedScenario { name: scenario.name.to_owned(), error });
            }
        }
        report.elapsed_s = begun.elapsed().as_secs_f64();
        if says_something(&report, stopped_by) {
            kept.write(&report)?;
        }
        if stopped_by.is_some() {
            break;
        }
    }
    progress.finish();
    report.complete = stopped_by.is_none() && !partial;
    report.thresholds = thresholds::judge(&options.thresholds, &report);
    if says_something(&report, stopped_by) {
        kept.write(&report)?;
    }
    let end = stopped_by.unwrap_or_else(|| end_of(&report));
    Ok((report, end))
}

/// An earlier report is worth more than one without a figure; but not after a broken audit, which whoever looks there
/// must find.
fn says_something(report: &Report, ended: Option<End>) -> bool {
    report.has_cases() || ended == Some(End::AuditFailed)
}

/// What a scenario had finished before it failed, if anything.
fn part_of(scenario: &Scenario, cases: Vec<Case>, error: &str) -> Option<ScenarioReport> {
    (!cases.is_empty()).then(|| ScenarioReport {
        name: scenario.name.to_owned(),
        title: scenario.about.to_owned(),
        reference: scenario.reference.map(str::to_owned),
        notes: vec![format!("NOT COMPLETE: only the cases before the scenario failed: {error}")],
        cases,
        ..ScenarioReport::default()
    })
}

/// What weighs most: figures that can't be believed are worse than thresholds that are missed.
fn end_of(report: &Report) -> End {
    if !report.failures.is_empty() {
        End::Unavailable
    } else if report.has_cases() && verdict::of(report).is_invalid() {
        End::Invalid
    } else if report.thresholds.iter().any(|threshold| !threshold.met) {
        End::Missed
    } else {
        End::Met
    }
}

/// What a report says of a run besides its figures.
#[derive(Debug)]
pub struct About {
    pub version: String,
    pub command: Vec<String>,
    pub size: Size,
    pub repeats: usize,
    pub seed: u64,
    /// The target runs on this machine.
    pub co_located: bool,
}

/// A report without figures, and not complete. `data` lies on the disk that is measured.
pub fn empty(about: About, data: &Path) -> Report {
    #[expect(clippy::disallowed_methods, reason = "the date of a report; nothing is measured with it")]
    let started = std::time::SystemTime::now().duration_since(UNIX_EPOCH);
    Report {
        schema: SCHEMA.to_owned(),
        verdict: String::new(),
        program: about.version,
        git_revision: environment::own_revision(),
        command: about.command,
        started_unix_s: started.map_or(0, |since| since.as_secs()),
        elapsed_s: 0.0,
        complete: false,
        size: about.size,
        repeats: about.repeats,
        seed: about.seed,
        environment: Environment { co_located: about.co_located, ..Environment::read(data) },
        scenarios: Vec::new(),
        failures: Vec::new(),
        thresholds: Vec::new(),
    }
}

impl SuiteOptions {
    fn about(&self) -> About {
        About {
            version: self.version.clone(),
            command: self.command.clone(),
            size: self.size,
            repeats: self.repeats,
            seed: self.seed,
            co_located: self.target.is_local(),
        }
    }
}

/// `finished` are, after a failure, the cases before it.
fn one(
    options: &SuiteOptions,
    scenario: &Scenario,
    progress: &Progress,
    finished: &mut Vec<Case>,
) -> anyhow::Result<ScenarioReport> {
    ensure!(!options.stop.load(Ordering::Relaxed), "stopped by a signal");
    let folder = tempfile::Builder::new().prefix(scenario.name).tempdir_in(&options.folder)?;
    let context = ScenarioContext {
        size: options.size,
        repeats: options.repeats,
        seed: options.seed,
        target: options.target.clone(),
        program: options.program.clone(),
        scripts: options.scripts.clone(),
        disk: environment::disk(folder.path()),
        folder: folder.path().to_owned(),
        port_base: options.port_base,
        only: options.only.clone(),
        allow_swap: options.allow_swap,
        progress: progress.clone(),
        stop: Arc::clone(&options.stop),
        finished: RefCell::default(),
    };
    let measured = (scenario.run)(&context);
    *finished = context.finished.take();
    let mut measured = measured?;
    // Thresholds, comparisons and links go by the name of the table, whatever the scenario calls itself.
    scenario.name.clone_into(&mut measured.name);
    measured.reference = scenario.reference.map(str::to_owned);
    debug_assert_eq!(
        scenario.unlisted(&measured),
        None,
        "thresholds are checked by {}'s table",
        scenario.name
    );
    if let Some(broken) = measured.audit.as_ref().and_then(|audit| audit.broken()) {
        anyhow::bail!("{AUDIT_FAILED}: {broken}");
    }
    check_figures(&measured)?;
    Ok(measured)
}

/// After a broken audit: which scenarios were run stays, and nothing that could be read as a result of theirs.
fn drop_figures(scenario: &mut ScenarioReport) {
    scenario.cases.clear();
    scenario.notes.clear();
    scenario.shapes.clear();
    scenario.limiter = None;
    scenario.audit = None;
}

/// A figure that is no number ends its scenario here; in the report it would end the run.
fn check_figures(measured: &ScenarioReport) -> anyhow::Result<()> {
    for case in &measured.cases {
        for metric in &case.metrics {
            let numbers = metric.values.iter().all(|value| value.is_finite());
            ensure!(numbers, "{}: {} is no number: {:?}", case.name, metric.name, metric.values);
        }
    }
    // Wherever else one may be: JSON has none of them, and null is not read as a number.
    let text = serde_json::to_string(measured).context("the scenario as JSON")?;
    serde_json::from_str::<ScenarioReport>(&text).context("something in it is no number")?;
    Ok(())
}

/// The scenarios differ, so this is only a guess; there is none before the first is over.
fn likely_left(elapsed: Duration, finished: usize, all: usize) -> Option<Duration> {
    let each = elapsed.as_secs_f64() / finished as f64;
    (finished > 0).then(|| Duration::from_secs_f64(each * (all - finished) as f64))
}

#[cfg(test)]
mod tests;
