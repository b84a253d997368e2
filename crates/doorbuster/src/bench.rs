//! `doorbuster bench`: measures this very program, as a child process, beside a reference.
//!
//! Must not: know a scenario or a goal; those are the bench crate's.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use bench::EmbeddedOptions;
use clap::{Args, Subcommand};
use signal_hook::consts::{SIGINT, SIGTERM};

use crate::failure::Failure;
use crate::output;

/// Measure this program.
#[derive(Args, Debug)]
pub(crate) struct BenchArguments {
    #[command(subcommand)]
    command: BenchCommand,
}

#[derive(Subcommand, Debug)]
enum BenchCommand {
    /// Measure the embedded profile beside nginx
    #[command(after_help = "\
Starts servers and an nginx (1 worker, empty replies) on loopback, in a directory that is removed, and sends both
the same requests in turn. Every accepted answer is looked for in the ledger afterwards: no figure without a clean
audit. The figures are medians; 5 rounds of 5 seconds take some twenty minutes.

Examples:
  doorbuster bench embedded --quick               does it work? A minute; figures not to be compared
  doorbuster bench embedded --json result.json")]
    Embedded {
        /// Times that each scenario is measured; 5 at least for a result
        #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..))]
        rounds: u16,
        /// Seconds of each measurement
        #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..))]
        seconds: u16,
        /// One round of one second, and a smaller ledger
        #[arg(long, conflicts_with_all = ["rounds", "seconds"])]
        quick: bool,
        /// Write every measurement to FILE as well
        #[arg(long, value_name = "FILE")]
        json: Option<PathBuf>,
        /// Exit with 1 if a goal is missed
        #[arg(long)]
        strict: bool,
    },
}

pub(crate) fn run(arguments: &BenchArguments) -> Result<(), Failure> {
    let BenchCommand::Embedded { rounds, seconds, quick, json, strict } = &arguments.command;
    let program = std::env::current_exe().map_err(Failure::unavailable)?;
    let mut options = EmbeddedOptions::new(program);
    if *quick {
        options = options.quick();
    } else {
        options.rounds = (*rounds).into();
        options.window = Duration::from_secs((*seconds).into());
    }
    stop_on_signals(&options.stop)?;
    let report = bench::embedded(&options).map_err(|error| Failure::check(format!("{error:#}")))?;
    if let Some(path) = json {
        std::fs::write(path, report.to_json())
            .map_err(|error| Failure::usage(format!("{}: can't be written: {error}", path.display())))?;
    }
    output::print(&report.to_string())?;
    match report.missed() {
        missed if *strict && missed > 0 => Err(Failure::check(format!("{missed} goal(s) missed"))),
        _ => Ok(()),
    }
}

/// A benchmark that is interrupted must end its children first; a second signal does not wait for that.
fn stop_on_signals(stop: &Arc<AtomicBool>) -> Result<(), Failure> {
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register_conditional_default(signal, Arc::clone(stop))
            .and_then(|_id| signal_hook::flag::register(signal, Arc::clone(stop)))
            .map_err(Failure::unavailable)?;
    }
    Ok(())
}
