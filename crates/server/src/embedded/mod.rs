//! The embedded profile: one thread, the book writer, owns the book and its ledger, and everything that changes goes
//! through it.
//!
//! It drains a bounded mailbox of commands, carries them out on the book, appends their events to the ledger
//! in one transaction for the whole batch (group commit), and answers only after the commit is synced: also
//! the answers that changed nothing, because they may have been computed from a change of the same batch.

mod balance;
mod writer;

pub use writer::{Options, PrepareError, Writer};
