//! What the caller wants of the figures: `redis-threads/set, 50 threads:throughput>=40000`, judged after the run.
//!
//! Medians are judged. A threshold that names no case holds for each case that has the metric, and the worst is shown.
//! One whose figure was not measured is missed: silence is no success. So is one on the time of a case in which too many
//! requests were not carried: refusals are quick.

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

use indexmap::IndexSet;

use super::figures::{self, Figure};
use super::format;
use super::model::{Report, ThresholdResult};

#[derive(Debug, Clone, PartialEq)]
pub struct Threshold {
    text: String,
    pub scenario: String,
    pub case: Option<String>,
    pub metric: String,
    comparison: Comparison,
    bound: Bound,
}

/// On which side of the bound a median is to lie, and whether it may lie on it.
type Comparison = (Ordering, bool);

const COMPARISONS: [(&str, Comparison); 4] = [
    (">=", (Ordering::Greater, true)),
    ("<=", (Ordering::Less, true)),
    (">", (Ordering::Greater, false)),
    ("<", (Ordering::Less, false)),
];
/// A line is read by somebody.
const NAMES_MAX: usize = 12;

/// A time in microseconds, or a number in the metric's own unit.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Bound {
    TimeUs(f64),
    Number(f64),
}

impl FromStr for Threshold {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = |what: &str| format!("'{text}': {what}; write 'scenario[/case]:metric>=value'");
        // From the right: a case may be called anything, a value not.
        let at = text.rfind(['<', '>']).ok_or_else(|| wrong("no >=, <=, > or <"))?;
        let (named, rest) = text.split_at(at);
        let &(sign, comparison) = COMPARISONS
            .iter()
            .find(|(sign, _)| rest.starts_with(sign))
            .ok_or_else(|| wrong("no comparison"))?;
        // Also =< and ==>: whatever is before the sign can't be meant as the end of a name.
        if named.ends_with('=') {
            return Err(wrong(&format!("'={sign}' is no comparison, did you mean '{}='?", &rest[..1])));
        }
        let bound = bound(rest[sign.len()..].trim()).ok_or_else(|| wrong("the value is no number"))?;
        let (place, metric) = named.rsplit_once(':').ok_or_else(|| wrong("no ':' before the metric"))?;
        let (scenario, case) = place
            .split_once('/')
            .map_or((place, None), |(scenario, case)| (scenario, Some(case.trim().to_owned())));
        let (scenario, metric) = (scenario.trim(), metric.trim());
        if scenario.is_empty() || metric.is_empty() || case.as_deref() == Some("") {
            return Err(wrong("something is empty"));
        }
        match (bound, of_name(metric)) {
            (Bound::TimeUs(_), Some(Kind::Rate)) => {
                return Err(wrong(&format!("'{metric}' is a rate, and the value a time")));
            }
            (Bound::Number(_), Some(Kind::Time)) => {
                return Err(wrong(&format!("'{metric}' is a time, so the value needs a unit, such as 50ms")));
            }
            _ => {}
        }
        Ok(Self {
            text: text.to_owned(),
            scenario: scenario.to_owned(),
            case,
            metric: metric.to_owned(),
            comparison,
            bound,
        })
    }
}

/// What a metric's name says of it, before anything is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Rate,
    Time,
}

/// Ends the name of a time that is meant to count refusals and failures too.
pub const OF_ALL_ANSWERS: &str = " of all answers";

fn of_name(metric: &str) -> Option<Kind> {
    let bare = [" response", OF_ALL_ANSWERS].iter().find_map(|suffix| metric.strip_suffix(suffix));
    match bare.unwrap_or(metric) {
        "throughput" | "best throughput" | "highest passed" | "lowest failed" | "closed-loop maximum" => {
            Some(Kind::Rate)
        }
        "p50" | "p95" | "p99" | "mean" | "max" => Some(Kind::Time),
        _ => None,
    }
}

impl fmt::Display for Threshold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// `4000`, `50ms`.
fn bound(text: &str) -> Option<Bound> {
    let finite = |text: &str| text.trim().parse().ok().filter(|value: &f64| value.is_finite());
    for (suffix, us) in [("us", 1.0), ("ms", 1e3), ("s", 1e6)] {
        if let Some(value) = text.strip_suffix(suffix).and_then(finite) {
            return Some(Bound::TimeUs(value * us));
        }
    }
    finite(text).map(Bound::Number)
}

/// What became of each, by the figures of a report.
pub fn judge(thresholds: &[Threshold], report: &Report) -> Vec<ThresholdResult> {
    let figures = figures::all(report);
    thresholds.iter().map(|threshold| threshold.judge(&figures)).collect()
}

