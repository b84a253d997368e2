//! The smallest HTTP client that can say when an answer was lost: one connection, one exchange at a time, no
//! retries of its own.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// Longer than any answer takes; a server that needs more is taken for dead.
const TIMEOUT: Duration = Duration::from_secs(20);

#[derive(Debug)]
pub(crate) struct Connection {
    stream: BufReader<TcpStream>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Response {
    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

impl Connection {
    pub(crate) fn open(address: SocketAddr) -> std::io::Result<Connection> {
        Connection::open_patient(address, TIMEOUT)
    }

    /// For a client that gives up after another time without an answer.
    pub(crate) fn open_patient(address: SocketAddr, patience: Duration) -> std::io::Result<Connection> {
        let stream = TcpStream::connect_timeout(&address, patience)?;
        stream.set_read_timeout(Some(patience))?;
        stream.set_write_timeout(Some(patience))?;
        stream.set_nodelay(true)?;
        Ok(Connection { stream: BufReader::new(stream) })
    }

    /// Sends one request and reads its answer. Any error means that the answer was lost: whether the request
    /// was carried out is unknown.
    pub(crate) fn exchange(
        &mut self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> std::io::Result<Response> {
        self.send(method, path, headers, body)?;
        self.read()
    }

    pub(crate) fn send(
        &mut self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> std::io::Result<()> {
        let mut request =
            format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n", body.len());
        let typed = headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("content-type"));
        if !body.is_empty() && !typed {
            request.push_str("Content-Type: application/json\r\n");
        }
        for (name, value) in headers {
            request.push_str(&format!("{name}: {value}\r\n"));
        }
        request.push_str("\r\n");
        request.push_str(body);
        self.stream.get_mut().write_all(request.as_bytes())
    }

    pub(crate) fn read(&mut self) -> std::io::Result<Response> {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if self.stream.read_line(&mut head)? == 0 {
                return Err(std::io::ErrorKind::UnexpectedEof.into());
            }
        }
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
        let length = head
            .lines()
            .find_map(|line| {
                line.to_ascii_lowercase().strip_prefix("content-length:").map(str::trim).map(str::to_owned)
            })
            .and_then(|length| length.parse().ok());
        let mut body = vec![0; length.unwrap_or(0)];
        self.stream.read_exact(&mut body)?;
        if head.to_ascii_lowercase().contains("\r\ntransfer-encoding: chunked\r\n") {
            body = self.read_chunks()?;
        }
        let body = String::from_utf8(body).map_err(std::io::Error::other)?;
        Ok(Response { status: status.ok_or(std::io::ErrorKind::InvalidData)?, head, body })
    }

    /// To the last one, which is empty.
    fn read_chunks(&mut self) -> std::io::Result<Vec<u8>> {
        let mut body = Vec::new();
        loop {
            let mut line = String::new();
            self.stream.read_line(&mut line)?;
            let length = usize::from_str_radix(line.trim_end(), 16).map_err(std::io::Error::other)?;
            let begun = body.len();
            body.resize(begun + length + 2, 0);
            self.stream.read_exact(&mut body[begun..])?;
            body.truncate(begun + length);
            if length == 0 {
                return Ok(body);
            }
        }
    }
}
