//! One connection: takes its input apart, hands requests to the service, sends answers, and knows when it
//! is over. It borrows the loop's scratch buffers; its own are used only for what is left over (an
//! incomplete request, an answer that the socket didn't take), so an idle connection holds no memory.
//!
//! Must not block, and must not touch epoll: it is registered once, edge-triggered, so it has to remember
//! whether its socket may have more to read.

use std::io::ErrorKind;
use std::mem::{self, MaybeUninit};
use std::net::SocketAddr;
use std::ops::Range;
use std::time::Duration;

use super::framer::{Framer, Step};
use super::head::{Head, Malformed, malformed};
use super::limits::HEADER_SLOTS;
use super::response::{ResponseWriter, Shape};
use super::shared::{LoopShared, millis};
use super::transport::Transport;
use super::unsent::{Sent, Unsent};
use super::{Answer, HttpRequest, Service, Ticket};

/// Reads of one connection in one round; then the others get their turn.
const READS_PER_ROUND: u32 = 4;
/// How long a connection that was answered with input unread is read on, so that the client can see the
/// answer: closing at once would reset the connection, and a reset discards what the client hasn't read.
const LINGER: Duration = Duration::from_secs(2);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Takes requests.
    Open,
    /// A request is with the service, under this generation.
    Waiting { generation: u32 },
    /// The beginning of an answer is on its way, and its parts follow.
    InParts { generation: u32 },
    /// Closes once the output is sent; `linger` if input is unread.
    Closing { linger: bool },
    /// The output is sent and our direction is shut; input is read and dropped.
    Lingering,
}

/// Which limit runs for the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Timer {
    None,
    Idle,
    Request,
    Write,
    Linger,
}

/// What the loop has to do with a connection after it was driven.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    Keep,
    /// It has more to read, but had its turn in this round.
    Again,
    Close,
}

#[derive(Debug)]
pub(super) struct Connection {
    transport: Transport,
    pub(super) peer: SocketAddr,
    state: State,
    /// The socket may have input: an event said so and no read has come up short since.
    readable: bool,
    /// An event announced the client's FIN: a short read is not the last one.
    fin_announced: bool,
    /// The FIN was read.
    eof: bool,
    /// The input buffer holds no complete request.
    hungry: bool,
    /// The client wants to keep the connection, and the version and method of its last request.
    keep_alive: bool,
    shape: Shape,
    timer: Timer,
    deadline_ms: u64,
    framer: Framer,
    /// What was read and not consumed.
    input: Vec<u8>,
    unsent: Unsent,
    /// It was turned away over the connection limit and doesn't count towards it.
    pub(super) refused: bool,
    /// It is in the loop's list for the next round.
    pub(super) queued: bool,
}

impl Connection {
    pub(super) fn new(transport: Transport, peer: SocketAddr, shared: &LoopShared) -> Connection {
        let mut connection = Connection {
            transport,
            peer,
            state: State::Open,
            readable: false,
            fin_announced: false,
            eof: false,
            hungry: false,
            keep_alive: false,
            shape: Shape::default(),
            timer: Timer::None,
            deadline_ms: u64::MAX,
            framer: Framer::new(),
            input: Vec::new(),
            unsent: Unsent::default(),
            refused: false,
            queued: false,
        };
        connection.arm(shared);
        connection
    }

    /// Notes what an event said; the caller drives the connection afterwards.
    pub(super) fn note_readable(&mut self, fin: bool) {
        self.readable = true;
        self.fin_announced |= fin;
    }

    /// Makes the next drive read once, event or not. A connection that waits for an answer is left alone:
    /// only its events show whether another request has followed.
    pub(super) fn look_again(&mut self) {
        self.readable |= self.state == State::Open;
    }

