//! Payments, claims, expiry and what the gate hears.

use engine::balance::{Balance, plan};
use engine::handover::{Change, Claim, Grant, Reservation};
use engine::rules::Declined;
use engine::working_set::{Executed, Operation, Outcome};
use engine::{
    Accepted, Adjust, BuyerId, Command, Disposition, OrderId, Pay, Refund, RefundReason, Refusal, Seq, SkuId,
    Status, UnitsKept, UnixMs,
};
use server::ledger::mysql::cluster::{Recorded, SharedLedger, correction_id};

use super::{START, asked, assert_sound, one_sku, open, order};

const NOW: UnixMs = UnixMs(START);
const LATE: UnixMs = UnixMs(START + 500);

fn pay(id: &str, order: OrderId, grant: Grant) -> Operation {
    asked(Command::Pay(Pay { id: id.into(), order, amount: 4_999 })).with(grant)
}

#[track_caller]
fn one(ledger: &mut SharedLedger, at: UnixMs, operation: Operation) -> Executed {
    let mut executed = ledger.execute(at, &[operation]).unwrap();
    assert_eq!(executed.len(), 1);
    executed.remove(0)
}

#[track_caller]
fn disposition(executed: &Executed) -> (Disposition, bool) {
    let Executed::Accepted(Accepted::Payment { payment, replayed }) = executed else {
        panic!("{executed:?}")
    };
    (payment.disposition, *replayed)
}

fn status(ledger: &mut SharedLedger, id: OrderId) -> Status {
    let Some(Recorded::Order { order, .. }) = ledger.lookup(&[id]).unwrap()[0] else {
        panic!("no order {id}")
    };
    order.status
}

/// A SKU of so many units, an order of one unit, expired.
fn expired(ledger: &mut SharedLedger, total: u64, limit: Option<u32>) -> OrderId {
    one_sku(ledger, total, limit);
    let first = order(0, 1, 1);
    ledger.consume(NOW, &[], std::slice::from_ref(&first)).unwrap();
    assert_eq!(ledger.expire_due(UnixMs(LATE.0 - 1), 10).unwrap(), []);
    assert_eq!(ledger.next_deadline().unwrap(), Some(LATE));
    assert_eq!(ledger.expire_due(LATE, 10).unwrap(), [first.placement.id]);
    assert_eq!(ledger.expire_due(LATE, 10).unwrap(), []);
    first.placement.id
}

#[test]
fn a_late_payment_asks_for_its_units_first() {
    for (grant, came_to) in [
        (Grant::Taken { epoch: 0 }, Disposition::Applied),
        (Grant::SoldOut, Disposition::RefundDue(RefundReason::ExpiredSoldOut)),
        (Grant::OverLimit, Disposition::RefundDue(RefundReason::ExpiredOverLimit)),
    ] {
        let (mut ledger, database) = open();
        let id = expired(&mut ledger, 3, Some(1));
        let end = ledger.end().unwrap();
        let asked = one(&mut ledger, LATE, pay("p", id, Grant::NotAsked));
        let Executed::NeedsClaim(claim) = &asked else { panic!("{asked:?}") };
        assert_eq!((claim.id(), *claim), (id, Claim::LatePayment(order(0, 1, 1).placement)));
        assert_eq!(ledger.end().unwrap(), end, "nothing is recorded before the gate has said");
        let paid = one(&mut ledger, LATE, pay("p", id, grant));
        assert_eq!(disposition(&paid), (came_to, false));
        // Once recorded, no claim is asked for any more.
        let again = one(&mut ledger, LATE, pay("p", id, Grant::NotAsked));
        assert_eq!(disposition(&again), (came_to, true));
        assert_sound(&database);
    }
}

