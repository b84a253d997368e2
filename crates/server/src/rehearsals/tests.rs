//! Rehearsals whose program is a shell: what is read of it, and how it ends.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use engine::{Book, LineTerms, ProductId};

use super::process::needed;
use super::*;
use crate::clock::wall_clock;
use crate::intake::Mailbox;
use crate::intake::admission::Limits;
use crate::intake::catalog::Catalog;

const PATIENCE: Duration = Duration::from_secs(60);
const UNLIMITED: Limits = Limits {
    orders_per_s: 0,
    burst: 0,
    orders_per_s_per_buyer: 0,
    in_flight_max: 0,
    in_flight_per_buyer_max: 0,
    gate_judges: false,
};
const CROWD: Crowd = Crowd { buyers: 300, over_s: 4 };

fn sale() -> SaleSpec {
    SaleSpec {
        id: SaleId(3),
        title: "Winter \"drop\"".to_owned(),
        currency: "EUR".to_owned(),
        starts_at: UnixMs(4_000_000_000_000),
        ends_at: UnixMs(4_000_000_060_000),
        payment: Payment::WithinMs(90_000),
        open_holds_per_buyer_max: Some(2),
        items: vec![ItemSpec {
            product: ProductId(30),
            title: "Shoe".to_owned(),
            description: String::new(),
            price: 4999,
            list_price: 9999,
            total: 40,
            limit: Some(1),
            image: None,
            line: None,
        }],
    }
}

/// Rehearsals, and a writer that keeps whatever is to be kept.
struct Fixture {
    /// Dropped before its writer.
    rehearsals: Option<Rehearsals>,
    stop: Stop,
    kept: Arc<Mutex<Vec<(Action, String)>>>,
    over: Arc<AtomicBool>,
    /// The writer keeps nothing.
    refuses: Arc<AtomicBool>,
    writer: Option<JoinHandle<()>>,
}

impl Fixture {
    fn of(script: &str) -> Fixture {
        let arguments = ["-c", script, "rehearse"].map(OsString::from).into();
        Fixture::with(Some(RehearseCommand { program: "/bin/sh".into(), arguments, clean_up: Vec::new() }))
    }

    fn with(command: Option<RehearseCommand>) -> Fixture {
        let mailbox = Mailbox::new(Vec::new(), 4);
        let intake = Intake::new(wall_clock, UNLIMITED);
        let stop = Stop::new();
        let rehearsals = Rehearsals::new(command, intake, mailbox.asker(), stop.clone());
        let (kept, over) = (Arc::<Mutex<Vec<_>>>::default(), Arc::<AtomicBool>::default());
        let refuses = Arc::<AtomicBool>::default();
        let write = {
            let (kept, over, refuses) = (Arc::clone(&kept), Arc::clone(&over), Arc::clone(&refuses));
            move || {
                while !over.load(Ordering::Relaxed) {
                    let mut asked = Vec::new();
                    mailbox.drain(&mut asked, 4, Duration::from_millis(10));
                    for envelope in asked {
                        let reply = match (envelope.request, refuses.load(Ordering::Relaxed)) {
                            (Request::Operate(Command::KeepAction(action, about), _), false) => {
                                kept.lock().unwrap().push((action, about.to_string()));
                                Reply::Accepted(engine::Accepted::ActionKept)
                            }
                            _ => Reply::Unavailable,
                        };
                        mailbox.answer(envelope.event_loop, &mut vec![(envelope.ticket, reply)]);
                    }
                }
            }
        };
        Fixture {
            rehearsals: Some(rehearsals),
            stop,
            kept,
            over,
            refuses,
            writer: Some(thread::spawn(write)),
        }
    }

    fn all(&self) -> &Rehearsals {
        self.rehearsals.as_ref().expect("it is dropped last")
    }

    fn begin(&self) -> Result<(), NotBegun> {
        self.begin_by(None, CROWD)
    }

    fn begin_by(&self, key: Option<&str>, crowd: Crowd) -> Result<(), NotBegun> {
        self.all().begin(&sale(), crowd, (&By::named("otto", "").unwrap(), key))
    }

    fn shown(&self) -> Value {
        self.all().shown()
    }

    fn until(&self, reached: impl Fn(&Value) -> bool) -> Value {
        let begun = Instant::now();
        loop {
            let shown = self.shown();
            if reached(&shown) {
                return shown;
            }
            assert!(begun.elapsed() < PATIENCE, "{shown}");
            thread::sleep(Duration::from_millis(5));
        }
    }

    fn ended(&self) -> Value {
        self.until(|shown| shown["state"] == "ended")
    }
}

