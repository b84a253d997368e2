//! What is done beside the orders: addresses whose time is over, dead letters that were given back, rejections.

use engine::UnixMs;
use engine::working_set::Needs;
use mysql::from_row_opt;
use mysql::prelude::Queryable;

use super::sql::{quoted, unsigned};
use super::{LedgerError, SharedLedger};
use crate::ledger::mysql::book::purge::Due;
use crate::ledger::rows::int;

impl SharedLedger {
    /// Removes addresses of orders placed before `cutoff`, and messages of before it; returns how many of both it
    /// went through. At most `max`; if it is `max`, more may wait.
    ///
    /// # Errors
    /// See [`LedgerError`].
    pub fn purge_addresses(&mut self, cutoff: UnixMs, max: u32) -> Result<u32, LedgerError> {
        // A look without the writer's lock first: most find nothing.
        let first = self.attempt(|session, _| Ok(Due::find(&mut session.connection, int(cutoff.0), 1)?))?;
        if first.rows == 0 {
            return Ok(0);
        }
        self.transact(UnixMs(0), |transaction| {
            transaction.read(Needs::default())?;
            let due = Due::find(&mut transaction.session.connection, int(cutoff.0), max)?;
            transaction.more = due.statements();
            Ok(due.rows)
        })
    }

    /// Notes that a dead letter was given back to its queue. To be called after it was sent: one that is sent twice is
    /// only known, one that is noted and not sent would be lost.
    ///
    /// # Errors
    /// See [`LedgerError`].
    pub fn letter_replayed(&mut self, queue: &str, offset: u64, at: UnixMs) -> Result<(), LedgerError> {
        let mut text =
            "INSERT IGNORE INTO dead_letters_replayed (queue, letter_offset, at) VALUES (".to_owned();
        quoted(&mut text, queue);
        text.push_str(&format!(",{},{})", int(offset), int(at.0)));
        self.attempt(|session, _| Ok(session.connection.query_drop(&text)?))
    }

    /// The dead letters of a queue that were given back, by their offsets.
    ///
    /// # Errors
    /// See [`LedgerError`].
    pub fn letters_replayed(&mut self, queue: &str) -> Result<Vec<u64>, LedgerError> {
        let mut text = "SELECT letter_offset FROM dead_letters_replayed WHERE queue = ".to_owned();
        quoted(&mut text, queue);
        text.push_str(" ORDER BY letter_offset");
        self.select(text, |row| {
            let (offset,): (i64,) = from_row_opt(row)?;
            Ok(unsigned(offset))
        })
    }

    /// How many orders the gate had let in and the ledger could not take.
    ///
    /// # Errors
    /// See [`LedgerError`].
    pub fn rejections_len(&mut self) -> Result<u64, LedgerError> {
        let rows = self.select("SELECT COUNT(*) FROM rejections".to_owned(), |row| {
            let (count,): (u64,) = from_row_opt(row)?;
            Ok(count)
        })?;
        Ok(rows.into_iter().sum())
    }
}
