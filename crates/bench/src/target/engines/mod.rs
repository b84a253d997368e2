//! The engines of the cluster profile, real ones, in a set of our own: started by `dev/up`, asked whether each
//! setting took effect, and stopped and removed when their owner goes away, on an error too.
//!
//! A benchmark of engines with other settings than it prints would be worth nothing, so nothing is believed that an
//! engine does not say itself.

mod flushes;
pub mod mariadb;
pub mod redis;
pub mod rocketmq;
mod settings;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::net::SocketAddr;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use rustix::process::{Signal, kill_process_group};
use serde::{Deserialize, Serialize};

pub use self::flushes::{BrokerFlush, Flushes, RedisLog};
use self::mariadb::Database;
use self::redis::Redis;
use self::rocketmq::Broker;
use crate::host::process::{log_tail, number, signal};
use crate::host::usage::Watched;
use crate::host::{leftovers, procfs};
use crate::progress::say;

/// What reports show of each engine.
const REDIS_SETTINGS: &[&str] =
    &["appendonly", "appendfsync", "save", "maxmemory", "maxmemory-policy", "io-threads"];
const MARIADB_SETTINGS: &[&str] = &[
    mariadb::FLUSH_LOG,
    mariadb::SYNC_BINLOG,
    mariadb::LOG_BIN,
    "innodb_buffer_pool_size",
    "max_connections",
];
const BROKER_SETTINGS: &[&str] =
    &["flushDiskType", "brokerRole", "mappedFileSizeCommitLog", "sendMessageThreadPoolNums"];

const EDGE_LIMITS: [&str; 4] = [
    "EDGE_POSTS_PER_S_PER_CLIENT",
    "EDGE_POSTS_BURST_PER_CLIENT",
    "EDGE_REQUESTS_PER_S_PER_CLIENT",
    "EDGE_REQUESTS_BURST_PER_CLIENT",
];
/// No client of ours may be limited: all of them share one address.
const EDGE_PER_CLIENT: &str = "1000000";
/// Between two sets; one uses less than this.
pub const PORTS_PER_SET: u16 = 100;
/// How often a raised stop flag is looked for while the engines start.
const STOP_POLL: Duration = Duration::from_millis(100);
/// A process that was killed has its threads and ports for a moment.
const GONE_PATIENCE: Duration = Duration::from_secs(10);
/// Installing an engine takes that long, on a bad day.
const INSTALL_PATIENCE: Duration = Duration::from_secs(120);
const GONE_POLL: Duration = Duration::from_millis(2);

/// Where a set is made.
#[derive(Debug, Clone)]
pub struct EngineSite {
    /// The folder of the scripts `up` and `down`.
    pub scripts: PathBuf,
    /// The set's data; made if missing, on the disk whose syncs count.
    pub folder: PathBuf,
    pub port_base: u16,
}

impl EngineSite {
    /// With its folder made, and with scripts: asked of every set, before anything of it is started.
    fn checked(self) -> anyhow::Result<Self> {
        let scripts = find_scripts(&self.scripts)?;
        std::fs::create_dir_all(&self.folder).context("the engines' folder")?;
        Ok(Self { scripts, ..self })
    }
}

/// What the engines said of themselves.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Versions {
    pub redis: String,
    pub mariadb: String,
    pub rocketmq: String,
}

/// What an engine said of itself, read back from it while it ran.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EngineSettings {
    pub engine: String,
    pub version: String,
    pub settings: BTreeMap<String, String>,
}

#[derive(Debug)]
pub struct EngineSet {
    site: EngineSite,
    pub(crate) flushes: Flushes,
    members: Vec<Member>,
}

/// One process.
#[derive(Debug, Clone)]
struct Member {
    name: String,
    address: SocketAddr,
    pid: u32,
}

impl EngineSet {
    /// Starts Redis, MariaDB and RocketMQ from nothing.
    ///
    /// # Errors
    /// If one of them can't be started, or has another setting than it was to have.
    pub fn start(site: EngineSite, flushes: Flushes, stop: &AtomicBool) -> anyhow::Result<Self> {
        let set = Self::start_some(site, flushes, &["redis", "mariadb", "rocketmq"], &[], stop)?;
        set.flushes.check(&set.settings()?)?;
        Ok(set)
    }

