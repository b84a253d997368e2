//! What of a row a measurement is put beside, in the units of the reports, and which of it is to be doubted.

use super::Published;
use super::rows::{
    HotKey, MemoryRecovery, RedisCluster, RedisPersistence, RocketMqProducer, SeckillTier, SubmitOrder,
};

/// A client that reports far less work than it was asked for, or far more, mistyped something.
const CLIENT_RATE_OFF_MAX: f64 = 2.0;
/// A rate that Redis sampled and that its client exceeds by this is not that of the run.
const SAMPLED_RATE_OFF_MAX: f64 = 1.5;

fn sure(value: f64) -> Published {
    Published { value, dubious: None }
}

fn doubtful(value: f64, why: impl Into<String>) -> Published {
    Published { value, dubious: Some(why.into()) }
}

impl RedisCluster {
    /// Operations per second; `None` where the document gives none.
    pub fn throughput(&self) -> Option<Published> {
        let tps = self.tps?;
        if self.operation == "get" {
            return Some(doubtful(tps, "the published program reads from an empty list of keys"));
        }
        let sent = self.value_bytes_sent().zip(self.value_bytes).filter(|_| self.sweep == "value");
        Some(match sent {
            Some((sent, stated)) => {
                doubtful(tps, format!("stated as {stated} bytes; the program sent {sent}"))
            }
            None => sure(tps),
        })
    }

    /// The published program appends 10 bytes for every 8 that it is asked for.
    pub fn value_bytes_sent(&self) -> Option<u64> {
        self.value_bytes.map(|stated| stated.div_ceil(8) * 10)
    }
}

impl HotKey {
    /// INCRs per second, as Redis said. It averages over 1.6 s, and none of the runs was as long.
    pub fn throughput(&self) -> Published {
        let ms = self.ms_per_100_incr_avg;
        doubtful(
            self.instantaneous_ops_per_sec,
            format!("averaged over 1.6 s by Redis, and a thread's 100 INCRs took {ms} ms"),
        )
    }

    /// INCRs per second, of the time that each of the threads took for 100.
    pub fn throughput_by_client(&self) -> Published {
        sure(self.increments() / (self.ms_per_100_incr_avg / 1000.0))
    }

    /// Of all threads: each made 100.
    fn increments(&self) -> f64 {
        self.threads as f64 * 100.0
    }

    /// Microseconds of Redis in the kernel for an INCR.
    pub fn cpu_sys_us(&self) -> Published {
        self.per_increment(self.used_cpu_sys)
    }

    /// Microseconds of Redis outside of the kernel for an INCR.
    pub fn cpu_user_us(&self) -> Published {
        self.per_increment(self.used_cpu_user)
    }

    /// Redis counts from its start, so that the time of the runs before is in it unless it was started for each.
    fn per_increment(&self, seconds: f64) -> Published {
        doubtful(
            seconds * 1e6 / self.increments(),
            format!(
                "{seconds} s over the {} INCRs of the run; Redis counts from its start, and whether that was before \
                 each run is not said",
                self.increments()
            ),
        )
    }
}

impl RedisPersistence {
    /// Writes per second, as Redis said.
    pub fn throughput(&self) -> Published {
        self.sampled(self.instantaneous_ops_per_sec)
    }

    /// kB per second that came to Redis, as it said.
    pub fn input_kbps(&self) -> Published {
        self.sampled(self.instantaneous_input_kbps)
    }

    /// kB per second that Redis sent, as it said.
    pub fn output_kbps(&self) -> Published {
        self.sampled(self.instantaneous_output_kbps)
    }

    /// A figure of Redis' own sampling. In pipelines it takes in the time before a burst or between two of them.
    fn sampled(&self, value: f64) -> Published {
        let by_client = self.writes as f64 / (self.client_ms / 1000.0);
        if by_client > self.instantaneous_ops_per_sec * SAMPLED_RATE_OFF_MAX {
            return doubtful(
                value,
                format!(
                    "sampled by Redis around a burst of writes: the client's time says {by_client:.0}/s, not {:.0}/s",
                    self.instantaneous_ops_per_sec
                ),
            );
        }
        sure(value)
    }

