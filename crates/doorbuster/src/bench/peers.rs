//! `doorbuster bench peers`: this program beside what other teams build.
//!
//! Must not: measure or judge; that is the bench crate's.

use std::path::{Path, PathBuf};
use std::time::Duration;

use ::bench::peers::{self, Compared, PeersOptions, RATE_MAX, RATE_MIN, ROUNDS_MAX};
use ::bench::report::json;
use ::bench::report::model::Report;
use ::bench::report::thresholds::judge;
use clap::Args;

use super::peak::{CommonArguments, check};
use crate::failure::Failure;
use crate::output;
use crate::time::parse_duration;

/// As much as a figure must rest on.
const LOAD_MIN: Duration = Duration::from_secs(3);
const LOAD_MAX: Duration = Duration::from_secs(60);

/// Measure this program beside what other teams build: the same buyers, the same stock
#[derive(Args, Debug)]
#[command(after_help = "\
The peers: this program, embedded, on its default settings (each order synced before its answer); nginx with Lua and one
Redis script, what a team writes in a day, with Redis' appendfsync everysec, as most run it, and always; a program in Go that
inserts the order and subtracts the stock in one transaction of MariaDB; and the same on PostgreSQL, a row for each unit, taken
by SELECT ... FOR UPDATE SKIP LOCKED. They get the same bytes, but check neither tokens nor idempotency keys: they have less to
do. Their sources are in crates/bench/peers; Go fetches the drivers the first time.

Each round plays every peer, each time in another order: a sale that sells out at a stated rate of requests (its p50 and p99, and the
processor time of all of a peer's processes), a closed loop (the most that it carries), and a sale in whose middle all of its
processes are killed (SIGKILL); it starts again and sells the rest. After each the rows of its store are compared with
what the buyers were answered. A kill takes nothing that the system has: what a power cut would take is not measured.
About 25 s for each peer and round; a load in which a peer would be asked less than 10,000 times lasts longer.

A peer that is not installed is named at the start, with what installs it, and in the report; the others are measured. The
engines are started by the scripts of the sources' `dev`: without that folder (--scripts) there is nothing to compare with.

The report has the rounds before a failure or a signal, marked as not complete. What another peer loses or oversells is a finding;
after a loss of this program's own no figure is printed. How sure the figures are says the first sentence, as in `bench run`.

A threshold is 'peers[/case]:metric>=value' with >=, <=, > or <, and times with a unit (50ms). The cases are, of each peer, such
as 'Doorbuster, embedded, 100 users' and 'Doorbuster, embedded, sale at 2000/s', by the values of --users and --rate; the metrics
those of the report: throughput; p50; p99; CPU per order; CPU per request; sold wrongly; 'lost, all processes killed' and so on.

Exit codes: 0 measured, and every threshold is met; 1 a threshold is missed, this program lost or oversold something, or a signal
came; 2 INVALID, as the first sentence says; 64 wrong arguments; 69 something can't be started, or there is no peer.

Examples:
  doorbuster bench peers
  doorbuster bench peers --quick --out first-look
  doorbuster bench peers --rate 5000 --chart peers.svg --threshold 'peers:lost, all processes killed<=0'")]
pub(super) struct PeersArguments {
    /// How often each is measured [default: 6, with --quick 1]; intervals need 6
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=i64::from(ROUNDS_MAX)))]
    rounds: Option<u8>,
    /// Requests per second of the two sales
    #[arg(long, value_name = "N", default_value_t = 2000, value_parser = clap::value_parser!(u32).range(i64::from(RATE_MIN)..=i64::from(RATE_MAX)))]
    rate: u32,
    /// Length of each load, 3s to 60s [default: 5s, with --quick 1s]
    #[arg(long, value_name = "TIME", value_parser = load)]
    load: Option<Duration>,
    /// Users of the closed loop
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u16).range(1..=2000))]
    users: u16,
    /// What arrivals and the moments of the kills are chosen by
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Draw the most orders per second of each to FILE, an SVG, if the figures may be quoted
    #[arg(long, value_name = "FILE")]
    chart: Option<PathBuf>,
    #[command(flatten)]
    common: CommonArguments,
}

fn load(text: &str) -> Result<Duration, String> {
    let load = parse_duration(text)?;
    if (LOAD_MIN..=LOAD_MAX).contains(&load) { Ok(load) } else { Err("write 3s to 60s".to_owned()) }
}

pub(super) fn run(arguments: &PeersArguments) -> Result<(), Failure> {
    let common = &arguments.common;
    let mut options = PeersOptions::new(common.place.program()?);
    if common.quick {
        options = options.quick();
    }
    options.rounds = arguments.rounds.map_or(options.rounds, usize::from);
    options.load = arguments.load.unwrap_or(options.load);
    options.rate = arguments.rate;
    options.users = arguments.users.into();
    options.seed = arguments.seed;
    common.locate(&mut options.site);
    let thresholds = common.thresholds.read_for(peers::NAME, &options.plan())?;
    let mut begun = common.begin(&options.site.stop)?;
    // The report's folder is there by now, and may be the chart's.
    if let Some(chart) = &arguments.chart {
        json::check_place(chart).map_err(|error| Failure::usage(format!("--chart: {error:#}")))?;
    }
    let mut report = Report { seed: arguments.seed, ..common.report(options.rounds, true) };
    let mut compared = Compared::default();
    let ended = options.run(&mut compared);
    options.site.progress.finish();
    let (scenario, missing) = compared.report(&options);
    report.scenarios.push(scenario);
    report.failures.extend(missing);
    report.complete = ended.is_ok();
    if let Err(error) = ended {
        draw(arguments, &report)?;
        return common.give_up(report, begun, peers::NAME, &format!("{error:#}"), &options.site.stop);
    }
    report.thresholds = judge(&thresholds, &report);
    common.keep(&mut report, &mut begun)?;
    draw(arguments, &report)?;
    check(&report)
}

/// Whoever asked for a chart must not take an older file for it.
fn draw(arguments: &PeersArguments, report: &Report) -> Result<(), Failure> {
    let Some(file) = &arguments.chart else { return Ok(()) };
    output::print(&drawn(file, peers::chart(report))?)
}

fn drawn(file: &Path, chart: Option<String>) -> Result<String, Failure> {
    let Some(chart) = chart else {
        return Ok(format!(
            "No chart is drawn, for no figure may be quoted: {} is not written\n",
            file.display()
        ));
    };
    json::write_text(&chart, file).map_err(|error| Failure::usage(format!("{error:#}")))?;
    Ok(format!("The chart: {}\n", file.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chart_that_is_not_drawn_is_said() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("peers.svg");
        std::fs::write(&file, "of yesterday").unwrap();
        assert!(drawn(&file, None).unwrap().starts_with("No chart is drawn"));
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "of yesterday");
        assert!(drawn(&file, Some("<svg/>".to_owned())).unwrap().starts_with("The chart: "));
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "<svg/>");
    }
}
