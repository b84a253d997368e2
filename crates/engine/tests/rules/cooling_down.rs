//! Buyers who take units and let them go again wait, longer each time; whoever pays does not.

use engine::{Book, CoolDown, Event, LedgerKind, Refusal, UnixMs};

use crate::shop::{HOLD, START, Shop, cancel, correct_clock, expire, limited, pay, place, request, sale_of};

const FIRST_MS: u32 = 10;

fn shop() -> Shop {
    let mut shop = Shop::with(sale_of(5));
    shop.book.set_cool_down(CoolDown { first_ms: FIRST_MS });
    shop
}

/// Orders and cancels at once, or says why it can't.
fn let_go(shop: &mut Shop, at: u64, key: u128, buyer: u64) -> String {
    match shop.run(at, place(key, buyer, 1)).as_str() {
        "held" => shop.run(at, cancel(key, buyer)),
        refused => refused.to_owned(),
    }
}

#[test]
fn the_third_hold_that_comes_back_makes_its_buyer_wait_and_each_further_one_twice_as_long() {
    let mut shop = shop();
    let mut at = START;
    for key in 1..=3 {
        assert_eq!(let_go(&mut shop, at, key, 1), "cancelled");
    }
    for (key, wait) in [(4, 10), (5, 20), (6, 40), (7, 80)] {
        assert_eq!(let_go(&mut shop, at, key, 1), "cooling_down");
        assert_eq!(let_go(&mut shop, at + wait - 1, key, 1), "cooling_down");
        at += wait;
        assert_eq!(let_go(&mut shop, at, key, 1), "cancelled");
    }
    assert_eq!(let_go(&mut shop, at, 20, 2), "cancelled", "it is nobody else's wait");
    assert_eq!(shop.stock(), [5, 5, 0, 0]);
}

#[test]
fn holds_that_expire_count_and_a_late_payment_does_not_uncount_them() {
    let mut shop = shop();
    for key in 1..=3 {
        shop.run(START, place(key, 1, 1));
    }
    assert_eq!(shop.run(START, place(9, 1, 1)), "held", "nothing came back yet");
    let over = START + HOLD;
    assert_eq!(shop.run(over, expire(9)), "4 expired");
    assert_eq!(shop.run(over, pay("p", 1, 1)), "applied");
    assert_eq!(shop.run(over, place(10, 1, 1)), "cooling_down");
    assert_eq!(shop.run(over + 20, place(10, 1, 1)), "held");
}

#[test]
fn a_known_key_is_answered_again_whatever_its_buyer_waits_for() {
    let mut shop = shop();
    for key in 1..=3 {
        let_go(&mut shop, START, key, 1);
    }
    assert_eq!(shop.run(START, place(3, 1, 1)), "held again");
    assert_eq!(shop.run(START, place(3, 1, 2)), "key_conflict");
}

#[test]
fn what_a_ledger_says_is_not_judged_but_counted() {
    let mut shop = Shop::with(limited(5, 1));
    for key in 1..=9 {
        assert_eq!(let_go(&mut shop, START, key, 1), "cancelled", "nobody waits");
    }
    let mut book = Book::new();
    book.set_cool_down(CoolDown { first_ms: FIRST_MS });
    for entry in &shop.ledger {
        book.replay(LedgerKind::Book, entry).expect("a ledger of before this rule is a ledger");
    }
    book.check_invariants().expect("no invariant is broken");
    shop.book = book;
    assert_eq!(shop.run(START + 639, place(10, 1, 1)), "cooling_down");
    assert_eq!(shop.run(START + 640, place(10, 1, 1)), "held");
}

#[test]
fn what_is_left_of_a_wait_is_left_after_a_correction_of_the_clock() {
    for to in [START + 500_000, START + 4, START - 100] {
        let mut shop = shop();
        for key in 1..=3 {
            let_go(&mut shop, START, key, 1);
        }
        assert_eq!(shop.run(START + 4, correct_clock(to)), "corrected");
        let ends = to + 6;
        let waits = |at| shop.book.clone().place(UnixMs(at), &request(4, 1, 1)).err();
        assert!(matches!(
            waits(ends - 1),
            Some(Refusal::CoolingDown { retry_after_ms: 1 } | Refusal::Ended | Refusal::NotStarted)
        ));
        assert!(!matches!(waits(ends), Some(Refusal::CoolingDown { .. })));
    }
}

#[test]
fn whoever_has_let_go_as_many_as_one_may_have_open_is_done_but_a_ledger_of_before_is_one() {
    let mut spec = sale_of(5);
    spec.open_holds_per_buyer_max = None;
    let mut free = Shop::with(spec.clone());
    for key in 1..=9 {
        assert_eq!(let_go(&mut free, START, key, 1), "cancelled", "nothing is bounded");
    }
    spec.open_holds_per_buyer_max = Some(2);
    let mut shop = Shop::with(spec);
    for key in 1..=2 {
        assert_eq!(let_go(&mut shop, START, key, 1), "cancelled");
    }
    assert_eq!(let_go(&mut shop, START + 7 * HOLD, 3, 1), "holds_used_up", "no wait helps");
    assert_eq!(let_go(&mut shop, START + 7 * HOLD, 4, 2), "cancelled", "it is nobody else's");
    // As a ledger of before this rule may be: its orders are what they are.
    for entry in &mut free.ledger {
        if let Event::SaleCreated(spec) = &mut entry.event {
            spec.open_holds_per_buyer_max = Some(2);
        }
    }
    let mut book = Book::new();
    for entry in &free.ledger {
        book.replay(LedgerKind::Book, entry).expect("it is a ledger");
    }
    book.check_invariants().expect("no invariant is broken");
    assert_eq!(book.place(UnixMs(START), &request(10, 1, 1)).unwrap_err(), Refusal::HoldsUsedUp);
}
