//! A way to a server without TLS, and its replies in RESP2.
//!
//! The client library reads replies byte by byte with a parser for all that Redis may say, which takes longer than the rest of
//! what is done for an order at the gate. By TLS it is the library that reads. Must not: retry.

use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::ops::Range;
use std::time::Duration;

use redis::{RedisError, Value};

use super::connection::{NO_REDIS, broken};
use super::link::Link;
use crate::gate::{GateConfig, Why};
use crate::time::Instant;

const BUFFER_BYTES: usize = 16 * 1024;
/// Of a number, or of what an error says.
const LINE_BYTES_MAX: usize = 1 << 20;
/// Of lists in lists.
const DEPTH_MAX: usize = 16;
/// Room that is made for a list before its values are there.
const VALUES_AT_ONCE: usize = 1_024;
/// Of a reply: the longest that we ask for has 1,000 records of 16 KiB.
const REPLY_BYTES_MAX: usize = 64 << 20;
/// All values of a reply together.
const REPLY_VALUES_MAX: usize = 1 << 18;

/// A socket.
pub(super) struct Plain(Replies<TcpStream>);

impl Plain {
    /// Connects, and says who we are: whoever can't answer that is no Redis, or does not talk to us.
    pub(super) fn dial(config: &GateConfig, address: (&str, u16)) -> Result<Plain, Why> {
        let socket = connect(address, config).map_err(|error| lost(error.into()))?;
        let mut link = Plain(Replies::of(socket, config.reply_timeout.max(config.connect_timeout)));
        link.wait_at_most(config.connect_timeout)?;
        let info =
            [("LIB-NAME", "doorbuster"), ("LIB-VER", env!("CARGO_PKG_VERSION"))].map(|(what, value)| {
                redis::cmd("CLIENT").arg("SETINFO").arg(what).arg(value).get_packed_command()
            });
        link.write(&info.concat())?;
        // Old servers do not know it, which is an answer too.
        info.iter().try_for_each(|_| link.read().map(drop))?;
        Ok(link)
    }
}

impl Link for Plain {
    fn write(&mut self, packed: &[u8]) -> Result<(), Why> {
        self.0.source.from.write_all(packed).map_err(|error| lost(error.into()))
    }

    fn read(&mut self) -> Result<Value, Why> {
        self.0.next().map_err(lost)
    }

    fn wait_at_most(&mut self, limit: Duration) -> Result<(), Why> {
        self.0.source.from.set_read_timeout(Some(limit)).map_err(|error| lost(error.into()))
    }
}

fn connect(address: (&str, u16), config: &GateConfig) -> io::Result<TcpStream> {
    let mut failed = io::Error::from(io::ErrorKind::AddrNotAvailable);
    for address in address.to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, config.connect_timeout) {
            Ok(socket) => {
                socket.set_nodelay(true)?;
                socket.set_write_timeout(Some(config.reply_timeout))?;
                return Ok(socket);
            }
            Err(error) => failed = error,
        }
    }
    Err(failed)
}

/// Why no reply came.
#[derive(Debug)]
enum Fault {
    Lost(io::Error),
    /// What came is none.
    NoReply,
}

impl From<io::Error> for Fault {
    fn from(error: io::Error) -> Fault {
        Fault::Lost(error)
    }
}

fn lost(fault: Fault) -> Why {
    match fault {
        Fault::Lost(error) => broken(&RedisError::from(error)),
        Fault::NoReply => Why::Refused(NO_REDIS.into()),
    }
}

/// What was read and is not parsed yet. After a fault it is of no use.
struct Replies<R> {
    source: Source<R>,
    buffer: Vec<u8>,
    begin: usize,
    end: usize,
    /// Of this reply, so far.
    bytes: usize,
    values: usize,
}

impl<R: Read> Replies<R> {
    fn of(from: R, patience: Duration) -> Replies<R> {
        let buffer = vec![0; BUFFER_BYTES];
        let source = Source { from, patience, since: None };
        Replies { source, buffer, begin: 0, end: 0, bytes: 0, values: 0 }
    }

    fn next(&mut self) -> Result<Value, Fault> {
        (self.source.since, self.bytes, self.values) = (None, 0, 0);
        self.value(0)
    }

    /// A reply, or a value in it, in so many lists.
    fn value(&mut self, depth: usize) -> Result<Value, Fault> {
        self.values += 1;
        if self.values > REPLY_VALUES_MAX {
            return Err(Fault::NoReply);
        }
        self.have(1)?;
        // Before the line's end: whoever is no Redis may say something and wait.
        if !b":$*+-".contains(&self.buffer[self.begin]) {
            return Err(Fault::NoReply);
        }
        let line = self.line()?;
        let (kind, text) = (self.buffer[line.start], &self.buffer[line.start + 1..line.end]);
        match kind {
            b':' => number(text).map(Value::Int),
            b'$' => match length(text)? {
                Some(length) => self.bytes(length).map(Value::BulkString),
                None => Ok(Value::Nil),
            },
            b'*' => match length(text)? {
                Some(length) => self.values(length, depth).map(Value::Array),
                None => Ok(Value::Nil),
            },
            b'+' if text == b"OK" => Ok(Value::Okay),
            // The library knows the errors.
            _ => {
                let whole = [&self.buffer[line], &b"\r\n"[..]].concat();
                redis::parse_redis_value(&whole).map_err(|_error| Fault::NoReply)
            }
        }
    }

