//! `doorbuster sale`: the operator's commands against a running server, and the report of a sale from its ledger.
//!
//! Must not: decide anything about a sale. Times and amounts are shown as the server gives them.

mod apply;
mod by_title;
mod certificate;
mod create;
mod delete;
mod difference;
mod duplicate;
mod edit;
mod end;
mod gates;
mod line;
mod pause;
mod plan;
mod report;
mod report_html;
mod report_text;
mod slips;
mod stock;
mod written;

use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

use clap::{Args, Subcommand};
use engine::limits;
use serde::Deserialize;
use serde_json::json;
use server::config::Environment;

use crate::client::{Answer, Client, ServerArguments, not_the_operators};
use crate::failure::Failure;
use crate::output::{self, Column, numbers, plain, words};
use crate::time::{format_duration, format_utc};
use line::{Line, LineNow, line_now, line_terms};
pub(crate) use slips::confirm;

/// The state of a sale that is over.
const ENDED: &str = "ended";
/// Sales that fit on a screen.
const NEWEST: usize = 20;

/// Create, watch and steer the sales of a running server.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  doorbuster sale create --title \"Winter drop\" --starts-at 2026-12-01T10:00:00Z --for 2h \\
      --item product=30,title=Shoe,price=4999,list=9999,total=100,limit=1
  doorbuster sale create drop.toml --dry-run
  doorbuster sale apply drop.toml
  doorbuster sale duplicate 3 --starts-at 2026-12-08T10:00:00Z
  doorbuster sale list
  doorbuster sale edit 3 --starts-at 2026-12-01T20:00:00Z --for 2h
  doorbuster sale edit 3 --item 30 --price 3999
  doorbuster sale delete 3
  doorbuster sale pause 3
  doorbuster sale restock 3 30 50
  doorbuster sale pace 7 31 20                           of an item that is sold to its line
  doorbuster sale report 3 --data-dir var/doorbuster     the morning after; reads the ledger, and asks no server

The server is http://127.0.0.1:8080 unless --server or DOORBUSTER_SERVER names another. The operator token comes
from --token-file, from DOORBUSTER_OPERATOR_TOKEN, or from a demo's data directory: --data-dir var/demo.")]
pub(crate) struct SaleArguments {
    #[command(subcommand)]
    command: SaleCommand,
}

#[derive(Subcommand, Debug)]
enum SaleCommand {
    Create(Box<create::CreateArguments>),
    Duplicate(duplicate::DuplicateArguments),
    Diff(apply::DiffArguments),
    Apply(apply::ApplyArguments),
    Edit(edit::EditArguments),
    Delete(delete::DeleteArguments),
    /// List the sales that are not over, or in whose lines somebody may order still, the newest first
    List {
        /// Only those in this state; sales that are over for everybody are listed with "ended" alone
        #[arg(long, value_parser = ["upcoming", "open", "ended"])]
        state: Option<String>,
        #[command(flatten)]
        server: ServerArguments,
    },
    /// Show one sale with its items
    Show(SaleNamed),
    /// Stop taking orders for now; payments of held orders go on
    Pause(pause::PauseArguments),
    /// Take orders again after a pause
    Resume(pause::PauseArguments),
    End(end::EndArguments),
    Report(report::ReportArguments),
    Verify(certificate::VerifyArguments),
    Restock(stock::RestockArguments),
    Correct(stock::CorrectArguments),
    /// Limit how many places of an item's line are reached per second
    Pace(PaceLimit),
    /// Say something to everybody in an item's line, on its page
    Message(LineMessage),
}

#[derive(Args, Debug)]
struct SaleNamed {
    /// The sale's number, as `doorbuster sale list` shows it
    sale: u64,
    #[command(flatten)]
    server: ServerArguments,
}

#[derive(Args, Debug)]
#[command(after_help = "\
With 0 nobody more is reached: whoever was reached is called as before, turns that are open stay and can be used, and whoever is sure
stays sure. `doorbuster sale pause` stops orders and the time of turns too. The same limit again changes nothing.")]
struct PaceLimit {
    /// The sale's number
    sale: u64,
    /// The product's number
    product: u64,
    /// Places per second, from 0 to 100000; all: as many as can be
    #[arg(value_name = "PER_S", value_parser = parse_pace)]
    pace: Pace,
    #[command(flatten)]
    server: ServerArguments,
}

#[derive(Args, Debug)]
#[command(after_help = "\
The page of the line shows it as text, within seconds, until it is changed; an empty one, \"\", takes it away. It is not translated. The
same again changes nothing.

Example:
  doorbuster sale message 7 31 \"The payment provider is slow tonight. Your place stays yours.\"")]
struct LineMessage {
    /// The sale's number
    sale: u64,
    /// The product's number
    product: u64,
    /// At most 280 characters, without line ends
    message: String,
    #[command(flatten)]
    server: ServerArguments,
}

