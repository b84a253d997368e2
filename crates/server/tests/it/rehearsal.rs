//! What rehearsals make on real engines, and that nothing of it is left, whenever one was killed.

use std::collections::BTreeSet;

use mysql::prelude::Queryable;
use server::Secrets;
use server::cluster::queue_options;
use server::cluster::rehearsal::{Names, Site, SiteError};
use server::config::{Config, Environment, Sources};
use server::queue::{Admin, Consumer, Producer, Topics};

use crate::engines::Engines;
use crate::gate::servers::{Redis, until};
use crate::places::Database;
use crate::sent::send;

struct Installation {
    config: Config,
    redis: Redis,
    database: Database,
}

/// With something of its own on each engine, under names that begin as those of its rehearsals do.
fn installation() -> Installation {
    let engines = Engines::shared(&["rocketmq", "mariadb"]);
    let (redis, database) = (Redis::start(&["--maxmemory", "64mb"]), Database::shared());
    let config = config(&redis, &database, &[]);
    for key in own_keys(&config.gate.prefix) {
        redis.command::<()>(&["SET", &key, "ours"]);
    }
    database.connection().query_drop("CREATE TABLE ours (id INT)").unwrap();
    admin(&config).create_topics(&[&config.queue.topic]).unwrap();
    send(&mut producer(&config), &config.queue.topic, &[b"ours"]);
    assert!(engines.member("rocketmq-broker").runs());
    Installation { config, redis, database }
}

fn config(redis: &Redis, database: &Database, more: &[(&str, &str)]) -> Config {
    let engines = Engines::shared(&["rocketmq", "mariadb"]);
    let (name, own) = (&database.options.database, redis.address());
    let (mariadb, name_server) = (engines.address("mariadb"), engines.address("rocketmq-namesrv"));
    let pairs = [
        ("DOORBUSTER_CLUSTER_ENABLED", "true"),
        ("DOORBUSTER_LEDGER_MYSQL_ADDRESS", &*mariadb),
        ("DOORBUSTER_LEDGER_MYSQL_USER", "root"),
        ("DOORBUSTER_LEDGER_MYSQL_DATABASE", name),
        ("DOORBUSTER_GATE_ADDRESSES", &own),
        ("DOORBUSTER_GATE_PREFIX", name),
        ("DOORBUSTER_QUEUE_NAME_SERVERS", &name_server),
        ("DOORBUSTER_QUEUE_TOPIC", name),
        ("DOORBUSTER_QUEUE_BROKER_DISK_PERCENT_MAX", "100"),
    ];
    let environment = Environment::from_pairs(pairs.into_iter().chain(more.iter().copied()));
    Sources::default().environment(&environment).load().unwrap()
}

/// A site is had again a moment after the one before has gone: its lock goes with its connection.
fn site(config: &Config) -> Site {
    let mut opened = None;
    until("the lock is free", || {
        opened = match Site::open(config, &Secrets::default()) {
            Err(SiteError::UnderWay) => None,
            site => Some(site.unwrap()),
        };
        opened.is_some()
    });
    opened.unwrap()
}

fn admin(config: &Config) -> Admin {
    Admin::new(queue_options(config, &Secrets::default()).unwrap())
}

fn producer(config: &Config) -> Producer {
    Producer::new(queue_options(config, &Secrets::default()).unwrap())
}

fn topics(names: &Names) -> [String; 3] {
    let Topics { orders, messages, dead_letters } = Topics::new(names.topic());
    [orders, messages, dead_letters]
}

fn own_keys(prefix: &str) -> [String; 2] {
    [format!("{{{prefix}:00000001}}:s"), format!("{prefix}:figures")]
}

fn keys(redis: &Redis) -> BTreeSet<String> {
    redis.command(&["KEYS", "*"])
}

impl Installation {
    /// All that there is of a rehearsal.
    fn make(&self, site: &mut Site) -> Names {
        let names = site.choose().unwrap();
        site.make(&names).unwrap();
        let table = format!("CREATE TABLE {}.theirs (id INT)", names.database());
        self.database.connection().query_drop(table).unwrap();
        send(&mut producer(&self.config), names.topic(), &[b"theirs"]);
        for key in own_keys(names.prefix()) {
            self.redis.command::<()>(&["SET", &key, "theirs"]);
        }
        names
    }

    fn has_topic(&self, topic: &str) -> bool {
        let options = queue_options(&self.config, &Secrets::default()).unwrap();
        Consumer::new(options, topic).queues().is_ok()
    }

    fn has_database(&self, name: &str) -> bool {
        let found = "SELECT COUNT(*) FROM information_schema.schemata WHERE schema_name = ?";
        self.database.connection().exec_first(found, (name,)).unwrap() == Some(1)
    }

    fn check_nothing_is_left_of(&self, names: &Names) {
        assert!(!self.has_database(names.database()));
        assert!(topics(names).iter().all(|topic| !self.has_topic(topic)));
        assert_eq!(keys(&self.redis), BTreeSet::from(own_keys(&self.config.gate.prefix)));
        let tables: Vec<String> = self.database.connection().query("SHOW TABLES").unwrap();
        assert_eq!(tables, ["ours"]);
        let options = queue_options(&self.config, &Secrets::default()).unwrap();
        let mut consumer = Consumer::new(options, &self.config.queue.topic);
        let ends = consumer.queues().unwrap().into_iter().map(|queue| consumer.max_offset(&queue).unwrap());
        assert_eq!(ends.sum::<u64>(), 1);
    }
}

