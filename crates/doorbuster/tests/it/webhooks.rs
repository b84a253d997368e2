//! Webhooks through the real program: an endpoint of the shop that answers, fails, is away, and a server that is killed.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::SystemTime;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ring::hmac;
use serde_json::{Value, json};

use crate::exchange::Connection;
use crate::reload::wait_until;
use crate::serving::{OPERATOR, Serving};
use crate::{cluster, doorbuster, outcome, run};

const SECRET: [u8; 32] = *b"secret of the endpoint, 32 bytes";

/// One request that came.
#[derive(Clone, Debug)]
pub(crate) struct Heard {
    pub(crate) id: String,
    pub(crate) status: u16,
    pub(crate) body: Value,
}

/// An endpoint of the shop, on a port that it keeps.
pub(crate) struct Receiver {
    address: SocketAddr,
    heard: Arc<Mutex<Vec<Heard>>>,
    /// What it answers.
    status: Arc<AtomicU16>,
    /// The kind of event that it refuses, whatever it answers else.
    refused: Arc<Mutex<Option<&'static str>>>,
}

impl Receiver {
    pub(crate) fn start() -> Receiver {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (address, heard) = (listener.local_addr().unwrap(), Arc::<Mutex<Vec<Heard>>>::default());
        let status = Arc::new(AtomicU16::new(204));
        let refused = Arc::<Mutex<Option<&'static str>>>::default();
        let shared = (Arc::clone(&heard), Arc::clone(&status), Arc::clone(&refused));
        // It ends with the test's process.
        thread::spawn(move || {
            for stream in listener.incoming() {
                let (heard, status, refused) = shared.clone();
                thread::spawn(move || answer_all(&stream.unwrap(), &heard, &status, &refused));
            }
        });
        Receiver { address, heard, status, refused }
    }

    pub(crate) fn set(&self, status: u16) {
        self.status.store(status, Ordering::Relaxed);
    }

    pub(crate) fn refuse(&self, kind: Option<&'static str>) {
        *self.refused.lock().unwrap() = kind;
    }

    pub(crate) fn heard(&self) -> Vec<Heard> {
        self.heard.lock().unwrap().clone()
    }

    /// Kinds of what was answered well, by order, as they came first.
    pub(crate) fn delivered(&self) -> BTreeMap<String, Vec<String>> {
        let mut delivered: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for Heard { body, .. } in self.heard().into_iter().filter(|heard| heard.status == 204) {
            let Some(order) = body["data"]["order"]["id"].as_str().map(str::to_owned) else { continue };
            let (kinds, kind) =
                (delivered.entry(order).or_default(), body["type"].as_str().unwrap().to_owned());
            if !kinds.contains(&kind) {
                kinds.push(kind);
            }
        }
        delivered
    }
}

fn answer_all(
    mut stream: &TcpStream,
    heard: &Mutex<Vec<Heard>>,
    status: &AtomicU16,
    refused: &Mutex<Option<&'static str>>,
) {
    let mut reader = BufReader::new(stream);
    loop {
        let mut headers = BTreeMap::new();
        loop {
            let mut line = String::new();
            match reader.read_line(&mut line) {
                Ok(0) | Err(_) => return,
                Ok(_) => {}
            }
            let line = line.trim_end();
            if line.is_empty() {
                break;
            }
            if let Some((name, value)) = line.split_once(": ") {
                headers.insert(name.to_ascii_lowercase(), value.to_owned());
            }
        }
        let mut body = vec![0; headers["content-length"].parse().unwrap()];
        reader.read_exact(&mut body).unwrap();
        check_signature(&headers, &body);
        let body: Value = serde_json::from_slice(&body).unwrap();
        let is_refused = refused.lock().unwrap().is_some_and(|kind| body["type"] == kind);
        let status = if is_refused { 500 } else { status.load(Ordering::Relaxed) };
        let id = headers["webhook-id"].clone();
        heard.lock().unwrap().push(Heard { id, status, body });
        let head = format!("HTTP/1.1 {status} x\r\nContent-Length: 0\r\n\r\n");
        if stream.write_all(head.as_bytes()).is_err() {
            return;
        }
    }
}

