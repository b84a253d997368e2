//! Writing a response: assembled directly in the output buffer of the loop, nothing allocated per response.
//! A [`Prepared`] one (the sale page, the stock) is built once and copied; where a large one stands in the buffer is noted,
//! so that what a socket does not take of it need not be kept for that connection alone.

use std::fmt;
use std::sync::Arc;

/// Seconds after which a client that was turned away for lack of room should try again.
const RETRY_AFTER: &[u8] = b"Retry-After: 1\r\n";

/// For a year a browser asks only by TLS whoever has answered it by TLS.
const HSTS: &[u8] = b"Strict-Transport-Security: max-age=31536000\r\n";

/// Prepared answers from this size on are noted: smaller ones are copied as fast.
const SHARED_BYTES_MIN: usize = 4 * 1024;

/// Where a prepared answer stands in the output buffer: from there on, `bytes[from..]`.
#[derive(Clone, Debug)]
pub(super) struct SharedPart {
    pub(super) at: usize,
    pub(super) bytes: Arc<[u8]>,
    pub(super) from: usize,
}

/// What the request and the state of its connection ask of the response.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Shape {
    /// HEAD: the same headers, no body.
    pub(super) head_only: bool,
    /// HTTP/1.0 needs keep-alive confirmed.
    pub(super) http10: bool,
    pub(super) keep_alive: bool,
    /// The connection is TLS.
    pub(super) secure: bool,
    /// The net layer turned the connection away.
    pub(super) retry_after: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Unstarted,
    Headers {
        status: u16,
    },
    Finished,
    /// It was used in the wrong order.
    Misused,
}

/// Writes one response: `head`, any `header`s, then `body` or `empty`; or `prepared` alone.
///
/// Another order is a bug of the service: it is an assertion in debug builds, and otherwise logged and
/// answered 500. Adds `Date`, `Content-Length`, `Connection` and, on TLS, `Strict-Transport-Security` itself.
pub struct ResponseWriter<'a> {
    out: &'a mut Vec<u8>,
    /// Of `out`, in order.
    shared: &'a mut Vec<SharedPart>,
    /// Where this response begins; earlier bytes are answers to pipelined requests.
    start: usize,
    date: &'a [u8],
    shape: Shape,
    state: State,
}

impl fmt::Debug for ResponseWriter<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let written = String::from_utf8_lossy(&self.out[self.start..]);
        f.debug_struct("ResponseWriter").field("state", &self.state).field("written", &written).finish()
    }
}

