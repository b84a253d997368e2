//! Between the event loops and the profile: commands one way, answers the other, both in batches.
//!
//! An event loop hands over what one poll round brought with one lock; the profile takes all that waits with
//! one lock, which is what makes a batch. Answers wait per loop and wake it once per batch.
//! A place is reserved before a command is made, so the bound holds whatever clients do: one that hangs up and
//! comes again has more than one command waiting.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::{Drained, Envelope, Reply, Request};
use crate::net::{Ticket, Waker};
use crate::time::Condvar;

#[derive(Debug, Default)]
struct Waiting {
    envelopes: Vec<Envelope>,
    stopping: bool,
}

#[derive(Debug)]
struct LoopReplies {
    /// `None`: of the threads beside the event loops, which wait for theirs.
    waker: Option<Waker>,
    replies: Mutex<Vec<(Ticket, Reply)>>,
}

/// Shared by the event loops and the profile.
#[derive(Debug)]
pub struct Mailbox {
    waiting: Mutex<Waiting>,
    filled: Condvar,
    /// Those of the event loops, and one more for all other threads that ask.
    by_loop: Vec<LoopReplies>,
    answered: Condvar,
    asked: AtomicU32,
    /// Whose answers are still waited for.
    asking: Mutex<BTreeSet<u32>>,
    /// Places taken: by commands that wait here, and by those that a loop is about to submit.
    reserved: AtomicUsize,
    /// The ledger takes no writes at the moment.
    read_only: AtomicBool,
    commands_max: usize,
}

/// What an event loop uses of the mailbox.
#[derive(Clone, Debug)]
pub struct MailboxClient {
    mailbox: Arc<Mailbox>,
    event_loop: usize,
}

impl Mailbox {
    /// Replies are kept per event loop, which is woken by its waker; at most `commands_max` commands wait.
    pub fn new(wakers: Vec<Waker>, commands_max: usize) -> Arc<Mailbox> {
        let of_loop = |waker| LoopReplies { waker, replies: Mutex::default() };
        let wakers = wakers.into_iter().map(Some).chain([None]);
        Arc::new(Mailbox {
            waiting: Mutex::default(),
            filled: Condvar::default(),
            by_loop: wakers.map(of_loop).collect(),
            answered: Condvar::default(),
            asked: AtomicU32::new(0),
            asking: Mutex::default(),
            reserved: AtomicUsize::new(0),
            read_only: AtomicBool::new(false),
            commands_max,
        })
    }

    pub fn client(self: &Arc<Mailbox>, event_loop: usize) -> MailboxClient {
        MailboxClient { mailbox: Arc::clone(self), event_loop }
    }

    /// For threads beside the event loops.
    pub fn asker(self: &Arc<Mailbox>) -> Asker {
        Asker(self.client(self.by_loop.len() - 1))
    }

    /// The event loops have ended: the profile finishes what waits and stops.
    pub fn close(&self) {
        self.lock().stopping = true;
        self.filled.notify_one();
    }

    /// Takes at most `max` commands, oldest first, into the empty `into`; waits at most `patience` for the first.
    pub(crate) fn drain(&self, into: &mut Vec<Envelope>, max: usize, patience: Duration) -> Drained {
        debug_assert!(into.is_empty(), "the last batch was answered");
        let mut waiting = self
            .filled
            .wait_while(&self.waiting, patience, |waiting| waiting.envelopes.is_empty() && !waiting.stopping);
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
        let mut given = of_loop.replies.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(waker) = &of_loop.waker {
            append(&mut given, replies);
            drop(given);
            return waker.wake();
        }
        let asking = self.asking.lock().unwrap_or_else(PoisonError::into_inner);
        given.extend(replies.drain(..).filter(|(ticket, _)| asking.contains(&ticket.connection)));
        self.answered.notify_all();
    }

    pub(crate) fn set_read_only(&self, read_only: bool) {
        self.read_only.store(read_only, Ordering::Release);
    }

