//! The HTTP driver: one thread, one epoll instance, many connections.
//!
//! It costs two system calls per request (one read, one write; sockets are registered once, edge-triggered), copies
//! no request and usually no answer, so that on a machine shared with the target the target gets the processor.
//! It must not judge answers (a [`Workload`] does) nor decide when to send (a [`Schedule`] does).

mod connection;
pub mod once;
pub(crate) mod response;

use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use mio::event::Event;
use mio::{Events, Poll, Token};

use self::connection::{Connection, Received, State};
use crate::record::{Clocks, Outcome, Record};
use crate::schedule::{Next, Pace, Schedule};

/// One read takes a whole answer in the usual case.
const READ_BYTES: usize = 64 << 10;
const EVENTS_MAX: usize = 1024;
/// How often time limits are looked at, and the longest sleep, so that a stop is seen soon.
const SWEEP: Duration = Duration::from_millis(50);
/// epoll counts in milliseconds. Below that an open loop sleeps in steps of this, and so sends, and notices
/// answers, at most about twice this late.
const NAP: Duration = Duration::from_micros(50);
/// Connections are opened so many at a time, with a pause in between, before a run: many servers keep a queue of
/// only 128 to accept from, and each connection that overflows it costs a second.
const CONNECT_BURST: usize = 32;
const CONNECT_PAUSE: Duration = Duration::from_millis(2);
/// After this many answer timeouts without one whole answer the target is given up: what the schedule still has is
/// counted as unsent, instead of being tried for hours.
const SILENCE: u32 = 2;
/// A connection that was refused tries again after this, instead of spinning.
const REST: Duration = Duration::from_millis(100);

/// What is asked, and what the answers mean.
pub trait Workload {
    /// The bytes of the next request, its head complete with its `Content-Length`.
    fn request(&mut self) -> &[u8];
    /// The meaning of one whole answer.
    fn judge(&mut self, status: u16, body: &[u8]) -> Outcome;
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reuse {
    KeepAlive,
    /// A new connection for each request, closed after its answer.
    PerRequest,
}

#[derive(Debug, Clone)]
pub struct Settings {
    /// Connections are spread over these in turn.
    pub addresses: Vec<SocketAddr>,
    pub connections: usize,
    pub reuse: Reuse,
    /// A request without an answer after this is given up: its outcome is unknown.
    pub answer_timeout: Duration,
}

impl Settings {
    pub fn keep_alive(address: SocketAddr, connections: usize) -> Self {
        Self::spread(vec![address], connections)
    }

    /// Kept-alive connections to several servers that stand for one another.
    pub fn spread(addresses: Vec<SocketAddr>, connections: usize) -> Self {
        Self { addresses, connections, reuse: Reuse::KeepAlive, answer_timeout: Duration::from_secs(10) }
    }

    fn address(&self, connection: usize) -> SocketAddr {
        self.addresses[connection % self.addresses.len()]
    }
}

/// Why a run gave no record.
#[derive(Debug)]
pub enum RunError {
    /// The stop flag was raised.
    Stopped,
    Poll(io::Error),
}

impl std::fmt::Display for RunError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Stopped => f.write_str("stopped by a signal"),
            Self::Poll(_) => f.write_str("waiting for sockets failed"),
        }
    }
}

impl std::error::Error for RunError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Stopped => None,
            Self::Poll(error) => Some(error),
        }
    }
}

/// Connections to one address, or to some. Several runs may follow each other on them: a warm-up, then the measurement.
#[derive(Debug)]
pub struct Driver {
    settings: Settings,
    poll: Poll,
    connections: Vec<Connection>,
    /// Connections without a request, the longest idle first: an open loop uses all of them in turn.
    idle: VecDeque<usize>,
    /// Connections that were refused, and when they may try again; in order of that time.
    resting: VecDeque<(Instant, usize)>,
    buffer: Vec<u8>,
}

/// One run under way.
struct Run<'a, W> {
    pace: Pace,
    workload: &'a mut W,
    record: Record,
    in_flight: usize,
    started: Instant,
    /// When the last request was answered or given up.
    last_settled: Instant,
    /// When the last whole answer came.
    last_whole: Instant,
}

/// What the schedule says once no more can be issued.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ahead {
    Due(Instant),
    /// Requests may be due, but no connection is free.
    Saturated,
    Finished,
}

