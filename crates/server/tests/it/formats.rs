//! Ledgers of older releases: they open, become the newest format, and read as they did; whatever cuts that off.

use std::path::{Path, PathBuf};

use ::mysql::prelude::Queryable;
use engine::handover::Change;
use faultvfs::{Effect, Fault, FaultVfs, Operation, Which};
use serde_json::{Value, json};
use server::ledger::mysql::cluster::{LedgerError, Recorded, SharedLedger};
use server::ledger::mysql::profile::Profile;
use server::ledger::mysql::{self, MySqlLedger, Options};
use server::ledger::sqlite::{self, FILE_NAME, SqliteLedger, Synchronous};
use server::ledger::{OpenError, OrderLine, Source};

use crate::mysql_proxy::{Cut, Proxy};
use crate::places::{Database, LedgerHome};

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/ledgers").join(name)
}

/// What the server that made a fixture answered.
fn answers(name: &str) -> Value {
    serde_json::from_slice(&std::fs::read(fixture(&format!("{name}.json"))).unwrap()).unwrap()
}

/// A ledger of SQLite's first format, as a server leaves it.
fn old_sqlite() -> LedgerHome {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(FILE_NAME);
    std::fs::copy(fixture("sqlite-1.db"), &path).unwrap();
    let connection = rusqlite::Connection::open(&path).unwrap();
    connection.pragma_update_and_check(None, "journal_mode", "WAL", |_| Ok(())).unwrap();
    LedgerHome::Sqlite(dir)
}

/// A database with the tables and rows of a dump.
fn old_mysql(name: &str) -> Database {
    let database = Database::shared();
    let dump = std::fs::read_to_string(fixture(&format!("{name}.sql"))).unwrap();
    let mut connection = database.connection();
    for statement in dump.split_inclusive(";\n").filter(|statement| !statement.trim().is_empty()) {
        connection.query_drop(statement).unwrap();
    }
    database
}

fn line(line: &OrderLine) -> Value {
    let address = line.address.as_deref().map(|address| serde_json::from_str::<Value>(address).unwrap());
    json!({
        "id": line.id.to_string(), "sale": line.sale.0, "product": line.product.0, "buyer": line.buyer,
        "quantity": line.quantity, "unit_price": line.unit_price,
        "amount": line.unit_price * u64::from(line.quantity), "currency": line.currency,
        "status": line.status.as_str(), "placed_at_ms": line.placed_at.0,
        "closed_at_ms": line.closed_at.map(|at| at.0), "address": address,
    })
}

/// Audit and export say what the older server said.
fn check(source: &Source, name: &str) {
    let answers = answers(name);
    let audit = source.audit().unwrap();
    assert_eq!((audit.broken, audit.complete), (Vec::new(), true), "{name}");
    let mut orders = Vec::new();
    let cursor = source.export(0, &mut |order| orders.push(line(&order))).unwrap();
    assert_eq!(Value::from(orders), answers["orders"], "{name}");
    assert_eq!(Value::from(cursor), answers["cursor"], "{name}");
    assert_eq!(audit.refunds_due as usize, answers["refunds_due"]["payments"].as_array().unwrap().len());
}

fn refunds(payments: impl Iterator<Item = engine::PaymentView>) -> Value {
    let payment = |payment: engine::PaymentView| {
        let engine::Disposition::RefundDue(reason) = payment.disposition else { panic!("{payment:?}") };
        json!({
            "payment_id": payment.pay.id, "order": payment.pay.order.to_string(), "amount": payment.pay.amount,
            "result": "refund_due", "reason": reason.as_str(), "recorded_at_ms": payment.at.0,
        })
    };
    json!({ "payments": payments.map(payment).collect::<Vec<_>>() })
}

