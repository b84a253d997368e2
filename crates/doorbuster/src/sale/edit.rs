//! `doorbuster sale edit`: another title, other times, another time to pay; until the start, other terms of an item.

use clap::Args;
use serde_json::{Map, Value, json};
use server::config::Environment;

use super::create::MakingArguments;
use super::difference::{self, Difference, differences};
use super::plan::{End, NewItem, NewSale, Plan, Times, at, whole_ms};
use super::written::parse_amount;
use super::{Sale, slips, time_of};
use crate::client::{Client, Once, ServerArguments};
use crate::failure::Failure;
use crate::output;
use crate::time::{Moment, parse_duration, parse_moment};

/// Change the title, the times or the time to pay of a sale; until it has started, an item too
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  doorbuster sale edit 3 --title \"Winter drop\"
  doorbuster sale edit 3 --starts-at 2026-12-01T20:00:00Z --for 2h
  doorbuster sale edit 3 --ends-at +30m
  doorbuster sale edit 3 --item 30 --price 3999 --limit 2 --dry-run

What is not named stays. The start can be moved, and an item changed, until the sale has started; items, where several servers
sell, until a minute before. A sale that ended by time is opened again by a later end. Orders keep the time to pay that they were placed with. Relative times count from the server's clock.
What is rarely meant is asked about as by `doorbuster sale create`, as is a sooner end of a sale that runs, and without a terminal refused unless --yes is there.")]
pub(super) struct EditArguments {
    /// The sale's number, as `doorbuster sale list` shows it
    sale: u64,
    /// What buyers read above the sale
    #[arg(long)]
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

    /// The product whose item is changed
    #[arg(long, value_name = "PRODUCT", requires = "terms")]
    item: Option<u64>,
    #[command(flatten)]
    terms: Terms,

    #[command(flatten)]
    making: MakingArguments,
    #[command(flatten)]
    server: ServerArguments,
}

/// Of the item.
#[derive(Args, Debug)]
#[group(id = "terms", multiple = true, requires = "item")]
struct Terms {
    /// Its title
    #[arg(long, value_name = "TITLE")]
    item_title: Option<String>,
    /// Its description
    #[arg(long, value_name = "TEXT")]
    description: Option<String>,
    /// Its price, in the currency's smallest unit
    #[arg(long, value_name = "AMOUNT", value_parser = parse_amount)]
    price: Option<u64>,
    /// What it costs elsewhere
    #[arg(long, value_name = "AMOUNT", value_parser = parse_amount)]
    list: Option<u64>,
    /// Units that one buyer may have, or "none"
    #[arg(long, value_name = "UNITS", value_parser = parse_limit)]
    limit: Option<Limit>,
}

#[derive(Clone, Copy, Debug)]
struct Limit(Option<u64>);

fn parse_limit(text: &str) -> Result<Limit, String> {
    match text {
        "none" => Ok(Limit(None)),
        units => {
            units.parse().map(|units| Limit(Some(units))).map_err(|_nan| "write a number, or none".to_owned())
        }
    }
}

