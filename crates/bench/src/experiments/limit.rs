//! What limited a scenario, by the trial of its highest rate.
//!
//! By the rules of `limit.rs` in the folder above, from the evidence of the measurement alone.

use crate::host::limit::{DISK_FULL, GENERATOR_FULL, MACHINE_FULL, full_process, idle, is_free, limit};
use crate::host::usage::{Usage, Watched};
use crate::load::Trial;
use crate::report::model::{Case, Limiter};

/// [`Limiter::what`] where the load is what could not go on.
const GENERATOR: &str = "the load generator";
/// The same where nothing was used up: in a closed loop each stage waits for the next one.
const WAITING: &str = "waiting: nothing was used up";
/// The same where the processors were neither free nor used up.
const UNCLEAR: &str = "no clear limit: the processors were nearly used up";

/// Why a trial says nothing about where its target levels off: its generator may be what does. None if it isn't, or
/// if nobody watched it.
pub fn generator_bound(trial: &Trial) -> Option<String> {
    let usage = trial.usage.as_ref()?;
    let load = usage.processes.iter().find(|of| of.name == Watched::load().name)?;
    let share = load.busiest_thread_share;
    (share >= GENERATOR_FULL).then(|| {
        format!("the load generator used {:.0}% of a processor, so it may be the limit itself", share * 100.0)
    })
}

/// Why the rates of these cases may be the generator's own ceiling, by the first valid trial of theirs that it is true
/// of.
pub fn bound(cases: &[Case], names: &[&str]) -> Option<String> {
    let named = cases.iter().filter(|case| names.contains(&case.name.as_str()));
    named.flat_map(|case| &case.trials).filter(|trial| trial.is_valid()).find_map(generator_bound)
}

/// Nothing more could have been done on this machine, whoever had wanted to.
pub fn is_used_up(usage: &Usage) -> bool {
    usage.machine_busy >= MACHINE_FULL
}

/// Of the best valid trial of these cases; none if no such trial has the machine's usage.
pub fn of(cases: &[Case]) -> Option<Limiter> {
    let best = plateau(cases)?;
    of_trial(&best.0.name, best.1)
}

/// The same of open loops: their rate is the offered one, which nothing limits as long as it is carried.
pub fn of_open(cases: &[Case]) -> Option<Limiter> {
    let (case, trial) = plateau(cases)?;
    let mut of = of_trial(&case.name, trial)?;
    if of.what != WAITING && of.what != UNCLEAR {
        return Some(of);
    }
    let turned_away = trial.outcomes.limited + trial.outcomes.busy;
    of.what = if turned_away > 0 {
        "what the server admits".to_owned()
    } else if trial.outcomes.bad() + trial.unsent > 0 {
        format!("unknown, for not all was carried ({})", of.what)
    } else {
        "nothing: the offered load was carried".to_owned()
    };
    let usage = trial.usage.as_ref()?;
    of.evidence[1] = format!("{}; {turned_away} requests were asked to try again.", idle(usage));
    Some(of)
}

/// The valid trial of the highest rate, with its case, of those that have the machine's usage.
pub fn plateau<'a>(cases: impl IntoIterator<Item = &'a Case>) -> Option<(&'a Case, &'a Trial)> {
    cases
        .into_iter()
        .flat_map(|case| case.trials.iter().map(move |trial| (case, trial)))
        .filter(|(_, trial)| trial.is_valid() && trial.usage.is_some())
        .max_by(|a, b| a.1.good_per_s().total_cmp(&b.1.good_per_s()))
}

/// Of one trial, named for the reader.
pub fn of_trial(name: &str, trial: &Trial) -> Option<Limiter> {
    let usage = trial.usage.as_ref()?;
    let measured = format!("{name}: {:.0}/s.", trial.good_per_s());
    let mut of = Limiter { what: what(usage), evidence: vec![measured, limit(usage)] };
    if let Some(why) = generator_bound(trial).filter(|_| of.what != GENERATOR) {
        of.what = format!("{}, or {GENERATOR}: undecided", of.what);
        of.evidence.push(format!("Undecided: {why}."));
    }
    Some(of)
}

