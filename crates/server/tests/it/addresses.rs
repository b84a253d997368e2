//! Addresses that orders are given after they were placed, on every backend.

use std::time::Duration;

use engine::{
    Book, BuyerId, Command, Entry, Fingerprint, KeptAddress, OrderId, Pay, Placement, Refusal, SaleSpec, Seq,
    SkuId, Status, UnixMs,
};
use server::intake::{Reply, Request};
use server::ledger::{Batch, Ledger, OrderLine, What};

use crate::embedded::{Harness, NO_LIMITS, accepted, open_sale, order, read};
use crate::history::sale;
use crate::ledger::commit;
use crate::places::LedgerHome;

const AT: u64 = 2_000;
const BONN: &[u8] = br#"{"name":"O'Neil","city":"Bonn \\ No. 1"}"#;

fn id(hash: u128) -> OrderId {
    OrderId { sku: SkuId(0), hash }
}

/// Three orders of buyer 7, without an address: the last is paid.
fn placed(home: &LedgerHome) -> (Ledger, Book, [Seq; 3]) {
    let (mut ledger, mut book) = (home.open(), Book::new());
    let mut spec =
        SaleSpec { starts_at: UnixMs(0), ends_at: UnixMs(engine::limits::SALE_TIME_MS_MAX), ..sale(1) };
    spec.items[0].limit = None;
    let price = spec.items[0].price;
    let place = |hash| {
        Command::Place(Placement {
            id: id(hash),
            buyer: BuyerId(7),
            quantity: 1,
            fingerprint: Fingerprint(1),
        })
    };
    for command in [
        Command::CreateSale(spec),
        place(1),
        place(2),
        place(3),
        Command::Pay(Pay { id: "p".into(), order: id(3), amount: price }),
    ] {
        book.execute(UnixMs(AT), command).unwrap();
    }
    let mut entries = Vec::new();
    book.drain_journal(&mut entries);
    append(&mut ledger, &entries, &[]);
    let seqs = [1, 2, 3].map(|hash| book.order(id(hash)).unwrap().seq);
    (ledger, book, seqs)
}

fn append(ledger: &mut Ledger, entries: &[Entry], addresses: &[(Seq, Box<[u8]>)]) {
    ledger.append(&Batch { entries, addresses, buyers: &[], messages: &[], at: UnixMs(AT) }).unwrap();
}

fn give(book: &mut Book, ledger: &mut Ledger, hash: u128) -> Seq {
    let kept = ledger.kept_address(book.order(id(hash)).unwrap().seq).unwrap();
    let (_, entry) = book.give_address(UnixMs(AT), (id(hash), BuyerId(7)), BONN, &kept).unwrap();
    let mut entries = Vec::new();
    book.drain_journal(&mut entries);
    append(ledger, &entries, &[(entry.unwrap(), BONN.into())]);
    entry.unwrap()
}

fn exported(home: &LedgerHome, since: u64) -> Vec<OrderLine> {
    let mut lines = Vec::new();
    home.source().export(since, &mut |line| lines.push(line)).unwrap();
    lines
}

#[test]
fn an_address_that_is_given_later_is_with_the_order_from_then_on() {
    let text = String::from_utf8(BONN.to_vec()).unwrap();
    for home in LedgerHome::each() {
        let (mut ledger, mut book, seqs) = placed(&home);
        let before = book.next_seq().0 - 1;
        assert_eq!(ledger.kept_address(seqs[0]).unwrap(), KeptAddress::Missing);
        let entries = [give(&mut book, &mut ledger, 1), give(&mut book, &mut ledger, 3)];
        assert_eq!(ledger.kept_address(seqs[0]).unwrap(), KeptAddress::Is(BONN.into()));
        let addresses = |lines: Vec<OrderLine>| {
            lines.into_iter().map(|line| (line.id.hash, line.status, line.address)).collect::<Vec<_>>()
        };
        let (one, three) = ((1, Status::Held, Some(text.clone())), (3, Status::Paid, Some(text.clone())));
        let two = (2, Status::Held, None);
        assert_eq!(addresses(exported(&home, 0)), [one.clone(), two, three.clone()]);
        assert_eq!(addresses(exported(&home, before)), [one.clone(), three.clone()]);
        assert_eq!(addresses(exported(&home, entries[0].0)), std::slice::from_ref(&three));
        let page = home.source().changes(before, 1).unwrap();
        assert_eq!((addresses(page.orders), page.cursor, page.more), (vec![one], entries[0].0, true));
        // What else changes later brings it once, with its address.
        let cancel = Command::Cancel { order: id(1), buyer: BuyerId(7) };
        commit(&mut book, &mut ledger, AT, vec![cancel]);
        let cancelled = (1, Status::Cancelled, Some(text.clone()));
        let mut now = addresses(exported(&home, before));
        now.sort_by_key(|(hash, ..)| *hash);
        assert_eq!(now, [cancelled, three]);

        let mut reader = home.source().event_reader().unwrap();
        let events: Vec<_> = reader.read(before, u64::MAX).unwrap().events.into_iter().collect();
        let addressed: Vec<_> = events
            .iter()
            .filter_map(|event| match &event.what {
                What::Addressed(line) => Some((event.seq, line.id.hash, line.status, line.address.clone())),
                _ => None,
            })
            .collect();
        let [first, second] = entries.map(|entry| entry.0);
        assert_eq!(
            addressed,
            [(first, 1, Status::Held, Some(text.clone())), (second, 3, Status::Paid, Some(text.clone()))]
        );
        assert_eq!(home.source().audit().unwrap().broken, Vec::<String>::new());
        drop((ledger, reader));
        assert_eq!(home.load().unwrap().next_seq(), book.next_seq(), "it replays");
    }
}

