//! One rule each.

use engine::balance::{Balance, plan};
use engine::{
    Accepted, Book, Borders, Command, Entry, Event, ItemChange, ItemSpec, LedgerKind, OrderId, PRESENT_AHEAD,
    Pay, Placement, ProductId, Refusal, SaleChange, Seq, SkuId, Standing, Status, Turn, TurnEnd, UnitsKept,
    UnixMs,
};

use crate::shop::{
    CLOSE_MS, GRACE_MS, PAYMENT_MS, SALE, SKU, START, Shop, TURN_MS, buyer, item, place, sale,
};

pub(crate) fn joined(total: u64, people: u64) -> Shop {
    joined_for(total, 1, people)
}

/// The entries close before anybody joins: places are in the order of joining.
fn joined_for(total: u64, units: u64, people: u64) -> Shop {
    let mut spec = item(total, units);
    spec.line.as_mut().expect("it has a line").close_ms = 60_000;
    let mut shop = Shop::new(spec);
    shop.book.call_due(UnixMs(shop.now), usize::MAX, u32::MAX);
    for number in 0..people {
        let answer = shop.run(Command::Join { sku: SKU, buyer: buyer(number) });
        assert!(matches!(answer, Ok(Accepted::InLine { replayed: false, .. })), "{answer:?}");
    }
    shop
}

#[test]
fn a_second_join_returns_the_first() {
    let mut shop = joined(1, 3);
    let Ok(Accepted::InLine { place, replayed, .. }) = shop.run(Command::Join { sku: SKU, buyer: buyer(1) })
    else {
        panic!("a second join is answered")
    };
    assert_eq!((place.number, replayed), (2, true));
    assert_eq!(shop.book.line_of(SKU).unwrap().joined, 3);
}

#[test]
fn nobody_joins_a_full_line_and_who_is_in_it_stays() {
    let mut shop = joined(1, 2);
    let join = |shop: &mut Shop, who: u64, places_max: u32| {
        shop.book.set_line_places_max(places_max);
        match shop.run(Command::Join { sku: SKU, buyer: buyer(who) }) {
            Ok(Accepted::InLine { place, .. }) => Ok(place.number),
            Ok(other) => panic!("{other:?}"),
            Err(refusal) => Err(refusal),
        }
    };
    assert_eq!(join(&mut shop, 2, 2), Err(Refusal::LineFull));
    assert_eq!(join(&mut shop, 2, 3), Ok(3));
    // Lower than there are.
    assert_eq!([2, 8].map(|who| join(&mut shop, who, 1)), [Ok(3), Err(Refusal::LineFull)]);
    // A book that is loaded again goes on with it.
    let mut again = Book::new();
    again.keep_settings_of(&shop.book);
    for entry in shop.assert_replays() {
        again.replay(LedgerKind::Book, &entry).expect("more may be in a ledger");
    }
    shop.book = again;
    let joined = shop.run(Command::Join { sku: SKU, buyer: buyer(8) });
    assert_eq!(joined, Err(Refusal::LineFull));
}

#[test]
fn who_is_called_has_a_unit_and_nobody_else_orders() {
    let mut shop = joined(2, 4);
    shop.at(START, &[0, 1, 2, 3]);
    let called = Standing::Called { units: 1, until: UnixMs(START + TURN_MS) };
    assert_eq!(
        [0, 1, 2, 3].map(|number| shop.standing(number)),
        [called, called, Standing::Waiting, Standing::Waiting]
    );
    let order = |shop: &mut Shop, number| shop.book.place(UnixMs(shop.now), &place(1, buyer(number), 1));
    assert_eq!(order(&mut shop, 2), Err(Refusal::TurnRequired));
    assert_eq!(order(&mut shop, 9), Err(Refusal::TurnRequired), "who has not joined needs one too");
    let placed = order(&mut shop, 0).expect("who was called is never too late");
    assert_eq!(order(&mut shop, 0), Ok((placed.0, true)), "a retry is the same order");
    let second = shop.book.place(UnixMs(shop.now), &place(2, buyer(0), 1));
    assert_eq!(second, Err(Refusal::TurnRequired), "a turn works once");
    let stock = shop.book.stock(SKU).unwrap();
    assert_eq!([stock.available(), stock.turns(), stock.held(), stock.sold()], [0, 1, 1, 0]);
}