fn what(usage: &Usage) -> String {
    if let Some(full) = full_process(usage) {
        return match full.name.as_str() {
            "load" => GENERATOR.to_owned(),
            name if full.busiest_thread == "redis-server" => format!("the main thread of {name}"),
            name => format!("the thread {} of {name}", full.busiest_thread),
        };
    }
    if is_used_up(usage) {
        return "the processors".to_owned();
    }
    if usage.disk_busy.is_some_and(|busy| busy >= DISK_FULL) {
        return "the disk".to_owned();
    }
    if is_free(usage) { WAITING } else { UNCLEAR }.to_owned()
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::experiments::shapes::Judged;
    use crate::host::usage::ProcessUsage;
    use crate::load::record::Record;
    use crate::load::schedule::Schedule;
    use crate::load::trial::Flag;
    use crate::report::trials;

    fn trial(won: u64, name: &str, share: f64) -> Trial {
        let mut record = Record::default();
        (record.outcomes.won, record.elapsed) = (won, std::time::Duration::from_secs(1));
        let processes = vec![ProcessUsage::of(name, share)];
        let usage = Usage { seconds: 1.0, processors: 2, machine_busy: 0.5, processes, ..Usage::default() };
        Trial::new(1, &Schedule::closed(record.elapsed), &record, Some(usage))
    }

    /// Of one trial with this rate, and this share of a processor for the generator.
    pub(in crate::experiments) fn case_of(name: &str, per_s: u64, share: f64) -> Case {
        let trials = vec![trial(per_s, "load", share)];
        Case {
            name: name.to_owned(),
            metrics: trials::figures(&trials, &["throughput"]),
            trials,
            ..Case::default()
        }
    }

    #[test]
    fn a_limiter_is_not_decided_beside_a_full_generator() {
        let both = |redis| {
            let mut both = trial(1, "load", 0.9);
            let usage = both.usage.as_mut().unwrap();
            let mut process = usage.processes[0].clone();
            (process.name, process.busiest_thread_share) = ("redis".to_owned(), redis);
            usage.processes.push(process);
            of_trial("a", &both).unwrap()
        };
        assert_eq!(both(0.95).what, "the thread load of redis, or the load generator: undecided");
        assert!(both(0.95).evidence[2].contains("used 90% of a processor"), "{:?}", both(0.95));
        assert_eq!((both(0.5).what.as_str(), both(0.5).evidence.len()), (GENERATOR, 2));
    }

    #[test]
    fn nothing_limits_an_open_loop_that_is_carried() {
        let case = |trial| Case { trials: vec![trial], ..case_of("crowd", 1, 0.1) };
        let mut limited = trial(9, "redis", 0.1);
        limited.outcomes.limited = 3;
        let mut failed = trial(9, "redis", 0.1);
        failed.outcomes.failed = 1;
        for (trial, what) in [
            (trial(9, "redis", 0.1), "nothing: the offered load was carried"),
            (limited, "what the server admits"),
            (failed, "unknown, for not all was carried (waiting: nothing was used up)"),
            (trial(9, "redis", 0.9), "the thread redis of redis"),
        ] {
            let of = of_open(&[case(trial)]).unwrap();
            assert_eq!(of.what, what);
            assert!(!of.evidence.concat().contains("limits it"), "{of:?}");
        }
    }

    #[test]
    fn a_full_generator_leaves_a_shape_undecided() {
        for (name, share, bound) in
            [("load", 0.84, false), ("load", 0.85, true), ("redis", 1.0, false), ("load", 1.0, true)]
        {
            let why = generator_bound(&trial(1, name, share));
            assert_eq!(why.is_some(), bound, "{name} {share}");
            let judged = Judged::new(Some(("so many".to_owned(), true)), "");
            let shape = judged.doubted(why).shape("", "");
            assert_eq!(shape.holds.is_none(), bound);
            assert_eq!(shape.measured.contains("so many; the load generator used"), bound);
        }
        assert_eq!(generator_bound(&Trial { usage: None, ..trial(1, "load", 1.0) }), None);
    }

    #[test]
    fn an_invalid_trial_is_not_the_best() {
        let invalid = Trial { flags: vec![Flag::Unsent { requests: 1 }], ..trial(9, "load", 0.9) };
        let case = |trials| Case { name: "a".to_owned(), trials, ..Case::default() };
        let limiter = of(&[case(vec![trial(5, "redis", 0.1), invalid.clone()])]).unwrap();
        assert_eq!(limiter.evidence[0], "a: 5/s.");
        assert_eq!(of(&[case(vec![invalid])]).map(|of| of.what), None);
    }

    #[test]
    fn the_limiter_is_named_after_what_is_used_up() {
        let usage = |machine_busy, disk, name: &str, thread: &str, share| Usage {
            seconds: 1.0,
            processors: 2,
            machine_busy,
            disk_busy: Some(disk),
            processes: vec![ProcessUsage {
                busiest_thread: thread.to_owned(),
                ..ProcessUsage::of(name, share)
            }],
            ..Usage::default()
        };
        for (usage, wanted) in [
            (usage(0.9, 0.9, "redis", "redis-server", 0.95), "the main thread of redis"),
            (usage(0.9, 0.9, "load", "doorbuster", 0.95), "the load generator"),
            (usage(0.9, 0.9, "redis", "bio_aof", 0.95), "the thread bio_aof of redis"),
            (usage(0.85, 0.9, "redis", "redis-server", 0.5), "the processors"),
            (usage(0.84, 0.1, "redis", "redis-server", 0.5), UNCLEAR),
            (usage(0.5, 0.9, "redis", "redis-server", 0.5), "the disk"),
            (usage(0.5, 0.1, "redis", "redis-server", 0.5), "waiting: nothing was used up"),
        ] {
            assert_eq!(what(&usage), wanted);
        }
    }
}
