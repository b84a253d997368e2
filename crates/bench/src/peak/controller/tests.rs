//! The search against simulated queues whose knee is known, with the noise of a shared machine; and against targets that
//! misbehave. Seeded: a failure prints its seed.

use super::{CONTROL_SHARE, Controller, Ending, Load, Measurement, Outcome, Phase, Rules, Step};
use crate::load::choice::Random;
use crate::peak::judge::{Limits, Plan, Seen};
use crate::report::model::Verdict;

const LIMIT_US: u64 = 20_000;
const SEEDS: u64 = 40;
/// Some hundred times what the queue needs to forget its state, near its knee.
const TRIAL_S: f64 = 10.0;

fn rules() -> Rules {
    Rules {
        limits: Limits { p99_us: LIMIT_US, lost_share: 0.001 },
        plan: Plan::FULL,
        precision: 1.05,
        rate_min: 1.0,
        rate_max: 1e6,
        invalid_max: 3,
        spoiled_max: 3,
        candidates_max: 6,
        rechecks_max: 2,
        probes_max: 10,
        measurements_max: 600,
    }
}

/// Above 0, at most 1.
fn unit(random: &mut Random) -> f64 {
    random.unit() + 1.0 / (1_u64 << 53) as f64
}

fn exponential(random: &mut Random, mean: f64) -> f64 {
    -mean * unit(random).ln()
}

fn normal(random: &mut Random) -> f64 {
    (-2.0 * unit(random).ln()).sqrt() * (std::f64::consts::TAU * unit(random)).cos()
}

#[derive(Debug, Clone, Copy)]
enum Service {
    Exponential,
    Constant,
}

/// Poisson arrivals, one line, `servers` that take `1 / per_s` seconds on average.
#[derive(Debug, Clone, Copy)]
struct Queue {
    service: Service,
    servers: usize,
    per_s: f64,
}

impl Queue {
    const MM1: Self = Self { service: Service::Exponential, servers: 1, per_s: 1000.0 };
    const MD2: Self = Self { service: Service::Constant, servers: 2, per_s: 400.0 };

    /// The p99 of the response time in microseconds; the first tenth is warm-up.
    fn p99_us(self, arrivals_per_s: f64, seconds: f64, random: &mut Random) -> (f64, u64) {
        let (mut now, mut free) = (0.0, vec![0.0_f64; self.servers]);
        let mut times = Vec::new();
        while now < seconds {
            now += exponential(random, 1.0 / arrivals_per_s);
            let service = match self.service {
                Service::Exponential => exponential(random, 1.0 / self.per_s),
                Service::Constant => 1.0 / self.per_s,
            };
            let next = (0..free.len()).min_by(|a, b| free[*a].total_cmp(&free[*b])).unwrap();
            free[next] = free[next].max(now) + service;
            if now > seconds / 10.0 {
                times.push(free[next] - now);
            }
        }
        let asked = times.len() as u64;
        let at = times.len() * 99 / 100;
        let (_, p99, _) = times.select_nth_unstable_by(at, f64::total_cmp);
        (*p99 * 1e6, asked)
    }

    /// The highest rate within the limit. M/M/1 in closed form: the response time is exponential with the rate
    /// `per_s - arrivals`, so its p99 is `ln 100` of its mean. The other by long simulations.
    fn knee(self) -> f64 {
        if matches!(self.service, Service::Exponential) && self.servers == 1 {
            return self.per_s - 100_f64.ln() / (LIMIT_US as f64 / 1e6);
        }
        let (mut low, mut high) = (1.0, self.per_s * self.servers as f64);
        for step in 0..9 {
            let middle = (low + high) / 2.0;
            let (p99, _) = self.p99_us(middle, 400.0, &mut Random::new(step));
            *(if p99 <= LIMIT_US as f64 { &mut low } else { &mut high }) = middle;
        }
        low
    }
}

/// A machine of one's own, or one with neighbours.
#[derive(Debug, Clone, Copy)]
struct Noise {
    /// Of every p99, as a share.
    sigma: f64,
    /// How often a trial is spoiled, and by how much.
    outliers: f64,
    outlier_factor: f64,
}

