//! Redis and Redis Cluster: a command, in pipelines, whose answers it judges.
//!
//! A request is a pipeline of `depth` commands and so many outcomes. In a cluster each request goes to the master of
//! its first key's slot, and the other commands of it have keys of the same master. Lost answers are unknown, which is
//! the generator's doing; MOVED corrects the map and counts as failed, so that a stable cluster shows none.

pub mod command;
pub mod keys;
pub mod reserve;
pub mod resp;
pub mod slots;

use anyhow::ensure;

use self::command::{Expect, RedisCommand, Template};
use self::keys::{Keys, Order, Values};
use self::resp::Reply;
use self::slots::SlotMap;
use crate::load::choice::Random;
use crate::load::record::Outcome;
use crate::load::{ConnectionId, Greeting, Protocol, Received, Verdicts};

/// Bytes of an unexpected answer that are kept, to show a person what went wrong.
const SURPRISE_BYTES_MAX: usize = 400;
/// Keys that are drawn at most until one is found for the master that a pipeline goes to.
const DRAWS_MAX: usize = 10_000;

#[derive(Debug)]
pub struct Workload {
    pub command: RedisCommand,
    pub keys: Keys,
    /// Of each value; none is needed if the command has no `__data__`.
    pub value_bytes: usize,
    /// Commands that a user sends before it reads their answers.
    pub depth: usize,
    pub seed: u64,
    pub password: Option<String>,
    /// With it the generator's addresses must be [`SlotMap::masters`], by [`Spread::Requests`](crate::load::Spread).
    pub slots: Option<SlotMap>,
}

impl Workload {
    /// One command at a time, and no password.
    pub fn of(command: RedisCommand, keys: Keys) -> Self {
        Self { command, keys, value_bytes: 0, depth: 1, seed: 1, password: None, slots: None }
    }
}

#[derive(Debug)]
pub struct Redis {
    template: Template,
    keys: Keys,
    values: Values,
    depth: usize,
    random: Random,
    password: Option<String>,
    slots: Option<SlotMap>,
    /// How many answers of its request each user has, grown as they come.
    answered: Vec<usize>,
    highest: i64,
}

impl Redis {
    pub fn new(workload: Workload) -> anyhow::Result<Self> {
        let Workload { command, keys, value_bytes, depth, seed, password, slots } = workload;
        ensure!(depth > 0, "a pipeline has a command");
        let template = Template::new(&command, &keys)?;
        if slots.is_some() {
            ensure!(template.has_key(), "a command without a key belongs nowhere in a cluster");
            ensure!(
                depth == 1 || keys.order == Order::Random,
                "a pipeline to one master can't take the keys in sequence"
            );
        }
        let mut random = Random::new(seed);
        let values = Values::new(value_bytes, &mut random);
        Ok(Self {
            template,
            keys,
            values,
            depth,
            random,
            password,
            slots,
            answered: Vec::new(),
            highest: i64::MIN,
        })
    }

    /// The highest number that any answer was: after INCR, the counter is at least this.
    pub fn highest(&self) -> Option<i64> {
        (self.highest != i64::MIN).then_some(self.highest)
    }

    /// Appends one command for the lane, or for any if there is none yet; the lane it is for.
    fn command(&mut self, lane: Option<usize>, out: &mut Vec<u8>) -> usize {
        let template = &self.template;
        for _ in 0..DRAWS_MAX {
            let begin = out.len();
            let key = template.write(&mut self.keys, &self.values, &mut self.random, out);
            let Some(slots) = &self.slots else { return 0 };
            let own = slots.lane(&out[key]);
            if lane.is_none_or(|lane| lane == own) {
                return own;
            }
            out.truncate(begin);
        }
        // All keys belong to other masters: it goes where it is refused by MOVED, and is counted as that.
        template.write(&mut self.keys, &self.values, &mut self.random, out);
        lane.unwrap_or(0)
    }

