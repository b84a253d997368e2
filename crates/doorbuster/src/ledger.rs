//! `doorbuster audit`, `orders export` and `backup`: a data directory read beside a server that may be running.
//!
//! Must not: write the ledger, or keep a read transaction open longer than the ledger's own functions do.

use std::io::{self, BufWriter, Write};
use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use serde::Serialize;
use server::ledger::sqlite::{self, Audit, BackupError, OpenError, OrderLine};

use crate::failure::Failure;
use crate::output::{self, numbers, plain, words};

/// Check every invariant over the whole ledger.
#[derive(Args, Debug)]
#[command(after_help = "\
Replays every entry of the ledger, while a server runs on it or not, and checks per product that available + held
+ sold = total, that the orders add up to it, and that no buyer is over a limit. Exit code 0: all hold. 1: some do
not, each named on a line.

Example:
  doorbuster audit --data-dir var/demo")]
pub(crate) struct AuditArguments {
    #[command(flatten)]
    ledger: LedgerArguments,
}

/// Work with orders in bulk.
#[derive(Args, Debug)]
pub(crate) struct OrdersArguments {
    #[command(subcommand)]
    command: OrdersCommand,
}

#[derive(Subcommand, Debug)]
enum OrdersCommand {
    /// Write orders to standard output, for the shop's fulfilment
    #[command(after_help = "\
Writes each order that was placed or changed after the cursor once, with its status now; amounts in the currency's
smallest unit, times in milliseconds since 1970. The cursor to go on from is the last line on standard error.

Examples:
  doorbuster orders export --data-dir var/doorbuster --format csv > orders.csv
  doorbuster orders export --data-dir var/doorbuster --format jsonl --since 120345 2> cursor")]
    Export {
        #[command(flatten)]
        ledger: LedgerArguments,
        /// A line per order: comma separated with a head line, or one JSON object each
        #[arg(long, value_enum)]
        format: Format,
        /// The cursor that an earlier export ended with; 0 exports all
        #[arg(long, value_name = "CURSOR", default_value_t = 0)]
        since: u64,
    },
}

/// Copy the ledger to a file, while the server runs or not.
#[derive(Args, Debug)]
#[command(after_help = "\
The copy is consistent: it holds every order that was accepted before the command began. Copying ledger.db with
other tools while the server runs is not. It holds what the ledger holds: addresses, and the secret that order ids
are made with, so keep it as you keep the ledger. The secrets of tokens and payments are not in it.

Example, with a date in the name:
  doorbuster backup --data-dir var/doorbuster --to backup-$(date +%F).db

To restore, put the file as ledger.db into a new directory, check it, and serve from there:
  mkdir var/restored
  cp backup-2026-12-01.db var/restored/ledger.db
  doorbuster audit --data-dir var/restored
  doorbuster serve --data-dir var/restored
Keep the old directory until you know why you needed this: orders accepted after the backup are only there.")]
pub(crate) struct BackupArguments {
    #[command(flatten)]
    ledger: LedgerArguments,
    /// The file to make; it must not exist
    #[arg(long, value_name = "FILE")]
    to: PathBuf,
}

