//! What of a row a measurement is put beside, in the units of the reports, and which of it is to be doubted.

use super::{File, Published, Row, rows};

/// A client that reports far less work than it was asked for, or far more, mistyped something.
const CLIENT_RATE_OFF_MAX: f64 = 2.0;
/// A rate that Redis sampled and that its client exceeds by this is not that of the run.
const SAMPLED_RATE_OFF_MAX: f64 = 1.5;
/// INCRs of each thread, in the hot key's experiment.
const INCREMENTS: f64 = 100.0;

fn sure(value: f64) -> Published {
    Published { value, dubious: None }
}

fn doubtful(value: f64, why: impl Into<String>) -> Published {
    Published { value, dubious: Some(why.into()) }
}

impl Row {
    /// What stands beside the metric of this name; none where the document has nothing.
    pub fn figure(&self, metric: &str) -> Option<Published> {
        match self.file {
            File::RedisCluster => self.of_cluster(metric),
            File::HotKey => self.of_hot_key(metric),
            File::Persistence => self.of_persistence(metric),
            File::MemoryRecovery => self.of_memory(metric),
            File::Producer => self.of_producer(metric),
            File::Tiers => self.of_tier(metric),
            File::SubmitOrder => match metric {
                // At the best point of the ramp.
                "best throughput" => self.number("tps_best").map(sure),
                "users at the best" => self.number("users_at_best_tps").map(sure),
                _ => None,
            },
            File::ProducerSamples => None,
        }
    }

    /// Of a column that every row has a number in.
    fn known(&self, column: &str) -> f64 {
        self.number(column).expect("a test reads every row")
    }

    fn of_cluster(&self, metric: &str) -> Option<Published> {
        let tps = self.number("tps").filter(|_| metric == "throughput")?;
        if self.text("operation") == "get" {
            return Some(doubtful(tps, "the published program reads from an empty list of keys"));
        }
        if self.text("sweep") != "value" {
            return Some(sure(tps));
        }
        let stated = self.known("value_bytes");
        // The published program appends 10 bytes for every 8 that it is asked for.
        let sent = (stated / 8.0).ceil() * 10.0;
        Some(doubtful(tps, format!("stated as {stated} bytes; the program sent {sent}")))
    }

    fn of_hot_key(&self, metric: &str) -> Option<Published> {
        let ms = self.known("ms_per_100_incr_avg");
        let increments = self.known("threads") * INCREMENTS;
        // Redis averages over 1.6 s, and none of the runs was as long.
        let sampled = || {
            let why = format!("averaged over 1.6 s by Redis, and a thread's 100 INCRs took {ms} ms");
            doubtful(self.known(metric), why)
        };
        // Redis counts from its start, so that the time of the runs before is in it unless it was started for each.
        let processor = |column| {
            let seconds = self.known(column);
            let why = format!(
                "{seconds} s over the {increments} INCRs of the run; Redis counts from its start, and whether that was \
                 before each run is not said"
            );
            doubtful(seconds * 1e6 / increments, why)
        };
        Some(match metric {
            // Of the time that each of the threads took.
            "throughput" => sure(increments / (ms / 1000.0)),
            "time for 100 INCRs" => sure(ms),
            "instantaneous_ops_per_sec" | "instantaneous_input_kbps" | "instantaneous_output_kbps" => {
                sampled()
            }
            "used_cpu_sys per INCR" => processor("used_cpu_sys"),
            "used_cpu_user per INCR" => processor("used_cpu_user"),
            _ => return None,
        })
    }

    fn of_persistence(&self, metric: &str) -> Option<Published> {
        Some(match metric {
            "throughput" => self.sampled("instantaneous_ops_per_sec"),
            "instantaneous_ops_per_sec" | "instantaneous_input_kbps" | "instantaneous_output_kbps" => {
                self.sampled(metric)
            }
            "client time" => self.client_s(),
            "latest_fork_usec" => sure(self.number(metric)?),
            _ => return None,
        })
    }

    /// A figure of Redis' own sampling. In pipelines it takes in the time before a burst or between two of them.
    fn sampled(&self, column: &str) -> Published {
        let (value, by_redis) = (self.known(column), self.known("instantaneous_ops_per_sec"));
        let by_client = self.known("writes") / (self.known("client_ms") / 1000.0);
        if by_client <= by_redis * SAMPLED_RATE_OFF_MAX {
            return sure(value);
        }
        let why = format!(
            "sampled by Redis around a burst of writes: the client's time says {by_client:.0}/s, not {by_redis:.0}/s"
        );
        doubtful(value, why)
    }