    /// Seconds that the client took for all writes.
    pub fn client_s(&self) -> Published {
        let value = self.client_ms / 1000.0;
        let by_rate = self.writes as f64 / self.instantaneous_ops_per_sec;
        // In pipelines Redis samples the rate in the middle of a burst, so only single writes can be compared.
        if self.pipeline == 1 && value > by_rate * CLIENT_RATE_OFF_MAX {
            return doubtful(
                value,
                format!("likely a digit too many: the rate beside it says about {by_rate:.0} s"),
            );
        }
        sure(value)
    }

    pub fn fork_us(&self) -> Option<Published> {
        self.latest_fork_usec.map(|us| sure(us as f64))
    }
}

impl MemoryRecovery {
    /// Bytes for memory (stated in MB, taken as MiB, as Redis prints them), seconds for recovery, microseconds for
    /// a read.
    pub fn value(&self) -> Published {
        let middle = self.value.middle();
        match self.unit.as_str() {
            "MB" => sure(middle * f64::from(1 << 20)),
            "ms per read" => doubtful(
                middle * 1000.0,
                format!("stated as {} ms; includes the client's threads and network", self.value),
            ),
            _ => sure(middle),
        }
    }
}

impl RocketMqProducer {
    /// Messages per second: the median of what was printed, which is what our median compares with.
    pub fn throughput(&self) -> Published {
        Published { value: self.tps_sample_median, dubious: self.other_threads() }
    }

    /// The mean response time in microseconds.
    pub fn latency_us_mean(&self) -> Published {
        Published { value: self.rt_ms_avg_stated * 1000.0, dubious: self.other_threads() }
    }

    pub fn latency_us_max(&self) -> Published {
        let printed = super::rocketmq_producer_samples(self.scenario).map(|sample| sample.rt_ms_max);
        let printed = printed.fold(0.0, f64::max);
        let mut dubious = self.other_threads();
        if printed != self.rt_ms_max {
            dubious = Some(format!("the samples say {printed} ms"));
        }
        Published { value: self.rt_ms_max * 1000.0, dubious }
    }

    fn other_threads(&self) -> Option<String> {
        (self.threads_stated != self.threads_run).then(|| {
            format!("stated as {} threads; the command ran {}", self.threads_stated, self.threads_run)
        })
    }
}

impl SeckillTier {
    /// Requests per second. For orders: see [`SeckillTier::good_throughput`].
    pub fn throughput(&self) -> Published {
        match self.short_replies() {
            Some((failed, requests)) => doubtful(
                self.rate_per_s,
                format!(
                    "counts {failed} of {requests} replies that were no orders: {:.0}/s were",
                    self.good_per_s()
                ),
            ),
            None if self.tier == "message broker" => doubtful(self.rate_per_s, self.note.clone()),
            None => sure(self.rate_per_s),
        }
    }

    /// Requests per second whose replies were as they should be.
    pub fn good_throughput(&self) -> Published {
        match self.short_replies() {
            Some((failed, requests)) => doubtful(
                self.good_per_s(),
                format!(
                    "from {}/s less {failed} of {requests}; why those were refused is not said",
                    self.rate_per_s
                ),
            ),
            None => self.throughput(),
        }
    }

    pub fn mean_us(&self) -> Published {
        sure(self.mean_ms * 1000.0)
    }

    pub fn max_us(&self) -> Published {
        sure(self.max_ms * 1000.0)
    }

    /// Requests that the tool counted as failed.
    pub fn failed_requests(&self) -> Published {
        sure(self.failed as f64)
    }

    pub fn p50_us(&self) -> Option<Published> {
        self.p50_ms.map(|ms| sure(ms * 1000.0))
    }

    pub fn p95_us(&self) -> Option<Published> {
        self.p95_ms.map(|ms| sure(ms * 1000.0))
    }

    pub fn p99_us(&self) -> Option<Published> {
        self.p99_ms.map(|ms| sure(ms * 1000.0))
    }

    /// Of so many requests, if they are more than one in ten: `ab` counts a reply of another length as failed.
    fn short_replies(&self) -> Option<(u64, u64)> {
        let requests = self.requests?;
        (self.failed * 10 > requests).then_some((self.failed, requests))
    }

    fn good_per_s(&self) -> f64 {
        self.rate_per_s * (1.0 - self.failed as f64 / self.requests.unwrap_or(self.failed).max(1) as f64)
    }
}