#[test]
fn the_ledger_guards_a_late_payment_whatever_the_gate_says() {
    let (mut ledger, database) = open();
    let id = expired(&mut ledger, 1, None);
    ledger.consume(LATE, &[], &[order(0, 2, 2)]).unwrap();
    let paid = one(&mut ledger, LATE, pay("p", id, Grant::Taken { epoch: 0 }));
    let sold_out = Disposition::RefundDue(RefundReason::ExpiredSoldOut);
    assert_eq!(disposition(&paid), (sold_out, false));
    // Not its amount: no units are needed to say so.
    let wrong = asked(Command::Pay(Pay { id: "q".into(), order: id, amount: 1 }));
    let differs = Disposition::RefundDue(RefundReason::AmountDiffers);
    assert_eq!(disposition(&one(&mut ledger, LATE, wrong)), (differs, false));
    let Some(Recorded::Order { order, .. }) = ledger.lookup(&[id]).unwrap()[0] else { panic!() };
    assert!(order.refund_due);
    let settled = ledger
        .execute(LATE, &["p", "q", "p"].map(|payment| asked(Command::Settle { payment: payment.into() })))
        .unwrap();
    assert_eq!(settled.iter().map(|one| disposition(one).1).collect::<Vec<_>>(), [false, false, true]);
    assert_eq!(ledger.refunds_due(Seq(0), 10).unwrap(), []);
    assert_sound(&database);
}

#[test]
fn a_payment_that_comes_before_its_order_pays_for_it() {
    let (mut ledger, database) = open();
    one_sku(&mut ledger, 5, None);
    let first = order(0, 1, 1);
    for id in ["early", "too"] {
        let paid = one(&mut ledger, NOW, pay(id, first.placement.id, Grant::NotAsked));
        let unknown = Disposition::RefundDue(RefundReason::UnknownOrder);
        assert_eq!(disposition(&paid), (unknown, false));
    }
    let outcomes = ledger.consume(NOW, &[], &[first.clone(), first.clone()]).unwrap();
    // As it was placed: the answer that a retry gets again.
    let [Outcome::Placed(placed), Outcome::Known(known)] = &outcomes[..] else { panic!("{outcomes:?}") };
    assert_eq!((placed, placed.status), (known, Status::Held));
    assert_eq!(status(&mut ledger, first.placement.id), Status::Paid);
    let due = ledger.refunds_due(Seq(0), 10).unwrap();
    assert_eq!(due.iter().map(|payment| &*payment.pay.id).collect::<Vec<_>>(), ["too"]);
    assert_eq!(ledger.expire_due(LATE, 10).unwrap(), [], "it is paid");
    assert_sound(&database);
}

#[test]
fn a_payment_of_a_rejected_order_is_due_back() {
    let (mut ledger, database) = open();
    one_sku(&mut ledger, 0, None);
    let first = order(0, 1, 1);
    ledger.consume(NOW, &[], std::slice::from_ref(&first)).unwrap();
    let paid = one(&mut ledger, NOW, pay("p", first.placement.id, Grant::NotAsked));
    let unknown = Disposition::RefundDue(RefundReason::UnknownOrder);
    assert_eq!(disposition(&paid), (unknown, false));
    assert_eq!(ledger.refunds_due(Seq(0), 10).unwrap().len(), 1);
    assert_sound(&database);
}

#[test]
fn units_that_return_are_reported_to_the_gate_with_their_change() {
    let (mut ledger, database) = open();
    let expired = expired(&mut ledger, 5, Some(2));
    ledger.raise_epochs(&[SkuId(0)]).unwrap();
    let second = order(0, 2, 2);
    ledger.consume(LATE, &[], &[Reservation { epoch: 1, ..second.clone() }]).unwrap();
    let cancel = || asked(Command::Cancel { order: second.placement.id, buyer: BuyerId(2) });
    let of_another = asked(Command::Cancel { order: second.placement.id, buyer: BuyerId(3) });
    assert_eq!(one(&mut ledger, LATE, of_another), Executed::Refused(Refusal::UnknownOrder));
    for replayed in [false, true] {
        let executed = one(&mut ledger, LATE, cancel());
        let Executed::Accepted(Accepted::Order { order, replayed: again }) = executed else { panic!() };
        assert_eq!((order.status, again), (Status::Cancelled, replayed));
    }
    let restock =
        asked(Command::Adjust { sku: SkuId(0), how: Adjust::Restock, units: 7, key: "more".into() });
    for _ in 0..2 {
        assert_eq!(one(&mut ledger, LATE, restock.clone()), Executed::Accepted(Accepted::Stock(SkuId(0))));
    }
    let outbox = ledger.outbox(10, 0).unwrap();
    let got: Vec<_> = outbox.iter().map(|row| (row.epoch, row.change)).collect();
    assert_eq!(order(0, 1, 1).placement.id, expired);
    let expected = [
        (0, Change::Release(order(0, 1, 1).placement)),
        (1, Change::Release(second.placement)),
        (1, Change::Restock { units: 7 }),
    ];
    assert_eq!(got, expected);
    assert_sound(&database);
}

