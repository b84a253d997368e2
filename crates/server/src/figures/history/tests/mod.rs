//! The history with rows that a test makes: what is read of them, and what ends it.

mod heard;
mod kept;

use std::os::unix::fs::PermissionsExt as _;
use std::sync::mpsc::sync_channel;
use std::time::Duration;

use serde_json::{Value, json};

use super::incidents::Changes;
use super::refusals::{ITEM_ROWS_PER_MINUTE_MAX, ROWS_PER_MINUTE_MAX};
use super::*;
use crate::figures::events::Kind;
use crate::figures::verdict::Level;
use crate::metrics::Latencies;

/// The beginning of a minute.
pub(super) const BEGUN: i64 = 1_796_119_200_000;

pub(super) fn taken(at_ms: i64, accepted: f64) -> Taken {
    let mut values = [Some(0.0); COLUMNS.len()];
    values[1] = Some(accepted);
    (values[8], values[15], values[16]) = (None, Some(1.0), Some(1.0));
    let judged = SecondVerdict {
        level: Level::Green,
        code: "selling",
        says: String::new(),
        cause: None,
        no_orders: false,
    };
    let (stock, refused, sales, events) = (Vec::new(), Vec::new(), Vec::new(), Arc::default());
    let (passed_ms, stood_still, disk_free_bytes) = (1_000, false, None);
    Taken { at_ms, passed_ms, stood_still, values, stock, refused, sales, judged, events, disk_free_bytes }
}

pub(super) fn judged(at_ms: i64, level: Level, code: &'static str) -> Taken {
    let says = format!("It is {code} now.");
    Taken {
        judged: SecondVerdict { level, code, says, cause: None, no_orders: false },
        ..taken(BEGUN + at_ms, 1.0)
    }
}

/// From, to, level and code.
fn incidents(history: &History, asked: &HistoryQuery) -> Vec<(i64, Option<i64>, String, String)> {
    let found = read(history, asked)["incidents"].as_array().unwrap().clone();
    let text = |incident: &Value, name: &str| incident[name].as_str().unwrap().to_owned();
    let one = |incident: &Value| {
        let ended = incident["ended_ms"].as_i64().map(|at_ms| at_ms - BEGUN);
        let expected = match &*text(incident, "code") {
            "restarted" => "The server was started again.".to_owned(),
            code => format!("It is {code} now."),
        };
        assert_eq!(incident["says"], expected);
        let began = incident["began_ms"].as_i64().unwrap() - BEGUN;
        (began, ended, text(incident, "level"), text(incident, "code"))
    };
    found.iter().map(one).collect()
}

fn incident(began: i64, ended: Option<i64>, level: &str, code: &str) -> (i64, Option<i64>, String, String) {
    (began, ended, level.to_owned(), code.to_owned())
}

pub(super) fn refused(sale: i64, product: Option<i64>, code: &'static str, orders: f64) -> Refused {
    Refused { sale, product, code, orders }
}

pub(super) fn left(available: i64) -> ItemStock {
    ItemStock { sale: 3, product: 30, available, turns: 0, held: 1, sold: 10 - available }
}

fn asked(from_ms: i64, to_ms: i64, points: u64) -> HistoryQuery {
    let unsigned = |ms: i64| u64::try_from(ms).unwrap();
    HistoryQuery::new((unsigned(from_ms), unsigned(to_ms)), points, Some((3, 30)))
}

fn read(history: &History, asked: &HistoryQuery) -> Value {
    serde_json::from_slice(&history.read(asked).unwrap().to_json()).unwrap()
}

/// Time and accepted orders of each row, and what was available.
fn rows(history: &History, asked: &HistoryQuery) -> Vec<(i64, Value, Value)> {
    let points = read(history, asked);
    let rows = points["rows"].as_array().unwrap();
    rows.iter().map(|row| (row[0].as_i64().unwrap() - BEGUN, row[2].clone(), row[18].clone())).collect()
}

fn over(store: Store) -> History {
    History { store: Mutex::new(Some(store)), aside: Mutex::default(), dir: None, _lock: None }
}

pub(super) fn bounded(bounds: Bounds) -> History {
    over(Store::in_memory(bounds).unwrap())
}

