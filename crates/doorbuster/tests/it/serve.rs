//! Starting and stopping the server: what it prints, what it refuses to start with, and how it ends.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

use crate::{doorbuster, outcome, run};

/// A demo on a free port; killed if a test fails before its end.
struct Demo {
    child: Child,
    stdout: BufReader<ChildStdout>,
    /// Without a slash at its end.
    url: String,
}

impl Demo {
    fn start(directory: &Path) -> Self {
        let mut command = doorbuster(directory);
        command
            .args(["serve", "--demo", "--data-dir", "data", "--listen", "127.0.0.1:0"])
            .stderr(Stdio::null());
        Self::spawn(command)
    }

    fn spawn(mut command: Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        stdout.read_line(&mut line).unwrap();
        let url = line.strip_prefix("serving       ").expect("the first line is the address").trim_end();
        let url = url.strip_suffix('/').unwrap().to_owned();
        Self { child, stdout, url }
    }

    fn address(&self) -> &str {
        self.url.strip_prefix("http://").unwrap()
    }

    /// Its exit code after a signal.
    fn end(self, signal: &str) -> Option<i32> {
        let sent = Command::new("kill").args([signal, &self.child.id().to_string()]).status().unwrap();
        assert!(sent.success());
        self.wait()
    }

    fn wait(mut self) -> Option<i32> {
        self.child.wait().unwrap().code()
    }
}

