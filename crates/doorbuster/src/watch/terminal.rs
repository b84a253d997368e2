//! How much a terminal has room for, and what of a screen is shown on it.
//!
//! Must not: know what the lines say.

use rustix::termios::tcgetwinsize;

use crate::output::{cut, wrapped};

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
