//! The way to one broker: connects again at once when it is lost, and knows whether the broker answers.
//!
//! Must not: block. [`Link::advance`] does what can be done now; [`wait_any`] sleeps until there is more to do.

use std::time::{Duration, Instant};

use rocketmq::codes::GET_MAX_OFFSET;
use rustix::event::{PollFd, PollFlags};
use serde::Serialize;

use super::connection::{Connection, Lost, wait_for};
use crate::queue::Security;

/// Between two attempts to connect. The first one after a loss is made at once, unless what was lost was younger
/// than this: a broker that closes every connection gets ten in a second, and no more.
const RECONNECT_PAUSE: Duration = Duration::from_millis(100);
/// And after a refusal of whoever asks: it will be the same until somebody changes a configuration.
const REFUSED_PAUSE: Duration = Duration::from_millis(500);
/// For a connection to be accepted; then the next attempt.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);
/// For the first answer on it. A broker that is starting takes its time, and would only take longer if asked anew.
const PROBE_TIMEOUT: Duration = Duration::from_secs(3);
/// The first request on a connection. Requests of users have positive numbers.
const PROBE_OPAQUE: i32 = -1;

/// A question that any broker answers at once, whether or not the queue exists.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Probe<'a> {
    topic: &'a str,
    queue_id: &'static str,
}

#[derive(Debug)]
enum State {
    Down { retry_at: Instant },
    Connecting { connection: Connection, until: Instant },
    Probing { connection: Connection, until: Instant },
    Up { connection: Connection, since: Instant },
}

#[derive(Debug)]
pub(super) struct Link {
    address: String,
    security: Security,
    /// The one that the link is for: whoever asks may have no right to another.
    topic: String,
    state: State,
    /// Why it was down last.
    reason: String,
    /// It stays so until a configuration is changed.
    lasting: bool,
}

impl Link {
    pub(super) fn new(address: &str, security: &Security, topic: &str) -> Link {
        Link {
            address: address.into(),
            security: security.clone(),
            topic: topic.into(),
            state: State::Down { retry_at: Instant::now() },
            reason: "not connected yet".into(),
            lasting: false,
        }
    }

    /// Does what can be done without waiting. Returns whether it is up.
    pub(super) fn advance(&mut self) -> bool {
        let now = Instant::now();
        loop {
            let down = State::Down { retry_at: now + RECONNECT_PAUSE };
            let step = match std::mem::replace(&mut self.state, down) {
                state @ State::Down { retry_at } if retry_at > now => Ok((state, false)),
                State::Down { .. } => Connection::start(&self.address, &self.security)
                    .map(|connection| (State::Connecting { connection, until: now + CONNECT_TIMEOUT }, true)),
                State::Connecting { connection, until } => connecting(connection, &self.topic, until, now),
                State::Probing { connection, until } => probing(connection, until, now),
                state @ State::Up { .. } => Ok((state, false)),
            };
            match step {
                Ok((state, go_on)) => {
                    self.state = state;
                    if !go_on {
                        return self.is_up();
                    }
                }
                Err(lost) => {
                    self.reason = lost.to_string();
                    self.lasting = lost.is_lasting();
                    if self.lasting {
                        self.state = State::Down { retry_at: now + REFUSED_PAUSE };
                    }
                    return false;
                }
            }
        }
    }

    pub(super) fn is_up(&self) -> bool {
        matches!(self.state, State::Up { .. })
    }

    /// Whether a connection is being made.
    pub(super) fn is_pending(&self) -> bool {
        matches!(self.state, State::Connecting { .. } | State::Probing { .. })
    }

    pub(super) fn connection(&mut self) -> Option<&mut Connection> {
        match &mut self.state {
            State::Up { connection, .. } => Some(connection),
            _ => None,
        }
    }

    /// Gives the connection up; the next attempt is made at once, or soon.
    pub(super) fn fail(&mut self, lost: &Lost) {
        let age = match &self.state {
            State::Up { since, .. } => since.elapsed(),
            _ => Duration::ZERO,
        };
        self.fail_for(lost.to_string(), RECONNECT_PAUSE.saturating_sub(age));
    }

    /// Gives the connection up for a while.
    pub(super) fn fail_for(&mut self, reason: String, pause: Duration) {
        self.reason = reason;
        self.lasting = false;
        self.state = State::Down { retry_at: Instant::now() + pause };
    }

    /// Whether this address is another one.
    pub(super) fn moves_to(&self, address: &str) -> bool {
        self.address != address
    }

    /// Broker and reason, for people.
    pub(super) fn why_down(&self) -> String {
        match &self.state {
            State::Probing { .. } => format!("{}: it took the connection and answers nothing", self.address),
            _ => format!("{}: {}", self.address, self.reason),
        }
    }

    /// Whether that stays so until a configuration is changed.
    pub(super) fn is_refused(&self) -> bool {
        !self.is_up() && self.lasting
    }

    /// What to wait for: a socket, or a time.
    fn interest(&self) -> (Option<PollFd<'_>>, Option<Instant>) {
        match &self.state {
            State::Down { retry_at } => (None, Some(*retry_at)),
            State::Connecting { connection, until } => {
                (Some(PollFd::new(connection, PollFlags::OUT)), Some(*until))
            }
            State::Probing { connection, until } => {
                (Some(PollFd::new(connection, PollFlags::IN)), Some(*until))
            }
            State::Up { connection, .. } => (Some(PollFd::new(connection, PollFlags::IN)), None),
        }
    }
}

fn connecting(
    mut connection: Connection,
    topic: &str,
    until: Instant,
    now: Instant,
) -> Result<(State, bool), Lost> {
    if !connection.is_established()? {
        return if now < until {
            Ok((State::Connecting { connection, until }, false))
        } else {
            Err(Lost::TimedOut)
        };
    }
    let probe = Probe { topic, queue_id: "0" };
    // A new socket's buffer takes a small request at once.
    connection
        .write(GET_MAX_OFFSET, PROBE_OPAQUE, &probe, &[], now)
        .map_err(|not_written| not_written.lost)?;
    Ok((State::Probing { connection, until: now + PROBE_TIMEOUT }, true))
}

fn probing(mut connection: Connection, until: Instant, now: Instant) -> Result<(State, bool), Lost> {
    match connection.receive()? {
        Some(answer) if answer.opaque == PROBE_OPAQUE => match connection.refusal(&answer) {
            Some(why) => Err(Lost::Refused(why)),
            None => Ok((State::Up { connection, since: now }, false)),
        },
        Some(_) => Ok((State::Probing { connection, until }, true)),
        None if now < until => Ok((State::Probing { connection, until }, false)),
        None => Err(Lost::TimedOut),
    }
}

/// Waits until one of the links has something to do, or the time is over.
pub(super) fn wait_any<'a>(links: impl Iterator<Item = &'a Link>, deadline: Instant) {
    let mut until = deadline;
    let mut fds = Vec::new();
    for link in links {
        let (fd, at) = link.interest();
        fds.extend(fd);
        until = at.map_or(until, |at| until.min(at));
    }
    // A poll that fails (no memory for it) is as good as one that says nothing: the caller looks, and waits again.
    if wait_for(&mut fds, until).is_err() {
        std::thread::sleep(Duration::from_millis(1));
    }
}
