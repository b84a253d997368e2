//! The gate alone: reserves per second of the server's own client, beside `redis-benchmark` with the same script on the same
//! Redis, as many orders in each call.
//!
//! The client is measured as it is: a child process of the program under test (`bench gate-client`, a hidden command)
//! makes a gate, reserves in batches for some seconds, and prints how many. What it prints is counted again in Redis:
//! every reservation is a field of the SKU's marks. Then redis-benchmark does the same to a second SKU of the same gate,
//! its ids random.

use std::fs::File;
use std::process::{Command, Stdio};

use anyhow::{Context, ensure};
use serde::Deserialize;

use crate::experiments::cases::{Point, Run};
use crate::experiments::{ScenarioContext, beside};
use crate::goal::Goal;
use crate::host::leftovers;
use crate::host::limit::limit;
use crate::host::process::{self, Guard};
use crate::host::usage::{Snapshot, Usage, Watched};
use crate::report::model::{Better, Metric, Sample, ScenarioReport};
use crate::target::engines::redis::Redis;
use crate::target::engines::{BrokerFlush, EngineSet};

pub(super) const METRICS: &[&str] = &["throughput", "redis-benchmark", RATIO];
const RATIO: &str = "beside redis-benchmark";
const NAME: &str = "reserves";
/// Orders in a call: as many as the client puts there, if they wait.
const CALL_ORDERS: u64 = 64;
const CLIENTS: &str = "50";
/// The mark's body: fingerprint (8 bytes), units (3), buyer (8). redis-benchmark can't send a byte 0, so an order has
/// 65,793 units here; the gate has more than enough of them, and the script does the same for one as for many.
const BODY: &str = "fprint--\u{1}\u{1}\u{1}buyer---";
/// In an order's id of 16 bytes, redis-benchmark replaces these 12 by digits.
const RANDOM_ID: &str = "gate__rand_int__";
const RANDOM_IDS: &str = "1000000000";
/// Of so many ids few meet, and take nothing the second time. A script that was refused is quick, and takes nothing ever.
const MADE_SHARE_MIN: f64 = 0.99;
/// Calls of redis-benchmark for each second that it is to run, about what it reaches.
const CALLS_PER_S: u64 = 3_000;
/// How much slower than expected a child may be.
const SLOW_MAX: u32 = 20;

/// What the hidden command prints: one line of JSON.
#[derive(Debug, Clone, Deserialize)]
struct ClientSaid {
    reserves: u64,
    seconds: f64,
    /// Reserves that were made before those, to warm up.
    before: u64,
    /// The name of the script, as the client has loaded it. Its keys: state, marks, times, buyers; its arguments: run of
    /// the master, the time, the limit, whether a gate before it had taken them, and of each order hash, body of the mark, record.
    sha: String,
    record_bytes: usize,
    prefix: String,
    /// The SKU that it reserved of, and the one that is for redis-benchmark.
    skus: [u32; 2],
}

struct Rates {
    client_per_s: f64,
    redis_benchmark_per_s: f64,
    of_client: Sample,
}

struct Gate<'a> {
    context: &'a ScenarioContext,
    set: EngineSet,
}

pub(super) fn run(context: &ScenarioContext) -> anyhow::Result<ScenarioReport> {
    context.ensure_spawned()?;
    let mut run = Run::new(context, "The gate's client beside redis-benchmark");
    if !context.wants(NAME) {
        return Ok(run.report);
    }
    run.note(
        "The client says how many it reserved, and Redis is asked: every reservation is a field of the SKU's marks.",
    );
    let gate = Gate { context, set: super::start(context, 0, BrokerFlush::Asynchronous)? };
    let mut last = None;
    run.case(Point::bar(NAME, NAME), &[], || {
        context.repeat_figures(|| {
            let Rates { client_per_s: client, redis_benchmark_per_s: tool, of_client } = gate.rates()?;
            context.progress.done(&format!("{NAME}: {client:.0}/s, redis-benchmark {tool:.0}/s"));
            last = Some(of_client.usage.clone());
            let figure = |name, unit, better, value| Metric::new(name, unit, better, vec![value]);
            let figures = vec![
                figure("throughput", "1/s", Better::Higher, client),
                figure("redis-benchmark", "1/s", Better::Neither, tool),
                figure(RATIO, "x", Better::Higher, client / tool),
            ];
            Ok((figures, of_client))
        })
    })?;
    run.report.engines = gate.set.settings()?;
    run.report.notes.extend(last.map(|usage| format!("While the client reserved: {}", limit(&usage))));
    Ok(run.finish(|cases| beside::shapes(&cases[0], &[(RATIO, Goal::AtLeast(0.6))])))
}

