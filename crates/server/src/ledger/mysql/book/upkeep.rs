//! What is done beside the orders: addresses whose time is over, or whose buyer was erased.

use std::time::Duration;

use engine::UnixMs;

use super::MySqlLedger;
use crate::ledger::AppendError;
use crate::ledger::mysql::OpenError;
use crate::ledger::mysql::erase::Portion;
use crate::ledger::mysql::purge::Due;
use crate::ledger::rows::int;

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

    /// Goes on with the addresses of buyers who were erased; returns how many orders it went through. At most `max`; if it is
    /// `max`, more may wait.
    ///
    /// # Errors
    /// As [`MySqlLedger::append`]; to do it again after an unknown outcome changes nothing.
    pub fn erase_addresses(&mut self, max: u32) -> Result<u32, AppendError> {
        let connection = self.connected().map_err(OpenError::from);
        let portion = connection.and_then(|connection| Portion::find::<OpenError>(connection, max));
        let portion = portion.map_err(|error| {
            self.connection = None;
            AppendError::RolledBack(error.into())
        })?;
        let Some(portion) = portion else { return Ok(0) };
        self.transaction(self.next_seq, UnixMs(self.last_at), Duration::ZERO, |script| {
            for statement in &portion.statements {
                script.push(statement);
            }
        })?;
        portion.report();
        Ok(portion.orders)
    }
}
