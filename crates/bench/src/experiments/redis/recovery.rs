//! How long a server takes to load its keys, from RDB and from AOF, with the files in the page cache and without.
//!
//! The data are made once: a log of every write, and a snapshot of the same keys. Each load must give back the same
//! number of keys and the same digest. Then the keys are read.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, ensure};

use super::case::{figure, keys_of, workload};
use super::memory::{DEPTH, KEY_BYTES, writes};
use super::server::{Server, Setting};
use crate::drivers::redis::keys::Order;
use crate::experiments::cases::{Measured, Point, Run};
use crate::experiments::shapes::{ratio, value_of};
use crate::experiments::{ScenarioContext, Target};
use crate::load::schedule::Schedule;
use crate::measure::watch;
use crate::reference::{self, Row};
use crate::report::model::{Better, Case, Metric, Sample, ScenarioReport, Shape};

const FULL_KEYS: u64 = 4_000_000;
const QUICK_KEYS: u64 = 400_000;
/// Connections that read.
const READERS: usize = 50;
/// Of the files' bytes: less than this in the page cache is a cold start.
const COLD_MOST: f64 = 0.02;
const DROP_CACHES: &str = "/proc/sys/vm/drop_caches";

#[derive(Debug)]
pub(super) struct Sizes {
    pub(super) keys: u64,
    /// Of the reads.
    pub(super) window: Duration,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum From {
    Rdb,
    Aof,
}

impl From {
    fn name(self) -> &'static str {
        match self {
            Self::Rdb => "rdb",
            Self::Aof => "aof",
        }
    }

    /// DEBUG is for the digest; the log stays the plain list of writes that the published one was.
    fn settings(self) -> Vec<Setting> {
        let appendonly = if self == Self::Aof { "yes" } else { "no" };
        [
            ("appendonly", appendonly),
            ("appendfsync", "everysec"),
            ("auto-aof-rewrite-percentage", "0"),
            ("save", ""),
            ("enable-debug-command", "local"),
        ]
        .map(|(name, value)| (name, value.to_owned()))
        .to_vec()
    }
}

impl Sizes {
    pub(super) fn of(context: &ScenarioContext) -> Self {
        let (keys, seconds) = if context.quick() { (QUICK_KEYS, 1) } else { (FULL_KEYS, 10) };
        Self { keys, window: Duration::from_secs(seconds) }
    }
}

pub(super) fn run(context: &ScenarioContext, sizes: &Sizes) -> anyhow::Result<ScenarioReport> {
    let mut run = Run::new(context, "Redis: loading the keys after a restart");
    if context.target != Target::Spawn {
        run.note("Left out: a server that is not ours is not restarted.");
        return Ok(run.report);
    }
    if sizes.keys != FULL_KEYS {
        run.scaled_down(format!("{} keys instead of {FULL_KEYS}.", sizes.keys));
    }
    run.note(
        "Load time is the server's own, from its log. The published one does not say whether the files were in the \
         page cache. The digest of all keys and values (DEBUG DIGEST) and their number were the same after every load.",
    );
    context.progress.doing("making the keys");
    let mut made = make(context, sizes.keys)?;
    run.report.engines.push(made.server.said("Redis")?);
    made.server.end()?;
    for from in [From::Rdb, From::Aof] {
        for cold in [true, false] {
            loads(&mut run, &mut made, from, cold)?;
        }
    }
    reads(&mut run, &mut made, sizes.window)?;
    Ok(run.finish(shapes))
}

fn published(measure: &str, keys: u64) -> Option<&'static Row> {
    reference::find(reference::File::MemoryRecovery, &[("measure", measure), ("keys", &keys.to_string())])
}

/// Reads of keys that were loaded from the snapshot. The server has ended, before and after.
fn reads(run: &mut Run<'_>, made: &mut Made, window: Duration) -> anyhow::Result<()> {
    let context = run.context;
    let point = Point::bar("read latency", format!("read latency, {} keys", made.keys));
    if context.wants(&point.name) {
        run.note(format!(
            "The published read latency is of 5 to 7 ms, by a client whose number of threads is not said: here \
             {READERS} connections read keys at random, as many as had 5.6 ms for an INCR in the same document."
        ));
    }
    let point = point.beside(published("read latency", made.keys));
    run.case(point, &["throughput", "p50", "p95", "p99", "mean"], || {
        made.server.restart(From::Rdb.settings())?;
        let found = keys_of(&mut made.server.client()?)?;
        ensure!(found == made.keys, "AUDIT FAILED: {found} keys were loaded, not {}", made.keys);
        let session = made.server.session(context);
        let measured = context.repeat(|repeat| {
            let reads = workload("GET __key__", "", KEY_BYTES, made.keys, Order::Random)?;
            let (trial, _) = session.run(READERS, reads, Schedule::closed(window), repeat)?;
            Ok((trial, Vec::new()))
        })?;
        made.server.kill()?;
        Ok(measured)
    })
}

