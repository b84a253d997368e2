//! The ledger of the embedded profile on MySQL: one book writer appends, in batches, and can be taken over from.

mod append;
mod load;
mod meta;
mod upkeep;

use std::fmt;
use std::time::{Duration, Instant};

use mysql::Conn;
use mysql::prelude::Queryable;

pub use load::LoadError;

use super::connect::{Meaning, ServerInfo};
use super::profile;
use super::sql::Script;
use super::{OpenError, Options, open};
use crate::recurring::Recurring;

/// Between two tries to take over while the last server's transaction is still open.
const TAKE_OVER_PAUSE: Duration = Duration::from_millis(250);
/// Another server has taken the ledger over. This one must not write again.
#[derive(Debug, thiserror::Error)]
#[error(
    "another server has taken this ledger over (it is at generation {}, batch {}; this server's generation is {ours}); \
     one server at a time may use a ledger",
    row.generation, row.batch
)]
pub struct Fenced {
    ours: i64,
    row: WriterRow,
}

/// The row that every transaction starts with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct WriterRow {
    generation: i64,
    batch: i64,
    pub(super) next_seq: i64,
    last_at: i64,
}

impl WriterRow {
    /// As it was committed last.
    pub(super) fn read(connection: &mut Conn) -> Result<WriterRow, mysql::Error> {
        Self::select(connection, "SELECT generation, batch, next_seq, latest_at FROM writer WHERE id = 1")
    }

    /// Starts a transaction and waits for whoever writes to end.
    fn locked(connection: &mut Conn) -> Result<WriterRow, mysql::Error> {
        // Starting a transaction would commit one that is open.
        roll_back(connection)?;
        connection.query_drop("START TRANSACTION")?;
        let query = "SELECT generation, batch, next_seq, latest_at FROM writer WHERE id = 1 FOR UPDATE";
        Self::select(connection, query)
    }

    fn select(connection: &mut Conn, query: &str) -> Result<WriterRow, mysql::Error> {
        let row: Option<(i64, i64, i64, i64)> = connection.query_first(query)?;
        let missing = || {
            mysql::Error::MySqlError(mysql::MySqlError {
                state: "HY000".to_owned(),
                message: "the row of the table writer is missing; restore a backup".to_owned(),
                code: 0,
            })
        };
        let (generation, batch, next_seq, last_at) = row.ok_or_else(missing)?;
        Ok(WriterRow { generation, batch, next_seq, last_at })
    }
}

pub(super) fn roll_back(connection: &mut Conn) -> Result<(), mysql::Error> {
    connection.query_drop("ROLLBACK")
}

/// The writer's ledger. Another one that is opened takes it over, and this one's next transaction fails.
pub struct MySqlLedger {
    options: Options,
    server: ServerInfo,
    /// `None` after an error, until it is needed.
    connection: Option<Conn>,
    used_at: Instant,
    /// Ours; and what the writer's row says if the last transaction happened.
    generation: i64,
    batch: i64,
    next_seq: i64,
    last_at: u64,
    /// Whether the last transaction happened is not known.
    in_doubt: bool,
    statements: Script,
    retries: Recurring,
}

/// Without the connection, which would show its password.
impl fmt::Debug for MySqlLedger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MySqlLedger")
            .field("options", &self.options)
            .field("generation", &self.generation)
            .field("batch", &self.batch)
            .field("next_seq", &self.next_seq)
            .field("in_doubt", &self.in_doubt)
            .finish_non_exhaustive()
    }
}

impl MySqlLedger {
    /// Connects, makes or migrates the tables, and takes over from whoever wrote before.
    ///
    /// # Errors
    /// See [`OpenError`].
    pub fn open(options: Options) -> Result<MySqlLedger, OpenError> {
        let (mut connection, server) = open(&options, profile::Profile::Embedded)?;
        profile::claim(&mut connection, &options, profile::Profile::Embedded)?;
        let row = take_over(&mut connection, &options)?;
        let statements = Script::new(server.packet_bytes_max);
        Ok(MySqlLedger {
            options,
            server,
            connection: Some(connection),
            used_at: Instant::now(),
            generation: row.generation,
            batch: row.batch,
            next_seq: row.next_seq,
            last_at: row.last_at.unsigned_abs(),
            in_doubt: false,
            retries: Recurring::new("a transaction of the ledger is tried again"),
            statements,
        })
    }

    pub fn options(&self) -> &Options {
        &self.options
    }
}

/// Raises the generation, so that whoever wrote before can't any more.
fn take_over(connection: &mut Conn, options: &Options) -> Result<WriterRow, OpenError> {
    // An open transaction of the last server, if that was stopped or cut off, ends by itself in this time.
    let patience = options.limits.idle + options.limits.lock_wait;
    let started = Instant::now();
    loop {
        let taken = WriterRow::locked(connection).and_then(|row| {
            connection.query_drop("UPDATE writer SET generation = generation + 1 WHERE id = 1")?;
            connection.query_drop("COMMIT")?;
            Ok(WriterRow { generation: row.generation + 1, ..row })
        });
        match taken {
            Err(error) if Meaning::of(&error) == Meaning::Conflict && started.elapsed() < patience => {
                tracing::info!(%error, "waiting for the last transaction of another server");
                roll_back(connection)?;
                std::thread::sleep(TAKE_OVER_PAUSE);
            }
            taken => return Ok(taken?),
        }
    }
}
