//! A sale rehearsed by the real program: what it says, what it leaves, and when it refuses. Timings are no part of it: a crowd
//! that is too small to tell anything is the same on every machine.

use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::cluster::ask_once;
use crate::mysql;
use crate::rehearse_cluster::databases;
use crate::reload::wait_until;
use crate::serving::{OPERATOR, Serving};
use crate::{doorbuster, outcome, run};

pub(crate) const DROP: &str = "\
title = 'Winter drop'
starts_at = '2099-12-01T10:00:00Z'
for = '2h'
payment = 'none'
[[item]]
product = 30
title = 'Shoe'
price = 4999
total = 40
limit = 1
image = 'shoe.svg'
alt = 'A shoe'
[[item]]
product = 31
title = 'Hat'
price = 500
total = 10
";
const PATIENCE: Duration = Duration::from_secs(60);

/// A folder with drop.toml, and a configuration of which no server answers.
fn installation() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("drop.toml"), DROP).unwrap();
    configure(folder.path(), "");
    folder
}

fn configure(folder: &Path, more: &str) {
    // Nobody listens on port 1.
    let config = format!(
        "[http]\nlisten = '127.0.0.1:1'\n[ledger]\ndata_dir = 'data'\nsynchronous = 'normal'\n{more}"
    );
    std::fs::write(folder.join("doorbuster.toml"), config).unwrap();
}

fn configure_mysql(folder: &Path, name: &str) {
    mysql::configure(folder, name);
    let path = folder.join("doorbuster.toml");
    let config = std::fs::read_to_string(&path).unwrap() + "[http]\nlisten = '127.0.0.1:1'\n";
    std::fs::write(&path, config).unwrap();
}

const QUICK: [&str; 8] =
    ["rehearse", "drop.toml", "--config", "doorbuster.toml", "--buyers", "300", "--over", "4s"];
/// Before there is a ledger.
const FIRST: [&str; 9] =
    ["rehearse", "drop.toml", "--config", "doorbuster.toml", "--buyers", "300", "--over", "4s", "--yes"];

/// What a rehearsal leaves.
pub(crate) fn left(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|name| !["drop.toml", "doorbuster.toml"].contains(&name.as_str())).collect()
}

#[test]
fn a_small_crowd_buys_all_and_leaves_nothing() {
    let folder = installation();
    let (code, stdout, stderr) = run(folder.path(), &FIRST);
    assert_eq!(code, 2, "{stdout}{stderr}");
    assert!(stdout.starts_with("Too small a crowd to tell: "), "{stdout}");
    assert!(stdout.lines().next().unwrap().ends_with("The audit is clean."), "{stdout}");
    assert!(stdout.contains("all 50 units after "), "{stdout}");
    assert!(!stderr.contains("Too small a crowd"), "it is said once: {stderr}");
    assert!(stderr.contains("data: whether a sale is live was not looked at"), "{stderr}");
    assert!(left(folder.path()).is_empty(), "{:?}", left(folder.path()));

    let (code, stdout, stderr) = run(folder.path(), &[&FIRST[..], &["--json"]].concat());
    assert_eq!(code, 2, "{stdout}{stderr}");
    let found: Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!(
        (&found["units"], &found["left"], &found["answered"]["won"]),
        (&50.into(), &0.into(), &50.into())
    );
    assert_eq!(found["orders_per_s"], Value::Null);
}

#[test]
fn half_of_the_buyers_pay_and_the_units_of_the_others_are_sold_again() {
    let folder = installation();
    let drop = DROP.replace("payment = 'none'\n", "payment = '15m'\n");
    std::fs::write(folder.path().join("drop.toml"), drop).unwrap();
    let (code, stdout, stderr) = run(folder.path(), &[&FIRST[..], &["--json"]].concat());
    assert_eq!(code, 2, "{stdout}{stderr}");
    let found: Value = serde_json::from_str(&stdout).unwrap();
    let paying = &found["paying"];
    let counts = ["due", "paid", "came_back", "sold_again"].map(|name| paying[name].as_u64().unwrap());
    assert_eq!(counts, [25; 4], "{stdout}");
}