    /// The meaning of one answer, and what it teaches.
    fn judge(&mut self, connection: ConnectionId, reply: Reply<'_>, verdicts: &mut Verdicts) {
        self.answered[connection.user] += 1;
        let outcome = self.template.judge(reply);
        match reply {
            Reply::Integer(value) if self.template.expect == Expect::Integer => {
                self.highest = self.highest.max(value);
            }
            Reply::Error(error) if error.starts_with(b"MOVED ") => {
                if let Some(slots) = &mut self.slots {
                    slots.moved(connection.lane, error);
                }
            }
            _ => {}
        }
        if matches!(outcome, Outcome::Failed | Outcome::Unknown) {
            verdicts.surprise(|| surprise(reply));
        }
        verdicts.add(outcome);
    }
}

impl Protocol for Redis {
    fn greets(&self) -> bool {
        self.password.is_some()
    }

    fn greet(&mut self, _connection: ConnectionId, bytes: &[u8], out: &mut Vec<u8>) -> Greeting {
        let Some(password) = &self.password else { return Greeting::Done { consumed: 0 } };
        if bytes.is_empty() {
            resp::encode(&[b"AUTH", password.as_bytes()], out);
            return Greeting::Next { consumed: 0 };
        }
        match resp::decode(bytes) {
            Ok(None) => Greeting::Part,
            Ok(Some((Reply::Simple(b"OK"), consumed))) => Greeting::Done { consumed },
            Ok(Some(_)) => Greeting::Broken("Redis refuses the password"),
            Err(malformed) => Greeting::Broken(malformed.0),
        }
    }

    fn request(&mut self, user: usize, out: &mut Vec<u8>) -> usize {
        if self.answered.len() <= user {
            self.answered.resize(user + 1, 0);
        }
        self.answered[user] = 0;
        let mut lane = None;
        for _ in 0..self.depth {
            lane = Some(self.command(lane, out));
        }
        lane.unwrap_or(0)
    }

    fn receive(&mut self, connection: ConnectionId, bytes: &[u8], verdicts: &mut Verdicts) -> Received {
        let mut consumed = 0;
        while self.answered[connection.user] < self.depth {
            match resp::decode(&bytes[consumed..]) {
                Ok(Some((reply, length))) => {
                    self.judge(connection, reply, verdicts);
                    consumed += length;
                }
                Ok(None) => return Received::Part { consumed },
                Err(malformed) => return Received::Broken(malformed.0),
            }
        }
        Received::Whole { consumed, keep_alive: true }
    }

    fn operations(&self, _user: usize) -> u64 {
        self.depth as u64
    }
}

