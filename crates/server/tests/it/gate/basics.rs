//! One SKU, one client: what each call does.

use engine::handover::{
    Change, Claim, GateSale, Mark, MarkState, OutboxRow, ReturnedHolds, Settle, Snapshot, Verdict,
};
use engine::{CoolDown, OrderId, ProductId, Refusal, SkuId, UnixMs};
use server::clock::wall_clock;
use server::gate::{
    Applied, Built, ClaimRequest, Claimed, Closed, Found, Gate, GateAnswer, GateConfig, GateError, Open,
    OpenRows, Reserve, Reserved, SaleSet, Settled, Why,
};

use super::servers::Redis;
use super::{available, build, buyer_of, fresh, is_taken, on, place, reserve, reserve_of};

const SKU: SkuId = SkuId(0x1d);

fn what<T>(answers: Vec<Result<GateAnswer<T>, GateError>>) -> T {
    answers.into_iter().next().unwrap().unwrap().what
}

fn settle(hash: u128, epoch: u64, verdict: Verdict) -> [Settle; 1] {
    [Settle { id: OrderId { sku: SKU, hash }, epoch, verdict }]
}

fn row(id: u64, epoch: u64, change: Change) -> [OutboxRow; 1] {
    [OutboxRow { id, sku: SKU, epoch, change }]
}

fn release(hash: u128, buyer: u64, units: u32) -> [OutboxRow; 1] {
    row(1, 1, Change::Release(place(SKU, hash, buyer, units)))
}

/// Its own is the machine's; so it is wrong, if what it is compared with is not.
#[test]
fn a_redis_whose_clock_differs_takes_nothing_and_knows_all_the_same_what_it_took() {
    let redis = Redis::start(&[]);
    let mut gate = redis.gate();
    build(&mut gate, SKU, &fresh(1, 3, None));
    let mut at = |hash: u128, off_ms: i64, again: bool| {
        let request = Reserve { placement: place(SKU, hash, 9, 1), limit: None, record: b"record" };
        let now = Some(wall_clock().shifted(off_ms));
        if again { gate.reserve_again(&[request], now) } else { gate.reserve(&[request], now) }.remove(0)
    };
    // As far from the bound as a busy machine may need.
    for (hash, near, again) in [(1, -500, false), (2, 1_500, true)] {
        assert!(is_taken(&at(hash, near, again)));
    }
    // What an older gate had taken is no exception: it may have been given up by now.
    for (far, again) in [-3_600_000, -2_500, 4_000, 86_400_000].into_iter().zip([false, true, true, false]) {
        let refused = at(3, far, again);
        let Err(GateError::Closed(Closed::WrongClock { ahead_ms })) = refused else { panic!("{refused:?}") };
        assert!((ahead_ms + far).abs() < 1_500, "{ahead_ms} {far}");
        assert!(matches!(at(1, far, again).unwrap().what, Reserved::Open(_)), "what is known is answered");
    }
    assert_eq!(available(&mut gate, SKU), 1);
    // How old something is can't be said either.
    let mut open =
        |off_ms: i64| gate.open_of_each(&[SKU], 0, Some(wall_clock().shifted(off_ms)), 9).remove(0);
    assert_eq!(open(0).unwrap().what.len(), 2);
    let closed = open(10_000);
    assert!(matches!(closed, Err(GateError::Closed(Closed::WrongClock { .. }))), "{closed:?}");
}

#[test]
fn the_clock_of_each_master_is_read() {
    let redis = Redis::start(&[]);
    let mut gate = redis.gate();
    let before = wall_clock();
    let times = gate.times();
    let [time] = &times[..] else { panic!("{times:?}") };
    // It counts microseconds, and we milliseconds.
    assert!((before.0..=wall_clock().0).contains(&time.at.0), "{times:?}");
    assert!(time.between.0 <= time.between.1);
    drop(redis);
    assert!(gate.times().is_empty());
}

