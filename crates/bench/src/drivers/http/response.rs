//! As much of an HTTP/1.1 response as a load generator needs: status, length, whether the connection lives on.
//!
//! Pure: bytes in, a head out. A response without a length (chunked, or ended by closing) is malformed here: the
//! targets give a `Content-Length`, and a tool that guesses where an answer ends counts wrongly.

/// More header fields than any target sends.
const FIELDS_MAX: usize = 32;
/// A response that claims to be longer is malformed.
pub(crate) const RESPONSE_BYTES_MAX: usize = 16 << 20;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) status: u16,
    pub(crate) head_bytes: usize,
    pub(crate) total_bytes: usize,
    pub(crate) keep_alive: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Malformed(pub(crate) &'static str);

/// `None` while the head is incomplete.
pub(crate) fn parse(bytes: &[u8]) -> Result<Option<Head>, Malformed> {
    let mut fields = [httparse::EMPTY_HEADER; FIELDS_MAX];
    let mut response = httparse::Response::new(&mut fields);
    let head_bytes = match response.parse(bytes) {
        Ok(httparse::Status::Complete(head_bytes)) => head_bytes,
        Ok(httparse::Status::Partial) if bytes.len() < RESPONSE_BYTES_MAX => return Ok(None),
        Ok(httparse::Status::Partial) => return Err(Malformed("endless head")),
        Err(_) => return Err(Malformed("no HTTP response")),
    };
    let status = response.code.ok_or(Malformed("no status"))?;
    let mut length = None;
    let mut keep_alive = response.version == Some(1);
    for field in response.headers.iter() {
        if field.name.eq_ignore_ascii_case("content-length") {
            if length.is_some() {
                return Err(Malformed("two lengths"));
            }
            length = Some(decimal(field.value).ok_or(Malformed("bad length"))?);
        } else if field.name.eq_ignore_ascii_case("connection") {
            keep_alive = !field.value.eq_ignore_ascii_case(b"close");
        }
    }
    let body_bytes = match length {
        _ if status == 204 || status == 304 => 0,
        Some(length) => length,
        None => return Err(Malformed("no length")),
    };
    Ok(Some(Head { status, head_bytes, total_bytes: head_bytes + body_bytes, keep_alive }))
}

fn decimal(digits: &[u8]) -> Option<usize> {
    let digits = std::str::from_utf8(digits).ok()?;
    let value: usize = digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok())??;
    (value <= RESPONSE_BYTES_MAX).then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(bytes: &str, wanted: Result<Option<(u16, usize, bool)>, &'static str>) {
        let got = parse(bytes.as_bytes())
            .map(|head| head.map(|head| (head.status, head.total_bytes - head.head_bytes, head.keep_alive)))
            .map_err(|malformed| malformed.0);
        assert_eq!(got, wanted, "{bytes:?}");
    }

    #[test]
    fn heads() {
        check("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", Ok(Some((200, 0, true))));
        check(
            "HTTP/1.1 201 Created\r\ncontent-length: 12\r\nConnection: close\r\n\r\nab",
            Ok(Some((201, 12, false))),
        );
        check("HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\n", Ok(Some((200, 1, false))));
        check(
            "HTTP/1.0 200 OK\r\nContent-Length: 1\r\nConnection: keep-alive\r\n\r\n",
            Ok(Some((200, 1, true))),
        );
        check("HTTP/1.1 304 Not Modified\r\nContent-Length: 900\r\n\r\n", Ok(Some((304, 0, true))));
        check("HTTP/1.1 200 OK\r\nContent-Le", Ok(None));
        check("", Ok(None));
        check("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", Err("no length"));
        check("HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", Err("two lengths"));
        check("HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", Err("bad length"));
        check("HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n", Err("bad length"));
        check("hello, world\r\n\r\n", Err("no HTTP response"));
    }
}
