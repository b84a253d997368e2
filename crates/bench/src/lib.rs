//! Doorbuster measured from outside: exact load, honest clocks, and a proof after every run that no order was lost.
//!
//! This crate has its own wire types and depends on neither `engine` nor `server`: it must find a mistake in them,
//! so it must not share one with them. The `doorbuster` program calls it; nothing that serves buyers does.
//!
//! The path of a measurement: [`schedule`] says when a request is due, a [`http::Workload`] gives its bytes and
//! judges its answer, the [`http::Driver`] moves the bytes, [`record`] keeps times and outcomes, [`process`] reads
//! what it cost, and [`audit`] compares what was answered with what the ledger holds.

pub mod audit;
pub mod cluster;
pub mod embedded;
pub mod engines;
pub mod environment;
mod goal;
pub mod http;
pub mod nginx;
pub mod process;
mod progress;
pub mod record;
pub mod schedule;
pub mod target;
pub mod token;
mod traffic;
pub mod usage;

pub use cluster::{ClusterOptions, ClusterReport, cluster};
pub use embedded::{EmbeddedOptions, Report, embedded};
pub use goal::Goal;
