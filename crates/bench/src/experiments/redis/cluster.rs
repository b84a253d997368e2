//! Redis Cluster by number of threads, size of values, size of keys, persistence policy, and with the host's swap on
//! and off.

use std::time::Duration;

use anyhow::ensure;

use super::case::{OF_TRIALS, Session, figure, workload};
use super::limits;
use super::nodes::Nodes;
use super::server::FOREIGN_PREFIX;
use super::swap::{Host, swapped_bytes};
use crate::drivers::redis::Workload;
use crate::drivers::redis::keys::Order;
use crate::experiments::ScenarioContext;
use crate::experiments::cases::{Measured, Point, Run};
use crate::experiments::limit::bound;
use crate::experiments::shapes::{Judged, rates, value_of};
use crate::load::Trial;
use crate::load::schedule::Schedule;
use crate::reference::{self, File, Row};
use crate::report::model::{Better, Case, ScenarioReport, Shape};

const THREADS: [usize; 10] = [5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000];
/// As asked for; the published program sent more: see [`sent_bytes`].
const VALUES: [usize; 10] = [10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000];
const KEYS: [usize; 10] = [10, 20, 30, 40, 50, 60, 100, 200, 500, 1000];
const POLICIES: [&str; 3] = ["everysec", "always", "no"];
const USUAL_THREADS: usize = 100;
const USUAL_BYTES: usize = 10;
const FULL_OPERATIONS: u64 = 1_000_000;
const SWAP_THREADS: usize = 300;
const SWAP_OPERATIONS: u64 = 20_972;
const SWAP_VALUE_BYTES: usize = 512;
/// Of values on all masters; the replicas have them once more.
const DATA_BYTES_MAX: u64 = 1 << 30;
/// What a key costs beside its bytes.
const KEY_OVERHEAD: u64 = 100;
/// Open files beside the connections.
const OTHER_FILES: usize = 200;
/// Connections of the other servers and of those who look.
const OTHER_CLIENTS: usize = 20;
const FILLING_THREADS: usize = 100;

#[derive(Debug, Default)]
pub(super) struct Sizes {
    /// None: the published number of operations.
    pub(super) window: Option<Duration>,
    pub(super) threads: Vec<usize>,
    pub(super) values: Vec<usize>,
    pub(super) keys: Vec<usize>,
    /// Keys that the reads find.
    pub(super) read_keys: u64,
    pub(super) swap_operations: u64,
}

impl Sizes {
    pub(super) fn of(context: &ScenarioContext) -> Self {
        let quick = context.quick();
        Self {
            window: quick.then_some(Duration::from_secs(1)),
            threads: THREADS.to_vec(),
            values: VALUES.to_vec(),
            keys: KEYS.to_vec(),
            read_keys: if quick { 20_000 } else { 100_000 },
            swap_operations: if quick { SWAP_OPERATIONS / 50 } else { SWAP_OPERATIONS },
        }
    }
}

const NOTES: [&str; 4] = [
    "Sizes of values are those that were asked for. The published program appends 10 bytes for every 8 asked: so \
     \"10\" is 20 bytes and \"10000\" is 12,500, and the same is sent here. Its set keys ignore the key size that \
     is stated; here they have it.",
    "The published reads are suspect: the program takes its keys from a list that is never filled, so each thread \
     ends with its first read. Here each read is of a key that exists, and a missing value would be a failure.",
    "Each thread has a connection to each master here. The published client's threads shared pools of connections \
     whose size is not said, which may be why its rate levels off where it does.",
    "The sweeps write nothing to the disk; what the published ones did is not said. After each case of writes the \
     keys on the masters were as many as were acknowledged.",
];

pub(super) fn run(context: &ScenarioContext, sizes: &Sizes) -> anyhow::Result<ScenarioReport> {
    let mut run = Run::new(context, "Redis Cluster: threads, values, keys, persistence, swap");
    NOTES.into_iter().for_each(|note| run.note(note));
    run.scaled_down(
        "Six servers (three masters, three replicas) and the load on one host, instead of three hosts and a client.",
    );
    if let Some(window) = sizes.window {
        run.scaled_down(format!(
            "{:.1} s of operations instead of {FULL_OPERATIONS}, and {} keys to read.",
            window.as_secs_f64(),
            sizes.read_keys
        ));
    }
    let nodes = Nodes::of(context)?;
    let bench = Bench { context, nodes: &nodes, sizes };
    run.report.engines = nodes.said()?;
    bench.by_threads(&mut run)?;
    bench.by_value(&mut run)?;
    bench.by_key(&mut run)?;
    if nodes.ours() {
        bench.by_swap(&mut run)?;
        for policy in POLICIES {
            bench.by_policy(&mut run, policy)?;
            for mut said in nodes.said()? {
                said.engine = format!("{}, {policy}", said.engine);
                run.report.engines.push(said);
            }
        }
    } else {
        run.note(format!(
            "The cluster ran already: its settings are as they were found, keys begin with `{FOREIGN_PREFIX}`, which \
             makes them longer, and the persistence policies and swap were left out."
        ));
    }
    nodes.clear(context)?;
    Ok(run.finish(|cases| shapes(cases, sizes)))
}