impl<'a> ResponseWriter<'a> {
    pub(super) fn new(
        (out, shared): (&'a mut Vec<u8>, &'a mut Vec<SharedPart>),
        date: &'a [u8],
        shape: Shape,
    ) -> ResponseWriter<'a> {
        let start = out.len();
        ResponseWriter { out, shared, start, date, shape, state: State::Unstarted }
    }

    /// What `write` would send to a GET on a kept-alive HTTP/1.1 connection, for tests of services.
    /// Its `Date` is the start of 1970.
    pub fn render(write: impl FnOnce(&mut ResponseWriter<'_>)) -> Vec<u8> {
        let (mut out, mut shared) = (Vec::new(), Vec::new());
        let shape = Shape { keep_alive: true, ..Shape::default() };
        let mut writer =
            ResponseWriter::new((&mut out, &mut shared), b"Date: Thu, 01 Jan 1970 00:00:00 GMT\r\n", shape);
        write(&mut writer);
        writer.finish();
        out
    }

    /// Begins the response. `status` is a final one, 200 to 599.
    pub fn head(&mut self, status: u16) -> &mut Self {
        if self.state != State::Unstarted || !(200..=599).contains(&status) {
            return self.misuse("head");
        }
        push_status_line(self.out, status);
        self.connection_headers();
        self.state = State::Headers { status };
        self
    }

    /// Adds a header. Control characters in `value` (a line end would forge headers) become spaces.
    /// `Date`, `Connection`, `Content-Length` and `Content-Type` are written by the other methods.
    pub fn header(&mut self, name: &str, value: &str) -> &mut Self {
        if !matches!(self.state, State::Headers { .. }) {
            return self.misuse("header");
        }
        push_header(self.out, name, value);
        self
    }

    /// Adds headers that are always the same, as they stand: each with its line end.
    pub fn lines(&mut self, lines: &'static str) -> &mut Self {
        debug_assert!(
            lines.strip_suffix("\r\n").is_some_and(|lines| lines.split("\r\n").all(is_header_line)),
            "not header lines: {lines:?}"
        );
        if !matches!(self.state, State::Headers { .. }) {
            return self.misuse("lines");
        }
        self.out.extend_from_slice(lines.as_bytes());
        self
    }

    /// Finishes with a body. Under 204 and 304, which have none, it is left out.
    pub fn body(&mut self, content_type: &str, body: &[u8]) {
        let State::Headers { status } = self.state else {
            self.misuse("body");
            return;
        };
        if has_body(status) {
            push_header(self.out, "Content-Type", content_type);
        }
        self.end(status, body);
    }

    /// Writes a head whose body has no length, and the first part of that: it ends with the connection.
    pub fn begin(&mut self, headers: &[(&str, &str)], content_type: &str, first: &[u8]) {
        if self.state != State::Unstarted {
            self.misuse("begin");
            return;
        }
        self.shape.keep_alive = false;
        self.head(200);
        for (name, value) in headers {
            self.header(name, value);
        }
        push_header(self.out, "Content-Type", content_type);
        self.out.extend_from_slice(b"\r\n");
        if !self.shape.head_only {
            self.out.extend_from_slice(first);
        }
        self.state = State::Finished;
    }

    /// As [`ResponseWriter::begin`], of a body in chunks, each of which its writer frames: a client can tell its end from a cut.
    /// False: HTTP/1.0 knows no chunks, and what comes is taken as it is.
    pub fn begin_chunked(&mut self, headers: &[(&str, &str)], content_type: &str) -> bool {
        let chunked = !self.shape.http10;
        let encoding = chunked.then_some(("Transfer-Encoding", "chunked"));
        let headers: Vec<_> = headers.iter().copied().chain(encoding).collect();
        self.begin(&headers, content_type, b"");
        chunked
    }

    /// Finishes without a body.
    pub fn empty(&mut self) {
        let State::Headers { status } = self.state else {
            self.misuse("empty");
            return;
        };
        self.end(status, b"");
    }

    /// The whole response from a prepared one, at the cost of copying it; with these headers besides.
    pub fn prepared(&mut self, prepared: &Prepared, headers: &[(&str, &str)]) {
        if self.state != State::Unstarted {
            self.misuse("prepared");
            return;
        }
        self.out.extend_from_slice(&prepared.bytes[..prepared.status_line_bytes]);
        self.connection_headers();
        for (name, value) in headers {
            push_header(self.out, name, value);
        }
        let end = if self.shape.head_only { prepared.head_bytes } else { prepared.bytes.len() };
        let from = prepared.status_line_bytes;
        if end == prepared.bytes.len() && end - from >= SHARED_BYTES_MIN {
            let bytes = Arc::clone(&prepared.bytes);
            self.shared.push(SharedPart { at: self.out.len(), bytes, from });
        }
        self.out.extend_from_slice(&prepared.bytes[from..end]);
        self.state = State::Finished;
    }

    fn connection_headers(&mut self) {
        self.out.extend_from_slice(self.date);
        if !self.shape.keep_alive {
            self.out.extend_from_slice(b"Connection: close\r\n");
        } else if self.shape.http10 {
            self.out.extend_from_slice(b"Connection: keep-alive\r\n");
        }
        if self.shape.secure {
            self.out.extend_from_slice(HSTS);
        }
        if self.shape.retry_after {
            self.out.extend_from_slice(RETRY_AFTER);
        }
    }

    fn end(&mut self, status: u16, body: &[u8]) {
        let body = if has_body(status) { body } else { b"" };
        push_head_end(self.out, status, body.len());
        if !self.shape.head_only {
            self.out.extend_from_slice(body);
        }
        self.state = State::Finished;
    }

    /// Keeps the bug visible where it is made, and the client with an answer where it happens anyway.
    fn misuse(&mut self, call: &str) -> &mut Self {
        debug_assert!(false, "ResponseWriter::{call} called in state {:?}", self.state);
        tracing::error!(call, state = ?self.state, "a response was written in the wrong order");
        self.state = State::Misused;
        self
    }

    /// The service is done: an unfinished response becomes a 500.
    pub(super) fn finish(self) {
        if self.state == State::Finished {
            return;
        }
        debug_assert!(false, "a response was left in state {:?}", self.state);
        tracing::error!(state = ?self.state, "a response was not finished");
        self.out.truncate(self.start);
        self.shared.retain(|part| part.at < self.start);
        ResponseWriter::new((self.out, self.shared), self.date, self.shape).head(500).empty();
    }

    /// The answer comes later: nothing may stand in the buffer.
    pub(super) fn discard(self) {
        debug_assert!(self.state == State::Unstarted, "Answer::Later, but a response was begun");
        self.out.truncate(self.start);
        self.shared.retain(|part| part.at < self.start);
    }
}

