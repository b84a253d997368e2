//! The 36 published scenarios of RocketMQ's own producer benchmark.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::time::Duration;

use super::brokers::Brokers;
use super::{METRICS, Produced};
use crate::drivers::rocketmq::{Bodies, Sending, Topic};
use crate::experiments::cases::{Point, Run};
use crate::experiments::shapes::Judged;
use crate::experiments::{ScenarioContext, limit};
use crate::reference::{self, File};
use crate::report::model::{Case, ScenarioReport, Shape};
use crate::report::statistics::median;

/// Each with the four combinations below, in this order.
const THREADS: [usize; 9] = [1, 10, 30, 45, 60, 75, 100, 150, 200];
/// Bytes of a body, and queues of the topic.
const COMBINATIONS: [(usize, u32); 4] = [(1024, 8), (3072, 8), (1024, 16), (3072, 16)];
/// Said to have 45 threads, and run with 30.
const MISSTATED: (usize, usize) = (16, 30);
/// A series has levelled off where it has this share of its best.
const LEVEL: f64 = 0.9;
/// It has risen to it only if so many threads reach less than this share of its best: a flat curve has no knee.
const FEW_THREADS: f64 = 10.0;
const RISEN: f64 = 0.8;

/// One of the 36.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Row {
    /// As published, from 1.
    number: usize,
    threads: usize,
    bytes: usize,
    queues: u32,
}

impl Row {
    fn all() -> impl Iterator<Item = Self> {
        let rows = THREADS.iter().flat_map(|threads| COMBINATIONS.iter().map(move |of| (*threads, *of)));
        rows.enumerate().map(|(index, (threads, (bytes, queues)))| {
            let number = index + 1;
            let threads = if number == MISSTATED.0 { MISSTATED.1 } else { threads };
            Self { number, threads, bytes, queues }
        })
    }

    fn name(self) -> String {
        let Self { number, threads, bytes, queues } = self;
        let plural = if threads == 1 { "" } else { "s" };
        format!("scenario {number:02}: {threads} thread{plural}, {bytes} bytes, {queues} queues")
    }

    fn series(self) -> String {
        series(self.bytes, self.queues)
    }

    fn published(self) -> Option<&'static reference::Row> {
        reference::find(File::Producer, &[("scenario", &self.number.to_string())])
    }
}

fn series(bytes: usize, queues: u32) -> String {
    format!("{bytes} bytes, {queues} queues")
}

#[derive(Debug, Clone, Copy)]
struct Plan {
    warm_up: Duration,
    settle: Duration,
    window: Duration,
}

impl Plan {
    fn of(context: &ScenarioContext) -> Self {
        let (warm_up, settle, window) =
            if context.quick() { (15_000, 200, 1_800) } else { (60_000, 2_000, 10_000) };
        let ms = Duration::from_millis;
        Self { warm_up: ms(warm_up), settle: ms(settle), window: ms(window) }
    }
}

pub(super) fn run(context: &ScenarioContext) -> anyhow::Result<ScenarioReport> {
    super::on_brokers(context, "RocketMQ: the producer in 36 scenarios", measure)
}

