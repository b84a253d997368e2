//! The rows of the price list: which settings are measured together, and what a power cut may take with them. Data only.

use std::collections::BTreeMap;

use indexmap::IndexSet;

use crate::target::engines::mariadb::{CommitFlush, InnoDbFlush};
use crate::target::engines::{BrokerFlush, Flushes, RedisLog};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Combination {
    Embedded(Synchronous),
    Cluster(Flushes),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Victim {
    Server,
    /// An engine by its name in `dev/up`, and in the report.
    Engine(&'static str, &'static str),
}

impl Victim {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Server => "server",
            Self::Engine(_, name) => name,
        }
    }
}

/// `ledger.synchronous` of the server, and what a power cut takes with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Synchronous {
    pub(super) setting: &'static str,
    power_cut: &'static str,
}

const FULL: Synchronous = Synchronous {
    setting: "full",
    power_cut: "each commit is synced before the answer: nothing, if the disk keeps what it said it wrote",
};
const NORMAL: Synchronous = Synchronous {
    setting: "normal",
    power_cut: "synced at checkpoints only: the orders accepted since the last one",
};
const OFF: Synchronous = Synchronous {
    setting: "off",
    power_cut: "never synced: any order that the system had not written by itself, and the file may be damaged",
};
const REDIS: [RedisLog; 5] =
    [RedisLog::EverySecond, RedisLog::Always, RedisLog::Never, RedisLog::Snapshots, RedisLog::Nothing];
const BROKER: [BrokerFlush; 2] = [BrokerFlush::Synchronous, BrokerFlush::Asynchronous];

const FASTEST: Flushes =
    Flushes { redis: RedisLog::Nothing, broker: BrokerFlush::Asynchronous, mariadb: CommitFlush::FASTEST };

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// The default and the fastest of each profile.
    Quick,
    /// The default, each setting changed alone, and both extremes; of InnoDB's log and the binary log every pair, because
    /// what one is worth depends on the other.
    OneAtATime,
    Full,
}

impl Combination {
    pub(super) fn all(extent: Extent) -> Vec<Self> {
        let default = Flushes::with_broker(BrokerFlush::Synchronous);
        let mut cluster = IndexSet::from([default]);
        match extent {
            Extent::Quick => cluster.extend([FASTEST]),
            Extent::OneAtATime => {
                cluster.extend(REDIS.map(|redis| Flushes { redis, ..default }));
                cluster.extend(BROKER.map(|broker| Flushes { broker, ..default }));
                cluster.extend(CommitFlush::ALL.map(|mariadb| Flushes { mariadb, ..default }));
                // The safest extreme is one of these already: only Redis differs from the default.
                cluster.extend([FASTEST]);
            }
            Extent::Full => {
                for redis in REDIS {
                    for broker in BROKER {
                        cluster.extend(CommitFlush::ALL.map(|mariadb| Flushes { redis, broker, mariadb }));
                    }
                }
            }
        }
        let embedded: &[Synchronous] = match extent {
            Extent::Quick => &[FULL, OFF],
            Extent::OneAtATime | Extent::Full => &[FULL, NORMAL, OFF],
        };
        let embedded = embedded.iter().copied().map(Self::Embedded);
        embedded.chain(cluster.into_iter().map(Self::Cluster)).collect()
    }

    pub(super) fn profile(self) -> &'static str {
        match self {
            Self::Embedded(_) => "embedded",
            Self::Cluster(_) => "cluster",
        }
    }

    pub(super) fn victims(self) -> &'static [Victim] {
        match self {
            Self::Embedded(_) => &[Victim::Server],
            Self::Cluster(_) => &[
                Victim::Engine("redis", "redis"),
                Victim::Engine("rocketmq-broker", "broker"),
                Victim::Engine("mariadb", "mariadb"),
                Victim::Server,
            ],
        }
    }

    pub(super) fn settings(self) -> BTreeMap<String, String> {
        let pairs = match self {
            Self::Embedded(synchronous) => vec![("SQLite synchronous", synchronous.setting)],
            Self::Cluster(Flushes { redis, broker, mariadb }) => vec![
                ("Redis", redis_words(redis)),
                ("broker flush", if broker == BrokerFlush::Synchronous { "sync" } else { "async" }),
                ("InnoDB flush", mariadb.innodb.setting()),
                ("binlog sync", mariadb.sync_binlog()),
            ],
        };
        pairs.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
    }

    /// As the report calls it: for `--only`, for thresholds, and for people.
    pub(super) fn name(self) -> String {
        let settings = self.settings().into_iter().map(|(name, value)| format!(", {name} = {value}"));
        self.profile().to_owned() + &settings.collect::<String>()
    }

    /// Reasoned from what each setting promises; a power cut can't be made here.
    pub(super) fn power_cut(self) -> String {
        let said = match self {
            Self::Embedded(synchronous) => synchronous.power_cut.to_owned(),
            Self::Cluster(Flushes { redis, broker, mariadb }) => {
                let broker = match broker {
                    BrokerFlush::Synchronous => {
                        "the broker synced each order before it was accepted: none is lost there"
                    }
                    BrokerFlush::Asynchronous => {
                        "the broker syncs about every half second: accepted orders of that time that the ledger \
                         had not taken in are lost"
                    }
                };
                let gate = match redis {
                    RedisLog::Always => "the gate comes back whole",
                    RedisLog::EverySecond => {
                        "the gate forgets about a second, and is rebuilt from the ledger"
                    }
                    RedisLog::Never => "the gate forgets up to half a minute, and is rebuilt from the ledger",
                    RedisLog::Snapshots => {
                        "the gate comes back at its last snapshot, and is rebuilt from the ledger"
                    }
                    RedisLog::Nothing => "the gate is empty, and is rebuilt from the ledger",
                };
                format!("{broker}; {}; {gate}", ledger_after_power_cut(mariadb))
            }
        };
        format!("Not measured: {said}.")
    }
}

