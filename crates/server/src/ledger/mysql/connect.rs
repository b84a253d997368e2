//! One connection to the server, with a limit on every wait and with settings of its own, and what its errors mean.
//!
//! Works on MySQL 8 and MariaDB 10.6 and later. Must not: know a table.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use mysql::prelude::Queryable;
use mysql::{Conn, OptsBuilder, SslOpts};

use crate::intake::{EngineSettings, Setting};
use crate::secret::SecretBytes;

/// Where the ledger's server is, and as whom it is spoken to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    pub host: String,
    pub port: u16,
    pub user: String,
    pub password: Option<SecretBytes>,
    pub database: String,
    pub tls: Tls,
    pub limits: Limits,
}

impl fmt::Display for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "mysql://{}@{}/{}", self.user, self.address(), self.database)
    }
}

impl Options {
    /// Host and port.
    pub fn address(&self) -> String {
        let host = if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() };
        format!("{host}:{}", self.port)
    }

    /// Kind and address of the server, for people.
    pub fn server(&self) -> String {
        format!("mysql {}", self.address())
    }
}

/// Whether the connection is encrypted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Tls {
    Off,
    /// The server's certificate must be for its host, and signed by a public authority or one of this PEM file.
    Verified {
        authorities: Option<PathBuf>,
    },
}

/// How long anything is waited for. A server that does not answer in time is taken for lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    pub connect: Duration,
    /// Between two bytes of an answer.
    pub read: Duration,
    pub write: Duration,
    /// Of a statement, for the row locks of another connection. Below `read`, so that the server answers first.
    pub lock_wait: Duration,
    /// After which the server ends our connection, and with it an open transaction, if it hears nothing. In the
    /// middle of a transaction MariaDB takes `idle_transaction`.
    pub idle: Duration,
    pub idle_transaction: Duration,
    /// How long a batch waits for the server to come back and show whether its commit happened.
    pub settle: Duration,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            connect: Duration::from_secs(1),
            read: Duration::from_secs(4),
            write: Duration::from_secs(4),
            lock_wait: Duration::from_secs(2),
            idle: Duration::from_secs(10),
            idle_transaction: Duration::from_secs(3),
            settle: Duration::from_secs(5),
        }
    }
}

impl Limits {
    /// Within which whoever asks a server that says nothing any more gives up: a try begins before `settle` is over.
    pub fn given_up_within(&self) -> Duration {
        self.settle + self.connect + self.read
    }
}

/// What a connection is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Short transactions under the writer's row.
    Write,
    /// Statements that read thousands of rows and hold no lock.
    Read,
    /// Changing tables, which may copy them.
    Migrate,
}

/// Longer than any statement of a migration may take.
const MIGRATE_READ: Duration = Duration::from_secs(3600);
/// Between two statements of a reader, who may be writing to a slow terminal or pipe.
const READ_IDLE: Duration = Duration::from_secs(3600);

/// What the server said of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerInfo {
    pub version: String,
    pub mariadb: bool,
    /// Longest packet that it takes, in bytes: bounds a statement.
    pub packet_bytes_max: usize,
    /// 1: the engine's log is synced with each commit.
    pub flush_log_at_commit: u64,
    /// 1: the binlog, if there is one, is synced with each commit.
    pub sync_binlog: u64,
    pub binlog: bool,
}

impl ServerInfo {
    /// What the server's row of the guarantee table depends on.
    pub fn settings(&self, server: String) -> EngineSettings {
        let number = |name, value: u64| Setting::new(name, Ok(value.to_string()));
        let loses = "a power cut may lose payments and the last orders";
        let flush = number("innodb_flush_log_at_trx_commit", self.flush_log_at_commit).safe_if(&["1"], loses);
        let mut sync = number("sync_binlog", self.sync_binlog);
        if self.binlog {
            sync = sync.safe_if(&["1"], loses);
        }
        let binlog = if self.binlog { "ON" } else { "OFF" };
        EngineSettings {
            engine: server,
            settings: vec![flush, sync, Setting::new("log_bin", Ok(binlog.to_owned()))],
        }
    }

