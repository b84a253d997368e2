//! A real Prometheus beside a real server: it is configured as we say, and has an answer to each query of ours.

use std::collections::BTreeSet;

use super::dashboard::queries;
use super::metrics_in;
use super::prometheus::{Patience, Prometheus};
use crate::exchange::Connection;
use crate::reload::wait_until;
use crate::serving::{OPERATOR, Serving};
use crate::webhooks::{Receiver, place, serve};
use crate::{cluster, verifier};

/// Shown where Stripe takes the payments, which the tests of that look at.
const OF_STRIPE: &str = "doorbuster_stripe_authorisations_lost_total";

/// What a server shows to the operator, by name.
fn shown(server: &Serving) -> BTreeSet<String> {
    let bearer = format!("Bearer {OPERATOR}");
    let headers = [("Authorization", bearer.as_str())];
    let mut connection = Connection::open(server.address).unwrap();
    let metrics = connection.exchange("GET", "/metrics", &headers, "").unwrap().body;
    let series = metrics.lines().filter(|line| !line.starts_with('#'));
    series.map(|line| line.split(['{', ' ']).next().unwrap().to_owned()).collect()
}

/// What a query names and a server does not show.
fn missing(shown: &BTreeSet<String>, promql: &str) -> Vec<String> {
    let named = metrics_in(promql).into_iter().filter(|name| !shown.contains(*name) && *name != OF_STRIPE);
    named.map(str::to_owned).collect()
}

fn is_refused(server: &Serving) {
    let body = r#"{"sale": 3, "product": 999}"#;
    let mut connection = Connection::open(server.address).unwrap();
    let answer = connection.exchange("POST", "/api/v1/orders", &[("memberId", "7")], body).unwrap();
    assert!((400..500).contains(&answer.status), "{answer:?}");
}

#[test]
fn prometheus_has_an_answer_to_every_query_and_a_server_shows_every_metric() {
    let (directory, receiver) = (tempfile::tempdir().unwrap(), Receiver::start());
    let verified = verifier::section(directory.path(), "http://127.0.0.1:9/siteverify");
    let more = format!("[http]\nmetrics_token_required = true\n{verified}");
    let server = serve(directory.path(), &receiver, &more);
    let prometheus = Prometheus::start(directory.path(), &[&server], Patience::Shipped);
    place(&server, "anna");
    is_refused(&server);
    prometheus.wait_until_scraped();

    let without_token = Connection::open(server.address).unwrap().exchange("GET", "/metrics", &[], "");
    assert_eq!(without_token.unwrap().status, 401);
    let shown = shown(&server);
    let unknown = |promql: &str| missing(&shown, promql);
    for query in queries() {
        let found = prometheus.query(&query.promql);
        if query.of_cluster {
            assert!(found.is_empty(), "the embedded profile has it, too: {query:?}");
        } else if !query.promql.starts_with("ALERTS{") {
            assert_eq!(unknown(&query.promql), [""; 0], "{query:?}");
            // What takes a second to be measured is not in the first answer.
            wait_until("Prometheus has an answer", || !prometheus.query(&query.promql).is_empty());
        }
    }
    for (of_cluster, rule) in prometheus.rules() {
        assert_eq!(rule["health"], "ok", "{rule}");
        let promql = rule["query"].as_str().unwrap();
        prometheus.query(promql);
        let unknown = unknown(promql);
        assert_eq!(unknown.is_empty(), !of_cluster, "{unknown:?}: {rule}");
    }

    // A server that is gone is noticed.
    server.kill();
    wait_until("the alert is on its way", || {
        !prometheus.query("ALERTS{alertname=\"DoorbusterServerAway\"}").is_empty()
    });
}

/// On real engines.
#[test]
fn a_server_of_a_cluster_shows_what_is_asked_of_clusters() {
    let directory = tempfile::tempdir().unwrap();
    cluster::configure(directory.path(), "alarms", "");
    let server = cluster::serve(directory.path());
    cluster::accepted(&server, 1, "k", 29);
    let prometheus = Prometheus::start(directory.path(), &[&server], Patience::Shipped);
    prometheus.wait_until_scraped();
    let shown = shown(&server);
    for query in queries().into_iter().filter(|query| query.of_cluster) {
        assert_eq!(missing(&shown, &query.promql), [""; 0], "{query:?}");
        assert!(!prometheus.query(&query.promql).is_empty(), "{query:?}");
    }
    for (_, rule) in prometheus.rules().into_iter().filter(|(of_cluster, _)| *of_cluster) {
        assert_eq!(rule["health"], "ok", "{rule}");
        assert_eq!(missing(&shown, rule["query"].as_str().unwrap()), [""; 0], "{rule}");
    }
    assert_eq!(server.stop(), 0);
}
