//! Sequences of script calls that a seed decides, on a real engine and on its stand-in.

use std::sync::Arc;

use engine::UnixMs;
use server::gate::Gate;
use server::gate::redis::Script;
use simulation::gate::Dialect;

use crate::alone::config;
use crate::both::{Both, Pair, parts};
use crate::calls::Caller;
use crate::faulty;
use crate::seeds::{Seed, count, seeds};

/// In `make test`.
const SEEDS: u64 = 120;
const STEPS: usize = 40;

fn play(seed: u64, both: &Both) {
    let mut caller = Caller::new(seed);
    let start_us = 1_700_000_000_000_000 + caller.random.number() % 100_000_000_000_000;
    set_now(&mut caller, &mut both.lock(), start_us);
    {
        let mut pair = both.lock();
        pair.ask(&parts(&[b"FLUSHALL"]));
        pair.calls.clear();
        pair.set_run(format!("{seed:040x}"));
    }
    let mut gate = Gate::new(config(Arc::new(both.clone())));
    // Some sequences are of a server alone; in others, somebody else is at the keys too.
    let faults = [0, 0, 3, 10][caller.random.below(4)];
    for sku in [0, 1] {
        caller.build(&mut gate, engine::SkuId(sku));
    }
    for _ in 0..STEPS {
        match caller.random.below(40) {
            0..=5 => wait(&mut caller, &mut both.lock()),
            6 => another_life(&mut caller, &mut both.lock()),
            draw if draw > 39 - faults => faulty::call(&mut caller.random, &mut both.lock()),
            draw if draw > 39 - faults - faults / 3 => faulty::state(&mut caller.random, &mut both.lock()),
            _ => caller.call(&mut gate),
        }
    }
    probe(&mut both.lock());
    both.lock().compare_keys();
    gate.remove_all().unwrap();
    both.lock().compare_keys();
}

/// As a health check does, beside much that a stand-in has no answer to.
fn probe(pair: &mut Pair) {
    let run = pair.run.clone();
    let call = parts(&[b"EVALSHA", Script::Probe.sha().as_bytes(), b"0", run.as_bytes()]);
    assert_eq!(pair.ask(&call), b":0\r\n");
}

fn set_now(caller: &mut Caller, pair: &mut Pair, now_us: u64) {
    pair.set_now(now_us);
    caller.now = UnixMs(pair.now_us / 1_000);
}

fn wait(caller: &mut Caller, pair: &mut Pair) {
    let us = caller.random.of(&[1, 999, 1_000, 2_000_000, 59_999_000, 61_000_000, 3_600_000_000]);
    set_now(caller, pair, pair.now_us + us);
}

/// Wiped, or as it was.
fn another_life(caller: &mut Caller, pair: &mut Pair) {
    if caller.random.below(3) == 0 {
        pair.ask(&parts(&[b"FLUSHALL"]));
    } else {
        let run = format!("{:040x}", caller.random.number());
        pair.set_run(run);
    }
}

fn sequences(dialect: Dialect) {
    let both = Both::start(dialect);
    let count = count(SEEDS);
    for seed in seeds(SEEDS) {
        let _named = Seed(seed);
        play(seed, &both);
    }
    let pair = both.lock();
    if count >= SEEDS {
        // As gate/redis/scripts.rs and gate/redis/reply.rs list them.
        assert_eq!(pair.scripts.len(), 11, "scripts that were called");
        assert!(pair.codes.iter().copied().eq(0..=21), "answers that came: {:?}", pair.codes);
        assert!(pair.errors * 100 > pair.count, "errors are compared too: {} of {}", pair.errors, pair.count);
    }
    println!("{dialect:?}: {} commands, {} errors among them", pair.count, pair.errors);
}

#[test]
fn script_calls_give_the_bytes_of_redis() {
    sequences(Dialect::Redis);
}

#[test]
fn script_calls_give_the_bytes_of_valkey() {
    sequences(Dialect::Valkey);
}
