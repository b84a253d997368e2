//! `doorbuster sale delete`: a sale that has not started goes, once whoever deletes it has named it by its title.

use clap::Args;
use serde_json::json;
use server::config::Environment;

use super::Sale;
use super::by_title::{ByTitle, Intent};
use crate::client::{Client, ServerArguments};
use crate::failure::Failure;
use crate::output::{self, plain};
use crate::time::format_utc;

/// Delete a sale before it starts, for good
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  doorbuster sale delete 3 --dry-run
  doorbuster sale delete 3
  doorbuster sale delete 3 --title \"Winter drop\"      in a script: asks nothing

A sale that has started, or has orders, is not deleted: end it. Where several servers sell, that holds from a minute before
the start. Whoever has its page open finds no sale there. Its number is never used again. Deleting it twice is deleting it once.

Exit codes: 0 the sale is deleted; 1 it can't be, or is not there; 64 --title is needed; 69 no server answers.")]
pub(super) struct DeleteArguments {
    /// The sale's number, as `doorbuster sale list` shows it
    sale: u64,
    #[command(flatten)]
    by_title: ByTitle,

    #[command(flatten)]
    server: ServerArguments,
}

pub(super) fn run(arguments: &DeleteArguments, environment: &Environment) -> Result<(), Failure> {
    let client = Client::connect(&arguments.server, environment)?;
    let id = arguments.sale;
    // One that is not there may have been deleted before: the server says so by answering as then.
    if let Some(sale) = super::find(&client, id)? {
        let (says, to, undone) = (&*says(&sale), "delete", "nothing was deleted");
        if !arguments.by_title.confirm(&Intent { title: &sale.title, says, to, undone })? {
            return Ok(());
        }
    } else if arguments.by_title.dry_run {
        return Err(Failure::check(format!("there is no sale {id}")));
    }
    client.post(&format!("/sales/{id}/delete"), &json!({}), None)?;
    output::print(&format!("sale {id} is deleted\n"))
}

fn says(sale: &Sale) -> String {
    let Sale { id, items, starts_at_ms, .. } = sale;
    let items = if items.len() == 1 { "1 item".to_owned() } else { format!("{} items", items.len()) };
    format!(
        "Deletes sale {id}, “{}”, with {items}, before it starts at {}. Whoever has its page open finds no sale there. This \
         can't be undone.\n",
        plain(&sale.title),
        format_utc(*starts_at_ms)
    )
}
