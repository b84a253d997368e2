//! The report as Markdown: for a repository, a pull request, a wiki.

use super::figures::{self, Figure};
use super::format::figure;
use super::model::{DurabilityRow, PeakReport, Report, ScenarioReport, ThresholdResult};
use super::words;

pub fn render(report: &Report) -> String {
    let mut page = Page(String::new());
    page.line("# Benchmark report");
    page.line("");
    if let Some(why) = report.unfit() {
        page.line(&format!("**{}**\n", escaped(&why)));
    }
    if let Some(warning) = report.warning() {
        page.line(&format!("**{warning}**\n"));
    }
    page.table(
        &["", ""],
        words::environment(report).into_iter().map(|(name, value)| [name.to_owned(), value]),
    );
    thresholds(&mut page, &report.thresholds);
    let figures = figures::all(report);
    for of in &report.scenarios {
        scenario(&mut page, of, &figures);
    }
    if !report.failures.is_empty() {
        page.line("\n## Not finished\n");
        page.list(report.failures.iter().map(|failed| format!("{}: {}", failed.name, failed.error)));
    }
    report.peak.iter().for_each(|of| peak(&mut page, of));
    durability(&mut page, &report.durability);
    page.0
}

/// Markdown under construction.
struct Page(String);

impl Page {
    fn line(&mut self, text: &str) {
        self.0.push_str(text);
        self.0.push('\n');
    }

    fn list(&mut self, lines: impl Iterator<Item = String>) {
        for line in lines {
            self.line(&format!("- {}", escaped(&line)));
        }
    }

    /// Titled ones; those without lines are left out.
    fn lists(&mut self, lists: impl IntoIterator<Item = (String, Vec<String>)>) {
        for (title, lines) in lists.into_iter().filter(|(_, lines)| !lines.is_empty()) {
            self.line(&format!("\n{}:\n", escaped(&title)));
            self.list(lines.into_iter());
        }
    }

    fn table(&mut self, titles: &[&str], rows: impl Iterator<Item = impl AsRef<[String]>>) {
        self.line(&format!("| {} |", titles.join(" | ")));
        self.line(&format!("|{}", " --- |".repeat(titles.len())));
        for row in rows {
            let cells: Vec<String> = row.as_ref().iter().map(|cell| escaped(cell)).collect();
            self.line(&format!("| {} |", cells.join(" | ")));
        }
    }
}

/// Text is text: no markup of it, no cell of it, no line of it.
fn escaped(text: &str) -> String {
    let mut safe = String::new();
    for c in text.chars() {
        match c {
            '\\' | '`' | '*' | '_' | '[' | ']' | '|' => safe.extend(['\\', c]),
            '<' => safe.push_str("&lt;"),
            '&' => safe.push_str("&amp;"),
            '\n' | '\r' => safe.push(' '),
            _ => safe.push(c),
        }
    }
    safe
}

fn thresholds(page: &mut Page, thresholds: &[ThresholdResult]) {
    if thresholds.is_empty() {
        return;
    }
    page.line("\n## Thresholds\n");
    page.table(&words::THRESHOLD_TITLES, thresholds.iter().map(words::threshold));
}

fn scenario(page: &mut Page, scenario: &ScenarioReport, figures: &[Figure]) {
    page.line(&format!("\n## {}: {}\n", escaped(&scenario.name), escaped(&scenario.title)));
    if let Some(reference) = &scenario.reference {
        page.line(&format!("Published figures: {}\n", escaped(reference)));
    }
    let rows: Vec<words::Row> =
        scenario.cases.iter().flat_map(|case| words::rows(&scenario.name, case, figures)).collect();
    let intervals = rows.iter().any(|row| !row.interval.is_empty());
    let mut titles = vec!["case", "metric", "published", "measured (median)", "measured/published"];
    if intervals {
        titles.insert(4, "interval");
    }
    let cells = rows.iter().map(|row| {
        let doubt = if row.dubious.is_some() { " (?)" } else { "" };
        let invalid = if row.invalid > 0 { format!(" ({} invalid)", row.invalid) } else { String::new() };
        let mut cells = vec![
            row.case.clone(),
            row.metric.clone(),
            format!("{}{doubt}", row.published),
            format!("{}{invalid}", row.measured),
            row.ratio.clone(),
        ];
        if intervals {
            cells.insert(4, row.interval.clone());
        }
        cells
    });
    page.table(&titles, cells);
    let doubts = rows.iter().filter_map(|row| {
        let why = row.dubious.as_ref()?;
        Some(format!("{}, {}: {why}", row.case, row.metric))
    });
    page.lists([("(?) Published figures that may be wrong".to_owned(), doubts.collect())]);
    if !scenario.shapes.is_empty() {
        page.line("");
        page.table(&words::shape_titles(scenario), scenario.shapes.iter().map(words::shape));
    }
    page.lists(words::lists_of_scenario(scenario));
}

