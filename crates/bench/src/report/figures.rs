//! A report as a flat list of figures: what the CSV has a row for, what thresholds name, and what two reports are
//! compared by.
//!
//! Scenarios come with their metrics. The peak and the durability rows come as scenarios of the names `peak` and
//! `durability`. Data only.

use std::collections::BTreeMap;

use super::model::{Better, DurabilityRow, PeakReport, Published, Report, Trial};
use super::statistics::{self, Interval};

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
            let (not_carried, samples) = (not_carried(&case.trials), samples(&case.trials));
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
                samples: samples.clone(),
                not_carried,
                without_orders: !case.trials.is_empty()
                    && case.trials.iter().all(|trial| trial.outcomes.won == 0),
            }));
        }
    }
    figures.extend(report.peak.iter().flat_map(of_peak));
    figures.extend(report.durability.iter().flat_map(of_durability));
    figures
}

/// Seconds and requests of each trial that counts, or of all if none does.
pub(super) fn samples<'a>(trials: impl IntoIterator<Item = &'a Trial> + Clone) -> Vec<(f64, u64)> {
    let of = |trial: &Trial| (trial.seconds, trial.outcomes.total());
    let valid: Vec<_> = trials.clone().into_iter().filter(|trial| trial.is_valid()).map(of).collect();
    if valid.is_empty() { trials.into_iter().map(of).collect() } else { valid }
}

fn not_carried(trials: &[Trial]) -> Option<(u64, u64)> {
    let flagged = trials.iter().filter_map(Trial::not_carried);
    flagged.reduce(|(some, of), (more, of_more)| (some + more, of + of_more))
}

/// Name, unit and direction of each figure of a search.
const PEAK: [(&str, &str, Better); 4] = [
    ("highest passed", "1/s", Better::Higher),
    ("lowest failed", "1/s", Better::Neither),
    ("closed-loop maximum", "1/s", Better::Higher),
    ("recovery", "s", Better::Lower),
];

/// The figures that a search has.
pub fn peak_metrics() -> Vec<String> {
    PEAK.map(|(metric, ..)| metric.to_owned()).to_vec()
}

/// The figures that a row of the price list has in which these are killed.
pub fn durability_metrics<'a>(victims: impl Iterator<Item = &'a str>) -> Vec<String> {
    let of_kills = victims.flat_map(|victim| [lost(victim), back(victim)]);
    ["throughput", "p99"].map(str::to_owned).into_iter().chain(of_kills).collect()
}

fn lost(victim: &str) -> String {
    format!("acknowledged lost, {victim} killed")
}

fn back(victim: &str) -> String {
    format!("back after, {victim} killed")
}

fn of_peak(peak: &PeakReport) -> Vec<Figure> {
    let recovery = peak.overload.as_ref().and_then(|overload| overload.recovery_s);
    let values = [peak.highest_passed, peak.lowest_failed, peak.closed_loop_max, recovery];
    let figure = |((metric, unit, better), value): ((&str, &str, Better), Option<f64>)| Figure {
        scenario: "peak".to_owned(),
        case: peak.target.clone(),
        series: "peak".to_owned(),
        x: None,
        metric: metric.to_owned(),
        unit: unit.to_owned(),
        better,
        values: value.into_iter().collect(),
        published: None,
        samples: samples(peak.curve.iter().flat_map(|point| &point.trials)),
        // Each load of a search was judged by what it carried.
        not_carried: None,
        without_orders: false,
    };
    PEAK.into_iter().zip(values).map(figure).collect()
}

/// `embedded, SQLite synchronous = full`.
pub fn combination(row: &DurabilityRow) -> String {
    combination_name(&row.profile, &row.settings)
}

/// The same before it is measured.
pub fn combination_name(profile: &str, settings: &BTreeMap<String, String>) -> String {
    let settings = settings.iter().map(|(name, value)| format!(", {name} = {value}"));
    format!("{profile}{}", settings.collect::<String>())
}

fn of_durability(row: &DurabilityRow) -> Vec<Figure> {
    let (not_carried, samples) = (not_carried(&row.trials), samples(&row.trials));
    let figure = |metric: &str, values: Vec<f64>, unit: &str, better| Figure {
        scenario: "durability".to_owned(),
        case: combination(row),
        series: row.profile.clone(),
        x: None,
        metric: metric.to_owned(),
        unit: unit.to_owned(),
        better,
        values,
        published: None,
        samples: samples.clone(),
        not_carried,
        without_orders: false,
    };
    let mut figures = vec![
        figure("throughput", row.orders_per_s.clone(), "1/s", Better::Higher),
        figure("p99", row.p99_us.iter().map(|us| *us as f64).collect(), "us", Better::Lower),
    ];
    for kill in &row.kills {
        let orders_lost = vec![kill.acknowledged_lost as f64];
        let lost = figure(&lost(&kill.victim), orders_lost, "orders", Better::Lower);
        let back = figure(&back(&kill.victim), vec![kill.back_after_s], "s", Better::Lower);
        // Not of the trials: of one kill.
        figures.extend([lost, back].map(|of| Figure { samples: Vec::new(), ..of }));
    }
    figures
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::sample;

    /// Thresholds are checked by these before an hour of measuring.
    #[test]
    fn the_names_of_metrics_are_known_before_they_are_measured() {
        let report = sample::report();
        let named = |scenario: &str| -> Vec<String> {
            all(&report).into_iter().filter(|of| of.scenario == scenario).map(|of| of.metric).collect()
        };
        assert_eq!(named("peak"), peak_metrics());
        let victims = report.durability[0].kills.iter().map(|kill| kill.victim.as_str());
        assert_eq!(named("durability"), durability_metrics(victims));
    }
}
