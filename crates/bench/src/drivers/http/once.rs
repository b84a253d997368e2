//! One blocking request on its own connection: set-up, readiness and page fetching. Never used to measure.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use super::response;

const TIMEOUT: Duration = Duration::from_secs(30);

#[derive(Debug, Clone)]
pub struct Answer {
    pub status: u16,
    pub body: Vec<u8>,
}

impl Answer {
    /// The body for a person: what a refusal says.
    pub fn text(&self) -> String {
        format!("{} {}", self.status, String::from_utf8_lossy(&self.body))
    }
}

/// The bytes of a request; `fields` are whole lines without their end.
pub fn encode(method: &str, path: &str, fields: &[&str], body: &[u8]) -> Vec<u8> {
    let mut request = format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\n");
    for field in fields {
        request.push_str(field);
        request.push_str("\r\n");
    }
    if !body.is_empty() || method == "POST" {
        request.push_str(&format!("Content-Type: application/json\r\nContent-Length: {}\r\n", body.len()));
    }
    request.push_str("\r\n");
    let mut request = request.into_bytes();
    request.extend_from_slice(body);
    request
}

/// The same by an operator with this token.
pub(crate) fn operating(token: &str, method: &str, path: &str, body: &[u8]) -> Vec<u8> {
    encode(method, path, &[&format!("Authorization: Bearer {token}")], body)
}

pub fn exchange(address: SocketAddr, request: &[u8]) -> io::Result<Answer> {
    exchange_within(TIMEOUT, address, request)
}

fn exchange_within(timeout: Duration, address: SocketAddr, request: &[u8]) -> io::Result<Answer> {
    let named = |error: io::Error| io::Error::new(error.kind(), format!("connecting to {address}: {error}"));
    // The system's own words for it are "Resource temporarily unavailable".
    let late = |error: io::Error| match error.kind() {
        ErrorKind::WouldBlock => {
            io::Error::new(ErrorKind::TimedOut, format!("{address} gave no answer within {timeout:?}"))
        }
        _ => error,
    };
    let mut stream = TcpStream::connect_timeout(&address, timeout).map_err(named)?;
    stream.set_read_timeout(Some(timeout))?;
    stream.write_all(request)?;
    answer(&mut stream, |error| Err(late(error)))
}

/// Reads one answer; of a read that failed `failed` says whether it is tried again.
pub(crate) fn answer(
    stream: &mut impl Read,
    mut failed: impl FnMut(io::Error) -> io::Result<()>,
) -> io::Result<Answer> {
    let mut arrived = Vec::new();
    let mut buffer = [0; 8192];
    loop {
        let head = response::parse(&arrived).map_err(|malformed| io::Error::other(malformed.0))?;
        if let Some(head) = head
            && arrived.len() >= head.total_bytes
        {
            let body = arrived[head.head_bytes..head.total_bytes].to_vec();
            return Ok(Answer { status: head.status, body });
        }
        match stream.read(&mut buffer) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(count) => arrived.extend_from_slice(&buffer[..count]),
            Err(error) => failed(error)?,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn the_error_names_a_server_that_accepts_and_never_answers() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let request = encode("GET", "/", &[], &[]);
        let error = exchange_within(Duration::from_millis(20), address, &request).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TimedOut);
        assert_eq!(error.to_string(), format!("{address} gave no answer within 20ms"));
    }
}
