//! Two servers of one cluster on real Redis, RocketMQ and MariaDB: what one accepts the other knows, whatever the
//! buyer or an operator does next, and the three agree at the end.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::engines::Engines;
use crate::exchange::{Connection, Response};
use crate::run;
use crate::serving::{OPERATOR, Serving};

/// Longer than any step takes on the busiest machine; only a failing test waits for it. The longest one is the first
/// start, which brings the demo's thousand goods into the ledger and to the gate.
pub(crate) const SOON: Duration = Duration::from_secs(300);

/// A configuration with a database, a topic and keys of its own.
pub(crate) fn configure(directory: &Path, name: &str, more: &str) {
    let redis = Engines::shared(&["redis"]).address("redis");
    configure_on(&redis, directory, name, more);
}

/// The same on a Redis of the test's own.
pub(crate) fn configure_on(redis: &str, directory: &Path, name: &str, more: &str) {
    let mariadb = Engines::shared(&["mariadb"]).address("mariadb");
    configure_with(redis, &mariadb, directory, name, more);
}

/// The same on a Redis and a MariaDB of the test's own.
pub(crate) fn configure_with(redis: &str, mariadb: &str, directory: &Path, name: &str, more: &str) {
    let name_server = Engines::shared(&["rocketmq"]).address("rocketmq-namesrv");
    configure_at([redis, &name_server, mariadb], directory, name, more);
}

/// The same on engines at these addresses.
pub(crate) fn configure_at(
    [redis, name_server, mariadb]: [&str; 3],
    directory: &Path,
    name: &str,
    more: &str,
) {
    sql(mariadb, &format!("CREATE DATABASE {name}"));
    let config = format!(
        "[cluster]\nenabled = true\nservers = 2\n[gate]\naddresses = [\"{redis}\"]\nprefix = \"{name}\"\n\
         [queue]\nname_servers = [\"{name_server}\"]\ntopic = \"{name}\"\nbroker_disk_percent_max = 100\n\
         [ledger]\nmysql_address = \"{mariadb}\"\nmysql_user = \"root\"\nmysql_database = \"{name}\"\n{more}"
    );
    std::fs::write(directory.join("doorbuster.toml"), config).unwrap();
}

/// Carries out statements on a MariaDB.
pub(crate) fn sql(mariadb: &str, statements: &str) {
    let (host, port) = mariadb.rsplit_once(':').unwrap();
    let done = Command::new("mariadb")
        .args(["--no-defaults", "--protocol=tcp", "--user=root", "--host", host, "--port", port])
        .args(["--execute", statements])
        .status()
        .unwrap();
    assert!(done.success());
}

/// Takes everything from the gates of one installation.
pub(crate) fn wipe_gates(name: &str) {
    let redis = Engines::shared(&["redis"]).address("redis");
    let (host, port) = redis.rsplit_once(':').unwrap();
    let script = format!(
        "local keys = redis.call('KEYS', '{{{name}:*') for _, key in ipairs(keys) do redis.call('DEL', key) end return #keys"
    );
    let wiped =
        Command::new("redis-cli").args(["-h", host, "-p", port, "EVAL", &script, "0"]).output().unwrap();
    let wiped: u64 = String::from_utf8_lossy(&wiped.stdout).trim().parse().expect("how many keys there were");
    assert!(wiped > 0);
}

pub(crate) fn serve(directory: &Path) -> Serving {
    Serving::start(command(directory, "127.0.0.1:0"))
}

pub(crate) fn command(directory: &Path, listen: &str) -> Command {
    let mut command = crate::doorbuster(directory);
    command.args(["serve", "--demo", "--config", "doorbuster.toml", "--listen", listen]);
    command.args(["--data-dir", "secrets"]);
    command
}

