//! The rows of the price list: which settings are measured together, and what a power cut may take with them. Data only.

use std::collections::BTreeMap;

use crate::engines::{BrokerFlush, Flushes, RedisLog};

/// One row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Combination {
    Embedded(Synchronous),
    Cluster(Flushes),
}

/// `ledger.synchronous` of the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Synchronous {
    Full,
    Normal,
    Off,
}

const SYNCHRONOUS: [Synchronous; 3] = [Synchronous::Full, Synchronous::Normal, Synchronous::Off];
const REDIS: [RedisLog; 5] =
    [RedisLog::EverySecond, RedisLog::Always, RedisLog::Never, RedisLog::Snapshots, RedisLog::Nothing];
const BROKER: [BrokerFlush; 2] = [BrokerFlush::Synchronous, BrokerFlush::Asynchronous];
const MARIADB: [bool; 2] = [true, false];

const FASTEST: Flushes =
    Flushes { redis: RedisLog::Nothing, broker: BrokerFlush::Asynchronous, mariadb: false };

/// Which rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// The default and the fastest of each profile.
    Quick,
    /// The default, each setting changed alone, and both extremes.
    OneAtATime,
    /// Every combination.
    Full,
}

impl Combination {
    pub(super) fn all(extent: Extent) -> Vec<Self> {
        let default = Flushes::with_broker(BrokerFlush::Synchronous);
        let mut cluster = vec![default];
        match extent {
            Extent::Quick => cluster.push(FASTEST),
            Extent::OneAtATime => {
                cluster.extend(REDIS.map(|redis| Flushes { redis, ..default }));
                cluster.extend(BROKER.map(|broker| Flushes { broker, ..default }));
                cluster.extend(MARIADB.map(|mariadb| Flushes { mariadb, ..default }));
                // The safest extreme is one of these already: only Redis differs from the default.
                cluster.push(FASTEST);
            }
            Extent::Full => {
                for redis in REDIS {
                    for broker in BROKER {
                        cluster.extend(MARIADB.map(|mariadb| Flushes { redis, broker, mariadb }));
                    }
                }
            }
        }
        let mut once: Vec<Flushes> = Vec::new();
        cluster.retain(|flushes| {
            let new = !once.contains(flushes);
            once.push(*flushes);
            new
        });
        let embedded: &[Synchronous] = match extent {
            Extent::Quick => &[Synchronous::Full, Synchronous::Off],
            Extent::OneAtATime | Extent::Full => &SYNCHRONOUS,
        };
        embedded
            .iter()
            .map(|synchronous| Self::Embedded(*synchronous))
            .chain(cluster.into_iter().map(Self::Cluster))
            .collect()
    }

    pub(super) fn profile(self) -> &'static str {
        match self {
            Self::Embedded(_) => "embedded",
            Self::Cluster(_) => "cluster",
        }
    }

    pub(super) fn settings(self) -> BTreeMap<String, String> {
        let pairs = match self {
            Self::Embedded(synchronous) => vec![("SQLite synchronous", synchronous.setting())],
            Self::Cluster(Flushes { redis, broker, mariadb }) => vec![
                ("Redis", redis_words(redis)),
                ("broker flush", if broker == BrokerFlush::Synchronous { "sync" } else { "async" }),
                ("InnoDB and binlog sync", if mariadb { "1/1" } else { "0/0" }),
            ],
        };
        pairs.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
    }

    /// For `--only` and for people.
    pub(super) fn name(self) -> String {
        let settings: Vec<_> =
            self.settings().into_iter().map(|(name, value)| format!("{name} {value}")).collect();
        format!("{}: {}", self.profile(), settings.join(", "))
    }

    /// Reasoned from what each setting promises; a power cut can't be made here.
    pub(super) fn power_cut(self) -> String {
        let said = match self {
            Self::Embedded(synchronous) => synchronous.power_cut().to_owned(),
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
                let ledger = if mariadb {
                    "the ledger syncs each commit: what it took in stays"
                } else {
                    "the ledger syncs about each second: orders of that time are lost from it, and its offsets with \
                     them, so those that the broker still has are taken in again"
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
                format!("{broker}; {ledger}; {gate}")
            }
        };
        format!("Not measured: {said}.")
    }
}

impl Synchronous {
    pub(super) fn setting(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::Normal => "normal",
            Self::Off => "off",
        }
    }

    fn power_cut(self) -> &'static str {
        match self {
            Self::Full => {
                "each commit is synced before the answer: nothing, if the disk keeps what it said it wrote"
            }
            Self::Normal => "synced at checkpoints only: the orders accepted since the last one",
            Self::Off => {
                "never synced: any order that the system had not written by itself, and the file may be damaged"
            }
        }
    }
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
        for (extent, rows) in [(Extent::Quick, 4), (Extent::OneAtATime, 3 + 8), (Extent::Full, 3 + 20)] {
            let names: Vec<_> = Combination::all(extent).into_iter().map(Combination::name).collect();
            let once: std::collections::BTreeSet<_> = names.iter().collect();
            assert_eq!((names.len(), once.len()), (rows, rows), "{extent:?}: {names:#?}");
        }
        let names = Combination::all(Extent::OneAtATime).into_iter().map(Combination::name);
        let text = names.collect::<Vec<_>>().join("\n");
        for value in ["AOF always", "AOF no", "RDB only", "Redis none", "flush async", "0/0", "normal", "off"]
        {
            assert!(text.contains(value), "{value} is not in\n{text}");
        }
    }
}
