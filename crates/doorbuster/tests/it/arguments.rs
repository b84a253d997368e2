//! Exit codes and messages of everything that needs no server.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

use server::ledger::sqlite;

use crate::watch::terminal;
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
        &["sale", "duplicate", "--help"],
        &["sale", "diff", "--help"],
        &["sale", "apply", "--help"],
        &["sale", "restock", "--help"],
        &["demo", "load", "--help"],
        &["config", "--help"],
        &["init", "--help"],
        &["status", "--help"],
        &["token", "mint", "--help"],
        &["rehearse", "--help"],
        &["refunds", "--help"],
        &["orders", "--help"],
        &["operators", "--help"],
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
        (&["sale", "show", "three"], "error: invalid value 'three' for '<SALE>': it is not a whole number\n"),
        (
            &["sale", "edit", "1", "--item", "2", "--price", "4.99"],
            "currency's smallest unit: 4999 for 49.99",
        ),
        (&["sale", "pace", "3", "30", "100001"], "write a number from 0 to 100000, or all"),
        (&["sale", "restock", "3", "30", "0"], "error: invalid value '0' for '<UNITS>'"),
        (&["draw", "verify", "draw.txt", "--key", "5f0c"], "a public key is 64 hexadecimal digits"),
        (&["sale", "restock", "3", "30", "1", "--key", "a b"], "write 1 to 64 visible ASCII characters"),
        (
            &["sale", "edit", "1", "--price", "5"],
            "error: the following required arguments were not provided: --item <PRODUCT>\n",
        ),
        (&["sale", "create"], "error: the following required arguments were not provided"),
        (&["sale", "create", "--title", "t", "--starts-at", "now"], "required arguments were not provided"),
        (&["sale", "create", "x.toml", "--title", "t"], "cannot be used with"),
        (&["sale", "duplicate", "3"], "--starts-at <TIME>"),
        (&["sale", "duplicate", "3", "--starts-at", "soon"], "write it like 2026-12-01T10:00:00Z"),
        (&["sale", "diff"], "<FILE>"),
        (&["sale", "apply"], "<FILE>"),
        (&["sale", "edit", "1", "--item", "3", "--price", "-1"], "error: invalid value '-1' for '--price"),
        (&["sale", "pause", "1", "--why", &"x".repeat(201)], "201 characters, and 200 are kept"),
        (&["sale", "pause", "1", "--why", "a\nb"], "no line ends, and nothing that turns the direction"),
        (&["sale", "diff", "/dev/zero"], "/dev/zero: can't be read: it has more than 67108864 bytes"),
        (&["orders", "show", &"K7QM".repeat(99)], "a number is like K7QM-3X9F, an id has 40 digits"),
        (&["init", "--yes", "new", "--payment", "99d"], "--payment: "),
        (&["init", "--yes", "new", "--name", "a b"], "--name: "),
        (&["init", "--yes", "new", "--proxies", "10.0.0.0/99"], "--proxies: "),
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
fn a_wrong_file_of_a_sale_exits_64() {
    let directory = tempfile::tempdir().unwrap();
    for (text, reason) in [
        ("title = 't'\nstart = 'now'", "drop.toml:2: unknown field `start`, expected"),
        ("{\"title\":1}", "drop.toml: invalid type: integer `1`, expected a string at line 1 column 10"),
        (
            "title = 't'\nstarts_at = 'soon'\nfor = '1h'\nitem = []",
            "drop.toml:2: starts_at: \"soon\" is no time: write it like",
        ),
        ("title = 't'\nstarts_at = 'now'\nfor = '2'\nitem = []", "drop.toml:3: for: \"2\" is no duration"),
        (
            "title = 't'\nstarts_at = 'now'\nfor = '2h'\n[[item]]\nproduct = 1\nprice = 2\ntotal = 3\n[item.line]\nturn = 'x'",
            "drop.toml:9: turn: \"x\" is no duration",
        ),
        (
            "{\n\"title\": \"t\",\n\"starts_at\": \"soon\", \"for\": null, \"item\": []}",
            "drop.toml: starts_at: \"soon\" is no time: write it like 2026-12-01T10:00:00Z, 2026-12-01T11:00:00+01:00, now or +60s \
             at line 3 column ",
        ),
        ("title = 't'\nstarts_at = 'now'\nitem = []", "say when the sale ends: --for 2h or --ends-at"),
        (
            "title = 't'\nstarts_at = 'now'\nfor = '2h'\nends_at = '+2h'\nitem = []",
            "say once when the sale ends: either --for or --ends-at",
        ),
    ] {
        std::fs::write(directory.path().join("drop.toml"), text).unwrap();
        let (code, stdout, stderr) = run(directory.path(), &["sale", "create", "drop.toml"]);
        assert_eq!((code, stdout.as_str()), (64, ""), "{text}");
        assert!(stderr.starts_with("error: ") && stderr.contains(reason), "{stderr}");
        assert_eq!(stderr.lines().count(), 1, "{stderr}");
    }
}

