//! The producer: one message (or batch) under way on each connection, as each thread of RocketMQ's own benchmark has.
//!
//! A message is what RocketMQ's own client makes of it, its unique key included: without that the broker would spare
//! itself the work of indexing it, and look faster than it is to its users.

use std::borrow::Cow;
use std::io::Write;
use std::time::Instant;

use rocketmq::codes::{CodeMeaning, SEND_BATCH_MESSAGE, SEND_MESSAGE_V2, SYSTEM_BUSY, verdict};
use rocketmq::frame::{self, FLAG_ANSWER, Frame, VERSION};
use serde::Deserialize;

use super::body::{Bodies, Numbers};
use super::topic::Topic;
use crate::load::record::Outcome;
use crate::load::{ConnectionId, Protocol, Received, Settings, Spread, Verdicts};
use crate::target::token;

const GROUP: &str = "bench_producer";

#[derive(Debug, Clone)]
pub struct Sending {
    pub topic: Topic,
    /// RocketMQ's producer threads.
    pub connections: usize,
    pub bodies: Bodies,
    /// With keys, by which messages can be looked up: more work for the broker.
    pub keys: bool,
    /// Messages in one send; 1 is no batch.
    pub batch: u32,
    /// Sends that are under way on a connection at once, begun and timed together; 1 is what a thread does.
    pub pipeline: u32,
}

/// The protocol. See [`Sending::settings`] for the generator that it needs.
#[derive(Debug)]
pub struct Producer {
    sending: Sending,
    queues: Vec<(usize, u32)>,
    turn: usize,
    users: Vec<User>,
    next: u64,
    /// Numbers of the acknowledged messages, if somebody wants to know.
    acknowledged: Option<Numbers>,
    begun: Instant,
    begun_ms: u64,
    body: Vec<u8>,
}

/// The request under way: one or more sends with numbers that follow each other.
#[derive(Debug, Clone, Default)]
struct User {
    /// The number of the first send.
    opaque: i32,
    /// The number of its first message.
    first: u64,
    /// Which of the sends are answered.
    answered: Vec<bool>,
}

#[derive(Debug, Clone, Copy)]
struct Send {
    opaque: i32,
    first: u64,
    broker: usize,
    queue: u32,
}

/// As much of an answer's header as the loop needs; nothing of it is copied.
#[derive(Debug, Deserialize)]
struct Header<'a> {
    code: i32,
    opaque: i32,
    flag: i32,
    /// What the broker says about a refusal.
    #[serde(borrow, default)]
    remark: Option<Cow<'a, str>>,
}

impl Sending {
    /// One message at a time on each connection, without a key.
    pub fn plain(topic: Topic, connections: usize, bodies: Bodies) -> Self {
        Self { topic, connections, bodies, keys: false, batch: 1, pipeline: 1 }
    }

    /// A connection of each user to each broker.
    pub fn settings(&self) -> Settings {
        Settings { spread: Spread::Requests, ..Settings::spread(self.topic.addresses(), self.connections) }
    }
}

impl Producer {
    /// # Panics
    /// If the topic has no queue, or nothing is to be sent.
    pub fn new(sending: Sending) -> Self {
        let queues = sending.topic.all_queues();
        assert!(
            !queues.is_empty() && sending.batch > 0 && sending.pipeline > 0,
            "there is something to send, and somewhere"
        );
        let users = vec![User::default(); sending.connections];
        Self {
            sending,
            queues,
            turn: 0,
            users,
            next: 0,
            acknowledged: None,
            begun: Instant::now(),
            begun_ms: token::unix_ms(),
            body: Vec::new(),
        }
    }

    /// Keeps the number of each acknowledged message from now on.
    #[must_use]
    pub fn remembering(mut self) -> Self {
        self.acknowledged = Some(Numbers::default());
        self
    }

    /// See [`Self::remembering`].
    pub fn acknowledged(&self) -> Option<&Numbers> {
        self.acknowledged.as_ref()
    }

    fn now_ms(&self) -> u64 {
        self.begun_ms + u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(0)
    }

    /// What RocketMQ calls properties; `pair` and `end` are how the separators are written.
    fn properties(&self, number: u64, (pair, end): (&str, &str), out: &mut Vec<u8>) {
        let run = self.sending.bodies.run;
        if self.sending.keys {
            append(out, format_args!("KEYS{pair}{number}{end}"));
        }
        append(out, format_args!("UNIQ_KEY{pair}{run:016X}{number:016X}{end}WAIT{pair}true{end}"));
    }

