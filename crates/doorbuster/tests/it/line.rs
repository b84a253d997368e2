//! A line through the real program: a sale of it from a file, rounds of SIGKILL in the middle of a rush to it, and the draw of its
//! places by a beacon, which anybody can verify.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use blst::min_sig::SecretKey;
use serde_json::{Value, json};
use server::hex::{hex, unhex};
use server::line_ticket::RECEIPT;
use server::signing::{SigningKey, read_document};

use crate::exchange::{Connection, Response};
use crate::serving::{OPERATOR, Serving};
use crate::{doorbuster, outcome, run};

const ROUNDS: u64 = 8;
const CLIENTS: u64 = 4;
/// Answers of a round before the server is killed.
const ANSWERS: u64 = 150;
pub(crate) const UNITS: u64 = 20;
const PATIENCE: Duration = Duration::from_secs(60);
pub(crate) const LINE: &str = "/api/v1/sales/70/items/5/line";

pub(crate) fn make_sale(directory: &Path, address: SocketAddr) {
    let file = format!(
        "id = 70\ntitle = \"Drop\"\nstarts_at = \"now\"\nfor = \"2h\"\npayment = \"30m\"\n\
         [[item]]\nproduct = 5\nprice = 100\ntotal = {UNITS}\nlimit = 1\nline = {{ turn = \"10m\", grace = \"1s\" }}\n"
    );
    std::fs::write(directory.join("drop.toml"), file).unwrap();
    let server = format!("http://{address}");
    let mut create = doorbuster(directory);
    create.args(["sale", "create", "drop.toml", "--server", &server, "--yes"]);
    let made = outcome(create.env("DOORBUSTER_OPERATOR_TOKEN", OPERATOR).output().unwrap());
    assert!(made.0 == 0 && made.1.contains("item 5 is sold to its line: a turn is 10m long"), "{made:?}");
}

fn send(connection: &mut Connection, buyer: u64, path: &str, body: &str) -> Option<Response> {
    let buyer = buyer.to_string();
    let headers = [("memberId", buyer.as_str()), ("Idempotency-Key", "once")];
    connection.exchange("POST", path, &headers, body).ok()
}

/// What buyers were answered.
#[derive(Debug, Default)]
struct Answered {
    places: HashMap<u64, u64>,
    orders: HashMap<u64, String>,
    /// The furthest that anybody was answered to be sure.
    sure_to: u64,
}

/// Joins, shows presence, and orders if called, until the server is gone.
fn rush(address: SocketAddr, first: u64, answered: &Mutex<Answered>, count: &AtomicU64) {
    let Ok(mut connection) = Connection::open(address) else { return };
    for buyer in (first..).step_by(usize::try_from(CLIENTS).unwrap()) {
        let Some(joined) = send(&mut connection, buyer, LINE, "") else { return };
        assert!(matches!(joined.status, 200 | 201), "{joined:?}");
        let place = joined.json()["place"].as_u64().unwrap();
        if let Some(before) = answered.lock().unwrap().places.insert(buyer, place) {
            assert_eq!(before, place, "buyer {buyer} has another place");
        }
        count.fetch_add(1, Ordering::Relaxed);
        for _twice in 0..2 {
            let Some(seen) = send(&mut connection, buyer, &format!("{LINE}/presence"), "") else { return };
            if seen.json()["standing"] == "called" {
                let body = r#"{"sale":70,"product":5}"#;
                let Some(order) = send(&mut connection, buyer, "/api/v1/orders", body) else { return };
                assert_eq!(order.status, 201, "who was called is never too late: {order:?}");
                let id = order.json()["id"].as_str().unwrap().to_owned();
                answered.lock().unwrap().orders.insert(buyer, id);
                break;
            }
        }
        let Ok(board) = connection.exchange("GET", LINE, &[], "") else { return };
        let sure_to = board.json()["sure_to"].as_u64().unwrap();
        let mut answered = answered.lock().unwrap();
        answered.sure_to = answered.sure_to.max(sure_to);
    }
}

