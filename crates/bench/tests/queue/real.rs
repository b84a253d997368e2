//! One real broker and one real MariaDB for all of it: starting them takes longer than what is done with them.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::AtomicBool;

use bench::drivers::mysql::{MySql, Statement, Workload};
use bench::drivers::rocketmq::{Bodies, Consumer, Producer, Pulling, Sending, Topic};
use bench::load::record::{Outcome, Outcomes, Record};
use bench::load::schedule::Schedule;
use bench::load::{Generator, Protocol, Settings, run_clients};
use bench::target::engines::mariadb;
use bench::target::engines::{EngineSet, EngineSite, Flushes, find_scripts};
use bench::tools::{self, ConsumerOptions, ProducerOptions};

use crate::ports::free_ports;

static GO_ON: AtomicBool = AtomicBool::new(false);

#[test]
fn the_drivers_on_real_servers() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let scripts = find_scripts(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../dev"))).expect("dev/up");
    let (port_base, _ports) = free_ports();
    let site = EngineSite { scripts, folder: folder.path().join("set"), port_base };
    let members = ["rocketmq", "mariadb"];
    let set = EngineSet::start_some(site, Flushes::QUICK, &members, &[], &GO_ON).expect("engines");
    let name_server = set.address("rocketmq-namesrv").expect("a name server");
    messages_are_sent_and_consumed(name_server);
    refusals_of_a_broker_are_reported(name_server);
    the_tools_run(name_server);
    let mariadb = set.address("mariadb").expect("a database");
    statements_are_judged(mariadb, &set);
    logins_are_refused(mariadb);
}

fn run<P: Protocol>(settings: Settings, protocol: &mut P, requests: u64) -> Record {
    let mut generator = Generator::connect(settings, protocol).expect("it listens");
    generator.run(Schedule::closed_requests(requests), protocol, &GO_ON).expect("nobody stops it")
}

fn sending(topic: &Topic, run: u64, batch: u32) -> Sending {
    Sending { keys: batch == 1, batch, ..Sending::plain(topic.clone(), 8, Bodies::new(run, 100)) }
}

fn consumer(topic: &Topic, offsets: Vec<u64>, bodies: u64) -> Consumer {
    Consumer::new(Pulling {
        topic: topic.clone(),
        group: "test".to_owned(),
        offsets,
        messages_max: 32,
        hold_ms: 0,
        bodies: Some(Bodies::new(bodies, 100)),
    })
}

/// Pulls until so many messages came, and once more for those that should not; how many pulls' messages were served
/// and refused. Which queue is asked how often depends on who answers first.
fn consume(consumer: &mut Consumer, messages: u64) -> Outcomes {
    let mut outcomes = Outcomes::default();
    for _ in 0..100 {
        let enough = consumer.consumed.messages >= messages;
        let record = run(consumer.settings(), consumer, 8);
        outcomes.served += record.outcomes.served;
        outcomes.failed += record.outcomes.failed;
        if enough {
            break;
        }
    }
    outcomes
}

/// How many were queued; the others were refused by a busy broker, and most of them were not.
fn all_queued_but_busy(record: &Record, messages: u64) -> u64 {
    let Outcomes { queued, busy, .. } = record.outcomes;
    let wanted = Outcomes { queued: messages - busy, busy, ..Outcomes::default() };
    assert_eq!(record.outcomes, wanted, "{:?}", record.first_surprise);
    assert!(queued > messages / 2, "{:?}", record.outcomes);
    queued
}