fn check_signature(headers: &BTreeMap<String, String>, body: &[u8]) {
    let signed =
        [headers["webhook-id"].as_bytes(), b".", headers["webhook-timestamp"].as_bytes(), b".", body]
            .concat();
    let tag = headers["webhook-signature"].strip_prefix("v1,").unwrap();
    let key = hmac::Key::new(hmac::HMAC_SHA256, &SECRET);
    hmac::verify(&key, &signed, &STANDARD.decode(tag).unwrap()).expect("the signature is of this request");
    assert_eq!(headers["content-type"], "application/json");
}

/// The section of the configuration of an endpoint that hears of orders, and of nothing else unless more is configured.
pub(crate) fn endpoint(directory: &Path, receiver: &Receiver, more: &str) -> String {
    std::fs::write(directory.join("hook-secret"), format!("whsec_{}\n", STANDARD.encode(SECRET))).unwrap();
    format!(
        "[[webhooks.endpoints]]\nname = \"shop\"\nurl = \"http://{}/hooks\"\nsecret_file = \"hook-secret\"\n\
         events = [\"order.*\"]\nallow_private = true\n{more}\n",
        receiver.address
    )
}

/// A demo with it.
pub(crate) fn serve(directory: &Path, receiver: &Receiver, more: &str) -> Serving {
    Serving::start(command(directory, receiver, more))
}

pub(crate) fn command(directory: &Path, receiver: &Receiver, more: &str) -> Command {
    std::fs::write(directory.join("hooks.toml"), endpoint(directory, receiver, more)).unwrap();
    let mut command = doorbuster(directory);
    command.args([
        "serve",
        "--demo",
        "--config",
        "hooks.toml",
        "--listen",
        "127.0.0.1:0",
        "--data-dir",
        "data",
    ]);
    command
}

fn post(server: &Serving, buyer: &str, path: &str, body: &str) -> Value {
    let headers = [("memberId", buyer), ("Content-Type", "application/json")];
    let mut connection = Connection::open(server.address).unwrap();
    let response = connection.exchange("POST", path, &headers, body).unwrap();
    assert!([200, 201].contains(&response.status), "{response:?}");
    serde_json::from_str(&response.body).unwrap()
}

pub(crate) fn place(server: &Serving, buyer: &str) -> String {
    let order = post(server, buyer, "/api/v1/orders", &json!({ "sale": 3, "product": 29 }).to_string());
    order["id"].as_str().unwrap().to_owned()
}

pub(crate) fn does(server: &Serving, buyer: &str, order: &str, what: &str) {
    post(server, buyer, &format!("/api/v1/orders/{order}/{what}"), "");
}

pub(crate) fn audited(directory: &Path) {
    let (code, printed, errors) = run(directory, &["audit", "--data-dir", "data"]);
    assert_eq!(code, 0, "{printed}{errors}");
}

#[test]
fn the_shop_is_notified_of_every_step_in_order_and_signed() {
    let (directory, receiver) = (tempfile::tempdir().unwrap(), Receiver::start());
    let server = serve(directory.path(), &receiver, "");
    let (paid, cancelled) = (place(&server, "anna"), place(&server, "anna"));
    does(&server, "anna", &paid, "pay");
    does(&server, "anna", &cancelled, "cancel");
    let mut refund = doorbuster(directory.path());
    refund.args(["refunds", "create", &paid, "--server", &format!("http://{}", server.address)]);
    let (code, _, errors) = outcome(refund.env("DOORBUSTER_OPERATOR_TOKEN", OPERATOR).output().unwrap());
    assert_eq!(code, 0, "{errors}");
    let kinds = |all: &[&str]| all.iter().map(|kind| format!("order.{kind}")).collect::<Vec<_>>();
    let expected = BTreeMap::from([
        (paid, kinds(&["held", "paid", "refunded"])),
        (cancelled, kinds(&["held", "cancelled"])),
    ]);
    wait_until("all was sent", || receiver.delivered() == expected);
    let mut ids: Vec<String> = receiver.heard().into_iter().map(|heard| heard.id).collect();
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), receiver.heard().len(), "nothing is sent twice while nothing fails");
    for Heard { id, body, .. } in receiver.heard() {
        assert_eq!(body["id"], json!(id));
        assert_eq!(id, format!("evt_{}", body["sequence"]));
        assert_eq!(body["data"]["order"]["buyer"], "anna");
    }
    assert_eq!(server.stop(), 0);
    // A clean stop stores how far it came.
    let server = serve(directory.path(), &receiver, "");
    let last = place(&server, "anna");
    wait_until("the next one was sent", || receiver.delivered().contains_key(&last));
    assert_eq!(receiver.heard().len(), 6);
    assert_eq!(server.stop(), 0);
    audited(directory.path());
}

