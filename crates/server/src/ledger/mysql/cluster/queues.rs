//! The rows of the queues: how far each was taken in, who reads it, and which of them were retired.
//!
//! A retired queue keeps its row: an operator sees later at which offset it was retired, and a queue of that name that
//! comes back is read on from there. To the servers it is free, so the first that finds the queue in the topic takes it.

use engine::UnixMs;
use mysql::from_row_opt;
use mysql::prelude::Queryable;

use super::leases::{DB_NOW, is_over};
use super::{LedgerError, QUEUE_LEASE_MS, SharedLedger};
use crate::ledger::mysql::sql::unsigned;
use crate::ledger::rows::int;

/// The owner of a retired queue. No server is called so: their ids are below 2^63. `leased_until` is when it was retired.
const RETIRED: i64 = -1;

/// One queue as the ledger knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueRow {
    pub queue: String,
    pub next_offset: u64,
    pub generation: u64,
    pub holder: Holder,
}

/// Whose a queue is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Holder {
    Nobody,
    /// The server of this address reads it.
    Server(String),
    /// An operator has retired it: nothing waits for it any more.
    Retired {
        at: UnixMs,
    },
}

impl QueueRow {
    pub fn is_retired(&self) -> bool {
        matches!(self.holder, Holder::Retired { .. })
    }
}

impl SharedLedger {
    /// All queues that any server has ever read, by their names.
    ///
    /// # Errors
    /// See [`LedgerError`].
    pub fn queue_rows(&mut self) -> Result<Vec<QueueRow>, LedgerError> {
        let query = format!(
            "SELECT q.queue, q.next_offset, q.generation, q.owner, q.leased_until, NOT ({}), s.address \
             FROM queue_offsets AS q LEFT JOIN servers AS s ON s.id = q.owner ORDER BY q.queue",
            is_over(QUEUE_LEASE_MS)
        );
        self.select(query, |row| {
            type Columns = (String, i64, i64, i64, i64, bool, Option<String>);
            let (queue, next_offset, generation, owner, until, leased, address): Columns = from_row_opt(row)?;
            let holder = match owner {
                RETIRED => Holder::Retired { at: UnixMs(unsigned(until)) },
                0 => Holder::Nobody,
                _ if !leased => Holder::Nobody,
                _ => Holder::Server(address.unwrap_or_default()),
            };
            let [next_offset, generation] = [next_offset, generation].map(unsigned);
            Ok(QueueRow { queue, next_offset, generation, holder })
        })
    }

    /// Retires a queue, if it stands as it was read and no server reads it. Whether it is retired now.
    ///
    /// # Errors
    /// See [`LedgerError`].
    pub fn retire_queue(&mut self, row: &QueueRow) -> Result<bool, LedgerError> {
        let [next_offset, generation] = [row.next_offset, row.generation].map(int);
        self.attempt(|session, _| {
            session.check_format()?;
            let connection = &mut session.connection;
            // Once more after a lost answer it finds the queue retired already. The next generation fences whoever read it.
            connection.exec_drop(
                format!(
                    "UPDATE queue_offsets SET owner = {RETIRED}, leased_until = {DB_NOW}, generation = generation + 1 \
                     WHERE queue = ? AND next_offset = ? AND generation = ? AND owner <> {RETIRED} \
                     AND (owner = 0 OR {})",
                    is_over(QUEUE_LEASE_MS)
                ),
                (&row.queue, next_offset, generation),
            )?;
            let owner: Option<i64> =
                connection.exec_first("SELECT owner FROM queue_offsets WHERE queue = ?", (&row.queue,))?;
            Ok(owner == Some(RETIRED))
        })
    }
}
