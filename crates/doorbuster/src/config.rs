//! `doorbuster config`: prints the commented defaults, or checks a file.

use std::path::PathBuf;

use clap::Args;
use server::config::{DEFAULTS, Environment, Sources};

use crate::failure::Failure;
use crate::output;

/// Print the commented default configuration, or check a file.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  doorbuster config > doorbuster.toml        a file to edit; every key with its default and its bounds
  doorbuster config --check doorbuster.toml  exit code 64 and every error with its line, or \"ok\"

DOORBUSTER_<SECTION>_<KEY> variables stand above the file, and are checked with it. Secrets are not read.")]
pub(crate) struct ConfigArguments {
    /// Check FILE, with the environment on top of it, instead of printing the defaults
    #[arg(long, value_name = "FILE")]
    check: Option<PathBuf>,
}

pub(crate) fn run(arguments: &ConfigArguments, environment: &Environment) -> Result<(), Failure> {
    let Some(path) = &arguments.check else { return output::print(DEFAULTS) };
    Sources::default().file(path).environment(environment).load()?;
    output::print(&format!("{}: ok\n", path.display()))
}