/// Bytes of the value that the published program sends when it is asked for so many.
fn sent_bytes(asked: usize) -> usize {
    asked.div_ceil(8) * 10
}

/// The row of a sweep in which this column has that value.
fn published(sweep: &str, column: &str, value: impl ToString) -> Option<&'static Row> {
    reference::find(File::RedisCluster, &[("sweep", sweep), (column, &value.to_string())])
}

struct Bench<'a> {
    context: &'a ScenarioContext,
    nodes: &'a Nodes,
    sizes: &'a Sizes,
}

#[derive(Debug, Clone, Copy)]
struct Writes {
    threads: usize,
    value_bytes: usize,
    schedule: Schedule,
    keys: u64,
}

impl Bench<'_> {
    fn by_threads(&self, run: &mut Run<'_>) -> anyhow::Result<()> {
        for &threads in &self.sizes.threads {
            if let Some(why) = self.too_many(threads)? {
                run.note(format!("Left out: {threads} threads: {why}."));
                continue;
            }
            let writes = self.writes(threads, sent_bytes(USUAL_BYTES));
            let row = published("threads", "client_threads", threads);
            let point = Point::at("threads", "threads", threads as u64).beside(row);
            run.case(point, &OF_TRIALS, || self.set(writes))?;
        }
        Ok(())
    }

    /// Why so many threads can't be had here.
    fn too_many(&self, threads: usize) -> anyhow::Result<Option<String>> {
        let files = threads * self.nodes.slots()?.masters.len() + OTHER_FILES;
        let most = limits::open_files(files);
        if files > most {
            return Ok(Some(format!("they need {files} open files, and this process may have {most}")));
        }
        let clients = self.nodes.clients_max()?;
        let too_many = threads + OTHER_CLIENTS > clients;
        Ok(too_many.then(|| format!("a server takes {clients} connections")))
    }

    fn by_value(&self, run: &mut Run<'_>) -> anyhow::Result<()> {
        for &asked in &self.sizes.values {
            let sent = sent_bytes(asked);
            let writes = self.writes(USUAL_THREADS, sent);
            if writes.keys < FULL_OPERATIONS {
                run.scaled_down(format!(
                    "Values of {sent} bytes are written to {} keys, again and again, to spare the memory.",
                    writes.keys
                ));
            }
            let point = Point::at("value", "value bytes asked", asked as u64)
                .named(format!("value, {asked} bytes asked ({sent} sent)"))
                .beside(published("value", "value_bytes", asked));
            run.case(point, &OF_TRIALS, || self.set(writes))?;
        }
        Ok(())
    }

    fn by_key(&self, run: &mut Run<'_>) -> anyhow::Result<()> {
        for &bytes in &self.sizes.keys {
            let row = published("key", "key_bytes", bytes);
            run.case(Point::at("key", "key bytes", bytes as u64).beside(row), &OF_TRIALS, || {
                self.nodes.clear(self.context)?;
                let keys = |command, order| {
                    self.workload(command, bytes, self.sizes.read_keys, order, sent_bytes(USUAL_BYTES))
                };
                let fill = keys("SET __key__ __data__", Order::Sequence)?;
                self.session()?.fill(FILLING_THREADS, fill, self.sizes.read_keys)?;
                self.context.repeat(|repeat| {
                    let get = keys("GET __key__", Order::Random)?;
                    let (trial, _) = self.session()?.run(USUAL_THREADS, get, self.schedule(), repeat)?;
                    Ok((trial, Vec::new()))
                })
            })?;
        }
        Ok(())
    }

    fn by_policy(&self, run: &mut Run<'_>, policy: &str) -> anyhow::Result<()> {
        let point = Point::bar("persistence", format!("persistence {policy}"));
        run.case(point.beside(published("persistence", "case", policy)), &OF_TRIALS, || {
            self.nodes.clear(self.context)?;
            self.nodes.persist("yes", policy)?;
            self.nodes.wait_for_log(self.context)?;
            self.set(self.writes(USUAL_THREADS, sent_bytes(USUAL_BYTES)))
        })
    }

    /// On first, as the host has it.
    fn by_swap(&self, run: &mut Run<'_>) -> anyhow::Result<()> {
        let host = Host::default();
        if !host.has_swap()? {
            run.note("Left out: swap on: this host has none, so that it is off in all cases.");
            return self.with_swap(run, "off");
        }
        if !self.context.allow_swap {
            run.note("Left out: swap on and off, because nobody allowed it.");
            return Ok(());
        }
        self.with_swap(run, "on")?;
        match host.turn_off() {
            Ok(_off) => self.with_swap(run, "off")?,
            Err(error) => run.note(format!("Left out: swap off: {error:#}.")),
        }
        Ok(())
    }

    fn with_swap(&self, run: &mut Run<'_>, state: &str) -> anyhow::Result<()> {
        let value_bytes = sent_bytes(SWAP_VALUE_BYTES);
        let operations = SWAP_THREADS as u64 * self.sizes.swap_operations;
        // A quarter of what is free, replicas included: a host that runs out of memory measures nothing.
        let fit = limits::available_bytes()? / 4 / 2 / (value_bytes as u64 + KEY_OVERHEAD);
        let keys = operations.min(fit.max(1));
        if keys < operations {
            run.scaled_down(format!(
                "Swap {state}: {operations} writes to {keys} keys, which fit the memory."
            ));
        }
        if self.sizes.swap_operations < SWAP_OPERATIONS {
            run.scaled_down(format!(
                "Swap {state}: {} writes of each of {SWAP_THREADS} threads instead of {SWAP_OPERATIONS}.",
                self.sizes.swap_operations
            ));
        }
        let schedule = Schedule::closed_requests(operations);
        let writes = Writes { threads: SWAP_THREADS, value_bytes, schedule, keys };
        run.case(Point::bar("swap", format!("swap {state}")), &OF_TRIALS, || {
            self.context.repeat(|repeat| {
                let trial = self.set_once(writes, repeat)?;
                let swapped: u64 =
                    self.nodes.pids().into_iter().map(swapped_bytes).sum::<anyhow::Result<_>>()?;
                Ok((trial, vec![figure("in swap", "bytes", Better::Neither, swapped as f64)]))
            })
        })
    }

    fn writes(&self, threads: usize, value_bytes: usize) -> Writes {
        let keys = FULL_OPERATIONS.min(DATA_BYTES_MAX / (value_bytes as u64 + KEY_OVERHEAD));
        Writes { threads, value_bytes, schedule: self.schedule(), keys }
    }

    fn schedule(&self) -> Schedule {
        self.sizes.window.map_or_else(|| Schedule::closed_requests(FULL_OPERATIONS), Schedule::closed)
    }

    fn session(&self) -> anyhow::Result<Session<'_>> {
        Ok(Session::new(self.context, &self.nodes.slots()?.masters, self.nodes.watched()))
    }

    fn workload(
        &self,
        command: &str,
        key_bytes: usize,
        keys: u64,
        order: Order,
        value_bytes: usize,
    ) -> anyhow::Result<Workload> {
        let slots = Some(self.nodes.slots()?);
        let of = workload(command, self.prefix(), key_bytes, keys, order)?;
        Ok(Workload { value_bytes, slots, ..of })
    }

    fn prefix(&self) -> &'static str {
        if self.nodes.ours() { "" } else { FOREIGN_PREFIX }
    }

    fn set(&self, writes: Writes) -> anyhow::Result<Measured> {
        self.context.repeat(|repeat| Ok((self.set_once(writes, repeat)?, Vec::new())))
    }

    /// Writes keys in sequence to an empty cluster, and counts them afterwards.
    fn set_once(&self, writes: Writes, repeat: usize) -> anyhow::Result<Trial> {
        self.nodes.clear(self.context)?;
        let Writes { threads, value_bytes, schedule, keys } = writes;
        let workload =
            self.workload("SET __key__ __data__", USUAL_BYTES, keys, Order::Sequence, value_bytes)?;
        let (trial, _) = self.session()?.run(threads, workload, schedule, repeat)?;
        // A key that was refused leaves a hole that the next round may fill: then only the bounds of all are known.
        let (good, lost) = (trial.outcomes.good(), trial.outcomes.total() - trial.outcomes.good());
        let (least, most) = (good.min(keys.saturating_sub(lost)), (good + lost).min(keys));
        if self.nodes.ours() {
            let found = self.nodes.keys()?;
            ensure!(
                (least..=most).contains(&found),
                "AUDIT FAILED: {good} writes were acknowledged and {lost} not, and {found} keys are there"
            );
        }
        Ok(trial)
    }
}