fn measure(run: &mut Run<'_>, brokers: &mut Brokers) -> anyhow::Result<Vec<Shape>> {
    let context = run.context;
    if context.quick() {
        run.scaled_down("one window of 1.8 s instead of several of 10 s");
    }
    run.note("scenario 16 is said to have 45 threads, and was run with 30: so it is here");
    run.note("each repeat is one window on the same connections, as the published samples are");
    let plan = Plan::of(context);
    let mut topics: BTreeMap<u32, (Topic, Produced)> = BTreeMap::new();
    for row in Row::all().filter(|row| context.wants(&row.name())) {
        if brokers.make_room(context)? || topics.is_empty() {
            topics.clear();
            brokers.warm_up(context, plan.warm_up)?;
            for queues in [8, 16] {
                let topic = brokers.topic(&format!("doorbuster_bench_{queues}"), queues)?;
                let produced = Produced { before: topic.messages()?, ..Produced::default() };
                topics.insert(queues, (topic, produced));
            }
        }
        let (topic, produced) = topics.get_mut(&row.queues).expect("both were made above");
        let bodies = Bodies::new(context.seed, row.bytes);
        let sending = Sending::plain(topic.clone(), row.threads, bodies);
        let point = Point::at(&row.series(), "threads", row.threads as u64).named(row.name());
        run.case(point.beside(row.published()), METRICS, || {
            super::produce(context, brokers, sending, plan.settle, plan.window, produced)
        })?;
        brokers.check_room()?;
    }
    Ok(shapes(&run.report.cases))
}

/// Threads and median throughput of a series, by rising threads.
fn curve(cases: &[Case], series: &str) -> Vec<(f64, f64)> {
    let mut points: Vec<(f64, f64)> = cases
        .iter()
        .filter(|case| case.series == series)
        .filter_map(|case| Some((case.x.as_ref()?.value, median(&case.metrics.first()?.values)?)))
        .collect();
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    points
}

fn shapes(cases: &[Case]) -> Vec<Shape> {
    vec![
        levels_off(cases),
        ratio(cases, [(1024, 8), (3072, 8)], 0.5..=1.02).shape(
            "bodies of 3 KB cost some throughput, far less than three times",
            "3 KB is slower than 1 KB in nearly all pairs, by less than a fifth",
        ),
        ratio(cases, [(1024, 8), (1024, 16)], 0.9..=1.1).shape(
            "16 queues are no better than 8",
            "within a few percent either way, but for a single thread",
        ),
    ]
}

fn levels_off(cases: &[Case]) -> Shape {
    let (mut knees, mut few, mut doubt) = (Vec::new(), Vec::new(), None);
    for (bytes, queues) in COMBINATIONS {
        let series = series(bytes, queues);
        let curve = curve(cases, &series);
        let best = curve.iter().map(|point| point.1).fold(0.0, f64::max);
        // One that begins after the published ones do, or ends before them, can't show it.
        if curve.last().is_some_and(|last| last.0 >= 200.0)
            && let Some(start) = curve.iter().find(|point| point.0 == FEW_THREADS)
            && let Some(knee) = curve.iter().find(|point| point.1 >= LEVEL * best)
        {
            knees.push(knee.0);
            few.push(start.1 / best);
            let plateau = limit::plateau(cases.iter().filter(|case| case.series == series));
            doubt = doubt.or_else(|| limit::generator_bound(plateau?.1));
        }
    }
    let measured = (!knees.is_empty()).then(|| {
        let many = |shares: &[f64], unit| {
            shares.iter().map(|of| format!("{of:.0}{unit}")).collect::<Vec<_>>().join(", ")
        };
        let percent: Vec<f64> = few.iter().map(|share| share * 100.0).collect();
        let said = format!(
            "{:.0}% of the best from {} threads on; with {FEW_THREADS} threads {} of it",
            LEVEL * 100.0,
            many(&knees, ""),
            many(&percent, "%")
        );
        (said, knees.iter().all(|knee| *knee <= 100.0) && few.iter().all(|share| *share < RISEN))
    });
    Judged::new(measured, "no whole series was run").doubted(doubt).shape(
        "throughput rises with the threads, and levels off by 100",
        "it levels off at 75 to 100 threads",
    )
}

/// The second curve over the first, where both have a point.
fn pairs(first: &[(f64, f64)], second: &[(f64, f64)]) -> Vec<f64> {
    first
        .iter()
        .filter_map(|(x, y)| second.iter().find(|(other, _)| other == x).map(|(_, other)| other / y))
        .filter(|ratio| ratio.is_finite())
        .collect()
}

