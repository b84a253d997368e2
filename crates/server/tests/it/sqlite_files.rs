//! What SQLite's files owe beyond the conformance of `ledger.rs`: locks, rights, backups, damage.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use engine::{Book, Command};
use server::ledger::Ledger;
use server::ledger::sqlite::{
    FILE_NAME, OpenError, Options, SqliteLedger, Synchronous, audit, backup, changes, is_a_shops, open_reader,
};

use crate::history::{sale, seen};
use crate::ledger::{commit, history};

fn options(dir: &Path) -> Options {
    Options { data_dir: dir.to_owned(), synchronous: Synchronous::Full, checkpoint_pages: 16, vfs: None }
}

fn open(dir: &Path) -> Ledger {
    SqliteLedger::open(options(dir)).unwrap().into()
}

#[test]
fn addresses_are_readable_by_their_owner_alone() {
    let dir = tempfile::tempdir().unwrap();
    let data_dir = dir.path().join("var/data");
    let mut ledger = open(&data_dir);
    history(&mut Book::new(), &mut ledger, 1, 5);
    backup(&data_dir, &data_dir.join("copy.db")).unwrap();
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&data_dir), 0o700);
    let mut names = Vec::new();
    for entry in std::fs::read_dir(&data_dir).unwrap() {
        let path = entry.unwrap().path();
        assert_eq!(mode(&path), 0o600, "{}", path.display());
        names.push(path.file_name().unwrap().to_str().unwrap().to_owned());
    }
    names.sort();
    assert_eq!(names, ["ballast", "copy.db", "ledger.db", "ledger.db-shm", "ledger.db-wal", "lock"]);
}

#[test]
fn a_second_process_is_refused_while_the_first_lives() {
    let dir = tempfile::tempdir().unwrap();
    let first = open(dir.path());
    let second = SqliteLedger::open(options(dir.path()));
    let error = second.err().unwrap();
    assert!(matches!(error, OpenError::Locked { .. }));
    assert!(error.to_string().contains("used by another doorbuster"), "{error}");
    drop(first);
    open(dir.path());
}

/// A whole sale comes between any two steps of the reader.
#[test]
fn a_sale_that_comes_while_the_feed_is_read_does_not_end_it() {
    for moment in 1.. {
        let dir = tempfile::tempdir().unwrap();
        let (mut book, mut ledger) = (Book::new(), open(dir.path()));
        commit(
            &mut book,
            &mut ledger,
            2_000,
            vec![Command::CreateSale(sale(1)), Command::CreateSale(sale(2))],
        );
        let mut reader = open_reader(dir.path()).unwrap();
        let came = Arc::new(AtomicBool::new(false));
        let comes = Arc::clone(&came);
        let mut steps = 0;
        let step = move || {
            steps += 1;
            if steps == moment {
                let place = engine::Placement {
                    id: engine::OrderId { sku: engine::SkuId(4), hash: 7 },
                    buyer: engine::BuyerId(1),
                    quantity: 1,
                    fingerprint: engine::Fingerprint(0),
                };
                let commands = vec![Command::CreateSale(sale(4)), Command::Place(place)];
                assert_eq!(commit(&mut book, &mut ledger, 2_001, commands).len(), 2);
                comes.store(true, Ordering::Relaxed);
            }
            false
        };
        reader.progress_handler(1, Some(step)).unwrap();
        let page = changes(&reader, 0, 5_000).unwrap();
        reader.progress_handler(0, None::<fn() -> bool>).unwrap();
        if !came.load(Ordering::Relaxed) {
            assert!(moment > 10, "the reader was interrupted {} times only", moment - 1);
            break;
        }
        assert_eq!(page.orders.len() + changes(&reader, page.cursor, 5_000).unwrap().orders.len(), 1);
    }
}

/// As a killed server leaves it: nobody else has the ledger open when the reader closes it.
#[test]
fn whoever_only_reads_a_ledger_leaves_it_as_it_was() {
    let dir = tempfile::tempdir().unwrap();
    let (mut book, mut ledger) = (Book::new(), open(dir.path()));
    commit(&mut book, &mut ledger, 2_000, vec![Command::CreateSale(sale(1)), Command::CreateSale(sale(2))]);
    let left = tempfile::tempdir().unwrap();
    let wal = format!("{FILE_NAME}-wal");
    for name in [FILE_NAME, &wal] {
        std::fs::copy(dir.path().join(name), left.path().join(name)).unwrap();
    }
    let files = || [FILE_NAME, &wal].map(|name| std::fs::read(left.path().join(name)).unwrap());
    let before = files();
    assert!(!before[1].is_empty());
    assert!(is_a_shops(left.path()).unwrap());
    assert!(files() == before, "by a look at whose it is");
    drop(open_reader(left.path()).unwrap());
    assert!(files() == before, "by a reader");
}

