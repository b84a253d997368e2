//! Audit, export and backup on a real ledger, also while its writer has it open.

use std::path::Path;

use engine::{
    Book, BuyerId, Command, Fingerprint, ItemSpec, OrderId, Pay, Payment, Placement, ProductId, SaleId,
    SaleSpec, Seq, UnixMs,
};
use server::ledger::Batch;
use server::ledger::sqlite::{Options, SqliteLedger, Synchronous};

use crate::run;

const ORDER: &str = "000000000000000000000000000000000000000b";

/// A writer that has written one sale, three orders, and the payment of the second.
pub(crate) struct Writer {
    pub(crate) ledger: SqliteLedger,
    book: Book,
}

impl Writer {
    pub(crate) fn on(data_dir: &Path) -> Self {
        let data_dir = data_dir.to_owned();
        let options = Options { data_dir, synchronous: Synchronous::Full, checkpoint_pages: 1000, vfs: None };
        let mut writer = Self { ledger: SqliteLedger::open(options).unwrap(), book: Book::new() };
        writer.write(Command::CreateSale(sale()), None);
        writer.place(10, None);
        writer.place(11, Some("{\"city\":\"A, \\\"B\\\"\"}"));
        writer.place(12, None);
        let order = OrderId { sku: writer.book.sku(SaleId(3), ProductId(30)).unwrap(), hash: 11 };
        writer.write(Command::Pay(Pay { id: "p-1".into(), order, amount: 4999 }), None);
        writer
    }

    pub(crate) fn place(&mut self, number: u64, address: Option<&str>) {
        let sku = self.book.sku(SaleId(3), ProductId(30)).unwrap();
        let id = OrderId { sku, hash: number.into() };
        let place =
            Placement { id, buyer: BuyerId(number.into()), quantity: 1, fingerprint: Fingerprint(number) };
        self.write(Command::Place(place), address);
    }

    fn write(&mut self, command: Command, address: Option<&str>) {
        let at = UnixMs(1_000 + self.book.next_seq().0);
        let seq = self.book.next_seq();
        self.book.execute(at, command).unwrap();
        let mut entries = Vec::new();
        self.book.drain_journal(&mut entries);
        let addresses: Vec<(Seq, Box<[u8]>)> =
            address.iter().map(|address| (seq, address.as_bytes().into())).collect();
        self.ledger
            .append(&Batch { entries: &entries, addresses: &addresses, buyers: &[], messages: &[], at })
            .unwrap();
    }
}

fn sale() -> SaleSpec {
    SaleSpec {
        id: SaleId(3),
        title: "Winter drop".to_owned(),
        currency: "EUR".to_owned(),
        starts_at: UnixMs(0),
        ends_at: UnixMs(1_000_000),
        payment: Payment::WithinMs(60_000),
        open_holds_per_buyer_max: Some(5),
        items: vec![ItemSpec {
            product: ProductId(30),
            title: "Shoe".to_owned(),
            description: String::new(),
            price: 4999,
            list_price: 9999,
            total: 100,
            limit: Some(1),
            image: None,
            line: None,
        }],
    }
}

#[test]
fn a_ledger_is_audited_while_it_is_open() {
    let directory = tempfile::tempdir().unwrap();
    let _writer = Writer::on(&directory.path().join("data"));
    let (code, stdout, stderr) = run(directory.path(), &["audit", "--data-dir", "data"]);
    assert_eq!((code, stderr.as_str()), (0, ""));
    let (table, verdict) = stdout.split_once("\n\n").unwrap();
    assert_eq!(
        table,
        "sale  product  title  total  available  held  sold  orders\n   3       30  Shoe     100         97     2     1       3"
    );
    assert!(verdict.starts_with("ok: every invariant holds; "), "{verdict}");
    assert!(verdict.ends_with(" entries, 3 orders, 0 refunds due\n"), "{verdict}");
}

#[test]
fn a_ledger_that_was_tampered_with_fails_its_audit() {
    let directory = tempfile::tempdir().unwrap();
    drop(Writer::on(&directory.path().join("data")));
    let database = rusqlite::Connection::open(directory.path().join("data/ledger.db")).unwrap();
    assert_eq!(database.execute("UPDATE orders SET quantity = 2 WHERE buyer = 12", []).unwrap(), 1);
    drop(database);
    let (code, stdout, stderr) = run(directory.path(), &["audit", "--data-dir", "data"]);
    assert_eq!(code, 1, "{stdout}{stderr}");
    assert!(stderr.starts_with("error: the ledger breaks "), "{stderr}");
    assert!(stdout.contains("\nnot ok, and the table is no result: it stops before "), "{stdout}");
}

