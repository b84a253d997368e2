//! The queue in memory: brokers that keep what they acknowledge, and a network to them that loses answers and brings what was given up.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use engine::OrderId;
use server::intake::EngineSettings;
use server::queue::{
    AdminError, Administer, BATCH_BYTES_MAX, BATCH_MESSAGES_MAX, BrokerQueues, Consume, Produce, PullError,
    Pulled, Queue, SendError, Survey, Unavailable, message,
};
use server::time::{self, Condvar, Instant};

use crate::random::Random;
use crate::record;
use crate::schedule::instant;

/// One way, mostly.
const WAY_US: (usize, usize) = (50, 500);
/// For how long an answer is waited for.
const TIMEOUT: Duration = Duration::from_secs(1);
/// What is late comes so much later than that, at most.
const LATE_MS: usize = 6_000;
/// Messages that one answer of a broker has at most.
const PULLED_AT_ONCE: usize = 32;

/// How often what goes wrong, out of so many sends; 0: never.
#[derive(Clone, Copy, Debug, Default)]
pub struct Faults {
    /// It never arrives, and nobody knows.
    pub lost_before: usize,
    /// It is stored, and the acknowledgement is lost.
    pub lost_after: usize,
    /// It arrives seconds after whoever sent it has given up.
    pub late: usize,
    /// It is stored, and seconds later once more, behind what came meanwhile.
    pub twice: usize,
    /// The broker refuses it.
    pub refused: usize,
}

impl Faults {
    /// Each of them as often.
    pub(crate) fn each(often: usize) -> Faults {
        Faults { lost_before: often, lost_after: often, late: often, twice: often, refused: often }
    }
}

/// How often each happened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FaultCounts {
    pub lost_before: u64,
    pub lost_after: u64,
    pub late: u64,
    pub twice: u64,
    pub refused: u64,
    /// Messages that a broker has lost after it had acknowledged them.
    pub forgotten: u64,
}

/// A queue of a topic.
type Name = (String, Queue);

/// What is still on its way when whoever sent it has given up, or was answered.
struct Late {
    arrives: Instant,
    to: Name,
    bodies: Vec<Box<[u8]>>,
}

#[derive(Debug, Default)]
struct Log {
    /// Of the first body.
    first: u64,
    bodies: Vec<Box<[u8]>>,
    /// Where messages stood that were lost, and nobody knows of it.
    lost: Vec<Range<u64>>,
}

impl Log {
    fn end(&self) -> u64 {
        self.first + self.bodies.len() as u64
    }

    fn read(&self, queue: &Queue, offset: u64, max: usize) -> Result<Pulled, PullError> {
        let (queue, end, first) = (queue.clone(), self.end(), self.first);
        if offset > end {
            return Err(PullError::Ahead { queue, wanted: offset, end });
        }
        if offset < first {
            return Err(PullError::Deleted { queue, wanted: offset, first });
        }
        let skip = usize::try_from(offset - first).expect("it is in memory");
        let bodies = self.bodies[skip..].iter().take(max);
        let messages: Vec<_> = (offset..).zip(bodies.cloned()).collect();
        let next_offset = offset + messages.len() as u64;
        Ok(Pulled { queue, messages, next_offset, misplaced: 0 })
    }
}

struct Inside {
    queues_each: u32,
    brokers: Vec<String>,
    logs: BTreeMap<Name, Log>,
    down: BTreeSet<String>,
    /// By the host that does not reach a broker.
    cut: BTreeSet<(String, String)>,
    late: Vec<Late>,
    /// The orders whose messages a broker has lost.
    forgotten: BTreeSet<OrderId>,
    random: Random,
    faults: Faults,
    happened: FaultCounts,
}

/// The brokers of one installation.
#[derive(Clone)]
pub struct Brokers {
    inside: Arc<Mutex<Inside>>,
    filled: Arc<Condvar>,
}

impl fmt::Debug for Brokers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Brokers").field("happened", &self.happened()).finish_non_exhaustive()
    }
}

