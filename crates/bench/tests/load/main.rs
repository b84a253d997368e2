//! The generator against a server of known behaviour, and against nginx.
//!
//! How fast this machine is must not matter: bounds are those that no slow machine can break, or very wide.

mod fake;
mod meaning;
mod open_loop;

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bench::drivers::http::{Http, Reuse, RunError, Settings, Workload, once};
use bench::load::record::{Outcome, Outcomes, Record};
use bench::load::schedule::Schedule;
use bench::load::trial::{Distribution, Flag};
use bench::target::nginx::Nginx;

use fake::{Answer, Fake};

pub(crate) const REQUEST: &[u8] = b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4\r\n\r\nbody";
const MS: Duration = Duration::from_millis(1);
const GOOD: Answer = Answer::Status(200, b"good");

struct Posts;

impl Workload for Posts {
    fn request(&mut self) -> &[u8] {
        REQUEST
    }

    fn judge(&mut self, status: u16, body: &[u8]) -> Outcome {
        match (status, body) {
            (200, b"good" | b"") => Outcome::Won,
            (409, _) => Outcome::SoldOut,
            (429, _) => Outcome::Limited,
            (503, _) => Outcome::Busy,
            _ => Outcome::Failed,
        }
    }
}

fn settings(address: SocketAddr, connections: usize) -> Settings {
    Settings { answer_timeout: Duration::from_secs(3), ..Settings::keep_alive(address, connections) }
}

fn run(settings: Settings, schedule: Schedule) -> Record {
    let mut http = Http { workload: &mut Posts };
    meaning::connect(settings).run(schedule, &mut http, &AtomicBool::new(false)).expect("nobody stops it")
}

#[test]
fn every_request_is_counted_once() {
    let fake = Fake::start(|_, _| GOOD);
    let record = run(settings(fake.address, 8), Schedule::closed_requests(1000));
    assert_eq!(record.outcomes, Outcomes { won: 1000, ..Outcomes::default() });
    assert_eq!((fake.requests(), fake.connections()), (1000, 8));
    assert_eq!((record.body_bytes, record.reconnects, record.stray_answers), (Some((4, 4)), 0, 0));
}

#[test]
fn a_fixed_delay_is_the_time_reported() {
    let fake = Fake::start(|_, _| Answer::After(20 * MS));
    let record = run(settings(fake.address, 4), Schedule::closed_requests(80));
    for times in [record.response(), record.service()] {
        assert!(times.points[0].us >= 19_990 && times.at(0.5) < 200_000, "{times:?}");
        assert!(times.points.is_sorted_by_key(|point| point.us), "{times:?}");
    }
    // Four users, each at most 50 times a second.
    assert!((20.0..=200.0).contains(&record.per_s(Outcome::Won)), "{}", record.per_s(Outcome::Won));
}

/// The server stands still for one second. In the closed loop only the requests under way notice; in the open loop
/// everybody does who wanted to come in that second.
#[test]
fn a_stall_is_hidden_by_the_closed_loop_and_shown_by_the_open_loop() {
    let stall = |_, since: Duration| match since
        .checked_sub(500 * MS)
        .and(Duration::from_millis(1500).checked_sub(since))
    {
        Some(rest) => Answer::After(rest),
        None => GOOD,
    };
    let closed = run(settings(Fake::start(stall).address, 4), Schedule::closed(2500 * MS));
    assert!(closed.outcomes.won > 500, "{:?}", closed.outcomes);
    assert!(closed.response().at(0.99) < 200_000, "{:?}", closed.response());
    assert!(closed.response().max_us > 900_000, "{:?}", closed.response());

    let open = run(settings(Fake::start(stall).address, 4), Schedule::constant(400.0, 2500 * MS));
    assert_eq!(open.outcomes, Outcomes { won: 1000, ..Outcomes::default() });
    assert!(open.response().at(0.99) > 900_000, "{:?}", open.response());
    // All but four waited in the generator, for want of a connection: that is send lag, not service time.
    assert!(open.service().at(0.99) < 200_000, "{:?}", open.service());
    assert!(open.send_lag().at(0.99) > 900_000, "{:?}", open.send_lag());
    // And it was not the generator's own fault.
    assert!(open.waited_for_cap > 300, "{}", open.waited_for_cap);
    assert!(open.generator_lag().at(0.99) < 500_000, "{:?}", open.generator_lag());
    assert_eq!(closed.waited_for_cap, 0);
}