#[test]
fn an_order_is_reserved_found_settled_and_released_once() {
    let redis = Redis::start(&[]);
    let mut gate = redis.gate();
    build(&mut gate, SKU, &fresh(1, 3, Some(2)));
    let first = reserve_of(&mut gate, place(SKU, 1, 9, 2), Some(2));
    assert!(is_taken(&first), "{first:?}");
    assert_eq!(first.unwrap().seen.available, 1);

    let again = reserve_of(&mut gate, place(SKU, 1, 9, 2), Some(2)).unwrap();
    let Reserved::Open(open) = again.what else { panic!("{again:?}") };
    assert_eq!((&*open.record, open.epoch), (&b"record"[..], 1));
    assert_eq!(open.what, Open::Order(place(SKU, 1, 9, 2)));
    for other in [place(SKU, 1, 8, 2), place(SKU, 1, 9, 1)] {
        let answer = reserve_of(&mut gate, other, Some(2)).unwrap().what;
        assert_eq!(answer, Reserved::Refused(Refusal::KeyConflict));
    }
    for (other, refusal) in [
        (place(SKU, 2, 9, 1), Refusal::OverLimit),
        (place(SKU, 2, 8, 2), Refusal::NotEnoughLeft),
        (place(SKU, 2, 8, 0), Refusal::InvalidQuantity),
    ] {
        assert_eq!(reserve_of(&mut gate, other, Some(2)).unwrap().what, Reserved::Refused(refusal));
    }
    assert_eq!(gate.open_reservations(SKU, 0, 10).unwrap(), std::slice::from_ref(&open));
    assert_eq!(gate.open_reservations(SKU, 60_000, 10).unwrap(), []);
    let ids = [1, 2].map(|hash| OrderId { sku: SKU, hash });
    assert_eq!(gate.find(&ids), [Ok(Some(Found::Open(open))), Ok(None)]);

    assert_eq!(gate.settle(&settle(1, 2, Verdict::Placed)), [Ok(Settled::NotHere)]);
    assert_eq!(gate.settle(&settle(1, 1, Verdict::Placed)), [Ok(Settled::Done)]);
    assert_eq!(gate.settle(&settle(1, 1, Verdict::Placed)), [Ok(Settled::Already)]);
    assert_eq!(gate.settle(&settle(2, 1, Verdict::Placed)), [Ok(Settled::NotHere)]);
    assert_eq!(gate.find(&ids[..1]), [Ok(Some(Found::Settled(MarkState::Sold)))]);
    assert_eq!(gate.open_reservations(SKU, 0, 10).unwrap(), []);
    assert_eq!(reserve_of(&mut gate, place(SKU, 1, 9, 2), Some(2)).unwrap().what, Reserved::Settled);
    assert_eq!(available(&mut gate, SKU), 1);

    assert_eq!(what(gate.apply(&release(1, 9, 2))), Applied::Done);
    assert_eq!(what(gate.apply(&release(1, 9, 2))), Applied::Already);
    assert_eq!(what(gate.apply(&release(3, 9, 2))), Applied::Drift);
    assert_eq!(available(&mut gate, SKU), 3);
    assert!(is_taken(&reserve_of(&mut gate, place(SKU, 2, 9, 2), Some(2))));
    assert_eq!(gate.audit(SKU).unwrap().fault(), None);
}

#[test]
fn a_rejection_keeps_its_units() {
    let redis = Redis::start(&[]);
    let mut gate = redis.gate();
    build(&mut gate, SKU, &fresh(1, 10, Some(9)));
    assert!(is_taken(&reserve_of(&mut gate, place(SKU, 1, 9, 2), Some(9))));
    let twice = [settle(1, 1, Verdict::RejectedKept), settle(1, 1, Verdict::RejectedKept)].concat();
    assert_eq!(gate.settle(&twice), [Ok(Settled::Done), Ok(Settled::Already)]);
    assert_eq!(available(&mut gate, SKU), 8);
    let audit = gate.audit(SKU).unwrap();
    assert_eq!((audit.fault(), audit.taken_units, audit.buyers_counted), (None, 2, 2));
}

