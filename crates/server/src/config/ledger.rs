//! The part of the configuration that says where orders are kept.

use std::path::PathBuf;

use serde::Deserialize;

use super::{Problem, Secrets, path_unless_empty};
use crate::ledger::sqlite::Synchronous;
use crate::ledger::{Source, mysql};

/// The key that the shop signs with, in the data directory.
pub const SIGNING_KEY_FILE: &str = "report-key";

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ledger {
    pub backend: Backend,
    pub data_dir: PathBuf,
    #[serde(with = "SynchronousText")]
    pub synchronous: Synchronous,
    mysql_address: String,
    mysql_user: String,
    mysql_database: String,
    #[serde(deserialize_with = "path_unless_empty")]
    pub(super) mysql_password_file: Option<PathBuf>,
    mysql_tls: MySqlTls,
    #[serde(deserialize_with = "path_unless_empty")]
    mysql_ca_file: Option<PathBuf>,
    pub batch_commands_max: usize,
    pub queue_commands_max: usize,
    pub checkpoint_pages: u32,
    pub address_retention_days: u32,
    #[serde(deserialize_with = "path_unless_empty")]
    pub(super) signing_key_file: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub enum Backend {
    #[serde(rename = "sqlite")]
    Sqlite,
    #[serde(rename = "mysql")]
    MySql,
}

/// Whether the connection to the ledger's server is encrypted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MySqlTls {
    Off,
    Verified,
}

/// How the ledger's own type is written; what each survives is said in the defaults.
#[derive(Deserialize)]
#[serde(remote = "Synchronous", rename_all = "snake_case")]
enum SynchronousText {
    Full,
    Normal,
    Off,
}

impl Ledger {
    /// Where the ledger is to be opened or read.
    ///
    /// # Panics
    /// If the configuration was not checked.
    pub fn source(&self, secrets: &Secrets) -> Source {
        if self.backend == Backend::Sqlite {
            return Source::Directory(self.data_dir.clone());
        }
        Source::MySql(Box::new(self.mysql_options(secrets)))
    }

    pub(super) fn signing_key(&self) -> Option<PathBuf> {
        let in_data_dir = || (self.backend == Backend::Sqlite).then(|| self.data_dir.join(SIGNING_KEY_FILE));
        self.signing_key_file.clone().or_else(in_data_dir)
    }

    /// The ledger's server: of the book writer, and of a cluster whatever the backend is.
    ///
    /// # Panics
    /// If the configuration was not checked.
    pub fn mysql_options(&self, secrets: &Secrets) -> mysql::Options {
        let (host, port) = host_and_port(&self.mysql_address).expect("the configuration was checked");
        mysql::Options {
            host,
            port,
            user: self.mysql_user.clone(),
            password: secrets.mysql.clone(),
            database: self.mysql_database.clone(),
            tls: match self.mysql_tls {
                MySqlTls::Off => mysql::Tls::Off,
                MySqlTls::Verified => mysql::Tls::Verified { authorities: self.mysql_ca_file.clone() },
            },
            limits: mysql::Limits::default(),
        }
    }

    pub(super) fn check_mysql(&self, cluster: bool, problems: &mut Vec<Problem>) {
        if self.mysql_ca_file.is_some() && self.mysql_tls == MySqlTls::Off {
            let message = "has no effect without TLS: set ledger.mysql_tls = \"verified\", or leave it empty";
            problems.push(("ledger.mysql_ca_file", message.into()));
        }
        if self.backend != Backend::MySql && !cluster {
            return;
        }
        if host_and_port(&self.mysql_address).is_none() {
            let message = format!("= {:?} is no address: write it as host:port", self.mysql_address);
            problems.push(("ledger.mysql_address", message));
        }
        for (key, value) in
            [("ledger.mysql_user", &self.mysql_user), ("ledger.mysql_database", &self.mysql_database)]
        {
            if value.is_empty() {
                problems.push((key, "is empty: name it, the ledger is on a MySQL server".into()));
            }
        }
    }
}

/// Of `host:port`, with an IPv6 address in brackets.
fn host_and_port(address: &str) -> Option<(String, u16)> {
    let (host, port) = address.rsplit_once(':')?;
    let host = match host.strip_prefix('[') {
        Some(host) => host.strip_suffix(']')?,
        None if host.contains(':') => return None,
        None => host,
    };
    let port: u16 = port.parse().ok().filter(|port| *port > 0)?;
    (!host.is_empty()).then(|| (host.to_owned(), port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_a_host_and_a_port() {
        let cases = [
            ("db.example:3306", Some(("db.example", 3306))),
            ("[::1]:3306", Some(("::1", 3306))),
            ("127.0.0.1:1", Some(("127.0.0.1", 1))),
            ("::1:3306", None),
            ("[::1:3306", None),
            ("db.example", None),
            (":3306", None),
            ("db.example:0", None),
            ("db.example:70000", None),
        ];
        for (text, expected) in cases {
            let expected = expected.map(|(host, port)| (host.to_owned(), port));
            assert_eq!(host_and_port(text), expected, "{text}");
        }
    }
}
