//! Defects that nights must find. Each is put between the real stages and the ledger, or into a real script, so nothing that serves
//! knows of it.

use engine::handover::{OutboxRow, Outdated, Reservation};
use engine::rules::Declined;
use engine::working_set::{Executed, Operation, Outcome};
use engine::{Accepted, Entry, KeptAddress, Operators, OrderId, PaymentView, Seq, SkuId, UnixMs};
use server::intake::{EngineSettings, HoldEnded};
use server::ledger::mysql::cluster::{
    Assignment, ClusterLedger, Lease, LedgerError, LedgerTime, MarksAsked, Placed, Progress, QueueRow,
    Raised, Recorded, ServerClock, SkuRow,
};

use super::{Plan, after_the_restock, plan};
use crate::gate::{Dialect, Redis};

/// What is wrong.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Planted {
    #[default]
    Nothing,
    /// A script is not what it should be: what stands there, and what runs in its place.
    Script(&'static str, &'static str),
    /// What the gate is to hear is forgotten, one in three.
    OutboxForgotten,
    /// A gate is rebuilt under the epoch that it had.
    EpochNotRaised,
    /// A gate is rebuilt without the marks of its orders.
    MarksForgotten,
    /// Holds expire by a clock that is a minute ahead.
    ExpiresEarly,
    /// Holds never expire.
    NeverExpires,
    /// An order that was closed is not found.
    NotFound,
    /// That the database has lost its tail is not noticed.
    LostTailNotNoticed,
}

/// The faults of a night, by its seed.
pub type Aim = fn(u64) -> Plan;

/// Every defect that there is, by its name, with the nights that aim at it, and in how many of them it is found.
pub const PLANTED: &[(&str, Planted, Aim, u64)] = &[
    (
        "the gate sells what it has not",
        Planted::Script("if avail < units then return {avail > 0 and 13 or 12", "if false then return {12"),
        plan,
        3,
    ),
    (
        "a buyer has no limit",
        Planted::Script("if has and has + units > limit then", "if false then"),
        plan,
        3,
    ),
    (
        "a key that is known is not looked up",
        Planted::Script(
            "if mark then\n  if string.sub(mark, 2, #body + 1)",
            "if false then\n  if string.sub(mark, 2, #body + 1)",
        ),
        plan,
        40,
    ),
    (
        "a reservation is not counted as open",
        Planted::Script("redis.call('ZADD', KEYS[3], now, id)", ""),
        plan,
        16,
    ),
    (
        "a reservation takes no units",
        Planted::Script("avail, seq = avail - units, seq + 1\n", "seq = seq + 1\n"),
        plan,
        3,
    ),
    (
        "units of a placed order go back",
        Planted::Script("if verdict == 'y' or verdict == 'u' then", "if true then"),
        plan,
        3,
    ),
    (
        "units are given back twice",
        Planted::Script("if to == ALREADY then return answer(ALREADY) end", ""),
        plan,
        3,
    ),
    ("what the gate is to hear is forgotten", Planted::OutboxForgotten, plan, 3),
    ("an epoch is not raised", Planted::EpochNotRaised, plan, 16),
    ("a gate is rebuilt without marks", Planted::MarksForgotten, plan, 8),
    ("holds never expire", Planted::NeverExpires, plan, 3),
    ("holds expire early", Planted::ExpiresEarly, plan, 3),
    ("closed orders are not found", Planted::NotFound, plan, 3),
    ("a lost tail is not noticed", Planted::LostTailNotNoticed, after_the_restock, 3),
];

/// The run of Redis that is called so.
pub(super) fn run(life: u64) -> String {
    format!("{life:040x}")
}

impl Planted {
    pub(super) fn redis(self, life: u64) -> Redis {
        let mut redis = Redis::new(Dialect::Redis, &run(life));
        if let Planted::Script(from, to) = self {
            redis.change_scripts(from, to);
        }
        redis
    }

    pub(super) fn ledger(self, ledger: Box<dyn ClusterLedger>) -> Box<dyn ClusterLedger> {
        Box::new(Defective { planted: self, inner: ledger })
    }
}

/// A ledger with a defect.
#[derive(Debug)]
struct Defective {
    planted: Planted,
    inner: Box<dyn ClusterLedger>,
}

impl Defective {
    fn has(&self, planted: Planted) -> bool {
        self.planted == planted
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
        fn claim_queues(server: u64, queues: &[(String, u64)]) -> Result<Vec<Assignment>, LedgerError>;
        fn queue_rows() -> Result<Vec<QueueRow>, LedgerError>;
        fn rewind_queue(queue: &str, owner: u64, generation: u64, to: u64) -> Result<(), LedgerError>;
        fn consume(
            now: UnixMs,
            progress: &[Progress],
            orders: &[Reservation],
            outdated: &dyn Fn(OrderId) -> Outdated
        ) -> Result<Result<Vec<Outcome>, Vec<OrderId>>, LedgerError>;
        fn fence_with(lease: Option<Lease>) -> ();
        fn sale_entries(after: Seq) -> Result<Vec<Entry>, LedgerError>;
        fn lease(name: &str, owner: u64, ms: u64) -> Result<Option<Lease>, LedgerError>;
        fn release(lease: &Lease) -> Result<(), LedgerError>;
        fn outbox_done(ids: &[u64]) -> Result<(), LedgerError>;
        fn outbox_len(sku: Option<SkuId>) -> Result<u64, LedgerError>;
        fn has_adjustment(sku: SkuId, key: &str) -> Result<bool, LedgerError>;
        fn purge_addresses(cutoff: UnixMs, max: u32) -> Result<u32, LedgerError>;
        fn erase_addresses(max: u32) -> Result<u32, LedgerError>;
        fn execute(now: UnixMs, operations: &[Operation]) -> Result<Vec<Executed>, LedgerError>;
        fn execute_all(now: UnixMs, operations: &[Operation]) -> Result<Result<Vec<Accepted>, Declined>, LedgerError>;
        fn take_holds_ended() -> Vec<HoldEnded>;
        fn kept_addresses(ids: &[OrderId]) -> Result<Vec<(OrderId, KeptAddress)>, LedgerError>;
        fn refunds_due(after: Seq, max: usize) -> Result<Vec<PaymentView>, LedgerError>;
        fn refunds_due_count() -> Result<u64, LedgerError>;
        fn stocks() -> Result<Vec<SkuRow>, LedgerError>;
        fn stocks_of(skus: &[SkuId]) -> Result<Vec<SkuRow>, LedgerError>;
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

    fn expire_due(&mut self, now: UnixMs, max: usize) -> Result<Vec<OrderId>, LedgerError> {
        match self.planted {
            Planted::ExpiresEarly => self.inner.expire_due(now.plus(60_000), max),
            Planted::NeverExpires => Ok(Vec::new()),
            _ => self.inner.expire_due(now, max),
        }
    }

    fn outbox(&mut self, max: usize, after: u64) -> Result<Vec<OutboxRow>, LedgerError> {
        let mut rows = self.inner.outbox(max, after)?;
        if self.has(Planted::OutboxForgotten) {
            let forgotten: Vec<_> = rows.extract_if(.., |row| row.id % 3 == 0).map(|row| row.id).collect();
            self.inner.outbox_done(&forgotten)?;
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
