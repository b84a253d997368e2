//! What limits a rate, said from the evidence of its measurement and from nothing else.
//!
//! Rules, in a fixed order: a thread that is used up, processors that are, a disk that is. If none of them holds, it
//! says so; between free and used up it names no limit. It knows no process by name.

use crate::host::usage::{ProcessUsage, Usage, Watched};
use crate::load::Trial;

/// Of one processor: a thread above this can't do much more, whatever is free beside it.
const THREAD_FULL: f64 = 0.85;
/// Of one processor: from here on the generator's own thread may be what a closed loop levels off at.
pub(crate) const GENERATOR_FULL: f64 = THREAD_FULL;
/// Of all processors.
pub(crate) const MACHINE_FULL: f64 = 0.85;
/// Of all processors: only below this it may be said that nothing was used up.
pub(crate) const MACHINE_FREE: f64 = 0.7;
/// Of the time. Queues of a disk can go on beyond it, so it is said last.
pub(crate) const DISK_FULL: f64 = 0.8;
/// Of one processor: work beside ours from here on spoils a figure.
pub(crate) const OTHERS_MAX: f64 = 0.1;
const PROCESSES_NAMED: usize = 5;
/// Begins the sentence of a machine that could have done more.
pub(crate) const NOTHING_USED_UP: &str = "Nothing was used up";
/// What limited a search in which no load failed that the generator could make.
pub(crate) const LOAD_GENERATOR: &str = "the load generator";

/// One or more sentences.
pub(crate) fn limit(usage: &Usage) -> String {
    let mut said: Vec<String> = Vec::new();
    said.extend(full_thread(usage));
    if usage.machine_busy >= MACHINE_FULL {
        said.push(format!(
            "the {} processors are used up ({:.0}% busy: {})",
            usage.processors,
            usage.machine_busy * 100.0,
            shares(usage)
        ));
    }
    if let Some(busy) = usage.disk_busy.filter(|busy| *busy >= DISK_FULL) {
        said.push(format!("the disk had work {:.0}% of the time", busy * 100.0));
    }
    let mut text = if said.is_empty() {
        let waiting =
            if is_free(usage) { ", so the waiting of each stage for the next one limits it" } else { "" };
        idle(usage) + waiting
    } else {
        let mut text = said.join("; ");
        text[..1].make_ascii_uppercase();
        text
    };
    text.push('.');
    text
}

/// Nothing of the machine was used up, nor nearly so.
pub(crate) fn is_free(usage: &Usage) -> bool {
    let disk = usage.disk_busy.unwrap_or_default();
    full_process(usage).is_none() && usage.machine_busy < MACHINE_FREE && disk < DISK_FULL
}

pub(crate) fn idle(usage: &Usage) -> String {
    let disk = usage.disk_busy.map_or("unknown".to_owned(), |busy| format!("{:.0}%", busy * 100.0));
    let begin = if is_free(usage) { NOTHING_USED_UP } else { "No limit is clear" };
    format!(
        "{begin} (processors {:.0}% busy: {}; disk {disk} of the time)",
        usage.machine_busy * 100.0,
        shares(usage)
    )
}

/// The process with the busiest thread, if that is used up.
pub(crate) fn full_process(usage: &Usage) -> Option<&ProcessUsage> {
    usage
        .processes
        .iter()
        .max_by(|a, b| a.busiest_thread_share.total_cmp(&b.busiest_thread_share))
        .filter(|of| of.busiest_thread_share >= THREAD_FULL)
}

/// The share of a processor that the generator used, if it is what a closed loop levelled off at: the only thing, or
/// the fullest one, that was used up.
pub(crate) fn load_is_limit(trial: &Trial) -> Option<f64> {
    let full = full_process(trial.usage.as_ref()?).filter(|full| full.name == Watched::load().name)?;
    trial.arrivals.starts_with("closed loop").then_some(full.busiest_thread_share)
}

