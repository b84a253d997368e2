//! Lost answers, cut connections, servers that were stopped and a database that is killed.

use std::time::{Duration, Instant};

use engine::working_set::Outcome;
use engine::{Command, Pay, Seq, SkuId, UnixMs};
use mysql::prelude::Queryable;
use server::ledger::mysql::cluster::{LedgerError, STOPPED_S, SharedLedger, TransactionCounters};
use server::ledger::mysql::{Limits, Options};

use super::{START, asked, assert_sound, one_sku, open, orders, progress};
use crate::engines::Engines;
use crate::mysql_proxy::{Cut, Proxy};
use crate::places::Database;

const NOW: UnixMs = UnixMs(START);

fn before(database: &Database) -> Proxy {
    Proxy::before(format!("{}:{}", database.options.host, database.options.port))
}

fn through(proxy: &Proxy, database: &Database) -> SharedLedger {
    let options = Options { host: "127.0.0.1".to_owned(), port: proxy.port, ..patient(database) };
    SharedLedger::open(&options).unwrap()
}

/// Longer than a stopped server's transaction lasts, on however busy a machine.
fn patient(database: &Database) -> Options {
    let limits = Limits { settle: Duration::from_secs(10), ..database.options.limits };
    Options { limits, ..database.options.clone() }
}

/// For how long one stopped server can keep others waiting. Twice that would be a second wait for it; what is between
/// is for a busy machine.
const STOPPED_MOST: Duration = Duration::from_secs(2 * STOPPED_S as u64);

#[test]
fn a_commit_whose_answer_is_lost_is_found_out_and_done_once() {
    let (mut ledger, database) = open();
    one_sku(&mut ledger, 100, Some(2));
    let proxy = before(&database);
    let mut cut = through(&proxy, &database);
    let queue = [("broker/0".to_owned(), 0)];
    let assigned = cut.lease_queues(1, &queue).unwrap();
    let mut cuts = 0;
    for (round, fault) in [Cut::BeforeServer, Cut::BeforeAnswer, Cut::BeforeAnswer].into_iter().enumerate() {
        let from = round as u64 * 10;
        proxy.cut_next(fault, false);
        let outcomes = cut
            .consume(NOW, &[progress(&assigned[0], 1, from, from + 10)], &orders(from..from + 10))
            .unwrap();
        cuts += 1;
        assert_eq!(proxy.cuts(), cuts);
        let placed = outcomes.iter().filter(|outcome| matches!(outcome, Outcome::Placed(_))).count();
        // What the lost commit has placed is known to the second try.
        assert_eq!(placed, if fault == Cut::BeforeServer { 10 } else { 0 }, "{fault:?}");
        let known = outcomes.iter().filter(|outcome| matches!(outcome, Outcome::Known(_))).count();
        assert_eq!(placed + known, 10);
    }
    // So are commands, and the raising of an epoch.
    let place = orders(3..4)[0].placement;
    let cancel = asked(Command::Cancel { order: place.id, buyer: place.buyer });
    for fault in [Cut::BeforeServer, Cut::BeforeAnswer] {
        proxy.cut_next(fault, false);
        cut.execute(NOW, std::slice::from_ref(&cancel)).unwrap();
        cuts += 1;
        assert_eq!(proxy.cuts(), cuts);
    }
    proxy.cut_next(Cut::BeforeAnswer, false);
    assert_eq!(cut.raise_epochs(&[SkuId(0)]).unwrap().remove(0).epoch, 2);
    assert_eq!(ledger.outbox(10, 0).unwrap().len(), 1);
    let audit = assert_sound(&database);
    assert_eq!((audit.orders, audit.skus[0].held), (30, 29));
}