const QUIET: Noise = Noise { sigma: 0.0, outliers: 0.0, outlier_factor: 1.0 };
const NOISY: Noise = Noise { sigma: 0.05, outliers: 0.05, outlier_factor: 8.0 };

/// Runs a whole search; `measure` is the target and the generator in one.
fn search(rules: Rules, mut measure: impl FnMut(Load, Phase) -> Measurement) -> (Outcome, Controller) {
    let mut controller = Controller::new(rules);
    for _ in 0..=rules.measurements_max {
        match controller.next() {
            Step::Done(outcome) => return (outcome, controller),
            Step::Measure { load, phase } => controller.observe(measure(load, phase)),
        }
    }
    panic!("the search does not end");
}

fn seen(p99_us: u64, asked: u64, lost: u64) -> Measurement {
    Measurement::Valid(Seen { p99_us, asked, lost, good_per_s: (asked - lost) as f64 })
}

fn micros(us: f64) -> u64 {
    u64::try_from(std::time::Duration::from_secs_f64(us / 1e6).as_micros()).unwrap()
}

fn search_queue(queue: Queue, noise: Noise, seconds: f64, seed: u64) -> Outcome {
    let mut random = Random::new(seed);
    let (outcome, controller) = search(rules(), |load, _| {
        let Load::Open { per_s } = load else {
            let good_per_s = queue.per_s * queue.servers as f64 * (1.0 + noise.sigma * normal(&mut random));
            return Measurement::Valid(Seen { p99_us: 50, asked: 5000, lost: 0, good_per_s });
        };
        let (p99_us, asked) = queue.p99_us(per_s, seconds, &mut random);
        let spoiled = if unit(&mut random) < noise.outliers { noise.outlier_factor } else { 1.0 };
        let p99_us = p99_us * (noise.sigma * normal(&mut random)).exp() * spoiled;
        seen(micros(p99_us), asked, 0)
    });
    for point in &controller.curve {
        assert!(!point.measurements.is_empty(), "{point:?}");
    }
    outcome
}

/// Over many seeds: near the truth, and not above it. A load whose median lies at the limit passes twice with the
/// probability `false_pass` squared, so a few land just above the knee; none lands where a long simulation fails.
fn check_queue(queue: Queue, noise: Noise) {
    let knee = queue.knee();
    let mut above = 0;
    for seed in 0..SEEDS {
        let outcome = search_queue(queue, noise, TRIAL_S, seed);
        assert!(outcome.confirmed, "seed {seed}: {outcome:?}, the knee is at {knee}");
        let found = outcome.highest_passed.unwrap();
        assert!((0.9..=1.01).contains(&(found / knee)), "seed {seed}: {outcome:?}, the knee is at {knee}");
        let ratio = outcome.lowest_failed.unwrap() / found;
        assert!(ratio > 1.0 && ratio < 1.0501, "seed {seed}: {outcome:?}");
        assert_eq!(outcome.recovered, Some(true), "seed {seed}: {outcome:?}");
        above += u64::from(found > knee);
        let (p99_us, _) = queue.p99_us(found * 0.98, 200.0, &mut Random::new(!seed));
        assert!(p99_us <= LIMIT_US as f64, "seed {seed}: {found} of {knee}: {p99_us} us");
    }
    assert!(above * 10 <= SEEDS, "{above} of {SEEDS} are above the knee at {knee}");
}

#[test]
fn mm1_on_a_quiet_machine() {
    check_queue(Queue::MM1, QUIET);
}

#[test]
fn mm1_beside_noisy_neighbours() {
    check_queue(Queue::MM1, NOISY);
}

#[test]
fn md2_beside_noisy_neighbours() {
    check_queue(Queue::MD2, NOISY);
}

#[test]
fn a_target_that_carries_everything_is_limited_by_the_generator() {
    let rules = Rules { rate_max: 7000.0, ..rules() };
    let (outcome, controller) = search(rules, |_, _| seen(100, 3000, 0));
    assert_eq!((outcome.highest_passed, outcome.lowest_failed), (Some(7000.0), None));
    assert_eq!(outcome.ending, Ending::GeneratorCeiling { per_s: 7000.0 });
    assert!(outcome.confirmed && outcome.recovered == Some(true));
    let phases: Vec<_> = controller.curve.iter().map(|point| point.phase).collect();
    assert!(phases.ends_with(&[Phase::Bracket, Phase::Control, Phase::Confirm]), "{phases:?}");
}

