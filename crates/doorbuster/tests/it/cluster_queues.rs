//! Queues that the ledger knows and the topic no longer has, on a real broker: what operators see of them, when they
//! keep gates closed, and what retires them.

use std::path::Path;
use std::time::Duration;

use engine::Operated;
use server::Secrets;
use server::config::Sources;
use server::ledger::{OperatorLogAsked, Source};
use server::queue::{Options, Producer, Security};

use crate::cluster::{accepted, ask_once, audit, configure, sql, wipe_gates};
use crate::cluster_gate::{get, logged, serve_logged, until, until_ready};
use crate::engines::Engines;
use crate::run;
use crate::sent::send;
use crate::serving::Serving;
use crate::topic;

const BROKER: &str = "broker-a";

/// Gives a topic of the shared broker so many queues.
pub(crate) fn resize(topic: &str, queues: u32) {
    topic::resize(&Engines::shared(&["rocketmq"]).address("rocketmq-broker"), topic, queues);
}

/// Messages that are no orders, one in each of the queues.
fn fill(topic: &str, queues: usize) {
    let name_servers = vec![Engines::shared(&["rocketmq"]).address("rocketmq-namesrv")];
    let send_timeout = Duration::from_secs(10);
    let options = Options { name_servers, group: "test".into(), send_timeout, security: Security::default() };
    let mut producer = Producer::new(options);
    for _ in 0..queues {
        send(&mut producer, topic, &[b"not an order"]);
    }
}

fn queues(directory: &Path, arguments: &[&str]) -> (i32, String, String) {
    let (command, rest) = arguments.split_first().unwrap();
    run(directory, &[&["queues", *command, "--config", "doorbuster.toml"], rest].concat())
}

/// Retires them once no server reads them any more.
pub(crate) fn retire(directory: &Path, arguments: &[&str]) -> String {
    let arguments = [&["retire"], arguments].concat();
    let mut output = String::new();
    until("they are retired", || {
        let (code, out, errors) = queues(directory, &arguments);
        output = out;
        assert!(code == 0 || errors.contains("still reads"), "{code} {errors}");
        (code == 0, errors)
    });
    output
}

/// What the operators' log has: who, what and why.
fn actions(directory: &Path) -> Vec<(String, String, String)> {
    let config = Sources::default().file(&directory.join("doorbuster.toml")).load().unwrap();
    let source = Source::MySql(Box::new(config.ledger.mysql_options(&Secrets::default())));
    let asked = OperatorLogAsked { before: u64::MAX, sale: None, max: 9 };
    let actions = source.operator_log(&asked).unwrap().actions.into_iter();
    actions
        .map(|action| action.operated)
        .filter(|operated| &*operated.what == "queues_retired")
        .map(|Operated { by, what, about, .. }| {
            (by.who.to_string(), format!("{what} {about}"), by.why.to_string())
        })
        .collect()
}

pub(crate) fn metric(server: &Serving, name: &str) -> u64 {
    let metrics = ask_once(server, "GET", "/metrics", &[], "").body;
    let line = metrics.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("no {name}: {metrics}")).parse().unwrap()
}

/// Beside the engines' settings.
fn says_of_queues(ready: &str) -> bool {
    ready.contains("doorbuster queues retire")
}

fn until_readiness_says(server: &Serving, status: u16, text: &str) {
    until(text, || {
        let (is, body) = get(server, "/readyz");
        (is == status && body.contains(text), format!("{is} {body}"))
    });
}

#[test]
fn queues_that_were_consumed_and_removed_keep_no_gate_closed_and_are_reported_until_they_are_retired() {
    let dir = tempfile::tempdir().unwrap();
    configure(dir.path(), "shrunk", "");
    let server = serve_logged(dir.path(), "");
    until_ready(&server);
    for member in 1..=40 {
        accepted(&server, member, "k", 29);
    }
    audit(dir.path());
    until("it is ready", || {
        let (status, ready) = get(&server, "/readyz");
        (status == 200 && !says_of_queues(&ready), ready)
    });

    resize("shrunk", 4);
    until_readiness_says(&server, 200, "are no longer in the topic");
    wipe_gates("shrunk");
    accepted(&server, 41, "k", 29);
    let removed: Vec<String> = (4..8).map(|number| format!("{BROKER}/{number}")).collect();
    until_readiness_says(&server, 200, &removed.join(", "));
    until_readiness_says(&server, 200, "doorbuster queues retire");
    assert_eq!(logged(dir.path(), "no longer in the topic").len(), 1);
    let audited = audit(dir.path());
    assert!(audited.contains(&format!("doorbuster queues retire {}", removed.join(" "))), "{audited}");

    // A busy broker does not always answer in the time that the list gives it.
    until("four are listed as removed", || {
        let (code, list, errors) = queues(dir.path(), &["list"]);
        assert_eq!((code, errors.as_str()), (0, ""));
        let states = |state: &str| list.lines().filter(|line| line.contains(state)).count();
        ((states("in the topic"), states("removed")) == (4, 4), list)
    });
    let (code, out, errors) = queues(dir.path(), &["retire", "broker-a/7", "broker-a/3"]);
    assert_eq!((code, out.as_str()), (1, ""), "{errors}");
    assert!(errors.contains("the topic still has queue broker-a/3: nothing was retired"), "{errors}");
    let (code, _, errors) = queues(dir.path(), &["retire", "broker-a/17"]);
    assert!(code == 1 && errors.contains("the ledger knows no queue broker-a/17"), "{errors}");

    let removed: Vec<&str> = removed.iter().map(String::as_str).collect();
    let as_anna = [&["--who", "anna", "--why", "fewer queues"], &removed[..]].concat();
    assert_eq!(retire(dir.path(), &as_anna).lines().count(), 4);
    let kept = actions(dir.path());
    assert_eq!(kept.len(), 4);
    assert!(
        kept.iter().all(|(who, what, why)| {
            (who.as_str(), why.as_str()) == ("anna", "fewer queues")
                && what.starts_with("queues_retired broker-a/")
        }),
        "{kept:?}"
    );
    until("it is ready", || {
        let ready = get(&server, "/readyz");
        (ready.0 == 200 && !says_of_queues(&ready.1), ready.1)
    });
    let (code, _, errors) = queues(dir.path(), &["retire", "broker-a/7"]);
    assert!(code == 1 && errors.contains("was retired before"), "{errors}");
    let audited = audit(dir.path());
    assert!(audited.contains("queue broker-a/7 was retired at offset "), "{audited}");

    // They come back as they were.
    resize("shrunk", 8);
    until("all are read again", || {
        let (_, list, _) = queues(dir.path(), &["list"]);
        (!list.contains("retired") && !list.contains("nobody"), list)
    });
    accepted(&server, 42, "k", 29);
    audit(dir.path());
}

