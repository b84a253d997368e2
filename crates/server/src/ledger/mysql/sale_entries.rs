//! The rows of what became of sales: a server follows the sales by them, and whoever reads beside it.
//!
//! Every transaction of a cluster reads those that came since, under the lock, so what a connection knows of the sales is never
//! behind the ledger while it is used.

use engine::{Entry, SaleId, Seq, UnixMs};
use mysql::prelude::Queryable;
use mysql::{FromRowError, Row};

use super::{OpenError, Options, open_reader};
use crate::ledger::RowError;
use crate::ledger::mysql::sql::unsigned;
use crate::ledger::rows::sale_event;

/// The statement that reads the entries about sales after an entry.
pub(super) fn entries_after(seq: Seq) -> String {
    format!("SELECT seq, at, sale, kind, body FROM sale_events WHERE seq > {} ORDER BY seq", seq.0)
}

/// One of its rows.
pub(super) fn sale_entry<E: From<FromRowError> + From<RowError>>(row: Row) -> Result<Entry, E> {
    let (seq, at, sale, kind, body): (i64, i64, i64, String, String) = mysql::from_row_opt(row)?;
    let event = sale_event(SaleId(unsigned(sale)), &kind, &body)?;
    Ok(Entry { seq: Seq(unsigned(seq)), at: UnixMs(unsigned(at)), event })
}

/// The entries about sales after an entry.
///
/// # Errors
/// See [`OpenError`].
pub(in crate::ledger) fn sale_entries(options: &Options, after: Seq) -> Result<Vec<Entry>, OpenError> {
    let rows: Vec<Row> = open_reader(options)?.query(entries_after(after))?;
    rows.into_iter().map(sale_entry).collect()
}