/// A response that was assembled once: status, headers and body. Only `Date` and `Connection` are filled in
/// when it is sent.
#[derive(Clone)]
pub struct Prepared {
    bytes: Arc<[u8]>,
    status_line_bytes: usize,
    /// With the status line and the empty line.
    head_bytes: usize,
}

impl fmt::Debug for Prepared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let head = String::from_utf8_lossy(&self.bytes[..self.head_bytes]);
        let body_bytes = self.bytes.len() - self.head_bytes;
        f.debug_struct("Prepared").field("head", &head).field("body_bytes", &body_bytes).finish()
    }
}

impl Prepared {
    /// `status` is a final one, 200 to 599; 204 and 304 leave the body out. `content_type` may be empty
    /// when the body is.
    pub fn new(status: u16, headers: &[(&str, &str)], content_type: &str, body: &[u8]) -> Prepared {
        assert!((200..=599).contains(&status), "not a final status: {status}");
        let mut bytes = Vec::with_capacity(256 + body.len());
        push_status_line(&mut bytes, status);
        let status_line_bytes = bytes.len();
        for (name, value) in headers {
            push_header(&mut bytes, name, value);
        }
        let body = if has_body(status) { body } else { b"" };
        if has_body(status) && !content_type.is_empty() {
            push_header(&mut bytes, "Content-Type", content_type);
        }
        push_head_end(&mut bytes, status, body.len());
        let head_bytes = bytes.len();
        bytes.extend_from_slice(body);
        Prepared { bytes: bytes.into(), status_line_bytes, head_bytes }
    }

    /// What it takes of memory.
    pub fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// The body alone.
    pub fn body(&self) -> &[u8] {
        &self.bytes[self.head_bytes..]
    }
}

/// RFC 9110: these never have a body; a Content-Length would describe another response.
fn has_body(status: u16) -> bool {
    status != 204 && status != 304
}

fn push_status_line(out: &mut Vec<u8>, status: u16) {
    // The most frequent lines as one copy each.
    match status {
        200 => out.extend_from_slice(b"HTTP/1.1 200 OK\r\n"),
        201 => out.extend_from_slice(b"HTTP/1.1 201 Created\r\n"),
        202 => out.extend_from_slice(b"HTTP/1.1 202 Accepted\r\n"),
        409 => out.extend_from_slice(b"HTTP/1.1 409 Conflict\r\n"),
        _ => {
            out.extend_from_slice(b"HTTP/1.1 ");
            push_number(out, u64::from(status));
            out.push(b' ');
            out.extend_from_slice(reason(status).as_bytes());
            out.extend_from_slice(b"\r\n");
        }
    }
}

fn is_header_name(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
}

fn is_header_line(line: &str) -> bool {
    let parts = line.split_once(": ");
    parts.is_some_and(|(name, value)| {
        is_header_name(name) && !value.bytes().any(|byte| byte.is_ascii_control())
    })
}