#[test]
fn a_removed_queue_with_messages_keeps_gates_closed_until_it_is_back_or_retired() {
    let dir = tempfile::tempdir().unwrap();
    configure(dir.path(), "unread", "");
    let server = serve_logged(dir.path(), "");
    until_ready(&server);
    accepted(&server, 1, "k", 29);
    audit(dir.path());
    assert_eq!(server.stop(), 0);
    fill("unread", 8);
    resize("unread", 4);
    wipe_gates("unread");

    let server = serve_logged(dir.path(), "");
    until_readiness_says(&server, 503, "with 4 message(s) that were not consumed");
    let (_, why) = get(&server, "/readyz");
    assert!(why.contains("broker-a/4, broker-a/5, broker-a/6, broker-a/7"), "{why}");
    assert!(why.contains("doorbuster queues retire --with-unread"), "{why}");
    until("the log says what the rebuild waits for", || {
        let lines = logged(dir.path(), "\"gates stay closed, for their rebuild waits\"");
        (lines.iter().any(|line| line.contains("broker-a/4")), format!("{lines:?}"))
    });
    let (code, _, errors) = run(dir.path(), &["audit", "--config", "doorbuster.toml"]);
    assert_eq!(code, 69, "{errors}");
    assert!(errors.contains("no server can rebuild them") && errors.contains("broker-a/4"), "{errors}");
    let (code, _, errors) = queues(dir.path(), &["retire", "broker-a/4"]);
    assert_eq!(code, 1, "{errors}");
    assert!(errors.contains("1 message(s) of queue broker-a/4 were not consumed"), "{errors}");

    let retired = retire(dir.path(), &["--with-unread", "broker-a/4", "broker-a/5", "broker-a/6"]);
    assert!(retired.contains("with 1 message(s) unread"), "{retired}");
    until_readiness_says(&server, 503, "queue broker-a/7 is no longer in the topic, with 1 message(s)");
    retire(dir.path(), &["--with-unread", "broker-a/7"]);
    until_ready(&server);
    accepted(&server, 2, "k", 29);
    let letters = || metric(&server, "doorbuster_dead_letters_total");
    assert_eq!(letters(), 4, "those of the queues that stayed");

    // What was given up is read after all when the queues come back.
    resize("unread", 8);
    until("they are read on", || (letters() == 8, letters().to_string()));
    audit(dir.path());
}

#[test]
fn a_broker_that_is_gone_keeps_its_queues_and_is_named() {
    let dir = tempfile::tempdir().unwrap();
    configure(dir.path(), "dead_broker", "");
    let server = serve_logged(dir.path(), "");
    until_ready(&server);
    accepted(&server, 1, "k", 29);
    audit(dir.path());
    let mariadb = Engines::shared(&["mariadb"]).address("mariadb");
    sql(&mariadb, "INSERT INTO dead_broker.queue_offsets VALUES ('broker-z/0', 5, 0, 0, 1)");
    // Sales go on, and whoever looks sees it.
    until_readiness_says(&server, 200, "the broker broker-z, whose queues may hold orders, does not answer");
    let audited = audit(dir.path());
    assert!(audited.contains("broker-z") && audited.contains("start it"), "{audited}");
    let (code, _, errors) = queues(dir.path(), &["retire", "--with-unread", "broker-z/0"]);
    assert_eq!(code, 69, "{errors}");
    assert!(errors.contains("nothing was retired") && errors.contains("start it"), "{errors}");

    wipe_gates("dead_broker");
    until_readiness_says(&server, 503, "the broker broker-z");
    until("the log says so", || {
        let lines = logged(dir.path(), "\"gates stay closed, for their rebuild waits\"");
        (lines.iter().any(|line| line.contains("the broker broker-z")), format!("{lines:?}"))
    });
    // As when the broker is back, and has been read.
    sql(&mariadb, "DELETE FROM dead_broker.queue_offsets WHERE queue = 'broker-z/0'");
    until_ready(&server);
    accepted(&server, 2, "k", 29);
    audit(dir.path());
}
