//! Dead letters on a real broker: made by the library, as a consumer makes them, and worked with by the program.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use engine::{Operated, UnixMs};
use server::Secrets;
use server::config::Sources;
use server::ledger::{OperatorLogAsked, Source};
use server::queue::dead_letters::{BODY_BYTES_MAX, DeadLetter, Record};
use server::queue::{Admin, Consumer, Options, Producer, Queue, Security, Topics};

use crate::cluster::sql;
use crate::engines::Engines;
use crate::run;
use crate::sent::send;

struct Shop {
    directory: tempfile::TempDir,
    options: Options,
    topics: Topics,
    mariadb: String,
    database: String,
}

impl Shop {
    fn new(name: &str) -> Shop {
        let name_server = Engines::shared(&["rocketmq"]).address("rocketmq-namesrv");
        let directory = tempfile::tempdir().unwrap();
        let mariadb = Engines::shared(&["mariadb"]).address("mariadb");
        let database = format!("letters_{name}");
        sql(&mariadb, &format!("CREATE DATABASE {database}"));
        let config = format!(
            "[queue]\nname_servers = [\"{name_server}\"]\ntopic = \"{name}\"\ntimeout_ms = 5000\n\
             [ledger]\nmysql_address = \"{mariadb}\"\nmysql_user = \"root\"\nmysql_database = \"{database}\"\n"
        );
        std::fs::write(directory.path().join("c.toml"), config).unwrap();
        let send_timeout = Duration::from_secs(5);
        let options = Options {
            name_servers: vec![name_server],
            group: "test".into(),
            send_timeout,
            security: Security::default(),
        };
        let topics = Topics::new(name);
        let deadline = Instant::now() + Duration::from_secs(20);
        // A broker that has just started may take longer than it is given.
        while let Err(error) =
            Admin::new(options.clone()).create_topics(&[&topics.orders, &topics.dead_letters])
        {
            assert!(Instant::now() < deadline, "{error}");
        }
        Shop { directory, options, topics, mariadb, database }
    }

    /// A letter about the message at this offset of queue 3.
    fn put_aside(&self, offset: u64, at_ms: u64, message: &[u8]) {
        let queue = Queue { broker: "broker-a".into(), number: 3 };
        let reason = format!("reason {offset}");
        let record = Record::Letter(DeadLetter::new(queue, offset, reason, UnixMs(at_ms), message)).encode();
        send(&mut Producer::new(self.options.clone()), &self.topics.dead_letters, &[record]);
    }

    #[track_caller]
    fn doorbuster(&self, arguments: &[&str]) -> (i32, String, String) {
        let path: &Path = self.directory.path();
        let (command, rest) = arguments.split_first().unwrap();
        run(path, &[&["dead-letters", *command, "--config", "c.toml"], rest].concat())
    }

    /// What the operators' log has, the latest first.
    fn log(&self) -> Vec<String> {
        let config = Sources::default().file(&self.directory.path().join("c.toml")).load().unwrap();
        let source = Source::MySql(Box::new(config.ledger.mysql_options(&Secrets::default())));
        let asked = OperatorLogAsked { before: u64::MAX, sale: None, max: 9 };
        let actions = source.operator_log(&asked).unwrap().actions.into_iter();
        let line = |Operated { by, what, about, .. }| format!("{} {what} {about}: {}", by.who, by.why);
        actions.map(|action| line(action.operated)).collect()
    }

    /// How often each message came to the topic of orders.
    fn orders(&self, count: usize) -> BTreeMap<Vec<u8>, usize> {
        let mut consumer = Consumer::new(self.options.clone(), &self.topics.orders);
        let mut wants: Vec<_> = consumer.queues().unwrap().into_iter().map(|queue| (queue, 0)).collect();
        let mut orders: BTreeMap<Vec<u8>, usize> = BTreeMap::new();
        let deadline = Instant::now() + Duration::from_secs(20);
        while orders.values().sum::<usize>() < count {
            assert!(Instant::now() < deadline, "{orders:?}");
            for pulled in consumer.pull(&wants, 100, Duration::from_secs(1)).unwrap() {
                wants.iter_mut().find(|(queue, _)| *queue == pulled.queue).unwrap().1 = pulled.next_offset;
                for (_, body) in pulled.messages {
                    *orders.entry(body.into()).or_default() += 1;
                }
            }
        }
        orders
    }
}

