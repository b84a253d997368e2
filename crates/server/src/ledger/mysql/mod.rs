//! The ledger on MySQL or MariaDB: the same tables as in SQLite, in a database of their own.
//!
//! Each transaction that appends locks and updates the one row of `writer` before anything else. It tells whether
//! a commit whose answer was lost has happened, and it stops a server that another one has taken over from.

mod append;
pub mod connect;
mod marks;
mod migrate;
pub mod profile;
mod purge;
mod read;
mod replay;
pub mod shared;
mod statements;

use std::fmt;
use std::time::{Duration, Instant};

use mysql::Conn;
use mysql::prelude::Queryable;

pub use connect::{Limits, Options, Tls};
pub use read::{changes, export};
pub use replay::{LoadError, audit};

use crate::ledger::RowError;
use connect::{Meaning, Purpose, Server, connect};
use statements::Statements;

/// Between two tries to take over while the last server's transaction is still open.
const TAKE_OVER_PAUSE: Duration = Duration::from_millis(250);
/// Below this a sale of many items could not be stored.
const PACKET_BYTES_MIN: usize = 16 << 20;

/// Why a ledger could not be opened. Each says what to do.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error("cannot reach the ledger at {address}: {source}")]
    Connect { address: String, source: mysql::Error },
    #[error("there is no ledger in the database {database}; is ledger.mysql_database right?")]
    Missing { database: String },
    #[error("the database {database} is not a ledger of doorbuster; give it an empty one of its own")]
    NotALedger { database: String },
    #[error(
        "the database {database} was written by a newer doorbuster (format {found}, this one knows {known}); run that one"
    )]
    Newer { database: String, found: u64, known: u64 },
    #[error(
        "the database {database} has the older format {found}; start doorbuster serve on it once, it migrates it"
    )]
    Older { database: String, found: u64 },
    #[error(
        "the database {database} is the ledger of the {found} profile and can't be used by the {wanted} profile; \
             give that one a database of its own"
    )]
    Profile { database: String, found: &'static str, wanted: &'static str },
    #[error("another server has been migrating the ledger for too long; start again when it has ended")]
    Migrating,
    #[error(
        "the cursor {since} is ahead of this ledger, which ends at {last}: it is from another ledger, or from \
             before a backup was restored; go on from a cursor at or before the backup's end"
    )]
    CursorAhead { since: u64, last: u64 },
    #[error("cannot read the ledger: {0}")]
    Row(#[from] RowError),
    #[error("cannot open the ledger: {0}")]
    MySql(#[from] mysql::Error),
}

impl OpenError {
    /// A row that was read makes no sense.
    pub fn is_damage(&self) -> bool {
        matches!(self, OpenError::Row(_))
    }

    /// Whether the same may succeed later, with nothing changed but the server's state.
    pub fn is_retryable(&self) -> bool {
        match self {
            OpenError::Connect { .. } | OpenError::Migrating => true,
            OpenError::MySql(error) => Meaning::of(error) != Meaning::Refused,
            _ => false,
        }
    }
}

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
struct WriterRow {
    generation: i64,
    batch: i64,
    next_seq: i64,
    last_at: i64,
}

impl WriterRow {
    /// As it was committed last.
    fn read(connection: &mut Conn) -> Result<WriterRow, mysql::Error> {
        Self::select(connection, "SELECT generation, batch, next_seq, last_at FROM writer WHERE id = 1")
    }

    /// Starts a transaction and waits for whoever writes to end.
    fn locked(connection: &mut Conn) -> Result<WriterRow, mysql::Error> {
        // Starting a transaction would commit one that is open.
        roll_back(connection)?;
        connection.query_drop("START TRANSACTION")?;
        let query = "SELECT generation, batch, next_seq, last_at FROM writer WHERE id = 1 FOR UPDATE";
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

fn roll_back(connection: &mut Conn) -> Result<(), mysql::Error> {
    connection.query_drop("ROLLBACK")
}

/// The writer's ledger. Another one that is opened takes it over, and this one's next transaction fails.
pub struct MySqlLedger {
    options: Options,
    server: Server,
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
    statements: Statements,
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
        let (mut connection, server) = open(&options)?;
        profile::claim(&mut connection, &options, profile::Profile::Embedded)?;
        let row = take_over(&mut connection, &options)?;
        let statements = Statements::new(server.packet_bytes_max);
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

/// Opens the ledger to write: connects, makes or migrates its tables, and says how durable a commit will be.
///
/// # Errors
/// See [`OpenError`].
pub fn open(options: &Options) -> Result<(Conn, Server), OpenError> {
    let failed = |source| OpenError::Connect { address: options.to_string(), source };
    let (mut connection, server) = connect(options, Purpose::Write).map_err(failed)?;
    if !migrate::is_newest(&mut connection, options)? {
        let (mut patient, _) = connect(options, Purpose::Migrate).map_err(failed)?;
        migrate::migrate(&mut patient, options)?;
    }
    let (flush, sync_binlog) = (server.flush_log_at_commit, server.sync_binlog);
    tracing::info!(
        version = %server.version,
        innodb_flush_log_at_trx_commit = flush,
        sync_binlog,
        log_bin = server.binlog,
        "the ledger's server is connected"
    );
    if !server.is_durable() {
        tracing::warn!(
            "a power cut of the ledger's server may lose accepted orders: set innodb_flush_log_at_trx_commit = 1 \
             and sync_binlog = 1 there"
        );
    }
    if server.packet_bytes_max < PACKET_BYTES_MIN {
        tracing::warn!(
            max_allowed_packet = server.packet_bytes_max,
            "a sale of many items may not fit into a packet of the ledger's server: set max_allowed_packet to \
             64M there"
        );
    }
    Ok((connection, server))
}

/// Opens the ledger to read, while a server writes it or not.
///
/// # Errors
/// See [`OpenError`].
pub fn open_reader(options: &Options) -> Result<Conn, OpenError> {
    let failed = |source| OpenError::Connect { address: options.to_string(), source };
    let (mut connection, _) = connect(options, Purpose::Read).map_err(failed)?;
    migrate::check_version(&mut connection, options)?;
    Ok(connection)
}
