//! What people read on standard output: text and tables. Machines ask for `--json`.

use std::fmt::Write as _;
use std::io::{self, Write as _};

pub(crate) use engine::plain;
use server::figures::grouped;
pub(crate) use server::reported::{Column, money, numbers, words};
use unicode_width::UnicodeWidthStr as _;

use crate::failure::Failure;

/// Writes a text and flushes it, so that a reader who left is noticed.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    let mut output = io::stdout().lock();
    output.write_all(text.as_bytes())?;
    output.flush()?;
    Ok(())
}

/// Lays rows out under their columns' titles, two spaces apart.
pub(crate) fn table<const N: usize>(columns: [Column; N], rows: &[[String; N]]) -> String {
    table_without(None, columns, rows)
}

/// The same without a column.
pub(crate) fn table_without<const N: usize>(
    left_out: Option<usize>,
    columns: [Column; N],
    rows: &[[String; N]],
) -> String {
    let widths: [usize; N] = std::array::from_fn(|column| {
        let cells = rows.iter().map(|row| row[column].width());
        cells.chain([columns[column].title.len()]).max().unwrap_or(0)
    });
    let titles: [String; N] = std::array::from_fn(|column| columns[column].title.to_owned());
    let mut text = String::new();
    for row in std::iter::once(&titles).chain(rows) {
        let mut line = String::new();
        let cells = row.iter().zip(columns.iter().zip(widths)).enumerate();
        for (_, (cell, (column, width))) in cells.filter(|(at, _)| Some(*at) != left_out) {
            let room = " ".repeat(width - cell.width());
            let written =
                if column.right { write!(line, "{room}{cell}  ") } else { write!(line, "{cell}{room}  ") };
            written.expect("a String takes every write");
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// How many cells of a terminal it takes: a character of Chinese has two, an accent that is combined with a letter none.
pub(crate) fn width(text: &str) -> usize {
    text.width()
}

/// As much of a text as so many cells have room for.
pub(crate) fn within(text: &str, cells: usize) -> &str {
    let ends = text.char_indices().map(|(at, character)| at + character.len_utf8());
    let end = ends.take_while(|end| text[..*end].width() <= cells).last();
    &text[..end.unwrap_or(0)]
}

/// The beginning of a text, with a sign that it goes on.
pub(crate) fn cut(text: &str, cells: usize) -> String {
    if text.width() <= cells {
        text.to_owned()
    } else {
        within(text, cells.saturating_sub(1)).to_owned() + "…"
    }
}

/// A line in parts of so many cells at most, between words where that is possible.
pub(crate) fn wrapped(line: &str, columns: usize) -> Vec<String> {
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

/// `kind`: of them, such as "held ".
pub(crate) fn units_of(count: u64, kind: &str) -> String {
    format!("{} {kind}unit{}", grouped(count), if count == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_align_words_left_and_numbers_right() {
        let rows = [["Shoe".to_owned(), "7".to_owned()], ["Größe".to_owned(), "12345678".to_owned()]];
        let text = table([words("title"), numbers("sold")], &rows);
        assert_eq!(text, "title      sold\nShoe          7\nGröße  12345678\n");
        let without = table_without(Some(0), [words("title"), numbers("sold")], &rows);
        assert_eq!(without, "    sold\n       7\n12345678\n");
    }

    /// Columns were counted in characters: behind a title in Chinese nothing stood below its head.
    #[test]
    fn columns_stand_below_each_other_whatever_the_titles_are_written_in() {
        let rows =
            ["限定スニーカー", "Shoe 👟", "Cafe\u{301}"].map(|title| [title.to_owned(), "7".to_owned()]);
        let text = table([words("title"), numbers("sold")], &rows);
        let expected =
            "title           sold\n限定スニーカー     7\nShoe 👟            7\nCafe\u{301}               7\n";
        assert_eq!(text, expected);
        for (text, cells, expected) in [
            ("限定スニ", 8, "限定スニ"),
            ("限定スニ", 7, "限定ス…"),
            ("限定スニ", 6, "限定…"),
            ("Cafe\u{301}", 4, "Cafe\u{301}"),
            ("e\u{301}e\u{301}e\u{301}", 2, "e\u{301}…"),
            ("äöüß", 3, "äö…"),
            ("", 0, ""),
        ] {
            assert_eq!(cut(text, cells), expected, "{text} in {cells}");
        }
    }

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

    #[test]
    fn one_unit_is_one() {
        let held = [0, 1, 1_200].map(|count| units_of(count, "held "));
        assert_eq!(held, ["0 held units", "1 held unit", "1,200 held units"]);
    }

    #[test]
    fn money_has_the_decimals_of_its_currency() {
        assert_eq!(money(4999, "EUR"), "49.99 EUR");
        assert_eq!(money(5, "USD"), "0.05 USD");
        assert_eq!(money(500, "JPY"), "500 JPY");
        assert_eq!(money(4999, "KWD"), "4.999 KWD");
    }

    #[test]
    fn text_from_elsewhere_drives_no_terminal() {
        assert_eq!(plain("a\x1b[2Jb\n"), "a\u{fffd}[2Jb\u{fffd}");
    }
}
