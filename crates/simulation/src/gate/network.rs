//! A network between clients and what is at the gate's addresses: what is on its way takes time, and may come after its sender has
//! given up.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use redis::Value;
use server::gate::{Dial, Link, Why};
use server::time::{Condvar, Instant};

use super::{Redis, Sentinel, commands, notes};
use crate::random::Random;
use crate::schedule::instant;

/// One way, mostly.
const WAY_US: (usize, usize) = (30, 300);
/// One way, once in a while.
const SLOW_MS: (usize, usize) = (10, 3_000);
/// Until nobody is found at an address that is out of reach.
const UNREACHED: Duration = Duration::from_millis(500);
const FOREVER: Duration = Duration::from_secs(1 << 30);

/// How often what goes wrong, out of so many messages; 0: never.
#[derive(Clone, Copy, Debug, Default)]
pub struct Faults {
    /// The connection is cut before the message arrives.
    pub cut_before: usize,
    /// It arrives, is carried out, and the connection is cut before the answer does.
    pub cut_after: usize,
    /// The message is on its way for up to seconds.
    pub slow: usize,
}

/// How often each happened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FaultCounts {
    pub cut_before: u64,
    pub cut_after: u64,
    pub slow: u64,
    /// Commands that were carried out for a client that had given up.
    pub late: u64,
}

/// A host, and the address that it reaches for.
type Route = Arc<(String, String)>;

/// What was written at once.
struct Message {
    connection: u64,
    route: Route,
    bytes: Vec<u8>,
    cut_after: bool,
}

struct Connection {
    route: Route,
    /// When the last message that was written arrives: none overtakes another.
    last_arrives: Option<Instant>,
    /// With the time of their arrival.
    replies: VecDeque<(Instant, Vec<u8>)>,
    cut: bool,
    /// There is a reply, or none will come.
    answered: Arc<Condvar>,
}

impl Connection {
    fn cut(&mut self) {
        self.cut = true;
        self.answered.notify_all();
    }
}

/// Who is at an address.
#[derive(Debug)]
enum Node {
    Redis(Redis),
    Sentinel(Sentinel),
}

struct Inside {
    nodes: BTreeMap<String, Node>,
    /// By the host that does not reach an address.
    cut: BTreeSet<(String, String)>,
    /// What was on a way that is cut, in order: it comes when that is mended, though whoever sent it has given up.
    held: Vec<Message>,
    /// What Redis' clock said when the run began.
    began_us: u64,
    begun: Instant,
    random: Random,
    faults: Faults,
    happened: FaultCounts,
    on_their_way: BTreeMap<(Instant, u64), Message>,
    connections: BTreeMap<u64, Connection>,
    count: u64,
    carried: u64,
}

/// What is at the gate's addresses, for several hosts. Somebody must [carry](Network::carry).
#[derive(Clone)]
pub struct Network {
    inside: Arc<Mutex<Inside>>,
    changed: Arc<Condvar>,
}

impl fmt::Debug for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Network").field("happened", &self.happened()).finish_non_exhaustive()
    }
}

impl Network {
    /// Servers by their addresses. `began_us`: what their clocks say now, in microseconds since 1970.
    pub fn new(servers: Vec<(&str, Redis)>, began_us: u64, seed: u64) -> Network {
        let node = |(address, redis): (&str, Redis)| (address.to_owned(), Node::Redis(redis));
        let inside = Inside {
            nodes: servers.into_iter().map(node).collect(),
            cut: BTreeSet::new(),
            held: Vec::new(),
            began_us,
            begun: instant(),
            random: Random(seed),
            faults: Faults::default(),
            happened: FaultCounts::default(),
            on_their_way: BTreeMap::new(),
            connections: BTreeMap::new(),
            count: 0,
            carried: 0,
        };
        Network { inside: Arc::new(Mutex::new(inside)), changed: Arc::default() }
    }

    pub fn set_faults(&self, faults: Faults) {
        self.lock().faults = faults;
    }

    pub fn happened(&self) -> FaultCounts {
        self.lock().happened
    }

    /// At this address there is a Sentinel, that names this master.
    pub fn add_sentinel(&self, address: &str, master: &str) {
        let sentinel = Sentinel { master: master.to_owned() };
        self.lock().nodes.insert(address.to_owned(), Node::Sentinel(sentinel));
    }

