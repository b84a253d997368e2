//! The writer at a start with a wrong clock, by a wall clock that the tests set.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use engine::{BuyerId, Command, LineTerms, Pay, Payment, SaleSpec, SkuId, Standing, Status, UnixMs};
use faultvfs::FaultVfs;
use rusqlite::Connection;
use server::clock::{Checks, Trust};
use server::intake::{Reply, Request};
use server::ledger::sqlite::{self, SqliteLedger, Synchronous, audit};

use crate::embedded::{CHECKS, Harness, NO_LIMITS, accepted, full_disk, open_sale, order, read, wait_until};
use crate::history::sale;
use crate::places::{Database, LedgerHome};

/// One wall clock for each test: they run beside each other, and a clock is a plain function.
static WALLS: [AtomicU64; 17] = [const { AtomicU64::new(0) }; 17];

fn wall<const N: usize>() -> UnixMs {
    UnixMs(WALLS[N].load(Ordering::SeqCst))
}

const NOON: u64 = 1_800_000_000_000;
const MINUTE: i64 = 60_000;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;
/// To pay an order.
const PAYMENT_MS: u64 = 900_000;
const SYNCHRONISED: Checks = Checks { is_synchronised: || true, ..CHECKS };
const TRUSTING: Checks = Checks { trust: Trust::System, ..CHECKS };
const DEMO: Checks = Checks { demo: true, ..CHECKS };

/// A server on a ledger, `N` being the test's clock, which says noon and so much more.
fn start<const N: usize>(dir: &Path, past_noon_ms: i64, checks: Checks) -> Harness {
    set::<N>(past_noon_ms);
    let ledger = SqliteLedger::open(sqlite::Options {
        data_dir: dir.to_owned(),
        synchronous: Synchronous::Full,
        checkpoint_pages: 64,
        vfs: None,
    });
    Harness::at(wall::<N>, ledger.unwrap().into(), NO_LIMITS, checks)
}

fn set<const N: usize>(past_noon_ms: i64) {
    WALLS[N].store(UnixMs(NOON).shifted(past_noon_ms).0, Ordering::SeqCst);
}

/// A sale from an hour before noon to an hour after it, with one order, and stopped at noon.
fn shop<const N: usize>(dir: &Path) {
    let mut writer = start::<N>(dir, 0, CHECKS);
    let spec = SaleSpec {
        starts_at: UnixMs(NOON).shifted(-HOUR),
        ends_at: UnixMs(NOON).shifted(HOUR),
        payment: Payment::WithinMs(PAYMENT_MS),
        ..sale(1)
    };
    writer.one(Request::Execute(Command::CreateSale(spec)));
    accepted(&writer.one(order(1, 7, 1)));
    writer.finish().unwrap();
}

fn pay(hash: u128) -> Request {
    let Request::Read { order, .. } = read(hash) else { unreachable!("that is what it makes") };
    Request::Execute(Command::Pay(Pay { id: format!("p{hash}").into(), order, amount: 4_999 }))
}

fn sql(dir: &Path, statement: &str) -> i64 {
    let connection = Connection::open(dir.join(sqlite::FILE_NAME)).unwrap();
    connection.query_row(statement, [], |row| row.get(0)).unwrap()
}

fn addresses(dir: &Path) -> i64 {
    sql(dir, "SELECT count(*) FROM orders WHERE address IS NOT NULL")
}

fn corrections(dir: &Path) -> i64 {
    sql(dir, "SELECT count(*) FROM further_entries WHERE kind = 'clock_corrected'")
}

fn noted_at(dir: &Path) -> i64 {
    sql(dir, "SELECT value FROM meta WHERE name = 'clock_noted_at'") - NOON.cast_signed()
}