#[test]
fn rows_of_the_outbox_are_applied_once_and_in_their_epoch() {
    let redis = Redis::start(&[]);
    let mut gate = redis.gate();
    build(&mut gate, SKU, &fresh(5, 1, Some(9)));
    let take = |hash| Change::Take(place(SKU, hash, 4, 3));
    for (epoch, applied) in
        [(4, Applied::Old), (6, Applied::NotYet), (5, Applied::Done), (5, Applied::Already)]
    {
        assert_eq!(what(gate.apply(&row(1, epoch, take(1)))), applied);
    }
    // A debt, not sold out at zero: the units that come back pay it first.
    assert_eq!(available(&mut gate, SKU), -2);
    assert_eq!(
        reserve_of(&mut gate, place(SKU, 2, 9, 1), Some(9)).unwrap().what,
        Reserved::Refused(Refusal::SoldOut)
    );
    let restock = Change::Restock { units: 5_000_000_000 };
    assert_eq!(what(gate.apply(&row(70, 5, restock))), Applied::Done);
    assert_eq!(what(gate.apply(&row(70, 5, restock))), Applied::Already);
    assert_eq!(what(gate.apply(&row(70, 5, Change::Restock { units: 1 }))), Applied::Drift);
    assert_eq!(available(&mut gate, SKU), 4_999_999_998);
    // The order of an older epoch was reserved again here, before the row came.
    assert!(is_taken(&reserve_of(&mut gate, place(SKU, 3, 4, 3), Some(9))));
    assert_eq!(what(gate.apply(&row(3, 5, take(3)))), Applied::Done);
    assert_eq!(available(&mut gate, SKU), 4_999_999_995);
    assert_eq!(gate.open_reservations(SKU, 0, 10).unwrap(), []);
    assert_eq!(gate.audit(SKU).unwrap().fault(), None);
}

#[test]
fn a_late_payment_claims_units_that_were_given_back() {
    let redis = Redis::start(&[]);
    let mut gate = redis.gate();
    build(&mut gate, SKU, &fresh(1, 2, Some(2)));
    let late = Claim::LatePayment(place(SKU, 1, 9, 2));
    let claim = [ClaimRequest { claim: late, record: b"late" }];
    assert_eq!(what(gate.claim(&claim)), Claimed::Drift);
    assert!(is_taken(&reserve_of(&mut gate, place(SKU, 1, 9, 2), Some(2))));
    assert_eq!(gate.settle(&settle(1, 1, Verdict::Placed)), [Ok(Settled::Done)]);
    assert_eq!(what(gate.claim(&claim)), Claimed::NotYet);
    assert_eq!(what(gate.apply(&release(1, 9, 2))), Applied::Done);

    assert!(is_taken(&reserve_of(&mut gate, place(SKU, 2, 9, 1), Some(2))));
    assert_eq!(what(gate.claim(&claim)), Claimed::Refused(Refusal::NotEnoughLeft));
    assert_eq!(what(gate.apply(&row(70, 1, Change::Restock { units: 1 }))), Applied::Done);
    assert_eq!(what(gate.claim(&claim)), Claimed::Refused(Refusal::OverLimit));
    assert_eq!(gate.settle(&settle(2, 1, Verdict::Placed)), [Ok(Settled::Done)]);
    assert_eq!(what(gate.apply(&release(2, 9, 1))), Applied::Done);
    assert!(matches!(what(gate.claim(&claim)), Claimed::Taken { .. }));
    let Claimed::Open(open) = what(gate.claim(&claim)) else { panic!("the claim is open") };
    assert_eq!((open.what, &*open.record), (Open::Claim(late), &b"late"[..]));
    assert_eq!(available(&mut gate, SKU), 1);
    // The order's own message or its release reported again don't touch the claim.
    assert_eq!(gate.settle(&settle(1, 1, Verdict::Placed)), [Ok(Settled::Already)]);
    assert_eq!(what(gate.apply(&release(1, 9, 2))), Applied::Already);

    assert_eq!(gate.settle(&settle(1, 1, Verdict::ClaimUndone)), [Ok(Settled::Done)]);
    assert_eq!(available(&mut gate, SKU), 3);
    assert!(matches!(what(gate.claim(&claim)), Claimed::Taken { .. }));
    assert_eq!(gate.settle(&settle(1, 1, Verdict::ClaimKept)), [Ok(Settled::Done)]);
    assert_eq!(what(gate.claim(&claim)), Claimed::Settled);
    assert_eq!(what(gate.apply(&release(1, 9, 2))), Applied::Already);
    assert_eq!(available(&mut gate, SKU), 1);
    assert_eq!(gate.audit(SKU).unwrap().fault(), None);
}

