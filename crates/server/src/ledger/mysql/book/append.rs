//! Appending under the row of `writer`: one transaction a batch, and what is done when its outcome is not known.
//!
//! The first statement of every transaction moves that row on from the batch that this server wrote last. So a
//! transaction can be sent again after any error: if the one before has happened after all, the row is one batch
//! further and the second does nothing; while it is undecided, it holds the row's lock and the second waits.

use std::time::{Duration, Instant};

use engine::UnixMs;
use mysql::Conn;
use mysql::prelude::Queryable;

use super::{Fenced, MySqlLedger, WriterRow, roll_back};
use crate::ledger::mysql::connect::{Meaning, Purpose, connect, run_all};
use crate::ledger::mysql::entries::push_batch;
use crate::ledger::mysql::sql::Script;
use crate::ledger::rows::int;
use crate::ledger::{AppendError, Batch};

/// After this long without a commit the server is asked whether it is there.
const PING_AFTER: Duration = Duration::from_secs(1);
/// How long a server that was away may take to greet.
const KNOCK_PATIENCE: Duration = Duration::from_millis(500);
/// Between two tries while the server is away.
const TRY_PAUSE: Duration = Duration::from_millis(100);

/// Why one try to commit did not succeed.
enum Failure {
    /// Nothing of it is there.
    RolledBack(mysql::Error),
    /// The commit was sent and not answered.
    Unknown(mysql::Error),
    Fenced(Fenced),
}

impl MySqlLedger {
    /// Appends a batch in one transaction and returns when the server has committed it.
    ///
    /// # Errors
    /// See [`AppendError`]; in any case the book must not be used any more.
    ///
    /// # Panics
    /// If the batch does not go on where the ledger ends.
    pub fn append(&mut self, batch: &Batch<'_>) -> Result<(), AppendError> {
        let next_seq = match (batch.entries.first(), batch.entries.last()) {
            (Some(first), Some(last)) => {
                assert_eq!(int(first.seq.0), self.next_seq, "the book goes on where the ledger ends");
                int(last.seq.0) + 1
            }
            _ => self.next_seq,
        };
        self.transaction(next_seq, batch.at, self.options.limits.settle, |statements| {
            push_batch(statements, batch);
        })
    }

    /// Shows that the server takes commits: after [`AppendError::RolledBack`], and after the server was away.
    ///
    /// # Errors
    /// As [`MySqlLedger::append`].
    pub fn settle_rolled_back(&mut self) -> Result<(), AppendError> {
        self.knock().map_err(|error| AppendError::RolledBack(error.into()))?;
        self.transaction(self.next_seq, UnixMs(self.last_at), Duration::ZERO, |_| {})
    }

    /// One transaction of these statements, tried again for as long as `patience` lasts.
    pub(super) fn transaction(
        &mut self,
        next_seq: i64,
        at: UnixMs,
        patience: Duration,
        fill: impl FnOnce(&mut Script),
    ) -> Result<(), AppendError> {
        self.settle_doubt().map_err(|failure| {
            self.connection = None;
            match failure {
                Failure::Fenced(fenced) => AppendError::Fenced(fenced.into()),
                // Nothing of this transaction was sent.
                Failure::RolledBack(error) | Failure::Unknown(error) => AppendError::RolledBack(error.into()),
            }
        })?;
        let mut statements = std::mem::replace(&mut self.statements, Script::new(0));
        self.begin(&mut statements, next_seq, at);
        fill(&mut statements);
        let committed = self.commit(&mut statements, next_seq, patience);
        self.statements = statements;
        committed
    }

    /// Starts a transaction by moving the writer's row on.
    fn begin(&mut self, statements: &mut Script, next_seq: i64, at: UnixMs) {
        let (generation, batch, seq) = (self.generation, self.batch, self.next_seq);
        self.last_at = self.last_at.max(at.0);
        statements.clear();
        statements.push("START TRANSACTION");
        statements.push(format!(
            "UPDATE writer SET batch = {}, next_seq = {next_seq}, latest_at = {} \
             WHERE id = 1 AND generation = {generation} AND batch = {batch} AND next_seq = {seq}",
            batch + 1,
            int(self.last_at)
        ));
    }

