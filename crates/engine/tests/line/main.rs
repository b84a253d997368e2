//! The line: its rules one by one, and seeded histories against a naive model that keeps a list of people and looks at all
//! of them each time.

mod draw;
mod holds;
mod model;
mod pauses;
mod rules;
mod shop;
mod wrong;

use engine::handover::Grant;
use engine::working_set::{Executed, Operation, WorkingSet};
use engine::{Closing, Command, Entry, Event, OrderId, Pay, Refusal, Sales, Seq, UnixMs};

use crate::model::Model;
use crate::shop::{BEACON, PAYMENT_MS, Random, SKU, Shop, buyer, item, place, sale};
use crate::wrong::Wrong;

const STEPS: u64 = 150;
const BUYERS: u64 = 14;

#[test]
fn histories_follow_the_model_in_every_step() {
    let mut seen = [0_u64; 13];
    for seed in 0..1_000 {
        one_history(seed, None, &mut seen).expect("its own line is right");
    }
    assert!(seen.iter().all(|count| *count > 100), "each kind of event is to occur: {seen:?}");
}

/// Says which history it was, whatever assertion has failed in it.
struct Witness(u64, u64);

impl Drop for Witness {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("failed: seed {}, step {}", self.0, self.1);
        }
    }
}

/// `wrong`: how its line is wrong, if it is.
///
/// # Errors
/// Why a ledger in which it was is not believed. What the model finds is a panic.
fn one_history(seed: u64, wrong: Option<Wrong>, seen: &mut [u64; 13]) -> Result<(), &'static str> {
    let mut random = Random(seed);
    let total = random.below(6);
    let mut spec = item(total, 1 + random.below(2));
    if random.below(2) == 0 {
        spec.line.as_mut().expect("it has a line").beacon = Some(BEACON);
    }
    let mut model = Model::new(&spec);
    let mut shop = Shop::new(spec);
    shop.wrong = wrong;
    let mut witness = Witness(seed, 0);
    for step in 0..STEPS {
        witness.1 = step;
        shop.now += [0, 1, 700, 3_000, 12_000][random.index(5)];
        // Often one who was called: few are, and they have the most to do.
        let called = model.called().filter(|_| random.below(2) == 0);
        let who = called.unwrap_or_else(|| buyer(random.below(BUYERS)));
        let key = u128::from(random.below(40));
        // While a draw waits for its beacon, that often speaks.
        let waits = model.round().is_some() && random.below(3) == 0;
        match if waits { 97 } else { random.below(100) } {
            0..25 => {
                let answer = shop.run(Command::Join { sku: SKU, buyer: who });
                assert_eq!(answer.is_ok(), model.join(shop.now, who));
            }
            25..29 => steer(&mut shop, &mut model, &mut random),
            29..55 => {
                let answer = shop.run(Command::ShowPresence { sku: SKU, buyer: who });
                assert_eq!(answer.is_ok(), model.see(shop.now, who));
            }
            55..75 => {
                let asked = place(key, who, 1 + u32::try_from(random.below(2)).expect("0 or 1"));
                let answer = shop.book.place(UnixMs(shop.now), &asked);
                model.place(shop.now, &asked, answer.map(|(_, replayed)| replayed));
            }
            75..80 => {
                let answer = shop.run(Command::GiveTurnBack { sku: SKU, buyer: who });
                assert_eq!(answer.is_ok(), model.give_back(who));
            }
            80..83 => pay(&mut shop, &mut model, &mut random),
            83..86 => {
                let order = place(key, who, 1).id;
                let answer = shop.run(Command::Cancel { order, buyer: who });
                model.cancel(order.hash, answer.is_ok());
            }
            86..90 => model.restock(shop.restock(1 + random.below(2))),
            90..93 => {
                let units = 1 + random.below(3);
                assert_eq!(shop.correct(units).is_ok(), model.correct(units), "{units} units are taken away");
            }
            93..95 => model.pause(shop.now, shop.pause()),
            95..97 => model.resume(shop.now, shop.resume()),
            97..99 => speak(&mut shop, &mut model, &mut random),
            _ => model.end(shop.now, shop.end()),
        }
        let expired = shop.book.expire_due(UnixMs(shop.now), usize::MAX);
        assert_eq!(expired, model.expire(shop.now, PAYMENT_MS));
        let reach_max = [0, 1, u32::MAX][random.index(3)];
        let reached = shop.call(reach_max)?;
        assert_eq!(model.call(shop.now, reach_max, || shop.seed()), reached);
        assert_eq!(shop.book.count_present(UnixMs(shop.now), SKU), model.count_present(shop.now));
        model.assert_same(&shop);
        shop.book.check_invariants().expect("no invariant is broken");
    }
    if wrong.is_none() {
        count_events(&shop.assert_replays(), seen);
    }
    Ok(())
}