    /// Among whom the answers are distributed.
    pub(crate) fn event_loops(&self) -> usize {
        self.by_loop.len()
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a thread beside the event loops uses of the mailbox: it may wait for its answers.
#[derive(Clone, Debug)]
pub struct Asker(MailboxClient);

impl Asker {
    /// Asks, and waits at most so long for the answer. What is not answered then may have been carried out or not.
    pub fn ask(&self, request: Request, patience: Duration) -> Reply {
        let Asker(client) = self;
        if !client.reserve() {
            return Reply::Unavailable;
        }
        let mailbox = &client.mailbox;
        let asking = || mailbox.asking.lock().unwrap_or_else(PoisonError::into_inner);
        let number = mailbox.asked.fetch_add(1, Ordering::Relaxed);
        asking().insert(number);
        let ticket = Ticket { connection: number, generation: 0 };
        client.submit(&mut vec![Envelope { event_loop: client.event_loop, ticket, request }]);
        let mine = |replies: &[(Ticket, Reply)]| replies.iter().position(|(of, _)| of.connection == number);
        let replies = &mailbox.by_loop[client.event_loop].replies;
        let mut replies = mailbox.answered.wait_while(replies, patience, |replies| mine(replies).is_none());
        // While the answers are locked: a late one finds that nobody waits for it.
        asking().remove(&number);
        mine(&replies).map_or(Reply::Unknown, |place| replies.swap_remove(place).1)
    }
}

impl MailboxClient {
    /// This loop's number, for [`Envelope::event_loop`].
    pub fn event_loop(&self) -> usize {
        self.event_loop
    }

    /// Whether the ledger takes no writes at the moment: the server answers reads and known keys only.
    pub fn read_only(&self) -> bool {
        self.mailbox.read_only.load(Ordering::Acquire)
    }

    /// Commands that wait or are being carried out, and for how many there is room.
    pub fn places(&self) -> (usize, usize) {
        (self.mailbox.reserved.load(Ordering::Relaxed), self.mailbox.commands_max)
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
        append(&mut waiting.envelopes, batch);
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

/// As [`Vec::append`], but nothing is moved where nothing waits, which is nearly always.
fn append<T>(waiting: &mut Vec<T>, more: &mut Vec<T>) {
    if waiting.is_empty() {
        std::mem::swap(waiting, more);
    } else {
        waiting.append(more);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_while_something_waits_is_behind_it() {
        let mut waiting = Vec::new();
        for number in [1, 3, 5] {
            let mut more = vec![number, number + 1];
            append(&mut waiting, &mut more);
            assert!(more.is_empty());
        }
        assert_eq!(waiting, [1, 2, 3, 4, 5, 6]);
    }

    #[test]
    fn a_thread_waits_for_its_own_answer_and_a_late_one_is_dropped() {
        let mailbox = Mailbox::new(Vec::new(), 2);
        let asker = mailbox.asker();
        assert!(matches!(asker.ask(Request::RefundsDue, Duration::ZERO), Reply::Unknown));
        let mut asked = Vec::new();
        mailbox.drain(&mut asked, 10, Duration::ZERO);
        let late = asked.pop().expect("it was asked");
        mailbox.answer(late.event_loop, &mut vec![(late.ticket, Reply::Stored)]);
        assert!(mailbox.by_loop[0].replies.lock().unwrap().is_empty());
        std::thread::scope(|scope| {
            let ask = || asker.ask(Request::RefundsDue, Duration::from_secs(600));
            let waiting = [scope.spawn(ask), scope.spawn(ask)];
            while asked.len() < 2 {
                let mut more = Vec::new();
                mailbox.drain(&mut more, 10, Duration::from_secs(600));
                asked.extend(more);
            }
            assert!(
                matches!(asker.ask(Request::RefundsDue, Duration::ZERO), Reply::Unknown),
                "there is room"
            );
            let mut replies = asked.drain(..).map(|of| (of.ticket, Reply::Stored)).collect();
            mailbox.answer(0, &mut replies);
            assert!(waiting.into_iter().all(|waiting| matches!(waiting.join(), Ok(Reply::Stored))));
        });
        assert!(mailbox.asking.lock().unwrap().is_empty());
        // The one that nobody took yet has its place still, and with another there is no room.
        assert!(matches!(asker.ask(Request::RefundsDue, Duration::ZERO), Reply::Unknown));
        assert!(matches!(asker.ask(Request::RefundsDue, Duration::ZERO), Reply::Unavailable));
    }
}
