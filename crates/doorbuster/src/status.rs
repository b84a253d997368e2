//! `doorbuster status`: whether a server is ready, and how it goes there; one screen, and an exit code for scripts.

use std::time::Duration;

use clap::Args;
use serde_json::{Value, json};
use server::config::Environment;

use crate::client::{Client, ServerArguments};
use crate::failure::Failure;
use crate::output::{self, plain};
use crate::{sale, watch};

/// A server that has not answered in this time is not well, whatever it is at.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

/// Show whether a running server is ready, what its verdict is, and how its newest sales stand.
#[derive(Args, Debug)]
#[command(after_help = "\
Exit codes: 0 it is ready, if only for a part of the products, which is printed; 1 it runs and is not ready, for the reasons that are printed; 64 the token is not the operator's;
69 no server answers, or none within 5 s, or the address is not a server's own: what stands before servers has no /readyz. The verdict
and the table of a cluster's servers, as `doorbuster watch` has them, change none of these. A verdict whose figures are older than 5 s
is said to be UNKNOWN; with --json, age_ms is their age.

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
    let reasons = reasons(ready, &said);
    // One that is not ready may be unable to show its sales; why it is not is what counts.
    let sales = match sale::newest(&client) {
        Err(_) if !ready => None,
        newest => Some(newest?),
    };
    // One that is older, or that is not well, may have none.
    let figures = client.get("/figures").ok();
    if arguments.server.json {
        let figures = figures.and_then(|answer| answer.read::<Value>().ok()).unwrap_or_default();
        let sales = sales.map(|(answer, _)| answer.read::<Value>()).transpose()?;
        let sales = sales.map(|mut page| page["sales"].take());
        let (verdict, servers, age_ms) = (&figures["verdict"], &figures["servers"], &figures["age_ms"]);
        let shown = json!({ "ready": ready, "reasons": reasons, "verdict": verdict, "age_ms": age_ms, "servers": servers,
            "sales": sales });
        output::print(&format!("{shown}\n"))?;
    } else {
        let state = if ready { "ready" } else { "NOT READY" };
        let lines: String = reasons.iter().map(|reason| format!("  {reason}\n")).collect();
        let table = sales.map_or_else(String::new, |(_, table)| format!("\n{table}"));
        let glance = figures.and_then(|answer| watch::glance(&answer, client.base()).ok());
        let (verdict, mut machines) = glance.unwrap_or_default();
        if !machines.is_empty() {
            machines.insert(0, '\n');
        }
        output::print(&format!("{state}  {}\n{lines}{verdict}{table}{machines}", client.base()))?;
    }
    if ready { Ok(()) } else { Err(Failure::check("the server is not ready")) }
}

/// Why it is not ready; or of one that is, what can't be bought there: below that are the engines' settings.
fn reasons(ready: bool, said: &str) -> Vec<String> {
    let (first, rest) = said.split_once('\n').unwrap_or((said, ""));
    let lines = match ready {
        true => first.strip_prefix("ready; ").into_iter().collect(),
        false => [&[first][..], &rest.lines().collect::<Vec<_>>()].concat(),
    };
    lines.into_iter().map(str::trim).filter(|line| !line.is_empty()).map(plain).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_is_ready_says_what_can_not_be_bought() {
        let part = "“Hat” can't be bought, other products can: refused";
        let settings = "redis 10.0.0.1:7000: appendonly = yes\n";
        assert_eq!(reasons(true, &format!("ready; {part}\n{settings}")), [part]);
        assert!(reasons(true, &format!("ready\n{settings}")).is_empty());
        assert_eq!(reasons(false, "It stops.\n\n It drains."), ["It stops.", "It drains."]);
        assert_eq!(reasons(false, "ready; or so"), ["ready; or so"]);
    }
}
