//! The queue in memory: brokers that keep what they acknowledge, and a network to them that loses answers and brings what was given up.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use engine::OrderId;
use server::intake::EngineSettings;
use server::queue::{
    AdminError, Administer, BrokerQueues, Consume, Produce, PullError, Pulled, Queue, SendError, Survey,
    Unavailable, message,
};
use server::time::{self, Condvar, Instant};

use crate::random::Random;

/// One way, mostly.
const WAY_US: (usize, usize) = (50, 500);
/// For how long an answer is waited for.
const TIMEOUT: Duration = Duration::from_secs(1);
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
    /// The broker refuses it.
    pub refused: usize,
}

/// How often each happened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Happened {
    pub lost_before: u64,
    pub lost_after: u64,
    pub late: u64,
    pub refused: u64,
    /// Messages that a broker has lost after it had acknowledged them.
    pub forgotten: u64,
}

/// A queue of a topic.
type Name = (String, Queue);

/// What is still on its way when whoever sent it has given up.
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
}

impl Log {
    fn end(&self) -> u64 {
        self.first + self.bodies.len() as u64
    }
}

struct Inside {
    queues_each: u32,
    brokers: Vec<String>,
    topics: BTreeSet<String>,
    logs: BTreeMap<Name, Log>,
    down: BTreeSet<String>,
    /// By the host that does not reach a broker.
    cut: BTreeSet<(String, String)>,
    late: Vec<Late>,
    random: Random,
    faults: Faults,
    happened: Happened,
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
            topics: BTreeSet::new(),
            logs: BTreeMap::new(),
            down: BTreeSet::new(),
            cut: BTreeSet::new(),
            late: Vec::new(),
            random: Random(seed),
            faults: Faults::default(),
            happened: Happened::default(),
        };
        Brokers { inside: Arc::new(Mutex::new(inside)), filled: Arc::default() }
    }

    pub fn set_faults(&self, faults: Faults) {
        self.lock().faults = faults;
    }

    pub fn happened(&self) -> Happened {
        self.lock().happened
    }

    /// It answers nobody, and keeps what it has.
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

    /// It loses the newest messages of each of its queues, at most so many.
    pub fn forget(&self, broker: &str, newest: usize) {
        let mut inside = self.lock();
        let mut forgotten = 0;
        for (_, log) in inside.logs.iter_mut().filter(|((_, queue), _)| queue.broker == broker) {
            let kept = log.bodies.len().saturating_sub(newest);
            forgotten += log.bodies.split_off(kept).len() as u64;
        }
        inside.happened.forgotten += forgotten;
    }

    /// The orders whose messages they have.
    pub fn orders(&self) -> BTreeSet<OrderId> {
        let inside = self.lock();
        let bodies = inside.logs.values().flat_map(|log| &log.bodies);
        bodies.filter_map(|body| Some(message::decode(body).ok()?.place.id)).collect()
    }

    /// The way of a host to them.
    pub fn connect(&self, host: &str, topic: &str) -> Connection {
        Connection { brokers: self.clone(), host: host.to_owned(), topic: topic.to_owned(), next: 0 }
    }

    fn lock(&self) -> MutexGuard<'_, Inside> {
        let mut inside = self.inside.lock().unwrap_or_else(PoisonError::into_inner);
        inside.bring_what_is_late();
        inside
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

    fn bring_what_is_late(&mut self) {
        let now = Instant::now();
        let due: Vec<_> = self.late.extract_if(.., |late| late.arrives <= now).collect();
        for Late { to, bodies, .. } in due {
            if let Some(log) = self.logs.get_mut(&to).filter(|_| !self.down.contains(&to.1.broker)) {
                log.bodies.extend(bodies);
            }
        }
    }

    fn reaches(&self, host: &str, broker: &str) -> bool {
        !self.down.contains(broker) && !self.cut.contains(&(host.to_owned(), broker.to_owned()))
    }
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
}

