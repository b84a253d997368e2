//! Between the event loops and the writer: commands one way, answers the other, both in batches.
//!
//! An event loop hands over what one poll round brought with one lock; the writer takes all that waits with
//! one lock, which is what makes the group of its commit. Answers wait per loop and wake it once per batch.
//! A place is reserved before a command is made, so the bound holds whatever clients do: one that hangs up and
//! comes again has more than one command waiting.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::{Drained, Envelope, Reply};
use crate::net::{Ticket, Waker};

#[derive(Debug, Default)]
struct Waiting {
    envelopes: Vec<Envelope>,
    stopping: bool,
}

#[derive(Debug)]
struct LoopReplies {
    waker: Waker,
    replies: Mutex<Vec<(Ticket, Reply)>>,
}

/// Shared by the event loops and the writer.
#[derive(Debug)]
pub struct Mailbox {
    waiting: Mutex<Waiting>,
    filled: Condvar,
    by_loop: Vec<LoopReplies>,
    /// Places taken: by commands that wait here, and by those that a loop is about to submit.
    reserved: AtomicUsize,
    /// The ledger takes no writes at the moment.
    read_only: AtomicBool,
    commands_max: usize,
}

/// What an event loop uses of the mailbox.
#[derive(Clone, Debug)]
pub struct Client {
    mailbox: Arc<Mailbox>,
    event_loop: usize,
}

impl Mailbox {
    /// Replies are kept per event loop, which is woken by its waker; at most `commands_max` commands wait.
    pub fn new(wakers: Vec<Waker>, commands_max: usize) -> Arc<Mailbox> {
        let of_loop = |waker| LoopReplies { waker, replies: Mutex::default() };
        Arc::new(Mailbox {
            waiting: Mutex::default(),
            filled: Condvar::new(),
            by_loop: wakers.into_iter().map(of_loop).collect(),
            reserved: AtomicUsize::new(0),
            read_only: AtomicBool::new(false),
            commands_max,
        })
    }

    pub fn client(self: &Arc<Mailbox>, event_loop: usize) -> Client {
        Client { mailbox: Arc::clone(self), event_loop }
    }

    /// The event loops have ended: the writer finishes what waits and stops.
    pub fn close(&self) {
        self.lock().stopping = true;
        self.filled.notify_one();
    }

    /// Takes at most `max` commands, oldest first, into the empty `into`; waits at most `patience` for the first.
    pub(crate) fn drain(&self, into: &mut Vec<Envelope>, max: usize, patience: Duration) -> Drained {
        debug_assert!(into.is_empty(), "the last batch was answered");
        let waiting = self.lock();
        let (mut waiting, _) = self
            .filled
            .wait_timeout_while(waiting, patience, |waiting| {
                waiting.envelopes.is_empty() && !waiting.stopping
            })
            .unwrap_or_else(PoisonError::into_inner);
        if waiting.envelopes.len() <= max {
            std::mem::swap(&mut waiting.envelopes, into);
        } else {
            into.extend(waiting.envelopes.drain(..max));
        }
        self.reserved.fetch_sub(into.len(), Ordering::Relaxed);
        if into.is_empty() && waiting.stopping { Drained::Closed } else { Drained::Work }
    }

    /// Hands a loop its answers, in the order given, and wakes it. `replies` is left empty.
    pub(crate) fn answer(&self, event_loop: usize, replies: &mut Vec<(Ticket, Reply)>) {
        if replies.is_empty() {
            return;
        }
        let of_loop = &self.by_loop[event_loop];
        of_loop.replies.lock().unwrap_or_else(PoisonError::into_inner).append(replies);
        of_loop.waker.wake();
    }

    pub(crate) fn set_read_only(&self, read_only: bool) {
        self.read_only.store(read_only, Ordering::Release);
    }

    pub(crate) fn event_loops(&self) -> usize {
        self.by_loop.len()
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Client {
    /// This loop's number, for [`Envelope::event_loop`].
    pub fn event_loop(&self) -> usize {
        self.event_loop
    }

    /// Whether the ledger takes no writes at the moment: the server answers reads and known keys only.
    pub fn read_only(&self) -> bool {
        self.mailbox.read_only.load(Ordering::Acquire)
    }

    /// Takes a place for one command; `false`: the mailbox is full, refuse the request.
    #[must_use]
    pub fn reserve(&self) -> bool {
        let reserved = &self.mailbox.reserved;
        let room = reserved.fetch_add(1, Ordering::Relaxed) < self.mailbox.commands_max;
        if !room {
            reserved.fetch_sub(1, Ordering::Relaxed);
        }
        room
    }

    /// Hands over all that one poll round brought, each with a place reserved; `batch` is left empty.
    pub fn submit(&self, batch: &mut Vec<Envelope>) {
        if batch.is_empty() {
            return;
        }
        let mut waiting = self.mailbox.lock();
        let idle = waiting.envelopes.is_empty();
        waiting.envelopes.append(batch);
        drop(waiting);
        if idle {
            self.mailbox.filled.notify_one();
        }
    }

    /// Takes the answers that are ready for this loop into the empty `into`.
    pub fn take(&self, into: &mut Vec<(Ticket, Reply)>) {
        debug_assert!(into.is_empty(), "the last answers were delivered");
        let mut replies =
            self.mailbox.by_loop[self.event_loop].replies.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::swap(&mut *replies, into);
    }
}
