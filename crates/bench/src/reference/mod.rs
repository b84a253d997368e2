//! The published figures: they travel with the program, so that each measurement stands beside what it reproduces.
//!
//! Made from five published documents (`data/README.md`). The scenarios look figures up here; nothing here judges a
//! measurement. A figure that is likely wrong is given with the reason: see [`Published::dubious`].

mod published;
mod rows;

use std::sync::LazyLock;

use serde::de::DeserializeOwned;

pub use self::rows::{
    HotKey, MemoryRecovery, RedisCluster, RedisPersistence, RocketMqProducer, RocketMqSample, SeckillTier,
    Span, SubmitOrder,
};
pub use crate::report::model::Published;

static REDIS_CLUSTER: LazyLock<Vec<RedisCluster>> =
    LazyLock::new(|| read(include_str!("data/redis-cluster.csv")));
static HOT_KEY: LazyLock<Vec<HotKey>> = LazyLock::new(|| read(include_str!("data/redis-hot-key-incr.csv")));
static PERSISTENCE: LazyLock<Vec<RedisPersistence>> =
    LazyLock::new(|| read(include_str!("data/redis-persistence.csv")));
static MEMORY_RECOVERY: LazyLock<Vec<MemoryRecovery>> =
    LazyLock::new(|| read(include_str!("data/redis-memory-recovery.csv")));
static PRODUCER: LazyLock<Vec<RocketMqProducer>> =
    LazyLock::new(|| read(include_str!("data/rocketmq-producer.csv")));
static PRODUCER_SAMPLES: LazyLock<Vec<RocketMqSample>> =
    LazyLock::new(|| read(include_str!("data/rocketmq-producer-samples.csv")));
static TIERS: LazyLock<Vec<SeckillTier>> = LazyLock::new(|| read(include_str!("data/seckill-tiers.csv")));
static SUBMIT: LazyLock<Vec<SubmitOrder>> =
    LazyLock::new(|| read(include_str!("data/submit-order-mysql.csv")));

fn read<R: DeserializeOwned>(text: &str) -> Vec<R> {
    let rows: Result<Vec<R>, csv::Error> =
        csv::Reader::from_reader(text.as_bytes()).into_deserialize().collect();
    rows.expect("the files are compiled in, and a test reads every row of them")
}

/// All rows, in the file's order.
pub fn redis_cluster_rows() -> &'static [RedisCluster] {
    &REDIS_CLUSTER
}

/// `redis_cluster("threads", "5")`, `redis_cluster("persistence", "always")`.
pub fn redis_cluster(sweep: &str, case: &str) -> Option<&'static RedisCluster> {
    REDIS_CLUSTER.iter().find(|row| row.sweep == sweep && row.case == case)
}

pub fn hot_key(threads: u64) -> Option<&'static HotKey> {
    HOT_KEY.iter().find(|row| row.threads == threads)
}

/// `mode` as the file has it, or its first word if that is enough: `rdb`.
pub fn redis_persistence(mode: &str, pipeline: u64, writes: u64) -> Option<&'static RedisPersistence> {
    let named = |row: &RedisPersistence| {
        row.mode == mode || row.mode.split_once(" (").is_some_and(|(short, _)| short == mode)
    };
    PERSISTENCE.iter().find(|row| named(row) && row.pipeline == pipeline && row.writes == writes)
}

/// `memory_recovery("memory", 400_000)`, `memory_recovery("recovery aof", 4_000_000)`.
pub fn memory_recovery(measure: &str, keys: u64) -> Option<&'static MemoryRecovery> {
    MEMORY_RECOVERY.iter().find(|row| row.measure == measure && row.keys == keys)
}

/// Scenarios 1 to 36.
pub fn rocketmq_producer(scenario: u64) -> Option<&'static RocketMqProducer> {
    PRODUCER.iter().find(|row| row.scenario == scenario)
}

/// What the producer printed in one of the 36 scenarios, in its order.
pub fn rocketmq_producer_samples(scenario: u64) -> impl Iterator<Item = &'static RocketMqSample> {
    PRODUCER_SAMPLES.iter().filter(move |row| row.scenario == scenario)
}

/// The `index`-th row of a tier, from 0: `seckill_tier("redis get", 1)`.
pub fn seckill_tier(tier: &str, index: usize) -> Option<&'static SeckillTier> {
    TIERS.iter().filter(|row| row.tier == tier).nth(index)
}

/// `submit_order("ssd", 0)`; `flush` is `innodb_flush_log_at_trx_commit`, and `sync_binlog` is the same in every row.
pub fn submit_order(disk: &str, flush: u8) -> Option<&'static SubmitOrder> {
    SUBMIT.iter().find(|row| row.disk == disk && row.innodb_flush_log_at_trx_commit == flush)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_of_every_file_is_read() {
        assert_eq!(redis_cluster_rows().len(), 35);
        assert_eq!(HOT_KEY.len(), 5);
        assert_eq!(PERSISTENCE.len(), 14);
        assert_eq!(MEMORY_RECOVERY.len(), 5);
        assert_eq!(PRODUCER.len(), 36);
        assert_eq!(PRODUCER_SAMPLES.len(), 262);
        assert_eq!(TIERS.len(), 11);
        assert_eq!(SUBMIT.len(), 4);
    }

    #[test]
    fn rows_are_found_by_what_the_scenarios_know() {
        assert_eq!(redis_cluster("threads", "6").unwrap().tps, Some(44086.0));
        assert_eq!(redis_cluster("persistence", "always").unwrap().tps, Some(11604.0));
        assert_eq!(redis_cluster("swap", "on").unwrap().tps, None);
        assert_eq!(hot_key(150).unwrap().instantaneous_ops_per_sec, 8350.0);
        assert_eq!(redis_persistence("aof always", 1, 400_000).unwrap().client_ms, 583_053.0);
        assert_eq!(redis_persistence("rdb", 10_000, 2_000_000).unwrap().client_ms, 6740.0);
        assert_eq!(memory_recovery("recovery aof", 4_000_000).unwrap().value.low, 6.216);
        assert_eq!(rocketmq_producer(36).unwrap().tps_sample_median, 106_243.0);
        assert_eq!(seckill_tier("redis get", 1).unwrap().concurrency, 8);
        assert_eq!(seckill_tier("redis get", 3), None);
        assert_eq!(submit_order("ssd", 1).unwrap().tps_best, Some(1000.0));
        assert_eq!(submit_order("ssd", 1).unwrap().users_at_best_tps, Span { low: 280.0, high: 300.0 });
    }

    #[test]
    fn the_producers_summary_agrees_with_its_samples() {
        for row in PRODUCER.iter() {
            let samples: Vec<f64> =
                rocketmq_producer_samples(row.scenario).map(|sample| sample.send_tps).collect();
            assert_eq!(samples.len() as u64, row.samples, "scenario {}", row.scenario);
            assert_eq!(samples.iter().copied().fold(0.0, f64::max), row.tps_sample_max);
            assert_eq!(samples.iter().copied().fold(f64::MAX, f64::min), row.tps_sample_min);
            assert_eq!(crate::goal::median(samples.into_iter()), row.tps_sample_median);
        }
    }
}
