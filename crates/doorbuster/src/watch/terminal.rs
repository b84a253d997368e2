//! How much a terminal has room for, and what of a screen is shown on it.
//!
//! Must not: know what the lines say.

use rustix::termios::tcgetwinsize;

use crate::output::{cut, width, within};

/// Of a terminal that does not say how large it is.
const USUAL: Size = Size { rows: 24, columns: 80 };
/// A terminal that has fewer shows as much as it can, and not how much is missing.
const ROWS_WITH_REST_MIN: usize = 5;

/// In cells.
#[derive(Clone, Copy, Debug)]
pub(super) struct Size {
    pub(super) rows: usize,
    pub(super) columns: usize,
}

impl Size {
    /// Of the one that standard output is, at this moment.
    pub(super) fn of_terminal() -> Size {
        match tcgetwinsize(std::io::stdout()) {
            Ok(found) if found.ws_row > 0 && found.ws_col > 0 => {
                Size { rows: found.ws_row.into(), columns: found.ws_col.into() }
            }
            _ => USUAL,
        }
    }
}

/// One of a screen.
pub(super) enum Line {
    /// Goes on in the next one if it is too long.
    Words(String),
    /// Of a table: cut if it is too long.
    Row(String),
    /// As above, the one that shows a sale.
    Sale(String),
}

/// The first of these for which there is room above the cursor's line; the last then says how much is not shown. `named`: it is about
/// one sale already.
pub(super) fn fit(lines: &[Line], Size { rows, columns }: Size, named: bool) -> String {
    let room = rows.saturating_sub(1);
    let mut drawn = Vec::new();
    for line in lines {
        match line {
            Line::Words(words) => drawn.extend(wrapped(words, columns).into_iter().map(|part| (part, false))),
            Line::Row(row) => drawn.push((cut(row, columns), false)),
            Line::Sale(row) => drawn.push((cut(row, columns), true)),
        }
    }
    if drawn.len() > room && rows >= ROWS_WITH_REST_MIN {
        let rest = drawn.split_off(room - 1);
        let sales = match rest.iter().filter(|(_, is_sale)| *is_sale).count() {
            0 => String::new(),
            1 => ", 1 sale among them".to_owned(),
            sales => format!(", {sales} sales among them"),
        };
        let how = if named { "a larger terminal shows them" } else { "a larger terminal, or `watch SALE`" };
        drawn.push((cut(&format!("{} lines more{sales}: {how}", rest.len()), columns), false));
    }
    drawn.into_iter().take(room).map(|(line, _)| line + "\n").collect()
}

/// A line in parts of so many cells at most, between words where that is possible.
fn wrapped(line: &str, columns: usize) -> Vec<String> {
    let (mut rest, mut parts) = (line, Vec::new());
    while width(rest) > columns {
        // A character that is wider than the terminal is a part all the same.
        let first = rest.chars().next().map_or(0, char::len_utf8);
        let room = within(rest, columns).len().max(first);
        let ends_word = rest[room..].starts_with(' ');
        let space = if ends_word { Some(room) } else { rest[..room].rfind(' ').filter(|at| *at > 0) };
        let (part, after) = rest.split_at(space.unwrap_or(room));
        parts.push(part.trim_end().to_owned());
        rest = after.trim_start_matches(' ');
    }
    if !rest.is_empty() || parts.is_empty() {
        parts.push(rest.to_owned());
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_line_goes_on_in_the_next_between_words() {
        for (line, columns, parts) in [
            ("", 5, &[""][..]),
            ("one two", 7, &["one two"]),
            ("one two", 6, &["one", "two"]),
            ("one  two three", 8, &["one  two", "three"]),
            ("one  two", 4, &["one", "two"]),
            ("longer than that", 4, &["long", "er", "than", "that"]),
            ("äöüß", 2, &["äö", "üß"]),
            ("限定 スニーカー", 9, &["限定", "スニーカ", "ー"]),
            ("限定", 1, &["限", "定"]),
        ] {
            assert_eq!(wrapped(line, columns), parts, "{line:?} in {columns}");
        }
    }
}
