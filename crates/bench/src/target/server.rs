//! The program under test: `doorbuster serve` as a child, with a data directory and a port of its own.
//!
//! Knows the command line, the configuration's few keys that a bench needs, and `/readyz`; nothing of orders.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};

use crate::audit::AUDIT_FAILED;
use crate::drivers::http::once::{self, Answer};
use crate::host::process::{self, Guard};
use crate::target::engines::EngineSettings;

/// [`EngineSettings::engine`] of our own server.
pub const DOORBUSTER: &str = "Doorbuster";
/// The child listens on loopback, for minutes, over a directory that is removed: these protect nothing.
pub const TOKEN_SECRET: &str = "bench-token-secret-of-more-than-thirty-two-bytes";
pub const OPERATOR_TOKEN: &str = "bench-operator-token-of-more-than-thirty-two-bytes";
pub const PAYMENT_SECRET: &str = "bench-payment-secret-of-more-than-thirty-two-bytes";
/// Opening a ledger of some millions of orders takes seconds, not minutes.
const READY_PATIENCE: Duration = Duration::from_secs(120);
const READY_POLL: Duration = Duration::from_millis(2);
/// Of `doorbuster audit`: it read the ledger, and something in it is wrong. Every other one says nothing of the ledger.
const EXIT_CHECK: i32 = 1;
/// Of a complaint of many lines, so many are shown.
const COMPLAINT_LINES: usize = 20;
/// Another process may take the port between our choosing it and the server binding it.
const PORT_ATTEMPTS: usize = 3;

/// What differs from server to server.
#[derive(Debug, Clone, Copy)]
pub struct Setup<'a> {
    /// With the demo's sales.
    pub demo: bool,
    /// More of the configuration file, in TOML: whole sections.
    pub settings: &'a str,
    /// Raised, nobody waits for the server any more.
    pub stop: &'a Arc<AtomicBool>,
}

#[derive(Debug)]
pub struct Target {
    program: PathBuf,
    folder: PathBuf,
    demo: bool,
    stop: Arc<AtomicBool>,
    address: SocketAddr,
    guard: Guard,
}

