//! Figures of trials as the metrics of a case. Invalid trials are kept in the report and give no figure.

use crate::goal::median;
use crate::load::Trial;
use crate::report::model::{Better, Metric, Published};

/// Orders won, reads served, messages queued: refusals and failures are no throughput.
pub(super) fn throughput(trials: &[Trial], published: Option<Published>) -> Metric {
    metric("throughput", "1/s", Better::Higher, trials, Trial::good_per_s, published)
}

/// The median of the valid trials, for the line of progress.
pub(super) fn shown(trials: &[Trial]) -> String {
    let valid = || trials.iter().filter(|trial| trial.is_valid());
    match valid().count() {
        0 => "no valid trial".to_owned(),
        _ => format!("{:.0}/s", median(valid().map(Trial::good_per_s))),
    }
}

/// A quantile of the response time, from the planned send: `p99`. Beside times of orders and reads that were carried
/// the times of refusals say nothing: then nothing published stands there.
pub(super) fn response(trials: &[Trial], name: &str, quantile: f64, published: Option<Published>) -> Metric {
    let published = published.filter(|_| are_carried(trials));
    metric(name, "us", Better::Lower, trials, |trial| trial.response.at(quantile) as f64, published)
}

pub(super) fn response_mean(trials: &[Trial], published: Option<Published>) -> Metric {
    let published = published.filter(|_| are_carried(trials));
    metric("mean", "us", Better::Lower, trials, |trial| trial.response.mean_us, published)
}

fn are_carried(trials: &[Trial]) -> bool {
    trials.iter().all(|trial| trial.not_carried().is_none())
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
        let good = trial.outcomes.good();
        (good > 0).then(|| usage.cpu_seconds * 1e6 / good as f64)
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
        let p99 = |trial: &Trial| {
            let published = Published { value: 9.0, dubious: None };
            response(std::slice::from_ref(trial), "p99", 0.99, Some(published)).published
        };
        assert!(p99(&trial).is_some());
        trial.flags.push(Flag::NotCarried { requests: 10, of: 10 });
        assert!(p99(&trial).is_none());
    }
}
