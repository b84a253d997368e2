//! Cuts a connection's input into requests. Keeps only positions: the bytes stay in the caller's buffer,
//! and a request that arrived whole is parsed once and borrowed from there. Knows no socket, so that its
//! tests can feed it any fragmentation.

use crate::net::body::Chunks;
use crate::net::head::{self, Framing, Head, Malformed, Slots, malformed};
use crate::net::limits::Limits;

/// How far the request at the start of the input is known.
#[derive(Debug)]
enum HowFar {
    /// Its head is incomplete; bytes up to here hold no line end that was not looked at.
    Head { seen: usize },
    /// Its head is complete; with its body it takes this many bytes.
    Length { total: usize },
    /// Its head is complete; its chunked body is being decoded in place behind it.
    Chunked { head_bytes: usize, chunks: Chunks },
}

/// What to do next with the input.
#[derive(Debug)]
pub(in crate::net) enum Step<'a> {
    /// One request; the next begins `consumed` bytes on.
    Complete { head: Head<'a>, body: &'a [u8], consumed: usize },
    /// More input is needed, and the client may be waiting for `100 Continue` before it sends it.
    More { send_continue: bool },
    /// A chunked body follows: call [`Framer::decode`], then [`Framer::next`] again.
    Decode,
}

/// The framing state of one connection.
#[derive(Debug)]
pub(in crate::net) struct Framer {
    how_far: HowFar,
    /// The client asked for `100 Continue` and has not got it.
    continue_owed: bool,
}

impl Framer {
    pub(in crate::net) fn new() -> Framer {
        Framer { how_far: HowFar::Head { seen: 0 }, continue_owed: false }
    }

    /// Removes the chunked coding from what has arrived of a chunked body. Returns the new length of the
    /// input, which only shrinks. Does nothing at any other stage.
    pub(in crate::net) fn decode(&mut self, input: &mut [u8]) -> Result<usize, Malformed> {
        match &mut self.how_far {
            HowFar::Chunked { head_bytes, chunks } if chunks.complete().is_none() => {
                Ok(*head_bytes + chunks.decode(&mut input[*head_bytes..])?)
            }
            _ => Ok(input.len()),
        }
    }

    /// Looks for a complete request at the start of `input`. `body_bytes_max` is asked with the head when
    /// a body follows. After an error the connection can't be used any more.
    pub(in crate::net) fn next<'a>(
        &mut self,
        input: &'a [u8],
        slots: &'a mut Slots<'a>,
        limits: &Limits,
        body_bytes_max: impl FnOnce(&Head<'_>) -> usize,
    ) -> Result<Step<'a>, Malformed> {
        match &mut self.how_far {
            HowFar::Head { seen } => {
                // A head that trickles in is parsed again only when a line was completed: `headers_max`
                // bounds how often that is, so a slow client costs no more than a fast one.
                if *seen > 0 && input.len() < limits.head_bytes_max && !input[*seen..].contains(&b'\n') {
                    *seen = input.len();
                    return Ok(Step::More { send_continue: false });
                }
                let Some(head) = head::parse(input, slots, limits)? else {
                    *seen = input.len();
                    return Ok(Step::More { send_continue: false });
                };
                self.begin_body(input, head, body_bytes_max)
            }
            HowFar::Length { total } if input.len() < *total => {
                Ok(Step::More { send_continue: std::mem::take(&mut self.continue_owed) })
            }
            HowFar::Length { total } => {
                let total = *total;
                self.complete(input, slots, limits, total)
            }
            HowFar::Chunked { head_bytes, chunks } => match chunks.complete() {
                Some(body_bytes) => {
                    let total = *head_bytes + body_bytes;
                    self.complete(input, slots, limits, total)
                }
                None => Ok(Step::More { send_continue: std::mem::take(&mut self.continue_owed) }),
            },
        }
    }

    fn begin_body<'a>(
        &mut self,
        input: &'a [u8],
        head: Head<'a>,
        body_bytes_max: impl FnOnce(&Head<'_>) -> usize,
    ) -> Result<Step<'a>, Malformed> {
        match head.framing {
            Framing::Length(0) => Ok(self.hand_out(input, head, 0)),
            Framing::Length(length) => {
                if length > body_bytes_max(&head) {
                    return Err(malformed(413, "the body is too large"));
                }
                if input.len() - head.bytes >= length {
                    return Ok(self.hand_out(input, head, length));
                }
                self.how_far = HowFar::Length { total: head.bytes + length };
                Ok(Step::More { send_continue: head.expects_continue })
            }
            Framing::Chunked => {
                let chunks = Chunks::new(body_bytes_max(&head));
                self.continue_owed = head.expects_continue;
                self.how_far = HowFar::Chunked { head_bytes: head.bytes, chunks };
                Ok(Step::Decode)
            }
        }
    }

    /// The body has arrived: parses the head a second time, because nothing could be borrowed meanwhile.
    fn complete<'a>(
        &mut self,
        input: &'a [u8],
        slots: &'a mut Slots<'a>,
        limits: &Limits,
        total: usize,
    ) -> Result<Step<'a>, Malformed> {
        let head = head::parse(input, slots, limits)?.expect("the same bytes were a complete head before");
        let body_bytes = total - head.bytes;
        Ok(self.hand_out(input, head, body_bytes))
    }

    fn hand_out<'a>(&mut self, input: &'a [u8], head: Head<'a>, body_bytes: usize) -> Step<'a> {
        self.how_far = HowFar::Head { seen: 0 };
        self.continue_owed = false;
        let consumed = head.bytes + body_bytes;
        Step::Complete { body: &input[head.bytes..consumed], head, consumed }
    }
}

#[cfg(test)]
mod tests;
