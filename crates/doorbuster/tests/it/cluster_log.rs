//! What a cluster's server logs while an engine is away: each fault once, and not with every try. On real engines.

use std::time::Duration;

use crate::cluster::{accepted, audit, configure_with};
use crate::cluster_gate::{logged, serve_logged, until, until_ready};
use crate::engines::Engines;

/// A line of the log that is a warning.
const WARNING: &str = "\"level\":\"WARN\"";
/// Of each stage the first warning, and one that counts the others.
const WARNINGS_MAX: usize = 12;

#[test]
fn a_frozen_database_is_logged_once_then_how_often_and_once_when_it_is_over() {
    let dir = tempfile::tempdir().unwrap();
    let engines = Engines::private(&["mariadb"], &[]);
    let redis = Engines::shared(&["redis"]).address("redis");
    configure_with(&redis, &engines.address("mariadb"), dir.path(), "frozen", "");
    let server = serve_logged(dir.path(), "");
    until_ready(&server);
    accepted(&server, 1, "k", 29);
    audit(dir.path());
    let before = logged(dir.path(), WARNING).len();

    engines.freeze("mariadb");
    until("reconciliation pauses", || {
        (!logged(dir.path(), "reconciliation pauses").is_empty(), "no warning".to_owned())
    });
    // The time that is asked about, and no wait for anything.
    std::thread::sleep(Duration::from_secs(15));
    engines.thaw("mariadb");
    until("it is over", || {
        (!logged(dir.path(), "over: reconciliation pauses; ").is_empty(), "not over".to_owned())
    });
    let warnings = logged(dir.path(), WARNING).split_off(before);
    let first = warnings.iter().filter(|line| line.contains("\"reconciliation pauses\"")).count();
    assert_eq!(first, 1, "{warnings:#?}");
    assert!(warnings.len() <= WARNINGS_MAX, "{warnings:#?}");
    accepted(&server, 2, "k", 29);
    audit(dir.path());
}
