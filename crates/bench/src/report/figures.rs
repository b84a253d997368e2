//! A report as a flat list of figures: what the CSV has a row for, what thresholds name, and what two reports are
//! compared by. Data only.

use super::model::{Better, Published, Report, Trial};
use super::statistics::{self, Interval};

/// Ends the names of figures that are of one kill, and not of a load.
pub const KILLED: &str = " killed";

/// One metric of one case, with all that was measured of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Figure {
    pub scenario: String,
    pub case: String,
    pub series: String,
    /// `threads`, and how many.
    pub x: Option<(String, f64)>,
    pub metric: String,
    pub unit: String,
    pub better: Better,
    pub values: Vec<f64>,
    pub published: Option<Published>,
    /// Seconds and requests of each repeat that counts, or of all if none does; none where no load was run.
    pub samples: Vec<(f64, u64)>,
    /// Of the case's trials in which too many were not carried: how many were not, and of how many.
    pub not_carried: Option<(u64, u64)>,
    /// Of loads that won no order: those of pages, and of a reference beside orders.
    pub without_orders: bool,
    /// Of a load that a search tried: another search has other ones.
    pub of_load: bool,
}

impl Figure {
    pub fn median(&self) -> Option<f64> {
        statistics::median(&self.values)
    }

    pub fn interval(&self) -> Option<Interval> {
        statistics::median_interval(&self.values)
    }

    /// Measured by published.
    pub fn ratio(&self) -> Option<f64> {
        let published = self.published.as_ref()?.value;
        (published != 0.0).then_some(self.median()? / published)
    }

    /// Of whatever scenario it is: its rate is one of orders.
    pub fn counts_orders(&self) -> bool {
        let orders =
            self.scenario.contains("order") || ["durability", "peak"].contains(&self.scenario.as_str());
        orders && self.unit == "1/s" && !self.without_orders
    }

    /// `scenario/case: metric`
    pub fn name(&self) -> String {
        format!("{}/{}: {}", self.scenario, self.case, self.metric)
    }
}

pub fn all(report: &Report) -> Vec<Figure> {
    let mut figures = Vec::new();
    for scenario in &report.scenarios {
        for case in &scenario.cases {
            // What a search found rests on all of its loads, and each of them was judged by what it carried.
            let found = scenario.search.is_some() && case.load.is_none();
            let samples = match found {
                true => samples(scenario.cases.iter().flat_map(|case| &case.trials)),
                false => samples(&case.trials),
            };
            let not_carried = not_carried(&case.trials).filter(|_| case.load.is_none());
            figures.extend(case.metrics.iter().map(|metric| Figure {
                scenario: scenario.name.clone(),
                case: case.name.clone(),
                series: case.series.clone(),
                x: case.x.as_ref().map(|x| (x.label.clone(), x.value)),
                metric: metric.name.clone(),
                unit: metric.unit.clone(),
                better: metric.better,
                values: metric.values.clone(),
                published: metric.published.clone(),
                samples: if metric.name.ends_with(KILLED) { Vec::new() } else { samples.clone() },
                not_carried,
                without_orders: !case.trials.is_empty()
                    && case.trials.iter().all(|trial| trial.outcomes.won == 0),
                of_load: case.load.is_some(),
            }));
        }
    }
    figures
}

/// Seconds and requests of each trial that counts, or of all if none does.
fn samples<'a>(trials: impl IntoIterator<Item = &'a Trial> + Clone) -> Vec<(f64, u64)> {
    let of = |trial: &Trial| (trial.seconds, trial.outcomes.total());
    let valid: Vec<_> = trials.clone().into_iter().filter(|trial| trial.is_valid()).map(of).collect();
    if valid.is_empty() { trials.into_iter().map(of).collect() } else { valid }
}

fn not_carried(trials: &[Trial]) -> Option<(u64, u64)> {
    let flagged = trials.iter().filter_map(Trial::not_carried);
    flagged.reduce(|(some, of), (more, of_more)| (some + more, of + of_more))
}
