//! From the measurements of all rounds to the rows and costs of the report.

use super::edge::{self, EdgeSample};
use super::gate::{self, GateSample};
use super::limit::limit;
use super::orders::OrdersSample;
use super::report::{Cost, Measurements, Named, ProcessCost, Row};
use super::scenario::SCENARIOS;
use super::submit::{self, SubmitSample};
use super::watch::Queues;
use crate::goal::{Goal, median};
use crate::usage::Usage;

/// Of the accepted orders: a backlog that grows by less than this is flat, for the looks at it are not at one moment.
const GROWTH_MAX: f64 = 0.05;

/// A quantity of one scenario: its name, its goal, and how it is read from a sample.
type Quantity<'a, T> = (&'a str, Goal, &'a dyn Fn(&T) -> f64);

pub(super) fn summarize(measurements: &Measurements) -> (Vec<Row>, Vec<Cost>) {
    let mut rows = Vec::new();
    let mut costs = Vec::new();
    for scenario in SCENARIOS {
        let samples = named(&measurements.orders, &scenario.name());
        let (rate, none) = (scenario.rate_goal(), |most| scenario.none_goal(most));
        orders(&scenario.name(), &samples, rate, [none(0.0), none(GROWTH_MAX)], &mut rows, &mut costs);
    }
    gate(&measurements.gate, &mut rows, &mut costs);
    submit(&measurements.submit, &mut rows, &mut costs);
    edge(&measurements.edge, &mut rows, &mut costs);
    (rows, costs)
}

fn named<'a, T>(all: &'a [Named<T>], name: &str) -> Vec<&'a T> {
    all.iter().filter(|of| of.name == name).map(|of| &of.sample).collect()
}

fn orders(
    name: &str,
    samples: &[&OrdersSample],
    rate: Goal,
    [refused, growth]: [Goal; 2],
    rows: &mut Vec<Row>,
    costs: &mut Vec<Cost>,
) {
    let quantities: [Quantity<'_, OrdersSample>; 14] = [
        ("accepted/s", Goal::None, &|of| of.accepted_per_s),
        ("persisted/s", rate, &|of| of.persisted_per_s),
        ("not accepted", refused, &|of| of.not_accepted as f64),
        ("backlog growth", growth, &|of| of.queues.backlog_growth),
        ("backlog, most", Goal::None, &|of| of.queues.backlog_max as f64),
        ("seconds until empty", Goal::None, &|of| of.drain_seconds),
        ("click to 202, p50 ms", Goal::None, &|of| ms(of.accepted_us.p50)),
        ("click to 202, p95 ms", Goal::None, &|of| ms(of.accepted_us.p95)),
        ("click to 202, p99 ms", Goal::None, &|of| ms(of.accepted_us.p99)),
        ("click to ledger, p50 ms", Goal::None, &|of| ms(of.waiting_persisted_us.p50)),
        ("click to ledger, p95 ms", Goal::None, &|of| ms(of.waiting_persisted_us.p95)),
        ("click to ledger, p99 ms", Goal::None, &|of| ms(of.waiting_persisted_us.p99)),
        ("of those, to 202, p50 ms", Goal::None, &|of| ms(of.waiting_accepted_us.p50)),
        ("of those, to 202, p99 ms", Goal::None, &|of| ms(of.waiting_accepted_us.p99)),
    ];
    push(name, samples, &quantities, rows);
    if let Some(of) = median_round(samples, |of| of.persisted_per_s) {
        let answers = of.accepted_per_s * of.seconds;
        costs.push(cost(name, "order", &of.usage, answers, Some(&of.queues)));
    }
}

fn gate(measurements: &[Named<GateSample>], rows: &mut Vec<Row>, costs: &mut Vec<Cost>) {
    let name = "gate alone";
    let samples = named(measurements, name);
    let quantities: [Quantity<'_, GateSample>; 3] = [
        ("our client, reserves/s", Goal::None, &|of| of.client_per_s),
        ("redis-benchmark -P 64, /s", Goal::None, &|of| of.redis_benchmark_per_s),
        ("ratio", gate::RATIO, &|of| of.client_per_s / of.redis_benchmark_per_s),
    ];
    push(name, &samples, &quantities, rows);
    if let Some(of) = median_round(&samples, |of| of.client_per_s / of.redis_benchmark_per_s) {
        costs.push(cost(name, "reserve", &of.client_usage, of.client_reserves as f64, None));
        let (usage, reserves) = (&of.redis_benchmark_usage, of.redis_benchmark_reserves as f64);
        costs.push(cost("gate alone, redis-benchmark", "reserve", usage, reserves, None));
    }
}

fn submit(measurements: &[Named<SubmitSample>], rows: &mut Vec<Row>, costs: &mut Vec<Cost>) {
    let name = "submit order, embedded on MariaDB";
    let samples = named(measurements, name);
    let quantities: [Quantity<'_, SubmitSample>; 4] = [
        ("rows/s", Goal::AtLeast(submit::PER_S_MIN), &|of| of.rows_per_s),
        ("not accepted", Goal::AtMost(0.0), &|of| of.not_accepted as f64),
        ("p50 ms", Goal::None, &|of| ms(of.response_us.p50)),
        ("p99 ms", Goal::None, &|of| ms(of.response_us.p99)),
    ];
    push(name, &samples, &quantities, rows);
    if let Some(of) = median_round(&samples, |of| of.rows_per_s) {
        costs.push(cost(name, "order", &of.usage, of.rows_per_s * of.seconds, None));
    }
}

