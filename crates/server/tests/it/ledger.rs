//! Conformance of the ledger's backends: the same histories, the same results.

use std::collections::{BTreeSet, HashMap};
use std::path::Path;

use ::mysql::prelude::Queryable;
use engine::{Book, Command, Entry, Event, Seq, Status, UnixMs};
use server::clock::Notes;
use server::ledger::sqlite::FILE_NAME;
use server::ledger::{Batch, Ledger, OpenError, OrderLine, mysql, sqlite};

use crate::history::{Random, buyer, commands, sale, seen, texts};
use crate::places::LedgerHome;

/// Carries out a batch of commands and appends what came of it.
pub(crate) fn commit(book: &mut Book, ledger: &mut Ledger, at: u64, commands: Vec<Command>) -> Vec<Entry> {
    let now = UnixMs(at);
    for command in commands {
        // Refusals are part of a history; what matters here is what was recorded.
        drop(book.execute(now, command));
    }
    book.expire_due(now, 1_000);
    book.call_due(now, 1_000, u32::MAX);
    let mut entries = Vec::new();
    book.drain_journal(&mut entries);
    let addresses: Vec<(Seq, Box<[u8]>)> = entries
        .iter()
        .filter(|entry| matches!(entry.event, Event::OrderPlaced { .. }) && !entry.seq.0.is_multiple_of(3))
        .map(|entry| (entry.seq, format!("{{\"city\":\"No. {}\"}}", entry.seq.0).into_bytes().into()))
        .collect();
    ledger
        .append(&Batch {
            entries: &entries,
            addresses: &addresses,
            buyers: &texts(&entries),
            messages: &[],
            at: now,
        })
        .unwrap();
    entries
}

