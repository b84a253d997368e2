//! Whose ledger it is. The embedded writer keeps in its memory what the cluster keeps in tables, so a ledger is one
//! or the other for good.

use mysql::Conn;
use mysql::prelude::Queryable;

use super::{OpenError, Options, migrate};

/// The kind of ledger, as its `meta` table says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Profile {
    Embedded,
    Cluster,
}

impl Profile {
    pub fn as_str(self) -> &'static str {
        match self {
            Profile::Embedded => "embedded",
            Profile::Cluster => "cluster",
        }
    }
}

/// The kind of a ledger; `None`: it is new.
pub(super) fn of(connection: &mut Conn) -> Result<Option<Profile>, mysql::Error> {
    let found: Option<Vec<u8>> = connection.query_first("SELECT value FROM meta WHERE name = 'profile'")?;
    Ok(match found.as_deref() {
        Some(b"cluster") => Some(Profile::Cluster),
        Some(_) => Some(Profile::Embedded),
        None => None,
    })
}

/// Checks that a ledger is of this kind, or new, before anything of it is changed: a migration would shut its own servers
/// out, for a program that may not use it.
///
/// # Errors
/// [`OpenError::Profile`] if it is of the other kind.
pub(super) fn check(connection: &mut Conn, options: &Options, wanted: Profile) -> Result<(), OpenError> {
    if matches!(migrate::version(connection, options)?, None | Some(0)) {
        return Ok(());
    }
    let found = match of(connection)? {
        Some(found) => found,
        None if is_empty(connection)? => return Ok(()),
        // As in `mark`.
        None => Profile::Embedded,
    };
    expect(found, wanted, options)
}

/// Whether a ledger has entries, and no demo has made it.
pub(super) fn is_a_shops(connection: &mut Conn, options: &Options) -> Result<bool, OpenError> {
    if matches!(migrate::version(connection, options)?, None | Some(0)) || is_empty(connection)? {
        return Ok(false);
    }
    let demo: Option<u8> = connection.query_first("SELECT 1 FROM meta WHERE name = 'demo'")?;
    Ok(demo.is_none())
}

fn is_empty(connection: &mut Conn) -> Result<bool, mysql::Error> {
    let next: Option<i64> = connection.query_first("SELECT next_seq FROM writer WHERE id = 1")?;
    Ok(next.is_none_or(|next| next == 1))
}

fn expect(found: Profile, wanted: Profile, options: &Options) -> Result<(), OpenError> {
    if found == wanted {
        return Ok(());
    }
    let (found, wanted) = (found.as_str(), wanted.as_str());
    Err(OpenError::Profile { database: options.database.clone(), found, wanted })
}

/// Makes a new ledger one of this kind, or checks that it is.
///
/// # Errors
/// [`OpenError::Profile`] if it is of the other kind.
pub(super) fn claim(connection: &mut Conn, options: &Options, profile: Profile) -> Result<(), OpenError> {
    let found = match of(connection)? {
        Some(found) => found,
        None => mark(connection, profile)?,
    };
    expect(found, profile, options)
}

/// Marks a ledger that is new, and says what it is now.
fn mark(connection: &mut Conn, profile: Profile) -> Result<Profile, mysql::Error> {
    // Under the lock of the writer's row, so that two programs can't both find it new.
    connection.query_drop("START TRANSACTION")?;
    let next: Option<i64> = connection.query_first("SELECT next_seq FROM writer WHERE id = 1 FOR UPDATE")?;
    let found = match of(connection)? {
        Some(found) => found,
        None if next == Some(1) => {
            let name = profile.as_str();
            connection.query_drop(format!("INSERT INTO meta VALUES ('profile', '{name}')"))?;
            profile
        }
        // The first ledgers were the embedded writer's and had no mark.
        None => Profile::Embedded,
    };
    connection.query_drop("COMMIT")?;
    Ok(found)
}
