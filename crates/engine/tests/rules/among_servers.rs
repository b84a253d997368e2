//! Corrections before the start where several servers sell: in time for each of them to read what it will sell.

use engine::handover::Grant;
use engine::limits::ITEMS_FIXED_MS;
use engine::working_set::{Executed, Loaded, Operation, SkuState, WorkingSet};
use engine::{
    Command, Entry, Event, ItemChange, OrderId, ProductId, Refusal, SaleChange, Sales, Seq, SkuId, Stock,
    UnixMs,
};

use crate::shop::{SALE, sale_of};

/// Long enough for a minute before it.
const START: u64 = 10 * ITEMS_FIXED_MS;
const IN_TIME: u64 = START - ITEMS_FIXED_MS;

fn items() -> SaleChange {
    let item = ItemChange {
        product: ProductId(1),
        title: None,
        description: None,
        price: Some(1),
        list_price: None,
        limit: None,
    };
    SaleChange { items: vec![item], ..SaleChange::default() }
}

fn moved(starts_at: u64) -> SaleChange {
    SaleChange { starts_at: Some(UnixMs(starts_at)), ..SaleChange::default() }
}

fn change(change: SaleChange) -> Command {
    Command::ChangeSale { sale: SALE, change }
}

/// What a command comes to at this time, after these entries about the sale.
fn outcome(before: &[(u64, Event)], at: u64, command: Command, among_servers: bool) -> String {
    let mut spec = sale_of(5);
    (spec.starts_at, spec.ends_at) = (UnixMs(START), UnixMs(3 * START));
    spec.items[0].product = ProductId(1);
    let created = (0, Event::SaleCreated(Box::new(spec)));
    let mut sales = Sales::new();
    let mut set = WorkingSet::new(&mut sales, UnixMs(at), |sku, _| OrderId { sku, hash: 1 });
    set.begin(Seq(before.len() as u64 + 2), UnixMs(0));
    for ((at, event), seq) in std::iter::once(&created).chain(before).zip(1..) {
        set.follow(&Entry { seq: Seq(seq), at: UnixMs(*at), event: event.clone() }).expect("it follows");
    }
    let operation = Operation::of(command, Grant::NotAsked).expect("it places nothing");
    let operation = if among_servers { operation.among_servers() } else { operation };
    let row = (SkuId(0), SkuState { stock: Stock::new(5), orders: 0, epoch: 1 });
    let needs = set.needs_further(std::slice::from_ref(&operation));
    let skus = if needs.skus.is_empty() { Vec::new() } else { vec![row] };
    set.load(needs, Loaded { skus, ..Loaded::default() }).expect("the rows are sound");
    match set.execute(&operation) {
        Executed::Accepted(_) => "done".to_owned(),
        Executed::Refused(refusal @ Refusal::InvalidChange(why)) => {
            assert!(why.contains("until a minute before"), "{why}");
            refusal.code().to_owned()
        }
        Executed::Refused(refusal) => refusal.code().to_owned(),
        Executed::NeedsClaim(claim) => panic!("{claim:?}"),
    }
}

#[test]
fn items_change_and_a_sale_is_deleted_until_a_minute_before_the_start() {
    let delete = || Command::DeleteSale(SALE);
    for (at, command, alone, among_servers) in [
        (IN_TIME, change(items()), "done", "done"),
        (IN_TIME, delete(), "done", "done"),
        (IN_TIME + 1, change(items()), "done", "invalid_change"),
        (IN_TIME + 1, delete(), "done", "invalid_change"),
        (IN_TIME + 1, change(moved(START - 1)), "done", "done"),
        (START - 1, delete(), "done", "invalid_change"),
        (START, change(items()), "sale_started", "sale_started"),
        (START, delete(), "sale_started", "sale_started"),
        // Whoever has not heard of the new start will not sell before the old one.
        (IN_TIME, change(SaleChange { items: items().items, ..moved(IN_TIME + 2) }), "done", "done"),
    ] {
        assert_eq!(outcome(&[], at, command.clone(), false), alone, "{at} {command:?}");
        assert_eq!(outcome(&[], at, command.clone(), true), among_servers, "{at} {command:?}");
    }
}

#[test]
fn a_start_that_was_put_off_in_its_last_minute_may_pass_for_somebody() {
    let put_off = |at, starts_at| (at, Event::SaleChanged { sale: SALE, change: Box::new(moved(starts_at)) });
    let (early, late) = (IN_TIME - 1, IN_TIME + 1);
    for (before, at, expected) in [
        (vec![put_off(early, 2 * START)], START, "done"),
        (vec![put_off(late, 2 * START)], START, "invalid_change"),
        // Whatever the start became since.
        (vec![put_off(late, 2 * START), put_off(late + 1, 3 * START - 1)], START, "invalid_change"),
        (vec![put_off(early, 2 * START), put_off(early, START)], IN_TIME, "done"),
    ] {
        assert_eq!(outcome(&before, at, change(items()), true), expected, "{before:?}");
        assert_eq!(outcome(&before, at, Command::DeleteSale(SALE), true), expected, "{before:?}");
        assert_eq!(outcome(&before, at, change(items()), false), "done");
    }
}

#[test]
fn deleting_again_is_answered_as_the_first_time_whenever_it_comes() {
    let deleted = [(IN_TIME, Event::SaleDeleted(SALE))];
    for at in [IN_TIME, IN_TIME + 1, START + 1] {
        assert_eq!(outcome(&deleted, at, Command::DeleteSale(SALE), true), "done");
        assert_eq!(outcome(&deleted, at, change(items()), true), "unknown_sale");
    }
}
