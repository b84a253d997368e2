//! One line a second of what a server does, for whoever looks at its terminal.
//!
//! Reads the same counters as `/metrics`. A second in which nothing happened prints nothing, so that an idle
//! server does not push its own log away. It is for terminals only.

use std::io::{self, Write};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use server::figures::grouped;
use server::intake::catalog::Catalog;
use server::metrics::Metrics;

const PERIOD: Duration = Duration::from_secs(1);

/// The numbers of one moment. The first five only grow. Units are those of all sales together, in a demo with the
/// 10,020 of its shop, because orders are counted over all of them too; `/metrics` has each product's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Snapshot {
    pub(crate) accepted: u64,
    pub(crate) refused: u64,
    pub(crate) unknown: u64,
    pub(crate) paid: u64,
    pub(crate) expired: u64,
    pub(crate) held: u64,
    pub(crate) sold: u64,
    pub(crate) available: u64,
    /// Set aside for those who were called from lines.
    pub(crate) turns: u64,
}

impl Snapshot {
    pub(crate) fn of(metrics: &Metrics, catalog: &Catalog) -> Self {
        let mut snapshot = Self {
            accepted: metrics.orders_accepted.get(),
            refused: [&metrics.orders_refused, &metrics.orders_rejected, &metrics.orders_unavailable]
                .map(|counter| counter.get())
                .iter()
                .sum(),
            unknown: metrics.orders_unknown.get(),
            paid: metrics.payments_recorded.get(),
            expired: metrics.holds_expired.get(),
            ..Self::default()
        };
        for sku in &catalog.skus {
            snapshot.held += sku.counters.held();
            snapshot.sold += sku.counters.sold();
            snapshot.available += sku.counters.available();
            snapshot.turns += sku.counters.turns();
        }
        snapshot
    }
}

/// Prints until it is dropped.
#[derive(Debug)]
pub(crate) struct LiveLine {
    stop: Option<SyncSender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl LiveLine {
    pub(crate) fn start(look: impl Fn() -> Snapshot + Send + 'static) -> io::Result<Self> {
        let (stop, stopped) = sync_channel(1);
        let thread =
            std::thread::Builder::new().name("live".to_owned()).spawn(move || print(&look, &stopped))?;
        Ok(Self { stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for LiveLine {
    fn drop(&mut self) {
        drop(self.stop.take());
        // It prints and nothing else: if it panicked, there is nothing to save.
        if let Some(thread) = self.thread.take() {
            thread.join().ok();
        }
    }
}

fn print(look: &impl Fn() -> Snapshot, stopped: &Receiver<()>) {
    let (mut before, mut since) = (look(), Instant::now());
    while stopped.recv_timeout(PERIOD) == Err(RecvTimeoutError::Timeout) {
        let (now, elapsed) = (look(), since.elapsed());
        if now != before && io::stdout().write_all(line(&before, &now, elapsed).as_bytes()).is_err() {
            return;
        }
        (before, since) = (now, since + elapsed);
    }
}

/// What happened between two moments.
fn line(before: &Snapshot, now: &Snapshot, elapsed: Duration) -> String {
    let rate = |of: fn(&Snapshot) -> u64| {
        let micros = u64::try_from(elapsed.as_micros()).unwrap_or(u64::MAX).max(1);
        let happened = of(now).saturating_sub(of(before));
        // To the nearest: one order in a second and a little is one a second.
        grouped(happened.saturating_mul(1_000_000).saturating_add(micros / 2) / micros)
    };
    let mut line = format!("orders {}/s  refused {}/s", rate(|s| s.accepted), rate(|s| s.refused));
    if now.unknown > before.unknown {
        line += &format!("  unknown {}/s", rate(|s| s.unknown));
    }
    let turns = match now.turns {
        0 => String::new(),
        turns => format!("  turns {}", grouped(turns)),
    };
    line += &format!(
        "  paid {}/s  expired {}/s  |  held {}  sold {}  available {}{turns}\n",
        rate(|s| s.paid),
        rate(|s| s.expired),
        grouped(now.held),
        grouped(now.sold),
        grouped(now.available)
    );
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_shows_rates_and_stock() {
        let before = Snapshot { accepted: 100, available: 10_000_000, ..Snapshot::default() };
        let now = Snapshot { accepted: 8_210, refused: 4, held: 8_110, available: 9_991_890, ..before };
        assert_eq!(
            line(&before, &now, Duration::from_secs(2)),
            "orders 4,055/s  refused 2/s  paid 0/s  expired 0/s  |  held 8,110  sold 0  available 9,991,890\n"
        );
        let now = Snapshot { unknown: 3, ..now };
        assert!(line(&before, &now, Duration::from_secs(1)).contains("  unknown 3/s  "));
        let now = Snapshot { turns: 1_000, available: 9_990_890, ..now };
        let text = line(&before, &now, Duration::from_secs(1));
        assert!(text.ends_with("  sold 0  available 9,990,890  turns 1,000\n"), "{text}");
    }

    #[test]
    fn numbers_are_grouped_by_three() {
        for (number, text) in [(0, "0"), (999, "999"), (1_000, "1,000"), (10_000_000, "10,000,000")] {
            assert_eq!(grouped(number), text);
        }
    }
}
