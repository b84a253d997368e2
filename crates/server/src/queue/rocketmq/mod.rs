//! A small client of RocketMQ's remoting protocol (made for 5.5): what an order's way needs, and no more.
//!
//! A frame is its length, the length of its header, the header as JSON, and a body. Sockets do not block: each call
//! polls until its own deadline, so a frozen broker costs exactly the time that the caller allows.
//!
//! A broker counts as reachable only after it has answered a small request on the new connection: the kernel of a
//! machine accepts connections for a broker that is frozen.
//!
//! Requests go to masters only.

mod admin;
mod codes;
mod connection;
mod consumer;
mod frame;
#[cfg(fuzzing)]
pub mod fuzzing;
mod link;
mod producer;
mod pull;
mod route;
mod stored;
mod survey;
mod wire;

pub use admin::{Admin, AdminError};
pub use consumer::Consumer;
pub use producer::Producer;
pub use survey::{BrokerQueues, Survey};
