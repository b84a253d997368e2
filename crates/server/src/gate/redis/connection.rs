//! One connection to one node: opened, asked who is there, and dropped at the first sign of trouble.
//!
//! It sends packed commands and reads replies one by one, so that whoever calls knows of each command whether it was
//! answered. It retries nothing.

use std::time::Duration;

use redis::io::tcp::TcpSettings;
use redis::{
    Client, ClientTlsConfig, Cmd, ConnectionAddr, ErrorKind, IntoConnectionInfo, ProtocolVersion,
    RedisConnectionInfo, RedisError, TlsCertificates, Value,
};

use super::link::Link;
use super::plain::Plain;
use super::reply::{self, ErrorMeaning};
use super::scripts;
use crate::gate::{GateConfig, GateTls, Layout, Why};
use crate::time::Instant;
use crate::tls_fault::{TlsKeys, explain};

/// Which run of which master a state belongs to: 20 digits of the process's `run_id` and 20 of `master_replid2`. The run
/// id shows a restart. The other is zeros until a replica is promoted, and then the id of the history that it had
/// followed: it shows that a master was a replica in between, as the same process. (`master_replid` would show it too,
/// but it also changes when a master gets its first replica.)
pub(super) type Run = String;

const RUN_DIGITS: usize = 20;

const KEYS: TlsKeys = TlsKeys {
    off: "gate.tls = false",
    authority: "gate.tls_authority_file",
    name: "name it so in gate.addresses",
    client: "check gate.tls_certificate_file and gate.tls_key_file",
};
const CLOSED_TLS: &str =
    "it closed the connection in the TLS handshake: if it speaks no TLS, set gate.tls = false";
const SILENT_TLS: &str = "it does not answer in TLS in time: if it speaks no TLS, set gate.tls = false";
const CLOSED_PLAIN: &str =
    "it closed the connection without an answer: if it takes TLS alone, set gate.tls = true";

pub(super) const NO_REDIS: &str = "it does not speak Redis' protocol (gate.addresses)";
const SENTINEL: &str = "it is a Sentinel: set gate.mode = \"sentinel\", and gate.sentinel_master";

/// Times shorter than this can't be waited for by a socket.
const SHORTEST_WAIT: Duration = Duration::from_millis(1);

pub(super) struct Connection {
    link: Box<dyn Link>,
    pub(super) run: Run,
    used_at: Instant,
    /// As set in the link.
    read_timeout: Duration,
    /// Until a plain command is answered.
    patience: Duration,
    idle_check: Duration,
    /// Why it is of no more use: what it is owed may still come, and would be taken for the answer to something else.
    broken: Option<Why>,
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connection").field("run", &self.run).finish_non_exhaustive()
    }
}

impl Connection {
    /// Connects, signs in, makes sure that a master is there, and loads the scripts into it.
    pub(super) fn open(config: &GateConfig, address: &str) -> Result<Connection, Why> {
        let mut connection = Connection::to_anybody(config, address)?;
        connection.run = connection.identify().map_err(|why| unopened(why, config.tls.is_some()))?;
        connection.load_scripts()?;
        connection.patience = config.reply_timeout;
        Ok(connection)
    }

    /// Connects and signs in, whoever is there.
    pub(super) fn to_anybody(config: &GateConfig, address: &str) -> Result<Connection, Why> {
        let tls = config.tls.is_some();
        let mut link = match &config.dial {
            Some(dial) => dial.dial(address)?,
            None => dial_tcp(config, address)?,
        };
        link.wait_at_most(config.connect_timeout)?;
        let mut connection = Connection {
            link,
            run: Run::new(),
            used_at: Instant::now(),
            read_timeout: config.connect_timeout,
            patience: config.connect_timeout,
            idle_check: config.idle_check,
            broken: None,
        };
        match connection.sign_in(config) {
            // Its password is another one than Redis', if it has any.
            Err(Why::Denied(_)) if connection.is_unwanted_sentinel(config) => {
                Err(Why::Refused(SENTINEL.into()))
            }
            Err(why) => Err(unopened(why, tls)),
            Ok(()) => Ok(connection),
        }
    }

