//! The report as Markdown: for a repository, a pull request, a wiki.

use super::figures::{self, Figure};
use super::format::{figure, number, time_us};
use super::model::{DurabilityRow, PeakReport, Report, ScenarioReport, ThresholdResult};
use super::{statistics, words};

pub fn render(report: &Report) -> String {
    let mut page = Page(String::new());
    page.line("# Benchmark report");
    page.line("");
    if let Some(why) = report.unfit() {
        page.line(&format!("**{}**\n", escaped(&why)));
    }
    page.table(
        &["", ""],
        words::environment(report).into_iter().map(|(name, value)| vec![name.to_owned(), value]),
    );
    thresholds(&mut page, &report.thresholds);
    let figures = figures::all(report);
    for of in &report.scenarios {
        scenario(&mut page, of, &figures);
    }
    if !report.failures.is_empty() {
        page.line("\n## Not run\n");
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

    fn titled(&mut self, title: &str, lines: impl Iterator<Item = String>) {
        let mut lines = lines.peekable();
        if lines.peek().is_some() {
            self.line(&format!("\n{title}:\n"));
            self.list(lines);
        }
    }

    fn table(&mut self, titles: &[&str], rows: impl Iterator<Item = Vec<String>>) {
        self.line(&format!("| {} |", titles.join(" | ")));
        self.line(&format!("|{}", " --- |".repeat(titles.len())));
        for row in rows {
            let cells: Vec<String> = row.iter().map(|cell| escaped(cell)).collect();
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
    let row = |of: &ThresholdResult| {
        let measured = of.measured.map_or_else(|| "not measured".to_owned(), number);
        vec![of.threshold.clone(), measured, if of.met { "met" } else { "MISSED" }.to_owned()]
    };
    page.table(&["threshold", "measured", ""], thresholds.iter().map(row));
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
    page.titled("(?) Published figures that may be wrong", doubts);
    if !scenario.shapes.is_empty() {
        page.line("");
        let row = |shape: &super::model::Shape| {
            vec![
                shape.claim.clone(),
                shape.published.clone(),
                shape.measured.clone(),
                words::holds(shape.holds).to_owned(),
            ]
        };
        page.table(&["shape", "published", "measured", ""], scenario.shapes.iter().map(row));
    }
    if let Some(limiter) = &scenario.limiter {
        page.titled(&format!("Limited by {}", escaped(&limiter.what)), limiter.evidence.iter().cloned());
    }
    page.titled("Scaled down", scenario.scaled_down.iter().cloned());
    page.titled("Notes", scenario.notes.iter().cloned());
    page.titled("Validity", words::flags(scenario).into_iter());
    page.titled("Audit, clean", scenario.audit.iter().map(words::audit));
    page.titled("Engines, as they said themselves", scenario.engines.iter().map(words::engine));
}

fn peak(page: &mut Page, peak: &PeakReport) {
    let rate = |rate: Option<f64>| rate.map_or_else(|| "none".to_owned(), |rate| figure(rate, "1/s"));
    page.line(&format!("\n## Peak of {}\n", escaped(&peak.target)));
    let limit = format!(
        "p99 <= {}, errors <= {}",
        time_us(peak.p99_limit_us as f64),
        super::format::percent(peak.errors_limit)
    );
    let rows = [
        ("limit", limit),
        ("highest passed", rate(peak.highest_passed)),
        ("lowest failed", rate(peak.lowest_failed)),
        ("confirmed by interleaved repeats", if peak.confirmed { "yes" } else { "no" }.to_owned()),
        ("closed-loop maximum", rate(peak.closed_loop_max)),
        ("generator's own ceiling", rate(Some(peak.generator_ceiling))),
        ("idle noise, p99", time_us(peak.idle_noise_us.at(0.99) as f64)),
    ];
    page.table(&["", ""], rows.into_iter().map(|(name, value)| vec![name.to_owned(), value]));
    page.line("");
    let row = |point: &super::model::PeakPoint| {
        let p99: Vec<f64> = point.trials.iter().map(|trial| trial.response.at(0.99) as f64).collect();
        let good: Vec<f64> = point.trials.iter().map(super::model::Trial::good_per_s).collect();
        let told = |values: &[f64], unit| {
            statistics::median(values).map(|value| figure(value, unit)).unwrap_or_default()
        };
        vec![
            figure(point.rate, "1/s"),
            point.phase.clone(),
            words::verdict(point.verdict).to_owned(),
            told(&good, "1/s"),
            told(&p99, "us"),
            point.trials.len().to_string(),
        ]
    };
    let mut curve: Vec<_> = peak.curve.iter().collect();
    curve.sort_by(|left, right| left.rate.total_cmp(&right.rate));
    page.table(&["offered", "phase", "verdict", "good", "p99", "trials"], curve.into_iter().map(row));
    if let Some(of) = &peak.overload {
        let recovery = of.recovery_s.map_or_else(
            || "did not recover while it was watched".to_owned(),
            |s| format!("within the limit again after {}", figure(s, "s")),
        );
        let [offered, good, refused] =
            [of.rate, of.good_per_s, of.refused_per_s].map(|rate| figure(rate, "1/s"));
        page.line(&format!("\nOverload with {offered}: {good} good, {refused} refused; {recovery}."));
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
    if let Some(limiter) = &peak.limiter {
        page.titled(&format!("Limited by {}", escaped(&limiter.what)), limiter.evidence.iter().cloned());
    }
    page.titled("Validity", words::peak_flags(peak).into_iter());
    page.titled("Audit, clean", peak.audit.iter().map(words::audit));
    page.titled("Notes", peak.notes.iter().cloned());
}

fn durability(page: &mut Page, rows: &[DurabilityRow]) {
    if rows.is_empty() {
        return;
    }
    page.line("\n## What durability costs\n");
    let titles = [
        "settings",
        "orders/s",
        "p99",
        "killed",
        "acknowledged",
        "lost",
        "unknown",
        "back after",
        "a power cut may lose",
    ];
    page.table(&titles, rows.iter().flat_map(durability_cells));
    for row in rows {
        page.titled(&escaped(&figures::combination(row)), words::durability_notes(row).into_iter());
    }
    page.titled("Validity", words::durability_flags(rows).into_iter());
}

/// A line for each kill, and one for a combination in which nothing was killed.
pub(super) fn durability_cells(row: &DurabilityRow) -> Vec<Vec<String>> {
    let p99: Vec<f64> = row.p99_us.iter().map(|us| *us as f64).collect();
    let told = |values: &[f64], unit| {
        statistics::median(values).map_or_else(|| "not measured".to_owned(), |of| figure(of, unit))
    };
    let first = [figures::combination(row), told(&row.orders_per_s, "1/s"), told(&p99, "us")];
    let line = |kill: [String; 5]| first.iter().cloned().chain(kill).chain([row.power_cut.clone()]).collect();
    if row.kills.is_empty() {
        return vec![line(["nothing", "", "", "", ""].map(str::to_owned))];
    }
    let of_kill = |kill: &super::model::Kill| {
        let counts =
            [kill.acknowledged, kill.acknowledged_lost, kill.unknown].map(|count| number(count as f64));
        let [acknowledged, lost, unknown] = counts;
        line([kill.victim.clone(), acknowledged, lost, unknown, figure(kill.back_after_s, "s")])
    };
    row.kills.iter().map(of_kill).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::sample;

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
            "| 2,450/s | bisect | invalid |",
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
