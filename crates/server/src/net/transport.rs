//! The byte stream under a connection: a plain socket, or TLS over one. Non-blocking: every call returns
//! `WouldBlock` rather than wait. Must not know HTTP.

use std::io::{self, ErrorKind, Read, Write};
use std::net::Shutdown;

use mio::net::TcpStream;
use rustls::ServerConnection;

#[derive(Debug)]
pub(super) enum Transport {
    Plain(TcpStream),
    Tls(Box<TlsStream>),
}

#[derive(Debug)]
pub(super) struct TlsStream {
    socket: TcpStream,
    session: ServerConnection,
}

impl Transport {
    pub(super) fn tls(socket: TcpStream, session: ServerConnection) -> Transport {
        Transport::Tls(Box::new(TlsStream { socket, session }))
    }

    /// Whether a read that didn't fill its buffer has emptied the socket. Under TLS it says nothing:
    /// only `WouldBlock` does.
    pub(super) fn short_read_means_empty(&self) -> bool {
        matches!(self, Transport::Plain(_))
    }

    /// Reads plain text. `Ok(0)` is the end of the stream; `buffer` is never empty.
    pub(super) fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let result = match self {
                Transport::Plain(socket) => socket.read(buffer),
                Transport::Tls(stream) => stream.read(buffer),
            };
            match result {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                result => return result,
            }
        }
    }

    /// Takes as much plain text as fits (`bytes` is never empty); what it took may still wait for [`flush`](Transport::flush).
    pub(super) fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        loop {
            let result = match self {
                Transport::Plain(socket) => socket.write(bytes),
                Transport::Tls(stream) => stream.write(bytes),
            };
            match result {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                result => return result,
            }
        }
    }

    /// Sends what TLS holds back; `WouldBlock` if not all of it could be sent.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        match self {
            Transport::Plain(_) => Ok(()),
            Transport::Tls(stream) => stream.send_records(),
        }
    }

    /// TLS records wait to be sent.
    pub(super) fn wants_flush(&self) -> bool {
        match self {
            Transport::Plain(_) => false,
            Transport::Tls(stream) => stream.session.wants_write(),
        }
    }

    pub(super) fn is_handshaking(&self) -> bool {
        match self {
            Transport::Plain(_) => false,
            Transport::Tls(stream) => stream.session.is_handshaking(),
        }
    }

    /// Ends our direction: the client sees the end of the answer while we still read.
    /// Best effort, because the connection is being given up.
    pub(super) fn end_writing(&mut self) {
        self.say_goodbye();
        let socket = match self {
            Transport::Plain(socket) => socket,
            Transport::Tls(stream) => &mut stream.socket,
        };
        if let Err(error) = socket.shutdown(Shutdown::Write) {
            tracing::trace!(%error, "shutdown of a connection's write side");
        }
    }

    /// TLS: reports to the client that the answer is complete and was not cut. Best effort, like `end_writing`.
    pub(super) fn say_goodbye(&mut self) {
        if let Transport::Tls(stream) = self {
            stream.session.send_close_notify();
            if let Err(error) = stream.send_records() {
                tracing::trace!(%error, "close_notify could not be sent");
            }
        }
    }

    /// Reads raw bytes only to drop them.
    pub(super) fn discard(&mut self, scratch: &mut [u8]) -> io::Result<usize> {
        match self {
            Transport::Plain(socket) => socket.read(scratch),
            Transport::Tls(stream) => stream.socket.read(scratch),
        }
    }
}

impl TlsStream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.session.reader().read(buffer) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                // The end without close_notify: whole requests that came before it still count, and a
                // truncated one is seen by its framing.
                Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(0),
                result => return result,
            }
            let received = self.session.read_tls(&mut self.socket)?;
            let processed = self.session.process_new_packets();
            // Handshake messages and alerts go out at once; what doesn't fit waits for a writable event.
            match self.send_records() {
                Err(error) if error.kind() != ErrorKind::WouldBlock => return Err(error),
                _ => {}
            }
            if let Err(error) = processed {
                return Err(io::Error::new(ErrorKind::InvalidData, error));
            }
            if received == 0 && self.session.is_handshaking() {
                return Ok(0);
            }
        }
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        loop {
            let taken = self.session.writer().write(bytes)?;
            match self.send_records() {
                Err(error) if error.kind() != ErrorKind::WouldBlock || taken == 0 => return Err(error),
                // The session was full of records from before and has room now. To say WouldBlock here
                // would be to wait for an event that never comes: the socket did not block.
                Ok(()) if taken == 0 => {}
                _ => return Ok(taken),
            }
        }
    }

    fn send_records(&mut self) -> io::Result<()> {
        while self.session.wants_write() {
            match self.session.write_tls(&mut self.socket) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}
