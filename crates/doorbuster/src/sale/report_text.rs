//! The report of a sale as people read it in a terminal of 100 columns.
//!
//! Must not: find anything out.

use server::ledger::SaleReport;
use server::reported::{
    INCIDENTS, LINES, REFUSED, Reported, TIMES, UNITS, action_rows, happened_rows, incident_rows, line_rows,
    lines, refused_rows, refused_title, time_rows, unit_rows,
};

use crate::output;

/// Items, and things that happened, that are shown one by one; `--json` has more.
const ROWS_MAX: usize = 50;
const TITLE_CELLS_MAX: usize = 24;
const COLUMNS: usize = 100;
/// Before what goes on in the next line.
const INDENT: &str = "    ";

/// All of it.
pub(super) fn page(reported: &Reported) -> String {
    let report = &reported.report;
    let mut text = format!("{}\n\n", reported.says);
    for (name, line) in lines(reported) {
        text += format!("{name:<10}{line}").trim_end();
        text.push('\n');
    }
    text.push('\n');
    text += &units(report);
    text.push('\n');
    text += &times(report);
    if report.items.len() > ROWS_MAX {
        text += &format!("{} more items: --json\n", report.items.len() - ROWS_MAX);
    }
    text += &lines_waited(report);
    text += &incidents(reported);
    text += &refused(reported);
    text += &happened(report);
    text += &actions(report);
    text
}

fn incidents(reported: &Reported) -> String {
    let rows: Vec<_> = incident_rows(reported).collect();
    if rows.is_empty() {
        return String::new();
    }
    let table = output::table(INCIDENTS, &rows);
    table.lines().fold("\nincidents\n".to_owned(), |text, line| text + &fitting(line))
}

fn refused(reported: &Reported) -> String {
    let rows: Vec<_> = refused_rows(reported).collect();
    if rows.is_empty() {
        return String::new();
    }
    let title = format!("\n{}\n", refused_title(reported).to_lowercase());
    output::table(REFUSED, &rows).lines().fold(title, |text, line| text + &fitting(line))
}

/// A line that goes on in the next one if it is too long: what is cut in a report can't be read again once the server is gone.
fn fitting(line: &str) -> String {
    output::wrapped(line.trim_end(), COLUMNS - INDENT.len()).join(&format!("\n{INDENT}")) + "\n"
}

fn units(report: &SaleReport) -> String {
    let shortened = |mut row: [String; UNITS.len()]| {
        row[1] = output::within(&row[1], TITLE_CELLS_MAX).to_owned();
        row
    };
    output::table(UNITS, &unit_rows(report).take(ROWS_MAX).map(shortened).collect::<Vec<_>>())
}

fn times(report: &SaleReport) -> String {
    output::table(TIMES, &time_rows(report).take(ROWS_MAX).collect::<Vec<_>>())
}

fn lines_waited(report: &SaleReport) -> String {
    let rows: Vec<_> = line_rows(report).take(ROWS_MAX).collect();
    if rows.is_empty() { String::new() } else { format!("\n{}", output::table(LINES, &rows)) }
}

fn happened(report: &SaleReport) -> String {
    let mut text = String::from("\n");
    for [at, what] in happened_rows(report).take(ROWS_MAX) {
        text += &format!("{at}  {what}\n");
    }
    let more = report.happened.len().saturating_sub(ROWS_MAX) as u64 + report.happened_left_out;
    if more > 0 {
        text += &format!("and {more} more: --json has the first 1,000\n");
    }
    text
}

fn actions(report: &SaleReport) -> String {
    if report.actions.is_empty() {
        return "\nno operator did anything\n".to_owned();
    }
    let mut text = String::from("\n");
    for [at, who, did, about, why] in action_rows(report).take(ROWS_MAX) {
        let about = if about.is_empty() { about } else { format!(" {about}") };
        let why = if why.is_empty() { why } else { format!(": {why}") };
        text += &fitting(&format!("{at}  {who}  {did}{about}{why}"));
    }
    let more = report.actions.len().saturating_sub(ROWS_MAX) as u64 + report.actions_left_out;
    if more > 0 {
        text += &format!("and {more} more: --json has the first 1,000\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Incidents were cut, and nobody could read the rest.
    #[test]
    fn a_long_line_is_there_whole() {
        let line = "word ".repeat(50);
        let shown = fitting(&line);
        assert!(shown.lines().skip(1).all(|line| line.starts_with(INDENT)), "{shown}");
        assert!(shown.lines().all(|line| line.len() <= COLUMNS), "{shown}");
        assert_eq!(shown.split_whitespace().count(), 50);
    }
}
