//! The bound of what waits at the broker, which all servers of a cluster keep together. On real engines.

use std::time::Instant;

use crate::cluster::{SOON, accepted, audit, code, configure_with, place_once};
use crate::cluster_gate::{serve_logged, until, until_ready};
use crate::cluster_queues::resize;
use crate::engines::Engines;
use crate::run;

/// Orders that wait at the broker before more are refused.
const BACKLOG_MAX: u64 = 100;
/// More than a server takes in the second in which it learns of the bound.
const ORDERS_MAX: u64 = 4_000;

#[test]
fn a_server_without_queues_keeps_the_bound_of_all() {
    let dir = tempfile::tempdir().unwrap();
    let engines = Engines::private(&["mariadb"], &[]);
    let redis = Engines::shared(&["redis"]).address("redis");
    configure_with(&redis, &engines.address("mariadb"), dir.path(), "bound", "");
    let path = dir.path().join("doorbuster.toml");
    let config = std::fs::read_to_string(&path).unwrap();
    let bounded = format!("servers = 2\nbacklog_max = {BACKLOG_MAX}\n");
    std::fs::write(&path, config.replace("servers = 2\n", &bounded)).unwrap();
    // One queue, so that one server has it and the other none.
    Engines::shared(&["rocketmq"]);
    resize("bound", 1);
    let (a, b) = (serve_logged(dir.path(), ""), serve_logged(dir.path(), ""));
    until_ready(&a);
    until_ready(&b);
    accepted(&a, 1, "k", 29);
    accepted(&b, 2, "k", 29);
    audit(dir.path());

    engines.freeze("mariadb");
    for (server, first) in [(&a, 1_000), (&b, 100_000)] {
        let mut placed = 0;
        let started = Instant::now();
        loop {
            let answer = place_once(server, first + placed, "", 29, 1);
            if code(&answer) == "busy" {
                break;
            }
            placed += u64::from(matches!(answer.status, 201 | 202));
            assert!(placed < ORDERS_MAX && started.elapsed() < SOON, "{placed} were accepted: {answer:?}");
        }
        assert!(placed > BACKLOG_MAX || first > 1_000, "the bound is not reached by {placed} orders");
    }
    engines.thaw("mariadb");
    until("both take orders again", || {
        let answers = [(&a, 3), (&b, 4)].map(|(server, member)| place_once(server, member, "k", 29, 1));
        (answers.iter().all(|answer| matches!(answer.status, 201 | 202)), format!("{answers:?}"))
    });
    audit(dir.path());
    let (_, list, _) = run(dir.path(), &["queues", "list", "--config", "doorbuster.toml"]);
    assert_eq!(list.lines().count(), 2, "one queue: {list}");
}
