//! A sale rehearsed on the engines of a cluster, by the real program: what it sells, and that nothing of it is left.

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use server::queue::{Consumer, Options, Security};

use crate::cluster::{ask, code, configure};
use crate::engines::Engines;
use crate::exchange::Response;
use crate::rehearse::{DROP, left};
use crate::serving::{OPERATOR, Serving};
use crate::{outcome, succeeds};

/// Longer than any step takes on the busiest machine.
const PATIENCE: Duration = Duration::from_secs(300);
const QUICK: [&str; 8] =
    ["rehearse", "drop.toml", "--config", "doorbuster.toml", "--buyers", "300", "--over", "4s"];

const PASSWORD: &str = "hush";

/// A folder with drop.toml, and the configuration of a cluster of that name, of which no server answers. Its users have rights
/// by the beginnings of names alone, and their passwords are in the environment.
fn installation(name: &str, drop: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    // Nobody listens on port 1. The broker may not answer in a second on a machine that is busy with other tests.
    configure(folder.path(), name, "[http]\nlisten = '127.0.0.1:1'\n");
    let config = std::fs::read_to_string(folder.path().join("doorbuster.toml")).unwrap();
    let patient = config.replace("servers = 2", "servers = 2\npublish_timeout_ms = 9000");
    let patient = patient.replace("[queue]", "timeout_ms = 9000\n[queue]\ntimeout_ms = 9000");
    let patient = patient.replace("mysql_user = \"root\"", &format!("mysql_user = \"{name}\""));
    let patient = patient.replace("[gate]", &format!("[gate]\nuser = \"{name}\""));
    std::fs::write(folder.path().join("doorbuster.toml"), patient).unwrap();
    std::fs::write(folder.path().join("drop.toml"), drop).unwrap();
    let databases = format!("`{}\\_rehearsal\\_%`", name.replace('_', "\\_"));
    let rights = format!(
        "CREATE USER {name} IDENTIFIED BY '{PASSWORD}'; GRANT ALL PRIVILEGES ON {name}.* TO {name}; \
         GRANT ALL PRIVILEGES ON {databases}.* TO {name}"
    );
    client("mariadb", "mariadb", &[&rights]);
    let (password, keys, tagged) = (format!(">{PASSWORD}"), format!("~{name}*"), format!("~{{{name}*"));
    client(
        "redis-cli",
        "redis",
        &[
            "ACL",
            "SETUSER",
            name,
            "on",
            &password,
            &keys,
            &tagged,
            "+@all",
            "-@dangerous",
            "+info",
            "+config|get",
        ],
    );
    folder
}

fn doorbuster(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = crate::doorbuster(folder);
    command
        .args(arguments)
        .env("DOORBUSTER_MYSQL_PASSWORD", PASSWORD)
        .env("DOORBUSTER_GATE_PASSWORD", PASSWORD);
    command
}

fn run(folder: &Path, arguments: &[&str]) -> (i32, String, String) {
    outcome(doorbuster(folder, arguments).output().unwrap())
}

fn client(program: &str, engine: &str, arguments: &[&str]) -> String {
    let address = Engines::shared(&[engine]).address(engine);
    let (host, port) = address.rsplit_once(':').unwrap();
    let mut command = Command::new(program);
    match program {
        "mariadb" => command.args([
            "--no-defaults",
            "--protocol=tcp",
            "--user=root",
            "--host",
            host,
            "--port",
            port,
            "-N",
            "-e",
        ]),
        _ => command.args(["-h", host, "-p", port]),
    };
    succeeds(command.args(arguments))
}

/// Databases of rehearsals of an installation.
pub(crate) fn databases(name: &str) -> Vec<String> {
    let query = format!("SHOW DATABASES LIKE '{name}\\_rehearsal\\_%'");
    client("mariadb", "mariadb", &[&query]).lines().map(str::to_owned).collect()
}

fn keys(name: &str) -> Vec<String> {
    let pattern = format!("*{name}_rehearsal_*");
    client("redis-cli", "redis", &["--scan", "--pattern", &pattern]).lines().map(str::to_owned).collect()
}

/// Database, topic and prefix have the same name, because those of the installation have.
fn has_topic(name: &str) -> bool {
    let options = Options {
        name_servers: vec![Engines::shared(&["rocketmq"]).address("rocketmq-namesrv")],
        group: "doorbuster".into(),
        send_timeout: PATIENCE,
        security: Security::default(),
    };
    Consumer::new(options, name).queues().is_ok()
}

