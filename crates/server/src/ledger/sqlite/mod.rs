//! The ledger in one SQLite file, `ledger.db`, in WAL mode.
//!
//! One connection writes, owned by the book writer. A second one checkpoints in the background. Readers
//! (audit, export, backup, the order feed) open their own, read-only, in short transactions, so that the WAL
//! can be reused: a WAL that is overwritten instead of grown makes a sync several times cheaper.

mod append;
mod backup;
mod buyer;
mod checkpoint;
mod erase;
mod files;
mod life;
mod meta;
mod migrate;
mod operator_log;
mod outgoing;
mod purge;
mod read;
mod replay;

use std::fs::{File, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

pub use backup::{BackupError, backup};
pub use checkpoint::Checkpointed;
pub(super) use life::order_life;
pub use meta::is_a_shops;
pub(super) use operator_log::operator_log;
pub use outgoing::{EventReader, open_event_reader};
pub(super) use read::kept_id_secret;
pub use read::{changes, export};
pub use replay::{LoadError, audit};
pub(super) use replay::{audit_each, sale_entries};

use crate::ledger::rows::RowError;
use checkpoint::Checkpointer;
use files::Files;

/// Name of the ledger in the data directory.
pub const FILE_NAME: &str = "ledger.db";
const LOCK_NAME: &str = "lock";
/// How long a statement waits for a lock that another process holds (a migration, a checkpoint's last step).
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);
/// How long the start waits for readers to end, before it gives up.
const SETTLE_PATIENCE: Duration = Duration::from_secs(10);
/// More than the statements that are ever prepared.
const STATEMENTS_CACHED: usize = 32;
const COUNT_OPEN: &str = "INSERT INTO meta VALUES ('opens', 1) ON CONFLICT DO UPDATE SET value = value + 1";

/// How hard a commit pushes its bytes to the disk; see docs/guarantees.md.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Synchronous {
    /// Each commit is synced: survives a power cut.
    Full,
    /// Only checkpoints are synced: a power cut can take the latest commits, in whole.
    Normal,
    /// Nothing is synced: a power cut can take or damage anything.
    Off,
}

/// Names and values.
pub type Settings = Vec<(&'static str, String)>;

/// How a ledger is opened.
#[derive(Clone, Debug)]
pub struct Options {
    pub data_dir: PathBuf,
    pub synchronous: Synchronous,
    /// Pages (4 KiB) in the WAL at which a checkpoint starts.
    pub checkpoint_pages: u32,
    /// Name of a registered SQLite VFS; `None`: the default. For tests that make the disk fail.
    pub vfs: Option<String>,
}

/// Why a ledger could not be opened. Each says what to do.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error("cannot use the data directory {path}: {source}")]
    Directory { path: PathBuf, source: io::Error },
    #[error(
        "the data directory {path} is used by another doorbuster; stop that one or give another --data-dir"
    )]
    Locked { path: PathBuf },
    #[error("there is no ledger at {path}; is --data-dir right?")]
    Missing { path: PathBuf },
    #[error("{path} is not a ledger of doorbuster; give another --data-dir")]
    NotALedger { path: PathBuf },
    #[error(
        "{path} has format {found}, of a newer doorbuster, and this one knows formats up to {known}; run the newer one"
    )]
    Newer { path: PathBuf, found: i64, known: i64 },
    #[error(
        "{path} has the older format {found}, and this doorbuster reads format {known}; start doorbuster serve on it \
         once, it migrates it"
    )]
    Older { path: PathBuf, found: i64, known: i64 },
    #[error("the ledger is of a newer doorbuster: {0}")]
    Kind(#[source] RowError),
    #[error("{path} is being read (by an audit, an export or a backup); start again when that has ended")]
    Read { path: PathBuf },
    #[error("cannot back the ledger up before its migration: {0}")]
    Backup(#[from] BackupError),
    #[error(
        "the cursor {since} is ahead of this ledger, which ends at {last}: it is from another ledger, or from \
             before a backup was restored; go on from a cursor at or before the backup's end"
    )]
    CursorAhead { since: u64, last: u64 },
    #[error("cannot open the ledger: {0}")]
    Sqlite(#[from] rusqlite::Error),
}

impl OpenError {
    fn is_full(&self) -> bool {
        matches!(self, OpenError::Sqlite(error) if is_full(error))
    }

    /// The file could be read, but what is in it is no sound database any more.
    pub fn is_damage(&self) -> bool {
        use rusqlite::ErrorCode::{DatabaseCorrupt, NotADatabase};
        let OpenError::Sqlite(error) = self else { return false };
        matches!(error.sqlite_error_code(), Some(DatabaseCorrupt | NotADatabase))
    }
}

