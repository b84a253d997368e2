//! The consumer: each user pulls one queue, from an offset on, and asks for more as soon as it has an answer.
//!
//! A pull is one request, each message in its answer an operation of its own; an empty answer has none. At the end of
//! a queue the broker holds the pull for a while, so an idle consumer costs it little. Offsets of a queue are dense:
//! a gap is a loss, and is counted as one. Offsets are not committed: it leaves no trace at the broker but the name of its group.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rocketmq::PullFields;
use rocketmq::codes::{PULL_MESSAGE, PULL_NOT_FOUND, PULL_RETRY_IMMEDIATELY, SUCCESS};
use rocketmq::frame::{self, Answer, Parsed};
use rocketmq::stored::{self, Stored};

use super::body::{Bodies, Numbers};
use super::topic::Topic;
use crate::load::distribution::Durations;
use crate::load::record::Outcome;
use crate::load::trial::Distribution;
use crate::load::{ConnectionId, Protocol, Received, Settings, Spread, Verdicts};
use crate::target::token;

#[derive(Debug, Clone)]
pub struct Pulling {
    pub topic: Topic,
    pub group: String,
    /// The first offset of each queue, in the order of the topic's queues.
    pub offsets: Vec<u64>,
    /// Messages in one answer at most; RocketMQ's own clients ask for 32.
    pub messages_max: usize,
    /// How long the broker may hold a pull at the end of a queue.
    pub hold_ms: u64,
    /// If given, each message must be one of these.
    pub bodies: Option<Bodies>,
}

#[derive(Debug, Clone, Default)]
pub struct Consumed {
    pub messages: u64,
    pub bytes: u64,
    /// Messages that came a second time; known only of bodies with numbers.
    pub duplicates: u64,
    /// Offsets that were passed over.
    pub lost: u64,
    /// Bodies that are not what was sent.
    pub damaged: u64,
    pub numbers: Numbers,
    /// From the producer's clock to the moment of the pull's answer; both clocks count milliseconds.
    born_to_consumed_us: Durations,
    stored_to_consumed_us: Durations,
}

impl Consumed {
    pub fn born_to_consumed(&self) -> Distribution {
        Distribution::of(&self.born_to_consumed_us)
    }

    pub fn stored_to_consumed(&self) -> Distribution {
        Distribution::of(&self.stored_to_consumed_us)
    }
}

/// The protocol. See [`Consumer::settings`] for the generator that it needs.
#[derive(Debug)]
pub struct Consumer {
    pulling: Pulling,
    queues: Vec<(usize, u32)>,
    opaques: Vec<i32>,
    pub consumed: Consumed,
    arrived: Arc<AtomicU64>,
}

impl Consumer {
    /// # Panics
    /// If there is not one offset for each queue.
    pub fn new(pulling: Pulling) -> Self {
        let queues = pulling.topic.all_queues();
        assert_eq!(queues.len(), pulling.offsets.len(), "each queue is begun somewhere");
        let opaques = vec![0; queues.len()];
        Self { pulling, queues, opaques, consumed: Consumed::default(), arrived: Arc::default() }
    }

    /// For the generator: a user for each queue.
    pub fn settings(&self) -> Settings {
        let addresses = self.pulling.topic.addresses();
        Settings { spread: Spread::Requests, ..Settings::spread(addresses, self.queues.len()) }
    }

    /// `Consumed::messages`, for another thread to look at while this consumer pulls.
    pub fn arrived(&self) -> Arc<AtomicU64> {
        self.arrived.clone()
    }

    /// The offsets that come next, in the order of the topic's queues.
    pub fn offsets(&self) -> &[u64] {
        &self.pulling.offsets
    }

