//! Reading queues from given offsets, all of them at once.
//!
//! For every wanted queue a request is held by its broker until a message comes. What was delivered is followed by
//! the next request at once, so that the answer is under way while the caller commits. Answers are matched to
//! what is wanted when they come; a caller that goes back to an older offset simply makes them void.
//!
//! Must not: skip an offset, or give a message whose checksum is wrong.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::time::{Duration, Instant};

use rocketmq::codes::{GET_MAX_OFFSET, GET_MIN_OFFSET, PULL_MESSAGE, SUCCESS};
use rocketmq::frame::Answer;
use rocketmq::{BrokerRoute, OffsetFields, PullFields};

use super::connection::Lost;
use super::link::{Link, wait_any};
use super::pull::{PullAnswer, read};
use super::route::{ANSWER_TIMEOUT, NameServers};
use crate::queue::{Options, PullError, Pulled, Queue};

/// Most messages asked for at once. The broker's own limit (`maxTransferCountOnMessageInMemory`, 32) is often lower.
const PULL_MESSAGES_MAX: usize = 1024;
/// How long the broker may hold a request. It looks only each 5 s whether the time is over.
const HOLD: Duration = Duration::from_secs(5);
/// Beside the held request, one that is answered at once: a message that comes in the very moment in which the
/// broker lays a request aside wakes nobody.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// A look that is not answered in this time means a dead connection.
const LOOK_TIMEOUT: Duration = Duration::from_secs(3);
/// After an answer that asks for another try.
const RETRY_PAUSE: Duration = Duration::from_millis(20);
/// How long more is collected after the first messages came, while the broker says that it has more.
const GATHER: Duration = Duration::from_millis(5);
/// For a broker to become reachable, and to answer about offsets.
const CALL_TIMEOUT: Duration = Duration::from_secs(2);
/// For a small request to fit the socket's buffer.
const WRITE_TIMEOUT: Duration = Duration::from_millis(100);
/// A known route is asked for again after this long.
const ROUTE_AGE_MAX: Duration = Duration::from_secs(30);
/// And after this long while a wanted broker is not reachable.
const ROUTE_AGE_DOWN_MAX: Duration = Duration::from_millis(500);

/// What was asked about a queue and not answered yet.
#[derive(Debug)]
struct Asked {
    offset: u64,
    held: Option<i32>,
    look: Option<i32>,
    /// When to hold a request again, and when to look (or, if a look is out, when it was sent).
    hold_at: Instant,
    look_at: Instant,
}

/// A reader of one topic's queues. One for each thread.
#[derive(Debug)]
pub struct Consumer {
    options: Options,
    topic: String,
    name_servers: NameServers,
    route: Vec<BrokerRoute>,
    route_asked_at: Option<Instant>,
    /// By broker.
    links: HashMap<String, Link>,
    asked: HashMap<Queue, Asked>,
    /// Requests that are not answered yet, by their numbers.
    in_flight: HashMap<i32, (Queue, u64)>,
    /// Answers that came while another one was waited for. At most what is in flight.
    early: VecDeque<Answer>,
    /// Of a queue from an offset, found while there was something to deliver: reported by the next call.
    faults: VecDeque<(Queue, u64, PullError)>,
    opaque: i32,
}

/// What one call has collected.
#[derive(Default)]
struct Gathered {
    queues: BTreeMap<Queue, (Pulled, bool)>,
    count: usize,
    first_at: Option<Instant>,
}

impl Consumer {
    /// Connects to nothing yet.
    pub fn new(options: Options, topic: &str) -> Consumer {
        Consumer {
            topic: topic.into(),
            name_servers: NameServers::new(&options, ANSWER_TIMEOUT),
            options,
            route: Vec::new(),
            route_asked_at: None,
            links: HashMap::new(),
            asked: HashMap::new(),
            in_flight: HashMap::new(),
            early: VecDeque::new(),
            faults: VecDeque::new(),
            opaque: 0,
        }
    }

    /// The topic's readable queues on the brokers that the name servers know now. They forget a broker as soon as it
    /// dies, so a queue that is missing here may still hold orders.
    pub fn queues(&mut self) -> Result<Vec<Queue>, PullError> {
        self.refresh(Duration::ZERO)?;
        let numbered = |broker: &BrokerRoute| {
            let name = broker.broker.clone();
            (0..broker.read_queues).map(move |number| Queue { broker: name.clone(), number })
        };
        Ok(self.route.iter().flat_map(numbered).collect())
    }