/// The generator of a closed loop had no time left, whatever else had none either: its rate is at least this.
pub(crate) fn load_is_full(trial: &Trial) -> bool {
    let used_up = |usage: &Usage| {
        let load = usage.processes.iter().find(|of| of.name == Watched::load().name);
        load.is_some_and(|of| of.busiest_thread_share >= GENERATOR_FULL)
    };
    trial.arrivals.starts_with("closed loop") && trial.usage.as_ref().is_some_and(used_up)
}

fn full_thread(usage: &Usage) -> Option<String> {
    let most = full_process(usage)?;
    Some(format!(
        "a thread of {} is used up ({}: {:.0}% of a processor)",
        most.name,
        most.busiest_thread,
        most.busiest_thread_share * 100.0
    ))
}

/// The processes that used most, in shares of all processors.
fn shares(usage: &Usage) -> String {
    let mut shares: Vec<(&str, f64)> =
        usage.processes.iter().map(|of| (of.name.as_str(), of.processors)).collect();
    if usage.others > OTHERS_MAX {
        shares.push(("work that is not ours", usage.others));
    }
    shares.sort_by(|a, b| b.1.total_cmp(&a.1));
    let share = |processors: f64| processors / usage.processors as f64 * 100.0;
    let named: Vec<_> = shares
        .iter()
        .take(PROCESSES_NAMED)
        .map(|(name, processors)| format!("{name} {:.0}%", share(*processors)))
        .collect();
    named.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usage(machine_busy: f64, disk: f64, thread: f64) -> Usage {
        let process = |name: &str, processors, share| ProcessUsage {
            busiest_thread: format!("main-of-{name}"),
            busiest_thread_share: share,
            ..ProcessUsage::of(name, processors)
        };
        let processes = vec![process("redis", 0.3, 0.3), process("mariadb", 1.2, thread)];
        Usage {
            seconds: 5.0,
            processors: 2,
            machine_busy,
            disk_busy: Some(disk),
            processes,
            ..Usage::default()
        }
    }

    #[test]
    fn the_sentence_follows_the_evidence() {
        for (usage, wanted) in [
            (usage(0.97, 0.2, 0.4), "The 2 processors are used up (97% busy: mariadb 60%, redis 15%)."),
            (usage(0.6, 0.2, 0.93), "A thread of mariadb is used up (main-of-mariadb: 93% of a processor)."),
            (usage(0.5, 0.95, 0.4), "The disk had work 95% of the time."),
            (
                usage(0.5, 0.3, 0.4),
                "Nothing was used up (processors 50% busy: mariadb 60%, redis 15%; disk 30% of",
            ),
        ] {
            let said = limit(&usage);
            assert!(said.starts_with(wanted), "{said}");
        }
    }

    /// A report once said: "nothing was used up, processors 86% busy".
    #[test]
    fn no_sentence_contradicts_its_figures() {
        for percent in 0..=100_u32 {
            let busy = f64::from(percent) / 100.0;
            for (disk, thread) in [(0.2, 0.4), (0.79, 0.84), (0.8, 0.4), (0.2, 0.85)] {
                let usage = usage(busy, disk, thread);
                let said = limit(&usage);
                let free = busy < MACHINE_FREE && disk < DISK_FULL && thread < THREAD_FULL;
                assert_eq!(said.starts_with(NOTHING_USED_UP), free, "{said}");
                assert_eq!(idle(&usage).starts_with(NOTHING_USED_UP), free, "{said}");
                assert_eq!(said.contains("processors are used up"), busy >= MACHINE_FULL, "{said}");
            }
        }
        let nearly = limit(&usage(0.84, 0.2, 0.4));
        assert!(nearly.starts_with("No limit is clear (processors 84% busy: mariadb 60%"), "{nearly}");
        assert!(nearly.ends_with("disk 20% of the time)."), "{nearly}");
    }

    #[test]
    fn work_of_others_is_reported() {
        let said = limit(&Usage { others: 0.5, ..usage(1.0, 0.0, 0.4) });
        assert!(said.contains("mariadb 60%, work that is not ours 25%, redis 15%"), "{said}");
    }
}
