//! Payments: early, in time, late, wrong, twice; what they buy and what is to be paid back.

use engine::{Disposition, RefundReason, limits};

use crate::shop::{
    Do, END, HOLD, START, Script, Shop, cancel, check, end, expire, limited, pause, pay, place, restock,
    sale_of, settle,
};

const T: u64 = START;
const LATE: u64 = START + HOLD;

#[test]
fn a_payment_pays_for_a_held_order_once() {
    let cases: [(&str, Script<'_>, [u64; 4]); 7] = [
        ("in time", &[(T, pay("p", 1, 2), "applied")], [3, 1, 0, 2]),
        ("due, but not swept yet", &[(LATE + 9, pay("p", 1, 2), "applied")], [3, 1, 0, 2]),
        (
            "reported again",
            &[(T, pay("p", 1, 2), "applied"), (T, pay("p", 1, 2), "applied again")],
            [3, 1, 0, 2],
        ),
        (
            "another payment",
            &[(T, pay("p", 1, 2), "applied"), (T, pay("q", 1, 2), "due: already_paid")],
            [3, 1, 0, 2],
        ),
        (
            "wrong amounts, then the right one",
            &[
                (T, pay("less", 1, 1), "due: amount_differs"),
                (T, pay("more", 1, 3), "due: amount_differs"),
                (T, pay("none", 1, 0), "due: amount_differs"),
                (T, pay("p", 1, 2), "applied"),
            ],
            [3, 1, 0, 2],
        ),
        ("cancelled", &[(T, cancel(1, 1), "cancelled"), (T, pay("p", 1, 2), "due: cancelled")], [3, 3, 0, 0]),
        (
            "while paused, and after the end",
            &[
                (T, place(2, 1, 1), "held"),
                (T, pause(), "sale"),
                (T, pay("p", 1, 2), "applied"),
                (T, end(), "sale"),
                (END, pay("q", 2, 1), "applied"),
            ],
            [3, 0, 0, 3],
        ),
    ];
    for (name, rest, stock) in cases {
        let mut script = vec![(T, place(1, 1, 2), "held")];
        script.extend_from_slice(rest);
        check(name, sale_of(3), &script, stock);
    }
}

#[test]
fn a_late_payment_takes_units_again_if_it_may() {
    let cases: [(&str, Script<'_>, [u64; 4]); 8] = [
        ("free units", &[(LATE, pay("p", 1, 2), "applied")], [3, 1, 0, 2]),
        ("just enough", &[(LATE, place(2, 2, 1), "held"), (LATE, pay("p", 1, 2), "applied")], [3, 0, 1, 2]),
        (
            "one too few",
            &[(LATE, place(2, 2, 2), "held"), (LATE, pay("p", 1, 2), "due: expired_sold_out")],
            [3, 1, 2, 0],
        ),
        (
            "sold out",
            &[(LATE, place(2, 2, 3), "held"), (LATE, pay("p", 1, 2), "due: expired_sold_out")],
            [3, 0, 3, 0],
        ),
        (
            "at the limit by another order",
            &[(LATE, place(2, 1, 1), "held"), (LATE, pay("p", 1, 2), "applied")],
            [3, 0, 1, 2],
        ),
        (
            "over the limit by another order",
            &[
                (LATE, place(2, 1, 2), "held"),
                (LATE, restock("more", 9), "stock"),
                (LATE, pay("p", 1, 2), "due: expired_over_limit"),
            ],
            [12, 10, 2, 0],
        ),
        (
            "twice",
            &[
                (LATE, pay("p", 1, 2), "applied"),
                (LATE, pay("p", 1, 2), "applied again"),
                (LATE, pay("q", 1, 2), "due: already_paid"),
                (LATE, cancel(1, 1), "not_cancellable"),
                (LATE + HOLD, expire(9), "0 expired"),
            ],
            [3, 1, 0, 2],
        ),
        ("after the sale", &[(END, end(), "sale"), (END, pay("p", 1, 2), "applied")], [3, 1, 0, 2]),
    ];
    for (name, rest, stock) in cases {
        let mut script = vec![(T, place(1, 1, 2), "held"), (LATE, expire(9), "1 expired")];
        script.extend_from_slice(rest);
        check(name, limited(3, 3), &script, stock);
    }
}

#[test]
fn a_refused_late_payment_buys_nothing_even_when_units_come_back() {
    let script = [
        (T, place(1, 1, 2), "held"),
        (LATE, expire(1), "1 expired"),
        (LATE, place(2, 2, 2), "held"),
        (LATE, pay("p", 1, 2), "due: expired_sold_out"),
        (LATE, cancel(2, 2), "cancelled"),
        // The refusal was answered to the provider: the money goes back, a new payment may try again.
        (LATE, pay("p", 1, 2), "due: expired_sold_out again"),
        (LATE, pay("q", 1, 2), "applied"),
        (LATE, settle("p"), "settled: expired_sold_out"),
    ];
    check("second try", sale_of(2), &script, [2, 0, 0, 2]);
}

#[test]
fn a_payment_may_come_before_its_order() {
    let unknown = "due: unknown_order";
    let cases: [(&str, Script<'_>, [u64; 4], usize); 7] = [
        ("it pays", &[(T, pay("p", 1, 2), unknown), (T, place(1, 1, 2), "held")], [3, 1, 0, 2], 0),
        (
            "the first of the right amount pays",
            &[
                (T, pay("less", 1, 1), unknown),
                (T, pay("more", 1, 3), unknown),
                (T, pay("p", 1, 2), unknown),
                (T, pay("q", 1, 2), unknown),
                (T, place(1, 1, 2), "held"),
                (T, pay("p", 1, 2), "applied again"),
                (T, pay("q", 1, 2), "due: unknown_order again"),
                (T, cancel(1, 1), "not_cancellable"),
            ],
            [3, 1, 0, 2],
            3,
        ),
        (
            "one of two settled, the other pays",
            &[
                (T, pay("p", 1, 2), unknown),
                (T, pay("q", 1, 2), unknown),
                (T, settle("p"), "settled: unknown_order"),
                (T, place(1, 1, 2), "held"),
                (T, pay("q", 1, 2), "applied again"),
            ],
            [3, 1, 0, 2],
            0,
        ),
        ("no right amount", &[(T, pay("less", 1, 1), unknown), (T, place(1, 1, 2), "held")], [3, 1, 2, 0], 1),
        (
            "settled before the order came",
            &[
                (T, pay("p", 1, 2), unknown),
                (T, settle("p"), "settled: unknown_order"),
                (T, place(1, 1, 2), "held"),
            ],
            [3, 1, 2, 0],
            0,
        ),
        (
            "the order was refused",
            &[(T, pay("p", 1, 4), unknown), (T, place(1, 1, 4), "not_enough_left")],
            [3, 3, 0, 0],
            1,
        ),
        (
            "a retry matches nothing again",
            &[
                (T, place(1, 1, 2), "held"),
                (T, cancel(1, 1), "cancelled"),
                (T, pay("p", 1, 2), "due: cancelled"),
                (T, place(1, 1, 2), "held again"),
            ],
            [3, 3, 0, 0],
            1,
        ),
    ];
    for (name, script, stock, due) in cases {
        check(name, sale_of(3), script, stock);
        let mut shop = Shop::with(sale_of(3));
        script.iter().for_each(|(at, what, _)| drop(shop.run(*at, what.clone())));
        assert_eq!(shop.book.refunds_due().count(), due, "{name}");
        assert_eq!(shop.book.refunds_due_len(), due, "{name}");
        assert_eq!(shop.book.order(crate::shop::id(1)).is_some_and(|order| order.refund_due), {
            due > 0 && name != "the order was refused"
        });
    }
}

#[test]
fn a_refund_is_settled_once() {
    let script = [
        (T, settle("p"), "unknown_payment"),
        (T, place(1, 1, 2), "held"),
        (T, pay("p", 1, 2), "applied"),
        (T, settle("p"), "nothing_to_settle"),
        (T, pay("q", 1, 2), "due: already_paid"),
        (T, settle("q"), "settled: already_paid"),
        (T, settle("q"), "settled: already_paid again"),
        (T, pay("q", 1, 2), "settled: already_paid again"),
        (T, settle(""), "unknown_payment"),
    ];
    check("settle", sale_of(3), &script, [3, 1, 0, 2]);
}

#[test]
fn an_order_shows_a_refund_until_the_last_one_is_settled() {
    let mut shop = Shop::with(sale_of(3));
    let rows = [
        (place(1, 1, 1), false),
        (pay("a", 1, 2), true),
        (pay("p", 1, 1), true),
        (pay("b", 1, 1), true),
        (settle("a"), true),
        (settle("b"), false),
    ];
    for (row, (what, due)) in rows.into_iter().enumerate() {
        shop.run(T, what);
        assert_eq!(shop.order(1).refund_due, due, "row {row}");
        assert!(!shop.book.lookup(&crate::shop::request(1, 1, 1)).unwrap().unwrap().refund_due);
    }
    shop.assert_sound();
}

#[test]
fn refunds_are_listed_oldest_first_with_their_reason() {
    let mut shop = Shop::with(sale_of(3));
    for what in [pay("a", 9, 1), place(1, 1, 1), pay("b", 1, 2), cancel(1, 1), pay("c", 1, 1), settle("b")] {
        shop.run(T, what);
    }
    let due: Vec<_> =
        shop.book.refunds_due().map(|payment| (payment.pay.id.to_string(), payment.disposition)).collect();
    let of = |id: &str, reason| (id.to_owned(), Disposition::RefundDue(reason));
    assert_eq!(due, [of("a", RefundReason::UnknownOrder), of("c", RefundReason::Cancelled)]);
    shop.assert_sound();
}

#[test]
fn a_payment_id_is_bound_to_its_order_and_amount() {
    let longest = "p".repeat(limits::PAYMENT_ID_BYTES_MAX);
    let too_long = "p".repeat(limits::PAYMENT_ID_BYTES_MAX + 1);
    let script = [
        (T, place(1, 1, 1), "held"),
        (T, pay("", 1, 1), "invalid_change"),
        (T, pay(&too_long, 1, 1), "invalid_change"),
        (T, pay(&longest, 1, 1), "applied"),
        (T, pay(&longest, 1, 2), "payment_conflict"),
        (T, pay(&longest, 2, 1), "payment_conflict"),
        (T, pay(&longest, 1, 1), "applied again"),
    ];
    check("payment ids", sale_of(1), &script, [1, 0, 0, 1]);
}

#[test]
fn any_amount_is_recorded() {
    let mut shop = Shop::with(sale_of(1));
    shop.run(T, place(1, 1, 1));
    for (id, order) in [("known", 1), ("unknown", 2)] {
        let order = crate::shop::id(order);
        let pay = engine::Pay { id: id.into(), order, amount: u64::MAX };
        shop.run(T, Do::Command(engine::Command::Pay(pay)));
    }
    assert_eq!(shop.book.refunds_due().map(|payment| payment.pay.amount).collect::<Vec<_>>(), [u64::MAX; 2]);
    shop.assert_sound();
}
