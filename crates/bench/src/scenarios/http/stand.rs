//! The shop under test: one embedded server, a server on real engines with the edge before it, or one that runs.
//!
//! It keeps what buyers were told, and closes with the audit. Dropped, it ends all that it started: servers first.

use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use serde_json::Value;

use crate::audit::Told;
use crate::drivers::http::once;
use crate::engines::{BrokerFlush, EngineSet, Place, find_scripts};
use crate::load::record::Outcomes;
use crate::report::model::{Audit, EngineSettings};
use crate::scenarios::{Stage, Target as Aim};
use crate::target::{OPERATOR_TOKEN, Setup, Target};
use crate::usage::Watched;

const DATABASE: &str = "bench_http";
const PREFIX: &str = "bench";
const TOPIC: &str = "bench";
/// The queues of a topic: the broker's default, see dev/engines/rocketmq.sh.
const QUEUES: u32 = 8;
const CACHE_MS: &str = "100";
/// No client of ours may be limited: all of them share one address.
const PER_CLIENT: &str = "1000000";
const DRAIN_PATIENCE: Duration = Duration::from_secs(120);
const DRAIN_POLL: Duration = Duration::from_millis(20);

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

    /// Those that this stage can measure.
    pub(super) fn of(stage: &Stage) -> &'static [Self] {
        match stage.target {
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

    fn setup(self, settings: &str) -> Setup<'_> {
        Setup { demo: matches!(self, Self::Demo), settings }
    }
}

pub(super) struct Stand {
    profile: Profile,
    server: Option<Target>,
    engines: Option<EngineSet>,
    /// Where orders go.
    pub(super) orders: SocketAddr,
    /// Where pages come from.
    pub(super) pages: SocketAddr,
    operator_token: Option<String>,
    told: Told,
    messages: Told,
    orders_before: u64,
}

impl Stand {
    /// # Errors
    /// If anything does not start, or an engine has another setting than it was to have.
    pub(super) fn open(stage: &Stage, profile: Profile, shop: Shop<'_>) -> anyhow::Result<Self> {
        // Of its own, so that a shop that is opened again starts with nothing.
        let folder = tempfile::Builder::new().prefix("shop-").tempdir_in(&stage.folder)?.keep();
        let mut stand = match (profile, &stage.target) {
            (Profile::Embedded, _) => Self::embedded(stage, &folder, shop)?,
            (Profile::Cluster, _) => Self::cluster(stage, &folder, shop)?,
            (Profile::Running, Aim::Running(addresses)) => {
                let http = addresses.http.context("no HTTP server was given: --target-http ADDRESS")?;
                Self::at(profile, http, addresses.operator_token.clone())
            }
            (Profile::Running, Aim::Spawn) => anyhow::bail!("there is no running server to measure"),
        };
        if stand.operator_token.is_some() {
            stand.orders_before = stand.numbers()?["orders"].as_u64().context("an audit counts orders")?;
        }
        Ok(stand)
    }

    fn at(profile: Profile, address: SocketAddr, operator_token: Option<String>) -> Self {
        Self {
            profile,
            server: None,
            engines: None,
            orders: address,
            pages: address,
            operator_token,
            told: Told::default(),
            messages: Told::default(),
            orders_before: 0,
        }
    }

    fn embedded(stage: &Stage, folder: &Path, shop: Shop<'_>) -> anyhow::Result<Self> {
        stage.progress.doing("starting a server");
        let server = Target::start(&stage.program, folder, shop.setup(shop.settings()))?;
        let mut stand = Self::at(Profile::Embedded, server.address(), Some(OPERATOR_TOKEN.to_owned()));
        stand.server = Some(server);
        Ok(stand)
    }

    fn cluster(stage: &Stage, folder: &Path, shop: Shop<'_>) -> anyhow::Result<Self> {
        stage.progress.doing("starting Redis, MariaDB and RocketMQ, and a server on them");
        let place = Place {
            scripts: find_scripts(&stage.scripts)?,
            folder: folder.join("engines"),
            port_base: stage.port_base,
        };
        let mut set = EngineSet::start(place, BrokerFlush::Asynchronous, &stage.stop)?;
        set.database(None)?.recreate(DATABASE)?;
        let pages = folder.join("pages");
        let settings = settings(&set, &pages)? + shop.settings();
        let server = Target::start(&stage.program, folder, shop.setup(&settings))?;
        let mut stand = Self::at(Profile::Cluster, server.address(), Some(OPERATOR_TOKEN.to_owned()));
        set.up(&["nginx"], &edge(&server, &pages), &stage.stop).context("starting the edge")?;
        stand.pages = set.address("nginx")?;
        stand.server = Some(server);
        stand.engines = Some(set);
        Ok(stand)
    }

    /// # Errors
    /// If the server refuses it.
    pub(super) fn create_sale(&self, sale: &Value) -> anyhow::Result<()> {
        let server = self.server.as_ref().context("a sale is created on a server of our own only")?;
        server.operate("/api/v1/sales", sale, 201).map(drop)
    }

    /// Units of a sale that nobody has, once the ledger has every accepted order.
    ///
    /// # Errors
    /// If the server does not say.
    pub(super) fn units_left(&self, sale: u64) -> anyhow::Result<u64> {
        let numbers = self.drain()?;
        let skus = numbers["skus"].as_array().context("an audit lists the SKUs")?;
        Ok(skus.iter().filter(|sku| sku["sale"] == sale).filter_map(|sku| sku["available"].as_u64()).sum())
    }

    /// All processes that take part, for the share of each.
    pub(super) fn watched(&self) -> Vec<Watched> {
        let mut all: Vec<Watched> = self.server.iter().map(|of| Watched::new("server", of.pid())).collect();
        all.extend(self.engines.iter().flat_map(EngineSet::all_watched));
        all
    }