#[test]
fn what_an_endpoint_refused_comes_again_in_order_also_after_a_kill() {
    let (directory, receiver) = (tempfile::tempdir().unwrap(), Receiver::start());
    let server = serve(directory.path(), &receiver, "");
    receiver.set(500);
    let order = place(&server, "anna");
    wait_until("it was tried", || !receiver.heard().is_empty());
    does(&server, "anna", &order, "cancel");
    let stored = || waiting(directory.path());
    wait_until("both wait", || stored() == 2);
    assert!(
        receiver.heard().iter().all(|heard| heard.body["type"] == "order.held"),
        "one waits behind the other"
    );
    server.kill();
    receiver.set(204);
    let server = serve(directory.path(), &receiver, "");
    let both = vec!["order.held".to_owned(), "order.cancelled".to_owned()];
    wait_until("both were sent", || receiver.delivered().get(&order) == Some(&both));
    wait_until("none waits", || stored() == 0);
    assert_eq!(server.stop(), 0);
    audited(directory.path());
}

/// Events that the ledger knows to wait.
pub(crate) fn waiting(directory: &Path) -> i64 {
    let ledger = rusqlite::Connection::open(directory.join("data/ledger.db")).unwrap();
    let count = "SELECT count(*) FROM webhook_waiting WHERE endpoint = 'shop' AND dead = 0";
    ledger.query_row(count, [], |row| row.get(0)).unwrap()
}

#[test]
fn no_kill_loses_an_event() {
    const ROUNDS: usize = 4;
    const ORDERS: usize = 40;
    let (directory, receiver) = (tempfile::tempdir().unwrap(), Receiver::start());
    let mut placed = Vec::new();
    for round in 0..ROUNDS {
        let server = serve(directory.path(), &receiver, "batch_events_max = 1");
        // Some are sent while others are placed, and the kill comes between.
        for number in 0..ORDERS {
            let buyer = format!("buyer {round}.{number}");
            let order = place(&server, &buyer);
            if number % 2 == 0 {
                does(&server, &buyer, &order, "cancel");
            }
            placed.push((order, number % 2 == 0));
        }
        if round + 1 < ROUNDS {
            server.kill();
            continue;
        }
        wait_until("everything was sent", || {
            let delivered = receiver.delivered();
            placed.iter().all(|(order, cancelled)| {
                let expected = ["order.held", "order.cancelled"];
                delivered.get(order).is_some_and(|kinds| kinds[..] == expected[..1 + usize::from(*cancelled)])
            })
        });
        assert_eq!(server.stop(), 0);
    }
    assert_eq!(receiver.delivered().len(), placed.len(), "and nothing else");
    audited(directory.path());
}

pub(crate) fn webhooks(directory: &Path, server: &Serving, arguments: &[&str]) -> (i32, String, String) {
    let mut command = doorbuster(directory);
    command.arg("webhooks").args(arguments).args(["--server", &format!("http://{}", server.address)]);
    outcome(command.env("DOORBUSTER_OPERATOR_TOKEN", OPERATOR).output().unwrap())
}