#[test]
fn the_printed_defaults_are_a_valid_file() {
    let directory = tempfile::tempdir().unwrap();
    let (code, defaults, _) = run(directory.path(), &["config"]);
    assert_eq!((code, defaults.as_str()), (0, server::config::DEFAULTS));
    std::fs::write(directory.path().join("doorbuster.toml"), defaults).unwrap();
    let check = || {
        let mut check = doorbuster(directory.path());
        check.args(["config", "--check", "doorbuster.toml"]).env("DOORBUSTER_HTTP_LISTEN", "127.0.0.1:0");
        check
    };
    let (code, stdout, stderr) = outcome(check().output().unwrap());
    assert_eq!((code, stdout.as_str()), (64, ""), "as a start would say");
    assert!(stderr.starts_with("auth.buyer = \"token\" needs the secret"), "{stderr}");
    let checked = check().env("DOORBUSTER_AUTH_TOKEN_SECRET", "0123456789abcdefghijklmnopqrstuv").output();
    let (code, stdout, stderr) = outcome(checked.unwrap());
    assert_eq!((code, stdout.as_str(), stderr.as_str()), (0, "doorbuster.toml: ok\n", ""));
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1, "nothing was made");
}

/// What a start would stumble over is found by the check.
#[test]
fn a_check_opens_what_a_start_opens() {
    let directory = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(directory.path().join(name), text).unwrap();
    write("secret", "0123456789abcdefghijklmnopqrstuv");
    write("no-directory", "");
    let check = |config: &str, more: &[&str]| {
        write("d.toml", config);
        run(directory.path(), &[&["config", "--check", "d.toml"][..], more].concat())
    };
    let secret = "[http]\nlisten = \"127.0.0.1:0\"\n[auth]\ntoken_secret_file = \"secret\"\n";
    for (config, complaint) in [
        (
            "[auth]\ntoken_secret_file = \"none\"\n".to_owned(),
            "auth.token_secret_file = \"none\" can't be read: No such file or directory (os error 2), looked for in /",
        ),
        (format!("{secret}[ledger]\ndata_dir = \"no-directory/ledger\"\n"), "no-directory: is no directory"),
        (
            format!("{secret}[figures]\nhistory_dir = \"no-directory/figures\"\n"),
            "figures.history_dir = \"no-directory/figures\" can't be used: no-directory: is no directory",
        ),
        (
            format!("{secret}[ledger]\nsigning_key_file = \"secret\"\n"),
            "the signing key secret can't be used",
        ),
        (
            secret.replace("[http]", "[http]\ntls_certificate_file = \"secret\"\ntls_key_file = \"secret\""),
            "holds no certificate",
        ),
    ] {
        let (code, stdout, stderr) = check(&config, &[]);
        assert_eq!((code, stdout.as_str()), (64, ""), "{stderr}");
        assert!(stderr.contains(complaint), "{stderr}");
    }
    let (code, stdout, stderr) = check(secret, &[]);
    assert_eq!((code, stdout.as_str()), (0, "d.toml: ok\n"));
    assert_eq!(
        stderr,
        "warning: auth.token_secret_file = \"secret\" is a secret that everybody on this machine can read: chmod 600 secret\n"
    );
    let endpoint = "[[webhooks.endpoints]]\nname = \"shop\"\nurl = \"http://127.0.0.1:1/\"\nsecret_file = \"webhook\"\nallow_private = true\n";
    write("webhook", "whsec_MDEyMzQ1Njc4OWFiY2RlZmdoaWprbG1ub3BxcnN0dXY=");
    let (code, _, stderr) = check(&format!("{secret}{endpoint}"), &[]);
    assert!(
        stderr.contains("secret_file of webhooks.endpoints = \"webhook\" is a secret that"),
        "{code} {stderr}"
    );
    let unreachable = format!(
        "{secret}[cluster]\nenabled = true\n[gate]\naddresses = [\"127.0.0.1:1\"]\n\
         [queue]\nname_servers = [\"127.0.0.1:1\"]\n[ledger]\nmysql_address = \"127.0.0.1:1\"\n"
    );
    let (code, _, stderr) = check(&unreachable, &["--connect"]);
    assert_eq!(code, 69, "{stderr}");
    for engine in ["127.0.0.1:1", "the gate (Redis)", "the brokers (RocketMQ)"] {
        assert!(stderr.contains(engine), "{stderr}");
    }
    assert!(!stderr.contains(['{', '}']), "no debug output: {stderr}");
    for (key, none) in [
        ("gate.addresses", unreachable.replace("addresses = [\"127.0.0.1:1\"]", "addresses = []")),
        ("queue.name_servers", unreachable.replace("name_servers = [\"127.0.0.1:1\"]", "name_servers = []")),
    ] {
        let (code, _, stderr) = check(&none, &["--connect"]);
        assert!(
            code == 64 && stderr.contains(key) && stderr.contains("is empty: name at least one"),
            "{code} {stderr}"
        );
        assert!(!stderr.contains("panicked") && !stderr.contains("at :"), "{stderr}");
    }
}

