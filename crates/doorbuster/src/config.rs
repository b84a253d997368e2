//! `doorbuster config`: prints the commented defaults, or checks a file and what it names.

use std::path::PathBuf;

use clap::Args;
use server::config::{Config, ConfigErrors, DEFAULTS, Environment, Sources};
use server::ledger::Source;
use server::signing::SigningKey;
use server::{Secrets, cluster};

use crate::failure::Failure;
use crate::ledger::cannot_open;
use crate::output;

/// Print the commented default configuration, or check a file.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  doorbuster config > doorbuster.toml        a file to edit; every key with its default and its bounds
  doorbuster config --check doorbuster.toml  exit code 64 and every error with its line, or \"ok\"
  doorbuster config --check doorbuster.toml --connect

DOORBUSTER_<SECTION>_<KEY> variables stand above the file, and are checked with it. What `serve` opens is opened: secrets,
certificate, keys and other files that it names, its directories and the ledger in them; with --connect also the engines. Nothing is made
or changed. Exit code 69: it is right, but something can't be reached.")]
pub(crate) struct ConfigArguments {
    /// Check FILE and what it names, with the environment on top of it, instead of printing the defaults
    #[arg(long, value_name = "FILE")]
    check: Option<PathBuf>,
    /// Connect to the database, to Redis and to the brokers too
    #[arg(long, requires = "check")]
    connect: bool,
}

pub(crate) fn run(arguments: &ConfigArguments, environment: &Environment) -> Result<(), Failure> {
    let Some(path) = &arguments.check else { return output::print(DEFAULTS) };
    let config = Sources::default().file(path).environment(environment).load()?;
    let secrets = Secrets::load(&config, environment)?;
    config.check_directories().map_err(|problem| ConfigErrors(vec![problem]))?;
    if let Some(path) = config.signing_key() {
        SigningKey::read(&path).map_err(Failure::usage)?;
    }
    let ledger = config.ledger_source(&secrets);
    if matches!(ledger, Source::Directory(_)) {
        ledger.check().map_err(cannot_open)?;
    }
    for exposed in Secrets::exposed(&config) {
        eprintln!("warning: {exposed}");
    }
    if arguments.connect {
        connect(&config, &secrets)?;
    }
    output::print(&format!("{}: ok\n", path.display()))
}

fn connect(config: &Config, secrets: &Secrets) -> Result<(), Failure> {
    let mut found = Vec::new();
    if let Err(error) = config.ledger_source(secrets).check() {
        found.push(error.to_string());
    }
    if config.cluster.enabled {
        found.extend(cluster::unreachable(config, secrets).map_err(Failure::unavailable)?);
    }
    if found.is_empty() { Ok(()) } else { Err(Failure::unavailable(found.join("\n"))) }
}
