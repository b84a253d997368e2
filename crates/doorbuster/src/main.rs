//! The `doorbuster` program: arguments become checked arguments, a command runs, its result is an exit code.
//!
//! Must not: hold a rule of selling; those are the engine's, and the server's. One file per command group.

mod cli;
mod client;
mod config;
mod demo;
mod failure;
mod ledger;
mod output;
mod sale;
mod time;

use std::process::ExitCode;

use clap::Parser;
use server::config::Environment;

use crate::cli::{Cli, Command};
use crate::failure::Failure;

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
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
        Command::Sale(arguments) => sale::run(&arguments, &environment),
        Command::Demo(arguments) => demo::run(&arguments, &environment),
        Command::Audit(arguments) => ledger::audit(&arguments),
        Command::Orders(arguments) => ledger::orders(&arguments),
        Command::Backup(arguments) => ledger::backup(&arguments),
        Command::Config(arguments) => config::run(&arguments, &environment),
    }
}
