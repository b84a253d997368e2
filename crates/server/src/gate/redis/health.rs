//! Whether Redis is set up so that a gate can stand on it, and how far its replicas are.

use std::time::Duration;

use super::Gate;
use super::connection::{Connection, field};
use super::reply::{array, bytes};
use super::scripts::Script;
use crate::gate::{NodeHealth, ReplicaHealth, Why};

impl Gate {
    /// Every master, as it is now. Asks each, so it is for a readiness check once in a while.
    pub fn health(&mut self) -> Vec<NodeHealth> {
        let mut nodes: Vec<NodeHealth> = self
            .router
            .masters()
            .into_iter()
            .map(|(address, connection)| match connection.and_then(|connection| look(&address, connection)) {
                Ok(health) => health,
                Err(why) => faulty(address, why.to_string()),
            })
            .collect();
        if let Some(why) = self.router.uncovered() {
            let address = self.router.config().addresses.join(",");
            nodes.push(faulty(address, why.to_string()));
        }
        nodes
    }
}

fn faulty(address: String, fault: String) -> NodeHealth {
    NodeHealth {
        address,
        fault: Some(fault),
        maxmemory_policy: String::new(),
        append_only: false,
        append_fsync: None,
        used_memory: 0,
        maxmemory: 0,
        replicas: Vec::new(),
    }
}

fn look(address: &str, connection: &mut Connection) -> Result<NodeHealth, Why> {
    let memory = connection.info("memory")?;
    let persistence = connection.info("persistence")?;
    let replication = connection.info("replication")?;
    let number = |info: &str, name| field(info, name).and_then(|text| text.parse().ok()).unwrap_or(0);
    let policy = field(&memory, "maxmemory_policy").unwrap_or_default().to_owned();
    let mut health = NodeHealth {
        address: address.to_owned(),
        fault: None,
        append_only: field(&persistence, "aof_enabled") == Some("1"),
        append_fsync: append_fsync(connection),
        used_memory: number(&memory, "used_memory"),
        maxmemory: number(&memory, "maxmemory"),
        replicas: replicas(&replication),
        maxmemory_policy: policy,
    };
    health.fault = if health.maxmemory_policy != "noeviction" {
        // It would forget keys without telling anybody.
        Some(format!("maxmemory-policy is {}, and must be noeviction", health.maxmemory_policy))
    } else if field(&replication, "role") != Some("master") {
        Some(Why::ReadOnly.to_string())
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

fn append_fsync(connection: &mut Connection) -> Option<String> {
    let mut command = redis::cmd("CONFIG");
    command.arg("GET").arg("appendfsync");
    let value = connection.ask(&command).ok()?;
    let [_, value] = array(&value)? else { return None };
    String::from_utf8(bytes(value)?.to_vec()).ok()
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
