//! Removing the addresses of buyers who were erased, a portion of the orders at a time.

use rusqlite::{Connection, OptionalExtension, params, params_from_iter};

use super::SqliteLedger;
use super::append::classify;
use super::buyer::BuyerColumn;
use super::replay::nonsense;
use crate::ledger::AppendError;
use crate::ledger::erasing::{BUYERS_MAX, PASS_AT, PASS_TO, Pass, WAITING_FROM, WAITING_TO};
use crate::ledger::rows::ADDRESSES_PURGED_TO;

impl SqliteLedger {
    /// Goes on with the addresses of buyers who were erased; returns how many orders it went through. At most `max`; if it is
    /// `max`, more may wait.
    ///
    /// # Errors
    /// As [`SqliteLedger::append`].
    pub fn erase_addresses(&mut self, max: u32) -> Result<u32, AppendError> {
        let result = erase(&self.connection, max);
        if result.is_err() && !self.connection.is_autocommit() {
            let rolled_back = self.connection.execute_batch("ROLLBACK");
            tracing::warn!(?rolled_back, "erasing addresses failed");
        }
        if matches!(result, Ok(looked_at) if looked_at > 0) {
            self.checkpointer.hurry();
        }
        result.map_err(classify)
    }
}

fn erase(connection: &Connection, max: u32) -> Result<u32, rusqlite::Error> {
    let waiting: Vec<(String, String)> = connection
        .prepare_cached("SELECT name, value FROM meta WHERE name >= ?1 AND name < ?2 ORDER BY name LIMIT ?3")?
        .query_map(params![WAITING_FROM, WAITING_TO, BUYERS_MAX], |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect::<Result<_, _>>()?;
    if waiting.is_empty() {
        return Ok(0);
    }
    let number = |name: &str| -> Result<Option<i64>, rusqlite::Error> {
        connection
            .prepare_cached("SELECT value FROM meta WHERE name = ?1")?
            .query_row([name], |row| row.get(0))
            .optional()
    };
    let pass = Pass::of(&waiting, number(PASS_TO)?).map_err(|error| nonsense(1, error))?;
    let Some(pass) = pass else { return Ok(0) };
    let from = number(PASS_AT)?.or(number(ADDRESSES_PURGED_TO)?).unwrap_or(0);
    let (last, looked_at): (Option<i64>, u32) = connection
        .prepare_cached(
            "SELECT max(seq), count(*) FROM
             (SELECT seq FROM orders WHERE seq > ?1 AND seq < ?2 ORDER BY seq LIMIT ?3)",
        )?
        .query_row(params![from, pass.to, max], |row| Ok((row.get(0)?, row.get(1)?)))?;
    connection.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
    if let Some(last) = last {
        let holes = vec!["?"; pass.buyers.len()].join(",");
        let update = format!(
            "UPDATE orders SET address = NULL
             WHERE seq > {from} AND seq <= {last} AND address IS NOT NULL AND buyer IN ({holes})"
        );
        connection.execute(&update, params_from_iter(pass.buyers.iter().map(|buyer| BuyerColumn(*buyer))))?;
    }
    if let (Some(last), true) = (last, looked_at == max) {
        let mut note = connection.prepare_cached("INSERT OR REPLACE INTO meta VALUES (?1, ?2)")?;
        note.execute(params![PASS_AT, last])?;
        note.execute(params![PASS_TO, pass.to])?;
    } else {
        let done = &waiting[pass.buyers.len() - 1].0;
        connection
            .prepare_cached("DELETE FROM meta WHERE name IN (?1, ?2) OR (name >= ?3 AND name <= ?4)")?
            .execute(params![PASS_AT, PASS_TO, WAITING_FROM, done])?;
        tracing::info!(buyers = pass.buyers.len(), "the addresses of erased buyers are gone");
    }
    connection.prepare_cached("COMMIT")?.execute([])?;
    Ok(looked_at)
}