    /// # Errors
    /// If an engine does not say.
    pub(super) fn engines(&self) -> anyhow::Result<Vec<EngineSettings>> {
        self.engines.as_ref().map_or_else(|| Ok(Vec::new()), EngineSet::settings)
    }

    pub(super) fn told_orders(&mut self, outcomes: &Outcomes) {
        self.told.add_outcomes(outcomes);
    }

    pub(super) fn told_messages(&mut self, outcomes: &Outcomes) {
        self.messages.accepted += outcomes.queued;
        self.messages.unknown += outcomes.unknown;
    }

    /// The audit as a gate: it is clean, or an error.
    ///
    /// # Errors
    /// `AUDIT FAILED`, and why; or what keeps the audit from being made.
    pub(super) fn close(mut self) -> anyhow::Result<Option<Audit>> {
        self.check_messages()?;
        if self.operator_token.is_none() {
            ensure!(
                self.told == Told::default(),
                "orders were placed and can't be audited without the operator's token"
            );
            return Ok(None);
        }
        let numbers = self.drain()?;
        let audit = self.judge(&numbers)?;
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

    /// Waits until the ledger has every accepted order.
    fn drain(&self) -> anyhow::Result<Value> {
        let begun = Instant::now();
        loop {
            let numbers = self.numbers()?;
            let orders = numbers["orders"].as_u64().unwrap_or(0);
            if orders >= self.orders_before + self.told.accepted || begun.elapsed() > DRAIN_PATIENCE {
                return Ok(numbers);
            }
            std::thread::sleep(DRAIN_POLL);
        }
    }

    fn judge(&self, numbers: &Value) -> anyhow::Result<Audit> {
        ensure!(
            numbers["clean"] == true && numbers["complete"] == true,
            "AUDIT FAILED: the server's own audit is not clean: {}",
            numbers["broken"]
        );
        let orders = numbers["orders"].as_u64().unwrap_or(0) - self.orders_before;
        self.told.check(orders)?;
        let sum = |name: &str| -> u64 {
            numbers["skus"].as_array().into_iter().flatten().filter_map(|sku| sku[name].as_u64()).sum()
        };
        let audit = Audit {
            initial_units: sum("total"),
            remaining_units: sum("available"),
            held_units: sum("held"),
            sold_units: sum("sold"),
            accepted: self.told.accepted,
            unknown: self.told.unknown,
            orders,
            method: match self.profile {
                Profile::Embedded => "the program's audit of the whole ledger, and its orders counted",
                Profile::Cluster => "three-way audit of gate, queue and ledger, and its orders counted",
                Profile::Running => "the running server's own audit, and its orders counted",
            }
            .to_owned(),
        };
        ensure!(
            audit.initial_units == audit.remaining_units + audit.held_units + audit.sold_units,
            "AUDIT FAILED: {audit:?}: units were lost or sold twice"
        );
        Ok(audit)
    }

    /// Each acknowledged message is in the broker's topic, or in the table of the embedded profile.
    fn check_messages(&self) -> anyhow::Result<()> {
        let stored = match (&self.engines, &self.server) {
            _ if self.messages == Told::default() => return Ok(()),
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
        let Told { accepted, unknown } = self.messages;
        ensure!(
            (accepted..=accepted + unknown).contains(&stored),
            "AUDIT FAILED: {stored} messages are stored; {accepted} were acknowledged and {unknown} are unknown"
        );
        Ok(())
    }

    fn numbers(&self) -> anyhow::Result<Value> {
        let token = self.operator_token.as_deref().context("an audit needs the operator's token")?;
        let authorization = format!("Authorization: Bearer {token}");
        let request = once::encode("GET", "/api/v1/audit", &[&authorization], &[]);
        let answer = once::exchange(self.orders, &request).context("asking for the audit")?;
        ensure!(answer.status == 200, "GET /api/v1/audit: {}", answer.text());
        serde_json::from_slice(&answer.body).context("the audit's JSON")
    }
}

fn settings(set: &EngineSet, pages: &Path) -> anyhow::Result<String> {
    Ok(format!(
        "[cluster]\nenabled = true\n\
         [gate]\naddresses = [\"{}\"]\nprefix = \"{PREFIX}\"\n\
         [queue]\nname_servers = [\"{}\"]\ntopic = \"{TOPIC}\"\n\
         [ledger]\nbackend = \"mysql\"\nmysql_address = \"{}\"\nmysql_user = \"root\"\n\
         mysql_database = \"{DATABASE}\"\n\
         [pages]\nwrite_dir = \"{}\"\n",
        set.address("redis")?,
        set.address("rocketmq-namesrv")?,
        set.address("mariadb")?,
        pages.display()
    ))
}

fn edge(server: &Target, pages: &Path) -> Vec<(&'static str, String)> {
    vec![
        ("EDGE_CACHE_MS", CACHE_MS.to_owned()),
        ("EDGE_SERVERS", server.address().to_string()),
        ("EDGE_WORKERS", "1".to_owned()),
        ("EDGE_PAGES", pages.display().to_string()),
        ("EDGE_REDIS_PREFIX", PREFIX.to_owned()),
        ("EDGE_POSTS_PER_S_PER_CLIENT", PER_CLIENT.to_owned()),
        ("EDGE_POSTS_BURST_PER_CLIENT", PER_CLIENT.to_owned()),
        ("EDGE_REQUESTS_PER_S_PER_CLIENT", PER_CLIENT.to_owned()),
        ("EDGE_REQUESTS_BURST_PER_CLIENT", PER_CLIENT.to_owned()),
    ]
}
