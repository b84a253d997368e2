//! One server of a cluster: the stages of an order's path on engines that many servers share.
//!
//! ```text
//! event loops -> mailbox -> relay -> gate (Redis) -> publish -> broker (RocketMQ) -> answer: pending
//!                              |                                   |
//!                              +-> status, commands <- ledger <- consume
//!                                              reconcile, refresh: gate against ledger
//!                                              clocks: whose is wrong; operators: who may
//!                                              figures, attempts: what servers tell each other
//!                                              webhooks: which server tells the shop
//! ```
//!
//! Each stage is a thread with connections of its own, and hands work on in batches. A server keeps nothing that the
//! engines do not have: it can be killed at any time, and any other one goes on.

mod answers;
mod ask;
mod attempts;
mod audit;
mod clocks;
mod core;
mod counts;
mod figures;
mod looks;
mod operators;
mod pass_over;
mod place;
mod queues;
mod reach;
pub mod rehearsal;
mod sales;
mod settle;
mod stages;
mod start;
mod warnings;
mod webhooks;
mod work;

use std::time::Duration;

pub use self::audit::{AuditError, SkuSight, ThreeWay, audit};
use self::core::Core;
pub use self::pass_over::{PassOverError, pass_over};
pub use self::queues::{
    LookError, QueueCondition, QueueSight, QueuesError, RetireError, Retired, queues, retire,
};
pub use self::reach::unreachable;
pub use self::settle::consume::ledger_missed_within;
pub use self::stages::{Connect, Ending, Ends, Identity, Server, Stage};
pub use self::start::{Stages, StartError, queue_options};

fn ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