    /// Starts only these members, with more settings for `dev/up`. Whoever calls it asks them whether the settings
    /// took effect.
    pub fn start_some(
        site: EngineSite,
        flushes: Flushes,
        names: &[&str],
        environment: &[(&str, String)],
        stop: &AtomicBool,
    ) -> anyhow::Result<Self> {
        let mut set = Self { site: site.checked()?, flushes, members: Vec::new() };
        set.up(names, environment, stop)?;
        Ok(set)
    }

    /// Starts nginx with one worker in front of these servers, and the replica that it reads. Pages are kept for this long,
    /// which are written to the folder, if they are.
    pub fn up_edge(
        &mut self,
        servers: &[SocketAddr],
        redis_prefix: &str,
        cache_ms: u64,
        pages: Option<&Path>,
        stop: &AtomicBool,
    ) -> anyhow::Result<()> {
        let servers: Vec<String> = servers.iter().map(ToString::to_string).collect();
        let mut environment = vec![
            ("EDGE_CACHE_MS", cache_ms.to_string()),
            ("EDGE_SERVERS", servers.join(" ")),
            ("EDGE_WORKERS", "1".to_owned()),
            ("EDGE_REDIS_PREFIX", redis_prefix.to_owned()),
        ];
        environment.extend(pages.map(|pages| ("EDGE_PAGES", pages.display().to_string())));
        environment.extend(EDGE_LIMITS.map(|limit| (limit, EDGE_PER_CLIENT.to_owned())));
        self.up(&["nginx"], &environment, stop).context("starting the edge")
    }

    /// Starts more members, the same with other settings once they were stopped, or one that was killed, on the data
    /// that it left.
    ///
    /// # Errors
    /// If `dev/up` fails: what it said is in the error.
    pub fn up(
        &mut self,
        names: &[&str],
        environment: &[(&str, String)],
        stop: &AtomicBool,
    ) -> anyhow::Result<()> {
        let mut command = self.script("up");
        leftovers::mark(&mut command)?;
        command.args(names).envs(environment.iter().map(|(name, value)| (name, value)));
        let log = self.site.folder.join("up.log");
        let complaints = File::create(&log).context("the log of dev/up")?;
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(complaints);
        let mut child = command.spawn().context("running dev/up")?;
        let status = loop {
            if let Some(status) = child.try_wait()? {
                break status;
            }
            if stop.load(Ordering::Relaxed) {
                end_group(&mut child)?;
            }
            std::thread::sleep(STOP_POLL);
        };
        ensure!(!stop.load(Ordering::Relaxed), "stopped by a signal");
        ensure!(status.success(), "dev/up {} failed with {status}: {}", names.join(" "), log_tail(&log));
        // A line for each member, so it fits the pipe.
        let mut said = String::new();
        child.stdout.take().context("it is piped")?.read_to_string(&mut said)?;
        for member in members(&said)? {
            self.members.retain(|of| of.name != member.name);
            self.members.push(member);
        }
        Ok(())
    }

    /// Stops members; their data are removed.
    pub fn down(&mut self, names: &[&str]) -> anyhow::Result<()> {
        let output = self.script("down").arg("--wipe").args(names).output().context("running dev/down")?;
        ensure!(output.status.success(), "dev/down failed: {}", String::from_utf8_lossy(&output.stderr));
        self.members.retain(|member| !names.contains(&member.name.as_str()));
        Ok(())
    }

    pub fn address(&self, name: &str) -> anyhow::Result<SocketAddr> {
        self.member(name).map(|member| member.address)
    }

    /// What a member has logged last, for people.
    pub fn logged(&self, name: &str) -> String {
        log_tail(&self.site.folder.join(name).join("log"))
    }

    pub fn watched(&self, name: &str) -> anyhow::Result<Watched> {
        self.member(name).map(|member| Watched::new(&member.name, member.pid))
    }

    /// All of its processes. Of nginx the workers too: its master, which is the one that is known, does no work.
    pub fn all_watched(&self) -> Vec<Watched> {
        let workers = |member: &Member| match member.name.as_str() {
            "nginx" => procfs::children(member.pid).unwrap_or_default(),
            _ => Vec::new(),
        };
        let pids = |member| workers(member).into_iter().chain([member.pid]);
        let watched = |member| pids(member).map(|pid| Watched::new(&member.name, pid));
        self.members.iter().flat_map(watched).collect()
    }

