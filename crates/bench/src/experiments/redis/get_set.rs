//! `redis-benchmark -c 100 -n 200000 -t get;set -d 8` and `-c 8 -t get`, by our own driver: the gate's first tier.
//!
//! As that tool does without `-r`, every request is for one key. The tool itself does the same after each repeat, so
//! that our driver's figures stand beside those of one that everybody knows.

use std::ops::RangeInclusive;
use std::process::Command;
use std::time::Duration;

use anyhow::Context;

use super::case::{figure, workload};
use super::server::{Subject, aof};
use crate::drivers::redis::Workload;
use crate::drivers::redis::command::{Expect, Piece, RedisCommand};
use crate::drivers::redis::keys::Order;
use crate::experiments::cases::{Measured, Point, Run};
use crate::experiments::shapes::{Judged, rates, ratio, value_of};
use crate::experiments::{ScenarioContext, limit};
use crate::host::process;
use crate::load::schedule::Schedule;
use crate::measure::{Surroundings, TOOLS, watch};
use crate::reference::{self, File, Row};
use crate::report::model::{Better, Case, Metric, Sample, ScenarioReport, Shape};
use crate::target::address::is_local;

const VALUE_BYTES: usize = 8;
/// `key:` and 12 digits, as the published tool has it.
const KEY_DIGITS: usize = 12;
const MANY: usize = 100;
const FEW: usize = 8;
/// Keeps Redis busy for about 50 us: then neither tool is the limit, and both must measure the same of it.
const BUSY: &str = "for i = 1, 20000 do end return 1";
/// How many times as long as our own driver redis-benchmark may take.
const SLOW_MAX: u32 = 20;
const PUBLISHED_REQUESTS: u64 = 200_000;
/// Of a processor.
const TOOL_FULL: f64 = 0.85;
/// Ratios of two rates that are too close to call one of them the higher.
const CLOSE: RangeInclusive<f64> = 0.95..=1.05;
const GENERATOR_CPU: &str = "generator CPU per request";

/// Each load lasts for the window, and redis-benchmark then sends as many requests.
pub(super) fn run(context: &ScenarioContext, window: Duration) -> anyhow::Result<ScenarioReport> {
    let mut run = Run::new(context, "Redis: SET and GET of 8 bytes");
    run.scaled_down("Load and server share the processors of one host.");
    run.scaled_down(format!(
        "Each load lasts {} s, whatever it sends, instead of {PUBLISHED_REQUESTS} requests, which take a second now.",
        window.as_secs_f64()
    ));
    run.note(format!(
        "The busy script is `{BUSY}`: Redis runs one at a time, so Redis alone is the limit, and the two tools are \
         compared by what they say of it."
    ));
    run.note(
        "redis-benchmark runs after each of our trials, with one thread as our generator. A closed loop with C \
         connections and a mean time T has a rate of C / T if nobody idles: where redis-benchmark's is lower, it has \
         kept connections waiting between an answer and their next request, which its times leave out. Where the two \
         rates differ, the one with less CPU per request leaves more of a shared host to the server.",
    );
    run.report.notes.extend(second_host());
    let subject = Subject::of(context, aof("everysec"))?;
    let session = subject.session(context);
    // The reads below find it, whichever cases are run.
    session.fill(1, load(&subject, "set")?, 1)?;
    let watched = subject.watched();
    let around = context.around(&watched, is_local(subject.address));
    for (series, connections, row) in [
        ("set", MANY, published("redis set", 0)),
        ("get", MANY, published("redis get", 0)),
        ("get", FEW, published("redis get", 1)),
        ("busy script", MANY, None),
    ] {
        let mut theirs = Measured::default();
        let once = |repeat| {
            let schedule = Schedule::closed(window);
            let (trial, _) = session.run(connections, load(&subject, series)?, schedule, repeat)?;
            let requests = trial.outcomes.total();
            let program = redis_benchmark(&subject, series, connections, requests);
            theirs.add_repeat(run_redis_benchmark(program, requests, trial.seconds, around)?.into());
            let used = trial.usage.iter().flat_map(|usage| &usage.processes).find(|of| of.name == "load");
            let figures = used.map(|of| generator_cpu(of.cpu_seconds, requests)).into_iter().collect();
            Ok((trial, figures))
        };
        let point = |series: &str| Point::at(series, "connections", connections as u64).beside(row);
        run.case(point(series), &["throughput", "p50", "p95", "p99", "mean", "max"], || {
            context.repeat(once)
        })?;
        if !theirs.own.is_empty() {
            let point = point(&format!("{series} by redis-benchmark")).of_reference();
            run.keep(point.case(theirs, &[]));
        }
    }
    subject.close(&mut run)?;
    Ok(run.finish(shapes))
}

