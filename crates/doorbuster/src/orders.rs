//! `doorbuster orders`: one order by its number, for whoever supports buyers; and all of them, for the shop's fulfilment.
//!
//! Must not: give money back; the provider does.

use std::fmt::Write as _;

use clap::{Args, Subcommand};
use serde::Deserialize;
use serde_json::{Value, json};
use server::config::Environment;

use crate::client::{Answer, Client, ServerArguments, percent_encoded};
use crate::failure::Failure;
use crate::ledger::{self, ExportArguments};
use crate::output::{self, plain, units_of};
use crate::refunds;
use crate::time::format_utc;

/// An id, and blanks that were copied with it.
const ORDER_BYTES_MAX: usize = 64;

/// Find an order by its number, cancel it, note a refund; export orders in bulk.
#[derive(Args, Debug)]
#[command(after_help = "\
The number is the one that a buyer reads on the page of the order; its id will do as well:

  doorbuster orders show K7QM-3X9F
  doorbuster orders cancel K7QM-3X9F --why 'ordered twice'      its units go back on sale
  doorbuster orders note-refund K7QM-3X9F --reference bank-117  the money was given back, by whatever way

Each needs the role support, happens once however often it is sent, and stands in `doorbuster operators log` with --why.
What is paid can't be cancelled: refund it. `doorbuster refunds create` asks for a refund that is still to be made.")]
pub(crate) struct OrdersArguments {
    #[command(subcommand)]
    command: OrdersCommand,
}

#[derive(Subcommand, Debug)]
enum OrdersCommand {
    /// Show an order, and what became of it
    Show {
        #[command(flatten)]
        order: OrderArguments,
    },
    /// Cancel an order that is not paid
    Cancel {
        #[command(flatten)]
        order: OrderArguments,
    },
    /// Note that money of a paid order was given back
    NoteRefund {
        #[command(flatten)]
        order: OrderArguments,
        /// Names the refund, as your bank or provider does: another one of the same order needs another reference
        #[arg(long)]
        reference: String,
        /// In the currency's smallest unit [default: all that is left]
        #[arg(long, value_name = "MINOR")]
        amount: Option<u64>,
        /// Units that go back on sale
        #[arg(long, value_name = "N", default_value_t = 0)]
        units: u32,
    },
    Export(ExportArguments),
}

#[derive(Args, Debug)]
struct OrderArguments {
    /// The order's number or id
    #[arg(value_parser = parse_order)]
    order: String,
    #[command(flatten)]
    server: ServerArguments,
}

/// An order as the API gives it.
#[derive(Deserialize)]
struct Order {
    id: String,
    number: Option<String>,
    sale: u64,
    product: u64,
    buyer: String,
    quantity: u32,
    amount: u64,
    currency: String,
    status: String,
    placed_at_ms: u64,
    pay_by_ms: Option<u64>,
    refund_due: bool,
}

#[derive(Deserialize)]
struct Found {
    order: Order,
    life: Vec<Step>,
    more: bool,
}

#[derive(Deserialize)]
struct Step {
    at_ms: u64,
    what: String,
    payment_id: Option<String>,
    amount: Option<u64>,
    by: Option<String>,
    #[serde(default)]
    why: String,
}

#[derive(Deserialize)]
struct Refund {
    payment_id: String,
    amount: u64,
}