fn messages_are_sent_and_consumed(name_server: SocketAddr) {
    assert_eq!(Topic::look_up(name_server, "bench_absent").expect("an answer"), None);
    let topic = Topic::create(name_server, "bench_test", 4).expect("a topic");
    assert_eq!((topic.queues(), topic.brokers.len()), (4, 1));
    assert_eq!(Topic::look_up(name_server, "bench_test").expect("an answer"), Some(topic.clone()));

    // Each takes its turn of the queues; a cold broker on a busy machine may refuse some.
    let mut single = Producer::new(sending(&topic, 1, 1)).remembering();
    let queued = all_queued_but_busy(&run(sending(&topic, 1, 1).settings(), &mut single, 400), 400);
    let ends = topic.ends().expect("ends");
    assert!(ends.iter().sum::<u64>() == queued && ends.iter().all(|end| *end <= 100), "{ends:?}");

    let mut got = consumer(&topic, vec![0; 4], 1);
    let pulled = consume(&mut got, queued);
    let consumed = &got.consumed;
    assert_eq!((consumed.messages, pulled), (queued, Outcomes { served: queued, ..Outcomes::default() }));
    assert_eq!((consumed.lost, consumed.duplicates, consumed.damaged), (0, 0, 0));
    assert_eq!(got.offsets(), ends);
    let sent = single.acknowledged().expect("it remembers");
    assert_eq!((sent.count(), sent.missing_in(&consumed.numbers)), (queued, 0));
    assert!(consumed.born_to_consumed().max_us < 60_000_000, "both clocks are this machine's");

    // From the middle of a queue; and the messages of another run are none of ours.
    let from = |back: u64| vec![ends[0] - back, ends[1], ends[2], ends[3]];
    let mut again = consumer(&topic, from(50), 1);
    consume(&mut again, 50);
    assert_eq!((again.consumed.messages, again.consumed.duplicates), (50, 0));
    let mut other = consumer(&topic, from(10), 2);
    let pulled = consume(&mut other, 10);
    assert_eq!((other.consumed.damaged, pulled.failed), (10, 10));

    let mut batches = Producer::new(sending(&topic, 3, 7)).remembering();
    let queued = all_queued_but_busy(&run(sending(&topic, 3, 7).settings(), &mut batches, 20), 140);
    let mut got = consumer(&topic, ends.clone(), 3);
    assert_eq!(topic.messages().expect("ends"), ends.iter().sum::<u64>() + queued);
    consume(&mut got, queued);
    let sent = batches.acknowledged().expect("it remembers");
    assert_eq!((got.consumed.messages, sent.missing_in(&got.consumed.numbers)), (queued, 0));

    let before = topic.messages().expect("ends");
    let piped = Sending { pipeline: 16, ..sending(&topic, 4, 1) };
    let mut pipelines = Producer::new(piped.clone()).remembering();
    let queued = all_queued_but_busy(&run(piped.settings(), &mut pipelines, 10), 160);
    assert_eq!(pipelines.acknowledged().expect("it remembers").count(), queued);
    assert_eq!(topic.messages().expect("ends"), before + queued);

    let wider = Topic::create(name_server, "bench_test", 6).expect("more queues");
    assert_eq!(wider.queues(), 6);
    wider.delete(name_server).expect("it goes");
    assert_eq!(Topic::look_up(name_server, "bench_test").expect("an answer"), None);
}

fn refusals_of_a_broker_are_reported(name_server: SocketAddr) {
    let topic = Topic::create(name_server, "bench_refused", 1).expect("a topic");
    let mut beyond = topic.clone();
    beyond.brokers[0].queues = 9;
    let mut producer = Producer::new(sending(&beyond, 1, 1));
    // One of each nine messages goes to a queue that is there.
    let record = run(sending(&beyond, 1, 1).settings(), &mut producer, 18);
    let Outcomes { queued, failed, busy, .. } = record.outcomes;
    assert!(queued <= 2 && failed > 0 && queued + failed + busy == 18, "{:?}", record.outcomes);
    assert!(record.first_surprise.is_some_and(|text| text.starts_with("code ")));

    let large = Sending { bodies: Bodies::new(1, 5 << 20), ..sending(&topic, 1, 1) };
    let record = run(large.settings(), &mut Producer::new(large), 2);
    let Outcomes { failed, busy, .. } = record.outcomes;
    assert_eq!(failed + busy, 2, "{:?} {:?}", record.outcomes, record.first_surprise);
    assert_eq!(topic.messages().expect("ends"), queued);

    let mut ahead = consumer(&topic, vec![1_000_000], 1);
    let record = run(ahead.settings(), &mut ahead, 1);
    assert_eq!((ahead.consumed.messages, record.outcomes.failed), (0, 1), "{:?}", record.first_surprise);
}

fn the_tools_run(name_server: SocketAddr) {
    let options = ProducerOptions {
        namesrv: name_server,
        topic: "bench_tools".to_owned(),
        threads: 4,
        message_bytes: 128,
        keys: true,
        queues: Some(3),
        batch: 1,
        seconds: Some(1),
    };
    let mut lines = Vec::new();
    let report = tools::producer(&options, &GO_ON, |line| lines.push(line)).expect("a report");
    assert_eq!((report.queues, lines.len()), (3, 1));
    let queued = report.queued;
    assert!(queued > 0 && lines[0].starts_with("Send TPS: "), "{lines:?}");
    let options = ConsumerOptions {
        namesrv: name_server,
        topic: "bench_tools".to_owned(),
        group: "bench_tools".to_owned(),
        from_start: true,
        seconds: Some(2),
    };
    let report = tools::consumer(&options, &GO_ON, |_| {}).expect("a report");
    // Whether two seconds were enough depends on the machine; nothing may be lost in any case.
    assert!((1..=queued).contains(&report.messages) && report.lost == 0 && report.failed == 0, "{report:?}");
    let absent = ConsumerOptions { topic: "bench_absent".to_owned(), ..options };
    assert!(tools::consumer(&absent, &GO_ON, |_| {}).is_err());
}

