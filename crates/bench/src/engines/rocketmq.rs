//! As much of RocketMQ's remoting protocol as it takes to ask a broker for its settings and for the end of a queue.
//!
//! A frame is a length, a header's length (its top byte says how it is written: 0 is JSON), the header, the body.
//! Written from RocketMQ's own sources of the protocol, not from the server's client. Never used to measure.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context, ensure};
use serde_json::{Value, json};

const TIMEOUT: Duration = Duration::from_secs(10);
const FRAME_BYTES_MAX: usize = 4 << 20;
const GET_BROKER_CONFIG: u32 = 26;
const GET_BROKER_RUNTIME_INFO: u32 = 28;
const GET_MAX_OFFSET: u32 = 30;
const GET_MIN_OFFSET: u32 = 31;

#[derive(Debug)]
pub struct Broker {
    stream: TcpStream,
    address: SocketAddr,
    requests: u32,
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
        let (_, body) = self.ask(GET_BROKER_CONFIG, &json!({}))?;
        let text = String::from_utf8_lossy(&body);
        Ok(text
            .lines()
            .filter_map(|line| line.split_once('='))
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect())
    }

    /// `V5_5_0`; the number of its protocol for a broker that started a moment ago, and does not answer that yet.
    pub fn version(&mut self) -> anyhow::Result<String> {
        let Ok((_, body)) = self.ask(GET_BROKER_RUNTIME_INFO, &json!({})) else {
            let (header, _) = self.ask(GET_BROKER_CONFIG, &json!({}))?;
            return Ok(format!("protocol {}", header["version"]));
        };
        let info: Value = serde_json::from_slice(&body).context("the broker's runtime information")?;
        Ok(info["table"]["brokerVersionDesc"].as_str().unwrap_or("unknown").to_owned())
    }

    /// The offset that the next message of the queue gets.
    pub fn max_offset(&mut self, topic: &str, queue: u32) -> anyhow::Result<u64> {
        self.offset(GET_MAX_OFFSET, topic, queue)
    }

    /// The offset of the queue's oldest message.
    pub fn min_offset(&mut self, topic: &str, queue: u32) -> anyhow::Result<u64> {
        self.offset(GET_MIN_OFFSET, topic, queue)
    }

    fn offset(&mut self, code: u32, topic: &str, queue: u32) -> anyhow::Result<u64> {
        let fields = json!({"topic": topic, "queueId": queue.to_string()});
        let (header, _) = self.ask(code, &fields)?;
        let offset = &header["extFields"]["offset"];
        let offset = offset.as_u64().or_else(|| offset.as_str()?.parse().ok());
        offset.with_context(|| format!("no offset of {topic}/{queue} in {header}"))
    }

    /// Bytes of its log that its queues do not show yet: while there are any, the ends of queues are behind.
    pub(crate) fn dispatch_behind_bytes(&mut self) -> anyhow::Result<u64> {
        let (_, body) = self.ask(GET_BROKER_RUNTIME_INFO, &json!({}))?;
        let info: Value = serde_json::from_slice(&body).context("the broker's runtime information")?;
        let behind = info["table"]["dispatchBehindBytes"].as_str().and_then(|bytes| bytes.parse().ok());
        behind.with_context(|| format!("no dispatchBehindBytes in {info}"))
    }

    /// One request that must succeed; the answer's header and body.
    pub(crate) fn ask(&mut self, code: u32, fields: &Value) -> anyhow::Result<(Value, Vec<u8>)> {
        let (header, body) = self.exchange(code, fields)?;
        ensure!(header["code"] == 0, "the broker refused request {code}: {header}");
        Ok((header, body))
    }

    /// One request, whatever is answered.
    pub(crate) fn exchange(&mut self, code: u32, fields: &Value) -> anyhow::Result<(Value, Vec<u8>)> {
        self.requests += 1;
        let header = json!({
            "code": code, "flag": 0, "language": "OTHER", "opaque": self.requests,
            "serializeTypeCurrentRPC": "JSON", "version": 0, "extFields": fields,
        });
        let (address, request) = (self.address, frame(header.to_string().as_bytes())?);
        let asking = || format!("asking {address}, a server of RocketMQ");
        self.stream.write_all(&request).map_err(silent).with_context(asking)?;
        let mut length = [0; 4];
        self.stream.read_exact(&mut length).map_err(silent).with_context(asking)?;
        let bytes = usize::try_from(u32::from_be_bytes(length))?;
        let other =
            || format!("{address} is no RocketMQ name server or broker: its answer is no frame of theirs");
        ensure!((4..=FRAME_BYTES_MAX).contains(&bytes), other());
        let mut answer = vec![0; bytes];
        self.stream.read_exact(&mut answer).map_err(silent).with_context(asking)?;
        let (header, body) = split(&answer).with_context(other)?;
        ensure!(header["opaque"] == self.requests, "{address} answered another request");
        Ok((header, body.to_vec()))
    }
}

/// The system's words for a time that is over are of no use to a reader.
fn silent(error: io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::WouldBlock => io::Error::other(format!("no answer within {TIMEOUT:?}; is it one?")),
        _ => error,
    }
}

fn frame(header: &[u8]) -> anyhow::Result<Vec<u8>> {
    let length = u32::try_from(header.len()).context("a header of a few hundred bytes")?;
    let mut frame = Vec::with_capacity(header.len() + 8);
    frame.extend_from_slice(&(length + 4).to_be_bytes());
    frame.extend_from_slice(&length.to_be_bytes());
    frame.extend_from_slice(header);
    Ok(frame)
}

/// Header and body of what follows a frame's length.
fn split(answer: &[u8]) -> Option<(Value, &[u8])> {
    let (length, rest) = answer.split_first_chunk::<4>()?;
    let length = usize::try_from(u32::from_be_bytes(*length) & 0x00ff_ffff).ok()?;
    let (header, body) = rest.split_at_checked(length)?;
    Some((serde_json::from_slice(header).ok()?, body))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_is_two_lengths_header_and_body() {
        let mut bytes = frame(br#"{"code":0}"#).unwrap();
        assert_eq!(bytes[..8], [0, 0, 0, 14, 0, 0, 0, 10]);
        bytes.extend_from_slice(b"a body");
        let (header, body) = split(&bytes[4..]).unwrap();
        assert_eq!((&header["code"], body), (&json!(0), &b"a body"[..]));
        assert_eq!(split(&bytes[4..12]), None);
    }

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
