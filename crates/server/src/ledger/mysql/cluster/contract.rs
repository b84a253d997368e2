//! What the stages of a server ask of the shared ledger: kept by [`SharedLedger`] on a database, and by the simulation in memory.
//!
//! Every call is one transaction or one read, and is bounded in time. See the methods of the same names of [`SharedLedger`].

use std::fmt::Debug;

use engine::handover::{OutboxRow, Reservation};
use engine::rules::Declined;
use engine::working_set::{Executed, Operation, Outcome};
use engine::{Accepted, Entry, KeptAddress, Operators, OrderId, PaymentView, Refusal, Seq, SkuId, UnixMs};

use super::snapshot::{MarksAsked, Placed};
use super::{
    Assignment, Lease, LedgerError, LedgerTime, Progress, QueueRow, Raised, Recorded, ServerClock,
    SharedLedger, SkuRow,
};
use crate::intake::{EngineSettings, HoldEnded};

/// The shared ledger, by one connection. Each stage has its own.
pub trait ClusterLedger: Debug + Send {
    /// Kind and address of its server, for people.
    fn server(&self) -> String;

    fn heartbeat(&mut self, server: u64, address: &str) -> Result<(), LedgerError>;
    fn leave(&mut self, server: u64) -> Result<(), LedgerError>;
    fn lease_queues(&mut self, server: u64, queues: &[(String, u64)])
    -> Result<Vec<Assignment>, LedgerError>;
    fn queue_rows(&mut self) -> Result<Vec<QueueRow>, LedgerError>;
    fn rewind_queue(&mut self, queue: &str, owner: u64, generation: u64, to: u64) -> Result<(), LedgerError>;
    fn consume(
        &mut self,
        now: UnixMs,
        progress: &[Progress],
        orders: &[Reservation],
        refused: &dyn Fn(OrderId) -> Option<Refusal>,
    ) -> Result<Result<Vec<Outcome>, Vec<OrderId>>, LedgerError>;

    fn lease(&mut self, name: &str, owner: u64, ms: u64) -> Result<Option<Lease>, LedgerError>;
    fn release(&mut self, lease: &Lease) -> Result<(), LedgerError>;
    fn fence_with(&mut self, lease: Option<Lease>);
    fn expire_due(&mut self, now: UnixMs, max: usize) -> Result<Vec<OrderId>, LedgerError>;
    fn outbox(&mut self, max: usize, after: u64) -> Result<Vec<OutboxRow>, LedgerError>;
    fn outbox_done(&mut self, ids: &[u64]) -> Result<(), LedgerError>;
    fn outbox_len(&mut self, sku: Option<SkuId>) -> Result<u64, LedgerError>;
    fn raise_epochs(&mut self, skus: &[SkuId]) -> Result<Vec<Raised>, LedgerError>;
    /// One portion of [`super::Marks`].
    fn marks(&mut self, asked: &MarksAsked) -> Result<Vec<Placed>, LedgerError>;
    fn has_adjustment(&mut self, sku: SkuId, key: &str) -> Result<bool, LedgerError>;
    fn purge_addresses(&mut self, cutoff: UnixMs, max: u32) -> Result<u32, LedgerError>;
    fn erase_addresses(&mut self, max: u32) -> Result<u32, LedgerError>;

    fn execute(&mut self, now: UnixMs, operations: &[Operation]) -> Result<Vec<Executed>, LedgerError>;
    fn execute_all(
        &mut self,
        now: UnixMs,
        operations: &[Operation],
    ) -> Result<Result<Vec<Accepted>, Declined>, LedgerError>;
    fn take_holds_ended(&mut self) -> Vec<HoldEnded>;

    fn lookup(&mut self, ids: &[OrderId]) -> Result<Vec<Option<Recorded>>, LedgerError>;
    fn kept_addresses(&mut self, ids: &[OrderId]) -> Result<Vec<(OrderId, KeptAddress)>, LedgerError>;
    fn refunds_due(&mut self, after: Seq, max: usize) -> Result<Vec<PaymentView>, LedgerError>;
    fn refunds_due_count(&mut self) -> Result<u64, LedgerError>;
    fn stocks(&mut self) -> Result<Vec<SkuRow>, LedgerError>;
    fn stocks_of(&mut self, skus: &[SkuId]) -> Result<Vec<SkuRow>, LedgerError>;
    fn sale_entries(&mut self, after: Seq) -> Result<Vec<Entry>, LedgerError>;
    fn wait_for_writers(&mut self) -> Result<(), LedgerError>;
    fn end(&mut self) -> Result<(Seq, UnixMs), LedgerError>;
    /// Finds out whether it still has the newest entry that this server has seen.
    fn look_back(&mut self) -> Result<(), LedgerError>;
    /// How often it had not, as far as this server knows.
    fn times_back(&self) -> u64;

    fn time(&mut self) -> Result<LedgerTime, LedgerError>;
    fn compare_clocks(&mut self, server: u64, ahead_ms: i64) -> Result<Vec<ServerClock>, LedgerError>;
    fn operators(&mut self) -> Result<Operators, LedgerError>;
    fn settings(&mut self) -> Result<EngineSettings, LedgerError>;
}

impl ClusterLedger for SharedLedger {
    fn server(&self) -> String {
        SharedLedger::server(self)
    }

    fn heartbeat(&mut self, server: u64, address: &str) -> Result<(), LedgerError> {
        SharedLedger::heartbeat(self, server, address)
    }

    fn leave(&mut self, server: u64) -> Result<(), LedgerError> {
        SharedLedger::leave(self, server)
    }