/// `config --check` said ok to each of these, and of several only the first.
#[test]
fn a_check_says_all_that_is_wrong_a_line_each() {
    let directory = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(directory.path().join(name), text).unwrap();
    std::fs::create_dir(directory.path().join("history")).unwrap();
    write("history/figures.db", &"no history at all, and longer than a header of SQLite is: ".repeat(9));
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken_at = taken.local_addr().unwrap();
    write(
        "d.toml",
        &format!(
            "[http]\nlisten = \"{taken_at}\"\noperator_listen = \"192.0.2.1:0\"\n\
             [ledger]\ndata_dir = \"/proc/shop\"\nsynchronos = \"full\"\n\
             [figures]\nhistory_dir = \"history\"\n\
             [auth]\ntoken_secret_file = \"none\"\noperator_token_file = \"none-either\"\n"
        ),
    );
    let (code, stdout, stderr) = run(directory.path(), &["config", "--check", "d.toml"]);
    assert_eq!((code, stdout.as_str()), (64, ""), "{stderr}");
    let lines: Vec<_> = stderr.lines().collect();
    let found = [
        "d.toml:6: unknown key \"ledger.synchronos\"; did you mean \"ledger.synchronous\"?".to_owned(),
        "auth.token_secret_file = \"none\" can't be read".to_owned(),
        "auth.operator_token_file = \"none-either\" can't be read".to_owned(),
        "ledger.data_dir = \"/proc/shop\" can't be used: /proc: ".to_owned(),
        "history/figures.db is no history of figures; a server would sell, and keep no history: move it away".to_owned(),
        format!("{taken_at} can't be served (Address already in use (os error 98)): another program serves there; stop it, or give another http.listen"),
        "192.0.2.1:0 can't be served (Cannot assign requested address (os error 99)): give another http.operator_listen".to_owned(),
    ];
    assert_eq!(lines.len(), found.len(), "{stderr}");
    for (line, found) in lines.iter().zip(&found) {
        assert!(line.starts_with(found), "{found} in\n{stderr}");
    }
    write("secret", "0123456789abcdefghijklmnopqrstuv");
    write("d.toml", &format!("[http]\nlisten = \"{taken_at}\"\n[auth]\ntoken_secret_file = \"secret\"\n"));
    let (code, _, stderr) = run(directory.path(), &["config", "--check", "d.toml"]);
    assert!(code == 69 && stderr.contains("stop it, or give another http.listen\n"), "{code} {stderr}");
    // Those of the server that runs on this file are no fault of it.
    let options = sqlite::Options {
        data_dir: directory.path().join("var/doorbuster"),
        synchronous: sqlite::Synchronous::Off,
        checkpoint_pages: 100,
        vfs: None,
    };
    let served = sqlite::SqliteLedger::open(options).unwrap();
    assert_eq!(run(directory.path(), &["config", "--check", "d.toml"]).0, 0, "while a server has it");
    served.close().unwrap();
}