    fn values(&mut self, length: usize, depth: usize) -> Result<Vec<Value>, Fault> {
        if depth == DEPTH_MAX {
            return Err(Fault::NoReply);
        }
        let mut values = Vec::with_capacity(length.min(VALUES_AT_ONCE));
        for _ in 0..length {
            values.push(self.value(depth + 1)?);
        }
        Ok(values)
    }

    fn bytes(&mut self, length: usize) -> Result<Vec<u8>, Fault> {
        self.count(length)?;
        let bytes = if length <= BUFFER_BYTES {
            self.have(length)?;
            self.buffer[self.begin..self.begin + length].to_vec()
        } else {
            let mut bytes = self.buffer[self.begin..self.end.min(self.begin + length)].to_vec();
            while bytes.len() < length {
                let (from, more) = (bytes.len(), (length - bytes.len()).min(4 * BUFFER_BYTES));
                bytes.resize(from + more, 0);
                let read = self.source.read(&mut bytes[from..])?;
                bytes.truncate(from + read);
            }
            bytes
        };
        self.begin = self.end.min(self.begin + length);
        self.have(2)?;
        if !self.buffer[self.begin..self.end].starts_with(b"\r\n") {
            return Err(Fault::NoReply);
        }
        self.begin += 2;
        Ok(bytes)
    }

    /// Where the next line is in the buffer, without its end.
    fn line(&mut self) -> Result<Range<usize>, Fault> {
        let mut looked = 0;
        loop {
            let waiting = &self.buffer[self.begin..self.end];
            if let Some(at) = waiting[looked..].iter().position(|byte| *byte == b'\n') {
                let line = &waiting[..looked + at];
                let Some(text) = line.strip_suffix(b"\r") else { return Err(Fault::NoReply) };
                let found = self.begin..self.begin + text.len();
                self.begin += line.len() + 1;
                self.count(found.len())?;
                return Ok(found);
            }
            looked = waiting.len();
            if looked > LINE_BYTES_MAX {
                return Err(Fault::NoReply);
            }
            self.fill()?;
        }
    }

    /// Waits until so many bytes are in the buffer, which are no more than it holds.
    fn have(&mut self, count: usize) -> Result<(), Fault> {
        while self.end - self.begin < count {
            self.fill()?;
        }
        Ok(())
    }

    /// Reads more, behind what is there.
    fn fill(&mut self) -> Result<(), Fault> {
        if self.begin > 0 {
            self.buffer.copy_within(self.begin..self.end, 0);
            (self.begin, self.end) = (0, self.end - self.begin);
        }
        if self.end == self.buffer.len() {
            self.buffer.resize(2 * self.end, 0);
        }
        self.end += self.source.read(&mut self.buffer[self.end..])?;
        Ok(())
    }

    fn count(&mut self, bytes: usize) -> Result<(), Fault> {
        self.bytes = self.bytes.saturating_add(bytes);
        if self.bytes > REPLY_BYTES_MAX { Err(Fault::NoReply) } else { Ok(()) }
    }
}

/// Where replies come from.
struct Source<R> {
    from: R,
    /// A reply may take so long from what of it came first, whatever comes meanwhile.
    patience: Duration,
    since: Option<Instant>,
}