fn surprise(reply: Reply<'_>) -> String {
    let text = match reply {
        Reply::Simple(text) | Reply::Error(text) | Reply::Bulk(text) => text,
        Reply::Integer(value) => return format!("the number {value}"),
        Reply::Nil => return "nothing there".to_owned(),
        Reply::Array(elements) => return format!("{:?}", elements.take(5).collect::<Vec<_>>()),
    };
    String::from_utf8_lossy(&text[..text.len().min(SURPRISE_BYTES_MAX)]).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONNECTION: ConnectionId = ConnectionId { user: 0, lane: 0 };

    fn workload(command: &str, order: Order) -> Workload {
        Workload::of(RedisCommand::parse(command).unwrap(), Keys::new("", 10, 100, order).unwrap())
    }

    fn driver(command: &str, depth: usize) -> Redis {
        Redis::new(Workload { depth, ..workload(command, Order::Random) }).unwrap()
    }

    #[test]
    fn a_pipeline_is_whole_with_its_last_answer_wherever_it_is_cut() {
        let answer = b"+OK\r\n-OOM full\r\n+OK\r\n-LOADING wait\r\n";
        for cut in 0..answer.len() {
            let mut driver = driver("SET __key__ v", 4);
            let mut out = Vec::new();
            driver.request(0, &mut out);
            assert_eq!(out.windows(5).filter(|bytes| bytes == b"\nSET\r").count(), 4);
            let mut verdicts = Verdicts::default();
            let Received::Part { consumed } = driver.receive(CONNECTION, &answer[..cut], &mut verdicts)
            else {
                panic!("cut at {cut}")
            };
            let whole = driver.receive(CONNECTION, &answer[consumed..], &mut verdicts);
            assert_eq!(whole, Received::Whole { consumed: answer.len() - consumed, keep_alive: true });
            let said = format!("{verdicts:?}");
            assert!(said.contains("[(Served, 1), (Failed, 1), (Served, 1), (Busy, 1)]"), "{said}");
            assert!(said.contains("OOM full"), "{said}");
        }
    }

    #[test]
    fn the_highest_number_is_kept() {
        let mut driver = driver("INCR counter", 3);
        assert_eq!(driver.highest(), None);
        driver.request(0, &mut Vec::new());
        let mut verdicts = Verdicts::default();
        driver.receive(CONNECTION, b":7\r\n:9\r\n:8\r\n", &mut verdicts);
        assert!(format!("{verdicts:?}").contains("[(Served, 3)]"), "{verdicts:?}");
        assert_eq!(driver.highest(), Some(9));
    }

    #[test]
    fn the_password_comes_first() {
        let mut driver = driver("PING", 1);
        assert!(!driver.greets());
        driver.password = Some("secret".to_owned());
        assert!(driver.greets());
        let mut out = Vec::new();
        assert_eq!(driver.greet(CONNECTION, b"", &mut out), Greeting::Next { consumed: 0 });
        assert_eq!(out, b"*2\r\n$4\r\nAUTH\r\n$6\r\nsecret\r\n");
        assert_eq!(driver.greet(CONNECTION, b"+O", &mut out), Greeting::Part);
        assert_eq!(driver.greet(CONNECTION, b"+OK\r\n", &mut out), Greeting::Done { consumed: 5 });
        assert!(matches!(driver.greet(CONNECTION, b"-WRONGPASS no\r\n", &mut out), Greeting::Broken(_)));
    }

    fn cluster(command: &str, depth: usize) -> Redis {
        let slots = Some(slots::tests::map());
        Redis::new(Workload { depth, slots, ..workload(command, Order::Random) }).unwrap()
    }

    #[test]
    fn in_a_cluster_all_keys_of_a_pipeline_are_of_its_lane() {
        let mut driver = cluster("SET __key__ v", 20);
        let map = slots::tests::map();
        let mut lanes = [0, 0];
        for _ in 0..50 {
            let mut out = Vec::new();
            let lane = driver.request(0, &mut out);
            lanes[lane] += 1;
            let asked = String::from_utf8(out).unwrap();
            let keys: Vec<_> = asked.lines().filter(|line| line.len() == 10).collect();
            assert_eq!(keys.len(), 20);
            assert!(keys.iter().all(|key| map.lane(key.as_bytes()) == lane), "{keys:?}");
        }
        assert!(lanes.iter().all(|count| *count > 5), "{lanes:?}");
    }

    #[test]
    fn moved_is_a_failure_and_the_next_request_goes_elsewhere() {
        let mut driver = cluster("INCR foo", 1);
        let connection = ConnectionId { user: 0, lane: 1 };
        assert_eq!(driver.request(0, &mut Vec::new()), 1);
        let mut verdicts = Verdicts::default();
        driver.receive(connection, b"-MOVED 12182 127.0.0.1:7000\r\n", &mut verdicts);
        let said = format!("{verdicts:?}");
        assert!(said.contains("[(Failed, 1)]") && said.contains("MOVED 12182"), "{said}");
        assert_eq!(driver.request(0, &mut Vec::new()), 0);
    }

    #[test]
    fn contradictions_are_refused() {
        let slots = || Some(slots::tests::map());
        for workload in [
            Workload { depth: 0, ..workload("GET __key__", Order::Random) },
            Workload { depth: 2, slots: slots(), ..workload("GET __key__", Order::Sequence) },
            Workload { slots: slots(), ..workload("PING", Order::Random) },
        ] {
            assert!(Redis::new(workload).is_err());
        }
    }
}
