//! Any server of a cluster shows what all of them do, and which one is missed.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use serde_json::{Value, json};
use server::cluster::ledger_missed_within;
use server::ledger::mysql::Limits;

use crate::cluster::{accepted, ask_once, command, configure, configure_on, configure_with, serve};
use crate::cluster_gate::{get, until, until_ready};
use crate::engines::Engines;
use crate::figures::{history, over};
use crate::serving::{OPERATOR, Serving};
use crate::{doorbuster, outcome, run};

pub(crate) fn figures(server: &Serving) -> Value {
    let token = format!("Bearer {OPERATOR}");
    ask_once(server, "GET", "/api/v1/figures", &[("Authorization", token.as_str())], "").json()
}

/// The ports of the servers that are shown, in order, and whether each is counted.
fn shown(figures: &Value) -> Vec<(String, bool)> {
    let one = |server: &Value| {
        let (_, port) = server["server"].as_str().unwrap().rsplit_once(':').unwrap();
        (port.to_owned(), server["counted"].as_bool().unwrap())
    };
    let mut servers: Vec<_> = figures["servers"].as_array().unwrap().iter().map(one).collect();
    servers[1..].sort();
    servers
}

fn port(server: &Serving) -> String {
    server.address.port().to_string()
}

fn until_shown(server: &Serving, what: &str, is: impl Fn(&Value) -> bool) -> Value {
    let mut last = Value::Null;
    until(what, || {
        last = figures(server);
        (is(&last), last.to_string())
    });
    last
}

/// The first line of `doorbuster watch --json`; and what it ends with when it is stopped then, as by Ctrl-C.
fn watched(directory: &Path, server: &Serving) -> (Value, i32, String) {
    let mut command = doorbuster(directory);
    let url = format!("http://{}", server.address);
    command.args(["watch", "--json", "--server", &url]).env("DOORBUSTER_OPERATOR_TOKEN", OPERATOR);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    // Kept, or it ends because nobody reads it.
    let mut lines = BufReader::new(child.stdout.take().unwrap());
    lines.read_line(&mut line).unwrap();
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    let (code, _, errors) = outcome(child.wait_with_output().unwrap());
    (serde_json::from_str(&line).unwrap(), code, errors)
}

#[test]
fn any_server_shows_the_sum_and_says_which_one_is_silent() {
    let dir = tempfile::tempdir().unwrap();
    configure(dir.path(), "sum", "");
    let (a, b, c) = (serve(dir.path()), serve(dir.path()), serve(dir.path()));
    for (buyer, server) in [(1, &a), (2, &b), (3, &b), (4, &c), (5, &c), (6, &c)] {
        accepted(server, buyer, "k", 30);
    }
    for server in [&a, &b, &c] {
        let seen = until_shown(server, "it shows the sum", |seen| {
            seen["totals"]["accepted"] == 6 && shown(seen).iter().all(|(_, counted)| *counted)
        });
        let mut others: Vec<_> = [&a, &b, &c].into_iter().map(port).filter(|p| *p != port(server)).collect();
        others.sort();
        others.insert(0, port(server));
        assert_eq!(
            shown(&seen).into_iter().map(|(port, _)| port).collect::<Vec<_>>(),
            others,
            "itself first"
        );
        let health = &seen["health"];
        let zero = ["refunds_due", "dead_letters"].map(|name| health[name].as_u64());
        assert_eq!((zero, health["webhooks"].is_null()), ([Some(0); 2], true), "{health}");
        assert!(health["backlog"].is_u64() && seen["sales"][0]["rates"]["accepted"].is_f64(), "{seen}");
        // A machine that is busy with other tests is amber, too.
        assert!(!seen["verdict"]["code"].as_str().unwrap().starts_with("servers_"), "{}", seen["verdict"]);
    }

    until("a watch of all three ends well", || {
        let (line, code, errors) = watched(dir.path(), &a);
        for server in line["servers"].as_array().unwrap() {
            let has = |name: &str| server[name].is_u64();
            assert!(has("memory_bytes") && has("disk_free_bytes") && has("disk_bytes"), "{line}");
            assert!(server["clock_confirmed"].is_boolean() && server["clock_ahead_ms"].is_i64(), "{line}");
        }
        (code == 0, format!("{line} {errors}"))
    });
    let gone = port(&b);
    b.kill();
    let seen = until_shown(&a, "one is missed", |seen| {
        let says = seen["verdict"]["says"].as_str().unwrap();
        says.starts_with("2 of 3 servers; ") && says.contains(&format!(":{gone} silent for "))
    });
    let verdict = &seen["verdict"];
    assert_eq!((&verdict["code"], &verdict["level"]), (&json!("servers_silent"), &json!("amber")));
    assert_eq!(seen["totals"]["accepted"], 6, "what it did stays done");
    assert!(shown(&seen).contains(&(gone.clone(), false)), "{seen}");
    let (line, code, errors) = watched(dir.path(), &a);
    assert_eq!(line["verdict"]["code"], "servers_silent", "{line}");
    assert!(shown(&line).contains(&(gone.clone(), false)), "{line}");
    assert_eq!(code, 1, "{errors}");
    assert!(errors.starts_with("error: 1 of 3 servers are out: "), "{errors}");
    assert!(errors.contains(&format!(":{gone} silent for ")), "{errors}");

    // Who stops in order is not missed.
    let stopped = port(&c);
    assert_eq!(c.stop(), 0);
    let seen = until_shown(&a, "it has left", |seen| shown(seen).iter().all(|(port, _)| *port != stopped));
    assert_eq!(shown(&seen).len(), 2, "{seen}");
    let status = doorbuster(dir.path())
        .args(["status", "--server", &format!("http://{}", a.address)])
        .env("DOORBUSTER_OPERATOR_TOKEN", OPERATOR)
        .output();
    let (code, shown, errors) = outcome(status.unwrap());
    assert_eq!(code, 0, "orders are taken: {errors}");
    let rows = shown.lines().skip_while(|line| !line.contains("  disk free  ")).skip(1);
    let mut ports: Vec<_> = rows.filter_map(|row| row.split("  ").next()?.rsplit(':').next()).collect();
    ports.sort_unstable();
    let mut expected = [port(&a), gone];
    expected.sort();
    assert_eq!(ports, expected, "a row for each: {shown}");
}

