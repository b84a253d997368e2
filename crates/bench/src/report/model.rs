//! What a run of the suite found out: the structure behind every form of the report, and the published JSON schema.
//!
//! Data only. Every repeat is kept; medians and intervals are computed from them when they are shown. Times are in
//! microseconds, rates per second, sizes in bytes, unless a name says otherwise.

use serde::{Deserialize, Serialize};

use crate::audit::AUDIT_FAILED;
use crate::host::environment::{DEBUG, Environment};
use crate::host::usage::Usage;
pub use crate::load::trial::{Distribution, Flag, Quantile, Second, Trial};
pub use crate::target::engines::EngineSettings;

/// The version of this structure; a reader refuses another one.
pub const SCHEMA: &str = "doorbuster-bench/2";

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Report {
    /// [`SCHEMA`].
    pub schema: String,
    /// Its first sentence, as [`super::verdict::of`] makes it: filled in when it is written.
    #[serde(default)]
    pub verdict: String,
    /// Version of this program, and the revision of the repository that it lies in, if it lies in one.
    pub program: String,
    pub git_revision: Option<String>,
    pub command: Vec<String>,
    pub started_unix_s: u64,
    pub elapsed_s: f64,
    /// False: it was stopped, or more was to come when it was written.
    pub complete: bool,
    pub size: Size,
    pub repeats: usize,
    pub seed: u64,
    pub environment: Environment,
    pub scenarios: Vec<ScenarioReport>,
    /// Scenarios that were asked for and gave no figures.
    pub failures: Vec<FailedScenario>,
    /// What the caller asked for, and whether it was met.
    pub thresholds: Vec<ThresholdResult>,
}

impl Report {
    /// Why it is no result to be compared or relied upon, if it is none.
    pub fn unfit(&self) -> Option<String> {
        if let Some(failed) = self.failures.iter().find(|failed| failed.error.contains(AUDIT_FAILED)) {
            return Some(format!("{AUDIT_FAILED} in {}: no figure of this run counts", failed.name));
        }
        (!self.complete).then(|| {
            "NOT COMPLETE: a scenario failed in its middle, or the run was stopped before its end".to_owned()
        })
    }

    /// What must be read before any figure of it, though it is a result.
    pub fn warning(&self) -> Option<&'static str> {
        (self.environment.build == DEBUG)
            .then_some("a debug build was measured, and with a debug build: the figures say nothing")
    }

    /// Some case of a scenario was measured.
    pub fn has_cases(&self) -> bool {
        self.scenarios.iter().any(|scenario| !scenario.cases.is_empty())
    }

    /// A case of a scenario with a trial in which not one request was carried: then nothing was measured but refusals
    /// and failures, whatever the figures. A search judges its own loads.
    pub fn carried_nothing(&self) -> Option<String> {
        let cases = self.scenarios.iter().flat_map(|of| of.cases.iter().map(move |case| (of, case)));
        let nothing = |trial: &Trial| trial.not_carried().is_some_and(|(requests, of)| requests == of);
        let mut judged = cases.filter(|(_, case)| case.load.is_none());
        let (scenario, case) = judged.find(|(_, case)| case.trials.iter().any(nothing))?;
        Some(format!("{}/{}", scenario.name, case.name))
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Size {
    /// The same shapes in about ten minutes for all; one repeat, so no intervals.
    Quick,
    Full,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FailedScenario {
    pub name: String,
    pub error: String,
}

/// One scenario: an experiment with its cases; a search for the peak, with its loads; the price list of durability.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScenarioReport {
    /// As `bench list` has it.
    pub name: String,
    pub title: String,
    /// The file of published figures that it reproduces.
    pub reference: Option<String>,
    /// What differs from the published set-up, a sentence each.
    pub scaled_down: Vec<String>,
    /// What a reader must know to believe or doubt the figures, a sentence each.
    pub notes: Vec<String>,
    pub engines: Vec<EngineSettings>,
    pub cases: Vec<Case>,
    pub shapes: Vec<Shape>,
    pub audit: Option<Audit>,
    pub limiter: Option<Limiter>,
    /// Of a search alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub search: Option<Search>,
}

impl ScenarioReport {
    /// The one value of a metric that a search has once.
    pub fn found(&self, metric: &str) -> Option<f64> {
        self.cases.iter().flat_map(|case| &case.metrics).find(|of| of.name == metric)?.values.first().copied()
    }
}

/// One point of an experiment: the same thing measured `repeats` times.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    /// Unique in its scenario: `set, 100 threads`.
    pub name: String,
    /// Cases of one series are one line of a chart: `set`.
    pub series: String,
    /// Where on the chart: threads, users, bytes. None: a bar of its own.
    pub x: Option<X>,
    pub metrics: Vec<Metric>,
    /// The runs of the load, one for each repeat; none where no load of ours was run (memory, recovery, another tool).
    pub trials: Vec<Trial>,
    /// What its figures rest on where they are of no trial, one for each repeat.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub samples: Vec<Sample>,
    /// Of something that stands beside what is measured, such as nginx or another tool: its figure is never the one quoted.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub reference: bool,
    /// As they said themselves, where each case has settings of its own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub engines: Vec<EngineSettings>,
    /// What a reader must know of this case, a sentence each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// Of a load that a search has tried.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load: Option<Load>,
}

