//! What a page is made of, as its template reads it: text and figures, without markup.

use serde::Serialize;

use crate::report::chart::Chart;

#[derive(Debug, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(super) enum Block {
    Section {
        level: u8,
        id: String,
        title: String,
        code: String,
        blocks: Vec<Block>,
    },
    /// Closed at first, unless it is `open`; without an id it is not in the Markdown.
    Folded {
        id: String,
        title: String,
        open: bool,
        blocks: Vec<Block>,
    },
    Text {
        class: &'static str,
        text: String,
    },
    Code {
        text: String,
        fence: String,
    },
    Heading {
        text: String,
    },
    List {
        title: String,
        lines: Vec<String>,
    },
    Charts {
        charts: Vec<Chart>,
    },
    Table {
        titles: Vec<Cell>,
        rows: Vec<Vec<Cell>>,
    },
}

/// A cell of a table, or a word at the head of the page.
#[derive(Debug, Clone, Default, Serialize)]
pub(super) struct Cell {
    pub(super) text: String,
    /// `num`, `num bad`, `good`, `bad`, `open` or nothing.
    pub(super) class: &'static str,
    /// Below the text, smaller.
    pub(super) note: Option<String>,
    /// The id of what it leads to.
    pub(super) link: Option<String>,
}

impl Cell {
    pub(super) fn of(class: &'static str, text: impl Into<String>) -> Self {
        Self { text: text.into(), class, ..Self::default() }
    }

    pub(super) fn words(text: impl Into<String>) -> Self {
        Self::of("", text)
    }

    pub(super) fn figure(text: impl Into<String>) -> Self {
        Self::of("num", text)
    }

    pub(super) fn marked(text: impl Into<String>, good: Option<bool>) -> Self {
        Self::of(good.map_or("open", |good| if good { "good" } else { "bad" }), text)
    }
}

impl Block {
    pub(super) fn section(level: u8, id: &str, title: &str, blocks: Vec<Self>) -> Self {
        Self::Section { level, id: id.to_owned(), title: title.to_owned(), code: String::new(), blocks }
    }

    pub(super) fn folded(id: &str, title: &str, blocks: Vec<Self>) -> Self {
        Self::Folded { id: id.to_owned(), title: title.to_owned(), open: false, blocks }
    }

    pub(super) fn text(class: &'static str, text: impl Into<String>) -> Self {
        Self::Text { class, text: text.into() }
    }

    /// None without a chart; a list likewise without lines.
    pub(super) fn charts(charts: impl IntoIterator<Item = Chart>) -> Option<Self> {
        let charts: Vec<Chart> = charts.into_iter().collect();
        (!charts.is_empty()).then_some(Self::Charts { charts })
    }

    pub(super) fn list(title: &str, lines: Vec<String>) -> Option<Self> {
        (!lines.is_empty()).then(|| Self::List { title: title.to_owned(), lines })
    }

    /// A fence longer than any run of backticks in it can't be ended by it.
    pub(super) fn code(text: &str) -> Self {
        let fence = "`".repeat(3 + text.matches('`').count());
        Self::Code { text: text.trim_end().to_owned(), fence }
    }

    /// Titles as `case|metric`: each stands over its figures, set as the first row is. Columns with nothing in them are
    /// left out.
    pub(super) fn table(titles: &str, rows: impl IntoIterator<Item = Vec<Cell>>) -> Self {
        let mut rows: Vec<Vec<Cell>> = rows.into_iter().collect();
        let title = |(column, title): (usize, &str)| {
            let first = rows.first().and_then(|row| row.get(column));
            let is_figure = first.is_some_and(|cell| cell.class.starts_with("num"));
            Cell::of(if is_figure { "num" } else { "" }, title)
        };
        let mut titles: Vec<Cell> =
            titles.split('|').filter(|of| !of.is_empty()).enumerate().map(title).collect();
        for column in (0..titles.len()).rev() {
            if !rows.is_empty() && rows.iter().all(|row| row[column].text.is_empty()) {
                titles.remove(column);
                rows.iter_mut().for_each(|row| drop(row.remove(column)));
            }
        }
        Self::Table { titles, rows }
    }
}