#[test]
fn killed_in_the_middle_of_a_rush_every_place_and_every_promise_holds() {
    let directory = tempfile::tempdir().unwrap();
    let data_dir = directory.path().join("data");
    let mut serving = Serving::demo(&data_dir, &[]);
    make_sale(directory.path(), serving.address);
    let answered = Mutex::new(Answered::default());
    for round in 0..ROUNDS {
        let (address, count) = (serving.address, AtomicU64::new(0));
        std::thread::scope(|scope| {
            for client in 1..=CLIENTS {
                let (answered, count) = (&answered, &count);
                // Those of the rounds before come again, and find their places.
                scope.spawn(move || rush(address, client, answered, count));
            }
            let started = Instant::now();
            while count.load(Ordering::Relaxed) < ANSWERS {
                assert!(started.elapsed() < PATIENCE, "{count:?} answers came");
                std::thread::sleep(Duration::from_millis(1));
            }
            serving.kill();
        });
        let (code, output, errors) = run(directory.path(), &["audit", "--data-dir", "data"]);
        assert_eq!(code, 0, "round {round}: the audit says\n{output}{errors}");
        serving = Serving::demo(&data_dir, &[]);
        check(serving.address, &answered.lock().unwrap());
    }
    let answered = answered.into_inner().unwrap();
    assert_eq!(answered.orders.len() as u64, UNITS, "{} were sure", answered.sure_to);
    assert_eq!(serving.stop(), 0);
}