/// A certificate of last spring was ok, and one that is missing hid that there is no secret.
#[test]
fn a_check_looks_until_when_the_certificate_is_valid_and_hides_nothing_behind_it() {
    let directory = tempfile::tempdir().unwrap();
    let file = |name: &str| format!("{}/../server/tests/data/{name}", env!("CARGO_MANIFEST_DIR"));
    let check = |certificate: &str, auth: &str| {
        let tls = format!(
            "tls_certificate_file = {certificate:?}\ntls_key_file = {:?}\n",
            file("localhost.key.pem")
        );
        let config =
            format!("[http]\nlisten = \"127.0.0.1:0\"\n{tls}[ledger]\ndata_dir = \"data\"\n[auth]\n{auth}");
        std::fs::write(directory.path().join("d.toml"), config).unwrap();
        run(directory.path(), &["config", "--check", "d.toml"])
    };
    std::fs::write(directory.path().join("secret"), "0123456789abcdefghijklmnopqrstuv").unwrap();
    let auth = "token_secret_file = \"secret\"\n";
    let (code, _, stderr) = check(&file("localhost.cert.pem"), auth);
    assert_eq!(code, 0, "{stderr}");
    let (code, _, stderr) = check(&file("localhost-expired.cert.pem"), auth);
    assert!(
        code == 64 && stderr.ends_with(" expired at 2020-04-01T00:00:00Z: renew it\n"),
        "{code} {stderr}"
    );
    let (code, _, stderr) = check("missing.pem", "");
    assert!(code == 64 && stderr.contains("missing.pem can't be read"), "{code} {stderr}");
    assert!(stderr.contains("\nauth.buyer = \"token\" needs the secret"), "{stderr}");
}

/// One that a start would refuse, and one that it would make, or has made.
#[test]
fn a_check_opens_the_ledger_and_makes_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(directory.path().join(name), text).unwrap();
    write("secret", "0123456789abcdefghijklmnopqrstuv");
    write(
        "d.toml",
        "[http]\nlisten = \"127.0.0.1:0\"\n[auth]\ntoken_secret_file = \"secret\"\n[ledger]\ndata_dir = \"of a #1\"\n",
    );
    let check = || run(directory.path(), &["config", "--check", "d.toml"]);
    let dir = directory.path().join("of a #1");
    let files =
        || std::fs::read_dir(&dir).unwrap().map(|file| file.unwrap().file_name()).collect::<BTreeSet<_>>();
    std::fs::create_dir(&dir).unwrap();
    assert_eq!((check().0, files().len()), (0, 0));
    std::fs::write(
        dir.join("ledger.db"),
        "no ledger at all, and longer than a header of SQLite is: ".repeat(99),
    )
    .unwrap();
    let (code, stdout, stderr) = check();
    assert_eq!((code, stdout.as_str(), files().len()), (64, "", 1), "{stderr}");
    assert!(stderr.contains("of a #1/ledger.db is not a ledger of doorbuster"), "{stderr}");
    std::fs::remove_file(dir.join("ledger.db")).unwrap();
    let options = sqlite::Options {
        data_dir: dir.clone(),
        synchronous: sqlite::Synchronous::Off,
        checkpoint_pages: 100,
        vfs: None,
    };
    let served = sqlite::SqliteLedger::open(options).unwrap();
    assert_eq!(check().0, 0, "while a server has it");
    served.close().unwrap();
    let before = files();
    assert_eq!(check().0, 0);
    assert_eq!(files(), before, "nothing is made");
    let newer = rusqlite::Connection::open(dir.join("ledger.db")).unwrap();
    newer.pragma_update(None, "user_version", 99).unwrap();
    drop(newer);
    let (code, _, stderr) = check();
    assert!(code == 69 && stderr.contains("has format 99, of a newer doorbuster"), "{code} {stderr}");
}

