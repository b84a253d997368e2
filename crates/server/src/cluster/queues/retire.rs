//! The operator's commands: a list of the queues, and retiring those that are no longer there.

use std::fmt;

use engine::Action;

use super::{Holder, LookError, QueueCondition, QueueSight, Queues, look};
use crate::cluster::start::{StartError, queue_options};
use crate::config::{Config, Secrets};
use crate::ledger::mysql::cluster::{Acting, LedgerError, SharedLedger};
use crate::queue::{Admin, Queue};

/// Why there is no list.
#[derive(Debug, thiserror::Error)]
pub enum QueuesError {
    #[error(transparent)]
    Start(#[from] StartError),
    #[error(transparent)]
    Look(#[from] LookError),
}

/// Why a queue was not retired. The call can be repeated: a queue that was retired before is then named.
#[derive(Debug, thiserror::Error)]
pub enum RetireError {
    #[error(transparent)]
    Queues(#[from] QueuesError),
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    #[error("the ledger knows no queue {0}: `doorbuster queues list` shows all that there are")]
    Unknown(Queue),
    #[error("queue {0} was retired before")]
    Before(Queue),
    #[error("the topic still has queue {0}: nothing was retired; take it out of the topic first")]
    InTopic(Queue),
    #[error(
        "the broker {broker} does not answer ({why}): nothing was retired. A broker that is down may still have its queues, \
         and orders in them: start it"
    )]
    Silent { broker: String, why: String },
    #[error(
        "{waiting} message(s) of queue {queue} were not consumed: nothing was retired. Give the topic as many queues as \
         before, and they are consumed. With --with-unread they are given up: their orders come to the ledger by their \
         reservations, unless a gate has lost these"
    )]
    Unread { queue: Queue, waiting: u64 },
    #[error("the server {server} still reads queue {queue}: nothing was retired; try again in a few seconds")]
    Held { queue: Queue, server: String },
    #[error("queue {0} was changed meanwhile: look again")]
    Moved(Queue),
    #[error("{0} queue(s) retired, but the operators' log does not have it: {1}")]
    NotKept(usize, #[source] LedgerError),
}

impl RetireError {
    /// Whether it is an answer, and not an engine that is away.
    pub fn is_refusal(&self) -> bool {
        use RetireError::{Ledger, NotKept, Queues, Silent};
        !matches!(self, Queues(_) | Ledger(_) | Silent { .. } | NotKept(..))
    }
}

/// What was retired.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Retired {
    pub queue: Queue,
    /// Where it stood.
    pub next_offset: u64,
    /// Messages that nobody will read.
    pub unread: u64,
}

impl fmt::Display for Retired {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Retired { queue, next_offset, unread } = self;
        write!(f, "{queue} at offset {next_offset}")?;
        if *unread > 0 { write!(f, ", with {unread} message(s) unread") } else { Ok(()) }
    }
}

/// All queues of the topic and of the ledger, by their names.
///
/// # Errors
/// If the ledger or the name servers can't be asked. A broker that does not answer is no error: see [`QueueCondition::Silent`].
pub fn queues(config: &Config, secrets: &Secrets) -> Result<Vec<QueueSight>, QueuesError> {
    open(config, secrets).map(|(_, queues)| queues.sights)
}

fn open(config: &Config, secrets: &Secrets) -> Result<(SharedLedger, Queues), QueuesError> {
    let mut ledger = SharedLedger::open(&config.ledger.mysql_options(secrets)).map_err(StartError::from)?;
    let mut admin = Admin::new(queue_options(config, secrets)?);
    let queues = look(&mut ledger, &mut admin, &config.queue.topic)?;
    Ok((ledger, queues))
}

/// Retires queues that the topic no longer has, all of them or, if one can't be, none. Every master of the topic must
/// answer. `with_unread`: also those with messages that were not consumed. The operators' log gets an entry for each.
///
/// # Errors
/// See [`RetireError`].
pub fn retire(
    config: &Config,
    secrets: &Secrets,
    wanted: &[Queue],
    with_unread: bool,
    acting: &Acting,
) -> Result<Vec<Retired>, RetireError> {
    let (mut ledger, queues) = open(config, secrets)?;
    for queue in wanted {
        check(&queues, queue, with_unread)?;
    }
    let mut retired = Vec::new();
    let stopped = retire_each(&mut ledger, &queues, wanted, &mut retired);
    // Also of those before the one where it stopped.
    let abouts = retired.iter().map(Retired::to_string).collect();
    let kept = ledger.keep_actions(acting, Action::QueuesRetired, abouts);
    stopped?;
    kept.map_err(|error| RetireError::NotKept(retired.len(), error))?;
    Ok(retired)
}

fn retire_each(
    ledger: &mut SharedLedger,
    queues: &Queues,
    wanted: &[Queue],
    retired: &mut Vec<Retired>,
) -> Result<(), RetireError> {
    for queue in wanted {
        let sight = queues.sights.iter().find(|sight| sight.queue == *queue);
        let row = sight.and_then(|sight| sight.row.as_ref()).expect("it was checked");
        if !ledger.retire_queue(row)? {
            return Err(RetireError::Moved(queue.clone()));
        }
        let unread = sight.and_then(QueueSight::waiting).unwrap_or(0);
        retired.push(Retired { queue: queue.clone(), next_offset: row.next_offset, unread });
    }
    Ok(())
}

/// Whether a queue may be retired.
pub(super) fn check(queues: &Queues, wanted: &Queue, with_unread: bool) -> Result<(), RetireError> {
    let sight = queues.sights.iter().find(|sight| sight.queue == *wanted);
    let row = sight.and_then(|sight| Some((sight, sight.row.as_ref()?)));
    let (sight, row) = row.ok_or_else(|| RetireError::Unknown(wanted.clone()))?;
    if row.is_retired() && sight.condition == QueueCondition::Removed {
        return Err(RetireError::Before(wanted.clone()));
    }
    if let Some((broker, why)) = queues.silent.first() {
        return Err(RetireError::Silent { broker: broker.clone(), why: why.clone() });
    }
    if sight.condition != QueueCondition::Removed {
        return Err(RetireError::InTopic(wanted.clone()));
    }
    if let Holder::Server(server) = &row.holder {
        return Err(RetireError::Held { queue: wanted.clone(), server: server.clone() });
    }
    match sight.waiting() {
        Some(waiting) if waiting > 0 && !with_unread => {
            Err(RetireError::Unread { queue: wanted.clone(), waiting })
        }
        _ => Ok(()),
    }
}
