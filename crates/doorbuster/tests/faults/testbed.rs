//! One scenario from start to end: engines, the network to them, servers, a sale under load, the fault, the verdict.
//!
//! All scenarios share one set of engines, one after the other, each with names of its own on them. The short form
//! has tight bounds, so that a fault outlasts them within seconds; the full form has the default configuration.

use std::net::SocketAddr;
use std::process::Command;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::SCENARIOS;
use crate::attempt::{Answer, Attempt, TimedAnswer};
use crate::cluster::Cluster;
use crate::engines::Engines;
use crate::gate::redis_cli;
use crate::load::{Load, Shape};
use crate::proxy::{ADVERTISED_HOST, Mode, Proxy};
use crate::report::{self, Row};
use crate::sent::send;
use crate::shop::{Caller, Round};
use crate::small_disk::{Owner, SmallDisk};
use crate::soak;
use crate::verdict::{self, Outcome};

const WARM_WITHIN: Duration = Duration::from_secs(30);
/// After a fault is over.
const BACK_WITHIN: Duration = Duration::from_secs(60);
const ALL_ENGINES: [&str; 5] = ["redis", "redis-cluster", "sentinel", "mariadb", "rocketmq"];
const FROZEN_BY_SOME: [&str; 12] = [
    "redis",
    "redis-cluster-0",
    "redis-cluster-1",
    "redis-cluster-2",
    "redis-cluster-3",
    "redis-cluster-4",
    "redis-cluster-5",
    "sentinel-redis-0",
    "sentinel-redis-1",
    "sentinel-redis-2",
    "rocketmq-broker",
    "mariadb",
];
/// As it is by default.
const BACKLOG_MAX: u64 = 500_000;
const ADVERTISED_WITHIN: Duration = Duration::from_secs(30);
/// All that one request of an operator has room for.
const IDLE_ITEMS: u64 = 10_000;
const FIRST_IDLE_SALE: u64 = 1_000;
const CLUSTER_NODES: usize = 6;
const CLUSTER_NODE_TIMEOUT_MS: &str = "2000";
const SENTINEL_DOWN_AFTER_MS: &str = "2000";
const SENTINELS: usize = 3;

/// Which gate the servers are set up with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Gate {
    Redis,
    RedisCluster,
    /// Reached without a proxy: the Sentinels name the servers as these listen.
    RedisSentinel,
}

/// How many orders may be accepted and then rejected: as many as the gate may have forgotten.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Forgets {
    Nothing,
    /// What it took during so long before the fault.
    Before(Duration),
    /// The same, and what it took while the fault lasted.
    BeforeAndDuring(Duration),
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Scenario {
    /// The fault, as the table names it.
    pub(crate) name: &'static str,
    pub(crate) gate: Gate,
    pub(crate) servers: usize,
    pub(crate) forgets: Forgets,
    /// This one is another one, whose disk can be filled.
    pub(crate) small_disk: Option<&'static Owner>,
    /// Sales of many products that were there before, over or still to come.
    pub(crate) idle_sales: u64,
    /// `cluster.backlog_max`.
    pub(crate) backlog_max: u64,
}

impl Scenario {
    pub(crate) const fn of(name: &'static str) -> Scenario {
        Scenario {
            name,
            gate: Gate::Redis,
            servers: 2,
            forgets: Forgets::Nothing,
            small_disk: None,
            idle_sales: 0,
            backlog_max: BACKLOG_MAX,
        }
    }
}

/// One scenario at a time.
pub(crate) static ALONE: Mutex<()> = Mutex::new(());

/// Whether scenarios take their full time, and make the table.
pub(crate) fn is_full() -> bool {
    std::env::var_os("DOORBUSTER_FAULTS").is_some_and(|value| value == "full") || soak::hours().is_some()
}

/// What a fault acts on.
#[derive(Debug)]
pub(crate) struct Testbed {
    pub(crate) engines: &'static Engines,
    pub(crate) network: &'static Network,
    pub(crate) cluster: Cluster,
    pub(crate) load: Load,
    /// Of this scenario's names on the engines: its database, and what its keys begin with.
    pub(crate) prefix: String,
    pub(crate) topic: String,
    pub(crate) small_disk: Option<SmallDisk>,
    _dir: TempDir,
    _alone: MutexGuard<'static, ()>,
}

