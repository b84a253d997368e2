//! `doorbuster demo`: sets a running demo up for a measurement.

use clap::{Args, Subcommand};
use serde_json::json;
use server::config::Environment;

use crate::client::{Client, ServerArguments};
use crate::failure::Failure;
use crate::output;

/// Set up a running demo.
#[derive(Args, Debug)]
pub(crate) struct DemoArguments {
    #[command(subcommand)]
    command: DemoCommand,
}

#[derive(Subcommand, Debug)]
enum DemoCommand {
    /// Set the units of every good of the shop behind /order/submit
    #[command(after_help = "\
The published plan of that shop sends 400,000 orders at 1,000 goods. With 10 units each exactly 10,000 of them
can be sold; to measure speed, load enough for all:

  doorbuster demo load --balance 10 --data-dir var/demo
  doorbuster demo load --balance 1000000 --data-dir var/demo")]
    Load {
        /// Units of each good, from now on
        #[arg(long, value_name = "N")]
        balance: u64,
        #[command(flatten)]
        server: ServerArguments,
    },
}

pub(crate) fn run(arguments: &DemoArguments, environment: &Environment) -> Result<(), Failure> {
    let DemoCommand::Load { balance, server } = &arguments.command;
    let client = Client::connect(server, environment)?;
    let answer = client.post("/demo/load", &json!({ "balance": balance }), None)?;
    if server.json {
        return output::print(&answer.text());
    }
    output::print(&format!("every good of the shop has {balance} units\n"))
}
