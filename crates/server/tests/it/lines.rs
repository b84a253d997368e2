//! A line in the ledger's backends: every kind of entry comes back as it was, and the readers see its orders.

use std::collections::BTreeSet;

use engine::{
    BeaconTerms, Book, BuyerId, Command, DrawView, Event, Fingerprint, GroupName, LineAccess, LineTerms,
    LineView, Notice, Opening, OrderId, PlaceView, Placement, ProductId, SaleSpec, SkuId, Spoken, TurnEnd,
    UnixMs,
};
use server::intake::catalog::Catalog;
use server::ledger::{EventReader, NoDraw, OpenedTurn, What};
use server::webhooks::Noticing;

use crate::history::{self, sale};
use crate::ledger::commit;
use crate::places::LedgerHome;

const SKU: SkuId = SkuId(0);
const PEOPLE: u64 = 8;
const STARTS_AT: u64 = 100_000;
const TURN_MS: u64 = 10_000;

/// The first item is sold to its line, which waits for a beacon.
fn sold_to_its_line() -> SaleSpec {
    let beacon = BeaconTerms { public_key: [7; 96], genesis_s: 0, period_s: 1 };
    let group = |name| GroupName::new(name).unwrap();
    let groups = [(group("gold"), Opening::Always), (group("club"), Opening::BeforeStart { ms: 95_000 })];
    let terms = LineTerms {
        units: 1,
        turn_ms: TURN_MS,
        grace_ms: 1_000,
        close_ms: 50_000,
        beacon: Some(beacon),
        access: Some(LineAccess::new(groups, Some(Opening::BeforeStart { ms: 90_000 })).unwrap()),
    };
    let mut sale = sale(1);
    sale.starts_at = UnixMs(STARTS_AT);
    sale.open_holds_per_buyer_max = None;
    sale.items[0].line = Some(terms);
    sale.items[0].total = 3;
    sale
}

/// Numbers and hashes.
fn buyer(number: u64) -> BuyerId {
    history::buyer(number).id
}

fn everybody(command: impl Fn(BuyerId) -> Command) -> Vec<Command> {
    (0..PEOPLE).map(|number| command(buyer(number))).collect()
}

fn line_of(book: &Book) -> (LineView, String, Vec<Option<PlaceView>>) {
    let places = (0..PEOPLE).map(|number| book.place_in_line(SKU, buyer(number)).ok()).collect();
    (book.line_of(SKU).unwrap(), book.message_to_line(SKU).to_owned(), places)
}

/// Who has this place.
fn at(book: &Book, place: u32) -> BuyerId {
    let stands = |number: &u64| book.place_in_line(SKU, buyer(*number)).unwrap().place == Some(place);
    buyer((0..PEOPLE).find(stands).unwrap())
}

