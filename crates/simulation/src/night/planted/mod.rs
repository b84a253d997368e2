//! Defects that nights must find. Each is put between the real stages and the ledger, or into a real script, so nothing that serves
//! knows of it.

mod aims;
mod ledger;
mod queue;

use std::sync::Arc;

use server::gate::GateConfig;
use server::ledger::mysql::cluster::ClusterLedger;
use server::queue::{Consume, Produce};

use self::aims::{
    after_the_restock, fails_over_after_the_pause, fails_over_late, fails_over_with_one, faulty_gate,
    forgotten_by_all, gate_cut, gate_cut_and_wiped_later, lost_by_a_broker_before_a_restart, quiet,
    wiped_while_a_broker_is_cut, wiped_while_messages_are_late, wiped_while_sends_fail,
    wiped_while_servers_crash, wiped_with_a_backlog,
};
use super::faults::{Plan, plan};
use crate::gate::{Dialect, Redis};
use crate::queue::Connection;

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
    /// That a gate knows of changes which the ledger has lost is not noticed.
    GateAheadNotNoticed,
    /// An order of an older epoch is placed without asking the gate.
    OlderEpochDoesNotAsk,
    /// Each connection of a server goes by the epochs that it alone has heard of.
    EpochsNotShared,
    /// A server keeps queues that it does not reach.
    KeepsWhatItDoesNotReach,
    /// How far a queue was read is committed before its orders.
    OffsetsApart,
    /// What the gate is to hear is done with before it has heard.
    OutboxDoneEarly,
    /// An order is answered while its message is on its way.
    AnsweredBeforeAcknowledged,
    /// What was not sent counts as sent.
    NotSentIsSent,
    /// What may not have been sent counts as sent.
    UnknownIsSent,
    /// Messages are passed over, one in three.
    MessagePassedOver,
    /// A cancellation is answered and not carried out.
    CancelForgotten,
    /// Units that an operator takes off are there still.
    CorrectionForgotten,
    /// An epoch is misread once in a while, and the gate is rebuilt.
    EpochMisread,
}

/// The faults of a night, by its seed.
pub type Aim = fn(u64) -> Plan;

