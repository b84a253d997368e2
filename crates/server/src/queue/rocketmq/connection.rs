//! One connection to a name server or broker, on a socket that does not block.
//!
//! Must not: wait beyond the deadline that it was given, or hide whether the first byte of a request left.

use std::io;
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use rocketmq::codes::{NO_PERMISSION, SYSTEM_ERROR};
use rocketmq::frame::{self, Answer, NotAFrame, Parsed};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use serde::Serialize;
use socket2::{Domain, Protocol, Socket, Type};

use super::wire::Wire;
use crate::queue::{Credentials, Security};

/// Least space that a read from the socket has.
const READ_BYTES: usize = 64 << 10;

#[derive(Debug)]
pub(super) struct Connection {
    wire: Wire,
    security: Security,
    /// Something was answered on it.
    answered: bool,
    /// Received bytes are those from `parsed` to `filled`. It only grows, so that no byte is cleared twice.
    buffer: Vec<u8>,
    parsed: usize,
    filled: usize,
    outgoing: Vec<u8>,
}

/// The connection is of no more use.
#[derive(Debug, thiserror::Error)]
pub(super) enum Lost {
    #[error("{0}")]
    Io(#[from] io::Error),
    #[error("what came is no frame: {0}")]
    Protocol(#[from] NotAFrame),
    #[error("no answer in time")]
    TimedOut,
    /// The server takes nothing of ours until its configuration or ours is changed: what it answered, and what to do.
    #[error("{0}")]
    Refused(String),
}

/// A request that did not leave, or not whole.
#[derive(Debug)]
pub(super) struct NotWritten {
    /// Bytes of it left: the server may yet act on it.
    pub(super) begun: bool,
    pub(super) lost: Lost,
}

impl Lost {
    /// Whether it stays so until a configuration is changed.
    pub(super) fn is_lasting(&self) -> bool {
        matches!(self, Lost::Refused(_))
    }
}

impl Connection {
    /// Begins to connect; [`Connection::is_established`] says how it went. A host name in `address` is looked up by
    /// the system, within the system's own time limits.
    pub(super) fn start(address: &str, security: &Security) -> Result<Connection, Lost> {
        let wire = Wire::new(connect(address)?, address, security.tls.as_ref())?;
        let (buffer, outgoing) = (Vec::new(), Vec::new());
        Ok(Connection {
            wire,
            security: security.clone(),
            answered: false,
            buffer,
            parsed: 0,
            filled: 0,
            outgoing,
        })
    }

    /// Connects, or fails, before the deadline.
    pub(super) fn open(address: &str, security: &Security, deadline: Instant) -> Result<Connection, Lost> {
        let connection = Connection::start(address, security)?;
        while !connection.is_established()? {
            connection.wait(PollFlags::OUT, deadline)?;
        }
        Ok(connection)
    }

    pub(super) fn is_established(&self) -> io::Result<bool> {
        let mut fds = [PollFd::new(&self.wire, PollFlags::OUT)];
        if poll(&mut fds, Some(&Timespec::default()))? == 0 {
            return Ok(false);
        }
        match self.wire.stream().take_error()? {
            Some(error) => Err(error),
            None => Ok(true),
        }
    }

    /// Sends a request whole.
    pub(super) fn write<F: Serialize>(
        &mut self,
        code: i32,
        opaque: i32,
        fields: &F,
        body: &[u8],
        deadline: Instant,
    ) -> Result<(), NotWritten> {
        let signer = self.security.credentials.as_deref().map(Credentials::signer);
        self.outgoing.clear();
        frame::encode(&mut self.outgoing, code, opaque, fields, body, signer);
        self.wire.write_all(&self.outgoing, |stream| wait(stream, PollFlags::OUT, deadline))
    }

    /// The next answer, if all of it has arrived. Never waits.
    pub(super) fn receive(&mut self) -> Result<Option<Answer>, Lost> {
        loop {
            match frame::parse(&self.buffer[self.parsed..self.filled])? {
                Parsed::Answer(answer, bytes) => {
                    self.parsed += bytes;
                    self.answered = true;
                    return Ok(Some(answer));
                }
                Parsed::Other(bytes) => self.parsed += bytes,
                Parsed::Partial => {
                    if !self.fill()? {
                        return Ok(None);
                    }
                }
            }
        }
    }

    /// Reads what has arrived, if anything has.
    fn fill(&mut self) -> Result<bool, Lost> {
        self.buffer.copy_within(self.parsed..self.filled, 0);
        self.filled -= self.parsed;
        self.parsed = 0;
        if self.buffer.len() < self.filled + READ_BYTES {
            self.buffer.resize(self.filled + READ_BYTES, 0);
        }
        match self.wire.read(&mut self.buffer[self.filled..]) {
            Ok(bytes) => {
                self.filled += bytes;
                Ok(bytes > 0)
            }
            Err(Lost::Io(error)) if !self.answered && is_end(&error) => {
                Err(Lost::Refused(self.wire.why_closed().into()))
            }
            Err(lost) => Err(lost),
        }
    }

    /// What an answer says about whoever asks, if it is a refusal of that.
    pub(super) fn refusal(&self, answer: &Answer) -> Option<String> {
        refusal(answer.code, &answer.remark, self.security.credentials.is_some())
    }

    /// Sends a request and waits for its answer; other answers that come are passed to `other`.
    pub(super) fn call<F: Serialize>(
        &mut self,
        code: i32,
        opaque: i32,
        fields: &F,
        body: &[u8],
        deadline: Instant,
        mut other: impl FnMut(Answer),
    ) -> Result<Answer, Lost> {
        self.write(code, opaque, fields, body, deadline).map_err(|not_written| not_written.lost)?;
        loop {
            match self.receive()? {
                Some(answer) if answer.opaque == opaque => return Ok(answer),
                Some(answer) => other(answer),
                None => self.wait(PollFlags::IN, deadline)?,
            }
        }
    }

    /// Waits until the socket is ready, or has failed (which the next operation on it reports).
    pub(super) fn wait(&self, what: PollFlags, deadline: Instant) -> Result<(), Lost> {
        wait(&self.wire, what, deadline)
    }
}

/// What a refusal of whoever asks means, and the key to change. Brokers of 4.x answer it as any error of theirs.
fn refusal(code: i32, remark: &str, signed: bool) -> Option<String> {
    if code != NO_PERMISSION && !(code == SYSTEM_ERROR && remark.contains("AclException")) {
        return None;
    }
    let advice = if signed {
        "check queue.access_key and queue.secret_key_file, and what that key may do"
    } else {
        "set queue.access_key and queue.secret_key_file"
    };
    Some(format!("it refuses us with code {code}: {remark}; {advice}"))
}

/// Begins to connect, without waiting.
fn connect(address: &str) -> io::Result<TcpStream> {
    let address: SocketAddr = match address.parse() {
        Ok(address) => address,
        Err(_not_a_number) => address.to_socket_addrs()?.next().ok_or(io::ErrorKind::NotFound)?,
    };
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_nonblocking(true)?;
    socket.set_tcp_nodelay(true)?;
    match socket.connect(&address.into()) {
        Ok(()) => {}
        Err(error) if error.raw_os_error() == Some(Errno::INPROGRESS.raw_os_error()) => {}
        Err(error) => return Err(error),
    }
    Ok(socket.into())
}

/// The server has closed the connection.
fn is_end(error: &io::Error) -> bool {
    use io::ErrorKind as Kind;
    matches!(error.kind(), Kind::UnexpectedEof | Kind::ConnectionReset | Kind::BrokenPipe)
}

fn wait(socket: impl AsFd, what: PollFlags, deadline: Instant) -> Result<(), Lost> {
    let mut fds = [PollFd::new(&socket, what)];
    if wait_for(&mut fds, deadline)? { Ok(()) } else { Err(Lost::TimedOut) }
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.wire.as_fd()
    }
}

/// Waits until one of the sockets is ready (true) or the time is over.
pub(super) fn wait_for(fds: &mut [PollFd<'_>], deadline: Instant) -> io::Result<bool> {
    let left = deadline.saturating_duration_since(Instant::now());
    match poll(fds, Some(&timespec(left))) {
        Ok(ready) => Ok(ready > 0),
        // A signal: the caller looks again, and the deadline stays.
        Err(Errno::INTR) => Ok(!left.is_zero()),
        Err(error) => Err(error.into()),
    }
}

fn timespec(duration: Duration) -> Timespec {
    Timespec {
        tv_sec: i64::try_from(duration.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: i64::from(duration.subsec_nanos()),
    }
}
