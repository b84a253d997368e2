//! `redis-benchmark -c 100 -n 200000 -t get;set -d 8` and `-c 8 -t get`, by our own driver: the gate's first tier.
//!
//! As that tool does without `-r`, every request is for one key.

use super::case::{Point, Session, measure, ratio, shape, value_of};
use super::server::{Subject, aof};
use crate::drivers::redis::Workload;
use crate::drivers::redis::command::Command;
use crate::drivers::redis::keys::{Keys, Order};
use crate::load::schedule::Schedule;
use crate::report::model::ScenarioReport;
use crate::scenarios::{Stage, limit};

const VALUE_BYTES: usize = 8;
/// `key:` and 12 digits, as the published tool has it.
const KEY_DIGITS: usize = 12;
const MANY: usize = 100;
const FEW: usize = 8;
const FULL_REQUESTS: u64 = 200_000;

#[derive(Debug)]
pub(super) struct Sizes {
    pub(super) requests: u64,
}

pub(super) fn run(stage: &mut Stage) -> anyhow::Result<ScenarioReport> {
    let requests = if stage.quick() { FULL_REQUESTS / 2 } else { FULL_REQUESTS };
    run_sized(stage, &Sizes { requests })
}

pub(super) fn run_sized(stage: &Stage, sizes: &Sizes) -> anyhow::Result<ScenarioReport> {
    let subject = Subject::of(stage, aof("everysec"))?;
    let session = Session::new(stage, &[subject.address()], subject.watched());
    let workload = |command: &str| -> anyhow::Result<Workload> {
        let keys = Keys::new(&format!("{}key:", subject.prefix()), KEY_DIGITS, 1, Order::Random)?;
        let commands = vec![Command::parse(command)?];
        Ok(Workload { value_bytes: vec![VALUE_BYTES], ..Workload::of(commands, keys) })
    };
    // The reads below find it, whichever cases are run.
    session.fill(1, workload("SET __key__ __data__")?, 1)?;
    let mut cases = Vec::new();
    for (series, command, connections) in
        [("set", "SET __key__ __data__", MANY), ("get", "GET __key__", MANY), ("get", "GET __key__", FEW)]
    {
        let point = Point::at(series, "connections", connections as u64);
        cases.extend(measure(stage, point, |repeat| {
            let schedule = Schedule::closed_requests(sizes.requests);
            let (trial, _) = session.run(connections, workload(command)?, schedule, repeat)?;
            Ok((trial, Vec::new()))
        })?);
    }
    let engines = vec![subject.said()?];
    subject.clear()?;
    let per_s = |name| value_of(&cases, name, "throughput");
    let shapes = vec![
        shape(
            "GET is answered more often per second than SET with AOF synced every second",
            "72,411 to 55,448 on 4 cores at 2.0 GHz: 1.31 times; on the faster host 146,628 to 157,729: 0.93 times",
            ratio(per_s("get, 100 connections"), per_s("set, 100 connections")),
            |ratio| ratio >= 0.9,
            |ratio| format!("{ratio:.2} times"),
        ),
        shape(
            "8 connections are enough for most of what 100 get",
            "59,542 to 72,411: 0.82 of it",
            ratio(per_s("get, 8 connections"), per_s("get, 100 connections")),
            |ratio| ratio >= 0.6,
            |ratio| format!("{ratio:.2} of it"),
        ),
    ];
    let mut scaled_down = vec!["Load and server share the processors of one host.".to_owned()];
    if sizes.requests < FULL_REQUESTS {
        scaled_down.push(format!("{} requests each instead of {FULL_REQUESTS}.", sizes.requests));
    }
    Ok(ScenarioReport {
        name: "redis-get-set".to_owned(),
        title: "Redis: SET and GET of 8 bytes".to_owned(),
        reference: Some("seckill-tiers.csv".to_owned()),
        scaled_down,
        notes: subject.notes(),
        engines,
        limiter: limit::of(&cases),
        cases,
        shapes,
        audit: None,
    })
}