/// The writer's ledger. Its data directory is locked against other processes while it lives.
#[derive(Debug)]
pub struct SqliteLedger {
    connection: Connection,
    checkpointer: Checkpointer,
    options: Options,
    settings: Settings,
    files: Files,
    /// The disk was full when it was opened.
    full: bool,
    /// Held, never read: the lock is the file's.
    _lock: File,
}

impl SqliteLedger {
    /// Locks the data directory (made if absent), opens or creates the ledger, migrates it, and puts all of
    /// its WAL into the database before anything is served from it.
    ///
    /// # Errors
    /// See [`OpenError`].
    pub fn open(options: Options) -> Result<SqliteLedger, OpenError> {
        SqliteLedger::open_within(options, SETTLE_PATIENCE)
    }

    fn open_within(options: Options, patience: Duration) -> Result<SqliteLedger, OpenError> {
        let dir = &options.data_dir;
        let directory = |source| OpenError::Directory { path: dir.clone(), source };
        make_data_dir(dir).map_err(directory)?;
        let lock = lock(dir)?;
        let path = dir.join(FILE_NAME);
        create_private(&path).map_err(directory)?;
        let (mut connection, full) = match open_and_settle(&options, &path, patience) {
            // The WAL's index may have found no room: the ballast makes some.
            Err(error) if error.is_full() && files::drop_ballast(dir) => {
                open_and_settle(&options, &path, patience)
            }
            opened => opened,
        }?;
        if !full {
            files::lay_ballast(dir);
        }
        let second = connect(&path, OpenFlags::SQLITE_OPEN_READ_WRITE, options.vfs.as_deref())?;
        prepare(&second, options.synchronous)?;
        let settings = vec![
            ("journal_mode", connection.pragma_query_value(None, "journal_mode", |row| row.get(0))?),
            ("synchronous", synchronous(&connection)?),
            ("checkpoint_synchronous", synchronous(&second)?),
        ];
        let checkpointer = Checkpointer::start(&mut connection, second, options.checkpoint_pages)?;
        let files = Files::opened(&path).map_err(directory)?;
        Ok(SqliteLedger { connection, checkpointer, options, settings, files, full, _lock: lock })
    }

    /// Whether the disk was full when the ledger was opened. It can be read then, and nothing must be appended before
    /// [`SqliteLedger::settle_rolled_back`] has succeeded.
    pub fn is_full(&self) -> bool {
        self.full
    }

    /// Copies what was written here beside the ledger, whose own files are not where they were; returns where to.
    ///
    /// # Errors
    /// See [`BackupError`].
    pub fn rescue(&self) -> Result<PathBuf, BackupError> {
        let copy = self.path().with_extension("db.rescued");
        backup::copy(&self.connection, &copy, backup::Existing::Refuse)?;
        Ok(copy)
    }

    /// What the two connections said of themselves when they were opened. `synchronous` is a setting of a connection:
    /// nobody else can ask for it.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The secret that order ids are made with: made once, kept in the ledger.
    pub fn id_secret(&self) -> Result<[u8; 16], rusqlite::Error> {
        use rusqlite::OptionalExtension;
        let query = "SELECT value FROM meta WHERE name = 'id_secret'";
        if let Some(secret) = self.connection.query_row(query, [], |row| row.get(0)).optional()? {
            return Ok(secret);
        }
        // Not by RETURNING: its row comes before the commit, whose failure would go unnoticed. Then orders would
        // be named by a secret that is lost.
        self.connection.execute("INSERT INTO meta (name, value) VALUES ('id_secret', randomblob(16))", [])?;
        self.connection.query_row(query, [], |row| row.get(0))
    }

    /// Where the ledger lies.
    pub fn path(&self) -> PathBuf {
        self.options.data_dir.join(FILE_NAME)
    }

    /// Puts the WAL into the database: for a clean stop.
    ///
    /// # Errors
    /// If the disk refuses; nothing is lost, the WAL stays.
    pub fn close(self) -> Result<(), rusqlite::Error> {
        self.checkpointer.stop();
        checkpoint::empty(&self.connection)
    }
}

