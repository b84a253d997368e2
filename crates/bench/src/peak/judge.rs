//! Whether a load is carried within the limits: the statistics of repeated trials. Pure.
//!
//! **Latency.** A trial is over the limit or it is not; nothing is assumed of how its p99 is distributed, and one
//! trial that a neighbour spoiled has one vote, however bad it was. What is tested is the *median* of the trials' p99,
//! by its order-statistic interval: of `n` trials the one with `f` trials above it bounds the median from above, and
//! misses it with the probability that a fair coin shows at most `f` tails in `n` throws. A [`Plan`] says after
//! which trials to look, and how many may have been over. Looking several times adds up; [`Plan::false_pass`] is
//! the exact chance that a load whose median lies *at* the limit passes, counted over all sequences: 6.3% for the full
//! plan, 17% for the quick one. For a load that is really over the limit it is less, and a load must pass twice
//! (the search and the confirmation are judged on trials of their own) to be reported.
//!
//! **Requests that were not carried.** A trial with a larger share of them than the limit is over it, as above: bursts
//! make the requests of one trial depend on each other, so trials are what is counted. Besides, the share of all
//! trials together must be within the limit by the upper end of its Wilson interval (95%, one-sided); with none
//! lost in fewer requests than could ever show that, it counts as within.
//!
//! **Undecided** is what neither passed nor certainly failed when no look is left. It counts as failed: the search
//! then errs to the safe side.

use crate::report::model::Verdict;
use crate::report::statistics::binomial_half;

/// The standard normal quantile of 95%, one-sided.
const Z: f64 = 1.644_853_6;
/// A load failed for certain, and is not just undecided, if a median within the limit would show as many trials over
/// it with at most this probability. Two of two do: a false failure costs speed, and is on the safe side.
const FAIL_P_MAX: f64 = 0.25;
/// The chance to miss the median that an interval's end may have.
const MISS_P_MAX: f64 = 0.125;

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Limits {
    /// Of the response time.
    pub p99_us: u64,
    /// Requests that were not carried, among all, 0 to 1.
    pub lost_share: f64,
}

/// The result of one valid trial.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Seen {
    pub p99_us: u64,
    /// Requests that were due.
    pub asked: u64,
    /// Those that were refused, failed, have an unknown outcome, or were never answered.
    pub lost: u64,
    pub good_per_s: f64,
}

/// After how many trials a load may pass, and how many of them may be over the limit then. Ascending in both.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Plan {
    pub looks: &'static [(usize, usize)],
}

impl Plan {
    pub const FULL: Self = Self { looks: &[(5, 0), (8, 1), (11, 2)] };
    /// For a first impression.
    pub const QUICK: Self = Self { looks: &[(3, 0), (6, 1)] };

    pub fn trials_max(self) -> usize {
        self.looks.last().map_or(0, |(trials, _)| *trials)
    }

    /// More over the limit than these, and the load can't pass any more.
    fn over_max(self) -> usize {
        self.looks.last().map_or(0, |(_, over)| *over)
    }

    fn is_look(self, trials: usize, over: usize) -> bool {
        self.looks.iter().any(|(at, most)| *at == trials && over <= *most)
    }

    /// The chance that a load passes of which each trial is over the limit with probability `over`; exactly.
    pub fn passes(self, over: f64) -> f64 {
        // alive[k]: the probability that no decision was made yet and k trials were over the limit.
        let mut alive = vec![0.0; self.over_max() + 2];
        alive[0] = 1.0;
        let mut passed = 0.0;
        for trial in 1..=self.trials_max() {
            for count in (0..alive.len()).rev() {
                let from_below = if count > 0 { alive[count - 1] * over } else { 0.0 };
                alive[count] = alive[count] * (1.0 - over) + from_below;
            }
            // The last place is "too many": that load has failed.
            alive[self.over_max() + 1] = 0.0;
            for (count, chance) in alive.iter_mut().enumerate() {
                if self.is_look(trial, count) {
                    passed += std::mem::take(chance);
                }
            }
        }
        passed
    }

    /// The chance that a load passes whose median lies at the limit.
    pub fn false_pass(self) -> f64 {
        self.passes(0.5)
    }
}

impl Seen {
    pub fn is_over(&self, limits: Limits) -> bool {
        self.p99_us > limits.p99_us || self.lost as f64 > self.asked as f64 * limits.lost_share
    }
}

/// The verdict on a load, once there is one.
pub fn judge(trials: &[Seen], limits: Limits, plan: Plan) -> Option<Verdict> {
    let over = trials.iter().filter(|trial| trial.is_over(limits)).count();
    if over > plan.over_max() {
        let certain = at_least(over, trials.len()) <= FAIL_P_MAX;
        return Some(if certain { Verdict::Fail } else { Verdict::Undecided });
    }
    let (lost, asked) = trials.iter().fold((0, 0), |(lost, asked), of| (lost + of.lost, asked + of.asked));
    if plan.is_look(trials.len(), over) && share_is_within(lost, asked, limits.lost_share) {
        return Some(Verdict::Pass);
    }
    (trials.len() >= plan.trials_max()).then_some(Verdict::Undecided)
}

/// The order-statistic interval of the median of the trials' p99: as narrow as their number allows with at most 1/8
/// of missing it on each side; their least and their largest where not even these do.
pub fn median_interval(trials: &[Seen]) -> Option<(u64, u64)> {
    let mut p99s: Vec<u64> = trials.iter().map(|trial| trial.p99_us).collect();
    p99s.sort_unstable();
    let count = p99s.len();
    let cut = (0..count / 2).take_while(|cut| at_least(count - cut, count) <= MISS_P_MAX).last().unwrap_or(0);
    Some((*p99s.get(cut)?, p99s[count - 1 - cut]))
}

