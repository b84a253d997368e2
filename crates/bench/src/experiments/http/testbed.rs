//! The shop under test: one embedded server, a server on real engines with the edge before it, or one that runs.
//!
//! It keeps the answers that buyers got, and closes with the audit. Dropped, it ends all that it started: servers first.

use std::net::SocketAddr;
use std::path::Path;

use anyhow::{Context, ensure};
use serde_json::Value;

use crate::audit::gates::Gates;
use crate::audit::receipts::Receipts;
use crate::audit::running::Running;
use crate::audit::{Answered, invariants};
use crate::experiments::{ScenarioContext, Target as Aim};
use crate::host::usage::Watched;
use crate::load::record::Outcomes;
use crate::report::model::{Audit, EngineSettings};
use crate::target::engines::{EngineSet, EngineSite, Flushes};
use crate::target::installation::Installation;
use crate::target::installation::cluster::{PREFIX, Shop, TOPIC};
use crate::target::{OPERATOR_TOKEN, Setup, Target};

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

/// The system under test, and the answers that its buyers got.
pub(super) struct HttpTestbed {
    /// `None`: a server that is not ours.
    servers: Option<Installation>,
    pub(super) orders: SocketAddr,
    pub(super) pages: SocketAddr,
    /// `None`: a running server whose audit nobody may ask for, so that nobody may order there.
    audit: Option<Running>,
    /// As they were before the load; `None` where no order may be placed.
    gates: Option<Gates>,
    pub(super) receipts: Receipts,
    pub(super) answered: Answered,
    messages: Answered,
}

