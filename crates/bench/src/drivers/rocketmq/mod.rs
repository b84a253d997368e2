//! RocketMQ's remoting protocol: a producer and a consumer for the one loop of `load/`, and what they need around it.
//!
//! Written for the bench from the protocol's description; nothing of it is shared with the server's client, whose
//! mistakes it must be able to find.

mod body;
mod consumer;
mod frame;
mod producer;
mod stored;
mod topic;

pub use self::body::{Bodies, Numbers};
pub use self::consumer::{Consumed, Consumer, Pulling};
pub use self::producer::{Producer, Sending};
pub use self::topic::{Master, Topic};