#[test]
fn one_server_on_a_mysql_ledger_is_rehearsed_on_a_database_beside_it() {
    let (folder, name) = (installation(), "rehearsed_alone");
    configure_mysql(folder.path(), name);
    let drop = DROP.replace("payment = 'none'\n", "payment = '15m'\n");
    std::fs::write(folder.path().join("drop.toml"), drop).unwrap();
    let (code, stdout, stderr) = run(folder.path(), &[&FIRST[..], &["--json"]].concat());
    assert_eq!(code, 2, "{stdout}{stderr}");
    assert!(stderr.contains(&format!("rehearsing as {name}_rehearsal_")), "{stderr}");
    let found: Value = serde_json::from_str(&stdout).unwrap();
    assert!(found["verdict"].as_str().unwrap().ends_with("The audit is clean."), "{stdout}");
    let counts = ["due", "paid", "came_back", "sold_again"].map(|of| found["paying"][of].as_u64().unwrap());
    assert_eq!(counts, [25; 4], "{stdout}");
    assert_eq!((databases(name), left(folder.path())), (vec![], vec![]));
}

/// `--data-dir` of another folder than the live server's let the crowd play beside its sale.
#[test]
fn where_there_is_no_ledger_to_look_at_it_is_asked_about() {
    let folder = installation();
    let refused = |arguments: &[&str], missing: &str| {
        let (code, stdout, stderr) = run(folder.path(), arguments);
        assert_eq!((code, stdout.as_str()), (64, ""), "{stderr}");
        assert!(stderr.contains(missing), "{stderr}");
        assert!(
            stderr.trim_end().ends_with("of the server names its ledger); if that is meant, say --yes"),
            "{stderr}"
        );
        assert!(left(folder.path()).is_empty(), "{:?}", left(folder.path()));
    };
    refused(&QUICK, "data, so whether a sale is live can't be looked at");
    refused(&[&QUICK[..], &["--data-dir", "wrong"]].concat(), "wrong, so whether");
    configure_mysql(folder.path(), "rehearsed_nowhere");
    refused(&QUICK, "there is no ledger in the database rehearsed_nowhere");
}

#[test]
fn beside_a_sale_nothing_is_rehearsed() {
    let folder = installation();
    // A demo's sale is live for an hour.
    let data_dir = folder.path().join("data");
    let mut server = doorbuster(folder.path());
    server.args(["serve", "--demo", "--listen", "127.0.0.1:0", "--data-dir"]).arg(&data_dir);
    let mut server = server.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let begun = Instant::now();
    let live = || run(folder.path(), &QUICK).2.contains(" is live: rehearse before, or when it is over");
    while !data_dir.join("ledger.db").exists() || !live() {
        assert!(begun.elapsed() < PATIENCE, "{:?}", run(folder.path(), &QUICK));
    }
    let (code, stdout, stderr) = run(folder.path(), &[&QUICK[..], &["--yes"]].concat());
    assert_eq!((code, stdout.as_str()), (1, ""), "{stderr}");
    server.kill().unwrap();
    server.wait().unwrap();
}

#[test]
fn the_settings_of_the_configuration_hold() {
    let folder = installation();
    configure(folder.path(), "[admission]\norders_per_s = 10\nburst = 1\n");
    let (_, stdout, stderr) = run(folder.path(), &[&FIRST[..], &["--json"]].concat());
    let found: Value = serde_json::from_str(&stdout).expect(&stderr);
    assert!(found["answered"]["limited"].as_u64().unwrap() > 0, "{stdout}");
    assert_eq!(found["admitted_per_s"], 10);
}