#[test]
fn an_operator_tests_disables_and_sends_again() {
    let (directory, receiver) = (tempfile::tempdir().unwrap(), Receiver::start());
    let server = serve(directory.path(), &receiver, "");
    let ask = |arguments: &[&str]| webhooks(directory.path(), &server, arguments);
    assert_eq!(ask(&["test", "shop"]), (0, "shop: answered well\n".to_owned(), String::new()));
    assert_eq!(receiver.heard().pop().unwrap().body["type"], "webhook.test");
    receiver.set(302);
    let (code, _, errors) = ask(&["test", "shop"]);
    assert!(code == 1 && errors.contains("shop: answered 302"), "redirects are not followed: {errors}");
    receiver.set(204);

    let (code, out, _) = ask(&["disable", "shop"]);
    assert_eq!((code, out.as_str()), (0, "shop: nothing is sent to it until it is enabled\n"));
    let order = place(&server, "anna");
    wait_until("it is disabled", || ask(&["list"]).1.contains("disabled"));
    assert!(!receiver.delivered().contains_key(&order));
    assert_eq!(ask(&["enable", "shop"]).0, 0);
    wait_until("what it missed was sent", || receiver.delivered().contains_key(&order));

    let before = receiver.heard().len();
    assert_eq!(ask(&["replay", "shop", "--since", "0"]).1, "shop: every event after 0 is sent again\n");
    wait_until("it came again", || receiver.heard().len() > before);
    let again: Vec<Heard> =
        receiver.heard().into_iter().filter(|heard| heard.body["data"]["order"]["id"] == order).collect();
    assert_eq!((again.len(), &again[0].id), (2, &again[1].id), "under the id that it had");

    let mut log = doorbuster(directory.path());
    log.args(["operators", "log", "--server", &format!("http://{}", server.address)]);
    let (_, log, _) = outcome(log.env("DOORBUSTER_OPERATOR_TOKEN", OPERATOR).output().unwrap());
    let did: Vec<_> = log.lines().map(|line| line.split_once("Z  ").unwrap().1).collect();
    let expected = [
        "root  webhook_replayed shop, since entry 0",
        "root  webhook_enabled shop",
        "root  webhook_disabled shop",
    ];
    assert_eq!(did[..3], expected, "{log}");

    let (code, out, _) = ask(&["list"]);
    let line = out.lines().nth(1).unwrap();
    assert!(
        code == 0 && line.starts_with("shop") && line.contains(" on ") && line.contains("/hooks"),
        "{out}"
    );
    let (code, _, errors) = ask(&["test", "nobody"]);
    assert!(code == 1 && errors.starts_with("error: nobody: "), "{errors}");
    assert_eq!(server.stop(), 0);
}

#[test]
fn an_endpoint_that_is_gone_is_left_alone_also_after_a_restart() {
    let (directory, receiver) = (tempfile::tempdir().unwrap(), Receiver::start());
    let server = serve(directory.path(), &receiver, "");
    receiver.set(410);
    place(&server, "anna");
    let list = |server: &Serving| webhooks(directory.path(), server, &["list"]).1;
    wait_until("it is disabled", || list(&server).contains("disabled"));
    assert_eq!(server.stop(), 0);
    let server = serve(directory.path(), &receiver, "");
    assert!(list(&server).contains("disabled"), "{}", list(&server));
    assert_eq!(receiver.heard().len(), 1);
    assert_eq!(server.stop(), 0);
}

#[test]
fn events_come_in_lists_where_that_is_asked_for() {
    let (directory, receiver) = (tempfile::tempdir().unwrap(), Receiver::start());
    receiver.set(500);
    let server = serve(directory.path(), &receiver, "batch_events_max = 50");
    for number in 0..30 {
        place(&server, &format!("buyer {number}"));
    }
    receiver.set(204);
    assert_eq!(webhooks(directory.path(), &server, &["enable", "shop"]).0, 0);
    wait_until("all came", || {
        let lists = receiver.heard().into_iter().filter(|heard| heard.status == 204);
        let events: Vec<Value> =
            lists.flat_map(|heard| heard.body["events"].as_array().unwrap().clone()).collect();
        let mut ids: Vec<String> = events.iter().map(|event| event["id"].to_string()).collect();
        ids.sort();
        ids.dedup();
        ids.len() == 30
    });
    assert!(
        receiver.heard().iter().all(|heard| heard.body["type"] == "batch" && heard.id.starts_with("bat_"))
    );
    assert_eq!(server.stop(), 0);
}

#[test]
fn a_private_address_is_not_called_unless_that_is_allowed() {
    let (directory, receiver) = (tempfile::tempdir().unwrap(), Receiver::start());
    std::fs::write(directory.path().join("hook-secret"), format!("whsec_{}", STANDARD.encode(SECRET)))
        .unwrap();
    let port = receiver.address.port();
    let endpoint = format!(
        "[[webhooks.endpoints]]\nname = \"shop\"\nurl = \"https://localhost:{port}/\"\nsecret_file = \"hook-secret\"\n"
    );
    std::fs::write(directory.path().join("hooks.toml"), endpoint).unwrap();
    let mut command = doorbuster(directory.path());
    command.args([
        "serve",
        "--demo",
        "--config",
        "hooks.toml",
        "--listen",
        "127.0.0.1:0",
        "--data-dir",
        "data",
    ]);
    let server = Serving::start(command);
    let (code, _, errors) = webhooks(directory.path(), &server, &["test", "shop"]);
    assert!(code == 1 && errors.contains("its address is a private one (allow_private)"), "{errors}");
    assert_eq!(server.stop(), 0);
}

