//! `doorbuster sale duplicate`: another sale of the same items, at another time.

use std::path::Path;
use std::time::Duration;

use clap::Args;
use server::config::Environment;

use super::create::{Maker, MakingArguments};
use super::plan::{End, Plan, Times};
use crate::client::{Client, ServerArguments};
use crate::failure::Failure;
use crate::time::{Moment, parse_duration, parse_moment};

/// Create a sale of the same items, on the same terms, at another time
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  doorbuster sale duplicate 3 --starts-at 2026-12-08T10:00:00Z
  doorbuster sale duplicate 3 --starts-at +1h --for 30m --title \"Second drop\" --dry-run

The new sale has the title, the currency, the time to pay, the bound of open holds and the items of the other as they are now:
prices, limits, texts, images by their names, and their whole totals, with what was restocked and corrected. It is as long as the
other unless --for or --ends-at is there. What is rarely meant is asked about as by `doorbuster sale create`.")]
pub(super) struct DuplicateArguments {
    /// The number of the sale to be like, as `doorbuster sale list` shows it
    sale: u64,
    /// The new sale's number; the next that is free if it is left out
    #[arg(long)]
    id: Option<u64>,
    /// What buyers read above the new sale [default: the same]
    #[arg(long)]
    title: Option<String>,
    /// Start: RFC 3339, "now" or "+60s"
    #[arg(long, value_name = "TIME", value_parser = parse_moment)]
    starts_at: Moment,
    /// End: RFC 3339 or "+2h"
    #[arg(long, value_name = "TIME", conflicts_with = "for_", value_parser = parse_moment)]
    ends_at: Option<Moment>,
    /// Length, instead of an end [default: the other's]
    #[arg(long = "for", id = "for_", value_name = "DURATION", value_parser = parse_duration)]
    for_: Option<Duration>,

    #[command(flatten)]
    making: MakingArguments,
    #[command(flatten)]
    server: ServerArguments,
}

pub(super) fn run(arguments: &DuplicateArguments, environment: &Environment) -> Result<(), Failure> {
    let client = Client::connect(&arguments.server, environment)?;
    let first = client.get(&super::path_of(arguments.sale))?;
    let sale = super::whole(&client, first, |_page| Ok(()))?;
    let ends = match (arguments.ends_at, arguments.for_) {
        (Some(at), _) => End::At(at),
        (None, Some(length)) => End::After(length),
        (None, None) => End::After(Duration::from_millis(sale.ends_at_ms.saturating_sub(sale.starts_at_ms))),
    };
    let plan = Plan::like(sale, arguments.title.clone(), Times { starts: arguments.starts_at, ends });
    // Its images have names: no file is looked for.
    let beside = Path::new("");
    let maker = Maker { client: &client, server: &arguments.server, making: arguments.making, beside };
    maker.make(plan, arguments.id)
}