    /// Does all that can be done now: sends, takes buffered requests, reads.
    pub(super) fn drive(&mut self, index: u32, shared: &mut LoopShared, service: &mut impl Service) -> Fate {
        let mut reads = 0;
        let sent_before = shared.tally.bytes_out;
        let mut sent = self.send(shared);
        loop {
            match sent {
                Sent::All => {}
                Sent::Blocked => break,
                Sent::Failed => return Fate::Close,
            }
            match self.state {
                State::Open => {}
                State::Waiting { .. } => break,
                // It has no end of its own: whoever has gone, or is asked to go, misses nothing.
                State::InParts { .. } if self.fin_announced || shared.draining => return Fate::Close,
                State::InParts { .. } => break,
                State::Closing { linger: false } => return Fate::Close,
                State::Closing { linger: true } => {
                    self.transport.end_writing();
                    self.state = State::Lingering;
                    return self.linger(shared);
                }
                State::Lingering => return self.linger(shared),
            }
            let has_request = !self.input.is_empty() && !self.hungry;
            let had_turn = reads == READS_PER_ROUND
                || shared.tally.bytes_out - sent_before >= shared.limits.turn_bytes_max as u64;
            if had_turn && (has_request || (self.readable && !self.eof)) {
                self.arm(shared);
                return Fate::Again;
            }
            if has_request {
                self.take_buffered(index, shared, service);
            } else if self.eof {
                return Fate::Close;
            } else if self.readable {
                reads += 1;
                if !self.read(index, shared, service) {
                    return Fate::Close;
                }
            } else if shared.draining && self.is_idle() {
                return Fate::Close;
            } else {
                break;
            }
            sent = self.send(shared);
        }
        self.arm(shared);
        Fate::Keep
    }

    /// No byte of a request is here, none is being answered, and TLS is not in its handshake.
    fn is_idle(&self) -> bool {
        self.state == State::Open && self.input.is_empty() && !self.transport.is_handshaking()
    }

    /// The socket holds input, as far as that is known: TLS has to try.
    fn has_unread(&self) -> bool {
        self.readable && !self.eof && self.transport.short_read_means_empty()
    }

    fn has_pending_output(&self) -> bool {
        !self.unsent.is_empty() || self.transport.wants_flush()
    }

    /// Drops what the client still sends, until it is done or the time is up.
    fn linger(&mut self, shared: &mut LoopShared) -> Fate {
        self.arm(shared);
        if self.eof {
            return Fate::Close;
        }
        for _ in 0..READS_PER_ROUND {
            match self.transport.discard(&mut shared.scratch) {
                Ok(0) => return Fate::Close,
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Fate::Keep,
                Err(_) => return Fate::Close,
            }
        }
        Fate::Again
    }

    /// Takes requests out of the connection's own buffer.
    fn take_buffered(&mut self, index: u32, shared: &mut LoopShared, service: &mut impl Service) {
        let mut input = mem::take(&mut self.input);
        let rest = self.take_requests(index, &mut input, shared, service);
        self.keep_rest(input, rest);
    }

    /// Reads once and takes the requests that are complete. False if the connection is broken.
    fn read(&mut self, index: u32, shared: &mut LoopShared, service: &mut impl Service) -> bool {
        let mut scratch = mem::take(&mut shared.scratch);
        let intact = match self.transport.read(&mut scratch) {
            Ok(0) => {
                self.eof = true;
                self.readable = false;
                true
            }
            Ok(bytes) => {
                shared.tally.bytes_in += bytes as u64;
                if bytes < scratch.len() && self.transport.short_read_means_empty() {
                    self.readable = self.fin_announced;
                }
                if self.input.is_empty() {
                    let rest = self.take_requests(index, &mut scratch[..bytes], shared, service);
                    self.input.extend_from_slice(&scratch[rest]);
                } else {
                    let mut input = mem::take(&mut self.input);
                    input.extend_from_slice(&scratch[..bytes]);
                    let rest = self.take_requests(index, &mut input, shared, service);
                    self.keep_rest(input, rest);
                }
                true
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                self.readable = false;
                true
            }
            Err(_) => false,
        };
        shared.scratch = scratch;
        intact
    }

    /// Puts what was not consumed back into the connection's buffer, or frees it.
    fn keep_rest(&mut self, mut input: Vec<u8>, rest: Range<usize>) {
        if rest.is_empty() {
            return;
        }
        input.truncate(rest.end);
        input.drain(..rest.start);
        self.input = input;
    }