    /// All Sentinels name this one from now on.
    pub fn name_master(&self, master: &str) {
        for node in self.lock().nodes.values_mut() {
            if let Node::Sentinel(sentinel) = node {
                master.clone_into(&mut sentinel.master);
            }
        }
    }

    /// What becomes of a server, or what it has, while connections to it stay.
    pub fn change<T>(&self, address: &str, change: impl FnOnce(&mut Redis) -> T) -> T {
        match self.lock().nodes.get_mut(address) {
            Some(Node::Redis(redis)) => change(redis),
            node => panic!("no Redis at {address}: {node:?}"),
        }
    }

    /// Another server in its place: one that has lost all keys, or another life of it. It ends all connections.
    pub fn replace(&self, address: &str, change: impl FnOnce(&mut Redis)) {
        self.change(address, change);
        let mut inside = self.lock();
        let of = |connection: &&mut Connection| connection.route.1 == address;
        inside.connections.values_mut().filter(of).for_each(Connection::cut);
    }

    /// What this host and this address send each other does not arrive.
    pub fn set_cut(&self, host: &str, address: &str, cut: bool) {
        let mut inside = self.lock();
        let route = (host.to_owned(), address.to_owned());
        if cut {
            inside.cut.insert(route);
            return;
        }
        inside.cut.remove(&route);
        let (mended, held) =
            std::mem::take(&mut inside.held).into_iter().partition(|held| *held.route == route);
        inside.held = held;
        let arrives = instant() + inside.way();
        for message in mended {
            inside.count += 1;
            let at = (arrives, inside.count);
            inside.on_their_way.insert(at, message);
        }
        drop(inside);
        self.changed.notify_all();
    }

    /// What `GateConfig::dial` of this host takes.
    pub fn of(&self, host: &str) -> Reach {
        Reach { network: self.clone(), host: host.to_owned() }
    }

    /// How many messages have come so far.
    pub fn carried(&self) -> u64 {
        self.lock().carried
    }

    /// What the servers that have it have in a field of a hash.
    pub fn fields(&self, key: &[u8], field: &[u8]) -> Vec<Vec<u8>> {
        let of = |node: &Node| match node {
            Node::Redis(redis) => redis.field(key, field),
            Node::Sentinel(_) => None,
        };
        self.lock().nodes.values().filter_map(of).collect()
    }

    /// What any of the servers has in this sorted set.
    pub fn members(&self, key: &[u8]) -> Vec<Vec<u8>> {
        let of = |node: &Node| match node {
            Node::Redis(redis) => redis.members(key),
            Node::Sentinel(_) => Vec::new(),
        };
        self.lock().nodes.values().flat_map(of).collect()
    }

    /// The clock of all servers steps.
    pub fn set_clock(&self, by_ms: i64) {
        let mut inside = self.lock();
        inside.began_us = inside.began_us.saturating_add_signed(by_ms * 1_000);
    }