impl Brokers {
    /// With these names, and so many queues of a topic each.
    pub fn new(brokers: &[&str], queues_each: u32, seed: u64) -> Brokers {
        let inside = Inside {
            queues_each,
            brokers: brokers.iter().map(|name| (*name).to_owned()).collect(),
            logs: BTreeMap::new(),
            down: BTreeSet::new(),
            cut: BTreeSet::new(),
            late: Vec::new(),
            forgotten: BTreeSet::new(),
            random: Random(seed),
            faults: Faults::default(),
            happened: FaultCounts::default(),
        };
        Brokers { inside: Arc::new(Mutex::new(inside)), filled: Arc::default() }
    }

    pub fn set_faults(&self, faults: Faults) {
        self.lock().faults = faults;
    }

    pub fn happened(&self) -> FaultCounts {
        self.lock().happened
    }

    /// It answers nobody, keeps what it has, and the name servers forget it.
    pub fn set_down(&self, broker: &str, down: bool) {
        let mut inside = self.lock();
        if down {
            inside.down.insert(broker.to_owned())
        } else {
            inside.down.remove(broker)
        };
    }

    /// This host alone does not reach it.
    pub fn set_cut(&self, host: &str, broker: &str, cut: bool) {
        let (mut inside, pair) = (self.lock(), (host.to_owned(), broker.to_owned()));
        if cut {
            inside.cut.insert(pair)
        } else {
            inside.cut.remove(&pair)
        };
    }

    /// It loses the newest messages of each of its queues, or of this one, at most so many.
    pub fn forget(&self, broker: &str, queue: Option<u32>, newest: usize) {
        let mut inside = self.lock();
        let mut forgotten = Vec::new();
        let is_meant = |of: &Queue| of.broker == broker && queue.is_none_or(|id| id == of.number);
        for (_, log) in inside.logs.iter_mut().filter(|((_, queue), _)| is_meant(queue)) {
            let kept = log.bodies.len().saturating_sub(newest);
            let end = log.end();
            let lost = log.bodies.split_off(kept);
            note(&lost, || format!("{broker} loses its message"));
            forgotten.extend(lost);
            log.lost.push(log.end()..end);
        }
        inside.happened.forgotten += forgotten.len() as u64;
        inside.forgotten.extend(orders_of(&forgotten));
    }

    /// The orders whose messages they have.
    pub fn orders(&self) -> BTreeSet<OrderId> {
        let inside = self.lock();
        inside.logs.values().flat_map(|log| orders_of(&log.bodies)).collect()
    }

    /// The orders of which they have lost a message.
    pub fn forgotten(&self) -> BTreeSet<OrderId> {
        self.lock().forgotten.clone()
    }

    /// The orders whose messages stand where others were lost, and nobody knows of it: they may be passed over.
    pub fn in_place_of_lost(&self) -> BTreeSet<OrderId> {
        let inside = self.lock();
        let of = |log: &Log| {
            let there = (log.first..).zip(log.bodies.iter().cloned());
            let bodies: Vec<_> = there
                .filter(|(at, _)| log.lost.iter().any(|lost| lost.contains(at)))
                .map(|(_, body)| body)
                .collect();
            orders_of(&bodies).collect::<Vec<_>>()
        };
        inside.logs.values().flat_map(of).collect()
    }

    /// The way of a host to them.
    pub fn connect(&self, host: &str, topic: &str) -> Connection {
        Connection {
            brokers: self.clone(),
            host: host.to_owned(),
            topic: topic.to_owned(),
            next: 0,
            fault: None,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inside> {
        let mut inside = self.inside.lock().unwrap_or_else(PoisonError::into_inner);
        inside.bring_what_is_late();
        inside
    }
}

fn orders_of(bodies: &[Box<[u8]>]) -> impl Iterator<Item = OrderId> + '_ {
    bodies.iter().filter_map(|body| Some(message::decode(body).ok()?.placement.id))
}

/// Of all orders whose messages these are.
fn note(bodies: &[Box<[u8]>], what: impl Fn() -> String) {
    if record::is_on() {
        orders_of(bodies).for_each(|order| record::note(order, false, &what));
    }
}

impl Inside {
    fn way(&mut self) -> Duration {
        let (least, most) = WAY_US;
        Duration::from_micros((least + self.random.below(most - least)) as u64)
    }

