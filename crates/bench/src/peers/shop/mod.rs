//! The order path that most shops begin with: a program in Go, and one transaction of a database. Its sources are in
//! `crates/bench/peers/shop`.

mod mariadb;
mod postgresql;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::Context;

use super::{Order, Peer, to_install};
use crate::host::process::{Guard, log_tail, run_tool, start_listening};
use crate::host::usage::Watched;
use crate::target::engines::{EngineSet, Flushes};
use crate::target::installation::Site;

const SOURCES: [(&str, &str); 7] = [
    ("go.mod", include_str!("../../../peers/shop/go.mod")),
    ("go.sum", include_str!("../../../peers/shop/go.sum")),
    ("main.go", include_str!("../../../peers/shop/main.go")),
    ("mariadb.go", include_str!("../../../peers/shop/mariadb.go")),
    ("mariadb.sql", include_str!("../../../peers/shop/mariadb.sql")),
    ("postgresql.go", include_str!("../../../peers/shop/postgresql.go")),
    ("postgresql.sql", include_str!("../../../peers/shop/postgresql.sql")),
];
/// Its modules are fetched and compiled the first time, on a busy machine too.
const BUILD_PATIENCE: Duration = Duration::from_secs(900);

#[derive(Debug, Clone, Copy)]
pub(super) enum Store {
    /// A row for each product, whose units are subtracted.
    MariaDb,
    /// A row for each unit: `SELECT ... FOR UPDATE SKIP LOCKED`.
    PostgreSql,
}

#[derive(Debug)]
pub(super) struct Shop {
    // Before the engine under it: that is the order in which they are ended.
    server: Guard,
    address: SocketAddr,
    store: Store,
    program: PathBuf,
    log: PathBuf,
    engines: EngineSet,
    stop: Arc<AtomicBool>,
}

/// Compiles the shop into a folder of its own: where its program is.
pub(super) fn build(folder: &Path, stop: &AtomicBool) -> anyhow::Result<PathBuf> {
    let (sources, program) = (folder.join("sources"), folder.join("shop"));
    std::fs::create_dir_all(&sources).context("a folder for its sources")?;
    for (name, text) in SOURCES {
        std::fs::write(sources.join(name), text).with_context(|| name.to_owned())?;
    }
    let mut go = Command::new("go");
    go.current_dir(&sources).args(["build", "-trimpath", "-buildvcs=false", "-o"]).arg(&program);
    // What is around the folder, and a C compiler, do not matter; another release of Go is not fetched.
    go.envs([("CGO_ENABLED", "0"), ("GOTOOLCHAIN", "local"), ("GOWORK", "off")]);
    run_tool(&mut go, BUILD_PATIENCE, stop)?;
    Ok(program)
}

impl Store {
    /// What is not installed; `dev/up` installs MariaDB.
    pub(super) fn missing(self) -> Option<String> {
        let database = match self {
            Self::MariaDb => None,
            Self::PostgreSql => postgresql::missing(),
        };
        let go = || Command::new("go").arg("version").output().err().map(|_| to_install("golang-go"));
        database.or_else(go)
    }

    /// As `dev/up` and the shop call it.
    fn name(self) -> &'static str {
        match self {
            Self::MariaDb => "mariadb",
            Self::PostgreSql => "postgresql",
        }
    }

    /// For `dev/up`.
    fn environment(self) -> Vec<(&'static str, String)> {
        match self {
            Self::MariaDb => vec![("DOORBUSTER_MARIADB_OPTIONS", mariadb::OPTIONS.to_owned())],
            Self::PostgreSql => Vec::new(),
        }
    }

    fn check(self, address: SocketAddr) -> anyhow::Result<()> {
        match self {
            Self::MariaDb => mariadb::check(address),
            Self::PostgreSql => postgresql::check(address),
        }
    }

    /// As the shop's driver wants it.
    fn url(self, address: SocketAddr) -> String {
        match self {
            Self::MariaDb => mariadb::url(address),
            Self::PostgreSql => postgresql::url(address),
        }
    }
}

impl Shop {
    pub(super) fn start(site: &Site, folder: &Path, program: &Path, store: Store) -> anyhow::Result<Self> {
        let (place, names) = (site.engines(folder), [store.name()]);
        let engines = EngineSet::start_some(place, Flushes::QUICK, &names, &store.environment(), &site.stop)?;
        let database = engines.address(store.name())?;
        store.check(database)?;
        let log = folder.join("shop.log");
        let (server, address) = launch(program, store, database, &log)?;
        let stop = Arc::clone(&site.stop);
        Ok(Self { server, address, store, program: program.to_owned(), log, engines, stop })
    }

    fn database(&self) -> anyhow::Result<SocketAddr> {
        self.engines.address(self.store.name())
    }
}

/// It listens when it has made its tables and all of its connections.
fn launch(
    program: &Path,
    store: Store,
    database: SocketAddr,
    log: &Path,
) -> anyhow::Result<(Guard, SocketAddr)> {
    start_listening("the shop", log, |address| {
        let mut command = Command::new(program);
        command.args([store.name(), &store.url(database), &address.to_string()]);
        Guard::start(&mut command, log).context("starting the shop")
    })
}

impl Peer for Shop {
    fn address(&self) -> SocketAddr {
        self.address
    }

    fn watched(&self) -> anyhow::Result<Vec<Watched>> {
        let mut watched = vec![Watched::new("shop", self.server.pid())];
        let engine = self.engines.watched(self.store.name())?;
        if let Store::PostgreSql = self.store {
            watched.extend(postgresql::processes(&engine, self.database()?, &self.stop)?);
        }
        watched.push(engine);
        Ok(watched)
    }

    fn open(&mut self, product: u64, units: u64) -> anyhow::Result<()> {
        match self.store {
            Store::MariaDb => mariadb::open(self.database()?, product, units),
            Store::PostgreSql => postgresql::open(self.database()?, product, units, &self.stop),
        }
    }

    fn kill(&mut self) -> anyhow::Result<()> {
        // The database first: what it has not committed, the shop would have to have answered already.
        self.engines.kill(self.store.name())?;
        self.server.kill()?;
        Ok(())
    }

    fn start_again(&mut self) -> anyhow::Result<()> {
        self.engines.up(&[self.store.name()], &self.store.environment(), &self.stop)?;
        (self.server, self.address) = launch(&self.program, self.store, self.database()?, &self.log)?;
        Ok(())
    }

    fn logged(&self) -> String {
        format!("{}\n{}", log_tail(&self.log), self.engines.logged(self.store.name()))
    }

    fn orders(&mut self, product: u64) -> anyhow::Result<Vec<Order>> {
        match self.store {
            Store::MariaDb => mariadb::orders(self.database()?, product),
            Store::PostgreSql => postgresql::orders(self.database()?, product, &self.stop),
        }
    }
}
