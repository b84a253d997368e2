//! Faults of Redis, the stock gate: a single one, and a Cluster.

use std::process::Command;
use std::time::{Duration, Instant};

use crate::engines::Engines;
use crate::proxy::{Mode, Proxy};
use crate::testbed::{Forgets, Gate, Network, Scenario, Testbed, engines_that_are_well, is_full, play};

/// With `appendfsync everysec` a killed Redis forgets what came since the last write of its log, at most this.
const UNSYNCED: Duration = Duration::from_secs(2);
/// Longer than any scenario.
pub(crate) const EVERYTHING: Duration = Duration::from_secs(3600);
const TAKEN_OVER_WITHIN: Duration = Duration::from_secs(30);

pub(crate) const KILLED: Scenario =
    Scenario { forgets: Forgets::Before(UNSYNCED), ..Scenario::of("Redis killed") };
pub(crate) const FROZEN: Scenario = Scenario::of("Redis frozen");
pub(crate) const UNREACHABLE: Scenario = Scenario::of("Redis unreachable for one server");
pub(crate) const WIPED: Scenario =
    Scenario { forgets: Forgets::Before(EVERYTHING), ..Scenario::of("Redis wiped (FLUSHALL)") };
pub(crate) const WIPED_WHILE_FROZEN: Scenario =
    Scenario { name: "Redis wiped while a server is frozen between reserving and publishing", ..WIPED };
pub(crate) const WIPED_WHILE_CUT: Scenario =
    Scenario { name: "Redis wiped while the broker is unreachable for one server", ..WIPED };
pub(crate) const WIPED_OF_MANY: Scenario = Scenario {
    idle_sales: 5,
    forgets: Forgets::Before(EVERYTHING),
    ..Scenario::of("Redis wiped, of a shop with 50,000 products and 2 ms away")
};
pub(crate) const WIPED_FAR_REDIS: Scenario =
    far("Redis wiped, of that shop with four servers, 10 ms away from Redis");
pub(crate) const WIPED_FAR_LEDGER: Scenario = far("the same, 10 ms away from MariaDB");
pub(crate) const WIPED_FAR_BROKER: Scenario = far("the same, 10 ms away from the broker");
pub(crate) const MASTER_KILLED: Scenario = Scenario {
    gate: Gate::RedisCluster,
    forgets: Forgets::BeforeAndDuring(UNSYNCED),
    ..Scenario::of("Redis Cluster: a master killed, its replica takes over")
};
pub(crate) const MASTER_FROZEN: Scenario = Scenario {
    gate: Gate::RedisCluster,
    forgets: Forgets::BeforeAndDuring(UNSYNCED),
    ..Scenario::of("Redis Cluster: a master frozen, its replica takes over")
};

pub(crate) const WATCHED_KILLED: Scenario = Scenario {
    gate: Gate::RedisSentinel,
    forgets: Forgets::BeforeAndDuring(UNSYNCED),
    ..Scenario::of("Redis Sentinel: the master killed, a replica takes over")
};
pub(crate) const WATCHED_FROZEN: Scenario = Scenario {
    gate: Gate::RedisSentinel,
    forgets: Forgets::BeforeAndDuring(UNSYNCED),
    ..Scenario::of("Redis Sentinel: the master frozen, a replica takes over")
};

const fn far(name: &'static str) -> Scenario {
    Scenario { name, servers: 4, ..WIPED_OF_MANY }
}

#[test]
fn redis_is_killed() {
    play(&KILLED, |testbed| {
        testbed.engines.kill("redis");
        Testbed::wait_out();
        testbed.engines.up(&["redis"]);
    });
}

#[test]
fn redis_is_frozen() {
    play(&FROZEN, |testbed| {
        testbed.engines.freeze("redis");
        Testbed::wait_out();
        testbed.engines.thaw("redis");
    });
}

#[test]
fn redis_is_unreachable_for_one_server() {
    play(&UNREACHABLE, |testbed| {
        testbed.network.redis.set_for(testbed.cluster.pid(0), Mode::Silent);
        Testbed::wait_out();
        testbed.network.redis.set(Mode::Pass);
    });
}

#[test]
fn redis_is_wiped() {
    let wipe =
        |testbed: &Testbed| assert_eq!(redis_cli(testbed.engines, "redis", &["flushall"]).trim(), "OK");
    play(&WIPED, |testbed| wipe(testbed));
    if !is_full() {
        return;
    }
    play(&WIPED_WHILE_FROZEN, |testbed| {
        let pid = testbed.cluster.pid(0);
        testbed.network.broker.set_for(pid, Mode::Silent);
        testbed.network.broker.wait_until_held_back();
        testbed.cluster.freeze(0);
        wipe(testbed);
        Testbed::wait_out();
        testbed.network.broker.set(Mode::Pass);
        testbed.cluster.thaw(0);
    });
    // Whichever of the two rebuilds the gates, which waits for what the broker has.
    play(&WIPED_WHILE_CUT, |testbed| {
        let pid = testbed.cluster.pid(0);
        testbed.network.broker.set_for(pid, Mode::Silent);
        wipe(testbed);
        Testbed::wait_out();
        testbed.network.broker.set(Mode::Pass);
    });
}