#[test]
fn a_target_that_carries_nothing_has_no_peak() {
    for measurement in [seen(LIMIT_US + 1, 1000, 0), seen(10, 1000, 1000)] {
        let (outcome, controller) = search(rules(), |_, _| measurement);
        assert_eq!((outcome.highest_passed, outcome.lowest_failed), (None, Some(1.0)));
        assert_eq!((outcome.ending, outcome.confirmed), (Ending::NothingPasses, false));
        assert!(controller.curve.iter().all(|point| point.verdict == Verdict::Fail));
    }
}

#[test]
fn a_target_that_flaps_never_passes_by_luck() {
    for period in [2, 3, 4] {
        let mut count = 0;
        let (outcome, _) = search(rules(), |_, _| {
            count += 1;
            seen(if count % period == 0 { LIMIT_US * 4 } else { 10 }, 3000, 0)
        });
        // Every second trial fails, then every third, every fourth: with one in four an order-statistic of 11 trials
        // may still pass, and then the median is within the limit.
        assert!(period == 4 || outcome.highest_passed.is_none(), "{period}: {outcome:?}");
    }
}

#[test]
fn errors_limit_the_load_where_latency_does_not() {
    let (outcome, _) = search(rules(), |load, _| match load {
        Load::Closed => seen(10, 5000, 0),
        Load::Open { per_s } => seen(10, 10_000, if per_s > 3000.0 { 200 } else { 0 }),
    });
    let found = outcome.highest_passed.unwrap();
    assert!((3000.0 / 1.051..=3000.0).contains(&found) && outcome.confirmed, "{outcome:?}");
}

#[test]
fn trials_that_the_generator_spoiled_are_tried_again_and_then_end_the_search() {
    // Every third trial is spoiled: the answer is the same.
    let mut count = 0;
    let knee = |per_s: f64| seen(if per_s > 3000.0 { LIMIT_US * 2 } else { 10 }, 3000, 0);
    let (outcome, _) = search(Rules { invalid_max: 8, ..rules() }, |load, _| {
        count += 1;
        match load {
            _ if count % 3 == 0 => Measurement::Invalid,
            Load::Closed => seen(10, 2000, 0),
            Load::Open { per_s } => knee(per_s),
        }
    });
    assert!((0.95..=1.0).contains(&(outcome.highest_passed.unwrap() / 3000.0)), "{outcome:?}");
    // Above some rate all are: the highest that passed below it is confirmed, and nothing is said about more.
    let (outcome, controller) = search(rules(), |load, _| match load {
        Load::Closed => seen(10, 1000, 0),
        Load::Open { per_s } if per_s > 900.0 => Measurement::Invalid,
        Load::Open { .. } => seen(10, 3000, 0),
    });
    assert_eq!((outcome.highest_passed, outcome.lowest_failed), (Some(750.0), None));
    assert!(outcome.confirmed && outcome.ending == Ending::GeneratorInvalid { per_s: 937.5 }, "{outcome:?}");
    let invalid = controller.curve.iter().find(|point| point.verdict == Verdict::Invalid).unwrap();
    assert_eq!((invalid.per_s, invalid.measurements.len()), (937.5, 4));
    // From the first load on: the search goes on below it.
    let (outcome, _) = search(rules(), |load, _| match load {
        Load::Closed => seen(10, 1000, 0),
        Load::Open { per_s } if per_s > 500.0 => Measurement::Invalid,
        Load::Open { .. } => seen(10, 3000, 0),
    });
    assert_eq!((outcome.highest_passed, outcome.lowest_failed), (Some(450.0), None));
    assert!(outcome.confirmed && outcome.ending == Ending::GeneratorInvalid { per_s: 562.5 }, "{outcome:?}");
    // Only the closed loop: the search begins at a guess, and finds the same.
    let mut first = None;
    let (outcome, _) = search(Rules { rate_max: 10_000.0, ..rules() }, |load, _| match load {
        Load::Closed => Measurement::Invalid,
        Load::Open { per_s } => {
            first.get_or_insert(per_s);
            knee(per_s)
        }
    });
    assert_eq!((outcome.closed_loop, first), (None, Some(100.0)));
    assert!((0.95..=1.0).contains(&(outcome.highest_passed.unwrap() / 3000.0)), "{outcome:?}");
    // All of them, the closed loop too: there is no answer.
    let (outcome, _) = search(rules(), |_, _| Measurement::Invalid);
    assert_eq!((outcome.highest_passed, outcome.confirmed), (None, false));
    assert!(matches!(outcome.ending, Ending::GeneratorInvalid { .. }), "{outcome:?}");
}

