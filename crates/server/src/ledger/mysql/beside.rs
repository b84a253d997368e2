//! Databases beside the ledger's on its server, for rehearsals: found by their names, made and dropped, by one program at a
//! time.
//!
//! Must not: touch a database that is not named after the ledger's.

use std::fmt;

use mysql::Conn;
use mysql::prelude::Queryable;

use super::connect::{Options, Purpose, connect};
use super::{OpenError, migrate};

/// The server's bound of a database's name, in characters.
pub const NAME_CHARS_MAX: usize = 64;
/// For whoever still has a table of a database that is to be dropped.
const LOCK_WAIT_S: u32 = 30;
/// The lock of a program that was killed is free once the server has noticed, and ended what that had asked for last.
const FREED_WITHIN_S: u32 = 3;
/// Access denied, to a database.
const DENIED: u16 = 1044;

/// Why nothing was made or dropped.
#[derive(Debug, thiserror::Error)]
pub enum BesideError {
    #[error(transparent)]
    Open(#[from] OpenError),
    #[error(
        "the user of the ledger may not make and drop databases beside it ({refusal}); as an administrator of that server: {grant}"
    )]
    Denied { refusal: String, grant: String },
    #[error("the ledger's server: {0}")]
    MySql(#[from] mysql::Error),
}

/// A connection with the lock, which goes with it, however this program ends.
pub struct Beside {
    connection: Conn,
    /// Of all names, the ledger's own among them.
    stem: String,
}

impl fmt::Debug for Beside {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Beside").field("stem", &self.stem).finish_non_exhaustive()
    }
}

impl Beside {
    /// Databases whose names begin with the ledger's own and `infix`. `None`: another program is at it.
    ///
    /// # Errors
    /// If the server can't be reached or refuses.
    pub fn open(options: &Options, infix: &str) -> Result<Option<Beside>, BesideError> {
        let failed = |source| OpenError::Connect { address: options.to_string(), source };
        // Dropping a database of millions of rows takes its time.
        let (mut connection, _) = connect(options, Purpose::Migrate).map_err(failed)?;
        connection.query_drop(format!("SET SESSION lock_wait_timeout = {LOCK_WAIT_S}"))?;
        let name = migrate::lock_name(&format!("doorbuster{infix}"));
        let got: Option<Option<u8>> =
            connection.query_first(format!("SELECT GET_LOCK({name}, {FREED_WITHIN_S})"))?;
        let stem = format!("{}{infix}", options.database);
        Ok((got.flatten() == Some(1)).then_some(Beside { connection, stem }))
    }

    /// What follows the stem in the names of those that there are. Some servers keep names in lower case.
    ///
    /// # Errors
    /// If the connection is lost.
    pub fn tails(&mut self) -> Result<Vec<String>, BesideError> {
        let names: Vec<String> =
            self.connection.query("SELECT schema_name FROM information_schema.schemata")?;
        let tail = |name: &String| {
            let (stem, tail) = name.split_at_checked(self.stem.len())?;
            stem.eq_ignore_ascii_case(&self.stem).then(|| tail.to_owned())
        };
        Ok(names.iter().filter_map(tail).collect())
    }

    /// # Errors
    /// [`BesideError::Denied`] with the right to give, or if the connection is lost.
    pub fn make(&mut self, tail: &str) -> Result<(), BesideError> {
        self.run("CREATE DATABASE", tail)
    }

    /// Drops it if it is there.
    ///
    /// # Errors
    /// As [`Beside::make`], whether or not it is there.
    pub fn drop(&mut self, tail: &str) -> Result<(), BesideError> {
        self.run("DROP DATABASE IF EXISTS", tail)
    }

    fn run(&mut self, what: &str, tail: &str) -> Result<(), BesideError> {
        match self.connection.query_drop(format!("{what} {}", quoted(&format!("{}{tail}", self.stem)))) {
            Err(mysql::Error::MySqlError(error)) if error.code == DENIED => {
                let user: Option<String> = self.connection.query_first("SELECT CURRENT_USER()")?;
                let grant = grant(&self.stem, &user.unwrap_or_default());
                Err(BesideError::Denied { refusal: error.message, grant })
            }
            done => Ok(done?),
        }
    }
}

fn quoted(name: &str) -> String {
    format!("`{}`", name.replace('`', "``"))
}

/// Of all databases that begin so. In a name that is granted, `_` and `%` stand for others unless they are escaped.
fn grant(stem: &str, user: &str) -> String {
    let (name, host) = user.rsplit_once('@').unwrap_or((user, "%"));
    let stem = stem.replace('\\', "\\\\").replace('_', "\\_").replace('%', "\\%");
    format!("GRANT ALL PRIVILEGES ON {}.* TO '{name}'@'{host}'", quoted(&format!("{stem}%")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_right_is_given_for_databases_of_that_beginning_alone() {
        assert_eq!(
            grant("my_shop_rehearsal_", "door@10.0.0.%"),
            "GRANT ALL PRIVILEGES ON `my\\_shop\\_rehearsal\\_%`.* TO 'door'@'10.0.0.%'"
        );
        assert_eq!(quoted("a`b"), "`a``b`");
    }
}