#[test]
fn seconds_are_read_as_they_are_or_folded_and_a_gap_is_a_gap() {
    let history = bounded(IN_FILE);
    for (second, available) in [(0, 9), (1, 9), (2, 7), (6, 7), (7, 0)] {
        let stock = vec![left(available)];
        let mut taken = Taken { stock, ..taken(BEGUN + second * 1_000 + 17, 1.5 * second as f64) };
        taken.values[8] = Some(second as f64);
        history.record(&taken);
    }
    let all = asked(BEGUN, BEGUN + 60_000, 100);
    let seconds = [
        (0, json!(0), json!(9)),
        (1_000, json!(1.5), json!(9)),
        (2_000, json!(3), json!(7)),
        (6_000, json!(9), json!(7)),
        (7_000, json!(10.5), json!(0)),
    ];
    assert_eq!(rows(&history, &all), seconds);
    // What was left before is known, too.
    assert_eq!(rows(&history, &asked(BEGUN + 6_000, BEGUN + 7_000, 100)), seconds[3..4]);
    let halves = rows(&history, &asked(BEGUN, BEGUN + 8_000, 2));
    assert_eq!(halves, [(0, json!(1.5), json!(7)), (4_000, json!(9.75), json!(0))]);
    let folded = read(&history, &asked(BEGUN, BEGUN + 8_000, 2));
    assert_eq!((&folded["step_ms"], &folded["rows"][1][9]), (&json!(4_000), &json!(7)), "the highest p99");
}

#[test]
fn when_an_item_was_sold_out_is_known_after_a_kill() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(FILE_NAME);
    let killed = over(Store::open(&path, IN_FILE).unwrap());
    let of = |product, available, held| ItemStock { product, held, ..left(available) };
    let in_turns = |product| ItemStock { turns: 1, ..of(product, 0, 3) };
    let night = [
        // Sold out, back, and sold out again, then paid; never anything left; something left.
        vec![of(30, 4, 0), of(31, 0, 5), of(32, 1, 0)],
        vec![of(30, 0, 4), of(31, 0, 5), of(32, 1, 0)],
        vec![in_turns(30), of(31, 0, 4), of(32, 0, 1)],
        vec![of(30, 0, 4), of(31, 0, 4), of(32, 0, 1)],
        vec![of(30, 0, 3), of(31, 0, 3), of(32, 1, 0)],
    ];
    for (stock, second) in night.into_iter().zip(0..) {
        killed.record(&Taken { stock, ..taken(BEGUN + second * 1_000, 1.0) });
    }
    std::mem::forget(killed);
    let history = over(Store::open(&path, IN_FILE).unwrap());
    let since = BEGUN.unsigned_abs() + 3_000;
    assert_eq!(history.sold_out(&[(3, 30), (3, 31), (3, 32), (4, 30)]), [((3, 30), since)]);
}

#[test]
fn what_is_not_known_is_null_and_an_answer_has_a_bound() {
    let history = bounded(IN_FILE);
    for second in 0..6_000 {
        history.record(&taken(BEGUN + second * 1_000, 1.0));
    }
    let points = read(&history, &asked(BEGUN, BEGUN + 6_000_000, u64::MAX));
    let rows = points["rows"].as_array().unwrap();
    assert!(rows.len() as u64 <= POINTS_MAX && rows.len() >= 3_000, "{}", rows.len());
    assert_eq!((&rows[0][9], &rows[0][18]), (&Value::Null, &Value::Null), "no order, and no such item");
    let years = read(&history, &asked(0, BEGUN * 2, 1));
    assert_eq!(years["rows"].as_array().unwrap().len(), 1, "whatever time is asked for");
}

#[test]
fn minutes_stay_when_their_seconds_go_also_those_before_a_kill() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(FILE_NAME);
    let bounds = Bounds { seconds_ms: 120_000, minutes_ms: 600_000, ..IN_FILE };
    let open = || over(Store::open(&path, bounds).unwrap());
    let killed = open();
    for second in 0..90 {
        killed.record(&taken(BEGUN + second * 1_000, if second < 60 { 2.0 } else { 4.0 }));
    }
    // Its connection is never closed, as after a kill.
    std::mem::forget(killed);
    let history = open();
    let all = asked(BEGUN - 600_000, BEGUN + 1_200_000, 100);
    history.record(&taken(BEGUN + 300_000, 6.0));
    let accepted =
        |history: &History| rows(history, &all).into_iter().map(|row| (row.0, row.1)).collect::<Vec<_>>();
    assert_eq!(accepted(&history), [(0, json!(2)), (60_000, json!(4))], "the seconds are pruned");
    history.record(&taken(BEGUN + 360_000, 6.0));
    history.record(&taken(BEGUN + 660_001, 6.0));
    assert_eq!(accepted(&history), [(300_000, json!(6)), (360_000, json!(6))], "and so are old minutes");
    assert_eq!(dir.path().join(FILE_NAME).metadata().unwrap().permissions().mode() & 0o777, 0o600);
}