    fn chance(&mut self, in_so_many: usize) -> bool {
        in_so_many > 0 && self.random.below(in_so_many) == 0
    }

    fn comes_later(&mut self, to: Name, bodies: Vec<Box<[u8]>>) {
        let arrives = instant() + TIMEOUT + Duration::from_millis(self.random.below(LATE_MS) as u64);
        self.late.push(Late { arrives, to, bodies });
    }

    fn bring_what_is_late(&mut self) {
        let now = instant();
        let due: Vec<_> = self.late.extract_if(.., |late| late.arrives <= now).collect();
        for Late { to, bodies, .. } in due {
            if let Some(log) = self.logs.get_mut(&to).filter(|_| !self.down.contains(&to.1.broker)) {
                note(&bodies, || {
                    format!("its message comes to {} late, or once more, and is stored", at(&to.1))
                });
                log.bodies.extend(bodies);
            }
        }
    }

    /// The brokers that the name servers know to have a topic.
    fn route(&self, topic: &str) -> Vec<String> {
        let has =
            |broker: &&String| self.log(topic, &Queue { broker: (*broker).clone(), number: 0 }).is_some();
        self.known().filter(has).cloned().collect()
    }

    fn known(&self) -> impl Iterator<Item = &String> {
        self.brokers.iter().filter(|broker| !self.down.contains(*broker))
    }

    fn log(&self, topic: &str, queue: &Queue) -> Option<&Log> {
        self.logs.get(&(topic.to_owned(), queue.clone()))
    }

    /// Whoever reads a queue hears that its newest messages are lost: what stands in their place is read again.
    fn found_out(&mut self, topic: &str, error: &PullError) {
        if let PullError::Ahead { queue, .. } = error
            && let Some(log) = self.logs.get_mut(&(topic.to_owned(), queue.clone()))
        {
            log.lost.clear();
        }
    }

    fn reaches(&self, host: &str, broker: &str) -> bool {
        !self.down.contains(broker) && !self.cut.contains(&(host.to_owned(), broker.to_owned()))
    }
}

/// A queue, for people.
fn at(Queue { broker, number }: &Queue) -> String {
    format!("queue {number} of {broker}")
}

/// One stage's way to the brokers: it sends, reads and makes topics.
#[derive(Clone, Debug)]
pub struct Connection {
    brokers: Brokers,
    host: String,
    /// That is read.
    topic: String,
    /// Takes the brokers in turn.
    next: usize,
    /// An offset that is not there, found while there was something to deliver: reported by the next call.
    fault: Option<(Queue, u64)>,
}

impl Connection {
    fn go(&self) -> MutexGuard<'_, Inside> {
        let way = self.brokers.lock().way();
        time::sleep(way);
        self.brokers.lock()
    }

    /// To all that the name servers know.
    fn go_to_all(&self) -> Result<MutexGuard<'_, Inside>, AdminError> {
        let inside = self.go();
        if inside.known().next().is_none() {
            return Err(AdminError::Unreachable("no broker is known".to_owned()));
        }
        if inside.known().any(|broker| !inside.reaches(&self.host, broker)) {
            return Err(AdminError::Unreachable("a broker does not answer".to_owned()));
        }
        Ok(inside)
    }

    /// To one broker; an error once its time is over.
    fn go_to(&self, broker: &str) -> Result<MutexGuard<'_, Inside>, String> {
        let inside = self.go();
        if inside.reaches(&self.host, broker) {
            return Ok(inside);
        }
        drop(inside);
        time::sleep(TIMEOUT);
        Err(format!("{broker} does not answer"))
    }
}

impl Produce for Connection {
    fn look(&mut self, topic: &str) -> Result<(), Unavailable> {
        let inside = self.go();
        let route = inside.route(topic);
        if route.is_empty() {
            return Err(Unavailable::NoTopic(topic.to_owned()));
        }
        let any = route.iter().any(|broker| inside.reaches(&self.host, broker));
        if any { Ok(()) } else { Err(Unavailable::Unreachable("no broker answers".to_owned())) }
    }

