//! HTTP/1.1: whole answers are found by their length and judged by a [`Workload`].

pub(crate) mod buyers;
pub mod once;
pub(crate) mod response;
pub(crate) mod traffic;

use crate::load::record::Outcome;
use crate::load::{ConnectionId, Protocol, Received, Verdicts};

pub use crate::load::{Reuse, RunError, Settings, Spread};

/// Bytes of an unexpected answer that are kept, to show a person what went wrong.
const SURPRISE_BYTES_MAX: usize = 400;

/// What is asked, and what the answers mean.
pub trait Workload {
    /// The bytes of the next request, its head complete with its `Content-Length`.
    fn request(&mut self) -> &[u8];
    /// The meaning of one whole answer.
    fn judge(&mut self, status: u16, body: &[u8]) -> Outcome;
}

/// A workload, and who hears of each answer that accepts an order.
#[derive(Debug)]
pub(crate) struct Heard<'a, W, F> {
    pub(crate) inner: &'a mut W,
    pub(crate) won: F,
}

impl<W: Workload, F: FnMut(&[u8])> Workload for Heard<'_, W, F> {
    fn request(&mut self) -> &[u8] {
        self.inner.request()
    }

    fn judge(&mut self, status: u16, body: &[u8]) -> Outcome {
        let outcome = self.inner.judge(status, body);
        if outcome == Outcome::Won {
            (self.won)(body);
        }
        outcome
    }
}

#[derive(Debug)]
pub struct Http<'a, W> {
    pub workload: &'a mut W,
}

impl<W: Workload> Protocol for Http<'_, W> {
    fn request(&mut self, _user: usize, out: &mut Vec<u8>) -> usize {
        out.extend_from_slice(self.workload.request());
        0
    }

    fn receive(&mut self, _connection: ConnectionId, bytes: &[u8], verdicts: &mut Verdicts) -> Received {
        whole(bytes, verdicts, |status, body| self.workload.judge(status, body))
    }
}

/// Takes an answer, once all of it is there.
fn whole(bytes: &[u8], verdicts: &mut Verdicts, judge: impl FnOnce(u16, &[u8]) -> Outcome) -> Received {
    match response::parse(bytes) {
        Ok(Some(head)) if bytes.len() >= head.total_bytes => {
            let body = &bytes[head.head_bytes..head.total_bytes];
            let outcome = judge(head.status, body);
            verdicts.add(outcome);
            verdicts.body(body.len());
            if matches!(outcome, Outcome::Failed | Outcome::Unknown) {
                verdicts.surprise(|| surprise(head.status, body));
            }
            Received::Whole { consumed: head.total_bytes, keep_alive: head.keep_alive }
        }
        Ok(_) => Received::Part { consumed: 0 },
        Err(malformed) => Received::Broken(malformed.0),
    }
}

fn surprise(status: u16, body: &[u8]) -> String {
    let body = String::from_utf8_lossy(&body[..body.len().min(SURPRISE_BYTES_MAX)]);
    format!("{status} {body}").trim_end().to_owned()
}
