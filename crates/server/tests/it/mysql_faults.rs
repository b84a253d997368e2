//! The book writer on a MySQL server that is killed, frozen, and refuses to write.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use ::mysql::prelude::Queryable;
use engine::{Command, OrderId, SkuId};
use server::intake::{Reply, Request};
use server::ledger::AppendError;
use server::ledger::mysql::{MySqlLedger, Options, Tls};

use crate::engines::Engines;

use crate::embedded::{Harness, NO_LIMITS, accepted, open_sale, order, read, wait_until};
use crate::mysql_book::LIMITS;
use crate::places::{Database, LedgerHome};

fn options(database: &Database) -> Options {
    Options { limits: LIMITS, ..database.options.clone() }
}

fn writer(options: Options) -> Harness {
    Harness::over(MySqlLedger::open(options).unwrap().into(), NO_LIMITS)
}

/// With a sale that is open, and one order.
fn selling(options: Options) -> Harness {
    let mut harness = writer(options);
    harness.one(open_sale(600_000));
    accepted(&harness.one(order(1, 1, 1)));
    harness
}

/// More than the sale has: orders must not run out in a test.
fn plenty() -> Request {
    Request::Execute(Command::Adjust {
        sku: SkuId(0),
        how: engine::Adjust::Restock,
        units: 1_000_000,
        key: "plenty".into(),
    })
}

/// Asks with the same key until the outcome is known, and returns how long that took.
fn settle(harness: &mut Harness, hash: u128) -> Duration {
    let started = Instant::now();
    loop {
        match harness.one(order(hash, hash as u64, 1)) {
            Reply::Unknown | Reply::Unavailable => {
                assert!(started.elapsed() < Duration::from_secs(30), "service does not come back");
                std::thread::sleep(Duration::from_millis(20));
            }
            reply => {
                accepted(&reply);
                return started.elapsed();
            }
        }
    }
}

/// Every order that somebody was answered is accepted.
fn all_there(database: Database, accepted: &[u128]) {
    let home = LedgerHome::MySql(database.into());
    let book = home.load().unwrap();
    for hash in accepted {
        let id = OrderId { sku: SkuId(0), hash: *hash };
        assert!(book.order(id).is_some(), "order {hash} was accepted and is lost");
    }
    let audit = home.source().audit().unwrap();
    assert_eq!(audit.broken, Vec::<String>::new());
    assert!(audit.complete);
}

/// Set beyond every count at its end, a panic's included: whoever waits for a count must not wait for ever.
struct SetAtEnd<'a>(&'a AtomicU64);

impl Drop for SetAtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(u64::MAX / 2, Ordering::Relaxed);
    }
}

#[test]
fn what_was_accepted_survives_a_killed_server_and_service_goes_on() {
    let engines = Engines::private(&["mariadb"], &[]);
    let database = Database::on(&engines);
    let mut harness = selling(options(&database));
    harness.one(plenty());
    let (mut known, mut cut) = (Vec::new(), 0);
    for round in 0..3_u128 {
        let answered = AtomicU64::new(0);
        std::thread::scope(|scope| {
            // In the middle of the load: after some batches of this round, or when it is over for any other reason.
            let _over = SetAtEnd(&answered);
            scope.spawn(|| {
                while answered.load(Ordering::Relaxed) < 20 {
                    std::thread::sleep(Duration::from_millis(1));
                }
                engines.kill("mariadb");
            });
            for batch in 0..5_000_u128 {
                let hashes: Vec<u128> = (0..50).map(|n| round * 1_000_000 + batch * 50 + n).collect();
                let replies = harness.ask(hashes.iter().map(|hash| order(*hash, *hash as u64, 1)).collect());
                answered.fetch_add(1, Ordering::Relaxed);
                let is_cut = |reply: &&Reply| matches!(reply, Reply::Unknown | Reply::Unavailable);
                let lost = replies.iter().filter(is_cut).count();
                if lost > 0 {
                    // Unavailable if the kill came between two batches, and the writer's own look was first to see it.
                    assert_eq!(lost, 50, "a batch has one outcome");
                    known.push(hashes[0]);
                    cut += 1;
                    return;
                }
                for reply in &replies {
                    accepted(reply);
                }
                known.extend(hashes);
            }
        });
        engines.up(&["mariadb"]);
        // The first of the lost batch: found, or placed now.
        settle(&mut harness, *known.last().unwrap());
    }
    assert_eq!(cut, 3, "each kill was noticed");
    harness.finish().unwrap();
    all_there(database, &known);
}

#[test]
fn a_server_that_goes_away_while_nothing_is_asked_leaves_reads_and_known_keys() {
    let engines = Engines::private(&["mariadb"], &[]);
    let database = Database::on(&engines);
    let mut harness = selling(options(&database));
    engines.kill("mariadb");
    wait_until(|| harness.client.read_only());
    let replies = harness.ask(vec![read(1), order(1, 1, 1), order(2, 2, 1), read(2)]);
    assert!(matches!(replies[0], Reply::Order(found) if found.id.hash == 1), "{replies:?}");
    assert!(accepted(&replies[1]).1, "a known key is answered: {replies:?}");
    assert!(matches!(replies[2], Reply::Unavailable), "{replies:?}");
    assert!(matches!(replies[3], Reply::Unknown), "{replies:?}");
    engines.up(&["mariadb"]);
    settle(&mut harness, 2);
    harness.finish().unwrap();
    all_there(database, &[1, 2]);
}

