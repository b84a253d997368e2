//! Exit codes and messages of everything that needs no server.

use std::io::Read;
use std::process::Stdio;

use crate::{doorbuster, outcome, run};

#[test]
fn help_and_version_are_no_errors() {
    let directory = tempfile::tempdir().unwrap();
    for arguments in [
        &["--help"][..],
        &["-h"],
        &["--version"],
        &["help"],
        &["sale", "--help"],
        &["sale", "create", "--help"],
        &["sale", "restock", "--help"],
        &["demo", "load", "--help"],
        &["config", "--help"],
        &["token", "mint", "--help"],
        &["refunds", "--help"],
        &["queues", "--help"],
        &["queues", "retire", "--help"],
    ] {
        let (code, stdout, stderr) = run(directory.path(), arguments);
        assert_eq!((code, stderr.as_str()), (0, ""), "{arguments:?}");
        assert!(!stdout.is_empty(), "{arguments:?}");
    }
    assert!(run(directory.path(), &["--help"]).1.contains("Exit codes: 0 done; 1 "));
    let help = run(directory.path(), &["queues", "--help"]).1;
    assert!(
        help.contains("its broker is down: start it") && help.contains("mqadmin updateTopic -w"),
        "{help}"
    );
}

#[test]
fn wrong_arguments_exit_64_in_two_lines() {
    let directory = tempfile::tempdir().unwrap();
    for (arguments, reason) in [
        (&["sell"][..], "error: unrecognized subcommand 'sell'"),
        (
            &["config", "--chek", "x"],
            "unexpected argument '--chek' found tip: a similar argument exists: '--check'",
        ),
        (&["sale", "show"], "error: the following required arguments were not provided: <SALE>"),
        (&["sale", "show", "three"], "error: invalid value 'three' for '<SALE>'"),
        (&["sale", "restock", "3", "30", "0"], "error: invalid value '0' for '<UNITS>'"),
        (&["sale", "restock", "3", "30", "1", "--key", "a b"], "write 1 to 64 visible ASCII characters"),
        (&["sale", "create"], "error: the following required arguments were not provided"),
        (&["sale", "create", "--title", "t", "--starts-at", "now"], "required arguments were not provided"),
        (&["sale", "create", "x.toml", "--title", "t"], "cannot be used with"),
        (&["demo", "load"], "--balance <N>"),
        (&["token", "mint"], "--member <ID>"),
        (&["refunds", "settle"], "<PAYMENT>..."),
        (&["token", "mint", "--member", "7"], "set auth.token_secret_file or DOORBUSTER_AUTH_TOKEN_SECRET"),
        (&["token", "mint", "--member", "7", "--expires-in", "soon"], "write it like 60s"),
        (
            &["bench", "run", "read-embedded", "--program", "nowhere"],
            "error: --program nowhere: No such file or directory",
        ),
        (&["bench", "run", "gate", "--full", "--quick"], "cannot be used with"),
    ] {
        let (code, stdout, stderr) = run(directory.path(), arguments);
        assert_eq!((code, stdout.as_str()), (64, ""), "{arguments:?}: {stderr}");
        assert!(stderr.contains(reason), "{arguments:?}: {stderr}");
        assert!(stderr.lines().count() <= 2, "{arguments:?}: {stderr}");
    }
    for arguments in [&[][..], &["sale"], &["demo"]] {
        let (code, stdout, stderr) = run(directory.path(), arguments);
        assert_eq!((code, stdout.as_str()), (64, ""), "{arguments:?}");
        assert!(stderr.contains("Usage: doorbuster"), "{arguments:?}: {stderr}");
    }
}

#[test]
fn the_printed_defaults_are_a_valid_file() {
    let directory = tempfile::tempdir().unwrap();
    let (code, defaults, _) = run(directory.path(), &["config"]);
    assert_eq!((code, defaults.as_str()), (0, server::config::DEFAULTS));
    std::fs::write(directory.path().join("doorbuster.toml"), defaults).unwrap();
    let (code, stdout, stderr) = run(directory.path(), &["config", "--check", "doorbuster.toml"]);
    assert_eq!((code, stdout.as_str(), stderr.as_str()), (0, "doorbuster.toml: ok\n", ""));
}

#[test]
fn a_wrong_configuration_exits_64_with_every_error() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("d.toml"), "[admision]\norders_per_s = 1\n[http]\nthreads = 0\n")
        .unwrap();
    let output = doorbuster(directory.path())
        .args(["config", "--check", "d.toml"])
        .env("DOORBUSTER_HTTP_LISTN", "x")
        .output();
    let (code, stdout, stderr) = outcome(output.unwrap());
    assert_eq!((code, stdout.as_str()), (64, ""));
    assert_eq!(
        stderr,
        "d.toml:2: unknown key \"admision.orders_per_s\"; did you mean \"admission.orders_per_s\"?\n\
         DOORBUSTER_HTTP_LISTN: unknown variable; did you mean \"DOORBUSTER_HTTP_LISTEN\"?\n\
         d.toml:4: http.threads = 0 is out of bounds: set it from 1 to 64\n"
    );
}

#[test]
fn a_reader_that_leaves_is_no_error() {
    let directory = tempfile::tempdir().unwrap();
    for arguments in [&["config"][..], &["--help"]] {
        // The reading end is closed before the program starts, so that every write to the pipe fails.
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let mut child = doorbuster(directory.path());
        child.args(arguments).stderr(Stdio::piped()).stdout(writer);
        let mut child = child.spawn().unwrap();
        let mut stderr = String::new();
        child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
        assert_eq!((child.wait().unwrap().code(), stderr.as_str()), (Some(0), ""), "{arguments:?}");
    }
}