impl<R: Read> Source<R> {
    /// Reads once, at least a byte.
    fn read(&mut self, into: &mut [u8]) -> Result<usize, Fault> {
        if self.since.is_some_and(|since| since.elapsed() > self.patience) {
            return Err(io::Error::from(io::ErrorKind::TimedOut).into());
        }
        loop {
            match self.from.read(into) {
                Ok(0) => return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()),
                Ok(read) => {
                    self.since.get_or_insert_with(Instant::now);
                    return Ok(read);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

fn number(text: &[u8]) -> Result<i64, Fault> {
    std::str::from_utf8(text).ok().and_then(|text| text.parse().ok()).ok_or(Fault::NoReply)
}

/// Of bytes or a list; `None`: there is none.
fn length(text: &[u8]) -> Result<Option<usize>, Fault> {
    number(text).map(|length| usize::try_from(length).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: Duration = Duration::from_secs(3600);

    /// Gives so many bytes at once, and then says no more.
    struct Drops<'a> {
        left: &'a [u8],
        at_once: usize,
    }

    impl Read for Drops<'_> {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            if self.left.is_empty() {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            let (now, later) = self.left.split_at(self.at_once.min(into.len()).min(self.left.len()));
            into[..now.len()].copy_from_slice(now);
            self.left = later;
            Ok(now.len())
        }
    }

    fn replies(left: &[u8], at_once: usize) -> Replies<Drops<'_>> {
        Replies::of(Drops { left, at_once }, PATIENCE)
    }

    #[test]
    fn replies_are_what_the_library_takes_them_for_however_they_come() {
        let long = |length: usize| {
            let mut reply = format!("${length}\r\n").into_bytes();
            reply.resize(reply.len() + length, 7);
            reply.extend_from_slice(b"\r\n");
            reply
        };
        let long_error = format!("-ERR {}\r\n", "no ".repeat(BUFFER_BYTES));
        let all: Vec<Vec<u8>> = [
            ":0\r\n",
            ":-12\r\n",
            ":9007199254740991\r\n",
            "+OK\r\n",
            "+PONG\r\n",
            "$-1\r\n",
            "$0\r\n\r\n",
            "$6\r\na\r\nb\r\n\r\n",
            "*-1\r\n",
            "*0\r\n",
            "*5\r\n:0\r\n:1\r\n:2\r\n:-3\r\n:1700000000000\r\n",
            "*3\r\n*2\r\n$1\r\na\r\n$-1\r\n*0\r\n+OK\r\n",
            "-NOSCRIPT No matching script. Please use EVAL.\r\n",
            "-MOVED 3999 127.0.0.1:6381\r\n",
            long_error.as_str(),
        ]
        .map(|reply| reply.as_bytes().to_vec())
        .into_iter()
        .chain([BUFFER_BYTES - 1, BUFFER_BYTES, BUFFER_BYTES + 1, 5 * BUFFER_BYTES].map(long))
        .collect();
        let expected: Vec<Value> = all.iter().map(|one| redis::parse_redis_value(one).unwrap()).collect();
        let whole = all.concat();
        for at_once in [1, 2, 3, 1_000, BUFFER_BYTES, whole.len()] {
            let mut replies = replies(&whole, at_once);
            for expected in &expected {
                assert_eq!(replies.next().unwrap(), *expected, "{at_once} bytes at once");
            }
            let end = replies.next();
            assert!(
                matches!(&end, Err(Fault::Lost(error)) if error.kind() == io::ErrorKind::WouldBlock),
                "{end:?}"
            );
        }
    }

    #[test]
    fn what_is_no_reply_is_not_waited_for() {
        let nested = "*1\r\n".repeat(DEPTH_MAX + 1);
        for wrong in [
            "h\0\0\0\n10",
            "HTTP",
            "%1\r\n",
            ":x\r\n",
            ":\r\n",
            ":1\n",
            "$1\r\nab\r\n",
            "*1\r\n?",
            nested.as_str(),
        ] {
            let found = replies(wrong.as_bytes(), 1).next();
            assert!(matches!(found, Err(Fault::NoReply)), "{wrong:?}: {found:?}");
        }
    }

    #[test]
    fn what_ends_in_the_middle_is_lost() {
        for cut in ["", ":1", "$5\r\nab", "*2\r\n:1\r\n", "$99999\r\nab"] {
            let found = Replies::of(cut.as_bytes(), PATIENCE).next();
            assert!(
                matches!(&found, Err(Fault::Lost(error)) if error.kind() == io::ErrorKind::UnexpectedEof),
                "{cut:?}: {found:?}"
            );
        }
    }

    /// Says the same again and again.
    struct Endless(&'static [u8], usize);

    impl Read for Endless {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            for byte in into.iter_mut() {
                *byte = self.0[self.1 % self.0.len()];
                self.1 += 1;
            }
            Ok(into.len())
        }
    }

    #[test]
    fn a_reply_without_an_end_is_none() {
        for (begin, endless) in [
            ("$9000000000000\r\n", &b"abcdefgh"[..]),
            ("*9000000000000\r\n", b":12345\r\n"),
            ("*9000000000000\r\n", b"$2\r\nab\r\n"),
            ("+", b"abcdefgh"),
        ] {
            let found = Replies::of(begin.as_bytes().chain(Endless(endless, 0)), PATIENCE).next();
            assert!(matches!(found, Err(Fault::NoReply)), "{begin:?}: {found:?}");
        }
    }

    #[test]
    fn a_reply_that_comes_byte_by_byte_for_too_long_is_not_waited_for() {
        let mut replies = Replies::of(Drops { left: b":12345\r\n", at_once: 1 }, Duration::ZERO);
        let found = replies.next();
        assert!(
            matches!(&found, Err(Fault::Lost(error)) if error.kind() == io::ErrorKind::TimedOut),
            "{found:?}"
        );
    }
}