#[test]
fn every_entry_of_a_line_comes_back_as_it_was() {
    for home in LedgerHome::each() {
        let mut ledger = home.open();
        let mut book = ledger.load().unwrap();
        let mut kinds = BTreeSet::new();
        let mut step = |book: &mut Book, at_ms: u64, commands: Vec<Command>| {
            for entry in commit(book, &mut ledger, at_ms, commands) {
                kinds.insert(match entry.event {
                    Event::LineJoined { .. } => "joined",
                    Event::LineClosed { .. } => "closed",
                    Event::LineDrawn { .. } => "drawn",
                    Event::LineMoved { .. } => "moved",
                    Event::LineMessageSet { .. } => "message",
                    Event::PaceLimited { per_s_max: Some(_), .. } => "limited",
                    Event::PaceLimited { per_s_max: None, .. } => "not limited",
                    Event::TurnOpened { .. } => "opened",
                    Event::TurnEnded { how: TurnEnd::Expired, .. } => "expired",
                    Event::TurnEnded { how: TurnEnd::GivenBack, .. } => "given back",
                    _ => "other",
                });
            }
            assert_eq!(line_of(&ledger.load().unwrap()), line_of(book), "{home:?} at {at_ms}");
            assert_eq!(home.source().audit().unwrap().broken, Vec::<String>::new(), "{home:?} at {at_ms}");
        };
        let of = (sold_to_its_line().id, ProductId(1));
        step(&mut book, 1_000, vec![Command::CreateSale(sold_to_its_line())]);
        step(&mut book, 2_000, everybody(|buyer| Command::Join { sku: SKU, buyer }));
        assert_eq!(home.source().draw(Some(of.0), of.1).unwrap().unwrap_err(), NoDraw::Open(UnixMs(50_000)));
        step(&mut book, 50_000, Vec::new());
        assert_eq!(home.source().draw(Some(of.0), of.1).unwrap().unwrap_err(), NoDraw::Waiting);
        let round = book.line_of(SKU).unwrap().draw.closed().unwrap().round.unwrap();
        let spoken = Box::new(Spoken { round, signature: [9; 48] });
        step(&mut book, 60_000, vec![Command::Draw { sku: SKU, spoken }]);
        let drawn = home.source().draw(Some(of.0), of.1).unwrap().unwrap();
        assert!(matches!(drawn.line.draw, DrawView::Drawn { spoken: Some(_), .. }));
        assert_eq!(drawn.leaves.len() as u64, PEOPLE);

        // Presence is in no ledger: it is shown with the batch that calls.
        let present = everybody(|buyer| Command::ShowPresence { sku: SKU, buyer });
        let limit = |per_s_max| Command::LimitPace { sku: SKU, per_s_max };
        let message: Box<str> = "O'Neil's “line”, №1".into();
        step(&mut book, 70_000, vec![limit(Some(1_000)), Command::SetLineMessage { sku: SKU, message }]);
        step(&mut book, STARTS_AT, present.clone());
        step(&mut book, STARTS_AT, vec![limit(None)]);
        step(&mut book, STARTS_AT + 1, present);
        let (first, second) = (at(&book, 1), at(&book, 2));
        let id = OrderId { sku: SKU, hash: 5 };
        let order = Placement { id, buyer: first, quantity: 1, fingerprint: Fingerprint(0) };
        step(
            &mut book,
            STARTS_AT + 2,
            vec![Command::Place(order), Command::GiveTurnBack { sku: SKU, buyer: second }],
        );
        step(&mut book, STARTS_AT + 60_000, Vec::new());
        let all = [
            "joined",
            "closed",
            "drawn",
            "moved",
            "message",
            "limited",
            "not limited",
            "opened",
            "expired",
            "given back",
        ];
        assert!(all.iter().all(|kind| kinds.contains(kind)), "{home:?}: {kinds:?}");
        let mut products = Vec::new();
        home.source().export(0, &mut |line| products.push(line.product)).unwrap();
        assert_eq!(products, [ProductId(1)], "{home:?}");
    }
}

/// What the shop is notified of, of the line.
fn turns_notified(reader: &mut EventReader) -> Vec<OpenedTurn> {
    let events = reader.read(0, u64::MAX).unwrap().events;
    let of_turn = |what| match what {
        What::TurnOpened(turn) => Some(turn),
        _ => None,
    };
    events.into_iter().filter_map(|event| of_turn(event.what)).collect()
}