    /// Commits statements that [`MySqlLedger::begin`] has begun, trying again for as long as `patience` lasts.
    fn commit(
        &mut self,
        statements: &mut Script,
        next_seq: i64,
        patience: Duration,
    ) -> Result<(), AppendError> {
        let started = Instant::now();
        let mut commit_sent = false;
        loop {
            let failure = match self.try_to_commit(statements, commit_sent) {
                Ok(()) => {
                    self.batch += 1;
                    self.next_seq = next_seq;
                    self.in_doubt = false;
                    self.used_at = Instant::now();
                    self.retries.well();
                    return Ok(());
                }
                Err(failure) => failure,
            };
            // An answer that says no is one that the connection survives; whatever else it may hold is let go.
            self.connection = None;
            let (error, retry) = match failure {
                Failure::Fenced(fenced) => return Err(AppendError::Fenced(fenced.into())),
                Failure::Unknown(error) => {
                    commit_sent = true;
                    (error, true)
                }
                Failure::RolledBack(error) => {
                    let retry = Meaning::of(&error) != Meaning::Refused;
                    (error, retry)
                }
            };
            if !retry || started.elapsed() >= patience {
                self.in_doubt = commit_sent;
                let error = error.into();
                return Err(if commit_sent {
                    AppendError::Unknown(error)
                } else {
                    AppendError::RolledBack(error)
                });
            }
            self.retries.met(&error);
            std::thread::sleep(TRY_PAUSE);
        }
    }

    /// `commit_sent`: a commit of the same batch was sent before and not answered.
    fn try_to_commit(&mut self, statements: &mut Script, commit_sent: bool) -> Result<(), Failure> {
        let (generation, batch) = (self.generation, self.batch);
        let connection = self.connected().map_err(Failure::RolledBack)?;
        let mut changed = Vec::with_capacity(2);
        let mut sent = Ok(());
        for packet in statements.packets() {
            sent = run_all(connection, packet, |rows| changed.push(rows));
            if sent.is_err() {
                break;
            }
        }
        // The second statement moves the writer's row. What came after it failed too, if that did not apply.
        if changed.get(1) == Some(&0) {
            let row = WriterRow::locked(connection).map_err(Failure::RolledBack)?;
            roll_back(connection).map_err(Failure::RolledBack)?;
            let happened = commit_sent && row.generation == generation && row.batch == batch + 1;
            return if happened { Ok(()) } else { Err(Failure::Fenced(Fenced { ours: generation, row })) };
        }
        sent.map_err(Failure::RolledBack)?;
        // Whatever the server or the network answers now: only the row can show it.
        connection.query_drop("COMMIT").map_err(Failure::Unknown)
    }

    /// The connection, made if there is none.
    pub(super) fn connected(&mut self) -> Result<&mut Conn, mysql::Error> {
        if self.connection.is_none() {
            let (connection, server) = connect(&self.options, Purpose::Write)?;
            self.server = server;
            self.connection = Some(connection);
        }
        Ok(self.connection.as_mut().expect("it is there or was just made"))
    }

    /// Without a connection: sees quickly whether the server answers at all. Who calls again and again while it does
    /// not has others to answer in between.
    pub(super) fn knock(&mut self) -> Result<(), mysql::Error> {
        if self.connection.is_none() {
            let mut hurried = self.options.clone();
            hurried.limits.connect = hurried.limits.connect.min(KNOCK_PATIENCE);
            hurried.limits.read = hurried.limits.read.min(KNOCK_PATIENCE);
            connect(&hurried, Purpose::Write)?;
        }
        Ok(())
    }

    /// Finds out whether the last transaction happened, if that is not known: what follows builds on its number.
    fn settle_doubt(&mut self) -> Result<(), Failure> {
        if self.in_doubt {
            let ours = self.generation;
            let connection = self.connected().map_err(Failure::RolledBack)?;
            let row = WriterRow::locked(connection).map_err(Failure::RolledBack)?;
            roll_back(connection).map_err(Failure::RolledBack)?;
            if row.generation != ours || !(self.batch..=self.batch + 1).contains(&row.batch) {
                return Err(Failure::Fenced(Fenced { ours, row }));
            }
            self.batch = row.batch;
            self.in_doubt = false;
        }
        Ok(())
    }

    /// While nothing is written: notices that the server is gone before a batch is made that it can't take, and
    /// that another server has taken over. To be called often; it asks once a second.
    ///
    /// # Errors
    /// [`AppendError::Away`] and [`AppendError::Fenced`]. The book is not behind the ledger in either case.
    pub fn maintain(&mut self) -> Result<(), AppendError> {
        if self.used_at.elapsed() < PING_AFTER {
            return Ok(());
        }
        // The connection may have ended with a server that is back.
        let row = self.look().or_else(|_lost| {
            self.connection = None;
            self.look()
        });
        self.used_at = Instant::now();
        match row {
            Ok(row) if row.generation == self.generation => Ok(()),
            Ok(row) => Err(AppendError::Fenced(Fenced { ours: self.generation, row }.into())),
            Err(error) => {
                self.connection = None;
                Err(AppendError::Away(error.into()))
            }
        }
    }

    fn look(&mut self) -> Result<WriterRow, mysql::Error> {
        WriterRow::read(self.connected()?)
    }
}
