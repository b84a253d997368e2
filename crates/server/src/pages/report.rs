//! What operators read beside the console: what a sale came to, and why such a page could not be had.
//!
//! Must not: find anything out. Whatever is shown comes as text.

use minijinja::{Value, context};
use serde::Serialize;

use super::Pages;

/// What a sale came to.
#[derive(Debug, Serialize)]
pub struct ReportView<'a> {
    pub sale: u64,
    pub title: String,
    /// All of it in one sentence.
    pub says: &'a str,
    /// Names, and what there is to say.
    pub lines: Vec<(&'static str, String)>,
    pub tables: Vec<TableView>,
    /// What the audit found; `broken`: a line for each broken invariant.
    pub clean: bool,
    pub complete: bool,
    pub broken: Vec<String>,
    /// The ledger's position.
    pub entry: u64,
    pub entry_at: String,
    /// Those of the sale, and their digest.
    pub entries: u64,
    pub entries_sha256: &'a str,
    /// Of the key that signs; `None`: the server has none.
    pub public_key: Option<String>,
}

#[derive(Debug, Serialize)]
pub struct TableView {
    pub title: String,
    pub columns: Vec<HeadView>,
    pub rows: Vec<Vec<String>>,
    /// Rows that are not shown.
    pub left_out: u64,
    /// Said in the place of a table without rows.
    pub none: &'static str,
}

#[derive(Debug, Serialize)]
pub struct HeadView {
    pub title: &'static str,
    /// Not numbers.
    pub words: bool,
}

impl Pages {
    /// `/console/sales/{sale}/report`: one reader's, so neither kept nor tagged.
    pub fn report(&self, view: &ReportView<'_>) -> Vec<u8> {
        self.operators_html("report.html", "report.css", &Value::from_serialize(view)).into_bytes()
    }

    /// In the place of such a page. `detail`: what happened, for whoever is signed in.
    pub fn operators_trouble(&self, status: u16, code: &str, (title, detail): (&str, &str)) -> Vec<u8> {
        let values = context! { code, title, detail, sign_in => status == 401, again => status == 503 };
        self.operators_html("operators_trouble.html", "report.css", &values).into_bytes()
    }
}
