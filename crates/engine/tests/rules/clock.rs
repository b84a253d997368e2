//! A clock that was wrong: what its correction moves, in both directions, and what it leaves where it is.

use engine::{Book, Entry, Event, Inconsistent, LedgerKind, Refusal, Seq, Status, UnixMs, limits};

use crate::shop::{
    END, HOLD, START, Script, Shop, cancel, check, correct_clock, end, expire, limited, pay, place, sale_of,
};

const HOUR: u64 = 3_600_000;

#[test]
fn what_is_left_of_a_deadline_is_left_after_a_correction() {
    // Placed at START, half of its time is over at the correction.
    let half = START + HOLD / 2;
    for to in [half + HOUR, half + 1, half, half - 1, HOLD, 0] {
        let rows: Script<'_> = &[
            (START, place(1, 1, 1), "held"),
            (half, correct_clock(to), "corrected"),
            (to + HOLD / 2 - 1, expire(9), "0 expired"),
            (to + HOLD / 2, expire(9), "1 expired"),
        ];
        check(&format!("to {to}"), sale_of(5), rows, [5, 5, 0, 0]);
    }
}

#[test]
fn orders_of_every_run_keep_their_own_deadlines() {
    let mut shop = Shop::with(sale_of(5));
    for (at, what, outcome) in [
        (START, place(1, 1, 1), "held"),
        (START + 10, correct_clock(START + 500), "corrected"),
        (START + 500, place(2, 2, 1), "held"),
        (START + 510, correct_clock(START + 110), "corrected"),
        (START + 110, place(3, 3, 1), "held"),
    ] {
        assert_eq!(shop.run(at, what), outcome);
        shop.assert_sound();
    }
    let deadlines = [1, 2, 3].map(|key| shop.order(key).pay_by.unwrap().0 - START);
    // 10 and 10 ms of the first one's time are over, and 10 of the second one's.
    assert_eq!(deadlines, [110 + HOLD - 20, 110 + HOLD - 10, 110 + HOLD]);
    assert_eq!(shop.book.next_deadline(), Some(UnixMs(START + 110 + HOLD - 20)));
    assert_eq!(shop.run(START + 110 + HOLD, expire(9)), "3 expired");
    shop.assert_sound();
}

#[test]
fn the_windows_of_sales_stay_where_they_were_announced() {
    check(
        "ahead by mistake: the sale ends, and goes on when the clock is right again",
        sale_of(5),
        &[
            (START, place(1, 1, 1), "held"),
            (START, correct_clock(END + HOUR), "corrected"),
            (END + HOUR, place(2, 2, 1), "ended"),
            (END + HOUR, pay("p1", 1, 1), "applied"),
            (END + HOUR + 1, correct_clock(START + 1), "corrected"),
            (START + 1, place(2, 2, 1), "held"),
        ],
        [5, 3, 1, 1],
    );
    check(
        "behind by mistake: it has not started yet",
        sale_of(5),
        &[
            (START, correct_clock(START - 1), "corrected"),
            (START - 1, place(1, 1, 1), "not_started"),
            (START - 1, correct_clock(START), "corrected"),
            (START, place(1, 1, 1), "held"),
        ],
        [5, 4, 1, 0],
    );
    check(
        "ended by hand is ended by any clock",
        sale_of(5),
        &[
            (START, end(), "sale"),
            (START, correct_clock(START - 1), "corrected"),
            (START, place(1, 1, 1), "ended"),
        ],
        [5, 5, 0, 0],
    );
}

#[test]
fn no_unit_is_sold_twice_because_of_a_correction() {
    check(
        "a hold that had expired stays so, and its late payment is judged",
        limited(2, 2),
        &[
            (START, place(1, 1, 2), "held"),
            (START + HOLD, expire(9), "1 expired"),
            (START + HOLD, correct_clock(START), "corrected"),
            (START, place(2, 2, 2), "held"),
            (START, place(1, 1, 2), "held again"),
            (START, pay("p1", 1, 2), "due: expired_sold_out"),
            (START + 1, cancel(2, 2), "cancelled"),
            (START + 1, correct_clock(START + HOUR), "corrected"),
            (START + HOUR, expire(9), "0 expired"),
            (START + HOUR, pay("p2", 1, 2), "applied"),
        ],
        [2, 0, 0, 2],
    );
}

#[test]
fn a_correction_that_cannot_be_is_refused() {
    let mut book = Book::new();
    let late = UnixMs(limits::TIME_MS_MAX + 1);
    let long = "w".repeat(65);
    for (from, to, who) in [
        (UnixMs(0), late, "me"),
        (late, UnixMs(0), "me"),
        (UnixMs(0), UnixMs(1), ""),
        (UnixMs(0), UnixMs(1), &long),
    ] {
        assert!(matches!(book.correct_clock(from, to, who), Err(Refusal::InvalidChange(_))));
    }
    assert_eq!((book.next_seq(), book.last_at()), (Seq(1), UnixMs(0)));
}

#[test]
fn a_ledger_with_a_correction_that_could_not_be_is_refused() {
    let mut shop = Shop::with(sale_of(5));
    assert_eq!(shop.run(START, place(1, 1, 1)), "held");
    let corrected =
        |from, to, who: &str| Event::ClockCorrected { from: UnixMs(from), to: UnixMs(to), who: who.into() };
    let no = "no command could have made it";
    let rows = [
        (LedgerKind::Book, 7, corrected(START, 7, "me"), Ok(())),
        (
            LedgerKind::Book,
            8,
            corrected(START, 7, "me"),
            Err("a correction of the clock has another time than the clock after it"),
        ),
        (LedgerKind::Book, 7, corrected(START - 1, 7, "me"), Err("time runs backwards")),
        (LedgerKind::Book, u64::MAX, corrected(START, u64::MAX, "me"), Err(no)),
        (LedgerKind::Book, 7, corrected(u64::MAX, 7, "me"), Err(no)),
        (LedgerKind::Book, 7, corrected(START, 7, ""), Err(no)),
        (LedgerKind::Gated, 7, corrected(START, 7, "me"), Err("the clock of a shared ledger was corrected")),
    ];
    for (kind, at, event, expected) in rows {
        let mut book = crate::shop::replayed(&shop.ledger);
        let entry = Entry { seq: book.next_seq(), at: UnixMs(at), event };
        let expected = expected.map_err(|why| Inconsistent { seq: entry.seq, why });
        assert_eq!(book.replay(kind, &entry), expected, "{entry:?}");
        assert_eq!(book.order_at(Seq(2)).map(|order| order.status), Some(Status::Held));
    }
}