/// As if the clock had been confirmed long ago, and noted so long after noon.
fn note(dir: &Path, past_noon_ms: i64) {
    let connection = Connection::open(dir.join(sqlite::FILE_NAME)).unwrap();
    let at = UnixMs(NOON).shifted(past_noon_ms).0;
    let notes = format!(
        "UPDATE meta SET value = {at} WHERE name = 'clock_noted_at';
         UPDATE meta SET value = {} WHERE name = 'clock_confirmed_since';",
        NOON - 10 * DAY.unsigned_abs()
    );
    connection.execute_batch(&notes).unwrap();
}

#[track_caller]
fn confirmed(reply: &Reply) -> (i64, i64) {
    let Reply::ClockConfirmed { from, to } = reply else { panic!("not confirmed: {reply:?}") };
    (from.0.cast_signed() - NOON.cast_signed(), to.0.cast_signed() - NOON.cast_signed())
}

fn status(writer: &mut Harness, hash: u128) -> Status {
    match writer.one(read(hash)) {
        Reply::Order(order) => order.status,
        other => panic!("{other:?}"),
    }
}

fn pay_by(writer: &mut Harness) -> i64 {
    match writer.one(read(1)) {
        Reply::Order(order) => order.pay_by.unwrap().0.cast_signed(),
        other => panic!("{other:?}"),
    }
}

#[track_caller]
fn assert_sound(dir: &Path) {
    assert_eq!(audit(dir).unwrap().broken, Vec::<String>::new());
}

#[test]
fn a_start_100_days_ahead_erases_nothing_and_neither_does_the_start_after_it() {
    let dir = tempfile::tempdir().unwrap();
    shop::<0>(dir.path());
    note(dir.path(), 0);
    for _start in 0..2 {
        let mut writer = start::<0>(dir.path(), 100 * DAY, CHECKS);
        assert!(!writer.shared.clock.is_confirmed());
        // Each is a whole round of the writer, upkeep and all.
        for _round in 0..3 {
            assert_eq!(status(&mut writer, 1), Status::Held);
        }
        writer.finish().unwrap();
        assert_eq!((addresses(dir.path()), noted_at(dir.path())), (1, 0), "the wrong time is not noted");
    }
    // A system that is synchronised is not asked about so much.
    let writer = start::<0>(dir.path(), 100 * DAY, SYNCHRONISED);
    assert!(!writer.shared.clock.is_confirmed());
    writer.finish().unwrap();
    // An operator has confirmed it: still nothing is erased within a day.
    let mut writer = start::<0>(dir.path(), 100 * DAY, CHECKS);
    let (from, to) = confirmed(&writer.one(Request::ConfirmClock { closed: false }));
    assert!((0..10_000).contains(&from) && to == 100 * DAY, "{from} {to}");
    status(&mut writer, 1);
    writer.finish().unwrap();
    assert_eq!(addresses(dir.path()), 1);
    // The order is as old as the clock says that was corrected: its address goes 90 days from then.
    note(dir.path(), 192 * DAY - 2 * MINUTE);
    let since = NOON.cast_signed() + 191 * DAY;
    let since = format!("UPDATE meta SET value = {since} WHERE name = 'clock_confirmed_since'");
    Connection::open(dir.path().join(sqlite::FILE_NAME)).unwrap().execute(&since, []).unwrap();
    for (past_noon_ms, kept) in [(192 * DAY - MINUTE, 1), (192 * DAY, 0)] {
        let mut writer = start::<0>(dir.path(), past_noon_ms, CHECKS);
        status(&mut writer, 1);
        status(&mut writer, 1);
        writer.finish().unwrap();
        assert_eq!(addresses(dir.path()), kept, "a day after it was confirmed");
    }
    assert_sound(dir.path());
}