#[test]
fn what_can_not_be_rehearsed_is_refused_before_anything_is_made() {
    let folder = installation();
    let refused = |arguments: &[&str], wanted: i32, reason: &str| {
        let (code, stdout, stderr) = run(folder.path(), &[&QUICK[..], arguments].concat());
        assert_eq!((code, stdout.as_str()), (wanted, ""), "{arguments:?}: {stderr}");
        assert!(stderr.contains(reason), "{arguments:?}: {stderr}");
        assert!(left(folder.path()).is_empty(), "{arguments:?}: {:?}", left(folder.path()));
    };
    let wrong = |arguments: &[&str], reason: &str| {
        let (code, _, stderr) = run(folder.path(), &[&["rehearse", "drop.toml"], arguments].concat());
        assert_eq!(code, 64, "{arguments:?}: {stderr}");
        assert!(stderr.contains(reason), "{arguments:?}: {stderr}");
    };
    wrong(&["--buyers", "1000001"], "1000001 is not in 1..=1000000");
    wrong(&["--over", "3s"], "write 4s to 60s");
    wrong(&["--servers", "3"], "3 is not in 1..=2");
    wrong(&["--clean-up"], "cannot be used with");
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let listen = format!("[http]\nlisten = '{}'\n", listener.local_addr().unwrap());
    std::fs::write(folder.path().join("doorbuster.toml"), listen).unwrap();
    refused(&[], 1, "a server answers on 127.0.0.1:");
    configure(folder.path(), "");
    refused(&["--servers", "2"], 64, "set cluster.enabled");
    std::fs::write(folder.path().join("drop.toml"), format!("{DROP}[item.line]\n")).unwrap();
    refused(&[], 64, "product 31 is sold to a line, and the crowd of a rehearsal does not queue");
    std::fs::write(folder.path().join("drop.toml"), "title = 'Winter drop'\n").unwrap();
    refused(&[], 64, "see `doorbuster sale create --help`");
}

/// One that is under way: its folder has the ledger of its server.
fn under_way(folder: &Path) -> Child {
    under_way_saying(folder, Stdio::null())
}

fn under_way_saying(folder: &Path, said: Stdio) -> Child {
    let mut command = doorbuster(folder);
    command.args(&QUICK[..6]).args(["--over", "60s", "--yes"]).stdout(Stdio::null()).stderr(said);
    let child = command.spawn().unwrap();
    let ledger = folder.join(format!("rehearsal-{}/data/ledger.db", child.id()));
    let begun = Instant::now();
    while !ledger.exists() {
        assert!(begun.elapsed() < PATIENCE, "no server was started");
        sleep(Duration::from_millis(5));
    }
    child
}

#[test]
fn a_signal_ends_it_and_removes_its_files() {
    let folder = installation();
    let mut child = under_way(folder.path());
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(1));
    assert!(left(folder.path()).is_empty(), "{:?}", left(folder.path()));
}

/// Only one that the console's button had begun ended; the crowd of a terminal's played on beside the sale.
#[test]
fn a_sale_that_begins_meanwhile_ends_one_in_a_terminal() {
    let folder = installation();
    let mut command = doorbuster(folder.path());
    command.args(["serve", "--config", "doorbuster.toml", "--listen", "127.0.0.1:0"]);
    command.env("DOORBUSTER_AUTH_TOKEN_SECRET", "a-token-secret-of-the-rehearsal-tests");
    let server = Serving::start(command);
    let said = folder.path().join("said");
    let child = under_way_saying(folder.path(), std::fs::File::create(&said).unwrap().into());
    // Its own sale has begun by now, which is not one of the installation.
    let drop =
        DROP.replace("2099-12-01T10:00:00Z", "now").replace("image = 'shoe.svg'\nalt = 'A shoe'\n", "");
    std::fs::write(folder.path().join("drop.toml"), drop).unwrap();
    let mut create = doorbuster(folder.path());
    create.args(["sale", "create", "drop.toml", "--server", &format!("http://{}", server.address)]);
    let (code, _, errors) = outcome(create.env("DOORBUSTER_OPERATOR_TOKEN", OPERATOR).output().unwrap());
    assert_eq!(code, 0, "{errors}");
    let ended = child.wait_with_output().unwrap();
    let said = std::fs::read_to_string(said).unwrap();
    assert_eq!(ended.status.code(), Some(1), "{said}");
    assert!(said.contains("sale 1 is live: the rehearsal ends"), "{said}");
    let last = said.lines().last().unwrap();
    assert!(
        last.contains("stopped: sale 1 is live; nothing was changed") && !last.contains("signal"),
        "{said}"
    );
    assert_eq!(server.stop(), 0);
    let mut left = left(folder.path());
    left.sort();
    assert_eq!(left, ["data", "said"]);
}