#[test]
fn a_clock_that_is_set_back_or_was_far_ahead_breaks_nothing() {
    let history = bounded(IN_FILE);
    for (at_ms, accepted) in [(5_000, 1.0), (6_000, 2.0), (5_000, 3.0), (5_000, 4.0), (-90_000, 5.0)] {
        history.record(&Taken { stock: vec![left(5)], ..taken(BEGUN + at_ms, accepted) });
    }
    let all = asked(BEGUN - 100_000, BEGUN + 100_000, 1_000);
    let expected =
        [(-90_000, json!(5), Value::Null), (5_000, json!(4), json!(5)), (6_000, json!(2), json!(5))];
    assert_eq!(rows(&history, &all), expected);
    history.record(&taken(BEGUN + 40 * DAY_MS, 6.0));
    history.record(&taken(BEGUN + 60_000, 7.0));
    let newest = asked(BEGUN + 30_000, BEGUN + 50 * DAY_MS, 4_000);
    assert!(read(&history, &newest)["rows"].as_array().unwrap().len() <= 1, "the future is gone");
}

#[test]
fn stock_is_kept_when_it_changes_and_within_its_bound() {
    let history = bounded(Bounds { stock_rows: 10, ..IN_FILE });
    let kept = || {
        let store = history.lock();
        let count = "SELECT count(*) FROM stock";
        store.as_ref().unwrap().connection.query_row(count, [], |row| row.get::<_, i64>(0)).unwrap()
    };
    for second in 0..30 {
        history.record(&Taken { stock: vec![left(7)], ..taken(BEGUN + second * 1_000, 0.0) });
    }
    assert_eq!(kept(), 1);
    for second in 30..60 {
        history.record(&Taken { stock: vec![left(second % 7)], ..taken(BEGUN + second * 1_000, 0.0) });
    }
    assert_eq!(kept(), 31);
    history.record(&taken(BEGUN + 60_000, 0.0));
    assert_eq!(kept(), 10);
}

#[test]
fn a_file_that_is_full_or_broken_or_of_another_format_ends_the_history_alone() {
    let full = bounded(Bounds { bytes: 16 * 4096, ..IN_FILE });
    let all = asked(BEGUN, BEGUN + 86_400_000, 10);
    let mut second = 0;
    while full.read(&all).is_ok() {
        full.record(&taken(BEGUN + second * 1_000, 1.0));
        second += 1;
        assert!(second < 10_000, "it has a bound");
    }
    assert!(second > 100, "{second}");
    full.record(&taken(BEGUN, 1.0));

    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(FILE_NAME);
    let garbage = [7_u8; 5_000];
    std::fs::write(&path, garbage).unwrap();
    let broken = History::open(Some(dir.path()));
    broken.record(&taken(BEGUN, 1.0));
    assert!(broken.read(&all).is_err());
    assert_eq!(std::fs::read(&path).unwrap(), garbage, "it is left as it is");

    std::fs::remove_file(&path).unwrap();
    drop(History::open(Some(dir.path())));
    rusqlite::Connection::open(&path)
        .unwrap()
        .pragma_update(None, "user_version", store::FORMAT + 1)
        .unwrap();
    assert!(History::open(Some(dir.path())).read(&all).is_err());
    assert!(History::open(Some(&path)).read(&all).is_err(), "no directory");
    assert!(History::open(None).read(&all).is_ok(), "in memory");
}

#[test]
fn a_directory_is_one_servers_and_another_remembers_until_its_end() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path().join("made/figures");
    let all = asked(BEGUN, BEGUN + 60_000, 60);
    let times = |history: &History| rows(history, &all).into_iter().map(|row| row.0).collect::<Vec<_>>();
    let (first, second) = (History::open(Some(&dir)), History::open(Some(&dir)));
    first.record(&taken(BEGUN, 1.0));
    second.record(&taken(BEGUN + 1_000, 1.0));
    assert_eq!((times(&first), times(&second)), (vec![0], vec![1_000]));
    drop(first);
    assert_eq!(times(&History::open(Some(&dir))), [0], "its own are there, and the other's are not");
    assert_eq!(dir.metadata().unwrap().permissions().mode() & 0o777, 0o700);
}

