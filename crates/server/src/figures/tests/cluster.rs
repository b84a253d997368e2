//! A server of a cluster, by what it counts and what it hears.

use std::time::Duration;

use serde_json::{Value, json};

use super::{HOUR_MS, NOW, Server, sale};
use crate::intake::{Need, ServerReport};

impl Server {
    /// What is seen so long after the start, with looks in between that each read the units: none comes late.
    fn look_on(&mut self, after_ms: u64) -> Value {
        let units_read = self.cluster.as_ref().unwrap().units_read.clone();
        for ms in (self.looked_ms + 3_000..after_ms).step_by(3_000) {
            units_read.inc();
            self.look(ms);
        }
        units_read.inc();
        self.look(after_ms)
    }
}

#[test]
fn orders_are_taken_while_the_ledger_is_away() {
    let mut server = Server::with(vec![sale(3, NOW.0, 1)], true);
    assert_eq!(server.look(1_000)["verdict"]["code"], "selling");
    server.health.note_fault(Need::Ledger, Some("read only".to_owned()));
    let seen = server.look(2_000);
    assert_eq!(
        (&seen["verdict"]["code"], &seen["verdict"]["level"]),
        (&json!("ledger_away"), &json!("amber"))
    );
    assert_eq!((&seen["health"]["ready"], &seen["health"]["reasons"]), (&json!(true), &json!([])));
    assert_eq!(seen["servers"][0]["ready"], true);
    assert_eq!(seen["health"]["engines"][2]["fault"], "the ledger (MySQL) can't be used: read only");
    server.health.note(Need::Ledger, true);
    assert_eq!(server.look(3_000)["verdict"]["code"], "selling");
}

#[test]
fn what_a_cluster_does_not_do_is_seen_by_what_it_counts() {
    let mut server = Server::with(vec![sale(3, NOW.0, 1)], true);
    let cluster = server.cluster.clone().unwrap();
    let code = |seen: &Value| seen["verdict"]["code"].as_str().unwrap().to_owned();
    assert_eq!(code(&server.look_on(5_000)), "selling");
    assert_eq!(code(&server.look(8_000)), "selling");
    assert_eq!(code(&server.look(10_000)), "selling");
    let seen = server.look(10_001);
    assert_eq!((code(&seen), &seen["health"]["units_age_ms"]), ("ledger_away".into(), &json!(5_001)));
    assert_eq!(code(&server.look_on(30_000)), "selling");
    let seen = server.look_on(30_001);
    assert_eq!(
        (code(&seen), &seen["health"]["reconciled_age_ms"]),
        ("nobody_reconciles".into(), &json!(30_001))
    );
    cluster.reconciled.inc();
    let seen = server.look_on(31_000);
    assert_eq!((code(&seen), &seen["health"]["reconciled_age_ms"]), ("selling".into(), &json!(0)));
    cluster.dead_letters.inc();
    cluster.backlog.set(7);
    cluster.backlog_age_ms.set(30_001);
    assert_eq!(code(&server.look_on(32_000)), "backlog");
    server.health.note(Need::Ledger, false);
    assert_eq!(code(&server.look_on(33_000)), "ledger_away", "that is why they wait");
    server.health.note(Need::Ledger, true);
    cluster.backlog_age_ms.set(0);
    let seen = server.look_on(34_000);
    assert_eq!((code(&seen), &seen["health"]["dead_letter_age_ms"]), ("dead_letters".into(), &json!(2_000)));
    server.look(32_000 + HOUR_MS);
    cluster.reconciled.inc();
    assert_eq!(code(&server.look_on(37_000 + HOUR_MS)), "selling");
}

/// Its lease changes hands within seconds: the server that is left does not say that nobody ever did it.
#[test]
fn what_another_server_reconciled_is_known_when_it_has_gone() {
    let mut server = Server::with(vec![sale(3, NOW.0, 1)], true);
    let cluster = server.cluster.clone().unwrap();
    let age = |server: &mut Server, after_ms| {
        let seen = server.look_on(after_ms);
        let code = seen["verdict"]["code"].as_str().unwrap().to_owned();
        (code, seen["health"]["reconciled_age_ms"].as_u64().unwrap())
    };
    let selling = |age_ms| ("selling".to_owned(), age_ms);
    for (begun_ms, stops) in [(100_000, true), (200_000, false)] {
        let at = server.begun + Duration::from_millis(begun_ms);
        let said = br#"{"server":"there:80","health":{"ready":true,"clock_confirmed":true,"reconciled_age_ms":100}}"#;
        server.servers.hear(vec![ServerReport { said: said[..].into(), at, lives: true }]);
        assert_eq!(age(&mut server, begun_ms + 500), selling(600));
        let gone_ms = if stops {
            server.servers.hear(Vec::new());
            1_000
        } else {
            // It is dead, or Redis is away.
            3_000
        };
        assert_eq!(age(&mut server, begun_ms + gone_ms), selling(gone_ms + 100));
        server.servers.hear(Vec::new());
        assert_eq!(age(&mut server, begun_ms + 29_900), selling(30_000));
        let nobody = ("nobody_reconciles".to_owned(), 30_001);
        assert_eq!(age(&mut server, begun_ms + 29_901), nobody);
    }
    let ours: Value = serde_json::from_slice(&server.servers.ours().unwrap()).unwrap();
    assert_eq!(ours["health"]["reconciled_age_ms"], Value::Null, "it says what it did itself");
    age(&mut server, 299_000);
    cluster.reconciled.inc();
    assert_eq!(age(&mut server, 300_000), selling(0));
}

