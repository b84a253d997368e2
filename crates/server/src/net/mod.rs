//! Sockets, HTTP/1.1 framing and TLS, and nothing of orders.
//!
//! One thread runs one [`EventLoop`]: it owns an epoll instance and its connections, parses requests in
//! place and hands each complete one to its [`Service`]. The service answers at once, or keeps the
//! [`Ticket`] and delivers the answer later, when another thread (the book writer) has woken the loop.
//!
//! Must not: know a route, block, or allocate per request on the usual path.

mod body;
mod connection;
mod date;
mod descriptors;
mod event_loop;
mod framer;
#[cfg(fuzzing)]
pub mod fuzzing;
mod head;
mod limits;
mod listen;
mod network;
mod proxies;
mod replies;
mod response;
mod shared;
mod stats;
mod stop;
mod tls;
mod transport;
mod unsent;

pub use descriptors::{connections_within, raise_limit};
pub use event_loop::EventLoop;
pub(crate) use event_loop::SWEEP_EVERY;
pub use limits::Limits;
pub use listen::{check_address, listen};
pub(crate) use network::network_of;
pub use proxies::TrustedProxies;
pub use replies::Replies;
pub(crate) use response::push_number;
pub use response::{Prepared, ResponseWriter};
pub use stats::NetStats;
pub use stop::{Stop, Waker};
pub use tls::{Tls, TlsError};

/// Names one request that is waiting for its answer. Stale tickets (the connection is gone) are ignored on
/// delivery. One request at a time is in flight on a connection; pipelined ones wait in its input buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket {
    /// Index of the connection in the loop's slab.
    pub connection: u32,
    /// Changes each time a request is handed out, so that a ticket is never mistaken for a later one.
    pub generation: u32,
}

/// What a service did with a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The answer stands in the response buffer.
    Ready,
    /// The answer follows through [`Service::deliver`]; nothing was written to the response buffer.
    Later,
    /// The answer's beginning stands in the response buffer ([`ResponseWriter::begin`]). Its parts follow through
    /// [`Replies::part`], as long as there is somebody who reads them; its end is that of the connection.
    Parts,
}

/// One complete request, borrowed from the connection's input buffer. Percent-decoding is the service's.
#[derive(Debug)]
pub struct HttpRequest<'a> {
    pub method: &'a str,
    /// Without the query.
    pub path: &'a str,
    /// After the `?`, still encoded; empty if there is none.
    pub query: &'a str,
    pub headers: &'a [httparse::Header<'a>],
    /// Complete and with any chunked coding removed; at most what [`Service::body_bytes_max`] allowed.
    pub body: &'a [u8],
    pub peer: std::net::SocketAddr,
    /// The connection is TLS.
    pub secure: bool,
}

impl<'a> HttpRequest<'a> {
    /// The first header of this name (case-insensitive) as text; `None` if absent or not UTF-8.
    pub fn header(&self, name: &str) -> Option<&'a str> {
        self.headers
            .iter()
            .find(|header| header.name.eq_ignore_ascii_case(name))
            .and_then(|header| std::str::from_utf8(header.value).ok())
    }
}

/// What runs on an event loop. One instance per loop thread, so it may keep state without locks.
pub trait Service {
    /// Upper bound of this request's body in bytes, asked once its head is here and before its body is read; a
    /// larger one is 413. What is granted may be buffered: the headers say whether the sender may ask for it.
    fn body_bytes_max(&self, method: &str, path: &str, headers: &[httparse::Header<'_>]) -> usize;

    /// Handles one complete request. Must not block.
    fn call(
        &mut self,
        request: &HttpRequest<'_>,
        ticket: Ticket,
        response: &mut ResponseWriter<'_>,
    ) -> Answer;

    /// After all requests of one poll round were handed out: the place to pass a batch on.
    fn round_ended(&mut self);

    /// Delivers the answers that became ready since; called once per poll round. For each, the service
    /// calls [`Replies::reply`] with the ticket and fills in the response.
    fn deliver(&mut self, replies: &mut Replies<'_>);

    /// Writes an error that the net layer itself found (400, 408, 413, 414/431, 501, 503, 505) in the
    /// service's own error format. `detail` says what to do about it.
    fn protocol_error(&mut self, status: u16, detail: &str, response: &mut ResponseWriter<'_>);
}
