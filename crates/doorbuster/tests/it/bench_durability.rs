//! The price list of durability, against the real program and engines of its own: servers are killed in mid-load, and
//! with the safe settings no acknowledged order is lost by that.

use std::fs::File;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bench::durability::{DurabilityOptions, Extent};
use bench::report::model::ScenarioReport;

use crate::engines::free_ports;

/// In the build's folder, which is on a disk; with a lock that keeps the ports.
fn options(folder: &Path, only: &str) -> (DurabilityOptions, File) {
    let mut options = DurabilityOptions::new(PathBuf::from(env!("CARGO_BIN_EXE_doorbuster"))).quick();
    options.site.folder = folder.to_owned();
    options.site.scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../dev");
    options.extent = Extent::OneAtATime;
    options.only = Some(only.to_owned());
    options.load = Duration::from_secs(1);
    options.users = 20;
    let (ports, lock) = free_ports();
    options.site.port_base = ports.start;
    (options, lock)
}

fn measure(only: &str) -> ScenarioReport {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let mut measured = bench::durability::empty();
    let (options, _ports) = options(folder.path(), only);
    bench::durability::run(&options, &mut measured).unwrap();
    assert_eq!(measured.cases.len(), 1, "{only}");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "it removes what it made");
    measured
}

/// Of one row: what was killed in it, and what it measured.
fn check(measured: &ScenarioReport, victims: &[&str]) {
    let row = &measured.cases[0];
    let of = |metric: &str| row.metrics.iter().find(|of| of.name == metric).map(|of| of.values.as_slice());
    let mut acknowledged = 0.0;
    for victim in victims {
        let of_kill = |metric: &str| of(&format!("{metric}, {victim} killed")).unwrap()[0];
        assert!(of_kill("acknowledged") > 0.0 && of_kill("back after") > 0.0, "{row:?}");
        assert_eq!(of_kill("acknowledged lost"), 0.0, "{row:?}");
        acknowledged += of_kill("acknowledged");
    }
    assert_eq!(row.metrics.len(), 2 + 4 * victims.len());
    let audit = measured.audit.as_ref().unwrap();
    assert!(audit.accepted as f64 > acknowledged && audit.orders >= audit.accepted, "{audit:?}");
    assert_eq!(audit.initial_units, audit.remaining_units + audit.held_units + audit.sold_units);
    // A trial that a busy machine spoiled gives no figure.
    let (throughput, p99) = (of("throughput").unwrap(), of("p99").unwrap());
    assert_eq!(
        (row.trials.len(), throughput.len(), p99.len()),
        (1, row.valid().count(), row.valid().count())
    );
    assert!(throughput.iter().chain(p99).all(|of| *of > 0.0));
    assert!(row.notes[0].starts_with("Not measured"), "{:?}", row.notes);
}

#[test]
fn a_killed_server_loses_no_acknowledged_order() {
    check(&measure("SQLite synchronous = full"), &["server"]);
}

/// Measures the embedded rows; in the second one `harm` is done to the server's folder while it serves, seconds before
/// it is killed. What became of it, and the rows that are left.
fn harmed(program: &Path, harm: impl FnOnce(&Path) + Send) -> (String, ScenarioReport) {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let (mut options, _ports) = options(folder.path(), "embedded");
    options.load = Duration::from_secs(2);
    options.site.program = program.to_owned();
    let (mut rows, done) = (bench::durability::empty(), AtomicBool::new(false));
    let error = std::thread::scope(|scope| {
        scope.spawn(|| {
            // The receipts' file is made when the server is ready and its sale is created.
            let row = || {
                let bench = std::fs::read_dir(folder.path()).ok()?.next()?.ok()?.path();
                Some(bench.join("row-1")).filter(|row| row.join("receipts").exists())
            };
            while !done.load(Ordering::Relaxed) {
                match row() {
                    Some(row) => return harm(&row.join("server")),
                    None => std::thread::sleep(Duration::from_millis(5)),
                }
            }
        });
        let ended = bench::durability::run(&options, &mut rows);
        done.store(true, Ordering::Relaxed);
        ended.expect_err("the second row can't be measured")
    });
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "it removes what it made");
    (format!("{error:#}"), rows)
}

