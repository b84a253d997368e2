//! A small client of RocketMQ's remoting protocol (made for 5.5): what an order's way needs, and no more.
//!
//! The bytes are the crate `rocketmq`'s. Sockets do not block: each call polls until its own deadline, so a frozen broker
//! costs exactly the time that the caller allows.
//!
//! A broker counts as reachable only after it has answered a small request on the new connection: the kernel of a
//! machine accepts connections for a broker that is frozen.
//!
//! Requests go to masters only.

mod admin;
mod connection;
mod consumer;
#[cfg(fuzzing)]
pub mod fuzzing;
mod link;
mod producer;
mod pull;
mod route;
mod survey;
mod wire;

pub use admin::{Admin, AdminError};
pub use consumer::Consumer;
pub use producer::Producer;
pub use survey::{BrokerQueues, Survey};
