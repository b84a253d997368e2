//! Writes of one connection in pipelines of 1 to 10,000: what waiting for each answer costs.

use super::case::{OF_TRIALS, Sweep, workload};
use super::persistence;
use super::server::{Subject, no_persistence};
use crate::drivers::redis::Workload;
use crate::drivers::redis::keys::Order;
use crate::experiments::ScenarioContext;
use crate::experiments::cases::{Point, Run};
use crate::experiments::shapes::rates;
use crate::load::schedule::Schedule;
use crate::report::model::{Case, Published, ScenarioReport, Shape};

pub(super) const DEPTHS: [usize; 13] = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000];
/// As in the published persistence test.
const KEY_BYTES: usize = 20;
const VALUE_BYTES: usize = 1;
const KEYS: u64 = 400_000;
const PUBLISHED_WRITES: u64 = 2_000_000;

pub(super) fn run(context: &ScenarioContext, sizes: &Sweep) -> anyhow::Result<ScenarioReport> {
    let mut run = Run::new(context, "Redis: pipelines of one connection");
    run.scaled_down(
        "The connection crosses no network: what a pipeline saves is a system call and a wake-up, not a round trip.",
    );
    run.note("Times are of whole pipelines: all of its commands wait for the last one.");
    let subject = Subject::of(context, no_persistence())?;
    let session = subject.session(context);
    for &depth in &sizes.at {
        let point = Point::at("set", "commands in a pipeline", depth as u64);
        let point = point.beside_each(move |name| published(depth).filter(|_| name == "throughput"));
        let once = |repeat| {
            let writes = workload("SET __key__ __data__", subject.prefix(), KEY_BYTES, KEYS, Order::Random)?;
            let writes = Workload { value_bytes: VALUE_BYTES, depth, ..writes };
            let (trial, _) = session.run(1, writes, Schedule::closed(sizes.window), repeat)?;
            Ok((trial, Vec::new()))
        };
        run.case(point, &OF_TRIALS, || context.repeat(once))?;
    }
    subject.close(&mut run)?;
    Ok(run.finish(shapes))
}

/// Only the ends of the sweep were published, and the deep one with snapshots.
fn published(depth: usize) -> Option<Published> {
    let mode = if depth == 1 { "none" } else { "rdb" };
    let mut published = persistence::published(mode, depth, PUBLISHED_WRITES)?.figure("throughput")?;
    if mode == "rdb" {
        let why = published.dubious.map(|why| format!("; {why}")).unwrap_or_default();
        published.dubious = Some(format!("measured with snapshots{why}"));
    }
    Some(published)
}

/// What the deepest pipelines are worth, by their rate to that of writes one by one.
pub(super) fn worth(cases: &[Case], names: [&str; 2]) -> Shape {
    rates(cases, names, 30.0..=120.0, "{} times").shape(
        "pipelines of 10,000 are worth 60 times the writes one by one, within a factor of 2",
        "59.8 times by the server's rate (2,705/s to 161,782/s, RDB), 111 times by the client's time",
    )
}

fn shapes(cases: &[Case]) -> Vec<Shape> {
    let case = |depth: usize| format!("set, {depth} commands in a pipeline");
    vec![
        worth(cases, [&case(10_000), &case(1)]),
        rates(cases, [&case(100), &case(10_000)], 0.5.., "{} times the rate at 10,000")
            .shape("at least half of it is had with pipelines of 100", "not measured"),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments::limit::tests::case_of;

    #[test]
    fn the_published_end_of_the_sweep_is_doubted_for_both_reasons() {
        assert_eq!(published(1).unwrap().dubious, None);
        assert!(published(100).is_none());
        let why = published(10_000).unwrap().dubious.unwrap();
        assert!(why.starts_with("measured with snapshots; sampled by Redis"), "{why}");
    }

    #[test]
    fn sixty_times_is_claimed_and_checked_within_a_factor_of_two() {
        for (ratio, holds) in [(29, false), (30, true), (60, true), (120, true), (121, false)] {
            let cases = [case_of("one", 10, 0.5), case_of("deep", ratio * 10, 0.84)];
            assert_eq!(worth(&cases, ["deep", "one"]).holds, Some(holds), "{ratio}");
        }
    }
}
