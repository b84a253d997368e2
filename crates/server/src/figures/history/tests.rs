//! The history with rows that a test makes: what is read of them, and what ends it.

use std::os::unix::fs::PermissionsExt as _;
use std::sync::mpsc::sync_channel;

use serde_json::{Value, json};

use super::*;

/// The beginning of a minute.
const BEGUN: i64 = 1_796_119_200_000;

fn taken(at_ms: i64, accepted: f64) -> Taken {
    let mut values = [Some(0.0); COLUMNS.len()];
    values[1] = Some(accepted);
    values[8] = None;
    Taken { at_ms, values, stock: Vec::new(), disk_free_bytes: None }
}

fn left(available: i64) -> Left {
    Left { sale: 3, product: 30, available, held: 1, sold: 10 - available }
}

fn asked(from_ms: i64, to_ms: i64, points: u64) -> Asked {
    let unsigned = |ms: i64| u64::try_from(ms).unwrap();
    Asked::new((unsigned(from_ms), unsigned(to_ms)), points, Some((3, 30)))
}

fn read(history: &History, asked: &Asked) -> Value {
    serde_json::from_slice(&history.read(asked).unwrap().to_json()).unwrap()
}

/// Time and accepted orders of each row, and what was available.
fn rows(history: &History, asked: &Asked) -> Vec<(i64, Value, Value)> {
    let points = read(history, asked);
    let rows = points["rows"].as_array().unwrap();
    rows.iter().map(|row| (row[0].as_i64().unwrap() - BEGUN, row[2].clone(), row[16].clone())).collect()
}

fn over(store: Store) -> History {
    History { store: Mutex::new(Some(store)), _lock: None }
}

fn bounded(bounds: Bounds) -> History {
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
    let csv = String::from_utf8(history.read(&asked(BEGUN, BEGUN + 1_000, 10)).unwrap().to_csv()).unwrap();
    let names = "at_ms,received,accepted,replayed,refused,busy,unknown,requests,order_p50_ms,order_p99_ms,commit_p99_ms,\
                 processors_busy,in_flight,connections,memory_bytes,disk_free_bytes,available,held,sold\n";
    assert_eq!(csv, format!("{names}{BEGUN},0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,9,1,1\n"));
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
    assert_eq!((&rows[0][9], &rows[0][16]), (&Value::Null, &Value::Null), "no order, and no such item");
    let csv = history.read(&asked(BEGUN, BEGUN + 1_000, 10)).unwrap().to_csv();
    assert!(String::from_utf8(csv).unwrap().ends_with(",0,,0,0,0,0,0,0,,,\n"));
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
fn a_time_that_is_over_is_summed_up_as_far_as_it_was_kept() {
    let dir = tempfile::tempdir().unwrap();
    let unsigned = |ms: i64| u64::try_from(ms).unwrap();
    let kept = |from, to| Kept::read(dir.path(), (unsigned(BEGUN + from), unsigned(BEGUN + to)));
    assert!(matches!(kept(0, 1_000), Err(NotKept::Missing)), "and none is made");
    assert!(!dir.path().join(FILE_NAME).exists());
    let bounds = Bounds { seconds_ms: 120_000, minutes_ms: 6_000_000, ..IN_FILE };
    let history = over(Store::open(&dir.path().join(FILE_NAME), bounds).unwrap());
    for second in (0..90).filter(|second| *second != 7) {
        let mut taken = taken(BEGUN + second * 1_000 + 3, 2.0);
        (taken.values[3], taken.values[7], taken.values[8]) = (Some(1.5), Some(4.0), Some(second as f64));
        history.record(&taken);
    }
    // Beside the server that has the file open.
    let seconds = kept(0, 20_000).unwrap();
    assert_eq!((seconds.row_s, seconds.rows, seconds.rows_expected), (1, 19, 20), "one is missing");
    assert_eq!((seconds.accepted, seconds.refused, seconds.busy), (38, 29, 0));
    assert_eq!((seconds.order_p50_ms, seconds.order_p99_ms), (Some(4.0), Some(19.0)));
    history.record(&taken(BEGUN + 300_000, 0.0));
    let minutes = kept(0, 120_000).unwrap();
    assert_eq!((minutes.row_s, minutes.rows, minutes.rows_expected), (60, 2, 2));
    assert_eq!((minutes.accepted, minutes.order_p99_ms), (240, Some(89.0)));
    assert!(matches!(kept(-500_000, -400_000), Err(NotKept::NotThen)));
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
    rusqlite::Connection::open(&path).unwrap().pragma_update(None, "user_version", 2).unwrap();
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
    let found: Vec<_> =
        rows(&history, &asked(BEGUN, BEGUN + 60_000, 60)).into_iter().map(|row| row.0).collect();
    assert_eq!(found, [0, 2_000]);
    let dir = tempfile::tempdir().unwrap();
    let disk = Disk { free_bytes: DISK_FREE_BYTES_MIN - 1, bytes: u64::MAX };
    assert!(History::open_on(Some(dir.path()), Some(disk)).read(&asked(0, BEGUN, 1)).is_err());
    assert!(!dir.path().join(FILE_NAME).exists());
    // More wait than there is room for, and nobody waits for that.
    let (full, _waits) = sync_channel(1);
    for second in 0..3 {
        hand_over(&full, taken(BEGUN + second, 1.0));
    }
}
