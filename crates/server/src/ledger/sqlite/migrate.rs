//! The ledger's format: its version, and how an older one becomes the newest.

use std::path::Path;

use rusqlite::{Connection, OptionalExtension};

use super::backup::Existing;
use super::{OpenError, backup};
use crate::ledger::rows::{FURTHER_KINDS, RowError};

/// "Door" in ASCII: says that a file is ours.
const APPLICATION_ID: i64 = 0x446f_6f72;
/// One script per format, each bringing the format before it to its own. Never changed once released.
pub(super) const MIGRATIONS: [&str; 5] = [
    include_str!("../../../migrations/sqlite/001.sql"),
    include_str!("../../../migrations/sqlite/002.sql"),
    include_str!("../../../migrations/sqlite/003.sql"),
    include_str!("../../../migrations/sqlite/004.sql"),
    include_str!("../../../migrations/sqlite/005.sql"),
];
const NEWEST: i64 = 5;

/// Brings a ledger to the newest format. An older one is backed up beside itself first.
pub(super) fn migrate(connection: &Connection, path: &Path) -> Result<(), OpenError> {
    migrate_by(connection, path, &MIGRATIONS)
}

/// To the format that the last of these scripts makes.
fn migrate_by(connection: &Connection, path: &Path, scripts: &[&str]) -> Result<(), OpenError> {
    let found = version(connection, path)?.unwrap_or(0);
    let newest = i64::try_from(scripts.len()).expect("a handful");
    if found > newest {
        return Err(OpenError::Newer { path: path.to_owned(), found, known: newest });
    }
    if found == newest {
        return Ok(());
    }
    if found > 0 {
        let copy = path.with_extension(format!("db.format-{found}.bak"));
        tracing::info!(from = found, to = newest, backup = %copy.display(), "migrating the ledger");
        // One that is there is of a migration that did not come to its end: the ledger has all that it has.
        backup::copy(connection, &copy, Existing::Replace)?;
    }
    let start = usize::try_from(found).expect("a version is not negative");
    let mut script = String::from("BEGIN IMMEDIATE;\n");
    for migration in &scripts[start..] {
        script.push_str(migration);
    }
    script.push_str(&format!(
        "PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {newest}; COMMIT;"
    ));
    // An error leaves the transaction open; it goes with the connection, which is not used after it.
    Ok(connection.execute_batch(&script)?)
}

/// Refuses to read what is not a ledger of this format.
pub(super) fn check_version(connection: &Connection, path: &Path) -> Result<(), OpenError> {
    match version(connection, path)? {
        Some(NEWEST) => Ok(()),
        Some(found) if found > NEWEST => {
            Err(OpenError::Newer { path: path.to_owned(), found, known: NEWEST })
        }
        Some(found) => Err(OpenError::Older { path: path.to_owned(), found, known: NEWEST }),
        None => Err(OpenError::NotALedger { path: path.to_owned() }),
    }
}

/// Refuses what a server would not open: one of an older format it migrates, and an empty file it fills.
pub(super) fn check_openable(connection: &Connection, path: &Path) -> Result<(), OpenError> {
    match version(connection, path)? {
        Some(NEWEST) => check_kinds(connection),
        Some(found) if found > NEWEST => {
            Err(OpenError::Newer { path: path.to_owned(), found, known: NEWEST })
        }
        Some(_) | None => Ok(()),
    }
}

/// Refuses a ledger with entries of a kind that a later release has added. What such an entry means for the orders
/// beside it can't be known here.
pub(super) fn check_kinds(connection: &Connection) -> Result<(), OpenError> {
    let known = FURTHER_KINDS.map(|kind| format!("'{kind}'")).join(", ");
    let first =
        format!("SELECT seq, kind FROM further_entries WHERE kind NOT IN ({known}) ORDER BY seq LIMIT 1");
    let found =
        connection.query_row(&first, [], |row| Ok((row.get::<_, i64>(0)?, row.get(1)?))).optional()?;
    match found {
        Some((seq, kind)) => Err(OpenError::Kind(RowError::Kind { seq: seq.unsigned_abs(), kind })),
        None => Ok(()),
    }
}

