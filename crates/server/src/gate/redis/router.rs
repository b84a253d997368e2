//! Sends commands to the nodes that have their slots, and reports of each what became of it.
//!
//! The client library's own cluster client retries by itself, which hides whether a command was carried out; so this
//! is ours. The rule: a command is sent again only after an answer that says it was not carried out.

use super::cluster::{self, NO_NODE};
use super::commands::{Commands, SLOTS};
use super::connection::Connection;
use super::flight::{CommandResult, Flight, Todo};
use super::sentinel::{Sentinels, of_named};
use crate::gate::{GateConfig, GateError, Layout, Why, limits};
use crate::time::Instant;

/// A node and our connection to it.
#[derive(Debug)]
struct Node {
    address: String,
    connection: Option<Connection>,
    /// Not before this time, because it could not be reached, and why.
    not_before: Option<(Instant, Why)>,
    /// The round in which it was last looked at.
    checked: u64,
}

#[derive(Debug)]
pub(super) struct Router {
    config: GateConfig,
    is_cluster: bool,
    /// Who knows where the master is, if the configuration does not.
    sentinels: Option<Sentinels>,
    nodes: Vec<Node>,
    /// Per slot the position of its node; empty for a single Redis.
    slots: Vec<u16>,
    /// The map of slots is to be read again.
    stale: bool,
    refreshed_at: Option<Instant>,
    /// Why the map could not be read at the last try.
    unread: Option<Why>,
    /// Of a single Redis: the position of the node that was the master last.
    master: usize,
    round: u64,
    /// Reused for every write.
    buffer: Vec<u8>,
}

impl Router {
    pub(super) fn new(config: GateConfig) -> Router {
        let is_cluster = config.layout == Layout::Cluster;
        let sentinels = match &config.layout {
            Layout::Sentinel(sentinel) => Some(Sentinels::new(&config, sentinel)),
            Layout::Single | Layout::Cluster => None,
        };
        let slots = if is_cluster { vec![NO_NODE; SLOTS] } else { Vec::new() };
        let mut router = Router {
            stale: is_cluster,
            is_cluster,
            sentinels,
            slots,
            nodes: Vec::new(),
            refreshed_at: None,
            unread: None,
            master: 0,
            round: 0,
            buffer: Vec::new(),
            config,
        };
        if router.sentinels.is_none() {
            router.config.addresses.clone().iter().for_each(|address| {
                router.node(address);
            });
        }
        router
    }

    pub(super) fn config(&self) -> &GateConfig {
        &self.config
    }

    /// Carries out all commands; one outcome each, in order.
    pub(super) fn exchange(&mut self, commands: &Commands) -> Vec<CommandResult> {
        let mut outcomes: Vec<Option<CommandResult>> = (0..commands.len()).map(|_| None).collect();
        let mut todo: Vec<Todo> =
            (0..commands.len()).map(|index| Todo { index, ask: None, why: Why::Unreachable }).collect();
        for _ in 0..limits::ROUNDS_MAX {
            if todo.is_empty() {
                break;
            }
            let mut flights = self.assign(commands, std::mem::take(&mut todo), &mut outcomes);
            self.fly(commands, &mut flights, &mut outcomes, &mut todo);
            if flights.iter().any(|flight| flight.learnt.pause) {
                crate::time::sleep(limits::TRY_AGAIN_PAUSE);
            }
            todo.sort_unstable_by_key(|todo| todo.index);
        }
        for Todo { index, why, .. } in todo {
            outcomes[index] = Some(Err(GateError::NotExecuted(why)));
        }
        outcomes.into_iter().map(|outcome| outcome.expect("every command has an outcome")).collect()
    }

    /// Finds a connected node for each command; those for which there is none are answered so.
    fn assign(
        &mut self,
        commands: &Commands,
        todo: Vec<Todo>,
        outcomes: &mut [Option<CommandResult>],
    ) -> Vec<Flight> {
        self.round += 1;
        self.refresh_if_stale();
        self.check_master();
        let mut flights: Vec<Flight> = Vec::new();
        for Todo { index, ask, .. } in todo {
            let asking = ask.is_some();
            let node = match ask {
                Some(address) => {
                    let node = self.node(&address);
                    self.connect(node).map(|()| node)
                }
                None => self.node_of_slot(commands.slot(index)),
            };
            match node {
                Err(why) => outcomes[index] = Some(Err(GateError::NotExecuted(why))),
                Ok(node) => {
                    let known =
                        flights.iter().position(|flight| flight.node == node && flight.asking == asking);
                    let at = known.unwrap_or_else(|| {
                        flights.push(Flight::new(node, asking));
                        flights.len() - 1
                    });
                    flights[at].commands.push(index);
                }
            }
        }
        flights
    }