impl Driver {
    /// Opens all connections (with `Reuse::KeepAlive`).
    pub fn connect(settings: Settings) -> io::Result<Self> {
        assert!(settings.connections > 0 && !settings.addresses.is_empty(), "a driver needs a connection");
        let poll = Poll::new()?;
        let now = Instant::now();
        let mut connections: Vec<_> = (0..settings.connections).map(|_| Connection::closed(now)).collect();
        if settings.reuse == Reuse::KeepAlive {
            for (index, connection) in connections.iter_mut().enumerate() {
                connection.open(settings.address(index), poll.registry(), Token(index))?;
                if index % CONNECT_BURST == CONNECT_BURST - 1 {
                    std::thread::sleep(CONNECT_PAUSE);
                }
            }
        }
        let idle = (0..settings.connections).collect();
        Ok(Self { settings, poll, idle, resting: VecDeque::new(), connections, buffer: vec![0; READ_BYTES] })
    }

    /// Sends what the schedule wants and waits for every answer, each at most `answer_timeout`.
    pub fn run<W: Workload>(
        &mut self,
        schedule: Schedule,
        workload: &mut W,
        stop: &AtomicBool,
    ) -> Result<Record, RunError> {
        if stop.load(Ordering::Relaxed) {
            return Err(RunError::Stopped);
        }
        let started = Instant::now();
        let pace = Pace::start(schedule, started);
        let record = Record::default();
        let mut run =
            Run { pace, workload, record, in_flight: 0, started, last_settled: started, last_whole: started };
        let mut events = Events::with_capacity(EVENTS_MAX);
        let mut swept = started;
        loop {
            let now = Instant::now();
            if now.duration_since(swept) >= SWEEP {
                if stop.load(Ordering::Relaxed) {
                    return Err(RunError::Stopped);
                }
                self.sweep(now, &mut run);
                swept = now;
            }
            let silent = now.duration_since(run.last_whole) > self.settings.answer_timeout * SILENCE;
            let ahead = if silent { Ahead::Finished } else { self.dispatch(now, &mut run) };
            if run.in_flight == 0 && ahead == Ahead::Finished {
                run.record.unsent = run.pace.unissued(now);
                break;
            }
            self.wait(now, ahead, &mut events).map_err(RunError::Poll)?;
            for event in &events {
                self.handle(event, &mut run);
            }
        }
        run.record.elapsed = run.last_settled.duration_since(run.started);
        Ok(run.record)
    }

    /// Issues requests while any is due and a connection is free.
    fn dispatch<W: Workload>(&mut self, now: Instant, run: &mut Run<'_, W>) -> Ahead {
        while let Some(index) = self.idle.front().copied() {
            match run.pace.next(now) {
                Next::Send { planned } => {
                    self.idle.pop_front();
                    self.issue(index, planned, now, run);
                }
                Next::Wait { until } => return Ahead::Due(until),
                Next::Finished => return Ahead::Finished,
            }
        }
        Ahead::Saturated
    }

    fn issue<W: Workload>(&mut self, index: usize, planned: Instant, now: Instant, run: &mut Run<'_, W>) {
        let connection = &mut self.connections[index];
        connection.planned = planned;
        connection.sent = now;
        run.in_flight += 1;
        let request = run.workload.request();
        let sent = if connection.is_open() {
            connection.send(request)
        } else {
            run.record.reconnects += u64::from(self.settings.reuse == Reuse::KeepAlive);
            connection.begin(self.settings.address(index), self.poll.registry(), Token(index), request)
        };
        if let Err(error) = sent {
            self.lose(index, &error.to_string(), now, run);
        }
    }

    fn wait(&mut self, now: Instant, ahead: Ahead, events: &mut Events) -> io::Result<()> {
        let longest = match ahead {
            Ahead::Due(until) => until.saturating_duration_since(now).min(SWEEP),
            Ahead::Saturated | Ahead::Finished => SWEEP,
        };
        let whole_ms = Duration::from_millis(u64::from(longest.subsec_millis()));
        match self.poll.poll(events, Some(whole_ms)) {
            Err(error) if error.kind() == ErrorKind::Interrupted => events.clear(),
            result => result?,
        }
        if whole_ms.is_zero() && events.is_empty() {
            std::thread::sleep(longest.min(NAP));
        }
        Ok(())
    }

