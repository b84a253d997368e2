//! Looks at the queues while a load runs: how many orders were accepted, how many are in the ledger, where the others
//! wait. Its own thread, ten looks a second, each a few small questions.
//!
//! Must not: take part in the load, or be asked for a time.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context;

use crate::drivers::http::once;
use crate::target::engines::EngineSet;
use crate::target::engines::mariadb::Database;
use crate::target::engines::rocketmq::Broker;

const EVERY: Duration = Duration::from_millis(100);
/// The server's own count of the orders that wait for the broker.
const PUBLISHING: &str = "doorbuster_publish_queue";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Point {
    /// Orders answered with 202, since the measurement began.
    pub(super) accepted: u64,
    /// Orders in the ledger, since then.
    pub(super) persisted: u64,
    /// Messages that the broker has and the ledger has not.
    pub(super) in_broker: u64,
    /// Orders that wait in the servers for the broker; `None` if they do not say.
    pub(super) publishing: Option<u64>,
}

impl Point {
    pub(super) fn backlog(self) -> u64 {
        self.accepted.saturating_sub(self.persisted)
    }
}

#[derive(Debug, Clone, Default)]
pub(super) struct Queues {
    /// Accepted and not in the ledger.
    pub(super) backlog_mean: f64,
    pub(super) backlog_max: u64,
    /// How much the backlog grew, for each order accepted: near 0 is flat, 0.5 is a ledger half as fast as the load.
    pub(super) backlog_growth: f64,
    pub(super) in_broker_mean: f64,
    pub(super) in_broker_max: u64,
    pub(super) publishing_mean: Option<f64>,
    pub(super) publishing_max: Option<u64>,
}

impl Queues {
    pub(super) fn of(points: &[Point]) -> Self {
        let mean = |values: &mut dyn Iterator<Item = u64>| {
            let (count, sum) = values.fold((0_u64, 0_u64), |(count, sum), value| (count + 1, sum + value));
            (count > 0).then(|| sum as f64 / count as f64)
        };
        let most = |values: &mut dyn Iterator<Item = u64>| values.max();
        let backlog = || points.iter().map(|point| point.backlog());
        let in_broker = || points.iter().map(|point| point.in_broker);
        let publishing = || points.iter().filter_map(|point| point.publishing);
        Self {
            backlog_mean: mean(&mut backlog()).unwrap_or(0.0),
            backlog_max: most(&mut backlog()).unwrap_or(0),
            backlog_growth: growth(points),
            in_broker_mean: mean(&mut in_broker()).unwrap_or(0.0),
            in_broker_max: most(&mut in_broker()).unwrap_or(0),
            publishing_mean: mean(&mut publishing()),
            publishing_max: most(&mut publishing()),
        }
    }

    /// Where the orders stood that were accepted or about to be.
    pub(super) fn waiting(&self) -> String {
        let publishing = self.publishing_mean.map_or(String::new(), |mean| {
            format!("{mean:.0} waited for the broker (most {}), ", self.publishing_max.unwrap_or(0))
        });
        format!(
            "on average {publishing}{:.0} were in the broker before the ledger (most {}), {:.0} accepted and not in \
             the ledger (most {}, growing by {:.1}% of what is accepted).",
            self.in_broker_mean,
            self.in_broker_max,
            self.backlog_mean,
            self.backlog_max,
            self.backlog_growth * 100.0
        )
    }
}

/// The slope of the backlog over the accepted orders (least squares), so that one late look decides nothing.
fn growth(points: &[Point]) -> f64 {
    let count = points.len() as f64;
    let mean_of =
        |value: fn(&Point) -> u64| points.iter().map(|point| value(point) as f64).sum::<f64>() / count;
    if points.len() < 3 {
        return 0.0;
    }
    let (accepted, backlog) = (mean_of(|point| point.accepted), mean_of(|point| point.backlog()));
    let (mut with, mut square) = (0.0, 0.0);
    for point in points {
        let away = point.accepted as f64 - accepted;
        with += away * (point.backlog() as f64 - backlog);
        square += away * away;
    }
    if square == 0.0 { 0.0 } else { with / square }
}