#[test]
fn a_wrong_configuration_exits_64_with_every_error() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(
        directory.path().join("d.toml"),
        "[admision]\norders_per_s = 1\n[http]\nthreads = 0\nlisten = \"127.0.0.1:0\"\n",
    )
    .unwrap();
    let output = doorbuster(directory.path())
        .args(["config", "--check", "d.toml"])
        .env("DOORBUSTER_HTTP_LISTN", "x")
        .env("DOORBUSTER_AUTH_TOKEN_SECRET", "0123456789abcdefghijklmnopqrstuv")
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

#[test]
fn init_makes_what_a_server_of_ones_own_needs() {
    let directory = tempfile::tempdir().unwrap();
    let mut init = doorbuster(directory.path());
    init.args(["init", "a shop", "--payment", "5m"]);
    init.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = init.spawn().unwrap();
    let answers = "drops.shop.example\n\n10.0.0.0/8, 192.0.2.1\ndata\n";
    child.stdin.take().unwrap().write_all(answers.as_bytes()).unwrap();
    let (code, stdout, stderr) = outcome(child.wait_with_output().unwrap());
    assert_eq!((code, stderr.as_str()), (0, ""), "{stdout}");
    assert!(stdout.contains("On which address and port does it serve? [127.0.0.1:8080] "), "{stdout}");
    let handed_over = stdout.lines().find(|line| line.contains("chown")).unwrap();
    let shown = directory.path().canonicalize().unwrap().join("a shop/token-secret");
    assert!(handed_over.contains(&format!("chown doorbuster: '{}' ", shown.display())), "{handed_over}");
    let mut check = doorbuster(directory.path());
    check.args(["config", "--check", "a shop/doorbuster.toml"]).env("DOORBUSTER_HTTP_LISTEN", "127.0.0.1:0");
    let (code, stdout, stderr) = outcome(check.output().unwrap());
    assert_eq!((code, stdout.as_str(), stderr.as_str()), (0, "a shop/doorbuster.toml: ok\n", ""));
    let read = |name: &str| std::fs::read_to_string(directory.path().join("a shop").join(name)).unwrap();
    let config = read("doorbuster.toml");
    for line in [
        "listen = \"127.0.0.1:8080\"",
        "public_names = [\"drops.shop.example\"]",
        "trusted_proxies = [\"10.0.0.0/8\", \"192.0.2.1\"]",
        "payment_s = 300",
    ] {
        assert!(config.lines().any(|found| found == line), "{line}: {config}");
    }
    for secret in ["token-secret", "operator-token", "payment-secret"] {
        let mode =
            std::fs::metadata(directory.path().join("a shop").join(secret)).unwrap().permissions().mode();
        assert_eq!((mode & 0o777, read(secret).trim().len()), (0o600, 43), "{secret}");
    }
    let (code, _, stderr) = run(directory.path(), &["init", "--yes", "a shop"]);
    assert!(code == 64 && stderr.contains("is there already"), "{stderr}");
    assert_eq!(read("doorbuster.toml"), config);
}

