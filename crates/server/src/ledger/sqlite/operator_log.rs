//! Reading what operators did.

use rusqlite::{Connection, params};

use super::OpenError;
use super::replay::{nonsense, unsigned};
use crate::ledger::operator_log::{OperatorLog, OperatorLogAsked};
use crate::ledger::rows::{OPERATED, int};

/// One page, the latest first.
///
/// # Errors
/// See [`OpenError`].
pub(in crate::ledger) fn operator_log(
    connection: &Connection,
    asked: &OperatorLogAsked,
) -> Result<OperatorLog, OpenError> {
    let query = format!(
        "SELECT seq, at, body FROM further_entries INDEXED BY operated WHERE kind = '{OPERATED}' AND seq < ?1 \
         ORDER BY seq DESC LIMIT ?2"
    );
    let [before, max] = [asked.before.min(i64::MAX as u64), asked.max].map(int);
    let mut rows = connection.prepare(&query)?;
    let rows =
        rows.query_map(params![before, max], |row| Ok((unsigned(row, 0)?, unsigned(row, 1)?, row.get(2)?)))?;
    let page = OperatorLog::of(asked, rows.collect::<Result<_, _>>()?);
    Ok(page.map_err(|error| nonsense(2, error))?)
}
