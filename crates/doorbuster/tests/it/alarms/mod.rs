//! The alerts and the dashboard for Prometheus and Grafana, their runbook, and the real programs that read them.

mod dashboard;
mod live;
pub(crate) mod made;
mod prometheus;
mod rules;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

const ALERTS: &str = "integrations/prometheus/alerts.yml";
const RUNBOOK: &str = "docs/runbook.md";

fn file(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path).canonicalize().unwrap()
}

fn text(path: &str) -> String {
    fs::read_to_string(file(path)).unwrap()
}

/// The metrics of ours that a text names.
fn metrics_in(text: &str) -> BTreeSet<&str> {
    let words = text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
    words.filter(|word| word.starts_with("doorbuster_")).collect()
}

#[derive(Debug)]
struct Alert {
    name: String,
    severity: String,
    /// Of what is to be done.
    anchor: String,
}

fn alerts() -> Vec<Alert> {
    let text = text(ALERTS);
    let (_, alerts) = text.split_once("- alert: ").unwrap();
    let read = |alert: &str| {
        let after = |mark: &str| {
            let found = alert.lines().find_map(|line| line.trim().strip_prefix(mark));
            found.unwrap_or_else(|| panic!("{mark} in {alert}")).to_owned()
        };
        Alert {
            name: alert.lines().next().unwrap().to_owned(),
            severity: after("labels: {severity: ").trim_end_matches('}').to_owned(),
            anchor: after("runbook_url: docs/runbook.md#"),
        }
    };
    alerts.split("- alert: ").map(read).collect()
}

#[test]
fn every_alert_is_in_the_runbook_where_its_link_leads() {
    let runbook = text(RUNBOOK);
    let sections: BTreeMap<String, &str> = runbook
        .split("\n### ")
        .skip(1)
        .map(|section| section.split_once("\n\n").unwrap())
        .map(|(heading, section)| (heading.to_lowercase().replace(' ', "-"), section))
        .collect();
    let mut named = BTreeSet::new();
    for alert in alerts() {
        let section = sections.get(&alert.anchor).unwrap_or_else(|| panic!("{alert:?}"));
        let (level, rest) = section.split_once(": ").unwrap();
        let levels = match alert.severity.as_str() {
            "critical" => ["Red", "Critical"],
            "warning" => ["Amber", "Warning"],
            other => panic!("{other} is no severity: {alert:?}"),
        };
        let first = rest.lines().next().unwrap();
        // One that waits longer than its verdict may be more severe.
        let is_said = first.ends_with(&format!("; {}: alert `{}`.", alert.severity, alert.name));
        assert!(levels.contains(&level) || is_said, "{level}: {alert:?}");
        assert!(first.contains(&format!("`{}`", alert.name)), "{alert:?} is not named: {first}");
        assert!(rest.contains("- **Do**: "), "{alert:?}");
        assert!(named.insert(alert.name), "each alert has a name of its own");
    }
    let words = runbook.split(|c: char| !c.is_ascii_alphanumeric());
    let described: BTreeSet<String> = words
        .filter(|word| word.len() > "Doorbuster".len() && word.starts_with("Doorbuster"))
        .map(str::to_owned)
        .collect();
    assert_eq!(described, named, "{RUNBOOK} and {ALERTS} have the same alerts");
}
