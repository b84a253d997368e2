//! Sales on the other kinds of Redis: behind Sentinels that make another master, on Valkey, and on a Redis Cluster that loses a shard.

use std::collections::HashMap;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::cluster::{SOON, accepted, ask_once, audit, code, command, configure_on, place_once, serve};
use crate::cluster_gate::{get, until, until_ready};
use crate::cluster_queues::metric;
use crate::engines::Engines;
use crate::serving::{OPERATOR, Serving};

/// One unit for each buyer of the demo's scarcest product, and more buyers than that.
const UNITS: usize = 100;
const SCARCE: u64 = 30;
const PLENTY: u64 = 29;
const BUYERS: usize = 140;
const SENTINELS: [&str; 3] = ["sentinel-0", "sentinel-1", "sentinel-2"];

#[track_caller]
fn redis_cli(address: &str, command: &[&str]) -> String {
    try_redis_cli(address, command).unwrap()
}

fn try_redis_cli(address: &str, command: &[&str]) -> Result<String, String> {
    let (host, port) = address.rsplit_once(':').unwrap();
    let output = Command::new("redis-cli").args(["-h", host, "-p", port]).args(command).output().unwrap();
    if !output.status.success() {
        return Err(format!("{command:?}: {output:?}"));
    }
    Ok(String::from_utf8(output.stdout).unwrap())
}

/// All buyers, a few at once, each asking until it is known what came of it: how often each answer was given. `sold` counts on
/// the way.
fn sell_out(servers: &[Serving], sold: &AtomicUsize) -> HashMap<String, usize> {
    let answers = std::thread::scope(|scope| {
        let buyers: Vec<_> = (0..4)
            .map(|first| {
                scope.spawn(move || {
                    let members = (1..=BUYERS).skip(first).step_by(4);
                    let answer = |member| answer_of(&servers[member % servers.len()], member, sold);
                    members.map(answer).collect::<Vec<String>>()
                })
            })
            .collect();
        buyers.into_iter().flat_map(|buyer| buyer.join().unwrap()).collect::<Vec<String>>()
    });
    let mut counts = HashMap::new();
    answers.into_iter().for_each(|answer| *counts.entry(answer).or_default() += 1);
    counts
}

