//! The `doorbuster` program: arguments become checked arguments, a command runs, its result is an exit code.
//!
//! Must not: hold a rule of selling; those are the engine's, and the server's. One file per command group.

mod acting;
mod attempts;
mod audit_report;
mod bench;
mod buyers;
mod cli;
mod client;
mod clock;
mod cluster_audit;
mod config;
mod dead_letters;
mod demo;
mod draw;
mod failure;
mod gate_client;
mod images;
mod init;
mod ledger;
mod live;
mod logging;
mod new_file;
mod operators;
mod orders;
mod output;
mod queues;
mod receipt;
mod refunds;
mod rehearse;
mod reload;
mod sale;
mod serve;
mod signing_key;
mod status;
mod time;
mod token;
mod watch;
mod webhooks;

use std::process::ExitCode;

use server::config::Environment;

use crate::cli::{Cli, CommandGroup};
use crate::failure::Failure;

fn main() -> ExitCode {
    let cli = match cli::parse() {
        Ok(cli) => cli,
        Err(error) => return cli::exit_code_of(&error),
    };
    match run(cli) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            failure.print();
            failure.exit_code()
        }
    }
}

fn run(cli: Cli) -> Result<(), Failure> {
    let environment = Environment::from_process();
    match cli.command {
        CommandGroup::Serve(arguments) => serve::run(&arguments, &environment),
        CommandGroup::Sale(arguments) => sale::run(&arguments, &environment),
        CommandGroup::Rehearse(arguments) => rehearse::run(&arguments, &environment),
        CommandGroup::Draw(arguments) => draw::run(&arguments, &environment),
        CommandGroup::Receipt(arguments) => receipt::run(&arguments),
        CommandGroup::Clock(arguments) => clock::run(&arguments, &environment),
        CommandGroup::Token(arguments) => token::run(&arguments, &environment),
        CommandGroup::Demo(arguments) => demo::run(&arguments, &environment),
        CommandGroup::Audit(arguments) => ledger::audit(&arguments, &environment),
        CommandGroup::Orders(arguments) => orders::run(&arguments, &environment),
        CommandGroup::Backup(arguments) => ledger::backup(&arguments, &environment),
        CommandGroup::DeadLetters(arguments) => dead_letters::run(&arguments, &environment),
        CommandGroup::Queues(arguments) => queues::run(&arguments, &environment),
        CommandGroup::Refunds(arguments) => refunds::run(&arguments, &environment),
        CommandGroup::Buyers(arguments) => buyers::run(&arguments, &environment),
        CommandGroup::Operators(arguments) => operators::run(&arguments, &environment),
        CommandGroup::Images(arguments) => images::run(&arguments, &environment),
        CommandGroup::Webhooks(arguments) => webhooks::run(&arguments, &environment),
        CommandGroup::Bench(arguments) => bench::run(&arguments, &environment),
        CommandGroup::Config(arguments) => config::run(&arguments, &environment),
        CommandGroup::Status(arguments) => status::run(&arguments, &environment),
        CommandGroup::Attempts(arguments) => attempts::run(&arguments, &environment),
        CommandGroup::Watch(arguments) => watch::run(&arguments, &environment),
        CommandGroup::Init(arguments) => init::run(&arguments, &environment),
    }
}
