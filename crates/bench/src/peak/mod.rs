//! The load that an installation carries within a latency limit: `doorbuster bench peak`.
//!
//! Preflight (idle noise, the generator's own ceiling), then the [`controller`]'s search with real trials, then the
//! audit, then the admission settings that follow. Within the limit means: the p99 of the *response* time, from the
//! planned send, over all answers; and at most the given share of requests not carried. **Not carried** is every
//! request that was not won: failed, unknown, never answered, and refused by admission (limited, busy) too. A server
//! that refuses a load quickly has not carried it. There is stock enough that nothing is sold out.
//!
//! Without a clean audit there is no result. It must not print: the caller does.

pub mod admission;
pub mod controller;
mod found;
pub mod judge;
mod preflight;
mod trials;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use anyhow::ensure;

use self::controller::{Controller, Ending, Outcome, Point, Rules, Step};
use self::found::Found;
use self::judge::{Limits, Plan, median_interval};
use self::trials::{Measured, Trials};
use crate::audit::AUDIT_FAILED;
use crate::report::model::{ScenarioReport, Search};
use crate::target::engines::{BrokerFlush, Flushes};
use crate::target::installation::{Installation, Site};
use crate::testbed::Testbed;

/// Of what the generator alone can send: an open loop that is on time needs some air.
const CEILING_SHARE: f64 = 0.8;
/// Requests of a trial: the p99 of fewer is just their slowest one.
const REQUESTS_MIN: f64 = 100.0;
const PRECISION: f64 = 1.05;
/// Of the trial's length: a note says so if the limit is longer, because a trial may then end before its backlog is
/// over the limit.
const LIMIT_SHARE: f64 = 0.05;

pub use self::found::metrics;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PeakTarget {
    /// A server of our own, on the default configuration.
    Embedded,
    /// Servers of our own on Redis, RocketMQ and MariaDB of our own, with the safe settings.
    Cluster { servers: usize },
    /// A server that runs. Its own audit is asked for with the operator's token: without one no order is placed. Nobody
    /// else may order meanwhile.
    Running { address: SocketAddr, order: Order, operator_token: Option<String> },
}

/// How orders are placed at a running server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Order {
    /// `POST /seckillOrder/generateOrder` for a product with stock enough, as at `serve --demo`: (3, 29).
    Published { sale: u64, product: u64 },
    /// `POST /api/v1/orders` with tokens signed by this secret, in a sale that the operator's token creates: this one.
    Own { sale: u64, token_secret: String },
}

impl PeakTarget {
    /// As reports and thresholds call it.
    pub fn name(&self) -> String {
        match self {
            Self::Embedded => "embedded".to_owned(),
            Self::Cluster { servers } => format!("cluster of {servers}"),
            Self::Running { address, .. } => address.to_string(),
        }
    }

    /// Of a server that runs.
    fn operator_token(&self) -> Option<&str> {
        match self {
            Self::Running { operator_token, .. } => operator_token.as_deref(),
            Self::Embedded | Self::Cluster { .. } => None,
        }
    }
}

#[derive(Debug)]
pub struct PeakOptions {
    pub target: PeakTarget,
    pub p99: Duration,
    /// Requests that may be left uncarried, among all, 0 to 1.
    pub errors: f64,
    pub trial: Duration,
    pub plan: Plan,
    pub users: usize,
    pub in_flight_max: usize,
    /// Each trial's requests are due at times of its own, which follow from this and the trial's number.
    pub seed: u64,
    pub site: Site,
}

impl PeakOptions {
    pub fn new(program: PathBuf, target: PeakTarget) -> Self {
        Self {
            target,
            p99: Duration::from_millis(50),
            errors: 0.001,
            trial: Duration::from_secs(10),
            plan: Plan::FULL,
            users: 200,
            in_flight_max: 2000,
            seed: 1,
            site: Site::new(program),
        }
    }

    /// A first impression in about two minutes: shorter trials, and a weaker plan.
    pub fn quick(self) -> Self {
        Self { trial: Duration::from_millis(1500), plan: Plan::QUICK, ..self }
    }

    /// Requests per second; below that nothing is searched.
    fn rate_min(&self) -> f64 {
        REQUESTS_MIN / self.trial.as_secs_f64()
    }

    /// Whether a search by these can mean anything.
    pub fn check(&self) -> anyhow::Result<()> {
        self.limits().map(drop)
    }

    fn limits(&self) -> anyhow::Result<Limits> {
        ensure!(
            !self.p99.is_zero() && !self.trial.is_zero(),
            "a peak needs a limit, and trials with a length"
        );
        ensure!(
            self.trial > self.p99,
            "a trial of {:?} is over before an answer can be later than {:?}: make it longer than the limit, ten times \
             at least",
            self.trial,
            self.p99
        );
        ensure!((0.0..1.0).contains(&self.errors), "the share of errors is between 0 and 1");
        ensure!(self.users > 0 && self.in_flight_max > 0, "a load needs connections");
        Ok(Limits { p99_us: u64::try_from(self.p99.as_micros())?, lost_share: self.errors })
    }
}