#[test]
fn a_refund_puts_units_back_on_sale_where_it_says_so_once() {
    let (mut ledger, database) = open();
    one_sku(&mut ledger, 5, Some(2));
    let mut two = order(0, 1, 1);
    two.placement.quantity = 2;
    ledger.consume(NOW, &[], std::slice::from_ref(&two)).unwrap();
    let id = two.placement.id;
    let refund = |name: &str, amount, units| {
        asked(Command::Refund(Refund { id: name.into(), order: id, amount, units, paid_out: false }))
    };
    let unpaid = one(&mut ledger, NOW, refund("r", None, 0));
    assert_eq!(unpaid, Executed::Refused(Refusal::NotRefundable(Status::Held)));
    let pays = asked(Command::Pay(Pay { id: "p".into(), order: id, amount: 2 * 4_999 }));
    assert_eq!(disposition(&one(&mut ledger, NOW, pays)).0, Disposition::Applied);
    for (name, amount, units, stands) in [("a", Some(100), 1, Status::Paid), ("b", None, 0, Status::Refunded)]
    {
        let due = Disposition::RefundDue(RefundReason::Requested { order: Seq(2), units });
        for replayed in [false, true] {
            assert_eq!(disposition(&one(&mut ledger, NOW, refund(name, amount, units))), (due, replayed));
            assert_eq!(status(&mut ledger, id), stands);
        }
    }
    let outbox = ledger.outbox(10, 0).unwrap();
    assert_eq!(outbox.iter().map(|row| row.change).collect::<Vec<_>>(), [Change::Restock { units: 1 }]);
    assert_eq!(ledger.refunds_due(Seq(0), 10).unwrap().len(), 2);
    // Those units are another's to buy, and not the same buyer's again: the limit counts what was had.
    let outcomes = ledger.consume(NOW, &[], &[order(0, 2, 1), order(0, 3, 2)]).unwrap();
    let [Outcome::Rejected(rejection), Outcome::Placed(_)] = &outcomes[..] else { panic!("{outcomes:?}") };
    assert_eq!(rejection.reason, Refusal::OverLimit);
    assert_sound(&database);
}

#[test]
fn a_correction_asks_for_its_units_first() {
    let (mut ledger, database) = open();
    one_sku(&mut ledger, 5, None);
    let correct = |units, key: &str, grant| {
        asked(Command::Adjust { sku: SkuId(0), how: Adjust::Correct, units, key: key.into() }).with(grant)
    };
    let stock = || Executed::Accepted(Accepted::Stock(SkuId(0)));
    let needed = Executed::NeedsClaim(Claim::Correction { id: correction_id(SkuId(0), "k"), units: 2 });
    let too_large = |kept| Executed::Refused(Refusal::CorrectionTooLarge(kept));
    let none = UnitsKept { total: 5, sold: 0, held: 0, turns: 0, promised: 0 };
    assert_eq!(one(&mut ledger, NOW, correct(2, "k", Grant::NotAsked)), needed);
    assert_eq!(one(&mut ledger, NOW, correct(2, "k", Grant::SoldOut)), too_large(None));
    assert_eq!(one(&mut ledger, NOW, correct(6, "k", Grant::Taken { epoch: 0 })), too_large(Some(none)));
    assert_eq!(one(&mut ledger, NOW, correct(2, "k", Grant::Taken { epoch: 7 })), needed, "of another gate");
    assert_eq!(one(&mut ledger, NOW, correct(2, "k", Grant::Taken { epoch: 0 })), stock());
    assert_eq!(one(&mut ledger, NOW, correct(2, "k", Grant::NotAsked)), stock());
    let conflict = Executed::Refused(Refusal::KeyConflict);
    assert_eq!(one(&mut ledger, NOW, correct(3, "k", Grant::NotAsked)), conflict);
    assert_eq!(ledger.stocks().unwrap()[0].stock.total(), 3);
    let got: Vec<_> = ledger.outbox(10, 0).unwrap().into_iter().map(|row| row.change).collect();
    let correct = Change::Correct { id: correction_id(SkuId(0), "k"), units: 2 };
    assert_eq!(got, [correct], "the gate that had the claim may be gone");
    assert_sound(&database);
}

