//! What a search came to, as a report has it: the figures, every load, the overload, and what limited it.

use super::controller::{Ending, Outcome, Phase, Point};
use super::trials::Measured;
use crate::host::limit::{LOAD_GENERATOR, limit};
use crate::host::usage::Usage;
use crate::report::format::figure;
use crate::report::model::{Better, Case, Limiter, Load, Metric, Trial, Verdict, X};
use crate::report::trials::{figures, metric};
use crate::report::words::verdict_of_load;

/// Name, unit and direction of each figure of a search.
const METRICS: [(&str, &str, Better); 6] = [
    ("highest passed", "1/s", Better::Higher),
    ("lowest failed", "1/s", Better::Neither),
    ("closed-loop maximum", "1/s", Better::Higher),
    ("recovery", "s", Better::Lower),
    ("generator alone", "1/s", Better::Neither),
    ("idle noise p99", "us", Better::Neither),
];

/// Their names: thresholds are checked by them before an hour of measuring.
pub fn metrics() -> Vec<String> {
    METRICS.map(|(metric, ..)| metric.to_owned()).to_vec()
}

/// Of each load.
const OF_LOADS: [&str; 2] = ["p99", "throughput"];

pub(super) struct Found {
    pub(super) outcome: Outcome,
    pub(super) points: Vec<Point>,
    pub(super) measured: Vec<Measured>,
    /// Why it ended early.
    pub(super) cut: Option<String>,
}

impl Found {
    /// What was found first, then the closed loop, every load in the order of its verdict, and the overload.
    pub(super) fn cases(&self, target: &str, ceiling: f64, noise_us: u64) -> Vec<Case> {
        let Outcome { highest_passed, lowest_failed, closed_loop, .. } = self.outcome;
        let values = [
            highest_passed,
            lowest_failed,
            closed_loop,
            self.recovery_s(),
            Some(ceiling),
            Some(noise_us as f64),
        ];
        let metric = |((name, unit, better), value): ((&str, &str, Better), Option<f64>)| {
            Metric::new(name, unit, better, value.into_iter().collect())
        };
        let found = Case {
            name: target.to_owned(),
            series: "peak".to_owned(),
            metrics: METRICS.into_iter().zip(values).map(metric).collect(),
            ..Case::default()
        };
        let mut cases = vec![found, self.closed_loop()];
        for point in &self.points {
            let load = self.load(point);
            let again = cases.iter().filter(|of| of.name.starts_with(&load.name)).count();
            let name = if again > 0 { format!("{} ({})", load.name, again + 1) } else { load.name.clone() };
            cases.push(Case { name, ..load });
        }
        cases.extend(self.overload());
        cases
    }

    /// It is no load that could pass: it only says what comes back when everybody asks at once.
    fn closed_loop(&self) -> Case {
        let anchors = self.measured.iter().filter(|of| of.phase == Phase::Anchor);
        let trials: Vec<Trial> = anchors.map(|of| of.trial.clone()).collect();
        let verdict = trials.iter().all(|of| !of.is_valid()).then_some(Verdict::Invalid);
        let name = "closed loop".to_owned();
        Case { series: name.clone(), ..tried(name, Phase::Anchor, verdict, trials) }
    }

    fn load(&self, point: &Point) -> Case {
        let trials = point.measurements.iter().map(|at| self.measured[*at].trial.clone()).collect();
        let name = format!("{}, {}", figure(point.per_s, "1/s"), point.phase.name());
        let mut case = Case {
            series: verdict_of_load(point.verdict).to_owned(),
            x: Some(X { label: "offered load, 1/s".to_owned(), value: point.per_s }),
            ..tried(name, point.phase, Some(point.verdict), trials)
        };
        let decides = [self.outcome.highest_passed, self.outcome.lowest_failed].contains(&Some(point.per_s));
        case.load.iter_mut().for_each(|load| load.decides = decides);
        case
    }

    fn last_overload(&self) -> Option<&Measured> {
        self.measured.iter().rfind(|of| of.phase == Phase::Overload)
    }

    fn overload(&self) -> Option<Case> {
        let over = self.last_overload()?;
        let name = format!("{}, {}", figure(over.per_s, "1/s"), Phase::Overload.name());
        let mut case = tried(name, Phase::Overload, None, vec![over.trial.clone()]);
        let refused = |of: &Trial| of.outcomes.refused() as f64 / of.seconds.max(1e-9);
        case.metrics.push(metric("refused", "1/s", Better::Neither, &case.trials, refused));
        Some(case)
    }

    /// From the end of the overload until the control load was within the limit again.
    fn recovery_s(&self) -> Option<f64> {
        let over = self.last_overload()?;
        let back = self.measured.last().filter(|_| self.outcome.recovered == Some(true))?;
        Some(back.begun.saturating_duration_since(over.ended).as_secs_f64())
    }

    /// What the target carries and what it does not are both known: only then can settings follow. Otherwise the
    /// generator's limit would become the shop's.
    pub(super) fn limit(&self) -> Option<f64> {
        let Outcome { highest_passed, lowest_failed, confirmed, .. } = self.outcome;
        highest_passed.filter(|_| confirmed && lowest_failed.is_some())
    }

    /// From what the machine did under the lowest load that failed; or, where none did, the generator.
    pub(super) fn limiter(&self, ceiling: f64) -> Option<Limiter> {
        if let Some(failed) = self.outcome.lowest_failed {
            let usage = self.usage_at(failed, Trial::is_valid)?;
            return Some(Limiter { what: limit(usage), evidence: processes(usage).collect() });
        }
        let (per_s, said) = match self.outcome.ending {
            Ending::GeneratorCeiling { per_s } => {
                (per_s, "is the most that is offered here, and it was carried")
            }
            Ending::GeneratorInvalid { per_s } => {
                (per_s, "could not be made soundly, so nothing is known of the target there")
            }
            _ => return None,
        };
        let mut evidence = vec![
            format!("{per_s:.0}/s {said}."),
            format!("The generator alone sends {ceiling:.0}/s to a server that does nothing."),
        ];
        // A trial that the generator spoiled says most about it.
        evidence.extend(self.usage_at(per_s, |_| true).into_iter().flat_map(processes));
        Some(Limiter { what: LOAD_GENERATOR.to_owned(), evidence })
    }

    /// Of the last trial at this load that is wanted.
    pub(super) fn usage_at(&self, per_s: f64, wanted: fn(&Trial) -> bool) -> Option<&Usage> {
        let points = self.points.iter().rev().filter(|point| point.per_s == per_s);
        let mut trials =
            points.flat_map(|point| point.measurements.iter().rev()).map(|at| &self.measured[*at].trial);
        trials.find(|trial| wanted(trial))?.usage.as_ref()
    }
}

/// A load, its trials, and what they came to.
fn tried(name: String, phase: Phase, verdict: Option<Verdict>, trials: Vec<Trial>) -> Case {
    let load = Load { phase: phase.name().to_owned(), verdict, decides: false };
    Case {
        name,
        series: load.phase.clone(),
        metrics: figures(&trials, &OF_LOADS),
        trials,
        load: Some(load),
        ..Case::default()
    }
}

fn processes(usage: &Usage) -> impl Iterator<Item = String> {
    usage.processes.iter().map(|of| {
        format!(
            "{}: {:.2} processors; its busiest thread, {}, {:.0}% of one",
            of.name,
            of.processors,
            of.busiest_thread,
            of.busiest_thread_share * 100.0
        )
    })
}
