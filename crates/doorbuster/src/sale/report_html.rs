//! The report of a sale as a page in one file, to be sent on or printed: it loads nothing.
//!
//! Must not: find anything out, or say anything that the terminal does not.

use std::path::Path;

use minijinja::Environment;
use serde::Serialize;
use server::pages::TableView;
use server::reported::{Reported, lines, page_tables};

use crate::failure::Failure;
use crate::new_file::NewFile;

/// The name's ending is what has texts escaped.
const TEMPLATE: (&str, &str) = ("report.html", include_str!("../../templates/report.html"));

#[derive(Serialize)]
struct Page<'a> {
    title: &'a str,
    says: &'a str,
    lines: Vec<(&'static str, String)>,
    tables: Vec<TableView>,
}

pub(super) fn write(file: &Path, reported: &Reported) -> Result<NewFile, Failure> {
    let page = Page {
        title: &reported.report.title,
        says: &reported.says,
        lines: lines(reported),
        tables: page_tables(reported, usize::MAX),
    };
    let mut templates = Environment::new();
    templates.add_template(TEMPLATE.0, TEMPLATE.1).expect("a template that is compiled in is right");
    let template = templates.get_template(TEMPLATE.0).expect("it was just added");
    let text = template.render(page).expect("the template asks for nothing that the page does not have");
    NewFile::write(file, text.as_bytes())
}
