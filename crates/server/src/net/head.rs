//! The head of a request: request line and headers, parsed in place by `httparse` and then held to the
//! rules that keep framing unambiguous (RFC 9112): whoever stands in front of us must never see another
//! request border than we do. Must not read a body or know a socket.

use std::mem::MaybeUninit;

use httparse::Header;

use super::limits::Limits;

/// A request that is refused by the net layer: it can't be framed, or is over a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Malformed {
    pub(super) status: u16,
    /// What is wrong and what to do about it.
    pub(super) detail: &'static str,
}

pub(super) const fn malformed(status: u16, detail: &'static str) -> Malformed {
    Malformed { status, detail }
}

/// How the body is delimited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Framing {
    /// This many bytes; 0 without a body.
    Length(usize),
    Chunked,
}

/// A complete, valid head, borrowed from the input.
#[derive(Debug)]
pub(super) struct Head<'a> {
    /// Bytes of the input that the head takes, its empty line included.
    pub(super) bytes: usize,
    pub(super) method: &'a str,
    pub(super) path: &'a str,
    pub(super) query: &'a str,
    pub(super) headers: &'a [Header<'a>],
    pub(super) framing: Framing,
    /// HTTP/1.0: keep-alive has to be confirmed.
    pub(super) http10: bool,
    pub(super) keep_alive: bool,
    pub(super) expects_continue: bool,
}

/// Room for headers, uninitialised: making it costs nothing.
pub(super) type Slots<'a> = [MaybeUninit<Header<'a>>];

/// Parses the head at the start of `input`. `None`: more bytes are needed.
pub(super) fn parse<'a>(
    input: &'a [u8],
    slots: &'a mut Slots<'a>,
    limits: &Limits,
) -> Result<Option<Head<'a>>, Malformed> {
    // Never looks past the limit, so that the verdict doesn't depend on how much arrived in one read.
    let window = &input[..input.len().min(limits.head_bytes_max)];
    let slots = &mut slots[..limits.headers_max];
    let mut parsed = httparse::Request::new(&mut []);
    let bytes = match parsed.parse_with_uninit_headers(window, slots) {
        Ok(httparse::Status::Complete(bytes)) => bytes,
        Ok(httparse::Status::Partial) if input.len() >= limits.head_bytes_max => {
            return Err(too_large(window));
        }
        Ok(httparse::Status::Partial) => return Ok(None),
        Err(error) => return Err(explain(error)),
    };
    if has_bare_line_feed(&window[..bytes]) {
        return Err(malformed(400, "a line ends without a carriage return"));
    }
    let method = parsed.method.expect("a complete head has a method");
    let target = parsed.path.expect("a complete head has a target");
    let http10 = parsed.version.expect("a complete head has a version") == 0;
    let headers: &'a [Header<'a>] = parsed.headers;

    let fields = Fields::collect(headers)?;
    let (authority, path, query) = split_target(method, target)?;
    fields.check_host(http10, authority)?;
    Ok(Some(Head {
        bytes,
        method,
        path,
        query,
        headers,
        framing: fields.framing(http10)?,
        http10,
        keep_alive: !fields.close && (!http10 || fields.keep_alive),
        expects_continue: fields.expects_continue && !http10,
    }))
}

fn too_large(window: &[u8]) -> Malformed {
    if window.contains(&b'\n') {
        malformed(431, "the headers are too large; send fewer or shorter ones")
    } else {
        malformed(414, "the request target is too long")
    }
}

fn explain(error: httparse::Error) -> Malformed {
    match error {
        httparse::Error::Version => malformed(505, "only HTTP/1.0 and HTTP/1.1 are served here"),
        httparse::Error::TooManyHeaders => malformed(431, "too many headers; send fewer"),
        httparse::Error::HeaderName => malformed(400, "a header name is invalid or its line is folded"),
        httparse::Error::HeaderValue => malformed(400, "a header value contains a forbidden character"),
        _ => malformed(400, "the request line is invalid"),
    }
}

/// `httparse` takes a lone line feed as a line end; a proxy in front may not, so it is refused.
/// Written as one pass without branches, which the compiler turns into vector instructions.
fn has_bare_line_feed(head: &[u8]) -> bool {
    let pairs = head.iter().zip(&head[1..]);
    let bare = pairs.fold(false, |bare, (&before, &byte)| bare | ((byte == b'\n') & (before != b'\r')));
    bare || head[0] == b'\n'
}

/// The headers that decide about framing and the connection.
#[derive(Default)]
struct Fields<'a> {
    content_length: Option<usize>,
    chunked: bool,
    host: Option<&'a [u8]>,
    close: bool,
    keep_alive: bool,
    expects_continue: bool,
}

