//! `doorbuster audit`, `orders export` and `backup`: a ledger read beside a server that may be running.
//!
//! Must not: write the ledger, or keep a read transaction open longer than the ledger's own functions do.

use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use serde::Serialize;
use server::Secrets;
use server::config::{Config, Environment, Sources};
use server::ledger::sqlite::{self, BackupError};
use server::ledger::{OpenError, OrderLine, Source, mysql};

use crate::audit_report::report;
use crate::cluster_audit;
use crate::failure::Failure;
use crate::output;
use crate::signing_key::KeyFile;

/// Check every invariant over the whole ledger.
#[derive(Args, Debug)]
#[command(after_help = "\
Replays every entry of the ledger, while a server runs on it or not, and checks per product that available + held
+ sold = total, that the orders add up to it, and that no buyer is over a limit. Exit code 0: all hold. 1: some do
not, each named on a line.

Of a cluster (--config with cluster.enabled) it compares three: what the gate (Redis) would sell and has open, what
waits in the queue (RocketMQ), and the ledger. While orders come in, a difference that is still on its way is shown
as such; run it at rest for exact ones.

Examples:
  doorbuster audit --data-dir var/demo
  doorbuster audit --config doorbuster.toml   the ledger that the server has by this file")]
pub(crate) struct AuditArguments {
    #[command(flatten)]
    ledger: LedgerArguments,
}

/// Write orders to standard output, for the shop's fulfilment.
#[derive(Args, Debug)]
#[command(after_help = "\
Writes each order that was placed or changed after the cursor once, with its status now; amounts in the currency's
smallest unit, times in milliseconds since 1970. The cursor to go on from is the last line on standard error.

In the CSV a buyer or an address that begins with = + - @ ' or a tab, which a spreadsheet might take for a formula, has
a ' before it. A program takes one ' off the beginning of these two columns, or reads jsonl, where texts are as they are.

Examples:
  doorbuster orders export --data-dir var/doorbuster --format csv > orders.csv
  doorbuster orders export --data-dir var/doorbuster --format jsonl --since 120345 2> cursor")]
pub(crate) struct ExportArguments {
    #[command(flatten)]
    ledger: LedgerArguments,
    /// A line per order: comma separated with a head line, or one JSON object each
    #[arg(long, value_enum)]
    format: Format,
    /// The cursor that an earlier export ended with; 0 exports all
    #[arg(long, value_name = "CURSOR", default_value_t = 0)]
    since: u64,
}

/// Copy the ledger to a file, while the server runs or not.
#[derive(Args, Debug)]
#[command(after_help = "\
The copy is consistent: it holds every order that was accepted before the command began. Copying ledger.db with
other tools while the server runs is not. It holds what the ledger holds: addresses, and the secret that order ids
are made with, so keep it as you keep the ledger. The secrets of tokens and payments are not in it, and neither are
the images of items: copy the folder images of the data directory as well.

Example, with a date in the name:
  doorbuster backup --data-dir var/doorbuster --to backup-$(date +%F).db

To restore, put the file as ledger.db into a new directory, check it, and serve from there:
  mkdir var/restored
  cp backup-2026-12-01.db var/restored/ledger.db && cp -r var/doorbuster/images var/restored/
  doorbuster audit --data-dir var/restored
  doorbuster serve --data-dir var/restored
Keep the old directory until you know why you needed this: orders accepted after the backup are only there.

A ledger on a MySQL server is backed up by that server's tools: mysqldump --single-transaction, or mariadb-backup.")]
pub(crate) struct BackupArguments {
    #[command(flatten)]
    ledger: LedgerArguments,
    /// The file to make; it must not exist
    #[arg(long, value_name = "FILE")]
    to: PathBuf,
}

#[derive(Args, Debug)]
#[group(required = true, multiple = false)]
pub(crate) struct LedgerArguments {
    /// Directory of the ledger (ledger.data_dir of the server)
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// Configuration file of the server, with the environment on top of it
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

impl LedgerArguments {
    pub(crate) fn source(&self, environment: &Environment) -> Result<Source, Failure> {
        if let Some(data_dir) = &self.data_dir {
            return Ok(Source::Directory(data_dir.clone()));
        }
        configured(self.config.as_ref().expect("one of the two is required"), environment)
    }

    /// Where the shop's key is: the one that is named, or the server's own.
    pub(crate) fn key_file(
        &self,
        named: Option<&Path>,
        environment: &Environment,
    ) -> Result<Option<KeyFile>, Failure> {
        KeyFile::of(named, (self.config.as_deref(), self.data_dir.as_deref()), environment)
    }

    /// Where a server on this machine keeps the history of its figures; `None`: in its memory.
    pub(crate) fn history_dir(&self, environment: &Environment) -> Result<Option<PathBuf>, Failure> {
        let Some(path) = &self.config else { return Ok(self.data_dir.clone()) };
        let config = Sources::default().file(path).environment(environment).load()?;
        Ok(config.history_dir().map(Path::to_owned))
    }

