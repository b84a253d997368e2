//! Conformance of a ledger backend, and what SQLite's files owe beyond it.

use std::collections::HashMap;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use engine::{Book, Command, Entry, Event, Seq, Status, UnixMs};
use server::ledger::Batch;
use server::ledger::sqlite::{
    FILE_NAME, OpenError, Options, SqliteLedger, Synchronous, audit, backup, changes, export, open_reader,
};

use crate::history::{Random, commands, sale, seen};

fn options(dir: &Path) -> Options {
    Options { data_dir: dir.to_owned(), synchronous: Synchronous::Full, checkpoint_pages: 16, vfs: None }
}

fn open(dir: &Path) -> SqliteLedger {
    SqliteLedger::open(options(dir)).unwrap()
}

/// Carries out a batch of commands and appends what came of it.
fn commit(book: &mut Book, ledger: &mut SqliteLedger, at: u64, commands: Vec<Command>) -> Vec<Entry> {
    let now = UnixMs(at);
    for command in commands {
        // Refusals are part of a history; what matters here is what was recorded.
        drop(book.execute(now, command));
    }
    book.expire_due(now, 1_000);
    let mut entries = Vec::new();
    book.drain_journal(&mut entries);
    let addresses: Vec<(Seq, Box<[u8]>)> = entries
        .iter()
        .filter(|entry| matches!(entry.event, Event::OrderPlaced { .. }) && !entry.seq.0.is_multiple_of(3))
        .map(|entry| (entry.seq, format!("{{\"city\":\"No. {}\"}}", entry.seq.0).into_bytes().into()))
        .collect();
    ledger.append(&Batch { entries: &entries, addresses: &addresses, messages: &[], at: now }).unwrap();
    entries
}

fn history(book: &mut Book, ledger: &mut SqliteLedger, seed: u64, batches: u64) -> u64 {
    let mut random = Random(seed);
    let mut at = book.last_at().0.max(1_000);
    for _ in 0..batches {
        at += random.below(60);
        let commands = commands(&mut random, book);
        commit(book, ledger, at, commands);
        ledger.maintain().unwrap();
    }
    at
}

#[test]
fn what_was_appended_comes_back_as_the_same_book() {
    for seed in 0..12 {
        let dir = tempfile::tempdir().unwrap();
        let mut book = Book::new();
        for part in 0..3 {
            let mut ledger = open(dir.path());
            let loaded = ledger.load().unwrap();
            assert_eq!(seen(&loaded), seen(&book), "seed {seed}, part {part}");
            book = loaded;
            history(&mut book, &mut ledger, seed * 10 + part, 60);
            if part == 1 {
                ledger.close().unwrap();
            }
        }
        let audit = audit(dir.path()).unwrap();
        assert_eq!(audit.broken, Vec::<String>::new(), "seed {seed}");
        assert_eq!(audit.entries + 1, book.next_seq().0);
        assert_eq!(audit.orders, book.orders_len() as u64);
        assert!(audit.orders > 30, "seed {seed}: the history placed only {} orders", audit.orders);
        for (found, sku) in audit.skus.iter().zip(0..) {
            let stock = book.stock(engine::SkuId(sku)).unwrap();
            let expected = (stock.total(), stock.available(), stock.held(), stock.sold());
            assert_eq!((found.total, found.available, found.held, found.sold), expected);
        }
    }
}

