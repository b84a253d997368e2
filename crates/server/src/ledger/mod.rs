//! The ledger: the durable, append-only record, and the truth. The book is what it adds up to.
//!
//! This is the contract; each backend is a file or folder beside it. A backend takes the entries of one batch
//! in one transaction and returns only when they are synced; it can hand all entries back in order.
//!
//! Called by: the book writer (append, load), the operator's tools (audit, export, backup).

mod record;
pub mod sqlite;

use std::error::Error;

use engine::{Entry, Seq, UnixMs};

/// What one transaction appends.
#[derive(Debug)]
pub struct Batch<'a> {
    /// In the order of the sequence.
    pub entries: &'a [Entry],
    /// Addresses of orders among the entries, in the same order, as JSON text.
    pub addresses: &'a [(Seq, Box<[u8]>)],
    pub messages: &'a [Box<[u8]>],
    pub at: UnixMs,
}

/// A transaction that did not succeed.
#[derive(Debug, thiserror::Error)]
pub enum AppendError {
    /// It was rolled back: nothing of it is in the ledger. The book must be loaded again.
    #[error("the transaction was rolled back: {0}")]
    RolledBack(#[source] Box<dyn Error + Send + Sync>),
    /// A sync failed. What reached the disk is unknown, and no later sync can tell: stop, and look at the
    /// next start.
    #[error("a sync of the ledger failed, so what is on disk is unknown: {0}")]
    SyncFailed(#[source] Box<dyn Error + Send + Sync>),
}

impl AppendError {
    /// Whether service can go on once the book was loaded again.
    pub fn is_retryable(&self) -> bool {
        matches!(self, AppendError::RolledBack(_))
    }
}
