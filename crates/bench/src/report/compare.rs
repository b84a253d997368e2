//! Two reports against each other: for each figure how much it changed, and whether that is a change at all.
//!
//! The ratio is Hodges and Lehmann's estimate with its Mann-Whitney interval (`statistics.rs`); with fewer than six
//! repeats on a side it is the ratio of the medians, without an interval, and judged all the same. A figure is missed
//! when it got worse by more than the threshold and the interval, where there is one, excludes "no change". A
//! figure that was measured before and not after is no success: whoever measures it no more would pass otherwise.
//! Figures that only the second report has are listed.

use super::figures::{self, Figure};
use super::format::{percent, time_us};
use super::model::{Better, EngineSettings, Report, Search};
use super::statistics::{self, Interval};
use super::words;
use crate::target::DOORBUSTER;

#[derive(Debug, Clone, PartialEq)]
pub struct Comparison {
    pub threshold: f64,
    pub changes: Vec<Change>,
    /// Names of figures that the second report has as well, without a valid measurement.
    pub unmeasured: Vec<String>,
    /// Those that the second report has not.
    pub only_before: Vec<String>,
    pub only_after: Vec<String>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Change {
    pub name: String,
    pub unit: String,
    pub before: f64,
    pub after: f64,
    pub ratio: f64,
    pub interval: Option<Interval>,
    pub judgement: Judgement,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Judgement {
    Better,
    /// Past the threshold, in the wrong direction.
    Worse,
    /// Within the threshold, or the interval does not exclude that nothing changed.
    Same,
    /// Neither direction is better.
    Unjudged,
}

impl Comparison {
    pub fn worse(&self) -> usize {
        self.changes.iter().filter(|change| change.judgement == Judgement::Worse).count()
    }

    /// Figures of the first report that can't be compared, for the second one has no value of them.
    pub fn missing(&self) -> Vec<&str> {
        self.unmeasured.iter().chain(&self.only_before).map(String::as_str).collect()
    }
}

/// `threshold` is the share by which a figure may get worse: 0.05.
pub fn compare(before: &Report, after: &Report, threshold: f64) -> Comparison {
    let [before, after] = [before, after].map(|report| {
        let all = figures::all(report).into_iter();
        all.filter(|figure| !figure.of_load()).collect::<Vec<_>>()
    });
    let mut changes = Vec::new();
    let (mut unmeasured, mut only_before) = (Vec::new(), Vec::new());
    for figure in &before {
        let is_same =
            |other: &&Figure<'_>| other.name() == figure.name() && other.metric.unit == figure.metric.unit;
        let other = after.iter().find(is_same);
        match other.and_then(|other| change(figure, other, threshold)) {
            Some(change) => changes.push(change),
            None if figure.metric.values.is_empty() => {}
            None if other.is_some() => unmeasured.push(figure.name()),
            None => only_before.push(figure.name()),
        }
    }
    let measured = after.iter().filter(|figure| !figure.metric.values.is_empty()).map(Figure::name);
    let only_after = measured.filter(|name| changes.iter().all(|change| change.name != *name)).collect();
    Comparison { threshold, changes, unmeasured, only_before, only_after }
}

fn change(before: &Figure<'_>, after: &Figure<'_>, threshold: f64) -> Option<Change> {
    let (ratio, interval) = statistics::ratio(&before.metric.values, &after.metric.values)?;
    let is_change = interval.is_none_or(|interval| !interval.contains(1.0));
    let judgement = match before.metric.better {
        Better::Neither => Judgement::Unjudged,
        _ if !is_change || (1.0 - threshold..=1.0 + threshold).contains(&ratio) => Judgement::Same,
        better if (ratio > 1.0) == (better == Better::Higher) => Judgement::Better,
        _ => Judgement::Worse,
    };
    Some(Change {
        name: before.name(),
        unit: before.metric.unit.clone(),
        before: before.median()?,
        after: after.median()?,
        ratio,
        interval,
        judgement,
    })
}

/// What is not the same around the two measurements, a line each: with any of it, a difference of the figures has
/// more than one possible cause.
pub fn differences(before: &Report, after: &Report) -> Vec<String> {
    let mut lines = Vec::new();
    let mut differ = |what: &str, before: &str, after: &str| {
        if before != after {
            lines.push(format!("{what}: {before} | {after}"));
        }
    };
    let (here, there) = (&before.environment, &after.environment);
    differ("build", words::said(&here.build), words::said(&there.build));
    differ("processor", &here.processor, &there.processor);
    differ("processors", &here.processors.to_string(), &there.processors.to_string());
    differ("governor", &here.governor, &there.governor);
    differ("memory", &format!("{} MiB", here.memory_mib), &format!("{} MiB", there.memory_mib));
    differ("kernel", &here.kernel, &there.kernel);
    differ("cgroup limits", &here.cgroup_limits(), &there.cgroup_limits());
    differ("file system", &here.file_system, &there.file_system);
    differ("co-located", &here.co_located.to_string(), &there.co_located.to_string());
    differ("size", &format!("{:?}", before.size), &format!("{:?}", after.size));
    for scenario in &before.scenarios {
        let Some(other) = after.scenarios.iter().find(|other| other.name == scenario.name) else { continue };
        if let (Some(here), Some(there)) = (&scenario.search, &other.search) {
            let limit = |of: &Search| time_us(of.p99_limit_us as f64);
            differ(&format!("{}: limit of p99", scenario.name), &limit(here), &limit(there));
            let [here, there] = [here, there].map(|of| percent(of.errors_limit));
            differ(&format!("{}: limit of errors", scenario.name), &here, &there);
        }
        engines(&scenario.name, &scenario.engines, &other.engines, &mut differ);
        for case in &scenario.cases {
            if let Some(other) = other.cases.iter().find(|other| other.name == case.name) {
                engines(&case.name, &case.engines, &other.engines, &mut differ);
            }
        }
    }
    lines
}

fn engines(
    scenario: &str,
    before: &[EngineSettings],
    after: &[EngineSettings],
    differ: &mut impl FnMut(&str, &str, &str),
) {
    let names = |engines: &[EngineSettings]| {
        engines.iter().map(|of| of.engine.as_str()).collect::<Vec<_>>().join(", ")
    };
    differ(&format!("{scenario}: engines"), &names(before), &names(after));
    for (before, after) in before.iter().zip(after) {
        let of = format!("{scenario}: {}", before.engine);
        // What is compared is, more often than not, two versions of our own server.
        if before.engine != DOORBUSTER {
            differ(&format!("{of} version"), &before.version, &after.version);
        }
        let keys = before
            .settings
            .keys()
            .chain(after.settings.keys().filter(|key| !before.settings.contains_key(*key)));
        for key in keys {
            let value =
                |of: &EngineSettings| of.settings.get(key).cloned().unwrap_or_else(|| "not said".to_owned());
            differ(&format!("{of} {key}"), &value(before), &value(after));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::sample;

    fn scaled(factor: f64, repeats: usize) -> Report {
        let mut report = sample::report();
        for metric in &mut report.scenarios[0].cases[1].metrics {
            metric.values.truncate(repeats);
            metric.values.iter_mut().for_each(|value| *value *= factor);
        }
        report
    }

    fn judgement(comparison: &Comparison, metric: &str) -> (Judgement, bool) {
        let name = format!("redis-threads/set, 50 threads: {metric}");
        let change = comparison.changes.iter().find(|change| change.name == name).unwrap();
        (change.judgement, change.interval.is_some())
    }

    #[test]
    fn the_direction_that_is_better_decides() {
        let comparison = compare(&sample::report(), &scaled(0.8, 6), 0.05);
        assert_eq!(judgement(&comparison, "throughput"), (Judgement::Worse, true));
        assert_eq!(judgement(&comparison, "p99"), (Judgement::Better, true));
        assert_eq!(comparison.worse(), 1);
        let comparison = compare(&sample::report(), &scaled(1.2, 6), 0.05);
        assert_eq!(judgement(&comparison, "throughput"), (Judgement::Better, true));
        assert_eq!(judgement(&comparison, "p99"), (Judgement::Worse, true));
    }

    #[test]
    fn within_the_threshold_or_the_interval_nothing_changed() {
        // 4% is within 5%.
        assert_eq!(compare(&sample::report(), &scaled(0.96, 6), 0.05).worse(), 0);
        // The spread of the throughput hides 4%, even with a threshold of 1%; that of p99, which has none, does not.
        let comparison = compare(&sample::report(), &scaled(0.96, 6), 0.01);
        assert_eq!(judgement(&comparison, "throughput"), (Judgement::Same, true));
        assert_eq!(judgement(&comparison, "p99"), (Judgement::Better, true));
    }

    #[test]
    fn few_repeats_are_judged_by_their_medians() {
        let comparison = compare(&scaled(1.0, 3), &scaled(0.8, 3), 0.05);
        assert_eq!(judgement(&comparison, "throughput"), (Judgement::Worse, false));
        assert_eq!(compare(&scaled(1.0, 3), &scaled(1.0, 3), 0.05).worse(), 0);
    }

    #[test]
    fn what_only_one_has_is_listed() {
        let mut less = sample::report();
        less.scenarios.remove(1);
        let comparison = compare(&sample::report(), &less, 0.05);
        assert_eq!(comparison.only_before, ["redis-memory/400,000 keys: used memory"]);
        assert_eq!(comparison.missing(), ["redis-memory/400,000 keys: used memory"]);
        let comparison = compare(&less, &sample::report(), 0.05);
        assert_eq!(comparison.only_after, ["redis-memory/400,000 keys: used memory"]);
        assert_eq!(comparison.only_before, [""; 0]);
    }

    #[test]
    fn what_was_measured_before_and_only_invalid_after_is_missing() {
        let mut broken = sample::report();
        broken.scenarios[0].cases[1].metrics[0].values.clear();
        let comparison = compare(&sample::report(), &broken, 0.05);
        assert_eq!(comparison.unmeasured, ["redis-threads/set, 50 threads: throughput"]);
        assert_eq!(comparison.missing(), comparison.unmeasured);
        // Nobody had a figure of the case whose trials are all invalid, so nobody misses it.
        assert_eq!(compare(&broken, &broken, 0.05).missing(), [""; 0]);
        assert_eq!(compare(&broken, &sample::report(), 0.05).missing(), [""; 0]);
    }

    #[test]
    fn every_difference_around_the_figures_is_found() {
        assert_eq!(differences(&sample::report(), &sample::report()), [""; 0]);
        let of_version = |version: &str| {
            let mut report = sample::report();
            let server = EngineSettings {
                engine: DOORBUSTER.to_owned(),
                version: version.to_owned(),
                settings: [("admission burst".to_owned(), "5".to_owned())].into(),
            };
            report.scenarios[0].engines.push(server);
            report
        };
        // A new version of our server beside the one before is what a comparison is for; other settings of it are not.
        let after = of_version("0.2.0");
        assert_eq!(differences(&of_version("0.1.0"), &after), [""; 0]);
        let mut other = of_version("0.1.0");
        let server = other.scenarios[0].engines.last_mut().unwrap();
        server.settings.insert("admission burst".to_owned(), "6".to_owned());
        assert_eq!(differences(&other, &after).len(), 1);
        let mut other = sample::report();
        other.environment.kernel = "9.9".to_owned();
        other.environment.processors += 1;
        other.environment.build = "debug".to_owned();
        other.size = crate::report::model::Size::Quick;
        let peak = other.scenarios[2].search.as_mut().unwrap();
        (peak.p99_limit_us, peak.errors_limit) = (100_000, 0.01);
        let engine = &mut other.scenarios[0].engines[0];
        engine.version = "7.2".to_owned();
        engine.settings.insert("appendfsync".to_owned(), "always".to_owned());
        engine.settings.insert("save".to_owned(), "60 1".to_owned());
        let lines = differences(&sample::report(), &other).join("\n");
        for line in [
            "redis-threads: redis version: 7.0.15 | 7.2",
            "redis-threads: redis appendfsync: everysec | always",
            "redis-threads: redis save: not said | 60 1",
            "size: Full | Quick",
            "| 9.9",
            "build: release | debug",
            "peak: limit of p99: 50 ms | 100 ms",
            "peak: limit of errors: 0.1% | 1",
        ] {
            assert!(lines.contains(line), "{lines}");
        }
        assert_eq!(lines.lines().count(), 9, "{lines}");
    }
}
