//! As much of Redis' protocol as it takes to ask a server about itself: one command, one answer.
//!
//! Blocking and slow on purpose; never used to measure.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};

const TIMEOUT: Duration = Duration::from_secs(10);
/// How often a long wait for an answer looks whether the stop flag is raised.
const TURN: Duration = Duration::from_millis(200);
/// An answer that claims to be longer is broken. INFO has some kilobytes.
const ANSWER_BYTES_MAX: usize = 1 << 20;

#[derive(Debug)]
pub struct Redis {
    stream: BufReader<Waiting>,
}

/// Reads in short turns.
#[derive(Debug)]
struct Waiting {
    stream: TcpStream,
    patience: Duration,
    stop: Arc<AtomicBool>,
}

impl Redis {
    pub fn connect(address: SocketAddr) -> anyhow::Result<Self> {
        Self::connect_waiting(address, TIMEOUT, &Arc::default())
    }

    /// For commands that take long, such as SAVE: waits so long for an answer, unless it is to stop.
    pub fn connect_waiting(
        address: SocketAddr,
        patience: Duration,
        stop: &Arc<AtomicBool>,
    ) -> anyhow::Result<Self> {
        let stream = TcpStream::connect_timeout(&address, TIMEOUT)
            .with_context(|| format!("connecting to Redis on {address}"))?;
        stream.set_read_timeout(Some(TURN))?;
        stream.set_write_timeout(Some(TIMEOUT))?;
        Ok(Self { stream: BufReader::new(Waiting { stream, patience, stop: stop.clone() }) })
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
        self.stream.get_mut().stream.write_all(&request).context("asking Redis")
    }

    fn line(&mut self) -> anyhow::Result<String> {
        let mut line = String::new();
        let read = self.stream.read_line(&mut line).context("reading Redis' answer")?;
        ensure!(read > 0, "Redis closed the connection");
        Ok(line.trim_end().to_owned())
    }
}

impl Read for Waiting {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let begun = Instant::now();
        loop {
            match self.stream.read(buffer) {
                Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
                }
                read => return read,
            }
            if self.stop.load(Ordering::Relaxed) {
                return Err(io::Error::other("stopped by a signal"));
            }
            if begun.elapsed() >= self.patience {
                return Err(io::Error::new(
                    io::ErrorKind::TimedOut,
                    format!("it did not answer within {:?}", self.patience),
                ));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::sync::Barrier;

    use super::*;

    #[test]
    fn a_long_wait_ends_when_the_stop_flag_is_raised() {
        let silent = TcpListener::bind("127.0.0.1:0").unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let long = Duration::from_secs(600);
        let mut redis = Redis::connect_waiting(silent.local_addr().unwrap(), long, &stop).unwrap();
        let asked = Barrier::new(2);
        let begun = Instant::now();
        let answer = std::thread::scope(|scope| {
            scope.spawn(|| {
                asked.wait();
                stop.store(true, Ordering::Relaxed);
            });
            redis.send(&["SAVE"]).unwrap();
            asked.wait();
            redis.line()
        });
        assert!(format!("{:#}", answer.unwrap_err()).contains("stopped by a signal"));
        assert!(begun.elapsed() < long / 2);
    }

    #[test]
    fn patience_has_an_end() {
        let silent = TcpListener::bind("127.0.0.1:0").unwrap();
        let (address, short) = (silent.local_addr().unwrap(), Duration::from_millis(1));
        let mut redis = Redis::connect_waiting(address, short, &Arc::default()).unwrap();
        let error = format!("{:#}", redis.ask(&["PING"]).unwrap_err());
        assert!(error.contains("it did not answer within 1ms"), "{error}");
    }
}
