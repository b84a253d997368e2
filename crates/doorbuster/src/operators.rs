//! `doorbuster operators`: who may do what on a running server, and what they did.
//!
//! Must not: keep a token; it is printed once.

use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};
use engine::ROOT;
use serde::Deserialize;
use serde_json::{Value, json};
use server::config::Environment;

use crate::client::{Client, ServerArguments, percent_encoded};
use crate::failure::Failure;
use crate::output::{self, plain};
use crate::time::{format_utc, parse_duration};

/// Add, list and revoke the operators of a server, and show what they did.
#[derive(Args, Debug)]
#[command(after_help = "\
Everybody who works on a sale has a name, a role and a token of their own:

  doorbuster operators add anna --role support --expires 30d > anna.token
  doorbuster operators list
  doorbuster operators revoke anna
  doorbuster operators log --sale 3

  viewer     reads figures, the console, sales and the audit
  support    the same, and reads orders, cancels and refunds them, and settles refunds
  operator   the same, and makes, changes and runs sales
  admin      the same, and corrects stock, erases buyers, confirms the clock, and adds and revokes operators

The token of the configuration (auth.operator_token_file) is root: it may do everything, and stays when all others are revoked.
A token that was revoked ends within 2 s on every server; a cluster's server that can't read the ledger goes on with whom it knew.")]
pub(crate) struct OperatorsArguments {
    #[command(subcommand)]
    command: OperatorsCommand,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Role {
    Viewer,
    Support,
    Operator,
    Admin,
}

#[derive(Subcommand, Debug)]
enum OperatorsCommand {
    /// Add an operator; the token is printed once, on standard output
    Add {
        /// 1 to 32 of a-z, 0-9 and -
        name: String,
        #[arg(long, value_enum)]
        role: Role,
        /// When the token ends by itself, like 12h or 30d [default: when it is revoked]
        #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
        expires: Option<Duration>,
        #[command(flatten)]
        server: ServerArguments,
    },
    /// List the operators
    List {
        #[command(flatten)]
        server: ServerArguments,
    },
    /// Revoke an operator's token, everywhere
    Revoke {
        name: String,
        #[command(flatten)]
        server: ServerArguments,
    },
    /// Show what operators did, the latest first: when, who, what, and why
    Log {
        /// Only what is about this sale
        #[arg(long, value_name = "SALE")]
        sale: Option<u64>,
        /// How many at most
        #[arg(long, value_name = "COUNT", default_value_t = 100)]
        limit: usize,
        #[command(flatten)]
        server: ServerArguments,
    },
}

#[derive(Deserialize)]
struct Added {
    token: String,
}

#[derive(Deserialize)]
struct Listed {
    operators: Vec<Operator>,
}

#[derive(Deserialize)]
struct Operator {
    name: String,
    role: String,
    added_by: String,
    added_at_ms: u64,
    expires_at_ms: Option<u64>,
    expired: bool,
}

#[derive(Deserialize)]
struct Page {
    log: Vec<Value>,
    next_cursor: Option<u64>,
}

#[derive(Deserialize)]
struct Action {
    at_ms: u64,
    who: String,
    what: String,
    sale: Option<u64>,
    about: String,
    why: String,
}

pub(crate) fn run(arguments: &OperatorsArguments, environment: &Environment) -> Result<(), Failure> {
    match &arguments.command {
        OperatorsCommand::Add { name, role, expires, server } => {
            let role = role.to_possible_value().expect("every role has a word");
            let mut body = json!({ "name": name, "role": role.get_name() });
            if let Some(expires) = expires {
                body["expires_s"] = json!(expires.as_secs());
            }
            let answer = Client::connect(server, environment)?.post("/operators", &body, None)?;
            if server.json {
                return output::print(&answer.text());
            }
            output::print(&format!("{}\n", plain(&answer.read::<Added>()?.token)))
        }
        OperatorsCommand::List { server } => {
            let answer = Client::connect(server, environment)?.get("/operators")?;
            if server.json { output::print(&answer.text()) } else { output::print(&list(&answer.read()?)) }
        }
        OperatorsCommand::Revoke { name, server } => {
            if name == ROOT {
                return Err(Failure::check(
                    "root's token is that of the configuration (auth.operator_token_file): to end it, put another into that file \
                     and have the server read it (`systemctl reload`, SIGHUP)",
                ));
            }
            let path = format!("/operators/{}/revoke", percent_encoded(name));
            Client::connect(server, environment)?.post(&path, &json!({}), None)?;
            output::print(&format!(
                "{}: revoked; in 2 s no server that reaches the ledger takes the token. One that does not says so in /readyz, \
                 and takes it until then\n",
                plain(name)
            ))
        }
        OperatorsCommand::Log { sale, limit, server } => {
            log(&Client::connect(server, environment)?, *sale, *limit, server.json)
        }
    }
}

fn list(Listed { operators }: &Listed) -> String {
    let mut text = format!("{:<32}  {:<8}  {:<20}  {:<20}  by\n", "name", "role", "added", "expires");
    for operator in operators {
        let expires = match operator.expires_at_ms {
            _ if operator.expired => "expired".to_owned(),
            Some(at) => format_utc(at),
            None => "when revoked".to_owned(),
        };
        let (name, role, added) =
            (plain(&operator.name), plain(&operator.role), format_utc(operator.added_at_ms));
        text +=
            &format!("{name:<32}  {role:<8}  {added:<20}  {expires:<20}  {}\n", plain(&operator.added_by));
    }
    text
}

/// Page by page, since the server bounds each.
fn log(client: &Client, sale: Option<u64>, limit: usize, as_json: bool) -> Result<(), Failure> {
    let of_sale = sale.map_or_else(String::new, |sale| format!("&sale={sale}"));
    let (mut left, mut cursor) = (limit, String::new());
    while left > 0 {
        let path = format!("/operators/log?limit={}{of_sale}{cursor}", left.min(500));
        let page: Page = client.get(&path)?.read()?;
        for action in page.log.iter().take(left) {
            output::print(&if as_json { format!("{action}\n") } else { line(action)? })?;
        }
        left = left.saturating_sub(page.log.len());
        let Some(next) = page.next_cursor else { break };
        cursor = format!("&cursor={next}");
    }
    Ok(())
}

fn line(action: &Value) -> Result<String, Failure> {
    let Action { at_ms, who, what, sale, about, why } = Action::deserialize(action)
        .map_err(|error| Failure::unavailable(format!("the server's answer is not understood ({error})")))?;
    let sale = sale.map_or_else(String::new, |sale| format!(" sale {sale}"));
    let about = if about.is_empty() { about } else { format!(" {}", plain(&about)) };
    let why = if why.is_empty() { why } else { format!(": {}", plain(&why)) };
    Ok(format!("{}  {}  {}{sale}{about}{why}\n", format_utc(at_ms), plain(&who), plain(&what)))
}
