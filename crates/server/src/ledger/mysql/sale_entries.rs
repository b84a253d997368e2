//! Reading what became of sales, beside a server.

use engine::{Entry, SaleId, Seq, UnixMs};
use mysql::prelude::Queryable;

use super::{OpenError, Options, open_reader};
use crate::ledger::mysql::sql::unsigned;
use crate::ledger::rows::{int, sale_event};

/// The entries about sales after an entry.
///
/// # Errors
/// See [`OpenError`].
pub(in crate::ledger) fn sale_entries(options: &Options, after: Seq) -> Result<Vec<Entry>, OpenError> {
    let mut connection = open_reader(options)?;
    let query = "SELECT seq, at, sale, kind, body FROM sale_events WHERE seq > ? ORDER BY seq";
    let rows: Vec<(i64, i64, i64, String, String)> = connection.exec(query, (int(after.0),))?;
    let entry = |(seq, at, sale, kind, body): (i64, i64, i64, String, String)| {
        let event = sale_event(SaleId(unsigned(sale)), &kind, &body)?;
        Ok(Entry { seq: Seq(unsigned(seq)), at: UnixMs(unsigned(at)), event })
    };
    rows.into_iter().map(entry).collect()
}