/// The ways from the servers to the engines.
#[derive(Debug)]
pub(crate) struct Network {
    pub(crate) redis: Proxy,
    pub(crate) redis_cluster: Vec<Proxy>,
    /// Their addresses, as the configuration lists them.
    pub(crate) sentinels: String,
    pub(crate) mariadb: Proxy,
    pub(crate) name_server: Proxy,
    pub(crate) broker: Proxy,
}

impl Network {
    fn to(engines: &Engines) -> Network {
        let address = |name: &str| -> SocketAddr { engines.address(name).parse().unwrap() };
        Network {
            redis: Proxy::to(address("redis")),
            redis_cluster: (0..CLUSTER_NODES)
                .map(|node| Proxy::advertised(address(&format!("redis-cluster-{node}"))))
                .collect(),
            sentinels: (0..SENTINELS)
                .map(|sentinel| format!("{:?}", engines.address(&format!("sentinel-{sentinel}"))))
                .collect::<Vec<_>>()
                .join(", "),
            mariadb: Proxy::to(address("mariadb")),
            name_server: Proxy::to(address("rocketmq-namesrv")),
            broker: Proxy::advertised(address("rocketmq-broker")),
        }
    }

    fn restore(&self) {
        let all = [&self.redis, &self.mariadb, &self.name_server, &self.broker];
        all.into_iter().chain(&self.redis_cluster).for_each(|proxy| proxy.set(Mode::Pass));
    }
}

/// Plays a scenario; `fault` returns when the fault is over.
pub(crate) fn play(scenario: &Scenario, fault: impl FnOnce(&mut Testbed)) -> Outcome {
    let mut testbed = Testbed::open(scenario);
    testbed.load.wait_for_orders(if is_full() { 1000 } else { 300 }, WARM_WITHIN);
    let began = Instant::now();
    fault(&mut testbed);
    let ended = Instant::now();
    let back = testbed.load.wait_for_orders(1, BACK_WITHIN);
    testbed.load.wait_for_orders(if is_full() { 1000 } else { 200 }, WARM_WITHIN);
    // The last is dropped first: a failure prints the logs of the servers, which are in the folder.
    let Testbed { _alone, _dir, load, cluster, prefix, engines, .. } = testbed;
    let attempts = load.stop();
    let silence = longest_silence(&attempts, began);
    let forgettable = forgettable(scenario.forgets, &attempts, began, ended);
    let outcome = verdict::judge(&cluster, attempts, Round::FIRST);
    let row = Row { fault: scenario.name, lasted: ended - began, back, silence, forgettable, outcome };
    println!("{row}");
    assert!(row.outcome.rejected <= forgettable, "more was rejected than the gate can have forgotten: {row}");
    drop(cluster);
    say_sql(engines, &format!("DROP DATABASE {prefix}"));
    report::add(&row);
    row.outcome
}

impl Testbed {
    fn open(scenario: &Scenario) -> Testbed {
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let (engines, network) = engines_that_are_well();
        let place = SCENARIOS.iter().position(|other| other.name == scenario.name).expect("it is listed");
        let prefix = format!("faults{place}");
        let topic = prefix.clone();
        say_sql(engines, &format!("DROP DATABASE IF EXISTS {prefix}; CREATE DATABASE {prefix}"));
        let small_disk = scenario.small_disk.map(SmallDisk::of);
        let instead = |engine, member| small_disk.as_ref()?.address(engine, member);
        let ledger = match instead("mariadb", "mariadb") {
            Some(address) => (address, "doorbuster"),
            None => (network.mariadb.address.to_string(), prefix.as_str()),
        };
        let name_server = instead("rocketmq", "rocketmq-namesrv")
            .unwrap_or_else(|| network.name_server.address.to_string());
        let config = configuration(scenario, network, ledger, &name_server, &prefix, &topic);
        let dir = tempfile::tempdir().unwrap();
        let cluster = Cluster::start(dir.path(), &config, scenario.servers);
        let mut operator = Caller::calm(cluster.addresses()[0]);
        for number in 0..scenario.idle_sales {
            let items = if is_full() { IDLE_ITEMS } else { IDLE_ITEMS / 10 };
            operator.create_idle_sale(FIRST_IDLE_SALE + number, items, number > 0);
        }
        operator.create_sales(Round::FIRST);
        cluster.addresses().into_iter().for_each(|server| Caller::calm(server).wait_for_sales(Round::FIRST));
        let load = Load::start(cluster.addresses(), shape());
        Testbed { engines, network, cluster, load, prefix, topic, small_disk, _dir: dir, _alone: alone }
    }