fn edge(measurements: &[Named<EdgeSample>], rows: &mut Vec<Row>, costs: &mut Vec<Cost>) {
    let mut names: Vec<&str> = measurements.iter().map(|of| of.name.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    for name in names {
        let samples = named(measurements, name);
        let goal = samples.first().map_or(Goal::None, |of| edge::goal(of.cache_ms));
        let quantities: [Quantity<'_, EdgeSample>; 5] = [
            ("edge, answers/s", Goal::None, &|of| of.edge.answers_per_s),
            ("file by nginx, answers/s", Goal::None, &|of| of.file.answers_per_s),
            ("rate ratio", goal, &|of| of.edge.answers_per_s / of.file.answers_per_s),
            ("CPU ratio", Goal::None, &|of| of.edge.cpu_us / of.file.cpu_us),
            ("p99 ms", Goal::None, &|of| ms(of.edge.response_us.p99)),
        ];
        push(name, &samples, &quantities, rows);
        if let Some(of) = median_round(&samples, |of| of.edge.answers_per_s / of.file.answers_per_s) {
            // The usage is of the warm-up too, so its answers are taken by the rate.
            costs.push(cost(name, "answer", &of.usage, of.edge.answers_per_s * of.usage.seconds, None));
        }
    }
}

fn push<T>(name: &str, samples: &[&T], quantities: &[Quantity<'_, T>], rows: &mut Vec<Row>) {
    if samples.is_empty() {
        return;
    }
    for (quantity, goal, read) in quantities {
        let points: Vec<f64> = samples.iter().map(|sample| read(sample)).collect();
        let value = median(points.iter().copied());
        let met = goal.met(value);
        rows.push(Row {
            name: name.to_owned(),
            quantity: (*quantity).to_owned(),
            value,
            points,
            goal: *goal,
            met,
        });
    }
}

/// The round whose figure is the median; of an even number of rounds, the lower of the two in the middle.
fn median_round<'a, T>(samples: &[&'a T], figure: impl Fn(&T) -> f64) -> Option<&'a T> {
    let mut sorted = samples.to_vec();
    sorted.sort_by(|a, b| figure(a).total_cmp(&figure(b)));
    sorted.get(sorted.len().checked_sub(1)? / 2).copied()
}

fn cost(name: &str, per: &str, usage: &Usage, answers: f64, queues: Option<&Queues>) -> Cost {
    let processes = usage
        .processes
        .iter()
        .map(|of| ProcessCost {
            name: of.name.clone(),
            cpu_us: of.cpu_seconds * 1e6 / answers.max(1.0),
            processors: of.processors,
            busiest_thread: of.busiest_thread.clone(),
            busiest_thread_share: of.busiest_thread_share,
        })
        .collect();
    Cost {
        name: name.to_owned(),
        per: per.to_owned(),
        processes,
        others: usage.others,
        limit: limit(usage, queues),
    }
}

fn ms(us: u64) -> f64 {
    us as f64 / 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::record::{LatencyUs, Outcomes};

    fn usage() -> Usage {
        let processors = 2;
        Usage {
            seconds: 5.0,
            processors,
            steal: 0.0,
            machine_busy: 0.5,
            others: 0.0,
            disk_busy: None,
            processes: Vec::new(),
        }
    }

    fn submitted(round: usize, rows_per_s: f64, not_accepted: u64) -> Named<SubmitSample> {
        let sample = SubmitSample {
            seconds: 5.0,
            rows_per_s,
            not_accepted,
            outcomes: Outcomes::default(),
            response_us: LatencyUs { p50: 1500, ..LatencyUs::default() },
            usage: usage(),
        };
        Named { round, name: "submit order, embedded on MariaDB".to_owned(), sample }
    }

    #[test]
    fn medians_are_judged_and_the_median_round_explains_them() {
        let submit = vec![submitted(1, 14_000.0, 0), submitted(2, 18_000.0, 3), submitted(3, 16_000.0, 0)];
        let (rows, costs) = summarize(&Measurements { submit, ..Measurements::default() });
        let seen: Vec<_> = rows.iter().map(|row| (row.quantity.as_str(), row.value, row.met)).collect();
        assert_eq!(seen[0], ("rows/s", 16_000.0, Some(true)));
        assert_eq!(seen[1], ("not accepted", 0.0, Some(true)));
        assert_eq!(seen[2], ("p50 ms", 1.5, None));
        assert_eq!((rows.len(), costs.len()), (4, 1));
        assert!(costs[0].limit.starts_with("Nothing was used up"), "{:?}", costs[0]);
    }

    #[test]
    fn of_two_rounds_the_lower_explains() {
        assert_eq!(median_round(&[&2.0, &1.0], |of| *of), Some(&1.0));
        assert_eq!(median_round(&[], |of: &f64| *of), None);
    }
}