pub(crate) fn ask_once(
    server: &Serving,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> Response {
    let mut connection = Connection::open_patient(server.address, Duration::from_secs(40)).unwrap();
    connection.exchange(method, path, headers, body).unwrap()
}

/// Asks again while the answer is 503, as it tells its reader to do: each of its bounds (the broker's acknowledgement
/// within a second, say) is missed on a machine that is busy enough. All that is asked for here is safe to repeat.
pub(crate) fn ask(
    server: &Serving,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> Response {
    let started = Instant::now();
    loop {
        let response = ask_once(server, method, path, headers, body);
        if response.status != 503 {
            return response;
        }
        assert!(started.elapsed() < SOON, "{method} {path}: {response:?}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// A request about an order of this buyer.
fn buyer(server: &Serving, member: u64, method: &str, path: &str) -> Response {
    let member = member.to_string();
    ask(server, method, path, &[("memberId", member.as_str())], "")
}

/// Without a key if that is empty; the answer whatever it is.
pub(crate) fn place_once(server: &Serving, member: u64, key: &str, product: u64, quantity: u32) -> Response {
    let (member, order) = (member.to_string(), json!({"sale": 3, "product": product, "quantity": quantity}));
    let mut headers = vec![("memberId", member.as_str()), ("Content-Type", "application/json")];
    if !key.is_empty() {
        headers.push(("Idempotency-Key", key));
    }
    ask_once(server, "POST", "/api/v1/orders", &headers, &order.to_string())
}

/// Under a key, until it is known what came of it.
fn place(server: &Serving, member: u64, key: &str, product: u64, quantity: u32) -> Response {
    assert!(!key.is_empty(), "without a key it can't be asked again");
    let started = Instant::now();
    loop {
        let placed = place_once(server, member, key, product, quantity);
        if placed.status != 503 {
            return placed;
        }
        assert!(started.elapsed() < SOON, "{placed:?}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Places one unit, which is accepted (as soon as the gate is built); the order's id. It may be in the ledger already
/// when it is first known to be accepted.
#[track_caller]
pub(crate) fn accepted(server: &Serving, member: u64, key: &str, product: u64) -> String {
    let placed = place(server, member, key, product, 1);
    assert!(matches!(placed.status, 201 | 202), "{placed:?}");
    id(&placed)
}

fn id(response: &Response) -> String {
    response.json()["id"].as_str().unwrap_or_else(|| panic!("no order: {}", response.body)).to_owned()
}

/// The order as the ledger has it, read by long polls.
pub(crate) fn read(server: &Serving, member: u64, order: &str) -> Value {
    let started = Instant::now();
    loop {
        let response = buyer(server, member, "GET", &format!("/api/v1/orders/{order}?wait=20"));
        assert_eq!(response.status, 200, "{}", response.body);
        let order = response.json();
        if order["status"] != "pending" {
            return order;
        }
        assert!(started.elapsed() < SOON, "it does not come into the ledger: {order}");
    }
}

pub(crate) fn operator(server: &Serving, path: &str, key: &str, body: &str) -> Response {
    let token = format!("Bearer {OPERATOR}");
    let headers =
        [("Authorization", token.as_str()), ("Content-Type", "application/json"), ("Idempotency-Key", key)];
    ask(server, "POST", path, &headers, body)
}

pub(crate) fn code(response: &Response) -> String {
    response.json()["code"].as_str().unwrap_or_default().to_owned()
}

/// Waits until nothing is on its way, and gate, queue and ledger agree.
pub(crate) fn audit(directory: &Path) -> String {
    let started = Instant::now();
    let mut ended: BTreeMap<(i32, String), u32> = BTreeMap::new();
    loop {
        let (code, output, errors) = run(directory, &["audit", "--config", "doorbuster.toml"]);
        if code == 0 && output.contains("; at rest:") {
            return output;
        }
        *ended.entry((code, errors)).or_default() += 1;
        assert!(started.elapsed() < SOON, "{output}how they ended, and how many so: {ended:#?}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

#[test]
fn what_one_server_accepts_the_other_knows_and_finishes() {
    let dir = tempfile::tempdir().unwrap();
    configure(dir.path(), "pair", "");
    let (a, b) = (serve(dir.path()), serve(dir.path()));

    let first = accepted(&a, 1, "k", 30);
    assert_eq!(accepted(&b, 1, "k", 30), first);
    assert_eq!(code(&place(&b, 1, "k", 30, 2)), "key_conflict");
    assert_eq!(code(&place(&b, 1, "other", 30, 1)), "over_limit");
    assert_eq!(read(&b, 1, &first)["status"], "held");
    // It is in the ledger by now, and the gate hears of that a moment later.
    let started = Instant::now();
    while place(&a, 1, "k", 30, 1).status != 201 {
        assert!(started.elapsed() < SOON, "the gate never hears of it");
    }
    let strange = buyer(&b, 2, "GET", &format!("/api/v1/orders/{first}"));
    assert_eq!(strange.status, 404);
    // Of a product that there is not there is no gate that could say: nobody waits for it.
    let of_nothing = buyer(&b, 2, "GET", &format!("/api/v1/orders/0000ffff{}", &first[8..]));
    assert_eq!(of_nothing.status, 404, "{}", of_nothing.body);

    let paid = buyer(&b, 1, "POST", &format!("/api/v1/orders/{first}/pay"));
    assert_eq!((paid.status, &paid.json()["status"]), (200, &json!("paid")), "{}", paid.body);
    let cancelled = buyer(&a, 1, "POST", &format!("/api/v1/orders/{first}/cancel"));
    assert_eq!(code(&cancelled), "not_cancellable");

    // Cancelled while it may still be pending: it waits for the ledger, and the limit is free again.
    let second = accepted(&b, 2, "one", 30);
    let cancelled = buyer(&a, 2, "POST", &format!("/api/v1/orders/{second}/cancel"));
    assert_eq!(cancelled.json()["status"], "cancelled", "{}", cancelled.body);
    accepted(&b, 2, "another", 30);
    check_settings(&a, &audit(dir.path()));
    check_figures(&a);
}

/// A server of a cluster keeps no book, and writes nothing on a disk of its own.
fn check_figures(server: &Serving) {
    let token = format!("Bearer {OPERATOR}");
    let figures = |path: &str| ask(server, "GET", path, &[("Authorization", token.as_str())], "").json();
    let started = Instant::now();
    let seen = loop {
        let seen = figures("/api/v1/figures");
        if seen["totals"]["accepted"].as_u64() > Some(0) {
            break seen;
        }
        assert!(started.elapsed() < SOON, "{seen}");
    };
    assert!(seen["server"].as_str().unwrap().ends_with(&server.address.port().to_string()), "{seen}");
    assert_eq!(seen["health"]["ready"], true, "{seen}");
    // A machine that is busy with other tests is amber.
    assert_ne!(seen["verdict"]["level"], "red", "{seen}");
    for name in ["disk_free_bytes", "ledger_bytes"] {
        assert_eq!(seen["health"][name], json!(null), "{name}: {seen}");
    }
    assert_eq!(seen["health"]["refunds_due"], 0, "{seen}");
    let history = figures("/api/v1/figures/history?sale=3&product=30");
    assert!(!history["rows"].as_array().unwrap().is_empty(), "{history}");
}

/// What accepted orders survive is shown, as the engines say themselves.
fn check_settings(server: &Serving, audited: &str) {
    let engines = Engines::shared(&["redis", "mariadb", "rocketmq"]);
    let address = |member| engines.address(member);
    let lines = [
        format!("redis {}: appendonly = yes, appendfsync = everysec, min-replicas", address("redis")),
        format!("rocketmq broker-a {}: flushDiskType = SYNC_FLUSH, broker", address("rocketmq-broker")),
        format!("mysql {}: innodb_flush_log_at_trx_commit = 1, sync_binlog", address("mariadb")),
    ];
    let ready = ask(server, "GET", "/readyz", &[], "").body;
    assert!(ready.starts_with("ready\n"), "{ready}");
    for line in lines {
        assert!(ready.contains(&line), "{ready}");
        assert!(audited.contains(&line), "{audited}");
    }
}

fn retry_after_s(response: &Response) -> u64 {
    let header = response.head.lines().find_map(|line| line.strip_prefix("Retry-After: "));
    header.unwrap_or_else(|| panic!("{response:?}")).trim().parse().unwrap()
}

#[test]
fn a_buyer_who_lets_units_go_waits_and_a_wiped_gate_forgets_nothing() {
    let dir = tempfile::tempdir().unwrap();
    configure(dir.path(), "cooling", "[sale]\ncool_down_ms = 3600000\n");
    let server = serve(dir.path());
    for key in ["1", "2", "3"] {
        let order = accepted(&server, 1, key, 30);
        let cancelled = buyer(&server, 1, "POST", &format!("/api/v1/orders/{order}/cancel"));
        assert_eq!(cancelled.json()["status"], "cancelled", "{}", cancelled.body);
    }
    // The gate hears of the last one a moment later. Until then the limit of one refuses, and then the wait.
    let waits = |key: &str| {
        let started = Instant::now();
        loop {
            let answer = place(&server, 1, key, 30, 1);
            if code(&answer) == "cooling_down" {
                assert_eq!(answer.status, 429);
                let seconds: u64 = retry_after_s(&answer);
                assert!((3_000..=3_600).contains(&seconds), "{seconds}");
                return;
            }
            assert_eq!(code(&answer), "over_limit", "{answer:?}");
            assert!(started.elapsed() < SOON, "{answer:?}");
        }
    };
    waits("4");
    wipe_gates("cooling");
    waits("5");
    accepted(&server, 2, "k", 30);
    audit(dir.path());
}

#[test]
fn what_an_operator_does_on_one_server_holds_on_every_other() {
    let dir = tempfile::tempdir().unwrap();
    configure(dir.path(), "steered", "");
    let (a, b) = (serve(dir.path()), serve(dir.path()));
    accepted(&a, 1, "k", 29);

    assert_eq!(operator(&a, "/api/v1/sales/3/pause", "p", "").status, 200);
    assert_eq!(code(&place(&b, 2, "k", 29, 1)), "paused");
    assert_eq!(operator(&b, "/api/v1/sales/3/resume", "r", "").status, 200);
    accepted(&a, 2, "k", 29);

    // 100 units, one each: 99 are taken away again, so one buyer fits, and after a restock one more.
    accepted(&a, 3, "k", 30);
    let correct = "/api/v1/sales/3/items/30/correct";
    assert_eq!(operator(&a, correct, "c", r#"{"units": 98}"#).status, 200);
    assert_eq!(operator(&b, correct, "c", r#"{"units": 98}"#).status, 200, "the same again");
    assert_eq!(code(&operator(&b, correct, "d", r#"{"units": 2}"#)), "correction_too_large");
    accepted(&b, 4, "k", 30);
    assert_eq!(code(&place(&a, 5, "k", 30, 1)), "sold_out");
    let restock = "/api/v1/sales/3/items/30/restock";
    assert_eq!(operator(&b, restock, "s", r#"{"units": 1}"#).status, 200);
    assert_eq!(operator(&a, restock, "s", r#"{"units": 1}"#).status, 200, "the same again");
    // A flag of sold out is a lease: no server refuses for longer than that.
    let started = Instant::now();
    while !matches!(place(&a, 5, "k", 30, 1).status, 201 | 202) {
        assert!(started.elapsed() < SOON, "the restock did not reach the other server");
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(operator(&a, "/api/v1/sales/3/end", "e", "").status, 200);
    assert_eq!(code(&place(&b, 6, "k", 29, 1)), "ended");
    audit(dir.path());
}

#[test]
fn a_late_payment_takes_its_units_again_if_there_are_any() {
    let dir = tempfile::tempdir().unwrap();
    configure(dir.path(), "late", "[sale]\npayment_s = 1\n");
    let (a, b) = (serve(dir.path()), serve(dir.path()));
    let order = accepted(&a, 1, "k", 30);
    let started = Instant::now();
    while read(&b, 1, &order)["status"] != "expired" {
        assert!(started.elapsed() < SOON, "it did not expire");
        std::thread::sleep(Duration::from_millis(50));
    }
    let pay = |server: &Serving, member: u64, order: &str| {
        buyer(server, member, "POST", &format!("/api/v1/orders/{order}/pay"))
    };
    let paid = pay(&b, 1, &order);
    assert_eq!(paid.json()["status"], "paid", "{}", paid.body);
    assert_eq!(pay(&a, 1, &order).json()["status"], "paid", "reported twice");
    assert_eq!(code(&place(&a, 1, "another", 30, 1)), "over_limit", "the gate knows of it");
    let output = audit(dir.path());
    assert!(output.contains("ok: every invariant holds"), "{output}");
}

#[test]
fn a_drained_server_loses_nothing_and_the_other_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    configure(dir.path(), "drained", "");
    let (a, b) = (serve(dir.path()), serve(dir.path()));
    accepted(&a, 0, "k", 29);
    let orders: Vec<_> = (1..=200).map(|member| (member, accepted(&a, member, "k", 29))).collect();
    assert_eq!(a.stop(), 0);
    for (member, order) in &orders {
        assert_eq!(read(&b, *member, order)["status"], "held");
    }
    accepted(&b, 201, "k", 29);
    let audited = audit(dir.path());
    assert!(audited.contains("202 orders"), "{audited}");
    assert_eq!(b.stop(), 0);
}

#[test]
fn a_ledger_of_one_profile_is_refused_by_the_other() {
    let dir = tempfile::tempdir().unwrap();
    configure(dir.path(), "profiles", "");
    assert_eq!(serve(dir.path()).stop(), 0);
    let path = dir.path().join("doorbuster.toml");
    let embedded = std::fs::read_to_string(&path)
        .unwrap()
        .replace("enabled = true", "enabled = false")
        .replace("[ledger]\n", "[ledger]\nbackend = \"mysql\"\n");
    std::fs::write(&path, embedded).unwrap();
    let arguments = [
        "serve",
        "--demo",
        "--config",
        "doorbuster.toml",
        "--data-dir",
        "secrets",
        "--listen",
        "127.0.0.1:0",
    ];
    let (code, _, errors) = run(dir.path(), &arguments);
    assert_eq!(code, 69);
    assert!(errors.contains("is the ledger of the cluster profile"), "{errors}");
}
