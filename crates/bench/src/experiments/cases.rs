//! Figures of trials as the metrics of a case. Invalid trials are kept in the report and give no figure.

use crate::goal::median;
use crate::load::Trial;
use crate::reference::Row;
use crate::report::model::{Better, Case, Metric, X};

type Value = fn(&Trial) -> f64;

/// Name, unit, direction and value of the figures that loads have. Times are from the planned send.
const FIGURES: [(&str, &str, Better, Value); 12] = [
    // Orders won, reads served, messages queued: refusals and failures are no throughput.
    ("throughput", "1/s", Better::Higher, Trial::good_per_s),
    ("p50", "us", Better::Lower, |trial| trial.response.at(0.5) as f64),
    ("p95", "us", Better::Lower, |trial| trial.response.at(0.95) as f64),
    ("p99", "us", Better::Lower, |trial| trial.response.at(0.99) as f64),
    ("p99.9", "us", Better::Lower, |trial| trial.response.at(0.999) as f64),
    ("mean", "us", Better::Lower, |trial| trial.response.mean_us),
    ("max", "us", Better::Lower, |trial| trial.response.max_us as f64),
    ("mean response", "us", Better::Lower, |trial| trial.response.mean_us),
    ("p99 response", "us", Better::Lower, |trial| trial.response.at(0.99) as f64),
    ("max response", "us", Better::Lower, |trial| trial.response.max_us as f64),
    // Answers that should not have come, and lost ones.
    ("failed", "messages", Better::Lower, |trial| trial.outcomes.bad() as f64),
    ("failed or unknown", "requests", Better::Lower, |trial| trial.outcomes.bad() as f64),
];
const CPU: &str = "CPU per answer, ";

/// Where a case is in the report.
#[derive(Debug, Clone)]
pub(super) struct Point {
    pub(super) name: String,
    pub(super) series: String,
    pub(super) x: Option<X>,
    /// Whose figures stand beside those of the same name.
    pub(super) published: Option<&'static Row>,
}

impl Point {
    /// A point that is a bar of its own.
    pub(super) fn bar(series: &str, name: String) -> Self {
        Self { name, series: series.to_owned(), x: None, published: None }
    }

    pub(super) fn beside(self, published: Option<&'static Row>) -> Self {
        Self { published, ..self }
    }

    /// A point of a line: named after both.
    pub(super) fn at(series: &str, label: &str, value: u64) -> Self {
        let x = X { label: label.to_owned(), value: value as f64 };
        Self {
            name: format!("{series}, {value} {label}"),
            series: series.to_owned(),
            x: Some(x),
            published: None,
        }
    }
    /// Of these trials: their figures of these names and those of its own, each beside what was published of it.
    pub(super) fn case(self, trials: Vec<Trial>, names: &[&str], own: Vec<Metric>) -> Case {
        let Self { name, series, x, published } = self;
        let mut metrics = figures(&trials, names);
        metrics.extend(own);
        beside_published(&mut metrics, &trials, published);
        Case { name, series, x, metrics, trials, ..Case::default() }
    }
}

/// The figures of these names, in this order; `CPU per answer, nginx` is of the process that was watched under that name.
pub(super) fn figures(trials: &[Trial], names: &[&str]) -> Vec<Metric> {
    let figure = |name: &&str| {
        if let Some(process) = name.strip_prefix(CPU) {
            return cpu_per_answer(trials, process);
        }
        let known = FIGURES.iter().find(|of| of.0 == *name);
        let (name, unit, better, value) = known.expect("the tables name figures that there are");
        metric(name, unit, *better, trials, value)
    };
    names.iter().map(figure).collect()
}

/// Puts what was published beside it. Beside times of orders and reads that were carried the times of refusals say nothing:
/// then nothing stands there.
pub(super) fn beside_published(metrics: &mut [Metric], trials: &[Trial], row: Option<&Row>) {
    let carried = trials.iter().all(|trial| trial.not_carried().is_none());
    for metric in metrics.iter_mut().filter(|metric| carried || metric.unit != "us") {
        metric.published = row.and_then(|row| row.figure(&metric.name));
    }
}

/// The median of the valid trials, for the line of progress.
pub(super) fn shown(trials: &[Trial]) -> String {
    let valid = || trials.iter().filter(|trial| trial.is_valid());
    match valid().count() {
        0 => "no valid trial".to_owned(),
        _ => format!("{:.0}/s", median(valid().map(Trial::good_per_s))),
    }
}

/// Processor time of a process that was watched under this name, for each good answer.
fn cpu_per_answer(trials: &[Trial], process: &str) -> Metric {
    let cost = |trial: &Trial| {
        let usage = trial.usage.as_ref()?.processes.iter().find(|of| of.name == process)?;
        let good = trial.outcomes.good();
        (good > 0).then(|| usage.cpu_seconds * 1e6 / good as f64)
    };
    let values = trials.iter().filter(|trial| trial.is_valid()).filter_map(cost).collect();
    Metric::new(&format!("{CPU}{process}"), "us", Better::Lower, values)
}

pub(super) fn metric(
    name: &str,
    unit: &str,
    better: Better,
    trials: &[Trial],
    value: impl Fn(&Trial) -> f64,
) -> Metric {
    Metric::new(name, unit, better, trials.iter().filter(|trial| trial.is_valid()).map(value).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::record::Record;
    use crate::load::schedule::Schedule;
    use crate::load::trial::Flag;

    #[test]
    fn refusals_stand_beside_nothing_that_was_published() {
        let record = Record::default();
        let mut trial = Trial::new(1, &Schedule::closed_requests(1), &record, None);
        let row = crate::reference::find(crate::reference::File::Tiers, &[("tier", "stock")]);
        let p99 = |trial: &Trial| {
            let trials = std::slice::from_ref(trial);
            let mut metrics = figures(trials, &["p99"]);
            beside_published(&mut metrics, trials, row);
            metrics.remove(0).published
        };
        assert!(p99(&trial).is_some());
        trial.flags.push(Flag::NotCarried { requests: 10, of: 10 });
        assert!(p99(&trial).is_none());
    }
}
