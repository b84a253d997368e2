//! Redis servers of a scenario's own, each with the settings of a case; or the one that runs already.
//!
//! What was asked for is read back before anything is measured. A server of ours is killed and its data removed when
//! its owner goes away; one that is not ours keeps its settings and every key but those with our prefix.

use std::collections::BTreeMap;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};

use super::case::Session;
use crate::experiments::cases::Run;
use crate::experiments::{ScenarioContext, Target};
use crate::host::leftovers;
use crate::host::process::{Guard, log_tail};
use crate::host::usage::Watched;
use crate::progress::say;
use crate::report::model::EngineSettings;
use crate::target::engines::expect;
use crate::target::engines::redis::Redis;

/// Loading millions of keys from a cold disk takes a while.
const READY_PATIENCE: Duration = Duration::from_secs(300);
const POLL: Duration = Duration::from_millis(5);
/// SAVE, FLUSHALL and DEBUG DIGEST of a full data set block.
pub(super) const PATIENT: Duration = Duration::from_secs(300);
/// Shown of every server beside the settings under test.
const SHOWN: [&str; 7] =
    ["appendonly", "appendfsync", "save", "maxmemory", "maxmemory-policy", "io-threads", "maxclients"];
/// Before the keys on a server that is not ours.
pub(super) const FOREIGN_PREFIX: &str = "doorbuster-bench:";

/// A line of the configuration file: name and value.
pub(super) type Setting = (&'static str, String);

/// Nothing is written to the disk.
pub(super) fn no_persistence() -> Vec<Setting> {
    vec![("appendonly", "no".to_owned()), ("save", String::new())]
}

pub(super) fn aof(fsync: &str) -> Vec<Setting> {
    vec![("appendonly", "yes".to_owned()), ("appendfsync", fsync.to_owned()), ("save", String::new())]
}

#[derive(Debug)]
pub(super) struct Server {
    guard: Guard,
    name: String,
    pub(super) address: SocketAddr,
    folder: PathBuf,
    settings: Vec<Setting>,
    stop: Arc<AtomicBool>,
}

impl Server {
    /// Starts a server on the scenario's port of this index, and reads back its settings.
    pub(super) fn start(
        context: &ScenarioContext,
        name: &str,
        port: u16,
        settings: Vec<Setting>,
    ) -> anyhow::Result<Self> {
        let folder = context.folder.join(name);
        fs::create_dir_all(folder.join("data")).context("the folder of a Redis server")?;
        let address = SocketAddr::from(([127, 0, 0, 1], context.port_base + port));
        if let Some(holder) = leftovers::holder(address.port()) {
            bail!(
                "the port {} is taken by {holder}: end it, or choose others by --port-base",
                address.port()
            );
        }
        write_conf(&folder, address, &settings)?;
        let guard = spawn(&folder)?;
        let stop = context.stop.clone();
        let mut server = Self { guard, name: name.to_owned(), address, folder, settings, stop };
        server.wait_ready()?;
        server.check()?;
        Ok(server)
    }

    /// Starts it again on its old data, with these settings; how long it took to serve. It must have ended.
    pub(super) fn restart(&mut self, settings: Vec<Setting>) -> anyhow::Result<Duration> {
        write_conf(&self.folder, self.address, &settings)?;
        self.settings = settings;
        let begun = Instant::now();
        self.guard = spawn(&self.folder)?;
        self.wait_ready()?;
        let took = begun.elapsed();
        self.check()?;
        Ok(took)
    }

    /// Asks it to end: it writes what its settings say before.
    pub(super) fn end(&mut self) -> anyhow::Result<()> {
        let status = self.guard.stop().context("ending Redis")?;
        ensure!(status.success(), "Redis ended with {status}: {}", log_tail(&self.log()));
        Ok(())
    }

    /// As a crash would.
    pub(super) fn kill(&mut self) -> anyhow::Result<()> {
        self.guard.kill().context("killing Redis")?;
        Ok(())
    }

    pub(super) fn client(&self) -> anyhow::Result<Redis> {
        Redis::connect_waiting(self.address, PATIENT, &self.stop)
    }

    pub(super) fn watched(&self) -> Watched {
        Watched::new(&self.name, self.guard.pid())
    }

    pub(super) fn session<'a>(&self, context: &'a ScenarioContext) -> Session<'a> {
        Session::new(context, &[self.address], vec![self.watched()])
    }

    pub(super) fn pid(&self) -> u32 {
        self.guard.pid()
    }

    pub(super) fn data(&self) -> PathBuf {
        self.folder.join("data")
    }

    pub(super) fn log(&self) -> PathBuf {
        self.folder.join("redis.log")
    }

    /// What it says of itself, under a name for the reader.
    pub(super) fn said(&self, engine: &str) -> anyhow::Result<EngineSettings> {
        let names: Vec<&str> = SHOWN.into_iter().chain(self.settings.iter().map(|(name, _)| *name)).collect();
        said(&mut self.client()?, engine, &names, true)
    }

    /// Serving: it answers, and has loaded its data.
    fn wait_ready(&mut self) -> anyhow::Result<()> {
        let begun = Instant::now();
        loop {
            if let Some(status) = self.guard.ended()? {
                bail!("Redis ended with {status}: {}", log_tail(&self.log()));
            }
            let answered =
                Redis::connect(self.address).and_then(|mut redis| redis.query::<String>(&["PING"]));
            if answered.is_ok_and(|answer| answer == "PONG") {
                return Ok(());
            }
            ensure!(!self.stop.load(Ordering::Relaxed), "stopped by a signal");
            ensure!(begun.elapsed() < READY_PATIENCE, "Redis does not serve: {}", log_tail(&self.log()));
            std::thread::sleep(POLL);
        }
    }

    fn check(&self) -> anyhow::Result<()> {
        let mut redis = self.client()?;
        // Another server that had the port before would answer too.
        let pid = redis.info("server", "process_id")?;
        ensure!(pid == self.guard.pid().to_string(), "the port {} is somebody else's", self.address.port());
        for (name, wanted) in &self.settings {
            expect("Redis", name, &redis.setting(name)?, wanted)?;
        }
        Ok(())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Nothing of its data is wanted, so it need not end in order. One that is gone already can't be killed.
        drop(self.guard.kill());
        if let Err(error) = fs::remove_dir_all(&self.folder) {
            say(&format!("error: {} stays: {error}", self.folder.display()));
        }
    }
}