#[test]
fn orders_are_exported_and_the_cursor_goes_on_from_there() {
    let directory = tempfile::tempdir().unwrap();
    let mut writer = Writer::on(&directory.path().join("data"));
    let export = |format: &str, since: &str| {
        run(
            directory.path(),
            &["orders", "export", "--data-dir", "data", "--format", format, "--since", since],
        )
    };
    let (code, csv, cursor) = export("csv", "0");
    assert_eq!(code, 0, "{cursor}");
    let lines: Vec<&str> = csv.lines().collect();
    assert_eq!(lines.len(), 4, "{csv}");
    assert_eq!(
        lines[0],
        "id,sale,product,buyer,quantity,unit_price,amount,currency,status,placed_at_ms,closed_at_ms,address,refunded"
    );
    let paid = lines.iter().find(|line| line.starts_with(ORDER)).unwrap();
    assert!(paid.contains(",3,30,11,1,4999,4999,EUR,paid,"), "{paid}");
    assert!(paid.ends_with(r#","{""city"":""A, \""B\""""}",0"#), "{paid}");

    let (_, jsonl, _) = export("jsonl", "0");
    let paid = jsonl.lines().find(|line| line.contains(ORDER)).unwrap();
    let paid: serde_json::Value = serde_json::from_str(paid).unwrap();
    assert_eq!((&paid["address"]["city"], &paid["amount"]), (&"A, \"B\"".into(), &4999.into()));

    writer.place(13, None);
    let (code, jsonl, next) = export("jsonl", cursor.trim_end());
    assert_eq!(code, 0, "{next}");
    let order: serde_json::Value = serde_json::from_str(&jsonl).unwrap();
    assert_eq!((&order["buyer"], &order["status"]), (&"13".into(), &"held".into()));
    assert_eq!(order["closed_at_ms"], serde_json::Value::Null);
    assert_eq!(export("jsonl", next.trim_end()), (0, String::new(), next));
}

#[test]
fn a_backup_of_an_open_ledger_restores_as_the_help_says() {
    let directory = tempfile::tempdir().unwrap();
    let _writer = Writer::on(&directory.path().join("data"));
    let backup = ["backup", "--data-dir", "data", "--to", "copy.db"];
    assert_eq!(run(directory.path(), &backup), (0, "copy.db: written\n".to_owned(), String::new()));
    std::fs::create_dir(directory.path().join("restored")).unwrap();
    std::fs::copy(directory.path().join("copy.db"), directory.path().join("restored/ledger.db")).unwrap();
    let original = run(directory.path(), &["audit", "--data-dir", "data"]);
    assert_eq!(run(directory.path(), &["audit", "--data-dir", "restored"]), original);
    let (code, _, stderr) = run(directory.path(), &backup);
    assert_eq!(
        (code, stderr.as_str()),
        (64, "error: copy.db exists already; give another file, or remove it\n")
    );
}

#[test]
fn a_wrong_directory_is_said() {
    let directory = tempfile::tempdir().unwrap();
    for arguments in [
        &["audit", "--data-dir", "nowhere"][..],
        &["orders", "export", "--data-dir", "nowhere", "--format", "csv"],
        &["backup", "--data-dir", "nowhere", "--to", "copy.db"],
    ] {
        let (code, stdout, stderr) = run(directory.path(), arguments);
        assert_eq!((code, stdout.as_str()), (64, ""), "{arguments:?}");
        assert_eq!(stderr, "error: there is no ledger at nowhere/ledger.db; is --data-dir right?\n");
    }
}

#[test]
fn a_ledger_that_can_not_be_opened_is_no_failed_check() {
    let directory = tempfile::tempdir().unwrap();
    drop(Writer::on(&directory.path().join("data")));
    std::fs::create_dir(directory.path().join("data/ledger.db-wal")).unwrap();
    std::os::unix::fs::symlink("loop", directory.path().join("loop")).unwrap();
    for data_dir in ["data", "loop"] {
        for arguments in
            [&["audit"][..], &["orders", "export", "--format", "csv"], &["backup", "--to", "copy.db"]]
        {
            let arguments = [arguments, &["--data-dir", data_dir]].concat();
            let (code, _, stderr) = run(directory.path(), &arguments);
            assert_eq!(code, 69, "{arguments:?}: {stderr}");
            assert!(stderr.starts_with("error: cannot "), "{arguments:?}: {stderr}");
        }
    }
}