    /// Hands out the complete requests at the start of `bytes`, until one has to wait. Returns what is left.
    fn take_requests(
        &mut self,
        index: u32,
        bytes: &mut [u8],
        shared: &mut LoopShared,
        service: &mut impl Service,
    ) -> Range<usize> {
        let mut rest = 0..bytes.len();
        self.hungry = false;
        while !rest.is_empty()
            && self.state == State::Open
            && shared.out.len() < shared.limits.output_bytes_max
        {
            match self.framer.decode(&mut bytes[rest.clone()]) {
                Ok(bytes) => rest.end = rest.start + bytes,
                Err(malformed) => {
                    self.refuse(malformed, shared, service);
                    break;
                }
            }
            let mut slots = [const { MaybeUninit::uninit() }; HEADER_SLOTS];
            let input = &bytes[rest.clone()];
            let allowed = |head: &Head<'_>| service.body_bytes_max(head.method, head.path, head.headers);
            match self.framer.next(input, &mut slots, &shared.limits, allowed) {
                Ok(Step::Complete { head, body, consumed }) => {
                    rest.start += consumed;
                    let last = rest.is_empty() && !self.has_unread();
                    self.call(index, &head, body, last, shared, service);
                }
                Ok(Step::Decode) => {}
                Ok(Step::More { send_continue }) => {
                    if send_continue {
                        shared.out.extend_from_slice(b"HTTP/1.1 100 Continue\r\n\r\n");
                    }
                    self.hungry = true;
                    break;
                }
                Err(malformed) => self.refuse(malformed, shared, service),
            }
        }
        // What follows a last answer is never read as a request.
        if matches!(self.state, State::Closing { .. }) { 0..0 } else { rest }
    }

    /// Hands one request to the service. `last`: nothing stands behind it in the input.
    fn call(
        &mut self,
        index: u32,
        head: &Head<'_>,
        body: &[u8],
        last: bool,
        shared: &mut LoopShared,
        service: &mut impl Service,
    ) {
        shared.tally.requests += 1;
        self.timer = Timer::None;
        self.keep_alive = head.keep_alive;
        let secure = matches!(self.transport, Transport::Tls(_));
        self.shape =
            Shape { head_only: head.method == "HEAD", http10: head.http10, secure, ..Shape::default() };
        self.shape.keep_alive = self.keeps_alive(last, shared);
        let generation = shared.next_generation();
        let request = HttpRequest {
            method: head.method,
            path: head.path,
            query: head.query,
            headers: head.headers,
            body,
            peer: self.peer,
            secure,
        };
        let mut response =
            ResponseWriter::new((&mut shared.out, &mut shared.out_shared), shared.date.line(), self.shape);
        match service.call(&request, Ticket { connection: index, generation }, &mut response) {
            Answer::Ready => {
                response.finish();
                self.answered(last);
            }
            Answer::Later => {
                response.discard();
                self.state = State::Waiting { generation };
            }
            Answer::Parts => {
                response.finish();
                self.state = if self.shape.head_only {
                    State::Closing { linger: false }
                } else {
                    State::InParts { generation }
                };
            }
        }
    }

    /// Whether the connection stays after the answer that is about to be written. While the loop drains,
    /// and after the client's FIN, only requests that are here already are still taken.
    fn keeps_alive(&self, last: bool, shared: &LoopShared) -> bool {
        self.keep_alive && !(last && (shared.draining || self.eof))
    }

    fn answered(&mut self, last: bool) {
        self.state = if self.shape.keep_alive {
            State::Open
        } else {
            State::Closing { linger: !last || (self.readable && !self.eof) }
        };
    }

    /// Answers a request that can't be served with an error, after which the connection is of no use.
    fn refuse(&mut self, refusal: Malformed, shared: &mut LoopShared, service: &mut impl Service) {
        if refusal.status != 408 {
            shared.tally.protocol_errors += 1;
        }
        let shape = Shape { retry_after: refusal.status == 503, ..Shape::default() };
        let mut response =
            ResponseWriter::new((&mut shared.out, &mut shared.out_shared), shared.date.line(), shape);
        service.protocol_error(refusal.status, refusal.detail, &mut response);
        response.finish();
        self.input = Vec::new();
        self.state = State::Closing { linger: true };
    }

    /// Turns the connection away because there are too many. The caller drives it then.
    pub(super) fn refuse_over_limit(&mut self, shared: &mut LoopShared, service: &mut impl Service) {
        self.refused = true;
        self.refuse(malformed(503, "too many connections; try again in a moment"), shared, service);
    }

    /// Whether the running limit was reached.
    pub(super) fn is_overdue(&self, now_ms: u64) -> bool {
        self.deadline_ms <= now_ms
    }

