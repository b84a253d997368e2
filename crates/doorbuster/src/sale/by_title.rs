//! What can't be undone is done once whoever does it has named the sale by its title. Must not: do it.

use std::io::{self, BufRead, IsTerminal, Read, Write};

use engine::limits;

use crate::failure::Failure;
use crate::output::plain;

/// Goes on if the title was given, or is typed. `intent`: a line that says what is done; `to`: `delete`; `undone`: `nothing was deleted`.
pub(super) fn confirm(
    title: &str,
    given: Option<&str>,
    intent: &str,
    [to, undone]: [&str; 2],
) -> Result<(), Failure> {
    let wrong = || Failure::check(format!("{undone}: the title is {:?}", plain(title)));
    if let Some(given) = given {
        return if given == title { Ok(()) } else { Err(wrong()) };
    }
    let (input, mut errors) = (io::stdin(), io::stderr());
    if !input.is_terminal() || !errors.is_terminal() {
        return Err(Failure::usage(format!("{undone}: name the sale by --title")));
    }
    write!(errors, "{intent}Its title, to {to} it: ").map_err(Failure::unavailable)?;
    let mut typed = String::new();
    let bytes_max = limits::TITLE_BYTES_MAX as u64 + 2;
    input.lock().take(bytes_max).read_line(&mut typed).map_err(Failure::unavailable)?;
    if typed.trim() == title.trim() { Ok(()) } else { Err(wrong()) }
}
