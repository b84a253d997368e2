//! Calls that no server makes, and states that no script has left: what is missing, of another type, cut off, or too large.

use simulation::gate::Parts;

use crate::both::{Pair, parts};
use simulation::random::Random;

const ODD: [&[u8]; 30] = [
    b"",
    b"0",
    b"-0",
    b"-1",
    b"1",
    b"007",
    b" 7 ",
    b"+7",
    b"0x10",
    b"1.5",
    b"-2.5",
    b"1e3",
    b"1e400",
    b"inf",
    b"-inf",
    b"nan",
    b"9007199254740991",
    b"9007199254740993",
    b"9223372036854775807",
    b"9223372036854775808",
    b"18446744073709551615",
    b"18446744073709551616",
    b"-9223372036854775809",
    b"x",
    b"r\0\0",
    b"begin",
    b"finish",
    b"marks",
    b"s",
    b"\xff\xfe\r\n$5",
];

/// The keys of an item: state, marks, open, buyers.
fn key(random: &mut Random, kinds: &[&str]) -> Vec<u8> {
    format!("{{db:{:08x}}}:{}", random.below(2), random.of(kinds)).into_bytes()
}

fn odd(random: &mut Random) -> Vec<u8> {
    match random.below(4) {
        0 => {
            let len = random.below(80);
            random.bytes(len)
        }
        _ => random.of(&ODD).to_vec(),
    }
}

/// One of the calls that were made, with a fault or two.
pub(crate) fn call(random: &mut Random, pair: &mut Pair) {
    if pair.calls.is_empty() {
        return;
    }
    let mut call = pair.calls[random.below(pair.calls.len())].clone();
    for _ in 0..=random.below(2) {
        spoil(random, &mut call);
    }
    pair.ask(&call);
    // It is not one to spoil again: the second fault would mostly be behind the first.
    pair.calls.pop_front();
}

/// Of `EVALSHA`, name, number of keys, and what follows them.
fn spoil(random: &mut Random, call: &mut Parts) {
    if call.len() <= 3 {
        return;
    }
    let at = 3 + random.below(call.len() - 3);
    match random.below(10) {
        0 => call.truncate(at),
        1 => drop(call.remove(at)),
        2 => call.insert(at, odd(random)),
        3 => {
            let len = random.below(call[at].len() + 1);
            call[at].truncate(len);
        }
        4 => {
            let other = 3 + random.below(call.len() - 3);
            call.swap(at, other);
        }
        5 => call[2] = random.of(&[b"0", b"1", b"3", b"5", b"9"]).to_vec(),
        6 => {
            let more = random.bytes(3);
            call[at].extend(more);
        }
        7 if !call[at].is_empty() => {
            let byte = random.below(call[at].len());
            call[at][byte] ^= 1 << random.below(8);
        }
        _ => call[at] = odd(random),
    }
}

/// Changes what is stored, beside the scripts.
pub(crate) fn state(random: &mut Random, pair: &mut Pair) {
    let (name, value) = (key(random, &["s", "k", "t", "b"]), odd(random));
    let command: Parts = match random.below(9) {
        0 => parts(&[b"DEL", &name]),
        1 => parts(&[b"SET", &name, &value]),
        2 => {
            pair.ask(&parts(&[b"DEL", &name]));
            parts(&[b"SADD", &name, &value])
        }
        3 => parts(&[b"HSET", &name, random.of(&[b"gate", b"seq", b"avail", b"version"]), &value]),
        4 | 5 => gate(random, pair),
        6 => parts(&[b"ZADD", &name, random.of(&[b"0", b"-5", b"99999999999999"]), &value]),
        7 => parts(&[b"HSET", &name, &[0; 16], &value]),
        _ => parts(&[b"HSET", &name, &value, &odd(random)]),
    };
    pair.ask(&command);
}

/// The packed state, with a byte changed or its end cut off.
fn gate(random: &mut Random, pair: &mut Pair) -> Parts {
    let name = &key(random, &["s"]);
    let redis::Value::BulkString(mut state) = pair.ask_text(&[b"HGET", name, b"gate"]) else {
        return parts(&[b"HGET", name, b"gate"]);
    };
    if random.below(2) == 0 {
        let len = random.below(state.len() + 1);
        state.truncate(len);
    } else if !state.is_empty() {
        // The flags, and whatever stands there.
        let anywhere = random.below(state.len());
        let at = random.of(&[40, 41, 70, anywhere]) % state.len();
        state[at] = random.of(b"OFBoflpe\x00\x01\x03\xff");
    }
    parts(&[b"HSET", name, b"gate", &state])
}
