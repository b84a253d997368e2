//! Figures of trials as the metrics of a case. Invalid trials are kept in the report and give no figure.

use super::model::{Better, Metric, Trial};

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

/// The figures of these names, in this order; `CPU per answer, nginx` is of the process that was watched under that name.
pub(crate) fn figures(trials: &[Trial], names: &[&str]) -> Vec<Metric> {
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

pub(crate) fn metric(
    name: &str,
    unit: &str,
    better: Better,
    trials: &[Trial],
    value: impl Fn(&Trial) -> f64,
) -> Metric {
    Metric::new(name, unit, better, trials.iter().filter(|trial| trial.is_valid()).map(value).collect())
}
