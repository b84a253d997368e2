//! `doorbuster status`: whether a server is ready, and how its sales stand; one screen, and an exit code for scripts.

use std::time::Duration;

use clap::Args;
use serde_json::{Value, json};
use server::config::Environment;

use crate::client::{Client, ServerArguments};
use crate::failure::Failure;
use crate::output::{self, plain};
use crate::sale;

/// A server that has not answered in this time is not well, whatever it is at.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

/// Show whether a running server is ready, and how its newest sales stand.
#[derive(Args, Debug)]
#[command(after_help = "\
Exit codes: 0 it is ready; 1 it runs and is not ready, for the reasons that are printed; 64 the token is not the operator's;
69 no server answers, or none within 5 s, or the address is not a server's own: what stands before servers has no /readyz.

Examples:
  doorbuster status
  doorbuster status --json --server http://10.0.0.11:8080 || page-somebody")]
pub(crate) struct StatusArguments {
    #[command(flatten)]
    server: ServerArguments,
}

pub(crate) fn run(arguments: &StatusArguments, environment: &Environment) -> Result<(), Failure> {
    let client = Client::connect_within(ANSWER_TIMEOUT, &arguments.server, environment)?;
    let (ready, said) = client.readiness()?;
    let reasons: Vec<_> =
        said.lines().map(str::trim).filter(|line| !ready && !line.is_empty()).map(plain).collect();
    // One that is not ready may be unable to show its sales; why it is not is what counts.
    let sales = match sale::newest(&client) {
        Err(_) if !ready => None,
        newest => Some(newest?),
    };
    if arguments.server.json {
        let sales = sales.map(|(answer, _)| answer.read::<Value>()).transpose()?;
        let sales = sales.map(|mut page| page["sales"].take());
        output::print(&format!("{}\n", json!({ "ready": ready, "reasons": reasons, "sales": sales })))?;
    } else {
        let state = if ready { "ready" } else { "NOT READY" };
        let lines: String = reasons.iter().map(|reason| format!("  {reason}\n")).collect();
        let table = sales.map_or_else(String::new, |(_, table)| format!("\n{table}"));
        output::print(&format!("{state}  {}\n{lines}{table}", client.base()))?;
    }
    if ready { Ok(()) } else { Err(Failure::check("the server is not ready")) }
}