#[test]
fn a_correction_claims_units_and_gives_them_back_when_undone() {
    let redis = Redis::start(&[]);
    let mut gate = redis.gate();
    build(&mut gate, SKU, &fresh(1, 10, None));
    let id = |hash| OrderId { sku: SKU, hash };
    let correct = |units| [ClaimRequest { claim: Claim::Correction { id: id(50), units }, record: b"" }];
    assert_eq!(what(gate.claim(&correct(11))), Claimed::Refused(Refusal::NotEnoughLeft));
    assert!(matches!(what(gate.claim(&correct(4))), Claimed::Taken { .. }));
    assert_eq!(what(gate.claim(&correct(5))), Claimed::Refused(Refusal::KeyConflict));
    // Reported twice in one call, it gives the units back once.
    let twice = [settle(50, 1, Verdict::ClaimUndone), settle(50, 1, Verdict::ClaimUndone)].concat();
    assert_eq!(gate.settle(&twice), [Ok(Settled::Done), Ok(Settled::Already)]);
    assert_eq!(available(&mut gate, SKU), 10);
    assert!(matches!(what(gate.claim(&correct(5))), Claimed::Taken { .. }));
    assert_eq!(gate.settle(&settle(50, 1, Verdict::ClaimKept)), [Ok(Settled::Done)]);
    assert_eq!(what(gate.claim(&correct(5))), Claimed::Settled);
    assert_eq!(what(gate.apply(&row(1, 1, Change::Correct { id: id(50), units: 5 }))), Applied::Already);
    assert_eq!(what(gate.apply(&row(2, 1, Change::Correct { id: id(51), units: 6 }))), Applied::Done);
    assert_eq!(available(&mut gate, SKU), -1);
    assert_eq!(gate.audit(SKU).unwrap().fault(), None);
}

#[test]
fn a_sale_is_paused_resumed_and_ended_by_version() {
    let redis = Redis::start(&[]);
    let mut gate = redis.gate();
    let sale = |version, paused, ended| GateSale { version, paused, ended, ..on() };
    assert_eq!(gate.set_sale(&[(SKU, on(), None)]), [Err(GateError::Closed(Closed::Lost))]);
    build(&mut gate, SKU, &fresh(1, 10, None));
    assert_eq!(what(gate.set_sale(&[(SKU, sale(1, true, false), None)])), SaleSet::Old);
    assert_eq!(what(gate.set_sale(&[(SKU, sale(2, true, false), None)])), SaleSet::Done);
    assert_eq!(reserve(&mut gate, place(SKU, 1, 9, 1)).unwrap().what, Reserved::Refused(Refusal::Paused));
    assert_eq!(what(gate.set_sale(&[(SKU, sale(3, false, false), None)])), SaleSet::Done);
    assert!(is_taken(&reserve(&mut gate, place(SKU, 1, 9, 1))));
    assert_eq!(what(gate.set_sale(&[(SKU, sale(9, true, true), None)])), SaleSet::Done);
    assert_eq!(reserve(&mut gate, place(SKU, 2, 9, 1)).unwrap().what, Reserved::Refused(Refusal::Ended));
    let state = gate.states(&[SKU]).remove(0).unwrap().unwrap();
    assert_eq!((state.sale.version, state.sale.ended, state.limit, state.closed), (9, true, None, None));
    // A build from an older state of the ledger does not bring the sale back.
    build(&mut gate, SKU, &fresh(2, 10, None));
    assert_eq!(reserve(&mut gate, place(SKU, 2, 9, 1)).unwrap().what, Reserved::Refused(Refusal::Ended));
}