    /// Ends the connection because its limit was reached; a client in the middle of a request is answered 408.
    pub(super) fn expire(&mut self, index: u32, shared: &mut LoopShared, service: &mut impl Service) -> Fate {
        match self.timer {
            Timer::None => return Fate::Keep,
            Timer::Idle | Timer::Linger => return Fate::Close,
            Timer::Request | Timer::Write => shared.tally.timeouts += 1,
        }
        if self.timer == Timer::Write || self.transport.is_handshaking() {
            return Fate::Close;
        }
        self.refuse(malformed(408, "the request did not arrive in time"), shared, service);
        self.drive(index, shared, service)
    }

    /// Takes the answer to the request with this generation; false if it isn't the one waiting.
    /// Returns whether the connection has to be driven afterwards.
    pub(super) fn reply(
        &mut self,
        generation: u32,
        shared: &mut LoopShared,
        write: impl FnOnce(&mut ResponseWriter<'_>),
    ) -> Option<bool> {
        if self.state != (State::Waiting { generation }) {
            return None;
        }
        let last = self.input.is_empty() && !self.has_unread();
        self.shape.keep_alive = self.keeps_alive(last, shared);
        let mut response =
            ResponseWriter::new((&mut shared.out, &mut shared.out_shared), shared.date.line(), self.shape);
        write(&mut response);
        response.finish();
        self.answered(last);
        if self.send(shared) == Sent::Failed {
            self.state = State::Closing { linger: false };
        }
        self.arm(shared);
        Some(self.state != State::Open || self.readable || self.eof || !last)
    }

    /// Sends a part of the answer with this generation; false if that is over. A client that has not taken an earlier part
    /// yet goes without this one, and is cut when the limit for writing is reached.
    pub(super) fn part(&mut self, generation: u32, shared: &mut LoopShared, bytes: &[u8]) -> bool {
        if self.state != (State::InParts { generation }) {
            return false;
        }
        if self.has_pending_output() {
            return true;
        }
        shared.out.extend_from_slice(bytes);
        if self.send(shared) == Sent::Failed {
            self.state = State::Closing { linger: false };
        }
        self.arm(shared);
        true
    }

    /// Whether the client has taken all parts so far; `None` if the answer with this generation is over.
    pub(super) fn has_taken_parts(&self, generation: u32) -> Option<bool> {
        (self.state == State::InParts { generation }).then(|| !self.has_pending_output())
    }

    /// Closes once the parts of the answer with this generation are sent; false if that was over.
    pub(super) fn end_parts(&mut self, generation: u32) -> bool {
        let is_open = self.state == (State::InParts { generation });
        if is_open {
            self.state = State::Closing { linger: false };
        }
        is_open
    }

    /// Sends what was assembled in the shared buffer, after anything that is pending; keeps the rest.
    fn send(&mut self, shared: &mut LoopShared) -> Sent {
        if shared.out.is_empty() && !self.has_pending_output() {
            return Sent::All;
        }
        let (sent, bytes) = self.unsent.send(&mut self.transport, &shared.out, &shared.out_shared);
        shared.tally.bytes_out += bytes as u64;
        shared.clear_output();
        sent
    }

    /// Tries once more to send what is pending, for a loop that ends now.
    pub(super) fn send_last(&mut self, shared: &mut LoopShared) {
        self.send(shared);
        self.say_goodbye();
    }

    /// To be called before the connection is dropped: TLS says that nothing was cut.
    pub(super) fn say_goodbye(&mut self) {
        self.transport.say_goodbye();
    }

    /// Starts the limit that fits the state, unless it is running already.
    fn arm(&mut self, shared: &LoopShared) {
        let limits = &shared.limits;
        let (timer, limit) = if self.has_pending_output() {
            (Timer::Write, limits.write_timeout)
        } else {
            match self.state {
                State::Waiting { .. } | State::InParts { .. } => (Timer::None, Duration::MAX),
                State::Closing { .. } => (Timer::Write, limits.write_timeout),
                State::Lingering => (Timer::Linger, LINGER),
                State::Open if self.is_idle() => (Timer::Idle, limits.idle_timeout),
                State::Open => (Timer::Request, limits.request_timeout),
            }
        };
        if timer != self.timer {
            self.timer = timer;
            self.deadline_ms = shared.now_ms.saturating_add(millis(limit));
        }
    }
}
