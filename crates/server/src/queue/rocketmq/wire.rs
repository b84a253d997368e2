//! The bytes of one connection, plain or in TLS, on a socket that does not block; and what a server means that ends it.
//!
//! The TLS handshake needs no step of its own: what is written waits in memory until it is over, and goes out with the
//! reading that ends it.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd};

use rustls::ClientConnection;

use super::connection::{Lost, NotWritten};
use crate::queue::Tls;
use crate::tls_fault::{TlsKeys, explain};

const KEYS: TlsKeys = TlsKeys {
    off: "queue.tls = false",
    authority: "queue.tls_authority_file",
    name: "set queue.tls_server_name",
    client: "check queue.tls_certificate_file and queue.tls_key_file",
};

#[derive(Debug)]
pub(super) struct Wire {
    stream: TcpStream,
    tls: Option<Box<ClientConnection>>,
}

impl Wire {
    pub(super) fn new(stream: TcpStream, address: &str, tls: Option<&Tls>) -> Result<Wire, Lost> {
        let Some(tls) = tls else { return Ok(Wire { stream, tls: None }) };
        let wrong = |why: String| Lost::Refused(format!("{why}; set queue.tls_server_name"));
        let name = tls.name_of(address).ok_or_else(|| wrong(format!("{address} has no name for TLS")))?;
        let connection = ClientConnection::new(tls.config.clone(), name);
        let mut connection = connection.map_err(|error| wrong(error.to_string()))?;
        // One request at a time, which is bounded itself.
        connection.set_buffer_limit(None);
        Ok(Wire { stream, tls: Some(Box::new(connection)) })
    }

    pub(super) fn stream(&self) -> &TcpStream {
        &self.stream
    }

    /// Sends it all; `wait` waits until the socket takes more. During the handshake it is only laid aside.
    pub(super) fn write_all(
        &mut self,
        mut left: &[u8],
        mut wait: impl FnMut(&TcpStream) -> Result<(), Lost>,
    ) -> Result<(), NotWritten> {
        let Wire { stream, tls } = self;
        let mut begun = false;
        if let Some(tls) = tls {
            tls.writer().write_all(left).map_err(|error| NotWritten { begun, lost: error.into() })?;
        }
        loop {
            let step = match tls {
                Some(tls) if !tls.wants_write() => return Ok(()),
                None if left.is_empty() => return Ok(()),
                Some(tls) => tls.write_tls(stream),
                None => stream.write(left),
            };
            let result = match step {
                Ok(bytes) => {
                    begun |= bytes > 0;
                    if tls.is_none() {
                        left = &left[bytes..];
                    }
                    Ok(())
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => wait(stream),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(()),
                Err(error) => Err(error.into()),
            };
            result.map_err(|lost| NotWritten { begun, lost })?;
        }
    }

    /// Reads some of what has arrived; 0: nothing has.
    pub(super) fn read(&mut self, into: &mut [u8]) -> Result<usize, Lost> {
        let Wire { stream, tls } = self;
        loop {
            let step = match tls {
                None => stream.read(into),
                Some(tls) => match tls.reader().read(into) {
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => match tls.read_tls(stream) {
                        Ok(bytes) if bytes > 0 => {
                            advance(tls, stream)?;
                            continue;
                        }
                        step => step,
                    },
                    step => step,
                },
            };
            match step {
                Ok(0) => return Err(io::Error::new(io::ErrorKind::UnexpectedEof, CLOSED).into()),
                Ok(bytes) => return Ok(bytes),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(0),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// What a server probably means that closes a connection before it has answered anything.
    pub(super) fn why_closed(&self) -> &'static str {
        match &self.tls {
            None => {
                "it closed the connection without an answer: if its tlsMode is enforcing, set queue.tls = true"
            }
            Some(tls) if tls.is_handshaking() => {
                "it closed the connection in the TLS handshake: if its tlsMode is disabled, set queue.tls = false"
            }
            Some(_) => {
                "it closed the connection after the TLS handshake: if it wants a certificate of ours, set \
                 queue.tls_certificate_file and queue.tls_key_file"
            }
        }
    }
}

const CLOSED: &str = "the server closed the connection";

/// Takes in what was read, and sends what the protocol answers to that.
fn advance(tls: &mut ClientConnection, stream: &mut TcpStream) -> Result<(), Lost> {
    let taken = tls.process_new_packets();
    while tls.wants_write() {
        match tls.write_tls(stream) {
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            // The next reading goes on with it.
            Err(_) => break,
        }
    }
    taken.map(drop).map_err(|error| {
        let error = error.to_string();
        Lost::Refused(explain(&error, &KEYS).unwrap_or(error))
    })
}

impl AsFd for Wire {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}