fn answer_of(server: &Serving, member: usize, sold: &AtomicUsize) -> String {
    let started = Instant::now();
    loop {
        let answer = place_once(server, member as u64, "k", SCARCE, 1);
        match answer.status {
            201 | 202 => {
                sold.fetch_add(1, Ordering::Relaxed);
                return "accepted".to_owned();
            }
            503 => assert!(started.elapsed() < SOON, "{answer:?}"),
            _ => return code(&answer),
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[track_caller]
fn check_sold_out(answers: &HashMap<String, usize>, directory: &Path, servers: &[Serving]) -> String {
    let refused = BUYERS - UNITS;
    let expected = [("accepted".to_owned(), UNITS), ("sold_out".to_owned(), refused)];
    assert_eq!(*answers, HashMap::from(expected));
    let audited = audit(directory);
    assert!(audited.contains("ok: every invariant holds"), "{audited}");
    // As many were accepted as there were units, and none of these is left: so none of those was rejected.
    for server in servers {
        until("it shows what the ledger has", || {
            let (_, stock) = get(server, "/api/v1/stock?sale=3&product=30");
            (stock.contains("\"available\":0,"), stock)
        });
    }
    audited
}

#[test]
fn a_sale_goes_on_exactly_while_sentinels_replace_its_master() {
    let dir = tempfile::tempdir().unwrap();
    let engines = Engines::private(&["sentinel"], &[("DOORBUSTER_REDIS_SENTINEL_DOWN_AFTER_MS", "2000")]);
    let sentinels = SENTINELS.map(|sentinel| engines.address(sentinel)).join("\", \"");
    configure_on(&sentinels, dir.path(), "watched", "");
    let path = dir.path().join("doorbuster.toml");
    let config = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, config.replace("[gate]\n", "[gate]\nmode = \"sentinel\"\n")).unwrap();
    let servers = [serve(dir.path()), serve(dir.path())];
    servers.iter().for_each(|server| drop(accepted(server, 1000, "k", PLENTY)));

    let named = |member: &str| {
        let address =
            redis_cli(&engines.address(member), &["sentinel", "get-master-addr-by-name", "mymaster"]);
        address.split_whitespace().collect::<Vec<_>>().join(":")
    };
    let node = |address: &str| {
        let nodes = ["sentinel-redis-0", "sentinel-redis-1", "sentinel-redis-2"];
        nodes.into_iter().find(|node| engines.address(node) == address).unwrap()
    };
    let first = named("sentinel-0");
    let shown =
        |address: &str| format!("redis {address}: appendonly = yes, appendfsync = everysec, min-replicas");
    let ready = get(&servers[0], "/readyz").1;
    assert!(ready.contains(&shown(&first)), "{ready}");

    let sold = AtomicUsize::new(0);
    let answers = std::thread::scope(|scope| {
        let answers = scope.spawn(|| sell_out(&servers, &sold));
        until("some are sold", || {
            let sold = sold.load(Ordering::Relaxed);
            (sold >= UNITS / 4, sold.to_string())
        });
        engines.kill(node(&first));
        answers.join().unwrap()
    });
    let second = named("sentinel-0");
    assert_ne!(first, second);
    let audited = check_sold_out(&answers, dir.path(), &servers);
    assert!(audited.contains(&shown(&second)), "{audited}");

    // The old master comes back as one, until a Sentinel makes it a replica; nobody is sent there.
    engines.up(&["sentinel"]);
    for member in 1..=20 {
        accepted(&servers[0], member, "k", PLENTY);
    }
    until("it follows the new one", || match try_redis_cli(&first, &["info", "replication"]) {
        Ok(role) => (role.contains("role:slave"), role),
        // Whoever is connected when Sentinels make a replica of it is disconnected.
        Err(failed) => (false, failed),
    });
    accepted(&servers[1], 21, "k", PLENTY);
    audit(dir.path());

    // One that could sell beside its replica, once it is cut off, is not begun with.
    redis_cli(&second, &["config", "set", "min-replicas-to-write", "0"]);
    let says = format!("the gate may sell twice: redis {second}: min-replicas-to-write = 0 (");
    let mut check = crate::doorbuster(dir.path());
    check
        .args(["config", "--check", "doorbuster.toml", "--connect"])
        .env("DOORBUSTER_AUTH_TOKEN_SECRET", "0123456789abcdefghijklmnopqrstuv");
    for mut command in [command(dir.path(), "127.0.0.1:0"), check] {
        let (code, _, said) = crate::outcome(command.output().unwrap());
        assert!(code != 0 && said.contains(&says), "{command:?}: {code} {said}");
    }
    accepted(&servers[1], 22, "k", PLENTY);
}

#[test]
fn a_sale_on_valkey_sells_out_exactly_though_it_is_wiped() {
    let dir = tempfile::tempdir().unwrap();
    let engines = Engines::private(&["valkey"], &[]);
    let valkey = engines.address("valkey");
    configure_on(&valkey, dir.path(), "valkey", "");
    let servers = [serve(dir.path()), serve(dir.path())];
    servers.iter().for_each(|server| drop(accepted(server, 1000, "k", PLENTY)));
    let sold = AtomicUsize::new(0);
    let answers = std::thread::scope(|scope| {
        let answers = scope.spawn(|| sell_out(&servers, &sold));
        until("some are sold", || {
            let sold = sold.load(Ordering::Relaxed);
            (sold >= UNITS / 4, sold.to_string())
        });
        assert_eq!(redis_cli(&valkey, &["flushall"]).trim(), "OK");
        answers.join().unwrap()
    });
    let audited = check_sold_out(&answers, dir.path(), &servers);
    let shown = format!("valkey {valkey}: appendonly = yes, appendfsync = everysec");
    let ready = get(&servers[0], "/readyz").1;
    assert!(audited.contains(&shown) && ready.contains(&shown), "{audited}{ready}");
}

/// On a Redis Cluster of its own, of which what is left goes on when a shard is away.
pub(crate) fn configure_shards(engines: &Engines, directory: &Path, name: &str) {
    for node in 0..6 {
        let address = engines.address(&format!("redis-cluster-{node}"));
        let set = ["config", "set", "cluster-require-full-coverage", "no"];
        assert_eq!(redis_cli(&address, &set).trim(), "OK");
    }
    let masters = [0, 1, 2].map(|node| engines.address(&format!("redis-cluster-{node}")));
    configure_on(&masters.join("\", \""), directory, name, "");
    let path = directory.join("doorbuster.toml");
    let config = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, config.replace("[gate]\n", "[gate]\nmode = \"cluster\"\n")).unwrap();
}

/// With the replica that would be promoted.
pub(crate) fn kill_a_shard(engines: &Engines) {
    engines.kill("redis-cluster-3");
    engines.kill("redis-cluster-0");
}

/// Every server was not ready, and it was said that no order is taken.
#[test]
fn with_one_shard_away_the_rest_is_sold_and_what_is_not_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let engines = Engines::private(&["redis-cluster"], &[]);
    configure_shards(&engines, dir.path(), "in_parts");
    let server = serve(dir.path());
    until_ready(&server);
    let first_line = || {
        let (status, body) = get(&server, "/readyz");
        (status, body.lines().next().unwrap_or_default().to_owned())
    };
    until("all are sold", || (first_line() == (200, "ready".to_owned()), first_line().1));

    kill_a_shard(&engines);
    let mut said = String::new();
    until("a part is away", || {
        let (status, line) = first_line();
        said.clone_from(&line);
        (status == 200 && line.starts_with("ready; “"), line)
    });
    let of_shop = |line: &str| line.contains(" more can't be bought, other products can: ");
    assert!(of_shop(&said) && said.matches('“').count() == 3 && said.contains("redis "), "{said}");
    let bearer = format!("Bearer {OPERATOR}");
    until("the figures say so", || {
        let figures = ask_once(&server, "GET", "/api/v1/figures", &[("Authorization", &bearer)], "").json();
        let events = figures["events"].as_array().unwrap();
        let of = |kind: &str| events.iter().any(|event| event["kind"] == kind);
        assert!(!of("no_orders_taken"), "{figures}");
        let is = figures["verdict"]["code"] == "gate_part_away" && of("part_away");
        (is && metric(&server, "doorbuster_gate_part_away") == 1, figures.to_string())
    });
    let url = format!("http://{}", server.address);
    let mut status = crate::doorbuster(dir.path());
    status.args(["status", "--server", &url]).env("DOORBUSTER_OPERATOR_TOKEN", OPERATOR);
    let (code, printed, errors) = crate::outcome(status.output().unwrap());
    let reason = printed.lines().nth(1).unwrap_or_default();
    assert!(code == 0 && printed.starts_with("ready  ") && of_shop(reason), "{code} {printed}{errors}");
    // A third of the parcels of its shop is on each master.
    let statuses: Vec<u16> = (100..160)
        .map(|product: u64| {
            let order = format!("{{\"sale\": 1, \"product\": {product}, \"quantity\": 1}}");
            let headers = [("memberId", "7"), ("Content-Type", "application/json")];
            ask_once(&server, "POST", "/api/v1/orders", &headers, &order).status
        })
        .collect();
    assert!(statuses.iter().all(|status| [201, 202, 503].contains(status)), "{statuses:?}");
    assert!(statuses.contains(&503) && statuses.iter().any(|status| *status < 300), "{statuses:?}");

    engines.up(&["redis-cluster"]);
    until("all are sold again", || (first_line() == (200, "ready".to_owned()), first_line().1));
    audit(dir.path());
}