#[test]
fn a_server_that_does_not_come_back_costs_no_row_before() {
    let program = Path::new(env!("CARGO_BIN_EXE_doorbuster"));
    let (error, rows) =
        harmed(program, |server| std::fs::write(server.join("config.toml"), "nonsense").unwrap());
    assert!(error.contains("synchronous = normal: the server did not start: "), "{error}");
    assert_eq!(rows.cases.len(), 1);
    check(&rows, &["server"]);
}

/// The server is killed, and finds an old ledger: orders that were acknowledged are gone. A running server would notice, so
/// it is put there by what starts the next one.
#[test]
fn after_a_lost_order_there_is_no_figure() {
    let folder = tempfile::tempdir().unwrap();
    let (program, old) = (folder.path().join("doorbuster"), folder.path().join("old.db"));
    let script = format!(
        "#!/bin/sh\nold={old:?}\n[ \"$1\" != serve ] || [ ! -e \"$old\" ] || {{ data=$(cat \"$old.data\"); rm \"$data\"/ledger.db*; \
         mv \"$old\" \"$data/ledger.db\"; }}\nexec {:?} \"$@\"\n",
        env!("CARGO_BIN_EXE_doorbuster")
    );
    std::fs::write(&program, script).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let (error, rows) = harmed(&program, |server| {
        std::fs::write(old.with_extension("db.data"), server.join("data").as_os_str().as_encoded_bytes())
            .unwrap();
        let (code, _, complaint) =
            crate::run(server, &["backup", "--data-dir", "data", "--to", old.to_str().unwrap()]);
        assert_eq!(code, 0, "{complaint}");
    });
    assert!(error.contains("synchronous = normal: AUDIT FAILED: "), "{error}");
    assert!(error.contains("acknowledged orders are gone after server was killed"), "{error}");
    assert!(rows.cases.is_empty() && rows.audit.is_none(), "{rows:?}");
}

#[test]
fn thresholds_of_the_price_list_decide_the_exit_code() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let arguments =
        ["bench", "durability", "--quick", "--only", "synchronous = off", "--users", "20", "--folder", "."];
    let thresholds = ["durability:acknowledged lost, server killed<=0", "durability:throughput>=1000000000"];
    let thresholds = thresholds.iter().flat_map(|of| ["--threshold", of]);
    let (code, stdout, stderr) =
        crate::run(folder.path(), &arguments.into_iter().chain(thresholds).collect::<Vec<_>>());
    let report = bench::report::json::read(&folder.path().join("bench-report/report.json")).unwrap();
    assert_eq!(report.thresholds.iter().map(|of| of.met).collect::<Vec<_>>(), [true, false], "{stdout}");
    // This machine may be too busy for a sound trial, and that weighs more.
    let invalid = bench::report::verdict::of(&report).is_invalid();
    let wanted = if invalid { (2, "INVALID") } else { (1, "1 threshold(s) missed") };
    assert_eq!(code, wanted.0, "{stderr}");
    assert!(stderr.contains(wanted.1) && stdout.contains(">=1000000000: MISSED"), "{stdout}{stderr}");
    let server = &report.scenarios[0].cases[0].engines[0];
    assert_eq!((&*server.engine, &*server.settings["ledger synchronous"]), ("Doorbuster", "off"));
}

#[test]
fn no_killed_member_of_a_cluster_loses_an_acknowledged_order() {
    let row =
        measure("cluster, InnoDB flush = 2, Redis = AOF everysec, binlog sync = 0, broker flush = sync");
    check(&row, &["redis", "broker", "mariadb", "server"]);
    let engines = &row.cases[0].engines;
    let redis = engines.iter().find(|of| of.engine == "Redis").unwrap();
    assert_eq!(redis.settings["appendfsync"], "everysec");
    let mariadb = engines.iter().find(|of| of.engine == "MariaDB").unwrap();
    assert_eq!(mariadb.settings["innodb_flush_log_at_trx_commit"], "2");
    assert_eq!((&*mariadb.settings["sync_binlog"], &*mariadb.settings["log_bin"]), ("0", "1"));
}
