//! Who may, and who did what: the events that a book leaves of operators, and what it refuses to read.

use engine::{
    Accepted, Action, Book, By, Command, Entry, Event, ItemChange, LedgerKind, Operated, Operator, ProductId,
    Refund, Refusal, Role, SaleChange, SaleId, UnixMs,
};

use crate::shop::{Do, START, Script, Shop, cancel, check, pay, place, sale_of};

fn anna() -> Operator {
    let added_at = UnixMs(START);
    Operator {
        name: "anna".into(),
        role: Role::Support,
        digest: [7; 32],
        added_at,
        by: "root".into(),
        expires_at: None,
    }
}

fn by(who: &str, why: &str) -> By {
    By { who: who.into(), why: why.into() }
}

fn replayed(entries: &[Entry]) -> Book {
    let mut book = Book::new();
    entries.iter().for_each(|entry| book.replay(LedgerKind::Book, entry).expect("a book has written it"));
    book
}

#[test]
fn operators_come_and_go_and_a_replay_knows_them() {
    let mut book = Book::new();
    let mut execute = |command| book.execute(UnixMs(START), command);
    assert_eq!(execute(Command::AddOperator(Box::new(anna()))), Ok(Accepted::Operators));
    assert!(matches!(execute(Command::AddOperator(Box::new(anna()))), Err(Refusal::InvalidChange(_))));
    assert!(matches!(execute(Command::RevokeOperator("ben".into())), Err(Refusal::InvalidChange(_))));
    let mut entries = Vec::new();
    book.drain_journal(&mut entries);
    assert_eq!(replayed(&entries).operators().get("anna"), Some(&anna()));
    assert_eq!(book.execute(UnixMs(START), Command::RevokeOperator("anna".into())), Ok(Accepted::Operators));
    book.drain_journal(&mut entries);
    assert_eq!((entries.len(), replayed(&entries).operators().iter().count()), (2, 0));
}

#[test]
fn an_action_is_followed_by_who_and_why_and_one_that_changed_nothing_is_not() {
    let mut shop = Shop::with(sale_of(5));
    shop.book.drain_journal(&mut Vec::new());
    let mut operate = |command| {
        let mut entries = Vec::new();
        let accepted = shop.book.execute_by(UnixMs(START), command, by("anna", "too fast"));
        shop.book.drain_journal(&mut entries);
        (accepted.is_ok(), entries.into_iter().map(|entry| entry.event).collect::<Vec<_>>())
    };
    let sale = crate::shop::SALE;
    let operated = |what: &str| {
        let (by, what, sale) = (by("anna", "too fast"), what.into(), Some(sale));
        Event::Operated(Box::new(Operated { by, what, sale, about: "".into() }))
    };
    let paused = vec![Event::SalePaused(sale), operated("sale_paused")];
    assert_eq!(operate(Command::Pause(sale)), (true, paused));
    assert_eq!(operate(Command::Pause(sale)), (true, vec![]), "it is paused");
    assert_eq!(operate(Command::Resume(SaleId(99))), (false, vec![]), "there is none");
    // What is done beside the books stands in them each time.
    let (by, what) = (by("anna", "too fast"), "image_added".into());
    let kept = Event::Operated(Box::new(Operated { by, what, sale: None, about: "a.png".into() }));
    for _ in 0..2 {
        assert_eq!(
            operate(Command::KeepAction(Action::ImageAdded, "a.png".into())),
            (true, vec![kept.clone()])
        );
    }
    let long = "x".repeat(256);
    assert_eq!(operate(Command::KeepAction(Action::ImageAdded, long.into())), (false, vec![]));
}

#[test]
fn the_log_says_how_much_was_refunded() {
    let mut shop = Shop::with(sale_of(5));
    let order = crate::shop::id(1);
    for step in [place(1, 7, 2), pay("p", 1, 2)] {
        let Do::Command(command) = step else { unreachable!("both are commands") };
        shop.book.execute(UnixMs(START), command).expect("it is on sale");
    }
    let mut refund = |id: &str, amount, paid_out| {
        let asked = Refund { id: id.into(), order, amount, units: 0, paid_out };
        shop.book.execute_by(UnixMs(START), Command::Refund(asked), by("anna", "")).expect("it is paid");
        about_of(&mut shop.book)
    };
    let says = |amount: &str| format!("{order}, {amount} EUR");
    assert_eq!(refund("a", Some(20), false), says("0.20"));
    assert_eq!(refund("b", None, false), says("4.80"), "the rest");
    assert_eq!(refund("b", None, true), says("4.80"), "as it was asked for before");
}

