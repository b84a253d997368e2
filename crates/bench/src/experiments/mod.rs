//! All experiments, the published ones and our own, on real servers: the list, and what a scenario is given to run with.
//!
//! A scenario starts what it needs (or goes to a running one), checks that each setting took effect, measures, audits
//! where it placed orders, and gives its part of the report. It must not print: the caller does.

mod beside;
mod cases;
mod cluster;
pub mod embedded;
mod http;
pub mod limit;
pub mod line;
mod mysql;
mod redis;
mod rocketmq;
mod self_check;
mod shapes;
mod warm_up;

use std::cell::RefCell;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use crate::host::usage::Watched;
use crate::measure::Surroundings;
use crate::progress::Progress;
use crate::report::model::{Case, ScenarioReport, Size};
use crate::target::address;
use crate::target::engines::{EngineSite, PORTS_PER_SET};

/// One experiment. The table of all is [`all`].
#[derive(Debug, Clone, Copy)]
pub struct Scenario {
    /// On the command line: `redis-get-set`.
    pub name: &'static str,
    /// A line for `bench list`.
    pub about: &'static str,
    /// The file of published figures that it reproduces.
    pub reference: Option<&'static str>,
    pub needs: &'static [Engine],
    /// The names of all figures that its cases may have: what a threshold on it can name.
    pub metrics: &'static [&'static str],
    pub run: fn(&ScenarioContext) -> anyhow::Result<ScenarioReport>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Engine {
    Redis,
    RedisCluster,
    RocketMq,
    MariaDb,
    Nginx,
    Doorbuster,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// Servers of our own, with the settings under test, ended and removed afterwards.
    Spawn,
    /// Servers that run already. A scenario that changes settings says which of its cases it could not run.
    Running(Addresses),
}

impl Target {
    pub fn is_local(&self) -> bool {
        let Self::Running(of) = self else { return true };
        let sockets = [of.http, of.redis, of.redis_cluster, of.rocketmq_namesrv];
        let database = of.mysql.iter().all(|url| address::of_mysql(url).is_ok_and(address::is_local));
        database && sockets.into_iter().flatten().all(address::is_local)
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Addresses {
    pub http: Option<SocketAddr>,
    pub redis: Option<SocketAddr>,
    pub redis_cluster: Option<SocketAddr>,
    /// Of Redis and of each node of the cluster, if they want one.
    pub redis_password: Option<String>,
    pub rocketmq_namesrv: Option<SocketAddr>,
    /// `mysql://user:password@host:port/database`.
    pub mysql: Option<String>,
    /// Of the HTTP server: without it no order can be audited, so none is placed.
    pub operator_token: Option<String>,
}

#[derive(Debug)]
pub struct ScenarioContext {
    pub size: Size,
    /// 1 with [`Size::Quick`]; at least 6 where an interval is to be shown.
    pub repeats: usize,
    pub seed: u64,
    pub target: Target,
    /// The `doorbuster` program to measure.
    pub program: PathBuf,
    /// The folder of the scripts `up` and `down`.
    pub scripts: PathBuf,
    /// A folder of its own for this scenario, on a real disk; removed afterwards.
    pub folder: PathBuf,
    /// The block device that it lies on.
    pub disk: Option<String>,
    /// It may use 200 ports from here.
    pub port_base: u16,
    /// Only the cases whose names hold this text.
    pub only: Option<String>,
    /// The host may be made to swap.
    pub allow_swap: bool,
    pub progress: Progress,
    /// Raised on SIGINT and SIGTERM: end with an error, soon, and leave nothing running.
    pub stop: Arc<AtomicBool>,
    /// See `ScenarioContext::keep`.
    pub finished: RefCell<Vec<Case>>,
}

/// All scenarios, in the order of the path: gate, queue, ledger, pages, orders.
pub fn all() -> impl Iterator<Item = &'static Scenario> {
    const TABLES: &[&[Scenario]] = &[
        redis::SCENARIOS,
        rocketmq::SCENARIOS,
        mysql::SCENARIOS,
        http::SCENARIOS,
        embedded::SCENARIOS,
        line::SCENARIOS,
        cluster::SCENARIOS,
        self_check::SCENARIOS,
    ];
    TABLES.iter().copied().flatten()
}

pub fn find(name: &str) -> Option<&'static Scenario> {
    all().find(|scenario| scenario.name == name)
}

