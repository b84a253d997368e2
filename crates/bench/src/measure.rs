//! One trial: a run of the load, what the machine spent on it, and whether it is to be believed.
//!
//! An invalid trial is still returned, with the flags that say why: its outcomes count for the audit, its figures for
//! nothing.

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::Context;

use crate::host::procfs;
use crate::host::usage::{Snapshot, Usage, Watched};
use crate::load::record::Record;
use crate::load::schedule::Schedule;
use crate::load::trial::Flag;
use crate::load::{Client, Generator, Protocol, RunError, Second, Trial, run_clients};
use crate::progress::Progress;

/// The latency limit that is assumed where nobody gave one.
pub const LATENCY_LIMIT: Duration = Duration::from_millis(50);
/// The generator's own lateness, p99, may be this part of the latency limit.
const LAG_PART_MAX: u32 = 10;
/// Of one processor. A busier generator might be the limit of what it measures.
const GENERATOR_SHARE_MAX: f64 = 0.8;
/// Of all processors' time.
const STEAL_SHARE_MAX: f64 = 0.02;
/// Of all requests: from here on the times of those that were not carried make the distribution another one.
const NOT_CARRIED_MAX: f64 = 0.01;
/// Of all processors, used by work that is not ours. The kernel's threads count as others: on a quiet machine of two
/// processors they took up to 22% beside a whole cluster.
const OTHERS_MAX: f64 = 0.25;
/// Processor time is counted in hundredths of a second: of a shorter trial it says nothing.
pub(crate) const NOTED_MIN_S: f64 = 0.5;
/// In [`Usage::processes`]: the tools that ended while [`watch`] looked.
pub(crate) const TOOLS: &str = "tools";
/// A closed loop's rate may be too low by this part because its last answers are waited for.
const TAIL_SHARE_MAX: f64 = 0.1;
/// Its name in `Usage::processes`: see [`Watched::load`].
const GENERATOR: &str = "load";

#[derive(Debug, Clone, Copy)]
pub struct Surroundings<'a> {
    /// The engines and servers on this machine; the generator is added.
    pub watched: &'a [Watched],
    /// The block device whose work is measured, if there is one: see `environment::disk`.
    pub disk: Option<&'a str>,
    /// The target runs on this machine too.
    pub co_located: bool,
    pub stop: &'a AtomicBool,
    /// Shows each second, if anybody watches.
    pub progress: Option<&'a Progress>,
}

/// A trial under [`LATENCY_LIMIT`].
///
/// # Errors
/// If the stop flag is raised, or the machine can't be read. What the target does is in the trial.
pub fn trial<P: Protocol>(
    generator: &mut Generator,
    schedule: Schedule,
    protocol: &mut P,
    repeat: usize,
    around: Surroundings<'_>,
) -> anyhow::Result<Trial> {
    trial_within(LATENCY_LIMIT, generator, schedule, protocol, repeat, around)
}

pub fn trial_within<P: Protocol>(
    latency_limit: Duration,
    generator: &mut Generator,
    schedule: Schedule,
    protocol: &mut P,
    repeat: usize,
    around: Surroundings<'_>,
) -> anyhow::Result<Trial> {
    let cap = generator.settings().connections as u64;
    let run = |watch: &mut dyn FnMut(&Second)| generator.run_watched(schedule, protocol, around.stop, watch);
    let (record, usage) = observed(around, run)?;
    let flags = flags(&record, &usage, cap, latency_limit, around.co_located);
    Ok(Trial { flags, ..Trial::new(repeat, &schedule, &record, Some(usage)) })
}

/// A closed loop of clients that block, under [`LATENCY_LIMIT`].
pub fn trial_of_clients<C: Client>(
    clients: &mut [C],
    schedule: Schedule,
    repeat: usize,
    around: Surroundings<'_>,
) -> anyhow::Result<Trial> {
    let threads = clients.len();
    let (record, mut usage) = observed(around, |watch| run_clients(clients, schedule, around.stop, watch))?;
    usage.spread_over(GENERATOR, threads);
    let flags = flags(&record, &usage, threads as u64, LATENCY_LIMIT, around.co_located);
    Ok(Trial { flags, ..Trial::new(repeat, &schedule, &record, Some(usage)) })
}

