//! What only the ledger or the history can answer (the audit, the order feed), read on threads of their own: it blocks on the
//! disk or on a server, and an audit reads everything.
//!
//! In lanes, so that what takes long keeps nobody from what does not. In each one at a time, and so many waiting; with more, the
//! client is asked to come again. A read may wait for the ledger's next entry. Must not: change anything, or know what is read.

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
use crate::figures::ExportPage;
use crate::intake::Request;
use crate::ledger::{EventReader, OpenError, Source};
use crate::net::{Stop, Ticket, Waker};

/// Which reads wait for each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lane {
    /// Of a few rows each.
    Looks,
    /// Of the figures of up to a year, without the ledger: a tenth of a second each.
    Histories,
    /// Of the whole ledger.
    Audits,
}

impl Lane {
    const ALL: [Lane; 3] = [Lane::Looks, Lane::Histories, Lane::Audits];

    fn thread_name(self) -> &'static str {
        match self {
            Lane::Looks => "ledger-reads",
            Lane::Histories => "history-reads",
            Lane::Audits => "ledger-audits",
        }
    }

    /// Reads that wait for its thread at one time: all consoles may be opened at once, and nobody waits for many audits.
    pub(super) const fn waiting_max(self) -> usize {
        match self {
            Lane::Looks | Lane::Histories => 512,
            Lane::Audits => 32,
        }
    }
}

/// Reads that wait for an entry at one time; with more, the one that has waited longest is answered as it stands.
const FOR_NEWS_MAX: usize = 16;
/// Between two looks whether there is one.
const NEWS_INTERVAL: Duration = Duration::from_millis(100);

/// Reads the ledger, on a thread that may block.
pub(super) struct LedgerRead {
    lane: Lane,
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
        LedgerRead { lane: Lane::Looks, read: Box::new(read), news: None }
    }

    pub(super) fn on(self, lane: Lane) -> LedgerRead {
        LedgerRead { lane, ..self }
    }

    /// While the ledger ends with this entry, the read waits.
    pub(super) fn once_there_is_more(self, after: u64, wait: Duration) -> LedgerRead {
        LedgerRead { news: Some(News { after, until: Instant::now() + wait }), ..self }
    }
}

/// Writes the answer from what was read, on the event loop, or goes on from there.
pub(super) struct ShowRead(AfterRead);

pub(super) enum AfterRead {
    Write(Box<WriteRead>),
    /// The profile is asked, and answers.
    Ask(Box<Request>, Waiting),
    /// Of an export that was begun; `None`: it can't go on.
    Page(Option<ExportPage>),
}

type WriteRead = dyn FnOnce(&mut HttpService, &mut Answering<'_, '_>) -> Result<(), Problem> + Send;

impl ShowRead {
    pub(super) fn new(
        write: impl FnOnce(&mut HttpService, &mut Answering<'_, '_>) -> Result<(), Problem> + Send + 'static,
    ) -> ShowRead {
        ShowRead(AfterRead::Write(Box::new(write)))
    }

    pub(super) fn ask(request: Request, waiting: Waiting) -> ShowRead {
        ShowRead(AfterRead::Ask(Box::new(request), waiting))
    }

    pub(super) fn page(page: Option<ExportPage>) -> ShowRead {
        ShowRead(AfterRead::Page(page))
    }

    pub(super) fn next(self) -> AfterRead {
        self.0
    }
}

impl fmt::Debug for ShowRead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ShowRead")
    }
}

/// A read that waits for its lane's thread.
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

/// The reading threads, as the event loops see them. They end when this is dropped.
pub struct Reads {
    /// In the order of [`Lane::ALL`].
    waiting: Vec<SyncSender<WaitingRead>>,
    answers: Answers,
    threads: Vec<JoinHandle<()>>,
}

impl fmt::Debug for Reads {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reads").field("answers", &self.answers).finish_non_exhaustive()
    }
}

