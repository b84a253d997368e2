//! Two brokers, each with a slave that copies it: orders go to both masters, and one that dies loses none and doubles none.

use std::path::Path;
use std::time::{Duration, Instant};

use server::queue::{Consumer, Options, Security};

use crate::cluster::{accepted, audit, configure_at, read, serve};
use crate::cluster_gate::{get, until};
use crate::cluster_queues::metric;
use crate::engines::Engines;
use crate::run;
use crate::serving::Serving;

const PLENTY: u64 = 29;
const ROLLED_FORWARD: &str = "doorbuster_reservations_rolled_forward_total";
/// With the ledger frozen, a server holds one round of messages and has asked for one more of each of 8 queues; orders that come one by
/// one are no more than one to a request, or a few.
const READ_AHEAD_MAX: u64 = 60;
/// A master answers when its slave has it, too.
const SETTINGS: [(&str, &str); 2] = [
    ("DOORBUSTER_ROCKETMQ_ROLE", "SYNC_MASTER"),
    (
        "DOORBUSTER_ROCKETMQ_OPTIONS",
        "inSyncReplicas=2 brokerFastFailureEnable=false osPageCacheBusyTimeOutMills=10000",
    ),
];

fn queues(directory: &Path, arguments: &[&str]) -> (i32, String, String) {
    let (command, rest) = arguments.split_first().unwrap();
    run(directory, &[&["queues", *command, "--config", "doorbuster.toml"], rest].concat())
}

/// The lines of the queues of one broker.
fn of<'a>(list: &'a str, broker: &str) -> Vec<&'a str> {
    let start = format!("{broker}/");
    list.lines().filter(|line| line.trim_start().starts_with(&start)).collect()
}

/// Messages that a broker ever got: none known of a broker that did not answer in time, which a busy one may well not.
fn messages(list: &str, broker: &str) -> Option<u64> {
    let end = |line: &str| line.split_whitespace().nth(3).and_then(|end| end.parse::<u64>().ok());
    of(list, broker).into_iter().map(end).sum()
}

/// Asks the brokers themselves, while the ledger does not answer.
struct Stored(Consumer);

impl Stored {
    fn new(name_server: &str) -> Stored {
        let options = Options {
            name_servers: vec![name_server.to_owned()],
            group: "test".into(),
            send_timeout: Duration::from_secs(10),
            security: Security::default(),
        };
        Stored(Consumer::new(options, "pairs"))
    }

    fn at_broker_b(&mut self) -> u64 {
        let queues = self.0.queues().unwrap();
        let of_b = queues.iter().filter(|queue| queue.broker == "broker-b");
        of_b.map(|queue| self.0.max_offset(queue).unwrap()).sum()
    }
}

fn settings_are_shown(engines: &Engines, audited: &str, ready: &str) {
    for (broker, member) in [("broker-a", "rocketmq-broker"), ("broker-b", "rocketmq-broker-b")] {
        let address = engines.address(member);
        let shown = format!(
            "rocketmq {broker} {address}: flushDiskType = SYNC_FLUSH, brokerRole = SYNC_MASTER, inSyncReplicas = 2"
        );
        assert!(audited.contains(&shown) && ready.contains(&shown), "{audited}{ready}");
    }
}

/// One that lives answers, but a busy one not always in the time that the list gives it.
fn the_dead_are_listed(directory: &Path) {
    until("the list tells the living from the dead", || {
        let (code, list, errors) = queues(directory, &["list"]);
        assert_eq!((code, errors.as_str()), (0, ""), "{list}");
        let (alive, dead) = (of(&list, "broker-a"), of(&list, "broker-b"));
        assert_eq!((alive.len(), dead.len()), (8, 8), "{list}");
        assert!(dead.iter().all(|line| line.contains("no answer: ")), "{list}");
        (alive.iter().all(|line| line.contains("in the topic")), list)
    });
}

fn retires_nothing(directory: &Path) {
    for arguments in [&["retire", "broker-b/0"][..], &["retire", "--with-unread", "broker-b/0", "broker-b/1"]]
    {
        let (code, out, errors) = queues(directory, arguments);
        assert_eq!((code, out.as_str()), (69, ""), "{errors}");
        assert!(errors.contains("nothing was retired") && errors.contains("start it"), "{errors}");
    }
}