#[test]
fn the_id_secret_is_made_once() {
    let dir = tempfile::tempdir().unwrap();
    let first = open(dir.path()).id_secret().unwrap();
    assert_ne!(first, [0; 16]);
    assert_eq!(open(dir.path()).id_secret().unwrap(), first);
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
    assert_eq!(names, ["copy.db", "ledger.db", "ledger.db-shm", "ledger.db-wal", "lock"]);
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

#[test]
fn readers_refuse_what_is_not_there() {
    let dir = tempfile::tempdir().unwrap();
    assert!(matches!(audit(dir.path()), Err(OpenError::Missing { .. })));
    std::fs::write(dir.path().join(FILE_NAME), "no database").unwrap();
    assert!(matches!(audit(dir.path()), Err(OpenError::NotALedger { .. })));
}

#[test]
fn an_export_has_every_order_once_and_goes_on_from_its_cursor() {
    let dir = tempfile::tempdir().unwrap();
    let mut ledger = open(dir.path());
    let mut book = Book::new();
    history(&mut book, &mut ledger, 77, 150);
    let mut known: HashMap<String, Status> = HashMap::new();
    let cursor = export(dir.path(), 0, &mut |line| {
        assert!(known.insert(line.id.to_string(), line.status).is_none(), "{} came twice", line.id);
        assert_eq!(line.address.is_some(), !book.order(line.id).unwrap().seq.0.is_multiple_of(3));
    })
    .unwrap();
    assert_eq!(known.len(), book.orders_len());
    history(&mut book, &mut ledger, 78, 60);
    let mut changed = 0;
    export(dir.path(), cursor, &mut |line| {
        changed += 1;
        known.insert(line.id.to_string(), line.status);
    })
    .unwrap();
    assert!(changed > 0);
    assert_eq!(known.len(), book.orders_len());
    for (id, status) in known {
        assert_eq!(book.order(id.parse().unwrap()).unwrap().status, status, "{id}");
    }
}

#[test]
fn the_feed_reaches_the_same_state_page_by_page() {
    let dir = tempfile::tempdir().unwrap();
    let mut ledger = open(dir.path());
    let mut book = Book::new();
    history(&mut book, &mut ledger, 5, 120);
    let reader = open_reader(dir.path()).unwrap();
    let mut known: HashMap<String, Status> = HashMap::new();
    let mut since = 0;
    loop {
        let page = changes(&reader, since, 7).unwrap();
        for line in page.orders {
            known.insert(line.id.to_string(), line.status);
        }
        since = page.cursor;
        if !page.more {
            break;
        }
    }
    assert_eq!(since + 1, book.next_seq().0);
    assert_eq!(known.len(), book.orders_len());
    for (id, status) in known {
        assert_eq!(book.order(id.parse().unwrap()).unwrap().status, status, "{id}");
    }
    // A cursor of another ledger, or of the time before a backup was restored, must not look like "no news".
    assert!(matches!(changes(&reader, since + 1, 7), Err(OpenError::CursorAhead { .. })));
    assert!(matches!(export(dir.path(), since + 1, &mut |_| ()), Err(OpenError::CursorAhead { .. })));
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
                let place = engine::Place {
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

#[test]
fn addresses_go_after_their_time_and_no_sooner() {
    let dir = tempfile::tempdir().unwrap();
    let mut ledger = open(dir.path());
    let mut book = Book::new();
    let end = history(&mut book, &mut ledger, 9, 150);
    let addresses = |dir: &Path| {
        let mut lines = Vec::new();
        export(dir, 0, &mut |line| lines.push((line.placed_at.0, line.address))).unwrap();
        lines
    };
    let before = addresses(dir.path());
    let cutoff = end / 2;
    while ledger.purge_addresses(cutoff, 3).unwrap() > 0 {}
    for ((placed_at, old), (_, new)) in before.iter().zip(addresses(dir.path())) {
        assert_eq!(new, if *placed_at < cutoff { None } else { old.clone() });
    }
    assert!(
        before.iter().any(|(at, address)| *at < cutoff && address.is_some()),
        "nothing was there to purge"
    );
    // Out of the file too, without a stop and without more orders.
    while !ledger.maintain().unwrap().is_some_and(|checkpoint| checkpoint.complete) {
        std::thread::yield_now();
    }
    let file = std::fs::read(dir.path().join(FILE_NAME)).unwrap();
    for (placed_at, address) in before {
        if let Some(address) = address {
            let found = file.windows(address.len()).any(|bytes| bytes == address.as_bytes());
            assert_eq!(found, placed_at >= cutoff, "{address}");
        }
    }
    assert_eq!(audit(dir.path()).unwrap().broken, Vec::<String>::new());
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
    let ledger = open(restored.path());
    assert_eq!(seen(&ledger.load().unwrap()), at_backup);
    assert_eq!(audit(restored.path()).unwrap().broken, Vec::<String>::new());
}

#[test]
fn an_audit_names_what_is_broken() {
    let tampered: [(&str, &str); 6] = [
        ("INSERT INTO orders SELECT (SELECT max(seq) + 1 FROM orders), at, sku, hash, buyer, 999, unit_price,
          fingerprint, NULL FROM orders ORDER BY seq DESC LIMIT 1", "exists already"),
        ("UPDATE orders SET quantity = 1000 WHERE seq = (SELECT max(seq) FROM orders)", "oversold"),
        ("DELETE FROM orders WHERE seq = (SELECT max(seq) FROM orders)", "gap"),
        ("UPDATE orders SET sku = 99 WHERE seq = (SELECT max(seq) FROM orders)", "SKU is unknown"),
        ("UPDATE orders SET at = 0 WHERE seq = (SELECT max(seq) FROM orders)", "time runs backwards"),
        ("UPDATE sale_events SET kind = 'burnt' WHERE seq = 1", "makes no sense"),
    ];
    for (sql, expected) in tampered {
        let dir = tempfile::tempdir().unwrap();
        let mut ledger = open(dir.path());
        let mut book = Book::new();
        let place = |hash| {
            Command::Place(engine::Place {
                id: engine::OrderId { sku: engine::SkuId(1), hash },
                buyer: engine::BuyerId(1),
                quantity: 1,
                fingerprint: engine::Fingerprint(0),
            })
        };
        commit(&mut book, &mut ledger, 2_000, vec![Command::CreateSale(sale(1)), place(1), place(2)]);
        if !sql.contains("gap") && expected == "gap" {
            commit(&mut book, &mut ledger, 2_001, vec![Command::Pause(engine::SaleId(1))]);
        }
        drop(ledger);
        rusqlite_execute(&dir.path().join(FILE_NAME), sql);
        let audit = audit(dir.path()).unwrap();
        assert!(audit.broken.iter().any(|line| line.contains(expected)), "{sql}: {:?}", audit.broken);
        let ledger = open(dir.path());
        assert!(ledger.load().is_err(), "{sql}: a broken ledger must not be served");
    }
}

#[test]
fn an_audit_that_had_to_stop_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let mut ledger = open(dir.path());
    let mut book = Book::new();
    history(&mut book, &mut ledger, 33, 60);
    drop(ledger);
    let whole = audit(dir.path()).unwrap();
    assert!(whole.complete && whole.entries + 1 == book.next_seq().0, "{whole:?}");
    let middle = whole.entries / 2;
    let order = format!("(SELECT min(seq) FROM orders WHERE seq > {middle})");
    rusqlite_execute(
        &dir.path().join(FILE_NAME),
        &format!("UPDATE orders SET quantity = 1000 WHERE seq = {order}"),
    );
    let part = audit(dir.path()).unwrap();
    assert!(!part.complete && !part.broken.is_empty(), "{part:?}");
    assert!((middle..whole.entries).contains(&part.entries), "{part:?}");
    assert!(part.orders < whole.orders);
}

#[test]
fn a_number_that_is_far_off_is_a_gap_and_costs_no_time_and_no_memory() {
    let dir = tempfile::tempdir().unwrap();
    let mut ledger = open(dir.path());
    history(&mut Book::new(), &mut ledger, 33, 60);
    drop(ledger);
    let far = 1_u64 << 60;
    rusqlite_execute(
        &dir.path().join(FILE_NAME),
        &format!("UPDATE orders SET seq = {far} WHERE seq = (SELECT max(seq) FROM orders)"),
    );
    let audit = audit(dir.path()).unwrap();
    assert!(audit.broken[0].contains("gap") && !audit.complete, "{:?}", audit.broken);
    assert!(open(dir.path()).load().is_err());
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
    let place = |hash| Command::Place(engine::Place { id: id(hash), buyer, quantity: 1, fingerprint });
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

fn rusqlite_execute(path: &Path, sql: &str) {
    assert_eq!(rusqlite::Connection::open(path).unwrap().execute(sql, []).unwrap(), 1);
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
