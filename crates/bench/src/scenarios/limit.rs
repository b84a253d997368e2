//! What limited a scenario, by the trial of its highest rate.
//!
//! The rules are those of the cluster's benchmark, from the evidence of the measurement alone. Called by every
//! scenario that runs a load.

use crate::cluster::limit::{DISK_FULL, MACHINE_FULL, full_process, limit};
use crate::load::Trial;
use crate::report::model::{Case, Limiter};
use crate::usage::Usage;

/// Of the best trial of these cases; none if no trial tells what the machine did.
pub fn of(cases: &[Case]) -> Option<Limiter> {
    let best = cases
        .iter()
        .flat_map(|case| case.trials.iter().map(move |trial| (case, trial)))
        .filter(|(_, trial)| trial.usage.is_some())
        .max_by(|a, b| a.1.good_per_s().total_cmp(&b.1.good_per_s()))?;
    of_trial(&best.0.name, best.1)
}

/// Of one trial, named for the reader.
pub fn of_trial(name: &str, trial: &Trial) -> Option<Limiter> {
    let usage = trial.usage.as_ref()?;
    let measured = format!("{name}: {:.0}/s.", trial.good_per_s());
    Some(Limiter { what: what(usage), evidence: vec![measured, limit(usage, None)] })
}

fn what(usage: &Usage) -> String {
    if let Some(full) = full_process(usage) {
        return match full.name.as_str() {
            "load" => "the load generator".to_owned(),
            name if full.busiest_thread == "redis-server" => format!("the main thread of {name}"),
            name => format!("the thread {} of {name}", full.busiest_thread),
        };
    }
    if usage.machine_busy >= MACHINE_FULL {
        return "the processors".to_owned();
    }
    if usage.disk_busy.is_some_and(|busy| busy >= DISK_FULL) {
        return "the disk".to_owned();
    }
    "waiting: nothing was used up".to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::usage::ProcessUsage;

    #[test]
    fn the_limiter_is_named_after_what_is_used_up() {
        let usage = |machine_busy, disk, name: &str, thread: &str, share| Usage {
            seconds: 1.0,
            processors: 2,
            machine_busy,
            steal: 0.0,
            others: 0.0,
            disk_busy: Some(disk),
            processes: vec![ProcessUsage {
                name: name.to_owned(),
                cpu_seconds: share,
                processors: share,
                busiest_thread: thread.to_owned(),
                busiest_thread_share: share,
            }],
        };
        for (usage, wanted) in [
            (usage(0.9, 0.9, "redis", "redis-server", 0.95), "the main thread of redis"),
            (usage(0.9, 0.9, "load", "doorbuster", 0.95), "the load generator"),
            (usage(0.9, 0.9, "redis", "bio_aof", 0.95), "the thread bio_aof of redis"),
            (usage(0.95, 0.9, "redis", "redis-server", 0.5), "the processors"),
            (usage(0.5, 0.9, "redis", "redis-server", 0.5), "the disk"),
            (usage(0.5, 0.1, "redis", "redis-server", 0.5), "waiting: nothing was used up"),
        ] {
            assert_eq!(what(&usage), wanted);
        }
    }
}