/// What is asked, by our driver.
fn load(subject: &Subject, series: &str) -> anyhow::Result<Workload> {
    let command = if series == "set" { "SET __key__ __data__" } else { "GET __key__" };
    let keys = format!("{}key:", subject.prefix());
    let mut load =
        Workload { value_bytes: VALUE_BYTES, ..workload(command, &keys, KEY_DIGITS, 1, Order::Random)? };
    if series == "busy script" {
        let words = ["EVAL", BUSY, "0"].map(|word| vec![Piece::Text(word.as_bytes().to_vec())]);
        load.command = RedisCommand::new(words.to_vec())?.expecting(Expect::Integer);
    }
    Ok(load)
}

/// A tier has a row for each host, and for each number of connections.
fn published(tier: &str, index: usize) -> Option<&'static Row> {
    reference::rows(File::Tiers).filter(|row| row.text("tier") == tier).nth(index)
}

/// The figures of the other host that was published, which have no case to stand beside.
fn second_host() -> Option<String> {
    let (set, get) = (published("redis set", 1)?, published("redis get", 2)?);
    let said = |name: &str, row: &Row| {
        let [mean, p50, p95, p99, most] =
            ["mean_ms", "p50_ms", "p95_ms", "p99_ms", "max_ms"].map(|column| row.text(column));
        Some(format!(
            "{name} {:.0}/s (mean {mean} ms, p50 {p50} ms, p95 {p95} ms, p99 {p99} ms, most {most} ms)",
            row.number("rate_per_s")?
        ))
    };
    Some(format!(
        "The published figures beside ours are of 4 cores at 2.0 GHz. The same command on the second published host, {}: \
         {}, {}.",
        set.text("note"),
        said("SET", set)?,
        said("GET", get)?
    ))
}

fn shapes(cases: &[Case]) -> Vec<Shape> {
    let value = |name: &str, metric: &str| value_of(cases, name, metric);
    let pair = |series: &str, connections: usize| {
        [series, &format!("{series} by redis-benchmark")]
            .map(|series| format!("{series}, {connections} connections"))
    };
    let agree = |series: &str, connections: usize, metric: &str| {
        let [ours, theirs] = pair(series, connections);
        let claim = format!(
            "our driver and redis-benchmark agree within 10% on the {metric} of {series} with {connections} connections"
        );
        let judged =
            ratio(value(&ours, metric), value(&theirs, metric), 0.9..=1.1, "ours is {} times theirs");
        // A driver at its own ceiling says nothing; nor does a tool whose only thread has no time left.
        let spent = value(&theirs, "throughput").zip(value(&theirs, GENERATOR_CPU));
        let spent = spent.map(|(per_s, cpu_us)| per_s * cpu_us / 1e6).filter(|spent| *spent >= TOOL_FULL);
        let full = spent.filter(|_| series != "busy script").map(|spent| {
            format!(
                "redis-benchmark's one thread is used up ({spent:.2} of a processor), so it is the limit of its own figure"
            )
        });
        judged.doubted(limit::bound(cases, &[&ours])).doubted(full).shape(&claim, "no other figure")
    };
    let [few, many, set] = ["get, 8 connections", "get, 100 connections", "set, 100 connections"];
    let more_reads = more_reads(value(many, "throughput"), value(set, "throughput"));
    vec![
        more_reads.doubted(limit::bound(cases, &[many, set])).shape(
            "GET is answered more often per second than SET with AOF synced every second",
            "72,411 to 55,448 on 4 cores at 2.0 GHz: 1.31 times; on the faster host 146,628 to 157,729: 0.93 times",
        ),
        rates(cases, [few, many], 0.6.., "{} of it").shape(
            "8 connections are enough for 0.6 of what 100 get",
            "59,542 to 72,411: 0.82 of it",
        ),
        agree("set", MANY, "throughput"),
        agree("get", MANY, "throughput"),
        agree("get", FEW, "throughput"),
        agree("busy script", MANY, "throughput"),
        agree("busy script", MANY, "p50"),
        agree("busy script", MANY, "p99"),
    ]
}

fn more_reads(get: Option<f64>, set: Option<f64>) -> Judged {
    let close = get.zip(set).is_some_and(|(get, set)| CLOSE.contains(&(get / set)));
    ratio(get, set, 1.0.., "{} times").doubted(close.then(|| "too close to call".to_owned()))
}

