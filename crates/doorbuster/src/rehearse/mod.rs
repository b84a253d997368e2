//! `doorbuster rehearse`: tonight's sale, played by a crowd on servers of its own with this installation's settings.
//!
//! Must not: write the ledger of the installation, or send it anything. What is played and judged is the bench crate's.

mod engines;
mod folder;
mod needed;

use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ::bench::audit::AUDIT_FAILED;
use ::bench::progress::{Progress, say};
use ::bench::rehearsal::{BUYERS_MAX, OVER_MAX, OVER_MIN, Profile, Rehearsal, answer, verdict};
use ::bench::target::token::unix_ms;
use clap::Args;
use rustix::process::{Signal, getppid, set_parent_process_death_signal};
use server::Secrets;
use server::config::{Backend, Config, Environment, Sources};
use server::ledger::{AuditedSku, OpenError, Source, mysql, sqlite};
use toml::{Table, Value};

use self::folder::Folder;
use self::needed::{Needed, Watch};
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
/// All of them and the crowd share this machine.
const SERVERS_MAX: i64 = 2;
/// Times of arrivals and back-offs, and what is wanted: the same in each rehearsal, so that two can be compared.
const SEED: u64 = 20_260_101;

/// Keys of a section.
type Keys = (&'static str, &'static [&'static str]);

/// The keys that figures depend on. No other is taken over: the rehearsal has secrets, addresses and files of its own.
const KEPT: [Keys; 4] = [
    ("http", &["threads", "connections_max"]),
    (
        "admission",
        &["orders_per_s", "burst", "orders_per_s_per_buyer", "in_flight_max", "in_flight_per_buyer_max"],
    ),
    ("ledger", &["synchronous", "batch_commands_max", "queue_commands_max", "checkpoint_pages"]),
    ("sale", &["payment_s", "open_holds_per_buyer_max", "cool_down_ms"]),
];

/// Rehearse a sale on this machine and its disk or engines, with a crowd of buyers, and see what it carries
#[derive(Args, Debug)]
#[command(after_help = "\
Reads the file of `doorbuster sale create`, starts a server of its own with the settings of the configuration (threads,
admission, how the ledger is written) on a ledger of its own beside the data directory, and plays the crowd: nine of ten buyers
come in the first moments, each wants one unit, a tenth of the requests are from bots, and whoever is asked to wait tries again.
Then half of those who hold an order pay, the units of the others come back and are sold again to buyers who come late (the time to
pay is shortened to 10 s after the crowd). Then every accepted order is looked up in the ledger, and the ledger is audited. The first
line printed says what came of it. Nothing of the installation is changed; the rehearsal's files are removed.

Run it on the machine of the sale, when nothing is sold there. It is refused while the ledger has a sale that is live or begins
within 15 min, or orders that wait for their payment; and, without --yes, while a server answers at http.listen: the crowd would take
that server's processors and disk. Where there is no ledger to look at, it asks whether to go on; without a terminal it is refused
unless --yes is there. It goes on looking: when a sale is live or begins within a minute it stops by itself, as by Ctrl-C, and says so.

Of a cluster (cluster.enabled) the servers are its own, --servers of them on this machine, and the engines are the
installation's: a database beside the ledger's, keys of another prefix, topics of another name, all of them NAME_rehearsal_...,
one rehearsal at a time. Before anything is made it checks that the engines have room, and that all of that may be made and removed;
it is removed when the rehearsal ends or is stopped. What a killed one leaves, the next one removes, or --clean-up. Gate, queue and
ledger are audited. One server with its ledger on a MySQL server is rehearsed on a database beside it in the same way.

Exit codes: 0 it holds; 1 refused, an accepted order is missing, the audit failed or a signal came; 2 no rate can be
stated (the first line says why); 64 wrong arguments or configuration; 69 the server can't be started.

Examples:
  doorbuster rehearse drop.toml --config doorbuster.toml
  doorbuster rehearse drop.toml --buyers 100000 --over 30s
  doorbuster rehearse drop.toml --data-dir /var/lib/doorbuster --json
  doorbuster rehearse --clean-up --config doorbuster.toml")]
pub(crate) struct RehearseArguments {
    /// TOML or JSON file of the sale, or - for standard input; its times are not looked at
    #[arg(value_name = "FILE", required_unless_present = "clean_up")]
    file: Option<PathBuf>,
    /// How many come; a rate is stated from 10000 requests on
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
    /// Servers to start, of a cluster: 1 or 2
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=SERVERS_MAX))]
    servers: u8,
    /// Only remove what rehearsals that were killed have left
    #[arg(long, conflicts_with = "file")]
    clean_up: bool,
    /// Rehearse although a server answers at http.listen, or there is no ledger to look at; nothing allows it beside a sale
    #[arg(long)]
    yes: bool,
    /// Stop when the process that started this one is gone
    #[arg(long)]
    attended: bool,
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
    let sources = sources(arguments, environment);
    let config = config(&sources, arguments)?;
    let secrets = Secrets::load_for_ledger(&config, environment)?;
    let Some(file) = &arguments.file else { return clean_up(&config, &secrets) };
    let now_ms = unix_ms();
    let sale = sale::rehearsed(file, now_ms, SALE_LENGTH)?;
    if !arguments.yes && answers(config.http.listen) {
        return Err(Failure::check(format!(
            "a server answers on {}, and a rehearsal takes its processors and its disk: rehearse when it is stopped or sells \
             nothing, and say --yes then",
            config.http.listen
        )));
    }
    let stop = Arc::new(AtomicBool::new(false));
    let needed = Needed::default();
    let crowd = Crowd { arguments, sale, connections_max: config.http.connections_max / 2, stop, needed };
    if is_on_engines(&config) {
        return engines::rehearse(&crowd, &config, &secrets, &sources);
    }
    let ledger = config.ledger_source(&secrets);
    check_ledger(&ledger, now_ms, arguments.yes)?;
    let _watch = begin(&crowd, ledger)?;
    let place = folder::place(&config.ledger.data_dir)?;
    folder::remove_left(&place)?;
    let folder = Folder::make(&place)?;
    folder.check_alone(&place)?;
    crowd.play(&folder, &kept(&sources, &KEPT), Profile::Embedded)
}