/// What an operator corrected before the start, however the gate comes to hear of it.
#[test]
fn a_changed_limit_is_that_of_the_newest_version_and_who_has_not_heard_of_it_buys_nothing() {
    let redis = Redis::start(&[]);
    let mut gate = redis.gate();
    let version = |version| GateSale { version, ..on() };
    let snapshot =
        |epoch, version, limit| Snapshot { sale: GateSale { version, ..on() }, ..fresh(epoch, 10, limit) };
    let limit = |gate: &mut Gate| gate.states(&[SKU]).remove(0).unwrap().unwrap().limit;
    build(&mut gate, SKU, &snapshot(1, 5, Some(3)));
    assert_eq!(what(gate.set_sale(&[(SKU, version(5), Some(3))])), SaleSet::Old);
    assert_eq!(what(gate.set_sale(&[(SKU, version(4), Some(9))])), SaleSet::Old);
    assert_eq!(what(gate.set_sale(&[(SKU, version(6), Some(2))])), SaleSet::Done);
    // A release that knew of no such changes brought the version, and left the limit as it was.
    assert_eq!(what(gate.set_sale(&[(SKU, version(6), None)])), SaleSet::Done);
    assert_eq!(what(gate.set_sale(&[(SKU, version(7), Some(2))])), SaleSet::Done);
    let other = Err(GateError::Closed(Closed::OtherLimit));
    for known in [None, Some(3), Some(1)] {
        assert_eq!(reserve_of(&mut gate, place(SKU, 1, 9, 1), known), other);
    }
    assert!(is_taken(&reserve_of(&mut gate, place(SKU, 1, 9, 2), Some(2))));
    let again = reserve_of(&mut gate, place(SKU, 1, 9, 2), Some(3)).unwrap().what;
    assert!(matches!(again, Reserved::Open(_)), "a key that is known is answered: {again:?}");
    let more = reserve_of(&mut gate, place(SKU, 2, 9, 1), Some(2)).unwrap().what;
    assert_eq!(more, Reserved::Refused(Refusal::OverLimit));

    // Rebuilt by one that had read the sale before the change, after it and before it was sent to the gate.
    for (epoch, read, expected) in [(2, 5, Some(2)), (3, 8, Some(3)), (4, 7, Some(3))] {
        build(&mut gate, SKU, &snapshot(epoch, read, Some(3)));
        assert_eq!(limit(&mut gate), expected, "epoch {epoch}");
    }
    assert_eq!(gate.fence(&[(SKU, 4)]), [Ok(())]);
    let set = gate.set_sale(&[(SKU, version(9), Some(4))]);
    assert_eq!(what(set), SaleSet::Done, "a gate that is closed hears of it too");
    let built = gate.build(SKU, &snapshot(5, 8, Some(3)), &mut || ());
    assert!(matches!(built, Ok(Built::Open(_))), "{built:?}");
    assert_eq!(limit(&mut gate), Some(4));
}

/// A ledger that has lost its tail gives the versions of what is gone to others, and a gate must not go by what it had heard.
#[test]
fn a_gate_that_begins_anew_knows_its_sale_as_the_ledger_has_it() {
    let redis = Redis::start(&[]);
    let mut gate = redis.gate();
    let paused = |version, paused| GateSale { version, paused, ..on() };
    let snapshot = |epoch, sale| Snapshot { sale, ..fresh(epoch, 10, None) };
    let known = |gate: &mut Gate| {
        let state = gate.states(&[SKU]).remove(0).unwrap().unwrap();
        (state.sale.version, state.sale.paused)
    };
    build(&mut gate, SKU, &snapshot(1, paused(5, false)));
    assert_eq!(what(gate.set_sale(&[(SKU, paused(7, true), None)])), SaleSet::Done);
    build(&mut gate, SKU, &snapshot(2, paused(6, false)));
    assert_eq!(known(&mut gate), (7, true), "what came in during a build is newer");
    for (epoch, closed_before) in [(3, false), (4, true)] {
        assert_eq!(what(gate.set_sale(&[(SKU, paused(7 + epoch, true), None)])), SaleSet::Done);
        if closed_before {
            assert_eq!(gate.fence(&[(SKU, epoch)]), [Ok(())]);
        }
        assert_eq!(gate.fence_anew(&[SKU]), [Ok(())]);
        let fenced = Err(GateError::Closed(Closed::Fenced));
        assert_eq!(reserve(&mut gate, place(SKU, 1, 9, 1)), fenced);
        let built = gate.build(SKU, &snapshot(epoch, paused(6, false)), &mut || ());
        assert!(matches!(built, Ok(Built::Open(_))), "{built:?}");
        assert_eq!(known(&mut gate), (6, false), "epoch {epoch}");
    }
    assert_eq!(gate.fence_anew(&[SkuId(77)]), [Ok(())], "one that is not there is as it should be");
}