#[test]
fn a_generator_that_is_late_at_every_rate_is_given_up_soon() {
    for carried in [None, Some(900.0)] {
        let (mut measured, mut least) = (0, f64::MAX);
        let (outcome, controller) = search(rules(), |load, _| {
            measured += 1;
            match load {
                Load::Closed => seen(10, 2000, 0),
                Load::Open { per_s } if carried.is_some_and(|carried| per_s > carried) => {
                    seen(LIMIT_US * 2, 3000, 0)
                }
                Load::Open { per_s } => {
                    least = least.min(per_s);
                    Measurement::Invalid
                }
            }
        });
        assert_eq!((outcome.highest_passed, outcome.confirmed), (None, false));
        assert!(matches!(outcome.ending, Ending::GeneratorInvalid { .. }), "{outcome:?}");
        let spoiled = controller.curve.iter().filter(|point| point.verdict == Verdict::Invalid).count();
        assert!(spoiled == 3 && measured < 20 && least > 100.0, "{carried:?}: {measured}, {least}");
    }
}

#[test]
fn a_machine_that_changed_confirms_nothing() {
    let (outcome, _) = search(rules(), |load, phase| match (load, phase) {
        (Load::Closed, _) => seen(10, 5000, 0),
        (_, Phase::Confirm | Phase::Control) => seen(LIMIT_US * 3, 3000, 0),
        (Load::Open { per_s }, _) => seen(if per_s > 3000.0 { LIMIT_US * 2 } else { 10 }, 3000, 0),
    });
    assert_eq!((outcome.ending, outcome.confirmed), (Ending::ControlFailed, false));
}

#[test]
fn a_peak_that_passed_by_luck_is_taken_back() {
    // Half of what the search sees is carried when it is confirmed; the control load always is.
    let mut asked = Vec::new();
    let (outcome, _) = search(rules(), |load, phase| match (load, phase) {
        (Load::Closed, _) => seen(10, 5000, 0),
        (Load::Open { per_s }, Phase::Confirm | Phase::Recheck) => {
            asked.push(per_s);
            seen(if per_s > 2500.0 { LIMIT_US * 2 } else { 10 }, 3000, 0)
        }
        (Load::Open { per_s }, _) => seen(if per_s > 3000.0 { LIMIT_US * 2 } else { 10 }, 3000, 0),
    });
    let found = outcome.highest_passed.unwrap();
    assert!(outcome.confirmed && found <= 2500.0 && found > 2500.0 / 1.051, "{outcome:?}");
    assert!(outcome.lowest_failed.unwrap() / found < 1.0501, "{outcome:?}");
    assert!(asked.windows(2).all(|pair| pair[1] <= pair[0] * 1.06), "{asked:?}");
}

