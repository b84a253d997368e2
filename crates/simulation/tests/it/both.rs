//! A real engine and its stand-in behind one link: each command goes to both, and both must answer the same.

use std::collections::{BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use redis::Value;
use server::gate::redis::Script;
use server::gate::{Dial, Link, Why};
use simulation::gate::{Dialect, Parts, Redis, Role, commands};

use crate::engine::Engine;

/// Script calls that are kept, to be made again with a fault.
const CALLS_KEPT_MAX: usize = 200;
/// Their answers are in an order of the engine's own.
const UNORDERED: [&[u8]; 6] = [b"HGETALL", b"HSCAN", b"SCAN", b"SMEMBERS", b"SPOP", b"ZSCAN"];

#[derive(Debug)]
pub(crate) struct Pair {
    engine: Engine,
    simulated: Redis,
    /// Of both.
    pub(crate) now_us: u64,
    pub(crate) run: String,
    pub(crate) calls: VecDeque<Parts>,
    pub(crate) count: u64,
    /// Error replies among them.
    pub(crate) errors: u64,
    /// Scripts that were called, by their names.
    pub(crate) scripts: BTreeSet<Vec<u8>>,
    /// Of the answers of scripts, which came.
    pub(crate) codes: BTreeSet<i64>,
}

impl Pair {
    pub(crate) fn start(dialect: Dialect) -> Pair {
        let run = "0".repeat(40);
        let simulated = Redis::new(dialect, &run);
        let engine = Engine::start(dialect);
        Pair {
            engine,
            simulated,
            now_us: 0,
            run,
            calls: VecDeque::new(),
            count: 0,
            errors: 0,
            scripts: BTreeSet::new(),
            codes: BTreeSet::new(),
        }
    }

    /// Sets both clocks, to the time that the engine then says it is.
    pub(crate) fn set_now(&mut self, now_us: u64) {
        self.engine.set_clock(now_us);
        let shown = self.engine_time();
        assert!(now_us - shown <= 1, "the engine's clock shows {shown}, not {now_us}");
        self.now_us = shown;
        self.simulated.set_now(shown);
    }

    fn engine_time(&mut self) -> u64 {
        self.engine.send(&packed(&parts(&[b"TIME"])));
        let mut reply = Vec::new();
        while reply.iter().filter(|byte| **byte == b'\n').count() < 5 {
            reply.extend(self.engine.receive(1));
        }
        let (seconds, micros): (u64, u64) =
            redis::from_redis_value(redis::parse_redis_value(&reply).unwrap()).unwrap();
        seconds * 1_000_000 + micros
    }

    /// Another life of the server, as far as a client can see.
    pub(crate) fn set_run(&mut self, run: String) {
        self.simulated.set_run(&run);
        self.run = run;
    }

    /// What both are from now on.
    pub(crate) fn set_role(&mut self, role: Role) {
        self.simulated.set_role(role);
        // Of a master that is not there; and a server that runs alone has no replica.
        let wanted: &[u8] = if role == Role::MasterAlone { b"1" } else { b"0" };
        let master: [&[u8]; 2] = if role == Role::Replica { [b"127.0.0.1", b"1"] } else { [b"NO", b"ONE"] };
        for command in [
            parts(&[b"CONFIG", b"SET", b"min-replicas-to-write", wanted]),
            parts(&[b"REPLICAOF", master[0], master[1]]),
        ] {
            self.engine.send(&packed(&command));
            assert_eq!(self.engine.receive(5), b"+OK\r\n", "{role:?}");
        }
    }

    /// Sends a command to both, and gives the reply of the engine, in which they agree.
    pub(crate) fn ask(&mut self, parts: &Parts) -> Vec<u8> {
        let expected = self.simulated.answer(parts);
        // Who they are is made to differ on purpose.
        if parts[0] == b"INFO" {
            return expected;
        }
        self.engine.send(&packed(parts));
        let reply = self.engine.receive(expected.len());
        let agree =
            reply == expected || (UNORDERED.contains(&&*parts[0]) && sorted(&reply) == sorted(&expected));
        assert!(
            agree,
            "they differ in {}\n      engine: {}\n  simulation: {}",
            parts.iter().map(|part| shown(part)).collect::<Vec<_>>().join(" "),
            shown(&reply),
            shown(&expected)
        );
        self.count += 1;
        self.errors += u64::from(reply[0] == b'-');
        if parts[0] == b"EVALSHA" {
            self.scripts.insert(parts[1].clone());
            if let Ok(Value::Array(answer)) = redis::parse_redis_value(&reply) {
                // Of several orders that are to be reserved, what is said of each stands behind the time.
                let several =
                    parts[1] == Script::Reserve.sha().as_bytes() && answer.first() == Some(&Value::Int(0));
                let codes = if several { &answer[5..] } else { &answer[..answer.len().min(1)] };
                self.codes.extend(codes.iter().filter_map(code));
            }
            self.calls.truncate(CALLS_KEPT_MAX - 1);
            self.calls.push_front(parts.clone());
        }
        reply
    }

    pub(crate) fn ask_text(&mut self, text: &[&[u8]]) -> Value {
        let reply = self.ask(&parts(text));
        redis::parse_redis_value(&reply).unwrap()
    }

    /// Compares all keys: types, values, and how long they stay.
    pub(crate) fn compare_keys(&mut self) -> usize {
        let Value::Array(scanned) = self.ask_text(&[b"SCAN", b"0", b"COUNT", b"100000"]) else { panic!() };
        let keys: Vec<Vec<u8>> = redis::from_redis_value(scanned[1].clone()).unwrap();
        for key in &keys {
            self.ask_text(&[b"PTTL", key]);
            let Value::SimpleString(kind) = self.ask_text(&[b"TYPE", key]) else { panic!() };
            match kind.as_str() {
                "string" => self.ask_text(&[b"GET", key]),
                "hash" => self.ask_text(&[b"HGETALL", key]),
                "set" => self.ask_text(&[b"SMEMBERS", key]),
                _ => {
                    self.ask_text(&[b"ZSCAN", key, b"0", b"COUNT", b"100000"]);
                    self.ask_text(&[b"ZRANGEBYSCORE", key, b"-inf", b"inf"])
                }
            };
        }
        keys.len()
    }
}

pub(crate) fn parts(parts: &[&[u8]]) -> Parts {
    parts.iter().map(|part| part.to_vec()).collect()
}

pub(crate) fn packed(parts: &Parts) -> Vec<u8> {
    let mut packed = format!("*{}\r\n", parts.len()).into_bytes();
    for part in parts {
        packed.extend_from_slice(format!("${}\r\n", part.len()).as_bytes());
        packed.extend_from_slice(part);
        packed.extend_from_slice(b"\r\n");
    }
    packed
}

/// Every list in one order; a flat list of pairs stays one of the same members.
fn sorted(reply: &[u8]) -> Option<String> {
    fn text(value: &Value) -> String {
        let Value::Array(values) = value else { return format!("{value:?}") };
        let mut texts: Vec<String> = values.iter().map(text).collect();
        texts.sort();
        texts.join("\n")
    }
    redis::parse_redis_value(reply).ok().map(|value| text(&value))
}

/// What a person can read of it.
fn shown(bytes: &[u8]) -> String {
    let text: String =
        bytes.iter().take(400).flat_map(|byte| std::ascii::escape_default(*byte)).map(char::from).collect();
    format!("\"{text}\"")
}

/// For several clients.
#[derive(Clone, Debug)]
pub(crate) struct Both(Arc<Mutex<Pair>>);

impl Both {
    pub(crate) fn start(dialect: Dialect) -> Both {
        Both(Arc::new(Mutex::new(Pair::start(dialect))))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Pair> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Dial for Both {
    fn dial(&self, _: &str) -> Result<Box<dyn Link>, Why> {
        Ok(Box::new(Way { both: self.clone(), replies: VecDeque::new() }))
    }
}

struct Way {
    both: Both,
    replies: VecDeque<Vec<u8>>,
}

impl Link for Way {
    fn write(&mut self, packed: &[u8]) -> Result<(), Why> {
        let mut pair = self.both.lock();
        self.replies.extend(commands(packed).iter().map(|parts| pair.ask(parts)));
        Ok(())
    }

    fn read(&mut self) -> Result<Value, Why> {
        let reply = self.replies.pop_front().expect("a reply to every command");
        Ok(redis::parse_redis_value(&reply).unwrap())
    }

    fn wait_at_most(&mut self, _: Duration) -> Result<(), Why> {
        Ok(())
    }
}

/// A code, or a code and what belongs to it.
fn code(value: &Value) -> Option<i64> {
    match value {
        Value::Int(code) => Some(*code),
        Value::Array(values) => values.first().and_then(code),
        _ => None,
    }
}
