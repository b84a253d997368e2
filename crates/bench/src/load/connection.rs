//! One connection of the generator: what is still to be sent, and what has arrived of the answer.
//!
//! It moves bytes. It decides nothing: the protocol finds where an answer ends, the generator records and reconnects.

use std::io::{self, ErrorKind, Read, Write};
use std::net::SocketAddr;

use mio::net::TcpStream;
use mio::{Interest, Registry, Token};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    /// No request is under way; the stream may be there or not.
    Idle,
    /// The stream is not connected yet; the request, if there is one, waits in `outgoing`.
    Connecting,
    /// The exchange before the first request is under way; the request, if there is one, waits in `waiting`.
    Greeting,
    /// The request is sent or being sent.
    Asked,
}

#[derive(Debug)]
pub(super) struct Connection {
    pub(super) state: State,
    stream: Option<TcpStream>,
    /// There was a stream before, if there is none now.
    pub(super) was_open: bool,
    /// The rest of a request that the kernel did not take at once.
    outgoing: Vec<u8>,
    /// A request that waits until the connection is made and greeted.
    pub(super) waiting: Vec<u8>,
    /// Any byte of the current request was handed to the kernel.
    pub(super) begun: bool,
    /// An answer that came in pieces, so far; empty in the usual case of one read per answer.
    pub(super) arrived: Vec<u8>,
}

impl Connection {
    pub(super) fn closed() -> Self {
        Self {
            state: State::Idle,
            stream: None,
            was_open: false,
            outgoing: Vec::new(),
            waiting: Vec::new(),
            begun: false,
            arrived: Vec::new(),
        }
    }

    /// Blocks until connected; only before a run.
    pub(super) fn open(&mut self, address: SocketAddr, registry: &Registry, token: Token) -> io::Result<()> {
        let named = |error: io::Error| io::Error::new(error.kind(), format!("{address}: {error}"));
        let stream = std::net::TcpStream::connect(address).map_err(named)?;
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
        self.waiting.extend_from_slice(request);
        self.state = State::Connecting;
        Ok(())
    }

    /// Registered once for both directions, edge-triggered: no `epoll_ctl` call per request.
    fn adopt(&mut self, mut stream: TcpStream, registry: &Registry, token: Token) -> io::Result<()> {
        registry.register(&mut stream, token, Interest::READABLE | Interest::WRITABLE)?;
        self.close();
        self.stream = Some(stream);
        self.was_open = true;
        Ok(())
    }

    pub(super) fn is_open(&self) -> bool {
        self.stream.is_some()
    }

    pub(super) fn has_outgoing(&self) -> bool {
        !self.outgoing.is_empty()
    }

    pub(super) fn close(&mut self) {
        self.stream = None;
        self.outgoing.clear();
        self.waiting.clear();
        self.arrived.clear();
        self.begun = false;
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
                Ok(true)
            }
            Err(error) if error.kind() == ErrorKind::NotConnected => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Sends a request on an open connection; what the kernel does not take is kept for `flush`.
    pub(super) fn send(&mut self, request: &[u8]) -> io::Result<()> {
        self.state = State::Asked;
        let (written, result) = self.say(request);
        // Even if it broke in the middle: the server may have all that it needs.
        self.begun = written > 0;
        result
    }

    pub(super) fn send_waiting(&mut self) -> io::Result<()> {
        let mut request = std::mem::take(&mut self.waiting);
        let sent = self.send(&request);
        request.clear();
        self.waiting = request;
        sent
    }

    /// Sends bytes that are no request; how many the kernel took, be there an error or not.
    pub(super) fn say(&mut self, bytes: &[u8]) -> (usize, io::Result<()>) {
        let stream = self.stream.as_mut().expect("only open connections are sent on");
        let (written, result) = write_some(stream, bytes);
        self.outgoing.extend_from_slice(&bytes[written..]);
        (written, result)
    }

    pub(super) fn flush(&mut self) -> io::Result<()> {
        let stream = self.stream.as_mut().expect("only open connections are flushed");
        let (written, result) = write_some(stream, &self.outgoing);
        self.begun |= written > 0 && self.state == State::Asked;
        self.outgoing.drain(..written);
        result
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
}

fn write_some(stream: &mut impl Write, bytes: &[u8]) -> (usize, io::Result<()>) {
    let mut written = 0;
    while written < bytes.len() {
        match stream.write(&bytes[written..]) {
            Ok(count) => written += count,
            Err(error) if error.kind() == ErrorKind::WouldBlock => break,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return (written, Err(error)),
        }
    }
    (written, Ok(()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes some bytes, and then breaks.
    struct Breaking(usize);

    impl Write for Breaking {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let taken = self.0.min(bytes.len());
            self.0 -= taken;
            if taken == 0 { Err(ErrorKind::BrokenPipe.into()) } else { Ok(taken) }
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn what_was_sent_before_it_broke_is_known() {
        let (written, result) = write_some(&mut Breaking(3), b"request");
        assert_eq!((written, result.unwrap_err().kind()), (3, ErrorKind::BrokenPipe));
        let (written, result) = write_some(&mut Breaking(7), b"request");
        assert!(written == 7 && result.is_ok());
    }
}
