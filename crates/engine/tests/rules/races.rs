//! Races: the writer takes commands one by one, so a race is an order of commands; here every order is tried.
//! What must be true of all of them is read off the answers, the ledger and the orders, not off a second rule.

use std::collections::BTreeMap;

use engine::{Closing, Command, Disposition, Event, OrderView, Seq, Status};

use crate::shop::{Do, HOLD, START, Shop, cancel, expire, pay, place, sale_of, settle};

/// How many interleavings one test has tried, and how often each life of an order came out of them.
#[derive(Debug, Default)]
struct Seen {
    histories: u64,
    lives: BTreeMap<&'static str, u64>,
}

#[test]
fn one_order_closes_once_in_every_order_of_commands() {
    let racing = [
        pay("p", 1, 2),
        pay("p", 1, 2),
        pay("q", 1, 2),
        cancel(1, 1),
        expire(9),
        settle("p"),
        place(1, 1, 2),
    ];
    let mut seen = Seen::default();
    permutations(&mut (0..racing.len()).collect(), 0, &mut |order| {
        race(2, order.iter().map(|at| racing[*at].clone()), &mut seen);
    });
    assert_eq!(seen.histories, 5_040);
    seen.assert_lives(&["cancelled", "paid", "paid late"]);
}

#[test]
fn two_orders_that_want_the_last_units_share_them_in_every_order_of_commands() {
    let racing = [
        place(1, 1, 2),
        place(2, 2, 2),
        pay("p", 1, 2),
        pay("q", 2, 2),
        expire(9),
        cancel(1, 1),
        cancel(2, 2),
        pay("p", 1, 2),
    ];
    let mut seen = Seen::default();
    permutations(&mut (0..racing.len()).collect(), 0, &mut |order| {
        race(3, order.iter().map(|at| racing[*at].clone()), &mut seen);
    });
    assert_eq!(seen.histories, 40_320);
    seen.assert_lives(&["cancelled", "expired", "paid", "paid late"]);
}

#[test]
fn late_payments_race_for_units_in_every_sequence_with_repetition() {
    let racing = [place(1, 1, 2), place(2, 2, 2), pay("p", 1, 2), pay("q", 2, 2), pay("r", 1, 2), expire(1)];
    let mut seen = Seen::default();
    let len = racing.len();
    for number in 0..len.pow(6) {
        let digits = (0..6).map(|digit| number / len.pow(digit) % len);
        race(3, digits.map(|at| racing[at].clone()), &mut seen);
    }
    assert_eq!(seen.histories, 46_656);
    seen.assert_lives(&["expired", "held", "paid", "paid late"]);
}

impl Seen {
    fn assert_lives(&self, expected: &[&str]) {
        let reached: Vec<_> = self.lives.keys().copied().collect();
        assert_eq!(reached, expected, "a race that never ends so is none: {:?}", self.lives);
    }
}

/// Every order of the rest of the positions, by swapping.
fn permutations(positions: &mut Vec<usize>, fixed: usize, each: &mut impl FnMut(&[usize])) {
    if fixed == positions.len() {
        return each(positions);
    }
    for at in fixed..positions.len() {
        positions.swap(fixed, at);
        permutations(positions, fixed + 1, each);
        positions.swap(fixed, at);
    }
}

/// Says which history it was, whatever assertion has failed in it: the engine's own ones too.
#[derive(Debug, Default)]
struct Witness(Vec<(Do, String)>);

impl Drop for Witness {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("failed after: {:#?}", self.0);
        }
    }
}

/// Runs one history; a sweep comes when every hold of before it is due.
fn race(total: u64, commands: impl Iterator<Item = Do>, seen: &mut Seen) {
    let mut spec = sale_of(total);
    spec.ends_at = engine::UnixMs(engine::limits::SALE_TIME_MS_MAX);
    let mut shop = Shop::with(spec);
    let mut witness = Witness::default();
    let mut now = START;
    for what in commands {
        now += if matches!(what, Do::Expire { .. }) { HOLD } else { 1 };
        witness.0.push((what.clone(), String::new()));
        let last = witness.0.len() - 1;
        witness.0[last].1 = shop.run(now, what);
    }
    assert_just(&shop, total, &witness.0);
    seen.histories += 1;
    for order in orders(&shop) {
        let life = match closings(&shop, &order)[..] {
            [Closing::Expired, Closing::PaidLate] => "paid late",
            _ => order.status.as_str(),
        };
        *seen.lives.entry(life).or_insert(0) += 1;
    }
}

