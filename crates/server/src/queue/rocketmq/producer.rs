//! Sending: one batch to one queue, answered by the broker before anything is said about it.
//!
//! Must not: send a batch twice. One that did not leave this process may go to another broker instead; whatever
//! happens after its first byte is for the caller to judge.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use rocketmq::codes::{CodeMeaning, SEND_BATCH_MESSAGE, is_unwilling, verdict};
use rocketmq::frame::Answer;
use rocketmq::{BrokerRoute, text};
use rustix::event::PollFlags;
use serde::Serialize;

use super::connection::Lost;
use super::link::{Link, wait_any};
use super::route::{ANSWER_TIMEOUT, NameServers, RouteError};
use crate::clock::wall_clock;
use crate::queue::{BATCH_BYTES_MAX, BATCH_MESSAGES_MAX, Options, Queue, SendError, Unavailable};

/// A known route is asked for again after this long: brokers come and go.
const ROUTE_AGE_MAX: Duration = Duration::from_secs(30);
/// And after this long while no broker of it answers: it may have moved. Less than the second in which service must
/// be back.
const ROUTE_AGE_DOWN_MAX: Duration = Duration::from_millis(500);
/// How long a send waits while every broker refuses connections.
const REFUSED_WAIT: Duration = Duration::from_millis(200);
/// How long it waits for a broker that has not answered yet: a busy one is not dead.
const ANSWER_WAIT: Duration = Duration::from_secs(1);
/// How long a look at the availability waits for a connection that is being made.
const AVAILABLE_WAIT: Duration = Duration::from_millis(20);
/// A broker that takes nothing at the moment (full disk, stopping) is left alone for so long.
const UNWILLING_PAUSE: Duration = Duration::from_millis(200);

/// The names are the protocol's.
#[derive(Serialize)]
struct SendFields<'a> {
    /// Producer group.
    a: &'a str,
    /// Topic.
    b: &'a str,
    /// The topic that a missing one would be made like, and its queues. Topics are made by [`super::Admin`].
    c: &'static str,
    d: &'static str,
    /// Queue number.
    #[serde(serialize_with = "text")]
    e: u32,
    /// System flag: no compression, no transaction.
    f: &'static str,
    /// Made at, in ms.
    #[serde(serialize_with = "text")]
    g: u64,
    /// Flag of the message, its properties, and how often it was consumed.
    h: &'static str,
    i: &'static str,
    j: &'static str,
    /// Unit mode, and most times that it may be consumed.
    k: &'static str,
    l: &'static str,
    /// A batch.
    m: &'static str,
    /// Broker name.
    n: &'a str,
}

#[derive(Debug)]
struct Topic {
    route: Vec<BrokerRoute>,
    asked_at: Instant,
    /// Where the search for the next queue begins.
    turn: usize,
}

/// A sender of batches. One for each thread.
#[derive(Debug)]
pub struct Producer {
    options: Options,
    name_servers: NameServers,
    topics: HashMap<String, Topic>,
    /// By broker.
    links: HashMap<String, Link>,
    opaque: i32,
    batch: Vec<u8>,
}

impl Producer {
    /// Connects to nothing yet.
    pub fn new(options: Options) -> Producer {
        let name_servers = NameServers::new(&options, ANSWER_TIMEOUT);
        let (topics, links) = (HashMap::new(), HashMap::new());
        Producer { options, name_servers, topics, links, opaque: 0, batch: Vec::new() }
    }

    /// Whether a send has somewhere to go: a broker of the topic that answered on the connection to it, which is
    /// still open. Takes a system call for each broker while one is up; otherwise at most 20 ms, and once in half a
    /// second the time that the name servers take. To be called before units are taken, or at least each 200 ms.
    ///
    /// # Errors
    /// Why not, see [`Unavailable`].
    pub fn look(&mut self, topic: &str) -> Result<(), Unavailable> {
        self.reach(topic, AVAILABLE_WAIT, AVAILABLE_WAIT).map(drop)
    }