    /// Whether a commit that was answered survives a power cut of the server.
    pub fn is_durable(&self) -> bool {
        self.flush_log_at_commit == 1 && (self.sync_binlog == 1 || !self.binlog)
    }
}

/// Connects and sets the session up.
///
/// # Errors
/// If the server can't be reached in time, or refuses.
pub fn connect(options: &Options, purpose: Purpose) -> Result<(Conn, ServerInfo), mysql::Error> {
    let limits = &options.limits;
    let read = if purpose == Purpose::Migrate { MIGRATE_READ } else { limits.read };
    let password = options.password.as_ref().map(|secret| String::from_utf8_lossy(secret.as_bytes()));
    let tls = match &options.tls {
        Tls::Off => None,
        Tls::Verified { authorities } => Some(SslOpts::default().with_root_cert_path(authorities.clone())),
    };
    let builder = OptsBuilder::new()
        .ip_or_hostname(Some(options.host.as_str()))
        .tcp_port(options.port)
        .user(Some(options.user.as_str()))
        .pass(password)
        .db_name(Some(options.database.as_str()))
        // The host that was asked for, and no other way that the server names.
        .prefer_socket(false)
        .ssl_opts(tls)
        .tcp_connect_timeout(Some(limits.connect))
        .read_timeout(Some(read))
        .write_timeout(Some(limits.write));
    let mut connection = Conn::new(builder)?;
    let server = ask(&mut connection)?;
    for setting in settings(limits, purpose, server.mariadb) {
        connection.query_drop(setting)?;
    }
    Ok((connection, server))
}

/// The session's settings: nothing that matters is left to how a server happens to be configured.
fn settings(limits: &Limits, purpose: Purpose, mariadb: bool) -> Vec<String> {
    let idle = if purpose == Purpose::Write { limits.idle } else { READ_IDLE };
    let lock_wait = seconds(limits.lock_wait);
    let mut settings = vec![
        // A value that does not fit its column is an error and not another value.
        "SET SESSION sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION', time_zone = '+00:00', \
         autocommit = 1"
            .to_owned(),
        "SET NAMES utf8mb4".to_owned(),
        "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED".to_owned(),
        format!(
            "SET SESSION innodb_lock_wait_timeout = {lock_wait}, lock_wait_timeout = {lock_wait}, \
             wait_timeout = {}",
            seconds(idle)
        ),
    ];
    if mariadb && purpose == Purpose::Write {
        let idle = seconds(limits.idle_transaction);
        settings.push(format!("SET SESSION idle_write_transaction_timeout = {idle}"));
    }
    settings
}

fn seconds(limit: Duration) -> u64 {
    limit.as_secs().max(1)
}

/// What the server says of itself now.
///
/// # Errors
/// If the connection is lost.
pub fn ask(connection: &mut Conn) -> Result<ServerInfo, mysql::Error> {
    type Row = (String, u64, u64, u64, u64);
    let query =
        "SELECT VERSION(), @@max_allowed_packet, @@innodb_flush_log_at_trx_commit, @@sync_binlog, @@log_bin";
    let row: Option<Row> = connection.query_first(query)?;
    let Some((version, packet, flush_log_at_commit, sync_binlog, binlog)) = row else {
        return Err(mysql::Error::server_disconnected());
    };
    Ok(ServerInfo {
        mariadb: version.to_ascii_lowercase().contains("mariadb"),
        version,
        packet_bytes_max: usize::try_from(packet).unwrap_or(usize::MAX),
        flush_log_at_commit,
        sync_binlog,
        binlog: binlog != 0,
    })
}

