use ::bench::report::model::{Distribution, Limiter, PeakPoint};

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

fn peak(highest_passed: Option<f64>, lowest_failed: Option<f64>, limiter: &str) -> PeakReport {
    PeakReport {
        target: "embedded".to_owned(),
        p99_limit_us: 50_000,
        errors_limit: 0.001,
        highest_passed,
        lowest_failed,
        closed_loop_max: Some(9000.0),
        generator_ceiling: 8750.0,
        idle_noise_us: Distribution::default(),
        curve: Vec::new(),
        confirmed: highest_passed.is_some(),
        overload: None,
        admission: None,
        audit: None,
        limiter: Some(Limiter { what: limiter.to_owned(), evidence: Vec::new() }),
        notes: Vec::new(),
    }
}

#[test]
fn a_peak_that_only_the_generator_limits_is_none() {
    assert!(verdict(&peak(Some(7000.0), Some(7300.0), "processor")).is_ok());
    let Err(Failure::Invalid(said)) = verdict(&peak(Some(7000.0), None, peak::GENERATOR)) else {
        panic!("it is no peak")
    };
    assert!(said.contains("load generator is the limit") && said.contains("at least 7000/s"), "{said}");
    assert!(matches!(verdict(&peak(Some(7000.0), None, "")), Err(Failure::Invalid(_))));
    let unconfirmed = PeakReport { confirmed: false, ..peak(Some(7000.0), Some(7300.0), "") };
    assert!(matches!(verdict(&unconfirmed), Err(Failure::Invalid(_))));
    assert!(matches!(verdict(&peak(None, None, peak::GENERATOR)), Err(Failure::Invalid(_))));
    let at = |rate, verdict| PeakPoint { rate, phase: "bracket".to_owned(), verdict, trials: Vec::new() };
    let point = |verdict| at(9.0, verdict);
    let curve = vec![at(5.0, Verdict::Invalid), point(Verdict::Fail)];
    let spoiled = PeakReport { curve, ..peak(None, Some(9.0), "") };
    assert!(matches!(verdict(&spoiled), Err(Failure::Invalid(_))), "5/s might have passed");
    let curve = vec![point(Verdict::Fail)];
    let nothing = PeakReport { curve, ..peak(None, Some(9.0), "") };
    assert!(matches!(verdict(&nothing), Err(Failure::Check(_))));
    let curve = vec![point(Verdict::Pass), point(Verdict::Fail)];
    assert!(matches!(verdict(&PeakReport { curve, ..nothing }), Err(Failure::Invalid(_))), "it passed once");
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
    let ends = |measured: Option<PeakReport>, error: &str, stopped: bool| {
        let report = Report { peak: measured, ..common.report(1, true) };
        let folder = Folder::open(&common.out).unwrap();
        let begun = Begun { at: Instant::now(), folder };
        common.give_up(report, begun, "peak", error, &AtomicBool::new(stopped)).unwrap_err()
    };
    let kept = folder.path().join("report.json");
    let some = || Some(peak(None, None, ""));
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
        assert!(!report.complete && report.peak.is_some());
        assert_eq!(report.failures[0].error, error);
    }
}
