//! The book writer's ledger on a real MySQL server: opening it, taking it over, and a network that cuts.

use std::collections::BTreeSet;
use std::sync::Barrier;
use std::time::{Duration, Instant};

use ::mysql::prelude::Queryable;
use engine::{Book, Command};
use server::ledger::mysql::{Limits, MySqlLedger, OpenError};
use server::ledger::{AppendError, Batch, Ledger};

use crate::history::{sale, seen};
use crate::ledger::{commit, history};
use crate::mysql_proxy::{Cut, Proxy};
use crate::places::{Database, LedgerHome};

/// Short enough for a test, and each below the next as in the program.
pub(crate) const LIMITS: Limits = Limits {
    connect: Duration::from_millis(500),
    read: Duration::from_millis(1_500),
    write: Duration::from_millis(1_500),
    lock_wait: Duration::from_secs(1),
    idle: Duration::from_secs(4),
    idle_transaction: Duration::from_secs(2),
    settle: Duration::from_secs(6),
};

/// For what is found out in the end, however long that takes on a busy machine.
const PATIENT: Limits = Limits { connect: Duration::from_secs(5), settle: Duration::from_secs(60), ..LIMITS };

/// An open ledger with a sale in it, reached through the proxy.
fn behind(proxy: &Proxy, database: &Database, limits: Limits) -> (Book, Ledger) {
    let mut options = database.options.clone();
    options.port = proxy.port;
    options.limits = limits;
    let mut ledger = Ledger::from(MySqlLedger::open(options).unwrap());
    let mut book = ledger.load().unwrap();
    commit(&mut book, &mut ledger, 2_000, vec![Command::CreateSale(sale(1))]);
    (book, ledger)
}

fn proxy(database: &Database) -> Proxy {
    Proxy::before(format!("{}:{}", database.options.host, database.options.port))
}

/// Appends one order; the entries of the batch are in the book whatever comes of it.
fn place_one(book: &mut Book, ledger: &mut Ledger, hash: u128) -> Result<(), AppendError> {
    let place = engine::Placement {
        id: engine::OrderId { sku: engine::SkuId(1), hash },
        buyer: engine::BuyerId(hash),
        quantity: 1,
        fingerprint: engine::Fingerprint(0),
    };
    let now = book.last_at();
    book.execute(now, Command::Place(place)).unwrap();
    let mut entries = Vec::new();
    book.drain_journal(&mut entries);
    ledger.append(&Batch { entries: &entries, addresses: &[], buyers: &[], messages: &[], at: now })
}

fn orders(database: &Database) -> u64 {
    database.connection().query_first("SELECT COUNT(*) FROM orders").unwrap().unwrap()
}

fn sound(database: Database) {
    let audit = LedgerHome::MySql(database.into()).source().audit().unwrap();
    assert_eq!(audit.broken, Vec::<String>::new());
    assert!(audit.complete);
}

#[test]
fn the_one_that_starts_takes_over_and_the_one_before_stops() {
    let home = LedgerHome::MySql(Database::shared().into());
    let (mut first, mut book) = (home.open(), Book::new());
    history(&mut book, &mut first, 3, 20);
    let mut second = home.open();
    let mut seconds_book = second.load().unwrap();
    assert_eq!(seen(&seconds_book), seen(&book));
    let fenced = place_one(&mut book, &mut first, 900).unwrap_err();
    assert!(matches!(fenced, AppendError::Fenced(_)) && !fenced.is_retryable(), "{fenced}");
    assert!(fenced.to_string().contains("another server has taken this ledger over"), "{fenced}");
    assert_eq!(seen(&second.load().unwrap()), seen(&seconds_book), "nothing of it is there");
    assert!(first.load().unwrap_err().is_fenced());
    assert!(matches!(first.settle_rolled_back(), Err(AppendError::Fenced(_))));
    assert!(matches!(first.purge_addresses(u64::MAX >> 1, 10), Err(AppendError::Fenced(_))));
    // Also one that has nothing to write: it looks once a second.
    let started = Instant::now();
    while first.maintain().is_ok() {
        assert!(started.elapsed() < Duration::from_secs(30), "it did not notice");
        std::thread::sleep(Duration::from_millis(50));
    }
    history(&mut seconds_book, &mut second, 4, 20);
    drop(second);
    assert_eq!(seen(&home.load().unwrap()), seen(&seconds_book));
}

