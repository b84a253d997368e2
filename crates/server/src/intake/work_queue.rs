//! What stands between two stages of an order's path: a queue that one thread fills and others drain in batches.
//!
//! Its length is known to whoever would fill it, so that work is refused before anything was started for it; the
//! queue itself refuses nothing.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::time::Condvar;

#[derive(Debug)]
struct Inside<T> {
    waiting: VecDeque<T>,
    /// Somebody wants the drainer to look around, though nothing came.
    nudged: bool,
    closed: bool,
}

/// Work that waits for a stage.
#[derive(Debug)]
pub(crate) struct WorkQueue<T> {
    inside: Mutex<Inside<T>>,
    filled: Condvar,
}

/// What a drainer found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Drained {
    /// Work, or none because the time was over.
    Work,
    /// No more work can come.
    Closed,
}

impl<T> Default for WorkQueue<T> {
    fn default() -> WorkQueue<T> {
        let inside = Inside { waiting: VecDeque::new(), nudged: false, closed: false };
        WorkQueue { inside: Mutex::new(inside), filled: Condvar::default() }
    }
}

impl<T> WorkQueue<T> {
    pub(crate) fn push(&self, work: T) {
        self.lock().waiting.push_back(work);
        self.filled.notify_one();
    }

    /// All of it with one lock; `work` is left empty.
    pub(crate) fn append(&self, work: &mut Vec<T>) {
        if work.is_empty() {
            return;
        }
        self.lock().waiting.extend(work.drain(..));
        self.filled.notify_one();
    }

    pub(crate) fn len(&self) -> usize {
        self.lock().waiting.len()
    }

    /// Ends one wait of a drainer, now or the next.
    pub(crate) fn nudge(&self) {
        self.lock().nudged = true;
        self.filled.notify_one();
    }

    /// The stages before have ended.
    pub(crate) fn close(&self) {
        self.lock().closed = true;
        self.filled.notify_all();
    }

    /// Takes at most `max`, oldest first, into `into`; waits at most `patience` for the first.
    pub(crate) fn drain(&self, into: &mut Vec<T>, max: usize, patience: Duration) -> Drained {
        let mut inside = self.filled.wait_while(&self.inside, patience, |inside| {
            inside.waiting.is_empty() && !inside.nudged && !inside.closed
        });
        inside.nudged = false;
        let taken = inside.waiting.len().min(max);
        into.extend(inside.waiting.drain(..taken));
        if !inside.waiting.is_empty() {
            self.filled.notify_one();
        }
        if taken == 0 && inside.closed { Drained::Closed } else { Drained::Work }
    }

    fn lock(&self) -> MutexGuard<'_, Inside<T>> {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_comes_out_in_order_and_a_closed_stage_is_drained_first() {
        let stage = WorkQueue::default();
        stage.append(&mut vec![1, 2, 3]);
        stage.push(4);
        stage.close();
        let mut got = Vec::new();
        assert_eq!(stage.drain(&mut got, 3, Duration::ZERO), Drained::Work);
        assert_eq!((got.as_slice(), stage.len()), ([1, 2, 3].as_slice(), 1));
        assert_eq!(stage.drain(&mut got, 3, Duration::ZERO), Drained::Work);
        assert_eq!(stage.drain(&mut got, 3, Duration::MAX), Drained::Closed);
        assert_eq!(got, [1, 2, 3, 4]);
    }

    #[test]
    fn a_nudge_ends_one_wait() {
        let stage = WorkQueue::<u8>::default();
        stage.nudge();
        assert_eq!(stage.drain(&mut Vec::new(), 1, Duration::MAX), Drained::Work);
    }
}