/// After 300 ms each answer takes 2 s, so that the users of 700 ms are answered in about 2.3 s.
#[test]
fn a_closed_loop_that_waits_for_its_last_answers_has_no_rate() {
    let slow_end = |_, since: Duration| if since < 300 * MS { GOOD } else { Answer::After(2000 * MS) };
    let fake = Fake::start(slow_end);
    let diluted =
        meaning::trial(&mut meaning::connect(settings(fake.address, 4)), Schedule::closed(700 * MS));
    let tail = diluted.flags.iter().find_map(|flag| match flag {
        Flag::SlowTail { seconds, share, .. } => Some((*seconds, *share)),
        _ => None,
    });
    assert!(tail.is_some_and(|(seconds, share)| seconds > 1.5 && share > 0.3), "{:?}", diluted.flags);
    assert!(!diluted.is_valid() && diluted.outcomes.won == fake.requests(), "the answers count all the same");

    // As slow, and as busy to the end: in 700 ms each user is answered once, and once after them.
    let steady = Fake::start(|_, _| Answer::After(500 * MS));
    let busy = meaning::trial(&mut meaning::connect(settings(steady.address, 4)), Schedule::closed(700 * MS));
    assert_eq!((busy.outcomes.won, busy.is_valid()), (8, true), "{:?}", busy.flags);
    assert!(busy.seconds >= 0.99, "{busy:?}");
}

#[test]
fn the_open_loop_keeps_its_rate() {
    let fake = Fake::start(|_, _| GOOD);
    let begun = Instant::now();
    let record = run(settings(fake.address, 8), Schedule::constant(1000.0, 1000 * MS));
    assert_eq!(record.outcomes.won, 1000);
    assert!(begun.elapsed() >= 999 * MS, "{:?}", begun.elapsed());
    assert!(record.per_s(Outcome::Won) < 1010.0);
}

#[test]
fn refusals_are_counted_by_their_meaning() {
    let fake = Fake::start(|number, _| match number {
        100..150 => Answer::Status(503, b"busy"),
        150..170 => Answer::Status(429, b"slow down"),
        170..180 => Answer::Status(409, b"gone"),
        180..185 => Answer::Status(500, b"broken"),
        _ => GOOD,
    });
    let record = run(settings(fake.address, 3), Schedule::closed_requests(300));
    let wanted = Outcomes { won: 215, busy: 50, limited: 20, sold_out: 10, failed: 5, ..Outcomes::default() };
    assert_eq!(record.outcomes, wanted);
    assert_eq!(record.first_surprise.as_deref(), Some("500 broken"));
}

#[test]
fn an_answer_in_pieces_is_one_answer() {
    for cut in [1, 15, 30, 37, 38, 40] {
        let fake = Fake::start(move |_, _| Answer::InPieces(cut));
        let record = run(settings(fake.address, 2), Schedule::closed_requests(10));
        assert_eq!(record.outcomes, Outcomes { won: 10, ..Outcomes::default() }, "cut at {cut}");
    }
}

#[test]
fn an_answer_shorter_than_it_claims_is_unknown() {
    let fake =
        Fake::start(|number, _| if number == 3 { Answer::ClaimingThenClose(9, b"good") } else { GOOD });
    let record = run(settings(fake.address, 1), Schedule::closed_requests(10));
    assert_eq!(record.outcomes, Outcomes { won: 9, unknown: 1, ..Outcomes::default() });
    assert_eq!((record.reconnects, fake.connections()), (1, 2));
}

#[test]
fn bytes_after_an_answer_are_noticed_and_never_taken_for_the_next_one() {
    let fake = Fake::start(|number, _| if number == 3 { Answer::Claiming(4, b"goodgood") } else { GOOD });
    let record = run(settings(fake.address, 1), Schedule::closed_requests(10));
    assert_eq!(record.outcomes, Outcomes { won: 10, ..Outcomes::default() });
    assert_eq!((record.stray_answers, fake.connections()), (1, 2));
}

