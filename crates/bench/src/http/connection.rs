//! One connection of the driver: what is still to be sent, what has arrived, and whose answer it is.
//!
//! It moves bytes and finds where an answer ends. It decides nothing: the driver judges, records and reconnects.

use std::io::{self, ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::time::Instant;

use mio::net::TcpStream;
use mio::{Interest, Registry, Token};

use super::response::{self, Head, Malformed};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    /// No request is under way; the stream may be there or not.
    Idle,
    /// The stream is not connected yet; the request waits in `outgoing`.
    Connecting,
    /// The request is sent or being sent.
    Asked,
}

#[derive(Debug)]
pub(super) struct Connection {
    pub(super) state: State,
    pub(super) planned: Instant,
    pub(super) sent: Instant,
    stream: Option<TcpStream>,
    /// The rest of a request that the kernel did not take at once.
    outgoing: Vec<u8>,
    /// Any byte of the current request was handed to the kernel.
    begun: bool,
    /// An answer that came in pieces, so far; empty in the usual case of one read per answer.
    arrived: Vec<u8>,
    /// Length of the whole answer, once its head is known; 0 before.
    expected_bytes: usize,
}

/// What one read brought.
#[derive(Debug)]
pub(super) enum Received {
    /// The answer is incomplete.
    Part,
    /// The answer is whole, and its bytes were handed to the caller's closure.
    Whole {
        keep_alive: bool,
        stray: bool,
    },
    Broken(Malformed),
}

impl Connection {
    pub(super) fn closed(now: Instant) -> Self {
        Self {
            state: State::Idle,
            planned: now,
            sent: now,
            stream: None,
            outgoing: Vec::new(),
            begun: false,
            arrived: Vec::new(),
            expected_bytes: 0,
        }
    }

    /// Blocks until connected; only before a run.
    pub(super) fn open(&mut self, address: SocketAddr, registry: &Registry, token: Token) -> io::Result<()> {
        let stream = std::net::TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        self.adopt(TcpStream::from_std(stream), registry, token)
    }

    /// Starts to connect; `request` is sent as soon as that is done.
    pub(super) fn begin(
        &mut self,
        address: SocketAddr,
        registry: &Registry,
        token: Token,
        request: &[u8],
    ) -> io::Result<()> {
        let stream = TcpStream::connect(address)?;
        self.adopt(stream, registry, token)?;
        self.outgoing.extend_from_slice(request);
        self.state = State::Connecting;
        Ok(())
    }

    /// Registered once for both directions, edge-triggered: no `epoll_ctl` call per request.
    fn adopt(&mut self, mut stream: TcpStream, registry: &Registry, token: Token) -> io::Result<()> {
        registry.register(&mut stream, token, Interest::READABLE | Interest::WRITABLE)?;
        self.stream = Some(stream);
        self.outgoing.clear();
        self.arrived.clear();
        self.expected_bytes = 0;
        self.begun = false;
        Ok(())
    }

    pub(super) fn is_open(&self) -> bool {
        self.stream.is_some()
    }

    /// Any byte of the current request left: from then on its outcome is the server's to decide.
    pub(super) fn begun(&self) -> bool {
        self.begun
    }

    pub(super) fn has_outgoing(&self) -> bool {
        !self.outgoing.is_empty()
    }

    pub(super) fn close(&mut self) {
        self.stream = None;
        self.outgoing.clear();
        self.arrived.clear();
        self.expected_bytes = 0;
    }

    /// After an event while `Connecting`: `true` once connected.
    pub(super) fn finish_connecting(&mut self) -> io::Result<bool> {
        let stream = self.stream.as_mut().expect("a connecting connection has a stream");
        if let Some(error) = stream.take_error()? {
            return Err(error);
        }
        match stream.peer_addr() {
            Ok(_) => {
                stream.set_nodelay(true)?;
                self.state = State::Asked;
                Ok(true)
            }
            Err(error) if error.kind() == ErrorKind::NotConnected => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Sends a request on an open connection; what the kernel does not take is kept for `flush`.
    pub(super) fn send(&mut self, request: &[u8]) -> io::Result<()> {
        self.state = State::Asked;
        self.begun = false;
        let stream = self.stream.as_mut().expect("only open connections are sent on");
        let written = write_some(stream, request)?;
        self.begun = written > 0;
        self.outgoing.extend_from_slice(&request[written..]);
        Ok(())
    }

    pub(super) fn flush(&mut self) -> io::Result<()> {
        let stream = self.stream.as_mut().expect("only open connections are flushed");
        let written = write_some(stream, &self.outgoing)?;
        self.begun |= written > 0;
        self.outgoing.drain(..written);
        Ok(())
    }

    /// `Ok(0)` is the end of the stream.
    pub(super) fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let Some(stream) = self.stream.as_mut() else {
            return Err(ErrorKind::WouldBlock.into());
        };
        loop {
            match stream.read(buffer) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                result => return result,
            }
        }
    }

    /// Adds bytes to the answer under way; a whole answer goes to `judge`.
    pub(super) fn receive(&mut self, bytes: &[u8], judge: impl FnOnce(&Head, &[u8])) -> Received {
        if self.arrived.is_empty() {
            return self.assemble(bytes, false, judge);
        }
        let mut arrived = std::mem::take(&mut self.arrived);
        arrived.extend_from_slice(bytes);
        let received = self.assemble(&arrived, true, judge);
        if matches!(received, Received::Part) {
            self.arrived = arrived;
        } else {
            arrived.clear();
            self.arrived = arrived;
        }
        received
    }

    fn assemble(&mut self, bytes: &[u8], kept: bool, judge: impl FnOnce(&Head, &[u8])) -> Received {
        let head = if bytes.len() < self.expected_bytes { Ok(None) } else { response::parse(bytes) };
        match head {
            Ok(Some(head)) if bytes.len() >= head.total_bytes => {
                self.expected_bytes = 0;
                judge(&head, &bytes[head.head_bytes..head.total_bytes]);
                Received::Whole { keep_alive: head.keep_alive, stray: bytes.len() > head.total_bytes }
            }
            Ok(incomplete) => {
                if let Some(head) = incomplete {
                    self.expected_bytes = head.total_bytes;
                }
                if !kept {
                    self.arrived.extend_from_slice(bytes);
                }
                Received::Part
            }
            Err(malformed) => Received::Broken(malformed),
        }
    }
}

fn write_some(stream: &mut TcpStream, bytes: &[u8]) -> io::Result<usize> {
    let mut written = 0;
    while written < bytes.len() {
        match stream.write(&bytes[written..]) {
            Ok(count) => written += count,
            Err(error) if error.kind() == ErrorKind::WouldBlock => break,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(written)
}