    /// The offset that the queue's next message will get.
    pub fn max_offset(&mut self, queue: &Queue) -> Result<u64, PullError> {
        self.offset(GET_MAX_OFFSET, queue)
    }

    /// The offset of the oldest message that the broker still has.
    pub fn min_offset(&mut self, queue: &Queue) -> Result<u64, PullError> {
        self.offset(GET_MIN_OFFSET, queue)
    }

    /// Messages of any of these queues, from these offsets on. Returns as soon as there are some, and with none when
    /// the time is over; with `max` or more, it stops asking, so it returns at most `max` and one answer of a
    /// broker. An error belongs to the queue that it names; the caller can go on without that queue.
    pub fn pull(
        &mut self,
        wants: &[(Queue, u64)],
        max: usize,
        wait: Duration,
    ) -> Result<Vec<Pulled>, PullError> {
        let deadline = Instant::now() + wait;
        let mut next: BTreeMap<Queue, u64> = wants.iter().cloned().collect();
        self.faults.retain(|(queue, offset, _)| next.get(queue) == Some(offset));
        if let Some((_, _, fault)) = self.faults.pop_front() {
            return Err(fault);
        }
        // What is not wanted any more has no timers either; its answers are passed over.
        self.asked.retain(|queue, asked| next.get(queue) == Some(&asked.offset));
        let mut gathered = Gathered::default();
        self.refresh_for(next.keys());
        loop {
            // First what has come since the last call, which may be long ago: a connection is not silent because
            // nobody listened.
            self.take_answers(&mut next, &mut gathered, max);
            if gathered.is_enough(Instant::now(), max) || !self.faults.is_empty() {
                break;
            }
            self.advance();
            self.ask_all(&next, max);
            let now = Instant::now();
            if now >= deadline {
                break;
            }
            let until = gathered.first_at.map_or(deadline, |first| first + GATHER).min(self.next_timer(now));
            wait_any(self.links.values(), until.min(deadline));
        }
        self.ask_all(&next, max);
        if gathered.count > 0 {
            return Ok(gathered.queues.into_values().map(|(pulled, _)| pulled).collect());
        }
        match self.faults.pop_front() {
            Some((_, _, fault)) => Err(fault),
            None => self.all_reachable(next.keys()).map(|()| Vec::new()),
        }
    }
}

impl Gathered {
    fn is_enough(&self, now: Instant, max: usize) -> bool {
        let Some(first_at) = self.first_at else { return false };
        self.count >= max || now >= first_at + GATHER || !self.queues.values().any(|(_, more)| *more)
    }

    fn add(&mut self, queue: &Queue, messages: Vec<(u64, Box<[u8]>)>, more: bool, misplaced: u64) -> u64 {
        self.first_at.get_or_insert_with(Instant::now);
        self.count += messages.len();
        let next_offset = messages.last().expect("there is at least one message").0 + 1;
        let empty = || (Pulled { queue: queue.clone(), messages: Vec::new(), next_offset, misplaced }, more);
        let (pulled, known_more) = self.queues.entry(queue.clone()).or_insert_with(empty);
        pulled.messages.extend(messages);
        (pulled.next_offset, pulled.misplaced) = (next_offset, misplaced);
        *known_more = more;
        next_offset
    }
}

impl Consumer {
    fn next_opaque(&mut self) -> i32 {
        self.opaque = (self.opaque + 1) & i32::MAX;
        self.opaque
    }

    /// Brings connections on, and gives up those on which nothing is answered.
    fn advance(&mut self) {
        let now = Instant::now();
        let is_silent = |asked: &Asked| asked.look.is_some() && now >= asked.look_at + LOOK_TIMEOUT;
        let silent =
            self.asked.iter().filter(|(_, asked)| is_silent(asked)).map(|(queue, _)| queue.broker.clone());
        for broker in silent.collect::<Vec<_>>() {
            self.give_up(&broker, &Lost::TimedOut);
        }
        for link in self.links.values_mut() {
            link.advance();
        }
    }

