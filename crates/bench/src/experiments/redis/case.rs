//! A case of a Redis scenario: its load, repeated as often as was asked for, and its figures.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::time::Duration;

use anyhow::{Context, ensure};

use crate::drivers::redis::{Redis as Driver, Workload};
pub(super) use crate::experiments::cases::Point;
use crate::experiments::{ScenarioContext, Target, cases, limit};
use crate::goal::median;
use crate::host::usage::Watched;
use crate::load::schedule::Schedule;
use crate::load::{Generator, Settings, Spread, Trial};
use crate::measure::trial;
use crate::report::model::{Better, Case, Metric, Shape};
use crate::target::address::is_local;
use crate::target::engines::redis::Redis;

/// The deepest pipeline to a disk that is synced always has its answer by then.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);

/// Of every load, before the figures of its own.
const OF_TRIALS: [&str; 4] = ["throughput", "p50", "p95", "p99"];

/// A figure of one repeat, beside those that every load has.
pub(super) fn figure(name: &str, unit: &str, better: Better, value: f64) -> Metric {
    Metric::new(name, unit, better, vec![value])
}

/// Measures a case; `None` if it is not wanted.
pub(super) fn measure(
    context: &ScenarioContext,
    point: Point,
    mut run: impl FnMut(usize) -> anyhow::Result<(Trial, Vec<Metric>)>,
) -> anyhow::Result<Option<Case>> {
    if !context.wants(&point.name) {
        return Ok(None);
    }
    context.progress.doing(&point.name);
    let (mut trials, mut own) = (Vec::new(), Vec::new());
    for repeat in 1..=context.repeats {
        let (trial, figures) = run(repeat).with_context(|| point.name.clone())?;
        let surprise = trial.first_surprise.as_deref().unwrap_or("no answer");
        ensure!(trial.outcomes.good() > 0, "{}: nothing was answered as it should: {surprise}", point.name);
        if trial.is_valid() {
            figures.into_iter().for_each(|figure| add(&mut own, figure));
        }
        trials.push(trial);
    }
    let case = point.case(trials, &OF_TRIALS, own);
    context.progress.done(&format!("{}: {}", case.name, cases::shown(&case.trials)));
    context.keep(&case);
    Ok(Some(case))
}

/// Adds a repeat's figure to the metric of its name.
pub(super) fn add(metrics: &mut Vec<Metric>, figure: Metric) {
    match metrics.iter_mut().find(|metric| metric.name == figure.name) {
        Some(metric) => metric.values.extend(figure.values),
        None => metrics.push(figure),
    }
}

/// The median of a metric of the case with this name; `None` if it was not measured.
pub(super) fn value_of(cases: &[Case], case: &str, metric: &str) -> Option<f64> {
    let case = cases.iter().find(|of| of.name == case)?;
    let metric = case.metrics.iter().find(|of| of.name == metric)?;
    (!metric.values.is_empty()).then(|| median(metric.values.iter().copied()))
}

/// Whom a load goes to, and what is watched meanwhile.
#[derive(Debug)]
pub(super) struct Session<'a> {
    context: &'a ScenarioContext,
    watched: Vec<Watched>,
    addresses: Vec<SocketAddr>,
}

impl<'a> Session<'a> {
    pub(super) fn new(context: &'a ScenarioContext, addresses: &[SocketAddr], watched: Vec<Watched>) -> Self {
        Self { context, watched, addresses: addresses.to_vec() }
    }

    /// One trial of a load, and the driver with what it learnt.
    pub(super) fn run(
        &self,
        users: usize,
        workload: Workload,
        schedule: Schedule,
        repeat: usize,
    ) -> anyhow::Result<(Trial, Driver)> {
        let spread = if workload.slots.is_some() { Spread::Requests } else { Spread::Users };
        let settings = Settings {
            spread,
            answer_timeout: ANSWER_TIMEOUT,
            ..Settings::spread(self.addresses.clone(), users)
        };
        let password = match &self.context.target {
            Target::Spawn => None,
            Target::Running(addresses) => addresses.redis_password.clone(),
        };
        let seed = self.context.seed.wrapping_add(repeat as u64);
        let workload = Workload { seed, password, ..workload };
        let mut driver = Driver::new(workload)?;
        let mut generator = Generator::connect(settings, &mut driver).context("connecting to Redis")?;
        let local = self.addresses.iter().copied().all(is_local);
        let around = self.context.around(&self.watched, local);
        let trial = trial(&mut generator, schedule, &mut driver, repeat, around)?;
        Ok((trial, driver))
    }

    /// A load that prepares another one: every request of it must be answered as it should.
    pub(super) fn fill(&self, users: usize, workload: Workload, requests: u64) -> anyhow::Result<()> {
        let (trial, _) = self.run(users, workload, Schedule::closed_requests(requests), 0)?;
        let surprise = trial.first_surprise.as_deref().unwrap_or("no answer");
        let missing = trial.outcomes.total() - trial.outcomes.good() + trial.unsent;
        ensure!(missing == 0, "{missing} writes failed while the data were made: {surprise}");
        Ok(())
    }
}

/// Does something while a connection of its own is looked through every so often; an error of the look is one of all.
pub(super) fn beside<T>(
    mut redis: Redis,
    every: Duration,
    mut look: impl FnMut(&mut Redis) -> anyhow::Result<()> + Send,
    main: impl FnOnce() -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    std::thread::scope(|scope| {
        let (over, is_over) = sync_channel::<()>(0);
        let looking = scope.spawn(move || {
            while is_over.recv_timeout(every) == Err(RecvTimeoutError::Timeout) {
                look(&mut redis)?;
            }
            anyhow::Ok(())
        });
        let done = main();
        drop(over);
        let looked = looking.join().map_err(|_panic| anyhow::anyhow!("looking at Redis panicked"))?;
        let done = done?;
        looked.context("looking at Redis during the load")?;
        Ok(done)
    })
}

