//! The ledger on MySQL or MariaDB: the same tables as in SQLite, in a database of their own.
//!
//! Each transaction that appends locks and updates the one row of `writer` before anything else. It shows whether
//! a commit whose answer was lost has happened, and it stops a server that another one has taken over from.

mod advice;
mod audit;
pub mod beside;
mod book;
pub mod cluster;
pub mod connect;
mod entries;
mod erase;
mod images;
mod life;
mod migrate;
mod operator_log;
mod outgoing;
pub mod profile;
mod purge;
mod read;
mod replay;
mod sale_entries;
mod sql;

use mysql::Conn;

pub use audit::audit;
pub(in crate::ledger) use audit::audit_each;
pub use book::{Fenced, LoadError, MySqlLedger};
pub use connect::{Limits, Options, Tls};
pub(in crate::ledger) use images::{add_image, image, images, missing_image, remove_image};
pub(in crate::ledger) use life::order_life;
pub(in crate::ledger) use operator_log::operator_log;
pub use outgoing::EventReader;
pub(in crate::ledger) use read::kept_id_secret;
pub use read::{changes, export};
pub(in crate::ledger) use sale_entries::sale_entries;

use crate::ledger::RowError;
use connect::{Meaning, Purpose, ServerInfo, connect};

/// Below this a sale of many items could not be stored.
const PACKET_BYTES_MIN: usize = 16 << 20;

/// Why a ledger could not be opened. Each says what to do.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error("cannot reach the ledger at {address}: {}", advice::unreached(source))]
    Connect { address: String, source: mysql::Error },
    #[error("there is no ledger in the database {database}; is ledger.mysql_database right?")]
    Missing { database: String },
    #[error("the database {database} is not a ledger of doorbuster; give it an empty one of its own")]
    NotALedger { database: String },
    #[error(
        "the database {database} has format {found}, of a newer doorbuster, and this one knows formats up to {known}; run \
         the newer one"
    )]
    Newer { database: String, found: u64, known: u64 },
    #[error(
        "the database {database} has the older format {found}, and this doorbuster reads format {known}; start \
         doorbuster serve on it once, it migrates it"
    )]
    Older { database: String, found: u64, known: u64 },
    #[error("the ledger is of a newer doorbuster: {0}")]
    Kind(#[source] RowError),
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

impl From<mysql::FromRowError> for OpenError {
    fn from(error: mysql::FromRowError) -> OpenError {
        OpenError::MySql(error.into())
    }
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

/// Opens the ledger to write: connects, makes or migrates its tables (not those of the other profile), and says how durable a
/// commit will be.
///
/// # Errors
/// See [`OpenError`].
pub fn open(options: &Options, profile: profile::Profile) -> Result<(Conn, ServerInfo), OpenError> {
    let failed = |source| OpenError::Connect { address: options.to_string(), source };
    let (mut connection, server) = connect(options, Purpose::Write).map_err(failed)?;
    if !migrate::is_newest(&mut connection, options)? {
        profile::check(&mut connection, options, profile)?;
        let (mut patient, _) = connect(options, Purpose::Migrate).map_err(failed)?;
        migrate::migrate(&mut patient, options)?;
    }
    migrate::check_kinds(&mut connection)?;
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

/// Whether a ledger of any format has entries, and no demo has made it. Changes nothing.
///
/// # Errors
/// See [`OpenError`].
pub fn is_a_shops(options: &Options) -> Result<bool, OpenError> {
    let failed = |source| OpenError::Connect { address: options.to_string(), source };
    let (mut connection, _) = connect(options, Purpose::Read).map_err(failed)?;
    profile::is_a_shops(&mut connection, options)
}

/// Finds out whether a server could open it: an empty database and a ledger to be migrated are well. Changes nothing.
///
/// # Errors
/// See [`OpenError`].
pub fn check(options: &Options) -> Result<(), OpenError> {
    match open_reader(options) {
        Ok(_) | Err(OpenError::Missing { .. } | OpenError::Older { .. }) => Ok(()),
        Err(error) => Err(error),
    }
}

/// Opens the ledger to read, while a server writes it or not.
///
/// # Errors
/// See [`OpenError`].
pub fn open_reader(options: &Options) -> Result<Conn, OpenError> {
    let failed = |source| OpenError::Connect { address: options.to_string(), source };
    let (mut connection, _) = connect(options, Purpose::Read).map_err(failed)?;
    migrate::check_version(&mut connection, options)?;
    migrate::check_kinds(&mut connection)?;
    Ok(connection)
}