/// A turn is for what there is: of an odd stock nothing stays unsold.
#[test]
fn the_last_turn_is_for_the_rest() {
    let mut shop = joined_for(3, 2, 4);
    shop.at(START - 1, &[]);
    assert_eq!((shop.sure_to(), kept(&mut shop)), (2, [3, 0, 0, 0, 3]));
    shop.at(START, &[1]);
    // Whoever is last in line is called first here, and leaves the full turn to who has the grace still.
    assert_eq!((called_for(&shop, 0), called_for(&shop, 1)), (0, 1));
    shop.at(START + 1, &[0]);
    assert_eq!(called_for(&shop, 0), 2);
    let order = |shop: &mut Shop, number, units: u32| {
        shop.book.place(UnixMs(shop.now), &place(u128::from(units), buyer(number), units)).map(drop)
    };
    assert_eq!(order(&mut shop, 1, 2), Err(Refusal::NotEnoughLeft), "a turn for one unit orders one");
    assert_eq!([order(&mut shop, 1, 1), order(&mut shop, 0, 2)], [Ok(()), Ok(())]);
    let stock = shop.book.stock(SKU).unwrap();
    assert_eq!([stock.available(), stock.turns(), stock.held(), stock.sold()], [0, 0, 3, 0]);
    shop.assert_replays();
}

/// What comes back while they wait fills their turn up; a unit that nobody was promised calls who was away.
#[test]
fn a_turn_for_fewer_is_filled_up_until_it_is_opened() {
    let mut shop = joined_for(1, 2, 2);
    shop.at(START, &[]);
    shop.restock(1);
    shop.at(START + 1, &[0]);
    assert_eq!((called_for(&shop, 0), shop.sure_to()), (2, 1));
    shop.restock(1);
    shop.at(START + 2, &[]);
    shop.at(START + 2 + GRACE_MS, &[]);
    assert_eq!(shop.standing(1), Standing::Away);
    shop.at(shop.now, &[1]);
    assert_eq!(called_for(&shop, 1), 1);
    shop.run(Command::GiveTurnBack { sku: SKU, buyer: buyer(1) }).expect("a turn can be given back");
    assert_eq!(shop.book.stock(SKU).unwrap().available(), 1);
    shop.assert_replays();
}

/// 0: they are not called.
fn called_for(shop: &Shop, number: u64) -> u32 {
    if let Standing::Called { units, .. } = shop.standing(number) { units } else { 0 }
}

#[test]
fn what_was_not_used_goes_to_the_next_who_is_there() {
    let mut shop = joined(1, 4);
    shop.at(START, &[0]);
    // The turn is over; the next is not there and has the grace.
    shop.at(START + TURN_MS, &[2, 3]);
    assert_eq!([shop.standing(0), shop.standing(1)], [Standing::LetGo(TurnEnd::Expired), Standing::Grace]);
    shop.at(START + TURN_MS + GRACE_MS, &[2, 3]);
    assert_eq!(shop.standing(1), Standing::Away);
    assert!(matches!(shop.standing(2), Standing::Called { .. }));
    // Given back: who stands by and is there again comes before those behind.
    shop.at(shop.now, &[1]);
    shop.run(Command::GiveTurnBack { sku: SKU, buyer: buyer(2) }).expect("a turn can be given back");
    shop.at(shop.now, &[3]);
    assert!(matches!(shop.standing(1), Standing::Called { .. }), "{:?}", shop.standing(1));
    assert_eq!(shop.standing(3), Standing::Waiting);
}

/// Whoever was away and comes back did give up once, and no second time.
#[test]
fn how_many_gave_up_never_falls() {
    let mut shop = joined(1, 2);
    let gave_up = |shop: &Shop| shop.book.line_of(SKU).unwrap().standings.gave_up;
    shop.at(START, &[]);
    shop.at(START + GRACE_MS, &[]);
    assert_eq!((shop.standing(0), gave_up(&shop)), (Standing::Away, 1));
    shop.restock(1);
    shop.at(shop.now + 1, &[0]);
    assert!(matches!(shop.standing(0), Standing::Called { .. }), "{:?}", shop.standing(0));
    assert_eq!(gave_up(&shop), 1);
    shop.run(Command::GiveTurnBack { sku: SKU, buyer: buyer(0) }).expect("a turn can be given back");
    assert_eq!(gave_up(&shop), 1);
    shop.at(shop.now + 1, &[1]);
    shop.run(Command::GiveTurnBack { sku: SKU, buyer: buyer(1) }).expect("a turn can be given back");
    assert_eq!(gave_up(&shop), 2);
    shop.assert_replays();
}

