//! What the caller wants of the figures: `redis-threads/set, 50 threads:throughput>=40000`, judged after the run.
//!
//! Medians are judged. A threshold that names no case holds for each case that has the metric, and the worst is told.
//! One whose figure was not measured is missed: silence is no success.

use std::fmt;
use std::str::FromStr;

use super::figures::{self, Figure};
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

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Comparison {
    AtLeast,
    AtMost,
    Above,
    Below,
}

/// A time in microseconds, or a number in the metric's own unit.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Bound {
    TimeUs(f64),
    Number(f64),
}

const COMPARISONS: [(&str, Comparison); 4] = [
    (">=", Comparison::AtLeast),
    ("<=", Comparison::AtMost),
    (">", Comparison::Above),
    ("<", Comparison::Below),
];

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
        let bound = bound(rest[sign.len()..].trim()).ok_or_else(|| wrong("the value is no number"))?;
        let (place, metric) = named.rsplit_once(':').ok_or_else(|| wrong("no ':' before the metric"))?;
        let (scenario, case) = place
            .split_once('/')
            .map_or((place, None), |(scenario, case)| (scenario, Some(case.trim().to_owned())));
        let (scenario, metric) = (scenario.trim(), metric.trim());
        if scenario.is_empty() || metric.is_empty() || case.as_deref() == Some("") {
            return Err(wrong("something is empty"));
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

impl Threshold {
    fn judge(&self, figures: &[Figure]) -> ThresholdResult {
        let named: Vec<&Figure> = figures.iter().filter(|figure| self.names(figure)).collect();
        let medians: Option<Vec<f64>> = named.iter().map(|figure| figure.median()).collect();
        let mut judged: Vec<(f64, bool)> =
            named.iter().filter_map(|figure| Some((figure.median()?, self.met(figure)?))).collect();
        judged.sort_by(|(left, _), (right, _)| left.total_cmp(right));
        let worst = match self.comparison {
            Comparison::AtLeast | Comparison::Above => judged.first(),
            Comparison::AtMost | Comparison::Below => judged.last(),
        };
        // A case without a valid measurement is not known to meet it, however good the others are.
        let complete = medians.is_some_and(|medians| medians.len() == judged.len());
        ThresholdResult {
            threshold: self.text.clone(),
            measured: worst.map(|(median, _)| *median),
            met: complete && !judged.is_empty() && judged.iter().all(|(_, met)| *met),
        }
    }

    fn names(&self, figure: &Figure) -> bool {
        figure.scenario == self.scenario
            && figure.metric == self.metric
            && self.case.as_ref().is_none_or(|case| *case == figure.case)
    }

    /// `None` if there is nothing to judge: no value, or a time for a metric that is none.
    fn met(&self, figure: &Figure) -> Option<bool> {
        let median = figure.median()?;
        let bound = match (self.bound, figure.unit.as_str()) {
            (Bound::Number(value), _) | (Bound::TimeUs(value), "us") => value,
            (Bound::TimeUs(value), "ms") => value / 1e3,
            (Bound::TimeUs(value), "s") => value / 1e6,
            (Bound::TimeUs(_), _) => return None,
        };
        Some(match self.comparison {
            Comparison::AtLeast => median >= bound,
            Comparison::AtMost => median <= bound,
            Comparison::Above => median > bound,
            Comparison::Below => median < bound,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
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
        ] {
            assert!(text.parse::<Threshold>().unwrap_err().contains(reason), "{text}");
        }
    }

    #[test]
    fn medians_are_judged_and_what_was_not_measured_is_missed() {
        let figures = figures::all(&sample::report());
        for (text, measured, met) in [
            ("redis-threads/set, 50 threads:throughput>=40000", Some(42_500.0), true),
            ("redis-threads/set, 50 threads:throughput>=42501", Some(42_500.0), false),
            ("redis-threads/set, 50 threads:throughput>42500", Some(42_500.0), false),
            ("redis-threads/set, 50 threads:p99<=2ms", Some(2000.0), true),
            ("redis-threads/set, 50 threads:p99<2ms", Some(2000.0), false),
            // A time is no throughput.
            ("redis-threads/set, 50 threads:throughput>=2ms", None, false),
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
}