#[test]
fn embedded_ledgers_of_older_formats_read_as_they_did() {
    let homes = [(old_sqlite(), "sqlite-1"), (LedgerHome::MySql(old_mysql("mysql-2").into()), "mysql-2")];
    for (home, name) in homes {
        let older = home.source().audit().unwrap_err().to_string();
        assert!(older.contains("older format") && older.contains("serve on it once"), "{older}");
        let book = home.load().unwrap();
        assert_eq!(refunds(book.refunds_due()), answers(name)["refunds_due"], "{name}");
        check(&home.source(), name);
        // Once more, as every later start does.
        home.load().unwrap();
    }
}

/// A program that may not use a ledger migrated it before it was refused, which shut the ledger's own servers out.
#[test]
fn who_may_not_use_a_ledger_of_an_older_format_leaves_it_as_it_is() {
    let (cluster, embedded) = (old_mysql("cluster-2"), old_mysql("mysql-2"));
    let refused = MySqlLedger::open(cluster.options.clone()).unwrap_err();
    assert!(matches!(refused, mysql::OpenError::Profile { found: "cluster", .. }), "{refused}");
    let refused = SharedLedger::open(&embedded.options).unwrap_err();
    assert!(matches!(refused, mysql::OpenError::Profile { found: "embedded", .. }), "{refused}");
    let sqlite = old_sqlite();
    for source in [
        Source::MySql(Box::new(cluster.options.clone())),
        Source::MySql(Box::new(embedded.options.clone())),
        sqlite.source(),
    ] {
        assert!(source.is_a_shops().unwrap());
        assert!(source.audit().unwrap_err().to_string().contains("older format"));
    }
    let new = Database::shared();
    assert!(!Source::MySql(Box::new(new.options.clone())).is_a_shops().unwrap());
    assert!(!Source::Directory(tempfile::tempdir().unwrap().path().to_owned()).is_a_shops().unwrap());
}

#[test]
fn a_clusters_ledger_of_an_older_format_reads_as_it_did() {
    let database = old_mysql("cluster-2");
    let mut ledger = SharedLedger::open(&database.options).unwrap();
    let source = Source::MySql(Box::new(database.options.clone()));
    check(&source, "cluster-2");
    let answers = answers("cluster-2");
    let ids: Vec<engine::OrderId> = answers["requests"]
        .as_array()
        .unwrap()
        .iter()
        .map(|request| request["id"].as_str().unwrap().parse().unwrap())
        .collect();
    let found = ledger.lookup(&ids).unwrap();
    let rejected = found.iter().filter(|found| matches!(found, Some(Recorded::Rejected(_)))).count();
    assert_eq!((rejected, found.iter().flatten().count()), (2, ids.len()));
    for (found, request) in found.into_iter().zip(answers["requests"].as_array().unwrap()) {
        let buyer = match found.unwrap() {
            Recorded::Order { order, .. } => order.buyer,
            Recorded::Rejected(rejection) => rejection.buyer,
        };
        assert_eq!(buyer.to_string(), request["buyer"].as_str().unwrap());
    }
    let outbox = ledger.outbox(10, 0).unwrap();
    let [row] = &outbox[..] else { panic!("{outbox:?}") };
    let Change::Release(place) = row.change else { panic!("{row:?}") };
    assert_eq!((place.buyer, place.quantity), (engine::BuyerId(7), 1));
    assert!(ledger.queue_offsets().unwrap().iter().map(|(_, offset)| offset).sum::<u64>() > 20);
}

/// How each statement begins that brings a ledger of format 2 to the newest, in their order: of each script, and of what notes
/// its format.
fn statements_after_2() -> Vec<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("migrations/mysql");
    let mut scripts: Vec<PathBuf> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    scripts.sort();
    let mut statements = Vec::new();
    for script in &scripts[2..] {
        let script = std::fs::read_to_string(script).unwrap();
        statements.extend(script.split_inclusive(";\n").map(|statement| {
            let code = statement.lines().find(|line| !line.is_empty() && !line.starts_with("--")).unwrap();
            code.trim_end_matches(" (").to_owned()
        }));
        statements.push("REPLACE INTO meta VALUES ('version'".to_owned());
    }
    statements
}