impl HttpTestbed {
    pub(super) fn open(
        context: &ScenarioContext,
        profile: Profile,
        setup: Setup<'_>,
    ) -> anyhow::Result<Self> {
        // Of its own, so that a shop that is opened again starts with nothing.
        let folder = tempfile::Builder::new().prefix("shop-").tempdir_in(&context.folder)?.keep();
        let (mut servers, mut pages) = (None, None);
        match profile {
            Profile::Embedded => {
                context.progress.doing("starting a server");
                let server = Target::start(&context.program, &folder.join("server"), setup)?;
                servers = Some(Installation::Embedded(server));
            }
            Profile::Cluster => {
                let (installation, edge) = cluster(context, &folder, setup)?;
                (servers, pages) = (Some(installation), Some(edge));
            }
            Profile::Running => {}
        }
        let (orders, token) = match (&servers, &context.target) {
            (Some(servers), _) => (servers.addresses()[0], Some(OPERATOR_TOKEN)),
            (None, Aim::Running(addresses)) => {
                let http = addresses.http.context("no HTTP server was given: --target-http ADDRESS")?;
                (http, addresses.operator_token.as_deref())
            }
            (None, Aim::Spawn) => anyhow::bail!("there is no running server to measure"),
        };
        let audit = |token| Running::open(orders, Some(token), &context.stop);
        let audit = token.map(audit).transpose()?.map(|audit| audit.reporting_to(&context.progress));
        let mut testbed = Self {
            servers,
            orders,
            pages: pages.unwrap_or(orders),
            audit,
            gates: None,
            receipts: Receipts::create(&folder.join("receipts")).context("the file of receipts")?,
            answered: Answered::default(),
            messages: Answered::default(),
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

    /// To be called before the first order: an error if orders could not be audited.
    pub(super) fn check_audited(&self) -> anyhow::Result<()> {
        if self.audit.is_none() {
            Running::open(self.orders, None, &std::sync::Arc::default())?;
        }
        Ok(())
    }

    pub(super) fn create_sale(&mut self, context: &ScenarioContext, sale: &Value) -> anyhow::Result<()> {
        let servers = self.servers.as_mut().context("a sale is created on a server of our own only")?;
        servers.first_server().operate("/api/v1/sales", sale, 201)?;
        self.wait_for_gates(context)
    }

    /// Units of a sale that nobody has, once the ledger has every accepted order.
    pub(super) fn units_left(&self, sale: u64) -> anyhow::Result<u64> {
        let audit = self.audit.as_ref().context("an audit needs the operator's token")?;
        let numbers = audit.drain(self.answered)?;
        let skus = numbers["skus"].as_array().context("an audit lists the SKUs")?;
        Ok(skus.iter().filter(|sku| sku["sale"] == sale).filter_map(|sku| sku["available"].as_u64()).sum())
    }

    /// All processes that take part, for the share of each.
    pub(super) fn watched(&self) -> Vec<Watched> {
        let all = self.servers.as_ref().map(Installation::watched).unwrap_or_default();
        // The only one of a cluster goes by the name that the server of the embedded profile has.
        let named = |of: Watched| if of.name == "server 1" { Watched::new("server", of.pid) } else { of };
        all.into_iter().map(named).collect()
    }

    /// Of the engines, and of the server that is ours.
    pub(super) fn engines(&self) -> anyhow::Result<Vec<EngineSettings>> {
        self.servers.as_ref().map_or_else(|| Ok(Vec::new()), Installation::settings)
    }

    pub(super) fn add_messages(&mut self, outcomes: &Outcomes) {
        self.messages.accepted += outcomes.queued;
        self.messages.unknown += outcomes.unknown;
    }

    /// The audit as a gate: it is clean, or an error, `AUDIT FAILED` or what keeps it from being made.
    pub(super) fn close(mut self) -> anyhow::Result<Option<Audit>> {
        self.check_messages()?;
        let Some(running) = &self.audit else {
            assert_eq!(self.answered, Answered::default(), "check_audited() comes before the first order");
            return Ok(None);
        };
        let audit = match &self.servers {
            None => running.close(self.answered)?,
            Some(servers) => {
                let audit = running.judge(&running.drain(self.answered)?, self.answered, method(servers))?;
                invariants::acknowledged(servers.ledger()?.as_mut(), self.answered, &mut self.receipts)?;
                audit
            }
        };
        // After the ledger's own audit: orders that are missing weigh more than a gate that was lost.
        self.gates.iter().try_for_each(Gates::check)?;
        self.servers.map_or(Ok(()), Installation::end)?;
        Ok(Some(audit))
    }

    /// Each acknowledged message is in the broker's topic, or in the table of the embedded profile.
    fn check_messages(&self) -> anyhow::Result<()> {
        let stored = match &self.servers {
            _ if self.messages == Answered::default() => return Ok(()),
            // Nobody may look into a server that is not ours.
            None => return Ok(()),
            Some(Installation::Cluster { set, .. }) => {
                let (mut broker, topic) = (set.broker()?, format!("{TOPIC}-messages"));
                (0..QUEUES).map(|queue| broker.max_offset(&topic, queue)).sum::<anyhow::Result<u64>>()?
            }
            Some(Installation::Embedded(server)) => {
                crate::audit::messages(&server.data_dir()).context("counting messages")?
            }
        };
        let Answered { accepted, unknown } = self.messages;
        ensure!(
            (accepted..=accepted + unknown).contains(&stored),
            "AUDIT FAILED: {stored} messages are stored; {accepted} were acknowledged and {unknown} are unknown"
        );
        Ok(())
    }
}

/// A server on engines of its own, and the address of the edge in front of it.
fn cluster(
    context: &ScenarioContext,
    folder: &Path,
    setup: Setup<'_>,
) -> anyhow::Result<(Installation, SocketAddr)> {
    context.progress.doing("starting Redis, MariaDB and RocketMQ, and a server on them");
    // A shop that is opened again has engines that start with nothing.
    let site = EngineSite { folder: folder.join("engines"), ..context.engine_site(0) };
    let mut set = EngineSet::start(site, Flushes::QUICK, &context.stop)?;
    let pages = folder.join("pages");
    let settings = format!("[pages]\nwrite_dir = \"{}\"\n{}", pages.display(), setup.settings);
    let setup = Setup { settings: &settings, ..setup };
    let shop = Shop::open(&context.program, &folder.join("servers"), &set, setup)?;
    set.up_edge(&shop.addresses(), PREFIX, CACHE_MS, Some(&pages), &context.stop)?;
    let edge = set.address("nginx")?;
    Ok((Installation::Cluster { shop: Box::new(shop), set }, edge))
}

/// How the orders of a server of our own are audited.
fn method(servers: &Installation) -> &'static str {
    match servers {
        Installation::Cluster { .. } => {
            "three-way audit of gate, queue and ledger, and the id of every acknowledged order looked up in it"
        }
        Installation::Embedded(_) => {
            "the program's audit of the whole ledger, and the id of every acknowledged order looked up in it"
        }
    }
}