/// Of who ordered, gave back, missed it, let it pass, and was never reached.
#[test]
fn a_receipt_says_what_became_of_a_place_and_what_it_met() {
    let mut shop = joined(3, 5);
    let met = |shop: &Shop, number| {
        let receipt = shop.book.receipt(SKU, buyer(number)).expect("they have joined");
        assert_eq!(receipt.line.version, Seq(shop.book.next_seq().0 - 1));
        (receipt.reached.map(|reached| reached.left), receipt.place.standing)
    };
    assert_eq!(met(&shop, 4), (None, Standing::Waiting));
    assert_eq!(shop.book.receipt(SKU, buyer(9)), Err(Refusal::NotInLine));
    shop.at(START, &[0, 1]);
    shop.book.place(UnixMs(START), &place(1, buyer(0), 1)).expect("the buyer was called");
    shop.run(Command::GiveTurnBack { sku: SKU, buyer: buyer(1) }).expect("a turn can be given back");
    shop.at(START + GRACE_MS, &[3]);
    shop.at(START + GRACE_MS + TURN_MS, &[]);
    let outcomes = [0, 1, 2, 3, 4].map(|number| met(&shop, number));
    let let_go = |how| Standing::LetGo(how);
    // The fourth was reached when two units were not taken, one of which was kept for the third.
    let of_the_first =
        [Standing::Ordered, let_go(TurnEnd::GivenBack), Standing::Away].map(|how| (Some(3), how));
    assert_eq!(outcomes[..3], of_the_first);
    assert_eq!(outcomes[3], (Some(2), let_go(TurnEnd::Expired)));
    let reached = |number| shop.book.receipt(SKU, buyer(number)).unwrap().reached;
    assert_eq!((reached(0), reached(0) == reached(3)), (reached(2), false));
    shop.assert_replays();
}

#[test]
fn an_expired_hold_goes_to_the_line_and_not_to_everybody() {
    let mut shop = joined(1, 2);
    shop.at(START, &[0]);
    shop.book.place(UnixMs(START), &place(1, buyer(0), 1)).expect("the buyer was called");
    shop.at(START + PAYMENT_MS, &[1]);
    assert!(matches!(shop.standing(1), Standing::Called { .. }));
    let other = shop.book.place(UnixMs(shop.now), &place(1, buyer(7), 1));
    assert_eq!(other, Err(Refusal::TurnRequired));
}

/// Whoever pays when the time is over gets what nobody in the line was promised, or the money back.
#[test]
fn a_late_payment_takes_no_promised_unit() {
    for (restocked, status) in [(0, Status::Expired), (1, Status::Expired), (3, Status::Paid)] {
        let mut shop = joined(1, 3);
        shop.at(START, &[0]);
        let order = place(1, buyer(0), 1);
        shop.book.place(UnixMs(START), &order).expect("the buyer was called");
        // The next is sure of it, and whoever stands behind of what is added.
        shop.at(START + PAYMENT_MS, &[]);
        if restocked > 0 {
            shop.restock(restocked);
        }
        shop.at(shop.now, &[]);
        let before = shop.sure_to();
        shop.run(Command::Pay(Pay { id: "late".into(), order: order.id, amount: 250 })).unwrap();
        let paid = shop.book.order(order.id).expect("it was placed");
        assert_eq!((paid.status, shop.sure_to()), (status, before), "{restocked} more");
        shop.book.check_invariants().expect("no invariant is broken");
        shop.assert_replays();
    }
}

#[test]
fn sure_never_falls_and_binds_corrections() {
    let mut shop = joined(3, 5);
    shop.at(shop.now, &[]);
    assert_eq!(shop.sure_to(), 3);
    assert_eq!(kept(&mut shop), [3, 0, 0, 0, 3]);
    shop.restock(1);
    shop.at(shop.now, &[]);
    assert_eq!((shop.sure_to(), kept(&mut shop)), (4, [4, 0, 0, 0, 4]));
    shop.restock(3);
    shop.at(shop.now, &[]);
    // Five have joined: two units are left over.
    assert_eq!((shop.sure_to(), shop.correct(2).is_ok()), (5, true));
    // Whoever was called has one set aside, and whoever has ordered holds it.
    shop.at(START, &[0, 1]);
    shop.book.place(UnixMs(START), &place(1, buyer(0), 1)).expect("the buyer was called");
    assert_eq!(kept(&mut shop), [5, 0, 1, 1, 3]);
    let said = shop.correct(1).unwrap_err().to_string();
    let all = "1 held, 1 set aside in open turns, 3 promised to people in the line who are sure to be called";
    assert_eq!(said, format!("at most 0 of 5 units can be taken off, which leaves 5: {all}"));
}

