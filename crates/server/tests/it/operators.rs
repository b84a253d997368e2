//! Operators and what they did, on every backend: they come back as they were written, and a page is bounded.

use engine::{Adjust, Book, By, Command, Operator, Role, SaleChange, SaleId, SkuId, UnixMs};
use server::ledger::{Batch, Ledger, OperatorLog, OperatorLogAsked};

use crate::history::sale;
use crate::ledger::commit;
use crate::places::LedgerHome;

/// As long as can be, so that what bounds a row is met.
pub(crate) fn longest(role: Role) -> Operator {
    let (name, by, added_at) = ("a".repeat(32).into(), "b".repeat(32).into(), UnixMs((1 << 52) - 1));
    Operator { name, role, digest: [0xAB; 32], added_at, by, expires_at: Some(UnixMs(1 << 52)) }
}

fn operate(book: &mut Book, ledger: &mut Ledger, command: Command, why: &str) {
    let by = By { who: "root".into(), why: why.into() };
    book.execute_by(UnixMs(5_000), command, by).unwrap();
    let mut entries = Vec::new();
    book.drain_journal(&mut entries);
    let at = UnixMs(5_000);
    ledger.append(&Batch { entries: &entries, addresses: &[], buyers: &[], messages: &[], at }).unwrap();
}

fn page(home: &LedgerHome, before: u64, sale: Option<SaleId>, max: u64) -> OperatorLog {
    home.source().operator_log(&OperatorLogAsked { before, sale, max }).unwrap()
}

fn said(page: &OperatorLog) -> Vec<(&str, &str, &str)> {
    page.actions
        .iter()
        .map(|action| (&*action.operated.what, &*action.operated.about, &*action.operated.by.why))
        .collect()
}

#[test]
fn operators_and_what_they_did_come_back_as_they_were() {
    for home in LedgerHome::each() {
        let (mut ledger, mut book) = (home.open(), Book::new());
        assert_eq!(page(&home, u64::MAX, None, 9), OperatorLog::default());
        commit(&mut book, &mut ledger, 1_000, vec![Command::CreateSale(sale(1))]);
        let first = longest(Role::Operator);
        operate(&mut book, &mut ledger, Command::AddOperator(Box::new(first.clone())), "");
        let why = "\"O'Neil\" \\ \u{6700}\u{521d} %";
        operate(&mut book, &mut ledger, Command::Pause(SaleId(1)), why);
        let again = ledger.load().unwrap();
        assert_eq!(again.operators().get(&first.name), Some(&first), "{home:?}");
        operate(&mut book, &mut ledger, Command::RevokeOperator(first.name.clone()), "left");
        assert_eq!(ledger.load().unwrap().operators(), book.operators());
        let name = &*first.name;
        let expected =
            [("operator_revoked", name, "left"), ("sale_paused", "", why), ("operator_added", name, "")];
        let all = page(&home, u64::MAX, None, 9);
        assert_eq!((said(&all), all.older), (expected.to_vec(), None), "{home:?}");
        let newest = page(&home, u64::MAX, None, 2);
        assert_eq!(said(&newest), expected[..2]);
        assert_eq!(said(&page(&home, newest.older.unwrap(), None, 2)), expected[2..]);
        assert_eq!(said(&page(&home, u64::MAX, Some(SaleId(1)), 9)), expected[1..2]);
        assert_eq!(home.source().audit().unwrap().broken, Vec::<String>::new());
    }
}

#[test]
fn what_was_changed_is_said_from_what_to_what() {
    for home in LedgerHome::each() {
        let (mut ledger, mut book) = (home.open(), Book::new());
        commit(&mut book, &mut ledger, 1_000, vec![Command::CreateSale(sale(1))]);
        let change = SaleChange { payment_ms: Some(60_000), ..SaleChange::default() };
        operate(&mut book, &mut ledger, Command::ChangeSale { sale: SaleId(1), change }, "");
        for (how, units) in [(Adjust::Restock, 7), (Adjust::Correct, 2)] {
            let adjust = Command::Adjust { sku: SkuId(0), how, units, key: units.to_string().into() };
            operate(&mut book, &mut ledger, adjust, "");
        }
        let expected = [
            ("corrected", "product 1, 2 units: 27 -> 25", ""),
            ("restocked", "product 1, 7 units: 20 -> 27", ""),
            ("sale_changed", "payment_s 0 -> 60", ""),
        ];
        assert_eq!(said(&page(&home, u64::MAX, None, 9)), expected, "{home:?}");
        assert_eq!(home.source().audit().unwrap().broken, Vec::<String>::new());
    }
}

/// Of a night with a line, only entries of the line were looked at, and nothing was found.
#[test]
fn what_operators_did_is_found_whatever_else_there_is() {
    for home in LedgerHome::each() {
        let (mut ledger, mut book) = (home.open(), Book::new());
        commit(&mut book, &mut ledger, 1_000, vec![Command::CreateSale(sale(1))]);
        operate(&mut book, &mut ledger, Command::Pause(SaleId(1)), "first");
        drop(ledger);
        for thousand in 1..=25 {
            let row = |number| format!("({}, 1, 'line_joined', x'00')", thousand * 1_000 + number);
            let rows: Vec<_> = (0..1_000).map(row).collect();
            let rows = rows.join(", ");
            let insert = format!("INSERT INTO further_entries (seq, at, kind, body) VALUES {rows}");
            assert_eq!(home.execute(&insert), 1_000);
        }
        let found = page(&home, u64::MAX, None, 9);
        assert_eq!((said(&found), found.older), (vec![("sale_paused", "", "first")], None), "{home:?}");
    }
}
