//! The shop under test: one embedded server, a server on real engines with the edge before it, or one that runs.
//!
//! It keeps the answers that buyers got, and closes with the audit. Dropped, it ends all that it started: servers first.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::{Context, ensure};
use serde_json::Value;

use crate::audit::gates::Gates;
use crate::audit::invariants::{self, Rows};
use crate::audit::receipts::Receipts;
use crate::audit::running::Running;
use crate::audit::{Answered, Ledger};
use crate::experiments::{ScenarioContext, Target as Aim};
use crate::host::usage::Watched;
use crate::load::record::Outcomes;
use crate::report::model::{Audit, EngineSettings};
use crate::target::engines::{BrokerFlush, EngineSet, EngineSite};
use crate::target::{OPERATOR_TOKEN, Setup, Target};

const DATABASE: &str = "bench_http";
const PREFIX: &str = "bench";
const TOPIC: &str = "bench";
/// The queues of a topic: the broker's default, see dev/engines/rocketmq.sh.
const QUEUES: u32 = 8;
const CACHE_MS: u64 = 100;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Profile {
    /// One process and its SQLite.
    Embedded,
    /// Redis, RocketMQ and MariaDB; pages from the edge.
    Cluster,
    /// Whatever answers at the address that the caller gave.
    Running,
}

impl Profile {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Embedded => "embedded",
            Self::Cluster => "cluster",
            Self::Running => "running server",
        }
    }

    /// Those that can be measured at this target.
    pub(super) fn of(context: &ScenarioContext) -> &'static [Self] {
        match context.target {
            Aim::Spawn => &[Self::Embedded, Self::Cluster],
            Aim::Running(_) => &[Self::Running],
        }
    }
}

/// What is sold.
#[derive(Debug, Clone, Copy)]
pub(super) enum Shop<'a> {
    /// The demo's sales, for the published commands.
    Demo,
    /// A sale of the scenario's own, for buyers with tokens; more of the configuration file, in whole sections.
    Own { settings: &'a str },
}

impl<'a> Shop<'a> {
    fn settings(self) -> &'a str {
        match self {
            Self::Demo => "",
            Self::Own { settings } => settings,
        }
    }

    fn setup<'s>(self, settings: &'s str, stop: &'s Arc<AtomicBool>) -> Setup<'s> {
        Setup { demo: matches!(self, Self::Demo), settings, stop }
    }
}

/// The system under test, and the answers that its buyers got.
pub(super) struct HttpTestbed {
    profile: Profile,
    server: Option<Target>,
    engines: Option<EngineSet>,
    /// Where orders go.
    pub(super) orders: SocketAddr,
    /// Where pages come from.
    pub(super) pages: SocketAddr,
    /// `None`: a running server whose audit nobody may ask for, so that nobody may order there.
    audit: Option<Running>,
    /// As they were before the load; `None` where no order may be placed.
    gates: Option<Gates>,
    /// The id of every acknowledged order.
    pub(super) receipts: Receipts,
    answered: Answered,
    messages: Answered,
}

impl HttpTestbed {
    /// # Errors
    /// If anything does not start, or an engine has another setting than it was to have.
    pub(super) fn open(context: &ScenarioContext, profile: Profile, shop: Shop<'_>) -> anyhow::Result<Self> {
        // Of its own, so that a shop that is opened again starts with nothing.
        let folder = tempfile::Builder::new().prefix("shop-").tempdir_in(&context.folder)?.keep();
        let mut testbed = match (profile, &context.target) {
            (Profile::Embedded, _) => Self::embedded(context, &folder, shop)?,
            (Profile::Cluster, _) => Self::cluster(context, &folder, shop)?,
            (Profile::Running, Aim::Running(addresses)) => {
                let http = addresses.http.context("no HTTP server was given: --target-http ADDRESS")?;
                let token = addresses.operator_token.as_deref();
                let open = |_| Running::open(http, token, &context.stop);
                let audit = token.map(open).transpose()?.map(|audit| audit.reporting_to(&context.progress));
                Self::at(profile, &folder, http, audit)?
            }
            (Profile::Running, Aim::Spawn) => anyhow::bail!("there is no running server to measure"),
        };
        testbed.wait_for_gates(context)?;
        Ok(testbed)
    }

