//! Operators with names, through the real program: on one server and over its restart, and on two of a cluster.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::cluster::{ask_once, configure, serve};
use crate::reload::wait_until;
use crate::serving::{OPERATOR, Serving};
use crate::{doorbuster, outcome};

const REFUNDS: &str = "/api/v1/payments/refunds-due";
/// A stream ends by itself after a minute: well before.
const STREAM_MAX: Duration = Duration::from_secs(30);

/// Exit code, standard output and error of an operator's command.
fn operate(directory: &Path, server: &Serving, token: &str, arguments: &[&str]) -> (i32, String, String) {
    let mut command = doorbuster(directory);
    command.args(arguments).args(["--server", &format!("http://{}", server.address)]);
    outcome(command.env("DOORBUSTER_OPERATOR_TOKEN", token).output().unwrap())
}

fn add(directory: &Path, server: &Serving, arguments: &[&str]) -> String {
    let (code, token, errors) =
        operate(directory, server, OPERATOR, &[&["operators", "add"], arguments].concat());
    assert_eq!((code, errors.as_str()), (0, ""));
    token.trim().to_owned()
}

fn status(server: &Serving, token: &str) -> u16 {
    ask_once(server, "GET", REFUNDS, &[("Authorization", &format!("Bearer {token}"))], "").status
}

/// A stream of the figures, of which the head has come.
fn watch(server: &Serving, token: &str) -> TcpStream {
    let mut stream = TcpStream::connect(server.address).unwrap();
    stream.set_read_timeout(Some(STREAM_MAX)).unwrap();
    write!(
        stream,
        "GET /api/v1/figures/events HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {token}\r\n\r\n",
        server.address
    )
    .unwrap();
    let mut head = [0; 15];
    stream.read_exact(&mut head).unwrap();
    assert_eq!(&head, b"HTTP/1.1 200 OK");
    stream
}

/// Whatever it says until then.
fn wait_until_over(stream: &mut TcpStream) {
    let begun = Instant::now();
    while stream.read(&mut [0; 1 << 16]).unwrap() > 0 {
        assert!(begun.elapsed() < STREAM_MAX, "it goes on as if the token held");
    }
}

#[test]
fn an_operator_works_by_name_and_role_and_the_ledger_says_who_did_what() {
    let directory = tempfile::tempdir().unwrap();
    let data_dir = directory.path().join("data");
    let server = Serving::demo(&data_dir, &[]);
    let otto = add(directory.path(), &server, &["otto", "--role", "operator", "--expires", "30d"]);
    let sam = add(directory.path(), &server, &["sam", "--role", "support"]);
    let operate = |server: &Serving, token: &str, arguments: &[&str]| {
        operate(directory.path(), server, token, arguments)
    };
    let (code, _, errors) = operate(&server, &sam, &["sale", "pause", "3"]);
    assert!(code == 64 && errors.contains("the role operator"), "{errors}");
    let (code, _, errors) = operate(&server, &otto, &["sale", "pause", "3", "--why", "Lager zählt nach"]);
    assert_eq!((code, errors.as_str()), (0, ""));
    let (_, list, _) = operate(&server, OPERATOR, &["operators", "list"]);
    let rows: Vec<_> = list.lines().map(|line| line.split_whitespace().take(2).collect::<Vec<_>>()).collect();
    assert_eq!(rows, [["name", "role"], ["otto", "operator"], ["sam", "support"]], "{list}");
    let (code, _, errors) = operate(&server, OPERATOR, &["operators", "revoke", "nobody"]);
    assert!(code == 1 && errors.contains("no operator of this name"), "{errors}");
    assert_eq!(operate(&server, OPERATOR, &["operators", "revoke", "sam"]).0, 0);
    assert_eq!([status(&server, &sam), status(&server, &otto)], [401, 200]);
    assert_eq!(server.stop(), 0);

    let server = Serving::demo(&data_dir, &[]);
    assert_eq!([status(&server, &sam), status(&server, &otto)], [401, 200], "the ledger knows");
    let (_, log, _) = operate(&server, OPERATOR, &["operators", "log"]);
    let lines: Vec<_> =
        log.lines().map(|line| line.splitn(3, "  ").skip(1).collect::<Vec<_>>().join(" ")).collect();
    let expected = [
        "root operator_revoked sam",
        "otto sale_paused sale 3: Lager zählt nach",
        "root operator_added sam",
        "root operator_added otto",
    ];
    assert_eq!(lines, expected, "{log}");
    assert_eq!(server.stop(), 0);
    let bytes = std::fs::read(data_dir.join("ledger.db")).unwrap();
    assert!(
        !bytes.windows(otto.len()).any(|window| window == otto.as_bytes()),
        "a token is not in the ledger"
    );
    let (code, audited, errors) = crate::run(directory.path(), &["audit", "--data-dir", "data"]);
    assert_eq!(code, 0, "{audited}{errors}");
}

#[test]
fn a_token_that_one_server_revoked_ends_on_the_other() {
    let directory = tempfile::tempdir().unwrap();
    configure(directory.path(), "named_operators", "");
    let (one, other) = (serve(directory.path()), serve(directory.path()));
    let sam = add(directory.path(), &one, &["sam", "--role", "support"]);
    assert_eq!(status(&one, &sam), 200);
    // By the list: a token that is tried before it is known is a guess, and those are bounded.
    wait_until("the other server knows the operator", || {
        operate(directory.path(), &other, OPERATOR, &["operators", "list"]).1.contains("sam")
    });
    assert_eq!(status(&other, &sam), 200);
    let mut watched = watch(&one, &sam);
    let (code, _, errors) = operate(directory.path(), &other, OPERATOR, &["operators", "revoke", "sam"]);
    assert_eq!((code, errors.as_str()), (0, ""));
    assert_eq!(status(&other, &sam), 401);
    // That it takes 2 s at most follows from how often it looks, which `cluster/operators` asserts: here, that it comes to it.
    wait_until("the first server refuses the token", || status(&one, &sam) != 200);
    wait_until_over(&mut watched);
    let (code, log, errors) = operate(directory.path(), &one, OPERATOR, &["operators", "log"]);
    assert!(code == 0 && log.contains("root  operator_revoked sam"), "{log}{errors}");
    assert_eq!([one.stop(), other.stop()], [0, 0]);
}
