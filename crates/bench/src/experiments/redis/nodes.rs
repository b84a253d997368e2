//! A Redis Cluster of a scenario's own: six servers on one host, three masters with a replica each.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::Context;

use super::case::keys_of;
use super::persistence::wait_for;
use super::server::{PATIENT, Server, Setting, forget, no_persistence, said_by_foreign};
use crate::drivers::redis::slots::SlotMap;
use crate::experiments::{ScenarioContext, Target};
use crate::host::usage::Watched;
use crate::report::model::EngineSettings;
use crate::target::engines::expect;
use crate::target::engines::redis::Redis;

const MASTERS: usize = 3;
const NODES: usize = 2 * MASTERS;
const FIRST_PORT: u16 = 10;
/// From a node's port to its bus.
const BUS: u16 = 10;
/// Slots of the masters, as redis-cli splits them.
const SLOTS: [[&str; 2]; MASTERS] = [["0", "5460"], ["5461", "10922"], ["10923", "16383"]];

#[derive(Debug)]
pub(super) struct Nodes {
    /// Empty if it runs already.
    servers: Vec<Server>,
    member: SocketAddr,
    password: Option<String>,
    stop: Arc<AtomicBool>,
}

impl Nodes {
    pub(super) fn of(context: &ScenarioContext) -> anyhow::Result<Self> {
        match &context.target {
            Target::Spawn => Self::start(context),
            Target::Running(addresses) => {
                let member = addresses
                    .redis_cluster
                    .context("no address of a Redis Cluster is given: --target-redis-cluster ADDRESS")?;
                let password = addresses.redis_password.clone();
                Ok(Self { servers: Vec::new(), member, password, stop: context.stop.clone() })
            }
        }
    }

    fn start(context: &ScenarioContext) -> anyhow::Result<Self> {
        context.progress.doing("starting six Redis servers");
        let mut servers = Vec::new();
        for index in 0..NODES {
            context.ensure_running()?;
            let port = FIRST_PORT + u16::try_from(index)?;
            let bus = (context.port_base + port + BUS).to_string();
            let mut settings: Vec<Setting> = no_persistence();
            settings.extend([
                ("cluster-enabled", "yes".to_owned()),
                ("cluster-port", bus),
                ("cluster-node-timeout", "15000".to_owned()),
                // The replicas' first copies wait for no others.
                ("repl-diskless-sync-delay", "0".to_owned()),
            ]);
            servers.push(Server::start(context, &format!("redis-{index}"), port, settings)?);
        }
        let nodes = Self { member: servers[0].address, servers, password: None, stop: context.stop.clone() };
        nodes.join(context)?;
        Ok(nodes)
    }

    /// Makes one cluster of them: slots to the first three, which the others copy.
    fn join(&self, context: &ScenarioContext) -> anyhow::Result<()> {
        let mut clients = self.servers.iter().map(Server::client).collect::<anyhow::Result<Vec<_>>>()?;
        let mut names = Vec::new();
        for (index, redis) in clients.iter_mut().enumerate() {
            names.push(redis.query::<String>(&["CLUSTER", "MYID"])?);
            // Epochs that differ from the start spare the masters settling a conflict.
            redis.exec(&["CLUSTER", "SET-CONFIG-EPOCH", &(index + 1).to_string()])?;
        }
        for (redis, [first, last]) in clients.iter_mut().zip(SLOTS) {
            redis.exec(&["CLUSTER", "ADDSLOTSRANGE", first, last])?;
        }
        for server in &self.servers[1..] {
            let (port, bus) = (server.address.port(), server.address.port() + BUS);
            clients[0].exec(&["CLUSTER", "MEET", "127.0.0.1", &port.to_string(), &bus.to_string()])?;
        }
        for index in MASTERS..NODES {
            wait_for(context, "a replica knows its master", || {
                // Refused until gossip has brought the master's name.
                Ok(clients[index].exec(&["CLUSTER", "REPLICATE", &names[index - MASTERS]]).is_ok())
            })?;
        }
        for (index, redis) in clients.iter_mut().enumerate() {
            wait_for(context, "the cluster serves all slots", || {
                let state: String = redis.query(&["CLUSTER", "INFO"])?;
                let whole = ["cluster_state:ok", "cluster_slots_ok:16384", "cluster_known_nodes:6"];
                let linked = index < MASTERS || redis.info("replication", "master_link_status")? == "up";
                Ok(linked && whole.iter().all(|line| state.contains(line)))
            })?;
        }
        Ok(())
    }

