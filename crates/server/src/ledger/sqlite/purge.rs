//! Removing what names a person once its time is over: the addresses of orders, and messages whole.
//!
//! Times grow with the sequence but for the clock's corrections, so what is due lies at the old end of each table. The writer's thread pays for
//! a look, so a look goes through a bounded number of rows also when nothing is due.

use rusqlite::{Connection, params};

use super::SqliteLedger;
use super::append::classify;
use crate::ledger::AppendError;
use crate::ledger::rows::int;

impl SqliteLedger {
    /// Removes addresses of orders placed before `cutoff_ms`, and messages from before it; returns how many of
    /// both it went through. At most `max`; if it is `max`, more may wait.
    ///
    /// # Errors
    /// As [`SqliteLedger::append`].
    pub fn purge_addresses(&mut self, cutoff_ms: u64, max: u32) -> Result<u32, AppendError> {
        let result = purge(&self.connection, cutoff_ms, max);
        if result.is_err() && !self.connection.is_autocommit() {
            let rolled_back = self.connection.execute_batch("ROLLBACK");
            tracing::warn!(?rolled_back, "a purge of addresses failed");
        }
        if matches!(result, Ok(purged) if purged > 0) {
            self.checkpointer.hurry();
        }
        result.map_err(classify)
    }
}

fn purge(connection: &Connection, cutoff_ms: u64, max: u32) -> Result<u32, rusqlite::Error> {
    const DONE_TO: &str = "SELECT coalesce((SELECT value FROM meta WHERE name = 'addresses_purged_to'), 0)";
    // The limit stands inside: outside of the filter it would let SQLite look through every order for one
    // that is due.
    // A clock that was corrected since has moved the order's time, too.
    const DUE: &str = "SELECT max(seq), count(*) FROM
        (SELECT seq, at FROM orders WHERE seq > ?1 ORDER BY seq LIMIT ?3) AS o
        WHERE at + (SELECT coalesce(sum(CAST(body AS TEXT) ->> 'to_ms' - CAST(body AS TEXT) ->> 'from_ms'), 0)
                    FROM further_entries AS f WHERE f.seq > o.seq AND kind = 'clock_corrected') < ?2";
    const MESSAGES_DUE: &str = "SELECT max(id), count(*) FROM
        (SELECT id, at FROM messages ORDER BY id LIMIT ?2) WHERE at < ?1";
    let done_to: i64 = connection.prepare_cached(DONE_TO)?.query_row([], |row| row.get(0))?;
    let found = |row: &rusqlite::Row<'_>| Ok((row.get::<_, Option<i64>>(0)?, row.get::<_, u32>(1)?));
    let cutoff = int(cutoff_ms);
    let (last_order, orders) =
        connection.prepare_cached(DUE)?.query_row(params![done_to, cutoff, max], found)?;
    let (last_message, messages) =
        connection.prepare_cached(MESSAGES_DUE)?.query_row(params![cutoff, max - orders], found)?;
    if last_order.is_none() && last_message.is_none() {
        return Ok(0);
    }
    connection.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
    if let Some(last) = last_order {
        connection
            .prepare_cached(
                "UPDATE orders SET address = NULL WHERE seq > ?1 AND seq <= ?2 AND address IS NOT NULL",
            )?
            .execute([done_to, last])?;
        connection
            .prepare_cached("INSERT OR REPLACE INTO meta (name, value) VALUES ('addresses_purged_to', ?1)")?
            .execute([last])?;
    }
    if let Some(last) = last_message {
        connection.prepare_cached("DELETE FROM messages WHERE id <= ?1")?.execute([last])?;
    }
    connection.prepare_cached("COMMIT")?.execute([])?;
    Ok(orders + messages)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    const ROWS: u32 = 20_000;

    fn filled() -> Connection {
        let connection = Connection::open_in_memory().unwrap();
        for script in super::super::migrate::MIGRATIONS {
            connection.execute_batch(script).unwrap();
        }
        let rows =
            format!("WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {ROWS})");
        for insert in [
            "INSERT INTO orders SELECT i, 1000 + i, 0, x'00', 1, 1, 1, 1, x'41' FROM n",
            "INSERT INTO messages SELECT i, 1000 + i, x'41' FROM n",
        ] {
            connection.execute(&format!("{rows} {insert}"), []).unwrap();
        }
        connection
    }

    /// Steps of SQLite's machine that one purge takes.
    fn steps(connection: &mut Connection, cutoff_ms: u64, max: u32) -> u64 {
        let count = Arc::new(AtomicU64::new(0));
        let counter = Arc::clone(&count);
        let step = move || {
            counter.fetch_add(1, Ordering::Relaxed);
            false
        };
        connection.progress_handler(1, Some(step)).unwrap();
        purge(connection, cutoff_ms, max).unwrap();
        connection.progress_handler(0, None::<fn() -> bool>).unwrap();
        count.load(Ordering::Relaxed)
    }

    #[test]
    fn a_look_costs_the_same_however_many_orders_are_not_due() {
        let mut connection = filled();
        for cutoff_ms in [0, 1_001, 1_005] {
            let steps = steps(&mut connection, cutoff_ms, 10);
            assert!(steps < 1_000, "{steps} steps for 10 rows of {ROWS}, cutoff {cutoff_ms}");
        }
    }

    #[test]
    fn orders_and_messages_go_in_portions_and_only_what_is_due() {
        let connection = filled();
        let mut portions = Vec::new();
        loop {
            portions.push(purge(&connection, 1_026, 10).unwrap());
            if portions.last() < Some(&10) {
                break;
            }
        }
        assert_eq!(portions, [10; 5].into_iter().chain([0]).collect::<Vec<_>>());
        let count = |query: &str| connection.query_row(query, [], |row| row.get::<_, u32>(0)).unwrap();
        assert_eq!(count("SELECT count(*) FROM orders WHERE address IS NULL"), 25);
        assert_eq!(count("SELECT max(seq) FROM orders WHERE address IS NULL"), 25);
        assert_eq!(count("SELECT count(*) FROM messages"), ROWS - 25);
        assert_eq!(count("SELECT min(id) FROM messages"), 26);
    }
}
