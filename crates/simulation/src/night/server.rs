//! The servers of a night: each starts by itself, again and again, and runs the real stages.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use server::cluster::{Connect, Identity, Server};
use server::config::Config;
use server::gate::{GateConfig, Layout, Sentinel};
use server::intake::admission::Limits;
use server::intake::{Asker, Intake, Mailbox};
use server::ledger::mysql::cluster::ClusterLedger;
use server::metrics::Metrics;
use server::queue::{Administer, Consume, Produce};
use server::time;

use super::{Engines, REDIS, SENTINEL};
use crate::ledger::Connection;
use crate::schedule::{self, wall};

const COMMANDS_MAX: usize = 10_000;
/// From one try to start to the next.
const AGAIN: Duration = Duration::from_millis(200);

/// The servers that run, by their hosts, and what all that ever ran have counted.
#[derive(Clone, Debug, Default)]
pub(super) struct Askers {
    running: Arc<Mutex<BTreeMap<String, (Asker, Intake)>>>,
    metrics: Arc<Mutex<Vec<Arc<Metrics>>>>,
}

impl Askers {
    pub(super) fn of(&self, host: &str) -> Option<(Asker, Intake)> {
        locked(&self.running).get(host).cloned()
    }

    fn add(&self, host: &str, asker: Asker, intake: Intake) {
        locked(&self.metrics).push(Arc::clone(&intake.metrics));
        locked(&self.running).insert(host.to_owned(), (asker, intake));
    }

    pub(super) fn remove(&self, host: &str) {
        locked(&self.running).remove(host);
    }

    /// What all servers have counted of a metric, by its name.
    pub(super) fn counted(&self, name: &str) -> u64 {
        let line = format!("doorbuster_{name}_total ");
        let of = |metrics: &Arc<Metrics>| {
            let text = metrics.encode();
            let value = text.lines().find_map(|text| text.strip_prefix(&line)).map(str::parse::<u64>);
            value.expect("it is registered").expect("it is a whole number")
        };
        locked(&self.metrics).iter().map(of).sum::<u64>()
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A host's way to the engines.
#[derive(Debug)]
struct Ways {
    host: String,
    engines: Engines,
    /// The others are made of this one, and know together what it has.
    ledger: Connection,
    topic: String,
    gate: GateConfig,
}

impl Connect for Ways {
    fn gate(&self) -> GateConfig {
        self.engines.planted.gate(&self.gate)
    }

    fn ledger(&self) -> Box<dyn ClusterLedger> {
        self.engines.planted.ledger(Box::new(self.ledger.another()))
    }

    fn producer(&self) -> Box<dyn Produce> {
        self.engines.planted.producer(&self.host, self.engines.brokers.connect(&self.host, &self.topic))
    }

    fn consumer(&self) -> Box<dyn Consume> {
        self.engines.planted.consumer(&self.host, self.engines.brokers.connect(&self.host, &self.topic))
    }

    fn admin(&self) -> Box<dyn Administer> {
        Box::new(self.engines.brokers.connect(&self.host, &self.topic))
    }
}

fn gate_config(host: &str, engines: &Engines, config: &Config) -> GateConfig {
    let named = |addresses: &[&str]| addresses.iter().map(|address| (*address).to_owned()).collect();
    let (layout, addresses) = match engines.behind_sentinel {
        false => (Layout::Single, named(&REDIS[..1])),
        true => {
            let sentinel = Sentinel { master: "sale".to_owned(), user: None, password: None };
            (Layout::Sentinel(sentinel), named(&[SENTINEL]))
        }
    };
    GateConfig {
        layout,
        idle_check: Duration::from_secs(1),
        cool_down: config.sale.cool_down(),
        dial: Some(Arc::new(engines.network.of(host))),
        ..GateConfig::plain(addresses, "db", config.gate.timeout())
    }
}

/// Starts a server; its stages are added to the run once the ledger has answered. `life`: of this host, counted up.
pub(super) fn start(host: &str, life: u64, engines: &Engines, askers: &Askers) {
    let config = Config::default();
    let limits = Limits { gate_judges: true, ..config.admission.limits(1) };
    let (mailbox, intake) = (Mailbox::new(Vec::new(), COMMANDS_MAX), Intake::new(wall, limits));
    let number = host.bytes().fold(0, |number, byte| number * 31 + u64::from(byte)) % 1_000_000;
    let identity = Identity { name: host.to_owned(), id: number * 1_000 + life };
    let server = loop {
        let (engines, topic) = (engines.clone(), config.queue.topic.clone());
        let (gate, ledger) = (gate_config(host, &engines, &config), engines.database.connect(host));
        let ways = Box::new(Ways { host: host.to_owned(), engines, ledger, topic, gate });
        match Server::new(&config, identity.clone(), Arc::clone(&mailbox), intake.clone(), ways) {
            Ok(server) => break server,
            Err(_) => time::sleep(AGAIN),
        }
    };
    for stage in server.stages() {
        schedule::spawn(host, stage.run);
    }
    askers.add(host, mailbox.asker(), intake);
}