/// Places per second; `None`: no limit.
#[derive(Clone, Copy, Debug)]
struct Pace(Option<u32>);

fn parse_pace(text: &str) -> Result<Pace, String> {
    let max = limits::LINE_PACE_PER_S_MAX;
    match text.parse() {
        _ if text == "all" => Ok(Pace(None)),
        Ok(per_s) if per_s <= max => Ok(Pace(Some(per_s))),
        _ => Err(format!("write a number from 0 to {max}, or all")),
    }
}

/// A sale as the API gives it.
#[derive(Clone, Deserialize)]
struct Sale {
    id: u64,
    title: String,
    currency: String,
    state: String,
    starts_at_ms: u64,
    ends_at_ms: u64,
    /// `None`: its orders are paid on placing.
    payment_s: Option<u64>,
    /// `None`: no bound.
    open_holds_per_buyer_max: Option<u64>,
    /// A page of them.
    items: Vec<Item>,
    items_total: u64,
    items_next_cursor: Option<u64>,
}

#[derive(Clone, Deserialize)]
struct Item {
    product: u64,
    title: String,
    description: String,
    /// In the currency's smallest unit.
    price: u64,
    list_price: u64,
    total: u64,
    available: u64,
    /// Set aside for those who were called; one that is older does not say.
    #[serde(default)]
    turns: u64,
    /// What is held and sold is given to the holder of the operator's token only.
    held: Option<u64>,
    sold: Option<u64>,
    limit: Option<u64>,
    image: Option<Image>,
    line: Option<Line>,
    /// For the holder of the operator's token only; one that is older does not say.
    line_now: Option<LineNow>,
}

#[derive(Clone, Deserialize)]
struct Image {
    name: String,
    alt: String,
}

#[derive(Deserialize)]
struct Sales {
    sales: Vec<Sale>,
    next_cursor: Option<u64>,
    /// For the holder of the operator's token only.
    next_id: Option<u64>,
    /// The same; units of the largest item of all sales, over or not. `None`: there are none.
    largest_total: Option<u64>,
}

/// The only part of the answer of `GET /time` that is needed here.
#[derive(Deserialize)]
struct ServerTime {
    now_ms: u64,
    /// One that is older does not say.
    confirmed: Option<bool>,
}

impl ServerTime {
    /// One that is not confirmed may stand still, at the last entry of the ledger.
    fn warn_if_unconfirmed(&self, relative: bool) {
        if relative && self.confirmed == Some(false) {
            let now = format_utc(self.now_ms);
            eprintln!(
                "warning: the server's clock is not confirmed: relative times count from {now}, where it stands; see `doorbuster clock`"
            );
        }
    }
}

fn time_of(client: &Client) -> Result<ServerTime, Failure> {
    client.get("/time")?.read()
}

fn server_time(client: &Client) -> Result<u64, Failure> {
    Ok(time_of(client)?.now_ms)
}

/// The sale of a file as a rehearsal makes it: open from `now_ms` on for so long, without images, whatever the file says
/// of times. What is wrong with the file is said as when the sale itself is made.
pub(crate) fn rehearsed(file: &Path, now_ms: u64, length: Duration) -> Result<serde_json::Value, Failure> {
    let written = written::Written::read(file)?;
    let id = written.id.unwrap_or(1);
    let mut plan = written.plan()?;
    plan.times.at(now_ms)?;
    plan.times = plan::Times { starts: crate::time::Moment::At(now_ms), ends: plan::End::After(length) };
    if let Some(item) = plan.items.iter().find(|item| item.line.is_some()) {
        return Err(Failure::usage(format!(
            "product {} is sold to a line, and the crowd of a rehearsal does not queue: rehearse a copy of the file without \
             its line; `doorbuster bench run line` plays a night with one",
            item.product
        )));
    }
    plan.items.iter_mut().for_each(|item| item.image = None);
    Ok(json!(plan.at(id, now_ms)?))
}

pub(crate) fn run(arguments: &SaleArguments, environment: &Environment) -> Result<(), Failure> {
    match &arguments.command {
        SaleCommand::Create(create) => create::run(create, environment),
        SaleCommand::Duplicate(duplicate) => duplicate::run(duplicate, environment),
        SaleCommand::Diff(diff) => apply::diff(diff, environment),
        SaleCommand::Apply(apply) => apply::apply(apply, environment),
        SaleCommand::Edit(edit) => edit::run(edit, environment),
        SaleCommand::Delete(delete) => delete::run(delete, environment),
        SaleCommand::List { state, server } => list_pages(state.as_deref(), server, environment),
        SaleCommand::Show(named) => show_pages(named, environment),
        SaleCommand::Pause(arguments) => pause::pause(arguments, environment),
        SaleCommand::Resume(arguments) => pause::resume(arguments, environment),
        SaleCommand::End(end) => end::run(end, environment),
        SaleCommand::Report(report) => report::run(report, environment),
        SaleCommand::Verify(verify) => certificate::verify(verify, environment),
        SaleCommand::Restock(restock) => stock::restock(restock, environment),
        SaleCommand::Correct(correct) => stock::correct(correct, environment),
        SaleCommand::Pace(limit) => limit_pace(limit, environment),
        SaleCommand::Message(message) => set_line_message(message, environment),
    }
}