pub(crate) fn history(book: &mut Book, ledger: &mut Ledger, seed: u64, batches: u64) -> u64 {
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

fn correct_clock(book: &mut Book, ledger: &mut Ledger, from: u64, to: u64) {
    book.correct_clock(UnixMs(from), UnixMs(to), "operator").unwrap();
    commit(book, ledger, to, Vec::new());
}

#[test]
fn the_clocks_notes_are_kept_and_void_after_a_correction() {
    for home in LedgerHome::each() {
        let mut ledger = home.open();
        assert_eq!(ledger.clock_notes().unwrap(), Notes::default());
        let never = Some(UnixMs(i64::MAX.unsigned_abs()));
        for (noted_at, confirmed_since) in [(Some(UnixMs(9)), never), (Some(UnixMs(7)), Some(UnixMs(3)))] {
            let notes = Notes { noted_at, confirmed_since };
            ledger.note_clock(&notes).unwrap();
            assert_eq!(ledger.clock_notes().unwrap(), notes, "{home:?}");
        }
        let mut book = ledger.load().unwrap();
        commit(&mut book, &mut ledger, 5_000, vec![Command::CreateSale(sale(1))]);
        correct_clock(&mut book, &mut ledger, 6_000, 500);
        commit(&mut book, &mut ledger, 500, vec![Command::Pause(engine::SaleId(1))]);
        let notes = Notes { noted_at: Some(UnixMs(500)), confirmed_since: Some(UnixMs(500)) };
        assert_eq!(ledger.clock_notes().unwrap(), notes, "{home:?}");
        let again = ledger.load().unwrap();
        assert_eq!((seen(&again), again.corrections_len()), (seen(&book), 1), "{home:?}");
        assert_eq!(home.source().audit().unwrap().broken, Vec::<String>::new());
    }
}

#[test]
fn addresses_are_as_old_as_the_corrected_clock_says() {
    for home in LedgerHome::each() {
        let mut ledger = home.open();
        let mut book = ledger.load().unwrap();
        let place_one = |hash: u128| {
            let id = engine::OrderId { sku: engine::SkuId(1), hash };
            let buyer = engine::BuyerId(1);
            Command::Place(engine::Placement { id, buyer, quantity: 1, fingerprint: engine::Fingerprint(0) })
        };
        // Too early by 10,000 ms, then too late by 6,000.
        commit(&mut book, &mut ledger, 2_000, vec![Command::CreateSale(sale(1)), place_one(1)]);
        correct_clock(&mut book, &mut ledger, 2_000, 12_000);
        commit(&mut book, &mut ledger, 20_000, vec![place_one(2)]);
        correct_clock(&mut book, &mut ledger, 20_000, 14_000);
        commit(&mut book, &mut ledger, 15_000, vec![place_one(3)]);
        // By the clock as it is now they were placed at 6,000, at 14,000 and at 15,000.
        for (cutoff_ms, purged) in [(6_000, 0), (6_001, 1), (14_000, 0), (14_001, 1), (15_001, 1)] {
            assert_eq!(ledger.purge_addresses(cutoff_ms, 10).unwrap(), purged, "{cutoff_ms}, {home:?}");
        }
    }
}

#[test]
fn what_was_appended_comes_back_as_the_same_book() {
    for seed in 0..12 {
        let mut states = Vec::new();
        for home in LedgerHome::each() {
            let mut book = Book::new();
            for part in 0..3 {
                let mut ledger = home.open();
                let loaded = ledger.load().unwrap();
                assert_eq!(seen(&loaded), seen(&book), "seed {seed}, part {part}, {home:?}");
                book = loaded;
                let at = history(&mut book, &mut ledger, seed * 10 + part, 60);
                correct_clock(&mut book, &mut ledger, at, if part == 0 { at / 2 } else { at + 100 });
                if part == 1 {
                    ledger.close().unwrap();
                }
            }
            let audit = home.source().audit().unwrap();
            assert_eq!(audit.broken, Vec::<String>::new(), "seed {seed}, {home:?}");
            assert!(audit.complete);
            assert_eq!(audit.entries + 1, book.next_seq().0);
            assert_eq!(audit.orders, book.orders_len() as u64);
            assert!(audit.orders > 30, "seed {seed}: the history placed only {} orders", audit.orders);
            for (found, sku) in audit.skus.iter().zip(0..) {
                let stock = book.stock(engine::SkuId(sku)).unwrap();
                let expected = (stock.total(), stock.available(), stock.held(), stock.sold());
                assert_eq!((found.total, found.available, found.held, found.sold), expected);
            }
            states.push((seen(&book), exported(&home)));
        }
        assert_eq!(states[0], states[1], "seed {seed}: the backends differ");
    }
}

/// Orders that follow each other are stored several at once, with what else was done before and after them.
#[test]
fn the_orders_of_a_large_batch_are_stored_each_with_its_address_and_buyer() {
    let mut large = sale(3);
    large.items[1].total = 1_000;
    let place_one = |number: u64| {
        let id = engine::OrderId { sku: engine::SkuId(1), hash: number.into() };
        let (buyer, fingerprint) = (buyer(number % 20).id, engine::Fingerprint(number));
        Command::Place(engine::Placement { id, buyer, quantity: 1, fingerprint })
    };
    for home in LedgerHome::each() {
        let mut ledger = home.open();
        let mut book = Book::new();
        commit(&mut book, &mut ledger, 2_000, vec![Command::CreateSale(large.clone())]);
        let mut placed = 0;
        for (orders, at) in [15, 16, 17, 56].into_iter().zip(3_000..) {
            let mut commands: Vec<Command> = (placed..placed + orders).map(place_one).collect();
            // In the midst of the last ones.
            commands.insert(commands.len().min(20), Command::Pause(engine::SaleId(3)));
            commands.insert(commands.len().min(21), Command::Resume(engine::SaleId(3)));
            commit(&mut book, &mut ledger, at, commands);
            placed += orders;
        }
        assert_eq!(seen(&ledger.load().unwrap()), seen(&book), "{home:?}");
        let lines = exported(&home);
        assert_eq!((lines.len() as u64, book.orders_len() as u64), (placed, placed), "{home:?}");
        for line in lines {
            let order = book.order(line.id).unwrap();
            let address = format!("{{\"city\":\"No. {}\"}}", order.seq.0);
            let has_one = !order.seq.0.is_multiple_of(3);
            assert_eq!(line.address, has_one.then_some(address), "{home:?}");
            let asked = buyer(u64::try_from(line.id.hash % 20).unwrap());
            assert_eq!(line.buyer, asked.text.map_or_else(|| asked.id.to_string(), String::from), "{home:?}");
        }
    }
}

#[test]
fn entries_about_sales_are_read_alone_and_from_one_on() {
    for home in LedgerHome::each() {
        let (mut ledger, mut book) = (home.open(), Book::new());
        let id = engine::SaleId(1);
        let created = vec![Command::CreateSale(sale(1)), Command::Pause(id), Command::Resume(id)];
        commit(&mut book, &mut ledger, 1_000, created);
        history(&mut book, &mut ledger, 7, 5);
        let at = book.last_at().0;
        commit(&mut book, &mut ledger, at, vec![Command::CreateSale(sale(2)), Command::End(id)]);
        let read = |after: Seq| home.source().sale_entries(after).unwrap();
        let all = read(Seq(0));
        let mut sales = engine::Sales::new();
        all.iter().for_each(|entry| sales.replay(entry).unwrap());
        let of = |sales: &engine::Sales| sales.iter().map(|sale| format!("{sale:?}")).collect::<Vec<_>>();
        assert_eq!(of(&sales), of(book.registry()), "{home:?}");
        assert!(all.len() > 3 && (all.len() as u64) < all.last().unwrap().seq.0, "{home:?}");
        assert_eq!(format!("{:?}", read(all[1].seq)), format!("{:?}", &all[2..]), "{home:?}");
        assert!(read(sales.seen()).is_empty());
    }
}

fn exported(home: &LedgerHome) -> Vec<OrderLine> {
    let mut lines = Vec::new();
    home.source().export(0, &mut |line| lines.push(line)).unwrap();
    lines
}

#[test]
fn the_id_secret_is_made_once() {
    for home in LedgerHome::each() {
        let first = home.open().id_secret().unwrap();
        assert_ne!(first, [0; 16]);
        assert_eq!(home.open().id_secret().unwrap(), first);
    }
}

#[test]
fn a_demo_takes_an_empty_ledger_or_its_own() {
    for home in LedgerHome::each() {
        assert!(!home.open().is_for_demo(false).unwrap());
        assert!(home.open().is_for_demo(true).unwrap());
        assert!(home.open().is_for_demo(false).unwrap());
    }
}

#[test]
fn readers_refuse_what_is_not_there() {
    for home in LedgerHome::each() {
        let refused = home.source().audit().unwrap_err();
        assert!(
            matches!(
                refused,
                OpenError::Sqlite(sqlite::OpenError::Missing { .. })
                    | OpenError::MySql(mysql::OpenError::Missing { .. })
            ),
            "{refused}"
        );
        match &home {
            LedgerHome::Sqlite(dir) => std::fs::write(dir.path().join(FILE_NAME), "no database").unwrap(),
            LedgerHome::MySql(database) => {
                database.connection().query_drop("CREATE TABLE meta (other INT)").unwrap();
            }
        }
        for refused in [home.source().audit().unwrap_err(), home.try_open().unwrap_err()] {
            assert!(
                matches!(
                    refused,
                    OpenError::Sqlite(sqlite::OpenError::NotALedger { .. })
                        | OpenError::MySql(mysql::OpenError::NotALedger { .. })
                ),
                "{refused}"
            );
        }
    }
}

#[test]
fn an_export_has_every_order_once_and_goes_on_from_its_cursor() {
    for home in LedgerHome::each() {
        let mut ledger = home.open();
        let mut book = Book::new();
        history(&mut book, &mut ledger, 77, 150);
        let mut known: HashMap<String, (Status, u64)> = HashMap::new();
        let mut take = |line: OrderLine| {
            assert!(known.insert(line.id.to_string(), stands(&line)).is_none(), "{} came twice", line.id);
            assert_eq!(line.address.is_some(), !book.order(line.id).unwrap().seq.0.is_multiple_of(3));
        };
        let cursor = home.source().export(0, &mut take).unwrap();
        assert_eq!(known.len(), book.orders_len());
        history(&mut book, &mut ledger, 78, 60);
        let mut changed = 0;
        let mut take = |line: OrderLine| {
            changed += 1;
            known.insert(line.id.to_string(), stands(&line));
        };
        home.source().export(cursor, &mut take).unwrap();
        assert!(changed > 0);
        assert_eq!(known.len(), book.orders_len());
        assert_are_of_book(&known, &book);
    }
}

/// Status, and what of it is refunded.
fn stands(line: &OrderLine) -> (Status, u64) {
    (line.status, line.refunded)
}

fn assert_are_of_book(known: &HashMap<String, (Status, u64)>, book: &Book) {
    for (id, stands) in known {
        let order = book.order(id.parse().unwrap()).unwrap();
        assert_eq!((order.status, order.refunded.amount), *stands, "{id}");
    }
    for refunded in [Status::Paid, Status::Refunded] {
        assert!(known.values().any(|(status, amount)| *status == refunded && *amount > 0), "{refunded:?}");
    }
}

#[test]
fn the_feed_reaches_the_same_state_page_by_page() {
    for home in LedgerHome::each() {
        let mut ledger = home.open();
        let mut book = Book::new();
        history(&mut book, &mut ledger, 5, 120);
        let source = home.source();
        let mut known: HashMap<String, (Status, u64)> = HashMap::new();
        let mut since = 0;
        loop {
            let page = source.changes(since, 7).unwrap();
            for line in page.orders {
                known.insert(line.id.to_string(), stands(&line));
            }
            since = page.cursor;
            if !page.more {
                break;
            }
        }
        assert_eq!(since + 1, book.next_seq().0);
        assert_eq!(known.len(), book.orders_len());
        assert_are_of_book(&known, &book);
        // A cursor of another ledger, or of the time before a backup was restored, must not look like "no news".
        let page = source.changes(since + 1, 7).map(|_| ());
        let export = source.export(since + 1, &mut |_| ()).map(|_| ());
        for ahead in [page, export] {
            assert!(ahead.is_err_and(|error| error.is_cursor_ahead()));
        }
    }
}

#[test]
fn addresses_go_after_their_time_and_no_sooner() {
    for home in LedgerHome::each() {
        let mut ledger = home.open();
        let mut book = Book::new();
        let end = history(&mut book, &mut ledger, 9, 150);
        let before = exported(&home);
        let cutoff = end / 2;
        while ledger.purge_addresses(cutoff, 3).unwrap() > 0 {}
        for (old, new) in before.iter().zip(exported(&home)) {
            let expected = if old.placed_at.0 < cutoff { None } else { old.address.clone() };
            assert_eq!(new.address, expected);
        }
        assert!(
            before.iter().any(|old| old.placed_at.0 < cutoff && old.address.is_some()),
            "nothing was there to purge"
        );
        if let LedgerHome::Sqlite(dir) = &home {
            gone_from_the_file(dir.path(), &mut ledger, &before, |line| line.placed_at.0 < cutoff);
        }
        assert_eq!(home.source().audit().unwrap().broken, Vec::<String>::new());
        // The ledger goes on after a purge.
        history(&mut book, &mut ledger, 10, 20);
        drop(ledger);
        assert_eq!(seen(&home.load().unwrap()), seen(&book));
    }
}

/// Out of SQLite's file too, without a stop and without more orders.
pub(crate) fn gone_from_the_file(
    dir: &Path,
    ledger: &mut Ledger,
    before: &[OrderLine],
    gone: impl Fn(&OrderLine) -> bool,
) {
    while !ledger.maintain().unwrap().is_some_and(|checkpoint| checkpoint.complete) {
        std::thread::yield_now();
    }
    let file = std::fs::read(dir.join(FILE_NAME)).unwrap();
    for line in before {
        if let Some(address) = &line.address {
            let found = file.windows(address.len()).any(|bytes| bytes == address.as_bytes());
            assert_eq!(found, !gone(line), "{address}");
        }
    }
}

#[test]
fn messages_are_kept_and_go_with_their_time() {
    for home in LedgerHome::each() {
        let mut ledger = home.open();
        let count = |home: &LedgerHome| match home {
            LedgerHome::Sqlite(dir) => {
                let connection = rusqlite::Connection::open(dir.path().join(FILE_NAME)).unwrap();
                connection.query_row("SELECT count(*) FROM messages", [], |row| row.get(0)).unwrap()
            }
            LedgerHome::MySql(database) => {
                let mut connection = database.connection();
                connection.query_first("SELECT COUNT(*) FROM messages").unwrap().unwrap_or(0)
            }
        };
        for at in [1_000, 2_000, 3_000] {
            let body: Box<[u8]> = format!("'\\\0 {at}").into_bytes().into();
            let messages = [body.clone(), body];
            let batch =
                Batch { entries: &[], addresses: &[], buyers: &[], messages: &messages, at: UnixMs(at) };
            ledger.append(&batch).unwrap();
        }
        assert_eq!(count(&home), 6);
        assert_eq!(ledger.purge_addresses(2_500, 3).unwrap(), 3);
        assert_eq!(ledger.purge_addresses(2_500, 3).unwrap(), 1);
        assert_eq!(ledger.purge_addresses(2_500, 3).unwrap(), 0);
        assert_eq!(count(&home), 2);
    }
}

#[test]
fn an_audit_names_what_is_broken() {
    let tampered: [(&str, &str); 6] = [
        (
            "INSERT INTO orders (seq, at, sku, hash, buyer, quantity, unit_price, fingerprint)
             SELECT (SELECT max(seq) + 1 FROM orders), at, sku, hash, buyer, 999, unit_price, fingerprint
             FROM orders ORDER BY seq DESC LIMIT 1",
            "exists already",
        ),
        ("UPDATE orders SET quantity = 1000 WHERE seq = (SELECT max(seq) FROM orders)", "oversold"),
        ("DELETE FROM orders WHERE seq = (SELECT max(seq) FROM orders)", "gap"),
        ("UPDATE orders SET sku = 99 WHERE seq = (SELECT max(seq) FROM orders)", "SKU is unknown"),
        ("UPDATE orders SET at = 0 WHERE seq = (SELECT max(seq) FROM orders)", "time runs backwards"),
        ("UPDATE sale_events SET kind = 'burnt' WHERE seq = 1", "makes no sense"),
    ];
    for (sql, expected) in tampered {
        for home in LedgerHome::each() {
            let mut ledger = home.open();
            let mut book = Book::new();
            let place_order = |hash| {
                Command::Place(engine::Placement {
                    id: engine::OrderId { sku: engine::SkuId(1), hash },
                    buyer: engine::BuyerId(1),
                    quantity: 1,
                    fingerprint: engine::Fingerprint(0),
                })
            };
            let commands = vec![Command::CreateSale(sale(1)), place_order(1), place_order(2)];
            commit(&mut book, &mut ledger, 2_000, commands);
            if expected == "gap" {
                commit(&mut book, &mut ledger, 2_001, vec![Command::Pause(engine::SaleId(1))]);
            }
            drop(ledger);
            home.tamper(sql);
            let audit = home.source().audit().unwrap();
            assert!(audit.broken.iter().any(|line| line.contains(expected)), "{sql}: {:?}", audit.broken);
            assert!(home.load().is_err(), "{sql}: a broken ledger must not be served");
        }
    }
}

#[test]
fn an_audit_that_had_to_stop_says_so() {
    for home in LedgerHome::each() {
        let mut ledger = home.open();
        let mut book = Book::new();
        history(&mut book, &mut ledger, 33, 60);
        drop(ledger);
        let whole = home.source().audit().unwrap();
        assert!(whole.complete && whole.entries + 1 == book.next_seq().0, "{whole:?}");
        let middle = whole.entries / 2;
        let order = format!("(SELECT min(seq) FROM orders WHERE seq > {middle})");
        home.tamper(&format!("UPDATE orders SET quantity = 1000 WHERE seq = {order}"));
        let part = home.source().audit().unwrap();
        assert!(!part.complete && !part.broken.is_empty(), "{part:?}");
        assert!((middle..whole.entries).contains(&part.entries), "{part:?}");
        assert!(part.orders < whole.orders);
    }
}

#[test]
fn a_number_that_is_far_off_is_a_gap_and_costs_no_time_and_no_memory() {
    for home in LedgerHome::each() {
        let mut ledger = home.open();
        history(&mut Book::new(), &mut ledger, 33, 60);
        drop(ledger);
        let far = 1_u64 << 60;
        home.tamper(&format!("UPDATE orders SET seq = {far} WHERE seq = (SELECT max(seq) FROM orders)"));
        let audit = home.source().audit().unwrap();
        assert!(audit.broken[0].contains("gap") && !audit.complete, "{:?}", audit.broken);
        assert!(home.load().is_err());
    }
}

#[test]
fn a_report_is_what_the_orders_add_up_to_and_stays_so_as_of_its_entry() {
    for home in LedgerHome::each() {
        let mut ledger = home.open();
        let mut book = Book::new();
        history(&mut book, &mut ledger, 34, 60);
        let source = home.source();
        let mut orders = Vec::new();
        source.export(0, &mut |order| orders.push(order)).unwrap();
        let sales: BTreeSet<_> = book.sales().map(|sale| sale.spec.id).collect();
        let mut reports = Vec::new();
        for sale in sales {
            let (audit, report) = source.report(sale, None).unwrap();
            let report = report.expect("it is a sale of the book");
            let count = |status| {
                let of = orders.iter().filter(|order| order.sale == sale && order.status == status);
                of.count() as u64
            };
            let found = report.orders;
            let by_status =
                [found.held, found.paid + found.paid_late, found.cancelled, found.expired, found.refunded];
            let statuses = [Status::Held, Status::Paid, Status::Cancelled, Status::Expired, Status::Refunded];
            assert_eq!(by_status, statuses.map(count), "{home:?}: {sale:?}");
            let skus: Vec<_> = audit.skus.iter().filter(|sku| sku.sale == sale).collect();
            assert_eq!(report.items.len(), skus.len());
            for (item, sku) in report.items.iter().zip(skus) {
                let found = (item.total, item.available, item.held, item.sold, item.orders.placed);
                assert_eq!(found, (sku.total, sku.available, sku.held, sku.sold, sku.orders), "{home:?}");
            }
            reports.push((sale, report));
        }
        assert!(reports.iter().map(|(_, report)| report.orders.placed).sum::<u64>() > 20, "{home:?}");
        history(&mut book, &mut ledger, 35, 30);
        for (sale, report) in reports {
            let (audit, again) = source.report(sale, Some(report.entry)).unwrap();
            assert_eq!((audit.entries, audit.broken), (report.entry, Vec::new()), "{home:?}");
            assert_eq!(again, Some(report), "{home:?}");
        }
        let ahead = source.report(engine::SaleId(1), Some(1 << 40)).unwrap_err().to_string();
        assert!(ahead.contains("ahead of this ledger"), "{ahead}");
        assert_eq!(source.report(engine::SaleId(999), None).unwrap().1, None);
    }
}
