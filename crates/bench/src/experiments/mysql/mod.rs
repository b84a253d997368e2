//! The ledger in MySQL or MariaDB: the published submit-order ramp on this program, and the database's own rate of
//! transactions beside it, both with each setting of flushing.

mod commit;
mod order;

use anyhow::Context;

use super::{Engine, Scenario, ScenarioContext};
use crate::report::model::EngineSettings;
use crate::target::engines::mariadb::{Database, FLUSH_LOG, SYNC_BINLOG};
use crate::target::engines::{EngineSet, Flushes, expect};

pub(super) const SCENARIOS: &[Scenario] = &[
    Scenario {
        name: "mysql-commit",
        about: "the database alone: rows and whole orders committed per second, flushed at each commit and not",
        reference: None,
        needs: &[Engine::MariaDb],
        metrics: &["throughput", "p99 response"],
        run: commit::run,
    },
    Scenario {
        name: "submit-order",
        about: "a ramp of users against POST /order/submit on MariaDB with each flush setting; 10,000 units, sold exactly",
        reference: Some("submit-order-mysql.csv"),
        needs: &[Engine::Doorbuster, Engine::MariaDb],
        metrics: &[
            "orders",
            "requests",
            "most sold of one good",
            "best throughput",
            "users at the best",
            "throughput",
            "mean response",
            "p99 response",
            "failed",
        ],
        run: order::run,
    },
];

/// What InnoDB's log and the binary log do at a commit, as the published experiment has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Flush {
    /// Both are synced: 1/1.
    EachCommit,
    /// Neither: 0/0.
    Never,
}

/// Orders and data of all repeats stay on the disk until the end.
const DISK_BYTES_MAX: u64 = 16 << 30;
const FLUSHES: [Flush; 2] = [Flush::EachCommit, Flush::Never];
const FLUSH_SETTINGS: [&str; 2] = [FLUSH_LOG, SYNC_BINLOG];
/// Those that the figures depend on.
const SETTINGS: [&str; 8] = [
    "binlog_format",
    "innodb_buffer_pool_size",
    FLUSH_LOG,
    "innodb_flush_method",
    "innodb_log_file_size",
    "log_bin",
    "max_connections",
    SYNC_BINLOG,
];

impl Flush {
    fn value(self) -> &'static str {
        match self {
            Self::EachCommit => "1",
            Self::Never => "0",
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::EachCommit => "flush 1/1",
            Self::Never => "flush 0/0",
        }
    }

    /// Both are settings that a server takes while it runs; they are read back.
    fn apply(self, database: &mut Database) -> anyhow::Result<()> {
        for name in FLUSH_SETTINGS {
            database.execute(&format!("SET GLOBAL {name} = {}", self.value()))?;
        }
        for (name, found) in database.settings(&FLUSH_SETTINGS)? {
            expect("MariaDB", name, &found, self.value())?;
        }
        Ok(())
    }
}

/// A MariaDB of our own.
fn start(context: &ScenarioContext) -> anyhow::Result<EngineSet> {
    context.progress.doing("starting MariaDB");
    EngineSet::start_some(context.engine_site(0), Flushes::QUICK, &["mariadb"], &[], &context.stop)
}

/// As the server says itself.
fn settings(database: &mut Database, under: &str) -> anyhow::Result<EngineSettings> {
    let version = database.settings(&["version"])?.remove("version").context("a version")?;
    let settings = database.settings(&SETTINGS)?;
    Ok(EngineSettings {
        engine: format!("MariaDB, {under}"),
        version,
        settings: settings.into_iter().map(|(name, value)| (name.to_owned(), value)).collect(),
    })
}
