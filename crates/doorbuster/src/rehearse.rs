//! `doorbuster rehearse`: tonight's sale, played by a crowd on a server of its own with this installation's settings.
//!
//! Must not: write the ledger of the installation, or send it anything. What is played and judged is the bench crate's.

use std::fs::{File, TryLockError};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ::bench::audit::AUDIT_FAILED;
use ::bench::progress::{Progress, say};
use ::bench::rehearsal::{BUYERS_MAX, OVER_MAX, OVER_MIN, Rehearsal, answer, verdict};
use ::bench::target::token::unix_ms;
use clap::Args;
use rustix::fs::{Access, access};
use server::config::{Backend, Config, Environment, Sources};
use server::ledger::{AuditedSku, Source, sqlite};
use toml::{Table, Value};

use crate::bench::signals;
use crate::failure::Failure;
use crate::ledger::cannot_audit;
use crate::output;
use crate::sale;
use crate::time::parse_duration;

/// Long after the last buyer.
const SALE_LENGTH: Duration = Duration::from_secs(24 * 3600);
/// So long before a sale its machine is left alone.
const NEAR_MS: u64 = 15 * 60 * 1000;
/// How long a server on this machine may take to accept a connection.
const ANSWERS_WITHIN: Duration = Duration::from_secs(1);
/// Folders of rehearsals, and the file in each that is locked while one is under way.
const FOLDER: &str = "rehearsal-";
const LOCK: &str = "rehearsal.lock";
/// Times of arrivals and back-offs, and what is wanted: the same in each rehearsal, so that two can be compared.
const SEED: u64 = 20_260_101;

/// The keys that figures depend on. No other is taken over: the rehearsal has secrets, addresses and files of its own.
const KEPT: [(&str, &[&str]); 4] = [
    ("http", &["threads", "connections_max"]),
    (
        "admission",
        &["orders_per_s", "burst", "orders_per_s_per_buyer", "in_flight_max", "in_flight_per_buyer_max"],
    ),
    ("ledger", &["synchronous", "batch_commands_max", "queue_commands_max", "checkpoint_pages"]),
    ("sale", &["payment_s", "open_holds_per_buyer_max", "cool_down_ms"]),
];

/// Rehearse a sale on this machine and this disk, with a crowd of buyers, and see what it carries
#[derive(Args, Debug)]
#[command(after_help = "\
Reads the file of `doorbuster sale create`, starts a server of its own with the settings of the configuration (threads,
admission, how the ledger is written) on a ledger of its own beside the data directory, and plays the crowd: nine of ten buyers
come in the first moments, each wants one unit, a tenth of the requests are from bots, and whoever is told to wait tries again.
Then half of those who hold an order pay, the units of the others come back and are sold again to late ones (the time to pay is
shortened to 10 s after the crowd). Then every accepted order is looked up in the ledger, and the ledger is audited. The first
line printed says what came of it. Nothing of the installation is changed; the rehearsal's files are removed.

Run it on the machine of the sale, when nothing is sold there. It is refused while the ledger has a sale that is live or begins
within 15 min, or orders that wait for their payment; and, without --yes, while a server answers at http.listen: the crowd would take
that server's processors and disk. It rehearses the embedded profile on SQLite; of a cluster see `doorbuster bench run flash-crowd`.

Exit codes: 0 it holds; 1 refused, an accepted order is missing, the audit failed or a signal came; 2 nothing can be
told (the first line says why); 64 wrong arguments or configuration; 69 the server can't be started.

Examples:
  doorbuster rehearse drop.toml --config doorbuster.toml
  doorbuster rehearse drop.toml --buyers 100000 --over 30s
  doorbuster rehearse drop.toml --data-dir /var/lib/doorbuster --json")]
pub(crate) struct RehearseArguments {
    /// TOML or JSON file of the sale; its times are not looked at
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// How many come; a rate is told from 10000 requests on
    #[arg(long, value_name = "N", default_value_t = 20_000, value_parser = clap::value_parser!(u64).range(1..=BUYERS_MAX))]
    buyers: u64,
    /// Time in which they come: 4s to 60s
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = over)]
    over: Duration,
    /// Configuration file of the server
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Directory of the ledger, beside which the rehearsal's own is [ledger.data_dir]
    #[arg(long, value_name = "DIR")]
    data_dir: Option<String>,
    /// Rehearse although a server answers at http.listen; nothing allows it beside a sale
    #[arg(long)]
    yes: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

fn over(text: &str) -> Result<Duration, String> {
    let over = parse_duration(text)?;
    if (OVER_MIN..=OVER_MAX).contains(&over) { Ok(over) } else { Err("write 4s to 60s".to_owned()) }
}

pub(crate) fn run(arguments: &RehearseArguments, environment: &Environment) -> Result<(), Failure> {
    let result = rehearse(arguments, environment);
    signals::wait_for_end();
    result
}

