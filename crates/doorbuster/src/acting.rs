//! Who does something to a cluster by a command, past its servers. Whoever has the ledger's password is not asked for a token: the
//! name is believed.

use clap::Args;
use engine::{By, ROOT};
use server::clock::wall_clock;
use server::ledger::mysql::cluster::Acting;

use crate::failure::Failure;

#[derive(Args, Debug)]
pub(crate) struct ActingArguments {
    /// Your name, as `doorbuster operators log` is to have it
    #[arg(long, value_name = "NAME", default_value = ROOT)]
    who: String,
    /// Why: kept beside it, at most 200 characters
    #[arg(long, value_name = "TEXT", default_value = "")]
    why: String,
}

impl ActingArguments {
    pub(crate) fn acting(&self) -> Result<Acting, Failure> {
        let by = By::named(&self.who, &self.why).map_err(Failure::usage)?;
        Ok(Acting { by, now: wall_clock() })
    }
}
