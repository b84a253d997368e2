//! The rows of the price list: which settings are measured together, what each promises when a process is killed, and
//! what a power cut may take with them. Data only.

use std::collections::BTreeMap;

use anyhow::ensure;

use super::stand::Victim;
use crate::engines::{BrokerFlush, Flushes, RedisLog};
use crate::suite::AUDIT_FAILED;

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

    /// Whether SIGKILL of this process may take acknowledged orders with it.
    ///
    /// What a process has written stays: the system has it. So no mode of SQLite may lose an order, nor either flush
    /// of the broker, which writes to mapped pages. An order is accepted when the broker has it, so nothing that Redis
    /// forgets is one. MariaDB alone keeps commits in its own memory, for up to a second, if it syncs none.
    pub(super) fn may_lose(self, victim: Victim) -> bool {
        let Self::Cluster(Flushes { mariadb: synced, .. }) = self else { return false };
        !synced && victim == Victim::MARIADB
    }

    /// The settings' promise, kept or broken by a kill that took `lost` acknowledged orders with it.
    pub(super) fn check_kept(self, victim: Victim, lost: u64) -> anyhow::Result<()> {
        ensure!(
            lost == 0 || self.may_lose(victim),
            "{AUDIT_FAILED}: {lost} acknowledged orders are gone after {} was killed, and these settings promise to \
             keep them",
            victim.name()
        );
        Ok(())
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

    #[test]
    fn a_killed_process_may_lose_orders_only_where_the_settings_say_so() {
        let slowest = Flushes { redis: RedisLog::Always, broker: BrokerFlush::Synchronous, mariadb: true };
        let default = Flushes::with_broker(BrokerFlush::Synchronous);
        let [redis, broker, mariadb, server] = Victim::CLUSTER;
        for (row, victim, may_lose) in [
            (Combination::Embedded(Synchronous::Full), server, false),
            (Combination::Embedded(Synchronous::Normal), server, false),
            (Combination::Embedded(Synchronous::Off), server, false),
            (Combination::Cluster(slowest), mariadb, false),
            (Combination::Cluster(default), redis, false),
            (Combination::Cluster(default), broker, false),
            (Combination::Cluster(default), mariadb, false),
            (Combination::Cluster(default), server, false),
            (Combination::Cluster(FASTEST), redis, false),
            (Combination::Cluster(FASTEST), broker, false),
            (Combination::Cluster(FASTEST), mariadb, true),
            (Combination::Cluster(FASTEST), server, false),
            (Combination::Cluster(Flushes { mariadb: false, ..default }), mariadb, true),
            (Combination::Cluster(Flushes { mariadb: true, ..FASTEST }), mariadb, false),
        ] {
            let told = format!("{}, {} killed", row.name(), victim.name());
            assert!(row.check_kept(victim, 0).is_ok(), "{told}");
            match row.check_kept(victim, 3) {
                Ok(()) => assert!(may_lose, "{told}: a loss is let through"),
                Err(error) => {
                    assert!(!may_lose, "{told}: {error}");
                    assert!(error.to_string().starts_with("AUDIT FAILED: 3 acknowledged"), "{error}");
                }
            }
        }
    }
}
