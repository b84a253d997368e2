//! The one loop of all drivers: it sends what the schedule wants, and takes what comes back.
//!
//! In an open loop a request that is due goes out on the connection that is idle for longest, else on a new one, up
//! to the cap. A late request has one of two causes, and they are kept apart: all connections up to the cap were
//! waiting for answers (`Record::waited_for_cap`), or the generator itself was late (`Record::generator_lag`). Either
//! makes a trial invalid.

mod answers;
mod greeting;

use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use mio::{Events, Poll, Token};

use super::connection::Connection;
use super::protocol::{ConnectionId, Protocol, Verdicts};
use super::rank::Raised;
use super::record::{Asking, Record};
use super::schedule::{Next, Pace, Schedule, Until};
use super::series::Series;
use super::settings::{Reuse, Settings};
use super::trial::Second;

/// One read takes a whole answer in the usual case.
const READ_BYTES: usize = 64 << 10;
const EVENTS_MAX: usize = 1024;
/// How often time limits are looked at, and the longest sleep, so that a stop is seen soon.
pub(super) const SWEEP: Duration = Duration::from_millis(50);
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
pub(super) const REST: Duration = Duration::from_millis(100);

/// Why a run gave no record.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    #[error("stopped by a signal")]
    Stopped,
    #[error("waiting for sockets failed")]
    Poll(#[source] io::Error),
    #[error("outranking what is measured failed")]
    Rank(#[source] io::Error),
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
    /// Users from here on were never needed so far, and have no connection.
    fresh: usize,
    /// Users who were refused a connection, and when they may try again; in order of that time.
    resting: VecDeque<(Instant, usize)>,
    buffer: Vec<u8>,
    request: Vec<u8>,
}

#[derive(Debug)]
struct User {
    planned: Instant,
    /// Of its buyer, from 1 on.
    attempt: u32,
    sent: Instant,
    /// The connection of the request under way.
    asking: Option<usize>,
    /// Of its answer, as far as it has come.
    verdicts: Verdicts,
}

struct Run<'a, P> {
    pace: Pace,
    protocol: &'a mut P,
    record: Record,
    /// A closed loop's time and the good answers in it, so far.
    asking: Option<Asking>,
    in_flight: usize,
    started: Instant,
    /// When the last request was answered or given up.
    last_settled: Instant,
    /// When the last answer was whole.
    last_whole: Option<Instant>,
    /// The first send since the last whole answer.
    unanswered_since: Option<Instant>,
    /// From then on what is due is left unsent.
    closes: Option<Instant>,
    /// Requests can be due while every user waits for an answer. A closed loop plans nothing: a user's request is due when
    /// the generator comes to it.
    planned: bool,
    /// No user was free when the schedule was last asked.
    saturated: bool,
    /// When that last ended.
    freed: Instant,
    series: Series,
    watch: &'a mut dyn FnMut(&Second),
    windows: Option<Windows<'a, P>>,
}

/// Parts of one run, without a pause between them.
struct Windows<'a, P> {
    every: Duration,
    begun: Instant,
    each: &'a mut dyn FnMut(Record, &P),
}

impl<P> Run<'_, P> {
    /// Closes the seconds that are over.
    fn roll(&mut self, now: Instant) {
        while let Some(second) = self.series.close(now, self.in_flight) {
            (self.watch)(&second);
        }
    }

    /// Closes the window that is over; what is under way counts for the next one.
    fn turn(&mut self, now: Instant) {
        if let Some(of) = self.windows.as_mut().filter(|of| now.duration_since(of.begun) >= of.every) {
            let mut record = std::mem::take(&mut self.record);
            record.elapsed = now.duration_since(of.begun);
            of.begun = now;
            (of.each)(record, self.protocol);
        }
    }
}