impl Scenario {
    /// Some case of it runs on engines that `dev/up` starts; a Redis or a Redis Cluster alone is started without.
    pub fn needs_scripts(&self) -> bool {
        self.needs.iter().any(|engine| matches!(engine, Engine::RocketMq | Engine::MariaDb))
    }

    /// A figure of this report that its table has not: no threshold could be set on it.
    pub(crate) fn unlisted<'a>(&self, report: &'a ScenarioReport) -> Option<&'a str> {
        let mut metrics =
            report.cases.iter().flat_map(|case| &case.metrics).map(|metric| metric.name.as_str());
        metrics.find(|name| !self.metrics.contains(name))
    }
}

impl ScenarioContext {
    pub fn wants(&self, case: &str) -> bool {
        self.only.as_ref().is_none_or(|only| case.contains(only.as_str()))
    }

    /// A case that stays in the report if the scenario fails later. Orders are handed over after their audit, never
    /// before. One of the same name was of fewer repeats.
    pub(crate) fn keep(&self, case: &Case) {
        let mut finished = self.finished.borrow_mut();
        finished.retain(|of| of.name != case.name);
        finished.push(case.clone());
    }

    pub fn quick(&self) -> bool {
        self.size == Size::Quick
    }

    /// Of a trial of this scenario. A target on another machine writes to no disk of ours.
    pub(crate) fn around<'a>(&'a self, watched: &'a [Watched], co_located: bool) -> Surroundings<'a> {
        let disk = self.disk.as_deref().filter(|_| co_located);
        Surroundings { watched, disk, co_located, stop: &self.stop, progress: Some(&self.progress) }
    }

    /// For the set of engines of this index, of those that run at once.
    fn engine_site(&self, index: u16) -> EngineSite {
        EngineSite {
            scripts: self.scripts.clone(),
            folder: self.folder.join(format!("engines-{index}")),
            port_base: self.port_base + index * PORTS_PER_SET,
        }
    }
}

/// A scenario that orders, at a server that runs and whose audit can't be asked for.
#[cfg(test)]
fn refuses_without_token(run: fn(&ScenarioContext) -> anyhow::Result<ScenarioReport>) {
    let error = refused_at_a_running_server(run);
    assert!(error.contains("set DOORBUSTER_OPERATOR_TOKEN"), "{error}");
}

/// What a scenario says that sends nothing to a server that runs.
#[cfg(test)]
fn refused_at_a_running_server(run: fn(&ScenarioContext) -> anyhow::Result<ScenarioReport>) -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let context = context_at(listener.local_addr().unwrap(), folder.path());
    let error = format!("{:#}", run(&context).unwrap_err());
    let asked = listener.accept().map(drop).unwrap_err();
    assert_eq!(asked.kind(), std::io::ErrorKind::WouldBlock, "no request was sent");
    error
}

/// For a quick run at an HTTP server that runs, whose audit can't be asked for.
#[cfg(test)]
fn context_at(http: SocketAddr, folder: &std::path::Path) -> ScenarioContext {
    let addresses = Addresses { http: Some(http), ..Addresses::default() };
    ScenarioContext {
        size: Size::Quick,
        repeats: 1,
        seed: 1,
        target: Target::Running(addresses),
        program: "doorbuster".into(),
        scripts: "dev".into(),
        folder: folder.to_owned(),
        disk: None,
        port_base: 21_000,
        only: None,
        allow_swap: false,
        progress: Progress::start(),
        stop: Arc::default(),
        finished: RefCell::default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_is_local_if_all_of_it_is() {
        let of = |redis: &str, mysql: Option<&str>| {
            let redis = Some(redis.parse().unwrap());
            let mysql = mysql.map(str::to_owned);
            Target::Running(Addresses { redis, mysql, ..Addresses::default() })
        };
        assert!(of("127.0.0.1:6379", None).is_local());
        assert!(of("127.0.0.1:6379", Some("mysql://root@127.0.0.1/shop")).is_local());
        // The password is no host.
        assert!(!of("127.0.0.1:6379", Some("mysql://root:a@127.0.0.1@203.0.113.77/shop")).is_local());
        assert!(!of("203.0.113.77:6379", None).is_local());
    }

    /// Thresholds are checked by these before an hour of measuring. The file has every metric of a run of the suite.
    #[test]
    fn the_names_of_metrics_are_known_before_they_are_measured() {
        for row in include_str!("measured_metrics.tsv").lines() {
            let (name, metric) = row.split_once('\t').unwrap();
            let scenario = find(name).unwrap();
            assert!(scenario.metrics.contains(&metric), "{name}: {metric}");
        }
    }
}
