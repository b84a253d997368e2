//! The generator beside the tools that everybody knows, on the same target in the same run: who measures must be measured.
//!
//! In each repeat both ask in turn, and which one comes first changes. Rates and times must agree within a tenth, or
//! the report says by how much they do not.

use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::process::Command;
use std::time::Duration;

use anyhow::Context;

use super::cases::{Measured, Point, Run};
use super::shapes::ratio;
use super::{Engine, Scenario, ScenarioContext};
use crate::drivers::http::Http;
use crate::drivers::http::traffic::Traffic;
use crate::goal::median;
use crate::host::process;
use crate::host::usage::Watched;
use crate::load::schedule::Schedule;
use crate::load::{Generator, Settings, Trial};
use crate::measure::{Surroundings, TOOLS, trial, watch};
use crate::report::model::{Better, Case, Metric, Sample, ScenarioReport, Shape};
use crate::target::nginx::Nginx;

const WRK_CONNECTIONS: usize = 64;
const WARM_UP: Duration = Duration::from_secs(1);
const DELAY: Duration = Duration::from_millis(5);
/// How far apart two honest tools may be.
const APART_MOST: f64 = 0.1;
/// Of wrk's processor time per request.
const CPU_MOST: f64 = 1.5;
/// Of a processor: a tool with one thread can do no more.
const TOOL_FULL: f64 = 0.85;
/// A comparison of two tools needs more than one look at each, however quick the run is.
const ROUNDS_MIN: usize = 3;

const METRICS: &[&str] = &["throughput", "p50", "p99", "CPU per answer, load"];

pub(super) const SCENARIOS: &[Scenario] = &[Scenario {
    name: "self-check",
    about: "this generator beside wrk, on nginx's empty 200 and on one that takes 5 ms",
    reference: None,
    needs: &[Engine::Nginx],
    metrics: METRICS,
    run,
}];

#[derive(Debug, Clone, Copy, PartialEq)]
struct Said {
    per_s: f64,
    p50_us: f64,
    p99_us: f64,
    requests: u64,
}

/// One run of wrk.
#[derive(Debug, Clone)]
struct OfWrk {
    said: Said,
    cpu_us: f64,
    sample: Sample,
}

fn run(context: &ScenarioContext) -> anyhow::Result<ScenarioReport> {
    let rounds = context.repeats.max(ROUNDS_MIN);
    let mut run = Run::new(context, "The generator beside wrk");
    run.note(format!("{rounds} rounds, the tools in turn, which comes first changes."));
    run.note(
        "When nginx is busy all the time, the times of the two tools differ by what they count: wrk's clock stands \
         between an answer and the next send, ours does not. By Little's law rate times mean is the number of \
         connections; that is checked of ours. Where the answer takes 5 ms on purpose, both must say so.",
    );
    run.note(
        "The same with redis-benchmark is in redis-get-set (its busy script is the target of known behaviour), and with \
         RocketMQ's own producer in message-broker.",
    );
    for (name, delay) in [("empty 200", None), ("empty 200 after 5 ms", Some(DELAY))] {
        if context.wants(name) {
            let pair = Pair::measure(context, rounds, name, delay)?;
            run.report.shapes.extend(pair.shapes(delay.is_some()));
            pair.cases(name).into_iter().for_each(|case| run.keep(case));
        }
    }
    Ok(run.report)
}

struct Pair {
    ours: Vec<Trial>,
    theirs: Vec<OfWrk>,
}

