//! Causes at servers of a cluster, on engines of which what is out of order is used by these alone.

use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use server::queue::{Consumer, Options, Producer, Security};

use super::Alarm;
use super::shop::thaw;
use crate::cluster::{self, SOON, accepted, ask, code, configure_at, place_once, read, serve, sql};
use crate::cluster_gate::{get, until, until_ready};
use crate::cluster_queues::retire;
use crate::cluster_redis::{configure_shards, kill_a_shard};
use crate::engines::{Engines, freeze};
use crate::fake_clock::{DAY_AHEAD, FakeClock, RIGHT};
use crate::proxy::{Mode, Proxy};
use crate::sent::send;
use crate::serving::Serving;
use crate::topic;

const PLENTY: u64 = 29;
/// One for each buyer.
const SCARCE: u64 = 30;
/// More than the rule lets wait.
const MESSAGES: usize = 110_000;
const MESSAGES_AT_ONCE: usize = 1_000;
const QUEUES: u32 = 8;

/// One set for all of them, one after the other.
fn engines() -> &'static Engines {
    static ENGINES: OnceLock<Engines> = OnceLock::new();
    ENGINES.get_or_init(|| Engines::private(&["redis", "mariadb", "rocketmq"], &[]))
}

/// With names of its own on them.
fn configure(directory: &Path, name: &str) -> &'static Engines {
    let engines = engines();
    let [redis, name_server, mariadb] =
        ["redis", "rocketmq-namesrv", "mariadb"].map(|name| engines.address(name));
    configure_at([&redis, &name_server, &mariadb], directory, name, "");
    engines
}

fn one_server(alarm: &mut Alarm, name: &str) -> (&'static Engines, Serving) {
    let engines = configure(alarm.directory(), name);
    // The other is not missed.
    let path = alarm.directory().join("doorbuster.toml");
    let config = fs::read_to_string(&path).unwrap();
    fs::write(path, config.replace("servers = 2\n", "servers = 1\n")).unwrap();
    let server = serve(alarm.directory());
    accepted(&server, 1, "first", PLENTY);
    alarm.is_quiet(&[&server]);
    (engines, server)
}

fn queue(engines: &Engines) -> Options {
    Options {
        name_servers: vec![engines.address("rocketmq-namesrv")],
        group: "alarms".to_owned(),
        send_timeout: Duration::from_secs(10),
        security: Security::default(),
    }
}

fn redis(engines: &Engines, command: &[&str]) {
    let address = engines.address("redis");
    let (host, port) = address.rsplit_once(':').unwrap();
    let done = Command::new("redis-cli").args(["-e", "-h", host, "-p", port]).args(command).output().unwrap();
    assert!(done.status.success(), "{command:?}: {done:?}");
}

pub(super) fn broker_frozen(alarm: &mut Alarm) {
    let (engines, _server) = one_server(alarm, "alarm_broker");
    engines.freeze("rocketmq-broker");
    alarm.is_seen(|| {});
    engines.thaw("rocketmq-broker");
    alarm.is_gone();
}

/// Orders go on: brokers are reached where they were last.
pub(super) fn name_server_frozen(alarm: &mut Alarm) {
    let (engines, server) = one_server(alarm, "alarm_names");
    engines.freeze("rocketmq-namesrv");
    let mut buyers = 2..;
    alarm.is_seen(|| {
        accepted(&server, buyers.next().expect("there are buyers enough"), "k", PLENTY);
    });
    engines.thaw("rocketmq-namesrv");
    alarm.is_gone();
}

pub(super) fn server_frozen(alarm: &mut Alarm) {
    configure(alarm.directory(), "alarm_silent");
    let (a, b) = (serve(alarm.directory()), serve(alarm.directory()));
    accepted(&a, 1, "first", PLENTY);
    alarm.is_quiet(&[&a, &b]);
    freeze(b.pid());
    alarm.is_seen(|| {});
    thaw(b.pid());
    alarm.is_gone();
}

pub(super) fn server_stopped(alarm: &mut Alarm) {
    configure(alarm.directory(), "alarm_fewer");
    let (a, b) = (serve(alarm.directory()), serve(alarm.directory()));
    accepted(&a, 1, "first", PLENTY);
    alarm.is_quiet(&[&a]);
    assert_eq!(b.stop(), 0);
    alarm.is_seen(|| {});
    let _again = serve(alarm.directory());
    alarm.is_gone();
}

/// Servers that are configured in this directory reach the database by this way.
fn lead_by(way: &Proxy, mariadb: &str, directory: &Path) {
    let path = directory.join("doorbuster.toml");
    let config = fs::read_to_string(&path).unwrap();
    let by = |address: &str| format!("mysql_address = \"{address}\"\n");
    let led = config.replace(&by(mariadb), &by(&way.address.to_string()));
    assert_ne!(led, config);
    fs::write(path, led).unwrap();
}