/// With a binary log, MariaDB ends a commit in InnoDB without a sync of its own: what was only prepared is decided after
/// a crash by whether the binary log has it (MariaDB's manual: "Binary Log Group Commit and InnoDB Flushing Performance").
/// Offsets are in the same transaction as the orders, so that orders which are lost are read again.
fn ledger_after_power_cut(flush: CommitFlush) -> String {
    const AGAIN: &str =
        "are lost from it, and its offsets with them, so those that the broker still has are taken in again";
    let innodb = match flush {
        CommitFlush::SAFE => return "the ledger syncs each commit: what it took in stays".to_owned(),
        CommitFlush { innodb: InnoDbFlush::Synced, .. } => {
            "the ledger syncs each commit as prepared, and rolls back those that the binary log lacks: the last orders, \
             of at most about a second,"
        }
        CommitFlush { innodb: InnoDbFlush::Written, .. } => {
            "the ledger writes each commit and syncs about each second: orders of that time"
        }
        CommitFlush { innodb: InnoDbFlush::EachSecond, .. } => {
            "the ledger writes and syncs about each second: orders of that time"
        }
    };
    let binlog = if flush.binlog {
        "the binary log is synced at each commit and keeps them, so that replicas have orders that the ledger lacks"
    } else {
        "the binary log is synced when the system pleases, and may lack up to half a minute for replicas"
    };
    format!("{innodb} {AGAIN}; {binlog}")
}

fn redis_words(redis: RedisLog) -> &'static str {
    match redis {
        RedisLog::Always => "AOF always",
        RedisLog::EverySecond => "AOF everysec",
        RedisLog::Never => "AOF no",
        RedisLog::Snapshots => "RDB only",
        RedisLog::Nothing => "none",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_setting_is_in_the_list_and_no_row_is_twice() {
        for (extent, rows) in [(Extent::Quick, 4), (Extent::OneAtATime, 3 + 12), (Extent::Full, 3 + 60)] {
            let names: Vec<_> = Combination::all(extent).into_iter().map(Combination::name).collect();
            let once: std::collections::BTreeSet<_> = names.iter().collect();
            assert_eq!((names.len(), once.len()), (rows, rows), "{extent:?}: {names:#?}");
        }
        let names = Combination::all(Extent::OneAtATime).into_iter().map(Combination::name);
        let text = names.collect::<Vec<_>>().join("\n");
        for value in [
            "AOF always",
            "AOF no",
            "RDB only",
            "Redis = none",
            "broker flush = async",
            "InnoDB flush = 2",
            "synchronous = normal",
            "synchronous = off",
        ] {
            assert!(text.contains(value), "{value} is not in\n{text}");
        }
    }

    /// InnoDB's flush and the binary log's sync are each changed alone, and both.
    #[test]
    fn each_pair_of_mariadb_s_settings_is_a_row() {
        let rows = Combination::all(Extent::OneAtATime);
        for (innodb, binlog) in [("1", "1"), ("1", "0"), ("2", "1"), ("2", "0"), ("0", "1"), ("0", "0")] {
            let found = rows.iter().filter(|row| {
                let settings = row.settings();
                let is = |name: &str, value: &str| settings.get(name).is_some_and(|found| found == value);
                is("InnoDB flush", innodb) && is("binlog sync", binlog) && is("Redis", "AOF everysec")
            });
            let expected = if (innodb, binlog) == ("1", "1") { 2 } else { 1 };
            assert_eq!(found.count(), expected, "{innodb}/{binlog}");
        }
    }

    #[test]
    fn only_the_safe_settings_promise_the_ledger_to_survive_a_power_cut() {
        for mariadb in CommitFlush::ALL {
            let text = Combination::Cluster(Flushes { mariadb, ..FASTEST }).power_cut();
            let stays = text.contains("what it took in stays");
            assert_eq!(stays, mariadb == CommitFlush::SAFE, "{text}");
            assert_eq!(text.contains("taken in again"), !stays, "{text}");
            assert_eq!(text.contains("half a minute for replicas"), !mariadb.binlog, "{text}");
        }
    }
}
