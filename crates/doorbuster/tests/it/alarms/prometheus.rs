//! A real Prometheus with the configuration and the rules of the repository.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use super::{ALERTS, text};
use crate::engines::free_ports;
use crate::reload::wait_until;
use crate::serving::{OPERATOR, Serving};

/// For how long what an alert is about goes on before it fires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Patience {
    /// As the rules have it.
    Shipped,
    /// A second for each minute of `for:`. Nothing else of the rules is changed, nor are their windows.
    Seconds,
}

impl Patience {
    fn of(self, rules: String) -> String {
        match self {
            Patience::Shipped => rules,
            Patience::Seconds => rules.lines().map(|line| in_seconds(line) + "\n").collect(),
        }
    }
}

fn in_seconds(line: &str) -> String {
    match line.strip_prefix("        for: ") {
        Some(time) => {
            let minutes = time.strip_suffix('m').expect("all of them are minutes");
            format!("        for: {minutes}s")
        }
        None => line.to_owned(),
    }
}

/// Ends with the test, however that ends.
pub(crate) struct Prometheus {
    child: Child,
    url: String,
    directory: PathBuf,
    _ports: fs::File,
}

impl Prometheus {
    /// For these servers, and in a hurry.
    pub(crate) fn start(directory: &Path, servers: &[&Serving], patience: Patience) -> Prometheus {
        configure(directory, servers);
        fs::write(directory.join("operator-token"), OPERATOR).unwrap();
        fs::write(directory.join("alerts.yml"), patience.of(text(ALERTS))).unwrap();
        let (ports, lock) = free_ports();
        let address = format!("127.0.0.1:{}", ports.start);
        let child = Command::new("prometheus")
            .args(["--config.file=prometheus.yml", "--storage.tsdb.path=prometheus", "--log.level=warn"])
            .arg(format!("--web.listen-address={address}"))
            .current_dir(directory)
            .stdin(Stdio::null())
            .spawn()
            .unwrap();
        Prometheus {
            child,
            url: format!("http://{address}/api/v1"),
            directory: directory.to_owned(),
            _ports: lock,
        }
    }

    /// Other servers from now on.
    pub(crate) fn watch(&self, servers: &[&Serving]) {
        configure(&self.directory, servers);
        let sent = Command::new("kill").args(["-HUP", &self.child.id().to_string()]).status().unwrap();
        assert!(sent.success());
    }

    fn ask(&self, path: &str, parameters: &[(&str, &str)]) -> Result<Value, ureq::Error> {
        let request = ureq::get(format!("{}/{path}", self.url)).query_pairs(parameters.iter().copied());
        request.call()?.body_mut().read_json()
    }

    /// Often enough for a rate.
    pub(crate) fn wait_until_scraped(&self) {
        let scraped = "count_over_time(doorbuster_ready{job=\"doorbuster\"}[1m]) >= 3";
        wait_until("Prometheus answers", || self.ask("query", &[("query", "up")]).is_ok());
        wait_until("it has scraped the server", || !self.query(scraped).is_empty());
    }

    /// The series that are the answer to a query at this moment.
    pub(crate) fn query(&self, promql: &str) -> Vec<Value> {
        let answer =
            self.ask("query", &[("query", promql)]).unwrap_or_else(|error| panic!("{promql}: {error}"));
        assert_eq!(answer["status"], "success", "{promql}: {answer}");
        answer["data"]["result"].as_array().unwrap().clone()
    }

    pub(crate) fn fires(&self, alert: &str) -> bool {
        !self.query(&format!("ALERTS{{alertname=\"{alert}\",alertstate=\"firing\"}}")).is_empty()
    }

    /// All rules, once each was evaluated, and whether they are for clusters alone.
    pub(crate) fn rules(&self) -> Vec<(bool, Value)> {
        let mut rules = Vec::new();
        wait_until("all rules are evaluated", || {
            rules.clear();
            let answer = self.ask("rules", &[]).unwrap();
            for group in answer["data"]["groups"].as_array().unwrap() {
                let of_cluster = group["name"] == "doorbuster-cluster";
                rules
                    .extend(group["rules"].as_array().unwrap().iter().map(|rule| (of_cluster, rule.clone())));
            }
            !rules.is_empty() && rules.iter().all(|(_, rule)| rule["health"] != "unknown")
        });
        rules
    }
}

fn configure(directory: &Path, servers: &[&Serving]) {
    let targets: Vec<_> = servers.iter().map(|server| format!("\"{}\"", server.address)).collect();
    let ours = [("\"127.0.0.1:8080\"", targets.join(", ")), ("_interval: 15s", "_interval: 1s".into())];
    let configuration = text("integrations/prometheus/prometheus.yml");
    let configuration = ours.iter().fold(configuration, |configuration, (from, to)| {
        assert!(configuration.contains(from), "{from}");
        configuration.replace(from, to)
    });
    fs::write(directory.join("prometheus.yml"), configuration).unwrap();
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        // One that has ended is gone already, and that is no error.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}
