//! `doorbuster buyers`: that what names a buyer is removed.
//!
//! Must not: show buyers; the feed does.

use clap::{Args, Subcommand};
use serde_json::json;
use server::config::Environment;

use crate::client::{Client, ServerArguments};
use crate::failure::Failure;
use crate::output::{self, plain};

/// Remove what names a buyer.
#[derive(Args, Debug)]
#[command(after_help = "\
When somebody asks to be forgotten:

  doorbuster buyers erase anna@example.org     by the name that the shop's tokens have for the buyer

The name is gone from the ledger when the command ends, the addresses of the orders so far soon after it: orders have no index by
buyer, so all that may have an address are gone through, and the server's log says when. Orders, payments and limits stay as
they are; lists and exports name the buyer `erased:` and a hash. A buyer who is a number keeps it: it names nobody without
the shop's accounts.

What is not removed: orders that are pending (erase again after them), backups, the logs of MySQL and RocketMQ, which end by
themselves, and whatever the shop has fetched.")]
pub(crate) struct BuyersArguments {
    #[command(subcommand)]
    command: BuyersCommand,
}

#[derive(Subcommand, Debug)]
enum BuyersCommand {
    /// Remove the names of these buyers, and the addresses of their orders
    Erase {
        /// The shop's names for the buyers, as tokens and the feed have them
        #[arg(required = true, value_name = "BUYER")]
        buyers: Vec<String>,
        #[command(flatten)]
        server: ServerArguments,
    },
}

pub(crate) fn run(arguments: &BuyersArguments, environment: &Environment) -> Result<(), Failure> {
    let BuyersCommand::Erase { buyers, server } = &arguments.command;
    let client = Client::connect(server, environment)?;
    for buyer in buyers {
        let answer = client.post("/buyers/erase", &json!({ "buyer": buyer }), None);
        let answer = answer.map_err(|failure| failure.of(&plain(buyer)))?;
        let text = if server.json {
            answer.text()
        } else {
            format!("{}: the name is erased; the addresses of the orders so far follow\n", plain(buyer))
        };
        output::print(&text)?;
    }
    Ok(())
}
