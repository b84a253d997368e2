//! The part of a connection's output that its socket did not take: empty and without memory on the usual
//! path, where an answer is sent straight from the loop's buffer.

use std::io::ErrorKind;

use super::transport::Transport;

/// What became of the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sent {
    All,
    /// The socket is full; a writable event follows.
    Blocked,
    /// The connection is broken.
    Failed,
}

#[derive(Debug, Default)]
pub(super) struct Unsent {
    pending: Vec<u8>,
    /// Bytes of `pending` that are sent.
    sent: usize,
}

impl Unsent {
    pub(super) fn is_empty(&self) -> bool {
        self.pending.is_empty()
    }

    /// Sends what is pending and then `fresh`, and keeps what doesn't fit. Also returns the bytes sent.
    pub(super) fn send(&mut self, transport: &mut Transport, fresh: &[u8]) -> (Sent, usize) {
        if self.pending.is_empty() {
            let (sent, bytes) = send_all(transport, fresh);
            if sent == Sent::Blocked {
                self.pending.extend_from_slice(&fresh[bytes..]);
            }
            return (sent, bytes);
        }
        self.pending.extend_from_slice(fresh);
        let (sent, bytes) = send_all(transport, &self.pending[self.sent..]);
        self.sent += bytes;
        if self.sent == self.pending.len() {
            *self = Unsent::default();
        }
        (sent, bytes)
    }
}

fn send_all(transport: &mut Transport, bytes: &[u8]) -> (Sent, usize) {
    let mut done = 0;
    while done < bytes.len() {
        match transport.write(&bytes[done..]) {
            Ok(0) => return (Sent::Failed, done),
            Ok(written) => done += written,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return (Sent::Blocked, done),
            Err(_) => return (Sent::Failed, done),
        }
    }
    match transport.flush() {
        Ok(()) => (Sent::All, done),
        Err(error) if error.kind() == ErrorKind::WouldBlock => (Sent::Blocked, done),
        Err(_) => (Sent::Failed, done),
    }
}
