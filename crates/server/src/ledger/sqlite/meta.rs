//! Small facts about the ledger itself, kept in its `meta` table.

use std::path::Path;

use engine::UnixMs;
use rusqlite::{OptionalExtension, params};

use super::append::classify;
use super::{FILE_NAME, OpenError, SqliteLedger, connect_to_read};
use crate::clock::Notes;
use crate::ledger::AppendError;
use crate::ledger::rows::{CONFIRMED_SINCE, NOTED_AT, int};

/// Whether a data directory has a ledger with entries, of any format, that no demo has made. Changes nothing.
///
/// # Errors
/// If there is a ledger that can't be read.
pub fn is_a_shops(data_dir: &Path) -> Result<bool, OpenError> {
    let path = data_dir.join(FILE_NAME);
    if !path.exists() {
        return Ok(false);
    }
    match has_a_shop(&path) {
        // Opening it makes room first, and looks again.
        Err(error) if super::is_full(&error) => Ok(false),
        found => Ok(found?),
    }
}

fn has_a_shop(path: &Path) -> Result<bool, rusqlite::Error> {
    let connection = connect_to_read(path)?;
    let tables = "SELECT count(*) FROM sqlite_schema WHERE name IN ('meta', 'sale_events', 'payments')";
    if connection.query_row(tables, [], |row| row.get::<_, i64>(0))? < 3 {
        return Ok(false);
    }
    let of_a_shop = "SELECT (EXISTS (SELECT 1 FROM sale_events) OR EXISTS (SELECT 1 FROM payments)) \
                     AND NOT EXISTS (SELECT 1 FROM meta WHERE name = 'demo')";
    connection.query_row(of_a_shop, [], |row| row.get(0))
}

impl SqliteLedger {
    /// What was noted of the clock.
    ///
    /// # Errors
    /// If the ledger cannot be read.
    pub fn clock_notes(&self) -> Result<Notes, rusqlite::Error> {
        let note = |name: &str| {
            let value = "SELECT value FROM meta WHERE name = ?1";
            let value = self.connection.query_row(value, [name], |row| row.get::<_, i64>(0)).optional()?;
            Ok::<_, rusqlite::Error>(value.map(|ms| UnixMs(ms.unsigned_abs())))
        };
        Ok(Notes { noted_at: note(NOTED_AT)?, confirmed_since: note(CONFIRMED_SINCE)? })
    }

    /// Notes the clock, in place of what was noted before.
    ///
    /// # Errors
    /// As [`SqliteLedger::append`], but the book stays right.
    pub fn note_clock(&mut self, notes: &Notes) -> Result<(), AppendError> {
        for (name, at) in [(CONFIRMED_SINCE, notes.confirmed_since), (NOTED_AT, notes.noted_at)] {
            let Some(at) = at else { continue };
            let note = "INSERT INTO meta VALUES (?1, ?2) ON CONFLICT DO UPDATE SET value = excluded.value \
                        WHERE value <> excluded.value";
            let noted = self.connection.execute(note, params![name, int(at.0)]);
            noted.map_err(classify)?;
        }
        Ok(())
    }

    /// Whether a demo may write here: its own ledger, or one that is still empty and becomes its own.
    ///
    /// # Errors
    /// If the ledger cannot be read or marked.
    pub fn is_for_demo(&self, empty: bool) -> Result<bool, rusqlite::Error> {
        let marked =
            self.connection.query_row("SELECT 1 FROM meta WHERE name = 'demo'", [], |_| Ok(())).optional()?;
        if marked.is_none() && empty {
            self.connection.execute("INSERT INTO meta VALUES ('demo', 1)", [])?;
        }
        Ok(marked.is_some() || empty)
    }
}