fn peak(page: &mut Page, peak: &PeakReport) {
    page.line(&format!("\n## Peak of {}\n", escaped(&peak.target)));
    page.table(&["", ""], words::peak_facts(peak).into_iter().map(|(name, value)| [name.to_owned(), value]));
    page.line("");
    page.table(&words::LOAD_TITLES, words::loads(peak).into_iter().map(words::load));
    if let Some(of) = &peak.overload {
        page.line(&format!("\nOverload: {}.", words::overload(of)));
    }
    if let Some(admission) = &peak.admission {
        let (low, high) = admission.everyday_per_s;
        page.line(&format!(
            "\nEvery day: {} to {}. The admission that follows:\n",
            figure(low, "1/s"),
            figure(high, "1/s")
        ));
        // A fence longer than any run of backticks in it can't be ended by it.
        let fence = "`".repeat(3 + admission.config.matches('`').count());
        page.line(&format!("{fence}toml\n{}\n{fence}", admission.config.trim_end()));
    }
    page.lists(words::lists_of_peak(peak));
}

fn durability(page: &mut Page, rows: &[DurabilityRow]) {
    if rows.is_empty() {
        return;
    }
    page.line("\n## What durability costs\n");
    page.table(&words::DURABILITY_TITLES, rows.iter().flat_map(words::durability));
    page.lists(rows.iter().map(|row| (figures::combination(row), words::durability_notes(row))));
    page.lists([("Validity".to_owned(), words::durability_flags(rows))]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::sample;

    #[test]
    fn without_a_reference_a_shape_is_expected_and_not_published() {
        let mut report = sample::report();
        assert!(render(&report).contains("| shape | published |"));
        report.scenarios.iter_mut().for_each(|of| of.reference = None);
        assert!(render(&report).contains("| shape | expected |"));
    }

    #[test]
    fn everything_is_in_it_and_text_stays_text() {
        let text = render(&sample::report());
        for wanted in [
            "| set, 50 threads | throughput | 42,634/s | 42,500/s | 40,000/s to 45,000/s | 1.00 x |",
            "| set, 5000 threads | throughput |  | not measured (6 invalid) |",
            "| 400,000 keys | used memory | 28.9 MiB (?) | 28.6 MiB |",
            "| levels off at 50 threads | 42,634/s |",
            "NOT found",
            "Limited by processor:",
            "INVALID: set, 5000 threads, repeat 0, 1, 2, 3, 4, 5: the generator was late: p99 of the send lag 9 ms, at most 5 ms",
            "100 units at first = 40 remaining + 60 held + 0 sold",
            "redis 7.0.15: appendfsync = everysec",
            "| 2,450/s | bisect | invalid |  |  | 1 (1 invalid) |",
            "| 2,400/s | confirm | pass | 2,400/s | 4 ms | 2 (1 invalid) |",
            "INVALID: 2,400/s, confirm, repeat 1: 9 requests were due and never sent",
            "| closed loop | anchor |  | 3,000/s |",
            "INVALID: 2,450/s, bisect, repeat 0: 7 requests were due and never sent",
            "Every day: 800/s to 1,200/s.",
            "| cluster, redis appendfsync = everysec | 1,100/s | 21 ms | redis | 5,000 | 0 | 4 | 700 ms |",
            "| nothing:x>=1 | not measured | MISSED |",
            "- broken: &lt;script",
            "INVALID: cluster, redis appendfsync = everysec, repeat 0: 9 answers were followed by bytes",
            "- as it said itself: redis 7.0.15: appendfsync = everysec",
        ] {
            assert!(text.contains(wanted), "{wanted}\n{text}");
        }
        assert!(!text.contains("<script"), "{text}");
        // No cell can break a row: every row of a table has as many bars as its head.
        let bars = |line: &str| line.replace("\\|", "").matches('|').count();
        for (head, row) in text
            .lines()
            .zip(text.lines().skip(1))
            .filter(|(head, row)| head.starts_with('|') && row.starts_with('|'))
        {
            assert_eq!(bars(head), bars(row), "{head}\n{row}");
        }
    }

    #[test]
    fn no_interval_is_shown_for_few_repeats() {
        let mut report = sample::report();
        for metric in
            report.scenarios.iter_mut().flat_map(|of| &mut of.cases).flat_map(|case| &mut case.metrics)
        {
            metric.values.truncate(5);
        }
        report.repeats = 5;
        let text = render(&report);
        assert!(
            !text.contains("interval |") && text.contains("5; intervals need 6, so none is shown"),
            "{text}"
        );
    }
}
