//! The ledger in MySQL or MariaDB, read by a client of our own: its settings, and its rows counted.
//!
//! An order is a row of `orders`. The rows are counted in steps, so that a look during a measurement costs what came
//! in since the last one. That misses nothing: all writers share one gapless sequence, one transaction after the other.

use std::collections::BTreeMap;
use std::io::Read;
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context, anyhow, ensure};
use mysql::prelude::{FromRow, Queryable};
use mysql::{Conn, OptsBuilder};

use crate::target::address;

const TIMEOUT: Duration = Duration::from_secs(60);
/// A server greets first, at once. What says nothing for this long is none.
const GREETING_TIMEOUT: Duration = Duration::from_secs(5);
/// Of its greeting, after a length of 3 bytes and a number: the protocol's version; or a refusal to greet this host.
const GREETINGS: [u8; 2] = [10, 0xff];
const USER: &str = "root";

pub const FLUSH_LOG: &str = "innodb_flush_log_at_trx_commit";
pub const SYNC_BINLOG: &str = "sync_binlog";
pub const LOG_BIN: &str = "log_bin";

/// When a commit is on the disk: in InnoDB's log, and in the binary log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct CommitFlush {
    pub innodb: InnoDbFlush,
    /// The binary log is synced at each commit; or when the system pleases.
    pub binlog: bool,
}

/// [`FLUSH_LOG`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum InnoDbFlush {
    /// 1: written and synced at each commit.
    Synced,
    /// 2: written at each commit, synced each second.
    Written,
    /// 0: written and synced each second.
    EachSecond,
}

impl CommitFlush {
    pub const SAFE: Self = Self { innodb: InnoDbFlush::Synced, binlog: true };
    pub const FASTEST: Self = Self { innodb: InnoDbFlush::EachSecond, binlog: false };
    pub const ALL: [Self; 6] = [
        Self::SAFE,
        Self { innodb: InnoDbFlush::Synced, binlog: false },
        Self { innodb: InnoDbFlush::Written, binlog: true },
        Self { innodb: InnoDbFlush::Written, binlog: false },
        Self { innodb: InnoDbFlush::EachSecond, binlog: true },
        Self::FASTEST,
    ];

    /// [`SYNC_BINLOG`].
    pub fn sync_binlog(self) -> &'static str {
        if self.binlog { "1" } else { "0" }
    }
}

impl InnoDbFlush {
    pub fn setting(self) -> &'static str {
        match self {
            Self::Synced => "1",
            Self::Written => "2",
            Self::EachSecond => "0",
        }
    }
}

#[derive(Debug)]
pub struct Database {
    connection: Conn,
    server: String,
    last_seq: i64,
    rows: u64,
}

/// `mysql://...` for people.
pub fn url(address: SocketAddr, database: &str) -> String {
    format!("mysql://{USER}@{address}/{database}")
}

/// Of a client of such a server; it is not connected to.
pub fn options(url: &str) -> anyhow::Result<OptsBuilder> {
    let address = address::of_mysql(url).map_err(anyhow::Error::msg)?;
    let options = mysql::Opts::from_url(url).context("the URL of a MySQL server")?;
    Ok(OptsBuilder::from_opts(options)
        .ip_or_hostname(Some(address.ip().to_string()))
        .prefer_socket(false)
        .tcp_connect_timeout(Some(TIMEOUT))
        .read_timeout(Some(TIMEOUT))
        .write_timeout(Some(TIMEOUT)))
}

impl Database {
    pub fn connect(address: SocketAddr, database: Option<&str>) -> anyhow::Result<Self> {
        Self::log_in(options(&url(address, database.unwrap_or_default()))?, address)
    }

    /// A server that runs already: `mysql://user:password@host:port/database`.
    pub fn open(url: &str) -> anyhow::Result<Self> {
        let address = address::of_mysql(url).map_err(anyhow::Error::msg)?;
        check_greeting(address)?;
        Self::log_in(options(url)?, address)
    }

    /// Reads over somebody's connection to this server.
    pub fn over(connection: Conn, server: &str) -> Self {
        Self { connection, server: server.to_owned(), last_seq: i64::MIN, rows: 0 }
    }

    fn log_in(options: OptsBuilder, address: SocketAddr) -> anyhow::Result<Self> {
        let server = address.to_string();
        let connection = Conn::new(options).map_err(|error| named(&server, error)).context("connecting")?;
        Ok(Self::over(connection, &server))
    }

