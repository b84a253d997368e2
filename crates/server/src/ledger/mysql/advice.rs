//! What went wrong with the server, in words, and which key of the configuration to change if one decides that.

use std::io;

use mysql::{DriverError, Error};
use rustix::io::Errno;

use crate::tls_fault::{TlsKeys, explain};

const KEYS: TlsKeys = TlsKeys {
    off: "ledger.mysql_tls = \"off\"",
    authority: "ledger.mysql_ca_file",
    name: "name it so in ledger.mysql_address",
    client: "this program shows none to a database: the user must be let in without (ledger.mysql_user)",
};

/// The server's numbers of refusals that a key decides, MySQL's and MariaDB's.
const REFUSALS: [(u16, &str); 6] = [
    (1044, "that user may not use ledger.mysql_database: grant it, or name another"),
    (
        1045,
        "check ledger.mysql_user, ledger.mysql_password_file, and ledger.mysql_tls if it takes that user by TLS alone",
    ),
    (1049, "make the database, or check ledger.mysql_database"),
    (1130, "it lets no user in from this host: check ledger.mysql_user"),
    (1698, "check ledger.mysql_user and ledger.mysql_password_file"),
    (3159, "set ledger.mysql_tls = \"verified\""),
];

/// The error with what to do about it, if a key decides that.
pub(super) fn explained(error: &Error) -> String {
    let text = in_words(error);
    if is_late(&text) {
        return "it does not answer in time".to_owned();
    }
    let advice = match error {
        Error::MySqlError(error) => {
            let known = REFUSALS.iter().find(|(code, _)| *code == error.code);
            known.map(|(_, advice)| (*advice).to_owned())
        }
        Error::DriverError(DriverError::TlsNotSupported) => {
            Some("if it speaks no TLS, set ledger.mysql_tls = \"off\"".into())
        }
        Error::DriverError(DriverError::CouldNotConnect(_) | DriverError::ConnectTimeout) => {
            Some("check ledger.mysql_address".into())
        }
        _ => return explain(&text, &KEYS).unwrap_or(text),
    };
    match advice {
        Some(advice) => format!("{text}; {advice}"),
        None => text,
    }
}

/// As above, of a server that was to be reached. What answers as no such server does, or waits to be asked first as HTTP and Redis
/// do, is another one.
pub(super) fn unreached(error: &Error) -> String {
    let text = explained(error);
    if matches!(error, Error::MySqlError(_)) || text.contains("ledger.mysql_") {
        return text;
    }
    format!("{text}; check ledger.mysql_address: MySQL or MariaDB must be there")
}

/// Without the kind of error that the library writes around it: `DriverError { Could not connect }`.
fn in_words(error: &Error) -> String {
    let text = error.to_string();
    let inner = text.strip_suffix(" }").and_then(|text| text.split_once("Error { "));
    inner.filter(|(kind, _)| !kind.contains(' ')).map_or(text.clone(), |(_, words)| words.to_owned())
}

/// A wait whose time is over ends as the system says it, which is "Resource temporarily unavailable". By its words, because
/// the library does not hand out the kind.
fn is_late(text: &str) -> bool {
    let late = [Errno::AGAIN, Errno::TIMEDOUT].map(|errno| io::Error::from(errno).to_string());
    late.iter().any(|late| text.contains(late))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_is_late_is_said_to_be() {
        let explained = |errno: Errno| {
            let [one, other] = [(); 2].map(|()| io::Error::from(errno));
            [explained(&Error::IoError(one)), explained(&Error::CodecError(other.into()))]
        };
        for errno in [Errno::AGAIN, Errno::TIMEDOUT] {
            assert_eq!(explained(errno), ["it does not answer in time"; 2]);
        }
        for said in explained(Errno::CONNRESET) {
            assert!(!said.contains(['{', '}']), "{said}");
        }
        assert!(explained(Errno::CONNRESET).iter().all(|said| said.contains("reset by peer")));
    }
}
