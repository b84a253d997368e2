//! The scripts of `dev/`: what a killed process leaves, settings that change, and clusters beside each other.
//!
//! nginx is the member whose processes are several. It also plays the server of `dev/run-cluster`, which needs nothing
//! else then.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::engines::{Engines, Member};

const SOON: Duration = Duration::from_secs(20);
/// More than what makes a server count as ready, if all are answered well.
const LOOKS: usize = 10;
/// More than a run prints.
const LINES_MAX: usize = 100;

/// A script's exit code, and what it printed.
fn said(command: &mut Command) -> (Option<i32>, String) {
    let output = command.output().unwrap();
    let both = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8(both).unwrap())
}

fn said_by(engines: &Engines, script: &str, arguments: &[&str]) -> (Option<i32>, String) {
    said(engines.script(script).args(arguments))
}

/// The line of a member in what `dev/status` says: its pids, and how it is.
fn status(engines: &Engines, member: &str) -> Option<(Vec<u32>, String)> {
    let (_, out) = said_by(engines, "status", &[]);
    let line = out.lines().find(|line| line.starts_with(&format!("{member} ")))?;
    let [_, _, pids, state] = line.split(' ').collect::<Vec<_>>()[..] else { panic!("{line:?}") };
    Some((pids.split(',').filter_map(|pid| pid.parse().ok()).collect(), state.to_owned()))
}

fn runs(pid: u32) -> bool {
    Member { name: String::new(), address: String::new(), pid }.runs()
}

