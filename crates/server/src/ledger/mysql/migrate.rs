//! The tables' format: its version, and how an older one becomes the newest, under a lock.
//!
//! The server commits each change of a table by itself, so a migration that was cut off is in the middle of its
//! script: every statement of a script can be run again, and the version is written after the last of it.

use std::time::{Duration, Instant};

use mysql::Conn;
use mysql::prelude::Queryable;

use super::{OpenError, Options};
use crate::ledger::RowError;
use crate::ledger::rows::FURTHER_KINDS;

/// One script per format, each bringing the format before it to its own. Never changed once released.
const MIGRATIONS: [&str; 8] = [
    include_str!("../../../migrations/mysql/001.sql"),
    include_str!("../../../migrations/mysql/002.sql"),
    include_str!("../../../migrations/mysql/003.sql"),
    include_str!("../../../migrations/mysql/004.sql"),
    include_str!("../../../migrations/mysql/005.sql"),
    include_str!("../../../migrations/mysql/006.sql"),
    include_str!("../../../migrations/mysql/007.sql"),
    include_str!("../../../migrations/mysql/008.sql"),
];
/// What all servers that write must know, which `writer.format` says as well. A script that only adds what older ones need not
/// know leaves it.
pub(super) const FORMAT: i64 = 6;
/// Before a statement that can't be run twice: it is left out if this column or index is there.
const UNLESS: &str = "-- unless ";
/// How long another server may take to migrate before this one gives up, in portions that end by themselves.
const LOCK_PATIENCE: Duration = Duration::from_secs(600);
const LOCK_WAIT_S: u32 = 5;
const LOCK: &str = "doorbuster-";

/// Whether nothing has to be done: the usual start needs no lock, and no rights to change tables.
pub(super) fn is_newest(connection: &mut Conn, options: &Options) -> Result<bool, OpenError> {
    Ok(version(connection, options)? == Some(MIGRATIONS.len() as u64))
}

/// Brings the tables of the database to the newest format, or makes them. Several servers may do so at once.
pub(super) fn migrate(connection: &mut Conn, options: &Options) -> Result<(), OpenError> {
    migrate_by(connection, options, &MIGRATIONS)
}

fn migrate_by(connection: &mut Conn, options: &Options, scripts: &[&str]) -> Result<(), OpenError> {
    let newest = scripts.len() as u64;
    lock(connection)?;
    let migrated = migrate_locked(connection, options, scripts, newest);
    // The lock would go with the connection too, but others may wait for it.
    connection.query_drop(format!("DO RELEASE_LOCK({})", lock_name(LOCK)))?;
    migrated
}

fn migrate_locked(
    connection: &mut Conn,
    options: &Options,
    scripts: &[&str],
    newest: u64,
) -> Result<(), OpenError> {
    let found = version(connection, options)?.unwrap_or(0);
    if found > newest {
        return Err(OpenError::Newer { database: options.database.clone(), found, known: newest });
    }
    for (script, version) in scripts.iter().zip(1..) {
        if version <= found {
            continue;
        }
        tracing::info!(database = %options.database, format = version, "migrating the ledger");
        for statement in statements(script) {
            if !is_done(connection, statement)? {
                connection.query_drop(statement)?;
            }
        }
        connection.exec_drop("REPLACE INTO meta VALUES ('version', ?)", (version.to_string(),))?;
    }
    Ok(())
}

/// A statement ends with a semicolon at the end of a line.
fn statements(script: &str) -> impl Iterator<Item = &str> {
    script.split_inclusive(";\n").map(str::trim).filter(|statement| statement.ends_with(';'))
}

/// Whether a statement that can't be run twice was run before its script was cut off.
fn is_done(connection: &mut Conn, statement: &str) -> Result<bool, mysql::Error> {
    let Some((kind, table, name)) = unless(statement) else { return Ok(false) };
    let (listed, name_column) = match kind {
        "column" => ("columns", "column_name"),
        _ => ("statistics", "index_name"),
    };
    let there = format!(
        "SELECT COUNT(*) FROM information_schema.{listed} WHERE table_schema = DATABASE() AND table_name = ? \
         AND {name_column} = ?"
    );
    let found: Option<u64> = connection.exec_first(there, (table, name))?;
    Ok(found != Some(0))
}

/// "column" or "index", its table and its name.
fn unless(statement: &str) -> Option<(&str, &str, &str)> {
    let (kind, named) = statement.lines().find_map(|line| line.strip_prefix(UNLESS))?.split_once(' ')?;
    let (table, name) = named.split_once('.')?;
    Some((kind, table, name))
}

/// Of a lock of the connection's database. Names of locks are the whole server's and have at most 64 characters, so the
/// database's comes as its hash.
pub(super) fn lock_name(kind: &str) -> String {
    format!("CONCAT('{kind}', LEFT(SHA2(DATABASE(), 256), 40))")
}