pub(super) fn run(arguments: &EditArguments, environment: &Environment) -> Result<(), Failure> {
    if !arguments.change_something() {
        return Err(Failure::usage(
            "say what to change: --title, --starts-at, --ends-at or --for, --payment, or of an item (--item PRODUCT) --item-title, \
             --description, --price, --list, --limit",
        ));
    }
    let client = Client::connect(&arguments.server, environment)?;
    let id = arguments.sale;
    let time = time_of(&client)?;
    let relative =
        [arguments.starts_at, arguments.ends_at].iter().flatten().any(|at| matches!(at, Moment::In(_)));
    time.warn_if_unconfirmed(relative);
    let now_ms = time.now_ms;
    let sale = super::find(&client, id)?.ok_or_else(|| Failure::check(format!("there is no sale {id}")))?;
    let starts_at_ms = arguments.starts_at.map(|moment| at(moment, now_ms));
    if sale.starts_at_ms <= now_ms && starts_at_ms.is_some_and(|at| at != sale.starts_at_ms) {
        return Err(Failure::check(format!("sale {id} has started: its start is what it was")));
    }
    let ends_at_ms = match (arguments.ends_at, arguments.for_) {
        (Some(moment), _) => Some(at(moment, now_ms)),
        (None, Some(length)) => {
            Some(starts_at_ms.unwrap_or(sale.starts_at_ms).saturating_add(whole_ms(length)))
        }
        (None, None) => None,
    };
    let new = arguments.changed(&sale, (starts_at_ms, ends_at_ms), now_ms)?;
    let found = differences(&sale, &new, now_ms);
    if arguments.making.dry_run {
        return preview(&sale, &new, &found, &arguments.server);
    }
    slips::confirm(&slips::of_change(&sale, &new, &found, now_ms), arguments.making.yes)?;
    let changes = [
        ("title", arguments.title.clone().map(Value::from)),
        ("starts_at_ms", starts_at_ms.map(Value::from)),
        ("ends_at_ms", ends_at_ms.map(Value::from)),
        ("payment_s", arguments.payment.map(|payment| json!(payment.as_secs()))),
        ("items", arguments.item.map(|product| json!([arguments.terms.request(product)]))),
    ];
    let answer = client.patch(&format!("/sales/{id}"), &named(changes), Once::Set(id))?;
    super::show(&answer, &arguments.server)
}

/// An object of those that have a value.
fn named<const N: usize>(fields: [(&str, Option<Value>); N]) -> Value {
    let named = fields.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
    Value::Object(named.collect::<Map<_, _>>())
}

/// Shows what would be changed, as `doorbuster sale diff` does.
fn preview(
    sale: &Sale,
    new: &NewSale,
    found: &[Difference],
    server: &ServerArguments,
) -> Result<(), Failure> {
    output::print(&if server.json {
        difference::as_json(sale.id, found)
    } else if found.is_empty() {
        format!("sale {}: nothing to do\n", sale.id)
    } else {
        difference::as_text(sale, new, found) + "\nnothing was changed\n"
    })
}

impl EditArguments {
    fn change_something(&self) -> bool {
        let EditArguments { title, starts_at, ends_at, for_, payment, item, .. } = self;
        title.is_some() || starts_at.or(*ends_at).is_some() || for_.or(*payment).is_some() || item.is_some()
    }

    /// The sale as it would be.
    fn changed(
        &self,
        sale: &Sale,
        (starts_at_ms, ends_at_ms): (Option<u64>, Option<u64>),
        now_ms: u64,
    ) -> Result<NewSale, Failure> {
        let starts = Moment::At(starts_at_ms.unwrap_or(sale.starts_at_ms));
        let ends = End::At(Moment::At(ends_at_ms.unwrap_or(sale.ends_at_ms)));
        let mut plan = Plan::like(sale.clone(), self.title.clone(), Times { starts, ends });
        if let Some(payment) = self.payment {
            plan.payment_s = Some(Some(payment.as_secs()));
        }
        if let Some(product) = self.item {
            let item = plan.items.iter_mut().find(|item| item.product == product);
            let item =
                item.ok_or_else(|| Failure::check(format!("sale {} has no product {product}", sale.id)))?;
            self.terms.apply(item);
        }
        plan.at(sale.id, now_ms)
    }
}

impl Terms {
    fn request(&self, product: u64) -> Value {
        named([
            ("product", Some(product.into())),
            ("title", self.item_title.clone().map(Value::from)),
            ("description", self.description.clone().map(Value::from)),
            ("price", self.price.map(Value::from)),
            ("list_price", self.list.map(Value::from)),
            ("limit", self.limit.map(|limit| json!(limit.0))),
        ])
    }

    fn apply(&self, item: &mut NewItem) {
        if let Some(title) = &self.item_title {
            item.title.clone_from(title);
        }
        if let Some(description) = &self.description {
            item.description.clone_from(description);
        }
        item.price = self.price.unwrap_or(item.price);
        item.list_price = self.list.unwrap_or(item.list_price);
        item.limit = self.limit.map_or(item.limit, |limit| limit.0);
    }
}
