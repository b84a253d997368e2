//! What a rehearsal prints: lines for people, of which the first says all, and the same as JSON.

use serde_json::{Value, json};

use super::verdict::{Finding, crowd_late_us, sold_out_s};
use super::{Paying, Rehearsal, Rehearsed};
use crate::load::Trial;
use crate::report::format::figure;

/// Beside the sentence.
pub fn text(rehearsal: &Rehearsal<'_>, rehearsed: &Rehearsed, finding: &Finding) -> String {
    let Rehearsed { trial, units, left, admitted_per_s, .. } = rehearsed;
    let outcomes = &trial.outcomes;
    let count = |value: u64| figure(value as f64, "");
    let time = |us: u64| figure(us as f64, "us");
    let sold_out = match sold_out_s(rehearsed) {
        Some(at) => format!("all {} units after {}", count(*units), figure(at, "s")),
        None => format!("no: {} of {} units are left", count(*left), count(*units)),
    };
    let answered = format!(
        "{} orders, {} sold out, {} over the limit, {} rate limited, {} busy, {} failed, {} unknown",
        count(outcomes.won),
        count(outcomes.sold_out),
        count(outcomes.over_limit),
        count(outcomes.limited),
        count(outcomes.busy),
        count(outcomes.failed),
        count(outcomes.unknown)
    );
    let late = match crowd_late_us(trial) {
        0 => String::new(),
        late => format!("; in them the crowd was late by {} (p99)", time(late)),
    };
    let admission = match *admitted_per_s {
        0 => "as many as come".to_owned(),
        rate => format!("{} orders/s", count(rate)),
    };
    let best = trial.seconds_series.iter().map(|second| second.good).max().unwrap_or(0);
    let lines = [
        (
            "buyers",
            format!(
                "{} within {}, one unit each; {}",
                count(rehearsal.buyers),
                figure(rehearsal.over.as_secs_f64(), "s"),
                came(rehearsal.buyers, trial)
            ),
        ),
        ("answered", answered),
        ("attempts", format!("{} further ones; {} gave up", count(trial.retries), count(trial.gave_up))),
        ("admission", admission),
        ("best second", format!("{} orders", count(best))),
        ("sold out", sold_out),
        (
            "times",
            format!(
                "p50 {}, p99 {}, longest {}, of all answers{late}",
                time(trial.response.at(0.5)),
                time(trial.response.at(0.99)),
                time(trial.response.max_us)
            ),
        ),
        ("processors", processors(rehearsed)),
        ("paid", paid(rehearsed)),
    ];
    let rows = lines.map(|(name, value)| format!("  {name:<13}{value}\n")).concat();
    format!("{}\n{rows}", finding.sentence)
}

/// Buyers come by chance, most of them at once and the others later and later, so that some never do, or a few more than planned.
/// With further attempts, what was answered, failed or is unknown adds up to those who came.
fn came(buyers: u64, trial: &Trial) -> String {
    let count = |value: u64| figure(value as f64, "");
    let came = trial.outcomes.total().saturating_sub(trial.retries);
    let unsent = match trial.unsent {
        0 => String::new(),
        unsent => format!(", {} attempts were never sent", count(unsent)),
    };
    match buyers.checked_sub(came) {
        Some(absent) => format!("{} came, {} did not come in time{unsent}", count(came), count(absent)),
        None => format!("{} came, {} more by chance{unsent}", count(came), count(came - buyers)),
    }
}

fn paid(rehearsed: &Rehearsed) -> String {
    let count = |value: u64| figure(value as f64, "");
    match &rehearsed.paying {
        None => "nothing: nobody held anything".to_owned(),
        Some(Paying { due, paid, p99_us, came_back, sold_again }) => format!(
            "{} of {} orders, p99 {}; {} units of others came back, {} of them were sold again",
            count(*paid),
            count(*due),
            figure(*p99_us as f64, "us"),
            count(*came_back),
            count(*sold_again)
        ),
    }
}

fn processors(rehearsed: &Rehearsed) -> String {
    let Some(usage) = &rehearsed.trial.usage else { return "not known".to_owned() };
    let each = usage.processes.iter().map(|of| format!("{} {:.2}", of.name, of.processors));
    let listed: Vec<String> = each.chain([format!("other work {:.2}", usage.others)]).collect();
    format!("{} of {}", listed.join(", "), usage.processors)
}

/// Rates per second, times in microseconds.
pub fn json(rehearsal: &Rehearsal<'_>, rehearsed: &Rehearsed, finding: &Finding) -> Value {
    let trial = &rehearsed.trial;
    json!({
        "verdict": finding.sentence,
        "orders_per_s": finding.carried.map(|carried| carried.orders_per_s),
        "at_least": finding.carried.map(|carried| carried.at_least),
        "admission_orders_per_s": finding.carried.and_then(|carried| carried.admission_orders_per_s),
        "buyers": rehearsal.buyers,
        "admitted_per_s": rehearsed.admitted_per_s,
        "units": rehearsed.units,
        "left": rehearsed.left,
        "paying": rehearsed.paying,
        "sold_out_s": sold_out_s(rehearsed),
        "answered": trial.outcomes,
        "retries": trial.retries,
        "gave_up": trial.gave_up,
        "p50_us": trial.response.at(0.5),
        "p99_us": trial.response.at(0.99),
        "max_us": trial.response.max_us,
        "crowd_late_us": crowd_late_us(trial),
        "seconds": trial.seconds_series,
        "usage": trial.usage,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::record::Record;
    use crate::load::schedule::Schedule;

    /// 12,000 buyers were said, 11,830 answers, and nothing of the others.
    #[test]
    fn what_was_answered_and_who_did_not_come_add_up() {
        let schedule = Schedule::constant(1.0, std::time::Duration::from_secs(3));
        let mut trial = Trial::new(1, &schedule, &Record::default(), None);
        (trial.outcomes.won, trial.outcomes.failed, trial.outcomes.unknown) = (11_800, 20, 40);
        trial.retries = 30;
        assert_eq!(came(12_000, &trial), "11,830 came, 170 did not come in time");
        trial.unsent = 2;
        assert_eq!(came(11_829, &trial), "11,830 came, 1 more by chance, 2 attempts were never sent");
    }
}