#[test]
fn what_room_the_disk_has_left_is_the_ledgers() {
    let history = bounded(IN_FILE);
    let (sender, taken_all) = sync_channel(10);
    for (second, free) in [(0, DISK_FREE_BYTES_MIN), (1, DISK_FREE_BYTES_MIN - 1), (2, DISK_FREE_BYTES_MIN)] {
        hand_over(&sender, Taken { disk_free_bytes: Some(free), ..taken(BEGUN + second * 1_000, 1.0) });
    }
    drop(sender);
    history.record_all(&taken_all);
    let times = |history: &History| {
        let found = rows(history, &asked(BEGUN, BEGUN + 60_000, 60));
        found.into_iter().map(|row| row.0).collect::<Vec<_>>()
    };
    assert_eq!(times(&history), [0, 1_000, 2_000], "it was written when there was room");
    let dir = tempfile::tempdir().unwrap();
    let disk = Disk { free_bytes: DISK_FREE_BYTES_MIN - 1, bytes: u64::MAX };
    let history = History::open_on(Some(dir.path()), Some(disk));
    history.record(&taken(BEGUN, 1.0));
    assert_eq!(times(&history), [0], "in memory");
    assert!(!dir.path().join(FILE_NAME).exists());
    // More wait than there is room for, and nobody waits for that.
    let (full, _waits) = sync_channel(1);
    for second in 0..3 {
        hand_over(&full, taken(BEGUN + second, 1.0));
    }
}

/// While the disk had no room, the charts of the night stood still.
#[test]
fn what_has_no_room_on_the_disk_is_read_from_memory_and_written_later() {
    let history = bounded(IN_FILE);
    let all = asked(BEGUN, BEGUN + 60_000, 60);
    let at =
        |second: i64| Taken { stock: vec![left(9 - second)], ..taken(BEGUN + second * 1_000, second as f64) };
    history.record(&at(0));
    (1..=2).for_each(|second| history.remember(&at(second)));
    let row = |second: i64| (second * 1_000, json!(second), json!(9 - second));
    assert_eq!(rows(&history, &all), [row(0), row(1), row(2)]);
    history.record(&at(3));
    assert_eq!(rows(&history, &all), [row(0), row(1), row(2), row(3)]);
    assert!(history.aside().is_none());
}

/// Under load a look comes after seconds; its rates were counted as those of one.
#[test]
fn a_look_that_came_late_is_of_all_seconds_since_the_one_before() {
    let history = bounded(IN_FILE);
    for (at_ms, passed_ms) in [(57_000, 1_000), (58_100, 1_100), (62_000, 3_900), (63_000, 1_000)] {
        history.record(&Taken { passed_ms, ..taken(BEGUN + at_ms, 10.0) });
    }
    history.record(&Taken { passed_ms: i64::MAX, ..taken(BEGUN + 600_000, 0.0) });
    let count = |from_ms: i64, to_ms: i64| rows(&history, &asked(BEGUN + from_ms, BEGUN + to_ms, 600)).len();
    assert_eq!(count(0, 64_000), 7, "57 to 63");
    assert_eq!(count(64_000, 601_000), 1 + usize::try_from(LATE_S_MAX).unwrap());
}

#[test]
fn an_incident_lasts_while_the_verdict_is_not_green_and_goes_on_if_it_is_so_again_soon() {
    let history = bounded(IN_FILE);
    for (at_ms, level, code) in [
        (0, Level::Green, "selling"),
        (1_000, Level::Amber, "busy"),
        (2_000, Level::Amber, "busy"),
        (3_000, Level::Red, "full"),
        (4_000, Level::Red, "full"),
        (5_000, Level::Green, "selling"),
        (6_000, Level::Green, "sold_out"),
        (64_000, Level::Red, "full"),
        (65_000, Level::Green, "selling"),
        (200_000, Level::Red, "full"),
        (201_000, Level::Red, "stopping"),
    ] {
        history.record(&judged(at_ms, level, code));
    }
    let expected = [
        incident(1_000, Some(3_000), "amber", "busy"),
        incident(3_000, Some(65_000), "red", "full"),
        incident(200_000, Some(201_000), "red", "full"),
        incident(201_000, None, "red", "stopping"),
    ];
    assert_eq!(incidents(&history, &asked(BEGUN, BEGUN + 300_000, 1)), expected);
    assert_eq!(
        incidents(&history, &asked(BEGUN + 65_000, BEGUN + 200_000, 1)),
        expected[1..2],
        "in that time"
    );
    // A clock that was set back ends what goes on, and nothing ends before it began.
    history.record(&judged(-90_000, Level::Green, "selling"));
    let newest = incidents(&history, &asked(BEGUN + 201_000, BEGUN + 300_000, 1)).pop();
    assert_eq!(newest, Some(incident(201_000, Some(201_000), "red", "stopping")));
}

