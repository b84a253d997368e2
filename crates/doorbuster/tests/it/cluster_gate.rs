//! A gate that is there and can't be used, or that is away: what operators see of it, and that buyers are
//! never answered sold out.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::cluster::{SOON, accepted, ask_once, code, configure, configure_on, operator, place_once};
use crate::cluster_queues::metric;
use crate::engines::Engines;
use crate::serving::Serving;

/// How a fault of the gate begins in the log; what else a busy machine makes late is none of these tests' business.
const GATE_NOT_READY: &str = "not ready: the stock gate";
/// And one of the broker.
const BROKER_NOT_READY: &str = "not ready: the broker";
/// A start that takes longer is a fault.
const START_PATIENCE: Duration = Duration::from_secs(10);

/// A server whose log goes into a file.
pub(crate) fn serve_logged(directory: &Path, password: &str) -> Serving {
    let mut command = Command::new("/bin/sh");
    command.current_dir(directory).env_clear().envs(gate_password(password));
    command.args(["-c", "exec \"$0\" \"$@\" 2>>log", env!("CARGO_BIN_EXE_doorbuster")]);
    command.args(["serve", "--demo", "--config", "doorbuster.toml", "--listen", "127.0.0.1:0"]);
    command.args(["--data-dir", "secrets"]);
    Serving::start_unseen(command)
}

fn gate_password(password: &str) -> Option<(&'static str, &str)> {
    (!password.is_empty()).then_some(("DOORBUSTER_GATE_PASSWORD", password))
}

/// Lines of the log that hold this.
pub(crate) fn logged(directory: &Path, text: &str) -> Vec<String> {
    let log = std::fs::read_to_string(directory.join("log")).unwrap();
    log.lines().filter(|line| line.contains(text)).map(str::to_owned).collect()
}

fn redis(engines: &Engines, command: &str) {
    let mut stream = TcpStream::connect(engines.address("redis")).unwrap();
    stream.set_read_timeout(Some(SOON)).unwrap();
    write!(stream, "{command}\r\n").unwrap();
    let mut answer = [0; 5];
    stream.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"+OK\r\n", "{command}");
}