/// A search, and why it ended early, if it did: then there are the loads that were judged so far, and neither a peak nor
/// an audit, because the answers that the last trial's buyers got are not known.
#[derive(Debug)]
pub struct Searched {
    pub report: ScenarioReport,
    pub cut: Option<String>,
}

/// Searches the peak. It ends early if the stop flag is raised, or the target goes away, while it searches.
///
/// # Errors
/// If anything can't be started or measured, if the stop flag is raised before or after the search, or if the audit
/// fails.
pub fn run(options: &PeakOptions) -> anyhow::Result<Searched> {
    let limits = options.limits()?;
    let folder = options.site.temporary_folder()?;
    options.site.progress.doing("looking at the idle machine");
    let idle_noise_us = preflight::idle_noise(&options.site.stop)?;
    if let Some(warning) = preflight::too_noisy(&idle_noise_us, options.p99) {
        options.site.progress.done(&warning);
    }
    options.site.progress.doing("starting what is measured");
    let mut testbed = open(options, folder.path())?;
    let gates = testbed.gates(options.target.operator_token(), &options.site)?;
    options.site.progress.doing("measuring the generator alone");
    let ceiling = preflight::ceiling(
        folder.path(),
        &mut testbed.traffic,
        options.users,
        options.trial.min(Duration::from_secs(3)),
        &options.site.stop,
    )?;
    options.site.progress.done(&format!("the generator alone sends {ceiling:.0}/s"));
    let found = search(options, limits, ceiling, &mut testbed)?;
    let servers = testbed.addresses().len() as u64;
    let local = testbed.is_local();
    options.site.progress.expect_at_most(Duration::ZERO);
    let audit = if found.cut.is_some() {
        None
    } else {
        options.site.progress.doing("auditing");
        testbed.rest()?;
        let audit = testbed.close(Some(&gates), &options.site)?;
        options.site.progress.done("audited: every acknowledged order is there");
        Some(audit)
    };
    let mut notes = notes(options, &found.outcome, local);
    notes.extend(preflight::too_noisy(&idle_noise_us, options.p99));
    let settings = found.limit().map(|peak| admission::admission(peak, limits.p99_us, servers));
    let report = ScenarioReport {
        name: "peak".to_owned(),
        title: "The load that is carried within a limit".to_owned(),
        notes,
        cases: found.cases(&options.target.name(), ceiling, idle_noise_us.at(0.99)),
        audit,
        limiter: found.limiter(ceiling),
        search: Some(Search {
            p99_limit_us: limits.p99_us,
            errors_limit: limits.lost_share,
            confirmed: found.outcome.confirmed,
            settings,
        }),
        ..ScenarioReport::default()
    };
    Ok(Searched { report, cut: found.cut })
}

fn open(options: &PeakOptions, folder: &Path) -> anyhow::Result<Testbed> {
    let site = &options.site;
    match &options.target {
        PeakTarget::Embedded => Testbed::own(Installation::embedded(site, folder, "")?, folder),
        PeakTarget::Cluster { servers } => {
            let safe = Flushes::with_broker(BrokerFlush::Synchronous);
            Testbed::own(Installation::cluster(site, folder, safe, *servers)?, folder)
        }
        PeakTarget::Running { address, order, operator_token } => {
            Testbed::running(*address, order, operator_token.as_deref(), site, folder)
        }
    }
}

