//! Questions that only the ledger can answer (the audit, the order feed), answered on a thread of its own: they
//! block on the disk or on a server, and an audit reads everything.
//!
//! One question at a time, few waiting; one more is told to come again. Must not: change anything.

use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use crate::ledger::{Audit, Changes, OpenError, Source, mysql, sqlite};
use crate::net::{Ticket, Waker};

/// Questions that wait at one time.
const WAITING_MAX: usize = 16;

/// What can be asked of the ledger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Question {
    Audit,
    Feed { since: u64, entries_max: u64 },
}

/// What the ledger says.
#[derive(Debug)]
pub(super) enum Found {
    Audit(Audit),
    Feed(Changes),
    /// The cursor is not this ledger's; the text says what to do.
    CursorAhead(String),
    /// It could not be read; the text says why.
    Failed(String),
}

#[derive(Debug)]
struct Asked {
    event_loop: usize,
    ticket: Ticket,
    question: Question,
}

#[derive(Debug)]
struct Outbox {
    waker: Waker,
    found: Mutex<Vec<(Ticket, Found)>>,
}

/// The reading thread, as the event loops see it. It ends when this is dropped.
#[derive(Debug)]
pub struct Reads {
    questions: Option<SyncSender<Asked>>,
    outboxes: Arc<[Outbox]>,
    thread: Option<JoinHandle<()>>,
}

impl Reads {
    /// Starts the thread; `wakers` are those of the event loops, in order.
    pub fn start(ledger: Source, wakers: Vec<Waker>) -> Reads {
        let outbox = |waker| Outbox { waker, found: Mutex::default() };
        let outboxes: Arc<[Outbox]> = wakers.into_iter().map(outbox).collect();
        let (questions, asked) = sync_channel(WAITING_MAX);
        let answers = Arc::clone(&outboxes);
        let thread = std::thread::Builder::new()
            .name("ledger-reads".to_owned())
            .spawn(move || answer_all(&ledger, &asked, &answers))
            .expect("the system starts a thread while the server starts");
        Reads { questions: Some(questions), outboxes, thread: Some(thread) }
    }

    /// Hands a question over; false: too many wait.
    pub(super) fn ask(&self, event_loop: usize, ticket: Ticket, question: Question) -> bool {
        let questions = self.questions.as_ref().expect("it is there until this is dropped");
        match questions.try_send(Asked { event_loop, ticket, question }) {
            Ok(()) => true,
            Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => false,
        }
    }

    /// Takes what was found for this loop into the empty `into`.
    pub(super) fn take(&self, event_loop: usize, into: &mut Vec<(Ticket, Found)>) {
        debug_assert!(into.is_empty(), "what was found last was delivered");
        let mut found = self.outboxes[event_loop].found.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::swap(&mut *found, into);
    }
}

impl Drop for Reads {
    fn drop(&mut self) {
        // Without a sender the thread ends after the question that it is at.
        self.questions = None;
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the thread that reads the ledger panicked");
        }
    }
}

fn answer_all(ledger: &Source, asked: &Receiver<Asked>, outboxes: &[Outbox]) {
    while let Ok(Asked { event_loop, ticket, question }) = asked.recv() {
        let found = find(ledger, question).unwrap_or_else(|error| {
            tracing::warn!(%error, ?question, "the ledger could not be read");
            Found::Failed(error.to_string())
        });
        let outbox = &outboxes[event_loop];
        outbox.found.lock().unwrap_or_else(PoisonError::into_inner).push((ticket, found));
        outbox.waker.wake();
    }
}

/// A connection per question: they are rare, and a kept one would hold a place in the WAL's index.
fn find(ledger: &Source, question: Question) -> Result<Found, OpenError> {
    match question {
        Question::Audit => ledger.audit().map(Found::Audit),
        Question::Feed { since, entries_max } => match ledger.changes(since, entries_max) {
            Err(
                ahead @ (OpenError::Sqlite(sqlite::OpenError::CursorAhead { .. })
                | OpenError::MySql(mysql::OpenError::CursorAhead { .. })),
            ) => Ok(Found::CursorAhead(ahead.to_string())),
            found => found.map(Found::Feed),
        },
    }
}
