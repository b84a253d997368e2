//! What servers make known to each other by way of Redis.

use server::gate::Gate;

use super::servers::{Cluster, Redis};

/// Two servers: what each says the other reads, the last word counts, and who leaves is gone.
fn check(mut a: Gate, mut b: Gate) {
    let rows = |rows: Result<Vec<(String, Vec<u8>)>, _>| {
        let mut rows = rows.unwrap();
        rows.sort();
        rows.into_iter()
            .map(|(run, said)| format!("{run}={}", String::from_utf8_lossy(&said)))
            .collect::<Vec<_>>()
    };
    assert!(rows(a.exchange_figures(None, &[])).is_empty());
    assert_eq!(rows(a.exchange_figures(Some(("a", b"1")), &[])), ["a=1"]);
    assert_eq!(rows(b.exchange_figures(Some(("b", b"{\"x\":\r\n}")), &[])), ["a=1", "b={\"x\":\r\n}"]);
    assert_eq!(rows(a.exchange_figures(Some(("a", b"2")), &["b".to_owned()])), ["a=2"]);
    assert_eq!(rows(b.exchange_figures(None, &["nobody".to_owned()])), ["a=2"]);
    assert!(rows(a.exchange_figures(None, &["a".to_owned()])).is_empty());
}

#[test]
fn servers_read_what_the_others_say() {
    let redis = Redis::start(&[]);
    check(redis.gate(), redis.gate());
    let cluster = Cluster::start(3, 0);
    check(cluster.gate(), cluster.gate());
}

#[test]
fn what_is_said_goes_by_itself_and_a_redis_that_is_away_is_an_error() {
    let mut redis = Redis::start(&[]);
    let mut gate = redis.gate();
    let mut client = redis::Client::open(format!("redis://127.0.0.1:{}", redis.port)).unwrap();
    gate.exchange_figures(Some(("a", b"1")), &[]).unwrap();
    let keys: Vec<String> = redis::cmd("KEYS").arg("*:figures").query(&mut client).unwrap();
    let left_ms: i64 = redis::cmd("PTTL").arg(&keys[0]).query(&mut client).unwrap();
    assert_eq!(keys.len(), 1);
    assert!((1..=600_000).contains(&left_ms), "{left_ms}");
    redis.kill();
    assert!(gate.exchange_figures(Some(("a", b"2")), &[]).is_err());
    redis.start_again();
    super::servers::until("it is heard again", || gate.exchange_figures(None, &[]).is_ok());
}