/// The writer's connection, and whether the disk is full.
fn open_and_settle(
    options: &Options,
    path: &Path,
    patience: Duration,
) -> Result<(Connection, bool), OpenError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE;
    let connection = connect(path, flags, options.vfs.as_deref())?;
    migrate::migrate(&connection, path)?;
    migrate::check_kinds(&connection)?;
    prepare(&connection, options.synchronous)?;
    // A failed sync may have left frames that were never answered for and that later syncs would not write
    // again. This decides it before anybody reads: all frames go into the database, and a synced commit
    // starts the WAL anew, so that the old one can't come back with a power cut.
    let settled = checkpoint::settle(&connection, patience).and_then(|settled| {
        if settled { connection.execute(COUNT_OPEN, []).map(|_| true) } else { Ok(false) }
    });
    match settled {
        Ok(true) => Ok((connection, false)),
        Ok(false) => Err(OpenError::Read { path: path.to_owned() }),
        Err(error) if is_full(&error) => {
            files::rewrite_wal(path)
                .map_err(|source| OpenError::Directory { path: options.data_dir.clone(), source })?;
            tracing::error!(path = %path.display(), "the disk is full: reads only, until there is room");
            Ok((connection, true))
        }
        Err(error) => Err(error.into()),
    }
}

/// Whether the disk had no room for it.
fn is_full(error: &rusqlite::Error) -> bool {
    error.sqlite_error().is_some_and(|error| {
        error.code == rusqlite::ErrorCode::DiskFull
            || error.extended_code == rusqlite::ffi::SQLITE_IOERR_SHMSIZE
    })
}

fn lock(dir: &Path) -> Result<File, OpenError> {
    let directory = |source| OpenError::Directory { path: dir.to_owned(), source };
    let mut options = File::options();
    let options = options.write(true).create(true).truncate(false).mode(0o600);
    let file = options.open(dir.join(LOCK_NAME)).map_err(directory)?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(OpenError::Locked { path: dir.to_owned() }),
        Err(TryLockError::Error(source)) => Err(directory(source)),
    }
}

/// Whether a server has this data directory.
///
/// # Errors
/// If its lock can't be read.
pub fn is_served(dir: &Path) -> io::Result<bool> {
    let lock = match File::open(dir.join(LOCK_NAME)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        lock => lock?,
    };
    match lock.try_lock_shared() {
        Ok(()) => Ok(false),
        Err(TryLockError::WouldBlock) => Ok(true),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

/// Makes the data directory if it is absent. Buyers' addresses and a demo's secrets lie in it: nobody else's to
/// read. One that is there keeps the rights that its owner gave it.
///
/// # Errors
/// If it can't be made.
pub fn make_data_dir(dir: &Path) -> io::Result<()> {
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(dir)
}

/// Makes an empty file for SQLite to fill, readable by its owner alone; SQLite gives the WAL and its index the
/// rights of their database. One that is there is left alone, and not even opened: closing it would drop the
/// locks that this process may have on it.
fn create_private(path: &Path) -> io::Result<()> {
    match File::options().write(true).create_new(true).mode(0o600).open(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        Ok(_) | Err(_) => Ok(()),
    }
}

fn connect(path: &Path, flags: OpenFlags, vfs: Option<&str>) -> Result<Connection, rusqlite::Error> {
    // NO_MUTEX: each connection stays with one thread.
    let flags = flags | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = match vfs {
        Some(vfs) => Connection::open_with_flags_and_vfs(path, flags, vfs)?,
        None => Connection::open_with_flags(path, flags)?,
    };
    connection.busy_timeout(BUSY_TIMEOUT)?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS_CACHED);
    // From the first statement on, migrations included: an automatic checkpoint swallows a failed sync.
    connection.pragma_update(None, "wal_autocheckpoint", 0)?;
    Ok(connection)
}

/// Not READ_ONLY: the first reader after a crash must be able to recover the WAL's index. Nor does it write the database when
/// it is closed: the last connection of a ledger that nobody serves would copy the WAL into it.
fn connect_to_read(path: &Path) -> Result<Connection, rusqlite::Error> {
    let connection = connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE, None)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    connection.pragma_update(None, "query_only", true)?;
    Ok(connection)
}

fn prepare(connection: &Connection, synchronous: Synchronous) -> Result<(), rusqlite::Error> {
    let synchronous = match synchronous {
        Synchronous::Full => "FULL",
        Synchronous::Normal => "NORMAL",
        Synchronous::Off => "OFF",
    };
    connection.pragma_update_and_check(None, "journal_mode", "WAL", |row| row.get::<_, String>(0))?;
    connection.pragma_update(None, "synchronous", synchronous)?;
    // A purged address is overwritten, not only unlinked.
    connection.pragma_update_and_check(None, "secure_delete", true, |row| row.get::<_, bool>(0))?;
    // 16 MiB: an append needs the right edge of each table only.
    connection.pragma_update(None, "cache_size", -16_384)?;
    Ok(())
}

