//! HTML from text: everything that is put into a page goes through [`escaped`] here, and tags are made in pairs.

use std::fmt::Write as _;

/// Text is text, in an element and in an attribute's quotes.
pub(super) fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            // HTML has no such characters, escaped or not.
            c if c.is_control() && !matches!(c, '\n' | '\t') => safe.push('\u{fffd}'),
            c => safe.push(c),
        }
    }
    safe
}

/// An element with text in it. `tag` may have attributes: `p class="note"`.
pub(super) fn text(tag: &str, text: &str) -> String {
    element(tag, &escaped(text))
}

/// An element with markup in it.
pub(super) fn element(tag: &str, inner: &str) -> String {
    let name = tag.split(' ').next().unwrap_or(tag);
    format!("<{tag}>{inner}</{name}>\n")
}

/// A titled list; nothing at all without lines.
pub(super) fn list(title: &str, lines: impl IntoIterator<Item = String>) -> String {
    let items: String = lines.into_iter().map(|line| text("li", &line)).collect();
    if items.is_empty() {
        return items;
    }
    text("h3", title) + &element("ul", &items)
}

/// A cell of a table.
#[derive(Debug, Clone)]
pub(super) struct Cell {
    pub(super) text: String,
    /// `num`, `num bad`, `good`, `bad`, `open` or nothing.
    pub(super) class: &'static str,
    /// Below the text, smaller.
    pub(super) note: Option<String>,
}

impl Cell {
    pub(super) fn words(text: impl Into<String>) -> Self {
        Self { text: text.into(), class: "", note: None }
    }

    pub(super) fn figure(text: impl Into<String>) -> Self {
        Self { text: text.into(), class: "num", note: None }
    }

    pub(super) fn marked(text: impl Into<String>, good: Option<bool>) -> Self {
        let class = match good {
            Some(true) => "good",
            Some(false) => "bad",
            None => "open",
        };
        Self { text: text.into(), class, note: None }
    }
}

/// Wide tables scroll by themselves, so that the page does not.
pub(super) fn table(titles: &[&str], rows: impl IntoIterator<Item = Vec<Cell>>) -> String {
    let mut body = String::new();
    // A title stands over its figures: set as the first row is.
    let mut classes: Vec<&str> = Vec::new();
    for row in rows {
        if classes.is_empty() {
            classes = row.iter().map(|cell| if cell.class.starts_with("num") { "num" } else { "" }).collect();
        }
        let mut cells = String::new();
        for cell in row {
            let note = cell.note.map(|note| text("small", &note)).unwrap_or_default();
            let inner = escaped(&cell.text) + &note;
            write!(cells, "<td class=\"{}\">{inner}</td>", cell.class).expect("a String takes every write");
        }
        body.push_str(&element("tr", &cells));
    }
    let class = |column: usize| classes.get(column).copied().unwrap_or_default();
    let title = |(column, title): (usize, &&str)| {
        text(&format!("th scope=\"col\" class=\"{}\"", class(column)), title)
    };
    let head: String = titles.iter().enumerate().map(title).collect();
    let head = if titles.iter().all(|title| title.is_empty()) {
        String::new()
    } else {
        element("thead", &element("tr", &head))
    };
    let table = element("table", &(head + &element("tbody", &body)));
    // Scrolled by the keyboard too.
    element("div class=\"scroll\" tabindex=\"0\"", &table)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_gets_out_of_an_element_or_an_attribute() {
        assert_eq!(escaped("<a href=\"x\">&'\u{1}"), "&lt;a href=&quot;x&quot;&gt;&amp;&#39;\u{fffd}");
        assert_eq!(text("p class=\"note\"", "<b>"), "<p class=\"note\">&lt;b&gt;</p>\n");
        assert_eq!(list("none", []), "");
    }
}