/// They were counted with one server alone: in a cluster the alert on failed commits could not fire.
#[test]
fn what_is_committed_is_counted_once_over_all_connections_and_so_is_what_failed() {
    let (mut other, database) = open();
    one_sku(&mut other, 100, None);
    let proxy = before(&database);
    let mut cut = through(&proxy, &database);
    let tally = TransactionCounters::default();
    let counted = || (tally.entries.get(), tally.payments.get(), tally.failed.get());
    cut.count_into(tally.clone());
    proxy.cut_next(Cut::BeforeServer, false);
    cut.consume(NOW, &[], &orders(0..3)).unwrap();
    assert_eq!(counted(), (3, 0, 0), "at the second try");
    let mut another = cut.another();
    let pay = Pay { id: "p1".into(), order: orders(0..1)[0].placement.id, amount: 4_999 };
    for _once_more in 0..2 {
        another.execute(NOW, &[asked(Command::Pay(pay.clone()))]).unwrap();
        assert_eq!(counted(), (5, 1, 0), "the payment, and what it paid");
    }
}

#[test]
fn a_sale_whose_commit_was_cut_off_is_not_remembered() {
    let (ledger, database) = open();
    drop(ledger);
    let proxy = before(&database);
    let mut cut = through(&proxy, &database);
    proxy.cut_next(Cut::BeforeServer, false);
    one_sku(&mut cut, 5, None);
    assert_eq!(proxy.cuts(), 1);
    assert_eq!(cut.sale_entries(Seq(0)).unwrap().len(), 1);
    cut.consume(NOW, &[], &orders(0..2)).unwrap();
    assert_eq!(assert_sound(&database).orders, 2);
}

/// As a process that was stopped between reading and writing: its connection stays open and says nothing.
#[test]
fn a_stopped_server_holds_the_lock_for_a_few_seconds_only() {
    let (_, database) = open();
    let mut ledger = SharedLedger::open(&patient(&database)).unwrap();
    one_sku(&mut ledger, 100, None);
    let proxy = before(&database);
    let mut stopped = through(&proxy, &database);
    proxy.cut_next(Cut::InTheAir, false);
    std::thread::scope(|scope| {
        let stopped = scope.spawn(move || stopped.consume(NOW, &[], &orders(0..5)));
        while proxy.cuts() == 0 {
            std::thread::yield_now();
        }
        let started = Instant::now();
        let outcomes = ledger.consume(NOW, &[], &orders(10..15)).unwrap();
        let waited = started.elapsed();
        assert!(outcomes.iter().all(|outcome| matches!(outcome, Outcome::Placed(_))));
        assert!(waited < STOPPED_MOST, "the lock was held for {waited:?}");
        // When it goes on, its transaction is gone, and is done again.
        let outcomes = stopped.join().unwrap().unwrap();
        assert!(outcomes.iter().all(|outcome| matches!(outcome, Outcome::Placed(_))));
    });
    assert_eq!(assert_sound(&database).orders, 10);
}

/// A read without the lock would show the sales from before a change that is being stored.
#[test]
fn who_must_know_the_sales_waits_for_whoever_is_writing() {
    let (mut ledger, database) = open();
    let mut writing = database.connection();
    writing.query_drop("START TRANSACTION").unwrap();
    writing.query_drop("SELECT format FROM writer WHERE id = 1 FOR UPDATE").unwrap();
    std::thread::scope(|scope| {
        let (done, is_done) = std::sync::mpsc::sync_channel(1);
        scope.spawn(move || done.send(ledger.wait_for_writers()).unwrap());
        let early = is_done.recv_timeout(Duration::from_millis(300));
        assert!(early.is_err(), "it did not wait: {early:?}");
        writing.query_drop("ROLLBACK").unwrap();
        is_done.recv().unwrap().unwrap();
    });
}

