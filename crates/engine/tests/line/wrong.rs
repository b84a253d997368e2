//! Lines that break a rule, each found: by the model, which sees what the line did, or by the judge of a ledger, which every start
//! and every audit asks. A wrong line does what the real one does, but for one thing.

use std::panic::{AssertUnwindSafe, catch_unwind};

use engine::{Borders, BuyerId, Event, LineView, Phase, Standing, Turn, UnixMs};

use crate::shop::{SALE, SKU, Shop, buyer};
use crate::{BUYERS, one_history};

/// Each is found in so many histories.
const SEEDS: u64 = 40;
const BY_MODEL: &str = "by the model";

/// What a wrong line does where the real one takes this step, or has none to take.
pub(crate) type Wrong = fn(&Shop, Option<&Event>) -> Instead;

#[derive(Clone, Debug)]
pub(crate) enum Instead {
    TheRightStep,
    Nothing,
    Step(Event),
}

#[test]
fn a_line_that_breaks_a_rule_is_found() {
    let rows: [(&str, Wrong, &str); 7] = [
        ("overtakes", overtakes, BY_MODEL),
        ("never reaches whom it promised a unit", forgets_a_promise, BY_MODEL),
        ("calls twice", calls_twice, "somebody was called who was not reached, or was called before"),
        ("calls without a unit", calls_without_a_unit, PROMISED_TO_ANOTHER),
        ("gives away what was promised", gives_away_what_was_promised, PROMISED_TO_ANOTHER),
        ("lowers sure_to", takes_a_promise_back, "a border of a line moved back, or none moved"),
        ("raises sure_to too far", promises_too_much, "a line promised more units than there are"),
    ];
    for (name, wrong, by) in rows {
        let found = (0..SEEDS).find_map(|seed| found_in(seed, wrong));
        assert_eq!(found, Some(by), "a line that {name}, in {SEEDS} histories");
    }
    let right: Wrong = |_, _| Instead::TheRightStep;
    assert_eq!(
        (0..SEEDS).find_map(|seed| found_in(seed, right)),
        None,
        "nothing is found of one that is right"
    );
}

const PROMISED_TO_ANOTHER: &str = "somebody was called for a unit that another was promised";

fn found_in(seed: u64, wrong: Wrong) -> Option<&'static str> {
    let history = || one_history(seed, Some(wrong), &mut [0; 13]);
    match catch_unwind(AssertUnwindSafe(history)) {
        Ok(judged) => judged.err(),
        Err(_panic) => Some(BY_MODEL),
    }
}

fn line(shop: &Shop) -> LineView {
    shop.book.line_of(SKU).expect("the item has a line")
}

/// While the places are drawn and it sells.
fn is_live(shop: &Shop) -> bool {
    let sale = shop.book.registry().get(SALE).expect("there is one");
    line(shop).draw.drawn().is_some() && sale.phase(UnixMs(shop.now)) == Phase::Live
}

/// The turn of the last who stands so, if it is for so many units.
fn call_last(shop: &Shop, stands: fn(Standing) -> bool, fewer_units: Option<u32>) -> Option<(u32, Event)> {
    let of = |buyer: BuyerId| {
        let view = shop.book.place_in_line(SKU, buyer).ok().filter(|view| stands(view.standing))?;
        Some(Turn { place: view.place?, number: view.number, buyer, fewer_units })
    };
    let last = (0..BUYERS).filter_map(|number| of(buyer(number))).max_by_key(|turn| turn.place)?;
    Some((last.place, Event::TurnOpened { sku: SKU, turn: last }))
}

fn call_if(is_so: bool, shop: &Shop, stands: fn(Standing) -> bool) -> Instead {
    let called = call_last(shop, stands, None).filter(|_| is_so && is_live(shop));
    called.map_or(Instead::TheRightStep, |(_, event)| Instead::Step(event))
}

/// Whoever is last of those who wait to be called.
fn overtakes(shop: &Shop, right: Option<&Event>) -> Instead {
    let Some(Event::TurnOpened { turn, .. }) = right else { return Instead::TheRightStep };
    let waits = |standing| matches!(standing, Standing::Grace | Standing::Away);
    for fewer_units in [None, Some(1)] {
        let Some((place, event)) = call_last(shop, waits, fewer_units) else { continue };
        if place > turn.place && shop.clone().apply(event.clone()).is_ok() {
            return Instead::Step(event);
        }
    }
    Instead::TheRightStep
}

fn forgets_a_promise(shop: &Shop, right: Option<&Event>) -> Instead {
    match right {
        Some(Event::LineMoved { to, .. }) if to.reached > line(shop).borders.reached => Instead::Nothing,
        _ => Instead::TheRightStep,
    }
}

fn calls_twice(shop: &Shop, _: Option<&Event>) -> Instead {
    call_if(true, shop, |standing| {
        matches!(standing, Standing::Called { .. } | Standing::Ordered | Standing::LetGo(_))
    })
}

fn calls_without_a_unit(shop: &Shop, _: Option<&Event>) -> Instead {
    call_if(line(shop).stock.available() == 0, shop, |standing| standing == Standing::Away)
}

fn gives_away_what_was_promised(shop: &Shop, _: Option<&Event>) -> Instead {
    let LineView { stock, promised, .. } = line(shop);
    let is_all_promised = promised > 0 && promised == stock.available();
    call_if(is_all_promised, shop, |standing| standing == Standing::Away)
}

fn takes_a_promise_back(shop: &Shop, _: Option<&Event>) -> Instead {
    let Borders { away_to, reached, sure_to } = line(shop).borders;
    move_if(sure_to > reached, Borders { away_to, reached, sure_to: sure_to.saturating_sub(1) })
}

fn promises_too_much(shop: &Shop, right: Option<&Event>) -> Instead {
    let LineView { borders, joined, .. } = line(shop);
    let is_all_promised = right.is_none() && is_live(shop) && joined > borders.sure_to;
    move_if(is_all_promised, Borders { sure_to: joined, ..borders })
}

fn move_if(is_so: bool, to: Borders) -> Instead {
    if is_so { Instead::Step(Event::LineMoved { sku: SKU, to }) } else { Instead::TheRightStep }
}