impl SubmitOrder {
    /// Orders per second at the best point of the ramp.
    pub fn throughput_best(&self) -> Option<Published> {
        self.tps_best.map(sure)
    }

    /// Active users at the best throughput.
    pub fn users_at_best(&self) -> Published {
        sure(self.users_at_best_tps.middle())
    }
}

#[cfg(test)]
mod tests {
    use crate::reference::*;

    fn reason(published: &Published) -> &str {
        published.dubious.as_deref().unwrap_or_default()
    }

    #[test]
    fn only_the_mistyped_duration_is_doubted() {
        let doubted: Vec<_> = PERSISTENCE
            .iter()
            .filter(|row| row.client_s().dubious.is_some())
            .map(|row| (row.mode.as_str(), row.writes))
            .collect();
        assert_eq!(doubted, [("one replica attached", 2_000_000)]);
        let published = redis_persistence("one replica attached", 1, 2_000_000).unwrap().client_s();
        assert!(reason(&published).contains("about 941 s"), "{published:?}");
    }

    #[test]
    fn sampled_rates_of_pipelines_are_doubted() {
        for row in PERSISTENCE.iter() {
            for published in [row.throughput(), row.input_kbps(), row.output_kbps()] {
                assert_eq!(published.dubious.is_some(), row.pipeline > 1, "{row:?}");
            }
        }
        let published = |writes| redis_persistence("rdb", 10_000, writes).unwrap().throughput();
        assert!(reason(&published(400_000)).contains("says 279916/s, not 131611/s"));
        assert!(reason(&published(2_000_000)).contains("says 296736/s, not 161782/s"));
    }

    #[test]
    fn reads_and_value_sizes_of_the_cluster_are_doubted() {
        for row in redis_cluster_rows() {
            let Some(published) = row.throughput() else { continue };
            let doubted = row.operation == "get" || row.sweep == "value";
            assert_eq!(published.dubious.is_some(), doubted, "{row:?}");
        }
        let sent = |case: &str| redis_cluster("value", case).unwrap().value_bytes_sent();
        assert_eq!((sent("1"), sent("10")), (Some(20), Some(12_500)));
    }

    #[test]
    fn the_scenario_that_ran_other_threads_than_stated_is_doubted() {
        let other: Vec<u64> = PRODUCER
            .iter()
            .filter(|row| row.throughput().dubious.is_some())
            .map(|row| row.scenario)
            .collect();
        assert_eq!(other, [16]);
        assert!(reason(&rocketmq_producer(3).unwrap().latency_us_max()).contains("225"));
    }

    #[test]
    fn orders_by_http_are_fewer_than_its_replies() {
        let tier = seckill_tier("order by http", 0).unwrap();
        assert_eq!(tier.throughput().value, 4055.43);
        assert!(reason(&tier.throughput()).contains("2959 of 10000"));
        assert_eq!(tier.good_throughput().value.round(), 2855.0);
        // A few failures of many are no reason to doubt a rate.
        assert_eq!(seckill_tier("message by http", 0).unwrap().throughput().dubious, None);
        assert!(seckill_tier("message broker", 0).unwrap().throughput().dubious.is_some());
    }

    #[test]
    fn figures_come_in_the_units_of_the_reports() {
        assert_eq!(hot_key(100).unwrap().throughput_by_client().value.round(), 9524.0);
        assert!(reason(&hot_key(10).unwrap().throughput()).contains("140 ms"));
        let (sys, user) = (hot_key(10).unwrap().cpu_sys_us(), hot_key(150).unwrap().cpu_user_us());
        assert_eq!((sys.value.round(), user.value.round()), (50.0, 75.0));
        assert!(reason(&sys).contains("1000 INCRs") && reason(&user).contains("15000 INCRs"));
        assert_eq!(memory_recovery("memory", 400_000).unwrap().value().value.round(), 30_303_846.0);
        assert_eq!(memory_recovery("read latency", 4_000_000).unwrap().value().value, 6000.0);
        assert_eq!(seckill_tier("stock", 0).unwrap().p99_us().unwrap().value, 25_000.0);
        assert_eq!(rocketmq_producer(1).unwrap().latency_us_mean().value, 220.0);
        assert_eq!(submit_order("hard disk", 0).unwrap().throughput_best(), None);
        assert_eq!(submit_order("hard disk", 1).unwrap().users_at_best().value, 290.0);
    }
}
