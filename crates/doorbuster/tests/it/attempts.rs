//! Who tries most, by the real program: counted on a server, shown to support.

use crate::cluster::{ask, ask_once, configure, place_once, serve};
use crate::reload::wait_until;
use crate::serving::{OPERATOR, Serving};
use crate::{doorbuster, outcome};

#[test]
fn support_sees_who_tries_most_and_from_where() {
    let directory = tempfile::tempdir().unwrap();
    let server = Serving::demo(&directory.path().join("data"), &[]);
    let order = r#"{"sale":3,"product":29}"#;
    for (member, key) in [("7", "a"), ("7", "a"), ("8", "b")] {
        let headers = [("memberId", member), ("Idempotency-Key", key), ("Content-Type", "application/json")];
        assert_eq!(ask_once(&server, "POST", "/api/v1/orders", &headers, order).status, 201);
    }
    let show = |product: &str, more: &[&str]| {
        let mut command = doorbuster(directory.path());
        command.args(["attempts", "--sale", "3", "--product", product]).args(more);
        command.args(["--server", &format!("http://{}", server.address)]);
        outcome(command.env("DOORBUSTER_OPERATOR_TOKEN", OPERATOR).output().unwrap())
    };
    let (code, text, errors) = show("29", &[]);
    assert_eq!((code, errors.as_str()), (0, ""));
    let rows: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().take(5).collect()).collect();
    for row in [["7", "2", "0", "1", "1"], ["8", "1", "0", "1", "0"], ["127.0.0.1", "3", "0", "2", "1"]] {
        assert_eq!(rows.iter().filter(|found| **found == row).count(), 2, "minute and night: {text}");
    }
    assert!(
        text.contains("buyer, the last minute\n") && text.contains("address, the night so far\n"),
        "{text}"
    );
    let (_, text, _) = show("30", &[]);
    assert!(text.contains("buyer, the last minute: nobody tried"), "{text}");
    let (_, json, _) = show("29", &["--json"]);
    let found: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(found["night"]["buyers"][0]["who"], "7");
    assert_eq!(show("99", &[]).0, 1, "no such item");
}

#[test]
fn any_server_of_a_cluster_shows_the_sum_of_all() {
    let directory = tempfile::tempdir().unwrap();
    configure(directory.path(), "attempts_of_all", "");
    let (one, other) = (serve(directory.path()), serve(directory.path()));
    // Of each server: so often that one server alone has fewer, whatever of them was answered.
    for (server, times) in [(&one, 2), (&other, 3)] {
        for time in 0..times {
            place_once(server, 7, &format!("{}-{time}", server.pid()), 29, 1);
        }
    }
    let show = |server: &Serving, more: &[&str]| {
        let mut command = doorbuster(directory.path());
        command.args(["attempts", "--sale", "3", "--product", "29"]).args(more);
        command.args(["--server", &format!("http://{}", server.address)]);
        outcome(command.env("DOORBUSTER_OPERATOR_TOKEN", OPERATOR).output().unwrap())
    };
    let found = |server: &Serving| {
        let (code, json, errors) = show(server, &["--json"]);
        assert_eq!(code, 0, "{errors}");
        serde_json::from_str::<serde_json::Value>(&json).unwrap()
    };
    for server in [&one, &other] {
        wait_until("both have reported", || {
            let found = found(server);
            let tried = &found["night"]["buyers"][0];
            (found["servers"] == 2) && (tried["who"] == "7") && tried["attempts"] == 5
        });
        let (_, text, _) = show(server, &[]);
        assert!(text.contains("the sum of 2 servers\n"), "{text}");
    }
    let operator = format!("Bearer {OPERATOR}");
    let headers = [("Authorization", operator.as_str()), ("Content-Type", "application/json")];
    assert_eq!(ask(&one, "POST", "/api/v1/buyers/erase", &headers, r#"{"buyer":"7"}"#).status, 202);
    for server in [&one, &other] {
        wait_until("nobody names an erased buyer", || {
            let found = found(server);
            (found["servers"] == 2) && found["night"]["buyers"].as_array().is_some_and(Vec::is_empty)
        });
    }
    // The report of one that was killed is not added for long.
    other.kill();
    wait_until("the other one is gone", || found(&one)["this_server_only"] == true);
    assert_eq!(one.stop(), 0);
}
