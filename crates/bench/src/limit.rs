//! What limits a rate, said from the evidence of its measurement and from nothing else.
//!
//! Rules, in a fixed order: a thread that is used up, processors that are, a disk that is. If none of them holds, it
//! says so. It knows no process by name.

use crate::usage::{ProcessUsage, Usage};

/// Of one processor: a thread above this can't do much more, whatever is free beside it.
const THREAD_FULL: f64 = 0.85;
/// Of all processors.
pub(crate) const MACHINE_FULL: f64 = 0.9;
/// Of the time. Queues of a disk can go on beyond it, so it is said last.
pub(crate) const DISK_FULL: f64 = 0.8;
/// Of one processor: work beside ours from here on spoils a figure.
pub(crate) const OTHERS_MAX: f64 = 0.1;
const PROCESSES_NAMED: usize = 5;

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
        format!("{}, so the waiting of each stage for the next one limits it", idle(usage))
    } else {
        let mut text = said.join("; ");
        text[..1].make_ascii_uppercase();
        text
    };
    text.push('.');
    text
}

/// How far from used up the machine was.
pub(crate) fn idle(usage: &Usage) -> String {
    let disk = usage.disk_busy.map_or("unknown".to_owned(), |busy| format!("{:.0}%", busy * 100.0));
    format!(
        "Nothing was used up (processors {:.0}% busy: {}; disk {disk} of the time)",
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
            name: name.to_owned(),
            cpu_seconds: processors * 5.0,
            processors,
            busiest_thread: format!("main-of-{name}"),
            busiest_thread_share: share,
        };
        Usage {
            seconds: 5.0,
            processors: 2,
            steal: 0.0,
            machine_busy,
            others: 0.0,
            disk_busy: Some(disk),
            processes: vec![process("redis", 0.3, 0.3), process("mariadb", 1.2, thread)],
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

    #[test]
    fn work_of_others_is_reported() {
        let said = limit(&Usage { others: 0.5, ..usage(1.0, 0.0, 0.4) });
        assert!(said.contains("mariadb 60%, work that is not ours 25%, redis 15%"), "{said}");
    }
}
