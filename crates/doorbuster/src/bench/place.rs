//! Where a measurement is made: options that all of `bench run`, `peak`, `durability` and `peers` have.

use std::path::{Path, PathBuf};

use ::bench::load::rank;
use ::bench::target::engines::find_scripts;
use clap::Args;

use crate::failure::Failure;

/// The folder of the scripts, unless it is said otherwise. What starts no engines of a cluster does without.
const SCRIPTS: &str = "dev";

#[derive(Args, Debug, Default)]
#[command(next_help_heading = "Place")]
pub(super) struct PlaceArguments {
    /// The servers take 200 ports from this one
    #[arg(long, value_name = "PORT", default_value_t = 27000, value_parser = clap::value_parser!(u16).range(1024..=65000))]
    pub(super) port_base: u16,
    /// The folder of the scripts that start the engines
    #[arg(long, value_name = "DIR", default_value = SCRIPTS)]
    pub(super) scripts: PathBuf,
    /// The doorbuster to measure, of another version say [default: this program]
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,
    /// Where the servers keep their data meanwhile; on a real disk, or syncs cost nothing [default: the system's
    /// folder for temporary files]
    #[arg(long, value_name = "DIR")]
    folder: Option<PathBuf>,
    /// Let the load generator outrank what it measures, if both share this machine: a processor of its own where there are
    /// four, priority where there are fewer (as root, or with CAP_SYS_NICE)
    #[arg(long)]
    outrank: bool,
}

impl PlaceArguments {
    pub(super) fn data(&self) -> PathBuf {
        self.folder.clone().unwrap_or_else(std::env::temp_dir)
    }

    /// With its whole path: it is started in other folders.
    pub(super) fn program(&self) -> Result<PathBuf, Failure> {
        let Some(given) = &self.program else { return std::env::current_exe().map_err(Failure::unavailable) };
        given
            .canonicalize()
            .map_err(|error| Failure::usage(format!("--program {}: {error}", given.display())))
    }

    /// What is wrong with it, before anything is made or started.
    pub(super) fn check(&self) -> Result<(), Failure> {
        if self.scripts != Path::new(SCRIPTS) {
            find_scripts(&self.scripts).map_err(|error| Failure::usage(format!("--scripts: {error:#}")))?;
        }
        let Some(data) = &self.folder else { return Ok(()) };
        // Of a relative path with one part the parent is empty, and is where we are.
        let parent = data.parent().filter(|parent| !parent.as_os_str().is_empty());
        match parent {
            Some(parent) if !data.is_dir() && !parent.is_dir() => Err(Failure::usage(format!(
                "--folder {}: there is no folder {}",
                data.display(),
                parent.display()
            ))),
            _ => Ok(()),
        }
    }

    /// To be called on the thread of the load, before anything is started.
    pub(super) fn outrank(&self) -> Result<(), Failure> {
        if !self.outrank {
            return Ok(());
        }
        rank::outrank().map_err(|error| {
            Failure::usage(format!("--outrank: {error}: run it as root, or give the program CAP_SYS_NICE"))
        })
    }
}