/// The keys on the disk, twice, and what they must be.
struct Made {
    server: Server,
    keys: u64,
    digest: String,
}

fn make(context: &ScenarioContext, keys: u64) -> anyhow::Result<Made> {
    ensure!(keys.is_multiple_of(DEPTH), "{keys} keys are not whole pipelines");
    let server = Server::start(context, "redis", 0, From::Aof.settings())?;
    server.session(context).fill(1, writes("", keys)?, keys / DEPTH)?;
    let mut redis = server.client()?;
    let found = keys_of(&mut redis)?;
    ensure!(found == keys, "AUDIT FAILED: {keys} keys were acknowledged and {found} are there");
    let digest: String = redis.query(&["DEBUG", "DIGEST"])?;
    redis.exec(&["SAVE"])?;
    Ok(Made { server, keys, digest })
}

fn loads(run: &mut Run<'_>, made: &mut Made, from: From, cold: bool) -> anyhow::Result<()> {
    let context = run.context;
    let series = format!("recovery {}", from.name());
    let name = format!("{series}, {}", if cold { "cold" } else { "warm" });
    if !context.wants(&name) {
        return Ok(());
    }
    context.progress.doing(&name);
    let mut measured = Measured::default();
    for repeat in 1..=context.repeats {
        context.ensure_running()?;
        let files = files(&made.server.data(), from)?;
        match if cold { cool(&files)? } else { warm(&files)? } {
            Temperature::Reached(how) if repeat == 1 => run.note(format!("{name}: {how}.")),
            Temperature::Reached(_) => {}
            Temperature::Not(why) => {
                run.note(format!("Left out: {name}: {why}."));
                return Ok(());
            }
        }
        // The server is another one each time, and has ended by then.
        let around = context.around(&[], true);
        let (figures, usage) = watch(around, || load(made, from)).with_context(|| name.clone())?;
        measured.add_repeat((figures, Sample { seconds: usage.seconds, requests: 0, usage }).into());
    }
    // Whether the published load was a cold one is not said, so it stands beside both.
    let case = Point::bar(&series, name).beside(published(&series, made.keys)).case(measured, &[]);
    context.progress.done(&case.name);
    run.keep(case);
    Ok(())
}

/// From a start to an end of the server.
fn load(made: &mut Made, from: From) -> anyhow::Result<Vec<Metric>> {
    let log_before = fs::metadata(made.server.log())?.len();
    let ready = made.server.restart(from.settings())?;
    let text = fs::read_to_string(made.server.log())?;
    let load = load_seconds(text.get(usize::try_from(log_before)?..).unwrap_or_default())
        .context("the server's log does not say how long loading took")?;
    let mut redis = made.server.client()?;
    let (found, digest) = (keys_of(&mut redis)?, redis.query::<String>(&["DEBUG", "DIGEST"])?);
    ensure!(
        found == made.keys && digest == made.digest,
        "AUDIT FAILED: {found} keys with digest {digest} were loaded, not {} with {}",
        made.keys,
        made.digest
    );
    // Not asked to end, so that it writes nothing: the files stay as they are.
    made.server.kill()?;
    Ok(vec![
        figure("load time", "s", Better::Lower, load),
        figure("start to first answer", "s", Better::Lower, ready.as_secs_f64()),
    ])
}

/// The last `DB loaded from disk: 4.120 seconds`, or `... from append only file: ...`.
fn load_seconds(log: &str) -> Option<f64> {
    let from = ["DB loaded from disk: ", "DB loaded from append only file: "];
    let line = log
        .lines()
        .rev()
        .find_map(|line| from.iter().find_map(|from| line.split_once(from).map(|(_, rest)| rest)))?;
    line.strip_suffix(" seconds")?.parse().ok()
}