#[derive(Args, Debug)]
struct LedgerArguments {
    /// Directory of the ledger (ledger.data_dir of the server)
    #[arg(long, value_name = "DIR")]
    data_dir: PathBuf,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Format {
    Csv,
    Jsonl,
}

pub(crate) fn audit(arguments: &AuditArguments) -> Result<(), Failure> {
    let audit = sqlite::audit(&arguments.ledger.data_dir).map_err(|error| {
        // A damaged ledger fails its audit; one that can't be had was not audited.
        if error.is_damage() { Failure::check(error) } else { cannot_open(error) }
    })?;
    output::print(&report(&audit))?;
    if audit.broken.is_empty() {
        return Ok(());
    }
    let lines: String = audit.broken.iter().map(|line| format!("\n  {line}")).collect();
    Err(Failure::check(format!("the ledger breaks {} invariant(s):{lines}", audit.broken.len())))
}

fn report(audit: &Audit) -> String {
    let rows: Vec<_> = audit
        .skus
        .iter()
        .map(|sku| {
            [
                sku.sale.0.to_string(),
                sku.product.0.to_string(),
                plain(&sku.title),
                sku.total.to_string(),
                sku.available.to_string(),
                sku.held.to_string(),
                sku.sold.to_string(),
                sku.orders.to_string(),
            ]
        })
        .collect();
    let columns = [
        numbers("sale"),
        numbers("product"),
        words("title"),
        numbers("total"),
        numbers("available"),
        numbers("held"),
        numbers("sold"),
        numbers("orders"),
    ];
    let verdict = match (audit.broken.is_empty(), audit.complete) {
        (true, _) => "ok: every invariant holds",
        (false, true) => "not ok",
        (false, false) => "not ok, and the table is no result: it stops before the first entry that is wrong",
    };
    format!(
        "{}\n{verdict}; {} entries, {} orders, {} refunds due\n",
        output::table(columns, &rows),
        audit.entries,
        audit.orders,
        audit.refunds_due
    )
}

/// One exported order; the names are the columns of the CSV and the keys of the JSON, and those of the API.
#[derive(Serialize)]
struct Line<A> {
    id: String,
    sale: u64,
    product: u64,
    buyer: String,
    quantity: u32,
    unit_price: u64,
    /// Of the whole order.
    amount: u64,
    currency: String,
    status: &'static str,
    placed_at_ms: u64,
    closed_at_ms: Option<u64>,
    /// JSON text in the CSV, an object in the JSON.
    address: Option<A>,
}

impl<A> Line<A> {
    fn new(order: OrderLine, address: impl FnOnce(String) -> A) -> Self {
        Self {
            id: order.id.to_string(),
            sale: order.sale.0,
            product: order.product.0,
            buyer: order.buyer.to_string(),
            quantity: order.quantity,
            unit_price: order.unit_price,
            amount: order.unit_price * u64::from(order.quantity),
            currency: order.currency,
            status: order.status.as_str(),
            placed_at_ms: order.placed_at.0,
            closed_at_ms: order.closed_at.map(|at| at.0),
            address: order.address.map(address),
        }
    }
}

/// An address as the ledger keeps it, JSON text, as JSON.
fn object(text: String) -> serde_json::Value {
    serde_json::from_str(&text).unwrap_or(serde_json::Value::String(text))
}

pub(crate) fn orders(arguments: &OrdersArguments) -> Result<(), Failure> {
    let OrdersCommand::Export { ledger, format, since } = &arguments.command;
    let mut output = BufWriter::new(io::stdout().lock());
    let mut written: io::Result<()> = Ok(());
    let cursor = match format {
        Format::Csv => {
            let mut csv = csv::Writer::from_writer(&mut output);
            let cursor = sqlite::export(&ledger.data_dir, *since, &mut |order| {
                if written.is_ok() {
                    written = csv.serialize(Line::new(order, |text| text)).map_err(io::Error::from);
                }
            });
            written = written.and_then(|()| csv.flush());
            cursor
        }
        Format::Jsonl => sqlite::export(&ledger.data_dir, *since, &mut |order| {
            if written.is_ok() {
                let line =
                    serde_json::to_writer(&mut output, &Line::new(order, object)).map_err(io::Error::from);
                written = line.and_then(|()| output.write_all(b"\n"));
            }
        }),
    };
    let cursor = cursor.map_err(cannot_open)?;
    written?;
    output.flush()?;
    writeln!(io::stderr(), "{cursor}")?;
    Ok(())
}

pub(crate) fn backup(arguments: &BackupArguments) -> Result<(), Failure> {
    sqlite::backup(&arguments.ledger.data_dir, &arguments.to).map_err(cannot_open)?;
    output::print(&format!("{}: written\n", arguments.to.display()))
}

/// The caller named a wrong place, or the ledger there can't be had at the moment.
fn cannot_open(error: OpenError) -> Failure {
    match error {
        OpenError::Backup(exists @ BackupError::Exists(_)) => Failure::usage(exists),
        OpenError::Backup(other) => Failure::unavailable(other),
        OpenError::Missing { .. } | OpenError::NotALedger { .. } | OpenError::CursorAhead { .. } => {
            Failure::usage(error)
        }
        OpenError::Directory { .. }
        | OpenError::Locked { .. }
        | OpenError::Read { .. }
        | OpenError::Newer { .. }
        | OpenError::Older { .. }
        | OpenError::Sqlite(_) => Failure::unavailable(error),
    }
}
