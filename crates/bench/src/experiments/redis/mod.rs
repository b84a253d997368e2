//! Redis: the published experiments on one server and on a cluster.
//!
//! Each scenario starts servers of its own with the settings of the case and reads them back; a server that runs
//! already is measured as it is, under keys of our own. Sizes are structures, so that tests can shrink them.

mod case;
mod cluster;
mod get_set;
mod hot_key;
mod limits;
mod memory;
mod nodes;
mod persistence;
mod pipelining;
mod recovery;
mod reserve;
mod server;
mod swap;

use std::time::Duration;

use self::case::Sweep;
use super::{Engine, Scenario};

pub(super) const SCENARIOS: &[Scenario] = &[
    Scenario {
        name: "redis-get-set",
        about: "SET and GET of 8 bytes with 100 and 8 connections, AOF synced every second",
        reference: Some("seckill-tiers.csv"),
        needs: &[Engine::Redis],
        metrics: &["throughput", "p50", "p95", "p99", "mean", "max", "generator CPU per request"],
        run: |context| {
            let seconds = if context.quick() { 1 } else { 5 };
            get_set::run(context, Duration::from_secs(seconds))
        },
    },
    Scenario {
        name: "redis-hot-key-incr",
        about: "INCR of one key from 10 to 150 threads; its value must be the sum",
        reference: Some("redis-hot-key-incr.csv"),
        needs: &[Engine::Redis],
        metrics: &[
            "throughput",
            "p50",
            "p95",
            "p99",
            "time for 100 INCRs",
            "instantaneous_ops_per_sec",
            "instantaneous_input_kbps",
            "instantaneous_output_kbps",
            "used_cpu_sys per INCR",
            "used_cpu_user per INCR",
        ],
        // Redis' own rates are means of 1.6 s: a shorter run would only show a part of them.
        run: |context| hot_key::run(context, &Sweep::of(context, 2, 20, &hot_key::THREADS)),
    },
    Scenario {
        name: "redis-persistence",
        about: "writes under each persistence policy, one by one and in pipelines of 10,000",
        reference: Some("redis-persistence.csv"),
        needs: &[Engine::Redis],
        metrics: &[
            "throughput",
            "p50",
            "p95",
            "p99",
            "client time",
            "instantaneous_ops_per_sec",
            "instantaneous_input_kbps",
            "instantaneous_output_kbps",
            "latest_fork_usec",
        ],
        run: |context| persistence::run(context, &persistence::Sizes::of(context)),
    },
    Scenario {
        name: "redis-pipelining",
        about: "writes of one connection in pipelines of 1 to 10,000",
        reference: Some("redis-persistence.csv"),
        needs: &[Engine::Redis],
        metrics: &["throughput", "p50", "p95", "p99"],
        run: |context| pipelining::run(context, &Sweep::of(context, 1, 10, &pipelining::DEPTHS)),
    },
    Scenario {
        name: "redis-memory",
        about: "memory of 400,000 and of 2,000,000 small keys",
        reference: Some("redis-memory-recovery.csv"),
        needs: &[Engine::Redis],
        metrics: &["used memory", "memory per key", "resident memory"],
        run: |context| memory::run(context, &memory::COUNTS),
    },
    Scenario {
        name: "redis-recovery",
        about: "loading 4,000,000 keys from RDB and AOF, disk cache cold and warm; nothing lost; reads",
        reference: Some("redis-memory-recovery.csv"),
        needs: &[Engine::Redis],
        metrics: &["load time", "start to first answer", "throughput", "p50", "p95", "p99", "mean"],
        run: |context| recovery::run(context, &recovery::Sizes::of(context)),
    },
    Scenario {
        name: "redis-cluster",
        about: "a cluster of three masters: threads, value sizes, key sizes, persistence, swap",
        reference: Some("redis-cluster.csv"),
        needs: &[Engine::RedisCluster],
        metrics: &["throughput", "p50", "p95", "p99", "in swap"],
        run: |context| cluster::run(context, &cluster::Sizes::of(context)),
    },
    Scenario {
        name: "redis-reserve",
        about: "the server's own reserve script on one SKU, by pipeline depth; stock audited",
        reference: None,
        needs: &[Engine::Redis],
        metrics: &["throughput", "p50", "p95", "p99", "answers", "sold out", "over the limit"],
        run: |context| reserve::run(context, &Sweep::of(context, 2, 10, &reserve::DEPTHS)),
    },
];

#[cfg(test)]
mod tests;