    /// Takes the messages of one answer; `None` if they can't be read.
    fn take(&mut self, user: usize, body: &[u8], verdicts: &mut Verdicts) -> Option<()> {
        let now_ms = token::unix_ms();
        for message in stored::messages(body) {
            let message = message.ok().filter(|of| of.queue == self.queues[user].1)?;
            let wanted = &mut self.pulling.offsets[user];
            // Behind the offset that was asked for, a broker has nothing to give.
            self.consumed.lost += message.offset.checked_sub(*wanted)?;
            *wanted = message.offset + 1;
            let outcome = self.consumed.add(&message, self.pulling.bodies.as_ref(), now_ms);
            verdicts.add(outcome);
            if outcome == Outcome::Failed {
                verdicts.surprise(|| format!("the body at offset {} is not what was sent", message.offset));
            }
        }
        Some(())
    }

    /// Whether it could be read.
    fn judge(&mut self, user: usize, answer: &Answer, verdicts: &mut Verdicts) -> bool {
        match answer.code {
            SUCCESS => {
                let taken = self.take(user, &answer.body, verdicts);
                self.arrived.store(self.consumed.messages, Ordering::Relaxed);
                return taken.is_some();
            }
            PULL_NOT_FOUND | PULL_RETRY_IMMEDIATELY => {}
            code => {
                verdicts.add(Outcome::Failed);
                verdicts.surprise(|| format!("code {code}: {}", answer.remark));
            }
        }
        true
    }
}

impl Consumed {
    fn add(&mut self, message: &Stored<'_>, bodies: Option<&Bodies>, now_ms: u64) -> Outcome {
        self.messages += 1;
        self.bytes += message.body.len() as u64;
        let since_us = |then_ms: u64| now_ms.saturating_sub(then_ms).saturating_mul(1000);
        self.born_to_consumed_us.saturating_record(since_us(message.born_ms));
        self.stored_to_consumed_us.saturating_record(since_us(message.stored_ms));
        let Some(bodies) = bodies else { return Outcome::Served };
        // A number that no run has was not sent by one.
        let Some(number) = bodies.number(message.body).filter(|number| *number < Numbers::NUMBER_MAX) else {
            self.damaged += 1;
            return Outcome::Failed;
        };
        self.duplicates += u64::from(!self.numbers.insert(number));
        Outcome::Served
    }
}

impl Protocol for Consumer {
    fn request(&mut self, user: usize, out: &mut Vec<u8>) -> usize {
        let (broker, queue) = self.queues[user];
        let opaque = &mut self.opaques[user];
        *opaque = opaque.wrapping_add(1);
        let Pulling { topic, group, offsets, messages_max, hold_ms, .. } = &self.pulling;
        let fields =
            PullFields::new((group, &topic.name), (queue, offsets[user]), *messages_max, (*hold_ms).into());
        frame::encode(out, PULL_MESSAGE, *opaque, &fields, &[], None);
        broker
    }

    fn receive(&mut self, connection: ConnectionId, bytes: &[u8], verdicts: &mut Verdicts) -> Received {
        let mut consumed = 0;
        loop {
            match frame::parse(&bytes[consumed..]) {
                Ok(Parsed::Partial) => return Received::Part { consumed },
                Ok(Parsed::Other(bytes)) => consumed += bytes,
                Ok(Parsed::Answer(answer, bytes)) => {
                    if answer.opaque != self.opaques[connection.user] {
                        return Received::Broken("an answer to another request");
                    }
                    if !self.judge(connection.user, &answer, verdicts) {
                        return Received::Broken("messages that can't be read");
                    }
                    return Received::Whole { consumed: consumed + bytes, keep_alive: true };
                }
                Err(_) => return Received::Broken("no frame of RocketMQ's"),
            }
        }
    }

