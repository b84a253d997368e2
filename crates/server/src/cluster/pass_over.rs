//! The operator's way out where messages are gone or damaged: the queue is read on behind them.
//!
//! No server does that by itself, for orders may be among them. Those whose reservations the gates have kept come to the
//! ledger without a message; others are lost. Must not: pass over a message that can be read.

use std::ops::Range;
use std::time::Duration;

use super::start::{StartError, queue_options};
use crate::config::{Config, Secrets};
use crate::ledger::mysql::cluster::{Acting, LedgerError, SharedLedger};
use crate::queue::{Consumer, PullError, Queue};

/// For the broker to answer.
const WAIT: Duration = Duration::from_secs(2);

/// Why nothing was passed over.
#[derive(Debug, thiserror::Error)]
pub enum PassOverError {
    #[error(transparent)]
    Start(#[from] StartError),
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    #[error("the ledger knows no queue {0}: no server has read it yet")]
    Unknown(Queue),
    #[error("nothing is wrong with queue {queue} at its next message, {next}")]
    Sound { queue: Queue, next: u64 },
    /// The servers see to it themselves, or it passes.
    #[error(transparent)]
    Pull(#[from] PullError),
    #[error("queue {0} was read on meanwhile: look again")]
    Moved(Queue),
}

/// Moves the queue behind the messages at its next place that the broker has lost or can't give whole, and keeps who had that done;
/// returns them.
///
/// # Errors
/// Nothing was changed then, but for [`LedgerError::Unknown`]: the call can be repeated.
pub fn pass_over(
    config: &Config,
    secrets: &Secrets,
    queue: &Queue,
    acting: &Acting,
) -> Result<Range<u64>, PassOverError> {
    let mut ledger = SharedLedger::open(&config.ledger.mysql_options(secrets)).map_err(StartError::from)?;
    let name = queue.to_string();
    let offsets = ledger.queue_offsets()?;
    let next = offsets.into_iter().find(|(known, _)| *known == name).map(|(_, next)| next);
    let next = next.ok_or_else(|| PassOverError::Unknown(queue.clone()))?;
    let mut consumer = Consumer::new(queue_options(config, secrets)?, &config.queue.topic);
    let behind = match consumer.pull(&[(queue.clone(), next)], 1, WAIT) {
        Ok(_) => return Err(PassOverError::Sound { queue: queue.clone(), next }),
        Err(PullError::Deleted { first, .. }) => first,
        Err(PullError::Damaged { offset, .. }) => offset + 1,
        Err(error) => return Err(error.into()),
    };
    match ledger.pass_over(acting, &name, next..behind)? {
        true => Ok(next..behind),
        false => Err(PassOverError::Moved(queue.clone())),
    }
}