/// While its marks come in.
#[test]
fn a_limit_that_is_changed_during_a_build_is_the_new_one_at_its_end() {
    let redis = Redis::start(&[]);
    let (mut gate, mut other) = (redis.gate(), redis.gate());
    let marks = (1..=3).map(|hash| Mark { placement: place(SKU, hash, 9, 1), state: MarkState::Sold });
    let snapshot = Snapshot { marks: marks.collect(), ..fresh(1, 10, None) };
    let mut set = Vec::new();
    let built = gate.build(SKU, &snapshot, &mut || {
        set = other.set_sale(&[(SKU, GateSale { version: 2, ..on() }, Some(7))]);
    });
    assert!(matches!(built, Ok(Built::Open(_))), "{built:?}");
    assert_eq!(what(set), SaleSet::Done);
    assert_eq!(gate.states(&[SKU]).remove(0).unwrap().unwrap().limit, Some(7));
}

/// Whoever stood still before it began may have begun behind the fence of another, who has raised the epoch since: what this gate
/// takes would be rejected.
#[test]
fn a_build_that_does_not_go_on_after_it_has_begun_sells_nothing() {
    let redis = Redis::start(&[]);
    let mut gate = redis.gate();
    let mark = Mark { placement: place(SKU, 1, 9, 1), state: MarkState::Sold };
    for (epoch, marks) in [(1, Vec::new()), (2, vec![mark])] {
        let snapshot = Snapshot { marks, ..fresh(epoch, 10, None) };
        let begun = gate.begin_each(&[(SKU, epoch)]);
        let built = gate.finish_each(begun, &[(SKU, &snapshot)], &mut || false).remove(0);
        assert!(matches!(built, Err(GateError::NotExecuted(_))), "{built:?}");
        assert_eq!(reserve(&mut gate, place(SKU, 2, 9, 1)), Err(GateError::Closed(Closed::Fenced)));
    }
    let begun = gate.begin_each(&[(SKU, 3)]);
    let built = gate.finish_each(begun, &[(SKU, &fresh(3, 10, None))], &mut || true).remove(0);
    assert!(matches!(built, Ok(Built::Open(_))), "{built:?}");
}

/// Its server has heard that a later one was built: a master that was cut off does not know that, and sells on.
#[test]
fn a_gate_whose_epoch_is_over_sells_nothing() {
    let redis = Redis::start(&[]);
    let config = redis.config();
    let (mut gate, mut unaware) = (Gate::new(config.clone()), redis.gate());
    build(&mut gate, SKU, &fresh(1, 10, None));
    config.epochs.hear([(SKU, 1), (SkuId(2), 7)]);
    assert!(is_taken(&reserve(&mut gate, place(SKU, 1, 9, 1))));
    config.epochs.hear([(SKU, 2)]);
    let claim = Claim::Correction { id: OrderId { sku: SKU, hash: 50 }, units: 1 };
    let claimed = gate.claim(&[ClaimRequest { claim, record: b"key" }]).remove(0);
    assert_eq!(claimed, Err(GateError::Unknown(Why::RanBackwards)));
    let fenced = GateError::Closed(Closed::Fenced);
    assert_eq!(reserve(&mut gate, place(SKU, 2, 9, 1)), Err(fenced.clone()));
    assert_eq!(reserve(&mut unaware, place(SKU, 3, 9, 1)), Err(fenced), "it is closed for everybody");
    assert_eq!(gate.take_suspects(), [], "the one that was built since is well");
    build(&mut unaware, SKU, &fresh(2, 10, None));
    assert!(is_taken(&reserve(&mut gate, place(SKU, 4, 9, 1))));
    // What it took before it was over is no promise either.
    config.epochs.hear([(SKU, 3)]);
    let found = gate.find(&[OrderId { sku: SKU, hash: 4 }]);
    assert_eq!(found, [Err(GateError::Unknown(Why::RanBackwards))]);
}

