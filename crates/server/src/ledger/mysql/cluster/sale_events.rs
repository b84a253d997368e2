//! The rows from which a server follows the sales. Every transaction reads those that came since, under the lock, so
//! what a connection knows of the sales is never behind the ledger while it is used.

use engine::{Entry, SaleId, Seq, UnixMs};
use mysql::Row;

use super::session::Failure;
use crate::ledger::mysql::sql::unsigned;
use crate::ledger::rows as codes;

/// The statement that reads the events about sales after an entry.
pub(super) fn events_after(seq: Seq) -> String {
    format!("SELECT seq, at, sale, kind, body FROM sale_events WHERE seq > {} ORDER BY seq", seq.0)
}

/// A row of `sale_events` as an entry.
pub(super) fn sale_entry(row: Row) -> Result<Entry, Failure> {
    let (seq, at, sale, kind, body): (i64, i64, i64, String, String) = mysql::from_row_opt(row)?;
    let event = codes::sale_event(SaleId(unsigned(sale)), &kind, &body)?;
    Ok(Entry { seq: Seq(unsigned(seq)), at: UnixMs(unsigned(at)), event })
}
