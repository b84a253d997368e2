//! The summary that a terminal shows after a run: the verdict, a line for each figure, and what must not be overlooked.
//!
//! Plain text, no escapes: it is read in logs too.

use std::fmt::Write as _;

use super::compare::{Comparison, Judgement};
use super::format::{figure, times};
use super::model::Report;
use super::{figures, thresholds, verdict, words};

pub fn of_report(report: &Report) -> String {
    let figures = figures::all(report);
    let mut rows =
        vec![["scenario", "case", "metric", "sample", "published", "measured", "ratio"].map(str::to_owned)];
    for of in &figures {
        let write = |value| figure(value, &of.metric.unit);
        let published =
            of.metric.published.as_ref().map(|published| {
                write(published.value) + if published.dubious.is_some() { " ?" } else { "" }
            });
        rows.push([
            plain(of.scenario),
            plain(&of.case.name),
            plain(&of.metric.name),
            words::sample_of(&of.samples),
            published.unwrap_or_default(),
            of.median().map_or_else(|| "not measured".to_owned(), write),
            of.ratio().map(times).unwrap_or_default(),
        ]);
    }
    let mut text = plain(&verdict::of(report).sentence) + "\n\n";
    if figures.is_empty() {
        text.push_str("no figures\n");
    } else {
        text.push_str(&table(&rows));
    }
    let mut say = |line: String| {
        text.push_str(&plain(&line));
        text.push('\n');
    };
    for scenario in &report.scenarios {
        for shape in scenario.shapes.iter().filter(|shape| shape.holds == Some(false)) {
            say(format!("{}: shape not found: {}; measured: {}", scenario.name, shape.claim, shape.measured));
        }
        for doubt in words::doubts_of_scenario(scenario, report.size) {
            say(format!("{}: {doubt}", scenario.name));
        }
    }
    for failed in &report.failures {
        say(format!("{}: NOT FINISHED: {}", failed.name, failed.error));
    }
    for threshold in &report.thresholds {
        let missed = || format!("MISSED: {}", thresholds::why_missed(threshold, &figures));
        say(format!("{}: {}", threshold.threshold, if threshold.met { "met".to_owned() } else { missed() }));
    }
    text
}

pub fn of_comparison(comparison: &Comparison) -> String {
    let mut rows = vec![["figure", "before", "after", "after/before", "interval", ""].map(str::to_owned)];
    for change in &comparison.changes {
        let interval = change.interval.map_or_else(
            || "none: under 6 repeats".to_owned(),
            |interval| format!("{:.3} to {:.3}", interval.low, interval.high),
        );
        let judgement = match change.judgement {
            Judgement::Better => "better",
            Judgement::Worse => "WORSE",
            Judgement::Same => "",
            Judgement::Unjudged => "not judged",
        };
        rows.push([
            plain(&change.name),
            figure(change.before, &change.unit),
            figure(change.after, &change.unit),
            format!("{:.3} x", change.ratio),
            interval,
            judgement.to_owned(),
        ]);
    }
    let mut text = table(&rows);
    for (where_to, names) in [
        ("NOT MEASURED after", &comparison.unmeasured),
        ("only before", &comparison.only_before),
        ("only after", &comparison.only_after),
    ] {
        for name in names {
            writeln!(text, "{where_to}: {}", plain(name)).expect("a String takes every write");
        }
    }
    if comparison.changes.iter().any(|change| change.interval.is_none()) {
        text.push_str(
            "Figures without an interval are judged by their medians: noise may look like a change.\n",
        );
    }
    text
}

/// The last column is set left, so that words can stand in it; figures are set right.
fn table<const N: usize>(rows: &[[String; N]]) -> String {
    let widths: [usize; N] =
        std::array::from_fn(|column| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0));
    let mut text = String::new();
    for row in rows {
        let mut line = String::new();
        for (column, (cell, width)) in row.iter().zip(widths).enumerate() {
            let figure = column + 3 >= N && column + 1 < N;
            let written =
                if figure { write!(line, "{cell:>width$}  ") } else { write!(line, "{cell:<width$}  ") };
            written.expect("a String takes every write");
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// Text from elsewhere drives no terminal.
fn plain(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{compare, sample};

    #[test]
    fn nothing_that_matters_is_overlooked() {
        let text = of_report(&sample::report());
        for wanted in [
            "redis-threads  set, 50 threads",
            "28.9 MiB ?",
            "redis-threads: shape not found: reads are slower",
            "redis-threads: INVALID: set, 5000 threads, repeat 0",
            "6 x 3 s, 765,000 requests",
            "peak: INVALID: 2,450/s, bisect, repeat 0",
            "durability: INVALID: cluster, redis appendfsync = everysec, repeat 0",
            "broken: NOT FINISHED",
            "nothing:x>=1: MISSED: its scenario was not measured",
        ] {
            assert!(text.contains(wanted), "{wanted}\n{text}");
        }
    }

    #[test]
    fn every_form_begins_with_the_verdict() {
        use crate::report::{csv, json, page};
        let report = sample::report();
        let sentence = "INVALID in 2 of 7 cases, as redis-threads, set, 5000 threads: the generator was late: p99 of the \
                        send lag 9 ms, at most 5 ms allowed; of the others: at most 2,400 orders/s with a p99 within 50 ms";
        assert!(of_report(&report).starts_with(&format!("{sentence}\n")), "{}", of_report(&report));
        let before = |text: &str, later: &str| {
            let at = text.find(sentence).unwrap_or_else(|| panic!("{text}"));
            assert!(text.find(later).is_some_and(|later| at < later), "{text}");
        };
        before(&page::markdown(&report), "doorbuster 0.1.0");
        before(page::html(&report).split_once("<body>").unwrap().1, "doorbuster 0.1.0");
        before(&json::to_text(&report).unwrap(), "doorbuster 0.1.0");
        let rows = csv::render(&report).unwrap();
        assert!(rows.lines().skip(1).all(|row| row.ends_with(&format!("\"{sentence}\""))), "{rows}");
    }

    /// Those that people read.
    fn forms(report: &Report) -> [String; 4] {
        use crate::report::{csv, page};
        [of_report(report), page::markdown(report), page::html(report), csv::render(report).unwrap()]
    }

    #[test]
    fn what_must_not_be_overlooked_is_said_in_every_form() {
        let mut report = sample::report();
        let says = |report: &Report, words: &str, wanted: bool| {
            for text in forms(report) {
                assert_eq!(text.contains(words), wanted, "{words}: {text}");
            }
        };
        says(&report, "NOT COMPLETE", false);
        says(&report, "AUDIT FAILED", false);
        for (build, noted) in [("release", false), ("", false), ("debug", true)] {
            report.environment.build = build.to_owned();
            says(&report, "a debug build was measured", noted);
        }
        report.complete = false;
        says(&report, "NOT COMPLETE", true);
        report.failures[0].error = "orders: AUDIT FAILED: 3 lost".to_owned();
        says(&report, "AUDIT FAILED in broken: no figure of this run counts", true);
        assert!(of_report(&report).starts_with("INVALID: AUDIT FAILED"));
    }

    #[test]
    fn a_comparison_says_what_it_rests_on() {
        let text = of_comparison(&compare::compare(&sample::report(), &sample::report(), 0.05));
        assert!(text.contains("none: under 6 repeats") && text.contains("judged by their medians"), "{text}");
        assert!(text.contains("1.000 x"), "{text}");
    }
}
