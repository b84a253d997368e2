//! Writes under each persistence policy, one by one and in pipelines of 10,000, each key once.

use std::time::{Duration, Instant};

use anyhow::{Context, ensure};

use super::case::{Instants, OF_TRIALS, Session, beside, figure, keys_of, workload};
use super::pipelining;
use super::server::{Server, Setting, Subject, aof, no_persistence};
use crate::drivers::redis::Workload;
use crate::drivers::redis::keys::Order;
use crate::experiments::cases::{Point, Run};
use crate::experiments::shapes::rates;
use crate::experiments::{ScenarioContext, Target};
use crate::load::Trial;
use crate::load::schedule::Schedule;
use crate::reference::{self, File, Row};
use crate::report::model::{Better, Case, Metric, ScenarioReport, Shape};
use crate::target::engines::redis::Redis;

const RDB: &str = "rdb (save 900 1 300 10 60 10000)";
const NONE: &str = "none";
const REPLICA: &str = "one replica attached";
const EVERYSEC: &str = "aof everysec";
const ALWAYS: &str = "aof always";
const NO: &str = "aof no";
const POLICIES: [&str; 6] = [RDB, NONE, REPLICA, EVERYSEC, ALWAYS, NO];
const KEY_BYTES: usize = 20;
const DEPTH: usize = 10_000;
const FULL_WRITES: [u64; 2] = [400_000, 2_000_000];
const QUICK_PIPELINED: [u64; 2] = [100_000, 400_000];
/// Of the writes one by one, with the quick size.
const QUICK_PART: u64 = 20;
/// Of those again, where each one waits for the disk.
const QUICK_PART_SYNCED: u64 = 10;
const PATIENCE: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(10);
/// A pipelined run is over in half a second.
const LOOK: Duration = Duration::from_millis(50);

#[derive(Debug)]
pub(super) struct Sizes {
    pub(super) single: Vec<u64>,
    /// One by one with AOF synced always: each of them waits for the disk.
    pub(super) single_synced: Vec<u64>,
    /// Multiples of [`DEPTH`].
    pub(super) pipelined: Vec<u64>,
}

impl Sizes {
    pub(super) fn of(context: &ScenarioContext) -> Self {
        let full = FULL_WRITES.to_vec();
        if !context.quick() {
            return Self { single: full.clone(), single_synced: full.clone(), pipelined: full };
        }
        Self {
            single: FULL_WRITES.map(|writes| writes / QUICK_PART).to_vec(),
            single_synced: FULL_WRITES.map(|writes| writes / QUICK_PART / QUICK_PART_SYNCED).to_vec(),
            pipelined: QUICK_PIPELINED.to_vec(),
        }
    }

    fn single_of(&self, policy: &str) -> &[u64] {
        if policy == ALWAYS { &self.single_synced } else { &self.single }
    }
}

pub(super) fn run(context: &ScenarioContext, sizes: &Sizes) -> anyhow::Result<ScenarioReport> {
    let mut run = Run::new(context, "Redis: what each persistence policy costs");
    run.note(
        "One connection; how many threads the published client had is not said. After each run every acknowledged key \
         was counted, on the replica too.",
    );
    run.note(
        "With RDB a snapshot is begun when half of the keys are there, beside those of its own rule; latest_fork_usec \
         is INFO's after it. instantaneous_* are the highest of INFO's values in the run, and mean 1.6 s.",
    );
    run.scaled_down("Load and server share one host, and no network is between them.");
    for (what, writes) in [
        ("One by one", &sizes.single),
        ("One by one with AOF synced always", &sizes.single_synced),
        ("In pipelines", &sizes.pipelined),
    ] {
        if *writes != FULL_WRITES {
            run.scaled_down(format!("{what}, {writes:?} writes instead of {FULL_WRITES:?}."));
        }
    }
    match &context.target {
        Target::Running(_) => {
            let subject = Subject::of(context, Vec::new())?;
            run.note("Left out: every policy but the one that the server has.");
            let servers = PolicyServers { policy: "as it was found", subject: &subject, replica: None };
            policy(&mut run, servers, sizes)?;
            subject.close(&mut run)?;
        }
        Target::Spawn => {
            for name in POLICIES {
                if points(name, sizes).any(|(.., point)| context.wants(&point.name)) {
                    spawned(&mut run, name, sizes)?;
                }
            }
        }
    }
    Ok(run.finish(|cases| shapes(cases, sizes)))
}

fn settings(policy: &str) -> Vec<Setting> {
    match policy {
        RDB => vec![("appendonly", "no".to_owned()), ("save", "900 1 300 10 60 10000".to_owned())],
        EVERYSEC => aof("everysec"),
        ALWAYS => aof("always"),
        NO => aof("no"),
        _ => no_persistence(),
    }
}

