//! nginx, Lua and one Redis script: what a team writes in a day. Its sources are in `crates/bench/peers`.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::{Context, ensure};

use super::{Order, Peer, to_install};
use crate::host::process::{Guard, run_tool};
use crate::host::procfs;
use crate::host::usage::Watched;
use crate::target::engines::redis::Redis;
use crate::target::engines::{EngineSet, Flushes, RedisLog, expect};
use crate::target::installation::Site;
use crate::target::nginx;

const CONFIGURATION: &str = include_str!("../../peers/nginx.conf");
const SCRIPTS: [(&str, &str); 2] = [
    ("order.lua", include_str!("../../peers/order.lua")),
    ("reserve.lua", include_str!("../../peers/reserve.lua")),
];
/// What it needs beside Redis, which `dev/up` installs, and the Debian package of each.
const NEEDS: [(&str, &str); 3] = [
    ("/usr/lib/nginx/modules/ngx_http_lua_module.so", "nginx libnginx-mod-http-lua"),
    ("/usr/share/lua/5.1/nginx/redis.lua", "lua-nginx-redis"),
    ("/usr/share/lua/5.1/cjson/util.lua", "lua-cjson"),
];
const KILL_PATIENCE: Duration = Duration::from_secs(10);
/// Rows of one answer of Redis.
const SCAN_ROWS: &str = "1000";

#[derive(Debug)]
pub(super) struct NginxRedis {
    nginx: Guard,
    address: SocketAddr,
    folder: PathBuf,
    engines: EngineSet,
    stop: Arc<AtomicBool>,
}

pub(super) fn missing() -> Option<String> {
    let packages: Vec<&str> =
        NEEDS.iter().filter(|(file, _)| !Path::new(file).exists()).map(|(_, package)| *package).collect();
    (!packages.is_empty()).then(|| to_install(&packages.join(" ")))
}

impl NginxRedis {
    pub(super) fn start(site: &Site, folder: &Path, log: RedisLog) -> anyhow::Result<Self> {
        let flushes = Flushes { redis: log, ..Flushes::QUICK };
        let engines = EngineSet::start_some(site.engines(folder), flushes, &["redis"], &[], &site.stop)?;
        let port = engines.address("redis")?.port();
        let [appendonly, appendfsync, _] = log.settings();
        for (setting, wanted) in [("appendonly", appendonly), ("appendfsync", appendfsync)] {
            expect("Redis", setting, &Redis::connect(engines.address("redis")?)?.setting(setting)?, wanted)?;
        }
        let folder = folder.join("nginx");
        std::fs::create_dir(&folder).context("nginx's folder")?;
        for (name, script) in SCRIPTS {
            std::fs::write(folder.join(name), script)?;
        }
        let (nginx, address) = launch(&folder, port)?;
        Ok(Self { nginx, address, folder, engines, stop: Arc::clone(&site.stop) })
    }

    fn redis(&self) -> anyhow::Result<Redis> {
        Redis::connect(self.engines.address("redis")?)
    }
}

fn launch(folder: &Path, redis_port: u16) -> anyhow::Result<(Guard, SocketAddr)> {
    nginx::start_with(folder, |port| {
        CONFIGURATION
            .replace("REDIS_PORT", &redis_port.to_string())
            .replace("PORT", &port.to_string())
            .replace("FOLDER", &folder.display().to_string())
    })
}

impl Peer for NginxRedis {
    fn address(&self) -> SocketAddr {
        self.address
    }

    fn watched(&self) -> anyhow::Result<Vec<Watched>> {
        let mut watched = vec![self.engines.watched("redis")?, Watched::new("nginx", self.nginx.pid())];
        let workers = procfs::children(self.nginx.pid())?;
        watched.extend(workers.into_iter().map(|pid| Watched::new("nginx", pid)));
        Ok(watched)
    }

    fn open(&mut self, product: u64, units: u64) -> anyhow::Result<()> {
        self.redis()?.exec(&["SET", &format!("stock:{product}"), &units.to_string()])
    }

    fn kill(&mut self) -> anyhow::Result<()> {
        // The workers too: without their master they would go on.
        let group = format!("-{}", self.nginx.pid());
        let mut kill = Command::new("sh");
        run_tool(kill.args(["-c", "kill -s KILL -- \"$0\"", &group]), KILL_PATIENCE, &self.stop)?;
        self.nginx.kill()?;
        self.engines.kill("redis")
    }

    fn start_again(&mut self) -> anyhow::Result<()> {
        self.engines.up(&["redis"], &[], &self.stop)?;
        (self.nginx, self.address) = launch(&self.folder, self.engines.address("redis")?.port())?;
        Ok(())
    }

    fn orders(&mut self, product: u64) -> anyhow::Result<Vec<Order>> {
        let (mut redis, key) = (self.redis()?, format!("orders:{product}"));
        let (mut orders, mut cursor) = (Vec::new(), "0".to_owned());
        loop {
            let (next, pairs): (String, Vec<String>) =
                redis.query(&["HSCAN", &key, &cursor, "COUNT", SCAN_ROWS])?;
            for pair in pairs.chunks_exact(2) {
                orders.push(order(&pair[0], &pair[1])?);
            }
            cursor = next;
            if cursor == "0" {
                break;
            }
        }
        // A scan may give a row twice.
        orders.sort_unstable_by_key(|order| order.hash);
        orders.dedup_by_key(|order| order.hash);
        let rows: usize = redis.query(&["HLEN", &key])?;
        ensure!(rows == orders.len(), "Redis has {rows} orders, and gave {}", orders.len());
        Ok(orders)
    }
}

fn order(id: &str, row: &str) -> anyhow::Result<Order> {
    let hash = u128::from_str_radix(id.get(8..).context("an id of 40 digits")?, 16)?;
    let row: serde_json::Value = serde_json::from_str(row)?;
    Ok(Order { hash, buyer: row["buyer"].as_str().context("a buyer")?.to_owned() })
}
