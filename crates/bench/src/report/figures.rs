//! A report as a flat list of figures: what the CSV has a row for, what thresholds name, and what two reports are
//! compared by.

use super::model::{Case, Metric, Report, ScenarioReport, Trial};
use super::statistics::{self, Interval};

/// Ends the names of figures that are of one kill, and not of a load.
pub const KILLED: &str = " killed";

/// One metric of one case, where it stands in the report.
#[derive(Debug, Clone)]
pub struct Figure<'a> {
    pub scenario: &'a str,
    pub case: &'a Case,
    pub metric: &'a Metric,
    /// Seconds and requests of each repeat that counts, or of all if none does; none where nobody noted them.
    pub samples: Vec<(f64, u64)>,
}

impl Figure<'_> {
    pub fn median(&self) -> Option<f64> {
        statistics::median(&self.metric.values)
    }

    pub fn interval(&self) -> Option<Interval> {
        statistics::median_interval(&self.metric.values)
    }

    /// Measured by published.
    pub fn ratio(&self) -> Option<f64> {
        let published = self.metric.published.as_ref()?.value;
        (published != 0.0).then_some(self.median()? / published)
    }

    /// Of whatever scenario it is: its rate is one of orders. Loads of pages win none, nor does a reference beside orders.
    pub fn counts_orders(&self) -> bool {
        let orders =
            self.scenario.contains("order") || ["durability", "peak", "peers"].contains(&self.scenario);
        let trials = &self.case.trials;
        let won = trials.is_empty() || trials.iter().any(|trial| trial.outcomes.won > 0);
        orders && self.metric.unit == "1/s" && won
    }

    /// Of the case's trials in which too many were not carried: how many were not, and of how many. Each load that a search
    /// tried was judged by what it carried.
    pub fn not_carried(&self) -> Option<(u64, u64)> {
        let flagged = self.case.trials.iter().filter(|_| !self.of_load()).filter_map(Trial::not_carried);
        flagged.reduce(|(some, of), (more, of_more)| (some + more, of + of_more))
    }

    /// Of a load that a search tried: another search has other ones.
    pub fn of_load(&self) -> bool {
        self.case.load.is_some()
    }

    /// `scenario/case: metric`
    pub fn name(&self) -> String {
        format!("{}/{}: {}", self.scenario, self.case.name, self.metric.name)
    }
}

pub fn all(report: &Report) -> Vec<Figure<'_>> {
    let cases = report.scenarios.iter().flat_map(|of| of.cases.iter().map(move |case| (of, case)));
    cases.flat_map(|(scenario, case)| of_case(scenario, case)).collect()
}

pub(super) fn of_case<'a>(scenario: &'a ScenarioReport, case: &'a Case) -> impl Iterator<Item = Figure<'a>> {
    // What a search found rests on all of its loads.
    let found = scenario.search.is_some() && case.load.is_none();
    let samples = match found {
        true => samples(scenario.cases.iter().flat_map(|case| &case.trials)),
        false if case.trials.is_empty() => {
            case.samples.iter().map(|sample| (sample.seconds, sample.requests)).collect()
        }
        false => samples(&case.trials),
    };
    case.metrics.iter().map(move |metric| {
        let samples = if metric.name.ends_with(KILLED) { Vec::new() } else { samples.clone() };
        Figure { scenario: &scenario.name, case, metric, samples }
    })
}

fn samples<'a>(trials: impl IntoIterator<Item = &'a Trial> + Clone) -> Vec<(f64, u64)> {
    let of = |trial: &Trial| (trial.seconds, trial.outcomes.total());
    let valid: Vec<_> = trials.clone().into_iter().filter(|trial| trial.is_valid()).map(of).collect();
    if valid.is_empty() { trials.into_iter().map(of).collect() } else { valid }
}