#[test]
fn servers_that_start_at_once_make_the_tables_once() {
    let database = Database::shared();
    let start = Barrier::new(4);
    std::thread::scope(|scope| {
        let open = || {
            start.wait();
            let mut ledger = MySqlLedger::open(database.options.clone()).unwrap();
            ledger.id_secret().unwrap()
        };
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(open)).collect();
        let secrets: Vec<_> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
        assert!(secrets.iter().all(|secret| *secret == secrets[0]), "they agree on one secret");
    });
    sound(database);
}

#[test]
fn a_migration_that_was_cut_off_anywhere_is_finished_by_the_next_start() {
    let whole = Database::shared();
    drop(MySqlLedger::open(whole.options.clone()).unwrap());
    let count = "SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = DATABASE()";
    let version = "SELECT value FROM meta WHERE name = 'version'";
    let newest: String = whole.connection().query_first(version).unwrap().unwrap();
    let tables: u64 = whole.connection().query_first(count).unwrap().unwrap();
    let script = include_str!("../../migrations/mysql/001.sql");
    let statements: Vec<&str> = script.split_inclusive(";\n").collect();
    for done in 1..=statements.len() {
        let database = Database::shared();
        let mut connection = database.connection();
        for statement in &statements[..done] {
            connection.query_drop(statement).unwrap();
        }
        let mut ledger = MySqlLedger::open(database.options.clone()).unwrap();
        assert_eq!(ledger.load().unwrap().next_seq(), engine::Seq(1));
        assert_eq!(connection.query_first(count).unwrap(), Some(tables), "{done} statements were done");
        assert_eq!(connection.query_first(version).unwrap(), Some(newest.clone()));
    }
}

#[test]
fn a_newer_ledger_is_refused() {
    let database = Database::shared();
    drop(MySqlLedger::open(database.options.clone()).unwrap());
    database.connection().query_drop("UPDATE meta SET value = '99' WHERE name = 'version'").unwrap();
    let refused = MySqlLedger::open(database.options.clone()).unwrap_err();
    assert!(matches!(refused, OpenError::Newer { found: 99, .. }), "{refused}");
    assert!(
        LedgerHome::MySql(database.into())
            .source()
            .audit()
            .unwrap_err()
            .to_string()
            .contains("newer doorbuster")
    );
}

#[test]
fn a_commit_that_was_cut_is_there_once_whichever_way_it_was_cut() {
    for cut in [Cut::BeforeServer, Cut::BeforeAnswer, Cut::Silence, Cut::InTheAir] {
        let database = Database::shared();
        let proxy = proxy(&database);
        let (mut book, mut ledger) = behind(&proxy, &database, PATIENT);
        for hash in 0..4 {
            proxy.cut_next(cut, false);
            place_one(&mut book, &mut ledger, hash).unwrap_or_else(|error| panic!("{cut:?}: {error}"));
            place_one(&mut book, &mut ledger, 100 + hash).unwrap();
            assert_eq!(proxy.cuts(), 1 + u32::try_from(hash).unwrap());
        }
        assert_eq!(orders(&database), 8, "{cut:?}");
        assert_eq!(seen(&ledger.load().unwrap()), seen(&book), "{cut:?}");
        sound(database);
    }
}

#[test]
fn an_outcome_that_cannot_be_found_out_is_unknown_until_the_book_is_loaded() {
    for (cut, happened) in [(Cut::BeforeServer, false), (Cut::BeforeAnswer, true)] {
        let database = Database::shared();
        let proxy = proxy(&database);
        // Nothing is silent here: the rest is for a busy machine.
        let read = Duration::from_secs(10);
        let limits = Limits { settle: Duration::from_millis(500), read, ..PATIENT };
        let (mut book, mut ledger) = behind(&proxy, &database, limits);
        place_one(&mut book, &mut ledger, 1).unwrap();
        let before = seen(&book);
        proxy.cut_next(cut, true);
        let unknown = place_one(&mut book, &mut ledger, 2).unwrap_err();
        assert!(matches!(unknown, AppendError::Unknown(_)) && unknown.is_retryable(), "{cut:?}: {unknown}");
        assert!(ledger.load().is_err(), "{cut:?}: the server is still away");
        assert!(ledger.settle_rolled_back().is_err());
        proxy.open();
        let mut found = ledger.load().unwrap();
        assert_eq!(seen(&found), if happened { seen(&book) } else { before }, "{cut:?}");
        ledger.settle_rolled_back().unwrap();
        place_one(&mut found, &mut ledger, 3).unwrap();
        assert_eq!(orders(&database), if happened { 3 } else { 2 });
        assert_eq!(seen(&ledger.load().unwrap()), seen(&found));
        sound(database);
    }
}

