//! Doorbuster measured from outside: exact load, honest clocks, and a proof after every run that no order was lost.
//!
//! This crate depends on neither `engine` nor `server`: it must find a mistake in them, so it shares no type of the API
//! with them. Only RocketMQ's protocol is a crate of both, for there the brokers are real, and every message is counted
//! (docs/decisions/028-rocketmq-crate.md). The `doorbuster` program calls it; nothing that serves buyers does.
//!
//! The path of a measurement: [`load`] says when a request is due and moves its bytes, a driver of [`drivers`] gives
//! them and judges the answer, [`host`] reads what it cost, [`audit`] compares what was answered with what the
//! ledger holds, [`experiments`] says what is measured, and [`report`] what was found out.

pub mod audit;
pub mod drivers;
pub mod durability;
pub mod experiments;
mod goal;
pub mod host;
pub mod load;
pub mod measure;
pub mod peak;
pub mod progress;
pub mod reference;
pub mod rehearsal;
pub mod report;
pub mod suite;
pub mod target;
mod testbed;
pub mod tools;