    /// Seconds that the client took for all writes.
    fn client_s(&self) -> Published {
        let value = self.known("client_ms") / 1000.0;
        let by_rate = self.known("writes") / self.known("instantaneous_ops_per_sec");
        // In pipelines Redis samples the rate in the middle of a burst, so only single writes can be compared.
        if self.text("pipeline") != "1" || value <= by_rate * CLIENT_RATE_OFF_MAX {
            return sure(value);
        }
        doubtful(value, format!("likely a digit too many: the rate beside it says about {by_rate:.0} s"))
    }

    /// Bytes for memory (stated in MB, taken as MiB, as Redis prints them), seconds for recovery, microseconds for a
    /// read.
    fn of_memory(&self, metric: &str) -> Option<Published> {
        let middle = self.known("value");
        match (metric, self.text("unit")) {
            ("used memory", "MB") => Some(sure(middle * f64::from(1 << 20))),
            ("load time", "s") => Some(sure(middle)),
            ("mean", "ms per read") => {
                let stated = self.text("value");
                let why = format!("stated as {stated} ms; includes the client's threads and network");
                Some(doubtful(middle * 1000.0, why))
            }
            _ => None,
        }
    }

    fn of_producer(&self, metric: &str) -> Option<Published> {
        let [stated, run] = ["threads_stated", "threads_run"].map(|column| self.text(column));
        let other = (stated != run).then(|| format!("stated as {stated} threads; the command ran {run}"));
        let (value, dubious) = match metric {
            // The median of what was printed, which is what our median compares with.
            "throughput" => (self.known("tps_sample_median"), other),
            "mean response" => (self.known("rt_ms_avg_stated") * 1000.0, other),
            "max response" => {
                let stated = self.known("rt_ms_max");
                let of_this = |row: &&Row| row.text("scenario") == self.text("scenario");
                let samples = rows(File::ProducerSamples).filter(of_this);
                let printed = samples.map(|row| row.known("rt_ms_max")).fold(0.0, f64::max);
                let differs = (printed != stated).then(|| format!("the samples say {printed} ms"));
                (stated * 1000.0, differs.or(other))
            }
            _ => return None,
        };
        Some(Published { value, dubious })
    }

    fn of_tier(&self, metric: &str) -> Option<Published> {
        let time = |column| Some(sure(self.number(column)? * 1000.0));
        match metric {
            "throughput" => Some(self.good_throughput()),
            "mean" | "mean response" => time("mean_ms"),
            "p50" => time("p50_ms"),
            "p95" => time("p95_ms"),
            "p99" => time("p99_ms"),
            "max" | "max response" => time("max_ms"),
            // Requests that the tool counted.
            "failed or unknown" => self.number("failed").map(sure),
            _ => None,
        }
    }

