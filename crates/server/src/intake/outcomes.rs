//! What became of the orders of each item and each sale, counted since this process started: for the figures alone.
//!
//! An event loop adds one to a counter of the item, and of the sale one to how long it took and one to why it was refused.
//! Must not: be read where an order is decided.

use std::mem::discriminant;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use engine::Refusal;

use crate::metrics::{Counts, Latencies};

/// What an order can be refused with.
pub const REFUSALS: [Refusal; 12] = [
    Refusal::UnknownSale,
    Refusal::UnknownSku,
    Refusal::NotStarted,
    Refusal::Paused,
    Refusal::Ended,
    Refusal::SoldOut,
    Refusal::NotEnoughLeft,
    Refusal::OverLimit,
    Refusal::TooManyHolds,
    Refusal::CoolingDown { retry_after_ms: 0 },
    Refusal::InvalidQuantity,
    Refusal::KeyConflict,
];

/// In the order of the figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    Accepted,
    Replayed,
    Refused,
    /// Asked to come again.
    Busy,
    Unknown,
}

pub const OUTCOMES: usize = Outcome::Unknown as usize + 1;

/// Of an item. On lines of memory of its own: what is beside it is read for every order.
#[derive(Debug, Default)]
#[repr(align(64))]
pub struct Outcomes([AtomicU64; OUTCOMES]);

impl Outcomes {
    pub fn count(&self, outcome: Outcome) {
        self.0[outcome as usize].fetch_add(1, Relaxed);
    }

    /// By [`Outcome`].
    pub fn counted(&self) -> [u64; OUTCOMES] {
        self.0.each_ref().map(|count| count.load(Relaxed))
    }
}

/// Of a sale, what its items' do not say. One that nobody orders from costs a pointer.
#[derive(Debug, Default)]
pub struct SaleOutcomes(OnceLock<Box<Counted>>);

#[derive(Debug, Default)]
struct Counted {
    refused: [AtomicU64; REFUSALS.len()],
    took: Latencies,
}

impl SaleOutcomes {
    pub fn refused(&self, refusal: Refusal) {
        let is_it = |known: &Refusal| discriminant(known) == discriminant(&refusal);
        // What else there is refuses no order.
        if let Some(place) = REFUSALS.iter().position(is_it) {
            self.0.get_or_init(Box::default).refused[place].fetch_add(1, Relaxed);
        }
    }

    /// From the complete request to the answer.
    pub fn took(&self, took: Duration) {
        self.0.get_or_init(Box::default).took.observe(took);
    }

    /// By the places of [`REFUSALS`], and how long the answers took.
    pub fn counted(&self) -> ([u64; REFUSALS.len()], Counts) {
        self.0.get().map_or_else(Default::default, |counted| {
            (counted.refused.each_ref().map(|count| count.load(Relaxed)), counted.took.counts())
        })
    }
}
