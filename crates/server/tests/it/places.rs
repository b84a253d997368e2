//! Where a ledger can lie: each backend for the conformance suite, empty, gone when it is dropped.

use std::sync::atomic::{AtomicU32, Ordering};

use mysql::Conn;
use mysql::prelude::Queryable;
use server::ledger::mysql::{Limits, MySqlLedger, Options, Tls};
use server::ledger::sqlite::{self, FILE_NAME, SqliteLedger, Synchronous};
use server::ledger::{Ledger, LoadError, OpenError, Source};

use crate::engines::Engines;

/// A database of its own on a server.
#[derive(Debug)]
pub(crate) struct Database {
    pub(crate) options: Options,
}

impl Database {
    /// Empty, on the server that the tests share.
    pub(crate) fn shared() -> Database {
        Database::on(Engines::shared(&["mariadb"]))
    }

    pub(crate) fn on(engines: &Engines) -> Database {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let address = engines.address("mariadb");
        let (host, port) = address.rsplit_once(':').unwrap();
        let options = Options {
            host: host.to_owned(),
            port: port.parse().unwrap(),
            user: "root".to_owned(),
            password: None,
            database: format!("ledger_{}_{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed)),
            tls: Tls::Off,
            limits: Limits::default(),
        };
        let database = Database { options };
        database.server().query_drop(format!("CREATE DATABASE {}", database.options.database)).unwrap();
        database
    }

    fn server(&self) -> Conn {
        let url = format!("mysql://root@{}:{}", self.options.host, self.options.port);
        Conn::new(mysql::Opts::from_url(&url).unwrap()).unwrap()
    }

    /// A connection beside the ledger's: to look at its tables, or to tamper with them.
    pub(crate) fn connection(&self) -> Conn {
        let mut connection = self.server();
        connection.query_drop(format!("USE {}", self.options.database)).unwrap();
        connection
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        // A server that the test has killed takes its databases with it.
        let url = format!("mysql://root@{}:{}", self.options.host, self.options.port);
        if let Ok(mut server) = Conn::new(mysql::Opts::from_url(&url).unwrap()) {
            server.query_drop(format!("DROP DATABASE {}", self.options.database)).ok();
        }
    }
}

/// One backend's place for one ledger.
#[derive(Debug)]
pub(crate) enum LedgerHome {
    Sqlite(tempfile::TempDir),
    MySql(Box<Database>),
}

impl LedgerHome {
    /// One of each backend, empty.
    pub(crate) fn each() -> [LedgerHome; 2] {
        [LedgerHome::Sqlite(tempfile::tempdir().unwrap()), LedgerHome::MySql(Database::shared().into())]
    }

    pub(crate) fn try_open(&self) -> Result<Ledger, OpenError> {
        Ok(match self {
            LedgerHome::Sqlite(dir) => SqliteLedger::open(sqlite::Options {
                data_dir: dir.path().to_owned(),
                synchronous: Synchronous::Full,
                checkpoint_pages: 16,
                vfs: None,
            })?
            .into(),
            LedgerHome::MySql(database) => MySqlLedger::open(database.options.clone())?.into(),
        })
    }

    pub(crate) fn open(&self) -> Ledger {
        self.try_open().unwrap()
    }

    /// Opens it, if it does, and loads its book.
    pub(crate) fn load(&self) -> Result<engine::Book, LoadError> {
        self.open().load()
    }

    pub(crate) fn source(&self) -> Source {
        match self {
            LedgerHome::Sqlite(dir) => Source::Directory(dir.path().to_owned()),
            LedgerHome::MySql(database) => Source::MySql(Box::new(database.options.clone())),
        }
    }

    /// Changes one row behind the ledger's back.
    pub(crate) fn tamper(&self, sql: &str) {
        assert_eq!(self.execute(sql), 1, "{sql}");
    }

    /// Past every program; returns how many rows that touched.
    pub(crate) fn execute(&self, sql: &str) -> u64 {
        match self {
            LedgerHome::Sqlite(dir) => {
                let connection = rusqlite::Connection::open(dir.path().join(FILE_NAME)).unwrap();
                connection.execute(sql, []).unwrap() as u64
            }
            LedgerHome::MySql(database) => {
                let mut connection = database.connection();
                connection.query_drop(sql).unwrap();
                connection.affected_rows()
            }
        }
    }
}