impl Drop for Demo {
    fn drop(&mut self) {
        // It has ended already unless a test failed.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

#[test]
fn a_demo_prints_its_addresses_is_steered_and_stops_gracefully() {
    let directory = tempfile::tempdir().unwrap();
    for signal in ["-TERM", "-INT", "-HUP"] {
        let mut demo = Demo::start(directory.path());
        let mut second = String::new();
        demo.stdout.read_line(&mut second).unwrap();
        assert_eq!(second, format!("API           {}/api\n", demo.url));
        let (code, stdout, stderr) =
            run(directory.path(), &["sale", "list", "--server", &demo.url, "--data-dir", "data"]);
        assert_eq!((code, stderr.as_str()), (0, ""), "{stdout}");
        assert_eq!(demo.end(signal), Some(0));
    }
    assert_eq!(run(directory.path(), &["audit", "--data-dir", "data"]).0, 0);
}

#[test]
fn a_countdown_of_a_sale_that_is_there_already_is_warned_of() {
    let directory = tempfile::tempdir().unwrap();
    for warned in [false, true] {
        let mut command = doorbuster(directory.path());
        command.args([
            "serve",
            "--demo",
            "--starts-in",
            "60s",
            "--data-dir",
            "data",
            "--listen",
            "127.0.0.1:0",
        ]);
        command.stderr(std::fs::File::create(directory.path().join("log")).unwrap());
        assert_eq!(Demo::spawn(command).end("-TERM"), Some(0));
        let log = std::fs::read_to_string(directory.path().join("log")).unwrap();
        assert_eq!(log.contains("--starts-in has no effect"), warned, "{log}");
    }
}

#[test]
fn what_is_taken_exits_69() {
    let directory = tempfile::tempdir().unwrap();
    let demo = Demo::start(directory.path());
    for (address, data_dir, reason) in [
        (demo.address(), "other", "another program serves there; stop it, or give another --listen\n"),
        (
            "127.0.0.1:0",
            "data",
            "data is used by another doorbuster; stop that one or give another --data-dir\n",
        ),
    ] {
        let arguments = ["serve", "--demo", "--listen", address, "--data-dir", data_dir];
        let (code, stdout, stderr) = run(directory.path(), &arguments);
        assert_eq!((code, stdout.as_str()), (69, ""), "{stderr}");
        let last = stderr.lines().last().unwrap();
        assert!(last.starts_with("error: ") && stderr.ends_with(reason), "{stderr}");
    }
    assert_eq!(demo.end("-TERM"), Some(0));
}

#[test]
fn a_wrong_start_exits_64_and_touches_nothing() {
    let directory = tempfile::tempdir().unwrap();
    for (arguments, reason) in [
        (&["serve", "--data-dir", "data"][..], "auth.buyer = \"token\" needs the secret"),
        (
            &["serve", "--demo", "--data-dir", "data", "--listen", "0.0.0.0:0"],
            "--listen: http.listen = 0.0.0.0:0 is",
        ),
        (&["serve", "--config", "none.toml"], "none.toml: can't be read: "),
        (
            &["serve", "--starts-in", "60s"],
            "error: the following required arguments were not provided: --demo",
        ),
        (
            &["serve", "--demo", "--starts-in", "soon"],
            "error: invalid value 'soon' for '--starts-in <DURATION>'",
        ),
        (&["serve", "--listen", "localhost"], "error: invalid value 'localhost' for '--listen <ADDR>'"),
    ] {
        let (code, stdout, stderr) = run(directory.path(), arguments);
        assert_eq!((code, stdout.as_str()), (64, ""), "{arguments:?}: {stderr}");
        assert!(stderr.starts_with(reason), "{arguments:?}: {stderr}");
    }
    // The certificate is read before anything is bound or made.
    let mut command = doorbuster(directory.path());
    command.args(["serve", "--demo", "--data-dir", "data", "--listen", "127.0.0.1:0"]);
    command
        .env("DOORBUSTER_HTTP_TLS_CERTIFICATE_FILE", "none.pem")
        .env("DOORBUSTER_HTTP_TLS_KEY_FILE", "none.pem");
    let (code, stdout, stderr) = outcome(command.output().unwrap());
    assert_eq!((code, stdout.as_str()), (64, ""), "{stderr}");
    assert!(stderr.contains("the certificate file none.pem can't be read"), "{stderr}");
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
}

#[test]
fn a_draining_server_answers_and_says_that_it_is_not_ready() {
    let directory = tempfile::tempdir().unwrap();
    let demo = Demo::start(directory.path());
    let mut kept = std::net::TcpStream::connect(demo.address()).unwrap();
    kept.set_read_timeout(Some(std::time::Duration::from_secs(20))).unwrap();
    // A request that has begun keeps its connection; the listener closes when the drain begins.
    kept.write_all(b"GET /readyz HTTP/1.1\r\n").unwrap();
    let sent = Command::new("kill").args(["-TERM", &demo.child.id().to_string()]).status().unwrap();
    assert!(sent.success());
    while std::net::TcpStream::connect(demo.address()).is_ok() {
        std::thread::yield_now();
    }
    kept.write_all(b"Host: h\r\n\r\n").unwrap();
    let mut answer = String::new();
    kept.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 503 ") && answer.contains("The server is stopping."), "{answer}");
    assert!(answer.contains("Connection: close\r\n"), "{answer}");
    assert_eq!(demo.wait(), Some(0));
}

#[test]
fn with_few_descriptors_fewer_connections_are_served_and_the_next_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let program = env!("CARGO_BIN_EXE_doorbuster");
    let mut limited = Command::new("sh");
    limited.current_dir(directory.path()).env_clear().stdin(Stdio::null());
    limited.args([
        "-c",
        "ulimit -n 256 && exec \"$0\" serve --demo --data-dir data --listen 127.0.0.1:0",
        program,
    ]);
    let demo = Demo::spawn(limited);
    // 256 without 64 for files and 131 for the event loop.
    let open = || std::net::TcpStream::connect(demo.address()).unwrap();
    let kept: Vec<_> = (0..61).map(|_| open()).collect();
    for _ in 0..100 {
        let mut refused = open();
        refused.set_read_timeout(Some(std::time::Duration::from_secs(20))).unwrap();
        let mut answer = String::new();
        refused.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 503 ") && answer.contains("too many connections"), "{answer}");
    }
    drop(kept);
    assert_eq!(demo.end("-TERM"), Some(0));
}
