//! `doorbuster sale create`, and the way of every new sale: looked at, asked about, made.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use serde_json::json;
use server::config::Environment;

use super::difference::{self, differences};
use super::line::line_terms;
use super::plan::{NewSale, Plan, fetched_images};
use super::slips::{self, Intent};
use super::written::{PaymentTime, Written, WrittenItem, parse_item, parse_payment};
use super::{Sale, Sales, time_of};
use crate::client::{Client, Once, ServerArguments, not_the_operators};
use crate::failure::Failure;
use crate::images;
use crate::output::{self, money, numbers, plain, words};
use crate::time::{
    Moment, format_distance, format_duration, format_utc_exactly, parse_duration, parse_moment,
};

/// Create a sale, from a file or from arguments
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  doorbuster sale create --title \"Winter drop\" --starts-at +60s --for 2h \\
      --item product=30,title=Shoe,price=4999,list=9999,total=100,limit=1
  doorbuster sale create drop.toml --dry-run
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
  line = {}                              # sold to its line: { units = 1, turn = \"2m\", grace = \"20s\", close = \"30s\" }; default: to whoever comes first;
                                         # with access = { groups = { gold = \"always\", club = \"24h\" }, others = \"30m\" } for those first, and from then on

Relative times count from the server's clock. What is rarely meant is asked about first, and without a terminal refused unless
--yes is there: a start in the past, a price of 0, no units, more than 10 times the units of the largest item so far or more than a
million, more than a day to pay, a line whose grace is less than 10 s, a sale of less than a minute or more than 30 days. A dry
run exits with 0 if the sale could be made, or is there already as it is written; with --json it prints id, there, and either
new (the request) and slips, or differences.

A file with an id and absolute times can be kept in git: `doorbuster sale apply --help`.

If an answer is lost, repeat the command with the id that the error names (with a file: in the file) and absolute times: the
same sale is made once.")]
pub(crate) struct CreateArguments {
    /// TOML or JSON file with the whole sale, or - for standard input, instead of the arguments below
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
    #[arg(long, value_name = "TIME", value_parser = parse_moment, requires = "title")]
    starts_at: Option<Moment>,
    /// End: RFC 3339 or "+2h"
    #[arg(long, value_name = "TIME", value_parser = parse_moment, conflicts_with = "for_")]
    ends_at: Option<Moment>,
    /// Length, instead of an end
    #[arg(long = "for", id = "for_", value_name = "DURATION", value_parser = parse_duration)]
    for_: Option<Duration>,
    /// Time to pay a held order, or "none": paid on placing [default: the server's sale.payment_s]
    #[arg(long, value_name = "DURATION", value_parser = parse_payment)]
    payment: Option<PaymentTime>,
    /// Unpaid orders that a buyer may hold open [default: the server's sale.open_holds_per_buyer_max; in a cluster no
    /// bound, and none can be set]
    #[arg(long = "open-holds", value_name = "N")]
    open_holds_per_buyer_max: Option<u64>,
    /// An item: product=30,title=Shoe,price=4999,list=9999,total=100,limit=1 (repeat it for more)
    #[arg(long, value_name = "ITEM", value_parser = parse_item, requires = "title")]
    item: Vec<WrittenItem>,

    #[command(flatten)]
    making: MakingArguments,
    #[command(flatten)]
    server: ServerArguments,
}

/// How a sale is made or changed, whichever command does it.
#[derive(Args, Clone, Copy, Debug)]
pub(super) struct MakingArguments {
    /// Check everything, show what would be done, and do nothing
    #[arg(long)]
    pub(super) dry_run: bool,
    /// Don't ask about what is rarely meant
    #[arg(long)]
    pub(super) yes: bool,
}

pub(super) fn run(arguments: &CreateArguments, environment: &Environment) -> Result<(), Failure> {
    let written = match &arguments.file {
        Some(path) => Written::read(path)?,
        None => from_arguments(arguments),
    };
    let id = written.id;
    let plan = written.plan()?;
    let client = Client::connect(&arguments.server, environment)?;
    let maker = Maker {
        client: &client,
        server: &arguments.server,
        making: arguments.making,
        beside: arguments.file.as_deref().map_or(Path::new(""), folder),
    };
    maker.make(plan, id)
}

/// Where the images lie that a file names.
pub(super) fn folder(file: &Path) -> &Path {
    file.parent().unwrap_or(Path::new(""))
}

fn from_arguments(arguments: &CreateArguments) -> Written {
    let required = "the parser requires it when there is no file";
    Written {
        id: arguments.id,
        title: arguments.title.clone().expect(required),
        currency: arguments.currency.clone(),
        starts_at: arguments.starts_at.expect(required),
        ends_at: arguments.ends_at,
        for_: arguments.for_,
        payment: arguments.payment,
        open_holds_per_buyer_max: arguments.open_holds_per_buyer_max,
        items: arguments.item.clone(),
    }
}

/// Makes new sales on one server.
pub(super) struct Maker<'a> {
    pub(super) client: &'a Client,
    pub(super) server: &'a ServerArguments,
    pub(super) making: MakingArguments,
    /// Where the files of images lie.
    pub(super) beside: &'a Path,
}