#[test]
fn the_shop_is_notified_of_each_turn_once_and_whose_it_is() {
    for home in LedgerHome::each() {
        let (mut ledger, mut book) = (home.open(), Book::new());
        let mut sale = sold_to_its_line();
        let item = &mut sale.items[0];
        (item.total, item.limit) = (5, Some(2));
        let terms = item.line.as_mut().unwrap();
        (terms.beacon, terms.units) = (None, 2);
        commit(&mut book, &mut ledger, 1_000, vec![Command::CreateSale(sale)]);
        commit(&mut book, &mut ledger, 2_000, everybody(|buyer| Command::Join { sku: SKU, buyer }));
        commit(&mut book, &mut ledger, 50_000, Vec::new());
        let present = || everybody(|buyer| Command::ShowPresence { sku: SKU, buyer });
        let mut reader = home.source().event_reader().unwrap();
        assert_eq!(turns_notified(&mut reader), [], "nobody is called before the start");
        commit(&mut book, &mut ledger, STARTS_AT, present());
        // A server that starts again calls nobody twice.
        let mut book = ledger.load().unwrap();
        let given_back = Command::GiveTurnBack { sku: SKU, buyer: at(&book, 2) };
        let later = [present(), vec![given_back]].concat();
        commit(&mut book, &mut ledger, STARTS_AT + 5, later);
        let notified = turns_notified(&mut reader);
        // The third was called for what was left.
        let expected: Vec<OpenedTurn> = [(1, 2, 0), (2, 2, 0), (3, 1, 0), (4, 2, 5)]
            .map(|(place, units, after_ms)| {
                let id = at(&book, place);
                OpenedTurn {
                    sale: 1,
                    product: 1,
                    number: book.place_in_line(SKU, id).unwrap().number,
                    place,
                    buyer: history::text_of(id).map_or_else(|| id.to_string(), String::from),
                    units,
                    until: UnixMs(STARTS_AT + after_ms + TURN_MS),
                }
            })
            .into();
        assert_eq!(notified, expected, "{home:?}");
        assert!(notified.iter().any(|turn| turn.buyer.contains('№')), "one of them is a text");
        // Whoever is erased has no name any more, in what is sent again either.
        let hash = (1..=4).map(|place| at(&book, place)).find(|buyer| buyer.is_hash()).unwrap();
        commit(&mut book, &mut ledger, STARTS_AT + 6, vec![Command::EraseBuyer(hash)]);
        let erased = format!("erased:{hash}");
        assert_eq!(turns_notified(&mut reader).iter().filter(|turn| turn.buyer == erased).count(), 1);
        drop(ledger);
        assert_eq!(home.source().audit().unwrap().broken, Vec::<String>::new(), "{home:?}");
    }
}

/// What was set aside for somebody may come back to the line.
#[test]
fn the_shop_is_not_notified_that_what_is_in_turns_is_sold_out() {
    for home in LedgerHome::each() {
        let (mut ledger, mut book) = (home.open(), Book::new());
        let mut sale = sold_to_its_line();
        sale.items.truncate(1);
        let item = &mut sale.items[0];
        item.total = 1;
        item.line.as_mut().unwrap().beacon = None;
        let started = Notice::SaleStarted(sale.id);
        let found = |book: &Book, at: u64| {
            let catalog = Catalog::of(book.registry(), &Catalog::default());
            catalog.skus[0].counters.publish(book.stock(SKU).unwrap());
            Noticing::new(home.source().event_reader().unwrap()).look(UnixMs(at), &catalog).unwrap()
        };
        commit(&mut book, &mut ledger, 1_000, vec![Command::CreateSale(sale)]);
        commit(&mut book, &mut ledger, 2_000, everybody(|buyer| Command::Join { sku: SKU, buyer }));
        commit(&mut book, &mut ledger, STARTS_AT, Vec::new());
        let present = everybody(|buyer| Command::ShowPresence { sku: SKU, buyer });
        commit(&mut book, &mut ledger, STARTS_AT + 1, present);
        let stock = book.stock(SKU).unwrap();
        assert_eq!((stock.available(), stock.turns()), (0, 1));
        assert_eq!(found(&book, STARTS_AT + 1), [started], "{home:?}");
        let id = OrderId { sku: SKU, hash: 5 };
        let order = Placement { id, buyer: at(&book, 1), quantity: 1, fingerprint: Fingerprint(0) };
        commit(&mut book, &mut ledger, STARTS_AT + 2, vec![Command::Place(order)]);
        assert_eq!(found(&book, STARTS_AT + 2), [started, Notice::SoldOut(SKU)], "{home:?}");
    }
}
