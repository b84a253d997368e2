//! Holds that were not paid in time.

use engine::working_set::{Needs, WorkingSet};
use engine::{OrderId, UnixMs};
use mysql::from_row_opt;
use mysql::prelude::Queryable;

use super::session::Failure;
use super::{LedgerError, OPERATIONS_MAX, SharedLedger};
use crate::ledger::mysql::sql::id_of;
use crate::ledger::rows::{self, int};

impl SharedLedger {
    /// Expires at most `max` holds whose time is over, those that were due first; their units are on sale again.
    /// Returns their orders.
    ///
    /// # Errors
    /// See [`LedgerError`].
    pub fn expire_due(&mut self, now: UnixMs, max: usize) -> Result<Vec<OrderId>, LedgerError> {
        let max = max.min(OPERATIONS_MAX);
        // Most looks find nothing, and every order waits for the writer's lock: so the first look is without it. What it
        // saw may be old, so what is due is decided again under the lock.
        if !self.is_any_due(now)? {
            return Ok(Vec::new());
        }
        self.transact(now, |transaction| {
            transaction.read(Needs::default())?;
            let at = transaction.set.at();
            let due = format!(
                "SELECT o.sku, o.hash, o.buyer, o.buyer_high FROM (SELECT order_seq, pay_by FROM open_holds \
                 WHERE pay_by <= {} ORDER BY pay_by, order_seq LIMIT {max}) AS h \
                 JOIN orders AS o ON o.seq = h.order_seq ORDER BY h.pay_by, h.order_seq",
                int(at.0)
            );
            let rows: Vec<mysql::Row> = transaction.session.connection.query(due)?;
            let mut due = Vec::with_capacity(rows.len());
            for row in rows {
                let (sku, hash, low, high): (u32, Vec<u8>, i64, Option<i64>) = from_row_opt(row)?;
                let id = [&sku.to_be_bytes()[..], &hash].concat();
                let id = id_of(&id).ok_or_else(|| Failure::Damaged("an order's hash".to_owned()))?;
                due.push((id, rows::buyer(low, high)?));
            }
            transaction.read(Needs::of_due(&due))?;
            let due: Vec<_> = due.into_iter().map(|(id, _)| id).collect();
            transaction.set.expire(&due)?;
            Ok(due)
        })
    }

    /// Whether a hold is due at the time that a transaction would have now. One index entry and one row are read.
    fn is_any_due(&mut self, now: UnixMs) -> Result<bool, LedgerError> {
        let query = "SELECT MIN(pay_by), (SELECT latest_at FROM writer WHERE id = 1) FROM open_holds";
        let seen = self.select(query.to_owned(), |row| {
            let (earliest, last_at): (Option<i64>, i64) = from_row_opt(row)?;
            let at = WorkingSet::time(now, UnixMs(last_at.cast_unsigned()));
            Ok(earliest.is_some_and(|earliest| earliest.cast_unsigned() <= at.0))
        })?;
        Ok(seen.into_iter().any(|due| due))
    }

    /// When the next hold is due.
    ///
    /// # Errors
    /// See [`LedgerError`].
    pub fn next_deadline(&mut self) -> Result<Option<UnixMs>, LedgerError> {
        let rows = self.select("SELECT MIN(pay_by) FROM open_holds".to_owned(), |row| {
            let (at,): (Option<i64>,) = from_row_opt(row)?;
            Ok(at.map(|at| UnixMs(at.cast_unsigned())))
        })?;
        Ok(rows.into_iter().next().flatten())
    }
}