    /// Nothing can be measured before: a server is ready before it has built them.
    fn wait_for_gates(&mut self, context: &ScenarioContext) -> anyhow::Result<()> {
        let token = match &context.target {
            Aim::Spawn => Some(OPERATOR_TOKEN),
            Aim::Running(addresses) => addresses.operator_token.as_deref(),
        };
        let opened = |token| Gates::opened(self.orders, token, &context.stop, Some(&context.progress));
        self.gates = token.map(opened).transpose()?;
        Ok(())
    }

    fn at(
        profile: Profile,
        folder: &Path,
        address: SocketAddr,
        audit: Option<Running>,
    ) -> anyhow::Result<Self> {
        Ok(Self {
            profile,
            receipts: Receipts::create(&folder.join("receipts")).context("the file of receipts")?,
            server: None,
            engines: None,
            orders: address,
            pages: address,
            audit,
            gates: None,
            answered: Answered::default(),
            messages: Answered::default(),
        })
    }

    fn embedded(context: &ScenarioContext, folder: &Path, shop: Shop<'_>) -> anyhow::Result<Self> {
        context.progress.doing("starting a server");
        let server = Target::start(&context.program, folder, shop.setup(shop.settings(), &context.stop))?;
        let audit = Running::open(server.address(), Some(OPERATOR_TOKEN), &context.stop)?;
        let audit = Some(audit.reporting_to(&context.progress));
        let mut testbed = Self::at(Profile::Embedded, folder, server.address(), audit)?;
        testbed.server = Some(server);
        Ok(testbed)
    }

    fn cluster(context: &ScenarioContext, folder: &Path, shop: Shop<'_>) -> anyhow::Result<Self> {
        context.progress.doing("starting Redis, MariaDB and RocketMQ, and a server on them");
        // A shop that is opened again has engines that start with nothing.
        let site = EngineSite { folder: folder.join("engines"), ..context.engine_site(0) };
        let mut set = EngineSet::start(site, BrokerFlush::Asynchronous, &context.stop)?;
        set.database(None)?.recreate(DATABASE)?;
        let pages = folder.join("pages");
        let settings = settings(&set, &pages)? + shop.settings();
        let server = Target::start(&context.program, folder, shop.setup(&settings, &context.stop))?;
        let audit = Running::open(server.address(), Some(OPERATOR_TOKEN), &context.stop)?;
        let audit = Some(audit.reporting_to(&context.progress));
        let mut testbed = Self::at(Profile::Cluster, folder, server.address(), audit)?;
        set.up_edge(&[server.address()], PREFIX, CACHE_MS, Some(&pages), &context.stop)?;
        testbed.pages = set.address("nginx")?;
        testbed.server = Some(server);
        testbed.engines = Some(set);
        Ok(testbed)
    }

    /// To be called before the first order.
    ///
    /// # Errors
    /// If the orders could not be audited.
    pub(super) fn check_audited(&self) -> anyhow::Result<()> {
        if self.audit.is_none() {
            Running::open(self.orders, None, &Arc::default())?;
        }
        Ok(())
    }

    /// # Errors
    /// If the server refuses it.
    pub(super) fn create_sale(&mut self, context: &ScenarioContext, sale: &Value) -> anyhow::Result<()> {
        let server = self.server.as_ref().context("a sale is created on a server of our own only")?;
        server.operate("/api/v1/sales", sale, 201)?;
        self.wait_for_gates(context)
    }

    /// Units of a sale that nobody has, once the ledger has every accepted order.
    ///
    /// # Errors
    /// If the server does not say.
    pub(super) fn units_left(&self, sale: u64) -> anyhow::Result<u64> {
        let audit = self.audit.as_ref().context("an audit needs the operator's token")?;
        let numbers = audit.drain(self.answered)?;
        let skus = numbers["skus"].as_array().context("an audit lists the SKUs")?;
        Ok(skus.iter().filter(|sku| sku["sale"] == sale).filter_map(|sku| sku["available"].as_u64()).sum())
    }