impl Pair {
    fn measure(
        context: &ScenarioContext,
        rounds: usize,
        name: &str,
        delay: Option<Duration>,
    ) -> anyhow::Result<Self> {
        let folder = tempfile::Builder::new().prefix("nginx-").tempdir_in(&context.folder)?;
        let nginx = match delay {
            None => Nginx::start(folder.path())?,
            Some(delay) => Nginx::start_late(folder.path(), delay)?,
        };
        let seconds = if context.quick() { 2 } else { 10 };
        let mut traffic = Traffic::read_any("/");
        let mut http = Http { workload: &mut traffic };
        let settings = Settings::keep_alive(nginx.address, WRK_CONNECTIONS);
        let mut generator = Generator::connect(settings, &mut http)?;
        let watched = [Watched::new("nginx", nginx.pid())];
        let around = context.around(&watched, true);
        let mut pair = Self { ours: Vec::new(), theirs: Vec::new() };
        trial(&mut generator, Schedule::closed(WARM_UP), &mut http, 0, around)?;
        let schedule = Schedule::closed(Duration::from_secs(seconds));
        for round in 1..=rounds {
            context.progress.doing(&format!("{name}, {round} of {rounds}"));
            if round % 2 == 1 {
                pair.theirs.push(wrk(nginx.address, seconds, around)?);
            }
            pair.ours.push(trial(&mut generator, schedule, &mut http, round, around)?);
            if round % 2 == 0 {
                pair.theirs.push(wrk(nginx.address, seconds, around)?);
            }
        }
        context.progress.done(&format!("{name}: beside wrk"));
        Ok(pair)
    }

    /// `known`: the target's own time is most of what is measured.
    fn shapes(&self, known: bool) -> Vec<Shape> {
        let Self { ours, theirs } = self;
        // A tool whose only thread has no time left measures itself, and not nginx.
        let spent = of(theirs, |of| of.said.per_s * of.cpu_us / 1e6);
        let full = (spent >= TOOL_FULL).then(|| {
            format!("wrk's one thread is used up ({spent:.2} of a processor), so it is the limit of its own figure")
        });
        let per_s = (of(theirs, |of| of.said.per_s), of(ours, Trial::good_per_s));
        let mut shapes = vec![agreement("requests/s", per_s.0, per_s.1, full)];
        if known {
            let time = |name, of_wrk: fn(&OfWrk) -> f64, q| {
                agreement(name, of(theirs, of_wrk), of(ours, |trial| trial.service.at(q) as f64), None)
            };
            shapes.extend([time("p50", |of| of.said.p50_us, 0.5), time("p99", |of| of.said.p99_us, 0.99)]);
        } else {
            shapes.push(cost(of(theirs, |of| of.cpu_us), of(ours, cpu_us)));
        }
        let accounted =
            |trial: &Trial| trial.good_per_s() * trial.service.mean_us / 1e6 / WRK_CONNECTIONS as f64;
        shapes.push(accounting(of(ours, accounted)));
        shapes
    }

    fn cases(self, name: &str) -> [Case; 2] {
        let Self { ours, theirs } = self;
        let figure = |name: &str, unit, better, value: fn(&OfWrk) -> f64| {
            Metric::new(name, unit, better, theirs.iter().map(value).collect())
        };
        let figures = vec![
            figure("throughput", "1/s", Better::Higher, |of| of.said.per_s),
            figure("p50", "us", Better::Lower, |of| of.said.p50_us),
            figure("p99", "us", Better::Lower, |of| of.said.p99_us),
            figure("CPU per answer, load", "us", Better::Lower, |of| of.cpu_us),
        ];
        let of_wrk = Measured {
            own: figures,
            samples: theirs.iter().map(|of| of.sample.clone()).collect(),
            ..Measured::default()
        };
        let point = |series| Point::bar(series, format!("nginx's {name}, {series}"));
        [point("doorbuster").case(ours.into(), METRICS), point("wrk").of_reference().case(of_wrk, &[])]
    }
}

fn cpu_us(trial: &Trial) -> f64 {
    let usage = trial.usage.as_ref().and_then(|usage| usage.processes.iter().find(|of| of.name == "load"));
    usage.map_or(0.0, |of| of.cpu_seconds * 1e6 / trial.outcomes.good().max(1) as f64)
}

fn of<T>(all: &[T], value: impl Fn(&T) -> f64) -> f64 {
    median(all.iter().map(value))
}

const AGREED: RangeInclusive<f64> = 1.0 - APART_MOST..=1.0 + APART_MOST;

