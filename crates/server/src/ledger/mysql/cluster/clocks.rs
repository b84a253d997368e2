//! What the clocks of the database and of the servers say, and how late the ledger is. Nothing here takes the writer's lock.

use engine::UnixMs;
use mysql::from_row_opt;
use mysql::prelude::Queryable;

use super::leases::{DB_NOW, STEP_MS_MAX};
use super::{Failure, LedgerError, SharedLedger};
use crate::ledger::mysql::sql::{Script, unsigned};
use crate::time::Instant;

/// Milliseconds for which what a server said of its clock is believed.
const SAID_MS: u64 = 3_000;

/// The database's clock, which was read between two moments, and the time of the ledger's latest entry.
#[derive(Clone, Copy, Debug)]
pub struct LedgerTime {
    pub at: UnixMs,
    pub between: (Instant, Instant),
    pub latest_entry_at: UnixMs,
}

/// How far a server's clock is ahead of the database's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerClock {
    pub server: u64,
    pub address: String,
    pub ahead_ms: i64,
}

impl SharedLedger {
    /// # Errors
    /// See [`LedgerError`].
    pub fn time(&mut self) -> Result<LedgerTime, LedgerError> {
        let mut asked = Instant::now();
        let query = format!("SELECT {DB_NOW}, latest_at FROM writer WHERE id = 1");
        self.attempt(|session, _| {
            // Of the attempt that was answered.
            asked = Instant::now();
            let row: Option<(i64, i64)> = session.connection.query_first(&query)?;
            let (at, latest) = row.unwrap_or_default();
            let [at, latest_entry_at] = [at, latest].map(|at| UnixMs(unsigned(at)));
            Ok(LedgerTime { at, between: (asked, Instant::now()), latest_entry_at })
        })
    }

    /// Says what this server's clock says, and returns what the others have said of theirs. A server without a sign of life
    /// says nothing. What was said before the database's clock was set is not believed.
    ///
    /// # Errors
    /// See [`LedgerError`].
    pub fn compare_clocks(&mut self, server: u64, ahead_ms: i64) -> Result<Vec<ServerClock>, LedgerError> {
        let server = server.cast_signed();
        let say = format!(
            "UPDATE servers SET clock_ahead_ms = {ahead_ms}, clock_said_at = {DB_NOW} WHERE id = {server}"
        );
        let others = format!(
            "SELECT id, address, clock_ahead_ms FROM servers WHERE id <> {server} AND clock_ahead_ms IS NOT NULL \
             AND clock_said_at BETWEEN {DB_NOW} - {SAID_MS} AND {DB_NOW} + {STEP_MS_MAX} ORDER BY id"
        );
        self.attempt(|session, _| {
            let mut script = Script::default();
            script.push(&say);
            script.push(&others);
            let mut rows = Vec::new();
            session.run(script, |_, row| {
                rows.push(row);
                Ok(())
            })?;
            let clock = |row| -> Result<ServerClock, Failure> {
                let (id, address, ahead_ms): (i64, String, i64) = from_row_opt(row)?;
                Ok(ServerClock { server: unsigned(id), address, ahead_ms })
            };
            rows.into_iter().map(clock).collect()
        })
    }
}
