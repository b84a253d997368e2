//! Addresses, dead letters, a demo's mark, and the feed.

use engine::working_set::Executed;
use engine::{Accepted, Command, KeptAddress, UnixMs};
use mysql::prelude::Queryable;
use server::ledger::Buyers;
use server::ledger::mysql::cluster::SharedLedger;
use server::ledger::mysql::{changes, export};

use super::{START, asked, assert_sound, one_sku, open, orders};

#[test]
fn addresses_go_after_their_time_and_no_sooner() {
    let (mut ledger, database) = open();
    one_sku(&mut ledger, 100, None);
    for (at, from) in [(0, 0), (10, 5), (20, 10)] {
        ledger.consume(UnixMs(START + at), &[], &orders(from..from + 5)).unwrap();
    }
    let mut went = Vec::new();
    while went.last() != Some(&0) {
        went.push(ledger.purge_addresses(UnixMs(START + 15), 4).unwrap());
        assert!(went.len() < 10, "{went:?}");
    }
    assert_eq!(went, [4, 4, 2, 0]);
    let mut with_address = 0;
    export(&database.options, 0, &mut |line| {
        assert_eq!(line.address.is_some(), line.placed_at.0 > START + 15);
        with_address += u32::from(line.address.is_some_and(|address| address.contains("O'Fallon")));
    })
    .unwrap();
    assert_eq!(with_address, 5);
    assert_sound(&database);
}

#[test]
fn an_erased_buyer_has_no_name_and_no_address_and_still_their_orders() {
    let (mut ledger, database) = open();
    one_sku(&mut ledger, 100, None);
    let mut placed = orders(0..10);
    let anna = Buyers::new(&[7; 16]).find("anna").unwrap();
    for order in &mut placed[..3] {
        (order.placement.buyer, order.buyer_text) = (anna.id, anna.text.clone());
    }
    ledger.consume(UnixMs(START), &[], &placed).unwrap();
    let number = placed[5].placement.buyer;
    let erasures = [anna.id, number].map(|buyer| asked(Command::EraseBuyer(buyer)));
    let executed = ledger.execute(UnixMs(START + 1), &erasures).unwrap();
    assert_eq!(
        executed,
        [Executed::Accepted(Accepted::BuyerErased), Executed::Accepted(Accepted::BuyerErased)]
    );
    let looked = [4, 4, 4, 4].map(|max| ledger.erase_addresses(max).unwrap());
    assert_eq!(looked, [4, 4, 2, 0]);
    let mut erased = 0;
    export(&database.options, 0, &mut |line| {
        let gone = line.buyer == format!("erased:{}", anna.id) || line.buyer == number.to_string();
        assert_eq!(line.address.is_none(), gone, "{line:?}");
        erased += u32::from(gone);
    })
    .unwrap();
    assert_eq!(erased, 4);
    assert_sound(&database);
}

#[test]
fn an_order_is_given_one_address_and_it_goes_like_the_others() {
    let (mut ledger, database) = open();
    one_sku(&mut ledger, 100, None);
    let mut placed = orders(0..2);
    placed.iter_mut().for_each(|order| order.address = None);
    placed.extend(orders(2..3));
    ledger.consume(UnixMs(START), &[], &placed).unwrap();
    let [first, second, third] = [0, 1, 2].map(|index| placed[index].placement);
    let give = |place: engine::Placement, address: &[u8]| {
        asked(Command::Address { order: place.id, buyer: place.buyer, address: address.into() })
    };
    let stranger = engine::Placement { buyer: third.buyer, ..first };
    let nobody = engine::Placement { id: orders(9..10)[0].placement.id, ..first };
    let batch = [
        give(stranger, b"{}"),
        give(first, b"a"),
        give(first, b"a"),
        give(first, b"b"),
        give(third, b"a"),
        give(nobody, b"a"),
    ];
    let words = |executed: Vec<Executed>| {
        let word = |executed| match executed {
            Executed::Accepted(Accepted::Order { replayed, .. }) => {
                if replayed {
                    "again"
                } else {
                    "given"
                }
            }
            Executed::Refused(refusal) => refusal.code(),
            other => panic!("{other:?}"),
        };
        executed.into_iter().map(word).collect::<Vec<_>>()
    };
    assert_eq!(
        words(ledger.execute(UnixMs(START + 1), &batch).unwrap()),
        ["unknown_order", "given", "again", "address_given", "address_given", "unknown_order"]
    );
    assert_eq!(words(ledger.execute(UnixMs(START + 1), &[give(first, b"a")]).unwrap()), ["again"]);
    let mut kept = ledger.kept_addresses(&[first.id, second.id, nobody.id]).unwrap();
    kept.sort_by_key(|(order, _)| *order != first.id);
    assert_eq!(
        kept,
        [(first.id, KeptAddress::Is(b"a".as_slice().into())), (second.id, KeptAddress::Missing)]
    );
    let mut with_address = 0;
    export(&database.options, 0, &mut |line| with_address += u32::from(line.address.is_some())).unwrap();
    assert_eq!(with_address, 2);
    while ledger.purge_addresses(UnixMs(START + 15), 4).unwrap() > 0 {}
    export(&database.options, 0, &mut |line| assert_eq!(line.address, None)).unwrap();
    assert_eq!(
        words(ledger.execute(UnixMs(START + 2), &[give(second, b"a")]).unwrap()),
        ["takes_no_address"]
    );
    assert_sound(&database);
}

