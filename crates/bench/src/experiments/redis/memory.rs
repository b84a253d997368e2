//! The memory of small keys: 20 bytes with a value of one byte, 400,000 and 2,000,000 of them.

use anyhow::{Context, ensure};

use super::case::{Point, Session, add, ensure_running, figure, keys_of, ratio, shape, value_of};
use super::server::{Subject, no_persistence};
use crate::drivers::redis::Workload;
use crate::drivers::redis::command::RedisCommand;
use crate::drivers::redis::keys::{Keys, Order};
use crate::experiments::{ScenarioContext, empty_report};
use crate::reference::{self, File};
use crate::report::model::{Better, Metric, ScenarioReport};
use crate::target::engines::redis::Redis;

const COUNTS: [u64; 2] = [400_000, 2_000_000];
pub(super) const KEY_BYTES: usize = 20;
const DEPTH: usize = 1000;

#[derive(Debug)]
pub(super) struct Sizes {
    /// Numbers of keys; multiples of [`DEPTH`].
    pub(super) counts: Vec<u64>,
}

/// The published sizes are quick enough for both.
pub(super) fn run(context: &mut ScenarioContext) -> anyhow::Result<ScenarioReport> {
    run_sized(context, &Sizes { counts: COUNTS.to_vec() })
}

pub(super) fn run_sized(context: &ScenarioContext, sizes: &Sizes) -> anyhow::Result<ScenarioReport> {
    let subject = Subject::of(context, no_persistence())?;
    let mut measured = Vec::new();
    for count in &sizes.counts {
        let published =
            reference::find(File::MemoryRecovery, &[("measure", "memory"), ("keys", &count.to_string())]);
        let point = Point::at("memory", "keys", *count).beside(published);
        if !context.wants(&point.name) {
            continue;
        }
        context.progress.doing(&point.name);
        let mut figures = Vec::new();
        for _ in 0..context.repeats {
            ensure_running(&context.stop)?;
            once(context, &subject, *count)?.into_iter().for_each(|figure| add(&mut figures, figure));
        }
        let case = point.case(Vec::new(), &[], figures);
        context.progress.done(&case.name);
        context.keep(&case);
        measured.push(case);
    }
    let (few, many) = (sizes.counts.first(), sizes.counts.last());
    let per_key =
        |count: Option<&u64>| value_of(&measured, &format!("memory, {} keys", count?), "memory per key");
    let shapes = vec![shape(
        "the memory of a key differs by a quarter at most, however many there are",
        "28.90 MB for 400,000 and 138.55 MB for 2,000,000 (in all): 72 and 69 bytes a key",
        ratio(per_key(many), per_key(few)),
        |ratio| (0.8..=1.25).contains(&ratio),
        |ratio| format!("{ratio:.2} times"),
    )];
    let engines = vec![subject.said()?];
    let mut notes = subject.notes();
    notes.push(
        "The published figures are all memory used, the server's own included; memory per key leaves that out. The \
         table of keys doubles at powers of two, so that the figure is a step, not a line. The value is a digit, which \
         Redis does not store but shares: the published value is not shown, and with a letter each key takes about 30 \
         bytes more."
            .to_owned(),
    );
    if !subject.prefix().is_empty() {
        notes.push("What others wrote to the server meanwhile is in the figures.".to_owned());
    }
    Ok(ScenarioReport {
        notes,
        engines,
        cases: measured,
        shapes,
        ..empty_report("Redis: memory of small keys")
    })
}

fn once(context: &ScenarioContext, subject: &Subject, count: u64) -> anyhow::Result<Vec<Metric>> {
    subject.clear()?;
    let mut redis = subject.client()?;
    let (before, keys_before) = (used(&mut redis)?, keys_of(&mut redis)?);
    fill(context, subject, count)?;
    let (after, keys_after) = (used(&mut redis)?, keys_of(&mut redis)?);
    let resident: f64 = redis.info("memory", "used_memory_rss")?.parse()?;
    let made = keys_after.saturating_sub(keys_before);
    ensure!(
        made == count || !subject.prefix().is_empty(),
        "AUDIT FAILED: {count} keys were acknowledged and {made} are there"
    );
    subject.clear()?;
    let figure = |name, value| figure(name, "bytes", Better::Lower, value);
    Ok(vec![
        figure("used memory", after),
        figure("memory per key", (after - before) / count as f64),
        figure("resident memory", resident),
    ])
}

/// Makes the keys, each once.
fn fill(context: &ScenarioContext, subject: &Subject, count: u64) -> anyhow::Result<()> {
    ensure!(count.is_multiple_of(DEPTH as u64), "{count} keys are not whole pipelines");
    let session = Session::new(context, &[subject.address()], subject.watched());
    session.fill(1, writes(subject.prefix(), count)?, count / DEPTH as u64)
}

/// Pipelines of SET, every key once. The value is a digit: Redis shares small numbers, so that it costs nothing, which
/// is what the published 70 bytes a key suggest; any other byte would take an object of its own.
pub(super) fn writes(prefix: &str, count: u64) -> anyhow::Result<Workload> {
    let keys = Keys::new(prefix, KEY_BYTES, count, Order::Sequence)?;
    Ok(Workload { depth: DEPTH, ..Workload::of(RedisCommand::parse("SET __key__ 1")?, keys) })
}

pub(super) const WRITES_DEPTH: u64 = DEPTH as u64;

fn used(redis: &mut Redis) -> anyhow::Result<f64> {
    redis.info("memory", "used_memory")?.parse().context("used_memory")
}