/// What a raised stop flag means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OnStop {
    Abandon,
    /// The run is over: no further request, and what came of the others counts.
    Finish,
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
    /// Opens and greets the first connections (with `Reuse::KeepAlive`).
    ///
    /// # Errors
    /// If an address refuses, or does not greet in time.
    pub fn connect<P: Protocol>(settings: Settings, protocol: &mut P) -> io::Result<Self> {
        assert!(settings.connections > 0 && !settings.addresses.is_empty(), "a generator needs a connection");
        let poll = Poll::new()?;
        let now = Instant::now();
        let opened = match settings.reuse {
            Reuse::KeepAlive => settings.opened.min(settings.connections),
            Reuse::PerRequest => 0,
        };
        let count = settings.connections * settings.lanes();
        let mut connections: Vec<_> = (0..count).map(|_| Connection::closed()).collect();
        for (index, connection) in connections.iter_mut().enumerate().take(opened * settings.lanes()) {
            connection.open(
                settings.address(settings.connection_id(index)),
                poll.registry(),
                Token(index),
            )?;
            if index % CONNECT_BURST == CONNECT_BURST - 1 {
                std::thread::sleep(CONNECT_PAUSE);
            }
        }
        let verdicts = Verdicts::default;
        let user = || User { planned: now, attempt: 1, sent: now, asking: None, verdicts: verdicts() };
        let users = (0..settings.connections).map(|_| user()).collect();
        let mut generator = Self {
            settings,
            poll,
            users,
            connections,
            idle: (0..opened).collect(),
            fresh: opened,
            resting: VecDeque::new(),
            buffer: vec![0; READ_BYTES],
            request: Vec::new(),
        };
        if protocol.greets() {
            generator.greet_all(protocol)?;
        }
        Ok(generator)
    }

    pub fn settings(&self) -> &Settings {
        &self.settings
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
        self.run_watched(schedule, protocol, stop, &mut |_| {})
    }

    /// As [`Generator::run`]; `watch` is given each second when it is over, on this thread: it must be quick.
    pub fn run_watched<P: Protocol>(
        &mut self,
        schedule: Schedule,
        protocol: &mut P,
        stop: &AtomicBool,
        watch: &mut dyn FnMut(&Second),
    ) -> Result<Record, RunError> {
        self.drive(schedule, protocol, (stop, OnStop::Abandon), watch, None)
    }

    /// As [`Generator::run_watched`], for a load whose end somebody else decides: once the flag is raised no further
    /// request is sent, those under way are waited for, and the record is complete.
    ///
    /// # Errors
    /// If the flag is raised before the first request, or the system can't wait for sockets.
    pub fn run_until<P: Protocol>(
        &mut self,
        schedule: Schedule,
        protocol: &mut P,
        finish: &AtomicBool,
        watch: &mut dyn FnMut(&Second),
    ) -> Result<Record, RunError> {
        self.drive(schedule, protocol, (finish, OnStop::Finish), watch, None)
    }

    /// As [`Generator::run_until`], in windows that follow each other without a pause: `each` is given the record of
    /// every one when it is over, also of the last, which may be shorter. It runs on this thread, and must be quick.
    /// Whoever makes requests whose loss is none can't go on with this generator: those are not waited for at the end.
    pub fn run_in_windows<P: Protocol>(
        &mut self,
        schedule: Schedule,
        protocol: &mut P,
        finish: &AtomicBool,
        every: Duration,
        each: &mut dyn FnMut(Record, &P),
    ) -> Result<(), RunError> {
        let windows = Windows { every, begun: Instant::now(), each };
        let last = self.drive(schedule, protocol, (finish, OnStop::Finish), &mut |_| {}, Some(windows))?;
        each(last, protocol);
        Ok(())
    }

    fn drive<'a, P: Protocol>(
        &mut self,
        schedule: Schedule,
        protocol: &'a mut P,
        (stop, on_stop): (&AtomicBool, OnStop),
        watch: &'a mut dyn FnMut(&Second),
        windows: Option<Windows<'a, P>>,
    ) -> Result<Record, RunError> {
        if stop.load(Ordering::Relaxed) {
            return Err(RunError::Stopped);
        }
        let _raised = Raised::now().map_err(RunError::Rank)?;
        let mut run = self.start(schedule, protocol, watch);
        let started = run.started;
        if let (Until::Elapsed(duration), Some(_)) = (schedule.until, &windows) {
            // Also while every user waits for an answer.
            run.closes = started.checked_add(duration);
        }
        run.windows = windows;
        let mut events = Events::with_capacity(EVENTS_MAX);
        let mut swept = started;
        loop {
            let now = Instant::now();
            if now.duration_since(swept) >= SWEEP {
                if stop.load(Ordering::Relaxed) {
                    match on_stop {
                        OnStop::Abandon => return Err(RunError::Stopped),
                        OnStop::Finish => {
                            run.closes = Some(now);
                            // It had no time of its own.
                            run.asking = None;
                        }
                    }
                }
                self.sweep(now, &mut run);
                swept = now;
            }
            run.roll(now);
            let patience = self.settings.answer_timeout * SILENCE;
            let silent = run.unanswered_since.is_some_and(|since| now.duration_since(since) > patience);
            let ahead = if silent { Ahead::Finished } else { self.dispatch(now, &mut run) };
            if ahead != Ahead::Finished {
                run.turn(now);
            } else if run.in_flight == 0 || (run.windows.is_some() && !silent && self.awaits_nothing(&run)) {
                run.record.unsent = run.pace.unissued(now);
                break;
            }
            self.wait(now, ahead, run.in_flight, &mut events).map_err(RunError::Poll)?;
            for event in &events {
                self.handle(event, &mut run);
            }
        }
        run.record.elapsed = match &run.windows {
            // A wait for an answer that never came is no time in which the target answered.
            None => run.last_whole.unwrap_or(run.last_settled).duration_since(run.started),
            Some(windows) => windows.begun.elapsed(),
        };
        run.record.asking = run.asking;
        run.record.gave_up = run.pace.gave_up;
        if let Some(second) = run.series.last(run.last_settled) {
            (run.watch)(&second);
        }
        run.record.seconds = run.series.rows;
        Ok(run.record)
    }

    /// Of those under way, whatever becomes of them: a pull that the broker holds back for seconds.
    fn awaits_nothing<P: Protocol>(&self, run: &Run<'_, P>) -> bool {
        let asking = self.users.iter().enumerate().filter(|(_, user)| user.asking.is_some());
        asking.map(|(user, _)| run.protocol.operations(user)).sum::<u64>() == 0
    }

    fn start<'a, P: Protocol>(
        &self,
        schedule: Schedule,
        protocol: &'a mut P,
        watch: &'a mut dyn FnMut(&Second),
    ) -> Run<'a, P> {
        let started = Instant::now();
        let users = self.settings.connections;
        let closes = match schedule.until {
            Until::Elapsed(duration) if schedule.is_open() => {
                started.checked_add(duration + self.settings.answer_timeout)
            }
            _ => None,
        };
        let asking = match schedule.until {
            Until::Elapsed(time) if !schedule.is_open() => Some(Asking { time, good: 0 }),
            _ => None,
        };
        Run {
            pace: Pace::start(schedule, users, started),
            protocol,
            record: Record::default(),
            asking,
            in_flight: 0,
            started,
            last_settled: started,
            last_whole: None,
            unanswered_since: None,
            closes,
            planned: schedule.is_open(),
            saturated: false,
            freed: started,
            series: Series::start(started),
            watch,
            windows: None,
        }
    }

    /// Issues requests while any is due and a user is free.
    fn dispatch<P: Protocol>(&mut self, now: Instant, run: &mut Run<'_, P>) -> Ahead {
        if run.closes.is_some_and(|closes| now >= closes) {
            return Ahead::Finished;
        }
        loop {
            let user = match self.idle.front() {
                Some(user) => *user,
                None if self.fresh < self.users.len() => self.fresh,
                None => {
                    run.saturated = true;
                    return Ahead::Saturated;
                }
            };
            match run.pace.next(now) {
                Next::Send { planned, attempt } => {
                    if self.idle.pop_front().is_none() {
                        self.fresh += 1;
                    }
                    (self.users[user].planned, self.users[user].attempt) = (planned, attempt);
                    self.issue(user, now, run);
                }
                Next::Wait { until } => return Ahead::Due(until),
                Next::Finished => return Ahead::Finished,
            }
        }
    }

    fn issue<P: Protocol>(&mut self, user: usize, now: Instant, run: &mut Run<'_, P>) {
        run.in_flight += 1;
        run.unanswered_since.get_or_insert(now);
        self.request.clear();
        if self.users[user].attempt > 1 {
            run.protocol.retrying(user);
        }
        let lane = run.protocol.request(user, &mut self.request);
        let index = user * self.settings.lanes() + lane;
        // In a burst each is sent at its own moment.
        let now = Instant::now();
        let asking = &mut self.users[user];
        (asking.sent, asking.asking) = (now, Some(index));
        if !run.planned {
            asking.planned = now;
        }
        let could = asking.planned.max(run.freed);
        let waited = run.planned && asking.planned < run.freed;
        run.record.issued(now.saturating_duration_since(could), asking.attempt, waited);
        let connection = &mut self.connections[index];
        let sent = if connection.is_open() {
            connection.send(&self.request)
        } else {
            if self.settings.reuse == Reuse::KeepAlive {
                run.record.opened(connection.was_open);
            }
            let address = self.settings.address(ConnectionId { user, lane });
            connection.begin(address, self.poll.registry(), Token(index), &self.request)
        };
        if let Err(error) = sent {
            self.lose(index, &error.to_string(), now, run);
        }
    }

    fn wait(&mut self, now: Instant, ahead: Ahead, in_flight: usize, events: &mut Events) -> io::Result<()> {
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
            // With nothing under way there is no answer to be noticed late.
            std::thread::sleep(if in_flight == 0 { longest } else { longest.min(NAP) });
        }
        Ok(())
    }
}