/// Of the rates of the second series to those of the first, thread by thread.
fn ratio(cases: &[Case], of: [(usize, u32); 2], bounds: RangeInclusive<f64>) -> Judged {
    let of = of.map(|(bytes, queues)| series(bytes, queues));
    let ratios = &pairs(&curve(cases, &of[0]), &curve(cases, &of[1]));
    let least = ratios.iter().copied().fold(f64::INFINITY, f64::min);
    let most = ratios.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let measured = median(ratios).map(|middle| {
        let pairs = ratios.len();
        let said = format!("{middle:.2} times in the median of {pairs} pairs, {least:.2} to {most:.2}");
        (said, bounds.contains(&middle))
    });
    let names: Vec<&str> =
        cases.iter().filter(|case| of.contains(&case.series)).map(|case| case.name.as_str()).collect();
    Judged::new(measured, "no pair was run").doubted(limit::bound(cases, &names))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::model::{Better, Metric, X};

    #[test]
    fn the_rows_are_those_that_were_published() {
        let rows: Vec<Row> = Row::all().collect();
        assert_eq!(rows.len(), 36);
        assert_eq!(rows[0], Row { number: 1, threads: 1, bytes: 1024, queues: 8 });
        assert_eq!(rows[15], Row { number: 16, threads: 30, bytes: 3072, queues: 16 });
        assert_eq!(rows[26], Row { number: 27, threads: 100, bytes: 1024, queues: 16 });
        assert_eq!(rows[35], Row { number: 36, threads: 200, bytes: 3072, queues: 16 });
        for row in rows {
            let published = row.published().unwrap();
            let cells = ["threads_run", "message_bytes", "queues"].map(|column| published.text(column));
            assert_eq!(cells.join(" "), format!("{} {} {}", row.threads, row.bytes, row.queues));
        }
    }

    fn cases(rate: impl Fn(Row) -> f64) -> Vec<Case> {
        let metric = |row| Metric::new("throughput", "1/s", Better::Higher, vec![rate(row)]);
        let case = |row: Row| Case {
            name: row.name(),
            series: row.series(),
            x: Some(X { label: "threads".into(), value: row.threads as f64 }),
            metrics: vec![metric(row)],
            ..Case::default()
        };
        Row::all().map(case).collect()
    }

    #[test]
    fn shapes_hold_where_they_do() {
        let holds = |cases: &[Case]| shapes(cases).iter().map(|shape| shape.holds).collect::<Vec<_>>();
        let knee = |row: Row| 1000.0 * row.threads.min(75) as f64 * if row.bytes == 3072 { 0.9 } else { 1.0 };
        assert_eq!(holds(&cases(knee)), [Some(true); 3]);
        let other =
            |row: Row| row.threads as f64 * if row.bytes == 3072 { 0.3 } else { 1.0 } * f64::from(row.queues);
        assert_eq!(holds(&cases(other)), [Some(false); 3]);
        // A curve that is flat from one thread on never levelled off.
        let flat = &shapes(&cases(|_| 1000.0))[0];
        assert_eq!(flat.holds, Some(false));
        assert!(
            flat.measured.contains("from 1, 1, 1, 1 threads on; with 10 threads 100%"),
            "{}",
            flat.measured
        );
        assert_eq!(holds(&cases(knee)[..1]), [None; 3]);
    }

    #[test]
    fn series_with_a_trial_of_a_full_generator_are_not_compared() {
        let knee = |row: Row| 1000.0 * row.threads.min(75) as f64 * if row.bytes == 3072 { 0.9 } else { 1.0 };
        let mut cases = cases(knee);
        let full = cases.iter_mut().find(|case| case.series == series(3072, 8)).unwrap();
        full.trials = limit::tests::case_of("", 1, 0.9).trials;
        let holds: Vec<_> = shapes(&cases).iter().map(|shape| shape.holds).collect();
        assert_eq!(holds, [None, None, Some(true)]);
    }
}