#[test]
fn a_frozen_server_makes_outcomes_unknown_in_a_bounded_time_and_goes_on_when_it_wakes() {
    let engines = Engines::private(&["mariadb"], &[]);
    let database = Database::on(&engines);
    let mut harness = selling(options(&database));
    engines.freeze("mariadb");
    let started = Instant::now();
    let reply = harness.one(order(2, 2, 1));
    let took = started.elapsed();
    assert!(matches!(reply, Reply::Unknown | Reply::Unavailable), "{reply:?}");
    assert!(took < LIMITS.settle + LIMITS.read * 3, "{took:?}");
    engines.thaw("mariadb");
    settle(&mut harness, 2);
    settle(&mut harness, 3);
    harness.finish().unwrap();
    all_there(database, &[1, 2, 3]);
}

#[test]
fn a_server_that_takes_no_writes_leaves_reads_until_it_does() {
    let engines = Engines::private(&["mariadb"], &[]);
    let database = Database::on(&engines);
    let name = &database.options.database;
    let mut operator = database.connection();
    operator.query_drop("CREATE USER shop@'%' IDENTIFIED BY 'secret'").unwrap();
    operator.query_drop(format!("GRANT ALL ON {name}.* TO shop@'%'")).unwrap();
    let mut options = options(&database);
    options.user = "shop".to_owned();
    options.password = Some(server::secret::SecretBytes::from(&b"secret"[..]));
    let mut harness = selling(options);
    operator.query_drop("SET GLOBAL read_only = 1").unwrap();
    assert!(matches!(harness.one(order(2, 2, 1)), Reply::Unknown));
    wait_until(|| harness.client.read_only());
    assert!(matches!(harness.one(order(3, 3, 1)), Reply::Unavailable | Reply::Unknown));
    assert!(accepted(&harness.one(order(1, 1, 1))).1);
    operator.query_drop("SET GLOBAL read_only = 0").unwrap();
    settle(&mut harness, 2);
    harness.finish().unwrap();
    all_there(database, &[1, 2]);
}

#[test]
fn a_writer_that_another_one_took_over_from_ends_with_an_error_that_says_so() {
    let database = Database::shared();
    let mut harness = selling(options(&database));
    let mut second = writer(options(&database));
    accepted(&second.one(order(2, 2, 1)));
    // It learns of it by its next commit, or by its look once a second, whichever comes first.
    let got = harness.ask_unless_ended(vec![order(3, 3, 1)]);
    assert!(got.is_none_or(|got| matches!(got[..], [Reply::Unknown])));
    let ended = harness.finish().unwrap_err();
    assert!(matches!(ended, AppendError::Fenced(_)), "{ended}");
    assert!(matches!(second.one(read(1)), Reply::Order(_)));
    second.finish().unwrap();
    all_there(database, &[1, 2]);
}

/// A tablespace that may not grow: to the ledger the same as a disk that is full.
#[test]
fn a_full_server_leaves_reads_until_it_has_room() {
    let room = |megabytes: u32| {
        let file = format!("ibdata1:12M:autoextend:max:{megabytes}M");
        format!("--innodb-file-per-table=0 --innodb-data-file-path={file}")
    };
    let engines = Engines::private(&["mariadb"], &[("DOORBUSTER_MARIADB_OPTIONS", &room(24))]);
    let database = Database::on(&engines);
    let mut harness = selling(options(&database));
    harness.one(plenty());
    let (mut known, mut hash) = (vec![1], 1);
    loop {
        let hashes: Vec<u128> = (hash + 1..=hash + 100).collect();
        hash += 100;
        let long = |hash: &u128| message_and_order(*hash);
        let replies = harness.ask(hashes.iter().flat_map(long).collect());
        if replies.iter().any(|reply| matches!(reply, Reply::Unknown)) {
            assert!(replies.iter().all(|reply| matches!(reply, Reply::Unknown)), "a batch has one outcome");
            break;
        }
        known.extend(hashes);
        assert!(hash < 100_000, "it never fills up");
    }
    wait_until(|| matches!(harness.one(read(1)), Reply::Order(_)));
    engines.kill("mariadb");
    engines.set("DOORBUSTER_MARIADB_OPTIONS", &room(48));
    engines.up(&["mariadb"]);
    settle(&mut harness, hash);
    known.push(hash);
    harness.finish().unwrap();
    all_there(database, &known);
}

fn message_and_order(hash: u128) -> [Request; 2] {
    [Request::Message(vec![b'm'; 4_000].into()), order(hash, hash as u64, 1)]
}

#[test]
fn a_verified_connection_trusts_the_named_authority_alone() {
    let data = |name: &str| format!("{}/tests/data/{name}", env!("CARGO_MANIFEST_DIR"));
    let (certificate, key) = (data("localhost.cert.pem"), data("localhost.key.pem"));
    let tls = format!("--ssl-cert={certificate} --ssl-key={key} --require-secure-transport=ON");
    let engines = Engines::private(&["mariadb"], &[("DOORBUSTER_MARIADB_OPTIONS", &tls)]);
    let address = engines.address("mariadb");
    let (_, port) = address.rsplit_once(':').unwrap();
    let verified = |authorities: Option<String>| Options {
        host: "localhost".to_owned(),
        port: port.parse().unwrap(),
        user: "root".to_owned(),
        password: None,
        database: "doorbuster".to_owned(),
        tls: Tls::Verified { authorities: authorities.map(Into::into) },
        limits: LIMITS,
    };
    let mut ledger = MySqlLedger::open(verified(Some(certificate))).unwrap();
    ledger.load().unwrap();
    let error = MySqlLedger::open(verified(None)).unwrap_err();
    assert!(error.to_string().to_lowercase().contains("certificate"), "{error}");
    let plain = Options { tls: Tls::Off, ..verified(None) };
    assert!(MySqlLedger::open(plain).is_err());
}
