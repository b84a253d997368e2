//! A ledger with a defect.

use std::collections::BTreeMap;

use engine::handover::{OutboxRow, Reservation};
use engine::rules::Declined;
use engine::working_set::{Executed, Operation, Outcome};
use engine::{
    Accepted, Adjust, Command, Entry, KeptAddress, Operators, OrderId, OrderView, PaymentView, Refusal, Seq,
    SkuId, Status, UnixMs,
};
use server::intake::{EngineSettings, HoldEnded};
use server::ledger::mysql::cluster::{
    Assignment, ClusterLedger, Lease, LedgerError, LedgerTime, MarksAsked, Placed, Progress, QueueRow,
    Raised, Recorded, ServerClock, SkuRow,
};
use server::time::Instant;

use super::Planted;

#[derive(Debug)]
pub(super) struct Defective {
    planted: Planted,
    inner: Box<dyn ClusterLedger>,
    /// How far each queue was read, where that is committed apart from the orders.
    read_to: BTreeMap<String, u64>,
    begun: Instant,
}

impl Defective {
    pub(super) fn new(planted: Planted, inner: Box<dyn ClusterLedger>) -> Defective {
        Defective { planted, inner, read_to: BTreeMap::new(), begun: Instant::now() }
    }

    fn has(&self, planted: Planted) -> bool {
        self.planted == planted
    }

    /// The answer to what is not carried out.
    fn forget(&mut self, operation: &Operation) -> Result<Option<Executed>, LedgerError> {
        let accepted = match operation.command() {
            Command::Cancel { order, .. } if self.has(Planted::CancelForgotten) => {
                let found = self.inner.lookup(&[*order])?.pop().flatten();
                found.and_then(|found| match found {
                    Recorded::Order { order, .. } => {
                        let order = OrderView { status: Status::Cancelled, ..order };
                        Some(Accepted::Order { order, replayed: false })
                    }
                    Recorded::Rejected(_) => None,
                })
            }
            Command::Adjust { sku, how: Adjust::Correct, .. } if self.has(Planted::CorrectionForgotten) => {
                Some(Accepted::Stock(*sku))
            }
            _ => None,
        };
        Ok(accepted.map(Executed::Accepted))
    }
}

/// Calls that are handed on as they are.
macro_rules! hand_on {
    ($(fn $name:ident($($arg:ident: $type:ty),*) -> $returns:ty;)*) => {
        $(fn $name(&mut self, $($arg: $type),*) -> $returns {
            self.inner.$name($($arg),*)
        })*
    };
}

impl ClusterLedger for Defective {
    hand_on! {
        fn heartbeat(server: u64, address: &str) -> Result<(), LedgerError>;
        fn leave(server: u64) -> Result<(), LedgerError>;
        fn queue_rows() -> Result<Vec<QueueRow>, LedgerError>;
        fn rewind_queue(queue: &str, owner: u64, generation: u64, to: u64) -> Result<(), LedgerError>;
        fn fence_with(lease: Option<Lease>) -> ();
        fn sale_entries(after: Seq) -> Result<Vec<Entry>, LedgerError>;
        fn lease(name: &str, owner: u64, ms: u64) -> Result<Option<Lease>, LedgerError>;
        fn release(lease: &Lease) -> Result<(), LedgerError>;
        fn outbox_done(ids: &[u64]) -> Result<(), LedgerError>;
        fn outbox_len(sku: Option<SkuId>) -> Result<u64, LedgerError>;
        fn has_adjustment(sku: SkuId, key: &str) -> Result<bool, LedgerError>;
        fn purge_addresses(cutoff: UnixMs, max: u32) -> Result<u32, LedgerError>;
        fn erase_addresses(max: u32) -> Result<u32, LedgerError>;
        fn execute_all(now: UnixMs, operations: &[Operation]) -> Result<Result<Vec<Accepted>, Declined>, LedgerError>;
        fn take_holds_ended() -> Vec<HoldEnded>;
        fn kept_addresses(ids: &[OrderId]) -> Result<Vec<(OrderId, KeptAddress)>, LedgerError>;
        fn refunds_due(after: Seq, max: usize) -> Result<Vec<PaymentView>, LedgerError>;
        fn refunds_due_count() -> Result<u64, LedgerError>;
        fn stocks() -> Result<Vec<SkuRow>, LedgerError>;
        fn wait_for_writers() -> Result<(), LedgerError>;
        fn end() -> Result<(Seq, UnixMs), LedgerError>;
        fn look_back() -> Result<(), LedgerError>;
        fn time() -> Result<LedgerTime, LedgerError>;
        fn compare_clocks(server: u64, ahead_ms: i64) -> Result<Vec<ServerClock>, LedgerError>;
        fn operators() -> Result<Operators, LedgerError>;
        fn settings() -> Result<EngineSettings, LedgerError>;
    }

    fn server(&self) -> String {
        self.inner.server()
    }

    fn times_back(&self) -> u64 {
        if self.has(Planted::LostTailNotNoticed) { 0 } else { self.inner.times_back() }
    }

