//! `doorbuster status`: whether a server is ready, and how its sales stand; one screen, and an exit code for scripts.

use clap::Args;
use serde_json::{Value, json};
use server::config::Environment;

use crate::client::{Client, ServerArguments};
use crate::failure::Failure;
use crate::output::{self, plain};
use crate::sale;

/// Show whether a running server is ready, and how its sales stand.
#[derive(Args, Debug)]
#[command(after_help = "\
Exit codes: 0 it is ready; 1 it runs and is not ready, for the reasons that are printed; 64 the token is not the operator's;
69 no server answers.

Examples:
  doorbuster status
  doorbuster status --json --server https://drops.shop.example || page-somebody")]
pub(crate) struct StatusArguments {
    #[command(flatten)]
    server: ServerArguments,
}

pub(crate) fn run(arguments: &StatusArguments, environment: &Environment) -> Result<(), Failure> {
    let client = Client::connect(&arguments.server, environment)?;
    let (ready, said) = client.readiness()?;
    let pages = sale::pages(&client, None)?;
    if arguments.server.json {
        let sales = pages.iter().map(|page| page.read::<Value>()).collect::<Result<Vec<_>, _>>()?;
        let sales = sales.into_iter().flat_map(|mut page| match page["sales"].take() {
            Value::Array(sales) => sales,
            _ => Vec::new(),
        });
        let shown =
            json!({ "ready": ready, "reasons": reasons(ready, &said), "sales": sales.collect::<Vec<_>>() });
        output::print(&format!("{shown}\n"))?;
    } else {
        let state = if ready { "ready" } else { "NOT READY" };
        let lines: String =
            reasons(ready, &said).iter().map(|reason| format!("  {}\n", plain(reason))).collect();
        output::print(&format!("{state}  {}\n{lines}\n{}", client.base(), sale::list(&pages)?))?;
    }
    if ready { Ok(()) } else { Err(Failure::check("the server is not ready")) }
}

/// What it says, a line each.
fn reasons(ready: bool, said: &str) -> Vec<&str> {
    if ready { Vec::new() } else { said.lines().map(str::trim).filter(|line| !line.is_empty()).collect() }
}
