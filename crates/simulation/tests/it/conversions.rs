//! Small scripts about what is converted between Lua and RESP, and about errors: one line each.

use simulation::gate::Dialect;

use crate::both::{Both, parts};

/// What the scripts of the gate do not do today is here too, as long as they could do it tomorrow.
const SCRIPTS: [&str; 41] = [
    "return {1, 2.9, -2.9, 'a', false, true, {ok = 'x'}, {err = 'y'}, nil, 3}",
    "return {2^31, 2^53, 2^53 + 1, 9007199254740993, 2^62, 2^63 - 1024, -2^63}",
    "return {2^63, 2^64, -2^64, 1e300, -1e300, 1/0, -1/0, 0/0}",
    "return {0.9999999999999999, 4.999999999999999, 1e-320, -0.0}",
    "return",
    "return nil",
    "return false",
    "return true",
    "return 'a\\r\\nb\\0c'",
    "return {}",
    "return {{}, {{1}}, {'', {false}}}",
    "return {err = 'A line\\r\\nand another'}",
    "return {ok = 'A line\\r\\nand another'}",
    "return {err = 7, 1}",
    "return absent",
    "absent = 1",
    "return tonumber('a') < 1",
    "return nil + 1",
    "return (redis.absent())",
    "return (redis.call())",
    "return (redis.call('HGET', KEYS[1]))",
    "return (redis.call('HGET', KEYS[9], 'a'))",
    "return (redis.call('HGET', {}, 'a'))",
    "return (redis.call('HGET', true, 'a'))",
    "redis.call('SET', KEYS[1], 'a') return (redis.call('HGET', KEYS[1], 'a'))",
    "redis.call('HSET', KEYS[1], 'a', 'x') return (redis.call('HINCRBY', KEYS[1], 'a', 1))",
    "return (redis.call('HINCRBY', KEYS[1], 'a', 1.5))",
    "redis.call('HSET', KEYS[1], 'a', '9223372036854775807') return (redis.call('HINCRBY', KEYS[1], 'a', 1))",
    "return {redis.call('HSET', KEYS[1], 'a', 'b'), redis.call('HMGET', KEYS[1], 'a', 'c', 'a'), redis.call('SET', KEYS[2], 1)}",
    "local t = redis.call('TIME') return {t[1], t[2], t[1] * 1000 + math.floor(t[2] / 1000)}",
    "return (redis.call('ZADD', KEYS[1], 'x', 'a'))",
    "return (redis.call('ZADD', KEYS[1], 0/0, 'a'))",
    "return (redis.call('ZRANGEBYSCORE', KEYS[1], 'x', 1))",
    "return (redis.call('ZRANGEBYSCORE', KEYS[1], 0, 1, 'LIMIT', 0, 1.5))",
    "return {struct.unpack('>I8I4I3', struct.pack('>I8I4I3', 2^53 + 2, 2^33 + 1, -1))}",
    "return (struct.pack('>I8I8I8I8I8', -1, -2^63, 2^63, 2^64 - 2048, 1.9))",
    "return {struct.unpack('>I8', 'abcdefg')}",
    "return {struct.unpack('>I8I4', string.rep('\\255', 20), 3)}",
    "return {struct.unpack('>I8', false)}",
    "return (struct.pack('>I8', nil))",
    "return (struct.pack('>I8I4', 1))",
];

/// As text, given to a command.
const NUMBERS: [&str; 20] = [
    "0",
    "-0.0",
    "1",
    "-1",
    "0.1",
    "1/3",
    "1e7 + 0.5",
    "123456.789",
    "1e15",
    "1e16",
    "1e17",
    "1e18",
    "2^62",
    "2^62 * 4",
    "1e20",
    "1e-5",
    "1.25e-7",
    "1.7e308",
    "1/0",
    "-1/0",
];

fn conversions(dialect: Dialect) {
    let both = Both::start(dialect);
    let mut pair = both.lock();
    pair.set_now(1_772_323_207_251_999);
    let as_text = |number: &&str| {
        format!(
            "redis.call('HSET', KEYS[1], 'n', {number}) return {{redis.call('HGET', KEYS[1], 'n'), {number}}}"
        )
    };
    let not_a_number = "redis.call('HSET', KEYS[1], 'a', 0/0, 'b', tonumber('nan')) return redis.call('HMGET', KEYS[1], 'a', 'b')";
    let scripts: Vec<String> =
        SCRIPTS.iter().map(|text| (*text).to_owned()).chain(NUMBERS.iter().map(as_text)).collect();
    for text in scripts.iter().map(String::as_str).chain([not_a_number]) {
        pair.ask(&parts(&[b"FLUSHALL"]));
        // Its errors name the third line.
        let sha = pair.ask(&parts(&[b"SCRIPT", b"LOAD", format!("#!lua\n\n{text}").as_bytes()]));
        pair.ask(&parts(&[b"EVALSHA", &sha[5..45], b"2", b"{k}a", b"{k}b", b"x"]));
        pair.compare_keys();
    }
    assert!(pair.errors > 20, "errors are compared too: {}", pair.errors);
    // Calls that reach no script.
    let sha = b"e0e1f9fabfc9d4800c877a703b823ac0578ff8db";
    for call in
        [&[&sha[..], b"0"][..], &[sha, b"-1"], &[sha, b"x"], &[sha, b"3", b"a"], &[sha, b"2", b"a", b"b"]]
    {
        pair.ask(&parts(&[&[&b"EVALSHA"[..]], call].concat()));
    }
}

#[test]
fn lua_and_resp_are_converted_as_by_redis() {
    conversions(Dialect::Redis);
}

#[test]
fn lua_and_resp_are_converted_as_by_valkey() {
    conversions(Dialect::Valkey);
}
