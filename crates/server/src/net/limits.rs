//! The bounds of one event loop: connections, sizes and times. Every buffer and every wait of the net layer
//! is limited by one of these. Filled in by the config, checked by `EventLoop::new`.

use std::io;
use std::time::Duration;

use super::proxies::TrustedProxies;

/// Slots that the parser keeps for headers; `headers_max` can't be above it.
pub(super) const HEADER_SLOTS: usize = 128;

/// The bounds of one [`EventLoop`](super::EventLoop). Memory for input is at most `connections_max` times
/// the head, the largest body that the service allows, and one read of 64 KiB; an idle connection holds no
/// buffer at all.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Open connections of this loop. Above it a new one is answered 503 with `Retry-After` and closed.
    pub connections_max: usize,
    /// Of these, of one address (IPv6: of one network of 64 bits). Holds while connections are short, when a quarter or less
    /// is left: that is for others, however many one address has opened.
    pub connections_per_address_max: usize,
    /// Those whose connections are not counted by address: everybody comes from there.
    pub trusted_proxies: TrustedProxies,
    /// Bytes of a request line and its headers together; 414 or 431 above it.
    pub head_bytes_max: usize,
    /// Header lines of a request, at most 128; 431 above it.
    pub headers_max: usize,
    /// From a request's first byte to its last, and the whole TLS handshake; then 408 and close.
    /// A complete request that waits for its answer is not under this limit.
    pub request_timeout: Duration,
    /// From an answer, or from the accept, to the first byte of the next request; then close.
    pub idle_timeout: Duration,
    /// From the moment a client's socket stopped taking an answer until it has taken all that was pending.
    pub write_timeout: Duration,
    /// From a stop request to the moment the connections still open are cut.
    pub drain: Duration,
    /// Bytes of answers that may pile up for pipelined requests before the next one has to wait until they
    /// are sent. One single answer may be larger.
    pub output_bytes_max: usize,
    /// Bytes that a connection may be sent in one round; then the others get their turn.
    pub turn_bytes_max: usize,
    /// Bytes that all connections together are sent in one round, before those that are left wait for the next.
    pub round_bytes_max: usize,
    /// Bytes that the system keeps of what a client has not read yet. It doubles what it is asked for.
    pub send_buffer_bytes: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            connections_max: 10_000,
            connections_per_address_max: 7_500,
            trusted_proxies: TrustedProxies::default(),
            head_bytes_max: 16 * 1024,
            headers_max: 64,
            request_timeout: Duration::from_secs(10),
            idle_timeout: Duration::from_secs(60),
            write_timeout: Duration::from_secs(20),
            drain: Duration::from_secs(10),
            output_bytes_max: 64 * 1024,
            turn_bytes_max: 256 * 1024,
            round_bytes_max: 4 * 1024 * 1024,
            send_buffer_bytes: 256 * 1024,
        }
    }
}

impl Limits {
    /// Whether a connection is one too many: while so many are open in all, and so many of them of its address.
    pub(super) fn are_reached(&self, open: usize, of_its_address: usize) -> bool {
        let short = open >= self.connections_max - self.connections_max / 4;
        open >= self.connections_max || (short && of_its_address >= self.connections_per_address_max)
    }

    /// Refuses limits under which no request could be served, or which the loop's indexes can't hold.
    pub(super) fn check(&self) -> io::Result<()> {
        let wrong = if self.connections_max == 0 || self.connections_max > 1 << 30 {
            "connections_max must be 1 to 1073741824"
        } else if self.headers_max == 0 || self.headers_max > HEADER_SLOTS {
            "headers_max must be 1 to 128"
        } else if self.head_bytes_max < 64 {
            "head_bytes_max must be 64 or more"
        } else if self.connections_per_address_max == 0 {
            "connections_per_address_max must be 1 or more"
        } else if self.output_bytes_max == 0 || self.turn_bytes_max == 0 || self.round_bytes_max == 0 {
            "output_bytes_max, turn_bytes_max and round_bytes_max must be 1 or more"
        } else {
            return Ok(());
        };
        Err(io::Error::new(io::ErrorKind::InvalidInput, wrong))
    }
}