#[test]
fn a_server_that_stops_while_it_takes_queues_keeps_nobody_waiting_for_long() {
    let (_, database) = open();
    let mut ledger = SharedLedger::open(&patient(&database)).unwrap();
    one_sku(&mut ledger, 100, None);
    let queue = [("broker/0".to_owned(), 0)];
    let assigned = ledger.lease_queues(1, &queue).unwrap();
    let proxy = before(&database);
    let mut stopped = through(&proxy, &database);
    proxy.cut_next(Cut::InTheAir, false);
    std::thread::scope(|scope| {
        let stopped = scope.spawn(move || stopped.lease_queues(2, &queue));
        while proxy.cuts() == 0 {
            std::thread::yield_now();
        }
        let started = Instant::now();
        ledger.consume(NOW, &[progress(&assigned[0], 1, 0, 5)], &orders(0..5)).unwrap();
        assert!(started.elapsed() < STOPPED_MOST, "the lock was held for {:?}", started.elapsed());
        stopped.join().unwrap().unwrap();
    });
    assert_eq!(assert_sound(&database).orders, 5);
}

#[test]
fn a_killed_database_loses_nothing_that_was_answered_and_does_nothing_twice() {
    let engines = Engines::private(&["mariadb"], &[]);
    let database = Database::on(&engines);
    let mut ledger = SharedLedger::open(&database.options).unwrap();
    one_sku(&mut ledger, 1_000_000, None);
    let assigned = ledger.lease_queues(1, &[("broker/0".to_owned(), 0)]).unwrap();
    let mut from = 0;
    for round in 0..3_u64 {
        let mut answered = from;
        let mut failed = 0;
        let killed = &std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            let (ledger, assigned, answered, failed) =
                (&mut ledger, &assigned[0], &mut answered, &mut failed);
            let consumer =
                scope.spawn(move || {
                    loop {
                        let to = *answered + 100;
                        let batch = orders(*answered..to);
                        match ledger.consume(NOW, &[progress(assigned, 1, *answered, to)], &batch) {
                            Ok(outcomes) => {
                                assert!(!outcomes.iter().any(|outcome| matches!(
                                    outcome,
                                    Outcome::Rejected(_) | Outcome::Conflict
                                )));
                                *answered = to;
                                // Enough after the kill: the next round.
                                if killed.load(std::sync::atomic::Ordering::SeqCst) {
                                    return;
                                }
                            }
                            Err(error) => {
                                assert!(
                                    matches!(error, LedgerError::Unavailable(_) | LedgerError::Unknown(_)),
                                    "{error}"
                                );
                                *failed += 1;
                                assert!(*failed < 50, "{error}");
                            }
                        }
                    }
                });
            // Somewhere in a batch.
            std::thread::sleep(Duration::from_millis(150 + 37 * round));
            engines.kill("mariadb");
            engines.up(&["mariadb"]);
            killed.store(true, std::sync::atomic::Ordering::SeqCst);
            consumer.join().unwrap();
        });
        assert!(answered > from);
        from = answered;
        assert_eq!(assert_sound(&database).orders, from, "round {round}: each answered order once");
    }
}

#[test]
fn a_database_that_is_away_is_said_to_be_within_the_bound() {
    let engines = Engines::private(&["mariadb"], &[]);
    let database = Database::on(&engines);
    let mut ledger = SharedLedger::open(&database.options).unwrap();
    one_sku(&mut ledger, 10, None);
    let tally = TransactionCounters::default();
    ledger.count_into(tally.clone());
    engines.kill("mariadb");
    let started = Instant::now();
    let error = ledger.consume(NOW, &[], &orders(0..1)).unwrap_err();
    assert_eq!((tally.failed.get(), tally.entries.get()), (1, 0));
    assert!(matches!(error, LedgerError::Unavailable(_)), "{error}");
    assert!(error.is_retryable());
    // Most of this is for a busy machine.
    assert!(started.elapsed() < database.options.limits.settle * 3, "{:?}", started.elapsed());
    engines.up(&["mariadb"]);
    assert!(matches!(ledger.consume(NOW, &[], &orders(0..1)).unwrap()[..], [Outcome::Placed(_)]));
}