fn lock(connection: &mut Conn) -> Result<(), OpenError> {
    let started = Instant::now();
    while started.elapsed() < LOCK_PATIENCE {
        let got: Option<Option<u8>> =
            connection.query_first(format!("SELECT GET_LOCK({}, {LOCK_WAIT_S})", lock_name(LOCK)))?;
        match got.flatten() {
            Some(1) => return Ok(()),
            _ => tracing::info!("another server migrates the ledger; waiting for it"),
        }
    }
    Err(OpenError::Migrating)
}

/// Refuses to read what is not a ledger of this format.
pub(super) fn check_version(connection: &mut Conn, options: &Options) -> Result<(), OpenError> {
    let newest = MIGRATIONS.len() as u64;
    let database = || options.database.clone();
    match version(connection, options)? {
        Some(found) if found == newest => Ok(()),
        Some(found) if found > newest => Err(OpenError::Newer { database: database(), found, known: newest }),
        Some(0) | None => Err(OpenError::Missing { database: database() }),
        Some(found) => Err(OpenError::Older { database: database(), found, known: newest }),
    }
}

/// Refuses a ledger with entries of a kind that a later release has added. What such an entry means for the orders
/// beside it can't be known here.
pub(super) fn check_kinds(connection: &mut Conn) -> Result<(), OpenError> {
    let known = FURTHER_KINDS.map(|kind| format!("'{kind}'")).join(", ");
    let first =
        format!("SELECT seq, kind FROM further_entries WHERE kind NOT IN ({known}) ORDER BY seq LIMIT 1");
    let first: Option<(u64, String)> = connection.query_first(first)?;
    match first {
        Some((seq, kind)) => Err(OpenError::Kind(RowError::Kind { seq, kind })),
        None => Ok(()),
    }
}

/// The format of a ledger; 0 for one whose first migration was cut off, `None` for an empty database.
pub(super) fn version(connection: &mut Conn, options: &Options) -> Result<Option<u64>, OpenError> {
    let not_ours = || OpenError::NotALedger { database: options.database.clone() };
    let tables: Vec<String> = connection
        .query("SELECT table_name FROM information_schema.tables WHERE table_schema = DATABASE() LIMIT 2")?;
    if tables.is_empty() {
        return Ok(None);
    }
    let ours = "SELECT COUNT(*) FROM information_schema.columns WHERE table_schema = DATABASE() \
                AND table_name = 'meta' AND column_name IN ('name', 'value')";
    if connection.query_first::<u64, _>(ours)? != Some(2) {
        return Err(not_ours());
    }
    let application: Option<Vec<u8>> =
        connection.query_first("SELECT value FROM meta WHERE name = 'application'")?;
    match application.as_deref() {
        Some(b"doorbuster") => {}
        // Cut off between its first two statements.
        None if tables.len() == 1 => return Ok(Some(0)),
        None | Some(_) => return Err(not_ours()),
    }
    let version: Option<Vec<u8>> = connection.query_first("SELECT value FROM meta WHERE name = 'version'")?;
    let Some(version) = version else { return Ok(Some(0)) };
    let number = std::str::from_utf8(&version).ok().and_then(|text| text.parse().ok());
    number.map(Some).ok_or_else(not_ours)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_format_is_that_of_a_script() {
        assert!(MIGRATIONS[5].contains(&format!("UPDATE writer SET format = {FORMAT} WHERE id = 1;")));
    }

    #[test]
    fn every_statement_of_a_script_can_be_run_again() {
        for script in MIGRATIONS {
            let mut count = 0;
            for statement in statements(script) {
                let code: Vec<&str> =
                    statement.lines().filter(|line| !line.trim_start().starts_with("--")).collect();
                let code = code.join("\n");
                let code = code.trim();
                let again = code.starts_with("CREATE TABLE IF NOT EXISTS")
                    || code.starts_with("INSERT IGNORE")
                    || code.starts_with("UPDATE writer SET format = ")
                    || (code.starts_with("ALTER TABLE") && code.contains(" MODIFY ") && !code.contains(','));
                let guarded = code.starts_with("ALTER TABLE") && unless(statement).is_some();
                assert_ne!(again, guarded, "{code}");
                if let Some((kind, table, name)) = unless(statement) {
                    assert!(code.starts_with(&format!("ALTER TABLE {table}")), "{code}");
                    assert!(code.contains(&format!(" {name} ")), "{code}");
                    assert!(["column", "index"].contains(&kind), "{code}");
                }
                assert_eq!(code.matches(';').count(), 1, "{code}");
                count += 1;
            }
            assert_eq!(count, script.matches(";\n").count());
            assert!(script.trim_end().ends_with(';'), "nothing after the last statement");
        }
    }
}
