//! Placing, cancelling and expiring: units, limits, the window, keys and holds, one off each edge.

use engine::{Payment, Status, UnixMs, limits};

use crate::shop::{
    END, HOLD, PRICE, SKU, START, Script, Shop, cancel, change, check, correct, end, expire, id, limited,
    pause, pay, place, request, restock, resume, sale_of,
};

#[test]
fn a_stock_sells_to_the_last_unit_and_not_one_more() {
    let t = START;
    let cases: [(&str, u64, Script<'_>, [u64; 4]); 6] = [
        ("N-1 of N", 3, &[(t, place(1, 1, 2), "held")], [3, 1, 2, 0]),
        ("N of N", 3, &[(t, place(1, 1, 3), "held"), (t, place(2, 2, 1), "sold_out")], [3, 0, 3, 0]),
        ("N+1 of N", 3, &[(t, place(1, 1, 4), "not_enough_left")], [3, 3, 0, 0]),
        ("none at all", 0, &[(t, place(1, 1, 1), "sold_out")], [0, 0, 0, 0]),
        (
            "one by one",
            2,
            &[(t, place(1, 1, 1), "held"), (t, place(2, 1, 1), "held"), (t, place(3, 1, 1), "sold_out")],
            [2, 0, 2, 0],
        ),
        (
            "the rest is too little, and then enough for who asks for less",
            3,
            &[
                (t, place(1, 1, 2), "held"),
                (t, place(2, 2, 2), "not_enough_left"),
                (t, place(2, 2, 1), "held"),
                (t, place(3, 3, 1), "sold_out"),
            ],
            [3, 0, 3, 0],
        ),
    ];
    for (name, total, script, stock) in cases {
        check(name, sale_of(total), script, stock);
    }
}

#[test]
fn a_quantity_has_bounds() {
    let max = limits::QUANTITY_MAX;
    let script = [
        (START, place(1, 1, 0), "invalid_quantity"),
        (START, place(1, 1, max + 1), "invalid_quantity"),
        (START, place(1, 1, u32::MAX), "invalid_quantity"),
        (START, place(1, 1, max), "held"),
        (START, place(2, 1, max), "not_enough_left"),
        (START, place(2, 1, max - 1), "held"),
    ];
    check("quantities", sale_of(2 * u64::from(max) - 1), &script, [1_999_999, 0, 1_999_999, 0]);
}

#[test]
fn the_largest_sale_does_not_overflow() {
    let mut spec = limited(limits::TOTAL_MAX, limits::QUANTITY_MAX);
    spec.items[0].price = limits::PRICE_MAX;
    spec.starts_at = UnixMs(0);
    spec.ends_at = UnixMs(limits::SALE_TIME_MS_MAX);
    spec.payment = Payment::WithinMs(limits::PAYMENT_MS_MAX);
    let mut shop = Shop::with(spec);
    let late = limits::SALE_TIME_MS_MAX - 1;
    assert_eq!(shop.run(late, place(1, u64::MAX, limits::QUANTITY_MAX)), "held");
    assert_eq!(shop.run(late, place(2, u64::MAX, 1)), "over_limit");
    assert_eq!(shop.run(late, place(2, u64::MAX, u32::MAX)), "invalid_quantity");
    assert_eq!(shop.run(late, restock("a", 1)), "invalid_change");
    assert_eq!(shop.run(late, restock("a", u64::MAX)), "invalid_change");
    assert_eq!(shop.run(late, correct("a", u64::MAX)), "correction_too_large");
    let order = shop.order(1);
    assert_eq!(order.amount(), limits::PRICE_MAX * u64::from(limits::QUANTITY_MAX));
    let due = late + limits::PAYMENT_MS_MAX;
    assert_eq!(order.pay_by, Some(UnixMs(due)));
    assert_eq!(shop.run(late, expire(10)), "0 expired");
    assert_eq!(shop.run(due, expire(10)), "1 expired");
    assert_eq!(shop.run(due, place(3, 1, 1)), "ended");
    shop.assert_sound();
}

#[test]
fn the_limit_counts_what_a_buyer_holds_and_owns() {
    let t = START;
    let cases: [(&str, Script<'_>, [u64; 4]); 7] = [
        ("limit-1", &[(t, place(1, 1, 2), "held")], [9, 7, 2, 0]),
        ("limit", &[(t, place(1, 1, 3), "held")], [9, 6, 3, 0]),
        ("limit+1", &[(t, place(1, 1, 4), "over_limit")], [9, 9, 0, 0]),
        (
            "over several orders, by buyer",
            &[
                (t, place(1, 1, 2), "held"),
                (t, place(2, 1, 2), "over_limit"),
                (t, place(2, 1, 1), "held"),
                (t, place(3, 1, 1), "over_limit"),
                (t, place(3, 2, 3), "held"),
            ],
            [9, 3, 6, 0],
        ),
        (
            "paying frees nothing",
            &[(t, place(1, 1, 3), "held"), (t, pay("p", 1, 3), "applied"), (t, place(2, 1, 1), "over_limit")],
            [9, 6, 0, 3],
        ),
        (
            "cancelling gives it back",
            &[
                (t, place(1, 1, 3), "held"),
                (t, cancel(1, 1), "cancelled"),
                (t, cancel(1, 1), "cancelled again"),
                (t, place(2, 1, 3), "held"),
                (t, place(3, 1, 1), "over_limit"),
            ],
            [9, 6, 3, 0],
        ),
        (
            "expiring gives it back",
            &[
                (t, place(1, 1, 3), "held"),
                (t + HOLD, expire(9), "1 expired"),
                (t + HOLD, place(2, 1, 3), "held"),
                (t + HOLD, place(3, 1, 1), "over_limit"),
            ],
            [9, 6, 3, 0],
        ),
    ];
    for (name, script, stock) in cases {
        check(name, limited(9, 3), script, stock);
    }
}

#[test]
fn over_the_limit_is_answered_before_sold_out() {
    let script = [
        (START, place(1, 1, 2), "held"),
        (START, place(2, 1, 1), "over_limit"),
        (START, place(3, 2, 1), "sold_out"),
        (START, place(4, 2, 3), "over_limit"),
    ];
    check("order of refusals", limited(2, 2), &script, [2, 0, 2, 0]);
}

#[test]
fn nothing_is_sold_outside_of_the_window() {
    let cases: [(&str, Script<'_>, [u64; 4]); 5] = [
        (
            "edges",
            &[
                (START - 1, place(1, 1, 1), "not_started"),
                (START, place(1, 1, 1), "held"),
                (END - 1, place(2, 1, 1), "held"),
                (END, place(3, 1, 1), "ended"),
                (END, place(1, 1, 1), "held again"),
            ],
            [9, 7, 2, 0],
        ),
        (
            "paused before the start",
            &[
                (0, pause(), "sale"),
                (0, place(1, 1, 1), "paused"),
                (START, place(1, 1, 1), "paused"),
                (START, resume(), "sale"),
                (START, place(1, 1, 1), "held"),
            ],
            [9, 8, 1, 0],
        ),
        (
            "resumed before the start",
            &[(0, pause(), "sale"), (1, resume(), "sale"), (1, place(1, 1, 1), "not_started")],
            [9, 9, 0, 0],
        ),
        (
            "paused at the end",
            &[
                (START, pause(), "sale"),
                (END - 1, place(1, 1, 1), "paused"),
                (END, place(1, 1, 1), "ended"),
                (END, resume(), "ended"),
            ],
            [9, 9, 0, 0],
        ),
        (
            "ended early",
            &[(START, end(), "sale"), (START, place(1, 1, 1), "ended"), (START, pause(), "ended")],
            [9, 9, 0, 0],
        ),
    ];
    for (name, script, stock) in cases {
        check(name, sale_of(9), script, stock);
    }
}

#[test]
fn a_key_gives_its_first_answer_whatever_has_happened_since() {
    let t = START;
    let again = "held again";
    let cases: [(&str, Script<'_>, [u64; 4]); 7] = [
        ("at once", &[(t, place(1, 1, 2), again)], [2, 0, 2, 0]),
        ("sold out", &[(t, place(2, 2, 1), "sold_out"), (t, place(1, 1, 2), again)], [2, 0, 2, 0]),
        ("paused", &[(t, pause(), "sale"), (t, place(1, 1, 2), again)], [2, 0, 2, 0]),
        ("ended", &[(t, end(), "sale"), (t, place(1, 1, 2), again)], [2, 0, 2, 0]),
        ("paid", &[(t, pay("p", 1, 2), "applied"), (t, place(1, 1, 2), again)], [2, 0, 0, 2]),
        ("cancelled", &[(t, cancel(1, 1), "cancelled"), (t, place(1, 1, 2), again)], [2, 2, 0, 0]),
        (
            "expired, and its units are gone",
            &[
                (t + HOLD, expire(1), "1 expired"),
                (t + HOLD, place(2, 2, 2), "held"),
                (t + HOLD, place(1, 1, 2), again),
                (t + HOLD, place(1, 1, 1), "key_conflict"),
            ],
            [2, 0, 2, 0],
        ),
    ];
    for (name, rest, stock) in cases {
        let mut script = vec![(t, place(1, 1, 2), "held")];
        script.extend_from_slice(rest);
        check(name, limited(2, 2), &script, stock);
    }
}

#[test]
fn a_refusal_does_not_bind_its_key() {
    let script = [
        (0, place(1, 1, 1), "not_started"),
        (START, place(1, 1, 3), "not_enough_left"),
        (START, place(1, 2, 2), "held"),
        (START, place(1, 1, 1), "key_conflict"),
    ];
    check("after refusals", sale_of(2), &script, [2, 0, 2, 0]);
}

#[test]
fn a_key_with_another_request_is_a_conflict() {
    let mut shop = Shop::with(sale_of(9));
    assert_eq!(shop.run(START, place(1, 1, 2)), "held");
    let first = request(1, 1, 2);
    let mut other_body = first;
    other_body.fingerprint.0 += 1;
    for (name, conflicting) in
        [("quantity", request(1, 1, 3)), ("buyer", request(1, 2, 2)), ("body", other_body)]
    {
        let refused = Some(Err(engine::Refusal::KeyConflict));
        assert_eq!(shop.book.lookup(&conflicting), refused, "{name}");
        assert_eq!(shop.book.place(UnixMs(START), &conflicting).map_err(Err).err(), refused, "{name}");
    }
    assert_eq!(shop.book.lookup(&first), Some(Ok(shop.order(1))));
    assert_eq!(shop.book.lookup(&request(2, 1, 2)), None);
    shop.assert_sound();
}

#[test]
fn open_holds_are_bounded_and_each_that_is_let_go_leaves_one_less() {
    let t = START;
    let script = [
        (t, place(1, 1, 1), "held"),
        (t, place(2, 1, 1), "held"),
        (t, place(3, 1, 1), "held"),
        (t, place(4, 1, 1), "too_many_holds"),
        (t, place(1, 1, 1), "held again"),
        (t, place(5, 2, 1), "held"),
        // Who pays may have another.
        (t, pay("p", 1, 1), "applied"),
        (t + 1, place(4, 1, 1), "held"),
        (t + 1, cancel(4, 1), "cancelled"),
        (t + 1, place(6, 1, 1), "too_many_holds"),
        (t + 1, pay("q", 2, 1), "applied"),
        (t + 1, place(6, 1, 1), "held"),
        (t + HOLD, expire(9), "2 expired"),
        (t + HOLD, place(7, 1, 1), "too_many_holds"),
        // A late payment takes units, but it is no hold; and what was let go was.
        (t + HOLD, pay("late", 3, 1), "applied"),
        (t + HOLD, place(7, 1, 1), "too_many_holds"),
        (t + HOLD, cancel(6, 1), "cancelled"),
        (t + HOLD, place(7, 1, 1), "holds_used_up"),
        (t + HOLD, place(6, 1, 1), "held again"),
        (t + HOLD, place(8, 2, 1), "held"),
    ];
    let mut spec = sale_of(9);
    spec.open_holds_per_buyer_max = Some(3);
    check("three holds", spec, &script, [9, 5, 1, 3]);
}

#[test]
fn orders_that_are_paid_on_placing_are_never_held() {
    let mut spec = limited(3, 2);
    spec.payment = Payment::OnPlacing;
    spec.open_holds_per_buyer_max = Some(1);
    let script = [
        (START, pay("early", 1, 1), "due: unknown_order"),
        (START, place(1, 1, 1), "paid"),
        (START, place(1, 1, 1), "paid again"),
        (START, place(2, 1, 1), "paid"),
        (START, place(3, 1, 1), "over_limit"),
        (START, cancel(1, 1), "not_cancellable"),
        (START, pay("p", 1, 1), "due: already_paid"),
        (END, expire(9), "0 expired"),
    ];
    check("on placing", spec.clone(), &script, [3, 1, 0, 2]);
    let mut shop = Shop::with(spec);
    assert_eq!(shop.run(START, place(1, 1, 1)), "paid");
    assert_eq!((shop.order(1).pay_by, shop.order(1).closed_at), (None, None));
    assert_eq!(shop.book.next_deadline(), None);
}

#[test]
fn only_the_buyer_cancels_and_only_what_is_held() {
    let script = [
        (START, cancel(1, 1), "unknown_order"),
        (START, place(1, 1, 1), "held"),
        (START, cancel(1, 2), "unknown_order"),
        (START, pay("p", 1, 1), "applied"),
        (START, cancel(1, 1), "not_cancellable"),
        (START, place(2, 1, 1), "held"),
        (START + HOLD, expire(1), "1 expired"),
        (START + HOLD, cancel(2, 1), "not_cancellable"),
        (START + HOLD, cancel(2, 2), "unknown_order"),
    ];
    check("cancel", sale_of(2), &script, [2, 1, 0, 1]);
}

#[test]
fn holds_expire_at_their_deadline_earliest_first_and_at_most_so_many() {
    let mut shop = Shop::with(sale_of(9));
    let shorter = engine::SaleChange { payment_ms: Some(HOLD / 2), ..Default::default() };
    assert_eq!(shop.book.next_deadline(), None);
    assert_eq!(shop.run(START, place(1, 1, 1)), "held");
    assert_eq!(shop.run(START, place(2, 1, 1)), "held");
    assert_eq!(shop.run(START, change(shorter)), "sale");
    assert_eq!(shop.run(START, place(3, 1, 1)), "held");
    assert_eq!(shop.run(START, place(4, 1, 1)), "held");
    assert_eq!(shop.run(START, cancel(4, 1)), "cancelled");
    assert_eq!(shop.book.next_deadline(), Some(UnixMs(START + HOLD / 2)));
    assert_eq!(shop.order(3).pay_by, Some(UnixMs(START + HOLD / 2)));
    assert_eq!(shop.run(START + HOLD / 2 - 1, expire(9)), "0 expired");
    assert_eq!(shop.run(START + HOLD, expire(0)), "0 expired");
    for first in [3, 1, 2] {
        assert_eq!(shop.order(first).status, Status::Held);
        assert_eq!(shop.run(START + HOLD, expire(1)), "1 expired");
        assert_eq!(shop.order(first).status, Status::Expired, "order {first}");
        assert_eq!(shop.order(first).closed_at, Some(UnixMs(START + HOLD)));
    }
    assert_eq!(shop.run(START + HOLD, expire(1)), "0 expired");
    assert_eq!(shop.book.next_deadline(), None);
    assert_eq!(shop.stock(), [9, 9, 0, 0]);
    shop.assert_sound();
}

#[test]
fn an_order_has_what_it_was_placed_with() {
    let mut shop = Shop::with(sale_of(9));
    assert_eq!(shop.run(START, place(1, 5, 2)), "held");
    let order = shop.order(1);
    assert_eq!((order.id, order.buyer.0, order.quantity), (id(1), 5, 2));
    assert_eq!((order.unit_price, order.amount()), (PRICE, 2 * PRICE));
    assert_eq!((order.placed_at, order.pay_by), (UnixMs(START), Some(UnixMs(START + HOLD))));
    assert_eq!((order.status, order.closed_at, order.refund_due), (Status::Held, None, false));
    assert_eq!(shop.book.order_at(order.seq), Some(order));
    assert_eq!(shop.book.orders_of(SKU), Some(1));
}

#[test]
fn an_order_closed_at_the_first_moment_of_time_has_a_closing_time() {
    let mut spec = sale_of(1);
    spec.starts_at = UnixMs(0);
    let mut shop = Shop::with(spec);
    assert_eq!(shop.run(0, place(1, 1, 1)), "held");
    assert_eq!(shop.order(1).closed_at, None);
    assert_eq!(shop.run(0, cancel(1, 1)), "cancelled");
    assert_eq!(shop.order(1).closed_at, Some(UnixMs(0)));
}

#[test]
#[should_panic(expected = "time ran backwards")]
fn placing_before_the_latest_event_breaks_the_clocks_promise() {
    let mut shop = Shop::with(sale_of(9));
    shop.run(START + 1, place(1, 1, 1));
    assert!(shop.book.place(UnixMs(START), &request(2, 1, 1)).is_err());
}

#[test]
#[should_panic(expected = "time ran backwards")]
fn expiring_before_the_latest_event_breaks_the_clocks_promise() {
    let mut shop = Shop::with(sale_of(9));
    shop.run(START, place(1, 1, 1));
    shop.run(START + HOLD + 1, pause());
    shop.run(START + HOLD, expire(1));
}
