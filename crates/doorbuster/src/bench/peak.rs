//! `doorbuster bench peak` and `bench durability`: what an installation carries, and what each flush setting costs.
//!
//! Raw arguments become checked options here. Must not: measure or judge; that is the bench crate's.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ::bench::durability::{self, DurabilityOptions, Extent};
use ::bench::peak::{self, Order, PeakOptions, PeakTarget};
use ::bench::report::model::{PeakReport, Report, Size};
use ::bench::report::{json, summary};
use ::bench::suite::{self, Heading};
use clap::{Args, ValueEnum};

use super::{report, stop_on_signals};
use crate::failure::Failure;
use crate::output;
use crate::time::parse_duration;

/// As the audits say it.
const AUDIT_FAILED: &str = "AUDIT FAILED";
const TOKEN_VARIABLE: &str = "DOORBUSTER_OPERATOR_TOKEN";

/// Find the load that is carried within a latency limit, and the admission settings that follow
#[derive(Args, Debug)]
#[command(after_help = "\
Looks at the idle machine and at what the generator alone can send; then a closed loop for a first guess, loads up and
down until one passes and one fails, and halves the gap to 5%. Each load is judged by repeated trials in an open loop
with Poisson arrivals; a request that was refused by admission counts as not carried. The highest load that passed is
confirmed against a control load, then twice that load is offered, and the time to recover measured. Last, the audit:
without a clean one nothing is printed.

It writes admission.toml beside the report: `doorbuster serve --config` takes it as it is, or copy its section.

A running server is asked by the published order route, which `serve --demo` has, or by another sale and product. Its
own audit is asked for with the operator's token, in DOORBUSTER_OPERATOR_TOKEN; nobody else may order meanwhile.

Exit codes: 0 a peak was found; 1 no load is within the limit, or an audit failed; 2 the generator is the limit, or the
result could not be confirmed; 64 wrong arguments; 69 something can't be started.

Examples:
  doorbuster bench peak --quick
  doorbuster bench peak --p99 50ms --errors 0.1%
  doorbuster bench peak --profile cluster --servers 2 --out peak-cluster
  doorbuster bench peak --target-http 10.0.0.5:8080")]
pub(super) struct PeakArguments {
    /// p99 of the time from the planned send to the answer
    #[arg(long, value_name = "DURATION", default_value = "50ms", value_parser = parse_duration)]
    p99: Duration,
    /// Requests that may be left uncarried
    #[arg(long, value_name = "SHARE", default_value = "0.1%", value_parser = parse_share)]
    errors: f64,
    /// What is started and measured
    #[arg(long, value_enum, default_value_t = Profile::Embedded)]
    profile: Profile,
    /// Servers of the cluster profile
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=8))]
    servers: u16,
    /// A running doorbuster instead
    #[arg(long, value_name = "ADDR", conflicts_with_all = ["profile", "servers"])]
    target_http: Option<SocketAddr>,
    /// The sale and the product that are ordered at a running server, with stock enough
    #[arg(long, value_name = "SALE/PRODUCT", default_value = "3/29", value_parser = parse_item, requires = "target_http")]
    item: (u64, u64),
    /// Length of each trial [default: 10s, with --quick 1500ms]
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    trial: Option<Duration>,
    /// A first impression in about two minutes: shorter and fewer trials
    #[arg(long)]
    quick: bool,
    /// The folder of the report and of admission.toml; files of an earlier one in it are replaced
    #[arg(long, value_name = "DIR", default_value = "bench-peak")]
    out: PathBuf,
    #[command(flatten)]
    place: PlaceArguments,
}

/// Kill each process in mid-load under each flush setting, and count what is lost
#[derive(Args, Debug)]
#[command(after_help = "\
For each combination of Redis persistence, broker flush, InnoDB flush with binlog sync, and SQLite synchronous:
throughput, p99, and what SIGKILL of each process in mid-load loses: every acknowledged order is looked up afterwards.
What a power cut would risk is reasoned from the settings, and labelled so. By default the safe settings, each of them
changed alone, and the extremes; --full has every combination.

Examples:
  doorbuster bench durability --quick
  doorbuster bench durability --only embedded")]
