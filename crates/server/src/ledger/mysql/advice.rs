//! Which key of the configuration to change, by what the server answered when we connected.

use mysql::{DriverError, Error};

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
    let text = error.to_string();
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
