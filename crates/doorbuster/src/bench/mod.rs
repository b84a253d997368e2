//! `doorbuster bench`: measures this very program, and the engines that it stands on, as child processes.
//!
//! Must not: know a scenario or a goal; those are the bench crate's. One file per group of commands.

mod compare;
mod peak;
mod peers;
mod place;
mod report;
pub(crate) mod signals;
mod suite;
mod thresholds;
mod tools;

use std::path::Path;

use clap::{Args, Subcommand};
use server::config::Environment;

use self::compare::CompareArguments;
use self::peak::{DurabilityArguments, PeakArguments};
use self::peers::PeersArguments;
use self::report::ReportArguments;
use self::suite::RunArguments;
use self::tools::{ConsumerArguments, ProducerArguments};
use crate::failure::Failure;
use crate::gate_client::{self, GateClientArguments};
use crate::output;

/// Measure this program, and reproduce the published experiments.
#[derive(Args, Debug)]
#[command(after_help = "\
Start here:
  doorbuster bench list                      what can be measured, and which engines it needs
  doorbuster bench run --all --quick         everything in small, into ./bench-report/
  doorbuster bench run order-embedded        this program's orders beside nginx
  doorbuster bench peak --quick              the load that this machine carries within 50 ms
  doorbuster bench durability --quick        what each flush setting costs, and what a crash loses under it
  doorbuster bench peers                     this program beside what others build

Exit codes: 0 measured, and every threshold is met; 1 a threshold is missed, a figure got worse, an audit failed or a
signal came; 2 a measurement is invalid (the report says why); 64 wrong arguments; 69 something can't be started.

Ctrl-C (or SIGTERM, or SIGHUP unless `nohup` ignores it) stops and ends what was started, which takes seconds; again after a second, it kills that, then
itself. What a bench that was killed has left behind, the next one ends.")]
pub(crate) struct BenchArguments {
    #[command(subcommand)]
    command: BenchCommand,
}

#[derive(Subcommand, Debug)]
enum BenchCommand {
    /// List the scenarios: what they measure, what they reproduce, what they need
    List,
    Run(Box<RunArguments>),
    Peak(Box<PeakArguments>),
    Durability(DurabilityArguments),
    Peers(Box<PeersArguments>),
    Report(ReportArguments),
    Compare(CompareArguments),
    /// Print the JSON schema of the reports
    Schema,
    Producer(ProducerArguments),
    Consumer(ConsumerArguments),
    /// What the scenario `gate` measures the gate with
    #[command(hide = true)]
    GateClient(GateClientArguments),
}

pub(crate) fn run(arguments: &BenchArguments, environment: &Environment) -> Result<(), Failure> {
    let result = match &arguments.command {
        BenchCommand::List => suite::list(),
        BenchCommand::Run(arguments) => {
            let redis_password = redis_password(environment);
            let operator_token = operator_token(environment);
            suite::run(arguments, suite::Secrets { operator_token, redis_password })
        }
        BenchCommand::Peak(arguments) => {
            let token_secret = environment.get(TOKEN_SECRET).map(str::to_owned);
            let operator_token = operator_token(environment);
            peak::run_peak(arguments, peak::Secrets { operator_token, token_secret })
        }
        BenchCommand::Durability(arguments) => peak::run_durability(arguments),
        BenchCommand::Peers(arguments) => peers::run(arguments),
        BenchCommand::Producer(arguments) => tools::produce(arguments),
        BenchCommand::Consumer(arguments) => tools::consume(arguments),
        BenchCommand::Report(arguments) => report::run(arguments),
        BenchCommand::Compare(arguments) => compare::run(arguments),
        BenchCommand::Schema => output::print(::bench::report::json::JSON_SCHEMA),
        BenchCommand::GateClient(arguments) => gate_client::run(arguments),
    };
    signals::wait_for_end();
    result
}

const TOKEN_SECRET: &str = "DOORBUSTER_AUTH_TOKEN_SECRET";
const REDIS_PASSWORD: &str = "DOORBUSTER_BENCH_REDIS_PASSWORD";
/// Only what `bench run` wrote, of this version of it.
fn read_report(file: &Path) -> Result<::bench::report::model::Report, Failure> {
    ::bench::report::json::read(file).map_err(|error| Failure::usage(format!("{error:#}")))
}

/// Of a running server, whose audit is asked for.
fn operator_token(environment: &Environment) -> Option<String> {
    environment.get("DOORBUSTER_OPERATOR_TOKEN").map(str::to_owned)
}

/// Of a running Redis. An empty one is none: so a script leaves it out.
fn redis_password(environment: &Environment) -> Option<String> {
    environment.get(REDIS_PASSWORD).filter(|password| !password.is_empty()).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_password_is_none() {
        let password = |value| redis_password(&Environment::from_pairs([(REDIS_PASSWORD, value)]));
        assert_eq!((password(""), password("secret")), (None, Some("secret".to_owned())));
    }
}