pub(super) struct DurabilityArguments {
    /// Few rows, short loads, one repeat
    #[arg(long, conflicts_with = "full")]
    quick: bool,
    /// Every combination: some hours
    #[arg(long)]
    full: bool,
    /// Only the rows whose names hold TEXT
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
    /// Times that throughput and latency are measured in each row [default: 6, with --quick 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1000))]
    repeats: Option<u16>,
    /// The folder of the report; files of an earlier one in it are replaced
    #[arg(long, value_name = "DIR", default_value = "bench-durability")]
    out: PathBuf,
    #[command(flatten)]
    place: PlaceArguments,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Profile {
    /// One process, on SQLite
    Embedded,
    /// Servers on Redis, RocketMQ and MariaDB
    Cluster,
}

#[derive(Args, Debug)]
#[command(next_help_heading = "Place")]
struct PlaceArguments {
    /// The engines take 100 ports from this one
    #[arg(long, value_name = "PORT", default_value_t = 27000, value_parser = clap::value_parser!(u16).range(1024..=65000))]
    port_base: u16,
    /// The folder of the scripts that start the engines
    #[arg(long, value_name = "DIR", default_value = "dev")]
    scripts: PathBuf,
    /// Where the servers keep their data meanwhile; on a real disk, or syncs cost nothing [default: the system's
    /// folder for temporary files]
    #[arg(long, value_name = "DIR")]
    folder: Option<PathBuf>,
}

impl PlaceArguments {
    fn folder(&self) -> PathBuf {
        self.folder.clone().unwrap_or_else(std::env::temp_dir)
    }
}

/// `0.1%` or `0.001`.
fn parse_share(text: &str) -> Result<f64, String> {
    let (digits, unit) = text.strip_suffix('%').map_or((text, 1.0), |digits| (digits, 100.0));
    let share = digits.trim().parse::<f64>().ok().map(|value| value / unit);
    share
        .filter(|share| (0.0..1.0).contains(share))
        .ok_or_else(|| format!("{text:?} is no share: write it like 0.1% or 0.001"))
}

/// `3/29`.
fn parse_item(text: &str) -> Result<(u64, u64), String> {
    let parts =
        text.split_once('/').and_then(|(sale, product)| Some((sale.parse().ok()?, product.parse().ok()?)));
    parts.ok_or_else(|| format!("{text:?} is no item: write sale and product like 3/29"))
}

pub(super) fn run(arguments: &PeakArguments, operator_token: Option<String>) -> Result<(), Failure> {
    let program = std::env::current_exe().map_err(Failure::unavailable)?;
    let (sale, product) = arguments.item;
    let target = match (arguments.target_http, arguments.profile) {
        (Some(address), _) => {
            PeakTarget::Running { address, order: Order::Published { sale, product }, operator_token }
        }
        (None, Profile::Embedded) => PeakTarget::Embedded,
        (None, Profile::Cluster) => PeakTarget::Cluster { servers: arguments.servers.into() },
    };
    let mut options = PeakOptions::new(program, target);
    if arguments.quick {
        options = options.quick();
    }
    (options.p99, options.errors) = (arguments.p99, arguments.errors);
    options.trial = arguments.trial.unwrap_or(options.trial);
    options.scripts.clone_from(&arguments.place.scripts);
    options.folder = arguments.place.folder();
    options.port_base = arguments.place.port_base;
    prepare(&arguments.out, &options.stop)?;
    let begun = suite::begin(&heading(&options.scripts, &options.folder, arguments.quick, 1));
    let found = peak::run(&options).map_err(|error| failed(format!("{error:#}"), &options.stop))?;
    if let Some(admission) = &found.admission {
        let file = arguments.out.join("admission.toml");
        json::write_text(&admission.config, &file).map_err(|error| Failure::usage(format!("{error:#}")))?;
    }
    let ending = ending(&found);
    finish(Report { peak: Some(found), ..begun.ended() }, &arguments.out)?;
    ending
}

pub(super) fn run_durability(arguments: &DurabilityArguments) -> Result<(), Failure> {
    let program = std::env::current_exe().map_err(Failure::unavailable)?;
    let mut options = DurabilityOptions::new(program);
    if arguments.quick {
        options = options.quick();
    } else if arguments.full {
        options.extent = Extent::Full;
    }
    options.only.clone_from(&arguments.only);
    options.repeats = arguments.repeats.map_or(options.repeats, usize::from);
    options.scripts.clone_from(&arguments.place.scripts);
    options.folder = arguments.place.folder();
    options.port_base = arguments.place.port_base;
    prepare(&arguments.out, &options.stop)?;
    let begun = suite::begin(&heading(&options.scripts, &options.folder, !arguments.full, options.repeats));
    let rows = durability::run(&options).map_err(|error| failed(format!("{error:#}"), &options.stop))?;
    finish(Report { durability: rows, ..begun.ended() }, &arguments.out)
}

fn heading(scripts: &Path, folder: &Path, quick: bool, repeats: usize) -> Heading {
    Heading {
        version: format!("doorbuster {}", env!("CARGO_PKG_VERSION")),
        command: super::suite::command_line(std::env::args()),
        scripts: scripts.to_owned(),
        folder: folder.to_owned(),
        size: if quick { Size::Quick } else { Size::Full },
        repeats,
        seed: 1,
        co_located: true,
    }
}

fn prepare(out: &Path, stop: &Arc<AtomicBool>) -> Result<(), Failure> {
    std::fs::create_dir_all(out)
        .map_err(|error| Failure::usage(format!("{}: can't be made: {error}", out.display())))?;
    stop_on_signals(stop)
}

/// A broken audit and a signal are results; anything else kept the measurement from being made.
fn failed(text: String, stop: &AtomicBool) -> Failure {
    if text.contains(AUDIT_FAILED) || stop.load(Ordering::Relaxed) {
        Failure::check(text)
    } else {
        Failure::unavailable(text)
    }
}

fn finish(report: Report, out: &Path) -> Result<(), Failure> {
    json::write(&report, &out.join("report.json")).map_err(|error| Failure::usage(format!("{error:#}")))?;
    report::write_all(&report, out)?;
    let place = format!("\nThe report: {}/report.html, .md, .csv and .json\n", out.display());
    output::print(&(summary::of_report(&report) + &place))
}

fn ending(found: &PeakReport) -> Result<(), Failure> {
    match found.highest_passed {
        None => Err(Failure::check("no load was within the limit; see the curve in the report")),
        Some(_) if !found.confirmed => Err(Failure::Invalid(
            "the peak was not confirmed: the environment changed meanwhile, or the generator is the limit; see the notes"
                .to_owned(),
        )),
        Some(_) => Ok(()),
    }
}

/// What the operator's token of a running server is read from.
pub(super) fn operator_token(environment: &server::config::Environment) -> Option<String> {
    environment.get(TOKEN_VARIABLE).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_and_items_are_read() {
        for (text, wanted) in
            [("0.1%", Some(0.001)), ("0.001", Some(0.001)), ("0", Some(0.0)), ("100%", None), ("x", None)]
        {
            assert_eq!(parse_share(text).ok(), wanted, "{text}");
        }
        assert_eq!(parse_item("3/29"), Ok((3, 29)));
        assert!(parse_item("3").is_err() && parse_item("a/b").is_err());
    }
}
