//! What a cluster's server logs while an engine is away: each fault once, and not with every try. On real engines.

use std::path::Path;
use std::time::Duration;

use crate::cluster::{accepted, audit, configure, configure_with, sql};
use crate::cluster_figures::figures;
use crate::cluster_gate::{logged, serve_logged, until, until_ready};
use crate::cluster_queues::metric;
use crate::engines::Engines;

/// A line of the log that is a warning.
const WARNING: &str = "\"level\":\"WARN\"";
/// Of each stage the first warning, and one that counts the others.
const WARNINGS_MAX: usize = 12;

/// How long the fault goes on after it was logged first: long enough for a line that counts.
const FAULT_LASTS: Duration = Duration::from_secs(15);

/// Long enough for several looks at the ledger's stock.
const STOCK_LOOKS_LAST: Duration = Duration::from_secs(4);

/// One server's warnings about a fault of its database that begins and ends so.
fn warnings_of(directory: &Path, begin: impl FnOnce(), end: impl FnOnce()) -> Vec<String> {
    let server = serve_logged(directory, "");
    until_ready(&server);
    accepted(&server, 1, "k", 29);
    audit(directory);
    let before = logged(directory, WARNING).len();
    begin();
    until("reconciliation pauses", || {
        (!logged(directory, "reconciliation pauses").is_empty(), "no warning".to_owned())
    });
    std::thread::sleep(FAULT_LASTS);
    assert_eq!(metric(&server, "doorbuster_reconciling"), 0, "nobody holds a lease that can't be renewed");
    end();
    until("it is over", || {
        (!logged(directory, "over: reconciliation pauses; ").is_empty(), "not over".to_owned())
    });
    until("it reconciles again", || (metric(&server, "doorbuster_reconciling") == 1, "not yet".to_owned()));
    accepted(&server, 2, "k", 29);
    audit(directory);
    let warnings = logged(directory, WARNING).split_off(before);
    let first = warnings.iter().filter(|line| line.contains("\"reconciliation pauses\"")).count();
    assert_eq!(first, 1, "{warnings:#?}");
    assert!(warnings.len() <= WARNINGS_MAX, "{warnings:#?}");
    warnings
}

#[test]
fn a_frozen_database_is_logged_once_and_once_when_it_is_over() {
    let dir = tempfile::tempdir().unwrap();
    let engines = Engines::private(&["mariadb"], &[]);
    let redis = Engines::shared(&["redis"]).address("redis");
    configure_with(&redis, &engines.address("mariadb"), dir.path(), "frozen", "");
    warnings_of(dir.path(), || engines.freeze("mariadb"), || engines.thaw("mariadb"));
    let faults = logged(dir.path(), "not ready: the ledger (MySQL) can't be used");
    assert!(faults.len() == 1 && faults[0].contains(": it does not answer in time"), "{faults:#?}");
}

/// Orders are taken all the same. What can still be read, the stock each second, does not look like its end.
#[test]
fn a_database_that_is_read_and_not_written_is_one_fault_and_not_red() {
    let dir = tempfile::tempdir().unwrap();
    configure(dir.path(), "unwritten", "");
    let mariadb = Engines::shared(&["mariadb"]).address("mariadb");
    let rename =
        |from: &str, to: &str| sql(&mariadb, &format!("RENAME TABLE unwritten.{from} TO unwritten.{to}"));
    let server = serve_logged(dir.path(), "");
    until_ready(&server);
    rename("servers", "servers_away");
    let verdict = || figures(&server)["verdict"]["code"].as_str().unwrap().to_owned();
    until("it is seen", || (verdict() == "ledger_away", verdict()));
    accepted(&server, 1, "k", 29);
    std::thread::sleep(STOCK_LOOKS_LAST);
    assert_eq!(verdict(), "ledger_away");
    rename("servers_away", "servers");
    until_ready(&server);
    audit(dir.path());
    assert_eq!(logged(dir.path(), "not ready: the ledger (MySQL) can't be used").len(), 1);
}

/// It says no at once, so that each round fails: ten a second.
#[test]
fn a_database_that_refuses_is_logged_once_then_how_often_and_once_when_it_is_over() {
    let dir = tempfile::tempdir().unwrap();
    configure(dir.path(), "refusing", "");
    let mariadb = Engines::shared(&["mariadb"]).address("mariadb");
    let rename =
        |from: &str, to: &str| sql(&mariadb, &format!("RENAME TABLE refusing.{from} TO refusing.{to}"));
    let begin = || rename("leases", "leases_away");
    let end = || {
        let counted = || logged(dir.path(), " times in the last 10 s");
        until("it is said how often", || {
            (!counted().is_empty(), format!("{:#?}", logged(dir.path(), WARNING)))
        });
        rename("leases_away", "leases");
    };
    warnings_of(dir.path(), begin, end);
}