    fn send(&mut self, topic: &str, bodies: &[&[u8]]) -> Result<(), SendError> {
        if bodies.len() > BATCH_MESSAGES_MAX || bodies.concat().len() > BATCH_BYTES_MAX {
            return Err(SendError::NotSent("it is too much for a batch".to_owned()));
        }
        if bodies.is_empty() {
            return Ok(());
        }
        self.next += 1;
        let mut inside = self.go();
        let mut reached = inside.route(topic);
        reached.retain(|broker| inside.reaches(&self.host, broker));
        let bodies: Vec<Box<[u8]>> = bodies.iter().map(|body| (*body).into()).collect();
        if reached.is_empty() {
            note(&bodies, || format!("{} reaches no broker with its message", self.host));
            return Err(SendError::NotSent("no broker answers".to_owned()));
        }
        let broker = reached[self.next % reached.len()].clone();
        let each = inside.queues_each as usize;
        let number = u32::try_from(inside.random.below(each)).expect("there are few");
        let name = (topic.to_owned(), Queue { broker, number });
        let sent = |bodies: &[Box<[u8]>], what: &str| {
            note(bodies, || format!("{} sends its message to {}: {what}", self.host, at(&name.1)));
        };
        let Faults { lost_before, lost_after, late, twice, refused } = inside.faults;
        let unknown = || SendError::Unknown("no answer came".to_owned());
        if inside.chance(refused) {
            inside.happened.refused += 1;
            sent(&bodies, "refused");
            return Err(SendError::Refused(14, "the disk is full".to_owned()));
        }
        let is_lost = inside.chance(lost_before);
        let is_late = inside.chance(late);
        if is_lost || is_late {
            inside.happened.lost_before += u64::from(is_lost);
            sent(&bodies, if is_lost { "lost on its way" } else { "not there in time" });
            if !is_lost {
                inside.happened.late += 1;
                inside.comes_later(name.clone(), bodies);
            }
            drop(inside);
            time::sleep(TIMEOUT);
            return Err(unknown());
        }
        if inside.chance(twice) {
            inside.happened.twice += 1;
            inside.comes_later(name.clone(), bodies.clone());
        }
        let is_lost = inside.chance(lost_after);
        sent(&bodies, if is_lost { "stored, and the acknowledgement is lost" } else { "stored" });
        inside.logs.get_mut(&name).expect("the topic has it").bodies.extend(bodies);
        inside.happened.lost_after += u64::from(is_lost);
        let way = inside.way();
        drop(inside);
        self.brokers.filled.notify_all();
        time::sleep(if is_lost { TIMEOUT } else { way });
        if is_lost { Err(unknown()) } else { Ok(()) }
    }
}

impl Consume for Connection {
    fn queues(&mut self) -> Result<Vec<Queue>, PullError> {
        let inside = self.go();
        let route = inside.route(&self.topic);
        if route.is_empty() {
            return Err(PullError::Unreachable("no broker of the topic is known".to_owned()));
        }
        let of_topic = inside.logs.keys().filter(|(topic, _)| *topic == self.topic);
        Ok(of_topic.map(|(_, queue)| queue.clone()).filter(|queue| route.contains(&queue.broker)).collect())
    }

    fn max_offset(&mut self, queue: &Queue) -> Result<u64, PullError> {
        let inside = self.go_to(&queue.broker).map_err(PullError::Unreachable)?;
        Ok(inside.log(&self.topic, queue).map_or(0, Log::end))
    }

    fn min_offset(&mut self, queue: &Queue) -> Result<u64, PullError> {
        let inside = self.go_to(&queue.broker).map_err(PullError::Unreachable)?;
        Ok(inside.log(&self.topic, queue).map_or(0, |log| log.first))
    }