/// What is looked for first is the last entry, and the orders.
#[test]
fn an_entry_is_found_whatever_it_is_while_others_write_and_missed_once_it_is_gone() {
    let (mut ledger, database) = open();
    one_sku(&mut ledger, 100, None);
    let mut other = SharedLedger::open(&database.options).unwrap();
    let mut write = |number| drop(other.consume(NOW, &[], &orders(number..number + 1)).unwrap());
    for (number, known) in [(0, "the sale"), (1, "an order")] {
        write(number);
        ledger.look_back().unwrap();
        assert_eq!(ledger.times_back(), 0, "{known}");
    }
    let (Seq(known), _) = ledger.end().unwrap();
    write(2);
    database.connection().query_drop(format!("DELETE FROM orders WHERE seq = {known}")).unwrap();
    assert_eq!(ledger.outbox(10, 0).unwrap(), []);
    assert_eq!(ledger.times_back(), 1);
}

/// The old primary lives on, takes no writes, and leads nobody away by itself; the new one lacks what it had last.
#[test]
fn after_a_switch_over_writers_and_readers_leave_the_old_primary_and_miss_what_the_new_one_lacks() {
    let [old, new] = [(); 2].map(|()| Engines::private(&["mariadb"], &[]));
    let [of_old, of_new] = [&old, &new].map(Database::on);
    let name = &of_old.options.database;
    for database in [&of_old, &of_new] {
        let mut operator = database.connection();
        operator.query_drop(format!("CREATE DATABASE IF NOT EXISTS {name}")).unwrap();
        operator.query_drop("CREATE USER shop@'%' IDENTIFIED BY 'secret'").unwrap();
        operator.query_drop(format!("GRANT ALL ON {name}.* TO shop@'%'")).unwrap();
    }
    let password = Some(server::secret::SecretBytes::from(&b"secret"[..]));
    let options = Options { user: "shop".to_owned(), password, ..patient(&of_old) };
    let address = |options: &Options| format!("{}:{}", options.host, options.port);
    let proxy = Proxy::before(address(&of_old.options));
    let by_proxy = Options { host: "127.0.0.1".to_owned(), port: proxy.port, ..options.clone() };
    // As a replica has the same, but for the latest orders.
    let copy = Options { port: of_new.options.port, ..options };
    one_sku(&mut SharedLedger::open(&copy).unwrap(), 7, None);
    let mut writer = SharedLedger::open(&by_proxy).unwrap();
    one_sku(&mut writer, 100, None);
    writer.consume(NOW, &[], &orders(0..3)).unwrap();
    let mut reader = writer.another();
    reader.look_back().unwrap();
    writer.consume(NOW, &[], &orders(3..5)).unwrap();
    assert_eq!((writer.end().unwrap().0, writer.times_back()), (Seq(6), 0));
    assert_eq!(reader.stocks().unwrap()[0].stock.total(), 100);
    of_old.connection().query_drop("SET GLOBAL read_only = 1").unwrap();
    assert!(writer.heartbeat(7, "shop").is_err(), "the name still leads to the old one");
    assert_eq!(reader.stocks().unwrap()[0].stock.total(), 100, "and it is read from");
    proxy.lead_to(address(&of_new.options));
    writer.heartbeat(7, "shop").unwrap();
    assert_eq!((writer.times_back(), reader.times_back()), (1, 1), "with its new connection");
    let begun = Instant::now();
    while reader.stocks().unwrap()[0].stock.total() == 100 {
        assert!(begun.elapsed() < Duration::from_secs(60), "a reader stays at the old primary");
        std::thread::sleep(Duration::from_millis(50));
    }
    // What it has itself is not missed, and its sales are read anew.
    writer.consume(NOW, &[], &orders(0..3)).unwrap();
    for ledger in [&mut writer, &mut reader] {
        ledger.look_back().unwrap();
        assert_eq!(ledger.times_back(), 1);
    }
    of_old.connection().query_drop("SET GLOBAL read_only = 0").unwrap();
}
