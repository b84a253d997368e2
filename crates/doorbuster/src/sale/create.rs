//! `doorbuster sale create`: a sale from arguments or from a TOML or JSON file, with the same words in each.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use serde::Deserialize;
use serde_json::{Value, json};
use server::config::Environment;
use server::pages::is_image_name;

use super::Sales;
use crate::client::{Client, Once, ServerArguments};
use crate::failure::Failure;
use crate::images;
use crate::time::{Moment, parse_duration, parse_moment};

/// Create a sale, from a file or from arguments
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  doorbuster sale create --title \"Winter drop\" --starts-at +60s --for 2h \\
      --item product=30,title=Shoe,price=4999,list=9999,total=100,limit=1
  doorbuster sale create drop.toml

with drop.toml (or the same as JSON):
  id = 7                                 # default: the next that is free
  title = \"Winter drop\"
  currency = \"EUR\"                       # default
  starts_at = \"2026-12-01T10:00:00Z\"     # or \"now\", \"+60s\"
  for = \"2h\"                             # or ends_at = \"2026-12-01T12:00:00Z\"
  payment = \"15m\"                        # default: the server's sale.payment_s; \"none\": paid on placing
  [[item]]
  product = 30
  title = \"Shoe\"
  description = \"Red, size 42\"          # default: none
  price = 4999                           # in cents
  list = 9999                            # default: price
  total = 100                            # units
  limit = 1                              # per buyer; default: no limit
  image = \"shoe.webp\"                    # a file beside this one, an address, or a name of `doorbuster images`; default: none
  alt = \"A red running shoe\"             # what it shows, for whoever does not see it

Relative times count from the server's clock. If an answer is lost, repeat the command with the id that the error
names (with a file: in the file) and absolute times: the same sale is made once.")]
pub(crate) struct CreateArguments {
    /// TOML or JSON file with the whole sale, instead of the arguments below
    #[arg(value_name = "FILE", required_unless_present = "title",
          conflicts_with_all = ["id", "title", "currency", "starts_at", "ends_at", "for_", "payment",
                                "open_holds_per_buyer_max", "item"])]
    file: Option<PathBuf>,

    /// The sale's number; the next that is free if it is left out
    #[arg(long)]
    id: Option<u64>,
    /// What buyers read above the sale
    #[arg(long, requires = "starts_at", requires = "item")]
    title: Option<String>,
    /// ISO 4217 code of all prices [default: EUR]
    #[arg(long)]
    currency: Option<String>,
    /// Start: RFC 3339, "now" or "+60s"
    #[arg(long, value_name = "TIME", requires = "title")]
    starts_at: Option<String>,
    /// End: RFC 3339 or "+2h"
    #[arg(long, value_name = "TIME", conflicts_with = "for_")]
    ends_at: Option<String>,
    /// Length, instead of an end
    #[arg(long = "for", id = "for_", value_name = "DURATION")]
    for_: Option<String>,
    /// Time to pay a held order, or "none": paid on placing [default: the server's sale.payment_s]
    #[arg(long, value_name = "DURATION")]
    payment: Option<String>,
    /// Unpaid orders that a buyer may hold open [default: the server's sale.open_holds_per_buyer_max; in a cluster no
    /// bound, and none can be set]
    #[arg(long = "open-holds", value_name = "N")]
    open_holds_per_buyer_max: Option<u64>,
    /// An item: product=30,title=Shoe,price=4999,list=9999,total=100,limit=1 (repeat it for more)
    #[arg(long, value_name = "ITEM", value_parser = parse_item, requires = "title")]
    item: Vec<NewItem>,

    #[command(flatten)]
    server: ServerArguments,
}

