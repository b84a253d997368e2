//! What a server answers that takes no writes, and the scripts that it lets in all the same.

use simulation::gate::{Dialect, Role};

use crate::both::{Pair, parts};

const WRITES: [&[&[u8]]; 4] =
    [&[b"SET", b"k", b"1"], &[b"HSET", b"h", b"a", b"b"], &[b"UNLINK", b"k"], &[b"FLUSHALL"]];
const READS: [&[&[u8]]; 3] = [&[b"GET", b"k"], &[b"HGETALL", b"h"], &[b"PTTL", b"k"]];
const SCRIPTS: [&str; 4] = [
    "#!lua\nreturn redis.call('SET', KEYS[1], 1)",
    "#!lua flags=allow-oom\nreturn redis.call('HSET', KEYS[2], 'a', 'c')",
    "#!lua flags=no-writes\nreturn redis.call('GET', KEYS[1])",
    "#!lua\nreturn 7",
];

fn ask_all(pair: &mut Pair) {
    for command in WRITES.iter().chain(&READS) {
        pair.ask(&parts(command));
    }
    for script in SCRIPTS {
        let sha = pair.ask_text(&[b"SCRIPT", b"LOAD", script.as_bytes()]);
        let redis::Value::BulkString(sha) = sha else { panic!("{sha:?}") };
        pair.ask(&parts(&[b"EVALSHA", &sha, b"2", b"k", b"h"]));
    }
    pair.ask(&parts(&[b"EVALSHA", b"00", b"0"]));
}

fn by(dialect: Dialect) {
    let mut pair = Pair::start(dialect);
    ask_all(&mut pair);
    pair.set_role(Role::MasterAlone);
    ask_all(&mut pair);
    pair.set_role(Role::Replica);
    ask_all(&mut pair);
    assert!(pair.errors > 10, "{pair:?}");
    pair.set_role(Role::Master);
    ask_all(&mut pair);
}

#[test]
fn a_redis_that_takes_no_writes_says_so() {
    by(Dialect::Redis);
}

#[test]
fn a_valkey_that_takes_no_writes_says_so() {
    by(Dialect::Valkey);
}
