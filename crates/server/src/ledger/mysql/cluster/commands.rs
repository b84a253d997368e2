//! Everything that is not placing: what operators, buyers and payment providers ask for, in one transaction.

use engine::rules::Declined;
use engine::working_set::{Executed, Needs, Operation};
use engine::{Accepted, Command, UnixMs};
use mysql::prelude::Queryable;

use super::leases::DB_NOW;
use super::lookup::kept_addresses;
use super::operators::operators;
use super::session::Failure;
use super::transaction::Transaction;
use super::{LedgerError, OPERATIONS_MAX, SharedLedger};
use crate::ledger::mysql::sql::unsigned;

/// How far the database's clock may be past the time by which a correction before a start is judged, once it has the lock. A
/// server that was stopped meanwhile, or waited, judges by a time that is over.
const CORRECTED_WITHIN_MS: u64 = 10_000;

impl SharedLedger {
    /// Carries operations out one after the other, in one transaction. Returns what each came to.
    ///
    /// # Errors
    /// See [`LedgerError`].
    ///
    /// # Panics
    /// If there are more than [`OPERATIONS_MAX`].
    pub fn execute(&mut self, now: UnixMs, operations: &[Operation]) -> Result<Vec<Executed>, LedgerError> {
        assert!(operations.len() <= OPERATIONS_MAX, "a batch is bounded by whoever makes it");
        let executed = self.transact(now, |transaction| {
            read(transaction, operations)?;
            if operations.iter().any(Operation::is_correction) && is_over(transaction, now)? {
                return Ok(None);
            }
            Ok(Some(operations.iter().map(|operation| transaction.set.execute(operation)).collect()))
        })?;
        // An attempt before this one may have been stored.
        let late =
            "a correction came to the ledger's lock late, or the database's clock is ahead of this server's";
        executed.ok_or_else(|| LedgerError::Unknown(late.into()))
    }

    /// Carries operations out in one transaction, all of them or none. They may be as many as a sale has items.
    ///
    /// # Errors
    /// See [`LedgerError`]. The answer may be what kept one of them from being carried out, and so all.
    ///
    /// # Panics
    /// If there are more than [`engine::limits::ITEMS_MAX`].
    pub fn execute_all(
        &mut self,
        now: UnixMs,
        operations: &[Operation],
    ) -> Result<Result<Vec<Accepted>, Declined>, LedgerError> {
        assert!(operations.len() <= engine::limits::ITEMS_MAX, "a batch is bounded by whoever makes it");
        self.transact(now, |transaction| {
            read(transaction, operations)?;
            Ok(transaction.set.execute_all(operations))
        })
    }
}

fn is_over(transaction: &mut Transaction<'_>, now: UnixMs) -> Result<bool, Failure> {
    let at: Option<i64> = transaction.session.connection.query_first(format!("SELECT {DB_NOW}"))?;
    Ok(unsigned(at.unwrap_or_default()) > now.plus(CORRECTED_WITHIN_MS).0)
}

/// Reads in two steps: the second is for what only the first can show, such as whose units a late payment takes.
fn read(transaction: &mut Transaction<'_>, operations: &[Operation]) -> Result<(), Failure> {
    transaction.read(Needs::of_operations(operations))?;
    let needs = transaction.set.needs_further(operations);
    transaction.read(needs)?;
    let about_operators = |operation: &Operation| {
        matches!(operation.command(), Command::AddOperator(_) | Command::RevokeOperator(_))
    };
    if operations.iter().any(about_operators) {
        let operators = operators(transaction.session)?;
        transaction.set.load_operators(operators);
    }
    let addressed = operations.iter().filter_map(|operation| match operation.command() {
        Command::Address { order, .. } => Some(*order),
        _ => None,
    });
    let addressed: Vec<_> = addressed.collect();
    for (order, kept) in kept_addresses(transaction.session, &addressed)? {
        transaction.set.load_address(order, kept);
    }
    Ok(())
}
