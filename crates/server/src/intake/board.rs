//! What those who wait in the line of an item read: the line as last committed, and what it did lately.
//!
//! Must not: know a request.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use engine::{LineView, UnixMs};

/// What a waiting page reads of a line: as last committed.
#[derive(Debug, Default)]
pub struct Board(Mutex<Posted>);

#[derive(Debug, Default)]
struct Posted {
    line: Option<LineView>,
    /// What everybody in it is to read.
    message: Arc<str>,
    /// Of those who can be called soon; as of the last second.
    present: u32,
    /// How many were reached by the end of a second; the latest last, and one that is older than the pace asks for.
    reached: VecDeque<(u64, u32)>,
    moved: Option<Moved>,
}

/// Why places of a line are worth more or less than they were.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// Units were added.
    Added,
    /// Units were taken off sale, as not there.
    Taken,
    /// Units of orders came back that were not paid, or cancelled.
    Unpaid,
    /// People gave up.
    GaveUp,
}

/// What moved the borders of a line last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moved {
    pub at: UnixMs,
    pub why: Why,
    /// Units, or people.
    pub count: u64,
}

impl Moved {
    /// As `line.js` says it of two boards.
    fn between(before: &LineView, after: &LineView, at: UnixMs) -> Option<Moved> {
        let of = |why, count| Some(Moved { at, why, count });
        let (was, is) = (&before.stock, &after.stock);
        let unpaid = (was.held() + was.sold()).saturating_sub(is.held() + is.sold());
        let gave_up = after.standings.gave_up.saturating_sub(before.standings.gave_up);
        if is.total() > was.total() {
            of(Why::Added, is.total() - was.total())
        } else if is.total() < was.total() {
            of(Why::Taken, was.total() - is.total())
        } else if unpaid > 0 {
            of(Why::Unpaid, unpaid)
        } else if gave_up > 0 {
            of(Why::GaveUp, gave_up.into())
        } else {
            None
        }
    }
}

/// Over which a line's pace is counted.
const PACE_S: u64 = 60;

impl Board {
    /// `message`: what everybody in the line is to read.
    pub fn publish(&self, now: UnixMs, line: LineView, message: &str) {
        let mut posted = self.lock();
        if &*posted.message != message {
            posted.message = message.into();
        }
        let before = posted.line.replace(line);
        posted.moved = before.and_then(|before| Moved::between(&before, &line, now)).or(posted.moved);
        let (second, reached) = (now.0 / 1000, line.borders.reached);
        match posted.reached.back_mut() {
            Some((last, to)) if *last == second => *to = reached,
            Some((_, to)) if *to == reached => {}
            _ => posted.reached.push_back((second, reached)),
        }
        posted.forget(second);
    }

    /// `None`: nobody has said yet.
    pub fn read(&self) -> Option<LineView> {
        self.lock().line
    }

    /// What everybody in the line is to read, and how often that was changed. `None`: nobody has said yet.
    pub fn message(&self) -> Option<(u32, Arc<str>)> {
        let posted = self.lock();
        posted.line.map(|line| (line.message_changes, Arc::clone(&posted.message)))
    }

    /// Since the start of this server.
    pub fn moved(&self) -> Option<Moved> {
        self.lock().moved
    }

    pub fn publish_present(&self, present: u32) {
        self.lock().present = present;
    }

    /// How many are there of those who can be called soon.
    pub fn present(&self) -> u32 {
        self.lock().present
    }

    /// How many were reached in the last minute; since the start of this server, if that is shorter.
    pub fn pace(&self, now: UnixMs) -> u32 {
        let mut posted = self.lock();
        posted.forget(now.0 / 1000);
        let ends = posted.reached.front().zip(posted.reached.back());
        ends.map_or(0, |((_, from), (_, to))| to.saturating_sub(*from))
    }

    fn lock(&self) -> MutexGuard<'_, Posted> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Posted {
    /// Of what is older than the pace asks for, the latest is kept: it was so at its beginning.
    fn forget(&mut self, second: u64) {
        while self.reached.get(1).is_some_and(|(at, _)| at + PACE_S <= second) {
            self.reached.pop_front();
        }
    }
}
