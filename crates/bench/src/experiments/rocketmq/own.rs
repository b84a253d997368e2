//! RocketMQ's own producer benchmark on the same broker, as a check of ours: both are to find the same.
//!
//! It is a virtual machine with many threads, and costs more than our loop: on a machine that it shares with the broker,
//! what it takes the broker has not. So a rate apart from ours has one explanation that counts, and it is measured: the
//! machine was used up, and the broker spent as much of its processor time on each message as it does on ours.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};

use crate::experiments::{ScenarioContext, limit};
use crate::host::process::{Guard, log_tail};
use crate::host::usage::{Snapshot, Usage, Watched};
use crate::report::model::{Case, Sample, Shape};
use crate::report::statistics::median;

/// It prints a line each 10 s; the first one has its own warm-up in it, and counts for nothing.
const LINE_EVERY: Duration = Duration::from_secs(10);
const PATIENCE: Duration = Duration::from_secs(30);
const POLL: Duration = Duration::from_millis(50);
/// Two measurements of the same are the same within this.
const SAME: f64 = 0.1;

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
    /// While it printed them: the brokers', and its own as [`TOOL`].
    pub(super) usage: Usage,
}

impl Own {
    /// What the figures of each line rest on. The machine was watched over all of them together.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "messages of ten seconds, which it counted itself"
    )]
    pub(super) fn samples(&self) -> Vec<Sample> {
        let seconds = LINE_EVERY.as_secs_f64();
        let sample = |line: &Line| Sample {
            seconds,
            requests: (line.per_s * seconds) as u64,
            usage: self.usage.clone(),
        };
        self.lines.iter().map(sample).collect()
    }
}

/// Its name in [`Own::usage`].
const TOOL: &str = "RocketMQ's own producer";

/// Runs it until it has printed a line that counts for each repeat. `library` is the class path that the broker has,
/// `watched` the brokers.
pub(super) fn run(
    context: &ScenarioContext,
    library: &str,
    (name_server, topic): (&str, &str),
    (threads, bytes): (usize, usize),
    mut watched: Vec<Watched>,
) -> anyhow::Result<Own> {
    let folder = context.folder.join("own-producer");
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
    let wanted = context.repeats;
    wait_for(context, &mut guard, &log, 1)?;
    watched.push(Watched::new(TOOL, guard.pid()));
    let before = Snapshot::take(&watched, None)?;
    let mut lines = wait_for(context, &mut guard, &log, 1 + wanted)?;
    let usage = before.until(&Snapshot::take(&watched, None)?);
    lines.drain(..1);
    lines.truncate(wanted);
    Ok(Own { lines, usage })
}

