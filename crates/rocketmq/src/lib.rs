//! RocketMQ's remoting protocol as bytes (made for 5.5): frames, the fields of requests, the codes of answers, messages as
//! they are stored, routes, signatures.
//!
//! Shared by the server's client and the bench (docs/decisions/028-rocketmq-crate.md). Must not: open a socket, read a
//! clock, wait, or decide what an outcome means to a buyer.

pub mod codes;
pub mod frame;
mod requests;
mod route;
mod signature;
pub mod stored;

pub use requests::{OffsetFields, PullFields, RouteFields, text};
pub use route::{BrokerRoute, UnknownRoute, route};
pub use signature::Signer;
