//! Orders end to end, by how the broker flushes, by servers, and by arrivals: load, buyers who wait, looks at the queues, and
//! the time until the ledger has every order.
//!
//! Two sets of engines run through all repeats, one for each way in which the broker flushes, warmed up before the first:
//! a broker that has just started sells a quarter of what it will, and its compiler takes most of the processors' time. Only
//! one is under load.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};

use super::buyers::{BUYERS, Buyer, Seen};
use super::watch::{Queues, Watcher};
use super::{DISK_BYTES_MAX, Stack};
use crate::drivers::http::{Heard, Http};
use crate::experiments::cases::Run;
use crate::experiments::warm_up::until_no_faster;
use crate::experiments::{ScenarioContext, beside};
use crate::goal::{Goal, median};
use crate::host::usage::Watched;
use crate::load::distribution::Distribution;
use crate::load::schedule::Schedule;
use crate::load::{Generator, Settings, Trial};
use crate::measure::{Surroundings, trial};
use crate::report::model::{Better, Case, Metric, ScenarioReport};
use crate::report::trials;
use crate::target::engines::BrokerFlush;
use crate::target::installation::cluster::{DATABASE, Shop, TOPIC};

/// Accepted orders per second of the published order tier (`reference/seckill-tiers.csv`).
const PUBLISHED_PER_S: f64 = 4055.0;
/// Of a closed loop: enough to keep every stage supplied, as the published runs had.
const CONNECTIONS: usize = 300;
/// Of a set of engines, before anything is measured on it.
const WARM_UP_MIN: Duration = Duration::from_secs(12);
const WARM_UP_MAX: Duration = Duration::from_secs(90);
/// An open loop offers this share of what the peak persisted in the same repeat: what could be sold all day.
const SUSTAINED_SHARE: f64 = 0.8;
/// For each order accepted: a backlog that grows by less than this is flat.
const GROWTH_MAX: f64 = 0.05;

