//! What only the ledger can answer (the audit, the order feed), read on a thread of its own: it blocks on the disk or
//! on a server, and an audit reads everything.
//!
//! One at a time, few waiting; with more, the client is asked to come again. Must not: change anything, or know what
//! is read.

use std::fmt;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use super::HttpService;
use super::wire::answer::Answering;
use super::wire::error::Problem;
use crate::ledger::{OpenError, Source};
use crate::net::{Ticket, Waker};

/// Reads that wait at one time.
const WAITING_MAX: usize = 16;

/// Reads the ledger, on the thread that may block.
pub(super) type LedgerRead = Box<dyn FnOnce(&Source) -> Result<ShowRead, OpenError> + Send>;

/// Writes the answer from what was read, on the event loop.
pub(super) struct ShowRead(Box<WriteRead>);

type WriteRead = dyn FnOnce(&mut HttpService, &mut Answering<'_, '_>) -> Result<(), Problem> + Send;

impl ShowRead {
    pub(super) fn new(
        write: impl FnOnce(&mut HttpService, &mut Answering<'_, '_>) -> Result<(), Problem> + Send + 'static,
    ) -> ShowRead {
        ShowRead(Box::new(write))
    }

    pub(super) fn write(self, service: &mut HttpService, out: &mut Answering<'_, '_>) -> Result<(), Problem> {
        (self.0)(service, out)
    }
}

impl fmt::Debug for ShowRead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ShowRead")
    }
}

/// A read that waits for the thread.
struct WaitingRead {
    event_loop: usize,
    ticket: Ticket,
    /// The route that asks, for the log.
    route: &'static str,
    read: LedgerRead,
}

#[derive(Debug)]
struct LoopReads {
    waker: Waker,
    read: Mutex<Vec<(Ticket, ShowRead)>>,
}

/// Where a thread beside the event loops leaves its answers, and each loop takes its own.
#[derive(Clone, Debug)]
pub(super) struct Answers(Arc<[LoopReads]>);

impl Answers {
    pub(super) fn give(&self, event_loop: usize, ticket: Ticket, answer: ShowRead) {
        let of_loop = &self.0[event_loop];
        of_loop.read.lock().unwrap_or_else(PoisonError::into_inner).push((ticket, answer));
        of_loop.waker.wake();
    }
}

/// The reading thread, as the event loops see it. It ends when this is dropped.
pub struct Reads {
    waiting: Option<SyncSender<WaitingRead>>,
    answers: Answers,
    thread: Option<JoinHandle<()>>,
}

impl fmt::Debug for Reads {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reads").field("answers", &self.answers).finish_non_exhaustive()
    }
}

impl Reads {
    /// Starts the thread; `wakers` are those of the event loops, in order.
    pub fn start(ledger: Source, wakers: Vec<Waker>) -> Reads {
        let of_loop = |waker| LoopReads { waker, read: Mutex::default() };
        let answers = Answers(wakers.into_iter().map(of_loop).collect());
        let (sender, waiting) = sync_channel(WAITING_MAX);
        let given = answers.clone();
        let thread = std::thread::Builder::new()
            .name("ledger-reads".to_owned())
            .spawn(move || read_all(&ledger, &waiting, &given))
            .expect("the system starts a thread while the server starts");
        Reads { waiting: Some(sender), answers, thread: Some(thread) }
    }

    /// For another thread that answers what the loops need not.
    pub(super) fn answers(&self) -> Answers {
        self.answers.clone()
    }

    /// Hands a read over; false: too many wait.
    pub(super) fn ask(
        &self,
        event_loop: usize,
        ticket: Ticket,
        route: &'static str,
        read: LedgerRead,
    ) -> bool {
        let waiting = self.waiting.as_ref().expect("it is there until this is dropped");
        match waiting.try_send(WaitingRead { event_loop, ticket, route, read }) {
            Ok(()) => true,
            Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => false,
        }
    }

    /// Takes what was answered for this loop, by this thread or another, into the empty `into`.
    pub(super) fn take(&self, event_loop: usize, into: &mut Vec<(Ticket, ShowRead)>) {
        debug_assert!(into.is_empty(), "what was read last was delivered");
        let mut read = self.answers.0[event_loop].read.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::swap(&mut *read, into);
    }
}

impl Drop for Reads {
    fn drop(&mut self) {
        // Without a sender the thread ends after what it is reading.
        self.waiting = None;
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the thread that reads the ledger panicked");
        }
    }
}

/// A connection per read: they are rare, and a kept one would hold a place in the WAL's index.
fn read_all(ledger: &Source, waiting: &Receiver<WaitingRead>, answers: &Answers) {
    while let Ok(WaitingRead { event_loop, ticket, route, read }) = waiting.recv() {
        let read = read(ledger).unwrap_or_else(|error| {
            tracing::warn!(%error, route, "the ledger could not be read");
            ShowRead::new(move |_, _| Err(Problem::ledger_unreadable(&error)))
        });
        answers.give(event_loop, ticket, read);
    }
}
