//! Outcomes by their business meaning: a refusal is no error and no order, and a status alone says nothing.

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use bench::drivers::http::{Http, Workload};
use bench::load::record::{Outcome, Outcomes};
use bench::load::schedule::{FlashCrowd, Retries, Schedule, Spacing};
use bench::load::{Generator, Trial};
use bench::measure::{self, Surroundings};

use crate::fake::{Answer, Fake};
use crate::{GOOD, MS, Posts, REQUEST, run, settings};

pub(crate) fn trial(generator: &mut Generator, schedule: Schedule) -> Trial {
    let stop = AtomicBool::new(false);
    let around = Surroundings { watched: &[], disk: None, co_located: true, stop: &stop, progress: None };
    measure::trial(generator, schedule, &mut Http { workload: &mut Posts }, 0, around)
        .expect("nobody stops it")
}

pub(crate) fn connect(settings: bench::load::Settings) -> Generator {
    Generator::connect(settings, &mut Http { workload: &mut Posts }).expect("the target accepts connections")
}

/// Four in ten are let through.
#[test]
fn a_rate_limit_is_no_error_and_its_refusals_are_no_orders() {
    let fake =
        Fake::start(|number, _| if number % 10 < 4 { GOOD } else { Answer::Status(429, b"slow down") });
    let trial = trial(&mut connect(settings(fake.address, 4)), Schedule::closed_requests(1000));
    assert_eq!(trial.outcomes, Outcomes { won: 400, limited: 600, ..Outcomes::default() });
    assert_eq!((trial.outcomes.good(), trial.outcomes.refused(), trial.outcomes.bad()), (400, 600, 0));
    assert!((trial.good_per_s() * trial.seconds - 400.0).abs() < 1e-6, "{}", trial.good_per_s());
    assert_eq!((trial.first_surprise.as_deref(), trial.is_valid()), (None, true));
}

/// The last ten of each hundred fail.
#[test]
fn error_bursts_are_counted_and_seen_in_their_second() {
    let fake = Fake::start(|number, _| if number % 100 < 90 { GOOD } else { Answer::Status(500, b"broken") });
    let trial = trial(&mut connect(settings(fake.address, 4)), Schedule::constant(800.0, 1250 * MS));
    assert_eq!(trial.outcomes, Outcomes { won: 900, failed: 100, ..Outcomes::default() });
    assert_eq!(trial.first_surprise.as_deref(), Some("500 broken"));
    let series = &trial.seconds_series;
    let sums = series
        .iter()
        .fold((0, 0, 0), |sums, second| (sums.0 + second.good, sums.1 + second.refused, sums.2 + second.bad));
    assert_eq!(sums, (900, 0, 100));
    // It lasts for more than a second, and the bursts are spread over all of it.
    assert!(series.len() >= 2 && series[0].bad > 0, "{series:?}");
    assert!(series.windows(2).all(|two| two[0].at_s < two[1].at_s), "{series:?}");
    assert!((series.last().unwrap().at_s - trial.seconds).abs() < 1.0, "{series:?}");
}

/// Judges by what is in the answer, as one must with servers that answer 200 to everything.
struct ByBody;

impl Workload for ByBody {
    fn request(&mut self) -> &[u8] {
        REQUEST
    }

    fn judge(&mut self, _status: u16, body: &[u8]) -> Outcome {
        match body {
            br#"{"order":1}"# => Outcome::Won,
            br#"{"code":500}"# => Outcome::Busy,
            _ => Outcome::Failed,
        }
    }
}

#[test]
fn a_status_that_lies_is_overruled_by_the_workload() {
    let fake = Fake::start(|number, _| match number % 4 {
        0 => Answer::Status(200, br#"{"code":500}"#),
        1 => Answer::Status(500, br#"{"order":1}"#),
        2 => Answer::Status(200, br#"{"order":1}"#),
        _ => Answer::Status(200, b"<html>an error page"),
    });
    let mut generator = connect(settings(fake.address, 3));
    let record = generator
        .run(Schedule::closed_requests(400), &mut Http { workload: &mut ByBody }, &AtomicBool::new(false))
        .unwrap();
    assert_eq!(record.outcomes, Outcomes { won: 200, busy: 100, failed: 100, ..Outcomes::default() });
    assert_eq!(record.first_surprise.as_deref(), Some("200 <html>an error page"));
}

/// The first fifty requests are turned away: their buyers come back, and each attempt is a request.
#[test]
fn refused_buyers_of_a_flash_crowd_come_back() {
    let fake = Fake::start(|number, _| if number < 50 { Answer::Status(429, b"later") } else { GOOD });
    let crowd = FlashCrowd {
        base_per_s: 50.0,
        at: 200 * MS,
        peak_per_s: 200.0,
        decay: 200 * MS,
        spacing: Spacing::Even,
        retries: Retries { attempts_max: 4, back_off: 20 * MS, back_off_max: 100 * MS, jitter: 0.5 },
    };
    let schedule = Schedule::flash_crowd(crowd, Duration::from_secs(1));
    let record = run(settings(fake.address, 8), schedule);
    // 50 in everyday traffic, and 200/s * 0.2 s * (1 - e^-4) = 39.3 in the spike: 40 with the one at its beginning.
    assert_eq!(record.outcomes.total(), 90 + record.retries);
    assert_eq!(fake.requests(), record.outcomes.total());
    let Outcomes { won, limited, .. } = record.outcomes;
    assert_eq!(record.outcomes, Outcomes { won, limited, ..Outcomes::default() });
    assert_eq!(limited, 50);
    assert!(record.retries > 0 && record.retries + record.gave_up <= 50, "{record:?}");
}
