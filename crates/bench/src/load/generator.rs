//! The one loop of all drivers: it sends what the schedule wants, and takes what comes back.

use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use mio::event::Event;
use mio::{Events, Poll, Token};

use super::connection::{Connection, State};
use super::protocol::{Greeting, Place, Protocol, Received, Verdicts};
use super::record::{Clocks, Outcome, Record};
use super::schedule::{Next, Pace, Schedule};

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

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reuse {
    KeepAlive,
    /// A new connection for each request, closed after its answer.
    PerRequest,
}

/// Who talks to which of several addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Spread {
    /// They stand for one another: each user keeps to one, in turn.
    Users,
    /// Each request belongs to one of them, and the protocol says to which: a user has a connection to each.
    Requests,
}

#[derive(Debug, Clone)]
pub struct Settings {
    pub addresses: Vec<SocketAddr>,
    pub spread: Spread,
    /// Users: so many requests can be under way at once.
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
        Self {
            addresses,
            spread: Spread::Users,
            connections,
            reuse: Reuse::KeepAlive,
            answer_timeout: Duration::from_secs(10),
        }
    }

    /// Connections of one user.
    fn lanes(&self) -> usize {
        match self.spread {
            Spread::Users => 1,
            Spread::Requests => self.addresses.len(),
        }
    }

    fn place(&self, connection: usize) -> Place {
        Place { user: connection / self.lanes(), lane: connection % self.lanes() }
    }

    fn address(&self, place: Place) -> SocketAddr {
        match self.spread {
            Spread::Users => self.addresses[place.user % self.addresses.len()],
            Spread::Requests => self.addresses[place.lane],
        }
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

/// Users and their connections. Several runs may follow each other on them: a warm-up, then the measurement.
#[derive(Debug)]
pub struct Generator {
    settings: Settings,
    poll: Poll,
    users: Vec<User>,
    /// Those of user `n` from `n * lanes` on.
    connections: Vec<Connection>,
    /// Users without a request, the longest idle first: an open loop uses all of them in turn.
    idle: VecDeque<usize>,
    /// Users who were refused a connection, and when they may try again; in order of that time.
    resting: VecDeque<(Instant, usize)>,
    buffer: Vec<u8>,
    /// The request that is being made.
    request: Vec<u8>,
}

#[derive(Debug)]
struct User {
    planned: Instant,
    sent: Instant,
    /// The connection of the request under way.
    asking: Option<usize>,
    /// Of its answer, as far as it has come.
    verdicts: Verdicts,
}

/// One run under way.
struct Run<'a, P> {
    pace: Pace,
    protocol: &'a mut P,
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
    /// Requests may be due, but no user is free.
    Saturated,
    Finished,
}

impl Generator {
    /// Opens and greets all connections (with `Reuse::KeepAlive`).
    ///
    /// # Errors
    /// If an address refuses, or does not greet in time.
    pub fn connect<P: Protocol>(settings: Settings, protocol: &mut P) -> io::Result<Self> {
        assert!(settings.connections > 0 && !settings.addresses.is_empty(), "a generator needs a connection");
        let poll = Poll::new()?;
        let now = Instant::now();
        let count = settings.connections * settings.lanes();
        let mut connections: Vec<_> = (0..count).map(|_| Connection::closed()).collect();
        if settings.reuse == Reuse::KeepAlive {
            for (index, connection) in connections.iter_mut().enumerate() {
                connection.open(settings.address(settings.place(index)), poll.registry(), Token(index))?;
                if index % CONNECT_BURST == CONNECT_BURST - 1 {
                    std::thread::sleep(CONNECT_PAUSE);
                }
            }
        }
        let user = || User { planned: now, sent: now, asking: None, verdicts: Verdicts::default() };
        let users = (0..settings.connections).map(|_| user()).collect();
        let idle = (0..settings.connections).collect();
        let mut generator = Self {
            settings,
            poll,
            users,
            connections,
            idle,
            resting: VecDeque::new(),
            buffer: vec![0; READ_BYTES],
            request: Vec::new(),
        };
        if protocol.greets() && generator.settings.reuse == Reuse::KeepAlive {
            generator.greet_all(protocol)?;
        }
        Ok(generator)
    }