#[test]
fn a_red_that_a_kill_cut_ended_with_the_last_second_and_one_that_was_stopped_too() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(FILE_NAME);
    let open = || over(Store::open(&path, IN_FILE).unwrap());
    let all = asked(BEGUN, BEGUN + 900_000, 10);
    let killed = open();
    killed.record(&judged(1_000, Level::Red, "full"));
    killed.record(&judged(2_000, Level::Red, "full"));
    assert_eq!(incidents(&killed, &all), [incident(1_000, None, "red", "full")]);
    std::mem::forget(killed);
    let history = open();
    history.record(&judged(3_000, Level::Red, "full"));
    history.record(&judged(4_000, Level::Green, "selling"));
    let cut = [
        incident(1_000, Some(2_000), "red", "full"),
        incident(3_000, Some(3_000), "amber", "restarted"),
        incident(3_000, Some(4_000), "red", "full"),
    ];
    assert_eq!(incidents(&history, &all), cut, "what goes on after a start is another one");
    let (sender, taken_all) = sync_channel(10);
    for (at_ms, free) in
        [(100_000, u64::MAX), (200_000, 0), (300_000, 0), (400_000, u64::MAX), (401_000, u64::MAX)]
    {
        let (level, code) = match at_ms {
            200_000 => (Level::Red, "disk_full_soon"),
            401_000 => (Level::Amber, "busy"),
            _ => (Level::Green, "selling"),
        };
        hand_over(&sender, Taken { disk_free_bytes: Some(free), ..judged(at_ms, level, code) });
    }
    drop(sender);
    history.record_all(&taken_all);
    let expected = [
        cut[0].clone(),
        cut[1].clone(),
        cut[2].clone(),
        incident(200_000, Some(300_000), "red", "disk_full_soon"),
        incident(401_000, Some(401_000), "amber", "busy"),
    ];
    assert_eq!(incidents(&history, &all), expected, "what had no room was written when there was some");
}

#[test]
fn incidents_are_the_newest_and_an_answer_has_fewer() {
    let history = bounded(IN_FILE);
    let count = incidents::INCIDENTS_MAX + 5;
    let mut store = history.lock();
    let store_open = store.as_mut().unwrap();
    let changes = &mut Changes::begin(&store_open.connection).unwrap();
    for number in 0..count {
        let code = if number % 2 == 0 { "one" } else { "other" };
        changes.note(BEGUN + number * 60_001, &judged(0, Level::Red, code).judged);
        changes.write(&store_open.connection).unwrap();
    }
    let kept = store_open.connection.query_row("SELECT count(*), min(began_ms) FROM incidents", [], |row| {
        Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?))
    });
    assert_eq!(kept.unwrap(), (incidents::INCIDENTS_MAX, BEGUN + 5 * 60_001));
    drop(store);
    let shown = incidents(&history, &asked(BEGUN, BEGUN + count * 60_001, 1));
    assert_eq!((shown.len(), shown[99].0), (100, (count - 1) * 60_001));
}

