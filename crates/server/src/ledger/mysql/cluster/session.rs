//! One connection to the shared ledger, and why what it was asked came to nothing.

use std::time::{Duration, Instant};

use engine::{Seq, UnixMs};
use mysql::Conn;
use mysql::prelude::Queryable;

use super::{Continuity, STOPPED_S};
use crate::ledger::RowError;
use crate::ledger::mysql::Options;
use crate::ledger::mysql::connect::{Purpose, connect};
use crate::ledger::mysql::migrate::FORMAT;
use crate::ledger::mysql::replay::time_of;
use crate::ledger::mysql::sql::{Script, unsigned};
use crate::ledger::rows::int;

/// Why an attempt ended.
#[derive(Debug)]
pub(super) enum Failure {
    Sql(mysql::Error),
    Fenced(String),
    Damaged(String),
    /// The ledger has this format meanwhile.
    Format(i64),
}

impl From<mysql::Error> for Failure {
    fn from(error: mysql::Error) -> Failure {
        Failure::Sql(error)
    }
}

impl From<RowError> for Failure {
    fn from(error: RowError) -> Failure {
        Failure::Damaged(format!("a row makes no sense: {error}"))
    }
}

impl From<mysql::FromRowError> for Failure {
    fn from(error: mysql::FromRowError) -> Failure {
        Failure::Damaged(format!("a row makes no sense: {error}"))
    }
}

impl From<engine::Inconsistent> for Failure {
    fn from(error: engine::Inconsistent) -> Failure {
        Failure::Damaged(error.to_string())
    }
}

impl From<engine::working_set::Unsound> for Failure {
    fn from(error: engine::working_set::Unsound) -> Failure {
        Failure::Damaged(error.to_string())
    }
}

/// Between two looks whether the server still takes writes.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// The number and the time of the ledger's last entry, and the time of the entry that is looked for, if it is there.
pub(super) type Sight = (i64, i64, Option<i64>);

/// A look for the entry whose time this expression finds.
fn look(found: &str) -> String {
    format!("SELECT next_seq - 1, latest_at, {found} FROM writer WHERE id = 1")
}

/// A look for an entry where it nearly always is: at the end, or among the orders.
pub(super) fn look_near(Seq(seq): Seq) -> String {
    look(&format!("IF(next_seq - 1 = {seq}, latest_at, (SELECT at FROM orders WHERE seq = {seq}))"))
}

/// A live connection.
pub(super) struct Session {
    pub(super) connection: Conn,
    pub(super) packet_bytes_max: usize,
    /// Seconds after which the server ends the connection between transactions, where it does not tell the two apart: MariaDB has
    /// a bound of its own for what says nothing in the middle of one.
    idle_s: Option<u64>,
    looked_at: Instant,
}

impl Session {
    pub(super) fn connect(options: &Options) -> Result<Session, mysql::Error> {
        let (mut connection, server) = connect(options, Purpose::Write)?;
        // A packet that stops in the middle, either way, ends as a transaction that says nothing does.
        connection.query_drop(format!(
            "SET SESSION net_read_timeout = {STOPPED_S}, net_write_timeout = {STOPPED_S}"
        ))?;
        let idle_s = (!server.mariadb).then(|| options.limits.idle.as_secs().max(1));
        if server.mariadb {
            // Of those that have only locked yet. One that has written has its bound by the options.
            connection.query_drop(format!("SET SESSION idle_readonly_transaction_timeout = {STOPPED_S}"))?;
        }
        let packet_bytes_max = server.packet_bytes_max;
        Ok(Session { connection, packet_bytes_max, idle_s, looked_at: Instant::now() })
    }

    /// Whether to leave it, for its server takes no writes: after a switch-over another one has its name, and what a replica
    /// shows may be old. One that every connection leads to is read from, by a new connection a second.
    pub(super) fn is_to_be_left(&mut self) -> Result<bool, mysql::Error> {
        if self.looked_at.elapsed() < LOOK_INTERVAL {
            return Ok(false);
        }
        self.looked_at = Instant::now();
        // A number, or in later versions a word.
        let look = "SELECT CAST(@@global.read_only AS CHAR) NOT IN ('0', 'OFF')";
        Ok(self.connection.query_first(look)?.unwrap_or(false))
    }

    /// Looks for the newest entry that this server has seen.
    pub(super) fn look_back(&mut self, continuity: &Continuity) -> Result<(), Failure> {
        let asked = continuity.end();
        let row = self.connection.query_first(look_near(asked.0))?;
        self.has_looked(continuity, asked, row)
    }

    /// Takes in what [`look_near`] has shown. An entry that it has not found is looked for everywhere.
    pub(super) fn has_looked(
        &mut self,
        continuity: &Continuity,
        asked: (Seq, UnixMs),
        row: Option<Sight>,
    ) -> Result<(), Failure> {
        let missing = || Failure::Damaged("the row of the writer is missing".to_owned());
        let mut sight = row.ok_or_else(missing)?;
        if asked.0 != Seq(0) && sight.2 != Some(int(asked.1.0)) {
            sight = self.connection.query_first(look(&time_of(asked.0)))?.ok_or_else(missing)?;
        }
        let (last, at, found) = sight;
        let end = (Seq(unsigned(last)), UnixMs(unsigned(at)));
        continuity.looked(asked, found.map(|at| UnixMs(unsigned(at))), end);
        Ok(())
    }

    /// The statement that goes before a transaction, if one is needed: it bounds how long a server that was stopped holds locks.
    pub(super) fn begin(&self) -> Option<String> {
        self.idle_s.map(|_idle| format!("SET SESSION wait_timeout = {STOPPED_S}"))
    }

    /// The statement that goes after one.
    pub(super) fn end(&self) -> Option<String> {
        self.idle_s.map(|idle| format!("SET SESSION wait_timeout = {idle}"))
    }

    /// Whether the ledger still has this server's format. One that a newer server has shut out must neither count as
    /// alive nor keep a task, or the servers that can work would not get its queues.
    pub(super) fn check_format(&mut self) -> Result<(), Failure> {
        match self.connection.query_first("SELECT format FROM writer WHERE id = 1")? {
            Some(FORMAT) => Ok(()),
            found => Err(Failure::Format(found.unwrap_or(0))),
        }
    }

    pub(super) fn run(
        &mut self,
        script: Script,
        each: impl FnMut(usize, mysql::Row) -> Result<(), mysql::Error>,
    ) -> Result<(), mysql::Error> {
        script.run(&mut self.connection, self.packet_bytes_max, each)
    }
}
