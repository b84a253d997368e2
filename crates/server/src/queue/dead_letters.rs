//! Dead letters: messages that no consumer understood, kept in a topic of their own until somebody looks.
//!
//! A record of that topic is a letter, or the note that one was replayed. Both are JSON, so that a person can read
//! them with any tool. A letter is named by the place of the message that it holds, so that one which was written
//! twice (its consumer died before it had committed) counts once.
//!
//! Must not: decide what is dead; that is the consumer's.

use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use engine::UnixMs;
use serde::{Deserialize, Serialize};

use super::{Consumer, Options, PullError, Queue};

/// Of the records' form.
const VERSION: u32 = 1;
/// Longest body that a letter keeps; as base64 it still fits a batch. A longer message stays where it was sent to,
/// for as long as the broker keeps it.
pub const BODY_BYTES_MAX: usize = 512 << 10;
/// Records of one read.
const PULL_MESSAGES_MAX: usize = 256;
/// Longest time without a record while some are known to be there.
const SILENCE_MAX: Duration = Duration::from_secs(10);

/// A message that no consumer understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeadLetter {
    /// Where the message was.
    pub queue: Queue,
    pub offset: u64,
    pub reason: String,
    pub at: UnixMs,
    /// Length of the message, which is kept only up to [`BODY_BYTES_MAX`].
    pub bytes: usize,
    pub body: Option<Vec<u8>>,
}

/// One record of the topic of dead letters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record {
    Letter(DeadLetter),
    /// The message from this place was sent again.
    Replayed {
        queue: Queue,
        offset: u64,
    },
}

/// The record is not of a form that is known.
#[derive(Debug, thiserror::Error)]
pub enum NotARecord {
    #[error("it is not JSON as it must be: {0}")]
    Json(#[from] serde_json::Error),
    #[error("it has version {0}, and only {VERSION} is known")]
    Version(u32),
    #[error("it names no queue: {0:?}")]
    Queue(String),
    #[error("its body is no base64")]
    Body,
}

#[derive(Serialize, Deserialize)]
#[serde(untagged, deny_unknown_fields)]
enum Wire {
    Letter {
        version: u32,
        reason: String,
        queue: String,
        offset: u64,
        at_ms: u64,
        bytes: usize,
        body_base64: Option<String>,
    },
    Replayed {
        version: u32,
        replayed: String,
    },
}

impl DeadLetter {
    pub fn new(queue: Queue, offset: u64, reason: String, at: UnixMs, message: &[u8]) -> DeadLetter {
        let body = (message.len() <= BODY_BYTES_MAX).then(|| message.to_vec());
        DeadLetter { queue, offset, reason, at, bytes: message.len(), body }
    }

    /// Its name: the place of its message.
    pub fn place(&self) -> String {
        place(&self.queue, self.offset)
    }
}

/// The text form of a place in a queue: `broker/3/17`.
pub fn place(queue: &Queue, offset: u64) -> String {
    format!("{queue}/{offset}")
}

fn parse_place(text: &str) -> Option<(Queue, u64)> {
    let (queue, offset) = text.rsplit_once('/')?;
    Some((queue.parse().ok()?, offset.parse().ok()?))
}

impl Record {
    pub fn encode(&self) -> Vec<u8> {
        let wire = match self {
            Record::Letter(letter) => Wire::Letter {
                version: VERSION,
                reason: letter.reason.clone(),
                queue: letter.queue.to_string(),
                offset: letter.offset,
                at_ms: letter.at.0,
                bytes: letter.bytes,
                body_base64: letter.body.as_ref().map(|body| STANDARD.encode(body)),
            },
            Record::Replayed { queue, offset } => {
                Wire::Replayed { version: VERSION, replayed: place(queue, *offset) }
            }
        };
        serde_json::to_vec(&wire).expect("texts and numbers are JSON")
    }