/// The confirmation fails at the load that passed in the search, and then, at the candidate below it, something else
/// ends the search: that candidate never passed, and must not be reported.
#[test]
fn a_candidate_is_not_reported_before_it_passed() {
    let passes = |per_s: f64| seen(if per_s > 3000.0 { LIMIT_US * 2 } else { 10 }, 3000, 0);
    for (what, ending) in
        [("invalid", "GeneratorInvalid"), ("control", "ControlFailed"), ("cut off", "Exhausted")]
    {
        let mut measurements = 0;
        let mut failed = None;
        let mut run = |measurements_max| {
            measurements = 0;
            failed = None;
            search(Rules { measurements_max, ..rules() }, |load, phase| {
                measurements += 1;
                let Load::Open { per_s } = load else { return seen(10, 5000, 0) };
                match phase {
                    Phase::Confirm if failed.is_none_or(|failed| per_s >= failed) => {
                        failed = Some(per_s);
                        seen(LIMIT_US * 2, 3000, 0)
                    }
                    Phase::Confirm if what == "invalid" => Measurement::Invalid,
                    Phase::Control if what == "control" && failed.is_some() => seen(LIMIT_US * 2, 3000, 0),
                    _ => passes(per_s),
                }
            })
        };
        let (_, whole) = run(600);
        let refuted = whole.curve.iter().find(|point| point.phase == Phase::Confirm).unwrap();
        // A measurement after the verdict on the first candidate.
        let cut = refuted.measurements.last().unwrap() + 3;
        let (outcome, controller) = run(if what == "cut off" { cut } else { 600 });
        assert!(format!("{:?}", outcome.ending).starts_with(ending), "{what}: {outcome:?}");
        assert!(!outcome.confirmed, "{what}: {outcome:?}");
        let reported = outcome.highest_passed.unwrap();
        assert!(reported < outcome.lowest_failed.unwrap(), "{what}: {outcome:?}");
        let passed = |at: f64| {
            controller.curve.iter().any(|point| point.per_s == at && point.verdict == Verdict::Pass)
        };
        assert!(passed(reported), "{what}: {outcome:?} of {:?}", controller.curve);
    }
}

#[test]
fn a_control_load_is_judged_like_any_other() {
    let over = |over: bool| seen(if over { LIMIT_US * 2 } else { 10 }, 3000, 0);
    // By the load above which the candidate fails: at once, or never. After three trials of the one that fails for
    // certain, three of the control load say nothing yet.
    for (spoiled, carried, wanted) in [
        (false, 3000.0, (Verdict::Pass, 5)),
        (false, 2500.0, (Verdict::Undecided, 3)),
        (true, 3000.0, (Verdict::Invalid, 4)),
    ] {
        let (_, controller) = search(rules(), |load, phase| match (load, phase) {
            (Load::Closed, _) => seen(10, 5000, 0),
            (_, Phase::Control) if spoiled => Measurement::Invalid,
            (Load::Open { per_s }, Phase::Confirm) => over(per_s > carried),
            (Load::Open { per_s }, _) => over(per_s > 3000.0),
        });
        let first = controller.curve.iter().find(|point| point.phase == Phase::Control).unwrap();
        assert_eq!((first.verdict, first.measurements.len()), wanted);
    }
}

#[test]
fn overload_and_recovery_are_bounded_and_reported() {
    let mut overloads = Vec::new();
    let mut probes = Vec::new();
    let (outcome, _) = search(rules(), |load, phase| match (load, phase) {
        (Load::Closed, _) => seen(10, 5000, 0),
        (Load::Open { per_s }, Phase::Overload) => {
            overloads.push(per_s);
            seen(LIMIT_US * 50, 3000, 1000)
        }
        (Load::Open { per_s }, Phase::Recover) => {
            probes.push(per_s);
            seen(if probes.len() < 4 { LIMIT_US * 2 } else { 10 }, 300, 0)
        }
        (Load::Open { per_s }, _) => seen(if per_s > 3000.0 { LIMIT_US * 2 } else { 10 }, 3000, 0),
    });
    let peak = outcome.highest_passed.unwrap();
    assert_eq!((overloads, probes), (vec![peak * 2.0], vec![peak * CONTROL_SHARE; 4]));
    assert_eq!(outcome.recovered, Some(true));
    // One that never recovers ends too.
    let (outcome, _) = search(rules(), |load, phase| match (load, phase) {
        (Load::Closed, _) => seen(10, 5000, 0),
        (_, Phase::Overload | Phase::Recover) => seen(LIMIT_US * 50, 3000, 1000),
        (Load::Open { per_s }, _) => seen(if per_s > 3000.0 { LIMIT_US * 2 } else { 10 }, 3000, 0),
    });
    assert_eq!((outcome.confirmed, outcome.recovered), (true, Some(false)));
}

#[test]
fn a_search_that_is_cut_off_says_so() {
    let (outcome, _) = search(Rules { measurements_max: 9, ..rules() }, |_, _| seen(10, 3000, 0));
    assert_eq!((outcome.ending, outcome.confirmed), (Ending::Exhausted, false));
}