#[test]
fn an_hour_ahead_neither_ends_the_sale_nor_expires_its_holds_and_payments_go_on() {
    let dir = tempfile::tempdir().unwrap();
    shop::<1>(dir.path());
    let mut writer = start::<1>(dir.path(), 2 * HOUR, CHECKS);
    assert!(matches!(writer.one(order(2, 8, 1)), Reply::ClockUnconfirmed), "nobody knows whether it is open");
    let (_, replayed) = accepted(&writer.one(order(1, 7, 1)));
    assert!(replayed, "what is known is answered");
    assert_eq!(status(&mut writer, 1), Status::Held);
    assert!(matches!(writer.one(pay(1)), Reply::Accepted(_)));
    assert_eq!(status(&mut writer, 1), Status::Paid);
    assert_eq!(writer.available(0), 19);
    // The clock is set right, and the server notices by itself.
    set::<1>(5 * MINUTE);
    wait_until(|| writer.shared.clock.is_confirmed());
    accepted(&writer.one(order(2, 8, 1)));
    writer.finish().unwrap();
    assert_eq!(corrections(dir.path()), 0, "no time was wrong");
    assert!(noted_at(dir.path()) >= 5 * MINUTE);
    assert_sound(dir.path());
}

#[test]
fn the_start_after_one_with_a_wrong_clock_is_asked_about_too() {
    let dir = tempfile::tempdir().unwrap();
    shop::<2>(dir.path());
    for past_noon_ms in [2 * HOUR, 2 * HOUR + MINUTE, -HOUR] {
        let mut writer = start::<2>(dir.path(), past_noon_ms, CHECKS);
        assert!(!writer.shared.clock.is_confirmed(), "{past_noon_ms}");
        writer.one(pay(1));
        writer.finish().unwrap();
    }
    let writer = start::<2>(dir.path(), 10 * MINUTE, CHECKS);
    assert!(writer.shared.clock.is_confirmed(), "a usual start");
    writer.finish().unwrap();
}

#[test]
fn a_clock_is_confirmed_in_both_directions_and_deadlines_move_along() {
    let dir = tempfile::tempdir().unwrap();
    shop::<3>(dir.path());
    for (number, past_noon_ms) in [(2, 2 * HOUR), (3, -30 * MINUTE), (4, -3 * DAY)] {
        let mut writer = start::<3>(dir.path(), past_noon_ms, CHECKS);
        assert!(!writer.shared.clock.is_confirmed());
        let before = pay_by(&mut writer);
        let (from, to) = confirmed(&writer.one(Request::ConfirmClock { closed: false }));
        assert_eq!(to, past_noon_ms);
        assert!(writer.shared.clock.is_confirmed());
        assert_eq!((status(&mut writer, 1), pay_by(&mut writer) - before), (Status::Held, to - from));
        let again = confirmed(&writer.one(Request::ConfirmClock { closed: false }));
        assert_eq!(again.0, again.1, "what is right is not corrected");
        let open = (-HOUR..HOUR).contains(&past_noon_ms);
        let placed = writer.one(order(number, 8, 1));
        assert_eq!(matches!(placed, Reply::Accepted(_)), open, "{placed:?}");
        writer.finish().unwrap();
        assert_sound(dir.path());
        assert!((to..to + MINUTE).contains(&noted_at(dir.path())));
        // The next start is a usual one.
        let writer = start::<3>(dir.path(), past_noon_ms + MINUTE, CHECKS);
        assert!(writer.shared.clock.is_confirmed());
        writer.finish().unwrap();
    }
    assert_eq!(corrections(dir.path()), 3);
}

#[test]
fn a_shop_that_was_closed_has_nothing_corrected() {
    let dir = tempfile::tempdir().unwrap();
    shop::<14>(dir.path());
    let mut writer = start::<14>(dir.path(), -HOUR, CHECKS);
    let refused = writer.one(Request::ConfirmClock { closed: true });
    assert!(matches!(refused, Reply::Refused(engine::Refusal::InvalidChange(_))), "{refused:?}");
    assert!(!writer.shared.clock.is_confirmed());
    writer.finish().unwrap();
    let mut writer = start::<14>(dir.path(), 3 * DAY, CHECKS);
    assert!(!writer.shared.clock.is_confirmed());
    let before = pay_by(&mut writer);
    let (_, to) = confirmed(&writer.one(Request::ConfirmClock { closed: true }));
    assert_eq!(to, 3 * DAY);
    assert!(writer.shared.clock.is_confirmed());
    assert_eq!(pay_by(&mut writer), before, "what was due is due");
    writer.finish().unwrap();
    assert_eq!(corrections(dir.path()), 0);
    assert_sound(dir.path());
    let mut writer = start::<14>(dir.path(), 3 * DAY + MINUTE, CHECKS);
    assert!(writer.shared.clock.is_confirmed(), "it was noted");
    assert_eq!(status(&mut writer, 1), Status::Expired);
    writer.finish().unwrap();
}

