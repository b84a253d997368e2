//! What a new gate is built from, and what the servers read of the sales.

use std::collections::BTreeMap;

use engine::handover::{Change, Mark, MarkState, Reservation};
use engine::{BuyerId, Command, OrderId, SaleId, Sales, Seq, SkuId, UnixMs};
use server::ledger::mysql::cluster::{Raised, SharedLedger};

use super::{START, asked, assert_sound, one_sku, open, order, orders};

const NOW: UnixMs = UnixMs(START);

fn marks(ledger: &mut SharedLedger, snapshot: &Raised, portion: usize) -> Vec<Mark> {
    let mut marks = snapshot.marks(portion);
    let mut all = Vec::new();
    while let Some(portion) = marks.next(ledger).unwrap() {
        all.extend(portion.into_iter().map(|row| row.mark));
    }
    all
}

fn cancel(ledger: &mut SharedLedger, number: u64) {
    let id = OrderId { sku: SkuId(0), hash: u128::from(number) << 64 };
    ledger.execute(NOW, &[asked(Command::Cancel { order: id, buyer: BuyerId(number.into()) })]).unwrap();
}

#[test]
fn a_snapshot_stays_as_it_was_while_the_ledger_goes_on() {
    let (mut ledger, database) = open();
    one_sku(&mut ledger, 20, Some(3));
    // 20 orders, 5 rejections.
    ledger.consume(NOW, &[], &orders(0..25)).unwrap();
    for number in 0..4 {
        cancel(&mut ledger, number);
    }
    let snapshot = ledger.raise_epochs(&[SkuId(0)]).unwrap().remove(0);
    assert_eq!((snapshot.epoch, snapshot.limit), (1, Some(3)));
    assert_eq!((snapshot.stock.available(), snapshot.stock.held()), (4, 16));
    let whole = marks(&mut ledger, &snapshot, 1_000);
    // What comes now is not in it: it is in the outbox, under the new epoch.
    ledger.consume(NOW, &[], &[Reservation { epoch: 1, ..order(0, 5, 77) }]).unwrap();
    cancel(&mut ledger, 10);
    for portion in [1, 7, 20, 25, 1_000] {
        assert_eq!(marks(&mut ledger, &snapshot, portion), whole, "in portions of {portion}");
    }
    let mut by_state: BTreeMap<&str, usize> = BTreeMap::new();
    for mark in &whole {
        assert_eq!((mark.placement.quantity, mark.placement.id.sku), (1, SkuId(0)));
        let state = match mark.state {
            MarkState::Sold => "sold",
            MarkState::Returned => "returned",
            MarkState::RejectedReturned => "rejected",
            other => panic!("{other:?}"),
        };
        *by_state.entry(state).or_default() += 1;
    }
    assert_eq!(by_state, [("rejected", 5), ("returned", 4), ("sold", 16)].into());
    let sold = whole.iter().filter(|mark| mark.state == MarkState::Sold);
    let sold: u64 = sold.map(|mark| u64::from(mark.placement.quantity)).sum();
    assert_eq!(sold + snapshot.stock.available(), snapshot.stock.total());
    let got: Vec<_> = ledger.outbox(100, 0).unwrap().iter().map(|row| (row.epoch, row.change)).collect();
    assert_eq!(got.iter().filter(|(epoch, _)| *epoch == 0).count(), 4);
    let since: Vec<_> = got.iter().filter(|(epoch, _)| *epoch == 1).collect();
    assert!(matches!(since[..], [(_, Change::Release { .. })]), "a cancelled one: {since:?}");
    assert_sound(&database);
}

#[test]
fn a_snapshot_knows_when_each_hold_came_back_whatever_came_then() {
    let (mut ledger, _database) = open();
    one_sku(&mut ledger, 20, None);
    ledger.consume(NOW, &[], &orders(0..3)).unwrap();
    let later = UnixMs(START + 7);
    let id = OrderId { sku: SkuId(0), hash: 1 << 64 };
    ledger.execute(later, &[asked(Command::Cancel { order: id, buyer: BuyerId(1) })]).unwrap();
    let snapshot = ledger.raise_epochs(&[SkuId(0)]).unwrap().remove(0);
    let mut portions = snapshot.marks(10);
    let marks = portions.next(&mut ledger).unwrap().unwrap();
    let came_back: Vec<_> = marks.iter().map(|row| (row.mark.placement.buyer, row.returned_at)).collect();
    let wanted = [(BuyerId(0), None), (BuyerId(1), Some(later)), (BuyerId(2), None)];
    assert_eq!(came_back, wanted);
}

#[test]
fn the_marks_of_a_sku_are_its_own() {
    let (mut ledger, _database) = open();
    let items = vec![super::item(1, 5, None), super::item(2, 5, None)];
    let spec = super::sale(1, engine::Payment::OnPlacing, items);
    ledger.execute(NOW, &[asked(Command::CreateSale(spec))]).unwrap();
    ledger.consume(NOW, &[], &[order(0, 0, 1), order(1, 0, 1), order(1, u128::MAX, 2)]).unwrap();
    for (sku, count) in [(0, 1), (1, 2)] {
        let snapshot = ledger.raise_epochs(&[SkuId(sku)]).unwrap().remove(0);
        for portion in [1, 2, 10] {
            assert_eq!(marks(&mut ledger, &snapshot, portion).len(), count);
        }
    }
}

#[test]
fn servers_follow_the_sales() {
    let (mut ledger, _database) = open();
    let mut follower = ledger.another();
    let mut sales = Sales::new();
    let mut follow = |after: Seq| {
        let entries = follower.sale_entries(after).unwrap();
        for entry in &entries {
            sales.replay(entry).unwrap();
        }
        let sale = sales.get(SaleId(1)).unwrap();
        let version = follower.stocks().unwrap()[0].version;
        assert_eq!(Some(version), entries.last().map(|entry| entry.seq));
        (version, sale.paused, sale.ended_at.is_some())
    };
    one_sku(&mut ledger, 9, None);
    let (version, ..) = follow(Seq(0));
    ledger.consume(NOW, &[], &orders(0..3)).unwrap();
    ledger.execute(NOW, &[asked(Command::Pause(SaleId(1)))]).unwrap();
    let (version, paused, _) = follow(version);
    assert!(paused);
    ledger.consume(NOW, &[], &orders(3..5)).unwrap();
    ledger.execute(NOW, &[asked(Command::Resume(SaleId(1))), asked(Command::End(SaleId(1)))]).unwrap();
    let (version, paused, ended) = follow(version);
    assert!(!paused && ended);
    assert_eq!(ledger.end().unwrap().0, version);
    let row = ledger.stocks().unwrap()[0];
    assert_eq!((row.sale, row.orders, row.stock.held()), (SaleId(1), 5, 5));
}