impl Case {
    /// Those that say something of the target. A search makes the others again.
    pub fn valid(&self) -> impl Iterator<Item = &Trial> {
        self.trials.iter().filter(|trial| trial.is_valid())
    }
}

/// A look at something that is no load of ours: another tool, a child of our own, a server that starts.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sample {
    pub seconds: f64,
    /// 0 where nothing was asked of anybody.
    pub requests: u64,
    /// What the machine did meanwhile.
    pub usage: Usage,
}

/// What a search did with a load. Its invalid trials count for no figure and no verdict.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Load {
    /// `anchor` (the closed loop), `bracket`, `bisect`, `confirm`, `control`, `recheck`, `overload`.
    pub phase: String,
    /// None: it was not to be judged.
    pub verdict: Option<Verdict>,
    /// The highest load that passed, or the lowest that failed.
    pub decides: bool,
}

/// What a search looked for, and what follows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Search {
    pub p99_limit_us: u64,
    pub errors_limit: f64,
    /// The loads that decide passed and failed again.
    pub confirmed: bool,
    /// The admission that follows: TOML that `serve --config` takes.
    pub settings: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct X {
    /// `threads`, `users`, `value bytes`.
    pub label: String,
    pub value: f64,
}

/// One figure of a case. The first metric of a case is the one that charts show.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Metric {
    /// `throughput`, `p99`, `used memory`.
    pub name: String,
    /// `1/s`, `us`, `bytes`, `s`.
    pub unit: String,
    pub better: Better,
    /// One for each repeat, in their order; those of invalid trials are not among them.
    pub values: Vec<f64>,
    pub published: Option<Published>,
}

impl Metric {
    /// Of which nothing was published.
    pub fn new(name: &str, unit: &str, better: Better, values: Vec<f64>) -> Self {
        Self { name: name.to_owned(), unit: unit.to_owned(), better, values, published: None }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Better {
    Higher,
    Lower,
    Neither,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Published {
    /// In the metric's unit.
    pub value: f64,
    /// Why it may be wrong, if it may.
    pub dubious: Option<String>,
}

/// Whether a published shape (a knee, a ratio between settings) was found again.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shape {
    /// `throughput levels off at 50 to 100 threads`.
    pub claim: String,
    /// What was; in a scenario without a reference, what we expect.
    pub published: String,
    pub measured: String,
    /// None: it can't be judged here, and `measured` says why.
    pub holds: Option<bool>,
}

/// The proof after an order path. Only a clean one is ever reported: a broken one stops the run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Audit {
    pub initial_units: u64,
    pub remaining_units: u64,
    pub held_units: u64,
    pub sold_units: u64,
    /// Orders that buyers were given an id of.
    pub accepted: u64,
    /// Requests whose answer was lost: each is an order or is none.
    pub unknown: u64,
    /// Orders in the ledger: between `accepted` and `accepted + unknown`.
    pub orders: u64,
    /// How it was found out: `every acknowledged order looked up`, `three-way`.
    pub method: String,
}

impl Audit {
    /// Of another ledger.
    pub fn add(&mut self, other: &Self) {
        self.initial_units += other.initial_units;
        self.remaining_units += other.remaining_units;
        self.held_units += other.held_units;
        self.sold_units += other.sold_units;
        self.accepted += other.accepted;
        self.unknown += other.unknown;
        self.orders += other.orders;
    }

    /// What is wrong with it, if anything is.
    pub fn broken(&self) -> Option<String> {
        let Self {
            initial_units, remaining_units, held_units, sold_units, accepted, unknown, orders, ..
        } = self;
        if remaining_units + held_units + sold_units != *initial_units {
            return Some(format!(
                "{initial_units} units at first became {remaining_units} remaining, {held_units} held and {sold_units} sold"
            ));
        }
        let most = accepted + unknown;
        (!(*accepted..=most).contains(orders)).then(|| {
            format!("{accepted} orders were accepted and {unknown} have an unknown outcome, and the ledger holds {orders}")
        })
    }
}

/// What kept the figure from being higher.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limiter {
    /// `processor`, `Redis's main thread`, `disk`, `think time`.
    pub what: String,
    pub evidence: Vec<String>,
}

/// Whether a load is carried within the limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    Pass,
    Fail,
    Undecided,
    Invalid,
}

/// What the caller asked for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ThresholdResult {
    /// As it was given: `orders-http:throughput>=4000`.
    pub threshold: String,
    pub measured: Option<f64>,
    pub met: bool,
}
