//! The whole embedded benchmark against stand-ins, honest and lying: it must print figures for the honest one only,
//! and leave neither files nor processes behind.
//!
//! Without the usual harness, because this program is the stand-ins too: it runs itself under their names.

mod stand_in;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bench::{EmbeddedOptions, Report, embedded};
use stand_in::Lie;

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
        let result = run(lie, &Arc::default());
        match (result, wanted) {
            (Ok(report), Ok(())) => check(&report),
            (Err(error), Err(part)) => assert!(error.contains(part), "{lie:?}: {error}"),
            (result, wanted) => {
                panic!("{lie:?}: wanted {wanted:?}, got {:?}", result.map(|report| report.rows))
            }
        }
        println!("{lie:?} ... ok");
    }
    a_raised_stop_flag_ends_the_run();
    println!("Stop ... ok");
}

/// Runs the benchmark in a folder of its own, and checks that nothing is left of it.
fn run(lie: Lie, stop: &Arc<AtomicBool>) -> Result<Report, String> {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let program = folder.path().join(lie.name());
    std::os::unix::fs::symlink(std::env::current_exe().expect("this program"), &program).expect("a link");
    let work = folder.path().join("work");
    std::fs::create_dir(&work).expect("a folder");
    let options = EmbeddedOptions {
        folder: work.clone(),
        rounds: if lie == Lie::Honest { 2 } else { 1 },
        window: Duration::from_millis(40),
        prefill_orders: 2000,
        stop: stop.clone(),
        ..EmbeddedOptions::new(program)
    };
    let result = embedded(&options).map_err(|error| format!("{error:#}"));
    assert_eq!(std::fs::read_dir(&work).expect("the folder").count(), 0, "{lie:?}: files are left");
    assert!(!is_mentioned_by_a_process(folder.path()), "{lie:?}: a process is left");
    result
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
    assert_eq!(report.rows.len(), 30);
    assert!(report.rows.iter().all(|row| row.points.len() == 2));
    assert_eq!(report.measurements.len(), 28);
    assert!(
        report
            .measurements
            .iter()
            .all(|of| of.server.outcomes.total() > 0 && of.reference.outcomes.total() > 0)
    );
    assert_eq!(report.footprint.orders, 2000);
    assert!(report.footprint.ledger_bytes_per_order > 10.0);
    assert!(report.answered[1].accepted > 2000 && report.answered[0].accepted > 0);
    assert!(report.to_string().contains("Audit: clean."));
}

fn a_raised_stop_flag_ends_the_run() {
    let stop = Arc::new(AtomicBool::new(false));
    stop.store(true, Ordering::SeqCst);
    let error = run(Lie::Honest, &stop).expect_err("the stop flag was raised");
    assert!(error.contains("stopped by a signal"), "{error}");
}