impl Drop for Fixture {
    fn drop(&mut self) {
        self.rehearsals = None;
        self.over.store(true, Ordering::Relaxed);
        self.writer.take().unwrap().join().unwrap();
    }
}

#[test]
fn how_it_ended_is_said_by_what_it_printed() {
    for (script, outcome, says) in [
        (
            "cat > /dev/null; echo '{\"verdict\": \"Carries 9 orders/s.\", \"left\": 0}'",
            "carried",
            "Carries 9 orders/s.",
        ),
        ("echo '{\"verdict\": \"Too small.\"}'; exit 2", "inconclusive", "Too small."),
        ("echo first >&2; echo 'error: sale 3 is live' >&2; exit 1", "failed", "sale 3 is live"),
        // Nothing that it says is believed of one that failed.
        (
            "echo '{\"verdict\": \"Carries 9.\"}'; echo 'error: Does not hold: an order is missing' >&2; exit 1",
            "failed",
            "Does not hold: an order is missing",
        ),
        ("echo 'the crowd comes' >&2; kill -9 $$", "failed", "It ended: signal: 9 (SIGKILL)."),
        ("echo 'no JSON'", "failed", "It ended (exit status: 0), and what it printed can't be read."),
        ("kill -9 $$", "failed", "It ended: signal: 9 (SIGKILL)."),
        (
            "head -c 3000000 /dev/zero; exit 0",
            "failed",
            "It ended (exit status: 0), and what it printed can't be read.",
        ),
    ] {
        let fixture = Fixture::of(script);
        assert_eq!(fixture.shown(), json!({ "state": "none" }));
        fixture.begin().unwrap();
        let ended = fixture.ended();
        assert_eq!((&ended["outcome"], &ended["says"]), (&outcome.into(), &says.into()), "{script}");
        assert_eq!(
            (&ended["by"], &ended["buyers"], &ended["sale"]),
            (&"otto".into(), &300.into(), &3.into())
        );
        let about = format!("sale 3, 300 buyers: {says}");
        assert_eq!(*fixture.kept.lock().unwrap(), [(Action::RehearsalEnded, about)], "{script}");
        assert_eq!(fixture.all().stop(None, "by otto"), StopOutcome::NonePlayed, "{script}");
        fixture.begin().unwrap();
    }
}

#[test]
fn it_is_given_the_sale_and_the_crowd_and_says_what_it_does() {
    let script = "echo \"$*\" >&2; cat >&2; echo >&2; while [ ! -e /proc/$PPID/gone ]; do sleep 0.05; done";
    let fixture = Fixture::of(script);
    fixture.begin().unwrap();
    let playing = fixture.until(|shown| shown["progress"].as_str().is_some_and(|line| line.starts_with('{')));
    let written: Value = serde_json::from_str(playing["progress"].as_str().unwrap()).unwrap();
    assert_eq!(
        written,
        json!({
            "id": 3, "title": "Winter \"drop\"", "currency": "EUR",
            "starts_at": "2096-10-02T07:06:40Z", "ends_at": "2096-10-02T07:07:40Z",
            "payment": "90000ms", "open_holds_per_buyer_max": 2,
            "item": [{
                "product": 30, "title": "Shoe", "description": "", "price": 4999, "list": 9999,
                "total": 40, "limit": 1, "line": null,
            }],
        })
    );
    assert!(matches!(fixture.begin(), Err(NotBegun::Playing(3))), "one at a time");
    for who in ["otto", "anna"] {
        let asked = StopOutcome::Asked { about: "sale 3, 300 buyers".to_owned() };
        assert_eq!(fixture.all().stop(None, format!("by {who}")), asked);
    }
    let ended = fixture.ended();
    assert_eq!((&ended["outcome"], &ended["says"]), (&"stopped".into(), &"Stopped: by otto.".into()));
    assert_eq!(fixture.all().stop(None, "by anna"), StopOutcome::Before);
}

/// A press that was meant for the one that is shown came when the next was played.
#[test]
fn one_that_is_meant_is_stopped_and_no_other() {
    let fixture = Fixture::of("trap 'exit 0' TERM; while :; do sleep 0.05; done");
    let stop = |meant| fixture.all().stop(Some(meant), "by otto");
    assert_eq!(stop(7), StopOutcome::NonePlayed);
    fixture.begin().unwrap();
    let began_at_ms = fixture.shown()["began_at_ms"].as_u64().unwrap();
    assert_eq!(stop(began_at_ms - 1), StopOutcome::Another);
    assert_eq!(fixture.all().latest.lock().as_ref().unwrap().stopped, None, "nothing was asked of it");
    assert!(matches!(stop(began_at_ms), StopOutcome::Asked { .. }));
    assert_eq!(fixture.ended()["outcome"], "stopped");
    assert_eq!((stop(began_at_ms), stop(began_at_ms - 1)), (StopOutcome::Before, StopOutcome::Another));
}

