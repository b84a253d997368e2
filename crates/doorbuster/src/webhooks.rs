//! `doorbuster webhooks`: how far the shop's endpoints have come, and what to do when one did not hear.

use std::thread;
use std::time::{Duration, Instant};

use clap::{Args, Subcommand};
use serde::Deserialize;
use serde_json::json;
use server::config::Environment;

use crate::client::{Client, ServerArguments};
use crate::failure::Failure;
use crate::output::{self, numbers, plain, words};
use crate::time::format_utc;

/// The endpoint may take this long to answer a test, and what is being sent before it.
const PATIENCE: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_millis(100);

/// Look at the shop's endpoints, test them, and send again what they missed.
#[derive(Args, Debug)]
#[command(after_help = "\
The shop is notified of what becomes of orders at the endpoints of [[webhooks.endpoints]] in the server's configuration:

  doorbuster webhooks list
  doorbuster webhooks test shop                 sends webhook.test and says what the endpoint answered
  doorbuster webhooks disable shop              while the shop is being worked on: nothing is lost
  doorbuster webhooks enable shop
  doorbuster webhooks replay shop --since 4711  every event after sequence 4711 again, under the ids that they had

An event that is not answered with 2xx is tried again after 5 seconds, and then more and more rarely for three days; then it is
given up, and counted in `list` and in the log. Every event stays in the ledger, so `replay` can send it whenever the shop wants.")]
pub(crate) struct WebhooksArguments {
    #[command(subcommand)]
    command: WebhooksCommand,
}

#[derive(Subcommand, Debug)]
enum WebhooksCommand {
    /// Show each endpoint: how far it has come, what waits, what was given up
    List {
        #[command(flatten)]
        server: ServerArguments,
    },
    /// Send an event that means nothing, and show what came of it
    Test {
        #[command(flatten)]
        named: Named,
    },
    /// Send nothing to an endpoint until it is enabled
    Disable {
        #[command(flatten)]
        named: Named,
    },
    /// Send to an endpoint again: what it missed, and what comes
    Enable {
        #[command(flatten)]
        named: Named,
    },
    /// Send events again, also those that were answered or given up
    Replay {
        #[command(flatten)]
        named: Named,
        /// The sequence of an event: every one after it is sent again. 0 is the beginning of the ledger
        #[arg(long, value_name = "SEQUENCE")]
        since: u64,
    },
}

#[derive(Args, Debug)]
struct Named {
    /// The endpoint's name in the configuration
    #[arg(value_name = "ENDPOINT")]
    name: String,
    #[command(flatten)]
    server: ServerArguments,
}

#[derive(Deserialize)]
struct Endpoints {
    endpoints: Vec<Endpoint>,
}

/// As the API gives it.
#[derive(Deserialize)]
struct Endpoint {
    name: String,
    url: String,
    here: bool,
    disabled: bool,
    sent_to: u64,
    waiting: u64,
    waiting_since_ms: Option<u64>,
    given_up: u64,
    paused_until_ms: Option<u64>,
    latest_error: String,
    test: Option<u64>,
    test_error: String,
}

#[derive(Deserialize)]
struct Asked {
    test: Option<u64>,
}

pub(crate) fn run(arguments: &WebhooksArguments, environment: &Environment) -> Result<(), Failure> {
    match &arguments.command {
        WebhooksCommand::List { server } => {
            let answer = Client::connect(server, environment)?.get("/webhooks")?;
            let text = if server.json { answer.text() } else { list(&answer.read::<Endpoints>()?.endpoints) };
            output::print(&text)
        }
        WebhooksCommand::Test { named } => test(named, environment),
        WebhooksCommand::Disable { named } => set(named, environment, true),
        WebhooksCommand::Enable { named } => set(named, environment, false),
        WebhooksCommand::Replay { named, since } => {
            let answer = ask(named, environment, "replay", &json!({ "since": since }))?;
            say(named, answer, &format!("every event after {since} is sent again"))
        }
    }
}

