//! A start with a clock that has jumped, of the real program: the alarm, and the commands that end it.

use std::path::Path;
use std::process::Command;

use rusqlite::Connection as Database;

use crate::exchange::Connection;
use crate::serving::{OPERATOR, Serving};
use crate::{doorbuster, outcome, run};

/// More than a system is believed for that says that it is synchronised.
const JUMP_MS: i64 = 3 * 24 * 3600 * 1000;

fn serve(directory: &Path) -> Command {
    let mut command = doorbuster(directory);
    command
        .args(["serve", "--listen", "127.0.0.1:0", "--data-dir", "data"])
        .env("DOORBUSTER_AUTH_BUYER", "member_id");
    command
}

/// What `doorbuster clock` prints.
#[track_caller]
fn clock(directory: &Path, server: &Serving, verb: &str) -> String {
    let output = doorbuster(directory)
        .args(["clock", verb, "--server", &format!("http://{}", server.address)])
        .env("DOORBUSTER_OPERATOR_TOKEN", OPERATOR)
        .output();
    let (code, stdout, stderr) = outcome(output.unwrap());
    assert_eq!((code, stderr.as_str()), (0, ""));
    stdout
}

fn get(server: &Serving, path: &str) -> (u16, String) {
    let mut connection = Connection::open(server.address).unwrap();
    let response = connection.exchange("GET", path, &[], "").unwrap();
    (response.status, response.body)
}

#[test]
fn a_clock_that_has_jumped_is_reported_until_it_is_confirmed() {
    let directory = tempfile::tempdir().unwrap();
    let first = Serving::start(serve(directory.path()));
    assert!(clock(directory.path(), &first, "show").contains("; it runs\n"), "a new ledger asks nothing");
    assert_eq!(first.stop(), 0);
    for (jump_ms, expected) in [(-JUMP_MS, " ahead\n"), (JUMP_MS, " behind\n")] {
        let database = Database::open(directory.path().join("data/ledger.db")).unwrap();
        let note = "UPDATE meta SET value = value + ?1 WHERE name = 'clock_noted_at'";
        assert_eq!(database.execute(note, [jump_ms]).unwrap(), 1);
        drop(database);
        let server = Serving::start_unseen(serve(directory.path()));
        let (status, body) = get(&server, "/readyz");
        assert!(status == 503 && body.contains("doorbuster clock confirm"), "{status} {body}");
        assert!(get(&server, "/metrics").1.contains("doorbuster_clock_unconfirmed 1\n"));
        assert!(clock(directory.path(), &server, "show").contains("NOT CONFIRMED"));
        let confirmed = clock(directory.path(), &server, "confirm");
        assert!(
            confirmed.starts_with("the clock is confirmed: it said ") && confirmed.ends_with(expected),
            "{confirmed}"
        );
        assert_eq!(get(&server, "/readyz").0, 200);
        assert!(get(&server, "/metrics").1.contains("doorbuster_clock_unconfirmed 0\n"));
        assert!(clock(directory.path(), &server, "confirm").contains("as the system's does"));
        assert_eq!(server.stop(), 0);
        let again = Serving::start(serve(directory.path()));
        assert_eq!(again.stop(), 0);
    }
    let (code, stdout, stderr) = run(directory.path(), &["audit", "--data-dir", "data"]);
    assert_eq!(code, 0, "{stdout}{stderr}");
}
