//! `doorbuster sale diff` and `apply`: a sale as a file says it is, such as one in git.
//!
//! Must not: count units. A total that differs is reported, because buyers change what is left of it meanwhile.

use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::{Map, Value, json};
use server::config::Environment;

use super::create::{Maker, MakingArguments, folder};
use super::difference::{self, Change, Difference, differences};
use super::plan::{NewItem, NewSale, Plan, fetched_images};
use super::written::Written;
use super::{ENDED, Sale, server_time, slips};
use crate::client::{Client, Once, ServerArguments};
use crate::failure::Failure;
use crate::images;
use crate::output;

/// Show where a server's sale differs from a file
#[derive(Args, Debug)]
#[command(after_help = "\
Example:
  doorbuster sale diff drop.toml

The file is that of `doorbuster sale create`, with an id, absolute times, and images as files or names. What it leaves to the
server's defaults (payment, open_holds_per_buyer_max) is not compared.

Exit codes: 0 they are equal; 1 they differ, or the sale is not there, or was deleted or ended before its time; 64 the file is wrong; 69 no server answers.
With --json it prints id, there and differences: field, product, server, file, change (edit, restock, correct or never), units.")]
pub(super) struct DiffArguments {
    /// TOML or JSON file with the whole sale
    file: PathBuf,
    #[command(flatten)]
    server: ServerArguments,
}

/// Make or change a sale, so that it is as a file says
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  doorbuster sale apply drop.toml --dry-run       # what would be changed or made
  doorbuster sale apply drop.toml

with drop.toml as for `doorbuster sale create`, with an id, absolute times, and images as files or names:
  id = 7
  title = \"Winter drop\"
  starts_at = \"2026-12-01T10:00:00Z\"
  for = \"2h\"
  [[item]]
  product = 30
  title = \"Shoe\"
  price = 4999
  total = 100

A sale that is not there is made. Of one that is there, title, ends_at and payment are changed, and until it has started
starts_at, and the title, description, price, list and limit of its items; all by one request. A second apply finds nothing to
do. If two are applied at once, one of them wins in all that its file says of the sale; and of the items, if it changes any.
If anything else differs, nothing is changed, and each such field is named. Nothing is deleted.

Units are never changed: a total that differs is printed with the command to use, and the exit code is 1 until it does not
differ. What is rarely meant is asked about as by `doorbuster sale create`, as is a sooner end of a sale that runs.

Exit codes: 0 the sale is as the file says, or, in a dry run, would be; 1 it is not; 64 the file is wrong, or --yes is needed; 69 no server answers.
With --json it prints what `doorbuster sale diff` does, and of a new sale the server's answer.")]
pub(super) struct ApplyArguments {
    /// TOML or JSON file with the whole sale
    file: PathBuf,
    #[command(flatten)]
    making: MakingArguments,
    #[command(flatten)]
    server: ServerArguments,
}

pub(super) fn diff(arguments: &DiffArguments, environment: &Environment) -> Result<(), Failure> {
    compare(&arguments.file, &arguments.server, environment)
}

pub(super) fn apply(arguments: &ApplyArguments, environment: &Environment) -> Result<(), Failure> {
    let ApplyArguments { file, making, server } = arguments;
    let repeatable = Repeatable::read(file)?;
    let client = Client::connect(server, environment)?;
    match super::find_or_free(&client, repeatable.id)? {
        None => {
            let maker = Maker { client: &client, server, making: *making, beside: folder(file) };
            maker.make(repeatable.plan, Some(repeatable.id))
        }
        Some(sale) if making.dry_run => {
            let pair = Pair::of(&client, sale, repeatable, folder(file))?;
            pair.show(server)?;
            pair.can_be_changed()?;
            pair.totals_are_equal()?;
            if server.json || pair.found.is_empty() { Ok(()) } else { output::print("nothing was changed\n") }
        }
        Some(sale) => {
            let pair = Pair::of(&client, sale, repeatable, folder(file))?;
            let changed = pair.change(&client, making.yes)?;
            pair.show(server)?;
            if changed && !server.json {
                output::print(&format!("sale {} is changed\n", pair.new.id))?;
            }
            pair.totals_are_equal()
        }
    }
}

fn compare(file: &Path, server: &ServerArguments, environment: &Environment) -> Result<(), Failure> {
    let repeatable = Repeatable::read(file)?;
    let client = Client::connect(server, environment)?;
    let id = repeatable.id;
    let Some(sale) = super::find_or_free(&client, id)? else {
        if server.json {
            let making = MakingArguments { dry_run: true, yes: false };
            Maker { client: &client, server, making, beside: folder(file) }
                .make(repeatable.plan, Some(id))?;
        } else {
            // One that can't be made is wrong in the file.
            repeatable.plan.at(id, server_time(&client)?)?;
        }
        return Err(Failure::check(format!("sale {id} is not there: `doorbuster sale apply` makes it")));
    };
    let pair = Pair::of(&client, sale, repeatable, folder(file))?;
    pair.show(server)?;
    if pair.found.is_empty() { Ok(()) } else { Err(Failure::check(format!("sale {id} differs"))) }
}

