//! What is done beside the orders: addresses whose time is over, or whose buyer was erased.

use engine::UnixMs;
use engine::working_set::Needs;

use super::session::Failure;
use super::{LedgerError, SharedLedger};
use crate::ledger::mysql::erase::Portion;
use crate::ledger::mysql::purge::Due;
use crate::ledger::rows::int;

impl SharedLedger {
    /// Removes addresses of orders placed before `cutoff`, and messages from before it; returns how many of both it
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

    /// Goes on with the addresses of buyers who were erased; returns how many orders it went through. At most `max`; if it is
    /// `max`, more may wait.
    ///
    /// # Errors
    /// See [`LedgerError`].
    pub fn erase_addresses(&mut self, max: u32) -> Result<u32, LedgerError> {
        // A look without the writer's lock first: most find nothing.
        if self.attempt(|session, _| Portion::find(&mut session.connection, 0))?.is_none() {
            return Ok(0);
        }
        let portion = self.transact(UnixMs(0), |transaction| {
            transaction.read(Needs::default())?;
            let portion = Portion::find::<Failure>(&mut transaction.session.connection, max)?;
            if let Some(portion) = &portion {
                transaction.more.clone_from(&portion.statements);
            }
            Ok(portion)
        })?;
        Ok(portion.map_or(0, |portion| {
            portion.report();
            portion.orders
        }))
    }
}