/// As SQLite says it, and not as it was asked for.
fn synchronous(connection: &Connection) -> Result<String, rusqlite::Error> {
    let level: i64 = connection.pragma_query_value(None, "synchronous", |row| row.get(0))?;
    Ok(match level {
        0 => "off".to_owned(),
        1 => "normal".to_owned(),
        2 => "full".to_owned(),
        other => other.to_string(),
    })
}

/// Opens the ledger of a data directory to read, while a server writes it or not.
///
/// # Errors
/// See [`OpenError`].
pub fn open_reader(data_dir: &Path) -> Result<Connection, OpenError> {
    let path = data_dir.join(FILE_NAME);
    match std::fs::metadata(&path) {
        Ok(metadata) if metadata.is_file() => {}
        Ok(_) => return Err(OpenError::NotALedger { path }),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            return Err(OpenError::Missing { path });
        }
        Err(source) => return Err(OpenError::Directory { path: data_dir.to_owned(), source }),
    }
    let connection = connect_to_read(&path)?;
    migrate::check_version(&connection, &path)?;
    migrate::check_kinds(&connection)?;
    Ok(connection)
}

/// Finds out whether a server could open what a data directory has: no ledger yet, one to be migrated and one that is served are
/// well. Changes nothing, and makes no file.
///
/// # Errors
/// See [`OpenError`].
pub fn check(data_dir: &Path) -> Result<(), OpenError> {
    let path = data_dir.join(FILE_NAME);
    if matches!(std::fs::metadata(&path), Err(error) if error.kind() == io::ErrorKind::NotFound) {
        return Ok(());
    }
    let has_wal = std::fs::metadata(path.with_extension("db-wal")).is_ok_and(|wal| wal.len() > 0);
    let connection = if has_wal { connect_to_read(&path)? } else { connect_at_rest(&path)? };
    migrate::check_openable(&connection, &path)
}

/// Of a file that has no WAL: otherwise SQLite would make one to read it.
fn connect_at_rest(path: &Path) -> Result<Connection, rusqlite::Error> {
    let escaped = path.as_os_str().as_encoded_bytes().iter().map(|byte| match byte {
        b'/' | b'.' | b'-' | b'_' | b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' => char::from(*byte).to_string(),
        other => format!("%{other:02X}"),
    });
    let flags =
        OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    Connection::open_with_flags(format!("file:{}?immutable=1", escaped.collect::<String>()), flags)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_served_while_a_reader_keeps_the_wal_from_being_settled() {
        let dir = tempfile::tempdir().unwrap();
        let open = || {
            let options = Options {
                data_dir: dir.path().to_owned(),
                synchronous: Synchronous::Off,
                checkpoint_pages: 100,
                vfs: None,
            };
            SqliteLedger::open_within(options, Duration::ZERO)
        };
        let first = open().unwrap();
        let reader = open_reader(dir.path()).unwrap();
        reader.execute_batch("BEGIN; SELECT * FROM meta").unwrap();
        drop(first);
        let error = open().unwrap_err();
        assert!(matches!(error, OpenError::Read { .. }), "{error}");
        assert!(error.to_string().contains("start again when that has ended"), "{error}");
        reader.execute_batch("COMMIT").unwrap();
        open().unwrap();
    }

    #[test]
    fn a_ledger_reports_how_its_connections_sync() {
        for (synchronous, reported) in
            [(Synchronous::Full, "full"), (Synchronous::Normal, "normal"), (Synchronous::Off, "off")]
        {
            let dir = tempfile::tempdir().unwrap();
            let options =
                Options { data_dir: dir.path().to_owned(), synchronous, checkpoint_pages: 100, vfs: None };
            let ledger = SqliteLedger::open(options).unwrap();
            let expected =
                [("journal_mode", "wal"), ("synchronous", reported), ("checkpoint_synchronous", reported)];
            assert_eq!(*ledger.settings(), expected.map(|(name, value)| (name, value.to_owned())));
        }
        // Not what `prepare` was asked for, but what the connection has.
        let connection = Connection::open_in_memory().unwrap();
        connection.pragma_update(None, "synchronous", "EXTRA").unwrap();
        assert_eq!(synchronous(&connection).unwrap(), "3");
    }

    #[test]
    fn no_connection_checkpoints_on_its_own_not_even_in_a_migration() {
        let dir = tempfile::tempdir().unwrap();
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE;
        let connection = connect(&dir.path().join(FILE_NAME), flags, None).unwrap();
        let pages: u32 = connection.pragma_query_value(None, "wal_autocheckpoint", |row| row.get(0)).unwrap();
        assert_eq!(pages, 0);
    }
}