/// Asks for a change; returns the answer's text.
fn ask(
    named: &Named,
    environment: &Environment,
    what: &str,
    body: &serde_json::Value,
) -> Result<String, Failure> {
    let client = Client::connect(&named.server, environment)?;
    let answer = client.post(&format!("/webhooks/{}/{what}", plain(&named.name)), body, None);
    Ok(answer.map_err(|failure| failure.of(&plain(&named.name)))?.text())
}

fn say(named: &Named, answer: String, done: &str) -> Result<(), Failure> {
    output::print(&if named.server.json { answer } else { format!("{}: {done}\n", plain(&named.name)) })
}

/// Disables or enables, and waits until that is so.
fn set(named: &Named, environment: &Environment, disabled: bool) -> Result<(), Failure> {
    let what = if disabled { "disable" } else { "enable" };
    let answer = ask(named, environment, what, &json!({}))?;
    wait(named, environment, |found| (found.disabled == disabled).then_some(()))?;
    let done = if disabled {
        "nothing is sent to it until it is enabled"
    } else {
        "what it missed is sent, and what comes"
    };
    say(named, answer, done)
}

/// Looks at the endpoint until it is as it is waited for.
fn wait<T>(
    named: &Named,
    environment: &Environment,
    found: impl Fn(&Endpoint) -> Option<T>,
) -> Result<T, Failure> {
    let (client, started) = (Client::connect(&named.server, environment)?, Instant::now());
    loop {
        let endpoints = client.get("/webhooks")?.read::<Endpoints>()?.endpoints;
        let endpoint = endpoints.iter().find(|endpoint| endpoint.name == named.name);
        if let Some(found) = endpoint.and_then(&found) {
            return Ok(found);
        }
        if started.elapsed() > PATIENCE {
            let name = plain(&named.name);
            return Err(Failure::check(format!("{name}: not done within {PATIENCE:?}; see `webhooks list`")));
        }
        thread::sleep(PAUSE);
    }
}

/// Waits until the endpoint's sender has come to the test.
fn test(named: &Named, environment: &Environment) -> Result<(), Failure> {
    let answer = ask(named, environment, "test", &json!({}))?;
    let number = serde_json::from_str::<Asked>(&answer).map_err(Failure::unavailable)?.test;
    let tested = |found: &Endpoint| (found.test >= number).then(|| found.test_error.clone());
    match wait(named, environment, tested)?.as_str() {
        "" => output::print(&format!("{}: answered well\n", plain(&named.name))),
        error => Err(Failure::check(format!("{}: {}", plain(&named.name), plain(error)))),
    }
}

fn list(endpoints: &[Endpoint]) -> String {
    if endpoints.is_empty() {
        return "no endpoints: [[webhooks.endpoints]] of the server's configuration has none\n".to_owned();
    }
    let state = |endpoint: &Endpoint| match (endpoint.disabled, endpoint.paused_until_ms, endpoint.here) {
        (true, ..) => "disabled".to_owned(),
        (false, Some(until), _) => format!("paused until {}", format_utc(until)),
        (false, None, true) => "on".to_owned(),
        (false, None, false) => "on, at another server".to_owned(),
    };
    let rows: Vec<_> = endpoints
        .iter()
        .map(|endpoint| {
            [
                plain(&endpoint.name),
                state(endpoint),
                endpoint.sent_to.to_string(),
                endpoint.waiting.to_string(),
                endpoint.waiting_since_ms.map_or_else(|| "-".to_owned(), format_utc),
                endpoint.given_up.to_string(),
                plain(&endpoint.url),
                plain(&endpoint.latest_error),
            ]
        })
        .collect();
    let columns = [
        words("endpoint"),
        words("state"),
        numbers("sent to"),
        numbers("waiting"),
        words("since"),
        numbers("given up"),
        words("url"),
        words("latest error"),
    ];
    output::table(columns, &rows)
}