/// A run of the load, and what the machine did in it.
fn observed(
    around: Surroundings<'_>,
    run: impl FnOnce(&mut dyn FnMut(&Second)) -> Result<Record, RunError>,
) -> anyhow::Result<(Record, Usage)> {
    let mut watched = around.watched.to_vec();
    watched.push(Watched::load());
    let before = Snapshot::take(&watched, around.disk).context("reading what the machine does")?;
    let mut watch = |second: &Second| {
        if let Some(progress) = around.progress {
            progress.second(second);
        }
    };
    let record = run(&mut watch);
    // First: where the load could not be offered because a server has ended, that is what a reader must know.
    let after = Snapshot::take(&watched, around.disk).context("reading what the machine does")?;
    Ok((record?, before.until(&after)))
}

/// Something that is no load of ours, and what the machine did in it. What it starts ends in it, or is watched.
///
/// # Errors
/// Its own, or if the machine can't be read.
pub fn watch<T>(
    around: Surroundings<'_>,
    run: impl FnOnce() -> anyhow::Result<T>,
) -> anyhow::Result<(T, Usage)> {
    let mut watched = around.watched.to_vec();
    watched.push(Watched::load());
    let look = || Snapshot::take(&watched, around.disk).context("reading what the machine does");
    let (before, ended_before) = (look()?, procfs::ended_children_cpu()?);
    let done = run()?;
    let mut usage = before.until(&look()?);
    usage.add_ended(TOOLS, procfs::ended_children_cpu()?.saturating_sub(ended_before));
    Ok((done, usage))
}

/// Too much of the processors was used by work that is not ours.
pub(crate) fn disturbance(usage: &Usage) -> Option<Flag> {
    let most = OTHERS_MAX * usage.processors as f64;
    (usage.others > most && usage.seconds >= NOTED_MIN_S)
        .then_some(Flag::Disturbed { processors: usage.others, most })
}