fn spawned(run: &mut Run<'_>, name: &'static str, sizes: &Sizes) -> anyhow::Result<()> {
    let context = run.context;
    let mut of_master = settings(name);
    // The replica's first copy waits for no second one.
    of_master.push(("repl-diskless-sync-delay", "0".to_owned()));
    let server = Server::start(context, "redis", 0, of_master)?;
    run.report.engines.push(server.said(&format!("Redis, {name}"))?);
    let mut replica = None;
    if name == REPLICA {
        let mut of_replica = no_persistence();
        of_replica.push(("replicaof", format!("127.0.0.1 {}", server.address.port())));
        let server = Server::start(context, "replica", 1, of_replica)?;
        wait_for(context, "the replica has its master's data", || {
            Ok(server.client()?.info("replication", "master_link_status")? == "up")
        })?;
        run.report.engines.push(server.said("Redis, the replica")?);
        replica = Some(server);
    }
    let subject = Subject::from(server);
    policy(run, PolicyServers { policy: name, subject: &subject, replica: replica.as_ref() }, sizes)
}

/// A policy, and the servers on which it is measured.
#[derive(Debug, Clone, Copy)]
struct PolicyServers<'a> {
    policy: &'static str,
    subject: &'a Subject,
    replica: Option<&'a Server>,
}

fn policy(run: &mut Run<'_>, servers: PolicyServers<'_>, sizes: &Sizes) -> anyhow::Result<()> {
    let context = run.context;
    for (depth, writes, point) in points(servers.policy, sizes) {
        let once = |repeat| once(context, servers, depth, writes, repeat);
        run.case(point, &OF_TRIALS, || context.repeat(once))?;
    }
    Ok(())
}

/// Depth and writes of a policy's cases, of which there are as many as published ones at most.
fn points(policy: &str, sizes: &Sizes) -> impl Iterator<Item = (usize, u64, Point)> {
    let single = sizes.single_of(policy).iter().zip(FULL_WRITES).map(|(writes, full)| (1, *writes, full));
    let pipelined = sizes.pipelined.iter().zip(FULL_WRITES).map(|(writes, full)| (DEPTH, *writes, full));
    single
        .chain(pipelined)
        .map(move |(depth, writes, full)| (depth, writes, point(policy, depth, writes, full)))
}

/// The rate stands beside that of the published number of writes, the rest only where as many were made.
fn point(policy: &str, depth: usize, writes: u64, full: u64) -> Point {
    let row = published(policy, depth, full);
    Point::at(&series(policy, depth), "writes", writes)
        .beside_each(move |name| row.filter(|_| writes == full || name == "throughput")?.figure(name))
}

/// `rdb` is enough for `rdb (save 900 1 300 10 60 10000)`.
pub(super) fn published(policy: &str, depth: usize, writes: u64) -> Option<&'static Row> {
    let cells = [("pipeline", depth.to_string()), ("writes", writes.to_string())];
    let is_it = |row: &&Row| {
        let mode = row.text("mode");
        let named = mode == policy || mode.split_once(" (").is_some_and(|(short, _)| short == policy);
        named && cells.iter().all(|(column, cell)| row.text(column) == *cell)
    };
    reference::rows(File::Persistence).find(is_it)
}

fn series(policy: &str, depth: usize) -> String {
    format!("{policy}, pipeline {depth}")
}

fn once(
    context: &ScenarioContext,
    PolicyServers { policy, subject, replica }: PolicyServers<'_>,
    depth: usize,
    writes: u64,
    repeat: usize,
) -> anyhow::Result<(Trial, Vec<Metric>)> {
    ensure!(writes.is_multiple_of(depth as u64), "{writes} writes are not whole pipelines of {depth}");
    subject.clear()?;
    let mut watched = subject.watched();
    watched.extend(replica.map(Server::watched));
    let session = Session::new(context, &[subject.address], watched);
    let set = workload("SET __key__ __data__", subject.prefix(), KEY_BYTES, writes, Order::Sequence)?;
    let workload = Workload { value_bytes: 1, depth, ..set };
    let mut redis = subject.client()?;
    let keys_before = keys_of(&mut redis)?;
    let mut instants = Instants::default();
    let mut saved = policy != RDB;
    let schedule = Schedule::closed_requests(writes / depth as u64);
    let look = |redis: &mut Redis| {
        instants.look(redis)?;
        if !saved && keys_of(redis)? >= writes / 2 {
            // Refused while its own rule saves, which is as good.
            saved = redis.exec(&["BGSAVE"]).is_ok();
        }
        Ok(())
    };
    let (trial, _) = beside(subject.client()?, LOOK, look, || session.run(1, workload, schedule, repeat))?;
    let found = keys_of(&mut redis)?.saturating_sub(keys_before);
    let (good, unknown) = (trial.outcomes.good(), trial.outcomes.unknown);
    let ours = subject.prefix().is_empty();
    ensure!(
        !ours || (good..=good + unknown).contains(&found),
        "AUDIT FAILED: {good} writes were acknowledged and {unknown} lost their answer, and {found} keys are there"
    );
    if let Some(replica) = replica {
        wait_for(context, "the replica has every key", || Ok(keys_of(&mut replica.client()?)? == found))?;
    }
    let mut figures = vec![figure("client time", "s", Better::Lower, trial.seconds)];
    figures.extend(instants.figures());
    if policy == RDB {
        figures.push(fork_time(context, &mut redis, saved)?);
    }
    Ok((trial, figures))
}

