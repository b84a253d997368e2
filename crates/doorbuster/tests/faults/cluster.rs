//! The servers of a scenario: real `doorbuster serve` processes on one configuration, each on a port that it keeps
//! through a restart, stopped and killed by pid.
//!
//! Their logs go to files beside the configuration; a failed test prints the end of each.

use std::fs::File;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::engines::{free_ports, freeze};
use crate::exchange::Connection;

/// Secret of the operator.
pub(crate) const OPERATOR: &str = "operator-token-of-the-fault-tests";
/// Secret that signs payments.
pub(crate) const PAYMENT_SECRET: &str = "payment-secret-of-the-fault-tests";
/// Only a failing test waits for so long: it says nothing of how soon a server is ready, which the machine decides.
const READY_WITHIN: Duration = Duration::from_secs(120);
/// For one answer of a server that is well.
const ANSWERED_WITHIN: Duration = Duration::from_secs(10);
const ENDED_WITHIN: Duration = Duration::from_secs(30);
const LOG_LINES_SHOWN: usize = 40;

#[derive(Debug)]
pub(crate) struct Cluster {
    dir: PathBuf,
    config: PathBuf,
    servers: Vec<Server>,
    /// Keeps the servers' ports.
    _ports: File,
}

#[derive(Debug)]
struct Server {
    address: SocketAddr,
    child: Option<Child>,
}

impl Cluster {
    /// Starts servers on a configuration and waits until they are ready. Relative paths in it are below `dir`.
    pub(crate) fn start(dir: &Path, config: &str, servers: usize) -> Cluster {
        let path = dir.join("doorbuster.toml");
        std::fs::write(&path, config).unwrap();
        // Not of the system's choice: while a server is away, an outgoing connection could be given its port.
        let (ports, lock) = free_ports();
        let server = |port| Server { address: SocketAddr::from(([127, 0, 0, 1], port)), child: None };
        let servers = ports.map(server).take(servers).collect();
        let mut cluster = Cluster { dir: dir.to_owned(), config: path, servers, _ports: lock };
        for index in 0..cluster.servers.len() {
            cluster.launch(index);
        }
        for index in 0..cluster.servers.len() {
            cluster.wait_ready(index);
        }
        cluster
    }