fn orders(shop: &Shop) -> Vec<OrderView> {
    [1, 2].into_iter().filter_map(|key| shop.book.order(crate::shop::id(key))).collect()
}

fn assert_just(shop: &Shop, total: u64, history: &[(Do, String)]) {
    shop.book.check_invariants().expect("no invariant is broken");
    let units = |status| {
        orders(shop)
            .iter()
            .filter(|order| order.status == status)
            .map(|order| u64::from(order.quantity))
            .sum()
    };
    let (held, sold): (u64, u64) = (units(Status::Held), units(Status::Paid));
    assert!(held + sold <= total, "units were doubled");
    assert_eq!(shop.stock(), [total, total - held - sold, held, sold], "units were lost or doubled");
    for order in orders(shop) {
        assert_closed_once(shop, &order);
        assert_paid_for(shop, &order);
    }
    assert_money(shop, history);
}

/// The order's transitions in the ledger.
fn closings(shop: &Shop, order: &OrderView) -> Vec<Closing> {
    let of_order = |entry: &engine::Entry| match entry.event {
        Event::OrderClosed { order: seq, how } if seq == order.seq => Some(how),
        _ => None,
    };
    shop.ledger.iter().filter_map(of_order).collect()
}

/// The transitions are those that may be, and lead to the status that is shown.
fn assert_closed_once(shop: &Shop, order: &OrderView) {
    let closings = closings(shop, order);
    let status = match closings[..] {
        [] => Status::Held,
        [Closing::Paid] | [Closing::Expired, Closing::PaidLate] => Status::Paid,
        [Closing::Cancelled] => Status::Cancelled,
        [Closing::Expired] => Status::Expired,
        _ => panic!("{closings:?} can't be the life of an order"),
    };
    assert_eq!(order.status, status);
}

/// Where the payments of the ledger have ended: by the sequence number of each, its order and its state.
fn payments(shop: &Shop) -> BTreeMap<Seq, (Box<str>, engine::OrderId, Disposition)> {
    let mut payments = BTreeMap::new();
    for entry in &shop.ledger {
        match &entry.event {
            Event::PaymentRecorded { pay, disposition } => {
                payments.insert(entry.seq, (pay.id.clone(), pay.order, *disposition));
            }
            Event::PaymentMatched { payment } => {
                payments.get_mut(payment).expect("it was recorded").2 = Disposition::Applied;
            }
            Event::RefundSettled { payment } => {
                let disposition = &mut payments.get_mut(payment).expect("it was recorded").2;
                let Disposition::RefundDue(reason) = *disposition else {
                    panic!("{disposition:?} was settled")
                };
                *disposition = Disposition::Settled(reason);
            }
            _ => {}
        }
    }
    payments
}

/// A paid order has exactly one payment that paid for it, any other has none.
fn assert_paid_for(shop: &Shop, order: &OrderView) {
    let own: Vec<_> = payments(shop).into_values().filter(|(_, id, _)| *id == order.id).collect();
    let applied = own.iter().filter(|(_, _, disposition)| *disposition == Disposition::Applied).count();
    assert_eq!(applied, usize::from(order.status == Status::Paid), "{own:?}");
    let due = own.iter().any(|(_, _, disposition)| matches!(disposition, Disposition::RefundDue(_)));
    assert_eq!(order.refund_due, due, "{own:?}");
}

/// Every payment that was reported is recorded, once; what bought nothing and was not settled is to be paid back.
fn assert_money(shop: &Shop, history: &[(Do, String)]) {
    let mut reported: Vec<_> = history
        .iter()
        .filter_map(|(what, _)| match what {
            Do::Command(Command::Pay(pay)) => Some(pay.id.clone()),
            _ => None,
        })
        .collect();
    reported.sort_unstable();
    reported.dedup();
    let mut recorded: Vec<_> = payments(shop).into_values().map(|(id, ..)| id).collect();
    recorded.sort_unstable();
    assert_eq!(reported, recorded);
    let due: Vec<_> = shop.book.refunds_due().map(|payment| (payment.seq, payment.disposition)).collect();
    let unspent: Vec<_> = payments(shop)
        .into_iter()
        .filter(|(_, (_, _, disposition))| matches!(disposition, Disposition::RefundDue(_)))
        .map(|(seq, (_, _, disposition))| (seq, disposition))
        .collect();
    assert_eq!(due, unspent);
}
