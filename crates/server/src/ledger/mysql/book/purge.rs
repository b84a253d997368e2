//! Removing what names a person once its time is over: the addresses of orders, and messages whole.
//!
//! As in SQLite: times grow with the sequence, so what is due lies at the old end of each table, and a look goes
//! through a bounded number of rows also when nothing is due. The server's binlogs keep what was removed until they
//! expire.

use std::time::Duration;

use engine::UnixMs;
use mysql::Conn;
use mysql::prelude::Queryable;

use super::MySqlLedger;
use crate::ledger::AppendError;
use crate::ledger::rows::int;

/// What is due: the last row's number of each table, if any, and how many rows there are.
pub(in crate::ledger::mysql) struct Due {
    order: Option<i64>,
    message: Option<i64>,
    pub(in crate::ledger::mysql) rows: u32,
}

impl Due {
    pub(in crate::ledger::mysql) fn find(
        connection: &mut Conn,
        cutoff: i64,
        max: u32,
    ) -> Result<Due, mysql::Error> {
        let done_to: Option<i64> = connection
            .query_first("SELECT CAST(value AS SIGNED) FROM meta WHERE name = 'addresses_purged_to'")?;
        let due = |found: Option<(Option<i64>, u32)>| found.unwrap_or_default();
        // The limit stands inside: outside of the filter it would let the server look through every order. A clock that
        // was corrected since has moved the order's time, too.
        let (order, orders) = due(connection.exec_first(
            "SELECT MAX(seq), COUNT(*) FROM \
             (SELECT seq, at FROM orders WHERE seq > ? ORDER BY seq LIMIT ?) AS oldest \
             WHERE at + (SELECT COALESCE(SUM(JSON_EXTRACT(CONVERT(f.body USING utf8mb4), '$.to_ms') \
                                             - JSON_EXTRACT(CONVERT(f.body USING utf8mb4), '$.from_ms')), 0) \
                         FROM further_entries AS f \
                         WHERE f.seq > oldest.seq AND f.kind = 'clock_corrected') < ?",
            (done_to.unwrap_or(0), max, cutoff),
        )?);
        let (message, messages) = due(connection.exec_first(
            "SELECT MAX(id), COUNT(*) FROM \
             (SELECT id, at FROM messages ORDER BY id LIMIT ?) AS oldest WHERE at < ?",
            (max - orders, cutoff),
        )?);
        Ok(Due { order, message, rows: orders + messages })
    }

    /// What removes it. To do so again changes nothing.
    pub(in crate::ledger::mysql) fn statements(&self) -> Vec<String> {
        let mut statements = Vec::new();
        if let Some(last) = self.order {
            statements.push(format!(
                "UPDATE orders SET address = NULL WHERE seq > COALESCE((SELECT CAST(value AS SIGNED) FROM meta \
                 WHERE name = 'addresses_purged_to'), 0) AND seq <= {last} AND address IS NOT NULL"
            ));
            statements.push(format!("REPLACE INTO meta VALUES ('addresses_purged_to', '{last}')"));
        }
        if let Some(last) = self.message {
            statements.push(format!("DELETE FROM messages WHERE id <= {last}"));
        }
        statements
    }
}

impl MySqlLedger {
    /// Removes addresses of orders placed before `cutoff_ms`, and messages from before it; returns how many of
    /// both it went through. At most `max`; if it is `max`, more may wait.
    ///
    /// # Errors
    /// As [`MySqlLedger::append`]; to do it again after an unknown outcome changes nothing.
    pub fn purge_addresses(&mut self, cutoff_ms: u64, max: u32) -> Result<u32, AppendError> {
        let connection = self.connected();
        let due = connection.and_then(|connection| Due::find(connection, int(cutoff_ms), max));
        let due = due.map_err(|error| {
            self.connection = None;
            AppendError::RolledBack(error.into())
        })?;
        let removals = due.statements();
        if removals.is_empty() {
            return Ok(0);
        }
        self.transaction(self.next_seq, UnixMs(self.last_at), Duration::ZERO, |statements| {
            for removal in &removals {
                statements.push(removal);
            }
        })?;
        Ok(due.rows)
    }
}