    fn stocks_of(&mut self, skus: &[SkuId]) -> Result<Vec<SkuRow>, LedgerError> {
        let mut rows = self.inner.stocks_of(skus)?;
        if self.has(Planted::GateAheadNotNoticed) {
            rows.iter_mut().for_each(|row| row.version = Seq(u64::MAX));
        }
        if self.has(Planted::EpochMisread) && self.begun.elapsed().as_secs() % 16 == 15 {
            rows.iter_mut().for_each(|row| row.epoch += 1);
        }
        Ok(rows)
    }

    fn lease_queues(
        &mut self,
        server: u64,
        queues: &[(String, u64)],
    ) -> Result<Vec<Assignment>, LedgerError> {
        let mut queues = queues.to_vec();
        if self.has(Planted::KeepsWhatItDoesNotReach) {
            let known = self.inner.queue_rows()?.into_iter().map(|row| (row.queue, row.next_offset));
            let is_away = |(queue, _): &(String, u64)| queues.iter().all(|(reached, _)| reached != queue);
            let away: Vec<_> = known.filter(is_away).collect();
            queues.extend(away);
        }
        self.inner.lease_queues(server, &queues)
    }

    fn execute(&mut self, now: UnixMs, operations: &[Operation]) -> Result<Vec<Executed>, LedgerError> {
        if self.has(Planted::CancelForgotten) || self.has(Planted::CorrectionForgotten) {
            let mut executed = Vec::new();
            for operation in operations {
                executed.push(match self.forget(operation)? {
                    Some(accepted) => accepted,
                    None => self.inner.execute(now, std::slice::from_ref(operation))?.remove(0),
                });
            }
            return Ok(executed);
        }
        self.inner.execute(now, operations)
    }

    fn consume(
        &mut self,
        now: UnixMs,
        progress: &[Progress],
        orders: &[Reservation],
        refused: &dyn Fn(OrderId) -> Option<Refusal>,
    ) -> Result<Result<Vec<Outcome>, Vec<OrderId>>, LedgerError> {
        match self.planted {
            Planted::OlderEpochDoesNotAsk => {
                let newest = |order: &Reservation| Reservation { epoch: u64::MAX >> 1, ..order.clone() };
                self.inner.consume(now, progress, &orders.iter().map(newest).collect::<Vec<_>>(), refused)
            }
            Planted::OffsetsApart => {
                let is_new = |of: &&Progress| self.read_to.get(&of.queue).is_none_or(|to| *to < of.to);
                let new: Vec<Progress> = progress.iter().filter(is_new).cloned().collect();
                if !new.is_empty() {
                    drop(self.inner.consume(now, &new, &[], refused)?);
                    self.read_to.extend(new.into_iter().map(|of| (of.queue, of.to)));
                }
                self.inner.consume(now, &[], orders, refused)
            }
            _ => self.inner.consume(now, progress, orders, refused),
        }
    }

    fn expire_due(&mut self, now: UnixMs, max: usize) -> Result<Vec<OrderId>, LedgerError> {
        match self.planted {
            Planted::ExpiresEarly => self.inner.expire_due(now.plus(60_000), max),
            Planted::NeverExpires => Ok(Vec::new()),
            _ => self.inner.expire_due(now, max),
        }
    }

    fn outbox(&mut self, max: usize, after: u64) -> Result<Vec<OutboxRow>, LedgerError> {
        let mut rows = self.inner.outbox(max, after)?;
        match self.planted {
            Planted::OutboxForgotten => {
                let forgotten: Vec<_> =
                    rows.extract_if(.., |row| row.id % 3 == 0).map(|row| row.id).collect();
                self.inner.outbox_done(&forgotten)?;
            }
            Planted::OutboxDoneEarly => {
                self.inner.outbox_done(&rows.iter().map(|row| row.id).collect::<Vec<_>>())?;
            }
            _ => {}
        }
        Ok(rows)
    }

    fn raise_epochs(&mut self, skus: &[SkuId]) -> Result<Vec<Raised>, LedgerError> {
        let mut raised = self.inner.raise_epochs(skus)?;
        if self.has(Planted::EpochNotRaised) {
            raised.iter_mut().for_each(|raised| raised.epoch = (raised.epoch - 1).max(1));
        }
        Ok(raised)
    }

    fn marks(&mut self, asked: &MarksAsked) -> Result<Vec<Placed>, LedgerError> {
        let mut marks = self.inner.marks(asked)?;
        if self.has(Planted::MarksForgotten) {
            marks.iter_mut().for_each(|(_, mark)| *mark = None);
        }
        Ok(marks)
    }

    fn lookup(&mut self, ids: &[OrderId]) -> Result<Vec<Option<Recorded>>, LedgerError> {
        let mut found = self.inner.lookup(ids)?;
        if self.has(Planted::NotFound) {
            let is_closed = |recorded: &Recorded| matches!(recorded, Recorded::Order { order, .. } if order.closed_at.is_some());
            for found in found.iter_mut().filter(|found| found.as_ref().is_some_and(is_closed)) {
                *found = None;
            }
        }
        Ok(found)
    }
}