#[test]
fn a_reset_after_the_request_was_sent_leaves_the_outcome_unknown() {
    let fake = Fake::start(|number, _| if number % 10 == 4 { Answer::Reset } else { GOOD });
    let record = run(settings(fake.address, 1), Schedule::closed_requests(100));
    assert_eq!(record.outcomes, Outcomes { won: 90, unknown: 10, ..Outcomes::default() });
    assert_eq!(fake.connections(), 11);
}

#[test]
fn no_answer_in_time_is_unknown() {
    let fake = Fake::start(|number, _| if number == 5 { Answer::Silence } else { GOOD });
    let settings = Settings { answer_timeout: 200 * MS, ..settings(fake.address, 1) };
    let record = run(settings, Schedule::closed_requests(20));
    assert_eq!(record.outcomes, Outcomes { won: 19, unknown: 1, ..Outcomes::default() });
    assert!(record.response().max_us >= 200_000);
}

#[test]
fn a_closed_connection_is_opened_again() {
    let fake = Fake::start(|number, _| if number % 5 == 0 { Answer::Close } else { GOOD });
    let record = run(settings(fake.address, 1), Schedule::closed_requests(20));
    assert_eq!(record.outcomes, Outcomes { won: 20, ..Outcomes::default() });
    assert_eq!((record.reconnects, fake.connections()), (4, 5));
}

#[test]
fn a_server_that_closes_every_connection_is_asked_on_new_ones() {
    let fake = Fake::start(|_, _| Answer::Close);
    let record = run(settings(fake.address, 2), Schedule::closed_requests(50));
    assert_eq!(record.outcomes, Outcomes { won: 50, ..Outcomes::default() });
    // Both of the connections that were there at first had an answer each.
    assert_eq!((fake.connections(), record.reconnects), (50, 48));
}

#[test]
fn an_answer_byte_by_byte_is_one_answer_and_takes_its_time() {
    let fake = Fake::start(|_, _| Answer::Dripping(MS));
    let record = run(settings(fake.address, 3), Schedule::closed_requests(30));
    assert_eq!(record.outcomes, Outcomes { won: 30, ..Outcomes::default() });
    assert_eq!((record.body_bytes, record.stray_answers), (Some((4, 4)), 0));
    assert!(record.service().points[0].us >= 41_000, "{:?}", record.service());
}

#[test]
fn a_new_connection_for_each_request() {
    let fake = Fake::start(|_, _| GOOD);
    let settings = Settings { reuse: Reuse::PerRequest, ..settings(fake.address, 4) };
    let record = run(settings, Schedule::closed_requests(200));
    assert_eq!(record.outcomes, Outcomes { won: 200, ..Outcomes::default() });
    assert_eq!((fake.connections(), record.reconnects), (200, 0));
}

/// Nobody listens: each request fails for certain, and the run ends by itself.
#[test]
fn a_target_that_is_gone_fails_requests_and_leaves_the_rest_unsent() {
    let address = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap();
    for reuse in [Reuse::PerRequest, Reuse::KeepAlive] {
        let opened_later = Settings { opened: 0, reuse, ..settings(address, 2) };
        let settings = Settings { answer_timeout: 300 * MS, ..opened_later };
        let record = run(settings, Schedule::constant(100.0, 1000 * MS));
        let Outcomes { failed, .. } = record.outcomes;
        assert!(failed > 0);
        assert_eq!(record.outcomes, Outcomes { failed, ..Outcomes::default() });
        assert!(record.unsent > 0);
        assert_eq!(record.response(), Distribution::default(), "a refusal is quick, and no answer");
        assert!(record.first_surprise.unwrap().contains("refused"));
    }
}

#[test]
fn a_target_that_never_answers_is_given_up() {
    let fake = Fake::start(|_, _| Answer::Silence);
    let settings = Settings { answer_timeout: 100 * MS, ..settings(fake.address, 2) };
    let record = run(settings, Schedule::closed_requests(1000));
    let Outcomes { unknown, .. } = record.outcomes;
    assert!(unknown >= 2, "{:?}", record.outcomes);
    assert_eq!(record.outcomes, Outcomes { unknown, ..Outcomes::default() });
    assert_eq!(record.unsent, 1000 - unknown);
}