#[test]
fn dead_letters_are_listed_and_replayed_once() {
    let shop = Shop::new("replay");
    assert_eq!(shop.doorbuster(&["list"]), (0, "no dead letters\n".into(), String::new()));
    shop.put_aside(17, 1_795_000_000_000, b"\0binary\xff");
    shop.put_aside(5, 1_795_000_060_000, b"later");
    shop.put_aside(17, 1_795_000_120_000, b"\0binary\xff");
    let (code, out, err) = shop.doorbuster(&["list"]);
    let table = "\
letter         time                  bytes  replayed  reason
broker-a/3/17  2026-11-18T11:06:40Z      8  no        reason 17
broker-a/3/5   2026-11-18T11:07:40Z      5  no        reason 5
";
    assert_eq!((code, out.as_str(), err.as_str()), (0, table, ""));

    let (code, out, err) = shop.doorbuster(&["replay", "broker-a/3/17", "broker-a/3/99"]);
    assert_eq!((code, out.as_str()), (1, ""), "{err}");
    assert!(err.contains("no dead letter is called broker-a/3/99"), "{err}");

    assert_eq!(shop.doorbuster(&["replay", "broker-a/3/17"]), (0, "1 replayed\n".into(), String::new()));
    let (_, out, _) = shop.doorbuster(&["list"]);
    assert!(out.contains("8  yes       reason 17") && out.contains("5  no        reason 5"), "{out}");
    let anna = ["replay", "--all", "--who", "anna", "--why", "it can be read now"];
    assert_eq!(shop.doorbuster(&anna), (0, "1 replayed\n".into(), String::new()));
    assert_eq!(shop.doorbuster(&["replay", "--all"]), (0, "0 replayed\n".into(), String::new()));
    assert_eq!(shop.doorbuster(&["replay", "broker-a/3/5"]), (0, "1 replayed\n".into(), String::new()));
    let expected = BTreeMap::from([(b"\0binary\xff".to_vec(), 1), (b"later".to_vec(), 2)]);
    assert_eq!(shop.orders(3), expected);
    let log = [
        "root dead_letters_replayed broker-a/3/5: ",
        "anna dead_letters_replayed broker-a/3/5: it can be read now",
        "root dead_letters_replayed broker-a/3/17: ",
    ];
    assert_eq!(shop.log(), log, "what came to nothing left none");

    let (code, _, err) = shop.doorbuster(&["replay", "--all", "--who", "Anna B"]);
    assert_eq!(code, 64, "{err}");
    sql(&shop.mariadb, &format!("DROP DATABASE {}", shop.database));
    let (code, _, err) = shop.doorbuster(&["replay", "broker-a/3/5"]);
    assert_eq!(code, 69, "{err}");
    assert!(err.contains("nothing was replayed, for the ledger can't keep who did it"), "{err}");
}

#[test]
fn what_cannot_be_replayed_or_read_is_reported() {
    let shop = Shop::new("unreadable");
    shop.put_aside(1, 1_795_000_000_000, &vec![7; BODY_BYTES_MAX + 1]);
    send(&mut Producer::new(shop.options.clone()), &shop.topics.dead_letters, &[b"not a record"]);
    let (code, out, err) = shop.doorbuster(&["list"]);
    assert_eq!(code, 1, "{err}");
    assert!(out.contains("524289  no"), "{out}");
    assert!(err.contains("1 record(s)") && err.contains("not JSON"), "{err}");
    let (code, _, err) = shop.doorbuster(&["replay", "--all"]);
    assert_eq!(code, 1, "{err}");
    assert!(err.contains("broker-a/3/1 can't be replayed") && err.contains("too long"), "{err}");
}

#[test]
fn without_brokers_the_command_says_so() {
    let directory = tempfile::tempdir().unwrap();
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let config = format!("[queue]\nname_servers = [\"{nobody}\"]\n");
    std::fs::write(directory.path().join("c.toml"), config).unwrap();
    let (code, out, err) = run(directory.path(), &["dead-letters", "list", "--config", "c.toml"]);
    assert_eq!((code, out.as_str()), (69, ""));
    assert!(err.contains("no name server answers"), "{err}");
    let (code, _, err) = run(directory.path(), &["dead-letters", "replay", "--config", "c.toml"]);
    assert_eq!(code, 64, "{err}");
}
