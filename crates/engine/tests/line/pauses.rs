//! What stops a line's time, and gives it back: a pause, and a time in which nobody served.

use engine::{Command, Event, Refusal, SaleChange, Standing, TurnEnd, UnixMs};

use crate::rules::joined;
use crate::shop::{END, GRACE_MS, SALE, SKU, START, Shop, TURN_MS, buyer, place};

#[test]
fn a_pause_stops_a_lines_time() {
    let mut shop = joined(1, 1);
    shop.at(START, &[0]);
    assert!(shop.pause());
    shop.at(START + 10 * TURN_MS, &[0]);
    assert_eq!(shop.book.next_deadline(), Some(UnixMs(END)), "nothing is looked for in a pause");
    assert!(matches!(shop.standing(0), Standing::Called { .. }));
    let paused = shop.book.place(UnixMs(shop.now), &place(1, buyer(0), 1));
    assert_eq!(paused, Err(Refusal::Paused));
    assert!(shop.resume());
    shop.at(shop.now + TURN_MS - 1, &[0]);
    assert!(matches!(shop.standing(0), Standing::Called { .. }));
    shop.at(shop.now + 1, &[0]);
    assert_eq!(shop.standing(0), Standing::LetGo(TurnEnd::Expired));
}

#[test]
fn a_start_gives_turns_and_graces_time() {
    let mut shop = joined(1, 2);
    shop.at(START, &[0]);
    let down = START + 50 * TURN_MS;
    shop.book.open_lines(UnixMs(down));
    shop.at(down, &[]);
    assert!(matches!(shop.standing(0), Standing::Called { until, .. } if until.0 > down));
    shop.at(down + 60_000, &[]);
    assert_eq!(shop.standing(0), Standing::LetGo(TurnEnd::Expired));
}

/// Two are called, and two reached who are not there; a second later the sale is paused.
fn paused(at: u64) -> Shop {
    let mut shop = joined(4, 6);
    shop.at(at, &[0, 1]);
    shop.at(at + 1_000, &[]);
    assert!(shop.pause());
    shop
}

/// What was left of their turns and graces is left when the pause is over, and no more.
fn assert_given_back(mut shop: Shop, over_at: u64) {
    shop.at(over_at, &[]);
    let until = UnixMs(over_at + TURN_MS - 1_000);
    assert_eq!(shop.standing(0), Standing::Called { units: 1, until });
    let grace_ends = over_at + GRACE_MS - 1_000;
    assert_eq!(shop.book.next_deadline(), Some(UnixMs(grace_ends)), "the writer is to look then");
    assert_eq!([2, 3].map(|number| shop.standing(number)), [Standing::Grace; 2]);
    shop.at(grace_ends - 1, &[2]);
    assert!(matches!(shop.standing(2), Standing::Called { .. }), "who is sure is called after the end too");
    shop.book.place(UnixMs(shop.now), &place(1, buyer(0), 1)).expect("the turn is open");
    shop.at(grace_ends, &[]);
    assert_eq!(shop.standing(3), Standing::Away);
    shop.at(until.0 - 1, &[]);
    assert!(matches!(shop.standing(1), Standing::Called { .. }));
    shop.at(until.0, &[]);
    assert_eq!(shop.standing(1), Standing::LetGo(TurnEnd::Expired));
    shop.assert_replays();
}

/// However it ends: nobody is over or away for a time in which nobody could order.
#[test]
fn a_pause_that_lasts_to_the_end_takes_no_turn_and_no_grace() {
    assert_given_back(paused(START), END);
    let mut ended = paused(START);
    ended.at(START + 100_000, &[]);
    assert!(ended.end());
    assert_given_back(ended, START + 100_000);
    // Seen late, as after a time in which nothing was served.
    let mut late = paused(START);
    late.now = END + 2_000;
    assert!(!late.resume(), "a sale that is over is not resumed");
    assert_given_back(late.clone(), END + 2_000 - 2_000);
    // And ended by an operator once it is over.
    assert!(late.end());
    late.now = END + 2_000;
    late.at(late.now, &[]);
    assert_eq!(late.standing(0), Standing::Called { units: 1, until: UnixMs(END + TURN_MS - 1_000) });
    late.assert_replays();
}

/// One that comes to be sold again is paused still; each pause is given back once.
#[test]
fn an_end_that_moves_while_paused_ends_the_pause_where_it_is() {
    let move_end = |shop: &mut Shop, now: u64, to: u64| {
        shop.now = now;
        let change = SaleChange { ends_at: Some(UnixMs(to)), ..SaleChange::default() };
        shop.run(Command::ChangeSale { sale: SALE, change }).expect("an end can be moved");
    };
    for to in [START + 50_000, END + 50_000] {
        let mut shop = paused(START);
        move_end(&mut shop, START + 2_000, to);
        assert_given_back(shop, to);
    }
    // It was over for two seconds, which count, and no batch has looked meanwhile, or one has.
    for looked in [false, true] {
        let mut shop = paused(START);
        if looked {
            shop.at(END + 1_000, &[]);
        }
        move_end(&mut shop, END + 2_000, END + 60_000);
        shop.at(END + 30_000, &[]);
        assert_eq!(shop.standing(2), Standing::Grace, "it is paused again");
        shop.now = END + 40_000;
        assert!(shop.resume());
        shop.at(shop.now, &[]);
        let until = UnixMs(shop.now + TURN_MS - 3_000);
        assert_eq!(shop.standing(0), Standing::Called { units: 1, until });
        shop.assert_replays();
    }
}