    pub fn database(&self, name: Option<&str>) -> anyhow::Result<Database> {
        Database::connect(self.address("mariadb")?, name)
    }

    pub fn broker(&self) -> anyhow::Result<Broker> {
        Broker::connect(self.address("rocketmq-broker")?)
    }

    pub fn versions(&self) -> anyhow::Result<Versions> {
        let mariadb = self.database(None)?.settings(&["version"])?.remove("version").unwrap_or_default();
        Ok(Versions {
            redis: Redis::connect(self.address("redis")?)?.info("server", "redis_version")?,
            mariadb,
            rocketmq: self.broker()?.version()?,
        })
    }

    /// What the figures depend on, as each engine of the set says it.
    pub fn settings(&self) -> anyhow::Result<Vec<EngineSettings>> {
        let versions = self.versions()?;
        let mut redis = Redis::connect(self.address("redis")?)?;
        let of_redis = REDIS_SETTINGS.iter().map(|name| Ok(((*name).to_owned(), redis.setting(name)?)));
        let of_redis = of_redis.collect::<anyhow::Result<_>>()?;
        let of_mariadb = self.database(None)?.settings(MARIADB_SETTINGS)?;
        let of_mariadb = of_mariadb.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        let mut of_broker = self.broker()?.settings()?;
        of_broker.retain(|name, _| BROKER_SETTINGS.contains(&name.as_str()));
        let said =
            |engine: &str, version, settings| EngineSettings { engine: engine.to_owned(), version, settings };
        Ok(vec![
            said("Redis", versions.redis, of_redis),
            said("MariaDB", versions.mariadb, of_mariadb),
            said("RocketMQ", versions.rocketmq, of_broker),
        ])
    }

    /// Bytes of the set's data on the disk.
    pub fn disk_bytes(&self) -> anyhow::Result<u64> {
        let output = Command::new("du").args(["-s", "-B1"]).arg(&self.site.folder).output()?;
        let text = String::from_utf8_lossy(&output.stdout);
        text.split_whitespace().next().and_then(|bytes| bytes.parse().ok()).context("du gave no size")
    }

    /// What all repeats write stays on the disk until the end.
    pub(crate) fn check_room(&self, allowed: u64) -> anyhow::Result<()> {
        let bytes = self.disk_bytes()?;
        ensure!(
            bytes <= allowed,
            "the engines have written {} MiB, more than this scenario is allowed ({} MiB): fewer --repeats, or shorter \
             windows",
            bytes >> 20,
            allowed >> 20
        );
        Ok(())
    }

    fn member(&self, name: &str) -> anyhow::Result<&Member> {
        self.members
            .iter()
            .find(|member| member.name == name)
            .with_context(|| format!("no {name} is started"))
    }

    fn script(&self, name: &str) -> Command {
        let [appendonly, appendfsync, save] = self.flushes.redis.settings();
        let mut command = Command::new(self.site.scripts.join(name));
        // A group of its own: Ctrl-C on the terminal ends only us, and we stop the engines, in our order.
        command
            .process_group(0)
            .env("DOORBUSTER_DEV_DIR", &self.site.folder)
            .env("DOORBUSTER_DEV_PORT_BASE", self.site.port_base.to_string())
            .env("DOORBUSTER_REDIS_APPENDONLY", appendonly)
            .env("DOORBUSTER_REDIS_APPENDFSYNC", appendfsync)
            .env("DOORBUSTER_REDIS_SAVE", save)
            // Millions of idempotency keys are kept there.
            .env("DOORBUSTER_REDIS_MAXMEMORY", "3gb")
            .env("DOORBUSTER_ROCKETMQ_FLUSH", self.flushes.broker.setting())
            .env("DOORBUSTER_MARIADB_FLUSH_LOG", self.flushes.mariadb.innodb.setting())
            .env("DOORBUSTER_MARIADB_SYNC_BINLOG", self.flushes.mariadb.sync_binlog());
        command
    }

    /// Kills a member and the processes that it has started (SIGKILL), and waits until all are gone; its data stay.
    pub fn kill(&mut self, name: &str) -> anyhow::Result<()> {
        let pid = self.member(name)?.pid;
        let mut pids = vec![pid];
        pids.extend(procfs::children(pid)?);
        // It fails for a child that has just ended by itself.
        pids.iter().for_each(|pid| drop(signal(*pid, Signal::KILL)));
        let begun = Instant::now();
        while !pids.iter().all(|pid| procfs::is_gone(*pid)) {
            ensure!(begun.elapsed() < GONE_PATIENCE, "{name}, pid {pid}, survives SIGKILL");
            std::thread::sleep(GONE_POLL);
        }
        Ok(())
    }
}

