//! Whether Redis is set up so that a gate can stand on it, and how far its replicas are.

use std::time::Duration;

use engine::SkuId;

use super::connection::{Connection, field};
use super::reply::{array, bytes};
use super::scripts::Script;
use super::{Gate, keys_of};
use crate::gate::{Layout, NodeHealth, ReplicaHealth, Why};
use crate::intake::{EngineSettings, Setting};

/// What the guarantee table's row of Redis depends on.
const SETTINGS: [&str; 3] = ["appendonly", "appendfsync", MIN_REPLICAS];
const MIN_REPLICAS: &str = "min-replicas-to-write";
/// How long none of them need have been heard; 0 turns the other off.
const MAX_LAG: &str = "min-replicas-max-lag";
const CUT_OFF: &str =
    "a master that is cut off from the Sentinels goes on taking orders, which may be rejected later";
const TURNED_OFF: &str =
    "min-replicas-max-lag is 0, so a master that is cut off from the Sentinels goes on taking orders";

impl Gate {
    /// Every master, as it is now. Asks each, so it is for a readiness check once in a while.
    pub fn health(&mut self) -> Vec<NodeHealth> {
        let layout = self.router.config().layout.clone();
        let mut nodes: Vec<NodeHealth> = self
            .router
            .masters()
            .into_iter()
            .map(|(address, connection)| {
                match connection.and_then(|connection| look(&address, connection, &layout)) {
                    Ok(health) => health,
                    Err(why) => faulty(address, why.to_string()),
                }
            })
            .collect();
        if let Some(why) = self.router.uncovered() {
            let address = self.router.config().addresses.join(",");
            nodes.push(faulty(address, why.to_string()));
        }
        nodes
    }

    /// Whether the master of a SKU is among those that can't serve, as they were found.
    pub fn is_at_fault(&mut self, nodes: &[NodeHealth], sku: SkuId) -> bool {
        let slot = keys_of(&mut self.keys, &self.router, sku).slot;
        let master = self.router.address_of(slot);
        nodes.iter().any(|node| node.fault.is_some() && Some(&*node.address) == master)
    }
}

fn named(kind: &str, address: &str) -> String {
    format!("{kind} {address}")
}

/// What it calls itself. Valkey gives a version of Redis too, whose protocol it speaks.
fn kind_of(server: &str) -> &str {
    match field(server, "server_name") {
        Some("valkey") => "valkey",
        _ => "redis",
    }
}

fn read_setting(connection: &mut Connection, name: &'static str, layout: &Layout) -> Setting {
    let read = Setting::new(name, setting(connection, name));
    let is_off = |value: &Result<String, String>| value.as_ref().is_ok_and(|value| value == "0");
    let can_be_cut_off = matches!(layout, Layout::Sentinel(_)) && name == MIN_REPLICAS;
    let weak = if !can_be_cut_off {
        None
    } else if is_off(&read.value) {
        Some(CUT_OFF)
    } else {
        is_off(&setting(connection, MAX_LAG)).then_some(TURNED_OFF)
    };
    Setting { weak, ..read }
}

fn faulty(address: String, fault: String) -> NodeHealth {
    let settings = SETTINGS.map(|name| Setting::new(name, Err(fault.clone()))).into();
    NodeHealth {
        settings: EngineSettings { engine: named("redis", &address), settings },
        address,
        fault: Some(fault),
        maxmemory_policy: String::new(),
        used_memory: 0,
        maxmemory: 0,
        replicas: Vec::new(),
    }
}

fn look(address: &str, connection: &mut Connection, layout: &Layout) -> Result<NodeHealth, Why> {
    let memory = connection.info("memory")?;
    let persistence = connection.info("persistence")?;
    let replication = connection.info("replication")?;
    let number = |info: &str, name| field(info, name).and_then(|text| text.parse().ok()).unwrap_or(0);
    let policy = field(&memory, "maxmemory_policy").unwrap_or_default().to_owned();
    let mut health = NodeHealth {
        address: address.to_owned(),
        fault: None,
        settings: EngineSettings {
            engine: named(kind_of(&connection.info("server")?), address),
            settings: SETTINGS.map(|name| read_setting(connection, name, layout)).into(),
        },
        used_memory: number(&memory, "used_memory"),
        maxmemory: number(&memory, "maxmemory"),
        replicas: replicas(&replication),
        maxmemory_policy: policy,
    };
    health.fault = if health.maxmemory_policy != "noeviction" {
        // It would forget keys without an error.
        Some(format!("maxmemory-policy is {}, and must be noeviction", health.maxmemory_policy))
    } else if field(&replication, "role") != Some("master") {
        Some(Why::ReadOnly.to_string())
    } else if *layout != Layout::Cluster
        && field(&connection.info("cluster")?, "cluster_enabled") == Some("1")
    {
        Some("it is a member of a Redis Cluster: set gate.mode = \"cluster\"".to_owned())
    } else if field(&persistence, "loading") == Some("1") {
        Some(Why::Loading.to_string())
    } else {
        probe(connection).err().map(|why| why.to_string())
    };
    Ok(health)
}

/// Whether a write would be taken. INFO has neither all reasons why not, nor what our user may do.
fn probe(connection: &mut Connection) -> Result<(), Why> {
    let mut command = redis::cmd("EVALSHA");
    command.arg(Script::Probe.sha()).arg(0);
    match connection.ask(&command) {
        // A server that was restarted or flushed.
        Err(Why::ScriptMissing) => {
            connection.load_scripts()?;
            connection.ask(&command).map(drop)
        }
        answer => answer.map(drop),
    }
}

/// As Redis says it, or why it does not: CONFIG may be forbidden or renamed.
fn setting(connection: &mut Connection, name: &str) -> Result<String, String> {
    let mut command = redis::cmd("CONFIG");
    command.arg("GET").arg(name);
    let value = connection.ask(&command).map_err(|why| why.to_string())?;
    let text = array(&value).and_then(|pair| match pair {
        [_, value] => String::from_utf8(bytes(value)?.to_vec()).ok(),
        _ => None,
    });
    text.ok_or_else(|| "it has no such setting".to_owned())
}

/// Lines such as `slave0:ip=10.0.0.2,port=6379,state=online,offset=100,lag=0`.
fn replicas(replication: &str) -> Vec<ReplicaHealth> {
    let ours: u64 = field(replication, "master_repl_offset").and_then(|text| text.parse().ok()).unwrap_or(0);
    let lines = replication.lines().filter(|line| line.starts_with("slave"));
    lines
        .filter_map(|line| {
            let (_, line) = line.split_once(':')?;
            let get =
                |name: &str| line.split(',').find_map(|part| part.strip_prefix(name)?.strip_prefix('='));
            let offset: u64 = get("offset")?.parse().ok()?;
            Some(ReplicaHealth {
                address: format!("{}:{}", get("ip")?, get("port")?),
                online: get("state")? == "online",
                lag_bytes: ours.saturating_sub(offset),
                lag: Duration::from_secs(get("lag").and_then(|text| text.parse().ok()).unwrap_or(0)),
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replicas_are_read_with_their_lag() {
        let info = "role:master\r\nconnected_slaves:1\r\n\
            slave0:ip=10.0.0.2,port=6380,state=online,offset=100,lag=1\r\n\
            master_replid:abc\r\nmaster_repl_offset:150\r\n";
        let expected = ReplicaHealth {
            address: "10.0.0.2:6380".into(),
            online: true,
            lag_bytes: 50,
            lag: Duration::from_secs(1),
        };
        assert_eq!(replicas(info), [expected]);
    }
}
