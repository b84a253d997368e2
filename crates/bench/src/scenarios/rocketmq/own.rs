//! RocketMQ's own producer benchmark on the same broker, as a check of ours: both are to find the same.
//!
//! It is a virtual machine with a thread for each connection, and costs more than our loop: on a machine that it
//! shares with the broker, what it takes the broker has not. So its processor time is told beside its figures.

use std::path::Path;
use std::process::Command;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};

use super::producer::median;
use crate::process::Guard;
use crate::report::model::{Case, Shape};
use crate::scenarios::Stage;
use crate::usage::{Snapshot, Watched};

/// It prints a line each 10 s; the first one has its own warm-up in it, and counts for nothing.
const LINE_EVERY: Duration = Duration::from_secs(10);
const PATIENCE: Duration = Duration::from_secs(30);
const POLL: Duration = Duration::from_millis(50);
/// Two measurements of the same are the same within this.
const SAME: f64 = 0.1;

/// One line of it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Line {
    pub(super) per_s: f64,
    pub(super) mean_ms: f64,
    pub(super) max_ms: f64,
    pub(super) failed: f64,
}

#[derive(Debug)]
pub(super) struct Own {
    pub(super) lines: Vec<Line>,
    /// That it used on average.
    pub(super) processors: f64,
}

/// Runs it until it has printed so many lines that count. `library` is the class path that the broker has.
pub(super) fn run(
    stage: &Stage,
    library: &str,
    (name_server, topic): (&str, &str),
    (threads, bytes): (usize, usize),
    wanted: usize,
) -> anyhow::Result<Own> {
    let folder = stage.folder.join("own-producer");
    std::fs::create_dir_all(&folder).context("a folder for RocketMQ's own producer")?;
    let log = folder.join("log");
    let mut command = Command::new("java");
    command
        .current_dir(&folder)
        .args(["-Xms256m", "-Xmx512m", &format!("-Duser.home={}", folder.display()), "-cp", library])
        .arg("org.apache.rocketmq.example.benchmark.Producer")
        .args(["-n", name_server, "-t", topic, "-k", "false"])
        .args(["-w", &threads.to_string(), "-s", &bytes.to_string()]);
    let mut guard = Guard::start(&mut command, &log).context("running java")?;
    wait_for(stage, &mut guard, &log, 1)?;
    let watched = [Watched::new("own", guard.pid())];
    let before = Snapshot::take(&watched, None)?;
    let mut lines = wait_for(stage, &mut guard, &log, 1 + wanted)?;
    let usage = before.until(&Snapshot::take(&watched, None)?);
    lines.drain(..1);
    lines.truncate(wanted);
    Ok(Own { lines, processors: usage.processes.first().map_or(0.0, |of| of.processors) })
}

fn wait_for(stage: &Stage, guard: &mut Guard, log: &Path, count: usize) -> anyhow::Result<Vec<Line>> {
    let begun = Instant::now();
    loop {
        let text = std::fs::read_to_string(log).context("what RocketMQ's own producer says")?;
        let lines: Vec<Line> = text.lines().filter_map(line).collect();
        if lines.len() >= count {
            return Ok(lines);
        }
        ensure!(!stage.stop.load(Ordering::Relaxed), "stopped by a signal");
        ensure!(
            guard.ended()?.is_none() && begun.elapsed() < PATIENCE + LINE_EVERY * u32::try_from(count)?,
            "RocketMQ's own producer printed {} lines of {count}: {}",
            lines.len(),
            crate::process::log_tail(log)
        );
        std::thread::sleep(POLL);
    }
}

/// `Current Time: .. | Send TPS: 1 | Max RT(ms): 2 | Average RT(ms):   3.4 | Send Failed: 0 | Response Failed: 0`.
fn line(text: &str) -> Option<Line> {
    let value = |name: &str| -> Option<f64> {
        let (_, rest) = text.split_once(name)?;
        // Java prints NaN for a window in which nothing was sent.
        rest.split('|').next()?.trim().parse().ok().filter(|value: &f64| value.is_finite())
    };
    Some(Line {
        per_s: value("Send TPS:")?,
        max_ms: value("Max RT(ms):")?,
        mean_ms: value("Average RT(ms):")?,
        failed: value("Send Failed:")? + value("Response Failed:")?,
    })
}

/// Our messages per second, and the processors that it took.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ours {
    pub(super) per_s: f64,
    pub(super) processors: f64,
}

impl Ours {
    pub(super) fn of(case: &Case) -> Option<Self> {
        let usage = case.trials.last()?.usage.as_ref()?;
        let load = usage.processes.iter().find(|of| of.name == Watched::load().name)?;
        Some(Self { per_s: median(&case.metrics.first()?.values)?, processors: load.processors })
    }
}

/// It has its threads on one connection, and each begins again at its own time: between our two ways.
pub(super) fn shape(own: &Own, apart: Option<Ours>, together: Option<Ours>) -> Shape {
    let theirs = median(&own.lines.iter().map(|line| line.per_s).collect::<Vec<_>>());
    let all = apart.zip(together).zip(theirs);
    Shape {
        claim: "RocketMQ's own producer sends as many as this generator: no fewer than with a connection for each \
                message, no more than with one for all"
            .to_owned(),
        published: "within 10%, or explained".to_owned(),
        measured: all.map_or("one of the three was not run".to_owned(), |((apart, together), theirs)| {
            format!(
                "its own {theirs:.0}/s with {:.2} processors; ours {:.0}/s on 64 connections with {:.2}, {:.0}/s on \
                 one with {:.2}; the broker has what they leave",
                own.processors, apart.per_s, apart.processors, together.per_s, together.processors
            )
        }),
        holds: all.map(|((apart, together), theirs)| {
            let least = apart.per_s.min(together.per_s) * (1.0 - SAME);
            let most = apart.per_s.max(together.per_s) * (1.0 + SAME);
            (least..=most).contains(&theirs)
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn its_lines_are_read_and_nothing_else() {
        let printed = "Current Time: 2026-01-01 00:25:35,384 | Send TPS: 12329 | Max RT(ms): 2180 | Average RT(ms):   \
                       5.191 | Send Failed: 1 | Response Failed: 2";
        let wanted = Line { per_s: 12329.0, mean_ms: 5.191, max_ms: 2180.0, failed: 3.0 };
        assert_eq!(line(printed), Some(wanted));
        for other in ["", "topic: T, threadCount: 64", "Send TPS: many | Max RT(ms): 1", &printed[..90]] {
            assert_eq!(line(other), None, "{other}");
        }
    }

    #[test]
    fn it_is_to_lie_between_the_two_ways() {
        let ours = |per_s| Some(Ours { per_s, processors: 0.1 });
        for (theirs, holds) in [(89.0, false), (91.0, true), (150.0, true), (219.0, true), (221.0, false)] {
            let lines = vec![Line { per_s: theirs, mean_ms: 1.0, max_ms: 1.0, failed: 0.0 }];
            let own = Own { lines, processors: 1.0 };
            assert_eq!(shape(&own, ours(100.0), ours(200.0)).holds, Some(holds), "{theirs}");
            assert_eq!(shape(&own, ours(200.0), ours(100.0)).holds, Some(holds), "{theirs}");
            assert_eq!(shape(&own, None, ours(100.0)).holds, None);
        }
    }
}