#[test]
fn a_clock_that_was_set_while_the_server_ran_is_taken_when_it_is_confirmed() {
    let dir = tempfile::tempdir().unwrap();
    shop::<4>(dir.path());
    let mut writer = start::<4>(dir.path(), MINUTE, CHECKS);
    set::<4>(-2 * HOUR);
    accepted(&writer.one(order(2, 8, 1)));
    let (from, to) = confirmed(&writer.one(Request::ConfirmClock { closed: false }));
    assert!(from >= MINUTE && to == -2 * HOUR);
    assert!(matches!(
        writer.one(order(3, 8, 1)),
        Reply::Refused(engine::Refusal::NotStarted) | Reply::NotAdmitted(_)
    ));
    // With another one in the same batch: the correction comes last, and once.
    set::<4>(0);
    let replies = writer.ask(vec![
        Request::ConfirmClock { closed: false },
        order(4, 9, 1),
        Request::ConfirmClock { closed: false },
    ]);
    assert_eq!(confirmed(&replies[0]), confirmed(&replies[2]));
    assert!(!matches!(replies[1], Reply::Accepted(_)), "it was asked for by the time before");
    accepted(&writer.one(order(4, 9, 1)));
    writer.finish().unwrap();
    assert_eq!(corrections(dir.path()), 2);
    assert_sound(dir.path());
}

#[test]
fn a_system_that_is_synchronised_is_believed_for_a_day() {
    let dir = tempfile::tempdir().unwrap();
    shop::<5>(dir.path());
    for (past_noon_ms, made) in [(10 * HOUR, 0), (-3 * HOUR, 1), (-2 * HOUR, 1)] {
        let writer = start::<5>(dir.path(), past_noon_ms, SYNCHRONISED);
        assert!(writer.shared.clock.is_confirmed());
        let now = writer.shared.clock.now().0.cast_signed() - NOON.cast_signed();
        assert!((past_noon_ms..past_noon_ms + MINUTE).contains(&now), "{now}");
        writer.finish().unwrap();
        assert_eq!(corrections(dir.path()), made, "only one that goes back is corrected");
        assert_sound(dir.path());
    }
    let writer = start::<5>(dir.path(), 2 * DAY, SYNCHRONISED);
    assert!(!writer.shared.clock.is_confirmed());
    writer.finish().unwrap();
}

#[test]
fn a_shop_that_trusts_the_system_goes_on_and_erases_nothing_for_a_day() {
    let dir = tempfile::tempdir().unwrap();
    shop::<6>(dir.path());
    note(dir.path(), 0);
    for past_noon_ms in [100 * DAY, -DAY] {
        let mut writer = start::<6>(dir.path(), past_noon_ms, TRUSTING);
        assert!(writer.shared.clock.is_confirmed());
        status(&mut writer, 1);
        writer.finish().unwrap();
        assert_eq!(addresses(dir.path()), 1);
        assert_sound(dir.path());
    }
}

#[test]
fn a_demo_sells_a_day_later_and_erases_nothing_until_somebody_has_confirmed_its_clock() {
    let dir = tempfile::tempdir().unwrap();
    shop::<7>(dir.path());
    note(dir.path(), 0);
    let mut writer = start::<7>(dir.path(), 100 * DAY, DEMO);
    assert!(writer.shared.clock.is_confirmed());
    wait_until(|| writer.available(0) == 20);
    assert_eq!(status(&mut writer, 1), Status::Expired);
    writer.finish().unwrap();
    note_kept::<7>(dir.path(), 102 * DAY, 1);
    let mut writer = start::<7>(dir.path(), 102 * DAY, DEMO);
    confirmed(&writer.one(Request::ConfirmClock { closed: false }));
    writer.finish().unwrap();
    let noted = start::<7>(dir.path(), 102 * DAY + MINUTE, DEMO);
    noted.finish().unwrap();
    assert!(sql(dir.path(), "SELECT value FROM meta WHERE name = 'clock_confirmed_since'") < i64::MAX);
}

