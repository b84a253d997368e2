//! `doorbuster watch`, on a real server and on one that goes away.

use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Lines, Read};
use std::path::Path;
use std::process::{Child, ChildStderr, ChildStdout, Command, Stdio};

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use serde_json::{Value, json};

use crate::exchange::Connection;
use crate::serving::{OPERATOR, Serving};
use crate::stand_in::StandIn;
use crate::{doorbuster, outcome};

/// A `doorbuster watch` that runs.
struct Watch {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
    said: Lines<BufReader<ChildStderr>>,
}

impl Watch {
    fn start(directory: &Path, url: &str, arguments: &[&str]) -> Watch {
        let mut command = watch(directory, url, arguments);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let said = BufReader::new(child.stderr.take().unwrap()).lines();
        Watch { child, lines, said }
    }

    fn line(&mut self) -> String {
        self.lines.next().expect("it goes on").unwrap()
    }

    fn figures(&mut self) -> Value {
        serde_json::from_str(&self.line()).unwrap()
    }

    fn says(&mut self) -> String {
        self.said.next().expect("it goes on").unwrap()
    }

    /// What it says but that the figures are old.
    fn says_of_the_server(&mut self) -> String {
        std::iter::repeat_with(|| self.says()).find(|said| !is_of_age(said)).unwrap()
    }

    /// It is interrupted, and has said nothing, or that the figures are old: they come after orders, so on a busy machine they are.
    fn ends_well(self) {
        let (code, said) = self.interrupt();
        let (of_age, other): (Vec<_>, Vec<_>) = said.into_iter().partition(|said| is_of_age(said));
        assert_eq!(other, Vec::<String>::new());
        assert!(code == 0 || (code == 1 && !of_age.is_empty()), "{code} {of_age:?}");
    }

    /// As Ctrl-C does: the exit code, and what it has said since it was asked last.
    fn interrupt(mut self) -> (i32, Vec<String>) {
        let kill = Command::new("kill").args(["-INT", &self.child.id().to_string()]).status().unwrap();
        assert!(kill.success());
        let status = self.child.wait().unwrap();
        let said = self.said.map(Result::unwrap).collect();
        (status.code().expect("it ends by itself, not by the signal"), said)
    }
}

fn is_of_age(said: &str) -> bool {
    said.contains("the figures are ") && said.contains(" old: ")
}

fn watch(directory: &Path, url: &str, arguments: &[&str]) -> Command {
    let mut command = doorbuster(directory);
    command.arg("watch").args(arguments).args(["--server", url]).env("DOORBUSTER_OPERATOR_TOKEN", OPERATOR);
    command
}

#[test]
fn what_happens_is_seen_within_seconds_as_json_and_as_lines() {
    let directory = tempfile::tempdir().unwrap();
    let server = Serving::demo(&directory.path().join("data"), &[]);
    let url = format!("http://{}", server.address);
    let mut json = Watch::start(directory.path(), &url, &["3", "--json"]);
    let before = json.figures();
    assert_eq!((&before["totals"]["accepted"], &before["health"]["ready"]), (&0.into(), &true.into()));
    assert_eq!(before["sales"].as_array().unwrap().len(), 1, "the one that was named: {before}");
    let mut connection = Connection::open(server.address).unwrap();
    let body = r#"{"sale": 3, "product": 29}"#;
    let placed = connection.exchange("POST", "/api/v1/orders", &[("memberId", "7")], body).unwrap();
    assert_eq!(placed.status, 201);
    let seen =
        std::iter::repeat_with(|| json.figures()).find(|seen| seen["totals"]["accepted"] == 1).unwrap();
    assert!(seen["number"].as_u64() > before["number"].as_u64(), "{seen}");
    assert_eq!(seen["health"]["ready"], true);
    json.ends_well();

    let mut lines = Watch::start(directory.path(), &url, &[]);
    let line = lines.line();
    assert!(line.contains("/s  p99 ") && line.contains("  sold 0  ") && !line.contains('\x1b'), "{line}");
    lines.ends_well();
    assert_eq!(server.stop(), 0);
}

/// A terminal, as its emulator and as a program has it.
pub(crate) fn terminal(rows: u16, columns: u16) -> (File, File) {
    let emulator = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&emulator).unwrap();
    unlockpt(&emulator).unwrap();
    let name = ptsname(&emulator, Vec::new()).unwrap();
    let program = OpenOptions::new().read(true).write(true).open(name.to_str().unwrap()).unwrap();
    resize(&emulator, rows, columns);
    (File::from(emulator), program)
}

