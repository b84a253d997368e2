use ::bench::report::model::{Case, ScenarioReport};

use super::*;

#[test]
fn times_have_a_unit() {
    assert_eq!(time("50ms"), Ok(Duration::from_millis(50)));
    assert_eq!(time("1.5s"), Ok(Duration::from_millis(1500)));
    assert_eq!(time("250us"), Ok(Duration::from_micros(250)));
    for wrong in ["50", "0ms", "-1s", "1h", "ms", "", "1e400s"] {
        assert!(time(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn an_early_end_keeps_what_was_measured_but_for_a_broken_audit() {
    let folder = tempfile::tempdir().unwrap();
    let common = CommonArguments {
        quick: true,
        out: folder.path().to_owned(),
        place: PlaceArguments::default(),
        thresholds: ThresholdArguments::default(),
    };
    let ends = |measured: Option<ScenarioReport>, error: &str, stopped: bool| {
        let report = Report { scenarios: measured.into_iter().collect(), ..common.report(1, true) };
        let folder = Folder::open(&common.out).unwrap();
        let begun = Begun { at: Instant::now(), folder };
        common.give_up(report, begun, "peak", error, &AtomicBool::new(stopped)).unwrap_err()
    };
    let kept = folder.path().join("report.json");
    let some = || Some(ScenarioReport { cases: vec![Case::default()], ..ScenarioReport::default() });
    for stopped in [true, false] {
        assert!(matches!(ends(some(), "orders: AUDIT FAILED: 3 lost", stopped), Failure::Check(_)));
    }
    assert!(matches!(ends(None, "redis-server: not found", false), Failure::Unavailable(_)));
    assert!(matches!(ends(None, "connecting: stopped by a signal", true), Failure::Check(_)));
    assert!(!kept.exists());
    for (error, stopped) in [("redis: it died", false), ("connecting: stopped by a signal", true)] {
        let failure = ends(some(), error, stopped);
        assert_eq!(matches!(failure, Failure::Check(_)), stopped);
        assert_eq!(matches!(failure, Failure::Unavailable(_)), !stopped);
        let report = json::read(&kept).unwrap();
        assert!(!report.complete && report.has_cases());
        assert_eq!(report.failures[0].error, error);
    }
}
