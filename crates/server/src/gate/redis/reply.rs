//! What an answer of Redis means: the error table, and the replies of the scripts.

use redis::{ServerError, Value};

use crate::gate::{Closed, GateError, Seen, Why};

/// What is done about an error reply. Each row says whether the command can have been carried out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ErrorMeaning {
    /// Not carried out; load the scripts and send it again.
    LoadScripts,
    /// Not carried out; the slot lives at this address now.
    Moved(usize, String),
    /// Not carried out; only this command goes there, after ASKING.
    Ask(String),
    /// Not carried out; the keys are being moved one by one: again in a moment.
    TryAgain,
    /// Not carried out, and the caller hears of it. `distrust`: the connection or the map of slots is out of date.
    Refused { why: Why, distrust: bool },
    /// Possibly carried out in part.
    Unknown(Why),
}

/// The error table.
pub(super) fn judge(error: &ServerError) -> ErrorMeaning {
    let details = error.details().unwrap_or_default();
    // A script that fails half way has kept what it wrote before. Errors from inside a script name it.
    if details.contains("user_script") {
        return ErrorMeaning::Unknown(Why::Unexpected(text(error)));
    }
    let refused = |why| ErrorMeaning::Refused { why, distrust: false };
    let distrusted = |why| ErrorMeaning::Refused { why, distrust: true };
    match error.code() {
        "NOSCRIPT" => ErrorMeaning::LoadScripts,
        "MOVED" => {
            redirect(details).map_or_else(|| unexpected(error), |(slot, to)| ErrorMeaning::Moved(slot, to))
        }
        "ASK" => redirect(details).map_or_else(|| unexpected(error), |(_, to)| ErrorMeaning::Ask(to)),
        "TRYAGAIN" => ErrorMeaning::TryAgain,
        "CLUSTERDOWN" => distrusted(Why::ClusterDown),
        "LOADING" => refused(Why::Loading),
        "READONLY" => distrusted(Why::ReadOnly),
        "MASTERDOWN" => distrusted(Why::MasterDown),
        "MISCONF" => refused(Why::DiskError),
        "BUSY" => refused(Why::Busy),
        "OOM" => refused(Why::OutOfMemory),
        "NOREPLICAS" => refused(Why::NoReplicas),
        // These texts name the user, the command or the key, and never a password.
        "NOAUTH" | "WRONGPASS" | "NOPERM" => distrusted(Why::Denied(text(error))),
        _ => unexpected(error),
    }
}

/// As the server said it.
pub(super) fn text(error: &ServerError) -> Box<str> {
    format!("{} {}", error.code(), error.details().unwrap_or_default()).trim_end().into()
}

/// An error that is not in the table says nothing about what was done.
fn unexpected(error: &ServerError) -> ErrorMeaning {
    ErrorMeaning::Unknown(Why::Unexpected(text(error)))
}

/// Slot and address in "slot host:port".
fn redirect(details: &str) -> Option<(usize, String)> {
    let (slot, address) = details.split_once(' ')?;
    Some((slot.parse().ok()?, address.to_owned()))
}

/// Codes of the scripts. lua/prelude.lua names those that it shares; lua/reserve.lua has them as numbers.
pub(super) mod code {
    pub(crate) const DONE: i64 = 0;
    pub(crate) const LOST: i64 = 1;
    pub(crate) const FENCED: i64 = 2;
    pub(crate) const OTHER_RUN: i64 = 3;
    pub(crate) const OPEN: i64 = 4;
    pub(crate) const SETTLED: i64 = 5;
    pub(crate) const CONFLICT: i64 = 6;
    pub(crate) const NOT_STARTED: i64 = 7;
    pub(crate) const PAUSED: i64 = 8;
    pub(crate) const ENDED: i64 = 9;
    pub(crate) const INVALID_QUANTITY: i64 = 10;
    pub(crate) const OVER_LIMIT: i64 = 11;
    pub(crate) const SOLD_OUT: i64 = 12;
    pub(crate) const NOT_ENOUGH: i64 = 13;
    pub(crate) const ALREADY: i64 = 14;
    pub(crate) const OLD: i64 = 15;
    pub(crate) const NOT_YET: i64 = 16;
    pub(crate) const DRIFT: i64 = 17;
    pub(crate) const OTHER_FORMAT: i64 = 18;
    pub(crate) const COOLING_DOWN: i64 = 19;
    pub(crate) const WRONG_CLOCK: i64 = 20;
    pub(crate) const OTHER_LIMIT: i64 = 21;
}

/// A script's answer: its code, the state after it, and whatever follows.
#[derive(Debug)]
pub(super) struct ScriptReply {
    pub(super) code: i64,
    pub(super) seen: Seen,
    pub(super) rest: Vec<Value>,
}

impl ScriptReply {
    /// Reads a script's answer; a closed gate is an error.
    pub(super) fn read(value: Value) -> Result<ScriptReply, GateError> {
        ScriptReply::parse(value).ok_or_else(malformed)?.of_an_open_gate()
    }

    /// What is said of one of several, as a reply: a code, or a code and what belongs to it.
    pub(super) fn part(&self, said: &Value) -> Result<ScriptReply, GateError> {
        let (code, rest) = match said {
            Value::Array(values) => values.split_first().ok_or_else(malformed)?,
            code => (code, &[][..]),
        };
        let code = int(code).ok_or_else(malformed)?;
        ScriptReply { code, seen: self.seen, rest: rest.to_vec() }.of_an_open_gate()
    }