/// Connections of its own to whatever it looks at.
pub(super) struct Watcher {
    database: Database,
    broker: Broker,
    topic: String,
    servers: Vec<SocketAddr>,
    metrics: Vec<u8>,
    already: u64,
}

impl Watcher {
    pub(super) fn new(
        set: &EngineSet,
        database: &str,
        topic: &str,
        servers: Vec<SocketAddr>,
        metrics: Vec<u8>,
    ) -> anyhow::Result<Self> {
        let mut database = set.database(Some(database))?;
        let already = database.orders()?;
        Ok(Self { database, broker: set.broker()?, topic: topic.to_owned(), servers, metrics, already })
    }

    pub(super) fn watch(mut self, accepted: &AtomicU64, over: &AtomicBool) -> anyhow::Result<Vec<Point>> {
        let begun = Instant::now();
        let mut points = Vec::new();
        while !over.load(Ordering::Relaxed) {
            let due = EVERY * u32::try_from(points.len()).context("a run of less than a year")?;
            std::thread::sleep(due.saturating_sub(begun.elapsed()));
            points.push(self.look(accepted)?);
        }
        Ok(points)
    }

    fn look(&mut self, accepted: &AtomicU64) -> anyhow::Result<Point> {
        // In the order in which an order passes them from its end, so that no backlog is made up.
        let offsets = self.database.queue_offsets()?;
        let persisted = self.database.orders()? - self.already;
        let accepted = accepted.load(Ordering::Relaxed);
        let mut in_broker = 0;
        for (queue, next) in offsets {
            let (_, number) = queue.rsplit_once('/').with_context(|| format!("a queue called {queue}"))?;
            let number = number.parse().with_context(|| format!("a queue called {queue}"))?;
            in_broker += self.broker.max_offset(&self.topic, number)?.saturating_sub(next);
        }
        let publishing = self.publishing();
        Ok(Point { accepted, persisted, in_broker, publishing })
    }

    /// A server that is too busy to answer this is no reason to end the measurement.
    fn publishing(&self) -> Option<u64> {
        self.servers
            .iter()
            .map(|server| gauge(&once::exchange(*server, &self.metrics).ok()?.text(), PUBLISHING))
            .sum()
    }
}

/// A gauge's value in Prometheus' text format.
fn gauge(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn points(backlog: impl Fn(u64) -> u64) -> Vec<Point> {
        (0..50_u64)
            .map(|n| {
                let accepted = n * 500;
                let persisted = accepted.saturating_sub(backlog(n));
                Point { accepted, persisted, in_broker: 7, publishing: Some(n % 2 * 10) }
            })
            .collect()
    }

    #[test]
    fn a_backlog_that_grows_is_distinct_from_one_that_only_moves() {
        let flat = Queues::of(&points(|n| 100 + n % 7 * 30));
        assert!(flat.backlog_growth.abs() < 0.02, "{flat:?}");
        let behind = Queues::of(&points(|n| n * 100));
        assert!((behind.backlog_growth - 0.2).abs() < 0.02, "{behind:?}");
        assert_eq!((behind.backlog_max, behind.in_broker_max), (4900, 7));
        assert_eq!((behind.publishing_mean, behind.publishing_max), (Some(5.0), Some(10)));
        assert_eq!(Queues::of(&[]).backlog_growth, 0.0);
        assert!(
            flat.waiting().starts_with("on average 5 waited for the broker (most 10), 7 were in the broker")
        );
    }

    #[test]
    fn a_gauge_is_found_by_its_whole_name() {
        let text = "# HELP x y\nx_total 3\nx 12\n";
        assert_eq!((gauge(text, "x"), gauge(text, "y")), (Some(12), None));
    }
}
