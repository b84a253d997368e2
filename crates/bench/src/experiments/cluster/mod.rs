//! The cluster profile on real engines: orders end to end, the gate alone beside redis-benchmark, and the edge beside nginx.
//!
//! The engines are started here, in sets of their own. Orders are counted in the ledger; an audit of gate, queue and
//! ledger follows.

mod buyers;
mod edge;
mod gate;
mod orders;
mod watch;

use std::time::Duration;

use super::{Engine, Scenario, ScenarioContext, beside};
use crate::host::usage::Watched;
use crate::target::engines::{BrokerFlush, EngineSet, EngineSettings, Flushes};
use crate::target::installation::cluster::Shop;

/// A set of engines that has written more than this in one run has a fault, or the run is too long for this machine.
const DISK_BYTES_MAX: u64 = 12 << 30;

pub(super) const SCENARIOS: &[Scenario] = &[
    Scenario {
        name: "order-cluster",
        about: "orders by one and two servers, the broker flushing at once and not, at peak and sustained; audited",
        reference: None,
        needs: &[Engine::Doorbuster, Engine::Redis, Engine::RocketMq, Engine::MariaDb],
        metrics: orders::METRICS,
        run: orders::run,
    },
    Scenario {
        name: "gate",
        about: "reserves of the server's own client beside redis-benchmark -P 64 with the same script",
        reference: None,
        needs: &[Engine::Doorbuster, Engine::Redis, Engine::RocketMq, Engine::MariaDb],
        metrics: gate::METRICS,
        run: gate::run,
    },
    Scenario {
        name: "edge",
        about: "stock and product page at the edge, cached and not, beside nginx with a file of the same size",
        reference: None,
        needs: &[Engine::Doorbuster, Engine::Nginx, Engine::Redis, Engine::RocketMq, Engine::MariaDb],
        metrics: beside::METRICS,
        run: edge::run,
    },
];

/// Of each trial.
fn window(context: &ScenarioContext) -> Duration {
    Duration::from_secs(if context.quick() { 3 } else { 10 })
}

/// Before each trial: a Java program that was idle is slow at first.
fn warm_up(context: &ScenarioContext) -> Duration {
    Duration::from_secs(if context.quick() { 1 } else { 3 })
}

/// Engines, and servers on them; those first, for the order in which they are dropped.
struct Stack {
    shop: Shop,
    set: EngineSet,
}

impl Stack {
    /// One server, and a sale that never runs short.
    fn open(context: &ScenarioContext, index: u16, flush: BrokerFlush) -> anyhow::Result<Self> {
        let set = start(context, index, flush)?;
        let folder = context.folder.join(format!("servers-{index}"));
        let shop = Shop::selling(&context.program, &folder, &set, &context.stop)?;
        Ok(Self { shop, set })
    }

    /// As engines and server say them.
    fn settings(&self) -> anyhow::Result<Vec<EngineSettings>> {
        let mut all = self.set.settings()?;
        all.push(self.shop.settings()?);
        Ok(all)
    }

    /// What runs and has nothing to do, as one: it is no work of others.
    fn idle(&self) -> Vec<Watched> {
        let all = self.shop.watched().into_iter().chain(self.set.all_watched());
        all.map(|of| Watched::new("idle beside it", of.pid)).collect()
    }
}

fn start(context: &ScenarioContext, index: u16, flush: BrokerFlush) -> anyhow::Result<EngineSet> {
    context.progress.doing("starting Redis, MariaDB and RocketMQ");
    let set = EngineSet::start(context.engine_site(index), Flushes::with_broker(flush), &context.stop)?;
    context.progress.done(&format!("Redis, MariaDB and RocketMQ run ({flush:?} flush)"));
    Ok(set)
}