/// The format of a ledger; `None` for an empty file.
fn version(connection: &Connection, path: &Path) -> Result<Option<i64>, OpenError> {
    let not_ours = || OpenError::NotALedger { path: path.to_owned() };
    let pragma = |name: &str| connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
    let application = match pragma("application_id") {
        Err(error) if error.sqlite_error_code() == Some(rusqlite::ErrorCode::NotADatabase) => {
            return Err(not_ours());
        }
        application => application?,
    };
    let tables: i64 = connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
    match (application, tables) {
        (APPLICATION_ID, _) => {
            let version = pragma("user_version")?;
            if version < 1 { Err(not_ours()) } else { Ok(Some(version)) }
        }
        (0, 0) => Ok(None),
        _ => Err(not_ours()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(path: &Path) -> Connection {
        Connection::open(path).unwrap()
    }

    #[test]
    fn an_empty_file_becomes_a_ledger_and_stays_one() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("ledger.db");
        let connection = open(&path);
        assert!(matches!(check_version(&connection, &path), Err(OpenError::NotALedger { .. })));
        migrate(&connection, &path).unwrap();
        check_version(&connection, &path).unwrap();
        migrate(&connection, &path).unwrap();
    }

    #[test]
    fn a_newer_ledger_is_refused_and_left_as_it_is() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("ledger.db");
        let connection = open(&path);
        migrate(&connection, &path).unwrap();
        connection.pragma_update(None, "user_version", NEWEST + 1).unwrap();
        assert!(
            matches!(migrate(&connection, &path), Err(OpenError::Newer { found, .. }) if found == NEWEST + 1)
        );
        assert!(matches!(check_version(&connection, &path), Err(OpenError::Newer { .. })));
    }

    const SECOND: &str = "ALTER TABLE messages ADD COLUMN note TEXT; UPDATE messages SET note = 'new';";

    /// A ledger of the first format with this many messages.
    fn of_first_format(path: &Path, messages: u32) -> Connection {
        let connection = open(path);
        migrate_by(&connection, path, &MIGRATIONS[..1]).unwrap();
        for _ in 0..messages {
            connection.execute("INSERT INTO messages (at, body) VALUES (1, x'41')", []).unwrap();
        }
        connection
    }

    fn found(connection: &Connection) -> (i64, u32) {
        let version = connection.pragma_query_value(None, "user_version", |row| row.get(0)).unwrap();
        (version, connection.query_row("SELECT count(*) FROM messages", [], |row| row.get(0)).unwrap())
    }

    #[test]
    fn an_older_ledger_is_backed_up_and_keeps_its_rows() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("ledger.db");
        let connection = of_first_format(&path, 3);
        migrate_by(&connection, &path, &[MIGRATIONS[0], SECOND]).unwrap();
        assert_eq!(found(&connection), (2, 3));
        let new = "SELECT count(*) FROM messages WHERE note = 'new'";
        assert_eq!(connection.query_row(new, [], |row| row.get::<_, u32>(0)).unwrap(), 3);
        let backup = open(&dir.path().join("ledger.db.format-1.bak"));
        assert_eq!(found(&backup), (1, 3));
        assert!(backup.prepare(new).is_err(), "the backup has the old format");
    }

    #[test]
    fn a_migration_that_failed_leaves_the_old_format_and_can_be_tried_again() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("ledger.db");
        let connection = of_first_format(&path, 1);
        let failing = format!("{SECOND} INSERT INTO nowhere VALUES (1);");
        assert!(migrate_by(&connection, &path, &[MIGRATIONS[0], &failing]).is_err());
        drop(connection);
        let connection = open(&path);
        assert_eq!(found(&connection), (1, 1));
        let older = check_version(&connection, &path).unwrap_err().to_string();
        assert!(older.contains("format 1") && older.contains(&format!("format {NEWEST}")), "{older}");
        // The older program went on with it meanwhile.
        connection.execute("INSERT INTO messages (at, body) VALUES (2, x'42')", []).unwrap();
        migrate_by(&connection, &path, &[MIGRATIONS[0], SECOND]).unwrap();
        assert_eq!(found(&connection), (2, 2));
        assert_eq!(found(&open(&dir.path().join("ledger.db.format-1.bak"))), (1, 2));
    }

    #[test]
    fn what_is_no_ledger_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let foreign = dir.path().join("foreign.db");
        let connection = open(&foreign);
        connection.execute_batch("CREATE TABLE notes (text TEXT)").unwrap();
        assert!(matches!(migrate(&connection, &foreign), Err(OpenError::NotALedger { .. })));
        let text = dir.path().join("text.db");
        std::fs::write(
            &text,
            "this is a letter, not a database, and long enough to have a header".repeat(10),
        )
        .unwrap();
        assert!(matches!(migrate(&open(&text), &text), Err(OpenError::NotALedger { .. })));
    }
}
