//! The queue of the cluster profile: accepted orders between the gate and the ledger.
//!
//! This is the contract; `rocketmq/` keeps it. A [`Producer`] returns when the broker has acknowledged a batch,
//! and distinguishes what surely was not stored from what nobody knows. A [`Consumer`] reads queues from offsets that its
//! caller keeps in the ledger: the broker keeps no position for it, and nothing here is ever acknowledged.
//!
//! Must not: know what an order means, or repeat a send. Every call has a time limit; each thread has its own.

mod contract;
pub mod dead_letters;
pub mod message;
mod rocketmq;
mod security;
#[cfg(fuzzing)]
pub use rocketmq::fuzzing;

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

pub use contract::{Administer, Consume, Produce};
pub use message::NotAMessage;
pub use rocketmq::{Admin, AdminError, BrokerQueues, Consumer, Producer, Survey};
pub use security::{Credentials, Security, Tls, TlsError};

/// Most messages in one batch.
pub const BATCH_MESSAGES_MAX: usize = 1024;
/// Most bytes of bodies in one batch: a quarter of what a broker takes at its defaults, which bounds what it
/// stores, so that its own header of some 100 bytes for each message fits in any case.
pub const BATCH_BYTES_MAX: usize = 1 << 20;

/// Where the queue is, and how long it may take.
#[derive(Clone, Debug)]
pub struct Options {
    /// Host and port of each name server; the next one is asked when one does not answer.
    pub name_servers: Vec<String>,
    /// Name of the producers' and consumers' group, for the broker's own statistics.
    pub group: String,
    /// Longest time that one send takes; then its outcome is unknown.
    pub send_timeout: Duration,
    pub security: Security,
}

/// The topics of one installation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topics {
    pub orders: String,
    /// Messages that are no orders.
    pub messages: String,
    pub dead_letters: String,
}

impl Topics {
    /// Named after the topic of orders.
    pub fn new(orders: &str) -> Topics {
        let named = |suffix: &str| format!("{orders}-{suffix}");
        Topics { orders: orders.into(), messages: named("messages"), dead_letters: named("dead") }
    }
}

/// One queue of one broker.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Queue {
    pub broker: String,
    pub number: u32,
}

/// The text is not a queue's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a queue: it must be BROKER/NUMBER")]
pub struct NotAQueue;

impl fmt::Display for Queue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.broker, self.number)
    }
}

impl FromStr for Queue {
    type Err = NotAQueue;

    fn from_str(text: &str) -> Result<Queue, NotAQueue> {
        let (broker, number) = text.rsplit_once('/').ok_or(NotAQueue)?;
        let digits = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
        if broker.is_empty() || !digits {
            return Err(NotAQueue);
        }
        let number = number.parse().map_err(|_too_large| NotAQueue)?;
        Ok(Queue { broker: broker.into(), number })
    }
}

/// A batch that was not acknowledged.
#[derive(Debug, thiserror::Error)]
pub enum SendError {
    /// Not a byte of it left this process.
    #[error("nothing was sent: {0}")]
    NotSent(String),
    /// The broker answered, and by the code of its answer it has stored nothing.
    #[error("the broker refused it with code {0}: {1}")]
    Refused(i32, String),
    /// It may have been stored, or be stored later: no answer came, or one that does not say.
    #[error("it may have been stored: {0}")]
    Unknown(String),
}

/// Why a send has nowhere to go.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unavailable {
    /// The name servers know no broker of the topic: it may not be made yet, or its brokers are down.
    #[error("{}", no_topic(.0))]
    NoTopic(String),
    /// It may be over at the next look.
    #[error("{0}")]
    Unreachable(String),
    /// It stays so until a configuration is changed: what was answered, and which key to change.
    #[error("{0}")]
    Refused(String),
}

/// Name servers forget a broker that is down, so they can't distinguish these two.
fn no_topic(topic: &str) -> String {
    format!(
        "the name servers know no broker now that has the topic {topic}: its brokers are down, so start them, or it was never made, \
         which a server does when it starts"
    )
}

impl SendError {
    /// Whether it may have been stored all the same.
    pub fn is_unknown(&self) -> bool {
        matches!(self, SendError::Unknown(_))
    }
}

/// Nothing was read.
#[derive(Debug, thiserror::Error)]
pub enum PullError {
    /// The broker has deleted messages that were not read yet: they are lost.
    #[error("DATA LOSS: messages {wanted} to {first} (exclusive) of queue {queue} are no longer there")]
    Deleted { queue: Queue, wanted: u64, first: u64 },
    /// The broker has fewer messages than were read before: it lost its newest, and will give the same offsets
    /// to others.
    #[error("queue {queue} ends at {end}, before offset {wanted}: the broker has lost messages")]
    Ahead { queue: Queue, wanted: u64, end: u64 },
    /// A message's checksum is wrong, or its frame makes no sense.
    #[error("message {offset} of queue {queue} is damaged: {reason}")]
    Damaged { queue: Queue, offset: u64, reason: String },
    #[error("queue {queue}: the broker refused with code {code}: {text}")]
    Refused { queue: Queue, code: i32, text: String },
    /// Of a broker or of the name servers; worth another try.
    #[error("unreachable: {0}")]
    Unreachable(String),
}

impl PullError {
    /// Whether the same call may succeed by itself later.
    pub fn is_retryable(&self) -> bool {
        matches!(self, PullError::Unreachable(_) | PullError::Refused { .. })
    }
}

/// What was read of one queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pulled {
    pub queue: Queue,
    /// Offset and body, by rising offset without gaps, beginning with the offset that was asked for.
    pub messages: Vec<(u64, Box<[u8]>)>,
    /// To ask for next.
    pub next_offset: u64,
    /// Messages that the broker has stored as of this queue, and that are not in it: 0 unless it met a fault. They
    /// may have been acknowledged.
    pub misplaced: u64,
}

/// How many of the first bodies, by their lengths, one batch can hold. 0 only if there are none, or if the first
/// is too long for any batch.
pub fn batch_len(lengths: impl IntoIterator<Item = usize>) -> usize {
    let mut bytes = 0;
    let fits = |length: &usize| {
        bytes += length;
        bytes <= BATCH_BYTES_MAX
    };
    lengths.into_iter().take(BATCH_MESSAGES_MAX).take_while(fits).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_survives_its_text() {
        for (broker, number) in [("broker-a", 0), ("a/b", 7), ("x", u32::MAX)] {
            let queue = Queue { broker: broker.into(), number };
            assert_eq!(queue.to_string().parse(), Ok(queue));
        }
        for text in ["", "a", "a/", "/1", "a/-1", "a/+1", "a/4294967296", "a/1/"] {
            assert_eq!(text.parse::<Queue>(), Err(NotAQueue), "{text}");
        }
    }

    #[test]
    fn a_batch_is_bounded_in_messages_and_bytes() {
        assert_eq!(batch_len([]), 0);
        assert_eq!(batch_len([BATCH_BYTES_MAX]), 1);
        assert_eq!(batch_len([BATCH_BYTES_MAX + 1]), 0);
        assert_eq!(batch_len([1, BATCH_BYTES_MAX]), 1);
        assert_eq!(batch_len(vec![BATCH_BYTES_MAX / 4; 9]), 4);
        assert_eq!(batch_len(vec![0; BATCH_MESSAGES_MAX + 5]), BATCH_MESSAGES_MAX);
    }
}
