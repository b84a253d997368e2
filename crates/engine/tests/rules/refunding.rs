//! Refunds of paid orders: whole and in part, asked for again, with units that go back on sale.

use engine::{Payment, Status, UnixMs};

use crate::shop::{
    HOLD, PRICE, START, Script, Shop, cancel, check, id, limited, paid_out, pay, place, refund, sale_of,
    settle,
};

const T: u64 = START;
/// Of an order of two units.
const ALL: u64 = 2 * PRICE;

#[test]
fn a_paid_order_is_refunded_whole_or_in_part() {
    let cases: [(&str, Script<'_>, [u64; 4]); 9] = [
        ("whole, and nothing comes back", &[(T, refund("r", 1, None, 0), "due: requested")], [3, 1, 0, 2]),
        ("whole, and all comes back", &[(T, refund("r", 1, None, 2), "due: requested")], [3, 3, 0, 0]),
        (
            "in parts, until nothing is left",
            &[
                (T, refund("a", 1, Some(1), 1), "due: requested"),
                (T, refund("b", 1, Some(ALL), 0), "refund_too_large"),
                (T, refund("b", 1, Some(1), 2), "refund_too_large"),
                (T, refund("b", 1, Some(0), 1), "invalid_change"),
                (T, refund("b", 1, None, 0), "due: requested"),
                (T, refund("c", 1, None, 0), "not_refundable"),
            ],
            [3, 2, 0, 1],
        ),
        (
            "asked for again",
            &[
                (T, refund("r", 1, Some(1), 1), "due: requested"),
                (T, refund("r", 1, Some(1), 1), "due: requested again"),
                (T, refund("r", 1, None, 1), "due: requested again"),
                (T, refund("r", 1, Some(2), 1), "payment_conflict"),
                (T, refund("r", 1, Some(1), 0), "payment_conflict"),
                (T, refund("r", 2, Some(1), 1), "payment_conflict"),
                (T, refund("p", 1, Some(ALL), 0), "payment_conflict"),
                (T, pay("r", 1, 2), "payment_conflict"),
            ],
            [3, 2, 0, 1],
        ),
        (
            "settled by hand",
            &[
                (T, refund("r", 1, None, 0), "due: requested"),
                (T, settle("r"), "settled: requested"),
                (T, settle("r"), "settled: requested again"),
                (T, refund("r", 1, None, 0), "settled: requested again"),
            ],
            [3, 1, 0, 2],
        ),
        (
            "by the provider, before or after it was asked for",
            &[
                (T, paid_out("a", 1, 1), "settled: requested"),
                (T, paid_out("a", 1, 1), "settled: requested again"),
                (T, refund("b", 1, Some(1), 0), "due: requested"),
                (T, paid_out("b", 1, 1), "settled: requested"),
                (T, paid_out("b", 1, 1), "settled: requested again"),
            ],
            [3, 1, 0, 2],
        ),
        (
            "nothing else happens to it any more",
            &[
                (T, refund("r", 1, None, 2), "due: requested"),
                (T, cancel(1, 1), "not_cancellable"),
                (T, pay("q", 1, 2), "due: already_paid"),
                (T, place(1, 1, 2), "held again"),
                (T, place(2, 2, 3), "held"),
            ],
            [3, 0, 3, 0],
        ),
        ("an order that is not known", &[(T, refund("r", 9, None, 0), "unknown_order")], [3, 1, 0, 2]),
        ("no id", &[(T, refund("", 1, None, 0), "invalid_change")], [3, 1, 0, 2]),
    ];
    for (name, rest, stock) in cases {
        let mut script = vec![(T, place(1, 1, 2), "held"), (T, pay("p", 1, 2), "applied")];
        script.extend_from_slice(rest);
        check(name, sale_of(3), &script, stock);
    }
}

#[test]
fn the_provider_reports_a_payment_that_paid_for_nothing_under_its_own_id() {
    let script: Script<'_> = &[
        (T, place(1, 1, 2), "held"),
        (T, pay("p", 1, 2), "applied"),
        (T, pay("q", 1, 2), "due: already_paid"),
        (T, refund("q", 1, Some(ALL), 0), "payment_conflict"),
        (T, paid_out("q", 1, 1), "payment_conflict"),
        (T, paid_out("q", 2, ALL), "payment_conflict"),
        (T, paid_out("p", 1, ALL), "payment_conflict"),
        (T, paid_out("q", 1, ALL), "settled: already_paid"),
        (T, paid_out("q", 1, ALL), "settled: already_paid again"),
    ];
    check("all of it", sale_of(3), script, [3, 1, 0, 2]);
}