    /// Sends one batch (see [`crate::queue::batch_len`]) to the next writable queue of a broker that answers, and
    /// returns when the broker has stored it, as durably as the broker is configured to. Takes at most
    /// [`Options::send_timeout`], and once in half a minute the time that the name servers take.
    pub fn send(&mut self, topic: &str, bodies: &[impl AsRef<[u8]>]) -> Result<(), SendError> {
        let bytes: usize = bodies.iter().map(|body| body.as_ref().len()).sum();
        if bodies.len() > BATCH_MESSAGES_MAX || bytes > BATCH_BYTES_MAX {
            let count = bodies.len();
            return Err(SendError::NotSent(format!(
                "{count} messages of {bytes} bytes are too much for a batch"
            )));
        }
        if bodies.is_empty() {
            return Ok(());
        }
        encode_batch(&mut self.batch, bodies);
        let deadline = Instant::now() + self.options.send_timeout;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let reached = self.reach(topic, REFUSED_WAIT.min(left), ANSWER_WAIT.min(left));
            let queue = reached.map_err(|why| SendError::NotSent(why.to_string()))?;
            if Instant::now() >= deadline {
                return Err(SendError::NotSent("no time was left to send it".into()));
            }
            match self.send_to(topic, &queue, deadline) {
                // The connection was dead: there may be another broker, or a new connection.
                Err(SendError::NotSent(_)) if Instant::now() < deadline => {}
                result => return result,
            }
        }
    }

    fn send_to(&mut self, topic: &str, queue: &Queue, deadline: Instant) -> Result<(), SendError> {
        self.opaque = (self.opaque + 1) & i32::MAX;
        let opaque = self.opaque;
        let fields = SendFields {
            a: &self.options.group,
            b: topic,
            c: "TBW102",
            d: "8",
            e: queue.number,
            f: "0",
            g: wall_clock().0,
            h: "0",
            i: "",
            j: "0",
            k: "false",
            l: "0",
            m: "true",
            n: &queue.broker,
        };
        let link = self.links.get_mut(&queue.broker).expect("a reachable broker has a link");
        let connection = link.connection().expect("a reachable broker's link is up");
        if let Err(not_written) = connection.write(SEND_BATCH_MESSAGE, opaque, &fields, &self.batch, deadline)
        {
            link.fail(&not_written.lost);
            let reason = link.why_down();
            return Err(if not_written.begun {
                SendError::Unknown(reason)
            } else {
                SendError::NotSent(reason)
            });
        }
        let answer = loop {
            let step = match connection.receive() {
                Ok(Some(answer)) if answer.opaque == opaque => break answer,
                // An answer to nobody: every request that timed out took its connection with it.
                Ok(Some(_)) => Ok(()),
                Ok(None) => connection.wait(PollFlags::IN, deadline),
                Err(lost) => Err(lost),
            };
            if let Err(lost) = step {
                link.fail(&lost);
                return Err(SendError::Unknown(link.why_down()));
            }
        };
        judge(answer, link)
    }

    /// The next writable queue of a broker that is up, after waiting for one: for so long if all are down, or if one
    /// may still answer.
    fn reach(&mut self, topic: &str, if_down: Duration, if_pending: Duration) -> Result<Queue, Unavailable> {
        let start = Instant::now();
        let age_max = if self.topics.contains_key(topic) { ROUTE_AGE_MAX } else { Duration::ZERO };
        self.refresh(topic, age_max)?;
        loop {
            self.advance(topic);
            if let Some(queue) = self.next_queue(topic) {
                return Ok(queue);
            }
            let route = self.topics.get(topic).map_or(&[][..], |topic| &topic.route);
            let links = || route.iter().filter_map(|broker| self.links.get(&broker.broker));
            let until = start + if links().any(Link::is_pending) { if_pending } else { if_down };
            if Instant::now() >= until {
                self.refresh(topic, ROUTE_AGE_DOWN_MAX)?;
                return Err(self.why_down(topic));
            }
            wait_any(links(), until);
        }
    }

    /// Asks for the route if what is known is older than this. What was known stays if there is no answer: a name
    /// server forgets a broker as soon as it dies, and a send needs no name server.
    fn refresh(&mut self, topic: &str, age_max: Duration) -> Result<(), Unavailable> {
        let now = Instant::now();
        if self.topics.get(topic).is_some_and(|known| now.duration_since(known.asked_at) < age_max) {
            return Ok(());
        }
        let looked_up = self.name_servers.lookup(topic);
        match (looked_up, self.topics.get_mut(topic)) {
            (Ok(route), Some(known)) => {
                known.asked_at = now;
                known.route = route;
            }
            (Ok(route), None) => {
                self.topics.insert(topic.into(), Topic { route, asked_at: now, turn: 0 });
            }
            (Err(_), Some(known)) => known.asked_at = now,
            (Err(error), None) => return Err(unavailable(error)),
        }
        let security = &self.options.security;
        for broker in self.topics.get(topic).map_or(&[][..], |topic| &topic.route) {
            let Some(master) = &broker.master else { continue };
            match self.links.get_mut(&broker.broker) {
                Some(link) if link.moves_to(master) => *link = Link::new(master, security, topic),
                Some(_) => {}
                None => drop(self.links.insert(broker.broker.clone(), Link::new(master, security, topic))),
            }
        }
        Ok(())
    }

    /// Lets every link of the topic go on, and finds out which connections were closed meanwhile.
    fn advance(&mut self, topic: &str) {
        for broker in self.topics.get(topic).map_or(&[][..], |topic| &topic.route) {
            let Some(link) = self.links.get_mut(&broker.broker) else { continue };
            if let Some(connection) = link.connection()
                && let Err(lost) = idle(|| connection.receive())
            {
                link.fail(&lost);
            }
            link.advance();
        }
    }

    fn next_queue(&mut self, topic: &str) -> Option<Queue> {
        let known = self.topics.get_mut(topic)?;
        let queues = || {
            known.route.iter().flat_map(|broker| (0..broker.write_queues).map(move |number| (broker, number)))
        };
        let count = queues().count();
        let is_up = |broker: &BrokerRoute| self.links.get(&broker.broker).is_some_and(Link::is_up);
        let mut from_turn = queues().enumerate().cycle().skip(known.turn).take(count);
        let (index, (broker, number)) = from_turn.find(|(_, (broker, _))| is_up(broker))?;
        let queue = Queue { broker: broker.broker.clone(), number };
        known.turn = (index + 1) % count;
        Some(queue)
    }

    fn why_down(&self, topic: &str) -> Unavailable {
        let route = self.topics.get(topic).map_or(&[][..], |topic| &topic.route);
        let mut refused = !route.is_empty();
        let mut reasons = Vec::new();
        for broker in route {
            let link = self.links.get(&broker.broker);
            refused &= link.is_some_and(Link::is_refused);
            reasons.push(match link {
                Some(link) if !link.is_up() => format!("{} at {}", broker.broker, link.why_down()),
                Some(_) => format!("{} takes no writes on this topic", broker.broker),
                None => format!("{} has no master", broker.broker),
            });
        }
        let text = format!("no broker of the topic {topic} can be reached: {}", reasons.join("; "));
        if refused { Unavailable::Refused(text) } else { Unavailable::Unreachable(text) }
    }
}

