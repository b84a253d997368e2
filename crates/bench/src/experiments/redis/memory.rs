//! The memory of small keys: 20 bytes with a value of one byte, 400,000 and 2,000,000 of them.

use anyhow::{Context, ensure};

use super::case::{figure, keys_of, workload};
use super::server::{Subject, no_persistence};
use crate::drivers::redis::Workload;
use crate::drivers::redis::keys::Order;
use crate::experiments::ScenarioContext;
use crate::experiments::cases::{Point, Run};
use crate::experiments::shapes::{ratio, value_of};
use crate::reference::{self, File};
use crate::report::model::{Better, Metric, ScenarioReport};
use crate::target::engines::redis::Redis;

/// The published sizes are quick enough for both.
pub(super) const COUNTS: [u64; 2] = [400_000, 2_000_000];
pub(super) const KEY_BYTES: usize = 20;
/// Of the pipelines that write them.
pub(super) const DEPTH: u64 = 1000;

/// The numbers of keys are multiples of [`DEPTH`].
pub(super) fn run(context: &ScenarioContext, counts: &[u64]) -> anyhow::Result<ScenarioReport> {
    let mut run = Run::new(context, "Redis: memory of small keys");
    run.note(
        "The published figures are all memory used, the server's own included; memory per key leaves that out. The \
         table of keys doubles at powers of two, so that the figure is a step, not a line. The value is a digit, which \
         Redis does not store but shares: the published value is not shown, and with a letter each key takes about 30 \
         bytes more.",
    );
    let subject = Subject::of(context, no_persistence())?;
    if !subject.prefix().is_empty() {
        run.note("What others wrote to the server meanwhile is in the figures.");
    }
    for &count in counts {
        let cells = [("measure", "memory"), ("keys", &count.to_string())];
        let point = Point::at("memory", "keys", count).beside(reference::find(File::MemoryRecovery, &cells));
        run.case(point, &[], || context.repeat_figures(|| once(context, &subject, count)))?;
    }
    subject.close(&mut run)?;
    Ok(run.finish(|cases| {
        let per_key =
            |count: Option<&u64>| value_of(cases, &format!("memory, {} keys", count?), "memory per key");
        let judged = ratio(per_key(counts.last()), per_key(counts.first()), 0.8..=1.25, "{} times");
        vec![judged.shape(
            "the memory of a key differs by a quarter at most, however many there are",
            "28.90 MB for 400,000 and 138.55 MB for 2,000,000 (in all): 72 and 69 bytes a key",
        )]
    }))
}

fn once(context: &ScenarioContext, subject: &Subject, count: u64) -> anyhow::Result<Vec<Metric>> {
    subject.clear()?;
    let mut redis = subject.client()?;
    let (before, keys_before) = (used(&mut redis)?, keys_of(&mut redis)?);
    ensure!(count.is_multiple_of(DEPTH), "{count} keys are not whole pipelines");
    subject.session(context).fill(1, writes(subject.prefix(), count)?, count / DEPTH)?;
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

/// Pipelines of SET, every key once. The value is a digit: Redis shares small numbers, so that it costs nothing, which
/// is what the published 70 bytes a key suggest; any other byte would take an object of its own.
pub(super) fn writes(prefix: &str, count: u64) -> anyhow::Result<Workload> {
    let writes = workload("SET __key__ 1", prefix, KEY_BYTES, count, Order::Sequence)?;
    Ok(Workload { depth: usize::try_from(DEPTH)?, ..writes })
}

fn used(redis: &mut Redis) -> anyhow::Result<f64> {
    redis.info("memory", "used_memory")?.parse().context("used_memory")
}
