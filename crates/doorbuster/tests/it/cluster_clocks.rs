//! One wrong clock in a cluster: of a server, of Redis, of the database. On real engines, which libfaketime gives a clock
//! that is set while they run.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::cluster::{accepted, audit, configure, configure_on, configure_with, place_once, read};
use crate::cluster_gate::{get, logged, until, until_ready};
use crate::engines::Engines;
use crate::fake_clock::{DAY_AHEAD, FakeClock, RIGHT};
use crate::serving::{OPERATOR, Serving};
use crate::{doorbuster, outcome, run};

const HOUR_BEHIND: &str = "-3600";
const MINUTE_BEHIND: &str = "-60";

fn serve_by(directory: &Path, clock: Option<&FakeClock>) -> Serving {
    let mut command = Command::new(env!("CARGO_BIN_EXE_doorbuster"));
    command.current_dir(directory).env_clear();
    if let Some(clock) = clock {
        command.envs(clock.environment());
    }
    command.args(["serve", "--demo", "--config", "doorbuster.toml", "--listen", "127.0.0.1:0"]);
    command.args(["--data-dir", "secrets"]);
    let log = fs::OpenOptions::new().create(true).append(true).open(directory.join("log")).unwrap();
    Serving::start_logging(command, Stdio::from(log))
}

fn metric(server: &Serving, name: &str) -> String {
    let (_, metrics) = get(server, "/metrics");
    let value = metrics.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    value.unwrap_or_else(|| panic!("no {name}: {metrics}")).to_owned()
}

/// What an operator may not do while most other clocks say another time.
fn confirm(directory: &Path, server: &Serving) -> (i32, String, String) {
    let mut command = doorbuster(directory);
    command.args(["clock", "confirm", "--server", &format!("http://{}", server.address)]);
    outcome(command.env("DOORBUSTER_OPERATOR_TOKEN", OPERATOR).output().unwrap())
}

#[track_caller]
fn until_readiness(server: &Serving, status: u16, texts: &[&str]) {
    until(&format!("{status} {texts:?}"), || {
        let (is, body) = get(server, "/readyz");
        (is == status && texts.iter().all(|text| body.contains(text)), format!("{is} {body}"))
    });
}

/// Held as they were placed.
#[track_caller]
fn all_are_held(server: &Serving, orders: &[(u64, String)]) {
    for (member, order) in orders {
        assert_eq!(read(server, *member, order)["status"], "held");
    }
}

fn some_orders(server: &Serving, members: std::ops::Range<u64>) -> Vec<(u64, String)> {
    members.map(|member| (member, accepted(server, member, "k", 29))).collect()
}

#[test]
fn a_server_with_a_wrong_clock_takes_no_order_and_lets_nothing_expire_until_it_is_right() {
    for (name, wrong, differs) in
        [("ahead", DAY_AHEAD, " s ahead of the others"), ("behind", HOUR_BEHIND, " s behind the others")]
    {
        let dir = tempfile::tempdir().unwrap();
        configure(dir.path(), &format!("clock_{name}"), "");
        let right = serve_by(dir.path(), None);
        until_ready(&right);
        let mut orders = some_orders(&right, 1..6);
        all_are_held(&right, &orders);

        let clock = FakeClock::new(dir.path(), wrong);
        let server = serve_by(dir.path(), Some(&clock));
        until_readiness(
            &server,
            503,
            &["the clock of this machine is ", differs, "it takes no order and no lease"],
        );
        let refused = place_once(&server, 7, "k", 29, 1);
        assert_eq!(refused.status, 503, "neither ended nor not begun: {}", refused.body);
        assert_eq!(metric(&server, "doorbuster_clock_unconfirmed"), "1");
        let (code, _, errors) = confirm(dir.path(), &server);
        assert!(code != 0 && errors.contains("clock"), "most clocks say another time: {code} {errors}");
        until_readiness(&right, 200, &["the clock of the server ", differs, "it takes no order"]);
        orders.extend(some_orders(&right, 8..10));

        // Whoever would reconcile in its place has that wrong clock.
        right.kill();
        all_are_held(&server, &orders);
        std::thread::sleep(std::time::Duration::from_secs(6));
        all_are_held(&server, &orders);
        assert_eq!(metric(&server, "doorbuster_reconciling"), "0");

        clock.set(RIGHT);
        until_ready(&server);
        all_are_held(&server, &orders);
        orders.extend(some_orders(&server, 11..13));
        all_are_held(&server, &orders);
        let report = audit(dir.path());
        assert!(!report.contains("\nclocks: "), "{report}");
        let lines = logged(dir.path(), "not ready: the server's clock is not believed");
        assert_eq!(lines.len(), 1, "{lines:?}");
        let of_the_other = logged(dir.path(), "the clock of the server ");
        assert_eq!(of_the_other.len(), 1, "{of_the_other:?}");
    }
}

/// An engine alone: libfaketime ends a program that inherits the memory of a shell that is gone.
fn private_by(clock: &FakeClock, name: &str) -> Engines {
    let settings = clock.environment().map(|(name, value)| match name {
        "LD_PRELOAD" => ("DOORBUSTER_DEV_PRELOAD", value),
        other => (other, value),
    });
    let engines = Engines::private(&[name], &settings);
    let environment = fs::read(format!("/proc/{}/environ", engines.member(name).pid)).unwrap();
    let has = |name: &[u8]| environment.split(|&byte| byte == 0).any(|line| line.starts_with(name));
    assert!(has(b"LD_PRELOAD=") && !has(b"FAKETIME_SHARED="));
    engines
}