fn wait_for(
    context: &ScenarioContext,
    guard: &mut Guard,
    log: &Path,
    count: usize,
) -> anyhow::Result<Vec<Line>> {
    let deadline = Instant::now() + PATIENCE + LINE_EVERY * u32::try_from(count)?;
    loop {
        let text = std::fs::read_to_string(log).context("what RocketMQ's own producer says")?;
        let lines: Vec<Line> = text.lines().filter_map(line).collect();
        if lines.len() >= count {
            return Ok(lines);
        }
        let said = || format!("it printed {} lines of {count}: {}", lines.len(), log_tail(log));
        let ended = guard.ended_before(TOOL, deadline, &context.stop).with_context(said)?;
        ensure!(ended.is_none(), "{TOOL} has ended; {}", said());
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

/// A rate of messages, and the processors that the sender and the brokers took for it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sent {
    per_s: f64,
    sender: f64,
    brokers: f64,
}

impl Sent {
    /// Of our own generator.
    pub(super) fn ours(case: &Case) -> Option<Self> {
        Self::of(
            median(&case.metrics.first()?.values)?,
            case.trials.last()?.usage.as_ref()?,
            &Watched::load().name,
        )
    }

    fn theirs(own: &Own) -> Option<Self> {
        let per_s = median(&own.lines.iter().map(|line| line.per_s).collect::<Vec<_>>())?;
        Self::of(per_s, &own.usage, TOOL)
    }

    fn of(per_s: f64, usage: &Usage, sender: &str) -> Option<Self> {
        let (senders, brokers): (Vec<_>, Vec<_>) = usage.processes.iter().partition(|of| of.name == sender);
        let brokers = brokers.iter().map(|of| of.processors).sum();
        (per_s > 0.0).then_some(Self { per_s, sender: senders.first()?.processors, brokers })
    }

    fn broker_us(self) -> f64 {
        self.brokers / self.per_s * 1e6
    }
}

/// It has its threads on one connection, and each begins again at its own time: between our two ways.
pub(super) fn shape(own: &Own, apart: Option<Sent>, together: Option<Sent>) -> Shape {
    let all = apart.zip(together).zip(Sent::theirs(own));
    let judged = all.map(|((apart, together), theirs)| {
        let between = |of: fn(Sent) -> f64| {
            let (one, other) = (of(apart), of(together));
            (one.min(other) * (1.0 - SAME)..=one.max(other) * (1.0 + SAME)).contains(&of(theirs))
        };
        let same_cost = between(Sent::broker_us);
        let used_up = limit::is_used_up(&own.usage);
        let words = |of: Sent| {
            let Sent { per_s, sender, brokers } = of;
            let each = of.broker_us();
            format!("{per_s:.0}/s with {sender:.2} processors and {brokers:.2} of the broker's ({each:.1} us each)")
        };
        let why = match (between(|of| of.per_s), used_up, same_cost) {
            (true, ..) => "the same",
            (_, true, true) => {
                "explained: the processors were used up, and the broker spent as much on each message as on ours"
            }
            (_, false, _) => "not explained: the processors were not used up",
            (_, true, false) => "not explained: the broker spent another time on each message than on ours",
        };
        let said = format!(
            "its own {}; ours {} on 64 connections, {} on one; {why}",
            words(theirs),
            words(apart),
            words(together)
        );
        (said, !why.starts_with("not"))
    });
    let (measured, holds) = judged.unzip();
    Shape {
        claim: "RocketMQ's own producer sends as many as this generator (no fewer than with a connection for each \
                message, no more than with one for all), or other numbers because it left the broker other shares of \
                processors that are used up"
            .to_owned(),
        published: "within 10%, or explained".to_owned(),
        measured: measured.unwrap_or_else(|| "one of the three was not run".to_owned()),
        holds,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::usage::ProcessUsage;

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

    fn usage(sender: &str, sends: f64, broker: f64) -> Usage {
        let process = |name: &str, processors| ProcessUsage {
            busiest_thread_share: 0.1,
            ..ProcessUsage::of(name, processors)
        };
        let processes = vec![process("broker", broker), process(sender, sends)];
        let machine_busy = (sends + broker) / 2.0;
        Usage { seconds: 1.0, processors: 2, machine_busy, processes, ..Usage::default() }
    }

    fn shape_of(per_s: f64, sends: f64, broker: f64) -> Shape {
        let lines = vec![Line { per_s, mean_ms: 1.0, max_ms: 1.0, failed: 0.0 }];
        let ours = |per_s, sends, broker| Sent::of(per_s, &usage("load", sends, broker), "load");
        let own = Own { lines, usage: usage(TOOL, sends, broker) };
        // 16 us and 8 us of the broker's time for each message.
        let (apart, together) = (ours(100_000.0, 0.4, 1.6), ours(200_000.0, 0.2, 1.6));
        assert_eq!(shape(&own, apart, together).holds, shape(&own, together, apart).holds);
        assert_eq!(shape(&own, None, together).holds, None);
        shape(&own, apart, together)
    }

    #[test]
    fn it_is_to_lie_between_the_two_ways_or_to_be_explained_by_the_processors() {
        for (per_s, sends, broker, holds, why) in [
            (91_000.0, 0.1, 0.1, true, "the same"),
            (150_000.0, 0.1, 0.1, true, "the same"),
            (219_000.0, 0.1, 0.1, true, "the same"),
            // Half as many, with half the broker's time.
            (50_000.0, 1.2, 0.8, true, "explained: the processors"),
            // Half as many, and something else waits.
            (50_000.0, 0.8, 0.8, false, "not explained: the processors"),
            // Half as many, though the broker has as much as with ours; and more of them than its time is worth.
            (50_000.0, 0.4, 1.6, false, "not explained: the broker"),
            (300_000.0, 0.4, 1.6, false, "not explained: the broker"),
        ] {
            let shape = shape_of(per_s, sends, broker);
            assert_eq!(shape.holds, Some(holds), "{shape:?}");
            assert!(shape.measured.contains(&format!("; {why}")), "{shape:?}");
        }
        let measured = shape_of(50_000.0, 1.2, 0.8).measured;
        assert!(
            measured.starts_with(
                "its own 50000/s with 1.20 processors and 0.80 of the broker's (16.0 us each); "
            ),
            "{measured}"
        );
    }
}