/// Whoever sets the balance as a whole takes no promised unit either: the plan is judged as what carries it out.
#[test]
fn sure_binds_a_balance() {
    let mut shop = joined(5, 3);
    shop.at(shop.now, &[]);
    assert_eq!(shop.sure_to(), 3);
    let planned =
        |shop: &Shop, available| plan(&[Balance::of(&shop.book, SKU)], available, shop.book.next_seq());
    let kept = UnitsKept { total: 5, sold: 0, held: 0, turns: 0, promised: 3 };
    assert_eq!(planned(&shop, 2), Err(Refusal::CorrectionTooLarge(Some(kept))));
    for command in planned(&shop, 3).unwrap() {
        shop.run(command).expect("a plan is carried out");
    }
    assert_eq!(shop.book.stock(SKU).map(|stock| stock.available()), Some(3));
}

/// Of one unit too many that is taken off: the total; and what is sold, held, in turns and promised.
fn kept(shop: &mut Shop) -> [u64; 5] {
    let Err(Refusal::CorrectionTooLarge(Some(kept))) = shop.correct(1) else { panic!("it can be taken off") };
    [kept.total, kept.sold, kept.held, kept.turns, kept.promised]
}

#[test]
fn who_is_sure_is_called_after_the_end_and_nobody_becomes_sure() {
    let mut shop = joined(1, 2);
    shop.at(START, &[]);
    assert!(shop.end());
    shop.at(START + 1, &[0, 1]);
    assert!(matches!(shop.standing(0), Standing::Called { .. }));
    shop.restock(5);
    shop.at(START + 2, &[0, 1]);
    assert_eq!((shop.standing(1), shop.sure_to()), (Standing::Waiting, 1));
    shop.book.place(UnixMs(shop.now), &place(1, buyer(0), 1)).expect("a turn holds after the end");
    assert_eq!(shop.run(Command::Join { sku: SKU, buyer: buyer(8) }), Err(Refusal::Ended));
}

/// Whoever ends a sale before it starts calls it off, however much its line was promised.
#[test]
fn of_a_sale_that_is_ended_before_its_start_nobody_is_called() {
    let mut shop = joined(1, 2);
    shop.at(shop.now, &[]);
    assert_eq!(shop.sure_to(), 1);
    assert!(shop.end());
    for now in [shop.now, START, START + 1] {
        shop.at(now, &[0, 1]);
        assert_eq!(shop.standing(0), Standing::Waiting);
    }
    assert_eq!(shop.book.next_deadline(), None, "there is nothing to wait for");
}

/// Whoever is not reached yet has no grace that could pass.
#[test]
fn so_many_are_reached_at_once_and_the_others_lose_nothing_by_it() {
    let mut shop = joined(5, 5);
    let call = |shop: &mut Shop, at: u64, reach_max: u32| {
        for number in 0..5 {
            shop.now = at;
            shop.run(Command::ShowPresence { sku: SKU, buyer: buyer(number) }).unwrap();
        }
        let called = shop.book.call_due(UnixMs(at), usize::MAX, reach_max);
        shop.book.check_invariants().expect("no invariant is broken");
        (called.reached, shop.book.stock(SKU).unwrap().turns(), shop.book.is_line_held_back())
    };
    assert_eq!(call(&mut shop, START, 2), (2, 2, true));
    assert_eq!(call(&mut shop, START + 1, 0), (0, 2, true));
    let later = START + GRACE_MS + 1;
    assert_eq!(call(&mut shop, later, 1), (1, 3, true));
    assert_eq!(shop.standing(4), Standing::Waiting);
    assert_eq!(call(&mut shop, later, 9), (2, 5, false));
    shop.assert_replays();
}

