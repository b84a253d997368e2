use super::controller::Phase;
use super::trials::Measured;
use super::*;
use crate::host::limit::LOAD_GENERATOR;
use crate::load::Trial;
use crate::report::model::Verdict;

fn found(lowest_failed: Option<f64>, ending: Ending) -> Found {
    let outcome = Outcome {
        highest_passed: Some(7000.0),
        lowest_failed,
        closed_loop: Some(9000.0),
        confirmed: true,
        ending,
        recovered: Some(true),
    };
    Found { outcome, points: Vec::new(), measured: Vec::new(), cut: None }
}

#[test]
fn what_was_judged_before_the_target_died_is_kept() {
    let cut = |stopped, error, measured| cut_off(stopped, error, measured).map(|outcome| outcome.ending);
    let refused = "connecting to 127.0.0.1:9: Connection refused";
    assert_eq!(cut(false, refused, 3), Some(Ending::Gone));
    assert_eq!(cut(false, refused, 0), None);
    assert_eq!(cut(true, "stopped by a signal", 0), Some(Ending::Stopped));
    assert_eq!(cut(true, "AUDIT FAILED: 3 lost", 3), None);
    let options = PeakOptions::new(PathBuf::new(), PeakTarget::Embedded);
    let notes = notes(&options, &Outcome::GONE, false).concat();
    assert!(notes.contains("no peak follows") && !notes.contains("signal"), "{notes}");
}

#[test]
fn the_limit_of_the_generator_is_not_the_limit_of_the_shop() {
    for ending in [Ending::GeneratorCeiling { per_s: 7000.0 }, Ending::GeneratorInvalid { per_s: 8000.0 }] {
        let unknown = found(None, ending);
        let limiter = unknown.limiter(8750.0).unwrap();
        assert_eq!((unknown.limit(), limiter.what.as_str()), (None, LOAD_GENERATOR));
        assert!(limiter.evidence[1].contains("8750/s"), "{limiter:?}");
        assert_eq!(found(Some(7300.0), ending).limit(), Some(7000.0));
    }
    assert_eq!(found(None, Ending::Exhausted).limit(), None);
    assert_eq!(found(None, Ending::Exhausted).limiter(8750.0), None);
    assert_eq!(found(Some(7300.0), Ending::Converged).limit(), Some(7000.0));
}

#[test]
fn what_limits_is_known_from_valid_trials() {
    use crate::load::record::Record;
    use crate::load::schedule::Schedule;
    use crate::load::trial::Flag;
    let measured = |flag: Option<Flag>, others: f64| {
        let usage = serde_json::json!({"seconds": 1.0, "processors": 2, "machine_busy": 0.5, "others": others,
            "disk_busy": null, "processes": []});
        let usage = serde_json::from_value(usage).unwrap();
        let record = Record::default();
        let mut trial = Trial::new(1, &Schedule::closed_requests(1), &record, Some(usage));
        trial.flags = flag.into_iter().collect();
        let (measurement, begun) = (controller::Measurement::Invalid, Instant::now());
        Measured { phase: Phase::Bracket, per_s: 7300.0, trial, measurement, begun, ended: begun }
    };
    let mut found = found(Some(7300.0), Ending::Converged);
    found.measured = vec![measured(None, 0.25), measured(Some(Flag::Unsent { requests: 3 }), 1.5)];
    let (phase, verdict, measurements) = (Phase::Bracket, Verdict::Fail, vec![0, 1]);
    found.points = vec![Point { per_s: 7300.0, phase, verdict, measurements }];
    let others = |wanted| found.usage_at(7300.0, wanted).map(|usage| usage.others);
    assert_eq!(others(Trial::is_valid), Some(0.25));
    assert_eq!(others(|_| true), Some(1.5));
    found.measured.remove(0);
    found.points[0].measurements = vec![0];
    assert_eq!(found.limiter(8750.0), None, "an invalid trial is no evidence");
}

#[test]
fn trials_that_are_short_beside_the_limit_are_noted() {
    let mut options = PeakOptions::new(PathBuf::new(), PeakTarget::Embedded);
    let outcome = found(Some(7300.0), Ending::Converged).outcome;
    let note = |options: &PeakOptions| {
        notes(options, &outcome, false).into_iter().find(|note| note.starts_with("Short trials"))
    };
    assert_eq!(note(&options), None);
    options.trial = Duration::from_millis(500);
    assert!(note(&options).is_some_and(|note| note.contains("up to 10% more")));
}

/// Thresholds are checked by them before an hour of measuring.
#[test]
fn the_names_of_metrics_are_known_before_they_are_measured() {
    let cases = found(Some(7300.0), Ending::Converged).cases("embedded", 8750.0, 60);
    let names: Vec<&str> = cases[0].metrics.iter().map(|of| of.name.as_str()).collect();
    assert_eq!(names, metrics());
    assert_eq!(
        (cases[0].metrics[0].values.as_slice(), cases[1].name.as_str()),
        (&[7000.0][..], "closed loop")
    );
}
