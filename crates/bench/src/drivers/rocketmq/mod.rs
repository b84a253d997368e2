//! RocketMQ's remoting protocol: a producer and a consumer for the one loop of `load/`, and what they need around it.
//!
//! Frames, codes and stored messages are the crate `rocketmq`'s, which the server's client has too; the producer's loop
//! is the bench's own. What is sent and acknowledged is counted and looked up at the broker.

mod body;
mod consumer;
mod producer;
mod topic;

pub use self::body::{Bodies, Numbers};
pub use self::consumer::{Consumed, Consumer, Pulling};
pub use self::producer::{Producer, Sending};
pub use self::topic::{Master, Topic};

/// An answer of a broker, for tests.
#[cfg(test)]
fn answer(header: &str, body: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let header = |out: &mut Vec<u8>| out.extend_from_slice(header.as_bytes());
    rocketmq::frame::append(&mut out, header, |out| out.extend_from_slice(body));
    out
}