/// Why it is missed, by the figures that it was judged by.
pub fn why_missed(result: &ThresholdResult, figures: &[Figure<'_>]) -> String {
    // Of a report that an older version wrote, it may be none.
    let Ok(threshold) = result.threshold.parse::<Threshold>() else { return "not measured".to_owned() };
    let named: Vec<_> = figures.iter().filter(|figure| threshold.names(figure)).collect();
    match (result.measured, named.first()) {
        (Some(_), Some(_)) if named.iter().any(|figure| figure.median().is_none()) => {
            "a case has no valid measurement".to_owned()
        }
        (Some(measured), Some(figure)) => {
            let measured = format!("measured {}", format::figure(measured, &figure.metric.unit));
            match named.iter().find_map(|figure| threshold.not_carried(figure)) {
                Some((requests, of)) => format!(
                    "{measured}, but of all answers: {} of {} requests were not carried",
                    format::number(requests as f64),
                    format::number(of as f64)
                ),
                None => measured,
            }
        }
        (_, Some(figure)) if figure.median().is_some() => {
            format!("measured in another unit, {}", figure.metric.unit)
        }
        (_, Some(_)) => "no valid measurement".to_owned(),
        (_, None) => threshold.unknown(figures),
    }
}

impl Threshold {
    /// Which part of it names nothing, and what it could name.
    fn unknown(&self, figures: &[Figure<'_>]) -> String {
        let known = |what: &str, names: Vec<&str>| {
            let different: Vec<&str> = names.into_iter().collect::<IndexSet<_>>().into_iter().collect();
            let more = if different.len() > NAMES_MAX { "; ..." } else { "" };
            let first = different[..different.len().min(NAMES_MAX)].join("; ");
            format!("no such {what} was measured; there are: {first}{more}")
        };
        let scenario: Vec<_> = figures.iter().filter(|figure| figure.scenario == self.scenario).collect();
        let case = |figure: &&&Figure<'_>| self.names_case(figure);
        if scenario.is_empty() {
            "its scenario was not measured".to_owned()
        } else if scenario.iter().any(|figure| case(&figure)) {
            known("metric", scenario.iter().filter(case).map(|figure| &*figure.metric.name).collect())
        } else {
            known("case", scenario.iter().map(|figure| &*figure.case.name).collect())
        }
    }

    fn judge(&self, figures: &[Figure<'_>]) -> ThresholdResult {
        let named: Vec<_> = figures.iter().filter(|figure| self.names(figure)).collect();
        let mut judged: Vec<(f64, bool)> =
            named.iter().filter_map(|figure| Some((figure.median()?, self.met(figure)?))).collect();
        judged.sort_by(|(left, _), (right, _)| left.total_cmp(right));
        let (side, _) = self.comparison;
        let worst = if side == Ordering::Greater { judged.first() } else { judged.last() };
        // A case without a valid measurement is not known to meet it, however good the others are.
        let complete = judged.len() == named.len();
        ThresholdResult {
            threshold: self.text.clone(),
            measured: worst.map(|(median, _)| *median),
            met: complete
                && !judged.is_empty()
                && judged.iter().all(|(_, met)| *met)
                && named.iter().all(|figure| self.not_carried(figure).is_none()),
        }
    }

    /// What keeps a time from being one of requests that were carried, if it is meant to be.
    fn not_carried(&self, figure: &Figure<'_>) -> Option<(u64, u64)> {
        let of_all = self.metric.ends_with(OF_ALL_ANSWERS);
        figure.not_carried().filter(|_| of_name(&self.metric) == Some(Kind::Time) && !of_all)
    }

    fn names(&self, figure: &Figure<'_>) -> bool {
        figure.scenario == self.scenario && figure.metric.name == self.metric && self.names_case(figure)
    }

    fn names_case(&self, figure: &Figure<'_>) -> bool {
        self.case.as_ref().is_none_or(|case| *case == figure.case.name)
    }

    /// `None` if there is nothing to judge: no value, or a time for a metric that is none.
    fn met(&self, figure: &Figure<'_>) -> Option<bool> {
        let median = figure.median()?;
        let bound = match (self.bound, figure.metric.unit.as_str()) {
            (Bound::Number(value), _) | (Bound::TimeUs(value), "us") => value,
            (Bound::TimeUs(value), "ms") => value / 1e3,
            (Bound::TimeUs(value), "s") => value / 1e6,
            (Bound::TimeUs(_), _) => return None,
        };
        let (side, or_equal) = self.comparison;
        let order = median.partial_cmp(&bound)?;
        Some(order == side || (or_equal && order.is_eq()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::model::Flag;
    use crate::report::{figures, sample};

    #[test]
    fn thresholds_are_read_with_cases_of_any_name() {
        let threshold: Threshold = "submit/flush 1/1: ssd, a>b:p99 <= 50ms".parse().unwrap();
        assert_eq!(threshold.scenario, "submit");
        assert_eq!(threshold.case.as_deref(), Some("flush 1/1: ssd, a>b"));
        assert_eq!((threshold.metric.as_str(), threshold.bound), ("p99", Bound::TimeUs(50_000.0)));
        for (text, reason) in [
            ("a:b", "no >=, <=, > or <"),
            ("a>=3", "no ':'"),
            ("a:b>=fast", "no number"),
            ("a:b>=inf", "no number"),
            (":b>=3", "empty"),
            ("a/:b>=3", "empty"),
            ("a:throughput=>4", "did you mean '>='?"),
            ("a:p99=<4ms", "did you mean '<='?"),
            ("a:throughput>=50ms", "'throughput' is a rate, and the value a time"),
            ("a:p99<=50", "'p99' is a time, so the value needs a unit"),
            ("a:mean response<=50", "needs a unit"),
            ("a:p99 of all answers<=50", "needs a unit"),
        ] {
            assert!(text.parse::<Threshold>().unwrap_err().contains(reason), "{text}");
        }
    }

    #[test]
    fn medians_are_judged_and_what_was_not_measured_is_missed() {
        let report = sample::report();
        let figures = figures::all(&report);
        for (text, measured, met) in [
            ("redis-threads/set, 50 threads:throughput>=40000", Some(42_500.0), true),
            ("redis-threads/set, 50 threads:throughput>=42501", Some(42_500.0), false),
            ("redis-threads/set, 50 threads:throughput>42500", Some(42_500.0), false),
            ("redis-threads/set, 50 threads:p99<=2ms", Some(2000.0), true),
            ("redis-threads/set, 50 threads:p99<2ms", Some(2000.0), false),
            // The invalid case counts too.
            ("redis-threads:throughput>=1", Some(9000.0), false),
            ("redis-threads:p99<=1s", Some(2000.0), true),
            ("redis-threads/set, 5000 threads:throughput>=1", None, false),
            ("redis-threads/get:throughput>=1", None, false),
            ("peak:highest passed>=1000", Some(2400.0), true),
            ("peak/embedded:recovery<=2s", Some(1.5), true),
            ("durability:acknowledged lost, redis killed<=0", Some(0.0), true),
            (
                "durability/cluster, redis appendfsync = everysec:back after, redis killed<500ms",
                Some(0.7),
                false,
            ),
        ] {
            let result = text.parse::<Threshold>().unwrap().judge(&figures);
            assert_eq!((result.measured, result.met), (measured, met), "{text}");
        }
    }

    #[test]
    fn the_time_of_what_was_not_carried_meets_nothing() {
        let mut report = sample::report();
        let case = &mut report.scenarios[0].cases[1];
        let mut of_all = case.metrics[1].clone();
        of_all.name += OF_ALL_ANSWERS;
        case.metrics.push(of_all);
        for trial in &mut case.trials[..2] {
            trial.flags.push(Flag::NotCarried { requests: 5000, of: 6000 });
        }
        report.scenarios[3].cases[0].trials[0].flags.push(Flag::NotCarried { requests: 3, of: 9 });
        let figures = figures::all(&report);
        for (text, why) in [
            (
                "redis-threads/set, 50 threads:p99<=1s",
                Some("measured 2 ms, but of all answers: 10,000 of 12,000 requests were not carried"),
            ),
            ("redis-threads:p99<=1s", Some("measured 2 ms, but of all")),
            ("redis-threads/set, 5 threads:p99<=1s", None),
            ("redis-threads/set, 50 threads:p99 of all answers<=1s", None),
            // Only what was carried is counted in it.
            ("redis-threads/set, 50 threads:throughput>=40000", None),
            ("durability:p99<=1s", Some("measured 21 ms, but of all answers: 3 of 9 requests")),
        ] {
            let result = text.parse::<Threshold>().unwrap().judge(&figures);
            assert_eq!(result.met, why.is_none(), "{text}");
            if let Some(why) = why {
                let said = why_missed(&result, &figures);
                assert!(said.starts_with(why), "{text}: {said}");
            }
        }
    }

    #[test]
    fn a_missed_threshold_says_why() {
        let report = sample::report();
        let figures = figures::all(&report);
        for (text, why) in [
            ("redis-threads/set, 50 threads:throughput>=42501", "measured 42,500/s"),
            ("redis-threads/set, 50 threads:p99<2ms", "measured 2 ms"),
            (
                "redis-threads/get:throughput>=1",
                "no such case was measured; there are: set, 5 threads; set, 50",
            ),
            (
                "redis-threads/set, 50 threads:nosuch>=1",
                "no such metric was measured; there are: throughput; p99",
            ),
            ("redis-threads/set, 5000 threads:throughput>=1", "no valid measurement"),
            ("redis-threads:throughput>=1", "a case has no valid measurement"),
            ("nothing:x>=1", "its scenario was not measured"),
        ] {
            let said = why_missed(&text.parse::<Threshold>().unwrap().judge(&figures), &figures);
            assert!(said.starts_with(why), "{text}: {said}");
        }
    }
}