/// The first answer that could not be taken ended it, and all that were given before had to be given again.
#[test]
fn init_asks_again_on_a_terminal_and_says_what_is_wrong() {
    let directory = tempfile::tempdir().unwrap();
    let (mut emulator, program) = terminal(24, 80);
    let mut init = doorbuster(directory.path());
    init.arg("init").stdin(program).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = init.spawn().unwrap();
    drop(init);
    let answers = "https://shop\ndrops.shop.example\nnowhere\n\neverywhere\n\ndata\n0s\n5m\n";
    emulator.write_all(answers.as_bytes()).unwrap();
    let (code, stdout, stderr) = outcome(child.wait_with_output().unwrap());
    assert_eq!((code, stderr.as_str()), (0, ""), "{stdout}");
    for (question, wrong) in [
        ("Under which name", "http.public_names holds \"https://shop\": write a name alone"),
        ("On which address", "write an address with a port"),
        ("Networks of the proxies", "http.trusted_proxies holds \"everywhere\""),
        ("How long may a buyer", "sale.payment_s"),
    ] {
        assert!(stdout.contains(wrong) && stdout.matches(question).count() == 2, "{question}: {stdout}");
    }
    let config = std::fs::read_to_string(directory.path().join("doorbuster.toml")).unwrap();
    assert!(config.contains("payment_s = 300"), "{config}");
}

#[test]
fn init_leaves_nothing_of_a_wrong_answer() {
    let directory = tempfile::tempdir().unwrap();
    for (arguments, complaint) in [
        (&["--proxies", "everywhere"][..], "http.trusted_proxies"),
        (&["--name", "https://shop.example"], "http.public_names"),
        (&["--payment", "0s"], "sale.payment_s"),
    ] {
        let (code, _, stderr) = run(directory.path(), &[&["init", "--yes"][..], arguments].concat());
        assert!(code == 64 && stderr.contains(complaint), "{code} {stderr}");
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0, "{arguments:?}");
    }
    let mut without = doorbuster(directory.path());
    let (code, _, stderr) = outcome(without.arg("init").stdin(Stdio::null()).output().unwrap());
    assert_eq!((code, stderr.as_str()), (64, "error: no answer; --yes takes what stands in brackets\n"));
    let (code, _, stderr) = run(directory.path(), &["init", "--listen", "nowhere"]);
    assert!(code == 64 && stderr.contains("localhost:8080"), "{stderr}");
}

/// A secret that a full disk had no room for left an empty draft. A limit on files is met on every file system.
#[test]
fn init_leaves_nothing_where_there_is_no_room() {
    for (kib, named) in [(0, "token-secret"), (1, "doorbuster.service")] {
        let directory = tempfile::tempdir().unwrap();
        let limited = format!("ulimit -f {kib}; trap '' XFSZ; exec \"$0\" init --yes");
        let mut init = Command::new("bash");
        init.args(["-c", &limited, env!("CARGO_BIN_EXE_doorbuster")])
            .current_dir(directory.path())
            .env_clear();
        let (code, stdout, stderr) = outcome(init.output().unwrap());
        assert_eq!((code, stdout.as_str()), (69, ""), "{stderr}");
        let says = format!("{named}: can't be written: File too large (os error 27); nothing was made");
        assert!(stderr.contains(&says), "{stderr}");
        let left: Vec<_> = std::fs::read_dir(directory.path()).unwrap().collect();
        assert!(left.is_empty(), "{left:?}");
    }
}

#[test]
fn systemd_understands_the_unit_of_init() {
    let directory = tempfile::tempdir().unwrap();
    let (code, _, stderr) = run(directory.path(), &["init", "--yes", "--listen", "127.0.0.1:80"]);
    assert_eq!(code, 0, "{stderr}");
    let unit = std::fs::read_to_string(directory.path().join("doorbuster.service")).unwrap();
    assert!(unit.contains("AmbientCapabilities=CAP_NET_BIND_SERVICE\n"), "{unit}");
    let verify = ["verify", "--man=no", "doorbuster.service"];
    let mut analyze = Command::new("systemd-analyze");
    analyze.args(verify).current_dir(directory.path());
    let verified = analyze.output().expect("systemd-analyze, of Debian's systemd");
    let (_, _, said) = outcome(verified);
    let ours: Vec<_> = said.lines().filter(|line| line.contains("doorbuster.service")).collect();
    assert!(ours.is_empty(), "{ours:?}");
}
