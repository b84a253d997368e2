//! The report of a sale as a page in one file, to be sent on or printed: it loads nothing.
//!
//! Must not: find anything out, or say anything that the terminal does not.

use std::path::Path;

use minijinja::Environment;
use serde::Serialize;

use super::report::Reported;
use super::report_text::{self, ACTIONS, HAPPENED, INCIDENTS, LINES, REFUSED, TIMES, UNITS};
use crate::failure::Failure;
use crate::new_file::NewFile;
use crate::output::Column;

/// The name's ending is what has texts escaped.
const TEMPLATE: (&str, &str) = ("report.html", include_str!("../../templates/report.html"));

#[derive(Serialize)]
struct Page<'a> {
    title: &'a str,
    says: &'a str,
    lines: Vec<(&'static str, String)>,
    tables: Vec<Table>,
}

#[derive(Serialize)]
struct Table {
    title: String,
    columns: Vec<Head>,
    rows: Vec<Vec<String>>,
}

#[derive(Serialize)]
struct Head {
    title: &'static str,
    words: bool,
}

pub(super) fn write(file: &Path, reported: &Reported) -> Result<NewFile, Failure> {
    let report = &reported.report;
    let refused = report_text::refused_title(reported);
    let of_the_night = [
        table("Incidents", INCIDENTS, report_text::incident_rows(reported)),
        table(&refused, REFUSED, report_text::refused_rows(reported)),
    ];
    let mut tables = vec![
        table("Units", UNITS, report_text::unit_rows(report)),
        table("Orders, and times after the start", TIMES, report_text::time_rows(report)),
    ];
    let lines = table(
        "Waited in line, from the start or from joining, until called",
        LINES,
        report_text::line_rows(report),
    );
    // Of what is empty a line says why, and most sales have no line.
    tables.extend([lines].into_iter().chain(of_the_night).filter(|table| !table.rows.is_empty()));
    tables.push(table("What happened", HAPPENED, report_text::happened_rows(report)));
    tables.push(table("What operators did", ACTIONS, report_text::action_rows(report)));
    let page =
        Page { title: &report.title, says: &reported.says, lines: report_text::lines(reported), tables };
    let mut templates = Environment::new();
    templates.add_template(TEMPLATE.0, TEMPLATE.1).expect("a template that is compiled in is right");
    let template = templates.get_template(TEMPLATE.0).expect("it was just added");
    let text = template.render(page).expect("the template asks for nothing that the page does not have");
    NewFile::write(file, text.as_bytes())
}

fn table<const N: usize>(
    title: &str,
    columns: [Column; N],
    rows: impl Iterator<Item = [String; N]>,
) -> Table {
    let columns = columns.iter().map(|column| Head { title: column.title, words: !column.right }).collect();
    Table { title: title.to_owned(), columns, rows: rows.map(Vec::from).collect() }
}
