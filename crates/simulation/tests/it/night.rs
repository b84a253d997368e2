//! Whole nights of a cluster, each by one seed.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::panic::catch_unwind;
use std::sync::Mutex;
use std::time::Duration;

use simulation::night::{Broken, Fault, KINDS, Plan, Planted, Played, plan, play, report};

use crate::panics::message;
use crate::seeds::{Seed, seeds};

/// What people must have been answered in all nights together.
const ANSWERS: [&str; 6] = ["ordered", "sold out", "over the limit", "another body", "unknown", "paused"];
/// In `make test`: each kind of fault is there ten times.
const NIGHTS: u64 = 10 * KINDS.len() as u64;
/// So often whoever waits for thousands reads how many there were.
const PROGRESS_EVERY: usize = 100;

/// Whoever panics has broken it.
pub(crate) fn play_well(seed: u64, plan: &Plan, planted: Planted) -> Played {
    let played = catch_unwind(|| play(seed, plan, planted));
    played.unwrap_or_else(|panic| {
        let broken = Broken::from(format!("it panicked: {}", message(&*panic)));
        Played { broken: vec![broken], ..Played::default() }
    })
}

/// The same night with as few of its faults as it takes.
pub(crate) fn smallest(seed: u64, mut plan: Plan, planted: Planted) -> (Plan, Played) {
    let mut at = 0;
    while at < plan.len() {
        let mut fewer = plan.clone();
        fewer.remove(at);
        if play_well(seed, &fewer, planted).broken.is_empty() { at += 1 } else { plan = fewer }
    }
    let played = play_well(seed, &plan, planted);
    (plan, played)
}

/// What all nights came to.
#[derive(Default)]
struct Total {
    passed: usize,
    failed: usize,
    kinds: [u64; KINDS.len()],
    answers: BTreeSet<&'static str>,
    happened: BTreeMap<&'static str, u64>,
}

/// Does this with each, on all processors. A night has a thread to itself.
pub(crate) fn with_each<T: Send>(all: impl Iterator<Item = T> + Send, does: impl Fn(T) + Sync) {
    let all = Mutex::new(all);
    let take = || all.lock().unwrap().next();
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| std::iter::from_fn(take).for_each(&does));
        }
    });
}

fn play_one(seed: u64, total: &Mutex<Total>) {
    let _named = Seed(seed);
    let plan = plan(seed);
    let played = play_well(seed, &plan, Planted::Nothing);
    let is_well = played.broken.is_empty();
    {
        let mut total = total.lock().unwrap();
        plan.iter().for_each(|(_, fault)| total.kinds[fault.kind()] += 1);
        total.answers.extend(played.answers.keys().copied());
        played.happened.iter().for_each(|(what, often)| *total.happened.entry(what).or_default() += often);
        *(if is_well { &mut total.passed } else { &mut total.failed }) += 1;
        let played = total.passed + total.failed;
        if played.is_multiple_of(PROGRESS_EVERY) {
            println!("{played} nights are played, {} failed", total.failed);
        }
    }
    if !is_well {
        let (plan, played) = smallest(seed, plan, Planted::Nothing);
        println!("{}", report(seed, &plan, Planted::Nothing, &played).join("\n"));
    }
}

#[test]
fn whatever_happens_in_a_night_its_promises_hold() {
    let total = Mutex::new(Total::default());
    with_each(seeds(NIGHTS), |seed| play_one(seed, &total));
    let Total { passed, failed, kinds, answers, happened } = total.into_inner().unwrap();
    println!("{passed} passed, {failed} failed");
    assert_eq!(failed, 0);
    // A run of few seeds, asked for by hand, meets few of them.
    if passed >= KINDS.len() {
        let missing: Vec<_> = KINDS.iter().zip(kinds).filter(|(_, count)| *count == 0).collect();
        assert!(missing.is_empty(), "these faults did not happen: {missing:?}");
        assert!(ANSWERS.iter().all(|answer| answers.contains(answer)), "{answers:?}");
    }
    if passed as u64 >= NIGHTS {
        assert!(happened.values().all(|often| *often > 0), "not all of this happened: {happened:?}");
    }
}

fn at(ms: u64, fault: Fault) -> (Duration, Fault) {
    (Duration::from_millis(ms), fault)
}