    pub fn decode(record: &[u8]) -> Result<Record, NotARecord> {
        let (Wire::Letter { version, .. } | Wire::Replayed { version, .. }) =
            &serde_json::from_slice(record)?;
        if *version != VERSION {
            return Err(NotARecord::Version(*version));
        }
        match serde_json::from_slice(record)? {
            Wire::Letter { reason, queue, offset, at_ms, bytes, body_base64, .. } => {
                let decode = |text: String| STANDARD.decode(text).map_err(|_not_base64| NotARecord::Body);
                let body = body_base64.map(decode).transpose()?;
                let queue = queue.parse().map_err(|_not_a_queue| NotARecord::Queue(queue))?;
                Ok(Record::Letter(DeadLetter { queue, offset, reason, at: UnixMs(at_ms), bytes, body }))
            }
            Wire::Replayed { replayed, .. } => {
                let (queue, offset) = parse_place(&replayed).ok_or(NotARecord::Queue(replayed))?;
                Ok(Record::Replayed { queue, offset })
            }
        }
    }
}

/// A record, or why it is none, and where it is.
#[derive(Debug)]
pub struct ReadRecord {
    pub queue: Queue,
    pub offset: u64,
    pub record: Result<Record, NotARecord>,
}

/// Passes on every record that is there now, each queue in its order.
pub fn read_all<E: From<PullError>>(
    options: Options,
    topic: &str,
    mut visit: impl FnMut(ReadRecord) -> Result<(), E>,
) -> Result<(), E> {
    let mut consumer = Consumer::new(options, topic);
    let mut wants = Vec::new();
    for queue in consumer.queues()? {
        let (from, end) = (consumer.min_offset(&queue)?, consumer.max_offset(&queue)?);
        if from < end {
            wants.push((queue, from, end));
        }
    }
    let mut last = Instant::now();
    while !wants.is_empty() {
        let asked: Vec<(Queue, u64)> = wants.iter().map(|(queue, from, _)| (queue.clone(), *from)).collect();
        let pulled = consumer.pull(&asked, PULL_MESSAGES_MAX, SILENCE_MAX)?;
        if !pulled.is_empty() {
            last = Instant::now();
        } else if last.elapsed() >= SILENCE_MAX {
            let silent =
                wants.iter().map(|(queue, from, _)| place(queue, *from)).collect::<Vec<_>>().join(", ");
            return Err(PullError::Unreachable(format!("no answer about {silent}")).into());
        }
        for pulled in pulled {
            let want = wants.iter_mut().find(|(queue, ..)| *queue == pulled.queue);
            let (queue, from, end) = want.expect("only what is wanted is pulled");
            for (offset, body) in pulled.messages.into_iter().take_while(|(offset, _)| offset < end) {
                visit(ReadRecord { queue: queue.clone(), offset, record: Record::decode(&body) })?;
            }
            *from = pulled.next_offset;
        }
        wants.retain(|(_, from, end)| from < end);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_survive_their_text() {
        let queue = Queue { broker: "broker-a".into(), number: 3 };
        let letter = DeadLetter::new(queue.clone(), 17, "no \"reason\"".into(), UnixMs(5), b"\0\xff");
        assert_eq!(letter.place(), "broker-a/3/17");
        let long = DeadLetter::new(queue.clone(), 18, "long".into(), UnixMs(6), &vec![0; BODY_BYTES_MAX + 1]);
        assert_eq!((long.bytes, &long.body), (BODY_BYTES_MAX + 1, &None));
        for record in [Record::Letter(letter), Record::Letter(long), Record::Replayed { queue, offset: 17 }] {
            assert_eq!(Record::decode(&record.encode()).unwrap(), record);
        }
    }

    #[test]
    fn what_is_no_record_is_an_error() {
        let cases = [
            ("", "JSON"),
            ("{}", "JSON"),
            (r#"{"version":2,"replayed":"b/1/2"}"#, "version 2"),
            (r#"{"version":1,"replayed":"b/1"}"#, "names no queue"),
            (
                r#"{"version":1,"reason":"","queue":"b/1","offset":1,"at_ms":1,"bytes":1,"body_base64":"?"}"#,
                "base64",
            ),
            (
                r#"{"version":1,"reason":"","queue":"b","offset":1,"at_ms":1,"bytes":0,"body_base64":""}"#,
                "queue",
            ),
        ];
        for (text, expected) in cases {
            let error = Record::decode(text.as_bytes()).unwrap_err().to_string();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}