    /// Starts a server that was ended, in an environment with this in it, and does not wait for it.
    pub(crate) fn launch_with(&mut self, index: usize, environment: &[(&str, &str)]) {
        let server = &mut self.servers[index];
        assert!(server.child.is_none(), "server {index} runs");
        let log =
            File::options().create(true).append(true).open(self.dir.join(format!("server-{index}.log")));
        // It keeps its pid, and ends with this process however that ends.
        let child = Command::new("setpriv")
            .args(["--pdeathsig", "KILL", env!("CARGO_BIN_EXE_doorbuster"), "serve", "--config"])
            .arg(&self.config)
            .args(["--listen", &server.address.to_string()])
            .current_dir(&self.dir)
            .env_clear()
            .envs(environment.iter().copied())
            .env("DOORBUSTER_OPERATOR_TOKEN", OPERATOR)
            .env("DOORBUSTER_PAYMENT_SECRET", PAYMENT_SECRET)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log.unwrap())
            .spawn();
        server.child = Some(child.unwrap());
    }

    fn launch(&mut self, index: usize) {
        self.launch_with(index, &[]);
    }

    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    pub(crate) fn wait_ready(&mut self, index: usize) {
        let started = Instant::now();
        while !self.is_ready(index) {
            let server = &mut self.servers[index];
            let ended = server.child.as_mut().unwrap().try_wait().unwrap();
            assert!(ended.is_none(), "server {index} ended: {ended:?}");
            assert!(started.elapsed() < READY_WITHIN, "server {index} is not ready");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    fn is_ready(&self, index: usize) -> bool {
        Connection::open_patient(self.servers[index].address, ANSWERED_WITHIN)
            .and_then(|mut connection| connection.exchange("GET", "/readyz", &[], ""))
            .is_ok_and(|response| response.status == 200)
    }

    pub(crate) fn is_embedded(&self) -> bool {
        self.servers.len() == 1
    }

    pub(crate) fn addresses(&self) -> Vec<SocketAddr> {
        self.servers.iter().map(|server| server.address).collect()
    }

    pub(crate) fn pid(&self, index: usize) -> u32 {
        self.servers[index].child.as_ref().unwrap().id()
    }

    fn signal(&self, index: usize, signal: Signal) {
        kill_process(Pid::from_raw(self.pid(index).cast_signed()).unwrap(), signal).unwrap();
    }

    /// SIGKILL: no destructor, no flush, no farewell.
    pub(crate) fn kill(&mut self, index: usize) {
        self.signal(index, Signal::KILL);
        self.servers[index].child.take().unwrap().wait().unwrap();
    }

    /// SIGSTOP: it keeps its connections and its leases, and does nothing.
    pub(crate) fn freeze(&self, index: usize) {
        freeze(self.pid(index));
    }

    pub(crate) fn thaw(&self, index: usize) {
        self.signal(index, Signal::CONT);
    }

    /// SIGTERM; waits for its end, which must be a good one.
    pub(crate) fn drain(&mut self, index: usize) {
        self.signal(index, Signal::TERM);
        let deadline = Instant::now() + ENDED_WITHIN;
        let mut child = self.servers[index].child.take().unwrap();
        let status = loop {
            if let Some(status) = child.try_wait().unwrap() {
                break status;
            }
            if Instant::now() > deadline {
                self.servers[index].child = Some(child);
                panic!("server {index} does not end on SIGTERM");
            }
            std::thread::sleep(Duration::from_millis(10));
        };
        assert_eq!(status.code(), Some(0), "server {index}");
    }

    /// Starts a server that was ended, on its old port, and waits until it is ready.
    pub(crate) fn restart(&mut self, index: usize) {
        self.launch(index);
        self.wait_ready(index);
    }

    /// SIGKILL, and starts it again without waiting for it, as a supervisor does.
    pub(crate) fn kill_and_launch(&mut self, index: usize) {
        self.kill(index);
        self.launch(index);
    }

    /// Reads its configuration again.
    pub(crate) fn reload(&self, index: usize) {
        self.signal(index, Signal::HUP);
    }

    /// Starts again what has ended by itself, until all are ready.
    pub(crate) fn wait_all_ready(&mut self) {
        let started = Instant::now();
        while (0..self.servers.len()).filter(|index| !self.is_ready(*index)).count() > 0 {
            assert!(started.elapsed() < READY_WITHIN, "not all servers are ready");
            self.launch_ended();
            std::thread::sleep(Duration::from_millis(200));
        }
    }

    /// Starts those that have ended by themselves, as one does whose engines were away at its start.
    pub(crate) fn launch_ended(&mut self) {
        for index in 0..self.servers.len() {
            if self.servers[index].child.as_mut().is_some_and(|child| child.try_wait().unwrap().is_some()) {
                self.servers[index].child = None;
                self.launch(index);
            }
        }
    }

    /// Runs a command of the program on the servers' configuration: its exit code and what it printed.
    pub(crate) fn run(&self, arguments: &[&str]) -> (i32, String) {
        let output = Command::new(env!("CARGO_BIN_EXE_doorbuster"))
            .args(arguments)
            .arg("--config")
            .arg(&self.config)
            .current_dir(&self.dir)
            .env_clear()
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let code = output.status.code().expect("it ends by itself");
        (
            code,
            [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat(),
        )
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for (index, server) in self.servers.iter_mut().enumerate() {
            if let Some(mut child) = server.child.take() {
                drop(child.kill());
                drop(child.wait());
            }
            if std::thread::panicking() {
                let log = std::fs::read_to_string(self.dir.join(format!("server-{index}.log")));
                let log = log.unwrap_or_default();
                let lines: Vec<&str> = log.lines().collect();
                let end = lines[lines.len().saturating_sub(LOG_LINES_SHOWN)..].join("\n");
                eprintln!("the end of server {index}'s log, {} lines in all:\n{end}", lines.len());
            }
        }
    }
}