    /// Longer than every time-out that is involved; then the fault is over.
    pub(crate) fn outage() -> Duration {
        Duration::from_secs(if is_full() { 20 } else { 4 })
    }

    pub(crate) fn wait_out() {
        std::thread::sleep(Testbed::outage());
    }
}

/// The engines that all scenarios share, also after a scenario that failed in the middle of its fault.
pub(crate) fn engines_that_are_well() -> (&'static Engines, &'static Network) {
    static ENGINES: OnceLock<Engines> = OnceLock::new();
    static NETWORK: OnceLock<Network> = OnceLock::new();
    let engines = ENGINES.get_or_init(|| {
        let host = ADVERTISED_HOST.to_string();
        let settings = [
            ("DOORBUSTER_DEV_ADVERTISED_HOST", host.as_str()),
            ("DOORBUSTER_REDIS_CLUSTER_NODE_TIMEOUT_MS", CLUSTER_NODE_TIMEOUT_MS),
            ("DOORBUSTER_REDIS_SENTINEL_DOWN_AFTER_MS", SENTINEL_DOWN_AFTER_MS),
            // The broker as it is by default: what it refuses is a part of what the servers live through.
            ("DOORBUSTER_ROCKETMQ_OPTIONS", ""),
        ];
        let engines = Engines::private(&ALL_ENGINES, &settings);
        wait_until_advertised(&engines);
        engines
    });
    let network = NETWORK.get_or_init(|| Network::to(engines));
    network.restore();
    for member in FROZEN_BY_SOME {
        // One that was killed is not there to be thawed; it is started below.
        let pid = Pid::from_raw(engines.member(member).pid.cast_signed()).unwrap();
        kill_process(pid, Signal::CONT).ok();
    }
    engines.up(&ALL_ENGINES);
    (engines, network)
}

