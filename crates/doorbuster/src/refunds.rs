//! `doorbuster refunds`: refunds of paid orders, payments that paid for nothing, and the word that the money was given back.
//!
//! Must not: give money back; the provider does.

use clap::{Args, Subcommand};
use serde::Deserialize;
use serde_json::json;
use server::config::Environment;

use crate::client::{Client, ServerArguments, percent_encoded};
use crate::failure::Failure;
use crate::output::{self, numbers, plain, units_of, words};
use crate::time::format_utc;

/// Refund paid orders, list the refunds that are due, and settle those that were made.
#[derive(Args, Debug)]
#[command(after_help = "\
A payment that paid for nothing (for an order that was cancelled, paid already or unknown, of another amount, too late and
sold out) is kept, and its refund is due until you say that it was made. So is a refund of a paid order:

  doorbuster refunds create ORDER                       all that is left of its amount; its units stay sold
  doorbuster refunds create ORDER --amount 500 --units 1 --id damaged-7
                                                        5.00 of it, and one unit goes back on sale
  doorbuster refunds list
  doorbuster refunds settle pay_1                       once the provider has given the money back

To create or settle the same again changes nothing. What has paid for its order can't be settled: refund the order.")]
pub(crate) struct RefundsArguments {
    #[command(subcommand)]
    command: RefundsCommand,
}

#[derive(Subcommand, Debug)]
enum RefundsCommand {
    /// Refund a paid order, whole or in part; the money is moved by Stripe if it is configured, else by your provider
    Create {
        /// The order's id
        order: String,
        /// In the currency's smallest unit [default: all that is left]
        #[arg(long, value_name = "MINOR")]
        amount: Option<u64>,
        /// Units that go back on sale
        #[arg(long, value_name = "N", default_value_t = 0)]
        units: u32,
        /// Names the refund: another one of the same order needs another id [default: refund-ORDER]
        #[arg(long)]
        id: Option<String>,
        #[command(flatten)]
        server: ServerArguments,
    },
    /// List the payments whose refund is due, the oldest first
    List {
        #[command(flatten)]
        server: ServerArguments,
    },
    /// Say that the provider gave the money of these payments back
    Settle {
        /// The provider's payment ids, as `doorbuster refunds list` shows them
        #[arg(required = true, value_name = "PAYMENT")]
        payments: Vec<String>,
        #[command(flatten)]
        server: ServerArguments,
    },
}

/// A payment as the API gives it.
#[derive(Deserialize)]
struct Payment {
    payment_id: String,
    order: String,
    /// In the currency's smallest unit.
    amount: u64,
    /// Of the order's sale; `None`: there is no such order.
    currency: Option<String>,
    result: String,
    reason: Option<String>,
    /// Of a refund of a paid order.
    units: Option<u32>,
    recorded_at_ms: u64,
}

#[derive(Deserialize)]
struct RefundsDue {
    payments: Vec<Payment>,
}

pub(crate) fn run(arguments: &RefundsArguments, environment: &Environment) -> Result<(), Failure> {
    match &arguments.command {
        RefundsCommand::Create { order, amount, units, id, server } => {
            let id = id.clone().unwrap_or_else(|| format!("refund-{order}"));
            let mut wanted = json!({ "refund_id": id, "units": units });
            if let Some(amount) = amount {
                wanted["amount"] = json!(amount);
            }
            let path = format!("/orders/{}/refund", percent_encoded(order));
            let answer = Client::connect(server, environment)?.post(&path, &wanted, None);
            let answer = answer.map_err(|failure| failure.of(&plain(order)))?;
            let text = if server.json { answer.text() } else { created(&answer.read()?) };
            output::print(&text)
        }
        RefundsCommand::List { server } => {
            let answer = Client::connect(server, environment)?.get("/payments/refunds-due")?;
            let text = if server.json { answer.text() } else { list(&answer.read::<RefundsDue>()?.payments) };
            output::print(&text)
        }
        RefundsCommand::Settle { payments, server } => {
            let client = Client::connect(server, environment)?;
            for payment in payments {
                let path = format!("/payments/{}/settle", percent_encoded(payment));
                let answer = client.post(&path, &json!({}), None);
                let answer = answer.map_err(|failure| failure.of(&plain(payment)))?;
                let text = if server.json { answer.text() } else { settled(&answer.read()?) };
                output::print(&text)?;
            }
            Ok(())
        }
    }
}

fn list(payments: &[Payment]) -> String {
    if payments.is_empty() {
        return "no refunds are due\n".to_owned();
    }
    let rows: Vec<_> = payments
        .iter()
        .map(|payment| {
            [
                plain(&payment.payment_id),
                money(payment),
                plain(&payment.order),
                plain(payment.reason.as_deref().unwrap_or("-")),
                format_utc(payment.recorded_at_ms),
            ]
        })
        .collect();
    let columns = [words("payment"), numbers("amount"), words("order"), words("reason"), words("recorded")];
    output::table(columns, &rows)
}

/// Of an order, as lines for people; those are few.
pub(crate) fn due_of(client: &Client, order: &str) -> Result<Vec<String>, Failure> {
    let RefundsDue { payments } = client.get("/payments/refunds-due")?.read()?;
    let line = |payment: &Payment| {
        let id = plain(&payment.payment_id);
        let reason = payment
            .reason
            .as_deref()
            .map_or_else(String::new, |reason| format!(" ({})", plain(&reason.replace('_', " "))));
        format!(
            "a refund is due: {} of {id}{reason}; when it was made: doorbuster refunds settle {id}",
            money(payment)
        )
    };
    Ok(payments.iter().filter(|payment| payment.order == order).map(line).collect())
}

fn created(refund: &Payment) -> String {
    let Payment { payment_id, result, units, .. } = refund;
    let state = if result == "settled" { "made before" } else { "due" };
    let back = match units {
        Some(0) | None => String::new(),
        Some(units) => format!(
            "; {} {} on sale again",
            units_of((*units).into(), ""),
            if *units == 1 { "is" } else { "are" }
        ),
    };
    format!("{} of {}: {state}{back}\n", plain(payment_id), money(refund))
}

fn settled(payment: &Payment) -> String {
    format!("{} of {}: settled\n", plain(&payment.payment_id), money(payment))
}

fn money(payment: &Payment) -> String {
    match &payment.currency {
        Some(currency) => output::money(payment.amount, currency),
        None => format!("{} minor units", payment.amount),
    }
}