/// A sale as people write it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct NewSale {
    id: Option<u64>,
    title: String,
    currency: Option<String>,
    starts_at: String,
    ends_at: Option<String>,
    #[serde(rename = "for")]
    for_: Option<String>,
    payment: Option<String>,
    open_holds_per_buyer_max: Option<u64>,
    #[serde(rename = "item")]
    items: Vec<NewItem>,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct NewItem {
    product: u64,
    title: Option<String>,
    description: Option<String>,
    price: u64,
    list: Option<u64>,
    total: u64,
    limit: Option<u64>,
    image: Option<String>,
    alt: Option<String>,
}

/// The only part of the answer of `GET /time` that is needed here.
#[derive(Deserialize)]
pub(super) struct ServerTime {
    pub(super) now_ms: u64,
}

pub(super) fn run(arguments: &CreateArguments, environment: &Environment) -> Result<(), Failure> {
    let sale = match &arguments.file {
        Some(path) => read(path)?,
        None => from_arguments(arguments),
    };
    let plan = Plan::of(&sale)?;
    let client = Client::connect(&arguments.server, environment)?;
    let now_ms = if plan.is_relative() { client.get("/time")?.read::<ServerTime>()?.now_ms } else { 0 };
    let (starts_at_ms, ends_at_ms) = plan.at(now_ms)?;
    let id = sale.id.map_or_else(|| next_id(&client), Ok)?;
    let beside = arguments.file.as_deref().and_then(Path::parent).unwrap_or(Path::new(""));
    let images = keep_images(&client, &sale, beside)?;
    let body = body(&sale, id, (starts_at_ms, ends_at_ms), plan.payment, &images);
    let answer = client.post("/sales", &body, Some(Once::Id(id)))?;
    super::show(&answer, &arguments.server)
}

/// Has the server keep what the items show; returns the name that each got. Again it gets the same.
fn keep_images(client: &Client, sale: &NewSale, beside: &Path) -> Result<HashMap<String, String>, Failure> {
    if let Some(item) = sale.items.iter().find(|item| item.alt.is_some() && item.image.is_none()) {
        return Err(Failure::usage(format!("the item of product {} has alt, and no image", item.product)));
    }
    let mut names = HashMap::new();
    for image in sale.items.iter().filter_map(|item| item.image.as_ref()) {
        if !names.contains_key(image) {
            let name =
                if is_image_name(image) { image.clone() } else { images::keep(client, image, beside)? };
            names.insert(image.clone(), name);
        }
    }
    Ok(names)
}

/// The number that the next sale gets. Chosen before the sale is sent, so that a repetition is the same sale; if somebody
/// else was faster, theirs stays and this one is refused.
fn next_id(client: &Client) -> Result<u64, Failure> {
    let next = client.get("/sales?limit=1")?.read::<Sales>()?.next_id;
    next.ok_or_else(|| Failure::usage("only the operator's token shows which number is free: give --id"))
}

fn read(path: &Path) -> Result<NewSale, Failure> {
    let shown = path.display();
    let text = std::fs::read_to_string(path)
        .map_err(|error| Failure::usage(format!("{shown}: can't be read: {error}")))?;
    let sale = if text.trim_start().starts_with('{') {
        serde_json::from_str(&text).map_err(|error| format!("{shown}: {error}"))
    } else {
        toml::from_str(&text).map_err(|error| {
            let offset = error.span().map_or(0, |span| span.start);
            let line = text.bytes().take(offset).filter(|byte| *byte == b'\n').count() + 1;
            format!("{shown}:{line}: {}", error.message().replace('\n', ", "))
        })
    };
    sale.map_err(|message| Failure::usage(message + "; see `doorbuster sale create --help`"))
}

fn from_arguments(arguments: &CreateArguments) -> NewSale {
    let required = "the parser requires it when there is no file";
    NewSale {
        id: arguments.id,
        title: arguments.title.clone().expect(required),
        currency: arguments.currency.clone(),
        starts_at: arguments.starts_at.clone().expect(required),
        ends_at: arguments.ends_at.clone(),
        for_: arguments.for_.clone(),
        payment: arguments.payment.clone(),
        open_holds_per_buyer_max: arguments.open_holds_per_buyer_max,
        items: arguments.item.clone(),
    }
}

