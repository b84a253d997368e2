//! What a verdict is given on, and the sales, times and room that several rules name.
//!
//! Must not: judge.

use std::time::Duration;

use engine::{Phase, ProductId, SaleId, UnixMs};

use super::words::ahead;
use super::{DISK_WARNED_BYTES_MIN, MIB, SOON_MS};
use crate::figures::host::Disk;
use crate::figures::sales::{NearSale, Open};
use crate::figures::sample::{EngineFigures, Lately, ServerFigures, WebhookFigures};
use crate::intake::PartAway;
use crate::intake::catalog::quoted;

/// What is judged.
#[derive(Clone, Debug)]
pub(in crate::figures) struct Night<'a> {
    pub(in crate::figures) now: UnixMs,
    /// One server at least takes them.
    pub(in crate::figures) takes_orders: bool,
    /// Of the server that answers, as what follows.
    pub(in crate::figures) stopping: bool,
    /// The ledger takes no writes.
    pub(in crate::figures) read_only: bool,
    /// Which engine keeps orders from being taken, and why.
    pub(in crate::figures) engine_fault: Option<(Option<&'static str>, &'a str)>,
    /// What can't be sold while other products can.
    pub(in crate::figures) part_away: Option<&'a PartAway>,
    /// Why no server of a cluster can use the ledger.
    pub(in crate::figures) ledger_fault: Option<&'a str>,
    /// What is wrong with the queues, though orders may be taken.
    pub(in crate::figures) queues_fault: Option<&'a str>,
    /// The ledger, if some servers can't use it and others can; and for how many seconds in a row that has been so.
    pub(in crate::figures) cut_off: Option<&'a EngineFigures>,
    pub(in crate::figures) cut_off_seconds: usize,
    /// Since this server of a cluster read from the ledger what is held and sold.
    pub(in crate::figures) units_age_ms: u64,
    pub(in crate::figures) clock_confirmed: bool,
    pub(in crate::figures) clock_difference_ms: i64,
    pub(in crate::figures) disk: Option<Disk>,
    /// Orders of the last [`super::SECONDS`].
    pub(in crate::figures) unknown: u64,
    /// For how many seconds in a row buyers have been turned away by admission, and how many in the last of them.
    pub(in crate::figures) busy_seconds: usize,
    pub(in crate::figures) busy_per_s: f64,
    pub(in crate::figures) accepted_per_s: f64,
    /// Of the last [`super::SECONDS`].
    pub(in crate::figures) order_p99: Option<Duration>,
    pub(in crate::figures) commit_p99: Option<Duration>,
    pub(in crate::figures) refunds_due: u64,
    /// Messages that wait at the broker, and for how long the oldest has.
    pub(in crate::figures) backlog: u64,
    pub(in crate::figures) backlog_age_ms: u64,
    /// Since reconciliation ended well on any server of a cluster.
    pub(in crate::figures) reconciled_age_ms: u64,
    /// Put aside since the servers' start, and how long ago the last was.
    pub(in crate::figures) dead_letters: u64,
    pub(in crate::figures) dead_letter_age_ms: Option<u64>,
    pub(in crate::figures) orders_lost: Option<Lately>,
    pub(in crate::figures) ledger_lost_tail: Option<Lately>,
    pub(in crate::figures) drift_units: Option<Lately>,
    /// Connections of the last [`super::SECONDS`].
    pub(in crate::figures) connections_refused: u64,
    pub(in crate::figures) webhooks: Option<&'a WebhookFigures>,
    /// For how many seconds in a row they have been busier than [`super::PROCESSORS_BUSY_MAX`].
    pub(in crate::figures) processors_busy_seconds: usize,
    /// Why servers take no orders.
    pub(in crate::figures) reasons: &'a [String],
    pub(in crate::figures) servers: &'a [ServerFigures],
    /// How many there are to be, and for how many seconds in a row fewer have been heard.
    pub(in crate::figures) servers_expected: usize,
    pub(in crate::figures) servers_fewer_seconds: usize,
    /// All, whether there is room to show them or not.
    pub(in crate::figures) sales: &'a [NearSale<'a>],
    /// Those that run.
    pub(in crate::figures) live: Open,
    /// An item whose draw is to come, and waits for a beacon that is not the configured one.
    pub(in crate::figures) unasked: Option<(SaleId, ProductId)>,
}

/// The sale that runs, or how many of them do, and what.
pub(super) fn live(night: &Night<'_>, one: &str, several: &str) -> String {
    match (night.sales.iter().find(|sale| sale.phase == Phase::Live), night.live.sales) {
        (Some(sale), 1) => format!("{} {one}", quoted(sale.title)),
        (_, sales) => format!("{sales} sales {several}"),
    }
}

/// The sale that begins next, or is to, and in how many milliseconds.
pub(super) fn next<'a>(night: &'a Night<'_>) -> Option<(&'a NearSale<'a>, u64)> {
    let is_to_come = |sale: &&NearSale<'_>| sale.phase != Phase::Ended && sale.starts_at_ms > night.now.0;
    let waiting = night.sales.iter().filter(|sale| sale.phase == Phase::NotStarted || is_to_come(sale));
    let sale = waiting.min_by_key(|sale| sale.starts_at_ms)?;
    Some((sale, sale.starts_at_ms.saturating_sub(night.now.0)))
}

/// The first paused sale that has begun, or that begins soon, and in how many milliseconds.
pub(super) fn paused<'a>(night: &'a Night<'_>) -> Option<(&'a NearSale<'a>, u64)> {
    let until = |sale: &&NearSale<'_>| sale.starts_at_ms.saturating_sub(night.now.0);
    let paused = night.sales.iter().filter(|sale| sale.phase == Phase::Paused);
    let sale = paused.filter(|sale| until(sale) <= SOON_MS).min_by_key(until)?;
    Some((sale, until(&sale)))
}

/// How long it is until the next sale, if it begins soon.
pub(super) fn soon(night: &Night<'_>) -> Option<String> {
    let (sale, in_ms) = next(night).filter(|(_, in_ms)| *in_ms <= SOON_MS)?;
    Some(format!("{} until {}", ahead(in_ms), quoted(sale.title)))
}

/// What is free, in words, if it is less than that.
pub(super) fn free_below(night: &Night<'_>, bytes: u64) -> Option<String> {
    let disk = night.disk?;
    let free = disk.free_bytes;
    (free < bytes.min((disk.bytes / 10).max(DISK_WARNED_BYTES_MIN))).then(|| match free / MIB {
        mib @ ..10_000 => format!("{mib} MiB"),
        mib => format!("{} GiB", mib / 1024),
    })
}
