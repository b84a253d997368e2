//! The ledger's format: its version, and how an older one becomes the newest.

use std::path::Path;

use rusqlite::Connection;

use super::{OpenError, backup};

/// "Door" in ASCII: says that a file is ours.
const APPLICATION_ID: i64 = 0x446f_6f72;
/// One script per format, each bringing the format before it to its own. Never changed once released.
const MIGRATIONS: [&str; 1] = [include_str!("../../../migrations/sqlite/001.sql")];
const NEWEST: i64 = 1;

/// Brings a ledger to the newest format. An older one is backed up beside itself first.
pub(super) fn migrate(connection: &Connection, path: &Path) -> Result<(), OpenError> {
    let found = version(connection, path)?.unwrap_or(0);
    if found > NEWEST {
        return Err(OpenError::Newer { path: path.to_owned(), found, known: NEWEST });
    }
    if found == NEWEST {
        return Ok(());
    }
    if found > 0 {
        let copy = path.with_extension(format!("db.format-{found}.bak"));
        tracing::info!(from = found, to = NEWEST, backup = %copy.display(), "migrating the ledger");
        backup::copy(connection, &copy)?;
    }
    let start = usize::try_from(found).expect("a version is not negative");
    let mut script = String::from("BEGIN IMMEDIATE;\n");
    for migration in &MIGRATIONS[start..] {
        script.push_str(migration);
    }
    script.push_str(&format!(
        "PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {NEWEST}; COMMIT;"
    ));
    connection.execute_batch(&script)?;
    Ok(())
}

/// Refuses to read what is not a ledger of this format.
pub(super) fn check_version(connection: &Connection, path: &Path) -> Result<(), OpenError> {
    match version(connection, path)? {
        Some(NEWEST) => Ok(()),
        Some(found) if found > NEWEST => {
            Err(OpenError::Newer { path: path.to_owned(), found, known: NEWEST })
        }
        Some(found) => Err(OpenError::Older { path: path.to_owned(), found }),
        None => Err(OpenError::NotALedger { path: path.to_owned() }),
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
