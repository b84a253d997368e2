//! Databases beside the ledger's on its server, for rehearsals: found by their names, made and dropped, by one program at a
//! time.
//!
//! Must not: touch a database that is not named after the ledger's.

use std::fmt;
use std::time::Duration;

use mysql::Conn;
use mysql::prelude::Queryable;

use super::connect::{Limits, Options, Purpose, connect};
use super::{OpenError, migrate};

/// What follows the ledger's name in those of rehearsals.
pub const REHEARSAL: &str = "_rehearsal_";
/// The server's bound of a database's name, in characters.
pub const NAME_CHARS_MAX: usize = 64;
/// For whoever still has a table of a database that is to be dropped.
const LOCK_WAIT_S: u32 = 30;
/// The lock of a program that was killed is free once the server has noticed, and ended what that had asked for last.
const FREED_WITHIN_S: u32 = 3;
/// For an onlooker.
const LOOK_PATIENCE: Duration = Duration::from_secs(1);
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
        let name = lock_name(infix);
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

/// Of whoever works beside this ledger.
fn lock_name(infix: &str) -> String {
    migrate::lock_name(&format!("doorbuster{infix}"))
}

/// Who sees whether a program has the lock. It waits for nobody.
pub struct Onlooker {
    options: Options,
    lock_name: String,
    connection: Option<Conn>,
}

impl fmt::Debug for Onlooker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Onlooker").field("lock_name", &self.lock_name).finish_non_exhaustive()
    }
}

impl Onlooker {
    pub fn new(options: &Options, infix: &str) -> Onlooker {
        let limits = Limits { read: LOOK_PATIENCE, write: LOOK_PATIENCE, ..options.limits };
        let options = Options { limits, ..options.clone() };
        Onlooker { options, lock_name: lock_name(infix), connection: None }
    }

    /// # Errors
    /// If the server does not say.
    pub fn is_taken(&mut self) -> Result<bool, mysql::Error> {
        Ok(self.ask("IS_USED_LOCK(", ")")?.is_some())
    }

    /// Does this while no other program has the lock, and none can take it. `None`: one has it.
    ///
    /// # Errors
    /// If the server does not say; nothing was done.
    pub fn alone<T>(&mut self, act: impl FnOnce() -> T) -> Result<Option<T>, mysql::Error> {
        if self.ask("GET_LOCK(", ", 0)")? != Some(1) {
            return Ok(None);
        }
        let done = act();
        // The lock goes with its connection, too.
        drop(self.ask("RELEASE_LOCK(", ")"));
        Ok(Some(done))
    }

    fn ask(&mut self, function: &str, more: &str) -> Result<Option<u64>, mysql::Error> {
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => connect(&self.options, Purpose::Read)?.0,
        };
        let answer: Option<Option<u64>> =
            connection.query_first(format!("SELECT {function}{}{more}", self.lock_name))?;
        self.connection = Some(connection);
        Ok(answer.flatten())
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