#[test]
fn a_raised_stop_flag_ends_the_run() {
    let fake = Fake::start(|_, _| GOOD);
    let mut generator = meaning::connect(settings(fake.address, 2));
    let (schedule, stop) = (Schedule::closed(Duration::from_secs(600)), AtomicBool::new(true));
    let stopped = generator.run(schedule, &mut Http { workload: &mut Posts }, &stop);
    assert!(matches!(stopped, Err(RunError::Stopped)));
}

#[test]
fn a_run_that_is_finished_from_outside_keeps_what_it_counted() {
    let fake = Fake::start(|_, _| Answer::After(5 * MS));
    let mut generator = meaning::connect(settings(fake.address, 2));
    let finish = AtomicBool::new(false);
    let mut seconds = 0;
    let mut watch = |_: &bench::load::Second| {
        seconds += 1;
        finish.store(true, Ordering::Relaxed);
    };
    let schedule = Schedule::closed(Duration::from_secs(600));
    let record =
        generator.run_until(schedule, &mut Http { workload: &mut Posts }, &finish, &mut watch).unwrap();
    let Outcomes { won, .. } = record.outcomes;
    // Those that were under way are answered too.
    assert_eq!((won, record.outcomes.total()), (fake.requests(), fake.requests()));
    assert_eq!(record.seconds.iter().map(|second| second.good).sum::<u64>(), won);
    assert!(won > 0 && seconds >= 1, "{won}");
    // And the connections are as good as before.
    let again = meaning::trial(&mut generator, Schedule::closed_requests(10));
    assert_eq!((again.outcomes.won, again.reconnects), (10, 0));
}

#[test]
fn windows_of_a_run_follow_each_other_and_miss_nothing() {
    let fake = Fake::start(|_, _| Answer::After(5 * MS));
    let mut generator = meaning::connect(settings(fake.address, 2));
    let finish = AtomicBool::new(false);
    let (mut windows, begun) = (Vec::new(), Instant::now());
    let mut each = |record: Record, _: &Http<'_, Posts>| {
        windows.push((record.elapsed, record.outcomes.won, record.response().points.len()));
        // In the middle of the fourth one.
        finish.store(windows.len() == 3, Ordering::Relaxed);
    };
    let schedule = Schedule::closed(Duration::from_secs(600));
    let mut posts = Http { workload: &mut Posts };
    generator.run_in_windows(schedule, &mut posts, &finish, 200 * MS, &mut each).unwrap();
    let whole = begun.elapsed();
    assert_eq!(windows.len(), 4, "{windows:?}");
    assert!(
        windows[..3].iter().all(|(elapsed, won, points)| *elapsed >= 200 * MS && *won > 0 && *points > 0)
    );
    // The last one has what came after the signal.
    assert!(windows[3].1 > 0, "{windows:?}");
    assert_eq!(windows.iter().map(|window| window.1).sum::<u64>(), fake.requests());
    assert!(windows.iter().map(|window| window.0).sum::<Duration>() <= whole, "{windows:?} in {whole:?}");
    // And the connections are as good as before.
    let again = meaning::trial(&mut generator, Schedule::closed_requests(10));
    assert_eq!((again.outcomes.won, again.reconnects), (10, 0));
}

#[test]
fn nginx_answers_everything_and_serves_a_file_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let nginx = Nginx::start(folder.path()).unwrap();
    let page = vec![b'x'; 100_000];
    nginx.serve_file("page_1.html", &page, Some(b"zipped")).unwrap();
    let plain = once::exchange(nginx.address, &once::encode("GET", "/page_1.html", &[], &[])).unwrap();
    assert_eq!((plain.status, plain.body), (200, page));
    let gzip = once::encode("GET", "/page_1.html", &["Accept-Encoding: gzip"], &[]);
    assert_eq!(once::exchange(nginx.address, &gzip).unwrap().body, b"zipped");
    let record = run(settings(nginx.address, 50), Schedule::closed_requests(5000));
    assert_eq!(record.outcomes, Outcomes { won: 5000, ..Outcomes::default() });
    assert_eq!((record.body_bytes, record.reconnects), (Some((0, 0)), 0));
}