/// What a purge or a try to write left in doubt must not be taken for the batch that follows.
#[test]
fn a_doubt_about_a_small_transaction_does_not_swallow_the_next_batch() {
    for cut in [Cut::BeforeServer, Cut::BeforeAnswer] {
        let database = Database::shared();
        let proxy = proxy(&database);
        let (mut book, mut ledger) = behind(&proxy, &database, PATIENT);
        place_one(&mut book, &mut ledger, 1).unwrap();
        proxy.cut_next(cut, false);
        let doubt = ledger.purge_addresses(u64::MAX >> 1, 10).unwrap_err();
        assert!(matches!(doubt, AppendError::Unknown(_)), "{cut:?}: {doubt}");
        place_one(&mut book, &mut ledger, 2).unwrap();
        proxy.cut_next(cut, false);
        assert!(matches!(ledger.settle_rolled_back(), Err(AppendError::Unknown(_))), "{cut:?}");
        place_one(&mut book, &mut ledger, 3).unwrap();
        assert_eq!(orders(&database), 3, "{cut:?}");
        assert_eq!(seen(&ledger.load().unwrap()), seen(&book), "{cut:?}");
        sound(database);
    }
}

#[test]
fn a_lock_that_somebody_else_holds_is_waited_for_with_a_bound() {
    let database = Database::shared();
    let mut options = database.options.clone();
    options.limits = LIMITS;
    let mut ledger = Ledger::from(MySqlLedger::open(options).unwrap());
    let mut book = ledger.load().unwrap();
    commit(&mut book, &mut ledger, 2_000, vec![Command::CreateSale(sale(1))]);
    let hold = || {
        let mut other = database.connection();
        other.query_drop("START TRANSACTION").unwrap();
        other.query_drop("SELECT * FROM writer FOR UPDATE").unwrap();
        other
    };
    let (mut other, mut watcher) = (hold(), database.connection());
    // Longer than one wait for a lock: until the second one has begun.
    let released = std::thread::spawn(move || {
        let (mut waits, started) = (BTreeSet::new(), Instant::now());
        while waits.len() < 2 {
            assert!(started.elapsed() < Duration::from_secs(30), "nobody waits again: {waits:?}");
            let waiting = "SELECT CAST(trx_wait_started AS CHAR) FROM information_schema.innodb_trx \
                 JOIN information_schema.processlist ON id = trx_mysql_thread_id \
                 WHERE db = DATABASE() AND trx_state = 'LOCK WAIT'";
            waits.extend(watcher.query_first::<String, _>(waiting).unwrap());
            // What InnoDB shows of its transactions gets old as long as somebody looks each 100 ms.
            std::thread::sleep(Duration::from_millis(200));
        }
        other.query_drop("ROLLBACK").unwrap();
    });
    place_one(&mut book, &mut ledger, 1).unwrap();
    released.join().unwrap();
    let before = seen(&book);
    let held = hold();
    let started = Instant::now();
    let refused = place_one(&mut book, &mut ledger, 2).unwrap_err();
    assert!(matches!(refused, AppendError::RolledBack(_)), "{refused}");
    // The last try begins before the bound and waits once more; the rest is for a busy machine.
    assert!(started.elapsed() < LIMITS.settle * 3, "{:?}", started.elapsed());
    drop(held);
    let mut found = ledger.load().unwrap();
    assert_eq!(seen(&found), before);
    place_one(&mut found, &mut ledger, 3).unwrap();
    sound(database);
}

#[test]
fn a_connection_that_the_server_ended_costs_nothing() {
    let database = Database::shared();
    let mut ledger = Ledger::from(MySqlLedger::open(database.options.clone()).unwrap());
    let mut book = ledger.load().unwrap();
    commit(&mut book, &mut ledger, 2_000, vec![Command::CreateSale(sale(1))]);
    // ER_NO_SUCH_THREAD: a connection that was ended before is listed for a moment still.
    const GONE: u16 = 1094;
    let mut other = database.connection();
    for hash in 0..3 {
        let ids =
            "SELECT id FROM information_schema.processlist WHERE db = DATABASE() AND id <> CONNECTION_ID()";
        for id in other.query::<u64, _>(ids).unwrap() {
            match other.query_drop(format!("KILL {id}")) {
                Ok(()) => {}
                Err(mysql::Error::MySqlError(error)) if error.code == GONE => {}
                Err(error) => panic!("{error}"),
            }
        }
        place_one(&mut book, &mut ledger, hash).unwrap();
    }
    assert_eq!(orders(&database), 3);
    sound(database);
}