fn search(
    options: &PeakOptions,
    limits: Limits,
    ceiling: f64,
    testbed: &mut Testbed,
) -> anyhow::Result<Found> {
    // A first impression may end with less certainty, but in about two minutes.
    let quick = options.plan == Plan::QUICK;
    let measurements_max = if quick { 110 } else { 400 };
    let rate_min = options.rate_min();
    let mut controller = Controller::new(Rules {
        limits,
        plan: options.plan,
        precision: PRECISION,
        rate_min,
        rate_max: (ceiling * CEILING_SHARE).max(rate_min),
        invalid_max: 3,
        spoiled_max: 3,
        candidates_max: if quick { 4 } else { 6 },
        rechecks_max: if quick { 1 } else { 2 },
        probes_max: 30,
        measurements_max,
    });
    let mut trials = Trials::new(options, limits, testbed);
    trials.warm_up()?;
    let mut measured: Vec<Measured> = Vec::new();
    let mut printed = 0;
    let begun = Instant::now();
    options.site.progress.scenario(1, 1, "peak", None);
    loop {
        match controller.next() {
            Step::Done(outcome) => {
                let points = controller.curve.clone();
                return Ok(Found { outcome, points, measured, cut: None });
            }
            Step::Measure { load, phase } => {
                let one = match trials.measure(load, phase) {
                    Ok(one) => one,
                    Err(error) => {
                        let why = format!("{error:#}");
                        let stopped = options.site.stop.load(Ordering::Relaxed);
                        let Some(outcome) = cut_off(stopped, &why, measured.len()) else { return Err(error) };
                        let points = controller.curve.clone();
                        return Ok(Found { outcome, points, measured, cut: Some(why) });
                    }
                };
                controller.observe(one.measurement);
                measured.push(one);
                let left = u32::try_from(measurements_max.saturating_sub(measured.len())).unwrap_or(u32::MAX);
                let each = begun.elapsed().div_f64(measured.len() as f64);
                options.site.progress.expect_at_most(each.saturating_mul(left));
            }
        }
        for point in &controller.curve[printed..] {
            options.site.progress.done(&line_of(point, &measured));
        }
        printed = controller.curve.len();
    }
}

/// How a search ends whose trial could not be made: by a signal, or because its target is gone. `None` if nothing of it
/// may be kept: its audit failed, or nothing was measured yet.
fn cut_off(stopped: bool, error: &str, measured: usize) -> Option<Outcome> {
    match (error.contains(AUDIT_FAILED), stopped, measured) {
        (true, ..) | (false, false, 0) => None,
        (false, true, _) => Some(Outcome::STOPPED),
        (false, false, _) => Some(Outcome::GONE),
    }
}

/// A line for a load that was judged: with the interval of the median of its trials' p99.
fn line_of(point: &Point, measured: &[Measured]) -> String {
    let seen: Vec<_> = point.measurements.iter().filter_map(|at| measured[*at].seen()).collect();
    let p99 = median_interval(&seen).map_or(String::new(), |(low, high)| {
        format!(", p99 {:.1} to {:.1} ms", low as f64 / 1e3, high as f64 / 1e3)
    });
    format!("{}: {:.0}/s: {:?}{p99} ({} trials)", point.phase.name(), point.per_s, point.verdict, seen.len())
}

fn notes(options: &PeakOptions, outcome: &Outcome, local: bool) -> Vec<String> {
    let mut notes = vec![
        format!(
            "A load passes when the median of its trials' p99 is within the limit by an order-statistic bound: a load \
             at the limit passes by chance with a probability of at most {:.1}%, and must pass twice.",
            options.plan.false_pass() * 100.0
        ),
        "Refused by admission (limited, busy) counts as not carried, like failed and unknown.".to_owned(),
    ];
    notes.push(match outcome.ending {
        Ending::Converged => "The search converged.".to_owned(),
        Ending::NothingPasses => format!("Not even {:.0}/s is carried within the limit.", options.rate_min()),
        Ending::GeneratorCeiling { per_s } => {
            format!("Limited by the generator: {per_s:.0}/s is the most that it makes, and it was carried.")
        }
        Ending::GeneratorInvalid { per_s } => {
            format!(
                "Limited by the generator: it could not make {per_s:.0}/s soundly; nothing is known there."
            )
        }
        Ending::ControlFailed => {
            "Not confirmed: half of that load was not carried either, so the machine has changed.".to_owned()
        }
        Ending::NeverConfirmed => "Not confirmed: no load passed a second time.".to_owned(),
        Ending::Exhausted => "The search was cut off by its bound on measurements.".to_owned(),
        Ending::Stopped => {
            "Stopped by a signal: the loads judged before it are not audited, and no peak follows from them."
                .to_owned()
        }
        Ending::Gone => {
            "The target could not be measured any more: the loads judged before are not audited, and no peak follows \
             from them."
                .to_owned()
        }
    });
    if outcome.closed_loop.is_none() && !matches!(outcome.ending, Ending::Stopped | Ending::Gone) {
        notes.push(
            "The closed loop was spoiled by the generator each time: its maximum is not known, and the search began \
             at a guess."
                .to_owned(),
        );
    }
    let share = options.p99.as_secs_f64() / options.trial.as_secs_f64();
    if share > LIMIT_SHARE {
        notes.push(format!(
            "Short trials: in {:?} a load of up to {:.0}% more than is carried for long can stay within {:?}; longer \
             ones show it.",
            options.trial,
            share * 100.0,
            options.p99
        ));
    }
    if outcome.recovered == Some(false) {
        notes.push("After the overload the control load was not within the limit any more.".to_owned());
    }
    if local {
        notes.push("Co-located: generator and target share this machine's processors.".to_owned());
    }
    notes
}

#[cfg(test)]
mod tests;