fn push_header(out: &mut Vec<u8>, name: &str, value: &str) {
    debug_assert!(is_header_name(name), "not a header name: {name:?}");
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b": ");
    let start = out.len();
    out.extend_from_slice(value.as_bytes());
    // Without a branch, so that the compiler makes vector instructions of it.
    for byte in &mut out[start..] {
        *byte = if byte.is_ascii_control() { b' ' } else { *byte };
    }
    out.extend_from_slice(b"\r\n");
}

fn push_head_end(out: &mut Vec<u8>, status: u16, body_bytes: usize) {
    if has_body(status) {
        out.extend_from_slice(b"Content-Length: ");
        push_number(out, body_bytes as u64);
        out.extend_from_slice(b"\r\n\r\n");
    } else {
        out.extend_from_slice(b"\r\n");
    }
}

/// Decimal digits without the formatting machinery, which costs several times as much.
pub(crate) fn push_number(out: &mut Vec<u8>, number: u64) {
    out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
}

fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        201 => "Created",
        202 => "Accepted",
        204 => "No Content",
        301 => "Moved Permanently",
        302 => "Found",
        303 => "See Other",
        304 => "Not Modified",
        307 => "Temporary Redirect",
        308 => "Permanent Redirect",
        400 => "Bad Request",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        406 => "Not Acceptable",
        408 => "Request Timeout",
        409 => "Conflict",
        410 => "Gone",
        411 => "Length Required",
        412 => "Precondition Failed",
        413 => "Content Too Large",
        414 => "URI Too Long",
        415 => "Unsupported Media Type",
        417 => "Expectation Failed",
        421 => "Misdirected Request",
        422 => "Unprocessable Content",
        428 => "Precondition Required",
        429 => "Too Many Requests",
        431 => "Request Header Fields Too Large",
        500 => "Internal Server Error",
        501 => "Not Implemented",
        502 => "Bad Gateway",
        503 => "Service Unavailable",
        504 => "Gateway Timeout",
        505 => "HTTP Version Not Supported",
        _ => "Status",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DATE: &[u8] = b"Date: D\r\n";

    fn shaped(shape: Shape, write: impl FnOnce(&mut ResponseWriter<'_>)) -> String {
        let (mut out, mut shared) = (b"before".to_vec(), Vec::new());
        let mut writer = ResponseWriter::new((&mut out, &mut shared), DATE, shape);
        write(&mut writer);
        writer.finish();
        String::from_utf8(out).unwrap().strip_prefix("before").unwrap().to_owned()
    }

    fn kept(write: impl FnOnce(&mut ResponseWriter<'_>)) -> String {
        shaped(Shape { keep_alive: true, ..Shape::default() }, write)
    }

    #[test]
    fn a_body_is_counted() {
        let response = kept(|w| w.head(200).header("X-A", "b").body("text/plain", b"hello"));
        let expected = "HTTP/1.1 200 OK\r\nDate: D\r\nX-A: b\r\nContent-Type: text/plain\r\n\
                        Content-Length: 5\r\n\r\nhello";
        assert_eq!(response, expected);
    }

    #[test]
    fn lines_are_headers_as_they_stand() {
        let by_lines =
            kept(|w| w.head(200).header("X-A", "b").lines("X-B: c\r\nX-C: d e\r\n").body("text/plain", b"x"));
        let one_by_one = kept(|w| {
            w.head(200).header("X-A", "b").header("X-B", "c").header("X-C", "d e").body("text/plain", b"x");
        });
        assert_eq!(by_lines, one_by_one);
        for (line, is_one) in [("X-A: b", true), ("X-A:b", false), (": b", false), ("X-A: b\n", false)] {
            assert_eq!(is_header_line(line), is_one, "{line:?}");
        }
    }

    #[test]
    fn no_body_where_there_is_none() {
        for status in [204, 304] {
            let response = kept(|w| w.head(status).header("ETag", "\"x\"").body("text/plain", b"ignored"));
            assert!(response.ends_with("ETag: \"x\"\r\n\r\n"), "{response}");
            assert!(!response.contains("Content-"), "{response}");
            let prepared = Prepared::new(status, &[("ETag", "\"x\"")], "text/plain", b"ignored");
            assert_eq!(kept(|w| w.prepared(&prepared, &[])), response);
        }
        assert!(kept(|w| w.head(201).empty()).ends_with("\r\nContent-Length: 0\r\n\r\n"));
    }

    #[test]
    fn head_gets_headers_only() {
        let shape = Shape { head_only: true, keep_alive: true, ..Shape::default() };
        let prepared = Prepared::new(200, &[], "text/plain", b"hello");
        let expected = "HTTP/1.1 200 OK\r\nDate: D\r\nContent-Type: text/plain\r\nContent-Length: 5\r\n\r\n";
        assert_eq!(shaped(shape, |w| w.head(200).body("text/plain", b"hello")), expected);
        assert_eq!(shaped(shape, |w| w.prepared(&prepared, &[])), expected);
    }

    #[test]
    fn connection_headers_follow_the_version() {
        let empty = |w: &mut ResponseWriter<'_>| w.head(200).empty();
        assert!(shaped(Shape::default(), empty).contains("\r\nConnection: close\r\n"));
        assert!(!kept(empty).contains("Connection"));
        let confirmed = Shape { http10: true, keep_alive: true, ..Shape::default() };
        assert!(shaped(confirmed, empty).contains("\r\nConnection: keep-alive\r\n"));
        let refused = Shape { retry_after: true, ..Shape::default() };
        assert!(shaped(refused, |w| w.head(503).empty()).contains("\r\nRetry-After: 1\r\n"));
    }

    #[test]
    fn prepared_equals_written() {
        let prepared = Prepared::new(404, &[("X-A", "b")], "text/html", b"<p>none</p>");
        let written = kept(|w| w.head(404).header("X-A", "b").body("text/html", b"<p>none</p>"));
        assert_eq!(kept(|w| w.prepared(&prepared, &[])), written);
        let more = Prepared::new(404, &[], "text/html", b"<p>none</p>");
        assert_eq!(kept(|w| w.prepared(&more, &[("X-A", "b")])), written);
        assert_eq!(prepared.body(), b"<p>none</p>");
    }

    #[test]
    fn it_is_noted_where_a_large_prepared_answer_stands() {
        for (body_bytes, noted) in [(SHARED_BYTES_MIN - 200, 0), (SHARED_BYTES_MIN, 1)] {
            let prepared = Prepared::new(200, &[], "text/plain", &vec![b'x'; body_bytes]);
            let (mut out, mut shared) = (b"before".to_vec(), Vec::new());
            let mut writer = ResponseWriter::new((&mut out, &mut shared), DATE, Shape::default());
            writer.prepared(&prepared, &[("X-A", "b")]);
            writer.finish();
            assert_eq!(shared.len(), noted, "{body_bytes}");
            for SharedPart { at, bytes, from } in shared {
                assert_eq!(out[at..], bytes[from..]);
            }
        }
    }

    #[test]
    fn a_value_can_not_forge_a_header() {
        let response = kept(|w| w.head(303).header("Location", "/a\r\nSet-Cookie: x\0").empty());
        assert!(response.contains("Location: /a  Set-Cookie: x \r\n"), "{response}");
    }

    #[test]
    fn numbers() {
        for number in [0, 7, 10, 999, 10_240, u64::MAX] {
            let mut out = Vec::new();
            push_number(&mut out, number);
            assert_eq!(out, number.to_string().as_bytes());
        }
    }

    #[test]
    #[cfg_attr(debug_assertions, should_panic(expected = "left in state Unstarted"))]
    fn nothing_written_is_a_bug() {
        assert!(kept(|_| {}).starts_with("HTTP/1.1 500 "));
    }

    #[test]
    #[cfg_attr(debug_assertions, should_panic(expected = "body called in state Unstarted"))]
    fn a_body_before_the_head_is_a_bug() {
        assert!(kept(|w| w.body("text/plain", b"x")).starts_with("HTTP/1.1 500 "));
    }

    #[test]
    #[cfg_attr(debug_assertions, should_panic(expected = "head called in state Finished"))]
    fn two_responses_are_a_bug() {
        let twice = kept(|w| {
            w.head(200).empty();
            w.head(200).empty();
        });
        assert!(twice.starts_with("HTTP/1.1 500 "));
    }
}