fn shapes(cases: &[Case], sizes: &Sizes) -> Vec<Shape> {
    let threads = |threads: usize| format!("threads, {threads} threads");
    let value = |asked: usize| format!("value, {asked} bytes asked ({} sent)", sent_bytes(asked));
    let key = |bytes: usize| format!("key, {bytes} key bytes");
    let policy = |policy: &str| format!("persistence {policy}");
    let per_s = |of: usize| value_of(cases, &threads(of), "throughput");
    vec![
        knee(sizes, per_s, |of| bound(cases, &[&threads(of)])),
        rates(
            cases,
            [&threads(5000), &threads(50)],
            0.7..=1.3,
            "with 5,000 threads {} times the rate with 50",
        )
        .shape(
            "100 times the threads after that change the rate by 30% at most",
            "42,858/s with 5,000 threads to 42,634/s with 50: 1.01 times",
        ),
        rates(cases, [&value(10_000), &value(10)], ..=0.6, "{} times").shape(
            "values of \"10000\" are written at most 0.6 times as often as those of \"10\"",
            "9,608/s at \"10000\" to 47,777/s at \"10\": 0.20 times",
        ),
        rates(cases, [&key(1000), &key(10)], 0.6.., "{} times").shape(
            "keys of 1,000 bytes are read at least 0.6 times as often as those of 10",
            "12,062/s at 1,000 bytes to 14,468/s at 10: 0.83 times (suspect reads)",
        ),
        rates(cases, [&policy("everysec"), &policy("always")], 1.3.., "{} times").shape(
            "AOF synced every second is at least 1.3 times as quick as always",
            "22,855/s to 11,604/s: 1.97 times",
        ),
        rates(cases, [&policy("no"), &policy("everysec")], 1.05.., "{} times").shape(
            "leaving the sync to the system is at least 1.05 times as quick as every second",
            "27,383/s to 22,855/s: 1.20 times",
        ),
    ]
}