#[test]
fn a_call_that_is_sent_again_begins_no_second_one() {
    let fixture = Fixture::of("echo '{\"verdict\": \"Carries 9.\"}'");
    let (key, larger) = (Some("k1"), Crowd { buyers: 301, ..CROWD });
    // As it begins, and once it has ended.
    for _each in 0..2 {
        fixture.begin_by(key, CROWD).unwrap();
        assert!(fixture.all().was_begun(key, SaleId(3), CROWD).unwrap());
        assert!(matches!(fixture.begin_by(key, larger), Err(NotBegun::OtherKey)));
        fixture.ended();
    }
    assert_eq!(fixture.kept.lock().unwrap().len(), 1);
    assert!(!fixture.all().was_begun(None, SaleId(3), CROWD).unwrap(), "without a key nothing is the same");
    for key in [None, None, Some("k2")] {
        fixture.begin_by(key, CROWD).unwrap();
        fixture.ended();
    }
    assert_eq!(fixture.kept.lock().unwrap().len(), 4);
}

#[test]
fn of_calls_at_once_one_alone_leaves_an_entry_and_none_after_the_end() {
    let fixture = Fixture::of("trap 'exit 0' TERM; while :; do sleep 0.1; done");
    let claim = || fixture.all().claim(Action::RehearsalStopped);
    assert_eq!(claim(), None, "none was played");
    for number in 0..2 {
        fixture.begin().unwrap();
        assert_eq!((claim(), claim()), (Some(number), None));
        // The ledger was away, and says so of the one before, too, later.
        fixture.all().give_back(number, Action::RehearsalStopped);
        assert_eq!(claim(), Some(number));
        fixture.all().give_back(number + 7, Action::RehearsalStopped);
        assert_eq!(claim(), None);
        fixture.all().give_back(number, Action::RehearsalStopped);
        assert!(matches!(fixture.all().stop(None, "by otto"), StopOutcome::Asked { .. }));
        fixture.ended();
        assert_eq!(claim(), None, "it has ended");
    }
}

#[test]
fn what_is_said_is_kept_within_its_bound() {
    let fixture = Fixture::of(
        "i=0; printf 'error: ' >&2; while [ $i -lt 300 ]; do printf ä >&2; i=$((i+1)); done; exit 1",
    );
    fixture.begin().unwrap();
    let ended = fixture.ended();
    assert_eq!(ended["says"].as_str().unwrap().chars().count(), 300);
    let kept = fixture.kept.lock().unwrap();
    assert!((ABOUT_BYTES_MAX - 1..=ABOUT_BYTES_MAX).contains(&kept[0].1.len()), "{kept:?}");
}

#[test]
fn a_server_that_stops_ends_it() {
    let fixture = Fixture::of("trap 'exit 0' TERM; while :; do sleep 0.05; done");
    fixture.begin().unwrap();
    fixture.stop.request();
    assert_eq!(fixture.ended()["says"], "Stopped: the server stops.");
    fixture.all().end();
    assert!(matches!(fixture.begin(), Err(NotBegun::Needed(_))), "none is begun after the end");
}

/// An event loop has begun it, and ends before the server does.
#[test]
fn it_is_not_signalled_to_end_when_whoever_began_it_has() {
    let script = "trap 'echo \"error: signalled to end\" >&2; exit 1' TERM; echo plays >&2; \
                  i=0; while [ $i -lt 10 ]; do sleep 0.05; i=$((i+1)); done; echo '{\"verdict\": \"Carries 9.\"}'";
    let arguments = ["--pdeathsig", "TERM", "/bin/sh", "-c", script, "rehearse"];
    let arguments = arguments.map(OsString::from).into();
    let command = RehearseCommand { program: "setpriv".into(), arguments, clean_up: Vec::new() };
    let fixture = Fixture::with(Some(command));
    thread::scope(|scope| {
        let event_loop = scope.spawn(|| {
            fixture.begin().unwrap();
            fixture.until(|shown| shown["progress"] == "plays");
        });
        event_loop.join().unwrap();
    });
    assert_eq!(fixture.ended()["says"], "Carries 9.");
}