/// Whoever is farther back has nothing to tell, and keeps nothing in memory.
#[test]
fn presence_counts_near_the_front_alone() {
    let far = u64::from(PRESENT_AHEAD) + 2;
    let mut shop = joined(1, far);
    shop.at(START - 1, &[]);
    shop.at(START - 1, &[far - 1, far - 2]);
    assert_eq!(shop.sure_to(), 1);
    // Of those two the one in the last of the places that are near.
    assert_eq!(shop.book.count_present(UnixMs(START - 1), SKU), 1);
    shop.restock(1);
    shop.at(START - 1, &[]);
    shop.at(START - 1, &[far - 1]);
    assert_eq!(shop.book.count_present(UnixMs(START - 1), SKU), 2, "they have come nearer");
}

/// Two items of a sale, each with its line.
#[test]
fn lines_are_independent_of_each_other() {
    const OTHER: SkuId = SkuId(1);
    let mut spec = sale(item(1, 1));
    spec.items.push(ItemSpec { product: ProductId(32), ..item(1, 1) });
    let mut shop = Shop::of(spec);
    for (sku, who) in [(SKU, 0), (SKU, 1), (OTHER, 1), (OTHER, 0)] {
        shop.run(Command::Join { sku, buyer: buyer(who) }).expect("anybody can join");
    }
    let standing = |shop: &Shop, sku, who| shop.book.place_in_line(sku, buyer(who)).unwrap().standing;
    let places =
        |shop: &Shop, sku| [0, 1].map(|who| shop.book.place_in_line(sku, buyer(who)).unwrap().place.unwrap());
    shop.at(START - CLOSE_MS, &[]);
    let first = |shop: &Shop, sku| u64::from(places(shop, sku)[0] == 2);
    let (of_one, of_other) = (first(&shop, SKU), first(&shop, OTHER));
    // Present in one is not present in the other.
    shop.at(START, &[of_one]);
    assert!(matches!(standing(&shop, SKU, of_one), Standing::Called { .. }));
    assert_eq!(standing(&shop, OTHER, of_other), Standing::Grace);
    // A turn of one orders nothing of the other.
    let other = Placement { id: OrderId { sku: OTHER, hash: 9 }, ..place(1, buyer(of_one), 1) };
    assert_eq!(shop.book.place(UnixMs(START), &other), Err(Refusal::TurnRequired));
    // What one is given the other has nothing of.
    let before = shop.book.line_of(OTHER);
    shop.restock(5);
    shop.at(START, &[0, 1]);
    let after = shop.book.line_of(OTHER).zip(before).expect("it has a line");
    assert_eq!((after.0.borders, after.0.stock), (after.1.borders, after.1.stock));
    assert_eq!(shop.book.line_of(SKU).unwrap().borders.sure_to, 2);
}

#[test]
fn steps_are_bounded_and_the_rest_follows() {
    let mut shop = joined(5, 5);
    shop.now = START;
    for number in 0..5 {
        shop.run(Command::ShowPresence { sku: SKU, buyer: buyer(number) }).unwrap();
    }
    assert_eq!(shop.book.call_due(UnixMs(START), 2, u32::MAX).steps, 2);
    assert!(shop.book.next_deadline().is_some_and(|at| at.0 <= START), "it is to be asked again at once");
    assert_eq!(shop.book.call_due(UnixMs(START), 100, u32::MAX).steps, 4);
    assert_eq!(shop.book.stock(SKU).unwrap().turns(), 5);
}

