//! Figures of trials as the metrics of a case. Invalid trials are kept in the report and give no figure.

use crate::load::Trial;
use crate::report::model::{Better, Metric, Published};

/// Orders won, reads served, messages queued: refusals and failures are no throughput.
pub(super) fn throughput(trials: &[Trial], published: Option<Published>) -> Metric {
    metric("throughput", "1/s", Better::Higher, trials, Trial::good_per_s, published)
}

/// A quantile of the response time, from the planned send: `p99`.
pub(super) fn response(trials: &[Trial], name: &str, quantile: f64, published: Option<Published>) -> Metric {
    metric(name, "us", Better::Lower, trials, |trial| trial.response.at(quantile) as f64, published)
}

pub(super) fn response_mean(trials: &[Trial], published: Option<Published>) -> Metric {
    metric("mean", "us", Better::Lower, trials, |trial| trial.response.mean_us, published)
}

/// Answers that should not have come, and lost ones.
pub(super) fn bad(trials: &[Trial], published: Option<Published>) -> Metric {
    metric(
        "failed or unknown",
        "requests",
        Better::Lower,
        trials,
        |trial| trial.outcomes.bad() as f64,
        published,
    )
}

/// Processor time of a process that was watched under this name, for each good answer.
pub(super) fn cpu_per_answer(trials: &[Trial], process: &str) -> Metric {
    let cost = |trial: &Trial| {
        let usage = trial.usage.as_ref()?.processes.iter().find(|of| of.name == process)?;
        Some(usage.cpu_seconds * 1e6 / trial.outcomes.good().max(1) as f64)
    };
    let values = trials.iter().filter(|trial| trial.is_valid()).filter_map(cost).collect();
    let name = format!("CPU per answer, {process}");
    Metric { name, unit: "us".to_owned(), better: Better::Lower, values, published: None }
}

pub(super) fn metric(
    name: &str,
    unit: &str,
    better: Better,
    trials: &[Trial],
    value: impl Fn(&Trial) -> f64,
    published: Option<Published>,
) -> Metric {
    let values = trials.iter().filter(|trial| trial.is_valid()).map(value).collect();
    Metric { name: name.to_owned(), unit: unit.to_owned(), better, values, published }
}
