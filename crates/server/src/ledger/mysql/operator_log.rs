//! Reading what operators did.

use mysql::prelude::Queryable;

use super::{OpenError, Options, open_reader};
use crate::ledger::mysql::sql::unsigned;
use crate::ledger::operator_log::{OperatorLog, OperatorLogAsked};
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
    let query = format!(
        "SELECT seq, at, body FROM further_entries FORCE INDEX (kinds) WHERE kind = '{OPERATED}' AND seq < {} \
         ORDER BY seq DESC LIMIT {}",
        int(asked.before.min(i64::MAX as u64)),
        asked.max
    );
    let rows: Vec<(i64, i64, Vec<u8>)> = connection.query(query)?;
    let rows = rows.into_iter().map(|(seq, at, body)| (unsigned(seq), unsigned(at), body)).collect();
    Ok(OperatorLog::of(asked, rows)?)
}
