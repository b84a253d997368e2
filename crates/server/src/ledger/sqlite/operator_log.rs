//! Reading what operators did.

use rusqlite::{Connection, params};

use super::OpenError;
use super::replay::{nonsense, unsigned};
use crate::ledger::operator_log::{LOOKED_AT_MAX, OperatorLog, OperatorLogAsked};
use crate::ledger::rows::{OPERATED, int};

/// One page, the latest first.
///
/// # Errors
/// See [`OpenError`].
pub(in crate::ledger) fn operator_log(
    connection: &Connection,
    asked: &OperatorLogAsked,
) -> Result<OperatorLog, OpenError> {
    const LOOKED_AT: &str = "SELECT * FROM further_entries WHERE seq < ?1 ORDER BY seq DESC LIMIT ?2";
    let [before, looked_at, max] = [asked.before.min(i64::MAX as u64), LOOKED_AT_MAX, asked.max].map(int);
    let bound = format!("SELECT coalesce(min(seq), 0), count(*) FROM ({LOOKED_AT})");
    let bound = connection
        .query_row(&bound, params![before, looked_at], |row| Ok((unsigned(row, 0)?, unsigned(row, 1)?)))?;
    let rows = format!(
        "SELECT seq, at, body FROM ({LOOKED_AT}) WHERE kind = '{OPERATED}' ORDER BY seq DESC LIMIT ?3"
    );
    let mut rows = connection.prepare(&rows)?;
    let rows = rows.query_map(params![before, looked_at, max], |row| {
        Ok((unsigned(row, 0)?, unsigned(row, 1)?, row.get(2)?))
    })?;
    let page = OperatorLog::of(asked, rows.collect::<Result<_, _>>()?, bound);
    Ok(page.map_err(|error| nonsense(2, error))?)
}