/// Until what it returns is dropped, a sale of this ledger ends the rehearsal. `None`: who attends it looks.
fn begin(crowd: &Crowd<'_>, ledger: Source) -> Result<Option<Watch>, Failure> {
    signals::begin(&crowd.stop)?;
    if crowd.arguments.attended {
        let parent = getppid();
        set_parent_process_death_signal(Some(Signal::TERM)).map_err(Failure::unavailable)?;
        if getppid() != parent {
            return Err(Failure::check("the process that started this rehearsal is gone"));
        }
        return Ok(None);
    }
    Watch::start(ledger, &crowd.stop, &crowd.needed).map(Some)
}

fn clean_up(config: &Config, secrets: &Secrets) -> Result<(), Failure> {
    signals::begin(&Arc::default())?;
    folder::remove_left(&folder::place(&config.ledger.data_dir)?)?;
    if is_on_engines(config) { engines::clean_up(config, secrets) } else { Ok(()) }
}

/// Who comes, for what.
struct Crowd<'a> {
    arguments: &'a RehearseArguments,
    sale: serde_json::Value,
    connections_max: usize,
    stop: Arc<AtomicBool>,
    needed: Needed,
}

impl Crowd<'_> {
    fn play(&self, folder: &Folder, settings: &Table, profile: Profile<'_>) -> Result<(), Failure> {
        let program = std::env::current_exe().map_err(Failure::unavailable)?;
        let settings = toml::to_string(settings).map_err(Failure::usage)?;
        let progress = Progress::start();
        let rehearsal = Rehearsal {
            program: &program,
            profile,
            folder: folder.path(),
            settings: &settings,
            sale: &self.sale,
            buyers: self.arguments.buyers,
            over: self.arguments.over,
            connections_max: self.connections_max,
            seed: SEED,
            stop: &self.stop,
            progress: &progress,
        };
        rehearsal.check_room().map_err(|error| Failure::check(format!("{error:#}")))?;
        let rehearsed = rehearsal.run();
        progress.finish();
        let rehearsed = rehearsed.map_err(|error| failed(&format!("{error:#}"), self))?;
        let finding = verdict::of(&rehearsed);
        let answer = match self.arguments.json {
            true => format!("{:#}\n", answer::json(&rehearsal, &rehearsed, &finding)),
            false => answer::text(&rehearsal, &rehearsed, &finding),
        };
        // What was found decides the exit code, whether somebody reads it or not.
        let printed = output::print(&answer);
        match (finding.carried, printed) {
            (Some(_), printed) => printed,
            // It was said already.
            (None, Ok(())) => {
                Err(Failure::Invalid("no rate can be stated: the first line says why".to_owned()))
            }
            (None, Err(_)) => Err(Failure::Invalid(finding.sentence)),
        }
    }
}