    fn give_up(&mut self, broker: &str, lost: &Lost) {
        if let Some(link) = self.links.get_mut(broker)
            && link.is_up()
        {
            link.fail(lost);
        }
        self.asked.retain(|queue, _| queue.broker != broker);
        self.in_flight.retain(|_, (queue, _)| queue.broker != broker);
    }

    /// Sees to it that every wanted queue whose broker is up is asked for its next offset.
    fn ask_all(&mut self, next: &BTreeMap<Queue, u64>, max: usize) {
        let now = Instant::now();
        for (queue, &offset) in next {
            if !self.links.get(&queue.broker).is_some_and(Link::is_up) {
                continue;
            }
            let fresh = Asked { offset, held: None, look: None, hold_at: now, look_at: now + LOOK_EVERY };
            let (mut hold, mut look) = (true, false);
            match self.asked.get_mut(queue) {
                Some(asked) if asked.offset == offset => {
                    hold = asked.held.is_none() && now >= asked.hold_at;
                    look = asked.look.is_none() && now >= asked.look_at;
                }
                _ => drop(self.asked.insert(queue.clone(), fresh)),
            }
            let messages = max.clamp(1, PULL_MESSAGES_MAX);
            // If the connection is lost by the first, the second finds it down.
            if hold {
                self.ask(queue, offset, messages, HOLD);
            }
            if look {
                self.ask(queue, offset, messages, Duration::ZERO);
            }
        }
    }

    /// Sends one request, held for so long.
    fn ask(&mut self, queue: &Queue, offset: u64, messages: usize, hold: Duration) {
        let opaque = self.next_opaque();
        let names = (self.options.group.as_str(), self.topic.as_str());
        let fields = PullFields::new(names, (queue.number, offset), messages, hold.as_millis());
        let Some(connection) = self.links.get_mut(&queue.broker).and_then(Link::connection) else { return };
        let now = Instant::now();
        let written = connection.write(PULL_MESSAGE, opaque, &fields, &[], now + WRITE_TIMEOUT);
        if let Err(not_written) = written {
            self.give_up(&queue.broker, &not_written.lost);
            return;
        }
        self.in_flight.insert(opaque, (queue.clone(), offset));
        if let Some(asked) = self.asked.get_mut(queue) {
            if hold.is_zero() {
                (asked.look, asked.look_at) = (Some(opaque), now);
            } else {
                asked.held = Some(opaque);
            }
        }
    }

    /// Takes the answers that are there, until there is enough.
    fn take_answers(&mut self, next: &mut BTreeMap<Queue, u64>, gathered: &mut Gathered, max: usize) {
        while gathered.count < max {
            let Some(answer) = self.early.pop_front() else { break };
            self.take(&answer, next, gathered);
        }
        for broker in self.links.keys().cloned().collect::<Vec<_>>() {
            while gathered.count < max {
                let Some(connection) = self.links.get_mut(&broker).and_then(Link::connection) else { break };
                match connection.receive() {
                    Ok(Some(answer)) => self.take(&answer, next, gathered),
                    Ok(None) => break,
                    Err(lost) => self.give_up(&broker, &lost),
                }
            }
        }
    }

    fn take(&mut self, answer: &Answer, next: &mut BTreeMap<Queue, u64>, gathered: &mut Gathered) {
        let Some((queue, offset)) = self.in_flight.remove(&answer.opaque) else { return };
        let Some(asked) = self.asked.get_mut(&queue).filter(|asked| asked.offset == offset) else { return };
        if next.get(&queue) != Some(&offset) {
            // Asked for ahead, and now something else is wanted, or nothing.
            self.asked.remove(&queue);
            return;
        }
        let found = read(answer, &queue, offset);
        let now = Instant::now();
        match found {
            Ok(PullAnswer::Messages { messages, more, misplaced }) => {
                self.asked.remove(&queue);
                let next_offset = gathered.add(&queue, messages, more, misplaced);
                next.insert(queue, next_offset);
            }
            Ok(nothing) => {
                let pause = if nothing == PullAnswer::Again { RETRY_PAUSE } else { Duration::ZERO };
                if asked.held == Some(answer.opaque) {
                    (asked.held, asked.hold_at) = (None, now + pause);
                } else {
                    (asked.look, asked.look_at) = (None, now + LOOK_EVERY);
                }
            }
            Err(fault) => {
                // Nothing more of this queue in this call; the next one asks again, if it still wants it.
                self.asked.remove(&queue);
                next.remove(&queue);
                self.faults.push_back((queue, offset, fault));
            }
        }
    }