    /// The configuration, if it is a cluster's.
    pub(crate) fn cluster(&self, environment: &Environment) -> Result<Option<Config>, Failure> {
        let Some(path) = &self.config else { return Ok(None) };
        let config = Sources::default().file(path).environment(environment).load()?;
        Ok(config.cluster.enabled.then_some(config))
    }
}

/// The ledger that the server has by this file.
pub(crate) fn configured(file: &Path, environment: &Environment) -> Result<Source, Failure> {
    let config = Sources::default().file(file).environment(environment).load()?;
    let secrets = Secrets::load_for_ledger(&config, environment)?;
    Ok(config.ledger_source(&secrets))
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Format {
    Csv,
    Jsonl,
}

pub(crate) fn audit(arguments: &AuditArguments, environment: &Environment) -> Result<(), Failure> {
    if let Some(config) = arguments.ledger.cluster(environment)? {
        return cluster_audit::run(&config, environment);
    }
    let audit = arguments.ledger.source(environment)?.audit().map_err(cannot_audit)?;
    output::print(&report(&audit))?;
    if audit.broken.is_empty() {
        return Ok(());
    }
    let lines: String = audit.broken.iter().map(|line| format!("\n  {line}")).collect();
    Err(Failure::check(format!("the ledger breaks {} invariant(s):{lines}", audit.broken.len())))
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
    /// Of the amount. New columns come last: some readers count them.
    refunded: u64,
}

impl<A> Line<A> {
    fn new(order: OrderLine, address: impl FnOnce(String) -> A) -> Self {
        Self {
            id: order.id.to_string(),
            sale: order.sale.0,
            product: order.product.0,
            buyer: order.buyer,
            quantity: order.quantity,
            unit_price: order.unit_price,
            amount: order.unit_price * u64::from(order.quantity),
            currency: order.currency,
            status: order.status.as_str(),
            placed_at_ms: order.placed_at.0,
            closed_at_ms: order.closed_at.map(|at| at.0),
            refunded: order.refunded,
            address: order.address.map(address),
        }
    }
}

/// An address as the ledger keeps it, JSON text, as JSON.
fn object(text: String) -> serde_json::Value {
    serde_json::from_str(&text).unwrap_or(serde_json::Value::String(text))
}

/// What a spreadsheet may take for the beginning of a formula, in the wide forms of East Asian input, too.
const FORMULA: [char; 11] = ['=', '+', '-', '@', '\t', '\r', '\n', '＝', '＋', '－', '＠'];

/// The text of somebody else for a cell: no formula, by the quote before it that OWASP advises (CSV injection). One before a quote
/// as well: so whoever takes one off has the text again.
fn cell(text: String) -> String {
    if text.starts_with(FORMULA) || text.starts_with('\'') { format!("'{text}") } else { text }
}

pub(crate) fn export(arguments: &ExportArguments, environment: &Environment) -> Result<(), Failure> {
    let ExportArguments { ledger, format, since } = arguments;
    let ledger = ledger.source(environment)?;
    let mut output = BufWriter::new(io::stdout().lock());
    let mut written: io::Result<()> = Ok(());
    let cursor = match format {
        Format::Csv => {
            let mut csv = csv::Writer::from_writer(&mut output);
            let cursor = ledger.export(*since, &mut |order| {
                if written.is_ok() {
                    let order = OrderLine { buyer: cell(order.buyer), ..order };
                    written = csv.serialize(Line::new(order, cell)).map_err(io::Error::from);
                }
            });
            written = written.and_then(|()| csv.flush());
            cursor
        }
        Format::Jsonl => ledger.export(*since, &mut |order| {
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

pub(crate) fn backup(arguments: &BackupArguments, environment: &Environment) -> Result<(), Failure> {
    match arguments.ledger.source(environment)? {
        Source::Directory(data_dir) => {
            sqlite::backup(&data_dir, &arguments.to).map_err(|error| cannot_open(error.into()))?;
            output::print(&format!("{}: written\n", arguments.to.display()))
        }
        Source::MySql(_) => Err(Failure::usage(
            "the ledger is on a MySQL server, whose own tools back it up: mysqldump --single-transaction, or \
             mariadb-backup, which is quicker to restore",
        )),
    }
}

/// A damaged ledger fails its audit; one that can't be had was not audited.
pub(crate) fn cannot_audit(error: OpenError) -> Failure {
    if error.is_damage() { Failure::check(error) } else { cannot_open(error) }
}

/// The caller named a wrong place, or the ledger there can't be had at the moment.
pub(crate) fn cannot_open(error: OpenError) -> Failure {
    match error {
        OpenError::Sqlite(error) => cannot_open_file(error),
        OpenError::MySql(
            mysql::OpenError::Missing { .. }
            | mysql::OpenError::NotALedger { .. }
            | mysql::OpenError::CursorAhead { .. },
        ) => Failure::usage(error),
        OpenError::MySql(_) => Failure::unavailable(error),
    }
}

fn cannot_open_file(error: sqlite::OpenError) -> Failure {
    match error {
        sqlite::OpenError::Backup(exists @ BackupError::Exists(_)) => Failure::usage(exists),
        sqlite::OpenError::Backup(other) => Failure::unavailable(other),
        sqlite::OpenError::Missing { .. }
        | sqlite::OpenError::NotALedger { .. }
        | sqlite::OpenError::CursorAhead { .. } => Failure::usage(error),
        sqlite::OpenError::Directory { .. }
        | sqlite::OpenError::Locked { .. }
        | sqlite::OpenError::Read { .. }
        | sqlite::OpenError::Newer { .. }
        | sqlite::OpenError::Older { .. }
        | sqlite::OpenError::Kind(_)
        | sqlite::OpenError::Sqlite(_) => Failure::unavailable(error),
    }
}
