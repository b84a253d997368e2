//! The MySQL protocol, as MySQL and MariaDB speak it: requests are SQL as text, judged by their results.
//!
//! A request may hold several statements, separated by semicolons (`CLIENT_MULTI_STATEMENTS`): so a whole transaction
//! costs one round trip, and one [`Protocol`] request. If one of them fails, the connection is closed, so that the
//! server rolls back what was begun; the next request opens a new one. Prepared statements and encryption are not here.

mod answer;
mod handshake;
mod packet;

use crate::load::record::Outcome;
use crate::load::{ConnectionId, Greeting, Protocol, Received, Verdicts};

use self::answer::Reading;
pub use self::answer::{Answer, Error, Statement};
use self::handshake::Step;

const QUERY: u8 = 0x03;
/// Deadlock, lock wait timeout, too many connections, of one user, or too many statements at once.
const BUSY: [u16; 5] = [1213, 1205, 1040, 1203, 1226];
/// Shutdown in progress, interrupted, killed, aborted (1152, 1080), an error while committing, in the storage or in the
/// binary log (1026, 1598): none says how far it came.
const UNCERTAIN: [u16; 9] = [1053, 1317, 1927, 1152, 1080, 1180, 1030, 1026, 1598];

/// Who logs in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Login {
    pub user: String,
    /// Proved by `mysql_native_password`; may be empty.
    pub password: String,
    pub database: Option<String>,
}

/// What is asked, and what the answers mean.
pub trait Workload {
    /// Appends the user's next statements.
    fn statements(&mut self, user: usize, out: &mut Vec<u8>);
    /// The meaning of an answer to the user in which every statement succeeded.
    fn judge(&mut self, user: usize, results: &[Statement]) -> Outcome;
    /// The meaning of an error that is neither a matter of load nor uncertain: a duplicate, a broken rule.
    fn refused(&mut self, _user: usize, _error: &Error) -> Outcome {
        Outcome::Failed
    }
}

/// A workload over the protocol.
#[derive(Debug)]
pub struct MySql<W> {
    pub workload: W,
    login: Login,
    users: Vec<(Step, Reading)>,
}

impl<W: Workload> MySql<W> {
    pub fn new(login: Login, connections: usize, workload: W) -> Self {
        let users = (0..connections).map(|_| (Step::default(), Reading::default())).collect();
        Self { workload, login, users }
    }
}

impl<W: Workload> Protocol for MySql<W> {
    fn greets(&self) -> bool {
        true
    }

    fn greet(&mut self, connection: ConnectionId, bytes: &[u8], out: &mut Vec<u8>) -> Greeting {
        handshake::greet(&mut self.users[connection.user].0, &self.login, bytes, out)
    }

    fn request(&mut self, user: usize, out: &mut Vec<u8>) -> usize {
        self.users[user].1.begin();
        packet::append(out, 0, |out| {
            out.push(QUERY);
            self.workload.statements(user, out);
        });
        0
    }

    fn receive(&mut self, connection: ConnectionId, bytes: &[u8], verdicts: &mut Verdicts) -> Received {
        let reading = &mut self.users[connection.user].1;
        let consumed = match reading.read(bytes) {
            Err(why) => return Received::Broken(why),
            Ok((consumed, false)) => return Received::Part { consumed },
            Ok((consumed, true)) => consumed,
        };
        let Answer { results, error } = reading.answer();
        let outcome = match error {
            None => self.workload.judge(connection.user, results),
            Some(error) if BUSY.contains(&error.code) => Outcome::Busy,
            Some(error) if UNCERTAIN.contains(&error.code) => Outcome::Unknown,
            Some(error) => self.workload.refused(connection.user, error),
        };
        verdicts.add(outcome);
        if let Some(error) = error {
            verdicts.surprise(|| format!("error {}: {}", error.code, error.text));
        }
        // With an error, a transaction may be open.
        Received::Whole { consumed, keep_alive: error.is_none() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Insert;

    impl Workload for Insert {
        fn statements(&mut self, _user: usize, out: &mut Vec<u8>) {
            out.extend_from_slice(b"INSERT");
        }

        fn judge(&mut self, _user: usize, results: &[Statement]) -> Outcome {
            if results[0].affected == 1 { Outcome::Won } else { Outcome::SoldOut }
        }

        fn refused(&mut self, _user: usize, error: &Error) -> Outcome {
            if error.code == 1062 { Outcome::OverLimit } else { Outcome::Failed }
        }
    }

    fn outcome_of(payload: &[u8]) -> (Outcome, Received) {
        let login = Login { user: "root".into(), password: String::new(), database: None };
        let mut mysql = MySql::new(login, 1, Insert);
        let (mut request, mut verdicts) = (Vec::new(), Verdicts::default());
        mysql.request(0, &mut request);
        assert_eq!(request, b"\x07\0\0\0\x03INSERT");
        let mut answer = Vec::new();
        packet::append(&mut answer, 1, |out| out.extend_from_slice(payload));
        let received = mysql.receive(ConnectionId { user: 0, lane: 0 }, &answer, &mut verdicts);
        let mut record = crate::load::record::Record::default();
        let now = std::time::Instant::now();
        record.settle(&mut verdicts, crate::load::record::Clocks { planned: now, sent: now, answered: now });
        let all = [
            Outcome::Won,
            Outcome::SoldOut,
            Outcome::OverLimit,
            Outcome::Busy,
            Outcome::Failed,
            Outcome::Unknown,
        ];
        (all.into_iter().find(|outcome| record.outcomes.of(*outcome) == 1).unwrap(), received)
    }

    #[test]
    fn results_and_errors_are_judged() {
        let error = |code: u16| [&[0xff][..], &code.to_le_bytes(), b"#HY000text"].concat();
        for (payload, wanted, alive) in [
            (b"\0\x01\0\x02\0\0\0".to_vec(), Outcome::Won, true),
            (b"\0\0\0\x02\0\0\0".to_vec(), Outcome::SoldOut, true),
            (error(1213), Outcome::Busy, false),
            (error(1205), Outcome::Busy, false),
            (error(1062), Outcome::OverLimit, false),
            (error(1146), Outcome::Failed, false),
            (error(1053), Outcome::Unknown, false),
        ] {
            let (outcome, received) = outcome_of(&payload);
            assert_eq!(outcome, wanted, "{payload:?}");
            assert!(matches!(received, Received::Whole { keep_alive, .. } if keep_alive == alive));
        }
    }
}