/// The times of a sale, before the server's present is known.
struct Plan {
    starts: Moment,
    ends: End,
    payment: Payment,
}

enum End {
    At(Moment),
    After(Duration),
}

#[derive(Clone, Copy)]
enum Payment {
    Within(Duration),
    OnPlacing,
    ServerDefault,
}

impl Plan {
    fn of(sale: &NewSale) -> Result<Self, Failure> {
        let ends = match (&sale.ends_at, &sale.for_) {
            (Some(at), None) => End::At(parse_moment(at).map_err(Failure::usage)?),
            (None, Some(length)) => End::After(parse_duration(length).map_err(Failure::usage)?),
            _ => {
                let message =
                    "say when the sale ends: --for 2h or --ends-at TIME (in a file, for = \"2h\" or ends_at)";
                return Err(Failure::usage(message));
            }
        };
        let payment = match sale.payment.as_deref() {
            None => Payment::ServerDefault,
            Some("none") => Payment::OnPlacing,
            Some(text) => Payment::Within(parse_duration(text).map_err(Failure::usage)?),
        };
        Ok(Self { starts: parse_moment(&sale.starts_at).map_err(Failure::usage)?, ends, payment })
    }

    fn is_relative(&self) -> bool {
        matches!(self.starts, Moment::In(_)) || matches!(self.ends, End::At(Moment::In(_)))
    }

    /// Start and end in milliseconds since 1970.
    fn at(&self, now_ms: u64) -> Result<(u64, u64), Failure> {
        let starts = at(self.starts, now_ms);
        let ends = match self.ends {
            End::At(moment) => at(moment, now_ms),
            End::After(length) => starts.saturating_add(whole_ms(length)),
        };
        if ends <= starts {
            return Err(Failure::usage("the sale would end before it starts: move its end"));
        }
        Ok((starts, ends))
    }
}

/// In milliseconds since 1970.
pub(super) fn at(moment: Moment, now_ms: u64) -> u64 {
    match moment {
        Moment::At(ms) => ms,
        Moment::In(duration) => now_ms.saturating_add(whole_ms(duration)),
    }
}

pub(super) fn whole_ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// The request of `POST /sales`. What is left out takes the server's default; `payment_s: null` is no payment.
fn body(
    sale: &NewSale,
    id: u64,
    (starts_at_ms, ends_at_ms): (u64, u64),
    payment: Payment,
    images: &HashMap<String, String>,
) -> Value {
    let items: Vec<Value> = sale
        .items
        .iter()
        .map(|item| {
            let mut new = json!({
                "product": item.product,
                "title": item.title.clone().unwrap_or_else(|| format!("Product {}", item.product)),
                "description": item.description.as_deref().unwrap_or_default(),
                "price": item.price,
                "list_price": item.list.unwrap_or(item.price),
                "total": item.total,
                "limit": item.limit,
            });
            if let Some(image) = &item.image {
                new["image"] =
                    json!({ "name": images[image], "alt": item.alt.as_deref().unwrap_or_default() });
            }
            new
        })
        .collect();
    let mut body = json!({
        "id": id,
        "title": sale.title,
        "currency": sale.currency.as_deref().unwrap_or("EUR"),
        "starts_at_ms": starts_at_ms,
        "ends_at_ms": ends_at_ms,
        "items": items,
    });
    match payment {
        Payment::Within(duration) => body["payment_s"] = duration.as_secs().into(),
        Payment::OnPlacing => body["payment_s"] = Value::Null,
        Payment::ServerDefault => {}
    }
    if let Some(holds) = sale.open_holds_per_buyer_max {
        body["open_holds_per_buyer_max"] = holds.into();
    }
    body
}

