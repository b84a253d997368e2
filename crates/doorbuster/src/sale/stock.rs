//! `doorbuster sale restock` and `correct`: units of an item, added and taken off.

use std::hash::{BuildHasher, RandomState};

use clap::Args;
use engine::limits;
use serde_json::json;
use server::config::Environment;
use server::figures::grouped;

use super::{ENDED, Item, slips};
use crate::client::{Client, Once, ServerArguments};
use crate::failure::Failure;
use crate::output::{self, units_of};

/// Add units to an item
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  doorbuster sale restock 3 30 50
  doorbuster sale restock 3 30 50 --dry-run

If the item would have more than 10 times the units that it has, or if the sale is over, so that nobody can order what is added, that
is asked about, and without a terminal refused unless --yes is there.

The change is made once per key: if an answer is lost, repeat the command with the same --key, and the units are
not changed twice. Without --key a random one is made; it is shown when an answer is lost.")]
pub(super) struct RestockArguments {
    #[command(flatten)]
    change: StockChange,
    /// Don't ask about what is rarely meant
    #[arg(long)]
    yes: bool,
}

/// Take units off an item that were counted wrongly; never below what is held, sold, or kept for people in its line
#[derive(Args, Debug)]
#[command(after_help = "\
The change is made once per key: if an answer is lost, repeat the command with the same --key, and the units are
not changed twice. Without --key a random one is made; it is shown when an answer is lost.")]
pub(super) struct CorrectArguments {
    #[command(flatten)]
    change: StockChange,
}

#[derive(Args, Debug)]
struct StockChange {
    /// The sale's number
    sale: u64,
    /// The product's number
    product: u64,
    /// How many units
    #[arg(value_parser = clap::value_parser!(u64).range(1..), allow_negative_numbers = true)]
    units: u64,
    /// Names this change: 1 to 64 letters, digits and signs
    #[arg(long, value_name = "K", value_parser = parse_key)]
    key: Option<String>,
    /// Say what comes of it, and change nothing
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    server: ServerArguments,
}

pub(super) fn restock(arguments: &RestockArguments, environment: &Environment) -> Result<(), Failure> {
    let RestockArguments { change, yes } = arguments;
    let client = Client::connect(&change.server, environment)?;
    if !yes || change.dry_run {
        let (is_over, item) = change.item(&client)?;
        let slips =
            item.as_ref().map(|item| slips::of_restock(is_over, change.product, item.total, change.units));
        let slips = slips.unwrap_or_default();
        if change.dry_run && !change.server.json {
            output::print(&slips.iter().map(|slip| slips::in_a_dry_run(slip)).collect::<String>())?;
        }
        slips::confirm(&slips, change.dry_run)?;
        let after = item.as_ref().map(|item| item.total.saturating_add(change.units));
        if change.say(item.as_ref(), "adds", "to", after)? {
            return Ok(());
        }
    }
    change.send(&client, "restock")
}

pub(super) fn correct(arguments: &CorrectArguments, environment: &Environment) -> Result<(), Failure> {
    let CorrectArguments { change } = arguments;
    let client = Client::connect(&change.server, environment)?;
    let (_, item) = change.item(&client)?;
    // The server refuses more: never below what is held, sold, or kept for people in the item's line.
    let spare = |item: &Item| {
        let promised = item.line_now.as_ref().map_or(0, |line| line.promised);
        item.available.saturating_sub(promised)
    };
    let too_many = item.as_ref().filter(|item| change.units > spare(item));
    if let Some(item) = too_many.filter(|_| change.dry_run) {
        let (spare, total) = (grouped(spare(item)), units_of(item.total, ""));
        let StockChange { sale, product, .. } = change;
        return Err(Failure::check(format!(
            "of the {total} of item {product} in sale {sale} at most {spare} can be taken off"
        )));
    }
    let item = if too_many.is_some() { None } else { item };
    let after = item.as_ref().map(|item| item.total.saturating_sub(change.units));
    if change.say(item.as_ref(), "takes", "off", after)? {
        return Ok(());
    }
    change.send(&client, "correct")
}

impl StockChange {
    /// Whether its sale is over, and the item, if it is there.
    fn item(&self, client: &Client) -> Result<(bool, Option<Item>), Failure> {
        let sale = super::find(client, self.sale)?;
        let is_over = sale.as_ref().is_some_and(|sale| sale.state == ENDED);
        Ok((is_over, sale.and_then(|sale| sale.items.into_iter().find(|item| item.product == self.product))))
    }

    /// Says the sum beforehand, to people. Whether that was all that is wanted. What can't be done is the server's to refuse.
    fn say(
        &self,
        item: Option<&Item>,
        verb: &str,
        preposition: &str,
        after: Option<u64>,
    ) -> Result<bool, Failure> {
        let StockChange { sale, product, units, key, dry_run, server } = self;
        let Some((item, after)) = item.zip(after) else {
            let refused = format!("sale {sale} has no item {product}");
            return if *dry_run { Err(Failure::check(refused)) } else { Ok(false) };
        };
        let ([by, sum], before) = ([*units, after].map(grouped), units_of(item.total, ""));
        let again = if key.is_some() { ", unless that was done under this key before" } else { "" };
        let says =
            format!("{verb} {by} {preposition} {before} of item {product} in sale {sale}: {sum}{again}\n");
        let text = match (*dry_run, server.json) {
            (false, true) => String::new(),
            (false, false) => says + "\n",
            (true, false) => says + "nothing was changed\n",
            (true, true) => {
                let found =
                    json!({ "sale": sale, "product": product, "total": item.total, "total_after": after });
                format!("{found}\n")
            }
        };
        output::print(&text)?;
        Ok(*dry_run)
    }

    fn send(&self, client: &Client, verb: &str) -> Result<(), Failure> {
        let key = self.key.clone().unwrap_or_else(random_key);
        let path = format!("/sales/{}/items/{}/{verb}", self.sale, self.product);
        let answer = client.post(&path, &json!({ "units": self.units }), Some(Once::Key(&key)))?;
        super::show(&answer, &self.server)
    }
}

fn parse_key(text: &str) -> Result<String, String> {
    let max = limits::KEY_BYTES_MAX;
    let fits = (1..=max).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic());
    if fits { Ok(text.to_owned()) } else { Err(format!("write 1 to {max} visible ASCII characters")) }
}

/// 128 bits from the system's entropy, by way of the standard library's hash keys: enough to be unique, and it
/// guards nothing.
fn random_key() -> String {
    let part = |salt: u8| RandomState::new().hash_one(salt);
    format!("cli-{:016x}{:016x}", part(0), part(1))
}