/// The beacon, in the round that is waited for, or in another.
fn speak(shop: &mut Shop, model: &mut Model, random: &mut Random) {
    let round = model.round().unwrap_or(1) + random.below(8) / 7;
    let answer = shop.draw(round, 9);
    assert_eq!(answer.is_ok(), model.speak(round, || shop.seed()), "{answer:?}");
}

/// Of an order, in time, late, or once more.
fn pay(shop: &mut Shop, model: &mut Model, random: &mut Random) {
    let Some((hash, units, status)) = model.pay(random) else { return };
    let order = OrderId { sku: SKU, hash };
    let pay = Pay { id: shop.book.next_seq().0.to_string().into(), order, amount: 250 * units };
    shop.run(Command::Pay(pay)).expect("whatever is paid is noted");
    assert_eq!(shop.book.order(order).expect("it was placed").status, status);
}

/// What operators do of a line.
fn steer(shop: &mut Shop, model: &mut Model, random: &mut Random) {
    if random.index(4) == 0 {
        let message = ["", "Sorry!", "We are back."][random.index(3)];
        shop.run(Command::SetLineMessage { sku: SKU, message: message.into() }).expect("it has a line");
        assert_eq!(shop.book.message_to_line(SKU), message);
        return;
    }
    let per_s_max = [None, Some(0), Some(1), Some(30), Some(50_000)][random.index(5)];
    shop.run(Command::LimitPace { sku: SKU, per_s_max }).expect("it has a line");
    model.limit_pace(per_s_max);
}

fn count_events(journal: &[Entry], seen: &mut [u64; 13]) {
    for entry in journal {
        let kind = match entry.event {
            Event::LineJoined { .. } => 0,
            Event::LineMoved { .. } => 1,
            Event::TurnOpened { .. } => 2,
            Event::TurnEnded { how: engine::TurnEnd::Expired, .. } => 3,
            Event::TurnEnded { how: engine::TurnEnd::GivenBack, .. } => 4,
            Event::OrderPlaced { .. } => 5,
            Event::OrderClosed { how: Closing::PaidLate, .. } => 12,
            Event::OrderClosed { .. } => 6,
            Event::LineDrawn { spoken: None, .. } => 8,
            Event::LineDrawn { spoken: Some(_), .. } => 9,
            Event::PaceLimited { .. } => 10,
            Event::LineMessageSet { .. } => 11,
            _ => 7,
        };
        seen[kind] += 1;
    }
}

#[test]
fn where_several_servers_sell_there_is_no_line() {
    let mut sales = Sales::new();
    let mut set = WorkingSet::new(&mut sales, UnixMs(1), |sku, _| OrderId { sku, hash: 1 });
    set.begin(Seq(1), UnixMs(0));
    let mut asked = |command| {
        let operation = Operation::of(command, Grant::NotAsked).expect("it places nothing");
        set.execute(&operation)
    };
    let refused = asked(Command::CreateSale(sale(item(1, 1))));
    assert!(
        matches!(refused, Executed::Refused(Refusal::InvalidSale(why)) if why.contains("leave line out"))
    );
    let mut plain = item(1, 1);
    plain.line = None;
    assert!(matches!(asked(Command::CreateSale(sale(plain))), Executed::Accepted(_)));
    let joined = asked(Command::Join { sku: SKU, buyer: buyer(1) });
    assert_eq!(joined, Executed::Refused(Refusal::NoLine));
}
