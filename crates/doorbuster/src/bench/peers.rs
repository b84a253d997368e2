//! `doorbuster bench peers`: this program beside what other teams build.
//!
//! Must not: measure or judge; that is the bench crate's.

use std::path::PathBuf;
use std::time::Duration;

use ::bench::peers::{PeersOptions, RATE_MAX, RATE_MIN, ROUNDS_MAX, answer};
use ::bench::report::json;
use ::bench::target::installation::Site;
use clap::Args;

use super::place::PlaceArguments;
use super::signals;
use crate::failure::Failure;
use crate::output;
use crate::time::parse_duration;

const LOAD_MIN: Duration = Duration::from_secs(1);
const LOAD_MAX: Duration = Duration::from_secs(60);

/// Measure this program beside what other teams build: the same buyers, the same stock
#[derive(Args, Debug)]
#[command(after_help = "\
The peers: this program, embedded, on its default settings (each order synced before its answer); nginx with Lua and one
Redis script, what a team writes in a day, with Redis' appendfsync everysec, as most run it, and always; a program in Go that
subtracts the stock and inserts the order in one transaction of MariaDB; and the same on PostgreSQL, a row for each unit, taken
by SELECT ... FOR UPDATE SKIP LOCKED. They get the same bytes, but check neither tokens nor idempotency keys: they have less to
do. Their sources are in crates/bench/peers; Go fetches the drivers the first time.

Each round plays every peer, each time in another order: a sale that sells out at a stated rate of requests (its p50 and p99, and the
processor time of all of a peer's processes), a closed loop (the most that it carries), and a sale in whose middle all of its
processes are killed (SIGKILL); it starts again and sells the rest. After each the rows of its store are compared with
what the buyers were answered. A kill takes nothing that the system has: what a power cut would take is not measured.

A peer that is not installed is named with what installs it; the others are measured. About 25 s for each peer and round.

Exit codes: 0 measured; 1 this program lost or oversold something, or a signal came; 2 the figures may not be quoted (the first
sentence says why); 64 wrong arguments; 69 something can't be started.

Examples:
  doorbuster bench peers
  doorbuster bench peers --rounds 5 --rate 5000 --json peers.json --chart peers.svg")]
pub(super) struct PeersArguments {
    /// How often each is measured
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..=i64::from(ROUNDS_MAX)))]
    rounds: u8,
    /// Requests per second of the two sales
    #[arg(long, value_name = "N", default_value_t = 2000, value_parser = clap::value_parser!(u32).range(i64::from(RATE_MIN)..=i64::from(RATE_MAX)))]
    rate: u32,
    /// Length of each load: 1s to 60s
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = load)]
    load: Duration,
    /// Users of the closed loop
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u16).range(1..=2000))]
    users: u16,
    /// What arrivals and the moments of the kills are chosen by
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Write every round to FILE, too
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Draw the most orders per second of each to FILE, an SVG, if the figures may be quoted
    #[arg(long, value_name = "FILE")]
    chart: Option<PathBuf>,
    // Last: its heading is over whatever follows.
    #[command(flatten)]
    place: PlaceArguments,
}

fn load(text: &str) -> Result<Duration, String> {
    let load = parse_duration(text)?;
    if (LOAD_MIN..=LOAD_MAX).contains(&load) { Ok(load) } else { Err("write 1s to 60s".to_owned()) }
}

pub(super) fn run(arguments: &PeersArguments) -> Result<(), Failure> {
    arguments.place.check()?;
    let mut site = Site::new(arguments.place.program()?);
    site.scripts.clone_from(&arguments.place.scripts);
    site.folder = arguments.place.data();
    site.port_base = arguments.place.port_base;
    signals::begin(&site.stop)?;
    arguments.place.outrank()?;
    let options = PeersOptions {
        rounds: arguments.rounds,
        rate: arguments.rate,
        load: arguments.load,
        users: arguments.users.into(),
        seed: arguments.seed,
        site,
    };
    let compared = options.run();
    options.site.progress.finish();
    let compared = compared.map_err(|error| failed(&format!("{error:#}"), &options))?;
    if let Some(file) = &arguments.json {
        let text = format!("{:#}\n", answer::json(&options, &compared));
        json::write_text(&text, file).map_err(|error| Failure::usage(format!("{error:#}")))?;
    }
    if let Some((file, chart)) = arguments.chart.as_ref().zip(answer::chart(&options, &compared)) {
        json::write_text(&chart, file).map_err(|error| Failure::usage(format!("{error:#}")))?;
    }
    output::print(&answer::text(&options, &compared))?;
    if !answer::holds(&compared) {
        return Err(Failure::check("this program's own books are wrong"));
    }
    if answer::is_valid(&compared) {
        Ok(())
    } else {
        Err(Failure::Invalid("don't quote these figures".to_owned()))
    }
}

fn failed(why: &str, options: &PeersOptions) -> Failure {
    if options.site.stop.load(std::sync::atomic::Ordering::Relaxed) {
        return Failure::check("stopped by a signal");
    }
    Failure::unavailable(why)
}