fn failed(why: &str, crowd: &Crowd<'_>) -> Failure {
    if why.contains(AUDIT_FAILED) {
        return Failure::check(format!("Does not hold: {why}"));
    }
    if crowd.stop.load(Ordering::Relaxed) {
        let by = match crowd.needed.get() {
            Some(why) => format!("stopped: {why}"),
            None => "stopped by a signal".to_owned(),
        };
        return Failure::check(format!(
            "{by}; nothing was changed, and what the rehearsal had made is removed"
        ));
    }
    Failure::unavailable(why)
}

fn sources(arguments: &RehearseArguments, environment: &Environment) -> Sources {
    let mut sources = Sources::default();
    if let Some(path) = &arguments.config {
        sources = sources.file(path);
    }
    sources = sources.environment(environment);
    if let Some(data_dir) = &arguments.data_dir {
        sources = sources.argument("ledger.data_dir", data_dir, "--data-dir");
    }
    sources
}

fn config(sources: &Sources, arguments: &RehearseArguments) -> Result<Config, Failure> {
    let config = sources.clone().load()?;
    if !config.cluster.enabled && arguments.servers > 1 {
        return Err(Failure::usage(
            "--servers: the embedded profile has one; set cluster.enabled, or leave it out",
        ));
    }
    Ok(config)
}

/// Whether the ledger is on a server that others may share.
fn is_on_engines(config: &Config) -> bool {
    config.cluster.enabled || config.ledger.backend == Backend::MySql
}

/// What of the configuration, which was checked before, a server of the rehearsal has too.
fn kept(sources: &Sources, keys: &[Keys]) -> Table {
    let mut kept = Table::new();
    for (section, keys) in keys {
        let of_section = kept.entry(*section).or_insert_with(|| Value::Table(Table::new()));
        of_section.as_table_mut().expect("it was made so").extend(sources.values(section, keys));
    }
    kept
}

/// Refuses beside a sale. The ledger is read whole, as an audit does: which holds are open stands nowhere else.
fn check_ledger(source: &Source, now_ms: u64, yes: bool) -> Result<(), Failure> {
    if let Source::Directory(data_dir) = source
        && !data_dir.join(sqlite::FILE_NAME).exists()
    {
        return without_ledger(&format!("there is no ledger in {}", data_dir.display()), yes);
    }
    say("looking whether the ledger has a sale that is live or begins within 15 min");
    let audit = match source.audit() {
        Err(OpenError::MySql(error @ mysql::OpenError::Missing { .. })) => {
            return without_ledger(&error.to_string(), yes);
        }
        audit => audit.map_err(cannot_audit)?,
    };
    // What nobody can wait for comes first, not the sale that was made first.
    match audit.skus.iter().filter_map(|sku| in_the_way(sku, now_ms)).min_by_key(|(urgency, _)| *urgency) {
        Some((_, why)) => Err(Failure::check(why)),
        None => Ok(()),
    }
}