/// A new Cluster's members learn from each other, some time after they serve, what each is to be called.
fn wait_until_advertised(engines: &Engines) {
    let host = ADVERTISED_HOST.to_string();
    let deadline = Instant::now() + ADVERTISED_WITHIN;
    for node in 0..CLUSTER_NODES {
        loop {
            let slots = redis_cli(engines, &format!("redis-cluster-{node}"), &["cluster", "slots"]);
            if slots.lines().filter(|line| line.trim() == host).count() == CLUSTER_NODES {
                break;
            }
            assert!(Instant::now() < deadline, "not all are called {host}:\n{slots}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

fn shape() -> Shape {
    if is_full() {
        Shape { buyers: 32, think: Duration::from_millis(10), round: Round::FIRST }
    } else {
        Shape { buyers: 8, think: Duration::from_millis(10), round: Round::FIRST }
    }
}

/// The disk of whoever runs the tests may be fuller than a broker's should be; at 90 the broker itself takes nothing more.
const DISK_PERCENT_MAX: u8 = 89;

pub(crate) fn configuration(
    scenario: &Scenario,
    network: &Network,
    (mysql_address, mysql_database): (String, &str),
    name_server: &str,
    prefix: &str,
    topic: &str,
) -> String {
    let (mode, gate) = match scenario.gate {
        Gate::Redis => ("single", format!("{:?}", network.redis.address.to_string())),
        Gate::RedisCluster => {
            let nodes: Vec<String> =
                network.redis_cluster.iter().map(|node| format!("{:?}", node.address.to_string())).collect();
            ("cluster", nodes.join(", "))
        }
        Gate::RedisSentinel => ("sentinel", network.sentinels.clone()),
    };
    let Scenario { servers, backlog_max, .. } = scenario;
    let (publish, roll_forward, timeout) = if is_full() { (2000, 10_000, 1000) } else { (1000, 2000, 500) };
    format!(
        r#"[auth]
buyer = "member_id"
[admission]
in_flight_per_buyer_max = 0
orders_per_s_per_buyer = 0
[ledger]
backend = "mysql"
mysql_address = "{mysql_address}"
mysql_user = "root"
mysql_database = "{mysql_database}"
[cluster]
enabled = true
servers = {servers}
publish_timeout_ms = {publish}
roll_forward_after_ms = {roll_forward}
backlog_max = {backlog_max}
[gate]
mode = "{mode}"
addresses = [{gate}]
prefix = "{prefix}"
timeout_ms = {timeout}
[queue]
name_servers = ["{name_server}"]
topic = "{topic}"
timeout_ms = {timeout}
broker_disk_percent_max = {DISK_PERCENT_MAX}
"#
    )
}

/// Runs statements in MariaDB, past the proxy.
pub(crate) fn say_sql(engines: &Engines, statements: &str) {
    let address = engines.address("mariadb");
    let (host, port) = address.rsplit_once(':').unwrap();
    let status = Command::new("mariadb")
        .args(["--no-defaults", "--protocol=tcp", "--user=root", "--host", host, "--port", port])
        .args(["--execute", statements])
        .status();
    assert!(status.unwrap().success(), "{statements}");
}

/// The first answer of each order that was accepted.
pub(crate) fn acceptances(attempts: &[Attempt]) -> impl Iterator<Item = &TimedAnswer> {
    attempts.iter().filter_map(|attempt| {
        attempt.answers.iter().find(|timed| matches!(timed.answer, Answer::Accepted { .. }))
    })
}

/// The longest time without an accepted order, of all buyers together, from the fault on.
fn longest_silence(attempts: &[Attempt], began: Instant) -> Duration {
    let mut times: Vec<Instant> = acceptances(attempts).map(|timed| timed.at).collect();
    times.sort_unstable();
    let longest = times.windows(2).filter(|pair| pair[1] >= began).map(|pair| pair[1] - pair[0]).max();
    longest.unwrap_or_default()
}

/// How many orders the gate can have forgotten: those that were asked for in the time that it forgets.
fn forgettable(forgets: Forgets, attempts: &[Attempt], began: Instant, ended: Instant) -> u64 {
    let (before, until) = match forgets {
        Forgets::Nothing => return 0,
        Forgets::Before(before) => (before, began),
        Forgets::BeforeAndDuring(before) => (before, ended),
    };
    acceptances(attempts).filter(|timed| timed.sent + before >= began && timed.sent <= until).count() as u64
}

#[cfg(test)]
mod tests {
    use server::queue::{Admin, Options, Producer, Security};

    use super::*;

    /// Or the network could not be cut.
    #[test]
    fn engines_that_advertise_an_address_advertise_the_proxys() {
        let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let (_, network) = engines_that_are_well();
        let options = Options {
            name_servers: vec![network.name_server.address.to_string()],
            group: "faults".to_owned(),
            send_timeout: Duration::from_secs(2),
            security: Security::default(),
        };
        let deadline = Instant::now() + Duration::from_secs(20);
        // A broker that has just started may take longer than it is given.
        while let Err(error) = Admin::new(options.clone()).create_topics(&["proxied"]) {
            assert!(Instant::now() < deadline, "{error}");
        }
        let mut producer = Producer::new(options);
        send(&mut producer, "proxied", &["a"]);
        network.broker.set(Mode::Cut);
        producer.send("proxied", &["b"]).unwrap_err();
        network.broker.set(Mode::Pass);
        let deadline = Instant::now() + Duration::from_secs(5);
        while let Err(error) = producer.send("proxied", &["c"]) {
            assert!(Instant::now() < deadline, "{error}");
        }
    }
}
