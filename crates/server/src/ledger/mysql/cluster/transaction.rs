//! One transaction: a working set over a database session. It reads what the set says that it needs, and has the set's
//! effects stored with the rows that are no matter of the rules: queue offsets and whole statements.
//!
//! Must not: judge anything; that is the engine's.

use std::collections::HashMap;

use engine::working_set::{Needs, WorkingSet};
use engine::{Sales, UnixMs};

use super::leases::Lease;
use super::outbox::correction_id;
use super::reads::ReadSet;
use super::session::{Failure, Session};

/// How far a queue was taken in, and by whom.
#[derive(Clone, Copy, Debug)]
pub(super) struct QueueState {
    pub(super) next_offset: u64,
    pub(super) owner: u64,
    pub(super) generation: u64,
}

/// A transaction under the writer's lock.
pub(super) struct Transaction<'l> {
    pub(super) session: &'l mut Session,
    pub(super) lease: Option<&'l Lease>,
    pub(super) set: WorkingSet<'l>,
    /// As they were read.
    pub(super) queues: HashMap<String, QueueState>,
    /// Queue and its next offset.
    pub(super) offsets: Vec<(String, u64)>,
    /// Whole statements.
    pub(super) more: Vec<String>,
}

impl<'l> Transaction<'l> {
    pub(super) fn new(
        session: &'l mut Session,
        sales: &'l mut Sales,
        now: UnixMs,
        lease: Option<&'l Lease>,
    ) -> Transaction<'l> {
        Transaction {
            session,
            lease,
            set: WorkingSet::new(sales, now, correction_id),
            queues: HashMap::new(),
            offsets: Vec::new(),
            more: Vec::new(),
        }
    }

    /// Reads what the rules will need; the first time takes the lock before.
    pub(super) fn read(&mut self, needs: Needs) -> Result<(), Failure> {
        self.read_with_queues(needs, Vec::new())
    }

    pub(super) fn read_with_queues(&mut self, needs: Needs, queues: Vec<String>) -> Result<(), Failure> {
        ReadSet { needs, queues }.run(self)
    }
}