    /// An empty database of that name, whatever was in it before.
    pub fn recreate(&mut self, name: &str) -> anyhow::Result<()> {
        ensure!(name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_'), "a name of our own");
        self.ask(|on| on.query_drop(format!("DROP DATABASE IF EXISTS {name}")))?;
        self.ask(|on| on.query_drop(format!("CREATE DATABASE {name} CHARACTER SET utf8mb4")))
    }

    /// Statements without a result, separated by semicolons.
    pub fn execute(&mut self, statements: &str) -> anyhow::Result<()> {
        self.ask(|on| statements.split(';').try_for_each(|statement| on.query_drop(statement)))
    }

    /// Values of global settings.
    pub fn settings(&mut self, names: &[&'static str]) -> anyhow::Result<BTreeMap<&'static str, String>> {
        let setting = |name: &&'static str| {
            let value: Option<String> = self.ask(|on| on.query_first(format!("SELECT @@global.{name}")))?;
            Ok((*name, value.with_context(|| format!("MariaDB has no setting {name}"))?))
        };
        names.iter().map(setting).collect()
    }

    /// One number, such as a sum; `None` if it is NULL.
    pub fn number(&mut self, query: &str) -> anyhow::Result<Option<u64>> {
        let row: Option<Option<u64>> = self.ask(|on| on.query_first(query))?;
        row.with_context(|| format!("no row from {query}"))
    }

    /// Orders now; reads only the rows that were added since the last call.
    pub fn orders(&mut self) -> anyhow::Result<u64> {
        let (since, query) = (self.last_seq, "SELECT COUNT(*), MAX(seq) FROM orders WHERE seq > ?");
        let counted: Option<(u64, Option<i64>)> = self.ask(|on| on.exec_first(query, (since,)))?;
        let (added, last_seq) = counted.context("a count has one row")?;
        self.rows += added;
        self.last_seq = last_seq.unwrap_or(self.last_seq);
        Ok(self.rows)
    }

    pub fn rows<T: FromRow>(&mut self, query: &str) -> anyhow::Result<Vec<T>> {
        self.ask(|on| on.query(query))
    }

    /// Rows of a whole table, each counted again.
    pub fn count(&mut self, table: &str) -> anyhow::Result<u64> {
        let rows = self.ask(|on| on.query_first(format!("SELECT COUNT(*) FROM {table}")))?;
        rows.context("a count has one row")
    }

    /// For each SKU that has orders, how many units were sold: how many SKUs, the least and the most.
    pub fn units_by_sku(&mut self) -> anyhow::Result<(u64, u64, u64)> {
        let sums = self.rows(
            "SELECT COUNT(*), CAST(COALESCE(MIN(units), 0) AS UNSIGNED), CAST(COALESCE(MAX(units), 0) AS UNSIGNED)
             FROM (SELECT SUM(quantity) AS units FROM orders GROUP BY sku) AS sold",
        )?;
        sums.first().copied().context("a count has one row")
    }

    /// Calls `each` with the hash of every order; the rows are streamed.
    pub fn order_hashes(&mut self, each: &mut dyn FnMut(u128)) -> anyhow::Result<()> {
        let Self { connection, server, .. } = self;
        let rows = connection.query_iter("SELECT hash FROM orders");
        for row in rows.map_err(|error| named(server, error))? {
            let hash: Vec<u8> =
                row.map_err(|error| named(server, error))?.get(0).context("an order's hash")?;
            each(u128::from_be_bytes(hash.as_slice().try_into().context("16 bytes")?));
        }
        Ok(())
    }

    /// The next offset of each queue that the ledger has consumed up to: name and offset.
    pub fn queue_offsets(&mut self) -> anyhow::Result<Vec<(String, u64)>> {
        self.rows("SELECT queue, next_offset FROM queue_offsets")
    }

    /// Nobody here reads the binary log: what was written is removed, so that it does not fill the disk.
    pub fn purge_binary_logs(&mut self) -> anyhow::Result<()> {
        self.ask(|on| on.query_drop("FLUSH BINARY LOGS"))?;
        let last = self.rows::<mysql::Row>("SHOW BINARY LOGS")?.pop().and_then(|row| row.get(0));
        // No statement that can be prepared; the name is the server's own.
        last.map_or(Ok(()), |name: String| {
            self.ask(|on| on.query_drop(format!("PURGE BINARY LOGS TO '{name}'")))
        })
    }

    /// Errors say which server they are about.
    fn ask<T>(&mut self, ask: impl FnOnce(&mut Conn) -> mysql::Result<T>) -> anyhow::Result<T> {
        ask(&mut self.connection).map_err(|error| named(&self.server, error))
    }
}

/// The client writes errors of the connection as a program would.
fn named(server: &str, error: mysql::Error) -> anyhow::Error {
    match error {
        mysql::Error::IoError(error) => anyhow!("the MySQL server on {server}: {error}"),
        other => anyhow!("the MySQL server on {server}: {other}"),
    }
}

/// Something else that listens there may wait for us to speak, and the client would wait with it.
fn check_greeting(address: SocketAddr) -> anyhow::Result<()> {
    let mut stream = TcpStream::connect_timeout(&address, GREETING_TIMEOUT)
        .with_context(|| format!("connecting to the MySQL server on {address}"))?;
    stream.set_read_timeout(Some(GREETING_TIMEOUT))?;
    let mut greeting = [0; 5];
    let read = stream.read_exact(&mut greeting);
    ensure!(
        read.is_ok() && GREETINGS.contains(&greeting[4]),
        "{address} is no MySQL server: it does not greet as one"
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn what_does_not_greet_is_no_server() {
        for said in [&b""[..], b"HTTP/1.1 400 Bad Request\r\n"] {
            let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
            let address = listener.local_addr().unwrap();
            let server = std::thread::spawn(move || listener.accept().unwrap().0.write_all(said).unwrap());
            let error = Database::open(&format!("mysql://root@{address}/shop")).unwrap_err().to_string();
            assert!(error.starts_with(&format!("{address} is no MySQL server")), "{error}");
            server.join().unwrap();
        }
    }
}