#[test]
fn what_can_not_be_started_is_said() {
    let fixture = Fixture::with(None);
    assert!(matches!(fixture.all().check(&sale()), Err(NotBegun::Off)));
    assert!(matches!(fixture.begin(), Err(NotBegun::Off)));
    let fixture = Fixture::with(Some(RehearseCommand {
        program: "/nowhere/doorbuster".into(),
        arguments: Vec::new(),
        clean_up: Vec::new(),
    }));
    assert!(matches!(fixture.begin(), Err(NotBegun::NotStarted(_))));
    assert_eq!(fixture.shown(), json!({ "state": "none" }));
}

/// What of a catalog with this sale is in the way so long after its start, or before.
#[test]
fn none_is_begun_near_a_sale_or_while_orders_wait_for_their_payment() {
    let starts_at = sale().starts_at;
    let mut book = Book::new();
    book.execute(UnixMs(1), Command::CreateSale(sale())).unwrap();
    let planned = Catalog::of(book.registry(), &Catalog::default());
    book.execute(UnixMs(2), Command::Pause(SaleId(3))).unwrap();
    // One that is paused may be resumed at any moment.
    let catalog = Catalog::of(book.registry(), &Catalog::default());
    let quarter_ms = 15 * 60_000;
    for (now, why) in [
        (starts_at.0 - quarter_ms, None),
        (starts_at.0 - quarter_ms + 1, Some("sale 3 begins in 15 min")),
        (starts_at.0 - 1, Some("sale 3 begins in 1 min")),
        (starts_at.0, Some("sale 3 is live")),
        (sale().ends_at.0, None),
    ] {
        assert_eq!(in_the_way(&planned, UnixMs(now)).as_deref(), why, "{now}");
        let why = why.map(|why| why.replace("live", "paused"));
        assert_eq!(in_the_way(&catalog, UnixMs(now)), why, "{now}, paused");
    }
    for (before_ms, why) in [(60_001, None), (60_000, Some("sale 3 begins within a minute"))] {
        assert_eq!(needed(&catalog, UnixMs(starts_at.0 - before_ms)).as_deref(), why, "{before_ms}");
    }
    catalog.skus[0].counters.publish_committed(40, 2, 1);
    let held = "sale 3 has units that are held and not paid: 2; rehearse when they are paid or have expired";
    for (now, says) in [
        (starts_at.0 - quarter_ms, held),
        (starts_at.0 - 1, held),
        (starts_at.0, "sale 3 is paused"),
        (sale().ends_at.0, held),
    ] {
        let why = in_the_way(&catalog, UnixMs(now));
        assert_eq!(why.as_deref(), Some(says), "{now}");
    }
    // Another one was made first, and begins soon.
    let first = SaleSpec { id: SaleId(1), starts_at: UnixMs(starts_at.0 + 30_000), ..sale() };
    let mut book = Book::new();
    for spec in [first, sale()] {
        book.execute(UnixMs(1), Command::CreateSale(spec)).unwrap();
    }
    let both = Catalog::of(book.registry(), &Catalog::default());
    assert_eq!(in_the_way(&both, starts_at).as_deref(), Some("sale 3 is live"));
}

#[test]
fn a_sale_with_a_line_is_not_rehearsed() {
    let fixture = Fixture::of("exit 0");
    let mut with_line = sale();
    with_line.items[0].line = Some(LineTerms {
        units: 1,
        turn_ms: 120_000,
        grace_ms: 20_000,
        close_ms: 30_000,
        beacon: None,
        access: None,
    });
    assert!(matches!(fixture.all().check(&with_line), Err(NotBegun::Line(30))));
    assert!(fixture.all().check(&sale()).is_ok());
}

#[test]
fn none_is_begun_while_another_is_played_elsewhere() {
    let fixture = Fixture::of("exit 0");
    let begun = ": sale 3, 300 buyers within 4 s, begun by anna";
    fixture.all().elsewhere.set(Some(begun.to_owned()));
    let said = format!("Another rehearsal of this installation is under way{begun}.");
    assert_eq!(fixture.shown(), json!({ "state": "none", "elsewhere": said }));
    assert!(matches!(fixture.begin(), Err(NotBegun::Elsewhere(played)) if played == begun));
    fixture.all().elsewhere.set(None);
    fixture.begin().unwrap();
    assert_eq!(fixture.ended().get("elsewhere"), None);
}

#[test]
fn what_could_not_be_kept_is_said() {
    let fixture = Fixture::of("echo '{\"verdict\": \"Carries 9 orders/s.\"}'");
    fixture.refuses.store(true, Ordering::Relaxed);
    fixture.begin().unwrap();
    let says = "Carries 9 orders/s. This could not be kept in the operators' log.";
    assert_eq!(fixture.ended()["says"], says);
}