    pub(super) fn slots(&self) -> anyhow::Result<SlotMap> {
        SlotMap::read(self.member, self.password.as_deref())
    }

    fn client(&self, node: SocketAddr) -> anyhow::Result<Redis> {
        Redis::connect_waiting(node, PATIENT, &self.stop)?.authenticated(self.password.as_deref())
    }

    /// Ours, and not somebody's that runs already.
    pub(super) fn ours(&self) -> bool {
        !self.servers.is_empty()
    }

    /// Masters and replicas under two names.
    pub(super) fn watched(&self) -> Vec<Watched> {
        let name = |index| if index < MASTERS { "redis masters" } else { "redis replicas" };
        self.servers.iter().enumerate().map(|(index, of)| Watched::new(name(index), of.pid())).collect()
    }

    pub(super) fn pids(&self) -> Vec<u32> {
        self.servers.iter().map(Server::pid).collect()
    }

    /// Changes how all nodes write to the disk, and reads that back.
    pub(super) fn persist(&self, appendonly: &str, appendfsync: &str) -> anyhow::Result<()> {
        for server in &self.servers {
            let mut redis = server.client()?;
            for (name, wanted) in [("appendonly", appendonly), ("appendfsync", appendfsync)] {
                redis.exec(&["CONFIG", "SET", name, wanted])?;
                expect("Redis", name, &redis.setting(name)?, wanted)?;
            }
        }
        Ok(())
    }

    /// The first rewrite of the log, which turning it on begins, is over on all nodes.
    pub(super) fn wait_for_log(&self, context: &ScenarioContext) -> anyhow::Result<()> {
        for server in &self.servers {
            let mut redis = server.client()?;
            wait_for(context, "the log of the writes is begun", || {
                let text: String = redis.query(&["INFO", "persistence"])?;
                let over =
                    ["aof_rewrite_in_progress:0", "aof_rewrite_scheduled:0", "aof_last_bgrewrite_status:ok"];
                Ok(over.iter().all(|line| text.contains(line)))
            })?;
        }
        Ok(())
    }

    /// Removes what was written, and waits for the replicas: everything of ours, only our keys of another cluster.
    pub(super) fn clear(&self, context: &ScenarioContext) -> anyhow::Result<()> {
        for master in &self.slots()?.masters {
            let mut redis = self.client(*master)?;
            if self.ours() {
                redis.exec(&["FLUSHALL", "SYNC"])?;
            } else {
                forget(&mut redis)?;
            }
        }
        for replica in self.servers.iter().skip(MASTERS) {
            let mut redis = replica.client()?;
            wait_for(context, "a replica is empty", || Ok(keys_of(&mut redis)? == 0))?;
        }
        Ok(())
    }

    pub(super) fn keys(&self) -> anyhow::Result<u64> {
        let map = self.slots()?;
        map.masters.iter().map(|master| keys_of(&mut self.client(*master)?)).sum()
    }

    /// Connections that a member takes; as many as are asked for if it does not say.
    pub(super) fn clients_max(&self) -> anyhow::Result<usize> {
        let limit = self.client(self.member)?.setting("maxclients");
        limit.map_or(Ok(usize::MAX), |most| most.parse().context("maxclients"))
    }

    /// What a master and a replica say.
    pub(super) fn said(&self) -> anyhow::Result<Vec<EngineSettings>> {
        match (self.servers.first(), self.servers.last()) {
            (Some(master), Some(replica)) => {
                Ok(vec![master.said("Redis Cluster, a master")?, replica.said("Redis Cluster, a replica")?])
            }
            _ => {
                let engine = format!("Redis Cluster of {}", self.member);
                Ok(vec![said_by_foreign(&mut self.client(self.member)?, &engine)?])
            }
        }
    }
}
