//! What of a row a measurement is put beside, in the units of the reports, and which of it is to be doubted.

use super::{File, Published, Row};

/// What stands beside a metric: the column of a file, how its cells come to the unit of the reports, and the column with the
/// reasons to doubt them, if there is one.
type Figure = (File, &'static str, &'static str, fn(f64) -> f64, &'static str);

const SAME: fn(f64) -> f64 = |value| value;
const MS_AS_US: fn(f64) -> f64 = |ms| ms * 1000.0;
const MS_AS_S: fn(f64) -> f64 = |ms| ms / 1000.0;
/// Stated in MB, taken as MiB, as Redis prints them.
const MB_AS_BYTES: fn(f64) -> f64 = |mb| mb * f64::from(1 << 20);

const FIGURES: &[Figure] = &[
    (File::RedisCluster, "throughput", "tps", SAME, "doubt"),
    (File::HotKey, "throughput", "incr_per_s", SAME, ""),
    (File::HotKey, "time for 100 INCRs", "ms_per_100_incr_avg", SAME, ""),
    (File::HotKey, OPS_PER_S, OPS_PER_S, SAME, SAMPLED),
    (File::HotKey, INPUT_KBPS, INPUT_KBPS, SAME, SAMPLED),
    (File::HotKey, OUTPUT_KBPS, OUTPUT_KBPS, SAME, SAMPLED),
    (File::HotKey, "used_cpu_sys per INCR", "sys_us_per_incr", SAME, "doubt_sys"),
    (File::HotKey, "used_cpu_user per INCR", "user_us_per_incr", SAME, "doubt_user"),
    (File::Persistence, "throughput", OPS_PER_S, SAME, SAMPLED),
    (File::Persistence, OPS_PER_S, OPS_PER_S, SAME, SAMPLED),
    (File::Persistence, INPUT_KBPS, INPUT_KBPS, SAME, SAMPLED),
    (File::Persistence, OUTPUT_KBPS, OUTPUT_KBPS, SAME, SAMPLED),
    (File::Persistence, "client time", "client_ms", MS_AS_S, "doubt_client"),
    (File::Persistence, "latest_fork_usec", "latest_fork_usec", SAME, ""),
    (File::MemoryRecovery, "used memory", "used_mb", MB_AS_BYTES, ""),
    (File::MemoryRecovery, "load time", "load_s", SAME, ""),
    (File::MemoryRecovery, "mean", "read_ms", MS_AS_US, "doubt"),
    // The median of what was printed, which is what our median compares with.
    (File::Producer, "throughput", "tps_sample_median", SAME, "doubt"),
    (File::Producer, "mean response", "rt_ms_avg_stated", MS_AS_US, "doubt"),
    (File::Producer, "max response", "rt_ms_max", MS_AS_US, "doubt_max"),
    // Of requests whose replies were as they should be.
    (File::Tiers, "throughput", "good_per_s", SAME, "doubt"),
    (File::Tiers, "mean", "mean_ms", MS_AS_US, ""),
    (File::Tiers, "mean response", "mean_ms", MS_AS_US, ""),
    (File::Tiers, "p50", "p50_ms", MS_AS_US, ""),
    (File::Tiers, "p95", "p95_ms", MS_AS_US, ""),
    (File::Tiers, "p99", "p99_ms", MS_AS_US, ""),
    (File::Tiers, "max", "max_ms", MS_AS_US, ""),
    (File::Tiers, "max response", "max_ms", MS_AS_US, ""),
    // Requests that the tool counted.
    (File::Tiers, "failed or unknown", "failed", SAME, ""),
    // At the best point of the ramp.
    (File::SubmitOrder, "best throughput", "tps_best", SAME, ""),
    (File::SubmitOrder, "users at the best", "users_at_best_tps", SAME, ""),
];
const OPS_PER_S: &str = "instantaneous_ops_per_sec";
const INPUT_KBPS: &str = "instantaneous_input_kbps";
const OUTPUT_KBPS: &str = "instantaneous_output_kbps";
/// Redis samples its own rates over 1.6 s: of a shorter run, or a burst, they are another's.
const SAMPLED: &str = "doubt_instantaneous";

impl Row {
    /// What stands beside the metric of this name; none where the document has nothing.
    pub fn figure(&self, metric: &str) -> Option<Published> {
        let is_it = |(file, name, ..): &&Figure| *file == self.file && *name == metric;
        let (.., column, in_unit, doubt) = FIGURES.iter().find(is_it)?;
        let dubious = Some(*doubt).filter(|doubt| !doubt.is_empty()).map(|doubt| self.text(doubt).to_owned());
        let dubious = dubious.filter(|why| !why.is_empty());
        Some(Published { value: in_unit(self.number(column)?), dubious })
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
