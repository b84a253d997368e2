//! What the answer to a request for messages of one queue means.
//!
//! Must not: pass over a gap. Places in a queue are dense, so a gap is a loss.
//!
//! A message's place in its queue is also the offset that is stored in it. But a broker that met a fault (its disk was
//! full, say) may have given offsets to messages that its queue does not have: what it stored after that has greater
//! offsets than places. It gives out and counts by places, so these count here, as long as the answer has no gap.

use std::ops::Range;

use rocketmq::codes::{PULL_NOT_FOUND, PULL_OFFSET_MOVED, PULL_RETRY_IMMEDIATELY, SUCCESS};
use rocketmq::frame::Answer;
use rocketmq::stored::{self, Stored};

use crate::queue::{PullError, Queue};

/// Offset and body.
type Message = (u64, Box<[u8]>);

/// What an answer brought.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum PullAnswer {
    /// At least one message, by rising offset without gaps.
    Messages {
        messages: Vec<Message>,
        /// The broker has more.
        more: bool,
        /// Messages that got an offset of this queue before these and have no place in it.
        misplaced: u64,
    },
    Nothing,
    /// The broker wants to be asked again.
    Again,
}

/// What the answer to a request for messages from `offset` on means.
pub(super) fn read(answer: &Answer, queue: &Queue, offset: u64) -> Result<PullAnswer, PullError> {
    let unclear = |reason| PullError::Damaged { queue: queue.clone(), offset, reason };
    let number = |name| answer.number(name).map_err(unclear);
    match answer.code {
        SUCCESS => {
            let (end, next) = (number("maxOffset")?, number("nextBeginOffset")?);
            let (messages, misplaced) = read_messages(&answer.body, queue, offset..next)?;
            let more = messages.last().is_some_and(|(last, _)| last + 1 < end);
            Ok(match messages.is_empty() {
                true => PullAnswer::Again,
                false => PullAnswer::Messages { messages, more, misplaced },
            })
        }
        PULL_NOT_FOUND => Ok(PullAnswer::Nothing),
        PULL_RETRY_IMMEDIATELY => match number("nextBeginOffset")? {
            first if first > offset => {
                Err(PullError::Deleted { queue: queue.clone(), wanted: offset, first })
            }
            _ => Ok(PullAnswer::Again),
        },
        PULL_OFFSET_MOVED => {
            let (first, end) = (number("minOffset")?, number("maxOffset")?);
            if offset < first {
                return Err(PullError::Deleted { queue: queue.clone(), wanted: offset, first });
            }
            Err(PullError::Ahead { queue: queue.clone(), wanted: offset, end })
        }
        code => Err(PullError::Refused { queue: queue.clone(), code, text: answer.remark.clone() }),
    }
}

/// The messages of these places before the first that is damaged or missing, and how far the offsets are ahead of the
/// places. If the very first one is damaged or missing, the error.
fn read_messages(body: &[u8], queue: &Queue, places: Range<u64>) -> Result<(Vec<Message>, u64), PullError> {
    let found: Vec<_> = stored::messages(body).collect();
    // A place whose message is gone is passed over by the broker, and counted: then there are fewer than places.
    let is_whole = places.end.saturating_sub(places.start) == found.len() as u64;
    let (mut messages, mut misplaced) = (Vec::new(), 0);
    for (place, stored) in (places.start..).zip(found) {
        match check(stored, queue, place, is_whole) {
            Ok((body, ahead)) => {
                messages.push((place, body));
                misplaced = ahead;
            }
            Err(fault) if messages.is_empty() => return Err(fault),
            // The next request begins with it, and reports it.
            Err(_) => break,
        }
    }
    Ok((messages, misplaced))
}

/// The body, and how far its offset is ahead of its place.
fn check(
    stored: Result<Stored<'_>, stored::Damaged>,
    queue: &Queue,
    place: u64,
    is_whole: bool,
) -> Result<(Box<[u8]>, u64), PullError> {
    let damaged = |reason: String| PullError::Damaged { queue: queue.clone(), offset: place, reason };
    let stored = stored.map_err(|error| damaged(error.to_string()))?;
    if stored.queue != queue.number {
        return Err(damaged(format!("it is of queue {}", stored.queue)));
    }
    match stored.offset.checked_sub(place) {
        None => Err(damaged(format!("it has offset {}", stored.offset))),
        Some(ahead) if ahead > 0 && !is_whole => {
            Err(PullError::Deleted { queue: queue.clone(), wanted: place, first: stored.offset })
        }
        Some(ahead) => Ok((stored.body.into(), ahead)),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    fn answer(code: i32, fields: &[(&str, &str)]) -> Answer {
        let fields: HashMap<String, String> = fields.iter().map(|&(k, v)| (k.into(), v.into())).collect();
        Answer { code, opaque: 1, version: 0, remark: "why".into(), fields, body: Vec::new() }
    }

    #[test]
    fn each_code_has_its_meaning() {
        let queue = Queue { broker: "b".into(), number: 3 };
        let read = |code, fields: &[(&str, &str)]| {
            read(&answer(code, fields), &queue, 10).map_err(|e| e.to_string())
        };
        let moved = |min, max| read(PULL_OFFSET_MOVED, &[("minOffset", min), ("maxOffset", max)]);
        assert_eq!(read(PULL_NOT_FOUND, &[]), Ok(PullAnswer::Nothing));
        assert_eq!(read(SUCCESS, &[("maxOffset", "10"), ("nextBeginOffset", "10")]), Ok(PullAnswer::Again));
        assert_eq!(read(PULL_RETRY_IMMEDIATELY, &[("nextBeginOffset", "10")]), Ok(PullAnswer::Again));
        for deleted in [read(PULL_RETRY_IMMEDIATELY, &[("nextBeginOffset", "12")]), moved("12", "20")] {
            assert_eq!(
                deleted.unwrap_err(),
                "DATA LOSS: messages 10 to 12 (exclusive) of queue b/3 are no longer there"
            );
        }
        assert!(moved("0", "9").unwrap_err().starts_with("queue b/3 ends at 9, before offset 10"));
        assert!(moved("0", "").unwrap_err().contains("field maxOffset"));
        assert!(read(SUCCESS, &[]).unwrap_err().contains("field maxOffset"));
        assert_eq!(read(16, &[]).unwrap_err(), "queue b/3: the broker refused with code 16: why");
    }
}
