//! What is said of a time that is over.

use super::*;

#[test]
fn a_time_that_is_over_is_summed_up_as_far_as_it_was_kept() {
    let dir = tempfile::tempdir().unwrap();
    let unsigned = |ms: i64| u64::try_from(ms).unwrap();
    let kept = |from, to| {
        let time = (unsigned(BEGUN + from), unsigned(BEGUN + to));
        Kept::read(dir.path(), &Sold { sale: 3, time, paid_until_ms: time.1 + 60_000 })
    };
    assert!(matches!(kept(0, 1_000), Err(NotKept::Missing(_))), "and none is made");
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

/// On a busy machine looks come early and late: their rates are of other times than a second.
#[test]
fn orders_are_of_the_time_that_each_rate_is_of() {
    let dir = tempfile::tempdir().unwrap();
    let history = over(Store::open(&dir.path().join(FILE_NAME), IN_FILE).unwrap());
    history.record(&taken(BEGUN - 1_000, 0.0));
    let mut accepted = 0;
    // After each of these times so many orders a second; a look that is 2.6 s late is three rows.
    let mut at_ms = BEGUN - 1_000;
    for (passed_ms, orders) in [(1_000, 10), (1_400, 50), (600, 100), (2_600, 20), (400, 300), (1_000, 0)] {
        at_ms += passed_ms;
        accepted += orders * passed_ms.unsigned_abs() / 1_000;
        history.record(&Taken { passed_ms, ..taken(at_ms, orders as f64) });
    }
    let kept = |from_ms: i64| {
        let time = ((BEGUN + from_ms).unsigned_abs(), (BEGUN + 30_000).unsigned_abs());
        Kept::read(dir.path(), &Sold { sale: 3, time, paid_until_ms: time.1 }).unwrap()
    };
    assert_eq!(accepted, 10 + 70 + 60 + 52 + 120);
    assert_eq!(kept(0).accepted, accepted);
    // Of a time without rows nothing is known: the first after it is of one second.
    history.record(&taken(BEGUN + 20_000, 7.0));
    assert_eq!((kept(0).accepted, kept(20_000).accepted), (accepted + 7, 7));
}

/// The report at the console is read by the server that keeps the history.
#[test]
fn a_server_reads_what_it_has_kept_on_disk_or_in_memory() {
    let dir = tempfile::tempdir().unwrap();
    let time = (BEGUN.unsigned_abs(), (BEGUN + 20_000).unsigned_abs());
    let sold = Sold { sale: 3, time, paid_until_ms: time.1 };
    for dir in [Some(dir.path()), None] {
        let history = History::open(dir);
        assert!(matches!(history.kept(&sold), Err(NotKept::NotThen)), "{dir:?}");
        for second in 0..20 {
            let refused = vec![refused(3, Some(30), "sold_out", 2.0)];
            history.record(&Taken { refused, ..taken(BEGUN + second * 1_000, 2.0) });
        }
        let kept = history.kept(&sold).unwrap();
        assert_eq!((kept.row_s, kept.rows, kept.accepted), (1, 20, 40), "{dir:?}");
        assert!(kept.refused_rows.unwrap()[0].orders.contains_key("sold_out"), "{dir:?}");
    }
}