fn rehearse(arguments: &RehearseArguments, environment: &Environment) -> Result<(), Failure> {
    let now_ms = unix_ms();
    let sale = sale::rehearsed(&arguments.file, now_ms, SALE_LENGTH)?;
    let config = config(arguments, environment)?;
    let settings = settings(arguments.config.as_deref(), environment)?;
    if !arguments.yes && answers(config.http.listen) {
        return Err(Failure::check(format!(
            "a server answers on {}, and a rehearsal takes its processors and its disk: rehearse when it is stopped or sells \
             nothing, and say --yes then",
            config.http.listen
        )));
    }
    check_ledger(&config.ledger.data_dir, now_ms)?;
    let stop = Arc::new(AtomicBool::new(false));
    signals::begin(&stop)?;
    let place = place(&config.ledger.data_dir)?;
    remove_left(&place)?;
    let folder = Folder::make(&place)?;
    let program = std::env::current_exe().map_err(Failure::unavailable)?;
    let progress = Progress::start();
    let rehearsal = Rehearsal {
        program: &program,
        folder: folder.path(),
        settings: &settings,
        sale: &sale,
        buyers: arguments.buyers,
        over: arguments.over,
        connections_max: config.http.connections_max / 2,
        seed: SEED,
        stop: &stop,
        progress: &progress,
    };
    rehearsal.check_room().map_err(|error| Failure::check(format!("{error:#}")))?;
    let rehearsed = rehearsal.run();
    progress.finish();
    let rehearsed = rehearsed.map_err(|error| failed(&format!("{error:#}"), &stop))?;
    let finding = verdict::of(&rehearsed);
    if arguments.json {
        output::print(&format!("{:#}\n", answer::json(&rehearsal, &rehearsed, &finding)))?;
    } else {
        output::print(&answer::text(&rehearsal, &rehearsed, &finding))?;
    }
    if finding.carried.is_none() { Err(Failure::Invalid(finding.sentence)) } else { Ok(()) }
}

fn failed(why: &str, stop: &AtomicBool) -> Failure {
    if why.contains(AUDIT_FAILED) {
        return Failure::check(format!("Does not hold: {why}"));
    }
    if stop.load(Ordering::Relaxed) {
        return Failure::check(
            "stopped by a signal; nothing was changed, and the rehearsal's files are removed",
        );
    }
    Failure::unavailable(why)
}

fn config(arguments: &RehearseArguments, environment: &Environment) -> Result<Config, Failure> {
    let mut sources = Sources::default();
    if let Some(path) = &arguments.config {
        sources = sources.file(path);
    }
    sources = sources.environment(environment);
    if let Some(data_dir) = &arguments.data_dir {
        sources = sources.argument("ledger.data_dir", data_dir, "--data-dir");
    }
    let config = sources.load()?;
    if config.cluster.enabled {
        return Err(Failure::usage(
            "rehearsing a cluster: not yet; `doorbuster bench run flash-crowd` plays it on engines of its own",
        ));
    }
    if config.ledger.backend == Backend::MySql {
        return Err(Failure::usage("rehearsing a ledger on a MySQL server: not yet; only one on SQLite"));
    }
    Ok(config)
}

/// What of the configuration, which was checked before, is [`KEPT`].
fn settings(file: Option<&Path>, environment: &Environment) -> Result<String, Failure> {
    let text = file.map_or(Ok(String::new()), std::fs::read_to_string).map_err(Failure::usage)?;
    let written: Table = toml::from_str(&text).map_err(Failure::usage)?;
    let mut kept = Table::new();
    for (section, keys) in KEPT {
        let mut found = Table::new();
        for key in keys {
            let variable = format!("DOORBUSTER_{}_{}", section.to_uppercase(), key.to_uppercase());
            let in_file = || written.get(section)?.get(key).cloned();
            let value = environment.get(&variable).map(value_of).or_else(in_file);
            found.extend(value.map(|value| ((*key).to_owned(), value)));
        }
        kept.insert(section.to_owned(), Value::Table(found));
    }
    toml::to_string(&kept).map_err(Failure::usage)
}

/// Of a variable: a number where it is one.
fn value_of(text: &str) -> Value {
    text.parse().map_or_else(|_no_number| Value::String(text.to_owned()), Value::Integer)
}

/// Refuses beside a sale. The ledger is read whole, as an audit does: which holds are open stands nowhere else.
fn check_ledger(data_dir: &Path, now_ms: u64) -> Result<(), Failure> {
    if !data_dir.join(sqlite::FILE_NAME).exists() {
        return Ok(());
    }
    say("looking whether the ledger has a sale now");
    let audit = Source::Directory(data_dir.to_owned()).audit().map_err(cannot_audit)?;
    match audit.skus.iter().find_map(|sku| in_the_way(sku, now_ms)) {
        Some(why) => Err(Failure::check(format!("{why}: rehearse before, or when it is over"))),
        None => Ok(()),
    }
}