/// Every defect that there is, by its name, with the nights that aim at it, and in how many of them it is found.
pub const PLANTED: &[(&str, Planted, Aim, u64)] = &[
    (
        "the gate sells what it has not",
        Planted::Script("if avail < units then return avail > 0 and 13 or 12", "if false then return 12"),
        plan,
        3,
    ),
    ("a buyer has no limit", Planted::Script("if count > limit then", "if false then"), plan, 3),
    (
        "a key that is known is not looked up",
        Planted::Script(
            "if mark then\n    if string.sub(mark, 2, #body + 1)",
            "if false then\n    if string.sub(mark, 2, #body + 1)",
        ),
        faulty_gate,
        16,
    ),
    (
        "a reservation is not counted as open",
        Planted::Script("redis.call('ZADD', KEYS[3], unpack(times))", ""),
        plan,
        3,
    ),
    (
        "a reservation takes no units",
        Planted::Script("avail, seq = avail - units, seq + 1\n", "seq = seq + 1\n"),
        plan,
        3,
    ),
    (
        "units of a placed order go back",
        Planted::Script("if verdict == 'u' then take", "if true then take"),
        plan,
        3,
    ),
    (
        "units are given back twice",
        Planted::Script("if to == ALREADY then return answer(ALREADY) end", ""),
        plan,
        3,
    ),
    ("a pause binds no gate", Planted::Script("elseif phase == 'p' then", "elseif false then"), plan, 3),
    ("what the gate is to hear is forgotten", Planted::OutboxForgotten, plan, 3),
    ("an epoch is not raised", Planted::EpochNotRaised, plan, 16),
    ("a gate is rebuilt without marks", Planted::MarksForgotten, plan, 8),
    ("holds never expire", Planted::NeverExpires, plan, 3),
    ("holds expire early", Planted::ExpiresEarly, plan, 3),
    ("closed orders are not found", Planted::NotFound, plan, 3),
    ("a lost tail is not noticed", Planted::LostTailNotNoticed, after_the_restock, 3),
    (
        "a gate that is to be closed stays open",
        Planted::Script(
            "if flag() == fenced and not anew then return answer(ALREADY) end",
            "if true then return answer(DONE) end",
        ),
        after_the_restock,
        3,
    ),
    ("a gate that is ahead is not noticed", Planted::GateAheadNotNoticed, forgotten_by_all, 40),
    ("an older epoch does not ask", Planted::OlderEpochDoesNotAsk, wiped_while_messages_are_late, 80),
    ("an old master is believed", Planted::EpochsNotShared, fails_over_with_one, 40),
    (
        "queues are kept that are not reached",
        Planted::KeepsWhatItDoesNotReach,
        wiped_while_a_broker_is_cut,
        40,
    ),
    (
        "what was asked for long ago is reserved",
        Planted::Script(
            "if asked_at > 0 and (now - asked_at > 2000 or asked_at - now > 2000) then\n  refusal",
            "if false then\n  refusal",
        ),
        gate_cut,
        100,
    ),
    (
        "what a fenced gate has reserved is not read",
        Planted::Script(
            "local at, asked_at = now(), tonumber(ARGV[4])",
            "if flag() == 'F' then return answer(LOST) end\nlocal at, asked_at = now(), tonumber(ARGV[4])",
        ),
        lost_by_a_broker_before_a_restart,
        3,
    ),
    ("offsets are apart from orders", Planted::OffsetsApart, wiped_while_servers_crash, 24),
    ("what the gate is to hear is done with early", Planted::OutboxDoneEarly, faulty_gate, 3),
    ("answered before the acknowledgement", Planted::AnsweredBeforeAcknowledged, wiped_while_sends_fail, 3),
    ("not sent is taken for sent", Planted::NotSentIsSent, wiped_while_sends_fail, 3),
    ("unknown is taken for sent", Planted::UnknownIsSent, wiped_while_sends_fail, 3),
    ("messages are passed over", Planted::MessagePassedOver, wiped_with_a_backlog, 3),
    (
        "a pause binds no gate, long before a fail-over",
        Planted::Script("elseif phase == 'p' then", "elseif false then"),
        fails_over_after_the_pause,
        16,
    ),
    ("a cancellation is forgotten, long before a fail-over", Planted::CancelForgotten, fails_over_late, 16),
    (
        "a correction is forgotten, and a fail-over has lost more units",
        Planted::CorrectionForgotten,
        after_the_restock,
        16,
    ),
    (
        "what was asked for long ago is reserved, long before a rebuild",
        Planted::Script(
            "if asked_at > 0 and (now - asked_at > 2000 or asked_at - now > 2000) then\n  refusal",
            "if false then\n  refusal",
        ),
        gate_cut_and_wiped_later,
        100,
    ),
    ("a gate is rebuilt again and again", Planted::EpochMisread, quiet, 3),
];

/// The run of Redis that is called so: of 40 digits, of which the first 20 are looked at.
pub(super) fn run(life: u64) -> String {
    format!("{life:020x}{life:020x}")
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
        Box::new(ledger::Defective::new(self, ledger))
    }

    /// As a server has it, or each of its connections.
    pub(super) fn gate(self, config: &GateConfig) -> GateConfig {
        let config = config.clone();
        if self == Planted::EpochsNotShared {
            GateConfig { epochs: Arc::default(), ..config }
        } else {
            config
        }
    }

    pub(super) fn producer(self, host: &str, inner: Connection) -> Box<dyn Produce> {
        Box::new(queue::Defective { planted: self, host: host.to_owned(), inner })
    }

    pub(super) fn consumer(self, host: &str, inner: Connection) -> Box<dyn Consume> {
        Box::new(queue::Defective { planted: self, host: host.to_owned(), inner })
    }
}