/// Two usual starts two days apart, with as many addresses at the end.
fn note_kept<const N: usize>(dir: &Path, past_noon_ms: i64, kept: i64) {
    let at = UnixMs(NOON).shifted(past_noon_ms).0;
    let note = format!("UPDATE meta SET value = {at} WHERE name = 'clock_noted_at'");
    Connection::open(dir.join(sqlite::FILE_NAME)).unwrap().execute(&note, []).unwrap();
    let mut writer = start::<N>(dir, past_noon_ms, DEMO);
    status(&mut writer, 1);
    writer.finish().unwrap();
    assert_eq!(addresses(dir), kept);
}

#[test]
fn a_new_ledger_asks_nothing_and_an_old_one_only_about_the_past() {
    let dir = tempfile::tempdir().unwrap();
    // Made in 1970, by a machine without a battery.
    let writer = start::<8>(dir.path(), -NOON.cast_signed(), CHECKS);
    assert!(writer.shared.clock.is_confirmed());
    writer.finish().unwrap();
    let dir = tempfile::tempdir().unwrap();
    shop::<8>(dir.path());
    let forget = "DELETE FROM meta WHERE name LIKE 'clock%'";
    Connection::open(dir.path().join(sqlite::FILE_NAME)).unwrap().execute(forget, []).unwrap();
    let writer = start::<8>(dir.path(), -HOUR, CHECKS);
    assert!(!writer.shared.clock.is_confirmed());
    writer.finish().unwrap();
    let mut writer = start::<8>(dir.path(), 100 * DAY, CHECKS);
    assert!(writer.shared.clock.is_confirmed());
    status(&mut writer, 1);
    writer.finish().unwrap();
    assert_eq!(addresses(dir.path()), 1, "it was confirmed for less than a day");
}

#[test]
fn a_ledger_on_mysql_keeps_the_clock_as_well() {
    let home = LedgerHome::MySql(Database::shared().into());
    let start = |past_noon_ms| {
        set::<9>(past_noon_ms);
        Harness::at(wall::<9>, home.open(), NO_LIMITS, CHECKS)
    };
    let mut writer = start(0);
    writer.one(open_sale(PAYMENT_MS));
    accepted(&writer.one(order(1, 7, 1)));
    writer.finish().unwrap();
    for past_noon_ms in [100 * DAY, -HOUR] {
        for _start in 0..2 {
            let mut writer = start(past_noon_ms);
            assert!(!writer.shared.clock.is_confirmed());
            assert_eq!(status(&mut writer, 1), Status::Held);
            writer.finish().unwrap();
        }
        let mut writer = start(past_noon_ms);
        assert_eq!(confirmed(&writer.one(Request::ConfirmClock { closed: false })).1, past_noon_ms);
        assert_eq!(status(&mut writer, 1), Status::Held);
        writer.finish().unwrap();
        let writer = start(past_noon_ms + MINUTE);
        assert!(writer.shared.clock.is_confirmed());
        writer.finish().unwrap();
    }
    assert_eq!(home.source().audit().unwrap().broken, Vec::<String>::new());
}

