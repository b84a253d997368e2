//! `doorbuster bench embedded` and `bench cluster`: each profile of this very program beside a reference.
//!
//! Must not: know a scenario or a goal; those are the bench crate's.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bench::cluster::Part;
use bench::{ClusterOptions, ClusterReport, EmbeddedOptions};
use clap::{Args, ValueEnum};

use super::signals;
use crate::failure::Failure;
use crate::output;

#[derive(Args, Debug)]
pub(super) struct EmbeddedArguments {
    /// Times that each scenario is measured; 5 at least for a result
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..))]
    rounds: u16,
    /// Seconds of each measurement
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..))]
    seconds: u16,
    /// One round of one second, and a smaller ledger
    #[arg(long, conflicts_with_all = ["rounds", "seconds"])]
    quick: bool,
    #[command(flatten)]
    report: ReportArguments,
}

#[derive(Args, Debug)]
pub(super) struct ClusterArguments {
    /// Times that each scenario is measured; 5 at least for a result
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..))]
    rounds: u16,
    /// Seconds of each measurement
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u16).range(1..))]
    seconds: u16,
    /// One round of two seconds
    #[arg(long, conflicts_with_all = ["rounds", "seconds"])]
    quick: bool,
    /// Measure only these parts
    #[arg(long, value_name = "PART", value_delimiter = ',')]
    only: Vec<PartArgument>,
    /// The folder of the scripts that start the engines
    #[arg(long, value_name = "DIR", default_value = "dev")]
    scripts: PathBuf,
    /// The engines take 200 ports from this one
    #[arg(long, value_name = "PORT", default_value_t = 27000, value_parser = clap::value_parser!(u16).range(1024..=65000))]
    port_base: u16,
    #[command(flatten)]
    report: ReportArguments,
    /// Measure nothing: print the result in FILE as Markdown
    #[arg(long, value_name = "FILE", exclusive = true)]
    show: Option<PathBuf>,
}

#[derive(Args, Debug)]
struct ReportArguments {
    /// Write every measurement to FILE as well
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Exit with 1 if a goal is missed
    #[arg(long)]
    strict: bool,
}

/// Parts of the cluster's benchmark.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum PartArgument {
    /// Orders end to end
    Orders,
    /// The gate alone, beside redis-benchmark
    Gate,
    /// POST /order/submit on MariaDB
    Submit,
    /// Stock and product pages of the edge, beside nginx
    Edge,
}

impl From<PartArgument> for Part {
    fn from(part: PartArgument) -> Self {
        match part {
            PartArgument::Orders => Self::Orders,
            PartArgument::Gate => Self::Gate,
            PartArgument::Submit => Self::Submit,
            PartArgument::Edge => Self::Edge,
        }
    }
}

pub(super) fn run_embedded(arguments: &EmbeddedArguments) -> Result<(), Failure> {
    let program = std::env::current_exe().map_err(Failure::unavailable)?;
    let mut options = EmbeddedOptions::new(program);
    if arguments.quick {
        options = options.quick();
    } else {
        options.rounds = arguments.rounds.into();
        options.window = Duration::from_secs(arguments.seconds.into());
    }
    signals::begin(&options.stop)?;
    let report = bench::embedded(&options).map_err(|error| Failure::check(format!("{error:#}")))?;
    publish(&arguments.report, &report.to_json(), &report.to_string(), report.missed())
}

pub(super) fn run_cluster(arguments: &ClusterArguments) -> Result<(), Failure> {
    if let Some(file) = &arguments.show {
        return show(file);
    }
    let program = std::env::current_exe().map_err(Failure::unavailable)?;
    let mut options = ClusterOptions::new(program);
    if arguments.quick {
        options = options.quick();
    } else {
        options.rounds = arguments.rounds.into();
        options.window = Duration::from_secs(arguments.seconds.into());
    }
    if !arguments.only.is_empty() {
        options.parts = arguments.only.iter().copied().map(Part::from).collect();
    }
    options.scripts.clone_from(&arguments.scripts);
    options.port_base = arguments.port_base;
    signals::begin(&options.stop)?;
    let report = bench::cluster(&options).map_err(|error| Failure::check(format!("{error:#}")))?;
    publish(&arguments.report, &report.to_json(), &report.to_string(), report.missed())
}

fn show(file: &Path) -> Result<(), Failure> {
    let unreadable =
        |error: &dyn Error| Failure::usage(format!("{}: can't be read: {error}", file.display()));
    let text = std::fs::read_to_string(file).map_err(|error| unreadable(&error))?;
    let report = ClusterReport::from_json(&text).map_err(|error| unreadable(&error))?;
    output::print(&report.to_markdown())
}

/// Prints a report and keeps it; a missed goal is a failure only if that was asked for.
fn publish(arguments: &ReportArguments, json: &str, text: &str, missed: usize) -> Result<(), Failure> {
    if let Some(path) = &arguments.json {
        std::fs::write(path, json)
            .map_err(|error| Failure::usage(format!("{}: can't be written: {error}", path.display())))?;
    }
    output::print(text)?;
    match missed {
        missed if arguments.strict && missed > 0 => Err(Failure::check(format!("{missed} goal(s) missed"))),
        _ => Ok(()),
    }
}