/// What the killed run had said must not be what is left.
#[test]
fn a_server_that_crashed_came_back_and_stopped_in_order_is_not_missed() {
    let dir = tempfile::tempdir().unwrap();
    configure(dir.path(), "back", "");
    let a = serve(dir.path());
    let start = || {
        let mut command = command(dir.path(), "127.0.0.1:0");
        command.env("DOORBUSTER_CLUSTER_SERVER_NAME", "b:80");
        Serving::start(command)
    };
    let is_counted = |seen: &Value| shown(seen).contains(&("80".to_owned(), true));
    let b = start();
    until_shown(&a, "it is there", is_counted);
    b.kill();
    until_shown(&a, "it is missed", |seen| !is_counted(seen));
    let b = start();
    until_shown(&a, "it is there again", is_counted);
    assert_eq!(b.stop(), 0);
    until_shown(&a, "it has left", |seen| shown(seen).len() == 1);
}

fn history_csv(server: &Serving) -> String {
    let token = format!("Bearer {OPERATOR}");
    let path = "/api/v1/figures/history.csv";
    ask_once(server, "GET", path, &[("Authorization", token.as_str())], "").body
}

#[test]
fn a_servers_history_outlives_a_kill_and_a_directory_is_one_servers() {
    let dir = tempfile::tempdir().unwrap();
    configure(dir.path(), "kept", "[figures]\nhistory_dir = \"kept/figures\"\n");
    let a = serve(dir.path());
    let log = dir.path().join("log");
    let command = command(dir.path(), "127.0.0.1:0");
    let b = Serving::start_logging(command, std::fs::File::create(&log).unwrap());
    until_ready(&b);
    let (mut before, mut orders) = (Vec::new(), 0);
    until("what the other server accepted is in the history", || {
        // A server that gets no processor for a second hears nothing of what another did in it.
        orders += 1;
        accepted(&b, orders, &format!("k{orders}"), 29);
        before = over(history(&a, |rows| rows.len() > 1));
        (before.iter().any(|(_, accepted)| *accepted > 0.0), format!("{before:?}"))
    });
    let csv = history_csv(&a);
    let (csv, _) = csv.trim_end().rsplit_once('\n').unwrap();
    a.kill();
    let a = serve(dir.path());
    let after = history(&a, |rows| rows.len() > before.len());
    assert!(before.iter().all(|row| after.contains(row)), "{before:?} in {after:?}");
    let csv_after = history_csv(&a);
    assert!(csv.lines().all(|line| csv_after.contains(line)), "{csv} in {csv_after}");
    let (code, report, errors) =
        run(dir.path(), &["sale", "report", "3", "--config", "doorbuster.toml", "--json"]);
    assert_eq!(code, 0, "{errors}");
    let report: Value = serde_json::from_str(&report).unwrap();
    let figures = &report["figures"];
    assert!(figures["rows"].as_u64() > Some(0) && figures["incidents"].is_array(), "{report}");
    assert!(!history(&b, |rows| !rows.is_empty()).is_empty(), "in its memory");
    assert_eq!(b.stop(), 0);
    let log = std::fs::read_to_string(log).unwrap();
    let warning = "another server keeps its history of the figures in kept/figures";
    assert_eq!(log.matches(warning).count(), 1, "{log}");
}

