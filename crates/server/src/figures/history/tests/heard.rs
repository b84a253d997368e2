//! How many servers a row is the sum of, from the second to the report.

use super::*;
use crate::figures::history::export::Export;

/// What makes a file one of before.
pub(super) const WITHOUT: &str = "ALTER TABLE seconds DROP COLUMN servers_heard; ALTER TABLE seconds DROP COLUMN servers_known; \
     ALTER TABLE minutes DROP COLUMN servers_heard; ALTER TABLE minutes DROP COLUMN servers_known; PRAGMA user_version = 4;";

/// A second of which so many servers were heard, of so many.
fn of_servers(second: i64, heard: u32, known: u32) -> Taken {
    let mut taken = taken(BEGUN + second * 1_000, 2.0);
    (taken.values[15], taken.values[16]) = (Some(heard.into()), Some(known.into()));
    taken
}

/// Time, and of how many servers each row is, in steps.
fn of_how_many(history: &History, seconds: i64, points: u64) -> Vec<(i64, Value, Value)> {
    let points = read(history, &asked(BEGUN, BEGUN + seconds * 1_000, points));
    assert_eq!((&points["columns"][16], &points["columns"][17]), (&json!(HEARD), &json!(KNOWN)));
    let row = |row: &Value| ((row[0].as_i64().unwrap() - BEGUN) / 1_000, row[16].clone(), row[17].clone());
    points["rows"].as_array().unwrap().iter().map(row).collect()
}

fn csv(history: &History) -> Vec<Vec<String>> {
    let page = history.page(&Export::new((0, u64::MAX), None)).unwrap();
    let text = String::from_utf8(page.csv).unwrap();
    text.lines().map(|line| line.split(',').map(str::to_owned).collect()).collect()
}

fn kept(dir: &Path, seconds: u64) -> Kept {
    let begun = BEGUN.unsigned_abs();
    let time = (begun, begun + seconds * 1_000);
    Kept::read(dir, &Sold { sale: 3, time, paid_until_ms: time.1 }).unwrap()
}

/// Sums of half the servers stood as if they were of all.
#[test]
fn a_row_says_of_how_many_servers_it_is() {
    for (what, seconds, step) in [
        ("all were heard", &[(3, 3), (3, 3)][..], (3, 3)),
        ("one was not", &[(3, 3), (2, 3)], (2, 3)),
        ("one joined", &[(2, 2), (3, 3)], (3, 3)),
        ("one joined after another was not heard", &[(1, 2), (3, 3)], (2, 3)),
        ("one left", &[(3, 3), (2, 2)], (3, 3)),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let history = over(Store::open(&dir.path().join(FILE_NAME), IN_FILE).unwrap());
        for (second, (heard, known)) in (0..).zip(seconds) {
            history.record(&of_servers(second, *heard, *known));
        }
        let each: Vec<_> =
            (0..).zip(seconds).map(|(at, (heard, known))| (at, json!(heard), json!(known))).collect();
        assert_eq!(of_how_many(&history, 2, 10), each, "{what}");
        let (heard, known) = step;
        assert_eq!(of_how_many(&history, 2, 1), [(0, json!(heard), json!(known))], "{what}");
        let rows = csv(&history);
        assert_eq!(rows[0][16..18], [HEARD, KNOWN], "{what}");
        for (row, (heard, known)) in rows[1..].iter().zip(seconds) {
            assert_eq!(row[16..18], [heard.to_string(), known.to_string()], "{what}");
        }
        let some = seconds.iter().filter(|(heard, known)| heard < known).count();
        assert_eq!(kept(dir.path(), 2).rows_some_heard, Some(some as u64), "{what}");
    }
}

#[test]
fn a_minute_in_which_a_server_was_missed_once_is_one_of_those() {
    let dir = tempfile::tempdir().unwrap();
    let bounds = Bounds { seconds_ms: 1_000, ..IN_FILE };
    let history = over(Store::open(&dir.path().join(FILE_NAME), bounds).unwrap());
    for second in 0..181 {
        history.record(&of_servers(second, if second == 70 { 1 } else { 2 }, 2));
    }
    let minutes = [(0, json!(2), json!(2)), (60, json!(1), json!(2)), (120, json!(2), json!(2))];
    assert_eq!(of_how_many(&history, 180, 3), minutes);
    let kept = kept(dir.path(), 180);
    assert_eq!((kept.row_s, kept.rows, kept.rows_some_heard), (60, 3, Some(1)));
}