/// Its buyer asked while the sale was on, and does not know what became of it.
#[test]
fn what_an_older_gate_had_taken_is_judged_by_units_and_limit_alone() {
    let redis = Redis::start(&[]);
    let mut gate = Gate::new(GateConfig { cool_down: CoolDown { first_ms: 600_000 }, ..redis.config() });
    let later = UnixMs(wall_clock().0 + 600_000);
    let waits = (buyer_of(8), ReturnedHolds { count: 1, latest_at: wall_clock() });
    let sales = [
        on(),
        GateSale { paused: true, ..on() },
        GateSale { ended: true, ..on() },
        GateSale { starts_at: later, ..on() },
        GateSale { ends_at: UnixMs(1), ..on() },
    ];
    for (sale, epoch) in sales.into_iter().zip(1..) {
        let returned_holds = vec![waits];
        build(&mut gate, SKU, &Snapshot { sale, returned_holds, ..fresh(epoch, 3, Some(2)) });
        let mut at = |hash, buyer, quantity| {
            let place = place(SKU, hash, buyer, quantity);
            what(gate.reserve_again(&[Reserve { placement: place, limit: None, record: b"record" }], None))
        };
        assert!(matches!(at(1, 8, 2), Reserved::Taken { .. }), "{sale:?}");
        assert!(matches!(at(1, 8, 2), Reserved::Open(_)), "{sale:?}");
        assert_eq!(at(2, 8, 1), Reserved::Refused(Refusal::OverLimit));
        assert_eq!(at(3, 7, 2), Reserved::Refused(Refusal::NotEnoughLeft));
        assert!(matches!(at(4, 7, 1), Reserved::Taken { .. }), "{sale:?}");
        assert_eq!(at(5, 6, 1), Reserved::Refused(Refusal::SoldOut));
        assert_eq!(gate.audit(SKU).unwrap().fault(), None);
    }
}

#[test]
fn a_fenced_gate_is_rebuilt_under_a_later_epoch_only() {
    let redis = Redis::start(&[]);
    let mut gate = redis.gate();
    assert_eq!(reserve(&mut gate, place(SKU, 1, 9, 1)), Err(GateError::Closed(Closed::Lost)));
    build(&mut gate, SKU, &fresh(2, 10, None));
    assert!(is_taken(&reserve(&mut gate, place(SKU, 1, 9, 1))));
    let newer = gate.build(SKU, &fresh(3, 10, None), &mut || ());
    assert_eq!(newer, Ok(Built::Old), "a gate that sells is not replaced");
    assert_eq!(gate.fence(&[(SKU, 1)]), [Ok(())]);
    assert!(is_taken(&reserve(&mut gate, place(SKU, 2, 9, 1))), "a fence of an older epoch does nothing");
    assert_eq!(gate.fence(&[(SKU, 2)]), [Ok(())]);
    let fenced = GateError::Closed(Closed::Fenced);
    let id = OrderId { sku: SKU, hash: 1 };
    assert_eq!(reserve(&mut gate, place(SKU, 3, 9, 1)), Err(fenced.clone()));
    assert_eq!(gate.find(&[id]), [Err(fenced.clone())]);
    assert_eq!(gate.settle(&settle(1, 2, Verdict::Placed)), [Err(fenced)]);
    assert_eq!(gate.open_reservations(SKU, 0, 10).unwrap().len(), 2);
    let mut beyond = |passed| gate.open_beyond(&[(SKU, passed)]).remove(0).unwrap();
    let all = beyond(0);
    assert_eq!((beyond(1).records, beyond(2).records), (all.records[1..].to_vec(), Vec::new()));
    // One that nobody can read costs no other.
    redis.command::<()>(&["HSET", "{db:0000001d}:k", "nonsense", "nonsense"]);
    redis.command::<()>(&["ZADD", "{db:0000001d}:t", "1", "nonsense"]);
    assert_eq!(beyond(0), OpenRows { records: all.records.clone(), unreadable: 1 });
    assert_eq!((beyond(0).count(), beyond(1).records), (3, all.records.clone()));
    assert!(matches!(gate.open_reservations(SKU, 0, 10), Err(GateError::Unknown(Why::Unexpected(_)))));
    redis.command::<()>(&["ZREM", "{db:0000001d}:t", "nonsense"]);
    assert_eq!(all.records, gate.open_reservations(SKU, 0, 10).unwrap());
    assert_eq!(gate.states(&[SKU]).remove(0).unwrap().unwrap().closed, Some(Closed::Fenced));

    assert_eq!(gate.build(SKU, &fresh(2, 10, None), &mut || ()), Ok(Built::Old));
    let marks =
        (0..2_500).map(|hash| Mark { placement: place(SKU, 1_000 + hash, 9, 1), state: MarkState::Sold });
    let snapshot =
        Snapshot { marks: marks.collect(), buyers: vec![(buyer_of(9), 2_500)], ..fresh(3, 7, Some(2_501)) };
    build(&mut gate, SKU, &snapshot);
    assert_eq!(available(&mut gate, SKU), 7);
    assert_eq!(gate.find(&[id]), [Ok(None)]);
    assert_eq!(reserve(&mut gate, place(SKU, 3_499, 9, 1)).unwrap().what, Reserved::Settled);
    let limit = Some(2_501);
    assert!(is_taken(&reserve_of(&mut gate, place(SKU, 1, 9, 1), limit)));
    let over = reserve_of(&mut gate, place(SKU, 2, 9, 1), limit).unwrap().what;
    assert_eq!(over, Reserved::Refused(Refusal::OverLimit));
    assert_eq!(gate.audit(SKU).unwrap().fault(), None);
}

