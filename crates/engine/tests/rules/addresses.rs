//! An order that was placed without an address is given one: once, while it is held or paid.

use engine::{BuyerId, Entry, Event, Inconsistent, KeptAddress, LedgerKind, Seq, UnixMs};

use crate::shop::{HOLD, START, Shop, cancel, id, pay, place, refund, sale_of};

const T: u64 = START;

#[test]
fn an_order_that_is_held_or_paid_takes_one_address() {
    let kept = |text: &str| KeptAddress::Is(text.as_bytes().into());
    let missing = || KeptAddress::Missing;
    for (name, before, buyer, kept, outcome) in [
        ("held", vec![], 7, missing(), "given"),
        ("paid", vec![pay("p", 1, 1)], 7, missing(), "given"),
        ("cancelled", vec![cancel(1, 7)], 7, missing(), "takes_no_address"),
        ("refunded", vec![pay("p", 1, 1), refund("r", 1, None, 0)], 7, missing(), "takes_no_address"),
        ("the same again", vec![], 7, kept("a"), "known"),
        ("the same again, of an order that is over", vec![cancel(1, 7)], 7, kept("a"), "known"),
        ("another", vec![], 7, kept("b"), "address_given"),
        ("of an order too old to keep one", vec![pay("p", 1, 1)], 7, KeptAddress::Over, "takes_no_address"),
        ("by a stranger", vec![], 8, missing(), "unknown_order"),
    ] {
        let mut shop = Shop::with(sale_of(3));
        assert_eq!(shop.run(T, place(1, 7, 1)), "held", "{name}");
        for what in before {
            shop.run(T, what);
        }
        let next = shop.book.next_seq();
        let given = shop.book.give_address(UnixMs(T), (id(1), BuyerId(buyer)), b"a", &kept);
        let word = match given {
            Ok((_, Some(entry))) => {
                assert_eq!(entry, next, "{name}");
                "given"
            }
            Ok((_, None)) => "known",
            Err(refusal) => refusal.code(),
        };
        assert_eq!(word, outcome, "{name}");
        assert_eq!(shop.book.next_seq() == next, word != "given", "{name}: a refusal changes nothing");
        shop.book.check_invariants().expect("no invariant is broken");
    }
}

#[test]
fn an_order_that_has_expired_takes_none() {
    let mut shop = Shop::with(sale_of(3));
    shop.run(T, place(1, 7, 1));
    let now = UnixMs(T + HOLD);
    assert_eq!(shop.book.expire_due(now, 10), 1);
    let given = shop.book.give_address(now, (id(1), BuyerId(7)), b"a", &KeptAddress::Missing);
    assert_eq!(given.unwrap_err().code(), "takes_no_address");
}

#[test]
fn a_ledger_gives_no_address_to_what_takes_none() {
    let mut shop = Shop::with(sale_of(3));
    shop.run(T, place(1, 7, 1));
    let placed = Seq(shop.book.next_seq().0 - 1);
    let mut replay = |order| {
        let event = Event::OrderAddressed { order };
        let entry = Entry { seq: shop.book.next_seq(), at: UnixMs(T), event };
        shop.book.replay(LedgerKind::Book, &entry).map_err(|Inconsistent { why, .. }| why)
    };
    assert_eq!(replay(Seq(99)), Err("the order is unknown"));
    assert_eq!(replay(placed), Ok(()));
    shop.run(T, cancel(1, 7));
    let event = Event::OrderAddressed { order: placed };
    let entry = Entry { seq: shop.book.next_seq(), at: UnixMs(T), event };
    shop.book.replay(LedgerKind::Book, &entry).unwrap_err();
}