fn resize(emulator: impl std::os::fd::AsFd, rows: u16, columns: u16) {
    tcsetwinsize(emulator, Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 }).unwrap();
}

/// The lines of the next screen that is drawn whole.
fn drawn(emulator: &mut File, read: &mut Vec<u8>) -> Vec<String> {
    loop {
        let text = String::from_utf8_lossy(read).into_owned();
        if let Some((screen, rest)) = text.split_once("\x1b[J") {
            *read = rest.as_bytes().to_vec();
            return screen.lines().map(|line| line.replace("\x1b[K", "")).collect();
        }
        let mut bytes = [0; 4096];
        let count = emulator.read(&mut bytes).unwrap();
        assert!(count > 0, "it goes on");
        read.extend(&bytes[..count]);
    }
}

#[test]
fn a_terminal_is_never_given_more_lines_than_it_has_also_after_its_size_changed() {
    let directory = tempfile::tempdir().unwrap();
    let server = Serving::demo(&directory.path().join("data"), &[]);
    let (mut emulator, program) = terminal(10, 60);
    let mut command = watch(directory.path(), &format!("http://{}", server.address), &[]);
    let mut watch = Ended(command.stdout(program).stderr(Stdio::null()).spawn().unwrap());
    // It alone has the terminal.
    drop(command);
    let mut read = Vec::new();
    // Of figures that are old, as on a busy machine, it says less.
    let small = std::iter::repeat_with(|| drawn(&mut emulator, &mut read))
        .find(|screen| !screen[0].contains("UNKNOWN"))
        .unwrap();
    assert_eq!(small.len(), 9, "a line is the cursor's: {small:?}");
    assert!(small[1..].iter().any(|line| line.starts_with("-> ")), "{small:?}");
    assert!(small[8].contains(" lines more, ") && small[8].contains(" sales among them"), "{small:?}");
    resize(&emulator, 60, 200);
    let large =
        std::iter::repeat_with(|| drawn(&mut emulator, &mut read)).find(|screen| screen.len() > 9).unwrap();
    assert!(!large.iter().any(|line| line.contains(" lines more")), "{large:?}");
    watch.0.kill().unwrap();
    watch.0.wait().unwrap();
    assert_eq!(server.stop(), 0);
}

#[test]
fn a_server_that_goes_away_is_reported_and_waited_for() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("data");
    let server = Serving::demo(&data, &[]);
    let address = server.address.to_string();
    let url = format!("http://{address}");
    let mut watch = Watch::start(directory.path(), &url, &["--json"]);
    watch.figures();
    server.kill();
    let gone = watch.says_of_the_server();
    assert!(gone.starts_with("no ") && gone.ends_with("; waiting for it"), "{gone}");
    let again = doorbuster(directory.path())
        .args(["serve", "--demo", "--listen", &address, "--data-dir", "data"])
        .env("DOORBUSTER_OPERATOR_TOKEN", OPERATOR)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    let mut again = Ended(again.unwrap());
    let back = watch.says_of_the_server();
    assert!(back.contains(" answers again, after "), "{back}");
    assert_eq!(watch.figures()["health"]["ready"], true);
    again.0.kill().unwrap();
    again.0.wait().unwrap();
    watch.says_of_the_server();
    assert_eq!(watch.interrupt().0, 69, "nobody answered at the end");
}

/// Lines stopped, and nobody was told why.
#[test]
fn that_the_figures_are_old_is_said_to_whoever_reads_lines() {
    let figures = |age_ms: u64| -> &'static str {
        let figures = json!({
            "number": 1, "at_ms": 1_796_119_200_000_u64, "age_ms": age_ms, "rates": {}, "refused_by_code": {}, "order_route": null,
            "verdict": { "level": "green", "code": "selling", "says": "It sells.", "do": "Nothing to do.", "action": null },
            "health": { "ready": true, "reasons": [], "in_flight": 0, "commit": null, "disk_free_bytes": null, "memory_bytes": null,
                "connections": 0, "processors_busy": null, "refunds_due": 0 },
            "servers": [], "sales": [], "sales_total": 0, "events": [],
        });
        figures.to_string().leak()
    };
    let directory = tempfile::tempdir().unwrap();
    let server = StandIn::start(vec![Some((200, figures(0))), Some((200, figures(35_554)))]);
    let mut watch = Watch::start(directory.path(), &server.url, &[]);
    assert!(watch.line().contains("  green selling  "));
    let said = watch.says();
    assert!(
        said.starts_with("the figures are 35s old: http://") && said.ends_with(" answers, and takes none"),
        "{said}"
    );
    assert!(watch.interrupt().0 != 0, "nobody knows how it goes");
}