#[test]
fn a_balance_is_set_by_adjustments() {
    let (mut ledger, database) = open();
    let items = vec![super::item(1, 5, None), super::item(2, 20, None), super::item(3, 10, None)];
    let spec = super::sale(1, engine::Payment::OnPlacing, items);
    one(&mut ledger, NOW, asked(Command::CreateSale(spec)));
    ledger.consume(NOW, &[], &[order(0, 1, 1)]).unwrap();
    let balance = |ledger: &mut SharedLedger, available| {
        let stocks = ledger.stocks().unwrap();
        let items: Vec<_> = stocks
            .iter()
            .map(|row| Balance::without_line(row.sku, row.stock.total(), row.stock.available()))
            .collect();
        plan(&items, available, Seq(ledger.end().unwrap().0.0 + 1))
    };
    let corrected =
        |how, epoch| if how == Adjust::Correct { Grant::Taken { epoch } } else { Grant::NotAsked };
    let commands = balance(&mut ledger, 10).unwrap();
    let planned = |epoch| -> Vec<_> {
        let of = |command: &Command| match command {
            Command::Adjust { how, .. } => asked(command.clone()).with(corrected(*how, epoch)),
            other => panic!("{other:?}"),
        };
        commands.iter().map(of).collect()
    };
    let moves: Vec<_> = commands
        .iter()
        .map(|command| match command {
            Command::Adjust { sku, how, units, .. } => (sku.0, *how, *units),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(moves, [(0, Adjust::Restock, 6), (1, Adjust::Correct, 10)]);
    // A gate that was built anew does not have what the old one gave: all or none.
    let before = ledger.stocks().unwrap();
    let refused = ledger.execute_all(NOW, &planned(7)).unwrap();
    assert!(matches!(refused, Err(Declined::NeedsClaim(Claim::Correction { units: 10, .. }))), "{refused:?}");
    assert_eq!(ledger.stocks().unwrap(), before);
    for _ in 0..2 {
        assert_eq!(ledger.execute_all(NOW, &planned(0)).unwrap().unwrap().len(), 2);
        let stocks = ledger.stocks().unwrap();
        assert!(stocks.iter().all(|row| row.stock.available() == 10), "{stocks:?}");
    }
    assert_eq!(balance(&mut ledger, 10), Ok(Vec::new()));
    assert!(matches!(balance(&mut ledger, u64::MAX), Err(Refusal::InvalidChange(_))));
    assert_sound(&database);
}

#[test]
fn pay_by_is_of_the_time_of_placing() {
    let (mut ledger, database) = open();
    one_sku(&mut ledger, 5, None);
    ledger.consume(NOW, &[], &[order(0, 1, 1)]).unwrap();
    let change = engine::SaleChange { payment_ms: Some(9_000), ..Default::default() };
    one(&mut ledger, NOW, asked(Command::ChangeSale { sale: engine::SaleId(1), change }));
    ledger.consume(NOW, &[], &[order(0, 2, 2)]).unwrap();
    let ids = [order(0, 1, 1).placement.id, order(0, 2, 2).placement.id];
    let pay_by: Vec<_> = ledger
        .another()
        .lookup(&ids)
        .unwrap()
        .into_iter()
        .map(|found| match found {
            Some(Recorded::Order { order, .. }) => order.pay_by.unwrap().0 - START,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(pay_by, [500, 9_000]);
    assert_sound(&database);
}
