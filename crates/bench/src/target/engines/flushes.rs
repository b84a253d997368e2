//! The settings of a set of engines that decide what a crash may take, and whether they took effect.

use anyhow::Context;
use serde::{Deserialize, Serialize};

use super::EngineSettings;
use super::mariadb::{self, CommitFlush};

/// When the broker has written a message to the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BrokerFlush {
    /// Before it acknowledges it.
    Synchronous,
    /// Within half a second or so.
    Asynchronous,
}

impl BrokerFlush {
    /// As RocketMQ calls it.
    pub(super) fn setting(self) -> &'static str {
        match self {
            Self::Synchronous => "SYNC_FLUSH",
            Self::Asynchronous => "ASYNC_FLUSH",
        }
    }
}

/// What Redis keeps of the gate's memory on the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RedisLog {
    /// The append-only file, synced before each answer.
    Always,
    EverySecond,
    /// Written, and synced when the system pleases.
    Never,
    /// A snapshot each second in which something changed, and no file of commands.
    Snapshots,
    Nothing,
}

impl RedisLog {
    /// `appendonly`, `appendfsync` and `save`.
    pub(crate) fn settings(self) -> [&'static str; 3] {
        match self {
            Self::Always => ["yes", "always", ""],
            Self::EverySecond => ["yes", "everysec", ""],
            Self::Never => ["yes", "no", ""],
            Self::Snapshots => ["no", "everysec", "1 1"],
            Self::Nothing => ["no", "everysec", ""],
        }
    }
}

/// The settings that decide what a crash may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Flushes {
    pub redis: RedisLog,
    pub broker: BrokerFlush,
    pub mariadb: CommitFlush,
}

impl Flushes {
    /// As the cluster is run by default, but for the broker.
    pub const fn with_broker(broker: BrokerFlush) -> Self {
        Self { redis: RedisLog::EverySecond, broker, mariadb: CommitFlush::SAFE }
    }

    /// For those who ask nothing of the broker, or what it can do at most.
    pub const QUICK: Self = Self::with_broker(BrokerFlush::Asynchronous);

    /// What the engines said of themselves must be this.
    pub(super) fn check(self, found: &[EngineSettings]) -> anyhow::Result<()> {
        let [appendonly, appendfsync, save] = self.redis.settings();
        let wanted = [
            ("Redis", "appendonly", appendonly),
            ("Redis", "appendfsync", appendfsync),
            ("Redis", "save", save),
            ("Redis", "maxmemory-policy", "noeviction"),
            ("MariaDB", mariadb::FLUSH_LOG, self.mariadb.innodb.setting()),
            ("MariaDB", mariadb::SYNC_BINLOG, self.mariadb.sync_binlog()),
            // Without a binary log, how it is synced would mean nothing.
            ("MariaDB", mariadb::LOG_BIN, "1"),
            ("RocketMQ", "flushDiskType", self.broker.setting()),
        ];
        for (engine, name, wanted) in wanted {
            let of = found.iter().find(|of| of.engine == engine).context("it was just asked")?;
            of.expect(name, wanted)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::mariadb::InnoDbFlush;
    use super::*;

    /// Each setting under test, found with another value than it was started with.
    #[test]
    fn another_setting_than_the_wanted_one_is_refused() {
        let of = |engine: &str, settings: &[(&str, &str)]| EngineSettings {
            engine: engine.to_owned(),
            version: String::new(),
            settings: settings
                .iter()
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
                .collect(),
        };
        let redis = [
            ("appendonly", "yes"),
            ("appendfsync", "everysec"),
            ("save", ""),
            ("maxmemory-policy", "noeviction"),
        ];
        let mariadb = [("innodb_flush_log_at_trx_commit", "2"), ("sync_binlog", "0"), ("log_bin", "1")];
        let found = [
            of("Redis", &redis),
            of("MariaDB", &mariadb),
            of("RocketMQ", &[("flushDiskType", "SYNC_FLUSH")]),
        ];
        let wanted = Flushes {
            mariadb: CommitFlush { innodb: InnoDbFlush::Written, binlog: false },
            ..Flushes::with_broker(BrokerFlush::Synchronous)
        };
        wanted.check(&found).unwrap();
        for (engine, other) in found.iter().enumerate() {
            for name in other.settings.keys() {
                let mut found = found.clone();
                found[engine].settings.insert(name.clone(), "other".to_owned());
                let error = wanted.check(&found).unwrap_err().to_string();
                assert!(error.contains(&format!("{name} = other, not ")), "{error}");
            }
        }
    }
}