#[test]
fn it_ends_at_once_where_there_is_nothing_to_watch() {
    let directory = tempfile::tempdir().unwrap();
    let server = Serving::demo(&directory.path().join("data"), &[]);
    let url = format!("http://{}", server.address);
    let ends = |url: &str, arguments: &[&str], token: &str| {
        let mut command = watch(directory.path(), url, arguments);
        outcome(command.env("DOORBUSTER_OPERATOR_TOKEN", token).output().unwrap())
    };
    for (url, arguments, token, code, says) in [
        ("http://127.0.0.1:1", &[][..], OPERATOR, 69, "no server at"),
        (&url, &[][..], "another-token", 64, "operator's token"),
        (&url, &["77"][..], OPERATOR, 1, "there is no sale 77: `doorbuster sale list`"),
        (&url, &["--every", "10ms"][..], OPERATOR, 64, "from 1s to 1h"),
    ] {
        let (found, stdout, stderr) = ends(url, arguments, token);
        assert_eq!((found, stdout.as_str()), (code, ""), "{stderr}");
        assert!(stderr.contains(says), "{stderr}");
    }
}

/// A sale that there was no room for could not be watched, and the only sale with orders was cut off.
#[test]
fn of_more_sales_than_are_shown_what_matters_comes_first_and_each_can_be_watched() {
    let directory = tempfile::tempdir().unwrap();
    let server = Serving::demo(&directory.path().join("data"), &[]);
    let url = format!("http://{}", server.address);
    let mut connection = Connection::open(server.address).unwrap();
    let mut exchange = |method: &str, path: &str, header: (&str, &str), body: &str, status: u16| {
        let answer = connection.exchange(method, path, &[header], body).unwrap();
        assert_eq!(answer.status, status, "{answer:?}");
        answer.json()
    };
    let token = format!("Bearer {OPERATOR}");
    let operator = ("Authorization", token.as_str());
    let now_ms = exchange("GET", "/api/v1/time", operator, "", 200)["now_ms"].as_u64().unwrap();
    let ends_at_ms = now_ms + 3_600_000;
    for id in 101..=130 {
        let sale = json!({
            "id": id, "title": "One of many", "currency": "EUR", "starts_at_ms": now_ms + id - 200, "ends_at_ms": ends_at_ms,
            "items": [{ "product": 1, "title": "Shoe", "price": 100, "total": 5, "limit": 1 }],
        });
        exchange("POST", "/api/v1/sales", operator, &sale.to_string(), 201);
    }
    exchange("POST", "/api/v1/orders", ("memberId", "7"), r#"{"sale": 101, "product": 1}"#, 201);
    exchange("POST", "/api/v1/sales/102/pause", operator, "", 200);
    let mut json = Watch::start(directory.path(), &url, &["--json"]);
    let first = |seen: &Value| [0, 1].map(|place| seen["sales"][place]["id"].as_u64().unwrap());
    let seen = std::iter::repeat_with(|| json.figures()).find(|seen| first(seen) == [102, 101]).unwrap();
    assert_eq!(seen["verdict"]["code"], "sale_paused", "{seen}");
    assert_eq!(seen["verdict"]["action"], json!({ "kind": "resume", "sale": 102, "product": null }));
    json.ends_well();
    let mut json = Watch::start(directory.path(), &url, &["103", "--json"]);
    assert_eq!(json.figures()["sales"][0]["id"], 103);
    exchange("POST", "/api/v1/orders", ("memberId", "7"), r#"{"sale": 103, "product": 1}"#, 201);
    let seen = std::iter::repeat_with(|| json.figures());
    // What lasts: on a busy machine the one second in which its rate is not 0 may be passed over.
    let has_order = |sale: &Value| sale["units"]["available"] == 4 && sale["rates"]["accepted"].is_f64();
    let seen = seen.take(60).find(|seen| has_order(&seen["sales"][0]));
    assert_eq!(seen.expect("its order is seen")["sales"].as_array().map(Vec::len), Some(1));
    json.ends_well();
    let (code, _, stderr) = outcome(watch(directory.path(), &url, &["999"]).output().unwrap());
    assert_eq!((code, stderr.as_str()), (1, "error: there is no sale 999: `doorbuster sale list`\n"));
    assert_eq!(server.stop(), 0);
}

struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        // After a failed test; one that was ended is gone already.
        drop(self.0.kill());
        drop(self.0.wait());
    }
}
