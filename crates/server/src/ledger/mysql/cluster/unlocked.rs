//! What reconciliation and the audit look at beside orders and stock: how far the queues were taken in, what waits
//! for the gate, and whether an adjustment was made. Nothing here takes the writer's lock.

use engine::SkuId;
use mysql::from_row_opt;
use mysql::prelude::Queryable;

use super::{LedgerError, SharedLedger};
use crate::intake::EngineSettings;
use crate::ledger::mysql::connect::ask;
use crate::ledger::mysql::sql::{quoted, unsigned};
use crate::ledger::rows::int;

impl SharedLedger {
    /// How far each queue was taken in: its name and the offset of its next message.
    ///
    /// # Errors
    /// See [`LedgerError`].
    pub fn queue_offsets(&mut self) -> Result<Vec<(String, u64)>, LedgerError> {
        self.select("SELECT queue, next_offset FROM queue_offsets".to_owned(), |row| {
            let (queue, offset): (String, i64) = from_row_opt(row)?;
            Ok((queue, unsigned(offset)))
        })
    }

    /// Reads a queue again from an earlier offset, if it is still this owner's: its broker has lost what came after.
    ///
    /// # Errors
    /// See [`LedgerError`].
    pub fn rewind_queue(
        &mut self,
        queue: &str,
        owner: u64,
        generation: u64,
        to: u64,
    ) -> Result<(), LedgerError> {
        let [owner, generation, to] = [owner, generation, to].map(int);
        let mut text = format!(
            "UPDATE queue_offsets SET next_offset = {to} WHERE owner = {owner} AND generation = {generation} \
             AND next_offset > {to} AND queue = "
        );
        quoted(&mut text, queue);
        self.select(text, |_| Ok(())).map(|_none| ())
    }

    /// Rows that wait for the gate: of one SKU, or of all.
    ///
    /// # Errors
    /// See [`LedgerError`].
    pub fn outbox_len(&mut self, sku: Option<SkuId>) -> Result<u64, LedgerError> {
        let of_sku = sku.map_or_else(String::new, |sku| format!(" WHERE sku = {}", sku.0));
        let counted = self.select(format!("SELECT COUNT(*) FROM outbox{of_sku}"), |row| {
            let (count,): (u64,) = from_row_opt(row)?;
            Ok(count)
        })?;
        Ok(counted.into_iter().sum())
    }

    /// Whether a demo may write here: its own ledger, or one that is still empty and becomes its own.
    ///
    /// # Errors
    /// See [`LedgerError`].
    pub fn is_for_demo(&mut self) -> Result<bool, LedgerError> {
        self.attempt(|session, _| {
            let connection = &mut session.connection;
            // Both in one statement: an order of another server must not come between.
            connection.query_drop(
                "INSERT IGNORE INTO meta SELECT 'demo', '1' FROM writer WHERE id = 1 AND next_seq = 1",
            )?;
            let marked: Option<u8> = connection.query_first("SELECT 1 FROM meta WHERE name = 'demo'")?;
            Ok(marked.is_some())
        })
    }

    /// What the server says of the settings that decide what a commit survives.
    ///
    /// # Errors
    /// See [`LedgerError`].
    pub fn settings(&mut self) -> Result<EngineSettings, LedgerError> {
        let server = self.server();
        let found = self.attempt(|session, _| Ok(ask(&mut session.connection)?))?;
        Ok(found.settings(server))
    }

    /// Whether the stock of a SKU was adjusted under this key.
    ///
    /// # Errors
    /// See [`LedgerError`].
    pub fn has_adjustment(&mut self, sku: SkuId, key: &str) -> Result<bool, LedgerError> {
        let mut query = format!("SELECT 1 FROM stock_adjustments WHERE sku = {} AND `key` = ", sku.0);
        quoted(&mut query, key);
        Ok(!self.select(query, |_| Ok(()))?.is_empty())
    }
}
