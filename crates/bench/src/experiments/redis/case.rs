//! The load of a case of a Redis scenario, and its figures.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::time::Duration;

use anyhow::{Context, ensure};

use crate::drivers::redis::command::RedisCommand;
use crate::drivers::redis::keys::{Keys, Order};
use crate::drivers::redis::{Redis as Driver, Workload};
use crate::experiments::{ScenarioContext, Target};
use crate::host::usage::Watched;
use crate::load::schedule::Schedule;
use crate::load::{Generator, Settings, Spread, Trial};
use crate::measure::trial;
use crate::report::model::{Better, Metric};
use crate::target::address::is_local;
use crate::target::engines::redis::Redis;

/// The deepest pipeline to a disk that is synced always has its answer by then.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);

/// Of every load, before the figures of its own.
pub(super) const OF_TRIALS: [&str; 4] = ["throughput", "p50", "p95", "p99"];

/// A figure of one repeat, beside those that every load has.
pub(super) fn figure(name: &str, unit: &str, better: Better, value: f64) -> Metric {
    Metric::new(name, unit, better, vec![value])
}

/// How long each case of a sweep runs, and at how many threads, or commands in a pipeline.
#[derive(Debug)]
pub(super) struct Sweep {
    pub(super) window: Duration,
    pub(super) at: Vec<usize>,
}

impl Sweep {
    pub(super) fn of(context: &ScenarioContext, quick_s: u64, full_s: u64, at: &[usize]) -> Self {
        let seconds = if context.quick() { quick_s } else { full_s };
        Self { window: Duration::from_secs(seconds), at: at.to_vec() }
    }
}

/// A command on so many keys of this length.
pub(super) fn workload(
    command: &str,
    prefix: &str,
    key_bytes: usize,
    keys: u64,
    order: Order,
) -> anyhow::Result<Workload> {
    Ok(Workload::of(RedisCommand::parse(command)?, Keys::new(prefix, key_bytes, keys, order)?))
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

/// What INFO says of the last moments, by its own sampling (16 times 100 ms); and the units.
const INSTANTANEOUS: [(&str, &str); 3] = [
    ("instantaneous_ops_per_sec", "1/s"),
    ("instantaneous_input_kbps", "kB/s"),
    ("instantaneous_output_kbps", "kB/s"),
];

/// The highest of each: in a short run the first ones still hold the time before it.
#[derive(Debug, Default)]
pub(super) struct Instants(BTreeMap<&'static str, f64>);

/// How often it is read: more often than Redis itself looks would show nothing new.
pub(super) const INSTANT: Duration = Duration::from_millis(200);

impl Instants {
    pub(super) fn look(&mut self, redis: &mut Redis) -> anyhow::Result<()> {
        let text: String = redis.query(&["INFO", "stats"])?;
        for (name, _) in INSTANTANEOUS {
            let value =
                text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')?.parse().ok());
            let value: f64 = value.with_context(|| format!("INFO has no {name}"))?;
            let highest = self.0.entry(name).or_insert(value);
            *highest = highest.max(value);
        }
        Ok(())
    }

    pub(super) fn figures(&self) -> Vec<Metric> {
        let figure = |(name, unit)| Some(figure(name, unit, Better::Neither, *self.0.get(name)?));
        INSTANTANEOUS.into_iter().filter_map(figure).collect()
    }
}

pub(super) fn keys_of(redis: &mut Redis) -> anyhow::Result<u64> {
    redis.query(&["DBSIZE"])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::record::Record;
    use crate::load::trial::{Distribution, Quantile};
    use crate::report::trials;

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
        let metrics = trials::figures(&[trial], &OF_TRIALS);
        let names: Vec<_> = metrics.iter().map(|of| of.name.as_str()).collect();
        assert_eq!(names, ["throughput", "p50", "p95", "p99"]);
        assert!(metrics[1..].iter().all(|of| of.values == [900.0]), "{metrics:?}");
    }
}