    /// When something is to be asked, or has not been answered for too long.
    fn next_timer(&self, now: Instant) -> Instant {
        let timers = self.asked.values().flat_map(|asked| {
            let hold = asked.held.is_none().then_some(asked.hold_at);
            let look = asked.look_at + if asked.look.is_some() { LOOK_TIMEOUT } else { Duration::ZERO };
            hold.into_iter().chain([look])
        });
        timers.min().unwrap_or(now + LOOK_EVERY)
    }

    fn refresh(&mut self, age_max: Duration) -> Result<(), PullError> {
        let now = Instant::now();
        if self.route_asked_at.is_some_and(|at| now.duration_since(at) < age_max) {
            return Ok(());
        }
        let looked_up = self.name_servers.lookup(&self.topic);
        self.route_asked_at = Some(now);
        self.route = looked_up.map_err(|error| PullError::Unreachable(error.to_string()))?;
        let security = &self.options.security;
        for broker in &self.route {
            let Some(master) = &broker.master else { continue };
            match self.links.get_mut(&broker.broker) {
                Some(link) if link.moves_to(master) => {
                    *link = Link::new(master, security, &self.topic);
                    let name = broker.broker.clone();
                    self.asked.retain(|queue, _| queue.broker != name);
                    self.in_flight.retain(|_, (queue, _)| queue.broker != name);
                }
                Some(_) => {}
                None => {
                    drop(self.links.insert(broker.broker.clone(), Link::new(master, security, &self.topic)))
                }
            }
        }
        Ok(())
    }

    /// Looks for brokers that are wanted and not reachable. What is known serves on without a name server.
    fn refresh_for<'a>(&mut self, mut queues: impl Iterator<Item = &'a Queue>) {
        let is_down = |queue: &Queue| !self.links.get(&queue.broker).is_some_and(Link::is_up);
        let age_max = if queues.any(is_down) { ROUTE_AGE_DOWN_MAX } else { ROUTE_AGE_MAX };
        if let Err(error) = self.refresh(age_max) {
            tracing::debug!(%error, "no route");
        }
    }

    fn all_reachable<'a>(&self, mut queues: impl Iterator<Item = &'a Queue>) -> Result<(), PullError> {
        let is_down = |queue: &&Queue| !self.links.get(&queue.broker).is_some_and(Link::is_up);
        queues.find(is_down).map_or(Ok(()), |queue| Err(self.unreachable(&queue.broker)))
    }

    fn unreachable(&self, broker: &str) -> PullError {
        let reason = match self.links.get(broker) {
            Some(link) => format!("broker {broker} at {}", link.why_down()),
            None => format!("no name server knows where broker {broker} is"),
        };
        PullError::Unreachable(reason)
    }

    fn offset(&mut self, code: i32, queue: &Queue) -> Result<u64, PullError> {
        let deadline = Instant::now() + CALL_TIMEOUT;
        self.refresh_for(std::iter::once(queue));
        loop {
            self.advance();
            if self.all_reachable(std::iter::once(queue)).is_ok() {
                break;
            }
            if Instant::now() >= deadline {
                return Err(self.unreachable(&queue.broker));
            }
            wait_any(self.links.get(&queue.broker).into_iter(), deadline);
        }
        let opaque = self.next_opaque();
        let fields = OffsetFields { topic: &self.topic, queue_id: queue.number };
        let early = &mut self.early;
        let link = self.links.get_mut(&queue.broker).expect("a reachable broker has a link");
        let connection = link.connection().expect("a reachable broker's link is up");
        match connection.call(code, opaque, &fields, &[], deadline, |answer| early.push_back(answer)) {
            Ok(answer) if answer.code == SUCCESS => answer
                .number("offset")
                .map_err(|reason| PullError::Refused { queue: queue.clone(), code: SUCCESS, text: reason }),
            Ok(answer) => {
                Err(PullError::Refused { queue: queue.clone(), code: answer.code, text: answer.remark })
            }
            Err(lost) => {
                self.give_up(&queue.broker, &lost);
                Err(self.unreachable(&queue.broker))
            }
        }
    }
}