/// While what the dead broker has comes into the ledger without it, and no difference is seen in that.
fn stays_ready_until_rolled_forward(servers: &[Serving; 2]) {
    until("it is rolled forward", || {
        let (status, body) = get(&servers[0], "/readyz");
        assert_eq!(status, 200, "{body}");
        let rolled: u64 = servers.iter().map(|server| metric(server, ROLLED_FORWARD)).sum();
        (rolled > 0, body)
    });
    let started = Instant::now();
    while started.elapsed() < Duration::from_secs(2) {
        let (status, body) = get(&servers[0], "/readyz");
        assert_eq!(status, 200, "{body}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

#[test]
fn one_of_two_masters_dies_and_what_it_has_is_neither_lost_nor_doubled() {
    let dir = tempfile::tempdir().unwrap();
    let engines = Engines::private(&["rocketmq-pairs", "mariadb"], &SETTINGS);
    let redis = Engines::shared(&["redis"]).address("redis");
    let [name_server, mariadb] = ["rocketmq-namesrv", "mariadb"].map(|member| engines.address(member));
    configure_at([&redis, &name_server, &mariadb], dir.path(), "pairs", "");
    let servers = [serve(dir.path()), serve(dir.path())];
    let mut orders: Vec<(u64, String)> = Vec::new();
    let all = |orders: &[(u64, String)]| format!(" {} orders", orders.len());
    let place = |orders: &mut Vec<(u64, String)>, count: u64| {
        let known = orders.len() as u64;
        for member in known + 1..=known + count {
            let server = &servers[usize::from(member.is_multiple_of(2))];
            orders.push((member, accepted(server, member, "k", PLENTY)));
        }
    };
    // A producer that asked for the route before both masters had the topic knows one for half a minute.
    let mut before = None;
    until("orders go to both masters", || {
        place(&mut orders, 10);
        let (code, list, errors) = queues(dir.path(), &["list"]);
        let whole = (code, of(&list, "broker-a").len(), of(&list, "broker-b").len()) == (0, 8, 8);
        before = messages(&list, "broker-b");
        (whole && messages(&list, "broker-a") >= Some(10) && before >= Some(10), list + &errors)
    });
    let audited = audit(dir.path());
    let (_, ready) = get(&servers[0], "/readyz");
    settings_are_shown(&engines, &audited, &ready);

    // What is accepted now waits at both brokers, and one of them dies with it.
    engines.freeze("mariadb");
    let mut stored = Stored::new(&name_server);
    let known = stored.at_broker_b();
    until("more orders are at the broker that dies than the servers may have read already", || {
        place(&mut orders, 10);
        let more = stored.at_broker_b() - known;
        (more > READ_AHEAD_MAX, format!("{more} more"))
    });
    engines.kill("rocketmq-broker-b");
    engines.thaw("mariadb");
    place(&mut orders, 20);
    until("it is reported", || {
        let (status, body) = get(&servers[0], "/readyz");
        let silent = "the broker broker-b, whose queues may hold orders, does not answer";
        (status == 200 && body.contains(silent), body)
    });
    the_dead_are_listed(dir.path());
    retires_nothing(dir.path());
    stays_ready_until_rolled_forward(&servers);
    // The gates have the orders whose messages are away.
    for (member, order) in &orders {
        assert_eq!(read(&servers[0], *member, order)["status"], "held");
    }

    // Its messages come after their orders, and change nothing.
    engines.up(&["rocketmq-broker-b"]);
    until("it is read on", || {
        let (_, list, _) = queues(dir.path(), &["list"]);
        let read = of(&list, "broker-b");
        let read_on = read.len() == 8 && read.iter().all(|line| line.contains("in the topic"));
        assert!(!read_on || messages(&list, "broker-b") > before, "some waited there: {list}");
        (read_on, list)
    });
    let audited = audit(dir.path());
    assert!(audited.contains(&all(&orders)), "{audited}");
    place(&mut orders, 10);
    let audited = audit(dir.path());
    assert!(audited.contains(&all(&orders)) && audited.contains("ok: every invariant holds"), "{audited}");

    // A master whose slave is away stores what it is sent, and does not say so.
    engines.kill("rocketmq-broker-b-slave");
    place(&mut orders, 4);
    let audited = audit(dir.path());
    assert!(audited.contains(&all(&orders)), "{audited}");
}