    /// A pull that is lost is asked again: nothing is unknown.
    fn operations(&self, _user: usize) -> u64 {
        0
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use super::super::topic::Master;
    use super::*;

    const CONNECTION: ConnectionId = ConnectionId { user: 1, lane: 0 };

    fn consumer() -> Consumer {
        let address = SocketAddr::from(([127, 0, 0, 1], 1));
        let brokers = vec![Master { name: "a".to_owned(), address, queues: 2 }];
        let topic = Topic { name: "T".to_owned(), brokers };
        Consumer::new(Pulling {
            topic,
            group: "G".to_owned(),
            offsets: vec![0, 5],
            messages_max: 32,
            hold_ms: 100,
            bodies: Some(Bodies::new(7, 20)),
        })
    }

    fn answer(code: i32, opaque: i32, body: &[u8]) -> Vec<u8> {
        super::super::answer(&format!(r#"{{"code":{code},"flag":1,"opaque":{opaque}}}"#), body)
    }

    fn message(queue: u32, offset: u64, number: u64) -> Vec<u8> {
        let mut body = Vec::new();
        Bodies::new(7, 20).append(number, &mut body);
        stored(queue, offset, &body)
    }

    /// As a broker stores it.
    fn stored(queue: u32, offset: u64, body: &[u8]) -> Vec<u8> {
        let mut message = 0xdaa3_20a7_u32.to_be_bytes().to_vec();
        message.extend((crc32fast::hash(body) & 0x7fff_ffff).to_be_bytes());
        message.extend(queue.to_be_bytes());
        message.extend([0; 4]);
        message.extend(offset.to_be_bytes());
        // Place in the log, system flag, made at, by whom, stored at, where, times consumed, transaction.
        message.extend([0; 8 + 4 + 8 + 8 + 8 + 8 + 4 + 8]);
        message.extend(u32::try_from(body.len()).unwrap().to_be_bytes());
        message.extend(body);
        // One letter of a topic, and no properties.
        message.extend([1, b'T', 0, 0]);
        [&u32::try_from(message.len() + 4).unwrap().to_be_bytes()[..], &message].concat()
    }

    #[test]
    fn messages_losses_duplicates_and_damage_are_counted() {
        let mut consumer = consumer();
        let mut verdicts = Verdicts::default();
        let damaged = stored(1, 9, b"something else");
        let body = [message(1, 5, 0), message(1, 6, 1), message(1, 8, 1), damaged].concat();
        let mut out = Vec::new();
        assert_eq!(consumer.request(1, &mut out), 0);
        let bytes = answer(0, 1, &body);
        let received = consumer.receive(CONNECTION, &bytes, &mut verdicts);
        assert_eq!(received, Received::Whole { consumed: bytes.len(), keep_alive: true });
        let got = &consumer.consumed;
        assert_eq!((got.messages, got.lost, got.duplicates, got.damaged), (4, 1, 1, 1));
        assert_eq!(consumer.arrived().load(Ordering::Relaxed), 4);
        assert_eq!((got.numbers.count(), consumer.offsets()), (2, &[0, 10][..]));
        out.clear();
        consumer.request(1, &mut out);
        assert!(String::from_utf8_lossy(&out).contains(r#""queueId":"1","queueOffset":"10""#));
    }

    #[test]
    fn answers_that_can_not_be_are_broken() {
        let cases = [
            (answer(0, 2, b""), "an answer to another request"),
            (answer(0, 1, b"no message"), "messages that can't be read"),
            (answer(0, 1, &message(0, 5, 0)), "messages that can't be read"),
            (answer(0, 1, &message(1, 4, 0)), "messages that can't be read"),
        ];
        for (bytes, wanted) in cases {
            let mut consumer = consumer();
            consumer.request(1, &mut Vec::new());
            assert_eq!(
                consumer.receive(CONNECTION, &bytes, &mut Verdicts::default()),
                Received::Broken(wanted)
            );
        }
    }

    #[test]
    fn the_end_of_a_queue_is_no_failure_and_a_refusal_is() {
        for (code, failures) in [(19, 0), (20, 0), (21, 1), (26, 1), (1, 1)] {
            let mut consumer = consumer();
            consumer.request(1, &mut Vec::new());
            let mut record = crate::load::record::Record::default();
            let mut verdicts = Verdicts::default();
            consumer.receive(CONNECTION, &answer(code, 1, b""), &mut verdicts);
            let now = std::time::Instant::now();
            let clocks = crate::load::record::Clocks { planned: now, sent: now, answered: now };
            record.settle(&mut verdicts, clocks);
            assert_eq!((record.outcomes.failed, record.outcomes.total()), (failures, failures), "{code}");
        }
    }
}
