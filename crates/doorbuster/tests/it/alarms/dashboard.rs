//! The dashboard, as a script makes it of its table, and the queries in it.

use std::process::Command;

use serde_json::Value;

use super::{file, text};
use crate::succeeds;

const DASHBOARD: &str = "integrations/grafana/dashboard.json";

/// A query as Grafana sends it for all servers.
#[derive(Debug)]
pub(super) struct Query {
    pub(super) promql: String,
    /// Only a server of a cluster shows what it asks for.
    pub(super) of_cluster: bool,
}

pub(super) fn queries() -> Vec<Query> {
    let dashboard: Value = serde_json::from_str(&text(DASHBOARD)).unwrap();
    let (mut queries, mut of_cluster) = (Vec::new(), false);
    for panel in dashboard["panels"].as_array().unwrap() {
        if panel["type"] == "row" {
            of_cluster = panel["title"] == "Cluster";
            continue;
        }
        for target in panel["targets"].as_array().unwrap() {
            let expr = target["expr"].as_str().unwrap();
            let promql = expr.replace("$server", ".*").replace("$__rate_interval", "1m");
            queries.push(Query { promql, of_cluster });
        }
    }
    assert!(queries.iter().any(|query| query.of_cluster) && queries.iter().any(|query| !query.of_cluster));
    queries
}

#[test]
fn the_dashboard_is_what_its_script_makes() {
    let drawn = succeeds(Command::new(file("dev/draw-dashboard")).arg("--print"));
    assert!(drawn == text(DASHBOARD), "dev/draw-dashboard writes another {DASHBOARD}");
}