    fn pull(&mut self, from: &[(Queue, u64)], max: usize, wait: Duration) -> Result<Vec<Pulled>, PullError> {
        let Connection { brokers, host, topic, fault, .. } = self;
        let way = brokers.lock().way();
        time::sleep(way);
        let reached = |inside: &Inside| {
            from.iter().filter(|(queue, _)| inside.reaches(host, &queue.broker)).cloned().collect::<Vec<_>>()
        };
        let wants = reached(&brokers.lock());
        if wants.is_empty() {
            time::sleep(wait);
            return Err(PullError::Unreachable("no broker answers".to_owned()));
        }
        let has_news = |inside: &Inside, (queue, offset): &(Queue, u64)| {
            inside.log(topic, queue).is_some_and(|log| log.end() != *offset || log.first > *offset)
        };
        drop(
            brokers
                .filled
                .wait_while(&brokers.inside, wait, |inside| !wants.iter().any(|want| has_news(inside, want))),
        );
        let mut inside = brokers.lock();
        let reported = fault.take();
        let (mut pulled, mut room) = (Vec::new(), max);
        for want in reached(&inside) {
            let Some(log) = inside.log(topic, &want.0).filter(|_| has_news(&inside, &want)) else { continue };
            match log.read(&want.0, want.1, room.min(PULLED_AT_ONCE)) {
                Err(error) if reported.as_ref() == Some(&want) => {
                    inside.found_out(topic, &error);
                    return Err(error);
                }
                Err(_) => *fault = Some(want),
                Ok(found) => {
                    note_read(host, &found);
                    room -= found.messages.len();
                    pulled.extend(Some(found).filter(|found| !found.messages.is_empty()));
                }
            }
        }
        match fault {
            _ if !pulled.is_empty() => Ok(pulled),
            Some((queue, offset)) => {
                let (queue, offset) = (queue.clone(), *offset);
                *fault = None;
                let read = inside.log(topic, &queue).expect("it was found").read(&queue, offset, 0);
                read.map(|_| Vec::new()).inspect_err(|error| inside.found_out(topic, error))
            }
            None if reached(&inside).len() < from.len() => {
                Err(PullError::Unreachable("a broker does not answer".to_owned()))
            }
            None => Ok(pulled),
        }
    }
}

fn note_read(host: &str, Pulled { queue, messages, .. }: &Pulled) {
    for (offset, body) in messages {
        note(std::slice::from_ref(body), || {
            format!("{host} reads its message in {}, at {offset}", at(queue))
        });
    }
}

impl Administer for Connection {
    fn create_topics(&mut self, topics: &[&str]) -> Result<(), AdminError> {
        let mut inside = self.go_to_all()?;
        for topic in topics {
            for broker in inside.known().cloned().collect::<Vec<_>>() {
                for number in 0..inside.queues_each {
                    let queue = Queue { broker: broker.clone(), number };
                    inside.logs.entry(((*topic).to_owned(), queue)).or_default();
                }
            }
        }
        Ok(())
    }

    fn disk_used(&mut self) -> Result<f64, AdminError> {
        drop(self.go_to_all()?);
        Ok(0.1)
    }

    fn settings(&mut self) -> Result<Vec<EngineSettings>, AdminError> {
        drop(self.go());
        Ok(Vec::new())
    }

    fn survey(&mut self, topic: &str, further: &[Queue]) -> Result<Survey, AdminError> {
        let inside = self.go();
        let mut survey = Survey::default();
        let route = inside.route(topic);
        for broker in route.iter().chain(further.iter().map(|queue| &queue.broker)) {
            if !inside.reaches(&self.host, broker) || !inside.brokers.contains(broker) {
                survey.brokers.insert(broker.clone(), Err("it does not answer".to_owned()));
                continue;
            }
            let each = if route.contains(broker) { inside.queues_each } else { 0 };
            let of_further = further.iter().filter(|queue| queue.broker == *broker).map(|queue| queue.number);
            let messages = (0..each).chain(of_further).map(|number| {
                let log = inside.log(topic, &Queue { broker: broker.clone(), number });
                (number, log.map_or(0..0, |log| log.first..log.end()))
            });
            let messages = messages.collect();
            survey.brokers.insert(broker.clone(), Ok(BrokerQueues { read: each, write: each, messages }));
        }
        Ok(survey)
    }
}