impl<'a> Fields<'a> {
    fn collect(headers: &[Header<'a>]) -> Result<Fields<'a>, Malformed> {
        let mut fields = Fields::default();
        for header in headers {
            // The length sorts out nearly all headers with one comparison.
            match header.name.len() {
                4 if header.name.eq_ignore_ascii_case("host") => fields.set_host(header.value)?,
                6 if header.name.eq_ignore_ascii_case("expect") => {
                    if !header.value.eq_ignore_ascii_case(b"100-continue") {
                        return Err(malformed(417, "only 100-continue can be expected"));
                    }
                    fields.expects_continue = true;
                }
                10 if header.name.eq_ignore_ascii_case("connection") => fields.connection(header.value),
                14 if header.name.eq_ignore_ascii_case("content-length") => {
                    let length = parse_length(header.value)?;
                    if fields.content_length.replace(length).is_some_and(|before| before != length) {
                        return Err(malformed(400, "two Content-Length headers differ"));
                    }
                }
                17 if header.name.eq_ignore_ascii_case("transfer-encoding") => {
                    if !header.value.eq_ignore_ascii_case(b"chunked") {
                        return Err(malformed(501, "chunked is the only transfer coding served here"));
                    }
                    if fields.chunked {
                        return Err(malformed(400, "more than one Transfer-Encoding header"));
                    }
                    fields.chunked = true;
                }
                _ => {}
            }
        }
        Ok(fields)
    }

    fn set_host(&mut self, value: &'a [u8]) -> Result<(), Malformed> {
        match self.host.replace(value) {
            None => Ok(()),
            Some(_) => Err(malformed(400, "more than one Host header")),
        }
    }

    fn connection(&mut self, value: &[u8]) {
        for option in value.split(|&byte| byte == b',') {
            let option = option.trim_ascii();
            self.close |= option.eq_ignore_ascii_case(b"close");
            self.keep_alive |= option.eq_ignore_ascii_case(b"keep-alive");
        }
    }

    fn framing(&self, http10: bool) -> Result<Framing, Malformed> {
        match (self.chunked, self.content_length) {
            (true, Some(_)) => Err(malformed(400, "both Transfer-Encoding and Content-Length")),
            (true, None) if http10 => Err(malformed(400, "Transfer-Encoding does not exist in HTTP/1.0")),
            (true, None) => Ok(Framing::Chunked),
            (false, length) => Ok(Framing::Length(length.unwrap_or(0))),
        }
    }

    fn check_host(&self, http10: bool, authority: Option<&str>) -> Result<(), Malformed> {
        let Some(host) = self.host else {
            return if http10 { Ok(()) } else { Err(malformed(400, "the Host header is missing")) };
        };
        if !host.iter().all(|&byte| byte.is_ascii_alphanumeric() || b"-._~:[]%!$&'()*+;=".contains(&byte)) {
            return Err(malformed(400, "the Host header is invalid"));
        }
        if authority.is_some_and(|authority| !host.eq_ignore_ascii_case(authority.as_bytes())) {
            return Err(malformed(400, "the Host header and the request target differ"));
        }
        Ok(())
    }
}

/// Digits only: no sign, no list, no blank.
fn parse_length(value: &[u8]) -> Result<usize, Malformed> {
    if value.is_empty() || !value.iter().all(u8::is_ascii_digit) {
        return Err(malformed(400, "Content-Length must be a decimal number"));
    }
    let digits = std::str::from_utf8(value).expect("only ASCII digits");
    digits.parse().or(Err(malformed(413, "the body is too large")))
}

/// Splits a target into authority (absolute form only), path and query.
fn split_target<'a>(method: &str, target: &'a str) -> Result<(Option<&'a str>, &'a str, &'a str), Malformed> {
    const WRONG: Malformed = malformed(400, "the request target must be a path like /orders?wait=1");
    if !target.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'#') {
        return Err(WRONG);
    }
    if target == "*" && method == "OPTIONS" {
        return Ok((None, target, ""));
    }
    let (authority, rest) = match target.as_bytes()[0] {
        b'/' => (None, target),
        _ => {
            let (scheme, after) = target.split_once("://").ok_or(WRONG)?;
            if !scheme.eq_ignore_ascii_case("http") && !scheme.eq_ignore_ascii_case("https") {
                return Err(WRONG);
            }
            let end = after.find(['/', '?']).unwrap_or(after.len());
            (Some(&after[..end]), &after[end..])
        }
    };
    let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
    Ok((authority, if path.is_empty() { "/" } else { path }, query))
}