pub(super) const METRICS: &[&str] = &[
    "throughput",
    "persisted",
    "not accepted",
    "backlog growth",
    "backlog, most",
    "time until empty",
    "p50",
    "p95",
    "p99",
    "click to ledger, p50",
    "click to ledger, p95",
    "click to ledger, p99",
    "click to 202 of those, p50",
    "click to 202 of those, p99",
    "CPU per answer, load",
    "CPU per answer, server 1",
    "CPU per answer, server 2",
    "CPU per answer, redis",
    "CPU per answer, mariadb",
    "CPU per answer, rocketmq-broker",
    "CPU per answer, rocketmq-namesrv",
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Arrival {
    /// Closed loop: as fast as they are answered, be the ledger behind or not.
    Peak,
    /// Open loop at a rate that the ledger must keep up with; times from the planned send.
    Sustained,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Row {
    flush: BrokerFlush,
    servers: usize,
    arrival: Arrival,
}

const fn row(flush: BrokerFlush, servers: usize, arrival: Arrival) -> Row {
    Row { flush, servers, arrival }
}

/// In the order of a repeat: a sustained load follows the peak that it is a share of.
const ROWS: [Row; 8] = [
    row(BrokerFlush::Asynchronous, 1, Arrival::Peak),
    row(BrokerFlush::Asynchronous, 1, Arrival::Sustained),
    row(BrokerFlush::Asynchronous, 2, Arrival::Peak),
    row(BrokerFlush::Asynchronous, 2, Arrival::Sustained),
    row(BrokerFlush::Synchronous, 1, Arrival::Peak),
    row(BrokerFlush::Synchronous, 1, Arrival::Sustained),
    row(BrokerFlush::Synchronous, 2, Arrival::Peak),
    row(BrokerFlush::Synchronous, 2, Arrival::Sustained),
];

impl Row {
    fn name(self) -> String {
        let flush = match self.flush {
            BrokerFlush::Asynchronous => "async",
            BrokerFlush::Synchronous => "sync",
        };
        let arrival = match self.arrival {
            Arrival::Peak => "peak",
            Arrival::Sustained => "sustained",
        };
        let servers = if self.servers == 1 { "1 server" } else { "2 servers" };
        format!("{flush} broker, {servers}, {arrival}")
    }

    /// Only what lasts is judged.
    fn bounds(self) -> beside::Bounds {
        match (self.flush, self.arrival) {
            (_, Arrival::Peak) => &[],
            (BrokerFlush::Asynchronous, Arrival::Sustained) => &[
                ("persisted", Goal::AtLeast(PUBLISHED_PER_S)),
                ("not accepted", Goal::AtMost(0.0)),
                ("backlog growth", Goal::AtMost(GROWTH_MAX)),
            ],
            (BrokerFlush::Synchronous, Arrival::Sustained) => {
                &[("not accepted", Goal::AtMost(0.0)), ("backlog growth", Goal::AtMost(GROWTH_MAX))]
            }
        }
    }

    fn is_peak_of(self, other: Self) -> bool {
        self == Self { arrival: Arrival::Peak, ..other }
    }
}

struct Sample {
    trial: Trial,
    /// Rows in the ledger over the time from the first order until the ledger had the last one.
    persisted_per_s: f64,
    /// From the end of the load until the ledger had the last order.
    drain_s: f64,
    /// Orders that were not accepted, for whatever reason, and those that were due and never sent.
    not_accepted: u64,
    /// From the click of those buyers who waited for their orders: to the answer, and to the ledger.
    waiting_accepted: Distribution,
    waiting_persisted: Distribution,
    queues: Queues,
}

pub(super) fn run(context: &ScenarioContext) -> anyhow::Result<ScenarioReport> {
    context.ensure_spawned()?;
    let wanted = |row: Row| {
        context.wants(&row.name()) || ROWS.iter().any(|of| row.is_peak_of(*of) && context.wants(&of.name()))
    };
    let mut rows: Vec<(Row, Vec<Sample>)> =
        ROWS.into_iter().filter(|row| wanted(*row)).map(|row| (row, Vec::new())).collect();
    let mut run = Run::new(context, "Orders of the cluster profile, end to end");
    if rows.is_empty() {
        return Ok(run.report);
    }
    let mut bench = Bench::open(context, |flush| rows.iter().any(|(row, _)| row.flush == flush))?;
    for stack in &bench.stacks {
        run.report.engines.extend(stack.settings()?);
    }
    for repeat in 1..=context.repeats {
        for index in 0..rows.len() {
            let (measured, rest) = rows.split_at_mut(index);
            let (row, samples) = &mut rest[0];
            let peak = measured.iter().rfind(|(earlier, _)| earlier.is_peak_of(*row));
            let peak = peak.and_then(|(_, samples)| samples.last()).map(|peak| peak.persisted_per_s);
            samples.push(bench.measure(context, repeat, *row, peak).with_context(|| row.name())?);
            context.keep(&case(*row, samples));
        }
    }
    run.note(bench.close()?);
    for (row, samples) in &rows {
        let case = case(*row, samples);
        run.report.notes.extend(waiting(&case.name, samples));
        run.report.cases.push(case);
    }
    let shapes = |(case, (row, _)): (&Case, &(Row, _))| beside::shapes(case, row.bounds());
    Ok(run.finish(|cases| cases.iter().zip(&rows).flat_map(shapes).collect()))
}

/// Everything that runs. Servers before the engines under them.
struct Bench {
    stacks: Vec<Stack>,
}

impl Bench {
    fn open(context: &ScenarioContext, wants: impl Fn(BrokerFlush) -> bool) -> anyhow::Result<Self> {
        let flushes =
            [BrokerFlush::Asynchronous, BrokerFlush::Synchronous].into_iter().filter(|of| wants(*of));
        let stacks = (0..).zip(flushes).map(|(index, flush)| {
            let mut stack = Stack::open(context, index, flush)?;
            warm_up(context, &mut stack).context("warming up")?;
            Ok(stack)
        });
        Ok(Self { stacks: stacks.collect::<anyhow::Result<_>>()? })
    }

    fn measure(
        &mut self,
        context: &ScenarioContext,
        repeat: usize,
        row: Row,
        peak: Option<f64>,
    ) -> anyhow::Result<Sample> {
        let name = row.name();
        context.progress.doing(&format!("{name}, {repeat} of {}", context.repeats));
        // Servers that are not measured would keep their broker busy by asking it.
        for stack in &mut self.stacks {
            stack.shop.serve_by(if stack.set.flushes.broker == row.flush { row.servers } else { 0 })?;
        }
        let beside = self.stacks.iter().flat_map(Stack::idle).collect();
        let stack = self.stacks.iter_mut().find(|stack| stack.set.flushes.broker == row.flush);
        let stack = stack.context("a set of engines for each way to flush")?;
        let schedule = match (row.arrival, peak) {
            (Arrival::Sustained, Some(peak)) => {
                Schedule::constant(peak * SUSTAINED_SHARE, super::window(context))
            }
            (Arrival::Sustained, None) => anyhow::bail!("the peak comes before its share"),
            (Arrival::Peak, _) => Schedule::closed(super::window(context)),
        };
        let sample = sample(context, stack, schedule, beside, repeat)?;
        context.progress.done(&format!(
            "{name}, {repeat} of {}: {:.0}/s accepted, {:.0}/s persisted, {} not accepted, empty after {:.2} s",
            context.repeats,
            sample.trial.good_per_s(),
            sample.persisted_per_s,
            sample.not_accepted,
            sample.drain_s
        ));
        stack.set.check_room(DISK_BYTES_MAX)?;
        Ok(sample)
    }

    /// Audits all ledgers; a note on what was found.
    fn close(self) -> anyhow::Result<String> {
        let (mut accepted, mut unknown) = (0, 0);
        for stack in self.stacks {
            let answered = stack.shop.close()?;
            accepted += answered.accepted;
            unknown += answered.unknown;
        }
        Ok(format!(
            "Audit: clean. {accepted} orders were accepted: the ledgers hold every one of them, and none beside but at \
             most the {unknown} whose answers were lost; gate, queue and ledger were compared at the end."
        ))
    }
}

/// By orders, until the ledger has them no faster. The audit knows them.
fn warm_up(context: &ScenarioContext, stack: &mut Stack) -> anyhow::Result<()> {
    context.progress.doing("warming the engines up");
    let shop = &mut stack.shop;
    let warm = until_no_faster(WARM_UP_MIN, WARM_UP_MAX, |window| {
        let begun = Instant::now();
        let settings = Settings::spread(shop.addresses(), CONNECTIONS);
        let mut http = Http { workload: &mut shop.traffic };
        let mut generator = Generator::connect(settings, &mut http)?;
        let record = generator.run(Schedule::closed(window), &mut http, &context.stop)?;
        shop.answered.add(&record.outcomes);
        ensure!(
            record.outcomes.won > 0,
            "no order is accepted: {}",
            record.first_surprise.unwrap_or_default()
        );
        shop.drain()?;
        Ok(record.outcomes.won as f64 / begun.elapsed().as_secs_f64())
    })?;
    let (seconds, per_s) = (warm.after.as_secs_f64(), warm.per_s);
    context.progress.done(&format!("warm after {seconds:.0} s: {per_s:.0}/s persisted"));
    Ok(())
}

struct Brought {
    trial: Trial,
    ended: Instant,
    seen: Seen,
    queues: Queues,
}

fn sample(
    context: &ScenarioContext,
    stack: &mut Stack,
    schedule: Schedule,
    beside: Vec<Watched>,
    repeat: usize,
) -> anyhow::Result<Sample> {
    stack.set.database(None)?.purge_binary_logs()?;
    let settings = Settings::spread(stack.shop.addresses(), CONNECTIONS);
    let mut http = Http { workload: &mut stack.shop.traffic };
    let mut generator = Generator::connect(settings, &mut http).context("connecting")?;
    let warmed = generator.run(Schedule::closed(super::warm_up(context)), &mut http, &context.stop)?;
    stack.shop.answered.add(&warmed.outcomes);
    stack.shop.drain()?;
    let rows = stack.shop.rows()?;
    let mut watched = stack.shop.watched();
    watched.extend(stack.set.all_watched());
    watched.extend(beside);
    let around = context.around(&watched, true);
    let run = load(stack, &mut generator, schedule, repeat, around)?;
    stack.shop.answered.add(&run.trial.outcomes);
    stack.shop.answered.accepted += run.seen.placed;
    stack.shop.drain()?;
    let drain_s = run.ended.elapsed().as_secs_f64();
    stack.shop.check()?;
    let rows = stack.shop.rows()? - rows;
    let Brought { mut trial, seen, queues, .. } = run;
    beside::allow_waiting(&mut trial);
    Ok(Sample {
        persisted_per_s: rows as f64 / (trial.seconds + drain_s),
        drain_s,
        not_accepted: trial.outcomes.total() + trial.unsent + seen.refused - trial.outcomes.won,
        waiting_accepted: Distribution::of(&seen.accepted),
        waiting_persisted: Distribution::of(&seen.persisted),
        queues,
        trial,
    })
}

fn load(
    stack: &mut Stack,
    generator: &mut Generator,
    schedule: Schedule,
    repeat: usize,
    around: Surroundings<'_>,
) -> anyhow::Result<Brought> {
    let addresses = stack.shop.addresses();
    let watcher = Watcher::new(&stack.set, DATABASE, TOPIC, addresses.clone(), Shop::metrics_request())?;
    let buyers = (0..BUYERS)
        .zip(addresses.iter().cycle())
        .map(|(_, server)| Buyer::new(*server, stack.shop.waiting_buyer()))
        .collect::<anyhow::Result<Vec<_>>>()?;
    let (accepted, over) = (&AtomicU64::new(0), &AtomicBool::new(false));
    std::thread::scope(|scope| {
        let eyes = scope.spawn(|| watcher.watch(accepted, over));
        let go = |buyer: Buyer| scope.spawn(move || buyer.shop(accepted, over, around.stop));
        let buyers: Vec<_> = buyers.into_iter().map(go).collect();
        let count = |_: &[u8]| {
            accepted.fetch_add(1, Ordering::Relaxed);
        };
        let mut traffic = Heard { inner: &mut stack.shop.traffic, won: count };
        let trial = trial(generator, schedule, &mut Http { workload: &mut traffic }, repeat, around);
        let ended = Instant::now();
        // Whatever happened, the threads must end.
        over.store(true, Ordering::Relaxed);
        let mut seen = Seen::default();
        for buyer in buyers {
            seen.add(&buyer.join().expect("a buyer does not panic")?)?;
        }
        let looks = eyes.join().expect("looking does not panic")?;
        Ok(Brought { trial: trial?, ended, seen, queues: Queues::of(&looks) })
    })
}

fn case(row: Row, samples: &[Sample]) -> Case {
    let trials: Vec<Trial> = samples.iter().map(|sample| sample.trial.clone()).collect();
    let figure = |name: &str, unit: &str, better, value: &dyn Fn(&Sample) -> f64| {
        let valid = samples.iter().filter(|sample| sample.trial.is_valid());
        Metric::new(name, unit, better, valid.map(value).collect())
    };
    let time = |name: &str, value: &dyn Fn(&Sample) -> u64| {
        figure(name, "us", Better::Lower, &|sample| value(sample) as f64)
    };
    let own = [
        figure("persisted", "1/s", Better::Higher, &|of| of.persisted_per_s),
        figure("not accepted", "orders", Better::Lower, &|of| of.not_accepted as f64),
        figure("backlog growth", "orders per order accepted", Better::Lower, &|of| of.queues.backlog_growth),
        figure("backlog, most", "orders", Better::Lower, &|of| of.queues.backlog_max as f64),
        figure("time until empty", "s", Better::Lower, &|of| of.drain_s),
        time("click to ledger, p50", &|of| of.waiting_persisted.at(0.5)),
        time("click to ledger, p95", &|of| of.waiting_persisted.at(0.95)),
        time("click to ledger, p99", &|of| of.waiting_persisted.at(0.99)),
        time("click to 202 of those, p50", &|of| of.waiting_accepted.at(0.5)),
        time("click to 202 of those, p99", &|of| of.waiting_accepted.at(0.99)),
    ];
    // Each has its place in the list; of two servers' rows one has the second server.
    let figures = METRICS.iter().flat_map(|name| match own.iter().find(|of| of.name == *name) {
        Some(figure) => vec![figure.clone()],
        None => trials::figures(&trials, &[*name]),
    });
    let metrics =
        figures.filter(|of| !of.name.starts_with("CPU per answer") || !of.values.is_empty()).collect();
    Case { series: row.name(), name: row.name(), metrics, trials, ..Case::default() }
}

/// Where the orders stood that were accepted or about to be, in the repeat whose rate is the median.
fn waiting(name: &str, samples: &[Sample]) -> Option<String> {
    let middle = median(samples.iter().map(|sample| sample.persisted_per_s));
    let nearest = |of: &&Sample| (of.persisted_per_s - middle).abs();
    let sample = samples.iter().min_by(|a, b| nearest(a).total_cmp(&nearest(b)))?;
    Some(format!("{name}: {}", sample.queues.waiting()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sustained_load_follows_its_peak_and_is_judged() {
        for pair in ROWS.chunks(2) {
            assert!(pair[0].is_peak_of(pair[1]), "{pair:?}");
            assert!(pair[0].bounds().is_empty());
            assert!(pair[1].bounds().contains(&("not accepted", Goal::AtMost(0.0))));
        }
        assert!(ROWS[1].bounds().contains(&("persisted", Goal::AtLeast(4055.0))));
        assert!(!ROWS[5].bounds().iter().any(|(name, _)| *name == "persisted"));
    }
}
