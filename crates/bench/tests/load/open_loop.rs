//! What only an open loop shows: stalls, and a load beyond what the target can do.

use std::sync::Barrier;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use bench::drivers::http::Http;
use bench::load::record::{Outcome, Outcomes};
use bench::load::schedule::Schedule;
use bench::load::trial::Flag;
use bench::load::{ConnectionId, Generator, Greeting, Protocol, Received, Reuse, Second, Settings, Verdicts};

use crate::fake::{Answer, Fake};
use crate::meaning::{connect, trial};
use crate::{GOOD, MS, Posts, REQUEST, run, settings};

const SECOND: Duration = Duration::from_secs(1);

/// Stands still for 300 ms every 2 s. In the closed loop only the few requests under way notice; in the open loop
/// everybody does who came in that time, and each of them is sent when it is due.
#[test]
fn stalls_that_a_closed_loop_hides_are_shown_by_an_open_loop() {
    let stall = |_, since: Duration| {
        let phase = Duration::from_nanos(u64::try_from(since.as_nanos()).unwrap() % 2_000_000_000);
        if (1000 * MS..1300 * MS).contains(&phase) { Answer::After(1300 * MS - phase) } else { GOOD }
    };
    let closed = run(settings(Fake::start(stall).address, 4), Schedule::closed(4 * SECOND));
    assert!(closed.outcomes.won > 1000, "{:?}", closed.outcomes);
    assert!(closed.response().at(0.99) < 150_000, "{:?}", closed.response());
    assert!(closed.response().max_us > 150_000, "{:?}", closed.response());

    let fake = Fake::start(stall);
    // As many connections as requests: whatever happens, none has to wait.
    let settings = Settings { opened: 4, ..settings(fake.address, 800) };
    let open = run(settings, Schedule::constant(200.0, 4 * SECOND));
    assert_eq!(open.outcomes, Outcomes { won: 800, ..Outcomes::default() });
    assert!(open.response().at(0.99) > 200_000, "{:?}", open.response());
    assert!(open.response().at(0.99) > 2 * closed.response().at(0.99), "{:?}", closed.response());
    // They were under way, not waiting in the generator.
    assert!(open.service().at(0.99) > 200_000, "{:?}", open.service());
    assert_eq!((open.waited_for_cap, open.reconnects), (0, 0));
    assert_eq!(fake.connections(), 4 + open.opened);
}

const SERVICE: Duration = Duration::from_millis(4);

/// One server, 4 ms a request: more users than one bring waiting, not throughput.
#[test]
fn the_knee_of_a_queue_is_where_it_is() {
    let mut responses = Vec::new();
    for users in [1_usize, 4, 16] {
        let fake = Fake::start(|_, _| Answer::Queued(SERVICE));
        let record = run(settings(fake.address, users), Schedule::closed(SECOND));
        let per_s = record.per_s(Outcome::Won);
        assert!(per_s <= 1.0 / SERVICE.as_secs_f64(), "{users} users: {per_s}/s");
        // Little's law, less the edges: users = throughput * response.
        let mean_us = record.response().mean_us;
        let in_queue = per_s * mean_us / 1e6;
        assert!((0.7..1.05).contains(&(in_queue / users as f64)), "{users} users: {in_queue}");
        assert!(mean_us >= 0.7 * users as f64 * 4_000.0, "{users} users: {mean_us}");
        responses.push(mean_us);
    }
    assert!(responses.is_sorted(), "{responses:?}");
    // Without the queue, sixteen do more than it ever can.
    let parallel =
        run(settings(Fake::start(|_, _| Answer::After(SERVICE)).address, 16), Schedule::closed(SECOND));
    assert!(parallel.per_s(Outcome::Won) > 1.0 / SERVICE.as_secs_f64(), "{}", parallel.per_s(Outcome::Won));
}

