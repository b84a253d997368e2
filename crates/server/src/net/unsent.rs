//! The part of a connection's output that its socket did not take: empty and without memory on the usual
//! path, where an answer is sent straight from the loop's buffer.
//!
//! What stands in a prepared answer is kept by reference: a thousand connections that read nothing keep one page.

use std::collections::VecDeque;
use std::io::ErrorKind;
use std::sync::Arc;

use super::response::SharedPart;
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
    /// In order; none is empty.
    pending: VecDeque<Piece>,
}

/// Bytes to send, from some place on.
#[derive(Debug)]
struct Piece {
    bytes: Arc<[u8]>,
    sent: usize,
}

impl Unsent {
    pub(super) fn is_empty(&self) -> bool {
        self.pending.is_empty()
    }

    /// Sends what is pending and then `fresh`, and keeps what doesn't fit. Also returns the bytes sent. `shared` says where
    /// prepared answers stand in `fresh`, in order.
    pub(super) fn send(
        &mut self,
        transport: &mut Transport,
        fresh: &[u8],
        shared: &[SharedPart],
    ) -> (Sent, usize) {
        if self.pending.is_empty() {
            let (sent, bytes) = send_all(transport, fresh);
            if sent == Sent::Blocked {
                self.keep(fresh, shared, bytes);
            }
            return (sent, bytes);
        }
        self.keep(fresh, shared, 0);
        let mut done = 0;
        while let Some(piece) = self.pending.front_mut() {
            let (sent, bytes) = send_all(transport, &piece.bytes[piece.sent..]);
            piece.sent += bytes;
            done += bytes;
            if piece.sent == piece.bytes.len() {
                self.pending.pop_front();
            }
            if sent != Sent::All {
                return (sent, done);
            }
        }
        self.pending = VecDeque::new();
        (Sent::All, done)
    }

    /// Keeps `fresh` from this place on.
    fn keep(&mut self, fresh: &[u8], shared: &[SharedPart], mut at: usize) {
        for part in shared {
            let end = part.at + part.bytes.len() - part.from;
            if at < part.at {
                self.keep_copy(&fresh[at..part.at]);
                at = part.at;
            }
            if at < end {
                let sent = part.from + (at - part.at);
                self.pending.push_back(Piece { bytes: Arc::clone(&part.bytes), sent });
                at = end;
            }
        }
        self.keep_copy(&fresh[at..]);
    }

    fn keep_copy(&mut self, bytes: &[u8]) {
        if !bytes.is_empty() {
            self.pending.push_back(Piece { bytes: bytes.into(), sent: 0 });
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_what_was_not_sent_and_prepared_answers_are_kept_by_reference() {
        let page: Arc<[u8]> = (0..100).collect();
        let fresh = [b"head".as_slice(), &page[10..], b"between", &page[10..], b"end"].concat();
        let at = |at| SharedPart { at, bytes: Arc::clone(&page), from: 10 };
        let shared = [at(4), at(4 + 90 + 7)];
        for begin in 0..=fresh.len() {
            let mut unsent = Unsent::default();
            unsent.keep(&fresh, &shared, begin);
            let kept: Vec<u8> =
                unsent.pending.iter().flat_map(|piece| &piece.bytes[piece.sent..]).copied().collect();
            assert_eq!(kept, fresh[begin..], "from {begin}");
            let own: usize = unsent
                .pending
                .iter()
                .filter(|piece| !Arc::ptr_eq(&piece.bytes, &page))
                .map(|piece| piece.bytes.len())
                .sum();
            assert!(own <= 14 && unsent.pending.iter().all(|piece| piece.sent < piece.bytes.len()));
            assert_eq!(unsent.is_empty(), begin == fresh.len());
        }
    }
}
