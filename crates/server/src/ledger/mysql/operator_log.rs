//! Reading what operators did.

use mysql::prelude::Queryable;

use super::{OpenError, Options, open_reader};
use crate::ledger::mysql::sql::unsigned;
use crate::ledger::operator_log::{LOOKED_AT_MAX, OperatorLog, OperatorLogAsked};
use crate::ledger::rows::{OPERATED, int};

/// One page, the latest first.
///
/// # Errors
/// See [`OpenError`].
pub(in crate::ledger) fn operator_log(
    options: &Options,
    asked: &OperatorLogAsked,
) -> Result<OperatorLog, OpenError> {
    let mut connection = open_reader(options)?;
    let looked_at = format!(
        "SELECT * FROM further_entries WHERE seq < {} ORDER BY seq DESC LIMIT {LOOKED_AT_MAX}",
        int(asked.before.min(i64::MAX as u64))
    );
    let bound = format!("SELECT COALESCE(MIN(seq), 0), COUNT(*) FROM ({looked_at}) AS f");
    let bound: Option<(i64, i64)> = connection.query_first(bound)?;
    let (oldest, entries) = bound.unwrap_or_default();
    let rows = format!(
        "SELECT seq, at, body FROM ({looked_at}) AS f WHERE kind = '{OPERATED}' ORDER BY seq DESC LIMIT {}",
        asked.max
    );
    let rows: Vec<(i64, i64, Vec<u8>)> = connection.query(rows)?;
    let rows = rows.into_iter().map(|(seq, at, body)| (unsigned(seq), unsigned(at), body)).collect();
    Ok(OperatorLog::of(asked, rows, (unsigned(oldest), unsigned(entries)))?)
}