/// One of them rebuilds gates: a broker, whose messages that waits for, is out of its reach for good; or it alone sees an old master
/// of Redis, for longer than buyers wait.
fn servers_cut_off() -> Vec<(Range<u64>, Plan)> {
    let nights = (0..3).flat_map(|server| {
        let cut = at(4_000, Fault::BrokerCut { server, broker: 0, lasts: 90_000 });
        let alone = Fault::GateFailsOver { server, behind: 0, alone: 1_000, lasts: 46_000 };
        [(0..2, vec![cut, at(8_000, Fault::GateWiped)]), (0..2, vec![at(4_000, alone)])]
    });
    nights.collect()
}

/// A moment that stood still with its machine left the clocks of all servers behind those of Redis and the database, once.
fn suspended_in_a_row() -> [(Range<u64>, Plan); 1] {
    let suspended = [(6_401, 2), (8_479, 1), (8_618, 0), (11_392, 2), (11_603, 1), (11_712, 0)]
        .map(|(ms, server)| at(ms, Fault::Suspend { server, lasts: 7_000 }));
    [(168..172, suspended.to_vec())]
}

/// By these faults a night was broken once, by what is mended since.
#[test]
fn nights_that_were_broken_hold() {
    let faulty = |ms, one_in, lasts| at(ms, Fault::FaultyGate { one_in, lasts });
    let fails_over = |ms, without| at(ms, Fault::LedgerFailsOver { without });
    let forgets = |ms, broker, newest| at(ms, Fault::BrokerForgets { broker, newest });
    let freeze = |ms, server, lasts| at(ms, Fault::Freeze { server, lasts });
    let many = [
        (5_118, 2, 6_092),
        (5_275, 0, 9_326),
        (7_407, 1, 6_425),
        (8_364, 1, 698),
        (11_653, 2, 3_149),
        (11_843, 2, 1_479),
    ];
    let nights = [
        (
            0..4,
            vec![
                faulty(3_236, 20, 6_108),
                faulty(3_963, 80, 3_269),
                faulty(5_205, 80, 6_050),
                faulty(5_419, 80, 3_433),
                faulty(6_571, 5, 3_275),
                faulty(13_468, 5, 9_184),
            ],
        ),
        (
            0..4,
            vec![fails_over(8_175, 3), fails_over(9_475, 2), fails_over(11_837, 3), fails_over(15_796, 8)],
        ),
        (
            5_666..5_667,
            vec![
                forgets(3_652, 0, 1),
                at(7_035, Fault::GateRestarted),
                at(9_030, Fault::GateRestarted),
                at(9_094, Fault::FaultyLedger { one_in: 20, lasts: 3_232 }),
                forgets(12_419, 1, 1),
            ],
        ),
        (
            20_071..20_072,
            vec![
                at(12_087, Fault::QueueEmptied { broker: 1, queue: 1 }),
                at(13_375, Fault::GateRestored { age: 490 }),
            ],
        ),
        (
            20_333..20_334,
            vec![
                at(7_990, Fault::LedgerAway { lasts: 3_351 }),
                at(14_394, Fault::QueueEmptied { broker: 1, queue: 0 }),
                at(14_809, Fault::GateWiped),
            ],
        ),
        (20_361..20_362, vec![freeze(4_357, 2, 9_270)]),
        (20_001..20_002, many.map(|(ms, server, lasts)| freeze(ms, server, lasts)).to_vec()),
        // What a broker loses, the gates of before remember.
        (
            12..20,
            vec![
                at(8_000, Fault::LedgerAway { lasts: 3_000 }),
                forgets(9_000, 0, usize::MAX),
                at(9_500, Fault::GateRestarted),
            ],
        ),
    ];
    for (seeds, plan) in nights.into_iter().chain(servers_cut_off()).chain(suspended_in_a_row()) {
        for seed in seeds {
            let played = play(seed, &plan, Planted::Nothing);
            assert_eq!(played.broken, Vec::<Broken>::new(), "seed {seed} of {plan:?}");
        }
    }
}

/// Their clocks have stood still and are the majority: an operator says that those of their systems are right.
#[test]
fn servers_that_were_all_paused_sell_again_once_a_clock_is_confirmed() {
    let pause = |server| at(6_000, Fault::Pause { server, lasts: 7_000, behind: 20 });
    let plan: Plan = (0..3).map(pause).collect();
    for seed in 0..4 {
        assert_eq!(play(seed, &plan, Planted::Nothing).broken, Vec::<Broken>::new(), "seed {seed}");
    }
}

#[test]
fn a_seed_decides_the_whole_night() {
    for seed in [3, 5] {
        let [one, other] = [(); 2].map(|()| play(seed, &plan(seed), Planted::Nothing));
        assert_eq!(one, other, "seed {seed}");
    }
}