    fn greet_all<P: Protocol>(&mut self, protocol: &mut P) -> io::Result<()> {
        let begun = Instant::now();
        let mut events = Events::with_capacity(EVENTS_MAX);
        for index in 0..self.connections.len() {
            self.begin_greeting(index, protocol)?;
        }
        while self.connections.iter().any(|connection| connection.state == State::Greeting) {
            if begun.elapsed() > self.settings.answer_timeout {
                return Err(io::Error::new(
                    ErrorKind::TimedOut,
                    "the target accepts connections and does not greet",
                ));
            }
            match self.poll.poll(&mut events, Some(SWEEP)) {
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                result => result?,
            }
            let mut buffer = std::mem::take(&mut self.buffer);
            for event in &events {
                let index = event.token().0;
                if self.connections[index].has_outgoing() {
                    self.connections[index].flush()?;
                }
                while self.connections[index].state == State::Greeting {
                    match self.connections[index].read(&mut buffer) {
                        Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                        Ok(count) => self.greet(index, &buffer[..count], protocol)?,
                        Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                        Err(error) => return Err(error),
                    }
                }
            }
            self.buffer = buffer;
        }
        Ok(())
    }

    fn begin_greeting<P: Protocol>(&mut self, index: usize, protocol: &mut P) -> io::Result<()> {
        self.connections[index].state = State::Greeting;
        self.greet(index, &[], protocol)
    }

    /// Goes on with the exchange as far as the bytes allow; the connection is idle, or has asked, when it is over.
    fn greet<P: Protocol>(&mut self, index: usize, bytes: &[u8], protocol: &mut P) -> io::Result<()> {
        let place = self.settings.place(index);
        let connection = &mut self.connections[index];
        let mut arrived = std::mem::take(&mut connection.arrived);
        arrived.extend_from_slice(bytes);
        loop {
            self.request.clear();
            let step = protocol.greet(place, &arrived, &mut self.request);
            if !self.request.is_empty() {
                connection.say(&self.request)?;
            }
            match step {
                Greeting::Part => break,
                Greeting::Next { consumed } => {
                    arrived.drain(..consumed);
                    if arrived.is_empty() {
                        break;
                    }
                }
                Greeting::Done { consumed } => {
                    arrived.drain(..consumed);
                    connection.arrived = arrived;
                    connection.state = State::Idle;
                    if !connection.waiting.is_empty() {
                        connection.send_waiting()?;
                    }
                    return Ok(());
                }
                Greeting::Broken(why) => return Err(io::Error::new(ErrorKind::InvalidData, why)),
            }
        }
        connection.arrived = arrived;
        Ok(())
    }