/// What the log says of a change of a sale that has not started.
fn said_of(change: SaleChange) -> String {
    let mut shop = Shop::with(sale_of(5));
    shop.book.drain_journal(&mut Vec::new());
    let command = Command::ChangeSale { sale: crate::shop::SALE, change };
    shop.book.execute_by(UnixMs(1), command, by("anna", "")).expect("it is in time");
    about_of(&mut shop.book)
}

/// Of the last entry, of what an operator did.
fn about_of(book: &mut Book) -> String {
    let mut entries = Vec::new();
    book.drain_journal(&mut entries);
    let Some(Event::Operated(operated)) = entries.pop().map(|entry| entry.event) else {
        panic!("{entries:?}")
    };
    String::from(operated.about)
}

#[test]
fn the_log_says_what_was_changed_from_what_to_what() {
    let none = ItemChange {
        product: ProductId(29),
        title: None,
        description: None,
        price: None,
        list_price: None,
        limit: None,
    };
    let items = |item| SaleChange { items: vec![item], ..SaleChange::default() };
    let long = "ä".repeat(100);
    let all = SaleChange {
        items: vec![ItemChange {
            title: Some("Boot".into()),
            description: Some("Warm".into()),
            price: Some(99),
            list_price: Some(299),
            limit: Some(Some(1)),
            ..none.clone()
        }],
        title: Some(long),
        starts_at: Some(UnixMs(1_500)),
        ends_at: Some(UnixMs(1_796_119_200_000)),
        payment_ms: Some(60_000),
    };
    let ends_at = SaleChange { ends_at: Some(UnixMs(3_600_000)), ..SaleChange::default() };
    let title = SaleChange { title: Some("Drop \u{200f}2".into()), ..SaleChange::default() };
    for (change, says) in [
        (ends_at, "ends_at 1970-01-01T00:00:02Z -> 1970-01-01T01:00:00Z"),
        (title, "title “Drop” -> “Drop \u{200f}2”"),
        (
            items(ItemChange { price: Some(99), limit: Some(Some(1)), ..none.clone() }),
            "product 29: price 2.50 EUR -> 0.99 EUR, limit none -> 1",
        ),
        (
            items(ItemChange { price: Some(250), description: Some("Warm".into()), ..none }),
            "product 29: description",
        ),
    ] {
        assert_eq!(said_of(change), says);
    }
    let said = said_of(all);
    assert!(said.starts_with("ends_at 1970-01-01T00:00:02Z -> 2026-12-01T10:00:00Z, payment_s "), "{said}");
    let title = format!(" -> “{}…”", "ä".repeat(20));
    assert!(
        said.contains(&title) && said.len() <= 200 && said.ends_with('…'),
        "{} bytes: {said}",
        said.len()
    );
}

#[test]
fn an_operator_cancels_whoevers_order_it_is_by_the_same_rules() {
    let order = crate::shop::id(1);
    let rows: Script<'_> = &[
        (START, place(1, 7, 2), "held"),
        (START, cancel(1, 8), "unknown_order"),
        (START, Do::Command(Command::CancelFor(order)), "cancelled"),
        (START, Do::Command(Command::CancelFor(order)), "cancelled again"),
        (START, place(2, 7, 1), "held"),
        (START, pay("p", 2, 1), "applied"),
        (START, Do::Command(Command::CancelFor(crate::shop::id(2))), "not_cancellable"),
        (START, Do::Command(Command::CancelFor(crate::shop::id(3))), "unknown_order"),
    ];
    check("cancelled by an operator", sale_of(5), rows, [5, 4, 0, 1]);
}

#[test]
fn a_ledger_with_operators_that_could_not_be_is_refused() {
    let long = "w".repeat(201);
    let operated = |who: &str, why: &str| {
        Event::Operated(Box::new(Operated {
            by: by(who, why),
            what: "paused".into(),
            sale: None,
            about: "".into(),
        }))
    };
    for (event, fine) in [
        (Event::OperatorAdded(Box::new(anna())), true),
        (Event::OperatorAdded(Box::new(Operator { name: "root".into(), ..anna() })), false),
        (Event::OperatorRevoked("anna".into()), false),
        (operated("anna", &long[1..]), true),
        (operated("anna", &"ä".repeat(200)), true),
        (operated("anna", &long), false),
        (operated("", ""), false),
    ] {
        let mut book = Book::new();
        let entry = Entry { seq: book.next_seq(), at: UnixMs(START), event };
        assert_eq!(book.replay(LedgerKind::Book, &entry).is_ok(), fine, "{entry:?}");
    }
}