/// Asks until the answer is as it should be.
pub(crate) fn until(what: &str, mut look: impl FnMut() -> (bool, String)) {
    let started = Instant::now();
    loop {
        let (is, text) = look();
        if is {
            return;
        }
        assert!(started.elapsed() < SOON, "{what}: {text}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

pub(crate) fn get(server: &Serving, path: &str) -> (u16, String) {
    let response = ask_once(server, "GET", path, &[], "");
    (response.status, response.body)
}

pub(crate) fn until_ready(server: &Serving) {
    until("it is ready", || {
        let (status, body) = get(server, "/readyz");
        (status == 200, body)
    });
}

#[test]
fn a_full_redis_is_not_ready_and_says_why_as_long_as_it_is_full() {
    let dir = tempfile::tempdir().unwrap();
    let engines = Engines::private(&["redis"], &[]);
    configure_on(&engines.address("redis"), dir.path(), "full", "");
    let started = Instant::now();
    let server = serve_logged(dir.path(), "");
    until_ready(&server);
    let is_quick = started.elapsed() < START_PATIENCE;
    accepted(&server, 1, "k", 29);
    let lines = logged(dir.path(), "not ready");
    assert!(lines.is_empty() || !is_quick, "a start is no fault: {lines:?}");
    let before = logged(dir.path(), GATE_NOT_READY).len();

    let check = || {
        let mut check = crate::doorbuster(dir.path());
        check.args(["config", "--check", "doorbuster.toml", "--connect"]);
        let secret = ("DOORBUSTER_AUTH_TOKEN_SECRET", "0123456789abcdefghijklmnopqrstuv");
        crate::outcome(check.envs([secret]).output().unwrap())
    };
    assert_eq!(check(), (0, "doorbuster.toml: ok\n".to_owned(), String::new()));

    redis(&engines, "CONFIG SET maxmemory 1mb");
    until("it is not ready", || {
        let (status, body) = get(&server, "/readyz");
        (status == 503 && body.contains("its memory is full"), body)
    });
    let (code, _, found) = check();
    assert!(code == 69 && found.contains("its memory is full"), "{code} {found}");
    // Orders come all the while, and several looks at Redis: nothing contradicts what was logged.
    let started = Instant::now();
    let mut member = 1;
    while started.elapsed().as_secs() < 3 {
        member += 1;
        let key = if member % 2 == 0 { "k" } else { "" };
        assert_eq!(place_once(&server, member, key, 29, 1).status, 503);
        let (status, body) = get(&server, "/readyz");
        assert!(status == 503 && body.contains("its memory is full"), "{body}");
    }
    redis(&engines, "CONFIG SET maxmemory 0");
    until_ready(&server);
    accepted(&server, member + 1, "k", 29);
    let lines = &logged(dir.path(), GATE_NOT_READY)[before..];
    assert!(matches!(lines, [line] if line.contains("its memory is full")), "{lines:?}");
    assert_eq!(logged(dir.path(), "over: the stock gate").len(), before + 1);
}

#[test]
fn what_redis_says_reaches_the_operator_and_the_password_does_not() {
    for (name, setting, password, said) in [
        ("taken_for_cluster", "mode = \"cluster\"", "", "cluster support disabled"),
        ("nobody", "user = \"nobody\"", "a-wrong-secret", "WRONGPASS"),
    ] {
        let dir = tempfile::tempdir().unwrap();
        configure(dir.path(), name, "");
        let path = dir.path().join("doorbuster.toml");
        let config = std::fs::read_to_string(&path).unwrap();
        std::fs::write(&path, config.replace("[gate]\n", &format!("[gate]\n{setting}\n"))).unwrap();
        let server = serve_logged(dir.path(), password);
        until(name, || {
            let (status, body) = get(&server, "/readyz");
            (status == 503 && body.contains(said), body)
        });
        until(name, || {
            let mut audit = crate::doorbuster(dir.path());
            audit.args(["audit", "--config", "doorbuster.toml"]).envs(gate_password(password));
            let (code, _, errors) = crate::outcome(audit.output().unwrap());
            assert!(password.is_empty() || !errors.contains(password), "{errors}");
            (code == 69 && errors.contains(said), errors)
        });
        assert_eq!(server.stop(), 0);
        let lines = logged(dir.path(), GATE_NOT_READY);
        assert!(matches!(&lines[..], [line] if line.contains(said)), "{lines:?}");
        assert!(password.is_empty() || logged(dir.path(), password).is_empty());
    }
}

#[test]
fn what_the_name_server_means_reaches_the_operator_in_one_line() {
    // By default RocketMQ takes TLS too, with a certificate that nobody vouches for.
    let dir = tempfile::tempdir().unwrap();
    configure(dir.path(), "unvouched", "");
    let path = dir.path().join("doorbuster.toml");
    let config = std::fs::read_to_string(&path).unwrap();
    let authority = concat!(env!("CARGO_MANIFEST_DIR"), "/../server/tests/data/localhost.cert.pem");
    let tls = format!("[queue]\ntls = true\ntls_authority_file = \"{authority}\"\n");
    std::fs::write(&path, config.replace("[queue]\n", &tls)).unwrap();
    let server = serve_logged(dir.path(), "");
    let address = Engines::shared(&["rocketmq"]).address("rocketmq-namesrv");
    let is_of_authority =
        |line: &str| line.contains(&address) && line.contains("check queue.tls_authority_file");
    until("it says why", || {
        let (status, body) = get(&server, "/readyz");
        (status == 503 && is_of_authority(&body), body)
    });
    // Whoever makes the topics may have said so first; who looks after the broker asks the name server too.
    until("it is logged of the broker", || {
        let lines = logged(dir.path(), BROKER_NOT_READY);
        (!lines.is_empty(), format!("{lines:?}"))
    });
    assert_eq!(server.stop(), 0);
    let lines = logged(dir.path(), BROKER_NOT_READY);
    assert!(matches!(&lines[..], [line] if is_of_authority(line)), "{lines:?}");
}

#[test]
fn a_server_that_starts_without_redis_shows_what_the_ledger_has() {
    let dir = tempfile::tempdir().unwrap();
    let engines = Engines::private(&["redis"], &[]);
    configure_on(&engines.address("redis"), dir.path(), "away", "");
    let first = serve_logged(dir.path(), "");
    until_ready(&first);
    let order = accepted(&first, 1, "k", 29);
    let left = |server: &Serving| get(server, "/cache/stock?productId=29").1;
    until("the order is in the ledger", || {
        let sold = ask_once(&first, "GET", "/metrics", &[], "").body;
        (sold.contains("doorbuster_units_held 1"), sold)
    });
    until("its entry is counted", || {
        let entries = metric(&first, "doorbuster_ledger_entries_total");
        (entries > 0, entries.to_string())
    });
    assert_eq!(left(&first), "9999999");
    assert_eq!(first.stop(), 0);
    engines.kill("redis");

    let server = serve_logged(dir.path(), "");
    // From the first answer on.
    assert_eq!(left(&server), "9999999");
    let (_, stock) = get(&server, "/api/v1/stock?sale=3&product=29");
    assert!(stock.contains("\"available\":9999999,"), "{stock}");
    let (status, page) = get(&server, "/seckill_3_29.html");
    assert!(status == 200 && !page.contains("Sold out"), "{page}");
    let refused = place_once(&server, 2, "", 29, 1);
    assert_eq!((refused.status, code(&refused).as_str()), (503, "unavailable"));
    assert_eq!(left(&server), "9999999");
    let [unavailable, rejected] =
        ["unavailable", "rejected"].map(|what| metric(&server, &format!("doorbuster_orders_{what}_total")));
    assert_eq!((unavailable, rejected), (1, 0), "admission has no part in it");
    // Nobody can say whether there is an order that the ledger does not have: it may be made up.
    let made_up = format!("{}{:032x}", &order[..8], 0xdead_beef_u32);
    for (method, path, expected) in [
        ("GET", format!("/api/v1/orders/{order}"), (200, "")),
        ("GET", format!("/api/v1/orders/{made_up}"), (503, "outcome_unknown")),
        ("POST", format!("/api/v1/orders/{made_up}/cancel"), (503, "unavailable")),
        ("POST", format!("/api/v1/orders/{made_up}/pay"), (503, "outcome_unknown")),
    ] {
        let answer = ask_once(&server, method, &path, &[("memberId", "1")], "");
        assert_eq!((answer.status, code(&answer).as_str()), expected, "{method} {path}: {answer:?}");
    }
    engines.up(&["redis"]);
    until_ready(&server);
    accepted(&server, 2, "k", 29);
}

/// Of the gates that are there, whatever they say.
fn gates(engines: &Engines) -> usize {
    let address = engines.address("redis");
    let (host, port) = address.rsplit_once(':').unwrap();
    let mut scan = Command::new("redis-cli");
    scan.args(["-h", host, "-p", port, "--scan", "--pattern", "*}:s"]);
    String::from_utf8(scan.output().unwrap().stdout).unwrap().lines().count()
}

/// A shop has had many sales: what is over must not hold up what sells.
#[test]
fn a_lost_gate_of_a_sale_that_is_over_is_built_when_it_is_needed() {
    let dir = tempfile::tempdir().unwrap();
    let engines = Engines::private(&["redis"], &[]);
    configure_on(&engines.address("redis"), dir.path(), "lost_and_over", "");
    let server = serve_logged(dir.path(), "");
    until_ready(&server);
    let built = |gates_wanted: usize| {
        until("its gates are there", || {
            let found = gates(&engines);
            (found == gates_wanted, format!("{found} of {gates_wanted} gates"))
        });
    };
    built(1004);
    assert_eq!(operator(&server, "/api/v1/sales/3/end", "e", "").status, 200);
    redis(&engines, "flushall");
    // A look that began before the end may still ask for all of them: then they are lost once more.
    let mut steady = 0;
    until("only those of the other sales are built", || {
        let found = gates(&engines);
        if found > 1002 {
            redis(&engines, "flushall");
        }
        steady = if found == 1002 { steady + 1 } else { 0 };
        (steady == 10, format!("{found} of 1002 gates"))
    });
    until("it is corrected", || {
        let answer = operator(&server, "/api/v1/sales/3/items/30/correct", "c", r#"{"units": 1}"#);
        assert!(matches!(answer.status, 200 | 503), "{answer:?}");
        (answer.status == 200, answer.body)
    });
    built(1003);
    until("what it was asked for is at rest", || {
        let mut audit = crate::doorbuster(dir.path());
        audit.args(["audit", "--config", "doorbuster.toml"]);
        let (code, printed, errors) = crate::outcome(audit.output().unwrap());
        (code == 0 && printed.contains("; at rest:"), printed + &errors)
    });
}