/// What INFO says of the last moments, by its own sampling (16 times 100 ms).
#[derive(Debug, Default)]
pub(super) struct Instants {
    operations: Vec<f64>,
    input_kbps: Vec<f64>,
    output_kbps: Vec<f64>,
}

/// How often it is read: more often than Redis itself looks would show nothing new.
pub(super) const INSTANT: Duration = Duration::from_millis(200);

impl Instants {
    pub(super) fn look(&mut self, redis: &mut Redis) -> anyhow::Result<()> {
        let text: String = redis.ask(&["INFO", "stats"])?;
        let number = |name: &str| {
            let value =
                text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')?.parse().ok());
            value.with_context(|| format!("INFO has no {name}"))
        };
        self.operations.push(number("instantaneous_ops_per_sec")?);
        self.input_kbps.push(number("instantaneous_input_kbps")?);
        self.output_kbps.push(number("instantaneous_output_kbps")?);
        Ok(())
    }

    /// The highest of each: in a short run the first ones still hold the time before it.
    pub(super) fn figures(&self) -> Vec<Metric> {
        let highest = |values: &[f64]| values.iter().copied().max_by(f64::total_cmp);
        [
            ("instantaneous_ops_per_sec", "1/s", &self.operations),
            ("instantaneous_input_kbps", "kB/s", &self.input_kbps),
            ("instantaneous_output_kbps", "kB/s", &self.output_kbps),
        ]
        .into_iter()
        .filter_map(|(name, unit, values)| Some(figure(name, unit, Better::Neither, highest(values)?)))
        .collect()
    }
}

/// Keys that are there now.
pub(super) fn keys_of(redis: &mut Redis) -> anyhow::Result<u64> {
    redis.ask(&["DBSIZE"])
}

pub(super) fn ensure_running(stop: &AtomicBool) -> anyhow::Result<()> {
    ensure!(!stop.load(Ordering::Relaxed), "stopped by a signal");
    Ok(())
}

/// `part` of `whole` in words, for a shape; none if one is missing.
pub(super) fn ratio(part: Option<f64>, whole: Option<f64>) -> Option<f64> {
    part.zip(whole).filter(|(_, whole)| *whole > 0.0).map(|(part, whole)| part / whole)
}

/// A shape of the rate of the first case over that of the second; undecided if one of them may be the generator's own
/// ceiling.
pub(super) fn rates(
    cases: &[Case],
    claim: &str,
    published: &str,
    names: [&str; 2],
    holds: impl FnOnce(f64) -> bool,
    in_words: impl FnOnce(f64) -> String,
) -> Shape {
    let [part, whole] = names.map(|name| value_of(cases, name, "throughput"));
    limit::doubted(shape(claim, published, ratio(part, whole), holds, in_words), limit::bound(cases, &names))
}

/// A shape that is judged by a ratio. Its claim names the bounds that `holds` has.
pub(super) fn shape(
    claim: &str,
    published: &str,
    ratio: Option<f64>,
    holds: impl FnOnce(f64) -> bool,
    in_words: impl FnOnce(f64) -> String,
) -> Shape {
    Shape {
        claim: claim.to_owned(),
        published: published.to_owned(),
        measured: ratio.map_or("its cases were not run".to_owned(), in_words),
        holds: ratio.map(holds),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments::limit::tests::case_of;
    use crate::load::record::Record;
    use crate::load::trial::{Distribution, Quantile};

    #[test]
    fn rates_at_the_generators_ceiling_have_no_shape() {
        let judged = |one, other| {
            let cases = [case_of("a", 200, one), case_of("b", 100, other)];
            let shape =
                rates(&cases, "", "", ["a", "b"], |ratio| ratio == 2.0, |ratio| format!("{ratio} times"));
            (shape.holds, shape.measured)
        };
        assert_eq!(judged(0.84, 0.84), (Some(true), "2 times".to_owned()));
        for (holds, measured) in [judged(0.9, 0.5), judged(0.5, 0.9)] {
            assert_eq!(holds, None);
            assert!(measured.starts_with("2 times; the load generator used 90%"), "{measured}");
        }
        assert_eq!(
            rates(&[], "", "", ["a", "b"], |_| true, |_| String::new()).measured,
            "its cases were not run"
        );
    }

    /// A request that waited before it was sent took that long for whoever asked: so in HTTP, so here.
    #[test]
    fn times_are_from_the_planned_send() {
        let of = |us| Distribution {
            mean_us: us as f64,
            points: [0.5, 0.95, 0.99, 1.0].map(|q| Quantile { q, us }).to_vec(),
            max_us: us,
        };
        let trial = Trial {
            response: of(900),
            service: of(100),
            ..Trial::new(1, &Schedule::closed_requests(1), &Record::default(), None)
        };
        let metrics = cases::figures(&[trial], &OF_TRIALS);
        let names: Vec<_> = metrics.iter().map(|of| of.name.as_str()).collect();
        assert_eq!(names, ["throughput", "p50", "p95", "p99"]);
        assert!(metrics[1..].iter().all(|of| of.values == [900.0]), "{metrics:?}");
    }
}
