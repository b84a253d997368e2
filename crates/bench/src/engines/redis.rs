//! As much of Redis' protocol as it takes to ask a server about itself: one command, one answer.
//!
//! Blocking and slow on purpose; never used to measure.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context, bail, ensure};

const TIMEOUT: Duration = Duration::from_secs(10);
/// An answer that claims to be longer is broken. INFO has some kilobytes.
const ANSWER_BYTES_MAX: usize = 1 << 20;

#[derive(Debug)]
pub struct Redis {
    stream: BufReader<TcpStream>,
}

impl Redis {
    pub fn connect(address: SocketAddr) -> anyhow::Result<Self> {
        Self::connect_waiting(address, TIMEOUT)
    }

    /// For commands that take long, such as SAVE: waits so long for an answer.
    pub fn connect_waiting(address: SocketAddr, answer: Duration) -> anyhow::Result<Self> {
        let stream = TcpStream::connect_timeout(&address, TIMEOUT)
            .with_context(|| format!("connecting to Redis on {address}"))?;
        stream.set_read_timeout(Some(answer))?;
        stream.set_write_timeout(Some(TIMEOUT))?;
        Ok(Self { stream: BufReader::new(stream) })
    }

    /// With the password, if there is one.
    pub fn authenticated(mut self, password: Option<&str>) -> anyhow::Result<Self> {
        if let Some(password) = password {
            self.ask(&["AUTH", password]).context("Redis refuses the password")?;
        }
        Ok(self)
    }

    /// The value of a setting.
    pub fn setting(&mut self, name: &str) -> anyhow::Result<String> {
        let mut pair = self.ask(&["CONFIG", "GET", name])?;
        ensure!(pair.len() == 2, "Redis has no setting {name}");
        Ok(pair.remove(1))
    }

    /// A field of INFO.
    pub fn info(&mut self, section: &str, name: &str) -> anyhow::Result<String> {
        let text = self.ask(&["INFO", section])?.concat();
        let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        value.map(str::to_owned).with_context(|| format!("Redis' INFO {section} has no {name}"))
    }

    /// Sends one command; the strings of its answer, of which there is one unless it is an array.
    pub fn ask(&mut self, command: &[&str]) -> anyhow::Result<Vec<String>> {
        self.send(command)?;
        let line = self.line()?;
        let Some(count) = line.strip_prefix('*') else { return Ok(vec![self.value(&line)?]) };
        let count: usize = count.parse().context("an array of Redis")?;
        (0..count)
            .map(|_| {
                let line = self.line()?;
                self.value(&line)
            })
            .collect()
    }

    /// As `ask`, for a command with bytes that are no text, and one string or number for an answer.
    pub fn ask_bytes(&mut self, command: &[Vec<u8>]) -> anyhow::Result<String> {
        self.send(command)?;
        let line = self.line()?;
        self.value(&line)
    }

    /// As `ask`, with the strings of arrays within arrays too, one after the other.
    pub fn ask_all(&mut self, command: &[&str]) -> anyhow::Result<Vec<String>> {
        self.send(command)?;
        let (mut left, mut found) = (1_usize, Vec::new());
        while left > 0 {
            left -= 1;
            let line = self.line()?;
            match line.strip_prefix('*') {
                Some(count) => {
                    let count: usize = count.parse().context("an array of Redis")?;
                    ensure!(
                        count <= ANSWER_BYTES_MAX && left <= ANSWER_BYTES_MAX,
                        "Redis answers {count} values"
                    );
                    left += count;
                }
                None => found.push(self.value(&line)?),
            }
        }
        Ok(found)
    }

    fn value(&mut self, line: &str) -> anyhow::Result<String> {
        let (kind, rest) = line.split_at_checked(1).context("an empty answer of Redis")?;
        match kind {
            "+" | ":" => Ok(rest.to_owned()),
            "$" => {
                let bytes: usize = rest.parse().with_context(|| format!("Redis answered {line}"))?;
                ensure!(bytes <= ANSWER_BYTES_MAX, "Redis' answer has {bytes} bytes");
                let mut text = vec![0; bytes + 2];
                self.stream.read_exact(&mut text).context("reading Redis' answer")?;
                text.truncate(bytes);
                Ok(String::from_utf8_lossy(&text).into_owned())
            }
            _ => bail!("Redis answered {line}"),
        }
    }

    fn send<W: AsRef<[u8]>>(&mut self, command: &[W]) -> anyhow::Result<()> {
        let mut request = format!("*{}\r\n", command.len()).into_bytes();
        for word in command {
            let word = word.as_ref();
            request.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
            request.extend_from_slice(word);
            request.extend_from_slice(b"\r\n");
        }
        self.stream.get_mut().write_all(&request).context("asking Redis")
    }

    fn line(&mut self) -> anyhow::Result<String> {
        let mut line = String::new();
        let read = self.stream.read_line(&mut line).context("reading Redis' answer")?;
        ensure!(read > 0, "Redis closed the connection");
        Ok(line.trim_end().to_owned())
    }
}