fn write_conf(folder: &Path, address: SocketAddr, settings: &[Setting]) -> anyhow::Result<()> {
    let mut text = format!(
        "bind 127.0.0.1\nport {}\ndir \"{}\"\ndaemonize no\nset-proc-title no\n",
        address.port(),
        folder.join("data").display()
    );
    for (name, value) in settings {
        let value = if value.is_empty() { "\"\"" } else { value };
        text.push_str(&format!("{name} {value}\n"));
    }
    fs::write(folder.join("redis.conf"), text).context("the configuration of a Redis server")
}

fn spawn(folder: &Path) -> anyhow::Result<Guard> {
    let mut command = Command::new("redis-server");
    command.arg(folder.join("redis.conf")).current_dir(folder);
    Guard::start(&mut command, &folder.join("redis.log")).context("starting redis-server")
}

/// All of these settings; of one that is not ours, and may keep its settings to itself, those that it says.
fn said(redis: &mut Redis, engine: &str, names: &[&str], ours: bool) -> anyhow::Result<EngineSettings> {
    let mut settings = BTreeMap::new();
    for name in names {
        match redis.setting(name) {
            Err(error) if ours => return Err(error),
            found => settings.extend(found.ok().map(|value| ((*name).to_owned(), value))),
        }
    }
    Ok(EngineSettings {
        engine: engine.to_owned(),
        version: redis.info("server", "redis_version")?,
        settings,
    })
}

pub(super) fn said_by_foreign(redis: &mut Redis, engine: &str) -> anyhow::Result<EngineSettings> {
    said(redis, engine, &SHOWN, false)
}

#[derive(Debug)]
pub(super) struct Subject {
    /// `None`: it is not ours.
    own: Option<Server>,
    pub(super) address: SocketAddr,
    pub(super) password: Option<String>,
    stop: Arc<AtomicBool>,
}

impl From<Server> for Subject {
    fn from(server: Server) -> Self {
        Self { address: server.address, password: None, stop: server.stop.clone(), own: Some(server) }
    }
}

impl Subject {
    /// A server with these settings, or the one that runs.
    pub(super) fn of(context: &ScenarioContext, settings: Vec<Setting>) -> anyhow::Result<Self> {
        let Target::Running(addresses) = &context.target else {
            return Ok(Server::start(context, "redis", 0, settings)?.into());
        };
        let address = addresses.redis.context("no address of Redis is given: --target-redis ADDRESS")?;
        let password = addresses.redis_password.clone();
        let subject = Self { own: None, address, password, stop: context.stop.clone() };
        subject.client()?.exec(&["PING"])?;
        Ok(subject)
    }

    pub(super) fn client(&self) -> anyhow::Result<Redis> {
        Redis::connect_waiting(self.address, PATIENT, &self.stop)?.authenticated(self.password.as_deref())
    }

    pub(super) fn watched(&self) -> Vec<Watched> {
        self.own.iter().map(Server::watched).collect()
    }

    pub(super) fn session<'a>(&self, context: &'a ScenarioContext) -> Session<'a> {
        Session::new(context, &[self.address], self.watched())
    }

    /// Before each key.
    pub(super) fn prefix(&self) -> &'static str {
        if self.own.is_some() { "" } else { FOREIGN_PREFIX }
    }

    /// The end of a scenario: what the server says of itself is in its report, and what was written is removed.
    pub(super) fn close(&self, run: &mut Run<'_>) -> anyhow::Result<()> {
        run.report.engines.push(match &self.own {
            Some(server) => server.said("Redis")?,
            None => said_by_foreign(&mut self.client()?, &format!("Redis on {}", self.address))?,
        });
        if self.own.is_none() {
            run.note(format!(
                "The server ran already: its settings are as they were found, and the keys begin with \
                 `{FOREIGN_PREFIX}`, which makes them longer."
            ));
        }
        self.clear()
    }

    /// Removes what was written: everything of a server of ours, only our keys of another one.
    pub(super) fn clear(&self) -> anyhow::Result<()> {
        let mut redis = self.client()?;
        if self.own.is_some() { redis.exec(&["FLUSHALL", "SYNC"]) } else { forget(&mut redis) }
    }
}

/// Removes our keys from a server that is not ours.
pub(super) fn forget(redis: &mut Redis) -> anyhow::Result<()> {
    let (pattern, mut cursor) = (format!("{FOREIGN_PREFIX}*"), "0".to_owned());
    loop {
        let keys: Vec<String>;
        (cursor, keys) = redis.query(&["SCAN", &cursor, "MATCH", &pattern, "COUNT", "1000"])?;
        for key in &keys {
            redis.exec(&["UNLINK", key])?;
        }
        if cursor == "0" {
            return Ok(());
        }
    }
}
