//! MySQL and MariaDB by the `mysql` crate: requests are SQL as text, judged by their results, on a connection that blocks.
//!
//! A request may hold several statements, separated by semicolons: so a whole transaction costs one round trip. If one
//! of them fails, the connection is closed, so that the server rolls back what was begun; the next request opens a new
//! one.

use mysql::prelude::Queryable;
use mysql::{Conn, Opts};

use crate::load::record::Outcome;
use crate::load::{Client, Verdicts};

/// Deadlock, lock wait timeout, too many connections, of one user, or too many statements at once.
const BUSY: [u16; 5] = [1213, 1205, 1040, 1203, 1226];
/// Shutdown in progress, interrupted, killed, aborted (1152, 1080), an error while committing, in the storage or in the
/// binary log (1026, 1598): none says how far it came.
const UNCERTAIN: [u16; 9] = [1053, 1317, 1927, 1152, 1080, 1180, 1030, 1026, 1598];

/// One statement that succeeded.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Statement {
    pub affected: u64,
    pub rows: u64,
}

/// What one user asks, and what the answers mean.
pub trait Workload: Send {
    fn statements(&mut self) -> String;
    /// The meaning of an answer in which every statement succeeded.
    fn judge(&mut self, results: &[Statement]) -> Outcome;
    /// The meaning of an error that is neither a matter of load nor uncertain: a duplicate, a broken rule.
    fn refused(&mut self, _code: u16) -> Outcome {
        Outcome::Failed
    }
}

#[derive(Debug)]
pub struct MySql<W> {
    pub workload: W,
    options: Opts,
    connection: Option<Conn>,
}

impl<W: Workload> MySql<W> {
    /// The read time limit of the options is how long an answer is waited for.
    pub fn connect(options: Opts, workload: W) -> mysql::Result<Self> {
        let connection = Conn::new(options.clone())?;
        Ok(Self { workload, options, connection: Some(connection) })
    }
}

impl<W: Workload> Client for MySql<W> {
    fn is_open(&self) -> bool {
        self.connection.is_some()
    }

    fn open(&mut self) -> anyhow::Result<()> {
        self.connection = Some(Conn::new(self.options.clone())?);
        Ok(())
    }

    fn ask(&mut self, verdicts: &mut Verdicts) -> bool {
        let connection = self.connection.as_mut().expect("whoever asks has opened it");
        let error = match results(connection, &self.workload.statements()) {
            Ok(results) => {
                verdicts.add(self.workload.judge(&results));
                return true;
            }
            Err(error) => error,
        };
        // A transaction may be open.
        self.connection = None;
        let code = match &error {
            mysql::Error::MySqlError(error) => Some(error.code),
            _ => None,
        };
        verdicts.add(match code {
            None => Outcome::Unknown,
            Some(code) if BUSY.contains(&code) => Outcome::Busy,
            Some(code) if UNCERTAIN.contains(&code) => Outcome::Unknown,
            Some(code) => self.workload.refused(code),
        });
        verdicts.surprise(|| error.to_string());
        code.is_some()
    }
}

/// Of each statement, in their order.
fn results(connection: &mut Conn, statements: &str) -> mysql::Result<Vec<Statement>> {
    let mut answer = connection.query_iter(statements)?;
    let mut results = Vec::new();
    while let Some(set) = answer.iter() {
        let mut result = Statement { affected: set.affected_rows(), rows: 0 };
        for row in set {
            row?;
            result.rows += 1;
        }
        results.push(result);
    }
    Ok(results)
}
