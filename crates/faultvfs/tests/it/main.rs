//! The shim under real SQLite connections: one file a subject, and the small database that they share.
#![allow(clippy::unwrap_used, reason = "a test that can't go on shall panic, in its helpers too")]

mod concurrent;
mod durability;
mod every_fault;
mod sync_failure;

use std::path::{Path, PathBuf};

use faultvfs::FaultVfs;
use rusqlite::{Connection, OpenFlags};

/// A shim of its own for each test, and a directory for its database.
struct Bed {
    vfs: FaultVfs,
    vfs_name: String,
    dir: tempfile::TempDir,
}

impl Bed {
    fn new(test: &str) -> Bed {
        let dir = tempfile::tempdir().unwrap();
        // The directory's name is unique, so that the cases of one test do not share a shim.
        let vfs_name = format!("{test}-{}", dir.path().file_name().unwrap().to_str().unwrap());
        Bed { vfs: FaultVfs::register(&vfs_name), vfs_name, dir }
    }

    fn database(&self) -> PathBuf {
        self.dir.path().join("ledger.db")
    }

    /// A directory beside the database, for an image.
    fn image(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn open(&self, synchronous: &str) -> rusqlite::Result<Connection> {
        let flags = OpenFlags::default();
        let connection = Connection::open_with_flags_and_vfs(self.database(), flags, self.vfs_name.as_str())?;
        connection.pragma_update(None, "journal_mode", "WAL")?;
        connection.pragma_update(None, "synchronous", synchronous)?;
        connection.pragma_update(None, "wal_autocheckpoint", 0)?;
        connection.execute_batch(
            "CREATE TABLE IF NOT EXISTS orders (id INTEGER PRIMARY KEY, body BLOB NOT NULL)",
        )?;
        Ok(connection)
    }

    /// A connection that is ready, and the WAL empty.
    fn open_checkpointed(&self, synchronous: &str) -> Connection {
        let connection = self.open(synchronous).unwrap();
        checkpoint(&connection).unwrap();
        connection
    }
}

/// One transaction of one row, which does not fit into one page.
fn place(connection: &Connection, id: i64) -> rusqlite::Result<()> {
    connection.execute_batch("BEGIN IMMEDIATE")?;
    let body = vec![u8::try_from(id % 251).unwrap(); 5000];
    connection.execute("INSERT INTO orders VALUES (?1, ?2)", (id, body))?;
    connection.execute_batch("COMMIT")
}

/// Everything into the database, and the WAL cut to nothing.
fn checkpoint(connection: &Connection) -> rusqlite::Result<()> {
    checkpoint_mode(connection, "TRUNCATE")
}

/// Everything into the database; the next commit writes over the WAL from its beginning.
fn checkpoint_to_reuse(connection: &Connection) -> rusqlite::Result<()> {
    checkpoint_mode(connection, "RESTART")
}

fn checkpoint_mode(connection: &Connection, mode: &str) -> rusqlite::Result<()> {
    let busy: i64 = connection.query_row(&format!("PRAGMA wal_checkpoint({mode})"), [], |row| row.get(0))?;
    assert_eq!(busy, 0, "no other connection is in the way");
    Ok(())
}

/// Rows 1 to 9 in one commit each, and a checkpoint after every third: the WAL grows, is reused, and is cut to nothing.
/// Returns the rows that were committed, and the error that ended the run.
fn run(connection: &Connection) -> (Vec<i64>, rusqlite::Result<()>) {
    let mut committed = Vec::new();
    let mut step = |id: i64| {
        place(connection, id)?;
        committed.push(id);
        match id {
            3 => checkpoint_to_reuse(connection),
            6 | 9 => checkpoint(connection),
            _ => Ok(()),
        }
    };
    let result = (1..=9).try_for_each(&mut step);
    (committed, result)
}

fn ids(connection: &Connection) -> rusqlite::Result<Vec<i64>> {
    let mut select = connection.prepare("SELECT id FROM orders ORDER BY id")?;
    select.query_map([], |row| row.get(0))?.collect()
}

/// Opens an image as the next process would, without the shim: the rows, if the database is sound.
fn ids_in(image: &Path) -> Result<Vec<i64>, String> {
    let read = || {
        let connection = Connection::open(image.join("ledger.db"))?;
        let verdict: String = connection.query_row("PRAGMA integrity_check", [], |row| row.get(0))?;
        Ok((verdict, ids(&connection)?))
    };
    let (verdict, ids) = read().map_err(|error: rusqlite::Error| error.to_string())?;
    if verdict == "ok" { Ok(ids) } else { Err(verdict) }
}

/// SQLite's extended result code.
fn code(error: &rusqlite::Error) -> i32 {
    error.sqlite_error().expect("the error came from SQLite").extended_code
}