#[track_caller]
fn soon(what: &str, mut is_so: impl FnMut() -> bool) {
    let started = Instant::now();
    while !is_so() {
        assert!(started.elapsed() < SOON, "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The answer to a GET, whole.
fn get(address: &str, path: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "GET {path} HTTP/1.0\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn what_a_killed_nginx_left_is_reported_and_stopped() {
    let engines = Engines::private(&["nginx"], &[]);
    let address = engines.address("nginx");
    for stopped_by in ["down", "up"] {
        let master = engines.member("nginx").pid;
        engines.kill("nginx");
        let (workers, state) = status(&engines, "nginx").unwrap();
        assert_eq!(state, "broken");
        assert!(!workers.is_empty() && workers.iter().all(|pid| runs(*pid) && *pid != master), "{workers:?}");
        if stopped_by == "down" {
            let (code, out) = said_by(&engines, "down", &["nginx"]);
            assert_eq!(code, Some(0), "{out}");
            assert_eq!(status(&engines, "nginx"), None);
            TcpListener::bind(&address).unwrap();
        }
        engines.up(&["nginx"]);
        assert!(!workers.iter().any(|pid| runs(*pid)), "{workers:?}");
        assert_eq!(status(&engines, "nginx"), Some((vec![engines.member("nginx").pid], "running".into())));
    }
}

#[test]
fn a_number_that_became_somebody_elses_is_left_alone() {
    let engines = Engines::private(&["redis"], &[]);
    engines.kill("redis");
    // It leads a group of its own, as a member does.
    let mut other = Command::new("setsid").args(["sleep", "600"]).spawn().unwrap();
    fs::write(engines.dir().join("redis/pid"), other.id().to_string()).unwrap();
    assert_eq!(status(&engines, "redis"), Some((Vec::new(), "stopped".into())));
    let (code, out) = said_by(&engines, "down", &["redis"]);
    assert_eq!((code, out.as_str()), (Some(0), ""));
    assert!(other.try_wait().unwrap().is_none(), "it was nobody's member");
    other.kill().unwrap();
    other.wait().unwrap();
}

/// `wait_ready redis`, which is ready at its third look, of a process that is there under another command line: as every
/// process is for a moment, before its program has begun.
fn waited_for(pid: u32) -> (Option<i32>, String) {
    let folder = tempfile::tempdir().unwrap();
    let scripts = concat!(env!("CARGO_MANIFEST_DIR"), "/../../dev");
    let script = "cd \"$1\" && . ./engines.sh && mkdir -p \"$dev_dir/redis\" && echo \"$2\" >\"$dev_dir/redis/pid\"; \
                  looks=0; ready_redis() { looks=$((looks + 1)); [ \"$looks\" -ge 3 ]; }; wait_ready redis";
    let mut bash = Command::new("bash");
    bash.args(["-c", script, "dev/up", scripts, &pid.to_string()]);
    said(bash.env("DOORBUSTER_DEV_DIR", folder.path()))
}

#[test]
fn a_process_whose_program_has_not_begun_yet_is_waited_for() {
    let mut other = Command::new("sleep").arg("600").spawn().unwrap();
    assert_eq!(waited_for(other.id()), (Some(0), String::new()));
    other.kill().unwrap();
    other.wait().unwrap();
    let (code, out) = waited_for(other.id());
    assert!(code == Some(1) && out.contains("redis exited by itself"), "{code:?} {out}");
}

#[test]
fn nginx_runs_with_the_settings_that_it_is_asked_for() {
    let pages = tempfile::tempdir().unwrap();
    // Workers of root's nginx are somebody else.
    fs::set_permissions(pages.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let folder = |name: &str| {
        let folder = pages.path().join(name);
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join("seckill_1_1.html"), name).unwrap();
        folder.into_os_string().into_string().unwrap()
    };
    let engines = Engines::private(&["nginx"], &[("EDGE_PAGES", &folder("the first"))]);
    let address = engines.address("nginx");
    let page = || get(&address, "/seckill_1_1.html");
    let first = engines.member("nginx").pid;
    assert!(page().ends_with("the first"), "{}", page());
    let (code, out) = said_by(&engines, "up", &["nginx"]);
    assert!(code == Some(0) && out.contains(&format!("nginx {address} {first}\n")), "{out}");

    engines.set("EDGE_PAGES", &folder("the second"));
    // Behind it runs the server of a cluster, whose edge it is.
    let server = engines.dir().join("server-1");
    fs::create_dir(&server).unwrap();
    let script = format!("read -r line # {}/", server.display());
    let mut behind = Command::new("sh").args(["-c", &script]).stdin(Stdio::piped()).spawn().unwrap();
    fs::write(server.join("pid"), behind.id().to_string()).unwrap();
    let (code, out) = said_by(&engines, "up", &["nginx"]);
    assert!(code == Some(1) && out.contains("nginx serves a dev/run-cluster"), "{out}");
    assert!(page().ends_with("the first"), "{}", page());
    behind.kill().unwrap();
    behind.wait().unwrap();

    let (code, out) = said_by(&engines, "up", &["nginx"]);
    assert!(code == Some(0) && !out.contains(&format!("nginx {address} {first}\n")), "{out}");
    assert!(page().ends_with("the second"), "{}", page());
}

/// `dev/run-cluster` with nginx as its servers, which are ready once there is a file `open`.
struct Cluster {
    script: Child,
    lines: Receiver<String>,
    said: Vec<String>,
}

const SERVER: &str = r#"#!/usr/bin/env bash
# serve --demo --config FILE --data-dir FOLDER --listen ADDRESS
dir=$(dirname "$4")
cat >"$dir/server.conf" <<CONF
user root; daemon off; worker_processes 1; pid "$dir/server.pid"; error_log stderr;
events {}
http { access_log "$dir/asked"; server { listen $8; location / {
	if (!-f "$dir/../open") { return 503; }
	return 200;
} } }
CONF
PATH=$PATH:/usr/sbin
exec nginx -p "$dir/" -e stderr -c "$dir/server.conf"
"#;

fn run_cluster(engines: &Engines) -> Command {
    let binary = engines.dir().join("server");
    fs::write(&binary, SERVER).unwrap();
    fs::set_permissions(&binary, fs::Permissions::from_mode(0o755)).unwrap();
    let mut command = engines.script("run-cluster");
    command.env("RUN_CLUSTER_BINARY", binary).env("RUN_CLUSTER_ENGINES", "nginx");
    command
}

impl Cluster {
    fn start(engines: &Engines) -> Cluster {
        // What it says besides goes where the engines' logs are.
        let errors = fs::File::create(engines.dir().join("run-cluster.log")).unwrap();
        let mut script = run_cluster(engines).stdout(Stdio::piped()).stderr(errors).spawn().unwrap();
        let lines = lines_of(script.stdout.take().unwrap());
        Cluster { script, lines, said: Vec::new() }
    }

    /// Waits until it says that it serves.
    #[track_caller]
    fn serves(&mut self) {
        while !self.has_said("audit ") {
            self.said.push(self.lines.recv_timeout(SOON).unwrap());
        }
        assert!(self.has_said("serving ") && self.has_said("for people "), "{:?}", self.said);
    }

    fn has_said(&mut self, start: &str) -> bool {
        self.said.extend(self.lines.try_iter());
        self.said.iter().any(|line| line.starts_with(start))
    }

    fn end(mut self, signal: Signal) -> Option<i32> {
        kill_process(Pid::from_child(&self.script), signal).unwrap();
        self.script.wait().unwrap().code()
    }
}

fn lines_of(out: ChildStdout) -> Receiver<String> {
    let (sender, lines) = sync_channel(LINES_MAX);
    std::thread::spawn(move || {
        BufReader::new(out).lines().map_while(Result::ok).try_for_each(|line| sender.send(line))
    });
    lines
}

fn servers(engines: &Engines) -> Vec<u32> {
    let pids = ["server-1", "server-2"].map(|server| status(engines, server).map(|(pids, _)| pids));
    pids.into_iter().flatten().flatten().collect()
}

#[test]
fn a_cluster_serves_when_its_servers_do_and_suffers_no_second_one() {
    let engines = Engines::private(&["nginx"], &[]);
    let mut first = Cluster::start(&engines);
    let is_asked = |server: &str| {
        let asked = fs::read_to_string(engines.dir().join(server).join("asked")).unwrap_or_default();
        asked.lines().filter(|line| line.contains("GET /readyz")).count() > LOOKS
    };
    soon("both servers are asked again and again", || is_asked("server-1") && is_asked("server-2"));
    assert!(!first.has_said("serving "), "no server is ready: {:?}", first.said);
    fs::write(engines.dir().join("open"), "").unwrap();
    first.serves();

    let pids = servers(&engines);
    let log = engines.dir().join("cluster/server-1.log");
    fs::write(&log, "what the first one wrote").unwrap();
    let (code, out) = said(&mut run_cluster(&engines));
    let edge: SocketAddr = engines.address("nginx").parse().unwrap();
    assert_eq!(code, Some(1), "{out}");
    assert!(out.contains(&format!("http://{edge}/, pid {}", first.script.id())), "{out}");
    assert!(!out.contains("serving "), "{out}");
    assert_eq!(servers(&engines), pids);
    assert!(pids.iter().all(|pid| runs(*pid)), "{pids:?}");
    assert_eq!(fs::read_to_string(&log).unwrap(), "what the first one wrote");

    assert_eq!(first.end(Signal::TERM), Some(130));
    assert!(servers(&engines).is_empty() && !pids.iter().any(|pid| runs(*pid)), "{pids:?}");
}

#[test]
fn servers_of_a_killed_cluster_are_known_and_ended() {
    let engines = Engines::private(&["nginx"], &[]);
    fs::write(engines.dir().join("open"), "").unwrap();
    let mut ended = Vec::new();
    for _ in 0..2 {
        let mut cluster = Cluster::start(&engines);
        cluster.serves();
        assert!(!ended.iter().any(|pid| runs(*pid)), "{ended:?} of the one before");
        assert_eq!(cluster.end(Signal::KILL), None);
        ended = servers(&engines);
        assert!(ended.len() == 2 && ended.iter().all(|pid| runs(*pid)), "{ended:?}");
    }
    let (code, out) = said_by(&engines, "down", &[]);
    assert_eq!(code, Some(0), "{out}");
    assert!(servers(&engines).is_empty() && !ended.iter().any(|pid| runs(*pid)), "{ended:?}");
}

#[test]
fn a_cluster_whose_port_is_taken_says_by_whom() {
    let engines = Engines::private(&["nginx"], &[]);
    let edge: SocketAddr = engines.address("nginx").parse().unwrap();
    let holder = TcpListener::bind((edge.ip(), edge.port() + 2)).unwrap();
    fs::write(engines.dir().join("open"), "").unwrap();
    let (code, out) = said(&mut run_cluster(&engines));
    assert_eq!(code, Some(1), "{out}");
    let taken = format!("port {} is taken by pid {}", edge.port() + 2, std::process::id());
    assert!(out.contains(&taken) && !out.contains("serving "), "{out}");
    assert!(servers(&engines).is_empty(), "{out}");
    drop(holder);
}