#[test]
fn nothing_is_left_of_a_rehearsal_whenever_it_was_killed() {
    let installation = installation();
    let config = &installation.config;
    // While it was made: the database alone, or with topics. While it was played: all. While it was removed: without topics, or
    // without keys, too.
    for killed in ["making", "made", "playing", "topics are gone", "keys are gone"] {
        let mut site_of_killed = site(config);
        let names = installation.make(&mut site_of_killed);
        assert!(topics(&names).iter().all(|topic| installation.has_topic(topic)), "{names:?}");
        let of_topics = topics(&names);
        let of_topics = of_topics.each_ref().map(String::as_str);
        if !["made", "playing"].contains(&killed) {
            admin(config).delete_topics(&of_topics).unwrap();
        }
        if !["playing", "topics are gone"].contains(&killed) {
            own_keys(names.prefix()).iter().for_each(|key| installation.redis.command::<()>(&["DEL", key]));
        }
        drop(site_of_killed);
        let mut site = site(config);
        assert_eq!(site.left().unwrap(), (vec![names.clone()], vec![]), "{killed}");
        site.remove(&names).unwrap();
        assert_eq!(site.left().unwrap(), (vec![], vec![]), "{killed}");
        installation.check_nothing_is_left_of(&names);
    }
}

#[test]
fn one_rehearsal_at_a_time_and_those_with_other_names_are_only_reported() {
    let installation = installation();
    let (config, database) = (&installation.config, &installation.database);
    let mut first = site(config);
    assert!(matches!(Site::open(config, &Secrets::default()), Err(SiteError::UnderWay)));
    let names = installation.make(&mut first);
    drop(first);
    let renamed = self::config(&installation.redis, database, &[("DOORBUSTER_GATE_PREFIX", "other")]);
    let mut second = site(&renamed);
    assert_eq!(second.left().unwrap(), (vec![], vec![names.database().to_owned()]));
    assert_ne!(second.choose().unwrap(), second.choose().unwrap());
    drop(second);
    // A database that only looks like one.
    let stem = names.database().rsplit_once('_').unwrap().0;
    database.connection().query_drop(format!("CREATE DATABASE {stem}_dinner")).unwrap();
    let mut third = site(config);
    assert_eq!(third.left().unwrap(), (vec![names.clone()], vec![]));
    third.remove(&names).unwrap();
    installation.check_nothing_is_left_of(&names);
    assert!(installation.has_database(&format!("{stem}_dinner")));
    database.connection().query_drop(format!("DROP DATABASE {stem}_dinner")).unwrap();
}

#[test]
fn whoever_may_not_make_and_remove_hears_what_to_grant_and_nothing_is_made() {
    let installation = installation();
    let database = &installation.database;
    let own = &database.options.database;
    let user = format!("u_{own}");
    let mut root = database.connection();
    root.query_drop(format!("CREATE USER '{user}'@'%'")).unwrap();
    root.query_drop(format!("GRANT ALL PRIVILEGES ON {own}.* TO '{user}'@'%'")).unwrap();
    let as_user = |more: &[(&str, &str)]| {
        let more = [&[("DOORBUSTER_LEDGER_MYSQL_USER", &*user)], more].concat();
        config(&installation.redis, database, &more)
    };
    let refused = |config: &Config| {
        let mut site = site(config);
        let names = site.choose().unwrap();
        let error = site.make(&names).unwrap_err().to_string();
        installation.check_nothing_is_left_of(&names);
        error
    };
    let error = refused(&as_user(&[]));
    let (_, grant) = error.split_once("administrator of that server: ").unwrap_or_else(|| panic!("{error}"));
    assert!(grant.ends_with(&format!(".* TO '{user}'@'%'")), "{grant}");
    root.query_drop(grant).unwrap();

    // Who may not remove does not make: this one may touch no key of another prefix.
    let rights =
        ["ACL", "SETUSER", "shop", "on", ">hush", "+@all", &format!("~{{{own}:*"), &format!("~{own}:*")];
    installation.redis.command::<()>(&rights);
    let limited = as_user(&[("DOORBUSTER_GATE_USER", "shop")]);
    let secrets = Secrets { gate: Some(b"hush"[..].into()), ..Secrets::default() };
    let mut site_of_limited = Site::open(&limited, &secrets).unwrap();
    let names = site_of_limited.choose().unwrap();
    let error = site_of_limited.make(&names).unwrap_err().to_string();
    assert!(error.starts_with("the gate (Redis): ") && error.contains("gate.user"), "{error}");
    installation.check_nothing_is_left_of(&names);
    drop(site_of_limited);

    let mut site = site(&as_user(&[]));
    let names = site.choose().unwrap();
    site.make(&names).unwrap();
    site.remove(&names).unwrap();
    installation.check_nothing_is_left_of(&names);
    root.query_drop(format!("DROP USER '{user}'@'%'")).unwrap();
}

#[test]
fn room_is_looked_for_before() {
    let installation = installation();
    let site_at = |more: &[(&str, &str)]| site(&config(&installation.redis, &installation.database, more));
    let roomy = site_at(&[]);
    roomy.check_room(1_000).unwrap();
    // Of 64 MiB.
    let error = roomy.check_room(100_000).unwrap_err();
    assert!(error.is_refusal(), "{error}");
    assert!(
        error.to_string().contains("of 64 MiB, and 100000 orders need 98 MiB within 90% of it"),
        "{error}"
    );
    drop(roomy);
    let error = site_at(&[("DOORBUSTER_QUEUE_BROKER_DISK_PERCENT_MAX", "1")]).check_room(1).unwrap_err();
    assert!(error.is_refusal() && error.to_string().contains("(queue.broker_disk_percent_max)"), "{error}");
    let long = "a".repeat(50);
    let named = site_at(&[("DOORBUSTER_QUEUE_TOPIC", &long)]).choose().unwrap_err().to_string();
    assert!(named.contains(&long), "{named}");
}
