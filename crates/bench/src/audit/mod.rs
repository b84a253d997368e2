//! The proof: what the buyers were answered against what the ledger holds.
//!
//! Reads the ledger's file by itself, read-only, while the server runs; an order is a row of `orders`. Without a
//! clean audit no scenario may print a figure. [`invariants`] reads it whole; [`receipts`] are what buyers were given;
//! [`running`] asks a server that is not ours; [`gates`] says whether anything can be measured.

pub mod gates;
pub mod invariants;
pub mod receipts;
pub mod running;

use std::path::Path;

use anyhow::ensure;
use rusqlite::{Connection, OpenFlags};

use crate::load::record::Outcomes;

/// Errors of a broken audit have this in them, wherever they were found.
pub const AUDIT_FAILED: &str = "AUDIT FAILED";

/// Rows of a ledger, counted in steps, so that a check after each run does not read millions of old rows.
#[derive(Debug)]
pub struct Ledger {
    connection: Connection,
    last_seq: i64,
    rows: u64,
}

impl Ledger {
    pub fn open(data_dir: &Path) -> rusqlite::Result<Self> {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(data_dir.join("ledger.db"), flags)?;
        connection.busy_timeout(std::time::Duration::from_secs(10))?;
        Ok(Self { connection, last_seq: i64::MIN, rows: 0 })
    }

    /// Orders now; reads only the rows that were added since the last call.
    pub fn orders(&mut self) -> rusqlite::Result<u64> {
        let (added, last_seq): (i64, Option<i64>) = self.connection.query_row(
            "SELECT count(*), max(seq) FROM orders WHERE seq > ?1",
            [self.last_seq],
            |row| Ok((row.get(0)?, row.get(1)?)),
        )?;
        self.rows += count(added);
        self.last_seq = last_seq.unwrap_or(self.last_seq);
        Ok(self.rows)
    }

    /// Orders now, every row counted again.
    pub fn orders_recounted(&self) -> rusqlite::Result<u64> {
        self.connection.query_row("SELECT count(*) FROM orders", [], |row| row.get(0)).map(count)
    }
}

fn count(rows: i64) -> u64 {
    u64::try_from(rows).expect("SQLite's count() is never negative")
}

/// What the buyers of one ledger were answered so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Answered {
    pub accepted: u64,
    /// Requests whose answer was lost: each is an order or is none.
    pub unknown: u64,
}

/// Messages that are no orders, in the table of the embedded profile.
pub fn messages(data_dir: &Path) -> rusqlite::Result<u64> {
    let Ledger { connection, .. } = Ledger::open(data_dir)?;
    connection.query_row("SELECT count(*) FROM messages", [], |row| row.get(0)).map(count)
}

impl Answered {
    pub fn add(&mut self, outcomes: &Outcomes) {
        self.accepted += outcomes.won;
        self.unknown += outcomes.unknown;
    }

    /// Cumulative on purpose: an unknown request of an earlier run may become a row during a later one.
    ///
    /// # Errors
    /// If the ledger holds an order that no buyer was answered, or lacks one that a buyer was.
    pub fn check(self, orders: u64) -> anyhow::Result<()> {
        let Self { accepted, unknown } = self;
        let most = accepted + unknown;
        ensure!(
            (accepted..=most).contains(&orders),
            "{AUDIT_FAILED}: the ledger holds {orders} orders; {accepted} were accepted and {unknown} have an unknown \
             outcome, so it must hold {accepted} to {most}"
        );
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds() {
        let answered = |accepted, unknown| Answered { accepted, unknown };
        for (answered, orders, clean) in [
            (answered(0, 0), 0, true),
            (answered(10, 0), 10, true),
            (answered(10, 0), 9, false),
            (answered(10, 0), 11, false),
            (answered(10, 2), 10, true),
            (answered(10, 2), 12, true),
            (answered(10, 2), 9, false),
            (answered(10, 2), 13, false),
        ] {
            assert_eq!(answered.check(orders).is_ok(), clean, "{answered:?} against {orders}");
        }
        assert!(answered(10, 2).check(13).unwrap_err().to_string().contains("must hold 10 to 12"));
    }

    #[test]
    fn orders_are_counted_while_another_connection_writes() {
        let folder = tempfile::tempdir().unwrap();
        let writer = Connection::open(folder.path().join("ledger.db")).unwrap();
        writer.pragma_update(None, "journal_mode", "WAL").unwrap();
        writer
            .execute_batch(
                "CREATE TABLE orders(seq INTEGER PRIMARY KEY, sku); INSERT INTO orders(sku) VALUES (1)",
            )
            .unwrap();
        let mut ledger = Ledger::open(folder.path()).unwrap();
        assert_eq!(ledger.orders().unwrap(), 1);
        assert_eq!(ledger.orders().unwrap(), 1);
        writer.execute_batch("INSERT INTO orders(sku) VALUES (1), (2), (3)").unwrap();
        assert_eq!(ledger.orders().unwrap(), 4);
        assert_eq!(ledger.orders_recounted().unwrap(), 4);
        // An old row that vanishes is seen by the recount.
        writer.execute_batch("DELETE FROM orders WHERE seq = 1").unwrap();
        assert_eq!((ledger.orders().unwrap(), ledger.orders_recounted().unwrap()), (4, 3));
    }

    #[test]
    fn a_missing_ledger_is_not_created() {
        let folder = tempfile::tempdir().unwrap();
        assert!(Ledger::open(folder.path()).is_err());
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
