//! The suite with scenarios that measure nothing: what it keeps, and when it stops.

use super::*;
use crate::experiments::Engine;
use crate::report::model::Flag;
use crate::report::{figures, json, sample};

#[test]
fn an_invalid_trial_anywhere_makes_the_report_invalid() {
    let mut report = sample::report();
    let invalid = |report: &Report| verdict::of(report).is_invalid();
    assert!(invalid(&report));
    report.scenarios.drain(..2);
    assert!(invalid(&report), "a row of the price list has one too");
    report.scenarios[1].cases[0].trials[0].flags.clear();
    assert!(!invalid(&report), "a search judges its own");
}

fn measured(context: &ScenarioContext) -> ScenarioReport {
    assert!(context.folder.is_dir(), "it has a folder");
    std::fs::write(context.folder.join("data"), "left behind").unwrap();
    let mut report = sample::report().scenarios.remove(0);
    // The suite knows the name better.
    report.name.clear();
    report.cases.truncate(2);
    report.cases.retain(|case| context.wants(&case.name));
    report
}

const fn scenario(
    name: &'static str,
    run: fn(&ScenarioContext) -> anyhow::Result<ScenarioReport>,
) -> Scenario {
    let metrics = &["throughput", "p99"];
    Scenario { name, about: "measures nothing", reference: None, needs: &[Engine::Redis], metrics, run }
}

static FINE: Scenario = scenario("fine", |context| Ok(measured(context)));
static LATE: Scenario = scenario("late", |context| {
    let mut report = measured(context);
    report.cases[0].trials[0].flags.push(Flag::Unsent { requests: 3 });
    Ok(report)
});
/// All but one request of one trial were refused, and in the other scenario that one too.
static REFUSES: Scenario = scenario("refuses", |context| Ok(refused(context, 8)));
static REFUSES_ALL: Scenario = scenario("refuses all", |context| Ok(refused(context, 9)));

fn refused(context: &ScenarioContext, requests: u64) -> ScenarioReport {
    let mut report = measured(context);
    report.cases[1].trials[2].flags.push(Flag::NotCarried { requests, of: 9 });
    report
}

static MISSING: Scenario = scenario("missing", |_stage| anyhow::bail!("redis-server: not found"));
static LOSES: Scenario =
    scenario("loses", |_stage| Err(anyhow::anyhow!("AUDIT FAILED: 3 lost").context("orders")));
static OVERSELLS: Scenario = scenario("oversells", |context| {
    let mut report = measured(context);
    report.audit.as_mut().unwrap().held_units += 1;
    Ok(report)
});
static INFINITE: Scenario = scenario("infinite", |context| {
    let mut report = measured(context);
    report.cases[1].metrics[0].values[2] = f64::INFINITY;
    Ok(report)
});
static UNDEFINED: Scenario = scenario("undefined", |context| {
    let mut report = measured(context);
    report.cases[0].trials[0].seconds = f64::NAN;
    Ok(report)
});
static BREAKS: Scenario = scenario("breaks", |context| {
    measured(context).cases.iter().take(1).for_each(|case| context.keep(case));
    anyhow::bail!("the disk is full")
});
static BREAKS_AND_LOSES: Scenario = scenario("breaks and loses", |context| {
    measured(context).cases.iter().for_each(|case| context.keep(case));
    anyhow::bail!("AUDIT FAILED: 3 lost")
});
static STOPPED: Scenario = scenario("stopped", |context| {
    context.stop.store(true, Ordering::Relaxed);
    anyhow::bail!("stopped by a signal")
});

struct Ran {
    report: Report,
    end: End,
    _folder: tempfile::TempDir,
}