#[test]
fn refusals_are_added_by_the_minute_and_stay_when_the_seconds_go() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(FILE_NAME);
    let history = over(Store::open(&path, Bounds { seconds_ms: 60_000, ..IN_FILE }).unwrap());
    for second in 0..200 {
        let refused = vec![
            refused(3, Some(30), "sold_out", 2.5),
            refused(3, None, "sold_out", 1.0),
            refused(4, Some(30), "paused", 9.0),
        ];
        let refused = if second % 60 < 10 { refused } else { Vec::new() };
        history.record(&Taken { refused, ..taken(BEGUN + second * 1_000 + 500, 0.0) });
    }
    let refused = |points| read(&history, &asked(BEGUN + 500, BEGUN + 600_000, points))["refused"].clone();
    let row = |at_ms: i64, orders: u64| json!({ "at_ms": BEGUN + at_ms, "orders": { "sold_out": orders } });
    let minutes = [0, 60_000, 120_000, 180_000].map(|at_ms| row(at_ms, 25));
    assert_eq!(refused(600), json!({ "step_ms": 60_000, "rows": minutes }));
    assert_eq!(refused(2), json!({ "step_ms": 120_000, "rows": [row(0, 50), row(120_000, 50)] }));
    let begun = u64::try_from(BEGUN).unwrap();
    let sold = |sale, minutes: u64| Sold { sale, time: (begun, begun + minutes * 60_000), paid_until_ms: 0 };
    let kept = Kept::read(dir.path(), &sold(3, 2)).unwrap();
    let orders: Vec<_> = kept.refused_rows.iter().flatten().map(|row| row.orders["sold_out"]).collect();
    assert_eq!((kept.refused_row_s, orders), (60, vec![35, 35]), "of all its items");
    assert_eq!(Kept::read(dir.path(), &sold(5, 2)).unwrap().refused_rows, Some(Vec::new()));
}

#[test]
fn a_sale_has_its_own_orders_and_times_and_a_start_is_an_incident() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(FILE_NAME);
    let orders = |sale, orders, ms: u64| {
        let latencies = Latencies::default();
        latencies.observe(Duration::from_millis(ms));
        SaleOrders { sale, orders, took: latencies.counts() }
    };
    let killed = over(Store::open(&path, Bounds { seconds_ms: 60_000, ..IN_FILE }).unwrap());
    for second in 0..120 {
        let slow = if second == 70 { 900 } else { 2 };
        let sales =
            vec![orders(3, [2.5, 0.0, 1.0, 0.5, 0.0], slow), orders(4, [1.0, 1.0, 1.0, 1.0, 1.0], 5_000)];
        killed.record(&Taken { sales, ..taken(BEGUN + second * 1_000, 1.0) });
    }
    std::mem::forget(killed);
    let history = over(Store::open(&path, IN_FILE).unwrap());
    let at_ms = 130_400;
    history.record(&Taken { sales: vec![orders(3, [1.0; 5], 2)], ..taken(BEGUN + at_ms, 1.0) });
    history.record(&taken(BEGUN + at_ms + 1_000, 1.0));
    let begun = BEGUN.unsigned_abs();
    let kept = |sale, minutes: u64| {
        let time = (begun + 500, begun + minutes * 60_000);
        Kept::read(dir.path(), &Sold { sale, time, paid_until_ms: time.1 }).unwrap()
    };
    let sale = kept(3, 2).sale.unwrap();
    assert_eq!((sale.minutes, sale.accepted, sale.refused, sale.busy, sale.unknown), (2, 300, 120, 60, 0));
    let (p50, p99) = (sale.order_p50_ms.unwrap(), sale.order_p99_ms.unwrap());
    assert!(
        (2.0..2.3).contains(&p50) && (2.0..2.3).contains(&p99),
        "of all 120, not the worst second: {p99}"
    );
    assert_eq!(kept(3, 3).sale.unwrap().accepted, 301, "after the start it goes on");
    assert_eq!(kept(5, 3).sale, Some(SaleKept::default()));
    let restarted = kept(3, 3).incidents.unwrap();
    let found: Vec<_> =
        restarted.iter().map(|it| (it.began_ms - BEGUN, it.ended_ms.unwrap() - BEGUN)).collect();
    assert_eq!(found, [(120_000, at_ms)]);
    let Incident { level, code, says, .. } = &restarted[0];
    let says_that = "The server was started again. Nothing is known of the 10 s before.";
    assert_eq!((&**level, &**code, &**says), ("amber", "restarted", says_that));
}

