//! Schedules played against a clock that the test moves.

use std::time::Duration;

use super::*;
use crate::load::schedule::Spacing;

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);

fn send(planned: Instant) -> Next {
    Next::Send { planned, attempt: 1 }
}

/// Everything that is due by `now`, as (planned, attempt).
fn drain(pace: &mut Pace, now: Instant) -> Vec<(Instant, u32)> {
    std::iter::from_fn(|| match pace.next(now) {
        Next::Send { planned, attempt } => Some((planned, attempt)),
        _ => None,
    })
    .collect()
}

/// Plays a schedule to its end against a target that answers after `service`; the planned times, in seconds, and the
/// most that were under way. `refused` says whether an attempt that ends then is refused.
fn play(
    schedule: Schedule,
    service: Duration,
    refused: impl Fn(f64) -> bool,
) -> (Vec<(f64, u32)>, usize, Pace) {
    let start = Instant::now();
    let mut pace = Pace::start(schedule, 1, start);
    let (mut sent, mut most) = (Vec::new(), 0);
    let mut under_way: BinaryHeap<Reverse<(Instant, u32)>> = BinaryHeap::new();
    let mut now = start;
    loop {
        while let Some(Reverse((ends, attempt))) = under_way.peek().copied().filter(|way| way.0.0 <= now) {
            under_way.pop();
            pace.settled(attempt, refused((ends - start).as_secs_f64()), ends);
        }
        let wake = match pace.next(now) {
            Next::Send { planned, attempt } => {
                assert!(planned <= now);
                sent.push(((planned - start).as_secs_f64(), attempt));
                under_way.push(Reverse((now + service, attempt)));
                most = most.max(under_way.len());
                continue;
            }
            Next::Wait { until } => Some(until),
            Next::Finished => None,
        };
        let answer = under_way.peek().map(|Reverse((ends, _))| *ends);
        match [wake, answer].into_iter().flatten().min() {
            Some(next) => now = next,
            None => return (sent, most, pace),
        }
    }
}

fn between(sent: &[(f64, u32)], from: f64, to: f64) -> usize {
    sent.iter().filter(|(at, _)| (from..to).contains(at)).count()
}

#[test]
fn closed_loop_sends_at_once_until_the_time_is_over() {
    let start = Instant::now();
    let mut pace = Pace::start(Schedule::closed(10 * MS), 2, start);
    assert_eq!((pace.next(start), pace.next(start)), (send(start), send(start)));
    assert_eq!(pace.next(start + 9 * MS), Next::Finished, "both users wait for their answers");
    pace.settled(1, false, start + 9 * MS);
    assert_eq!(pace.next(start + 9 * MS), send(start + 9 * MS));
    pace.settled(1, false, start + 10 * MS);
    assert_eq!(pace.next(start + 10 * MS), Next::Finished);
    assert_eq!(pace.unissued(start + 10 * MS), 0);
}

/// Who was refused a connection may try again after a rest.
#[test]
fn a_user_who_rests_holds_nobody_up() {
    let start = Instant::now();
    let mut pace = Pace::start(Schedule::closed(10 * MS), 2, start);
    assert_eq!(drain(&mut pace, start).len(), 2);
    pace.settled(1, false, start + 5 * MS);
    pace.settled(1, false, start + MS);
    assert_eq!(pace.next(start + MS), send(start + MS));
    assert_eq!(pace.next(start + MS), Next::Wait { until: start + 5 * MS });
}

#[test]
fn closed_loop_issues_exactly_the_requests_asked_for() {
    let (sent, most, pace) = play(Schedule::closed_requests(30), MS, |_| false);
    assert_eq!((sent.len(), most, pace.unissued(Instant::now())), (30, 1, 0));
    let start = Instant::now();
    let mut pace = Pace::start(Schedule::closed_requests(3), 5, start);
    assert_eq!((drain(&mut pace, start).len(), pace.unissued(start)), (3, 0));
}

#[test]
fn open_loop_waits_for_the_planned_time() {
    let start = Instant::now();
    let mut pace = Pace::start(Schedule::constant(1000.0, 5 * MS), 1, start);
    assert_eq!(pace.next(start), send(start));
    assert_eq!(pace.next(start), Next::Wait { until: start + MS });
    assert_eq!(pace.next(start + MS), send(start + MS));
}

#[test]
fn open_loop_never_skips_what_it_is_late_for() {
    let start = Instant::now();
    let mut pace = Pace::start(Schedule::constant(1000.0, 5 * MS), 1, start);
    let late = start + SECOND;
    assert_eq!(pace.unissued(start + 2 * MS), 3);
    assert_eq!(pace.unissued(late), 5);
    let planned: Vec<_> = drain(&mut pace, late).into_iter().map(|(planned, _)| planned).collect();
    assert_eq!(planned, (0..5).map(|n| start + n * MS).collect::<Vec<_>>());
    assert_eq!((pace.next(late), pace.unissued(late)), (Next::Finished, 0));
}

#[test]
fn the_same_seed_makes_the_same_arrivals() {
    let times = |seed| play(Schedule::poisson(500.0, SECOND).seeded(seed), MS, |_| false).0;
    assert_eq!(times(1), times(1));
    assert_ne!(times(1), times(2));
    assert!((400..600).contains(&times(1).len()));
}

fn crowd(retries: Retries) -> Schedule {
    let crowd = FlashCrowd {
        base_per_s: 10.0,
        at: 5 * SECOND,
        peak_per_s: 1000.0,
        decay: SECOND,
        spacing: Spacing::Even,
        retries,
    };
    Schedule::flash_crowd(crowd, 20 * SECOND)
}

#[test]
fn a_flash_crowd_comes_at_its_moment() {
    let (sent, _, pace) = play(crowd(Retries::NONE), MS, |_| false);
    assert_eq!((between(&sent, 0.0, 5.0), between(&sent, 5.0, 6.0)), (50, 633 + 10));
    assert_eq!((sent.len(), pace.gave_up), (200 + 1000, 0));
    assert!(sent.is_sorted_by(|one, other| one.0 <= other.0));
}

#[test]
fn refused_buyers_come_back_a_bounded_number_of_times_later_and_later() {
    let retries = Retries { attempts_max: 3, back_off: 200 * MS, back_off_max: SECOND, jitter: 0.5 };
    let (sent, _, pace) = play(crowd(retries), MS, |at| (5.0..6.0).contains(&at));
    let of = |wanted| sent.iter().filter(|(_, attempt)| *attempt == wanted).count();
    assert_eq!(of(1), 1200);
    // Refused is who is answered, 1 ms after asking, in that second.
    let refused = |wanted| {
        sent.iter().filter(|(at, attempt)| *attempt == wanted && (5.0..6.0).contains(&(at + 0.001))).count()
    };
    assert_eq!((of(2), of(3), of(4)), (refused(1), refused(2), 0));
    assert!(refused(1) > 600 && refused(2) > 100 && refused(3) > 0, "{}", refused(3));
    assert_eq!(pace.gave_up, refused(3) as u64);
    let first_retry = sent.iter().find(|(_, attempt)| *attempt == 2).unwrap().0;
    assert!((5.1..5.2).contains(&first_retry), "half of the back-off at least: {first_retry}");
}
