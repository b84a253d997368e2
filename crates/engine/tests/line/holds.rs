//! Open orders of a sale that bounds them: judged when somebody is called, and never when they order.

use engine::{
    Command, Entry, Event, ItemSpec, LedgerKind, OrderId, Pay, Placement, ProductId, Refusal, SkuId,
    Standing, UnixMs,
};

use crate::shop::{GRACE_MS, SKU, START, Shop, buyer, item, place, sale};

const PLAIN: SkuId = SkuId(1);
const OTHER: SkuId = SkuId(2);

/// One unit to the line of each of two items, and an item without; one open order per buyer. Places are in the order of joining.
fn shop() -> Shop {
    let with_line = || {
        let mut item = item(1, 1);
        item.line.as_mut().expect("it has a line").close_ms = 60_000;
        item
    };
    let mut spec = sale(with_line());
    spec.open_holds_per_buyer_max = Some(1);
    spec.items.push(ItemSpec { product: ProductId(32), line: None, ..item(5, 1) });
    spec.items.push(ItemSpec { product: ProductId(33), ..with_line() });
    let mut shop = Shop::of(spec);
    shop.at(shop.now, &[]);
    for (sku, who) in [(SKU, 0), (SKU, 1), (OTHER, 0), (OTHER, 1)] {
        shop.run(Command::Join { sku, buyer: buyer(who) }).expect("anybody can join");
    }
    shop.at(START, &[]);
    shop
}

fn order(shop: &mut Shop, sku: SkuId, who: u64) -> Result<(), Refusal> {
    let mut placement = place(9, buyer(who), 1);
    placement.id.sku = sku;
    shop.book.place(UnixMs(shop.now), &placement).map(drop)
}

#[test]
fn who_has_too_many_open_orders_is_passed_over_as_who_is_away() {
    let mut shop = shop();
    order(&mut shop, PLAIN, 0).expect("it has no line");
    shop.at(START + 1, &[0, 1]);
    assert_eq!([0, 1].map(|who| shop.standing(who)), [Standing::Grace, Standing::Waiting]);
    let blocked = |shop: &Shop, who| shop.book.place_in_line(SKU, buyer(who)).unwrap().has_too_many_holds;
    assert_eq!([0, 1].map(|who| blocked(&shop, who)), [true, false]);
    // The grace is over: the unit goes to the next.
    shop.at(START + GRACE_MS, &[0, 1]);
    assert_eq!((shop.standing(0), blocked(&shop, 0)), (Standing::Away, true));
    shop.at(shop.now, &[0, 1]);
    assert!(matches!(shop.standing(1), Standing::Called { .. }));
    // Whoever has paid by then is called for what is left, once they show themselves.
    shop.restock(1);
    shop.at(shop.now + 1, &[0]);
    assert_eq!(shop.standing(0), Standing::Away);
    let mut paid = place(9, buyer(0), 1).id;
    paid.sku = PLAIN;
    shop.run(Command::Pay(Pay { id: "p".into(), order: paid, amount: 250 })).expect("it is held");
    assert!(!blocked(&shop, 0), "it is as it is now");
    shop.at(shop.now + 1, &[0]);
    assert!(matches!(shop.standing(0), Standing::Called { .. }));
    shop.assert_replays();
}

/// A turn comes to an open order: in two lines of a sale it is one too many.
#[test]
fn an_open_turn_in_another_line_counts() {
    let mut shop = shop();
    shop.at(START + 1, &[0]);
    assert!(matches!(shop.standing(0), Standing::Called { .. }));
    let other = |shop: &mut Shop| {
        shop.run(Command::ShowPresence { sku: OTHER, buyer: buyer(0) }).expect("they have joined");
        shop.at(shop.now, &[]);
        shop.book.place_in_line(OTHER, buyer(0)).expect("they have joined").standing
    };
    assert_eq!(other(&mut shop), Standing::Grace);
    shop.run(Command::GiveTurnBack { sku: SKU, buyer: buyer(0) }).expect("a turn can be given back");
    assert!(matches!(other(&mut shop), Standing::Called { .. }));
}

/// Nor is it refused for those who were let in before: a ledger may have both.
#[test]
fn an_open_turn_counts_for_an_order_of_an_item_without_a_line() {
    let mut shop = shop();
    shop.at(START + 1, &[0]);
    assert!(matches!(shop.standing(0), Standing::Called { .. }));
    assert_eq!(order(&mut shop, PLAIN, 0), Err(Refusal::TooManyHolds));
    assert_eq!(order(&mut shop, PLAIN, 1), Ok(()), "it is another's turn");
    let mut before = shop.clone();
    assert_eq!(order(&mut shop, SKU, 0), Ok(()), "who was called is never too late");
    assert_eq!(order(&mut shop, PLAIN, 0), Err(Refusal::TooManyHolds));
    let used = place(9, buyer(0), 1).id;
    shop.run(Command::Pay(Pay { id: "p".into(), order: used, amount: 250 })).expect("it is held");
    assert_eq!(order(&mut shop, PLAIN, 0), Ok(()), "it is paid");
    shop.assert_replays();
    // Before turns counted.
    let Placement { id, buyer: who, quantity, fingerprint } = place(9, buyer(0), 1);
    let id = OrderId { sku: PLAIN, ..id };
    let event = Event::OrderPlaced { id, buyer: who, quantity, unit_price: 250, fingerprint };
    let entry = Entry { seq: before.book.next_seq(), at: UnixMs(before.now), event };
    before.book.replay(LedgerKind::Book, &entry).expect("a ledger of before has such orders");
    assert_eq!(order(&mut before, SKU, 0), Ok(()), "a turn is never refused");
    before.book.check_invariants().expect("no invariant is broken");
}

#[test]
fn a_turn_that_is_given_back_counts_no_more() {
    let mut shop = shop();
    shop.at(START + 1, &[0]);
    assert_eq!(order(&mut shop, PLAIN, 0), Err(Refusal::TooManyHolds));
    shop.run(Command::GiveTurnBack { sku: SKU, buyer: buyer(0) }).expect("a turn can be given back");
    assert_eq!(order(&mut shop, PLAIN, 0), Ok(()));
}