/// A network of its own, which is cut between it and the database. It is another directory, with the same secrets.
pub(super) fn server_cut_off(alarm: &mut Alarm) {
    let engines = configure(alarm.directory(), "alarm_cut_off");
    let near = serve(alarm.directory());
    let mariadb = engines.address("mariadb");
    let way = Proxy::to(mariadb.parse().unwrap());
    let directory = alarm.directory().join("far");
    fs::create_dir(&directory).unwrap();
    symlink(alarm.directory().join("secrets"), directory.join("secrets")).unwrap();
    fs::copy(alarm.directory().join("doorbuster.toml"), directory.join("doorbuster.toml")).unwrap();
    lead_by(&way, &mariadb, &directory);
    let far = serve(&directory);
    accepted(&far, 1, "first", PLENTY);
    alarm.is_quiet(&[&near, &far]);
    way.set(Mode::Cut);
    alarm.is_seen(|| {});
    way.set(Mode::Pass);
    alarm.is_gone();
}

pub(super) fn shard_away(alarm: &mut Alarm) {
    let engines = Engines::private(&["redis-cluster"], &[]);
    configure_shards(&engines, alarm.directory(), "alarm_shard");
    let server = serve(alarm.directory());
    until_ready(&server);
    alarm.is_quiet(&[&server]);
    kill_a_shard(&engines);
    alarm.is_seen(|| {});
    engines.up(&["redis-cluster"]);
    alarm.is_gone();
}

/// One that runs already goes on by what it measures.
pub(super) fn clock_out(alarm: &mut Alarm) {
    let (_, _right) = one_server(alarm, "alarm_clock");
    let clock = FakeClock::new(alarm.directory(), DAY_AHEAD);
    let mut command = cluster::command(alarm.directory(), "127.0.0.1:0");
    command.envs(clock.environment());
    let _wrong = Serving::start_unseen(command);
    alarm.is_seen(|| {});
    clock.set(RIGHT);
    alarm.is_gone();
}

pub(super) fn ledger_frozen(alarm: &mut Alarm) {
    let (engines, _server) = one_server(alarm, "alarm_ledger");
    engines.freeze("mariadb");
    alarm.is_seen(|| {});
    engines.thaw("mariadb");
    alarm.is_gone();
}

pub(super) fn drift(alarm: &mut Alarm) {
    let (engines, server) = one_server(alarm, "alarm_drift");
    let script =
        "local gates = redis.call('KEYS', ARGV[1]) return redis.call('HINCRBY', gates[1], 'avail', -1)";
    redis(engines, &["EVAL", script, "0", "{alarm_drift:*}:s"]);
    alarm.is_seen(|| {});
    accepted(&server, 2, "k", PLENTY);
    alarm.is_gone_in_an_hour();
}

/// Copies of one order, which change nothing when they are read.
pub(super) fn backlog(alarm: &mut Alarm) {
    let (engines, server) = one_server(alarm, "alarm_backlog");
    let mut consumer = Consumer::new(queue(engines), "alarm_backlog");
    let all: Vec<_> = consumer.queues().unwrap().into_iter().map(|queue| (queue, 0)).collect();
    let started = Instant::now();
    let order = loop {
        let pulled = consumer.pull(&all, 1, Duration::from_secs(1)).unwrap();
        if let Some((_, order)) = pulled.into_iter().flat_map(|pulled| pulled.messages).next() {
            break order;
        }
        assert!(started.elapsed() < SOON, "the order is not at the broker");
    };
    engines.freeze("mariadb");
    let mut producer = Producer::new(queue(engines));
    for _ in 0..MESSAGES / MESSAGES_AT_ONCE {
        send(&mut producer, "alarm_backlog", &vec![&*order; MESSAGES_AT_ONCE]);
    }
    alarm.is_seen(|| {});
    engines.thaw("mariadb");
    alarm.is_gone();
    accepted(&server, 2, "k", PLENTY);
}

/// Has rows leased by nobody's id, as a server would that takes leases and dies with each; for longer than it is until the next look.
fn keep(engines: &Engines, rows: &str, condition: &str) {
    let until = "CAST(UNIX_TIMESTAMP(NOW(3)) * 1000 AS SIGNED) + 3500";
    let statement = format!(
        "UPDATE {rows} SET generation = generation + IF(owner = 1, 0, 1), owner = 1, leased_until = {until} WHERE {condition}"
    );
    sql(&engines.address("mariadb"), &statement);
}