#[test]
fn a_load_beyond_the_knee_reaches_the_cap_and_is_invalid() {
    let fake = Fake::start(|_, _| Answer::Queued(SERVICE));
    let cap = Settings { opened: 2, ..settings(fake.address, 16) };
    // 1000/s, four times what it can do: in 0.4 s at most 101 are answered, and 16 under way.
    let over = trial(&mut connect(cap), Schedule::constant(1000.0, 400 * MS));
    assert!(!over.is_valid());
    let times = over.flags.iter().find_map(|flag| match flag {
        Flag::InFlightCap { cap: 16, times } => Some(*times),
        _ => None,
    });
    assert!(times.is_some_and(|times| times >= 400 - 101 - 16), "{:?}", over.flags);
    assert_eq!(over.outcomes.total() + over.unsent, 400);
    assert!(over.good_per_s() <= 250.0, "{}", over.good_per_s());
    // What waited is in the response time, and not in the service time.
    assert!(over.response.max_us > over.service.points[0].us, "{over:?}");
    assert_eq!(fake.connections(), 16);

    let fake = Fake::start(|_, _| Answer::Queued(SERVICE));
    let under = trial(&mut connect(settings(fake.address, 50)), Schedule::constant(50.0, SECOND));
    assert_eq!(under.outcomes, Outcomes { won: 50, ..Outcomes::default() });
    assert!(!under.flags.iter().any(|flag| matches!(flag, Flag::InFlightCap { .. })), "{:?}", under.flags);
}

/// The first five are only answered when all five have come, which takes five connections.
#[test]
fn connections_are_opened_when_they_are_needed() {
    for reuse in [Reuse::KeepAlive, Reuse::PerRequest] {
        let all_there = Barrier::new(5);
        let fake = Fake::start(move |number, _| {
            if number < 5 {
                all_there.wait();
            }
            GOOD
        });
        let settings = Settings { opened: 1, reuse, ..settings(fake.address, 100) };
        let record = run(settings, Schedule::poisson(200.0, SECOND / 2));
        let won = fake.requests();
        assert!(won > 50, "{won}");
        assert_eq!(record.outcomes, Outcomes { won, ..Outcomes::default() });
        if reuse == Reuse::KeepAlive {
            assert!(record.opened >= 4 && record.opened < 100, "{}", record.opened);
            assert_eq!((fake.connections(), record.reconnects), (1 + record.opened, 0));
        } else {
            assert_eq!((fake.connections(), record.opened, record.reconnects), (won, 0, 0));
        }
    }
}

/// HTTP with an exchange before the first request, as databases have it.
struct Greets;

impl Protocol for Greets {
    fn greets(&self) -> bool {
        true
    }

    fn greet(&mut self, _connection: ConnectionId, bytes: &[u8], out: &mut Vec<u8>) -> Greeting {
        if bytes.is_empty() {
            out.extend_from_slice(REQUEST);
        }
        if bytes.ends_with(b"good") { Greeting::Done { consumed: bytes.len() } } else { Greeting::Part }
    }

    fn request(&mut self, user: usize, out: &mut Vec<u8>) -> usize {
        Http { workload: &mut Posts }.request(user, out)
    }

    fn receive(&mut self, connection: ConnectionId, bytes: &[u8], verdicts: &mut Verdicts) -> Received {
        Http { workload: &mut Posts }.receive(connection, bytes, verdicts)
    }
}

#[test]
fn connections_opened_later_are_greeted_too() {
    let fake = Fake::start(|number, _| if number % 2 == 0 { Answer::InPieces(30) } else { GOOD });
    for opened in [0, 3] {
        let (requests, connections) = (fake.requests(), fake.connections());
        let settings = Settings { opened, ..settings(fake.address, 6) };
        let mut generator = Generator::connect(settings, &mut Greets).expect("the target greets");
        let schedule = Schedule::closed_requests(60);
        let record = generator.run(schedule, &mut Greets, &AtomicBool::new(false)).unwrap();
        assert_eq!(record.outcomes, Outcomes { won: 60, ..Outcomes::default() });
        assert_eq!((record.opened, record.reconnects), (6 - opened as u64, 0));
        // A greeting for each connection, and the requests.
        assert_eq!((fake.connections() - connections, fake.requests() - requests), (6, 66));
    }
}

#[test]
fn a_watcher_gets_each_second() {
    let fake = Fake::start(|_, _| GOOD);
    let mut watched: Vec<Second> = Vec::new();
    let record = connect(settings(fake.address, 4))
        .run_watched(
            Schedule::constant(200.0, 2 * SECOND),
            &mut Http { workload: &mut Posts },
            &AtomicBool::new(false),
            &mut |second| watched.push(*second),
        )
        .unwrap();
    assert_eq!(watched, record.seconds);
    assert_eq!(watched.iter().map(|second| second.good).sum::<u64>(), 400);
    assert!(watched.len() >= 2 && watched[0].at_s == 1.0, "{watched:?}");
    // What was answered in the first second can't be more than was due in it.
    assert!((1..=200).contains(&watched[0].good), "{watched:?}");
}