#[test]
fn terms_of_a_line_are_bounded() {
    type Change = fn(&mut ItemSpec);
    let rows: [(&str, Change); 8] = [
        ("no units", |item| item.line.as_mut().unwrap().units = 0),
        ("more than the limit", |item| item.line.as_mut().unwrap().units = 3),
        ("no limit", |item| item.limit = None),
        ("too short", |item| item.line.as_mut().unwrap().turn_ms = 9_999),
        ("too long", |item| item.line.as_mut().unwrap().turn_ms = 3_600_001),
        ("closed too early", |item| item.line.as_mut().unwrap().close_ms = 86_400_001),
        ("a beacon that never speaks", |item| {
            item.line.as_mut().unwrap().beacon =
                Some(engine::BeaconTerms { period_s: 0, ..crate::shop::BEACON });
        }),
        ("grace too long", |item| item.line.as_mut().unwrap().grace_ms = 600_001),
    ];
    for (name, change) in rows {
        let mut changed = item(1, 1);
        change(&mut changed);
        let answer = Book::new().execute(UnixMs(0), Command::CreateSale(sale(changed)));
        let named = |field: &str| field.starts_with("line.");
        assert!(
            matches!(answer, Err(Refusal::InvalidItem { field, .. }) if named(field)),
            "{name}: {answer:?}"
        );
    }
    let mut shop = Shop::new(item(1, 2));
    let product = ProductId(31);
    let limit = ItemChange {
        product,
        title: None,
        description: None,
        price: None,
        list_price: None,
        limit: Some(Some(1)),
    };
    let change = SaleChange { items: vec![limit], ..SaleChange::default() };
    let answer = shop.run(Command::ChangeSale { sale: SALE, change });
    assert!(
        matches!(answer, Err(Refusal::InvalidItem { field: "line.units", .. })),
        "a turn would be for more than the limit: {answer:?}"
    );
}

fn called(place: u32, number: u32, who: u64) -> Event {
    Event::TurnOpened { sku: SKU, turn: Turn { place, number, buyer: buyer(who), fewer_units: None } }
}

/// A ledger in which the line did what it must not is not believed.
#[test]
fn a_line_that_broke_a_rule_is_found_in_its_ledger() {
    let open = |place: u32| called(place, place, u64::from(place) - 1);
    let end = |place, how| Event::TurnEnded { sku: SKU, place, how };
    let move_to =
        |away_to, reached, sure_to| Event::LineMoved { sku: SKU, to: Borders { away_to, reached, sure_to } };
    let rows = [
        ("calls who was not reached", open(2), "not reached"),
        ("calls twice", open(1), "called before"),
        ("promises more than there is", move_to(0, 2, 2), "more units than there are"),
        ("takes a promise back", move_to(0, 0, 0), "moved back"),
        ("reaches who is not sure", move_to(0, 2, 1), "out of their order"),
        ("ends a grace before its time", move_to(1, 1, 1), "before its time"),
        ("ends a turn before its time", end(1, TurnEnd::Expired), "before its time"),
        ("ends a turn that is not open", end(2, TurnEnd::GivenBack), "no turn"),
        ("gives two places", Event::LineJoined { sku: SKU, buyer: buyer(0) }, "already"),
    ];
    let is_found = |mut shop: Shop, (name, at, event, why): (&str, u64, Event, &str)| {
        let seq = shop.book.next_seq();
        let entry = Entry { seq, at: UnixMs(at), event };
        let found = shop.book.replay(LedgerKind::Book, &entry).expect_err(name);
        assert!(found.why.contains(why), "{name}: {found}");
    };
    for (name, event, why) in rows {
        let mut shop = joined(1, 3);
        shop.at(START, &[0]);
        is_found(shop, (name, START, event, why));
    }
    // The first was away; the second has the grace, and the only unit.
    let mut away = joined(1, 3);
    away.at(START, &[]);
    away.at(START + GRACE_MS, &[]);
    is_found(away, ("calls for a promised unit", START + GRACE_MS, open(1), "another was promised"));
    let mut early = joined(1, 3);
    early.at(START - 1_000, &[0]);
    is_found(early, ("reaches before the start", START - 1, move_to(0, 1, 1), "before the start"));
    let mut paused = joined(2, 3);
    paused.at(START, &[0]);
    assert!(paused.pause());
    for row in [
        ("moves in a pause", START + GRACE_MS, move_to(2, 2, 2), "in a pause"),
        ("calls in a pause", START, open(2), "in a pause"),
        ("ends a turn in a pause", START + TURN_MS, end(1, TurnEnd::Expired), "in a pause"),
    ] {
        is_found(paused.clone(), row);
    }
    let mut ended = joined(1, 3);
    ended.at(START, &[0]);
    assert!(ended.end());
    ended.restock(1);
    is_found(ended, ("promises after the end", START, move_to(0, 1, 2), "after the end"));
}