/// The end of a sale stays where it was announced, whatever the clock was; what was left stays left.
#[test]
fn a_clock_that_is_corrected_in_a_pause_takes_nothing() {
    let correct = |shop: &mut Shop, from: u64, to: u64| {
        shop.book.correct_clock(UnixMs(from), UnixMs(to), "operator").expect("it can be");
        shop.now = to;
    };
    let mut ahead = paused(START);
    correct(&mut ahead, START + 5_000, END + 7_000);
    assert_given_back(ahead, END + 7_000);
    let mut back = paused(START);
    back.at(END + 2_000, &[]);
    correct(&mut back, END + 2_000, END - 60_000);
    back.at(END - 1, &[]);
    assert_eq!(back.standing(2), Standing::Grace, "it is paused again");
    back.at(END, &[]);
    assert_eq!(back.standing(0), Standing::Called { units: 1, until: UnixMs(END + TURN_MS - 3_000) });
    back.assert_replays();
}

/// A clock that is set back before the start: nothing is sold before it, and what was left of turns is left then.
#[test]
fn turns_wait_for_a_start_that_comes_again() {
    let mut shop = joined(4, 6);
    shop.at(START, &[0, 1]);
    shop.book.correct_clock(UnixMs(START + 1_000), UnixMs(START - 60_000), "system").expect("it can be");
    let order = |shop: &mut Shop| shop.book.place(UnixMs(shop.now), &place(1, buyer(0), 1)).map(drop);
    for now in [START - 60_000, START - 1] {
        shop.at(now, &[]);
        assert_eq!(order(&mut shop), Err(Refusal::NotStarted));
        assert_eq!(shop.standing(2), Standing::Grace);
    }
    assert_eq!(shop.book.next_deadline(), Some(UnixMs(START)));
    shop.at(START, &[]);
    assert_eq!(shop.standing(0), Standing::Called { units: 1, until: UnixMs(START + TURN_MS - 1_000) });
    assert_eq!(order(&mut shop), Ok(()));
    shop.at(START + GRACE_MS - 1_000, &[]);
    assert_eq!(shop.standing(2), Standing::Away);
    shop.assert_replays();
}

/// What a buyer is answered meanwhile is when the turn would be over if the pause were.
#[test]
fn in_a_pause_the_end_of_a_turn_moves_with_the_time() {
    let mut shop = paused(START);
    for at in [START + 1_000, START + 90_000] {
        shop.now = at;
        let answer = shop.run(Command::ShowPresence { sku: SKU, buyer: buyer(0) });
        let Ok(engine::Accepted::InLine { place, .. }) = answer else { panic!("{answer:?}") };
        assert_eq!(place.standing, Standing::Called { units: 1, until: UnixMs(at + TURN_MS - 1_000) });
    }
}

/// Whoever was there at its beginning is there again; whoever was seen in it is not there for as long as it was.
#[test]
fn presence_outlives_a_pause_by_no_more_than_it_counts() {
    let mut shop = joined(4, 6);
    shop.at(START, &[]);
    assert!(shop.pause());
    shop.at(START + 10_000, &[5]);
    shop.now = START + 200_000;
    assert!(shop.resume());
    shop.at(shop.now, &[]);
    assert_eq!(shop.book.count_present(UnixMs(shop.now), SKU), 1);
    shop.at(shop.now + engine::PRESENT_MS + 1, &[]);
    assert_eq!(shop.book.count_present(UnixMs(shop.now), SKU), 0);
}

/// A start in a pause gives half a minute, and not that of the pause on top.
#[test]
fn a_start_in_a_pause_gives_no_more_time_than_another() {
    let mut shop = paused(START);
    shop.book.open_lines(UnixMs(START + 50_000));
    shop.now = START + 200_000;
    assert!(shop.resume());
    shop.at(shop.now + 30_000, &[]);
    assert_eq!(shop.standing(0), Standing::LetGo(TurnEnd::Expired));
}

/// Releases of before let them pass at the end.
#[test]
fn a_ledger_of_before_in_which_a_pause_was_not_given_back_is_read() {
    for at in [END, END + 5_000] {
        let mut shop = paused(START);
        shop.now = at;
        shop.apply(Event::TurnEnded { sku: SKU, place: 1, how: TurnEnd::Expired }).expect("it was over then");
        shop.at(at, &[]);
        assert_eq!(shop.standing(0), Standing::LetGo(TurnEnd::Expired));
    }
    let mut never_paused = joined(4, 6);
    never_paused.at(START, &[0]);
    never_paused.end();
    let early = never_paused.apply(Event::TurnEnded { sku: SKU, place: 1, how: TurnEnd::Expired });
    assert_eq!(early, Err("a turn expired before its time"));
}