    fn handle<W: Workload>(&mut self, event: &Event, run: &mut Run<'_, W>) {
        let index = event.token().0;
        let connection = &mut self.connections[index];
        if connection.state == State::Connecting {
            match connection.finish_connecting() {
                Ok(true) => {}
                Ok(false) => return,
                Err(error) => return self.lose(index, &error.to_string(), Instant::now(), run),
            }
        }
        let connection = &mut self.connections[index];
        if connection.has_outgoing()
            && let Err(error) = connection.flush()
        {
            return self.lose(index, &error.to_string(), Instant::now(), run);
        }
        if event.is_readable() || event.is_read_closed() || event.is_error() {
            self.read(index, event.is_read_closed(), run);
        }
    }

    /// Reads until the socket is drained. A short read has drained it, unless the end of the stream came with it.
    fn read<W: Workload>(&mut self, index: usize, ending: bool, run: &mut Run<'_, W>) {
        let mut buffer = std::mem::take(&mut self.buffer);
        while self.connections[index].is_open() {
            match self.connections[index].read(&mut buffer) {
                Ok(0) => self.lose(index, "connection closed", Instant::now(), run),
                Ok(count) => {
                    self.receive(index, &buffer[..count], run);
                    if count < buffer.len() && !ending {
                        break;
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => self.lose(index, &error.to_string(), Instant::now(), run),
            }
        }
        self.buffer = buffer;
    }

    fn receive<W: Workload>(&mut self, index: usize, bytes: &[u8], run: &mut Run<'_, W>) {
        let connection = &mut self.connections[index];
        if connection.state != State::Asked {
            // Bytes that nobody asked for: the answer before them was not what its length said.
            run.record.stray_answers += 1;
            connection.close();
            return;
        }
        let Run { workload, record, .. } = run;
        let mut outcome = Outcome::Unknown;
        let received = connection.receive(bytes, |head, body| {
            outcome = workload.judge(head.status, body);
            match outcome {
                Outcome::Won | Outcome::Served => record.body(body.len()),
                Outcome::Failed | Outcome::Unknown => record.surprise(&head.status.to_string(), body),
                _ => {}
            }
        });
        match received {
            Received::Part => {}
            Received::Broken(malformed) => self.lose(index, malformed.0, Instant::now(), run),
            Received::Whole { keep_alive, stray } => {
                run.record.stray_answers += u64::from(stray);
                let reusable = keep_alive && !stray && !connection.has_outgoing();
                if !reusable || self.settings.reuse == Reuse::PerRequest {
                    connection.close();
                }
                let now = Instant::now();
                run.last_whole = now;
                self.settle(index, outcome, now, run);
                self.dispatch(now, run);
            }
        }
    }

    fn settle<W>(&mut self, index: usize, outcome: Outcome, now: Instant, run: &mut Run<'_, W>) {
        let connection = &mut self.connections[index];
        connection.state = State::Idle;
        let clocks = Clocks { planned: connection.planned, sent: connection.sent, answered: now };
        run.record.settle(outcome, clocks);
        run.in_flight -= 1;
        run.last_settled = now;
        self.idle.push_back(index);
    }

    /// The connection broke or its answer can't be read. Once a byte was sent the order may exist.
    fn lose<W>(&mut self, index: usize, why: &str, now: Instant, run: &mut Run<'_, W>) {
        let connection = &mut self.connections[index];
        let state = connection.state;
        let begun = connection.begun();
        connection.close();
        if state == State::Idle {
            // The target closed a connection that had nothing to do: its right.
            return;
        }
        run.record.surprise(why, &[]);
        if begun && state == State::Asked {
            return self.settle(index, Outcome::Unknown, now, run);
        }
        connection.state = State::Idle;
        run.record.never_sent();
        run.in_flight -= 1;
        self.resting.push_back((now + REST, index));
    }

    /// Gives up on requests without an answer, and lets rested connections try again.
    fn sweep<W>(&mut self, now: Instant, run: &mut Run<'_, W>) {
        for index in 0..self.connections.len() {
            let connection = &self.connections[index];
            let waiting = connection.state != State::Idle;
            if waiting && now.saturating_duration_since(connection.sent) > self.settings.answer_timeout {
                self.lose(index, "no answer in time", now, run);
            }
        }
        while let Some((until, index)) = self.resting.front().copied()
            && until <= now
        {
            self.resting.pop_front();
            self.idle.push_back(index);
        }
    }
}
