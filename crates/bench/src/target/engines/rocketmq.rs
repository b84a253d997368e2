//! A broker asked for its settings and for the end of a queue: one request, one answer. Never used to measure.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context, anyhow, ensure};
use rocketmq::OffsetFields;
use rocketmq::codes::{GET_BROKER_CONFIG, GET_BROKER_RUNTIME_INFO, GET_MAX_OFFSET, GET_MIN_OFFSET, SUCCESS};
use rocketmq::frame::{self, Answer, Parsed};
use serde::Serialize;
use serde_json::{Value, json};

const TIMEOUT: Duration = Duration::from_secs(10);
const READ_BYTES: usize = 64 << 10;

#[derive(Debug)]
pub struct Broker {
    stream: TcpStream,
    address: SocketAddr,
    requests: i32,
}

impl Broker {
    pub fn connect(address: SocketAddr) -> anyhow::Result<Self> {
        let stream = TcpStream::connect_timeout(&address, TIMEOUT)
            .with_context(|| format!("connecting to {address}, a server of RocketMQ"))?;
        stream.set_read_timeout(Some(TIMEOUT))?;
        stream.set_write_timeout(Some(TIMEOUT))?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, address, requests: 0 })
    }

    /// All settings, as the broker has them now.
    pub fn settings(&mut self) -> anyhow::Result<BTreeMap<String, String>> {
        let answer = self.ask(GET_BROKER_CONFIG, &json!({}))?;
        let text = String::from_utf8_lossy(&answer.body);
        Ok(text
            .lines()
            .filter_map(|line| line.split_once('='))
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect())
    }

    /// `V5_5_0`; the number of its protocol for a broker that started a moment ago, and does not answer that yet.
    pub fn version(&mut self) -> anyhow::Result<String> {
        let Ok(info) = self.runtime_info() else {
            return Ok(format!("protocol {}", self.ask(GET_BROKER_CONFIG, &json!({}))?.version));
        };
        Ok(info["table"]["brokerVersionDesc"].as_str().unwrap_or("unknown").to_owned())
    }

    fn runtime_info(&mut self) -> anyhow::Result<Value> {
        let answer = self.ask(GET_BROKER_RUNTIME_INFO, &json!({}))?;
        serde_json::from_slice(&answer.body).context("the broker's runtime information")
    }

    /// The offset that the next message of the queue gets.
    pub fn max_offset(&mut self, topic: &str, queue: u32) -> anyhow::Result<u64> {
        self.offset(GET_MAX_OFFSET, topic, queue)
    }

    /// The offset of the queue's oldest message.
    pub fn min_offset(&mut self, topic: &str, queue: u32) -> anyhow::Result<u64> {
        self.offset(GET_MIN_OFFSET, topic, queue)
    }

    fn offset(&mut self, code: i32, topic: &str, queue: u32) -> anyhow::Result<u64> {
        let answer = self.ask(code, &OffsetFields { topic, queue_id: queue })?;
        answer.number("offset").map_err(|why| anyhow!("{topic}/{queue}: {why}"))
    }

    /// Bytes of its log that its queues do not show yet: while there are any, the ends of queues are behind.
    pub(crate) fn dispatch_behind_bytes(&mut self) -> anyhow::Result<u64> {
        let info = self.runtime_info()?;
        let behind = info["table"]["dispatchBehindBytes"].as_str().and_then(|bytes| bytes.parse().ok());
        behind.with_context(|| format!("no dispatchBehindBytes in {info}"))
    }

    /// One request that must succeed.
    pub(crate) fn ask(&mut self, code: i32, fields: &impl Serialize) -> anyhow::Result<Answer> {
        let answer = self.exchange(code, fields)?;
        let Answer { code: found, remark, .. } = &answer;
        ensure!(*found == SUCCESS, "the broker refused request {code} with code {found}: {remark}");
        Ok(answer)
    }

    /// One request, whatever is answered.
    pub(crate) fn exchange(&mut self, code: i32, fields: &impl Serialize) -> anyhow::Result<Answer> {
        self.requests += 1;
        let address = self.address;
        let asking = || format!("asking {address}, a server of RocketMQ");
        let other =
            || format!("{address} is no RocketMQ name server or broker: its answer is no frame of theirs");
        let mut request = Vec::new();
        frame::encode(&mut request, code, self.requests, fields, &[], None);
        self.stream.write_all(&request).map_err(silent).with_context(asking)?;
        let (mut received, mut read) = (Vec::new(), vec![0; READ_BYTES]);
        loop {
            match frame::parse(&received).with_context(other)? {
                Parsed::Answer(answer, _) => {
                    ensure!(answer.opaque == self.requests, "{address} answered another request");
                    return Ok(answer);
                }
                Parsed::Other(bytes) => drop(received.drain(..bytes)),
                Parsed::Partial => {
                    let bytes = self.stream.read(&mut read).map_err(silent).with_context(asking)?;
                    ensure!(bytes > 0, "{address} closed the connection");
                    received.extend_from_slice(&read[..bytes]);
                }
            }
        }
    }
}

/// The system's words for a time that is over are of no use to a reader.
fn silent(error: io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::WouldBlock => io::Error::other(format!("no answer within {TIMEOUT:?}; is it one?")),
        _ => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_server_is_reported_with_its_address() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let server = std::thread::spawn(move || {
            let mut stream = listener.accept().unwrap().0;
            stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").unwrap();
            drop(stream.read(&mut [0; 1024]));
        });
        let error = Broker::connect(address).unwrap().settings().unwrap_err().to_string();
        assert!(error.starts_with(&format!("{address} is no RocketMQ name server")), "{error}");
        server.join().unwrap();
    }
}
