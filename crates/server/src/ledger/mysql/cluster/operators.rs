//! Who may: read by every server, again and again, and under the lock by whoever changes it.

use engine::{Operator, Operators};
use mysql::from_row_opt;
use mysql::prelude::Queryable;

use super::session::{Failure, Session};
use super::{LedgerError, SharedLedger};
use crate::ledger::mysql::entries::OPERATOR_PREFIX;
use crate::ledger::rows::operator;

fn query() -> String {
    format!("SELECT value FROM meta WHERE name LIKE '{OPERATOR_PREFIX}%'")
}

fn parse(row: mysql::Row) -> Result<Operator, Failure> {
    let (body,): (Vec<u8>,) = from_row_opt(row)?;
    Ok(operator(&body)?)
}

/// In a transaction.
pub(super) fn operators(session: &mut Session) -> Result<Operators, Failure> {
    let rows: Vec<mysql::Row> = session.connection.query(query())?;
    Ok(Operators::new(rows.into_iter().map(parse).collect::<Result<_, _>>()?))
}

impl SharedLedger {
    /// # Errors
    /// See [`LedgerError`].
    pub fn operators(&mut self) -> Result<Operators, LedgerError> {
        Ok(Operators::new(self.select(query(), parse)?))
    }
}
