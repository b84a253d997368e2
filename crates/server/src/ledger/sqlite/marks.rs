//! Small facts about the ledger itself, kept in its `meta` table.

use rusqlite::OptionalExtension;

use super::SqliteLedger;

impl SqliteLedger {
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