fn ran(scenarios: &[&'static Scenario], thresholds: &[&str]) -> Ran {
    let folder = tempfile::tempdir().unwrap();
    let options = SuiteOptions {
        scenarios: scenarios.to_vec(),
        size: Size::Quick,
        repeats: 1,
        seed: 1,
        target: Target::Spawn,
        program: "doorbuster".into(),
        version: "doorbuster 0.0.0".to_owned(),
        command: Vec::new(),
        scripts: "dev".into(),
        folder: folder.path().join("work"),
        port_base: 35_000,
        only: None,
        allow_swap: false,
        thresholds: thresholds.iter().map(|text| text.parse().unwrap()).collect(),
        stop: Arc::default(),
    };
    let mut kept = Folder::open(&folder.path().join("out")).unwrap();
    let (report, end) = run(&options, &mut kept).unwrap();
    // What is kept is what is returned, and the scenarios' folders are gone.
    let says_something = report.has_cases() || end == End::AuditFailed;
    assert_eq!(kept.json().exists(), says_something);
    if says_something {
        assert_eq!(
            json::to_text(&json::read(&kept.json()).unwrap()).unwrap(),
            json::to_text(&report).unwrap()
        );
    }
    assert_eq!(std::fs::read_dir(&options.folder).unwrap().count(), 0);
    Ran { report, end, _folder: folder }
}

fn names(report: &Report) -> Vec<&str> {
    report.scenarios.iter().map(|scenario| scenario.name.as_str()).collect()
}

#[test]
fn everything_asked_for_is_measured_in_order() {
    let ran = ran(&[&FINE, &FINE], &["fine:throughput>=1"]);
    assert_eq!((ran.end, ran.report.complete), (End::Met, true));
    assert_eq!(names(&ran.report), ["fine", "fine"]);
    assert!(ran.report.environment.co_located && ran.report.started_unix_s > 1_700_000_000);
}

#[test]
fn a_missed_threshold_is_distinct_from_an_invalid_trial() {
    let missed = ran(&[&FINE], &["fine:throughput>=1000000", "fine:p99<=1s"]);
    assert_eq!(missed.end, End::Missed);
    assert_eq!(missed.report.thresholds.iter().map(|of| of.met).collect::<Vec<_>>(), [false, true]);
    assert_eq!(ran(&[&FINE, &LATE], &["fine:throughput>=1000000"]).end, End::Invalid);
}

#[test]
fn a_run_that_carried_nothing_is_no_success() {
    let some = ran(&[&REFUSES], &[]);
    assert_eq!((some.end, some.report.carried_nothing()), (End::Met, None));
    let nothing = ran(&[&FINE, &REFUSES_ALL], &["fine:throughput>=1"]);
    assert_eq!(nothing.end, End::Invalid);
    assert_eq!(nothing.report.carried_nothing().as_deref(), Some("refuses all/set, 50 threads"));
}

#[test]
fn what_can_not_be_started_keeps_nothing_else_from_running() {
    let ran = ran(&[&MISSING, &FINE], &[]);
    assert_eq!((ran.end, ran.report.complete), (End::Unavailable, true));
    assert_eq!(names(&ran.report), ["fine"]);
    assert_eq!(ran.report.failures[0].error, "redis-server: not found");
}

#[test]
fn a_broken_audit_ends_the_run_wherever_it_was_found() {
    for broken in [&LOSES, &OVERSELLS] {
        let ran = ran(&[&FINE, broken, &FINE], &["fine:throughput>=1"]);
        assert_eq!((ran.end, ran.report.complete), (End::AuditFailed, false));
        assert_eq!(names(&ran.report), ["fine"]);
        assert!(ran.report.failures[0].error.contains("AUDIT FAILED"), "{:?}", ran.report.failures);
        // What was measured before it counts no more: it is neither in the report nor judged.
        assert!(figures::all(&ran.report).is_empty());
        let text = json::to_text(&ran.report).unwrap();
        assert!(!text.contains("42500") && !text.contains("42,634"), "{text}");
        assert!(!ran.report.thresholds[0].met);
    }
}

#[test]
fn a_figure_that_is_no_number_fails_its_scenario_only() {
    let ran = ran(&[&INFINITE, &UNDEFINED, &FINE], &[]);
    assert_eq!((ran.end, ran.report.complete), (End::Unavailable, true));
    assert_eq!(names(&ran.report), ["fine"]);
    let errors: Vec<&str> = ran.report.failures.iter().map(|failed| failed.error.as_str()).collect();
    assert!(errors[0].starts_with("set, 50 threads: throughput is no number"), "{errors:?}");
    assert!(errors[1].starts_with("something in it is no number"), "{errors:?}");
}

#[test]
fn a_signal_keeps_what_was_measured() {
    let ran = ran(&[&FINE, &STOPPED, &FINE], &[]);
    assert_eq!((ran.end, ran.report.complete), (End::Stopped, false));
    assert_eq!(names(&ran.report), ["fine"]);
}

#[test]
fn a_scenario_that_fails_in_its_middle_keeps_its_finished_cases() {
    let ran = ran(&[&BREAKS, &FINE], &[]);
    assert_eq!((ran.end, ran.report.complete), (End::Unavailable, false));
    assert_eq!(names(&ran.report), ["breaks", "fine"]);
    assert_eq!(ran.report.scenarios[0].cases.len(), 1);
    assert!(ran.report.scenarios[0].notes[0].contains("the disk is full"));
    assert_eq!(ran.report.failures[0].error, "the disk is full");
}

#[test]
fn a_broken_audit_keeps_no_case_that_was_finished_before_it() {
    let ran = ran(&[&BREAKS_AND_LOSES], &[]);
    assert_eq!((ran.end, ran.report.complete), (End::AuditFailed, false));
    assert!(!ran.report.has_cases());
}

#[test]
fn what_measures_nothing_costs_no_earlier_report() {
    assert!(!ran(&[&MISSING], &[]).report.has_cases());
    assert_eq!(ran(&[&STOPPED], &[]).end, End::Stopped);
}

#[test]
fn time_left_is_guessed_from_the_scenarios_before() {
    assert_eq!(likely_left(Duration::ZERO, 0, 3), None);
    assert_eq!(likely_left(Duration::from_secs(20), 2, 5), Some(Duration::from_secs(30)));
}