#[test]
fn the_rows_of_sales_have_a_bound() {
    let history = bounded(IN_FILE);
    history.record(&taken(BEGUN, 1.0));
    {
        let store = history.lock();
        let connection = &store.as_ref().unwrap().connection;
        let row = "INSERT INTO sales SELECT ?1, ?2, 3, 0, 0, 0, 0, 0, '[]'";
        for number in [1, 2, sales::ROWS_MAX + 1] {
            connection.execute(row, [number, BEGUN - number]).unwrap();
        }
        connection.execute(row, [3, BEGUN - 400 * DAY_MS]).unwrap();
    }
    history.record(&taken(BEGUN + 60_000, 1.0));
    let store = history.lock();
    let left = "SELECT group_concat(number) FROM (SELECT number FROM sales ORDER BY number)";
    let left: String = store.as_ref().unwrap().connection.query_row(left, [], |row| row.get(0)).unwrap();
    assert_eq!(left, format!("2,{}", sales::ROWS_MAX + 1));
}

#[test]
fn the_refusals_of_a_minute_have_a_bound() {
    let history = bounded(IN_FILE);
    let items = (0..300).map(|product| refused(3, Some(product), "sold_out", 1.0));
    let sales = (0..600).map(|sale| refused(sale, None, "paused", 1.0));
    let all: Vec<_> = items.chain(sales).collect();
    for second in 0..2 {
        history.record(&Taken { refused: all.clone(), ..taken(BEGUN + second * 1_000, 0.0) });
    }
    let store = history.lock();
    let count = |which: &str| {
        let count = format!("SELECT count(*), total(orders) FROM refusals WHERE {which}");
        let connection = &store.as_ref().unwrap().connection;
        connection.query_row(&count, [], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, f64>(1)?))).unwrap()
    };
    assert_eq!(count("product >= 0"), (ITEM_ROWS_PER_MINUTE_MAX, 400.0));
    assert_eq!(count("sale = 3 AND code = 'sold_out'").1, 600.0, "what is of too many items is of the sale");
    assert_eq!(count("true").0, ROWS_PER_MINUTE_MAX);
}

#[test]
fn what_happened_before_a_start_is_there_after_it() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(FILE_NAME);
    let event =
        |at_ms, kind| EventFigures {
            at_ms, kind, says: "It “is”.".to_owned(), sale: Some(3), product: None
        };
    let killed = over(Store::open(&path, IN_FILE).unwrap());
    let events: Arc<[_]> = [event(2, Kind::SoldOut), event(1, Kind::SaleOpened)].into();
    killed.record(&Taken { events: [event(1, Kind::SaleOpened)].into(), ..taken(BEGUN, 1.0) });
    killed.record(&Taken { events: Arc::clone(&events), ..taken(BEGUN + 1_000, 1.0) });
    std::mem::forget(killed);
    assert_eq!(over(Store::open(&path, IN_FILE).unwrap()).events(), *events);
    let connection = rusqlite::Connection::open(&path).unwrap();
    connection.execute("INSERT INTO events (event) VALUES ('{\"kind\":\"of_later\"}')", []).unwrap();
    assert_eq!(History::open(Some(dir.path())).events(), *events, "what is not known is passed over");
    assert_eq!(History::open(None).events(), []);
}

#[test]
fn a_file_of_the_first_format_keeps_its_rows() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(FILE_NAME);
    let old = over(Store::open(&path, IN_FILE).unwrap());
    old.record(&Taken { stock: vec![left(5)], ..taken(BEGUN, 2.0) });
    let downgrade = heard::WITHOUT.to_owned()
        + "ALTER TABLE stock DROP COLUMN turns; DROP TABLE refusals; DROP TABLE incidents; DROP TABLE events; DROP TABLE sales; PRAGMA user_version = 1;";
    old.lock().as_ref().unwrap().connection.execute_batch(&downgrade).unwrap();
    drop(old);
    let begun = u64::try_from(BEGUN).unwrap();
    let sold = Sold { sale: 3, time: (begun, begun + 60_000), paid_until_ms: begun + 60_000 };
    let kept = Kept::read(dir.path(), &sold).unwrap();
    assert_eq!((kept.accepted, &kept.incidents, &kept.refused_rows), (2, &None, &None), "without a server");
    let history = History::open(Some(dir.path()));
    history.record(&judged(1_000, Level::Red, "full"));
    let all = asked(BEGUN, BEGUN + 60_000, 60);
    assert_eq!(rows(&history, &all), [(0, json!(2), json!(5)), (1_000, json!(1), json!(5))]);
    assert_eq!(incidents(&history, &all).len(), 2, "it was started again, too");
    assert_eq!(Kept::read(dir.path(), &sold).unwrap().incidents.map(|found| found.len()), Some(2));
}
