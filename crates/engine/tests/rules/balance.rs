//! Setting the available units of all items of a sale: the plan, and that all of it is carried out or none.

use engine::balance::{Balance, plan};
use engine::handover::{Claim, Grant};
use engine::rules::Declined;
use engine::working_set::{Loaded, Needs, Operation, SkuState, WorkingSet};
use engine::{
    Adjust, Book, Command, Entry, Event, OrderId, ProductId, Refusal, Sales, Seq, SkuId, Stock, UnixMs,
    limits,
};

use crate::shop::{START, sale_of};

fn item(sku: u32, total: u64, available: u64) -> Balance {
    Balance::without_line(SkuId(sku), total, available)
}

fn adjust(sku: u32, how: Adjust, units: u64) -> Command {
    Command::Adjust { sku: SkuId(sku), how, units, key: "balance 9".into() }
}

#[test]
fn a_plan_moves_what_differs() {
    let max = limits::TOTAL_MAX;
    let too_many = Err(Refusal::InvalidChange("an item may have at most 1,000,000,000,000 units"));
    let rows = [
        (vec![], 5, Ok(vec![])),
        (vec![item(0, 9, 5)], 5, Ok(vec![])),
        (
            vec![item(0, 9, 2), item(1, 7, 7)],
            5,
            Ok(vec![adjust(0, Adjust::Restock, 3), adjust(1, Adjust::Correct, 2)]),
        ),
        (vec![item(0, 9, 5)], 0, Ok(vec![adjust(0, Adjust::Correct, 5)])),
        // Held and sold units count to the total.
        (vec![item(0, 10, 0)], max - 10, Ok(vec![adjust(0, Adjust::Restock, max - 10)])),
        (vec![item(1, 3, 3), item(0, 10, 0)], max - 9, too_many.clone()),
        (vec![item(0, 0, 0)], u64::MAX, too_many),
    ];
    for (items, available, expected) in rows {
        assert_eq!(plan(&items, available, Seq(9)), expected, "{items:?} to {available}");
    }
}

/// A sale of two items of 5 units each.
fn two_items() -> (Book, Vec<Entry>) {
    let mut spec = sale_of(5);
    spec.items.push(spec.items[0].clone());
    spec.items[1].product = ProductId(30);
    let (mut book, mut ledger) = (Book::new(), Vec::new());
    book.execute(UnixMs(START), Command::CreateSale(spec)).expect("the sale can be");
    book.drain_journal(&mut ledger);
    (book, ledger)
}

#[test]
fn a_book_carries_a_plan_out() {
    let (mut book, _) = two_items();
    for available in [9, 2, 2, 0, 5] {
        let items = [0, 1].map(|sku| Balance::of(&book, SkuId(sku)));
        for command in plan(&items, available, book.next_seq()).expect("so many can be") {
            book.execute(UnixMs(START), command).expect("a plan is carried out");
        }
        assert!(
            [0, 1]
                .map(SkuId)
                .iter()
                .all(|sku| book.stock(*sku).map(|stock| stock.available()) == Some(available))
        );
    }
    book.check_invariants().expect("no invariant is broken");
}

#[test]
fn a_working_set_carries_all_out_or_none() {
    let name = |sku, _: &str| OrderId { sku, hash: 1 };
    let (_, ledger) = two_items();
    let correction = |grant| {
        let command = adjust(1, Adjust::Correct, 2);
        Operation::of(command, grant).expect("it places nothing")
    };
    let restock = Operation::of(adjust(0, Adjust::Restock, 4), Grant::NotAsked).expect("it places nothing");
    let claim = Claim::Correction { id: OrderId { sku: SkuId(1), hash: 1 }, units: 2 };
    let rows = [
        (Grant::NotAsked, Some(Declined::NeedsClaim(claim))),
        (Grant::Taken { epoch: 6 }, Some(Declined::NeedsClaim(claim))),
        (Grant::SoldOut, Some(Declined::Refused(Refusal::CorrectionTooLarge(None)))),
        (Grant::Taken { epoch: 7 }, None),
    ];
    for (grant, refused) in rows {
        let mut sales = Sales::new();
        let mut set = WorkingSet::new(&mut sales, UnixMs(START), name);
        set.begin(Seq(2), UnixMs(START));
        ledger.iter().for_each(|entry| set.follow(entry).expect("the sales follow"));
        let operations = [restock.clone(), correction(grant)];
        let row = |sku| (SkuId(sku), SkuState { stock: Stock::new(5), orders: 0, epoch: 7 });
        let found = Loaded { skus: vec![row(0), row(1)], ..Loaded::default() };
        set.load(Needs::of_operations(&operations), found).expect("the rows are sound");
        assert_eq!(set.execute_all(&operations).err(), refused, "{grant:?}");
        let entries = set.into_effects().map(|effects| effects.entries);
        assert_eq!(entries.as_ref().map(Vec::len), refused.is_none().then_some(2), "{grant:?}");
        assert!(entries.iter().flatten().all(|entry| matches!(entry.event, Event::StockAdjusted { .. })));
    }
}

#[test]
#[should_panic(expected = "the transaction has read all that its rules need")]
fn a_row_that_was_not_asked_for_is_never_taken_for_empty() {
    let mut sales = Sales::new();
    let mut set = WorkingSet::new(&mut sales, UnixMs(START), |sku, _| OrderId { sku, hash: 1 });
    set.begin(Seq(1), UnixMs(0));
    set.load(Needs::default(), Loaded::default()).expect("nothing was asked for");
    let pay = engine::Pay { id: "p".into(), order: crate::shop::id(1), amount: 1 };
    set.execute(&Operation::of(Command::Pay(pay), Grant::NotAsked).expect("it places nothing"));
}