#[test]
fn what_can_not_be_an_endpoint_stops_the_start() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("short"), "whsec_YWJj").unwrap();
    for (endpoint, said) in [
        ("name = \"a b\"\nurl = \"https://a.example/\"\nsecret_file = \"short\"", "letters, digits"),
        ("name = \"a\"\nurl = \"http://a.example/\"\nsecret_file = \"short\"", "https://"),
        ("name = \"a\"\nurl = \"https://a:b@a.example/\"\nsecret_file = \"short\"", "name no user"),
        ("name = \"a\"\nurl = \"https://a.example/\"\nsecret_file = \"short\"", "whsec_ and 24 to 64 bytes"),
        ("name = \"a\"\nurl = \"https://a.example/\"\nsecret_file = \"none\"", "can't be read"),
        (
            "name = \"a\"\nurl = \"https://a.example/\"\nsecret_file = \"short\"\nevents = [\"x\"]",
            "order.held",
        ),
        (
            "name = \"a\"\nurl = \"https://a.example/\"\nsecret_file = \"short\"\nbatch_events_max = 0",
            "1 to 100",
        ),
        ("name = \"a\"\nurl = \"https://a.example/\"", "secret_file"),
        ("name = \"a\"\nurl = \"https://a.example/\"\nsecret_file = \"short\"\ncolour = 1", "colour"),
    ] {
        std::fs::write(directory.path().join("hooks.toml"), format!("[[webhooks.endpoints]]\n{endpoint}\n"))
            .unwrap();
        let serve =
            ["serve", "--demo", "--config", "hooks.toml", "--listen", "127.0.0.1:0", "--data-dir", "data"];
        let (code, _, errors) = run(directory.path(), &serve);
        assert!(
            code == 64 && errors.contains("webhooks.endpoints") && errors.contains(said),
            "{endpoint}: {errors}"
        );
    }
}

/// Whether the server sends to the endpoint itself, and whether the endpoint is disabled.
fn standing(server: &Serving) -> (bool, bool) {
    let authorization = format!("Bearer {OPERATOR}");
    let mut connection = Connection::open(server.address).unwrap();
    let listed =
        connection.exchange("GET", "/api/v1/webhooks", &[("Authorization", &authorization)], "").unwrap();
    let shop = &listed.json()["endpoints"][0];
    (shop["here"].as_bool().unwrap(), shop["disabled"].as_bool().unwrap())
}

#[test]
fn of_a_cluster_one_server_notifies_the_shop_and_another_goes_on_when_it_is_killed() {
    let (directory, receiver) = (tempfile::tempdir().unwrap(), Receiver::start());
    let directory = directory.path();
    cluster::configure(directory, "hooked", &endpoint(directory, &receiver, ""));
    let mut buyers = 0..;
    let mut place = |server: &Serving| {
        let buyer = buyers.next().unwrap() + 1;
        cluster::accepted(server, buyer, &format!("key-{buyer}"), 30)
    };
    let (first, second) = (cluster::serve(directory), cluster::serve(directory));
    wait_until("one has the task", || standing(&first).0 || standing(&second).0);
    let (here, other) = if standing(&first).0 { (first, second) } else { (second, first) };
    assert!(!standing(&other).0, "the other has not");
    let mut placed: Vec<String> = (0..10).map(|number| place([&here, &other][number % 2])).collect();
    let are_delivered = |placed: &[String]| {
        let delivered = receiver.delivered();
        placed.iter().all(|order| delivered.contains_key(order))
    };
    wait_until("the shop knows both servers' orders", || are_delivered(&placed));
    let ids: BTreeSet<String> = receiver.heard().into_iter().map(|heard| heard.id).collect();
    assert_eq!(ids.len(), receiver.heard().len(), "one sends it");

    receiver.set(500);
    placed.extend((0..5).map(|_| place(&other)));
    wait_until("they were tried", || receiver.heard().iter().any(|heard| heard.status == 500));
    here.kill();
    receiver.set(204);
    wait_until("the other goes on", || are_delivered(&placed));
    assert!(standing(&other).0);

    // What operators ask of the server that does not have the task.
    let third = cluster::serve(directory);
    assert!(!standing(&third).0);
    assert_eq!(webhooks(directory, &third, &["disable", "shop"]).0, 0);
    wait_until("both know", || standing(&other).1 && standing(&third).1);
    let missed = place(&other);
    assert_eq!(webhooks(directory, &third, &["test", "shop"]).0, 0, "a test is sent all the same");
    assert!(!receiver.delivered().contains_key(&missed));
    assert_eq!(webhooks(directory, &third, &["enable", "shop"]).0, 0);
    wait_until("what it missed was sent", || receiver.delivered().contains_key(&missed));
    placed.push(missed);

    let before: Vec<Heard> = receiver.heard();
    assert_eq!(webhooks(directory, &third, &["replay", "shop", "--since", "0"]).0, 0);
    let again = |order: &String| {
        let heard = &receiver.heard()[before.len()..];
        heard.iter().any(|heard| heard.body["data"]["order"]["id"] == **order)
    };
    wait_until("all came again", || placed.iter().all(again));
    let ids = |heard: &[Heard]| heard.iter().map(|heard| heard.id.clone()).collect::<BTreeSet<_>>();
    let expected = ids(&before);
    assert!(ids(&receiver.heard()).is_superset(&expected), "under the ids that they had");

    // A clean stop of the one hands the task to the other at once, with all that was sent.
    wait_until("one has the task", || standing(&other).0 || standing(&third).0);
    let (here, other) = if standing(&third).0 { (third, other) } else { (other, third) };
    let heard = receiver.heard().len();
    assert_eq!(here.stop(), 0);
    wait_until("the other has it", || standing(&other).0);
    let last = place(&other);
    wait_until("it goes on", || receiver.delivered().contains_key(&last));
    assert_eq!(receiver.heard().len(), heard + 1, "from where the one had come");
    cluster::audit(directory);
    assert_eq!(other.stop(), 0);
}