fn unavailable(error: RouteError) -> Unavailable {
    match error {
        RouteError::NoTopic(topic) => Unavailable::NoTopic(topic),
        RouteError::NoNameServer(_) => Unavailable::Unreachable(error.to_string()),
        RouteError::Refused(_) => Unavailable::Refused(error.to_string()),
    }
}

/// Takes what came for nobody. An error if the connection is closed.
fn idle(mut receive: impl FnMut() -> Result<Option<Answer>, Lost>) -> Result<(), Lost> {
    while receive()?.is_some() {}
    Ok(())
}

fn judge(answer: Answer, link: &mut Link) -> Result<(), SendError> {
    let (code, remark) = (answer.code, answer.remark);
    if is_unwilling(code) {
        link.fail_for(format!("code {code}: {remark}"), UNWILLING_PAUSE);
    }
    match verdict(code) {
        CodeMeaning::Stored => Ok(()),
        CodeMeaning::Refused => Err(SendError::Refused(code, remark)),
        CodeMeaning::Unknown => {
            Err(SendError::Unknown(format!("the broker answered with code {code}: {remark}")))
        }
    }
}

/// Each message: its length with these four bytes, magic, checksum and flag (the broker fills them in), the body
/// with its length, and the length of its properties, of which it has none.
fn encode_batch(out: &mut Vec<u8>, bodies: &[impl AsRef<[u8]>]) {
    out.clear();
    for body in bodies {
        let body = body.as_ref();
        let body_bytes = u32::try_from(body.len()).expect("a batch's bytes are bounded");
        out.extend_from_slice(&(body_bytes + 22).to_be_bytes());
        out.extend_from_slice(&[0; 12]);
        out.extend_from_slice(&body_bytes.to_be_bytes());
        out.extend_from_slice(body);
        out.extend_from_slice(&[0; 2]);
    }
}