#[test]
fn only_paid_orders_are_refunded() {
    let mut shop = Shop::with(sale_of(3));
    for key in 1..=3 {
        assert_eq!(shop.run(T, place(key, 1, 1)), "held");
    }
    assert_eq!(shop.run(T, cancel(2, 1)), "cancelled");
    assert_eq!(shop.run(T, refund("r", 1, None, 0)), "not_refundable");
    assert_eq!(shop.run(T, refund("r", 2, None, 0)), "not_refundable");
    assert_eq!(shop.run(T + HOLD, crate::shop::expire(9)), "2 expired");
    assert_eq!(shop.run(T + HOLD, refund("r", 3, None, 0)), "not_refundable");
    assert_eq!(shop.run(T + HOLD, pay("p", 3, 1)), "applied");
    assert_eq!(shop.run(T + HOLD, refund("r", 3, None, 1)), "due: requested");
    assert_eq!(shop.order(3).status, Status::Refunded);
    shop.assert_sound();
}

#[test]
fn an_order_says_what_of_it_is_refunded_and_when_the_last_of_it_was() {
    let mut shop = Shop::with(sale_of(3));
    shop.run(T, place(1, 1, 2));
    shop.run(T, pay("p", 1, 2));
    shop.run(T + 1, refund("a", 1, Some(7), 1));
    let order = shop.order(1);
    assert_eq!((order.status, order.refunded.amount, order.refunded.units), (Status::Paid, 7, 1));
    assert_eq!((order.closed_at, order.refund_due), (Some(UnixMs(T)), true));
    shop.run(T + 2, refund("b", 1, None, 0));
    let order = shop.order(1);
    assert_eq!((order.status, order.refunded.amount, order.refunded.units), (Status::Refunded, ALL, 1));
    assert_eq!((order.closed_at, order.refund_due), (Some(UnixMs(T + 2)), true));
    for refund in ["a", "b"] {
        shop.run(T + 3, settle(refund));
    }
    assert!(!shop.order(1).refund_due);
    assert_eq!(shop.book.order(id(1)).unwrap().as_placed().refunded.amount, 0);
}

#[test]
fn what_was_taken_back_still_counts_to_the_limit_of_its_buyer() {
    let script: Script<'_> = &[
        (T, place(1, 1, 2), "held"),
        (T, pay("p", 1, 2), "applied"),
        (T, refund("r", 1, None, 2), "due: requested"),
        (T, place(2, 1, 1), "over_limit"),
        (T, place(3, 2, 1), "held"),
    ];
    check("one who had them", limited(3, 2), script, [3, 2, 1, 0]);
}

#[test]
fn an_order_that_was_paid_by_being_placed_is_refunded_too_and_a_free_one_once() {
    for price in [PRICE, 0] {
        let mut spec = sale_of(3);
        spec.payment = Payment::OnPlacing;
        spec.items[0].price = price;
        let mut shop = Shop::with(spec);
        assert_eq!(shop.run(T, place(1, 1, 1)), "paid");
        assert_eq!(shop.order(1).closed_at, None);
        assert_eq!(shop.run(T + 1, refund("r", 1, None, 1)), "due: requested");
        assert_eq!(shop.run(T + 1, refund("s", 1, None, 0)), "not_refundable");
        let order = shop.order(1);
        assert_eq!((order.status, order.closed_at), (Status::Refunded, Some(UnixMs(T + 1))));
        assert_eq!(order.as_placed().status, Status::Paid);
        shop.assert_sound();
    }
}