/// Whoever was answered finds it again.
fn check(address: SocketAddr, answered: &Answered) {
    let mut connection = Connection::open(address).unwrap();
    for (buyer, place) in &answered.places {
        let again = send(&mut connection, *buyer, LINE, "").unwrap();
        assert_eq!((again.status, again.json()["place"].as_u64()), (200, Some(*place)), "buyer {buyer}");
    }
    for (buyer, id) in &answered.orders {
        let again = send(&mut connection, *buyer, "/api/v1/orders", r#"{"sale":70,"product":5}"#).unwrap();
        assert_eq!((again.status, &again.json()["id"]), (201, &Value::from(id.as_str())), "buyer {buyer}");
    }
    let board = connection.exchange("GET", LINE, &[], "").unwrap().json();
    assert!(board["sure_to"].as_u64().unwrap() >= answered.sure_to, "a promise fell: {board}");
    let units: u64 = ["free", "turns", "held", "sold"].iter().map(|name| board[name].as_u64().unwrap()).sum();
    assert_eq!(units, UNITS, "{board}");
}

/// A sale that starts in an hour, and whose entries close a minute before. Returns the server's time.
pub(crate) fn later_sale(connection: &mut Connection) -> u64 {
    let now_ms =
        connection.exchange("GET", "/api/v1/time", &[], "").unwrap().json()["now_ms"].as_u64().unwrap();
    let sale = json!({
        "id": 70, "title": "Drop", "currency": "EUR", "starts_at_ms": now_ms + 3_600_000, "ends_at_ms": now_ms + 7_200_000,
        "items": [{ "product": 5, "title": "Shoe", "price": 100, "total": 30, "limit": 1, "line": { "close_s": 60 } }],
    });
    let made = operate(connection, "POST", "/api/v1/sales", &sale);
    assert_eq!(made.status, 201, "{made:?}");
    now_ms
}

/// The entries close at once if it is less than a minute until then.
fn start_at(connection: &mut Connection, at_ms: u64) {
    let changed = operate(connection, "PATCH", "/api/v1/sales/70", &json!({ "starts_at_ms": at_ms }));
    assert_eq!(changed.status, 200, "{changed:?}");
}

pub(crate) fn operate(connection: &mut Connection, method: &str, path: &str, body: &Value) -> Response {
    let bearer = format!("Bearer {OPERATOR}");
    connection.exchange(method, path, &[("Authorization", &bearer)], &body.to_string()).unwrap()
}

#[test]
fn the_units_of_open_turns_are_shown_wherever_units_are() {
    let directory = tempfile::tempdir().unwrap();
    let serving = Serving::demo(&directory.path().join("data"), &[]);
    make_sale(directory.path(), serving.address);
    let mut connection = Connection::open(serving.address).unwrap();
    until(&mut connection, LINE, |board| !board["drawn"].is_null());
    for buyer in 1..=3 {
        send(&mut connection, buyer, LINE, "").unwrap();
        send(&mut connection, buyer, &format!("{LINE}/presence"), "").unwrap();
    }
    until(&mut connection, LINE, |board| board["turns"] == 3);
    let stock = connection.exchange("GET", "/api/v1/stock?sale=70&product=5", &[], "").unwrap().json();
    assert_eq!(
        [&stock["available"], &stock["turns"], &stock["has_line"]],
        [&json!(17), &json!(3), &json!(true)]
    );
    let metrics = connection.exchange("GET", "/metrics", &[], "").unwrap();
    let turns = "doorbuster_stock_units{sale=\"70\",product=\"5\",kind=\"turns\"} 3\n";
    assert!(metrics.body.contains(turns), "{}", metrics.body);
    let server = format!("http://{}", serving.address);
    let operate = |arguments: &[&str]| {
        let mut command = doorbuster(directory.path());
        command.args(arguments).args(["--server", &server]).env("DOORBUSTER_OPERATOR_TOKEN", OPERATOR);
        outcome(command.output().unwrap())
    };
    let shown = |said: &str, head: &str, row: &str| {
        let lines: Vec<_> =
            said.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
        for part in [head, row] {
            assert!(lines.iter().any(|line| line.contains(part)), "{part} in\n{said}");
        }
    };
    let (head, row) = ("total available turns held sold", " 20 17 3 0 0");
    shown(&operate(&["sale", "show", "70"]).1, head, row);
    shown(&operate(&["sale", "list"]).1, head, row);
    shown(&operate(&["status"]).1, head, row);
    operate(&["sale", "pace", "70", "5", "0"]);
    let printed = operate(&["sale", "message", "70", "5", "We are slow tonight."]).1;
    shown(
        &printed,
        "the pace of the line of 5 is limited: at most 0 places per second",
        "reads: We are slow tonight.",
    );
    let (code, _, errors) = operate(&["sale", "correct", "70", "5", "18"]);
    let least = "at most 17 of 20 units can be taken off, which leaves 3: 3 set aside in open turns";
    assert!(code == 1 && errors.contains(least), "{errors}");
    assert_eq!(serving.stop(), 0);
    shown(&run(directory.path(), &["audit", "--data-dir", "data"]).1, head, row);
}

/// By the entries of the ledger, so that no clock is asked.
#[test]
fn no_more_are_reached_at_once_than_orders_are_let_through() {
    let directory = tempfile::tempdir().unwrap();
    let mut command = doorbuster(directory.path());
    command.args(["serve", "--demo", "--listen", "127.0.0.1:0", "--data-dir", "data"]);
    command.envs([("DOORBUSTER_ADMISSION_ORDERS_PER_S", "20"), ("DOORBUSTER_ADMISSION_BURST", "2")]);
    let serving = Serving::start(command);
    let mut connection = Connection::open(serving.address).unwrap();
    let now_ms = later_sale(&mut connection);
    let tickets: Vec<String> = (1..=12)
        .map(|buyer| send(&mut connection, buyer, LINE, "").unwrap().json()["ticket"].to_string())
        .collect();
    start_at(&mut connection, now_ms + 1_000);
    until(&mut connection, LINE, |board| board["served"] == 12);
    let mut reached: HashMap<u64, u32> = HashMap::new();
    for ticket in tickets {
        let asked = format!("{{\"ticket\":{ticket}}}");
        let receipt = connection.exchange("POST", &format!("{LINE}/receipt"), &[], &asked).unwrap().json();
        *reached.entry(receipt["receipt"]["reached_by_entry"].as_u64().unwrap()).or_default() += 1;
    }
    assert!(reached.values().all(|places| *places <= 2), "{reached:?}");
    assert_eq!(serving.stop(), 0);
}

/// A beacon with a key of its own that speaks every second. Its first answer is an error.
fn beacon() -> (SocketAddr, SecretKey) {
    let key = SecretKey::key_gen(&[7; 32], &[]).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (address, signing) = (listener.local_addr().unwrap(), key.clone());
    std::thread::spawn(move || {
        for (answered, stream) in listener.incoming().enumerate() {
            let mut stream = stream.unwrap();
            let mut request = [0; 4096];
            let length = stream.read(&mut request).unwrap();
            let request = String::from_utf8_lossy(&request[..length]).into_owned();
            let round: u64 = request.split(['/', ' ']).nth(3).unwrap().parse().unwrap();
            let message = engine::draw::randomness(&round.to_be_bytes());
            let purpose = b"BLS_SIG_BLS12381G1_XMD:SHA-256_SSWU_RO_NUL_";
            let signature = hex(&signing.sign(&message, purpose, &[]).compress());
            let body = format!(r#"{{"round":{round},"randomness":"","signature":"{signature}"}}"#);
            let status = if answered == 0 { "500 Not yet" } else { "200 OK" };
            let head = format!(
                "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {}",
                body.len()
            );
            write!(stream, "{head}\r\nconnection: close\r\n\r\n{body}").unwrap();
        }
    });
    (address, key)
}

/// Asks until it is so.
fn until(connection: &mut Connection, path: &str, is_so: impl Fn(&Value) -> bool) -> Value {
    let started = Instant::now();
    loop {
        let answer = connection.exchange("GET", path, &[], "").unwrap().json();
        if is_so(&answer) {
            return answer;
        }
        assert!(started.elapsed() < PATIENCE, "still {answer}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn places_are_drawn_by_a_beacon_survive_a_kill_and_anybody_can_verify_them() {
    let directory = tempfile::tempdir().unwrap();
    let (url, key) = beacon();
    let serve = || {
        let mut command = doorbuster(directory.path());
        command.args(["serve", "--demo", "--listen", "127.0.0.1:0", "--data-dir", "data"]);
        command.env("DOORBUSTER_BEACON_URL", format!("http://{url}"));
        command.env("DOORBUSTER_BEACON_PUBLIC_KEY", hex(&key.sk_to_pk().compress()));
        command.envs([("DOORBUSTER_BEACON_GENESIS_S", "1000000000"), ("DOORBUSTER_BEACON_PERIOD_S", "1")]);
        Serving::start(command)
    };
    let mut serving = serve();
    let mut connection = Connection::open(serving.address).unwrap();
    let now_ms = later_sale(&mut connection);
    let tickets: Vec<Value> =
        (1..=40).map(|buyer| send(&mut connection, buyer, LINE, "").unwrap().json()).collect();
    assert!(tickets.iter().all(|ticket| ticket["place"].is_null()));
    let announced = until(&mut connection, &format!("{LINE}/draw"), |draw| draw["state"] == "open");
    // The start comes nearer: the entries close at once.
    start_at(&mut connection, now_ms + 60_000);
    let closed = until(&mut connection, &format!("{LINE}/draw"), |draw| draw["state"] != "open");
    assert_eq!((&closed["entries"], &closed["commitment"]), (&json!(40), &announced["commitment"]));
    serving.kill();
    serving = serve();
    let mut connection = Connection::open(serving.address).unwrap();
    let drawn = until(&mut connection, &format!("{LINE}/draw"), |draw| draw["state"] == "drawn");
    assert_eq!(
        [&drawn["root"], &drawn["beacon"]["round"], &drawn["commitment"]],
        [&closed["root"], &closed["beacon"]["round"], &closed["commitment"]]
    );
    let place = |connection: &mut Connection, buyer| {
        send(connection, buyer, LINE, "").unwrap().json()["place"].clone()
    };
    let places: Vec<Value> = (1..=40).map(|buyer| place(&mut connection, buyer)).collect();

    let (code, _, errors) = run(directory.path(), &export("draw.txt"));
    assert_eq!(code, 0, "{errors}");
    let ticket = tickets[6]["ticket"].as_str().unwrap();
    let (code, output, errors) = run(directory.path(), &["draw", "verify", "draw.txt", "--ticket", ticket]);
    assert_eq!(code, 0, "{output}{errors}");
    assert!(
        output.contains("the beacon, emitted at ")
            && output.contains(&format!("your number 7 has place {}\n", places[6])),
        "{output}"
    );
    let late = format!("41.{}", ticket.split_once('.').unwrap().1);
    let (code, output, errors) = run(directory.path(), &["draw", "verify", "draw.txt", "--ticket", &late]);
    assert!(code == 1 && errors.contains("number 41 is not among these entries"), "{output}{errors}");
    let key = drawn["signed_by"].as_str().unwrap();
    let (code, output, errors) = run(directory.path(), &["draw", "verify", "draw.txt", "--key", key]);
    assert!(
        code == 0 && output.contains(&format!("close and draw are signed by {key}\n")),
        "{output}{errors}"
    );
    let head = std::fs::read_to_string(directory.path().join("draw.txt")).unwrap();
    let head: Value = serde_json::from_str(head.lines().next().unwrap()).unwrap();
    assert_eq!(
        (&head["signature"], &head["drawn_signature"]),
        (&drawn["signature"], &drawn["drawn_signature"]),
        "the file has what the server showed"
    );
    refuse_what_was_changed(directory.path());
    verify_a_receipt(directory.path(), &mut connection, ticket, &drawn);

    serving.kill();
    serving = serve();
    let mut connection = Connection::open(serving.address).unwrap();
    let again: Vec<Value> = (1..=40).map(|buyer| place(&mut connection, buyer)).collect();
    assert_eq!(again, places, "the same places after a kill");
    assert_eq!(serving.stop(), 0);

    miss_the_key(directory.path());
}

/// A ledger that was copied back without its key.
#[track_caller]
fn miss_the_key(directory: &Path) {
    std::fs::remove_file(directory.join("data/report-key")).unwrap();
    let mut command = Command::new("/bin/sh");
    command.current_dir(directory).env_clear();
    command.args(["-c", "exec \"$0\" serve --demo --listen 127.0.0.1:0 --data-dir data 2>>log"]);
    command.arg(env!("CARGO_BIN_EXE_doorbuster"));
    assert_eq!(Serving::start_unseen(command).stop(), 0);
    let log = std::fs::read_to_string(directory.join("log")).unwrap();
    assert!(log.contains("a new key signs draws and receipts from now on"), "{log}");
}

/// Also one of whose server the configuration names the key: an older one in the data directory signs nothing.
#[test]
fn a_draw_of_nobody_is_one_too() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(
        directory.path().join("doorbuster.toml"),
        "[ledger]\ndata_dir = \"data\"\nsigning_key_file = \"line-key\"\n",
    )
    .unwrap();
    SigningKey::read_or_make(&directory.path().join("report-key-of-before")).unwrap();
    let mut command = doorbuster(directory.path());
    command.args(["serve", "--demo", "--listen", "127.0.0.1:0", "--config", "doorbuster.toml"]);
    let serving = Serving::start(command);
    std::fs::rename(directory.path().join("report-key-of-before"), directory.path().join("data/report-key"))
        .unwrap();
    make_sale(directory.path(), serving.address);
    let mut connection = Connection::open(serving.address).unwrap();
    let drawn = until(&mut connection, &format!("{LINE}/draw"), |draw| draw["state"] == "drawn");
    assert_eq!(drawn["entries"], 0);
    let by_config = [
        "draw",
        "export",
        "--config",
        "doorbuster.toml",
        "--sale",
        "70",
        "--product",
        "5",
        "--to",
        "draw.txt",
    ];
    let (code, _, errors) = run(directory.path(), &by_config);
    assert_eq!(code, 0, "{errors}");
    let key = drawn["signed_by"].as_str().unwrap();
    let (code, output, errors) = run(directory.path(), &["draw", "verify", "draw.txt", "--key", key]);
    assert!(code == 0 && output.starts_with("ok: 0 places of product 5 in sale 70"), "{output}{errors}");
    // One that is said to have somebody is another.
    let text = std::fs::read_to_string(directory.path().join("draw.txt")).unwrap();
    std::fs::write(directory.path().join("draw.txt"), text.replace("\"entries\":0", "\"entries\":1"))
        .unwrap();
    assert_eq!(run(directory.path(), &["draw", "verify", "draw.txt"]).0, 1);
    assert_eq!(serving.stop(), 0);
}

fn verify_a_receipt(directory: &Path, connection: &mut Connection, ticket: &str, drawn: &Value) {
    let [key, seed] = ["signed_by", "seed"].map(|name| drawn[name].as_str().unwrap());
    let asked = json!({ "ticket": ticket }).to_string();
    let receipt = connection.exchange("POST", &format!("{LINE}/receipt"), &[], &asked).unwrap();
    let text = receipt.body.clone();
    let verify = |text: &str, arguments: &[&str]| {
        std::fs::write(directory.join("receipt.json"), text).unwrap();
        run(directory, &[&["receipt", "verify", "receipt.json"], arguments].concat())
    };
    let (code, output, errors) = verify(&text, &["--key", key]);
    assert!(
        code == 0
            && output.contains("number 7, place ")
            && output.contains(": waiting; ")
            && output.contains(&format!("seed of the draw: {seed}\n")),
        "{output}{errors}"
    );
    assert_eq!(verify(&text, &[]).0, 0);
    let others = "0".repeat(64);
    let wrong = [
        (text.as_str(), ["--key", others.as_str()], 1),
        (&text.replacen("\"number\":7", "\"number\":1", 1), ["--key", key], 1),
        (&text[..text.len() - 9], ["--key", key], 1),
        ("", ["--key", key], 1),
    ];
    for (text, arguments, expected) in wrong {
        let (code, output, errors) = verify(text, &arguments);
        assert_eq!(code, expected, "{text}: {output}{errors}");
    }
    assert_eq!(run(directory, &["receipt", "verify", "missing.json"]).0, 64);
    // A shop that signs another's entry.
    let (content, _) = read_document(RECEIPT, text.as_bytes()).unwrap();
    let mut forged: Value = serde_json::from_str(content.get()).unwrap();
    assert_eq!((&forged["entries"], forged["path"].as_array().map(Vec::len)), (&json!(40), Some(6)));
    forged["leaf"] = forged["path"][0].clone();
    let forged = SigningKey::read_or_make(&directory.join("other-key"))
        .unwrap()
        .document(RECEIPT, &forged.to_string());
    let (code, _, errors) = verify(&forged, &[]);
    assert!(code == 1 && errors.contains("its entry is none of those"), "{errors}");
}

fn export(to: &str) -> [&str; 10] {
    ["draw", "export", "--data-dir", "data", "--sale", "70", "--product", "5", "--to", to]
}

/// A file that says that the beacon was silent, and in which all else follows from that.
fn drawn_again_without_beacon(head: &Value, lines: &[&str]) -> String {
    let hash = |name: &str| unhex::<32>(head[name].as_str().unwrap()).unwrap();
    let seed = engine::draw::seed(&hash("secret"), &hash("root"), None);
    let mut head = head.clone();
    (head["seed"], head["beacon"]["signature"]) = (json!(hex(&seed)), Value::Null);
    let order = engine::draw::Permutation::new(&seed, 40);
    let mut text = format!("{head}\n");
    for line in &lines[1..] {
        let words: Vec<&str> = line.split(' ').collect();
        text.push_str(&format!("{} {} {}\n", words[0], words[1], order.place_of(words[0].parse().unwrap())));
    }
    text
}

/// Which sale it is need not be said where one alone sells the product to a line.
#[test]
fn an_export_finds_its_sale_and_says_why_there_is_no_draw() {
    let directory = tempfile::tempdir().unwrap();
    let serving = Serving::demo(&directory.path().join("data"), &[]);
    make_sale(directory.path(), serving.address);
    let mut connection = Connection::open(serving.address).unwrap();
    until(&mut connection, &format!("{LINE}/draw"), |draw| draw["state"] == "drawn");
    let export = |sale: &[&str], to: &str| {
        let arguments = ["draw", "export", "--data-dir", "data", "--product", "5", "--to", to];
        run(directory.path(), &[&arguments[..], sale].concat())
    };
    let (code, output, errors) = export(&[], "found.txt");
    assert!(code == 0 && output.ends_with("product 5 of sale 70\n"), "{output}{errors}");
    let now_ms = connection.exchange("GET", "/api/v1/time", &[], "").unwrap().json()["now_ms"].clone();
    let starts_at_ms = now_ms.as_u64().unwrap() + 3_600_000;
    let item = json!({ "product": 5, "title": "Shoe", "price": 100, "total": 3, "limit": 1 });
    let mut lined = item.clone();
    lined["line"] = json!({ "close_s": 60 });
    for (id, item) in [(71, item), (72, lined)] {
        let sale = json!({
            "id": id, "title": "Drop", "currency": "EUR", "starts_at_ms": starts_at_ms,
            "ends_at_ms": starts_at_ms + 3_600_000, "items": [item],
        });
        assert_eq!(operate(&mut connection, "POST", "/api/v1/sales", &sale).status, 201);
        // Where it is sold without a line, there is nothing to choose.
        let (code, _, errors) = export(&[], &format!("beside-{id}.txt"));
        assert_eq!(code, if id == 71 { 0 } else { 64 }, "{errors}");
        let said = "product 5: several sales sell it to a line: 70, 72; name one with --sale";
        assert_eq!(errors.contains(said), id == 72, "{errors}");
    }
    for (sale, said) in [("72", "not closed yet"), ("71", "has no line"), ("9", "there is no such item")] {
        let (code, _, errors) = export(&["--sale", sale], "none.txt");
        assert!(code == 1 && errors.contains(said), "{sale}: {errors}");
    }
    assert_eq!(operate(&mut connection, "POST", "/api/v1/sales/72/end", &json!({})).status, 200);
    let (code, _, errors) = export(&["--sale", "72"], "none.txt");
    assert!(code == 1 && errors.contains("its draw was abandoned: the sale was over before"), "{errors}");
    // What was deleted is not chosen from, and a draw is not written without a key.
    let bearer = format!("Bearer {OPERATOR}");
    let deleted =
        connection.exchange("POST", "/api/v1/sales/72/delete", &[("Authorization", &bearer)], "").unwrap();
    assert_eq!(deleted.status, 204, "{deleted:?}");
    assert_eq!(export(&[], "again.txt").0, 0);
    let (code, _, errors) = export(&["--key", "no-key"], "none.txt");
    assert!(code == 64 && errors.contains("there is no key no-key"), "{errors}");
    assert_eq!(serving.stop(), 0);
}

/// Each part of the file counts.
fn refuse_what_was_changed(directory: &Path) {
    let good = std::fs::read_to_string(directory.join("draw.txt")).unwrap();
    let lines: Vec<&str> = good.lines().collect();
    let head: Value = serde_json::from_str(lines[0]).unwrap();
    let other = |name: &str| {
        let text = head["beacon"][name].as_str().or_else(|| head[name].as_str()).unwrap();
        let flipped = if text.ends_with('0') { '1' } else { '0' };
        good.replacen(text, &format!("{}{flipped}", &text[..text.len() - 1]), 1)
    };
    let entry: Vec<&str> = lines[3].split(' ').collect();
    let swapped = [&lines[..3], &[lines[4], lines[3]], &lines[5..]].concat().join("\n") + "\n";
    let (round, signature) = (&head["beacon"]["round"], head["beacon"]["signature"].as_str().unwrap());
    let changed = [
        ("secret", other("secret")),
        ("commitment", other("commitment")),
        ("root", other("root")),
        ("seed", other("seed")),
        ("signature", other("signature")),
        ("signed_by", other("signed_by")),
        ("the close's signature", {
            let text = head["signature"].as_str().unwrap();
            good.replacen(text, &"0".repeat(text.len()), 1)
        }),
        ("the draw's signature", {
            let text = head["drawn_signature"].as_str().unwrap();
            good.replacen(text, &"0".repeat(text.len()), 1)
        }),
        ("no signature of the draw", {
            let of_draw = format!(",\"drawn_signature\":{}", head["drawn_signature"]);
            good.replacen(&of_draw, "", 1)
        }),
        ("format", good.replacen("\"format\":3", "\"format\":2", 1)),
        ("a title", good.replacen('{', "{\"title\":\"Sock\",", 1)),
        ("silent", good.replacen(&format!("\"{signature}\""), "null", 1)),
        (
            "round",
            good.replacen(
                &format!("\"round\":{round}"),
                &format!("\"round\":{}", round.as_u64().unwrap() + 1),
                1,
            ),
        ),
        ("leaf", good.replacen(entry[1], &"0".repeat(64), 1)),
        ("place", good.replacen(lines[3], &format!("{} {} 99", entry[0], entry[1]), 1)),
        ("order", swapped),
        ("missing", good.replacen(&format!("{}\n", lines[40]), "", 1)),
        ("more", format!("{good}41 {} 41\n", "0".repeat(64))),
        ("cut off", good[..good.len() - 3].to_owned()),
        ("empty", String::new()),
        ("not text", "{".to_owned()),
    ];
    for (name, text) in changed {
        assert_ne!(text, good, "{name}");
        std::fs::write(directory.join("changed.txt"), text).unwrap();
        let (code, output, errors) = run(directory, &["draw", "verify", "changed.txt"]);
        assert_eq!(code, 1, "{name}: {output}{errors}");
    }
    std::fs::write(directory.join("changed.txt"), drawn_again_without_beacon(&head, &lines)).unwrap();
    let (code, output, errors) = run(directory, &["draw", "verify", "changed.txt"]);
    assert!(
        code == 1 && errors.contains("the signature of its draw is of something else"),
        "{output}{errors}"
    );
    let (code, _, errors) = run(directory, &export("draw.txt"));
    assert_eq!(code, 64, "a file that is there stays: {errors}");
}