/// Of the connections' time, what the measured times add up to.
fn accounting(share: f64) -> Shape {
    ratio(Some(share), Some(1.0), AGREED, "{} of it")
        .shape("rate times mean time is the number of connections, within 10%", "Little's law")
}

/// Medians of both.
fn agreement(name: &str, theirs: f64, ours: f64, doubt: Option<String>) -> Shape {
    ratio(Some(ours), Some(theirs), AGREED, &format!("{ours:.0}, {{}} of it")).doubted(doubt).shape(
        &format!("{name} as wrk has it, within {:.0}%", APART_MOST * 100.0),
        &format!("wrk: {theirs:.0}"),
    )
}

fn cost(theirs_us: f64, ours_us: f64) -> Shape {
    ratio(Some(ours_us), Some(theirs_us), ..=CPU_MOST, &format!("{ours_us:.2} us, {{}} of it")).shape(
        &format!("processor time per request at most {CPU_MOST} of wrk's"),
        &format!("wrk: {theirs_us:.2} us"),
    )
}

/// One run of `wrk` with one thread.
fn wrk(address: SocketAddr, seconds: u64, around: Surroundings<'_>) -> anyhow::Result<OfWrk> {
    let mut program = Command::new("wrk");
    program.args(["--threads", "1", "--connections", &WRK_CONNECTIONS.to_string(), "--latency"]).args([
        "--duration",
        &format!("{seconds}s"),
        &format!("http://{address}/"),
    ]);
    let patience = Duration::from_secs(seconds) + process::TOOL_MARGIN;
    let (text, usage) = watch(around, || process::run_tool(&mut program, patience, around.stop))
        .context("wrk (Debian: apt-get install wrk)")?;
    let said = wrk_said(&text).with_context(|| format!("wrk said what was not expected: {text}"))?;
    let cpu = usage.processes.iter().find(|of| of.name == TOOLS).map_or(0.0, |of| of.cpu_seconds);
    let sample = Sample { seconds: usage.seconds, requests: said.requests, usage };
    Ok(OfWrk { said, cpu_us: cpu * 1e6 / said.requests.max(1) as f64, sample })
}

fn wrk_said(text: &str) -> Option<Said> {
    let field = |name: &str| text.lines().find_map(|line| line.trim().strip_prefix(name)).map(str::trim);
    Some(Said {
        per_s: field("Requests/sec:")?.parse().ok()?,
        p50_us: micros(field("50%")?)?,
        p99_us: micros(field("99%")?)?,
        requests: text.lines().find_map(|line| line.trim().split_once(" requests in "))?.0.parse().ok()?,
    })
}

/// `1.25ms` in microseconds.
fn micros(text: &str) -> Option<f64> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match &text[digits.len()..] {
        "us" => 1.0,
        "ms" => 1e3,
        "s" => 1e6,
        _ => return None,
    };
    Some(digits.parse::<f64>().ok()? * unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_wrk_says_is_read() {
        let text = "Running 2s test @ http://127.0.0.1:8/
  1 threads and 64 connections
  Thread Stats   Avg      Stdev     Max   +/- Stdev
    Latency   594.81us  103.22us   2.41ms   88.21%
    Req/Sec   107.45k     2.11k  110.90k    70.00%
  Latency Distribution
     50%  573.00us
     75%  610.00us
     90%  690.00us
     99%    1.02ms
  213912 requests in 2.00s, 25.30MB read
Requests/sec: 106843.11
Transfer/sec:     12.64MB
";
        let wanted = Said { per_s: 106_843.11, p50_us: 573.0, p99_us: 1020.0, requests: 213_912 };
        assert_eq!(wrk_said(text), Some(wanted));
        assert_eq!(wrk_said("unable to connect"), None);
    }

    #[test]
    fn tools_agree_within_a_tenth() {
        let holds = |theirs, ours| agreement("p50", theirs, ours, None).holds;
        assert_eq!(
            (holds(100.0, 109.0), holds(100.0, 111.0), holds(100.0, 89.0)),
            (Some(true), Some(false), Some(false))
        );
    }
}