/// What sells does not wait for what is over or still to come.
#[test]
fn redis_is_wiped_of_many_products() {
    let Network { redis, mariadb, broker, .. } = engines_that_are_well().1;
    wiped_of_many(&WIPED_OF_MANY, &[redis, mariadb], Duration::from_millis(2));
    if is_full() {
        let far = Duration::from_millis(10);
        wiped_of_many(&WIPED_FAR_REDIS, &[redis], far);
        wiped_of_many(&WIPED_FAR_LEDGER, &[mariadb], far);
        wiped_of_many(&WIPED_FAR_BROKER, &[broker], far);
    }
}

fn wiped_of_many(scenario: &Scenario, engines: &[&Proxy], round_trip: Duration) {
    play(scenario, |testbed| {
        engines.iter().for_each(|engine| engine.set(Mode::Late(round_trip)));
        testbed.load.wait_for_orders(100, Duration::from_secs(60));
        assert_eq!(redis_cli(testbed.engines, "redis", &["flushall"]).trim(), "OK");
        testbed.load.wait_for_orders(1, Duration::from_secs(60));
        engines.iter().for_each(|engine| engine.set(Mode::Pass));
    });
}

#[test]
fn a_master_is_killed() {
    play(&MASTER_KILLED, |testbed| {
        let (slot, master) = master_of_plenty(testbed);
        testbed.engines.kill(&master);
        wait_for_another_master(testbed.engines, slot, &master);
        testbed.engines.up(&["redis-cluster"]);
    });
}

/// When it wakes up, it believes for a moment that it is still the master.
#[test]
fn a_master_is_frozen() {
    play(&MASTER_FROZEN, |testbed| {
        let (slot, master) = master_of_plenty(testbed);
        testbed.engines.freeze(&master);
        wait_for_another_master(testbed.engines, slot, &master);
        Testbed::wait_out();
        testbed.engines.thaw(&master);
    });
}

#[test]
fn a_watched_master_is_killed() {
    play(&WATCHED_KILLED, |testbed| {
        let master = watched_master(testbed.engines);
        testbed.engines.kill(&master);
        wait_for_another_watched_master(testbed.engines, &master);
        testbed.engines.up(&["sentinel"]);
    });
}

/// When it wakes up, it believes that it is still the master, until a Sentinel tells it.
#[test]
fn a_watched_master_is_frozen() {
    play(&WATCHED_FROZEN, |testbed| {
        let master = watched_master(testbed.engines);
        testbed.engines.freeze(&master);
        wait_for_another_watched_master(testbed.engines, &master);
        Testbed::wait_out();
        testbed.engines.thaw(&master);
    });
}

/// The member that the Sentinels name.
fn watched_master(engines: &Engines) -> String {
    let named = redis_cli(engines, "sentinel-0", &["sentinel", "get-master-addr-by-name", "mymaster"]);
    let address = named.split_whitespace().collect::<Vec<_>>().join(":");
    let members = (0..3).map(|node| format!("sentinel-redis-{node}"));
    members.into_iter().find(|member| engines.address(member) == address).unwrap_or_else(|| panic!("{named}"))
}

fn wait_for_another_watched_master(engines: &Engines, old: &str) {
    let deadline = Instant::now() + TAKEN_OVER_WITHIN;
    while watched_master(engines) == old {
        assert!(Instant::now() < deadline, "no replica took over from {old}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

pub(crate) fn redis_cli(engines: &Engines, member: &str, command: &[&str]) -> String {
    let address = engines.address(member);
    let (host, port) = address.rsplit_once(':').unwrap();
    let output = Command::new("redis-cli").args(["-h", host, "-p", port]).args(command).output().unwrap();
    assert!(output.status.success(), "{command:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// The slot of the product that is sold most, and the member that is its master.
fn master_of_plenty(testbed: &Testbed) -> (u16, String) {
    let tag = format!("{{{}:00000000}}", testbed.prefix);
    let slot =
        redis_cli(testbed.engines, "redis-cluster-0", &["cluster", "keyslot", &tag]).trim().parse().unwrap();
    (slot, master_of(testbed.engines, "redis-cluster-0", slot).expect("every slot has a master"))
}

/// The member that serves a slot, as another member sees it.
fn master_of(engines: &Engines, seen_by: &str, slot: u16) -> Option<String> {
    let nodes = redis_cli(engines, seen_by, &["cluster", "nodes"]);
    let line = nodes.lines().find(|line| {
        let mut fields = line.split_whitespace();
        let well = fields.nth(2).is_some_and(|flags| flags.contains("master") && !flags.contains("fail"));
        well && fields.skip(5).any(|range| {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            first.parse::<u16>().is_ok_and(|first| first <= slot)
                && last.parse::<u16>().is_ok_and(|last| slot <= last)
        })
    })?;
    let port = line.split_whitespace().nth(1)?.split(['@', ',']).next()?.rsplit(':').next()?.to_owned();
    (0..6)
        .map(|node| format!("redis-cluster-{node}"))
        .find(|member| engines.address(member).ends_with(&format!(":{port}")))
}

fn wait_for_another_master(engines: &Engines, slot: u16, old: &str) {
    let other = if old == "redis-cluster-0" { "redis-cluster-1" } else { "redis-cluster-0" };
    let deadline = Instant::now() + TAKEN_OVER_WITHIN;
    while master_of(engines, other, slot).is_none_or(|master| master == old) {
        assert!(Instant::now() < deadline, "no replica took over from {old}");
        std::thread::sleep(Duration::from_millis(50));
    }
}