/// Of the last snapshot; a run that was too short to have one gets it now.
fn fork_time(context: &ScenarioContext, redis: &mut Redis, saved: bool) -> anyhow::Result<Metric> {
    let over = |redis: &mut Redis| {
        wait_for(context, "the snapshot is written", || {
            Ok(redis.info("persistence", "rdb_bgsave_in_progress")? == "0")
        })
    };
    over(redis)?;
    if !saved {
        redis.exec(&["BGSAVE"])?;
        over(redis)?;
    }
    let status = redis.info("persistence", "rdb_last_bgsave_status")?;
    ensure!(status == "ok", "Redis could not write its snapshot: {status}");
    let fork = redis.info("stats", "latest_fork_usec")?.parse().context("latest_fork_usec")?;
    Ok(figure("latest_fork_usec", "us", Better::Lower, fork))
}

pub(super) fn wait_for(
    context: &ScenarioContext,
    what: &str,
    mut is_so: impl FnMut() -> anyhow::Result<bool>,
) -> anyhow::Result<()> {
    let begun = Instant::now();
    while !is_so()? {
        context.ensure_running()?;
        ensure!(begun.elapsed() < PATIENCE, "waited in vain until {what}");
        std::thread::sleep(POLL);
    }
    Ok(())
}

fn shapes(cases: &[Case], sizes: &Sizes) -> Vec<Shape> {
    let case = |policy: &str, depth: usize, writes: Option<&u64>| {
        writes.map_or_else(String::new, |writes| format!("{}, {writes} writes", series(policy, depth)))
    };
    let single = |policy: &str| case(policy, 1, sizes.single_of(policy).last());
    vec![
        rates(cases, [&single(NONE), &single(ALWAYS)], 1.5.., "none is {} times as quick").shape(
            "without persistence writes are at least 1.5 times as quick as with AOF synced always",
            "none is 4.2 times as quick (746 s to 3,155 s for 2,000,000 writes)",
        ),
        rates(cases, [&single(EVERYSEC), &single(NO)], 0.85.., "{} times its rate").shape(
            "AOF synced every second has at least 0.85 times the rate of leaving it to the system",
            "1.01 times its rate (769 s to 765 s)",
        ),
        rates(cases, [&single(RDB), &single(NONE)], 0.85.., "{} times the rate without").shape(
            "snapshots leave at least 0.85 times the rate",
            "0.99 times the rate without (746 s to 751 s)",
        ),
        rates(cases, [&single(REPLICA), &single(NONE)], ..=0.9, "{} times the rate without").shape(
            "a replica on the same host leaves at most 0.9 times the rate",
            "0.69 times the rate without (145 s to 211 s for 400,000 writes)",
        ),
        rates(cases, [&single(NONE), &case(NONE, 1, sizes.single.first())], 0.8.., "{} times").shape(
            "five times the data leave at least 0.8 times the rate",
            "0.97 times (145 s for 400,000, 746 s for 2,000,000)",
        ),
        pipelining::worth(cases, [&case(RDB, DEPTH, sizes.pipelined.last()), &single(RDB)]),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_published_number_of_writes_stands_beside_more_than_the_rate() {
        let names = |writes| {
            let metrics = [
                "throughput",
                "client time",
                "latest_fork_usec",
                "instantaneous_ops_per_sec",
                "instantaneous_input_kbps",
                "instantaneous_output_kbps",
            ];
            let own = metrics.map(|name| Metric::new(name, "", Better::Neither, Vec::new())).to_vec();
            let case = point(RDB, 1, writes, 400_000).case(own.into(), &[]);
            let value = |of: Metric| Some((of.name, of.published?.value));
            case.metrics.into_iter().filter_map(value).collect::<Vec<_>>()
        };
        let named = |wanted: &[(&str, f64)]| -> Vec<(String, f64)> {
            wanted.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect()
        };
        assert_eq!(names(20_000), named(&[("throughput", 2538.0)]));
        assert_eq!(
            names(400_000),
            named(&[
                ("throughput", 2538.0),
                ("client time", 148.397),
                ("latest_fork_usec", 614.0),
                ("instantaneous_ops_per_sec", 2538.0),
                ("instantaneous_input_kbps", 116.52),
                ("instantaneous_output_kbps", 12.40),
            ])
        );
    }
}
