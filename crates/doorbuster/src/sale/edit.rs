//! `doorbuster sale edit`: another title, other times, another time to pay.

use clap::Args;
use serde_json::{Map, Value, json};
use server::config::Environment;

use super::plan::{at, whole_ms};
use super::{Sale, server_time};
use crate::client::{Client, Once, ServerArguments};
use crate::failure::Failure;
use crate::time::{Moment, parse_duration, parse_moment};

/// Change the title, the times or the time to pay of a sale
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  doorbuster sale edit 3 --title \"Winter drop\"
  doorbuster sale edit 3 --starts-at 2026-12-01T20:00:00Z --for 2h
  doorbuster sale edit 3 --ends-at +30m

What is not named stays. The start can be moved until the sale has started; a sale that ended by time is opened again by
a later end. Orders keep the time to pay that they were placed with. Relative times count from the server's clock.")]
pub(super) struct EditArguments {
    /// The sale's number, as `doorbuster sale list` shows it
    sale: u64,
    /// What buyers read above the sale
    #[arg(long, required_unless_present_any = ["starts_at", "ends_at", "for_", "payment"])]
    title: Option<String>,
    /// Start: RFC 3339, "now" or "+60s"
    #[arg(long, value_name = "TIME", value_parser = parse_moment)]
    starts_at: Option<Moment>,
    /// End: RFC 3339 or "+2h"
    #[arg(long, value_name = "TIME", conflicts_with = "for_", value_parser = parse_moment)]
    ends_at: Option<Moment>,
    /// Length from the start, instead of an end
    #[arg(long = "for", id = "for_", value_name = "DURATION", value_parser = parse_duration)]
    for_: Option<std::time::Duration>,
    /// Time to pay a held order
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    payment: Option<std::time::Duration>,

    #[command(flatten)]
    server: ServerArguments,
}

pub(super) fn run(arguments: &EditArguments, environment: &Environment) -> Result<(), Failure> {
    let client = Client::connect(&arguments.server, environment)?;
    let path = format!("/sales/{}", arguments.sale);
    let is_relative = |moment: &Option<Moment>| matches!(moment, Some(Moment::In(_)));
    let now_ms = if is_relative(&arguments.starts_at) || is_relative(&arguments.ends_at) {
        server_time(&client)?
    } else {
        0
    };
    let starts_at_ms = arguments.starts_at.map(|moment| at(moment, now_ms));
    let ends_at_ms = match (arguments.ends_at, arguments.for_) {
        (Some(moment), _) => Some(at(moment, now_ms)),
        (None, Some(length)) => {
            let begin = starts_at_ms.map_or_else(|| start_of(&client, &path), Ok)?;
            Some(begin.saturating_add(whole_ms(length)))
        }
        (None, None) => None,
    };
    let changes = [
        ("title", arguments.title.clone().map(Value::from)),
        ("starts_at_ms", starts_at_ms.map(Value::from)),
        ("ends_at_ms", ends_at_ms.map(Value::from)),
        ("payment_s", arguments.payment.map(|payment| json!(payment.as_secs()))),
    ];
    let named = changes.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
    let body = Value::Object(named.collect::<Map<_, _>>());
    let answer = client.patch(&path, &body, Once::Set(arguments.sale))?;
    super::show(&answer, &arguments.server)
}

fn start_of(client: &Client, path: &str) -> Result<u64, Failure> {
    Ok(client.get(path)?.read::<Sale>()?.starts_at_ms)
}