#[test]
fn an_address_that_is_given_later_goes_with_its_time_and_with_its_buyer() {
    for home in LedgerHome::each() {
        let (mut ledger, mut book, seqs) = placed(&home);
        give(&mut book, &mut ledger, 1);
        commit(&mut book, &mut ledger, AT, vec![Command::EraseBuyer(BuyerId(7))]);
        while ledger.erase_addresses(10).unwrap() > 0 {}
        assert_eq!(ledger.kept_address(seqs[0]).unwrap(), KeptAddress::Missing, "it was erased");
        give(&mut book, &mut ledger, 3);
        while ledger.purge_addresses(AT + 1, 10).unwrap() > 0 {}
        assert!(exported(&home, 0).iter().all(|line| line.address.is_none()), "its time was over");
        // Nobody would remove it any more.
        for (hash, seq) in [(2, seqs[1]), (3, seqs[2])] {
            let kept = ledger.kept_address(seq).unwrap();
            assert_eq!(kept, KeptAddress::Over);
            let given = book.give_address(UnixMs(AT), (id(hash), BuyerId(7)), BONN, &kept);
            assert!(matches!(given, Err(Refusal::TakesNoAddress(_))), "{given:?}");
        }
        assert_eq!(home.source().audit().unwrap().broken, Vec::<String>::new());
    }
}

#[test]
fn the_writer_takes_one_address_of_an_order_however_often_it_is_sent() {
    let dir = tempfile::tempdir().unwrap();
    let mut writer = Harness::start(dir.path(), None, NO_LIMITS);
    writer.one(open_sale(60_000));
    let Request::Place(mut bare) = order(1, 7, 1) else { unreachable!("it is an order") };
    bare.address = None;
    let give = |hash, buyer, address: &[u8]| {
        Request::Execute(Command::Address { order: id(hash), buyer: BuyerId(buyer), address: address.into() })
    };
    let look = |hash| Request::Read {
        order: id(hash),
        buyer: Some(BuyerId(7)),
        wait: Duration::ZERO,
        with_address: true,
    };
    let has = |reply: &Reply, expected: Option<&[u8]>| match reply {
        Reply::AddressedOrder { address, .. } => assert_eq!(address.as_deref(), expected),
        other => panic!("no order with its address: {other:?}"),
    };
    // In one batch with the order, and with each other.
    let batch = vec![
        Request::Place(bare),
        look(1),
        give(1, 8, BONN),
        give(1, 7, BONN),
        give(1, 7, BONN),
        give(1, 7, b"{}"),
        look(1),
        order(2, 7, 1),
        give(2, 7, BONN),
        give(3, 7, BONN),
    ];
    let replies = writer.ask(batch);
    has(&replies[1], None);
    assert!(matches!(replies[2], Reply::Refused(Refusal::UnknownOrder)), "{replies:?}");
    assert_eq!([&replies[3], &replies[4]].map(|reply| accepted(reply).1), [false, true]);
    assert!(matches!(replies[5], Reply::Refused(Refusal::AddressGiven)), "{replies:?}");
    has(&replies[6], Some(BONN));
    assert!(matches!(replies[8], Reply::Refused(Refusal::AddressGiven)), "placed with one: {replies:?}");
    assert!(matches!(replies[9], Reply::Refused(Refusal::UnknownOrder)), "{replies:?}");
    assert!(matches!(writer.one(read(1)), Reply::Order(_)), "who does not ask for it is not shown it");
    writer.finish().unwrap();
    let mut again = Harness::start(dir.path(), None, NO_LIMITS);
    has(&again.one(look(1)), Some(BONN));
    assert!(accepted(&again.one(give(1, 7, BONN))).1);
    again.finish().unwrap();
    assert_eq!(server::ledger::sqlite::audit(dir.path()).unwrap().broken, Vec::<String>::new());
}
