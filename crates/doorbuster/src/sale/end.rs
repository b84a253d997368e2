//! `doorbuster sale end`: a sale is over for good, once whoever ends it has named it by its title.

use clap::Args;
use serde_json::json;
use server::config::Environment;

use super::by_title::{ByTitle, Intent};
use super::{ENDED, Sale};
use crate::client::{Client, ServerArguments};
use crate::failure::Failure;
use crate::output::{plain, units_of};
use crate::time::format_utc;

/// End the sale for good; payments of held orders go on
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  doorbuster sale end 3 --dry-run
  doorbuster sale end 3
  doorbuster sale end 3 --title \"Winter drop\"      in a script: asks nothing

Nobody can order any more. What is held can still be paid. Ending it twice is ending it once; to stop it for now: `sale pause`.

Exit codes: 0 the sale is over; 1 it can't be ended, or is not there; 64 --title is needed; 69 no server answers.")]
pub(super) struct EndArguments {
    /// The sale's number, as `doorbuster sale list` shows it
    sale: u64,
    #[command(flatten)]
    by_title: ByTitle,

    #[command(flatten)]
    server: ServerArguments,
}

pub(super) fn run(arguments: &EndArguments, environment: &Environment) -> Result<(), Failure> {
    let client = Client::connect(&arguments.server, environment)?;
    let id = arguments.sale;
    let sale = super::find(&client, id)?.ok_or_else(|| Failure::check(format!("there is no sale {id}")))?;
    // Asked to end one again, whoever asks is answered as the first time.
    if sale.state != ENDED || arguments.by_title.dry_run {
        let (says, to, undone) = (&*says(&sale), "end", "nothing was ended");
        if !arguments.by_title.confirm(&Intent { title: &sale.title, says, to, undone })? {
            return Ok(());
        }
    }
    let answer = client.post(&format!("/sales/{id}/end"), &json!({}), None)?;
    super::show(&answer, &arguments.server)
}

fn says(sale: &Sale) -> String {
    let Sale { id, items, ends_at_ms, .. } = sale;
    let units = |of: fn(&super::Item) -> u64| items.iter().map(of).sum::<u64>();
    let (turns, held) = (units(|item| item.turns), units(|item| item.held.unwrap_or(0)));
    let left = units(|item| item.available) + turns;
    let called = match turns {
        0 => String::new(),
        turns => format!(" {} of open turns can still be ordered.", units_of(turns, "")),
    };
    format!(
        "Ends sale {id}, “{}”, which would end at {}, with {} left. {} can still be paid.{called} This can't \
         be undone.\n",
        plain(&sale.title),
        format_utc(*ends_at_ms),
        units_of(left, ""),
        units_of(held, "held ")
    )
}