impl Gate<'_> {
    /// The gate's own client comes first, because redis-benchmark uses what it has prepared. What both made is removed.
    fn rates(&self) -> anyhow::Result<Rates> {
        let mut redis = Redis::connect(self.set.address("redis")?)?;
        let (said, usage) = self.run_client()?;
        let marks = count(&mut redis, &keys(&said, 0)[1])?;
        ensure!(
            marks == said.reserves + said.before,
            "AUDIT FAILED: the client says {} reserves and Redis has {marks}",
            said.reserves + said.before
        );
        let redis_benchmark_per_s = self.run_redis_benchmark(&said, &mut redis)?;
        for key in [keys(&said, 0), keys(&said, 1)].as_flattened() {
            redis.exec(&["UNLINK", key])?;
        }
        let client_per_s = said.reserves as f64 / said.seconds;
        let of_client = Sample { seconds: said.seconds, requests: said.reserves, usage };
        Ok(Rates { client_per_s, redis_benchmark_per_s, of_client })
    }

    fn milliseconds(&self) -> anyhow::Result<u64> {
        u64::try_from(super::window(self.context).as_millis()).context("a window of less than an age")
    }

    fn run_client(&self) -> anyhow::Result<(ClientSaid, Usage)> {
        let output = self.context.folder.join("gate-client.json");
        let mut command = Command::new(&self.context.program);
        command.args(["bench", "gate-client", "--redis", &self.set.address("redis")?.to_string()]);
        command.args(["--milliseconds", &self.milliseconds()?.to_string()]);
        command.env_clear().stdin(Stdio::null()).stdout(File::create(&output)?);
        let usage = self.run_watched(command, "gate client")?;
        let text = std::fs::read_to_string(&output).context("what the gate's client said")?;
        Ok((serde_json::from_str(&text).with_context(|| format!("the gate's client said: {text}"))?, usage))
    }

    fn run_redis_benchmark(&self, said: &ClientSaid, redis: &mut Redis) -> anyhow::Result<f64> {
        let calls = (self.milliseconds()? * CALLS_PER_S / 1000).max(1);
        let keys = keys(said, 1);
        let run = run_of(redis, &keys[0])?;
        let output = self.context.folder.join("redis-benchmark.out");
        let before = count(redis, &keys[1])?;
        let address = self.set.address("redis")?;
        let mut command = Command::new("redis-benchmark");
        command.args(["-h", &address.ip().to_string(), "-p", &address.port().to_string()]);
        command.args(["-c", CLIENTS, "-n", &calls.to_string(), "-r", RANDOM_IDS]);
        command.args(["-q", "EVALSHA", &said.sha, "4"]).args(&keys);
        // No time, so that clocks are not compared; and no limit, as in the client's sale.
        command.args([&run, "0", "0", "0"]);
        (0..CALL_ORDERS).for_each(|_| {
            command.args([RANDOM_ID, BODY, &"r".repeat(said.record_bytes)]);
        });
        command.env("LC_ALL", "C").stdin(Stdio::null()).stdout(File::create(&output)?);
        self.run_watched(command, "redis-benchmark")?;
        let text = std::fs::read_to_string(&output).context("what redis-benchmark said")?;
        let calls_per_s = requests_per_second(&text)
            .with_context(|| format!("redis-benchmark said: {}", process::log_tail(&output)))?;
        let (made, orders) = (count(redis, &keys[1])? - before, calls * CALL_ORDERS);
        ensure!(
            made as f64 >= orders as f64 * MADE_SHARE_MIN,
            "redis-benchmark sent {orders} reserves and Redis has {made}"
        );
        Ok(calls_per_s * CALL_ORDERS as f64)
    }

    /// Runs a child to its end; who used the processors meanwhile.
    fn run_watched(&self, mut command: Command, name: &str) -> anyhow::Result<Usage> {
        let log = self.context.folder.join(format!("{name}.log"));
        leftovers::mark(&mut command)?;
        let child =
            command.stderr(File::create(&log)?).spawn().with_context(|| format!("starting {name}"))?;
        let mut child = Guard::adopt(child);
        let watched = [vec![Watched::new(name, child.pid())], self.set.all_watched()].concat();
        let before = Snapshot::take(&watched, self.context.disk.as_deref())?;
        let mut last = None;
        let patience = super::window(self.context) * SLOW_MAX + process::TOOL_MARGIN;
        let status = child.wait(name, patience, &self.context.stop, || {
            // The counters of a child that has ended are gone: the last look before that counts.
            if let Ok(snapshot) = Snapshot::take(&watched, self.context.disk.as_deref()) {
                last = Some(snapshot);
            }
        })?;
        ensure!(status.success(), "{name} failed with {status}: {}", process::log_tail(&log));
        Ok(before.until(&last.context("a look at a child that runs")?))
    }
}

fn count(redis: &mut Redis, hash: &str) -> anyhow::Result<u64> {
    redis.query(&["HLEN", hash])
}

fn keys(said: &ClientSaid, sku: usize) -> [String; 4] {
    ["s", "k", "t", "b"].map(|kind| format!("{{{}:{:08x}}}:{kind}", said.prefix, said.skus[sku]))
}

/// Which run of which master the state was made for: the first 40 characters of its packed field.
fn run_of(redis: &mut Redis, state: &str) -> anyhow::Result<String> {
    let gate: Vec<u8> = redis.query(&["HGET", state, "gate"])?;
    gate.get(..40)
        .map(|run| String::from_utf8_lossy(run).into_owned())
        .with_context(|| format!("the gate's state {state} has no run"))
}

/// From the last line like `EVALSHA ...: 98765.43 requests per second, p50=...`, which follows lines of progress.
fn requests_per_second(text: &str) -> Option<f64> {
    let (before, _) = text.rsplit_once(" requests per second")?;
    before.rsplit_once(": ")?.1.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_summary_of_redis_benchmark_is_read() {
        let text = "EVALSHA x: rps=0.0 (overall: 0.0) avg_msec=nan\rEVALSHA x 4: 98765.43 requests per second, p50=30.1 msec\n\n";
        assert_eq!(requests_per_second(text), Some(98765.43));
        assert_eq!(requests_per_second("nothing"), None);
    }
}
