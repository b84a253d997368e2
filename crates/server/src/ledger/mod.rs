//! The ledger: the durable, append-only record, and the truth. The book is what it adds up to.
//!
//! This is the contract; each backend is a folder beside it, and what the backends share is here: what the rows
//! mean (`rows`, `record`), what an audit finds (`audit`), what a page of changes holds (`feed`),
//! whose addresses go (`erasing`), the life of an order (`life`), a page of what operators did (`operator_log`), what the shop is notified of (`outgoing`), what a sale came to (`report`); `images` of items lie beside it. A backend takes the entries of one batch
//! in one transaction and returns only when they are synced; it can hand all entries back in order.

mod audit;
mod backend;
mod buyers;
mod draw;
mod erasing;
mod feed;
mod image_files;
mod images;
mod life;
mod lines;
pub mod mysql;
mod operator_log;
mod outgoing;
mod record;
mod report;
mod rows;
pub mod sqlite;

use std::error::Error;

use engine::{Entry, Seq, UnixMs};

pub use audit::{Audit, AuditedSku};
pub(crate) use backend::identity_of;
pub use backend::{EventReader, Ledger, LoadError, OpenError, Source};
pub use buyers::{BUYER_BYTES_MAX, Buyer, Buyers, NotABuyer};
pub use draw::{Draw, NoDraw, Statements};
pub use feed::{Changes, OrderLine};
pub use images::{IMAGES_BYTES_MAX, IMAGES_MAX, ImageError, KeptImage};
pub use life::{LifeStep, LifeWhat, OrderLife, RefundStep};
pub use operator_log::{OperatorAction, OperatorLog, OperatorLogAsked};
pub use outgoing::{
    DueRefund, ERROR_BYTES_MAX, EndpointChange, EndpointProgress, EventPage, OpenedTurn, Outgoing,
    StoredEndpoint, UnansweredEvent, What,
};
pub use report::{Acted, Happened, ItemReport, Orders, Percentiles, SaleReport, Sum, WhatHappened};
pub use rows::RowError;

/// What one transaction appends.
#[derive(Debug)]
pub struct Batch<'a> {
    /// In the order of the sequence.
    pub entries: &'a [Entry],
    /// Addresses of orders among the entries, in the same order, as JSON text.
    pub addresses: &'a [(Seq, Box<[u8]>)],
    /// The texts of buyers who are hashes: with each order and each join of theirs among the entries, in the same order.
    pub buyers: &'a [(Seq, Box<str>)],
    pub messages: &'a [Box<[u8]>],
    pub at: UnixMs,
}

/// A transaction that did not succeed.
#[derive(Debug, thiserror::Error)]
pub enum AppendError {
    /// It was rolled back: nothing of it is in the ledger. The book must be loaded again.
    #[error("the transaction was rolled back: {0}")]
    RolledBack(#[source] Box<dyn Error + Send + Sync>),
    /// A sync failed. What reached the disk is unknown, and no later sync can show it: stop, and look at the
    /// next start.
    #[error("a sync of the ledger failed, so what is on disk is unknown: {0}")]
    SyncFailed(#[source] Box<dyn Error + Send + Sync>),
    /// The commit was sent to a server that did not answer, or not in time. Loading the book finds out.
    #[error("whether the transaction was committed is not known yet: {0}")]
    Unknown(#[source] Box<dyn Error + Send + Sync>),
    /// The ledger's server cannot be reached. Nothing was sent, the book is right.
    #[error("the ledger's server is away: {0}")]
    Away(#[source] Box<dyn Error + Send + Sync>),
    /// It was committed to a file that is not where it was opened: a start would not find it. Stop.
    #[error(transparent)]
    Misplaced(Box<dyn Error + Send + Sync>),
    /// Another server writes this ledger now: stop.
    #[error(transparent)]
    Fenced(Box<dyn Error + Send + Sync>),
}

impl AppendError {
    /// Whether service can go on once the book was loaded again.
    pub fn is_retryable(&self) -> bool {
        match self {
            AppendError::RolledBack(_) | AppendError::Unknown(_) | AppendError::Away(_) => true,
            AppendError::SyncFailed(_) | AppendError::Misplaced(_) | AppendError::Fenced(_) => false,
        }
    }
}