    /// Two batches per node are on their way, and all nodes work at once: while Redis works on a batch, the next one
    /// is there already.
    fn fly(
        &mut self,
        commands: &Commands,
        flights: &mut [Flight],
        outcomes: &mut [Option<CommandResult>],
        again: &mut Vec<Todo>,
    ) {
        let (batch, limit) = (self.config.batch_commands_max.max(1), self.config.reply_timeout);
        // A node can be here twice, with and without ASKING: one after the other.
        for asking in [false, true] {
            for flight in flights.iter_mut().filter(|flight| flight.asking == asking) {
                for _ in 0..2 {
                    if let Some(connection) = self.nodes[flight.node].connection.as_mut() {
                        flight.write(commands, connection, batch, &mut self.buffer);
                    }
                }
            }
            let mut heard = Instant::now();
            let owed = |flight: &&mut Flight| flight.asking == asking && flight.is_owed_replies();
            while flights.iter_mut().any(|flight| owed(&flight)) {
                for flight in flights.iter_mut().filter(owed) {
                    let Some(connection) = self.nodes[flight.node].connection.as_mut() else { continue };
                    // A silent node has used up the time of all; what the others have sent is still read.
                    let left = limit.saturating_sub(heard.elapsed());
                    let wait = if left > limit / 2 { limit } else { left };
                    flight.read((commands, batch), connection, (wait, limit), outcomes, again);
                    if !flight.is_broken() {
                        heard = Instant::now();
                    }
                    flight.write(commands, connection, batch, &mut self.buffer);
                }
            }
        }
        for flight in flights {
            flight.land(outcomes);
            self.learn(flight);
        }
    }

    fn learn(&mut self, flight: &mut Flight) {
        for (slot, address) in std::mem::take(&mut flight.learnt.moved) {
            let node = self.node(&address);
            if let Some(entry) = self.slots.get_mut(slot) {
                *entry = u16::try_from(node).expect("fewer nodes than slots");
            }
            self.stale = true;
        }
        let node = &mut self.nodes[flight.node];
        if flight.learnt.load_scripts
            && let Some(connection) = node.connection.as_mut()
            && connection.load_scripts().is_err()
        {
            node.connection = None;
        }
        if flight.is_broken() || flight.learnt.distrust {
            node.connection = None;
            self.stale |= self.is_cluster;
        }
    }

    /// The position of the node with this address.
    fn node(&mut self, address: &str) -> usize {
        if let Some(at) = self.nodes.iter().position(|node| node.address == address) {
            return at;
        }
        self.nodes.push(Node { address: address.to_owned(), connection: None, not_before: None, checked: 0 });
        self.nodes.len() - 1
    }

    /// A connected node for a slot.
    fn node_of_slot(&mut self, slot: u16) -> Result<usize, Why> {
        if self.is_cluster {
            let node = self.slots[usize::from(slot)];
            if node == NO_NODE {
                return Err(self.unread.clone().unwrap_or(Why::ClusterDown));
            }
            let node = usize::from(node);
            return self.connect(node).map(|()| node);
        }
        if self.sentinels.is_some() {
            return self.named_master();
        }
        // Whichever of the addresses is the master now, the one that was it last first.
        let mut why = Why::Invalid("the gate has no address");
        for offset in 0..self.nodes.len() {
            let node = (self.master + offset) % self.nodes.len();
            match self.connect(node) {
                Ok(()) => {
                    self.master = node;
                    return Ok(node);
                }
                Err(error) if offset == 0 => why = error,
                Err(_) => {}
            }
        }
        Err(why)
    }

    /// Whether a Sentinel says where the master is, where there are Sentinels.
    pub(super) fn hears_of_the_master(&mut self) -> bool {
        self.sentinels.as_mut().is_none_or(Sentinels::are_heard)
    }

    /// Leaves a master that we are connected to, if the Sentinels name another one. Once in a round, before any command is
    /// assigned: a command of this round must not lose its connection.
    fn check_master(&mut self) {
        let is_connected = self.nodes.get(self.master).is_some_and(|node| node.connection.is_some());
        let named = match &mut self.sentinels {
            Some(sentinels) if is_connected => sentinels.check(),
            _ => None,
        };
        if let Some(address) = named {
            let node = self.node(&address);
            if node != self.master {
                self.nodes[self.master].connection = None;
                self.master = node;
            }
        }
    }

    /// The node that the Sentinels name, connected. They are asked if there is no connection.
    fn named_master(&mut self) -> Result<usize, Why> {
        if self.nodes.get(self.master).is_none_or(|node| node.connection.is_none()) {
            let sentinels = self.sentinels.as_mut().expect("it is called with Sentinels");
            let address = sentinels.find()?;
            self.master = self.node(&address);
        }
        self.connect(self.master).map(|()| self.master).map_err(of_named)
    }

