//! One request on its way between two sides, for proxies that lose some.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// A proxy that nobody speaks to any more.
const SILENCE_MAX: Duration = Duration::from_secs(60);

/// As it came, but for the header `Connection`.
#[derive(Debug)]
pub(crate) struct Underway {
    pub(crate) head: String,
    body: Vec<u8>,
}

impl Underway {
    pub(crate) fn take(client: &TcpStream) -> std::io::Result<Underway> {
        client.set_read_timeout(Some(SILENCE_MAX))?;
        let mut reader = BufReader::new(client);
        let (mut head, mut length) = (String::new(), 0);
        loop {
            let mut line = String::new();
            reader.read_line(&mut line)?;
            if let Some((name, value)) = line.split_once(':') {
                match name.to_ascii_lowercase().as_str() {
                    "content-length" => length = value.trim().parse().map_err(std::io::Error::other)?,
                    "connection" => continue,
                    _ => {}
                }
            }
            if line.trim().is_empty() {
                break;
            }
            head += &line;
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body)?;
        Ok(Underway { head, body })
    }

    /// Passes it on, on a connection of its own; what is answered.
    pub(crate) fn pass_on(&self, server: SocketAddr) -> std::io::Result<Vec<u8>> {
        let Underway { head, body } = self;
        let mut upstream = TcpStream::connect(server)?;
        upstream.set_read_timeout(Some(SILENCE_MAX))?;
        upstream.write_all(format!("{head}Connection: close\r\n\r\n").as_bytes())?;
        upstream.write_all(body)?;
        let mut answer = Vec::new();
        upstream.read_to_end(&mut answer)?;
        Ok(answer)
    }
}