/// The chance of at least `heads` heads in `throws` throws of a fair coin.
fn at_least(heads: usize, throws: usize) -> f64 {
    (heads..=throws).map(|heads| binomial_half(throws, heads)).sum()
}

fn share_is_within(lost: u64, asked: u64, limit: f64) -> bool {
    let decidable = asked as f64 * limit >= Z * Z * (1.0 - limit);
    if lost == 0 && !decidable { true } else { wilson(lost, asked).1 <= limit }
}

/// The Wilson interval of a share, each end one-sided 95%.
fn wilson(hits: u64, of: u64) -> (f64, f64) {
    if of == 0 {
        return (0.0, 1.0);
    }
    let (hits, of) = (hits as f64, of as f64);
    let share = hits / of;
    let middle = (share + Z * Z / (2.0 * of)) / (1.0 + Z * Z / of);
    let half = Z / (1.0 + Z * Z / of) * (share * (1.0 - share) / of + Z * Z / (4.0 * of * of)).sqrt();
    ((middle - half).max(0.0), (middle + half).min(1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits { p99_us: 1000, lost_share: 0.001 };

    fn trial(p99_us: u64) -> Seen {
        Seen { p99_us, asked: 1000, lost: 0, good_per_s: 100.0 }
    }

    /// `.` is a trial within the limit, `x` one over it.
    fn verdict(trials: &str, plan: Plan) -> Option<Verdict> {
        let trials: Vec<_> = trials.chars().map(|of| trial(if of == 'x' { 1001 } else { 1000 })).collect();
        judge(&trials, LIMITS, plan)
    }

    #[test]
    fn verdicts() {
        for (trials, wanted) in [
            ("....", None),
            (".....", Some(Verdict::Pass)),
            ("x....", None),
            ("x.......", Some(Verdict::Pass)),
            ("xx......", None),
            ("xx.........", Some(Verdict::Pass)),
            ("xx", None),
            ("xxx", Some(Verdict::Fail)),
            ("x.xx", Some(Verdict::Undecided)),
            ("x.......x.x", Some(Verdict::Undecided)),
        ] {
            assert_eq!(verdict(trials, Plan::FULL), wanted, "{trials}");
        }
        assert_eq!(verdict("...", Plan::QUICK), Some(Verdict::Pass));
        assert_eq!(verdict("x.x", Plan::QUICK), Some(Verdict::Undecided));
    }

    /// By every sequence of trials, not by the recurrence that `passes` uses.
    #[test]
    fn the_chance_of_a_false_pass_is_what_the_module_says() {
        for (plan, wanted) in [(Plan::FULL, 0.063), (Plan::QUICK, 0.172)] {
            let length = plan.trials_max();
            let passing = (0..1_usize << length)
                .filter(|bits| {
                    let trials: Vec<_> =
                        (0..length).map(|at| trial(if bits >> at & 1 == 1 { 1001 } else { 1000 })).collect();
                    let first = (1..=length).find_map(|taken| judge(&trials[..taken], LIMITS, plan));
                    first == Some(Verdict::Pass)
                })
                .count();
            let share = passing as f64 / (1_usize << length) as f64;
            assert!((share - plan.false_pass()).abs() < 1e-12, "{share} and {}", plan.false_pass());
            assert!((share - wanted).abs() < 0.0005, "{plan:?}: {share}");
        }
    }

    #[test]
    fn requests_that_were_not_carried_fail_a_load_that_is_quick_enough() {
        let lossy = |lost| Seen { lost, ..trial(10) };
        assert_eq!(judge(&[lossy(2); 3], LIMITS, Plan::FULL), Some(Verdict::Fail));
        // One in a thousand is no larger share than the limit, and five thousand can't show that it is smaller.
        assert_eq!(judge(&[lossy(1); 5], LIMITS, Plan::FULL), None);
        assert_eq!(judge(&[lossy(1); 11], LIMITS, Plan::FULL), Some(Verdict::Undecided));
        // None in a few hundred requests is all that these can show.
        assert_eq!(judge(&[Seen { asked: 50, ..trial(10) }; 5], LIMITS, Plan::FULL), Some(Verdict::Pass));
        let many = Seen { asked: 100_000, lost: 60, ..trial(10) };
        assert_eq!(judge(&[many; 5], LIMITS, Plan::FULL), Some(Verdict::Pass));
    }

    /// Against figures of the published formula: 10 of 100 gives 6.0% and 16.1% at z = 1.645.
    #[test]
    fn wilson_intervals() {
        let (low, high) = wilson(10, 100);
        assert!((low - 0.0606).abs() < 0.001 && (high - 0.1606).abs() < 0.001, "{low} {high}");
        assert_eq!(wilson(0, 0), (0.0, 1.0));
        assert_eq!(wilson(0, 1000).0, 0.0);
    }

    #[test]
    fn the_interval_of_the_median_narrows_with_the_trials() {
        let trials: Vec<_> = (1..=11).map(|n| trial(n * 10)).collect();
        assert_eq!(median_interval(&trials[..1]), Some((10, 10)));
        assert_eq!(median_interval(&trials[..5]), Some((10, 50)));
        assert_eq!(median_interval(&trials), Some((40, 80)));
        assert_eq!(median_interval(&[]), None);
    }
}