    /// Sends what the schedule wants and waits for every answer, each at most `answer_timeout`.
    ///
    /// # Errors
    /// If the stop flag is raised, or the system can't wait for sockets. What the target does is no error.
    pub fn run<P: Protocol>(
        &mut self,
        schedule: Schedule,
        protocol: &mut P,
        stop: &AtomicBool,
    ) -> Result<Record, RunError> {
        if stop.load(Ordering::Relaxed) {
            return Err(RunError::Stopped);
        }
        let started = Instant::now();
        let mut run = Run {
            pace: Pace::start(schedule, started),
            protocol,
            record: Record::default(),
            in_flight: 0,
            started,
            last_settled: started,
            last_whole: started,
        };
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

    /// Issues requests while any is due and a user is free.
    fn dispatch<P: Protocol>(&mut self, now: Instant, run: &mut Run<'_, P>) -> Ahead {
        while let Some(user) = self.idle.front().copied() {
            match run.pace.next(now) {
                Next::Send { planned } => {
                    self.idle.pop_front();
                    self.issue(user, planned, now, run);
                }
                Next::Wait { until } => return Ahead::Due(until),
                Next::Finished => return Ahead::Finished,
            }
        }
        Ahead::Saturated
    }

    fn issue<P: Protocol>(&mut self, user: usize, planned: Instant, now: Instant, run: &mut Run<'_, P>) {
        run.in_flight += 1;
        self.request.clear();
        let lane = run.protocol.request(user, &mut self.request);
        let index = user * self.settings.lanes() + lane;
        let asking = &mut self.users[user];
        (asking.planned, asking.sent, asking.asking) = (planned, now, Some(index));
        let connection = &mut self.connections[index];
        let sent = if connection.is_open() {
            connection.send(&self.request)
        } else {
            run.record.reconnects += u64::from(self.settings.reuse == Reuse::KeepAlive);
            let address = self.settings.address(Place { user, lane });
            connection.begin(address, self.poll.registry(), Token(index), &self.request)
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

    fn handle<P: Protocol>(&mut self, event: &Event, run: &mut Run<'_, P>) {
        let index = event.token().0;
        if self.connections[index].state == State::Connecting {
            match self.connected(index, run) {
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

    /// Whether a connection that was begun is made now; then what waits for it is sent.
    fn connected<P: Protocol>(&mut self, index: usize, run: &mut Run<'_, P>) -> io::Result<bool> {
        if !self.connections[index].finish_connecting()? {
            return Ok(false);
        }
        if run.protocol.greets() {
            self.begin_greeting(index, run.protocol)?;
        } else {
            self.connections[index].send_waiting()?;
        }
        Ok(true)
    }

    /// Reads until the socket is drained. A short read has drained it, unless the end of the stream came with it.
    fn read<P: Protocol>(&mut self, index: usize, ending: bool, run: &mut Run<'_, P>) {
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

    fn receive<P: Protocol>(&mut self, index: usize, bytes: &[u8], run: &mut Run<'_, P>) {
        match self.connections[index].state {
            State::Asked => {}
            State::Greeting => {
                if let Err(error) = self.greet(index, bytes, run.protocol) {
                    self.lose(index, &error.to_string(), Instant::now(), run);
                }
                return;
            }
            State::Idle | State::Connecting => {
                // Bytes that nobody asked for: the answer before them was not what its length said.
                run.record.stray_answers += 1;
                self.connections[index].close();
                return;
            }
        }
        let place = self.settings.place(index);
        let verdicts = &mut self.users[place.user].verdicts;
        let connection = &mut self.connections[index];
        if connection.arrived.is_empty() {
            // The usual case: the whole answer in one read, and no copy of it.
            let received = run.protocol.receive(place, bytes, verdicts);
            if let Received::Part { consumed } = received {
                connection.arrived.extend_from_slice(&bytes[consumed..]);
            }
            return self.received(index, received, bytes.len(), run);
        }
        connection.arrived.extend_from_slice(bytes);
        let length = connection.arrived.len();
        let received = run.protocol.receive(place, &connection.arrived, verdicts);
        if let Received::Part { consumed } = received {
            connection.arrived.drain(..consumed);
        } else {
            connection.arrived.clear();
        }
        self.received(index, received, length, run);
    }

    /// After the protocol has looked at `length` bytes.
    fn received<P: Protocol>(
        &mut self,
        index: usize,
        received: Received,
        length: usize,
        run: &mut Run<'_, P>,
    ) {
        match received {
            Received::Part { .. } => {}
            Received::Broken(why) => self.lose(index, why, Instant::now(), run),
            Received::Whole { consumed, keep_alive } => {
                let stray = length > consumed;
                run.record.stray_answers += u64::from(stray);
                let connection = &mut self.connections[index];
                let reusable = keep_alive && !stray && !connection.has_outgoing();
                if !reusable || self.settings.reuse == Reuse::PerRequest {
                    connection.close();
                }
                let now = Instant::now();
                run.last_whole = now;
                self.settle(index, now, run);
                self.dispatch(now, run);
            }
        }
    }

    /// The answer is whole, or will never be: what is still without a verdict is unknown.
    fn settle<P: Protocol>(&mut self, index: usize, now: Instant, run: &mut Run<'_, P>) {
        let Place { user: asking, .. } = self.settings.place(index);
        self.connections[index].state = State::Idle;
        let operations = run.protocol.operations(asking);
        let user = &mut self.users[asking];
        let given: u64 = user.verdicts.outcomes.iter().map(|(_, count)| count).sum();
        if given < operations {
            user.verdicts.outcomes.push((Outcome::Unknown, operations - given));
        }
        let clocks = Clocks { planned: user.planned, sent: user.sent, answered: now };
        run.record.settle(&mut user.verdicts, clocks);
        user.asking = None;
        run.in_flight -= 1;
        run.last_settled = now;
        self.idle.push_back(asking);
    }

    /// The connection broke or its answer can't be read. Once a byte was sent the order may exist.
    fn lose<P: Protocol>(&mut self, index: usize, why: &str, now: Instant, run: &mut Run<'_, P>) {
        let connection = &mut self.connections[index];
        let (state, begun) = (connection.state, connection.begun());
        connection.close();
        connection.state = State::Idle;
        let asking = self.settings.place(index).user;
        let user = &mut self.users[asking];
        if user.asking != Some(index) {
            // The target closed a connection that had nothing to do: its right.
            return;
        }
        user.verdicts.surprise(|| why.to_owned());
        if begun && state == State::Asked {
            return self.settle(index, now, run);
        }
        run.record.never_sent(&mut user.verdicts, run.protocol.operations(asking));
        user.asking = None;
        run.in_flight -= 1;
        self.resting.push_back((now + REST, asking));
    }

    /// Gives up on requests without an answer, and lets rested users try again.
    fn sweep<P: Protocol>(&mut self, now: Instant, run: &mut Run<'_, P>) {
        for user in 0..self.users.len() {
            let User { asking, sent, .. } = self.users[user];
            if let Some(index) = asking
                && now.saturating_duration_since(sent) > self.settings.answer_timeout
            {
                self.lose(index, "no answer in time", now, run);
            }
        }
        while let Some((until, user)) = self.resting.front().copied()
            && until <= now
        {
            self.resting.pop_front();
            self.idle.push_back(user);
        }
    }
}
