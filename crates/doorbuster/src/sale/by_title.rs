//! What can't be undone is done once whoever does it has named the sale by its title. Must not: do it.

use std::io::{self, BufRead, IsTerminal, Read, Write};

use clap::Args;
use engine::limits;

use crate::failure::Failure;
use crate::output::{self, plain};

#[derive(Args, Debug)]
pub(super) struct ByTitle {
    /// The sale's title, so that nothing is asked
    #[arg(long)]
    title: Option<String>,
    /// Show what would be done, and do nothing
    #[arg(long)]
    pub(super) dry_run: bool,
}

/// What is about to be done to a sale.
pub(super) struct Intent<'a> {
    pub(super) title: &'a str,
    /// A line that says all of it.
    pub(super) says: &'a str,
    /// `delete`.
    pub(super) to: &'static str,
    /// `nothing was deleted`.
    pub(super) undone: &'static str,
}

impl ByTitle {
    /// Whether it is to be done: the title was given, or is typed, and it is not only shown.
    pub(super) fn confirm(&self, intent: &Intent<'_>) -> Result<bool, Failure> {
        let Intent { title, says, to, undone } = *intent;
        if self.dry_run {
            return output::print(&format!("{says}{undone}\n")).map(|()| false);
        }
        let wrong = || Failure::check(format!("{undone}: the title is “{}”", plain(title)));
        if let Some(given) = &self.title {
            return if is_named(given, title) { Ok(true) } else { Err(wrong()) };
        }
        let (input, mut errors) = (io::stdin(), io::stderr());
        if !input.is_terminal() || !errors.is_terminal() {
            return Err(Failure::usage(format!("{undone}: name the sale by --title")));
        }
        write!(errors, "{says}Its title, to {to} it: ").map_err(Failure::unavailable)?;
        let mut typed = String::new();
        let bytes_max = limits::TITLE_BYTES_MAX as u64 + 2;
        input.lock().take(bytes_max).read_line(&mut typed).map_err(Failure::unavailable)?;
        if is_named(&typed, title) { Ok(true) } else { Err(wrong()) }
    }
}

/// Whether this is the title as it is read: on a page, spaces at its ends and doubled ones are not seen.
fn is_named(typed: &str, title: &str) -> bool {
    typed.split_whitespace().eq(title.split_whitespace())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_title_is_typed_as_it_is_read() {
        for (typed, title, named) in [
            ("Winter drop", "Winter drop", true),
            ("Winter drop\n", "Winter drop ", true),
            ("Winter drop ", "Winter drop", true),
            ("Winter drop", " Winter  drop", true),
            ("Winter  drop", "Winter drop", true),
            ("Winterdrop", "Winter drop", false),
            ("winter drop", "Winter drop", false),
            ("Winter", "Winter drop", false),
            ("", "Winter drop", false),
        ] {
            assert_eq!(is_named(typed, title), named, "{typed:?} for {title:?}");
        }
    }
}
