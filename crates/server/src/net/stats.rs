//! Counters of the net layer for the metrics page. A loop counts in plain integers while it works through a
//! round and adds them to the shared atomics once, at the round's end.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// What the net layer has seen; shared by all loops and read by the metrics page.
#[derive(Debug, Default)]
pub struct NetStats {
    /// Connections accepted, those over the limit included.
    pub accepted: AtomicU64,
    /// Connections closed, whoever closed them.
    pub closed: AtomicU64,
    /// Connections turned away because `connections_max` was reached.
    pub refused_over_limit: AtomicU64,
    /// Complete requests handed to the service.
    pub requests: AtomicU64,
    /// Connections closed by a timeout other than the idle one.
    pub timeouts: AtomicU64,
    /// Requests answered with an error of the net layer itself, 408 not included.
    pub protocol_errors: AtomicU64,
    /// Bytes received, as plain text.
    pub bytes_in: AtomicU64,
    /// Bytes sent, as plain text.
    pub bytes_out: AtomicU64,
}

impl NetStats {
    /// Connections open now.
    pub fn open(&self) -> u64 {
        let closed = self.closed.load(Relaxed);
        self.accepted.load(Relaxed).saturating_sub(closed)
    }
}

/// The counts of one round of one loop.
#[derive(Debug, Default)]
pub(super) struct Tally {
    pub(super) accepted: u64,
    pub(super) closed: u64,
    pub(super) refused_over_limit: u64,
    pub(super) requests: u64,
    pub(super) timeouts: u64,
    pub(super) protocol_errors: u64,
    pub(super) bytes_in: u64,
    pub(super) bytes_out: u64,
}

impl Tally {
    /// Adds the counts to the shared ones and starts again at zero. `accepted` goes first, so that `open`
    /// is never seen below zero.
    pub(super) fn flush(&mut self, stats: &NetStats) {
        let counts = [
            (&stats.accepted, &mut self.accepted),
            (&stats.closed, &mut self.closed),
            (&stats.refused_over_limit, &mut self.refused_over_limit),
            (&stats.requests, &mut self.requests),
            (&stats.timeouts, &mut self.timeouts),
            (&stats.protocol_errors, &mut self.protocol_errors),
            (&stats.bytes_in, &mut self.bytes_in),
            (&stats.bytes_out, &mut self.bytes_out),
        ];
        for (shared, local) in counts {
            if *local > 0 {
                shared.fetch_add(std::mem::take(local), Relaxed);
            }
        }
    }
}