/// Reads the list to its end. As JSON each page is a line, as it came.
fn list_pages(
    state: Option<&str>,
    server: &ServerArguments,
    environment: &Environment,
) -> Result<(), Failure> {
    let client = Client::connect(server, environment)?;
    let query = state.map_or_else(|| "?limit=200".to_owned(), |state| format!("?limit=200&state={state}"));
    let (mut sales, mut cursor) = (Vec::new(), String::new());
    loop {
        let (answer, page) = page(&client, &format!("{query}{cursor}"))?;
        if server.json {
            output::print(&answer.text())?;
        }
        sales.extend(page.sales);
        let Some(next) = page.next_cursor else { break };
        cursor = format!("&cursor={next}");
    }
    if server.json {
        return Ok(());
    }
    // A list has the first items of each: the sums are of all.
    for sale in sales.iter_mut().filter(|sale| sale.items_next_cursor.is_some()) {
        if let Some(whole) = find(&client, sale.id)? {
            *sale = whole;
        }
    }
    output::print(&list(&sales))
}

fn page(client: &Client, query: &str) -> Result<(Answer, Sales), Failure> {
    let answer = client.get(&format!("/sales{query}"))?;
    let page = answer.read::<Sales>()?;
    if page.next_id.is_none() { Err(not_the_operators()) } else { Ok((answer, page)) }
}

/// The newest sales that are not over: as they came, and as a table.
pub(crate) fn newest(client: &Client) -> Result<(Answer, String), Failure> {
    let (answer, page) = page(client, &format!("?limit={NEWEST}"))?;
    let more = if page.next_cursor.is_some() { "and older ones: `doorbuster sale list`\n" } else { "" };
    Ok((answer, list(&page.sales) + more))
}

/// Shows a sale with all of its items. As JSON each page is a line, as it came.
fn show_pages(named: &SaleNamed, environment: &Environment) -> Result<(), Failure> {
    let client = Client::connect(&named.server, environment)?;
    let first = client.get(&path_of(named.sale))?;
    let sale =
        whole(&client, first, |page| if named.server.json { output::print(&page.text()) } else { Ok(()) })?;
    if named.server.json { Ok(()) } else { output::print(&describe(&sale)) }
}

/// The sale with all of its items; `None`: the server has none of this number.
fn find(client: &Client, id: u64) -> Result<Option<Sale>, Failure> {
    let first = client.get_if_there(&path_of(id))?.ok();
    first.map(|first| whole(client, first, |_page| Ok(()))).transpose()
}

/// The same, for whoever means to make it if there is none: the number of a deleted one is used up.
fn find_or_free(client: &Client, id: u64) -> Result<Option<Sale>, Failure> {
    match client.get_if_there(&path_of(id))? {
        Ok(first) => whole(client, first, |_page| Ok(())).map(Some),
        Err(code) if code == "sale_deleted" => Err(Failure::check(format!(
            "sale {id} was deleted, and its number is never used again: choose another id"
        ))),
        Err(_) => Ok(None),
    }
}

fn path_of(id: u64) -> String {
    format!("/sales/{id}?limit=200")
}

/// Reads the pages that follow the first, and hands each over as it came.
fn whole(
    client: &Client,
    first: Answer,
    mut each: impl FnMut(&Answer) -> Result<(), Failure>,
) -> Result<Sale, Failure> {
    let mut sale = first.read::<Sale>()?;
    if sale.items.iter().any(|item| item.held.is_none()) {
        return Err(not_the_operators());
    }
    each(&first)?;
    while let Some(next) = sale.items_next_cursor {
        let answer = client.get(&format!("{}&cursor={next}", path_of(sale.id)))?;
        each(&answer)?;
        let page = answer.read::<Sale>()?;
        sale.items.extend(page.items);
        sale.items_next_cursor = page.items_next_cursor;
    }
    Ok(sale)
}

fn limit_pace(limit: &PaceLimit, environment: &Environment) -> Result<(), Failure> {
    let client = Client::connect(&limit.server, environment)?;
    let path = format!("/sales/{}/items/{}/line/pace", limit.sale, limit.product);
    let answer = client.post(&path, &json!({ "per_s_max": limit.pace.0 }), None)?;
    show(&answer, &limit.server)
}