#[test]
fn a_server_shows_its_own_figures_while_redis_is_away() {
    let dir = tempfile::tempdir().unwrap();
    let engines = Engines::private(&["redis"], &[]);
    configure_on(&engines.address("redis"), dir.path(), "alone", "");
    let (a, b) = (serve(dir.path()), serve(dir.path()));
    let both = |seen: &Value| shown(seen).iter().filter(|(_, counted)| *counted).count() == 2;
    until_shown(&a, "both are shown", both);
    engines.kill("redis");
    let seen = until_shown(&a, "the other is silent", |seen| seen["servers"][1]["counted"] == false);
    let seen = until_shown(&a, "its own go on", |later| {
        later["number"].as_u64() >= seen["number"].as_u64().map(|number| number + 2)
    });
    assert_eq!((&seen["servers"][0]["counted"], &seen["verdict"]["level"]), (&json!(true), &json!("red")));
    engines.up(&["redis"]);
    until_ready(&a);
    until_ready(&b);
    until_shown(&a, "both are shown again", both);
}

/// A database that is frozen says nothing, not even that it is away. The runbook said that `/readyz` knows of it sooner than it can,
/// and of the refunds, which are only read, it was said that their outcome could not be learnt.
#[test]
fn what_was_read_of_a_ledger_that_is_frozen_is_not_said_to_be_of_now() {
    let dir = tempfile::tempdir().unwrap();
    let engines = Engines::private(&["mariadb"], &[]);
    let redis = Engines::shared(&["redis"]).address("redis");
    configure_with(&redis, &engines.address("mariadb"), dir.path(), "frozen", "");
    let server = serve(dir.path());
    accepted(&server, 1, "k", 30);
    let age = |seen: &Value| seen["health"]["units_age_ms"].as_u64().unwrap();
    until_shown(&server, "they are read", |seen| {
        age(seen) < 5_000 && seen["sales"][0]["units"]["total"] != 0
    });
    engines.freeze("mariadb");
    let frozen = Instant::now();
    let within = ledger_missed_within(&Limits::default());
    until("it is not ready", || {
        let (status, body) = get(&server, "/readyz");
        (status == 503 && body.contains("the ledger (MySQL) can't be used"), body)
    });
    assert!(frozen.elapsed() <= within, "{:?}", frozen.elapsed());
    let runbook = include_str!("../../../../docs/runbook.md");
    let said = format!("frozen, within {} s,", within.as_secs_f64().ceil());
    assert!(runbook.contains(&said), "{said}");
    let url = format!("http://{}", server.address);
    let mut refunds = doorbuster(dir.path());
    refunds.args(["refunds", "list", "--server", &url]).env("DOORBUSTER_OPERATOR_TOKEN", OPERATOR);
    let (code, _, errors) = outcome(refunds.output().unwrap());
    let silent = "error: The ledger can't be read: It did not answer in ";
    assert!(
        code == 69 && errors.starts_with(silent) && errors.ends_with(" s. Nothing was changed: ask again.\n"),
        "{errors}"
    );
    // A busy machine may have something else to say first.
    let seen = until_shown(&server, "they are old", |seen| {
        age(seen) > 5_000 && seen["verdict"]["code"] == "ledger_away"
    });
    let says = seen["verdict"]["says"].as_str().unwrap();
    let hangs =
        says.contains("The ledger has not answered for ") || says.contains("it does not answer in time");
    assert!(hangs && says.starts_with("Orders are accepted"), "{says}");
    engines.thaw("mariadb");
    until_shown(&server, "they are read again", |seen| {
        age(seen) < 5_000 && seen["verdict"]["code"] != "ledger_away"
    });
}
