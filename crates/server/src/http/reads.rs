//! What only the ledger can answer (the audit, the order feed), read on a thread of its own: it blocks on the disk or
//! on a server, and an audit reads everything.
//!
//! One at a time, few waiting; with more, the client is asked to come again. A read may wait for the ledger's next entry.
//! Must not: change anything, or know what is read.

use std::collections::VecDeque;
use std::fmt;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::HttpService;
use super::pending::Waiting;
use super::wire::answer::Answering;
use super::wire::error::Problem;
use crate::intake::Request;
use crate::ledger::{EventReader, OpenError, Source};
use crate::net::{Stop, Ticket, Waker};

/// Reads that wait for the thread at one time.
const WAITING_MAX: usize = 32;
/// Reads that wait for an entry at one time; with more, the one that has waited longest is answered as it stands.
const FOR_NEWS_MAX: usize = 16;
/// Between two looks whether there is one.
const NEWS_INTERVAL: Duration = Duration::from_millis(100);

/// Reads the ledger, on the thread that may block.
pub(super) struct LedgerRead {
    read: Box<Read>,
    news: Option<News>,
}

type Read = dyn FnOnce(&Source) -> Result<ShowRead, OpenError> + Send;

/// An entry after this one is waited for.
struct News {
    after: u64,
    until: Instant,
}

impl LedgerRead {
    pub(super) fn new(
        read: impl FnOnce(&Source) -> Result<ShowRead, OpenError> + Send + 'static,
    ) -> LedgerRead {
        LedgerRead { read: Box::new(read), news: None }
    }

    /// While the ledger ends with this entry, the read waits.
    pub(super) fn once_there_is_more(self, after: u64, wait: Duration) -> LedgerRead {
        LedgerRead { news: Some(News { after, until: Instant::now() + wait }), ..self }
    }
}

/// Writes the answer from what was read, on the event loop, or goes on from there.
pub(super) struct ShowRead(Next);

pub(super) enum Next {
    Write(Box<WriteRead>),
    /// The profile is asked, and answers.
    Ask(Box<Request>, Waiting),
}

type WriteRead = dyn FnOnce(&mut HttpService, &mut Answering<'_, '_>) -> Result<(), Problem> + Send;

impl ShowRead {
    pub(super) fn new(
        write: impl FnOnce(&mut HttpService, &mut Answering<'_, '_>) -> Result<(), Problem> + Send + 'static,
    ) -> ShowRead {
        ShowRead(Next::Write(Box::new(write)))
    }

    pub(super) fn ask(request: Request, waiting: Waiting) -> ShowRead {
        ShowRead(Next::Ask(Box::new(request), waiting))
    }

    pub(super) fn next(self) -> Next {
        self.0
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
    pub fn start(ledger: Source, wakers: Vec<Waker>, stop: Stop) -> Reads {
        let of_loop = |waker| LoopReads { waker, read: Mutex::default() };
        let answers = Answers(wakers.into_iter().map(of_loop).collect());
        let (sender, waiting) = sync_channel(WAITING_MAX);
        let given = answers.clone();
        let thread = std::thread::Builder::new()
            .name("ledger-reads".to_owned())
            .spawn(move || read_all(&ledger, &waiting, &given, &stop))
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

fn read_all(ledger: &Source, waiting: &Receiver<WaitingRead>, answers: &Answers, stop: &Stop) {
    let mut asked: VecDeque<WaitingRead> = VecDeque::new();
    let mut end = LedgersEnd { ledger, reader: None };
    loop {
        let next = if asked.is_empty() {
            waiting.recv().map_err(|_ended| RecvTimeoutError::Disconnected)
        } else {
            waiting.recv_timeout(NEWS_INTERVAL)
        };
        match next {
            Ok(read) => {
                asked.push_back(read);
                asked.extend(waiting.try_iter());
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        let last = asked.iter().any(|asked| asked.read.news.is_some()).then(|| end.last()).flatten();
        let now = Instant::now();
        for _ in 0..asked.len() {
            let Some(read) = asked.pop_front() else { break };
            let waits = |news: &News| last == Some(news.after) && now < news.until && !stop.is_requested();
            // Those before it have been put back at the end.
            let is_oldest_of_too_many = asked.len() >= FOR_NEWS_MAX;
            if read.read.news.as_ref().is_some_and(waits) && !is_oldest_of_too_many {
                asked.push_back(read);
            } else {
                answer(ledger, read, answers);
            }
        }
        if asked.is_empty() {
            end.reader = None;
        }
    }
}

/// A connection per read: they are rare, and a kept one would hold a place in the WAL's index.
fn answer(ledger: &Source, asked: WaitingRead, answers: &Answers) {
    let WaitingRead { event_loop, ticket, route, read } = asked;
    let read = (read.read)(ledger).unwrap_or_else(|error| {
        tracing::warn!(%error, route, "the ledger could not be read");
        ShowRead::new(move |_, _| Err(Problem::ledger_unreadable(&error)))
    });
    answers.give(event_loop, ticket, read);
}

/// The ledger's latest entry, by a connection that is kept while a read waits for the next one.
struct LedgersEnd<'a> {
    ledger: &'a Source,
    reader: Option<EventReader>,
}

impl LedgersEnd<'_> {
    /// `None`: it could not be read.
    fn last(&mut self) -> Option<u64> {
        if self.reader.is_none() {
            self.reader = self.ledger.event_reader().ok();
        }
        let last = self.reader.as_mut()?.last();
        last.inspect_err(|_| self.reader = None).ok()
    }
}