#[test]
fn what_a_killed_one_leaves_is_removed_by_the_next() {
    let folder = installation();
    let mut killed = under_way(folder.path());
    killed.kill().unwrap();
    killed.wait().unwrap();
    let of_killed = format!("rehearsal-{}", killed.id());
    assert_eq!(left(folder.path()), [of_killed.as_str()]);
    // A folder of that name that no rehearsal made.
    std::fs::create_dir(folder.path().join("rehearsal-dinner")).unwrap();
    // What it finds counts though nobody reads it.
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut unread = doorbuster(folder.path());
    let (code, _, stderr) = outcome(unread.args(FIRST).stdout(writer).output().unwrap());
    assert_eq!(code, 2, "{stderr}");
    assert!(stderr.contains(&of_killed), "{stderr}");
    assert_eq!(left(folder.path()), ["rehearsal-dinner"]);
}

/// With a key.
fn rehearse_tonight(server: &Serving, crowd: &str) -> u16 {
    let bearer = format!("Bearer {OPERATOR}");
    let headers = [("Authorization", &*bearer), ("Idempotency-Key", "tonight")];
    ask_once(server, "POST", "/api/v1/sales/1/rehearse", &headers, crowd).status
}

#[test]
fn an_operator_of_a_server_has_tonights_sale_rehearsed() {
    let folder = installation();
    let mut command = doorbuster(folder.path());
    command.args(["serve", "--config", "doorbuster.toml", "--listen", "127.0.0.1:0"]);
    command.env("DOORBUSTER_AUTH_TOKEN_SECRET", "a-token-secret-of-the-rehearsal-tests");
    let server = Serving::start(command);
    let ask = |method: &str, path: &str, body: &str| {
        let bearer = format!("Bearer {OPERATOR}");
        ask_once(&server, method, path, &[("Authorization", &bearer)], body)
    };
    let create = |starts: &str| {
        let mut command = doorbuster(folder.path());
        command.args(["sale", "create", "drop.toml", "--server", &format!("http://{}", server.address)]);
        let drop =
            DROP.replace("2099-12-01T10:00:00Z", starts).replace("image = 'shoe.svg'\nalt = 'A shoe'\n", "");
        std::fs::write(folder.path().join("drop.toml"), drop).unwrap();
        let (code, _, errors) = outcome(command.env("DOORBUSTER_OPERATOR_TOKEN", OPERATOR).output().unwrap());
        assert_eq!(code, 0, "{errors}");
    };
    let ended = || {
        let begun = Instant::now();
        loop {
            let shown: Value = serde_json::from_str(&ask("GET", "/api/v1/rehearsal", "").body).unwrap();
            if shown["state"] == "ended" {
                return shown;
            }
            assert!(begun.elapsed() < PATIENCE, "{shown}");
            sleep(Duration::from_millis(20));
        }
    };
    create("2099-12-01T10:00:00Z");
    let crowd = r#"{"buyers":300,"over_s":4}"#;
    assert_eq!(ask("POST", "/api/v1/sales/9/rehearse", crowd).status, 404);
    assert_eq!(ask("POST", "/api/v1/sales/1/rehearse", r#"{"buyers":200001}"#).status, 400);
    assert_eq!(ask("POST", "/api/v1/sales/1/rehearse", r#"{"over_s":3}"#).status, 400);
    assert_eq!(ask("GET", "/api/v1/rehearsal", "").body, r#"{"state":"none"}"#);
    for _again in 0..2 {
        assert_eq!(rehearse_tonight(&server, crowd), 202, "sent again, it is the same one");
    }
    let again = ask("POST", "/api/v1/sales/1/rehearse", crowd);
    assert!(again.status == 409 && again.body.contains("rehearsal_playing"), "{}", again.body);
    let found = ended();
    let says = found["says"].as_str().unwrap();
    assert!(
        says.starts_with("Too small a crowd to tell: ") && says.ends_with("The audit is clean."),
        "{found}"
    );
    assert_eq!(
        (&found["outcome"], &found["report"]["answered"]["won"]),
        (&"inconclusive".into(), &50.into())
    );

    assert!(ask("POST", "/api/v1/rehearsal/stop", "").body.contains("no_rehearsal"));
    assert_eq!(rehearse_tonight(&server, crowd), 202);
    let latest: Value = serde_json::from_str(&ask("GET", "/api/v1/rehearsal", "").body).unwrap();
    assert_eq!(latest["began_at_ms"], found["began_at_ms"], "none was begun anew");

    // Beside a sale none is begun, and one that is played ends when a sale begins.
    let long = r#"{"buyers":300,"over_s":60}"#;
    assert_eq!(ask("POST", "/api/v1/sales/1/rehearse", long).status, 202);
    wait_until("it is played", || ask("GET", "/api/v1/rehearsal", "").body.contains("the crowd comes"));
    create("now");
    let found = ended();
    assert!(found["says"].as_str().unwrap().contains("sale 2 is live"), "{found}");
    assert_eq!(ask("POST", "/api/v1/rehearsal/stop", "").status, 202, "as it was wished");
    let beside = ask("POST", "/api/v1/sales/1/rehearse", crowd);
    assert!(beside.status == 409 && beside.body.contains("machine_needed"), "{}", beside.body);
    assert_eq!(ask("POST", "/api/v1/sales/2/rehearse", crowd).status, 409, "it has started");
    let log = ask("GET", "/api/v1/operators/log", "").body;
    for kept in ["sale 1, 300 buyers within 4 s", "sale 1, 300 buyers: Too small a crowd to tell"] {
        assert!(log.contains(kept), "{log}");
    }
    assert_eq!(server.stop(), 0);
    assert_eq!(left(folder.path()), ["data"]);
}

#[test]
fn a_rehearsal_ends_with_its_server() {
    let folder = installation();
    let serve = || {
        let mut command = doorbuster(folder.path());
        command.args(["serve", "--config", "doorbuster.toml", "--listen", "127.0.0.1:0"]);
        command.env("DOORBUSTER_AUTH_TOKEN_SECRET", "a-token-secret-of-the-rehearsal-tests");
        Serving::start(command)
    };
    let ask = |server: &Serving, method: &str, path: &str, body: &str| {
        ask_once(server, method, path, &[("Authorization", &format!("Bearer {OPERATOR}"))], body)
    };
    let server = serve();
    let sale = r#"{"title":"Tonight","currency":"EUR","starts_at_ms":4000000000000,"ends_at_ms":4000000060000,"payment_s":null,
        "items":[{"product":30,"title":"Shoe","price":1,"total":40,"limit":null}]}"#;
    assert_eq!(ask(&server, "POST", "/api/v1/sales", sale).status, 201);
    let begin = |server: &Serving| {
        let begun = ask(server, "POST", "/api/v1/sales/1/rehearse", r#"{"buyers":300,"over_s":60}"#);
        assert_eq!(begun.status, 202, "{}", begun.body);
        wait_until("it is played", || {
            let shown = ask(server, "GET", "/api/v1/rehearsal", "").body;
            assert!(shown.contains("\"playing\""), "{shown}");
            shown.contains("the crowd comes")
        });
        assert_eq!(left(folder.path()).len(), 2, "its folder");
    };
    begin(&server);
    assert_eq!(server.stop(), 0);
    assert_eq!(left(folder.path()), ["data"], "it has ended when the server has");
    let server = serve();
    let log = ask(&server, "GET", "/api/v1/operators/log", "").body;
    assert!(log.contains("sale 1, 300 buyers: Stopped: the server stops."), "{log}");
    begin(&server);
    let other = run(folder.path(), &QUICK);
    assert!(other.0 == 1 && other.2.contains("another rehearsal is under way"), "{}", other.2);
    server.kill();
    wait_until("it ends, and its files go", || left(folder.path()) == ["data"]);
    let cut_off = |server: &Serving| {
        let log = ask(server, "GET", "/api/v1/operators/log", "").body;
        log.matches("300 buyers within 60 s: Cut off: its server ended before it did.").count()
    };
    let server = serve();
    wait_until("its end is noted", || cut_off(&server) == 1);

    // The machine goes down: it has no time to remove its files, which the next start does.
    begin(&server);
    let folder_left = left(folder.path()).into_iter().find(|name| name != "data").unwrap();
    let pid = folder_left.strip_prefix("rehearsal-").unwrap().parse().unwrap();
    kill_process(Pid::from_raw(pid).unwrap(), Signal::STOP).unwrap();
    server.kill();
    kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL).unwrap();
    assert!(left(folder.path()).contains(&folder_left), "{:?}", left(folder.path()));
    let server = serve();
    wait_until("its end is noted, after its files are removed", || cut_off(&server) == 2);
    assert_eq!(left(folder.path()), ["data"]);
    assert_eq!(server.stop(), 0);
    let server = serve();
    assert_eq!(cut_off(&server), 2, "once each");
    assert_eq!(server.stop(), 0);
}