    fn is_unwanted_sentinel(&mut self, config: &GateConfig) -> bool {
        config.layout == Layout::Single && self.info("server").is_ok_and(|info| is_sentinel(&info))
    }

    /// By a command of our own: the crate would not report what the server answered.
    fn sign_in(&mut self, config: &GateConfig) -> Result<(), Why> {
        let Some(password) = &config.password else { return Ok(()) };
        let mut command = redis::cmd("AUTH");
        command.arg(&config.user).arg(password);
        match self.ask(&command) {
            Ok(_) => Ok(()),
            // A server that does not know the command repeats what it was sent.
            Err(Why::Unexpected(text)) if text.contains(password.as_str()) => {
                Err(Why::Denied("it can't sign anybody in (AUTH)".into()))
            }
            Err(Why::Unexpected(text)) => Err(Why::Denied(text)),
            Err(why) => Err(why),
        }
    }

    /// Before use: whoever was idle asks again who is there. One that has failed is never used again.
    pub(super) fn is_fresh(&mut self) -> bool {
        if self.broken.is_some() {
            return false;
        }
        if self.used_at.elapsed() < self.idle_check {
            return true;
        }
        match self.identify() {
            Ok(run) => run == self.run,
            Err(_) => false,
        }
    }

    /// The run of the master at the other end; an error if it is none.
    fn identify(&mut self) -> Result<Run, Why> {
        let server = self.info("server")?;
        if is_sentinel(&server) {
            return Err(Why::Refused(SENTINEL.into()));
        }
        let replication = self.info("replication")?;
        if field(&replication, "role") != Some("master") {
            return Err(Why::ReadOnly);
        }
        let part =
            |text: &str, name| field(text, name).and_then(|id| id.get(..RUN_DIGITS)).map(str::to_owned);
        part(&server, "run_id")
            .zip(part(&replication, "master_replid2"))
            .map(|(process, replication)| process + &replication)
            .ok_or_else(|| Why::Unexpected("INFO names no run".into()))
    }

    pub(super) fn info(&mut self, section: &str) -> Result<String, Why> {
        let mut command = redis::cmd("INFO");
        command.arg(section);
        let value = self.ask(&command)?;
        reply::bytes(&value)
            .and_then(|bytes| String::from_utf8(bytes.to_vec()).ok())
            .or(match value {
                Value::VerbatimString { text, .. } => Some(text),
                _ => None,
            })
            .ok_or_else(|| Why::Unexpected("INFO is no text".into()))
    }

    pub(super) fn load_scripts(&mut self) -> Result<(), Why> {
        for script in scripts::ALL {
            let mut command = redis::cmd("SCRIPT");
            command.arg("LOAD").arg(script.text());
            let value = self.ask(&command)?;
            if reply::bytes(&value) != Some(script.sha().as_bytes()) {
                return Err(Why::ScriptMissing);
            }
        }
        Ok(())
    }

    /// One plain command that changes nothing which matters if it is lost.
    pub(super) fn ask(&mut self, command: &Cmd) -> Result<Value, Why> {
        self.wait_at_most(self.patience)?;
        self.write(&command.get_packed_command())?;
        match self.read()? {
            Value::ServerError(error) => Err(match reply::judge(&error) {
                ErrorMeaning::Refused { why, .. } | ErrorMeaning::Unknown(why) => why,
                ErrorMeaning::LoadScripts => Why::ScriptMissing,
                _ => Why::Unexpected(reply::text(&error)),
            }),
            value => Ok(value),
        }
    }

    /// Writes packed commands. An error says nothing about how many of them have left.
    pub(super) fn write(&mut self, bytes: &[u8]) -> Result<(), Why> {
        self.used_at = Instant::now();
        self.through(|link| link.write(bytes))
    }