/// Statements, and what their results are to be.
#[derive(Debug)]
struct Script {
    statements: Vec<&'static str>,
    next: usize,
    results: Vec<Vec<Statement>>,
}

impl Workload for Script {
    fn statements(&mut self) -> String {
        self.next += 1;
        self.statements[self.next - 1].to_owned()
    }

    fn judge(&mut self, results: &[Statement]) -> Outcome {
        self.results.push(results.to_vec());
        Outcome::Won
    }

    fn refused(&mut self, code: u16) -> Outcome {
        if code == 1062 { Outcome::OverLimit } else { Outcome::Failed }
    }
}

fn log_in(mariadb: SocketAddr, user: &str, database: &str, script: Script) -> mysql::Result<MySql<Script>> {
    let options = mariadb::options(&format!("mysql://{user}@{mariadb}/{database}")).expect("a URL");
    MySql::connect(options.into(), script)
}

fn statements_are_judged(mariadb: SocketAddr, set: &EngineSet) {
    let mut root = set.database(None).expect("a connection");
    root.recreate("bench_driver").expect("a database");
    root.execute(
        "CREATE TABLE bench_driver.t(id INT PRIMARY KEY) ENGINE=InnoDB;
         CREATE USER ada@'%' IDENTIFIED VIA mysql_native_password USING PASSWORD('se cret');
         GRANT ALL ON bench_driver.* TO ada@'%'",
    )
    .expect("a table and a user");
    // A row that another transaction holds.
    root.execute("INSERT INTO bench_driver.t VALUES (1), (100);START TRANSACTION").expect("rows");
    root.execute("UPDATE bench_driver.t SET id = 101 WHERE id = 100").expect("a lock");
    let statements = vec![
        "INSERT INTO t VALUES (2), (3)",
        "SELECT seq, REPEAT('x', 100) FROM seq_1_to_3000",
        "SELECT 1 FROM t WHERE id = 77; DELETE FROM t WHERE id = 3; SELECT 5",
        "INSERT INTO t VALUES (1)",
        // Broken off in the middle: nothing of it may stay.
        "START TRANSACTION; INSERT INTO t VALUES (50); INSERT INTO t VALUES (1); COMMIT",
        "INSERT INTO t VALUES (51)",
        "SET SESSION innodb_lock_wait_timeout = 1; DELETE FROM t WHERE id = 100",
        "SELECT nonsense",
        "KILL CONNECTION_ID()",
        "START TRANSACTION; INSERT INTO t VALUES (52); COMMIT",
    ];
    let count = u64::try_from(statements.len()).expect("a few");
    let script = Script { statements, next: 0, results: Vec::new() };
    let mut client = [log_in(mariadb, "ada:se%20cret", "bench_driver", script).expect("it lets in")];
    let record = run_clients(&mut client, Schedule::closed_requests(count), &GO_ON, &mut |_| {});
    let record = record.expect("nobody stops it");
    let wanted = Outcomes { won: 5, over_limit: 2, busy: 1, failed: 1, unknown: 1, ..Outcomes::default() };
    assert_eq!(record.outcomes, wanted, "{:?}", record.first_surprise);
    let result = |affected, rows| Statement { affected, rows };
    assert_eq!(
        client[0].workload.results,
        [
            vec![result(2, 0)],
            vec![result(0, 3000)],
            vec![result(0, 0), result(1, 0), result(0, 1)],
            vec![result(1, 0)],
            vec![result(0, 0), result(1, 0), result(0, 0)],
        ]
    );
    // Each error cost its connection.
    assert_eq!(record.reconnects, 5);
    root.execute("ROLLBACK").expect("the lock goes");
    assert_eq!(
        root.number("SELECT SUM(id) FROM bench_driver.t").expect("a sum"),
        Some(1 + 2 + 51 + 52 + 100)
    );
}

fn logins_are_refused(mariadb: SocketAddr) {
    for (user, database) in
        [("ada:wrong", "bench_driver"), ("ada", ""), ("nobody:se%20cret", ""), ("ada:se%20cret", "absent")]
    {
        let script = Script { statements: Vec::new(), next: 0, results: Vec::new() };
        let error = log_in(mariadb, user, database, script).expect_err("refused");
        assert!(matches!(error, mysql::Error::MySqlError(_)), "{user}: {error}");
    }
}
