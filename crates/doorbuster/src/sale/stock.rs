//! `doorbuster sale restock` and `correct`: units of an item, added and taken off.

use std::hash::{BuildHasher, RandomState};

use clap::Args;
use engine::limits;
use serde_json::json;
use server::config::Environment;

use super::slips;
use crate::client::{Client, Once, ServerArguments};
use crate::failure::Failure;

/// Add units to an item
#[derive(Args, Debug)]
#[command(after_help = "\
Example:
  doorbuster sale restock 3 30 50

If the item would have more than 10 times the units that it has, that is asked about, and without a terminal refused unless --yes
is there.

The change is made once per key: if an answer is lost, repeat the command with the same --key, and the units are
not changed twice. Without --key a random one is made; it is shown when an answer is lost.")]
pub(super) struct RestockArguments {
    #[command(flatten)]
    change: StockChange,
    /// Don't ask about what is rarely meant
    #[arg(long)]
    yes: bool,
}

/// Take units off an item that were counted wrongly; never below what is held and sold
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
    #[arg(value_parser = clap::value_parser!(u64).range(1..))]
    units: u64,
    /// Names this change: 1 to 64 letters, digits and signs
    #[arg(long, value_name = "K", value_parser = parse_key)]
    key: Option<String>,
    #[command(flatten)]
    server: ServerArguments,
}

pub(super) fn restock(arguments: &RestockArguments, environment: &Environment) -> Result<(), Failure> {
    let RestockArguments { change, yes } = arguments;
    let client = Client::connect(&change.server, environment)?;
    if !yes {
        // What is not there is the server's to refuse.
        let sale = super::find(&client, change.sale)?;
        let item = sale.and_then(|sale| sale.items.into_iter().find(|item| item.product == change.product));
        let slips = item.map(|item| slips::of_restock(change.product, item.total, change.units));
        slips::confirm(&slips.unwrap_or_default(), false)?;
    }
    change.send(&client, "restock")
}

pub(super) fn correct(arguments: &CorrectArguments, environment: &Environment) -> Result<(), Failure> {
    let CorrectArguments { change } = arguments;
    change.send(&Client::connect(&change.server, environment)?, "correct")
}

impl StockChange {
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