fn files(data: &Path, from: From) -> anyhow::Result<Vec<PathBuf>> {
    match from {
        From::Rdb => Ok(vec![data.join("dump.rdb")]),
        From::Aof => {
            let folder = fs::read_dir(data.join("appendonlydir")).context("the files of the AOF")?;
            folder.map(|entry| Ok(entry?.path())).collect()
        }
    }
}

/// Whether the page cache is as the case wants it, and how that was done.
enum Temperature {
    Reached(String),
    Not(String),
}

fn warm(files: &[PathBuf]) -> anyhow::Result<Temperature> {
    for file in files {
        io::copy(&mut File::open(file)?, &mut io::sink())?;
    }
    Ok(Temperature::Reached("the files were read just before".to_owned()))
}

/// Takes the files out of the page cache: just them if that can be seen to work, else everything, which needs root.
fn cool(files: &[PathBuf]) -> anyhow::Result<Temperature> {
    for file in files {
        File::open(file)?.sync_all()?;
        let mut of = std::ffi::OsString::from("if=");
        of.push(file);
        // GNU dd: `nocache` with no count drops the whole file.
        let dropped = Command::new("dd").arg(of).args(["iflag=nocache", "count=0", "status=none"]).status();
        if dropped.is_err() {
            break;
        }
    }
    if let Some(share) = cached_share(files).filter(|share| *share <= COLD_MOST) {
        let percent = share * 100.0;
        return Ok(Temperature::Reached(format!(
            "the files were dropped from the page cache (fincore: {percent:.1}% of them left)"
        )));
    }
    if let Err(error) = fs::write(DROP_CACHES, "1") {
        return Ok(Temperature::Not(format!(
            "the page cache can't be emptied here ({DROP_CACHES}: {error})"
        )));
    }
    match cached_share(files) {
        Some(share) if share > COLD_MOST => {
            Ok(Temperature::Not(format!("{:.0}% of the files stayed in the page cache", share * 100.0)))
        }
        _ => Ok(Temperature::Reached("the page cache of the host was dropped".to_owned())),
    }
}

/// Of the files' bytes, how many are in the page cache; `None` if nobody can say.
fn cached_share(files: &[PathBuf]) -> Option<f64> {
    let mut total = 0;
    for file in files {
        total += fs::metadata(file).ok()?.len();
    }
    let output = Command::new("fincore")
        .args(["--bytes", "--noheadings", "--output", "RES"])
        .args(files)
        .output()
        .ok()?;
    let text = String::from_utf8(output.stdout).ok().filter(|_| output.status.success())?;
    let cached: u64 = text.split_whitespace().map(|word| word.parse::<u64>().ok()).sum::<Option<u64>>()?;
    Some(cached as f64 / total.max(1) as f64)
}

fn shapes(cases: &[Case]) -> Vec<Shape> {
    let aof_by_rdb = |temperature: &str, words| {
        let load = |from: &str| value_of(cases, &format!("recovery {from}, {temperature}"), "load time");
        ratio(load("aof"), load("rdb"), 1.1.., words)
    };
    vec![
        aof_by_rdb("warm", "AOF takes {} times as long, files in the page cache").shape(
            "a log of the writes takes more than 1.1 times as long to load as a snapshot",
            "AOF takes 1.51 times as long (4.12 s and 6.216 s for 4,000,000 keys)",
        ),
        aof_by_rdb("cold", "AOF takes {} times as long")
            .shape("the same with a cold page cache", "not measured"),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_load_time_is_the_last_one_of_the_log() {
        let log = "1:M 21 Nov 2026 23:56:05.757 * DB loaded from base file a.rdb: 9.000 seconds\n\
            1:M * DB loaded from incr file a.aof: 8.000 seconds\n\
            1:M * DB loaded from append only file: 6.216 seconds\n1:M * Ready to accept connections\n";
        assert_eq!(load_seconds(log), Some(6.216));
        assert_eq!(load_seconds(&format!("{log}2:M * DB loaded from disk: 4.120 seconds\n")), Some(4.12));
        assert_eq!(load_seconds("Ready to accept connections"), None);
    }

    #[test]
    fn files_that_were_just_read_are_cached_and_can_be_dropped_or_it_is_said() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("data");
        fs::write(&file, vec![1; 4 << 20]).unwrap();
        let files = [file];
        assert!(matches!(warm(&files).unwrap(), Temperature::Reached(_)));
        if let Temperature::Reached(how) = cool(&files).unwrap() {
            assert!(!how.is_empty());
            assert!(cached_share(&files).is_none_or(|share| share <= COLD_MOST));
        }
    }
}