/// A file that says the same today and tomorrow.
struct Repeatable {
    id: u64,
    plan: Plan,
}

impl Repeatable {
    fn read(file: &Path) -> Result<Repeatable, Failure> {
        let wrong = |why: &str| Failure::usage(format!("{}: {why}", file.display()));
        let written = Written::read(file)?;
        let id =
            written.id.ok_or_else(|| wrong("id is missing: it says which sale this is, such as id = 7"))?;
        let plan = written.plan()?;
        if plan.times.is_relative() {
            let why = "\"now\" and \"+60s\" are another time at each apply: write starts_at and ends_at like \
                       2026-12-01T10:00:00Z";
            return Err(wrong(why));
        }
        if let Some((product, _)) = fetched_images(&plan.items).next() {
            let why = format!(
                "the image of item {product} is an address, where another may be tomorrow: name a file, or what \
                 `doorbuster images add` prints"
            );
            return Err(wrong(&why));
        }
        Ok(Repeatable { id, plan })
    }
}

/// All of an item that can be changed.
pub(super) fn item_request(item: &NewItem) -> Value {
    let NewItem { product, title, description, price, list_price, limit, .. } = item;
    json!({ "product": product, "title": title, "description": description, "price": price, "list_price": list_price,
        "limit": limit })
}

/// What the server has of a sale, and what a file says of it.
struct Pair {
    sale: Sale,
    new: NewSale,
    found: Vec<Difference>,
    now_ms: u64,
}

impl Pair {
    fn of(client: &Client, sale: Sale, file: Repeatable, beside: &Path) -> Result<Pair, Failure> {
        let now_ms = server_time(client)?;
        let mut new = file.plan.at(file.id, now_ms)?;
        new.name_images(|image| images::name_of(image, beside))?;
        let state = difference::of_state(&sale, &new, now_ms);
        let found = state.into_iter().chain(differences(&sale, &new, now_ms)).collect();
        Ok(Pair { sale, new, found, now_ms })
    }

    fn show(&self, server: &ServerArguments) -> Result<(), Failure> {
        output::print(&if server.json {
            difference::as_json(self.new.id, &self.found)
        } else if self.found.is_empty() {
            let state = match self.sale.state.as_str() {
                ENDED => "; it is over",
                "paused" => "; it is paused",
                _ => "",
            };
            format!("sale {}: nothing to do{state}\n", self.new.id)
        } else {
            difference::as_text(&self.sale, &self.new, &self.found)
        })
    }

    /// Changes what differs, if anything can be changed; nothing if something differs that can't be.
    fn change(&self, client: &Client, yes: bool) -> Result<bool, Failure> {
        self.can_be_changed()?;
        if self.found.iter().all(|found| found.change != Change::Edit) {
            return Ok(false);
        }
        slips::confirm(&slips::of_change(&self.sale, &self.new, &self.found, self.now_ms), yes)?;
        let id = self.new.id;
        client.patch(&format!("/sales/{id}"), &self.request(), Once::Set(id))?;
        Ok(true)
    }

    fn can_be_changed(&self) -> Result<(), Failure> {
        let fixed: Vec<_> = self.found.iter().filter_map(Difference::why_never).collect();
        if fixed.is_empty() {
            return Ok(());
        }
        let names = fixed.join("; ");
        Err(Failure::check(format!("nothing was changed, because this can't be: {names}")))
    }

    /// All that the file says and the server takes, not only what differs: of two files that are applied at once, one wins
    /// whole. A start that is past is in neither, because it is taken no more. Items are named only if one differs: where
    /// several servers sell, they can't be changed shortly before the start.
    fn request(&self) -> Value {
        let new = &self.new;
        let starts_at_ms = (self.now_ms < self.sale.starts_at_ms).then_some(new.starts_at_ms);
        let all = [
            ("title", Some(json!(new.title))),
            ("starts_at_ms", starts_at_ms.map(Value::from)),
            ("ends_at_ms", Some(json!(new.ends_at_ms))),
            ("payment_s", new.payment_s.flatten().map(Value::from)),
            ("items", self.items_request()),
        ];
        let said = all.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
        Value::Object(said.collect::<Map<_, _>>())
    }

    fn items_request(&self) -> Option<Value> {
        let is_of_item = |found: &Difference| found.change == Change::Edit && found.product.is_some();
        let items = self.new.items.iter().map(item_request);
        self.found.iter().any(is_of_item).then(|| items.collect())
    }

    fn totals_are_equal(&self) -> Result<(), Failure> {
        let is_total = |found: &&Difference| matches!(found.change, Change::Restock(_) | Change::Correct(_));
        let names: Vec<_> = self.found.iter().filter(is_total).map(Difference::name).collect();
        if names.is_empty() {
            return Ok(());
        }
        let names = names.join(", ");
        Err(Failure::check(format!("{names}: not changed; use the commands above, or change the file")))
    }
}