#[test]
fn a_file_of_before_is_read_without_and_goes_on_with_it() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(FILE_NAME);
    let old = over(Store::open(&path, IN_FILE).unwrap());
    old.record(&taken(BEGUN, 2.0));
    old.record(&taken(BEGUN + 59_000, 2.0));
    old.record(&taken(BEGUN + 60_000, 2.0));
    old.lock().as_ref().unwrap().connection.execute_batch(WITHOUT).unwrap();
    drop(old);
    let kept_then = kept(dir.path(), 61);
    assert_eq!(
        (kept_then.rows, kept_then.accepted, kept_then.rows_some_heard),
        (3, 6, None),
        "without a server"
    );
    let history = History::open(Some(dir.path()));
    assert_eq!(kept(dir.path(), 61).rows_some_heard, None, "none of its rows says so");
    history.record(&of_servers(61, 1, 2));
    history.record(&of_servers(120, 2, 2));
    let unknown = |second| (second, Value::Null, Value::Null);
    let known = [unknown(0), unknown(59), unknown(60), (61, json!(1), json!(2)), (120, json!(2), json!(2))];
    assert_eq!(of_how_many(&history, 130, 1_000), known);
    let rows = csv(&history);
    assert_eq!((&*rows[1][16], &*rows[1][17], &*rows[4][16], &*rows[4][17]), ("", "", "1", "2"));
    assert_eq!(of_how_many(&history, 180, 3)[1], (60, json!(1), json!(2)), "of what is known");
    assert_eq!(kept(dir.path(), 130).rows_some_heard, Some(1));
    drop(history);
    assert_eq!(of_how_many(&History::open(Some(dir.path())), 130, 1_000), known, "it is of the new format");
}

/// While the disk is full.
#[test]
fn what_is_in_memory_for_a_while_says_it_too() {
    let history = bounded(IN_FILE);
    history.record(&of_servers(0, 2, 2));
    history.remember(&of_servers(1, 1, 2));
    let expected = [(0, json!(2), json!(2)), (1, json!(1), json!(2)), (2, json!(2), json!(2))];
    assert_eq!(of_how_many(&history, 3, 10), expected[..2]);
    history.record(&of_servers(2, 2, 2));
    assert_eq!(of_how_many(&history, 3, 10), expected);
}

/// From, to and code of what was not well.
fn times(history: &History) -> Vec<(i64, i64, String)> {
    let points = read(history, &asked(BEGUN, BEGUN + 600_000, 10));
    let since = |value: &Value| (value.as_i64().unwrap() - BEGUN) / 1_000;
    let incidents = points["incidents"].as_array().unwrap().iter();
    let time = |it: &Value| {
        (since(&it["began_ms"]), since(&it["ended_ms"]), it["code"].as_str().unwrap().to_owned())
    };
    incidents.map(time).collect()
}

/// A frozen server wrote what it did in its last second for each second in which it was frozen.
#[test]
fn of_the_time_in_which_the_server_stood_still_nothing_is_known() {
    let still = || Taken { passed_ms: 31_000, stood_still: true, ..of_servers(40, 1, 2) };
    let dir = tempfile::tempdir().unwrap();
    let history = over(Store::open(&dir.path().join(FILE_NAME), IN_FILE).unwrap());
    (0..10).for_each(|second| history.record(&of_servers(second, 2, 2)));
    // While the disk is full, too.
    history.remember(&still());
    let expected = [(10, 40, "stood_still".to_owned())];
    assert_eq!(times(&history), expected, "it is not written yet");
    history.record(&of_servers(41, 2, 2));
    assert_eq!(times(&history), expected, "it is written once");
    let of = |second| match second {
        10..40 => (second, json!(0), json!(2)),
        40 => (second, json!(1), json!(2)),
        _ => (second, json!(2), json!(2)),
    };
    assert_eq!(of_how_many(&history, 42, 100), (0..42).map(of).collect::<Vec<_>>());
    let rows = csv(&history);
    let incidents = rows[0].iter().position(|name| name == "incidents").unwrap();
    for (second, row) in (0..).zip(&rows[1..]) {
        let accepted = if (10..40).contains(&second) { "" } else { "2" };
        let code = if (10..=40).contains(&second) { "stood_still" } else { "" };
        assert_eq!((&*row[2], &*row[incidents]), (accepted, code), "{second}");
    }
    let kept = kept(dir.path(), 42);
    assert_eq!(
        (kept.rows, kept.accepted, kept.rows_some_heard, kept.rows_none_heard),
        (42, 24, Some(1), Some(30))
    );
    let folded = read(&history, &asked(BEGUN, BEGUN + 60_000, 1));
    assert_eq!(
        (&folded["rows"][0][2], &folded["rows"][0][16]),
        (&json!(0.57), &json!(0)),
        "24 orders in 42 s"
    );
}