impl Target {
    /// Starts the server with all of its files below `folder`, and waits until it is ready.
    pub fn start(program: &Path, folder: &Path, setup: Setup<'_>) -> anyhow::Result<Self> {
        let Setup { demo, settings, stop } = setup;
        std::fs::create_dir_all(folder).context("the server's folder")?;
        std::fs::write(folder.join("config.toml"), format!("[auth]\nbuyer = \"token\"\n{settings}"))
            .context("the configuration")?;
        let (guard, address) = launch(program, folder, demo, stop)?;
        let (program, folder, stop) = (program.to_owned(), folder.to_owned(), Arc::clone(stop));
        Ok(Self { program, folder, demo, stop, address, guard })
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    pub fn pid(&self) -> u32 {
        self.guard.pid()
    }

    pub fn data_dir(&self) -> PathBuf {
        data_dir(&self.folder)
    }

    /// Stops it gracefully; an exit code other than 0 is an error.
    pub fn stop(&mut self) -> anyhow::Result<()> {
        let status = self.guard.stop()?;
        ensure!(
            status.success(),
            "the server ended with {status}: {}",
            process::log_tail(&log(&self.folder))
        );
        Ok(())
    }

    /// Stops it and starts it on the same data; the time from its start until it was ready.
    pub fn restart(&mut self) -> anyhow::Result<Duration> {
        self.stop()?;
        let begun = Instant::now();
        self.start_again()?;
        Ok(begun.elapsed())
    }

    /// Kills it (SIGKILL), in the middle of whatever it does.
    pub fn kill(&mut self) -> anyhow::Result<()> {
        self.guard.kill()?;
        Ok(())
    }

    /// After a kill: starts it on the same data and waits until it is ready. It has another port then.
    pub fn start_again(&mut self) -> anyhow::Result<()> {
        (self.guard, self.address) = launch(&self.program, &self.folder, self.demo, &self.stop)?;
        Ok(())
    }

    /// An operator's POST, which must be answered with `wanted`.
    pub fn operate(&self, path: &str, body: &serde_json::Value, wanted: u16) -> anyhow::Result<Answer> {
        let body = body.to_string();
        self.exchange(&once::operating(OPERATOR_TOKEN, "POST", path, body.as_bytes()), wanted)
    }

    /// What it says of the settings that figures depend on: how its own ledger is written, and what is admitted. Read
    /// from its metrics, because nobody but SQLite's own connection knows how it syncs.
    pub fn settings(&self) -> anyhow::Result<EngineSettings> {
        let request = once::operating(OPERATOR_TOKEN, "GET", "/metrics", &[]);
        settings_in(&String::from_utf8_lossy(&self.exchange(&request, 200)?.body))
    }

    /// One request on a connection of its own, which must be answered with `wanted`.
    pub fn exchange(&self, request: &[u8], wanted: u16) -> anyhow::Result<Answer> {
        let line = || String::from_utf8_lossy(request).lines().next().unwrap_or_default().to_owned();
        let answer = once::exchange(self.address, request).with_context(line)?;
        ensure!(answer.status == wanted, "{}: wanted {wanted}, got {}", line(), answer.text());
        Ok(answer)
    }

    /// The program's own audit of the whole ledger; a broken invariant is an `AUDIT FAILED` that names it.
    pub fn audit(&self) -> anyhow::Result<String> {
        let mut command = Command::new(&self.program);
        command.arg("audit").arg("--data-dir").arg(self.data_dir()).env_clear();
        run_audit(&mut command)
    }

    /// The same of a ledger, and with a cluster of gate and queue, that the configuration names.
    pub fn audit_config(&self) -> anyhow::Result<String> {
        let mut command = Command::new(&self.program);
        command.arg("audit").arg("--config").arg(self.folder.join("config.toml")).env_clear();
        command.env("DOORBUSTER_AUTH_TOKEN_SECRET", TOKEN_SECRET);
        run_audit(&mut command)
    }
}

/// `doorbuster_ledger_info{synchronous="full"} 1` is a setting `ledger synchronous`, and
/// `doorbuster_admission_burst 5` is `admission burst`.
fn settings_in(metrics: &str) -> anyhow::Result<EngineSettings> {
    let mut settings = BTreeMap::new();
    let mut version = None;
    for line in metrics.lines() {
        let Some((name, value)) = line.strip_prefix("doorbuster_").and_then(|line| line.rsplit_once(' '))
        else {
            continue;
        };
        let labels = |of: &str| -> Option<Vec<(String, String)>> {
            let labels = name.strip_prefix(of)?.strip_prefix('{')?.strip_suffix('}')?;
            let label = |label: &str| {
                let (name, value) = label.split_once('=')?;
                Some((name.to_owned(), value.trim_matches('"').to_owned()))
            };
            labels.split(',').map(label).collect()
        };
        if let Some(labels) = labels("ledger_info") {
            settings.extend(labels.into_iter().map(|(name, value)| (format!("ledger {name}"), value)));
        } else if let Some(labels) = labels("build_info") {
            version = labels.into_iter().find(|(name, _)| name == "version").map(|(_, version)| version);
        } else if let Some(name) = name.strip_prefix("admission_") {
            settings.insert(format!("admission {name}"), value.to_owned());
        }
    }
    let version = version.context("the server's metrics do not name its version")?;
    Ok(EngineSettings { engine: DOORBUSTER.to_owned(), version, settings })
}

fn run_audit(command: &mut Command) -> anyhow::Result<String> {
    let output = command.output().context("starting the audit")?;
    // The table of all products is on its standard output, what is wrong on the other.
    let complaint = shortened(&String::from_utf8_lossy(&output.stderr));
    match output.status.code() {
        Some(0) => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        Some(EXIT_CHECK) => bail!("{AUDIT_FAILED}: the program's own audit says:\n{complaint}"),
        _ => bail!("the ledger could not be audited, {}:\n{complaint}", output.status),
    }
}

fn shortened(complaint: &str) -> String {
    let mut lines: Vec<&str> = complaint.lines().collect();
    let more = lines.len().saturating_sub(COMPLAINT_LINES);
    lines.truncate(COMPLAINT_LINES);
    let more = if more > 0 { format!("\nand {more} more") } else { String::new() };
    lines.join("\n") + &more
}

fn data_dir(folder: &Path) -> PathBuf {
    folder.join("data")
}

fn log(folder: &Path) -> PathBuf {
    folder.join("log")
}

fn launch(
    program: &Path,
    folder: &Path,
    demo: bool,
    stop: &AtomicBool,
) -> anyhow::Result<(Guard, SocketAddr)> {
    for _ in 0..PORT_ATTEMPTS {
        let address = SocketAddr::from(([127, 0, 0, 1], process::free_port()?));
        let mut command = Command::new(program);
        command.arg("serve").arg("--config").arg(folder.join("config.toml"));
        command.args(["--listen", &address.to_string()]).arg("--data-dir").arg(data_dir(folder));
        command.args(demo.then_some("--demo"));
        // The user's own settings must not change what is measured.
        command.env_clear();
        command
            .env("DOORBUSTER_AUTH_TOKEN_SECRET", TOKEN_SECRET)
            .env("DOORBUSTER_OPERATOR_TOKEN", OPERATOR_TOKEN)
            .env("DOORBUSTER_PAYMENT_SECRET", PAYMENT_SECRET);
        let mut guard =
            Guard::start(&mut command, &log(folder)).with_context(|| program.display().to_string())?;
        if becomes_ready(&mut guard, address, stop)? {
            return Ok((guard, address));
        }
    }
    bail!("the server did not start: {}", process::log_tail(&log(folder)));
}

/// `false` if it ended instead.
fn becomes_ready(guard: &mut Guard, address: SocketAddr, stop: &AtomicBool) -> anyhow::Result<bool> {
    let request = once::encode("GET", "/readyz", &[], &[]);
    let begun = Instant::now();
    while guard.ended()?.is_none() {
        let said = match once::exchange(address, &request) {
            Ok(answer) if answer.status == 200 => return Ok(true),
            Ok(answer) => String::from_utf8_lossy(&answer.body).trim_end().to_owned(),
            Err(error) => error.to_string(),
        };
        ensure!(!stop.load(Ordering::Relaxed), "stopped by a signal");
        ensure!(begun.elapsed() < READY_PATIENCE, "the server on {address} does not become ready: {said}");
        sleep(READY_POLL);
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_read_from_the_metrics() {
        let metrics = "# HELP doorbuster_ledger How the ledger is written.\n# TYPE doorbuster_ledger info\n\
             doorbuster_ledger_info{backend=\"sqlite\",synchronous=\"normal\"} 1\n\
             doorbuster_ledger_entries_total 7\ndoorbuster_admission_orders_per_s 55\n\
             doorbuster_build_info{version=\"1.2.3\"} 1\n# EOF\n";
        let found = settings_in(metrics).unwrap();
        let settings: Vec<_> = found.settings.iter().map(|(name, value)| (&**name, &**value)).collect();
        let expected = [
            ("admission orders_per_s", "55"),
            ("ledger backend", "sqlite"),
            ("ledger synchronous", "normal"),
        ];
        assert_eq!((&*found.version, &settings[..]), ("1.2.3", &expected[..]));
        assert!(settings_in("# EOF\n").is_err());
    }

    #[test]
    fn a_broken_ledger_is_distinct_from_one_that_could_not_be_audited() {
        let ends = |script: &str| run_audit(Command::new("sh").args(["-c", script]));
        assert_eq!(ends("echo ok: every invariant holds").unwrap(), "ok: every invariant holds\n");
        for (script, broken) in [
            ("echo not ok; echo 'error: the ledger breaks 1 invariant(s)' >&2; exit 1", true),
            ("echo 'error: unable to open the ledger' >&2; exit 69", false),
            ("echo 'error: no such option' >&2; exit 64", false),
            ("kill -9 $$", false),
        ] {
            let error = format!("{:#}", ends(script).unwrap_err());
            assert_eq!(error.contains(AUDIT_FAILED), broken, "{script}: {error}");
            assert_eq!(error.contains("could not be audited"), !broken, "{script}: {error}");
        }
        let error = format!("{:#}", ends("echo the table; echo the invariants >&2; exit 1").unwrap_err());
        assert!(error.ends_with("says:\nthe invariants") && !error.contains("the table"), "{error}");
    }

    #[test]
    fn of_many_broken_invariants_some_are_shown() {
        let ends = |lines: u32| {
            let script = format!("seq {lines} >&2; exit 1");
            run_audit(Command::new("sh").args(["-c", &script])).unwrap_err().to_string()
        };
        assert!(ends(20).ends_with("19\n20"), "{}", ends(20));
        let many = ends(2663);
        assert!(many.ends_with("19\n20\nand 2643 more") && many.lines().count() == 22, "{many}");
    }
}
