//! `doorbuster bench compare`: two reports against each other, for a gate in CI.
//!
//! Must not: judge; that is the bench crate's.

use std::path::{Path, PathBuf};

use ::bench::report::model::Report;
use ::bench::report::{compare, summary};
use clap::Args;

use super::read_report;
use crate::failure::Failure;
use crate::output;

/// So many lines of a list are shown; the rest is counted.
const LINES_SHOWN: usize = 8;

/// Compare two reports; exit with 1 if a figure got worse
#[derive(Args, Debug)]
#[command(after_help = "\
Each figure of B is put beside that of A: the ratio, and with six repeats on both sides its 95% interval (Hodges and
Lehmann's estimate with the Mann-Whitney test's interval). A figure got worse if it changed by more than the threshold
in the direction that is not better, and its interval excludes 'no change'. With fewer repeats the medians alone are
judged, and the output says so.

Two environments (processor, governor, memory, kernel, cgroup limits, file system, size, a peak's limits, engines and
their settings) are not compared, unless you say so. Reports of a run that was stopped, or whose audit failed, never are.

Exit codes: 0 nothing got worse; 1 something did; 2 figures of A have no valid measurement in B; 64 no reports, or not
comparable.

Examples:
  doorbuster bench compare before.json after.json
  doorbuster bench compare before.json after.json --threshold 10%
  doorbuster bench compare here.json there.json --any-environment")]
pub(super) struct CompareArguments {
    /// The report.json before
    #[arg(value_name = "A")]
    before: PathBuf,
    /// The report.json after
    #[arg(value_name = "B")]
    after: PathBuf,
    /// How much worse a figure may get: 5%, 0.05
    #[arg(long, value_name = "SHARE", default_value = "5%", value_parser = share)]
    threshold: f64,
    /// Compare although the environments differ
    #[arg(long)]
    any_environment: bool,
}

/// `5%` or `0.05`.
pub(super) fn share(text: &str) -> Result<f64, String> {
    let (number, scale) = text.strip_suffix('%').map_or((text, 1.0), |number| (number, 0.01));
    let value = number.trim().parse::<f64>().ok().map(|value| value * scale);
    value
        .filter(|value| (0.0..1.0).contains(value))
        .ok_or_else(|| "write a share below 100%, such as 5% or 0.05".to_owned())
}

pub(super) fn run(arguments: &CompareArguments) -> Result<(), Failure> {
    let (before, after) = (read(&arguments.before)?, read(&arguments.after)?);
    let differences = compare::differences(&before, &after);
    if !differences.is_empty() && !arguments.any_environment {
        return Err(Failure::usage(format!(
            "these were measured in different environments; --any-environment compares them all the same.{}",
            some_of(differences.iter().map(String::as_str))
        )));
    }
    let comparison = compare::compare(&before, &after, arguments.threshold);
    if comparison.changes.is_empty() && comparison.unmeasured.is_empty() {
        return Err(Failure::usage("the two reports have no figure in common"));
    }
    let mut text = summary::of_comparison(&comparison);
    for line in &differences {
        text += &format!("environments differ: {}\n", output::plain(line));
    }
    output::print(&text)?;
    // Before what got worse: the table has that too, and what it rests on is not whole.
    let missing = comparison.missing();
    if !missing.is_empty() {
        return Err(Failure::Invalid(format!(
            "{} figure(s) have no valid measurement in {}:{}",
            missing.len(),
            arguments.after.display(),
            some_of(missing.into_iter())
        )));
    }
    match comparison.worse() {
        0 => Ok(()),
        worse => Err(Failure::check(format!(
            "{worse} figure(s) got worse by more than {:.1}%",
            arguments.threshold * 100.0
        ))),
    }
}

/// A report that is the result of a whole run.
fn read(file: &Path) -> Result<Report, Failure> {
    let report = read_report(file)?;
    match report.unfit() {
        None => Ok(report),
        Some(why) => Err(Failure::usage(format!("{}: {}", file.display(), output::plain(&why)))),
    }
}

/// The first lines, each on a line of its own.
fn some_of<'a>(lines: impl ExactSizeIterator<Item = &'a str>) -> String {
    let more = lines.len().saturating_sub(LINES_SHOWN);
    let mut shown: String =
        lines.take(LINES_SHOWN).map(|line| format!("\n  {}", output::plain(line))).collect();
    if more > 0 {
        shown += &format!("\n  and {more} more");
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::share;

    #[test]
    fn shares_are_percents_or_fractions() {
        assert_eq!(share("5%"), Ok(0.05));
        assert_eq!(share("0.1"), Ok(0.1));
        assert_eq!(share("0"), Ok(0.0));
        for wrong in ["5", "-1%", "100%", "NaN", "", "%"] {
            assert!(share(wrong).is_err(), "{wrong}");
        }
    }
}
