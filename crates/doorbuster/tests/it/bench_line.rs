//! The experiments on a line, with few people on the real server: the draw and a whole night, every promise checked.

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bench::experiments::line::{DrawSizes, NightSizes, draw, night};
use bench::experiments::{ScenarioContext, Target, find};
use bench::host::procfs::children;
use bench::progress::Progress;
use bench::report::model::{ScenarioReport, Size};

const FEW: NightSizes = NightSizes {
    people: 1_000,
    units: 20,
    front: 300,
    behind: 50,
    window: Duration::from_millis(40),
    rounds: 1,
    starts_in: Duration::from_secs(3),
    lasts: Duration::from_secs(8),
    turn_s: 10,
    grace_s: 2,
    payment_s: 2,
    bot_requests_per_s: 100,
};

/// In the build's folder, which is on a disk.
fn context(folder: &Path) -> ScenarioContext {
    ScenarioContext {
        size: Size::Quick,
        repeats: 1,
        seed: 1,
        target: Target::Spawn,
        program: PathBuf::from(env!("CARGO_BIN_EXE_doorbuster")),
        scripts: "dev".into(),
        folder: folder.to_owned(),
        disk: None,
        // It asks for free ones.
        port_base: 0,
        only: None,
        allow_swap: false,
        progress: Progress::start(),
        stop: Arc::default(),
        finished: RefCell::default(),
    }
}

fn figure(report: &ScenarioReport, name: &str) -> f64 {
    report.found(name).unwrap_or_else(|| panic!("no {name} in {report:?}"))
}

/// Only what is listed can be named by a threshold; what was expected and can be judged here, holds.
fn check(name: &str, report: &ScenarioReport, expected: &[&str]) {
    let known = find(name).unwrap().metrics;
    let metrics = || report.cases.iter().flat_map(|case| &case.metrics).map(|metric| metric.name.as_str());
    assert!(metrics().all(|metric| known.contains(&metric)), "{report:?}");
    for claim in expected {
        let shape = report.shapes.iter().find(|shape| shape.claim.contains(claim));
        assert_eq!(shape.and_then(|shape| shape.holds), Some(true), "{claim}: {:?}", report.shapes);
    }
}

#[test]
fn a_draw_is_verified_and_found_out_again() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let report = draw(&context(folder.path()), DrawSizes { entries: 1_500 }).unwrap();
    assert!(figure(&report, "entries") >= 1_500.0 && figure(&report, "size of the file") > 100_000.0);
    assert!(figure(&report, "memory of the verification") > 1e5, "{report:?}");
    check("draw", &report, &["verify", "chi-square over joining", "chi-square over buyers"]);
}

/// Twenty units, of which few are paid at once: somebody is called for what others let go.
#[test]
fn a_night_keeps_every_promise() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let report = night(&context(folder.path()), FEW).unwrap();
    let audit = report.audit.as_ref().unwrap();
    assert_eq!(audit.remaining_units + audit.held_units + audit.sold_units, 20, "{audit:?}");
    assert!(audit.sold_units > 0 && audit.accepted >= audit.sold_units, "{audit:?}");
    assert!(figure(&report, "called") > 20.0 && figure(&report, "zones kept") > 300.0, "{report:?}");
    let kept =
        ["wrong promises", "turns without a unit", "orders without a turn", "overtaken", "turn refused"];
    check("line", &report, &kept);
}

#[test]
fn a_night_that_is_stopped_leaves_nothing_running() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let context = context(folder.path());
    let stop = Arc::clone(&context.stop);
    // Wherever it is by then.
    let stopper = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_secs(4));
        stop.store(true, Ordering::Relaxed);
    });
    let error = format!("{:#}", night(&context, FEW).unwrap_err());
    stopper.join().unwrap();
    assert!(error.contains("stopped by a signal"), "{error}");
    let name = folder.path().to_string_lossy().into_owned();
    let command_line = |pid: u32| std::fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let left =
        children(std::process::id()).unwrap().into_iter().find(|pid| command_line(*pid).contains(&name));
    assert_eq!(left, None, "a process is left");
}