impl Maker<'_> {
    /// Makes the sale under this number, or the next that is free; in a dry run shows what it would be.
    pub(super) fn make(&self, plan: Plan, id: Option<u64>) -> Result<(), Failure> {
        let time = time_of(self.client)?;
        time.warn_if_unconfirmed(plan.times.is_relative());
        let now_ms = time.now_ms;
        let listed = self.client.get("/sales?limit=1")?.read::<Sales>()?;
        let next_id = listed.next_id.ok_or_else(not_the_operators)?;
        let mut new = plan.at(id.unwrap_or(next_id), now_ms)?;
        let there = id.map_or(Ok(None), |id| super::find_or_free(self.client, id))?;
        let slips = slips::find(&Intent {
            now_ms,
            starts_at_ms: Some(new.starts_at_ms),
            length_ms: Some(new.ends_at_ms - new.starts_at_ms),
            ends_at_ms: None,
            payment_s: new.payment_s.flatten(),
            items: &new.items,
            currency: &new.currency,
            largest_total: listed.largest_total,
            would_end_at_ms: None,
            expect_later_start: 0,
        });
        if self.making.dry_run {
            return match there {
                Some(sale) => self.show_there(&sale, new, now_ms),
                None => self.preview(new, &slips, now_ms),
            };
        }
        // One that is there is made no second time: a repetition after its start must not be asked about that.
        if there.is_none() {
            slips::confirm(&slips, self.making.yes)?;
        }
        new.name_images(|image| images::keep(self.client, image, self.beside))?;
        let answer = self.client.post("/sales", &json!(new), Some(Once::Id(new.id)))?;
        super::show(&answer, self.server)
    }

    fn show_there(&self, sale: &Sale, mut new: NewSale, now_ms: u64) -> Result<(), Failure> {
        new.name_images(|image| images::name_of(image, self.beside))?;
        let found = differences(sale, &new, now_ms);
        if self.server.json {
            output::print(&difference::as_json(new.id, &found))?;
        } else if found.is_empty() {
            output::print(&format!(
                "sale {} is there already, as it is written; nothing would be made\n",
                new.id
            ))?;
        } else {
            output::print(&difference::as_text(sale, &new, &found))?;
        }
        if found.is_empty() {
            return Ok(());
        }
        Err(Failure::check(format!(
            "sale {} is there already, and is another one: choose another id",
            new.id
        )))
    }

    fn preview(&self, mut new: NewSale, slips: &[String], now_ms: u64) -> Result<(), Failure> {
        let names: Vec<&str> = new.image_names().collect();
        if let Some(name) = images::missing(self.client, &names)?.first() {
            return Err(Failure::check(format!("the server has no image {name}: `doorbuster images add`")));
        }
        // With the images as they are written, for people.
        let text = describe(&new, slips, now_ms);
        new.name_images(|image| images::name_of(image, self.beside))?;
        if self.server.json {
            let shown = json!({ "id": new.id, "there": false, "new": new, "slips": slips });
            return output::print(&format!("{shown}\n"));
        }
        output::print(&text)
    }
}

/// The number that the next sale gets. Chosen before the sale is sent, so that a repetition is the same sale; if somebody
/// else was faster, theirs stays and this one is refused.
/// A sale that is not there yet.
fn describe(new: &NewSale, slips: &[String], now_ms: u64) -> String {
    let time = |ms| format!("{} ({})", format_utc_exactly(ms), format_distance(ms, now_ms));
    let payment = new.payment_s.map_or("the server's time to pay".to_owned(), super::payment);
    let holds = new
        .open_holds_per_buyer_max
        .map_or("the server's bound of open holds (in a cluster none)".to_owned(), super::open_holds);
    let rows: Vec<_> = new
        .items
        .iter()
        .map(|item| {
            [
                item.product.to_string(),
                plain(&item.title),
                money(item.price, &new.currency),
                money(item.list_price, &new.currency),
                item.total.to_string(),
                super::limit(item.limit),
                item.image.as_ref().map_or("none".to_owned(), |image| plain(&image.name)),
            ]
        })
        .collect();
    let columns = [
        numbers("product"),
        words("title"),
        numbers("price"),
        numbers("list price"),
        numbers("total"),
        numbers("limit"),
        words("image"),
    ];
    let fetched = fetched_images(&new.items).map(|(product, address)| {
        let address = plain(address);
        format!("not checked: the image of item {product}, which the server is to fetch: {address}\n")
    });
    let lines =
        new.items.iter().filter_map(|item| Some(line_terms(item.product, item.line.as_ref()?, false)));
    let slips = slips.iter().map(|slip| slips::in_a_dry_run(slip));
    format!(
        "sale {}, a dry run: {}\nstarts {}\nends   {}, after {}\n{payment}, {holds}\n\n{}\n{}nothing was made\n",
        new.id,
        plain(&new.title),
        time(new.starts_at_ms),
        time(new.ends_at_ms),
        format_duration(Duration::from_millis(new.ends_at_ms - new.starts_at_ms)),
        output::table(columns, &rows),
        lines.chain(fetched).chain(slips).collect::<String>(),
    )
}
