//! How much a terminal has room for, and what of a screen is shown on it.
//!
//! Must not: know what the lines say.

use rustix::termios::tcgetwinsize;

/// Of a terminal that does not say how large it is.
const USUAL: Size = Size { rows: 24, columns: 80 };
/// A terminal that has fewer shows as much as it can, and not how much is missing.
const ROWS_WITH_REST_MIN: usize = 5;

/// In characters.
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

/// A line in parts of so many characters at most, between words where that is possible.
fn wrapped(line: &str, columns: usize) -> Vec<String> {
    let columns = columns.max(1);
    let chars: Vec<char> = line.chars().collect();
    let (mut rest, mut parts) = (&chars[..], Vec::new());
    while rest.len() > columns {
        let space = rest[..=columns].iter().rposition(|c| *c == ' ').filter(|at| *at > 0);
        let (part, after) = rest.split_at(space.unwrap_or(columns));
        parts.push(part.iter().collect::<String>().trim_end().to_owned());
        rest = &after[after.iter().take_while(|c| **c == ' ').count()..];
    }
    parts.push(rest.iter().collect());
    parts
}

/// The beginning of a text, with a sign that it goes on.
pub(super) fn cut(text: &str, chars_max: usize) -> String {
    if text.chars().count() <= chars_max {
        return text.to_owned();
    }
    text.chars().take(chars_max.saturating_sub(1)).chain(['…']).collect()
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
        ] {
            assert_eq!(wrapped(line, columns), parts, "{line:?} in {columns}");
        }
        assert_eq!((cut("äöü", 3), cut("äöüß", 3)), ("äöü".to_owned(), "äö…".to_owned()));
    }
}
