//! Whose ledger it is. The embedded writer keeps in its memory what the cluster keeps in tables, so a ledger is one
//! or the other for good.

use mysql::Conn;
use mysql::prelude::Queryable;

use super::{OpenError, Options};

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

/// Makes a new ledger one of this kind, or checks that it is.
///
/// # Errors
/// [`OpenError::Profile`] if it is of the other kind.
pub(super) fn claim(connection: &mut Conn, options: &Options, profile: Profile) -> Result<(), OpenError> {
    let found = match of(connection)? {
        Some(found) => found,
        None => mark(connection, profile)?,
    };
    if found == profile {
        return Ok(());
    }
    let (found, wanted) = (found.as_str(), profile.as_str());
    Err(OpenError::Profile { database: options.database.clone(), found, wanted })
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
