//! What the connections of one loop share: limits, scratch buffers, the clock of the round and its counts.
//! Buffers are the loop's, not the connection's, so they stay in the cache and an idle connection has none.

use std::time::{Duration, Instant};

use super::date::DateLine;
use super::limits::Limits;
use super::response::SharedPart;
use super::stats::Tally;

/// Bytes of one read. Larger than nearly every request, small enough to stay in the cache.
const READ_BYTES: usize = 64 * 1024;
/// Capacity above which the output buffer is cut back: one huge answer must not be paid for for good.
const OUTPUT_BYTES_KEPT_MAX: usize = 1024 * 1024;

/// What the connections of a loop share.
#[derive(Debug)]
pub(super) struct LoopShared {
    pub(super) limits: Limits,
    /// Input is read into this buffer; taken out while a connection works on it.
    pub(super) scratch: Vec<u8>,
    /// Answers are assembled in this buffer and sent from it; empty between two connections.
    pub(super) out: Vec<u8>,
    /// Where large prepared answers stand in `out`.
    pub(super) out_shared: Vec<SharedPart>,
    pub(super) date: DateLine,
    started: Instant,
    /// Milliseconds since the loop was made, read once per round.
    pub(super) now_ms: u64,
    pub(super) tally: Tally,
    generation: u32,
    pub(super) draining: bool,
}

impl LoopShared {
    pub(super) fn new(limits: Limits) -> LoopShared {
        let started = Instant::now();
        LoopShared {
            limits,
            scratch: vec![0; READ_BYTES],
            out: Vec::with_capacity(READ_BYTES),
            out_shared: Vec::new(),
            date: DateLine::new(started),
            started,
            now_ms: 0,
            tally: Tally::default(),
            generation: 0,
            draining: false,
        }
    }

    pub(super) fn read_clock(&mut self) {
        let now = Instant::now();
        self.now_ms = millis(now.duration_since(self.started));
        self.date.advance(now);
    }

    /// Unique until it wraps after 2^32 requests; no ticket waits that long.
    pub(super) fn next_generation(&mut self) -> u32 {
        self.generation = self.generation.wrapping_add(1);
        self.generation
    }

    pub(super) fn clear_output(&mut self) {
        self.out.clear();
        self.out_shared.clear();
        if self.out.capacity() > OUTPUT_BYTES_KEPT_MAX {
            self.out.shrink_to(READ_BYTES);
        }
    }
}

pub(super) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