#[test]
fn the_disk_and_the_clock_of_each_server_are_known_to_all() {
    let mut server = Server::with(vec![sale(3, NOW.0, 1)], true);
    server.cluster.as_ref().unwrap().clock_ahead_ms.set(-2_500);
    let said =
        br#"{"server":"there:80","machine":{"disk_free_bytes":7,"disk_bytes":9,"clock_confirmed":false}}"#;
    let at = server.begun + Duration::from_millis(900);
    server.servers.hear(vec![ServerReport { said: said[..].into(), at, lives: true }]);
    let seen = server.look(1_000);
    let [here, there] = [0, 1].map(|place| seen["servers"][place].clone());
    // Its ledger is elsewhere, and it runs on a disk all the same.
    assert_eq!(seen["health"]["disk_bytes"], Value::Null);
    assert!(here["disk_bytes"].as_u64() > Some(0), "{here}");
    assert!(here["disk_free_bytes"].as_u64() <= here["disk_bytes"].as_u64(), "{here}");
    assert_eq!((&here["clock_confirmed"], &here["clock_ahead_ms"]), (&json!(true), &json!(-2_500)));
    assert!(here["clock_difference_ms"].is_i64(), "{here}");
    let of_there = ["disk_free_bytes", "disk_bytes", "clock_confirmed", "clock_ahead_ms"]
        .map(|name| there[name].clone());
    assert_eq!(of_there, [json!(7), json!(9), json!(false), Value::Null]);
    let ours: Value = serde_json::from_slice(&server.servers.ours().unwrap()).unwrap();
    for name in ["disk_bytes", "clock_confirmed", "clock_difference_ms", "clock_ahead_ms"] {
        assert_eq!(ours["machine"][name], here[name], "{name}");
    }
}

/// The new sum waited until an event loop did something else, which was up to a quarter of a second.
#[test]
fn the_event_loops_are_woken_for_a_sum_of_what_another_server_has_just_said() {
    let mut server = Server::with(vec![sale(3, NOW.0, 1)], true);
    let mut event_loop = mio::Poll::new().unwrap();
    server.stop.register_poll(&event_loop);
    let mut is_woken = || {
        let mut events = mio::Events::with_capacity(1);
        event_loop.poll(&mut events, Some(Duration::ZERO)).unwrap();
        !events.is_empty()
    };
    let at = server.begun + Duration::from_millis(1_500);
    server.look(1_000);
    server.looking.hear(at);
    assert!(!is_woken(), "nobody has said anything");
    let said = br#"{"server":"there:80","health":{"ready":true}}"#;
    server.servers.hear(vec![ServerReport { said: said[..].into(), at, lives: true }]);
    server.looking.hear(at);
    assert!(is_woken());
    server.looking.hear(at);
    assert!(!is_woken(), "that is in the sum already");
}

/// What another server says is added at once, to what this one saw at its last look.
#[test]
fn no_verdict_is_of_two_moments() {
    let mut server = Server::with(vec![sale(3, NOW.0, 1)], true);
    let hear = |server: &mut Server, after_ms| {
        let at = server.begun + Duration::from_millis(after_ms);
        let said = br#"{"server":"there:80","health":{"ready":false,"reasons":["no broker"],"clock_confirmed":true}}"#;
        server.servers.hear(vec![ServerReport { said: said[..].into(), at, lives: true }]);
        server.looking.hear(at);
        server.seen()["verdict"]["code"].clone()
    };
    server.health.note(Need::Broker, false);
    assert_eq!(server.look(1_000)["verdict"]["code"], "not_ready");
    server.health.note(Need::Broker, true);
    assert_eq!(hear(&mut server, 1_500), "not_ready");
    assert_eq!(server.look(2_000)["verdict"]["code"], "servers_out");
    server.health.note(Need::Broker, false);
    assert_eq!(hear(&mut server, 2_500), "servers_out");
}