    /// All processes that take part, for the share of each.
    pub(super) fn watched(&self) -> Vec<Watched> {
        let mut all: Vec<Watched> = self.server.iter().map(|of| Watched::new("server", of.pid())).collect();
        all.extend(self.engines.iter().flat_map(EngineSet::all_watched));
        all
    }

    /// Of the engines, and of the server that is ours.
    ///
    /// # Errors
    /// If one of them does not say.
    pub(super) fn engines(&self) -> anyhow::Result<Vec<EngineSettings>> {
        let mut found = self.engines.as_ref().map_or_else(|| Ok(Vec::new()), EngineSet::settings)?;
        if let Some(server) = &self.server {
            found.push(server.settings()?);
        }
        Ok(found)
    }

    pub(super) fn add_orders(&mut self, outcomes: &Outcomes) {
        self.answered.add(outcomes);
    }

    pub(super) fn add_messages(&mut self, outcomes: &Outcomes) {
        self.messages.accepted += outcomes.queued;
        self.messages.unknown += outcomes.unknown;
    }

    /// The audit as a gate: it is clean, or an error.
    ///
    /// # Errors
    /// `AUDIT FAILED`, and why; or what keeps the audit from being made.
    pub(super) fn close(mut self) -> anyhow::Result<Option<Audit>> {
        self.check_messages()?;
        let Some(running) = &self.audit else {
            assert_eq!(self.answered, Answered::default(), "check_audited() comes before the first order");
            return Ok(None);
        };
        let audit = match self.profile {
            Profile::Running => running.close(self.answered)?,
            Profile::Embedded | Profile::Cluster => {
                running.judge(&running.drain(self.answered)?, self.answered, self.method())?
            }
        };
        if let Some(mut ledger) = self.ledger()? {
            invariants::acknowledged(ledger.as_mut(), self.answered, &mut self.receipts)?;
        }
        // After the ledger's own audit: orders that are missing weigh more than a gate that was lost.
        self.gates.iter().try_for_each(Gates::check)?;
        if let Some(server) = &mut self.server {
            if self.engines.is_some() {
                server.audit_config()?;
                server.stop()?;
            } else {
                server.stop()?;
                server.audit()?;
            }
        }
        Ok(Some(audit))
    }

    /// Nobody may look into the ledger of a server that is not ours.
    fn ledger(&self) -> anyhow::Result<Option<Box<dyn Rows>>> {
        Ok(match (&self.engines, &self.server) {
            (Some(set), _) => Some(Box::new(set.database(Some(DATABASE))?)),
            (None, Some(server)) => Some(Box::new(Ledger::open(&server.data_dir())?)),
            (None, None) => None,
        })
    }

    /// How the orders of a server of our own are audited.
    fn method(&self) -> &'static str {
        if self.engines.is_some() {
            "three-way audit of gate, queue and ledger, and the id of every acknowledged order looked up in it"
        } else {
            "the program's audit of the whole ledger, and the id of every acknowledged order looked up in it"
        }
    }

    /// Each acknowledged message is in the broker's topic, or in the table of the embedded profile.
    fn check_messages(&self) -> anyhow::Result<()> {
        let stored = match (&self.engines, &self.server) {
            _ if self.messages == Answered::default() => return Ok(()),
            (Some(set), _) => {
                let (mut broker, topic) = (set.broker()?, format!("{TOPIC}-messages"));
                (0..QUEUES).map(|queue| broker.max_offset(&topic, queue)).sum::<anyhow::Result<u64>>()?
            }
            (None, Some(server)) => {
                crate::audit::messages(&server.data_dir()).context("counting messages")?
            }
            // Nobody may look into a server that is not ours.
            (None, None) => return Ok(()),
        };
        let Answered { accepted, unknown } = self.messages;
        ensure!(
            (accepted..=accepted + unknown).contains(&stored),
            "AUDIT FAILED: {stored} messages are stored; {accepted} were acknowledged and {unknown} are unknown"
        );
        Ok(())
    }
}

fn settings(set: &EngineSet, pages: &Path) -> anyhow::Result<String> {
    let engines = set.cluster_settings(PREFIX, TOPIC, DATABASE)?;
    Ok(format!("{engines}[pages]\nwrite_dir = \"{}\"\n", pages.display()))
}