/// A first sale is rehearsed before there is a ledger; whoever names the wrong one would play beside a sale.
fn without_ledger(why: &str, yes: bool) -> Result<(), Failure> {
    let said = format!(
        "{why}, so whether a sale is live can't be looked at (--config FILE or --data-dir DIR of the server names its ledger)"
    );
    sale::confirm(&[said], yes)?;
    say(&format!("{why}: whether a sale is live was not looked at"));
    Ok(())
}

/// In the order in which they are told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Urgency {
    Live,
    Held,
    Near,
}

/// Why nothing may be rehearsed beside this product's sale, and what to do, if so.
fn in_the_way(sku: &AuditedSku, now_ms: u64) -> Option<(Urgency, String)> {
    let AuditedSku { sale, times: (starts_at, ends_at), ended, paused, held, .. } = sku;
    let over = *ended || ends_at.0 <= now_ms;
    let sale = sale.0;
    match starts_at.0.checked_sub(now_ms) {
        None | Some(0) if !over => {
            let state = if *paused { "paused" } else { "live" };
            Some((Urgency::Live, format!("sale {sale} is {state}: rehearse before, or when it is over")))
        }
        _ if *held > 0 => {
            let held = format!("sale {sale} has units that are held and not paid: {held}");
            Some((Urgency::Held, format!("{held}; rehearse when they are paid or have expired")))
        }
        Some(until) if !over && until < NEAR_MS => {
            let begins = format!("sale {sale} begins in {} min", until.div_ceil(60_000));
            Some((
                Urgency::Near,
                format!("{begins}: rehearse when it is over; no sale may begin within 15 min"),
            ))
        }
        _ => None,
    }
}

fn answers(address: SocketAddr) -> bool {
    TcpStream::connect_timeout(&address, ANSWERS_WITHIN).is_ok()
}

#[cfg(test)]
mod tests {
    use engine::{ProductId, SaleId, UnixMs};

    use super::*;

    #[test]
    fn a_sale_is_in_the_way_from_a_quarter_of_an_hour_before_until_all_is_paid() {
        const STARTS: u64 = 100 * NEAR_MS;
        let found = |now_ms: u64, held: u64, ended: bool, paused: bool| {
            let times = (UnixMs(STARTS), UnixMs(STARTS + 1000));
            let (sale, product) = (SaleId(3), ProductId(29));
            let title = String::new();
            in_the_way(
                &AuditedSku {
                    sale,
                    times,
                    ended,
                    paused,
                    product,
                    title,
                    total: 9,
                    available: 9 - held,
                    turns: 0,
                    held,
                    sold: 0,
                    orders: held,
                },
                now_ms,
            )
        };
        let near = |in_min: u64| {
            let begins =
                format!("begins in {in_min} min: rehearse when it is over; no sale may begin within 15 min");
            Some((Urgency::Near, begins))
        };
        let live = || Some((Urgency::Live, "is live: rehearse before, or when it is over".to_owned()));
        let held = || {
            let held = "has units that are held and not paid: 2; rehearse when they are paid or have expired";
            Some((Urgency::Held, held.to_owned()))
        };
        for (now_ms, units, ended, why) in [
            (STARTS - NEAR_MS, 0, false, None),
            (STARTS - NEAR_MS + 1, 0, false, near(15)),
            (STARTS - 1, 0, false, near(1)),
            (STARTS - 1, 0, true, None),
            (STARTS, 0, false, live()),
            (STARTS, 2, false, live()),
            (STARTS + 999, 0, false, live()),
            (STARTS + 1000, 0, false, None),
            (STARTS + 1000, 2, false, held()),
            (STARTS, 2, true, held()),
            (STARTS + 1000, 2, true, held()),
        ] {
            let why = why.map(|(urgency, why)| (urgency, format!("sale 3 {why}")));
            assert_eq!(found(now_ms, units, ended, false), why, "{now_ms} {units} {ended}");
        }
        assert!(found(STARTS, 0, false, true).unwrap().1.starts_with("sale 3 is paused: "));
        assert!(Urgency::Live < Urgency::Held && Urgency::Held < Urgency::Near);
    }
}