#[test]
fn a_backup_taken_while_the_ledger_is_written_opens_as_a_ledger() {
    let dir = tempfile::tempdir().unwrap();
    let mut ledger = open(dir.path());
    let mut book = Book::new();
    history(&mut book, &mut ledger, 21, 80);
    let at_backup = seen(&book);
    let to = dir.path().join("copy.db");
    backup(dir.path(), &to).unwrap();
    history(&mut book, &mut ledger, 22, 20);
    assert!(backup(dir.path(), &to).unwrap_err().to_string().contains("exists already"));
    let restored = tempfile::tempdir().unwrap();
    std::fs::rename(&to, restored.path().join(FILE_NAME)).unwrap();
    let mut ledger = open(restored.path());
    assert_eq!(seen(&ledger.load().unwrap()), at_backup);
    assert_eq!(audit(restored.path()).unwrap().broken, Vec::<String>::new());
}

/// The export finds what became of an order by an index, so a row that is not in it as it should be is missed.
#[test]
fn an_audit_looks_into_the_indexes() {
    const WITHOUT_INDEX: &str = "PRAGMA writable_schema = ON;
        CREATE TEMP TABLE kept AS SELECT * FROM sqlite_schema WHERE tbl_name = 'transitions';
        UPDATE sqlite_schema SET sql = replace(sql, 'UNIQUE (order_seq, step)', 'CHECK (true)')
            WHERE name = 'transitions';
        DELETE FROM sqlite_schema WHERE tbl_name = 'transitions' AND type = 'index';
        PRAGMA writable_schema = RESET;";
    const WITH_INDEX: &str = "PRAGMA writable_schema = ON;
        DELETE FROM sqlite_schema WHERE tbl_name = 'transitions';
        INSERT INTO sqlite_schema SELECT * FROM kept;";
    let dir = tempfile::tempdir().unwrap();
    let mut ledger = open(dir.path());
    let id = |hash| engine::OrderId { sku: engine::SkuId(1), hash };
    let (buyer, fingerprint) = (engine::BuyerId(1), engine::Fingerprint(0));
    let place = |hash| Command::Place(engine::Placement { id: id(hash), buyer, quantity: 1, fingerprint });
    let cancel = Command::Cancel { order: id(1), buyer };
    commit(
        &mut Book::new(),
        &mut ledger,
        2_000,
        vec![Command::CreateSale(sale(1)), place(1), place(2), cancel],
    );
    drop(ledger);
    let connection = rusqlite::Connection::open(dir.path().join(FILE_NAME)).unwrap();
    connection.set_db_config(rusqlite::config::DbConfig::SQLITE_DBCONFIG_DEFENSIVE, false).unwrap();
    connection.execute_batch(WITHOUT_INDEX).unwrap();
    // Now the other order is the one that was cancelled: for the audit, and not for the export.
    assert_eq!(connection.execute("UPDATE transitions SET order_seq = 3 WHERE seq = 4", []).unwrap(), 1);
    connection.execute_batch(WITH_INDEX).unwrap();
    drop(connection);
    let audit = audit(dir.path()).unwrap();
    assert!(audit.complete, "{:?}", audit.broken);
    assert!(audit.broken[0].contains("index"), "{:?}", audit.broken);
}

#[test]
fn an_older_reader_refuses_a_newer_ledger() {
    let dir = tempfile::tempdir().unwrap();
    drop(open(dir.path()));
    let connection = rusqlite::Connection::open(dir.path().join(FILE_NAME)).unwrap();
    connection.pragma_update(None, "user_version", 99).unwrap();
    drop(connection);
    let error = SqliteLedger::open(options(dir.path())).err().unwrap();
    assert!(error.to_string().contains("newer doorbuster"), "{error}");
    assert!(matches!(audit(dir.path()), Err(OpenError::Newer { .. })));
}
