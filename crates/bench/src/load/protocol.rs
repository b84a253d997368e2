//! What a driver is: the bytes of requests, and the meaning of answers, for one protocol. No I/O, no clock.
//!
//! The [`Generator`](super::Generator) moves the bytes and keeps the times; a driver (`drivers/`) knows the protocol
//! and the business. One request is under way on a connection at a time; it may hold many commands (a pipeline, a
//! batch), and each of them has an outcome of its own.

use super::outcome::Outcome;

/// The connection that bytes belong to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConnectionId {
    /// Who asks: 0 to `connections - 1`.
    pub user: usize,
    /// Where: an index into the addresses with [`Spread::Requests`](super::Spread), else 0.
    pub lane: usize,
}

pub trait Protocol {
    /// Whether a new connection begins with an exchange, by `greet`, before the first request.
    fn greets(&self) -> bool {
        false
    }

    /// The next step of that exchange, first with no bytes at all. Appends to `out` what is to be sent.
    fn greet(&mut self, _connection: ConnectionId, _bytes: &[u8], _out: &mut Vec<u8>) -> Greeting {
        Greeting::Done { consumed: 0 }
    }

    /// Appends the user's next request to `out`; the lane that it is for.
    fn request(&mut self, user: usize, out: &mut Vec<u8>) -> usize;

    /// The user's next request is another attempt of one that was refused or failed, by the schedule: see
    /// [`Retries`](super::schedule::Retries). Called before `request`.
    fn retrying(&mut self, _user: usize) {}

    /// Reads as much of the answer as has come. `bytes` begins after what was consumed before.
    fn receive(&mut self, connection: ConnectionId, bytes: &[u8], verdicts: &mut Verdicts) -> Received;

    /// How many outcomes a request has: so many are unknown if its answer is lost.
    fn operations(&self, _user: usize) -> u64 {
        1
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Greeting {
    /// More bytes must come first; those so far stay.
    Part,
    /// Something was appended, or will be asked again with more bytes.
    Next {
        consumed: usize,
    },
    /// Requests may be sent.
    Done {
        consumed: usize,
    },
    Broken(&'static str),
}

/// What came of some bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Received {
    /// The answer goes on; so many bytes of it are done with.
    Part { consumed: usize },
    /// The answer is whole. Bytes behind it are a fault: nobody asked for them.
    Whole { consumed: usize, keep_alive: bool },
    /// This can't be an answer; the connection is closed, the outcome unknown.
    Broken(&'static str),
}

/// What a driver says of the answer under way.
#[derive(Debug, Default)]
pub struct Verdicts {
    pub(super) outcomes: Vec<(Outcome, u64)>,
    pub(super) body_bytes: Option<usize>,
    pub(super) surprise: Option<String>,
}

impl Verdicts {
    pub fn of(outcome: Outcome) -> Self {
        Self { outcomes: vec![(outcome, 1)], ..Self::default() }
    }

    /// One operation of the request has this outcome.
    pub fn add(&mut self, outcome: Outcome) {
        match self.outcomes.last_mut() {
            Some((last, count)) if *last == outcome => *count += 1,
            _ => self.outcomes.push((outcome, 1)),
        }
    }

    /// Length of the body of an accepted order or a served read.
    pub fn body(&mut self, bytes: usize) {
        self.body_bytes = Some(bytes);
    }

    /// Something that a person should read, such as an unexpected answer. The first one of a run is kept; `text` is
    /// only called for it.
    pub fn surprise(&mut self, text: impl FnOnce() -> String) {
        self.surprise.get_or_insert_with(text);
    }
}