#[test]
fn a_buyer_whose_holds_came_back_waits_at_this_gate_and_at_the_next_one() {
    const FIRST_MS: u32 = 60_000;
    let redis = Redis::start(&[]);
    let mut gate = Gate::new(GateConfig { cool_down: CoolDown { first_ms: FIRST_MS }, ..redis.config() });
    // How long the buyer waits, in ms; 0: the order is taken.
    let waits =
        |gate: &mut Gate, hash, buyer, limit| match reserve_of(gate, place(SKU, hash, buyer, 1), limit)
            .unwrap()
            .what
        {
            Reserved::Taken { .. } => 0,
            Reserved::Refused(Refusal::CoolingDown { retry_after_ms }) => retry_after_ms,
            other => panic!("{other:?}"),
        };
    for (epoch, limit) in [(1, None), (2, Some(9))] {
        build(&mut gate, SKU, &fresh(epoch, 10, limit));
        // A number and a hash that ends in it.
        for buyer in [8, 9] {
            let first = u128::from(buyer) * 100;
            for hash in first..first + 3 {
                assert_eq!(waits(&mut gate, hash, buyer, limit), 0);
                let came_back = row(1, epoch, Change::Release(place(SKU, hash, buyer, 1)));
                assert_eq!(what(gate.apply(&came_back)), Applied::Done);
                assert_eq!(what(gate.apply(&came_back)), Applied::Already, "and is counted once");
            }
            let wait = waits(&mut gate, first + 3, buyer, limit);
            assert!((1..=u64::from(FIRST_MS)).contains(&wait), "{wait}");
            assert_eq!(waits(&mut gate, first + 4, 7, limit), 0, "it is nobody else's wait");
            assert_eq!(gate.audit(SKU).unwrap().fault(), None);
        }
    }
    let [seconds, _]: [u64; 2] = redis.command(&["TIME"]);
    let now = UnixMs(seconds * 1_000);
    for (epoch, count, latest_at, waiting) in
        [(3, 2, now, false), (4, 3, now, true), (5, 9, UnixMs(now.0 - 60 * 64 * 1_000), false)]
    {
        let returned_holds = vec![(buyer_of(9), ReturnedHolds { count, latest_at })];
        build(&mut gate, SKU, &Snapshot { returned_holds, ..fresh(epoch, 10, None) });
        assert_eq!(waits(&mut gate, 1, 9, None) > 0, waiting, "{count} since {latest_at:?}");
    }
}

#[test]
fn the_edge_finds_the_newest_sku_of_a_product() {
    let redis = Redis::start(&[]);
    let mut gate = redis.gate();
    for sku in [3, 0x1d, 7] {
        assert_eq!(gate.publish_products(&[(ProductId(29), SkuId(sku))]), [Ok(())]);
    }
    assert_eq!(redis.command::<String>(&["GET", "db:product:29"]), "0000001d");
    build(&mut gate, SKU, &fresh(1, 42, None));
    assert_eq!(redis.command::<i64>(&["HGET", "{db:0000001d}:s", "avail"]), 42);
}