/// What a server that reconciles does in each round, while there is nothing to do.
fn idle_round(ledger: &mut SharedLedger, now: UnixMs) {
    let lease = ledger.lease("reconcile", 1, 60_000).unwrap();
    assert!(lease.is_some());
    ledger.fence_with(lease);
    assert_eq!(ledger.expire_due(now, 1_000).unwrap(), []);
    assert_eq!(ledger.outbox(1_000, 0).unwrap(), []);
    assert_eq!(ledger.purge_addresses(UnixMs(START - 1), 1_000).unwrap(), 0);
    assert_eq!(ledger.erase_addresses(1_000).unwrap(), 0);
    assert_eq!(ledger.stocks().unwrap().len(), 1);
    assert_eq!(ledger.sale_entries(ledger.another().end().unwrap().0).unwrap(), []);
}

#[test]
fn the_writers_lock_is_not_taken_while_nothing_is_due() {
    let (mut ledger, database) = open();
    one_sku(&mut ledger, 100, None);
    ledger.consume(UnixMs(START), &[], &orders(0..5)).unwrap();
    let mut holder = database.connection();
    holder.query_drop("BEGIN").unwrap();
    holder.query_drop("SELECT next_seq FROM writer WHERE id = 1 FOR UPDATE").unwrap();
    // Whoever asked for the lock now would wait for it until the time is over, and fail.
    for _ in 0..3 {
        idle_round(&mut ledger, UnixMs(START + 499));
    }
    holder.query_drop("COMMIT").unwrap();
    let expired = ledger.expire_due(UnixMs(START + 500), 1_000).unwrap();
    assert_eq!(expired.len(), 5, "what is due expires at its very millisecond");
    assert_sound(&database);
}

#[test]
fn a_hold_is_due_by_the_ledgers_time_if_that_is_later() {
    let (mut ledger, database) = open();
    one_sku(&mut ledger, 100, None);
    ledger.consume(UnixMs(START), &[], &orders(0..1)).unwrap();
    // Another server, whose clock is ahead, has written since.
    ledger.consume(UnixMs(START + 500), &[], &orders(1..2)).unwrap();
    assert_eq!(ledger.expire_due(UnixMs(START + 1), 10).unwrap().len(), 1);
    assert_sound(&database);
}

#[test]
fn the_feed_pages_through_the_shared_ledger() {
    let (mut ledger, database) = open();
    one_sku(&mut ledger, 100, None);
    ledger.consume(UnixMs(START), &[], &orders(0..20)).unwrap();
    ledger.expire_due(UnixMs(START + 500), 7).unwrap();
    let (mut since, mut seen) = (0, 0);
    loop {
        let page = changes(&database.options, since, 6).unwrap();
        seen += page.orders.len();
        since = page.cursor;
        if !page.more {
            break;
        }
    }
    assert_eq!((seen, since), (20 + 7, ledger.end().unwrap().0.0));
}

#[test]
fn a_demo_keeps_to_its_own_ledger() {
    let (mut ledger, _database) = open();
    assert!(ledger.is_for_demo().unwrap(), "it is empty");
    one_sku(&mut ledger, 3, None);
    assert!(ledger.is_for_demo().unwrap(), "it is the demo's");
    let (mut ledger, _database) = open();
    one_sku(&mut ledger, 3, None);
    assert!(!ledger.is_for_demo().unwrap());
}

#[test]
fn what_a_commit_survives_is_read_back() {
    let (mut ledger, database) = open();
    let server = format!("mysql {}:{}", database.options.host, database.options.port);
    assert_eq!(
        ledger.settings().unwrap().to_string(),
        format!("{server}: innodb_flush_log_at_trx_commit = 1, sync_binlog = 1, log_bin = ON")
    );
}