    fn lease_queues(
        &mut self,
        server: u64,
        queues: &[(String, u64)],
    ) -> Result<Vec<Assignment>, LedgerError> {
        SharedLedger::lease_queues(self, server, queues)
    }

    fn queue_rows(&mut self) -> Result<Vec<QueueRow>, LedgerError> {
        SharedLedger::queue_rows(self)
    }

    fn rewind_queue(&mut self, queue: &str, owner: u64, generation: u64, to: u64) -> Result<(), LedgerError> {
        SharedLedger::rewind_queue(self, queue, owner, generation, to)
    }

    fn consume(
        &mut self,
        now: UnixMs,
        progress: &[Progress],
        orders: &[Reservation],
        refused: &dyn Fn(OrderId) -> Option<Refusal>,
    ) -> Result<Result<Vec<Outcome>, Vec<OrderId>>, LedgerError> {
        SharedLedger::consume_asking(self, now, progress, orders, refused)
    }

    fn lease(&mut self, name: &str, owner: u64, ms: u64) -> Result<Option<Lease>, LedgerError> {
        SharedLedger::lease(self, name, owner, ms)
    }

    fn release(&mut self, lease: &Lease) -> Result<(), LedgerError> {
        SharedLedger::release(self, lease)
    }

    fn fence_with(&mut self, lease: Option<Lease>) {
        SharedLedger::fence_with(self, lease)
    }

    fn expire_due(&mut self, now: UnixMs, max: usize) -> Result<Vec<OrderId>, LedgerError> {
        SharedLedger::expire_due(self, now, max)
    }

    fn outbox(&mut self, max: usize, after: u64) -> Result<Vec<OutboxRow>, LedgerError> {
        SharedLedger::outbox(self, max, after)
    }

    fn outbox_done(&mut self, ids: &[u64]) -> Result<(), LedgerError> {
        SharedLedger::outbox_done(self, ids)
    }

    fn outbox_len(&mut self, sku: Option<SkuId>) -> Result<u64, LedgerError> {
        SharedLedger::outbox_len(self, sku)
    }

    fn raise_epochs(&mut self, skus: &[SkuId]) -> Result<Vec<Raised>, LedgerError> {
        SharedLedger::raise_epochs(self, skus)
    }

    fn marks(&mut self, asked: &MarksAsked) -> Result<Vec<Placed>, LedgerError> {
        SharedLedger::mark_portion(self, asked)
    }

    fn has_adjustment(&mut self, sku: SkuId, key: &str) -> Result<bool, LedgerError> {
        SharedLedger::has_adjustment(self, sku, key)
    }

    fn purge_addresses(&mut self, cutoff: UnixMs, max: u32) -> Result<u32, LedgerError> {
        SharedLedger::purge_addresses(self, cutoff, max)
    }

    fn erase_addresses(&mut self, max: u32) -> Result<u32, LedgerError> {
        SharedLedger::erase_addresses(self, max)
    }

    fn execute(&mut self, now: UnixMs, operations: &[Operation]) -> Result<Vec<Executed>, LedgerError> {
        SharedLedger::execute(self, now, operations)
    }

    fn execute_all(
        &mut self,
        now: UnixMs,
        operations: &[Operation],
    ) -> Result<Result<Vec<Accepted>, Declined>, LedgerError> {
        SharedLedger::execute_all(self, now, operations)
    }

    fn take_holds_ended(&mut self) -> Vec<HoldEnded> {
        SharedLedger::take_holds_ended(self)
    }

    fn lookup(&mut self, ids: &[OrderId]) -> Result<Vec<Option<Recorded>>, LedgerError> {
        SharedLedger::lookup(self, ids)
    }

    fn kept_addresses(&mut self, ids: &[OrderId]) -> Result<Vec<(OrderId, KeptAddress)>, LedgerError> {
        SharedLedger::kept_addresses(self, ids)
    }

    fn refunds_due(&mut self, after: Seq, max: usize) -> Result<Vec<PaymentView>, LedgerError> {
        SharedLedger::refunds_due(self, after, max)
    }

    fn refunds_due_count(&mut self) -> Result<u64, LedgerError> {
        SharedLedger::refunds_due_count(self)
    }

    fn stocks(&mut self) -> Result<Vec<SkuRow>, LedgerError> {
        SharedLedger::stocks(self)
    }

    fn stocks_of(&mut self, skus: &[SkuId]) -> Result<Vec<SkuRow>, LedgerError> {
        SharedLedger::stocks_of(self, skus)
    }

    fn sale_entries(&mut self, after: Seq) -> Result<Vec<Entry>, LedgerError> {
        SharedLedger::sale_entries(self, after)
    }

    fn wait_for_writers(&mut self) -> Result<(), LedgerError> {
        SharedLedger::wait_for_writers(self)
    }

    fn end(&mut self) -> Result<(Seq, UnixMs), LedgerError> {
        SharedLedger::end(self)
    }

    fn look_back(&mut self) -> Result<(), LedgerError> {
        SharedLedger::look_back(self)
    }

    fn times_back(&self) -> u64 {
        SharedLedger::times_back(self)
    }

    fn time(&mut self) -> Result<LedgerTime, LedgerError> {
        SharedLedger::time(self)
    }

    fn compare_clocks(&mut self, server: u64, ahead_ms: i64) -> Result<Vec<ServerClock>, LedgerError> {
        SharedLedger::compare_clocks(self, server, ahead_ms)
    }

    fn operators(&mut self) -> Result<Operators, LedgerError> {
        SharedLedger::operators(self)
    }

    fn settings(&mut self) -> Result<EngineSettings, LedgerError> {
        SharedLedger::settings(self)
    }
}