fn check_nothing_is_left(folder: &Path, name: &str, rehearsed: &str) {
    assert_eq!((databases(name), keys(name)), (vec![], vec![]));
    for topic in ["", "-messages", "-dead"].map(|suffix| format!("{rehearsed}{suffix}")) {
        assert!(!has_topic(&topic), "{topic}");
    }
    assert!(left(folder).is_empty(), "{:?}", left(folder));
}

#[test]
fn a_small_crowd_buys_all_on_two_servers_and_leaves_nothing() {
    let name = "rehearsed";
    let folder = installation(name, &DROP.replace("payment = 'none'", "payment = '15m'"));
    let own = serve(folder.path());
    create(folder.path(), &own, "2099-12-01T10:00:00Z", 1);
    assert_eq!(own.stop(), 0);
    let before = audit(folder.path());
    let (code, stdout, stderr) = run(folder.path(), &[&QUICK[..], &["--servers", "2", "--json"]].concat());
    assert_eq!(code, 2, "{stdout}{stderr}");
    let found: Value = serde_json::from_str(&stdout).unwrap();
    let sentence = found["verdict"].as_str().unwrap();
    assert!(
        sentence.starts_with("Too small a crowd") && sentence.ends_with("The audit is clean."),
        "{stdout}"
    );
    assert_eq!((&found["units"], &found["left"]), (&50.into(), &0.into()), "{stdout}");
    let paying =
        ["due", "paid", "came_back", "sold_again"].map(|name| found["paying"][name].as_u64().unwrap());
    assert_eq!(paying, [25; 4], "{stdout}");
    let rehearsed = stderr.split_once("rehearsing as ").unwrap().1.split_once(':').unwrap().0;
    assert!(rehearsed.starts_with("rehearsed_rehearsal_"), "{stderr}");
    check_nothing_is_left(folder.path(), name, rehearsed);
    // The engines are on this machine, so what they take of it is no other work.
    let watched = found["usage"]["processes"].as_array().unwrap();
    let watched: BTreeSet<_> = watched.iter().map(|of| of["name"].as_str().unwrap()).collect();
    assert!(["mysql", "redis", "rocketmq", "server"].iter().all(|name| watched.contains(name)), "{stdout}");
    assert_eq!(audit(folder.path()), before);

    let own = serve(folder.path());
    create(folder.path(), &own, "+10m", 2);
    let (code, stdout, stderr) = run(folder.path(), &QUICK);
    assert_eq!((code, stdout.as_str()), (1, ""), "{stderr}");
    assert!(stderr.contains("sale 2 begins in "), "{stderr}");
    assert_eq!(own.stop(), 0);
}

fn serve(folder: &Path) -> Serving {
    let mut command =
        doorbuster(folder, &["serve", "--config", "doorbuster.toml", "--listen", "127.0.0.1:0"]);
    command.env("DOORBUSTER_AUTH_TOKEN_SECRET", "a-secret-of-more-than-thirty-two-bytes");
    Serving::start(command)
}

fn create(folder: &Path, server: &Serving, starts: &str, id: u64) {
    let drop =
        DROP.replace("2099-12-01T10:00:00Z", starts).replace("image = 'shoe.svg'\nalt = 'A shoe'\n", "");
    let elsewhere = tempfile::tempdir().unwrap();
    let file = elsewhere.path().join("own.toml");
    std::fs::write(&file, format!("id = {id}\n{drop}")).unwrap();
    let server = format!("http://{}", server.address);
    let mut command = crate::doorbuster(folder);
    command.args(["sale", "create", "--server", &server]).arg(&file);
    succeeds(command.env("DOORBUSTER_OPERATOR_TOKEN", OPERATOR));
}

fn audit(folder: &Path) -> String {
    succeeds(&mut doorbuster(folder, &["audit", "--config", "doorbuster.toml"]))
}

/// One that is under way, once that is so.
fn under_way(folder: &Path, is: impl Fn() -> bool) -> Child {
    let mut command = doorbuster(folder, &QUICK[..6]);
    command.args(["--over", "60s", "--yes"]).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    wait_until(|| child.try_wait().unwrap().is_some() || is());
    if child.try_wait().unwrap().is_some() {
        panic!("it ended before: {:?}", child.wait_with_output());
    }
    child
}

fn wait_until(mut is: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is() {
        assert!(begun.elapsed() < PATIENCE, "it never came so far");
        sleep(Duration::from_millis(5));
    }
}

