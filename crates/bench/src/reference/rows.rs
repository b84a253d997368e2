//! The rows of the data files, as typed as the documents allow. Data only: what a figure is worth says `published.rs`.
//!
//! Names and order of the fields are those of the files' columns.

use std::fmt;

use serde::Deserialize;
use serde::de::{self, Deserializer};

/// `300`, or `280-300` where the document gives both ends.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Span {
    pub low: f64,
    pub high: f64,
}

impl Span {
    pub fn middle(self) -> f64 {
        f64::midpoint(self.low, self.high)
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.low == self.high {
            write!(f, "{}", self.low)
        } else {
            write!(f, "{}-{}", self.low, self.high)
        }
    }
}

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let (low, high) = text.split_once('-').unwrap_or((&text, &text));
        let number = |text: &str| {
            text.trim().parse().map_err(|_error| de::Error::custom(format!("{text}: no number")))
        };
        Ok(Self { low: number(low)?, high: number(high)? })
    }
}

/// `redis-cluster.csv`
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RedisCluster {
    /// `threads`, `value`, `key`, `persistence`, `swap`.
    pub sweep: String,
    /// A number, or the name of a setting: `everysec`, `on`.
    pub case: String,
    pub key_bytes: Option<u64>,
    /// As stated: see [`RedisCluster::value_bytes_sent`].
    pub value_bytes: Option<u64>,
    /// A count, or `300 threads x 20972`.
    pub operations: String,
    pub client_threads: Option<u64>,
    /// `set` or `get`.
    pub operation: String,
    pub tps: Option<f64>,
}

/// `redis-hot-key-incr.csv`
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HotKey {
    pub threads: u64,
    /// What a thread took for its 100 INCRs.
    pub ms_per_100_incr_avg: f64,
    pub instantaneous_ops_per_sec: f64,
    pub instantaneous_input_kbps: f64,
    pub instantaneous_output_kbps: f64,
    pub used_cpu_sys: f64,
    pub used_cpu_user: f64,
}

/// `redis-persistence.csv`
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RedisPersistence {
    /// `none`, `aof always`, `rdb (save 900 1 300 10 60 10000)`, `one replica attached`.
    pub mode: String,
    /// Commands in a pipeline; 1 is none.
    pub pipeline: u64,
    pub writes: u64,
    pub client_ms: f64,
    pub instantaneous_ops_per_sec: f64,
    pub instantaneous_input_kbps: f64,
    pub instantaneous_output_kbps: f64,
    pub latest_fork_usec: Option<u64>,
}

/// `redis-memory-recovery.csv`
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MemoryRecovery {
    /// `memory`, `recovery rdb`, `recovery aof`, `read latency`.
    pub measure: String,
    pub keys: u64,
    pub key_bytes: u64,
    pub value_bytes: u64,
    pub value: Span,
    pub unit: String,
    pub note: String,
}

/// `rocketmq-producer.csv`
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RocketMqProducer {
    /// 1 to 36.
    pub scenario: u64,
    pub threads_stated: u64,
    pub threads_run: u64,
    pub message_bytes: u64,
    pub queues: u64,
    pub tps_stated_max: f64,
    pub rt_ms_max: f64,
    pub rt_ms_avg_stated: f64,
    pub tps_sample_median: f64,
    pub tps_sample_min: f64,
    pub tps_sample_max: f64,
    pub samples: u64,
    pub response_failed_total: u64,
}

/// `rocketmq-producer-samples.csv`
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RocketMqSample {
    pub scenario: u64,
    pub sample: u64,
    pub send_tps: f64,
    pub rt_ms_max: f64,
    pub rt_ms_avg: f64,
    pub send_failed: u64,
    pub response_failed: u64,
}

/// `seckill-tiers.csv`
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SeckillTier {
    /// `redis set`, `static sale page`, `order by http`: some have several rows.
    pub tier: String,
    pub tool: String,
    pub command_or_target: String,
    pub concurrency: u64,
    pub requests: Option<u64>,
    pub payload_bytes: u64,
    pub rate_per_s: f64,
    pub mean_ms: f64,
    pub p50_ms: Option<f64>,
    pub p95_ms: Option<f64>,
    pub p99_ms: Option<f64>,
    pub max_ms: f64,
    pub failed: u64,
    pub note: String,
}

/// `submit-order-mysql.csv`
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SubmitOrder {
    /// `hard disk` or `ssd`.
    pub disk: String,
    pub innodb_flush_log_at_trx_commit: u8,
    pub sync_binlog: u8,
    pub users_max: u64,
    pub ramp_s: Option<u64>,
    pub loops: Option<u64>,
    pub users_at_best_tps: Span,
    pub tps_best: Option<f64>,
    /// `60%`, `over 80%`.
    pub cpu_at_plateau: String,
    pub note: String,
}
