use super::*;

fn s(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

#[test]
fn a_fault_is_logged_once_then_how_often_and_once_when_it_is_over() {
    let fault = Recurring::new("the database pauses");
    let start = Instant::now();
    assert_eq!(fault.well_at(start), None, "there was none");
    let mut lines = Vec::new();
    // Ten times a second for 25 seconds.
    for tenth in 0..250 {
        lines.extend(fault.met_at(start + Duration::from_millis(100 * tenth)));
    }
    let again = Line::Again { times: 100, seconds: 10 };
    assert_eq!(lines, [Line::First, again, again]);
    let last = start + Duration::from_millis(24_900);
    assert_eq!(fault.well_at(last + QUIET - Duration::from_millis(1)), None);
    assert_eq!(fault.well_at(last + QUIET), Some(Line::Over { times: 250, seconds: 24 }));
    assert_eq!(fault.well_at(last + QUIET), None, "logged once");
    assert_eq!(fault.met_at(last + s(60)), Some(Line::First), "the next one is another");
}

#[test]
fn a_fault_that_comes_and_goes_is_one_fault() {
    let fault = Recurring::new("the network flaps");
    let start = Instant::now();
    assert_eq!(fault.met_at(start), Some(Line::First));
    for second in 1..10 {
        assert_eq!(fault.well_at(start + s(second)), None);
        assert_eq!(fault.met_at(start + s(second)), None);
    }
    assert_eq!(fault.met_at(start + s(10)), Some(Line::Again { times: 10, seconds: 10 }));
    assert_eq!(fault.well_at(start + s(13)), Some(Line::Over { times: 11, seconds: 10 }));
}

#[test]
fn a_fault_that_is_seen_rarely_is_logged_each_time() {
    let fault = Recurring::new("the command fails");
    let start = Instant::now();
    for times in 0..3 {
        assert_eq!(fault.met_at(start + REPORT_INTERVAL * times), Some(Line::First));
    }
}

#[test]
fn a_fault_that_was_met_and_not_since_may_be_over_though_nothing_was_reported_in_between() {
    let fault = Recurring::new("the database pauses");
    let start = Instant::now();
    fault.met_at(start);
    assert_eq!(fault.well_at(start + s(3600)), Some(Line::Over { times: 1, seconds: 0 }));
}
