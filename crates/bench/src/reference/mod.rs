//! The published figures: they travel with the program, so that each measurement stands beside what it reproduces.
//!
//! Made from five published documents (`data/README.md`). A row is found by its cells, and its figures by the names of the
//! metrics that they stand beside; nothing here judges a measurement. A figure that is likely wrong is given with the
//! reason: see [`Published::dubious`].

mod published;

use std::collections::BTreeMap;
use std::sync::LazyLock;

pub use crate::report::model::Published;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum File {
    RedisCluster,
    HotKey,
    Persistence,
    MemoryRecovery,
    Producer,
    ProducerSamples,
    Tiers,
    SubmitOrder,
}

const FILES: [(File, &str); 8] = [
    (File::RedisCluster, include_str!("data/redis-cluster.csv")),
    (File::HotKey, include_str!("data/redis-hot-key-incr.csv")),
    (File::Persistence, include_str!("data/redis-persistence.csv")),
    (File::MemoryRecovery, include_str!("data/redis-memory-recovery.csv")),
    (File::Producer, include_str!("data/rocketmq-producer.csv")),
    (File::ProducerSamples, include_str!("data/rocketmq-producer-samples.csv")),
    (File::Tiers, include_str!("data/seckill-tiers.csv")),
    (File::SubmitOrder, include_str!("data/submit-order-mysql.csv")),
];

static ROWS: LazyLock<Vec<Row>> = LazyLock::new(|| FILES.into_iter().flat_map(read).collect());

/// A row of a file: its cells by the names of their columns.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    file: File,
    cells: BTreeMap<String, String>,
}

fn read((file, text): (File, &str)) -> Vec<Row> {
    let rows = csv::Reader::from_reader(text.as_bytes()).into_deserialize();
    let cells: Result<Vec<BTreeMap<String, String>>, csv::Error> = rows.collect();
    let cells = cells.expect("the files are compiled in, and a test reads every row of them");
    cells.into_iter().map(|cells| Row { file, cells }).collect()
}

impl Row {
    /// # Panics
    /// Without such a column.
    pub fn text(&self, column: &str) -> &str {
        let cell = self.cells.get(column);
        cell.unwrap_or_else(|| panic!("{:?} has no column {column}", self.file))
    }

    /// `300`, or the middle of `280-300`, where the document gives both ends; none where it gives none.
    pub fn number(&self, column: &str) -> Option<f64> {
        let text = self.text(column);
        let (low, high) = text.split_once('-').unwrap_or((text, text));
        Some(f64::midpoint(low.trim().parse().ok()?, high.trim().parse().ok()?))
    }
}

pub fn rows(file: File) -> impl Iterator<Item = &'static Row> {
    ROWS.iter().filter(move |row| row.file == file)
}

/// The first row with these cells: `find(File::Tiers, &[("tier", "redis get"), ("concurrency", "8")])`.
pub fn find(file: File, cells: &[(&str, &str)]) -> Option<&'static Row> {
    rows(file).find(|row| cells.iter().all(|(column, cell)| row.text(column) == *cell))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_of_every_file_is_read() {
        let counts = FILES.map(|(file, _)| rows(file).count());
        assert_eq!(counts, [35, 5, 14, 5, 36, 262, 11, 4]);
        let numbers: [(File, &[&str]); 3] = [
            (File::Producer, &["threads_run", "tps_sample_median", "rt_ms_max", "rt_ms_avg_stated"]),
            (File::Tiers, &["concurrency", "rate_per_s", "mean_ms", "max_ms", "failed"]),
            (File::Persistence, &["pipeline", "writes", "client_ms", "instantaneous_ops_per_sec"]),
        ];
        for (file, columns) in numbers {
            for row in rows(file) {
                assert!(columns.iter().all(|of| row.number(of).is_some()), "{row:?}");
            }
        }
    }

    #[test]
    fn rows_are_found_by_what_the_scenarios_know() {
        let number = |file, cells: &[(&str, &str)], column| find(file, cells).unwrap().number(column);
        let cluster = |sweep, case| number(File::RedisCluster, &[("sweep", sweep), ("case", case)], "tps");
        assert_eq!(cluster("threads", "6"), Some(44086.0));
        assert_eq!(cluster("persistence", "always"), Some(11604.0));
        assert_eq!(cluster("swap", "on"), None);
        let tier = |index| rows(File::Tiers).filter(|row| row.text("tier") == "redis get").nth(index);
        assert_eq!(tier(1).unwrap().number("concurrency"), Some(8.0));
        assert_eq!(tier(3), None);
        let users = number(File::SubmitOrder, &[("disk", "ssd"), ("sync_binlog", "1")], "users_at_best_tps");
        assert_eq!(users, Some(290.0));
    }

    #[test]
    fn the_producers_summary_agrees_with_its_samples() {
        for row in rows(File::Producer) {
            let scenario = row.text("scenario");
            let samples = rows(File::ProducerSamples).filter(|sample| sample.text("scenario") == scenario);
            let samples: Vec<f64> = samples.map(|sample| sample.number("send_tps").unwrap()).collect();
            let number = |column| row.number(column).unwrap();
            assert_eq!(samples.len() as f64, number("samples"), "scenario {scenario}");
            assert_eq!(samples.iter().copied().fold(0.0, f64::max), number("tps_sample_max"));
            assert_eq!(samples.iter().copied().fold(f64::MAX, f64::min), number("tps_sample_min"));
            assert_eq!(crate::goal::median(samples.into_iter()), number("tps_sample_median"));
        }
    }
}