/// Every start but the last is cut off before, and the next after a statement, at each statement of each script in turn.
#[test]
fn a_migration_that_is_cut_off_at_any_statement_is_finished_by_a_later_start() {
    let statements = statements_after_2();
    assert!(statements.len() > 20, "only {statements:?}");
    for (name, profile) in [("mysql-2", Profile::Embedded), ("cluster-2", Profile::Cluster)] {
        let database = old_mysql(name);
        let Options { host, port, .. } = &database.options;
        let proxy = Proxy::before(format!("{host}:{port}"));
        let through = Options { port: proxy.port, ..database.options.clone() };
        let mut cuts = 0;
        for statement in &statements {
            for cut in [Cut::BeforeServer, Cut::BeforeAnswer] {
                proxy.cut_next_of(statement, cut);
                cuts += 1;
                let opened = mysql::open(&through, profile);
                assert!(opened.is_err(), "{name}: it was to be cut off at {statement}");
                assert_eq!(proxy.cuts(), cuts);
            }
        }
        if name == "mysql-2" {
            MySqlLedger::open(through).unwrap().load().unwrap();
        } else {
            SharedLedger::open(&through).unwrap();
        }
        check(&Source::MySql(Box::new(database.options.clone())), name);
    }
}

/// The statements of its transactions, its queues and its tasks.
#[test]
fn a_server_of_the_older_format_that_still_runs_can_write_no_more() {
    let database = old_mysql("cluster-2");
    let mut old = database.connection();
    let of_old = [
        "SELECT next_seq, last_at FROM writer WHERE id = 1 FOR UPDATE",
        "UPDATE writer SET batch = batch + 1, next_seq = 51, last_at = 1 WHERE id = 1",
        "UPDATE writer SET batch = 45, next_seq = 51, last_at = 1 WHERE id = 1 AND generation = 0",
        "SELECT queue, next_offset, owner, owner = 0 OR lease_until < 1, generation FROM queue_offsets",
        "UPDATE leases SET owner = 1, held_until = 1 WHERE name = 'reconcile'",
        "INSERT INTO servers (id, address, seen_at) VALUES (1, 'a', 1)",
    ];
    for statement in of_old {
        old.query_drop("START TRANSACTION").unwrap();
        old.query_drop(statement).unwrap();
        old.query_drop("ROLLBACK").unwrap();
    }
    SharedLedger::open(&database.options).unwrap();
    for statement in of_old {
        let refused = old.query_drop(statement).unwrap_err();
        assert!(refused.to_string().contains("Unknown column"), "{statement}: {refused}");
    }
}

#[test]
fn a_server_that_runs_is_refused_by_name_when_a_newer_one_has_migrated() {
    let database = Database::shared();
    let mut ledger = SharedLedger::open(&database.options).unwrap();
    ledger.heartbeat(1, "here").unwrap();
    let lease = ledger.lease("reconcile", 1, 60_000).unwrap().expect("nobody has it");
    let mut connection = database.connection();
    connection.query_drop("UPDATE writer SET format = 7").unwrap();
    connection.query_drop("UPDATE servers SET alive_at = 5").unwrap();
    connection.query_drop("UPDATE leases SET leased_until = 5").unwrap();
    for refused in [
        ledger.heartbeat(1, "here").map(drop).unwrap_err(),
        ledger.lease("reconcile", lease.owner, 60_000).map(drop).unwrap_err(),
        ledger.consume(engine::UnixMs(1), &[], &[]).map(drop).unwrap_err(),
    ] {
        assert!(matches!(refused, LedgerError::Format { found: 7, known: 6 }), "{refused}");
        let text = refused.to_string();
        assert!(
            text.contains("format 7") && text.contains("format 6") && text.contains("stop this one"),
            "{text}"
        );
    }
    // It counts as alive no more, and keeps no task from the servers that can work.
    let left: Option<(i64, i64)> =
        connection.query_first("SELECT MAX(alive_at), MAX(leased_until) FROM servers, leases").unwrap();
    assert_eq!(left, Some((5, 5)));
}