pub(super) fn queues_kept(alarm: &mut Alarm) {
    let (engines, server) = one_server(alarm, "alarm_kept");
    // What the server reads of a queue before it hears that it has lost it is no backlog: orders go on.
    let mut buyers = 2..;
    alarm.is_seen(|| {
        keep(engines, "alarm_kept.queue_offsets", "TRUE");
        accepted(&server, buyers.next().expect("there are buyers enough"), "k", PLENTY);
    });
    alarm.is_gone();
}

pub(super) fn reconciliation_kept(alarm: &mut Alarm) {
    let (engines, _server) = one_server(alarm, "alarm_lease");
    alarm.is_seen(|| keep(engines, "alarm_lease.leases", "name = 'reconcile'"));
    alarm.is_gone();
}

pub(super) fn dead_letters(alarm: &mut Alarm) {
    let (engines, _server) = one_server(alarm, "alarm_letters");
    send(&mut Producer::new(queue(engines)), "alarm_letters", &[b"not an order"]);
    alarm.is_seen(|| {});
    alarm.is_gone_in_an_hour();
}

/// Nobody reaches it meanwhile, as it is when a replica takes over.
pub(super) fn ledger_put_back(alarm: &mut Alarm) {
    let engines = configure(alarm.directory(), "alarm_put_back");
    let mariadb = engines.address("mariadb");
    let way = Proxy::to(mariadb.parse().unwrap());
    lead_by(&way, &mariadb, alarm.directory());
    let server = serve(alarm.directory());
    let order = accepted(&server, 1, "first", SCARCE);
    let status = read(&server, 1, &order)["status"].clone();
    alarm.is_quiet(&[&server]);
    let (host, port) = mariadb.rsplit_once(':').unwrap();
    let there = ["--no-defaults", "--protocol=tcp", "--user=root", "--host", host, "--port", port];
    let copied = Command::new("mariadb-dump").args(there).arg("alarm_put_back").output().unwrap();
    assert!(copied.status.success(), "{copied:?}");
    let copy = alarm.directory().join("copy.sql");
    fs::write(&copy, copied.stdout).unwrap();
    let cancel = format!("/api/v1/orders/{order}/cancel");
    assert_eq!(ask(&server, "POST", &cancel, &[("memberId", "1")], "").status, 200);
    until("the gate has heard of it, which no gate does of what may be gone", || {
        let (_, stock) = get(&server, &format!("/api/v1/stock?sale=3&product={SCARCE}"));
        (stock.contains("\"available\":100,"), stock)
    });
    way.set(Mode::Cut);
    let copy = File::open(&copy).unwrap();
    let put = Command::new("mariadb").args(there).arg("alarm_put_back").stdin(copy).status().unwrap();
    assert!(put.success());
    way.set(Mode::Pass);
    alarm.is_seen(|| {});
    assert_eq!(read(&server, 1, &order)["status"], status, "the cancellation is gone");
    alarm.is_gone_in_an_hour();
}

/// Orders that no gate and no ledger knows any more, whose buyers order once more; and then their messages are read after all.
pub(super) fn orders_lost(alarm: &mut Alarm) {
    let (engines, server) = one_server(alarm, "alarm_lost");
    let broker = engines.address("rocketmq-broker");
    engines.freeze("mariadb");
    let buyers = 100..100 + 4 * u64::from(QUEUES);
    for buyer in buyers.clone() {
        accepted(&server, buyer, "one", SCARCE);
    }
    // It has read some of them already, and none is in the ledger.
    let listen = server.address.to_string();
    server.kill();
    topic::resize(&broker, "alarm_lost", QUEUES / 2);
    redis(engines, &["FLUSHALL"]);
    engines.thaw("mariadb");
    let server = Serving::start_unseen(cluster::command(alarm.directory(), &listen));
    until("it waits for the queues that were removed", || {
        let (status, body) = get(&server, "/readyz");
        (status == 503 && body.contains("doorbuster queues retire"), body)
    });
    let removed: Vec<String> = (QUEUES / 2..QUEUES).map(|queue| format!("broker-a/{queue}")).collect();
    let arguments: Vec<&str> =
        ["--with-unread"].into_iter().chain(removed.iter().map(String::as_str)).collect();
    retire(alarm.directory(), &arguments);
    until_ready(&server);
    let mut again = 0;
    for buyer in buyers {
        until("it is known what comes of it", || {
            let answer = place_once(&server, buyer, "another", SCARCE, 1);
            let is_known = answer.status != 503;
            again += usize::from(matches!(answer.status, 201 | 202));
            assert!(
                !is_known || matches!(answer.status, 201 | 202) || code(&answer) == "over_limit",
                "{answer:?}"
            );
            (is_known, answer.body)
        });
    }
    assert!(again > 0, "none was forgotten");
    topic::resize(&broker, "alarm_lost", QUEUES);
    alarm.is_seen(|| {});
    alarm.is_gone_in_an_hour();
}