    fn header(&self, send: Send, out: &mut Vec<u8>) {
        let Send { opaque, first, broker, queue } = send;
        let Sending { topic, batch, .. } = &self.sending;
        let (code, is_batch) =
            if *batch == 1 { (SEND_MESSAGE_V2, false) } else { (SEND_BATCH_MESSAGE, true) };
        append(
            out,
            format_args!(
                r#"{{"code":{code},"extFields":{{"a":"{GROUP}","b":"{}","c":"TBW102","d":"4","e":"{queue}","f":"0","#,
                topic.name
            ),
        );
        append(out, format_args!(r#""g":"{}","h":"0","i":""#, self.now_ms()));
        // As JSON writes the characters 1 and 2.
        self.properties(first, ("\\u0001", "\\u0002"), out);
        append(
            out,
            format_args!(
                r#"","j":"0","k":"false","m":"{is_batch}","n":"{}"}},"flag":0,"language":"OTHER","#,
                topic.brokers[broker].name
            ),
        );
        append(
            out,
            format_args!(r#""opaque":{},"serializeTypeCurrentRPC":"JSON","version":{VERSION}}}"#, opaque),
        );
    }

    /// In a batch: lengths, three fields that the broker fills in, the body, the properties.
    fn message_of_batch(&self, number: u64, out: &mut Vec<u8>) {
        let mut properties = Vec::new();
        self.properties(number, ("\x01", "\x02"), &mut properties);
        let body_bytes = self.sending.bodies.bytes();
        let length = 4 + 4 + 4 + 4 + 4 + body_bytes + 2 + properties.len();
        out.extend_from_slice(&to_u32(length).to_be_bytes());
        out.extend_from_slice(&[0; 12]);
        out.extend_from_slice(&to_u32(body_bytes).to_be_bytes());
        self.sending.bodies.append(number, out);
        let length = u16::try_from(properties.len()).expect("a key and a flag");
        out.extend_from_slice(&length.to_be_bytes());
        out.extend_from_slice(&properties);
    }

    /// The next queue, of this broker if one is given.
    fn next_queue(&mut self, broker: Option<usize>) -> (usize, u32) {
        loop {
            let queue = self.queues[self.turn];
            self.turn = (self.turn + 1) % self.queues.len();
            if broker.is_none_or(|broker| broker == queue.0) {
                return queue;
            }
        }
    }

    fn append(&mut self, send: Send, out: &mut Vec<u8>) {
        let mut body = std::mem::take(&mut self.body);
        body.clear();
        if self.sending.batch == 1 {
            self.sending.bodies.append(send.first, &mut body);
        } else {
            let numbers = send.first..send.first + u64::from(self.sending.batch);
            numbers.for_each(|number| self.message_of_batch(number, &mut body));
        }
        frame::append(out, |out| self.header(send, out), |out| out.extend_from_slice(&body));
        self.body = body;
    }

    fn settle(&mut self, first: u64, outcome: Outcome, verdicts: &mut Verdicts) {
        for number in first..first + u64::from(self.sending.batch) {
            verdicts.add(outcome);
            if outcome == Outcome::Queued
                && let Some(acknowledged) = &mut self.acknowledged
            {
                acknowledged.insert(number);
            }
        }
    }

    /// Takes one answer; whether it was the last one that is due.
    fn take(
        &mut self,
        user: usize,
        header: &Header<'_>,
        verdicts: &mut Verdicts,
    ) -> Result<bool, &'static str> {
        let asking = &mut self.users[user];
        let index = usize::try_from(header.opaque.wrapping_sub(asking.opaque)).ok();
        let answered = index.and_then(|index| asking.answered.get_mut(index));
        let Some(answered) = answered.filter(|answered| !**answered) else {
            return Err("an answer to another request");
        };
        *answered = true;
        let is_whole = asking.answered.iter().all(|answered| *answered);
        let index = u64::try_from(index.unwrap_or(0)).expect("a pipeline is short");
        let first = asking.first + index * u64::from(self.sending.batch);
        let outcome = meaning(header.code);
        if outcome != Outcome::Queued {
            let remark = header.remark.as_deref().unwrap_or_default();
            verdicts.surprise(|| format!("code {}: {remark}", header.code));
        }
        self.settle(first, outcome, verdicts);
        Ok(is_whole)
    }
}

impl Protocol for Producer {
    fn request(&mut self, user: usize, out: &mut Vec<u8>) -> usize {
        let Sending { batch, pipeline, .. } = self.sending;
        let asking = &mut self.users[user];
        let sent = i32::try_from(asking.answered.len()).expect("a pipeline is short");
        asking.opaque = asking.opaque.wrapping_add(sent);
        asking.first = self.next;
        asking.answered.clear();
        asking.answered.resize(usize::try_from(pipeline).expect("a pipeline is short"), false);
        let mut opaque = asking.opaque;
        let mut lane = None;
        for _ in 0..pipeline {
            let (broker, queue) = self.next_queue(lane);
            let first = self.next;
            self.next += u64::from(batch);
            self.append(Send { opaque, first, broker, queue }, out);
            opaque = opaque.wrapping_add(1);
            lane = Some(broker);
        }
        lane.expect("a request has a send")
    }

    fn receive(&mut self, connection: ConnectionId, bytes: &[u8], verdicts: &mut Verdicts) -> Received {
        let mut consumed = 0;
        loop {
            let Frame { header, bytes, .. } = match frame::split(&bytes[consumed..]) {
                Ok(Some(frame)) => frame,
                Ok(None) => return Received::Part { consumed },
                Err(_) => return Received::Broken("no frame of RocketMQ's"),
            };
            let Ok(header) = serde_json::from_slice::<Header<'_>>(header) else {
                return Received::Broken("a header of another form");
            };
            consumed += bytes;
            // What a broker asks its clients for is none of a benchmark's business.
            if header.flag & FLAG_ANSWER == 0 {
                continue;
            }
            match self.take(connection.user, &header, verdicts) {
                Ok(false) => {}
                Ok(true) => return Received::Whole { consumed, keep_alive: true },
                Err(why) => return Received::Broken(why),
            }
        }
    }

    fn operations(&self, _user: usize) -> u64 {
        u64::from(self.sending.batch) * u64::from(self.sending.pipeline)
    }
}

/// Busy is a refusal too, and one that a shop would try again after.
fn meaning(code: i32) -> Outcome {
    match verdict(code) {
        CodeMeaning::Stored => Outcome::Queued,
        CodeMeaning::Refused if code == SYSTEM_BUSY => Outcome::Busy,
        CodeMeaning::Refused => Outcome::Failed,
        CodeMeaning::Unknown => Outcome::Unknown,
    }
}

fn to_u32(bytes: usize) -> u32 {
    u32::try_from(bytes).expect("a request is far below 4 GiB")
}

fn append(out: &mut Vec<u8>, text: std::fmt::Arguments<'_>) {
    out.write_fmt(text).expect("a Vec takes whatever is written");
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use super::super::topic::Master;
    use super::*;

    fn sending(batch: u32, keys: bool) -> Sending {
        let address = SocketAddr::from(([127, 0, 0, 1], 1));
        let broker = |name: &str, queues| Master { name: name.to_owned(), address, queues };
        let topic = Topic { name: "T".to_owned(), brokers: vec![broker("a", 2), broker("b", 1)] };
        Sending { keys, batch, ..Sending::plain(topic, 2, Bodies::new(7, 20)) }
    }

    fn header_and_body(request: &[u8]) -> (serde_json::Value, Vec<u8>) {
        let length = usize::try_from(u32::from_be_bytes(request[4..8].try_into().unwrap())).unwrap();
        let total = usize::try_from(u32::from_be_bytes(request[..4].try_into().unwrap())).unwrap();
        assert_eq!(total, request.len() - 4);
        let header = serde_json::from_slice(&request[8..8 + length]).unwrap();
        (header, request[8 + length..].to_vec())
    }

    #[test]
    fn messages_go_round_the_queues_with_a_number_each() {
        let mut producer = Producer::new(sending(1, true));
        for (number, (lane, queue)) in (0_u64..).zip([(0, "0"), (1, "0"), (0, "1"), (0, "0")]) {
            let mut out = Vec::new();
            assert_eq!(producer.request(1, &mut out), lane);
            let (header, body) = header_and_body(&out);
            let fields = &header["extFields"];
            assert_eq!(
                (&header["code"], &fields["e"], &fields["m"]),
                (&310.into(), &queue.into(), &"false".into())
            );
            assert_eq!(fields["n"], ["a", "b"][lane]);
            let wanted =
                format!("KEYS\x01{number}\x02UNIQ_KEY\x01{:016X}{number:016X}\x02WAIT\x01true\x02", 7);
            assert_eq!(fields["i"], wanted);
            assert_eq!(Bodies::new(7, 20).number(&body), Some(number));
        }
    }

    #[test]
    fn a_batch_is_messages_behind_each_other() {
        let mut producer = Producer::new(sending(3, false));
        let mut out = Vec::new();
        producer.request(0, &mut out);
        let (header, mut body) = header_and_body(&out);
        assert_eq!((&header["code"], &header["extFields"]["m"]), (&320.into(), &"true".into()));
        for number in 0..3_u64 {
            let length = usize::try_from(u32::from_be_bytes(body[..4].try_into().unwrap())).unwrap();
            let message: Vec<u8> = body.drain(..length).collect();
            assert_eq!(message[4..16], [0; 12]);
            assert_eq!(message[16..20], 20_u32.to_be_bytes());
            assert_eq!(Bodies::new(7, 20).number(&message[20..40]), Some(number));
        }
        assert!(body.is_empty());
    }

    #[test]
    fn codes_have_their_meaning() {
        for (code, wanted) in [
            (0, Outcome::Queued),
            (1, Outcome::Unknown),
            (2, Outcome::Busy),
            (10, Outcome::Unknown),
            (11, Outcome::Unknown),
            (12, Outcome::Unknown),
            (13, Outcome::Failed),
            (14, Outcome::Failed),
            (17, Outcome::Failed),
            (4711, Outcome::Unknown),
            (-1, Outcome::Unknown),
        ] {
            assert_eq!(meaning(code), wanted, "{code}");
        }
    }

    #[test]
    fn answers_are_taken_only_by_the_request_that_they_answer() {
        let connection = ConnectionId { user: 0, lane: 0 };
        let answer = |opaque: i32, code: i32| {
            super::super::answer(&format!(r#"{{"code":{code},"flag":1,"opaque":{opaque}}}"#), b"")
        };
        let mut producer = Producer::new(sending(2, false)).remembering();
        let mut verdicts = Verdicts::default();
        producer.request(0, &mut Vec::new());
        let wrong = producer.receive(connection, &answer(1, 0), &mut verdicts);
        assert_eq!(wrong, Received::Broken("an answer to another request"));
        let mut both = super::super::answer(r#"{"code":40,"flag":0,"opaque":5}"#, b"");
        let first = both.len();
        both.extend(answer(0, 0));
        let part = producer.receive(connection, &both[..first + 5], &mut verdicts);
        assert_eq!(part, Received::Part { consumed: first });
        let whole = producer.receive(connection, &both, &mut verdicts);
        assert_eq!(whole, Received::Whole { consumed: both.len(), keep_alive: true });
        assert_eq!(producer.acknowledged().map(Numbers::count), Some(2));
        producer.request(0, &mut Vec::new());
        producer.receive(connection, &answer(1, 10), &mut verdicts);
        assert_eq!(producer.acknowledged().map(Numbers::count), Some(2));
    }

    #[test]
    fn a_pipeline_is_whole_when_each_of_its_sends_is_answered() {
        let connection = ConnectionId { user: 0, lane: 0 };
        let answers = |answers: &[(i32, i32)]| -> Vec<u8> {
            let answer = |(opaque, code): &(i32, i32)| {
                super::super::answer(&format!(r#"{{"code":{code},"flag":1,"opaque":{opaque}}}"#), b"")
            };
            answers.iter().flat_map(answer).collect()
        };
        let mut producer = Producer::new(Sending { pipeline: 3, ..sending(1, false) }).remembering();
        let mut out = Vec::new();
        let lane = producer.request(0, &mut out);
        // All three go to the one broker that has two queues, or the one that has one.
        assert_eq!(
            String::from_utf8_lossy(&out).matches(&format!(r#""n":"{}""#, ["a", "b"][lane])).count(),
            3
        );
        assert_eq!(producer.operations(0), 3);
        let mut verdicts = Verdicts::default();
        let two = answers(&[(2, 0), (0, 2)]);
        assert_eq!(producer.receive(connection, &two, &mut verdicts), Received::Part { consumed: two.len() });
        let twice = producer.receive(connection, &answers(&[(2, 0)]), &mut verdicts);
        assert_eq!(twice, Received::Broken("an answer to another request"));
        let last = answers(&[(1, 0)]);
        let whole = Received::Whole { consumed: last.len(), keep_alive: true };
        assert_eq!(producer.receive(connection, &last, &mut verdicts), whole);
        let acknowledged = producer.acknowledged().unwrap();
        let mut wanted = Numbers::default();
        assert!(wanted.insert(1) && wanted.insert(2));
        assert_eq!((acknowledged.count(), wanted.missing_in(acknowledged)), (2, 0));
        // The next request has numbers of its own.
        producer.request(0, &mut Vec::new());
        let old = producer.receive(connection, &last, &mut verdicts);
        assert_eq!(old, Received::Broken("an answer to another request"));
    }
}