/// The same by the published tool, on the same key.
fn redis_benchmark(subject: &Subject, series: &str, connections: usize, requests: u64) -> Command {
    let (address, key) = (subject.address, format!("{}key:{:0KEY_DIGITS$}", subject.prefix(), 0));
    let mut program = Command::new("redis-benchmark");
    program.args(["-h", &address.ip().to_string(), "-p", &address.port().to_string(), "--csv"]);
    program.args(["-c", &connections.to_string(), "-n", &requests.to_string()]);
    // The tool takes it in no other way, so that it can be seen in the list of processes while it runs.
    program.args(subject.password.iter().flat_map(|password| ["-a", password.as_str()]));
    match series {
        "set" => program.args(["SET", &key, &"x".repeat(VALUE_BYTES)]),
        "get" => program.args(["GET", &key]),
        _ => program.args(["EVAL", BUSY, "0"]),
    };
    program
}

/// `seconds` is how long our own driver took. It tries for ever to connect to a server that is gone, so it is waited for with a bound.
fn run_redis_benchmark(
    mut program: Command,
    requests: u64,
    seconds: f64,
    around: Surroundings<'_>,
) -> anyhow::Result<(Vec<Metric>, Sample)> {
    let patience = Duration::from_secs_f64(seconds) * SLOW_MAX + process::TOOL_MARGIN;
    let (said, usage) =
        watch(around, || process::run_tool(program.env("LC_ALL", "C"), patience, around.stop))?;
    let mut figures = read_csv(&said).with_context(|| format!("redis-benchmark said: {said}"))?;
    let used = usage.processes.iter().find(|of| of.name == TOOLS).map_or(0.0, |of| of.cpu_seconds);
    figures.push(generator_cpu(used, requests));
    Ok((figures, Sample { seconds: usage.seconds, requests, usage }))
}

/// What the one that asks spends, its start included.
fn generator_cpu(seconds: f64, requests: u64) -> Metric {
    figure(GENERATOR_CPU, "us", Better::Lower, seconds * 1e6 / requests as f64)
}

/// Of the last line: name, requests per second, then times in ms: mean, least, p50, p95, p99, most.
fn read_csv(said: &str) -> Option<Vec<Metric>> {
    let line = said.lines().rev().find(|line| line.starts_with('"'))?;
    // The command's name may hold commas itself; the figures are at the end.
    let mut fields: Vec<f64> =
        line.rsplit(',').map_while(|field| field.trim_matches('"').parse().ok()).collect();
    fields.reverse();
    let [.., per_s, mean, _least, p50, p95, p99, most] = fields[..] else { return None };
    let time = |name, ms: f64| figure(name, "us", Better::Lower, ms * 1000.0);
    Some(vec![
        figure("throughput", "1/s", Better::Higher, per_s),
        time("p50", p50),
        time("p95", p95),
        time("p99", p99),
        time("mean", mean),
        time("max", most),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_are_more_only_if_they_clearly_are() {
        for (ratio, holds) in [
            (0.9, Some(false)),
            (0.96, None),
            (1.0, None),
            (1.04, None),
            (1.06, Some(true)),
            (1.3, Some(true)),
        ] {
            let shape = more_reads(Some(ratio), Some(1.0)).shape("", "");
            assert_eq!(shape.holds, holds, "{ratio}");
            assert_eq!(shape.measured.contains("too close"), holds.is_none());
        }
        assert_eq!(more_reads(None, None).shape("", "").holds, None);
    }

    #[test]
    fn the_csv_of_redis_benchmark_is_read() {
        let said = "\"test\",\"rps\",\"avg_latency_ms\",\"min_latency_ms\",\"p50_latency_ms\",\"p95_latency_ms\",\"p99_latency_ms\",\"max_latency_ms\"\n\
            \"GET key:0\",\"72411.30\",\"0.718\",\"0.100\",\"0.743\",\"0.935\",\"1.183\",\"2.159\"\n";
        let figures: Vec<_> =
            read_csv(said).unwrap().into_iter().map(|figure| (figure.name, figure.values[0])).collect();
        assert_eq!(
            figures,
            [
                ("throughput", 72411.30),
                ("p50", 743.0),
                ("p95", 935.0),
                ("p99", 1183.0),
                ("mean", 718.0),
                ("max", 2159.0)
            ]
            .map(|(name, value)| (name.to_owned(), value))
        );
        assert!(read_csv("nothing").is_none());
    }
}