pub(crate) fn run(arguments: &OrdersArguments, environment: &Environment) -> Result<(), Failure> {
    match &arguments.command {
        OrdersCommand::Export(arguments) => ledger::export(arguments, environment),
        OrdersCommand::Show { order: OrderArguments { order, server } } => {
            let client = Client::connect(server, environment)?;
            let answer = find(&client, order)?;
            if server.json {
                return output::print(&answer.text());
            }
            let Found { order, life, more } = match answer.read() {
                Ok(found) => found,
                // It is on its way to the ledger, which knows nothing of it.
                Err(_) => Found { order: answer.read()?, life: Vec::new(), more: false },
            };
            let due = if order.refund_due { refunds::due_of(&client, &order.id)? } else { Vec::new() };
            output::print(&shown(&order, &life, more, &due))
        }
        OrdersCommand::Cancel { order: OrderArguments { order, server } } => {
            let client = Client::connect(server, environment)?;
            let answer = act(&client, order, "cancel", &json!({}))?;
            if server.json {
                return output::print(&answer.text());
            }
            let Order { quantity, status, .. } = answer.read()?;
            output::print(&format!(
                "{}: {}, {} on sale again\n",
                plain(order),
                plain(&status),
                units_of(quantity.into(), "")
            ))
        }
        OrdersCommand::NoteRefund { order: OrderArguments { order, server }, reference, amount, units } => {
            let mut noted = json!({ "refund_id": reference, "units": units, "made": true });
            if let Some(amount) = amount {
                noted["amount"] = json!(amount);
            }
            let client = Client::connect(server, environment)?;
            let found = order_of(&find(&client, order)?)?;
            let answer =
                act(&client, &found.id, "refund", &noted).map_err(|failure| failure.of(&plain(order)))?;
            if server.json {
                return output::print(&answer.text());
            }
            let Refund { payment_id, amount } = answer.read()?;
            let money = output::money(amount, &found.currency);
            output::print(&format!("{}: {money} noted as refunded, {}\n", plain(order), plain(&payment_id)))
        }
    }
}

/// By its number with its life; by its id as well, once it has a number.
fn find(client: &Client, order: &str) -> Result<Answer, Failure> {
    let by_number = |number: &str| client.get(&format!("/support/orders/{}", percent_encoded(number)));
    let found = if is_id(order) {
        let read = client.get(&format!("/orders/{order}"));
        read.and_then(|answer| match answer.read::<Order>()?.number {
            Some(number) => by_number(&number),
            None => Ok(answer),
        })
    } else {
        by_number(order)
    };
    found.map_err(|failure| failure.of(&plain(order)))
}

/// Of whatever is no order's, the server says so; what is far too long is not sent, nor shown.
fn parse_order(text: &str) -> Result<String, String> {
    if text.len() > ORDER_BYTES_MAX {
        return Err("a number is like K7QM-3X9F, an id has 40 digits".to_owned());
    }
    Ok(text.to_owned())
}

fn is_id(text: &str) -> bool {
    text.len() == 40 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

fn order_of(answer: &Answer) -> Result<Order, Failure> {
    match answer.read::<Value>()?.get("order") {
        Some(_) => Ok(answer.read::<Found>()?.order),
        None => answer.read(),
    }
}

fn act(client: &Client, order: &str, how: &str, body: &Value) -> Result<Answer, Failure> {
    let id = if is_id(order) { order.to_owned() } else { order_of(&find(client, order)?)?.id };
    client.post(&format!("/orders/{}/{how}", percent_encoded(&id)), body, None)
}

fn shown(order: &Order, life: &[Step], more: bool, due: &[String]) -> String {
    let Order { sale, product, quantity, .. } = order;
    let number = order.number.as_deref().map_or_else(|| "no number yet".to_owned(), plain);
    let mut text = format!(
        "{number}  {}\n{} of product {product}, sale {sale}: {}\nbuyer {}\nid {}\n",
        plain(&order.status),
        units_of((*quantity).into(), ""),
        output::money(order.amount, &order.currency),
        plain(&order.buyer),
        plain(&order.id),
    );
    let mut line =
        |line: std::fmt::Arguments<'_>| writeln!(text, "{line}").expect("a String takes every write");
    if let Some(pay_by) = order.pay_by_ms.filter(|_| order.status == "held") {
        line(format_args!("to be paid by {}", format_utc(pay_by)));
    }
    due.iter().for_each(|due| line(format_args!("{due}")));
    if life.is_empty() {
        line(format_args!("{}  placed", format_utc(order.placed_at_ms)));
    }
    for step in life {
        let payment = step.payment_id.as_deref().map_or_else(String::new, |id| format!(" {}", plain(id)));
        let amount = step.amount.map(|amount| format!(" {}", output::money(amount, &order.currency)));
        let by = step.by.as_deref().map_or_else(String::new, |by| format!(" by {}", plain(by)));
        let why = if step.why.is_empty() { String::new() } else { format!(": {}", plain(&step.why)) };
        let what = plain(&step.what.replace('_', " "));
        line(format_args!(
            "{}  {what}{payment}{}{by}{why}",
            format_utc(step.at_ms),
            amount.unwrap_or_default()
        ));
    }
    if more {
        line(format_args!("and more refunds than are shown"));
    }
    text
}