    /// Requests per second whose replies were as they should be. `ab` counts a reply of another length as failed: more
    /// than one in ten are no orders.
    fn good_throughput(&self) -> Published {
        let (rate, failed) = (self.known("rate_per_s"), self.known("failed"));
        match self.number("requests").filter(|requests| failed * 10.0 > *requests) {
            Some(requests) => doubtful(
                rate * (1.0 - failed / requests),
                format!("from {rate}/s less {failed} of {requests}; why those were refused is not said"),
            ),
            None if self.text("tier") == "message broker" => doubtful(rate, self.text("note")),
            None => sure(rate),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::reference::*;

    fn reason(published: &Published) -> &str {
        published.dubious.as_deref().unwrap_or_default()
    }

    fn figure(file: File, cells: &[(&str, &str)], metric: &str) -> Published {
        find(file, cells).unwrap().figure(metric).unwrap()
    }

    fn is_doubted(row: &Row, metric: &str) -> bool {
        row.figure(metric).is_some_and(|published| published.dubious.is_some())
    }

    #[test]
    fn only_the_mistyped_duration_is_doubted() {
        let doubted: Vec<_> = rows(File::Persistence)
            .filter(|row| is_doubted(row, "client time"))
            .map(|row| (row.text("mode"), row.text("writes")))
            .collect();
        assert_eq!(doubted, [("one replica attached", "2000000")]);
        let published =
            figure(File::Persistence, &[("mode", doubted[0].0), ("writes", doubted[0].1)], "client time");
        assert!(reason(&published).contains("about 941 s"), "{published:?}");
    }

    #[test]
    fn sampled_rates_of_pipelines_are_doubted() {
        for row in rows(File::Persistence) {
            for metric in ["throughput", "instantaneous_input_kbps", "instantaneous_output_kbps"] {
                assert_eq!(is_doubted(row, metric), row.text("pipeline") != "1", "{row:?}");
            }
        }
        let published =
            |writes| figure(File::Persistence, &[("pipeline", "10000"), ("writes", writes)], "throughput");
        assert!(reason(&published("400000")).contains("says 279916/s, not 131611/s"));
        assert!(reason(&published("2000000")).contains("says 296736/s, not 161782/s"));
    }

    #[test]
    fn reads_and_value_sizes_of_the_cluster_are_doubted() {
        for row in rows(File::RedisCluster).filter(|row| row.figure("throughput").is_some()) {
            let doubted = row.text("operation") == "get" || row.text("sweep") == "value";
            assert_eq!(is_doubted(row, "throughput"), doubted, "{row:?}");
        }
        for (bytes, sent) in [("10", "stated as 10 bytes; the program sent 20"), ("10000", "sent 12500")] {
            let cells = [("sweep", "value"), ("value_bytes", bytes)];
            assert!(reason(&figure(File::RedisCluster, &cells, "throughput")).contains(sent));
        }
    }

    #[test]
    fn the_scenario_that_ran_other_threads_than_stated_is_doubted() {
        let other: Vec<_> = rows(File::Producer)
            .filter(|row| is_doubted(row, "throughput"))
            .map(|row| row.text("scenario"))
            .collect();
        assert_eq!(other, ["16"]);
        assert!(reason(&figure(File::Producer, &[("scenario", "3")], "max response")).contains("225"));
    }

    #[test]
    fn orders_by_http_are_fewer_than_its_replies() {
        let orders = figure(File::Tiers, &[("tier", "order by http")], "throughput");
        assert_eq!(orders.value.round(), 2855.0);
        assert!(reason(&orders).contains("from 4055.43/s less 2959 of 10000"), "{orders:?}");
        // A few failures of many are no reason to doubt a rate.
        assert_eq!(figure(File::Tiers, &[("tier", "message by http")], "throughput").dubious, None);
        let broker = find(File::Tiers, &[("tier", "message broker")]).unwrap();
        assert!(is_doubted(broker, "throughput"));
    }

    #[test]
    fn figures_come_in_the_units_of_the_reports() {
        let hot = |threads, metric| figure(File::HotKey, &[("threads", threads)], metric);
        assert_eq!(hot("100", "throughput").value.round(), 9524.0);
        assert_eq!(hot("150", "instantaneous_ops_per_sec").value, 8350.0);
        assert!(reason(&hot("10", "instantaneous_ops_per_sec")).contains("140 ms"));
        let (sys, user) = (hot("10", "used_cpu_sys per INCR"), hot("150", "used_cpu_user per INCR"));
        assert_eq!((sys.value.round(), user.value.round()), (50.0, 75.0));
        assert!(reason(&sys).contains("1000 INCRs") && reason(&user).contains("15000 INCRs"));
        let memory = |measure, metric| figure(File::MemoryRecovery, &[("measure", measure)], metric);
        assert_eq!(memory("memory", "used memory").value.round(), 30_303_846.0);
        assert_eq!(memory("recovery aof", "load time").value, 6.216);
        assert_eq!(memory("read latency", "mean").value, 6000.0);
        assert_eq!(figure(File::Tiers, &[("tier", "stock")], "p99").value, 25_000.0);
        assert_eq!(figure(File::Producer, &[("scenario", "1")], "mean response").value, 220.0);
        let of_disk =
            |sync| find(File::SubmitOrder, &[("disk", "hard disk"), ("sync_binlog", sync)]).unwrap();
        assert_eq!(of_disk("0").figure("best throughput"), None);
        assert_eq!(of_disk("1").figure("users at the best").unwrap().value, 290.0);
    }
}