    /// Makes sure that there is a connection that can be used.
    fn connect(&mut self, at: usize) -> Result<(), Why> {
        let node = &mut self.nodes[at];
        if node.checked != self.round {
            node.checked = self.round;
            if node.connection.as_mut().is_some_and(|connection| !connection.is_fresh()) {
                node.connection = None;
            }
        }
        if node.connection.is_some() {
            return Ok(());
        }
        if let Some((at, why)) = &node.not_before
            && Instant::now() < *at
        {
            return Err(why.clone());
        }
        let started = Instant::now();
        match Connection::open(&self.config, &node.address) {
            Ok(connection) => {
                node.connection = Some(connection);
                node.not_before = None;
                Ok(())
            }
            Err(why) => {
                node.not_before = Some((pause_after(started), why.clone()));
                self.stale |= self.is_cluster;
                Err(why)
            }
        }
    }

    /// Reads the map of slots again from whoever has it, connected nodes first.
    fn refresh_if_stale(&mut self) {
        if !self.stale || self.refreshed_at.is_some_and(|at| at.elapsed() < limits::RETRY_PAUSE) {
            return;
        }
        self.refreshed_at = Some(Instant::now());
        let now = Instant::now();
        let mut order: Vec<usize> = (0..self.nodes.len())
            .filter(|at| self.nodes[*at].not_before.as_ref().is_none_or(|(until, _)| now >= *until))
            .collect();
        order.sort_by_key(|at| self.nodes[*at].connection.is_none());
        for at in order {
            let started = Instant::now();
            let node = &mut self.nodes[at];
            let map = match &mut node.connection {
                Some(connection) => cluster::ask(connection, &node.address),
                None => cluster::ask_at(&self.config, &node.address),
            };
            match map {
                Ok(ranges) => {
                    self.install(ranges);
                    return;
                }
                Err(why) => {
                    node.connection = None;
                    self.unread = Some(why.clone());
                    node.not_before = Some((pause_after(started), why));
                }
            }
        }
    }

    fn install(&mut self, ranges: Vec<cluster::Range>) {
        self.slots.fill(NO_NODE);
        for cluster::Range { slots, master } in ranges {
            let node = u16::try_from(self.node(&master)).expect("fewer nodes than slots");
            self.slots[slots].fill(node);
        }
        self.stale = false;
        self.unread = None;
    }

    /// The addresses of all masters, as far as they are known, and a connection to each or why there is none.
    pub(super) fn masters(&mut self) -> Vec<(String, Result<&mut Connection, Why>)> {
        self.round += 1;
        self.check_master();
        let positions: Vec<usize> = if self.is_cluster {
            self.stale = true;
            self.refresh_if_stale();
            let mut known: Vec<usize> =
                self.slots.iter().filter(|node| **node != NO_NODE).map(|node| usize::from(*node)).collect();
            known.sort_unstable();
            known.dedup();
            known
        } else {
            match self.node_of_slot(0) {
                Err(why) if self.sentinels.is_some() => {
                    let named = self.nodes.get(self.master).map(|node| node.address.clone());
                    return vec![(named.unwrap_or_else(|| self.config.addresses.join(",")), Err(why))];
                }
                node => vec![node.unwrap_or(self.master)],
            }
        };
        let reached: Vec<(usize, Result<(), Why>)> =
            positions.into_iter().map(|at| (at, self.connect(at))).collect();
        let mut found = Vec::new();
        for (at, node) in self.nodes.iter_mut().enumerate() {
            let Some((_, reached)) = reached.iter().find(|(other, _)| *other == at) else { continue };
            let connection = reached.clone().map(|()| node.connection.as_mut().expect("it was just reached"));
            found.push((node.address.clone(), connection));
        }
        found
    }

    /// The run of the master that has a slot, while we are connected to it.
    pub(super) fn run_of(&self, slot: u16) -> Option<&str> {
        self.master_of(slot)?.connection.as_ref().map(|connection| connection.run.as_str())
    }

    /// Where the master of a slot is, as far as it is known.
    pub(super) fn address_of(&self, slot: u16) -> Option<&str> {
        self.master_of(slot).map(|node| node.address.as_str())
    }

    fn master_of(&self, slot: u16) -> Option<&Node> {
        let node = self.slots.get(usize::from(slot)).map_or(self.master, |node| usize::from(*node));
        self.nodes.get(node)
    }

    /// Why there are slots without a node, if there are any. A single Redis has them all.
    pub(super) fn uncovered(&self) -> Option<Why> {
        let uncovered = self.slots.contains(&NO_NODE);
        uncovered.then(|| self.unread.clone().unwrap_or(Why::ClusterDown))
    }
}

/// When a node may be tried again that was tried in vain since `started`.
fn pause_after(started: Instant) -> Instant {
    Instant::now() + limits::RETRY_PAUSE.max(started.elapsed() * limits::RETRY_SHARE)
}
