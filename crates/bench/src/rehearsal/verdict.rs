//! What a rehearsal says of the real sale: a rate that may be relied upon, or why there is none. Pure.

use std::time::Duration;

use super::Rehearsed;
use crate::load::Trial;
use crate::load::trial::{Flag, Second};
use crate::report::format::figure;
use crate::report::verdict::{SAMPLE_MIN_REQUESTS, SAMPLE_MIN_S};

/// A server that answers one of a hundred buyers later than this is at its limit.
pub const PATIENCE: Duration = Duration::from_secs(1);
/// So late the crowd itself may be: times count from when a buyer was to come, so that a late crowd makes a server look slower,
/// never faster; and of the second in which a rate is counted it is a part.
const CROWD_LATE_MAX: Duration = Duration::from_millis(250);
/// Of the measured rate, for admission. A rehearsal has neither pages nor TLS, its payments follow its crowd, and one
/// crowd is one sample: a fifth is left to them.
const ADMITTED_SHARE: f64 = 0.8;

/// A second in which the stock ended has a rate only until then, and none if that is less: a batch more or less would change it.
const PART_MIN_S: f64 = 0.25;

/// Of what admission lets through: from here on it, and not the server, set the best second's rate.
const ADMISSION_REACHED: f64 = 0.9;

#[derive(Debug, Clone, PartialEq)]
pub struct Finding {
    pub sentence: String,
    /// `None`: it can't be measured.
    pub carried: Option<Carried>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Carried {
    /// Orders accepted in the best second, or per second in the part of it until the stock ended.
    pub orders_per_s: u64,
    /// The crowd was not the limit's match: more may be possible.
    pub at_least: bool,
    /// Advice for `admission.orders_per_s`; none from a rate that is no limit.
    pub admission_orders_per_s: Option<u64>,
}

/// Of one whose audit was clean.
pub fn of(rehearsed: &Rehearsed) -> Finding {
    let trial = &rehearsed.trial;
    if let Some(why) = unreliable(trial) {
        return Finding { sentence: format!("{why} The audit is clean."), carried: None };
    }
    let sold_out_s = sold_out_s(rehearsed);
    let Some(best) = best(trial, sold_out_s) else {
        let sentence = "No order was accepted, so there is no rate to tell; the audit is clean.".to_owned();
        return Finding { sentence, carried: None };
    };
    let admitted = rehearsed.admitted_per_s as f64 * ADMISSION_REACHED;
    let by_admission = admitted > 0.0 && best.orders_per_s as f64 >= admitted;
    let at_least = by_admission || best.by_stock || !reached_limit(trial);
    let admission_orders_per_s = (!at_least).then(|| share(best.orders_per_s)).filter(|rate| *rate > 0);
    let carried = Carried { orders_per_s: best.orders_per_s, at_least, admission_orders_per_s };
    Finding { sentence: sentence(carried, trial, sold_out_s), carried: Some(carried) }
}

fn sentence(carried: Carried, trial: &Trial, sold_out_s: Option<f64>) -> String {
    let at_least = if carried.at_least { "at least " } else { "" };
    let rate = figure(carried.orders_per_s as f64, "");
    let p99 = figure(trial.response.at(0.99) as f64, "us");
    let sold_out = sold_out_s.map(|at| format!(", sold out after {}", figure(at, "s"))).unwrap_or_default();
    let advice = match carried.admission_orders_per_s {
        Some(rate) => format!("set admission to {} orders/s", figure(rate as f64, "")),
        None => "this crowd did not reach the server's limit".to_owned(),
    };
    format!("Carries {at_least}{rate} orders/s at a p99 of {p99}{sold_out}, audit clean; {advice}.")
}

/// Why its figures are no promise. That the cap of requests under way was reached is none of the reasons: times count
/// from when a buyer came, and so many without an answer are the server's doing.
fn unreliable(trial: &Trial) -> Option<String> {
    let requests = trial.outcomes.total();
    if requests < SAMPLE_MIN_REQUESTS || trial.seconds < SAMPLE_MIN_S {
        return Some(format!(
            "Too small a crowd to tell: {} requests in {}, and a rate needs {} in {SAMPLE_MIN_S:.0} s.",
            figure(requests as f64, ""),
            figure(trial.seconds, "s"),
            figure(SAMPLE_MIN_REQUESTS as f64, "")
        ));
    }
    // Other work first: it is why a crowd is late.
    let (disturbed, others): (Vec<&Flag>, Vec<&Flag>) =
        trial.flags.iter().partition(|flag| matches!(flag, Flag::Disturbed { .. }));
    disturbed.into_iter().chain(others).find_map(|flag| unreliable_by(flag, trial))
}

fn unreliable_by(flag: &Flag, trial: &Trial) -> Option<String> {
    match flag {
        Flag::Disturbed { processors, .. } => {
            let all = trial.usage.as_ref().map_or(1, |usage| usage.processors.max(1));
            let share = processors / all as f64 * 100.0;
            Some(format!("This machine was too busy to tell: other work took {share:.0}% of the processors."))
        }
        Flag::SendLag { p99_us, .. } if u128::from(*p99_us) <= CROWD_LATE_MAX.as_micros() => None,
        Flag::SendLag { p99_us, .. } => Some(format!(
            "This machine was too busy to tell: the crowd itself was late by {} (p99).",
            figure(*p99_us as f64, "us")
        )),
        Flag::Unsent { requests } => Some(format!(
            "The server answered too little to tell: {} requests could not be sent.",
            figure(*requests as f64, "")
        )),
        other if other.invalidates() && !matches!(other, Flag::InFlightCap { .. }) => {
            Some(format!("The load can't be believed: {other:?}."))
        }
        _ => None,
    }
}

fn reached_limit(trial: &Trial) -> bool {
    // What the crowd was late by is none of the server's.
    let late =
        u128::from(trial.response.at(0.99).saturating_sub(crowd_late_us(trial))) > PATIENCE.as_micros();
    late || trial.outcomes.busy > 0 || trial.flags.iter().any(|flag| matches!(flag, Flag::InFlightCap { .. }))
}

/// 0: as little as always.
pub(super) fn crowd_late_us(trial: &Trial) -> u64 {
    let late = |flag: &Flag| match flag {
        Flag::SendLag { p99_us, .. } => Some(*p99_us),
        _ => None,
    };
    trial.flags.iter().find_map(late).unwrap_or_default()
}

struct Best {
    orders_per_s: u64,
    /// The stock ended in it, too early for a rate: it may be more.
    by_stock: bool,
}

/// The whole second with the highest rate: the part of one at the end has none.
fn best(trial: &Trial, sold_out_s: Option<f64>) -> Option<Best> {
    let whole = |second: &&Second| second.at_s.fract() < 1e-6 && second.good > 0;
    let rated = |second: &Second| {
        let begins_s = second.at_s - 1.0;
        let part = sold_out_s.filter(|at| (begins_s..second.at_s).contains(at)).map(|at| at - begins_s);
        let by_stock = part.is_some_and(|part| part < PART_MIN_S);
        let lasted = part.filter(|part| *part >= PART_MIN_S).unwrap_or(1.0);
        Best { orders_per_s: rounded_down(second.good as f64 / lasted), by_stock }
    };
    // The first of several.
    trial.seconds_series.iter().rev().filter(whole).map(rated).max_by_key(|best| best.orders_per_s)
}

/// Seconds after the start, at which the last order was accepted.
pub(super) fn sold_out_s(rehearsed: &Rehearsed) -> Option<f64> {
    rehearsed.trial.last_good_s.filter(|_| rehearsed.left == 0)
}

/// Rounded down.
fn share(per_s: u64) -> u64 {
    rounded_down(per_s as f64 * ADMITTED_SHARE)
}

/// A rate that was measured fits.
fn rounded_down(rate: f64) -> u64 {
    Duration::try_from_secs_f64(rate).map_or(0, |rate| rate.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::record::Record;
    use crate::load::schedule::Schedule;

    /// Three seconds in which so many orders were accepted, the last one after so many.
    fn rehearsed(good: [u64; 3], left: u64, last_good_s: f64) -> Rehearsed {
        let schedule = Schedule::constant(1.0, Duration::from_secs(3));
        let mut trial = Trial::new(1, &schedule, &Record::default(), None);
        (trial.seconds, trial.last_good_s) = (3.0, Some(last_good_s));
        (trial.outcomes.won, trial.outcomes.sold_out) = (good.iter().sum(), 20_000);
        trial.seconds_series = good
            .iter()
            .zip([1.0, 2.0, 3.0])
            .map(|(&good, at_s)| Second {
                at_s,
                good,
                refused: 0,
                bad: 0,
                p50_us: 0,
                p99_us: 0,
                in_flight: 0,
            })
            .collect();
        Rehearsed { trial, units: 100_000, left, paying: None, admitted_per_s: 0 }
    }

    fn check(rehearsed: &Rehearsed, sentence: &str) {
        assert_eq!(of(rehearsed).sentence, sentence);
    }

    #[test]
    fn a_rate_is_a_limit_only_if_the_server_was_at_its_limit() {
        let mut of_stock = rehearsed([5000, 9000, 10], 7, 2.5);
        check(
            &of_stock,
            "Carries at least 9,000 orders/s at a p99 of 0 us, audit clean; this crowd did not reach the server's limit.",
        );
        of_stock.trial.outcomes.busy = 1;
        check(
            &of_stock,
            "Carries 9,000 orders/s at a p99 of 0 us, audit clean; set admission to 7,200 orders/s.",
        );
        of_stock.admitted_per_s = 9500;
        check(
            &of_stock,
            "Carries at least 9,000 orders/s at a p99 of 0 us, audit clean; this crowd did not reach the server's limit.",
        );
        (of_stock.left, of_stock.admitted_per_s) = (0, 0);
        check(
            &of_stock,
            "Carries 9,000 orders/s at a p99 of 0 us, sold out after 2.50 s, audit clean; set admission to 7,200 orders/s.",
        );
    }

    #[test]
    fn a_second_in_which_the_stock_ends_has_the_rate_until_then() {
        let says = |good, last_good_s, says: &str| {
            let mut rehearsed = rehearsed(good, 0, last_good_s);
            rehearsed.trial.flags.push(Flag::InFlightCap { cap: 7, times: 9 });
            check(&rehearsed, says);
        };
        says(
            [500, 0, 0],
            0.2,
            "Carries at least 500 orders/s at a p99 of 0 us, sold out after 200 ms, audit clean; this crowd did not reach the server's limit.",
        );
        says(
            [7200, 0, 0],
            0.4,
            "Carries 18,000 orders/s at a p99 of 0 us, sold out after 400 ms, audit clean; set admission to 14,400 orders/s.",
        );
        // Nothing is said of the end of a second that was not the best.
        says(
            [9000, 500, 0],
            1.125,
            "Carries 9,000 orders/s at a p99 of 0 us, sold out after 1.12 s, audit clean; set admission to 7,200 orders/s.",
        );
        says(
            [5000, 6000, 0],
            1.5,
            "Carries 12,000 orders/s at a p99 of 0 us, sold out after 1.50 s, audit clean; set admission to 9,600 orders/s.",
        );
    }

    #[test]
    fn what_the_crowd_is_late_by_is_none_of_the_server() {
        let mut late = rehearsed([5000, 9000, 10], 7, 2.5);
        late.trial.flags.push(Flag::SendLag { p99_us: 200_000, most_us: 1 });
        for (p99_us, at_least) in [(1_199_000, true), (1_202_000, false)] {
            let mut times = hdrhistogram::Histogram::<u64>::new(4).unwrap();
            times.record(p99_us).unwrap();
            late.trial.response = crate::load::distribution::Distribution::of(&times);
            assert_eq!(of(&late).carried.map(|carried| carried.at_least), Some(at_least), "{p99_us}");
        }
    }

    #[test]
    fn what_can_not_be_believed_is_no_promise() {
        let sentence_with = |flag: Flag| {
            let mut rehearsed = rehearsed([5000, 9000, 10], 7, 2.5);
            rehearsed.trial.flags.push(flag);
            let finding = of(&rehearsed);
            assert_eq!(finding.carried, None, "{finding:?}");
            finding.sentence
        };
        assert!(
            sentence_with(Flag::Disturbed { processors: 0.27, most: 0.25 }).contains("other work took 27%")
        );
        assert!(sentence_with(Flag::SendLag { p99_us: 250_001, most_us: 1 }).contains("late by 250 ms"));
        assert!(sentence_with(Flag::Unsent { requests: 3 }).contains("3 requests could not be sent"));
        assert!(sentence_with(Flag::Stray { answers: 3 }).contains("can't be believed"));
        let mut small = rehearsed([50, 0, 0], 7, 0.5);
        small.trial.outcomes.sold_out = 0;
        assert!(of(&small).sentence.starts_with("Too small a crowd to tell: 50 requests in 3 s"));
        assert!(of(&rehearsed([0; 3], 7, 0.0)).sentence.starts_with("No order was accepted"));
    }
}