impl Connection {
    fn go(&self) -> MutexGuard<'_, Inside> {
        let way = self.brokers.lock().way();
        time::sleep(way);
        self.brokers.lock()
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
        if !inside.topics.contains(topic) {
            return Err(Unavailable::NoTopic(topic.to_owned()));
        }
        let any = inside.brokers.iter().any(|broker| inside.reaches(&self.host, broker));
        if any { Ok(()) } else { Err(Unavailable::Unreachable("no broker answers".to_owned())) }
    }

    fn send(&mut self, topic: &str, bodies: &[&[u8]]) -> Result<(), SendError> {
        self.next += 1;
        let mut inside = self.go();
        let reached: Vec<_> =
            inside.brokers.iter().filter(|broker| inside.reaches(&self.host, broker)).cloned().collect();
        if reached.is_empty() || !inside.topics.contains(topic) {
            return Err(SendError::NotSent("no broker answers".to_owned()));
        }
        let broker = reached[self.next % reached.len()].clone();
        let each = inside.queues_each as usize;
        let number = u32::try_from(inside.random.below(each)).expect("there are few");
        let name = (topic.to_owned(), Queue { broker, number });
        let bodies: Vec<Box<[u8]>> = bodies.iter().map(|body| (*body).into()).collect();
        let Faults { lost_before, lost_after, late, refused } = inside.faults;
        let unknown = || SendError::Unknown("no answer came".to_owned());
        if inside.chance(refused) {
            inside.happened.refused += 1;
            return Err(SendError::Refused(14, "the disk is full".to_owned()));
        }
        let is_lost = inside.chance(lost_before);
        let is_late = inside.chance(late);
        if is_lost || is_late {
            inside.happened.lost_before += u64::from(is_lost);
            if !is_lost {
                let after = TIMEOUT + Duration::from_millis(inside.random.below(6_000) as u64);
                inside.happened.late += 1;
                let arrives = Instant::now() + after;
                inside.late.push(Late { arrives, to: name, bodies });
            }
            drop(inside);
            time::sleep(TIMEOUT);
            return Err(unknown());
        }
        inside.logs.get_mut(&name).expect("the topic has it").bodies.extend(bodies);
        let is_lost = inside.chance(lost_after);
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
        let of_topic = inside.logs.keys().filter(|(topic, _)| *topic == self.topic);
        Ok(of_topic.map(|(_, queue)| queue.clone()).collect())
    }

    fn max_offset(&mut self, queue: &Queue) -> Result<u64, PullError> {
        let inside = self.go_to(&queue.broker).map_err(PullError::Unreachable)?;
        Ok(inside.logs[&(self.topic.clone(), queue.clone())].end())
    }

    fn min_offset(&mut self, queue: &Queue) -> Result<u64, PullError> {
        let inside = self.go_to(&queue.broker).map_err(PullError::Unreachable)?;
        Ok(inside.logs[&(self.topic.clone(), queue.clone())].first)
    }

    fn pull(&mut self, from: &[(Queue, u64)], max: usize, wait: Duration) -> Result<Vec<Pulled>, PullError> {
        let Connection { brokers, host, topic, .. } = self;
        let way = brokers.lock().way();
        time::sleep(way);
        let reached = |inside: &Inside| {
            from.iter().filter(|(queue, _)| inside.reaches(host, &queue.broker)).cloned().collect::<Vec<_>>()
        };
        let log = |inside: &Inside, queue: &Queue| inside.logs[&(topic.clone(), queue.clone())].end();
        let wants = reached(&brokers.lock());
        if wants.is_empty() {
            time::sleep(wait);
            return Err(PullError::Unreachable("no broker answers".to_owned()));
        }
        drop(brokers.filled.wait_while(&brokers.inside, wait, |inside| {
            wants.iter().all(|(queue, offset)| log(inside, queue) == *offset)
        }));
        let inside = brokers.lock();
        let (mut pulled, mut room) = (Vec::new(), max);
        for (queue, offset) in reached(&inside) {
            let log = &inside.logs[&(topic.clone(), queue.clone())];
            if offset > log.end() {
                return Err(PullError::Ahead { queue, wanted: offset, end: log.end() });
            }
            if offset < log.first {
                return Err(PullError::Deleted { queue, wanted: offset, first: log.first });
            }
            let skip = usize::try_from(offset - log.first).expect("it is in memory");
            let bodies = log.bodies[skip..].iter().take(room.min(PULLED_AT_ONCE));
            let messages: Vec<_> = (offset..).zip(bodies.cloned()).collect();
            room -= messages.len();
            if !messages.is_empty() {
                let next_offset = offset + messages.len() as u64;
                pulled.push(Pulled { queue, messages, next_offset, misplaced: 0 });
            }
        }
        Ok(pulled)
    }
}

impl Administer for Connection {
    fn create_topics(&mut self, topics: &[&str]) -> Result<(), AdminError> {
        let mut inside = self.go();
        if inside.brokers.iter().any(|broker| !inside.reaches(&self.host, broker)) {
            return Err(AdminError::Unreachable("a broker does not answer".to_owned()));
        }
        for topic in topics {
            inside.topics.insert((*topic).to_owned());
            for broker in inside.brokers.clone() {
                for number in 0..inside.queues_each {
                    let queue = Queue { broker: broker.clone(), number };
                    inside.logs.entry(((*topic).to_owned(), queue)).or_default();
                }
            }
        }
        Ok(())
    }

    fn disk_used(&mut self) -> Result<f64, AdminError> {
        drop(self.go());
        Ok(0.1)
    }

    fn settings(&mut self) -> Result<Vec<EngineSettings>, AdminError> {
        drop(self.go());
        Ok(Vec::new())
    }

    fn survey(&mut self, topic: &str, further: &[Queue]) -> Result<Survey, AdminError> {
        let inside = self.go();
        let mut survey = Survey::default();
        let of_further = further.iter().map(|queue| &queue.broker);
        for broker in inside.brokers.iter().chain(of_further) {
            if !inside.reaches(&self.host, broker) {
                survey.brokers.insert(broker.clone(), Err("it does not answer".to_owned()));
                continue;
            }
            let logs = inside.logs.iter().filter(|((of, queue), _)| of == topic && queue.broker == *broker);
            let messages = logs.map(|((_, queue), log)| (queue.number, log.first..log.end())).collect();
            let (read, write) = (inside.queues_each, inside.queues_each);
            survey.brokers.insert(broker.clone(), Ok(BrokerQueues { read, write, messages }));
        }
        Ok(survey)
    }
}
