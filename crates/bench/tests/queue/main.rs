//! The drivers of RocketMQ's and MySQL's protocols: on real servers, and on ones that lie.

#[path = "../ports/mod.rs"]
mod ports;

mod fake;
mod lies;
mod real;