#[test]
fn a_correction_that_could_not_be_written_is_asked_for_again() {
    let dir = tempfile::tempdir().unwrap();
    shop::<10>(dir.path());
    let vfs = FaultVfs::register("clock-correction");
    set::<10>(-HOUR);
    let options = sqlite::Options {
        data_dir: dir.path().to_owned(),
        synchronous: Synchronous::Full,
        checkpoint_pages: 64,
        vfs: Some("clock-correction".to_owned()),
    };
    let ledger = SqliteLedger::open(options).unwrap();
    let mut writer = Harness::at(wall::<10>, ledger.into(), NO_LIMITS, CHECKS);
    let before = pay_by(&mut writer);
    vfs.arm(full_disk(1));
    assert!(matches!(writer.one(Request::ConfirmClock { closed: false }), Reply::Unknown));
    assert!(!writer.shared.clock.is_confirmed(), "the ledger has no word of it");
    assert!(matches!(writer.one(Request::ConfirmClock { closed: false }), Reply::Unavailable));
    vfs.disarm();
    wait_until(|| !writer.client.read_only());
    let (from, to) = confirmed(&writer.one(Request::ConfirmClock { closed: false }));
    assert!(writer.shared.clock.is_confirmed());
    assert_eq!(pay_by(&mut writer) - before, to - from, "once");
    writer.finish().unwrap();
    assert_eq!(corrections(dir.path()), 1);
    assert_sound(dir.path());
}

/// Whoever was called or reached before could not order while it stood, and finds the server again.
#[test]
fn a_clock_that_goes_on_gives_turns_and_graces_time() {
    let synchronised = Checks { is_synchronised: || WALLS[16].load(Ordering::SeqCst) > 0, ..CHECKS };
    for closed in [Some(true), Some(false), None] {
        let dir = tempfile::tempdir().unwrap();
        WALLS[16].store(0, Ordering::SeqCst);
        line::<15>(dir.path());
        let mut writer = start::<15>(dir.path(), 2 * HOUR, synchronised);
        assert!(!writer.shared.clock.is_confirmed());
        match closed {
            Some(closed) => drop(confirmed(&writer.one(Request::ConfirmClock { closed }))),
            None => WALLS[16].store(1, Ordering::SeqCst),
        }
        wait_until(|| writer.shared.clock.is_confirmed());
        // Each is answered before whoever is due in its batch.
        let [_, standings] = [(); 2].map(|()| [1, 2].map(|buyer| standing(&mut writer, buyer)));
        let goes_on_at = UnixMs(NOON).shifted(2 * HOUR);
        let [Standing::Called { until, .. }, Standing::Grace] = standings else { panic!("{standings:?}") };
        assert!(until >= goes_on_at.plus(29_000), "{closed:?}: {until:?}");
        writer.finish().unwrap();
        assert_sound(dir.path());
    }
}

/// Without showing that they are there.
fn standing(writer: &mut Harness, buyer: u128) -> Standing {
    let buyer = BuyerId(buyer);
    match writer.one(Request::Receipt { sku: SkuId(0), buyer }) {
        Reply::Receipt(receipt) => receipt.place.standing,
        other => panic!("{other:?}"),
    }
}

/// Two units, and two who joined; at noon, when the sale starts, the one is called and the other is not there.
fn line<const N: usize>(dir: &Path) {
    let mut spec = sale(1);
    (spec.starts_at, spec.ends_at) = (UnixMs(NOON), UnixMs(NOON).shifted(DAY));
    let terms =
        LineTerms { units: 1, turn_ms: 30_000, grace_ms: 20_000, close_ms: 0, beacon: None, access: None };
    (spec.items[0].line, spec.items[0].total) = (Some(terms), 2);
    let mut writer = start::<N>(dir, -MINUTE, CHECKS);
    writer.one(Request::Execute(Command::CreateSale(spec)));
    for buyer in [1, 2] {
        let (sku, buyer) = (SkuId(0), BuyerId(buyer));
        writer.one(Request::Join { sku, buyer, buyer_text: None, verified: true });
    }
    writer.finish().unwrap();
    let mut writer = start::<N>(dir, 0, CHECKS);
    wait_until(|| {
        writer.one(Request::Execute(Command::ShowPresence { sku: SkuId(0), buyer: BuyerId(1) }));
        let standings = [1, 2].map(|buyer| standing(&mut writer, buyer));
        matches!(standings, [Standing::Called { .. }, Standing::Grace])
    });
    writer.finish().unwrap();
}
