//! The whole experiment of the embedded profile against stand-ins, honest and lying: it must give figures for the honest
//! one only, and leave neither files nor processes behind.
//!
//! Without the usual harness, because this program is the stand-ins too: it runs itself under their names.

mod stand_in;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bench::experiments::embedded::{Sizes, orders, reads};
use bench::experiments::{Scenario, ScenarioContext, Target, find};
use bench::report::folder::Folder;
use bench::report::model::{Report, ScenarioReport, Size};
use bench::suite::{self, End, SuiteOptions};
use stand_in::Lie;

const SIZES: Sizes = Sizes { window: Duration::from_millis(40), prefill_orders: 2000 };

fn main() {
    stand_in::run_if_called();
    for (lie, wanted) in [
        (Lie::Honest, Ok(())),
        (Lie::LosesOrders, Err("AUDIT FAILED")),
        (Lie::HidesOrders, Err("AUDIT FAILED")),
        (Lie::FailsItsAudit, Err("AUDIT FAILED: the program's own audit")),
        (Lie::Refuses, Err("418 no orders here")),
        (Lie::StopsBadly, Err("the server ended with")),
    ] {
        let (report, end) = run(lie, &Arc::default());
        match wanted {
            Ok(()) => check(&report),
            Err(part) => {
                let error = &report.failures[0].error;
                assert!(error.contains(part), "{lie:?}: {error}");
                let broken = part.starts_with("AUDIT FAILED");
                assert_eq!(end, if broken { End::AuditFailed } else { End::Unavailable }, "{lie:?}");
                assert!(!broken || !report.has_cases(), "{lie:?}: a figure after a broken audit");
            }
        }
        println!("{lie:?} ... ok");
    }
    a_raised_stop_flag_ends_the_run();
    println!("Stop ... ok");
}

/// Of the list, but for the sizes.
fn small(name: &str, run: fn(&ScenarioContext) -> anyhow::Result<ScenarioReport>) -> &'static Scenario {
    Box::leak(Box::new(Scenario { run, ..*find(name).expect("it is in the list") }))
}

/// Runs the experiments in a folder of their own, and checks that nothing is left of it.
fn run(lie: Lie, stop: &Arc<AtomicBool>) -> (Report, End) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let program = folder.path().join(lie.name());
    std::os::unix::fs::symlink(std::env::current_exe().expect("this program"), &program).expect("a link");
    let work = folder.path().join("work");
    std::fs::create_dir(&work).expect("a folder");
    let options = SuiteOptions {
        scenarios: vec![
            small("order-embedded", |context| orders(context, SIZES)),
            small("read-embedded", |context| reads(context, SIZES)),
        ],
        size: Size::Quick,
        repeats: if lie == Lie::Honest { 2 } else { 1 },
        seed: 1,
        target: Target::Spawn,
        program,
        version: "0".to_owned(),
        command: Vec::new(),
        scripts: "dev".into(),
        folder: work.clone(),
        port_base: 27_000,
        only: None,
        allow_swap: false,
        thresholds: Vec::new(),
        stop: Arc::clone(stop),
    };
    let mut kept = Folder::open(&folder.path().join("report")).expect("a folder for the report");
    let ended = suite::run(&options, &mut kept).expect("the report can be written");
    assert_eq!(std::fs::read_dir(&work).expect("the folder").count(), 0, "{lie:?}: files are left");
    assert!(!is_mentioned_by_a_process(&work), "{lie:?}: a process is left");
    ended
}

/// Every child has the run's folder in its command line.
fn is_mentioned_by_a_process(folder: &Path) -> bool {
    let folder = folder.to_string_lossy();
    std::fs::read_dir("/proc")
        .expect("Linux")
        .filter_map(|entry| std::fs::read(entry.ok()?.path().join("cmdline")).ok())
        .any(|line| String::from_utf8_lossy(&line).contains(&*folder))
}

fn check(report: &Report) {
    assert!(report.failures.is_empty(), "{:?}", report.failures);
    let cases: Vec<_> = report.scenarios.iter().flat_map(|scenario| &scenario.cases).collect();
    let (measured, kept): (Vec<_>, Vec<_>) = cases.into_iter().partition(|case| !case.trials.is_empty());
    // Each of the server, and of nginx.
    assert_eq!(measured.len(), 28);
    for case in measured {
        assert_eq!(case.trials.len(), 2, "{}", case.name);
        assert!(case.trials.iter().all(|trial| trial.outcomes.total() > 0), "{}", case.name);
    }
    let figure =
        |name: &str| kept[0].metrics.iter().find(|metric| metric.name == name).expect(name).values[0];
    assert_eq!((kept.len(), figure("orders")), (1, 2000.0));
    assert!(figure("ledger per order") > 10.0);
    assert!(report.scenarios.iter().all(|of| of.notes.iter().any(|note| note.starts_with("Audit: clean."))));
}

fn a_raised_stop_flag_ends_the_run() {
    let stop = Arc::new(AtomicBool::new(false));
    stop.store(true, Ordering::SeqCst);
    let (report, end) = run(Lie::Honest, &stop);
    assert_eq!(end, End::Stopped);
    assert!(report.failures[0].error.contains("stopped by a signal"), "{:?}", report.failures);
}