/// Why nothing may be rehearsed beside this product's sale, if so.
fn in_the_way(sku: &AuditedSku, now_ms: u64) -> Option<String> {
    let AuditedSku { sale, times: (starts_at, ends_at), ended, held, .. } = sku;
    let over = *ended || ends_at.0 <= now_ms;
    let sale = sale.0;
    match starts_at.0.checked_sub(now_ms) {
        _ if *held > 0 => Some(format!("sale {sale} has {held} units that are held and not paid")),
        _ if over => None,
        None | Some(0) => Some(format!("sale {sale} is live")),
        Some(until) if until < NEAR_MS => {
            Some(format!("sale {sale} begins in {} min", until.div_ceil(60_000)))
        }
        Some(_) => None,
    }
}

fn answers(address: SocketAddr) -> bool {
    TcpStream::connect_timeout(&address, ANSWERS_WITHIN).is_ok()
}

/// The folder on the ledger's disk in which a rehearsal makes its own: beside the data directory, or as near as there is a
/// folder yet; in it, if it is a disk of its own, or nobody but root may write beside it.
fn place(data_dir: &Path) -> Result<PathBuf, Failure> {
    let data_dir = std::path::absolute(data_dir).map_err(Failure::usage)?;
    let beside = data_dir.ancestors().skip(1).find(|folder| folder.is_dir()).unwrap_or(&data_dir);
    let disk = |folder: &Path| std::fs::metadata(folder).map(|found| found.dev());
    let there = disk(beside).map_err(|error| Failure::usage(format!("{}: {error}", beside.display())))?;
    match disk(&data_dir) {
        Ok(other) if other != there || access(beside, Access::WRITE_OK).is_err() => Ok(data_dir),
        _ => Ok(beside.to_owned()),
    }
}

/// Files of a rehearsal, removed when it is dropped. While it is there its lock is held, by this process alone.
struct Folder {
    path: PathBuf,
    _lock: File,
}

impl Folder {
    fn make(place: &Path) -> Result<Self, Failure> {
        let path = place.join(format!("{FOLDER}{}", std::process::id()));
        let made = std::fs::create_dir(&path).and_then(|()| File::create(path.join(LOCK)));
        let lock = made.map_err(|error| Failure::unavailable(format!("{}: {error}", path.display())))?;
        lock.try_lock().map_err(Failure::unavailable)?;
        Ok(Self { path, _lock: lock })
    }

    fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.path) {
            say(&format!("{}: can't be removed: {error}", self.path.display()));
        }
    }
}

/// Removes the folders of rehearsals that were killed: those whose lock nobody holds.
fn remove_left(place: &Path) -> Result<(), Failure> {
    let unreadable = |error| Failure::unavailable(format!("{}: {error}", place.display()));
    for entry in std::fs::read_dir(place).map_err(unreadable)? {
        let entry = entry.map_err(unreadable)?;
        if !entry.file_name().to_string_lossy().starts_with(FOLDER) {
            continue;
        }
        // Without our lock's file it is no folder of ours.
        let Ok(lock) = File::open(entry.path().join(LOCK)) else { continue };
        match lock.try_lock() {
            Ok(()) => {
                std::fs::remove_dir_all(entry.path()).map_err(unreadable)?;
                say(&format!(
                    "removed what a rehearsal that was killed had left: {}",
                    entry.path().display()
                ));
            }
            Err(TryLockError::WouldBlock) => {}
            Err(TryLockError::Error(error)) => return Err(unreadable(error)),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use engine::{ProductId, SaleId, UnixMs};

    use super::*;

    #[test]
    fn a_sale_is_in_the_way_from_a_quarter_of_an_hour_before_until_all_is_paid() {
        const STARTS: u64 = 100 * NEAR_MS;
        let found = |now_ms: u64, held: u64, ended: bool| {
            let times = (UnixMs(STARTS), UnixMs(STARTS + 1000));
            let (sale, product) = (SaleId(3), ProductId(29));
            let title = String::new();
            in_the_way(
                &AuditedSku {
                    sale,
                    times,
                    ended,
                    product,
                    title,
                    total: 9,
                    available: 9 - held,
                    held,
                    sold: 0,
                    orders: held,
                },
                now_ms,
            )
        };
        for (now_ms, held, ended, why) in [
            (STARTS - NEAR_MS, 0, false, None),
            (STARTS - NEAR_MS + 1, 0, false, Some("begins in 15 min")),
            (STARTS - 1, 0, false, Some("begins in 1 min")),
            (STARTS - 1, 0, true, None),
            (STARTS, 0, false, Some("is live")),
            (STARTS + 999, 0, false, Some("is live")),
            (STARTS + 1000, 0, false, None),
            (STARTS + 1000, 2, false, Some("has 2 units that are held and not paid")),
            (STARTS + 1000, 2, true, Some("has 2 units that are held and not paid")),
        ] {
            let why = why.map(|why| format!("sale 3 {why}"));
            assert_eq!(found(now_ms, held, ended), why, "{now_ms} {held} {ended}");
        }
    }
}