    /// Brings what is on its way to Redis, in the order of its arrival.
    pub fn carry(&self) -> ! {
        loop {
            let next = self.lock().on_their_way.first_key_value().map(|((arrives, _), _)| *arrives);
            let left = next.map_or(FOREVER, |arrives| arrives.duration_since(instant()));
            if !left.is_zero() {
                drop(self.changed.wait_while(&self.inside, left, |inside| {
                    let first = inside.on_their_way.first_key_value().map(|((arrives, _), _)| *arrives);
                    first == next
                }));
                continue;
            }
            self.lock().deliver();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inside> {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inside {
    fn way(&mut self) -> Duration {
        let (least, most) = WAY_US;
        Duration::from_micros((least + self.random.below(most - least)) as u64)
    }

    /// One in so many.
    fn chance(&mut self, in_so_many: usize) -> bool {
        in_so_many > 0 && self.random.below(in_so_many) == 0
    }

    fn send(&mut self, connection: u64, bytes: Vec<u8>) {
        let Faults { cut_before, cut_after, slow } = self.faults;
        let mut way = self.way();
        if self.chance(slow) {
            let (least, most) = SLOW_MS;
            way += Duration::from_millis((least + self.random.below(most - least)) as u64);
            self.happened.slow += 1;
        }
        let (before, cut_after) = (self.chance(cut_before), self.chance(cut_after));
        let Some(of) = self.connections.get_mut(&connection) else { return };
        let route = Arc::clone(&of.route);
        if before {
            self.happened.cut_before += 1;
            of.cut();
            return;
        }
        let arrives = (instant() + way).max(of.last_arrives.unwrap_or_else(instant));
        of.last_arrives = Some(arrives);
        self.count += 1;
        self.on_their_way.insert((arrives, self.count), Message { connection, route, bytes, cut_after });
    }

    /// The first one arrives.
    fn deliver(&mut self) {
        let Some((_, message)) = self.on_their_way.pop_first() else { return };
        if self.cut.contains(&*message.route) {
            return self.held.push(message);
        }
        let Message { connection, route, bytes, cut_after } = message;
        self.carried += 1;
        let gone_by = u64::try_from((instant() - self.begun).as_micros()).unwrap_or(u64::MAX);
        let node = self.nodes.get_mut(&route.1).expect("a connection is to somebody");
        let answers: Vec<Vec<u8>> = match node {
            Node::Sentinel(sentinel) => commands(&bytes).iter().map(|parts| sentinel.answer(parts)).collect(),
            Node::Redis(redis) => {
                redis.set_now(self.began_us + gone_by);
                commands(&bytes).iter().map(|parts| notes::answer(redis, &route, parts)).collect()
            }
        };
        let arrives = instant() + self.way();
        let happened = &mut self.happened;
        match self.connections.get_mut(&connection) {
            None => happened.late += answers.len() as u64,
            Some(of) if of.cut => happened.late += answers.len() as u64,
            Some(of) if cut_after => {
                happened.cut_after += 1;
                of.cut();
            }
            Some(of) => {
                of.replies.extend(answers.into_iter().map(|answer| (arrives, answer)));
                of.answered.notify_all();
            }
        }
    }
}

/// The network, for one host.
#[derive(Debug)]
pub struct Reach {
    network: Network,
    host: String,
}

impl Dial for Reach {
    fn dial(&self, address: &str) -> Result<Box<dyn Link>, Why> {
        let route = (self.host.clone(), address.to_owned());
        let is_cut = self.network.lock().cut.contains(&route);
        if is_cut {
            server::time::sleep(UNREACHED);
            return Err(Why::TimedOut);
        }
        let mut inside = self.network.lock();
        if !inside.nodes.contains_key(address) {
            return Err(Why::Unreachable);
        }
        inside.count += 1;
        let number = inside.count;
        let (replies, answered) = (VecDeque::new(), Arc::default());
        let connection =
            Connection { route: Arc::new(route), last_arrives: None, replies, cut: false, answered };
        inside.connections.insert(number, connection);
        Ok(Box::new(Way { network: self.network.clone(), number, limit: UNREACHED }))
    }
}

/// A client's end of a connection.
struct Way {
    network: Network,
    number: u64,
    limit: Duration,
}

impl Link for Way {
    fn write(&mut self, packed: &[u8]) -> Result<(), Why> {
        let mut inside = self.network.lock();
        if inside.connections[&self.number].cut {
            return Err(Why::ConnectionLost);
        }
        inside.send(self.number, packed.to_vec());
        drop(inside);
        self.network.changed.notify_all();
        Ok(())
    }

    fn read(&mut self) -> Result<Value, Why> {
        let Way { network, number, limit } = self;
        let begun = Instant::now();
        loop {
            let left = limit.saturating_sub(begun.elapsed());
            let mut inside = network.lock();
            let of = inside.connections.get_mut(number).expect("it is removed with its end");
            let arrives = of.replies.front().map(|(arrives, _)| *arrives);
            match arrives {
                Some(arrives) if arrives <= instant() => {
                    let (_, reply) = of.replies.pop_front().expect("there is one");
                    return Ok(redis::parse_redis_value(&reply).expect("a reply of ours is RESP"));
                }
                None if of.cut => return Err(Why::ConnectionLost),
                Some(_) | None if left.is_zero() => return Err(Why::TimedOut),
                Some(arrives) => {
                    drop(inside);
                    server::time::sleep(arrives.duration_since(instant()).min(left));
                }
                None => {
                    let answered = Arc::clone(&of.answered);
                    drop(inside);
                    drop(answered.wait_while(&network.inside, left, |inside| {
                        let of = &inside.connections[&*number];
                        of.replies.is_empty() && !of.cut
                    }));
                }
            }
        }
    }

    fn wait_at_most(&mut self, limit: Duration) -> Result<(), Why> {
        self.limit = limit;
        Ok(())
    }
}

impl Drop for Way {
    fn drop(&mut self) {
        self.network.lock().connections.remove(&self.number);
    }
}