#[test]
fn what_a_killed_one_leaves_on_the_engines_is_removed_by_the_next() {
    let name = "rehearsed_killed";
    let folder = installation(name, DROP);
    for moment in ["the database is made", "the gates are built", "it is removed"] {
        let mut child = under_way(folder.path(), || match moment {
            "the database is made" => !databases(name).is_empty(),
            _ => !keys(name).is_empty(),
        });
        let rehearsed = databases(name).pop().unwrap();
        if moment == "it is removed" {
            kill_process(Pid::from_child(&child), Signal::INT).unwrap();
            wait_until(|| !has_topic(&rehearsed));
        }
        child.kill().unwrap();
        child.wait().unwrap();
        let (code, stdout, stderr) =
            run(folder.path(), &["rehearse", "--clean-up", "--config", "doorbuster.toml"]);
        assert_eq!((code, stdout.as_str()), (0, ""), "{moment}: {stderr}");
        check_nothing_is_left(folder.path(), name, &rehearsed);
    }
}

#[test]
fn a_signal_ends_one_on_the_engines_and_removes_all() {
    let name = "rehearsed_signal";
    let folder = installation(name, DROP);
    let mut child = under_way(folder.path(), || !keys(name).is_empty());
    let rehearsed = databases(name).pop().unwrap();
    let files = folder.path().join(format!("rehearsal-{}", child.id()));
    let mode = |file: &Path| std::fs::metadata(file).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&files), mode(&files.join("ledger-mysql_password_file"))), (0o700, 0o600));
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(1));
    check_nothing_is_left(folder.path(), name, &rehearsed);
}

/// What the operators' log has of rehearsals, the latest first.
fn rehearsals_kept(server: &Serving) -> Vec<(String, String)> {
    let log = operated(server, "GET", "/api/v1/operators/log", "").json();
    let text = |action: &Value, name: &str| action[name].as_str().unwrap().to_owned();
    let kept =
        log["log"].as_array().unwrap().iter().map(|action| (text(action, "what"), text(action, "about")));
    kept.filter(|(what, _)| what.starts_with("rehearsal_")).collect()
}

fn operated(server: &Serving, method: &str, path: &str, body: &str) -> Response {
    let token = format!("Bearer {OPERATOR}");
    let headers = [("Authorization", token.as_str()), ("Content-Type", "application/json")];
    ask(server, method, path, &headers, body)
}

/// That a server shows one that is played elsewhere, as `says` ends; `None`: that it shows none.
fn wait_for_elsewhere(server: &Serving, says: Option<&str>) {
    let said = says.map(|says| format!("Another rehearsal of this installation is under way{says}."));
    wait_until(|| {
        let shown = operated(server, "GET", "/api/v1/rehearsal?sale=1", "").json();
        let why_not = shown["why_not"].as_str();
        let is_refused =
            why_not.is_some_and(|why| why.contains("another rehearsal of this installation is under way"));
        shown["elsewhere"].as_str() == said.as_deref() && is_refused == said.is_some()
    });
}

/// It was known only once another one was begun, and failed; and the log of one whose server had died had no end.
#[test]
fn one_that_is_played_elsewhere_is_said_and_its_end_noted_once_if_its_server_died() {
    let name = "rehearsed_elsewhere";
    let folder = installation(name, DROP);
    let [a, b, c] = [(); 3].map(|()| serve(folder.path()));
    create(folder.path(), &a, "2099-12-01T10:00:00Z", 1);
    let crowd = r#"{"buyers":300,"over_s":60}"#;
    let rehearse = |server| operated(server, "POST", "/api/v1/sales/1/rehearse", crowd);

    let mut child = under_way(folder.path(), || !databases(name).is_empty());
    wait_for_elsewhere(&b, Some(""));
    let refused = rehearse(&b);
    assert_eq!((refused.status, code(&refused)), (409, "rehearsal_playing".to_owned()));
    assert_eq!(rehearsals_kept(&b), []);
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    child.wait().unwrap();
    wait_for_elsewhere(&a, None);

    let begun = rehearse(&a);
    assert_eq!(begun.status, 202, "{begun:?}");
    wait_for_elsewhere(&b, Some(": sale 1, 300 buyers within 60 s, begun by root"));
    assert_eq!(operated(&a, "GET", "/api/v1/rehearsal", "").json()["elsewhere"], Value::Null);
    a.kill();
    wait_until(|| rehearsals_kept(&b).len() > 1);
    wait_for_elsewhere(&c, None);
    let of_dead = "sale 1, 300 buyers within 60 s";
    let cut_off = format!("{of_dead}: Cut off: it is not played any more, and its server has noted no end.");
    let [ended, began] = [("rehearsal_ended", &*cut_off), ("rehearsal_began", of_dead)]
        .map(|(what, about)| (what.to_owned(), about.to_owned()));
    assert_eq!(rehearsals_kept(&c), [ended, began]);
    // Whoever noted it had the lock; so whoever has it now finds that it is noted.
    wait_until(|| databases(name).is_empty());
    assert_eq!((b.stop(), c.stop()), (0, 0));
}
