//! The search for the peak, against the real program; and that it takes the settings which follow from one.

use std::path::{Path, PathBuf};
use std::time::Duration;

use bench::peak::admission::admission;
use bench::peak::{Order, PeakOptions, PeakTarget};
use bench::report::model::ScenarioReport;

use crate::engines::free_ports;
use crate::serving::{OPERATOR, Serving};

fn search(target: PeakTarget) -> ScenarioReport {
    let mut options = PeakOptions::new(PathBuf::from(env!("CARGO_BIN_EXE_doorbuster")), target).quick();
    let folder = tempfile::tempdir().unwrap();
    options.site.folder = folder.path().to_owned();
    options.trial = Duration::from_millis(200);
    options.users = 20;
    options.site.scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../dev");
    let (ports, _lock) = free_ports();
    options.site.port_base = ports.start;
    let report = bench::peak::run(&options).unwrap().report;
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "it removes what it made");
    report
}

/// What holds however busy this machine is; the search itself is tested on simulated queues.
fn check(report: &ScenarioReport) {
    let audit = report.audit.as_ref().unwrap();
    assert!(audit.accepted > 0 && audit.orders >= audit.accepted, "{audit:?}");
    assert_eq!(audit.initial_units, audit.remaining_units + audit.held_units + audit.sold_units);
    // None if this machine was too busy for a sound closed loop.
    let (maximum, alone) = (report.found("closed-loop maximum"), report.found("generator alone").unwrap());
    assert!(maximum.is_none_or(|most| most > 0.0 && alone > most), "{report:?}");
    assert_eq!(report.cases[1].load.as_ref().unwrap().phase, "anchor");
    let loads =
        || report.cases.iter().filter(|case| case.load.as_ref().is_some_and(|of| of.phase != "overload"));
    let trials = || loads().flat_map(|case| &case.trials);
    let won: u64 = trials().map(|trial| trial.outcomes.won).sum();
    // A machine that is too busy has no trial that counts.
    let some_won = won > 0 || trials().count() == 0;
    assert!(some_won && won <= audit.accepted, "{won} of {audit:?}");
    // Settings follow from a limit of the target's, which is known only if a load failed.
    let (passed, failed) = (report.found("highest passed"), report.found("lowest failed"));
    let search = report.search.as_ref().unwrap();
    assert_eq!(search.settings.is_some(), search.confirmed && passed.is_some() && failed.is_some());
    if let (Some(passed), Some(failed)) = (passed, failed) {
        assert!(failed > passed, "{passed} {failed}");
    }
}

#[test]
fn a_server_of_its_own_is_searched_and_audited() {
    check(&search(PeakTarget::Embedded));
}

#[test]
fn a_cluster_of_its_own_is_searched_and_audited() {
    check(&search(PeakTarget::Cluster { servers: 2 }));
}

#[test]
fn a_running_demo_is_searched_by_the_published_command() {
    let directory = tempfile::tempdir().unwrap();
    let mut command = crate::doorbuster(directory.path());
    command.args(["serve", "--demo", "--listen", "127.0.0.1:0", "--data-dir", "data"]);
    let serving = Serving::start(command);
    let report = search(PeakTarget::Running {
        address: serving.address,
        order: Order::Published { sale: 3, product: 29 },
        operator_token: Some(OPERATOR.to_owned()),
    });
    check(&report);
}

#[test]
fn a_running_shop_is_searched_by_orders_of_its_own_api() {
    const SECRET: &str = "a-secret-of-more-than-thirty-two-bytes";
    let directory = tempfile::tempdir().unwrap();
    let mut command = crate::doorbuster(directory.path());
    command.args(["serve", "--listen", "127.0.0.1:0", "--data-dir", "data"]);
    command.env("DOORBUSTER_AUTH_TOKEN_SECRET", SECRET);
    let serving = Serving::start(command);
    let peak = |secret: &str, sale: &str| {
        let address = serving.address.to_string();
        let mut command = crate::doorbuster(directory.path());
        command.args([
            "bench",
            "peak",
            "--quick",
            "--trial",
            "500ms",
            "--users",
            "20",
            "--target-http",
            &address,
        ]);
        command.args(["--order", "own", "--sale", sale]).env("DOORBUSTER_OPERATOR_TOKEN", OPERATOR);
        command.env("DOORBUSTER_AUTH_TOKEN_SECRET", secret);
        crate::outcome(command.output().unwrap())
    };
    let (code, _, complaint) = peak("another-secret-of-more-than-thirty-two-bytes", "8");
    assert_eq!(code, 69, "{complaint}");
    assert!(complaint.contains("none was accepted") && complaint.contains(" 401 "), "{complaint}");
    // Whether a peak is found and confirmed is this machine's affair.
    let (code, output, complaint) = peak(SECRET, "9");
    assert!(
        [0, 1, 2].contains(&code) && output.contains("closed-loop maximum"),
        "{code} {output} {complaint}"
    );
    assert!(complaint.contains("audited: every acknowledged order is there"), "{complaint}");
    let (code, _, complaint) = peak(SECRET, "9");
    assert!(code == 69 && complaint.contains("sale 9 can't be created: 409"), "{code} {complaint}");
}

#[test]
fn the_settings_that_follow_from_a_peak_are_taken() {
    let directory = tempfile::tempdir().unwrap();
    for (peak, p99_us, servers) in [(12_345.6, 50_000, 1), (0.4, 1000, 3), (1e12, 60_000_000, 1)] {
        std::fs::write(directory.path().join("peak.toml"), admission(peak, p99_us, servers)).unwrap();
        let mut check = crate::doorbuster(directory.path());
        check.args(["config", "--check", "peak.toml"]);
        let checked = check
            .env("DOORBUSTER_HTTP_LISTEN", "127.0.0.1:0")
            .env("DOORBUSTER_AUTH_TOKEN_SECRET", "0123456789abcdefghijklmnopqrstuv")
            .output();
        let (code, _, complaint) = crate::outcome(checked.unwrap());
        assert_eq!(code, 0, "{peak}: {complaint}");
    }
}