/// Reads `product=30,title=Shoe,price=4999,list=9999,total=100,limit=1`. A comma of the title is none of the list if no
/// name follows it: `title=Shoe, red`.
fn parse_item(text: &str) -> Result<NewItem, String> {
    let (mut product, mut title, mut price, mut list, mut total, mut limit) =
        (None, None, None, None, None, None);
    for part in parts_of_item(text) {
        let part = part.as_str();
        let (name, value) = part.split_once('=').ok_or_else(|| format!("{part:?} is not name=value"))?;
        let number =
            || value.parse::<u64>().map_err(|_not_a_number| format!("{part:?} is not a whole number"));
        let earlier = match name.trim() {
            "product" => product.replace(number()?).is_some(),
            "title" => title.replace(value.to_owned()).is_some(),
            "price" => price.replace(number()?).is_some(),
            "list" => list.replace(number()?).is_some(),
            "total" => total.replace(number()?).is_some(),
            "limit" => limit.replace(number()?).is_some(),
            _ => return Err(format!("{name:?} is none of product, title, price, list, total and limit")),
        };
        if earlier {
            return Err(format!("{name} is there twice"));
        }
    }
    let (Some(product), Some(price), Some(total)) = (product, price, total) else {
        return Err("product, price and total are needed".to_owned());
    };
    Ok(NewItem { product, title, description: None, price, list, total, limit, image: None, alt: None })
}

fn parts_of_item(text: &str) -> Vec<String> {
    let mut parts: Vec<String> = Vec::new();
    for part in text.split(',') {
        match parts.last_mut() {
            Some(title) if !part.contains('=') && title.trim_start().starts_with("title") => {
                *title += &format!(",{part}")
            }
            _ => parts.push(part.to_owned()),
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_are_read() {
        assert_eq!(
            parse_item("product=30,title=Red shoe,price=4999,list=9999,total=100,limit=1"),
            Ok(NewItem {
                product: 30,
                title: Some("Red shoe".to_owned()),
                description: None,
                price: 4999,
                list: Some(9999),
                total: 100,
                limit: Some(1),
                image: None,
                alt: None,
            })
        );
        for (text, title) in [
            ("product=1,title=Shoe, red,price=2,total=3", "Shoe, red"),
            ("title=Shoe, red, size 42,product=1,price=2,total=3", "Shoe, red, size 42"),
            ("product=1,price=2,total=3,title=Shoe,", "Shoe,"),
        ] {
            assert_eq!(parse_item(text).unwrap().title.as_deref(), Some(title), "{text}");
        }
        for (text, error) in [
            ("product=1,price=2", "product, price and total are needed"),
            ("product=1,prize=2", "\"prize\" is none of product, title, price, list, total and limit"),
            ("product=x", "\"product=x\" is not a whole number"),
            ("product=1,product=2", "product is there twice"),
            ("product", "\"product\" is not name=value"),
        ] {
            assert_eq!(parse_item(text), Err(error.to_owned()), "{text}");
        }
    }

    #[test]
    fn relative_times_count_from_the_servers_clock() {
        let sale = |starts: &str, ends: Option<&str>, length: Option<&str>| NewSale {
            id: None,
            title: "t".to_owned(),
            currency: None,
            starts_at: starts.to_owned(),
            ends_at: ends.map(str::to_owned),
            for_: length.map(str::to_owned),
            payment: None,
            open_holds_per_buyer_max: None,
            items: Vec::new(),
        };
        let at = |sale: NewSale| Plan::of(&sale).and_then(|plan| plan.at(1_000)).ok();
        assert_eq!(at(sale("now", None, Some("2s"))), Some((1_000, 3_000)));
        assert_eq!(at(sale("+1s", Some("+3s"), None)), Some((2_000, 4_000)));
        assert_eq!(at(sale("1970-01-01T00:01:00Z", None, Some("1s"))), Some((60_000, 61_000)));
        assert_eq!(at(sale("+3s", Some("+3s"), None)), None);
        assert_eq!(at(sale("now", None, None)), None);
        assert_eq!(at(sale("now", Some("+1s"), Some("1s"))), None);
    }
}