    /// The next reply, an error reply included.
    pub(super) fn read(&mut self) -> Result<Value, Why> {
        self.through(|link| link.read())
    }

    /// Replies are waited for at most so long from now on.
    pub(super) fn wait_at_most(&mut self, limit: Duration) -> Result<(), Why> {
        let limit = limit.max(SHORTEST_WAIT);
        if limit != self.read_timeout {
            self.through(|link| link.wait_at_most(limit))?;
            self.read_timeout = limit;
        }
        Ok(())
    }

    fn through<T>(&mut self, act: impl FnOnce(&mut dyn Link) -> Result<T, Why>) -> Result<T, Why> {
        if let Some(why) = &self.broken {
            return Err(why.clone());
        }
        let done = act(self.link.as_mut());
        self.broken = done.as_ref().err().cloned();
        done
    }
}

/// One command over a connection of its own, to whoever is there.
pub(super) fn ask_once(config: &GateConfig, address: &str, command: &Cmd) -> Result<Value, Why> {
    let mut connection = Connection::to_anybody(config, address)?;
    connection.ask(command).map_err(|why| unopened(why, config.tls.is_some()))
}

fn is_sentinel(info: &str) -> bool {
    field(info, "redis_mode") == Some("sentinel")
}

/// A field of INFO.
pub(super) fn field<'a>(info: &'a str, name: &str) -> Option<&'a str> {
    info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))
}

fn dial_tcp(config: &GateConfig, address: &str) -> Result<Box<dyn Link>, Why> {
    let (host, port) = address
        .rsplit_once(':')
        .and_then(|(host, port)| Some((host, port.parse::<u16>().ok()?)))
        .ok_or(Why::Invalid("an address of the gate must be host:port"))?;
    let Some(tls) = &config.tls else {
        let link = Plain::dial(config, (host, port)).map_err(|why| unopened(why, false))?;
        return Ok(Box::new(link));
    };
    let socket = tls_client(tls, host, port)?
        .get_connection_with_timeout(config.connect_timeout)
        .map_err(|error| unopened(broken(&error), true))?;
    socket.set_write_timeout(Some(config.reply_timeout)).map_err(|error| broken(&error))?;
    Ok(Box::new(socket))
}

fn tls_client(tls: &GateTls, host: &str, port: u16) -> Result<Client, Why> {
    let settings = RedisConnectionInfo::default().set_protocol(ProtocolVersion::RESP2);
    let information =
        ConnectionAddr::TcpTls { host: host.to_owned(), port, insecure: false, tls_params: None }
            .into_connection_info()
            .map_err(|error| broken(&error))?
            .set_redis_settings(settings)
            .set_tcp_settings(TcpSettings::default().set_nodelay(true));
    let client_tls =
        tls.client.clone().map(|(client_cert, client_key)| ClientTlsConfig { client_cert, client_key });
    let certificates = TlsCertificates { client_tls, root_cert: tls.ca.clone() };
    Client::build_with_tls(information, certificates).map_err(|error| broken(&error))
}

pub(super) fn broken(error: &RedisError) -> Why {
    let text = error.to_string();
    if let Some(line) = explain(&text, &KEYS) {
        Why::Refused(line.into())
    } else if error.is_timeout() {
        Why::TimedOut
    } else if error.is_connection_refusal() {
        Why::Unreachable
    } else if error.is_io_error() {
        Why::ConnectionLost
    } else if error.kind() == ErrorKind::Parse {
        Why::Refused(NO_REDIS.into())
    } else {
        Why::Unexpected(text.into())
    }
}

/// Of a connection on which nothing was answered yet: a server that closes it probably wants it otherwise.
fn unopened(why: Why, tls: bool) -> Why {
    match why {
        Why::ConnectionLost if tls => Why::Refused(CLOSED_TLS.into()),
        Why::TimedOut if tls => Why::Refused(SILENT_TLS.into()),
        Why::ConnectionLost => Why::Refused(CLOSED_PLAIN.into()),
        why => why,
    }
}