/// The fewest threads that reach nine tenths of the best rate; undecided if any of those that do may have reached the
/// generator's ceiling.
fn knee(
    sizes: &Sizes,
    per_s: impl Fn(usize) -> Option<f64>,
    bound: impl Fn(usize) -> Option<String>,
) -> Shape {
    let measured: Vec<(usize, f64)> =
        sizes.threads.iter().filter_map(|threads| Some((*threads, per_s(*threads)?))).collect();
    let best = measured.iter().map(|(_, rate)| *rate).fold(0.0, f64::max);
    let level = || measured.iter().filter(|(_, rate)| *rate >= 0.9 * best).map(|(threads, _)| *threads);
    // One point has no shape.
    let first = level().next().filter(|_| measured.len() > 1).map(|threads| {
        let said = format!("nine tenths of the best rate ({best:.0}/s) from {threads} threads on");
        (said, (50..=100).contains(&threads))
    });
    Judged::new(first, "its cases were not run").doubted(level().find_map(bound)).shape(
        "throughput levels off at 50 to 100 threads",
        "nine tenths of the best rate (44,086/s) from 50 threads on",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_as_long_as_the_published_program_makes_them() {
        for (asked, sent) in [(8, 10), (10, 20), (20, 30), (512, 640), (10_000, 12_500)] {
            assert_eq!(sent_bytes(asked), sent);
        }
    }

    #[test]
    fn the_knee_is_the_first_point_near_the_best() {
        let sizes = |threads: &[usize]| Sizes { threads: threads.to_vec(), ..Sizes::default() };
        let published = |threads| {
            [(5, 9704.0), (20, 36406.0), (50, 42634.0), (200, 44086.0)]
                .iter()
                .find_map(|(of, rate)| (*of == threads).then_some(*rate))
        };
        let free = |_| None;
        let shape = knee(&sizes(&[5, 20, 50, 200]), published, free);
        assert_eq!(shape.holds, Some(true));
        assert!(shape.measured.contains("from 50 threads on"), "{}", shape.measured);
        assert_eq!(knee(&sizes(&[5, 20, 50]), |_| Some(1000.0), free).holds, Some(false));
        assert_eq!(knee(&sizes(&[7]), |_| None, free).holds, None);
        // What is claimed is what is checked.
        for (first, holds) in [(20, false), (50, true), (100, true), (200, false)] {
            let rising = |threads| Some(if threads < first { 1.0 } else { 10.0 });
            assert_eq!(knee(&sizes(&[5, 20, 50, 100, 200]), rising, free).holds, Some(holds), "{first}");
        }
    }

    #[test]
    fn a_plateau_of_the_generator_is_no_knee() {
        let sizes = Sizes { threads: vec![5, 50, 200], ..Sizes::default() };
        let per_s = |threads| Some(if threads < 50 { 1.0 } else { 10.0 });
        let bound_at = |of: usize| move |threads| (threads == of).then(|| "the generator is full".to_owned());
        // Before the plateau it limits nothing that the shape is about.
        assert_eq!(knee(&sizes, per_s, bound_at(5)).holds, Some(true));
        let shape = knee(&sizes, per_s, bound_at(200));
        assert_eq!(shape.holds, None);
        assert!(shape.measured.ends_with("the generator is full"), "{}", shape.measured);
    }
}