#[test]
fn the_shop_hears_what_becomes_of_a_sale_and_its_stock() {
    let (directory, receiver) = (tempfile::tempdir().unwrap(), Receiver::start());
    let directory = directory.path();
    let events = endpoint(directory, &receiver, "").replace("order.*", "sale.*");
    std::fs::write(directory.join("sales.toml"), events).unwrap();
    let start = || {
        let mut command = doorbuster(directory);
        command.args(["serve", "--demo", "--config", "sales.toml", "--listen", "127.0.0.1:0"]);
        command.args(["--data-dir", "data"]);
        Serving::start(command)
    };
    let server = start();
    let operate = |server: &Serving, path: &str, body: Value| {
        let authorization = format!("Bearer {OPERATOR}");
        let headers = [
            ("Authorization", authorization.as_str()),
            ("Content-Type", "application/json"),
            (
                "Idempotency-Key",
                &body.to_string().chars().filter(char::is_ascii_alphanumeric).take(60).collect::<String>(),
            ),
        ];
        let mut connection = Connection::open(server.address).unwrap();
        let answer = connection.exchange("POST", path, &headers, &body.to_string()).unwrap();
        assert!([200, 201].contains(&answer.status), "{answer:?}");
        answer.json()
    };
    let now_s = SystemTime::UNIX_EPOCH.elapsed().unwrap().as_secs();
    let item = json!({"product": 7, "title": "One", "price": 100, "total": 1});
    let sale = json!({
        "title": "Short", "currency": "EUR", "starts_at_ms": (now_s + 2) * 1000, "ends_at_ms": (now_s + 3600) * 1000,
        "payment_s": 600, "items": [item],
    });
    let sale = operate(&server, "/api/v1/sales", sale)["id"].clone();
    let heard = |wanted: &str, of: &dyn Fn(&Value) -> bool| {
        // After a kill one may come again, under its id.
        let came = || {
            let of_it = |heard: &Heard| heard.body["type"] == *wanted && of(&heard.body["data"]);
            receiver.heard().into_iter().filter(of_it).map(|heard| heard.id).collect::<BTreeSet<_>>().len()
        };
        wait_until(wanted, || came() > 0);
        assert_eq!(came(), 1, "{wanted}");
    };
    heard("sale.started", &|data| data["sale"]["id"] == sale);
    let order = json!({"sale": sale, "product": 7});
    post(&server, "anna", "/api/v1/orders", &order.to_string());
    heard("sale.sold_out", &|data| data["item"] == order);
    server.kill();
    let server = start();
    operate(&server, &format!("/api/v1/sales/{sale}/end"), json!({}));
    heard("sale.ended", &|data| data["sale"]["id"] == sale);
    heard("sale.started", &|data| data["sale"]["id"] == sale);
    heard("sale.sold_out", &|data| data["item"] == order);
    assert_eq!(server.stop(), 0);
    audited(directory);
}
