//! Redis asked about itself, by the crate `redis`: one command, one answer.
//!
//! The crate writes commands and reads answers; the socket is read here, so that a long wait ends when the run is to
//! stop. Never used to measure.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context;
use redis::{FromRedisValue, Parser, ToRedisArgs, Value};

const TIMEOUT: Duration = Duration::from_secs(10);
/// How often a long wait for an answer looks whether the stop flag is raised.
const TURN: Duration = Duration::from_millis(200);

/// A connection.
pub struct Redis {
    stream: Waiting,
    parser: Parser,
}

/// Reads in short turns.
#[derive(Debug)]
struct Waiting {
    stream: TcpStream,
    patience: Duration,
    stop: Arc<AtomicBool>,
}

impl fmt::Debug for Redis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Redis").field("stream", &self.stream).finish_non_exhaustive()
    }
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
        Ok(Self { stream: Waiting { stream, patience, stop: stop.clone() }, parser: Parser::new() })
    }

    /// With the password, if there is one.
    pub fn authenticated(mut self, password: Option<&str>) -> anyhow::Result<Self> {
        if let Some(password) = password {
            self.exec(&["AUTH", password]).context("Redis refuses the password")?;
        }
        Ok(self)
    }

    /// The value of a setting.
    pub fn setting(&mut self, name: &str) -> anyhow::Result<String> {
        let pair: Vec<String> = self.query(&["CONFIG", "GET", name])?;
        pair.into_iter().nth(1).with_context(|| format!("Redis has no setting {name}"))
    }

    /// A field of INFO.
    pub fn info(&mut self, section: &str, name: &str) -> anyhow::Result<String> {
        let text: String = self.query(&["INFO", section])?;
        let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        value.map(str::to_owned).with_context(|| format!("Redis' INFO {section} has no {name}"))
    }

    /// Sends one command; its answer, as what is wanted of it.
    pub fn query<T: FromRedisValue>(&mut self, command: &[impl ToRedisArgs]) -> anyhow::Result<T> {
        let mut packed = redis::Cmd::new();
        packed.arg(command);
        self.stream.stream.write_all(&packed.get_packed_command()).context("asking Redis")?;
        let answer = self.parser.parse_value(&mut self.stream).context("reading Redis' answer")?;
        Ok(redis::from_redis_value(answer.extract_error()?)?)
    }

    /// Sends one command, whose answer is no error.
    pub fn exec(&mut self, command: &[impl ToRedisArgs]) -> anyhow::Result<()> {
        self.query::<Value>(command).map(drop)
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
            asked.wait();
            redis.exec(&["SAVE"])
        });
        assert!(format!("{:#}", answer.unwrap_err()).contains("stopped by a signal"));
        assert!(begun.elapsed() < long / 2);
    }

    #[test]
    fn patience_has_an_end() {
        let silent = TcpListener::bind("127.0.0.1:0").unwrap();
        let (address, short) = (silent.local_addr().unwrap(), Duration::from_millis(1));
        let mut redis = Redis::connect_waiting(address, short, &Arc::default()).unwrap();
        let error = format!("{:#}", redis.exec(&["PING"]).unwrap_err());
        assert!(error.contains("it did not answer within 1ms"), "{error}");
    }
}
