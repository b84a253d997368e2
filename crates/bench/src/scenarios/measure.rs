//! One trial: a run of the load, what the machine spent on it, and whether it is to be believed.

use std::sync::atomic::AtomicBool;

use anyhow::Context;

use crate::load::schedule::Schedule;
use crate::load::trial::Flag;
use crate::load::{Generator, Protocol, Trial};
use crate::usage::{Snapshot, Watched};

/// What surrounds a trial.
#[derive(Debug, Clone, Copy)]
pub struct Surroundings<'a> {
    /// The engines and servers on this machine; the generator is added.
    pub watched: &'a [Watched],
    /// The block device whose work is told, if there is one: see `environment::disk`.
    pub disk: Option<&'a str>,
    /// The target runs on this machine too.
    pub co_located: bool,
    pub stop: &'a AtomicBool,
}

/// # Errors
/// If the stop flag is raised, or the machine can't be read. What the target does is in the trial.
pub fn trial<P: Protocol>(
    generator: &mut Generator,
    schedule: Schedule,
    protocol: &mut P,
    repeat: usize,
    around: Surroundings<'_>,
) -> anyhow::Result<Trial> {
    let mut watched = around.watched.to_vec();
    watched.push(Watched::load());
    let before = Snapshot::take(&watched, around.disk).context("reading what the machine does")?;
    let record = generator.run(schedule, protocol, around.stop)?;
    let after = Snapshot::take(&watched, around.disk).context("reading what the machine does")?;
    let mut trial = Trial::new(repeat, &schedule, &record, Some(before.until(&after)));
    if around.co_located {
        trial.flags.push(Flag::CoLocated);
    }
    if trial.unsent > 0 {
        trial.flags.push(Flag::Unsent { requests: trial.unsent });
    }
    Ok(trial)
}