fn set_line_message(set: &LineMessage, environment: &Environment) -> Result<(), Failure> {
    let client = Client::connect(&set.server, environment)?;
    let path = format!("/sales/{}/items/{}/line/message", set.sale, set.product);
    let answer = client.post(&path, &json!({ "message": set.message }), None)?;
    show(&answer, &set.server)
}

fn show(answer: &Answer, server: &ServerArguments) -> Result<(), Failure> {
    if server.json {
        return output::print(&answer.text());
    }
    output::print(&describe(&answer.read()?))
}

fn list(sales: &[Sale]) -> String {
    if sales.is_empty() {
        return "no sales here; `doorbuster sale create --help` shows how to make one\n".to_owned();
    }
    // Of more items than were read there is no sum.
    let sum = |sale: &Sale, of: fn(&Item) -> Option<u64>| {
        let all = sale.items_next_cursor.is_none();
        or_dash(sale.items.iter().map(of).sum::<Option<u64>>().filter(|_| all))
    };
    let rows: Vec<_> = sales
        .iter()
        .map(|sale| {
            [
                sale.id.to_string(),
                plain(&sale.title),
                plain(&sale.state),
                format_utc(sale.starts_at_ms),
                format_utc(sale.ends_at_ms),
                sale.items_total.to_string(),
                sum(sale, |item| Some(item.total)),
                sum(sale, |item| Some(item.available)),
                sum(sale, |item| Some(item.turns)),
                sum(sale, |item| item.held),
                sum(sale, |item| item.sold),
            ]
        })
        .collect();
    let has_lines = sales.iter().flat_map(|sale| &sale.items).any(|item| item.line.is_some());
    output::table_without((!has_lines).then_some(TURNS), COLUMNS, &rows)
}

/// Of a list of sales, wherever there is one.
pub(crate) const COLUMNS: [Column; 11] = [
    numbers("sale"),
    words("title"),
    words("state"),
    words("starts"),
    words("ends"),
    numbers("items"),
    numbers("total"),
    numbers("available"),
    numbers("turns"),
    numbers("held"),
    numbers("sold"),
];

/// The column of units that are set aside for those who were called: for sales with lines alone.
pub(crate) const TURNS: usize = 8;

fn describe(sale: &Sale) -> String {
    let mut text = String::new();
    let (payment, holds) = (payment(sale.payment_s), open_holds(sale.open_holds_per_buyer_max.unwrap_or(0)));
    writeln!(
        text,
        "sale {}: {}, {}\n{} to {}, {payment}, {holds}\n",
        sale.id,
        plain(&sale.title),
        plain(&sale.state),
        format_utc(sale.starts_at_ms),
        format_utc(sale.ends_at_ms),
    )
    .expect("a String takes every write");
    let rows: Vec<_> = sale
        .items
        .iter()
        .map(|item| {
            [
                item.product.to_string(),
                plain(&item.title),
                output::money(item.price, &sale.currency),
                output::money(item.list_price, &sale.currency),
                item.total.to_string(),
                item.available.to_string(),
                item.turns.to_string(),
                or_dash(item.held),
                or_dash(item.sold),
                limit(item.limit),
            ]
        })
        .collect();
    let columns = [
        numbers("product"),
        words("title"),
        numbers("price"),
        numbers("list price"),
        numbers("total"),
        numbers("available"),
        numbers("turns"),
        numbers("held"),
        numbers("sold"),
        numbers("limit"),
    ];
    let lines: Vec<_> = sale.items.iter().filter_map(|item| Some((item, item.line.as_ref()?))).collect();
    let left_out = lines.is_empty().then_some(6);
    let said = |(item, line): &(&Item, &Line)| {
        let unasked = item.line_now.as_ref().is_some_and(|now| now.beacon_not_configured);
        line_terms(item.product, line, unasked) + &line_now(item)
    };
    text + &output::table_without(left_out, columns, &rows) + &lines.iter().map(said).collect::<String>()
}

/// `None`: its orders are paid on placing.
fn payment(payment_s: Option<u64>) -> String {
    match payment_s {
        Some(seconds) => format!("{} to pay", format_duration(Duration::from_secs(seconds))),
        None => "paid on placing".to_owned(),
    }
}

fn open_holds(per_buyer_max: u64) -> String {
    match per_buyer_max {
        // How the server says that there is no bound.
        0 => "any number of open holds".to_owned(),
        max => format!("{max} open holds per buyer at most"),
    }
}

fn limit(units: Option<u64>) -> String {
    units.map_or_else(|| "none".to_owned(), |units| units.to_string())
}

/// A number, or a dash if the server did not give it: the token is not its operator's.
fn or_dash(number: Option<u64>) -> String {
    number.map_or_else(|| "-".to_owned(), |number| number.to_string())
}
