//! `--threshold` and `--thresholds` of `bench run`, `peak`, `durability` and `peers`: what figures must reach.
//!
//! Must not: judge; that is the bench crate's.

use std::path::PathBuf;

use ::bench::report::model::Report;
use ::bench::report::thresholds::Threshold;
use clap::Args;
use serde::Deserialize;

use crate::failure::Failure;
use crate::output;

/// Names at least so like a wrong one are suggested.
const ALIKE_MIN: f64 = 0.5;

#[derive(Args, Debug, Default)]
pub(super) struct ThresholdArguments {
    /// What a figure must reach; may be repeated
    #[arg(long = "threshold", value_name = "THRESHOLD")]
    threshold: Vec<Threshold>,
    /// A TOML file with more thresholds
    #[arg(long, value_name = "FILE")]
    thresholds: Option<PathBuf>,
}

/// A file of thresholds.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ThresholdsFile {
    thresholds: Vec<String>,
}

impl ThresholdArguments {
    pub(super) fn read(&self) -> Result<Vec<Threshold>, Failure> {
        let mut thresholds = self.threshold.clone();
        if let Some(file) = &self.thresholds {
            let wrong = |error: String| Failure::usage(format!("{}: {error}", file.display()));
            let text =
                std::fs::read_to_string(file).map_err(|error| wrong(format!("can't be read: {error}")))?;
            let read: ThresholdsFile =
                toml::from_str(&text).map_err(|error| wrong(error.message().to_owned()))?;
            for text in read.thresholds {
                thresholds.push(text.parse().map_err(wrong)?);
            }
        }
        Ok(thresholds)
    }

    /// Of a measurement whose cases are known, each with its metrics: what names none of them could never be met, and
    /// that is better said before than after an hour.
    pub(super) fn read_for(
        &self,
        scenario: &str,
        cases: &[(String, Vec<String>)],
    ) -> Result<Vec<Threshold>, Failure> {
        let thresholds = self.read()?;
        for threshold in &thresholds {
            let wrong = |what: String| Err(Failure::usage(format!("'{threshold}': {what}")));
            if threshold.scenario != scenario {
                return wrong(format!("only '{scenario}' is measured here"));
            }
            let asked =
                |case: &&(String, Vec<String>)| threshold.case.as_ref().is_none_or(|asked| *asked == case.0);
            let metrics: Vec<&str> =
                cases.iter().filter(asked).flat_map(|(_, metrics)| metrics).map(String::as_str).collect();
            if let Some(case) = threshold.case.as_ref().filter(|_| metrics.is_empty()) {
                let names = cases.iter().map(|(name, _)| name.as_str());
                return wrong(format!("no such case is measured{}", meant(case, names, "")));
            }
            if !metrics.contains(&threshold.metric.as_str()) {
                let first = cases.first().map_or(&[][..], |(_, metrics)| metrics);
                let known = format!("; there are: {}", first.join("; "));
                return wrong(format!(
                    "no such metric{}",
                    meant(&threshold.metric, metrics.into_iter(), &known)
                ));
            }
        }
        Ok(thresholds)
    }
}

/// Exit code 1, if the report says that a threshold is missed.
pub(super) fn check(report: &Report) -> Result<(), Failure> {
    match report.thresholds.iter().filter(|threshold| !threshold.met).count() {
        0 => Ok(()),
        missed => Err(Failure::check(format!("{missed} threshold(s) missed"))),
    }
}

/// `; did you mean ...?`, or what is said if nothing known is alike.
pub(super) fn meant<'a>(name: &str, known: impl Iterator<Item = &'a str>, otherwise: &str) -> String {
    nearest(name, known)
        .map_or_else(|| otherwise.to_owned(), |near| format!("; did you mean {}?", output::plain(near)))
}

fn nearest<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    known
        .map(|known| (strsim::normalized_damerau_levenshtein(name, known), known))
        .filter(|(alike, _)| *alike >= ALIKE_MIN)
        .max_by(|(left, _), (right, _)| left.total_cmp(right))
        .map(|(_, known)| known)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_names_are_suggested_and_far_ones_are_not() {
        let known = ["redis-get-set", "redis-hot-key", "static-page"];
        assert_eq!(nearest("redis-getset", known.into_iter()), Some("redis-get-set"));
        assert_eq!(nearest("hot-key", known.into_iter()), Some("redis-hot-key"));
        assert_eq!(nearest("zzz", known.into_iter()), None);
    }

    #[test]
    fn what_could_never_be_met_is_refused_before_anything_is_measured() {
        let metrics = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let cases = [
            ("embedded, sync = full".to_owned(), metrics(&["throughput", "lost"])),
            ("cluster, sync = 1".to_owned(), metrics(&["throughput", "lost", "back"])),
        ];
        for (text, reason) in [
            ("durability:throughput>=1", ""),
            ("durability:back<=2s", ""),
            ("durability/embedded, sync = full:lost<=0", ""),
            ("peak:throughput>=1", "only 'durability' is measured here"),
            ("durability/embedded, sync = ful:lost<=0", "did you mean embedded, sync = full?"),
            ("durability/x:lost<=0", "no such case is measured"),
            ("durability:throughputs>=1", "no such metric; did you mean throughput?"),
            ("durability/embedded, sync = full:back<=2s", "no such metric; there are: throughput; lost"),
        ] {
            let arguments = ThresholdArguments { threshold: vec![text.parse().unwrap()], thresholds: None };
            match arguments.read_for("durability", &cases) {
                Ok(_) => assert_eq!(reason, "", "{text}"),
                Err(failure) => {
                    let Failure::Usage(said) = failure else { panic!("{text}: {failure:?}") };
                    assert!(!reason.is_empty() && said.contains(reason), "{text}: {said}");
                }
            }
        }
    }
}
