//! The shared ledger: the cluster's truth, written by any number of servers, of which none has a book.
//!
//! What the engine's book knows in memory stands here in tables. Every transaction that appends locks the one row
//! of `writer` first, which carries the sequence without gaps; so transactions come one after the other, there is
//! no deadlock among them, and what is read after the lock is the latest. Then it reads in one round trip all that
//! its rules need into a working set of the engine, which judges one order or command after the other, and writes what
//! that came to and the commit in a second round trip. Entries are the engine's events in the same tables as the book writer's.
//!
//! Everything can be done again: orders by their id, payments by the provider's, adjustments by their key, queue
//! offsets by compare-and-set. So a lost answer to a commit is met by trying once more, and what is known already
//! is dropped and answered as before.
//!
//! A server that was stopped in the middle holds the lock until the database hears nothing for [`STOPPED_S`].
//!
//! Must not: judge; the engine does. Must not return units to the gate but by the outbox.

mod actions;
mod attempt;
pub(super) mod audit;
mod clocks;
mod commands;
mod consume;
mod continuity;
mod contract;
mod endpoints;
mod expire;
mod leases;
mod lookup;
mod operators;
mod outbox;
mod queues;
mod reads;
mod servers;
mod session;
mod snapshot;
mod transaction;
mod unlocked;
mod upkeep;
mod writes;

pub use actions::Acting;
pub use attempt::{SharedLedger, TransactionCounters};
pub use clocks::{LedgerTime, ServerClock};
pub use consume::{Progress, fits};
pub use continuity::Continuity;
pub use contract::ClusterLedger;
pub use leases::Lease;
pub use lookup::{Recorded, SkuRow};
pub use outbox::correction_id;
pub use queues::{Holder, QueueRow};
pub use servers::{Assignment, QUEUE_LEASE_MS, Share, share_queues};
pub use snapshot::{LedgerMark, Marks, MarksAsked, Placed, Raised};

use session::Failure;

/// Seconds after which the database ends a transaction of a server that says nothing any more.
pub const STOPPED_S: u32 = 3;
/// Orders in one transaction of [`SharedLedger::consume`].
pub const ORDERS_MAX: usize = 1_000;
/// Operations in one transaction of [`SharedLedger::execute`].
pub const OPERATIONS_MAX: usize = 1_000;

/// Why the ledger did not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum LedgerError {
    /// Surely nothing was changed.
    #[error("the ledger is not available: {0}")]
    Unavailable(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// A commit was sent and not answered, and the ledger could not be asked since. The same can be asked again.
    #[error("whether the ledger has committed is not known: {0}")]
    Unknown(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// Another server has taken the queue or the task over. Nothing was changed.
    #[error("{0} belongs to another server now")]
    Fenced(String),
    /// What stands in the ledger can't have been written by this program. Nothing was changed.
    #[error("the ledger breaks an invariant: {0}; restore a backup, or send it to the developers")]
    Damaged(String),
    /// A newer program has migrated the ledger while this one was running. Nothing was changed.
    #[error(
        "the ledger has format {found} since a newer doorbuster was started, and this one knows format {known}; stop \
         this one, and start the newer one in its place"
    )]
    Format { found: i64, known: i64 },
}

impl LedgerError {
    /// Whether the same may succeed later.
    pub fn is_retryable(&self) -> bool {
        matches!(self, LedgerError::Unavailable(_) | LedgerError::Unknown(_))
    }
}
