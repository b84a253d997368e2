//! The queues of the topic as the brokers and the ledger know them: which hold messages that must be consumed before a
//! gate can be rebuilt, which were removed from the topic, and an operator's word that nothing waits for one any more.
//!
//! A broker that does not answer is not a queue that was removed: only its broker can say that it has a queue no more.
//! Must not: retire a queue by itself.

mod faults;
mod retire;

use std::ops::Range;

pub(in crate::cluster) use self::faults::Faults;
pub use self::retire::{QueuesError, RetireError, Retired, queues, retire};
use crate::ledger::mysql::cluster::{ClusterLedger, Holder, LedgerError, QueueRow};
use crate::queue::{AdminError, Administer, Queue, Survey};

/// One queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueSight {
    pub queue: Queue,
    pub condition: QueueCondition,
    /// Of the oldest message at the broker, and behind the newest. `None`: the broker does not say.
    pub messages: Option<Range<u64>>,
    /// As the ledger has it. `None`: no server has ever read it.
    pub row: Option<QueueRow>,
}

/// Whether the broker has a queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum QueueCondition {
    /// It takes messages and gives them.
    InTopic,
    /// It gives what it has, and takes nothing more.
    ReadOnly,
    /// It takes messages, and gives none: no server can read it.
    WriteOnly,
    /// Its broker answers, and has it in the topic no more.
    Removed,
    /// Its broker does not answer, for this reason.
    Silent(String),
}

impl QueueSight {
    /// Messages that wait to be consumed; `None`: nobody can say.
    pub fn waiting(&self) -> Option<u64> {
        let Range { start, end } = self.messages.clone()?;
        let next = self.row.as_ref().map_or(start, |row| row.next_offset);
        Some(end.saturating_sub(next))
    }

    pub fn is_retired(&self) -> bool {
        self.row.as_ref().is_some_and(QueueRow::is_retired)
    }

    /// Its broker has lost messages that were consumed, and it is not read again yet.
    fn is_ahead(&self) -> bool {
        let next = self.row.as_ref().filter(|row| !row.is_retired()).map(|row| row.next_offset);
        let is_read = matches!(self.condition, QueueCondition::InTopic | QueueCondition::ReadOnly);
        is_read && self.messages.as_ref().is_some_and(|messages| next.is_some_and(|next| next > messages.end))
    }

    fn is_removed(&self) -> bool {
        self.condition == QueueCondition::Removed && !self.is_retired()
    }

    /// It was removed, and everything that it ever had is in the ledger.
    fn is_stale(&self) -> bool {
        self.is_removed() && self.lies_at_its_end()
    }

    fn lies_at_its_end(&self) -> bool {
        let next = self.row.as_ref().map(|row| row.next_offset);
        self.messages.as_ref().is_some_and(|messages| Some(messages.end) == next)
    }
}

/// What is known of a topic's queues at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Queues {
    pub(super) sights: Vec<QueueSight>,
    /// Brokers of the topic, or of a queue of the ledger, that do not answer, and why.
    pub(super) silent: Vec<(String, String)>,
}

impl Queues {
    /// How far each queue goes that may hold orders; or why that can't be known, or can't be reached.
    pub(super) fn ends(&self) -> Result<Vec<(Queue, u64)>, Faults> {
        let faults = Faults::of(self);
        if faults.blocks() {
            return Err(faults);
        }
        // Whoever reads it goes back soon: what stands there now may be orders.
        let ahead = self.sights.iter().filter(|sight| sight.is_ahead());
        if let Some(faults) = Faults::ahead(&ahead.collect::<Vec<_>>()) {
            return Err(faults);
        }
        let live = self.sights.iter().filter(|sight| sight.condition != QueueCondition::Removed);
        Ok(live.filter_map(|sight| Some((sight.queue.clone(), sight.messages.as_ref()?.end))).collect())
    }
}

/// Why the queues could not be looked at.
#[derive(Debug, thiserror::Error)]
pub enum LookError {
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    #[error(transparent)]
    Brokers(#[from] AdminError),
}

/// Asks the ledger, and then every broker that has the topic or had it.
pub(super) fn look(
    ledger: &mut dyn ClusterLedger,
    admin: &mut dyn Administer,
    topic: &str,
) -> Result<Queues, LookError> {
    let rows = ledger.queue_rows()?;
    look_for(rows, admin, topic).map_err(LookError::Brokers)
}

pub(super) fn look_for(
    rows: Vec<QueueRow>,
    admin: &mut dyn Administer,
    topic: &str,
) -> Result<Queues, AdminError> {
    let of_ledger: Vec<Queue> =
        rows.iter().filter(|row| !row.is_retired()).filter_map(|row| row.queue.parse().ok()).collect();
    let survey = admin.survey(topic, &of_ledger)?;
    Ok(join(rows, &survey))
}

/// Puts together what both say. By the names of the queues.
fn join(rows: Vec<QueueRow>, survey: &Survey) -> Queues {
    let mut queues = Queues::default();
    for (broker, said) in &survey.brokers {
        match said {
            Ok(said) => {
                for (number, messages) in &said.messages {
                    queues.sights.push(QueueSight {
                        queue: Queue { broker: broker.clone(), number: *number },
                        condition: match (*number < said.read, *number < said.write) {
                            (true, true) => QueueCondition::InTopic,
                            (true, false) => QueueCondition::ReadOnly,
                            (false, true) => QueueCondition::WriteOnly,
                            (false, false) => QueueCondition::Removed,
                        },
                        messages: Some(messages.clone()),
                        row: None,
                    });
                }
            }
            Err(why) => queues.silent.push((broker.clone(), why.clone())),
        }
    }
    for row in rows {
        // No program of ours has written a name that is none.
        let Ok(queue) = row.queue.parse::<Queue>() else { continue };
        match queues.sights.iter_mut().find(|sight| sight.queue == queue) {
            Some(sight) => sight.row = Some(row),
            None => {
                let condition = match survey.brokers.get(&queue.broker) {
                    Some(Err(why)) => QueueCondition::Silent(why.clone()),
                    // Only a retired one is not asked for.
                    Some(Ok(_)) | None => QueueCondition::Removed,
                };
                queues.sights.push(QueueSight { queue, condition, messages: None, row: Some(row) });
            }
        }
    }
    queues.sights.sort_by(|a, b| a.queue.cmp(&b.queue));
    queues
}

#[cfg(test)]
mod tests;
