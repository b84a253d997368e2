//! Real Redis servers for the tests of the gate: private ports and folders, ended with the test.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use engine::SkuId;
use rustix::process::{Pid, Signal, kill_process};
use server::gate::{Gate, GateConfig, Layout};

use crate::engines::{free_ports, freeze};

const PROGRAM: &str = "redis-server";
/// How long a server may take to start or stop, or a condition to come true.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// Waits until something is so; fails the test when it never is.
pub(crate) fn until(what: &str, mut is: impl FnMut() -> bool) {
    let started = Instant::now();
    while !is() {
        assert!(started.elapsed() < PATIENCE, "it never came true: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// One that nobody else is given while this process runs. Not one of the system's choice: that one may be an outgoing
/// connection's, or another server's, before it is listened on, or while a server that was killed is away.
pub(crate) fn free_port() -> u16 {
    static PORTS: Mutex<(Vec<u16>, Vec<File>)> = Mutex::new((Vec::new(), Vec::new()));
    let mut ports = PORTS.lock().unwrap_or_else(PoisonError::into_inner);
    let (free, locks) = &mut *ports;
    if free.is_empty() {
        let (set, lock) = free_ports();
        free.extend(set);
        locks.push(lock);
    }
    free.pop().expect("a set has ports")
}

/// One `redis-server`.
#[derive(Debug)]
pub(crate) struct Redis {
    pub(crate) port: u16,
    pub(crate) dir: tempfile::TempDir,
    program: PathBuf,
    arguments: Vec<String>,
    child: Child,
}

impl Redis {
    pub(crate) fn start(arguments: &[&str]) -> Redis {
        Redis::start_as(Path::new(PROGRAM), arguments)
    }

    /// Another program that takes the same arguments.
    pub(crate) fn start_as(program: &Path, arguments: &[&str]) -> Redis {
        let redis = Redis::spawn_as(program, free_port(), tempfile::tempdir().unwrap(), arguments);
        until("redis answers", || redis.pings());
        redis
    }

    /// Does not wait for it.
    pub(crate) fn spawn(port: u16, dir: tempfile::TempDir, arguments: &[&str]) -> Redis {
        Redis::spawn_as(Path::new(PROGRAM), port, dir, arguments)
    }

    fn spawn_as(program: &Path, port: u16, dir: tempfile::TempDir, arguments: &[&str]) -> Redis {
        let arguments: Vec<String> = arguments.iter().map(|text| (*text).to_owned()).collect();
        let child = run(program, port, dir.path(), &arguments);
        Redis { port, dir, program: program.to_owned(), arguments, child }
    }

    pub(crate) fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// SIGSTOP: its connections stay open, and nobody answers.
    pub(crate) fn freeze(&self) {
        freeze(self.child.id());
    }

    pub(crate) fn thaw(&self) {
        kill_process(Pid::from_child(&self.child), Signal::CONT).unwrap();
    }

    /// SIGKILL.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Starts it again on the same port and folder; it may be loading yet.
    pub(crate) fn start_again(&mut self) {
        self.child = run(&self.program, self.port, self.dir.path(), &self.arguments);
    }

    pub(crate) fn pings(&self) -> bool {
        self.try_connect().is_some_and(|mut connection| {
            redis::cmd("PING").query::<String>(&mut connection).is_ok_and(|answer| answer == "PONG")
        })
    }

    fn try_connect(&self) -> Option<redis::Connection> {
        let client = redis::Client::open(format!("redis://{}/", self.address())).unwrap();
        client.get_connection_with_timeout(Duration::from_secs(2)).ok()
    }

    pub(crate) fn connect(&self) -> redis::Connection {
        self.try_connect().expect("the server runs")
    }

    /// One command; panics on an error.
    pub(crate) fn command<T: redis::FromRedisValue>(&self, parts: &[&str]) -> T {
        let mut command = redis::cmd(parts[0]);
        for part in &parts[1..] {
            command.arg(*part);
        }
        command.query(&mut self.connect()).unwrap_or_else(|error| panic!("{parts:?}: {error}"))
    }

    pub(crate) fn try_command(&self, parts: &[&str]) -> bool {
        let mut command = redis::cmd(parts[0]);
        parts[1..].iter().for_each(|part| {
            command.arg(*part);
        });
        command.query::<()>(&mut self.connect()).is_ok()
    }

    pub(crate) fn config(&self) -> GateConfig {
        config(vec![self.address()], Layout::Single)
    }

    pub(crate) fn gate(&self) -> Gate {
        Gate::new(self.config())
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        // It may be stopped, or dead already.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// With a configuration of its own, if that is the first argument.
fn run(program: &Path, port: u16, dir: &Path, arguments: &[String]) -> Child {
    let mut command = Command::new(program);
    if arguments.first().is_some_and(|first| first.ends_with(".conf")) {
        command.args(arguments);
    } else {
        command
            .args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", ""])
            .arg("--dir")
            .arg(dir)
            .args(["--maxmemory-policy", "noeviction"])
            .args(arguments);
    }
    command
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("redis-server is installed (dev/install-test-packages)")
}

pub(crate) fn config(addresses: Vec<String>, layout: Layout) -> GateConfig {
    // Only tests of silence wait for it, with a time-out of their own: a Redis that got no processor is not silent.
    let plain = GateConfig::plain(addresses, "db", PATIENCE);
    // An idle check comes later than any test ends: only those that are about it look.
    GateConfig {
        layout,
        connect_timeout: Duration::from_secs(1),
        idle_check: Duration::from_secs(3_600),
        ..plain
    }
}

/// A Redis Cluster of masters, each with so many replicas.
#[derive(Debug)]
pub(crate) struct Cluster {
    /// The masters first.
    pub(crate) nodes: Vec<Redis>,
    ids: Vec<String>,
}

impl Cluster {
    /// Whose nodes are never taken for dead, however little of the processor they get.
    pub(crate) fn start(masters: usize, replicas: usize) -> Cluster {
        let node_timeout_ms = (2 * PATIENCE).as_millis().to_string();
        let options = ["--cluster-enabled", "yes", "--cluster-node-timeout", &node_timeout_ms];
        let count = masters * (1 + replicas);
        let nodes: Vec<Redis> = (0..count)
            .map(|_| {
                let bus = free_port().to_string();
                let options = [&options[..], &["--cluster-port", &bus, "--appendonly", "yes"]].concat();
                Redis::start(&options)
            })
            .collect();
        let ids: Vec<String> = nodes.iter().map(|node| node.command(&["CLUSTER", "MYID"])).collect();
        let cluster = Cluster { nodes, ids };
        for (at, node) in cluster.nodes.iter().enumerate() {
            // Without an epoch of its own, each would learn it by collisions.
            node.command::<()>(&["CLUSTER", "SET-CONFIG-EPOCH", &(at + 1).to_string()]);
        }
        let bus: String =
            cluster.nodes[0].command::<Vec<String>>(&["CONFIG", "GET", "cluster-port"])[1].clone();
        let port = cluster.nodes[0].port.to_string();
        for node in &cluster.nodes[1..] {
            node.command::<()>(&["CLUSTER", "MEET", "127.0.0.1", &port, &bus]);
        }
        for (at, node) in cluster.nodes[..masters].iter().enumerate() {
            let (first, last) = (at * 16_384 / masters, (at + 1) * 16_384 / masters - 1);
            node.command::<()>(&["CLUSTER", "ADDSLOTSRANGE", &first.to_string(), &last.to_string()]);
        }
        for (at, node) in cluster.nodes[masters..].iter().enumerate() {
            let master = &cluster.ids[at % masters];
            until("the replica knows its master", || node.try_command(&["CLUSTER", "REPLICATE", master]));
        }
        for (at, node) in cluster.nodes.iter().enumerate() {
            until("the cluster is ready", || {
                let info: String = node.command(&["CLUSTER", "INFO"]);
                // Whoever is in a handshake only is known, but has no say yet.
                let known: String = node.command(&["CLUSTER", "NODES"]);
                let met = |line: &&str| line.contains(" connected") && !line.contains("handshake");
                let linked: String = node.command(&["INFO", "replication"]);
                info.contains("cluster_state:ok")
                    && known.lines().filter(met).count() == count
                    && (at < masters || linked.contains("master_link_status:up"))
            });
        }
        cluster
    }

    pub(crate) fn gate(&self) -> Gate {
        Gate::new(self.config())
    }

    pub(crate) fn config(&self) -> GateConfig {
        config(self.nodes.iter().map(Redis::address).collect(), Layout::Cluster)
    }

    pub(crate) fn slot_of(&self, sku: SkuId) -> u16 {
        self.nodes[0].command(&["CLUSTER", "KEYSLOT", &format!("{{db:{:08x}}}", sku.0)])
    }

    /// Positions of the master that has a slot, and of one that has not.
    pub(crate) fn owner_and_another(&self, slot: u16) -> (usize, usize) {
        let masters = self.nodes.len().min(3);
        let owner = usize::from(slot) * masters / 16_384;
        (owner, (owner + 1) % masters)
    }

    /// Gives a slot to a node, in everybody's view.
    pub(crate) fn assign(&self, slot: u16, to: usize) {
        for node in &self.nodes {
            node.command::<()>(&["CLUSTER", "SETSLOT", &slot.to_string(), "NODE", &self.ids[to]]);
        }
    }

    pub(crate) fn begin_move(&self, slot: u16, from: usize, to: usize) {
        let slot = slot.to_string();
        self.nodes[to].command::<()>(&["CLUSTER", "SETSLOT", &slot, "IMPORTING", &self.ids[from]]);
        self.nodes[from].command::<()>(&["CLUSTER", "SETSLOT", &slot, "MIGRATING", &self.ids[to]]);
    }

    /// Moves one key of a SKU.
    pub(crate) fn migrate(&self, sku: SkuId, key: &str, from: usize, to: usize) {
        let port = self.nodes[to].port.to_string();
        let key = format!("{{db:{:08x}}}:{key}", sku.0);
        self.nodes[from].command::<()>(&["MIGRATE", "127.0.0.1", &port, &key, "0", "5000"]);
    }
}