/// What an error says about the statement that it answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meaning {
    /// The server gave way to another transaction, or waited too long for its lock. After a rollback the same
    /// can be tried again.
    Conflict,
    /// The connection is gone, and with it an open transaction. If a commit was sent, its outcome is unknown.
    Lost,
    /// The server said no, for a reason of its own: a full disk, a read-only server, a wrong statement. The
    /// statement was rolled back; what was before it in the transaction may not be, until that is.
    Refused,
}

impl Meaning {
    pub fn of(error: &mysql::Error) -> Meaning {
        /// Lock wait time-out, deadlock.
        const CONFLICTS: [u16; 2] = [1205, 1213];
        /// Shutdown, network errors, interrupted, killed, inactive for too long: MySQL's and MariaDB's numbers.
        const LOST: [u16; 12] = [1053, 1152, 1158, 1159, 1160, 1161, 1317, 1927, 1184, 3169, 4031, 1079];
        match error {
            mysql::Error::MySqlError(error) if CONFLICTS.contains(&error.code) => Meaning::Conflict,
            mysql::Error::MySqlError(error) if LOST.contains(&error.code) => Meaning::Lost,
            mysql::Error::MySqlError(_) | mysql::Error::UrlError(_) => Meaning::Refused,
            // The server answered what this program can't read: a wrong column is no reason to ask again.
            mysql::Error::FromValueError(_) | mysql::Error::FromRowError(_) => Meaning::Refused,
            mysql::Error::IoError(_)
            | mysql::Error::CodecError(_)
            | mysql::Error::DriverError(_)
            | mysql::Error::TlsError(_) => Meaning::Lost,
        }
    }
}

/// Whether the server takes no writes: it is a replica, or is about to be one.
pub fn is_read_only(error: &mysql::Error) -> bool {
    /// By an option of the server, and in its read-only mode.
    const READ_ONLY: [u16; 2] = [1290, 1836];
    matches!(error, mysql::Error::MySqlError(error) if READ_ONLY.contains(&error.code))
}

/// Runs several statements in one round trip and hands the number of rows that each changed to `each`.
///
/// # Errors
/// The first that failed; those after it were not run.
pub fn run_all(
    connection: &mut Conn,
    statements: &str,
    mut each: impl FnMut(u64),
) -> Result<(), mysql::Error> {
    let mut result = connection.query_iter(statements)?;
    while let Some(mut set) = result.iter() {
        let changed = set.affected_rows();
        // An error of a later statement comes as a row of its set.
        set.try_for_each(|row| row.map(|_| ()))?;
        each(changed);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server_error(code: u16) -> mysql::Error {
        mysql::Error::MySqlError(mysql::MySqlError {
            state: "HY000".to_owned(),
            message: String::new(),
            code,
        })
    }

    #[test]
    fn errors_mean_conflict_loss_or_refusal() {
        let cases = [
            (1213, Meaning::Conflict),
            (1205, Meaning::Conflict),
            (1927, Meaning::Lost),
            (4031, Meaning::Lost),
            (1053, Meaning::Lost),
            (1021, Meaning::Refused),
            (1290, Meaning::Refused),
            (1062, Meaning::Refused),
        ];
        for (code, meaning) in cases {
            assert_eq!(Meaning::of(&server_error(code)), meaning, "{code}");
            assert_eq!(is_read_only(&server_error(code)), code == 1290);
        }
        assert_eq!(Meaning::of(&mysql::Error::server_disconnected()), Meaning::Lost);
    }

    #[test]
    fn what_is_shown_of_the_options_has_no_password() {
        let options = Options {
            host: "::1".to_owned(),
            port: 3306,
            user: "shop".to_owned(),
            password: Some(SecretBytes::from(&b"hush"[..])),
            database: "sales".to_owned(),
            tls: Tls::Off,
            limits: Limits::default(),
        };
        assert_eq!(options.to_string(), "mysql://shop@[::1]:3306/sales");
        assert!(!format!("{options:?}").contains("hush"));
    }
}
