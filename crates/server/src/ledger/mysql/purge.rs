//! Removing what names a person once its time is over: the addresses of orders, and messages whole.
//!
//! As in SQLite: times grow with the sequence, so what is due lies at the old end of each table, and a look goes
//! through a bounded number of rows also when nothing is due. The server's binlogs keep what was removed until they
//! expire.

use mysql::Conn;
use mysql::prelude::Queryable;

/// What is due: the last row's number of each table, if any, and how many rows there are.
pub(super) struct Due {
    order: Option<i64>,
    message: Option<i64>,
    pub(super) rows: u32,
}

impl Due {
    pub(super) fn find(connection: &mut Conn, cutoff: i64, max: u32) -> Result<Due, mysql::Error> {
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
    pub(super) fn statements(&self) -> Vec<String> {
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