#[test]
fn ledgers_of_newer_formats_and_of_unknown_kinds_are_refused_by_name() {
    for home in LedgerHome::each() {
        home.open();
        let kind = "INSERT INTO further_entries (seq, at, kind, body) VALUES (1, 1, 'turn', x'00')";
        home.tamper(kind);
        for refused in refusals(&home) {
            assert!(refused.contains("entry 1 is of the kind \"turn\""), "{refused}");
            assert!(refused.contains("run the release that wrote it"), "{refused}");
        }
        let version = match &home {
            LedgerHome::Sqlite(_) => "PRAGMA user_version = 9",
            LedgerHome::MySql(_) => "REPLACE INTO meta VALUES ('version', '9')",
        };
        match &home {
            LedgerHome::Sqlite(dir) => {
                rusqlite::Connection::open(dir.path().join(FILE_NAME))
                    .unwrap()
                    .execute_batch(version)
                    .unwrap();
            }
            LedgerHome::MySql(database) => database.connection().query_drop(version).unwrap(),
        }
        let known = if matches!(home, LedgerHome::Sqlite(_)) { "up to 5" } else { "up to 8" };
        for refused in refusals(&home) {
            assert!(refused.contains("format 9") && refused.contains(known), "{refused}");
            assert!(refused.contains("run the newer one"), "{refused}");
        }
    }
}

/// Of a writer, an audit, an export and a page of the feed.
fn refusals(home: &LedgerHome) -> [String; 4] {
    let text = |error: OpenError| {
        assert!(!error.is_damage(), "{error}");
        error.to_string()
    };
    [
        text(home.try_open().map(drop).unwrap_err()),
        text(home.source().audit().map(drop).unwrap_err()),
        text(home.source().export(0, &mut |_| ()).map(drop).unwrap_err()),
        text(home.source().changes(0, 10).map(drop).unwrap_err()),
    ]
}

fn options(dir: &Path, vfs: &str) -> sqlite::Options {
    let vfs = Some(vfs.to_owned());
    sqlite::Options { data_dir: dir.to_owned(), synchronous: Synchronous::Full, checkpoint_pages: 100, vfs }
}

/// From the N-th on every operation fails, for every N that the migration has: what is left is what a kill leaves.
#[test]
fn a_migration_of_a_file_that_fails_anywhere_is_finished_by_a_later_start() {
    let name = "formats";
    let vfs = FaultVfs::register(name);
    let mut failed = 0;
    for (operation, effect) in [
        (Operation::Write, Effect::IoError),
        (Operation::Write, Effect::ShortWrite),
        (Operation::Sync, Effect::IoError),
        (Operation::Grow, Effect::DiskFull),
    ] {
        for nth in 1.. {
            let home = old_sqlite();
            let LedgerHome::Sqlite(dir) = &home else { unreachable!("it is a file") };
            vfs.arm(Fault { operation, nth, effect, lasting: true, files: Which::Any });
            let opened = SqliteLedger::open(options(dir.path(), name));
            let fired = vfs.fired() > 0;
            assert!(fired || opened.is_ok(), "{operation:?} {nth}");
            failed += u32::from(opened.is_err());
            // A killed process does not close its files; what it wrote is there.
            std::mem::forget(opened);
            vfs.disarm();
            let copy = tempfile::tempdir().unwrap();
            for file in [FILE_NAME, "ledger.db-wal", "ledger.db-journal"] {
                if dir.path().join(file).exists() {
                    std::fs::copy(dir.path().join(file), copy.path().join(file)).unwrap();
                }
            }
            let copy = LedgerHome::Sqlite(copy);
            copy.load().unwrap();
            check(&copy.source(), "sqlite-1");
            if !fired {
                break;
            }
        }
    }
    assert!(failed > 50, "only {failed} migrations failed");
}