/// What a reader must know of such a run before its figures are believed.
pub fn flags(
    record: &Record,
    usage: &Usage,
    cap: u64,
    latency_limit: Duration,
    co_located: bool,
) -> Vec<Flag> {
    let mut flags = Vec::new();
    if record.unsent > 0 {
        flags.push(Flag::Unsent { requests: record.unsent });
    }
    if record.stray_answers > 0 {
        flags.push(Flag::Stray { answers: record.stray_answers });
    }
    if record.waited_for_cap > 0 {
        flags.push(Flag::InFlightCap { cap, times: record.waited_for_cap });
    }
    let most_us = u64::try_from((latency_limit / LAG_PART_MAX).as_micros()).unwrap_or(u64::MAX);
    let p99_us = record.generator_lag().at(0.99);
    if p99_us > most_us {
        flags.push(Flag::SendLag { p99_us, most_us });
    }
    if let Some((tail, share)) = record.tail()
        && share > TAIL_SHARE_MAX
    {
        flags.push(Flag::SlowTail { seconds: tail.as_secs_f64(), share, most: TAIL_SHARE_MAX });
    }
    let not_carried = record.outcomes.limited + record.outcomes.busy + record.outcomes.bad();
    let of = record.outcomes.total();
    if not_carried as f64 > of as f64 * NOT_CARRIED_MAX {
        flags.push(Flag::NotCarried { requests: not_carried, of });
    }
    flags.extend(disturbance(usage));
    if co_located {
        // The two share the processors, so how busy they are is the target's doing as well; the label says so.
        flags.push(Flag::CoLocated);
        return flags;
    }
    let generator = usage.processes.iter().find(|process| process.name == GENERATOR);
    let share = generator.map_or(0.0, |process| process.busiest_thread_share);
    if share > GENERATOR_SHARE_MAX {
        flags.push(Flag::GeneratorBusy { share, most: GENERATOR_SHARE_MAX });
    }
    if usage.steal > STEAL_SHARE_MAX {
        flags.push(Flag::Steal { share: usage.steal, most: STEAL_SHARE_MAX });
    }
    flags
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::usage::ProcessUsage;
    use crate::load::record::Asking;

    fn usage(generator: f64, steal: f64) -> Usage {
        // A busy server is no reason to doubt the generator.
        let processes = vec![ProcessUsage::of("redis", 1.0), ProcessUsage::of(GENERATOR, generator)];
        Usage { seconds: 1.0, processors: 2, machine_busy: 1.0, steal, processes, ..Usage::default() }
    }

    fn record(lags: &[u64], waited: bool) -> Record {
        let mut record = Record::default();
        for lag in lags {
            record.issued(Duration::from_micros(*lag), 1, waited);
        }
        record
    }

    fn check(record: &Record, usage: &Usage, co_located: bool, wanted: &[&str]) {
        let flags = flags(record, usage, 7, LATENCY_LIMIT, co_located);
        let names: Vec<String> = flags.iter().map(|flag| format!("{flag:?}")).collect();
        assert_eq!(names.len(), wanted.len(), "{names:?}");
        for (name, wanted) in names.iter().zip(wanted) {
            assert!(name.starts_with(wanted), "{names:?}");
        }
        let valid = !flags.iter().any(Flag::invalidates);
        let to_note = ["CoLocated", "NotCarried", "Disturbed"];
        assert_eq!(valid, wanted.iter().all(|name| to_note.iter().any(|of| name.starts_with(of))));
    }

    #[test]
    fn a_trial_is_invalid_for_each_reason_by_itself() {
        let (good, quiet) = (record(&[100; 100], false), usage(0.5, 0.01));
        check(&good, &quiet, false, &[]);
        check(&good, &quiet, true, &["CoLocated"]);
        check(&good, &usage(0.9, 0.0), false, &["GeneratorBusy { share: 0.9"]);
        check(&good, &usage(0.5, 0.03), false, &["Steal { share: 0.03"]);
        check(&good, &usage(0.9, 0.03), true, &["CoLocated"]);
        check(&record(&[100; 10], true), &quiet, false, &["InFlightCap { cap: 7, times: 10 }"]);
        let disturbed = Usage { others: 0.6, ..usage(0.5, 0.0) };
        check(&Record::default(), &disturbed, false, &["Disturbed { processors: 0.6, most: 0.5 }"]);
        let short = Usage { seconds: 0.3, ..disturbed };
        check(&Record::default(), &short, false, &[]);
        let mut refused = Record::default();
        (refused.outcomes.won, refused.outcomes.busy, refused.outcomes.sold_out) = (990, 10, 500);
        check(&refused, &quiet, false, &[]);
        refused.outcomes.unknown = 6;
        check(&refused, &quiet, false, &["NotCarried { requests: 16, of: 1506 }"]);
        let mut unsent = Record::default();
        unsent.unsent = 3;
        check(&unsent, &quiet, false, &["Unsent { requests: 3 }"]);
        // Users asked for 8 s and had 80 answers in them; the last ones came within 10 s.
        for (good, flags) in [(100, &[][..]), (91, &[]), (89, &["SlowTail { seconds: 2.0, share: 0.1"])] {
            let mut tail = Record::default();
            tail.asking = Some(Asking { time: Duration::from_secs(8), good: 80 });
            (tail.elapsed, tail.outcomes.won) = (Duration::from_secs(10), good);
            check(&tail, &quiet, false, flags);
        }
        // A tenth of 50 ms: two late ones in a hundred are too many, one is not.
        let late = |count: usize| [vec![100; 100 - count], vec![6_000; count]].concat();
        check(&record(&late(1), false), &quiet, false, &[]);
        check(&record(&late(2), false), &quiet, false, &["SendLag { p99_us: 6"]);
    }
}