#[test]
fn an_operator_limits_the_pace_and_whoever_is_sure_stays_so() {
    let mut shop = joined(1_000, 900);
    let limit = |shop: &mut Shop, per_s_max| shop.run(Command::LimitPace { sku: SKU, per_s_max });
    let reached = |shop: &Shop| shop.book.line_of(SKU).unwrap().borders.reached;
    assert_eq!(limit(&mut shop, Some(100_001)).map(drop).unwrap_err().code(), "invalid_change");
    limit(&mut shop, Some(30)).unwrap();
    let known = shop.book.next_seq();
    limit(&mut shop, Some(30)).unwrap();
    assert_eq!(shop.book.next_seq(), known, "the same again changes nothing");
    // As a writer looks that has nothing else to do; then for ten seconds not at all.
    for now in (START..START + 10_000).step_by(50) {
        shop.at(now, &[]);
    }
    assert!((295..=302).contains(&reached(&shop)), "{}", reached(&shop));
    assert_eq!((shop.sure_to(), shop.book.is_line_held_back()), (900, true));
    let before = reached(&shop);
    shop.at(START + 20_000, &[]);
    assert_eq!(reached(&shop), before + 2, "what nobody looked at is not made up for");
    // Nobody more is reached, and nothing has to look again and again.
    limit(&mut shop, Some(0)).unwrap();
    shop.at(START + 30_000, &[]);
    assert_eq!((reached(&shop), shop.book.is_line_held_back()), (before + 2, false));
    // A ledger in which it went on is not believed.
    let to = Borders { reached: before + 3, ..shop.book.line_of(SKU).unwrap().borders };
    let entry = Entry {
        seq: shop.book.next_seq(),
        at: UnixMs(START + 30_000),
        event: Event::LineMoved { sku: SKU, to },
    };
    let found = shop.book.replay(LedgerKind::Book, &entry).unwrap_err();
    assert_eq!(found.why, "a line moved faster than an operator let it");
    limit(&mut shop, None).unwrap();
    shop.at(START + 30_000, &[]);
    assert_eq!(reached(&shop), 900);
    shop.assert_replays();
}

#[test]
fn a_message_to_a_line_is_short_and_of_one_line() {
    let mut shop = joined(1, 1);
    let mut set = |message: &str| {
        let answer = shop.run(Command::SetLineMessage { sku: SKU, message: message.into() }).map(drop);
        (answer.map_err(|refusal| refusal.code()), shop.book.line_of(SKU).unwrap().message_changes)
    };
    let (longest, longer) = ("é".repeat(280), "é".repeat(281));
    assert_eq!(set(&longest), (Ok(()), 1));
    let turned = ["sold \u{202e}tuo", "\u{2066}now", "a\u{2028}b", "\u{200b}", " "];
    for wrong in [longer.as_str(), "one\ntwo", "\u{1b}[2J", "a\0"].into_iter().chain(turned) {
        assert_eq!(set(wrong), (Err("invalid_change"), 1), "{wrong:?}");
    }
    assert_eq!(set(&longest), (Ok(()), 1), "the same again changes nothing");
    assert_eq!(set("\u{200f}נפתח שוב בתשע").0, Ok(()), "as a right-to-left language needs it");
    assert_eq!(set(&longest), (Ok(()), 3));
    assert_eq!([set("We are back at nine."), set(""), set("")], [4, 5, 5].map(|changes| (Ok(()), changes)));
    assert_eq!(shop.book.message_to_line(SKU), "");
    shop.assert_replays();
    // A ledger of before such were refused.
    let event = Event::LineMessageSet { sku: SKU, message: turned[0].into() };
    let entry = Entry { seq: shop.book.next_seq(), at: UnixMs(START), event };
    assert_eq!(shop.book.replay(LedgerKind::Book, &entry).map_err(|found| found.why), Ok(()));
}

#[test]
fn an_entry_names_who_was_called() {
    // The second is reached, and not there.
    let replayed = |event| {
        let mut shop = joined(2, 3);
        shop.at(START, &[0]);
        let entry = Entry { seq: shop.book.next_seq(), at: UnixMs(START), event };
        shop.book.replay(LedgerKind::Book, &entry).map_err(|found| found.why)
    };
    assert_eq!(replayed(called(2, 2, 1)), Ok(()));
    for another in [called(2, 2, 2), called(2, 3, 1), called(2, 3, 2)] {
        assert_eq!(replayed(another), Err("somebody was called in another's place"));
    }
    let turn = Turn { place: 2, number: 2, buyer: buyer(1), fewer_units: Some(0) };
    let for_nothing = Event::TurnOpened { sku: SKU, turn };
    assert_eq!(replayed(for_nothing), Err("somebody was called for other units than there were for them"));
}