    fn of_an_open_gate(self) -> Result<ScriptReply, GateError> {
        match self.code {
            code::LOST => Err(GateError::Closed(Closed::Lost)),
            code::FENCED => Err(GateError::Closed(Closed::Fenced)),
            code::OTHER_RUN => Err(GateError::Closed(Closed::OtherRun)),
            code::OTHER_LIMIT => Err(GateError::Closed(Closed::OtherLimit)),
            code::OTHER_FORMAT => Err(GateError::Closed(Closed::of_format(self.number()?))),
            code::WRONG_CLOCK => {
                let ahead_ms = self.rest.first().and_then(int).ok_or_else(malformed)?;
                Err(GateError::Closed(Closed::WrongClock { ahead_ms }))
            }
            _ => Ok(self),
        }
    }

    fn parse(value: Value) -> Option<ScriptReply> {
        let Value::Array(values) = value else { return None };
        let mut values = values.into_iter();
        let code = int(&values.next()?)?;
        // A gate that is lost has no state to report.
        let mut number = || values.next().as_ref().and_then(int).unwrap_or(0);
        let seen = Seen {
            epoch: u64::try_from(number()).ok()?,
            seq: u64::try_from(number()).ok()?,
            available: number(),
        };
        Some(ScriptReply { code, seen, rest: values.collect() })
    }

    /// The first value after the state, as a number.
    pub(super) fn number(&self) -> Result<u64, GateError> {
        self.rest.first().and_then(int).and_then(|n| u64::try_from(n).ok()).ok_or_else(malformed)
    }

    /// The first value after the state, as bytes.
    pub(super) fn bytes(&self) -> Result<&[u8], GateError> {
        self.rest.first().and_then(bytes).ok_or_else(malformed)
    }
}

/// The script ran, but its answer is not one of ours.
pub(super) fn malformed() -> GateError {
    GateError::Unknown(Why::Unexpected("the answer of the script can't be read".into()))
}

pub(super) fn int(value: &Value) -> Option<i64> {
    match value {
        Value::Int(number) => Some(*number),
        other => std::str::from_utf8(bytes(other)?).ok()?.parse().ok(),
    }
}

pub(super) fn bytes(value: &Value) -> Option<&[u8]> {
    match value {
        Value::BulkString(bytes) => Some(bytes),
        Value::SimpleString(text) => Some(text.as_bytes()),
        _ => None,
    }
}

pub(super) fn array(value: &Value) -> Option<&[Value]> {
    match value {
        Value::Array(values) => Some(values),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict_of(line: &str) -> ErrorMeaning {
        let Ok(Value::ServerError(error)) = redis::parse_redis_value(format!("-{line}\r\n").as_bytes())
        else {
            panic!("no error reply: {line}")
        };
        judge(&error)
    }

    #[test]
    fn each_error_has_its_row() {
        let refused = |why| ErrorMeaning::Refused { why, distrust: false };
        let distrusted = |why| ErrorMeaning::Refused { why, distrust: true };
        for (line, verdict) in [
            ("NOSCRIPT No matching script. Please use EVAL.", ErrorMeaning::LoadScripts),
            ("MOVED 3999 127.0.0.1:6381", ErrorMeaning::Moved(3999, "127.0.0.1:6381".into())),
            ("ASK 3999 127.0.0.1:6381", ErrorMeaning::Ask("127.0.0.1:6381".into())),
            ("TRYAGAIN Multiple keys request during rehashing of slot", ErrorMeaning::TryAgain),
            ("CLUSTERDOWN The cluster is down", distrusted(Why::ClusterDown)),
            ("CLUSTERDOWN Hash slot not served", distrusted(Why::ClusterDown)),
            ("LOADING Redis is loading the dataset in memory", refused(Why::Loading)),
            ("READONLY You can't write against a read only replica.", distrusted(Why::ReadOnly)),
            ("MASTERDOWN Link with MASTER is down", distrusted(Why::MasterDown)),
            ("MISCONF Redis is configured to save RDB snapshots", refused(Why::DiskError)),
            ("BUSY Redis is busy running a script.", refused(Why::Busy)),
            ("OOM command not allowed when used memory > 'maxmemory'.", refused(Why::OutOfMemory)),
            ("NOREPLICAS Not enough good replicas to write.", refused(Why::NoReplicas)),
            (
                "NOAUTH Authentication required.",
                distrusted(Why::Denied("NOAUTH Authentication required.".into())),
            ),
            (
                "WRONGPASS invalid username-password pair",
                distrusted(Why::Denied("WRONGPASS invalid username-password pair".into())),
            ),
            (
                "NOPERM User x has no permissions",
                distrusted(Why::Denied("NOPERM User x has no permissions".into())),
            ),
        ] {
            assert_eq!(verdict_of(line), verdict, "{line}");
        }
    }

    #[test]
    fn an_error_from_inside_a_script_or_an_unknown_one_says_nothing_about_what_was_done() {
        for line in [
            "OOM command not allowed script: 0123, on @user_script:9.",
            "ERR wrong type script: 0123, on @user_script:9.",
            "ERR something",
            "NEWCODE whatever",
            "MOVED",
        ] {
            assert!(matches!(verdict_of(line), ErrorMeaning::Unknown(_)), "{line}");
        }
    }
}
