//! The stages of one server, and what they connect to: real engines, or those of a simulation.
//!
//! Must not: start a thread, or know where the engines are.

use std::fmt;
use std::sync::Arc;

use super::core::{Core, Options};
use super::figures;
use super::operators;
use crate::cluster::ask::commands::Commanding;
use crate::cluster::ask::refresh;
use crate::cluster::ask::status::Reading;
use crate::cluster::clocks::Comparing;
use crate::cluster::place::publish;
use crate::cluster::place::relay::Relay;
use crate::cluster::settle::consume::{self, Consuming};
use crate::cluster::settle::reconcile::{self, Reconciling};
use crate::cluster::settle::watch::{self, Watching};
use crate::config::Config;
use crate::gate::{Gate, GateConfig};
use crate::intake::{self, Health, Mailbox};
use crate::ledger::mysql::cluster::{ClusterLedger, LedgerError};
use crate::queue::{Administer, Consume, Produce};

/// Makes connections to the engines. Each stage has its own.
pub trait Connect: fmt::Debug + Send {
    /// With the epochs that all connections of this server have heard of.
    fn gate(&self) -> GateConfig;
    fn ledger(&self) -> Box<dyn ClusterLedger>;
    fn producer(&self) -> Box<dyn Produce>;
    /// Of the topic of orders.
    fn consumer(&self) -> Box<dyn Consume>;
    fn admin(&self) -> Box<dyn Administer>;
}

/// Which server it is.
#[derive(Clone, Debug)]
pub struct Identity {
    /// For people.
    pub name: String,
    /// Of this run of this server: never 0, and never another's.
    pub id: u64,
}

/// When a stage ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ends {
    /// When the mailbox is closed and empty.
    WithTheMailbox,
    /// After that, when everything that it was handed is answered.
    WhenAllIsAnswered,
    /// After that, once it has finished what it is at.
    Then,
}

/// One stage: a loop that has a thread to itself.
pub struct Stage {
    pub name: String,
    pub ends: Ends,
    pub run: Box<dyn FnOnce() + Send>,
}

impl fmt::Debug for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Stage { name, ends, .. } = self;
        f.debug_struct("Stage").field("name", name).field("ends", ends).finish_non_exhaustive()
    }
}

/// One server, whose stages do not run yet.
#[derive(Debug)]
pub struct Server {
    pub(super) core: Arc<Core>,
    connect: Box<dyn Connect>,
    comparing: Comparing,
    publish_threads: usize,
}

impl Server {
    /// Reads the sales, and compares the clocks. Redis and the broker may come later; the server is not ready until they do.
    ///
    /// # Errors
    /// If the ledger can't be read.
    pub fn new(
        config: &Config,
        identity: Identity,
        mailbox: Arc<Mailbox>,
        shared: intake::Intake,
        connect: Box<dyn Connect>,
    ) -> Result<Server, LedgerError> {
        let (health, gate) = (Arc::new(Health::starting()), connect.gate());
        let options = Options::of(config, identity);
        let core = Core::new(options, mailbox, shared, health, Arc::clone(&gate.epochs));
        let mut ledger = connect.ledger();
        core.follow_sales(&mut *ledger)?;
        let comparing = Comparing::begin(&core, ledger, Gate::new(gate))?;
        let publish_threads = config.cluster.publish_threads;
        Ok(Server { core: Arc::new(core), connect, comparing, publish_threads })
    }

    /// What it lacks to take orders.
    pub fn health(&self) -> Arc<Health> {
        Arc::clone(&self.core.health)
    }

    /// The ways to end its stages, which go on when it is gone.
    pub fn ending(&self) -> Ending {
        Ending(Arc::clone(&self.core))
    }

    /// All of its stages but that of the webhooks.
    pub fn stages(self) -> Vec<Stage> {
        let Server { core, connect, comparing, publish_threads } = self;
        let mut stages = Vec::new();
        let mut add =
            |name: String, ends, run: Box<dyn FnOnce() + Send>| stages.push(Stage { name, ends, run });
        let new_gate = || Gate::new(connect.gate());
        let (of, gate) = (Arc::clone(&core), new_gate());
        let run = Box::new(move || Relay::new(&of, gate).run());
        add("relay".to_owned(), Ends::WithTheMailbox, run);
        for number in 0..publish_threads {
            let (of, producer) = (Arc::clone(&core), connect.producer());
            let run = Box::new(move || publish::run(&of, producer));
            add(format!("publish-{number}"), Ends::WhenAllIsAnswered, run);
        }
        let (of, ledger, gate) = (Arc::clone(&core), connect.ledger(), new_gate());
        let run = Box::new(move || Reading::new(&of, ledger, gate).run());
        add("status".to_owned(), Ends::WhenAllIsAnswered, run);
        let (of, ledger, gate) = (Arc::clone(&core), connect.ledger(), new_gate());
        let run = Box::new(move || Commanding::new(&of, ledger, gate).run());
        add("commands".to_owned(), Ends::WhenAllIsAnswered, run);
        let mut add = |name: &str, run: Box<dyn FnOnce() + Send>| add(name.to_owned(), Ends::Then, run);
        let (of, engines) = (
            Arc::clone(&core),
            consume::Engines {
                admin: connect.admin(),
                consumer: connect.consumer(),
                producer: connect.producer(),
                ledger: connect.ledger(),
                gate: new_gate(),
            },
        );
        add("consume", Box::new(move || Consuming::new(&of, engines).run()));
        let engines =
            reconcile::Engines { ledger: connect.ledger(), gate: new_gate(), admin: connect.admin() };
        let of = Arc::clone(&core);
        add("reconcile", Box::new(move || Reconciling::new(&of, engines).run()));
        let engines = watch::Engines { admin: connect.admin(), consumer: connect.consumer() };
        let of = Arc::clone(&core);
        add("watch", Box::new(move || Watching::new(&of, engines).run()));
        let (of, gate, ledger) = (Arc::clone(&core), new_gate(), connect.ledger());
        add("refresh", Box::new(move || refresh::run(&of, gate, ledger)));
        let (of, ledger) = (Arc::clone(&core), connect.ledger());
        add("operators", Box::new(move || operators::run(&of, ledger)));
        let of = Arc::clone(&core);
        add("clocks", Box::new(move || comparing.run(&of)));
        let gate = new_gate();
        add("figures-shared", Box::new(move || figures::run(&core, gate)));
        stages
    }
}

/// How the stages of a server are ended, in the order of an order's path.
#[derive(Clone, Debug)]
pub struct Ending(Arc<Core>);

impl Ending {
    /// The relay has ended: those that answer finish what they were handed.
    pub fn nothing_comes(&self) {
        let Ending(core) = self;
        core.publishing.close();
        core.status.close();
        core.commands.close();
    }

    /// Everything is answered: the stages that work on their own finish what they are at.
    pub fn stop(&self) {
        self.0.stop();
    }
}