impl Reads {
    /// Starts the threads; `wakers` are those of the event loops, in order.
    pub fn start(ledger: Source, wakers: Vec<Waker>, stop: Stop) -> Reads {
        let of_loop = |waker| LoopReads { waker, read: Mutex::default() };
        let answers = Answers(wakers.into_iter().map(of_loop).collect());
        let ledger = Arc::new(ledger);
        let start = |lane: Lane| {
            let (sender, waiting) = sync_channel(lane.waiting_max());
            let (ledger, given, stop) = (Arc::clone(&ledger), answers.clone(), stop.clone());
            let thread = std::thread::Builder::new()
                .name(lane.thread_name().to_owned())
                .spawn(move || read_all(&ledger, &waiting, &given, &stop))
                .expect("the system starts a thread while the server starts");
            (sender, thread)
        };
        let (waiting, threads) = Lane::ALL.into_iter().map(start).unzip();
        Reads { waiting, answers, threads }
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
        match self.waiting[read.lane as usize].try_send(WaitingRead { event_loop, ticket, route, read }) {
            Ok(()) => true,
            Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => false,
        }
    }

    /// Takes what was answered for this loop, by these threads or another, into the empty `into`.
    pub(super) fn take(&self, event_loop: usize, into: &mut Vec<(Ticket, ShowRead)>) {
        debug_assert!(into.is_empty(), "what was read last was delivered");
        let mut read = self.answers.0[event_loop].read.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::swap(&mut *read, into);
    }
}

impl Drop for Reads {
    fn drop(&mut self) {
        // Without a sender each thread ends after what it is reading.
        self.waiting.clear();
        for thread in self.threads.drain(..) {
            if thread.join().is_err() {
                tracing::error!("a thread that reads the ledger panicked");
            }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::{EventLoop, Limits};

    const PATIENCE: Duration = Duration::from_secs(60);

    fn reads(dir: &tempfile::TempDir) -> Reads {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let waker = EventLoop::new(listener, Limits::default(), None).unwrap().waker();
        Reads::start(Source::Directory(dir.path().to_owned()), vec![waker], Stop::new())
    }

    fn nothing() -> ShowRead {
        ShowRead::new(|_, _| Ok(()))
    }

    fn ask(reads: &Reads, generation: u32, read: LedgerRead) -> bool {
        reads.ask(0, Ticket { connection: 1, generation }, "/a/route", read)
    }

    /// The generations of so many answers.
    fn answered(reads: &Reads, count: usize) -> Vec<u32> {
        let (begun, mut answered, mut read) = (Instant::now(), Vec::new(), Vec::new());
        while answered.len() < count {
            assert!(begun.elapsed() < PATIENCE, "{answered:?}");
            reads.take(0, &mut read);
            answered.extend(read.drain(..).map(|(ticket, _)| ticket.generation));
            std::thread::yield_now();
        }
        answered
    }

    /// A long audit kept everybody from everything else.
    #[test]
    fn what_takes_long_keeps_only_its_own_lane_waiting_and_each_lane_is_bounded() {
        let dir = tempfile::tempdir().unwrap();
        let reads = reads(&dir);
        for long in Lane::ALL {
            let (go_on, gate) = sync_channel::<()>(0);
            let (begun, has_begun) = sync_channel(1);
            let blocks = LedgerRead::new(move |_| {
                begun.send(()).unwrap();
                gate.recv().unwrap_or(());
                Ok(nothing())
            });
            assert!(ask(&reads, 0, blocks.on(long)));
            has_begun.recv_timeout(PATIENCE).unwrap();
            for (number, other) in (1..).zip(Lane::ALL.into_iter().filter(|lane| *lane != long)) {
                assert!(ask(&reads, number, LedgerRead::new(|_| Ok(nothing())).on(other)));
                assert_eq!(answered(&reads, 1), [number], "{other:?} beside {long:?}");
            }
            let waiting = u32::try_from(long.waiting_max()).unwrap();
            for number in 0..waiting {
                assert!(
                    ask(&reads, number, LedgerRead::new(|_| Ok(nothing())).on(long)),
                    "{long:?} {number}"
                );
            }
            assert!(!ask(&reads, waiting, LedgerRead::new(|_| Ok(nothing())).on(long)), "{long:?}");
            drop(go_on);
            answered(&reads, long.waiting_max() + 1);
        }
    }
}
