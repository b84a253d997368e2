//! A `doorbuster serve` of a test's own: started, found by the address that it prints, ended or killed by pid.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::doorbuster;
use crate::exchange::Connection;

/// Secret of the operator in tests.
pub(crate) const OPERATOR: &str = "operator-token-of-the-program-tests";
const READY_WITHIN: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub(crate) struct Serving {
    child: Child,
    pub(crate) address: SocketAddr,
}

impl Serving {
    /// Starts the demo on a port of the system's choice and waits until it is ready.
    pub(crate) fn demo(data_dir: &Path, arguments: &[&str]) -> Serving {
        let mut command = doorbuster(data_dir.parent().unwrap());
        command
            .args(["serve", "--demo", "--listen", "127.0.0.1:0", "--data-dir"])
            .arg(data_dir)
            .args(arguments);
        Serving::start(command)
    }

    pub(crate) fn start(command: Command) -> Serving {
        let serving = Serving::start_unseen(command);
        serving.wait_until_ready();
        serving
    }

    /// Without asking whether it is ready: it is once it has printed its address, but speaks TLS, say.
    pub(crate) fn start_unseen(command: Command) -> Serving {
        Serving::start_logging(command, Stdio::inherit())
    }

    /// As above, with its log in a file.
    pub(crate) fn start_logging(mut command: Command, log: impl Into<Stdio>) -> Serving {
        command.env("DOORBUSTER_OPERATOR_TOKEN", OPERATOR).stdout(Stdio::piped()).stderr(log);
        let mut child = command.spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let address = loop {
            let line = lines.next().expect("it prints its address before it ends").unwrap();
            if let Some(found) = address_in(&line) {
                break found;
            }
        };
        // Whatever else it prints is read, so that it never waits for us.
        std::thread::spawn(move || lines.for_each(drop));
        Serving { child, address }
    }

    fn wait_until_ready(&self) {
        let started = Instant::now();
        loop {
            let ready = Connection::open(self.address)
                .and_then(|mut connection| connection.exchange("GET", "/readyz", &[], ""))
                .is_ok_and(|response| response.status == 200);
            if ready {
                return;
            }
            assert!(started.elapsed() < READY_WITHIN, "the server is not ready");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// SIGKILL: no destructor, no flush, no farewell.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// The exit code, if it has ended by itself.
    pub(crate) fn ended(&mut self) -> Option<i32> {
        self.child
            .try_wait()
            .unwrap()
            .map(|status| status.code().expect("it ends by itself, not by a signal"))
    }

    /// SIGTERM, and the exit code.
    pub(crate) fn stop(mut self) -> i32 {
        let status = Command::new("kill").args(["-TERM", &self.pid().to_string()]).status().unwrap();
        assert!(status.success());
        self.child.wait().unwrap().code().expect("it ends by itself, not by a signal")
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        // After a failed test; a server that was ended is gone already, and that is no error.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

fn address_in(line: &str) -> Option<SocketAddr> {
    let after = line.split("://").nth(1)?;
    let end = after.find(|c: char| !(c.is_ascii_digit() || ".:".contains(c))).unwrap_or(after.len());
    after[..end].parse().ok()
}