#[test]
fn a_redis_whose_clock_is_set_wrong_sells_nothing_until_it_is_right() {
    let dir = tempfile::tempdir().unwrap();
    let clock = FakeClock::new(dir.path(), RIGHT);
    let engines = private_by(&clock, "redis");
    configure_on(&engines.address("redis"), dir.path(), "clock_redis", "");
    let server = serve_by(dir.path(), None);
    until_ready(&server);
    let orders = some_orders(&server, 1..4);
    all_are_held(&server, &orders);
    let mut member = 100;
    for (wrong, differs) in [(DAY_AHEAD, " s ahead of the others"), (HOUR_BEHIND, " s behind the others")] {
        clock.set(wrong);
        until("orders are refused", || {
            member += 1;
            let placed = place_once(&server, member, "", 29, 1);
            assert!(matches!(placed.status, 201 | 202 | 503), "neither ended nor not begun: {placed:?}");
            (placed.status == 503, placed.body)
        });
        until_readiness(&server, 503, &["the clock of redis ", differs]);
        let (code, report, errors) = run(dir.path(), &["audit", "--config", "doorbuster.toml"]);
        assert!(report.contains("\nclocks: the clock of redis "), "{code} {report} {errors}");
        clock.set(RIGHT);
        until_ready(&server);
    }
    let more = some_orders(&server, 6..9);
    all_are_held(&server, &more);
    audit(dir.path());
    // Nothing was lost with the clock: the gate was not built again.
    assert!(logged(dir.path(), "is fenced").is_empty());
    let lines = logged(dir.path(), "the clock of redis ");
    assert_eq!(lines.len(), 2, "each time once, however far off it is at each look: {lines:#?}");
}

#[test]
fn a_database_whose_clock_is_set_wrong_stops_expiry_alone_and_its_leases_end_all_the_same() {
    let dir = tempfile::tempdir().unwrap();
    let clock = FakeClock::new(dir.path(), RIGHT);
    let engines = private_by(&clock, "mariadb");
    let redis = Engines::shared(&["redis"]).address("redis");
    configure_with(
        &redis,
        &engines.address("mariadb"),
        dir.path(),
        "clock_database",
        "[sale]\npayment_s = 20\n",
    );
    let server = serve_by(dir.path(), None);
    until_ready(&server);
    let first = accepted(&server, 1, "k", 29);
    clock.set(DAY_AHEAD);
    until_readiness(
        &server,
        200,
        &["ready\n", " s ahead of the others: nothing expires and no address is erased"],
    );
    let second = accepted(&server, 2, "k", 29);
    assert_eq!(read(&server, 2, &second)["status"], "held", "orders go on");
    let due = std::time::Instant::now() + std::time::Duration::from_secs(22);
    while std::time::Instant::now() < due {
        std::thread::sleep(std::time::Duration::from_millis(500));
    }
    assert_eq!(read(&server, 1, &first)["status"], "held", "nothing expires");

    // Back by a day and an hour: what was leased until tomorrow is over today.
    clock.set(HOUR_BEHIND);
    until_readiness(&server, 200, &[" s behind the others: nothing expires"]);
    server.kill();
    let server = serve_by(dir.path(), None);
    until_ready(&server);
    let third = accepted(&server, 3, "k", 29);
    assert_eq!(read(&server, 3, &third)["status"], "held", "another server reads the queues");
    clock.set(RIGHT);
    until("the first expires", || {
        let order = read(&server, 1, &first);
        (order["status"] == "expired", order.to_string())
    });
    audit(dir.path());
}

#[test]
fn servers_whose_machines_were_all_paused_sell_again_once_an_operator_has_confirmed_a_clock() {
    let dir = tempfile::tempdir().unwrap();
    let clock = FakeClock::new(dir.path(), MINUTE_BEHIND);
    let [redis, mariadb] = ["redis", "mariadb"].map(|name| private_by(&clock, name));
    let addresses = (redis.address("redis"), mariadb.address("mariadb"));
    configure_with(&addresses.0, &addresses.1, dir.path(), "clock_servers", "");
    let servers = [(); 3].map(|()| serve_by(dir.path(), Some(&clock)));
    servers.iter().for_each(until_ready);
    let mut orders = some_orders(&servers[0], 1..4);

    // As when these machines alone had stood still for a minute: what servers count is behind, and every system's clock is right.
    clock.set(RIGHT);
    let says = ["the clock of redis ", "machines of servers were paused", "`doorbuster clock confirm`"];
    servers.iter().for_each(|server| until_readiness(server, 503, &says));
    assert_eq!(place_once(&servers[1], 7, "k", 29, 1).status, 503);
    let (code, _, errors) = confirm(dir.path(), &servers[0]);
    assert_eq!(code, 0, "{errors}");
    // With that one Redis and the database are most: the others take their systems' time by themselves.
    servers.iter().for_each(until_ready);
    for (server, members) in servers.iter().zip([8..10, 10..12, 12..14]) {
        orders.extend(some_orders(server, members));
    }
    all_are_held(&servers[2], &orders);
    audit(dir.path());
}