/// Ends a script and what runs under it, so that nothing writes any more where it wrote. It is asked again and again:
/// it does not listen while it installs packages, and those must not be cut off.
fn end_group(leader: &mut Child) -> anyhow::Result<()> {
    let begun = Instant::now();
    loop {
        let signal = if begun.elapsed() < INSTALL_PATIENCE { Signal::TERM } else { Signal::KILL };
        let is_there = kill_process_group(number(leader.id())?, signal).is_ok();
        if leader.try_wait()?.is_some() && !is_there {
            return Ok(());
        }
        ensure!(begun.elapsed() < INSTALL_PATIENCE + GONE_PATIENCE, "dev/up survives SIGKILL");
        std::thread::sleep(STOP_POLL);
    }
}

impl Drop for EngineSet {
    fn drop(&mut self) {
        // Also after a start that failed half-way: `down` knows from its pid files what runs.
        let stopped = self.script("down").arg("--wipe").stdin(Stdio::null()).output();
        let complaint = match stopped {
            Ok(output) if output.status.success() => return,
            Ok(output) => String::from_utf8_lossy(&output.stderr).into_owned(),
            Err(error) => error.to_string(),
        };
        say(&format!("error: the engines in {} may run on: {complaint}", self.site.folder.display()));
    }
}

impl EngineSettings {
    pub(crate) fn expect(&self, name: &str, wanted: &str) -> anyhow::Result<()> {
        expect(&self.engine, name, self.settings.get(name).map_or("nothing", String::as_str), wanted)
    }
}

pub(crate) fn expect(engine: &str, name: &str, found: &str, wanted: &str) -> anyhow::Result<()> {
    if found == wanted {
        return Ok(());
    }
    bail!("{engine} has {name} = {found}, not {wanted}: its figures would be those of another setting")
}

/// The lines of `dev/up`: name, address, pid.
fn members(said: &str) -> anyhow::Result<Vec<Member>> {
    said.lines()
        .map(|line| {
            let words: Vec<&str> = line.split_whitespace().collect();
            let [name, address, pid] = words[..] else { bail!("dev/up said: {line}") };
            let address = address.parse().with_context(|| line.to_owned())?;
            Ok(Member { name: name.to_owned(), address, pid: pid.parse().with_context(|| line.to_owned())? })
        })
        .collect()
}

pub fn find_scripts(folder: &Path) -> anyhow::Result<PathBuf> {
    for (script, does) in [("up", "starts"), ("down", "ends")] {
        ensure!(
            folder.join(script).is_file(),
            "{} has no script `{script}` that {does} the engines: run this in the folder of Doorbuster's sources, or \
             say where its `dev` is with --scripts",
            folder.display()
        );
    }
    folder.canonicalize().with_context(|| folder.display().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_read_from_what_dev_up_says() {
        let found = members("redis 127.0.0.1:17000 12\nmariadb 127.0.0.1:17030 34\n").unwrap();
        let found: Vec<_> = found.iter().map(|of| (&*of.name, of.address.port(), of.pid)).collect();
        assert_eq!(found, [("redis", 17000, 12), ("mariadb", 17030, 34)]);
        assert!(members("redis is not there").is_err());
    }

    #[test]
    fn a_folder_without_scripts_is_named_before_anything_starts() {
        let folder = tempfile::tempdir().unwrap();
        let scripts = folder.path().join("scripts");
        let refused = |lacks: &str| {
            let site = EngineSite {
                scripts: scripts.clone(),
                folder: folder.path().join("engines"),
                port_base: 23_000,
            };
            let stop = AtomicBool::new(false);
            let error = EngineSet::start_some(site, Flushes::QUICK, &["mariadb"], &[], &stop)
                .unwrap_err()
                .to_string();
            assert!(error.starts_with(&format!("{} has no script `{lacks}`", scripts.display())), "{error}");
            assert!(!folder.path().join("engines").exists());
        };
        refused("up");
        std::fs::create_dir(&scripts).unwrap();
        std::fs::write(scripts.join("up"), "").unwrap();
        refused("down");
    }
}
